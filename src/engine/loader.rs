//! Loads the networks on a thread of its own, so that the engine answers the GUI meanwhile. What was loaded is kept until
//! the options ask for something else; another opponent's network leaves the main one where it is.

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
}

impl Loader {
    /// Nothing is loaded before the first [`Loader::request`].
    pub fn new(load: Load) -> Loader {
        let state = Mutex::new(State {
            wanted: None,
            result: Err(NotLoaded::NotYet),
            main: None,
        });
        let changed = Condvar::new();
        Loader {
            load,
            slot: Arc::new(Slot { state, changed }),
        }
    }

    /// Begins to load what `options` ask for, unless that is already there or on its way. `done` is told how it ended:
    /// the networks' description or what is wrong.
    pub fn request(
        &self,
        options: &Options,
        retry: Retry,
        done: impl FnOnce(Result<String, String>) + Send + 'static,
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
        drop(state);
        let (loader, options) = (self.clone(), options.clone());
        thread::spawn(move || {
            let result = loader.load(&options);
            let told = match &result {
                Ok(networks) => Ok(networks.describe()),
                Err(error) => Err(format!("{error:#}")),
            };
            loader.finish(&options, result, || done(told));
        });
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use anyhow::ensure;

    use super::*;
    use crate::network::hash::HashEvaluator;

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
}
