//! `scorn analyze --html` and `--annotate`, through the real program. The page's behaviour in a browser is tested by
//! `tests/python/report.py`.

use std::{fs, path::Path, process::Command};

use scorn::pgn::Reader;
use serde_json::{Value, json};

const GAMES: &str = "[Event \"A </script> <b>test</b>\"]\n[White \"Wé\"]\n[Black \"B\"]\n[Result \"1-0\"]\n\n\
    1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n\n\
    [White \"Giver\"]\n[FEN \"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1\"]\n[SetUp \"1\"]\n\n\
    1. e4 e5 2. Nf3 d6 *\n";

fn analyze(pgn: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args([
            "-t",
            "1",
            "--seed",
            "1",
            "analyze",
            "--pgn",
            pgn.to_str().unwrap(),
        ])
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    assert!(output.stdout.is_empty());
    error
}

/// The data of the page.
fn data(page: &str) -> Value {
    let start =
        page.find("type=\"application/json\">").unwrap() + "type=\"application/json\">".len();
    let end = start + page[start..].find("</script>").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

#[test]
fn a_report_contains_the_whole_analysis() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let [pgn, html, annotated, records] =
        ["games.pgn", "report.html", "annotated.pgn", "records.jsonl"].map(file);
    fs::write(&pgn, GAMES).unwrap();
    let names = [&html, &annotated, &records].map(|path| path.to_str().unwrap());
    let arguments = [
        "--nodes",
        "400",
        "--html",
        names[0],
        "--annotate",
        names[1],
        "--output",
        names[2],
    ];
    analyze(&pgn, &arguments);
    let page = fs::read_to_string(&html).unwrap();
    let found = data(&page);
    assert!(
        found["how"]
            .as_str()
            .unwrap()
            .contains("400 nodes a position, ScLimit 1000")
    );
    let games = found["games"].as_array().unwrap();
    assert_eq!(games.len(), 2);
    assert_eq!(games[0]["event"], "A </script> <b>test</b>");
    assert_eq!(games[0]["moves"].as_array().unwrap().len(), 7);
    assert_eq!(games[0]["moves"][6]["s"], "Qxf7#");
    // Black walked into a mate.
    let accuracy = |side: usize| games[0]["accuracy"][side].as_f64().unwrap();
    assert!(accuracy(0) > accuracy(1), "{}", games[0]["accuracy"]);
    // The mate is found, for White.
    assert_eq!(games[0]["moves"][6]["l"][0][4], 1);
    // 3... Nf6 is the mistake.
    assert_eq!(games[0]["moves"][5]["j"], 3);
    assert_eq!(
        games[1]["start"],
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1"
    );
    check_ends_and_losses(games);
    games.iter().for_each(check_lines);
    check_annotated(&fs::read_to_string(&annotated).unwrap());
    check_played(&fs::read_to_string(&records).unwrap());
    // Resuming a complete analysis gives the same page; without --force nothing is overwritten.
    let again = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args([
            "-t",
            "1",
            "analyze",
            "--pgn",
            pgn.to_str().unwrap(),
            "--html",
            names[0],
        ])
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(1));
    analyze(&pgn, &[&arguments[..], &["--force"]].concat());
    assert_eq!(data(&fs::read_to_string(&html).unwrap()), found);
}

/// The first game ends with mate; the second one is unfinished, and its last position is evaluated. Losses are short
/// numbers.
fn check_ends_and_losses(games: &[Value]) {
    assert!(games[0]["end"].is_null() && !games[1]["end"][0][0].is_null());
    let moves = games
        .iter()
        .flat_map(|game| game["moves"].as_array().unwrap());
    let losses: Vec<String> = moves
        .filter(|reviewed| reviewed["x"].is_number())
        .map(|reviewed| reviewed["x"].to_string())
        .collect();
    assert!(
        !losses.is_empty() && losses.iter().all(|loss| loss.len() <= 4),
        "{losses:?}"
    );
}

