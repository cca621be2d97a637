//! Equal positions reached by different paths share values and nothing else: no repetitions, frozen counts or visits.

use std::collections::{BTreeMap, HashMap};

use crate::common::position;
use scorn::{
    chess::{History, Ply},
    network::{Added, Batch, EvalPosition, EvaluateError, Evaluator, Value, hash::HashEvaluator},
    options::Options,
    search::{
        Job, Limits, SearchParams, Tree, TreeSearch,
        tree::node::{Node, Origin},
    },
};
use shakmaty::Position;

/// Few pieces, many paths to the same positions, nothing to win.
const LOCKED: &str = "8/2k5/3p4/p2P1p2/P2P1P2/8/8/3K4 w - - 0 1";

/// White is half a win ahead everywhere, but a repeated position is drawn, as a network that reads earlier moves may
/// say. The priors are those of the hash evaluator.
struct Hopeful;

const WHITES: f32 = 0.5;

/// The output of `Hopeful` for the side to move: W-L and D.
fn hopeful(ply: &Ply) -> (f32, f32) {
    match (ply.repetitions, ply.position.turn().is_white()) {
        (1.., _) => (0.0, 1.0),
        (0, true) => (WHITES, 0.0),
        (0, false) => (-WHITES, 0.0),
    }
}

impl Evaluator for Hopeful {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        HashEvaluator.evaluate(batch)?;
        for index in 0..batch.len() {
            let (wl, d) =
                [(WHITES, 0.0), (-WHITES, 0.0), (0.0, 1.0)][batch.key(index) as usize & 3];
            batch.set_value(index, Value { wl, d, m: 30.0 });
        }
        Ok(())
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        let last = position.line().last().unwrap();
        let code = match hopeful(last) {
            (_, 1.0) => 2,
            (WHITES, _) => 0,
            _ => 1,
        };
        Added::Queued(batch.push(last.key & !3 | code, position.moves()))
    }
}

fn options(settings: &[(&str, &str)]) -> Options {
    let mut options = Options {
        transpositions: true,
        ..Options::default()
    };
    for (name, value) in settings {
        options.set(name, value).unwrap();
    }
    options
}

/// The search of a game's last position on a tree, up to this number of nodes.
fn search(tree: Tree, game: &History, nodes: u64, options: &Options) -> TreeSearch {
    let options = std::sync::Arc::new(options.clone());
    let limits = Limits {
        nodes: Some(nodes),
        ..Limits::default()
    };
    let job = Job {
        contempt_side: Some(game.position().turn()),
        seed: 5,
        ..Job::new(game.clone(), limits, options.search())
    };
    let params = std::sync::Arc::new(SearchParams::for_evaluator(&options.search(), &Hopeful));
    let mut search = TreeSearch::new(tree, job, params);
    let mut batch = Batch::default();
    while !search.is_over() {
        batch.clear();
        search.gather(&Hopeful, &mut batch).unwrap();
        Hopeful.evaluate(&mut batch).unwrap();
        search.apply(&batch);
    }
    search.tree().assert_consistent();
    search
}

/// Visits all nodes below `node`, itself included, with the game that leads to each.
fn walk(tree: &Tree, node: &Node, game: &mut History, visit: &mut impl FnMut(&Node, &History)) {
    visit(node, game);
    for child in tree.children(node) {
        game.push(tree.edges(node).at(child.edge).m());
        walk(tree, child, game, visit);
        game.truncate(game.len() - 1);
    }
}

fn walk_all(tree: &Tree, game: &History, mut visit: impl FnMut(&Node, &History)) {
    let root = tree.node(tree.root());
    walk(tree, root, &mut game.clone(), &mut visit);
}

#[test]
fn a_draw_by_repetition_is_not_shared_with_other_paths() {
    let game = position(LOCKED);
    for two_fold in ["true", "false"] {
        let options = options(&[("MinibatchSize", "1"), ("TwoFoldDraws", two_fold)]);
        let search = search(Tree::default(), &game, 30_000, &options);
        let (mut repeated, mut drawn, mut borrowed, mut own) = (0, 0, 0, 0);
        walk_all(search.tree(), &game, |node, game| {
            // Leaves with one visit: their initial values.
            if node.n != 1 || node.n_children > 0 || game.len() == 1 {
                return;
            }
            if node.origin() == Origin::TwoFold {
                drawn += 1;
                assert_eq!((node.wl, node.d), (0.0, 1.0));
                return;
            }
            if node.is_proven() {
                return;
            }
            let (wl, d) = hopeful(game.last());
            let is_own = (node.wl, node.d) == (f64::from(-wl), d);
            if game.last().repetitions > 0 {
                // Its value must not come from the first occurrence of the position.
                assert!(is_own, "a repetition begins with {node:?}");
                repeated += 1;
            } else {
                assert!(node.d < 1.0, "a new position begins as a draw: {node:?}");
                if is_own { own += 1 } else { borrowed += 1 }
            }
        });
        assert!(borrowed > 100 && own > 100, "{borrowed} {own}");
        match two_fold {
            "true" => assert!(drawn > 100, "{drawn}"),
            _ => assert!(repeated > 100 && drawn == 0, "{repeated} {drawn}"),
        }
    }
}

