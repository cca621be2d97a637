//! Scripted sessions with the real program, with the hash backend.

use std::{
    collections::HashSet,
    io::{Read, Write},
    process::{Command, Stdio},
};

use crate::common::{
    session::{Session, end_of, nodes},
    skipped,
};
use scorn::{chess::setup, options::Options};
use shakmaty::Position;

fn assert_legal(fen: Option<&str>, moves: &str, best: &str) {
    let moves: Vec<String> = moves.split_whitespace().map(str::to_owned).collect();
    let history = setup::history_from(fen, &moves).unwrap();
    setup::parse_move(history.position(), best).unwrap();
}

/// The checks of fastchess's compliance test.
fn assert_last_info(lines: &[String]) {
    let info = lines
        .iter()
        .rev()
        .find(|l| l.starts_with("info ") && !l.starts_with("info string"))
        .expect("an info line");
    assert!(info.contains(" score "), "{info}");
    let words: Vec<_> = info.split(' ').collect();
    for (index, word) in words.iter().enumerate() {
        if [
            "time", "nps", "score", "nodes", "depth", "seldepth", "hashfull", "cp", "mate",
        ]
        .contains(word)
        {
            let value = words[index + 1];
            assert!(
                ["cp", "mate"].contains(&value) || value.parse::<i64>().is_ok(),
                "{info}"
            );
        }
    }
}

#[test]
fn prints_practical_and_objective_values_on_request() {
    let mut session = Session::with(&["-b", "hash", "--sc-limit", "20"]);
    session.send("go nodes 2000");
    let lines = session.until("bestmove");
    assert!(!lines.iter().any(|l| l.contains("objective")));
    session.send("setoption name ShowObjective value true");
    session.send("setoption name MultiPV value 2");
    session.send("go nodes 2500");
    let lines = session.until("bestmove");
    let reported = lines.iter().filter(|l| l.contains(" practical cp "));
    assert_eq!(reported.clone().count(), 2, "{lines:?}");
    assert!(
        reported
            .clone()
            .all(|l| l.starts_with("info string objective ") && l.contains(" gain "))
    );
    assert_last_info(&lines);
}

#[test]
fn identifies_itself() {
    let mut session = Session::with(&[]);
    session.send("uci");
    let lines = session.until("uciok");
    assert!(lines[0].starts_with("id name Scorn "));
    assert!(lines[1].starts_with("id author "));
    for name in [
        "Hash",
        "Move Overhead",
        "Ponder",
        "ScLimit",
        "MultiPV",
        "UCI_Chess960",
    ] {
        let start = format!("option name {name} type ");
        assert!(lines.iter().any(|l| l.starts_with(&start)), "{name}");
    }
    assert!(lines.contains(&"option name ClearTree type button".to_owned()));
    // Nothing is loaded before it is needed.
    assert!(lines.iter().all(|l| !l.starts_with("info")));
    session.send("quit");
    assert!(session.end().is_empty());
}

#[test]
fn buttons_drop_the_tree() {
    let mut session = Session::new();
    for button in ["ClearTree", "Clear Hash"] {
        for (setting, nodes) in [("", 500), (&*format!("setoption name {button}"), 1)] {
            session.go("go nodes 500");
            session.send(setting);
            let (_, lines) = session.go("go nodes 1");
            let expected = format!(" nodes {nodes} ");
            let is_expected = |line: &String| line.contains(&expected);
            assert!(lines.iter().any(is_expected), "{button}: {lines:?}");
        }
    }
    session.end();
}

