//! The `cuda` backend: NVIDIA's GPUs, through ONNX Runtime's CUDA provider.
//!
//! * The provider caches one plan for each convolution, so every change of the batch size makes a new one. A model with
//!   convolutions therefore gets a session for each of a few sizes; other models take all sizes in one session.
//! * A convolution in fp16 gets no tensor cores when TF32 is forbidden, so that is forbidden for `precision=fp32` only.

use std::{sync::Arc, time::Duration};

use super::{
    capture::{
        nvidia_stream::NvidiaStream,
        session::{CapturedSession, ResultShape},
    },
    create::{OrtBackend, create},
    cuda_provider::CudaProvider,
    gpu::{self, GPU, GpuPlan, GpuPrecision, SESSIONS},
    install::{GPU_INSTALL_COMMAND, InstallPlace},
    nvidia,
    plan::{
        BATCH, BackendSetupError, GRAPH, GraphCapture, GraphForm, Packing, SessionPlan,
        SessionSettings, bad_value, batch_sizes,
    },
    preload::NvidiaProvider,
    runtime::Runtime,
    session::device_lines,
    times_cache::TimesCache,
};
use crate::{
    lc0::OnnxModel,
    network::{
        EvaluateError, Evaluator,
        backend::{
            error::LoadError,
            factory::{
                BackendFactory, BackendInfo, BackendKind, BackendRequest, InstallHint, Machine,
            },
            options::{BackendOptions, Setting},
            pool::{DeviceSession, NetworkEvaluator},
        },
        source::Network,
    },
};

/// Description of `cuda`.
pub static INFO: BackendInfo = BackendInfo {
    name: "cuda",
    lc0_names: &[
        "cuda-auto",
        "cuda-fp16",
        "cudnn-auto",
        "cudnn",
        "cudnn-fp16",
        "onnx-cuda",
    ],
    kind: BackendKind::Device { is_automatic: true },
    summary: "NVIDIA GPUs",
    documentation: "NVIDIA GPUs. Verified on an H100 and an H200 with ONNX Runtime 1.31.1: all forms of the graph \
        (`graph`) agree with `onnx-cpu` within the tolerances, and captured graphs compute, on the H100 with \
        two threads, 0.96 to 1.13 times as many evaluations a second as lc0 in batches of 256 and 1.11 to 1.50 times \
        as many in batches of 1 and 64; with one thread fewer in six of nine cases ([NVIDIA GPUs](gpu.md)). \
        `benches/gpu.sh` repeats the verification and the measurements on another card",
    requirements: "`onnxruntime-gpu` with CUDA and cuDNN",
    install_command: Some(GPU_INSTALL_COMMAND),
    settings: &[
        GPU,
        Setting {
            default: "1/8/32/64/128/256/512/1024 (with convolutions in 32 bits or in other forms than captured 8/64/256/1024, \
                large models 32/256)",
            ..BATCH
        },
        Setting {
            key: "precision",
            meaning: "`fp16`, `bf16` (models without convolutions), `tf32`, `fp32`",
            default: "fp16",
        },
        SESSIONS,
        Setting {
            key: "nhwc",
            meaning: "convolutions with channels last; 17 to 25 % faster from 128 filters on, on an H100",
            default: "true from 128 filters on, and in captured graphs",
        },
        Setting {
            key: "packed",
            meaning: "upload planes as bits (0.9 KB a position instead of 28) and unpack them on the GPU",
            default: "true for networks with lc0's planes",
        },
        SPIN,
        Setting {
            default: "captured if it works and agrees with plain, which is tried at loading, otherwise fused, otherwise plain",
            ..GRAPH
        },
    ],
};

/// How long a thread polls for the end of a captured batch before it sleeps.
const SPIN: Setting = Setting {
    key: "spin",
    meaning: "microseconds for which a thread polls for the end of a captured batch before it sleeps, 0 (it sleeps at \
        once) to 100000: less delay for a busy core",
    default: "measured at loading: twice the time of a batch, for batches that take at most four times as long as the \
        smallest, if the process may use eight processors or more and polling takes a twentieth less than sleeping; \
        otherwise 0",
};

