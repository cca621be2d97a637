//! Networks compared with lc0's recorded outputs, through the real path: history, encoder, backend, policy over legal
//! moves.
//!
//! `tests/data/lc0` has one network, of random weights. The others and their outputs are in the folder shared between
//! checkouts (`SCORN_SHARED`, or `../shared`). For what is missing, and for ONNX Runtime without its library
//! (`ORT_DYLIB_PATH`), the tests print a message and pass.

use std::{path::PathBuf, sync::Arc};

use crate::common::{game, recorded_game, recorded_mode, shared};
use scorn::{
    chess::{
        History,
        moves::{MAX_MOVES, legal_moves},
    },
    network::{
        Added, Batch, EvalPosition, Evaluator, Value,
        compose::cached::NetworkSettings,
        load::{LoadError, NetworkConfig, load_backend},
        source::WeightsError,
    },
    options::Options,
};

/// The requirement is 1e-3; the measured accuracy is better.
const TOLERANCE: f64 = 2e-4;

/// The network that is part of the project, and its outputs.
const IN_DATA: &str = "synth-attn-pemap-smolgen";
const NETWORKS: [(&str, &str); 6] = [
    (IN_DATA, IN_DATA),
    ("maia-1900", "maia1900_reference"),
    ("synth-classical-se", "synth-classical-se"),
    ("synth-noSE-classical", "synth-noSE-classical"),
    ("synth-conv-wdl-mlh", "synth-conv-wdl-mlh"),
    ("synth-bt-multihead", "synth-bt-multihead"),
];

/// A file of the project, or else of the shared folder.
fn in_data_or_shared(name: &str, folder: &str) -> Option<PathBuf> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/lc0");
    let path = data.join(name);
    if path.exists() {
        return Some(path);
    }
    shared(&format!("{folder}/{name}"))
}

fn config(backend: &str, network: &str) -> Option<NetworkConfig> {
    let path = in_data_or_shared(&format!("{network}.pb.gz"), "nets")?;
    let mut config = NetworkConfig::from(&Options::default());
    config.backend = backend.to_owned();
    config.weights = path.to_string_lossy().into_owned();
    config.threads = 1;
    Some(config)
}

fn load(config: &NetworkConfig) -> Result<Arc<dyn Evaluator>, LoadError> {
    load_backend(config, &|_| {})
}

/// The evaluator, unless its requirements are not installed.
fn installed(config: &NetworkConfig) -> Option<Arc<dyn Evaluator>> {
    match load(config) {
        Ok(evaluator) => Some(evaluator),
        Err(error @ (LoadError::Runtime { .. } | LoadError::Unavailable { .. })) => {
            crate::common::skipped(&error.to_string());
            None
        }
        Err(error) => panic!("{}: {error}", config.weights),
    }
}

/// The largest difference of any probability, value or (relative) moves-left from the reference.
fn largest_difference(evaluator: &dyn Evaluator, file: &str) -> Option<f64> {
    let path = in_data_or_shared(&format!("{file}.jsonl"), "reference")?;
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let games: Vec<History> = rows.iter().map(recorded_game).collect();
    let mut batch = Batch::default();
    for game in &games {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        evaluator.view().queue(game.plies(), &moves, &mut batch);
    }
    evaluator.evaluate(&mut batch).unwrap();
    let mut largest = 0f64;
    for (index, (row, game)) in rows.iter().zip(&games).enumerate() {
        let value = batch.value(index);
        let mut see = |what: &str, ours: f32, theirs: &serde_json::Value, scale: f64| {
            let theirs = theirs
                .as_f64()
                .unwrap_or_else(|| panic!("{} {what}", row["id"]));
            largest = largest.max((f64::from(ours) - theirs).abs() / scale);
        };
        see("q", value.wl, &row["q"], 1.0);
        see("d", value.d, &row["d"], 1.0);
        see("m", value.m, &row["m"], 1f64.max(f64::from(value.m)));
        assert_eq!(
            batch.moves(index).len(),
            row["policy"].as_object().unwrap().len()
        );
        for (m, p) in batch.moves(index).iter().zip(batch.policy(index)) {
            let uci = m.to_uci(game.position(), recorded_mode(row)).to_string();
            see(&uci, *p, &row["policy"][&uci], 1.0);
        }
    }
    Some(largest)
}

