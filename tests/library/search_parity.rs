//! The search compared with lc0's: visit counts of fixed positions on maia-1900, one thread, batches of one.
//!
//! The network is not part of the project. `tests/data/lc0` has lc0's counts for 100 nodes, and the network's outputs
//! in the positions of these searches. With `SCORN_SHARED`, a folder with `nets/` and `reference/`, the searches run on
//! the network itself, and with 800 nodes, too. The remaining differences come from lc0's fast exponential and its
//! rounding of priors.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use crate::common::{Setup, recorded::RecordedOutputs, recorded_game, recorded_mode, shared};
use scorn::{
    chess::History,
    network::{
        Evaluator,
        compose::cached::NetworkSettings,
        load::{NetworkConfig, load_backend},
        opponent::Role,
    },
    options::Options,
};
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

/// A file of `tests/data/lc0`.
fn data(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/lc0");
    PathBuf::from(folder).join(name)
}

/// Searches as each row says, on the evaluator for its options, and compares the visits.
fn compare(
    rows: &[Value],
    settings: &Value,
    evaluator: impl Fn(&mut Options) -> Arc<dyn Evaluator>,
) {
    let mut compared = 0;
    let mut failures = Vec::new();
    for row in rows {
        let mut options = options(settings, row["variant"].as_str().unwrap());
        let nodes = row["nodes"].as_u64().unwrap();
        let evaluator = evaluator(&mut options);
        let mut setup = Setup::new(options);
        setup.evaluator = evaluator;
        let game = recorded_game(row);
        setup.search(&game, nodes);
        setup.tree.lock().assert_consistent();
        let ours = visits(&setup, &game, recorded_mode(row));
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
    assert!(compared > 200, "{compared}");
}

fn rows(path: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

fn read_json(path: PathBuf) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn root_visits_are_those_of_lc0() {
    let (Some(reference), Some(settings), Some(network)) = (
        shared("reference/search_reference.jsonl"),
        shared("reference/search_reference_options.json"),
        shared("nets/maia-1900.pb.gz"),
    ) else {
        return;
    };
    let rows = rows(reference);
    assert_eq!(rows.len(), 48);
    compare(&rows, &read_json(settings), |options| {
        options.weights_file = network.to_str().unwrap().to_owned();
        options.backend = std::env::var("SCORN_TEST_BACKEND").unwrap_or_else(|_| "rten".into());
        crate::common::evaluator(options).unwrap()
    });
}

/// Always runs. `SCORN_WRITE_DATA=1` writes the outputs again, which needs the network.
#[test]
fn root_visits_on_recorded_outputs_are_those_of_lc0() {
    let path = data("maia-1900-outputs.gz");
    let is_written = std::env::var_os("SCORN_WRITE_DATA").is_some();
    let outputs = if is_written {
        let weights = shared("nets/maia-1900.pb.gz").expect("the network to record");
        let mut config = NetworkConfig::from(&Options::default());
        config.backend = "rten".into();
        config.weights = weights.to_str().unwrap().to_owned();
        RecordedOutputs::of(load_backend(&config, &|_| {}).unwrap())
    } else {
        RecordedOutputs::read(&path)
    };
    let outputs = Arc::new(outputs);
    let rows = rows(data("search.jsonl"));
    assert_eq!(rows.len(), 24);
    let settings = read_json(data("search-options.json"));
    compare(&rows, &settings, |options| {
        NetworkSettings::of(options, Role::Main).over(outputs.clone())
    });
    if is_written {
        outputs.write(&path);
    }
}
