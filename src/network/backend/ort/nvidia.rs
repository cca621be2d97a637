//! What NVIDIA's GPUs need besides ONNX Runtime: a driver, the CUDA libraries, TensorRT. Loads what came as Python
//! wheels, and explains what is missing and how to get it, because the messages of the libraries themselves do not.

use std::{fs, path::Path};

use super::{
    cuda_failure::{Cause, CudaFailure},
    engine_cache,
    install::{GPU_INSTALL_COMMAND, InstallPlace, TENSORRT_INSTALL_COMMAND, wheel_root},
    plan::BackendSetupError,
    preload::{self, NvidiaProvider},
    runtime::Runtime,
};

/// The library that belongs to the driver.
const DRIVER: &str = if cfg!(windows) {
    "nvcuda.dll"
} else {
    "libcuda.so.1"
};

/// What to do without a driver or GPU.
const NO_GPU: &str = "install the driver if there is an NVIDIA GPU, or take Backend auto";

impl NvidiaProvider {
    /// The command that installs what it needs.
    fn install_command(self) -> &'static str {
        match self {
            NvidiaProvider::Cuda => GPU_INSTALL_COMMAND,
            NvidiaProvider::TensorRt => TENSORRT_INSTALL_COMMAND,
        }
    }
}

/// Whether the runtime comes with the library of a provider.
pub fn has_provider(runtime: &Runtime, provider: NvidiaProvider) -> bool {
    let (prefix, suffix) = if cfg!(windows) {
        ("", "dll")
    } else {
        ("lib", "so")
    };
    let name = format!("{prefix}onnxruntime_providers_{}.{suffix}", provider.name());
    runtime.library().with_file_name(name).is_file()
}

/// That a build of ONNX Runtime lacks a provider, and how to get one that has it.
fn no_provider(library: &Path, provider: NvidiaProvider, place: &InstallPlace) -> String {
    format!(
        "{} is a build without it; for NVIDIA GPUs: {}",
        library.display(),
        place.command_for_library(provider.install_command())
    )
}

/// Prepares the use of a provider.
///
/// # Errors
/// When this build of ONNX Runtime lacks it or there is no driver.
pub fn require(runtime: &Runtime, provider: NvidiaProvider) -> Result<(), BackendSetupError> {
    if !has_provider(runtime, provider) {
        let place = runtime.install_place();
        let reason = no_provider(runtime.library(), provider, &place);
        return Err(BackendSetupError::Unavailable(reason));
    }
    if ort::util::preload_dylib(DRIVER).is_err() {
        return Err(BackendSetupError::Unavailable(no_driver()));
    }
    preload(runtime.library(), provider);
    Ok(())
}

/// The version of TensorRT that is loaded, or "unknown".
pub fn tensorrt_version(runtime: &Runtime) -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    engine_cache::tensorrt_version(wheel_root(runtime.library()), &maps)
}

/// Where the driver for Linux describes the GPUs, each in a folder of its own.
pub(super) const CARDS: &str = "/proc/driver/nvidia/gpus";

/// The models of the GPUs that are described in a folder, such as "NVIDIA H100 80GB HBM3"; empty without a description.
pub(super) fn cards(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut models: Vec<String> = entries
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join("information")).ok()?;
            let model = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
            Some(model.trim().to_owned())
        })
        .collect();
    models.sort();
    models.join(", ")
}

fn no_driver() -> String {
    format!("there is no NVIDIA driver on this machine ({DRIVER} does not load); {NO_GPU}")
}

/// What is missing on this machine and how to get it, if that is what a message of ONNX Runtime or of
/// CUDA's driver is about.
pub fn what_is_missing(message: &str, place: &InstallPlace) -> Option<String> {
    let install_cuda = || place.command_for_library(GPU_INSTALL_COMMAND);
    if let Some(library) = missing_library(message) {
        return Some(match library {
            DRIVER => no_driver(),
            _ if library.contains("nvinfer") || library.contains("nvonnxparser") => {
                let command = place.command_for_library(TENSORRT_INSTALL_COMMAND);
                format!("TensorRT is missing ({library}); install it with: {command}")
            }
            _ => format!(
                "the CUDA libraries are not complete ({library} is missing); install them with: {}",
                install_cuda()
            ),
        });
    }
    if let Some(what) = OPENED_LATE.into_iter().find(|what| lacks(message, what)) {
        return Some(format!(
            "{what} is missing; install it with the CUDA libraries: {}",
            install_cuda()
        ));
    }
    let CudaFailure { cause, text } = CudaFailure::reported_by(message)?;
    match cause {
        Cause::NoGpu => Some(format!("CUDA finds no NVIDIA GPU ({text}); {NO_GPU}")),
        Cause::NoSuchGpu => Some(format!(
            "there is no such GPU ({text}); BackendOptions gpu=0 is the first"
        )),
        Cause::OldDriver => Some(format!(
            "the NVIDIA driver is too old for this CUDA ({text}); install a newer driver: CUDA 13 needs 580 or newer"
        )),
        Cause::MixedDriver => Some(format!(
            "the parts of the NVIDIA driver have different versions ({text}); restart the machine, or install the \
             driver again"
        )),
        Cause::UnsupportedGpu => Some(format!(
            "this CUDA has no code for the GPU ({text}): CUDA 13 needs Turing (2018) or newer; take Backend auto or \
             onnx-cpu"
        )),
        // Nothing is missing; what helps is said where an evaluation fails.
        Cause::Broken => None,
    }
}

