//! `scorn selfplay` as a user runs it.

mod endings;
mod same_files;
mod training;
mod trouble;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

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
    "--max-plies",
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
