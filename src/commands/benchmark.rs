//! `scorn benchmark`: how fast a search is with the network and the backend of the options, as lc0's command of this
//! name tells it. (`scorn bench` measures the tree alone, and prints a signature.)

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use shakmaty::{EnPassantMode, fen::Fen};

use crate::{
    chess::{History, setup},
    options::Options,
    player::{Load, Player},
    search::{Clock, Limits, MoveStat, Report, Reporter, StopSignal, SystemClock, Tree},
    terminal,
};

/// Openings, then middlegames and endings: the moves from the start, or a FEN.
const POSITIONS: [&str; 34] = [
    "",
    "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6 e1g1 f8e7",
    "e2e4 e7e5 g1f3 b8c6 f1c4 f8c5 c2c3 g8f6 d2d3 d7d6",
    "e2e4 c7c5 g1f3 d7d6 d2d4 c5d4 f3d4 g8f6 b1c3 a7a6",
    "e2e4 c7c5 g1f3 b8c6 d2d4 c5d4 f3d4 g7g6 b1c3 f8g7",
    "e2e4 e7e6 d2d4 d7d5 b1c3 f8b4 e4e5 c7c5 a2a3 b4c3 b2c3",
    "e2e4 c7c6 d2d4 d7d5 e4e5 c8f5 g1f3 e7e6 f1e2",
    "e2e4 d7d6 d2d4 g8f6 b1c3 g7g6 f2f4 f8g7 g1f3",
    "e2e4 g8f6 e4e5 f6d5 d2d4 d7d6 g1f3 c8g4",
    "d2d4 d7d5 c2c4 e7e6 b1c3 g8f6 c1g5 f8e7 e2e3 e8g8",
    "d2d4 d7d5 c2c4 c7c6 g1f3 g8f6 b1c3 d5c4 a2a4 c8f5",
    "d2d4 d7d5 c2c4 d5c4 g1f3 g8f6 e2e3 e7e6 f1c4 c7c5",
    "d2d4 g8f6 c2c4 e7e6 b1c3 f8b4 d1c2 e8g8 a2a3 b4c3 c2c3",
    "d2d4 g8f6 c2c4 g7g6 b1c3 f8g7 e2e4 d7d6 g1f3 e8g8 f1e2 e7e5",
    "d2d4 g8f6 c2c4 g7g6 b1c3 d7d5 c4d5 f6d5 e2e4 d5c3 b2c3 f8g7",
    "d2d4 g8f6 c2c4 c7c5 d4d5 b7b5 c4b5 a7a6",
    "d2d4 f7f5 g2g3 g8f6 f1g2 g7g6 g1f3 f8g7",
    "c2c4 e7e5 b1c3 g8f6 g1f3 b8c6 g2g3 f8b4",
    "g1f3 d7d5 g2g3 g8f6 f1g2 e7e6 e1g1 f8e7 d2d3 e8g8",
    "e2e4 e7e5 f2f4 e5f4 g1f3 g7g5 h2h4 g5g4 f3e5",
    "r1bq1rk1/pp2bppp/2n1pn2/3p4/3P1B2/2NBPN2/PP3PPP/R2Q1RK1 b - - 5 10",
    "2rq1rk1/1p3ppp/p2p1n2/2bPp3/4P1b1/2N2N2/PPQ1BPPP/R1B2RK1 w - - 2 13",
    "r2q1rk1/ppp2ppp/2n1b3/3np3/8/2PP1NP1/PP2PPBP/R1BQ1RK1 w - - 1 9",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10",
    "r1b2rk1/2q1bppp/p2p1n2/npp1p3/3PP3/2P2N1P/PPBN1PP1/R1BQR1K1 b - - 0 12",
    "3r1rk1/pp3ppp/1qn1p3/3pP3/3P4/P2BbN2/1P3PPP/R2Q1R1K w - - 0 17",
    "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 40",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 40",
    "8/8/4kpp1/3p1b2/p6P/2B5/6P1/6K1 b - - 0 47",
    "8/5k2/3p4/1p1Pp2p/pP2Pp1P/P4P1K/8/8 b - - 99 50",
    "4k3/8/8/8/3q4/8/8/R3K2R w KQ - 0 40",
    "8/1p3pk1/p2p2p1/P2Pp2p/1P2P2P/2R2PP1/4r1K1/8 w - - 0 40",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
];

/// Measure the speed of searches with a network: 34 positions, ten seconds each.
///
/// Corresponds to lc0's command of this name. Network, backend and threads are those of the usual options.
#[derive(Clone, Debug, Args)]
pub struct BenchmarkArgs {
    /// End each search at this many nodes, or earlier when the result is proven.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub nodes: Option<u64>,
    /// Milliseconds for each search [default: 10000, without --nodes].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub movetime: Option<u64>,
    /// Search only this position: a FEN or "startpos".
    #[arg(long)]
    pub fen: Option<String>,
    /// Number of positions to search.
    #[arg(long, default_value_t = POSITIONS.len() as u64, conflicts_with = "fen",
          value_parser = clap::value_parser!(u64).range(1..=POSITIONS.len() as u64))]
    pub num_positions: u64,
    /// Print one JSON object per line: one for each position, and one for all of them.
    #[arg(long)]
    pub json: bool,
}

