//! Games that the program plays by itself or has others play: where they begin ([`openings`]) and when they end
//! ([`adjudicate`]).

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod adjudicate;
pub mod openings;
