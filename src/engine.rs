//! The engine behind the protocol: the game, the options, the tree, the network, and the search that is running. Its
//! methods return at once; searching and loading happen on threads of their own.

pub mod loader;
mod think;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use shakmaty::{Color, EnPassantMode, Position, fen::Fen};

use self::{
    loader::{Load, Loader, Retry},
    think::Task,
};
use crate::{
    chess::{
        History, PackedMove, perft,
        setup::{self, SetupError},
    },
    network::{
        compose::decorators::{CACHE_ENTRY, cache_entries, caches},
        opponent,
    },
    options::{ContemptMode, Invalidates, OptionError, Options},
    search::{Clock, Limits, StopSignal, SystemClock, Tree, time},
    syzygy::Tables,
    uci::{command::Go, output::Output},
};

/// `isready` waits this long for a network that is being loaded; GUIs give up after 15 seconds or more.
const READY_PATIENCE: Duration = Duration::from_secs(8);

/// The state of the engine between commands.
pub struct Engine {
    options: Options,
    history: History,
    tree: Arc<Mutex<Tree>>,
    /// What the tree was searched with; `None` if it is to be dropped.
    tree_made_with: Option<MadeWith>,
    loader: Loader,
    /// The tablebases that are open, and the path that they were opened from.
    tables: (String, Option<Arc<Tables>>),
    clock: Arc<dyn Clock>,
    output: Output,
    /// What the loader has said and nobody has been told yet: GUIs expect such lines during a search only.
    announcement: Arc<Mutex<Option<String>>>,
    /// Why the opponent's network is idle, if that was said.
    idle: Option<&'static str>,
    on_finished: Arc<dyn Fn(Ended) + Send + Sync>,
    running: Option<Running>,
}

/// What a tree's statistics depend on besides the position.
struct MadeWith {
    options: Options,
    /// The side whose priors are a second network's.
    opponent: Option<Color>,
}

/// How a search thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this last line to be said, if any. It is said when the end is noticed, so that whatever the GUI sends in reply
    /// meets an engine that knows that it is idle.
    With(Option<String>),
    /// It panicked, and the GUI still waits for an answer.
    ByPanic,
}

struct Running {
    stop: StopSignal,
    silent: Arc<AtomicBool>,
    /// The command that a `ponderhit` turns into a normal search.
    ponder: Option<Go>,
    endless: bool,
    thread: JoinHandle<()>,
}

impl Engine {
    /// An engine in the starting position. `load` makes networks; `on_finished` is called by each search thread at its
    /// end, after which [`Engine::search_ended`] must be called.
    pub fn new(
        options: Options,
        load: Load,
        output: Output,
        on_finished: impl Fn(Ended) + Send + Sync + 'static,
    ) -> Engine {
        Engine {
            options,
            history: History::default(),
            tree: Arc::default(),
            tree_made_with: None,
            loader: Loader::new(load),
            tables: (String::new(), None),
            clock: Arc::new(SystemClock::default()),
            output,
            announcement: Arc::default(),
            idle: None,
            on_finished: Arc::new(on_finished),
            running: None,
        }
    }

