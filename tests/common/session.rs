//! A UCI session with the real program.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Nothing takes this long, however busy the machine is; it only turns a hang into a failure.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Waits for the end of a process, and kills it if it does not come.
pub fn end_of(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it hangs");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A running program and its output.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Session {
    /// A session with the hash backend.
    pub fn new() -> Session {
        Session::with(&["--backend", "hash", "--threads", "1"])
    }

    /// A session with these arguments.
    pub fn with(arguments: &[&str]) -> Session {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        Session {
            input: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Sends a line.
    pub fn send(&mut self, text: &str) {
        writeln!(self.input.as_mut().unwrap(), "{text}").unwrap();
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(TIMEOUT).expect("an answer")
    }

    /// All lines up to the first that begins with `word`, that one included.
    pub fn until(&mut self, word: &str) -> Vec<String> {
        let mut lines = vec![self.line()];
        while !lines.last().unwrap().starts_with(word) {
            lines.push(self.line());
        }
        lines
    }

    /// Sends a command and `isready`; returns the output up to `readyok`.
    pub fn send_and_sync(&mut self, text: &str) -> Vec<String> {
        self.send(text);
        self.send("isready");
        let mut lines = self.until("readyok");
        lines.pop();
        lines
    }

    /// Runs a search; returns the move and all lines.
    pub fn go(&mut self, text: &str) -> (String, Vec<String>) {
        self.send(text);
        let lines = self.until("bestmove");
        let best = lines.last().unwrap().split(' ').nth(1).unwrap().to_owned();
        (best, lines)
    }

    /// The line with the position's FEN.
    pub fn fen(&mut self) -> String {
        self.send("d");
        self.until("info string fen").pop().unwrap()
    }

    /// Closes the input and returns the rest of the output, after a successful exit.
    pub fn end(mut self) -> Vec<String> {
        self.input = None;
        let deadline = Instant::now() + TIMEOUT;
        let mut rest = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {rest:?}"),
            }
        }
        assert!(end_of(&mut self.child).success());
        rest
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The process is still there only if a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The nodes of the last report.
pub fn nodes(lines: &[String]) -> u64 {
    let report = lines
        .iter()
        .rev()
        .find_map(|line| line.split(" nodes ").nth(1));
    let number = report.and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap()
}
