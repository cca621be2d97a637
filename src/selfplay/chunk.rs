//! Training positions in lc0's format V6: chunks, which are gzipped files of one game.
//!
//! A position has 8356 bytes, packed and little-endian: version and input format; the shares of the visits over the
//! 1858 entries of the policy vector, -1 where a move is illegal; 104 planes, each with the bits of its bytes
//! reversed; castling rights, side to move or en passant, rule 50, flags; then values, all for the side to move. The
//! format is defined by the lc0 project's `trainingdata_v6.h`.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, GzBuilder, read::MultiGzDecoder};
use shakmaty::{
    Bitboard, Board, CastlingMode, Chess, Color, FromSetup, KnownOutcome, Piece, Position,
    PositionError, Role, Setup, Square,
};

use super::{
    played::{MoveSource, PlayedGame, Reason, SearchResult},
    records::{Sample, Sides, for_each_sample},
};
use crate::{
    chess::{PackedMove, moves::legal_moves},
    game::adjudicate::Ending,
    lc0::InputFormat,
    network::input::{
        encoder::encode,
        policy_map::{self, POLICY_SIZE},
    },
    options::HistoryFill,
    search::Proven,
};

/// Bytes of a position.
pub const BYTES: usize = 8356;
/// The history planes.
pub const PLANES: usize = 104;
/// Maximum number of positions in a chunk, more than any game has.
const MAX_POSITIONS: u64 = 20_000;

/// Bit of `invariance_info`: the best move is proven.
const PROVEN: u8 = 1 << 3;
/// The game reached the maximum length.
const TOO_LONG: u8 = 1 << 4;
/// The game was ended early.
const ADJUDICATED: u8 = 1 << 5;

/// The values of a position, in the order of the file.
pub const VALUES: [&str; 15] = [
    "root_q",
    "best_q",
    "root_d",
    "best_d",
    "root_m",
    "best_m",
    "plies_left",
    "result_q",
    "result_d",
    "played_q",
    "played_d",
    "played_m",
    "orig_q",
    "orig_d",
    "orig_m",
];

/// A position.
#[derive(Clone, Debug, PartialEq)]
pub struct V6 {
    /// lc0's number of the input format: 1, or 2 where castling depends on the rooks' files.
    pub input_format: u32,
    /// Shares of the visits; -1 for illegal moves.
    pub probabilities: Vec<f32>,
    /// Squares of the history planes; a1 is bit 0.
    pub planes: [u64; PLANES],
    /// Own a side, own h side, the opponent's a side, its h side: 0 or 1; in format 2 the rook's file as a bit.
    pub castling: [u8; 4],
    /// 1 if Black is to move.
    pub black: u8,
    /// Plies since the last capture or pawn move.
    pub rule50: u8,
    /// Flags of the position (`PROVEN`, `TOO_LONG`, `ADJUDICATED` and others).
    pub invariance_info: u8,
    /// See [`VALUES`]; NaN is unknown.
    pub values: [f32; 15],
    /// Visits of the root.
    pub visits: u32,
    /// The move played, as an index of the policy vector.
    pub played_idx: u16,
    /// The move that the search preferred.
    pub best_idx: u16,
    /// Divergence of the visits from the priors, in nats.
    pub policy_kld: f32,
    /// A value that self-play leaves at 0.
    pub q_st: f32,
}

impl V6 {
    /// The bytes of a file.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(6_u32.to_le_bytes());
        bytes.extend(self.input_format.to_le_bytes());
        for p in &self.probabilities {
            bytes.extend(p.to_le_bytes());
        }
        for plane in self.planes {
            bytes.extend(reversed(plane).to_le_bytes());
        }
        bytes.extend(self.castling);
        bytes.extend([self.black, self.rule50, self.invariance_info, 0]);
        for value in self.values {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(self.visits.to_le_bytes());
        bytes.extend(self.played_idx.to_le_bytes());
        bytes.extend(self.best_idx.to_le_bytes());
        bytes.extend(self.policy_kld.to_le_bytes());
        bytes.extend(self.q_st.to_le_bytes());
    }

