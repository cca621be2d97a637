//! Searches a position with the network inside the program, and prints the best move and the line that it begins:
//! `cargo run --release --example search -- "startpos moves e2e4"`. The place to start from for programs that use Scorn
//! as a library.

use std::{env, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use scorn::{
    chess::setup::{history_from_text, move_text},
    network::{
        load::{NetworkConfig, load_backend},
        source::recommended,
    },
    options::layers::Layers,
    player::{Load, Player},
    search::Limits,
};

fn main() -> Result<()> {
    let text = env::args().nth(1).unwrap_or("startpos".to_owned());
    let mut game = history_from_text(&text)?;
    // The defaults, and what the network recommends.
    let options = recommended::resolve(&Layers::default()).into_options();
    let load: Load = Arc::new(|options, role| {
        let config = NetworkConfig::of(options, role);
        Ok(load_backend(&config, &|_| {})?)
    });
    let player = Player::load(options, &load)?;
    let limits = Limits {
        movetime: Some(Duration::from_secs(1)),
        ..Limits::default()
    };
    let (outcome, _) = player.search_once(&player.job(game.clone(), limits))?;
    let best = outcome.best.context("the game is over")?;
    println!("best move {}", move_text(game.position(), best, false));
    print!("line");
    for &m in &outcome.report.lines[0].pv {
        print!(" {}", move_text(game.position(), m, false));
        game.push(m);
    }
    println!();
    Ok(())
}
