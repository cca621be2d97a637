//! The inputs and outputs of a network: the one place that defines how many planes there are, which of them hold
//! numbers, and what the policy vector lists. Another family of networks is another variant here.

use super::{
    alphazero,
    encoder::{RULE50_PLANE, encode, swap},
    planes::{Inputs, Orientation, PLANES, PlaneLayout},
    policy_map::{self, POLICY_SIZE},
};
use shakmaty::{Chess, Position};

use crate::{
    chess::{PackedMove, Ply},
    lc0::{AlphaZeroMoves, InputFormat, OnnxModel},
    options::HistoryFill,
    sparse::{
        self,
        attacks::Attacks,
        classes::MoveClasses,
        features::{ActiveFeatures, InputSet, SquareView},
        history::Past,
        moves::{MoveRows, RowBuffer, Rows, row_count},
    },
};

/// The encoding of positions and moves that a network was trained with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// lc0's 112 planes, in one of its formats, and its list of 1858 moves.
    Lc0(InputFormat),
    /// AlphaZero's 119 planes and 8 x 8 x 73 moves ([`alphazero`]).
    AlphaZero(AlphaZeroMoves),
    /// These inputs of a sparse network, 64 to a plane, and its rows of moves ([`crate::sparse`]).
    Sparse(InputSet),
}

impl Encoding {
    /// The encoding of a model.
    pub fn of(model: &OnnxModel) -> Encoding {
        match (model.sparse, model.alphazero) {
            (Some(model), _) => Encoding::Sparse(model.into()),
            (None, Some(order)) => Encoding::AlphaZero(order),
            (None, None) => Encoding::Lc0(model.input_format),
        }
    }

    /// The layout of its planes.
    pub fn layout(self) -> PlaneLayout {
        match self {
            Encoding::Lc0(_) => PlaneLayout {
                planes: PLANES,
                scalar_planes: &[RULE50_PLANE],
            },
            Encoding::AlphaZero(_) => PlaneLayout {
                planes: alphazero::PLANES,
                scalar_planes: alphazero::SCALAR_PLANES,
            },
            Encoding::Sparse(set) => PlaneLayout {
                planes: set.planes(),
                scalar_planes: &[],
            },
        }
    }

    /// The layout of its policy vector.
    pub fn policy(self) -> PolicyLayout {
        match self {
            Encoding::Lc0(_) => PolicyLayout::Lc0Moves,
            Encoding::AlphaZero(_) => PolicyLayout::AlphaZeroMoves,
            Encoding::Sparse(set) => PolicyLayout::SparseRows(set),
        }
    }

    /// Adds the last position of a line (see [`encode`]) to the inputs of a batch, with the entries of its legal moves
    /// in the policy vector. With `swap_colors` White is seen as Black and Black as White, the board turned with them.
    pub fn encode(
        self,
        line: &[Ply],
        moves: &[PackedMove],
        (fill, swap_colors): (HistoryFill, bool),
        inputs: &mut Inputs,
    ) {
        match self {
            Encoding::Lc0(format) => {
                let mut planes = encode(line, format, fill);
                if swap_colors {
                    swap(&mut planes, format);
                }
                let orientation = Orientation {
                    black_to_move: planes.black_to_move,
                    transform: planes.transform,
                };
                inputs.push(&planes.masks, &[planes.rule50], orientation);
                let (black, transform) = (planes.black_to_move, planes.transform);
                let entry = |&m: &PackedMove| policy_map::index(m, black, transform) as u16;
                inputs.push_rows(moves.iter().map(entry));
            }
            Encoding::AlphaZero(order) => {
                let mut planes = alphazero::encode(line, fill);
                if swap_colors {
                    alphazero::swap(&mut planes);
                }
                inputs.push(&planes.masks, &planes.scalars, Orientation::default());
                if let Some(Ply { position, .. }) = line.last() {
                    let row = |m: &PackedMove| alphazero::row(position, m.unpack(position), order);
                    inputs.push_rows(moves.iter().map(row));
                }
            }
            Encoding::Sparse(set) => encode_sparse(set, line, moves, inputs),
        }
    }
}

/// Adds the last position of a line as a sparse network with these inputs sees it, and the rows of its moves.
fn encode_sparse(set: InputSet, line: &[Ply], moves: &[PackedMove], inputs: &mut Inputs) {
    let Some(Ply { position, .. }) = line.last() else {
        return;
    };
    let (view, attacks) = (SquareView::of(position), Attacks::of(position));
    let past = sparse_past(set, line);
    let features = sparse_features(set, position, view, &attacks, &past);
    inputs.push(&features.masks(set), &[], Orientation::default());
    let rows = Rows::new(set, position, view, &attacks, &past);
    let mut buffer = RowBuffer::default();
    let rows = rows.of_moves(moves.iter().map(|m| m.unpack(position)), &mut buffer);
    inputs.push_rows(rows.entries());
}

