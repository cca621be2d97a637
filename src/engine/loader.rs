//! Loads the networks on a thread of its own, so that the engine answers the GUI meanwhile. What was loaded is kept until
//! the options ask for something else; another opponent's network leaves the main one where it is.
//!
//! Once the networks can be used, the same thread warms them up (on GPUs the first run of each batch size is slow): nobody
//! waits for that, a search interrupts it, and it ends when other networks are wanted or the program ends.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use parking_lot::{Condvar, Mutex};

use super::cache_entries;
use crate::{
    network::{
        Evaluator,
        opponent::{Networks, Role},
    },
    options::{Invalidates, Options},
    search::StopSignal,
};

/// Makes an evaluator for one of the networks as the options say.
pub type Load = Arc<dyn Fn(&Options, Role) -> anyhow::Result<Arc<dyn Evaluator>> + Send + Sync>;

/// How long one wait for the loader may take before a stop signal is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// Whether to try again what has failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The file may be there now.
    Yes,
    /// It was reported already.
    No,
}

/// Why there is no evaluator.
#[derive(Clone, Debug, PartialEq)]
pub enum NotLoaded {
    /// Loading failed; this is what is wrong.
    Failed(String),
    /// It is not ready yet, and the wait is over.
    NotYet,
}

/// The networks that are loaded, or being loaded. Clones share them.
#[derive(Clone)]
pub struct Loader {
    load: Load,
    slot: Arc<Slot>,
}

struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The options that the result belongs to; `None` before the first request.
    wanted: Option<Options>,
    result: Result<Networks, NotLoaded>,
    /// The last main network that was loaded, and the options that it belongs to.
    main: Option<(Options, Arc<dyn Evaluator>)>,
    /// Threads that load or warm up.
    busy: usize,
    /// Whether warming up has to rest because a search runs.
    is_searching: bool,
    /// Whether the program is about to end.
    is_closed: bool,
}

impl Loader {
    /// Nothing is loaded before the first [`Loader::request`].
    pub fn new(load: Load) -> Loader {
        let state = Mutex::new(State {
            wanted: None,
            result: Err(NotLoaded::NotYet),
            main: None,
            busy: 0,
            is_searching: false,
            is_closed: false,
        });
        let changed = Condvar::new();
        Loader {
            load,
            slot: Arc::new(Slot { state, changed }),
        }
    }

    /// Begins to load what `options` ask for, unless that is already there or on its way, and to warm it up afterwards.
    /// `done` is told how loading ended: the networks' description or what is wrong; and what goes wrong later.
    pub fn request(
        &self,
        options: &Options,
        retry: Retry,
        done: impl Fn(Result<String, String>) + Send + 'static,
    ) {
        let mut state = self.slot.state.lock();
        let same = state
            .wanted
            .as_ref()
            .is_some_and(|old| options.invalidated_since(old) < Invalidates::OpponentNetwork);
        let failed = matches!(state.result, Err(NotLoaded::Failed(_)));
        if same && !(failed && retry == Retry::Yes) {
            return;
        }
        state.wanted = Some(options.clone());
        state.result = Err(NotLoaded::NotYet);
        state.busy += 1;
        drop(state);
        // Who warms up what is no longer wanted must hear of it.
        self.slot.changed.notify_all();
        let (busy, options) = (Busy(self.clone()), options.clone());
        thread::spawn(move || busy.0.work(&options, done));
    }

    fn work(&self, options: &Options, done: impl Fn(Result<String, String>)) {
        let result = self.load(options);
        let loaded = result.as_ref().ok().cloned();
        let told = match &result {
            Ok(networks) => Ok(networks.describe()),
            Err(error) => Err(format!("{error:#}")),
        };
        self.finish(options, result, || done(told));
        let Some(networks) = loaded else { return };
        let warm_up = || networks.warm_up(&|| self.may_warm_up(options));
        match catch_unwind(AssertUnwindSafe(warm_up)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => done(Err(error.to_string())),
            Err(_) => done(Err("the backend crashed while warming up".into())),
        }
    }

