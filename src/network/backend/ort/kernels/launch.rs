//! The kernels on a GPU, through CUDA's driver.

#![allow(
    unsafe_code,
    reason = "a program for another processor has no safe interface"
)]

use std::{
    ffi::{CString, c_void},
    ptr,
    sync::Arc,
};

use cudarc::driver::{
    CudaContext,
    result::{self, module},
    sys::{CUfunction, CUmodule, CUstream},
};

use super::PTX;

/// A kernel of `kernels.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuKernel {
    /// `unpack_planes`
    UnpackPlanes,
    /// `bias_activation`
    BiasActivation,
    /// `bias_activation_any`
    BiasActivationAny,
    /// `bias_sum_activation`
    BiasSumActivation,
    /// `squeeze_excite_2`
    SqueezeExcite2,
    /// `squeeze_excite_4`
    SqueezeExcite4,
    /// `squeeze_excite_8`
    SqueezeExcite8,
    /// `legal_moves`
    LegalMoves,
}

impl GpuKernel {
    const ALL: [(GpuKernel, &str); 8] = [
        (GpuKernel::UnpackPlanes, "unpack_planes"),
        (GpuKernel::BiasActivation, "bias_activation"),
        (GpuKernel::BiasActivationAny, "bias_activation_any"),
        (GpuKernel::BiasSumActivation, "bias_sum_activation"),
        (GpuKernel::SqueezeExcite2, "squeeze_excite_2"),
        (GpuKernel::SqueezeExcite4, "squeeze_excite_4"),
        (GpuKernel::SqueezeExcite8, "squeeze_excite_8"),
        (GpuKernel::LegalMoves, "legal_moves"),
    ];
}

/// A kernel's grid: blocks, threads of each, and bytes of shared memory of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// An address in the GPU's memory.
    Address(u64),
    /// An integer of 32 bits.
    Integer(i32),
}

/// The kernels on one GPU.
pub struct Kernels {
    context: Arc<CudaContext>,
    module: CUmodule,
    functions: Vec<(GpuKernel, CUfunction)>,
}

// SAFETY: modules and functions may be used by any thread in which their context is current.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Has the driver translate the kernels for this GPU.
    ///
    /// # Errors
    /// The message of the driver.
    pub fn load(context: &Arc<CudaContext>) -> Result<Kernels, String> {
        let failed = |error| format!("CUDA: Scorn's kernels cannot be loaded: {error}");
        context.bind_to_thread().map_err(failed)?;
        let text = CString::new(PTX).map_err(|error| error.to_string())?;
        // SAFETY: it is a text that ends with a zero.
        let module = unsafe { module::load_data(text.as_ptr().cast()) }.map_err(failed)?;
        let mut kernels = Kernels {
            context: Arc::clone(context),
            module,
            functions: Vec::new(),
        };
        for (kernel, name) in GpuKernel::ALL {
            let name = CString::new(name).map_err(|error| error.to_string())?;
            // SAFETY: the module is loaded.
            let function = unsafe { module::get_function(kernels.module, name) };
            kernels.functions.push((kernel, function.map_err(failed)?));
        }
        Ok(kernels)
    }

    /// Queues a kernel on a stream of this GPU, whose context is current.
    ///
    /// # Errors
    /// The message of the driver.
    ///
    /// # Safety
    /// The parameters are those of the kernel, and its memory lives until it is done.
    pub unsafe fn launch(
        &self,
        kernel: GpuKernel,
        grid: Grid,
        stream: *mut c_void,
        parameters: &[Parameter],
    ) -> Result<(), String> {
        let function = self.functions.iter().find(|(of, _)| *of == kernel);
        let Some(&(_, function)) = function else {
            return Err(format!("CUDA: there is no kernel {kernel:?}"));
        };
        let mut pointers: Vec<*mut c_void> = parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Address(address) => ptr::from_ref(address).cast_mut().cast(),
                Parameter::Integer(integer) => ptr::from_ref(integer).cast_mut().cast(),
            })
            .collect();
        let stream: CUstream = stream.cast();
        // SAFETY: the driver copies the parameters before it returns; the rest is the caller's promise.
        let done = unsafe {
            result::launch_kernel(
                function,
                (grid.blocks, 1, 1),
                (grid.threads, 1, 1),
                grid.shared,
                stream,
                &mut pointers,
            )
        };
        done.map_err(|error| format!("CUDA: kernel {kernel:?}: {error}"))
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: nothing uses it any more. The operators own it, and the sessions of a stream own those: it goes
            // with them, before their stream, but after the captured graphs and when no work is queued. An error has
            // no remedy.
            let _ = unsafe { module::unload(self.module) };
        }
    }
}
