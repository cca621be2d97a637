//! The scripts of experiments, with a shell script as the program: what they do with missing and wrong arguments. They
//! run for hours, so that a fault in them is expensive.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::script::write_script;

const EXPERIMENTS: [&str; 7] = [
    "against", "claim", "clock", "odds", "rules", "run", "strength",
];

/// A program whose games end at once, and which writes its arguments into a file beside it.
const PROGRAM: &str = r#"#!/bin/sh
echo "$*" >> "$(dirname "$0")/calls"
[ "$1" != --version ] || { echo "scorn 1"; exit; }
echo '{"a":3,"draws":1,"b":0,"wins":3,"losses":0,"forfeits":0}'
"#;

fn script(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, errors)
}

#[test]
fn a_script_without_arguments_prints_its_usage() {
    let experiments = EXPERIMENTS.map(|name| format!("docs/experiments/{name}.sh"));
    for path in experiments
        .iter()
        .map(|path| &**path)
        .chain(["benches/odds-gate.sh"])
    {
        let (output, errors) = run(&mut Command::new(script(path)));
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(errors.contains(&format!("Usage: {path} ")), "{errors}");
        assert!(
            !errors.contains("unbound") && !errors.contains("set -"),
            "{errors}"
        );
    }
}

#[test]
fn an_option_without_its_value_is_an_error_that_names_it() {
    let (output, errors) = run(Command::new(script("benches/gpu.sh")).arg("--engine"));
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("--engine needs a value"), "{errors}");
}

#[test]
fn the_table_of_odds_has_each_cell_once_and_says_if_it_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("scorn");
    write_script(&program, PROGRAM);
    let play_games = |games: &str, cells: &str| {
        let mut command = Command::new(script("docs/experiments/odds.sh"));
        let command = command.arg(&program).arg(folder.path().join("games"));
        run(command
            .arg(games)
            .env("CELLS", cells)
            .env_remove("MAIA")
            .env_remove("STOCKFISH"))
    };
    let play = |cells: &str| play_games("4", cells);
    let (output, errors) = play("^queen engine-10 800 (odds-)?plain$");
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        table,
        "queen engine-10 800 plain\t3\t1\t0\t87.5 +- 21.2\n\
         queen engine-10 800 odds-plain\t3\t1\t0\t87.5 +- 21.2\n",
        "{errors}"
    );
    // All games won: no error, but a bound.
    write_script(
        &program,
        &PROGRAM.replace(r#""a":3,"draws":1"#, r#""a":4,"draws":0"#),
    );
    let (output, errors) = play("^rook engine-30 800 plain$");
    let table = String::from_utf8(output.stdout).unwrap();
    let won = "rook engine-30 800 plain\t4\t0\t0\t100.0 (above 47.3)\n";
    assert_eq!(table, won, "{errors}");
    for (cells, code, reason) in [
        ("[", 2, "CELLS is no regular expression: ["),
        ("^king", 1, "no cell has a name like '^king'"),
        ("maia-1900", 1, "an opponent that is there (MAIA"),
    ] {
        let (output, errors) = play(cells);
        assert_eq!(output.status.code(), Some(code), "{cells}");
        assert!(errors.contains(reason), "{errors}");
        assert!(output.stdout.is_empty());
    }
    // Finished cells are those of one program and number of games.
    let (output, errors) = play_games("8", "plain");
    assert_eq!(output.status.code(), Some(2));
    let reason = "has cells of scorn 1, 4 games a cell: name another folder for scorn 1, 8 games";
    assert!(errors.contains(reason), "{errors}");
}

/// On one or two cores, too.
#[test]
fn games_on_tiny_clocks_are_played_at_least_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("scorn");
    write_script(&program, PROGRAM);
    // Nobody waits for the next look at the memory.
    let path = folder.path().join("path");
    fs::create_dir(&path).unwrap();
    write_script(&path.join("sleep"), "#!/bin/sh\n");
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    // Only the last match is left.
    let games = folder.path().join("games");
    fs::create_dir(&games).unwrap();
    for clock in ["1+0.01", "5+0.05", "40in10+0", "10+0.1", "30+0"] {
        for ponder in ["", "--ponder"] {
            for number in [1, 2] {
                let name = format!("{clock}{ponder}-{number}");
                if name != "30+0--ponder-2" {
                    fs::write(games.join(format!("{name}.json")), "{}").unwrap();
                }
            }
        }
    }
    let mut command = Command::new(script("docs/experiments/clock.sh"));
    let command = command.arg(&program).arg(&games).arg("book.epd").arg("2");
    let (output, errors) = run(command.env("PATH", path));
    assert!(output.status.success(), "{errors}");
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(
        calls.contains("--concurrency 1 ") && calls.ends_with("--ponder\n"),
        "{calls}"
    );
    assert_eq!(calls.lines().count(), 1);
}

#[test]
fn the_gate_compares_with_the_table_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("scorn");
    write_script(&program, PROGRAM);
    let gate = |arguments: &[&str]| {
        let mut command = Command::new(script("benches/odds-gate.sh"));
        let command = command.arg(&program).arg(folder.path().join("games"));
        run(command
            .arg("--short")
            .args(arguments)
            .env_remove("STOCKFISH"))
    };
    let table = folder.path().join("mine.tsv");
    let table = table.to_str().unwrap();
    let (output, errors) = gate(&["--write", table]);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(fs::read_to_string(table).unwrap().lines().count(), 10);
    let (output, errors) = gate(&["--baseline", table]);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let found = String::from_utf8(output.stdout).unwrap();
    assert!(found.contains("plain: +0.0 +- "), "{found}");
    let (output, errors) = gate(&["--baseline"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(errors, "odds-gate.sh: --baseline needs a value\n");
}
