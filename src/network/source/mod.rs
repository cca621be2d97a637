//! From the value of `WeightsFile` to a model that a backend can run: the networks inside the program ([`built_in`]),
//! network files ([`network`]), the activation ranges that 8 bits need ([`calibrate`]), and the options that a
//! network recommends ([`recommended`]).

pub mod built_in;
pub mod calibrate;
pub mod network;
pub mod recommended;

pub use self::network::{Network, NetworkSource, WeightsError, built_in_model, discovered};
