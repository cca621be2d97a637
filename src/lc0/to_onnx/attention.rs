//! Transformer bodies: the embedding of squares, encoder layers, smolgen.
//!
//! Tokens are the 64 squares; between layers they are a matrix \[batch x 64, width\], so that every dense layer is one
//! matrix product. Layers are post-norm; in the body the output of each sub-layer is multiplied by (2 L)^(-1/4), L
//! being the number of encoders, before the shortcut is added ("DeepNet", Wang et al., 2022, in lc0's form).

use super::Emitter;
use crate::lc0::{
    architecture::{AttentionBody, Encoder, FeedForward, PIECE_PLANES, SQUARES, Smolgen},
    error::NetError,
    format::{Activation, EmbeddingFormat, PLANES},
    onnx::graph::GraphValue,
    policy_list::position_encoding,
    weights::{Dense, Tensor, transpose},
};

/// lc0's epsilon of layer normalisation in smolgen and in networks with a dense position embedding.
const WIDE_EPSILON: f32 = 1e-3;
/// lc0's epsilon elsewhere.
const NARROW_EPSILON: f32 = 1e-6;

const BOARD: i64 = SQUARES as i64;

/// Parameters that all encoders of one stack share.
pub(super) struct Stack {
    /// The factor of each sub-layer's output.
    pub(super) alpha: f32,
    /// The activation of feed-forward networks unless the file names one.
    pub(super) activation: Activation,
}

impl Emitter {
    /// \[batch, 112, 8, 8\] to \[batch x 64, width\].
    pub(super) fn attention_body(
        &mut self,
        body: &AttentionBody<'_>,
        planes: GraphValue,
    ) -> Result<GraphValue, NetError> {
        let width = body.width() as i64;
        let stack = Stack {
            alpha: (2.0 * body.encoders.len() as f32).powf(-0.25),
            activation: self.format.default_activation,
        };
        let mut x = self.embedding(body, planes)?;
        if let Some(norm) = &body.embedding_norm {
            x = self.layer_norm("/embedding/norm", &x, norm, WIDE_EPSILON)?;
        }
        if body.multiply_gate.is_some() || body.add_gate.is_some() {
            x = self
                .graph
                .reshape("/embedding/board", &x, &[-1, BOARD, width]);
            if let Some(gate) = &body.multiply_gate {
                let gate = self.gate("/embedding/multiply/gate", gate, body.width())?;
                x = self.graph.mul("/embedding/multiply", &x, &gate);
            }
            if let Some(gate) = &body.add_gate {
                let gate = self.gate("/embedding/add/gate", gate, body.width())?;
                x = self.graph.add("/embedding/add", &x, &gate);
            }
        }
        x = self.graph.reshape("/embedding/tokens", &x, &[-1, width]);
        if let Some((ffn, norm)) = &body.embedding_ffn {
            // This layer always has the default activation.
            let y = self.feed_forward("/embedding/ffn", &x, ffn, stack.activation, stack.alpha)?;
            x = self.layer_norm("/embedding/ffn/norm", &y, norm, WIDE_EPSILON)?;
        }
        for (index, encoder) in body.encoders.iter().enumerate() {
            x = self.encoder(&format!("/encoder{index}"), x, encoder, &stack)?;
        }
        Ok(x)
    }

    /// Features of each square through the first dense layer and activation; \[.., 64, width\] or \[batch x 64,
    /// width\].
    fn embedding(
        &mut self,
        body: &AttentionBody<'_>,
        planes: GraphValue,
    ) -> Result<GraphValue, NetError> {
        let activation = self.format.default_activation;
        if let Some(stem) = &body.stem {
            let board = self.tower(stem, planes)?;
            let tokens = self.board_to_tokens("/embedding/stem", &board, stem.filters());
            return self.dense_activated("/embedding", &tokens, &body.embedding, activation);
        }
        let last = self
            .graph
            .transpose("/embedding/squares", &planes, &[0, 2, 3, 1]);
        let squares = self
            .graph
            .reshape("/embedding/planes", &last, &[-1, BOARD, PLANES as i64]);
        let y = match &body.preprocess {
            Some(preprocess) => {
                let tokens = self.dense_positions(&squares, preprocess)?;
                self.dense("/embedding", &tokens, &body.embedding, 1.0)?
            }
            None => self.mapped_positions(&squares, &body.embedding)?,
        };
        Ok(self.graph.activation("/embedding", y, activation))
    }

