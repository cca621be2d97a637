//! Fault injection: whatever evaluation fails or panics and whatever threads cannot be started, each `go` has one legal
//! answer.

use std::sync::mpsc::RecvTimeoutError;

use super::*;
use crate::{
    network::backend::faulty::{FAULTS, Faulty},
    threads::faults,
};

/// A search takes milliseconds; one that takes this long hangs.
const HANGS: Duration = Duration::from_secs(120);

/// The answer to a search with these limits, which must be the only one and legal.
fn only_answer(
    engine: &mut Engine,
    ended: &Receiver<SearchEnd>,
    memory: &Memory,
    go: Go,
) -> Answer {
    let is_endless = go.infinite;
    engine.go(go);
    if is_endless {
        engine.stop();
    }
    engine.handle_search_end(ended.recv_timeout(HANGS).expect("the search hangs"));
    assert!(matches!(
        ended.recv_timeout(Duration::ZERO),
        Err(RecvTimeoutError::Timeout)
    ));
    let mut answers = memory.answers.lock();
    let answer = answers.pop().expect("an answer");
    assert!(answers.is_empty(), "more than one answer");
    let game = engine.game.clone().unwrap();
    let best = answer.best.expect("a move");
    assert!(legal_moves(game.position()).any(|m| m == best));
    answer
}

fn nodes(nodes: u64) -> Go {
    Go {
        nodes: Some(nodes),
        ..Go::default()
    }
}

#[test]
fn an_evaluation_that_fails_or_panics_costs_no_answer() {
    for fault in FAULTS {
        for threads in ["1", "2", "4"] {
            for at in [0, 1, 2, 3, 5, 8, 13] {
                let load: Load = Arc::new(move |options: &Options, _: Role| {
                    let is_stand_in = ["sparse", "rten"].contains(&&*options.backend);
                    Ok(if is_stand_in {
                        Arc::new(HashEvaluator) as Arc<dyn Evaluator>
                    } else {
                        Arc::new(Faulty::new(fault, at))
                    })
                });
                let (mut engine, memory, ended) = engine(load);
                for (name, value) in [
                    ("Threads", threads),
                    ("MinibatchSize", "2"),
                    ("RefineWeights", ""),
                ] {
                    engine.set_option(name, value, SetBy::Gui).unwrap();
                }
                let moves = ["e2e4", "c7c5"].map(String::from);
                engine.set_position(None, &moves).unwrap();
                only_answer(&mut engine, &ended, &memory, nodes(40));
                let is_reported = memory.has_noted("in a test");
                assert!(is_reported, "{fault:?} at {at}: {:?}", memory.notes.lock());
                assert!(!memory.has_noted("the search crashed"));
                if at == 0 {
                    assert!(memory.has_noted("the built-in network plays this move"));
                }
                // It happens once only, and the engine goes on.
                memory.notes.lock().clear();
                only_answer(&mut engine, &ended, &memory, nodes(40));
                assert!(
                    memory
                        .notes
                        .lock()
                        .iter()
                        .all(|note| !note.contains("error"))
                );
            }
        }
    }
}

#[test]
fn threads_that_cannot_be_started_cost_no_answer() {
    let load: Load = Arc::new(|_: &Options, _: Role| Ok(Arc::new(HashEvaluator) as _));
    let mut missing = 0;
    for first in 0..8 {
        let load = Arc::clone(&load);
        let play = move || {
            let (mut engine, memory, ended) = engine(load);
            engine.set_option("Threads", "4", SetBy::Gui).unwrap();
            engine.set_option("MinibatchSize", "2", SetBy::Gui).unwrap();
            engine.set_position(None, &[]).unwrap();
            engine.answer_when_ready();
            for go in [nodes(50), nodes(200), nodes(300)] {
                only_answer(&mut engine, &ended, &memory, go);
            }
            let infinite = Go {
                infinite: true,
                ..Go::default()
            };
            only_answer(&mut engine, &ended, &memory, infinite);
            engine.close(HANGS);
            assert_eq!(memory.ready.load(Ordering::Relaxed), 1);
            let notes = std::mem::take(&mut *memory.notes.lock());
            let missing = |note: &&String| note.contains("search threads could be started");
            notes.iter().filter(missing).count()
        };
        let (noted, _) = faults::during(move |number| number >= first, play);
        assert!(noted <= 1, "said {noted} times");
        missing += noted;
    }
    assert!(missing > 2, "{missing}");
}
