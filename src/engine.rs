//! The engine behind the protocol: the game, the options, the tree, the network, and the search that is running. Its
//! methods return at once; searching and loading happen on threads of their own. What it has to say goes to a
//! [`Listener`], which finds the words.

mod autopilot;
mod go;
mod kept_tree;
mod listener;
pub mod loader;
mod search_thread;
pub mod settings;
pub mod strength;
mod think;
mod timing;

#[cfg(test)]
mod tests;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use shakmaty::{EnPassantMode, Position, fen::Fen};

pub use self::{
    go::Go,
    listener::{Answer, Listener, Subject},
};
use self::{
    kept_tree::KeptTree,
    loader::{Loader, Retry},
    search_thread::SearchThread,
    settings::Settings,
    think::Task,
    timing::Timing,
};
use crate::{
    chess::{
        History, PackedMove, perft,
        setup::{self, SetupError},
    },
    network::opponent,
    options::{ContemptMode, OptionError, Options, layers::Layers},
    player::{self, Load},
    search::{
        self, Clock, Limits, StopSignal, SystemClock, time::ClockState,
        wdl_contempt::is_ignored_in_analysis,
    },
    syzygy::Tables,
};

/// How long one wait for the last words may take before it looks again whether they have been said.
const GLANCE: Duration = Duration::from_millis(1);

/// The state of the engine between commands.
pub struct Engine {
    settings: Settings,
    /// The game, or why there is none: the last one that was sent is not understood.
    game: Result<History, String>,
    tree: KeptTree,
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
    search_thread: SearchThread,
    running: Option<Running>,
    /// Whether it was said that search threads are missing.
    has_noted_threads: Arc<AtomicBool>,
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
}

impl Engine {
    /// An engine in the starting position. `layers` are the options as user and configuration file have set them; `load` makes networks;
    /// `on_finished` is called by each search thread at its end, after which [`Engine::search_ended`] must be called.
    pub fn new(
        layers: Layers,
        load: Load,
        listener: Arc<dyn Listener>,
        on_finished: impl Fn(Ended) + Send + Sync + 'static,
    ) -> Engine {
        let note = Arc::clone(&listener);
        let settings = Settings::new(layers, Arc::new(move |text: &str| note.note(text)));
        Engine {
            timing: Timing::new(settings.as_set()),
            settings,
            game: Ok(History::default()),
            tree: KeptTree::default(),
            loader: Loader::new(load),
            tables: (String::new(), None),
            clock: Arc::new(SystemClock::default()),
            listener,
            announcement: Arc::default(),
            idle: None,
            on_finished: Arc::new(on_finished),
            search_thread: SearchThread::new(),
            running: None,
            has_noted_threads: Arc::default(),
        }
    }

    /// The options as they were set.
    pub fn options(&self) -> &Options {
        self.settings.as_set()
    }

