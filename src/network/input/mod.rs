//! What networks see and how they answer: from a line of play to input planes ([`encoder`]), to the key under which a
//! position is cached ([`key`]), and from the policy vector to moves ([`policy_map`]).

pub mod encoder;
pub mod key;
pub mod planes;
pub mod policy_map;

pub use planes::{PLANES, Planes};
