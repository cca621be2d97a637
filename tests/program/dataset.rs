//! `scorn dataset` as a user runs it: games to records, samples, counts, and what it says of bad input.

use std::{
    path::Path,
    process::{Command, Output},
};

const GAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/training-smoke.pgn");

fn scorn(command: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scorn"))
        .arg(command)
        .args(arguments)
        .output()
        .unwrap()
}

fn dataset(arguments: &[&str]) -> Output {
    scorn("dataset", arguments)
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

#[test]
fn games_become_records_and_samples() {
    let dir = tempfile::tempdir().unwrap();
    let (games, sample) = (
        path(dir.path(), "games.rec"),
        path(dir.path(), "sample.rec"),
    );
    let said = stdout(&dataset(&[
        "pgn",
        GAMES,
        "--out",
        &games,
        "--held-out",
        "20",
    ]));
    assert!(
        said.starts_with("24 games, 2208 positions; skipped 0 corrupt"),
        "{said}"
    );
    let said = stdout(&dataset(&[
        "sample", &games, "--out", &sample, "--count", "300",
    ]));
    assert_eq!(said, "300 positions\n");
    let json = stdout(&dataset(&["stats", &games, &sample, "--json"]));
    let counts: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(counts["game"]["records"], 1129, "{json}");
    assert!(counts["game"]["results"]["won"].is_u64(), "{json}");
    let table = stdout(&dataset(&["stats", &games, &sample]));
    for source in [
        "engine game",
        "random moves",
        "odds",
        "unbalanced",
        "endgame",
    ] {
        assert!(table.contains(source), "{table}");
    }
}

#[test]
fn searches_give_positions_too() {
    let dir = tempfile::tempdir().unwrap();
    let (games, visited) = (
        path(dir.path(), "games.rec"),
        path(dir.path(), "visited.rec"),
    );
    stdout(&dataset(&["pgn", GAMES, "--out", &games]));
    let arguments = [
        "visit",
        &games,
        "--out",
        &visited,
        "--count",
        "64",
        "--nodes",
        "40",
        "--backend",
        "hash",
    ];
    assert_eq!(stdout(&dataset(&arguments)), "64 positions\n");
    // What is there already is not done again.
    assert_eq!(stdout(&dataset(&arguments)), "64 positions\n");
    assert!(stdout(&dataset(&["stats", &visited])).contains("visited"));
    let output = dataset(&[
        "visit",
        &games,
        "--out",
        &path(dir.path(), "other.rec"),
        "--count",
        "99",
        "--weights",
        "none.pb",
    ]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("none.pb"),
        "{error}"
    );
}

#[test]
fn a_network_learns_what_searches_found() {
    let dir = tempfile::tempdir().unwrap();
    let [games, found, start] =
        ["games.rec", "found.vis", "start"].map(|name| path(dir.path(), name));
    stdout(&dataset(&["pgn", GAMES, "--out", &games]));
    let arguments = "--count 30 --nodes 300 --min-visits 20 --cpuct 3 --backend hash";
    let arguments: Vec<&str> = ["search", &games, "--out", &found]
        .into_iter()
        .chain(arguments.split(' '))
        .collect();
    assert!(stdout(&dataset(&arguments)).ends_with(" positions\n"));
    let again = dataset(&arguments);
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(error.contains("--force"), "{error}");
    let help = stdout(&dataset(&["search", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("an interrupted run starts again"), "{help}");
    stdout(&scorn("train", &["start", &start]));
    let measure = ["measure", &start, &found, "--result-share", "0"];
    let measured = stdout(&scorn("train", &measure));
    assert!(measured.contains("found.vis: policy "), "{measured}");
}

#[test]
fn a_network_s_values_are_only_learned_without_results() {
    let dir = tempfile::tempdir().unwrap();
    let [games, out] = ["games.rec", "out.vis"].map(|name| path(dir.path(), name));
    stdout(&dataset(&["pgn", GAMES, "--out", &games]));
    let arguments = ["policy", &games, "--out", &out, "--backend", "hash"];
    let said = stdout(&dataset(&[&arguments[..], &["--count", "9"]].concat()));
    assert!(
        said.starts_with("9 positions") && said.contains("--result-share 0"),
        "{said}"
    );
    let help = stdout(&dataset(&["policy", "--help"]));
    assert!(help.contains("--result-share 0"), "{help}");
    let nothing = [&arguments[..], &["--skip", "9999", "--force"]].concat();
    let error = dataset(&nothing);
    assert_eq!(error.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&error.stderr).contains("2208 records"));
}

#[test]
fn evaluations_are_of_the_position_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let [games, other] = ["a.pgn", "b.pgn"].map(|name| path(dir.path(), name));
    let moves = "1. e4 { [%eval 0.3] } e5 { [%eval 0.5] } 2. Nf3 *\n";
    std::fs::write(&games, format!("[Annotator \"Scorn 0.1.0\"]\n\n{moves}")).unwrap();
    std::fs::write(&other, moves).unwrap();
    let scores = |input: &str, more: &[&str]| -> Vec<i16> {
        let out = path(dir.path(), "out.rec");
        let usual = ["pgn", input, "--out", &out, "--min-plies", "1", "--force"];
        stdout(&dataset(&[&usual[..], more].concat()));
        let records = std::fs::read(&out).unwrap();
        let scores = records[48..].chunks(48);
        scores
            .map(|record| i16::from_le_bytes([record[38], record[39]]))
            .collect()
    };
    let (before, after) = ([30, -50, i16::MIN], [i16::MIN, -30, 50]);
    assert_eq!(scores(&games, &[]), after);
    assert_eq!(scores(&games, &["--evals", "before"]), before);
    assert_eq!(scores(&other, &[]), before);
    assert_eq!(scores(&other, &["--evals", "after"]), after);
}

#[test]
fn a_damaged_record_is_reported_with_its_file_and_number() {
    let dir = tempfile::tempdir().unwrap();
    let [games, out] = ["games.rec", "out"].map(|name| path(dir.path(), name));
    stdout(&dataset(&["pgn", GAMES, "--out", &games]));
    let whole = std::fs::read(&games).unwrap();
    let mut bytes = whole.clone();
    // The sixth record, after the header: no kings.
    bytes[6 * 48..6 * 48 + 32].fill(0);
    std::fs::write(&games, bytes).unwrap();
    let commands = [
        vec!["stats", &games],
        vec!["sample", &games, "--out", &out, "--count", "9"],
        vec!["policy", &games, "--out", &out, "--backend", "hash"],
        vec![
            "visit",
            &games,
            "--out",
            &out,
            "--count",
            "9",
            "--backend",
            "hash",
        ],
    ];
    let refused = |reported: &str| {
        for command in &commands {
            let output = dataset(command);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.code() == Some(1)
                    && error.contains("games.rec")
                    && error.contains(reported),
                "{command:?}: {error}"
            );
            assert!(!Path::new(&out).exists(), "{command:?}");
        }
    };
    refused("record 5 of");
    std::fs::write(&games, &whole[..whole.len() - 7]).unwrap();
    refused("ends within record 2207");
}