/// Every played move has a practical value from many visits, in a search of its own if need be.
fn check_played(records: &str) {
    let mut alone = 0;
    for record in records.lines() {
        let record: Value = serde_json::from_str(record).unwrap();
        let Some(played) = record["played"].as_str() else {
            continue;
        };
        let mut lines = record["lines"].as_array().unwrap().iter();
        let line = lines.find(|line| line["pv"][0] == played).unwrap();
        let visits = |value: &Value| value["nodes"].as_u64().unwrap();
        let is_mate = line["mate"].is_i64();
        assert!(is_mate || visits(line) * 10 >= visits(&record), "{record}");
        // So has its value against best replies, by the search of the next position.
        let is_best = record["objective_best"] == played;
        let by_plain = visits(&line["objective"]);
        assert!(
            is_mate || is_best || by_plain * 10 >= visits(&record),
            "{record}"
        );
        let sum: u64 = record["lines"].as_array().unwrap().iter().map(visits).sum();
        alone += u32::from(sum > visits(&record));
    }
    assert!(alone > 0, "no move was searched alone");
}

/// Moves in both notations, and probabilities in thousandths: 0 stands for those that are not known.
fn check_lines(game: &Value) {
    for reviewed in game["moves"].as_array().unwrap() {
        let lines = reviewed["l"].as_array().unwrap();
        let first = |line: &Value| {
            line[0]
                .as_str()
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .to_owned()
        };
        assert!(
            lines.iter().any(|line| first(line) == reviewed["u"]),
            "the played move"
        );
        for line in lines {
            let words = |at: usize| line[at].as_str().unwrap().split(' ').count();
            assert!(words(0) == words(1) && words(0) <= 8, "{line}");
            let known = line.as_array().unwrap()[2..4]
                .iter()
                .filter(|chances| **chances != 0);
            for chances in known.clone() {
                let chances = chances.as_array().unwrap();
                let sum: u64 = chances.iter().map(|part| part.as_u64().unwrap()).sum();
                assert!(chances.len() == 2 && sum <= 1000, "{line}");
            }
            assert!(known.count() > 0, "{line}");
        }
    }
}

fn check_annotated(text: &str) {
    let games: Vec<_> = Reader::new(text.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(
        games
            .iter()
            .map(|game| game.moves.len())
            .collect::<Vec<_>>(),
        [7, 4]
    );
    assert_eq!(games[0].tag("White"), Some("Wé"));
    assert!(games[0].tag("Annotator").unwrap().starts_with("Scorn"));
    // Nf6 is answered by a mate in one.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Nf6 $4 {[%eval #1] [%wdl 1000,0,0] Blunder."),
        "{text}"
    );
    // After each move but the mate.
    assert_eq!(text.matches("[%eval ").count(), 6 + 4);
    assert_eq!(text.matches("[%wdl ").count(), 6 + 4);
}

#[test]
fn a_hundred_games_of_eighty_plies_stay_below_five_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    let (pgn, html) = (
        folder.path().join("games.pgn"),
        folder.path().join("report.html"),
    );
    // Long square names in the middle of a game: every line has its full length.
    let mut game = String::from("[White \"Somebody with a name\"]\n[Black \"Somebody else\"]\n\n");
    let shuffle = [
        "Nf3 Nf6", "Nc3 Nc6", "Rb1 Rb8", "Rg1 Rg8", "Ra1 Ra8", "Rh1 Rh8", "Ng1 Ng8", "Nb1 Nb8",
    ];
    for number in 0..40 {
        game += &format!("{}. {} ", number + 1, shuffle[number % shuffle.len()]);
    }
    let games = 5;
    fs::write(&pgn, format!("{game}1/2-1/2\n\n").repeat(games)).unwrap();
    analyze(
        &pgn,
        &[
            "-b",
            "hash",
            "--nodes",
            "150",
            "--html",
            html.to_str().unwrap(),
        ],
    );
    let page = fs::metadata(&html).unwrap().len();
    let empty = 160_000;
    assert!(page > empty);
    assert!(
        empty + (page - empty) * 100 / games as u64 <= 5_000_000,
        "{page} bytes for {games} games"
    );
}