    /// Reads a position.
    ///
    /// # Errors
    /// When they are of another version.
    pub fn read(bytes: &[u8; BYTES]) -> Result<V6> {
        let mut from = Fields { bytes, at: 0 };
        let version = from.u32();
        ensure!(version == 6, "version {version}, expected 6");
        let input_format = from.u32();
        let probabilities = (0..POLICY_SIZE).map(|_| from.f32()).collect();
        let planes = std::array::from_fn(|_| reversed(from.u64()));
        let castling = from.take();
        let [black, rule50, invariance_info, _] = from.take();
        Ok(V6 {
            input_format,
            probabilities,
            planes,
            castling,
            black,
            rule50,
            invariance_info,
            values: std::array::from_fn(|_| from.f32()),
            visits: from.u32(),
            played_idx: u16::from_le_bytes(from.take()),
            best_idx: u16::from_le_bytes(from.take()),
            policy_kld: from.f32(),
            q_st: from.f32(),
        })
    }

    /// One of the values.
    pub fn value(&self, name: &str) -> f32 {
        let index = VALUES.iter().position(|&value| value == name);
        index.map_or(f32::NAN, |index| self.values[index])
    }

    /// The position on the board as its side to move sees it, which plays White here.
    ///
    /// # Errors
    /// When the planes show none.
    pub fn position(&self) -> Result<Chess> {
        self.position_after(self.en_passant())
    }

    /// The position, if a pawn has just passed over `ep_square`.
    fn position_after(&self, ep_square: Option<Square>) -> Result<Chess> {
        ensure!(
            matches!(self.input_format, 1 | 2),
            "input format {} is not one of 1 and 2",
            self.input_format
        );
        let mut setup = Setup::empty();
        setup.board = self.board()?;
        setup.castling_rights = self.castling_rooks(&setup.board);
        setup.ep_square = ep_square;
        setup.halfmoves = u32::from(self.rule50);
        let mode = CastlingMode::detect(&setup);
        Chess::from_setup(setup, mode)
            .or_else(PositionError::ignore_invalid_ep_square)
            .or_else(PositionError::ignore_impossible_check)
            .or_else(PositionError::ignore_too_much_material)
            .context("the planes show no legal position")
    }

    fn board(&self) -> Result<Board> {
        let mut board = Board::empty();
        for (index, color) in [(0, Color::White), (6, Color::Black)] {
            for (plane, role) in self.planes[index..index + 6].iter().zip(Role::ALL) {
                for square in Bitboard(*plane) {
                    ensure!(board.piece_at(square).is_none(), "two pieces on {square}");
                    board.set_piece_at(square, Piece { color, role });
                }
            }
        }
        Ok(board)
    }

    fn castling_rooks(&self, board: &Board) -> Bitboard {
        let mut rooks = Bitboard::EMPTY;
        for (index, &bits) in self.castling.iter().enumerate() {
            let color = if index < 2 {
                Color::White
            } else {
                Color::Black
            };
            let rank = Bitboard::from_rank(color.backrank());
            let back = board.by_color(color) & board.rooks() & rank;
            let rook = match (bits, self.input_format, index % 2) {
                (0, _, _) => None,
                (_, 1, 0) => back.first(),
                (_, 1, _) => back.last(),
                _ => back
                    .into_iter()
                    .find(|square| 1 << u32::from(square.file()) == u32::from(bits)),
            };
            rooks.extend(rook);
        }
        rooks
    }

    /// The square that a pawn has just passed over, derived from the planes of the previous position.
    fn en_passant(&self) -> Option<Square> {
        let (now, before) = (self.planes[6], self.planes[13 + 6]);
        let passed = (before & !now) >> 48 & (now & !before) >> 32 & 0xff;
        (passed != 0).then(|| Square::new(40 + passed.trailing_zeros()))
    }

    /// The squares that a pawn may just have passed over, if the planes of the previous position are missing.
    fn possible_en_passant(&self) -> impl Iterator<Item = Square> {
        let has_past = self.planes[13..26].iter().any(|&plane| plane != 0);
        let occupied = self.planes[..12].iter().fold(0, |all, plane| all | plane);
        let free_behind = !(occupied >> 40 | occupied >> 48) & 0xff;
        let passed = (self.planes[6] >> 32 & 0xff) & free_behind;
        Bitboard(if has_past { 0 } else { passed << 40 }).into_iter()
    }