/// GUIs get the options that people use, all of them with ShowHidden; hidden ones can be set in any case.
#[test]
fn few_options_are_announced_unless_all_are_wanted() {
    let announced = |arguments: &[&str], before: &[&str]| -> Vec<String> {
        let mut session = Session::with(arguments);
        before.iter().for_each(|line| session.send(line));
        session.send("uci");
        let lines = session.until("uciok");
        let options = lines
            .into_iter()
            .filter(|line| line.starts_with("option name "));
        options.collect()
    };
    let has = |lines: &[String], name: &str| {
        lines
            .iter()
            .any(|line| line.starts_with(&format!("option name {name} type ")))
    };
    let usual = announced(&[], &[]);
    assert!((40..=65).contains(&usual.len()), "{} options", usual.len());
    for name in [
        "Threads",
        "Hash",
        "WeightsFile",
        "ScLimit",
        "CPuct",
        "MultiPV",
        "ShowHidden",
    ] {
        assert!(has(&usual, name), "{name}");
    }
    let all = Options::default().rows();
    for lines in [
        announced(&["--show-hidden"], &[]),
        announced(&[], &["setoption name ShowHidden value true"]),
    ] {
        assert!(all.iter().all(|row| has(&lines, row.name)));
    }
    let hidden: Vec<_> = all.iter().filter(|row| row.is_hidden).collect();
    assert!(hidden.len() > 50 && hidden.iter().all(|row| !has(&usual, row.name)));
    let mut session = Session::new();
    assert!(
        session
            .send_and_sync("setoption name CPuctBase value 20000")
            .is_empty()
    );
    let refused = session.send_and_sync("setoption name CPuctBase value 0");
    assert!(refused[0].contains("CPuctBase"), "{refused:?}");
}

/// GUIs take a text option with "file" in its name for the name of a file: profiles are offered as a choice.
#[test]
fn profiles_are_a_choice() {
    let line = |arguments: &[&str]| {
        let mut session = Session::with(arguments);
        session.send("uci");
        let lines = session.until("uciok");
        let mut found = lines
            .into_iter()
            .filter(|line| line.starts_with("option name Profiles "));
        found.next().unwrap()
    };
    let usual = "option name Profiles type combo default <built in> var <built in> var off";
    assert_eq!(line(&[]), usual);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let with_file =
        format!("option name Profiles type combo default {file} var <built in> var off var {file}");
    assert_eq!(line(&["--profiles", file]), with_file);
}

#[test]
fn complies_with_uci() {
    let mut session = Session::new();
    session.send("uci");
    session.until("uciok");
    session.send_and_sync("ucinewgame");
    let black = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1";
    for (position, fen, go) in [
        ("position startpos".to_owned(), None, "go wtime 100"),
        (format!("position fen {black}"), Some(black), "go btime 100"),
        (format!("position fen {black}"), Some(black), "go wtime 100"),
        (
            "position startpos".to_owned(),
            None,
            "go wtime 100 btime 100 winc 100 binc 100",
        ),
        (
            "position startpos".to_owned(),
            None,
            "go btime 100 binc 100 wtime 100 winc 100",
        ),
        ("position startpos".to_owned(), None, "go wtime 0 btime 0"),
        (
            "position startpos".to_owned(),
            None,
            "go wtime -50 btime 10 movestogo 1",
        ),
        ("position startpos".to_owned(), None, "go depth 2"),
        ("position startpos".to_owned(), None, "go nodes 0"),
        ("position startpos".to_owned(), None, "go nodes 1"),
        ("position startpos".to_owned(), None, "go movetime 20"),
    ] {
        session.send_and_sync(&position);
        let (best, lines) = session.go(go);
        assert_legal(fen, "", &best);
        assert_last_info(&lines);
    }
    session.send_and_sync("ucinewgame");
    session.send("position startpos");
    session.send("position startpos moves e2e4 e7e5");
    let (best, lines) = session.go("go wtime 100 btime 100");
    assert_legal(None, "e2e4 e7e5", &best);
    assert_last_info(&lines);
    session.send("quit");
    session.end();
}

#[test]
fn answers_while_searching() {
    let mut session = Session::new();
    session.send_and_sync("position startpos");
    session.send("go infinite");
    for _ in 0..3 {
        session.send("isready");
        session.until("readyok");
    }
    session.send("stop");
    let best = session.until("bestmove").pop().unwrap();
    assert_legal(None, "", best.split(' ').nth(1).unwrap());
    // A second stop, or a ponderhit, without a search has no effect.
    assert!(session.send_and_sync("stop").is_empty());
    assert!(session.send_and_sync("ponderhit").is_empty());
    // Stopped before it can have started.
    for _ in 0..20 {
        session.send("ucinewgame\ngo infinite\nstop");
        let best = session.until("bestmove").pop().unwrap();
        assert_legal(None, "", best.split(' ').nth(1).unwrap());
    }
    // A new search ends an infinite one.
    session.send("go infinite\ngo infinite\ngo nodes 10");
    for _ in 0..3 {
        session.until("bestmove");
    }
    session.send("go infinite");
    session.send("quit");
    let rest = session.end();
    assert_eq!(rest.iter().filter(|l| l.starts_with("bestmove")).count(), 1);
}

