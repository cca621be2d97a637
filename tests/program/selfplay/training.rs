//! Training output: chunks and records, read by independent readers.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use scorn::{
    dataset::searched::SearchedFile,
    selfplay::chunk::{self, ChunkPosition, NO_MOVE, VALUES},
};
use serde_json::Value;

use super::{ok, run, text};
use crate::common::skipped;

#[test]
fn an_independent_reader_reads_every_field_of_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let games = [
        "--games",
        "4",
        "--nodes",
        "30",
        "--max-plies",
        "60",
        "--temperature",
        "1",
        "--sc-limit",
        "4",
    ];
    let more = [
        "--odds",
        "rook",
        "--a-plays",
        "both",
        "--chunks",
        "--records",
        "--reuse-tree",
    ];
    ok(&run(&out, &[&games[..], &more].concat()));
    let chunks: Vec<_> = (0..4)
        .map(|n| out.join(format!("lc0/game_{n:09}.gz")))
        .collect();
    let checked = scorn(&["chunk", "--json"], &chunks);
    ok(&checked);
    folders_are_searched_for_chunks(&out, &checked.stdout);
    // The summary gives the same numbers.
    let summary: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(
        (&summary["chunks"], &summary["bad"]),
        (&4.into(), &0.into())
    );
    let shown = scorn(&["chunk", "--print"], &chunks);
    ok(&shown);
    assert_eq!(
        text(&shown.stdout).lines().count() as u64,
        summary["positions"].as_u64().unwrap()
    );
    let ours: Vec<ChunkPosition> = chunks
        .iter()
        .flat_map(|path| chunk::read(&fs::read(path).unwrap()).unwrap())
        .collect();
    assert_eq!(ours.len() as u64, summary["positions"].as_u64().unwrap());
    let folder_summary: Value =
        serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(folder_summary["samples"], summary["positions"]);
    assert!(folder_summary["frozen_samples"].as_u64().unwrap() > 0);
    compare_with_python(&chunks, &ours);
    a_damaged_chunk_is_named(folder.path(), ours[0].clone());
}

