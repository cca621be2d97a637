//! The rules of a game, whoever plays it: its start ([`openings`], [`odds`]) and its end ([`adjudicate`]).
//!
//! Shared by self-play, matches and analysis.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod adjudicate;
pub mod odds;
pub mod openings;
