//! Scorn's own operators as ONNX Runtime's CUDA provider calls them, on 16-bit floats. What each computes is described
//! at its kernel in `kernels.cu`.

#![allow(unsafe_code, reason = "kernels take addresses in the GPU's memory")]

use std::sync::Arc;

use ort::{
    Error, Result,
    operator::{
        BoxedKernel, ComputeContext, KernelContext, Operator, OperatorDomain, OperatorInput,
        OperatorOutput, ShapeInferenceContext,
    },
    value::{
        DynTensorValueType, Shape, SymbolicDimensions,
        TensorElementType::{self, Float16, Float32, Int16, Int32, Uint8},
        ValueType,
    },
};

use super::{
    call::{Call, Tensors},
    launch::Kernels,
};

/// The name of the operators' domain.
const DOMAIN: &str = "scorn";

/// The operators on a GPU, for sessions on it.
///
/// # Errors
/// The message of ONNX Runtime.
pub fn domain(kernels: &Arc<Kernels>) -> Result<OperatorDomain> {
    let operator = |kind| CudaOperator::<false> {
        kind,
        kernels: Arc::clone(kernels),
    };
    let in_place = |kind| CudaOperator::<true> {
        kind,
        kernels: Arc::clone(kernels),
    };
    OperatorDomain::new(DOMAIN)?
        .add(operator(Kind::UnpackPlanes))?
        .add(in_place(Kind::BiasActivation))?
        .add(in_place(Kind::BiasSumActivation))?
        .add(in_place(Kind::SqueezeExcite))?
        .add(operator(Kind::LegalMoves))
}

/// Scorn's own operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Planes from bits.
    UnpackPlanes,
    /// activation(x + bias)
    BiasActivation,
    /// activation(x + bias + shortcut)
    BiasSumActivation,
    /// The end of a residual block with squeeze-and-excite.
    SqueezeExcite,
    /// Probabilities of the legal moves.
    LegalMoves,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [
        Kind::UnpackPlanes,
        Kind::BiasActivation,
        Kind::BiasSumActivation,
        Kind::SqueezeExcite,
        Kind::LegalMoves,
    ];

    /// The name of the operator in a model.
    pub fn name(self) -> &'static str {
        match self {
            Kind::UnpackPlanes => "UnpackPlanes",
            Kind::BiasActivation => "BiasActivation",
            Kind::BiasSumActivation => "BiasSumActivation",
            Kind::SqueezeExcite => "SqueezeExcite",
            Kind::LegalMoves => "LegalMoves",
        }
    }

    /// The types of its inputs.
    pub fn inputs(self) -> &'static [TensorElementType] {
        match self {
            Kind::UnpackPlanes => &[Uint8, Float32, Int32],
            Kind::BiasActivation => &[Float16; 2],
            Kind::BiasSumActivation => &[Float16; 3],
            Kind::SqueezeExcite => &[Float16; 7],
            Kind::LegalMoves => &[Float16, Int32, Int16, Float32],
        }
    }

    /// The type of its output.
    pub fn output(self) -> TensorElementType {
        match self {
            Kind::LegalMoves => Float32,
            _ => Float16,
        }
    }

    /// Tells ONNX Runtime the shape of the output, whose numbers are of this type: it moves transpositions only around
    /// tensors of which it knows the dimensions.
    ///
    /// # Errors
    /// The message of ONNX Runtime.
    pub fn infer_shape(
        self,
        context: &mut ShapeInferenceContext,
        output: TensorElementType,
    ) -> Result<()> {
        let inputs = context.inputs();
        // What is not known is -1 or, for some operators, another negative number.
        let shape = |input: &ValueType| match input {
            ValueType::Tensor { shape, .. } => shape.iter().map(|&dim| dim.max(-1)).collect(),
            _ => Vec::new(),
        };
        let shapes: Vec<Vec<i64>> = inputs.iter().map(shape).collect();
        let Some(shape) = self.output_shape(&shapes).filter(|shape| !shape.is_empty()) else {
            return Ok(());
        };
        let symbols = match inputs.first() {
            Some(ValueType::Tensor {
                dimension_symbols, ..
            }) => dimension_symbols.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        // A dimension without size and name would be taken for one of the size -1.
        let is_known = |(index, &dim): (usize, &i64)| {
            dim >= 0 || (index == 0 && symbols.first().is_some_and(|name| !name.is_empty()))
        };
        if !shape.iter().enumerate().all(is_known) {
            return Ok(());
        }
        let name = |index: usize| match (index, symbols.first()) {
            (0, Some(name)) if shape[0] < 0 => name.clone(),
            _ => String::new(),
        };
        let dimension_symbols = SymbolicDimensions::new((0..shape.len()).map(name));
        let output = ValueType::Tensor {
            ty: output,
            shape: Shape::new(shape),
            dimension_symbols,
        };
        context.set_output(0, &output)
    }

    /// The output's shape.
    fn output_shape(self, inputs: &[Vec<i64>]) -> Option<Vec<i64>> {
        let shape = |index: usize| inputs.get(index);
        Some(match self {
            Kind::UnpackPlanes => match shape(0)?.as_slice() {
                &[batch, planes, 8] => vec![batch, 8, 8, planes],
                _ => return None,
            },
            Kind::LegalMoves => shape(2)?.clone(),
            _ => shape(0)?.clone(),
        })
    }
}