/// What a sparse network with these inputs sees of the positions before the last one of a line.
pub fn sparse_past(set: InputSet, line: &[Ply]) -> Past {
    let [before @ .., Ply { position, .. }] = line else {
        return Past::default();
    };
    if !set.has_history() {
        return Past::default();
    }
    let boards = before.iter().rev().map(|ply| ply.position.board());
    Past::of_boards(position, boards)
}

/// The active inputs of a sparse network for a position, given its view, its attacks and what was before.
pub fn sparse_features(
    set: InputSet,
    position: &Chess,
    view: SquareView,
    attacks: &Attacks,
    past: &Past,
) -> ActiveFeatures {
    let mut features = ActiveFeatures::with(position, view, attacks);
    features.push_past(set, view, past);
    features
}

/// The meaning of the entries of a policy vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyLayout {
    /// lc0's 1858 moves; see [`policy_map`].
    Lc0Moves,
    /// AlphaZero's 8 x 8 x 73, in whichever order; see [`alphazero`].
    AlphaZeroMoves,
    /// A row for each move that a piece can make, twice, and those of classes of moves, if a network with these inputs
    /// has them; see [`crate::sparse::moves`].
    SparseRows(InputSet),
}

impl PolicyLayout {
    /// Entries of the vector.
    pub fn size(self) -> usize {
        match self {
            PolicyLayout::Lc0Moves => POLICY_SIZE,
            PolicyLayout::AlphaZeroMoves => alphazero::POLICY_SIZE,
            PolicyLayout::SparseRows(set) => row_count(set),
        }
    }

    /// Whether the logit of a move is one entry of the vector.
    pub fn has_entry_per_move(self) -> bool {
        match self {
            PolicyLayout::Lc0Moves | PolicyLayout::AlphaZeroMoves => true,
            PolicyLayout::SparseRows(set) => set.classes() == MoveClasses::None,
        }
    }

    /// Probabilities of the moves with these rows (then those of their classes, if there are any), in their order, from
    /// a policy vector; see [`policy_map::softmax`].
    pub fn probabilities(
        self,
        logits: &[f32],
        rows: &[u16],
        temperature: f32,
        out: &mut [f32],
    ) -> bool {
        match self {
            PolicyLayout::Lc0Moves => policy_map::softmax(logits, rows, temperature, out),
            PolicyLayout::SparseRows(_) | PolicyLayout::AlphaZeroMoves => {
                let of_moves = MoveRows::of(rows, out.len()).logits(logits);
                for (out, logit) in out.iter_mut().zip(of_moves) {
                    *out = logit / temperature;
                }
                let is_finite = out.iter().all(|logit| logit.is_finite());
                sparse::infer::softmax(out);
                is_finite
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::input::encoder::expand;

    #[test]
    fn rows_of_a_batch_are_what_each_position_is_alone() {
        let encoding = Encoding::Lc0(InputFormat::Classical112);
        let layout = encoding.layout();
        let games = ["", "e2e4", "e2e4 e7e5 g1f3"].map(|moves| {
            crate::network::tests::game(
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
                moves,
            )
        });
        let mut inputs = Inputs::default();
        for game in &games {
            encoding.encode(
                game.plies(),
                &[],
                (HistoryFill::FenOnly, false),
                &mut inputs,
            );
        }
        assert_eq!((inputs.len(), layout.floats()), (3, 112 * 64));
        assert!(inputs.orientation(1).black_to_move && !inputs.orientation(0).black_to_move);
        // The last two, and a place that is not touched.
        let mut floats = vec![7.0; 3 * layout.floats()];
        inputs.rows(layout, 1..3).write(&mut floats);
        let mut alone = vec![0.0; layout.floats()];
        for (game, row) in games[1..].iter().zip(floats.chunks(layout.floats())) {
            let planes = encode(
                game.plies(),
                InputFormat::Classical112,
                HistoryFill::FenOnly,
            );
            expand(&planes, &mut alone);
            assert_eq!(row, alone);
        }
        assert!(
            floats[2 * layout.floats()..]
                .iter()
                .all(|&float| float == 7.0)
        );
        let empty = Inputs::empty(layout, 2);
        empty.rows(layout, 0..2).write(&mut floats);
        assert!(
            floats[..2 * layout.floats()]
                .iter()
                .all(|&float| float == 0.0)
        );
        inputs.clear();
        assert!(inputs.is_empty());
    }

    #[test]
    fn the_policy_of_lc0_has_1858_entries() {
        let policy = Encoding::Lc0(InputFormat::CanonicalV2).policy();
        assert_eq!(policy.size(), 1858);
    }
}
