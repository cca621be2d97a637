//! The interface between a search and its driver: many trees fill one batch, with the same result as searched alone.

use std::{sync::Arc, time::Duration};

use crate::common::position;
use scorn::{
    chess::{History, PackedMove, Ply, moves::legal_moves},
    network::{
        Added, Batch, EvalPosition, EvaluateError, Evaluator, Info,
        backend::simulated::SimulatedProcessors, cached::CachedEvaluator, hash::HashEvaluator,
    },
    options::Options,
    search::{
        Job, Limits, MoveStat, SearchParams, Silent, StopSignal, SystemClock, Tree, TreeSearch,
    },
};
use shakmaty::{Color, Position};

/// Two hundred positions of games that take every move in turn.
fn positions() -> Vec<History> {
    let mut positions = Vec::new();
    for line in 0..20 {
        let mut history = position("startpos");
        for ply in 0..10 {
            let moves: Vec<_> = legal_moves(history.position()).collect();
            history.push(moves[(7 * line + 3 * ply) % moves.len()]);
            positions.push(history.clone());
        }
    }
    assert_eq!(positions.len(), 200);
    positions
}

fn options(sc_limit: i32) -> Arc<Options> {
    Arc::new(Options {
        minibatch_size: 8,
        noise_epsilon: 0.25,
        temperature: 1.0,
        sc_limit,
        ..Options::default()
    })
}

/// The search of one position, with limits and a seed of its own.
fn search(
    number: usize,
    history: &History,
    options: &Arc<Options>,
    params: &Arc<SearchParams>,
) -> TreeSearch {
    let limits = Limits {
        nodes: Some(20 + number as u64 % 300),
        ..Limits::default()
    };
    let job = Job {
        contempt_side: Some(history.position().turn()),
        seed: number as u64,
        ..Job::new(history.clone(), limits, options.search())
    };
    TreeSearch::new(Tree::default(), job, Arc::clone(params))
}

/// The result of a search: the visits and values of all moves, and the chosen one.
fn found(search: &TreeSearch) -> (Option<PackedMove>, Vec<MoveStat>) {
    search.tree().assert_consistent();
    let (outcome, stats) = search.outcome();
    (outcome.best, stats)
}

fn run_alone(mut search: TreeSearch) -> TreeSearch {
    let mut batch = Batch::default();
    while !search.is_over() {
        batch.clear();
        search.gather(&HashEvaluator, &mut batch).unwrap();
        HashEvaluator.evaluate(&mut batch).unwrap();
        search.apply(&batch);
    }
    search
}

#[test]
fn two_hundred_trees_share_batches_with_the_same_results_as_alone() {
    for sc_limit in [1_000_000_000, 10] {
        let options = options(sc_limit);
        let params = Arc::new(SearchParams::for_evaluator(
            &options.search(),
            &HashEvaluator,
        ));
        let positions = positions();
        let make = |(number, history)| search(number, history, &options, &params);
        let alone: Vec<_> = positions.iter().enumerate().map(make).collect();
        let alone: Vec<_> = alone.into_iter().map(run_alone).collect();
        let mut together: Vec<_> = positions.iter().enumerate().map(make).collect();
        let mut batch = Batch::default();
        let mut largest = 0;
        while together.iter().any(|search| !search.is_over()) {
            batch.clear();
            for search in &mut together {
                search.gather(&HashEvaluator, &mut batch).unwrap();
            }
            largest = largest.max(batch.len());
            HashEvaluator.evaluate(&mut batch).unwrap();
            for search in &mut together {
                search.apply(&batch);
            }
        }
        assert!(largest > 400, "{largest}");
        for (number, (one, other)) in alone.iter().zip(&together).enumerate() {
            assert_eq!(found(one), found(other), "position {number}");
            assert_eq!(one.report().nodes, 20 + number as u64 % 300);
        }
    }
}