fn parity(backend: &str, options: &str, tolerance: f64) {
    for (network, file) in NETWORKS {
        let Some(mut config) = config(backend, network) else {
            assert_ne!(network, IN_DATA);
            continue;
        };
        config.backend_options = options.to_owned();
        let Some(evaluator) = installed(&config) else {
            return;
        };
        let Some(difference) = largest_difference(&*evaluator, file) else {
            continue;
        };
        eprintln!("{backend} {options} {network}: {difference:.1e}");
        assert!(difference <= tolerance, "{backend} {network}: {difference}");
    }
}

#[test]
fn rten_agrees_with_lc0() {
    parity("rten", "", TOLERANCE);
}

#[test]
fn onnx_cpu_agrees_with_lc0() {
    parity("onnx-cpu", "", TOLERANCE);
}

#[test]
fn openvino_agrees_with_lc0() {
    parity("openvino", "precision=fp32", TOLERANCE);
}

#[test]
fn openvino_in_16_bits_is_close() {
    parity("openvino", "precision=bf16", 3e-2);
}

#[test]
fn threads_share_a_backend() {
    for backend in ["rten", "onnx-cpu"] {
        let Some(config) = config(backend, "maia-1900") else {
            return;
        };
        let Some(evaluator) = installed(&config) else {
            continue;
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    largest_difference(&*evaluator, "maia1900_reference")
                        .map(|d| assert!(d < TOLERANCE))
                });
            }
        });
    }
}

/// OpenVINO runs the stream of each session on the first core unless configured otherwise: then two threads, or two
/// engines, are as fast as one.
#[cfg(target_os = "linux")]
#[test]
fn no_backend_keeps_threads_from_other_cores() {
    let cores = |task: &std::path::Path| {
        let status = std::fs::read_to_string(task.join("status")).ok()?;
        let line = status.lines().find(|l| l.starts_with("Cpus_allowed:"))?;
        Some(line.to_owned())
    };
    let allowed = cores("/proc/thread-self".as_ref()).unwrap();
    for backend in ["rten", "onnx-cpu", "openvino"] {
        let mut config = tiny(backend, "tiny.onnx");
        config.threads = 1;
        let Some(evaluator) = installed(&config) else {
            continue;
        };
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let start = History::default();
                let moves: Vec<_> = legal_moves(start.position()).collect();
                for _ in 0..5000 {
                    let mut batch = Batch::default();
                    evaluator.view().queue(start.plies(), &moves, &mut batch);
                    evaluator.evaluate(&mut batch).unwrap();
                }
            });
            while !asking.is_finished() {
                for task in std::fs::read_dir("/proc/self/task").unwrap() {
                    // A thread that has ended has no status.
                    if let Some(now) = cores(&task.unwrap().path()) {
                        assert_eq!(now, allowed, "{backend}");
                    }
                }
            }
        });
    }
}

#[test]
fn an_evaluation_does_not_depend_on_the_batch_it_is_in() {
    let mut game = History::default();
    let mut games = vec![game.clone()];
    while games.len() < 300 {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        if moves.is_empty() {
            game = History::default();
            continue;
        }
        game.push(moves[games.len() * 31 % moves.len()]);
        if legal_moves(game.position()).next().is_some() {
            games.push(game.clone());
        }
    }
    for (backend, options) in [("rten", ""), ("onnx-cpu", ""), ("onnx-cpu", "batch=1/7/64")] {
        let mut config = tiny(backend, "tiny.onnx");
        config.weights = concat!(env!("CARGO_MANIFEST_DIR"), "/networks/scorn-dense.onnx").into();
        config.backend_options = options.to_owned();
        config.threads = 1;
        let Some(evaluator) = installed(&config) else {
            continue;
        };
        let evaluate = |games: &[History]| {
            let mut batch = Batch::default();
            for game in games {
                let moves: Vec<_> = legal_moves(game.position()).collect();
                evaluator.view().queue(game.plies(), &moves, &mut batch);
            }
            evaluator.evaluate(&mut batch).unwrap();
            batch
        };
        let whole = evaluate(&games);
        // More sizes, and larger ones, than buffers are kept for.
        for size in [256, 200, 199, 1, 150, 256, 3, 149, 200] {
            let part = evaluate(&games[300 - size..]);
            for index in 0..size {
                let (one, other) = (part.value(index), whole.value(300 - size + index));
                assert!((one.wl - other.wl).abs() < 1e-5, "{backend} {size} {index}");
                let policies = part.policy(index).iter();
                let differences = policies.zip(whole.policy(300 - size + index));
                assert!(differences.into_iter().all(|(a, b)| (a - b).abs() < 1e-5));
            }
        }
    }
}

