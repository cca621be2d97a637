//! What Scorn's own operators compute, written as simply as possible for the processor, in 32 bits: the kernels' graphs
//! can be compared with the plain ones without a GPU.

use ort::{
    Result,
    operator::{
        BoxedKernel, ComputeContext, KernelContext, Operator, OperatorDomain, OperatorInput,
        OperatorOutput, ShapeInferenceContext,
    },
    session::builder::SessionBuilder,
    value::TensorElementType::{Float16, Float32},
};
use scorn::{
    lc0::KERNEL_DOMAIN,
    network::backend::ort::{
        kernels::kind::OperatorKind,
        plan::{Built, ExecutionProvider, SessionContext},
    },
};

/// Squares of a board.
const SQUARES: usize = 64;

/// ONNX Runtime's CPU provider with these operators.
#[derive(Debug)]
pub struct ReferenceProvider;

impl ExecutionProvider for ReferenceProvider {
    fn configure(&self, builder: SessionBuilder, _: &SessionContext<'_>) -> Built {
        let domain = OperatorDomain::new(KERNEL_DOMAIN).unwrap();
        let domain = OperatorKind::ALL
            .into_iter()
            .fold(domain, |domain, kind| domain.add(Reference(kind)).unwrap());
        builder.with_operators(domain)
    }
}

/// An operator, with 32-bit floats in place of 16-bit ones.
struct Reference(OperatorKind);

impl Operator for Reference {
    type Kernel<'attr> = BoxedKernel<'attr>;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn infer_shape(&self, context: &mut ShapeInferenceContext) -> Result<()> {
        self.0.infer_shape(context, Float32)
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        let types = self.0.inputs().iter();
        types.map(|&of| OperatorInput::required(if of == Float16 { Float32 } else { of }))
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        [OperatorOutput::required(Float32)]
    }

    fn create_kernel<'attr>(&self, context: &KernelContext<'attr>) -> Result<BoxedKernel<'attr>> {
        let (kind, activation) = (self.0, context.get::<i64>("activation").unwrap_or(-1));
        Ok(Box::new(move |context: &ComputeContext| match kind {
            OperatorKind::UnpackPlanes => unpack_planes(context),
            OperatorKind::LegalMoves => legal_moves(context),
            OperatorKind::SqueezeExcite => squeeze_excite(context, activation),
            OperatorKind::BiasActivation | OperatorKind::BiasSumActivation => {
                bias_activation(context, activation)
            }
        }))
    }
}

/// An activation by its number, in 64 bits.
fn activate(x: f32, activation: i64) -> f32 {
    let x = f64::from(x);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let y = match activation {
        0 => x,
        1 => x.max(0.0),
        2 => x.tanh(),
        3 => sigmoid(x),
        4 => x.max(0.0).powi(2),
        5 => x * sigmoid(x),
        6 => x * x.exp().ln_1p().tanh(),
        7 => 1.050_701 * if x > 0.0 { x } else { 1.673_263_2 * x.exp_m1() },
        other => panic!("there is no activation {other}"),
    };
    y as f32
}

/// The shape and numbers of an input.
fn floats(context: &ComputeContext, index: usize) -> Result<(Vec<i64>, Vec<f32>)> {
    let value = context.input(index)?.unwrap();
    let (shape, numbers) = value.try_extract_tensor::<f32>()?;
    Ok((shape.to_vec(), numbers.to_vec()))
}

fn write(context: &ComputeContext, shape: Vec<i64>, numbers: &[f32]) -> Result<()> {
    let mut output = context.output(0, shape)?.unwrap();
    output
        .try_extract_tensor_mut::<f32>()?
        .1
        .copy_from_slice(numbers);
    Ok(())
}

