//! Compatibility with configurations of lc0: options that only lc0 has are ignored, and its backends are replaced by
//! the nearest ones of Scorn.

use super::{OptionError, Options};

/// Options of lc0 that Scorn does not have: their names and flags.
const ONLY_IN_LC0: &[(&str, &str)] = &[
    ("CacheHistoryLength", "cache-history-length"),
    ("SolidTreeThreshold", "solid-tree-threshold"),
    ("MaxPrefetch", "max-prefetch"),
    ("MaxConcurrentSearchers", "max-concurrent-searchers"),
    ("TaskWorkers", "task-workers"),
    ("MinimumProcessingWork", "minimum-processing-work"),
    ("MinimumPickingWork", "minimum-picking-work"),
    (
        "MinimumRemainingPickingWork",
        "minimum-remaining-picking-work",
    ),
    ("MinimumPerTaskProcessing", "minimum-per-task-processing"),
    ("IdlingMinimumWork", "idling-minimum-work"),
    ("ThreadIdlingThreshold", "thread-idling-threshold"),
    ("SearchSpinBackoff", "search-spin-backoff"),
    ("GarbageCollectionDelay", "garbage-collection-delay"),
];

/// Flags that lc0 has renamed: the old and the new name.
pub const RENAMED_IN_LC0: &[(&str, &str)] = &[("history-fill-new", "history-fill")];

/// Backends of lc0 and the nearest ones of Scorn.
const BACKENDS_OF_LC0: &[(&str, &str)] = &[
    ("cuda-auto", "cuda"),
    ("cuda-fp16", "cuda"),
    ("cudnn-auto", "cuda"),
    ("cudnn", "cuda"),
    ("cudnn-fp16", "cuda"),
    ("onnx-cuda", "cuda"),
    ("onnx-trt", "tensorrt"),
    ("blas", "auto"),
    ("eigen", "auto"),
    ("dnnl", "auto"),
    ("onednn", "auto"),
    ("mkl", "auto"),
    ("opencl", "auto"),
    ("dx12", "auto"),
    ("tensorflow", "auto"),
    ("tensorflow-cc", "auto"),
    ("tensorflow-cc-cpu", "auto"),
    ("onnx-openvino", "openvino"),
    ("onnx-dml", "directml"),
    ("onnx-rocm", "auto"),
    ("onnx-migraphx", "auto"),
    ("onnx-coreml", "coreml"),
    ("metal", "auto"),
    ("sycl", "auto"),
    ("sycl-fp16", "auto"),
    ("xla", "auto"),
    ("random", "hash"),
    ("trivial", "hash"),
    ("recordreplay", "auto"),
    ("demux", "multiplexing"),
];

/// The backend nearest to one of lc0, by its name there; `None` if it has the same name here.
pub fn backend_of_lc0(name: &str) -> Option<&'static str> {
    let is_same = |known: &&(&str, &str)| known.0.eq_ignore_ascii_case(name.trim());
    BACKENDS_OF_LC0.iter().find(is_same).map(|&(_, ours)| ours)
}

impl Options {
    /// Sets an option as [`Options::set`] does, but accepts what configurations of lc0 set besides: backends by lc0's
    /// names, and options that only lc0 has. Returns the message about these.
    ///
    /// # Errors
    /// When neither Scorn nor lc0 has such an option, or the value does not fit.
    pub fn set_as_in_lc0(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<Option<String>, OptionError> {
        if name.eq_ignore_ascii_case("Backend")
            && let Some(ours) = backend_of_lc0(value)
        {
            self.set(name, ours)?;
            return Ok(Some(format!(
                "backend {} is one of lc0: taking {ours}",
                value.trim()
            )));
        }
        match self.set(name, value) {
            Err(OptionError::Unknown(_)) if is_only_in_lc0(name) => Ok(Some(format!(
                "option {name} exists in lc0 only and is ignored"
            ))),
            result => result.map(|()| None),
        }
    }
}

/// UCI names and flags of the options that only lc0 has.
pub fn only_in_lc0() -> impl Iterator<Item = (&'static str, &'static str)> {
    ONLY_IN_LC0.iter().copied()
}

/// Whether an option of this name or flag exists in lc0 only.
pub fn is_only_in_lc0(name: &str) -> bool {
    let mut names = ONLY_IN_LC0.iter().flat_map(|(name, flag)| [*name, *flag]);
    names.any(|known| known.eq_ignore_ascii_case(name))
}
