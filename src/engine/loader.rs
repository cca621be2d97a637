//! Loads the networks on a thread of its own, so that the engine answers the GUI meanwhile. There is at most one such
//! thread: while it works, the latest request waits, and earlier ones are dropped. Loaded networks are kept until the
//! options need other ones: another opponent's network leaves the main one in place, and another temperature or cache
//! size changes only what is in front of a network's backend. When the user changes between a game and its analysis,
//! the backends that only one of them needs are on standby during the other.
//!
//! The same thread then warms the networks up (on GPUs the first run of each batch size is slow): searches do not wait
//! for that but interrupt it, and it ends when other networks are requested or the program ends.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, ensure};
use parking_lot::MutexGuard;

use super::{
    latest::{Latest, LatestState},
    strength,
};
use crate::{
    network::{
        Evaluator,
        backend::without_library,
        compose::cached::NetworkSettings,
        opponent::{Networks, Role, are_same},
        source::{NetworkSource, built_in::BUILT_IN},
    },
    options::{Invalidates, Options},
    player::Load,
    search::StopSignal,
    threads,
};

/// Interval at which a wait for the loader checks the stop signal.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Whether to try again what has failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The file may exist now.
    Yes,
    /// It was reported already.
    No,
}

/// Why there are no networks.
#[derive(Clone, Debug, PartialEq)]
pub enum NotLoaded {
    /// Loading failed, with this error.
    Failed(String),
    /// They are not loaded yet, and the wait is over.
    NotYet,
}

/// The numbers of the loads that networks come from, one for each of [`Role::ALL`]; `None` for networks that are not
/// used. Where they are the same, nothing was loaded anew.
pub type LoadNumbers = [Option<u64>; Role::ALL.len()];

/// Networks, where they come from, and what is wrong with others.
#[derive(Clone)]
struct LoadedNetworks {
    networks: Networks,
    numbers: LoadNumbers,
    /// Why a network beside the main one is not used.
    problem: Option<String>,
}

/// The networks that are loaded, or being loaded. Clones share them.
#[derive(Clone)]
pub struct Loader {
    load: Load,
    /// To be called when loading has ended, once for each [`Loader::report_when_loaded`].
    on_loaded: Arc<dyn Fn() + Send + Sync>,
    slot: Arc<Latest<Request, LoaderState>>,
}

struct LoaderState {
    /// The options that the result belongs to; `None` before the first request.
    requested: Option<Options>,
    result: Result<Networks, NotLoaded>,
    /// The loads that the networks of the result come from.
    numbers: LoadNumbers,
    /// The number of loads so far.
    loads: u64,
    /// Whether a network beside the main one failed to load.
    is_incomplete: bool,
    /// The last error that was reported for these options, in this game.
    reported: Option<String>,
    /// The networks that were loaded last.
    loaded: [Option<Loaded>; Role::ALL.len()],
    /// Backends that are not in use, but will be soon.
    standby: Vec<Standby>,
    /// The built-in network, once it had to replace the others.
    stand_in: Option<Loaded>,
    /// Evicted backends, for that thread to drop.
    unused: Vec<Standby>,
    /// How many calls of `on_loaded` are due when loading has ended.
    waiting: usize,
    /// Whether they are being made.
    is_calling: bool,
    /// Whether a search runs, during which the warm-up pauses.
    is_searching: bool,
}

/// Options whose networks are to be loaded, and the receiver of the result.
struct Request {
    /// Larger than those of earlier requests.
    number: u64,
    options: Options,
    done: Box<dyn Fn(Result<String, String>) + Send>,
}

/// A loaded network.
struct Loaded {
    /// The options that the backend was loaded for.
    options: Options,
    /// The number of the load.
    number: u64,
    backend: Arc<dyn Evaluator>,
    settings: NetworkSettings,
    /// The backend with those settings.
    evaluator: Arc<dyn Evaluator>,
}

/// A backend that is not in use, without its cache, which would waste memory.
struct Standby {
    role: Role,
    /// The options that it was loaded for.
    options: Options,
    /// The number of the load.
    number: u64,
    backend: Arc<dyn Evaluator>,
}

/// Whether a backend that was loaded for the options `made_for` is the one that `options` need.
fn is_usable(made_for: &Options, options: &Options, role: Role) -> bool {
    role.is_wanted(options)
        && role.weights(options) == role.weights(made_for)
        && options.invalidated_since(made_for) < Invalidates::Network
}

impl LoaderState {
    fn is_loading(&self) -> bool {
        self.requested.is_some() && matches!(self.result, Err(NotLoaded::NotYet))
    }

    fn loaded(&mut self, role: Role) -> &mut Option<Loaded> {
        &mut self.loaded[role as usize]
    }

