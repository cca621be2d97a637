//! `scorn stats` and `scorn page` as a user runs them.

use std::{
    fs,
    io::Write,
    process::{Command, Output},
};

use sha2::{Digest, Sha256};

fn stats(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    command.arg("stats").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The list of a part with its checksum, as self-play writes it.
fn with_checksum(list: &str) -> String {
    let list: serde_json::Value = serde_json::from_str(list).unwrap();
    let list = serde_json::to_string_pretty(&list).unwrap();
    let sum: String = Sha256::digest(format!("{list}\n"))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let entries = list.strip_suffix("\n}").unwrap();
    format!("{entries},\n  \"sha256\": \"{sum}\"\n}}\n")
}

/// What `--json` prints.
fn json(arguments: &[&str]) -> serde_json::Value {
    let output = stats(&[&["--json"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The shares of a distribution, which fall with the threshold.
fn shares(spread: &serde_json::Value) -> Vec<f64> {
    let shares = spread["at_least"].as_array().unwrap().iter();
    let shares: Vec<f64> = shares.map(|at| at["mean"].as_f64().unwrap()).collect();
    assert!(
        shares.len() == 3 && shares.is_sorted_by(|a, b| a >= b),
        "{shares:?}"
    );
    shares
}

const GAMES: &str = "[ScLimit \"5\"]\n[Result \"1-0\"]\n\n1. e4 e5 2. Nf3 Nc6 1-0\n\n1. e4 e5 2. Bc4 Nc6 0-1\n\n\
                     1. e4 e5 2. Nf3 Nc6 1/2-1/2\n\n1. d4 d5 1/2-1/2\n";

#[test]
fn one_file_is_one_object_and_compressed_files_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("a.pgn");
    fs::write(&plain, GAMES).unwrap();
    let packed = folder.path().join("a.pgn.gz");
    let file = fs::File::create(&packed).unwrap();
    let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packer.write_all(GAMES.as_bytes()).unwrap();
    packer.finish().unwrap();
    for path in [&plain, &packed] {
        let output = stats(&[path.to_str().unwrap(), "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), 1);
        let reported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for (name, value) in [("games", 4), ("white", 1), ("draws", 2), ("black", 1)] {
            assert_eq!(reported[name], value, "{name}");
        }
        assert_eq!(
            (&reported["decisive_per_draw"], &reported["mean_plies"]),
            (&1.0.into(), &3.5.into())
        );
        assert_eq!(reported["repeated"].as_object().unwrap().len(), 50);
        assert_eq!(reported["repeated"]["1"], 0.5);
        assert_eq!(reported["repeated"]["2"], 0.25);
        assert_eq!(reported["repeated"]["50"], 0.0);
        assert_eq!(reported["sc_limit"], 5);
    }
    let people = stats(&[plain.to_str().unwrap()]);
    let people = text(&people.stdout);
    assert!(
        people.contains("(w+l)/d 1.00") && people.contains("1: 0.50, 2: 0.25"),
        "{people}"
    );
}

#[test]
fn a_folder_is_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    let empty = stats(&[run.to_str().unwrap()]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(text(&empty.stderr).contains("this folder has no file that ends in .pgn"));
    // A self-play run that was stopped soon.
    fs::create_dir(run.join("unfinished")).unwrap();
    let stopped = stats(&[run.to_str().unwrap()]);
    assert!(text(&stopped.stderr).contains("continue it with --resume"));
    fs::write(run.join("games-00001.pgn"), GAMES).unwrap();
    fs::write(run.join("games-00002.pgn"), GAMES).unwrap();
    fs::write(run.join("manifest.json"), "{}").unwrap();
    let output = stats(&[run.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reported["file"], run.to_str().unwrap());
    for (name, value) in [("games", 8), ("sc_limit", 5), ("broken", 0)] {
        assert_eq!(reported[name], value, "{name}");
    }
    // Every game of the second file is a repetition.
    assert_eq!(reported["repeated"]["1"], 0.75);
    // Once there are lists of parts, other files belong to no part; a part's file may have been compressed.
    let part = |number: u32| {
        let name = format!("games-0000{number}.pgn");
        let list = format!(r#"{{"games": [], "files": {{"{name}": "00"}}}}"#);
        let list = with_checksum(&list);
        fs::write(run.join(format!("part-0000{number}.json")), list).unwrap();
    };
    fs::write(run.join("part-of-something-else.json"), "{}").unwrap();
    part(7);
    let foreign = stats(&[run.to_str().unwrap()]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(text(&foreign.stderr).contains("none of its games and records belongs to a part"));
    part(1);
    for (is_listed, games) in [(false, 4), (true, 8)] {
        if is_listed {
            part(2);
            fs::rename(run.join("games-00002.pgn"), run.join("games-00002.pgn.gz")).unwrap();
        }
        let output = stats(&[run.to_str().unwrap(), "--json"]);
        let reported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(reported["games"], games);
        let note = "games-00002.pgn belongs to no part of this self-play run: left out";
        assert_eq!(text(&output.stderr).contains(note), !is_listed);
    }
    fs::write(run.join("part-00003.json"), "{").unwrap();
    let damaged = stats(&[run.to_str().unwrap()]);
    assert!(text(&damaged.stderr).contains("part-00003.json is damaged"));
    fs::remove_file(run.join("part-00003.json")).unwrap();
    // The page replaces none of the files that were read.
    let games = run.join("games-00001.pgn");
    let html = ["--html", games.to_str().unwrap(), "--force"];
    let refused = stats(&[&[run.to_str().unwrap()], &html[..]].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("is an input too"));
    assert_eq!(fs::read_to_string(&games).unwrap(), GAMES);
}

/// Two batches of two games, with a controller that adjusts ScLimit in between.
#[test]
fn the_path_of_a_balanced_run_is_printed_and_plotted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (run, page) = (at("run"), at("page.html"));
    let arguments =
        "selfplay --games 4 --nodes 12 --max-plies 20 --seed 3 --balance 1 --balance-games 2 --out";
    let played = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(arguments.split_whitespace())
        .arg(&run)
        .output()
        .unwrap();
    assert!(played.status.success(), "{}", text(&played.stderr));
    let output = stats(&[&run, "--html", &page]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Twenty plies decide no game: the limit is reduced as far as possible.
    let reported = text(&output.stdout);
    assert!(
        reported.contains("ScLimit by batches: 5, 1, next 1 with 12 nodes"),
        "{reported}"
    );
    let page = fs::read_to_string(&page).unwrap();
    // Two legends, and what is shown over each of four points.
    assert_eq!(page.matches("run, 12 nodes").count(), 2 + 4);
    assert_eq!(page.matches("<svg").count(), 5);
    let json = stats(&[&run, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["path"][1]["batch"], &json["path"][1]["draws"]),
        (&2.into(), &2.into())
    );
    let balance = folder.path().join("run/balance.jsonl");
    fs::write(&balance, "{\"batch\":1}\n").unwrap();
    let damaged = stats(&[&run]);
    assert_eq!(damaged.status.code(), Some(1));
    let error = text(&damaged.stderr);
    assert!(
        error.contains("balance.jsonl is damaged") && error.lines().count() == 1,
        "{error}"
    );
}

#[test]
fn several_files_are_counted_alone_and_together_and_plotted() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.pgn", "b.pgn"].map(|name| folder.path().join(name));
    for path in &paths {
        fs::write(path, GAMES).unwrap();
    }
    let [a, b] = paths.each_ref().map(|path| path.to_str().unwrap());
    let page = folder.path().join("page.html");
    let html = page.to_str().unwrap();
    let output = stats(&[a, b, "--json", "--sc-limits", "5,32", "--html", html]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reported["games"], 8);
    assert_eq!(reported["repeated"]["1"], 0.75);
    assert_eq!(reported["files"][1]["games"], 4);
    assert_eq!(reported["files"][1]["sc_limit"], 32);
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
    // The page works offline.
    assert!(!page.contains("<script") && !page.contains("href") && !page.contains("src="));
    for word in ["figure 2", "figure 3", "figure 4", "published", "b.pgn"] {
        assert!(page.contains(word), "{word}");
    }
    // Games, tactics, and a row for each phase; figures show single files only.
    assert_eq!(page.matches("<td>all files</td>").count(), 2 + 3);
    let totals = page.split("<td>all files</td>").nth(1).unwrap();
    assert!(totals.starts_with("<td></td><td>8</td>"), "{totals}");
}

#[test]
fn bad_input_is_reported_and_the_rest_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(
        path("cut.pgn"),
        format!("{GAMES}\n[White \"x\"]\n\n1. e4 e5 2. Nf"),
    )
    .unwrap();
    let output = stats(&[&path("cut.pgn"), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&reported["games"], &reported["broken"]),
        (&4.into(), &1.into())
    );
    assert!(text(&output.stderr).contains("breaks off after 2 plies"));
    fs::write(path("records"), [&b"SCORNREC"[..], &[0; 64]].concat()).unwrap();
    fs::write(path("empty.pgn"), "\n").unwrap();
    fs::write(path("cut.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    fs::write(path("good.pgn"), GAMES).unwrap();
    let good = path("good.pgn");
    for (arguments, message) in [
        (vec![path("records")], "dataset stats"),
        (vec![path("empty.pgn")], "no game"),
        (vec![path("cut.gz")], "cut.gz"),
        (vec![path("missing.pgn")], "missing.pgn"),
        (
            vec![good.clone(), "--sc-limits".into(), "1,2".into()],
            "2 numbers for 1 files",
        ),
        (
            vec![good.clone(), "--sc-limits".into(), "1".into()],
            "needs --html or --json",
        ),
        (
            vec![good, "--html".into(), path("no/page.html")],
            "no/page.html",
        ),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(|argument| &**argument).collect();
        let output = stats(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let errors = text(&output.stderr);
        assert!(
            errors.contains(message) && errors.lines().count() == 1,
            "{errors}"
        );
    }
}

#[test]
fn a_file_without_a_readable_game_is_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.pgn");
    fs::write(&path, "1. e5 *\n").unwrap();
    let output = stats(&[path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("could not be read"));
}

#[test]
fn records_of_self_play_are_counted_and_compared_with_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let arguments = [
        "selfplay",
        "--games",
        "2",
        "--nodes",
        "30",
        "--max-plies",
        "20",
        "--seed",
        "3",
    ];
    let played = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(arguments)
        .args([
            "--random-plies",
            "4",
            "--records",
            "--out",
            out.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    assert!(played.status.success(), "{}", text(&played.stderr));
    let run = json(&[out.to_str().unwrap()]);
    assert_eq!(
        (&run["games"], &run["policy"]["positions"]),
        (&2.into(), &32.into())
    );
    let file = out.join("positions-00001.vis");
    let policy = |arguments: &[&str]| {
        json(&[&[file.to_str().unwrap()], arguments].concat())["policy"].clone()
    };
    let alone = policy(&[]);
    // 20 plies a game, of which four were random.
    assert_eq!(alone["positions"], 32);
    let entropy = alone["entropy"].as_f64().unwrap();
    assert!((0.1..3.0).contains(&entropy), "{entropy}");
    assert!(alone["divergence"].is_null());
    let compared = policy(&["--network", "<built in>"]);
    assert_eq!(compared["entropy"], alone["entropy"]);
    let mean = |policy: &serde_json::Value, of: &str| policy[of]["mean"].as_f64().unwrap();
    let own = mean(&compared, "divergence");
    // Thirty visits do not move far from the policy; the policy of another network is further away.
    assert!((0.0..2.0).contains(&own), "{own}");
    let other = policy(&["--network", "<built in dense>", "--backend", "rten"]);
    assert_ne!(mean(&other, "divergence"), own);
    // Thirty visits change the value a little; the shares fall with the threshold.
    let error = mean(&compared, "value_error");
    assert!((0.001..0.5).contains(&error), "{error}");
    assert_ne!(mean(&other, "value_error"), error);
    shares(&compared["value_error"]);
    // There are no games.
    let reported = stats(&[file.to_str().unwrap()]);
    let lines: Vec<&str> = text(&reported.stdout).lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("  searches: 32 positions"));
    let missing = stats(&[file.to_str().unwrap(), "--network", "/no/net.pb.gz"]);
    assert!(!missing.status.success());
    assert!(text(&missing.stderr).contains("/no/net.pb.gz"));
}

#[test]
fn undefined_statistics_are_reported_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pgn");
    fs::write(&path, "1. e4 e5 2. Nf3 *\n").unwrap();
    let output = stats(&[path.to_str().unwrap(), "--network", "<built in sparse>"]);
    assert!(output.status.success());
    let reported = text(&output.stdout);
    assert!(
        reported.contains("(w+l)/d unknown: no game is finished"),
        "{reported}"
    );
    let noted = text(&output.stderr);
    assert!(noted.contains("none of these files holds any"), "{noted}");
}

/// In the last game White, a rook against a queen, mates in two: a search sees it, a value alone is not so sure.
#[test]
fn misjudged_positions_are_found_by_long_searches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pgn");
    let games = "1. e4 e5 2. Qh5 Ke7 3. Qxe5# 1-0\n\n1. f3 e5 2. g4 Qh4# 0-1\n\n1. d4 d5 2. c4 e6 1/2-1/2\n\n\
                 [FEN \"6k1/5ppp/8/8/8/8/1q3PPP/R5K1 w - - 0 1\"]\n\n1. Ra8+ Qb8 2. Rxb8# 1-0\n";
    fs::write(&path, games).unwrap();
    let page = folder.path().join("page.html");
    let [file, page_name] = [&path, &page].map(|path| path.to_str().unwrap());
    let judged = ["--network", "<built in>", "--deep-sample", "100"];
    let run = || {
        let page = ["--deep-nodes", "200", "--html", page_name, "--force"];
        json(&[&[file], &judged[..], &page].concat())
    };
    let reported = run();
    let misjudged = &reported["misjudged"];
    // All positions before a move: 5 + 4 + 4 + 3.
    assert_eq!(misjudged["value_error"]["positions"], 16);
    assert!(shares(&misjudged["value_error"])[0] >= 1.0 / 16.0);
    assert!(misjudged["overlooked"]["mean"].as_f64().unwrap() < 0.7);
    assert_eq!(run(), reported);
    // Mates in three games: five, four and three positions.
    let mates = reported["tactics"]["mates"]["mean"].as_f64().unwrap();
    assert!((mates - 12.0 / 16.0).abs() < 1e-12, "{mates}");
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("(figure 6)") && page.contains("unequal pieces"));
    let printed = stats(&[
        file,
        "--network",
        "<built in>",
        "--deep-sample",
        "2",
        "--deep-nodes",
        "20",
    ]);
    let printed = text(&printed.stdout);
    assert!(
        printed.contains("network against long searches, 2 positions"),
        "{printed}"
    );
    for missing in [
        &["--deep-sample", "2"][..],
        &["--network", "<built in>", "--deep-nodes", "9"],
    ] {
        let output = stats(&[&[file], missing].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
}

#[test]
fn a_page_is_made_from_a_description() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (description, out) = (at("page.json"), at("page.html"));
    let page = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
        command.args(["page", &description, "--out", &out]);
        command.args(flags).output().unwrap()
    };
    let text_of_page =
        r#"{"title": "Speed", "parts": [{"table": {"columns": ["a"], "rows": [["7"]]}}]}"#;
    fs::write(&description, text_of_page).unwrap();
    let made = page(&[]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(fs::read_to_string(&out).unwrap().contains("<td>7</td>"));
    let again = page(&[]);
    assert!(
        text(&again.stderr).contains("--force"),
        "{}",
        text(&again.stderr)
    );
    assert!(page(&["--force"]).status.success());
    fs::write(&description, "{\"title\": 7}").unwrap();
    let refused = page(&["--force"]);
    assert_eq!(refused.status.code(), Some(1));
    let error = text(&refused.stderr);
    assert!(
        error.contains("page.json") && error.contains("line 1 column"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    // The page from before is still there.
    assert!(fs::read_to_string(&out).unwrap().contains("<td>7</td>"));
}
