//! `scorn backendbench`, `scorn runtime` and `scorn tune` as a user runs them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::session::Session;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks/tiny.onnx");

fn scorn(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(stdout).into_owned()
}

#[test]
fn backendbench_prints_a_line_for_each_size_and_thread_count() {
    let common = [
        "--weights",
        TINY,
        "--backend",
        "rten",
        "backendbench",
        "--sizes",
        "1,8",
        "--time",
        "20",
    ];
    let text = stdout(&scorn(&[&common[..], &["--bench-threads", "1,2"]].concat()));
    assert_eq!(text.lines().count(), 6, "{text}");
    let text = stdout(&scorn(
        &[&common[..], &["--bench-threads", "2", "--json"]].concat(),
    ));
    for (line, size) in text.lines().zip([1, 8]) {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (row["batch"].as_u64(), row["threads"].as_u64()),
            (Some(size), Some(2))
        );
        assert!(row["evals_per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(row["mixed"].as_bool(), Some(false));
    }
    let text = stdout(&scorn(&[&common[..], &["--mixed", "--json"]].concat()));
    assert!(
        text.lines().all(|line| line.contains("\"mixed\":true")),
        "{text}"
    );
}

#[test]
fn a_backend_that_is_not_there_is_one_line_and_exit_code_1() {
    let output = scorn(&[
        "--weights",
        TINY,
        "--backend",
        "onnx-cpu",
        "--onnxruntime-path",
        "/nowhere",
        "backendbench",
    ]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr.trim().lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("onnx-cpu") && stderr.contains("/nowhere"),
        "{stderr}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_library_that_does_not_load_is_reported_with_the_reason_and_who_named_it() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libonnxruntime.so");
    std::fs::write(&library, "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.env("ORT_DYLIB_PATH", &library);
    command.args(["-w", TINY, "-b", "onnx-cpu", "backendbench"]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in ["file too short", "clear ORT_DYLIB_PATH"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    // Another one elsewhere would have no effect.
    assert!(!stderr.contains("pip install"), "{stderr}");
}

#[test]
fn auto_reports_a_library_that_is_named_wrongly() {
    let mut session = Session::with(&["-w", TINY, "--onnxruntime-path", "/nowhere"]);
    let (_, lines) = session.go("go nodes 1");
    let reports = lines.iter().filter(|line| line.contains("/nowhere"));
    let reports: Vec<_> = reports.collect();
    let [report] = reports[..] else {
        panic!("{lines:?}")
    };
    assert!(
        report.starts_with("info string error: OnnxRuntimePath"),
        "{report}"
    );
    session.end();
}

#[test]
fn runtime_prints_the_automatic_choice_and_install_hints() {
    let arguments = ["-w", TINY, "--onnxruntime-path", "/nowhere", "runtime"];
    let text = stdout(&scorn(&arguments));
    for part in [
        "auto takes",
        "rten",
        "/nowhere",
        "pip install --target runtime onnxruntime",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = stdout(&scorn(&[&arguments[..], &["--json"]].concat()));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(report["library"].is_null() && report["auto"].as_str().unwrap().starts_with("rten"));
    let backends = &report["backends"];
    assert_eq!(backends["rten"]["works"].as_bool(), Some(true));
    assert_eq!(backends["cuda"]["works"].as_bool(), Some(false));
    assert!(
        backends["cuda"]["text"]
            .as_str()
            .unwrap()
            .contains("/nowhere")
    );
}

#[test]
fn runtime_tries_each_backend_as_auto_does() {
    // `sparse` has no threads; if the user selects it this is reported, `auto` selects it in any case.
    let arguments = ["--backend-opts", "threads=2", "runtime", "--json"];
    let report = stdout(&scorn(
        &[&["--onnxruntime-path", "/nowhere"], &arguments[..]].concat(),
    ));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["backends"]["sparse"]["works"].as_bool(), Some(true));
    assert!(report["auto"].as_str().unwrap().starts_with("sparse"));
}

#[test]
fn runtime_does_not_blame_the_machine_for_backends_of_other_networks() {
    let report = |weights: &str| -> serde_json::Value {
        let arguments = ["-w", weights, "--onnxruntime-path", "/nowhere", "runtime"];
        let text = stdout(&scorn(&[&arguments[..], &["--json"]].concat()));
        serde_json::from_str(&text).unwrap()
    };
    let dense = report(TINY);
    let sparse = &dense["backends"]["sparse"];
    assert!(sparse["works"].is_null(), "{dense}");
    assert_eq!(sparse["text"], "not for this network");
    assert_eq!(dense["backends"]["rten"]["works"], true);
    // It runs on `sparse` whatever `Backend` names.
    let odds = report("<built in odds>");
    let backends = odds["backends"].as_object().unwrap();
    assert_eq!(backends["sparse"]["works"], true, "{odds}");
    for (name, state) in backends.iter().filter(|(name, _)| *name != "sparse") {
        assert!(state["works"].is_null(), "{name}: {odds}");
    }
    assert!(odds["auto"].as_str().unwrap().starts_with("sparse"));
    let text = stdout(&scorn(&["-w", "<built in odds>", "runtime"]));
    assert!(
        text.contains("rten           not for this network"),
        "{text}"
    );
}

#[test]
fn backends_that_do_not_run_the_network_are_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.config");
    let odds = ["-w", "<built in odds>"];
    let measured = |output: &Output| -> Vec<String> {
        let text = stdout(output);
        let lines = text.lines().map(serde_json::from_str);
        let lines: Vec<serde_json::Value> = lines.collect::<Result<_, _>>().unwrap();
        let lines = lines.iter().filter(|line| line["error"].is_null());
        let names = lines.filter_map(|line| line["backend"].as_str());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.dedup();
        names
    };
    let sizes = ["backendbench", "--sizes", "1", "--time", "5", "--json"];
    let all = scorn(&[&odds[..], &sizes, &["--all"]].concat());
    assert_eq!(measured(&all), ["sparse"]);
    let reasons = String::from_utf8_lossy(&all.stderr).into_owned();
    assert!(
        reasons.contains("rten: the network runs on sparse, whatever Backend names"),
        "{reasons}"
    );
    let named = ["-b", "rten"];
    assert_eq!(
        measured(&scorn(&[&odds[..], &named, &sizes].concat())),
        ["sparse"]
    );
    let tune = ["tune", "--time", "5", "--json", "--write"];
    let tune = [&tune[..], &[file.to_str().unwrap()]].concat();
    for backend in [&[][..], &named] {
        let output = scorn(&[&odds[..], backend, &tune].concat());
        assert_eq!(measured(&output), ["sparse"]);
        let tuned = std::fs::read_to_string(&file).unwrap();
        assert!(tuned.contains("--backend=sparse\n"), "{tuned}");
    }
}

/// What a search prints, without times and the network's name.
fn searched(weights: &Path) -> Vec<String> {
    let weights = weights.to_str().unwrap();
    let flags = [
        "--backend",
        "rten",
        "--threads",
        "1",
        "--seed",
        "1",
        "--weights",
        weights,
    ];
    let mut session = Session::with(&flags);
    let (_, lines) = session.go("go nodes 60");
    session.end();
    let without_times = |line: &String| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_time = |at: usize| at > 0 && ["time", "nps"].contains(&words[at - 1]);
        let kept = (0..words.len()).filter(|&at| !is_time(at));
        kept.map(|at| words[at]).collect::<Vec<_>>().join(" ")
    };
    let lines = lines.iter().filter(|line| !line.starts_with("info string"));
    lines.map(without_times).collect()
}

fn convert(from: &Path, to: &Path) -> Output {
    scorn(&["convert", from.to_str().unwrap(), to.to_str().unwrap()])
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn a_network_goes_from_onnx_to_lc0_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [packed, raw, onnx, again] = ["a.pb.gz", "a.pb", "a.onnx", "b.pb.gz"].map(at);
    stdout(&convert(Path::new(TINY), &packed));
    stdout(&convert(Path::new(TINY), &raw));
    stdout(&convert(&packed, &onnx));
    stdout(&convert(&onnx, &again));
    // The first conversion may add names of tensors to the metadata; after that every byte stays.
    let last = at("c.onnx");
    stdout(&convert(&again, &last));
    assert_eq!(std::fs::read(&onnx).unwrap(), std::fs::read(&last).unwrap());
    let expected = searched(Path::new(TINY));
    for file in [&packed, &raw, &onnx, &again] {
        assert_eq!(searched(file), expected, "{}", file.display());
        stdout(&scorn(&["describe", file.to_str().unwrap()]));
    }
    let described = stdout(&scorn(&["describe", packed.to_str().unwrap()]));
    assert!(described.contains("NETWORK_ONNX"), "{described}");
}

#[test]
fn a_network_inside_the_program_is_converted_like_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let [of_file, built_in] = ["dense.pb", "built-in.pb"].map(|name| folder.path().join(name));
    stdout(&convert(
        &in_repository("networks/scorn-dense.onnx"),
        &of_file,
    ));
    stdout(&convert(Path::new("<built in dense>"), &built_in));
    assert!(std::fs::read(&of_file).unwrap() == std::fs::read(&built_in).unwrap());
}

#[test]
fn what_cannot_be_converted_is_rejected_with_the_reason_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let alphazero = in_repository("tests/data/networks/alphazero.onnx");
    let [out, packed, sparse] = ["out.pb.gz", "a.pb.gz", "network.onnx"].map(at);
    std::fs::write(&sparse, scorn_network_sparse::SPARSE).unwrap();
    stdout(&convert(Path::new(TINY), &packed));
    for (from, to, reason) in [
        (&*sparse, &out, "(a sparse network)"),
        (&alphazero, &out, "alphazero"),
        (Path::new(TINY), &at("out.onnx"), "is an ONNX model already"),
        (&packed, &out, "is not an ONNX model"),
        (
            &packed,
            &at("m.txt"),
            "the name of a network ends in .onnx, .pb, .pb.gz",
        ),
        (
            Path::new(TINY),
            &at("net.onxx"),
            "the name of a network ends in .onnx, .pb, .pb.gz",
        ),
        (Path::new("<built in>"), &out, "(a sparse network)"),
        (
            Path::new("<built in>"),
            &at("out.onnx"),
            "(a sparse network)",
        ),
        (
            Path::new("<built in dense>"),
            &at("out.onnx"),
            "is an ONNX model already",
        ),
        (
            Path::new("<built in human>"),
            &out,
            "the names are <built in>, ",
        ),
    ] {
        let output = convert(from, to);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}", from.display());
        assert!(
            stderr.contains(reason) && stderr.lines().count() == 1,
            "{stderr}"
        );
        assert!(!to.exists());
    }
    let flags = [
        "convert",
        TINY,
        out.to_str().unwrap(),
        "--data-type",
        "fp16",
    ];
    let refused = scorn(&flags);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--data-type has no effect"));
}

