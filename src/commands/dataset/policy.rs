//! `scorn dataset policy`: a network's outputs on recorded positions, as training data for another one.

use std::{io, path::PathBuf, thread};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use shakmaty::Chess;

use crate::{
    commands::{numbers::count, progress},
    dataset::{record::Record, record_file::RecordReader},
    files::output::NewFile,
    labeling::policy::Answers,
    network::{Evaluator, load::identity::files_of, opponent::Role},
    options::Options,
    player::Load,
    terminal::counted,
    threads,
};

/// Positions per batch; each thread evaluates one batch at a time.
const BATCH: usize = 256;

/// Options of `dataset policy`.
#[derive(Args, Debug)]
pub struct PolicyArgs {
    /// Record file of the positions. Records have no history: a network with inputs of earlier positions is given each
    /// position alone, and HistoryFill says what those inputs hold.
    pub input: PathBuf,
    /// File to write, training data for `scorn train run --result-share 0`: by default the value target there is the
    /// game's result, where it is known, and not the network's value.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Number of records to skip at the beginning.
    #[arg(long, default_value_t = 0)]
    pub skip: u64,
    /// Maximum number of records; each takes about 250 bytes of memory.
    #[arg(long, default_value_t = 1_000_000, value_parser = count::<u64>())]
    pub count: u64,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Writes the outputs in the order of the records and returns the number of positions. The policy has a softmax
/// temperature of 1; `PolicyTemperature` is ignored.
///
/// # Errors
/// When a file or the network cannot be used, or there is no record.
pub fn run(args: &PolicyArgs, options: &Options, load: &Load) -> Result<u64> {
    let mut records = RecordReader::open(&args.input)?;
    ensure!(
        args.skip < records.count,
        "{} has {}, of which --skip {} leaves none",
        args.input.display(),
        counted(records.count, "record"),
        args.skip
    );
    records.skip_records(args.skip)?;
    let mut inputs = files_of(options);
    inputs.push(args.input.clone());
    // The output is checked first, so that no evaluation is lost.
    let file = NewFile::create(&args.out, args.force, &inputs)?;
    let evaluator = load(options, Role::Main)?;
    let threads = match options.threads {
        0 => evaluator.info().advice.threads,
        threads => threads,
    };
    let total = args.count.min(records.count.saturating_sub(args.skip));
    let mut records = records.positions();
    let bar = progress::records(total, "evaluating");
    let mut answers = Answers::default();
    let mut rest = args.count;
    while rest > 0 {
        let wanted = (BATCH * threads).min(usize::try_from(rest).unwrap_or(usize::MAX));
        let batch = records.by_ref().take(wanted).collect::<Result<Vec<_>>>()?;
        if batch.is_empty() {
            break;
        }
        rest -= batch.len() as u64;
        for part in evaluate(&batch, &*evaluator)? {
            answers.append(&part)?;
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    file.finish_with(&answers.to_file())?;
    Ok(answers.len() as u64)
}

/// Evaluates records in batches on several threads and returns the outputs of each batch.
fn evaluate(records: &[(Record, Chess)], evaluator: &dyn Evaluator) -> Result<Vec<Answers>> {
    thread::scope(|scope| {
        let evaluate_batch = |batch| {
            let mut answers = Answers::default();
            answers.evaluate(batch, evaluator).map(|()| answers)
        };
        let spawn = |batch| threads::spawn_scoped(scope, "policy", move || evaluate_batch(batch));
        let running = records.chunks(BATCH).map(spawn);
        let running = running.collect::<io::Result<Vec<_>>>();
        let running = running.context("cannot start the threads of the network")?;
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|end| end.map_err(|_| anyhow!("a thread of the network has panicked"))?)
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shakmaty::Position;

    use super::*;
    use crate::{
        chess::setup::position_from_fen,
        dataset::{
            record::Source,
            record_file::{Layout, RecordWriter},
            searched::SearchedFile,
        },
        labeling::search_stats,
        network::{Added, Batch, EvalPosition, EvaluateError, Value},
    };

    /// Plays the first move seven times of ten.
    struct FirstMove;

    impl Evaluator for FirstMove {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            for index in 0..batch.len() {
                let value = Value {
                    wl: 0.5,
                    d: 0.2,
                    m: 0.0,
                };
                batch.set_value(index, value);
                let policy = batch.policy_mut(index).1;
                policy.fill(0.3 / (policy.len() - 1) as f32);
                policy[0] = 0.7;
            }
            Ok(())
        }
    }

    #[test]
    fn the_policy_replaces_visits_and_the_value_that_of_a_search() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut writer = RecordWriter::create(&path("in.rec"), Layout::Plain).unwrap();
        let mut record = Record::new(&Chess::new(), true, Source::Game);
        for game in 0..600 {
            record.game = game;
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let mut args = PolicyArgs {
            input: path("in.rec"),
            out: path("out.vis"),
            skip: 10,
            count: 500,
            force: false,
        };
        let load: Load = Arc::new(|_, _| Ok(Arc::new(FirstMove)));
        // Two batches, by two of three threads.
        let options = Options {
            threads: 3,
            ..Options::default()
        };
        assert_eq!(run(&args, &options, &load).unwrap(), 500);
        let mut file = SearchedFile::open(&args.out).unwrap();
        let games = (0..500).map(|index| file.get(index).unwrap().record.game);
        assert!(games.eq(10..510));
        let last = file.get(499).unwrap();
        assert_eq!(last.moves.len(), Chess::new().legal_moves().len());
        assert_eq!(last.moves[0], (last.best, 700_000));
        assert!((last.wdl[0] - 0.65).abs() < 1e-3 && (last.wdl[1] - 0.2).abs() < 1e-3);
        drop(file);
        // An output that cannot be written is an error before the network is loaded.
        let never: Load = Arc::new(|_, _| panic!("loaded"));
        let refused = |args: &PolicyArgs, options: &Options| {
            run(args, options, &never).unwrap_err().to_string()
        };
        let error = refused(&args, &Options::default());
        assert!(error.contains("--force"), "{error}");
        let network = Options {
            weights_file: path("w.onnx").to_str().unwrap().to_owned(),
            ..Options::default()
        };
        std::fs::write(path("w.onnx"), "a network").unwrap();
        let onto_it = PolicyArgs {
            input: path("in.rec"),
            out: path("w.onnx"),
            skip: 0,
            count: 1,
            force: true,
        };
        let error = refused(&onto_it, &network);
        assert!(error.contains("is an input too"), "{error}");
        (args.force, args.skip) = (true, 600);
        let error = refused(&args, &Options::default());
        assert!(error.contains("in.rec has 600 records"), "{error}");
        (args.force, args.skip, args.count) = (true, 590, 1000);
        assert_eq!(run(&args, &Options::default(), &load).unwrap(), 10);
    }

    /// Its value depends on the real colour to move, and it prefers castling.
    struct ByColor;

    impl Evaluator for ByColor {
        fn evaluate(&self, _: &mut Batch) -> Result<(), EvaluateError> {
            Ok(())
        }

        fn add(&self, position: &mut EvalPosition<'_>, _: &mut Batch) -> Added {
            let turn = position.line()[0].position.turn();
            Added::Computed(Value {
                wl: turn.fold_wb(0.5, -0.25),
                d: 0.25,
                m: 0.0,
            })
        }

        fn priors(&self, position: &mut EvalPosition<'_>, _: f32) {
            let chess = &position.line()[0].position;
            let (moves, priors) = position.policy();
            priors.fill(0.5 / (moves.len() - 1) as f32);
            let castling = moves.iter().position(|m| m.unpack(chess).is_castle());
            priors[castling.unwrap()] = 0.5;
        }
    }

    #[test]
    fn a_network_sees_the_color_to_move() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut writer = RecordWriter::create(&path("in.rec"), Layout::Plain).unwrap();
        let fens = [
            "4k3/8/8/8/8/8/8/4K2R w K - 0 1",
            "4k2r/8/8/8/8/8/8/4K3 b k - 0 1",
        ];
        for fen in fens {
            let position = position_from_fen(fen).unwrap();
            let record = Record::new(&position, position.turn().is_black(), Source::Game);
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let args = PolicyArgs {
            input: path("in.rec"),
            out: path("out.vis"),
            skip: 0,
            count: 2,
            force: false,
        };
        let load: Load = Arc::new(|_, _| Ok(Arc::new(ByColor)));
        assert_eq!(run(&args, &Options::default(), &load).unwrap(), 2);
        let mut file = SearchedFile::open(&args.out).unwrap();
        for (index, expected) in [(0, 0.5), (1, -0.25)] {
            let searched = file.get(index).unwrap();
            let wl = searched.wdl[0] - searched.wdl[2];
            assert!((wl - expected).abs() < 1e-3, "{index}: {wl}");
            assert_eq!(searched.best, 4 | 7 << 6);
        }
        // Compared with itself, the network differs in nothing.
        let policies = search_stats::count(&args.out, Some(&ByColor)).unwrap();
        let summary = policies.summary().unwrap();
        for spread in [summary.value_error, summary.divergence] {
            let mean = spread.unwrap().mean.mean;
            assert!(mean.abs() < 1e-3, "{mean}");
        }
    }
}
