//! `scorn dataset sample`: positions for a teacher to label.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::{
    commands::{numbers::count, progress},
    dataset::record_file::{Layout, RecordWriter},
    files::output::NewFile,
    labeling::sample::{Sampler, read_games},
};

/// Options of `dataset sample`.
#[derive(Args, Debug)]
pub struct SampleArgs {
    /// Record files of games to start from.
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Record file to write.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
    /// Number of positions to generate.
    #[arg(long, value_parser = count::<u64>())]
    pub count: u64,
    /// Seed; the same seed and inputs give the same positions.
    #[arg(long, default_value_t = 1)]
    pub sample_seed: u64,
    /// Share of unchanged positions.
    #[arg(long, default_value_t = 0.25)]
    pub real: f64,
    /// Share of positions after random moves.
    #[arg(long, default_value_t = 0.45)]
    pub random_moves: f64,
    /// Share of odds positions.
    #[arg(long, default_value_t = 0.14)]
    pub odds: f64,
    /// Share of positions with pieces of both sides missing.
    #[arg(long, default_value_t = 0.10)]
    pub unbalanced: f64,
    /// Share of random endgames.
    #[arg(long, default_value_t = 0.06)]
    pub endgame: f64,
    /// Share of random endgames against a bare king.
    #[arg(long, default_value_t = 0.0)]
    pub bare_king: f64,
}

/// Writes the positions and returns how many.
///
/// # Errors
/// When a file cannot be read or written, or no positions can be generated.
pub fn run(args: &SampleArgs) -> Result<u64> {
    let shares = [
        args.real,
        args.random_moves,
        args.odds,
        args.unbalanced,
        args.endgame,
        args.bare_king,
    ];
    let mut sampler = Sampler::new(read_games(&args.inputs)?, shares, args.sample_seed)?;
    let file = NewFile::create(&args.out, args.force, &args.inputs)?;
    let mut writer = RecordWriter::new(file, &args.out, Layout::Plain)?;
    let bar = progress::records(args.count, "sampling");
    while writer.count < args.count {
        writer.write(&sampler.next_position()?)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    writer.finish()
}

#[cfg(test)]
mod tests {
    use shakmaty::{CastlingMode, Chess, Position};

    use super::*;
    use crate::dataset::record::{Record, Source};
    use crate::dataset::record_file::read_all;

    #[test]
    fn positions_that_cannot_be_generated_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let bare = "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1".parse::<shakmaty::fen::Fen>();
        let bare: Chess = bare.unwrap().into_position(CastlingMode::Standard).unwrap();
        let input = dir.path().join("games.rec");
        let mut writer = RecordWriter::create(&input, Layout::Plain).unwrap();
        writer
            .write(&Record::new(&bare, false, Source::Game))
            .unwrap();
        writer.finish().unwrap();
        let sample = |odds: f64| {
            let args = SampleArgs {
                inputs: vec![input.clone()],
                out: dir.path().join("out.rec"),
                force: false,
                count: 5,
                sample_seed: 1,
                real: 0.0,
                random_moves: 0.0,
                odds,
                unbalanced: 0.0,
                endgame: 0.0,
                bare_king: 0.0,
            };
            run(&args).unwrap_err().to_string()
        };
        for odds in [0.0, -1.0, f64::NAN] {
            assert!(sample(odds).contains("shares"));
        }
        assert!(sample(1.0).contains("attempts in a row failed"));
    }

    #[test]
    fn every_source_generates_legal_positions_determined_by_the_seed() {
        let dir = tempfile::tempdir().unwrap();
        let start = Record::new(&Chess::new(), false, Source::Game);
        let input = dir.path().join("games.rec");
        let mut writer = RecordWriter::create(&input, Layout::Plain).unwrap();
        writer.write(&start).unwrap();
        writer.finish().unwrap();
        let sample = |name: &str, seed| {
            let out = dir.path().join(name);
            let args = SampleArgs {
                inputs: vec![input.clone()],
                out: out.clone(),
                force: false,
                count: 500,
                sample_seed: seed,
                real: 0.2,
                random_moves: 0.2,
                odds: 0.2,
                unbalanced: 0.2,
                endgame: 0.2,
                bare_king: 0.2,
            };
            assert_eq!(run(&args).unwrap(), 500);
            read_all(&out).unwrap()
        };
        let records = sample("a.rec", 1);
        for source in [
            Source::Real,
            Source::RandomMoves,
            Source::Odds,
            Source::Unbalanced,
            Source::Endgame,
        ] {
            assert!(
                records
                    .iter()
                    .filter(|record| record.source() == Some(source))
                    .count()
                    > 50,
                "{source:?}"
            );
        }
        assert!(
            records
                .iter()
                .all(|record| !record.position().unwrap().legal_moves().is_empty())
        );
        assert_eq!(records, sample("b.rec", 1));
        assert_ne!(records, sample("c.rec", 2));
    }
}