    /// Removes the backends that `options` do not need: those that one of `soon` needs become standbys, the others are
    /// evicted, so that the old and the new ones are not in memory together. Returns the evicted ones, because dropping
    /// them may take time.
    fn evict(&mut self, options: &Options, soon: &[&Options]) -> Vec<Standby> {
        for role in Role::ALL {
            let unused = self
                .loaded(role)
                .take_if(|loaded| !is_usable(&loaded.options, options, role));
            self.standby.extend(unused.map(|loaded| Standby {
                role,
                options: loaded.options,
                number: loaded.number,
                backend: loaded.backend,
            }));
        }
        let is_unneeded = |standby: &mut Standby| {
            let mut needed_by = std::iter::once(options).chain(soon.iter().copied());
            !needed_by.any(|options| is_usable(&standby.options, options, standby.role))
        };
        self.standby.extract_if(.., is_unneeded).collect()
    }

    /// The standby that `options` need, and the number of its load, if there is one.
    fn find_standby(&self, options: &Options, role: Role) -> Option<(Arc<dyn Evaluator>, u64)> {
        let mut standbys = self.standby.iter().filter(|standby| standby.role == role);
        let found = standbys.find(|standby| is_usable(&standby.options, options, role));
        found.map(|standby| (Arc::clone(&standby.backend), standby.number))
    }
}

impl Loader {
    /// Nothing is loaded before the first [`Loader::request`]. `on_loaded` is what [`Loader::report_when_loaded`]
    /// calls.
    pub fn new(load: Load, on_loaded: Arc<dyn Fn() + Send + Sync>) -> Loader {
        let state = LoaderState {
            requested: None,
            result: Err(NotLoaded::NotYet),
            numbers: LoadNumbers::default(),
            loads: 0,
            is_incomplete: false,
            reported: None,
            loaded: Default::default(),
            standby: Vec::new(),
            stand_in: None,
            unused: Vec::new(),
            waiting: 0,
            is_calling: false,
            is_searching: false,
        };
        Loader {
            load,
            on_loaded,
            slot: Arc::new(Latest::new(state)),
        }
    }

    /// Starts loading the networks that `options` need, unless they are loaded or being loaded, and warms them up
    /// afterwards. Networks that only one of `soon` needs stay loaded if they are. `done` receives the result, which is
    /// the networks' description or the error, and later errors; an error that another attempt repeats in the same game
    /// is not reported again.
    pub fn request(
        &self,
        options: &Options,
        soon: &[&Options],
        retry: Retry,
        done: impl Fn(Result<String, String>) + Send + 'static,
    ) {
        let mut state = self.slot.lock();
        let same = state
            .requested
            .as_ref()
            .is_some_and(|old| are_same(old, options));
        let failed = matches!(state.result, Err(NotLoaded::Failed(_)));
        let unused = state.evict(options, soon);
        if same && !(failed && retry == Retry::Yes) {
            // Without the lock.
            drop(state);
            drop(unused);
            return;
        }
        if !same {
            state.reported = None;
        }
        state.requested = Some(options.clone());
        state.result = Err(NotLoaded::NotYet);
        state.is_incomplete = false;
        state.unused.extend(unused);
        let is_idle = state.submit(|number| Request {
            number,
            options: options.clone(),
            done: Box::new(done),
        });
        drop(state);
        // The warm-up of networks that are not needed any more ends.
        self.slot.notify();
        if is_idle {
            let loader = self.clone();
            if let Err(error) = threads::spawn("loader", move || loader.work()) {
                self.give_up(&error);
            }
        }
    }

    /// The loading thread: works until no request waits.
    fn work(&self) {
        let take_unused = |state: &mut LoaderState| std::mem::take(&mut state.unused);
        self.slot
            .work(take_unused, |next: Option<Request>, unused| {
                let number = next.as_ref().map(|request| request.number);
                let work = || {
                    drop(unused);
                    if let Some(request) = next {
                        self.load_and_warm_up(&request);
                    }
                };
                if catch_unwind(AssertUnwindSafe(work)).is_err() {
                    self.fail(number, "loading the network crashed".into());
                }
            });
    }

    /// No loading thread could be started.
    fn give_up(&self, error: &io::Error) {
        let Some(request) = self.slot.cancel() else {
            return;
        };
        let text = format!("no thread can be started to load the network: {error}");
        (request.done)(Err(text.clone()));
        self.fail(Some(request.number), text);
    }

    /// Ends the request of this number, if it is the latest and has not ended, without networks.
    fn fail(&self, number: Option<u64>, text: String) {
        let mut state = self.slot.lock();
        if number.is_some_and(|number| state.is_latest(number)) && state.is_loading() {
            state.result = Err(NotLoaded::Failed(text));
            self.loading_ended(state);
        }
    }

