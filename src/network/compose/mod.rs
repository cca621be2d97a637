//! Evaluators made of others: a backend with its cache ([`cache`]) and the transforms of its priors ([`cached`],
//! [`prior_transforms`]), and the main network with those beside it ([`search_evaluator`]); and which networks the
//! options name ([`opponent`], [`role`]).

pub mod cache;
pub mod cached;
pub mod opponent;
pub mod prior_transforms;
pub mod role;
pub mod search_evaluator;
