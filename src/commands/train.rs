//! `scorn train`: sparse networks from record files.

use std::{
    io::BufWriter,
    path::{Path, PathBuf},
    slice,
};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::commands::numbers::{count, non_negative, positive};
use crate::files::{
    self,
    output::{self, NewFile},
};
use crate::network::source::recommended;
use crate::sparse::{features::InputSet, file, network::Shape};
use crate::terminal;
use crate::train::adam::WEIGHT_DECAY;
use crate::train::batches::{self, BatchEncoding, BatchSettings};
use crate::train::checkpoint::Checkpoint;
use crate::train::data::{GamesFile, MixPart, MixtureSettings, NetworkPart};
use crate::train::measure::{TestResults, measure_file};
use crate::train::start::{Changes, Sizes, check_shape, random_start, start_from, take_value};
use crate::train::step::ValueLoss;
use crate::train::targets::{ResultShare, TargetSettings};
use crate::train::{self, TrainingSettings};

/// Help text of the set of inputs.
const INPUTS_HELP: &str =
    "Set of inputs [default: that of the network or checkpoint it starts from, or position]";
/// Limit of the size of a sparse network's file, in bytes.
const MAX_NETWORK_BYTES: u64 = 1 << 30;

/// Train sparse networks on the CPU from record files of `dataset` and positions of `selfplay`.
#[derive(Args, Debug)]
pub struct TrainArgs {
    #[command(subcommand)]
    command: TrainCommand,
}

#[derive(Subcommand, Debug)]
enum TrainCommand {
    /// Start a training run, or continue it from the checkpoint in its folder.
    Run(RunArgs),
    /// Write an initial checkpoint with random weights or with those of a sparse network.
    Start(StartArgs),
    /// Test a checkpoint on the held-out positions of files, or on any positions of .vis files that have none.
    Measure(MeasureArgs),
    /// Export the network of a checkpoint as an ONNX file.
    Export(ExportArgs),
    /// Write training batches to standard output for the PyTorch trainers (networks/training/README.md).
    Batches(BatchesArgs),
    /// Write the test positions of a file to standard output, as batches of dense networks.
    HeldOut(HeldOutArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    /// Folder of the checkpoint and the log.
    #[arg(long)]
    folder: PathBuf,
    #[command(flatten)]
    mixture: MixtureArgs,
    /// File whose held-out positions the network is tested on, with its players as in --data; repeatable. A file of
    /// searched positions (.vis) without held-out ones is tested on any of its positions and cannot be in --data.
    #[arg(long, value_name = "FILE[@PLAYERS]", value_parser = GamesFile::parse)]
    test: Vec<GamesFile>,
    /// Maximum number of test positions from each file.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = count::<usize>())]
    test_positions: usize,
    #[command(flatten)]
    sizes: SizeArgs,
    /// Positions that a thread processes at a time [default: 512, or less so that all threads share a batch].
    #[arg(long, value_name = "N", value_parser = count::<usize>())]
    chunk: Option<usize>,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-3, value_name = "X", value_parser = positive)]
    rate: f64,
    /// Steps over which the learning rate rises from 0.
    #[arg(long, default_value_t = 200, value_name = "N")]
    warmup: u64,
    /// Weight decay of the weights that a batch uses, multiplied by the learning rate; higher values reduce
    /// overfitting.
    #[arg(long, default_value_t = WEIGHT_DECAY, value_name = "X", value_parser = non_negative)]
    weight_decay: f64,
    /// Step at which the run ends [default: no limit].
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Minutes after which the run ends, counted from the start of the decay if it is one [default: no limit].
    #[arg(long, value_name = "X", value_parser = positive)]
    minutes: Option<f64>,
    /// Checkpoint to copy for a decay run, whose learning rate falls to 0 over --steps or --minutes; use a separate
    /// --folder.
    #[arg(long, value_name = "CHECKPOINT")]
    decay: Option<PathBuf>,
    /// Value loss: the cross-entropy of win, draw and loss, or the squared error of W - L as in AlphaZero, which does
    /// not train the draw probability.
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    value_loss: ValueLoss,
    /// Weight of the plies-left loss relative to the value loss.
    #[arg(long, default_value_t = 0.02, value_name = "X", value_parser = non_negative)]
    plies_weight: f64,
    /// Give each thread the same positions in every run, so that the result is reproducible; slightly slower.
    #[arg(long)]
    fixed_order: bool,
    /// Steps between checkpoints.
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = count::<u64>())]
    save_every: u64,
    /// Steps between tests on the files of --test.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = count::<u64>())]
    test_every: u64,
    /// Steps between lines of the log.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = count::<u64>())]
    log_every: u64,
}