#[test]
fn a_threaded_search_of_one_thread_finds_the_same() {
    let options = Arc::new(Options {
        threads: 1,
        ..(*options(12)).clone()
    });
    let params = Arc::new(SearchParams::for_evaluator(
        &options.search(),
        &HashEvaluator,
    ));
    for (number, history) in positions().iter().enumerate().step_by(17) {
        let alone = run_alone(search(number, history, &options, &params));
        let mut tree = Tree::default();
        let (stop, clock) = (StopSignal::default(), SystemClock::default());
        let outcome = scorn::search::run(
            &mut tree,
            &HashEvaluator,
            alone.job(),
            &stop,
            &clock,
            &mut Silent,
        )
        .unwrap();
        assert_eq!(outcome.best, alone.outcome().0.best);
        let visits = |tree: &Tree| {
            let mut visits = Vec::new();
            tree.for_each(|node, depth| visits.push((node.n, depth)));
            visits
        };
        assert_eq!(visits(&tree), visits(alone.tree()));
    }
}

/// A search whose evaluator computes priors at second visits.
fn search_without_priors(job: Job) -> TreeSearch {
    let evaluator = SimulatedProcessors(Duration::ZERO);
    let params = Arc::new(SearchParams::for_evaluator(&job.options, &evaluator));
    let mut search = TreeSearch::new(Tree::default(), job, params);
    let mut batch = Batch::default();
    while !search.is_over() {
        search.gather(&evaluator, &mut batch).unwrap();
        search.apply(&batch);
    }
    search
}

#[test]
fn visits_that_go_on_leave_the_tree_consistent_with_all_options() {
    for (number, history) in positions().iter().enumerate().step_by(3) {
        for changes in [
            "",
            "ScLimit 5",
            "ScLimit 1",
            "AutoExtend true",
            "Transpositions true",
            "StickyEndgames false",
        ] {
            let mut options = (*options(1_000_000_000)).clone();
            options.minibatch_size = 1 + number % 64;
            if let Some((name, value)) = changes.split_once(' ') {
                options.set(name, value).unwrap();
            }
            let nodes = 300 + number as u64;
            let limits = Limits {
                nodes: Some(nodes),
                ..Limits::default()
            };
            let job = Job {
                contempt_side: Some(history.position().turn()),
                ..Job::new(history.clone(), limits, options.search())
            };
            let search = search_without_priors(job);
            let (best, _) = found(&search);
            assert!(best.is_some(), "position {number} {changes}");
            assert_eq!(search.report().nodes, nodes, "position {number} {changes}");
        }
    }
}

#[test]
fn a_small_tree_takes_little_memory_and_is_reused() {
    let options = options(1_000_000_000);
    let params = Arc::new(SearchParams::for_evaluator(
        &options.search(),
        &HashEvaluator,
    ));
    let history = position("startpos");
    let limits = Limits {
        nodes: Some(10),
        ..Limits::default()
    };
    let job = Job::new(history.clone(), limits, options.search());
    let search = run_alone(TreeSearch::new(Tree::default(), job, Arc::clone(&params)));
    assert!(search.tree().memory() < 8192, "{}", search.tree().memory());
    // The next search begins with the remaining part of this tree.
    let best = search.outcome().0.best.unwrap();
    let visits = search
        .outcome()
        .1
        .iter()
        .find(|stat| stat.m == Some(best))
        .unwrap()
        .n;
    let mut after = history;
    after.push(best);
    let limits = Limits {
        nodes: Some(u64::from(visits)),
        ..Limits::default()
    };
    let next = Job::new(after.clone(), limits, options.search());
    let next = TreeSearch::new(search.into_tree(), next, params);
    assert_eq!(next.tree().node(next.tree().root()).n, visits);
    assert_eq!(next.tree().root_turn(), Color::Black);
    assert!(next.is_over());
}

#[test]
fn a_finished_game_is_over_at_once() {
    let options = options(1_000_000_000);
    let params = Arc::new(SearchParams::for_evaluator(
        &options.search(),
        &HashEvaluator,
    ));
    let mate = position("R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1");
    let job = Job::new(mate, Limits::default(), options.search());
    let mut search = TreeSearch::new(Tree::default(), job, params);
    assert!(search.is_over());
    let mut batch = Batch::default();
    search.gather(&HashEvaluator, &mut batch).unwrap();
    assert!(batch.is_empty());
    search.apply(&batch);
    assert_eq!(search.outcome().0.best, None);
}