#[test]
fn version_7_is_version_6_with_the_next_two_moves() {
    let folder = tempfile::tempdir().unwrap();
    let chunks_of = |version: &str| -> Vec<Vec<ChunkPosition>> {
        let out = folder.path().join(version);
        let flags = [
            "--games",
            "2",
            "--nodes",
            "20",
            "--max-plies",
            "30",
            "--chunks",
        ];
        ok(&run(
            &out,
            &[&flags[..], &["--chunk-version", version]].concat(),
        ));
        let files = (0..2).map(|n| out.join(format!("lc0/game_{n:09}.gz")));
        let files: Vec<_> = files.collect();
        ok(&scorn(&["chunk"], &files));
        let read = |path: &std::path::PathBuf| chunk::read(&fs::read(path).unwrap()).unwrap();
        files.iter().map(read).collect()
    };
    let (old, new) = (chunks_of("6"), chunks_of("7"));
    for (old, new) in old.iter().zip(&new) {
        assert_eq!(old.len(), new.len());
        let played = |index: usize| new.get(index).map_or(NO_MOVE, |next| next.played_idx);
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            let v7 = new.v7.clone().unwrap();
            assert_eq!(v7.opp_played_idx, played(index + 1));
            assert_eq!(v7.next_played_idx, played(index + 2));
            let without = ChunkPosition {
                v7: None,
                ..new.clone()
            };
            assert_eq!(&without, old);
            let mut bytes = Vec::new();
            new.write(&mut bytes);
            assert_eq!(bytes.len(), chunk::V7_BYTES);
            assert_eq!(&chunk::read(&bytes).unwrap()[0], new);
            // A chunk has one version.
            old.write(&mut bytes);
            let error = chunk::read(&bytes).unwrap_err().to_string();
            assert!(error.contains("position 2 has version 6"), "{error}");
        }
    }
    let file = folder.path().join("7/lc0/game_000000000.gz");
    let shown = scorn(&["chunk", "--print"], std::slice::from_ref(&file));
    let line: Value = serde_json::from_str(text(&shown.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(line["next_moves"].as_array().unwrap().len(), 2);
    // An impossible index is named.
    let mut bad = new[0][0].clone();
    bad.v7.as_mut().unwrap().opp_played_idx = 1858;
    let mut bytes = Vec::new();
    bad.write(&mut bytes);
    let path = folder.path().join("bad.chunk");
    fs::write(&path, &bytes).unwrap();
    let output = scorn(&["chunk"], &[path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("position 1: the next moves are [1858"));
}

/// Whether the summary of a run's chunks is that of its folder, too, and an argument without chunks hides nothing.
fn folders_are_searched_for_chunks(run: &Path, summary: &[u8]) {
    for folder in [run.join("lc0"), run.to_owned()] {
        assert_eq!(scorn(&["chunk", "--json"], &[folder]).stdout, summary);
    }
    // Games that were packed are no chunks.
    let packed = run.join("games-00001.pgn.gz");
    fs::write(&packed, b"").unwrap();
    let summary_beside_games = scorn(&["chunk", "--json"], &[run.to_owned()]).stdout;
    assert_eq!(summary_beside_games, summary);
    fs::remove_file(packed).unwrap();
    let empty = run.with_file_name("empty");
    fs::create_dir(&empty).unwrap();
    let mixed = scorn(&["chunk"], &[empty, run.to_owned()]);
    assert_eq!(mixed.status.code(), Some(1));
    assert!(text(&mixed.stdout).starts_with("4 chunks, "));
    let error = text(&mixed.stderr);
    assert!(
        error.contains("empty: this folder has no file that ends in .gz")
            && error.contains("1 of 5 files are invalid"),
        "{error}"
    );
}

fn a_damaged_chunk_is_named(folder: &Path, mut bad: ChunkPosition) {
    let mut bytes = Vec::new();
    bad.probabilities[0] = 0.5;
    bad.write(&mut bytes);
    let path = folder.join("bad.chunk");
    fs::write(&path, &bytes).unwrap();
    let output = scorn(&["chunk"], std::slice::from_ref(&path));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("position 1: entry 0 of the policy is 0.5"));
    fs::write(&path, &bytes[..1000]).unwrap();
    assert_eq!(scorn(&["chunk"], &[path]).status.code(), Some(1));
}

fn scorn(arguments: &[&str], files: &[std::path::PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.args(arguments).args(files).output().unwrap()
}

/// Compares every field with a reader that uses only the documented layout.
fn compare_with_python(chunks: &[std::path::PathBuf], ours: &[ChunkPosition]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/read_chunk.py");
    let Ok(read) = Command::new("python3").arg(script).args(chunks).output() else {
        skipped("there is no python3");
        return;
    };
    ok(&read);
    let lines: Vec<&str> = text(&read.stdout).lines().collect();
    assert_eq!(lines.len(), ours.len());
    for (line, ours) in lines.iter().zip(ours) {
        let read: Value = serde_json::from_str(line).unwrap();
        let same = |value: &Value, float: f32| match value.as_f64() {
            Some(value) => value as f32 == float,
            None => float.is_nan(),
        };
        assert_eq!((&read["version"], &read["dummy"]), (&6.into(), &0.into()));
        assert_eq!(read["input_format"], ours.input_format);
        let probabilities = read["probabilities"].as_array().unwrap();
        assert_eq!(probabilities.len(), 1858);
        assert!(
            probabilities
                .iter()
                .zip(&ours.probabilities)
                .all(|(p, &own)| same(p, own))
        );
        let planes = ours.planes.map(|plane| plane.to_string());
        assert_eq!(read["planes"], serde_json::to_value(&planes[..]).unwrap());
        assert_eq!(
            read["castling"],
            serde_json::to_value(ours.castling).unwrap()
        );
        for (name, own) in [
            ("black", ours.black),
            ("rule50", ours.rule50),
            ("invariance_info", ours.invariance_info),
        ] {
            assert_eq!(read[name], own, "{name}");
        }
        for (name, own) in VALUES.iter().zip(ours.values) {
            assert!(same(&read["values"][name], own), "{name}");
        }
        assert_eq!(read["visits"], ours.visits);
        assert_eq!(
            (&read["played_idx"], &read["best_idx"]),
            (&ours.played_idx.into(), &ours.best_idx.into())
        );
        assert!(same(&read["policy_kld"], ours.policy_kld) && same(&read["q_st"], ours.q_st));
    }
}

#[test]
fn records_hold_every_visit_and_only_the_chosen_side() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, side: &str| {
        let out = folder.path().join(name);
        let games = [
            "--games",
            "3",
            "--nodes",
            "20",
            "--max-plies",
            "30",
            "--sc-limit",
            "3",
            "--temperature",
            "1",
        ];
        let more = ["--random-plies", "4", "--records", "--record-side", side];
        ok(&run(&out, &[&games[..], &more].concat()));
        fs::read(out.join("positions-00001.vis")).unwrap()
    };
    let (all, own) = (file("all", "both"), file("own", "a"));
    let count = |file: &[u8]| number(&file[24..32]) as usize;
    let is_black = |position: &[u8]| position[32] & 16 != 0;
    check_records(&all, count(&all));
    check_records(&own, count(&own));
    // 30 plies less 4 random ones, in 3 games.
    assert_eq!((count(&all), count(&own)), (78, 39));
    assert!(
        own[64..][..64 * 39]
            .chunks(64)
            .all(|position| !is_black(position))
    );
}

#[test]
fn chunks_hold_only_the_chosen_sides_positions() {
    let folder = tempfile::tempdir().unwrap();
    let chunks = |side: &str, colors: &str| -> Vec<Vec<ChunkPosition>> {
        let out = folder.path().join(format!("{side} {colors}"));
        let games =
            "--games 2 --nodes 12 --max-plies 21 --seed 3 --b CPuct=3 --odds knight --chunks";
        let mut arguments: Vec<&str> = games.split(' ').collect();
        arguments.extend(["--record-side", side, "--a-plays", colors]);
        ok(&run(&out, &arguments));
        let chunk = |n| fs::read(out.join(format!("lc0/game_{n:09}.gz"))).unwrap();
        (0..2).map(|n| chunk::read(&chunk(n)).unwrap()).collect()
    };
    for colors in ["white", "black", "both"] {
        let all = chunks("both", colors);
        for (side, is_first) in [("a", true), ("b", false)] {
            let own = chunks(side, colors);
            for (n, (own, all)) in own.iter().zip(&all).enumerate() {
                let first_is_white = colors == "white" || (colors == "both" && n == 0);
                let black = u8::from(first_is_white != is_first);
                // 21 plies, of which White has the first and the last.
                assert_eq!((all.len(), own.len()), (21, 11 - usize::from(black)));
                let wanted: Vec<&ChunkPosition> =
                    all.iter().filter(|one| one.black == black).collect();
                let is_same = |(own, wanted): (&ChunkPosition, &&ChunkPosition)| {
                    own.black == black
                        && own.planes == wanted.planes
                        && own.probabilities == wanted.probabilities
                        && own.values.map(f32::to_bits) == wanted.values.map(f32::to_bits)
                };
                assert!(own.iter().zip(&wanted).all(is_same), "{side} {colors} {n}");
            }
        }
    }
}

/// The records of a run, and what its summary says; the chunks are checked by `scorn chunk`.
fn learnt(out: &Path, arguments: &[&str]) -> (Vec<u8>, Value) {
    let games = "--games 4 --nodes 30 --max-plies 24 --random-plies 2 --seed 11 --records --chunks";
    let usual: Vec<&str> = games.split(' ').collect();
    ok(&run(out, &[&usual, arguments].concat()));
    let chunks: Vec<_> = (0..4)
        .map(|n| out.join(format!("lc0/game_{n:09}.gz")))
        .collect();
    ok(&scorn(&["chunk"], &chunks));
    let file = fs::read(out.join("positions-00001.vis")).unwrap();
    let summary = fs::read(out.join("summary.json")).unwrap();
    (file, serde_json::from_slice(&summary).unwrap())
}

#[test]
fn noise_changes_the_games_of_a_seed_and_targets_still_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let learn = |name: &str, arguments: &[&str]| {
        let (file, summary) = learnt(&folder.path().join(name), arguments);
        check_visits(&file, number(&file[24..32]) as usize);
        assert_eq!(summary["samples"], number(&file[24..32]));
        file
    };
    let plain = learn("plain", &[]);
    let noisy = learn("noisy", &["--noise-epsilon", "0.5"]);
    assert_ne!(noisy, plain);
    assert_eq!(learn("again", &["--noise-epsilon", "0.5"]), noisy);
    assert_eq!(learn("none", &["--noise-epsilon", "0"]), plain);
    assert_ne!(
        learn(
            "sharp",
            &["--noise-epsilon", "0.5", "--noise-alpha", "0.03"]
        ),
        noisy
    );
}

