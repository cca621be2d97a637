//! The `openvino` backend: Intel's processors, GPUs and NPUs, through the OpenVINO plug-in for ONNX Runtime.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ort::session::builder::SessionBuilder;
use parking_lot::Mutex;

use super::{
    create::{OrtBackend, create},
    install::{
        InstallPlace, OPENVINO_AND_RUNTIME_INSTALL_COMMAND, OPENVINO_INSTALL_COMMAND, wheel_root,
    },
    int8::ByteProducts,
    plan::{
        BATCH, BackendSetupError, Built, ExecutionProvider, GraphForm, Packing, SessionContext,
        SessionPlan, SessionSettings, bad_value, batch_sizes,
    },
    runtime::{Runtime, usual_places},
    session::{device_lines, devices},
};
use crate::{
    lc0::DataType,
    network::{
        Advice, Evaluator,
        backend::{
            error::LoadError,
            factory::{
                BackendFactory, BackendInfo, BackendKind, BackendRequest, InstallHint, Machine,
            },
            options::{BackendOptions, Setting, THREADS},
            pool::MAX_SESSIONS,
        },
        cores,
        source::Network,
    },
    terminal::counted,
};

/// Description of `openvino`.
pub static INFO: BackendInfo = BackendInfo {
    name: "openvino",
    lc0_names: &["onnx-openvino"],
    kind: BackendKind::Device { is_automatic: true },
    summary: "Intel CPUs, GPUs and NPUs",
    documentation: "Intel CPUs, GPUs and NPUs; bf16 on CPUs with AMX, fp32 otherwise. On an AMD EPYC the plugin offers no device",
    requirements: "`onnxruntime` and `onnxruntime-ep-openvino`",
    install_command: Some(OPENVINO_AND_RUNTIME_INSTALL_COMMAND),
    settings: &[
        THREADS,
        Setting {
            default: "1/4/16/32",
            ..BATCH
        },
        Setting {
            key: "precision",
            meaning: "`fp32`, `bf16`, `fp16`, `int8`",
            default: "bf16 with AMX, otherwise fp32; on GPU and NPU the device's choice",
        },
        Setting {
            key: "device",
            meaning: "`CPU`, `GPU`, `NPU`",
            default: "CPU",
        },
    ],
};

/// Where it computes unless `device` says otherwise.
const DEFAULT_DEVICE: &str = "CPU";

/// OpenVINO compiles a model for each batch size.
const BATCH_SIZES: [usize; 4] = [1, 4, 16, 32];

/// The name under which the plug-in is registered, which its devices report.
const PROVIDER: &str = "OpenVINOExecutionProvider";

/// Whether the plug-in is registered; where it supports no device nothing else shows it.
static IS_REGISTERED: Mutex<bool> = Mutex::new(false);

/// The backend `openvino`.
pub struct OpenVino;

impl BackendFactory for OpenVino {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        create(self, request)
    }

    fn devices(&self, machine: &Machine) -> Vec<String> {
        device_lines(machine, PROVIDER)
    }

    fn install_hint(&self, machine: &Machine) -> Option<InstallHint> {
        let runtime = machine.runtime.as_ref().ok();
        let is_useless = runtime.and_then(vendor_other_than_intel).is_some();
        if is_useless {
            None
        } else {
            hint(runtime.map(Runtime::library), &machine.install_place())
        }
    }
}

impl OrtBackend for OpenVino {
    fn plan(
        &self,
        runtime: &Runtime,
        options: &BackendOptions,
    ) -> Result<SessionPlan, BackendSetupError> {
        register(runtime).map_err(BackendSetupError::Unavailable)?;
        let device = options
            .text("device")
            .unwrap_or(DEFAULT_DEVICE)
            .to_ascii_uppercase();
        require_device(runtime, &device)?;
        let requested = options.text("precision").unwrap_or("auto");
        let requested = requested.to_ascii_lowercase();
        let precision = precision(&device, &requested)?;
        let threads = options.threads()?;
        let shown = precision.unwrap_or("automatic precision");
        Ok(SessionPlan {
            device: format!(
                "OpenVINO {device}, {shown}, {} a session",
                counted(threads as u64, "thread")
            ),
            settings: SessionSettings {
                provider: Arc::new(OpenVinoProvider {
                    device,
                    precision,
                    has_snippets: true,
                }),
                threads,
                batch_sizes: batch_sizes(options, &BATCH_SIZES)?,
                session_per_size: true,
                is_lazy: false,
            },
            advice: Advice {
                threads: cores().div_ceil(threads),
                minibatch: 16,
                min_batch: 1,
            },
            data_type: match requested.as_str() {
                "int8" => DataType::Int8,
                _ => DataType::Float32,
            },
            max_sessions: MAX_SESSIONS,
            limits_squares: may_be_half(precision),
            packed: Packing::Never,
            forms: vec![GraphForm::Plain],
            capture: None,
        })
    }

