//! ONNX Runtime backends: sessions on a CPU, one per search thread, or through an execution provider, some that all
//! threads share.
//!
//! Sessions compute with one thread unless `threads` says otherwise, and do not spin, because the parallelism is in the
//! search: several threads evaluate several batches. Providers that compile for fixed shapes get a few batch sizes, and
//! smaller batches are padded.

use std::sync::Arc;

use ort::{
    device::Device,
    memory::{AllocationDevice, Allocator, AllocatorType, DeviceType, MemoryInfo, MemoryType},
    session::{
        HasSelectedOutputs, OutputSelector, RunOptions, Session as OrtSession, SessionOutputs,
        builder::{GraphOptimizationLevel, SessionBuilder},
    },
    value::{Tensor, ValueType},
};

use super::{
    plan::{Built, ExecutionProvider, SessionContext, SessionSettings},
    runtime::Runtime,
};
use crate::{
    lc0::{BATCH_DIMENSION, OnnxModel},
    network::{
        backend::{
            factory::Machine,
            pool::{DeviceSession, Outputs, PolicyKind},
        },
        batch_times::next_run,
        input::{Encoding, InputRows, Inputs, planes::PlaneLayout},
    },
};

/// Positions per run on the CPU: larger batches gain nothing and cost memory.
const CPU_MAX_BATCH: usize = 256;

/// Creates a session. What each batch size needs is made at once, or, if the settings say so, when it is first used.
///
/// # Errors
/// The message of ONNX Runtime.
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
        heads: [
            Some(model.policy.clone()),
            model.wdl.clone(),
            model.value.clone(),
            model.mlh.clone(),
        ],
        settings: settings.clone(),
        memory: HostMemory::PinnedInputs,
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
    let mut expected = match &model.packed {
        None => vec![model.input.as_str()],
        Some(packed) => vec![packed.masks.as_str(), packed.scalars.as_str()],
    };
    if let Some(legal) = &model.legal_moves {
        expected.extend([legal.entries.as_str(), legal.sharpness.as_str()]);
    }
    if found == expected {
        Ok(())
    } else {
        Err(format!(
            "it has the inputs {}, but only {} is expected",
            found.join(", "),
            expected.join(", ")
        ))
    }
}

/// A session for batches of `size` positions, or of any size. A provider that has a fallback gets a second attempt.
pub(super) fn build(
    runtime: &Runtime,
    onnx: &OnnxModel,
    settings: &SessionSettings,
    size: Option<usize>,
) -> Result<OrtSession, String> {
    let provider = &settings.provider;
    let built = build_with(&**provider, runtime, onnx, settings, size);
    let session = built.or_else(|message| match provider.fallback(&message) {
        Some(fallback) => build_with(&*fallback, runtime, onnx, settings, size),
        None => Err(message),
    })?;
    only_inputs(&session, onnx)?;
    Ok(session)
}

#[expect(clippy::result_large_err, reason = "ort's own error, once a session")]
fn build_with(
    provider: &dyn ExecutionProvider,
    runtime: &Runtime,
    onnx: &OnnxModel,
    settings: &SessionSettings,
    size: Option<usize>,
) -> Result<OrtSession, String> {
    let own_text = |error: ort::Error<SessionBuilder>| without_origin(error.message()).to_owned();
    let context = SessionContext {
        runtime,
        model: onnx,
        threads: settings.threads.max(1),
        batch_sizes: &settings.batch_sizes,
    };
    let builder = OrtSession::builder(runtime.environment()).map_err(text)?;
    let builder = with_threads(builder, context.threads);
    let mut builder = builder
        .and_then(|builder| provider.configure(builder, &context))
        .map_err(own_text)?;
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
    if onnx.kernels.is_some() {
        // It cannot be loaded without its operators, and its names are known.
        return Ok(vec![BATCH_DIMENSION.to_owned()]);
    }
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

/// All optimisations, and threads that sleep between runs: the parallelism is in the search.
#[expect(clippy::result_large_err, reason = "ort's own error, once a session")]
fn with_threads(builder: SessionBuilder, threads: usize) -> Built {
    builder
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)
}

/// Has the device run everything, except the computation of shapes, which is left to the CPU.
#[expect(clippy::result_large_err, reason = "ort's own error, once a session")]
pub(super) fn only_on_device(builder: SessionBuilder, model: &OnnxModel) -> Built {
    if model.computes_shapes {
        Ok(builder)
    } else {
        builder.with_disable_cpu_fallback()
    }
}

