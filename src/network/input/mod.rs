//! The inputs and outputs of networks. An [`Encoding`] says which planes and which policy vector a network has; a
//! [`View`] adds what it reads of the history and which heads it has. Below them: from a line of play to lc0's planes
//! ([`encoder`]), to AlphaZero's ([`alphazero`]), to the key under which a position is cached ([`key`]), and from
//! lc0's policy vector to moves ([`policy_map`]).

pub mod alphazero;
pub mod encoder;
pub mod encoding;
pub mod key;
pub mod planes;
pub mod policy_map;
pub mod view;

pub use self::{
    encoding::Encoding,
    planes::{InputRows, Inputs, PLANES, Planes},
    view::View,
};
