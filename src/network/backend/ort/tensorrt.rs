//! The `tensorrt` backend: engines that TensorRT builds for the network and the GPU, with CUDA for the rest.

use std::{env, path::Path, sync::Arc};

use ort::{ep, session::builder::SessionBuilder};

use super::{
    create::{OrtBackend, create},
    cuda_provider::CudaProvider,
    engine_cache::EngineCache,
    gpu::{self, GPU, GpuPlan, GpuPrecision, SESSIONS},
    install::{InstallPlace, TENSORRT_INSTALL_COMMAND},
    nvidia,
    plan::{
        BATCH, BackendSetupError, Built, ExecutionProvider, GraphForm, SessionContext, SessionPlan,
        bad_value,
    },
    preload::NvidiaProvider,
    runtime::Runtime,
    session::only_on_device,
    times_cache::TimesCache,
};
use crate::{
    lc0::{DataType, OnnxModel},
    network::{
        EvaluateError, Evaluator,
        backend::{
            error::LoadError,
            factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest},
            options::{BackendOptions, Setting},
            pool::NetworkEvaluator,
        },
        input::Encoding,
        source::Network,
    },
};

/// Description of `tensorrt`.
pub static INFO: BackendInfo = BackendInfo {
    name: "tensorrt",
    lc0_names: &["onnx-trt"],
    kind: BackendKind::Device { is_automatic: true },
    summary: "NVIDIA GPUs, with engines built for the card",
    documentation: "NVIDIA GPUs, with engines built for the card; `auto` selects it once an engine for the network exists. Not run on \
        a GPU yet",
    requirements: "`onnxruntime-gpu` with CUDA, cuDNN and TensorRT 10",
    install_command: Some(TENSORRT_INSTALL_COMMAND),
    settings: &[
        GPU,
        Setting {
            default: "1/8/32/64/128/256",
            ..BATCH
        },
        Setting {
            key: "precision",
            meaning: "`fp16`, `tf32`; `fp32` with `NVIDIA_TF32_OVERRIDE=0` in the environment",
            default: "fp16",
        },
        SESSIONS,
        Setting {
            key: "cache",
            meaning: "folder of the engines",
            default: "the user's cache folder",
        },
    ],
};

/// TensorRT builds one engine for all sizes; larger ones than the search uses would only cost memory.
const BATCH_SIZES: [usize; 6] = [1, 8, 32, 64, 128, 256];

/// The variable that makes NVIDIA's libraries compute in full 32 bits; nothing else does so for TensorRT.
const TF32_OVERRIDE: &str = "NVIDIA_TF32_OVERRIDE";

/// The backend `tensorrt`.
pub struct TensorRt;

impl BackendFactory for TensorRt {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        create(self, request)
    }
}

impl OrtBackend for TensorRt {
    fn plan(
        &self,
        runtime: &Runtime,
        options: &BackendOptions,
    ) -> Result<SessionPlan, BackendSetupError> {
        nvidia::require(runtime, NvidiaProvider::TensorRt)?;
        let is_exact = env::var(TF32_OVERRIDE).is_ok_and(|value| value == "0");
        plan(options, is_exact)
    }

    fn fit(
        &self,
        plan: &mut SessionPlan,
        network: &Network,
        runtime: &Runtime,
        request: &BackendRequest<'_>,
    ) -> Result<(), BackendSetupError> {
        let tensorrt = nvidia::tensorrt_version(runtime);
        let cards = nvidia::cards(Path::new(nvidia::CARDS));
        let key = engine_key(&runtime.version(), &tensorrt, &cards, plan);
        let engines = find_engines(&key, network, request)?;
        plan.settings.provider = Arc::new(TensorRtProvider {
            engines: Some(engines),
            ..TensorRtProvider::of(request.options)?
        });
        Ok(())
    }

    fn times_cache(
        &self,
        plan: &SessionPlan,
        form: GraphForm,
        network: &Network,
        runtime: &Runtime,
    ) -> Option<TimesCache> {
        let tensorrt = nvidia::tensorrt_version(runtime);
        let versions = format!("{} TensorRT {tensorrt}", runtime.version());
        Some(gpu::times_cache(&network.onnx, plan, form, &versions))
    }

    fn tune(
        &self,
        evaluator: &mut NetworkEvaluator,
        cache: Option<&TimesCache>,
    ) -> Result<(), EvaluateError> {
        gpu::tune(evaluator, cache)
    }

