//! `scorn match` as a user runs it: against itself with the hash evaluator, and against misbehaving engines, which
//! are shell scripts.
#![cfg(unix)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use scorn::pgn::Reader;

use crate::common::{machine, script::write_script};

/// Nothing takes this long; it only turns a hang into a failure.
const TIMEOUT: Duration = Duration::from_secs(120);

const HASH: &str = "self;Backend=hash;Threads=1;MinibatchSize=1";

const BOOK: &str = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -\n\
                    rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq -\n\
                    rnbqkbnr/pppppppp/8/8/2P5/8/PP1PPPPP/RNBQKBNR b KQkq -\n\
                    rnbqkbnr/pppppppp/8/8/8/5N2/PPPPPPPP/RNBQKB1R b KQkq -\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.path("book.epd"), BOOK).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// An engine that runs this when a move is requested.
    fn engine(&self, name: &str, on_go: &str) -> String {
        self.script(name, "", &format!("go*) {on_go};;\n"))
    }

    /// An engine with these options and answers, which are branches of the shell's `case` for a line.
    fn script(&self, name: &str, options: &str, answers: &str) -> String {
        let path = self.path(name);
        let script = format!(
            "#!/bin/sh\nwhile read -r line; do echo \"$line\" >> \"$0.log\"; case \"$line\" in\n\
             uci) echo 'id name {name}'; echo '{options}'; echo uciok;;\nisready) echo readyok;;\n\
             {answers}quit) exit 0;;\nesac; done\n"
        );
        write_script(&path, &script);
        path.to_str().unwrap().to_owned()
    }

    /// The input of a scripted engine in all its games.
    fn received(&self, engine: &str) -> String {
        fs::read_to_string(format!("{engine}.log")).unwrap()
    }

    /// Whether it has a file that was not finished.
    fn has_partial_file(&self) -> bool {
        let mut files = fs::read_dir(self.0.path()).unwrap().map(Result::unwrap);
        files.any(|file| file.file_name().to_string_lossy().ends_with(".partial"))
    }

    /// A match of two engines with these arguments.
    fn play(&self, first: &str, second: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
        command.args(["match", first, second]);
        self.run(&mut command, arguments)
    }

    fn run(&self, command: &mut Command, arguments: &[&str]) -> Output {
        let mut child = command
            .args(arguments)
            .stdout(Stdio::from(fs::File::create(self.path("stdout")).unwrap()))
            .stderr(Stdio::from(fs::File::create(self.path("stderr")).unwrap()))
            .spawn()
            .unwrap();
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("a match hangs: {arguments:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Output {
            status,
            stdout: fs::read(self.path("stdout")).unwrap(),
            stderr: fs::read(self.path("stderr")).unwrap(),
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn games(path: &Path) -> Vec<scorn::pgn::Game> {
    Reader::open(path).unwrap().map(Result::unwrap).collect()
}

/// The words of fastchess: limits, adjudication and results.
#[test]
fn flags_and_results_are_those_of_fastchess() {
    let folder = Folder::new();
    let (book, pgn) = (folder.text("book.epd"), folder.text("usual.pgn"));
    let play = |flags: &str| {
        let common = ["--book", &*book, "--pairs", "1"];
        let flags: Vec<&str> = flags.split(' ').collect();
        folder.play(
            HASH,
            &format!("{HASH};CPuct=3"),
            &[&common, &flags[..]].concat(),
        )
    };
    let rules = "--resign movecount=3,score=600 --draw movenumber=35,movecount=8,score=20";
    let usual = play(&format!(
        "--nodes 20 --max-plies 40 {rules} --sprt 0,50,0.05,0.05 --pgn {pgn}"
    ));
    let lines = text(&usual.stdout);
    assert!(usual.status.success(), "{}", text(&usual.stderr));
    for line in ["Games: 2, Wins: ", "Ptnml(0-2): [", "LLR: "] {
        assert!(
            lines.lines().any(|found| found.starts_with(line)),
            "{lines}"
        );
    }
    assert_eq!(games(&folder.path("usual.pgn")).len(), 2);
    let game = &games(&folder.path("usual.pgn"))[0];
    let date = game.tag("Date").unwrap();
    assert!(date.len() == 10 && date.starts_with("20"), "{date}");
    assert_eq!(
        game.tag("WhiteEngine"),
        Some(concat!("Scorn ", env!("CARGO_PKG_VERSION")))
    );
}

/// Former names of flags, accepted until version 0.2: the settings are the same, so a match that is repeated with them
/// is found complete.
#[test]
fn former_flags_mean_the_same() {
    let folder = Folder::new();
    for (name, limit, former) in [
        ("nodes", "--nodes 3", "--limit nodes=3"),
        ("time", "--st 0.01", "--limit time=0.01"),
        ("clock", "--tc 1+0.01", "--limit clock=1+0.01"),
    ] {
        let pgn = folder.path(&format!("{name}.pgn"));
        let play = |flags: &str| {
            let flags = format!("{flags} --pairs 1 --json --pgn {}", pgn.display());
            json(&folder.play(HASH, HASH, &flags.split(' ').collect::<Vec<_>>()))
        };
        let rules = "--resign movecount=3,score=600 --draw movenumber=35,movecount=8,score=20";
        let margins = "--time-margin 60000 --stall-timeout 200";
        play(&format!("{limit} --max-plies 4 {margins} {rules}"));
        let played = fs::read(&pgn).unwrap();
        let former = format!("{former} --longest 4 --margin 60000 --stall 200");
        let repeated = play(&format!("{former} --resign 6,6 --draw 35,16,0.2"));
        assert_eq!(repeated["games"], 2, "{repeated}");
        assert_eq!(fs::read(&pgn).unwrap(), played, "{name}");
    }
}

/// Mistakes in these flags name what is expected; a hidden option of the engine can be set.
#[test]
fn mistakes_in_flags_are_explained_and_hidden_options_work() {
    let folder = Folder::new();
    let book = folder.text("book.epd");
    let play = |flags: &str| {
        let flags: Vec<&str> = flags.split(' ').collect();
        folder.play(
            HASH,
            HASH,
            &[&["--book", &*book, "--pairs", "1"], &flags[..]].concat(),
        )
    };
    for (flags, message) in [
        ("--tc 10 --nodes 5", "cannot be used with"),
        ("--tc x", "seconds, as in 60+0.6"),
        ("--resign movecount=3", "movecount=3,score=600"),
        ("--draw movecount=3,score=5", "movenumber=35"),
    ] {
        let output = play(flags);
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(
            text(&output.stderr).contains(message),
            "{}",
            text(&output.stderr)
        );
    }
    let profiles = folder.text("profiles.toml");
    fs::write(&profiles, "").unwrap();
    let hidden = format!("{HASH};CPuctBase=20000;Profiles={profiles}");
    let output = folder.play(
        HASH,
        &hidden,
        &[
            "--book",
            &book,
            "--pairs",
            "1",
            "--nodes",
            "5",
            "--max-plies",
            "20",
        ],
    );
    assert!(
        output.status.success(),
        "a hidden option: {}",
        text(&output.stderr)
    );
}

#[test]
fn a_match_is_reproducible_and_its_games_are_whole() {
    let folder = Folder::new();
    let other = format!("{HASH};CPuct=3");
    let book = folder.text("book.epd");
    let play = |name: &str, more: &[&str]| {
        let pgn = folder.text(name);
        let usual = [
            "--book",
            &book,
            "--nodes",
            "50",
            "--pairs",
            "3",
            "--max-plies",
            "60",
        ];
        let arguments = [&usual[..], &["--pgn", &pgn, "--json"], more].concat();
        let output = folder.play(HASH, &other, &arguments);
        (json(&output), fs::read_to_string(&pgn).unwrap())
    };
    let html = folder.text("report.html");
    let (message, once) = play("once.pgn", &["--html", &html, "--sprt", "0,50,0.05,0.05"]);
    assert_eq!(
        (&message["games"], &message["left"]),
        (&6.into(), &0.into())
    );
    let pairs: u64 = message["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(pairs, 3);
    assert_eq!(message["sprt"]["verdict"], "continue");
    assert!(message["forfeits"].as_array().unwrap().is_empty());
    assert_eq!(
        fs::read_to_string(&html).unwrap().matches("<svg").count(),
        3
    );
    assert!(play("again.pgn", &[]).1 == once);
    // Two concurrent games end in another order.
    let sorted = |text: &str| {
        let mut games: Vec<String> = text.split("[Event ").map(str::to_owned).collect();
        games.sort();
        games
    };
    assert_eq!(
        sorted(&play("two.pgn", &["--concurrency", "2"]).1),
        sorted(&once)
    );
    assert_ne!(play("other.pgn", &["--seed", "2"]).1, once);

    check_pairs(&games(&folder.path("once.pgn")));
    assert!(
        once.contains("[%eval ") && once.contains("[%nodes 50]"),
        "{once}"
    );
}

/// Three openings, each played from both sides.
fn check_pairs(games: &[scorn::pgn::Game]) {
    assert_eq!(games.len(), 6);
    for pair in games.chunks(2) {
        assert_eq!(pair[0].start, pair[1].start);
        assert_eq!(pair[0].tag("White"), pair[1].tag("Black"));
        assert_eq!(pair[0].tag("White"), Some(HASH));
        assert!(
            pair.iter()
                .all(|game| game.outcome.is_some() && !game.moves.is_empty())
        );
    }
}

/// A match that can be stopped and resumed.
struct Stoppable {
    folder: Folder,
    book: String,
    pgn: String,
}

impl Stoppable {
    fn new() -> Stoppable {
        let folder = Folder::new();
        let (book, pgn) = (folder.text("book.epd"), folder.text("match.pgn"));
        Stoppable { folder, book, pgn }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let usual = "--nodes 20 --max-plies 40".split(' ');
        let files = ["--book", &self.book, "--pgn", &self.pgn];
        let more = more.iter().copied();
        usual.chain(files).chain(more).collect()
    }

    fn play(&self, more: &[&str]) -> Output {
        self.folder.play(HASH, HASH, &self.arguments(more))
    }

    /// The result of a match of three pairs, and its games.
    fn whole(&self) -> (serde_json::Value, Vec<u8>) {
        let message = json(&self.play(&["--pairs", "3", "--json"]));
        (message, self.games())
    }

    fn games(&self) -> Vec<u8> {
        fs::read(&self.pgn).unwrap()
    }
}

#[test]
fn a_match_with_a_truncated_file_resumes_to_the_same_games() {
    let stoppable = Stoppable::new();
    let (whole, games) = stoppable.whole();
    let third = text(&games).match_indices("[Event ").nth(3).unwrap().0;
    for end in [
        games.len() - 1,
        games.len() - 2,
        games.len() - 30,
        third,
        third + 3,
        third + 12,
        third + 300,
        20,
        0,
    ] {
        fs::write(&stoppable.pgn, &games[..end]).unwrap();
        let (message, again) = stoppable.whole();
        assert_eq!(message, whole, "cut at {end}");
        assert!(again == games, "cut at {end}");
    }
}

/// Elsewhere there may be no such file.
#[cfg(target_os = "linux")]
#[test]
fn a_configuration_file_that_no_argument_can_name_is_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join(OsStr::from_bytes(b"\xff.config"));
    fs::write(&config, "cpuct=2\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .arg("--config")
        .arg(&config)
        .args(["match", "self", "self", "--nodes", "5", "--pairs", "1"])
        .output()
        .unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("is not UTF-8"), "{errors}");
}

/// Only the game in progress is lost.
#[test]
fn a_killed_match_resumes_to_the_same_games() {
    let stoppable = Stoppable::new();
    let (whole, games) = stoppable.whole();
    let pgn = &stoppable.pgn;
    // On a busy machine the match may end first.
    let is_unfinished = || {
        fs::remove_file(pgn).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(["match", HASH, HASH])
            .args(stoppable.arguments(&["--pairs", "3"]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("a game is written", || {
            fs::metadata(pgn).is_ok_and(|file| file.len() > 0)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        stoppable.games().len() < games.len()
    };
    assert!((0..50).any(|_| is_unfinished()), "it ends too early");
    assert!(stoppable.whole() == (whole, games));
}

/// A match against an engine that takes a second a move is sent a signal while its second game is played.
#[test]
fn a_stopped_match_has_its_result_and_goes_on_by_the_same_command() {
    let stoppable = Stoppable::new();
    let folder = &stoppable.folder;
    let slow = folder.engine("slow", "test -e \"$0.slow\" && sleep 1; echo bestmove a1a1");
    let page = folder.text("page.html");
    let arguments = ["--pairs", "3", "--html", &page, "--json"];
    let run = |more: &[&str]| {
        let arguments = stoppable.arguments(&[&arguments[..], more].concat());
        folder.play(HASH, &slow, &arguments)
    };
    for signal in ["INT", "TERM"] {
        let _ = fs::remove_file(&stoppable.pgn);
        let _ = fs::remove_file(&page);
        fs::write(format!("{slow}.slow"), "").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(["match", HASH, &slow])
            .args(stoppable.arguments(&arguments))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("a game is written", || {
            fs::metadata(&stoppable.pgn).is_ok_and(|file| file.len() > 0)
        });
        send_signal(signal, &[child.id()]);
        assert_eq!(child.wait().unwrap().code(), Some(1));
        let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
        let message: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        assert!(
            message["games"]
                .as_u64()
                .is_some_and(|games| (1..6).contains(&games)),
            "{message}"
        );
        assert_eq!(
            message["wins"], message["games"],
            "a stopped game was counted"
        );
        let errors = text(&stderr);
        assert!(
            errors.contains("stopped: the same command continues it"),
            "{errors}"
        );
        assert!(fs::read_to_string(&page).unwrap().contains("<html"));
        assert!(!folder.has_partial_file());
        fs::remove_file(format!("{slow}.slow")).unwrap();
        assert_eq!(json(&run(&[]))["games"], 6);
        assert_eq!(json(&run(&["--pairs", "4"][2..]))["games"], 6);
    }
    // A page of something else stays.
    fs::write(&page, "<html>mine</html>").unwrap();
    let refused = run(&[]);
    assert!(text(&refused.stderr).contains("page.html exists; --force overwrites it"));
    assert_eq!(fs::read_to_string(&page).unwrap(), "<html>mine</html>");
}

/// What two players of one command line have in common is no name; the limits or their numbers are.
#[test]
fn players_of_one_command_line_have_their_own_names() {
    for (limit, names) in [
        ("nodes=5", ["(nodes=20)", "(nodes=5)"]),
        ("nodes=20", ["#1", "#2"]),
    ] {
        let stoppable = Stoppable::new();
        // The second run continues the match of the first one.
        for pairs in ["1", "2"] {
            let output = stoppable.play(&["--pairs", pairs, "--second-limit", limit]);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        let [first, second] = names.map(|name| format!("{HASH} {name}"));
        let players: Vec<_> = games(Path::new(&stoppable.pgn))
            .iter()
            .map(|game| ["White", "Black"].map(|tag| game.tag(tag).unwrap().to_owned()))
            .collect();
        let pair = [[first.clone(), second.clone()], [second, first]];
        assert_eq!(players, [&pair[..], &pair[..]].concat());
    }
}

#[test]
fn games_are_reused_by_a_longer_match_and_no_other() {
    let stoppable = Stoppable::new();
    let (_, games) = stoppable.whole();
    let longer = stoppable.play(&["--pairs", "4", "--json"]);
    assert_eq!(json(&longer)["games"], 8);
    let before = stoppable.games();
    assert!(before.starts_with(&games));
    for (more, messages) in [
        (
            &["--pairs", "4", "--seed", "9"][..],
            &["(seed was ", ", is 9)"][..],
        ),
        (&["--pairs", "2"], &["beyond the requested number of pairs"]),
        (
            &["--pairs", "4", "--second-limit", "nodes=21"],
            &["(second limit was "],
        ),
        (
            &["--pairs", "4", "--adjudicate"],
            &["(draw was not set, is ", "; resign was not set, is "],
        ),
        (
            &[
                "--pairs",
                "4",
                "--time-margin",
                "99",
                "--stall-timeout",
                "9",
            ],
            &["(stall-timeout was ", "; time-margin was "],
        ),
    ] {
        let output = stoppable.play(more);
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        let errors = text(&output.stderr);
        for message in messages {
            assert!(errors.contains(message), "{more:?}: {errors}");
        }
        assert!(stoppable.games() == before);
    }
}

#[test]
fn one_file_for_games_and_page_is_refused_before_the_match() {
    let folder = Folder::new();
    let file = folder.text("x.out");
    let output = folder.play(
        HASH,
        HASH,
        &["--nodes", "5", "--pgn", &file, "--html", &file],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("would be written twice"));
    assert!(!folder.path("x.out").exists());
}

#[test]
fn adjudication_by_scores_of_another_unit_is_warned_of() {
    let folder = Folder::new();
    let warns = |player: &str, more: &[&str]| {
        let arguments = [&["--nodes", "5", "--pairs", "1", "--max-plies", "4"], more].concat();
        let output = folder.play(player, player, &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr).contains("give it ScoreType=centipawn")
    };
    assert!(warns(HASH, &["--adjudicate"]));
    assert!(warns(HASH, &["--resign", "movecount=3,score=600"]));
    assert!(!warns(HASH, &[]));
    assert!(!warns(
        &format!("{HASH};ScoreType=centipawn"),
        &["--adjudicate"]
    ));
}

#[test]
fn a_match_is_not_resumed_with_another_program_of_the_same_name() {
    let folder = Folder::new();
    let pgn = folder.text("match.pgn");
    let play = |pairs: &str, on_go: &str| {
        let engine = folder.engine("changes", on_go);
        let arguments = ["--nodes", "20", "--pgn", &pgn, "--pairs", pairs];
        folder.play(HASH, &engine, &arguments)
    };
    assert!(play("1", "echo bestmove a1a1").status.success());
    assert!(play("2", "echo bestmove a1a1").status.success());
    let output = play("3", "echo bestmove a8a8");
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("second"), "{errors}");
    assert_eq!(games(&folder.path("match.pgn")).len(), 4);
}

#[test]
fn forfeits_are_reported_and_never_hang() {
    let folder = Folder::new();
    let pgn = folder.text("match.pgn");
    for (name, on_go, limit, fault) in [
        (
            "crashes",
            "echo 'out of memory' >&2; exit 3",
            "nodes=20",
            "out of memory",
        ),
        ("illegal", "echo bestmove a1a1", "nodes=20", "'a1a1'"),
        ("nonsense", "echo bestmove", "nodes=20", "illegal move"),
        ("stalls", "exec sleep 1000", "nodes=20", "did not answer"),
        (
            "talks",
            "while true; do echo info string x; done",
            "nodes=20",
            "did not answer",
        ),
        ("late", "sleep 1; echo bestmove e2e4", "time=0.1", "allowed"),
        (
            "flags",
            "sleep 1; echo bestmove e2e4",
            "clock=0.2+0",
            "allowed",
        ),
    ] {
        let _ = fs::remove_file(&pgn);
        let engine = folder.engine(name, on_go);
        let arguments = [
            "--pairs",
            "1",
            "--second-limit",
            limit,
            "--nodes",
            "20",
            "--stall-timeout",
            "1",
        ];
        let arguments = [&arguments[..], &["--pgn", &pgn, "--json"]].concat();
        let output = folder.play(HASH, &engine, &arguments);
        let message = json(&output);
        assert_eq!(message["wins"], 2, "{name}: {message}");
        let forfeits = message["forfeits"].as_array().unwrap();
        assert_eq!(forfeits.len(), 2, "{name}: {message}");
        assert_eq!(forfeits[1]["player"], "second", "{name}: {message}");
        assert!(
            forfeits[0]["details"].as_str().unwrap().contains(fault),
            "{name}: {message}"
        );
        assert!(text(&output.stderr).contains(fault), "{name}");
        let games = games(&folder.path("match.pgn"));
        assert_eq!(games[0].tag("Result"), Some("1-0"), "{name}");
        assert_eq!(games[1].tag("Result"), Some("0-1"), "{name}");
        let strict = folder.play(HASH, &engine, &[&arguments[..], &["--strict"]].concat());
        assert_eq!(strict.status.code(), Some(1));
    }
}

/// White expects the right reply, a wrong one or an illegal one; Black would ponder, but has no option for it.
#[test]
fn engines_ponder() {
    let folder = Folder::new();
    let message = |reply: &str, is_pondering: bool| {
        let white = folder.script(
            &format!("expects-{reply}-{is_pondering}"),
            "option name Ponder type check default false",
            &format!(
                "'go ponder'*) ;;\nponderhit) echo bestmove g1f3;;\nstop) echo bestmove a2a3;;\n\
                 go*) echo bestmove e2e4 ponder {reply};;\n"
            ),
        );
        let black = folder.engine("waits", "echo bestmove e7e5 ponder g1f3");
        let arguments = "--pairs 1 --first-is-white --nodes 20 --stall-timeout 10 --json --ponder";
        let mut arguments: Vec<&str> = arguments.split(' ').collect();
        if !is_pondering {
            arguments.pop();
        }
        json(&folder.play(&white, &black, &arguments));
        assert!(!folder.received(&black).contains("onder"));
        let received = folder.received(&white);
        let (_, game) = received.split_once("go nodes 20\n").unwrap();
        let game = game.replace("position startpos moves e2e4 ", "");
        let game = game.trim_end_matches("quit\n").trim_end();
        (
            received.contains("setoption name Ponder value true"),
            game.replace('\n', ", "),
        )
    };
    let asked_again = "e7e5, go nodes 20".to_owned();
    for (reply, game) in [
        ("e7e5", "e7e5, go ponder nodes 20, ponderhit".to_owned()),
        (
            "d7d5",
            format!("d7d5, go ponder nodes 20, stop, {asked_again}"),
        ),
        ("d2d4", asked_again.clone()),
    ] {
        assert_eq!(message(reply, true), (true, game));
    }
    assert_eq!(message("e7e5", false), (false, asked_again));

    let arguments = "--tc 2+0.02 --pairs 1 --max-plies 30 --strict --json --ponder";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    assert_eq!(json(&folder.play(HASH, HASH, &arguments))["games"], 2);
}

/// The shell stays while the engine that it has started hangs.
#[test]
fn an_engine_behind_a_script_is_killed_with_it() {
    let folder = Folder::new();
    let engine = folder.engine("behind", "sleep 1000 & echo $! > \"$0.pid\"; wait");
    let arguments = "--pairs 1 --first-is-white --nodes 5 --stall-timeout 1 --json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let message = json(&folder.play(&engine, HASH, &arguments));
    assert_eq!(message["losses"], 1, "{message}");
    let process = fs::read_to_string(format!("{engine}.pid")).unwrap();
    wait_until("the engine's child has ended", || !is_running(&process));
}

/// Waits; nothing takes as long as the timeout.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_running(process: &str) -> bool {
    Command::new("kill")
        .args(["-0", process.trim()])
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success()
}

fn send_signal(name: &str, processes: &[u32]) {
    let sent = Command::new("kill")
        .args(["-s", name])
        .args(processes.iter().map(u32::to_string))
        .status();
    assert!(sent.unwrap().success());
}

/// As when a service is stopped: one engine is in a game, the other one starts, and both get the match's signal.
#[test]
fn games_of_engines_that_are_stopped_with_the_match_do_not_count() {
    let stoppable = Stoppable::new();
    let folder = &stoppable.folder;
    let waits = "if test -e \"$0.waits\"; then echo $$ > \"$0.pid\"; exec sleep 1000; fi";
    let playing = folder.engine("playing", &format!("{waits}; echo bestmove a1a1"));
    // It lets one engine play, and the next one wait.
    let starting = folder.text("starting");
    let script = format!(
        "#!/bin/sh\nif test -e '{playing}.waits' && ! mkdir \"$0.first\"; then\n\
         echo $$ > \"$0.pid\"; exec sleep 1000; fi\nexec '{playing}'\n"
    );
    write_script(Path::new(&starting), &script);
    fs::write(format!("{playing}.waits"), "").unwrap();
    let arguments = stoppable.arguments(&["--pairs", "1", "--concurrency", "2", "--json"]);
    let child = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["match", HASH, &starting])
        .args(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let engines = ["playing.pid", "starting.pid"].map(|name| {
        let read = || fs::read_to_string(folder.path(name)).unwrap_or_default();
        wait_until("the engines wait", || read().ends_with('\n'));
        read().trim().parse().unwrap()
    });
    send_signal("TERM", &[engines[0], engines[1], child.id()]);
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let errors = text(&stderr);
    assert_eq!(status.code(), Some(1), "{errors}");
    let message: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(message["games"], 0, "{message}");
    let is_stopped = errors.contains("stopped: the same command continues it");
    assert!(is_stopped && !errors.contains("forfeits"), "{errors}");
    assert!(stoppable.games().is_empty());
    fs::remove_file(format!("{playing}.waits")).unwrap();
    let continued = folder.play(HASH, &starting, &arguments);
    assert_eq!(json(&continued)["games"], 2);
}

/// The first Ctrl-C waits for the engine's move; the second one neither does nor leaves the engine or a file behind.
#[test]
fn a_second_interrupt_kills_engines_that_hang() {
    let folder = Folder::new();
    let engine = folder.engine("hangs", "sleep 1000 & echo $! > \"$0.pid\"; wait");
    let mut child = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["match", &engine, HASH, "--nodes", "5", "--first-is-white"])
        .args(["--html", &folder.text("page.html")])
        .stdout(Stdio::null())
        .stderr(Stdio::from(
            fs::File::create(folder.path("stderr")).unwrap(),
        ))
        .spawn()
        .unwrap();
    let read = |name: &str| fs::read_to_string(folder.path(name)).unwrap_or_default();
    wait_until("the engine hangs", || read("hangs.pid").ends_with('\n'));
    let process = read("hangs.pid");
    send_signal("INT", &[child.id()]);
    wait_until("the program has said how to end at once", || {
        read("stderr").contains("Ctrl-C again ends it at once")
    });
    assert!(is_running(&process) && folder.has_partial_file());
    send_signal("INT", &[child.id()]);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
    wait_until("the engine has ended", || !is_running(&process));
    assert!(!folder.has_partial_file() && !folder.path("page.html").exists());
}

/// The reason why a program ends is the first line, before many others.
#[test]
fn the_reason_why_an_engine_does_not_start_is_shown() {
    let folder = Folder::new();
    let output = folder.play("self --bogus", HASH, &["--nodes", "5"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("unexpected argument '--bogus'"), "{errors}");
}

/// Other engines may say "option ..." when they have set one; only Scorn's own words are errors.
#[test]
fn what_other_engines_say_of_their_options_is_no_error() {
    let folder = Folder::new();
    let engine = folder.script(
        "acknowledges",
        "option name Hash type spin default 16 min 1 max 64",
        "setoption*) echo info string option Hash set to 32;;\ngo*) echo bestmove a1a1;;\n",
    );
    let arguments = ["--pairs", "1", "--nodes", "5", "--json"];
    let message = json(&folder.play(HASH, &format!("{engine};Hash=32"), &arguments));
    assert_eq!(message["wins"], 2, "{message}");
    assert!(
        folder
            .received(&engine)
            .contains("setoption name Hash value 32")
    );
}

#[test]
fn one_of_two_engines_ponders() {
    let folder = Folder::new();
    let engine = |name: &str| {
        folder.script(
            name,
            "option name Ponder type check default false",
            "'go ponder'*) ;;\nstop) echo bestmove a1a1;;\nponderhit) echo bestmove a1a1;;\n\
             *e2e4*) ;;\ngo*) echo bestmove e2e4 ponder e7e5;;\n",
        )
    };
    let (one, other) = (engine("one"), engine("other"));
    let arguments = ["--pairs", "1", "--nodes", "5", "--ponder", "--json"];
    for (first, second) in [(&one, &other), (&other, &one)] {
        json(&folder.play(first, &format!("{second};Ponder=false"), &arguments));
        let received = folder.received(second);
        assert!(
            received.ends_with("setoption name Ponder value false\n")
                || !received.contains("go ponder")
        );
        assert!(folder.received(first).contains("go ponder"));
        for engine in [first, second] {
            fs::remove_file(format!("{engine}.log")).unwrap();
        }
    }
}

#[test]
fn the_configuration_file_named_is_that_of_this_program() {
    let folder = Folder::new();
    let log = folder.text("engine.log");
    fs::write(folder.path("my.config"), format!("logfile={log}\n")).unwrap();
    let arguments = ["--pairs", "1", "--nodes", "5", "--max-plies", "4", "--json"];
    json(&folder.play(HASH, HASH, &arguments));
    assert!(!Path::new(&log).exists());
    let config = folder.text("my.config");
    let own = format!("self -c {config};Backend=hash");
    for (second, more) in [(HASH, &["-c", &*config][..]), (&*own, &[])] {
        json(&folder.play(HASH, second, &[&arguments[..], more].concat()));
        assert!(fs::read_to_string(&log).unwrap().contains("go nodes 5"));
        fs::remove_file(&log).unwrap();
    }
}

/// In the current folder, as fastchess starts it.
#[test]
fn an_engine_may_be_named_without_its_folder() {
    let folder = Folder::new();
    folder.engine("localengine", "echo bestmove a1a1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.current_dir(folder.0.path());
    command.args(["match", HASH, "localengine"]);
    let played = folder.run(&mut command, &["--pairs", "1", "--nodes", "5", "--json"]);
    assert_eq!(json(&played)["wins"], 2);
}

#[test]
fn the_longest_game_is_counted_from_its_opening() {
    let folder = Folder::new();
    fs::write(folder.path("book.pgn"), "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 *\n").unwrap();
    let (book, pgn) = (folder.text("book.pgn"), folder.text("match.pgn"));
    let arguments = [
        "--pairs",
        "1",
        "--nodes",
        "5",
        "--max-plies",
        "4",
        "--book",
        &book,
        "--pgn",
        &pgn,
    ];
    let output = folder.play(HASH, HASH, &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for game in games(&folder.path("match.pgn")) {
        assert_eq!(game.moves.len(), 10);
    }
}

/// The match cannot be played: the error contains `message`, and there is no file of games.
fn assert_unplayable(folder: &Folder, second: &str, arguments: &[&str], message: &str) {
    let pgn = folder.text("match.pgn");
    let mut all = vec!["--pairs", "1", "--nodes", "2", "--max-plies", "4"];
    all.extend(arguments);
    if !all.contains(&"--pgn") && !all.contains(&"--html") {
        all.extend(["--pgn", &*pgn]);
    }
    let output = folder.play(HASH, second, &all);
    assert_eq!(output.status.code(), Some(1), "{second} {arguments:?}");
    let errors = text(&output.stderr);
    assert!(errors.contains(message), "{second} {arguments:?}: {errors}");
    assert!(!folder.path("match.pgn").exists(), "{second} {arguments:?}");
}

#[test]
fn unusable_engines_leave_no_file() {
    let folder = Folder::new();
    for (second, message) in [
        (&*folder.text("no-such-engine"), "no-such-engine"),
        ("/bin/true", "has ended"),
        ("self;Nonsense=1", "no option 'Nonsense'"),
        ("self;MultiPV=0", "MultiPV takes"),
        ("self;Backend=nosuch", "no backend 'nosuch'"),
        ("self;CPuct=x", "not a number"),
        // The hidden option makes the engine announce its options once more.
        (
            "self;PolicyTemperature=99;CPuctBase=20000",
            "PolicyTemperature",
        ),
        ("self;Profiles=/no/such.toml", "/no/such.toml"),
        (
            &*format!("self;Backend=rten;WeightsFile={}", folder.text("book.epd")),
            "book.epd",
        ),
    ] {
        assert_unplayable(&folder, second, &[], message);
    }
}

#[test]
fn faults_of_tablebases_are_reported_once() {
    let folder = Folder::new();
    // The king has to take the rook, and tables are asked after captures.
    fs::write(folder.path("won.epd"), "kR6/4Q3/8/8/8/8/8/K7 b - -\n").unwrap();
    // No more than the size of a table.
    fs::write(folder.path("KQvK.rtbw"), [7; 16]).unwrap();
    let (book, tables) = (folder.text("won.epd"), folder.text(""));
    let rules = ["--pairs", "1", "--nodes", "2", "--max-plies", "4"];
    let arguments = [&rules[..], &["--book", &*book, "--syzygy", &*tables]].concat();
    let output = folder.play(HASH, HASH, &arguments);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let fault = "scorn: SyzygyPath: the WDL table of KQvK is damaged: it is ignored\n";
    assert_eq!(errors.matches(fault).count(), 1, "{errors}");
}

#[test]
fn unusable_files_and_arguments_leave_no_file() {
    let folder = Folder::new();
    fs::write(folder.path("cut.epd"), &BOOK[..BOOK.len() - 30]).unwrap();
    fs::write(folder.path("cut.pgn"), "[White \"x\"]\n\n1. e4 e5 2. N").unwrap();
    fs::write(folder.path("empty.pgn"), "\n").unwrap();
    fs::write(folder.path("other.pgn"), "1. e4 *\n").unwrap();
    fs::create_dir(folder.path("distances")).unwrap();
    fs::write(folder.path("distances/KQvK.rtbz"), [0; 16]).unwrap();
    for (flag, file, message) in [
        ("--book", "cut.epd", "line 4"),
        ("--book", "cut.pgn", "breaks off"),
        ("--book", "empty.pgn", "no position"),
        ("--book", "missing.epd", "missing.epd"),
        ("--syzygy", "missing", "missing"),
        ("--syzygy", "distances", "no WDL tables"),
        ("--pgn", "other.pgn", "without the settings of their match"),
        ("--pgn", "a.pgn.gz", "cannot be compressed"),
        ("--html", "no/such.html", "no/such.html"),
    ] {
        assert_unplayable(&folder, HASH, &[flag, &folder.text(file)], message);
    }
    assert_eq!(fs::read(folder.path("other.pgn")).unwrap(), b"1. e4 *\n");
    for arguments in [
        &["--nodes", "1s"][..],
        &["--sprt", "5,0,0.05,0.05"],
        &["--draw", "1,2"],
        &["--resign", "0,6"],
        &["--resign", "3,600"],
        &["--draw", "35,8,20"],
        &["--st", "1e19"],
        &["--tc", "60+1e10"],
        &["--pairs", "0"],
    ] {
        assert_eq!(
            folder.play(HASH, HASH, arguments).status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
}

#[test]
fn odds_games_have_one_side_and_chess960_has_its_castling() {
    let folder = Folder::new();
    fs::write(
        folder.path("odds.epd"),
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq -\n",
    )
    .unwrap();
    let (book, pgn) = (folder.text("odds.epd"), folder.text("odds.pgn"));
    let usual = [
        "--nodes",
        "10",
        "--max-plies",
        "30",
        "--json",
        "--first-is-white",
    ];
    let odds = ["--book", &*book, "--pairs", "2", "--pgn", &*pgn];
    let played = folder.play(HASH, HASH, &[&usual[..], &odds].concat());
    let warning = text(&played.stderr);
    assert!(
        warning.contains("the book has 1 opening for 2 pairs: "),
        "{warning}"
    );
    let message = json(&played);
    assert_eq!(message["games"], 2);
    assert!(message["pairs"].is_null());
    assert!(
        games(&folder.path("odds.pgn"))
            .iter()
            .all(|game| game.tag("Round").unwrap().ends_with(".1"))
    );

    let fen = "1r2kr2/pppppppp/8/8/8/8/PPPPPPPP/1R2KR2 w FBfb -\n";
    fs::write(folder.path("960.epd"), fen).unwrap();
    let (book, pgn) = (folder.text("960.epd"), folder.text("960.pgn"));
    let chess960 = ["--book", &*book, "--pairs", "1", "--pgn", &*pgn];
    let refused = folder.play(HASH, HASH, &[&usual[..], &chess960].concat());
    assert!(text(&refused.stderr).contains("--chess960 is needed"));
    let arguments = [&usual[..], &chess960, &["--chess960"]].concat();
    assert_eq!(json(&folder.play(HASH, HASH, &arguments))["games"], 1);
    assert_eq!(
        games(&folder.path("960.pgn"))[0].tag("Variant"),
        Some("Chess960")
    );
}

#[test]
fn a_match_locks_its_file() {
    let stoppable = Stoppable::new();
    let (_, games) = stoppable.whole();
    let file = fs::File::open(&stoppable.pgn).unwrap();
    file.lock().unwrap();
    let output = stoppable.play(&["--pairs", "4"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("another program is writing"), "{errors}");
    assert!(stoppable.games() == games);
    drop(file);
    assert_eq!(
        json(&stoppable.play(&["--pairs", "4", "--json"]))["games"],
        8
    );
}

#[test]
fn on_a_full_disk_earlier_games_stay() {
    let Some(disk) = machine::SmallDisk::new() else {
        return;
    };
    let mut stoppable = Stoppable::new();
    let (whole, games) = stoppable.whole();
    let pgn = disk.path().join("match.pgn");
    stoppable.pgn = pgn.to_str().unwrap().to_owned();
    let filler = disk.path().join("filler");
    // The file contains the settings and some of the games.
    let free = games.len() / 2 + 8192;
    fs::write(&filler, vec![0; 65536 - free]).unwrap();
    let output = stoppable.play(&["--pairs", "3", "--json"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let message = errors.contains("No space left") && errors.contains("match.pgn");
    assert!(message && !errors.contains("panicked"), "{errors}");
    let kept = stoppable.games();
    assert!(!kept.is_empty() && kept.len() < games.len());
    assert!(games.starts_with(&kept));
    disk.grow();
    assert!(stoppable.whole() == (whole, games));
}

#[cfg(target_os = "linux")]
#[test]
fn a_jumping_wall_clock_forfeits_no_game() {
    let folder = Folder::new();
    let Some(clock) = machine::jumping_clock(folder.0.path()) else {
        return;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.args(["match", HASH, HASH]).env("LD_PRELOAD", clock);
    let arguments = "--tc 60+0.05 --pairs 1 --max-plies 12 --strict --json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let message = json(&folder.run(&mut command, &arguments));
    assert_eq!(message["games"], 2);
    assert!(
        message["forfeits"].as_array().unwrap().is_empty(),
        "{message}"
    );
}

#[test]
fn a_decided_test_stops_the_match() {
    let folder = Folder::new();
    let loses = folder.engine("loses", "echo 'bestmove a1a1'");
    let book = folder.text("book.epd");
    for (players, verdict) in [([HASH, &loses], "h1"), ([&loses, HASH], "h0")] {
        let [first, second] = players;
        let arguments = "--nodes 2 --pairs 50 --json --sprt 0,100,0.2,0.2 --book";
        let mut arguments: Vec<&str> = arguments.split(' ').collect();
        arguments.push(&book);
        let output = folder.play(first, second, &arguments);
        let message = json(&output);
        assert_eq!(message["sprt"]["verdict"], verdict, "{message}");
        let played = message["games"].as_u64().unwrap();
        assert!(played < 100 && message["left"] == 0, "{message}");
    }
}
