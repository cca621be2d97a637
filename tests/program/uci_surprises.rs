//! Wrong, early, late or unusual commands of GUIs. Sessions with the real program, with the hash backend.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use crate::common::session::{Session, nodes};

fn set(session: &mut Session, name: &str, value: &str) {
    session.send(&format!("setoption name {name} value {value}"));
}

/// How many of the lines contain this text.
fn count(lines: &[String], text: &str) -> usize {
    lines.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn after_a_refused_position_the_old_game_is_not_continued() {
    for bad in [
        "position startpos moves e2e4 e2e4",
        "position fen 8/8/8/8/8/8/8/8 w - - 0 1",
        "position fen",
    ] {
        let mut session = Session::new();
        session.send_and_sync("position startpos moves d2d4");
        assert_eq!(session.send_and_sync(bad).len(), 1);
        for _ in 0..2 {
            let (best, lines) = session.go("go nodes 10");
            assert_eq!(best, "(none)", "{bad}");
            assert_eq!(count(&lines, "no search: the last position was refused"), 1);
        }
        session.send_and_sync("position startpos");
        assert_ne!(session.go("go nodes 10").0, "(none)");
    }
}

/// UCI forbids an answer to an endless search before its end, also where there is nothing to search.
#[test]
fn endless_searches_of_nothing_wait_for_their_end() {
    for refused in ["position startpos moves e2e4 e2e4\n", "position startpos\n"] {
        for (go, end) in [
            ("go infinite searchmoves e2e5", "stop"),
            ("go ponder searchmoves e2e5", "stop"),
            (
                "go ponder wtime 1000 btime 1000 searchmoves e2e5",
                "ponderhit",
            ),
        ] {
            let mut session = Session::new();
            session.send(refused);
            let before = session.send_and_sync(go);
            assert_eq!(count(&before, "no search"), 1, "{go}: {before:?}");
            assert_eq!(count(&before, "bestmove"), 0, "{go}: {before:?}");
            assert_eq!(session.go(end).0, "(none)", "{go}");
            session.send_and_sync("position startpos");
            assert_ne!(session.go("go nodes 10").0, "(none)", "{go}");
        }
    }
}

#[test]
fn a_refused_position_affects_only_later_searches() {
    for bad in ["position nonsense", "position startpos moves e2e5"] {
        let mut session = Session::new();
        for line in ["go infinite", "go nodes 10", bad, "go nodes 10", "stop"] {
            session.send(line);
        }
        for has_move in [true, true, false] {
            let best = session.until("bestmove").pop().unwrap();
            assert_eq!(best != "bestmove (none)", has_move, "{bad}: {best}");
        }
    }
}

#[test]
fn an_invalid_go_has_an_answer() {
    let mut session = Session::new();
    session.send_and_sync("position startpos");
    for (line, has_limit, reason) in [
        (
            "go nodes abc",
            false,
            "'nodes abc' is ignored: this is not a valid number",
        ),
        ("go xyz", false, "'xyz' is ignored: go has no such word"),
        (
            "go movetime",
            false,
            "'movetime' is ignored: a number must follow",
        ),
        (
            "go wtime 100 btime",
            true,
            "'btime' is ignored: a number must follow",
        ),
        (
            "go perft 99",
            false,
            "'perft 99' is ignored: more than 30 plies",
        ),
    ] {
        let (best, lines) = session.go(line);
        assert_ne!(best, "(none)", "{line}");
        let is_one_node = count(&lines, "one node is searched") == 1;
        assert_ne!(is_one_node, has_limit, "{line}: {lines:?}");
        assert_eq!(count(&lines, reason), 1, "{line}: {lines:?}");
    }
}

#[test]
fn a_mate_search_ends_when_no_mate_is_possible() {
    // Black's only moves lose, and bare kings have no mate.
    for fen in [
        "k7/8/1K6/8/8/8/8/7R b - - 0 1",
        "8/8/4k3/8/8/4K3/8/8 w - - 0 1",
    ] {
        let mut session = Session::new();
        session.send_and_sync(&format!("position fen {fen}"));
        assert_ne!(session.go("go mate 2").0, "(none)", "{fen}");
    }
    // The end of the input ends the search for a mate that may never be found.
    let mut session = Session::new();
    session.send_and_sync("position startpos");
    session.send("go mate 5");
    assert_eq!(count(&session.end(), "bestmove "), 1);
    // But a mate that there is is found first, from a file, too.
    let mut session = Session::new();
    session.send(
        "position fen 7k/8/5K2/8/8/8/8/6R1 w - - 0 1\ngo mate 2\nposition fen k7/8/1K6/8/8/8/8/7R w - - 0 1\ngo mate 1",
    );
    let lines = session.end();
    for mate in ["score mate 2 ", "score mate 1 "] {
        assert_ne!(count(&lines, mate), 0, "{mate}: {lines:?}");
    }
    assert_eq!(count(&lines, "bestmove "), 2, "{lines:?}");
}

/// The tables know the result after each of these captures, but not the mate.
#[test]
fn a_mate_search_looks_beyond_the_tablebases() {
    let Some(tables) = crate::common::shared("syzygy") else {
        return;
    };
    let mut session = Session::new();
    set(&mut session, "SyzygyPath", tables.to_str().unwrap());
    for (fen, key) in [
        ("3k4/4Rp2/8/8/8/8/4KR2/8 w - - 0 1", "f2f7"),
        ("8/1rR5/2K5/8/8/4Q3/k7/8 w - - 0 1", "c7b7"),
        ("8/8/7R/8/K7/R7/3k3p/8 w - - 0 1", "h6h2"),
        ("8/5RQ1/8/8/8/8/5r1k/4K3 w - - 0 1", "e1f2"),
        ("8/6Q1/8/8/4R1p1/7K/5k2/8 w - - 0 1", "g7g4"),
        ("2k5/4r3/4R3/8/K7/3Q4/8/8 w - - 0 1", "e6e7"),
    ] {
        session.send(&format!("position fen {fen}"));
        // Statistics of a tree that the tables have cut short are not used.
        session.go("go nodes 200");
        let (best, lines) = session.go("go mate 2");
        assert_eq!(best, key, "{fen}");
        assert_ne!(count(&lines, "score mate 2 "), 0, "{fen}: {lines:?}");
    }
}

/// In a game a repeated position calls for the fastest win of the tablebases.
#[test]
fn an_analysis_shows_the_fastest_mate_of_a_repeated_position() {
    let Some(tables) = crate::common::shared("syzygy") else {
        return;
    };
    let mut session = Session::with(&["-b", "hash"]);
    set(&mut session, "SyzygyPath", tables.to_str().unwrap());
    set(&mut session, "UCI_AnalyseMode", "true");
    set(&mut session, "MultiPV", "4");
    let start = "position fen 7k/8/5K2/8/8/8/6P1/3Q4 w - - 0 1";
    for position in [
        start.to_owned(),
        format!("{start} moves d1d2 h8g8 d2d1 g8h8"),
    ] {
        session.send(&position);
        let (_, lines) = session.go("go nodes 3000");
        let mut best = lines
            .iter()
            .rev()
            .filter(|line| line.contains(" multipv 1 "));
        assert!(best.next().unwrap().contains(" score mate 2 "), "{lines:?}");
    }
}

/// Where no visit makes a line longer, a search by depth ends.
#[test]
fn a_search_by_depth_ends() {
    let mut session = Session::new();
    set(&mut session, "SmartPruningFactor", "0");
    session.send("position fen 7k/8/6K1/8/8/8/8/1Q6 w - - 0 80");
    assert_ne!(session.go("go depth 50").0, "(none)");
    let mut session = Session::new();
    set(&mut session, "NNCacheSize", "1000");
    set(&mut session, "RamLimitMb", "1");
    session.send("position startpos");
    assert_ne!(session.go("go depth 60").0, "(none)");
}

#[test]
fn a_mate_in_one_is_played_even_without_visits() {
    let mut session = Session::new();
    for nodes in [1, 5, 300] {
        session.send_and_sync("ucinewgame");
        session.send_and_sync(
            "position fen r5r1/5p2/k2bb1p1/p2npPPp/P3KR1P/1p1P4/NpQ5/R4Bq1 b - - 1 41",
        );
        let (best, lines) = session.go(&format!("go nodes {nodes}"));
        assert_eq!(best, "g1e3");
        let last = lines
            .iter()
            .rfind(|line| line.starts_with("info depth"))
            .unwrap();
        assert!(last.contains("score mate 1 "), "{last}");
    }
    // Unless another move was requested.
    assert_eq!(session.go("go nodes 5 searchmoves g1d4").0, "g1d4");
}

#[test]
fn a_mate_in_one_is_avoided_even_without_visits() {
    let mut session = Session::new();
    for sc_limit in ["1000000000", "2"] {
        set(&mut session, "ScLimit", sc_limit);
        for nodes in [1, 5, 300] {
            session.send_and_sync("ucinewgame");
            // 1.Be2 Nf3#; only the queen may come between.
            session.send_and_sync(
                "position fen r1b1kbnr/pppp1Npp/8/8/2Bnq3/8/PPPP1P1P/RNBQKR2 w Qkq - 0 7",
            );
            assert_eq!(session.go(&format!("go nodes {nodes}")).0, "d1e2");
        }
    }
    // Unless another move was requested, or there is none.
    assert_eq!(session.go("go nodes 5 searchmoves c4e2").0, "c4e2");
}

/// The moves of a short game of the engine against itself.
fn game(session: &mut Session, nodes: u32) -> Vec<String> {
    session.send("ucinewgame");
    let mut moves: Vec<String> = Vec::new();
    for _ in 0..6 {
        session.send(&format!("position startpos moves {}", moves.join(" ")));
        moves.push(session.go(&format!("go nodes {nodes}")).0);
    }
    moves
}

#[test]
fn without_a_seed_games_differ_and_with_one_they_repeat() {
    for batch in ["1", "7", "64"] {
        let mut session = Session::new();
        set(&mut session, "Temperature", "1");
        set(&mut session, "ScLimit", "10");
        set(&mut session, "MinibatchSize", batch);
        let games: HashSet<_> = (0..5).map(|_| game(&mut session, 80)).collect();
        assert!(games.len() > 1, "{games:?}");
        set(&mut session, "Seed", "7");
        let games: HashSet<_> = (0..3).map(|_| game(&mut session, 80)).collect();
        assert_eq!(games.len(), 1, "{games:?}");
    }
}

#[test]
fn a_seed_repeats_games_despite_a_filled_cache() {
    let mut session = Session::with(&["-b", "rten", "--threads", "1", "--minibatch-size", "4"]);
    set(&mut session, "Temperature", "1");
    set(&mut session, "Seed", "7");
    let first = game(&mut session, 30);
    assert_eq!(game(&mut session, 30), first);
}

#[test]
fn one_node_with_a_temperature_plays_by_the_policy() {
    let mut session = Session::new();
    set(&mut session, "Temperature", "1");
    let moves: HashSet<_> = (0..40)
        .map(|_| {
            session.send("ucinewgame");
            session.go("go nodes 1").0
        })
        .collect();
    assert!(moves.len() >= 4, "{moves:?}");
    // Not in an analysis.
    set(&mut session, "UCI_AnalyseMode", "true");
    let moves: HashSet<_> = (0..10).map(|_| session.go("go nodes 1").0).collect();
    assert_eq!(moves.len(), 1, "{moves:?}");
}

#[test]
fn at_the_memory_limit_the_search_continues() {
    let mut session = Session::new();
    set(&mut session, "Hash", "2");
    // It is said once.
    for (sc_limit, times) in [("1000000000", 1), ("20", 0)] {
        set(&mut session, "ScLimit", sc_limit);
        let (best, lines) = session.go("go nodes 150000");
        assert_ne!(best, "(none)");
        let noted = count(&lines, "reached its limit of 2.0 MB");
        assert_eq!(noted, times, "{lines:?}");
        assert_eq!(nodes(&lines), 150_000, "{lines:?}");
    }
    // The game continues with the full tree, and the clock is used as usual.
    session.send("position startpos moves e2e4");
    let begun = Instant::now();
    session.go("go movetime 1000");
    assert!(begun.elapsed() > Duration::from_millis(500));
    let begun = Instant::now();
    session.go("go wtime 20000 btime 20000 winc 300 binc 300");
    assert!(begun.elapsed() > Duration::from_millis(250));
}

#[test]
fn options_are_readable_for_guis() {
    let mut session = Session::new();
    session.send("uci");
    let lines = session.until("uciok");
    assert!(count(&lines, " type spin ") > 10);
    for line in lines.iter().filter(|line| line.contains(" type spin ")) {
        for word in ["default", "min", "max"] {
            let value = line.split(&format!(" {word} ")).nth(1).unwrap();
            let value = value.split(' ').next().unwrap();
            assert!(value.parse::<i32>().is_ok(), "{line}");
        }
    }
    for name in ["Clear Hash type button", "UCI_AnalyseMode", "Hash"] {
        assert_eq!(count(&lines, &format!("option name {name}")), 1, "{name}");
    }
    session.send_and_sync("setoption name Clear Hash");
}

#[test]
fn configurations_of_lc0_work_unchanged() {
    let mut session = Session::new();
    for (name, value) in [
        ("SolidTreeThreshold", "100"),
        ("TaskWorkers", "4"),
        ("MaxPrefetch", "32"),
        ("Backend", "random"),
    ] {
        set(&mut session, name, value);
        let lines = session.send_and_sync("");
        assert_eq!(lines.len(), 1, "{name}: {lines:?}");
        assert!(lines[0].contains("lc0"), "{name}: {lines:?}");
    }
    assert_ne!(session.go("go nodes 10").0, "(none)");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("lc0.config");
    std::fs::write(
        &config,
        "--backend=trivial\nmax-prefetch=8\ntemperature=0\n",
    )
    .unwrap();
    let mut session = Session::with(&["--config", config.to_str().unwrap()]);
    assert_ne!(session.go("go nodes 10").0, "(none)");
}

#[test]
fn statistics_are_printed_for_all_moves_and_during_the_search() {
    let mut session = Session::new();
    set(&mut session, "VerboseMoveStats", "true");
    let (_, lines) = session.go("go nodes 200 searchmoves a2a3 h2h4");
    let is_row = |line: &&String| line.contains(" (P: ");
    assert_eq!(lines.iter().filter(is_row).count(), 21, "{lines:?}");
    // A mate in one is proven; the root's row shows the priors of the visited moves.
    session.send("position fen 6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1");
    let (_, lines) = session.go("go nodes 500");
    let mate = lines.iter().rfind(|line| line.contains("a1a8  (")).unwrap();
    assert!(mate.contains("(T)"), "{mate}");
    assert_eq!(count(&lines, "info string node "), 1);
    set(&mut session, "LogLiveStats", "true");
    session.send("position startpos");
    session.send("go infinite");
    let live = session.until("info string node ");
    assert_eq!(live.iter().filter(is_row).count(), 21);
    session.send("stop");
    session.until("bestmove");
}

#[test]
fn the_same_searchmoves_in_other_words_go_on_with_the_tree() {
    let mut session = Session::new();
    session.send("position startpos");
    for (first, second, goes_on) in [
        ("e2e4 d2d4", "d2d4 e2e4 e2e4", true),
        ("e2e4 d2d4", "d2d4", false),
        (
            "",
            "a2a3 a2a4 b1a3 b1c3 b2b3 b2b4 c2c3 c2c4 d2d3 d2d4 e2e3 e2e4 f2f3 f2f4 g1f3 g1h3 g2g3 g2g4 h2h3 h2h4",
            true,
        ),
    ] {
        let restricted = |moves: &str| match moves {
            "" => String::new(),
            moves => format!(" searchmoves {moves}"),
        };
        session.send("ucinewgame");
        session.go(&format!("go nodes 300{}", restricted(first)));
        let (_, lines) = session.go(&format!("go nodes 5{}", restricted(second)));
        assert_eq!(nodes(&lines) >= 300, goes_on, "{second}: {lines:?}");
    }
}

#[test]
fn searchmoves_apply_to_one_search_and_must_be_legal() {
    let mut session = Session::new();
    session.send("position startpos");
    let (best, _) = session.go("go nodes 100 searchmoves a2a3 h2h4");
    assert!(["a2a3", "h2h4"].contains(&&*best));
    set(&mut session, "MultiPV", "20");
    let (_, lines) = session.go("go nodes 100");
    assert!(count(&lines, " multipv 3 ") > 0, "{lines:?}");
    let firsts: HashSet<_> = lines
        .iter()
        .filter_map(|l| l.split(" pv ").nth(1))
        .collect();
    assert!(firsts.len() > 2, "{lines:?}");
    for nonsense in ["e2e5", "e9e9", "castles"] {
        let (best, lines) = session.go(&format!("go nodes 10 searchmoves {nonsense}"));
        assert_eq!(best, "(none)", "{lines:?}");
        assert_eq!(count(&lines, "none of the searchmoves is legal"), 1);
    }
    assert!(
        session.send_and_sync("").is_empty(),
        "one answer to each go"
    );
    assert_ne!(session.go("go mate 0").0, "(none)");
}

#[test]
fn a_negative_limit_reports_own_mistakes() {
    let mut session = Session::new();
    set(&mut session, "ScLimit", "-10");
    set(&mut session, "ShowObjective", "true");
    let (_, lines) = session.go("go nodes 2000");
    assert_eq!(count(&lines, " careless cp "), 1, "{lines:?}");
    assert_eq!(count(&lines, " slip "), 1);
    assert_eq!(count(&lines, " practical "), 0);
}

#[test]
fn a_ponderhit_applies_to_its_ponder_search() {
    let mut session = Session::new();
    // The `go ponder` is still deferred when the hit arrives: it becomes a search with an answer.
    session.send("position startpos moves e2e4 e7e5");
    session.send("go nodes 20000\ngo ponder nodes 300\nponderhit");
    session.until("bestmove");
    session.until("bestmove");
    assert!(session.send_and_sync("").is_empty());
    // A new position while pondering is for later; the hit answers for the pondered game.
    session.send("position startpos moves e2e4 e7e5");
    session.send_and_sync("go ponder nodes 300");
    session.send("position fen 4k3/P7/8/8/8/8/8/4K3 w - - 0 1");
    session.send("ponderhit");
    let answer = session.until("bestmove").pop().unwrap();
    let best = answer.split(' ').nth(1).unwrap();
    let history = scorn::chess::setup::history_from(None, &["e2e4".into(), "e7e5".into()]).unwrap();
    assert!(scorn::chess::setup::parse_move(history.position(), best).is_ok());
    assert!(session.go("go nodes 200").0.starts_with("a7a8"));
}

#[test]
fn a_finite_search_is_finished_when_the_input_ends() {
    let mut session = Session::new();
    session.send("go nodes 30000");
    let lines = session.end();
    assert_eq!(count(&lines, "bestmove"), 1);
    assert!(count(&lines, " nodes 30000 ") > 0, "{lines:?}");
}

#[test]
fn a_configuration_file_can_be_named_by_the_gui() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("lc0.config");
    std::fs::write(&config, "--backend=random\ntask-workers=4\nmultipv=2\n").unwrap();
    let mut session = Session::new();
    set(&mut session, "ConfigFile", config.to_str().unwrap());
    let (_, lines) = session.go("go nodes 50");
    assert!(
        lines.iter().any(|line| line.contains("Scorn uses hash")),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("task-workers exists in lc0 only")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.contains(" multipv 2 ")),
        "{lines:?}"
    );
    std::fs::write(&config, "multipv=3\nwhat=1\n").unwrap();
    set(&mut session, "ConfigFile", config.to_str().unwrap());
    set(&mut session, "ConfigFile", "");
    let (_, lines) = session.go("go nodes 50");
    let is_reported = |line: &String| line.contains("ConfigFile: ") && line.contains("line 2");
    assert!(lines.iter().any(is_reported), "{lines:?}");
    // The other lines are used.
    assert!(count(&lines, " multipv 3 ") > 0, "{lines:?}");
}

