//! Loads the network on a thread of its own, so that the engine answers the GUI meanwhile. What was loaded is kept until
//! the options ask for something else.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use parking_lot::{Condvar, Mutex};

use crate::{
    network::Evaluator,
    options::{Invalidates, Options},
    search::StopSignal,
};

/// Makes an evaluator as the options say.
pub type Load = Arc<dyn Fn(&Options) -> anyhow::Result<Arc<dyn Evaluator>> + Send + Sync>;

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

/// The network that is loaded, or being loaded. Clones share it.
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
    result: Result<Arc<dyn Evaluator>, NotLoaded>,
}

impl Loader {
    /// Nothing is loaded before the first [`Loader::request`].
    pub fn new(load: Load) -> Loader {
        let state = Mutex::new(State {
            wanted: None,
            result: Err(NotLoaded::NotYet),
        });
        let changed = Condvar::new();
        Loader {
            load,
            slot: Arc::new(Slot { state, changed }),
        }
    }

    /// Begins to load what `options` ask for, unless that is already there or on its way. `done` is told how it ended:
    /// the evaluator's description or what is wrong.
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
            .is_some_and(|old| options.invalidated_since(old) < Invalidates::Network);
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
                Ok(evaluator) => Ok(evaluator.describe()),
                Err(error) => Err(format!("{error:#}")),
            };
            loader.finish(&options, result, || done(told));
        });
    }

    /// Waits for the evaluator, until `stop` or the deadline.
    ///
    /// # Errors
    /// When there is none.
    pub fn wait(
        &self,
        stop: &StopSignal,
        deadline: Option<Instant>,
    ) -> Result<Arc<dyn Evaluator>, NotLoaded> {
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

    /// Libraries of other people are called here: what they do wrong becomes an error.
    fn load(&self, options: &Options) -> anyhow::Result<Arc<dyn Evaluator>> {
        catch_unwind(AssertUnwindSafe(|| (self.load)(options)))
            .unwrap_or_else(|_| Err(anyhow!("the backend crashed while loading the network")))
    }

    /// Keeps the result, unless something else has been asked for meanwhile.
    fn finish(
        &self,
        options: &Options,
        result: anyhow::Result<Arc<dyn Evaluator>>,
        tell: impl FnOnce(),
    ) {
        let mut state = self.slot.state.lock();
        if state.wanted.as_ref() == Some(options) {
            // Told first: who waits for the network should read about it before anything else.
            tell();
            state.result = result.map_err(|error| NotLoaded::Failed(format!("{error:#}")));
            self.slot.changed.notify_all();
        }
    }
}
