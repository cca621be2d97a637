//! The engine with networks that load slowly, fail or crash, and without a network.

mod faults;

use std::{
    sync::{
        atomic::{AtomicU64, AtomicUsize},
        mpsc::{Receiver, channel},
    },
    time::Instant,
};

use shakmaty::Chess;

use super::*;
use crate::{
    chess::moves::legal_moves,
    network::{Advice, Batch, EvaluateError, Evaluator, Info, hash::HashEvaluator, opponent::Role},
    search::{MoveStat, Report},
};

/// Remembers what was said.
#[derive(Default)]
struct Memory {
    notes: Mutex<Vec<String>>,
    answers: Mutex<Vec<Answer>>,
    ready: AtomicUsize,
}

impl Listener for Memory {
    fn note(&self, text: &str) {
        self.notes.lock().push(text.to_owned());
    }
    fn ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }
    fn report(&self, _: &Subject, _: &Report) {}
    fn move_stats(&self, _: &Subject, _: &[MoveStat]) {}
    fn answer(&self, _: &Subject, answer: Answer) {
        self.answers.lock().push(answer);
    }
    fn perft_move(&self, _: &Subject, _: PackedMove, _: u64) {}
    fn perft_total(&self, _: u64) {}
    fn is_gone(&self) -> bool {
        false
    }
}

impl Memory {
    fn has_noted(&self, text: &str) -> bool {
        self.notes.lock().iter().any(|note| note.contains(text))
    }
}

fn engine(load: Load) -> (Engine, Arc<Memory>, Receiver<SearchEnd>) {
    engine_with_clock(Arc::new(SystemClock::default()), load)
}

fn engine_with_clock(
    clock: Arc<dyn Clock>,
    load: Load,
) -> (Engine, Arc<Memory>, Receiver<SearchEnd>) {
    let memory = Arc::new(Memory::default());
    let (sender, ended) = channel();
    let on_finished = move |ended| {
        let _ = sender.send(ended);
    };
    let engine = Engine::with_clock(clock, Layers::default(), load, memory.clone(), on_finished);
    (engine, memory, ended)
}

/// Searches; the answer.
fn answer_to(engine: &mut Engine, ended: &Receiver<SearchEnd>, memory: &Memory, go: Go) -> Answer {
    engine.go(go);
    engine.handle_search_end(ended.recv().unwrap());
    memory.answers.lock().pop().unwrap()
}

/// Chooses a move where White gives its queen, by one node.
fn play_at_odds(engine: &mut Engine, ended: &Receiver<SearchEnd>, memory: &Memory) {
    engine.set_position(Some(QUEEN_ODDS), &[]).unwrap();
    let nodes = Go {
        nodes: Some(1),
        ..Go::default()
    };
    assert!(answer_to(engine, ended, memory, nodes).best.is_some());
}

/// Loads the built-in network at once, any other never before it is released.
fn slow_load() -> (Load, Arc<AtomicBool>) {
    let is_released = Arc::new(AtomicBool::new(false));
    let wait = Arc::clone(&is_released);
    let load: Load = Arc::new(move |options: &Options, _: Role| {
        let is_stand_in = ["sparse", "rten"].contains(&&*options.backend);
        while !is_stand_in && !wait.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Arc::new(HashEvaluator) as Arc<dyn Evaluator>)
    });
    (load, is_released)
}

#[test]
fn on_a_short_clock_the_built_in_network_stands_in_for_one_that_is_being_loaded() {
    let (load, is_released) = slow_load();
    let (mut engine, memory, ended) = engine(load);
    for go in [
        Go {
            wtime: Some(Duration::from_millis(400)),
            ..Go::default()
        },
        Go {
            movetime: Some(Duration::from_millis(20)),
            ..Go::default()
        },
    ] {
        let answer = answer_to(&mut engine, &ended, &memory, go);
        assert!(answer.best.is_some());
        assert!(memory.has_noted("still being loaded and time runs out: the built-in network"));
        memory.notes.lock().clear();
    }
    is_released.store(true, Ordering::Relaxed);
    let go = Go {
        nodes: Some(10),
        ..Go::default()
    };
    assert!(answer_to(&mut engine, &ended, &memory, go).best.is_some());
    assert!(!memory.has_noted("built-in"));
}