#[test]
fn the_model_in_a_network_file_is_converted_without_flags_of_a_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let [packed, to] = ["a.pb.gz", "out.onnx"].map(|name| folder.path().join(name));
    stdout(&convert(Path::new(TINY), &packed));
    let from = packed.to_str().unwrap();
    for [flag, value] in [
        ["--data-type", "int8"],
        ["--batch", "4"],
        ["--policy-head", "vanilla"],
    ] {
        let refused = scorn(&["convert", from, to.to_str().unwrap(), flag, value]);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        let expected = format!("{flag} has no effect on an ONNX model");
        assert!(stderr.contains(&expected) && !to.exists(), "{stderr}");
    }
}

/// What the file says of the layers of lc0's own formats is nothing, and the model is read.
#[test]
fn an_embedded_model_is_described_only_if_it_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("a.pb");
    let raw = raw.to_str().unwrap();
    stdout(&scorn(&["convert", TINY, raw]));
    let described = stdout(&scorn(&["describe", raw]));
    assert!(described.contains("NETWORK_ONNX"), "{described}");
    assert!(
        !described.contains("activation") && !described.contains("parameters"),
        "{described}"
    );
    // Nothing is known of its heads' layers.
    assert!(
        described.contains("VALUE_WDL\n") && !described.contains('('),
        "{described}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&scorn(&["describe", "--json", raw]))).unwrap();
    assert!(json["parameters"].is_null() && json["encoding"].is_null());
    let mut bytes = std::fs::read(raw).unwrap();
    // The version of ONNX, with which a model begins, and its graph.
    let model = [0x08, 0x08, 0x3a];
    let at = bytes.windows(3).position(|part| part == model);
    bytes[at.unwrap()..][..64].fill(0xff);
    std::fs::write(raw, bytes).unwrap();
    let refused = scorn(&["describe", raw]);
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        error.contains("a.pb") && error.contains("damaged ONNX model"),
        "{error}"
    );
}

