//! The engine behind the protocol: game, options, tree, network and the running search. Its methods do not wait for a
//! search or a network: searching and loading happen on other threads. The exceptions say so: `wait_until_ready`, and
//! `close`, which has a time limit. Profiles, tablebases and the file of lost games are opened at once, and the latter
//! is written at once: with another program holding its lock, in about a second. The output goes to a [`Listener`],
//! which writes it in the protocol.

mod autopilot;
mod go;
mod kept_tree;
mod latest;
mod listener;
pub mod loader;
mod lost_games;
mod perft;
mod search_thread;
pub mod settings;
pub mod strength;
mod think;
mod time_manager;
mod timing;
mod user_options;

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
use shakmaty::{Color, EnPassantMode, Position, fen::Fen};

pub use self::{
    autopilot::load_profiles,
    go::{Go, IgnoredWord},
    listener::{Answer, Listener, Subject},
    lost_games::Assessment,
    user_options::SetBy,
};
use self::{
    kept_tree::{KeptTree, Modelled},
    loader::{Loader, Retry},
    lost_games::LostGames,
    perft::PerftTask,
    search_thread::SearchThread,
    settings::Settings,
    think::{Noted, Task, wait_for_stop},
    time_manager::ClockState,
    timing::Timing,
};
use crate::{
    chess::{
        History, PackedMove,
        moves::legal_moves,
        setup::{self, SetupError},
    },
    network::opponent,
    options::{ContemptMode, OptionError, Options, layers::Layers},
    player::{self, Load},
    search::{self, Clock, Limits, StopSignal, SystemClock, wdl_contempt::is_ignored_in_analysis},
    syzygy::Tables,
    threads,
};

/// Interval at which the end of the program checks whether the last `readyok` was sent.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// How long a search for a mate goes on when the input has ended, or another search waits.
const TIME_FOR_MATE: Duration = Duration::from_secs(1);

/// The state of the engine between commands.
pub struct Engine {
    settings: Settings,
    /// The game, or why there is none: the last position was not valid.
    game: Result<History, String>,
    tree: KeptTree,
    /// The moves of lost games.
    lost_games: LostGames,
    loader: Loader,
    /// The open tablebases, if they could be opened, and the path of this attempt. `None` before the first one.
    tables: Option<(String, Option<Arc<Tables>>)>,
    clock: Arc<dyn Clock>,
    timing: Timing,
    listener: Arc<dyn Listener>,
    /// The description of newly loaded networks, for the next search: GUIs expect such lines during a search only.
    announcement: Arc<Mutex<Option<String>>>,
    /// Why the opponent's network is not used, as far as that was reported.
    idle: Option<String>,
    /// Reports that the engine is ready.
    report_ready: Arc<dyn Fn() + Send + Sync>,
    on_finished: Arc<dyn Fn(SearchEnd) + Send + Sync>,
    search_thread: SearchThread,
    running: Option<Running>,
    /// Whether the game ends with the running search: another one was begun meanwhile.
    game_ends_with_search: bool,
    /// What was reported about the machine's limits.
    noted: Arc<Noted>,
}

/// A requested search: `go`, and the game that it refers to.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The command.
    pub go: Go,
    game: History,
}

/// How a search ended. The result is reported when the engine handles the end, so that commands sent in reply find it
/// idle.
#[derive(Clone, Debug)]
pub enum SearchEnd {
    /// No answer is wanted.
    Silent,
    /// With the answer to a search.
    Answered(Subject, Answer),
    /// With a count of positions.
    Counted(u64),
    /// It panicked, and the GUI still waits for an answer.
    Panicked,
}

struct Running {
    stop: StopSignal,
    silent: Arc<AtomicBool>,
    /// The search that a `ponderhit` turns this one into.
    ponder: Option<SearchRequest>,
    ends_by: EndsBy,
    /// Whether it will be stopped when [`TIME_FOR_MATE`] is over.
    is_stop_scheduled: bool,
}

/// What ends a search unless `stop` comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndsBy {
    /// The search ends at its limits.
    Limits,
    /// It ends with the mate that it looks for, and there may be none.
    Mate,
    /// Only the GUI ends it.
    Stop,
    /// Only the GUI ends it, and there is no position to search: the answer waits for that.
    StopWithoutSearch,
}

impl Engine {
    /// An engine in the starting position. `layers` has what user and configuration file have set; `load` creates
    /// networks; `on_finished` is called by the search thread at the end of each search, after which
    /// [`Engine::handle_search_end`] must be called.
    pub fn new(
        layers: Layers,
        load: Load,
        listener: Arc<dyn Listener>,
        on_finished: impl Fn(SearchEnd) + Send + Sync + 'static,
    ) -> Engine {
        let clock = Arc::new(SystemClock::default());
        Engine::with_clock(clock, layers, load, listener, on_finished)
    }