/// The longest [`SPIN`], in microseconds.
const MAX_SPIN: usize = 100_000;

/// Batch sizes of models that take all of them in one session.
const BATCH_SIZES: [usize; 8] = [1, 8, 32, 64, 128, 256, 512, 1024];
/// Batch sizes of models with convolutions, of which each takes a session.
const CONVOLUTION_SIZES: [usize; 4] = [8, 64, 256, 1024];
/// The same for models so large that each additional session takes much of the GPU's memory.
const LARGE_CONVOLUTION_SIZES: [usize; 2] = [32, 256];
/// From this size on a model is large, in bytes.
const LARGE_MODEL: usize = 128 << 20;

/// The forms of a graph from fast to slow: the first that works and agrees with the last one is taken.
const DEFAULT_FORMS: [GraphForm; 3] = [GraphForm::Captured, GraphForm::Fused, GraphForm::Plain];

/// Minimum number of filters with which convolutions are faster with channels last: by 17 to 25 % on an H100; with 64
/// they are not.
const NHWC_FILTERS: usize = 128;

/// The backend `cuda`.
pub struct Cuda;

impl BackendFactory for Cuda {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        create(self, request)
    }

    fn devices(&self, machine: &Machine) -> Vec<String> {
        device_lines(machine, "CUDAExecutionProvider")
    }

    fn install_hint(&self, machine: &Machine) -> Option<InstallHint> {
        let runtime = machine.runtime.as_ref();
        let is_there =
            runtime.is_ok_and(|runtime| nvidia::has_provider(runtime, NvidiaProvider::Cuda));
        (!is_there).then(|| InstallHint {
            purpose: "for NVIDIA GPUs, instead of onnxruntime",
            command: machine
                .install_place()
                .command_for_library(GPU_INSTALL_COMMAND),
        })
    }
}

impl OrtBackend for Cuda {
    fn plan(
        &self,
        runtime: &Runtime,
        options: &BackendOptions,
    ) -> Result<SessionPlan, BackendSetupError> {
        nvidia::require(runtime, NvidiaProvider::Cuda)?;
        plan(options)
    }

    fn fit(
        &self,
        plan: &mut SessionPlan,
        network: &Network,
        _: &Runtime,
        request: &BackendRequest<'_>,
    ) -> Result<(), BackendSetupError> {
        fit(plan, &network.onnx, request.options)
    }

