//! Matches between two engines, each a process that speaks UCI: who plays and what a move may cost ([`player`]), one game
//! with every fault of an engine ([`game`]), all games on several threads ([`run`]), their file and how a match goes on
//! ([`record`]), and what came of it ([`tally`], [`report`]).
//!
//! An engine that crashes, hangs, plays an illegal move or oversteps its time loses that game, and the match says so and
//! goes on; what cannot be played at all (a program that does not start, an option that does not exist) ends it before the
//! first game.

pub mod game;
pub mod player;
pub mod record;
pub mod report;
pub mod run;
pub mod tally;