    fn with_clock(
        clock: Arc<dyn Clock>,
        layers: Layers,
        load: Load,
        listener: Arc<dyn Listener>,
        on_finished: impl Fn(SearchEnd) + Send + Sync + 'static,
    ) -> Engine {
        let note = Arc::clone(&listener);
        let settings = Settings::new(layers, Arc::new(move |text: &str| note.note(text)));
        let timing = Timing::new(settings.as_set());
        let report_ready: Arc<dyn Fn() + Send + Sync> = {
            let (listener, clock) = (Arc::clone(&listener), Arc::clone(&clock));
            let mark = timing.ready_mark();
            Arc::new(move || {
                mark.set(clock.now());
                listener.ready();
            })
        };
        Engine {
            timing,
            settings,
            game: Ok(History::default()),
            tree: KeptTree::default(),
            lost_games: LostGames::default(),
            loader: Loader::new(load, Arc::clone(&report_ready)),
            report_ready,
            tables: None,
            clock,
            listener,
            announcement: Arc::default(),
            idle: None,
            on_finished: Arc::new(on_finished),
            search_thread: SearchThread::new(),
            running: None,
            game_ends_with_search: false,
            noted: Arc::default(),
        }
    }

    /// The options as they were set.
    pub fn options(&self) -> &Options {
        self.settings.as_set()
    }

    /// Sets an option for the next search. Where it names files of tablebases, profiles or lost games, these are read
    /// anew, also if they are the same: they may have changed.
    ///
    /// # Errors
    /// When there is no such option or the value does not fit.
    pub fn set_option(&mut self, name: &str, value: &str, by: SetBy) -> Result<(), OptionError> {
        self.settings.set(name, value, by)?;
        match Options::name_of(name) {
            Some("SyzygyPath") => self.tables = None,
            Some("LostGamesFile") => self.lost_games.forget_file(),
            _ => {}
        }
        Ok(())
    }

    /// Drops the tree before the next search.
    pub fn clear_tree(&mut self) {
        self.tree.drop_later();
    }

    /// Drops the tree and all cached evaluations.
    pub fn clear_hash(&mut self) {
        self.clear_tree();
        self.loader.clear_caches();
        self.prepare(Retry::No);
    }

    /// The next position belongs to another game.
    pub fn new_game(&mut self) {
        self.end_game();
        self.timing.new_game();
        self.settings.new_game();
        // What could not be opened may exist now.
        self.tables.take_if(|(_, opened)| opened.is_none());
        self.clear_hash();
    }

    /// Sets the position. If it is not valid, there is none until the next one is set: the previous game is over.
    ///
    /// # Errors
    /// When the FEN, the position or a move is not legal.
    pub fn set_position(&mut self, fen: Option<&str>, moves: &[String]) -> Result<(), SetupError> {
        let game = setup::history_from(fen, moves)
            .and_then(|game| setup::check_castling(game, self.options().chess960));
        self.timing.position_set(self.clock.now());
        if let Ok(game) = &game {
            self.settings.see_position(game);
            if self.lost_games.is_left_for(game) {
                self.end_game();
            }
        }
        self.game = game.as_ref().map_err(ToString::to_string).cloned();
        game.map(|_| ())
    }

    /// No position can be searched until the next one is set, for this reason.
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

    /// Starts loading the networks that are not loaded yet.
    pub fn prepare(&self, retry: Retry) {
        let listener = Arc::clone(&self.listener);
        let announcement = Arc::clone(&self.announcement);
        let report = move |result: Result<String, String>| match result {
            Ok(description) => *announcement.lock() = Some(description),
            Err(error) => listener.note(&format!("error: {error}")),
        };
        let (options, soon) = (self.settings.in_force(), self.settings.soon());
        self.loader.request(options, &soon, retry, report);
    }

    /// Starts loading everything that a search will need.
    pub fn preload(&mut self) {
        self.prepare(Retry::No);
        let _opened = self.open_tables();
    }

    /// Reports readiness: at once during a search, otherwise when the tablebases are open and the networks are loaded
    /// or have failed to load.
    pub fn answer_when_ready(&mut self) {
        if self.running.is_some() {
            return (self.report_ready)();
        }
        let _opened = self.open_tables();
        // The GUI gets its answer also without networks; the error was reported before.
        self.loader.report_when_loaded();
    }

