//! Policy/value networks: what goes in, what comes out, and who computes it.
//!
//! A search adds positions to an [`Evaluator`]: the evaluation of one is known at once, or waits in a [`Batch`],
//! which afterwards holds, for each position, a probability per legal move, win/draw/loss and the expected length of
//! the game.
//!
//! ```text
//! load      from the options to an evaluator
//! compose   evaluators made of others: the cache, transforms of priors, the opponent's network
//! backend   what computes: the list of backends, one file each
//! source    from a network file to a model that a backend can run
//! input     from a line of play to input planes, and from the policy vector to moves
//! ```
//!
//! Each of these parts depends only on those below it, and on the [`Batch`] and [`Evaluator`] that all share.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod backend;
pub mod batch;
pub mod batch_times;
pub mod compose;
pub mod evaluator;
pub mod input;
pub mod load;
pub mod measure;
pub mod prior;
pub mod source;

pub use self::{
    backend::hash,
    batch::Batch,
    batch_times::{BatchTimes, Delay},
    compose::{cached, opponent},
    evaluator::{Added, Advice, EvalPosition, EvaluateError, Evaluator, Info, cores},
};
pub use crate::chess::wdl::Value;

#[cfg(test)]
pub(crate) mod tests {
    use shakmaty::{CastlingMode, Chess, fen::Fen, uci::UciMove};

    use crate::chess::History;

    /// The position of a FEN.
    pub(crate) fn position(fen: &str) -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    /// The game that starts at `fen` with these moves in UCI.
    pub(crate) fn game(fen: &str, moves: &str) -> History {
        let mut game = History::new(position(fen));
        for text in moves.split_whitespace() {
            let uci: UciMove = text.parse().unwrap();
            let m = uci.to_move(game.position()).unwrap();
            game.push_move(m);
        }
        game
    }
}
