//! From a backend's sessions to an [`Evaluator`].
//!
//! A backend runs one network on packed planes ([`DeviceSession`]); everything else is common and lives here: a
//! pool of sessions so that search threads evaluate side by side, encoding, splitting into batches that fit, the policy
//! over legal moves, and the check that the outputs are finite.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::network::{
    Advice, Batch, BatchTimes, Delay, EvaluateError, Evaluator, Info, Value, cores,
    input::{Encoding, InputRows, Inputs, View},
};

/// The meaning of a session's policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Logits, as many a position as the encoding's policy has.
    #[default]
    Logits,
    /// The probabilities of the legal moves in their order, at the temperature of the inputs.
    Probabilities {
        /// Places a position; those beyond its moves hold nothing.
        slots: usize,
    },
}

/// A network's outputs for a batch, one row per position. Heads that it lacks stay empty.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The policy of each position, as [`policy_kind`](Outputs::policy_kind) says.
    pub policy: Vec<f32>,
    /// What the policy is.
    pub policy_kind: PolicyKind,
    /// Win, draw and loss probabilities, 3 a position.
    pub wdl: Vec<f32>,
    /// The value, -1..=1, 1 a position.
    pub value: Vec<f32>,
    /// Plies left, 1 a position.
    pub mlh: Vec<f32>,
}

impl Outputs {
    /// The value of one position, as it came out.
    fn value_of(&self, index: usize) -> Value {
        let m = self.mlh.get(index).copied().unwrap_or(0.0);
        match self.wdl.get(3 * index..3 * index + 3) {
            Some(wdl) => Value {
                wl: wdl[0] - wdl[2],
                d: wdl[1],
                m,
            },
            None => Value {
                wl: self.value.get(index).copied().unwrap_or(0.0),
                d: 0.0,
                m,
            },
        }
    }
}

/// One network on one device, used by one thread at a time.
pub trait DeviceSession: Send {
    /// The most positions that [`run`](DeviceSession::run) takes.
    fn max_batch(&self) -> usize;

    /// Evaluates at most [`max_batch`](DeviceSession::max_batch) positions and replaces the contents of `outputs`.
    ///
    /// # Errors
    /// The library's message.
    fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String>;

    /// How many of `rows` positions the next run should take, if more are to be evaluated than it can, or than it can
    /// well.
    fn next_run(&self, rows: usize) -> usize {
        rows.min(self.max_batch())
    }

    /// A batch size that was not run yet and whose first run may be slow, if there is one that batches of `up_to`
    /// positions need.
    fn cold_size(&self, _up_to: usize) -> Option<usize> {
        None
    }
}

/// The description of an evaluator, for messages.
#[derive(Clone, Debug)]
pub struct Label {
    /// The backend's name, as in the `Backend` option.
    pub backend: &'static str,
    /// The network's file or name.
    pub network: String,
    /// Device, library, precision.
    pub device: String,
    /// Why not another backend; may be empty.
    pub note: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Label {
            backend,
            network,
            device,
            note,
        } = self;
        let separator = if note.is_empty() { "" } else { "; " };
        write!(
            f,
            "{backend} ({device}), network {network}{separator}{note}"
        )
    }
}

/// The most sessions of one network, where each serves a search thread.
pub const MAX_SESSIONS: usize = 128;

/// How many sessions of a network there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCounts {
    /// Those that are made before the first evaluation; at least one is.
    pub ready: usize,
    /// The most that are made when more threads evaluate; then calls wait for each other.
    pub limit: usize,
}

impl SessionCounts {
    /// Those for this many search threads (0: the number in `advice`).
    pub fn for_threads(threads: usize, advice: Advice, limit: usize) -> SessionCounts {
        let threads = match threads {
            0 => advice.threads,
            threads => threads,
        };
        SessionCounts {
            ready: threads.min(cores()).min(limit),
            limit,
        }
    }
}

/// Runs work on a thread in which sessions compute themselves (see [`Evaluator::run_on_worker_thread`]).
pub type RunOnWorkerThread = fn(&mut (dyn FnMut() + Send));

