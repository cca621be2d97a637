//! ONNX Runtime's CUDA provider and its settings, for the backends `cuda` and `tensorrt` and for captured batches.

use ort::{
    ep::{self, ArenaExtendStrategy, cuda::ConvAlgorithmSearch},
    session::builder::SessionBuilder,
};

use super::{
    plan::{Built, ExecutionProvider, SessionContext},
    session::only_on_device,
};

/// ONNX Runtime's CUDA provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaProvider {
    /// The number of the GPU.
    pub device: i32,
    /// Whether products of 32-bit floats may be rounded to TF32, which convolutions in fp16 need for tensor cores.
    pub tf32: bool,
    /// Whether convolutions have their channels last.
    pub nhwc: bool,
}

impl CudaProvider {
    /// The provider's settings. cuDNN's heuristic chooses the algorithm of a convolution; measuring all of them would
    /// have to be done for each batch size. Layer normalisation sums in 32 bits also where it is fused with an
    /// addition. Convolutions are not fused with their bias: the fused ones cache no plans at all.
    pub(super) fn build(self) -> ep::CUDA {
        ep::CUDA::default()
            .with_device_id(self.device)
            .with_tf32(self.tf32)
            .with_prefer_nhwc(self.nhwc)
            // No more memory than requested: there are several sessions.
            .with_arena_extend_strategy(ArenaExtendStrategy::SameAsRequested)
            .with_conv_algorithm_search(ConvAlgorithmSearch::Heuristic)
            .with_skip_layer_norm_strict_mode(true)
    }
}

impl ExecutionProvider for CudaProvider {
    fn configure(&self, builder: SessionBuilder, context: &SessionContext<'_>) -> Built {
        let provider = self.build().build().error_on_failure();
        only_on_device(builder.with_execution_providers([provider])?, context.model)
    }

    fn nvidia_gpu(&self) -> Option<i32> {
        Some(self.device)
    }
}