    fn load_and_warm_up(&self, request: &Request) {
        let done = &request.done;
        let result = self.load(request);
        let loaded = result.as_ref().ok().map(|loaded| loaded.networks.clone());
        let report = |reported: Option<&str>| match &result {
            Ok(loaded) => {
                if let Some(problem) = &loaded.problem {
                    done(Err(problem.clone()));
                }
                done(Ok(loaded.networks.describe()));
            }
            Err(error) => {
                let text = format!("{error:#}");
                if reported != Some(&*text) {
                    done(Err(text));
                }
            }
        };
        self.finish(request, &result, report);
        let Some(networks) = loaded else { return };
        let warm_up = || networks.warm_up(&|| self.may_warm_up(request));
        match catch_unwind(AssertUnwindSafe(warm_up)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => done(Err(error.to_string())),
            Err(_) => done(Err("the backend crashed while warming up".into())),
        }
    }

    /// Waits while a search runs. Returns whether the request is still the latest one.
    fn may_warm_up(&self, request: &Request) -> bool {
        self.slot
            .may_continue(request.number, |state| state.is_searching)
    }

    /// A search starts or has ended: it should not share the device with a warm-up.
    pub fn set_searching(&self, is_searching: bool) {
        self.slot.lock().is_searching = is_searching;
        self.slot.notify();
    }

    /// Ends the warm-up and waits, at most `timeout`, until no library computes any more: one that still does while the
    /// process ends may crash.
    pub fn close(&self, timeout: Duration) {
        self.slot.close(Instant::now() + timeout);
    }

    /// Waits for the networks, until `stop` or the deadline.
    ///
    /// # Errors
    /// When there are none.
    pub fn wait(
        &self,
        stop: &StopSignal,
        deadline: Option<Instant>,
    ) -> Result<Networks, NotLoaded> {
        let waited = self.wait_for_numbers(stop, deadline);
        waited.map(|(networks, _)| networks)
    }

    /// As [`Loader::wait`], with the loads that the networks come from.
    ///
    /// # Errors
    /// As [`Loader::wait`].
    pub fn wait_for_numbers(
        &self,
        stop: &StopSignal,
        deadline: Option<Instant>,
    ) -> Result<(Networks, LoadNumbers), NotLoaded> {
        let mut state = self.slot.lock();
        loop {
            let over = stop.is_stopped() || deadline.is_some_and(|at| Instant::now() >= at);
            if over || !matches!(state.result, Err(NotLoaded::NotYet)) {
                let numbers = state.numbers;
                return state.result.clone().map(|networks| (networks, numbers));
            }
            self.slot
                .wait_until(&mut state, Instant::now() + POLL_INTERVAL);
        }
    }

    /// Whether something is being loaded.
    pub fn is_loading(&self) -> bool {
        self.slot.lock().is_loading()
    }

    /// Whether the values of the loaded network depend on which side's opponent is modelled.
    pub fn reads_mover(&self) -> bool {
        let state = self.slot.lock();
        let networks = state.result.as_ref().ok();
        networks.is_some_and(|networks| networks.main.info().reads_mover)
    }

    /// Calls `on_loaded` when the networks are loaded or have failed to load: at once if nothing is being loaded.
    pub fn report_when_loaded(&self) {
        let mut state = self.slot.lock();
        if state.is_loading() {
            state.waiting += 1;
            return;
        }
        drop(state);
        (self.on_loaded)();
    }

    /// Whether such calls are still to be made.
    pub fn has_waiting(&self) -> bool {
        let state = self.slot.lock();
        state.waiting > 0 || state.is_calling
    }

    /// The built-in network on a backend that needs no library and loads in milliseconds, with the temperature and the
    /// cache of `options`: it plays until the others are loaded. `None` if this program has none.
    pub fn stand_in(&self, options: &Options) -> Option<Networks> {
        let backend = without_library(&NetworkSource::new(BUILT_IN))?.name;
        let with_backend = |options: &Options| Options {
            backend: backend.into(),
            ..options.clone()
        };
        let settings = NetworkSettings::of(&with_backend(options), Role::Main);
        // Heads and encoding in the options are those of another network.
        let options = with_backend(&Options::default());
        let known = match &self.slot.lock().stand_in {
            Some(known) if known.settings == settings => {
                return Some(Networks::alone(Arc::clone(&known.evaluator)));
            }
            known => known.as_ref().map(|known| Arc::clone(&known.backend)),
        };
        let backend = match known {
            Some(backend) => backend,
            None => self.load_one(&options, Role::Main).ok()?,
        };
        let evaluator = settings.over(Arc::clone(&backend));
        self.slot.lock().stand_in = Some(Loaded {
            options,
            // Its trees are never kept.
            number: 0,
            backend,
            settings,
            evaluator: Arc::clone(&evaluator),
        });
        Some(Networks::alone(evaluator))
    }