    fn explain(&self, message: &str, place: &InstallPlace) -> Option<String> {
        nvidia::what_is_missing(message, place)
    }
}

/// The plan, where the environment does (`is_exact`) or does not forbid TF32.
fn plan(options: &BackendOptions, is_exact: bool) -> Result<SessionPlan, BackendSetupError> {
    use GpuPrecision::{Fp16, Fp32, Tf32};
    let precision = precision(options)?;
    if precision == Fp32 && !is_exact {
        return Err(bad_value(
            "precision",
            "fp32",
            "what TensorRT computes unless the program is started with NVIDIA_TF32_OVERRIDE=0; take tf32, or cuda",
        ));
    }
    let provider = TensorRtProvider::of(options)?;
    let shown = match precision {
        Fp16 => "fp16",
        Tf32 => "tf32",
        _ => "fp32",
    };
    let gpu = GpuPlan {
        device: format!("TensorRT GPU {}, {shown}", provider.cuda.device),
        // TensorRT lowers the precision itself, of squares too, unless they are limited.
        data_type: DataType::Float32,
        limits_squares: provider.fp16,
        provider: Arc::new(provider),
        batch_sizes: &BATCH_SIZES,
    };
    gpu::plan(options, gpu)
}

fn precision(options: &BackendOptions) -> Result<GpuPrecision, BackendSetupError> {
    use GpuPrecision::{Fp16, Fp32, Tf32};
    GpuPrecision::of(options, &[Fp16, Tf32, Fp32], "fp16, tf32 or fp32")
}

/// Everything that an engine depends on besides the network: the versions of ONNX Runtime and TensorRT, the models of
/// the cards, and of the plan the number of the GPU, the precision and the batch sizes.
fn engine_key(runtime: &str, tensorrt: &str, cards: &str, plan: &SessionPlan) -> String {
    let sizes = &plan.settings.batch_sizes;
    format!(
        "{runtime} TensorRT {tensorrt} {} {sizes:?} on {cards}",
        plan.device
    )
}

/// Finds the folder of the network's engines, and reports if they have to be built, which takes minutes. `auto` does
/// not do that: it passes TensorRT over until there is an engine.
fn find_engines(
    key: &str,
    network: &Network,
    request: &BackendRequest<'_>,
) -> Result<EngineCache, BackendSetupError> {
    let base = request.options.text("cache").unwrap_or("");
    let engines = EngineCache::of(&network.onnx.bytes, key, base)?;
    match (engines.has_engine(), request.is_automatic) {
        (true, _) => {}
        (false, true) => {
            return Err(BackendSetupError::Unavailable(
                "its engine for this network is not built yet, which takes minutes; the first use of Backend tensorrt builds it"
                    .into(),
            ));
        }
        (false, false) => (request.report_progress)(&format!(
            "building TensorRT's engine for {}, which takes minutes and is done once; it is kept in {}",
            network.name,
            engines.folder().display()
        )),
    }
    engines.make()?;
    Ok(engines)
}

/// ONNX Runtime's TensorRT provider.
#[derive(Clone, Debug)]
struct TensorRtProvider {
    /// Computes what TensorRT does not support.
    cuda: CudaProvider,
    /// Whether it computes in 16 bits.
    fp16: bool,
    /// The engines of the network; `None` before that is read.
    engines: Option<EngineCache>,
}

impl TensorRtProvider {
    fn of(options: &BackendOptions) -> Result<TensorRtProvider, BackendSetupError> {
        let precision = precision(options)?;
        Ok(TensorRtProvider {
            cuda: CudaProvider {
                device: gpu::gpu(options)?,
                tf32: precision != GpuPrecision::Fp32,
                nhwc: false,
            },
            fp16: precision == GpuPrecision::Fp16,
            engines: None,
        })
    }

