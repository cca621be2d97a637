//! What each backend of ONNX Runtime needs: libraries beside the runtime, devices, settings, batch sizes. What concerns
//! NVIDIA's GPUs only is in [`gpu`].

use super::{
    errors::BackendSetupError,
    gpu, nvidia,
    plan::{CoreMlUnits, SessionPlan, SessionSettings, Target, bad_value, batch_sizes},
    runtime::{
        GPU_INSTALL_COMMAND, INSTALL_COMMAND, OPENVINO_AND_RUNTIME_INSTALL_COMMAND, OPENVINO_EP,
        Runtime, TENSORRT_INSTALL_COMMAND,
    },
    session::{devices, maker_besides_intel},
};
use crate::{
    lc0::DataType,
    network::{
        Advice,
        backend::{options::BackendOptions, pool::MAX_SESSIONS},
        cores,
    },
};

/// OpenVINO compiles a model for each batch size.
const OPENVINO_BATCHES: [usize; 4] = [1, 4, 16, 32];

/// DirectML prepares a graph for each batch size.
const DIRECTML_BATCHES: [usize; 6] = [1, 8, 32, 64, 128, 256];

/// Core ML compiles a model for each batch size.
const COREML_BATCHES: [usize; 4] = [1, 8, 32, 64];

/// Refuses the backends of other systems than this one.
///
/// # Errors
/// When ONNX Runtime has no such backend here, whatever is installed.
pub fn require_platform(name: &str) -> Result<(), String> {
    match name {
        "directml" if !cfg!(windows) => {
            Err("DirectML is a part of Windows; take Backend auto".to_owned())
        }
        "coreml" if !cfg!(target_vendor = "apple") => {
            Err("Core ML is a part of Apple's systems; take Backend auto".to_owned())
        }
        _ => Ok(()),
    }
}

/// The command that installs ONNX Runtime with what this backend needs of it.
pub fn install_command(name: &str) -> &'static str {
    match name {
        "cuda" => GPU_INSTALL_COMMAND,
        "tensorrt" => TENSORRT_INSTALL_COMMAND,
        "openvino" => OPENVINO_AND_RUNTIME_INSTALL_COMMAND,
        "directml" => DIRECTML_INSTALL_COMMAND,
        _ => INSTALL_COMMAND,
    }
}

