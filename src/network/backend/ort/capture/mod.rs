//! Batches as captured CUDA graphs: one command to the GPU in place of a call of the runtime.
//!
//! * [`binding`] plans the buffers of each batch size.
//! * [`stream`] is the seam to the device, and the order in which graphs are captured and checked.
//! * [`waiting`] decides how a thread waits for the end of a batch.
//! * [`session`] runs batches on a stream, whatever it is.
//! * [`nvidia_stream`] is that of NVIDIA's GPUs. In tests there is another one, which fails as a GPU does.

pub mod binding;
#[cfg(test)]
mod fake;
pub mod nvidia_stream;
pub mod session;
pub mod stream;
pub mod waiting;
