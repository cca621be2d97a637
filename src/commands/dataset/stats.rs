//! `scorn dataset stats`: statistics of record files.

use std::path::PathBuf;

use clap::Args;

/// Options of `dataset stats`.
#[derive(Args, Debug)]
pub struct DatasetStatsArgs {
    /// Record files.
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Print a JSON object: for each source of records its counts.
    #[arg(long)]
    pub json: bool,
}
