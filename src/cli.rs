//! The command line.

use std::{io, process::ExitCode, sync::Arc};

use anyhow::bail;

use crate::{
    network::{Evaluator, hash::HashEvaluator},
    options::Options,
    uci::{self, output::Output},
};

/// Runs.
pub fn main() -> ExitCode {
    let output = Output::new(Box::new(io::stdout()));
    let load = |options: &Options| -> anyhow::Result<Arc<dyn Evaluator>> {
        if options.backend == "hash" {
            Ok(Arc::new(HashEvaluator))
        } else {
            bail!("no backend {}", options.backend)
        }
    };
    uci::run(
        io::BufReader::new(io::stdin()),
        &output,
        Options::default(),
        Arc::new(load),
    );
    ExitCode::SUCCESS
}