/// Libraries that CUDA's provider opens by name when it needs them.
const OPENED_LATE: [&str; 2] = ["cuDNN", "cuFFT"];

/// Whether the provider reports that it has not found one of those.
fn lacks(message: &str, what: &str) -> bool {
    let has_status = |status| message.contains(&format!("{what} is {status}"));
    has_status("not available") || has_status("unavailable")
}

/// The library that the loader did not find: Linux names it, Windows names only the provider that needs it.
fn missing_library(message: &str) -> Option<&str> {
    let (_, loading) = message.split_once("Failed to load library ")?;
    match loading.split_once("with error: ") {
        Some((_, error)) => error.split(": cannot open").next().map(str::trim),
        None => loading.split_whitespace().next(),
    }
}

/// Loads the CUDA and TensorRT libraries that came as wheels beside the package, so that the provider finds them.
/// What does not load is not needed, or reported by the provider itself.
fn preload(library: &Path, provider: NvidiaProvider) {
    if let Some(root) = wheel_root(library) {
        for path in preload::libraries(root, provider) {
            let _ = ort::util::preload_dylib(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::shared::skipped;

    /// What is missing where nothing is installed yet.
    fn missing(message: &str) -> Option<String> {
        what_is_missing(message, &InstallPlace::default())
    }

    #[test]
    fn cards_are_named_as_the_driver_does() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(cards(&folder.path().join("none")), "");
        for (place, text) in [
            ("0000:65:00.0", "Model: \t\t NVIDIA L4\nIRQ: 5\n"),
            ("0000:17:00.0", "Model: \t\t NVIDIA H100 80GB HBM3\n"),
            ("0000:18:00.0", ""),
        ] {
            let card = folder.path().join(place);
            fs::create_dir(&card).unwrap();
            fs::write(card.join("information"), text).unwrap();
        }
        assert_eq!(cards(folder.path()), "NVIDIA H100 80GB HBM3, NVIDIA L4");
    }

    #[test]
    fn a_build_without_a_provider_is_replaced_in_its_folder_by_one_that_has_it() {
        let library = Path::new("/rt/onnxruntime/capi/libonnxruntime.so.1.32.0");
        let place = InstallPlace::of(library, None);
        for (provider, package) in [
            (NvidiaProvider::Cuda, "onnxruntime-gpu"),
            (NvidiaProvider::TensorRt, "tensorrt-cu13"),
        ] {
            let reason = no_provider(library, provider, &place);
            for part in ["--target \"/rt\"", package] {
                assert!(reason.contains(part), "{reason}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_named_with_the_next_step() {
        let loading = |library: &str| {
            format!(
                "Failed to load library /runtime/libonnxruntime_providers_cuda.so with error: \
                 {library}: cannot open shared object file: No such file or directory"
            )
        };
        for (message, parts) in [
            (loading(DRIVER), [DRIVER, "driver", "Backend auto"]),
            (
                loading("libcublasLt.so.13"),
                ["libcublasLt.so.13", "missing", GPU_INSTALL_COMMAND],
            ),
            (
                loading("libnvinfer.so.10"),
                ["libnvinfer.so.10", "TensorRT", TENSORRT_INSTALL_COMMAND],
            ),
            (
                "Failed to load library C:\\ort\\onnxruntime_providers_cuda.dll".into(),
                [
                    "onnxruntime_providers_cuda.dll",
                    "missing",
                    GPU_INSTALL_COMMAND,
                ],
            ),
        ] {
            let text = missing(&message).unwrap();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        assert_eq!(missing("Invalid graph"), None);
    }

    #[test]
    fn failures_of_cuda_are_explained_with_the_next_step() {
        let runtime = |failure: &str| {
            format!(
                "provider_options_utils.h:187 Parse Failed to parse provider option \"device_id\": \
                 CUDA failure {failure} ; GPU=-1 ; hostname=vm ; file=/onnxruntime_src/cuda.cc ; line=70 ; \
                 expr=cudaGetDeviceCount(&num_devices);"
            )
        };
        // Captured graphs are the first form to be tried, and begin without ONNX Runtime.
        let driver = |failure: &str| format!("CUDA: DriverError(CUDA_ERROR_{failure})");
        for (message, parts) in [
            (
                runtime("100: no CUDA-capable device is detected"),
                ["finds no NVIDIA GPU", "is detected)", "Backend auto"],
            ),
            (
                driver("NO_DEVICE, \"no CUDA-capable device is detected\""),
                ["finds no NVIDIA GPU", "is detected)", "Backend auto"],
            ),
            (
                runtime("101: invalid device ordinal"),
                ["no such GPU", "invalid device ordinal)", "gpu=0"],
            ),
            (
                driver("INVALID_DEVICE, \"invalid device ordinal\""),
                ["no such GPU", "invalid device ordinal)", "gpu=0"],
            ),
            (
                runtime("36: API call is not supported in the installed CUDA driver"),
                ["too old", "installed CUDA driver)", "580 or newer"],
            ),
            (
                runtime("35: CUDA driver version is insufficient for CUDA runtime version"),
                ["too old", "insufficient", "580 or newer"],
            ),
            (
                driver("SYSTEM_DRIVER_MISMATCH, \"unsupported combination\""),
                ["different versions", "combination)", "restart the machine"],
            ),
            (
                runtime("209: no kernel image is available for execution on the device"),
                [
                    "no kernel image",
                    "Turing (2018)",
                    "Backend auto or onnx-cpu",
                ],
            ),
        ] {
            let text = missing(&message).unwrap();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        for message in [
            runtime("2: out of memory"),
            driver("OUT_OF_MEMORY, \"out of memory\""),
            runtime("700: an illegal memory access was encountered"),
        ] {
            assert_eq!(missing(&message), None);
        }
    }

    /// Any library will do to see that one is loaded from where the wheels put theirs: a copy of one that this
    /// program uses.
    #[cfg(target_os = "linux")]
    #[test]
    fn libraries_of_the_wheels_are_in_memory_before_the_provider_is() {
        let maps = || fs::read_to_string("/proc/self/maps").unwrap();
        let text = maps();
        let mut loaded = text
            .lines()
            .filter_map(|line| line.split_whitespace().last());
        let Some(some_library) = loaded.find(|path| path.contains("/libgcc_s.so")) else {
            return skipped("this program uses no libgcc_s");
        };
        let root = tempfile::tempdir().unwrap();
        let wheel = root.path().join("nvidia/cu13/lib/libcudart.so.13");
        fs::create_dir_all(wheel.parent().unwrap()).unwrap();
        fs::copy(some_library, &wheel).unwrap();
        let wheel = dunce::canonicalize(wheel).unwrap();
        let is_loaded = || maps().contains(&*wheel.to_string_lossy());
        assert!(!is_loaded());
        let library = root
            .path()
            .join("onnxruntime/capi/libonnxruntime.so.1.31.1");
        // No wheel: what lies three folders above is somebody else's.
        preload(
            &root.path().join("ort/lib/libonnxruntime.so"),
            NvidiaProvider::Cuda,
        );
        assert!(!is_loaded());
        preload(&library, NvidiaProvider::Cuda);
        assert!(is_loaded(), "{}", wheel.display());
    }

    #[test]
    fn libraries_that_are_opened_late_are_missed_too() {
        for message in [
            "Non-zero status code returned while running Conv node. Name:'/input/conv' Status Message: cuDNN is not \
             available. Install cuDNN, update the system library search path, or set enable_cudnn=0 to force native \
             CUDA paths where available.",
            "cuDNN is unavailable or disabled for CUDA Execution Provider: libcudnn.so.9",
        ] {
            let text = missing(message).unwrap();
            assert!(text.starts_with("cuDNN is missing"), "{text}");
            assert!(text.contains(GPU_INSTALL_COMMAND), "{text}");
        }
        let text = missing("cuFFT is not available").unwrap();
        assert!(text.starts_with("cuFFT is missing"), "{text}");
    }
}