    /// The provider's settings, for a model that is run with these batch sizes (ascending).
    fn build(&self, model: &OnnxModel, sizes: &[usize]) -> ep::TensorRT {
        let mut provider = ep::TensorRT::default()
            .with_device_id(self.cuda.device)
            .with_fp16(self.fp16)
            // Sums of squares of 16-bit numbers do not fit into 16 bits.
            .with_layer_norm_fp32_fallback(self.fp16);
        if let Some(engines) = &self.engines {
            let folder = engines.folder().to_string_lossy();
            provider = provider
                .with_engine_cache(true)
                .with_engine_cache_path(&*folder)
                .with_timing_cache(true)
                .with_timing_cache_path(&*folder);
        }
        // One engine for all batch sizes; without this it would be built anew for each.
        if let (Some(min), Some(max), None) = (sizes.first(), sizes.last(), model.batch) {
            let planes = Encoding::of(model).layout().planes;
            let shape = |size| format!("{}:{size}x{planes}x8x8", model.input);
            provider = provider
                .with_profile_min_shapes(shape(min))
                .with_profile_opt_shapes(shape(max))
                .with_profile_max_shapes(shape(max));
        }
        provider
    }
}

impl ExecutionProvider for TensorRtProvider {
    fn configure(&self, builder: SessionBuilder, context: &SessionContext<'_>) -> Built {
        let providers = [
            self.build(context.model, context.batch_sizes)
                .build()
                .error_on_failure(),
            self.cuda.build().build().error_on_failure(),
        ];
        only_on_device(builder.with_execution_providers(providers)?, context.model)
    }

    fn nvidia_gpu(&self) -> Option<i32> {
        Some(self.cuda.device)
    }

    /// An engine that cannot be read is removed, so that the second attempt builds another.
    fn fallback(&self, error: &str) -> Option<Arc<dyn ExecutionProvider>> {
        let engines = self.engines.as_ref()?;
        let is_removed = engines.remove_unreadable(error);
        is_removed.then(|| Arc::new(self.clone()) as Arc<dyn ExecutionProvider>)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        lc0::InputFormat,
        network::backend::{
            factory::with_request,
            ort::session::tests::{named, provider_options},
        },
    };

    fn options(text: &str) -> BackendOptions {
        BackendOptions::parse(text).unwrap()
    }

    fn network(bytes: &[u8]) -> Network {
        Network {
            onnx: OnnxModel {
                bytes: bytes.to_vec(),
                ..OnnxModel::empty(InputFormat::Classical112)
            },
            name: "some network".into(),
            sha256: String::new(),
            is_converted: true,
        }
    }