/// What to install where the library knows nothing of a provider.
pub fn install_hint(name: &str, message: &str) -> Option<String> {
    let is_unknown = ["not supported in this build", "not enabled in this build"]
        .iter()
        .any(|text| message.contains(text));
    match name {
        "directml" if is_unknown => Some(format!(
            "the ONNX Runtime found here has no DirectML; install one that has it: {DIRECTML_INSTALL_COMMAND}"
        )),
        "coreml" if is_unknown => Some(
            "the ONNX Runtime found here has no Core ML; the one that pip installs on macOS has it"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Installs ONNX Runtime with DirectML.
pub const DIRECTML_INSTALL_COMMAND: &str =
    "py -m pip install --target runtime --upgrade onnxruntime-directml";

/// Sets up a backend, or says what it lacks.
///
/// # Errors
/// When a library or device is missing, or a setting is wrong.
pub fn plan(
    name: &'static str,
    runtime: &Runtime,
    options: &BackendOptions,
) -> Result<SessionPlan, BackendSetupError> {
    match name {
        "openvino" => openvino(runtime, options),
        "cuda" => nvidia::require(runtime, name).and_then(|()| gpu::cuda(options)),
        "tensorrt" => nvidia::require(runtime, name).and_then(|()| gpu::tensorrt(options)),
        "directml" => directml(options),
        "coreml" => coreml(options),
        _ => cpu(options),
    }
}

fn cpu(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    options.only("onnx-cpu", &["threads", "batch", "precision"])?;
    let threads = options.threads()?;
    let data_type = match options.text("precision").unwrap_or("fp32") {
        "fp32" | "f32" => DataType::Float32,
        "int8" => DataType::Int8,
        other => return Err(bad_value("precision", other, "fp32 or int8")),
    };
    Ok(SessionPlan {
        settings: SessionSettings {
            target: Target::Cpu,
            threads,
            batch_sizes: batch_sizes(options, &[])?,
            session_per_size: false,
            is_lazy: false,
        },
        device: format!("CPU, {threads} thread(s) a session"),
        advice: Advice {
            threads: cores().div_ceil(threads),
            minibatch: 16,
            min_batch: 1,
        },
        data_type,
        max_sessions: MAX_SESSIONS,
        limits_squares: false,
        packed: false,
    })
}

fn openvino(runtime: &Runtime, options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    options.only("openvino", &["threads", "batch", "device", "precision"])?;
    runtime
        .register_openvino()
        .map_err(BackendSetupError::Unavailable)?;
    let device = options.text("device").unwrap_or("CPU").to_ascii_uppercase();
    if !["CPU", "GPU", "NPU"].contains(&device.as_str()) {
        return Err(bad_value("device", &device, "CPU, GPU or NPU"));
    }
    if devices(runtime, OPENVINO_EP, Some(&device)).is_empty() {
        let reason = match maker_besides_intel(runtime) {
            Some(maker) if device == "CPU" => format!(
                "OpenVINO's package for ONNX Runtime knows Intel's processors only, and this one is from {maker}; \
                 Backend onnx-cpu runs on it"
            ),
            _ => format!("OpenVINO finds no {device} here"),
        };
        return Err(BackendSetupError::Unavailable(reason));
    }
    let asked = options.text("precision").unwrap_or("auto");
    let asked = asked.to_ascii_lowercase();
    let precision = openvino_precision(&device, &asked)?;
    let threads = options.threads()?;
    let shown = if precision.is_empty() {
        "automatic precision"
    } else {
        precision
    };
    Ok(SessionPlan {
        device: format!("OpenVINO {device}, {shown}, {threads} thread(s) a session"),
        settings: SessionSettings {
            target: Target::OpenVino {
                device,
                precision: precision.to_owned(),
            },
            threads,
            batch_sizes: batch_sizes(options, &OPENVINO_BATCHES)?,
            session_per_size: true,
            is_lazy: false,
        },
        advice: Advice {
            threads: cores().div_ceil(threads),
            minibatch: 16,
            min_batch: 1,
        },
        data_type: match asked.as_str() {
            "int8" => DataType::Int8,
            _ => DataType::Float32,
        },
        max_sessions: MAX_SESSIONS,
        limits_squares: may_be_half(precision),
        packed: false,
    })
}

/// What OpenVINO computes in on a device; empty leaves it the choice. `asked` is in lower case.
fn openvino_precision(device: &str, asked: &str) -> Result<&'static str, BackendSetupError> {
    Ok(match asked {
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
    })
}

/// Whether OpenVINO may compute in 16 bits with a short exponent, which GPUs and NPUs choose by themselves.
fn may_be_half(precision: &str) -> bool {
    ["", "f16"].contains(&precision)
}

fn directml(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    options.only("directml", &["gpu", "batch", "precision"])?;
    let device = options.number("gpu")?;
    let shown = device.map_or("GPU".to_owned(), |number| format!("GPU {number}"));
    let device = device.map(|number| i32::try_from(number).unwrap_or(i32::MAX));
    let asked = options.text("precision").unwrap_or("fp16");
    let data_type = match asked.to_ascii_lowercase().as_str() {
        "fp16" | "f16" => DataType::Float16,
        "fp32" | "f32" => DataType::Float32,
        _ => return Err(bad_value("precision", asked, "fp16 or fp32")),
    };
    Ok(SessionPlan {
        settings: SessionSettings {
            target: Target::DirectMl { device },
            threads: 1,
            batch_sizes: batch_sizes(options, &DIRECTML_BATCHES)?,
            session_per_size: true,
            is_lazy: false,
        },
        device: format!("DirectML {shown}"),
        advice: Advice {
            threads: 2,
            minibatch: 256,
            min_batch: gpu::least_of(256),
        },
        data_type,
        max_sessions: 2,
        limits_squares: false,
        packed: false,
    })
}

fn coreml(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    options.only("coreml", &["device", "batch"])?;
    let asked = options.text("device").unwrap_or("all");
    let units = match asked.to_ascii_lowercase().as_str() {
        "all" => CoreMlUnits::All,
        "gpu" => CoreMlUnits::Gpu,
        "npu" => CoreMlUnits::NeuralEngine,
        "cpu" => CoreMlUnits::Cpu,
        _ => return Err(bad_value("device", asked, "all, gpu, npu or cpu")),
    };
    Ok(SessionPlan {
        settings: SessionSettings {
            target: Target::CoreMl { units },
            threads: 1,
            batch_sizes: batch_sizes(options, &COREML_BATCHES)?,
            session_per_size: true,
            is_lazy: false,
        },
        device: format!("Core ML, {}", asked.to_ascii_lowercase()),
        advice: Advice {
            threads: 2,
            minibatch: 64,
            min_batch: 1,
        },
        data_type: DataType::Float32,
        max_sessions: 2,
        limits_squares: false,
        packed: false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> BackendOptions {
        BackendOptions::parse(text).unwrap()
    }

    #[test]
    fn openvino_limits_squares_where_it_may_compute_in_half_precision() {
        for (device, asked, expected) in [
            ("CPU", "auto", false),
            ("CPU", "bf16", false),
            ("CPU", "fp16", true),
            ("GPU", "auto", true),
            ("NPU", "int8", true),
            ("GPU", "fp32", false),
        ] {
            let precision = openvino_precision(device, asked).unwrap();
            assert_eq!(may_be_half(precision), expected, "{device}, {asked}");
        }
        assert!(openvino_precision("GPU", "fp8").is_err());
    }

    #[test]
    fn the_providers_of_windows_and_apple_are_planned_as_asked() {
        let plan = directml(&options("gpu=1,precision=fp32,batch=4/16")).unwrap();
        let target = Target::DirectMl { device: Some(1) };
        assert_eq!(plan.settings.target, target);
        assert_eq!(plan.settings.batch_sizes, [4, 16]);
        assert_eq!(plan.data_type, DataType::Float32);
        let plan = coreml(&options("device=NPU")).unwrap();
        let units = CoreMlUnits::NeuralEngine;
        assert_eq!(plan.settings.target, Target::CoreMl { units });
        for (plan, key) in [
            (directml(&options("threads=2")), "threads"),
            (directml(&options("precision=int8")), "precision"),
            (coreml(&options("device=toaster")), "device"),
        ] {
            assert!(plan.unwrap_err().to_string().contains(key), "{key}");
        }
    }

    #[test]
    fn providers_of_other_systems_are_refused_by_their_system() {
        let is_there = |name| require_platform(name).is_ok();
        assert_eq!(is_there("directml"), cfg!(windows));
        assert_eq!(is_there("coreml"), cfg!(target_vendor = "apple"));
        assert!(is_there("onnx-cpu") && is_there("cuda"));
        let said = "DirectML is not supported in this build of ONNX Runtime";
        assert!(
            install_hint("directml", said)
                .unwrap()
                .contains("onnxruntime-directml")
        );
        assert_eq!(install_hint("cuda", said), None);
    }
}