    /// The options as they are now.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Sets an option; it counts from the next search on.
    ///
    /// # Errors
    /// When there is no such option or the value does not fit.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        self.options.set(name, value)
    }

    /// Drops the tree before the next search.
    pub fn clear_tree(&mut self) {
        self.tree_made_with = None;
    }

    /// Sets the position; the old one stays if anything is wrong.
    ///
    /// # Errors
    /// When the FEN, the position or a move is not legal.
    pub fn set_position(&mut self, fen: Option<&str>, moves: &[String]) -> Result<(), SetupError> {
        self.history = setup::history_from(fen, moves)?;
        Ok(())
    }

    /// The current position as a FEN.
    pub fn fen(&self) -> String {
        Fen::from_position(self.history.position(), EnPassantMode::Legal).to_string()
    }

    /// Begins to load the network, if it is not there yet.
    pub fn prepare(&self, retry: Retry) {
        let output = self.output.clone();
        let announcement = Arc::clone(&self.announcement);
        let tell = move |result: Result<String, String>| match result {
            Ok(description) => *announcement.lock() = Some(description),
            Err(error) => output.note(&format!("error: {error}")),
        };
        self.loader.request(&self.options, retry, tell);
    }

    /// Says `readyok`: at once during a search, otherwise when the network is loaded or has taken too long.
    pub fn answer_when_ready(&self) {
        if self.running.is_some() || !self.loader.is_loading() {
            self.output.line("readyok");
            return;
        }
        let (loader, output) = (self.loader.clone(), self.output.clone());
        thread::spawn(move || {
            let deadline = Instant::now() + READY_PATIENCE;
            // Ready or not, or broken: the GUI gets its answer, and the reason was told before.
            let _ = loader.wait(&StopSignal::default(), Some(deadline));
            output.line("readyok");
        });
    }

    /// Ends what is done in the background, if that is possible within `patience`.
    pub fn close(&self, patience: Duration) {
        self.loader.close(patience);
    }

    /// Whether a search is running (or its end has not been noticed yet).
    pub fn is_searching(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the search that is running ends only when it is told to.
    pub fn is_endless(&self) -> bool {
        self.running.as_ref().is_some_and(|r| r.endless)
    }

    /// Starts a search. Nothing may be running.
    pub fn go(&mut self, go: Go) {
        if let Some(depth) = go.perft {
            return self.perft(depth);
        }
        let received = go.received.unwrap_or_else(|| self.clock.now());
        self.prepare(Retry::Yes);
        // Also right when the position before this one is searched to ponder: it is the side the engine plays.
        let contempt_side = contempt_side(&self.options, self.history.position().turn());
        self.forget_what_is_outdated(contempt_side);
        self.note_if_idle();
        let limits = self.limits(&go);
        let (stop, silent) = (StopSignal::default(), Arc::default());
        let task = Task {
            root_moves: self.root_moves(&go),
            history: self.history.clone(),
            pondering: go.ponder,
            contempt_side,
            endless: limits.infinite,
            limits,
            received,
            patience: self.patience(&go),
            options: Arc::new(self.options.clone()),
            tables: self.tables(),
            tree: Arc::clone(&self.tree),
            loader: self.loader.clone(),
            announcement: Arc::clone(&self.announcement),
            clock: Arc::clone(&self.clock),
            output: self.output.clone(),
            stop: stop.clone(),
            silent: Arc::clone(&silent),
        };
        let endless = task.endless;
        let ponder = go.ponder.then_some(go);
        self.start(stop, silent, ponder, endless, move || task.run());
    }

    /// Tells the search that is running to answer.
    pub fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.ponder = None;
            running.stop.stop();
        }
    }

    /// The expected reply was played: ends the ponder search silently. What must be started instead, once the search has
    /// ended, is returned.
    pub fn ponder_hit(&mut self) -> Option<Go> {
        let running = self.running.as_mut()?;
        let go = running.ponder.take()?;
        running.silent.store(true, Ordering::Relaxed);
        running.stop.stop();
        Some(Go {
            ponder: false,
            received: Some(self.clock.now()),
            ..go
        })
    }

    /// Cleans up after a search thread that has said that it is at its end.
    pub fn search_ended(&mut self, ended: Ended) {
        let Some(running) = self.running.take() else {
            return;
        };
        // How it ended is known already.
        let _ = running.thread.join();
        self.loader.set_searching(false);
        match ended {
            Ended::With(None) => {}
            Ended::With(Some(line)) => self.output.line(&line),
            Ended::ByPanic => {
                self.tree = Arc::default();
                self.output
                    .note("error: the search crashed; please report this");
                self.output.line("bestmove (none)");
            }
        }
    }

    fn start(
        &mut self,
        stop: StopSignal,
        silent: Arc<AtomicBool>,
        ponder: Option<Go>,
        endless: bool,
        work: impl FnOnce() -> Option<String> + Send + 'static,
    ) {
        self.loader.set_searching(true);
        let guard = Guard {
            ended: Ended::ByPanic,
            tell: Arc::clone(&self.on_finished),
        };
        let thread = thread::spawn(move || {
            let mut guard = guard;
            guard.ended = Ended::With(work());
        });
        self.running = Some(Running {
            stop,
            silent,
            ponder,
            endless,
            thread,
        });
    }

    fn perft(&mut self, depth: u32) {
        let (stop, output) = (StopSignal::default(), self.output.clone());
        let position = self.history.position().clone();
        let (chess960, signal) = (self.options.chess960, stop.clone());
        self.start(stop, Arc::default(), None, false, move || {
            let mut total = 0;
            for m in position.legal_moves() {
                let mut after = position.clone();
                after.play_unchecked(m);
                let stopped = || signal.is_stopped();
                let count = perft::count(&after, depth.saturating_sub(1), &stopped);
                let name = setup::move_text(&position, PackedMove::pack(m), chess960);
                output.line(&format!("{name}: {count}"));
                total += count;
            }
            Some(format!("Nodes searched: {total}"))
        });
    }

    /// A tree that the options have outdated is dropped, on another thread because that takes time.
    fn forget_what_is_outdated(&mut self, contempt_side: Option<Color>) {
        let opponent = opponent::side(&self.options, contempt_side);
        let usable = self.tree_made_with.as_ref().is_some_and(|old| {
            self.options.invalidated_since(&old.options) < Invalidates::Tree
                && opponent == old.opponent
        });
        if !usable {
            let old = std::mem::take(&mut *self.tree.lock());
            thread::spawn(move || {
                let _dropped_here = old;
            });
        }
        self.tree_made_with = Some(MadeWith {
            options: self.options.clone(),
            opponent,
        });
    }

    /// Says once that a network which the user asked for plays no part.
    fn note_if_idle(&mut self) {
        let idle = opponent::why_idle(&self.options);
        if let Some(reason) = idle.filter(|_| idle != self.idle) {
            self.output.note(reason);
        }
        self.idle = idle;
    }

    /// The tablebases that SyzygyPath asks for, opened when it changes. What is wrong with them is said once.
    fn tables(&mut self) -> Option<Arc<Tables>> {
        let path = &self.options.syzygy_path;
        if *path != self.tables.0 {
            let opened = (!path.is_empty()).then(|| Tables::open(path));
            let opened = opened.and_then(|opened| match opened {
                Ok(tables) => {
                    self.output.note(&tables.describe());
                    Some(Arc::new(tables))
                }
                Err(error) => {
                    self.output.note(&format!("error: {error}"));
                    None
                }
            });
            self.tables = (path.clone(), opened);
        }
        self.tables.1.clone()
    }

    fn root_moves(&self, go: &Go) -> Vec<PackedMove> {
        let mut moves = Vec::new();
        for text in &go.search_moves {
            match setup::parse_move(self.history.position(), text) {
                Ok(m) => moves.push(m),
                Err(error) => self.output.note(&format!("searchmoves: {error}")),
            }
        }
        moves
    }

    fn limits(&self, go: &Go) -> Limits {
        let mut limits = self.time_limits(go);
        limits.depth = go.depth;
        limits.mate = go.mate;
        let endless = go.infinite || go.ponder;
        let option = Some(self.options.node_limit).filter(|&n| n > 0 && !endless);
        let nodes = go.nodes.into_iter().chain(option).min();
        if self.options.nodes_as_playouts {
            limits.playouts = nodes;
        } else {
            limits.nodes = nodes;
        }
        limits.infinite = endless || limits == Limits::default();
        limits.tree_bytes = tree_bytes(&self.options);
        limits
    }

    /// How long a search may wait for a network: not beyond its time, or half of what is left on the clock.
    fn patience(&self, go: &Go) -> Option<Duration> {
        let (clock, _) = go.clock(self.history.position().turn());
        clock
            .filter(|_| !go.infinite && !go.ponder)
            .map(|left| left / 2)
            .into_iter()
            .chain(go.movetime)
            .min()
    }

    fn time_limits(&self, go: &Go) -> Limits {
        let overhead = Duration::from_millis(self.options.move_overhead_ms);
        let mut limits = Limits::default();
        if go.infinite || go.ponder {
            return limits;
        }
        let position = self.history.position();
        let (remaining, increment) = go.clock(position.turn());
        if go.wtime.or(go.btime).is_some() {
            limits = time::plan(&time::ClockState {
                // A clock that only the other side has is a mistake somewhere; being quick is the safe answer.
                remaining: remaining.unwrap_or_default(),
                increment,
                moves_to_go: go.moves_to_go,
                ply: (u32::from(position.fullmoves()) - 1).saturating_mul(2),
                overhead,
                slowmover: self.options.slowmover,
                ponder: self.options.ponder,
            });
        }
        if let Some(exact) = go.movetime {
            let exact = time::fixed(exact, overhead);
            limits.movetime = Some(limits.movetime.map_or(exact, |hard| hard.min(exact)));
        }
        limits
    }
}

