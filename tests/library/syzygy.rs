//! Tablebases in the tree and at the root. The tables are not part of the project: set `SCORN_SHARED` to a folder
//! that has them in `syzygy/`.

use std::{env, sync::Arc};

use crate::common::{Setup, position};
use scorn::{
    chess::{History, PackedMove, moves::legal_moves},
    dataset::record::{MATE, NO_PLIES, Record, Source},
    labeling,
    network::hash::HashEvaluator,
    options::Options,
    search::{
        self, Job, Limits, MoveStat, Proven, Report, Reporter, Score, StopSignal, SystemClock, Tree,
    },
    syzygy::{TableMove, Tables, best_moves},
};
use shakmaty::{Chess, Position};

fn tables() -> Option<Arc<Tables>> {
    let path = crate::common::shared("syzygy")?;
    Some(Arc::new(Tables::open(path.to_str().unwrap()).unwrap()))
}

/// The moves that the tables keep.
fn root_moves(tables: &Tables, game: &History, fastest: bool) -> Option<Vec<PackedMove>> {
    best_moves(tables.moves(game)?, fastest)
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
fn tables_of_distances_alone_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("KQvK.rtbz"), [0; 16]).unwrap();
    let error = Tables::open(path).unwrap_err().to_string();
    assert!(
        error.contains("no WDL tables") && error.contains(path),
        "{error}"
    );
    std::fs::write(folder.path().join("KRvK.rtbw"), [0; 16]).unwrap();
    assert!(Tables::open(path).is_ok());
}

#[test]
fn a_damaged_table_is_reported_in_one_line() {
    let game = position("8/8/8/3k4/8/8/4Q3/K7 w - - 0 1");
    // A file that begins as a WDL table does, and one that does not.
    for start in [[0x71, 0xe8, 0x23, 0x5d], [7; 4]] {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&start);
        std::fs::write(folder.path().join("KQvK.rtbw"), bytes).unwrap();
        let tables = Tables::open(folder.path().to_str().unwrap()).unwrap();
        assert_eq!(tables.result(game.position()), None);
        let fault = "SyzygyPath: the WDL table of KQvK is damaged: it is ignored";
        assert_eq!(tables.new_faults(), [fault]);
    }
}

#[test]
fn a_missing_folder_does_not_affect_the_others() {
    let Some(path) = crate::common::shared("syzygy") else {
        return;
    };
    let folders = ["/no/such/folder", path.to_str().unwrap()];
    let path = env::join_paths(folders).unwrap().into_string().unwrap();
    let tables = Tables::open(&path).unwrap();
    let faults = tables.new_faults();
    assert!(
        matches!(&faults[..], [fault] if fault.contains("/no/such/folder")),
        "{faults:?}"
    );
    assert_eq!(tables.new_faults(), Vec::<String>::new());
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

/// Plays out a won ending with the hash evaluator, whose values are noise: tablebases alone must win it.
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
    let name = |game: &History, moves: &[PackedMove]| {
        moves
            .iter()
            .map(|&m| crate::common::uci(game, m))
            .collect::<Vec<_>>()
    };
    // Queen to g6 is stalemate, queen to g7 mate.
    let game = position("7k/8/5K2/8/8/8/8/6Q1 w - - 0 1");
    let moves = name(&game, &root_moves(&tables, &game, false).unwrap());
    assert!(
        moves.contains(&"g1g7".to_owned()) && !moves.contains(&"g1g6".to_owned()),
        "{moves:?}"
    );
    assert_eq!(
        name(&game, &root_moves(&tables, &game, true).unwrap()),
        ["g1g7"]
    );
    // Too many pieces.
    assert!(root_moves(&tables, &History::default(), false).is_none());
}

