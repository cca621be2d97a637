//! The error of a tree whose 32-bit ids are used up.

use thiserror::Error;

/// The tree has no room for more: 2^32 nodes or edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the tree is full (2^32 nodes or edges)")]
pub struct TreeFull;