    /// Waits until every `isready` is answered, or the output is closed.
    pub fn wait_until_ready(&self) {
        while self.loader.has_waiting() && !self.listener.is_gone() {
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends background work, and waits for that at most `timeout`.
    pub fn close(&mut self, timeout: Duration) {
        self.end_game();
        self.loader.close(timeout);
        if !self.loader.is_loading() {
            self.wait_until_ready();
        }
    }

    /// Whether a search is running, or has ended but was not handled yet.
    pub fn is_searching(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the running search may go on until the GUI ends it: it has no limit, or looks for a mate that may not
    /// exist, and its end was not asked for.
    pub fn may_never_end(&self) -> bool {
        self.running.as_ref().is_some_and(|running| {
            running.ends_by != EndsBy::Limits
                && !running.is_stop_scheduled
                && !running.stop.is_stopped()
        })
    }

    /// Ensures that the running search ends although the GUI cannot end it or asked for another one: one that may never
    /// end is stopped, at once, or after a second if it looks for a mate.
    pub fn ensure_end(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        match running.ends_by {
            EndsBy::Limits => {}
            EndsBy::Stop | EndsBy::StopWithoutSearch => self.stop(),
            EndsBy::Mate if running.is_stop_scheduled => {}
            EndsBy::Mate => {
                running.is_stop_scheduled = true;
                let stop = running.stop.clone();
                let wait = move || {
                    stop.wait(TIME_FOR_MATE);
                    stop.stop();
                };
                if threads::spawn("mate limit", wait).is_err() {
                    self.stop();
                }
            }
        }
    }

    /// Starts a search of the current position. No other may be running.
    pub fn go(&mut self, go: Go) {
        match self.game.clone() {
            Ok(game) => self.search(SearchRequest { go, game }),
            Err(error) => {
                let text = format!("no search: the last position was refused ({error})");
                match go.perft {
                    Some(_) => self.listener.note(&text),
                    None => self.refuse(&go, &text),
                }
            }
        }
    }

    /// Starts a search. No other may be running.
    pub fn search(&mut self, request: SearchRequest) {
        let SearchRequest { go, game } = &request;
        if let Some(depth) = go.perft {
            return self.perft(game, depth);
        }
        let Some(root_moves) = self.root_moves(go, game) else {
            return self.refuse(go, "no search: none of the searchmoves is legal here");
        };
        let received = self.received(go);
        let is_analysis = go.infinite && !go.ponder;
        self.settings.begin(go, game, is_analysis);
        self.prepare(Retry::Yes);
        let contempt_side = self.begin_tree(go, game);
        self.note_if_idle();
        let avoided = self.begin_lost_games(game, is_analysis);
        if is_analysis {
            self.note_modelled_side(game);
        }
        let limits = self.limits(go, game, &root_moves, received);
        if limits.infinite && !go.ponder {
            self.note_if_contempt_is_off();
        }
        let (stop, silent) = (StopSignal::default(), Arc::default());
        let ends_by = match limits.is_mate_only() {
            _ if limits.infinite => EndsBy::Stop,
            true => EndsBy::Mate,
            false => EndsBy::Limits,
        };
        // They would end lines before the mate.
        let tables = self.open_tables().filter(|_| go.mate.is_none());
        let task = Task {
            subject: Subject {
                position: game.position().clone(),
                options: Arc::new(self.settings.in_force().clone()),
            },
            root_moves,
            avoided,
            history: game.clone(),
            pondering: go.ponder,
            go: go.clone(),
            contempt_side,
            limits,
            received,
            patience: go.patience(game),
            seed: self.seed(),
            tables,
            tree: self.tree.share(),
            loader: self.loader.clone(),
            stand_in_options: self.settings.stand_in_options(),
            announcement: Arc::clone(&self.announcement),
            recommendations: self.settings.recommendations(),
            clock: Arc::clone(&self.clock),
            listener: Arc::clone(&self.listener),
            stop: stop.clone(),
            silent: Arc::clone(&silent),
            noted: Arc::clone(&self.noted),
        };
        let ponder = go.ponder.then_some(request);
        self.start(stop, silent, ponder, ends_by, move || task.run());
    }

    /// Prepares the tree for a search; returns the side whose opponent search-contempt models.
    fn begin_tree(&mut self, go: &Go, game: &History) -> Option<Color> {
        let mut options = self.settings.in_force().clone();
        // While pondering the position before this one is searched, but the side is the engine's own.
        let contempt_side = player::contempt_side(&options, game.position().turn());
        let modelled = Modelled {
            priors: opponent::side(&options, contempt_side),
            values: contempt_side.filter(|_| self.loader.reads_mover()),
        };
        if go.mate.is_some() {
            // A tree in which tablebases ended lines is of no use then.
            options.syzygy_path.clear();
        }
        self.tree.begin(&options, game, modelled);
        contempt_side
    }

    /// When the time of a search started: a game clock possibly before `go`, any other with it.
    fn received(&self, go: &Go) -> Duration {
        let now = self.clock.now();
        let started = self
            .timing
            .take_start(self.settings.in_force().strict_timing, now);
        let usual = if go.has_clock() { started } else { now };
        go.received.unwrap_or(usual)
    }

    /// The limits of a search, by its command and by the clock.
    fn limits(
        &mut self,
        go: &Go,
        game: &History,
        root_moves: &[PackedMove],
        received: Duration,
    ) -> Limits {
        let clock = go.clock_state(self.settings.in_force(), game);
        let by_clock = clock.map(|clock| {
            let clock = ClockState {
                known_nodes: search::known_visits(&self.tree.lock(), game, root_moves),
                ..clock
            };
            self.timing
                .plan(self.settings.in_force(), game, clock, received)
        });
        let mut limits = Limits {
            pondering: go.ponder,
            ..go.limits(self.settings.in_force(), by_clock)
        };
        let (remaining, _) = go.clock(game.position().turn());
        if let Some(remaining) = remaining.filter(|_| go.ponder) {
            let reserve = Duration::from_millis(self.settings.in_force().move_overhead_ms);
            limits.movetime = self.timing.pondering(remaining, reserve);
        }
        limits
    }

    /// Stops the running search, which then answers.
    pub fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.ponder = None;
            running.stop.stop();
        }
    }

    /// The expected reply was played: ends the ponder search silently. Returns the search to start once that has ended,
    /// or `None` if so little time is left that the result of pondering is the answer.
    pub fn ponder_hit(&mut self) -> Option<SearchRequest> {
        let running = self.running.as_mut()?;
        if running.ends_by == EndsBy::StopWithoutSearch {
            running.stop.stop();
        }
        let mut request = running.ponder.take()?;
        let (remaining, _) = request.go.clock(request.game.position().turn());
        let reserve = Duration::from_millis(self.settings.in_force().move_overhead_ms);
        if remaining.is_some_and(|left| self.timing.is_at_the_end(left, reserve)) {
            running.stop.stop();
            return None;
        }
        running.silent.store(true, Ordering::Relaxed);
        running.stop.stop();
        self.begin_clock(&mut request.go);
        Some(request)
    }

    /// The expected reply was played before pondering could start: makes it a normal search whose clock runs now.
    pub fn begin_clock(&self, go: &mut Go) {
        go.ponder = false;
        go.received = Some(self.clock.now());
    }

    /// Handles the end of a search, which its thread has announced.
    pub fn handle_search_end(&mut self, end: SearchEnd) {
        if self.running.take().is_none() {
            return;
        }
        self.loader.set_searching(false);
        if let SearchEnd::Answered(_, answer) = &end {
            self.lost_games.answer(answer.best, answer.assessment);
            let nodes = self.tree.lock().root_visits();
            self.timing.ended(self.clock.now(), nodes);
        }
        if std::mem::take(&mut self.game_ends_with_search) {
            self.end_game();
        }
        match end {
            SearchEnd::Silent => {}
            SearchEnd::Answered(subject, answer) => self.listener.answer(&subject, answer),
            SearchEnd::Counted(count) => self.listener.perft_total(count),
            SearchEnd::Panicked => {
                self.tree.replace();
                self.listener
                    .note("error: the search crashed; please report this");
                self.listener.answer(&self.no_subject(), Answer::default());
            }
        }
    }

    /// A search begins: returns the moves that led into lost games from its position, none if it is an analysis.
    fn begin_lost_games(&mut self, game: &History, is_analysis: bool) -> Vec<PackedMove> {
        let options = self.settings.in_force();
        if is_analysis || options.analyse_mode {
            self.lost_games.begin_analysis();
            return Vec::new();
        }
        let listener = &self.listener;
        let note = |text: &str| listener.note(text);
        self.lost_games.begin(&options.lost_games_file, game, &note)
    }

    /// The game has ended, which is remembered if it was lost.
    fn end_game(&mut self) {
        if self.running.is_some() {
            // Its last search may yet find that it is lost.
            self.game_ends_with_search = true;
            return;
        }
        let listener = &self.listener;
        self.lost_games.end(&|text| listener.note(text));
    }

    /// Answers a `go` that cannot be searched: at once, or when the GUI stops it if it asked for an endless search.
    fn refuse(&mut self, go: &Go, reason: &str) {
        self.listener.note(reason);
        let subject = self.no_subject();
        if !go.is_ended_by_gui() {
            return self.listener.answer(&subject, Answer::default());
        }
        let (stop, listener) = (StopSignal::default(), Arc::clone(&self.listener));
        let stopped = stop.clone();
        self.start(
            stop,
            Arc::default(),
            None,
            EndsBy::StopWithoutSearch,
            move || {
                wait_for_stop(&stopped, &*listener);
                SearchEnd::Answered(subject, Answer::default())
            },
        );
    }

    /// The subject of an answer without a move.
    fn no_subject(&self) -> Subject {
        Subject {
            position: History::default().position().clone(),
            options: Arc::new(self.options().clone()),
        }
    }

    fn start(
        &mut self,
        stop: StopSignal,
        silent: Arc<AtomicBool>,
        ponder: Option<SearchRequest>,
        ends_by: EndsBy,
        work: impl FnOnce() -> SearchEnd + Send + 'static,
    ) {
        self.loader.set_searching(true);
        let guard = Guard {
            end: SearchEnd::Panicked,
            on_finished: Arc::clone(&self.on_finished),
        };
        let work = Box::new(move || {
            let mut guard = guard;
            guard.end = work();
        });
        let to_stop = stop.clone();
        self.running = Some(Running {
            stop,
            silent,
            ponder,
            ends_by,
            is_stop_scheduled: false,
        });
        if let Err((work, error)) = self.search_thread.run(work) {
            self.listener.note(&format!(
                "the search thread cannot be started ({error}): the move is chosen after a single batch"
            ));
            // It could not be stopped later.
            to_stop.stop();
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }

    fn perft(&mut self, game: &History, depth: u32) {
        let stop = StopSignal::default();
        let task = PerftTask {
            subject: Subject {
                position: game.position().clone(),
                options: Arc::new(self.options().clone()),
            },
            depth,
            stop: stop.clone(),
            clock: Arc::clone(&self.clock),
            listener: Arc::clone(&self.listener),
        };
        self.start(stop, Arc::default(), None, EndsBy::Limits, move || {
            task.run()
        });
    }

    /// In an analysis, `ContemptMode play` depends on the side to move: reports which side is modelled.
    fn note_modelled_side(&self, game: &History) {
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
                "Contempt is off in an infinite analysis; ContemptMode white_side_analysis or \
                 black_side_analysis names the side that it favours",
            );
        }
    }