#[test]
fn bad_input_is_reported_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (missing, out) = (path(dir.path(), "none.pgn"), path(dir.path(), "out.rec"));
    let output = dataset(&["pgn", &missing, "--out", &out]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("none.pgn"),
        "{error}"
    );
    let empty = path(dir.path(), "empty.pgn");
    std::fs::write(&empty, "no game at all\n").unwrap();
    let output = dataset(&["pgn", &empty, "--out", &out]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("no game"),
        "{error}"
    );
    assert!(!Path::new(&out).exists());
    let broken = path(dir.path(), "broken.pgn");
    std::fs::write(
        &broken,
        "[White \"a\"]\n\n1. e4 *\n\n[White \"b\"]\n\n1. e4 Ke5 *\n",
    )
    .unwrap();
    let output = dataset(&["pgn", &broken, "--out", &out, "--min-plies", "1"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        stdout(&output),
        "1 game, 1 position; skipped 1 corrupt game and 0 short games\n"
    );
    assert!(
        error.contains("broken.pgn: skipped the game at byte 22: Ke5 at ply 2"),
        "{error}"
    );
    let output = dataset(&["stats", GAMES]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("not a record file"),
        "{error}"
    );
    for (arguments, reported) in [
        ("label in.rec --out out.rec --nodes 0", "--nodes"),
        ("sample in.rec --out out.rec --count 0", "--count"),
        ("pgn in.pgn --out out.rec --held-out nan", "from 0 to 100"),
    ] {
        let output = dataset(&arguments.split(' ').collect::<Vec<_>>());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && error.contains(reported),
            "{error}"
        );
    }
}