#[test]
fn a_file_that_is_no_configuration_file_is_reported_in_a_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("games.pgn");
    std::fs::write(&file, "[Event \"?\"]\n".repeat(500)).unwrap();
    let mut session = Session::new();
    set(&mut session, "ConfigFile", file.to_str().unwrap());
    let lines = session.send_and_sync("");
    assert_eq!(count(&lines, "ConfigFile: "), 11, "{lines:?}");
    assert_eq!(count(&lines, "490 more lines are wrong"), 1, "{lines:?}");
}

#[test]
fn an_error_of_an_option_has_the_name_that_was_sent() {
    let mut session = Session::new();
    for (name, shown) in [
        ("Hash", "Hash (RamLimitMb)"),
        ("RamLimitMb", "RamLimitMb"),
        ("ramlimitmb", "RamLimitMb"),
        ("Move Overhead", "Move Overhead (MoveOverheadMs)"),
    ] {
        set(&mut session, name, "16 MB");
        let lines = session.send_and_sync("");
        let expected = format!("info string option {shown}: '16 MB' is not an integer");
        assert_eq!(count(&lines, &expected), 1, "{lines:?}");
    }
}

#[test]
fn at_a_rating_the_built_in_network_plays_its_level_for_one_that_is_missing() {
    let nodes_without = |option: &str| {
        let mut session = Session::with(&["--threads", "1"]);
        for (name, value) in [
            ("UCI_LimitStrength", "true"),
            ("UCI_Elo", "1900"),
            (option, "/no/such.pb.gz"),
        ] {
            set(&mut session, name, value);
        }
        let (_, lines) = session.go("go nodes 1000");
        assert_eq!(count(&lines, "the built-in network plays"), 1, "{lines:?}");
        nodes(&lines)
    };
    let expected = nodes_without("WeightsFile");
    assert!(expected > 100, "{expected}");
    assert_eq!(nodes_without("HumanWeights"), expected);
}

