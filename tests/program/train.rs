//! `scorn train` as a user runs it: from games to a network's file.

#[allow(dead_code, reason = "each test file uses a part of it")]
use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::common::session::Session;

/// Games of an engine against itself.
const GAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/training-smoke.pgn");

fn scorn(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.args(arguments).output().unwrap()
}

fn stdout_of(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn games_become_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let [records, run, end, network] =
        ["x.rec", "run", "end", "x.onnx"].map(|name| folder.path().join(name));
    let records = text(&records);
    stdout_of(&scorn(&[
        "dataset",
        "pgn",
        GAMES,
        "--out",
        records,
        "--held-out",
        "20",
    ]));
    let data = format!("{records}:1");
    let run_of = |folder: &Path, more: &str| {
        let arguments = ["train", "run", "--folder", text(folder)].into_iter();
        let data = ["--data", &data, "--test", records].into_iter();
        let usual = "--batch 128 --chunk 64 --log-every 10".split(' ');
        let arguments = arguments.chain(data).chain(usual).chain(more.split(' '));
        scorn(&arguments.collect::<Vec<_>>())
    };
    let train = |folder: &Path, more: &str| stdout_of(&run_of(folder, more));
    let sizes = "--policy-width 64 --value-width 64 --hidden 8";
    let first = train(&run, &format!("--steps 20 --warmup 5 {sizes}"));
    assert!(
        first.contains("step 20 positions") && first.contains("held out"),
        "{first}"
    );
    let output = run_of(&run, "--steps 30 --hidden 16");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("other sizes"),
        "{errors}"
    );
    // Sizes that are not given are those of the checkpoint.
    let more = train(&run, "--steps 30 --hidden 8");
    assert!(
        more.contains("step 30") && !more.contains("step 20"),
        "{more}"
    );
    let checkpoint = run.join("checkpoint");
    let decay = format!("--decay {}", text(&checkpoint));
    train(&end, &format!("{decay} --steps 40 --threads 2"));
    let checkpoint = end.join("checkpoint");
    let measured = stdout_of(&scorn(&["train", "measure", text(&checkpoint), records]));
    assert!(
        measured.contains("in integers") && measured.contains("top-1"),
        "{measured}"
    );
    let json = ["train", "measure", text(&checkpoint), records, "--json"];
    let json: serde_json::Value = serde_json::from_str(&stdout_of(&scorn(&json))).unwrap();
    let top1 = format!(
        "top-1 {:.2} %",
        100.0 * json["integers"]["top1"].as_f64().unwrap()
    );
    assert!(
        measured.contains(&top1) && json["file"] == records,
        "{json}"
    );
    assert_exports(&checkpoint, &network);
    played_with(&network);
}

#[test]
fn many_threads_share_a_batch_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let [records, run] = ["x.rec", "run"].map(|name| folder.path().join(name));
    stdout_of(&scorn(&["dataset", "pgn", GAMES, "--out", text(&records)]));
    let data = format!("{}:1", text(&records));
    let train = |more: &str| {
        let usual = "train run --batch 32 --threads 3 --steps 1 --hidden 8 --policy-width 64";
        let arguments = usual.split(' ').chain(["--folder", text(&run)]);
        let arguments = arguments.chain(["--data", &data]).chain(more.split(' '));
        scorn(&arguments.collect::<Vec<_>>())
    };
    let output = train("--value-width 64 --chunk 32");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("set a smaller --chunk"),
        "{errors}"
    );
    stdout_of(&train("--value-width 64"));
}

