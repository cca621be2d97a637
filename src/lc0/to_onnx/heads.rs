//! Policy, value and moves-left heads.

use super::{BodyOutput, Emitter, attention::Stack};
use crate::lc0::{
    architecture::{AttentionPolicy, HeadInput, Policy, SQUARES, ScalarHead},
    error::NetError,
    format::{Activation, ValueFormat},
    model::tensor_name,
    onnx::graph::{GraphValue, Precision},
    policy_list::{POLICY_SIZE, attention_indices, convolution_indices},
    weights::Dense,
};

const BOARD: i64 = SQUARES as i64;

impl Emitter {
    /// Writes the policy head and returns the name of its output: logits of the 1858 moves.
    pub(super) fn policy(
        &mut self,
        policy: &Policy<'_>,
        features: &BodyOutput,
    ) -> Result<String, NetError> {
        let output = tensor_name::POLICY;
        let name = match self.graph.precision() {
            Precision::Float32 => output,
            _ => "/policy/logits",
        };
        let logits = match (policy, features) {
            (Policy::Attention(head), features) => {
                let parts = self.attention_policy(head, features)?;
                self.attention_entries(name, parts)
            }
            (
                Policy::Convolution { conv1, conv2 },
                BodyOutput::Board(board) | BodyOutput::Tokens(board),
            ) => {
                let y = self.conv_activated("/policy/conv1", board, conv1)?;
                let y = self.conv("/policy/conv2", &y, conv2)?;
                let all = (conv2.outputs * SQUARES) as i64;
                let all = self.graph.reshape("/policy/flat", &y, &[-1, all]);
                self.policy_entries(name, &all, &convolution_indices())
            }
            (
                Policy::Classical { conv, dense },
                BodyOutput::Board(board) | BodyOutput::Tokens(board),
            ) => {
                let y = self.conv_activated("/policy/conv", board, conv)?;
                let y = self
                    .graph
                    .reshape("/policy/flat", &y, &[-1, dense.inputs as i64]);
                self.dense(name, &y, dense, 1.0)?
            }
            // Those have their policies from `raw_policy`.
            (_, BodyOutput::Squares(_)) => return Err(NetError::missing("a board for the policy")),
        };
        let logits = self.graph.widen(output, logits);
        self.graph.output(&logits, self.batch, &[POLICY_SIZE]);
        Ok(logits.name().to_owned())
    }

    /// The entries of a raw policy output in the order of the policy vector.
    fn policy_entries(&mut self, name: &str, all: &GraphValue, indices: &[usize]) -> GraphValue {
        let indices: Vec<i64> = indices.iter().map(|&index| index as i64).collect();
        let indices = self.graph.integers("/policy/indices", &indices);
        self.graph.gather(name, all, &indices)
    }

    /// The entries of an attention policy's moves and promotions in the order of the policy vector.
    pub(super) fn attention_entries(
        &mut self,
        name: &str,
        [scores, promotions]: [GraphValue; 2],
    ) -> GraphValue {
        let indices = attention_indices();
        if !self.graph.is_for_runtime() {
            let all = self.graph.concat("/policy/all", &[&scores, &promotions], 1);
            return self.policy_entries(name, &all, &indices);
        }
        let plain = SQUARES * SQUARES;
        let is_promotion: Vec<bool> = indices.iter().map(|&index| index >= plain).collect();
        let is_promotion = self.graph.booleans("/policy/is_promotion", &is_promotion);
        // Where the other part has the entry, any index will do.
        let mut part = |part: &str, all: &GraphValue, index: &dyn Fn(usize) -> Option<usize>| {
            let indices = indices.iter().map(|&at| index(at).unwrap_or(0) as i64);
            let indices: Vec<i64> = indices.collect();
            let indices = self
                .graph
                .integers(&format!("/policy/{part}/indices"), &indices);
            self.graph
                .gather(&format!("/policy/{part}/entries"), all, &indices)
        };
        let promoted = part("promotion", &promotions, &|at| at.checked_sub(plain));
        let others = part("plain", &scores, &|at| (at < plain).then_some(at));
        self.graph.choose(name, &is_promotion, &promoted, &others)
    }

    /// \[batch, 4096\], q . k / sqrt(width) for all pairs of squares, and \[batch, 192\], the promotions: the score of
    /// the pawn's move plus that of the promotion piece on the target square.
    pub(super) fn attention_policy(
        &mut self,
        head: &AttentionPolicy<'_>,
        features: &BodyOutput,
    ) -> Result<[GraphValue; 2], NetError> {
        // In networks older than attention bodies, attention policies had an activation of their own.
        let activation = if self.format.structure.is_attention() {
            self.format.default_activation
        } else {
            Activation::Selu
        };
        let tokens = self.tokens("/policy/board", features, head.embedding.inputs);
        let mut x =
            self.dense_activated("/policy/embedding", &tokens, &head.embedding, activation)?;
        for (index, encoder) in head.encoders.iter().enumerate() {
            let stack = Stack {
                alpha: 1.0,
                activation,
            };
            x = self.encoder(&format!("/policy/encoder{index}"), x, encoder, &stack)?;
        }
        let width = head.query.outputs as i64;
        let scale = 1.0 / (width as f32).sqrt();
        let query = self.dense("/policy/query", &x, &head.query, scale)?;
        let query = self
            .graph
            .reshape("/policy/query/board", &query, &[-1, BOARD, width]);
        let key = self.dense("/policy/key", &x, &head.key, 1.0)?;
        let key = self
            .graph
            .reshape("/policy/key/board", &key, &[-1, BOARD, width]);
        let transposed = self
            .graph
            .transpose("/policy/key/transposed", &key, &[0, 2, 1]);
        let scores = self.graph.matmul("/policy/scores", &query, &transposed);
        let promotions = self.promotions(&key, &scores, &head.promotion)?;
        let scores = self
            .graph
            .reshape("/policy/scores/flat", &scores, &[-1, BOARD * BOARD]);
        Ok([scores, promotions])
    }

