//! What each backend of ONNX Runtime needs: libraries beside the runtime, devices, settings, batch sizes.
//!
//! `BackendOptions` of these backends: `threads` (inside a session, CPU and OpenVINO), `batch` (sizes to prepare, such as
//! `batch=1/16/64`; smaller batches are padded), `precision`, `device` (OpenVINO: CPU, GPU or NPU), `gpu` (CUDA,
//! TensorRT: the device's number), `cache` (TensorRT: the folder of its engines).

use std::{fs, path::PathBuf};

use sha2::{Digest, Sha256};

use super::{
    errors::BackendSetupError,
    nvidia,
    runtime::{OPENVINO_EP, Runtime},
    session::{SessionSettings, Target, devices},
};
use crate::{
    lc0::DataType,
    network::{
        Advice,
        backend::options::{BackendOptions, OptionsError},
        cores,
    },
};

/// Batch sizes for providers that want few shapes.
const OPENVINO_BATCHES: [usize; 4] = [1, 4, 16, 32];
const GPU_BATCHES: [usize; 6] = [1, 8, 32, 64, 128, 256];

/// Larger batches than this gain nothing on any device, and take hundreds of megabytes.
const LARGEST_BATCH: usize = 4096;

/// How a backend is set up.
#[derive(Debug)]
pub struct Plan {
    /// For the sessions.
    pub settings: SessionSettings,
    /// The device, for people; that weights were converted to 16 or 8 bits is not said here.
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
) -> Result<Plan, BackendSetupError> {
    match name {
        "openvino" => openvino(runtime, options),
        "cuda" => cuda(runtime, options),
        "tensorrt" => tensorrt(runtime, options),
        _ => cpu(options),
    }
}

fn cpu(options: &BackendOptions) -> Result<Plan, BackendSetupError> {
    options.only("onnx-cpu", &["threads", "batch", "precision"])?;
    let threads = options.threads()?;
    let data_type = match options.text("precision").unwrap_or("fp32") {
        "fp32" | "f32" => DataType::Float32,
        "int8" => DataType::Int8,
        other => return Err(bad_value("precision", other, "fp32 or int8")),
    };
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
        data_type,
    })
}

