//! Turns arguments and options into the plan of a run: sides, networks, openings, rules.

use std::{collections::HashMap, sync::Arc};

use anyhow::{Context, Result, ensure};
use shakmaty::Color;

use super::args::{ColorChoice, SelfplayArgs};
use crate::{
    commands::open_tables,
    game::{adjudicate::Rules, openings::Book},
    network::{
        cores,
        opponent::{self, Networks},
        source::recommended::recommended_options,
    },
    options::{ContemptMode, Options, RatioSchedule, ScSampling, layers::Layers, settings},
    player::Load,
    selfplay::{
        driver,
        plan::{Colors, Contestant, Plan, PlayoutCap, RandomPlies, Resign, Starts, Terms},
    },
    syzygy::Tables,
    terminal::eprint_line,
};

/// Refuses options that have no effect in self-play: limits of one search's memory and speed, because many trees grow
/// at a time, and the analysis mode, which has neither temperature nor noise.
pub(super) fn check_options(options: &Options) -> Result<()> {
    ensure!(
        options.ram_limit_mb == 0 && options.nps_limit == 0.0,
        "RamLimitMb and NodesPerSecondLimit have no effect in self-play: memory grows with --parallel and --nodes"
    );
    ensure!(
        !options.analyse_mode,
        "UCI_AnalyseMode has no effect in self-play: to switch off temperature and noise, set their options"
    );
    Ok(())
}

/// The number of different games (start positions and colours), if nothing is random.
pub(super) fn different_games(plan: &Plan) -> Option<u64> {
    let is_left_to_chance = |player: &Contestant| {
        let options = &player.options;
        // A node has at most as many visits as the search, unless these come on top of those of a kept tree.
        let may_reach_limit = u64::from(options.sc_limit.unsigned_abs()) < player.nodes
            || plan.terms.reuse_tree && options.nodes_as_playouts;
        let freezes = !options.is_plain_puct()
            && may_reach_limit
            && options.contempt_mode != ContemptMode::Disable;
        let has_schedule = options.hybrid_ratio_schedule != RatioSchedule::default();
        let ratio = options.hybrid_sampling_ratio;
        let draws_replies = options.sc_sampling == ScSampling::Thompson
            && options.sc_temperature > 0.0
            && (ratio > 0.0 || has_schedule);
        let draws_visits = has_schedule || (ratio > 0.0 && ratio < 1.0);
        let is_drawn = freezes && (draws_replies || draws_visits);
        let is_mixed = plan.terms.cap.is_some_and(|cap| cap.nodes < player.nodes);
        let chances = [
            options.temperature,
            options.temp_endgame,
            options.noise_epsilon,
            options.opening_variety,
        ];
        is_drawn || is_mixed || chances.iter().any(|&chance| chance > 0.0)
    };
    let random = plan.terms.random.as_ref();
    let plays_at_random = random.is_some_and(|random| random.plies > 0 && random.share > 0.0);
    if plays_at_random || plan.players.iter().any(is_left_to_chance) {
        return None;
    }
    let starts = match (&plan.starts, plan.colors) {
        (Starts::Odds(_), Colors::Fixed(_)) => 1,
        (Starts::Odds(_), Colors::Both) => 2,
        (Starts::Book(openings), Colors::Fixed(_)) => openings.len(),
        (Starts::Book(openings), Colors::Both) => 2 * openings.len(),
    };
    Some(starts as u64)
}

pub(super) fn plan(args: &SelfplayArgs, layers: &Layers, load: &Load) -> Result<Plan> {
    let options = &layers.as_set();
    let sides = sides(args, layers)?;
    let starts = match (&args.book, &args.odds) {
        (Some(path), _) => {
            let seed = (!args.in_order).then_some(options.seed);
            Starts::book(&Book::open(path)?, seed)
        }
        (None, Some(odds)) => Starts::odds(odds)?,
        (None, None) => Starts::book(&Book::standard(), None),
    };
    let mut opened = OpenTables::default();
    let terms = terms(args, options, &mut opened)?;
    let mut players = players(args, sides, load)?;
    let max_nodes = players.iter().map(|player| player.nodes).max();
    if let (Some(cap), Some(max_nodes)) = (terms.cap, max_nodes) {
        ensure!(
            cap.nodes < max_nodes,
            "--fast-nodes {}: these searches would be no faster than those with all {max_nodes} nodes",
            cap.nodes
        );
    }
    for player in &mut players {
        player.tables = opened.get(&player.options.syzygy_path)?;
    }
    let colors = match args.a_plays {
        ColorChoice::White => Colors::Fixed(Color::White),
        ColorChoice::Black => Colors::Fixed(Color::Black),
        ColorChoice::Both => Colors::Both,
    };
    Ok(Plan::new(players, colors, starts, terms, options.seed))
}

/// The options of both sides.
fn sides(args: &SelfplayArgs, layers: &Layers) -> Result<[Options; 2]> {
    let mut both = layers.clone();
    for (name, value) in args.tau.iter().flat_map(|tau| tau.settings()) {
        both.user.set(name, value)?;
    }
    let side = |text: &str, name| {
        let options = side_options(&both, text);
        options.with_context(|| format!("--{name} {text}"))
    };
    Ok([side(&args.a, "a")?, side(&args.b, "b")?])
}