/// The backend with a cache.
fn cached(config: &NetworkConfig) -> Arc<dyn Evaluator> {
    let settings = NetworkSettings {
        cache: 1000,
        ..NetworkSettings::NONE
    };
    settings.over(load(config).unwrap())
}

/// The value and the priors of the position at the end of a game, if they are in the cache.
fn fetch(evaluator: &dyn Evaluator, game: &History) -> Option<(Value, Vec<f32>)> {
    let (mut moves, mut priors) = (Vec::new(), [0.0; MAX_MOVES]);
    let mut position = EvalPosition::new(game.plies(), &mut moves, &mut priors);
    match evaluator.add(&mut position, &mut Batch::default()) {
        Added::Fetched(value) => Some((value, position.policy().1.to_vec())),
        _ => None,
    }
}

#[test]
fn the_built_in_network_answers_once_for_all_ways_to_a_position() {
    let mut config = tiny("rten", "tiny.onnx");
    config.weights = concat!(env!("CARGO_MANIFEST_DIR"), "/networks/scorn-dense.onnx").into();
    let evaluator = cached(&config);
    let played = |moves: &str| game("startpos", moves.split_whitespace());
    let evaluate = |game: &History| {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let mut batch = Batch::default();
        evaluator.view().queue(game.plies(), &moves, &mut batch);
        evaluator.evaluate(&mut batch).unwrap();
        (batch.value(0), batch.policy(0).to_vec())
    };
    let one_way = played("g1f3 g8f6 b1c3 b8c6");
    let answer = evaluate(&one_way);
    let other_way = played("b1c3 b8c6 g1f3 g8f6");
    let fetched = fetch(&*evaluator, &other_way);
    assert_eq!(fetched.map(|(value, _)| value), Some(answer.0));
    // The network gives the same again.
    assert_eq!(evaluate(&other_way), answer);
    // A position with another rule-50 counter, or with a pawn that can be captured en passant, is another one for the
    // cache.
    let fetch_after = |moves: &str| fetch(&*evaluator, &played(moves));
    assert_eq!(fetch_after("g1f3 g8f6 b1c3 b8c6 f3g1 f6g8 g1f3 g8f6"), None);
    evaluate(&played("e2e3 d7d6 e3e4 d6d5 e4e5 a7a6"));
    assert_eq!(fetch_after("e2e4 a7a6 e4e5 d7d5"), None);
    // A network that reads the history is evaluated for each path.
    if let Some(config) = self::config("rten", "maia-1900") {
        let evaluator = cached(&config);
        let mut batch = Batch::default();
        let moves: Vec<_> = legal_moves(one_way.position()).collect();
        evaluator.view().queue(one_way.plies(), &moves, &mut batch);
        evaluator.evaluate(&mut batch).unwrap();
        assert_eq!(fetch(&*evaluator, &other_way), None);
    }
}

#[test]
fn the_cache_gives_back_what_the_network_said() {
    let Some(config) = config("rten", "maia-1900") else {
        return;
    };
    let evaluator = cached(&config);
    let game = History::default();
    let moves: Vec<_> = legal_moves(game.position()).collect();
    assert_eq!(fetch(&*evaluator, &game), None);
    let mut batch = Batch::default();
    evaluator.view().queue(game.plies(), &moves, &mut batch);
    evaluator.evaluate(&mut batch).unwrap();
    let (value, priors) = fetch(&*evaluator, &game).unwrap();
    assert_eq!(value, batch.value(0));
    for (hit, miss) in priors.iter().zip(batch.policy(0)) {
        assert!((hit - miss).abs() <= miss / 4096.0);
    }
}

#[test]
fn unusable_settings_are_refused_by_name() {
    let Some(config) = config("rten", "maia-1900") else {
        return;
    };
    let message = |change: &dyn Fn(&mut NetworkConfig)| {
        let mut changed = config.clone();
        change(&mut changed);
        load(&changed)
            .err()
            .expect("this should not load")
            .to_string()
    };
    let unknown = message(&|c| c.backend = "quantum".into());
    assert!(
        unknown.contains("quantum") && unknown.contains("onnx-cpu"),
        "{unknown}"
    );
    let syntax = message(&|c| c.backend_options = "a(b".into());
    assert!(syntax.contains("BackendOptions"), "{syntax}");
    let setting = message(&|c| c.backend_options = "speed=9".into());
    assert!(
        setting.contains("speed") && setting.contains("threads"),
        "{setting}"
    );
    let library = message(&|c| {
        c.backend = "onnx-cpu".into();
        c.runtime_path = "/nowhere".into();
    });
    assert!(library.contains("/nowhere"), "{library}");
    let missing = message(&|c| c.weights = "/nowhere/net.pb.gz".into());
    assert!(missing.contains("/nowhere/net.pb.gz"), "{missing}");
    let head = message(&|c| c.policy_head = Some("optimistic".into()));
    assert!(
        head.contains("optimistic") && head.contains("vanilla"),
        "{head}"
    );
    for gpu in ["cuda", "tensorrt"] {
        let gpu = message(&|c| c.backend = gpu.into());
        assert!(gpu.contains("onnxruntime"), "{gpu}");
    }
}

