//! From the options to an evaluator: what they say about networks ([`config`]), the network's file ([`weights`]), the
//! players inside the program ([`human`]), the backend that evaluates it ([`registry`]), the ranges that 8 bits need ([`calibrate`]),
//! the options that it asks for ([`wishes`]), and what can go wrong ([`errors`]).

pub mod calibrate;
pub mod config;
pub mod errors;
pub mod human;
pub mod registry;
pub mod weights;
pub mod wishes;

pub use self::{
    config::NetworkConfig,
    errors::LoadError,
    registry::{BACKENDS, Tell, load_backend, probe},
};