    /// Sets an option; it counts from the next search on.
    ///
    /// # Errors
    /// When there is no such option or the value does not fit.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        self.settings.set(name, value)
    }

    /// Drops the tree before the next search.
    pub fn clear_tree(&mut self) {
        self.tree.forget();
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
        self.settings.new_game();
        self.clear_hash();
    }

    /// Sets the position. If anything is wrong there is none until the next one comes: the game before is over.
    ///
    /// # Errors
    /// When the FEN, the position or a move is not legal.
    pub fn set_position(&mut self, fen: Option<&str>, moves: &[String]) -> Result<(), SetupError> {
        let game = setup::history_from(fen, moves)
            .and_then(|game| setup::check_castling(game, self.options().chess960));
        self.timing.position_set(self.clock.now());
        if let Ok(game) = &game {
            self.settings.see_position(game);
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
        let recommendations = self.settings.recommendations();
        let tell = move |result: Result<String, String>| match result {
            Ok(description) => *announcement.lock() = Some(description + &recommendations),
            Err(error) => listener.note(&format!("error: {error}")),
        };
        let (wanted, soon) = (self.settings.in_force(), self.settings.soon());
        self.loader.request(wanted, &soon, retry, tell);
    }

    /// Begins to load everything that a search will need, before it is asked for.
    pub fn preload(&mut self) {
        self.prepare(Retry::No);
        let _opened = self.tables();
    }

    /// Says that it is ready: at once during a search, otherwise when the tablebases are open and the network is loaded or has
    /// failed.
    pub fn answer_when_ready(&mut self) {
        if self.running.is_none() {
            let _opened = self.tables();
        }
        let (listener, clock) = (Arc::clone(&self.listener), Arc::clone(&self.clock));
        let mark = self.timing.ready_mark();
        let tell = move || {
            mark.set(clock.now());
            listener.ready();
        };
        if self.running.is_some() || !self.loader.is_loading() {
            return tell();
        }
        // Ready or broken: the GUI gets its answer, and the reason was told before.
        self.loader.when_loaded(Arc::new(tell));
    }

    /// Waits until everybody who asked has been told that it is ready, or nobody listens any more.
    pub fn wait_until_ready(&self) {
        while self.loader.has_waiting() && !self.listener.is_gone() {
            thread::sleep(GLANCE);
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
        let is_analysis = go.infinite && !go.ponder;
        self.settings.begin(go, game, is_analysis);
        self.prepare(Retry::Yes);
        let options = self.settings.in_force();
        // Also right when the position before this one is searched to ponder: it is the side the engine plays.
        let contempt_side = player::contempt_side(options, game.position().turn());
        self.tree.begin(options, game, contempt_side, &root_moves);
        self.note_if_idle();
        if is_analysis {
            self.note_whose_replies(game);
        }
        let limits = self.limits(go, game, received);
        if limits.infinite && !go.ponder {
            self.note_if_contempt_is_off();
        }
        let (stop, silent) = (StopSignal::default(), Arc::default());
        let endless = limits.infinite;
        let task = Task {
            subject: Subject {
                position: game.position().clone(),
                options: Arc::new(self.settings.in_force().clone()),
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
            tree: self.tree.share(),
            loader: self.loader.clone(),
            announcement: Arc::clone(&self.announcement),
            clock: Arc::clone(&self.clock),
            listener: Arc::clone(&self.listener),
            stop: stop.clone(),
            silent: Arc::clone(&silent),
            has_noted_threads: Arc::clone(&self.has_noted_threads),
        };
        let ponder = go.ponder.then_some(asked);
        let endless = endless || task.limits.is_mate_only();
        self.start(stop, silent, ponder, endless, move || task.run());
    }

    /// When the time that a search has began to run: that of a clock perhaps before `go`, any other with it.
    fn received(&self, go: &Go) -> Duration {
        let now = self.clock.now();
        let started = self
            .timing
            .started(self.settings.in_force().strict_timing, now);
        let usual = if go.has_clock() { started } else { now };
        go.received.unwrap_or(usual)
    }

    /// When the search ends: by what was asked for, and by the clock.
    fn limits(&mut self, go: &Go, game: &History, received: Duration) -> Limits {
        let clock = go.clock_state(self.settings.in_force(), game);
        let by_clock = clock.map(|clock| {
            let clock = ClockState {
                known_nodes: search::known_visits(&self.tree.lock(), game),
                ..clock
            };
            self.timing
                .plan(self.settings.in_force(), game, clock, received)
        });
        let mut limits = go.limits(self.settings.in_force(), by_clock);
        let (remaining, _) = go.clock(game.position().turn());
        if let Some(remaining) = remaining.filter(|_| go.ponder) {
            let asked = Duration::from_millis(self.settings.in_force().move_overhead_ms);
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
        let reserve = Duration::from_millis(self.settings.in_force().move_overhead_ms);
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
        if self.running.take().is_none() {
            return;
        }
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
                self.tree.replace();
                self.refuse("error: the search crashed; please report this");
            }
        }
    }

    /// Answers a `go` that comes to nothing.
    fn refuse(&self, reason: &str) {
        self.listener.note(reason);
        let nowhere = Subject {
            position: History::default().position().clone(),
            options: Arc::new(self.options().clone()),
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
        let work = Box::new(move || {
            let mut guard = guard;
            guard.ended = work();
        });
        let to_stop = stop.clone();
        self.running = Some(Running {
            stop,
            silent,
            ponder,
            endless,
        });
        if let Err((work, error)) = self.search_thread.run(work) {
            self.listener.note(&format!(
                "no thread can be started to search on ({error}): a single batch decides"
            ));
            // Nobody could stop it later.
            to_stop.stop();
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }

    fn perft(&mut self, game: &History, depth: u32) {
        let (stop, listener) = (StopSignal::default(), Arc::clone(&self.listener));
        let subject = Subject {
            position: game.position().clone(),
            options: Arc::new(self.options().clone()),
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
        let options = self.settings.in_force();
        if !options.is_plain_puct() && options.contempt_mode == ContemptMode::Play {
            let turn = game.position().turn();
            let (us, them) = turn.fold_wb(("White", "Black"), ("Black", "White"));
            self.listener.note(&format!(
                "ContemptMode play: {us} is to move, so search-contempt models {them}'s replies"
            ));
        }
    }

    fn note_if_contempt_is_off(&self) {
        if is_ignored_in_analysis(&self.settings.in_force().search()) {
            self.listener.note(
                "Contempt is off in an analysis without end: for whom? Say so with ContemptMode white_side_analysis \
                 or black_side_analysis",
            );
        }
    }

    /// The seed of the next search: a new one each time, unless one is given.
    fn seed(&self) -> u64 {
        match self.settings.in_force().seed {
            0 => rand::random(),
            seed => seed,
        }
    }

    /// Says once that a network which the user asked for plays no part.
    fn note_if_idle(&mut self) {
        let idle = opponent::why_idle(self.settings.in_force());
        if let Some(reason) = idle.filter(|_| idle != self.idle) {
            self.listener.note(reason);
        }
        self.idle = idle;
    }

    /// The tablebases that SyzygyPath asks for, opened when it changes. What is wrong with them is said once.
    fn tables(&mut self) -> Option<Arc<Tables>> {
        let path = &self.settings.in_force().syzygy_path;
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
