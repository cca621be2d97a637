//! `scorn dataset search`: visits and values of Scorn's own searches, as training data.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use crate::{
    commands::{
        numbers::{count, number_from},
        progress,
    },
    dataset::searched::Samples,
    files::output::NewFile,
    labeling::{
        sample::read_games,
        search::Found,
        searcher::Searcher,
        visit::{MAX_POOR_SEARCHES, seed_of_search},
    },
    network::load::identity::files_of,
    options::Options,
    player::Load,
};

/// Options of `dataset search`.
#[derive(Args, Clone, Debug)]
pub struct SearchArgs {
    /// Record files of positions to search.
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// File to write, training data for `scorn train`; it appears when all searches are done, so an interrupted run
    /// starts again.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Minimum number of positions; each takes about 250 bytes of memory.
    #[arg(long, default_value_t = 500_000, value_parser = count::<u64>())]
    pub count: u64,
    /// Seed; the same seed, inputs, network and options give the same positions.
    #[arg(long, default_value_t = 1)]
    pub sample_seed: u64,
    /// Nodes per search; many small searches give more diverse positions than few large ones.
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u64).range(2..))]
    pub nodes: u64,
    /// Minimum visits of a position.
    #[arg(long, alias = "least-visits", default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..))]
    pub min_visits: u32,
    /// Temperature of the policy: a move's weight is visits^(1/X), so values below 1 sharpen the search's distribution.
    #[arg(long, default_value_t = 1.0, value_parser = temperature)]
    pub visits_temperature: f64,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
}

fn temperature(text: &str) -> Result<f64, String> {
    number_from(0.1..=10.0, text)
}