/// The network's sizes and inputs.
#[derive(Args, Debug)]
struct SizeArgs {
    #[arg(long, value_name = "N", help = sized("Columns of the policy's first layer, a multiple of 64", Shape::default().policy))]
    policy_width: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Columns of the value's first layer, a multiple of 64", Shape::default().value))]
    value_width: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Units of the value's hidden layers", Shape::default().hidden))]
    hidden: Option<usize>,
    #[arg(long, value_name = "N", help = sized("Sets of hidden layers, chosen by the number of pieces", Shape::default().stages))]
    stages: Option<usize>,
    #[arg(long, value_enum, value_name = "SET", help = INPUTS_HELP)]
    inputs: Option<InputSet>,
}

impl SizeArgs {
    fn sizes(&self) -> Sizes {
        Sizes {
            policy: self.policy_width,
            value: self.value_width,
            hidden: self.hidden,
            stages: self.stages,
            inputs: self.inputs,
        }
    }
}

/// Options of the training data.
#[derive(Args, Debug)]
struct MixtureArgs {
    /// Training data: a record file of dataset or a positions-*.vis file of selfplay, and its share of every batch;
    /// for networks with inputs of history also the rating of the players (1100, 1500, 1900 or 2600), for those with
    /// inputs of the opponent the colour that the engine plays (white or black); repeatable.
    #[arg(long, required = true, value_name = "FILE[@PLAYERS]:SHARE")]
    data: Vec<MixPart>,
    /// Positions per step.
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = count::<usize>())]
    batch: usize,
    #[command(flatten)]
    targets: TargetSettings,
    /// Network to train: policy and value are separate networks, and the other one stays unchanged.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    only: NetworkPart,
    /// Seed of random weights and of the choice of positions.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Number of threads.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count::<usize>())]
    threads: usize,
}

#[derive(Args, Debug)]
struct BatchesArgs {
    #[command(flatten)]
    mixture: MixtureArgs,
    /// Network for which the batches are made.
    #[arg(long, value_enum, default_value_t, value_name = "NETWORK")]
    encoding: BatchEncoding,
    /// First step.
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,
    /// Number of steps [default: no limit].
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
}

#[derive(Args, Debug)]
struct HeldOutArgs {
    /// Record file, or file of searched positions (.vis); of the latter any positions, if none is held out.
    file: PathBuf,
    /// Maximum number of positions.
    #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = count::<usize>())]
    count: usize,
    /// Share of the game's result in the value target of self-play positions, as in train run.
    #[arg(long, default_value = "1", value_name = "X[,Y]")]
    result_share: ResultShare,
}

