//! The `rten` backend: pure Rust, part of the program, needs no library.
//!
//! Slower than ONNX Runtime, but always there. The weights are shared between sessions; each session has a thread pool
//! of its own, by default of one thread, so that search threads do not compete for a common pool, or computes in the
//! search thread itself ([`run_on_worker_thread`]).

use std::{
    cell::{OnceCell, RefCell},
    sync::{Arc, OnceLock},
    thread,
};

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView};
use rten_tensor::{AsView, Layout, NdTensorView};

use super::{
    error::LoadError,
    factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest, evaluate_start},
    options::THREADS,
    pool::{DeviceSession, MAX_SESSIONS, NetworkEvaluator, Outputs, SessionCounts, SessionFactory},
};
use crate::{
    lc0::{DataType, OnnxModel, Operators},
    network::{
        Advice, EvaluateError, Evaluator, cores,
        input::{Encoding, InputRows},
    },
    terminal::counted,
};

/// Description of `rten`.
pub static INFO: BackendInfo = BackendInfo {
    name: "rten",
    lc0_names: &[],
    kind: BackendKind::Device { is_automatic: true },
    summary: "any CPU, needs no library",
    documentation: "pure Rust, part of the program",
    requirements: "",
    install_command: None,
    settings: &[THREADS],
};

/// The backend `rten`.
pub struct Rten;

impl BackendFactory for Rten {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        INFO.check_settings(request.options)?;
        let threads = request.options.threads()?;
        let network = request.network_as(DataType::Float32, false, Operators::Standard)?;
        let refused = |message: String| INFO.refused(&network.name, &message);
        let model = RtenModel::load(&network.onnx).map_err(refused)?;
        let device = format!("CPU, {} a session", counted(threads as u64, "thread"));
        let advice = Advice {
            threads: cores().div_ceil(threads),
            minibatch: 8,
            min_batch: 1,
        };
        let factory: SessionFactory = Box::new(move || Ok(Box::new(model.session(threads))));
        let evaluator = NetworkEvaluator::new(
            request.label(&INFO, &network, device),
            Encoding::of(&network.onnx),
            request.view(&network.onnx),
            advice,
            SessionCounts::for_threads(request.threads, advice, MAX_SESSIONS),
            factory,
        );
        let mut evaluator = evaluator.map_err(refused)?;
        if threads == 1 {
            evaluator.set_worker_thread(run_on_worker_thread);
        }
        evaluate_start(&evaluator).map_err(|error| match error {
            EvaluateError::Backend { message, .. } => refused(message),
            error => error.into(),
        })?;
        Ok(Arc::new(evaluator))
    }
}

/// Positions per run: larger batches gain nothing and cost memory.
const MAX_BATCH: usize = 256;

/// A network, loaded and shared by its sessions.
#[derive(Clone)]
pub struct RtenModel {
    model: Arc<Model>,
    input: NodeId,
    encoding: Encoding,
    heads: Vec<Head>,
    /// The nodes of the heads.
    outputs: Vec<NodeId>,
    fixed_batch: Option<usize>,
    /// The first pool of a session. Sessions for which no other can be made share it.
    first_pool: Arc<OnceLock<Arc<ThreadPool>>>,
}

#[derive(Clone, Copy)]
enum Head {
    Policy,
    Wdl,
    Value,
    Mlh,
}

impl RtenModel {
    /// Loads a model.
    ///
    /// # Errors
    /// rten's message, for example about an operator that it does not support.
    pub fn load(onnx: &OnnxModel) -> Result<RtenModel, String> {
        if onnx.is_bfloat16 {
            return Err(
                "its weights are bfloat16, for NVIDIA GPUs; convert with --data-type fp32"
                    .to_owned(),
            );
        }
        let mut options = ModelOptions::with_all_ops();
        options.prepack_weights(true);
        let model = options
            .load(onnx.bytes.clone())
            .map_err(|error| error.to_string())?;
        let node = |name: &str| model.node_id(name).map_err(|error| error.to_string());
        let heads = [
            (Head::Policy, Some(&onnx.policy)),
            (Head::Wdl, onnx.wdl.as_ref()),
            (Head::Value, onnx.value.as_ref()),
            (Head::Mlh, onnx.mlh.as_ref()),
        ];
        let outputs = heads
            .into_iter()
            .filter_map(|(head, name)| Some(node(name?).map(|id| (head, id))))
            .collect::<Result<Vec<_>, String>>()?;
        let (heads, outputs) = outputs.into_iter().unzip();
        let input = node(&onnx.input)?;
        Ok(RtenModel {
            model: Arc::new(model),
            input,
            encoding: Encoding::of(onnx),
            heads,
            outputs,
            fixed_batch: onnx.batch,
            first_pool: Arc::default(),
        })
    }

    /// A session that computes with `threads` threads.
    pub fn session(&self, threads: usize) -> RtenSession {
        RtenSession {
            model: self.clone(),
            pool: OnceCell::new(),
            threads: threads.max(1),
            input: Vec::new(),
        }
    }
}

thread_local! {
    /// The pool whose only thread this one is, if it was made by [`run_on_worker_thread`].
    static OWN_POOL: RefCell<Option<Arc<ThreadPool>>> = const { RefCell::new(None) };
}

/// Removes the thread's pool from [`OWN_POOL`] at the end, also of a panic.
struct OwnPoolGuard;

impl Drop for OwnPoolGuard {
    fn drop(&mut self) {
        OWN_POOL.take();
    }
}