/// Writes the positions and returns their number. Searches use one thread, so that they are reproducible: start one
/// process per core.
///
/// # Errors
/// When a file or the network cannot be used.
pub fn run(args: &SearchArgs, options: &Options, load: &Load) -> Result<u64> {
    ensure!(
        u64::from(args.min_visits) <= args.nodes,
        "--min-visits {} is more than the --nodes {} of a search",
        args.min_visits,
        args.nodes
    );
    let mut inputs = files_of(options);
    inputs.extend(args.inputs.iter().cloned());
    // The output is checked first, so that no search is lost.
    let file = NewFile::create(&args.out, args.force, &inputs)?;
    let games = read_games(&args.inputs)?;
    let searcher = Searcher::new(args.nodes, options, load)?;
    let found = Found {
        min_visits: args.min_visits,
        temperature: args.visits_temperature,
    };
    let bar = progress::records(args.count, "searching");
    let mut samples = Samples::default();
    let (mut number, mut poor) = (0, 0);
    while (samples.len() as u64) < args.count {
        let seed = seed_of_search(args.sample_seed, number);
        let before = samples.len();
        searcher.find(&games, seed, found, &mut samples)?;
        number += 1;
        poor = if samples.len() > before { 0 } else { poor + 1 };
        ensure!(
            poor < MAX_POOR_SEARCHES,
            "in {MAX_POOR_SEARCHES} searches, one after the other, no undecided position had the {} or more visits of \
             --min-visits: lower it or raise --nodes",
            args.min_visits
        );
        bar.set_position(samples.len() as u64);
    }
    bar.finish_and_clear();
    file.finish_with(&samples.to_file())?;
    Ok(samples.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use shakmaty::Chess;

    use super::*;
    use crate::{
        chess::setup::position_from_fen,
        commands::dataset::tests::one_position,
        dataset::{
            record::{Record, Source},
            record_file::{Layout, RecordWriter},
            searched::{Searched, SearchedFile},
        },
        network::hash::HashEvaluator,
    };

    fn args(dir: &Path, name: &str) -> SearchArgs {
        SearchArgs {
            inputs: vec![one_position(dir)],
            out: dir.join(name),
            count: 20,
            sample_seed: 3,
            nodes: 400,
            min_visits: 20,
            visits_temperature: 1.0,
            force: false,
        }
    }

    fn search(args: &SearchArgs) -> Result<u64> {
        let load: Load = Arc::new(|_, _| Ok(Arc::new(HashEvaluator)));
        run(args, &Options::default(), &load)
    }

    fn found(args: &SearchArgs) -> Vec<Searched> {
        let count = search(args).unwrap();
        let mut file = SearchedFile::open(&args.out).unwrap();
        assert_eq!(file.count, count);
        (0..count).map(|index| file.get(index).unwrap()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_records_of_root_and_inner_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let one = args(dir.path(), "a.vis");
        let (found, again) = (found(&one), args(dir.path(), "b.vis"));
        search(&again).unwrap();
        assert_eq!(fs::read(&one.out).unwrap(), fs::read(&again.out).unwrap());
        assert!(found.len() >= 20);
        let start = Record::new(&Chess::new(), false, Source::Game).board;
        let roots = found.iter().filter(|it| it.record.board == start).count();
        assert!(roots > 0 && roots < found.len());
        for it in &found {
            assert!(it.record.held_out() && it.record.game == 7);
            let sum: u32 = it.moves.iter().map(|(_, visits)| visits).sum();
            assert!(sum == it.visits && sum.abs_diff(1_000_000) < 100, "{sum}");
            let most = it.moves.iter().map(|(_, visits)| visits).max().unwrap();
            assert!(it.moves.contains(&(it.best, *most)));
        }
    }

    #[test]
    fn positions_without_undecided_visits_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mate = position_from_fen("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1").unwrap();
        let path = dir.path().join("mate.rec");
        let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
        writer
            .write(&Record::new(&mate, false, Source::Game))
            .unwrap();
        writer.finish().unwrap();
        let args = SearchArgs {
            inputs: vec![path],
            nodes: 40,
            min_visits: 40,
            ..args(dir.path(), "a.vis")
        };
        let error = search(&args).unwrap_err().to_string();
        assert!(error.contains("--min-visits"), "{error}");
        assert!(!args.out.exists());
    }

    #[test]
    fn a_low_temperature_sharpens_the_policy() {
        let dir = tempfile::tempdir().unwrap();
        let plain = args(dir.path(), "a.vis");
        let sure = SearchArgs {
            visits_temperature: 0.5,
            ..args(dir.path(), "b.vis")
        };
        for (plain, sure) in found(&plain).iter().zip(found(&sure)) {
            let squares = plain.moves.iter().map(|&(_, n)| f64::from(n).powi(2));
            let sum: f64 = squares.sum();
            assert_eq!(plain.moves.len(), sure.moves.len());
            for (&(m, n), (same, share)) in plain.moves.iter().zip(sure.moves) {
                assert_eq!(m, same);
                let wanted = f64::from(n).powi(2) / sum * 1e6;
                assert!((wanted - f64::from(share)).abs() < 2.0, "{wanted} {share}");
            }
        }
    }

    #[test]
    fn frozen_nodes_are_not_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let args = args(dir.path(), "a.vis");
        let frozen = Options {
            sc_limit: 4,
            ..Options::default()
        };
        let load: Load = Arc::new(|_, _| Ok(Arc::new(HashEvaluator)));
        let blacks = |options| {
            let args = SearchArgs {
                force: true,
                ..args.clone()
            };
            let count = run(&args, options, &load).unwrap();
            let mut file = SearchedFile::open(&args.out).unwrap();
            let found = (0..count).map(|index| file.get(index).unwrap());
            found
                .filter(|it| it.record.state & Record::BLACK != 0)
                .count()
        };
        assert_eq!(blacks(&frozen), 0);
        assert!(blacks(&Options::default()) > 0);
    }

    #[test]
    fn invalid_arguments_are_errors_before_any_search() {
        let dir = tempfile::tempdir().unwrap();
        let too_many = SearchArgs {
            min_visits: 401,
            ..args(dir.path(), "a.vis")
        };
        let error = search(&too_many).unwrap_err().to_string();
        assert!(error.contains("--min-visits 401"), "{error}");
        let onto_input = SearchArgs {
            out: dir.path().join("in.rec"),
            force: true,
            ..args(dir.path(), "a.vis")
        };
        let error = search(&onto_input).unwrap_err().to_string();
        assert!(error.contains("is an input too"), "{error}");
        let load: Load = Arc::new(|_, _| Ok(Arc::new(HashEvaluator)));
        let threads = Options {
            threads: 2,
            ..Options::default()
        };
        let error = run(&args(dir.path(), "b.vis"), &threads, &load).unwrap_err();
        assert!(error.to_string().contains("--threads 2"), "{error}");
        assert!(temperature("0.05").is_err() && temperature("0.7").is_ok());
    }
}
