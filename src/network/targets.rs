//! What each backend of ONNX Runtime needs: libraries beside the runtime, devices, settings, batch sizes.
//!
//! `BackendOptions` of these backends: `threads` (inside a session, CPU and OpenVINO), `batch` (sizes to prepare, such as
//! `batch=1/16/64`; smaller batches are padded), `precision`, `device` (OpenVINO: CPU, GPU or NPU), `gpu` (CUDA,
//! TensorRT: the device's number), `cache` (TensorRT: the folder of its engines).

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{
    Advice,
    backend_options::{BackendOptions, OptionsError},
    onnx::{OPENVINO_EP, SessionSettings, Target, devices},
    registry::{LoadError, cores, user_cache},
    runtime::Runtime,
    weights::Network,
};
use crate::lc0::DataType;

/// Batch sizes for providers that want few shapes.
const OPENVINO_BATCHES: [usize; 4] = [1, 4, 16, 32];
const GPU_BATCHES: [usize; 6] = [1, 8, 32, 64, 128, 256];

/// How a backend is set up.
#[derive(Debug)]
pub struct Plan {
    /// For the sessions.
    pub settings: SessionSettings,
    /// The device, for people.
    pub device: String,
    /// What the search should do.
    pub advice: Advice,
    /// What lc0's weights are converted to.
    pub data_type: DataType,
}

/// Sets up a backend, or says what it lacks.
///
/// # Errors
/// When a library or device is missing, or a setting is wrong.
pub fn plan(
    name: &'static str,
    runtime: &Runtime,
    options: &BackendOptions,
) -> Result<Plan, LoadError> {
    match name {
        "openvino" => openvino(runtime, options),
        "cuda" => cuda(runtime, options),
        "tensorrt" => tensorrt(runtime, options),
        _ => cpu(options),
    }
}

fn cpu(options: &BackendOptions) -> Result<Plan, LoadError> {
    options.only("onnx-cpu", &["threads", "batch"])?;
    let threads = options.number("threads")?.unwrap_or(1).max(1);
    Ok(Plan {
        settings: SessionSettings {
            target: Target::Cpu,
            threads,
            batch_sizes: batch_sizes(options, &[])?,
        },
        device: format!("CPU, {threads} thread(s) a session"),
        advice: Advice {
            threads: cores().div_ceil(threads),
            minibatch: 16,
        },
        data_type: DataType::Float32,
    })
}

fn openvino(runtime: &Runtime, options: &BackendOptions) -> Result<Plan, LoadError> {
    options.only("openvino", &["threads", "batch", "device", "precision"])?;
    let unavailable = |reason| LoadError::Unavailable {
        backend: "openvino",
        reason,
    };
    runtime.register_openvino().map_err(unavailable)?;
    let device = options.text("device").unwrap_or("CPU").to_ascii_uppercase();
    if !["CPU", "GPU", "NPU"].contains(&device.as_str()) {
        return Err(bad_value("device", &device, "CPU, GPU or NPU"));
    }
    if devices(runtime, OPENVINO_EP, Some(&device)).is_empty() {
        return Err(unavailable(format!("OpenVINO finds no {device} here")));
    }
    let precision = match options
        .text("precision")
        .unwrap_or("")
        .to_ascii_lowercase()
        .as_str()
    {
        "" | "auto" if device == "CPU" && !has_amx() => "f32",
        "" | "auto" if device == "CPU" => "bf16",
        "" | "auto" => "",
        "fp32" | "f32" => "f32",
        "bf16" => "bf16",
        "fp16" | "f16" => "f16",
        other => return Err(bad_value("precision", other, "auto, fp32, bf16 or fp16")),
    };
    let threads = options.number("threads")?.unwrap_or(1).max(1);
    let shown = if precision.is_empty() {
        "automatic precision"
    } else {
        precision
    };
    Ok(Plan {
        device: format!("OpenVINO {device}, {shown}, {threads} thread(s) a session"),
        settings: SessionSettings {
            target: Target::OpenVino {
                device,
                precision: precision.to_owned(),
            },
            threads,
            batch_sizes: batch_sizes(options, &OPENVINO_BATCHES)?,
        },
        advice: Advice {
            threads: cores().div_ceil(threads),
            minibatch: 16,
        },
        data_type: DataType::Float32,
    })
}

/// Whether the processor multiplies matrices of bf16 in hardware (AMX). Without it OpenVINO would still choose bf16 on
/// processors that know the type, and be slower than with 32 bits.
fn has_amx() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const AMX_BF16: u32 = 1 << 22;
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & AMX_BF16 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn cuda(runtime: &Runtime, options: &BackendOptions) -> Result<Plan, LoadError> {
    options.only("cuda", &["gpu", "batch", "precision"])?;
    need_provider(runtime, "cuda")?;
    let (device, fp16) = (gpu(options)?, half_precision(options)?);
    let precision = if fp16 { "fp16" } else { "fp32" };
    Ok(Plan {
        settings: SessionSettings {
            target: Target::Cuda { device },
            threads: 1,
            batch_sizes: batch_sizes(options, &GPU_BATCHES)?,
        },
        device: format!("CUDA GPU {device}, {precision}"),
        advice: GPU_ADVICE,
        data_type: data_type(fp16),
    })
}

fn tensorrt(runtime: &Runtime, options: &BackendOptions) -> Result<Plan, LoadError> {
    options.only("tensorrt", &["gpu", "batch", "precision", "cache"])?;
    need_provider(runtime, "tensorrt")?;
    let (device, fp16) = (gpu(options)?, half_precision(options)?);
    let precision = if fp16 { "fp16" } else { "fp32" };
    Ok(Plan {
        settings: SessionSettings {
            target: Target::TensorRt {
                device,
                fp16,
                cache: options.text("cache").unwrap_or("").to_owned(),
            },
            threads: 1,
            batch_sizes: batch_sizes(options, &GPU_BATCHES)?,
        },
        device: format!("TensorRT GPU {device}, {precision}"),
        advice: GPU_ADVICE,
        // TensorRT lowers the precision itself where that is safe.
        data_type: DataType::Float32,
    })
}

