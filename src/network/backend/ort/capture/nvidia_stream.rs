//! A [`DeviceStream`] on an NVIDIA GPU: CUDA's driver through `cudarc`, which loads it when it is first used, and ONNX
//! Runtime on a stream of ours.
//!
//! ONNX Runtime only queues its kernels on the stream: its inputs and outputs are bound to memory of the GPU, it copies
//! nothing, and does not wait. It must not capture by itself, because it ties its graphs to threads; but it is set up
//! as if it did (`enable_cuda_graph`, and -1 as the graph of each run), so that it does nothing that cannot be
//! captured. The stream is captured in the mode that leaves other threads alone.
//!
//! This file and the [kernels](crate::network::backend::ort::kernels) are the only ones that call CUDA, and the only
//! unsafe code of the backends.

#![allow(
    unsafe_code,
    reason = "pinned memory, asynchronous copies and a foreign stream have no safe interface"
)]

use std::{
    fmt::{self, Debug, Formatter},
    ptr, slice,
    sync::Arc,
    time::Duration,
};

use cudarc::driver::{
    CudaContext, CudaEvent, CudaGraph, CudaStream, DeviceRepr, DriverError, PinnedHostSlice,
    ValidAsZeroBits,
    result::{memcpy_dtoh_async, memcpy_htod_async},
    sys::{
        self, CUdeviceptr, CUevent_flags, CUgraphInstantiate_flags, CUstream, CUstreamCaptureMode,
    },
};
use ort::{
    memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType},
    operator::OperatorDomain,
    session::{IoBinding, NoSelectedOutputs, RunOptions, Session, builder::SessionBuilder},
    value::{PrimitiveTensorElementType, Tensor},
};

use super::{
    binding::{Binding, BoundTensor},
    stream::{Buffers, DeviceStream},
    waiting::poll_then_sleep,
};
use crate::{
    lc0::OnnxModel,
    network::backend::ort::{
        cuda_provider::CudaProvider,
        kernels::{launch::Kernels, operators},
        plan::{Built, ExecutionProvider, SessionContext, SessionSettings},
        runtime::Runtime,
        session::{build, only_on_device, output_shape, text},
    },
};

/// The provider with a stream of ours.
struct OnStream {
    cuda: CudaProvider,
    /// The address of the stream.
    stream: usize,
    /// Scorn's own operators, if the model has some.
    operators: Option<SharedOperators>,
}

/// Operators for several sessions.
struct SharedOperators(Arc<OperatorDomain>);

// SAFETY: sessions only read it, and the operators themselves may be shared.
unsafe impl Send for SharedOperators {}
// SAFETY: as above.
unsafe impl Sync for SharedOperators {}

impl Debug for OnStream {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStream")
            .field("cuda", &self.cuda)
            .finish_non_exhaustive()
    }
}

impl ExecutionProvider for OnStream {
    fn configure(&self, builder: SessionBuilder, context: &SessionContext<'_>) -> Built {
        let stream = ptr::with_exposed_provenance_mut(self.stream);
        // SAFETY: it is a stream of the same GPU, and the owner drops its sessions before it.
        let provider = unsafe { self.cuda.build().with_compute_stream(stream) };
        let provider = provider.with_cuda_graph(true).build().error_on_failure();
        let builder = match &self.operators {
            Some(SharedOperators(operators)) => builder.with_operators(Arc::clone(operators))?,
            None => builder,
        };
        only_on_device(builder.with_execution_providers([provider])?, context.model)
    }

    fn nvidia_gpu(&self) -> Option<i32> {
        Some(self.cuda.device)
    }
}

/// A buffer of the processor in pinned memory, and the tensor of the same size in the GPU's memory.
struct Pair<T: PrimitiveTensorElementType + Debug> {
    /// Where the buffer begins: its owner would call CUDA at each access, which is forbidden during a capture.
    address: *mut T,
    host: PinnedHostSlice<T>,
    tensor: Tensor<T>,
}