#[test]
fn bad_input_is_reported_and_breaks_nothing() {
    let mut session = Session::new();
    session.send_and_sync("position startpos moves e2e4");
    let fen = session.fen();
    for bad in [
        "position",
        "position fen",
        "position fen nonsense",
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position fen 4k3/8/8/8/8/8/8/2K1K3 w - - 0 1",
        "position fen P3k3/8/8/8/8/8/8/4K3 w - - 0 1",
        "position fen 4k3/4R3/8/8/8/8/8/4K3 w - - 0 1",
        "position fen 4k3/8/8/8/8/8/8/4K3 w KQkq - 0 1",
        "position fen 4k3/8/8/8/8/8/8/4K3 w - e6 0 1",
        "position startpos moves e2e4 e2e4",
        "position startpos moves d2d4 \u{1b}[31m",
        "position startpos moves 0000",
        "setoption",
        "setoption name NoSuchThing value 3",
        "setoption name Threads value -1",
        "setoption name Threads value lots",
        "setoption name CPuct value 1e99",
        "setoption name ScSampling value maybe",
        "xyzzy",
        "\u{0}\u{1}",
    ] {
        let lines = session.send_and_sync(bad);
        assert_eq!(lines.len(), 1, "{bad}: {lines:?}");
        assert!(lines[0].starts_with("info string "), "{bad}: {lines:?}");
    }
    assert!(session.send_and_sync("   ").is_empty());
    session.send_and_sync("position startpos moves e2e4");
    assert_eq!(session.fen(), fen);
    let (best, _) = session.go("go nodes 50");
    assert_legal(None, "e2e4", &best);
}

#[test]
fn finished_games_have_no_best_move() {
    let mut session = Session::new();
    for (fen, word, score) in [
        ("R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1", "checkmate", "mate 0"),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "stalemate", "cp 0"),
    ] {
        session.send(&format!("position fen {fen}"));
        let (best, lines) = session.go("go nodes 100");
        assert_eq!(best, "(none)");
        assert!(
            lines
                .iter()
                .any(|l| l.starts_with("info string") && l.contains(word))
        );
        assert_last_info(&lines);
        assert!(lines.iter().any(|l| l.contains(&format!("score {score}"))));
        // An infinite search still waits for `stop`.
        session.send_and_sync("go infinite");
        session.send("stop");
        assert_eq!(session.until("bestmove").pop().unwrap(), "bestmove (none)");
    }
    // Draws that have to be claimed still have moves.
    let shuffle = "g1f3 g8f6 f3g1 f6g8 ".repeat(3);
    for (fen, moves) in [
        ("8/8/4k3/8/8/4K3/8/7N w - - 120 90", ""),
        (setup::START_FEN, &shuffle[..]),
        ("8/8/4k3/8/8/4K3/8/8 b - - 0 1", ""),
    ] {
        session.send(&format!("position fen {fen} moves {moves}"));
        let (best, _) = session.go("go nodes 100");
        assert_legal(Some(fen), moves, &best);
    }
}

#[test]
fn castling_is_printed_as_the_mode_demands() {
    let mut session = Session::new();
    let fen = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1";
    for (mode, first, second) in [("false", "e1g1", "e8c8"), ("true", "e1h1", "e8a8")] {
        session.send(&format!("setoption name UCI_Chess960 value {mode}"));
        for text in ["e1g1", "e1h1"] {
            session.send(&format!("position fen {fen}"));
            let (best, _) = session.go(&format!("go nodes 10 searchmoves {text}"));
            assert_eq!(best, first);
            session.send(&format!("position fen {fen} moves {text}"));
            let (best, _) = session.go("go nodes 10 searchmoves e8c8");
            assert_eq!(best, second);
        }
    }
    let chess960 = "1r2kr2/pppppppp/8/8/8/8/PPPPPPPP/1R2KR2 w FBfb - 0 1";
    session.send(&format!("position fen {chess960}"));
    assert_eq!(session.go("go nodes 10 searchmoves e1f1").0, "e1f1");
    // In standard mode e1f1 would be a king's move: the position is refused, with advice.
    session.send("setoption name UCI_Chess960 value false");
    let lines = session.send_and_sync(&format!("position fen {chess960}"));
    assert!(lines[0].contains("UCI_Chess960"), "{lines:?}");
    assert_eq!(session.go("go nodes 10").0, "(none)");
}

