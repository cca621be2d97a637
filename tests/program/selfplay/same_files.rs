//! The same files at any speed, in parts, and after being killed.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use scorn::pgn::Reader;
use serde_json::Value;

use super::{GAMES, command, files, ok, run, text, with};

#[test]
fn the_same_files_at_any_speed_and_every_game_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for (index, speed) in [
        ["--parallel", "1", "--batch", "1", "--threads", "1"],
        ["--parallel", "30", "--batch", "64", "--threads", "3"],
        ["--parallel", "7", "--batch", "5", "--threads", "2"],
    ]
    .iter()
    .enumerate()
    {
        let out = folder.path().join(index.to_string());
        ok(&run(&out, &with(speed)));
        runs.push(files(&out));
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
    let names: Vec<&str> = runs[0].keys().map(String::as_str).collect();
    for name in [
        "positions-00001.vis",
        "lc0/game_000000029.gz",
        "manifest.json",
        "summary.json",
        "games-00001.pgn",
        "games-00004.pgn",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let mut rounds = Vec::new();
    for (_, pgn) in runs[0].iter().filter(|(name, _)| name.ends_with(".pgn")) {
        for game in Reader::new(&pgn[..]) {
            let game = game.unwrap();
            assert!(game.outcome.is_some() && !game.moves.is_empty());
            rounds.push(game.tag("Round").unwrap().to_owned());
        }
    }
    let expected: Vec<String> = (1..=30).map(|round: u32| round.to_string()).collect();
    assert_eq!(rounds, expected);
    let other = folder.path().join("other");
    ok(&run(&other, &with(&["--seed", "1"])));
    assert_ne!(files(&other)["games-00001.pgn"], runs[0]["games-00001.pgn"]);
}

/// Games of the built-in network.
fn play_sparse(out: &Path, arguments: &[&str]) -> Output {
    let usual = "selfplay --games 6 --nodes 40 --max-plies 24 --sc-limit 6 \
        --temperature 1 --noise-epsilon 0.25 --seed 7";
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.args(usual.split(' ')).arg("--out").arg(out);
    command.args(["--records", "--chunks"]).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_network_that_refines_priors_changes_the_games() {
    let folder = tempfile::tempdir().unwrap();
    let mut games = Vec::new();
    for (name, network) in [("without", ""), ("with", "<built in dense>")] {
        let out = folder.path().join(name);
        ok(&play_sparse(
            &out,
            &["--refine-weights", network, "--refine-visits", "8"],
        ));
        games.push(files(&out).remove("games-00001.pgn").unwrap());
    }
    assert_ne!(games[0], games[1]);
}

#[test]
fn the_default_network_plays_the_same_at_any_speed() {
    let folder = tempfile::tempdir().unwrap();
    let mut games = Vec::new();
    for size in ["1", "16"] {
        let mut runs = Vec::new();
        for speed in [
            ["--parallel", "1", "--batch", "1", "--threads", "1"],
            ["--parallel", "6", "--batch", "32", "--threads", "2"],
        ] {
            let out = folder.path().join(format!("{size} {}", speed[1]));
            ok(&play_sparse(
                &out,
                &[&["--minibatch-size", size][..], &speed].concat(),
            ));
            runs.push(files(&out));
        }
        assert_eq!(runs[0], runs[1], "MinibatchSize {size}");
        let manifest: Value = serde_json::from_slice(&runs[0]["manifest.json"]).unwrap();
        assert_eq!(manifest["backends"], serde_json::json!(["sparse"]));
        assert_eq!(manifest["a"]["options"]["MinibatchSize"], size);
        games.push(runs[0]["games-00001.pgn"].clone());
    }
    // The minibatch of a tree is part of the search, unlike the size of the network's batch.
    assert_ne!(games[0], games[1]);
}

#[test]
fn a_modelled_opponent_of_another_backend_plays_the_same_at_any_speed() {
    let folder = tempfile::tempdir().unwrap();
    // With more threads than the device evaluates batches at once, those that wait are evaluated as one.
    let [alone, together] = ["1", "8"].map(|threads| {
        let out = folder.path().join(threads);
        let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
        let usual = "selfplay --games 8 --nodes 12 --max-plies 8 --backend rten --seed 3 --temperature 1 --parallel 8 \
                     --batch 64 --opponent-rating 1500 --weights tests/data/networks/tiny.onnx";
        command.args(usual.split_whitespace());
        command.args(["--threads", threads, "--out"]).arg(&out);
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        ok(&command.output().unwrap());
        files(&out)
    });
    assert_eq!(alone, together);
}

/// What the manifest says about the dependence of evaluations on the batch, after checking it: if games differ it
/// must say so.
fn depends_on_batch(folder: &Path, arguments: &[&str]) -> bool {
    let run = |batch: &str| {
        let out = folder.join(format!("{} {batch}", arguments.join(" ").replace('/', "_")));
        let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
        command.args("selfplay --games 8 --nodes 6 --max-plies 8 --temperature 1".split(' '));
        command.args(["--batch", batch, "--parallel", batch, "--out"]);
        ok(&command.arg(&out).args(arguments).output().unwrap());
        let files = files(&out);
        let manifest: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
        let depends = &manifest["evaluations_depend_on_the_batch"];
        (depends.as_bool().unwrap(), files)
    };
    let [(depends, alone), (also, together)] = ["1", "8"].map(run);
    assert_eq!(depends, also, "{arguments:?}");
    assert!(depends || alone == together, "{arguments:?}");
    depends
}

#[test]
fn the_manifest_records_whether_evaluations_depend_on_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    for backend in ["hash", "sparse"] {
        assert!(!depends_on_batch(folder.path(), &["--backend", backend]));
    }
    // With a network in ONNX it depends on the machine's kernels.
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/networks/scorn-dense.onnx");
    depends_on_batch(folder.path(), &["--backend", "rten", "--weights", network]);
}

#[test]
fn all_shards_together_are_the_whole_run() {
    let folder = tempfile::tempdir().unwrap();
    let games = |name: &str, shard: &str| {
        let out = folder.path().join(name);
        ok(&run(&out, &with(&["--shard", shard])));
        let files = files(&out);
        let pgn = files.iter().filter(|(name, _)| name.ends_with(".pgn"));
        let pgn: String = pgn.map(|(_, bytes)| text(bytes)).collect();
        let games = pgn.split("[Event ").skip(1).map(str::to_owned);
        let mut games: Vec<String> = games.collect();
        games.sort();
        games
    };
    let whole = games("whole", "1/1");
    let mut shards = [
        games("one", "1/3"),
        games("two", "2/3"),
        games("three", "3/3"),
    ]
    .concat();
    shards.sort();
    assert_eq!(shards, whole);
}

fn wait(child: &mut Child, patience: Duration) -> bool {
    let steps = patience.as_millis() / 2;
    for _ in 0..steps {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(2));
    }
    false
}

