//! Training: from record files to the weights of a sparse network, on a CPU.
//!
//! A step draws a batch ([`data`]), divides it into [`chunk`]s that the threads process in turn ([`step`]: outputs,
//! losses, gradients), and updates the weights ([`adam`]). The learning rate is constant after a warm-up, so a run can
//! be extended at will. A decay run is a copy of a run whose rate falls to zero; it yields the best network. A run can
//! be stopped at any time and continues from its last checkpoint, which is replaced atomically. With one thread, the
//! same seed and files give the same network bit by bit; with several threads, the order in which gradients are added
//! differs from run to run, unless [`TrainingSettings::fixed_order`] is set.
//!
//! [`run()`] is the whole of it, by its [`TrainingSettings`]. It begins with the weights of [`start`] or with a
//! [`checkpoint`], and computes the [`targets`] of the positions that it draws. [`measure`] tests the averaged weights,
//! and [`export()`] makes them a network that plays. [`batches`] streams batches to the PyTorch trainers, also those of
//! [`dense`] networks.

pub mod adam;
mod average;
pub mod batches;
pub mod checkpoint;
pub mod chunk;
pub mod data;
pub mod dense;
mod export;
pub mod measure;
mod past;
mod run;
mod settings;
pub mod start;
pub mod step;
pub mod targets;
#[cfg(test)]
mod testing;

pub use self::export::export;
pub use self::run::run;
pub use self::settings::{CHUNK, TrainingSettings, default_chunk};