/// Planes that the model does not state, and a licence that it does.
#[test]
fn a_network_file_has_the_planes_and_the_licence_of_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dense = root.join("networks/scorn-dense.onnx");
    let canonical = folder.path().join("canonical.pb.gz");
    let said = |format: &str| {
        let (from, to) = (dense.to_str().unwrap(), canonical.to_str().unwrap());
        scorn(&["convert", from, to, "--force", "--input-format", format])
    };
    let wrong = said("INPUT_112");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("INPUT_112_WITH_CANONICALIZATION_V2"));
    stdout(&said("input_112_with_canonicalization"));
    let described = stdout(&scorn(&["describe", canonical.to_str().unwrap()]));
    assert!(
        described.contains("INPUT_112_WITH_CANONICALIZATION\n"),
        "{described}"
    );
    assert!(described.contains("GPL-3.0-or-later"), "{described}");
}

/// The planes decide what the network computes: those that its model names are not replaced.
#[test]
fn planes_that_a_model_names_are_not_replaced_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let [packed, model, again] = ["a.pb.gz", "a.onnx", "b.pb.gz"].map(at);
    let convert_as = |from: &Path, to: &Path, format: &str| {
        let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
        scorn(&["convert", from, to, "--input-format", format])
    };
    let canonical = "INPUT_112_WITH_CANONICALIZATION";
    stdout(&convert_as(Path::new(TINY), &packed, canonical));
    // It names its planes now.
    stdout(&convert(&packed, &model));
    let refused = convert_as(&model, &again, "INPUT_CLASSICAL_112_PLANE");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    let names = format!("lc0.input_format names the input planes {canonical}, not INPUT_CLASSICAL");
    assert!(error.contains(&names), "{error}");
    assert!(!again.exists());
    stdout(&convert_as(&model, &again, canonical));
}