/// A folder with some of the tables; those for which `change` returns other bytes are damaged.
fn some_tables(
    is_wanted: impl Fn(&str) -> bool,
    damage: impl Fn(&str) -> Option<Vec<u8>>,
) -> Option<(tempfile::TempDir, Arc<Tables>)> {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(crate::common::shared("syzygy")?).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !is_wanted(&name) {
            continue;
        }
        let copy = folder.path().join(&name);
        match damage(&name) {
            Some(bytes) => std::fs::write(copy, bytes).unwrap(),
            None => drop(std::fs::copy(entry.path(), copy).unwrap()),
        }
    }
    let tables = Tables::open(folder.path().to_str().unwrap()).unwrap();
    Some((folder, Arc::new(tables)))
}

fn setup(tables: &Arc<Tables>, settings: &[(&str, &str)]) -> Setup {
    let mut options = Options {
        threads: 1,
        ..Options::default()
    };
    for (name, value) in settings {
        options.set(name, value).unwrap();
    }
    let mut setup = Setup::new(options);
    setup.tables = Some(Arc::clone(tables));
    setup
}

#[test]
fn wdl_tables_alone_keep_the_result_at_the_root() {
    let is_small_wdl = |name: &str| name.starts_with("KQv") && name.ends_with(".rtbw");
    let Some((_folder, tables)) = some_tables(is_small_wdl, |_| None) else {
        return;
    };
    for (fen, good, bad) in [
        // Queen to g6 is stalemate.
        ("7k/8/5K2/8/8/8/8/6Q1 w - - 0 1", "g1g7", "g1g6"),
        // The queen can be lost.
        ("8/8/8/3k4/8/8/4Q3/K7 w - - 0 1", "e2e8", "e2e4"),
    ] {
        let game = position(fen);
        let moves = root_moves(&tables, &game, false).unwrap();
        let moves: Vec<_> = moves
            .iter()
            .map(|&m| crate::common::uci(&game, m))
            .collect();
        assert!(moves.contains(&good.to_owned()), "{moves:?}");
        assert!(!moves.contains(&bad.to_owned()), "{moves:?}");
    }
    let faults = tables.new_faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].contains("there is no DTZ table for KQvK"),
        "{faults:?}"
    );
    assert!(tables.new_faults().is_empty(), "reported only once");
}

/// Limits of an analysis with this many nodes.
fn analysis(nodes: u64) -> Limits {
    Limits {
        nodes: Some(nodes),
        infinite: true,
        ..Limits::default()
    }
}

#[test]
fn a_won_or_lost_root_is_reported_as_that_if_fifty_moves_suffice() {
    let Some(tables) = tables() else { return };
    let line = |fen: &str| {
        let mut outcome = setup(&tables, &[]).search(&position(fen), 20);
        outcome.report.lines.remove(0)
    };
    let score = |fen: &str| line(fen).score;
    let won = score("8/8/8/3k4/8/8/8/KBN5 w - - 0 1");
    assert!(matches!(won, Score::Tablebase(1..)), "{won:?}");
    let lost = score("8/8/8/3k4/8/8/8/KBN5 b - - 0 1");
    assert!(matches!(lost, Score::Tablebase(..=-1)), "{lost:?}");
    // Mate takes about thirty more moves, and five are left.
    for fen in [
        "8/8/8/3k4/8/8/8/KBN5 w - - 90 80",
        "8/8/8/3k4/8/8/8/KBN5 b - - 90 80",
        // Fifteen plies with a queen and eighteen with a rook, where nine and fourteen are left.
        "8/5Q2/8/8/8/8/2k4K/8 w - - 91 96",
        "8/8/2K5/k7/8/8/6R1/8 b - - 86 91",
    ] {
        let line = line(fen);
        assert_eq!((line.score, line.value.wl), (Score::Open, 0.0), "{fen}");
        assert_eq!(line.value.d, 1.0, "{fen}");
    }
    // In analysis bad moves are searched, too, and are not wins.
    let setup = setup(&tables, &[("MultiPV", "500")]);
    let game = position("7k/8/5K2/8/8/8/8/6Q1 w - - 0 1");
    let lines = setup.search_with(&game, analysis(200)).report.lines;
    let of = |name: &str| {
        let line = lines
            .iter()
            .find(|line| crate::common::uci(&game, line.pv[0]) == name);
        line.unwrap().score
    };
    assert!(matches!(
        of("g1g5"),
        Score::Tablebase(1..) | Score::Mate(1..)
    ));
    assert!(!matches!(
        of("g1g6"),
        Score::Tablebase(1..) | Score::Mate(1..)
    ));
}