    /// Before a new game: clears the caches. A network that failed to load may exist now, and if not, the error is
    /// reported again.
    pub fn clear_caches(&self) {
        let mut state = self.slot.lock();
        state.reported = None;
        if std::mem::take(&mut state.is_incomplete) {
            state.requested = None;
        }
        let [main, opponent, refiner] = Role::ALL.map(|role| {
            let loaded = state.loaded(role).as_mut()?;
            let backend = Arc::clone(&loaded.backend);
            loaded.evaluator = loaded.settings.over(backend);
            Some(Arc::clone(&loaded.evaluator))
        });
        if let (Ok(networks), Some(main)) = (&mut state.result, main) {
            networks.main = main;
            networks.opponent = networks.opponent.take().and(opponent);
            networks.refiner = networks.refiner.take().and(refiner);
        }
    }

    /// The networks, of which some may be loaded already. If one beside the main one fails to load, the game goes on
    /// without it, and the error is returned, too.
    fn load(&self, request: &Request) -> anyhow::Result<LoadedNetworks> {
        let options = &request.options;
        let main = self.network(request, Role::Main);
        let (main, main_number) = match strength::human_network(options) {
            // The name of the file in the error is not one that the user has set.
            Some(_) => main.context("HumanWeights")?,
            None => main?,
        };
        let mut problems = Vec::new();
        let [opponent, refiner] = [Role::Opponent, Role::Refiner].map(|role| {
            let network = role
                .is_wanted(options)
                .then(|| self.network(request, role))?;
            let problem = |error| format!("{}: {error:#}; playing without it", role.option());
            network.map_err(|error| problems.push(problem(error))).ok()
        });
        let (opponent, opponent_number) = opponent.unzip();
        let (refiner, refiner_number) = refiner.unzip();
        Ok(LoadedNetworks {
            networks: Networks {
                main,
                opponent,
                refiner,
            },
            numbers: [Some(main_number), opponent_number, refiner_number],
            problem: (!problems.is_empty()).then(|| problems.join("; ")),
        })
    }

    /// A network with the settings of the options, and the number of its load. Its backend is loaded if it is not yet.
    fn network(&self, request: &Request, role: Role) -> anyhow::Result<(Arc<dyn Evaluator>, u64)> {
        let options = &request.options;
        let settings = NetworkSettings::of(options, role);
        let mut state = self.slot.lock();
        let kept = match state.loaded(role) {
            // Loaded for a newer request.
            Some(loaded) if !is_usable(&loaded.options, options, role) => None,
            Some(loaded) if loaded.settings == settings => {
                return Ok((Arc::clone(&loaded.evaluator), loaded.number));
            }
            Some(loaded) => Some((Arc::clone(&loaded.backend), loaded.number)),
            None => state.find_standby(options, role),
        };
        drop(state);
        let (backend, number) = match kept {
            Some(kept) => kept,
            None => {
                let mut state = self.slot.lock();
                ensure!(
                    state.is_latest(request.number),
                    "superseded by a newer request"
                );
                state.loads += 1;
                let number = state.loads;
                drop(state);
                (self.load_one(options, role)?, number)
            }
        };
        let evaluator = settings.over(Arc::clone(&backend));
        let mut state = self.slot.lock();
        // A superseded request does not replace what a newer one has loaded.
        if state.is_latest(request.number) {
            let is_it = |standby: &Standby| Arc::ptr_eq(&standby.backend, &backend);
            state.standby.retain(|standby| !is_it(standby));
            *state.loaded(role) = Some(Loaded {
                options: options.clone(),
                number,
                backend,
                settings,
                evaluator: Arc::clone(&evaluator),
            });
        }
        Ok((evaluator, number))
    }

    /// Third-party libraries are called here: their panics become errors.
    fn load_one(&self, options: &Options, role: Role) -> anyhow::Result<Arc<dyn Evaluator>> {
        catch_unwind(AssertUnwindSafe(|| (self.load)(options, role)))
            .unwrap_or_else(|_| Err(anyhow!("the backend crashed while loading the network")))
    }

    /// Stores the result, unless a newer request supersedes it. `report` receives the error that was reported last.
    fn finish(
        &self,
        request: &Request,
        result: &anyhow::Result<LoadedNetworks>,
        report: impl FnOnce(Option<&str>),
    ) {
        let mut state = self.slot.lock();
        if state.is_latest(request.number) {
            // Reported first: the message must precede those of searches that wait for the network.
            report(state.reported.as_deref());
            state.is_incomplete = result.as_ref().is_ok_and(|loaded| loaded.problem.is_some());
            state.result = match result {
                Ok(loaded) => {
                    state.numbers = loaded.numbers;
                    Ok(loaded.networks.clone())
                }
                Err(error) => Err(NotLoaded::Failed(format!("{error:#}"))),
            };
            state.reported = match &state.result {
                Err(NotLoaded::Failed(text)) => Some(text.clone()),
                _ => None,
            };
            self.loading_ended(state);
        }
    }