#[test]
fn a_best_move_that_the_next_positions_refute_is_not_the_best() {
    let folder = tempfile::tempdir().unwrap();
    let [pgn, annotated, records] =
        ["game.pgn", "annotated.pgn", "records.jsonl"].map(|name| folder.path().join(name));
    // Légal's mate: 5... Bxd1 wins the queen and is mated in two. Two nodes see the queen only.
    let moves = "1. e4 e5 2. Nf3 d6 3. Bc4 Bg4 4. Nc3 g6 5. Nxe5 Bxd1 6. Bxf7+ Ke7 7. Nd5# 1-0\n";
    fs::write(&pgn, format!("[Result \"1-0\"]\n\n{moves}")).unwrap();
    let [to, output] = [&annotated, &records].map(|path| path.to_str().unwrap());
    analyze(
        &pgn,
        &["--nodes", "2", "--annotate", to, "--output", output],
    );
    let record = fs::read_to_string(&records).unwrap();
    let record: Value = serde_json::from_str(record.lines().nth(9).unwrap()).unwrap();
    assert_eq!(
        (&record["played"], &record["best"]),
        (&json!("g4d1"), &json!("g4d1"))
    );
    assert_eq!(record["objective_best"], "d6e5");
    let mut lines = record["lines"].as_array().unwrap().iter();
    let refuted = lines.find(|line| line["pv"][0] == "g4d1").unwrap();
    assert_eq!(refuted["objective"]["mate"], -2, "{refuted}");
    assert_eq!(record["mistake"]["san"], "Bxd1");
    let annotated = fs::read_to_string(&annotated).unwrap();
    assert!(annotated.contains("Bxd1 $4"), "{annotated}");
}

#[test]
fn two_outputs_cannot_be_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (pgn, out) = (folder.path().join("games.pgn"), folder.path().join("out"));
    fs::write(&pgn, GAMES).unwrap();
    let options = ["--annotate", "--output"];
    for (second, name) in options.into_iter().flat_map(|o| [(o, "out"), (o, "./out")]) {
        let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(["analyze", "--nodes", "10", "--pgn"])
            .arg(&pgn)
            .arg("--html")
            .arg(&out)
            .arg(second)
            .arg(folder.path().join(name))
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("would be written twice"), "{error}");
        assert!(!out.exists());
    }
}

/// The page is larger than what the system lets the program write, as on a disk that is nearly full.
#[cfg(unix)]
#[test]
fn annotated_games_are_not_lost_with_the_page() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("games.pgn"), GAMES).unwrap();
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .current_dir(folder.path())
        .args([
            "-c",
            limited,
            env!("CARGO_BIN_EXE_scorn"),
            "-b",
            "hash",
            "analyze",
        ])
        .args([
            "--nodes",
            "10",
            "--pgn",
            "games.pgn",
            "--html",
            "x.html",
            "--annotate",
            "x.pgn",
        ])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("cannot write") && error.contains("x.html"),
        "{error}"
    );
    assert!(
        error.contains("written to x.pgn") && !error.contains("written to x.html"),
        "{error}"
    );
    let annotated = Reader::open(&folder.path().join("x.pgn")).unwrap();
    assert_eq!(annotated.map(Result::unwrap).count(), 2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_network_is_not_overwritten_by_results() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("games.pgn"), GAMES).unwrap();
    fs::write(at("w.onnx"), "network").unwrap();
    for option in ["--html", "--annotate", "--output"] {
        let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .current_dir(folder.path())
            .args(["-b", "hash", "-w", "w.onnx", "analyze", "--nodes", "10"])
            .args(["--force", "--pgn", "games.pgn", option, "./w.onnx"])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("is an input too"), "{error}");
        assert_eq!(fs::read(at("w.onnx")).unwrap(), b"network");
    }
}

#[test]
fn a_draw_by_the_rules_is_the_end_of_a_game() {
    let folder = tempfile::tempdir().unwrap();
    let (pgn, annotated) = (folder.path().join("x.pgn"), folder.path().join("y.pgn"));
    let game = "[FEN \"6k1/5ppp/8/8/8/8/5PPP/Q5K1 w - - 0 1\"]\n\n\
        1. Qb1 Kf8 2. Qa1 Kg8 3. Qb1 Kf8 4. Qa1 Kg8 1/2-1/2\n";
    fs::write(&pgn, game).unwrap();
    let name = annotated.to_str().unwrap();
    analyze(&pgn, &["--nodes", "100", "--annotate", name]);
    let text = fs::read_to_string(&annotated).unwrap();
    // There is no comment on Black's last move, which draws.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.ends_with("Kg8 1/2-1/2"), "{text}");
    // The file had no such tag.
    assert!(text.contains("[Result \"1/2-1/2\"]"), "{text}");
    assert_eq!(text.matches("[%eval ").count(), 7);
}

