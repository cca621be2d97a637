//! Networks and backends that do not work, in sessions with the real program: errors are clear, and the engine
//! survives and uses the next network or backend.

use std::{fs, io::Write, path::PathBuf};

use crate::common::{session::Session, shared};
use flate2::{Compression, write::GzEncoder};
use scorn::network::backend::{BACKENDS, from_lc0};
use shakmaty::uci::UciMove;

const NETWORKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks");

fn set(session: &mut Session, name: &str, value: &str) {
    session.send(&format!("setoption name {name} value {value}"));
}

/// The error that this causes, which is the only output until the engine is ready.
fn error_before_ready(session: &mut Session) -> String {
    let lines = session.send_and_sync("position startpos");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let error = lines[0].strip_prefix("info string error: ");
    error.unwrap_or_else(|| panic!("{lines:?}")).to_owned()
}

/// The built-in network finds a move meanwhile, which is reported; then another network is used.
fn assert_recovers(session: &mut Session) {
    assert_stands_in(session);
    set(session, "WeightsFile", &format!("{NETWORKS}/tiny.onnx"));
    assert_searches(session);
}

fn assert_stands_in(session: &mut Session) {
    let (best, lines) = session.go("go nodes 3");
    assert_ne!(best, "(none)", "{lines:?}");
    let is_reported = |line: &String| line.ends_with("the built-in network plays this move");
    assert!(lines.iter().any(is_reported), "{lines:?}");
}

fn assert_searches(session: &mut Session) -> Vec<String> {
    assert_eq!(session.send_and_sync("position startpos"), [""; 0]);
    let (best, lines) = session.go("go nodes 3");
    assert_ne!(best, "(none)", "{lines:?}");
    lines
}

/// Sessions with the available backends.
fn sessions() -> Vec<Session> {
    ["rten", "onnx-cpu"]
        .into_iter()
        .filter_map(|backend| {
            let mut session = Session::with(&["--backend", backend, "--threads", "1"]);
            set(
                &mut session,
                "WeightsFile",
                &format!("{NETWORKS}/tiny.onnx"),
            );
            let said = session.send_and_sync("position startpos");
            if backend != "rten" && said.iter().any(|line| line.contains("ONNX Runtime")) {
                crate::common::skipped(&said.join(" "));
                return None;
            }
            assert!(said.is_empty(), "{said:?}");
            Some(session)
        })
        .collect()
}

#[test]
fn a_network_of_another_kind_is_refused_by_its_tensor() {
    for mut session in sessions() {
        for (file, parts) in [
            ("nan.onnx", ["output policy", "not a finite number"]),
            ("narrow.onnx", ["/output/policy", "[batch, 1858]"]),
            ("liar.onnx", ["1858", "1800"]),
            ("planes.onnx", ["/input/planes", "[batch, 112, 8, 8]"]),
            ("outputs.onnx", ["/output/policy", "it has: moves"]),
            ("inputs.onnx", ["temperature", "inputs.onnx"]),
        ] {
            set(&mut session, "WeightsFile", &format!("{NETWORKS}/{file}"));
            let error = error_before_ready(&mut session);
            assert!(error.contains(file), "{error}");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            assert_recovers(&mut session);
        }
        session.end();
    }
}

#[test]
fn a_network_that_breaks_during_the_search_ends_only_the_search() {
    for mut session in sessions() {
        set(
            &mut session,
            "WeightsFile",
            &format!("{NETWORKS}/late-nan.onnx"),
        );
        // The starting position works.
        assert_eq!(session.send_and_sync("position startpos"), [""; 0]);
        let (best, lines) = session.go("go nodes 100");
        // The move found so far is played; the error is reported once, and so is every other line.
        assert_ne!(best, "(none)", "{lines:?}");
        let errors = lines.iter().filter(|line| line.contains("error"));
        let [error] = errors.collect::<Vec<_>>()[..] else {
            panic!("{lines:?}");
        };
        assert!(
            error.contains("late-nan.onnx") && error.contains("policy"),
            "{error}"
        );
        let distinct: std::collections::BTreeSet<&String> = lines.iter().collect();
        assert_eq!(distinct.len(), lines.len(), "{lines:?}");
        set(
            &mut session,
            "WeightsFile",
            &format!("{NETWORKS}/tiny.onnx"),
        );
        assert_searches(&mut session);
        session.end();
    }
}