#[test]
fn ponders() {
    let mut session = Session::new();
    session.send("setoption name Ponder value true");
    session.send("position startpos moves e2e4 e7e5");
    // Ponder hit: one answer, to the real search.
    session.send_and_sync("go ponder nodes 500");
    session.send("ponderhit");
    let lines = session.until("bestmove");
    assert_legal(
        None,
        "e2e4 e7e5",
        lines.last().unwrap().split(' ').nth(1).unwrap(),
    );
    // Reports while pondering are about the position after the expected reply.
    for line in lines.iter().filter(|l| l.contains(" pv ")) {
        let first = line
            .split(" pv ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        assert_legal(None, "e2e4 e7e5", first);
    }
    // Ponder miss: an answer that is legal in the GUI's position, then the real position. Visits of the real reply
    // are reused, if there are any.
    let is_kept = (0..100).any(|attempt| {
        session.send("position startpos moves e2e4 e7e5");
        session.send_and_sync("go ponder wtime 1000 btime 1000");
        std::thread::sleep(std::time::Duration::from_millis(10 * attempt));
        session.send("stop");
        let best = session.until("bestmove").pop().unwrap();
        assert_legal(None, "e2e4 e7e5", best.split(' ').nth(1).unwrap());
        session.send("position startpos moves e2e4 c7c5");
        let (_, lines) = session.go("go nodes 1");
        let searched: Vec<_> = lines.iter().filter(|l| l.contains(" nodes ")).collect();
        assert!(!searched.is_empty(), "{lines:?}");
        searched.iter().all(|l| !l.contains(" nodes 1 "))
    });
    assert!(is_kept);
    let (best, _) = session.go("go wtime 300 btime 300");
    assert_legal(None, "e2e4 c7c5", &best);
    // Ponder hit and immediate stop.
    for _ in 0..10 {
        session.send("go ponder infinite\nponderhit\nstop");
        let best = session.until("bestmove").pop().unwrap();
        assert_legal(None, "e2e4 c7c5", best.split(' ').nth(1).unwrap());
    }
    // A stop applies to the last requested search.
    session.send("go infinite\nstop\ngo infinite\nstop");
    for _ in 0..2 {
        let best = session.until("bestmove").pop().unwrap();
        assert_legal(None, "e2e4 c7c5", best.split(' ').nth(1).unwrap());
    }
    // Without a move there is nothing to ponder on; and the game may be over after the expected reply.
    for position in [
        "position startpos",
        "position startpos moves f2f3 e7e5 g2g4 d8h4",
    ] {
        session.send(position);
        session.send_and_sync("go ponder movetime 10");
        session.send("ponderhit");
        session.until("bestmove");
    }
    assert!(session.send_and_sync("").is_empty());
}

#[test]
fn considers_only_searchmoves() {
    let mut session = Session::new();
    session.send("position startpos");
    for m in ["a2a3", "h2h4", "b1c3"] {
        assert_eq!(session.go(&format!("go searchmoves {m} nodes 30")).0, m);
    }
    let (best, lines) = session.go("go nodes 30 searchmoves e2e5 a2a3");
    assert_eq!(best, "a2a3");
    assert!(lines[0].contains("illegal move: e2e5"));
    let (best, lines) = session.go("go nodes 40 sideways searchmoves a2a3");
    assert_eq!(best, "a2a3");
    assert!(lines[0].contains("'sideways' is ignored: go has no such word"));
    // A mate that may not be played ends no search.
    session.send("position fen 6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1");
    assert_eq!(session.go("go nodes 3000").0, "a1a8");
    let (best, lines) = session.go("go nodes 4000 searchmoves h1h2 h1h3");
    assert!(["h1h2", "h1h3"].contains(&best.as_str()));
    assert!(
        lines.iter().any(|l| l.contains(" nodes 4000 ")),
        "{lines:?}"
    );
    session.send("position startpos");
    session.send("setoption name MultiPV value 3");
    let (_, lines) = session.go("go nodes 300");
    for index in 1..=3 {
        let text = format!(" multipv {index} ");
        assert!(lines.iter().any(|l| l.contains(&text)), "{text}");
    }
    // All moves are reported, those without visits last.
    session.send("setoption name MultiPV value 500");
    session.send("setoption name PerPVCounters value true");
    session.send("position fen 7k/8/5KQ1/8/8/8/8/8 w - - 0 1");
    let (_, lines) = session.go("go nodes 12");
    check_all_lines(&lines, 23);
    // A mate does not end the search, because other moves are wanted.
    let (best, lines) = session.go("go nodes 5000");
    assert_eq!(best, "g6g7");
    let second = lines.iter().rfind(|line| line.contains(" multipv 2 "));
    assert!(second.unwrap().contains("mate 2"), "{second:?}");
    session.send("position startpos");
    let (_, lines) = session.go("go nodes 40");
    check_all_lines(&lines, 20);
}

/// Every report has one line for each of `moves`; after the first, by falling visits unless there is a mate.
fn check_all_lines(lines: &[String], moves: usize) {
    let field = |line: &String, name: &str| {
        let mut words = line.split(' ').skip_while(|&word| word != name);
        words.nth(1).unwrap().to_owned()
    };
    let reported: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains(" multipv "))
        .collect();
    assert!(
        !reported.is_empty() && reported.len().is_multiple_of(moves),
        "{lines:?}"
    );
    for report in reported.chunks(moves) {
        let first: HashSet<String> = report.iter().map(|line| field(line, "pv")).collect();
        assert_eq!(first.len(), moves, "{report:?}");
        let open = report[1..].iter().filter(|line| line.contains(" cp "));
        // The move that is going to be played comes first, whatever its visits are.
        let visits: Vec<u64> = open
            .map(|line| field(line, "nodes").parse().unwrap())
            .collect();
        assert!(visits.is_sorted_by(|a, b| a >= b), "{report:?}");
        assert!(visits.contains(&0), "moves without visits: {report:?}");
    }
}