    /// Checks the position: legal moves, shares that sum to 1, indices and values in range.
    ///
    /// # Errors
    /// At the first invalid field.
    pub fn verify(&self) -> Result<()> {
        let legal = legal_entries(&self.position()?);
        // Without the previous position, it is unknown whether a pawn may be taken en passant.
        let possible: Vec<Vec<bool>> = self
            .possible_en_passant()
            .filter_map(|square| Some(legal_entries(&self.position_after(Some(square)).ok()?)))
            .collect();
        for (index, (&p, &is_legal)) in self.probabilities.iter().zip(&legal).enumerate() {
            let is_share = (0.0..=1.0).contains(&p);
            let is_right = match is_legal {
                true => is_share,
                false => p == -1.0 || (is_share && possible.iter().any(|legal| legal[index])),
            };
            ensure!(is_right, "entry {index} of the policy is {p}");
        }
        let sum: f32 = self.probabilities.iter().filter(|&&p| p > 0.0).sum();
        ensure!((sum - 1.0).abs() < 1e-3, "the policy sums to {sum}");
        for (name, index) in [("played", self.played_idx), ("best", self.best_idx)] {
            ensure!(
                self.probabilities
                    .get(usize::from(index))
                    .is_some_and(|&p| p >= 0.0),
                "the {name} move is not legal"
            );
        }
        for (name, &value) in VALUES.iter().zip(&self.values) {
            let range = match name.rsplit('_').next() {
                Some("q") => -1.001..=1.001,
                Some("d") => -0.001..=1.001,
                _ => 0.0..=100_000.0,
            };
            let may_be_unknown = name.starts_with("orig") && value.is_nan();
            ensure!(
                may_be_unknown || range.contains(&value),
                "{name} is {value}"
            );
        }
        let (q, d) = (self.value("result_q"), self.value("result_d"));
        ensure!(q.abs() + d == 1.0, "a result of {q} with draw {d}");
        ensure!(self.black <= 1, "side to move {}", self.black);
        ensure!(self.visits > 0, "no visits");
        ensure!(
            self.rule50 <= 100,
            "{} plies without a capture or pawn move",
            self.rule50
        );
        ensure!(
            self.policy_kld >= -1e-3 && self.policy_kld.is_finite(),
            "a divergence of {}",
            self.policy_kld
        );
        let is_right = |bits: u8| match self.input_format {
            1 => bits <= 1,
            _ => bits.count_ones() <= 1,
        };
        for bits in self.castling {
            ensure!(is_right(bits), "castling rights {bits:#04x}");
        }
        Ok(())
    }
}

/// Which entries of the policy are legal moves.
fn legal_entries(position: &Chess) -> Vec<bool> {
    let mut legal = vec![false; POLICY_SIZE];
    for m in legal_moves(position) {
        legal[policy_map::index(m, false, 0)] = true;
    }
    legal
}

/// Reverses the bits of each byte.
fn reversed(plane: u64) -> u64 {
    plane.reverse_bits().swap_bytes()
}

/// Reads fields one after another.
struct Fields<'b> {
    bytes: &'b [u8; BYTES],
    at: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
    fn f32(&mut self) -> f32 {
        f32::from_le_bytes(self.take())
    }
}

/// The compressed chunk of a game; `None` if it has no samples.
///
/// # Errors
/// When compression fails.
pub fn of_game(game: &PlayedGame, sides: Sides, fill: [HistoryFill; 2]) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let castles = game.start.castles();
    let format = if castles.mode().is_chess960() && castles.any() {
        InputFormat::WithCastlingPlane
    } else {
        InputFormat::Classical112
    };
    for_each_sample(game, sides, |sample| {
        let turn = sample.history.position().turn();
        let fill = fill[turn.fold_wb(game.white, 1 - game.white)];
        position(game, sample, format, fill).write(&mut bytes);
    });
    if bytes.is_empty() {
        return Ok(None);
    }
    // No time and no name in the header, so that the same game gives the same file.
    let mut packer = GzBuilder::new().write(Vec::new(), Compression::default());
    packer.write_all(&bytes)?;
    Ok(Some(packer.finish()?))
}

