//! How each operator's kernel is started: on which blocks, with which parameters. It needs no GPU.

use super::{
    kind::OperatorKind,
    launch::{GpuKernel, Grid, Parameter},
};

/// Threads of a block that computes vectors.
const THREADS: u32 = 256;

/// Numbers of a vector.
const VECTOR: usize = 8;

/// Squares of a board.
const SQUARES: usize = 64;

/// A kernel with all that it is started with.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// The kernel.
    pub kernel: GpuKernel,
    /// Its blocks.
    pub grid: Grid,
    /// Its parameters, in their order in `kernels.cu`.
    pub parameters: Vec<Parameter>,
}

/// The tensors of an operator, and its activation.
pub struct CallTensors<'a> {
    /// The shapes of the inputs.
    pub shapes: &'a [Vec<i64>],
    /// Their addresses in the GPU's memory.
    pub inputs: &'a [u64],
    /// The output's address.
    pub output: u64,
    /// The number of the activation.
    pub activation: i32,
}

impl CallTensors<'_> {
    /// A dimension of an input.
    fn size(&self, input: usize, dimension: usize) -> Option<usize> {
        usize::try_from(*self.shapes.get(input)?.get(dimension)?).ok()
    }

    /// The numbers in an input.
    fn count(&self, input: usize) -> Option<usize> {
        let dims = self.shapes.get(input)?.iter();
        dims.map(|&dim| usize::try_from(dim).ok()).product()
    }

    /// The addresses of some inputs and of the output, then these integers.
    fn parameters<const INPUTS: usize>(
        &self,
        inputs: [usize; INPUTS],
        integers: &[usize],
    ) -> Option<Vec<Parameter>> {
        let mut parameters = Vec::new();
        for input in inputs {
            parameters.push(Parameter::Address(*self.inputs.get(input)?));
        }
        parameters.push(Parameter::Address(self.output));
        for &integer in integers {
            parameters.push(Parameter::Integer(i32::try_from(integer).ok()?));
        }
        Some(parameters)
    }

    /// The same with the number of the activation at the end.
    fn with_activation<const INPUTS: usize>(
        &self,
        inputs: [usize; INPUTS],
        integers: &[usize],
    ) -> Option<Vec<Parameter>> {
        let mut parameters = self.parameters(inputs, integers)?;
        parameters.push(Parameter::Integer(self.activation));
        Some(parameters)
    }
}

impl Call {
    /// The call of an operator on these tensors; `None` if they do not fit.
    pub fn new(kind: OperatorKind, tensors: &CallTensors<'_>) -> Option<Call> {
        match kind {
            OperatorKind::UnpackPlanes => unpack_planes(tensors),
            OperatorKind::BiasActivation => bias_activation(tensors),
            OperatorKind::BiasSumActivation => bias_sum_activation(tensors),
            OperatorKind::SqueezeExcite => squeeze_excite(tensors),
            OperatorKind::LegalMoves => legal_moves(tensors),
        }
    }
}

fn unpack_planes(tensors: &CallTensors<'_>) -> Option<Call> {
    let (batch, planes) = (tensors.size(0, 0)?, tensors.size(0, 1)?);
    let scalars = tensors.size(1, 1)?;
    // Planes are written in pairs.
    let fits = planes % 2 == 0 && tensors.count(2)? == planes;
    // Factors of planes, and their bytes.
    let shared = planes * 4 + planes * 8;
    fits.then_some(Call {
        kernel: GpuKernel::UnpackPlanes,
        grid: block_a_position(batch, THREADS, shared)?,
        parameters: tensors.parameters([0, 1, 2], &[planes, scalars])?,
    })
}

fn bias_activation(tensors: &CallTensors<'_>) -> Option<Call> {
    let (numbers, channels) = numbers_and_channels(tensors)?;
    let (kernel, width) = match channels % VECTOR {
        0 => (GpuKernel::BiasActivation, VECTOR),
        _ => (GpuKernel::BiasActivationAny, 1),
    };
    Some(Call {
        kernel,
        grid: thread_each(numbers / width)?,
        parameters: tensors.with_activation([0, 1], &[numbers / width, channels / width])?,
    })
}

