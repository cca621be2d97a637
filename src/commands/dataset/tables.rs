//! `scorn dataset tables`: exact labels for endgames, from Syzygy tablebases.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use crate::{
    commands::progress,
    dataset::record_file::{Layout, RecordReader, RecordWriter},
    files::output::NewFile,
    labeling::tables,
    syzygy::Tables,
    terminal::eprint_line,
};

/// Options of `dataset tables`.
#[derive(Args, Debug)]
pub struct TablesArgs {
    /// Record file; existing labels are replaced.
    pub input: PathBuf,
    /// Record file to write.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Folders of Syzygy tablebases, separated as in SyzygyPath; without DTZ tables, mates are not labelled.
    #[arg(long, alias = "tables", value_name = "FOLDERS")]
    pub syzygy: String,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Labels the positions that the tables contain, skips the others, and returns both numbers.
///
/// # Errors
/// When a file cannot be read or written, there are no tables, or they contain none of the positions.
pub fn run(args: &TablesArgs) -> Result<(u64, u64)> {
    let tables = Tables::open(&args.syzygy)?;
    let records = RecordReader::open(&args.input)?;
    let file = NewFile::create(&args.out, args.force, std::slice::from_ref(&args.input))?;
    let mut writer = RecordWriter::new(file, &args.out, Layout::Plain)?;
    let bar = progress::records(records.count, "labelling");
    let mut left_out = 0;
    for next in records.positions() {
        let (mut record, position) = next?;
        if tables::apply(&mut record, &position, &tables) {
            writer.write(&record)?;
        } else {
            left_out += 1;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let faults = tables.new_faults();
    ensure!(
        writer.count > 0,
        "{}: the tables contain none of its positions. {}",
        args.input.display(),
        faults.join(". ")
    );
    for fault in faults {
        eprint_line(&fault);
    }
    Ok((writer.finish()?, left_out))
}
