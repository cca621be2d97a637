//! Early ends of games: each rule by itself, against the same games without it.

use std::fs;

use scorn::pgn::{Game, Reader};
use serde_json::Value;
use shakmaty::{Color, KnownOutcome, Position};

use super::{command, ok, text};
use crate::common::shared;

/// Wins and losses are written in per mille; this is the rounding error of W-L.
const ROUNDING: f64 = 0.0011;

const BOOK: &str = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -\n\
                    rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq -\n\
                    rnbqkbnr/pppppppp/8/8/2P5/8/PP1PPPPP/RNBQKBNR b KQkq -\n\
                    rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq -\n";

/// A game as read from its PGN.
struct PlayedGame {
    game: Game,
    /// W-L for White after each move.
    values: Vec<f64>,
    nodes: Vec<u64>,
}

impl PlayedGame {
    fn ending(&self) -> &str {
        self.game.tag("TerminationDetails").unwrap()
    }

    fn is_draw(&self) -> bool {
        self.game.outcome == Some(KnownOutcome::Draw)
    }

    fn winner(&self) -> Option<Color> {
        self.game.outcome.and_then(KnownOutcome::winner)
    }
}

/// The texts of a mark in comments, such as `[%nodes 800]`.
fn marks<'t>(text: &'t str, mark: &str) -> Vec<&'t str> {
    let marked = text.split(mark).skip(1);
    marked.map(|rest| rest.split(']').next().unwrap()).collect()
}

/// W-L of the text of a mark `[%wdl 402,420,178]`.
fn value(wdl: &str) -> f64 {
    let parts: Vec<f64> = wdl.split(',').map(|part| part.parse().unwrap()).collect();
    assert_eq!(parts.iter().sum::<f64>(), 1000.0, "{wdl}");
    (parts[0] - parts[2]) / 1000.0
}

/// The games of a run with these arguments, and its summary.
fn play(book: &str, arguments: &str) -> (Vec<PlayedGame>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let (out, openings) = (folder.path().join("run"), folder.path().join("book.epd"));
    fs::write(&openings, book).unwrap();
    let book = ["--in-order", "--book", openings.to_str().unwrap()];
    let arguments: Vec<&str> = book.into_iter().chain(arguments.split(' ')).collect();
    ok(&command(&out, &arguments).output().unwrap());
    let pgn = fs::read(out.join("games-00001.pgn")).unwrap();
    let texts = text(&pgn)
        .split_inclusive("\n\n[Event ")
        .collect::<Vec<_>>();
    let games = Reader::new(&pgn[..]).map(Result::unwrap);
    let game: Vec<PlayedGame> = games
        .zip(&texts)
        .map(|(game, text)| PlayedGame {
            values: marks(text, "[%wdl ").into_iter().map(value).collect(),
            nodes: marks(text, "[%nodes ")
                .into_iter()
                .map(|nodes| nodes.parse().unwrap())
                .collect(),
            game,
        })
        .collect();
    assert_eq!(game.len(), texts.len());
    for game in &game {
        assert_eq!(game.values.len(), game.game.moves.len());
    }
    let summary = fs::read(out.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let won = |side| game.iter().filter(|game| game.winner() == side).count();
    let counts = [Some(Color::White), None, Some(Color::Black)].map(won);
    for (name, count) in ["white", "draws", "black"].iter().zip(counts) {
        assert_eq!(summary[name], count);
    }
    (game, summary)
}

/// Checks that games that a rule ended go on without it and end in another way, and that the others are the same.
/// Returns the former.
fn ended_early<'t>(
    with: &'t [PlayedGame],
    without: &'t [PlayedGame],
    ending: &str,
) -> Vec<[&'t PlayedGame; 2]> {
    let mut early = Vec::new();
    for (with, without) in with.iter().zip(without) {
        assert_ne!(without.ending(), ending);
        if with.ending() != ending {
            assert_eq!(with.game.moves, without.game.moves);
            assert_eq!(with.ending(), without.ending());
            continue;
        }
        let by_player = ending == "resignation";
        let tag = if by_player { "normal" } else { "adjudication" };
        assert_eq!(with.game.tag("Termination"), Some(tag));
        assert!(without.game.moves.len() > with.game.moves.len());
        assert!(without.game.moves.starts_with(&with.game.moves));
        early.push([with, without]);
    }
    assert!(!early.is_empty());
    early
}

/// Checks that a rule about the last evaluations ends a game as soon as it holds, and only then.
fn assert_ends_at_once(
    game: &PlayedGame,
    ending: &str,
    plies: usize,
    holds: impl Fn(&[f64]) -> bool,
) {
    let windows = game.values.windows(plies);
    let first = windows.map(holds).position(|holds| holds);
    let expected = (game.ending() == ending).then(|| game.values.len() - plies);
    assert_eq!(first, expected, "{:?}", game.values);
}