/// A mate on the hundredth ply is in time: the fifty-move rule saves nobody from it.
#[test]
fn a_lost_side_does_not_walk_into_a_mate_at_once() {
    let Some(tables) = tables() else { return };
    for (fen, is_right) in [
        // The king takes a queen, or is mated on b7.
        ("8/7Q/8/k7/1Q6/8/4K3/8 b - - 98 120", "a5b4"),
        // The pawn checks, or the king is mated on h6.
        ("8/8/8/8/6p1/8/3Q1K2/7k b - - 97 120", "g4g3"),
    ] {
        let game = position(fen);
        let best = setup(&tables, &[]).search(&game, 100).best.unwrap();
        assert_eq!(crate::common::uci(&game, best), is_right, "{fen}");
    }
}

#[test]
fn of_the_requested_moves_the_tables_choose() {
    let Some(tables) = tables() else { return };
    // King to f7 loses, queen takes h7 draws; the winning moves are not requested.
    let game = position("6K1/1Q6/8/6kr/8/8/8/8 w - - 0 1");
    let requested: Vec<PackedMove> = legal_moves(game.position())
        .filter(|&m| ["g8f7", "b7h7"].contains(&&*crate::common::uci(&game, m)))
        .collect();
    let setup = setup(&tables, &[]);
    for nodes in [1, 4] {
        let outcome = setup.search_moves(&game, requested.clone(), nodes);
        assert_eq!(crate::common::uci(&game, outcome.best.unwrap()), "b7h7");
    }
    // Analysis searches all moves, and chooses none that the tables know is worse.
    let game = position("8/1R6/8/K7/7r/5k2/8/8 b - - 0 1");
    for nodes in [1, 2, 5, 20] {
        let best = setup.search_with(&game, analysis(nodes)).best.unwrap();
        let known = tables.moves(&game).unwrap();
        let chosen = known.iter().find(|known| known.m == best).unwrap();
        assert_eq!(chosen.result, Some(0), "{nodes}");
    }
}

#[test]
fn lines_have_the_values_of_the_tables_in_their_order() {
    let Some(tables) = tables() else { return };
    for fen in [
        "8/8/6k1/3r3R/8/8/8/4K3 b - - 0 1",
        "8/8/K7/7Q/8/6k1/2r5/8 w - - 0 1",
        "8/8/3k4/8/3n4/8/3Q4/3K4 w - - 0 1",
    ] {
        let game = position(fen);
        for nodes in [2, 30, 1000] {
            let setup = setup(&tables, &[("MultiPV", "500")]);
            let lines = setup.search_with(&game, analysis(nodes)).report.lines;
            let orders: Vec<_> = lines.iter().map(|line| line.score.order()).collect();
            // The first is what the engine plays.
            assert!(orders[1..].is_sorted(), "{fen} {nodes}: {orders:?}");
            let known = tables.moves(&game).unwrap();
            for line in &lines {
                let of_tables = known.iter().find(|known| known.m == line.pv[0]).unwrap();
                match of_tables.result {
                    Some(0) => assert!(
                        line.score == Score::Open && line.value.wl == 0.0,
                        "{fen} {nodes}: {line:?}"
                    ),
                    Some(result) => {
                        let (class, _) = line.score.order();
                        assert_eq!(class < 2, result == 1, "{fen} {nodes}: {line:?}");
                    }
                    None => {}
                }
            }
        }
    }
}