/// The file has the sizes, the name and the count of what it was made of.
fn assert_exports(checkpoint: &Path, network: &Path) {
    let export = ["train", "export", text(checkpoint), text(network)];
    let rated = scorn(&[&export[..], &["--rating", "1500"]].concat());
    let errors = String::from_utf8_lossy(&rated.stderr);
    assert!(
        !rated.status.success() && errors.contains("no input of the rating"),
        "{errors}"
    );
    assert!(!network.exists());
    let named = [&export[..], &["--name", "tiny"]].concat();
    assert!(stdout_of(&scorn(&named)).contains("x.onnx"));
    let described = stdout_of(&scorn(&["describe", text(network)]));
    assert!(
        described.contains("sparse-2: 5026 inputs; first layers 64 wide"),
        "{described}"
    );
    let bytes = std::fs::read(network).unwrap();
    let read = scorn::sparse::file::read(&bytes).unwrap();
    assert_eq!((read.policy.width, read.value_head.units), (64, 8));
    let metadata = scorn::sparse::file::metadata(&bytes).unwrap();
    let positions = (40 * 128).to_string();
    assert!(metadata.contains(&("name".to_owned(), "tiny".to_owned())));
    assert!(metadata.contains(&("positions_seen".to_owned(), positions)));
}

#[test]
fn self_play_becomes_a_network_that_plays_on() {
    let folder = tempfile::tempdir().unwrap();
    let [games, start, run, network, again] =
        ["games", "start", "run", "x.onnx", "again"].map(|name| folder.path().join(name));
    let sizes = "--policy-width 64 --value-width 64 --hidden 8 --seed 3";
    let start_of = |out: &Path, more: &str| {
        let arguments = ["train", "start", text(out)].into_iter();
        stdout_of(&scorn(
            &arguments.chain(more.split(' ')).collect::<Vec<_>>(),
        ))
    };
    start_of(&start, sizes);
    let refused = scorn(&["train", "start", text(&start)]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
    stdout_of(&scorn(&["train", "export", text(&start), text(&network)]));
    let weights = format!("--weights={}", text(&network));
    let play =
        "--games 4 --nodes 8 --max-plies 30 --temperature 1 --records --games-per-file 2 --out";
    let arguments = ["selfplay", &weights].into_iter();
    let arguments = arguments.chain(play.split(' ')).chain([text(&games)]);
    stdout_of(&scorn(&arguments.collect::<Vec<_>>()));
    std::fs::create_dir(&run).unwrap();
    std::fs::copy(&start, run.join("checkpoint")).unwrap();
    learns_from_self_play(&games, &run);
    let checkpoint = run.join("checkpoint");
    stdout_of(&scorn(&[
        "train",
        "export",
        text(&checkpoint),
        text(&network),
        "--force",
    ]));
    // From the network's file one can go on as well.
    start_of(&again, &format!("--network {}", text(&network)));
    let other = folder.path().join("other.onnx");
    stdout_of(&scorn(&["train", "export", text(&again), text(&other)]));
    let [ours, theirs] = [&network, &other].map(|path| std::fs::read(path).unwrap());
    let read = |bytes: &[u8]| scorn::sparse::file::read(bytes).unwrap();
    assert!(read(&ours) == read(&theirs));
    let positions = games.join("positions-00001.vis");
    std::fs::write(&positions, &std::fs::read(&positions).unwrap()[..1000]).unwrap();
    let refused = scorn(&["train", "measure", text(&checkpoint), text(&positions)]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        errors.contains("positions-00001.vis is damaged"),
        "{errors}"
    );
}

/// The run learns from the first file of the games and is tested on the second one.
fn learns_from_self_play(games: &Path, run: &Path) {
    let [positions, others] =
        ["positions-00001.vis", "positions-00002.vis"].map(|name| games.join(name));
    let data = format!("{}:1", text(&positions));
    let train = "--steps 20 --batch 64 --chunk 16 --warmup 5 --log-every 10 --result-share 0.2,0.8 --threads 2 --fixed-order";
    let arguments = ["train", "run", "--folder", text(run), "--data", &data];
    let tested_on = |path: &Path| {
        let arguments = arguments.into_iter().chain(train.split(' '));
        scorn(&arguments.chain(["--test", text(path)]).collect::<Vec<_>>())
    };
    // None of them is held out.
    let refused = tested_on(&positions);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success()
            && errors.contains("positions-00001.vis is given to both --data and --test"),
        "{errors}"
    );
    let log = stdout_of(&tested_on(&others));
    let kl = |line: &str| -> f64 {
        let rest = line.split(" kl ").nth(1).unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(kl(lines[1]) < kl(lines[0]) && kl(lines[1]) > 0.0, "{log}");
    assert!(
        lines[2].contains("M test ") && !lines[2].contains("(0)"),
        "{log}"
    );
}

#[test]
fn train_start_replaces_no_input_and_initialises_no_value_twice() {
    let folder = tempfile::tempdir().unwrap();
    let [checkpoint, network] = ["checkpoint", "x.onnx"].map(|name| folder.path().join(name));
    let (checkpoint, network) = (text(&checkpoint), text(&network));
    let sizes = "--policy-width 64 --value-width 64 --hidden 8".split(' ');
    let start = ["train", "start", checkpoint].into_iter().chain(sizes);
    stdout_of(&scorn(&start.collect::<Vec<_>>()));
    stdout_of(&scorn(&["train", "export", checkpoint, network]));
    let before = std::fs::read(network).unwrap();
    let refused = scorn(&["train", "start", network, "--network", network, "--force"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("is an input too"), "{errors}");
    assert!(std::fs::read(network).unwrap() == before);
    let twice = [
        "--network",
        network,
        "--value-from",
        network,
        "--reinit",
        "value",
    ];
    let refused = scorn(&[&["train", "start", checkpoint, "--force"], &twice[..]].concat());
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(errors.contains("leave out one of the two"), "{errors}");
}

#[test]
fn errors_name_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    for (data, expected) in [
        ("x.rec", "is not of the form FILE:SHARE"),
        ("x.rec:-1", "the share must be positive"),
        ("/nowhere/x.rec:1", "/nowhere/x.rec"),
    ] {
        let output = scorn(&["train", "run", "--folder", text(&run), "--data", data]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(expected),
            "{errors}"
        );
        assert!(!run.exists(), "{data} leaves the run's folder");
    }
    for (flags, expected) in [
        ("run --folder x --result-weight 2", "from 0 to 1"),
        ("batches --result-weight nan", "from 0 to 1"),
        ("run --folder x --minutes 0", "above 0"),
        ("run --folder x --rate=-1", "above 0"),
        ("run --folder x --plies-weight=-1", "of at least 0"),
        ("batches --batch 0", "--batch"),
    ] {
        let arguments = ["train"].into_iter().chain(flags.split(' '));
        let output = scorn(&arguments.chain(["--data", "x.rec:1"]).collect::<Vec<_>>());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && errors.contains(expected),
            "{errors}"
        );
    }
    let output = scorn(&["train", "measure", GAMES, GAMES]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("is not a checkpoint"),
        "{errors}"
    );
}