/// Carlsen - Anand 2014, game 6: after 26. Kd2 both players missed 26... Nxe5. A search of 3000 nodes misses it, too,
/// and then 26... a4 looks like a trap (27. Rxh6) that costs nothing.
#[test]
fn a_move_that_misses_a_better_one_sets_no_trap() {
    let folder = tempfile::tempdir().unwrap();
    let (pgn, annotated) = (folder.path().join("x.pgn"), folder.path().join("y.pgn"));
    let records = folder.path().join("records.jsonl");
    let game = "[WhiteElo \"2863\"]\n[BlackElo \"2792\"]\n\
        [FEN \"6rr/1k3p2/1pb1p1np/p1p1P2R/2P3R1/2P1B3/P1BK1PP1/8 b - - 5 26\"]\n\n26... a4 27. Ke2 1-0\n";
    fs::write(&pgn, game).unwrap();
    let name = annotated.to_str().unwrap();
    analyze(
        &pgn,
        &[
            "--nodes",
            "3000",
            "--annotate",
            name,
            "--output",
            records.to_str().unwrap(),
        ],
    );
    let records: Vec<Value> = fs::read_to_string(&records)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The search after it finds the likely mistake, and the one before it thinks well of the move.
    assert_eq!(records[1]["mistake"]["san"], "Rxh6");
    assert_eq!(records[0]["lines"][0]["san"][0], "a4");
    assert!(
        records[0]["traps"].as_array().is_none_or(Vec::is_empty),
        "{}",
        records[0]["traps"]
    );
}

fn run(pgn: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["-t", "1", "analyze", "--pgn", pgn.to_str().unwrap()])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), errors)
}

#[test]
fn an_analysis_of_a_game_that_has_gone_on_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pgn, page, records) = (file("x.pgn"), file("x.html"), file("x.jsonl"));
    let names = [&page, &records].map(|path| path.to_str().unwrap());
    let arguments = [
        "--nodes", "50", "--force", "--html", names[0], "--output", names[1],
    ];
    let game = "[White \"a\"]\n\n1. e4 e5 *\n";
    fs::write(&pgn, game).unwrap();
    assert_eq!(run(&pgn, &arguments).0, Some(0));
    assert_eq!(run(&pgn, &arguments).0, Some(0));
    for (other, message) in [
        (game.replace("e5 *", "e5 2. Ke2 *"), "goes on differently"),
        // Their models are others, too.
        (
            format!("[WhiteElo \"2600\"]\n{game}"),
            "other limits or options",
        ),
    ] {
        fs::write(&pgn, other).unwrap();
        let (code, errors) = run(&pgn, &arguments);
        assert!(code == Some(1) && errors.contains(message), "{errors}");
        assert!(errors.contains("x.jsonl"), "{errors}");
    }
    // A rating of 0 is an unknown one.
    fs::write(&pgn, format!("[WhiteElo \"0\"]\n{game}")).unwrap();
    assert_eq!(run(&pgn, &arguments).0, Some(0));
}

/// Where a network is named, the ratings of the players still count: traps state how often such players fall for them.
#[test]
fn an_analysis_with_other_ratings_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pgn, page, records) = (file("x.pgn"), file("x.html"), file("x.jsonl"));
    let names = [&page, &records].map(|path| path.to_str().unwrap());
    let arguments = ["--nodes", "20", "--force", "--html", names[0]];
    let named = ["--output", names[1], "--opponent-weights", "<built in>"];
    let arguments = [&arguments[..], &named].concat();
    let game = "[White \"a\"]\n\n1. e4 *\n";
    fs::write(&pgn, game).unwrap();
    for _ in 0..2 {
        let (code, errors) = run(&pgn, &arguments);
        assert_eq!(code, Some(0), "{errors}");
    }
    fs::write(&pgn, format!("[WhiteElo \"2600\"]\n{game}")).unwrap();
    let (code, errors) = run(&pgn, &arguments);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("other limits or options"), "{errors}");
}

