//! Evaluators made of others: one with a memory ([`cache`]), one with the opponent's priors ([`opponent`]), several
//! devices side by side ([`multi`]).

pub mod cache;
pub mod multi;
pub mod opponent;
