//! `scorn selfplay` as a user runs it: the same files whatever happens, and nothing lost.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use scorn::{
    pgn::Reader,
    selfplay::chunk::{self, V6, VALUES},
};
use serde_json::Value;

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
    "--records",
    "--chunks",
    "--record-side",
    "a",
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
        "positions-00001.vis",
        "lc0/game_000000029.gz",
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

#[test]
fn chunks_read_back_field_by_field_without_our_reader() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let games = [
        "--games",
        "4",
        "--nodes",
        "30",
        "--longest",
        "60",
        "--temperature",
        "1",
        "--sc-limit",
        "4",
    ];
    let more = [
        "--odds",
        "rook",
        "--a-plays",
        "both",
        "--chunks",
        "--records",
        "--reuse-tree",
    ];
    ok(&run(&out, &[&games[..], &more].concat()));
    let chunks: Vec<_> = (0..4)
        .map(|n| out.join(format!("lc0/game_{n:09}.gz")))
        .collect();
    let checked = scorn(&["chunk", "--json"], &chunks);
    ok(&checked);
    let summary: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(
        (&summary["chunks"], &summary["bad"]),
        (&4.into(), &0.into())
    );
    let shown = scorn(&["chunk", "--print"], &chunks);
    ok(&shown);
    assert_eq!(
        text(&shown.stdout).lines().count() as u64,
        summary["positions"].as_u64().unwrap()
    );
    let ours: Vec<V6> = chunks
        .iter()
        .flat_map(|path| chunk::read(&fs::read(path).unwrap()).unwrap())
        .collect();
    assert_eq!(ours.len() as u64, summary["positions"].as_u64().unwrap());
    let folder_summary: Value =
        serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(folder_summary["samples"], summary["positions"]);
    assert!(folder_summary["frozen_samples"].as_u64().unwrap() > 0);
    compare_with_python(&chunks, &ours);
    a_damaged_chunk_is_named(folder.path(), ours[0].clone());
}

fn a_damaged_chunk_is_named(folder: &Path, mut bad: V6) {
    let mut bytes = Vec::new();
    bad.probabilities[0] = 0.5;
    bad.write(&mut bytes);
    let path = folder.join("bad.chunk");
    fs::write(&path, &bytes).unwrap();
    let output = scorn(&["chunk"], std::slice::from_ref(&path));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("position 1: entry 0 of the policy is 0.5"));
    fs::write(&path, &bytes[..1000]).unwrap();
    assert_eq!(scorn(&["chunk"], &[path]).status.code(), Some(1));
}

fn scorn(arguments: &[&str], files: &[std::path::PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.args(arguments).args(files).output().unwrap()
}

/// Every field as a reader that knows only the layout sees it.
fn compare_with_python(chunks: &[std::path::PathBuf], ours: &[V6]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/read_chunk.py");
    let Ok(read) = Command::new("python3").arg(script).args(chunks).output() else {
        eprintln!("SKIPPED: there is no python3");
        return;
    };
    ok(&read);
    let lines: Vec<&str> = text(&read.stdout).lines().collect();
    assert_eq!(lines.len(), ours.len());
    for (line, ours) in lines.iter().zip(ours) {
        let read: Value = serde_json::from_str(line).unwrap();
        let same = |value: &Value, float: f32| match value.as_f64() {
            Some(value) => value as f32 == float,
            None => float.is_nan(),
        };
        assert_eq!((&read["version"], &read["dummy"]), (&6.into(), &0.into()));
        assert_eq!(read["input_format"], ours.input_format);
        let probabilities = read["probabilities"].as_array().unwrap();
        assert_eq!(probabilities.len(), 1858);
        assert!(
            probabilities
                .iter()
                .zip(&ours.probabilities)
                .all(|(p, &own)| same(p, own))
        );
        let planes = ours.planes.map(|plane| plane.to_string());
        assert_eq!(read["planes"], serde_json::to_value(&planes[..]).unwrap());
        assert_eq!(
            read["castling"],
            serde_json::to_value(ours.castling).unwrap()
        );
        for (name, own) in [
            ("black", ours.black),
            ("rule50", ours.rule50),
            ("invariance_info", ours.invariance_info),
        ] {
            assert_eq!(read[name], own, "{name}");
        }
        for (name, own) in VALUES.iter().zip(ours.values) {
            assert!(same(&read["values"][name], own), "{name}");
        }
        assert_eq!(read["visits"], ours.visits);
        assert_eq!(
            (&read["played_idx"], &read["best_idx"]),
            (&ours.played_idx.into(), &ours.best_idx.into())
        );
        assert!(same(&read["policy_kld"], ours.policy_kld) && same(&read["q_st"], ours.q_st));
    }
}

#[test]
fn records_hold_every_visit_and_only_the_chosen_side() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, side: &str| {
        let out = folder.path().join(name);
        let games = [
            "--games",
            "3",
            "--nodes",
            "20",
            "--longest",
            "30",
            "--sc-limit",
            "3",
            "--temperature",
            "1",
        ];
        let more = ["--random-plies", "4", "--records", "--record-side", side];
        ok(&run(&out, &[&games[..], &more].concat()));
        fs::read(out.join("positions-00001.vis")).unwrap()
    };
    let (all, own) = (file("all", "both"), file("own", "a"));
    let count = |file: &[u8]| number(&file[24..32]) as usize;
    let is_black = |position: &[u8]| position[32] & 16 != 0;
    check_records(&all, count(&all));
    check_records(&own, count(&own));
    // 30 plies less 4 random ones, in 3 games.
    assert_eq!((count(&all), count(&own)), (78, 39));
    assert!(
        own[64..][..64 * 39]
            .chunks(64)
            .all(|position| !is_black(position))
    );
}