    /// `INPUT_EMBEDDING_PE_DENSE`: besides its planes, each square gets a dense function of all pieces on the board.
    fn dense_positions(
        &mut self,
        squares: &GraphValue,
        preprocess: &Dense<'_>,
    ) -> Result<GraphValue, NetError> {
        let extra = (preprocess.outputs / SQUARES) as i64;
        let planes = PIECE_PLANES as i64;
        let pieces = self
            .graph
            .slice("/embedding/pieces", squares, &[(2, 0, planes)]);
        let pieces = self
            .graph
            .reshape("/embedding/pieces/flat", &pieces, &[-1, BOARD * planes]);
        let positions = self.dense("/embedding/preprocess", &pieces, preprocess, 1.0)?;
        let positions = self
            .graph
            .reshape("/embedding/positions", &positions, &[-1, BOARD, extra]);
        let features = self
            .graph
            .concat("/embedding/features", &[squares, &positions], 2);
        Ok(self.graph.reshape(
            "/embedding/features/tokens",
            &features,
            &[-1, PLANES as i64 + extra],
        ))
    }

    /// `INPUT_EMBEDDING_PE_MAP`: besides its planes, each square has 64 constant inputs. Their dense layer gives a
    /// constant bias per square, so the inputs themselves are not in the graph.
    fn mapped_positions(
        &mut self,
        squares: &GraphValue,
        dense: &Dense<'_>,
    ) -> Result<GraphValue, NetError> {
        let width = dense.outputs;
        let (weights, bias) = dense.decode(1.0)?;
        let (planes, positions) = weights.split_at(PLANES * width);
        let mut per_square = bias.unwrap_or_else(|| vec![0.0; width]).repeat(SQUARES);
        for (square, row) in position_encoding().chunks_exact(SQUARES).enumerate() {
            let sums = &mut per_square[square * width..][..width];
            for (&input, weights) in row.iter().zip(positions.chunks_exact(width)) {
                for (sum, weight) in sums.iter_mut().zip(weights).filter(|_| input != 0.0) {
                    *sum += input * weight;
                }
            }
        }
        let weights = self
            .graph
            .floats("/embedding/weights", &[PLANES, width], planes);
        let bias = self
            .graph
            .floats("/embedding/bias", &[SQUARES, width], &per_square);
        let product = self.graph.matmul("/embedding/matmul", squares, &weights);
        Ok(self.graph.add("/embedding", &product, &bias))
    }

    /// A gate as a constant \[64, width\]; the file has it transposed.
    fn gate(
        &mut self,
        name: &str,
        gate: &Tensor<'_>,
        width: usize,
    ) -> Result<GraphValue, NetError> {
        let values = transpose(&gate.decode()?, width, SQUARES);
        Ok(self.graph.floats(name, &[SQUARES, width], &values))
    }

    /// \[batch, channels, 8, 8\] to \[batch x 64, channels\].
    pub(super) fn board_to_tokens(
        &mut self,
        name: &str,
        board: &GraphValue,
        channels: usize,
    ) -> GraphValue {
        let last = self
            .graph
            .transpose(&format!("{name}/squares"), board, &[0, 2, 3, 1]);
        self.graph
            .reshape(&format!("{name}/tokens"), &last, &[-1, channels as i64])
    }

    /// One transformer layer on \[batch x 64, width\].
    pub(super) fn encoder(
        &mut self,
        name: &str,
        x: GraphValue,
        encoder: &Encoder<'_>,
        stack: &Stack,
    ) -> Result<GraphValue, NetError> {
        let epsilon = match self.format.embedding {
            EmbeddingFormat::PositionDense => WIDE_EPSILON,
            _ => NARROW_EPSILON,
        };
        let mixed = self.attention(&format!("{name}/attention"), &x, encoder)?;
        let output = self.body_dense(
            &format!("{name}/output"),
            &mixed,
            &encoder.output,
            stack.alpha,
        )?;
        let sum = self.graph.add(&format!("{name}/sum"), &output, &x);
        let x = self.layer_norm(&format!("{name}/norm1"), &sum, &encoder.norm1, epsilon)?;
        let activation = self.format.ffn_activation.or(stack.activation);
        let y = self.feed_forward(
            &format!("{name}/ffn"),
            &x,
            &encoder.ffn,
            activation,
            stack.alpha,
        )?;
        self.layer_norm(&format!("{name}/norm2"), &y, &encoder.norm2, epsilon)
    }

