//! `scorn train`: sparse networks from record files.

use std::{io::BufWriter, path::PathBuf, slice};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::commands::numbers::{at_least_0, count, positive, share};
use crate::files::{
    self,
    output::{self, NewFile},
};
use crate::network::source::recommended;
use crate::sparse::network::Shape;
use crate::train::adam::WEIGHT_DECAY;
use crate::train::batches::{self, BatchSettings};
use crate::train::checkpoint::Checkpoint;
use crate::train::data::{MixPart, MixtureSettings, NetworkPart};
use crate::train::start::{Changes, random_start, start_from};
use crate::train::step::ValueLoss;
use crate::train::targets::ResultShare;
use crate::train::{self, TrainingSettings, measure_file};

/// No sparse network is larger, in bytes.
const LARGEST_NETWORK: u64 = 1 << 30;

/// Train sparse networks on the CPU, from the records of `dataset` and the positions of `selfplay`
#[derive(Args, Debug)]
pub struct TrainArgs {
    #[command(subcommand)]
    command: TrainCommand,
}

#[derive(Subcommand, Debug)]
enum TrainCommand {
    /// Train, or go on training: the same command continues from the folder's checkpoint
    Run(RunArgs),
    /// Write a checkpoint to train from: random weights, or those of a sparse network
    Start(StartArgs),
    /// Measure a checkpoint on the held-out positions of record files, or any of self-play's files
    Measure(MeasureArgs),
    /// Write the network of a checkpoint, an ONNX file
    Export(ExportArgs),
    /// Write the batches of a run to standard output, for a trainer on a GPU (networks/training/README.md)
    Batches(BatchesArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// Folder of the checkpoint and the log
    #[arg(long)]
    folder: PathBuf,
    #[command(flatten)]
    mixture: MixtureArgs,
    /// A record file whose held-out positions to measure on (of self-play's files, any); repeat for others
    #[arg(long, value_name = "FILE")]
    test: Vec<PathBuf>,
    /// Held-out positions of each file
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = count::<usize>())]
    test_positions: usize,
    #[arg(long, value_name = "N", help = sized("Columns of the policy's first layer, a multiple of 64", Shape::default().policy, "the checkpoint"))]
    policy_width: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Columns of the value's first layer, a multiple of 64", Shape::default().value, "the checkpoint"))]
    value_width: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Units of the value's hidden layers", Shape::default().hidden, "the checkpoint"))]
    hidden: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Stages of the game, by the number of pieces, with hidden layers of their own", Shape::default().stages, "the checkpoint"))]
    stages: Option<usize>,
    /// Positions that a thread takes at a time
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = count::<usize>())]
    chunk: usize,
    /// Learning rate
    #[arg(long, default_value_t = 1e-3, value_name = "X", value_parser = positive)]
    rate: f64,
    /// Steps over which the rate rises from 0
    #[arg(long, default_value_t = 200, value_name = "N")]
    warmup: u64,
    /// What weights lose in a step that uses them, as a share of themselves, times the rate: more, and less is learned by heart
    #[arg(long, default_value_t = WEIGHT_DECAY, value_name = "X", value_parser = at_least_0)]
    weight_decay: f64,
    /// Stop at this step
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_name = "N")]
    steps: u64,
    /// Stop after so many minutes (of the decay, if it is one)
    #[arg(
        long,
        default_value_t = train::ENDLESS,
        hide_default_value = true,
        value_name = "X",
        value_parser = positive
    )]
    minutes: f64,
    /// Start from this checkpoint, in a folder of its own, and let the rate fall to 0, over --steps or --minutes
    #[arg(long, value_name = "CHECKPOINT")]
    decay: Option<PathBuf>,
    /// What is lost by a wrong value: the cross-entropy of win, draw and loss, or the squared error of W - L, as AlphaZero has it
    /// (which says nothing about draws)
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    value_loss: ValueLoss,
    /// Weight of the plies left beside the value
    #[arg(long, default_value_t = 0.02, value_name = "X", value_parser = at_least_0)]
    plies_weight: f64,
    /// Each thread takes the same positions every time: the same number of threads gives the same network, a little later
    #[arg(long)]
    fixed_order: bool,
    /// Steps between checkpoints
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = count::<u64>())]
    save_every: u64,
    /// Steps between measurements
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = count::<u64>())]
    test_every: u64,
    /// Steps between lines of the log
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = count::<u64>())]
    log_every: u64,
}

