//! How tactical games are: shots (sacrifices, promotions and mates) soon after a position, and how uneven the material
//! is. The paper on search-contempt calls such positions interesting, without numbers.

use serde::Serialize;
use shakmaty::{Chess, Color, KnownOutcome, Position, Role};

use super::clusters::{ClusterMean, MeanEstimate};
use crate::chess::{PackedMove, see};

/// A shot counts for the positions up to this many plies before it.
pub const PLIES_AHEAD: usize = 6;
/// A move sacrifices if it loses this many centipawns in the exchange on its square.
pub const SACRIFICE: i32 = 200;
/// Material is imbalanced if the difference of pieces stays for this many plies, so that exchanges are no imbalance.
pub const PLIES_LASTING: usize = 4;

/// Kinds of shots; the index of each in [`Tactics`].
const KINDS: [&str; 3] = ["sacrifice", "promotion", "mate"];

/// Tactics of games.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tactics {
    /// Positions with any shot ahead, then those with each kind.
    any: ClusterMean,
    kinds: [ClusterMean; KINDS.len()],
    imbalance: ClusterMean,
    material: ClusterMean,
}

/// The statistics of [`Tactics`]: shares of positions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TacticsSummary {
    /// With a shot within the next [`PLIES_AHEAD`] plies of the game.
    pub shots: MeanEstimate,
    /// With a sacrifice: a move, by a side that does not lose the game, that loses [`SACRIFICE`] centipawns in the
    /// exchange on its square.
    pub sacrifices: MeanEstimate,
    /// With a promotion.
    pub promotions: MeanEstimate,
    /// With mate.
    pub mates: MeanEstimate,
    /// In which the sides differ in queens, rooks or minor pieces, now and for [`PLIES_LASTING`] plies.
    pub imbalanced: MeanEstimate,
    /// The mean difference of material, in pawns (minor pieces 3, rooks 5, queens 9).
    pub material: MeanEstimate,
}

/// The difference of the sides' numbers of pawns, minor pieces, rooks and queens.
fn difference(position: &Chess) -> [i32; 4] {
    let board = position.board();
    let of = |roles: &[Role]| {
        let count = |color: Color| -> i32 {
            let pieces = roles
                .iter()
                .map(|&role| board.by_piece(role.of(color)).count());
            pieces.sum::<usize>() as i32
        };
        count(Color::White) - count(Color::Black)
    };
    [
        of(&[Role::Pawn]),
        of(&[Role::Knight, Role::Bishop]),
        of(&[Role::Rook]),
        of(&[Role::Queen]),
    ]
}

/// Whether a move gives material away for nothing on its square.
fn is_sacrifice(position: &Chess, m: shakmaty::Move, outcome: Option<KnownOutcome>) -> bool {
    let loses_game = match outcome {
        None => true,
        Some(outcome) => outcome.winner() == Some(!position.turn()),
    };
    !loses_game && !see::at_least(position, m, 1 - SACRIFICE)
}

impl Tactics {
    /// Adds a game: start position, moves, final position and, if known, the result.
    pub fn add_game(
        &mut self,
        start: &Chess,
        moves: &[PackedMove],
        end: &Chess,
        outcome: Option<KnownOutcome>,
    ) {
        let plies = moves.len();
        let mut position = start.clone();
        let mut shots = vec![[false; KINDS.len()]; plies];
        let mut differences = Vec::with_capacity(plies + 1);
        for (packed, shot) in moves.iter().zip(&mut shots) {
            differences.push(difference(&position));
            let m = packed.unpack(&position);
            shot[0] = is_sacrifice(&position, m, outcome);
            shot[1] = m.is_promotion();
            position.play_unchecked(m);
        }
        differences.push(difference(end));
        if let Some(last) = shots.last_mut() {
            last[2] = end.is_checkmate();
        }
        let ahead = |ply: usize| &shots[ply..plies.min(ply + PLIES_AHEAD)];
        let count = |holds: &dyn Fn(usize) -> bool| (0..plies).filter(|&ply| holds(ply)).count();
        let any = |ply: usize| ahead(ply).iter().flatten().any(|&is_shot| is_shot);
        self.any.add(plies, count(&any) as f64);
        for (kind, mean) in self.kinds.iter_mut().enumerate() {
            let of_kind = |ply: usize| ahead(ply).iter().any(|shot| shot[kind]);
            mean.add(plies, count(&of_kind) as f64);
        }
        // Pawns are left out: hardly a game has equally many all the time.
        let lasts = |ply: usize| {
            let now = &differences[ply][1..];
            let later = differences[ply..].get(..=PLIES_LASTING);
            now != [0; 3] && later.is_some_and(|all| all.iter().all(|other| other[1..] == *now))
        };
        self.imbalance.add(plies, count(&lasts) as f64);
        let pawns = |[pawns, minors, rooks, queens]: [i32; 4]| {
            f64::from((pawns + 3 * minors + 5 * rooks + 9 * queens).abs())
        };
        let material = differences[..plies].iter().copied().map(pawns);
        self.material.add(plies, material.sum());
    }

