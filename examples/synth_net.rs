//! A tool for benchmarks: writes a network in lc0's format with random weights, of architectures and sizes that are too
//! large to be shipped: `cargo run --release --example synth_net -- transformer --layers 15 --width 768 bt4-like.pb`.

#[path = "../tests/lc0/synth.rs"]
mod synth;

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use scorn::lc0::Net;
use synth::{Body, Embedding, Encoding, Policy, Smolgen, Spec};

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// Residual convolutions with squeeze-and-excite.
    Convolution,
    /// Transformer layers as in lc0's large networks: dense position embedding, smolgen.
    Transformer,
}

/// Write a network with random weights.
#[derive(Parser)]
struct Args {
    #[arg(value_enum)]
    kind: Kind,
    /// The file to write (.pb).
    output: PathBuf,
    /// Residual blocks or transformer layers.
    #[arg(long, default_value_t = 15)]
    layers: usize,
    /// Filters or the width of a token.
    #[arg(long, default_value_t = 768)]
    width: usize,
    /// Attention heads.
    #[arg(long, default_value_t = 24)]
    heads: usize,
    /// Hidden units of feed-forward networks.
    #[arg(long, default_value_t = 1024)]
    feed_forward: usize,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let body = match args.kind {
        Kind::Convolution => Body::Conv {
            blocks: args.layers,
            filters: args.width,
            squeeze_excite: Some(args.width.div_ceil(8)),
        },
        Kind::Transformer => Body::Attention {
            layers: args.layers,
            width: args.width,
            model: args.width,
            heads: args.heads,
            feed_forward: args.feed_forward,
            embedding: Embedding::Dense { channels: 512 },
            multiply_gate: true,
            add_gate: true,
            smolgen: Some(Smolgen {
                compress: 32,
                hidden: 256,
                generator: 256,
            }),
        },
    };
    let transformer = matches!(args.kind, Kind::Transformer);
    let policy = if transformer {
        Policy::Attention {
            width: args.width,
            model: args.width,
            encoders: 0,
        }
    } else {
        Policy::Convolution
    };
    let bytes = synth::file(&Spec {
        body,
        policy,
        value_channels: if transformer { 128 } else { 32 },
        value_hidden: 128,
        wdl: true,
        moves_left: Some(8),
        mish: transformer,
        smolgen_activation: 7,
        encoding: Encoding::Linear16,
        seed: args.seed,
        ..Default::default()
    });
    // Heads have to share the width, for instance.
    Net::parse(&bytes).context("these sizes do not make a network")?;
    fs::write(&args.output, &bytes)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    println!("{} ({} bytes)", args.output.display(), bytes.len());
    Ok(())
}