    /// Wakes everybody who has waited for the end of loading, and makes the calls that were due then. `state` has the
    /// result: nobody who asks for a newer request may come in between.
    fn loading_ended(&self, mut state: MutexGuard<'_, LatestState<Request, LoaderState>>) {
        let count = std::mem::take(&mut state.waiting);
        state.is_calling = count > 0;
        drop(state);
        self.slot.notify();
        if count > 0 {
            (0..count).for_each(|_| (self.on_loaded)());
            self.slot.lock().is_calling = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    };

    use parking_lot::Mutex;

    use super::*;
    use crate::{
        network::{Batch, EvaluateError, Info, hash::HashEvaluator},
        threads::faults,
    };

    /// How often each network was loaded.
    #[derive(Default)]
    struct LoadCounts([AtomicUsize; Role::ALL.len()]);

    impl LoadCounts {
        /// Of the main network and the opponent's.
        fn get(&self) -> (usize, usize) {
            let of = |role| self.0[role as usize].load(Ordering::Relaxed);
            (of(Role::Main), of(Role::Opponent))
        }
    }

    /// One to which nobody listens.
    fn new_loader(load: Load) -> Loader {
        Loader::new(load, Arc::new(|| {}))
    }

    fn loader() -> (Loader, Arc<LoadCounts>) {
        let counts = Arc::new(LoadCounts::default());
        let counted = Arc::clone(&counts);
        let load = move |options: &Options, role: Role| {
            counted.0[role as usize].fetch_add(1, Ordering::Relaxed);
            ensure!(options.opponent_weights != "missing", "it is missing");
            Ok(Arc::new(HashEvaluator) as Arc<dyn Evaluator>)
        };
        (new_loader(Arc::new(load)), counts)
    }

    fn request(loader: &Loader, options: &Options) -> Result<Networks, NotLoaded> {
        loader.request(options, &[], Retry::Yes, |_| {});
        loader.wait(&StopSignal::default(), None)
    }

    #[test]
    fn another_opponent_leaves_the_main_network_loaded() {
        let (loader, counts) = loader();
        let mut options = Options::default();
        assert!(request(&loader, &options).unwrap().opponent.is_none());
        assert_eq!(counts.get(), (1, 0));
        options.set("OpponentWeights", "maia-1100").unwrap();
        assert!(request(&loader, &options).unwrap().opponent.is_some());
        options.set("OpponentWeights", "maia-1500").unwrap();
        request(&loader, &options).unwrap();
        assert_eq!(counts.get(), (1, 2));
        // What concerns the search only reloads nothing.
        options.set("OpponentPolicyMix", "0.8").unwrap();
        request(&loader, &options).unwrap();
        assert_eq!(counts.get(), (1, 2));
        options.set("OpponentWeights", "").unwrap();
        request(&loader, &options).unwrap();
        options.set("WeightsFile", "other").unwrap();
        request(&loader, &options).unwrap();
        assert_eq!(counts.get(), (2, 2));
    }

    #[test]
    fn backends_that_are_needed_soon_stay_loaded() {
        let (loader, counts) = loader();
        let request_networks = |options: &Options, soon: Option<&Options>| {
            loader.request(options, soon.as_slice(), Retry::Yes, |_| {});
            loader.wait(&StopSignal::default(), None).unwrap()
        };
        let analysis = Options::default();
        let mut play = analysis.clone();
        play.set("WeightsFile", "for odds").unwrap();
        play.set("OpponentWeights", "maia-1100").unwrap();
        request_networks(&play, None);
        for _ in 0..3 {
            assert!(request_networks(&analysis, Some(&play)).opponent.is_none());
            assert!(request_networks(&play, Some(&analysis)).opponent.is_some());
        }
        assert_eq!(counts.get(), (2, 1));
        request_networks(&analysis, Some(&play));
        // Not needed any more, though nothing has to be loaded.
        request_networks(&analysis, None);
        assert!(loader.slot.lock().standby.is_empty());
        assert_eq!(counts.get(), (2, 1));
        request_networks(&play, Some(&analysis));
        assert_eq!(counts.get(), (3, 2));
        // A standby is evicted if other networks are needed soon.
        let mut other = analysis.clone();
        other.set("WeightsFile", "another").unwrap();
        request_networks(&play, Some(&other));
        assert!(loader.slot.lock().standby.is_empty());
    }

    #[test]
    fn caches_and_temperatures_change_while_the_backends_stay() {
        let (loader, counts) = loader();
        let mut options = Options::default();
        options.set("OpponentWeights", "maia-1100").unwrap();
        let mut before = request(&loader, &options).unwrap();
        for (option, value, is_new) in [
            ("NNCacheSize", "1000", [true, true]),
            ("Hash", "1", [false, false]),
            ("RamLimitMb", "100", [false, false]),
            ("NNCacheSize", "900000", [true, true]),
            ("PolicyTemperature", "1.5", [true, false]),
            ("OpponentPolicyTemperature", "0.8", [false, true]),
            ("CPuct", "2", [false, false]),
        ] {
            options.set(option, value).unwrap();
            let now = request(&loader, &options).unwrap();
            let (old, new) = (before.opponent.as_ref(), now.opponent.as_ref());
            let same = [
                Arc::ptr_eq(&before.main, &now.main),
                Arc::ptr_eq(old.unwrap(), new.unwrap()),
            ];
            assert_eq!(same.map(|same| !same), is_new, "{option} {value}");
            assert_eq!(counts.get(), (1, 1), "{option} {value}");
            before = now;
        }
    }

    #[test]
    fn the_numbers_of_loads_change_with_what_is_loaded_anew() {
        let (loader, _) = loader();
        let numbers = |options: &Options| {
            request(&loader, options).unwrap();
            let waited = loader.wait_for_numbers(&StopSignal::default(), None);
            waited.unwrap().1
        };
        let mut options = Options::default();
        options.set("OpponentWeights", "maia-1100").unwrap();
        let [first_main, first_opponent, refiner] = numbers(&options);
        assert_ne!(first_main, first_opponent);
        assert_eq!(refiner, None);
        options.set("PolicyTemperature", "1.5").unwrap();
        assert_eq!(numbers(&options), [first_main, first_opponent, None]);
        options.set("OpponentWeights", "maia-1500").unwrap();
        let [main, opponent, _] = numbers(&options);
        assert_eq!(main, first_main);
        assert_ne!(opponent, first_opponent);
        // The same name may be that of another file now.
        let before = options.clone();
        options.set("WeightsFile", "other").unwrap();
        let [other, ..] = numbers(&options);
        let [again, ..] = numbers(&before);
        assert!(main != other && other != again && again != main);
    }

    #[test]
    fn the_network_that_stands_in_has_the_temperature_of_the_options() {
        let (loader, counts) = loader();
        let mut options = Options::default();
        let stand_in = |options: &Options| loader.stand_in(options).unwrap().main;
        let first = stand_in(&options);
        assert!(Arc::ptr_eq(&first, &stand_in(&options)));
        options.set("PolicyTemperature", "1.5").unwrap();
        assert!(!Arc::ptr_eq(&first, &stand_in(&options)));
        // It is loaded once.
        assert_eq!(counts.get(), (1, 0));
    }

    #[test]
    fn a_missing_opponent_is_reported_and_done_without_until_the_next_game() {
        let (loader, counts) = loader();
        let mut options = Options::default();
        request(&loader, &options).unwrap();
        options.set("OpponentWeights", "missing").unwrap();
        let (sender, results) = channel();
        let done = move |result| sender.send(result).unwrap();
        loader.request(&options, &[], Retry::Yes, done.clone());
        let networks = loader.wait(&StopSignal::default(), None).unwrap();
        assert!(networks.opponent.is_none());
        let problem = "OpponentWeights: it is missing; playing without it";
        assert_eq!(results.recv().unwrap(), Err(problem.into()));
        assert!(results.recv().unwrap().is_ok());
        // Not with every move, but once a game.
        loader.request(&options, &[], Retry::Yes, done.clone());
        assert_eq!(counts.get(), (1, 1));
        loader.clear_caches();
        loader.request(&options, &[], Retry::No, done);
        assert!(loader.wait(&StopSignal::default(), None).is_ok());
        assert_eq!(counts.get(), (1, 2));
        options.set("OpponentWeights", "there").unwrap();
        assert!(request(&loader, &options).unwrap().opponent.is_some());
    }

    /// An opponent's network was missing before it.
    #[test]
    fn a_new_game_during_a_load_does_not_repeat_it() {
        let gate = gate();
        let request = |options: &Options| gate.loader.request(options, &[], Retry::No, |_| {});
        let mut incomplete = weights("first");
        incomplete.opponent_weights = "missing".into();
        request(&incomplete);
        gate.may_end.send(()).unwrap();
        let networks = gate.loader.wait(&StopSignal::default(), None).unwrap();
        assert!(networks.opponent.is_none());
        request(&weights("second"));
        let begun: Vec<_> = gate.begun.iter().take(2).collect();
        assert_eq!(begun, ["first", "second"]);
        gate.loader.clear_caches();
        request(&weights("second"));
        drop(gate.may_end);
        assert!(gate.loader.wait(&StopSignal::default(), None).is_ok());
        gate.loader.close(Duration::from_secs(60));
        assert_eq!(gate.begun.try_iter().count(), 0);
    }

    /// Each search tries again.
    #[test]
    fn an_error_that_repeats_is_reported_once_in_a_game() {
        let load = |_: &Options, _: Role| -> anyhow::Result<Arc<dyn Evaluator>> {
            Err(anyhow!("it is missing"))
        };
        let loader = new_loader(Arc::new(load));
        let (sender, results) = channel();
        let reported = |options: &Options| {
            let sender = sender.clone();
            let done = move |result| sender.send(result).unwrap();
            loader.request(options, &[], Retry::Yes, done);
            let failed = NotLoaded::Failed("it is missing".into());
            let waited = loader.wait(&StopSignal::default(), None);
            assert_eq!(waited.err(), Some(failed));
            results.try_iter().collect::<Vec<Result<String, String>>>()
        };
        let error = [Err("it is missing".to_owned())];
        let options = Options::default();
        assert_eq!(reported(&options), error);
        assert!(reported(&options).is_empty());
        assert_eq!(reported(&weights("another")), error);
        assert_eq!(reported(&options), error);
        loader.clear_caches();
        assert_eq!(reported(&options), error);
        assert!(reported(&options).is_empty());
    }

    /// A network that says which file it is from.
    struct Named(String);

    impl Evaluator for Named {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            HashEvaluator.evaluate(batch)
        }
        fn info(&self) -> Info {
            Info {
                description: self.0.clone(),
                ..HashEvaluator.info()
            }
        }
    }

