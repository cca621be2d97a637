//! Analysis of positions and games: what to analyse ([`input`]), the search of a position ([`position`]) and its result
//! ([`record`]), the file of results that an interrupted analysis continues ([`results`]), test suites ([`suite`]), and
//! reviews of whole games ([`review`]) as annotated PGN ([`annotate`]) or as a page ([`report`]). Reviews have models
//! of the players ([`opponents`]), for traps ([`traps`]), and give each side an [`accuracy`].

pub mod accuracy;
pub mod annotate;
pub mod input;
pub mod opponents;
pub mod position;
pub mod record;
pub mod report;
pub mod results;
pub mod review;
pub mod suite;
pub mod traps;

use shakmaty::Color;

/// Evaluations of games are shown from White's point of view.
fn sign(turn: Color) -> f32 {
    turn.fold_wb(1.0, -1.0)
}