#[test]
fn both_sides_see_a_win() {
    let usual = "--games 8 --nodes 20 --temperature 1 --max-plies 80";
    let (with, _) = play(BOOK, &format!("{usual} --win-rule 3,0.1"));
    let (without, _) = play(BOOK, usual);
    let ending = "agreed scores (win)";
    for [with, _] in ended_early(&with, &without, ending) {
        let last = *with.values.last().unwrap();
        assert_eq!(with.winner(), Some(Color::from_white(last > 0.0)));
    }
    let beyond = |values: &[f64], margin| {
        values.iter().all(|&v| v >= margin) || values.iter().all(|&v| v <= -margin)
    };
    for game in &with {
        // Values at the rule's limit may be rounded to its other side.
        let is_near = |v: &f64| (v.abs() - 0.1).abs() < ROUNDING;
        if !game.values.iter().any(is_near) {
            assert_ends_at_once(game, ending, 3, |values| beyond(values, 0.1));
        }
        let is_over = game.ending() == ending;
        assert!(!is_over || beyond(&game.values[game.values.len() - 3..], 0.1 - ROUNDING));
    }
}

#[test]
fn both_sides_see_a_draw() {
    let usual = "--games 8 --nodes 20 --temperature 1 --max-plies 80";
    let (with, _) = play(BOOK, &format!("{usual} --draw-rule 6,4,0.08"));
    let (without, _) = play(BOOK, usual);
    for [with, _] in ended_early(&with, &without, "agreed scores (draw)") {
        assert!(with.is_draw());
        let last = &with.values[with.values.len() - 4..];
        assert!(last.iter().all(|v| v.abs() <= 0.08 + ROUNDING), "{last:?}");
        // All four of them were moves 6 or later.
        let moves = with.game.moves.len() + with.game.start.turn().fold_wb(0, 1);
        assert!(moves >= 2 * 5 + 4, "{moves}");
    }
    let (early, _) = play(BOOK, &format!("{usual} --draw-rule 1,4,0.08"));
    let shortest = |games: &[PlayedGame]| games.iter().map(|game| game.values.len()).min();
    assert!(shortest(&early) < shortest(&with));
}

#[test]
fn a_losing_side_resigns() {
    // The values in the games are those of the played moves, which the searches prefer without temperature.
    for choice in ["visits", "lcb"] {
        a_losing_side_resigns_by(choice);
    }
}

fn a_losing_side_resigns_by(choice: &str) {
    let usual =
        format!("--games 4 --nodes 20 --temperature 0 --root-choice {choice} --max-plies 60");
    let usual = &usual[..];
    let rule = |playthrough| format!("{usual} --resign 45 --resign-playthrough {playthrough}");
    let (with, _) = play(BOOK, &rule(0));
    let (without, summary) = play(BOOK, usual);
    assert_eq!(summary["played_on"], 0);
    let early = ended_early(&with, &without, "resignation");
    for [with, without] in &early {
        let loser = with.game.end.turn();
        assert_eq!(with.winner(), Some(!loser));
        let side = |ply: usize| {
            let first = with.game.start.turn();
            if ply.is_multiple_of(2) { first } else { !first }
        };
        let expected = |ply: usize| {
            let value = without.values[ply];
            f64::midpoint(1.0, side(ply).fold_wb(value, -value))
        };
        let plies = with.game.moves.len();
        assert!(expected(plies) < 0.45 + ROUNDING);
        assert!((0..plies).all(|ply| expected(ply) >= 0.45 - ROUNDING));
    }
    let (played_on, summary) = play(BOOK, &rule(100));
    assert_eq!(summary["played_on"], early.len());
    let saved = early
        .iter()
        .filter(|[with, without]| without.winner() != Some(!with.game.end.turn()));
    assert_eq!(summary["false_resignations"], saved.count());
    for (played_on, without) in played_on.iter().zip(&without) {
        assert_eq!(played_on.game.moves, without.game.moves);
        assert_eq!(played_on.ending(), without.ending());
    }
}

