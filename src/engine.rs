//! The engine behind the protocol: the game, the options, the tree, the network, and the search that is running. Its
//! methods return at once; searching and loading happen on threads of their own. What it has to say goes to a
//! [`Listener`], which finds the words.

mod autopilot;
mod go;
mod listener;
pub mod loader;
pub mod strength;
mod think;
mod timing;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use shakmaty::{Color, EnPassantMode, Position, fen::Fen};

use self::{
    autopilot::Autopilot,
    loader::{Loader, Retry},
    think::Task,
    timing::Timing,
};
pub use self::{
    go::Go,
    listener::{Answer, Listener, Subject},
};
use crate::{
    chess::{
        History, PackedMove, perft,
        setup::{self, SetupError},
    },
    network::{load::wishes::Wishes, opponent},
    options::{ContemptMode, Invalidates, OptionError, Options},
    player::{self, Load},
    search::{
        self, Clock, Limits, StopSignal, SystemClock, Tree, time::ClockState,
        wdl_contempt::is_left_out_in_analysis,
    },
    syzygy::Tables,
};

/// How long one wait for the last words may take before it looks again whether they have been said.
const GLANCE: Duration = Duration::from_millis(1);

/// The state of the engine between commands.
pub struct Engine {
    /// The options as they were set.
    options: Options,
    /// The options as they are for this game: a profile may have set some.
    in_force: Options,
    /// Whether an analysis goes by the options as they were set.
    is_lifted: bool,
    /// Once a game was analysed in between: the options of play during the analysis, and of analysis during play. Their
    /// networks stay loaded.
    other: Option<Options>,
    autopilot: Autopilot,
    /// The network that is played with, and what it asks for.
    wishes: (String, Wishes),
    /// The game, or why there is none: the last one that was sent is not understood.
    game: Result<History, String>,
    tree: Arc<Mutex<Tree>>,
    /// What the tree was searched with; `None` if it is to be dropped.
    tree_made_with: Option<MadeWith>,
    loader: Loader,
    /// The tablebases that are open, and the path that they were opened from.
    tables: (String, Option<Arc<Tables>>),
    clock: Arc<dyn Clock>,
    timing: Timing,
    listener: Arc<dyn Listener>,
    /// What the loader has said and nobody has been told yet: GUIs expect such lines during a search only.
    announcement: Arc<Mutex<Option<String>>>,
    /// Why the opponent's network is idle, if that was said.
    idle: Option<&'static str>,
    on_finished: Arc<dyn Fn(Ended) + Send + Sync>,
    running: Option<Running>,
    /// Who says that it is ready once the network is.
    heralds: Vec<JoinHandle<()>>,
}

/// What a tree's statistics depend on besides the position.
struct MadeWith {
    options: Options,
    /// The side whose priors are a second network's.
    opponent: Option<Color>,
    /// The root moves that were considered, if not all were.
    root_moves: Vec<PackedMove>,
    /// Positions in the game, and the key of the last.
    position: (usize, u64),
}

/// A search that was asked for: `go`, and the game it is about.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What was asked.
    pub go: Go,
    game: History,
}

/// How a search thread ended. What it found is told when the end is noticed, so that whatever is sent in reply meets an
/// engine that knows that it is idle.
#[derive(Clone, Debug)]
pub enum Ended {
    /// Nobody wants an answer.
    Silently,
    /// With the answer to a search.
    With(Subject, Answer),
    /// With a count of positions.
    Counted(u64),
    /// It panicked, and somebody still waits for an answer.
    ByPanic,
}

struct Running {
    stop: StopSignal,
    silent: Arc<AtomicBool>,
    /// The search that a `ponderhit` turns this one into.
    ponder: Option<Asked>,
    endless: bool,
    thread: JoinHandle<()>,
}