/// A clock that is far ahead of a command's time.
struct Ahead(SystemClock);

impl Clock for Ahead {
    fn now(&self) -> Duration {
        self.0.now() + Duration::from_secs(3600)
    }
}

#[test]
fn the_wait_for_a_network_counts_from_the_command() {
    let (load, is_released) = slow_load();
    let clock = Arc::new(Ahead(SystemClock::default()));
    let (mut engine, memory, ended) = engine_with_clock(clock, load);
    let go = Go {
        movetime: Some(Duration::from_secs(40)),
        received: Some(Duration::ZERO),
        ..Go::default()
    };
    let begun = Instant::now();
    assert!(answer_to(&mut engine, &ended, &memory, go).best.is_some());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(memory.has_noted("still being loaded and time runs out"));
    is_released.store(true, Ordering::Relaxed);
}

#[test]
fn pondering_that_ends_before_the_network_is_there_is_answered_by_the_built_in_one() {
    let (load, is_released) = slow_load();
    let (mut engine, memory, ended) = engine(load);
    let moves = ["e2e4", "e7e5"].map(String::from);
    engine.set_position(None, &moves).unwrap();
    let ponder = Go {
        ponder: true,
        movetime: Some(Duration::from_millis(20)),
        ..Go::default()
    };
    engine.go(ponder.clone());
    thread::sleep(Duration::from_millis(100));
    assert!(!memory.has_noted("time runs out"), "no clock runs");
    engine.stop();
    engine.handle_search_end(ended.recv().unwrap());
    let stopped = memory.answers.lock().pop().unwrap().best;
    // After a hit the search that follows says what there is to say.
    memory.notes.lock().clear();
    engine.go(ponder);
    let request = engine.ponder_hit().unwrap();
    engine.handle_search_end(ended.recv().unwrap());
    assert!(memory.answers.lock().is_empty() && memory.notes.lock().is_empty());
    engine.search(request);
    engine.handle_search_end(ended.recv().unwrap());
    assert!(memory.answers.lock().pop().unwrap().best.is_some());
    assert!(memory.has_noted("time runs out"));
    is_released.store(true, Ordering::Relaxed);
    let one = Go {
        nodes: Some(1),
        ..Go::default()
    };
    assert_eq!(
        stopped,
        answer_to(&mut engine, &ended, &memory, one).best,
        "the first choice of a network, not just any move"
    );
    let position = setup::history_from(None, &moves).unwrap();
    let any = legal_moves(position.position()).next();
    assert_ne!(stopped, any);
}

#[test]
fn pondering_rests_when_the_own_clock_is_nearly_empty() {
    let load: Load = Arc::new(|_: &Options, _: Role| Ok(Arc::new(HashEvaluator) as _));
    let (mut engine, memory, ended) = engine(load);
    let moves = ["e2e4", "e7e5"].map(String::from);
    let game = setup::history_from(None, &moves).unwrap();
    engine.set_position(None, &moves).unwrap();
    let ponder = |left: u64| Go {
        ponder: true,
        wtime: Some(Duration::from_millis(left)),
        ..Go::default()
    };
    let limits = engine.limits(&ponder(10_000), &game, &[], Duration::ZERO);
    assert!(limits.infinite && limits.movetime.is_none());
    engine.go(ponder(50));
    // Whoever searches holds the tree.
    let has_rest = |engine: &Engine| {
        let tree = engine.tree.share();
        tree.try_lock()
            .is_some_and(|searched| searched.tree().root_visits() > 0)
    };
    while !has_rest(&engine) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(memory.answers.lock().is_empty(), "no answer is due yet");
    let request = engine.ponder_hit().unwrap();
    engine.handle_search_end(ended.recv().unwrap());
    engine.search(request);
    engine.handle_search_end(ended.recv().unwrap());
    assert!(memory.answers.lock().pop().unwrap().best.is_some());
    // Nearer to the end the answer is what pondering has found: there is no other search.
    engine.clear_tree();
    engine.go(ponder(10));
    while !has_rest(&engine) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(engine.ponder_hit().is_none());
    engine.handle_search_end(ended.recv().unwrap());
    let answer = memory.answers.lock().pop().unwrap().best;
    assert!(answer.is_some());
    // On a busy machine the search may not have reached the reply.
    let known = search::line_after(&engine.tree.lock(), &engine.options().search(), &game);
    assert!(known.first().is_none_or(|&first| answer == Some(first)));
}

