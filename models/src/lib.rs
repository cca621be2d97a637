//! The files of the program in which threads wait for each other, under many orders of these threads.
//!
//! They are compiled as they are. They use locks of `parking_lot` only, and that name means this crate here, whose
//! locks are `shuttle`'s: it runs the threads one at a time and decides at every lock which one goes on. A thread that
//! waits for ever is reported as a deadlock, so time limits never pass here. Atomic flags are the standard library's:
//! other threads do not run between two of their operations.

#![cfg(test)]

extern crate self as parking_lot;

mod locks;

pub use locks::{Condvar, Mutex, MutexGuard};

#[path = "../../src/search/driver/hand_over.rs"]
mod hand_over;
#[allow(dead_code, reason = "the models do not need all of it")]
#[path = "../../src/engine/latest.rs"]
mod latest;
#[path = "../../src/uci/write_queue.rs"]
mod write_queue;

mod tests;