#[test]
fn a_killed_run_resumes_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let started = std::time::Instant::now();
    ok(&run(&whole, GAMES));
    let time = started.elapsed();
    let killed = folder.path().join("killed");
    let (mut kills, mut moment) = (0, 0x2545_f491_u64);
    while kills < 20 {
        let mut child = command(&killed, &with(&["--resume"]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From immediately to a third of the time of the whole run.
        moment = moment
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let patience = time.mul_f64((moment >> 40) as f64 / f64::from(1 << 24) / 3.0);
        let is_done = wait(&mut child, patience);
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        if is_done {
            // Already over: start again, so that there is a process to kill.
            assert_eq!(files(&killed), files(&whole));
            fs::remove_dir_all(&killed).unwrap();
        }
    }
    ok(&run(&killed, &with(&["--resume"])));
    assert_eq!(files(&killed), files(&whole));
    // And once more, with nothing left to do.
    ok(&run(&killed, &with(&["--resume"])));
    assert_eq!(files(&killed), files(&whole));
}

#[cfg(unix)]
#[test]
fn a_run_that_a_signal_ends_says_how_to_continue_it() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let long = [
            "--games",
            "2000",
            "--nodes",
            "50",
            "--max-plies",
            "20",
            "--parallel",
            "1",
        ];
        let child = command(&out, &long)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let has_game = || {
            let mut games = fs::read_dir(out.join("unfinished")).into_iter().flatten();
            games.next().is_some()
        };
        while !has_game() {
            thread::sleep(Duration::from_millis(2));
        }
        let process = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &process]).status();
        assert!(sent.unwrap().success());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert_eq!(
            errors
                .matches("scorn: interrupted; --resume continues it")
                .count(),
            1,
            "{errors}"
        );
    }
}

#[test]
fn a_balanced_run_resumes_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let games = [
        "--games",
        "24",
        "--nodes",
        "12",
        "--max-plies",
        "24",
        "--balance",
        "1",
        "--balance-games",
        "6",
    ];
    let at_odds = ["--odds", "queen", "--a-plays", "both"];
    let begun = [&at_odds[..], &["--sc-limit", "5"]].concat();
    for odds in [&[][..], &at_odds, &begun] {
        let arguments = [&games[..], odds, &["--games-per-file", "8", "--resume"]].concat();
        let out = folder.path().join(format!("odds {}", odds.len()));
        ok(&run(&out, &arguments));
        let whole = files(&out);
        let path = text(&whole["balance.jsonl"]);
        let steps: Vec<Value> = path
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(steps.len(), 4);
        // Random play of this length ends in draws, so the limit falls.
        assert_eq!(
            (&steps[0]["sc_limit"], &steps[3]["sc_limit"]),
            (&5.into(), &1.into())
        );
        let last = &whole["games-00003.pgn"];
        for game in Reader::new(&last[..]) {
            let game = game.unwrap();
            let round: usize = game.tag("Round").unwrap().parse().unwrap();
            let limit = steps[(round - 1) / 6]["sc_limit"].to_string();
            if odds.is_empty() {
                assert_eq!(game.tag("ScLimit"), Some(&*limit));
            } else {
                let (giver, receiver) = match round % 2 {
                    1 => ("White", "Black"),
                    _ => ("Black", "White"),
                };
                assert_eq!(game.tag(&format!("{giver}ScLimit")), Some(&*limit));
                assert_eq!(game.tag(&format!("{giver}Nodes")), Some("12"));
                assert_eq!(game.tag(&format!("{receiver}Nodes")), Some(&*limit));
                assert_eq!(game.tag(&format!("{receiver}ScLimit")), Some("1000000000"));
            }
        }
        for name in [
            "summary.json",
            "balance.jsonl",
            "part-00002.json",
            "part-00003.json",
            "games-00003.pgn",
        ] {
            fs::remove_file(out.join(name)).unwrap();
        }
        ok(&run(&out, &[&arguments[..], &["--parallel", "2"]].concat()));
        assert_eq!(files(&out), whole);
    }
}