#[test]
fn a_failed_batch_is_undone() {
    let options = options(1_000_000_000);
    let params = Arc::new(SearchParams::for_evaluator(
        &options.search(),
        &HashEvaluator,
    ));
    let mut cancelled = search(100, &position("startpos"), &options, &params);
    let mut batch = Batch::default();
    while !cancelled.is_over() {
        // Each batch fails the first time.
        for is_lost in [true, false] {
            batch.clear();
            cancelled.gather(&HashEvaluator, &mut batch).unwrap();
            HashEvaluator.evaluate(&mut batch).unwrap();
            if is_lost {
                cancelled.cancel();
            } else {
                cancelled.apply(&batch);
            }
        }
    }
    let alone = run_alone(search(100, &position("startpos"), &options, &params));
    assert_eq!(found(&cancelled), found(&alone));
}

/// The hash evaluator, one position at a time and the policy only when it is asked for.
struct OneByOne;

impl OneByOne {
    fn batch(line: &[Ply], moves: &[PackedMove]) -> Batch {
        let mut batch = Batch::default();
        HashEvaluator.view().queue(line, moves, &mut batch);
        HashEvaluator.evaluate(&mut batch).unwrap();
        batch
    }
}

impl Evaluator for OneByOne {
    fn evaluate(&self, _: &mut Batch) -> Result<(), EvaluateError> {
        panic!("nothing is left for batches")
    }
    fn add(&self, position: &mut EvalPosition<'_>, _: &mut Batch) -> Added {
        Added::Computed(OneByOne::batch(position.line(), &[]).value(0))
    }
    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        assert_eq!(temperature, 1.0);
        let line = position.line();
        let (moves, priors) = position.policy();
        priors.copy_from_slice(OneByOne::batch(line, moves).policy(0));
    }
    fn info(&self) -> Info {
        Info {
            computes_at_once: true,
            ..Info::default()
        }
    }
}

#[test]
fn a_policy_that_comes_with_the_second_visit_changes_nothing() {
    for sc_limit in [1_000_000_000, 10] {
        let options = Arc::new(Options {
            minibatch_size: 1,
            ..(*options(sc_limit)).clone()
        });
        let params = Arc::new(SearchParams::for_evaluator(
            &options.search(),
            &HashEvaluator,
        ));
        for (number, history) in positions().iter().enumerate().step_by(13) {
            let at_once = run_alone(search(number, history, &options, &params));
            let mut later = search(number, history, &options, &params);
            let mut batch = Batch::default();
            while !later.is_over() {
                later.gather(&OneByOne, &mut batch).unwrap();
                assert!(batch.is_empty());
                later.apply(&batch);
            }
            later.tree().assert_consistent();
            let nodes = |search: &TreeSearch| {
                let mut nodes = Vec::new();
                search
                    .tree()
                    .for_each(|node, depth| nodes.push((depth, node.n, node.wl)));
                nodes
            };
            if sc_limit == 10 {
                // Deferred draws come later, so only their numbers agree.
                assert_eq!(later.report().nodes, at_once.report().nodes);
            } else {
                assert_eq!(nodes(&later), nodes(&at_once), "position {number}");
            }
        }
    }
}

#[test]
fn several_threads_with_a_policy_on_the_second_visit_add_up() {
    for (threads, minibatch_size) in [(1, 1), (2, 1), (4, 1), (2, 64), (2, 1024), (4, 1024)] {
        let options = Arc::new(Options {
            threads,
            minibatch_size,
            ..(*options(1_000_000_000)).clone()
        });
        let limits = Limits {
            nodes: Some(3000),
            ..Limits::default()
        };
        let job = Job::new(position("startpos"), limits, options.search());
        let mut tree = Tree::default();
        let clock = SystemClock::default();
        let stop = StopSignal::default();
        let outcome = scorn::search::run(&mut tree, &OneByOne, &job, &stop, &clock, &mut Silent);
        assert_eq!(outcome.unwrap().report.nodes, 3000);
        tree.assert_consistent();
    }
}

