//! `scorn dataset visit`: positions to label from Scorn's own search trees.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use crate::{
    commands::{numbers::count, progress},
    dataset::record_file::{Layout, RecordJob, RecordWriter},
    labeling::{sample::read_games, searcher::Searcher, visit::seed_of_search},
    network::load::identity::identities,
    options::{Effect, Options},
    player::Load,
};

/// Options of `dataset visit`.
#[derive(Args, Debug)]
pub struct VisitArgs {
    /// Record files of positions to search.
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Record file to write; an incomplete one is continued.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Minimum number of positions.
    #[arg(long, value_parser = count::<u64>())]
    pub count: u64,
    /// Seed; the same seed, inputs, network and options give the same positions.
    #[arg(long, default_value_t = 1)]
    pub sample_seed: u64,
    /// Nodes per search.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..))]
    pub nodes: u64,
    /// Positions taken from each search tree, at random.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    pub per_search: u64,
}

impl VisitArgs {
    /// Description of the settings; a file is only continued with the same ones, and with as many positions in the
    /// inputs, from which searches start at random. Threads (a search has one) and memory do not decide what is found.
    fn settings(&self, options: &Options, positions: usize) -> Result<String> {
        let deciding = options.with_defaults_where(|row| row.effect == Effect::Speed);
        Ok(format!(
            "visit {positions} {} {} {} {:?} {deciding:?}",
            self.sample_seed,
            self.nodes,
            self.per_search,
            identities(options)?
        ))
    }
}