#[test]
fn a_page_without_search_contempt_has_no_practical_values() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pgn, page) = (file("x.pgn"), file("x.html"));
    // None of White's moves is among the best ones.
    fs::write(&pgn, "1. f3 e5 2. g4 Qh4# 0-1\n").unwrap();
    let path = page.to_str().unwrap();
    let rated = ["--contempt-mode", "disable", "--opponent-rating", "1500"];
    for (options, players) in [
        (
            &["--sc-limit", "0"][..],
            "players with the ratings of the file",
        ),
        (&rated, "a player rated 1500"),
    ] {
        let arguments = ["--nodes", "100", "--force", "--html", path];
        let errors = analyze(&pgn, &[&arguments[..], options].concat());
        assert!(!errors.contains("no effect"), "{errors}");
        let page = data(&fs::read_to_string(&page).unwrap());
        let how = page["how"].as_str().unwrap();
        let expected = format!("plain PUCT, likely mistakes of {players}");
        assert!(how.contains(&expected), "{how}");
        assert_eq!(page["practical"], false);
        let game = &page["games"][0];
        check_lines(game);
        let moves = game["moves"].as_array().unwrap().iter();
        let mut lines = moves.flat_map(|reviewed| reviewed["l"].as_array().unwrap());
        assert!(
            lines.all(|line| line[2] == 0 && line[3].is_array()),
            "{game}"
        );
    }
}

#[test]
fn several_files_are_analysed_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let [first, second, page, positions] = ["a.pgn", "b.PGN", "x.html", "c.epd"].map(file);
    fs::write(&first, "[White \"Anna\"]\n\n1. e4 *\n").unwrap();
    fs::write(&second, "[White \"Bert\"]\n\n1. d4 *\n").unwrap();
    fs::write(&positions, "4k3/8/8/8/8/8/8/4K2R w K -\n").unwrap();
    let run = |files: &[&Path], arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
        let command = command.args(["-t", "1", "analyze", "--nodes", "20"]);
        let output = command.args(files).args(arguments).output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|text| {
            let text = String::from_utf8(text).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<String>>()
        });
        (output.status.code(), out, errors.join("\n"))
    };
    let (code, _, errors) = run(&[&first, &second], &["--html", page.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{errors}");
    let data = data(&fs::read_to_string(&page).unwrap());
    assert_eq!(data["source"], "a.pgn and 1 other file");
    let white: Vec<&str> = data["games"]
        .as_array()
        .unwrap()
        .iter()
        .map(|game| game["white"].as_str().unwrap())
        .collect();
    assert_eq!(white, ["Anna", "Bert"]);

    let (code, out, errors) = run(&[&second, &first], &["--json"]);
    assert_eq!((code, out.len()), (Some(0), 4), "{errors}");
    assert!(out[2].contains("\"game 2, move 1.\""), "{}", out[2]);
    // A flag takes the first one.
    let (code, same, errors) = run(&[Path::new("--pgn"), &second, &first], &["--json"]);
    assert_eq!((code, same.len()), (Some(0), 4), "{errors}");
    for (record, m) in [(&same[0], "d2d4"), (&same[2], "e2e4")] {
        assert!(record.contains(&format!("\"played\":\"{m}\"")), "{record}");
    }
    for (files, message) in [
        (&[&*first, &*positions][..], "a command each"),
        (
            &[&*first, Path::new("--epd"), &*positions],
            "a command each",
        ),
        (&[&*first, Path::new("missing.pgn")], "missing.pgn"),
    ] {
        let (code, out, errors) = run(files, &[]);
        assert_eq!((code, out.len()), (Some(1), 0));
        assert!(errors.contains(message), "{errors}");
    }
    let twice = ["--pgn", "-", "--pgn", "-"];
    assert!(run(&[], &twice).2.contains("only once"));
}

#[test]
fn a_game_that_was_mended_is_analysed_and_the_others_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (pgn, records) = (file("x.pgn"), file("x.jsonl"));
    let arguments = ["--nodes", "20", "--output", records.to_str().unwrap()];
    let games = "[White \"a\"]\n\n1. e4 e5 *\n\n[White \"b\"]\n\n1. d4 Ke5 2. c4 *\n\n[White \"c\"]\n\n1. c4 c5 *\n";
    fs::write(&pgn, games).unwrap();
    assert_eq!(run(&pgn, &arguments).0, Some(1));
    let before = fs::read_to_string(&records).unwrap();
    fs::write(&pgn, games.replace("Ke5", "d5")).unwrap();
    // The second game is interrupted once more.
    assert_eq!(run(&pgn, &arguments).0, Some(0));
    let after = fs::read_to_string(&records).unwrap();
    let new: Vec<&str> = after.strip_prefix(&before).unwrap().lines().collect();
    assert!(new.len() == 4 && new.iter().all(|line| line.contains("\"game 2, ")));
    let first_of_new: String = new[..2].iter().map(|line| format!("{line}\n")).collect();
    fs::write(&records, before.clone() + &first_of_new).unwrap();
    assert_eq!(run(&pgn, &arguments).0, Some(0));
    let again = fs::read_to_string(&records).unwrap();
    assert_eq!(again.lines().count(), after.lines().count());

    // Results of other positions stay as they are.
    let positions = before.replace("\"game 1, move 1.\"", "\"#1\"");
    let [first, ..] = positions.lines().collect::<Vec<_>>()[..] else {
        panic!("{positions}")
    };
    fs::write(&records, format!("{first}\n")).unwrap();
    let (code, errors) = run(&pgn, &arguments);
    assert!(
        code == Some(1) && errors.contains("of other positions, without game 1"),
        "{errors}"
    );
    assert_eq!(fs::read_to_string(&records).unwrap(), format!("{first}\n"));

    fs::write(&records, &again).unwrap();
    for (other, message) in [
        (games.replace("e5 *", "e6 *"), "goes on differently"),
        (
            games.replace(
                "[White \"a\"]",
                "[FEN \"4k3/4p3/8/8/8/8/4P3/4K3 w - - 0 1\"]",
            ),
            "other positions (game 1, move 1. is rnbq",
        ),
        (
            games.replace("1. e4 e5 *", "1. e4 e5 2. Nf3 *"),
            "goes on differently",
        ),
    ] {
        fs::write(&pgn, other).unwrap();
        let (code, errors) = run(&pgn, &arguments);
        assert!(code == Some(1) && errors.contains(message), "{errors}");
    }
}