/// A file may have changed when the engine loads it again.
#[test]
fn a_tree_is_kept_until_its_network_is_loaded_anew() {
    let load: Load = Arc::new(|_: &Options, _| Ok(Arc::new(HashEvaluator) as Arc<dyn Evaluator>));
    let (mut engine, memory, ended) = engine(load);
    let visits_after = |engine: &mut Engine, nodes| {
        let go = Go {
            nodes: Some(nodes),
            ..Go::default()
        };
        assert!(answer_to(engine, &ended, &memory, go).best.is_some());
        engine.tree.lock().root_visits()
    };
    assert!(visits_after(&mut engine, 100) >= 100);
    assert!(visits_after(&mut engine, 1) >= 100);
    let usual = engine.options().weights_file.clone();
    for is_loaded in [false, true] {
        for weights in ["other", &usual] {
            engine
                .set_option("WeightsFile", weights, SetBy::Gui)
                .unwrap();
            if is_loaded {
                engine.prepare(Retry::No);
                assert!(engine.loader.wait(&StopSignal::default(), None).is_ok());
            }
        }
        assert_eq!(visits_after(&mut engine, 1) < 100, is_loaded);
    }
}

/// A clock that advances by a millisecond with each call: the machine's may show the same time twice.
#[derive(Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn a_clock_runs_since_the_position_and_a_movetime_since_go() {
    let (load, _) = slow_load();
    let (mut engine, _, _) = engine_with_clock(Arc::new(TickingClock::default()), load);
    let second = Some(Duration::from_secs(1));
    let [clock, movetime] = [(second, None), (None, second)].map(|(wtime, movetime)| Go {
        wtime,
        movetime,
        ..Go::default()
    });
    for (go, is_earlier) in [(clock, true), (movetime, false)] {
        engine.set_position(None, &[]).unwrap();
        let between = engine.clock.now();
        assert_eq!(engine.received(&go) <= between, is_earlier);
    }
}

/// Loads anything at once, and notes what.
fn noting_load() -> (Load, impl Fn() -> Vec<String>) {
    let loads = Arc::new(Mutex::new(Vec::new()));
    let load: Load = Arc::new({
        let loads = Arc::clone(&loads);
        move |options: &Options, role: Role| {
            let name = match role {
                Role::Main => &options.weights_file,
                Role::Opponent => &options.opponent_weights,
                Role::Refiner => &options.refine_weights,
            };
            loads.lock().push(name.clone());
            Ok(Arc::new(HashEvaluator) as Arc<dyn Evaluator>)
        }
    });
    (load, move || std::mem::take(&mut *loads.lock()))
}

/// White without its queen.
const QUEEN_ODDS: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1";

/// The network that the built-in profiles set for it.
const FOR_ODDS: &str = "<built in odds>";

/// The second network of these tests.
const REFINER: &str = "<built in dense>";

/// The option that makes a person the opponent of these tests.
const PERSON: (&str, &str) = ("UCI_Opponent", "none 1200 human Somebody");

fn set(engine: &mut Engine, options: &[(&str, &str)]) {
    for (name, value) in options {
        engine.set_option(name, value, SetBy::Gui).unwrap();
    }
}

/// Analyses the position until the network is there.
fn analyse(engine: &mut Engine, ended: &Receiver<SearchEnd>) {
    engine.go(Go {
        infinite: true,
        ..Go::default()
    });
    // A search that is stopped before the network is there has a move from the built-in one.
    let _ = engine.loader.wait(&StopSignal::default(), None);
    engine.stop();
    engine.handle_search_end(ended.recv().unwrap());
}