#[test]
fn tune_leaves_batches_to_searches_that_need_none_and_searches_for_threads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.config");
    let tune = |file: &Path| {
        let words = ["--backend", "sparse", "tune", "--time", "5", "--write"];
        scorn(&[&words[..], &[file.to_str().unwrap()]].concat())
    };
    let text = stdout(&tune(&file));
    assert!(!text.contains("rten"), "only what was named: {text}");
    let tuned = std::fs::read_to_string(&file).unwrap();
    let threads = tuned
        .strip_prefix("--backend=sparse\n--threads=")
        .and_then(|rest| rest.strip_suffix("\n--minibatch-size=0\n"));
    let threads: usize = threads.expect(&tuned).parse().unwrap();
    assert!(
        text.contains(&format!("nodes/s in a search with {threads} thread")),
        "{text}"
    );
    let most = std::thread::available_parallelism().unwrap().get();
    assert!((1..=most).contains(&threads), "{tuned}");
    // It looks for these itself.
    for flag in ["--threads", "--minibatch-size"] {
        let refused = scorn(&[flag, "1", "tune"]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("{flag} does not apply to tune")));
    }
    let poem = folder.path().join("poem.txt");
    std::fs::write(&poem, "hello\n").unwrap();
    let refused = tune(&poem);
    let reported = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && reported.contains("unknown option 'hello'"),
        "{reported}"
    );
    assert_eq!(std::fs::read_to_string(&poem).unwrap(), "hello\n");
}