/// Two threads, so that one batch is gathered while another is evaluated.
const GPU_ADVICE: Advice = Advice {
    threads: 2,
    minibatch: 256,
};

fn data_type(fp16: bool) -> DataType {
    if fp16 {
        DataType::Float16
    } else {
        DataType::Float32
    }
}

fn bad_value(key: &str, value: &str, expected: &'static str) -> LoadError {
    LoadError::Options(OptionsError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    })
}

fn gpu(options: &BackendOptions) -> Result<i32, LoadError> {
    let number = options.number("gpu")?.unwrap_or(0);
    i32::try_from(number).map_err(|_| bad_value("gpu", &number.to_string(), "the number of a GPU"))
}

fn half_precision(options: &BackendOptions) -> Result<bool, LoadError> {
    match options.text("precision").unwrap_or("fp16") {
        "fp16" | "f16" => Ok(true),
        "fp32" | "f32" => Ok(false),
        other => Err(bad_value("precision", other, "fp16 or fp32")),
    }
}

fn batch_sizes(options: &BackendOptions, usual: &[usize]) -> Result<Vec<usize>, LoadError> {
    let mut sizes = options.numbers("batch")?.unwrap_or_else(|| usual.to_vec());
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// Whether the runtime comes with the library of a provider that has one, named `cuda` or `tensorrt`.
pub fn has_provider(runtime: &Runtime, provider: &str) -> bool {
    let (prefix, suffix) = if cfg!(windows) {
        ("", "dll")
    } else {
        ("lib", "so")
    };
    let name = format!("{prefix}onnxruntime_providers_{provider}.{suffix}");
    runtime.library().with_file_name(name).is_file()
}

fn need_provider(runtime: &Runtime, provider: &'static str) -> Result<(), LoadError> {
    if has_provider(runtime, provider) {
        preload_cuda(runtime.library());
        return Ok(());
    }
    Err(LoadError::Unavailable {
        backend: provider,
        reason: format!(
            "{} is a build without it; for NVIDIA GPUs: python3 -m pip install --target runtime 'onnxruntime-gpu[cuda,cudnn]'",
            runtime.library().display()
        ),
    })
}

/// Loads the CUDA and TensorRT libraries that came as wheels (`nvidia/*/lib` and `tensorrt_libs` beside the package), so
/// that the provider finds them. What does not load is not needed, or reported by the provider itself.
fn preload_cuda(library: &Path) {
    /// Those that others need first.
    const ORDER: [&str; 9] = [
        "cudart",
        "nvJitLink",
        "nvrtc",
        "cublasLt",
        "cublas",
        "cufft",
        "curand",
        "cudnn",
        "nvinfer",
    ];
    let Some(root) = library.ancestors().nth(3) else {
        return;
    };
    let wheels = fs::read_dir(root.join("nvidia"))
        .into_iter()
        .flatten()
        .flatten();
    let folders = wheels.flat_map(|wheel| ["lib", "bin"].map(|sub| wheel.path().join(sub)));
    let files: Vec<PathBuf> = folders
        .chain([root.join("tensorrt_libs")])
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .collect();
    for stem in ORDER {
        for path in files.iter().filter(|path| is_library(path, stem)) {
            let _ = ort::util::preload_dylib(path);
        }
    }
}

/// Whether a file is the library itself (`libcudnn.so.9`, `cudnn64_9.dll`) and not a part of it (`libcudnn_ops.so.9`).
fn is_library(path: &Path, stem: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix("lib").unwrap_or(&name);
    let rest = name
        .strip_prefix(stem)
        .map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first == '.' || first.is_ascii_digit()))
}

/// The folder for TensorRT's engines, made if needed: its name depends on the network, the library and the batch sizes,
/// so that an engine is never served to something else (TensorRT itself tells GPUs apart).
///
/// # Errors
/// When the folder cannot be made; the message names it.
pub fn engine_cache(
    runtime: &Runtime,
    network: &Network,
    batch_sizes: &[usize],
    wanted: &str,
) -> Result<String, LoadError> {
    let unavailable = |reason| LoadError::Unavailable {
        backend: "tensorrt",
        reason,
    };
    let base = match wanted {
        "" => user_cache().map(|cache| cache.join("tensorrt")),
        path => Some(PathBuf::from(path)),
    };
    let base = base.ok_or_else(|| {
        unavailable(
            "there is no home folder for its engines; set BackendOptions cache=FOLDER".to_owned(),
        )
    })?;
    let mut hash = Sha256::new();
    hash.update(&network.onnx.bytes);
    hash.update(format!("{} {batch_sizes:?}", runtime.version()));
    let digits = hash
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let folder = base.join(digits);
    fs::create_dir_all(&folder)
        .map_err(|error| unavailable(format!("cannot make {}: {error}", folder.display())))?;
    Ok(folder.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_from_their_parts() {
        for (name, stem, expected) in [
            ("libcudnn.so.9", "cudnn", true),
            ("cudnn64_9.dll", "cudnn", true),
            ("nvinfer_10.dll", "nvinfer", true),
            ("libcudnn_ops.so.9", "cudnn", false),
            ("libcublasLt.so.13", "cublas", false),
            ("libnvinfer_plugin.so.10", "nvinfer", false),
        ] {
            assert_eq!(is_library(Path::new(name), stem), expected, "{name}");
        }
    }
}
