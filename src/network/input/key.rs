//! The key of everything a network sees of a position.
//!
//! A cache keyed by the current board alone would return values that belong to another history or another rule-50
//! counter. This key covers what the network reads ([`HistoryRead`]): usually the positions of all eight history
//! steps with their repetitions, castling rights, the rule-50 counter and how much of the history is filled in; it
//! takes a few nanoseconds. A network that reads less (the built-in one reads the current board only) evaluates a
//! position once, however many move orders lead to it.

use shakmaty::{Board, Color, Position, Role};

use super::alphazero::plies_played;
use super::encoder::recorded_en_passant;
use super::planes::{HISTORY, PLANES_PER_STEP};
use crate::{
    chess::Ply,
    hashing::mix,
    lc0::{InputFormat, PlaneSet},
    options::HistoryFill,
};

/// Odd factors, one for each history step, that make a sum of products a good hash (the golden ratio's multiples).
const FACTORS: [u64; HISTORY] = {
    let mut factors = [0; HISTORY];
    let mut i = 0;
    while i < HISTORY {
        factors[i] = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * i as u64 + 1);
        i += 1;
    }
    factors
};

/// The part of the history that a network reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRead {
    /// For each step back, beginning with the current position.
    steps: [StepRead; HISTORY],
    /// How many of them it reads.
    count: usize,
    /// Whether the history is made of repeated positions, however far back they are.
    only_repeated: bool,
    /// Whether it also counts: how often positions occurred, and the moves since the start of the game.
    counts: bool,
    /// Whether the history ends where earlier positions cannot be repeated, so at an en passant square.
    is_cut: bool,
}

/// The part of one position that a network reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepRead {
    Nothing,
    /// The pieces of some planes: bit 0 is the pawns of the side to move, bit 6 those of the other side.
    Pieces(u32),
    /// All pieces.
    Board,
    /// All pieces, and whether the position is a repetition.
    Whole,
}

impl HistoryRead {
    /// Of a network that reads all planes.
    pub const ALL: HistoryRead = HistoryRead {
        steps: [StepRead::Whole; HISTORY],
        count: HISTORY,
        only_repeated: false,
        counts: false,
        is_cut: false,
    };

    /// Of a network with AlphaZero's planes.
    pub const ALPHAZERO: HistoryRead = HistoryRead {
        counts: true,
        ..HistoryRead::ALL
    };

    /// Of a network that reads the current board, castling rights and the rule-50 counter.
    pub const BOARD: HistoryRead = HistoryRead::boards(1);

    /// Of a network that reads the current board and those before it, `count` in all (1 to 8), castling rights and the
    /// rule-50 counter.
    pub const fn boards(count: usize) -> HistoryRead {
        let mut steps = [StepRead::Nothing; HISTORY];
        let mut step = 0;
        while step < count {
            steps[step] = StepRead::Board;
            step += 1;
        }
        HistoryRead {
            steps,
            count,
            only_repeated: false,
            counts: false,
            is_cut: false,
        }
    }

    /// Of a network that reads these planes. In formats that cut the history, the cut depends on more than these
    /// planes, so those networks are treated as reading all of it.
    pub fn of(format: InputFormat, planes: PlaneSet) -> HistoryRead {
        /// As many as are worth reading one by one.
        const FEW: u32 = 4;
        let is_plain = matches!(
            format,
            InputFormat::Classical112 | InputFormat::WithCastlingPlane
        );
        if !is_plain {
            return HistoryRead {
                only_repeated: matches!(
                    format,
                    InputFormat::CanonicalV2 | InputFormat::CanonicalV2Armageddon
                ),
                is_cut: true,
                ..HistoryRead::ALL
            };
        }
        let mut reads = HistoryRead {
            steps: [StepRead::Nothing; HISTORY],
            count: 1,
            only_repeated: false,
            counts: false,
            is_cut: false,
        };
        for (step, seen) in reads.steps.iter_mut().enumerate() {
            let start = step * PLANES_PER_STEP;
            let repetition = start + PLANES_PER_STEP - 1;
            let pieces = planes.bits(start..repetition);
            *seen = match pieces.count_ones() {
                _ if planes.bits(repetition..repetition + 1) != 0 => StepRead::Whole,
                // The board of the current position is always part of the key: moves depend on it.
                _ if step == 0 => StepRead::Board,
                0 => StepRead::Nothing,
                1..=FEW => StepRead::Pieces(pieces),
                _ => StepRead::Board,
            };
            if *seen != StepRead::Nothing {
                reads.count = step + 1;
            }
        }
        reads
    }
}