/// The players with these options and their networks.
fn players(args: &SelfplayArgs, sides: [Options; 2], load: &Load) -> Result<[Contestant; 2]> {
    let networks = networks(&sides, load)?;
    let names = if sides[0] == sides[1] {
        ["Scorn", "Scorn"]
    } else {
        ["Scorn A", "Scorn B"]
    };
    let player = |name, options: Options, networks| {
        let nodes = nodes(args, &options);
        Contestant::new(name, options, nodes, networks)
    };
    let ([a, b], [of_a, of_b]) = (sides, networks);
    Ok([player(names[0], a, of_a), player(names[1], b, of_b)])
}

/// The options of one side. Options of the whole run are refused.
fn side_options(both: &Layers, text: &str) -> Result<Options> {
    let mut layers = both.clone();
    for setting in settings(text) {
        let (name, value) = setting?;
        layers.user.set(name, value)?;
        let row = Options::default().row(name);
        let is_only_uci = row.is_some_and(|row| row.is_only_uci);
        ensure!(!is_only_uci, "{name} has no effect in self-play");
    }
    layers.network = recommended_options(&layers.as_set().weights_file);
    let (options, both) = (layers.resolve().into_options(), both.as_set());
    check_options(&options)?;
    ensure!(
        (options.seed, options.threads) == (both.seed, both.threads),
        "Seed and Threads apply to the whole run: set them with --seed and --threads"
    );
    if let Some(reason) = opponent::why_idle(&options) {
        eprint_line(format_args!("scorn: {reason}"));
    }
    Ok(options)
}

fn nodes(args: &SelfplayArgs, options: &Options) -> u64 {
    match options.node_limit {
        0 => args.nodes,
        limit => limit,
    }
}

/// The networks of both sides. Equal networks are shared, so that the positions of both sides fill one batch.
fn networks(sides: &[Options; 2], load: &Load) -> Result<[Networks; 2]> {
    // With a cache, games would depend on each other.
    let sides = sides.clone().map(|options| Options {
        nn_cache_size: 0,
        ..options
    });
    let networks_of = |options: &Options| Networks::load(options, |role| load(options, role));
    let [a, b] = &sides;
    let first = networks_of(a)?;
    let second = if opponent::are_same(a, b) {
        first.clone()
    } else {
        networks_of(b)?
    };
    Ok([first, second])
}

/// Tablebases by their paths. The sides and the adjudication share them.
#[derive(Default)]
struct OpenTables(HashMap<String, Arc<Tables>>);

impl OpenTables {
    /// Those of a path, which are opened the first time; `None` without a path.
    fn get(&mut self, path: &str) -> Result<Option<Arc<Tables>>> {
        if path.is_empty() {
            return Ok(None);
        }
        if let Some(tables) = self.0.get(path) {
            return Ok(Some(Arc::clone(tables)));
        }
        let tables = Arc::new(open_tables(path)?);
        self.0.insert(path.to_owned(), Arc::clone(&tables));
        Ok(Some(tables))
    }
}

fn terms(args: &SelfplayArgs, options: &Options, opened: &mut OpenTables) -> Result<Terms> {
    let tables = if args.adjudicate_syzygy {
        let tables = opened.get(&options.syzygy_path)?;
        Some(tables.context("--adjudicate-syzygy needs SyzygyPath")?)
    } else {
        None
    };
    Ok(Terms {
        rules: Rules {
            draw: args.draw_rule,
            win: args.win_rule,
            max_plies: Some(args.max_plies as usize),
            tables,
        },
        resign: args.resign.map(|percent| Resign {
            below: (percent / 100.0) as f32,
            playthrough: args.resign_playthrough / 100.0,
        }),
        random: (args.random_plies > 0).then_some(RandomPlies {
            plies: usize::from(args.random_plies),
            share: args.random_share,
        }),
        cap: args.fast_nodes.map(|nodes| PlayoutCap {
            nodes,
            full: args.full_share,
        }),
        reuse_tree: args.reuse_tree,
    })
}

/// The amount of parallel work.
pub(super) fn work(args: &SelfplayArgs, options: &Options, plan: &Plan) -> driver::Workload {
    let mut evaluators = plan.evaluators.iter().map(|evaluator| evaluator.info());
    let batched = evaluators.find(|info| !info.computes_at_once);
    let advice = match &batched {
        Some(info) => info.advice,
        None => plan.evaluators[0].info().advice,
    };
    let threads = match options.threads {
        // Every game has trees of its own, so there is no lock to wait for.
        0 if batched.is_none() => cores(),
        0 => advice.threads.max(1),
        threads => threads,
    };
    let batch = match args.batch {
        0 => advice.minibatch.max(1),
        batch => batch as usize,
    };
    let parallel = match args.parallel {
        0 if batched.is_none() => threads,
        0 => 2 * threads * batch,
        parallel => parallel as usize,
    };
    driver::Workload {
        parallel,
        threads,
        batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::hash::HashEvaluator;

    #[test]
    fn sides_share_networks_only_with_equal_settings() {
        let load: Load = Arc::new(|_: &Options, _| Ok(Arc::new(HashEvaluator) as _));
        let usual = Options {
            opponent_weights: "maia".into(),
            ..Options::default()
        };
        for (option, value, is_shared) in [
            ("CPuct", "2", true),
            ("NNCacheSize", "10", true),
            ("WeightsFile", "other", false),
            ("OpponentRating", "1500", false),
            ("PolicyTemperature", "2", false),
            ("OpponentPolicyTemperature", "2", false),
            ("SwapColors", "true", false),
        ] {
            let mut other = usual.clone();
            other.set(option, value).unwrap();
            let [a, b] = networks(&[usual.clone(), other], &load).unwrap();
            assert_eq!(Arc::ptr_eq(&a.main, &b.main), is_shared, "{option}");
        }
    }
}
