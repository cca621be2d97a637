//! Scorn's own operators for NVIDIA's GPUs, which ONNX Runtime calls in captured graphs: what stands between two
//! convolutions or products of a network is one kernel each, where ONNX has up to ten.
//!
//! * `kernels.cu` is the source of the kernels, and `kernels.ptx` what `make kernels` makes of it: a text that is part
//!   of the program and that the driver translates for its card, so that no compiler is needed where it runs.
//! * [`kind`] lists the operators, [`operators`] gives them to ONNX Runtime.
//! * [`call`] decides how a kernel is started.
//! * [`launch`] loads the kernels and queues them.
//!
//! Which operators a network gets is decided where it is converted ([`Operators::Scorn`](crate::lc0::Operators)).

pub mod call;
pub mod kind;
pub mod launch;
pub mod operators;

/// The kernels for the driver.
const PTX: &str = include_str!("kernels.ptx");

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_translated_kernels_are_those_of_the_source() {
        let source = include_bytes!("kernels.cu");
        let hash: String = Sha256::digest(source)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let first = PTX.lines().next().unwrap();
        assert!(first.ends_with(&hash), "run `make kernels`: {first}");
    }
}