/// The devices of one provider: all, or those of a kind (`CPU`, `GPU`, `NPU`).
pub(super) fn devices<'r>(
    runtime: &'r Runtime,
    provider: &str,
    kind: Option<&str>,
) -> Vec<Device<'r>> {
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

/// The devices of one provider, a line each.
pub(super) fn device_lines(machine: &Machine, provider: &str) -> Vec<String> {
    let Ok(runtime) = &machine.runtime else {
        return Vec::new();
    };
    let line = |device: Device<'_>| {
        let hardware = device.hardware_device();
        let vendor = hardware.vendor().unwrap_or("unknown");
        format!("{provider}: {vendor} {:?}", hardware.ty())
    };
    devices(runtime, provider, None)
        .into_iter()
        .map(line)
        .collect()
}

/// Whether ONNX Runtime reports that it was built without an execution provider.
pub(super) fn is_provider_unknown(message: &str) -> bool {
    ["not supported in this build", "not enabled in this build"]
        .iter()
        .any(|text| message.contains(text))
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
    heads: [Option<String>; 4],
    /// Where the buffers lie, if there is a GPU.
    memory: HostMemory,
}

/// Where the input of a GPU lies on the processor's side. Outputs always lie in ordinary memory: ONNX Runtime 1.31.1
/// fails to copy into pinned memory ("dst_data != src_data was false", H100, 26 November 2026), and it made no
/// difference to the speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostMemory {
    /// In pinned memory, from which copies do not have to wait.
    PinnedInputs,
    /// In ordinary memory.
    Plain,
}

impl HostMemory {
    /// What to try after an error; `None` if the error has another cause or there is nothing left to try.
    fn after(self, error: &str) -> Option<HostMemory> {
        let is_refused = error.contains("dst_data != src_data");
        (is_refused && self == HostMemory::PinnedInputs).then_some(HostMemory::Plain)
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

/// The input of one batch size.
struct PreparedInput {
    planes: PreparedPlanes,
    /// If the policy is the probabilities of legal moves.
    moves: Option<PreparedMoves>,
}

/// The input planes.
enum PreparedPlanes {
    /// As floats.
    Floats(Tensor<f32>),
    /// As bits, and the numbers of scalar planes.
    Packed(Tensor<u8>, Tensor<f32>),
}

/// The legal moves.
struct PreparedMoves {
    entries: Tensor<i16>,
    sharpness: Tensor<f32>,
    slots: usize,
}

impl PreparedInput {
    /// For `size` positions on which nothing is set.
    fn new(
        allocator: &Allocator,
        size: usize,
        layout: PlaneLayout,
        model: &OnnxModel,
    ) -> Result<PreparedInput, String> {
        let planes = if model.packed.is_none() {
            let shape = [size, layout.planes, 8, 8];
            PreparedPlanes::Floats(Tensor::new(allocator, shape).map_err(text)?)
        } else {
            PreparedPlanes::Packed(
                Tensor::new(allocator, [size, layout.planes, 8]).map_err(text)?,
                Tensor::new(allocator, [size, layout.scalar_planes.len()]).map_err(text)?,
            )
        };
        let moves = match &model.legal_moves {
            None => None,
            Some(legal) => Some(PreparedMoves {
                entries: Tensor::new(allocator, [size, legal.slots]).map_err(text)?,
                sharpness: Tensor::new(allocator, [1usize]).map_err(text)?,
                slots: legal.slots,
            }),
        };
        let mut input = PreparedInput { planes, moves };
        input.write(Inputs::empty(layout, size).rows(layout, 0..size))?;
        Ok(input)
    }

    /// Writes some positions; what is beyond them stays, and its results are ignored.
    fn write(&mut self, rows: InputRows<'_>) -> Result<(), String> {
        match &mut self.planes {
            PreparedPlanes::Floats(floats) => {
                rows.write(floats.try_extract_tensor_mut::<f32>().map_err(text)?.1);
            }
            PreparedPlanes::Packed(masks, scalars) => rows.write_packed(
                masks.try_extract_tensor_mut::<u8>().map_err(text)?.1,
                scalars.try_extract_tensor_mut::<f32>().map_err(text)?.1,
            ),
        }
        let Some(moves) = &mut self.moves else {
            return Ok(());
        };
        let sharpness = moves.sharpness.try_extract_tensor_mut::<f32>();
        sharpness.map_err(text)?.1.fill(rows.temperature().recip());
        let entries = moves.entries.try_extract_tensor_mut::<i16>();
        rows.write_moves(moves.slots, entries.map_err(text)?.1)
    }

    /// Runs a session with this input.
    fn run<'s>(
        &'s self,
        session: &'s mut OrtSession,
        options: &'s RunOptions<HasSelectedOutputs>,
    ) -> ort::Result<SessionOutputs<'s>> {
        match (&self.planes, &self.moves) {
            (PreparedPlanes::Floats(floats), None) => {
                session.run_with_options(ort::inputs![floats], options)
            }
            (PreparedPlanes::Packed(masks, scalars), None) => {
                session.run_with_options(ort::inputs![masks, scalars], options)
            }
            (PreparedPlanes::Floats(floats), Some(moves)) => {
                let inputs = ort::inputs![floats, &moves.entries, &moves.sharpness];
                session.run_with_options(inputs, options)
            }
            (PreparedPlanes::Packed(masks, scalars), Some(moves)) => {
                let inputs = ort::inputs![masks, scalars, &moves.entries, &moves.sharpness];
                session.run_with_options(inputs, options)
            }
        }
    }
}