#[test]
fn the_recorded_policy_is_without_noise() {
    let folder = tempfile::tempdir().unwrap();
    // The priors of the first position of the first game, which is the same in both runs.
    let policy = |name: &str, arguments: &[&str]| {
        let arguments = [&["--record-policy"], arguments].concat();
        let (file, _) = learnt(&folder.path().join(name), &arguments);
        let positions = number(&file[24..32]) as usize;
        let moves = number(&file[64 + 52..64 + 54]) as usize;
        let entries = file[64 + 64 * positions..][..6 * moves].chunks(6);
        let mut entries: Vec<Vec<u8>> = entries.map(<[u8]>::to_vec).collect();
        // They are in the order of the search.
        entries.sort();
        entries
    };
    let plain = policy("plain", &[]);
    assert!(plain.len() > 6 && plain[0][2..] != plain[1][2..]);
    assert_eq!(policy("noisy", &["--noise-epsilon", "0.5"]), plain);
}

#[test]
fn tree_reuse_saves_nodes_without_effect_on_plain_puct() {
    let folder = tempfile::tempdir().unwrap();
    let learn = |name: &str, arguments: &[&str]| {
        let (file, summary) = learnt(&folder.path().join(name), arguments);
        (file, summary["nodes"].as_u64().unwrap())
    };
    let (fresh, all) = learn("fresh", &[]);
    let (kept, fewer) = learn("kept", &["--reuse-tree"]);
    // The subtree of a reply equals the search that would be made there again, as far as it goes.
    assert!(kept == fresh, "the visits differ");
    // 4 games of 24 plies, 2 of them random.
    assert_eq!(all, 4 * 22 * 30);
    assert!(fewer < all, "{fewer}");
    // A new tree at every move has that move's noise; a kept tree was searched without it.
    let noise = ["--noise-epsilon", "0.5"];
    let (fresh, _) = learn("noise", &noise);
    let (kept, _) = learn("noise, kept", &[&noise[..], &["--reuse-tree"]].concat());
    assert!(kept != fresh, "the same visits");
    check_visits(&kept, number(&kept[24..32]) as usize);
}