impl HistoryRead {
    /// The same, but nothing of what is more than `steps` positions before the current one. Keys that are made of this
    /// may be equal although a network sees different histories.
    pub fn within(mut self, steps: usize) -> HistoryRead {
        if steps + 1 < self.count {
            self.count = steps + 1;
            self.only_repeated = false;
            self.steps[self.count..].fill(StepRead::Nothing);
        }
        self
    }
}

impl StepRead {
    /// A key of what is read of a position, seen by the side `us` that is to move at the end of the line.
    fn key(self, ply: &Ply, us: Color) -> u64 {
        match self {
            StepRead::Nothing => 0,
            StepRead::Pieces(planes) => pieces_key(ply.position.board(), planes, us),
            StepRead::Board => ply.key.rotate_left(32),
            // Rotated, because the top bit alone would survive a product only in the top bit.
            StepRead::Whole => (ply.key ^ u64::from(ply.repetitions > 0) << 63).rotate_left(32),
        }
    }
}

fn pieces_key(board: &Board, planes: u32, us: Color) -> u64 {
    let roles = Role::ALL.into_iter().cycle();
    let colors = [us, us.other()].into_iter().flat_map(|color| [color; 6]);
    let pieces = colors.zip(roles).enumerate();
    let seen = pieces.filter(|(plane, _)| planes >> plane & 1 != 0);
    seen.fold(0, |key, (_, (color, role))| {
        mix(key ^ (board.by_color(color) & board.by_role(role)).0)
    })
}