impl Engine {
    /// An engine in the starting position. `by_hand` names the options that no profile may set; `load` makes networks;
    /// `on_finished` is called by each search thread at its end, after which [`Engine::search_ended`] must be called.
    pub fn new(
        options: Options,
        by_hand: BTreeSet<&'static str>,
        load: Load,
        listener: Arc<dyn Listener>,
        on_finished: impl Fn(Ended) + Send + Sync + 'static,
    ) -> Engine {
        let mut autopilot = Autopilot::new(by_hand);
        if let Err(error) = autopilot.load(&options.profiles) {
            listener.note(&format!("error: {error}"));
        }
        Engine {
            timing: Timing::new(&options),
            in_force: options.clone(),
            is_lifted: false,
            other: None,
            options,
            autopilot,
            wishes: (String::new(), Wishes::default()),
            game: Ok(History::default()),
            tree: Arc::default(),
            tree_made_with: None,
            loader: Loader::new(load),
            tables: (String::new(), None),
            clock: Arc::new(SystemClock::default()),
            listener,
            announcement: Arc::default(),
            idle: None,
            on_finished: Arc::new(on_finished),
            running: None,
            heralds: Vec::new(),
        }
    }

    /// The options as they were set.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets an option; it counts from the next search on.
    ///
    /// # Errors
    /// When there is no such option or the value does not fit.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let before = self.options.clone();
        if let Some(note) = self.options.set_as_in_lc0(name, value)? {
            self.listener.note(&note);
        }
        if self.options.profiles != before.profiles
            && let Err(error) = self.autopilot.load(&self.options.profiles)
        {
            self.options = before;
            self.listener.note(&format!("error: {error}"));
            return Ok(());
        }
        if let Some(option) = Options::name_of(name) {
            self.autopilot.set_by_hand(option);
        }
        self.put_in_force();
        Ok(())
    }

    /// Finds out which options count for this game, and says so when a profile changes some.
    fn put_in_force(&mut self) {
        let (mut in_force, announcement) = self.autopilot.in_force(&self.options);
        self.apply_wishes(&mut in_force);
        strength::limit(&mut in_force);
        (self.in_force, self.is_lifted) = (in_force, false);
        self.other = self.other.take().map(|_| self.options.clone());
        if let Some(text) = announcement {
            self.listener.note(&text);
        }
    }

    /// Sets what the network asks for where neither the user nor a profile has set anything.
    fn apply_wishes(&mut self, options: &mut Options) {
        if self.wishes.0 != options.weights_file {
            self.wishes = (
                options.weights_file.clone(),
                Wishes::of(&options.weights_file),
            );
        }
        self.wishes.1.apply(options, &self.autopilot.settled());
    }

    /// An analysis is no game: neither profile nor strength limit counts.
    fn lift_limits(&mut self) {
        if let Some(text) = self.autopilot.lift() {
            self.listener.note(text);
        }
        let mut options = self.options.clone();
        self.apply_wishes(&mut options);
        let before = std::mem::replace(&mut self.in_force, options);
        if !std::mem::replace(&mut self.is_lifted, true) {
            self.other = Some(before);
        }
    }

    /// Drops the tree before the next search.
    pub fn clear_tree(&mut self) {
        self.tree_made_with = None;
    }

    /// Forgets all that was searched and evaluated.
    pub fn clear_hash(&mut self) {
        self.clear_tree();
        self.loader.clear_caches();
        self.prepare(Retry::No);
    }

    /// What follows has nothing to do with what was before.
    pub fn new_game(&mut self) {
        self.timing.new_game();
        self.autopilot.new_game();
        self.other = None;
        self.put_in_force();
        self.clear_hash();
    }

    /// Sets the position. If anything is wrong there is none until the next one comes: the game before is over.
    ///
    /// # Errors
    /// When the FEN, the position or a move is not legal.
    pub fn set_position(&mut self, fen: Option<&str>, moves: &[String]) -> Result<(), SetupError> {
        let game = setup::history_from(fen, moves)
            .and_then(|game| setup::check_castling(game, self.options.chess960));
        self.timing.position_set(self.clock.now());
        if let Ok(game) = &game {
            self.autopilot.see_position(game);
            self.put_in_force();
        }
        self.game = game.as_ref().map_err(ToString::to_string).cloned();
        game.map(|_| ())
    }

    /// There is no position to search until the next one is set, because of this.
    pub fn refuse_position(&mut self, reason: String) {
        self.game = Err(reason);
    }

    /// The current position as a FEN, or why there is none.
    pub fn fen(&self) -> String {
        match &self.game {
            Ok(game) => Fen::from_position(game.position(), EnPassantMode::Legal).to_string(),
            Err(error) => format!("(none: {error})"),
        }
    }

    /// Begins to load the network, if it is not there yet.
    pub fn prepare(&self, retry: Retry) {
        let listener = Arc::clone(&self.listener);
        let announcement = Arc::clone(&self.announcement);
        let asks = self.wishes.1.text();
        let tell = move |result: Result<String, String>| match result {
            Ok(description) => *announcement.lock() = Some(description + &asks),
            Err(error) => listener.note(&format!("error: {error}")),
        };
        self.loader
            .request(&self.in_force, self.other.as_ref(), retry, tell);
    }

    /// Begins to load everything that a search will need, before it is asked for.
    pub fn preload(&mut self) {
        self.prepare(Retry::No);
        let _opened = self.tables();
    }

    /// Says that it is ready: at once during a search, otherwise when the network is loaded or has failed.
    pub fn answer_when_ready(&mut self) {
        let (listener, clock) = (Arc::clone(&self.listener), Arc::clone(&self.clock));
        let mark = self.timing.ready_mark();
        let tell = move || {
            mark.set(clock.now());
            listener.ready();
        };
        if self.running.is_some() || !self.loader.is_loading() {
            return tell();
        }
        let loader = self.loader.clone();
        self.heralds.retain(|herald| !herald.is_finished());
        self.heralds.push(thread::spawn(move || {
            // Ready or broken: the GUI gets its answer, and the reason was told before.
            let _ = loader.wait(&StopSignal::default(), None);
            tell();
        }));
    }

    /// Waits until everybody who asked has been told that it is ready, or nobody listens any more.
    pub fn wait_until_ready(&mut self) {
        for herald in self.heralds.drain(..) {
            while !herald.is_finished() && !self.listener.is_gone() {
                thread::sleep(GLANCE);
            }
        }
    }

    /// Ends what is done in the background, if that is possible within `patience`.
    pub fn close(&mut self, patience: Duration) {
        self.loader.close(patience);
        if !self.loader.is_loading() {
            self.wait_until_ready();
        }
    }

    /// Whether a search is running (or its end has not been noticed yet).
    pub fn is_searching(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the search that is running may end only when it is told to.
    pub fn is_endless(&self) -> bool {
        self.running.as_ref().is_some_and(|r| r.endless)
    }

    /// Starts a search of the position that was set. Nothing may be running.
    pub fn go(&mut self, go: Go) {
        match self.game.clone() {
            Ok(game) => self.search(Asked { go, game }),
            Err(error) => {
                let text = format!("no search: the last position was refused ({error})");
                match go.perft {
                    Some(_) => self.listener.note(&text),
                    None => self.refuse(&text),
                }
            }
        }
    }

    /// Starts a search. Nothing may be running.
    pub fn search(&mut self, asked: Asked) {
        let Asked { go, game } = &asked;
        if let Some(depth) = go.perft {
            return self.perft(game, depth);
        }
        let root_moves = self.root_moves(go, game);
        if root_moves.is_empty() && !go.search_moves.is_empty() {
            return self.refuse("no search: none of the searchmoves is legal here");
        }
        let received = self.received(go);
        self.autopilot.see_clock(go, game);
        match go.infinite && !go.ponder {
            true => self.lift_limits(),
            false => self.put_in_force(),
        }
        self.prepare(Retry::Yes);
        // Also right when the position before this one is searched to ponder: it is the side the engine plays.
        let contempt_side = player::contempt_side(&self.in_force, game.position().turn());
        self.forget_what_is_outdated(game, contempt_side, &root_moves);
        self.note_if_idle();
        if go.infinite && !go.ponder {
            self.note_whose_replies(game);
        }
        let limits = self.limits(go, game, received);
        if limits.infinite && !go.ponder && is_left_out_in_analysis(&self.in_force) {
            self.listener.note(
                "Contempt is off in an analysis without end: for whom? Say so with ContemptMode white_side_analysis \
                 or black_side_analysis",
            );
        }
        let (stop, silent) = (StopSignal::default(), Arc::default());
        let endless = limits.infinite;
        let task = Task {
            subject: Subject {
                position: game.position().clone(),
                options: Arc::new(self.search_options()),
            },
            root_moves,
            history: game.clone(),
            pondering: go.ponder,
            contempt_side,
            endless,
            limits,
            received,
            patience: go.patience(game),
            seed: self.seed(),
            tables: self.tables(),
            tree: Arc::clone(&self.tree),
            loader: self.loader.clone(),
            announcement: Arc::clone(&self.announcement),
            clock: Arc::clone(&self.clock),
            listener: Arc::clone(&self.listener),
            stop: stop.clone(),
            silent: Arc::clone(&silent),
        };
        let ponder = go.ponder.then_some(asked);
        let endless = endless || task.limits.are_only_a_mate();
        self.start(stop, silent, ponder, endless, move || task.run());
    }

    /// When the time that a search has began to run: that of a clock perhaps before `go`, any other with it.
    fn received(&self, go: &Go) -> Duration {
        let now = self.clock.now();
        let started = self.timing.started(self.in_force.strict_timing, now);
        let usual = if go.has_clock() { started } else { now };
        go.received.unwrap_or(usual)
    }

    /// When the search ends: by what was asked for, and by the clock.
    fn limits(&mut self, go: &Go, game: &History, received: Duration) -> Limits {
        let clock = go.clock_state(&self.in_force, game);
        let by_clock = clock.map(|clock| {
            let clock = ClockState {
                known_nodes: search::visits_known(&self.tree.lock(), game),
                ..clock
            };
            self.timing.plan(&self.in_force, game, clock, received)
        });
        let mut limits = go.limits(&self.in_force, by_clock);
        let (remaining, _) = go.clock(game.position().turn());
        if let Some(remaining) = remaining.filter(|_| go.ponder) {
            let asked = Duration::from_millis(self.in_force.move_overhead_ms);
            limits.movetime = self.timing.pondering(remaining, asked);
        }
        limits
    }

    /// Tells the search that is running to answer.
    pub fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.ponder = None;
            running.stop.stop();
        }
    }

    /// The expected reply was played: ends the ponder search silently. What must be started instead, once the search has
    /// ended, is returned; nothing, if the clock is so near its end that the answer is what pondering has found.
    pub fn ponder_hit(&mut self) -> Option<Asked> {
        let running = self.running.as_mut()?;
        let mut asked = running.ponder.take()?;
        let (remaining, _) = asked.go.clock(asked.game.position().turn());
        let reserve = Duration::from_millis(self.in_force.move_overhead_ms);
        if remaining.is_some_and(|left| self.timing.is_at_the_end(left, reserve)) {
            running.stop.stop();
            return None;
        }
        running.silent.store(true, Ordering::Relaxed);
        running.stop.stop();
        self.begin_clock(&mut asked.go);
        Some(asked)
    }

    /// The expected reply was played before pondering could begin: makes a normal search of it, whose clock runs now.
    pub fn begin_clock(&self, go: &mut Go) {
        go.ponder = false;
        go.received = Some(self.clock.now());
    }

    /// Cleans up after a search thread that has said that it is at its end.
    pub fn search_ended(&mut self, ended: Ended) {
        let Some(running) = self.running.take() else {
            return;
        };
        self.loader.set_searching(false);
        if let Ended::With(..) = ended {
            let nodes = self.tree.lock().root_visits();
            self.timing.ended(self.clock.now(), nodes);
        }
        match ended {
            Ended::Silently => {}
            Ended::With(subject, answer) => self.listener.answer(&subject, answer),
            Ended::Counted(count) => self.listener.perft_total(count),
            Ended::ByPanic => {
                self.tree = Arc::default();
                self.refuse("error: the search crashed; please report this");
            }
        }
        // How it ended is known already; the answer does not wait for the thread's last steps.
        let _ = running.thread.join();
    }

    /// Answers a `go` that comes to nothing.
    fn refuse(&self, reason: &str) {
        self.listener.note(reason);
        let nowhere = Subject {
            position: History::default().position().clone(),
            options: Arc::new(self.options.clone()),
        };
        self.listener.answer(&nowhere, Answer::default());
    }

    fn start(
        &mut self,
        stop: StopSignal,
        silent: Arc<AtomicBool>,
        ponder: Option<Asked>,
        endless: bool,
        work: impl FnOnce() -> Ended + Send + 'static,
    ) {
        self.loader.set_searching(true);
        let guard = Guard {
            ended: Ended::ByPanic,
            tell: Arc::clone(&self.on_finished),
        };
        let thread = thread::spawn(move || {
            let mut guard = guard;
            guard.ended = work();
        });
        self.running = Some(Running {
            stop,
            silent,
            ponder,
            endless,
            thread,
        });
    }

    fn perft(&mut self, game: &History, depth: u32) {
        let (stop, listener) = (StopSignal::default(), Arc::clone(&self.listener));
        let subject = Subject {
            position: game.position().clone(),
            options: Arc::new(self.options.clone()),
        };
        let signal = stop.clone();
        self.start(stop, Arc::default(), None, false, move || {
            let mut total = 0;
            for m in subject.position.legal_moves() {
                let mut after = subject.position.clone();
                after.play_unchecked(m);
                let stopped = || signal.is_stopped();
                let count = perft::count(&after, depth.saturating_sub(1), &stopped);
                listener.perft_move(&subject, PackedMove::pack(m), count);
                total += count;
            }
            Ended::Counted(total)
        });
    }

    /// In an analysis it is not plain who is who: `ContemptMode play` goes by the side to move.
    fn note_whose_replies(&self, game: &History) {
        let is_plain = self.in_force.sc_limit == Options::default().sc_limit;
        if !is_plain && self.in_force.contempt_mode == ContemptMode::Play {
            let (us, them) = game
                .position()
                .turn()
                .fold_wb(("White", "Black"), ("Black", "White"));
            self.listener.note(&format!(
                "ContemptMode play: {us} is to move, so search-contempt models {them}'s replies"
            ));
        }
    }

    /// The options for a search: an analysis leaves nothing to chance.
    fn search_options(&self) -> Options {
        let options = self.in_force.clone();
        match options.analyse_mode {
            true => options.without_chance(),
            false => options,
        }
    }

    /// The seed of the next search: a new one each time, unless one is given.
    fn seed(&self) -> u64 {
        match self.in_force.seed {
            0 => rand::random(),
            seed => seed,
        }
    }

    /// A tree that the options have outdated is dropped, on another thread because that takes time; so is one in which other
    /// moves were left out, for its visits are no fair start. Who is asked again about a position while its strength is
    /// limited begins anew, too: it would be stronger each time.
    fn forget_what_is_outdated(
        &mut self,
        game: &History,
        contempt_side: Option<Color>,
        root_moves: &[PackedMove],
    ) {
        let opponent = opponent::side(&self.in_force, contempt_side);
        let position = (game.len(), game.last().key);
        let is_limited = strength::is_limited(&self.in_force);
        let usable = self.tree_made_with.as_ref().is_some_and(|old| {
            self.in_force.invalidated_since(&old.options) < Invalidates::Tree
                && opponent == old.opponent
                && old.root_moves == root_moves
                && !(is_limited && old.position == position)
        });
        if !usable {
            let old = std::mem::take(&mut *self.tree.lock());
            thread::spawn(move || {
                let _dropped_here = old;
            });
        }
        self.tree_made_with = Some(MadeWith {
            options: self.in_force.clone(),
            opponent,
            root_moves: root_moves.to_vec(),
            position,
        });
    }

    /// Says once that a network which the user asked for plays no part.
    fn note_if_idle(&mut self) {
        let idle = opponent::why_idle(&self.in_force);
        if let Some(reason) = idle.filter(|_| idle != self.idle) {
            self.listener.note(reason);
        }
        self.idle = idle;
    }

    /// The tablebases that SyzygyPath asks for, opened when it changes. What is wrong with them is said once.
    fn tables(&mut self) -> Option<Arc<Tables>> {
        let path = &self.in_force.syzygy_path;
        if *path != self.tables.0 {
            let opened = (!path.is_empty()).then(|| Tables::open(path));
            let opened = opened.and_then(|opened| match opened {
                Ok(tables) => {
                    self.listener.note(&tables.describe());
                    for fault in tables.new_faults() {
                        self.listener.note(&fault);
                    }
                    Some(Arc::new(tables))
                }
                Err(error) => {
                    self.listener.note(&format!("error: {error}"));
                    None
                }
            });
            self.tables = (path.clone(), opened);
        }
        self.tables.1.clone()
    }

    fn root_moves(&self, go: &Go, game: &History) -> Vec<PackedMove> {
        let mut moves = Vec::new();
        for text in &go.search_moves {
            match setup::parse_move(game.position(), text) {
                Ok(m) => moves.push(m),
                Err(error) => self.listener.note(&format!("searchmoves: {error}")),
            }
        }
        moves
    }
}