impl<T> Pair<T>
where
    T: PrimitiveTensorElementType + Debug + DeviceRepr + ValidAsZeroBits + Default + Copy,
{
    fn new(
        context: &Arc<CudaContext>,
        allocator: &Allocator,
        shape: &[usize],
    ) -> Result<Pair<T>, String> {
        let tensor = Tensor::new(allocator, shape.to_vec()).map_err(text)?;
        let numbers = shape.iter().product();
        // SAFETY: it is filled before anybody reads it. No flags: memory with `WRITECOMBINED` is slow to read.
        let mut host =
            unsafe { context.alloc_pinned_with_flags::<T>(numbers, 0) }.map_err(failed)?;
        host.as_mut_slice().map_err(failed)?.fill(T::default());
        let address = host.as_mut_ptr().map_err(failed)?;
        Ok(Pair {
            address,
            host,
            tensor,
        })
    }

    /// The numbers on the processor's side.
    fn numbers(&self) -> &[T] {
        // SAFETY: as below.
        unsafe { slice::from_raw_parts(self.address, self.host.len()) }
    }

    /// The same, to be written.
    fn numbers_mut(&mut self) -> &mut [T] {
        // SAFETY: the buffer has this length, was filled, and lives as long as its owner in `self`. The GPU does not
        // use it while a caller of the stream does, which waits for it first.
        unsafe { slice::from_raw_parts_mut(self.address, self.host.len()) }
    }

    /// The address in the GPU's memory.
    fn device(&self) -> CUdeviceptr {
        self.tensor.data_ptr().addr() as CUdeviceptr
    }

    /// Queues the copy to the GPU.
    fn upload(&self, stream: CUstream) -> Result<(), String> {
        // SAFETY: both buffers hold as many numbers of this type. Callers of the stream do not touch them before the
        // work is done, and the stream frees them only after it.
        unsafe { memcpy_htod_async(self.device(), self.numbers(), stream) }.map_err(failed)
    }

    /// Queues the copy to the processor.
    fn download(&mut self, stream: CUstream) -> Result<(), String> {
        let device = self.device();
        // SAFETY: as above.
        unsafe { memcpy_dtoh_async(self.numbers_mut(), device, stream) }.map_err(failed)
    }
}

/// One batch size.
struct CapturedBatch {
    graph: Option<CudaGraph>,
    binding: IoBinding,
    options: RunOptions<NoSelectedOutputs>,
    masks: Pair<u8>,
    scalars: Pair<f32>,
    entries: Pair<i16>,
    sharpness: Pair<f32>,
    outputs: Vec<Pair<f32>>,
    /// Its session's place in the list.
    session: usize,
}

// SAFETY: graphs and bindings may be used by any thread, though by one at a time, which `&mut` ensures.
unsafe impl Send for CapturedBatch {}

/// One stream of a GPU with a network. What depends on something comes before it; before all of it is dropped, the work
/// on the stream is done.
pub struct NvidiaStream {
    places: Vec<CapturedBatch>,
    sessions: Vec<Session>,
    /// What the processor sleeps on.
    done: CudaEvent,
    stream: Arc<CudaStream>,
}

impl NvidiaStream {
    /// Loads the network on a stream of its own and allocates the buffers of all batch sizes of the settings.
    ///
    /// # Errors
    /// What is missing, or the message of CUDA or ONNX Runtime.
    pub fn new(
        runtime: &Runtime,
        model: &OnnxModel,
        settings: &SessionSettings,
        cuda: CudaProvider,
    ) -> Result<NvidiaStream, String> {
        let bindings = settings.batch_sizes.iter();
        let bindings: Result<Vec<Binding>, String> =
            bindings.map(|&size| Binding::new(model, size)).collect();
        let bindings = bindings?;
        let context = open(cuda.device)?;
        let stream = context.new_stream().map_err(failed)?;
        let done = context.new_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC));
        let mut this = NvidiaStream {
            places: Vec::new(),
            sessions: Vec::new(),
            done: done.map_err(failed)?,
            stream,
        };
        let stream = this.stream.cu_stream().expose_provenance();
        let operators = match &model.kernels {
            None => None,
            Some(_) => {
                let kernels = Arc::new(Kernels::load(&context)?);
                let domain = operators::domain(&kernels).map_err(text)?;
                #[expect(
                    clippy::arc_with_non_send_sync,
                    reason = "it is wrapped because of that"
                )]
                let domain = Arc::new(domain);
                Some(SharedOperators(domain))
            }
        };
        let settings = SessionSettings {
            provider: Arc::new(OnStream {
                cuda,
                stream,
                operators,
            }),
            ..settings.clone()
        };
        for binding in &bindings {
            if settings.session_per_size || this.sessions.is_empty() {
                let size = settings.session_per_size.then_some(binding.size);
                this.sessions.push(build(runtime, model, &settings, size)?);
            }
            let place = this.place(binding, cuda.device)?;
            this.places.push(place);
        }
        Ok(this)
    }

    /// The buffers of a batch size, bound to the session that was made last.
    fn place(&self, binding: &Binding, device: i32) -> Result<CapturedBatch, String> {
        let number = self.sessions.len().checked_sub(1);
        let session = number.and_then(|number| self.sessions.get(number));
        let (Some(number), Some(session)) = (number, session) else {
            return Err("there is no session".to_owned());
        };
        let (cuda, kind) = (AllocationDevice::CUDA, AllocatorType::Device);
        let memory = MemoryInfo::new(cuda, device, kind, MemoryType::Default).map_err(text)?;
        let allocator = Allocator::new(session, memory).map_err(text)?;
        let context = self.stream.context();
        let mut bound = session.create_binding().map_err(text)?;
        let mut outputs = Vec::new();
        for output in &binding.outputs {
            let width = output.len() / binding.size.max(1);
            let shape = output_shape(session, &output.name, binding.size, width);
            let mut pair = Pair::<f32>::new(context, &allocator, &shape)?;
            let done = bound.bind_output(output.name.as_str(), &mut pair.tensor);
            done.map_err(text)?;
            outputs.push(pair);
        }
        Ok(CapturedBatch {
            graph: None,
            options: run_options().map_err(text)?,
            masks: input(&mut bound, context, &allocator, &binding.masks)?,
            scalars: input(&mut bound, context, &allocator, &binding.scalars)?,
            entries: input(&mut bound, context, &allocator, &binding.entries)?,
            sharpness: input(&mut bound, context, &allocator, &binding.sharpness)?,
            outputs,
            binding: bound,
            session: number,
        })
    }
}