#[test]
fn a_root_that_is_in_the_cache_is_searched_like_any_other() {
    let options = Arc::new(Options {
        minibatch_size: 1,
        ..(*options(1_000_000_000)).clone()
    });
    let params = Arc::new(SearchParams::for_evaluator(
        &options.search(),
        &HashEvaluator,
    ));
    let cached = CachedEvaluator::with_cache(Arc::new(HashEvaluator), 10_000);
    let mut found = Vec::new();
    for _ in 0..2 {
        let mut search = search(170, &position("startpos"), &options, &params);
        let mut batch = Batch::default();
        while !search.is_over() {
            batch.clear();
            search.gather(&cached, &mut batch).unwrap();
            cached.evaluate(&mut batch).unwrap();
            search.apply(&batch);
        }
        let mut visits = Vec::new();
        search
            .tree()
            .for_each(|node, depth| visits.push((depth, node.n)));
        found.push(visits);
    }
    assert_eq!(found[0], found[1]);
}

#[test]
fn transpositions_change_what_is_found_and_leave_the_tree_consistent() {
    let search = |transpositions: &str| {
        let mut options = Options::default();
        options.set("Transpositions", transpositions).unwrap();
        options.set("MinibatchSize", "4").unwrap();
        let params = Arc::new(SearchParams::for_evaluator(
            &options.search(),
            &HashEvaluator,
        ));
        let limits = Limits {
            nodes: Some(20_000),
            ..Limits::default()
        };
        // Few pieces, many paths to the same positions.
        let start = position("8/2k5/3p4/p2P1p2/P2P1P2/8/8/3K4 w - - 0 1");
        let job = Job::new(start, limits, options.search());
        let search = run_alone(TreeSearch::new(Tree::default(), job, params));
        let visits: Vec<u32> = found(&search).1.iter().map(|stat| stat.n).collect();
        (visits, search.tree().memory())
    };
    let (with, without) = (search("true"), search("false"));
    assert_eq!(search("true"), with);
    assert_ne!(with.0, without.0);
    assert_eq!(with.0.iter().sum::<u32>(), without.0.iter().sum::<u32>());
    // The table counts towards the memory limit.
    assert!(with.1 > without.1);
}

/// S of the statistics is Q + U, the moves-left effect and the bonus of `OptimalSelect` included.
#[test]
fn a_visit_takes_the_move_with_the_largest_s() {
    for optimal_select in [0, 1] {
        let options = Arc::new(Options {
            noise_epsilon: 0.0,
            moves_left_threshold: 0.0,
            moves_left_max_effect: 0.5,
            moves_left_slope: 0.05,
            moves_left_constant_factor: 1.0,
            optimal_select,
            ..(*options(1_000_000_000)).clone()
        });
        let params = Arc::new(SearchParams::new(&options.search(), 1, true));
        let mut search = search(299, &position("startpos"), &options, &params);
        let mut batch = Batch::default();
        let (mut compared, mut by_length) = (0, 0);
        while !search.is_over() {
            let mut before = search.outcome().1;
            before.pop();
            batch.clear();
            search.gather(&HashEvaluator, &mut batch).unwrap();
            HashEvaluator.evaluate(&mut batch).unwrap();
            search.apply(&batch);
            let after = search.outcome().1;
            let visits = |m| after.iter().find(|stat| stat.m == m).unwrap().n;
            let Some(taken) = before.iter().find(|stat| visits(stat.m) > stat.n) else {
                continue;
            };
            let largest = before.iter().map(|stat| stat.s).fold(-9.0, f32::max);
            assert!(largest - taken.s < 1e-5, "{largest} {}", taken.s);
            compared += 1;
            by_length += u32::from((taken.s - taken.q - taken.u).abs() > 1e-3);
        }
        assert!(compared > 200 && by_length > 100, "{compared} {by_length}");
    }
}