/// Runs `work` on a thread that is a pool of its own, so that sessions of one thread compute in it: rten computes in
/// pools only, and a pool that sleeps between batches has to be woken for each.
pub fn run_on_worker_thread(work: &mut (dyn FnMut() + Send)) {
    if OWN_POOL.with_borrow(Option::is_some) {
        return work();
    }
    // Without it, the sessions' own pools compute.
    let Some(pool) = new_pool(1) else {
        return work();
    };
    let own = Arc::clone(&pool);
    pool.run(move || {
        OWN_POOL.set(Some(own));
        let _guard = OwnPoolGuard;
        work();
    });
}

/// A pool of this many threads; `None` if the system refuses them. Without threads rten would compute in a pool of the
/// whole process, which cannot be made either then.
fn new_pool(threads: usize) -> Option<Arc<ThreadPool>> {
    let pool = ThreadPool::with_num_threads(threads);
    let caller = thread::current().id();
    // rten does not report it, but runs the work here.
    let has_threads = pool.run(|| thread::current().id() != caller);
    has_threads.then(|| Arc::new(pool))
}

/// One thread's use of an [`RtenModel`].
pub struct RtenSession {
    model: RtenModel,
    /// Its own pool, made for the first batch that is not computed in a worker thread.
    pool: OnceCell<Arc<ThreadPool>>,
    threads: usize,
    input: Vec<f32>,
}

impl RtenSession {
    /// The pool to compute in: the calling thread, if one thread is to compute and this can be it.
    fn pool(&self) -> Result<Arc<ThreadPool>, String> {
        let own = OWN_POOL.with_borrow(Clone::clone);
        let own = own.filter(|_| self.threads == 1);
        if let Some(pool) = own.or_else(|| self.pool.get().cloned()) {
            return Ok(pool);
        }
        let pool = self.pool_from(new_pool(self.threads))?;
        Ok(Arc::clone(self.pool.get_or_init(|| pool)))
    }

    /// The pool that was just made, or the first one of the model if none could be.
    fn pool_from(&self, made: Option<Arc<ThreadPool>>) -> Result<Arc<ThreadPool>, String> {
        let first = &self.model.first_pool;
        match made {
            Some(pool) => {
                first.get_or_init(|| Arc::clone(&pool));
                Ok(pool)
            }
            None => first
                .get()
                .cloned()
                .ok_or_else(|| "no thread can be started to compute in".to_owned()),
        }
    }
}

impl DeviceSession for RtenSession {
    fn max_batch(&self) -> usize {
        self.model.fixed_batch.unwrap_or(MAX_BATCH)
    }

    fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
        let rows = self.model.fixed_batch.unwrap_or(inputs.len());
        let layout = self.model.encoding.layout();
        let floats = rows * layout.floats();
        self.input.resize(self.input.len().max(floats), 0.0);
        inputs.write(&mut self.input);
        let input = NdTensorView::from_data([rows, layout.planes, 8, 8], &self.input[..floats]);
        let options = RunOptions::default().with_thread_pool(Some(self.pool()?));
        let input: ValueOrView<'_> = input.into();
        let RtenModel {
            model,
            outputs: ids,
            heads,
            encoding,
            ..
        } = &self.model;
        let values = model.run(vec![(self.model.input, input)], ids, Some(options));
        let values = values.map_err(|error| error.to_string())?;
        for (head, value) in heads.iter().zip(values) {
            let (out, width) = match head {
                Head::Policy => (&mut outputs.policy, encoding.policy().size()),
                Head::Wdl => (&mut outputs.wdl, 3),
                Head::Value => (&mut outputs.value, 1),
                Head::Mlh => (&mut outputs.mlh, 1),
            };
            copy(value, rows, width, out)?;
        }
        Ok(())
    }
}

fn copy(value: Value, rows: usize, width: usize, out: &mut Vec<f32>) -> Result<(), String> {
    let Value::FloatTensor(tensor) = value else {
        return Err("an output is not float32".into());
    };
    if tensor.len() != rows * width {
        return Err(format!(
            "an output is {:?}, expected [{rows}, {width}]",
            tensor.shape()
        ));
    }
    out.clear();
    match tensor.data() {
        Some(data) => out.extend_from_slice(data),
        None => out.extend(tensor.iter()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};

    use super::*;

    fn worker_thread() -> (ThreadId, Option<Arc<ThreadPool>>) {
        let mut found = None;
        run_on_worker_thread(&mut || {
            found = Some((thread::current().id(), OWN_POOL.with_borrow(Clone::clone)));
        });
        found.unwrap()
    }

    #[test]
    fn work_runs_in_the_pool_of_its_own_thread() {
        let (id, pool) = worker_thread();
        assert_ne!(id, thread::current().id());
        assert!(pool.is_some() && OWN_POOL.with_borrow(Option::is_none));
        run_on_worker_thread(&mut || {
            // A worker thread needs no other one.
            let (inner, own) = worker_thread();
            assert_eq!(inner, thread::current().id());
            let mut computed = None;
            own.unwrap().run(|| computed = Some(thread::current().id()));
            assert_eq!(computed, Some(inner));
        });
    }

    #[test]
    fn sessions_share_the_first_pool_if_no_other_can_be_made() {
        let bytes = include_bytes!("../../../tests/data/networks/tiny.onnx");
        let model = RtenModel::load(&crate::lc0::read_onnx(bytes).unwrap()).unwrap();
        let (first, second) = (model.session(1), model.session(1));
        assert!(first.pool_from(None).is_err());
        let pool = first.pool().unwrap();
        assert!(Arc::ptr_eq(&second.pool_from(None).unwrap(), &pool));
        assert!(!Arc::ptr_eq(&second.pool().unwrap(), &pool));
    }
}
