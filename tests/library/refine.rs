//! Priors refined by a stronger network (`RefineWeights`).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::common::{Setup, ordered::Ordered, position, session::Session};
use scorn::{
    chess::PackedMove,
    network::{Batch, EvaluateError, Evaluator, Info, opponent::Networks},
    options::Options,
    search::{Job, Limits, SearchParams, Tree, TreeSearch},
};
use shakmaty::Color;

const USUAL: Ordered = Ordered {
    rising: true,
    wl: 0.0,
};
const BETTER: Ordered = Ordered {
    rising: false,
    wl: 0.9,
};
const VISITS: u32 = 50;

fn options(settings: &[(&str, &str)]) -> Options {
    let mut options = Options {
        refine_visits: VISITS,
        ..Options::default()
    };
    for (name, value) in settings {
        options.set(name, value).unwrap();
    }
    options
}

/// A search for White with these networks.
fn setup(networks: &Networks, settings: &[(&str, &str)]) -> Setup {
    let options = options(settings);
    Setup {
        evaluator: networks.against(&options, Some(Color::White)),
        ..Setup::new(options)
    }
}

fn refined() -> Networks {
    Networks {
        refiner: Some(Arc::new(BETTER)),
        ..Networks::alone(Arc::new(USUAL))
    }
}

/// Whether these are the priors of a network.
fn are_those_of(network: &Ordered, edges: &[(PackedMove, f32)]) -> bool {
    let moves: Vec<PackedMove> = edges.iter().map(|edge| edge.0).collect();
    let expected = network.policy(&moves);
    let mut pairs = edges.iter().zip(expected);
    pairs.all(|((_, p), expected)| (p - expected).abs() < 1e-3)
}

#[test]
fn positions_with_many_visits_have_refined_priors_and_no_others_do() {
    for (threads, batch) in [("1", "1"), ("1", "32"), ("2", "16")] {
        let settings = [("Threads", threads), ("MinibatchSize", batch)];
        let setup = setup(&refined(), &settings);
        setup.search(&position("startpos"), 20_000);
        let tree = setup.tree.lock();
        tree.assert_consistent();
        let (mut seen, mut waiting) = ([0, 0], 0);
        tree.for_each(|node, depth| {
            let edges: Vec<_> = tree.edges(node).iter().map(|e| (e.m(), e.p())).collect();
            assert!(node.n >= VISITS || !node.is_refined(), "{node:?}");
            // The last visit may have been in the same batch as the one that triggered the refinement.
            let latest = VISITS + 64;
            waiting += u32::from(node.n >= latest && !node.is_refined());
            let network = [&USUAL, &BETTER][usize::from(node.is_refined())];
            assert!(are_those_of(network, &edges), "depth {depth}: {node:?}");
            seen[usize::from(node.is_refined())] += 1;
            if depth > 0 {
                // Moves without a child follow those with one, the most probable first.
                let rest = &edges[usize::from(node.n_children)..];
                assert!(rest.is_sorted_by(|a, b| a.1 >= b.1), "{node:?}");
            }
        });
        assert!(seen[0] > 1000 && seen[1] > 20, "{seen:?}");
        // With this many visits eight positions are refined together.
        assert!(waiting < 8, "{waiting}");
    }
}

/// Counts the batches that it evaluates, and their positions.
#[derive(Default)]
struct Counting {
    batches: AtomicUsize,
    positions: AtomicUsize,
    largest: AtomicUsize,
}

impl Evaluator for Counting {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.positions.fetch_add(batch.len(), Ordering::Relaxed);
        self.largest.fetch_max(batch.len(), Ordering::Relaxed);
        BETTER.evaluate(batch)
    }
    fn info(&self) -> Info {
        BETTER.info()
    }
}

#[test]
fn positions_are_refined_in_batches_in_large_trees() {
    // Between searches: positions that wait at the end of a search are refined in the next one.
    for (visits, largest) in [(&[2000][..], 1), (&[20_000], 8), (&[5000, 20_000], 8)] {
        let counting = Arc::new(Counting::default());
        let networks = Networks {
            refiner: Some(Arc::clone(&counting) as Arc<dyn Evaluator>),
            ..refined()
        };
        let setup = setup(&networks, &[("Threads", "1")]);
        for &visits in visits {
            setup.search(&position("startpos"), visits);
        }
        let mut refined = 0;
        setup
            .tree
            .lock()
            .for_each(|node, _| refined += usize::from(node.is_refined()));
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        assert_eq!(count(&counting.largest), largest, "{visits:?}");
        // No position is refined twice.
        assert_eq!(count(&counting.positions), refined, "{visits:?}");
        assert!(
            count(&counting.batches) < refined || largest == 1,
            "{visits:?}"
        );
    }
}

