//! The `coreml` backend: the GPU and the neural engine of Apple's machines.

use std::sync::Arc;

use ort::{
    ep::{
        self,
        coreml::{ComputeUnits, ModelFormat},
    },
    session::builder::SessionBuilder,
};

use super::{
    create::{OrtBackend, create},
    install::{INSTALL_COMMAND, InstallPlace},
    plan::{
        BATCH, BackendSetupError, Built, ExecutionProvider, GraphForm, Packing, SessionContext,
        SessionPlan, SessionSettings, bad_value, batch_sizes,
    },
    runtime::Runtime,
    session::is_provider_unknown,
};
use crate::{
    lc0::DataType,
    network::{
        Advice, Evaluator,
        backend::{
            error::LoadError,
            factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest},
            options::{BackendOptions, Setting},
        },
    },
};

/// Description of `coreml`.
pub static INFO: BackendInfo = BackendInfo {
    name: "coreml",
    lc0_names: &["onnx-coreml"],
    kind: BackendKind::Device {
        is_automatic: false,
    },
    summary: "macOS",
    documentation: "GPU and neural engine on macOS; operators that Core ML lacks run on the CPU. Compiled but never run, so `auto` does \
        not select it",
    requirements: "`onnxruntime` for macOS",
    install_command: Some(INSTALL_COMMAND),
    settings: &[
        Setting {
            default: "1/8/32/64",
            ..BATCH
        },
        Setting {
            key: "device",
            meaning: "devices that Core ML may use: `all`, `gpu`, `npu` (each with the CPU), `cpu`",
            default: "all",
        },
    ],
};

/// Core ML compiles a model for each batch size.
const BATCH_SIZES: [usize; 4] = [1, 8, 32, 64];

/// The backend `coreml`.
pub struct CoreMl;

impl BackendFactory for CoreMl {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        create(self, request)
    }
}

impl OrtBackend for CoreMl {
    fn check_platform(&self) -> Result<(), String> {
        if cfg!(target_vendor = "apple") {
            Ok(())
        } else {
            Err("Core ML is a part of Apple's systems; take Backend auto".to_owned())
        }
    }

    fn plan(
        &self,
        _: &Runtime,
        options: &BackendOptions,
    ) -> Result<SessionPlan, BackendSetupError> {
        plan(options)
    }

    fn explain(&self, message: &str, _: &InstallPlace) -> Option<String> {
        is_provider_unknown(message).then(|| {
            "the ONNX Runtime found here has no Core ML; the one that pip installs on macOS has it"
                .to_owned()
        })
    }
}

fn plan(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    let requested = options.text("device").unwrap_or("all").to_ascii_lowercase();
    Ok(SessionPlan {
        settings: SessionSettings {
            provider: Arc::new(CoreMlProvider::of(&requested)?),
            threads: 1,
            batch_sizes: batch_sizes(options, &BATCH_SIZES)?,
            session_per_size: true,
            is_lazy: false,
        },
        device: format!("Core ML, {requested}"),
        advice: Advice {
            threads: 2,
            minibatch: 64,
            min_batch: 1,
        },
        data_type: DataType::Float32,
        max_sessions: 2,
        limits_squares: false,
        packed: Packing::Never,
        forms: vec![GraphForm::Plain],
        capture: None,
    })
}

/// Core ML's provider.
#[derive(Debug)]
struct CoreMlProvider {
    /// What Core ML may use of the machine.
    units: ComputeUnits,
}

impl CoreMlProvider {
    /// For a value of the setting `device`, in lower case.
    fn of(device: &str) -> Result<CoreMlProvider, BackendSetupError> {
        let units = match device {
            "all" => ComputeUnits::All,
            "gpu" => ComputeUnits::CPUAndGPU,
            "npu" => ComputeUnits::CPUAndNeuralEngine,
            "cpu" => ComputeUnits::CPUOnly,
            _ => return Err(bad_value("device", device, "all, gpu, npu or cpu")),
        };
        Ok(CoreMlProvider { units })
    }
}

impl ExecutionProvider for CoreMlProvider {
    /// Core ML lacks some operators, and leaves those to the CPU.
    fn configure(&self, builder: SessionBuilder, _: &SessionContext<'_>) -> Built {
        let provider = ep::CoreML::default()
            .with_model_format(ModelFormat::MLProgram)
            .with_static_input_shapes(true)
            .with_compute_units(self.units);
        builder.with_execution_providers([provider.build().error_on_failure()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> BackendOptions {
        BackendOptions::parse(text).unwrap()
    }

    #[test]
    fn settings_become_a_plan() {
        let units = |device| CoreMlProvider::of(device).unwrap().units;
        assert!(matches!(units("npu"), ComputeUnits::CPUAndNeuralEngine));
        assert!(matches!(units("all"), ComputeUnits::All));
        let plan = plan(&options("device=NPU")).unwrap();
        assert_eq!(plan.device, "Core ML, npu");
        assert_eq!(plan.settings.batch_sizes, BATCH_SIZES);
        let error = super::plan(&options("device=toaster")).unwrap_err();
        assert!(error.to_string().contains("device"), "{error}");
    }

    #[test]
    fn other_systems_and_builds_without_it_are_named() {
        let is_apple = cfg!(target_vendor = "apple");
        assert_eq!(CoreMl.check_platform().is_ok(), is_apple);
        let message = "CoreML is not enabled in this build";
        assert!(
            CoreMl
                .explain(message, &InstallPlace::default())
                .unwrap()
                .contains("macOS")
        );
        assert_eq!(
            CoreMl.explain("invalid graph", &InstallPlace::default()),
            None
        );
    }
}
