//! Training positions in lc0's formats V6 and V7: chunks, which are gzipped files of one game.
//!
//! A position has 8356 bytes, packed and little-endian: version and input format; the shares of the visits over the
//! 1858 entries of the policy vector, -1 where a move is illegal; 104 planes, each with the bits of its bytes
//! reversed; castling rights, side to move or en passant, rule 50, flags; then values, all for the side to move. The
//! format is defined by the lc0 project's `trainingdata_v6.h`. V7 (`trainingdata_v7.h`) appends 40 bytes, among them
//! the next two moves of the game.

use std::{
    borrow::Cow,
    io::{Read, Write},
};

use anyhow::{Context, Result, bail, ensure};
use flate2::{Compression, GzBuilder, bufread::GzDecoder};
use shakmaty::{
    Bitboard, Board, CastlingMode, Chess, Color, FromSetup, KnownOutcome, Piece, Position,
    PositionError, Role, Setup, Square,
};

use super::{
    played::{PlayedGame, Reason, SearchResult, player_of},
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
    terminal::counted,
};

/// What a gzip file begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes of a position of version 6.
pub const BYTES: usize = 8356;
/// Bytes of a position of version 7.
pub const V7_BYTES: usize = 8396;
/// The index of a move that was not played, because the game ended before.
pub const NO_MOVE: u16 = u16::MAX;
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
pub struct ChunkPosition {
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
    /// Divergence of the visits from the priors without noise, in nats.
    pub policy_kld: f32,
    /// A value that self-play leaves at 0.
    pub q_st: f32,
    /// What version 7 has besides.
    pub v7: Option<V7Fields>,
}

/// The fields that version 7 adds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct V7Fields {
    /// A value that self-play leaves at 0.
    pub d_st: f32,
    /// The opponent's reply to the played move, as an index of the policy vector from its point of view; [`NO_MOVE`] if
    /// there was none.
    pub opp_played_idx: u16,
    /// The own move after that; [`NO_MOVE`] if there was none.
    pub next_played_idx: u16,
    /// Values without a meaning so far; 0 in self-play.
    pub reserved: [f32; 8],
}

impl V7Fields {
    /// Checks that the next moves are entries of the policy, and that none follows a missing one.
    fn verify(&self) -> Result<()> {
        let indices = [self.opp_played_idx, self.next_played_idx];
        let is_move = |&index: &u16| index == NO_MOVE || usize::from(index) < POLICY_SIZE;
        ensure!(
            indices.iter().all(is_move) && (indices[0] != NO_MOVE || indices[1] == NO_MOVE),
            "the next moves are {indices:?}"
        );
        Ok(())
    }
}

/// The versions of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ChunkVersion {
    /// 8356 bytes a position.
    #[default]
    #[value(name = "6")]
    V6,
    /// The same and the next two moves: 8396 bytes a position.
    #[value(name = "7")]
    V7,
}