    /// Adds the games of another file.
    pub fn append(&mut self, other: &Tactics) {
        self.any.append(&other.any);
        for (kind, more) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.append(more);
        }
        self.imbalance.append(&other.imbalance);
        self.material.append(&other.material);
    }

    /// The shares; `None` without positions.
    pub fn summary(&self) -> Option<TacticsSummary> {
        let [sacrifices, promotions, mates] = self.kinds.map(|kind| kind.estimate());
        Some(TacticsSummary {
            shots: self.any.estimate()?,
            sacrifices: sacrifices?,
            promotions: promotions?,
            mates: mates?,
            imbalanced: self.imbalance.estimate()?,
            material: self.material.estimate()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgn::Reader;

    fn tactics(pgn: &str) -> TacticsSummary {
        let mut tactics = Tactics::default();
        for game in Reader::new(pgn.as_bytes()) {
            let game = game.unwrap();
            tactics.add_game(&game.start, &game.moves, &game.end, game.outcome);
        }
        tactics.summary().unwrap()
    }

    #[test]
    fn shots_count_for_the_plies_before_them() {
        // Légal's mate: 5. Nxe5 leaves the queen, 6. Bxf7+ and 7. Nd5 are safe. Thirteen plies, mate is the last.
        let game =
            "1. e4 e5 2. Nf3 d6 3. Bc4 Bg4 4. Nc3 g6 5. Nxe5 Bxd1 6. Bxf7+ Ke7 7. Nd5# 1-0\n";
        let one = tactics(game);
        assert!((one.mates.mean - 6.0 / 13.0).abs() < 1e-12, "{one:?}");
        assert_eq!((one.promotions.mean, one.mates.error), (0.0, None));
        // The knight would be lost on e5 for a pawn: the move is ply 8, so plies 3 to 8 have it ahead, and 7 to 12 the
        // mate.
        assert!((one.sacrifices.mean - 6.0 / 13.0).abs() < 1e-12, "{one:?}");
        assert!((one.shots.mean - 10.0 / 13.0).abs() < 1e-12, "{one:?}");
        // Whoever loses has blundered, not sacrificed.
        let lost = tactics(&game.replace("Nd5# 1-0", "Nc6 0-1"));
        assert_eq!(lost.sacrifices.mean, 0.0);
        // The queen is gone for three plies only.
        assert_eq!(one.imbalanced.mean, 0.0);
    }

    #[test]
    fn material_is_counted_in_pawns() {
        let start = "[FEN \"4k3/8/8/8/8/8/P6P/R3K3 w - - 0 1\"]\n\n";
        let moves = "1. h3 Kd7 2. h4 Kd8 3. h5 Kd7 4. h6 Kd8 5. h7 Kd7 6. h8=Q *\n";
        let one = tactics(&format!("{start}{moves}"));
        assert!((one.material.mean - 7.0).abs() < 1e-12);
        // Six plies before the promotion count, the ply of the promotion being one of them.
        assert!((one.promotions.mean - 6.0 / 11.0).abs() < 1e-12);
        // The rook is there throughout: eleven positions, of which the last four have fewer than four plies behind
        // them, and in the last window the queen comes.
        assert!((one.imbalanced.mean - 7.0 / 11.0).abs() < 1e-12, "{one:?}");
        // Exchanges are no imbalance.
        let exchange = "1. e4 d5 2. exd5 Qxd5 3. Nc3 Qa5 4. Nf3 Nf6 5. Nd5 Nxd5 1/2-1/2\n";
        assert_eq!(tactics(exchange).imbalanced.mean, 0.0);
    }

    #[test]
    fn two_files_together_equal_one_long_one() {
        let game = "1. f3 e5 2. g4 Qh4# 0-1\n\n";
        let mut twice = Tactics::default();
        let mut once = Tactics::default();
        for game in Reader::new(game.repeat(2).as_bytes()) {
            let game = game.unwrap();
            twice.add_game(&game.start, &game.moves, &game.end, game.outcome);
            let mut one = Tactics::default();
            one.add_game(&game.start, &game.moves, &game.end, game.outcome);
            once.append(&one);
        }
        assert_eq!(once, twice);
        assert_eq!(Tactics::default().summary(), None);
    }
}