impl BenchmarkArgs {
    fn limits(&self, options: &Options) -> Limits {
        let nodes = options.limited(self.nodes);
        let usual = nodes.is_none().then_some(10_000);
        Limits {
            nodes,
            movetime: self.movetime.or(usual).map(Duration::from_millis),
            ..Limits::default()
        }
    }
}

/// Runs `scorn benchmark`.
///
/// # Errors
/// When the network, the backend or the position does not work.
pub fn run(args: &BenchmarkArgs, options: &Options, load: &Load) -> Result<()> {
    let player = Player::load(options.clone(), load)?;
    let description = player.networks.main.info().description;
    if !args.json {
        print_line!("{description}");
    }
    let games: Vec<History> = match &args.fen {
        Some(fen) => {
            let fen = Some(&**fen).filter(|fen| *fen != "startpos");
            vec![setup::history_from(fen, &[]).context("--fen")?]
        }
        None => POSITIONS
            .iter()
            .take(usize::try_from(args.num_positions).unwrap_or(usize::MAX))
            .map(|text| game(text))
            .collect::<Result<_>>()?,
    };
    let clock = SystemClock::default();
    let (mut nodes, mut time) = (0_u64, Duration::ZERO);
    let while_read = games.iter().take_while(|_| !terminal::is_unread());
    for (number, game) in while_read.enumerate() {
        let fen = Fen::from_position(game.position(), EnPassantMode::Legal).to_string();
        if !args.json {
            print_line!();
            print_line!("Position: {}/{} {fen}", number + 1, games.len());
        }
        let job = player.job(game.clone(), args.limits(options));
        let mut progress = BenchmarkProgress {
            history: game,
            is_silent: args.json,
        };
        let mut tree = Tree::default();
        let stop = StopSignal::default();
        let started = clock.now();
        let outcome = player.search(&mut tree, &job, &stop, &clock, &mut progress)?;
        let taken = clock.now() - started;
        let playouts = outcome.report.playouts;
        nodes += playouts;
        time += taken;
        if args.json {
            print_line!("{}", speed("position", json!(fen), playouts, taken));
        } else {
            print_line!(
                "Benchmark final time {:.3} s calculating {:.0} nodes per second.",
                taken.as_secs_f64(),
                per_second(playouts, taken)
            );
        }
    }
    if args.json {
        let mut all = speed("positions", json!(games.len()), nodes, time);
        all["description"] = description.into();
        print_line!("{all}");
        return Ok(());
    }
    print_line!();
    print_line!("===========================");
    print_line!("Total time (ms) : {}", time.as_millis());
    print_line!("Nodes searched  : {nodes}");
    print_line!("Nodes/second    : {:.0}", per_second(nodes, time));
    Ok(())
}

/// A line of `--json` about what `key` names.
fn speed(key: &str, value: Value, nodes: u64, time: Duration) -> Value {
    json!({
        key: value,
        "nodes": nodes,
        "time_ms": time.as_millis() as u64,
        "nodes_per_second": per_second(nodes, time).round(),
    })
}

fn per_second(nodes: u64, time: Duration) -> f64 {
    nodes as f64 / time.as_secs_f64().max(1e-3)
}

/// The game of a line of [`POSITIONS`].
fn game(text: &str) -> Result<History> {
    if text.contains('/') {
        return Ok(History::new(setup::position_from_fen(text)?));
    }
    let moves: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    Ok(setup::history_from(None, &moves)?)
}

/// Prints what a search reports, a line each.
struct BenchmarkProgress<'a> {
    history: &'a History,
    is_silent: bool,
}

impl Reporter for BenchmarkProgress<'_> {
    fn report(&mut self, report: &Report) {
        if self.is_silent {
            return;
        }
        let first = report.lines.first().and_then(|line| line.pv.first());
        let best = first.map_or("-".to_owned(), |&m| {
            setup::move_text(self.history.position(), m, false)
        });
        let line = format!(
            "Benchmark time {} ms, {} nodes, {:.0} nps, move {best}",
            report.elapsed.as_millis(),
            report.nodes,
            per_second(report.playouts, report.elapsed)
        );
        // The next `print_line!` reports what prevents it.
        let _ = terminal::print(format_args!("{line}\n"));
    }

    fn move_stats(&mut self, _: &[MoveStat]) {}

    fn note(&mut self, text: &str) {
        terminal::eprint_line(text);
    }
}

#[cfg(test)]
mod tests {
    use shakmaty::Position;

    use super::*;

    #[test]
    fn the_positions_are_there_and_playable() {
        for text in POSITIONS {
            let game = game(text).unwrap();
            assert!(!game.position().is_game_over(), "{text}");
        }
    }
}
