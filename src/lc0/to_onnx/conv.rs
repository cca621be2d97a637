//! Convolutional bodies: residual blocks, with squeeze-and-excite where the file has it (Hu et al., 2018, with a shift
//! beside the scale).

use super::Emitter;
use crate::lc0::{
    architecture::{Residual, SqueezeExcite, Tower},
    error::NetError,
    format::Activation,
    onnx::graph::GraphValue,
    weights::Conv,
};

impl Emitter {
    /// \[batch, 112, 8, 8\] to \[batch, filters, 8, 8\].
    pub(super) fn tower(
        &mut self,
        tower: &Tower<'_>,
        planes: GraphValue,
    ) -> Result<GraphValue, NetError> {
        let mut x = self.conv_activated("/input/conv", &planes, &tower.input)?;
        for (index, block) in tower.blocks.iter().enumerate() {
            x = self.residual(&format!("/block{index}"), x, block)?;
        }
        Ok(x)
    }

    fn residual(
        &mut self,
        name: &str,
        x: GraphValue,
        block: &Residual<'_>,
    ) -> Result<GraphValue, NetError> {
        let activation = self.format.default_activation;
        let y = self.body_conv(
            &format!("{name}/conv1"),
            x.clone(),
            &block.conv1,
            activation,
        )?;
        let mut y = self.body_conv(&format!("{name}/conv2"), y, &block.conv2, Activation::None)?;
        if let Some(unit) = &block.squeeze_excite {
            y = self.squeeze_excite(&format!("{name}/se"), y, unit)?;
        }
        let sum = self.graph.add(&format!("{name}/sum"), &y, &x);
        Ok(self.graph.activation(name, sum, activation))
    }

    /// sigmoid(gamma) y + beta, with gamma and beta computed from the means over the board.
    fn squeeze_excite(
        &mut self,
        name: &str,
        y: GraphValue,
        unit: &SqueezeExcite<'_>,
    ) -> Result<GraphValue, NetError> {
        let filters = unit.squeeze.inputs as i64;
        let pooled = self.graph.global_average_pool(&format!("{name}/pool"), &y);
        let pooled = self
            .graph
            .reshape(&format!("{name}/flat"), &pooled, &[-1, filters]);
        let hidden = self.dense_activated(
            &format!("{name}/squeeze"),
            &pooled,
            &unit.squeeze,
            self.format.default_activation,
        )?;
        let excited = self.dense(&format!("{name}/excite"), &hidden, &unit.excite, 1.0)?;
        let excited = self.graph.reshape(
            &format!("{name}/channels"),
            &excited,
            &[-1, 2 * filters, 1, 1],
        );
        let (gammas, betas) = self.graph.halves(&format!("{name}/halves"), &excited);
        let gammas = self.graph.sigmoid(&format!("{name}/gammas"), &gammas);
        let scaled = self.graph.mul(&format!("{name}/scaled"), &y, &gammas);
        Ok(self.graph.add(&format!("{name}/shifted"), &scaled, &betas))
    }

    /// A convolution with its normalisation folded in.
    pub(super) fn conv(
        &mut self,
        name: &str,
        x: &GraphValue,
        conv: &Conv<'_>,
    ) -> Result<GraphValue, NetError> {
        let (weights, biases) = conv.folded()?;
        let dims = [conv.outputs, conv.inputs, conv.kernel, conv.kernel];
        let weights = self
            .graph
            .floats(&format!("{name}/weights"), &dims, &weights);
        let biases = self
            .graph
            .floats(&format!("{name}/bias"), &[conv.outputs], &biases);
        Ok(self.graph.conv(name, x, &weights, &biases, conv.kernel))
    }

    /// A convolution and the network's activation.
    pub(super) fn conv_activated(
        &mut self,
        name: &str,
        x: &GraphValue,
        conv: &Conv<'_>,
    ) -> Result<GraphValue, NetError> {
        let y = self.conv(name, x, conv)?;
        Ok(self
            .graph
            .activation(name, y, self.format.default_activation))
    }
}