/// Floats per position of each head, in the order of [`OnnxSession::heads`].
fn widths(model: &OnnxModel) -> [usize; 4] {
    let policy = match &model.legal_moves {
        Some(legal) => legal.slots,
        None => Encoding::of(model).policy().size(),
    };
    [policy, 3, 1, 1]
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
        let size = if self.has_session_per_size() { size } else { 0 };
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
        let model = Arc::clone(&self.model);
        let (heads, gpu) = (self.heads.clone(), self.settings.provider.nvidia_gpu());
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
        let for_outputs = Allocator::default();
        let mut outputs = OutputSelector::no_default();
        for (name, width) in heads.iter().zip(widths(&model)) {
            if let Some(name) = name {
                let shape = output_shape(session, name, size, width);
                let tensor = Tensor::<f32>::new(&for_outputs, shape).map_err(text)?;
                outputs = outputs.with(name).preallocate(name, tensor);
            }
        }
        let layout = Encoding::of(&model).layout();
        let input = PreparedInput::new(&for_inputs, size, layout, &model)?;
        self.prepared.push(Prepared {
            size,
            input,
            options: RunOptions::new().map_err(text)?.with_outputs(outputs),
            is_cold: true,
        });
        Ok(())
    }

    /// Where the buffers are that `rows` positions fit into; they are made if need be.
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
        let results = prepared.input.run(session, &prepared.options);
        let results = results.map_err(text)?;
        outputs.policy_kind = match &self.model.legal_moves {
            Some(legal) => PolicyKind::Probabilities { slots: legal.slots },
            None => PolicyKind::Logits,
        };
        read(&results, &self.heads, widths(&self.model), size, outputs)
    }
}

