//! What each backend of ONNX Runtime needs: libraries beside the runtime, devices, settings, batch sizes. What concerns
//! NVIDIA's GPUs only is in [`gpu`].

use super::{
    errors::BackendSetupError,
    gpu, nvidia,
    plan::{SessionPlan, SessionSettings, Target, bad_value, batch_sizes},
    runtime::{OPENVINO_EP, Runtime},
    session::devices,
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
        },
        device: format!("CPU, {threads} thread(s) a session"),
        advice: Advice {
            threads: cores().div_ceil(threads),
            minibatch: 16,
            least: 1,
        },
        data_type,
        max_sessions: MAX_SESSIONS,
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
        },
        advice: Advice {
            threads: cores().div_ceil(threads),
            minibatch: 16,
            least: 1,
        },
        data_type: match asked.as_str() {
            "int8" => DataType::Int8,
            _ => DataType::Float32,
        },
        max_sessions: MAX_SESSIONS,
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