#[test]
fn tune_prints_a_json_object_for_each_measurement_and_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.config");
    let name = file.to_str().unwrap();
    let nowhere = ["-w", TINY, "--onnxruntime-path", "/nowhere"];
    let tune = ["tune", "--time", "5", "--json", "--write", name];
    let text = stdout(&scorn(&[&nowhere[..], &tune].concat()));
    let lines = text.lines().map(serde_json::from_str);
    let lines: Vec<serde_json::Value> = lines.collect::<Result<_, _>>().unwrap();
    let (last, measured) = lines.split_last().unwrap();
    let of = |backend: &str, key: &str| -> Vec<&serde_json::Value> {
        let lines = measured.iter().filter(|line| line["backend"] == backend);
        lines
            .map(|line| &line[key])
            .filter(|it| !it.is_null())
            .collect()
    };
    let errors = of("onnx-cpu", "error");
    let is_named = |error: &&serde_json::Value| error.as_str().unwrap().contains("/nowhere");
    assert!(errors.len() == 1 && errors.iter().all(is_named), "{text}");
    for speed in ["evals_per_second", "nodes_per_second"] {
        let speeds = of("rten", speed);
        assert!(
            speeds.len() == 1 && speeds[0].as_f64() > Some(0.0),
            "{text}"
        );
    }
    // What the file has, too.
    let settings = last["settings"].as_object().unwrap();
    let tuned = std::fs::read_to_string(&file).unwrap();
    for (option, flag) in [
        ("Backend", "backend"),
        ("Threads", "threads"),
        ("MinibatchSize", "minibatch-size"),
        ("WeightsFile", "weights"),
        ("OnnxRuntimePath", "onnxruntime-path"),
    ] {
        let value = settings[option].as_str().unwrap();
        assert!(
            tuned.lines().any(|it| it == format!("--{flag}={value}")),
            "{tuned}"
        );
    }
    assert_eq!(settings.len(), tuned.lines().count(), "{tuned}");
}

#[test]
fn tune_writes_what_it_measured_with() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.config");
    std::fs::write(&file, "backend-opts=gpu=1\n").unwrap();
    let name = file.to_str().unwrap();
    let tune = ["tune", "--time", "5", "--write", name];
    let words = ["-w", TINY, "-b", "rten", "-o", "threads=2"];
    let text = stdout(&scorn(&[&words[..], &tune].concat()));
    // Backends are compared by searches, whatever they are like.
    for speed in ["evals/s without a search", "nodes/s in a search"] {
        assert!(text.contains(speed), "{text}");
    }
    let tuned = std::fs::read_to_string(&file).unwrap();
    let weights = std::path::absolute(TINY).unwrap();
    let weights = format!("--weights={}", weights.display());
    for line in ["--backend=rten", "--backend-opts=threads=2", &*weights] {
        assert_eq!(tuned.lines().filter(|&it| it == line).count(), 1, "{tuned}");
    }
    assert!(!tuned.contains("gpu"), "{tuned}");
    // The network stays where none is given; other options of the backend would not be those of the measurement.
    stdout(&scorn(&[&["-b", "sparse"], &tune[..]].concat()));
    let tuned = std::fs::read_to_string(&file).unwrap();
    assert!(
        tuned.contains(&weights) && !tuned.contains("backend-opts"),
        "{tuned}"
    );
}