/// A number of any length, lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    let highest_first = bytes.iter().rev();
    highest_first.fold(0, |n, &byte| n << 8 | u64::from(byte))
}

/// Each position's moves follow those of the one before it, and their visits add up.
fn check_records(file: &[u8], positions: usize) {
    assert!(check_visits(file, positions) > 0);
}

/// Checks the records and returns the number of frozen replies.
fn check_visits(file: &[u8], positions: usize) -> usize {
    assert_eq!((&file[..8], number(&file[8..12])), (&b"SCORNVIS"[..], 1));
    let entries = number(&file[32..40]) as usize;
    assert_eq!(file.len(), 64 + 64 * positions + 6 * entries);
    let (mut next, mut frozen) = (0, 0);
    for position in file[64..][..64 * positions].chunks(64) {
        assert_eq!(number(&position[48..52]) as usize, next);
        let moves = number(&position[52..54]) as usize;
        let entries = &file[64 + 64 * positions + 6 * next..][..6 * moves];
        let visits: u64 = entries.chunks(6).map(|entry| number(&entry[2..])).sum();
        assert_eq!(visits + 1, number(&position[56..60]));
        let names: Vec<u64> = entries
            .chunks(6)
            .map(|entry| number(&entry[..2]) & 0x7fff)
            .collect();
        for m in [&position[36..38], &position[54..56]] {
            assert!(names.contains(&number(m)));
        }
        frozen += entries
            .chunks(6)
            .filter(|entry| entry[1] & 0x80 != 0)
            .count();
        next += moves;
    }
    assert_eq!(next, entries);
    frozen
}

