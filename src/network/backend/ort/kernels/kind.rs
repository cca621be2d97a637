//! Scorn's own operators, as models name them: the types and shapes of their tensors.

use ort::{
    Result,
    operator::ShapeInferenceContext,
    value::{
        Shape, SymbolicDimensions,
        TensorElementType::{self, Float16, Float32, Int16, Int32, Uint8},
        ValueType,
    },
};

/// Scorn's own operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorKind {
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

impl OperatorKind {
    /// All of them.
    pub const ALL: [OperatorKind; 5] = [
        OperatorKind::UnpackPlanes,
        OperatorKind::BiasActivation,
        OperatorKind::BiasSumActivation,
        OperatorKind::SqueezeExcite,
        OperatorKind::LegalMoves,
    ];

    /// The name of the operator in a model.
    pub fn name(self) -> &'static str {
        match self {
            OperatorKind::UnpackPlanes => "UnpackPlanes",
            OperatorKind::BiasActivation => "BiasActivation",
            OperatorKind::BiasSumActivation => "BiasSumActivation",
            OperatorKind::SqueezeExcite => "SqueezeExcite",
            OperatorKind::LegalMoves => "LegalMoves",
        }
    }

    /// The types of its inputs.
    pub fn inputs(self) -> &'static [TensorElementType] {
        match self {
            OperatorKind::UnpackPlanes => &[Uint8, Float32, Int32],
            OperatorKind::BiasActivation => &[Float16; 2],
            OperatorKind::BiasSumActivation => &[Float16; 3],
            OperatorKind::SqueezeExcite => &[Float16; 7],
            OperatorKind::LegalMoves => &[Float16, Int32, Int16, Float32],
        }
    }

    /// The type of its output.
    pub fn output(self) -> TensorElementType {
        match self {
            OperatorKind::LegalMoves => Float32,
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
    pub(super) fn output_shape(self, inputs: &[Vec<i64>]) -> Option<Vec<i64>> {
        let shape = |index: usize| inputs.get(index);
        Some(match self {
            OperatorKind::UnpackPlanes => match shape(0)?.as_slice() {
                &[batch, planes, 8] => vec![batch, 8, 8, planes],
                _ => return None,
            },
            OperatorKind::LegalMoves => shape(2)?.clone(),
            _ => shape(0)?.clone(),
        })
    }
}
