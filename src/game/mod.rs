//! What every game needs, whoever plays it: where it begins ([`openings`], [`odds`]) and when it ends ([`adjudicate`]).
//!
//! Self-play, matches and analysis share it.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod adjudicate;
pub mod odds;
pub mod openings;