impl ChunkPosition {
    /// The bytes of a file.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let version: u32 = if self.v7.is_some() { 7 } else { 6 };
        bytes.extend(version.to_le_bytes());
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
        if let Some(v7) = &self.v7 {
            bytes.extend(v7.d_st.to_le_bytes());
            bytes.extend(v7.opp_played_idx.to_le_bytes());
            bytes.extend(v7.next_played_idx.to_le_bytes());
            for value in v7.reserved {
                bytes.extend(value.to_le_bytes());
            }
        }
    }

    /// Reads a position, whose bytes are as many as its version has.
    fn read(bytes: &[u8]) -> ChunkPosition {
        let mut from = Fields { bytes, at: 0 };
        let version = from.u32();
        let input_format = from.u32();
        let probabilities = (0..POLICY_SIZE).map(|_| from.f32()).collect();
        let planes = std::array::from_fn(|_| reversed(from.u64()));
        let castling = from.take();
        let [black, rule50, invariance_info, _] = from.take();
        ChunkPosition {
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
            v7: (version == 7).then(|| V7Fields {
                d_st: from.f32(),
                opp_played_idx: u16::from_le_bytes(from.take()),
                next_played_idx: u16::from_le_bytes(from.take()),
                reserved: std::array::from_fn(|_| from.f32()),
            }),
        }
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

    /// Checks the policy: legal moves, shares that sum to 1, indices in range.
    fn verify_policy(&self) -> Result<()> {
        let legal = legal_entries(&self.position()?);
        // Without the previous position, it is unknown whether a pawn may be taken en passant.
        let possible: Vec<Vec<bool>> = self
            .possible_en_passant()
            .filter_map(|square| Some(legal_entries(&self.position_after(Some(square)).ok()?)))
            .collect();
        for (index, (&p, &is_legal)) in self.probabilities.iter().zip(&legal).enumerate() {
            let is_share = (0.0..=1.0).contains(&p);
            let is_right = if is_legal {
                is_share
            } else {
                p == -1.0 || (is_share && possible.iter().any(|legal| legal[index]))
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
        Ok(())
    }

    /// Checks the position: legal moves, shares that sum to 1, indices and values in range.
    ///
    /// # Errors
    /// At the first invalid field.
    pub fn verify(&self) -> Result<()> {
        self.verify_policy()?;
        self.v7.as_ref().map_or(Ok(()), V7Fields::verify)?;
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
        ensure!(
            q.abs() + d == 1.0,
            "result_q is {q} and result_d {d}, which is no result of a game"
        );
        ensure!(
            self.black <= 1,
            "the side to move is {} (0 or 1 is possible)",
            self.black
        );
        ensure!(self.visits > 0, "no visits");
        ensure!(
            self.rule50 <= 100,
            "{} plies without a capture or pawn move",
            self.rule50
        );
        ensure!(
            self.policy_kld >= -1e-3 && self.policy_kld.is_finite(),
            "policy_kld is {}",
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
    bytes: &'b [u8],
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
pub fn of_game(
    game: &PlayedGame,
    sides: Sides,
    fill: [HistoryFill; 2],
    version: ChunkVersion,
) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let castles = game.start.castles();
    let format = if castles.mode().is_chess960() && castles.any() {
        InputFormat::WithCastlingPlane
    } else {
        InputFormat::Classical112
    };
    for_each_sample(game, sides, |sample| {
        let turn = sample.history.position().turn();
        let fill = fill[player_of(game.white, turn)];
        let mut position = position(game, sample, format, fill);
        position.v7 = (version == ChunkVersion::V7).then(|| next_moves(sample));
        position.write(&mut bytes);
    });
    if bytes.is_empty() {
        return Ok(None);
    }
    // No time and no name in the header, so that the same game gives the same file.
    let mut packer = GzBuilder::new().write(Vec::new(), Compression::default());
    packer.write_all(&bytes)?;
    Ok(Some(packer.finish()?))
}

fn position(
    game: &PlayedGame,
    sample: &Sample<'_>,
    format: InputFormat,
    fill: HistoryFill,
) -> ChunkPosition {
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
    // All or none, as in lc0.
    let [orig_q, orig_d, orig_m] = match search_result.raw.rest {
        Some((d, m)) => [search_result.raw.wl, d, m],
        None => [f32::NAN; 3],
    };
    let (probabilities, policy_kld) = learned_policy(position, search_result);
    let index = |m: PackedMove| policy_map::index(m, black, 0);
    ChunkPosition {
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
            sample.plies_left as f32 + game.expected_rest(),
            result_q,
            result_d,
            played.wl,
            played.d,
            played.m,
            orig_q,
            orig_d,
            orig_m,
        ],
        visits: search_result.visits,
        played_idx: index(sample.played.m) as u16,
        best_idx: index(search_result.best) as u16,
        policy_kld,
        q_st: 0.0,
        v7: None,
    }
}

/// The two moves after the played one.
fn next_moves(sample: &Sample<'_>) -> V7Fields {
    let black = sample.history.position().turn().is_black();
    let index = |after: usize, black: bool| {
        let next = sample.next.get(after);
        next.map_or(NO_MOVE, |next| policy_map::index(next.m, black, 0) as u16)
    };
    V7Fields {
        opp_played_idx: index(0, !black),
        next_played_idx: index(1, black),
        ..V7Fields::default()
    }
}

/// The share of visits of each move, -1 for illegal moves, and the Kullback-Leibler divergence of the shares from the
/// network's policy, without noise, in nats.
fn learned_policy(position: &Chess, search_result: &SearchResult) -> (Vec<f32>, f32) {
    let black = position.turn().is_black();
    let index = |m: PackedMove| policy_map::index(m, black, 0);
    let mut probabilities = vec![-1.0; POLICY_SIZE];
    for m in legal_moves(position) {
        probabilities[index(m)] = 0.0;
    }
    let total: u32 = search_result.learned_visits().map(|(.., n)| n).sum();
    let mut kld = 0.0_f64;
    for (stat, m, n) in search_result.learned_visits() {
        let share = n as f32 / total.max(1) as f32;
        probabilities[index(m)] = share;
        let prior = stat.p_without_noise;
        if share > 0.0 && prior > 0.0 {
            kld += f64::from(share) * f64::from(share / prior).ln();
        }
    }
    (probabilities, kld as f32)
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
    // As in lc0, a game that was too long is an adjudicated one.
    if game.reason == Reason::Ended(Ending::Length) {
        flags |= TOO_LONG;
    }
    if game.reason.is_early() {
        flags |= ADJUDICATED;
    }
    flags
}

/// The positions of a chunk, compressed or not.
///
/// # Errors
/// When it is not a chunk of version 6 or 7.
pub fn read(bytes: &[u8]) -> Result<Vec<ChunkPosition>> {
    let unpacked = if bytes.starts_with(&GZIP) {
        unpack(bytes)?.into()
    } else {
        Cow::Borrowed(bytes)
    };
    ensure!(
        !unpacked.is_empty(),
        "not a chunk of training data: it is empty"
    );
    let size = position_bytes(&unpacked)?;
    check_longest(unpacked.len(), size)?;
    check_versions(&unpacked, size)?;
    let length = unpacked.len();
    ensure!(
        length.is_multiple_of(size),
        "it ends within position {}: {length} bytes are no multiple of {size}, the size of a position",
        length / size + 1
    );
    let positions = unpacked.chunks_exact(size);
    Ok(positions.map(ChunkPosition::read).collect())
}

/// The bytes of a gzip file of one or more parts; of what is longer than any chunk, one byte too many.
fn unpack(bytes: &[u8]) -> Result<Vec<u8>> {
    let most = MAX_POSITIONS * V7_BYTES as u64 + 1;
    let (mut unpacked, mut rest) = (Vec::new(), bytes);
    while rest.starts_with(&GZIP) {
        let mut part = GzDecoder::new(rest);
        part.by_ref()
            .take(most - unpacked.len() as u64)
            .read_to_end(&mut unpacked)
            .context("the gzip data is damaged")?;
        if unpacked.len() as u64 == most {
            return Ok(unpacked);
        }
        rest = part.into_inner();
    }
    ensure!(
        rest.is_empty(),
        "it goes on for {} after the gzip data",
        counted(rest.len() as u64, "byte")
    );
    Ok(unpacked)
}

/// The version of the position that these bytes begin with, if there are enough.
fn version_of(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_le_bytes)
}

/// The bytes of a position in a chunk, by the version of the first one.
fn position_bytes(chunk: &[u8]) -> Result<usize> {
    match version_of(chunk) {
        Some(6) => Ok(BYTES),
        Some(7) => Ok(V7_BYTES),
        Some(version @ 1..=99) => {
            bail!("training data of version {version}; this program reads 6 and 7")
        }
        _ => {
            bail!("not a chunk of training data: it does not begin with a version of lc0's format")
        }
    }
}

/// Checks that `length` bytes can be the positions of a game.
fn check_longest(length: usize, size: usize) -> Result<()> {
    ensure!(
        length as u64 <= MAX_POSITIONS * size as u64,
        "not a chunk of training data: it is longer than {MAX_POSITIONS} positions, and no game is"
    );
    Ok(())
}

/// Checks that all positions have the version of the first one.
fn check_versions(chunk: &[u8], size: usize) -> Result<()> {
    let first = version_of(chunk);
    for (index, version) in chunk.chunks(size).map(version_of).enumerate() {
        let number = index + 1;
        match (version, first) {
            (Some(version), Some(first)) if version != first => bail!(
                "position {number} has version {version} and the first one {first}: a chunk has one version"
            ),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            played::MoveSource,
            records::tests::{game, stat},
        },
        *,
    };
    use crate::chess::setup::parse_move;

    #[test]
    fn estimated_results_are_marked() {
        let mut game = game("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "e2e4");
        for (reason, expected) in [
            (Reason::Ended(Ending::Repetition), 0),
            (Reason::Ended(Ending::AgreedWin), ADJUDICATED),
            (Reason::Resignation, ADJUDICATED),
            (Reason::Ended(Ending::Length), ADJUDICATED | TOO_LONG),
        ] {
            game.reason = reason;
            let fill = [HistoryFill::FenOnly; 2];
            let chunk = of_game(&game, Sides([true; 2]), fill, ChunkVersion::V6).unwrap();
            let position = read(&chunk.unwrap()).unwrap().remove(0);
            assert_eq!(
                position.invariance_info & (ADJUDICATED | TOO_LONG),
                expected
            );
        }
    }

    #[test]
    fn what_is_no_chunk_is_named() {
        let packed = |bytes: &[u8]| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
            packer.write_all(bytes).unwrap();
            packer.finish().unwrap()
        };
        // Positions of these versions and sizes.
        let positions = |kinds: &[(u8, usize)]| -> Vec<u8> {
            let position = |&(version, size): &(u8, usize)| {
                let mut bytes = vec![0; size];
                bytes[0] = version;
                bytes
            };
            kinds.iter().flat_map(position).collect()
        };
        let (v6, v7) = ((6, BYTES), (7, V7_BYTES));
        for (bytes, expected) in [
            (vec![], "it is empty"),
            (packed(&[]), "it is empty"),
            (
                [&packed(&positions(&[v6])), &b"\0\0\0"[..]].concat(),
                "it goes on for 3 bytes after the gzip data",
            ),
            (
                [v6, v7].map(|kind| packed(&positions(&[kind]))).concat(),
                "position 2 has version 7 and the first one 6",
            ),
            (
                positions(&[v6, (6, BYTES - 1)]),
                "it ends within position 2: 16711 bytes are no multiple of 8356",
            ),
            (positions(&[(3, 8276)]), "of version 3; this program reads"),
            (positions(&[(4, 8292)]), "of version 4; this program reads"),
            (
                positions(&[(5, 8308); 2]),
                "of version 5; this program reads",
            ),
            (
                positions(&[v6, v6, v7]),
                "position 3 has version 7 and the first one 6",
            ),
            (
                positions(&[v7, v6]),
                "position 2 has version 6 and the first one 7",
            ),
            (b"name/game.gz".to_vec(), "does not begin with a version"),
            (vec![6, 0], "does not begin with a version"),
        ] {
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let most = MAX_POSITIONS as usize * BYTES;
        assert!(check_longest(most, BYTES).is_ok());
        for more in [1, BYTES] {
            let error = check_longest(most + more, BYTES).unwrap_err().to_string();
            assert!(error.contains("longer than 20000 positions"), "{error}");
        }
    }

    #[test]
    fn the_divergence_is_that_from_the_priors_without_noise() {
        let mut game = game("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "e2e4");
        let [pushed, aside] = ["e2e4", "e1d1"].map(|m| parse_move(&game.start, m).unwrap());
        let MoveSource::Search(result) = &mut game.moves[0].source else {
            panic!("the move is a search's");
        };
        result.moves = vec![stat(aside, 1, 0.75), stat(pushed, 3, 0.25)];
        let (_, kld) = learned_policy(&game.start, result);
        let expected = 0.75 * 3.0_f64.ln() - 0.25 * 3.0_f64.ln();
        assert!((f64::from(kld) - expected).abs() < 1e-6, "{kld}");
    }
}
