//! Look-ahead: finds moves of a new position that end the game.
//!
//! Videodr0me's certainty propagation tests the moves of a position as soon as it is reached, instead of waiting
//! until a visit tries them. A move that mates proves the position won; if every move draws (stalemate, dead
//! position, 50 moves, third repetition) it is proven drawn. Only moves that give check can mate, and one move that
//! does not draw settles the other question, so that nearly always no more than a few of a position's moves are
//! played out, and no list of them is made.

use shakmaty::{Chess, Position};

use super::{
    tree::{TreeFull, edges::EdgeWriter, node::Origin},
    visits::Leaf,
};
use crate::{
    chess::{
        History, PackedMove,
        checks::Checks,
        moves::{has_legal_move, legal_moves, obvious_moves},
    },
    network::Value,
};

/// What the moves of a position prove.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ahead {
    /// This move mates.
    Mates(PackedMove),
    /// Every move draws at once, including this one.
    Draws(PackedMove),
}

impl Ahead {
    /// The proven leaf, whose one edge is the move that proves it.
    ///
    /// # Errors
    /// When the tree has no room for the edge.
    pub fn into_leaf(self, writer: &mut EdgeWriter) -> Result<Leaf, TreeFull> {
        let (m, result) = match self {
            Ahead::Mates(m) => (m, 1),
            Ahead::Draws(m) => (m, 0),
        };
        Ok(Leaf {
            value: Value {
                wl: f32::from(result),
                d: f32::from(1 - result),
                m: 1.0,
            },
            terminal: Some((result, Origin::Children)),
            edges: writer.write_moves(&[m], &[1.0])?,
        })
    }
}

/// Examines the legal moves, at least one, of the position at the end of `history`.
pub(super) fn look_ahead(history: &History) -> Option<Ahead> {
    let mate = mating_move(history.position()).map(Ahead::Mates);
    mate.or_else(|| last_draw(history).map(Ahead::Draws))
}

/// A move that mates. Only moves that give check are tried, and they are found without generating all moves.
fn mating_move(position: &Chess) -> Option<PackedMove> {
    let checks = Checks::of(position)?;
    let found = checks.find(|m| {
        let mut after = position.clone();
        after.play_unchecked(m);
        !has_legal_move(&after) && !leaves_king(&after)
    });
    if let Some(m) = found {
        return Some(PackedMove::pack(m));
    }
    let is_mate = |m: &PackedMove| is_mate(position, Some(&checks), *m);
    let mut rare = checks.may_be_rare().then(|| legal_moves(position));
    rare.as_mut().and_then(|moves| moves.find(is_mate))
}

/// Whether the last move was illegal, because its side's king can be captured.
fn leaves_king(after: &Chess) -> bool {
    let (board, turn) = (after.board(), after.turn());
    let king = board.king_of(turn.other());
    king.is_some_and(|king| board.attacks_to(king, turn, board.occupied()).any())
}

/// One of the moves, if all of them end the game in a draw.
fn last_draw(history: &History) -> Option<PackedMove> {
    let mut game = Probe::new(history);
    let mut is_open = |m: PackedMove| !game.is_draw_after(m);
    let position = history.position();
    if obvious_moves(position).next().is_some_and(&mut is_open) {
        return None;
    }
    let mut moves = legal_moves(position);
    let first = moves.next()?;
    let is_any_open = is_open(first) || moves.any(is_open);
    (!is_any_open).then_some(first)
}

/// Whether this legal move mates.
pub(super) fn mates(position: &Chess, m: PackedMove) -> bool {
    is_mate(position, Checks::of(position).as_ref(), m)
}

/// Whether the rules end the game in a draw after this legal move from the end of `history`.
pub(super) fn draws(history: &History, m: PackedMove) -> bool {
    !mates(history.position(), m) && Probe::new(history).is_draw_after(m)
}

/// Like [`mates`], with the position's checks.
fn is_mate(position: &Chess, checks: Option<&Checks<'_>>, m: PackedMove) -> bool {
    checks.is_some_and(|checks| checks.gives_check(m)) && {
        let mut after = position.clone();
        after.play_unchecked(m.unpack(position));
        !has_legal_move(&after)
    }
}

/// A game in which moves are tried; it is copied when the first one is.
struct Probe<'a> {
    history: &'a History,
    copy: Option<History>,
}