#[test]
fn bad_games_replace_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let (pgn, page) = (folder.path().join("x.pgn"), folder.path().join("x.html"));
    fs::write(&pgn, "[White \"a\"]\n\n1. e4 Ke5 *\n").unwrap();
    fs::write(&page, "an earlier page").unwrap();
    let (code, errors) = run(&pgn, &["--html", page.to_str().unwrap(), "--force"]);
    assert!(
        code == Some(1) && !errors.contains("written to"),
        "{errors}"
    );
    assert_eq!(fs::read_to_string(&page).unwrap(), "an earlier page");
}

#[test]
fn annotated_games_keep_clock_times_and_have_the_scores_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let [pgn, annotated, records] = ["x.pgn", "y.pgn", "z.jsonl"].map(file);
    let names = [&annotated, &records].map(|path| path.to_str().unwrap());
    let game = "1. e4 { [%eval 9.9] [%clk 0:03:00] good } 1... e5 2. Nf3 (2. f4 {[%clk 0:00:01]}) \
                Nc6 { [%clk 0:02:58] } *\n";
    fs::write(&pgn, game).unwrap();
    analyze(
        &pgn,
        &[
            "--nodes",
            "100",
            "--annotate",
            names[0],
            "--output",
            names[1],
        ],
    );
    let text = fs::read_to_string(&annotated).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(text.matches("[%clk ").count(), 2, "{text}");
    assert!(text.contains("] [%clk 0:03:00]} 1... e5 {"), "{text}");
    assert!(text.contains("] [%clk 0:02:58]} *"), "{text}");
    let evals: Vec<f64> = text
        .split("[%eval ")
        .skip(1)
        .map(|rest| rest.split(']').next().unwrap().parse().unwrap())
        .collect();
    // The position before the first move has no move before it.
    let records = fs::read_to_string(&records).unwrap();
    let scores = records.lines().skip(1).enumerate().map(|(index, line)| {
        let record: Value = serde_json::from_str(line).unwrap();
        let best = &record["objective_best"];
        let lines = record["lines"].as_array().unwrap();
        let line = lines.iter().find(|line| line["pv"][0] == *best).unwrap();
        let sign = if index % 2 == 0 { -1.0 } else { 1.0 };
        sign * line["objective"]["score"].as_f64().unwrap() / 100.0
    });
    let scores: Vec<f64> = scores.collect();
    assert_eq!(evals.len(), scores.len());
    for (eval, score) in evals.iter().zip(&scores) {
        // The score follows from wins, draws and losses, the mark from their difference alone.
        assert!((eval - score).abs() < 0.05, "{evals:?} {scores:?}");
    }
}