fn position(game: &PlayedGame, sample: &Sample<'_>, format: InputFormat, fill: HistoryFill) -> V6 {
    let position = sample.history.position();
    let turn = position.turn();
    let black = turn.is_black();
    let planes = encode(sample.history.plies(), format, fill);
    let search_result = sample.search_result;
    let (result_q, result_d) = match game.outcome {
        KnownOutcome::Draw => (0.0, 1.0),
        KnownOutcome::Decisive { winner } => (if winner == turn { 1.0 } else { -1.0 }, 0.0),
    };
    let (root, best) = (search_result.root, search_result.value(search_result.best));
    let played = search_result.value(sample.played.m);
    let (orig_d, orig_m) = search_result.raw.rest.unwrap_or((f32::NAN, f32::NAN));
    // A game that ended early would have continued for as long as the last search expected.
    let rest = if game.reason.is_early() {
        last_estimate(game)
    } else {
        0.0
    };
    let (probabilities, policy_kld) = learned_policy(position, search_result);
    let index = |m: PackedMove| policy_map::index(m, black, 0);
    V6 {
        input_format: format as u32,
        probabilities,
        planes: std::array::from_fn(|plane| planes.masks[plane]),
        castling: castling(position, format),
        black: u8::from(black),
        rule50: u8::try_from(position.halfmoves()).unwrap_or(u8::MAX),
        invariance_info: flags(game, sample),
        values: [
            root.wl,
            best.wl,
            root.d,
            best.d,
            root.m,
            best.m,
            sample.plies_left as f32 + rest,
            result_q,
            result_d,
            played.wl,
            played.d,
            played.m,
            search_result.raw.wl,
            orig_d,
            orig_m,
        ],
        visits: search_result.visits,
        played_idx: index(sample.played.m) as u16,
        best_idx: index(search_result.best) as u16,
        policy_kld,
        q_st: 0.0,
    }
}

/// The share of visits of each move, -1 for illegal moves, and the Kullback-Leibler divergence of the shares from the
/// network's policy in nats.
fn learned_policy(position: &Chess, search_result: &SearchResult) -> (Vec<f32>, f32) {
    let black = position.turn().is_black();
    let index = |m: PackedMove| policy_map::index(m, black, 0);
    let mut probabilities = vec![-1.0; POLICY_SIZE];
    for m in legal_moves(position) {
        probabilities[index(m)] = 0.0;
    }
    let total: u32 = search_result.moves.iter().map(|stat| stat.n).sum();
    let mut kld = 0.0_f64;
    for stat in &search_result.moves {
        let Some(m) = stat.m else { continue };
        let share = stat.n as f32 / total.max(1) as f32;
        probabilities[index(m)] = share;
        if share > 0.0 && stat.p > 0.0 {
            kld += f64::from(share) * f64::from(share / stat.p).ln();
        }
    }
    (probabilities, kld as f32)
}

/// Number of plies that the last search of a game expected after the played move.
fn last_estimate(game: &PlayedGame) -> f32 {
    let last = game.moves.last();
    match last.map(|last| (&last.source, last.m)) {
        Some((MoveSource::Search(search_result), m)) => (search_result.value(m).m - 1.0).max(0.0),
        _ => 0.0,
    }
}

fn castling(position: &Chess, format: InputFormat) -> [u8; 4] {
    use shakmaty::CastlingSide::{KingSide, QueenSide};
    let us = position.turn();
    let order = [
        (us, QueenSide),
        (us, KingSide),
        (!us, QueenSide),
        (!us, KingSide),
    ];
    order.map(|(color, side)| match position.castles().rook(color, side) {
        None => 0,
        Some(rook) if format == InputFormat::WithCastlingPlane => 1 << u32::from(rook.file()),
        Some(_) => 1,
    })
}

fn flags(game: &PlayedGame, sample: &Sample<'_>) -> u8 {
    let best = sample.search_result.stat(sample.search_result.best);
    let is_proven = best.and_then(|stat| stat.proven()) == Some(Proven::Win);
    let mut flags = if is_proven { PROVEN } else { 0 };
    if game.reason == Reason::Ended(Ending::Length) {
        flags |= TOO_LONG;
    } else if game.reason.is_early() {
        flags |= ADJUDICATED;
    }
    flags
}

/// The positions of a chunk, compressed or not.
///
/// # Errors
/// When it is not a chunk of version 6.
pub fn read(bytes: &[u8]) -> Result<Vec<V6>> {
    let mut unpacked = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(bytes)
            .take(MAX_POSITIONS * BYTES as u64 + 1)
            .read_to_end(&mut unpacked)
            .context("the gzip data is damaged")?;
    } else {
        unpacked.extend_from_slice(bytes);
    }
    let (positions, rest) = unpacked.as_chunks::<BYTES>();
    if !rest.is_empty() || positions.is_empty() || positions.len() as u64 > MAX_POSITIONS {
        bail!(
            "{} bytes are not a chunk of positions of {BYTES} bytes",
            unpacked.len()
        );
    }
    let numbered = positions.iter().enumerate();
    numbered
        .map(|(index, bytes)| V6::read(bytes).with_context(|| format!("position {}", index + 1)))
        .collect()
}