#[test]
fn a_schedule_equals_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let play = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name);
        let usual = ["--games", "4", "--nodes", "10", "--max-plies", "100"];
        ok(&run(&out, &[&usual[..], arguments].concat()));
        files(&out).remove("games-00001.pgn").unwrap()
    };
    let tau1 = play("tau1", &["--tau", "tau1"]);
    let tau2 = play("tau2", &["--tau", "tau2"]);
    let spelled = |name: &str, options: &str| play(name, &options.split(' ').collect::<Vec<_>>());
    let low = "--temperature 0.7 --tempdecay-moves 5 --temp-endgame 0.1";
    assert_eq!(tau1, spelled("spelled 1", low));
    let high = "--temperature 0.9 --tempdecay-moves 60 --tempdecay-delay-moves 20 --temp-cutoff-move 40 \
                --temp-endgame 0.6 --temp-visit-offset -0.8";
    assert_eq!(tau2, spelled("spelled 2", high));
    assert_ne!(tau1, tau2);
}

#[test]
fn with_both_colours_each_opening_is_played_twice() {
    let folder = tempfile::tempdir().unwrap();
    let book = folder.path().join("book.epd");
    let fens = [
        "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq -",
        "rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq -",
        "rnbqkbnr/pppppppp/8/8/2P5/8/PP1PPPPP/RNBQKBNR b KQkq -",
    ];
    std::fs::write(&book, fens.join("\n")).unwrap();
    let book = book.to_str().unwrap();
    for colors in ["both", "white"] {
        let out = folder.path().join(colors);
        let arguments = "--games 6 --nodes 8 --max-plies 8 --b NodeLimit=9 --a-plays";
        let mut arguments: Vec<&str> = arguments.split(' ').collect();
        arguments.extend([colors, "--book", book]);
        ok(&run(&out, &arguments));
        let pgn = &files(&out)["games-00001.pgn"];
        let games: Vec<_> = Reader::new(&pgn[..]).map(Result::unwrap).collect();
        let starts: Vec<_> = games.iter().map(|game| game.tag("FEN").unwrap()).collect();
        let first_is_white = |index: usize| games[index].tag("WhiteNodes") == Some("8");
        for index in 0..6 {
            let pair = index - index % 2;
            assert_eq!(
                starts[index] == starts[pair],
                colors == "both" || index == pair
            );
            assert_eq!(first_is_white(index), colors == "white" || index == pair);
        }
    }
}

#[test]
fn fast_searches_are_no_samples() {
    let folder = tempfile::tempdir().unwrap();
    let samples = |share: &str| {
        let out = folder.path().join(share);
        let arguments = "--games 2 --nodes 12 --max-plies 20 --fast-nodes 6 --records --full-share";
        let mut arguments: Vec<&str> = arguments.split(' ').collect();
        arguments.push(share);
        let output = run(&out, &arguments);
        ok(&output);
        let made = files(&out);
        // A warning is printed if requested files are empty.
        let is_reported =
            text(&output.stderr).contains("no position of these games is a training sample");
        let has_records = made.keys().any(|name| name.starts_with("positions-"));
        assert_ne!(is_reported, has_records, "{made:?}");
        let nodes: Vec<String> = text(&made["games-00001.pgn"])
            .split("[%nodes ")
            .skip(1)
            .map(|rest| rest.split(']').next().unwrap().to_owned())
            .collect();
        let summary: Value = serde_json::from_slice(&made["summary.json"]).unwrap();
        (summary["samples"].as_u64().unwrap(), nodes)
    };
    let (none, nodes) = samples("0");
    assert_eq!(none, 0);
    assert!(
        !nodes.is_empty() && nodes.iter().all(|nodes| nodes == "6"),
        "{nodes:?}"
    );
    let (all, nodes) = samples("1");
    assert_eq!(all, nodes.len() as u64);
    assert!(nodes.iter().all(|nodes| nodes == "12"), "{nodes:?}");
}