/// Tells, when the thread that owns it ends, how.
struct Guard {
    ended: Ended,
    tell: Arc<dyn Fn(Ended) + Send + Sync>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        (self.tell)(self.ended.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::AtomicUsize,
        mpsc::{Receiver, channel},
    };

    use shakmaty::Chess;

    use super::*;
    use crate::{
        chess::moves::legal_moves,
        network::{Advice, Batch, EvaluateError, Evaluator, hash::HashEvaluator, opponent::Role},
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

    fn engine(load: Load) -> (Engine, Arc<Memory>, Receiver<Ended>) {
        let memory = Arc::new(Memory::default());
        let (tell, told) = channel();
        let engine = Engine::new(
            Options::default(),
            BTreeSet::new(),
            load,
            memory.clone(),
            move |ended| {
                let _ = tell.send(ended);
            },
        );
        (engine, memory, told)
    }

    /// Searches; the answer.
    fn answer_to(engine: &mut Engine, told: &Receiver<Ended>, memory: &Memory, go: Go) -> Answer {
        engine.go(go);
        engine.search_ended(told.recv().unwrap());
        memory.answers.lock().pop().unwrap()
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
        let (mut engine, memory, told) = engine(load);
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
            let answer = answer_to(&mut engine, &told, &memory, go);
            assert!(answer.best.is_some());
            assert!(memory.has_noted("still being loaded and time runs out: the built-in network"));
            memory.notes.lock().clear();
        }
        is_released.store(true, Ordering::Relaxed);
        let go = Go {
            nodes: Some(10),
            ..Go::default()
        };
        assert!(answer_to(&mut engine, &told, &memory, go).best.is_some());
        assert!(!memory.has_noted("built-in"));
    }

