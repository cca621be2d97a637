//! Boards with their channels last, \[batch, 8, 8, channels\], for Scorn's own operators ([`Operators::Scorn`]): a
//! convolution, and one operator for all that stands between it and the next.
//!
//! [`Operators::Scorn`]: crate::lc0::Operators::Scorn

use super::{BodyOutput, Emitter};
use crate::lc0::{
    architecture::{Policy, Residual, SQUARES, SqueezeExcite, Tower},
    error::NetError,
    format::Activation,
    model::{KernelModel, tensor_name},
    onnx::graph::GraphValue,
    policy_list::{POLICY_SIZE, convolution_indices},
    weights::{Conv, Dense, transpose},
};

impl Emitter {
    /// \[batch, 8, 8, 112\] to \[batch, 8, 8, filters\].
    pub(super) fn tower_of_squares(
        &mut self,
        tower: &Tower<'_>,
        planes: GraphValue,
    ) -> Result<GraphValue, NetError> {
        let activation = self.format.default_activation;
        let mut x = self.conv_of_squares("/input/conv", &planes, &tower.input, activation)?;
        for (index, block) in tower.blocks.iter().enumerate() {
            x = self.residual_of_squares(&format!("/block{index}"), x, block)?;
        }
        Ok(x)
    }

    fn residual_of_squares(
        &mut self,
        name: &str,
        x: GraphValue,
        block: &Residual<'_>,
    ) -> Result<GraphValue, NetError> {
        let activation = self.format.default_activation;
        let y = self.conv_of_squares(&format!("{name}/conv1"), &x, &block.conv1, activation)?;
        let (y, bias) = self.product_of_squares(&format!("{name}/conv2"), &y, &block.conv2)?;
        let Some(unit) = &block.squeeze_excite else {
            let parts = [&y, &x];
            return Ok(self
                .graph
                .bias_sum_activation(name, parts, &bias, activation));
        };
        let SqueezeExcite { squeeze, excite } = unit;
        let squeeze = self.layer(&format!("{name}/se/squeeze"), squeeze)?;
        let excite = self.layer(&format!("{name}/se/excite"), excite)?;
        Ok(self.graph.squeeze_excite(
            name,
            [&y, &x],
            &bias,
            [&squeeze[0], &squeeze[1]],
            [&excite[0], &excite[1]],
            activation,
        ))
    }

    /// The weights \[inputs, outputs\] and biases of a dense layer.
    fn layer(&mut self, name: &str, dense: &Dense<'_>) -> Result<[GraphValue; 2], NetError> {
        let (weights, bias) = dense.decode(1.0)?;
        let bias = bias.unwrap_or_else(|| vec![0.0; dense.outputs]);
        let dims = [dense.inputs, dense.outputs];
        Ok([
            self.graph
                .floats(&format!("{name}/weights"), &dims, &weights),
            self.graph
                .floats(&format!("{name}/bias"), &dims[1..], &bias),
        ])
    }

    /// A convolution and an activation.
    pub(super) fn conv_of_squares(
        &mut self,
        name: &str,
        x: &GraphValue,
        conv: &Conv<'_>,
        activation: Activation,
    ) -> Result<GraphValue, NetError> {
        let (product, bias) = self.product_of_squares(name, x, conv)?;
        Ok(self
            .graph
            .bias_activation(name, &product, &bias, activation))
    }

    /// A convolution without its bias, and the bias. One of single squares is a product of matrices.
    fn product_of_squares(
        &mut self,
        name: &str,
        x: &GraphValue,
        conv: &Conv<'_>,
    ) -> Result<(GraphValue, GraphValue), NetError> {
        let (weights, biases) = conv.folded()?;
        let (inputs, outputs, kernel) = (conv.inputs, conv.outputs, conv.kernel);
        let bias = self
            .graph
            .floats(&format!("{name}/bias"), &[outputs], &biases);
        let product = format!("{name}/product");
        let weights_name = format!("{name}/weights");
        if kernel > 1 {
            let dims = [outputs, inputs, kernel, kernel];
            let weights = self.graph.floats(&weights_name, &dims, &weights);
            let product = self.graph.conv_of_board(&product, x, &weights, kernel);
            return Ok((product, bias));
        }
        let weights = transpose(&weights, outputs, inputs);
        let weights = self
            .graph
            .floats(&weights_name, &[inputs, outputs], &weights);
        Ok((self.graph.matmul(&product, x, &weights), bias))
    }

    /// A dense layer and an activation over a board of `channels` channels, whose channels the layer expects first.
    pub(super) fn dense_of_board(
        &mut self,
        (name, dense): (&str, &Dense<'_>),
        x: &GraphValue,
        channels: usize,
        activation: Activation,
    ) -> Result<GraphValue, NetError> {
        let flat = [-1, (channels * SQUARES) as i64];
        let flat = self.graph.reshape(&format!("{name}/flat"), x, &flat);
        let (weights, bias) = dense.decode(1.0)?;
        let rows = (0..SQUARES).flat_map(|square| {
            let row = move |channel| channel * SQUARES + square;
            (0..channels).map(row)
        });
        let row = |row: usize| weights[row * dense.outputs..][..dense.outputs].iter();
        let weights: Vec<f32> = rows.flat_map(row).copied().collect();
        let dims = [dense.inputs, dense.outputs];
        let weights = self
            .graph
            .floats(&format!("{name}/weights"), &dims, &weights);
        let bias = bias.unwrap_or_else(|| vec![0.0; dense.outputs]);
        let product = self
            .graph
            .matmul(&format!("{name}/matmul"), &flat, &weights);
        Ok(self.biased(name, &product, &bias, activation))
    }

    /// Writes the policy head, whose output is the logits in the network's own order; returns the output's name and the
    /// places of the policy vector's entries.
    pub(super) fn raw_policy(
        &mut self,
        policy: &Policy<'_>,
        features: &BodyOutput,
    ) -> Result<(String, KernelModel), NetError> {
        let activation = self.format.default_activation;
        let in_order = || (0..POLICY_SIZE as i32).collect();
        let output = tensor_name::POLICY;
        let (logits, count, policy_places) = match (policy, features) {
            (Policy::Attention(head), features) => {
                let parts = self.attention_policy(head, features)?;
                (
                    self.attention_entries(output, parts),
                    POLICY_SIZE,
                    in_order(),
                )
            }
            (Policy::Convolution { conv1, conv2 }, BodyOutput::Squares(squares)) => {
                let y = self.conv_of_squares("/policy/conv1", squares, conv1, activation)?;
                let y = self.conv_of_squares("/policy/conv2", &y, conv2, Activation::None)?;
                let count = conv2.outputs * SQUARES;
                let logits = self.graph.reshape(output, &y, &[-1, count as i64]);
                let place = |index: usize| index % SQUARES * conv2.outputs + index / SQUARES;
                let places = convolution_indices().into_iter().map(place);
                (logits, count, places.map(|place| place as i32).collect())
            }
            (Policy::Classical { conv, dense }, BodyOutput::Squares(squares)) => {
                let y = self.conv_of_squares("/policy/conv", squares, conv, activation)?;
                let layer = (output, dense);
                let logits = self.dense_of_board(layer, &y, conv.outputs, Activation::None)?;
                (logits, POLICY_SIZE, in_order())
            }
            _ => return Err(NetError::missing("a board for the policy's convolutions")),
        };
        self.graph.raw_output(&logits, self.batch, &[count]);
        Ok((logits.name().to_owned(), KernelModel { policy_places }))
    }
}
