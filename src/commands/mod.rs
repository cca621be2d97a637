//! The subcommands of the program, one file (or folder) each: its arguments, what it reads, shows and writes. What can be
//! used without a command line lives elsewhere in the library; only [`cli`](crate::cli) calls what is here.

pub mod analyze;
pub mod backendbench;
pub mod bench;
pub mod benchmark;
pub mod chunk;
pub mod convert;
pub mod dataset;
pub mod describe;
pub mod r#match;
mod numbers;
pub mod options;
pub mod runtime;
pub mod selfplay;
pub mod stats;
pub mod train;
pub mod tune;

use crate::{
    syzygy::{Tables, TablesError},
    terminal::eprint_line,
};

/// Opens tablebases, and tells what is wrong with some of them.
///
/// # Errors
/// When there are none.
fn open_tables(path: &str) -> Result<Tables, TablesError> {
    let tables = Tables::open(path)?;
    for fault in tables.new_faults() {
        eprint_line(format_args!("scorn: {fault}"));
    }
    Ok(tables)
}
