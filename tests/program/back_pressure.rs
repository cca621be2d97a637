//! Pipes that are full: nobody reads an output, or nobody writes an input. The program goes on, or ends; it never stops
//! for good. Each test is bounded by a deadline, which turns a program that hangs into a failure.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use crate::common::session::{TIMEOUT, end_of};

const BIN: &str = env!("CARGO_BIN_EXE_scorn");

/// Does `work` on a thread of its own.
fn within_deadline<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(TIMEOUT).expect("it hangs, or failed")
}

fn engine() -> Command {
    let mut command = Command::new(BIN);
    command.args(["--backend", "hash", "--threads", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[test]
fn a_log_that_nobody_reads_stops_neither_answers_nor_quit() {
    // Four times what a pipe takes.
    const COMMANDS: usize = 6000;
    let mut child = engine().stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers = within_deadline(move || {
        writeln!(input, "setoption name LogFile value <stderr>").unwrap();
        for _ in 0..COMMANDS {
            writeln!(input, "isready").unwrap();
        }
        writeln!(input, "go nodes 10\nwait\nquit").unwrap();
        let lines = output.lines().map(|line| line.unwrap());
        lines
            .filter(|line| line == "readyok" || line.starts_with("bestmove "))
            .count()
    });
    assert_eq!(answers, COMMANDS + 1);
    assert!(end_of(&mut child).success());
}

#[test]
fn an_output_that_nobody_reads_does_not_stop_quit() {
    let mut child = engine().spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let input = within_deadline(move || {
        // Some 10 KiB each.
        writeln!(input, "{}go nodes 10\nquit", "uci\n".repeat(100)).unwrap();
        input
    });
    assert!(end_of(&mut child).success());
    drop(input);
}

#[test]
fn an_output_that_is_never_read_ends_the_program_before_it_fills_the_memory() {
    let mut child = engine().spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    within_deadline(move || {
        // Until the program has ended, so that nobody reads.
        let answers = (0..).take_while(|_| writeln!(input, "isready").is_ok());
        assert!(answers.count() > 100_000);
    });
    end_of(&mut child);
}

#[test]
fn more_commands_than_may_wait_for_a_search_are_all_executed() {
    // More than the program keeps, than it reads in advance, and than a pipe takes.
    const COMMANDS: usize = 110_000;
    let mut child = engine().spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers = within_deadline(move || {
        // Nothing ends the first search, unless the program does when it has no room left.
        writeln!(input, "go infinite\nwait").unwrap();
        let many = "position startpos moves e2e4\n".repeat(COMMANDS);
        input.write_all(many.as_bytes()).unwrap();
        writeln!(input, "go nodes 10").unwrap();
        drop(input);
        let lines = output.lines().map(|line| line.unwrap());
        lines.filter(|line| line.starts_with("bestmove ")).count()
    });
    assert_eq!(answers, 2);
    assert!(end_of(&mut child).success());
}

/// With named pipes, and with shell scripts as engines.
#[cfg(unix)]
mod unix {
    use std::{
        path::Path,
        time::{Duration, Instant},
    };

    use scorn::{
        dataset::{
            record::{Record, Source},
            record_file::{Layout, RecordWriter},
        },
        uci_client::{Client, ClientError, GoLimits},
    };
    use shakmaty::Chess;

    use super::*;
    use crate::common::{script::write_script, session::Session};

    #[test]
    fn pipes_as_configuration_do_not_stop_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        let fifo = fifo.to_str().unwrap().to_owned();
        within_deadline(move || {
            let mut session = Session::new();
            for name in ["ConfigFile", "Profiles"] {
                let lines = session.send_and_sync(&format!("setoption name {name} value {fifo}"));
                let reported = lines.iter().any(|line| line.contains("it is a pipe"));
                assert!(reported, "{name}: {lines:?}");
            }
            assert_ne!(session.go("go nodes 10").0, "(none)");
            session.end();
        });
    }

    /// An engine as a shell script: what it does when it has announced itself.
    fn script(folder: &Path, then: &str) -> std::path::PathBuf {
        let path = folder.join("engine.sh");
        let text = format!("#!/bin/sh\necho uciok; echo readyok; echo readyok\n{then}\n");
        write_script(&path, &text);
        path
    }

    #[test]
    fn an_engine_that_never_reads_its_input_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        // It has no child that would survive it.
        let engine = script(folder.path(), "exec sleep 1000");
        within_deadline(move || {
            let mut client = Client::start(&engine, &[]).unwrap();
            client.wait_for_start().unwrap();
            let moves = " g1f3 g8f6 f3g1 f6g8".repeat(100);
            let position = format!("startpos moves{moves}");
            // Ten times what a pipe takes.
            for _ in 0..320 {
                client.request_move(&position, &GoLimits::Nodes(1)).unwrap();
            }
            let deadline = Instant::now() + Duration::from_millis(100);
            let error = client.wait_for_move(deadline, &mut |_| {}).unwrap_err();
            assert!(matches!(error, ClientError::Silent { .. }), "{error}");
        });
    }

    #[test]
    fn an_engine_that_waits_for_its_output_to_be_read_is_labelled_by() {
        const POSITIONS: u64 = 1500;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut writer = RecordWriter::create(&path("in.rec"), Layout::Plain).unwrap();
        for _ in 0..POSITIONS {
            let record = Record::new(&Chess::new(), false, Source::Real);
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        // It reports as much per position as Stockfish. All requests, and all that is printed for them, are more than
        // the pipes and the queues of lines take.
        let report = "info depth 1 seldepth 2 multipv 1 score cp 33 nodes 20 nps 20000 hashfull 0 tbhits 0 time 1 pv e2e4";
        let answer =
            format!("echo '{report}'; echo '{report}'; echo '{report}'; echo bestmove e2e4");
        let then = format!(
            "while read -r word rest; do case $word in go) {answer};; quit) exit;; esac; done"
        );
        let engine = script(folder.path(), &then);
        let mut child = Command::new(BIN)
            .args(["dataset", "label", "--queue", "3000", "--engine"])
            .arg(engine)
            .arg("--out")
            .args([path("out.rec"), path("in.rec")])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        assert!(end_of(&mut child).success());
        let labels = scorn::dataset::record_file::read_all(&path("out.rec")).unwrap();
        assert_eq!(labels.len() as u64, POSITIONS);
        assert!(labels.iter().all(|record| record.score == 33));
    }
}
