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
    weights::{Dense, Norm, Tensor, transpose},
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

/// The last dense layer of a sub-layer, with what follows it; names and parts.
struct LastLayer<'a> {
    dense: (&'a str, &'a Dense<'a>),
    sum: &'a str,
    norm: (&'a str, &'a Norm<'a>),
    /// The factor of the sub-layer's output.
    alpha: f32,
    epsilon: f32,
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
            x = self.feed_forward(
                &x,
                ("/embedding/ffn", ffn),
                self.format.ffn_activation.or(stack.activation),
                ("/embedding/ffn/norm", norm),
                (stack.alpha, WIDE_EPSILON),
            )?;
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
            let features = self.convolutions(stem, planes)?;
            let tokens = self.tokens("/embedding/stem", &features, stem.filters());
            return self.dense_activated("/embedding", &tokens, &body.embedding, activation);
        }
        let last = if self.graph.is_for_kernels() {
            planes
        } else {
            self.graph
                .transpose("/embedding/squares", &planes, &[0, 2, 3, 1])
        };
        let squares = self
            .graph
            .reshape("/embedding/planes", &last, &[-1, BOARD, PLANES as i64]);
        match &body.preprocess {
            Some(preprocess) => {
                self.dense_positions(&squares, preprocess, &body.embedding, activation)
            }
            None => self.mapped_positions(&squares, &body.embedding, activation),
        }
    }

    /// `INPUT_EMBEDDING_PE_DENSE`: besides its planes, each square gets a dense function of all pieces on the board.
    /// The dense layer of both, with its activation, is \[batch x 64, width\].
    fn dense_positions(
        &mut self,
        squares: &GraphValue,
        preprocess: &Dense<'_>,
        embedding: &Dense<'_>,
        activation: Activation,
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
        if self.graph.is_for_runtime() {
            let planes = ("/embedding/squares/tokens", squares, PLANES);
            let extra = ("/embedding/positions/tokens", &positions, extra as usize);
            return self.dense_of_two(planes, extra, embedding, activation);
        }
        let positions = self
            .graph
            .reshape("/embedding/positions", &positions, &[-1, BOARD, extra]);
        let features = self
            .graph
            .concat("/embedding/features", &[squares, &positions], 2);
        let tokens = self.graph.reshape(
            "/embedding/features/tokens",
            &features,
            &[-1, PLANES as i64 + extra],
        );
        self.dense_activated("/embedding", &tokens, embedding, activation)
    }

    /// The embedding of two lists of features without their concatenation: each is given by the name of its tokens, the
    /// value, and its width.
    fn dense_of_two(
        &mut self,
        first: (&str, &GraphValue, usize),
        second: (&str, &GraphValue, usize),
        dense: &Dense<'_>,
        activation: Activation,
    ) -> Result<GraphValue, NetError> {
        let (weights, bias) = dense.decode(1.0)?;
        let outputs = dense.outputs;
        let (first_rows, second_rows) = weights.split_at(first.2 * outputs);
        let mut product = |(name, value, width): (&str, &GraphValue, usize), rows: &[f32]| {
            let tokens = self.graph.reshape(name, value, &[-1, width as i64]);
            let dims = [width, outputs];
            let weights = self.graph.floats(&format!("{name}/weights"), &dims, rows);
            self.graph
                .matmul(&format!("{name}/matmul"), &tokens, &weights)
        };
        let (first, second) = (product(first, first_rows), product(second, second_rows));
        let bias = bias.unwrap_or_else(|| vec![0.0; outputs]);
        let bias = self.graph.floats("/embedding/bias", &[outputs], &bias);
        if self.graph.is_for_kernels() {
            let parts = [&first, &second];
            return Ok(self
                .graph
                .bias_sum_activation("/embedding", parts, &bias, activation));
        }
        let sum = self.graph.add("/embedding/sum", &first, &second);
        let sum = self.graph.add("/embedding", &sum, &bias);
        Ok(self.graph.activation("/embedding", sum, activation))
    }

    /// `INPUT_EMBEDDING_PE_MAP`: besides its planes, each square has 64 constant inputs. Their dense layer gives a
    /// constant bias per square, so the inputs themselves are not in the graph.
    fn mapped_positions(
        &mut self,
        squares: &GraphValue,
        dense: &Dense<'_>,
        activation: Activation,
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
        let product = self.graph.matmul("/embedding/matmul", squares, &weights);
        if self.graph.is_for_kernels() {
            // A board is one row.
            let row = SQUARES * width;
            let rows = self
                .graph
                .reshape("/embedding/rows", &product, &[-1, row as i64]);
            let y = self.biased("/embedding", &rows, &per_square, activation);
            let board = [-1, BOARD, width as i64];
            return Ok(self.graph.reshape("/embedding/activated", &y, &board));
        }
        let bias = self
            .graph
            .floats("/embedding/bias", &[SQUARES, width], &per_square);
        let sum = self.graph.add("/embedding", &product, &bias);
        Ok(self.graph.activation("/embedding", sum, activation))
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
        let output = LastLayer {
            dense: (&format!("{name}/output"), &encoder.output),
            sum: &format!("{name}/sum"),
            norm: (&format!("{name}/norm1"), &encoder.norm1),
            alpha: stack.alpha,
            epsilon,
        };
        let x = self.normalized_sum(&mixed, &x, &output)?;
        let activation = self.format.ffn_activation.or(stack.activation);
        let norm = (&*format!("{name}/norm2"), &encoder.norm2);
        let ffn = (&*format!("{name}/ffn"), &encoder.ffn);
        self.feed_forward(&x, ffn, activation, norm, (stack.alpha, epsilon))
    }

    /// The end of a sub-layer: the normalised sum of alpha (W x + b) and the shortcut.
    fn normalized_sum(
        &mut self,
        x: &GraphValue,
        shortcut: &GraphValue,
        layer: &LastLayer<'_>,
    ) -> Result<GraphValue, NetError> {
        let (dense_name, dense) = layer.dense;
        let (norm_name, norm) = layer.norm;
        if !self.graph.is_for_runtime() {
            let y = self.body_dense(dense_name, x, dense, layer.alpha)?;
            let sum = self.graph.add(layer.sum, &y, shortcut);
            return self.layer_norm(norm_name, &sum, norm, layer.epsilon);
        }
        let (y, bias) = self.product_and_bias(dense_name, x, dense, layer.alpha)?;
        let bias = bias.map(|bias| {
            let name = format!("{dense_name}/bias");
            self.graph.floats(&name, &[bias.len()], &bias)
        });
        let [gammas, betas] = self.norm_weights(norm_name, norm)?;
        Ok(self.graph.skip_layer_norm(
            norm_name,
            [&y, shortcut],
            bias.as_ref(),
            [&gammas, &betas],
            layer.epsilon,
        ))
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
        if self.graph.is_for_runtime() {
            return self.attention_operator(name, x, encoder, scale);
        }
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

    /// The same as one operator, which also adds the biases of queries, keys and values. The queries' weights and bias
    /// carry `scale`.
    fn attention_operator(
        &mut self,
        name: &str,
        x: &GraphValue,
        encoder: &Encoder<'_>,
        scale: f32,
    ) -> Result<GraphValue, NetError> {
        let model = encoder.query.outputs;
        let parts = [
            ("query", &encoder.query, scale),
            ("key", &encoder.key, 1.0),
            ("value", &encoder.value, 1.0),
        ];
        let (mut boards, mut biases) = (Vec::new(), Vec::new());
        for (part, dense, scale) in parts {
            let name = format!("{name}/{part}");
            let (product, bias) = self.product_and_bias(&name, x, dense, scale)?;
            let dims = [-1, BOARD, model as i64];
            boards.push(
                self.graph
                    .reshape(&format!("{name}/board"), &product, &dims),
            );
            biases.extend(bias.unwrap_or_else(|| vec![0.0; model]));
        }
        let biases = self
            .graph
            .floats(&format!("{name}/bias"), &[biases.len()], &biases);
        let logits = match &encoder.smolgen {
            Some(smolgen) => {
                let heads = encoder.heads as i64;
                Some(self.smolgen(&format!("{name}/smolgen"), x, smolgen, heads)?)
            }
            None => None,
        };
        let mixed = self.graph.multi_head_attention(
            &format!("{name}/mixed"),
            [&boards[0], &boards[1], &boards[2]],
            Some(&biases),
            logits.as_ref(),
            encoder.heads,
        );
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

    /// The normalised sum x + alpha (W2 f(W1 x + b1) + b2); `factors` are alpha and the epsilon of the normalisation.
    fn feed_forward(
        &mut self,
        x: &GraphValue,
        (name, ffn): (&str, &FeedForward<'_>),
        activation: Activation,
        norm: (&str, &Norm<'_>),
        (alpha, epsilon): (f32, f32),
    ) -> Result<GraphValue, NetError> {
        let dense1 = format!("{name}/dense1");
        let hidden = if self.graph.is_for_kernels() {
            self.dense_activated(&dense1, x, &ffn.dense1, activation)?
        } else {
            let hidden = self.body_dense(&dense1, x, &ffn.dense1, 1.0)?;
            self.graph.activation(&dense1, hidden, activation)
        };
        let layer = LastLayer {
            dense: (&format!("{name}/dense2"), &ffn.dense2),
            sum: &format!("{name}/sum"),
            norm,
            alpha,
            epsilon,
        };
        self.normalized_sum(&hidden, x, &layer)
    }
}