/// Starts an analysis of two games, the second one long, and stops it by Ctrl-C during the second one. Returns the
/// messages.
#[cfg(unix)]
fn stopped(folder: &Path, arguments: &[&str]) -> String {
    use std::{
        io::{BufRead, BufReader},
        process::Stdio,
        time::Duration,
    };
    let long = "Nf3 Nf6 Ng1 Ng8 ".repeat(50);
    let games = format!("[White \"short\"]\n\n1. e4 *\n\n[White \"long\"]\n\n{long}*\n");
    fs::write(folder.join("x.pgn"), games).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .current_dir(folder)
        .args([
            "-b", "hash", "-t", "1", "analyze", "x.pgn", "--nodes", "5000",
        ])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("game 2") {
        if arguments.contains(&"--output") {
            seen = fs::read_to_string(folder.join("x.jsonl")).unwrap_or_default();
            std::thread::sleep(Duration::from_millis(10));
        } else {
            assert!(output.read_line(&mut seen).unwrap() > 0);
        }
    }
    let pid = program.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = program.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    errors
}

#[cfg(unix)]
#[test]
fn an_analysis_that_is_stopped_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // The file of results has everything, so nothing else is written.
    let errors = stopped(folder.path(), &["--html", "x.html", "--output", "x.jsonl"]);
    assert!(errors.contains("the same command continues it"), "{errors}");
    assert_eq!(names(), ["x.jsonl", "x.pgn"]);
    // Without it the complete games are written.
    let errors = stopped(
        folder.path(),
        &["--json", "--html", "x.html", "--annotate", "y.pgn"],
    );
    assert!(
        errors.contains("1 complete game") && errors.contains("--output FILE"),
        "{errors}"
    );
    assert_eq!(names(), ["x.html", "x.jsonl", "x.pgn", "y.pgn"]);
    let page = data(&fs::read_to_string(folder.path().join("x.html")).unwrap());
    assert_eq!(page["games"].as_array().unwrap().len(), 1);
    assert_eq!(page["games"][0]["white"], "short");
    let games = Reader::open(&folder.path().join("y.pgn")).unwrap();
    assert_eq!(games.map(Result::unwrap).count(), 1);
}

#[test]
fn every_line_that_was_visited_has_its_practical_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let [pgn, page, records] = ["x.pgn", "x.html", "x.jsonl"].map(file);
    let names = [&page, &records].map(|path| path.to_str().unwrap());
    // The played move is not among the four best ones.
    let position = "rnbqr1k1/ppp2ppp/5n2/3p4/1b1P4/2NBP3/PP2NPPP/R1BQK2R w KQ - 4 8";
    fs::write(
        &pgn,
        format!("[FEN \"{position}\"]\n\n8. Bd2 Bf8 9. Rc1 b6 *\n"),
    )
    .unwrap();
    let arguments = ["--nodes", "400", "--json", "--moves", "--html", names[0]];
    analyze(&pgn, &[&arguments[..], &["--output", names[1]]].concat());
    let mut added = 0;
    for line in fs::read_to_string(&records).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let moves = record["moves"].as_array().unwrap();
        for line in record["lines"].as_array().unwrap() {
            let stat = moves
                .iter()
                .find(|stat| stat["move"] == line["pv"][0])
                .unwrap();
            // One visit in a hundred is enough.
            if stat["n"].as_f64().unwrap() >= 4.0 {
                assert_ne!(line["nodes"], 0, "{line} {stat}");
            }
        }
        // After the four lines of the search.
        let lines = record["lines"].as_array().unwrap().iter().skip(4);
        added += lines.filter(|line| line["nodes"] != 0).count();
    }
    assert!(added > 0);
}