/// What to do about a message that a backend's sessions failed with, where the backend can say that.
pub type FailureHint = fn(&str) -> Option<&'static str>;

/// Makes another session for the same network.
pub type SessionFactory = Box<dyn Fn() -> Result<Box<dyn DeviceSession>, String> + Send + Sync>;

/// Minimum and maximum number of runs by which a batch is timed; when the runs together have taken `ENOUGH_TIMED`, the
/// minimum is enough.
const MIN_TIMED_RUNS: usize = 2;
const MAX_TIMED_RUNS: usize = 4;
const ENOUGH_TIMED: Duration = Duration::from_millis(20);

/// Evaluates positions with a pool of sessions.
pub struct NetworkEvaluator {
    label: Label,
    encoding: Encoding,
    view: View,
    advice: Advice,
    batch_times: Option<Arc<BatchTimes>>,
    /// What batches take longer than that at present.
    delay: Delay,
    factory: SessionFactory,
    run_on_worker_thread: RunOnWorkerThread,
    failure_hint: FailureHint,
    /// The most sessions there may be.
    limit: usize,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Default)]
struct Pool {
    idle: Vec<PoolWorker>,
    /// Sessions made, idle or not.
    made: usize,
    /// Those that are being warmed up: each comes back after one run.
    warming: usize,
}

/// The place of a worker that is in use or being made. One that is lost, because its session could not be made or
/// panicked, leaves its place to another.
struct WorkerPlace<'a> {
    pool_of: &'a NetworkEvaluator,
    /// The worker, once it is idle again.
    returned: Option<PoolWorker>,
    is_warming: bool,
}

impl<'a> WorkerPlace<'a> {
    fn new(pool_of: &'a NetworkEvaluator) -> WorkerPlace<'a> {
        WorkerPlace {
            pool_of,
            returned: None,
            is_warming: false,
        }
    }

    /// Does `work` with the worker of this place, which then goes back to the pool.
    fn lend<T>(mut self, mut worker: PoolWorker, work: impl FnOnce(&mut PoolWorker) -> T) -> T {
        let result = work(&mut worker);
        self.returned = Some(worker);
        result
    }
}

impl Drop for WorkerPlace<'_> {
    fn drop(&mut self) {
        let mut pool = self.pool_of.pool.lock();
        match self.returned.take() {
            Some(worker) => pool.idle.push(worker),
            None => pool.made -= 1,
        }
        pool.warming -= usize::from(self.is_warming);
        drop(pool);
        if self.is_warming {
            self.pool_of.returned.notify_all();
        } else {
            self.pool_of.returned.notify_one();
        }
    }
}

struct PoolWorker {
    session: Box<dyn DeviceSession>,
    outputs: Outputs,
}

impl PoolWorker {
    fn new(session: Box<dyn DeviceSession>) -> PoolWorker {
        PoolWorker {
            session,
            outputs: Outputs::default(),
        }
    }
}

impl NetworkEvaluator {
    /// An evaluator whose sessions are made by `factory`, some of them now.
    ///
    /// # Errors
    /// The library's message if a session cannot be made.
    pub fn new(
        label: Label,
        encoding: Encoding,
        view: View,
        advice: Advice,
        sessions: SessionCounts,
        factory: SessionFactory,
    ) -> Result<NetworkEvaluator, String> {
        let SessionCounts { ready, limit } = sessions;
        let mut pool = Pool::default();
        for _ in 0..ready.clamp(1, limit.max(1)) {
            pool.idle.push(PoolWorker::new(factory()?));
            pool.made += 1;
        }
        Ok(NetworkEvaluator {
            label,
            encoding,
            view: View {
                encoding: Some(encoding),
                ..view
            },
            advice,
            batch_times: None,
            delay: Delay::default(),
            factory,
            run_on_worker_thread: |work| work(),
            failure_hint: |_| None,
            limit,
            pool: Mutex::new(pool),
            returned: Condvar::new(),
        })
    }