    #[test]
    fn pondering_that_ends_before_the_network_is_there_is_answered_by_the_built_in_one() {
        let (load, is_released) = slow_load();
        let (mut engine, memory, told) = engine(load);
        let moves = ["e2e4", "e7e5"].map(String::from);
        engine.set_position(None, &moves).unwrap();
        let ponder = Go {
            ponder: true,
            movetime: Some(Duration::from_millis(20)),
            ..Go::default()
        };
        engine.go(ponder.clone());
        thread::sleep(Duration::from_millis(100));
        assert!(!memory.has_noted("time runs out"), "nobody's clock runs");
        engine.stop();
        engine.search_ended(told.recv().unwrap());
        let stopped = memory.answers.lock().pop().unwrap().best;
        // After a hit the search that follows says what there is to say.
        memory.notes.lock().clear();
        engine.go(ponder);
        let asked = engine.ponder_hit().unwrap();
        engine.search_ended(told.recv().unwrap());
        assert!(memory.answers.lock().is_empty() && memory.notes.lock().is_empty());
        engine.search(asked);
        engine.search_ended(told.recv().unwrap());
        assert!(memory.answers.lock().pop().unwrap().best.is_some());
        assert!(memory.has_noted("time runs out"));
        is_released.store(true, Ordering::Relaxed);
        let one = Go {
            nodes: Some(1),
            ..Go::default()
        };
        assert_eq!(
            stopped,
            answer_to(&mut engine, &told, &memory, one).best,
            "the first choice of a network, not just any move"
        );
        let position = setup::history_from(None, &moves).unwrap();
        let any = legal_moves(position.position()).next();
        assert_ne!(stopped, any);
    }