#[test]
fn a_log_that_could_not_be_opened_is_tried_again_when_it_is_named_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs").join("uci.log");
    let command = format!("setoption name LogFile value {}", path.display());
    let mut session = Session::new();
    for _ in 0..2 {
        let lines = session.send_and_sync(&command);
        assert_eq!(count(&lines, "LogFile: cannot write"), 1, "{lines:?}");
    }
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let lines = session.send_and_sync(&command);
    assert_eq!(count(&lines, "LogFile"), 0, "{lines:?}");
    session.end();
    let log = std::fs::read_to_string(&path).unwrap();
    assert!(log.contains("> isready"), "{log}");
}

#[test]
fn a_wrong_value_in_a_configuration_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("my.config");
    std::fs::write(&config, "# mine\nmultipv=3\ncpuct=abc\n").unwrap();
    let mut session = Session::new();
    let name = config.to_str().unwrap();
    session.send(&format!("setoption name ConfigFile value {name}"));
    let lines = session.send_and_sync("");
    let expected = format!("ConfigFile: {name}, line 3: option CPuct: 'abc'");
    assert_eq!(count(&lines, &expected), 1, "{lines:?}");
    let (_, lines) = session.go("go nodes 50");
    assert!(count(&lines, " multipv 3 ") > 0, "{lines:?}");
}