/// What is drawn, and what of it is learned.
#[derive(Args, Debug)]
struct MixtureArgs {
    /// A record file (of dataset, or positions-*.vis of selfplay) to learn from and its share; repeat for others
    #[arg(long, required = true, value_name = "FILE:SHARE")]
    data: Vec<MixPart>,
    /// Positions a step
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = count::<usize>())]
    batch: usize,
    /// Weight of a game's result where a position has no score
    #[arg(long, default_value_t = 0.1, value_name = "X", value_parser = share)]
    result_weight: f64,
    /// For positions of self-play: share of the game's result in the value's target beside what the search found, or the
    /// shares at the game's first position and at its end, between which it goes in a straight line
    #[arg(long, default_value = "1", value_name = "X[,Y]")]
    result_share: ResultShare,
    /// What to learn: policy and value are networks of their own, the one that is not named stays as it is
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    only: NetworkPart,
    /// Seed of the weights and of what is drawn
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Threads
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count::<usize>())]
    threads: usize,
}

#[derive(Args, Debug)]
struct BatchesArgs {
    #[command(flatten)]
    mixture: MixtureArgs,
    /// The step to begin with
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,
    /// How many steps
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_name = "N")]
    steps: u64,
}

#[derive(Args, Debug)]
struct StartArgs {
    /// The checkpoint to write
    out: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    /// The sparse network (an ONNX file) whose weights to take; without it they are random. Wider layers and more stages
    /// keep what it knows: the new network says the same at first
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// What to begin with random weights all the same
    #[arg(long, value_name = "PART", requires = "network")]
    forget: Option<NetworkPart>,
    #[arg(long, value_name = "N", help = sized("Columns of the policy's first layer, a multiple of 64", Shape::default().policy, "the network"))]
    policy_width: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Columns of the value's first layer, a multiple of 64", Shape::default().value, "the network"))]
    value_width: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Units of the value's hidden layers", Shape::default().hidden, "the network"))]
    hidden: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Stages of the game, by the number of pieces, with hidden layers of their own", Shape::default().stages, "the network"))]
    stages: Option<usize>,
    /// Seed of random weights
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Args, Debug)]
struct MeasureArgs {
    /// The checkpoint
    checkpoint: PathBuf,
    /// Record files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Held-out positions of each file
    #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = count::<usize>())]
    count: usize,
    /// As for train run
    #[arg(long, default_value = "1", value_name = "X[,Y]")]
    result_share: ResultShare,
}

#[derive(Args, Debug)]
struct ExportArgs {
    /// The checkpoint
    checkpoint: PathBuf,
    /// The file to write
    out: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
    /// The network's name, for its metadata
    #[arg(long, default_value = "")]
    name: String,
    /// What it was trained on, for its metadata
    #[arg(long, default_value = "")]
    data: String,
    /// Its licence, for its metadata
    #[arg(long, default_value = "")]
    license: String,
    /// What it asks for, as in "CPuct=2;PolicyTemperature=1.5": constants of the search that suit it
    #[arg(long, default_value = "")]
    options: String,
}

/// Runs one of the subcommands.
///
/// # Errors
/// What they say.
pub fn run(args: &TrainArgs) -> Result<()> {
    match &args.command {
        TrainCommand::Run(args) => {
            // A log that nobody reads is no reason to stop training.
            train::run(&settings(args), &mut |line| {
                let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{line}\n"));
            })?;
        }
        TrainCommand::Start(args) => start(args)?,
        TrainCommand::Measure(args) => {
            let checkpoint = Checkpoint::load(&args.checkpoint)?;
            for path in &args.files {
                match measure_file(&checkpoint, path, args.count, args.result_share)? {
                    Some(quality) => {
                        print_line!("{}: {}", path.display(), quality.floating);
                        print_line!("{}: {} in integers", path.display(), quality.integers);
                    }
                    None => print_line!("{}: no position is held out", path.display()),
                }
            }
        }
        TrainCommand::Export(args) => export(args)?,
        TrainCommand::Batches(args) => {
            let out = std::io::stdout().lock();
            batches::stream(&batch_settings(args), &mut BufWriter::new(out))?;
        }
    }
    Ok(())
}

