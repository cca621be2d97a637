//! The subcommands of the program, one file or folder each: arguments and display. Everything that can be used
//! without a command line is elsewhere in the library; only [`cli`](crate::cli) uses this module.

pub mod analyze;
pub mod backendbench;
pub mod bench;
pub mod benchmark;
pub mod chunk;
pub mod completions;
pub mod convert;
pub mod dataset;
pub mod describe;
pub mod r#match;
mod numbers;
pub mod options;
pub mod page;
mod progress;
pub mod runtime;
pub mod selfplay;
pub mod stats;
pub mod train;
pub mod tune;

use crate::{
    syzygy::{Tables, TablesError},
    terminal::eprint_line,
};

/// Opens tablebases, and prints a warning for each unusable part.
///
/// # Errors
/// When no tablebase can be used.
fn open_tables(path: &str) -> Result<Tables, TablesError> {
    let tables = Tables::open(path)?;
    print_faults(&tables);
    Ok(tables)
}

/// Prints the faults of tablebases that were found since the last time.
fn print_faults(tables: &Tables) {
    for fault in tables.new_faults() {
        eprint_line(format_args!("scorn: {fault}"));
    }
}
