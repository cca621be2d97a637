//! 8-bit models: the quantized tensors and their ranges from calibration.
//!
//! Weights of the body are stored as signed 8-bit integers with a scale per output, activations are rounded to unsigned
//! 8-bit integers between limits seen in games (Jacob et al., "Quantization and Training of Neural Networks
//! for Efficient Integer-Arithmetic-Only Inference", 2018). In the graph this is written as QuantizeLinear and
//! DequantizeLinear around ordinary operators, which runtimes with integer kernels fuse and others compute as it
//! stands. The input convolution (its planes have very different ranges), smolgen and the heads (small, and what the
//! search sees; only encoders in a policy head are like those of the body) stay in float32, and so do all shortcuts.
//!
//! Calibration is done by the caller, who has a runtime: [`super::calibration_model`] returns a float model with the
//! tensors to quantize as outputs; their values go to [`Calibration::observe`]; the result goes into
//! [`super::ConvertOptions`].

use super::Emitter;
use crate::lc0::{
    error::NetError,
    format::Activation,
    model::Calibration,
    onnx::graph::{GraphValue, QuantizedValue, QuantizedWeights},
    weights::{Conv, Dense},
};

/// The mode of quantization.
pub(super) enum Quantization {
    /// None: the model is a float model.
    None,
    /// The names of the tensors are collected.
    Collect(Vec<GraphValue>),
    /// The tensors are quantized.
    Apply(Calibration),
}

impl Emitter {
    /// A tensor that an integer kernel reads or writes, in 8 bits; `None` if the model is a float model.
    fn quantized(&mut self, x: &GraphValue) -> Result<Option<QuantizedValue>, NetError> {
        match &mut self.quantization {
            Quantization::None => Ok(None),
            Quantization::Collect(tensors) => {
                if !tensors.contains(x) {
                    tensors.push(x.clone());
                }
                Ok(None)
            }
            Quantization::Apply(calibration) => {
                // What is rounded already has no range of its own in the calibration.
                if let Some(known) = self.graph.quantized(x) {
                    return Ok(Some(known));
                }
                let range = calibration.range(x.name())?;
                Ok(Some(self.graph.quantize(x, range)))
            }
        }
    }

    /// The tensor as an integer kernel writes it: rounded if the model is quantized.
    fn rounded(&mut self, x: GraphValue) -> Result<GraphValue, NetError> {
        let quantized = self.quantized(&x)?;
        Ok(quantized.map_or(x, |quantized| quantized.value))
    }

    /// A convolution of the body and the activation behind it, in 8 bits if the model is quantized.
    pub(super) fn body_conv(
        &mut self,
        name: &str,
        x: GraphValue,
        conv: &Conv<'_>,
        activation: Activation,
    ) -> Result<GraphValue, NetError> {
        let y = match self.quantized(&x)? {
            Some(x) => {
                let (weights, biases) = conv.folded()?;
                let dims = [conv.outputs, conv.inputs, conv.kernel, conv.kernel];
                let weights = QuantizedWeights::by_row(&dims, &weights);
                self.graph
                    .quantized_conv(name, &x, &weights, &biases, conv.kernel)
            }
            None => self.conv(name, &x, conv)?,
        };
        // Kernels clip at 0 for free, so a rectified output is quantized after the activation; others before it.
        match activation {
            Activation::Relu => {
                let y = self.graph.activation(name, y, activation);
                self.rounded(y)
            }
            _ => {
                let y = self.rounded(y)?;
                Ok(self.graph.activation(name, y, activation))
            }
        }
    }

    /// A dense layer of the body, in 8 bits if the model is quantized.
    pub(super) fn body_dense(
        &mut self,
        name: &str,
        x: &GraphValue,
        dense: &Dense<'_>,
        scale: f32,
    ) -> Result<GraphValue, NetError> {
        let Some(x) = self.quantized(x)? else {
            return self.dense(name, x, dense, scale);
        };
        let (weights, bias) = dense.decode(scale)?;
        let weights = QuantizedWeights::by_column(&[dense.inputs, dense.outputs], &weights);
        let bias = bias.unwrap_or_else(|| vec![0.0; dense.outputs]);
        Ok(self.graph.quantized_dense(name, &x, &weights, &bias))
    }
}
