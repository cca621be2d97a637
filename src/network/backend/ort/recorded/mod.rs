//! Batches as recorded graphs: one command to the GPU in place of a call of the runtime.
//!
//! * [`binding`] plans the buffers of each batch size.
//! * [`lane`] is the seam to the device, and the order in which graphs are recorded and checked.
//! * [`session`] runs batches on a lane, whatever it is.
//! * [`cuda_lane`] is the lane of NVIDIA's GPUs. In tests there is another one, which fails as a GPU does.

pub mod binding;
pub mod cuda_lane;
#[cfg(test)]
mod fake;
pub mod lane;
pub mod session;