    fn fit(
        &self,
        plan: &mut SessionPlan,
        _: &Network,
        _: &Runtime,
        request: &BackendRequest<'_>,
    ) -> Result<(), BackendSetupError> {
        let device = request.options.text("device").unwrap_or(DEFAULT_DEVICE);
        if device.eq_ignore_ascii_case("CPU")
            && let Some(warning) = ByteProducts::detect().openvino_warning(plan.data_type)
        {
            (request.report_progress)(warning);
        }
        Ok(())
    }
}

/// The OpenVINO plug-in, for one device.
#[derive(Clone, Debug)]
struct OpenVinoProvider {
    /// `CPU`, `GPU` or `NPU`.
    device: String,
    /// `f32`, `bf16` or `f16`; `None` leaves the choice to the device.
    precision: Option<&'static str>,
    /// Whether OpenVINO may fuse operators with generated code ("snippets").
    has_snippets: bool,
}

impl ExecutionProvider for OpenVinoProvider {
    fn configure(&self, builder: SessionBuilder, context: &SessionContext<'_>) -> Built {
        let devices = devices(context.runtime, PROVIDER, Some(&self.device));
        let options = self.options(context.threads);
        let builder = builder.with_devices(devices, Some(&options))?;
        builder.with_disable_cpu_fallback()
    }

    /// OpenVINO's fused code generator has no Mish for some CPUs; without it the network runs.
    fn fallback(&self, error: &str) -> Option<Arc<dyn ExecutionProvider>> {
        let is_cause = self.has_snippets && error.contains("snippets");
        is_cause.then(|| {
            Arc::new(OpenVinoProvider {
                has_snippets: false,
                ..self.clone()
            }) as Arc<dyn ExecutionProvider>
        })
    }
}