#[test]
fn refined_priors_lead_the_search_and_values_stay() {
    let best = |networks: &Networks| {
        let setup = setup(networks, &[("Threads", "1")]);
        let found = setup.search(&position("startpos"), 2000);
        assert_eq!(found.report.lines[0].value.wl, 0.0);
        found.best.unwrap()
    };
    let moves = |networks: &Networks| {
        let game = position("startpos");
        let mut moves: Vec<PackedMove> =
            scorn::chess::moves::legal_moves(game.position()).collect();
        moves.sort_by_key(|m| m.bits());
        let best = best(networks);
        moves.iter().position(|m| *m == best).unwrap()
    };
    assert_eq!(moves(&Networks::alone(Arc::new(USUAL))), 0);
    assert_eq!(moves(&refined()), 19);
}

#[test]
fn priors_of_a_modelled_opponent_are_not_refined() {
    let networks = Networks {
        opponent: Some(Arc::new(Ordered { ..USUAL })),
        ..refined()
    };
    let setup = setup(&networks, &[("OpponentWeights", "fake"), ("Threads", "1")]);
    setup.search(&position("startpos"), 5000);
    let tree = setup.tree.lock();
    let mut refined = [0, 0];
    tree.for_each(|node, depth| {
        let edges: Vec<_> = tree.edges(node).iter().map(|e| (e.m(), e.p())).collect();
        let is_opponents = depth % 2 == 1;
        let is_better = node.is_refined() && !is_opponents;
        let network = [&USUAL, &BETTER][usize::from(is_better)];
        assert!(are_those_of(network, &edges), "depth {depth}: {node:?}");
        refined[usize::from(is_opponents)] += usize::from(node.is_refined());
    });
    assert!(refined[0] > 5 && refined[1] > 5, "{refined:?}");
}

#[test]
fn a_reused_tree_keeps_its_refined_priors() {
    let setup = setup(&refined(), &[("Threads", "1")]);
    let mut game = position("startpos");
    for _ in 0..2 {
        let found = setup.search(&game, 5000);
        game.push(found.best.unwrap());
    }
    setup.search(&game, 1);
    let tree = setup.tree.lock();
    let root = tree.node(tree.root());
    assert!(root.n > 1000 && root.is_refined());
    let edges: Vec<_> = tree.edges(root).iter().map(|e| (e.m(), e.p())).collect();
    assert!(are_those_of(&BETTER, &edges));
}

/// An evaluator that always fails.
struct Broken;

impl Evaluator for Broken {
    fn evaluate(&self, _: &mut Batch) -> Result<(), EvaluateError> {
        Err(EvaluateError::NotFinite {
            network: "broken".into(),
            output: "policy".into(),
        })
    }
}

#[test]
fn a_failing_refiner_is_reported_and_the_tree_stays_valid() {
    let networks = Networks {
        refiner: Some(Arc::new(Broken)),
        ..refined()
    };
    let options = Arc::new(options(&[("Threads", "1")]));
    let evaluator = networks.against(&options, Some(Color::White));
    let params = Arc::new(SearchParams::for_evaluator(&options.search(), &*evaluator));
    let limits = Limits {
        nodes: Some(1000),
        ..Limits::default()
    };
    let job = Job::new(position("startpos"), limits, options.search());
    let mut search = TreeSearch::new(Tree::default(), job, params);
    let mut batch = Batch::default();
    let error = loop {
        assert!(!search.is_over());
        batch.clear();
        if let Err(error) = search.gather(&*evaluator, &mut batch) {
            break error;
        }
        evaluator.evaluate(&mut batch).unwrap();
        search.apply(&batch);
    };
    assert!(error.to_string().contains("broken"), "{error}");
    search.cancel();
    search.tree().assert_consistent();
    assert!(search.report().nodes >= u64::from(VISITS));
}

#[test]
fn one_that_is_missing_is_named_and_done_without() {
    let mut session = Session::with(&["--refine-weights", "/no/such.onnx"]);
    session.send("go nodes 300");
    let output = session.until("bestmove").join("\n");
    assert!(output.contains("RefineWeights: "), "{output}");
    assert!(output.contains("/no/such.onnx"), "{output}");
    assert!(output.contains("playing without it"), "{output}");
    assert!(output.contains("\nbestmove "), "{output}");
}
