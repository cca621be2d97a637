//! The search compared with lc0's: visit counts of fixed positions on maia-1900, one thread, batches of one.
//!
//! The network and lc0's counts are not part of the project: set `SCORN_SHARED` to a folder with `nets/` and
//! `reference/`. The remaining differences come from lc0's fast exponential and its rounding of priors.

use std::collections::BTreeMap;

use crate::common::{Setup, recorded_game, recorded_mode, shared};
use scorn::{chess::History, options::Options};
use serde_json::Value;
use shakmaty::CastlingMode;

/// The options of lc0's searches that exist in Scorn, for one variant.
fn options(settings: &Value, variant: &str) -> Options {
    let mut options = Options::default();
    let skipped = [
        "WeightsFile",
        "Backend",
        "TaskWorkers",
        "MaxPrefetch",
        "CacheHistoryLength",
    ];
    let skipped = [
        &skipped[..],
        &["MaxConcurrentSearchers", "SolidTreeThreshold"],
    ]
    .concat();
    for group in [&settings["base"], &settings["variants"][variant]] {
        for (name, value) in group.as_object().unwrap() {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            if !skipped.contains(&name.as_str()) {
                options.set(name, &text).unwrap();
            }
        }
    }
    options
}

/// Visits per root move.
fn visits(setup: &Setup, game: &History, mode: CastlingMode) -> BTreeMap<String, i64> {
    let tree = setup.tree.lock();
    let root = tree.node(tree.root());
    let name = |edge: u8| {
        tree.edges(root)
            .at(edge)
            .m()
            .to_uci(game.position(), mode)
            .to_string()
    };
    tree.children(root)
        .iter()
        .map(|child| (name(child.edge), i64::from(child.n)))
        .collect()
}

#[test]
fn root_visits_are_those_of_lc0() {
    let (Some(rows), Some(settings), Some(network)) = (
        shared("reference/search_reference.jsonl"),
        shared("reference/search_reference_options.json"),
        shared("nets/maia-1900.pb.gz"),
    ) else {
        return;
    };
    let settings: Value =
        serde_json::from_str(&std::fs::read_to_string(settings).unwrap()).unwrap();
    let rows = std::fs::read_to_string(rows).unwrap();
    let mut compared = 0;
    let mut failures = Vec::new();
    for row in rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
    {
        let mut options = options(&settings, row["variant"].as_str().unwrap());
        options.weights_file = network.to_str().unwrap().to_owned();
        options.backend = std::env::var("SCORN_TEST_BACKEND").unwrap_or_else(|_| "rten".into());
        let nodes = row["nodes"].as_u64().unwrap();
        let mut setup = Setup::new(options.clone());
        setup.evaluator = crate::common::evaluator(&options).unwrap();
        let game = recorded_game(&row);
        setup.search(&game, nodes);
        setup.tree.lock().assert_consistent();
        let ours = visits(&setup, &game, recorded_mode(&row));
        let tolerance = if nodes <= 100 { 3 } else { nodes as i64 / 50 };
        for (m, theirs) in row["visits"].as_object().unwrap() {
            let theirs = theirs.as_i64().unwrap();
            let ours = ours.get(m).copied().unwrap_or(0);
            compared += 1;
            if (ours - theirs).abs() > tolerance {
                failures.push(format!(
                    "{} {} {nodes} {m}: {ours}, lc0 {theirs}",
                    row["id"], row["variant"]
                ));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {compared} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(compared > 500);
}