/// The side whose opponent search-contempt models, when the engine plays `playing`.
pub fn contempt_side(options: &Options, playing: Color) -> Option<Color> {
    match options.contempt_mode {
        ContemptMode::Play => Some(playing),
        ContemptMode::WhiteSideAnalysis => Some(Color::White),
        ContemptMode::BlackSideAnalysis => Some(Color::Black),
        ContemptMode::Disable => None,
    }
}

/// The memory that the tree may take, in bytes: what RamLimitMb leaves beside full caches.
pub fn tree_bytes(options: &Options) -> Option<usize> {
    let limit = options.ram_limit_mb << 20;
    let caches = cache_entries(options) as u64 * caches(options) * CACHE_ENTRY;
    let rest = limit.checked_sub(caches)?;
    usize::try_from(rest).ok().filter(|&rest| rest > 0)
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
    use super::*;

    #[test]
    fn a_clock_is_not_lost_to_a_network_that_is_still_being_loaded() {
        let (ended, answers) = std::sync::mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let wait = Arc::clone(&is_over);
        let load: Load = Arc::new(move |_, _| {
            while !wait.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            anyhow::bail!("the test is over")
        });
        let output = Output::new(Box::new(std::io::sink()));
        let mut engine = Engine::new(Options::default(), load, output, move |end| {
            ended.send(end).unwrap();
        });
        for go in [
            Go {
                wtime: Some(Duration::from_millis(20)),
                ..Go::default()
            },
            Go {
                movetime: Some(Duration::from_millis(10)),
                ..Go::default()
            },
        ] {
            engine.go(go);
            let Ended::With(Some(answer)) = answers.recv().unwrap() else {
                panic!("no answer");
            };
            assert!(answer.starts_with("bestmove a2"), "{answer}");
            engine.search_ended(Ended::With(None));
        }
        is_over.store(true, Ordering::Relaxed);
    }

    #[test]
    fn tree_and_cache_share_the_memory() {
        let mut options = Options::default();
        assert_eq!(tree_bytes(&options), None);
        assert_eq!(cache_entries(&options), 2_000_000);
        for (opponent, caches) in [("", 1), ("maia.pb.gz", 2)] {
            options.set("OpponentWeights", opponent).unwrap();
            for megabytes in ["1", "16", "1000", "100000000"] {
                options.set("Hash", megabytes).unwrap();
                let limit = (options.ram_limit_mb << 20) as usize;
                let cache = caches * cache_entries(&options) * CACHE_ENTRY as usize;
                let tree = tree_bytes(&options).unwrap();
                assert!(tree >= limit / 2 && tree + cache <= limit);
                assert!(tree + cache + 1000 > limit || cache_entries(&options) == 2_000_000);
            }
        }
    }
}