#[derive(Args, Debug)]
struct StartArgs {
    /// Checkpoint to write.
    out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Sparse network (an ONNX file) whose weights are copied. With wider layers or more stages, the new network has
    /// the same outputs until it is trained [default: random weights].
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// Sparse network whose value part (of the same sizes) is copied in place of that of --network. Policy and value
    /// share no weights, so they may come from different networks.
    #[arg(long, value_name = "FILE", requires = "network")]
    value_from: Option<PathBuf>,
    /// Part of the network to initialise at random instead.
    #[arg(long, alias = "forget", value_name = "PART", requires = "network")]
    reinit: Option<NetworkPart>,
    #[command(flatten)]
    sizes: SizeArgs,
    /// Seed of random weights.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Args, Debug)]
struct MeasureArgs {
    /// Checkpoint to test.
    checkpoint: PathBuf,
    /// Record files, with their players as in train run.
    #[arg(required = true, value_name = "FILE[@PLAYERS]", value_parser = GamesFile::parse)]
    files: Vec<GamesFile>,
    /// Maximum number of test positions from each file.
    #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = count::<usize>())]
    count: usize,
    /// Share of the game's result in the value target of self-play positions, as in train run.
    #[arg(long, default_value = "1", value_name = "X[,Y]")]
    result_share: ResultShare,
    /// Print a JSON object for each file, with the results of the network in floating point and in integers; a file
    /// without test positions has none.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ExportArgs {
    /// Checkpoint to export.
    checkpoint: PathBuf,
    /// ONNX file to write.
    out: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Rating of the players whose moves the network predicts, 700 to 2600: a network with an input of the rating
    /// becomes one for this rating only [default: one for all ratings].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(700..=2600))]
    rating: Option<u32>,
    /// Name of the network, for its metadata.
    #[arg(long, default_value = "")]
    name: String,
    /// Description of the training data, for the metadata.
    #[arg(long, default_value = "")]
    data: String,
    /// Licence of the network, for its metadata.
    #[arg(long, default_value = "")]
    license: String,
    /// Search options that the network recommends, for example "CPuct=2;PolicyTemperature=1.5".
    #[arg(long, default_value = "")]
    options: String,
}

/// Runs one of the subcommands.
///
/// # Errors
/// When the subcommand fails.
pub fn run(args: &TrainArgs) -> Result<()> {
    match &args.command {
        TrainCommand::Run(args) => {
            // Training continues when standard output is closed.
            train::run(&settings(args), &mut |line| {
                let _ = terminal::print(format_args!("{line}\n"));
            })?;
        }
        TrainCommand::Start(args) => start(args)?,
        TrainCommand::Measure(args) => measure(args)?,
        TrainCommand::Export(args) => export(args)?,
        TrainCommand::Batches(args) => {
            let out = std::io::stdout().lock();
            batches::stream(&batch_settings(args), &mut BufWriter::new(out))?;
        }
        TrainCommand::HeldOut(args) => {
            let out = &mut BufWriter::new(std::io::stdout().lock());
            batches::stream_held_out(&args.file, args.count, args.result_share, out)?;
        }
    }
    Ok(())
}

fn measure(args: &MeasureArgs) -> Result<()> {
    let checkpoint = Checkpoint::load(&args.checkpoint)?;
    for file in &args.files {
        let path = file.path.display();
        let quality = measure_file(&checkpoint, file, args.count, args.result_share)?;
        match quality {
            _ if args.json => {
                let line = MeasuredFile {
                    file: path.to_string(),
                    quality,
                };
                print_line!("{}", serde_json::to_string(&line)?);
            }
            Some(quality) => {
                print_line!("{path}: {}", quality.floating);
                print_line!("{path}: {} in integers", quality.integers);
            }
            None => print_line!("{path}: no positions to test on"),
        }
    }
    Ok(())
}

/// A line of `train measure --json`.
#[derive(Serialize)]
struct MeasuredFile {
    file: String,
    #[serde(flatten)]
    quality: Option<TestResults>,
}

fn start(args: &StartArgs) -> Result<()> {
    let reinitialises_value = matches!(args.reinit, Some(NetworkPart::Value | NetworkPart::Both));
    ensure!(
        !(args.value_from.is_some() && reinitialises_value),
        "--value-from replaces the value that --reinit would initialise: leave out one of the two"
    );
    let inputs: Vec<PathBuf> = args
        .network
        .iter()
        .chain(&args.value_from)
        .cloned()
        .collect();
    let file = NewFile::create(&args.out, args.force, &inputs)?;
    let read = |path: &Path| {
        files::read(path, MAX_NETWORK_BYTES)
            .with_context(|| format!("cannot read {}", path.display()))
    };
    let mut checkpoint = match &args.network {
        Some(path) => {
            let bytes = read(path)?;
            let changes = Changes {
                sizes: args.sizes.sizes(),
                reinit: args.reinit,
            };
            start_from(&bytes, changes, args.seed).with_context(|| format!("{}", path.display()))?
        }
        None => {
            let shape = args.sizes.sizes().over(Shape::default());
            check_shape(shape)?;
            random_start(shape, args.seed)
        }
    };
    if let Some(path) = &args.value_from {
        take_value(&mut checkpoint, &read(path)?).with_context(|| format!("{}", path.display()))?;
    }
    checkpoint.write(file, &args.out)?;
    print_line!("{}: {}", args.out.display(), checkpoint.shape);
    Ok(())
}

fn export(args: &ExportArgs) -> Result<()> {
    recommended::check(&args.options)?;
    let checkpoint = Checkpoint::load(&args.checkpoint)?;
    ensure!(
        args.rating.is_none() || checkpoint.shape.inputs.has_history(),
        "--rating has no effect on {}, whose network has no input of the rating (--inputs history): leave it out",
        args.checkpoint.display()
    );
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
    file::read(&bytes).context(
        "the checkpoint makes no network that could be loaded: its training diverged; begin again with a smaller \
         --rate",
    )?;
    let bytes = match args.rating {
        Some(rating) => file::for_rating(&bytes, rating)?,
        None => bytes,
    };
    output::write(
        &args.out,
        &bytes,
        args.force,
        slice::from_ref(&args.checkpoint),
    )?;
    print_line!("{}: {} bytes", args.out.display(), bytes.len());
    Ok(())
}

/// Help text of a network size, with its default.
fn sized(help: &str, default: usize) -> String {
    format!("{help} [default: that of the network or checkpoint it starts from, or {default}]")
}

fn mixture_settings(args: &MixtureArgs) -> MixtureSettings {
    MixtureSettings {
        data: args.data.clone(),
        seed: args.seed,
        targets: args.targets,
        trained_part: args.only,
    }
}

fn batch_settings(args: &BatchesArgs) -> BatchSettings {
    BatchSettings {
        mixture: mixture_settings(&args.mixture),
        encoding: args.encoding,
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
        sizes: args.sizes.sizes(),
        batch: args.mixture.batch,
        chunk: args
            .chunk
            .unwrap_or_else(|| train::default_chunk(args.mixture.batch, args.mixture.threads)),
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