/// The engine plays with the file, by itself in integers; another backend finds the same.
fn played_with(network: &Path) {
    let weights = format!("--weights={}", text(network));
    let session = |options: &[&str]| {
        let mut session = Session::with(
            &[
                &[&weights[..], "--minibatch-size=1", "--threads=1"],
                options,
            ]
            .concat(),
        );
        let lines = session.send_and_sync("ucinewgame");
        (session, lines)
    };
    let search = |options: &[&str]| {
        let (mut session, mut lines) = session(options);
        let (best, more) = session.go("go nodes 40");
        lines.extend(more);
        (best, lines)
    };
    let (best, lines) = search(&[]);
    assert!(
        lines.iter().any(|line| line.contains("sparse (CPU")),
        "{lines:?}"
    );
    let checked = [
        "--backend=check",
        "--backend-opts=sparse(),rten(),tolerance=0.001",
    ];
    let (same, lines) = search(&checked);
    assert!(
        best == same && !lines.iter().any(|line| line.contains("error")),
        "{lines:?}"
    );
    let mut refused = Session::with(&["--backend=sparse", "--weights=<built in dense>"]);
    let lines = refused.send_and_sync("ucinewgame");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("not a sparse network")),
        "{lines:?}"
    );
}

#[test]
fn a_network_recommends_constants_and_the_user_decides() {
    let folder = tempfile::tempdir().unwrap();
    let [checkpoint, network] = ["checkpoint", "x.onnx"].map(|name| folder.path().join(name));
    let (checkpoint, network) = (text(&checkpoint), text(&network));
    let sizes = "--policy-width 64 --value-width 64 --hidden 8";
    let start = ["train", "start", checkpoint].into_iter();
    stdout_of(&scorn(&start.chain(sizes.split(' ')).collect::<Vec<_>>()));
    let export = |options| scorn(&["train", "export", checkpoint, network, "--options", options]);
    let refused = export("LogFile=x");
    assert!(!refused.status.success() && !Path::new(network).exists());
    stdout_of(&export("CPuct=2.5;FpuValue=0.5"));
    assert!(
        stdout_of(&scorn(&["describe", network]))
            .contains("scorn.options = CPuct=2.5;FpuValue=0.5")
    );
    // In self-play each side has the constants of its own network.
    let out = folder.path().join("games");
    let sides = [
        "--a",
        &format!("WeightsFile={network};FpuValue=0.25"),
        "--b",
        "CPuct=3",
    ]
    .map(str::to_owned);
    let mut arguments: Vec<&str> = "selfplay --games 1 --nodes 2 --max-plies 4 --out"
        .split(' ')
        .collect();
    arguments.push(text(&out));
    arguments.extend(sides.iter().map(String::as_str));
    stdout_of(&scorn(&arguments));
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let constant =
        |side: &str, name: &str| manifest[side]["options"][name].as_str().unwrap().to_owned();
    assert_eq!(
        [constant("a", "CPuct"), constant("a", "FpuValue")],
        ["2.5", "0.25"]
    );
    assert_eq!(
        ["CPuct", "FpuValue", "RootChoice"].map(|name| constant("b", name)),
        ["3", "0.41", "lcb"],
        "the built-in network's recommendations, unless the user decides"
    );
    // A UCI session reports it.
    let mut session = Session::with(&["--weights", network, "--cpuct", "2"]);
    session.send_and_sync("position startpos");
    let (_, lines) = session.go("go nodes 2");
    let expected = "the network recommends CPuct 2.5 (user: 2), FpuValue 0.5";
    assert!(
        lines.iter().any(|line| line.contains(expected)),
        "{lines:?}"
    );
}