#[test]
fn the_mode_of_analysis_and_back_loads_nothing_twice() {
    let (load, loaded) = noting_load();
    let (mut engine, _, _) = engine(load);
    let own = engine.options().weights_file.clone();
    // Against this opponent a profile sets the network and that of the opponent.
    set(&mut engine, &[("RefineWeights", REFINER), PERSON]);
    let show = |engine: &mut Engine| {
        engine.set_position(Some(QUEEN_ODDS), &[]).unwrap();
        engine.prepare(Retry::No);
        engine.loader.wait(&StopSignal::default(), None).unwrap()
    };
    assert!(show(&mut engine).opponent.is_some());
    assert_eq!(loaded(), [FOR_ODDS, "<built in human 1200>", REFINER]);
    for _ in 0..2 {
        engine
            .set_option("UCI_AnalyseMode", "true", SetBy::Gui)
            .unwrap();
        assert!(show(&mut engine).opponent.is_none());
        engine
            .set_option("UCI_AnalyseMode", "false", SetBy::Gui)
            .unwrap();
        assert!(show(&mut engine).opponent.is_some());
    }
    // Another WeightsFile loads all networks anew that depend on the backend.
    assert_eq!(loaded(), [&own, REFINER]);
    // What the user replaces is evicted, even if it was for games only.
    engine
        .set_option("UCI_AnalyseMode", "true", SetBy::Gui)
        .unwrap();
    engine
        .set_option("WeightsFile", "another", SetBy::Gui)
        .unwrap();
    show(&mut engine);
    engine
        .set_option("UCI_AnalyseMode", "false", SetBy::Gui)
        .unwrap();
    show(&mut engine);
    assert_eq!(loaded(), ["another", REFINER, "<built in human 1200>"]);
}

#[test]
fn an_analysis_from_both_sides_keeps_what_the_game_needs() {
    let (load, loaded) = noting_load();
    let (mut engine, memory, ended) = engine(load);
    let own = engine.options().weights_file.clone();
    set(&mut engine, &[("RefineWeights", REFINER), PERSON]);
    play_at_odds(&mut engine, &ended, &memory);
    assert_eq!(loaded(), [FOR_ODDS, "<built in human 1200>", REFINER]);
    for moves in [&["e2e4"][..], &["e2e4", "e7e5"]] {
        let moves: Vec<String> = moves.iter().map(ToString::to_string).collect();
        engine.set_position(Some(QUEEN_ODDS), &moves).unwrap();
        engine.prepare(Retry::No);
        analyse(&mut engine, &ended);
    }
    play_at_odds(&mut engine, &ended, &memory);
    // Another WeightsFile loads all networks anew that depend on the backend.
    assert_eq!(loaded(), [&own, REFINER]);
}

/// At odds a profile sets one side's network.
#[test]
fn an_engine_that_plays_both_sides_loads_nothing_twice() {
    let (load, loaded) = noting_load();
    let (mut engine, _, ended) = engine(load);
    let own = engine.options().weights_file.clone();
    let mut moves: Vec<String> = Vec::new();
    for m in ["e2e4", "e7e5", "g1f3", "b8c6", "f1c4", "g8f6"] {
        engine.set_position(Some(QUEEN_ODDS), &moves).unwrap();
        engine.prepare(Retry::No);
        engine.go(Go {
            nodes: Some(1),
            ..Go::default()
        });
        engine.handle_search_end(ended.recv().unwrap());
        moves.push(m.to_owned());
    }
    assert_eq!(loaded(), [FOR_ODDS, &own]);
}

#[test]
fn an_analysis_in_the_middle_of_a_game_loads_nothing_twice() {
    let (load, loaded) = noting_load();
    let (mut engine, memory, ended) = engine(load);
    let own = engine.options().weights_file.clone();
    // With a strength limit profiles set no networks, and at this strength a human network plays.
    let limited = [
        ("RefineWeights", REFINER),
        PERSON,
        ("UCI_LimitStrength", "true"),
        ("UCI_Elo", "1500"),
        ("HumanWeights", "maia-{maia}"),
    ];
    set(&mut engine, &limited);
    let both = |engine: &mut Engine| {
        play_at_odds(engine, &ended, &memory);
        for _ in 0..2 {
            analyse(engine, &ended);
        }
    };
    both(&mut engine);
    let all = ["maia-1500", &own, REFINER];
    assert_eq!(loaded(), all);
    both(&mut engine);
    engine.clear_hash();
    both(&mut engine);
    assert_eq!(loaded(), [""; 0]);
    // What the game's play needed is forgotten with the game: here it is analysed only.
    engine.new_game();
    engine.set_position(None, &[]).unwrap();
    engine.prepare(Retry::No);
    let _ = engine.loader.wait(&StopSignal::default(), None);
    assert_eq!(loaded(), [""; 0], "the person still plays");
    both(&mut engine);
    assert_eq!(loaded(), all[1..]);
}

