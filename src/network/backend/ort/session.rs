//! ONNX Runtime backends: one session per search thread, on a CPU or through an execution provider.
//!
//! Sessions compute with one thread and do not spin, because the parallelism is in the search: several threads evaluate
//! several batches. Providers that compile for fixed shapes get a few batch sizes, and smaller batches are padded.

use std::sync::Arc;

use ort::{
    device::Device,
    ep::{
        self, ArenaExtendStrategy, ExecutionProviderDispatch,
        coreml::{ComputeUnits, ModelFormat},
        cuda::ConvAlgorithmSearch,
        directml::PerformancePreference,
    },
    memory::{AllocationDevice, Allocator, AllocatorType, DeviceType, MemoryInfo, MemoryType},
    session::{
        HasSelectedOutputs, OutputSelector, RunOptions, Session as OrtSession, SessionOutputs,
        builder::{GraphOptimizationLevel, SessionBuilder},
    },
    value::{Tensor, ValueType},
};

use super::{
    engine_cache::EngineCache,
    gpu,
    plan::{CoreMlUnits, CudaSettings, SessionSettings, Target},
    runtime::{OPENVINO_EP, Runtime},
};
use crate::{
    lc0::OnnxModel,
    network::{
        backend::pool::{DeviceSession, Outputs},
        input::{Encoding, InputRows, Inputs, planes::PlaneLayout},
    },
};

/// Positions per run on the CPU: larger batches gain nothing and cost memory.
const CPU_MAX_BATCH: usize = 256;

/// Creates a session. What each batch size needs is made at once, or, if the settings say so, when it is first used.
///
/// # Errors
/// What ONNX Runtime says.
pub fn create(
    runtime: &Runtime,
    model: &Arc<OnnxModel>,
    settings: &SessionSettings,
) -> Result<OnnxSession, String> {
    let mut session = OnnxSession {
        runtime: runtime.clone(),
        model: Arc::clone(model),
        sessions: Vec::new(),
        prepared: Vec::new(),
        sizes: match model.batch {
            Some(fixed) => vec![fixed],
            None => settings.batch_sizes.clone(),
        },
        encoding: Encoding::of(model),
        heads: [
            Some(model.policy.clone()),
            model.wdl.clone(),
            model.value.clone(),
            model.mlh.clone(),
        ],
        settings: settings.clone(),
        memory: HostMemory::Pinned,
    };
    if !session.has_session_per_size() {
        session.open(0)?;
    }
    if !settings.is_lazy {
        for size in session.sizes.clone() {
            session.prepare(size)?;
        }
    }
    Ok(session)
}

/// Inputs are given by position, which costs nothing, so there must be no doubt which one is meant.
fn only_inputs(session: &OrtSession, model: &OnnxModel) -> Result<(), String> {
    let found: Vec<&str> = session.inputs().iter().map(|input| input.name()).collect();
    let expected = match &model.packed {
        None => vec![model.input.as_str()],
        Some(packed) => vec![packed.masks.as_str(), packed.scalars.as_str()],
    };
    match found == expected {
        true => Ok(()),
        false => Err(format!(
            "it has the inputs {}, but only {} is expected",
            found.join(", "),
            expected.join(", ")
        )),
    }
}

fn build(
    runtime: &Runtime,
    onnx: &OnnxModel,
    settings: &SessionSettings,
    size: Option<usize>,
) -> Result<OrtSession, String> {
    let built = match &settings.target {
        Target::TensorRt { cache, .. } => {
            EngineCache::at(cache).build(|| build_with(runtime, onnx, settings, size, true))
        }
        _ => build_with(runtime, onnx, settings, size, true),
    };
    let built = match (&settings.target, built) {
        // OpenVINO's fused code generator has no Mish for some CPUs; without it the network runs.
        (Target::OpenVino { .. }, Err(message)) if message.contains("snippets") => {
            build_with(runtime, onnx, settings, size, false)
        }
        (_, built) => built,
    };
    let session = built?;
    only_inputs(&session, onnx)?;
    Ok(session)
}

