//! `scorn selfplay`: games of the engine against itself, for statistics and for training.

mod args;
mod display;
mod setup;

use std::sync::{Arc, atomic::Ordering};

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

pub use self::args::SelfplayArgs;
use self::{
    display::{Display, ratio_text},
    setup::{check_options, different_games, plan, work},
};
use crate::{
    interrupt,
    options::{PLAIN_PUCT, layers::Layers},
    player::Load,
    selfplay::{
        chunk::ChunkVersion,
        controller::{Controller, Goal},
        manifest,
        plan::Plan,
        run::SelfplayRun,
        store::Store,
    },
    terminal::{counted, eprint_line},
};

/// Initial limit of `--balance`: the paper's first limit.
const FIRST_LIMIT: u32 = 5;

/// Printed when a signal ends it.
const INTERRUPTED: &str = "scorn: interrupted; --resume continues it";

/// Runs `scorn selfplay`.
///
/// # Errors
/// When the options, the book, a network or the folder cannot be used; the folder is unchanged then.
pub fn run(args: &SelfplayArgs, layers: &Layers, load: &Load) -> Result<()> {
    let options = layers.as_set();
    check_options(&options)?;
    let set_by_tau = args.tau.iter().flat_map(|tau| tau.settings());
    for (name, _) in set_by_tau {
        ensure!(
            layers.setter_of(name).is_none(),
            "--tau sets {name}, too: give one or the other"
        );
    }
    let mut plan = plan(args, layers, load)?;
    let mut balance = balance(args, &mut plan)?;
    warn(args, &plan);
    let work = work(args, &options, &plan);
    let numbers: Vec<u64> = (0..args.games)
        .filter(|number| number % args.shard.count == args.shard.index)
        .collect();
    ensure!(!numbers.is_empty(), "this part has no games");
    let manifest = manifest(args, &plan)?;
    let part_size = args.games_per_file as usize;
    let store = Store::open(
        &args.out,
        &manifest,
        numbers.clone(),
        part_size,
        args.resume,
    )?;
    if let Some(report) = store.report() {
        eprint_line(format_args!("scorn: {report}"));
    }
    // Without handlers, signals end the program as usual.
    let _ = interrupt::call_before_end(|| eprint_line(INTERRUPTED));
    let progress = Arc::default();
    let mut run = SelfplayRun {
        observer: Display::new(numbers.len() as u64, &store, Arc::clone(&progress)),
        output: args.training_output(),
        store,
        progress,
    };
    let batch = balance
        .as_ref()
        .map_or(numbers.len(), |_| args.balance_games as usize);
    for numbers in numbers.chunks(batch) {
        if let Some(controller) = &balance {
            set_limits(&mut plan, controller, args.odds.is_some());
        }
        run.play(&plan, numbers, work)?;
        if let Some(controller) = &mut balance {
            run.update(controller, numbers)?;
        }
    }
    run.observer.bar.finish_and_clear();
    let sum = run.store.finish()?;
    if run.lacks_samples() {
        eprint_line(
            "scorn: no position of these games is a training sample (random moves, fast searches and the moves of a side \
             that is not recorded are left out): no records and no chunks were written",
        );
    }
    report(args, &run, balance.as_ref(), &sum)
}

/// Warns about settings that are probably a mistake, before a long run.
fn warn(args: &SelfplayArgs, plan: &Plan) {
    if let Some(different) = different_games(plan).filter(|&different| different < args.games) {
        let games = match different {
            1 => "all games will be the same".to_owned(),
            count => format!("there are only {count} different games"),
        };
        eprint_line(format_args!(
            "scorn: there is no temperature, no noise and no random ply: {games}"
        ));
    }
    if args.odds.is_some() && args.resign.is_some() {
        eprint_line(format_args!(
            "scorn: with --odds, --resign may end games at their first move: the side that gives odds expects a low score from the start"
        ));
    }
}

/// The controller for `--balance`.
fn balance(args: &SelfplayArgs, plan: &mut Plan) -> Result<Option<Controller>> {
    let Some(target) = args.balance else {
        return Ok(None);
    };
    let [first, second] = &mut plan.players;
    let limit = first.options.sc_limit;
    if args.odds.is_some() && second.options.sc_limit == limit {
        // An option for both sides is the initial limit of the side that gives odds.
        second.set_limits(PLAIN_PUCT as i32, second.nodes);
    }
    ensure!(
        args.shard.count == 1,
        "--balance cannot be combined with --shard: each shard would find other limits"
    );
    ensure!(
        args.odds.is_none() || (second.options.is_plain_puct() && second.nodes == first.nodes),
        "with --balance and --odds, ScLimit and nodes of the side that gets odds (--b) cannot be set"
    );
    ensure!(
        args.odds.is_some() || (limit == second.options.sc_limit && first.nodes == second.nodes),
        "with --balance both sides must have the same ScLimit and the same number of nodes"
    );
    ensure!(limit >= 0, "--balance needs a positive ScLimit");
    let start = if first.options.is_plain_puct() {
        FIRST_LIMIT
    } else {
        limit as u32
    };
    let goal = Goal {
        target,
        games: args.balance_games,
        max_nodes: args.double_nodes,
        is_at_odds: args.odds.is_some(),
    };
    let controller = Controller::new(goal, start, first.nodes);
    set_limits(plan, &controller, args.odds.is_some());
    Ok(Some(controller))
}