    /// The seed of the next search: the option's, or a new one for each search.
    fn seed(&self) -> u64 {
        match self.settings.in_force().seed {
            0 => rand::random(),
            seed => seed,
        }
    }

    /// Reports once that a network which the user has set is not used.
    fn note_if_idle(&mut self) {
        let reason = opponent::why_idle(self.settings.in_force());
        if reason != self.idle
            && let Some(reason) = &reason
        {
            self.listener.note(reason);
        }
        self.idle = reason;
    }

    /// The tablebases of SyzygyPath, which are opened when it is set. Errors are reported once in a game.
    fn open_tables(&mut self) -> Option<Arc<Tables>> {
        let path = &self.settings.in_force().syzygy_path;
        match &self.tables {
            Some((tried, opened)) if tried == path => return opened.clone(),
            _ => {}
        }
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
        self.tables = Some((path.clone(), opened.clone()));
        opened
    }

    /// The moves that a search is restricted to, in the order of the legal moves, so that the same moves in another
    /// order go on with the same tree; empty if it is not restricted, also where all legal moves are named. `None` if
    /// moves are named and none of them is legal.
    fn root_moves(&self, go: &Go, game: &History) -> Option<Vec<PackedMove>> {
        let mut named = Vec::new();
        for text in &go.search_moves {
            match setup::parse_move(game.position(), text) {
                Ok(m) => named.push(m),
                Err(error) => self.listener.note(&format!("searchmoves: {error}")),
            }
        }
        let legal: Vec<PackedMove> = legal_moves(game.position()).collect();
        let mut moves = legal.clone();
        moves.retain(|m| named.contains(m));
        match moves.is_empty() {
            true => go.search_moves.is_empty().then_some(moves),
            false if moves == legal => Some(Vec::new()),
            false => Some(moves),
        }
    }
}

/// Reports how a search ended when it is dropped.
struct Guard {
    end: SearchEnd,
    on_finished: Arc<dyn Fn(SearchEnd) + Send + Sync>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        (self.on_finished)(self.end.clone());
    }
}