/// An operator. Its output may be in the place of its first input if `IN_PLACE`.
struct CudaOperator<const IN_PLACE: bool> {
    kind: Kind,
    kernels: Arc<Kernels>,
}

impl<const IN_PLACE: bool> Operator for CudaOperator<IN_PLACE> {
    type Kernel<'attr> = BoxedKernel<'attr>;

    const INPLACES: &[(u32, u32)] = if IN_PLACE { &[(0, 0)] } else { &[] };

    fn name(&self) -> &str {
        self.kind.name()
    }

    fn execution_provider_type(&self) -> Option<&str> {
        Some("CUDAExecutionProvider")
    }

    fn inputs(&self) -> impl IntoIterator<Item = OperatorInput> {
        let inputs = self.kind.inputs().iter();
        inputs.map(|&of| OperatorInput::required(of))
    }

    fn outputs(&self) -> impl IntoIterator<Item = OperatorOutput> {
        [OperatorOutput::required(self.kind.output())]
    }

    fn infer_shape(&self, context: &mut ShapeInferenceContext) -> Result<()> {
        self.kind.infer_shape(context, self.kind.output())
    }

    fn create_kernel<'attr>(&self, context: &KernelContext<'attr>) -> Result<BoxedKernel<'attr>> {
        let (kind, kernels) = (self.kind, Arc::clone(&self.kernels));
        let activation = context.get::<i64>("activation").unwrap_or_default() as i32;
        Ok(Box::new(move |context: &ComputeContext| {
            compute(kind, activation, &kernels, context)
        }))
    }
}

/// Queues an operator's kernel.
fn compute(kind: Kind, activation: i32, kernels: &Kernels, context: &ComputeContext) -> Result<()> {
    let (mut shapes, mut addresses) = (Vec::new(), Vec::new());
    for index in 0..kind.inputs().len() {
        let value = context.input(index)?.ok_or_else(|| missing(kind))?;
        let tensor = value.downcast::<DynTensorValueType>()?;
        shapes.push(tensor.shape().to_vec());
        addresses.push(tensor.data_ptr().addr() as u64);
    }
    let output_shape = kind.output_shape(&shapes).ok_or_else(|| missing(kind))?;
    let output = context
        .output(0, output_shape)?
        .ok_or_else(|| missing(kind))?;
    let output = output.downcast::<DynTensorValueType>()?;
    let output = output.data_ptr().addr() as u64;
    let tensors = Tensors {
        shapes: &shapes,
        inputs: &addresses,
        output,
        activation,
    };
    let call = Call::new(kind, &tensors)
        .ok_or_else(|| Error::new(format!("{}: {shapes:?} is not possible", kind.name())))?;
    let stream = context.stream()?.ok_or_else(|| missing(kind))?;
    // SAFETY: ONNX Runtime owns the memory and orders what uses it on this stream; `call` has the kernel's parameters.
    let queued = unsafe {
        kernels.launch(
            call.kernel,
            call.grid,
            stream.as_ptr().cast(),
            &call.parameters,
        )
    };
    queued.map_err(Error::new)
}

fn missing(kind: Kind) -> Error {
    Error::new(format!("{}: ONNX Runtime gives no tensor", kind.name()))
}