/// Files that are damaged or not networks, and the required part of the message about each.
fn broken_files(folder: &std::path::Path) -> Vec<(PathBuf, &'static str)> {
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let tiny = fs::read(format!("{NETWORKS}/tiny.onnx")).unwrap();
    let mut nonsense = GzEncoder::new(Vec::new(), Compression::fast());
    // It begins like an lc0 network.
    nonsense.write_all(&[0x0d, 0xc0, 0x01, 0, 0]).unwrap();
    nonsense.write_all(&[0xff; 1000]).unwrap();
    let mut files = vec![
        (write("empty.pb.gz", b""), "the file is empty"),
        (
            write("text.pb.gz", b"<html>404</html>"),
            "not an lc0 network",
        ),
        (
            write("nonsense.pb.gz", &nonsense.finish().unwrap()),
            "damaged",
        ),
        (write("empty.onnx", b""), "the file is empty"),
        (write("packed.onnx", &[0x1f, 0x8b, 8, 0]), "packed by gzip"),
        (
            write("lc0.onnx", &[0x0d, 0xc0, 0x01, 0, 0]),
            "one of lc0's networks",
        ),
        (write("text.onnx", b"<html>404</html>"), "it is a web page"),
        (write("short.onnx", &tiny[..tiny.len() / 2]), "damaged"),
        (folder.join("missing.pb.gz"), "os error"),
        (folder.to_owned(), "it is a folder"),
    ];
    if let Some(maia) = shared("nets/maia-1900.pb.gz") {
        let maia = fs::read(maia).unwrap();
        files.push((
            write("short.pb.gz", &maia[..maia.len() / 2]),
            "damaged gzip",
        ));
        let mut corrupt = maia.clone();
        corrupt[maia.len() / 2] ^= 0xff;
        files.push((write("corrupt.pb.gz", &corrupt), "damaged"));
    }
    files
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for mut session in sessions() {
        for (path, what) in broken_files(folder.path()) {
            let path = path.to_str().unwrap();
            set(&mut session, "WeightsFile", path);
            let error = error_before_ready(&mut session);
            assert!(
                error.contains(path) && error.contains(what),
                "{path}: {error}"
            );
            assert_recovers(&mut session);
        }
        session.end();
    }
}

#[test]
fn a_missing_human_network_is_reported_with_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = folder.path().join("maia-{maia}.onnx");
    let file = folder.path().join("maia-1500.onnx");
    let (wanted, name) = (wanted.to_str().unwrap(), file.to_str().unwrap());
    let mut session = Session::with(&["--threads", "1"]);
    for (option, value) in [("UCI_LimitStrength", "true"), ("UCI_Elo", "1480")] {
        set(&mut session, option, value);
    }
    set(&mut session, "HumanWeights", wanted);
    let game = crate::common::game("startpos", ["e2e4", "e7e5"]);
    // Each move tries again, because the file may have been added by then; the same error is reported once.
    for (bytes, what, asked) in [
        (None, "os error", &["isready", "go nodes 3"][..]),
        (
            Some(&b"<html>404</html>"[..]),
            "it is a web page",
            &["go nodes 3", "go wtime 1000 btime 1000"],
        ),
    ] {
        if let Some(bytes) = bytes {
            fs::write(&file, bytes).unwrap();
        }
        session.send("position startpos moves e2e4 e7e5");
        for (number, &send_and_sync) in asked.iter().enumerate() {
            session.send(send_and_sync);
            let end = if send_and_sync == "isready" {
                "readyok"
            } else {
                "bestmove"
            };
            let lines = session.until(end);
            let begin = "info string error: HumanWeights: ";
            let error = lines.iter().find(|line| line.starts_with(begin));
            assert_eq!(error.is_some(), number == 0, "{send_and_sync}: {lines:?}");
            let is_named = |error: &String| error.contains(name) && error.contains(what);
            assert!(error.is_none_or(is_named), "{lines:?}");
            if let Some(answer) = lines.last().unwrap().strip_prefix("bestmove ") {
                let best: UciMove = answer.split(' ').next().unwrap().parse().unwrap();
                assert!(best.to_move(game.position()).is_ok(), "{lines:?}");
                let is_reported =
                    |line: &String| line.ends_with("the built-in network plays this move");
                assert!(lines.iter().any(is_reported), "{lines:?}");
            }
        }
    }
    // Above human ratings the file is not needed.
    set(&mut session, "UCI_Elo", "2100");
    assert_eq!(session.send_and_sync("position startpos"), [""; 0]);
    let (best, lines) = session.go("go nodes 3");
    assert_ne!(best, "(none)", "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.contains("error")),
        "{lines:?}"
    );
    session.end();
}