/// Positions in which some moves give the result away.
const SLIPPERY: [&str; 4] = [
    "8/8/6k1/3r3R/8/8/8/4K3 b - - 0 1",
    "8/8/K7/7Q/8/6k1/2r5/8 w - - 0 1",
    "8/8/3k4/8/3n4/8/3Q4/3K4 w - - 0 1",
    "8/1R6/8/K7/7r/5k2/8/8 b - - 0 1",
];

#[test]
fn analyse_mode_searches_moves_that_give_the_result_away_and_plays_none() {
    let Some(tables) = tables() else { return };
    for fen in SLIPPERY {
        let game = position(fen);
        let known = tables.moves(&game).unwrap();
        let best_rank = known.iter().map(TableMove::rank).max().unwrap();
        let lines = |mode: &str, nodes| {
            let settings = [("MultiPV", "500"), ("UCI_AnalyseMode", mode)];
            let outcome = setup(&tables, &settings).search(&game, nodes);
            let played = known.iter().find(|known| outcome.best == Some(known.m));
            assert_eq!(played.unwrap().rank(), best_rank, "{fen} {nodes}");
            outcome.report.lines.len()
        };
        for nodes in [2, 30, 1000] {
            assert!(lines("false", nodes) < known.len(), "{fen} {nodes}");
            assert_eq!(lines("true", nodes), known.len(), "{fen} {nodes}");
        }
    }
    // With one node nothing but the root is searched, and a draw by rule is at hand.
    let game = position("8/8/8/8/7k/8/7K/5Q2 w - - 0 1");
    let won = tables.moves(&game).unwrap();
    let outcome = setup(&tables, &[("UCI_AnalyseMode", "true")]).search(&game, 1);
    let played = won
        .iter()
        .find(|known| outcome.best == Some(known.m))
        .unwrap();
    assert_eq!(
        played.rank(),
        won.iter().map(TableMove::rank).max().unwrap()
    );
}

/// Keeps the statistics of the root's moves.
struct Statistics(Vec<MoveStat>);

impl Reporter for Statistics {
    fn report(&mut self, _: &Report) {}

    fn move_stats(&mut self, stats: &[MoveStat]) {
        self.0 = stats.to_vec();
    }
}

#[test]
fn statistics_of_moves_have_the_results_of_their_lines() {
    let Some(tables) = tables() else { return };
    let settings = [("MultiPV", "500"), ("UCI_AnalyseMode", "true")];
    let options = setup(&tables, &settings).options;
    for fen in SLIPPERY {
        let limits = Limits {
            nodes: Some(30),
            ..Limits::default()
        };
        let job = Job {
            tables: Some(Arc::clone(&tables)),
            ..Job::new(position(fen), limits, options.search())
        };
        let mut statistics = Statistics(Vec::new());
        let outcome = search::run(
            &mut Tree::default(),
            &HashEvaluator,
            &job,
            &StopSignal::default(),
            &SystemClock::default(),
            &mut statistics,
        );
        let lines = outcome.unwrap().report.lines;
        assert_eq!(statistics.0.len(), lines.len() + 1, "{fen}");
        for line in lines {
            let stats = statistics.0.iter();
            let stat = stats.clone().find(|stat| stat.m == Some(line.pv[0]));
            let stat = stat.unwrap();
            assert_eq!(stat.value.unwrap().wl, line.value.wl, "{fen}: {stat:?}");
            assert_eq!(stat.value.unwrap().d, line.value.d, "{fen}: {stat:?}");
            let expected = match line.value.wl {
                1.0 => Proven::Win,
                -1.0 => Proven::Loss,
                _ => Proven::Draw,
            };
            assert_eq!(stat.proven(), Some(expected), "{fen}: {stat:?}");
        }
    }
}