    /// Waits while a search runs. Whether these are still the networks that are wanted.
    fn may_warm_up(&self, options: &Options) -> bool {
        let mut state = self.slot.state.lock();
        loop {
            if state.is_closed || state.wanted.as_ref() != Some(options) {
                return false;
            }
            if !state.is_searching {
                return true;
            }
            self.slot.changed.wait(&mut state);
        }
    }

    /// Tells whether a search runs: it should not have to share the device with a warm-up.
    pub fn set_searching(&self, is_searching: bool) {
        self.slot.state.lock().is_searching = is_searching;
        self.slot.changed.notify_all();
    }

    /// Ends the warm-up and waits, but not for longer than `patience`, until no library is at work any more: a library
    /// that still computes while the process ends may crash.
    pub fn close(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.slot.state.lock();
        state.is_closed = true;
        self.slot.changed.notify_all();
        while state.busy > 0 {
            if self
                .slot
                .changed
                .wait_until(&mut state, deadline)
                .timed_out()
            {
                return;
            }
        }
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
        let mut state = self.slot.state.lock();
        loop {
            let over = stop.is_stopped() || deadline.is_some_and(|at| Instant::now() >= at);
            if over || !matches!(state.result, Err(NotLoaded::NotYet)) {
                return state.result.clone();
            }
            self.slot.changed.wait_for(&mut state, GLANCE);
        }
    }

    /// Whether something is being loaded.
    pub fn is_loading(&self) -> bool {
        let state = self.slot.state.lock();
        state.wanted.is_some() && matches!(state.result, Err(NotLoaded::NotYet))
    }

    /// The networks, of which the main one may be there already.
    fn load(&self, options: &Options) -> anyhow::Result<Networks> {
        let main = match self.loaded_main(options) {
            Some(main) => main,
            None => {
                let main = self.load_one(options, Role::Main)?;
                self.slot.state.lock().main = Some((options.clone(), Arc::clone(&main)));
                main
            }
        };
        Networks::with_main(main, options, |role| self.load_one(options, role))
    }

    /// The main network that was loaded before, if it is what `options` ask for, in a cache of the right size. What they do
    /// not ask for is let go, so that not both are in memory.
    fn loaded_main(&self, options: &Options) -> Option<Arc<dyn Evaluator>> {
        let main = &mut self.slot.state.lock().main;
        let is_wanted = |old: &Options| {
            options.invalidated_since(old) < Invalidates::Network
                && cache_entries(options) == cache_entries(old)
        };
        *main = main.take().filter(|(old, _)| is_wanted(old));
        main.as_ref().map(|(_, main)| Arc::clone(main))
    }

    /// Libraries of other people are called here: what they do wrong becomes an error.
    fn load_one(&self, options: &Options, role: Role) -> anyhow::Result<Arc<dyn Evaluator>> {
        catch_unwind(AssertUnwindSafe(|| (self.load)(options, role)))
            .unwrap_or_else(|_| Err(anyhow!("the backend crashed while loading the network")))
    }

    /// Keeps the result, unless something else has been asked for meanwhile.
    fn finish(&self, options: &Options, result: anyhow::Result<Networks>, tell: impl FnOnce()) {
        let mut state = self.slot.state.lock();
        if state.wanted.as_ref() == Some(options) {
            // Told first: who waits for the network should read about it before anything else.
            tell();
            state.result = result.map_err(|error| NotLoaded::Failed(format!("{error:#}")));
            self.slot.changed.notify_all();
        }
    }
}

