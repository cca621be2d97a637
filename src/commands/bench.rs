//! `scorn bench`: fixed searches with the hash evaluator. It prints the speed of the tree on this machine, and a
//! signature: a hash of every root move's visits, which is the same on every machine and changes exactly when the
//! search behaves differently.
//!
//! OpenBench compares programs by their number of nodes, which node limits would make the same for all. So the
//! signature of the other searches is the length of a last one, and the number of nodes stands for the signature.

use std::{sync::Arc, time::Duration};

use anyhow::Result;

use crate::{
    chess::{History, setup},
    hashing::Fnv1a,
    network::hash::HashEvaluator,
    options::Options,
    player::Player,
    search::{Clock, Limits, MoveStat, Report, Reporter, StopSignal, SystemClock, Tree},
};

/// Openings, middlegames, endings, a mate, odds and Chess960: positions that cover the behaviour of the search.
const POSITIONS: &[&str] = &[
    setup::START_FEN,
    "r1bqkbnr/pppp1ppp/2n5/1B2p3/4P3/5N2/PPPP1PPP/RNBQK2R b KQkq - 3 3",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r1bq1rk1/pp2bppp/2n1pn2/3p4/3P1B2/2NBPN2/PP3PPP/R2Q1RK1 b - - 5 10",
    "2rq1rk1/1p3ppp/p2p1n2/2bPp3/4P1b1/2N2N2/PPQ1BPPP/R1B2RK1 w - - 2 13",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "8/8/4kpp1/3p1b2/p6P/2B5/6P1/6K1 b - - 0 47",
    "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 90 60",
    "r2q1rk1/ppp2ppp/2n1b3/3np3/8/2PP1NP1/PP2PPBP/R1BQ1RK1 w - - 1 9",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
    "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
    "k7/8/1K6/8/8/8/8/7R w - - 0 1",
];

/// Options: every position is searched with each set. Plain PUCT and search-contempt with lc0's defaults, and both with
/// what the built-in network recommends, which is what users play with.
const OPTIONS: &[&[(&str, &str)]] = &[
    &[],
    &[("ScLimit", "50")],
    &[
        ("CertaintyProp", "2"),
        ("AutoExtend", "true"),
        ("RootChoice", "lcb"),
    ],
    &[
        ("CertaintyProp", "2"),
        ("AutoExtend", "true"),
        ("RootChoice", "lcb"),
        ("ScLimit", "28"),
        ("ScSampling", "stratified"),
    ],
];

/// Measure the speed of the search and print its signature.
///
/// Uses no network, so only the tree is measured. The signature and the number of nodes, which follows from it, must
/// not change unless a change of the search was intended. The last line is the one that OpenBench reads.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Nodes per search.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub nodes: u64,
}

/// The results of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchResult {
    /// Nodes of all searches.
    pub nodes: u64,
    /// Time of all searches.
    pub time: Duration,
    /// Hash of the visits of all root moves.
    pub signature: u64,
}

/// Runs `scorn bench`.
pub fn run(args: &BenchArgs) -> Result<()> {
    let measured = measure(args.nodes)?;
    let seconds = measured.time.as_secs_f64().max(1e-9);
    let nps = measured.nodes as f64 / seconds;
    print_line!("time       {} ms", measured.time.as_millis());
    print_line!("signature  {:016x}", measured.signature);
    print_line!("{} nodes {nps:.0} nps", measured.nodes);
    Ok(())
}

/// The number of nodes of the last search: the signature, shortened to what 16 of the other searches have.
fn last_nodes(signature: u64, nodes: u64) -> u64 {
    1 + signature % (16 * nodes)
}

/// Searches all positions, and each again two moves later so that re-rooting is covered; then the first one with as
/// many nodes as the signature says.
///
/// # Errors
/// When a search fails, which the hash evaluator never causes.
pub fn measure(nodes: u64) -> Result<BenchResult> {
    let mut visits = VisitHash::default();
    let mut total = Duration::ZERO;
    let clock = SystemClock::default();
    for set in OPTIONS {
        let mut options = Options::default();
        options.set("Threads", "1")?;
        for (name, value) in *set {
            options.set(name, value)?;
        }
        let player = Player::with_evaluator(options, Arc::new(HashEvaluator));
        for fen in POSITIONS {
            let mut tree = Tree::default();
            let mut history = History::new(setup::position_from_fen(fen)?);
            for _ in 0..2 {
                let limits = Limits {
                    playouts: Some(nodes),
                    ..Limits::default()
                };
                let job = player.job(history.clone(), limits);
                let stop = StopSignal::default();
                let started = clock.now();
                let outcome = player.search(&mut tree, &job, &stop, &clock, &mut visits)?;
                total += clock.now() - started;
                visits.nodes += outcome.report.playouts;
                let (Some(best), Some(reply)) = (outcome.best, outcome.ponder) else {
                    break;
                };
                history.push(best);
                history.push(reply);
            }
        }
    }
    let signature = visits.hash.value();
    let mut options = Options::default();
    options.set("Threads", "1")?;
    let player = Player::with_evaluator(options, Arc::new(HashEvaluator));
    let limits = Limits {
        playouts: Some(last_nodes(signature, nodes)),
        ..Limits::default()
    };
    let job = player.job(
        History::new(setup::position_from_fen(POSITIONS[0])?),
        limits,
    );
    let (mut tree, stop) = (Tree::default(), StopSignal::default());
    let started = clock.now();
    let outcome = player.search(&mut tree, &job, &stop, &clock, &mut visits)?;
    Ok(BenchResult {
        nodes: visits.nodes + outcome.report.playouts,
        time: total + (clock.now() - started),
        signature,
    })
}

/// Hashes the statistics of the root moves (FNV-1a).
#[derive(Default)]
struct VisitHash {
    hash: Fnv1a,
    nodes: u64,
}

impl Reporter for VisitHash {
    fn report(&mut self, _: &Report) {}

    fn move_stats(&mut self, stats: &[MoveStat]) {
        for stat in stats {
            let m = stat.m.map_or(u16::MAX, |m| m.bits());
            self.hash = self.hash.and(&m.to_le_bytes());
            self.hash = self.hash.and(&stat.n.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200 nodes per search; like the signature of 20 000 nodes in `.ci/bench-signature`, it changes only with the
    /// search.
    const SIGNATURE: u64 = 0x25e7_829b_43fc_b422;

    #[test]
    fn the_signature_is_pinned_and_depends_on_the_search() {
        let (first, other) = (measure(200).unwrap(), measure(201).unwrap());
        assert_eq!(
            first.signature, SIGNATURE,
            "{:016x}: the search behaves differently (see CONTRIBUTING.md)",
            first.signature
        );
        assert_ne!(first.signature, other.signature);
        let without =
            |result: BenchResult, nodes| result.nodes - last_nodes(result.signature, nodes);
        // Some searches end early: the mates.
        assert!(without(first, 200) > 200 * 80 && without(first, 200) <= 200 * 96);
        assert_ne!(last_nodes(7, 200), last_nodes(8, 200));
    }
}
