//! The same files at any speed, in parts, and after being killed.

use std::{
    fs,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use scorn::pgn::Reader;
use serde_json::Value;

use crate::{GAMES, command, files, ok, run, text, with};

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
fn killed_at_any_moment_a_run_goes_on_to_the_same_bytes() {
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
        // From at once to a third of what the whole run takes.
        moment = moment
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let patience = time.mul_f64((moment >> 40) as f64 / f64::from(1 << 24) / 3.0);
        let is_done = wait(&mut child, patience);
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        if is_done {
            // Over already: begin again, so that there is something to kill.
            assert_eq!(files(&killed), files(&whole));
            fs::remove_dir_all(&killed).unwrap();
        }
    }
    ok(&run(&killed, &with(&["--resume"])));
    assert_eq!(files(&killed), files(&whole));
    // And once more, when there is nothing left to do.
    ok(&run(&killed, &with(&["--resume"])));
    assert_eq!(files(&killed), files(&whole));
}

#[test]
fn a_balanced_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let games = [
        "--games",
        "24",
        "--nodes",
        "12",
        "--longest",
        "24",
        "--balance",
        "1",
        "--balance-games",
        "6",
    ];
    for odds in [&[][..], &["--odds", "queen", "--a-plays", "both"]] {
        let arguments = [&games[..], odds, &["--games-per-file", "8", "--resume"]].concat();
        let out = folder.path().join(odds.len().to_string());
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
                let receiver = if round % 2 == 1 { "Black" } else { "White" };
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
