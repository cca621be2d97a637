//! The `onnx-cpu` backend: ONNX Runtime's own kernels for processors.

use std::sync::Arc;

use ort::session::builder::SessionBuilder;

use super::{
    create::{OrtBackend, create},
    install::INSTALL_COMMAND,
    int8::ByteProducts,
    plan::{
        BATCH, BackendSetupError, Built, ExecutionProvider, GRAPH, GraphForm, Packing,
        SessionContext, SessionPlan, SessionSettings, bad_value, batch_sizes,
    },
    runtime::Runtime,
    session::{device_lines, devices},
};
use crate::{
    lc0::{DataType, OnnxModel},
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

/// Description of `onnx-cpu`.
pub static INFO: BackendInfo = BackendInfo {
    name: "onnx-cpu",
    lc0_names: &[],
    kind: BackendKind::Device { is_automatic: true },
    summary: "any CPU",
    documentation: "ONNX Runtime's own CPU kernels",
    requirements: "`onnxruntime` 1.24 or newer",
    install_command: Some(INSTALL_COMMAND),
    settings: &[
        THREADS,
        BATCH,
        Setting {
            key: "precision",
            meaning: "`fp32`, `int8`",
            default: "fp32",
        },
        GRAPH,
    ],
};

/// The name of ONNX Runtime's provider.
const PROVIDER: &str = "CPUExecutionProvider";

/// The backend `onnx-cpu`.
pub struct OnnxCpu;

impl BackendFactory for OnnxCpu {
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
        machine.runtime.is_err().then(|| InstallHint {
            purpose: "for speed on any CPU",
            command: machine.install_place().command_for_library(INSTALL_COMMAND),
        })
    }
}

impl OrtBackend for OnnxCpu {
    fn plan(
        &self,
        _: &Runtime,
        options: &BackendOptions,
    ) -> Result<SessionPlan, BackendSetupError> {
        let threads = options.threads()?;
        Ok(SessionPlan {
            settings: SessionSettings {
                provider: Arc::new(CpuProvider),
                threads,
                batch_sizes: batch_sizes(options, &[])?,
                session_per_size: false,
                is_lazy: false,
            },
            device: format!("CPU, {} a session", counted(threads as u64, "thread")),
            advice: Advice {
                threads: cores().div_ceil(threads),
                minibatch: 16,
                min_batch: 1,
            },
            data_type: data_type(options)?,
            max_sessions: MAX_SESSIONS,
            limits_squares: false,
            packed: Packing::Never,
            forms: vec![form(options)?],
            capture: None,
        })
    }

    fn fit(
        &self,
        _: &mut SessionPlan,
        network: &Network,
        _: &Runtime,
        _: &BackendRequest<'_>,
    ) -> Result<(), BackendSetupError> {
        check_weights(&network.onnx)
    }
}

/// Refuses weights that ONNX Runtime cannot compute with on a processor.
fn check_weights(model: &OnnxModel) -> Result<(), BackendSetupError> {
    if model.is_bfloat16 {
        let reason = "the network's weights are bfloat16, for NVIDIA GPUs; convert lc0's file with --data-type fp32";
        return Err(BackendSetupError::Unavailable(reason.to_owned()));
    }
    Ok(())
}

/// The setting `precision`.
fn data_type(options: &BackendOptions) -> Result<DataType, BackendSetupError> {
    let requested = options.text("precision").unwrap_or("fp32");
    match requested.to_ascii_lowercase().as_str() {
        "fp32" | "f32" => Ok(DataType::Float32),
        "int8" => Ok(DataType::Int8),
        _ => Err(bad_value("precision", requested, "fp32 or int8")),
    }
}

/// The form of the graph; there is nothing to capture on a processor.
fn form(options: &BackendOptions) -> Result<GraphForm, BackendSetupError> {
    match GraphForm::of(options)? {
        Some(GraphForm::Captured) => Err(bad_value(GRAPH.key, "captured", "plain or fused")),
        form => Ok(form.unwrap_or(GraphForm::Plain)),
    }
}

/// ONNX Runtime's provider for processors.
#[derive(Debug)]
pub struct CpuProvider;

impl ExecutionProvider for CpuProvider {
    /// Names its device, because a registered plug-in might take part otherwise. Products of 8 bits are exact on
    /// every processor; nothing else in a network is changed by that.
    fn configure(&self, builder: SessionBuilder, context: &SessionContext<'_>) -> Built {
        let builder = if ByteProducts::detect().saturate() {
            builder.with_precise_qmm()?
        } else {
            builder
        };
        builder.with_devices(devices(context.runtime, PROVIDER, None), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lc0::InputFormat;

    #[test]
    fn weights_in_bfloat16_are_refused_with_the_next_step() {
        let check = |is_bfloat16| {
            check_weights(&OnnxModel {
                is_bfloat16,
                ..OnnxModel::empty(InputFormat::Classical112)
            })
        };
        assert_eq!(check(false), Ok(()));
        let error = check(true).unwrap_err().to_string();
        for part in ["bfloat16", "--data-type fp32"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_precision_is_named_in_any_case() {
        let named = |text: &str| data_type(&BackendOptions::parse(text).unwrap());
        assert_eq!(named("").unwrap(), DataType::Float32);
        assert_eq!(named("precision=INT8").unwrap(), DataType::Int8);
        let error = named("precision=FP16").unwrap_err().to_string();
        assert!(error.contains("precision=FP16 is not fp32"), "{error}");
    }
}