#[test]
fn a_found_network_recommends_like_a_named_one() {
    let folder = tempfile::tempdir().unwrap();
    let [checkpoint, network] = ["x.checkpoint", "x.onnx"].map(|name| folder.path().join(name));
    let (checkpoint, network) = (text(&checkpoint), text(&network));
    let start = "--policy-width 64 --value-width 64 --hidden 8";
    let start = ["train", "start", checkpoint]
        .into_iter()
        .chain(start.split(' '));
    stdout_of(&scorn(&start.collect::<Vec<_>>()));
    let options = ["--options", "CPuct=2.5"];
    stdout_of(&scorn(
        &[&["train", "export", checkpoint, network], &options[..]].concat(),
    ));
    let mut found = Command::new(env!("CARGO_BIN_EXE_scorn"));
    found
        .args(["--weights", "<autodiscover>", "--preload"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut found = found.spawn().unwrap();
    let input = b"position startpos\ngo nodes 2\n";
    found.stdin.take().unwrap().write_all(input).unwrap();
    let output = found.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        stdout.contains("the network recommends CPuct 2.5"),
        "{stdout}"
    );
    let person = [
        "--limit-strength",
        "--human-weights",
        "<built in human {maia}>",
    ];
    let mut session = Session::with(&person);
    session.send_and_sync("position startpos");
    let (_, lines) = session.go("go nodes 2");
    let is_reported = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(
        is_reported("human: a player rated") && !is_reported("recommends"),
        "{lines:?}"
    );
}