/// What Nibbler makes of a line: the move whose statistics it shows, with N, P, Q and U. It takes every `info string`
/// line for statistics whose word after `string` is a legal move, and any missing number for none.
fn as_nibbler_reads(line: &str) -> Option<(String, Vec<Option<f64>>)> {
    let rest = line.strip_prefix("info string ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let m = words.first()?;
    let position = scorn::chess::setup::position_from_fen(START).unwrap();
    scorn::chess::setup::parse_move(&position, m).ok()?;
    let value = |key: &str| {
        let at = words.iter().position(|&word| word == key)?;
        let word = words.get(at + 1)?.trim_end_matches([')', '%']);
        word.parse().ok()
    };
    Some((
        (*m).to_owned(),
        ["N:", "(P:", "(Q:", "(U:"].map(value).to_vec(),
    ))
}

#[test]
fn nibbler_takes_only_statistics_for_statistics() {
    let mut session = Session::with(&["-b", "hash", "-t", "1", "--sc-limit", "20"]);
    for name in ["ShowObjective", "VerboseMoveStats"] {
        session.send(&format!("setoption name {name} value true"));
    }
    session.send("setoption name MultiPV value 4");
    session.send(&format!("position fen {START}"));
    let (_, lines) = session.go("go nodes 2000");
    let objective = lines.iter().filter(|line| line.contains("objective"));
    assert_eq!(objective.count(), 4, "{lines:?}");
    let read: Vec<_> = lines
        .iter()
        .filter_map(|line| as_nibbler_reads(line))
        .collect();
    assert_eq!(read.len(), 20, "one line of statistics a move: {read:?}");
    for (m, values) in &read {
        assert!(values.iter().all(Option::is_some), "{m}: {values:?}");
    }
    let moves: HashSet<&String> = read.iter().map(|(m, _)| m).collect();
    assert_eq!(moves.len(), 20);
}

const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

#[test]
fn help_prints_help() {
    let mut session = Session::new();
    let reported = session.send_and_sync("help");
    assert!(
        reported
            .iter()
            .any(|line| line.contains("position startpos moves")),
        "{reported:?}"
    );
    let reported = session.send_and_sync("position startpos e2e4");
    assert!(
        reported[0].contains("'e2e4' is invalid here: moves follow"),
        "{reported:?}"
    );
    session.end();
}

#[test]
fn node_limits_replace_missing_gui_limits() {
    let mut session = Session::new();
    session.send("setoption name NodeLimit value 1");
    let (_, lines) = session.go("go wtime 600000 btime 600000");
    assert!(lines.iter().any(|l| l.contains(" nodes 1 ")), "{lines:?}");
    session.send("setoption name nodelimit value 200");
    session.send("ucinewgame");
    let (_, lines) = session.go("go movetime 600000");
    assert!(lines.iter().any(|l| l.contains(" nodes 200 ")), "{lines:?}");
    // A limit of zero still finds a move.
    session.send("setoption name NodesAsPlayouts value true");
    session.send("ucinewgame");
    assert_legal(None, "", &session.go("go nodes 0").0);
    session.send("setoption name NodesPerSecondLimit value 1e-20");
    session.send_and_sync("go infinite");
    session.send("stop");
    let best = session.until("bestmove").pop().unwrap();
    assert_legal(None, "", best.split(' ').nth(1).unwrap());
}

#[test]
fn a_bad_network_is_an_error_but_not_fatal() {
    let mut session = Session::with(&["--backend", "nosuch"]);
    let errors = |lines: &[String]| {
        let is_error = |line: &&String| line.starts_with("info string error: no backend 'nosuch'");
        lines.iter().filter(is_error).count()
    };
    assert_eq!(errors(&session.send_and_sync("position startpos")), 1);
    // Once a game, although each search tries again.
    for (command, expected) in [("stop", 0), ("ucinewgame", 1), ("stop", 0)] {
        session.send(command);
        let (best, lines) = session.go("go nodes 10");
        assert_legal(None, "", &best);
        assert_eq!(errors(&lines), expected, "{lines:?}");
        let is_explained = |line: &String| line.contains("there is no usable network (see above)");
        assert!(lines.iter().any(is_explained), "{lines:?}");
    }
    session.send("setoption name Backend value hash");
    assert_legal(None, "", &session.go("go nodes 10").0);
}

#[test]
fn executes_a_file_of_commands() {
    let mut session = Session::new();
    session.send(
        "uci\nposition startpos\ngo nodes 300\nposition startpos moves e2e4\ngo nodes 300\n\
         wait\nd\ngo infinite\nposition startpos moves d2d4\ngo perft 2\ngo ponder",
    );
    let lines = session.end();
    assert_eq!(
        lines.iter().filter(|l| l.starts_with("bestmove")).count(),
        4
    );
    assert!(lines.contains(&"Nodes searched: 560".to_owned()));
}

#[test]
fn a_wait_defers_quit() {
    let searched = |commands: &str, nodes: &str| {
        let mut session = Session::new();
        session.send(commands);
        let lines = session.end();
        lines.iter().any(|line| line.contains(nodes))
    };
    assert!(searched("go nodes 300000\nwait\nquit", " nodes 300000 "));
    // Only until it has ended.
    let twice = "go nodes 300\nwait\ngo nodes 3000000\nquit";
    assert!(!searched(twice, " nodes 3000000 "));
    assert!(!searched("go nodes 3000000\nquit", " nodes 3000000 "));
}

#[test]
fn searches_that_wait_are_made_before_quit_once_an_endless_one_was_stopped() {
    for (commands, searches) in [
        // Nothing would ever end this one.
        ("go infinite\nwait\nquit", 1),
        ("go infinite\nstop\ngo nodes 100\nwait\nquit", 2),
        ("go infinite\ngo nodes 100\nwait\nquit", 2),
        ("go mate 5\nstop\ngo nodes 100\nwait\nquit", 2),
        ("go mate 5\ngo nodes 100\nwait\nquit", 2),
    ] {
        let mut session = Session::new();
        session.send(commands);
        let lines = session.end();
        let moves = lines.iter().filter(|line| line.starts_with("bestmove"));
        assert_eq!(moves.count(), searches, "{commands}");
    }
}

#[test]
fn a_stop_applies_only_to_the_last_search() {
    let mut session = Session::new();
    session.send("go nodes 300000\nwait\ngo infinite\nstop");
    let lines = session.end();
    assert!(lines.iter().any(|line| line.contains(" nodes 300000 ")));
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("bestmove"))
            .count(),
        2
    );
    // Without a later search it applies to the running one.
    let mut session = Session::new();
    session.send("go nodes 30000000\nwait\nstop");
    let lines = session.end();
    assert!(!lines.iter().any(|line| line.contains(" nodes 30000000 ")));
}

