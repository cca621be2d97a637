//! Two processes with one folder or file, in every order: the second one begins, loads, locks and saves before, while
//! and after the first one does. One of them works, the other one does so afterwards or is refused; nothing is lost,
//! and nothing goes back.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use scorn::train::checkpoint::Checkpoint;

const GAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/training-smoke.pgn");

/// How many moments of the first process the second one begins at.
const MOMENTS: u32 = 5;

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Whether a process has succeeded; otherwise it must have been refused because of the other one.
fn has_worked(child: Child) -> bool {
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_refused = errors.contains("another program is writing");
    assert!(output.status.success() || is_refused, "{errors}");
    output.status.success()
}

/// Runs a job alone, in the folder `whole`. Then, in a folder for each moment, lets a second process begin at a moment
/// of the first one, which goes on or is killed; and at last a third one finish what they have left. `check` gets the
/// folders of the job alone and of the three.
fn race(job: impl Fn(&Path) -> Command, check: impl Fn(&Path, &Path)) {
    let base = tempfile::tempdir().unwrap();
    let folder = |name: String| -> PathBuf {
        let folder = base.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let whole = folder("whole".to_owned());
    let started = Instant::now();
    assert!(has_worked(start(&mut job(&whole))));
    let time = started.elapsed();
    for is_killed in [false, true] {
        for moment in 0..MOMENTS {
            let shared = folder(format!("{is_killed}-{moment}"));
            let mut first = start(&mut job(&shared));
            thread::sleep(time * moment / MOMENTS);
            let second = start(&mut job(&shared));
            if is_killed {
                thread::sleep(Duration::from_millis(5));
                // It may have ended.
                let _ = first.kill();
                first.wait().unwrap();
                has_worked(second);
            } else {
                let worked = [first, second].map(has_worked);
                assert!(worked.contains(&true));
            }
            assert!(has_worked(start(&mut job(&shared))));
            check(&whole, &shared);
        }
    }
}

fn scorn(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.args(arguments);
    command
}

/// Names and contents of a folder's files, locks excepted.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut files: Vec<_> = files
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, fs::read(file.path()).unwrap())
        })
        .filter(|(name, _)| name != ".lock")
        .collect();
    files.sort();
    files
}

#[test]
fn of_self_play() {
    let job = |folder: &Path| {
        let mut command = scorn(&["selfplay", "--backend", "hash", "--resume", "--games", "12"]);
        command.args([
            "--nodes",
            "20",
            "--max-plies",
            "40",
            "--games-per-file",
            "4",
        ]);
        command.arg("--out").arg(folder.join("run"));
        command
    };
    race(job, |whole, shared| {
        let [whole, shared] = [whole, shared].map(|folder| contents(&folder.join("run")));
        assert!(whole == shared);
    });
}

#[test]
fn of_training() {
    let data = tempfile::tempdir().unwrap();
    let records = data.path().join("x.rec");
    let records = records.to_str().unwrap();
    let read = scorn(&[
        "dataset",
        "pgn",
        GAMES,
        "--held-out",
        "20",
        "--out",
        records,
    ])
    .output();
    assert!(read.unwrap().status.success());
    let weights = format!("{records}:1");
    let job = |folder: &Path| {
        let mut command = scorn(&["train", "run", "--data", &weights, "--steps", "6"]);
        command.args(
            "--batch 64 --chunk 64 --log-every 2 --policy-width 64 --value-width 64".split(' '),
        );
        command.args(["--hidden", "8", "--folder"]);
        command.arg(folder.join("run"));
        command
    };
    race(job, |_, shared| {
        let checkpoint = Checkpoint::load(&shared.join("run/checkpoint")).unwrap();
        assert_eq!(checkpoint.progress.step, 6);
        let left = contents(&shared.join("run"));
        assert!(left.iter().all(|(name, _)| !name.ends_with(".partial")));
    });
}

#[test]
fn of_an_analysis() {
    let data = tempfile::tempdir().unwrap();
    let positions = data.path().join("x.epd");
    let lines = (1..40).map(|number| format!("4k3/8/8/8/8/8/8/4K2R w K - 0 {number}\n"));
    fs::write(&positions, lines.collect::<String>()).unwrap();
    let job = |folder: &Path| {
        let mut command = scorn(&["-b", "hash", "-t", "1", "analyze", "--nodes", "50", "--epd"]);
        command
            .arg(&positions)
            .arg("--output")
            .arg(folder.join("x.jsonl"));
        command
    };
    race(job, |whole, shared| {
        let [whole, shared] = [whole, shared].map(|folder| {
            let text = fs::read_to_string(folder.join("x.jsonl")).unwrap();
            text.lines().count()
        });
        assert_eq!(whole, shared);
    });
}