/// The names of lc0's backends, and Scorn's backends for them.
const OF_LC0: [(&str, &str); 36] = [
    ("cuda", "cuda"),
    ("cuda-auto", "cuda"),
    ("cuda-fp16", "cuda"),
    ("cudnn-auto", "cuda"),
    ("cudnn", "cuda"),
    ("cudnn-fp16", "cuda"),
    ("onnx-cuda", "cuda"),
    ("onnx-trt", "tensorrt"),
    ("onnx-cpu", "onnx-cpu"),
    ("onnx-dml", "directml"),
    ("onnx-coreml", "coreml"),
    ("onnx-openvino", "openvino"),
    ("onnx-rocm", "auto"),
    ("onnx-migraphx", "auto"),
    ("blas", "auto"),
    ("eigen", "auto"),
    ("mkl", "auto"),
    ("dnnl", "auto"),
    ("onednn", "auto"),
    ("opencl", "auto"),
    ("dx12", "auto"),
    ("metal", "auto"),
    ("sycl", "auto"),
    ("sycl-fp16", "auto"),
    ("xla", "auto"),
    ("tensorflow", "auto"),
    ("tensorflow-cc", "auto"),
    ("tensorflow-cc-cpu", "auto"),
    ("recordreplay", "auto"),
    ("demux", "multiplexing"),
    ("multiplexing", "multiplexing"),
    ("roundrobin", "roundrobin"),
    ("check", "check"),
    ("random", "hash"),
    ("trivial", "hash"),
    ("CUDNN", "cuda"),
];

#[test]
fn names_of_lc0s_backends_are_mapped_and_reported() {
    let known = BACKENDS.iter().map(|factory| factory.info().name);
    let known: Vec<&str> = known.collect();
    let mut session = Session::with(&["--threads", "1"]);
    let mut expected = Vec::new();
    for (theirs, ours) in OF_LC0 {
        let (taken, note) = from_lc0("backend", theirs);
        assert!(ours.eq_ignore_ascii_case(taken), "{theirs}");
        assert_eq!(from_lc0("PolicyHead", theirs), (theirs, None));
        assert!(known.contains(&ours), "{ours}");
        let is_ours = theirs == ours;
        assert_eq!(note.is_none(), is_ours, "{theirs}");
        if !is_ours {
            expected.push(format!(
                "info string '{theirs}' is a backend of lc0; Scorn uses {ours} instead"
            ));
        }
        set(&mut session, "Backend", theirs);
    }
    set(&mut session, "Backend", "trivial");
    expected.push("info string 'trivial' is a backend of lc0; Scorn uses hash instead".into());
    assert_eq!(session.send_and_sync("position startpos"), expected);
    let (best, lines) = session.go("go nodes 3");
    assert!(best != "(none)" && lines[0].contains("hash"), "{lines:?}");
    session.end();
}