#[test]
fn it_is_ready_when_the_network_is() {
    let (load, is_released) = slow_load();
    let (mut engine, memory, _) = engine(load);
    engine.prepare(Retry::No);
    engine.answer_when_ready();
    engine.answer_when_ready();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(memory.ready.load(Ordering::Relaxed), 0);
    is_released.store(true, Ordering::Relaxed);
    engine.wait_until_ready();
    assert_eq!(memory.ready.load(Ordering::Relaxed), 2);
}

#[test]
fn the_end_does_not_wait_for_a_network_that_does_not_come() {
    let (load, is_released) = slow_load();
    let (mut engine, memory, _) = engine(load);
    engine.prepare(Retry::No);
    engine.answer_when_ready();
    engine.close(Duration::from_millis(20));
    assert_eq!(memory.ready.load(Ordering::Relaxed), 0);
    is_released.store(true, Ordering::Relaxed);
    engine.close(Duration::from_secs(60));
    assert_eq!(memory.ready.load(Ordering::Relaxed), 1);
}

/// Works for some batches, then no more.
struct Dying(AtomicUsize);

impl Evaluator for Dying {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        if self.0.fetch_add(1, Ordering::Relaxed) >= 20 {
            return Err(EvaluateError::NotFinite {
                network: "dying".into(),
                output: "policy".into(),
            });
        }
        HashEvaluator.evaluate(batch)
    }
    fn info(&self) -> Info {
        Info {
            description: "dying".into(),
            advice: Advice {
                threads: 1,
                minibatch: 8,
                min_batch: 1,
            },
            ..Info::default()
        }
    }
}

#[test]
fn an_error_in_mid_search_answers_with_the_best_found_so_far() {
    let load: Load = Arc::new(|_: &Options, _: Role| {
        Ok(Arc::new(Dying(AtomicUsize::new(0))) as Arc<dyn Evaluator>)
    });
    let (mut engine, memory, ended) = engine(load);
    let go = Go {
        nodes: Some(10_000),
        ..Go::default()
    };
    let answer = answer_to(&mut engine, &ended, &memory, go.clone());
    assert!(answer.best.is_some() && answer.ponder.is_some());
    assert!(memory.has_noted("error: dying"));
    // Nothing works any more, not even the root: still a legal move.
    engine.set_position(None, &["e2e4".into()]).unwrap();
    engine.clear_tree();
    let best = answer_to(&mut engine, &ended, &memory, go).best.unwrap();
    let mut after = Chess::default();
    after.play_unchecked(setup::parse_move(&after, "e2e4").unwrap().unpack(&after));
    assert!(after.is_legal(best.unpack(&after)));
}

/// Crashes at every batch.
struct Crashing;

impl Evaluator for Crashing {
    fn evaluate(&self, _: &mut Batch) -> Result<(), EvaluateError> {
        panic!("this crash is part of a test")
    }
    fn info(&self) -> Info {
        Info {
            description: "crashing".into(),
            ..HashEvaluator.info()
        }
    }
}

#[test]
fn a_search_that_crashes_is_answered_once_with_a_legal_move() {
    let load: Load = Arc::new(|_: &Options, _: Role| Ok(Arc::new(Crashing) as _));
    let (mut engine, memory, ended) = engine(load);
    let moves = ["e2e4", "e7e5"].map(String::from);
    engine.set_position(None, &moves).unwrap();
    let go = Go {
        nodes: Some(10),
        search_moves: vec!["d2d4".into()],
        ..Go::default()
    };
    let position = setup::history_from(None, &moves).unwrap();
    let only = setup::parse_move(position.position(), "d2d4").unwrap();
    assert_eq!(
        answer_to(&mut engine, &ended, &memory, go.clone()).best,
        Some(only)
    );
    assert!(memory.has_noted("failed with a panic: this crash is part of a test"));
    // A ponder search is not answered before `ponderhit`, and then by the search that follows.
    engine.go(Go { ponder: true, ..go });
    let request = engine.ponder_hit().unwrap();
    engine.handle_search_end(ended.recv().unwrap());
    assert!(memory.answers.lock().is_empty());
    engine.search(request);
    engine.handle_search_end(ended.recv().unwrap());
    assert_eq!(memory.answers.lock().pop().unwrap().best, Some(only));
}