    #[test]
    fn a_superseded_network_is_not_kept() {
        let (release, released) = channel::<()>();
        let (begin, begun) = channel();
        let (released, begin) = (Mutex::new(released), Mutex::new(begin));
        let load = move |options: &Options, _| {
            if options.weights_file == "slow" {
                begin.lock().send(()).unwrap();
                let _ = released.lock().recv();
            }
            Ok(Arc::new(Named(options.weights_file.clone())) as Arc<dyn Evaluator>)
        };
        let loader = new_loader(Arc::new(load));
        let mut options = Options::default();
        options.set("WeightsFile", "slow").unwrap();
        loader.request(&options, &[], Retry::No, |_| {});
        begun.recv().unwrap();
        options.set("WeightsFile", "quick").unwrap();
        loader.request(&options, &[], Retry::No, |_| {});
        release.send(()).unwrap();
        let networks = loader.wait(&StopSignal::default(), None).unwrap();
        assert_eq!(networks.describe(), "quick");
        loader.close(Duration::from_secs(60));
        // The next game has a new cache before the same network.
        loader.clear_caches();
        assert_eq!(request(&loader, &options).unwrap().describe(), "quick");
    }

    /// A network that takes three runs to be warm. Each is announced, and ends when it may.
    struct Cold {
        begun: Mutex<Sender<u32>>,
        may_end: Mutex<Receiver<()>>,
    }