fn bias_sum_activation(tensors: &CallTensors<'_>) -> Option<Call> {
    let (numbers, channels) = numbers_and_channels(tensors)?;
    let fits = channels % VECTOR == 0 && tensors.count(2)? == numbers;
    let integers = [numbers / VECTOR, channels / VECTOR];
    fits.then_some(Call {
        kernel: GpuKernel::BiasSumActivation,
        grid: thread_each(numbers / VECTOR)?,
        parameters: tensors.with_activation([0, 1, 2], &integers)?,
    })
}

/// The numbers of a tensor, and its channels, which are its last dimension and the length of the bias.
fn numbers_and_channels(tensors: &CallTensors<'_>) -> Option<(usize, usize)> {
    let channels = tensors.count(1)?;
    let last = *tensors.shapes.first()?.last()?;
    let fits = channels > 0 && usize::try_from(last) == Ok(channels);
    fits.then_some((tensors.count(0)?, channels))
}

fn squeeze_excite(tensors: &CallTensors<'_>) -> Option<Call> {
    let (batch, channels, hidden) = (tensors.size(0, 0)?, tensors.size(0, 3)?, tensors.count(4)?);
    let numbers = batch * SQUARES * channels;
    let expected = [
        numbers,
        channels,
        numbers,
        channels * hidden,
        hidden,
        hidden * 2 * channels,
        2 * channels,
    ];
    let counts = (0..expected.len()).map(|input| tensors.count(input));
    let fits = counts.eq(expected.map(Some))
        && channels > 0
        && channels % VECTOR == 0
        && (1..=VECTOR * THREADS as usize).contains(&hidden);
    let (kernel, threads) = match channels {
        0..=64 => (GpuKernel::SqueezeExcite2, THREADS),
        65..=128 => (GpuKernel::SqueezeExcite4, THREADS),
        129..=256 => (GpuKernel::SqueezeExcite8, THREADS),
        257..=512 => (GpuKernel::SqueezeExcite8, 2 * THREADS),
        _ => return None,
    };
    let shared = squeeze_excite_bytes(channels, hidden, threads);
    fits.then_some(Call {
        kernel,
        grid: block_a_position(batch, threads, shared)?,
        parameters: tensors.with_activation([0, 1, 2, 3, 4, 5, 6], &[channels, hidden])?,
    })
}

fn legal_moves(tensors: &CallTensors<'_>) -> Option<Call> {
    let (batch, logits) = (tensors.size(0, 0)?, tensors.size(0, 1)?);
    let slots = tensors.size(2, 1)?;
    let fits = tensors.size(2, 0)? == batch && slots % 32 == 0 && (32..=1024).contains(&slots);
    fits.then_some(Call {
        kernel: GpuKernel::LegalMoves,
        grid: block_a_position(batch, u32::try_from(slots).ok()?, 0)?,
        parameters: tensors.parameters([0, 1, 2, 3], &[logits])?,
    })
}

/// A block for each position.
fn block_a_position(batch: usize, threads: u32, shared: usize) -> Option<Grid> {
    Some(Grid {
        blocks: u32::try_from(batch).ok()?,
        threads,
        shared: u32::try_from(shared).ok()?,
    })
}

/// A thread for each of `work` vectors or numbers.
fn thread_each(work: usize) -> Option<Grid> {
    let blocks = u32::try_from(work.div_ceil(THREADS as usize)).ok()?;
    Some(Grid {
        blocks,
        threads: THREADS,
        shared: 0,
    })
}