fn openvino(runtime: &Runtime, options: &BackendOptions) -> Result<Plan, BackendSetupError> {
    options.only("openvino", &["threads", "batch", "device", "precision"])?;
    runtime
        .register_openvino()
        .map_err(BackendSetupError::Unavailable)?;
    let device = options.text("device").unwrap_or("CPU").to_ascii_uppercase();
    if !["CPU", "GPU", "NPU"].contains(&device.as_str()) {
        return Err(bad_value("device", &device, "CPU, GPU or NPU"));
    }
    if devices(runtime, OPENVINO_EP, Some(&device)).is_empty() {
        return Err(BackendSetupError::Unavailable(format!(
            "OpenVINO finds no {device} here"
        )));
    }
    let asked = options.text("precision").unwrap_or("auto");
    let asked = asked.to_ascii_lowercase();
    let precision = match asked.as_str() {
        // What is not in 8 bits is computed as usual.
        "auto" | "int8" if device == "CPU" && !has_amx() => "f32",
        "auto" | "int8" if device == "CPU" => "bf16",
        "auto" | "int8" => "",
        "fp32" | "f32" => "f32",
        "bf16" => "bf16",
        "fp16" | "f16" => "f16",
        other => {
            return Err(bad_value(
                "precision",
                other,
                "auto, fp32, bf16, fp16 or int8",
            ));
        }
    };
    let threads = options.threads()?;
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
        data_type: match asked.as_str() {
            "int8" => DataType::Int8,
            _ => DataType::Float32,
        },
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

fn cuda(runtime: &Runtime, options: &BackendOptions) -> Result<Plan, BackendSetupError> {
    options.only("cuda", &["gpu", "batch", "precision"])?;
    nvidia::require(runtime, "cuda")?;
    let (device, fp16) = (gpu(options)?, half_precision(options)?);
    let precision = if fp16 { "" } else { ", fp32" };
    Ok(Plan {
        settings: SessionSettings {
            target: Target::Cuda { device },
            threads: 1,
            batch_sizes: batch_sizes(options, &GPU_BATCHES)?,
        },
        device: format!("CUDA GPU {device}{precision}"),
        advice: GPU_ADVICE,
        data_type: data_type(fp16),
    })
}

fn tensorrt(runtime: &Runtime, options: &BackendOptions) -> Result<Plan, BackendSetupError> {
    options.only("tensorrt", &["gpu", "batch", "precision", "cache"])?;
    nvidia::require(runtime, "tensorrt")?;
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

fn bad_value(key: &str, value: &str, expected: &'static str) -> BackendSetupError {
    BackendSetupError::Options(OptionsError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    })
}

fn gpu(options: &BackendOptions) -> Result<i32, BackendSetupError> {
    let number = options.number("gpu")?.unwrap_or(0);
    i32::try_from(number).map_err(|_| bad_value("gpu", &number.to_string(), "the number of a GPU"))
}

fn half_precision(options: &BackendOptions) -> Result<bool, BackendSetupError> {
    match options.text("precision").unwrap_or("fp16") {
        "fp16" | "f16" => Ok(true),
        "fp32" | "f32" => Ok(false),
        other => Err(bad_value("precision", other, "fp16 or fp32")),
    }
}

fn batch_sizes(options: &BackendOptions, usual: &[usize]) -> Result<Vec<usize>, BackendSetupError> {
    let mut sizes = options.numbers("batch")?.unwrap_or_else(|| usual.to_vec());
    if let Some(size) = sizes.iter().find(|&&size| size > LARGEST_BATCH) {
        return Err(bad_value("batch", &size.to_string(), "at most 4096"));
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// The folder for TensorRT's engines of a model with these settings (whatever else an engine depends on), made if needed;
/// in the user's cache, unless another place is wanted.
///
/// # Errors
/// When the folder cannot be made; the message names it.
pub fn engine_cache(
    model: &[u8],
    settings: &str,
    wanted: &str,
) -> Result<String, BackendSetupError> {
    let base = match wanted {
        "" => user_cache().map(|cache| cache.join("tensorrt")),
        path => Some(PathBuf::from(path)),
    };
    let base = base.ok_or_else(|| {
        BackendSetupError::Unavailable(
            "there is no home folder for its engines; set BackendOptions cache=FOLDER".to_owned(),
        )
    })?;
    let folder = base.join(engine_folder(model, settings));
    fs::create_dir_all(&folder).map_err(|error| {
        BackendSetupError::Unavailable(format!("cannot make {}: {error}", folder.display()))
    })?;
    Ok(folder.to_string_lossy().into_owned())
}

/// A name that depends on everything that an engine does, so that none is ever served to something else. TensorRT itself
/// tells GPUs of different kinds apart.
fn engine_folder(model: &[u8], settings: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(model);
    hash.update(settings);
    let digits = hash.finalize();
    digits[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Where TensorRT keeps engines, unless told otherwise: the user's cache folder, never the program's.
fn user_cache() -> Option<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Caches"))
    } else {
        variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("scorn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_other_networks_and_settings_lie_elsewhere() {
        let name = engine_folder(b"model", "1.24.0 TensorRT GPU 0, fp16 [1, 8]");
        assert_eq!(name.len(), 16);
        for (model, settings) in [
            ("other", "1.24.0 TensorRT GPU 0, fp16 [1, 8]"),
            ("model", "1.25.0 TensorRT GPU 0, fp16 [1, 8]"),
            ("model", "1.24.0 TensorRT GPU 1, fp16 [1, 8]"),
            ("model", "1.24.0 TensorRT GPU 0, fp32 [1, 8]"),
            ("model", "1.24.0 TensorRT GPU 0, fp16 [1, 16]"),
        ] {
            assert_ne!(engine_folder(model.as_bytes(), settings), name);
        }
    }
}