    impl Evaluator for Cold {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            HashEvaluator.evaluate(batch)
        }
        fn warm_up(&self, go_on: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
            for run in 0..3 {
                if !go_on() {
                    break;
                }
                let _ = self.begun.lock().send(run);
                let _ = self.may_end.lock().recv();
            }
            Err(EvaluateError::NotFinite {
                network: "cold".into(),
                output: "policy".into(),
            })
        }
        fn info(&self) -> Info {
            Info {
                description: "cold".into(),
                ..HashEvaluator.info()
            }
        }
    }

    fn cold() -> (Loader, Receiver<u32>, Sender<()>) {
        let (begun, begins) = channel();
        let (end, may_end) = channel();
        let network: Arc<dyn Evaluator> = Arc::new(Cold {
            begun: Mutex::new(begun),
            may_end: Mutex::new(may_end),
        });
        let loader = new_loader(Arc::new(move |_: &Options, _| Ok(Arc::clone(&network))));
        (loader, begins, end)
    }

    /// Loads each main network when it may, and notes which and in how many threads at most. Those of opponents are
    /// missing.
    struct Gate {
        loader: Loader,
        begun: Receiver<String>,
        may_end: Sender<()>,
        most: Arc<AtomicUsize>,
        /// How often the loader has reported that loading has ended.
        reports: Arc<AtomicUsize>,
    }

    fn gate() -> Gate {
        let (begin, begun) = channel();
        let (may_end, ends) = channel::<()>();
        let (begin, ends) = (Mutex::new(begin), Mutex::new(ends));
        let (most, now) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let counted = Arc::clone(&most);
        let load = move |options: &Options, role: Role| {
            ensure!(role != Role::Opponent, "it is missing");
            let threads = now.fetch_add(1, Ordering::SeqCst) + 1;
            counted.fetch_max(threads, Ordering::SeqCst);
            let _ = begin.lock().send(options.weights_file.clone());
            let _ = ends.lock().recv();
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(Arc::new(HashEvaluator) as Arc<dyn Evaluator>)
        };
        let reports = Arc::new(AtomicUsize::new(0));
        let reported = Arc::clone(&reports);
        let on_loaded = move || {
            reported.fetch_add(1, Ordering::SeqCst);
        };
        Gate {
            loader: Loader::new(Arc::new(load), Arc::new(on_loaded)),
            begun,
            may_end,
            most,
            reports,
        }
    }

    fn weights(name: &str) -> Options {
        Options {
            weights_file: name.into(),
            refine_weights: String::new(),
            ..Options::default()
        }
    }

    #[test]
    fn of_many_changes_while_a_network_loads_only_the_last_is_loaded() {
        let gate = gate();
        let results = Arc::new(Mutex::new(Vec::new()));
        for number in 0..300 {
            let results = Arc::clone(&results);
            let done = move |result: Result<String, String>| {
                results.lock().push((number, result.is_ok()));
            };
            let options = weights(&number.to_string());
            gate.loader.request(&options, &[], Retry::No, done);
            if number == 0 {
                assert_eq!(gate.begun.recv().as_deref(), Ok("0"));
            }
        }
        drop(gate.may_end);
        assert!(gate.loader.wait(&StopSignal::default(), None).is_ok());
        gate.loader.close(Duration::from_secs(60));
        assert_eq!(gate.begun.try_iter().collect::<Vec<_>>(), ["299"]);
        assert_eq!(gate.most.load(Ordering::SeqCst), 1);
        assert_eq!(*results.lock(), [(299, true)]);
    }

    #[test]
    fn a_change_back_to_what_is_being_loaded_loads_it_again() {
        let gate = gate();
        for (number, name) in ["a", "b", "a"].into_iter().enumerate() {
            gate.loader.request(&weights(name), &[], Retry::No, |_| {});
            if number == 0 {
                assert_eq!(gate.begun.recv().as_deref(), Ok("a"));
            }
        }
        drop(gate.may_end);
        assert!(gate.loader.wait(&StopSignal::default(), None).is_ok());
        assert_eq!(gate.begun.try_iter().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn all_who_wait_are_called_once_when_loading_ends_and_no_thread_is_started_for_them() {
        let gate = gate();
        let ((), started) = faults::during(
            |_| false,
            || {
                gate.loader.request(&weights("a"), &[], Retry::No, |_| {});
                (0..30_000).for_each(|_| gate.loader.report_when_loaded());
            },
        );
        assert_eq!((started, gate.reports.load(Ordering::SeqCst)), (1, 0));
        drop(gate.may_end);
        gate.loader.close(Duration::from_secs(60));
        assert!(!gate.loader.has_waiting());
        assert_eq!(gate.reports.load(Ordering::SeqCst), 30_000);
        // Nothing is being loaded: at once.
        gate.loader.report_when_loaded();
        assert_eq!(gate.reports.load(Ordering::SeqCst), 30_001);
    }

    #[test]
    fn a_loading_thread_that_cannot_be_started_is_an_error_and_the_next_request_tries_again() {
        let (loader, counts) = loader();
        let options = Options::default();
        let ((), _) = faults::during(
            |_| true,
            || {
                let failed = request(&loader, &options).err().unwrap();
                let NotLoaded::Failed(text) = failed else {
                    panic!("it waits");
                };
                assert!(text.contains("no thread can be started"), "{text}");
            },
        );
        assert!(request(&loader, &options).is_ok());
        assert_eq!(counts.get(), (1, 0));
    }

    #[test]
    fn searches_do_not_wait_for_the_warm_up_and_its_errors_are_reported() {
        let (loader, begins, end) = cold();
        let (sender, results) = channel();
        let done = move |result| sender.send(result).unwrap();
        loader.request(&Options::default(), &[], Retry::No, done);
        assert_eq!(begins.recv(), Ok(0));
        // It is warming up, and can be used.
        assert!(!loader.is_loading());
        assert!(loader.wait(&StopSignal::default(), None).is_ok());
        assert_eq!(results.recv(), Ok(Ok("cold".into())));
        drop(end);
        assert_eq!(begins.iter().take(2).collect::<Vec<_>>(), [1, 2]);
        assert!(results.recv().unwrap().unwrap_err().contains("cold"));
    }

    #[test]
    fn the_warm_up_rests_while_a_search_runs() {
        let (loader, begins, end) = cold();
        loader.request(&Options::default(), &[], Retry::No, |_| {});
        assert_eq!(begins.recv(), Ok(0));
        loader.set_searching(true);
        end.send(()).unwrap();
        // Nothing can begin before the search has ended: whatever begins sees that it has.
        let ended = std::thread::spawn({
            let loader = loader.clone();
            move || {
                std::thread::sleep(2 * POLL_INTERVAL);
                let before = begins.try_iter().count();
                loader.set_searching(false);
                (before, begins.recv())
            }
        });
        assert_eq!(ended.join().unwrap(), (0, Ok(1)));
    }

    #[test]
    fn the_warm_up_ends_with_the_program_or_when_another_network_is_wanted() {
        let (loader, begins, end) = cold();
        let mut options = Options::default();
        loader.request(&options, &[], Retry::No, |_| {});
        assert_eq!(begins.recv(), Ok(0));
        options.set("WeightsFile", "another").unwrap();
        loader.request(&options, &[], Retry::No, |_| {});
        // The first warm-up ends here, the second begins.
        end.send(()).unwrap();
        assert_eq!(begins.recv(), Ok(0));
        // The end of the program waits at most its timeout.
        loader.close(POLL_INTERVAL);
        drop(end);
        loader.close(Duration::from_secs(60));
        assert!(!loader.slot.lock().is_busy());
    }
}
