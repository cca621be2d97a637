//! What configurations of lc0 set that is not here, or has another name here: they work as they are.

use super::{OptionError, Options};

/// lc0's options that have no counterpart here: their names and flags. Configurations that set them work as they are.
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

/// Flags that lc0 has renamed: what they were called, and what they are.
pub const RENAMED_IN_LC0: &[(&str, &str)] = &[("history-fill-new", "history-fill")];

/// lc0's backends and the nearest of ours.
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

/// The nearest of our backends to the one that lc0 calls so, if we have none of this name.
pub fn backend_of_lc0(name: &str) -> Option<&'static str> {
    let is_same = |known: &&(&str, &str)| known.0.eq_ignore_ascii_case(name.trim());
    BACKENDS_OF_LC0.iter().find(is_same).map(|&(_, ours)| ours)
}

impl Options {
    /// Sets an option as [`Options::set`] does, and understands what configurations of lc0 set besides: backends by their names
    /// there, and options that mean nothing here. Returns what to tell about those.
    ///
    /// # Errors
    /// When there is no such option, here or there, or the value does not fit.
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
                "option {name} is one of lc0 and means nothing here"
            ))),
            result => result.map(|()| None),
        }
    }
}

/// The UCI names and the flags of lc0's options that there are not here.
pub fn only_in_lc0() -> impl Iterator<Item = (&'static str, &'static str)> {
    ONLY_IN_LC0.iter().copied()
}

/// Whether lc0 has an option of this name or flag that there is not here.
pub fn is_only_in_lc0(name: &str) -> bool {
    let mut names = ONLY_IN_LC0.iter().flat_map(|(name, flag)| [*name, *flag]);
    names.any(|known| known.eq_ignore_ascii_case(name))
}
