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
    value::DynTensorValueType,
};

use super::{
    call::{Call, CallTensors},
    kind::OperatorKind,
    launch::Kernels,
};
use crate::lc0::KERNEL_DOMAIN;

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
    OperatorDomain::new(KERNEL_DOMAIN)?
        .add(operator(OperatorKind::UnpackPlanes))?
        .add(in_place(OperatorKind::BiasActivation))?
        .add(in_place(OperatorKind::BiasSumActivation))?
        .add(in_place(OperatorKind::SqueezeExcite))?
        .add(operator(OperatorKind::LegalMoves))
}

/// An operator. Its output may be in the place of its first input if `IN_PLACE`.
struct CudaOperator<const IN_PLACE: bool> {
    kind: OperatorKind,
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
fn compute(
    kind: OperatorKind,
    activation: i32,
    kernels: &Kernels,
    context: &ComputeContext,
) -> Result<()> {
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
    let tensors = CallTensors {
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

fn missing(kind: OperatorKind) -> Error {
    Error::new(format!("{}: ONNX Runtime gives no tensor", kind.name()))
}