/// The shape of an output for `size` positions: as the model declares it, if that holds `width` numbers for each.
pub(super) fn output_shape(
    session: &OrtSession,
    name: &str,
    size: usize,
    width: usize,
) -> Vec<usize> {
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

/// ONNX Runtime's message.
pub(super) fn text(error: ort::Error) -> String {
    without_origin(error.message()).to_owned()
}

/// A message without ONNX Runtime's account of where in its source it comes from.
fn without_origin(message: &str) -> &str {
    // "FILE:LINE FUNCTION [ONNXRuntimeError] : CODE : NAME : what it is about"
    let located = message.split_once("[ONNXRuntimeError] : ");
    located
        .and_then(|(_, rest)| rest.splitn(3, " : ").nth(2))
        .unwrap_or(message)
}

/// A message without the places in ONNX Runtime's source, `FILE.cc:LINE SIGNATURE`, which mean nothing to users.
pub(super) fn without_places(message: &str) -> String {
    let (mut shown, mut rest) = (String::new(), message);
    while let Some((before, after)) = around_place(rest) {
        shown.push_str(before);
        rest = after;
    }
    shown + rest
}

/// What stands before and after the first such place.
fn around_place(text: &str) -> Option<(&str, &str)> {
    let files = [".cc:", ".h:"].into_iter();
    let ends = files.filter_map(|ending| Some((text.find(ending)?, ending.len())));
    let (name_end, length) = ends.min()?;
    let start = text[..name_end].rfind(' ').map_or(0, |space| space + 1);
    let line = &text[name_end + length..];
    let signature = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let signature = signature.strip_prefix(' ')?;
    let rest = signature[signature_length(signature)?..].trim_start();
    let rest = rest.strip_prefix("const ").unwrap_or(rest);
    let template = rest
        .strip_prefix("[with ")
        .and_then(|types| types.split_once("] "));
    let rest = template.map_or(rest, |(_, rest)| rest);
    Some((&text[..start], rest))
}

/// The length of the signature of a function in a namespace, with which a text begins.
fn signature_length(text: &str) -> Option<usize> {
    let open = text.find('(')?;
    let name = &text[text[..open].rfind(' ').map_or(0, |space| space + 1)..open];
    if !name.contains("::") {
        return None;
    }
    let mut depth = 0;
    for (at, character) in text.char_indices().skip_while(|&(at, _)| at < open) {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        let after = &text[at + character.len_utf8()..];
        // Types of functions and `operator()` have brackets within the signature.
        let is_end = after.is_empty() || after.starts_with(' ');
        if character == ')' && depth == 0 && is_end {
            return Some(at + 1);
        }
    }
    None
}

impl DeviceSession for OnnxSession {
    fn max_batch(&self) -> usize {
        self.sizes.last().copied().unwrap_or(CPU_MAX_BATCH)
    }

    fn next_run(&self, rows: usize) -> usize {
        match self.settings.provider.nvidia_gpu() {
            Some(_) if !self.sizes.is_empty() => next_run(&self.sizes, rows),
            _ => rows.min(self.max_batch()),
        }
    }

    fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
        let done = self.run_once(inputs, outputs);
        let refused = done.as_ref().err();
        match refused.and_then(|error| self.memory.after(error)) {
            Some(memory) if self.settings.provider.nvidia_gpu().is_some() => {
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
pub(super) mod tests {
    use std::{collections::BTreeMap, fmt::Debug};

    use super::*;

    /// The settings of a provider, by the names that ONNX Runtime has for them.
    pub(in super::super) fn provider_options(provider: &impl Debug) -> BTreeMap<String, String> {
        let text = format!("{provider:?}");
        let (start, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
        serde_json::from_str(&text[start..=end]).unwrap()
    }

    pub(in super::super) fn named(options: &[(&str, &str)]) -> BTreeMap<String, String> {
        let named = options.iter();
        named
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn places_in_the_library_are_not_shown() {
        for (message, shown) in [
            (
                "/ort/core/graph/model.cc:256 onnxruntime::Model::Model(onnx::ModelProto&&, const A&, const B::C&) \
                 Unsupported model IR version: 99, max supported IR version: 14",
                "Unsupported model IR version: 99, max supported IR version: 14",
            ),
            (
                "Non-zero status code. Name:'' Status Message: /ort/reshape_helper.h:84 \
                 onnxruntime::ReshapeHelper::ReshapeHelper(const A&, bool) size != 0 && (a % size) == 0 was false. \
                 Input shape:{1,112}",
                "Non-zero status code. Name:'' Status Message: size != 0 && (a % size) == 0 was false. \
                 Input shape:{1,112}",
            ),
            (
                "/ort/a.cc:1 std::function<void(int)> a::b<T>::operator()(int) const [with T = float] x (y); \
                 /ort/b.cc:2 void a::c() z",
                "x (y); z",
            ),
            // These are no such places.
            (
                "axis of Conv (in a.h: 3) is wrong",
                "axis of Conv (in a.h: 3) is wrong",
            ),
            (
                "a.cc:3 Model::Model unsupported (99)",
                "a.cc:3 Model::Model unsupported (99)",
            ),
        ] {
            assert_eq!(without_places(message), shown);
        }
    }

    #[test]
    fn a_refused_copy_leads_to_other_memory_and_nothing_else_does() {
        let refused = "gpu_data_transfer.cc:104 GPUDataTransfer::CopyTensorAsync dst_data != src_data was false.";
        let first = HostMemory::PinnedInputs;
        assert_eq!(first.after(refused), Some(HostMemory::Plain));
        assert_eq!(HostMemory::Plain.after(refused), None);
        assert_eq!(first.after("CUDA failure 2: out of memory"), None);
    }
}