    #[test]
    fn pondering_rests_when_the_own_clock_is_nearly_empty() {
        let load: Load = Arc::new(|_: &Options, _: Role| Ok(Arc::new(HashEvaluator) as _));
        let (mut engine, memory, told) = engine(load);
        let moves = ["e2e4", "e7e5"].map(String::from);
        let game = setup::history_from(None, &moves).unwrap();
        engine.set_position(None, &moves).unwrap();
        let ponder = |left: u64| Go {
            ponder: true,
            wtime: Some(Duration::from_millis(left)),
            ..Go::default()
        };
        let limits = engine.limits(&ponder(10_000), &game, Duration::ZERO);
        assert!(limits.infinite && limits.movetime.is_none());
        engine.go(ponder(50));
        // Whoever searches holds the tree.
        let has_rest = |engine: &Engine| {
            let tree = engine.tree.try_lock();
            tree.is_some_and(|tree| tree.root_visits() > 0)
        };
        while !has_rest(&engine) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(memory.answers.lock().is_empty(), "nobody asked yet");
        let asked = engine.ponder_hit().unwrap();
        engine.search_ended(told.recv().unwrap());
        engine.search(asked);
        engine.search_ended(told.recv().unwrap());
        assert!(memory.answers.lock().pop().unwrap().best.is_some());
        // Nearer to the end the answer is what pondering has found: there is no other search.
        engine.clear_tree();
        engine.go(ponder(10));
        while !has_rest(&engine) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(engine.ponder_hit().is_none());
        engine.search_ended(told.recv().unwrap());
        let answer = memory.answers.lock().pop().unwrap().best;
        assert!(answer.is_some());
        // On a busy machine it may not have come to the reply.
        let known = search::line_after(&engine.tree.lock(), &engine.options, &game);
        assert!(known.first().is_none_or(|&first| answer == Some(first)));
    }

