//! `scorn selfplay` as a user runs it: the same files whatever happens, and nothing lost.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use scorn::pgn::Reader;

/// A run of a few short games on the hash evaluator.
fn command(out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command
        .args(["selfplay", "--backend", "hash", "--out"])
        .arg(out)
        .args(arguments);
    command.stdin(Stdio::null());
    command
}

fn run(out: &Path, arguments: &[&str]) -> Output {
    command(out, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn ok(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let inner = self::files(&path);
            files.extend(
                inner
                    .into_iter()
                    .map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
            );
        } else {
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

const GAMES: &[&str] = &[
    "--games",
    "30",
    "--nodes",
    "12",
    "--sc-limit",
    "5",
    "--temperature",
    "1",
    "--noise-epsilon",
    "0.25",
    "--longest",
    "40",
    "--games-per-file",
    "8",
    "--a-plays",
    "both",
    "--b",
    "NodeLimit=16;CPuct=2.5",
    "--random-plies",
    "2",
    "--fast-nodes",
    "6",
    "--resign",
    "30",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [GAMES, more].concat()
}

#[test]
fn the_same_files_at_any_speed_and_every_game_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for (index, speed) in [
        ["--parallel", "1", "--batch", "1", "--threads", "1"],
        ["--parallel", "30", "--batch", "64", "--threads", "3"],
        ["--parallel", "7", "--batch", "5", "--threads", "2"],
    ]
    .iter()
    .enumerate()
    {
        let out = folder.path().join(index.to_string());
        ok(&run(&out, &with(speed)));
        runs.push(files(&out));
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
    let names: Vec<&str> = runs[0].keys().map(String::as_str).collect();
    for name in [
        "manifest.json",
        "summary.json",
        "games-00001.pgn",
        "games-00004.pgn",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let mut rounds = Vec::new();
    for (_, pgn) in runs[0].iter().filter(|(name, _)| name.ends_with(".pgn")) {
        for game in Reader::new(&pgn[..]) {
            let game = game.unwrap();
            assert!(game.outcome.is_some() && !game.moves.is_empty());
            rounds.push(game.tag("Round").unwrap().to_owned());
        }
    }
    let expected: Vec<String> = (1..=30).map(|round: u32| round.to_string()).collect();
    assert_eq!(rounds, expected);
    let other = folder.path().join("other");
    ok(&run(&other, &with(&["--seed", "1"])));
    assert_ne!(files(&other)["games-00001.pgn"], runs[0]["games-00001.pgn"]);
}

#[test]
fn all_shards_together_are_the_whole_run() {
    let folder = tempfile::tempdir().unwrap();
    let games = |name: &str, shard: &str| {
        let out = folder.path().join(name);
        ok(&run(&out, &with(&["--shard", shard])));
        let files = files(&out);
        let pgn = files.iter().filter(|(name, _)| name.ends_with(".pgn"));
        let pgn: String = pgn.map(|(_, bytes)| text(bytes)).collect();
        let games = pgn.split("[Event ").skip(1).map(str::to_owned);
        let mut games: Vec<String> = games.collect();
        games.sort();
        games
    };
    let whole = games("whole", "1/1");
    let mut shards = [
        games("one", "1/3"),
        games("two", "2/3"),
        games("three", "3/3"),
    ]
    .concat();
    shards.sort();
    assert_eq!(shards, whole);
}

fn wait(child: &mut Child, patience: Duration) -> bool {
    let steps = patience.as_millis() / 2;
    for _ in 0..steps {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn killed_at_any_moment_a_run_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let started = std::time::Instant::now();
    ok(&run(&whole, GAMES));
    let time = started.elapsed();
    let killed = folder.path().join("killed");
    let (mut kills, mut moment) = (0, 0x2545_f491_u64);
    while kills < 20 {
        let mut child = command(&killed, &with(&["--resume"]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From at once to a third of what the whole run takes.
        moment = moment
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let patience = time.mul_f64((moment >> 40) as f64 / f64::from(1 << 24) / 3.0);
        let is_done = wait(&mut child, patience);
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        if is_done {
            // Over already: begin again, so that there is something to kill.
            assert_eq!(files(&killed), files(&whole));
            fs::remove_dir_all(&killed).unwrap();
        }
    }
    ok(&run(&killed, &with(&["--resume"])));
    assert_eq!(files(&killed), files(&whole));
    // And once more, when there is nothing left to do.
    ok(&run(&killed, &with(&["--resume"])));
    assert_eq!(files(&killed), files(&whole));
}

#[test]
fn a_folder_belongs_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    ok(&run(
        &out,
        &["--games", "2", "--nodes", "10", "--longest", "20"],
    ));
    let before = files(&out);
    let refused = |arguments: &[&str], message: &str| {
        let output = run(&out, arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains(message), "{error}");
        assert_eq!(files(&out), before);
    };
    let same = ["--games", "2", "--nodes", "10", "--longest", "20"];
    refused(&same, "--resume goes on");
    let other = [
        "--games",
        "2",
        "--nodes",
        "11",
        "--longest",
        "20",
        "--resume",
    ];
    refused(&other, "is of another run (a, b differs)");
    // Another process that has the folder.
    let lock = fs::File::options()
        .write(true)
        .open(out.join(".lock"))
        .unwrap();
    lock.lock().unwrap();
    let resumed = [
        "--games",
        "2",
        "--nodes",
        "10",
        "--longest",
        "20",
        "--resume",
    ];
    refused(&resumed, "in use by another run");
    drop(lock);
    // A folder with other things in it.
    let other = folder.path().join("home");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    let output = run(&other, &same);
    assert!(text(&output.stderr).contains("letter.txt"));
    assert!(!other.join("manifest.json").exists());
    // A game that a power cut has spoilt is played again; a part that is gone is missed.
    fs::remove_file(out.join("games-00001.pgn")).unwrap();
    let output = run(&out, &resumed);
    assert!(text(&output.stderr).contains("games-00001.pgn is missing"));
}

#[test]
fn bad_input_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cut_game = write("cut.pgn", "[White \"x\"]\n\n1. e4 e5 2. N");
    let cut_book = write("cut.epd", "4k3/8/8/8/8/8/4P3/4K3 w - -\n4k3/8/8/8");
    let empty = write("empty.epd", "");
    let network = write("net.onnx", "no network");
    for (arguments, message) in [
        (&["--book", &cut_game][..], "breaks off"),
        (&["--book", &cut_book], "line 2"),
        (&["--book", &empty], "no position"),
        (&["--book", "/no/such.epd"], "/no/such.epd"),
        (&["--odds", "king"], "king"),
        (&["--odds", "8/8/8/8/8/8/8/8 w - - 0 1"], "board is empty"),
        (&["--a", "ScLimit"], "--a ScLimit"),
        (&["--b", "ScLimit=x"], "ScLimit"),
        (&["--b", "Seed=3"], "Seed"),
        (&["--ramlimit-mb", "100"], "RamLimitMb"),
        (
            &["--a", &format!("Backend=rten;WeightsFile={network}")],
            "net.onnx",
        ),
        (&["--syzygy-paths", "/no/such"], "/no/such"),
        (&["--tables-decide"], "SyzygyPath"),
    ] {
        let out = folder.path().join("out");
        let output = run(
            &out,
            &[&["--games", "1", "--nodes", "5"], arguments].concat(),
        );
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
        assert!(
            !error.contains("panicked") && !out.exists(),
            "{arguments:?}"
        );
    }
}
