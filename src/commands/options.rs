//! `scorn options`: prints every option with its value in force, the source of the value, and the default.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;
use shakmaty::Position;

use crate::{
    chess::setup,
    engine::{self, Go, settings::Settings},
    options::{
        OptionRow, Options,
        layers::{Layers, Resolved},
    },
    terminal::{self, eprint_line},
};

/// Printed below the options.
const EXAMPLES: &str = "\
Examples:
  scorn options --changed
  scorn options --changed --weights network.onnx --config my.config
  scorn options --changed --fen \"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1\"";

/// Print the options in force, with the source of each.
///
/// Every flag of "scorn uci" is accepted. The sources, from the weakest to the strongest: default, network (recommended
/// in its metadata), profile (needs --fen), configuration file, user (a flag), strength limit, analysis mode.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct OptionsArgs {
    /// Print only options whose values in force differ from their defaults.
    #[arg(long)]
    pub changed: bool,
    /// Position of a game in which the engine plays the side to move, for profiles: a FEN or "startpos", with "moves
    /// e2e4 e7e5" after it for the moves played.
    #[arg(long, value_name = "FEN")]
    pub fen: Option<String>,
    /// The engine's clock at the start of that game, in seconds, for profiles that depend on it.
    #[arg(long, value_name = "SECONDS", requires = "fen")]
    pub clock: Option<u64>,
    /// Print one JSON object per option, with the part of the program that reads the option and what is
    /// rebuilt when it changes.
    #[arg(long)]
    pub json: bool,
}

/// Runs `scorn options`.
///
/// # Errors
/// When the profiles are not valid, the position is not legal or nothing can be written.
pub fn run(args: &OptionsArgs, layers: Layers) -> Result<()> {
    engine::load_profiles(&layers.as_set().profiles)?;
    let note = Arc::new(|text: &str| eprint_line(format_args!("scorn: {text}")));
    let mut settings = Settings::new(layers, note);
    if let Some(text) = &args.fen {
        let game = setup::history_from_text(text).with_context(|| text.clone())?;
        settings.see_position(&game);
        let clock = args.clock.map(Duration::from_secs);
        let go = Go {
            wtime: clock.filter(|_| game.position().turn().is_white()),
            btime: clock.filter(|_| game.position().turn().is_black()),
            ..Go::default()
        };
        settings.begin(&go, &game, false);
    }
    print(args, settings.resolved())
}

/// Prints the options, one per line.
fn print(args: &OptionsArgs, resolved: &Resolved) -> Result<()> {
    let (rows, defaults) = (resolved.options().rows(), Options::default().rows());
    let mut text = String::new();
    if !args.json {
        text += &line("OPTION", "VALUE", "SOURCE", "DEFAULT");
    }
    for (row, default) in rows.iter().zip(&defaults) {
        if args.changed && row.value == default.value {
            continue;
        }
        let source = resolved.source_of(row.name).to_string();
        text += &if args.json {
            as_json(row, &source, &default.value)
        } else {
            line(row.name, row.shown(), &source, default.shown())
        };
    }
    terminal::print_text(text).context("cannot write to standard output")
}

fn line(name: &str, value: &str, source: &str, default: &str) -> String {
    format!("{name:<30} {value:<24} {source:<18} {default}\n")
}

fn as_json(row: &OptionRow, source: &str, default: &str) -> String {
    let row = json!({
        "name": row.name,
        "value": row.value,
        "source": source,
        "default": default,
        "scope": row.scope.name(),
        "effect": row.effect.name(),
        "invalidates": row.invalidates.name(),
        "only_uci": row.is_only_uci,
    });
    format!("{row}\n")
}
