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

use crate::{
    dataset::stats::{count, object, table},
    options::Options,
    player::Load,
    terminal::counted,
};

/// Make training data: games to records, positions to label, labels from a UCI engine.
#[derive(Args, Debug)]
pub struct DatasetArgs {
    #[command(subcommand)]
    command: DatasetCommand,
}

#[derive(Subcommand, Debug)]
enum DatasetCommand {
    /// Convert PGN games to training records.
    Pgn(pgn::PgnArgs),
    /// Convert PGN games to input planes and policy entries, in AlphaZero's encoding or lc0's.
    Planes(planes::PlanesArgs),
    /// Generate positions to label: from games, after random moves, with odds, unbalanced, endgames.
    Sample(sample::SampleArgs),
    /// Collect positions to label from Scorn's own search trees.
    Visit(visit::VisitArgs),
    /// Label records with best moves and scores of a UCI engine.
    Label(label::LabelArgs),
    /// Label endgames with Syzygy tablebases.
    Tables(tables::TablesArgs),
    /// Record a network's policy and value of every position, to train another network (distillation).
    Policy(policy::PolicyArgs),
    /// Record visits and values of Scorn's own searches, at all nodes with many visits.
    Search(search::SearchArgs),
    /// Print statistics of record files.
    Stats(stats::DatasetStatsArgs),
}

/// Runs one of the subcommands; `options` and networks are used by those that search.
pub fn run(args: &DatasetArgs, options: &Options, load: &Load) -> Result<()> {
    match &args.command {
        DatasetCommand::Pgn(args) => {
            let counts = pgn::run(args)?;
            print_line!(
                "{}, {}; skipped {} and {}",
                counted(counts.games, "game"),
                counted(counts.records, "position"),
                counted(counts.corrupt, "corrupt game"),
                counted(counts.short, "short game")
            );
        }
        DatasetCommand::Planes(args) => print_line!("{}", planes::run(args, options)?),
        DatasetCommand::Sample(args) => print_positions(sample::run(args)?)?,
        DatasetCommand::Visit(args) => print_positions(visit::run(args, options, load)?)?,
        DatasetCommand::Label(args) => print_line!("{}", label::run(args)?.text()),
        DatasetCommand::Tables(args) => {
            let (labelled, left_out) = tables::run(args)?;
            print_line!(
                "{} labelled, {left_out} skipped: not in the tables",
                counted(labelled, "position")
            );
        }
        DatasetCommand::Policy(args) => {
            let positions = policy::run(args, options, load)?;
            print_line!(
                "{}; train with --result-share 0, or the games' results take the values' place",
                counted(positions, "position")
            );
        }
        DatasetCommand::Search(args) => print_positions(search::run(args, options, load)?)?,
        DatasetCommand::Stats(args) => {
            let counts = count(&args.inputs)?;
            if args.json {
                print_line!("{}", object(&counts));
            } else {
                print_line!("{}", table(&counts).trim_end());
            }
        }
    }
    Ok(())
}

fn print_positions(number: u64) -> Result<()> {
    print_line!("{}", counted(number, "position"));
    Ok(())
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