#[test]
fn spaces_within_a_value_stay() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("two  spaces.config");
    std::fs::write(&config, "multipv=2\n").unwrap();
    let mut session = Session::new();
    set(&mut session, "ConfigFile", config.to_str().unwrap());
    let (_, lines) = session.go("go nodes 50");
    assert!(count(&lines, " multipv 2 ") > 0, "{lines:?}");
}

#[test]
fn a_byte_order_mark_before_the_first_command_is_skipped() {
    let mut session = Session::new();
    session.send("\u{feff}uci");
    let lines = session.until("uciok");
    assert!(count(&lines, "option name ") > 20, "{lines:?}");
}

#[test]
fn a_perft_that_is_stopped_prints_no_total() {
    let mut session = Session::new();
    session.send("position startpos\ngo perft 20\nstop");
    let mut lines = session.until("info string perft was stopped");
    lines.extend(session.send_and_sync(""));
    assert_eq!(count(&lines, "Nodes searched"), 0, "{lines:?}");
    session.send("go perft 3");
    let lines = session.until("Nodes");
    assert_eq!(count(&lines, "Nodes searched: 8902"), 1, "{lines:?}");
    // Nobody can wait for that, and the count would fill the stack.
    session.send("go perft 5000");
    let lines = session.until("bestmove");
    assert_eq!(
        count(&lines, "more than 30 plies cannot be counted"),
        1,
        "{lines:?}"
    );
}