/// The shared memory of `squeeze_excite`: gates, means, units, and parts of sums; 32-bit floats.
fn squeeze_excite_bytes(channels: usize, hidden: usize, threads: u32) -> usize {
    4 * (3 * channels + hidden.next_multiple_of(2) + VECTOR * threads as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [u64; 7] = [1, 2, 3, 4, 5, 6, 7];

    fn call_of(kind: OperatorKind, shapes: &[&[i64]]) -> Option<Call> {
        let shapes: Vec<Vec<i64>> = shapes.iter().map(|shape| shape.to_vec()).collect();
        let tensors = CallTensors {
            shapes: &shapes,
            inputs: &ADDRESSES[..shapes.len()],
            output: 9,
            activation: 6,
        };
        Call::new(kind, &tensors)
    }

    fn integers(call: &Call) -> Vec<i32> {
        let integer = |parameter: &Parameter| match parameter {
            Parameter::Integer(integer) => Some(*integer),
            Parameter::Address(_) => None,
        };
        call.parameters.iter().filter_map(integer).collect()
    }

    #[test]
    fn a_position_is_a_block() {
        let call = call_of(OperatorKind::UnpackPlanes, &[&[5, 112, 8], &[5, 1], &[112]]).unwrap();
        assert_eq!((call.grid.blocks, call.grid.shared), (5, 112 * 12));
        assert_eq!(integers(&call), [112, 1]);
        let shapes: [&[i64]; 4] = [&[5, 5120], &[1858], &[5, 256], &[1]];
        let call = call_of(OperatorKind::LegalMoves, &shapes).unwrap();
        assert_eq!((call.grid.blocks, call.grid.threads), (5, 256));
        assert_eq!(integers(&call), [5120]);
        let shapes: [&[i64]; 7] = [
            &[5, 8, 8, 64],
            &[64],
            &[5, 8, 8, 64],
            &[64, 8],
            &[8],
            &[8, 128],
            &[128],
        ];
        let call = call_of(OperatorKind::SqueezeExcite, &shapes).unwrap();
        assert_eq!(call.grid.shared, 4 * (192 + 8 + 2048));
        assert_eq!(integers(&call), [64, 8, 6]);
    }

    #[test]
    fn numbers_are_taken_eight_at_a_time_where_possible() {
        let call = call_of(OperatorKind::BiasActivation, &[&[3, 8, 8, 64], &[64]]).unwrap();
        assert_eq!(
            (call.kernel, call.grid.blocks),
            (GpuKernel::BiasActivation, 6)
        );
        assert_eq!(integers(&call), [3 * 64 * 8, 8, 6]);
        let call = call_of(OperatorKind::BiasActivation, &[&[100, 3], &[3]]).unwrap();
        assert_eq!(
            (call.kernel, call.grid.blocks),
            (GpuKernel::BiasActivationAny, 2)
        );
        assert_eq!(integers(&call), [300, 3, 6]);
        let call = call_of(
            OperatorKind::BiasSumActivation,
            &[&[64, 32], &[32], &[64, 32]],
        )
        .unwrap();
        let addresses = [1, 2, 3, 9].map(Parameter::Address);
        assert_eq!(call.parameters[..4], addresses);
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let wide: [&[i64]; 7] = [
            &[5, 8, 8, 520],
            &[520],
            &[5, 8, 8, 520],
            &[520, 8],
            &[8],
            &[8, 1040],
            &[1040],
        ];
        let wrong: [(OperatorKind, &[&[i64]]); 6] = [
            (OperatorKind::SqueezeExcite, &wide),
            (OperatorKind::UnpackPlanes, &[&[5, 111, 8], &[5, 1], &[111]]),
            (OperatorKind::BiasActivation, &[&[3, 8, 8, 64], &[32]]),
            (
                OperatorKind::BiasSumActivation,
                &[&[64, 32], &[32], &[64, 16]],
            ),
            (OperatorKind::BiasSumActivation, &[&[64, 3], &[3], &[64, 3]]),
            (
                OperatorKind::LegalMoves,
                &[&[5, 5120], &[1858], &[5, 250], &[1]],
            ),
        ];
        for (kind, shapes) in wrong {
            assert_eq!(call_of(kind, shapes), None, "{shapes:?}");
        }
    }
}