fn unpack_planes(context: &ComputeContext) -> Result<()> {
    let masks = context.input(0)?.unwrap();
    let (shape, masks) = masks.try_extract_tensor::<u8>()?;
    let (batch, planes) = (shape[0], shape[1] as usize);
    let (scalar_shape, scalars) = floats(context, 1)?;
    let places = context.input(2)?.unwrap();
    let (_, places) = places.try_extract_tensor::<i32>()?;
    let number = |index: usize| {
        let (position, square) = (index / planes / SQUARES, index / planes % SQUARES);
        let plane = index % planes;
        let is_set = masks[(position * planes + plane) * 8 + square / 8] >> (square % 8) & 1 == 1;
        match (is_set, usize::try_from(places[plane])) {
            (false, _) => 0.0,
            (true, Ok(place)) => scalars[position * scalar_shape[1] as usize + place],
            (true, Err(_)) => 1.0,
        }
    };
    let numbers: Vec<f32> = (0..batch as usize * SQUARES * planes).map(number).collect();
    write(context, vec![batch, 8, 8, planes as i64], &numbers)
}

fn bias_activation(context: &ComputeContext, activation: i64) -> Result<()> {
    let ((shape, mut numbers), (_, bias)) = (floats(context, 0)?, floats(context, 1)?);
    assert_eq!(shape.last(), Some(&(bias.len() as i64)));
    let shortcut = match context.num_inputs()? {
        3 => floats(context, 2)?.1,
        _ => vec![0.0; numbers.len()],
    };
    assert_eq!(shortcut.len(), numbers.len());
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = activate(
            *number + bias[index % bias.len()] + shortcut[index],
            activation,
        );
    }
    write(context, shape, &numbers)
}

fn squeeze_excite(context: &ComputeContext, activation: i64) -> Result<()> {
    let ((shape, mut x), (_, bias), (_, shortcut)) = (
        floats(context, 0)?,
        floats(context, 1)?,
        floats(context, 2)?,
    );
    let ((_, squeeze), (_, squeeze_bias)) = (floats(context, 3)?, floats(context, 4)?);
    let ((_, excite), (_, excite_bias)) = (floats(context, 5)?, floats(context, 6)?);
    let channels = bias.len();
    for (index, number) in x.iter_mut().enumerate() {
        *number += bias[index % channels];
    }
    let dense = |inputs: &[f32], weights: &[f32], bias: &[f32]| -> Vec<f32> {
        let output = |output: usize| {
            let terms = inputs.iter().enumerate();
            let terms = terms.map(|(input, x)| x * weights[input * bias.len() + output]);
            bias[output] + terms.sum::<f32>()
        };
        (0..bias.len()).map(output).collect()
    };
    let boards = x.chunks_mut(SQUARES * channels);
    for (board, shortcut) in boards.zip(shortcut.chunks(SQUARES * channels)) {
        let mean = |channel: usize| {
            let numbers = board.iter().skip(channel).step_by(channels);
            numbers.sum::<f32>() / SQUARES as f32
        };
        let means: Vec<f32> = (0..channels).map(mean).collect();
        let mut units = dense(&means, &squeeze, &squeeze_bias);
        for unit in &mut units {
            *unit = activate(*unit, activation);
        }
        let gates = dense(&units, &excite, &excite_bias);
        for (index, number) in board.iter_mut().enumerate() {
            let channel = index % channels;
            let scaled = activate(gates[channel], 3) * *number + gates[channels + channel];
            *number = activate(scaled + shortcut[index], activation);
        }
    }
    write(context, shape, &x)
}

fn legal_moves(context: &ComputeContext) -> Result<()> {
    let (shape, logits) = floats(context, 0)?;
    let places = context.input(1)?.unwrap();
    let (_, places) = places.try_extract_tensor::<i32>()?;
    let moves = context.input(2)?.unwrap();
    let (move_shape, moves) = moves.try_extract_tensor::<i16>()?;
    let sharpness = floats(context, 3)?.1[0];
    let (count, slots) = (shape[1] as usize, move_shape[1] as usize);
    let mut numbers = Vec::new();
    for (position, entries) in moves.chunks(slots).enumerate() {
        let weight = |&entry: &i16| match usize::try_from(entry) {
            Ok(entry) => {
                let logit = logits[position * count + places[entry] as usize];
                f64::from(logit * sharpness).exp()
            }
            Err(_) => 0.0,
        };
        let weights: Vec<f64> = entries.iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        numbers.extend(
            weights
                .iter()
                .map(|weight| (weight / sum.max(1e-300)) as f32),
        );
    }
    write(context, move_shape.to_vec(), &numbers)
}