/// Writes the positions and returns the number in the file. Searches use one thread, so that they are reproducible:
/// start one process per core.
///
/// # Errors
/// When a file or the network cannot be used, or the search trees have too few positions.
pub fn run(args: &VisitArgs, options: &Options, load: &Load) -> Result<u64> {
    ensure!(
        args.per_search < args.nodes,
        "--per-search {} is more than --nodes {} can visit besides the root",
        args.per_search,
        args.nodes
    );
    let games = read_games(&args.inputs)?;
    // What cannot start leaves no file behind.
    let searcher = Searcher::new(args.nodes, options, load)?;
    let settings = args.settings(options, games.len())?;
    let job = RecordJob::new(&settings, &args.inputs, Layout::Plain, args.per_search)?;
    let mut writer = RecordWriter::append(&args.out, &job)?;
    let bar = progress::records(args.count, "searching");
    bar.set_position(writer.count);
    bar.reset_eta();
    while writer.count < args.count {
        let group = writer.count / args.per_search;
        let seed = seed_of_search(args.sample_seed, group);
        for record in searcher.draw(&games, args.per_search as usize, seed)? {
            writer.write(&record)?;
        }
        writer.flush()?;
        bar.set_position(writer.count);
    }
    bar.finish_and_clear();
    writer.finish()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use shakmaty::{Chess, Position};

    use super::*;
    use crate::{
        commands::dataset::tests::one_position,
        dataset::record::{Record, Source},
        dataset::record_file::read_all,
        network::hash::HashEvaluator,
    };

    fn args(dir: &Path, name: &str, count: u64) -> VisitArgs {
        VisitArgs {
            inputs: vec![one_position(dir)],
            out: dir.join(name),
            count,
            sample_seed: 3,
            nodes: 50,
            per_search: 5,
        }
    }

    fn visit(args: &VisitArgs) -> Result<u64> {
        visit_with(args, &Options::default())
    }

    fn visit_with(args: &VisitArgs, options: &Options) -> Result<u64> {
        let load: Load = Arc::new(|_, _| Ok(Arc::new(HashEvaluator)));
        run(args, options, &load)
    }

    #[test]
    fn a_run_is_not_continued_with_another_network() {
        let dir = tempfile::tempdir().unwrap();
        let network = dir.path().join("w.pb.gz");
        let options = Options {
            weights_file: network.to_str().unwrap().to_owned(),
            ..Options::default()
        };
        let mut args = args(dir.path(), "a.rec", 5);
        for (bytes, count, is_same) in [("one", 5, true), ("one", 10, true), ("other", 15, false)] {
            fs::write(&network, bytes).unwrap();
            args.count = count;
            assert_eq!(visit_with(&args, &options).is_ok(), is_same, "{bytes}");
        }
    }

    #[test]
    fn a_run_is_not_continued_with_an_input_that_has_grown() {
        let dir = tempfile::tempdir().unwrap();
        let mut args = args(dir.path(), "a.rec", 5);
        let [record] = read_all(&args.inputs[0]).unwrap()[..] else {
            panic!("one position");
        };
        for (records, count, is_same) in [(64, 5, true), (64, 10, true), (65, 15, false)] {
            let input = dir.path().join(format!("{count}.rec"));
            let mut writer = RecordWriter::create(&input, Layout::Plain).unwrap();
            (0..records).for_each(|_| writer.write(&record).unwrap());
            writer.finish().unwrap();
            (args.inputs, args.count) = (vec![input], count);
            assert_eq!(visit(&args).is_ok(), is_same, "{records}");
        }
        assert_eq!(read_all(&args.out).unwrap().len(), 10);
    }

    #[test]
    fn self_search_positions_are_near_their_game_and_undecided() {
        let dir = tempfile::tempdir().unwrap();
        let args = args(dir.path(), "a.rec", 50);
        assert_eq!(visit(&args).unwrap(), 50);
        let records = read_all(&args.out).unwrap();
        let blacks = records.iter().filter(|r| r.state & Record::BLACK != 0);
        assert!((5..45).contains(&blacks.count()));
        for record in records {
            assert_eq!(record.source(), Some(Source::Visited));
            assert!(record.held_out() && record.game == 7);
            let position = record.position().unwrap();
            assert!(!position.legal_moves().is_empty());
            assert_ne!(
                record.board,
                Record::new(&Chess::new(), false, Source::Game).board
            );
        }
    }

    #[test]
    fn an_interrupted_run_gives_the_same_result() {
        let dir = tempfile::tempdir().unwrap();
        let (whole, mut parts) = (args(dir.path(), "a.rec", 40), args(dir.path(), "b.rec", 20));
        visit(&whole).unwrap();
        visit(&parts).unwrap();
        // Interrupted between two positions of one search.
        fs::OpenOptions::new()
            .write(true)
            .open(&parts.out)
            .unwrap()
            .set_len(48 * 18 + 5)
            .unwrap();
        parts.count = 40;
        assert_eq!(visit(&parts).unwrap(), 40);
        assert_eq!(fs::read(&whole.out).unwrap(), fs::read(&parts.out).unwrap());
        let others = [(parts.sample_seed + 1, 5), (parts.sample_seed, 8)];
        for (sample_seed, per_search) in others {
            (parts.sample_seed, parts.per_search) = (sample_seed, per_search);
            assert!(visit(&parts).is_err(), "other positions would follow");
        }
        parts.out = parts.inputs[0].clone();
        assert!(visit(&parts).is_err(), "games are not overwritten");
        assert_eq!(read_all(&parts.out).unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_start_leaves_no_file_and_speed_is_no_other_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut args = args(dir.path(), "a.rec", 5);
        let with_threads = |threads| Options {
            threads,
            ..Options::default()
        };
        let error = visit_with(&args, &with_threads(2)).unwrap_err();
        assert!(error.to_string().contains("--threads 2"), "{error:#}");
        assert!(!args.out.exists());
        assert_eq!(visit_with(&args, &with_threads(0)).unwrap(), 5);
        args.count = 10;
        let limited = Options {
            ram_limit_mb: 512,
            ..with_threads(1)
        };
        assert_eq!(visit_with(&args, &limited).unwrap(), 10);
    }

    #[test]
    fn search_trees_with_too_few_positions_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut args = args(dir.path(), "a.rec", 40);
        args.per_search = 50;
        let error = visit(&args).unwrap_err().to_string();
        assert!(error.contains("--per-search 50"), "{error}");
    }
}
