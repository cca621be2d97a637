//! Tablebases in the tree and at the root. The tables themselves are not part of the project: set `SCORN_SHARED` to a
//! folder that has them in `syzygy/`.

mod common;

use std::sync::Arc;

use common::{Setup, position};
use scorn::{
    chess::History,
    options::Options,
    search::{Limits, Score},
    syzygy::Tables,
};
use shakmaty::Position;

fn tables() -> Option<Arc<Tables>> {
    let path = common::shared("syzygy")?;
    Some(Arc::new(Tables::open(path.to_str().unwrap()).unwrap()))
}

#[test]
fn folders_without_tables_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    assert!(
        Tables::open(&path)
            .err()
            .unwrap()
            .to_string()
            .contains(&path)
    );
    assert!(
        Tables::open("/no/such/folder")
            .err()
            .unwrap()
            .to_string()
            .contains("/no/such/folder")
    );
}

#[test]
fn captures_into_tablebase_positions_are_proven_in_the_tree() {
    let Some(tables) = tables() else { return };
    // Taking the knight leaves king and queen against king; anything else is harder.
    let game = position("8/8/3k4/8/3n4/8/3Q4/3K4 w - - 0 1");
    let mut setup = Setup::new(Options {
        threads: 1,
        ..Options::default()
    });
    setup.tables = Some(Arc::clone(&tables));
    let outcome = setup.search(&game, 500);
    let line = &outcome.report.lines[0];
    assert!(outcome.report.tb_hits > 0);
    assert!(matches!(line.score, Score::Tablebase(1..)), "{line:?}");
    setup.tree.lock().assert_consistent();
}

/// Plays a won ending out with the hash evaluator, which knows nothing: tablebases alone must win it.
#[test]
fn a_won_ending_is_won_within_fifty_moves_by_tablebases_alone() {
    let Some(tables) = tables() else { return };
    for fen in [
        "8/8/8/3k4/8/8/8/KBN5 w - - 0 1",
        "8/8/8/8/8/2k5/3q4/K2R4 b - - 0 1",
    ] {
        let mut game = position(fen);
        let winner = game.position().turn();
        while !game.position().is_game_over() {
            let mut setup = Setup::new(Options {
                threads: 1,
                syzygy_fast_play: true,
                ..Options::default()
            });
            setup.tables = Some(Arc::clone(&tables));
            let limits = Limits {
                nodes: Some(20),
                ..Limits::default()
            };
            game.push(setup.search_with(&game, limits).best.unwrap());
            assert!(
                game.last().rule50() < 100 && game.len() < 300,
                "no progress from {fen}"
            );
        }
        assert!(game.position().is_checkmate() && game.position().turn() != winner);
    }
}

#[test]
fn only_moves_that_keep_the_result_are_left_at_the_root() {
    let Some(tables) = tables() else { return };
    let name = |game: &History, moves: &[scorn::chess::PackedMove]| {
        moves
            .iter()
            .map(|&m| common::uci(game, m))
            .collect::<Vec<_>>()
    };
    // Queen to g6 is stalemate, queen to g7 mate.
    let game = position("7k/8/5K2/8/8/8/8/6Q1 w - - 0 1");
    let moves = name(&game, &tables.root_moves(&game, false).unwrap());
    assert!(
        moves.contains(&"g1g7".to_owned()) && !moves.contains(&"g1g6".to_owned()),
        "{moves:?}"
    );
    assert_eq!(
        name(&game, &tables.root_moves(&game, true).unwrap()),
        ["g1g7"]
    );
    // Too many pieces.
    assert!(tables.root_moves(&History::default(), false).is_none());
}
