//! How a backend is set up: what its sessions are like, and what the search should do.

use super::errors::BackendSetupError;
use crate::{
    lc0::DataType,
    network::{
        Advice,
        backend::options::{BackendOptions, OptionsError},
    },
};

/// Larger batches than this gain nothing on any device, and take hundreds of megabytes.
const LARGEST_BATCH: usize = 4096;

/// Where and how a network is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// ONNX Runtime's own CPU kernels.
    Cpu,
    /// The OpenVINO plugin.
    OpenVino {
        /// `CPU`, `GPU`, `NPU`.
        device: String,
        /// `f32`, `bf16`, `f16`; empty leaves the choice to the device.
        precision: String,
    },
    /// CUDA kernels.
    Cuda(CudaSettings),
    /// TensorRT engines, with CUDA for the rest.
    TensorRt {
        /// For the rest.
        cuda: CudaSettings,
        /// 16-bit floats.
        fp16: bool,
        /// Where built engines are kept: the folder of all, then, when the network is known, its own.
        cache: String,
    },
    /// DirectML, on Windows: any GPU with DirectX 12.
    DirectMl {
        /// Which GPU; the fastest, if none is named.
        device: Option<i32>,
    },
    /// Core ML, on Apple's systems.
    CoreMl {
        /// What Core ML may use.
        units: CoreMlUnits,
    },
}

/// What Core ML may use of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreMlUnits {
    /// Whatever it likes.
    All,
    /// The processor and the GPU.
    Gpu,
    /// The processor and the neural engine.
    NeuralEngine,
    /// The processor.
    Cpu,
}

impl Target {
    /// The NVIDIA GPU, if it is one: others have no pinned memory of CUDA's.
    pub fn gpu(&self) -> Option<i32> {
        match self {
            Target::Cuda(cuda) | Target::TensorRt { cuda, .. } => Some(cuda.device),
            Target::Cpu
            | Target::OpenVino { .. }
            | Target::DirectMl { .. }
            | Target::CoreMl { .. } => None,
        }
    }
}

/// Settings of CUDA's provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaSettings {
    /// Which GPU.
    pub device: i32,
    /// Whether products of 32-bit floats may be rounded to TF32, which convolutions in fp16 need for tensor cores.
    pub tf32: bool,
    /// Whether convolutions have their channels last.
    pub nhwc: bool,
}

/// Settings of the sessions.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Where to run.
    pub target: Target,
    /// Threads inside a session, on the CPU.
    pub threads: usize,
    /// Batch sizes to prepare, ascending; empty lets every batch have its own size.
    pub batch_sizes: Vec<usize>,
    /// Whether each of those has a session of its own, in which no other size is run.
    pub session_per_size: bool,
    /// Whether what a batch size needs is made when it is first used: for devices where that is large and some sizes may never
    /// be used.
    pub is_lazy: bool,
}

/// How a backend is set up.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// For the sessions.
    pub settings: SessionSettings,
    /// The device, for people; that weights were converted to 16 or 8 bits is not said here.
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
    pub packed: bool,
}

/// A setting with a value that it cannot have.
pub(super) fn bad_value(key: &str, value: &str, expected: &'static str) -> BackendSetupError {
    BackendSetupError::Options(OptionsError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    })
}

/// The batch sizes that are asked for, ascending, or the usual ones.
pub(super) fn batch_sizes(
    options: &BackendOptions,
    usual: &[usize],
) -> Result<Vec<usize>, BackendSetupError> {
    let mut sizes = options.numbers("batch")?.unwrap_or_else(|| usual.to_vec());
    if let Some(size) = sizes.iter().find(|&&size| size > LARGEST_BATCH) {
        return Err(bad_value("batch", &size.to_string(), "at most 4096"));
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}