/// A number of any length, lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    let highest_first = bytes.iter().rev();
    highest_first.fold(0, |n, &byte| n << 8 | u64::from(byte))
}

/// Each position's moves follow those of the one before it, and their visits add up.
fn check_records(file: &[u8], positions: usize) {
    assert_eq!((&file[..8], number(&file[8..12])), (&b"SCORNVIS"[..], 1));
    let entries = number(&file[32..40]) as usize;
    assert_eq!(file.len(), 64 + 64 * positions + 6 * entries);
    let (mut next, mut frozen) = (0, 0);
    for position in file[64..][..64 * positions].chunks(64) {
        assert_eq!(number(&position[48..52]) as usize, next);
        let moves = number(&position[52..54]) as usize;
        let entries = &file[64 + 64 * positions + 6 * next..][..6 * moves];
        let visits: u64 = entries.chunks(6).map(|entry| number(&entry[2..])).sum();
        assert_eq!(visits + 1, number(&position[56..60]));
        let names: Vec<u64> = entries
            .chunks(6)
            .map(|entry| number(&entry[..2]) & 0x7fff)
            .collect();
        for m in [&position[36..38], &position[54..56]] {
            assert!(names.contains(&number(m)));
        }
        frozen += entries
            .chunks(6)
            .filter(|entry| entry[1] & 0x80 != 0)
            .count();
        next += moves;
    }
    assert_eq!(next, entries);
    assert!(frozen > 0);
}

#[test]
fn a_balanced_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let games = [
        "--games",
        "24",
        "--nodes",
        "12",
        "--longest",
        "24",
        "--balance",
        "1",
        "--balance-games",
        "6",
    ];
    for odds in [&[][..], &["--odds", "queen", "--a-plays", "both"]] {
        let arguments = [&games[..], odds, &["--games-per-file", "8", "--resume"]].concat();
        let out = folder.path().join(odds.len().to_string());
        ok(&run(&out, &arguments));
        let whole = files(&out);
        let path = text(&whole["balance.jsonl"]);
        let steps: Vec<Value> = path
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(steps.len(), 4);
        // Random play of this length ends in draws, so the limit falls.
        assert_eq!(
            (&steps[0]["sc_limit"], &steps[3]["sc_limit"]),
            (&5.into(), &1.into())
        );
        let last = &whole["games-00003.pgn"];
        for game in Reader::new(&last[..]) {
            let game = game.unwrap();
            let round: usize = game.tag("Round").unwrap().parse().unwrap();
            let limit = steps[(round - 1) / 6]["sc_limit"].to_string();
            if odds.is_empty() {
                assert_eq!(game.tag("ScLimit"), Some(&*limit));
            } else {
                let receiver = if round % 2 == 1 { "Black" } else { "White" };
                assert_eq!(game.tag(&format!("{receiver}Nodes")), Some(&*limit));
                assert_eq!(game.tag(&format!("{receiver}ScLimit")), Some("1000000000"));
            }
        }
        for name in [
            "summary.json",
            "balance.jsonl",
            "part-00002.json",
            "part-00003.json",
            "games-00003.pgn",
        ] {
            fs::remove_file(out.join(name)).unwrap();
        }
        ok(&run(&out, &[&arguments[..], &["--parallel", "2"]].concat()));
        assert_eq!(files(&out), whole);
    }
}

/// Unmounts when it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(folder.path());
        let is_mounted = mount
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        is_mounted.then(|| SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_told_and_what_is_there_stays() {
    let Some(disk) = SmallDisk::new() else {
        eprintln!("SKIPPED: no small disk can be mounted here");
        return;
    };
    let out = disk.0.path().join("run");
    let output = run(&out, GAMES);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("No space left") && !error.contains("panicked"),
        "{error}"
    );
    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,size=64m"]).arg(disk.0.path());
    assert!(remount.status().unwrap().success());
    ok(&run(&out, &with(&["--resume"])));
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    ok(&run(&whole, GAMES));
    assert_eq!(files(&out), files(&whole));
}