#[test]
fn exits_quietly_when_the_reader_is_gone() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["--backend", "hash"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    drop(child.stdout.take());
    writeln!(input, "uci\ngo infinite").unwrap();
    assert!(end_of(&mut child).success());
    let mut errors = String::new();
    let mut output = child.stderr.take().unwrap();
    output.read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "");
}

#[test]
fn writes_a_log() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let mut session = Session::new();
    session.send_and_sync(&format!("setoption name LogFile value {path}"));
    session.go("go nodes 5");
    session.send("quit");
    session.end();
    let log = std::fs::read_to_string(path).unwrap();
    assert!(
        log.contains("> go nodes 5") && log.contains("< bestmove "),
        "{log}"
    );
    let mut session = Session::new();
    let lines = session.send_and_sync("setoption name LogFile value /no/such/folder/log");
    assert!(
        lines.iter().any(|l| l.contains("cannot write")),
        "{lines:?}"
    );
}

#[test]
fn plays_a_game_with_itself() {
    let mut session = Session::new();
    session.send_and_sync("ucinewgame");
    let mut moves = String::new();
    for ply in 0..120 {
        session.send(&format!("position startpos moves {moves}"));
        let limit = ["nodes 200", "wtime 60 btime 60 winc 5 binc 5", "depth 2"][ply % 3];
        let (best, _) = session.go(&format!("go {limit}"));
        if best == "(none)" {
            let played: Vec<String> = moves.split_whitespace().map(str::to_owned).collect();
            let history = setup::history_from(None, &played).unwrap();
            assert!(history.position().legal_moves().is_empty(), "{moves}");
            break;
        }
        assert_legal(None, &moves, &best);
        moves += &best;
        moves += " ";
    }
}