#[test]
fn damaged_tables_are_reported_once_and_ignored() {
    // A file that is not a table, and one that is cut off.
    let damage = |name: &str| match name {
        "KQvK.rtbw" | "KQvK.rtbz" => Some(vec![7; 64 * 10 + 16]),
        "KQvKN.rtbz" => Some(vec![7; 1000]),
        _ => None,
    };
    let is_small = |name: &str| name.starts_with("KQvK") || name.starts_with("KRvK.");
    let Some((_folder, tables)) = some_tables(is_small, damage) else {
        return;
    };
    let faults = tables.new_faults();
    assert!(
        faults.len() == 1 && faults[0].contains("KQvKN.rtbz"),
        "{faults:?}"
    );
    let queen = position("8/8/8/3k4/8/8/4Q3/K7 w - - 0 1");
    for _ in 0..2 {
        assert!(root_moves(&tables, &queen, false).is_none());
        assert!(tables.result(queen.position()).is_none());
    }
    let faults = tables.new_faults();
    assert!(
        faults.len() == 1 && faults[0].contains("the WDL table of KQvK is damaged: it is ignored"),
        "{faults:?}"
    );
    // Searches continue without it.
    assert!(setup(&tables, &[]).search(&queen, 500).best.is_some());
    assert!(tables.new_faults().is_empty());
    let rook = position("8/8/8/3k4/8/8/4R3/K7 w - - 0 1");
    assert_eq!(
        tables.result(rook.position()),
        Some(1),
        "the others are used"
    );
}

#[test]
fn against_a_fallible_opponent_only_the_own_side_probes_tables() {
    let Some(tables) = tables() else { return };
    let game = position("8/8/3k4/2n5/8/8/3N4/3K4 w - - 0 1");
    let values = |pieces: &str| {
        let mut setup = setup(&tables, &[("ContemptModeTB", pieces)]);
        setup.contempt_side = Some(shakmaty::Color::White);
        let outcome = setup.search(&game, 600);
        let tree = setup.tree.lock();
        let root = tree.node(tree.root());
        let mut of_white = Vec::new();
        for child in tree.children(root) {
            if pieces != "0" {
                assert!(child.origin() != scorn::search::tree::node::Origin::Tablebase);
            }
            // Seen by the side that moved there, which is Black.
            let own = tree.children(child).iter().filter(|node| node.n == 1);
            of_white.extend(own.filter(|node| !node.is_proven()).map(|node| node.wl));
        }
        (outcome.report.tb_hits, of_white)
    };
    // Draws of four pieces: not certain for White, or its minimum result.
    let (hits, values_then) = values("4");
    assert!(
        hits == 0 && values_then.iter().any(|&wl| wl > 0.0),
        "{hits}"
    );
    let (hits, values_then) = values("5");
    assert!(
        hits > 0 && values_then.iter().all(|&wl| wl <= 0.0),
        "{hits} {values_then:?}"
    );
    assert!(
        values_then.iter().any(|&wl| wl < 0.0),
        "White can do better"
    );
}

/// The label that the tables give a position.
fn labelled(tables: &Tables, fen: &str) -> Option<Record> {
    label(tables, position(fen).position())
}

fn label(tables: &Tables, position: &Chess) -> Option<Record> {
    let mut record = Record::new(position, position.turn().is_black(), Source::Endgame);
    let is_known = labeling::tables::apply(&mut record, position, tables);
    assert_eq!(record.is_exact(), is_known);
    is_known.then_some(record)
}

/// Plays a lost or won ending by its labels: the winner mates, so the plies left are odd for it and even for the loser,
/// and there is one less after each move.
fn mates_in_time(tables: &Tables, fen: &str) {
    let mut game = position(fen);
    let mut plies = label(tables, game.position()).unwrap().plies_left;
    assert!(plies > 20, "{fen}: {plies}");
    while plies > 0 {
        let record = label(tables, game.position()).unwrap();
        assert_eq!(record.plies_left, plies, "{fen}");
        let sign = if plies % 2 == 1 { 1 } else { -1 };
        assert_eq!(record.score, sign * (MATE - plies as i16), "{fen}");
        let now = game.position().clone();
        let pack = |m: PackedMove| Record::pack_move(m.unpack(&now), now.turn());
        game.push(legal_moves(&now).find(|&m| pack(m) == record.best).unwrap());
        plies -= 1;
    }
    assert!(game.position().is_checkmate(), "{fen}");
}