/// The key of the last position of `line` for a network that reads `reads`; `fill` says how the history before the
/// first position is filled.
///
/// Equal keys mean equal input planes, as far as they are read (up to the chance of a 64-bit collision); different keys
/// may still have equal planes. `line` should reach back at least eight positions or to the start of the game.
pub fn position_key(line: &[Ply], fill: HistoryFill, reads: &HistoryRead) -> u64 {
    let Some(last) = line.last() else { return 0 };
    let us = last.position.turn();
    // The filled history is made from the first position, all of which then counts.
    let is_invented = line.len() < reads.count;
    let (only_repeated, counts, is_cut) = (reads.only_repeated, reads.counts, reads.is_cut);
    let reads = if is_invented {
        &HistoryRead::ALL
    } else {
        reads
    };
    let seen = &line[line.len().saturating_sub(reads.count)..];
    let mut key = 0u64;
    for ((ply, factor), step) in seen.iter().rev().zip(FACTORS).zip(reads.steps) {
        key = key.wrapping_add(step.key(ply, us).wrapping_mul(factor));
    }
    if counts {
        let twice = seen.iter().rev().map(|ply| u64::from(ply.repetitions > 1));
        let twice = twice.fold(1, |bits, bit| bits << 1 | bit);
        key = mix(key ^ u64::from(plies_played(&last.position)) << 16 ^ twice);
    }
    if only_repeated && seen.iter().all(|ply| ply.rule50() > 0) {
        let older = line[..line.len() - seen.len()].iter().rev();
        let mut is_over = false;
        let reversible =
            older.take_while(|ply| !std::mem::replace(&mut is_over, ply.rule50() == 0));
        for ply in reversible.filter(|ply| ply.repetitions > 0) {
            key = mix(key ^ ply.key);
        }
    }
    let mut context = u64::from(last.rule50()) | (seen.len() as u64) << 32 | (fill as u64) << 40;
    // The en passant square of a position from a FEN undoes a pawn move in the filled history, whether or not a
    // capture is legal; and repetition keys do not include which rook may castle.
    let square = match seen.first() {
        Some(first) if is_cut => recorded_en_passant(first, seen.len() == line.len()),
        Some(first) if is_invented => first.position.maybe_ep_square(),
        _ => None,
    };
    if let Some(square) = square {
        context |= u64::from(square.to_u32() + 1) << 48;
    }
    let rooks = last.position.castles().castling_rights().0;
    mix(key ^ mix(context ^ rooks.wrapping_mul(FACTORS[1])))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        network::{input::encoder::encode, tests::game},
    };

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    fn key(fen: &str, moves: &str) -> u64 {
        position_key(
            game(fen, moves).plies(),
            HistoryFill::FenOnly,
            &HistoryRead::ALL,
        )
    }

    /// The pieces now and the opponent's pawns one ply ago, castling and rule 50: enough to capture en passant.
    fn little_read() -> HistoryRead {
        let planes = (0..12).chain([19, 104, 105, 106, 107, 109]);
        HistoryRead::of(InputFormat::Classical112, planes.collect())
    }

    #[test]
    fn alphazeros_planes_count_moves_and_repetitions() {
        // The same positions at another move of the game.
        let keys = |reads: &HistoryRead| {
            [70, 71].map(|number| {
                let fen = format!("8/8/1k6/8/8/1K6/4p3/8 w - - 10 {number}");
                let game = game(&fen, "b3c3 b6c6");
                position_key(game.plies(), HistoryFill::No, reads)
            })
        };
        let [one, other] = keys(&HistoryRead::ALL);
        assert_eq!(one, other);
        let [one, other] = keys(&HistoryRead::ALPHAZERO);
        assert_ne!(one, other);
        // A third occurrence is not a second one, whatever the move number.
        let game = game(START, &"g1f3 g8f6 f3g1 f6g8 ".repeat(5));
        let plies = &game.plies()[8..];
        let mut fewer = plies.to_vec();
        for ply in &mut fewer {
            ply.repetitions = 1;
        }
        let both = |reads| [plies, &fewer].map(|line| position_key(line, HistoryFill::No, reads));
        let [more, less] = both(&HistoryRead::ALL);
        assert_eq!(more, less);
        let [more, less] = both(&HistoryRead::ALPHAZERO);
        assert_ne!(more, less);
    }

    #[test]
    fn history_counters_and_rights_all_count() {
        let keys = [
            // The same board by two move orders.
            key(START, "g1f3 g8f6 b1c3"),
            key(START, "b1c3 g8f6 g1f3"),
            // Another rule-50 counter.
            key("8/8/1k6/8/8/1K6/4p3/8 w - - 10 70", ""),
            key("8/8/1k6/8/8/1K6/4p3/8 w - - 11 70", ""),
            // Castling rights.
            key("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", ""),
            key("r3k2r/8/8/8/8/8/8/R3K2R w Kkq - 0 1", ""),
            // Which rook may castle.
            key("1k6/8/8/8/8/8/8/K4RR1 w F - 0 1", ""),
            key("1k6/8/8/8/8/8/8/K4RR1 w G - 0 1", ""),
            // A repetition.
            key(START, "g1f3 g8f6 f3g1 f6g8"),
            key(START, ""),
            // A double step that nobody can capture, undone in the filled history.
            key(
                "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1",
                "",
            ),
            key(
                "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
                "",
            ),
        ];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[i + 1..] {
                assert_ne!(a, b);
            }
        }
        // What is nine positions ago does not count, except through repetitions.
        let shuffle = "a7a6 a2a3 b7b6 b2b3 c7c6 c2c3 d7d6 d2d3";
        let one = key(START, &format!("e2e4 e7e5 g1f3 {shuffle}"));
        let other = key(START, &format!("g1f3 e7e5 e2e4 {shuffle}"));
        assert_eq!(one, other);
    }

    #[test]
    fn what_counts_follows_from_the_planes_that_are_read() {
        let of = |planes: &[usize]| {
            HistoryRead::of(InputFormat::Classical112, planes.iter().copied().collect())
        };
        assert_eq!(
            HistoryRead::of(InputFormat::Classical112, PlaneSet::ALL),
            HistoryRead::ALL
        );
        assert_eq!(
            HistoryRead::of(InputFormat::Canonical, PlaneSet::from_iter([0])),
            HistoryRead {
                is_cut: true,
                ..HistoryRead::ALL
            }
        );
        assert!(HistoryRead::of(InputFormat::CanonicalV2, PlaneSet::ALL).only_repeated);
        let short = little_read();
        assert_eq!(short.count, 2);
        assert_eq!(
            short.steps[..3],
            [StepRead::Board, StepRead::Pieces(1 << 6), StepRead::Nothing]
        );
        assert_eq!(of(&[0, 12]).steps[0], StepRead::Whole);
        assert_eq!(of(&[13, 14, 15, 16, 17]).steps[1], StepRead::Board);
        assert_eq!((of(&[3, 91]).count, of(&[111]).count), (8, 1));
    }

    #[test]
    fn formats_of_repeated_positions_look_back_to_the_last_capture() {
        // Twice the same last eight positions; once the one before them was a repetition.
        let walk = "h1g1 a8a7 g1f1 a7a6 f1e1 a6a5 e1d1 a5a4";
        let repeated = game(
            "kn6/8/8/8/8/8/8/1N5K w - - 9 20",
            &format!("b1c3 b8c6 c3b1 c6b8 {walk}"),
        );
        let other = game(
            "1n6/8/k7/8/8/7K/8/1N6 w - - 9 20",
            &format!("h3h2 a6a7 h2h1 a7a8 {walk}"),
        );
        let [repeated, other] = [repeated, other].map(|game| {
            [
                HistoryRead::ALL,
                HistoryRead::of(InputFormat::CanonicalV2, PlaneSet::ALL),
            ]
            .map(|reads| position_key(game.plies(), HistoryFill::FenOnly, &reads))
        });
        assert_eq!(repeated[0], other[0]);
        assert_ne!(repeated[1], other[1]);
    }

    #[test]
    fn formats_that_cut_the_history_do_so_at_an_en_passant_square() {
        // Eight positions, the first from a FEN with a square or none.
        let knights = |square: &str| {
            let fen = format!("4k1n1/8/8/8/4P3/8/8/4K1N1 b - {square} 0 1");
            game(&fen, "g8f6 g1f3 e8d8 e1d1 d8c8 d1c1 c8b8")
        };
        // A double step whose capture is no legal move, as that pawn is pinned, or two single ones; then seven moves.
        let pinned = |(rank, step): (&str, &str)| {
            let fen = format!("3k4/8/8/8/3p4/{rank}/3R3K w - - 0 1");
            game(&fen, &format!("{step} d8c7 h1g1 c7b7 g1f1 b7a7 f1e1 a7a8"))
        };
        let pairs = [
            ["e3", "-"].map(knights),
            [("8/4P3", "e2e4"), ("4P3/8", "e3e4")].map(pinned),
        ];
        let canonical = HistoryRead::of(InputFormat::Canonical, PlaneSet::ALL);
        for games in &pairs {
            let planes = |format| {
                let [one, other] = games
                    .each_ref()
                    .map(|game| encode(game.plies(), format, HistoryFill::FenOnly).masks);
                one == other
            };
            let keys = |reads: &HistoryRead, later: bool| {
                let [one, other] = games.each_ref().map(|game| {
                    let mut game = game.clone();
                    if later {
                        let moves: Vec<_> = legal_moves(game.position()).collect();
                        game.push(moves[0]);
                    }
                    position_key(game.plies(), HistoryFill::FenOnly, reads)
                });
                one == other
            };
            assert!(!planes(InputFormat::Canonical) && !keys(&canonical, false));
            // Other formats do not, and a move later the square is too long ago.
            assert!(planes(InputFormat::Classical112) && keys(&HistoryRead::ALL, false));
            assert!(keys(&canonical, true));
        }
    }

    /// Short random games with few different moves, so that several move orders lead to the same positions.
    fn random_games(count: u64) -> impl Iterator<Item = History> {
        (0..count).map(|seed| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut game = game(START, "");
            for _ in 0..rng.random_range(1..7) {
                let moves: Vec<_> = legal_moves(game.position()).collect();
                // Few of them, double steps and captures among them.
                let few = moves.iter().filter(|m| m.from().to_u32() % 8 < 2);
                let few: Vec<_> = few.copied().collect();
                let Some(&m) = few.get(rng.random_range(0..few.len().max(1))) else {
                    break;
                };
                game.push(m);
            }
            game
        })
    }

    #[test]
    fn equal_keys_mean_equal_planes_as_far_as_they_are_read() {
        let read: Vec<usize> = (0..12).chain([19, 104, 105, 106, 107, 109]).collect();
        let mut seen: HashMap<u64, (Vec<u64>, u64)> = HashMap::new();
        let mut transpositions = 0;
        for game in random_games(4000) {
            let planes = encode(
                game.plies(),
                InputFormat::Classical112,
                HistoryFill::FenOnly,
            );
            let mut masks: Vec<u64> = read.iter().map(|&plane| planes.masks[plane]).collect();
            masks.push(planes.rule50.to_bits().into());
            masks.push(planes.black_to_move.into());
            let full = position_key(game.plies(), HistoryFill::FenOnly, &HistoryRead::ALL);
            let short = position_key(game.plies(), HistoryFill::FenOnly, &little_read());
            let (known, first) = seen.entry(short).or_insert((masks.clone(), full));
            assert_eq!(*known, masks);
            transpositions += usize::from(*first != full);
        }
        assert!(transpositions > 100, "{transpositions}");
    }
}