#[test]
fn can_quit_and_search_while_the_network_is_loaded_and_warmed_up() {
    for backend in ["onnx-cpu", "rten"] {
        for commands in [
            "isready",
            "position startpos",
            "isready\ngo nodes 9",
            "go infinite",
        ] {
            let mut session = Session::with(&["--backend", backend, "--threads", "1"]);
            if backend == "onnx-cpu" {
                // Fixed batch sizes are warmed up in the background.
                session.send("setoption name BackendOptions value batch=1/4/64/256");
            }
            session.send(commands);
            // The two answers may come in either order.
            if commands == "isready" {
                let lines = session.until("readyok");
                if lines
                    .iter()
                    .any(|line| line.contains("error: backend onnx"))
                {
                    skipped("no ONNX Runtime (set ORT_DYLIB_PATH): only its error was tested");
                }
            } else if commands.contains("nodes") {
                session.until("bestmove");
            }
            session.send("quit");
            session.end();
        }
    }
}

#[test]
fn an_infinite_analysis_reports_whose_replies_are_modelled() {
    let mut session = Session::with(&["-b", "hash", "--sc-limit", "20"]);
    for (moves, them) in [("", "Black"), ("moves e2e4", "White")] {
        session.send(&format!("position startpos {moves}"));
        session.send("go infinite");
        session.send("stop");
        let lines = session.until("bestmove");
        let expected = format!("search-contempt models {them}'s replies");
        assert!(
            lines.iter().any(|line| line.contains(&expected)),
            "{lines:?}"
        );
    }
    session.end();
}