#[test]
fn games_that_get_too_long_are_drawn() {
    let usual = "--games 4 --nodes 10 --temperature 1";
    let (with, _) = play(BOOK, &format!("{usual} --max-plies 9"));
    let (without, _) = play(BOOK, &format!("{usual} --max-plies 5000"));
    // The former name of the flag, accepted until version 0.2.
    let (former, _) = play(BOOK, &format!("{usual} --longest 9"));
    for (with, former) in with.iter().zip(&former) {
        assert_eq!(with.game.moves, former.game.moves);
    }
    let early = ended_early(&with, &without, "length");
    assert_eq!(early.len(), 4);
    for [with, without] in early {
        assert!(with.is_draw());
        assert_eq!(with.game.moves.len(), 9);
        assert_eq!(without.game.tag("Termination"), Some("normal"));
    }
}

/// Each begins with a capture that cannot be avoided, after which White wins, Black wins, or it is a draw.
const CAPTURES: &str = "6k1/8/8/8/8/8/1q5R/K7 w - -\n\
                        k7/1Q5r/8/8/8/8/8/6K1 b - -\n\
                        7k/8/8/8/8/6n1/1q5N/K7 w - -\n";

#[test]
fn tablebases_adjudicate() {
    let Some(tables) = shared("syzygy") else {
        return;
    };
    let tables = tables.to_str().unwrap();
    let usual = format!("--games 3 --nodes 10 --max-plies 5 --syzygy-paths {tables}");
    let (with, _) = play(CAPTURES, &format!("{usual} --adjudicate-syzygy"));
    let (without, _) = play(CAPTURES, &usual);
    let early = ended_early(&with, &without, "tablebase");
    assert_eq!(early.len(), 3);
    let winners = [Some(Color::White), Some(Color::Black), None];
    for ([with, without], winner) in early.into_iter().zip(winners) {
        assert_eq!((with.winner(), with.game.moves.len()), (winner, 1));
        assert_eq!((without.ending(), without.is_draw()), ("length", true));
    }
}

/// The tables know the result before the search does.
#[test]
fn what_tablebases_know_of_the_root_counts_for_resignation_and_agreement() {
    let Some(tables) = shared("syzygy") else {
        return;
    };
    let tables = tables.to_str().unwrap();
    let won = "8/8/8/3k4/8/8/4Q3/K7 w - -\n";
    let usual = format!("--games 1 --nodes 10 --max-plies 4 --syzygy-paths {tables}");
    let (agreed, _) = play(won, &format!("{usual} --win-rule 3,1"));
    assert_eq!(agreed[0].ending(), "agreed scores (win)");
    assert_eq!(agreed[0].values, [1.0; 3]);
    let (resigned, _) = play(won, &format!("{usual} --resign 1 --resign-playthrough 0"));
    assert_eq!(resigned[0].ending(), "resignation");
    assert_eq!(resigned[0].values, [1.0]);
    for games in [agreed, resigned] {
        assert_eq!(games[0].winner(), Some(Color::White));
    }
}

#[test]
fn faults_of_tablebases_are_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let (out, book) = (folder.path().join("run"), folder.path().join("book.epd"));
    fs::write(&book, "8/8/8/3k4/8/8/4Q3/K7 w - -\n").unwrap();
    // No more than the size of a table.
    fs::write(folder.path().join("KQvK.rtbw"), [7; 16]).unwrap();
    let path = folder.path().to_str().unwrap();
    let mut arguments = vec!["--adjudicate-syzygy", "--syzygy-paths", path];
    arguments.extend(["--book", book.to_str().unwrap(), "--games", "2"]);
    arguments.extend(["--nodes", "10", "--max-plies", "4"]);
    let output = command(&out, &arguments).output().unwrap();
    ok(&output);
    let fault = "scorn: SyzygyPath: the WDL table of KQvK is damaged: it is ignored\n";
    let errors = text(&output.stderr);
    assert_eq!(errors.matches(fault).count(), 1, "{errors}");
}

/// This rule ends searches rather than games: those without information gain for a while.
#[test]
fn searches_end_without_information_gain() {
    let usual = "--games 2 --nodes 400 --max-plies 12";
    let rule = "--minimum-kldgain-per-node 0.0005 --kldgain-average-interval 50";
    let (with, with_summary) = play(BOOK, &format!("{usual} {rule}"));
    let (without, without_summary) = play(BOOK, usual);
    let nodes = |games: &[PlayedGame]| -> Vec<u64> {
        games.iter().flat_map(|game| game.nodes.clone()).collect()
    };
    assert!(nodes(&without).iter().all(|&nodes| nodes == 400));
    let stopped = nodes(&with);
    assert!(
        stopped.iter().all(|&nodes| (100..=400).contains(&nodes)),
        "{stopped:?}"
    );
    assert!(stopped.iter().filter(|&&nodes| nodes < 400).count() > stopped.len() / 2);
    assert!(with_summary["nodes"].as_u64() < without_summary["nodes"].as_u64());
}