#[test]
fn frozen_counts_belong_to_a_node_and_not_to_its_position() {
    const LIMIT: u32 = 12;
    let game = position(LOCKED);
    for size in ["1", "32"] {
        let options = options(&[("MinibatchSize", size), ("ScLimit", "12")]);
        let search = search(Tree::default(), &game, 30_000, &options);
        let tree = search.tree();
        let mut by_position: HashMap<u64, Vec<Vec<u32>>> = HashMap::new();
        walk_all(tree, &game, |node, game| {
            let is_opponents = game.position().turn().is_black();
            let visits: u32 = tree.children(node).iter().map(|child| child.n).sum();
            match tree.record(node) {
                Some(record) if record.is_final() => {
                    assert!(is_opponents);
                    let counts: Vec<u32> = record.shares.iter().map(|share| share.count).collect();
                    // Its own visits up to the limit, whatever other nodes have searched.
                    assert_eq!(counts.iter().sum::<u32>(), LIMIT);
                    assert!(visits >= LIMIT);
                    by_position.entry(game.last().key).or_default().push(counts);
                }
                _ if is_opponents => assert!(visits < LIMIT, "{visits} visits and not frozen"),
                record => assert!(record.is_none()),
            }
        });
        let several: Vec<_> = by_position
            .values()
            .filter(|nodes| nodes.len() > 1)
            .collect();
        assert!(several.len() > 20, "{}", several.len());
        let differ = |nodes: &&&Vec<Vec<u32>>| nodes.iter().any(|counts| *counts != nodes[0]);
        assert!(several.iter().any(|nodes| differ(&nodes)));
    }
}

/// N and W-L of all nodes, by the moves that lead there from the root.
fn by_line(tree: &Tree, game: &History) -> BTreeMap<Vec<u16>, (u32, f64)> {
    let mut all = BTreeMap::new();
    walk_all(tree, game, |node, line| {
        let moves = (game.len() - 1..line.len() - 1).filter_map(|ply| line.move_after(ply));
        all.insert(moves.map(|m| m.bits()).collect(), (node.n, node.wl));
    });
    all
}

/// Each open node's mean is that of its children's visits and of its initial value, which must exist.
fn assert_sums(tree: &Tree) {
    tree.for_each(|node, depth| {
        if node.n == 0 || node.is_proven() {
            return;
        }
        let children = tree.children(node).iter();
        let below: f64 = children.map(|child| -child.wl * f64::from(child.n)).sum();
        let first = node.wl * f64::from(node.n) - below;
        let most = f64::from(WHITES) + 1e-6;
        assert!(
            first.abs() <= most,
            "began with {first} at depth {depth}: {node:?}"
        );
    });
}

#[test]
fn the_next_move_of_a_game_keeps_visits_and_sums() {
    // Draws by a repetition that begins before the new root are reverted: not here.
    let options = options(&[("MinibatchSize", "4"), ("TwoFoldDraws", "false")]);
    let mut game = position(LOCKED);
    let mut tree = Tree::default();
    for nodes in [20_000, 25_000, 30_000] {
        let before = search(tree, &game, nodes, &options);
        assert_sums(before.tree());
        let all = by_line(before.tree(), &game);
        let best = before.outcome().0.best.unwrap();
        let below: BTreeMap<Vec<u16>, (u32, f64)> = all
            .into_iter()
            .filter(|(line, _)| line.first() == Some(&best.bits()))
            .map(|(line, reported)| (line[1..].to_vec(), reported))
            .collect();
        let (kept, _) = below[&Vec::new()];
        assert!(kept > 1000, "{kept}");
        game.push(best);
        // No more nodes than the tree has: nothing is searched.
        let after = search(before.into_tree(), &game, u64::from(kept), &options);
        assert_eq!(by_line(after.tree(), &game), below);
        assert_sums(after.tree());
        tree = after.into_tree();
    }
}