impl Drop for NvidiaStream {
    /// Waits for what is still queued, as after an error between two copies: the buffers are freed next.
    fn drop(&mut self) {
        // It fails in two cases, and in both the GPU uses no buffer. During a capture, which a panic can leave open,
        // nothing runs: what came before was waited for, and what is captured is not executed. A GPU that has failed
        // does nothing more.
        let _ = self.stream.synchronize();
    }
}

/// A pair of buffers that is bound as an input.
fn input<T>(
    bound: &mut IoBinding,
    context: &Arc<CudaContext>,
    allocator: &Allocator,
    tensor: &BoundTensor,
) -> Result<Pair<T>, String>
where
    T: PrimitiveTensorElementType + Debug + DeviceRepr + ValidAsZeroBits + Default + Copy,
{
    let pair = Pair::new(context, allocator, &tensor.shape)?;
    let done = bound.bind_input(tensor.name.as_str(), &pair.tensor);
    done.map_err(text)?;
    Ok(pair)
}

/// Runs do not wait, and capture nothing by themselves.
fn run_options() -> ort::Result<RunOptions<NoSelectedOutputs>> {
    let mut options = RunOptions::new()?;
    options.disable_device_sync()?;
    options.set("gpu_graph_id", "-1")?;
    Ok(options)
}

/// The context of a GPU, the same that ONNX Runtime uses.
fn open(gpu: i32) -> Result<Arc<CudaContext>, String> {
    // SAFETY: it loads the driver's library, as ONNX Runtime does.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no NVIDIA driver on this machine".to_owned());
    }
    let number = usize::try_from(gpu).map_err(|_| format!("there is no GPU {gpu}"))?;
    CudaContext::new(number).map_err(failed)
}

fn failed(error: DriverError) -> String {
    format!("CUDA: {error}")
}

impl DeviceStream for NvidiaStream {
    fn buffers(&mut self, place: usize) -> Result<Buffers<'_>, String> {
        let place = &mut self.places[place];
        let mut outputs: [&mut [f32]; 3] = [&mut [], &mut [], &mut []];
        for (numbers, output) in outputs.iter_mut().zip(&mut place.outputs) {
            *numbers = output.numbers_mut();
        }
        Ok(Buffers {
            masks: place.masks.numbers_mut(),
            scalars: place.scalars.numbers_mut(),
            entries: place.entries.numbers_mut(),
            sharpness: place.sharpness.numbers_mut(),
            outputs,
        })
    }

    fn queue(&mut self, place: usize) -> Result<(), String> {
        let stream = self.stream.cu_stream();
        self.stream.context().bind_to_thread().map_err(failed)?;
        let place = &mut self.places[place];
        place.masks.upload(stream)?;
        place.scalars.upload(stream)?;
        place.entries.upload(stream)?;
        place.sharpness.upload(stream)?;
        let session = &mut self.sessions[place.session];
        let run = session.run_binding_with_options(&place.binding, &place.options);
        drop(run.map_err(text)?);
        let mut outputs = place.outputs.iter_mut();
        outputs.try_for_each(|output| output.download(stream))
    }

    fn begin_capture(&mut self) -> Result<(), String> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(failed)
    }

    fn end_capture(&mut self, place: usize) -> Result<(), String> {
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0));
        let graph = graph.map_err(failed)?;
        if graph.is_none() {
            return Err("CUDA: nothing was captured".to_owned());
        }
        self.places[place].graph = graph;
        Ok(())
    }

    fn launch(&mut self, place: usize) -> Result<(), String> {
        match &self.places[place].graph {
            Some(graph) => graph.launch().map_err(failed),
            None => Err("CUDA: this batch size is not captured".to_owned()),
        }
    }

    fn wait(&mut self, limit: Duration) -> Result<(), String> {
        if let Err(error) = self.done.record(&self.stream) {
            // The caller takes the batch for failed and may write its buffers: the GPU must not use them any more.
            let _ = self.stream.synchronize();
            return Err(failed(error));
        }
        let is_done = || self.done.try_is_complete().map_err(failed);
        let sleep = || self.done.synchronize().map_err(failed);
        poll_then_sleep(limit, is_done, sleep)
    }
}