#[test]
fn the_automatic_choice_prints_its_reasons() {
    let Some(config) = config("auto", "maia-1900") else {
        return;
    };
    let evaluator = load(&config).unwrap();
    let text = evaluator.info().description;
    assert!(
        text.contains("maia-1900") && text.contains("not used: tensorrt"),
        "{text}"
    );
}

/// A tiny network of `tests/data/networks`.
fn tiny(backend: &str, name: &str) -> NetworkConfig {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/networks")
        .join(name);
    let mut config = NetworkConfig::from(&Options::default());
    config.backend = backend.to_owned();
    config.weights = path.to_string_lossy().into_owned();
    config
}

#[test]
fn networks_that_yield_nonsense_are_refused() {
    for backend in ["rten", "onnx-cpu", "auto"] {
        if installed(&tiny(backend, "tiny.onnx")).is_none() {
            continue;
        }
        for (name, expected) in [
            ("nan.onnx", "policy is not a finite number"),
            ("narrow.onnx", "1858"),
            ("liar.onnx", "1858"),
        ] {
            let error = load(&tiny(backend, name))
                .err()
                .expect("this should not load")
                .to_string();
            assert!(
                error.contains(name) && error.contains(expected),
                "{backend}: {error}"
            );
        }
    }
}

#[test]
fn backends_combine() {
    let mut config = tiny("multiplexing", "tiny.onnx");
    let error = load(&config).err().unwrap().to_string();
    assert!(error.contains("BackendOptions"), "{error}");
    config.backend_options = "backend=rten,(threads=1),(threads=2)".into();
    assert!(
        load(&config)
            .unwrap()
            .info()
            .description
            .starts_with("multiplexing: rten")
    );
    config.backend = "roundrobin".into();
    config.backend_options = "a(backend=rten),rten()".into();
    assert!(
        load(&config)
            .unwrap()
            .info()
            .description
            .contains(" + rten")
    );
    config.backend_options = "quantum()".into();
    assert!(load(&config).err().unwrap().to_string().contains("quantum"));
    if installed(&tiny("onnx-cpu", "tiny.onnx")).is_none() {
        return;
    }
    let Some(mut config) = self::config("check", "maia-1900") else {
        return;
    };
    config.backend_options = "onnx-cpu(),rten(),tolerance=0.0001".into();
    let checked = load(&config).unwrap();
    assert!(largest_difference(&*checked, "maia1900_reference").unwrap() < TOLERANCE);
    config.backend_options = "onnx-cpu(),rten(),tolerance=0".into();
    let strict = load(&config).unwrap();
    let game = History::default();
    let moves: Vec<_> = legal_moves(game.position()).collect();
    let mut batch = Batch::default();
    strict.view().queue(game.plies(), &moves, &mut batch);
    let error = strict.evaluate(&mut batch).unwrap_err().to_string();
    assert!(error.contains("differ by more than 0"), "{error}");
}

#[test]
fn damaged_networks_never_crash() {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.onnx");
    let original = std::fs::read(tiny("rten", "tiny.onnx").weights).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    for backend in ["rten", "onnx-cpu"] {
        let mut config = tiny(backend, "tiny.onnx");
        if installed(&config).is_none() {
            continue;
        }
        config.weights = path.to_string_lossy().into_owned();
        for _ in 0..400 {
            let mut bytes = original.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            if random.random_range(0..4) == 0 {
                bytes.truncate(random.random_range(0..bytes.len()));
            }
            std::fs::write(&path, bytes).unwrap();
            if let Err(error) = load(&config) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn the_built_in_network_works_or_is_missed_clearly() {
    let mut config = tiny("rten", "tiny.onnx");
    config.weights = "<built in>".into();
    match load(&config) {
        Ok(evaluator) => assert!(evaluator.info().description.contains("built in")),
        Err(error) => assert!(
            matches!(error, LoadError::Weights(WeightsError::NoBuiltIn)),
            "{error}"
        ),
    }
}
