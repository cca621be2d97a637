//! Matches between two engines, each a UCI process: the engines and their limits ([`player`]), one game with forfeits
//! ([`game`]), all games on several threads ([`run`]), the file of games by which a match is resumed ([`record`]),
//! and the results ([`tally`], [`report`]).
//!
//! An engine that crashes, hangs, plays an illegal move or exceeds its time forfeits that game, which is reported,
//! and the match continues. A match that cannot be played at all (a program that does not start, an option that does
//! not exist) fails before the first game.

pub mod game;
pub mod player;
pub mod record;
pub mod report;
pub mod run;
pub mod tally;
