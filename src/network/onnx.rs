//! ONNX Runtime backends: one session per search thread, on a CPU or through an execution provider.
//!
//! Sessions compute with one thread and do not spin, because the parallelism is in the search: several threads evaluate
//! several batches. Providers that compile for fixed shapes get a few batch sizes, and smaller batches are padded.

use ort::{
    device::Device,
    ep::{self, ExecutionProviderDispatch},
    memory::DeviceType,
    session::{
        Session as OrtSession,
        builder::{GraphOptimizationLevel, SessionBuilder},
    },
    value::TensorRef,
};

use super::{
    PLANES, Planes,
    backend::{Outputs, Session},
    encoder::{INPUT_SIZE, expand},
    policy_map::POLICY_SIZE,
    runtime::Runtime,
};
use crate::lc0::OnnxModel;

/// Positions per run on the CPU: larger batches gain nothing and cost memory.
const CPU_MAX_BATCH: usize = 256;

/// Where and how a network is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// ONNX Runtime's own CPU kernels.
    Cpu,
    /// The OpenVINO plugin.
    OpenVino {
        /// `CPU`, `GPU`, `NPU`.
        device: String,
        /// `f32`, `bf16`, `f16`; empty leaves the choice to the device.
        precision: String,
    },
    /// CUDA kernels.
    Cuda {
        /// Which GPU.
        device: i32,
    },
    /// TensorRT engines, with CUDA for the rest.
    TensorRt {
        /// Which GPU.
        device: i32,
        /// 16-bit floats.
        fp16: bool,
        /// Where built engines are kept.
        cache: String,
    },
}

/// Settings of the sessions.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Where to run.
    pub target: Target,
    /// Threads inside a session, on the CPU.
    pub threads: usize,
    /// Batch sizes to prepare, ascending; empty lets every batch have its own size.
    pub batch_sizes: Vec<usize>,
}

/// The name under which the OpenVINO plugin is registered, which its devices report.
pub const OPENVINO_EP: &str = "OpenVINOExecutionProvider";

/// Creates a session.
///
/// # Errors
/// What ONNX Runtime says.
pub fn create(
    runtime: &Runtime,
    onnx: &OnnxModel,
    settings: &SessionSettings,
) -> Result<OnnxSession, String> {
    let mut sizes = settings.batch_sizes.clone();
    if let Some(fixed) = onnx.batch {
        sizes = vec![fixed];
    }
    let per_size = needs_session_per_size(&settings.target) && onnx.batch.is_none();
    let sessions = if per_size {
        let session = |&size| Ok((size, build(runtime, onnx, settings, Some(size))?));
        sizes
            .iter()
            .map(session)
            .collect::<Result<Vec<_>, String>>()?
    } else {
        vec![(0, build(runtime, onnx, settings, None)?)]
    };
    let max_batch = sizes.last().copied().unwrap_or(CPU_MAX_BATCH);
    let heads = [
        Some(onnx.policy.clone()),
        onnx.wdl.clone(),
        onnx.value.clone(),
        onnx.mlh.clone(),
    ];
    Ok(OnnxSession {
        sessions,
        sizes,
        heads,
        input_name: onnx.input.clone(),
        input: Vec::new(),
        max_batch,
    })
}

/// Whether the batch size must be known when a session is created.
fn needs_session_per_size(target: &Target) -> bool {
    matches!(target, Target::OpenVino { .. })
}

fn build(
    runtime: &Runtime,
    onnx: &OnnxModel,
    settings: &SessionSettings,
    size: Option<usize>,
) -> Result<OrtSession, String> {
    let built = build_with(runtime, onnx, settings, size, true);
    match (&settings.target, built) {
        // OpenVINO's fused code generator has no Mish for some CPUs; without it the network runs.
        (Target::OpenVino { .. }, Err(message)) if message.contains("snippets") => {
            build_with(runtime, onnx, settings, size, false)
        }
        (_, built) => built,
    }
}

fn build_with(
    runtime: &Runtime,
    onnx: &OnnxModel,
    settings: &SessionSettings,
    size: Option<usize>,
    snippets: bool,
) -> Result<OrtSession, String> {
    let text = |error: ort::Error| error.message().to_owned();
    let own_text = |error: ort::Error<SessionBuilder>| error.message().to_owned();
    let mut builder = OrtSession::builder(runtime.environment()).map_err(text)?;
    builder = configure(builder, runtime, settings, snippets).map_err(own_text)?;
    if let Some(size) = size {
        for symbol in batch_symbols(runtime, onnx)? {
            builder = builder
                .with_dimension_override(symbol, size as i64)
                .map_err(own_text)?;
        }
    }
    builder.commit_from_memory(&onnx.bytes).map_err(text)
}

/// The names that the model gives its batch dimension.
fn batch_symbols(runtime: &Runtime, onnx: &OnnxModel) -> Result<Vec<String>, String> {
    let text = |error: ort::Error| error.message().to_owned();
    let mut builder = OrtSession::builder(runtime.environment()).map_err(text)?;
    builder = builder
        .with_optimization_level(GraphOptimizationLevel::Disable)
        .map_err(|error| error.message().to_owned())?;
    let session = builder.commit_from_memory(&onnx.bytes).map_err(text)?;
    let symbols = session
        .inputs()
        .iter()
        .filter_map(|input| match input.dtype() {
            ort::value::ValueType::Tensor {
                dimension_symbols, ..
            } => dimension_symbols.first().map(ToString::to_string),
            _ => None,
        });
    Ok(symbols.filter(|symbol| !symbol.is_empty()).collect())
}

