//! Evaluators made of others: one with a memory ([`cache`]) or another temperature ([`decorators`]), one with the
//! opponent's priors ([`opponent_priors`]), several devices side by side ([`multi`]), one network between two ([`between`]); and the networks of a game, which are
//! one or two ([`opponent`], [`role`]).

pub mod between;
pub mod cache;
pub mod check_bonus;
pub mod decorators;
pub mod multi;
pub mod opponent;
pub mod opponent_priors;
pub mod refine;
pub mod role;