fn build_with(
    runtime: &Runtime,
    onnx: &OnnxModel,
    settings: &SessionSettings,
    size: Option<usize>,
    snippets: bool,
) -> Result<OrtSession, String> {
    let own_text = |error: ort::Error<SessionBuilder>| without_origin(error.message()).to_owned();
    let mut builder = OrtSession::builder(runtime.environment()).map_err(text)?;
    builder = configure(builder, runtime, onnx, settings, snippets).map_err(own_text)?;
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
    let mut builder = OrtSession::builder(runtime.environment()).map_err(text)?;
    builder = builder
        .with_optimization_level(GraphOptimizationLevel::Disable)
        .map_err(|error| without_origin(error.message()).to_owned())?;
    let session = builder.commit_from_memory(&onnx.bytes).map_err(text)?;
    let symbols = session
        .inputs()
        .iter()
        .filter_map(|input| match input.dtype() {
            ValueType::Tensor {
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
    onnx: &OnnxModel,
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
        Target::DirectMl { device } => {
            let directml = provider(directml(*device).build());
            // It can do with neither memory patterns nor parallel execution.
            let builder = builder
                .with_memory_pattern(false)?
                .with_parallel_execution(false)?;
            only_there(builder.with_execution_providers([directml])?, onnx)
        }
        Target::CoreMl { units } => {
            // Core ML lacks some operators, and leaves those to the CPU.
            builder.with_execution_providers([provider(coreml(*units).build())])
        }
        Target::Cuda(settings) => {
            let cuda = provider(cuda(*settings).build());
            only_there(builder.with_execution_providers([cuda])?, onnx)
        }
        Target::TensorRt {
            cuda: beside,
            fp16,
            cache,
        } => {
            let rt = tensorrt(*beside, *fp16, cache, &settings.batch_sizes, onnx);
            let providers = [provider(rt.build()), provider(cuda(*beside).build())];
            only_there(builder.with_execution_providers(providers)?, onnx)
        }
    }
}

/// DirectML's provider, for the GPU of this number or the fastest.
fn directml(device: Option<i32>) -> ep::DirectML {
    let directml =
        ep::DirectML::default().with_performance_preference(PerformancePreference::HighPerformance);
    match device {
        Some(number) => directml.with_device_id(number),
        None => directml,
    }
}

/// Core ML's provider.
fn coreml(units: CoreMlUnits) -> ep::CoreML {
    let units = match units {
        CoreMlUnits::All => ComputeUnits::All,
        CoreMlUnits::Gpu => ComputeUnits::CPUAndGPU,
        CoreMlUnits::NeuralEngine => ComputeUnits::CPUAndNeuralEngine,
        CoreMlUnits::Cpu => ComputeUnits::CPUOnly,
    };
    ep::CoreML::default()
        .with_model_format(ModelFormat::MLProgram)
        .with_static_input_shapes(true)
        .with_compute_units(units)
}

/// TensorRT's provider, which keeps its engines in the folder `cache`.
fn tensorrt(
    beside: CudaSettings,
    fp16: bool,
    cache: &str,
    sizes: &[usize],
    onnx: &OnnxModel,
) -> ep::TensorRT {
    let mut rt = ep::TensorRT::default()
        .with_device_id(beside.device)
        .with_fp16(fp16)
        // Sums of squares of 16-bit numbers do not fit into 16 bits.
        .with_layer_norm_fp32_fallback(fp16)
        .with_engine_cache(true)
        .with_engine_cache_path(cache)
        .with_timing_cache(true)
        .with_timing_cache_path(cache);
    // One engine for all batch sizes; without this it would be built anew for each.
    if let (Some(min), Some(max), None) = (sizes.first(), sizes.last(), onnx.batch) {
        let planes = Encoding::of(onnx).layout().planes;
        let shape = |size| format!("{}:{size}x{planes}x8x8", onnx.input);
        rt = rt
            .with_profile_min_shapes(shape(min))
            .with_profile_opt_shapes(shape(max))
            .with_profile_max_shapes(shape(max));
    }
    rt
}

/// CUDA's provider. Which algorithm a convolution takes is asked of cuDNN, not tried out, which would have to be done for
/// each batch size. Sums in layer normalisation are taken in 32 bits also where it is fused with an addition. Convolutions
/// are not fused with their bias: the fused ones have no memory for plans at all.
fn cuda(settings: CudaSettings) -> ep::CUDA {
    ep::CUDA::default()
        .with_device_id(settings.device)
        .with_tf32(settings.tf32)
        .with_prefer_nhwc(settings.nhwc)
        // As much memory as is asked for: there are several sessions.
        .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested)
        .with_conv_algorithm_search(ConvAlgorithmSearch::Heuristic)
        .with_skip_layer_norm_strict_mode(true)
}

/// Has a GPU run everything, except the computation of shapes, which it leaves to the CPU.
#[expect(clippy::result_large_err, reason = "ort's own error, once a session")]
fn only_there(builder: SessionBuilder, onnx: &OnnxModel) -> Built {
    match onnx.computes_shapes {
        true => Ok(builder),
        false => builder.with_disable_cpu_fallback(),
    }
}

/// One stream, because every session serves one thread; a precision only if asked. Threads stay free to move: OpenVINO
/// would hold the one stream of each session, of every thread and process, on the first core.
fn openvino_options(
    device: &str,
    precision: &str,
    threads: usize,
    snippets: bool,
) -> Vec<(String, String)> {
    let mut properties = vec![r#""NUM_STREAMS":"1""#.to_owned()];
    if device == "CPU" {
        properties.push(format!(r#""INFERENCE_NUM_THREADS":"{threads}""#));
        properties.push(r#""ENABLE_CPU_PINNING":"NO""#.to_owned());
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

/// Who made this machine's processor, if ONNX Runtime knows and it is not Intel, whose alone OpenVINO's plugin runs on.
pub fn maker_besides_intel(runtime: &Runtime) -> Option<String> {
    let processor = devices(runtime, "CPUExecutionProvider", None).pop()?;
    let maker = processor.hardware_device().vendor().ok()?;
    (!maker.is_empty() && !maker.contains("Intel")).then(|| maker.to_owned())
}

/// One thread's use of a network through ONNX Runtime.
pub struct OnnxSession {
    runtime: Runtime,
    model: Arc<OnnxModel>,
    settings: SessionSettings,
    /// By batch size; one with size 0 takes any.
    sessions: Vec<(usize, OrtSession)>,
    /// The batch sizes, ascending, if they are fixed, so that smaller batches are padded.
    sizes: Vec<usize>,
    /// Buffers by batch size. If sizes are not fixed, the one that was used last is at the end.
    prepared: Vec<Prepared>,
    encoding: Encoding,
    heads: [Option<String>; 4],
    /// Where the buffers lie, if there is a GPU.
    memory: HostMemory,
}

/// Where input and output of a GPU lie on the processor's side. Copies from and to pinned memory are fast, but not every version of
/// ONNX Runtime takes all of it: with 1.31.1 each run fails, outside of any node, with "dst_data != src_data was false" (H200,
/// 26 November 2026; its issue 29713 has that message of a copy between one host buffer and itself).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostMemory {
    /// All of it in pinned memory.
    Pinned,
    /// The inputs alone, which are the larger part.
    PinnedInputs,
    /// None of it.
    Plain,
}

impl HostMemory {
    /// What to try after an error; `None` if the error has another cause or there is nothing left to try.
    fn after(self, error: &str) -> Option<HostMemory> {
        match self {
            _ if !error.contains("dst_data != src_data") => None,
            HostMemory::Pinned => Some(HostMemory::PinnedInputs),
            HostMemory::PinnedInputs => Some(HostMemory::Plain),
            HostMemory::Plain => None,
        }
    }
}

/// Input and output of one batch size, used again and again.
struct Prepared {
    size: usize,
    input: PreparedInput,
    options: RunOptions<HasSelectedOutputs>,
    /// Whether this size was never run: the first time is slow on some devices.
    is_cold: bool,
}

/// The input planes.
enum PreparedInput {
    /// As floats.
    Floats(Tensor<f32>),
    /// As bits, and the numbers of scalar planes.
    Packed(Tensor<u8>, Tensor<f32>),
}

impl PreparedInput {
    /// For `size` positions on which nothing is set.
    fn new(
        allocator: &Allocator,
        size: usize,
        layout: PlaneLayout,
        is_packed: bool,
    ) -> Result<PreparedInput, String> {
        let empty = || Inputs::empty(layout, size);
        let mut input = match is_packed {
            false => {
                let shape = [size, layout.planes, 8, 8];
                PreparedInput::Floats(Tensor::new(allocator, shape).map_err(text)?)
            }
            true => PreparedInput::Packed(
                Tensor::new(allocator, [size, layout.planes, 8]).map_err(text)?,
                Tensor::new(allocator, [size, layout.scalar_planes.len()]).map_err(text)?,
            ),
        };
        input.write(empty().rows(layout, 0..size))?;
        Ok(input)
    }

    /// Writes the planes of some positions; what is beyond them stays, and its results are ignored.
    fn write(&mut self, rows: InputRows<'_>) -> Result<(), String> {
        match self {
            PreparedInput::Floats(floats) => {
                rows.write(floats.try_extract_tensor_mut::<f32>().map_err(text)?.1);
            }
            PreparedInput::Packed(masks, scalars) => rows.write_packed(
                masks.try_extract_tensor_mut::<u8>().map_err(text)?.1,
                scalars.try_extract_tensor_mut::<f32>().map_err(text)?.1,
            ),
        }
        Ok(())
    }
}

/// Floats per position of each head, in the order of [`OnnxSession::heads`].
fn widths(encoding: Encoding) -> [usize; 4] {
    [encoding.policy().size(), 3, 1, 1]
}

/// Positions of all batch sizes together for which buffers are kept where sizes are not fixed; some 24 MB. All sizes up
/// to 35 fit at once.
const KEPT: usize = 640;

impl OnnxSession {
    /// Whether a session serves one batch size only.
    fn has_session_per_size(&self) -> bool {
        self.settings.session_per_size && self.model.batch.is_none()
    }

    /// The session for a batch size (0 for any), which is made if need be.
    fn open(&mut self, size: usize) -> Result<&mut OrtSession, String> {
        let size = match self.has_session_per_size() {
            true => size,
            false => 0,
        };
        let found = self.sessions.iter().position(|(of, _)| *of == size);
        let place = match found {
            Some(place) => place,
            None => {
                let fixed = (size > 0).then_some(size);
                let session = build(&self.runtime, &self.model, &self.settings, fixed)?;
                self.sessions.push((size, session));
                self.sessions.len() - 1
            }
        };
        Ok(&mut self.sessions[place].1)
    }

    /// Makes the buffers of a batch size.
    fn prepare(&mut self, size: usize) -> Result<(), String> {
        let (heads, encoding, gpu) = (
            self.heads.clone(),
            self.encoding,
            self.settings.target.gpu(),
        );
        let memory = self.memory;
        let session = self.open(size)?;
        let allocator = |is_pinned: bool| match gpu {
            Some(device) if is_pinned => {
                let (pinned, kind) = (AllocationDevice::CUDA_PINNED, AllocatorType::Device);
                MemoryInfo::new(pinned, device, kind, MemoryType::CPUOutput)
                    .and_then(|memory| Allocator::new(session, memory))
                    .map_err(text)
            }
            _ => Ok(Allocator::default()),
        };
        let for_inputs = allocator(memory != HostMemory::Plain)?;
        let for_outputs = allocator(memory == HostMemory::Pinned)?;
        let mut outputs = OutputSelector::no_default();
        for (name, width) in heads.iter().zip(widths(encoding)) {
            if let Some(name) = name {
                let shape = output_shape(session, name, size, width);
                let tensor = Tensor::<f32>::new(&for_outputs, shape).map_err(text)?;
                outputs = outputs.with(name).preallocate(name, tensor);
            }
        }
        let is_packed = self.model.packed.is_some();
        let input = PreparedInput::new(&for_inputs, size, encoding.layout(), is_packed)?;
        self.prepared.push(Prepared {
            size,
            input,
            options: RunOptions::new().map_err(text)?.with_outputs(outputs),
            is_cold: true,
        });
        Ok(())
    }

    /// Where the buffers are that so many positions fit into; they are made if need be.
    fn place(&mut self, rows: usize) -> Result<usize, String> {
        let fixed = self.sizes.iter().find(|&&size| size >= rows).copied();
        let size = match (fixed, self.sizes.is_empty()) {
            (None, false) => return Err(format!("no batch size for {rows} positions")),
            (fixed, _) => fixed.unwrap_or(rows),
        };
        let found = self
            .prepared
            .iter()
            .position(|prepared| prepared.size == size);
        match (found, fixed) {
            (Some(place), Some(_)) => return Ok(place),
            (Some(place), None) => self.prepared[place..].rotate_left(1),
            (None, Some(_)) => self.prepare(size)?,
            (None, None) => {
                while self.prepared.iter().map(|p| p.size).sum::<usize>() + rows > KEPT
                    && !self.prepared.is_empty()
                {
                    self.prepared.remove(0);
                }
                self.prepare(rows)?;
            }
        }
        Ok(self.prepared.len() - 1)
    }

    /// Runs with the buffers as they are.
    fn run_once(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
        let place = self.place(inputs.len())?;
        let size = self.prepared[place].size;
        let key = if self.has_session_per_size() { size } else { 0 };
        let prepared = &mut self.prepared[place];
        prepared.is_cold = false;
        prepared.input.write(inputs)?;
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|(of, _)| *of == key);
        let (_, session) = session.ok_or_else(|| format!("no session for {size} positions"))?;
        let options = &prepared.options;
        let results = match &prepared.input {
            PreparedInput::Floats(floats) => {
                session.run_with_options(ort::inputs![floats], options)
            }
            PreparedInput::Packed(masks, scalars) => {
                session.run_with_options(ort::inputs![masks, scalars], options)
            }
        };
        let results = results.map_err(text)?;
        read(&results, &self.heads, widths(self.encoding), size, outputs)
    }
}

/// The shape of an output for `size` positions: as the model declares it, if that holds `width` numbers for each.
fn output_shape(session: &OrtSession, name: &str, size: usize, width: usize) -> Vec<usize> {
    let output = session
        .outputs()
        .iter()
        .find(|output| output.name() == name);
    let declared = output.and_then(|output| match output.dtype() {
        ValueType::Tensor { shape, .. } => {
            // What is left open is the number of positions.
            let open = |&n: &i64| usize::try_from(n).unwrap_or(size);
            Some(shape.iter().map(open).collect::<Vec<_>>())
        }
        _ => None,
    });
    declared
        .filter(|shape| shape.iter().product::<usize>() == size * width)
        .unwrap_or_else(|| vec![size, width])
}

fn text(error: ort::Error) -> String {
    without_origin(error.message()).to_owned()
}

/// A message without ONNX Runtime's account of where in its source it comes from.
fn without_origin(message: &str) -> &str {
    // "FILE:LINE FUNCTION [ONNXRuntimeError] : CODE : NAME : what it is about"
    let told = message.split_once("[ONNXRuntimeError] : ");
    told.and_then(|(_, rest)| rest.splitn(3, " : ").nth(2))
        .unwrap_or(message)
}

impl DeviceSession for OnnxSession {
    fn max_batch(&self) -> usize {
        self.sizes.last().copied().unwrap_or(CPU_MAX_BATCH)
    }

    fn next_run(&self, rows: usize) -> usize {
        match self.settings.target.gpu() {
            Some(_) if !self.sizes.is_empty() => gpu::next_run(&self.sizes, rows),
            _ => rows.min(self.max_batch()),
        }
    }

    fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
        let done = self.run_once(inputs, outputs);
        let refused = done.as_ref().err();
        match refused.and_then(|error| self.memory.after(error)) {
            Some(memory) if self.settings.target.gpu().is_some() => {
                self.memory = memory;
                self.prepared.clear();
                self.run(inputs, outputs)
            }
            _ => done,
        }
    }

    fn cold_size(&self, up_to: usize) -> Option<usize> {
        let prepared = |size| self.prepared.iter().find(|prepared| prepared.size == size);
        let largest = self.sizes.iter().find(|&&size| size >= up_to).copied();
        let is_cold = |size: &usize| match prepared(*size) {
            Some(prepared) => prepared.is_cold,
            None => *size <= largest.unwrap_or(usize::MAX),
        };
        self.sizes.iter().copied().find(is_cold)
    }
}

/// Takes the results over, after a look at their sizes.
fn read(
    results: &SessionOutputs<'_>,
    heads: &[Option<String>; 4],
    widths: [usize; 4],
    rows: usize,
    outputs: &mut Outputs,
) -> Result<(), String> {
    let places = [
        &mut outputs.policy,
        &mut outputs.wdl,
        &mut outputs.value,
        &mut outputs.mlh,
    ];
    for ((head, out), width) in heads.iter().zip(places).zip(widths) {
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fmt::Debug};

    use super::*;
    use crate::{
        lc0::InputFormat,
        network::backend::{
            options::BackendOptions,
            ort::{errors::BackendSetupError, plan::SessionPlan},
        },
    };

    /// What a provider is told, by the names that ONNX Runtime has for it.
    fn told(provider: &impl Debug) -> BTreeMap<String, String> {
        let text = format!("{provider:?}");
        let (start, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
        serde_json::from_str(&text[start..=end]).unwrap()
    }

    fn named(options: &[(&str, &str)]) -> BTreeMap<String, String> {
        let named = options.iter();
        named
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// What CUDA's provider is told in each precision. That is all: convolutions in particular are not fused with their bias.
    fn told_to_cuda(device: &str, tf32: bool, nhwc: bool) -> BTreeMap<String, String> {
        named(&[
            ("device_id", device),
            ("use_tf32", &tf32.to_string()),
            ("prefer_nhwc", &nhwc.to_string()),
            ("arena_extend_strategy", "kSameAsRequested"),
            ("cudnn_conv_algo_search", "HEURISTIC"),
            ("enable_skip_layer_norm_strict_mode", "true"),
        ])
    }

    #[test]
    fn a_refused_copy_leads_to_other_memory_and_nothing_else_does() {
        let refused = "gpu_data_transfer.cc:104 GPUDataTransfer::CopyTensorAsync dst_data != src_data was false.";
        let mut tried = vec![HostMemory::Pinned];
        while let Some(next) = tried[tried.len() - 1].after(refused) {
            tried.push(next);
        }
        let all = [
            HostMemory::Pinned,
            HostMemory::PinnedInputs,
            HostMemory::Plain,
        ];
        assert_eq!(tried, all);
        assert_eq!(
            HostMemory::Pinned.after("CUDA failure 2: out of memory"),
            None
        );
    }

    fn target(
        plan: impl Fn(&BackendOptions) -> Result<SessionPlan, BackendSetupError>,
        options: &str,
    ) -> Target {
        let plan = plan(&BackendOptions::parse(options).unwrap()).unwrap();
        plan.settings.target
    }

    #[test]
    fn cuda_is_reported_what_the_plan_says() {
        for (options, device, tf32, nhwc) in [
            ("", "0", true, false),
            ("precision=fp16,gpu=1,nhwc", "1", true, true),
            ("precision=bf16", "0", true, false),
            ("precision=tf32", "0", true, false),
            ("precision=fp32", "0", false, false),
        ] {
            let Target::Cuda(settings) = target(gpu::cuda, options) else {
                panic!("{options}");
            };
            let expected = told_to_cuda(device, tf32, nhwc);
            assert_eq!(told(&cuda(settings)), expected, "{options}");
        }
    }

    #[test]
    fn tensorrt_is_reported_precision_sizes_and_where_its_engines_are() {
        let mut onnx = OnnxModel::empty(InputFormat::Classical112);
        for (options, half) in [("precision=fp16", "true"), ("precision=tf32", "false")] {
            let options = format!("{options},gpu=1,cache=/engines");
            let Target::TensorRt {
                cuda: beside,
                fp16,
                cache,
            } = target(gpu::tensorrt, &options)
            else {
                panic!("{options}");
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
            onnx.batch = Some(8);
            let of_one_size = tensorrt(beside, fp16, &cache, &[1, 64], &onnx);
            assert_eq!(told(&of_one_size), expected, "{options}");
            onnx.batch = None;
            let of_all_sizes = tensorrt(beside, fp16, &cache, &[1, 64], &onnx);
            expected.extend(named(&[
                ("trt_profile_min_shapes", "/input/planes:1x112x8x8"),
                ("trt_profile_opt_shapes", "/input/planes:64x112x8x8"),
                ("trt_profile_max_shapes", "/input/planes:64x112x8x8"),
            ]));
            assert_eq!(told(&of_all_sizes), expected, "{options}");
            // What TensorRT leaves to CUDA.
            assert_eq!(told(&cuda(beside)), told_to_cuda("1", true, false));
        }
    }
}
