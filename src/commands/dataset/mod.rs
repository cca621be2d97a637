//! `scorn dataset`: training data from games, from our own searches and from a teacher.

mod label;
mod pgn;
mod planes;
mod policy;
mod sample;
mod search;
mod stats;
mod tables;
mod visit;

use anyhow::Result;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    dataset::stats::{count, table},
    options::Options,
    player::Load,
};

/// Make training data: games to records, positions to label, labels from a UCI engine.
#[derive(Args, Debug)]
pub struct DatasetArgs {
    #[command(subcommand)]
    command: DatasetCommand,
}

#[derive(Subcommand, Debug)]
enum DatasetCommand {
    /// Convert PGN games to training records
    Pgn(pgn::PgnArgs),
    /// Convert PGN games to input planes and policy entries, in AlphaZero's encoding or lc0's
    Planes(planes::PlanesArgs),
    /// Make positions for a teacher to label: real, spoilt, odds, endgames
    Sample(sample::SampleArgs),
    /// Take positions that our own search visits, for a teacher to label
    Visit(visit::VisitArgs),
    /// Ask a UCI engine for the best move and score of every record
    Label(label::LabelArgs),
    /// Label endgames by Syzygy tablebases
    Tables(tables::TablesArgs),
    /// Ask a network for the policy and value of every record, for another network to learn
    Policy(policy::PolicyArgs),
    /// Take what our own search finds at the positions that it visits often, for a network to learn
    Search(search::SearchArgs),
    /// Count what record files hold
    Stats(stats::DatasetStatsArgs),
}

/// Runs one of the subcommands; the options and networks are for those that search.
pub fn run(args: &DatasetArgs, options: &Options, load: &Load) -> Result<()> {
    match &args.command {
        DatasetCommand::Pgn(args) => {
            let counts = pgn::run(args)?;
            print_line!(
                "{} games, {} positions; skipped {} corrupt and {} short games",
                counts.games,
                counts.records,
                counts.corrupt,
                counts.short
            );
        }
        DatasetCommand::Planes(args) => print_line!("{}", planes::run(args, options)?),
        DatasetCommand::Sample(args) => print_line!("{} positions", sample::run(args)?),
        DatasetCommand::Visit(args) => {
            print_line!("{} positions", visit::run(args, options, load)?)
        }
        DatasetCommand::Label(args) => print_line!("{} positions labelled", label::run(args)?),
        DatasetCommand::Tables(args) => {
            let (labelled, left_out) = tables::run(args)?;
            print_line!(
                "{labelled} positions labelled, {left_out} left out, which the tables do not know"
            );
        }
        DatasetCommand::Policy(args) => {
            print_line!("{} positions", policy::run(args, options, load)?)
        }
        DatasetCommand::Search(args) => {
            print_line!("{} positions", search::run(args, options, load)?)
        }
        DatasetCommand::Stats(args) => print_line!("{}", table(&count(&args.inputs)?).trim_end()),
    }
    Ok(())
}

fn progress_bytes(total: u64, name: &str) -> ProgressBar {
    progress(total, name, "{msg} {wide_bar} {bytes}/{total_bytes} {eta}")
}

fn progress_records(total: u64, name: &str) -> ProgressBar {
    progress(
        total,
        name,
        "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
    )
}

fn progress(total: u64, name: &str, template: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total)
        .with_style(style)
        .with_message(name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use shakmaty::Chess;

    use crate::dataset::record::{Record, Source};
    use crate::dataset::record_file::{Layout, RecordWriter};

    /// A file in this folder with the start position, held out, of game 7.
    pub fn one_position(folder: &Path) -> PathBuf {
        let path = folder.join("in.rec");
        if !path.exists() {
            let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
            let mut start = Record::new(&Chess::new(), false, Source::Game);
            start.flags |= Record::HELD_OUT;
            start.game = 7;
            writer.write(&start).unwrap();
            writer.finish().unwrap();
        }
        path
    }
}