/// A network that cannot be described does not keep the others from it.
#[test]
fn describe_goes_on_after_a_bad_file() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.pb.gz");
    std::fs::write(&bad, "no network").unwrap();
    let bad = bad.to_str().unwrap();
    let output = scorn(&["describe", bad, TINY, bad, "<built in>"]);
    assert_eq!(output.status.code(), Some(1));
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(text.matches("sha256 ").count(), 2, "{text}");
    assert!(!text.starts_with('\n'), "{text}");
    assert_eq!(errors.matches(bad).count(), 2, "{errors}");
    assert!(
        errors.contains("2 of 4 networks cannot be described"),
        "{errors}"
    );
    let errors = scorn(&["describe", bad]).stderr;
    assert_eq!(String::from_utf8_lossy(&errors).lines().count(), 1);
}

#[test]
fn commands_take_the_newest_network_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(TINY, folder.path().join("newest.onnx")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
        command.args(arguments).current_dir(&folder);
        stdout(&command.output().unwrap())
    };
    assert!(run(&["describe", "<autodiscover>"]).contains("newest.onnx"));
    assert!(run(&["convert", "<autodiscover>"]).starts_with("newest.pb.gz ("));
}

/// Until there is another network, the built-in one plays as if it had been chosen.
#[test]
fn the_built_in_network_stands_in_with_the_options_that_it_recommends() {
    let priors = |weights: &str| {
        let mut session = Session::with(&["--weights", weights, "--threads", "1"]);
        session.send("setoption name VerboseMoveStats value true");
        session.send("position startpos moves e2e4");
        session.send("go nodes 1");
        let lines = session.until("bestmove");
        session.end();
        let prior = |line: &String| {
            let (before, after) = line.split_once("(P:")?;
            let name = before.split_whitespace().nth(2)?.to_owned();
            Some((name, after.split_once(')')?.0.trim().to_owned()))
        };
        let mut priors: Vec<_> = lines.iter().filter_map(prior).collect();
        priors.sort();
        priors
    };
    let chosen = priors("<built in>");
    assert!(chosen.len() >= 20, "{chosen:?}");
    assert_eq!(priors("/no/such/network.pb.gz"), chosen);
}

#[test]
fn one_network_predicts_the_moves_of_all_ratings() {
    let described = |name: &str| {
        let output = scorn(&["describe", name, "--json"]);
        serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()
    };
    let [low, high] = ["<built in human 1400>", "<built in human 1900>"].map(described);
    assert_eq!(low["sha256"], high["sha256"]);
    let text = low.to_string();
    assert!(
        text.contains("sparse-8") && text.contains("rating"),
        "{text}"
    );
}

#[test]
fn the_network_for_odds_plays_on_the_backend_that_knows_who_is_to_move() {
    let described = stdout(&scorn(&["describe", "<built in odds>"]));
    assert!(described.contains("sparse-4"), "{described}");
    let mut engine = Session::new();
    engine.send("setoption name WeightsFile value <built in odds>");
    // No other tells the network who is to move.
    engine.send("setoption name Backend value rten");
    engine.send("position fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1");
    engine.send("go nodes 200");
    let lines = engine.until("bestmove");
    let network = lines.iter().find(|line| line.contains("network"));
    let network = network.expect("a description of the network");
    assert!(network.contains("sparse ("), "{network}");
    assert!(network.contains("for games at odds"), "{network}");
}