#[test]
fn a_flag_about_the_opponent_in_another_form_is_named() {
    let mut session = Session::with(&["--opponent", "1500 human Mary"]);
    let lines = session.send_and_sync("");
    let expected = "no rating and no type were found";
    assert_eq!(count(&lines, expected), 1, "{lines:?}");
}

#[test]
fn preload_starts_at_once() {
    let weights = ["--weights", "/no/such/network.pb.gz"];
    let arguments = [&["--preload", "--backend", "rten"][..], &weights].concat();
    let mut session = Session::with(&arguments);
    session.until("info string error: network /no/such/network.pb.gz");
}

#[test]
fn backends_of_other_systems_name_their_system() {
    let mut session = Session::new();
    for (backend, system) in [("directml", "Windows"), ("onnx-coreml", "Apple")] {
        set(&mut session, "Backend", backend);
        if !cfg!(windows) && !cfg!(target_vendor = "apple") {
            let lines = session.send_and_sync("position startpos");
            let is_reported =
                |line: &String| line.contains("is not available") && line.contains(system);
            assert!(lines.iter().any(is_reported), "{lines:?}");
        }
    }
}

#[test]
fn an_endless_line_is_refused_and_the_next_one_executed() {
    let mut session = Session::new();
    session.send_and_sync("position startpos moves d2d4");
    let endless = "g1f3 g8f6 f3g1 f6g8 ".repeat(60_000);
    let reported = session.send_and_sync(&format!("position startpos moves {endless}"));
    assert_eq!(count(&reported, "longer than"), 1);
    assert_eq!(session.go("go nodes 10").0, "(none)");
    session.send_and_sync("position startpos");
    assert_ne!(session.go("go nodes 10").0, "(none)");
}