#[test]
fn tables_label_results_and_shortest_mates() {
    let Some(tables) = tables() else { return };
    let move_of = |record: &Record| {
        let square = |bits: u16| shakmaty::Square::new(u32::from(bits & 63));
        format!("{}{}", square(record.best), square(record.best >> 6))
    };
    // A mate in one, and the defence that takes longest.
    let win = labelled(&tables, "k7/8/1K6/8/8/8/8/7R w - - 0 1").unwrap();
    assert_eq!((win.score, win.plies_left, win.result), (MATE - 1, 1, 2));
    assert_eq!(move_of(&win), "h1h8");
    let loss = labelled(&tables, "k7/8/1K6/8/8/8/8/6R1 b - - 0 1").unwrap();
    assert_eq!((loss.score, loss.plies_left, loss.result), (2 - MATE, 2, 0));
    // Bishop and knight, from a position that takes long.
    let long = labelled(&tables, "8/8/8/4k3/8/8/8/KBN5 w - - 0 1").unwrap();
    assert!(long.result == 2 && long.plies_left > 40, "{long:?}");
    assert_eq!(long.score, MATE - long.plies_left as i16);
    for fen in [
        "8/8/8/4k3/8/8/8/KBN5 w - - 0 1",
        "8/8/8/4k3/8/8/8/KBN5 b - - 0 1",
        "8/8/8/4k3/8/8/8/KBB5 w - - 0 1",
        "8/8/8/4k3/8/8/8/KBB5 b - - 0 1",
    ] {
        mates_in_time(&tables, fen);
    }
    // What can be lost without losing the win, a pawn that moves or a piece that the bare king captures, is not a
    // mate: the result is known, and the move only if there is one.
    let untimed = |fen: &str, result: u8| {
        let record = labelled(&tables, fen).unwrap();
        let score = (i16::from(result) - 1) * (MATE - 1000);
        let known = (record.result, record.score, record.plies_left);
        assert_eq!(known, (result, score, NO_PLIES), "{fen}");
        record
    };
    assert_eq!(untimed("8/8/8/3k4/8/3K4/3P4/8 b - - 0 1", 0).best, 0);
    let forced = untimed("kR6/7R/8/8/8/8/8/7K b - - 0 1", 0);
    assert_eq!(move_of(&forced), "a1b1", "a8b8, seen by Black");
    // The fastest capture is that of the bishop after Rd1.
    assert_eq!(untimed("K1k5/2B5/8/8/8/8/8/1R6 w - - 0 1", 2).best, 0);
    // Drawn if the king takes the rook, and drawn whatever is played.
    let only = labelled(&tables, "K7/8/8/8/8/2k5/1R6/8 b - - 0 1").unwrap();
    assert_eq!((only.result, only.score, only.plies_left), (1, 0, NO_PLIES));
    assert_eq!(move_of(&only), "c6b7", "c3b2, seen by Black");
    let any = labelled(&tables, "8/8/8/4k3/8/8/8/KNN5 w - - 0 1").unwrap();
    assert_eq!((any.result, any.score, any.best), (1, 0, 0));
    // More pieces than the tables cover.
    assert_eq!(
        labelled(
            &tables,
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
        ),
        None
    );
}

#[test]
fn wdl_tables_alone_label_results_only() {
    let is_small_wdl = |name: &str| name.starts_with("KQv") && name.ends_with(".rtbw");
    let Some((_folder, tables)) = some_tables(is_small_wdl, |_| None) else {
        return;
    };
    let won = labelled(&tables, "8/8/8/3k4/8/8/4Q3/K7 w - - 0 1").unwrap();
    let known = (won.score, won.plies_left, won.result);
    assert_eq!(known, (MATE - 1000, NO_PLIES, 2));
}
