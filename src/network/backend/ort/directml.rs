//! The `directml` backend: any GPU with DirectX 12 on Windows.

use std::sync::Arc;

use ort::{
    ep::{self, directml::PerformancePreference},
    session::builder::SessionBuilder,
};

use super::{
    create::{OrtBackend, create},
    gpu::{self, GPU, GpuPrecision},
    install::InstallPlace,
    plan::{
        BATCH, BackendSetupError, Built, ExecutionProvider, GraphForm, Packing, SessionContext,
        SessionPlan, SessionSettings, batch_sizes,
    },
    runtime::Runtime,
    session::{is_provider_unknown, only_on_device},
};
use crate::network::{
    Advice, Evaluator,
    backend::{
        error::LoadError,
        factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest},
        options::{BackendOptions, Setting},
    },
};

/// Installs ONNX Runtime with DirectML.
const INSTALL_COMMAND: &str = "py -m pip install --target runtime --upgrade onnxruntime-directml";

/// Description of `directml`.
pub static INFO: BackendInfo = BackendInfo {
    name: "directml",
    lc0_names: &["onnx-dml"],
    kind: BackendKind::Device {
        is_automatic: false,
    },
    summary: "GPUs on Windows",
    documentation: "DirectX 12 GPUs on Windows, fp16 or fp32. Compiled but never run, so `auto` does not select it",
    requirements: "`onnxruntime-directml`",
    install_command: Some(INSTALL_COMMAND),
    settings: &[
        Setting {
            default: "1/8/32/64/128/256",
            ..BATCH
        },
        Setting {
            key: "precision",
            meaning: "`fp16`, `fp32`",
            default: "fp16",
        },
        Setting {
            default: "the fastest",
            ..GPU
        },
    ],
};

/// DirectML prepares a graph for each batch size.
const BATCH_SIZES: [usize; 6] = [1, 8, 32, 64, 128, 256];

/// The backend `directml`.
pub struct DirectMl;

impl BackendFactory for DirectMl {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        create(self, request)
    }
}

impl OrtBackend for DirectMl {
    fn check_platform(&self) -> Result<(), String> {
        if cfg!(windows) {
            Ok(())
        } else {
            Err("DirectML is a part of Windows; take Backend auto".to_owned())
        }
    }

    fn plan(
        &self,
        _: &Runtime,
        options: &BackendOptions,
    ) -> Result<SessionPlan, BackendSetupError> {
        plan(options)
    }

    fn explain(&self, message: &str, place: &InstallPlace) -> Option<String> {
        is_provider_unknown(message).then(|| {
            format!(
                "the ONNX Runtime found here has no DirectML; install one that has it: {}",
                place.command_for_library(INSTALL_COMMAND)
            )
        })
    }
}

fn plan(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    let provider = DirectMlProvider::of(options)?;
    let gpu = provider
        .device
        .map_or("GPU".to_owned(), |number| format!("GPU {number}"));
    let supported = [GpuPrecision::Fp16, GpuPrecision::Fp32];
    let precision = GpuPrecision::of(options, &supported, "fp16 or fp32")?;
    Ok(SessionPlan {
        settings: SessionSettings {
            provider: Arc::new(provider),
            threads: 1,
            batch_sizes: batch_sizes(options, &BATCH_SIZES)?,
            session_per_size: true,
            is_lazy: false,
        },
        device: format!("DirectML {gpu}"),
        advice: Advice {
            threads: 2,
            minibatch: 256,
            min_batch: gpu::least_of(256),
        },
        data_type: precision.data_type(),
        max_sessions: 2,
        limits_squares: false,
        packed: Packing::Never,
        forms: vec![GraphForm::Plain],
        capture: None,
    })
}

/// DirectML's provider.
#[derive(Debug, PartialEq, Eq)]
struct DirectMlProvider {
    /// The number of the GPU; `None` takes the fastest.
    device: Option<i32>,
}

impl DirectMlProvider {
    fn of(options: &BackendOptions) -> Result<DirectMlProvider, BackendSetupError> {
        let device = options.number("gpu")?;
        Ok(DirectMlProvider {
            device: device.map(|number| i32::try_from(number).unwrap_or(i32::MAX)),
        })
    }
}

impl ExecutionProvider for DirectMlProvider {
    fn configure(&self, builder: SessionBuilder, context: &SessionContext<'_>) -> Built {
        let provider = ep::DirectML::default()
            .with_performance_preference(PerformancePreference::HighPerformance);
        let provider = match self.device {
            Some(number) => provider.with_device_id(number),
            None => provider,
        };
        // DirectML supports neither memory patterns nor parallel execution.
        let builder = builder
            .with_memory_pattern(false)?
            .with_parallel_execution(false)?;
        let provider = provider.build().error_on_failure();
        only_on_device(builder.with_execution_providers([provider])?, context.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lc0::DataType;

    fn options(text: &str) -> BackendOptions {
        BackendOptions::parse(text).unwrap()
    }

    #[test]
    fn settings_become_a_plan() {
        let options = options("gpu=1,precision=fp32,batch=4/16");
        let provider = DirectMlProvider::of(&options).unwrap();
        assert_eq!(provider.device, Some(1));
        let plan = plan(&options).unwrap();
        assert_eq!(plan.settings.batch_sizes, [4, 16]);
        assert_eq!(plan.data_type, DataType::Float32);
        assert_eq!(plan.device, "DirectML GPU 1");
        let error = super::plan(&self::options("precision=int8")).unwrap_err();
        assert!(error.to_string().contains("precision"), "{error}");
        let error = INFO
            .check_settings(&self::options("threads=2"))
            .unwrap_err();
        assert!(error.to_string().contains("threads"), "{error}");
    }

    #[test]
    fn other_systems_and_builds_without_it_are_named() {
        assert_eq!(DirectMl.check_platform().is_ok(), cfg!(windows));
        let message = "DirectML is not supported in this build of ONNX Runtime";
        let reason = DirectMl.explain(message, &InstallPlace::default()).unwrap();
        assert!(reason.contains("onnxruntime-directml"), "{reason}");
        assert_eq!(
            DirectMl.explain("invalid graph", &InstallPlace::default()),
            None
        );
    }
}