type Built = Result<SessionBuilder, ort::Error<SessionBuilder>>;

#[expect(clippy::result_large_err, reason = "ort's own error, once a session")]
fn configure(
    builder: SessionBuilder,
    runtime: &Runtime,
    settings: &SessionSettings,
    snippets: bool,
) -> Built {
    let builder = builder
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(settings.threads.max(1))?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?;
    let provider = |ep: ExecutionProviderDispatch| ep.error_on_failure();
    match &settings.target {
        // Otherwise a registered plugin might take part.
        Target::Cpu => builder.with_devices(devices(runtime, "CPUExecutionProvider", None), None),
        Target::OpenVino { device, precision } => {
            let options = openvino_options(device, precision, settings.threads.max(1), snippets);
            let devices = devices(runtime, OPENVINO_EP, Some(device));
            let builder = builder.with_devices(devices, Some(&options))?;
            builder.with_disable_cpu_fallback()
        }
        Target::Cuda { device } => {
            let cuda = ep::CUDA::default()
                .with_device_id(*device)
                .with_tf32(false)
                .build();
            builder
                .with_execution_providers([provider(cuda)])?
                .with_disable_cpu_fallback()
        }
        Target::TensorRt {
            device,
            fp16,
            cache,
        } => {
            let rt = ep::TensorRT::default()
                .with_device_id(*device)
                .with_fp16(*fp16)
                .with_engine_cache(true)
                .with_engine_cache_path(cache)
                .with_timing_cache(true)
                .with_timing_cache_path(cache)
                .build();
            let cuda = ep::CUDA::default().with_device_id(*device).build();
            let builder = builder.with_execution_providers([provider(rt), provider(cuda)])?;
            builder.with_disable_cpu_fallback()
        }
    }
}

/// One stream, because every session serves one thread; a precision only if asked.
fn openvino_options(
    device: &str,
    precision: &str,
    threads: usize,
    snippets: bool,
) -> Vec<(String, String)> {
    let mut properties = vec![r#""NUM_STREAMS":"1""#.to_owned()];
    if device == "CPU" {
        properties.push(format!(r#""INFERENCE_NUM_THREADS":"{threads}""#));
        if !snippets {
            properties.push(r#""SNIPPETS_MODE":"DISABLE""#.to_owned());
        }
    }
    if !precision.is_empty() {
        properties.push(format!(r#""INFERENCE_PRECISION_HINT":"{precision}""#));
    }
    let config = format!(r#"{{"{device}":{{{}}}}}"#, properties.join(","));
    vec![(format!("{OPENVINO_EP}.load_config"), config)]
}

/// The devices of one provider, by kind (`CPU`, `GPU`, `NPU`) if asked.
pub fn devices<'r>(runtime: &'r Runtime, provider: &str, kind: Option<&str>) -> Vec<Device<'r>> {
    let kind = kind.map(|kind| match kind.to_ascii_uppercase().as_str() {
        "GPU" => DeviceType::GPU,
        "NPU" => DeviceType::NPU,
        _ => DeviceType::CPU,
    });
    let all = runtime.environment().devices();
    let ours = all.filter(|device| device.ep().is_ok_and(|name| name == provider));
    ours.filter(|device| kind.is_none_or(|kind| device.hardware_device().ty() == kind))
        .collect()
}

/// One thread's use of a network through ONNX Runtime.
pub struct OnnxSession {
    /// By batch size, ascending; one with size 0 takes any.
    sessions: Vec<(usize, OrtSession)>,
    sizes: Vec<usize>,
    heads: [Option<String>; 4],
    input_name: String,
    input: Vec<f32>,
    max_batch: usize,
}

impl Session for OnnxSession {
    fn max_batch(&self) -> usize {
        self.max_batch
    }

    fn run(&mut self, planes: &[Planes], outputs: &mut Outputs) -> Result<(), String> {
        let fitting = self.sizes.iter().find(|&&size| size >= planes.len());
        let rows = fitting.copied().unwrap_or(planes.len());
        self.input
            .resize(self.input.len().max(rows * INPUT_SIZE), 0.0);
        for (planes, out) in planes.iter().zip(self.input.chunks_exact_mut(INPUT_SIZE)) {
            expand(planes, out);
        }
        let text = |error: ort::Error| error.message().to_owned();
        let data = &self.input[..rows * INPUT_SIZE];
        let input = TensorRef::from_array_view(([rows, PLANES, 8, 8], data)).map_err(text)?;
        let session = self
            .sessions
            .iter_mut()
            .find(|(size, _)| *size == 0 || *size == rows);
        let (_, session) = session.ok_or_else(|| format!("no session for {rows} positions"))?;
        let results = session
            .run(ort::inputs![self.input_name.as_str() => input])
            .map_err(text)?;
        let places = [
            (&mut outputs.policy, POLICY_SIZE),
            (&mut outputs.wdl, 3),
            (&mut outputs.value, 1),
            (&mut outputs.mlh, 1),
        ];
        for (head, (out, width)) in self.heads.iter().zip(places) {
            let Some(name) = head else { continue };
            let value = results
                .get(name)
                .ok_or_else(|| format!("no output {name}"))?;
            let (shape, data) = value.try_extract_tensor::<f32>().map_err(text)?;
            if data.len() != rows * width {
                return Err(format!(
                    "output {name} is {shape:?}, expected [{rows}, {width}]"
                ));
            }
            out.clear();
            out.extend_from_slice(data);
        }
        Ok(())
    }
}
