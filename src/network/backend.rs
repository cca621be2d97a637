//! From a backend's sessions to an [`Evaluator`].
//!
//! A backend knows how to run one network on packed planes ([`Session`]); everything else is common and lives here: a
//! pool of sessions so that search threads evaluate side by side, encoding, splitting into batches that fit, the policy
//! over legal moves, and the check that what came out are numbers.

use parking_lot::{Condvar, Mutex};

use super::{
    Advice, Batch, EvaluateError, Evaluator, Planes, Value,
    encoder::encode,
    key::position_key,
    policy_map::{POLICY_SIZE, softmax},
};
use crate::{chess::Ply, lc0::InputFormat, options::HistoryFill};

/// What a network put out for a batch, one row per position. Heads that it lacks stay empty.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// Policy logits, 1858 a position.
    pub policy: Vec<f32>,
    /// Win, draw and loss probabilities, 3 a position.
    pub wdl: Vec<f32>,
    /// The value, -1..=1, 1 a position.
    pub value: Vec<f32>,
    /// Plies left, 1 a position.
    pub mlh: Vec<f32>,
}

impl Outputs {
    /// The value of one position.
    fn value_of(&self, index: usize) -> Value {
        let m = self.mlh.get(index).copied().unwrap_or(0.0).max(0.0);
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
pub trait Session: Send {
    /// The most positions that [`run`](Session::run) takes.
    fn max_batch(&self) -> usize;

    /// Evaluates at most [`max_batch`](Session::max_batch) positions and replaces the contents of `outputs`.
    ///
    /// # Errors
    /// What the library said.
    fn run(&mut self, planes: &[Planes], outputs: &mut Outputs) -> Result<(), String>;
}

/// How positions are presented to a network, and its answers read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// What the planes hold.
    pub format: InputFormat,
    /// What is invented before the first position.
    pub fill: HistoryFill,
    /// Softmax temperature of the policy.
    pub temperature: f32,
}

/// What a backend is called and does, for people.
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

/// Makes another session for the same network.
pub type SessionFactory = Box<dyn Fn() -> Result<Box<dyn Session>, String> + Send + Sync>;

/// Evaluates positions with a pool of sessions.
pub struct NetworkEvaluator {
    label: Label,
    reading: Reading,
    moves_left: bool,
    advice: Advice,
    factory: SessionFactory,
    /// The most sessions there may be.
    limit: usize,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Worker>,
    /// Sessions made, idle or not.
    made: usize,
}

struct Worker {
    session: Box<dyn Session>,
    outputs: Outputs,
}

impl Worker {
    fn new(session: Box<dyn Session>) -> Worker {
        Worker {
            session,
            outputs: Outputs::default(),
        }
    }
}

impl NetworkEvaluator {
    /// An evaluator with `ready` sessions, that makes more when more threads evaluate at once, up to `limit`; then
    /// calls wait for each other.
    ///
    /// # Errors
    /// What the library says if a session cannot be made.
    pub fn new(
        label: Label,
        reading: Reading,
        moves_left: bool,
        advice: Advice,
        (ready, limit): (usize, usize),
        factory: SessionFactory,
    ) -> Result<NetworkEvaluator, String> {
        let mut pool = Pool::default();
        for _ in 0..ready.clamp(1, limit.max(1)) {
            pool.idle.push(Worker::new(factory()?));
            pool.made += 1;
        }
        Ok(NetworkEvaluator {
            label,
            reading,
            moves_left,
            advice,
            factory,
            limit,
            pool: Mutex::new(pool),
            returned: Condvar::new(),
        })
    }

    /// What this evaluator is called.
    pub fn label(&self) -> &Label {
        &self.label
    }

    fn take(&self) -> Result<Worker, String> {
        let mut pool = self.pool.lock();
        loop {
            if let Some(worker) = pool.idle.pop() {
                return Ok(worker);
            }
            if pool.made < self.limit {
                pool.made += 1;
                drop(pool);
                let session = (self.factory)();
                if session.is_err() {
                    self.pool.lock().made -= 1;
                }
                return session.map(Worker::new);
            }
            self.returned.wait(&mut pool);
        }
    }

    fn give_back(&self, worker: Worker) {
        self.pool.lock().idle.push(worker);
        self.returned.notify_one();
    }

    fn failed(&self, batch: usize, message: String) -> EvaluateError {
        EvaluateError::Backend {
            backend: self.label.backend,
            batch,
            message,
        }
    }

    fn run(&self, worker: &mut Worker, batch: &mut Batch) -> Result<(), EvaluateError> {
        let total = batch.planes().len();
        let step = worker.session.max_batch().max(1);
        for start in (0..total).step_by(step) {
            let end = total.min(start + step);
            let planes = &batch.planes()[start..end];
            let run = worker.session.run(planes, &mut worker.outputs);
            run.map_err(|message| self.failed(end - start, message))?;
            for index in start..end {
                self.read(&worker.outputs, index - start, batch, index)?;
            }
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
        let value = outputs.value_of(row);
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
        batch.set_value(index, value);
        let planes = &batch.planes()[index];
        let (black, transform) = (planes.black_to_move, planes.transform);
        let logits = outputs
            .policy
            .get(row * POLICY_SIZE..(row + 1) * POLICY_SIZE);
        let logits = logits.ok_or_else(|| self.not_finite("policy"))?;
        let (moves, policy) = batch.policy_mut(index);
        match softmax(
            logits,
            moves,
            black,
            transform,
            self.reading.temperature,
            policy,
        ) {
            true => Ok(()),
            false => Err(self.not_finite("policy")),
        }
    }

    fn not_finite(&self, output: &str) -> EvaluateError {
        EvaluateError::NotFinite {
            network: self.label.network.clone(),
            output: output.to_owned(),
        }
    }
}

impl Evaluator for NetworkEvaluator {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        if batch.planes().len() != batch.len() {
            let message = format!("only {} positions have input planes", batch.planes().len());
            return Err(self.failed(batch.len(), message));
        }
        let mut worker = self
            .take()
            .map_err(|message| self.failed(batch.len(), message))?;
        let result = self.run(&mut worker, batch);
        self.give_back(worker);
        result
    }

    fn encode(&self, line: &[Ply]) -> Option<Planes> {
        Some(encode(line, self.reading.format, self.reading.fill))
    }

    fn key(&self, line: &[Ply]) -> u64 {
        position_key(line, self.reading.fill)
    }

    fn predicts_moves_left(&self) -> bool {
        self.moves_left
    }

    fn advice(&self) -> Advice {
        self.advice
    }

    fn describe(&self) -> String {
        let Label {
            backend,
            network,
            device,
            note,
        } = &self.label;
        let separator = if note.is_empty() { "" } else { "; " };
        format!("{backend} ({device}), network {network}{separator}{note}")
    }
}