    /// How long a batch of `size` positions takes, once the first one is over: the shortest of several times, because
    /// other work makes some of them longer.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn time_of(&self, size: usize) -> Result<Duration, EvaluateError> {
        let inputs = Inputs::empty(self.encoding.layout(), size);
        let failed = |message| self.failed(size, message);
        let time = |worker: &mut PoolWorker| {
            let mut run = || {
                let begun = Instant::now();
                let done = self.run_inputs(worker, &inputs, size);
                done.map(|()| begun.elapsed())
            };
            run()?;
            let (mut shortest, mut spent) = (Duration::MAX, Duration::ZERO);
            for count in 0..MAX_TIMED_RUNS {
                if count >= MIN_TIMED_RUNS && spent >= ENOUGH_TIMED {
                    break;
                }
                let time = run()?;
                shortest = shortest.min(time);
                spent += time;
            }
            Ok(shortest)
        };
        self.with_worker(time).flatten().map_err(failed)
    }

    /// Runs a session with the first `size` of these inputs, and ignores what comes out.
    fn run_inputs(
        &self,
        worker: &mut PoolWorker,
        inputs: &Inputs,
        size: usize,
    ) -> Result<(), String> {
        let mut start = 0;
        while start < size {
            let count = worker.session.next_run(size - start).clamp(1, size - start);
            let rows = inputs.rows(self.encoding.layout(), start..start + count);
            worker.session.run(rows, &mut worker.outputs)?;
            start += count;
        }
        Ok(())
    }

    /// Sets how work is run on the threads that suit the sessions best; by default it is run on the calling thread.
    pub fn set_worker_thread(&mut self, run: RunOnWorkerThread) {
        self.run_on_worker_thread = run;
    }

    /// Sets what the messages of failures are searched for; by default a lack of memory alone is recognised.
    pub fn set_failure_hint(&mut self, hint: FailureHint) {
        self.failure_hint = hint;
    }

    /// Changes the advice.
    pub fn set_advice(&mut self, advice: Advice) {
        self.advice = advice;
    }

    /// Sets how long its batches take.
    pub fn set_batch_times(&mut self, times: Option<BatchTimes>) {
        self.batch_times = times.map(Arc::new);
    }

    /// What this evaluator is called.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Does `work` with a worker that nobody else uses meanwhile, once there is one.
    ///
    /// # Errors
    /// The library's message if another session is needed and cannot be made.
    fn with_worker<T>(&self, work: impl FnOnce(&mut PoolWorker) -> T) -> Result<T, String> {
        let (place, worker) = self.take()?;
        Ok(place.lend(worker, work))
    }

    fn take(&self) -> Result<(WorkerPlace<'_>, PoolWorker), String> {
        let mut pool = self.pool.lock();
        loop {
            if let Some(worker) = pool.idle.pop() {
                return Ok((WorkerPlace::new(self), worker));
            }
            // A session that comes back soon is sooner there than a new one.
            if pool.made < self.limit && pool.warming == 0 {
                pool.made += 1;
                drop(pool);
                let place = WorkerPlace::new(self);
                let worker = PoolWorker::new((self.factory)()?);
                return Ok((place, worker));
            }
            self.returned.wait(&mut pool);
        }
    }

    /// One run of an idle session that needs it, at a batch size that it has not run yet; `None` if there is none.
    fn warm_up_once(&self) -> Option<Result<(), EvaluateError>> {
        let (place, worker, size) = {
            let mut pool = self.pool.lock();
            let cold = |worker: &PoolWorker| worker.session.cold_size(self.advice.minibatch);
            let index = pool.idle.iter().position(|worker| cold(worker).is_some())?;
            let size = cold(&pool.idle[index])?;
            pool.warming += 1;
            let mut place = WorkerPlace::new(self);
            place.is_warming = true;
            (place, pool.idle.swap_remove(index), size)
        };
        let layout = self.encoding.layout();
        let inputs = Inputs::empty(layout, size);
        let rows = inputs.rows(layout, 0..size);
        let run = |worker: &mut PoolWorker| worker.session.run(rows, &mut worker.outputs);
        let result = place.lend(worker, run);
        Some(result.map_err(|message| self.failed(size, message)))
    }

    fn failed(&self, batch: usize, message: String) -> EvaluateError {
        let hint = (self.failure_hint)(&message).unwrap_or_else(|| memory_hint(&message));
        EvaluateError::Backend {
            backend: self.label.backend,
            batch,
            message: format!("{}{hint}", message.trim()),
        }
    }

    /// One run, whose time is compared with the measured one.
    fn timed_run(
        &self,
        session: &mut dyn DeviceSession,
        rows: InputRows<'_>,
        outputs: &mut Outputs,
    ) -> Result<(), String> {
        let Some(times) = &self.batch_times else {
            return session.run(rows, outputs);
        };
        let begun = Instant::now();
        session.run(rows, outputs)?;
        let busy = {
            let pool = self.pool.lock();
            pool.made.saturating_sub(pool.idle.len())
        };
        self.delay.observe(times, rows.len(), busy, begun.elapsed());
        Ok(())
    }

    fn run(&self, worker: &mut PoolWorker, batch: &mut Batch) -> Result<(), EvaluateError> {
        let total = batch.len();
        let mut start = 0;
        while start < total {
            let count = worker
                .session
                .next_run(total - start)
                .clamp(1, total - start);
            let end = start + count;
            let rows = batch.inputs().rows(self.encoding.layout(), start..end);
            let rows = rows.at_temperature(batch.policy_temperature());
            self.timed_run(&mut *worker.session, rows, &mut worker.outputs)
                .map_err(|message| self.failed(end - start, message))?;
            for index in start..end {
                self.read(&worker.outputs, index - start, batch, index)?;
            }
            start = end;
        }
        Ok(())
    }

    /// Moves row `row` of the outputs to position `index` of the batch.
    fn read(
        &self,
        outputs: &Outputs,
        row: usize,
        batch: &mut Batch,
        index: usize,
    ) -> Result<(), EvaluateError> {
        let mut value = outputs.value_of(row);
        if !(value.wl.is_finite() && value.d.is_finite()) {
            let head = if outputs.wdl.is_empty() {
                "value"
            } else {
                "wdl"
            };
            return Err(self.not_finite(head));
        }
        if !value.m.is_finite() {
            return Err(self.not_finite("mlh"));
        }
        self.check_value(outputs, row)?;
        value.m = value.m.max(0.0);
        batch.set_value(index, value);
        match self.read_policy(outputs, row, batch, index) {
            Some(()) => Ok(()),
            None => Err(self.not_finite("policy")),
        }
    }

    /// Checks that the output is a value: a network whose last softmax or tanh was left out loads and plays nonsense.
    fn check_value(&self, outputs: &Outputs, row: usize) -> Result<(), EvaluateError> {
        let not_a_value = |output, found, missing| {
            Err(EvaluateError::NotAValue {
                network: self.label.network.clone(),
                output,
                found,
                missing,
            })
        };
        match outputs.wdl.get(3 * row..3 * row + 3) {
            Some(&[w, d, l]) => {
                let is_sum = ((w + d + l) - 1.0).abs() <= ROUNDING;
                if is_sum && w.min(d).min(l) >= -ROUNDING {
                    return Ok(());
                }
                let found = format!("win, draw and loss of {w}, {d} and {l}");
                not_a_value("wdl", found, "is its last softmax missing?")
            }
            _ => match outputs.value.get(row) {
                Some(value) if value.abs() > 1.0 + ROUNDING => {
                    let found = format!("a value of {value}, not within -1 and 1");
                    not_a_value("value", found, "is its last tanh missing?")
                }
                _ => Ok(()),
            },
        }
    }

    /// Moves the policy of row `row` of the outputs to position `index` of the batch; `None` if it is not finite.
    fn read_policy(
        &self,
        outputs: &Outputs,
        row: usize,
        batch: &mut Batch,
        index: usize,
    ) -> Option<()> {
        let temperature = batch.policy_temperature();
        let (inputs, policy) = batch.evaluation_mut(index);
        match outputs.policy_kind {
            PolicyKind::Logits => {
                let layout = self.encoding.policy();
                let size = layout.size();
                let logits = outputs.policy.get(row * size..(row + 1) * size)?;
                let rows = inputs.move_rows(index);
                let is_finite = layout.probabilities(logits, rows, temperature, policy);
                is_finite.then_some(())
            }
            PolicyKind::Probabilities { slots } => {
                let found = outputs.policy.get(row * slots..)?.get(..policy.len())?;
                policy.copy_from_slice(found);
                policy.iter().all(|p| p.is_finite()).then_some(())
            }
        }
    }

    fn not_finite(&self, output: &str) -> EvaluateError {
        EvaluateError::NotFinite {
            network: self.label.network.clone(),
            output: output.to_owned(),
        }
    }
}