    /// \[batch, 8 x 8 x 3\]: origin file, target file, piece.
    fn promotions(
        &mut self,
        key: &GraphValue,
        scores: &GraphValue,
        promotion: &Dense<'_>,
    ) -> Result<GraphValue, NetError> {
        // Rows of the weights: queen, rook, bishop, and one common to all three, which is added to each here.
        let width = promotion.inputs;
        let rows = promotion.weights.decode()?;
        let (pieces, common) = rows.split_at(3 * width);
        let weights: Vec<f32> = (0..width)
            .flat_map(|i| (0..3).map(move |piece| (i, piece)))
            .map(|(i, piece)| pieces[piece * width + i] + common[i])
            .collect();
        let weights = self
            .graph
            .floats("/policy/promotion/weights", &[width, 3], &weights);
        let targets = self
            .graph
            .slice("/policy/promotion/targets", key, &[(1, 56, 64)]);
        let offsets = self
            .graph
            .matmul("/policy/promotion/offsets", &targets, &weights);
        let offsets =
            self.graph
                .reshape("/policy/promotion/offsets/pieces", &offsets, &[-1, 1, 8, 3]);
        let pawns = self.graph.slice(
            "/policy/promotion/pawns",
            scores,
            &[(1, 48, 56), (2, 56, 64)],
        );
        let pawns = self
            .graph
            .reshape("/policy/promotion/pawns/pieces", &pawns, &[-1, 8, 8, 1]);
        let sum = self.graph.add("/policy/promotion/sum", &pawns, &offsets);
        Ok(self.graph.reshape("/policy/promotion", &sum, &[-1, 192]))
    }

    /// Writes the value head and returns the names of its outputs: win/draw/loss or value.
    pub(super) fn value(
        &mut self,
        head: &ScalarHead<'_>,
        features: &BodyOutput,
    ) -> Result<(Option<String>, Option<String>), NetError> {
        let logits = self.scalar_head("/value", head, features)?;
        Ok(match self.format.value {
            ValueFormat::Wdl => {
                let wdl = self.graph.softmax(tensor_name::WDL, &logits);
                self.graph.output(&wdl, self.batch, &[3]);
                (Some(wdl.name().to_owned()), None)
            }
            ValueFormat::Classical => {
                let value = self.graph.tanh(tensor_name::VALUE, &logits);
                self.graph.output(&value, self.batch, &[1]);
                (None, Some(value.name().to_owned()))
            }
        })
    }

    /// Writes the moves-left head and returns the name of its output: plies left, never negative.
    pub(super) fn moves_left(
        &mut self,
        head: &ScalarHead<'_>,
        features: &BodyOutput,
    ) -> Result<String, NetError> {
        let plies = self.scalar_head("/mlh", head, features)?;
        let plies = self.graph.relu(tensor_name::MLH, &plies);
        self.graph.output(&plies, self.batch, &[1]);
        Ok(plies.name().to_owned())
    }

    /// The body's output reduced, flattened, and through two dense layers; the result is float32.
    fn scalar_head(
        &mut self,
        name: &str,
        head: &ScalarHead<'_>,
        features: &BodyOutput,
    ) -> Result<GraphValue, NetError> {
        let activation = self.format.default_activation;
        let hidden = match (&head.input, features) {
            (HeadInput::Conv(conv), BodyOutput::Squares(squares)) => {
                let narrow =
                    self.conv_of_squares(&format!("{name}/conv"), squares, conv, activation)?;
                let dense1 = (&*format!("{name}/dense1"), &head.dense1);
                self.dense_of_board(dense1, &narrow, conv.outputs, activation)?
            }
            (HeadInput::Conv(conv), BodyOutput::Board(x) | BodyOutput::Tokens(x)) => {
                let narrow = self.conv_activated(&format!("{name}/conv"), x, conv)?;
                self.flat_dense(name, &narrow, &head.dense1, activation)?
            }
            (
                HeadInput::Dense(dense),
                BodyOutput::Board(x) | BodyOutput::Tokens(x) | BodyOutput::Squares(x),
            ) => {
                let narrow =
                    self.dense_activated(&format!("{name}/embedding"), x, dense, activation)?;
                self.flat_dense(name, &narrow, &head.dense1, activation)?
            }
        };
        // The last layer is small and its output is what the search uses: always float32.
        let hidden = self.graph.widen(&format!("{name}/wide"), hidden);
        let precision = self.graph.set_precision(Precision::Float32);
        let y = self.dense(&format!("{name}/dense2"), &hidden, &head.dense2, 1.0);
        self.graph.set_precision(precision);
        y
    }

    /// The first dense layer of a head over all that its input holds of a position.
    fn flat_dense(
        &mut self,
        name: &str,
        x: &GraphValue,
        dense: &Dense<'_>,
        activation: Activation,
    ) -> Result<GraphValue, NetError> {
        let flat = self
            .graph
            .reshape(&format!("{name}/flat"), x, &[-1, dense.inputs as i64]);
        self.dense_activated(&format!("{name}/dense1"), &flat, dense, activation)
    }
}