#[test]
fn strength_limits_apply_to_games_and_not_to_analyses() {
    let mut session = Session::new();
    for (elo, most) in [(1200, 1), (1500, 32), (1700, 80)] {
        session.send("setoption name UCI_LimitStrength value true");
        session.send(&format!("setoption name UCI_Elo value {elo}"));
        // A repeated request does not give a stronger answer.
        for _ in 0..3 {
            let (best, lines) = session.go("go wtime 60000 btime 60000");
            assert_legal(None, "", &best);
            let nodes = nodes(&lines);
            assert!(nodes <= most, "{nodes} nodes at {elo}");
        }
        session.send_and_sync("ucinewgame");
    }
    session.send("setoption name UCI_AnalyseMode value true");
    let (_, lines) = session.go("go nodes 500");
    assert!(
        lines.iter().any(|line| line.contains(" nodes 500 ")),
        "{lines:?}"
    );
    let lines = session.send_and_sync("setoption name UCI_Elo value 1000");
    assert!(lines[0].contains("from 1200 to 2200"), "{lines:?}");
    session.end();
}

#[test]
fn a_limited_engine_continues_an_infinite_analysis() {
    let mut session = Session::with(&["-b", "hash"]);
    session.send_and_sync("setoption name UCI_LimitStrength value true");
    let nodes_of = |line: &str| {
        let rest = line.split(" nodes ").nth(1)?;
        rest.split(' ').next()?.parse::<u64>().ok()
    };
    session.send("go infinite");
    let searched = loop {
        match session.until("info").pop().and_then(|line| nodes_of(&line)) {
            Some(nodes) if nodes >= 5000 => break nodes,
            _ => {}
        }
    };
    session.go("stop");
    session.send("go infinite");
    let continued = loop {
        if let Some(nodes) = nodes_of(session.until("info").last().unwrap()) {
            break nodes;
        }
    };
    session.go("stop");
    assert!(continued >= searched, "{continued} after {searched}");
    session.end();
}

/// An option that is set after the network was loaded, and before the first search, which reports it.
#[test]
fn recommendations_are_reported_with_the_options_of_the_search() {
    let mut session = Session::with(&["--threads", "1"]);
    session.send_and_sync("");
    session.send("setoption name CertaintyProp value 0");
    let (_, lines) = session.go("go nodes 1");
    let is_report = |line: &&String| line.contains("the network recommends");
    let report = lines.iter().find(is_report).expect("a report");
    assert!(report.contains("CertaintyProp 2 (user: 0)"), "{report}");
    session.end();
}

/// Folders and files that come or change while the engine runs.
#[test]
fn files_of_options_are_read_again_in_a_new_game_or_when_they_are_set_again() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables");
    let set_tables = format!("setoption name SyzygyPath value {}", tables.display());
    let mut session = Session::new();
    let mut count = |command: &str, text: &str| {
        let lines = session.send_and_sync(command);
        lines.iter().filter(|line| line.contains(text)).count()
    };
    let missing = "SyzygyPath: cannot read the folder";
    assert_eq!(count(&set_tables, missing), 1);
    assert_eq!(count("position startpos", "SyzygyPath"), 0, "reported once");
    std::fs::create_dir(&tables).unwrap();
    // No position of this test probes them.
    let add_table = |name: &str| std::fs::write(tables.join(name), [0; 16]).unwrap();
    add_table("KQvK.rtbw");
    assert_eq!(count("ucinewgame", " 1 tablebase files"), 1);
    assert_eq!(count("ucinewgame", "tablebase files"), 0, "they are open");
    add_table("KRvK.rtbw");
    assert_eq!(count(&set_tables, " 2 tablebase files"), 1);

    let profiles = folder.path().join("profiles.toml");
    let set_profiles = format!("setoption name Profiles value {}", profiles.display());
    for value in ["3", "4"] {
        let text = format!("[[profile]]\nname = \"mine\"\nset = {{ CPuct = {value} }}\n");
        std::fs::write(&profiles, text).unwrap();
        let commands = format!("{set_profiles}\nposition startpos");
        assert_eq!(count(&commands, &format!("CPuct {value}")), 1);
    }
    session.end();
}

#[test]
fn tablebases_are_opened_before_the_clock_runs() {
    let mut session = Session::new();
    let reported = session.send_and_sync("setoption name SyzygyPath value /no/such/folder");
    let is_about_it = |line: &String| line.contains("/no/such/folder");
    assert!(reported.iter().any(is_about_it), "{reported:?}");
    let (_, lines) = session.go("go nodes 5");
    assert!(!lines.iter().any(is_about_it), "{lines:?}");
}