/// What 16-bit floats may add to or take from a value, generously.
const ROUNDING: f32 = 0.03;

/// What to do if too little memory is why an evaluation failed with this message; may be empty.
fn memory_hint(message: &str) -> &'static str {
    if is_out_of_memory(message) {
        "; there is too little memory for such batches: lower MinibatchSize, or BackendOptions batch"
    } else {
        ""
    }
}

/// Whether that is what the library complains about.
pub fn is_out_of_memory(message: &str) -> bool {
    const PHRASES: [&str; 6] = [
        "out of memory",
        "out_of_memory",
        "failed to allocate memory",
        "bad_alloc",
        "bad allocation",
        "alloc_failed",
    ];
    let message = message.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

impl Evaluator for NetworkEvaluator {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        if batch.inputs().len() != batch.len() {
            let message = format!("only {} positions have input planes", batch.inputs().len());
            return Err(self.failed(batch.len(), message));
        }
        let size = batch.len();
        self.with_worker(|worker| self.run(worker, batch))
            .map_err(|message| self.failed(size, message))
            .flatten()
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        (self.run_on_worker_thread)(work);
    }

    fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        while may_continue() {
            match self.warm_up_once() {
                Some(result) => result?,
                None => break,
            }
        }
        Ok(())
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn info(&self) -> Info {
        Info {
            description: self.label.to_string(),
            advice: self.advice,
            max_concurrent_batches: self.batch_times.is_some().then_some(self.limit),
            batch_times: self
                .batch_times
                .as_ref()
                .map(|times| self.delay.at_present(times)),
            ..Info::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
            mpsc::{Receiver, Sender, channel},
        },
    };

    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        lc0::InputFormat,
        network::input::policy_map::POLICY_SIZE,
        options::HistoryFill,
    };

    /// A device whose runs end when the test lets them.
    struct Slow {
        sizes: Vec<(usize, bool)>,
        fails: bool,
        /// The size of each run that begins.
        begun: Sender<usize>,
        /// A run ends when something comes in, or nothing can any more.
        ends: Arc<Mutex<Receiver<()>>>,
    }

    impl DeviceSession for Slow {
        fn max_batch(&self) -> usize {
            self.sizes.last().unwrap().0
        }

        fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
            let fits = |(size, _): &&mut (usize, bool)| *size >= inputs.len();
            let (size, is_cold) = self.sizes.iter_mut().find(fits).unwrap();
            *is_cold = false;
            let _ = self.begun.send(*size);
            let _ = self.ends.lock().recv();
            outputs.policy = vec![0.0; *size * POLICY_SIZE];
            outputs.value = vec![0.0; *size];
            if self.fails {
                Err("Failed to allocate memory for requested buffer".into())
            } else {
                Ok(())
            }
        }

        fn cold_size(&self, _: usize) -> Option<usize> {
            let cold = self.sizes.iter().find(|(_, is_cold)| *is_cold);
            cold.map(|(size, _)| *size)
        }
    }

    /// An evaluator with a few such sessions, what begins in them, and what ends it.
    fn slow(sessions: usize, fails: bool) -> (NetworkEvaluator, Receiver<usize>, Sender<()>) {
        let (begun, begins) = channel();
        let (end, ends) = channel();
        let (begun, ends) = (Mutex::new(begun), Arc::new(Mutex::new(ends)));
        let factory: SessionFactory = Box::new(move || {
            Ok(Box::new(Slow {
                sizes: vec![(1, true), (8, true)],
                fails,
                begun: begun.lock().clone(),
                ends: Arc::clone(&ends),
            }))
        });
        (evaluator(sessions, factory), begins, end)
    }

    fn evaluator(sessions: usize, factory: SessionFactory) -> NetworkEvaluator {
        let label = Label {
            backend: "slow",
            network: "none".into(),
            device: String::new(),
            note: String::new(),
        };
        let view = View {
            fill: HistoryFill::FenOnly,
            ..View::KEY_ONLY
        };
        let encoding = Encoding::Lc0(InputFormat::Classical112);
        let advice = Advice {
            threads: sessions,
            minibatch: 8,
            min_batch: 1,
        };
        let sessions = SessionCounts {
            ready: sessions,
            limit: 9,
        };
        NetworkEvaluator::new(label, encoding, view, advice, sessions, factory).unwrap()
    }

    /// A device that panics once when `panics` is set; `mlh` is its output for the plies left, `value` and `wdl` are
    /// the others.
    #[derive(Clone)]
    struct Odd {
        panics: Arc<AtomicBool>,
        is_cold: bool,
        mlh: f32,
        value: f32,
        wdl: Vec<f32>,
    }

    impl DeviceSession for Odd {
        fn max_batch(&self) -> usize {
            8
        }

        fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
            self.is_cold = false;
            assert!(
                !self.panics.swap(false, Ordering::Relaxed),
                "a panic on purpose"
            );
            outputs.policy = vec![0.0; inputs.len() * POLICY_SIZE];
            outputs.value = vec![self.value; inputs.len()];
            outputs.wdl = self.wdl.repeat(inputs.len());
            outputs.mlh = vec![self.mlh; inputs.len()];
            Ok(())
        }

        fn cold_size(&self, _: usize) -> Option<usize> {
            self.is_cold.then_some(1)
        }
    }

    fn odd(mlh: f32) -> (NetworkEvaluator, Arc<AtomicBool>) {
        odd_value(mlh, 0.0, &[])
    }

    fn odd_value(mlh: f32, value: f32, wdl: &[f32]) -> (NetworkEvaluator, Arc<AtomicBool>) {
        let panics = Arc::new(AtomicBool::new(false));
        let session = Odd {
            panics: Arc::clone(&panics),
            is_cold: true,
            mlh,
            value,
            wdl: wdl.to_vec(),
        };
        let factory: SessionFactory = Box::new(move || Ok(Box::new(session.clone())));
        (evaluator(1, factory), panics)
    }

    /// A network without its last softmax or tanh would play nonsense.
    #[test]
    fn what_is_no_value_is_refused() {
        let evaluate = |value: f32, wdl: &[f32]| {
            let (evaluator, _) = odd_value(0.0, value, wdl);
            let done = evaluator.evaluate(&mut batch(&evaluator, 2));
            done.map_err(|error| error.to_string())
        };
        for (value, wdl) in [
            (1.0, &[][..]),
            (-1.004, &[]),
            (0.0, &[1.0, 0.0, 0.0]),
            (0.0, &[0.332, 0.332, 0.332]),
            // The value counts only where there is nothing else.
            (9.0, &[0.2, 0.5, 0.3]),
        ] {
            assert_eq!(evaluate(value, wdl), Ok(()), "{value} {wdl:?}");
        }
        for (value, wdl, missing) in [
            (136.7, &[][..], "tanh"),
            (-1.1, &[], "tanh"),
            (0.0, &[2.0, -1.438, 0.4], "softmax"),
            (0.0, &[0.9, -0.3, 0.4], "softmax"),
            (0.0, &[0.1, 0.2, 0.1], "softmax"),
        ] {
            let error = evaluate(value, wdl).unwrap_err();
            assert!(
                error.contains("none is not usable") && error.contains(missing),
                "{error}"
            );
        }
    }

    #[test]
    fn a_session_that_panics_leaves_its_place_to_another() {
        let (evaluator, panics) = odd(20.0);
        for _ in 0..2 {
            panics.store(true, Ordering::Relaxed);
            let warming = AssertUnwindSafe(|| evaluator.warm_up(&|| true));
            assert!(catch_unwind(warming).is_err());
            evaluator.evaluate(&mut batch(&evaluator, 3)).unwrap();
            panics.store(true, Ordering::Relaxed);
            let searching = AssertUnwindSafe(|| evaluator.evaluate(&mut batch(&evaluator, 3)));
            assert!(catch_unwind(searching).is_err());
            // The next one is made, and is cold.
            assert!(evaluator.with_worker(|_| ()).is_ok());
        }
        assert_eq!(evaluator.pool.lock().made, 1);
    }

    #[test]
    fn what_is_no_number_of_plies_is_an_error() {
        for mlh in [f32::NAN, f32::NEG_INFINITY, f32::INFINITY] {
            let (evaluator, _) = odd(mlh);
            let error = evaluator.evaluate(&mut batch(&evaluator, 2)).unwrap_err();
            assert!(error.to_string().contains("mlh"), "{error}");
        }
        let (evaluator, _) = odd(-3.0);
        let mut batch = batch(&evaluator, 1);
        evaluator.evaluate(&mut batch).unwrap();
        assert_eq!(batch.value(0).m, 0.0);
    }

    fn batch(evaluator: &NetworkEvaluator, size: usize) -> Batch {
        let game = History::default();
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let mut batch = Batch::default();
        for _ in 0..size {
            evaluator.view().queue(game.plies(), &moves, &mut batch);
        }
        batch
    }

    #[test]
    fn every_size_of_every_session_is_run_once_unless_a_search_has_done_so() {
        let (evaluator, begins, end) = slow(2, false);
        drop(end);
        evaluator.evaluate(&mut batch(&evaluator, 5)).unwrap();
        evaluator.warm_up(&|| true).unwrap();
        let mut run: Vec<usize> = begins.try_iter().collect();
        run.sort_unstable();
        assert_eq!(run, [1, 1, 8, 8]);
        evaluator.warm_up(&|| true).unwrap();
        assert_eq!(begins.try_iter().count(), 0);
    }

    #[test]
    fn a_batch_does_not_wait_for_more_than_one_run() {
        let (evaluator, begins, end) = slow(1, false);
        let evaluator = &evaluator;
        std::thread::scope(|scope| {
            let warming = scope.spawn(|| evaluator.warm_up(&|| true));
            assert_eq!(begins.recv(), Ok(1));
            // The only session is busy, and no other is made, because this one is back soon.
            let searching = scope.spawn(|| evaluator.evaluate(&mut batch(evaluator, 8)));
            drop(end);
            searching.join().unwrap().unwrap();
            warming.join().unwrap().unwrap();
        });
        assert_eq!(evaluator.pool.lock().made, 1);
        assert!(begins.try_iter().all(|size| size == 8));
    }

    #[test]
    fn another_session_serves_the_search_meanwhile() {
        let (evaluator, begins, end) = slow(2, false);
        let evaluator = &evaluator;
        std::thread::scope(|scope| {
            let warming = scope.spawn(|| evaluator.warm_up(&|| true));
            assert_eq!(begins.recv(), Ok(1));
            let searching = scope.spawn(|| evaluator.evaluate(&mut batch(evaluator, 2)));
            // Both run at the same time.
            assert_eq!(begins.recv(), Ok(8));
            drop(end);
            searching.join().unwrap().unwrap();
            warming.join().unwrap().unwrap();
        });
    }

    /// Likes to take four positions at a time, though it could take nine.
    struct Fours(Sender<usize>);

    impl DeviceSession for Fours {
        fn max_batch(&self) -> usize {
            9
        }

        fn next_run(&self, rows: usize) -> usize {
            if rows >= 4 { 4 } else { rows }
        }

        fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
            let _ = self.0.send(inputs.len());
            outputs.policy = vec![0.0; inputs.len() * POLICY_SIZE];
            // Each position's place in its run.
            outputs.value = (0..inputs.len()).map(|place| place as f32 / 10.0).collect();
            Ok(())
        }
    }

    #[test]
    fn batches_are_cut_as_the_session_wants_them() {
        let (begun, begins) = channel();
        let begun = Mutex::new(begun);
        let factory: SessionFactory = Box::new(move || Ok(Box::new(Fours(begun.lock().clone()))));
        let evaluator = evaluator(1, factory);
        let mut batch = batch(&evaluator, 9);
        evaluator.evaluate(&mut batch).unwrap();
        assert_eq!(begins.try_iter().collect::<Vec<_>>(), [4, 4, 1]);
        let places: Vec<f32> = (0..9).map(|index| batch.value(index).wl).collect();
        assert_eq!(places, [0.0, 0.1, 0.2, 0.3, 0.0, 0.1, 0.2, 0.3, 0.0]);
        evaluator.time_of(5).unwrap();
        let runs: Vec<usize> = begins.try_iter().collect();
        // The first is a warm-up; the others are as many as there is time for.
        let batches = 1 + MIN_TIMED_RUNS..=1 + MAX_TIMED_RUNS;
        assert!(batches.contains(&(runs.len() / 2)), "{runs:?}");
        assert_eq!(runs, [4, 1].repeat(runs.len() / 2));
    }

    /// Takes some milliseconds for its first and its last run, and no time for the others.
    struct Hesitant(usize);

    impl DeviceSession for Hesitant {
        fn max_batch(&self) -> usize {
            8
        }

        fn run(&mut self, _: InputRows<'_>, _: &mut Outputs) -> Result<(), String> {
            let is_slow = [0, MAX_TIMED_RUNS].contains(&self.0);
            self.0 += 1;
            if is_slow {
                std::thread::sleep(ENOUGH_TIMED);
            }
            Ok(())
        }
    }

    #[test]
    fn an_accident_while_a_batch_is_timed_does_not_count() {
        let evaluator = evaluator(1, Box::new(|| Ok(Box::new(Hesitant(0)))));
        assert!(evaluator.time_of(8).unwrap() < ENOUGH_TIMED / 2);
    }

    #[test]
    fn warming_up_ends_when_it_is_reported_to() {
        let (evaluator, begins, end) = slow(1, false);
        drop(end);
        evaluator.warm_up(&|| false).unwrap();
        assert_eq!(begins.try_iter().count(), 0);
    }

    #[test]
    fn what_is_too_large_for_the_memory_is_named_with_the_next_step() {
        let (evaluator, begins, end) = slow(1, true);
        drop(end);
        let error = evaluator.warm_up(&|| true).unwrap_err().to_string();
        assert!(
            error.starts_with("slow: evaluating a batch of 1 failed"),
            "{error}"
        );
        assert!(error.contains("MinibatchSize"), "{error}");
        // A search reports the same, and the session is still there.
        let error = evaluator.evaluate(&mut batch(&evaluator, 8)).unwrap_err();
        assert!(error.to_string().contains("a batch of 8 failed"), "{error}");
        assert_eq!(begins.try_iter().count(), 2);
        assert_eq!(evaluator.pool.lock().idle.len(), 1);
    }

    #[test]
    fn the_hint_of_the_backend_comes_before_that_about_memory() {
        let (mut evaluator, _) = odd(0.0);
        evaluator.set_failure_hint(|message| message.contains("lost").then_some("; plug it in"));
        for (message, hint) in [
            ("the device is lost", "; plug it in"),
            ("the device is lost: out of memory", "; plug it in"),
            ("something else", ""),
        ] {
            let error = evaluator.failed(8, message.to_owned()).to_string();
            assert!(error.ends_with(&format!("{message}{hint}")), "{error}");
        }
        for message in ["out of memory", "ERROR_OUT_OF_MEMORY"] {
            let error = evaluator.failed(8, message.to_owned()).to_string();
            assert!(error.contains("lower MinibatchSize"), "{error}");
        }
    }
}
