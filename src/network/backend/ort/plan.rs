//! How a backend is set up: the execution provider, the sessions, and what the search should do.

use std::{fmt::Debug, sync::Arc};

use ort::session::builder::SessionBuilder;
use thiserror::Error;

use super::runtime::Runtime;
use crate::{
    lc0::{DataType, OnnxModel},
    network::{
        Advice,
        backend::{
            options::{BackendOptions, BackendOptionsError, Setting},
            pool::DeviceSession,
        },
    },
};

/// Larger batches than this gain nothing on any device, and take hundreds of megabytes.
const MAX_BATCH_SIZE: usize = 4096;

/// Batch sizes to prepare; each backend has its own default.
pub(super) const BATCH: Setting = Setting {
    key: "batch",
    meaning: "batch sizes to prepare, such as `1/16/64` (at most 4096); smaller batches are padded, and on NVIDIA GPUs \
        split where that is cheaper",
    default: "any",
};

/// What keeps a backend from being set up.
#[derive(Debug, Error, PartialEq)]
pub enum BackendSetupError {
    /// Its settings are wrong.
    #[error(transparent)]
    Options(#[from] BackendOptionsError),
    /// The device, or a library that it needs, is missing: what, and how to get it.
    #[error("{0}")]
    Unavailable(String),
}

/// The result of a step in building a session.
pub type Built = Result<SessionBuilder, ort::Error<SessionBuilder>>;

/// An execution provider of ONNX Runtime with its settings: what a session computes with.
pub trait ExecutionProvider: Debug + Send + Sync {
    /// Adds the provider to a session of this model.
    #[expect(clippy::result_large_err, reason = "ort's own error, once a session")]
    fn configure(&self, builder: SessionBuilder, context: &SessionContext<'_>) -> Built;

    /// The number of the NVIDIA GPU on which it runs; `None` if it runs elsewhere.
    fn nvidia_gpu(&self) -> Option<i32> {
        None
    }

    /// The provider to try once when a session cannot be made because of `error`.
    fn fallback(&self, _error: &str) -> Option<Arc<dyn ExecutionProvider>> {
        None
    }
}

/// What a session is made for.
pub struct SessionContext<'a> {
    /// ONNX Runtime.
    pub runtime: &'a Runtime,
    /// The network.
    pub model: &'a OnnxModel,
    /// Threads inside the session, at least 1.
    pub threads: usize,
    /// Batch sizes to prepare, ascending.
    pub batch_sizes: &'a [usize],
}

/// Settings of the sessions.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// What computes.
    pub provider: Arc<dyn ExecutionProvider>,
    /// Threads inside a session, on the CPU.
    pub threads: usize,
    /// Batch sizes to prepare, ascending; empty lets every batch have its own size.
    pub batch_sizes: Vec<usize>,
    /// Whether each of those has a session of its own, in which no other size is run.
    pub session_per_size: bool,
    /// Whether what a batch size needs is made when it is first used: for devices where that is large and some sizes
    /// may never be used.
    pub is_lazy: bool,
}

/// How a backend is set up.
#[derive(Clone, Debug)]
pub(super) struct SessionPlan {
    /// For the sessions.
    pub settings: SessionSettings,
    /// The device, for messages; without the numeric type that weights were converted to.
    pub device: String,
    /// What the search should do.
    pub advice: Advice,
    /// What lc0's weights are converted to.
    pub data_type: DataType,
    /// Whether the provider itself computes what is converted to 32 bits in 16, so that squares have to fit into those.
    pub limits_squares: bool,
    /// The most sessions there may be, however many threads evaluate.
    pub max_sessions: usize,
    /// Whether the model is to take its planes as bits.
    pub packed: Packing,
    /// The forms of the graph to try, in this order. Those before the last one have to agree with it.
    pub forms: Vec<GraphForm>,
    /// What captures batches, if the backend can.
    pub capture: Option<Arc<dyn GraphCapture>>,
}

/// Makes sessions whose batches are captured.
pub trait GraphCapture: Debug + Send + Sync {
    /// A session of this model, all of whose batch sizes are captured.
    ///
    /// # Errors
    /// The message of the device or of ONNX Runtime.
    fn capture(
        &self,
        runtime: &Runtime,
        model: &Arc<OnnxModel>,
        settings: &SessionSettings,
    ) -> Result<Box<dyn DeviceSession>, String>;
}

/// The form of a network's graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphForm {
    /// ONNX's own operators; the policy is the logits of all moves.
    Plain,
    /// ONNX Runtime's fused operators; the policy is the probabilities of the legal moves, where that is possible.
    Fused,
    /// The same, and all work of a batch is captured at loading, to be repeated by one command to the device.
    Captured,
}

/// The form of the graph.
pub(super) const GRAPH: Setting = Setting {
    key: "graph",
    meaning: "`plain`: ONNX's operators, logits of all moves; `fused`: ONNX Runtime's fused operators in converted lc0 networks, \
        and the softmax over the legal moves as part of the graph; `captured` (cuda): the same, in 16 bits with kernels of \
        Scorn's own, and a CUDA graph for each batch size, with copies from and to pinned memory",
    default: "plain",
};

impl GraphForm {
    /// The value of the setting [`GRAPH`].
    pub(super) fn name(self) -> &'static str {
        match self {
            GraphForm::Plain => "plain",
            GraphForm::Fused => "fused",
            GraphForm::Captured => "captured",
        }
    }

    /// The setting [`GRAPH`], if it is given.
    pub(super) fn of(options: &BackendOptions) -> Result<Option<GraphForm>, BackendSetupError> {
        let Some(text) = options.text(GRAPH.key) else {
            return Ok(None);
        };
        let mut forms = [GraphForm::Plain, GraphForm::Fused, GraphForm::Captured].into_iter();
        let named = forms.find(|form| form.name().eq_ignore_ascii_case(text));
        match named {
            Some(form) => Ok(Some(form)),
            None => Err(bad_value(GRAPH.key, text, "plain, fused or captured")),
        }
    }
}

/// Whether input planes are uploaded as bits and unpacked on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Planes are uploaded as numbers.
    Never,
    /// If the network's planes are such: lc0's are.
    WherePossible,
    /// A network whose planes are not such is an error.
    Always,
}

/// A setting with a value that it cannot have.
pub(super) fn bad_value(key: &str, value: &str, expected: &'static str) -> BackendSetupError {
    BackendSetupError::Options(BackendOptionsError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    })
}

/// The batch sizes of `BackendOptions`, ascending, or the default ones.
pub(super) fn batch_sizes(
    options: &BackendOptions,
    default: &[usize],
) -> Result<Vec<usize>, BackendSetupError> {
    let mut sizes = options
        .numbers("batch")?
        .unwrap_or_else(|| default.to_vec());
    if let Some(size) = sizes.iter().find(|&&size| size > MAX_BATCH_SIZE) {
        return Err(bad_value("batch", &size.to_string(), "at most 4096"));
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_named_in_any_case() {
        let form = |text: &str| GraphForm::of(&BackendOptions::parse(text).unwrap());
        assert_eq!(form("").unwrap(), None);
        assert_eq!(form("graph=Plain").unwrap(), Some(GraphForm::Plain));
        assert_eq!(form("graph=FUSED").unwrap(), Some(GraphForm::Fused));
        let error = form("graph=Round").unwrap_err().to_string();
        assert!(error.contains("graph=Round is not plain, fused"), "{error}");
    }
}