/// Its values depend on which side is the engine's: in a game that is the side that gives odds, whoever is to move.
#[test]
fn the_network_for_odds_analyses_a_game_for_the_side_that_gives_them() {
    let folder = tempfile::tempdir().unwrap();
    let games = folder.path().join("x.pgn");
    let analyze = |white: &str, black: &str, more: &[&str]| {
        let fen = format!("{black}/pppppppp/8/8/8/8/PPPPPPPP/{white} w KQkq - 0 1");
        let game = format!("[SetUp \"1\"]\n[FEN \"{fen}\"]\n\n1. e4 e5 2. Nf3 Nc6 *\n");
        std::fs::write(&games, game).unwrap();
        let network = ["-t", "1", "-w", "<built in odds>"];
        let command = ["analyze", "--nodes", "50", "--json", "--pgn"];
        let file = [games.to_str().unwrap()];
        scorn(&[&network[..], more, &command, &file].concat())
    };
    let records = |output: &Output| -> Vec<serde_json::Value> {
        let text = stdout(output);
        let read = text.lines().map(|line| serde_json::from_str(line).unwrap());
        read.collect()
    };
    let values = |output: Output| -> Vec<f64> {
        let of_white = |record: &serde_json::Value| record["white"].as_f64().unwrap();
        records(&output).iter().map(of_white).collect()
    };
    // Of each side in turn, White is 35 % ahead and 75 % behind.
    let by_white = values(analyze("RNB1KBNR", "rnbqkbnr", &[]));
    assert!(
        by_white.len() == 5 && by_white.iter().all(|&wl| wl > 0.0),
        "{by_white:?}"
    );
    // For White, who has a queen more, White would be 80 % ahead.
    let by_black = values(analyze("RNBQKBNR", "rnb1kbnr", &[]));
    assert!(
        by_black.len() == 5 && by_black.iter().all(|&wl| wl < 0.6),
        "{by_black:?}"
    );
    // Beside search-contempt the plain search has the same side; without one White would be behind.
    let with_limit = analyze("RNB1KBNR", "rnbqkbnr", &["--sc-limit", "8"]);
    let objective = |record: &serde_json::Value| {
        let wdl = record["lines"][0]["objective"]["wdl"].as_array()?;
        let wl = wdl[0].as_f64()? - wdl[2].as_f64()?;
        let is_whites = record["fen"].as_str()?.contains(" w ");
        Some(if is_whites { wl } else { -wl })
    };
    let plain: Vec<f64> = records(&with_limit).iter().filter_map(objective).collect();
    assert!(plain.iter().sum::<f64>() > 0.0, "{plain:?}");
    let missing = "with ContemptMode disable no side is";
    let disabled = analyze("RNB1KBNR", "rnbqkbnr", &["--contempt-mode", "disable"]);
    let errors = String::from_utf8_lossy(&disabled.stderr).into_owned();
    assert!(errors.contains(missing), "{errors}");
    assert!(!String::from_utf8_lossy(&with_limit.stderr).contains(missing));
    let mut engine = Session::with(&["-t", "1", "-w", "<built in odds>"]);
    // The first search waits for the network.
    engine.send("setoption name ContemptMode value disable");
    let said = |engine: &mut Session| {
        let (_, lines) = engine.go("go nodes 1");
        lines.iter().filter(|line| line.contains(missing)).count()
    };
    assert_eq!([said(&mut engine), said(&mut engine)], [1, 0]);
    engine.end();
}

#[test]
fn tune_writes_a_configuration_that_the_program_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.config");
    let file = file.to_str().unwrap();
    let text = stdout(&scorn(&[
        "--weights",
        TINY,
        "--onnxruntime-path",
        "/nowhere",
        "tune",
        "--time",
        "5",
        "--write",
        file,
    ]));
    assert!(text.contains("--backend=rten"), "{text}");
    let text = stdout(&scorn(&[
        "--config",
        file,
        "--weights",
        TINY,
        "backendbench",
        "--sizes",
        "1",
        "--time",
        "5",
    ]));
    assert!(text.starts_with("rten"), "{text}");
    let mut session = Session::with(&["--config", file, "--weights", TINY]);
    let (_, lines) = session.go("go nodes 1");
    assert!(lines[0].starts_with("info string rten"), "{lines:?}");
    let options = session.send_and_sync("uci");
    let threads = options.iter().find(|line| line.contains("name Threads "));
    let tuned = std::fs::read_to_string(file).unwrap();
    let tuned = tuned
        .lines()
        .find_map(|line| line.strip_prefix("--threads="));
    let default = format!("default {} ", tuned.unwrap());
    assert!(threads.unwrap().contains(&default), "{threads:?}");
    session.end();
}