    /// Multi-head attention without its output layer (Vaswani et al., 2017): softmax(Q K^T / sqrt(depth) + S) V, where
    /// S comes from smolgen. The queries' weights carry the factor.
    fn attention(
        &mut self,
        name: &str,
        x: &GraphValue,
        encoder: &Encoder<'_>,
    ) -> Result<GraphValue, NetError> {
        let model = encoder.query.outputs;
        let depth = model / encoder.heads;
        let heads = encoder.heads as i64;
        let scale = 1.0 / (depth as f32).sqrt();
        let mut split = |part: &str, dense: &Dense<'_>, scale: f32, order: [i64; 4]| {
            let name = format!("{name}/{part}");
            let y = self.body_dense(&name, x, dense, scale)?;
            let dims = [-1, BOARD, heads, depth as i64];
            let y = self.graph.reshape(&format!("{name}/heads"), &y, &dims);
            Ok::<_, NetError>(
                self.graph
                    .transpose(&format!("{name}/transposed"), &y, &order),
            )
        };
        let query = split("query", &encoder.query, scale, [0, 2, 1, 3])?;
        let key = split("key", &encoder.key, 1.0, [0, 2, 3, 1])?;
        let value = split("value", &encoder.value, 1.0, [0, 2, 1, 3])?;
        let mut scores = self.graph.matmul(&format!("{name}/scores"), &query, &key);
        if let Some(smolgen) = &encoder.smolgen {
            let generated = self.smolgen(&format!("{name}/smolgen"), x, smolgen, heads)?;
            scores = self
                .graph
                .add(&format!("{name}/logits"), &scores, &generated);
        }
        let shares = self.graph.softmax(&format!("{name}/softmax"), &scores);
        let mixed = self.graph.matmul(&format!("{name}/mixed"), &shares, &value);
        let mixed = self
            .graph
            .transpose(&format!("{name}/mixed/squares"), &mixed, &[0, 2, 1, 3]);
        Ok(self
            .graph
            .reshape(&format!("{name}/mixed/tokens"), &mixed, &[-1, model as i64]))
    }

    /// Attention logits \[batch, heads, 64, 64\] from the whole board.
    fn smolgen(
        &mut self,
        name: &str,
        x: &GraphValue,
        smolgen: &Smolgen<'_>,
        heads: i64,
    ) -> Result<GraphValue, NetError> {
        let activation = self.format.smolgen_activation;
        let generated = smolgen.generator.inputs as i64;
        let y = self.dense(&format!("{name}/compress"), x, &smolgen.compress, 1.0)?;
        let board = BOARD * smolgen.compress.outputs as i64;
        let y = self
            .graph
            .reshape(&format!("{name}/board"), &y, &[-1, board]);
        let y = self.dense_activated(&format!("{name}/dense1"), &y, &smolgen.dense1, activation)?;
        let y = self.layer_norm(&format!("{name}/norm1"), &y, &smolgen.norm1, WIDE_EPSILON)?;
        let y = self.dense_activated(&format!("{name}/dense2"), &y, &smolgen.dense2, activation)?;
        let y = self.layer_norm(&format!("{name}/norm2"), &y, &smolgen.norm2, WIDE_EPSILON)?;
        let y = self
            .graph
            .reshape(&format!("{name}/generators"), &y, &[-1, generated]);
        // One matrix for all layers: it is decoded and stored once.
        let shared = match self.graph.constant("/smolgen/weights") {
            Some(shared) => shared,
            None => {
                let dims = [smolgen.generator.inputs, smolgen.generator.outputs];
                let (weights, _) = smolgen.generator.decode(1.0)?;
                self.graph.floats("/smolgen/weights", &dims, &weights)
            }
        };
        let y = self.graph.matmul(&format!("{name}/generated"), &y, &shared);
        Ok(self
            .graph
            .reshape(&format!("{name}/logits"), &y, &[-1, heads, BOARD, BOARD]))
    }

    /// x + alpha (W2 f(W1 x + b1) + b2)
    fn feed_forward(
        &mut self,
        name: &str,
        x: &GraphValue,
        ffn: &FeedForward<'_>,
        activation: Activation,
        alpha: f32,
    ) -> Result<GraphValue, NetError> {
        let dense1 = format!("{name}/dense1");
        let hidden = self.body_dense(&dense1, x, &ffn.dense1, 1.0)?;
        let hidden = self.graph.activation(&dense1, hidden, activation);
        let y = self.body_dense(&format!("{name}/dense2"), &hidden, &ffn.dense2, alpha)?;
        Ok(self.graph.add(&format!("{name}/sum"), &y, x))
    }
}