/// Counts as a busy thread until it is dropped.
struct Busy(Loader);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.slot.state.lock().busy -= 1;
        self.0.slot.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    };

    use anyhow::ensure;

    use super::*;
    use crate::network::{Advice, Batch, EvaluateError, hash::HashEvaluator};

    /// How often each network was loaded.
    #[derive(Default)]
    struct Counts {
        main: AtomicUsize,
        opponent: AtomicUsize,
    }

    impl Counts {
        fn get(&self) -> (usize, usize) {
            let (main, opponent) = (&self.main, &self.opponent);
            (
                main.load(Ordering::Relaxed),
                opponent.load(Ordering::Relaxed),
            )
        }
    }

    fn loader() -> (Loader, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let load = move |options: &Options, role: Role| {
            let count = match role {
                Role::Main => &counted.main,
                Role::Opponent => &counted.opponent,
            };
            count.fetch_add(1, Ordering::Relaxed);
            ensure!(options.opponent_weights != "missing", "it is missing");
            Ok(Arc::new(HashEvaluator) as Arc<dyn Evaluator>)
        };
        (Loader::new(Arc::new(load)), counts)
    }

    fn request(loader: &Loader, options: &Options) -> Result<Networks, NotLoaded> {
        loader.request(options, Retry::Yes, |_| {});
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
        options.set("OpponentPolicyTemperature", "0.8").unwrap();
        request(&loader, &options).unwrap();
        assert_eq!(counts.get(), (1, 3));
        // What concerns the search only reloads nothing.
        options.set("OpponentPolicyMix", "0.8").unwrap();
        request(&loader, &options).unwrap();
        assert_eq!(counts.get(), (1, 3));
        // With a memory limit the main network's cache gets smaller when there is another one.
        options.set("Hash", "100").unwrap();
        request(&loader, &options).unwrap();
        options.set("OpponentWeights", "").unwrap();
        request(&loader, &options).unwrap();
        assert_eq!(counts.get(), (3, 4));
    }

    #[test]
    fn a_missing_opponent_is_an_error_and_the_main_network_waits_for_the_next_try() {
        let (loader, counts) = loader();
        let mut options = Options::default();
        request(&loader, &options).unwrap();
        options.set("OpponentWeights", "missing").unwrap();
        let error = request(&loader, &options).err();
        let expected = NotLoaded::Failed("OpponentWeights: it is missing".into());
        assert_eq!(error, Some(expected));
        options.set("OpponentWeights", "there").unwrap();
        assert!(request(&loader, &options).unwrap().opponent.is_some());
        assert_eq!(counts.get(), (1, 2));
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
        fn advice(&self) -> Advice {
            HashEvaluator.advice()
        }
        fn describe(&self) -> String {
            "cold".into()
        }
    }

    fn cold() -> (Loader, Receiver<u32>, Sender<()>) {
        let (begun, begins) = channel();
        let (end, may_end) = channel();
        let network: Arc<dyn Evaluator> = Arc::new(Cold {
            begun: Mutex::new(begun),
            may_end: Mutex::new(may_end),
        });
        let loader = Loader::new(Arc::new(move |_: &Options, _| Ok(Arc::clone(&network))));
        (loader, begins, end)
    }

    #[test]
    fn nobody_waits_for_the_warm_up_and_what_is_wrong_is_told() {
        let (loader, begins, end) = cold();
        let (tell, told) = channel();
        let done = move |result| tell.send(result).unwrap();
        loader.request(&Options::default(), Retry::No, done);
        assert_eq!(begins.recv(), Ok(0));
        // It is warming up, and can be used.
        assert!(!loader.is_loading());
        assert!(loader.wait(&StopSignal::default(), None).is_ok());
        assert_eq!(told.recv(), Ok(Ok("cold".into())));
        drop(end);
        assert_eq!(begins.iter().take(2).collect::<Vec<_>>(), [1, 2]);
        assert!(told.recv().unwrap().unwrap_err().contains("cold"));
    }

    #[test]
    fn the_warm_up_rests_while_a_search_runs() {
        let (loader, begins, end) = cold();
        loader.request(&Options::default(), Retry::No, |_| {});
        assert_eq!(begins.recv(), Ok(0));
        loader.set_searching(true);
        end.send(()).unwrap();
        // Nothing can begin before the search has ended: whatever begins sees that it has.
        let ended = thread::spawn({
            let loader = loader.clone();
            move || {
                thread::sleep(2 * GLANCE);
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
        loader.request(&options, Retry::No, |_| {});
        assert_eq!(begins.recv(), Ok(0));
        options.set("WeightsFile", "another").unwrap();
        loader.request(&options, Retry::No, |_| {});
        // The first warm-up ends here, the second begins.
        end.send(()).unwrap();
        assert_eq!(begins.recv(), Ok(0));
        // Not even the end of the program waits for longer than it wants to.
        loader.close(GLANCE);
        drop(end);
        loader.close(Duration::from_secs(60));
        assert_eq!(loader.slot.state.lock().busy, 0);
    }
}