    #[test]
    fn a_clock_runs_since_the_position_and_a_movetime_since_go() {
        let (load, _) = slow_load();
        let (mut engine, _, _) = engine(load);
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

    #[test]
    fn an_analysis_in_the_middle_of_a_game_loads_nothing_twice() {
        let loads = Arc::new(Mutex::new(Vec::new()));
        let load: Load = Arc::new({
            let loads = Arc::clone(&loads);
            move |options: &Options, role: Role| {
                let name = match role {
                    Role::Main => &options.weights_file,
                    Role::Opponent => &options.opponent_weights,
                };
                loads.lock().push(name.clone());
                Ok(Arc::new(HashEvaluator) as Arc<dyn Evaluator>)
            }
        });
        let loaded = || std::mem::take(&mut *loads.lock());
        let (mut engine, memory, told) = engine(load);
        let own = engine.options().weights_file.clone();
        // At odds the autopilot wants an opponent's network, and at this strength a person plays.
        for (option, value) in [
            ("UCI_Opponent", "none 1200 human Somebody"),
            ("UCI_LimitStrength", "true"),
            ("UCI_Elo", "1500"),
            ("HumanWeights", "maia-{maia}"),
        ] {
            engine.set_option(option, value).unwrap();
        }
        let queen = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1";
        let both = |engine: &mut Engine| {
            engine.set_position(Some(queen), &[]).unwrap();
            let nodes = Go {
                nodes: Some(1),
                ..Go::default()
            };
            assert!(answer_to(engine, &told, &memory, nodes).best.is_some());
            for _ in 0..2 {
                engine.go(Go {
                    infinite: true,
                    ..Go::default()
                });
                // A search that is stopped before the network is there has a move from the built-in one.
                let _ = engine.loader.wait(&StopSignal::default(), None);
                engine.stop();
                engine.search_ended(told.recv().unwrap());
            }
        };
        both(&mut engine);
        let all = ["maia-1500", "<built in human 1200>", &own];
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
        fn advice(&self) -> Advice {
            Advice {
                threads: 1,
                minibatch: 8,
                least: 1,
            }
        }
        fn describe(&self) -> String {
            "dying".into()
        }
    }

    #[test]
    fn an_error_in_mid_search_answers_with_the_best_found_so_far() {
        let load: Load = Arc::new(|_: &Options, _: Role| {
            Ok(Arc::new(Dying(AtomicUsize::new(0))) as Arc<dyn Evaluator>)
        });
        let (mut engine, memory, told) = engine(load);
        let go = Go {
            nodes: Some(10_000),
            ..Go::default()
        };
        let answer = answer_to(&mut engine, &told, &memory, go.clone());
        assert!(answer.best.is_some() && answer.ponder.is_some());
        assert!(memory.has_noted("error: dying"));
        // Nothing works any more, not even the root: still a legal move.
        engine.set_position(None, &["e2e4".into()]).unwrap();
        engine.clear_tree();
        let best = answer_to(&mut engine, &told, &memory, go).best.unwrap();
        let mut after = Chess::default();
        after.play_unchecked(setup::parse_move(&after, "e2e4").unwrap().unpack(&after));
        assert!(after.is_legal(best.unpack(&after)));
    }
}
