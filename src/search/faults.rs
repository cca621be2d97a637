//! Fault injection: if evaluations fail or panic, or threads cannot be started, a search still ends with its result
//! so far, and the tree can be used by the next one.

use std::{
    sync::{Arc, mpsc::channel},
    thread,
    time::Duration,
};

use super::{Job, Limits, Outcome, Report, Reporter, SearchError, StopSignal, SystemClock, Tree};
use crate::{
    chess::{History, moves::legal_moves},
    network::{
        Evaluator,
        backend::faulty::{FAULTS, Fault, Faulty},
        hash::HashEvaluator,
    },
    options::Options,
    search,
    threads::faults,
};

/// A search takes milliseconds; after this time it hangs.
const HANGS: Duration = Duration::from_secs(120);

/// Collects notes, and may panic at its first report.
#[derive(Default)]
struct Notes {
    texts: Vec<String>,
    panics: bool,
}

impl Reporter for Notes {
    fn report(&mut self, _: &Report) {
        assert!(
            !std::mem::take(&mut self.panics),
            "this report panics in a test"
        );
    }

    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    fn note(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }
}

struct Run {
    result: Result<Outcome, SearchError>,
    tree: Tree,
    notes: Vec<String>,
}

/// Searches `nodes` nodes of the start position on `tree`, in batches of four positions.
fn run(tree: Tree, evaluator: &dyn Evaluator, threads: usize, nodes: u64, panics: bool) -> Run {
    let options = Options {
        threads,
        minibatch_size: 4,
        ..Options::default()
    };
    let limits = Limits {
        nodes: Some(nodes),
        ..Limits::default()
    };
    let job = Job::new(History::default(), limits, options.search());
    let (mut tree, stop, clock) = (tree, StopSignal::default(), SystemClock::default());
    let mut notes = Notes {
        panics,
        ..Notes::default()
    };
    let result = search::run(&mut tree, evaluator, &job, &stop, &clock, &mut notes);
    Run {
        result,
        tree,
        notes: notes.texts,
    }
}

/// Searches on a separate thread, so that a hanging search fails the test.
fn run_watched(evaluator: &Arc<Faulty>, threads: usize, nodes: u64) -> Run {
    let (send, receive) = channel();
    let evaluator = Arc::clone(evaluator);
    thread::spawn(move || {
        let _ = send.send(run(Tree::default(), &*evaluator, threads, nodes, false));
    });
    receive.recv_timeout(HANGS).expect("the search hangs")
}

fn assert_is_legal(outcome: &Outcome) {
    let game = History::default();
    let best = outcome.best.expect("a move");
    assert!(legal_moves(game.position()).any(|m| m == best));
}

#[test]
fn an_evaluation_that_fails_or_panics_ends_the_search_with_what_was_found() {
    const NODES: u64 = 60;
    let (mut failed, mut kept) = (0, 0);
    for fault in FAULTS {
        for threads in [1, 2, 4] {
            for at in 0..24 {
                let evaluator = Arc::new(Faulty::new(fault, at));
                let Run { result, tree, .. } = run_watched(&evaluator, threads, NODES);
                let case = format!("{fault:?} at {at}, {threads} threads");
                tree.assert_consistent();
                match result {
                    Ok(outcome) => {
                        assert!(!evaluator.has_failed(), "{case}");
                        assert_is_legal(&outcome);
                    }
                    Err(error) => {
                        failed += 1;
                        let visits = tree.root_visits();
                        let found = error.found();
                        assert_eq!(found.is_some(), visits > 0, "{case}");
                        if let Some(outcome) = found {
                            assert_is_legal(&outcome);
                            assert_eq!(outcome.report.nodes, visits, "{case}");
                            kept += 1;
                        }
                    }
                }
                // The tree can be used by the next search.
                let Run { result, tree, .. } = run(tree, &HashEvaluator, threads, NODES, false);
                assert_is_legal(&result.unwrap());
                assert_eq!(tree.root_visits(), NODES, "{case}");
                tree.assert_consistent();
            }
        }
    }
    assert!(failed > 100 && kept > 100, "{failed} failed, {kept} kept");
}

#[test]
fn a_search_continues_with_fewer_threads_and_reports_it_once() {
    for threads in [2, 3, 8] {
        for first in 0..threads {
            let search = || run(Tree::default(), &HashEvaluator, threads, 500, false);
            let (
                Run {
                    result,
                    tree,
                    notes,
                },
                tried,
            ) = faults::during(move |n| n >= first, search);
            assert_is_legal(&result.unwrap());
            assert_eq!(tree.root_visits(), 500);
            tree.assert_consistent();
            let is_missing = first < threads - 1;
            assert_eq!(tried, first + usize::from(is_missing));
            let note = format!("only {} of {threads} search threads", first + 1);
            let is_noted = |text: &String| text.starts_with(&note);
            assert_eq!(
                notes.iter().filter(|text| is_noted(text)).count(),
                usize::from(is_missing)
            );
        }
    }
}

#[test]
fn a_panic_beside_the_evaluation_ends_the_search_with_a_move() {
    for threads in [1, 4] {
        // So many that the calling thread reports before the end, however busy the machine is. The panic ends the
        // search.
        const NODES: u64 = 200_000;
        let Run { result, tree, .. } = run(Tree::default(), &HashEvaluator, threads, NODES, true);
        let found = result.err().and_then(SearchError::found).expect("a move");
        assert_is_legal(&found);
        assert_eq!(tree.root_visits(), 0, "its state is unknown");
    }
}

#[test]
fn the_message_of_a_panic_is_reported() {
    let evaluator = Faulty::new(Fault::Panic, 1);
    let error = run(Tree::default(), &evaluator, 1, 60, false)
        .result
        .unwrap_err();
    assert!(
        error.to_string().contains("this call panics in a test"),
        "{error}"
    );
}