impl<'a> Probe<'a> {
    fn new(history: &'a History) -> Probe<'a> {
        Probe {
            history,
            copy: None,
        }
    }

    /// Whether the rules end the game in a draw after this legal move, which does not mate.
    fn is_draw_after(&mut self, m: PackedMove) -> bool {
        let position = self.history.position();
        let mut after = position.clone();
        after.play_unchecked(m.unpack(position));
        if after.is_insufficient_material() || after.halfmoves() >= 100 || !has_legal_move(&after) {
            return true;
        }
        // A third repetition needs a second one within the last reversible plies.
        let plies = self.history.plies().iter().rev();
        let reversible = after.halfmoves() as usize;
        if !plies.take(reversible).any(|ply| ply.repetitions > 0) {
            return false;
        }
        let game = self.copy.get_or_insert_with(|| self.history.clone());
        let len = game.len();
        game.push(m);
        let is_repeated = game.last().repetitions >= 2;
        game.truncate(len);
        is_repeated
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use shakmaty::{CastlingMode, fen::Fen};

    use super::*;

    fn game(fen: &str) -> History {
        let position = fen.parse::<Fen>().unwrap();
        History::new(position.into_position(CastlingMode::Chess960).unwrap())
    }

    fn ahead(fen: &str) -> Option<(bool, String)> {
        let game = game(fen);
        let name = |m: PackedMove| {
            m.to_uci(game.position(), CastlingMode::Standard)
                .to_string()
        };
        look_ahead(&game).map(|ahead| match ahead {
            Ahead::Mates(m) => (true, name(m)),
            Ahead::Draws(m) => (false, name(m)),
        })
    }

    #[test]
    fn every_kind_of_mating_move_is_found() {
        for (fen, expected) in [
            // Rook, queen, smothering knight, bishop, pawn.
            ("6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1", "a1a8"),
            ("7k/8/5K2/6Q1/8/8/8/8 w - - 0 1", "g5g7"),
            ("6rk/6pp/8/6N1/8/8/8/K7 w - - 0 1", "g5f7"),
            // The king steps out of the bishop's way.
            ("7k/7p/5K1N/8/8/8/1B6/8 w - - 0 1", "f6"),
            // Promotion, and no mate at all.
            ("6k1/P4ppp/8/8/8/8/8/4K3 w - - 0 1", "a7a8"),
            ("7k/5K1p/6pP/8/8/8/6B1/8 w - - 0 1", ""),
        ] {
            match expected {
                "" => assert_eq!(ahead(fen), None, "{fen}"),
                _ => {
                    let (mates, m) = ahead(fen).unwrap_or_default();
                    assert!(mates && m.starts_with(expected), "{fen}: {m}");
                }
            }
        }
    }

    #[test]
    fn a_position_is_drawn_if_all_its_moves_draw() {
        // The king must take the last pawn.
        assert_eq!(ahead("8/8/8/8/8/1k6/1p6/K7 w - - 0 1"), None);
        assert_eq!(
            ahead("7k/8/8/8/8/8/1p6/K7 w - - 0 1").map(|found| found.0),
            None
        );
        let (mates, m) = ahead("7k/8/8/8/8/8/1q6/K7 w - - 0 1").unwrap();
        assert!(!mates && m == "a1b2");
        // On the 50th move anything draws that does not mate.
        assert!(!ahead("7k/8/8/8/8/8/R7/K7 w - - 99 80").unwrap().0);
        assert!(ahead("7k/8/6K1/8/8/8/R7/8 w - - 99 80").unwrap().0);
        assert_eq!(ahead("7k/8/8/8/8/8/R7/K7 w - - 98 80"), None);
    }

    #[test]
    fn a_third_repetition_draws() {
        let mut game = game("7k/8/8/8/8/8/7r/K7 w - - 0 1");
        let find = |game: &History, name: &str| {
            let is_it = |m: &PackedMove| {
                m.to_uci(game.position(), CastlingMode::Standard)
                    .to_string()
                    == name
            };
            legal_moves(game.position()).find(is_it).unwrap()
        };
        // White's only move is back and forth.
        for name in [
            "a1b1", "h2g2", "b1a1", "g2h2", "a1b1", "h2g2", "b1a1", "g2h2",
        ] {
            game.push(find(&game, name));
        }
        let moves: Vec<PackedMove> = legal_moves(game.position()).collect();
        assert_eq!(moves.len(), 1);
        let ahead = look_ahead(&game);
        assert_eq!(ahead, Some(Ahead::Draws(moves[0])));
    }

    #[test]
    fn random_games_have_the_same_ends_as_played() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        let (mut mates, mut draws) = (0, 0);
        for start in 0..400 {
            // Half of the games have few pieces, where most ends are.
            let mut game = game(match start % 4 {
                0 => "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
                1 => "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
                2 => "7k/R7/5K2/8/8/8/8/8 w - - 90 90",
                _ => "k7/pR6/8/3q4/8/6p1/P5P1/7K w - - 80 90",
            });
            for _ in 0..150 {
                let position = game.position().clone();
                let moves: Vec<PackedMove> = legal_moves(&position).collect();
                if moves.is_empty() || position.is_insufficient_material() {
                    break;
                }
                let mut end = |m: PackedMove| {
                    game.push(m);
                    let last = game.last();
                    let is_stuck = last.position.legal_moves().is_empty();
                    let is_mate = is_stuck && last.position.is_check();
                    let is_draw = is_stuck
                        || last.position.is_insufficient_material()
                        || last.rule50() >= 100
                        || last.repetitions >= 2;
                    game.truncate(game.len() - 1);
                    (is_mate, is_draw)
                };
                let ends: Vec<(bool, bool)> = moves.iter().map(|&m| end(m)).collect();
                match look_ahead(&game) {
                    Some(Ahead::Mates(m)) => {
                        let at = moves.iter().position(|&other| other == m);
                        assert!(ends[at.unwrap()].0, "{position:?} {m:?}");
                        mates += 1;
                    }
                    Some(Ahead::Draws(m)) => {
                        assert!(moves.contains(&m));
                        assert!(ends.iter().all(|&(mate, draw)| draw && !mate));
                        draws += 1;
                    }
                    None => {
                        assert!(!ends.iter().any(|end| end.0), "{position:?}");
                        assert!(!ends.iter().all(|end| end.1), "{position:?}");
                    }
                }
                game.push(moves[rng.random_range(0..moves.len())]);
            }
        }
        assert!(mates > 100 && draws > 20, "{mates} mates, {draws} draws");
    }
}