impl OpenVinoProvider {
    /// One stream, because every session serves one thread; a precision only if one was requested. Threads stay free to
    /// move: OpenVINO would hold the one stream of each session, of every thread and process, on the first core.
    fn options(&self, threads: usize) -> Vec<(String, String)> {
        let mut properties = vec![r#""NUM_STREAMS":"1""#.to_owned()];
        if self.device == "CPU" {
            properties.push(format!(r#""INFERENCE_NUM_THREADS":"{threads}""#));
            properties.push(r#""ENABLE_CPU_PINNING":"NO""#.to_owned());
            if !self.has_snippets {
                properties.push(r#""SNIPPETS_MODE":"DISABLE""#.to_owned());
            }
        }
        if let Some(precision) = self.precision {
            properties.push(format!(r#""INFERENCE_PRECISION_HINT":"{precision}""#));
        }
        let config = format!(r#"{{"{}":{{{}}}}}"#, self.device, properties.join(","));
        vec![(format!("{PROVIDER}.load_config"), config)]
    }
}

/// Registers the plug-in, if it is there and not registered yet.
///
/// # Errors
/// Names what is missing, and the command that installs it.
fn register(runtime: &Runtime) -> Result<(), String> {
    // Held during the registration, so that two threads do not register twice.
    let mut is_registered = IS_REGISTERED.lock();
    if *is_registered {
        return Ok(());
    }
    let plugin = plugin(Some(runtime.library())).ok_or_else(|| {
        let command = runtime.install_place().command(OPENVINO_INSTALL_COMMAND);
        format!("its plugin is not installed: {command}")
    })?;
    let registered = runtime.environment().register_ep_library(PROVIDER, &plugin);
    registered.map_err(|error| format!("{}: {}", plugin.display(), error.message()))?;
    *is_registered = true;
    Ok(())
}

/// What installs the plug-in, if it is not there.
fn hint(library: Option<&Path>, place: &InstallPlace) -> Option<InstallHint> {
    plugin(library).is_none().then(|| InstallHint {
        purpose: "for Intel CPUs, in addition",
        command: place.command(OPENVINO_INSTALL_COMMAND),
    })
}

/// The file of the plug-in.
const PLUGIN: &str = if cfg!(windows) {
    "onnxruntime_providers_openvino_plugin.dll"
} else {
    "libonnxruntime_providers_openvino_plugin.so"
};

/// The plug-in: in its wheel beside ONNX Runtime's, in the usual places, or in the same folder as the library.
fn plugin(library: Option<&Path>) -> Option<PathBuf> {
    let beside = library.and_then(Path::parent).map(Path::to_owned);
    let root = library.and_then(wheel_root);
    let wheels = root.map(Path::to_owned).into_iter().chain(usual_places());
    let wheels = wheels.map(|root| root.join("onnxruntime_ep_openvino"));
    let mut files = wheels.chain(beside).map(|folder| folder.join(PLUGIN));
    let found = files.find(|path| path.is_file());
    found.and_then(|path| dunce::canonicalize(path).ok())
}

fn require_device(runtime: &Runtime, device: &str) -> Result<(), BackendSetupError> {
    if !["CPU", "GPU", "NPU"].contains(&device) {
        return Err(bad_value("device", device, "CPU, GPU or NPU"));
    }
    if !devices(runtime, PROVIDER, Some(device)).is_empty() {
        return Ok(());
    }
    let reason = match vendor_other_than_intel(runtime) {
        Some(vendor) if device == "CPU" => format!(
            "OpenVINO's package for ONNX Runtime supports Intel's processors only, and this one is from {vendor}; \
             Backend onnx-cpu runs on it"
        ),
        _ => format!("OpenVINO finds no {device} here"),
    };
    Err(BackendSetupError::Unavailable(reason))
}

/// The vendor of this machine's processor, if ONNX Runtime names it and it is not Intel, whose processors alone
/// OpenVINO's plug-in runs on.
fn vendor_other_than_intel(runtime: &Runtime) -> Option<String> {
    let processor = devices(runtime, "CPUExecutionProvider", None).pop()?;
    let vendor = processor.hardware_device().vendor().ok()?;
    (!["", "unknown"].contains(&vendor) && !vendor.contains("Intel")).then(|| vendor.to_owned())
}

/// The precision of OpenVINO's computation on a device; `None` leaves it the choice. `requested` is in lower case.
fn precision(device: &str, requested: &str) -> Result<Option<&'static str>, BackendSetupError> {
    Ok(match requested {
        // Whatever is not in 8 bits is computed as by default.
        "auto" | "int8" if device == "CPU" && !has_amx() => Some("f32"),
        "auto" | "int8" if device == "CPU" => Some("bf16"),
        "auto" | "int8" => None,
        "fp32" | "f32" => Some("f32"),
        "bf16" => Some("bf16"),
        "fp16" | "f16" => Some("f16"),
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
fn may_be_half(precision: Option<&str>) -> bool {
    [None, Some("f16")].contains(&precision)
}

/// Whether the processor multiplies matrices of bf16 in hardware (AMX). Without it OpenVINO would still choose bf16 on
/// processors that support the type, and be slower than with 32 bits.
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
    use std::fs;

    use super::*;

    #[test]
    fn only_a_plugin_that_is_not_there_is_to_be_installed() {
        let root = tempfile::tempdir().unwrap();
        let library = root.path().join("onnxruntime/capi/libonnxruntime.so");
        let place = InstallPlace::of(&library, None);
        if plugin(None).is_none() {
            let command = hint(Some(&library), &place).unwrap().command;
            let target = format!("--target \"{}\"", root.path().display());
            assert!(command.contains(&target), "{command}");
        }
        let wheel = root.path().join("onnxruntime_ep_openvino");
        fs::create_dir(&wheel).unwrap();
        fs::write(wheel.join(PLUGIN), "").unwrap();
        assert_eq!(hint(Some(&library), &place), None);
        // That wheel has nothing to do with a library from elsewhere.
        let elsewhere = root.path().join("ort/lib/libonnxruntime.so");
        let is_ours = |found: PathBuf| found.starts_with(dunce::canonicalize(&root).unwrap());
        assert!(!plugin(Some(&elsewhere)).is_some_and(is_ours));
    }

    #[test]
    fn squares_are_limited_where_openvino_may_compute_in_half_precision() {
        for (device, requested, expected) in [
            ("CPU", "auto", false),
            ("CPU", "bf16", false),
            ("CPU", "fp16", true),
            ("GPU", "auto", true),
            ("NPU", "int8", true),
            ("GPU", "fp32", false),
        ] {
            let precision = precision(device, requested).unwrap();
            assert_eq!(may_be_half(precision), expected, "{device}, {requested}");
        }
        assert!(precision("GPU", "fp8").is_err());
    }

    #[test]
    fn a_session_that_fails_in_generated_code_is_made_without_it_once() {
        let provider = OpenVinoProvider {
            device: "CPU".into(),
            precision: Some("f32"),
            has_snippets: true,
        };
        let disables = |provider: &dyn ExecutionProvider| format!("{provider:?}");
        assert!(provider.fallback("out of memory").is_none());
        let fallback = provider.fallback("error in snippets: no Mish").unwrap();
        assert!(disables(&*fallback).contains("has_snippets: false"));
        assert!(fallback.fallback("error in snippets: no Mish").is_none());
        let plain = OpenVinoProvider {
            has_snippets: false,
            ..provider.clone()
        };
        assert!(!provider.options(2)[0].1.contains("SNIPPETS_MODE"));
        let (key, config) = plain.options(2).remove(0);
        assert_eq!(key, "OpenVINOExecutionProvider.load_config");
        assert_eq!(
            config,
            r#"{"CPU":{"NUM_STREAMS":"1","INFERENCE_NUM_THREADS":"2","ENABLE_CPU_PINNING":"NO","SNIPPETS_MODE":"DISABLE","INFERENCE_PRECISION_HINT":"f32"}}"#
        );
    }
}