/// Look-ahead (`CertaintyProp`) proves the mate before any visit, and the evaluator knows nothing of it.
#[test]
fn a_proven_result_is_the_value_of_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let (out, book) = (folder.path().join("run"), folder.path().join("mate.epd"));
    let mate_in_one = "rn3bkr/pp3bpp/2p1Bn2/3pN1P1/3q4/8/PP2PP1P/R1B2RK1 w - - 1 15";
    fs::write(&book, mate_in_one).unwrap();
    let flags = [
        "--games",
        "1",
        "--nodes",
        "80",
        "--certainty-prop",
        "2",
        "--chunks",
        "--records",
    ];
    // Nobody plays on but a side that has won.
    let resign = ["--resign", "99", "--resign-playthrough", "0", "--book"];
    let book = [book.to_str().unwrap()];
    ok(&run(&out, &[&flags[..], &resign, &book].concat()));
    let pgn = fs::read_to_string(out.join("games-00001.pgn")).unwrap();
    assert!(pgn.contains("15. Bxf7# {[%eval #1,"), "{pgn}");
    assert!(
        pgn.contains("[%wdl 1000,0,0]") && pgn.contains("1-0"),
        "{pgn}"
    );
    let chunk = chunk::read(&fs::read(out.join("lc0/game_000000000.gz")).unwrap()).unwrap();
    for (name, expected) in [
        ("root_q", 1.0),
        ("best_q", 1.0),
        ("played_q", 1.0),
        ("root_m", 1.0),
        ("root_d", 0.0),
        ("best_d", 0.0),
        ("plies_left", 1.0),
    ] {
        assert_eq!(chunk[0].value(name), expected, "{name}");
    }
    let mut records = SearchedFile::open(&out.join("positions-00001.vis")).unwrap();
    assert_eq!(records.get(0).unwrap().wdl, [1.0, 0.0, 0.0]);
}

#[test]
fn games_that_end_early_would_have_gone_on_in_chunks_as_in_lc0() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let flags = [
        "--games",
        "1",
        "--nodes",
        "20",
        "--max-plies",
        "9",
        "--chunks",
        "--records",
    ];
    ok(&run(&out, &flags));
    let chunk = chunk::read(&fs::read(out.join("lc0/game_000000000.gz")).unwrap()).unwrap();
    let mut records = SearchedFile::open(&out.join("positions-00001.vis")).unwrap();
    for (index, position) in chunk.iter().enumerate() {
        let plies_left = position.value("plies_left");
        assert!(plies_left > (9 - index) as f32, "{index}: {plies_left}");
        // From these follows how far in the game a position is.
        let record = records.get(index as u64).unwrap().record;
        assert_eq!(usize::from(record.plies_left), 9 - index);
        // The tree was new, so that the network's output is known whole.
        assert!(
            ["orig_q", "orig_d", "orig_m"]
                .iter()
                .all(|name| !position.value(name).is_nan())
        );
    }
}