/// The folder with the installed wheel for NVIDIA GPUs; its output on a machine without a GPU cannot be tested
/// otherwise.
fn gpu_library() -> Option<String> {
    let folder = std::env::var("SCORN_ORT_GPU").ok();
    if folder.is_none() {
        crate::common::skipped(
            "set SCORN_ORT_GPU to a folder made by pip install --target FOLDER --no-deps onnxruntime-gpu",
        );
    }
    folder
}

#[test]
fn a_missing_gpu_is_an_error_and_never_replaced() {
    let Some(library) = gpu_library() else { return };
    let tiny = format!("{NETWORKS}/tiny.onnx");
    let arguments = [
        "--weights",
        &tiny,
        "--onnxruntime-path",
        &library,
        "--threads",
        "1",
    ];
    for backend in ["cuda", "tensorrt"] {
        let mut session = Session::with(&[&arguments[..], &["--backend", backend]].concat());
        let said = session.send_and_sync("position startpos");
        if said.is_empty() {
            crate::common::skipped(&format!("{backend} works here"));
            continue;
        }
        assert_eq!(said.len(), 1, "{said:?}");
        let expected = format!("info string error: backend {backend} is not available: ");
        assert!(said[0].starts_with(&expected), "{said:?}");
        assert!(!said[0].contains("onnxruntime_src"), "{said:?}");
        let next = ["install", "Backend auto"];
        assert!(next.iter().any(|step| said[0].contains(step)), "{said:?}");
        assert_stands_in(&mut session);
        // The loaded library serves the CPU as well.
        set(&mut session, "Backend", "onnx-cpu");
        let lines = assert_searches(&mut session);
        assert!(lines[0].starts_with("info string onnx-cpu ("), "{lines:?}");
        session.end();
    }
    let mut session = Session::with(&arguments);
    let lines = assert_searches(&mut session);
    // One line that fits a screen; the reasons are printed by `scorn runtime`.
    assert!(lines[0].contains("not used: tensorrt"), "{lines:?}");
    assert!(lines[0].contains("(see scorn runtime)"), "{lines:?}");
    assert!(!lines[0].contains("install"), "{lines:?}");
    session.end();
}

#[test]
fn a_backend_that_is_missing_gives_the_same_reason_every_time() {
    let tiny = format!("{NETWORKS}/tiny.onnx");
    let mut session = Session::with(&["--weights", &tiny, "--threads", "1"]);
    for backend in ["tensorrt", "cuda", "openvino"] {
        let [first, second] = [(); 2].map(|()| {
            set(&mut session, "Backend", "rten");
            assert!(session.send_and_sync("position startpos").is_empty());
            set(&mut session, "Backend", backend);
            session.send_and_sync("position startpos")
        });
        assert_eq!(first, second, "{backend}");
    }
    set(&mut session, "Backend", "rten");
    assert_searches(&mut session);
    session.end();
}

#[test]
fn an_unreasonable_batch_size_is_refused() {
    for mut session in sessions() {
        set(&mut session, "BackendOptions", "batch=1/100000");
        let error = error_before_ready(&mut session);
        assert!(error.contains("batch"), "{error}");
        set(&mut session, "BackendOptions", "");
        assert_searches(&mut session);
        session.end();
    }
}

#[test]
fn the_reasons_against_other_backends_fit_a_screen() {
    let tiny = format!("{NETWORKS}/tiny.onnx");
    let mut session = Session::with(&["--weights", &tiny, "--threads", "1"]);
    let lines = assert_searches(&mut session);
    let line = lines[0].strip_prefix("info string ").unwrap();
    // The used backend is described with its paths; the others only by name.
    let (used, skipped) = line.split_once("; not used: ").unwrap();
    let skipped = skipped.strip_suffix(" (see scorn runtime)").unwrap();
    let before = ["tensorrt", "cuda", "openvino", "onnx-cpu", "rten"];
    let before = before.iter().take_while(|name| !used.starts_with(*name));
    assert_eq!(skipped, before.copied().collect::<Vec<_>>().join(", "));
    session.end();
}