fn start(args: &StartArgs) -> Result<()> {
    let inputs = args.network.as_slice();
    let file = NewFile::create(&args.out, args.force, inputs)?;
    let checkpoint = match &args.network {
        Some(path) => {
            let bytes = files::read(path, LARGEST_NETWORK)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let changes = Changes {
                policy: args.policy_width,
                value: args.value_width,
                hidden: args.hidden,
                stages: args.stages,
                forget: args.forget,
            };
            start_from(&bytes, changes, args.seed).with_context(|| format!("{}", path.display()))?
        }
        None => {
            let shape = sizes(
                args.policy_width,
                args.value_width,
                args.hidden,
                args.stages,
            );
            let shape = shape.unwrap_or_default();
            train::check_shape(shape)?;
            random_start(shape, args.seed)
        }
    };
    checkpoint.write(file, &args.out)?;
    print_line!("{}: {}", args.out.display(), checkpoint.shape);
    Ok(())
}

fn export(args: &ExportArgs) -> Result<()> {
    recommended::check(&args.options)?;
    let checkpoint = Checkpoint::load(&args.checkpoint)?;
    let seen = checkpoint.progress.positions.to_string();
    let metadata = [
        ("name", args.name.as_str()),
        ("data", args.data.as_str()),
        ("license", args.license.as_str()),
        ("positions_seen", seen.as_str()),
        (recommended::KEY, args.options.as_str()),
    ];
    let given = metadata.into_iter().filter(|(_, value)| !value.is_empty());
    let bytes = train::export(&checkpoint, &given.collect::<Vec<_>>());
    output::write(
        &args.out,
        &bytes,
        args.force,
        slice::from_ref(&args.checkpoint),
    )?;
    print_line!("{}: {} bytes", args.out.display(), bytes.len());
    Ok(())
}

/// The help of a size that only a new network has.
fn sized(help: &str, default: usize, otherwise: &str) -> String {
    format!("{help} [default: {default}, or as {otherwise}]")
}

/// The sizes that are asked for, if any is; those that are not are the usual ones.
fn sizes(
    policy: Option<usize>,
    value: Option<usize>,
    hidden: Option<usize>,
    stages: Option<usize>,
) -> Option<Shape> {
    let usual = Shape::default();
    let given = [policy, value, hidden, stages];
    given.iter().any(Option::is_some).then(|| Shape {
        policy: policy.unwrap_or(usual.policy),
        value: value.unwrap_or(usual.value),
        hidden: hidden.unwrap_or(usual.hidden),
        stages: stages.unwrap_or(usual.stages),
    })
}

fn mixture_settings(args: &MixtureArgs) -> MixtureSettings {
    MixtureSettings {
        data: args.data.clone(),
        seed: args.seed,
        result_weight: args.result_weight,
        result_share: args.result_share,
        subject: args.only,
    }
}

fn batch_settings(args: &BatchesArgs) -> BatchSettings {
    BatchSettings {
        mixture: mixture_settings(&args.mixture),
        batch: args.mixture.batch,
        from: args.from,
        steps: args.steps,
        threads: args.mixture.threads,
    }
}

fn settings(args: &RunArgs) -> TrainingSettings {
    TrainingSettings {
        folder: args.folder.clone(),
        mixture: mixture_settings(&args.mixture),
        test: args.test.clone(),
        test_positions: args.test_positions,
        shape: sizes(
            args.policy_width,
            args.value_width,
            args.hidden,
            args.stages,
        ),
        batch: args.mixture.batch,
        chunk: args.chunk,
        rate: args.rate,
        warmup: args.warmup,
        weight_decay: args.weight_decay,
        steps: args.steps,
        minutes: args.minutes,
        decay: args.decay.clone(),
        value_loss: args.value_loss,
        plies_weight: args.plies_weight,
        threads: args.mixture.threads,
        fixed_order: args.fixed_order,
        save_every: args.save_every,
        test_every: args.test_every,
        log_every: args.log_every,
    }
}