    fn times_cache(
        &self,
        plan: &SessionPlan,
        form: GraphForm,
        network: &Network,
        runtime: &Runtime,
    ) -> Option<TimesCache> {
        Some(gpu::times_cache(
            &network.onnx,
            plan,
            form,
            &runtime.version(),
        ))
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

fn plan(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    use GpuPrecision::{Bf16, Fp16, Fp32, Tf32};
    let precision = precision(options)?;
    let provider = provider(options)?;
    let shown = match precision {
        Fp16 | Bf16 => "",
        Tf32 => ", tf32",
        Fp32 => ", fp32",
    };
    let gpu = GpuPlan {
        device: format!("CUDA GPU {}{shown}", provider.device),
        provider: Arc::new(provider),
        data_type: precision.data_type(),
        limits_squares: false,
        batch_sizes: &BATCH_SIZES,
    };
    // What the user names is used or refused.
    let forms = GraphForm::of(options)?.map_or(DEFAULT_FORMS.to_vec(), |form| vec![form]);
    Ok(SessionPlan {
        packed: packing(options)?,
        forms,
        capture: Some(capture(provider, options)?),
        ..gpu::plan(options, gpu)?
    })
}

/// On an H100, bits were never slower and up to twice as fast in large batches.
fn packing(options: &BackendOptions) -> Result<Packing, BackendSetupError> {
    Ok(
        match (options.text("packed"), gpu::flag(options, "packed")?) {
            (None, _) => Packing::WherePossible,
            (Some(_), true) => Packing::Always,
            (Some(_), false) => Packing::Never,
        },
    )
}

fn precision(options: &BackendOptions) -> Result<GpuPrecision, BackendSetupError> {
    use GpuPrecision::{Bf16, Fp16, Fp32, Tf32};
    let supported = [Fp16, Bf16, Tf32, Fp32];
    GpuPrecision::of(options, &supported, "fp16, bf16, tf32 or fp32")
}

/// Fits a plan to the model: with convolutions it gets fewer sizes (unless the user gave some), each with a session
/// of its own.
fn fit(
    plan: &mut SessionPlan,
    model: &OnnxModel,
    options: &BackendOptions,
) -> Result<(), BackendSetupError> {
    if !model.has_convolutions {
        return Ok(());
    }
    if model.is_bfloat16 {
        return Err(BackendSetupError::Unavailable(
            "CUDA has no convolutions in bf16 and would leave them to the CPU; take precision=fp16, or convert the model to fp16".to_owned(),
        ));
    }
    if options.text("nhwc").is_none() {
        let provider = CudaProvider {
            nhwc: model.filters >= NHWC_FILTERS || model.kernels.is_some(),
            ..provider(options)?
        };
        plan.settings.provider = Arc::new(provider);
        plan.capture = Some(capture(provider, options)?);
    }
    let default: &[usize] = match model.bytes.len() >= LARGE_MODEL {
        true => &LARGE_CONVOLUTION_SIZES,
        false if model.kernels.is_some() => &BATCH_SIZES,
        false => &CONVOLUTION_SIZES,
    };
    plan.settings.batch_sizes = batch_sizes(options, default)?;
    plan.settings.session_per_size = true;
    Ok(())
}

/// The provider with the settings that the user gave.
fn provider(options: &BackendOptions) -> Result<CudaProvider, BackendSetupError> {
    Ok(CudaProvider {
        device: gpu::gpu(options)?,
        tf32: precision(options)? != GpuPrecision::Fp32,
        nhwc: gpu::flag(options, "nhwc")?,
    })
}

/// What captures batches with this provider.
fn capture(
    provider: CudaProvider,
    options: &BackendOptions,
) -> Result<Arc<dyn GraphCapture>, BackendSetupError> {
    let spin = spin(options)?;
    Ok(Arc::new(CudaGraphCapture { provider, spin }))
}

/// The setting [`SPIN`].
fn spin(options: &BackendOptions) -> Result<Option<Duration>, BackendSetupError> {
    match options.number(SPIN.key)? {
        None => Ok(None),
        Some(microseconds @ 0..=MAX_SPIN) => Ok(Some(Duration::from_micros(microseconds as u64))),
        Some(other) => Err(bad_value(
            SPIN.key,
            &other.to_string(),
            "from 0 to 100000 (microseconds)",
        )),
    }
}

/// Captures batches with this provider.
#[derive(Debug)]
struct CudaGraphCapture {
    provider: CudaProvider,
    /// How long a thread polls for the end of a batch before it sleeps, unless that is measured.
    spin: Option<Duration>,
}

impl GraphCapture for CudaGraphCapture {
    fn capture(
        &self,
        runtime: &Runtime,
        model: &Arc<OnnxModel>,
        settings: &SessionSettings,
    ) -> Result<Box<dyn DeviceSession>, String> {
        let shape = ResultShape {
            slots: model.legal_moves.as_ref().map_or(0, |legal| legal.slots),
            has_wdl: model.wdl.is_some(),
        };
        let (provider, sizes) = (self.provider, settings.batch_sizes.clone());
        let (lock, runtime) = (runtime.capture_lock(), runtime.clone());
        let (model, settings) = (Arc::clone(model), settings.clone());
        let make = move || NvidiaStream::new(&runtime, &model, &settings, provider);
        Ok(Box::new(CapturedSession::capture(
            &sizes, shape, self.spin, lock, make,
        )?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lc0::{DataType, InputFormat, KernelModel},
        network::backend::{
            ort::session::tests::{named, provider_options},
            pool::SessionCounts,
        },
    };

    fn options(text: &str) -> BackendOptions {
        BackendOptions::parse(text).unwrap()
    }

    fn model(has_convolutions: bool, is_bfloat16: bool, bytes: usize) -> OnnxModel {
        OnnxModel {
            bytes: vec![0; bytes],
            has_convolutions,
            is_bfloat16,
            ..OnnxModel::empty(InputFormat::Classical112)
        }
    }

    #[test]
    fn tf32_is_forbidden_for_full_precision_only() {
        for (text, data_type, tf32) in [
            ("", DataType::Float16, true),
            ("precision=fp16", DataType::Float16, true),
            ("precision=bf16", DataType::BFloat16, true),
            ("precision=tf32", DataType::Float32, true),
            ("precision=fp32", DataType::Float32, false),
        ] {
            let provider = provider(&options(text)).unwrap();
            let found = plan(&options(text)).unwrap().data_type;
            assert_eq!((found, provider.tf32), (data_type, tf32), "{text}");
            assert!(!provider.nhwc);
        }
        assert!(provider(&options("nhwc,gpu=1")).unwrap().nhwc);
        for (text, packing) in [
            ("", Packing::WherePossible),
            ("packed", Packing::Always),
            ("packed=false", Packing::Never),
        ] {
            assert_eq!(plan(&options(text)).unwrap().packed, packing, "{text}");
        }
        let error = plan(&options("precision=int4")).unwrap_err().to_string();
        assert!(error.contains("fp16, bf16, tf32 or fp32"), "{error}");
    }

    /// Convolutions in particular are not fused with their bias.
    #[test]
    fn the_provider_gets_the_settings_of_the_plan_and_no_others() {
        for (text, device, tf32, nhwc) in [
            ("", "0", "true", "false"),
            ("precision=fp16,gpu=1,nhwc", "1", "true", "true"),
            ("precision=bf16", "0", "true", "false"),
            ("precision=tf32", "0", "true", "false"),
            ("precision=fp32", "0", "false", "false"),
        ] {
            let provider = provider(&options(text)).unwrap();
            let expected = named(&[
                ("device_id", device),
                ("use_tf32", tf32),
                ("prefer_nhwc", nhwc),
                ("arena_extend_strategy", "kSameAsRequested"),
                ("cudnn_conv_algo_search", "HEURISTIC"),
                ("enable_skip_layer_norm_strict_mode", "true"),
            ]);
            assert_eq!(provider_options(&provider.build()), expected, "{text}");
        }
    }

    #[test]
    fn there_are_few_sessions_however_many_threads_search() {
        assert_eq!(plan(&options("")).unwrap().max_sessions, 2);
        assert_eq!(plan(&options("sessions=4")).unwrap().max_sessions, 4);
        for text in ["sessions=0", "sessions=5"] {
            let error = plan(&options(text)).unwrap_err().to_string();
            assert!(error.contains("1 to 4"), "{error}");
        }
        for text in ["", "sessions=1", "sessions=4"] {
            let plan = plan(&options(text)).unwrap();
            let counts = SessionCounts::for_threads(64, plan.advice, plan.max_sessions);
            assert_eq!(counts.limit, plan.max_sessions, "{text}");
            assert!(counts.limit <= 4, "{text}");
            assert!((1..=counts.limit).contains(&counts.ready), "{text}");
        }
    }

    #[test]
    fn a_thread_waits_as_measured_or_as_the_user_says() {
        for (text, expected) in [
            ("", "spin: None"),
            ("spin=0", "spin: Some(0ns)"),
            ("spin=300", "spin: Some(300µs)"),
        ] {
            let options = options(text);
            let mut plan = plan(&options).unwrap();
            // As planned, and as fitted to a model with convolutions.
            for _ in 0..2 {
                let capture = format!("{:?}", plan.capture);
                assert!(capture.contains(expected), "{capture}");
                fit(&mut plan, &model(true, false, 9), &options).unwrap();
            }
        }
        for text in ["spin=100001", "spin=short"] {
            let error = plan(&options(text)).unwrap_err().to_string();
            assert!(error.contains("spin="), "{error}");
        }
    }

    #[test]
    fn convolutions_get_a_session_for_each_of_few_sizes() {
        let fitted = |text: &str, model: &OnnxModel| {
            let options = options(text);
            let mut plan = plan(&options).unwrap();
            fit(&mut plan, model, &options).map(|()| plan.settings)
        };
        let dense = fitted("", &model(false, true, 9)).unwrap();
        assert_eq!(dense.batch_sizes, BATCH_SIZES);
        assert!(!dense.session_per_size);
        let small = fitted("", &model(true, false, 9)).unwrap();
        assert_eq!(small.batch_sizes, CONVOLUTION_SIZES);
        assert!(small.session_per_size);
        let large = fitted("", &model(true, false, LARGE_MODEL)).unwrap();
        assert_eq!(large.batch_sizes, LARGE_CONVOLUTION_SIZES);
        let given = fitted("batch=128/16", &model(true, false, 9)).unwrap();
        assert_eq!(given.batch_sizes, [16, 128]);
        assert!(given.session_per_size);
        let error = fitted("precision=bf16", &model(true, true, 9)).unwrap_err();
        assert!(error.to_string().contains("bf16"), "{error}");
    }

    #[test]
    fn channels_are_last_from_128_filters_on_unless_the_user_decides() {
        for (text, filters, nhwc) in [
            ("", 64, "false"),
            ("", 128, "true"),
            ("nhwc", 64, "true"),
            ("nhwc=false", 256, "false"),
        ] {
            let options = options(text);
            let mut plan = plan(&options).unwrap();
            let model = OnnxModel {
                filters,
                ..model(true, false, 9)
            };
            fit(&mut plan, &model, &options).unwrap();
            let provider = format!("{:?}", plan.settings.provider);
            assert!(provider.contains(&format!("nhwc: {nhwc}")), "{provider}");
        }
    }

    #[test]
    fn the_form_that_a_user_names_is_used_or_refused() {
        for (text, forms) in [
            ("", &DEFAULT_FORMS[..]),
            ("graph=captured", &[GraphForm::Captured]),
            ("graph=fused", &[GraphForm::Fused]),
            ("graph=plain", &[GraphForm::Plain]),
        ] {
            assert_eq!(plan(&options(text)).unwrap().forms, forms, "{text}");
        }
        let error = plan(&options("graph=best")).unwrap_err().to_string();
        assert!(error.contains("plain, fused or captured"), "{error}");
    }

    /// Captured models with Scorn's kernels are in memory for all sessions and sizes, other ones for those in use.
    #[test]
    fn copies_of_a_network_in_the_gpus_memory_are_few() {
        let with_kernels = |bytes: usize| OnnxModel {
            kernels: Some(KernelModel {
                policy_places: Vec::new(),
            }),
            ..model(true, false, bytes)
        };
        for (model, copies) in [
            (model(true, false, 9), 8),
            (with_kernels(9), 16),
            (model(true, false, LARGE_MODEL), 4),
            (with_kernels(LARGE_MODEL), 4),
            // One session takes all sizes.
            (model(false, false, 9), 2),
        ] {
            let mut plan = plan(&options("")).unwrap();
            fit(&mut plan, &model, &options("")).unwrap();
            let per_session = if plan.settings.session_per_size {
                plan.settings.batch_sizes.len()
            } else {
                1
            };
            assert_eq!(plan.max_sessions * per_session, copies);
            // Those of sizes that no search uses are not made, unless they are captured.
            assert!(plan.settings.is_lazy);
        }
    }

    #[test]
    fn a_library_that_is_missing_at_the_first_position_is_named_with_its_install_command() {
        let message = "Non-zero status code returned while running Conv node. Name:'/input/conv' Status Message: cuDNN is \
                       not available. Install cuDNN, update the system library search path, or set enable_cudnn=0 to \
                       force native CUDA paths where available.";
        let reason = Cuda.explain(message, &InstallPlace::default()).unwrap();
        assert!(reason.contains(GPU_INSTALL_COMMAND), "{reason}");
        assert_eq!(
            Cuda.explain("invalid graph", &InstallPlace::default()),
            None
        );
    }
}
