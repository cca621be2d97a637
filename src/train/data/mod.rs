//! The training data: a mixture of record files from which positions are drawn at random, the same for the same seed,
//! step and files.
//!
//! A file holds records of `scorn dataset`, or positions of `scorn selfplay` with the visits of their searches
//! ([`searched`](crate::dataset::searched)). The latter have held-out positions only where `scorn dataset search` or
//! `scorn dataset policy` took them from records that have; without any, all of a file are trained on, and tests need
//! another file.

mod games_file;
mod mixture;
mod part;
mod position_file;
mod sample_batch;
mod test_set;

pub use self::games_file::{GamesFile, MixPart};
pub use self::mixture::{BatchSampler, DrawNumber, Mixture, MixtureSettings};
pub use self::part::NetworkPart;
pub use self::sample_batch::{SampleBatch, SkipReason};
pub(super) use self::test_set::TEST_BATCH;
#[cfg(test)]
pub(super) use self::test_set::chunks;
pub use self::test_set::{TestSet, test_set};
