//! Networks in lc0's format: converted by the library, run by rten, and compared with lc0's recorded outputs and with a
//! plain evaluation; damaged files; precisions; symmetry; the commands.

mod commands;
mod damage;
mod fused;
mod half_precision;
mod naive;
mod onnx_file;
mod parity;
mod reference_kernels;
mod run;
mod symmetry;
mod synth;
mod synthetic;