    #[test]
    fn fewer_than_32_bits_are_named() {
        let error = plan(&options("precision=fp32"), false).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("NVIDIA_TF32_OVERRIDE=0") && error.contains("tf32"),
            "{error}"
        );
        for (text, shown, is_half) in [("", "fp16", true), ("precision=tf32", "tf32", false)] {
            let plan = plan(&options(text), false).unwrap();
            assert!(plan.device.ends_with(shown), "{}", plan.device);
            assert_eq!(plan.data_type, DataType::Float32);
            assert_eq!(plan.limits_squares, is_half);
            assert_eq!(TensorRtProvider::of(&options(text)).unwrap().fp16, is_half);
        }
        assert!(plan(&options("precision=fp32"), true).is_ok());
        assert!(plan(&options("precision=bf16"), true).is_err());
    }

    #[test]
    fn there_is_one_engine_for_all_sizes_and_few_sessions() {
        let plan = plan(&options("sessions=1"), false).unwrap();
        assert_eq!(plan.max_sessions, 1);
        assert_eq!(plan.settings.batch_sizes, BATCH_SIZES);
        assert!(!plan.settings.session_per_size && plan.settings.is_lazy);
    }

    #[test]
    fn the_provider_gets_precision_sizes_and_the_folder_of_its_engines() {
        let mut model = OnnxModel::empty(InputFormat::Classical112);
        for (text, half) in [("precision=fp16", "true"), ("precision=tf32", "false")] {
            let provider = TensorRtProvider {
                engines: Some(EngineCache::at("/engines")),
                ..TensorRtProvider::of(&options(&format!("{text},gpu=1"))).unwrap()
            };
            let mut expected = named(&[
                ("device_id", "1"),
                ("trt_fp16_enable", half),
                ("trt_layer_norm_fp32_fallback", half),
                ("trt_engine_cache_enable", "true"),
                ("trt_engine_cache_path", "/engines"),
                ("trt_timing_cache_enable", "true"),
                ("trt_timing_cache_path", "/engines"),
            ]);
            // A model of one batch size needs no range of shapes.
            model.batch = Some(8);
            let of_one_size = provider.build(&model, &[1, 64]);
            assert_eq!(provider_options(&of_one_size), expected, "{text}");
            model.batch = None;
            let of_all_sizes = provider.build(&model, &[1, 64]);
            expected.extend(named(&[
                ("trt_profile_min_shapes", "/input/planes:1x112x8x8"),
                ("trt_profile_opt_shapes", "/input/planes:64x112x8x8"),
                ("trt_profile_max_shapes", "/input/planes:64x112x8x8"),
            ]));
            assert_eq!(provider_options(&of_all_sizes), expected, "{text}");
            let beside = CudaProvider {
                device: 1,
                tf32: true,
                nhwc: false,
            };
            assert_eq!(provider.cuda, beside);
        }
    }

    /// The folder of the engines of a network, for these versions of ONNX Runtime and TensorRT, these cards and these
    /// settings.
    fn engine_folder(model: &[u8], [runtime, tensorrt, cards]: [&str; 3], text: &str) -> String {
        let plan = plan(&options(text), false).unwrap();
        let key = engine_key(runtime, tensorrt, cards, &plan);
        let cache = EngineCache::of(model, &key, "engines").unwrap();
        cache.folder().to_string_lossy().into_owned()
    }

    #[test]
    fn an_engine_serves_nothing_but_what_it_was_built_for() {
        let (runtime, tensorrt, card) = ("1.31.1", "10.16.1.11", "NVIDIA L4");
        let machine = [runtime, tensorrt, card];
        let reference = engine_folder(b"one", machine, "");
        assert_eq!(engine_folder(b"one", machine, "sessions=1"), reference);
        for (what, model, machine, text) in [
            ("network", b"two", machine, ""),
            ("ONNX Runtime", b"one", ["1.32.0", tensorrt, card], ""),
            ("TensorRT", b"one", [runtime, "10.15.1.29", card], ""),
            ("card", b"one", [runtime, tensorrt, "NVIDIA A2"], ""),
            ("GPU", b"one", machine, "gpu=1"),
            ("precision", b"one", machine, "precision=tf32"),
            ("sizes", b"one", machine, "batch=1/16"),
        ] {
            assert_ne!(engine_folder(model, machine, text), reference, "{what}");
        }
    }

    /// Looks for an engine in a folder: the folder of the network's engines, and what was reported.
    fn look_for_engine(
        base: &Path,
        is_automatic: bool,
    ) -> (Result<String, BackendSetupError>, Vec<String>) {
        let options = options(&format!("cache={}", base.display()));
        with_request("", &options, |request| {
            let request = BackendRequest {
                is_automatic,
                ..request
            };
            let found = find_engines("key", &network(b"model"), &request);
            found.map(|engines| engines.folder().to_string_lossy().into_owned())
        })
    }

    #[test]
    fn engines_are_built_for_those_who_name_tensorrt_and_that_is_reported() {
        let base = tempfile::tempdir().unwrap();
        let (found, reported) = look_for_engine(base.path(), true);
        assert!(reported.is_empty(), "{reported:?}");
        let reason = found.unwrap_err().to_string();
        assert!(
            reason.contains("not built yet") && reason.contains("Backend tensorrt builds it"),
            "{reason}"
        );
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);

        let (found, reported) = look_for_engine(base.path(), false);
        let folder = found.unwrap();
        assert!(Path::new(&folder).starts_with(base.path()) && Path::new(&folder).is_dir());
        let [text] = &reported[..] else {
            panic!("{reported:?}")
        };
        for part in ["building", "some network", &folder] {
            assert!(text.contains(part), "{text}");
        }

        fs::write(Path::new(&folder).join("x_sm90.engine"), "built").unwrap();
        for is_automatic in [true, false] {
            let (found, reported) = look_for_engine(base.path(), is_automatic);
            assert_eq!((found.unwrap(), reported.len()), (folder.clone(), 0));
        }
    }

    #[test]
    fn a_library_that_is_missing_is_named_with_its_install_command() {
        let message = "Failed to load library /runtime/libonnxruntime_providers_tensorrt.so with error: \
                       libnvonnxparser.so.10: cannot open shared object file: No such file or directory";
        let reason = TensorRt.explain(message, &InstallPlace::default()).unwrap();
        assert!(reason.contains(TENSORRT_INSTALL_COMMAND), "{reason}");
    }
}