/// Nearly all visits end near the root, at draws that prove nothing or at results that are certain, so that their mean
/// depth stays small for ever.
#[test]
fn a_search_that_cannot_become_deeper_ends() {
    let mut session = Session::with(&["--threads", "1"]);
    let knights = "f2f3 e7e5 g1h3 g8f6 h3g1 f6g8 g1h3 g8f6 h3g1 f6g8";
    for position in [
        format!("position startpos moves {knights}"),
        format!("position fen {KNIGHT_ODDS} moves {BLUNDERS}"),
    ] {
        session.send(&position);
        let (best, _) = session.go("go depth 8");
        assert!(best.len() >= 4, "{best}");
    }
    session.end();
}

const KNIGHT_ODDS: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1";
const BLUNDERS: &str = "d2d4 d7d5 e2e4 d5e4 c1f4 d8d4 d1d4 e7e5 d4e5 f8e7 e5g7 e8d7 e1c1 d7c6";

#[test]
fn flags_that_only_lc0_has_may_follow_its_mode() {
    for arguments in [&["--max-prefetch=32"][..], &["uci", "--max-prefetch=32"]] {
        let mut session = Session::with(arguments);
        let (best, _) = session.go("go nodes 1");
        assert_eq!(best.len(), 4, "{arguments:?}: {best}");
        session.end();
    }
}
