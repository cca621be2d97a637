//! What keeps a bot from playing the same game twice: varied openings, and no repetition of lost games.

use std::{collections::BTreeSet, fs, path::Path};

use crate::common::session::Session;

/// Plays a game between two engines, the first with White, until one has no move; returns the moves.
fn play(white: &mut Session, black: &mut Session, limits: [&str; 2]) -> Vec<String> {
    let mut moves: Vec<String> = Vec::new();
    while moves.len() < 300 {
        let side = moves.len() % 2;
        let engine = if side == 0 { &mut *white } else { &mut *black };
        engine.send(&format!("position startpos moves {}", moves.join(" ")));
        let (best, _) = engine.go(limits[side]);
        if best == "(none)" {
            break;
        }
        moves.push(best);
    }
    moves
}

/// The game that an engine without knowledge loses against the built-in network, with a file of lost games, and what it
/// says after it.
fn lose(file: &Path) -> (Vec<String>, Vec<String>) {
    let common = ["--threads", "1", "--seed", "5", "--profiles", "off"];
    let file = file.to_str().unwrap();
    let weak = ["--backend", "hash", "--lost-games-file", file];
    let mut weak = Session::with(&[&common[..], &weak].concat());
    let mut strong = Session::with(&common);
    let moves = play(&mut weak, &mut strong, ["go nodes 40", "go nodes 200"]);
    assert!(
        moves.len() < 200 && moves.len().is_multiple_of(2),
        "White was not mated: {moves:?}"
    );
    strong.end();
    (moves, weak.end())
}

#[test]
fn a_lost_game_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let none = Path::new("");
    let (first, said) = lose(none);
    assert!(
        !said.iter().any(|line| line.contains("LostGamesFile")),
        "{said:?}"
    );
    assert_eq!(
        lose(none).0,
        first,
        "without a file the same game is played again"
    );

    // A program for each game, as lichess-bot starts them.
    let file = folder.path().join("lost.epd");
    let mut games = vec![first.clone()];
    for number in 1..=3 {
        let (moves, said) = lose(&file);
        if number == 1 {
            assert_eq!(moves, first, "the file was empty");
        } else {
            assert!(
                !games.contains(&moves),
                "game {number} is a repetition: {moves:?}"
            );
            games.push(moves);
        }
        let added = said
            .iter()
            .filter(|line| line.contains("the game was lost, added"));
        assert_eq!(added.count(), 1, "{said:?}");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), number, "{text}");
        assert!(
            text.lines()
                .all(|line| line.contains(" w ") && line.contains(" am ")),
            "{text}"
        );
    }

    // A damaged file or one that cannot be written costs nothing but the memory.
    fs::write(&file, [0xff, 0xfe, 0, 0]).unwrap();
    for file in [&*file, Path::new("/nowhere/lost.epd")] {
        let (moves, said) = lose(file);
        assert_eq!(moves, first);
        assert!(
            said.iter()
                .any(|line| line.contains("error: LostGamesFile")),
            "{said:?}"
        );
    }
}

#[test]
fn a_game_is_lost_though_another_begins_during_its_last_search() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lost.epd");
    let (moves, _) = lose(Path::new(""));
    let common = ["--threads", "1", "--seed", "5", "--profiles", "off"];
    let weak = [
        "--backend",
        "hash",
        "--lost-games-file",
        file.to_str().unwrap(),
    ];
    let mut weak = Session::with(&[&common[..], &weak].concat());
    let last = moves.len() - 2;
    for played in (0..=last).step_by(2) {
        let begun = moves[..played].join(" ");
        weak.send(&format!("position startpos moves {begun}"));
        if played == last {
            weak.send("go nodes 40\nucinewgame\nposition startpos");
        } else {
            drop(weak.go("go nodes 40"));
        }
    }
    let mut lines = weak.until("bestmove");
    lines.extend(weak.send_and_sync(""));
    let added = lines.iter().filter(|line| line.contains("lost, added"));
    assert_eq!(added.count(), 1, "{lines:?}");
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
}

/// The moves that are played with many seeds.
fn moves_with(settings: &[&str], position: &str) -> BTreeSet<String> {
    let mut session = Session::with(&["--threads", "1", "--show-hidden"]);
    for setting in settings {
        session.send(&format!("setoption name {setting}"));
    }
    let mut moves = BTreeSet::new();
    for seed in 1..=16 {
        session.send("ucinewgame");
        session.send(&format!("setoption name Seed value {seed}"));
        session.send(&format!("position {position}"));
        moves.insert(session.go("go nodes 400").0);
    }
    session.end();
    moves
}

#[test]
fn openings_vary_if_they_are_to_and_only_the_first_moves() {
    let varied = "OpeningVariety value 2";
    assert_eq!(moves_with(&[], "startpos").len(), 1);
    let moves = moves_with(&[varied], "startpos");
    assert!(moves.len() >= 2 && moves.contains("e2e4"), "{moves:?}");
    let later = "fen rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 5";
    assert_eq!(moves_with(&[varied], later).len(), 1);
    assert!(moves_with(&[varied, "OpeningVarietyMoves value 5"], later).len() >= 2);
    let analysis = "UCI_AnalyseMode value true";
    assert_eq!(moves_with(&[varied, analysis], "startpos").len(), 1);
}