/// Sets the limit and nodes of both sides; at odds, the limit of the giver, and the nodes of both.
fn set_limits(plan: &mut Plan, controller: &Controller, is_odds: bool) {
    let (limit, nodes) = (controller.sc_limit(), controller.nodes());
    let [first, second] = &mut plan.players;
    first.set_limits(limit as i32, nodes);
    if is_odds {
        second.set_limits(PLAIN_PUCT as i32, u64::from(limit));
    } else {
        second.set_limits(limit as i32, nodes);
    }
}

fn manifest(args: &SelfplayArgs, plan: &Plan) -> Result<Map<String, Value>> {
    let mut manifest = manifest::of(plan)?;
    let shard = format!("{}/{}", args.shard.index + 1, args.shard.count);
    let sides = args.training_output().sides.0;
    let balance = args.balance.map(|target| {
        json!({
            "target": target,
            "games": args.balance_games,
            "most_nodes": args.double_nodes,
            "odds": args.odds.is_some(),
        })
    });
    let mut training = json!({
        "records": args.records,
        "chunks": args.chunks,
        "a": sides[0],
        "b": sides[1],
        "frozen": "bit 15 of a visit entry's move; frozen_samples in summary.json",
    });
    if args.chunk_version != ChunkVersion::default() {
        training["chunk_version"] = json!(7);
    }
    if args.record_policy {
        training["policy"] = json!("the network's, in place of visits");
    }
    for (name, value) in [
        ("games", json!(args.games)),
        ("games_per_file", json!(args.games_per_file)),
        ("shard", json!(shard)),
        ("balance", json!(balance)),
        ("training", training),
    ] {
        manifest.insert(name.to_owned(), value);
    }
    Ok(manifest)
}

/// Prints the results as text or JSON.
fn report(
    args: &SelfplayArgs,
    run: &SelfplayRun<Display>,
    balance: Option<&Controller>,
    sum: &str,
) -> Result<()> {
    let display = &run.observer;
    let tally = &display.tally;
    let (evaluations, nodes) = (
        display.evaluations_per_second(),
        display.per_second(display.nodes),
    );
    let progress = &display.progress;
    let batches = progress.batches.load(Ordering::Relaxed);
    let batched = progress.batched_positions.load(Ordering::Relaxed);
    let mean_batch = (batches > 0).then(|| batched as f64 / batches as f64);
    if args.json {
        let report = json!({
            "games": tally.games,
            "white": tally.white,
            "draws": tally.draws,
            "black": tally.black,
            "a": tally.first,
            "b": tally.second,
            "decisive_per_draw": tally.decisive_per_draw(),
            "played_on": tally.played_on,
            "false_resignations": tally.false_resignations,
            "sc_limit": balance.map(Controller::sc_limit),
            "sha256": sum,
            "evaluations_per_second": evaluations,
            "nodes_per_second": nodes,
            "mean_batch": mean_batch,
        });
        print_line!("{report}");
        return Ok(());
    }
    print_line!(
        "{}: White won {}, drawn {}, Black won {}; (w+l)/d {}",
        counted(tally.games, "game"),
        tally.white,
        tally.draws,
        tally.black,
        ratio_text(tally)
    );
    print_line!("A won {}, B won {}", tally.first, tally.second);
    if tally.played_on > 0 {
        print_line!(
            "{} played on where a side would have resigned, {} of them not lost by it",
            counted(tally.played_on, "game"),
            tally.false_resignations
        );
    }
    let batches = mean_batch.map_or(String::new(), |mean| format!(" in batches of {mean:.1}"));
    // A run that was complete has nothing to play.
    if nodes > 0.0 {
        print_line!("{evaluations:.0} evaluations/s{batches}, {nodes:.0} nodes/s");
    }
    if let Some(controller) = balance {
        report_balance(controller)?;
    }
    print_line!("sha256 {sum}");
    Ok(())
}

/// Prints where the limit of search-contempt would go on.
fn report_balance(controller: &Controller) -> Result<()> {
    let (limit, nodes) = (controller.sc_limit(), controller.nodes());
    print_line!(
        "the next ScLimit would be {limit}, with {nodes} nodes (balance.jsonl has the history)"
    );
    if let Some(last) = controller.path().last().filter(|last| last.is_out_of_reach) {
        print_line!(
            "plain PUCT with {} nodes is more decisive than --balance: no ScLimit reaches it; more nodes would",
            last.nodes
        );
    }
    Ok(())
}
