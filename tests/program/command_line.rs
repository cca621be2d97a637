//! The program in a shell: its output and exit codes.

use std::{
    fs,
    process::{Command, Output},
};

use crate::common::machine::SmallDisk;

fn scorn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const EPD: &str = "6k1/5ppp/8/8/8/8/8/R5K1 w - - bm Ra8#; id \"mate\";\n\
                   4k3/8/8/8/8/8/8/4K2R w K - id \"quiet\";\n\
                   R5k1/5ppp/8/8/8/8/8/6K1 b - - id \"over\";\n";

#[test]
fn help_and_version() {
    for arguments in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["analyze", "--help"],
        &["bench", "--help"],
        &["match", "--help"],
        &["stats", "--help"],
    ] {
        let output = scorn(arguments);
        assert!(output.status.success(), "{arguments:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

/// An invalid command line, the exit code, and a part of the message.
const MISTAKES: [(&str, i32, &str); 29] = [
    ("--nosuch", 2, "--nosuch"),
    ("frobnicate", 2, "frobnicate"),
    ("--cpuct fast", 2, "not a number"),
    ("--sc-sampling x", 2, "one of thompson"),
    ("analyze", 2, "<FILE|--fen <FEN>|--epd <FILE>|--pgn <FILE>>"),
    ("analyze --fen startpos --epd x.epd", 2, "--epd"),
    ("dataset stats tests", 1, "is a folder"),
    ("analyze --fen 8/8", 1, "not a FEN"),
    ("analyze --epd /no/such/file", 1, "/no/such/file"),
    ("-b nosuch analyze --fen startpos", 1, "nosuch"),
    (
        "-w /no/such.pb.gz analyze --fen startpos",
        1,
        "/no/such.pb.gz",
    ),
    ("--config /no/such/config", 1, "/no/such/config"),
    ("analyze --fen startpos --html x.html", 2, "--fen"),
    ("analyze --epd x.epd --annotate x.pgn", 2, "--epd"),
    (
        "benchmark --fen startpos --num-positions 2",
        2,
        "--num-positions",
    ),
    (
        "dataset pgn x.pgn --out x.rec --held-out 101",
        2,
        "from 0 to 100",
    ),
    (
        "--limit-strength analyze --fen startpos",
        2,
        "--limit-strength does not apply to analyze",
    ),
    ("analyze --logfile x --fen startpos", 2, "--logfile"),
    ("selfplay --games 1 --out x --ponder", 2, "--ponder"),
    (
        "selfplay --games 1 --out x --random-share 0.5",
        2,
        "--random-plies",
    ),
    ("selfplay --games 1 --out x --record-side a", 2, "--records"),
    (
        "selfplay --games 1 --out x --tau tau1 --temperature 0.5",
        1,
        "give one or the other",
    ),
    (
        "tune --write /no/such/folder/x",
        1,
        "there is no folder /no/such/folder",
    ),
    ("describe x.onnx", 1, "x.onnx"),
    (
        "match self self --tc 60s",
        2,
        "expected seconds, as in 60+0.6",
    ),
    ("match self self --st x", 2, "seconds per move, as in 0.5"),
    ("match self self --resign 6", 2, "movecount=3,score=600"),
    ("match self self --draw foo", 2, "movenumber=35,movecount=8"),
    ("page x.json --out x.html", 1, "x.json"),
];

#[test]
fn mistakes_have_one_message_and_an_exit_code() {
    for (line, code, message) in MISTAKES {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = scorn(&arguments);
        assert_eq!(output.status.code(), Some(code), "{line}");
        let errors = text(&output.stderr);
        assert!(errors.contains(message), "{line}: {errors}");
        assert!(!errors.contains("panicked"));
        if code == 1 {
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
    }
}

#[test]
fn the_networks_inside_are_described() {
    for (name, word) in [
        ("<built in>", "sparse"),
        ("<built in dense>", "scorn-dense"),
    ] {
        let output = scorn(&["describe", name]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            text(&output.stdout).to_lowercase().contains(word),
            "{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn analyses_print_text_and_json() {
    let output = scorn(&[
        "-b",
        "hash",
        "analyze",
        "--fen",
        "startpos",
        "--fen",
        "startpos moves e2e4",
        "--nodes",
        "200",
        "--multipv",
        "2",
    ]);
    let people = text(&output.stdout);
    assert_eq!(people.matches(" win ").count(), 4, "{people}");
    let views: Vec<_> = people
        .lines()
        .filter(|line| line.starts_with("  best "))
        .map(|line| line.rsplit_once("values for ").unwrap().1)
        .collect();
    assert_eq!(views, ["White)", "Black)"], "{people}");

    let folder = tempfile::tempdir().unwrap();
    let epd = folder.path().join("a.epd");
    fs::write(&epd, EPD).unwrap();
    let output = scorn(&[
        "-b",
        "hash",
        "analyze",
        "--epd",
        epd.to_str().unwrap(),
        "--nodes",
        "300",
        "--json",
        "--moves",
    ]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("solved 1 of 1"));
    let records: Vec<serde_json::Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 3);
    assert_eq!(records[0]["best"], "a1a8");
    assert_eq!(records[0]["solved"], true);
    assert_eq!(records[0]["lines"][0]["mate"], 1);
    assert!(records[0]["moves"].as_array().unwrap().len() > 5);
    assert!(records[2]["best"].is_null());
}

#[test]
fn with_search_contempt_an_analysis_prints_both_values() {
    let analyze = |arguments: &[&str]| {
        let common = [
            "-b", "hash", "analyze", "--fen", "startpos", "--nodes", "2000",
        ];
        text(&scorn(&[&common, arguments].concat()).stdout)
    };
    let people = analyze(&["--sc-limit", "20"]);
    let words = " against best replies (practical gain ";
    assert!(people.contains(words), "{people}");
    let record: serde_json::Value =
        serde_json::from_str(&analyze(&["--sc-limit", "20", "--json"])).unwrap();
    let line = &record["lines"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let (practical, objective) = (&line["wdl"], &line["objective"]["wdl"]);
    let gap = |at: usize| number(&practical[at]) - number(&objective[at]);
    let gain = number(&line["objective"]["gain"]);
    assert!(
        (gain - (gap(0) - gap(2)) / 1000.0).abs() < 0.003,
        "{record}"
    );
    // The values against best replies are those of a plain search.
    let plain: serde_json::Value =
        serde_json::from_str(&analyze(&["--json", "--multipv", "20"])).unwrap();
    let plain = plain["lines"].as_array().unwrap();
    assert_eq!(record["objective_best"], plain[0]["pv"][0]);
    let same = plain.iter().find(|other| other["pv"][0] == line["pv"][0]);
    assert_eq!(same.unwrap()["wdl"], *objective);
    assert!(!analyze(&["--json"]).contains("objective"));
}

#[test]
fn a_mate_is_also_an_objective_mate() {
    let analyze = |arguments: &[&str]| {
        let fen = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1";
        let common = [
            "-b",
            "hash",
            "analyze",
            "--fen",
            fen,
            "--nodes",
            "50",
            "--sc-limit",
            "20",
        ];
        text(&scorn(&[&common, arguments].concat()).stdout)
    };
    let people = analyze(&[]);
    assert_eq!(people.matches("mate 1 ").count(), 2, "{people}");
    let record: serde_json::Value = serde_json::from_str(&analyze(&["--json"])).unwrap();
    let objective = &record["lines"][0]["objective"];
    assert!(objective["score"].is_null(), "{record}");
    assert_eq!(objective["wdl"], serde_json::json!([1000, 0, 0]));
}

#[test]
fn a_position_in_which_the_game_is_over_says_how() {
    for (fen, how) in [
        ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "checkmate"),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "stalemate"),
    ] {
        let output = scorn(&["-b", "hash", "analyze", "--fen", fen, "--nodes", "5"]);
        let people = text(&output.stdout);
        let expected = format!("  the game is over: {how}\n");
        assert!(people.ends_with(&expected), "{people}");
    }
}

#[test]
fn a_move_that_was_not_searched_has_no_values() {
    let folder = tempfile::tempdir().unwrap();
    let pgn = folder.path().join("x.pgn");
    fs::write(&pgn, "1. a4 *\n").unwrap();
    let pgn = pgn.to_str().unwrap();
    let common = ["-b", "hash", "-t", "1", "analyze", pgn, "--sc-limit", "5"];
    let run = |nodes: &str| text(&scorn(&[&common[..], &["--nodes", nodes]].concat()).stdout);
    let people = run("1");
    assert!(
        people.contains("  best ") && people.contains("(1 node, "),
        "{people}"
    );
    assert!(people.contains("  not searched  a4\n"), "{people}");
    assert!(!run("1000").contains("not searched"));

    // As JSON, with search-contempt and without.
    for limit in ["5", "0"] {
        let arguments = ["--nodes", "8", "--multipv", "20", "--sc-limit", limit];
        let arguments = [
            &["-b", "hash", "-t", "1", "analyze", pgn, "--json"][..],
            &arguments,
        ]
        .concat();
        let objects = text(&scorn(&arguments).stdout);
        let mut unknown = 0;
        for record in objects.lines() {
            let record: serde_json::Value = serde_json::from_str(record).unwrap();
            let lines = record["lines"].as_array().unwrap();
            for line in &lines[1..] {
                let (nodes, objective) = (line["nodes"].as_u64(), &line["objective"]);
                let is_plain_best = line["pv"][0] == record["objective_best"];
                assert!(
                    objective.is_null() || objective["nodes"] != 0 || is_plain_best,
                    "{line}"
                );
                let is_known = nodes != Some(0) || !objective.is_null();
                assert_eq!(line["wdl"].is_array(), is_known, "{line}");
                assert_eq!(line["score"].is_i64(), is_known, "{line}");
                unknown += u32::from(!is_known);
            }
        }
        assert!(unknown > 0, "{objects}");
    }
}

#[test]
fn moves_are_written_to_a_file_of_results() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.jsonl");
    let common = [
        "-b", "hash", "analyze", "--fen", "startpos", "--nodes", "5", "--moves",
    ];
    let run = |arguments: &[&str]| scorn(&[&common[..], arguments].concat());
    assert!(run(&["-o", output.to_str().unwrap()]).status.success());
    let record = fs::read_to_string(&output).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["moves"].as_array().unwrap().len(), 20);
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--json"));
}

#[test]
fn an_interrupted_analysis_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (epd, whole, part) = (
        folder.path().join("a.epd"),
        folder.path().join("whole.jsonl"),
        folder.path().join("part.jsonl"),
    );
    fs::write(&epd, EPD).unwrap();
    let analyse_with = |output: &std::path::Path, arguments: &[&str]| {
        let (epd, output) = (epd.to_str().unwrap(), output.to_str().unwrap());
        let common = [
            "-b", "hash", "-t", "1", "analyze", "--epd", epd, "--output", output,
        ];
        scorn(&[&common, arguments].concat())
    };
    let analyse = |output: &std::path::Path| analyse_with(output, &["--nodes", "100"]);
    assert!(analyse(&whole).status.success());
    let complete = fs::read_to_string(&whole).unwrap();
    // Truncated within the second record.
    let first = complete.find('\n').unwrap() + 1;
    for length in [3, 40] {
        fs::write(&part, &complete[..first + length]).unwrap();
        assert!(analyse(&part).status.success());
    }
    let resumed = fs::read_to_string(&part).unwrap();
    let without_time = |text: &str| -> Vec<serde_json::Value> {
        text.lines()
            .map(|line| {
                let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
                record["time_ms"] = 0.into();
                record.as_object_mut().unwrap().remove("solution");
                record
            })
            .collect()
    };
    assert_eq!(without_time(&resumed), without_time(&complete));
    assert!(analyse(&part).status.success());
    assert_eq!(fs::read_to_string(&part).unwrap(), resumed);

    // The analysis is not resumed with other limits or options; options that affect only the speed may change.
    for other in [&["--nodes", "200"][..], &["--nodes", "100", "--cpuct", "3"]] {
        let output = analyse_with(&part, other);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("written with other limits or options"));
    }
    let faster = analyse_with(&part, &["--nodes", "100", "--threads", "2"]);
    assert!(faster.status.success());
    assert_eq!(fs::read_to_string(&part).unwrap(), resumed);

    // A file with other contents stays as it is.
    fs::write(&part, "my notes\n").unwrap();
    assert_eq!(analyse(&part).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&part).unwrap(), "my notes\n");
    fs::write(&epd, EPD.lines().rev().collect::<Vec<_>>().join("\n")).unwrap();
    assert_eq!(analyse(&whole).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&whole).unwrap(), complete);
}

#[test]
fn an_analysis_is_not_appended_to_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("package.json");
    let analyse = || {
        scorn(&[
            "-b",
            "hash",
            "-t",
            "1",
            "analyze",
            "--fen",
            "startpos",
            "--nodes",
            "5",
            "--output",
            path.to_str().unwrap(),
        ])
    };
    // One line, and a complete one without its line end.
    let other = r#"{"name":"my-app","version":"1.0.0"}"#;
    fs::write(&path, other).unwrap();
    let output = analyse();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is not an earlier analysis"));
    assert_eq!(fs::read_to_string(&path).unwrap(), other);
    // A record that lacks only its line end is written again.
    fs::remove_file(&path).unwrap();
    assert!(analyse().status.success());
    let record = fs::read_to_string(&path).unwrap();
    fs::write(&path, record.trim_end()).unwrap();
    assert!(analyse().status.success());
    let again = fs::read_to_string(&path).unwrap();
    assert_eq!((again.lines().count(), again.ends_with('\n')), (1, true));
}

#[test]
fn a_resumed_suite_uses_the_present_solutions() {
    let folder = tempfile::tempdir().unwrap();
    let (epd, out) = (folder.path().join("a.epd"), folder.path().join("a.jsonl"));
    let solved_with = |operation: &str| {
        fs::write(&epd, format!("4k3/8/8/8/8/8/8/4K2R w K - {operation};\n")).unwrap();
        let output = scorn(&[
            "-b",
            "hash",
            "-t",
            "1",
            "analyze",
            "--nodes",
            "50",
            "--epd",
            epd.to_str().unwrap(),
            "--output",
            out.to_str().unwrap(),
        ]);
        assert!(output.status.success());
        text(&output.stderr).to_owned()
    };
    assert!(!solved_with("c0 \"no solution\"").contains("solved"));
    let record = fs::read_to_string(&out).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let best = record["best_san"].as_str().unwrap();
    assert!(solved_with(&format!("bm {best}")).contains("solved 1 of 1"));
    assert!(solved_with(&format!("am {best}")).contains("solved 0 of 1"));
}

/// Input that can be read only once.
#[cfg(unix)]
#[test]
fn analyses_positions_from_a_pipe() {
    use std::{io::Write, process::Stdio};

    for name in ["/dev/stdin", "-"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(["-b", "hash", "analyze", "--epd", name, "--node-limit", "50"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(EPD.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(
            said.contains("mate") && said.contains("quiet"),
            "{name}: {said}"
        );
        assert!(said.contains("(50 nodes"), "{name}: {said}");
    }
}

/// Of a text, a reader may want the first lines only. Nothing is measured for nobody.
#[test]
#[cfg(target_os = "linux")]
fn a_text_may_be_read_in_part() {
    use std::time::{Duration, Instant};

    for line in [
        "--help",
        "--version",
        "dataset --help",
        "options",
        "options --json",
        "man",
        "completions bash",
        "bench --nodes 100",
        "runtime",
        "backendbench --backend hash --time 100000",
        "benchmark --backend hash --movetime 100000",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let started = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(line.split(' '))
            .stdout(writer)
            .output()
            .unwrap();
        let errors = text(&output.stderr);
        assert!(
            output.status.success() && errors.is_empty(),
            "{line}: {errors}"
        );
        assert!(started.elapsed() < Duration::from_secs(90), "{line}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_text_that_cannot_be_written_is_an_error() {
    use std::process::Stdio;

    for line in ["--help", "--version", "options", "man", "bench --nodes 1"] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(line.split(' '))
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn();
        let output = output.unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        let errors = text(&output.stderr);
        let message = "scorn: cannot write to standard output: No space left on device";
        assert!(errors.starts_with(message), "{line}: {errors}");
    }
}

/// The number of nodes, which is what OpenBench compares, changes with the signature.
#[test]
fn bench_is_deterministic_and_its_nodes_are_the_signature() {
    let bench = |nodes: u64| {
        let output = scorn(&["bench", "--nodes", &nodes.to_string()]);
        assert!(output.status.success());
        let lines = text(&output.stdout);
        let signature = lines
            .lines()
            .find_map(|line| line.strip_prefix("signature  "));
        let signature = u64::from_str_radix(signature.unwrap(), 16).unwrap();
        let last: Vec<&str> = lines.lines().last().unwrap().split(' ').collect();
        assert_eq!(
            (last.len(), last[1], last[3]),
            (4, "nodes", "nps"),
            "{lines}"
        );
        let nps: u64 = last[2].parse().unwrap();
        assert!(nps > 0);
        (signature, last[0].parse::<u64>().unwrap())
    };
    let (first, again) = (bench(300), bench(300));
    assert_eq!(first, again);
    // The searches of the signature have at most 300 nodes each, the last one as many as it says.
    let rest = first.1 - (1 + first.0 % 4800);
    assert!(rest > 80 * 300 && rest <= 96 * 300, "{first:?}");
}

/// The commit is known in release builds only.
#[test]
fn the_version_names_commit_and_target() {
    let line = text(&scorn(&["--version"]).stdout);
    let rest = line.strip_prefix(&format!("scorn {} (commit ", env!("CARGO_PKG_VERSION")));
    let (commit, target) = rest.unwrap().trim_end().split_once(", ").unwrap();
    let digits = commit.trim_end_matches("-dirty");
    assert!(
        commit == "unknown" || digits.len() >= 7 && digits.chars().all(|c| c.is_ascii_hexdigit()),
        "{line}"
    );
    assert!(
        target.starts_with(std::env::consts::ARCH) && target.ends_with(')'),
        "{line}"
    );
}

#[test]
fn shells_complete_the_command_line() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = text(&scorn(&["completions", shell]).stdout);
        for word in ["selfplay", "sc-limit", "analyze"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    assert_eq!(scorn(&["completions", "tcsh"]).status.code(), Some(2));
}

/// What the shell makes of the script, which is too long for an argument.
#[cfg(target_os = "linux")]
#[test]
fn bash_completes_commands_and_values() {
    let script = tempfile::NamedTempFile::new().unwrap();
    fs::write(&script, scorn(&["completions", "bash"]).stdout).unwrap();
    for (before, word, expected) in [
        ("scorn", "sel", "selfplay"),
        ("scorn analyze --backend", "onnx", "onnx-cpu"),
        ("scorn --network-encoding", "alpha", "alphazero"),
    ] {
        let number = before.split(' ').count();
        let last = before.split(' ').next_back().unwrap();
        let complete = format!(
            ". \"$0\"; COMP_WORDS=({before} {word}); COMP_CWORD={number}; \
             _scorn scorn {word} {last}; echo \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &complete]).arg(script.path());
        match bash.output() {
            Ok(output) => assert_eq!(text(&output.stdout).trim(), expected),
            Err(error) => eprintln!("SKIPPED: no bash ({error})"),
        }
    }
}

#[test]
fn man_reads_about_the_command_line() {
    let page = text(&scorn(&["man"]).stdout);
    assert!(
        page.contains(".TH scorn 1") && page.contains(".SH OPTIONS"),
        "{page}"
    );
    // Every option with a line of help below its name.
    let lines: Vec<&str> = page.lines().collect();
    let is_option = |lines: &&[&str]| lines[0] == ".TP" && lines[1].contains("\\-\\-");
    let options: Vec<_> = lines.windows(3).filter(is_option).collect();
    assert!(options.len() > 100, "{}", options.len());
    for option in options {
        let help = option[2];
        assert!(!help.is_empty() && !help.starts_with('.'), "{}", option[1]);
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = scorn(&["man", "--folder", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let of_match = fs::read_to_string(pages.join("scorn-match.1")).unwrap();
    assert!(of_match.contains("concurrency"));
    // The middle of the footer, a date, is empty.
    let version = env!("CARGO_PKG_VERSION");
    for (name, heading) in [("match", "EXAMPLES"), ("page", "NOTES")] {
        let page = fs::read_to_string(pages.join(format!("scorn-{name}.1"))).unwrap();
        for line in [
            format!(".TH scorn-{name} 1 \" \" \"scorn {version}\" Scorn"),
            format!(".SH {heading}"),
        ] {
            assert!(page.lines().any(|found| found.trim_end() == line), "{page}");
        }
        assert!(!page.contains("EXTRA") && !page.contains("\nExamples:\n"));
    }
    // Pages that exist stay, all of them, unless --force is given.
    fs::write(pages.join("scorn-match.1"), "mine").unwrap();
    fs::remove_file(pages.join("scorn.1")).unwrap();
    let again = scorn(&["man", "--folder", pages.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--force overwrites it"));
    assert_eq!(fs::read(pages.join("scorn-match.1")).unwrap(), b"mine");
    assert!(!pages.join("scorn.1").exists());
    let forced = scorn(&["man", "--force", "--folder", pages.to_str().unwrap()]);
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert_eq!(
        fs::read_to_string(pages.join("scorn-match.1")).unwrap(),
        of_match
    );
    assert!(pages.join("scorn.1").exists());
}

/// They would have to be overwritten by the next try.
#[test]
fn a_full_disk_has_none_of_the_pages() {
    let Some(disk) = SmallDisk::new() else {
        return;
    };
    let folder = disk.path().join("man1");
    let write = || scorn(&["man", "--folder", folder.to_str().unwrap()]);
    let failed = write();
    let errors = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{errors}");
    let message = errors.contains("No space left") && errors.contains("/man1/scorn");
    assert!(message, "{errors}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    disk.grow();
    let again = write();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(folder.join("scorn.1").exists());
}

/// `scorn analyze FILE` and `scorn analyse FILE`: games or positions by the name.
#[test]
fn a_file_is_analysed_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &str| {
        let path = folder.path().join(name);
        fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (pgn, epd) = (file("game.PGN", "1. e4 e5 *\n"), file("a.epd", EPD));
    let run = |command: &str, arguments: &[&str]| {
        let common = ["-b", "hash", command, "--nodes", "20", "--json"];
        scorn(&[&common, arguments].concat())
    };
    // Without the times.
    let records = |command: &str, arguments: &[&str]| -> Vec<serde_json::Value> {
        let output = run(command, arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let output = text(&output.stdout);
        let records = output.lines().map(|line| {
            let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["time_ms"] = 0.into();
            record
        });
        records.collect()
    };
    for command in ["analyze", "analyse"] {
        let by_name = records(command, &[&pgn]);
        assert_eq!(by_name.len(), 3);
        assert_eq!(by_name, records(command, &["--pgn", &pgn]));
    }
    assert_eq!(text(&run("analyze", &[&epd]).stdout).lines().count(), 3);
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    assert!(run("analyze", &[&pgn, "--html", page]).status.success());
    for (arguments, code, message) in [
        (&[&*epd, "--html", page, "--force"][..], 1, "need games"),
        (&["notes.txt"], 1, "nor .fen: use --pgn FILE"),
        (&[&*pgn, "--fen", "startpos"], 2, "cannot be used with"),
    ] {
        let output = run("analyze", arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(message),
            "{}",
            text(&output.stderr)
        );
    }
}

/// lc0's -o is BackendOptions, except where a command has an -o of its own.
#[test]
fn the_short_flag_for_backend_options_is_lc0s() {
    let output = scorn(&["-o", "threads=1", "options", "--changed"]);
    let listed = text(&output.stdout);
    assert!(
        listed
            .lines()
            .any(|line| line.starts_with("BackendOptions") && line.contains("threads=1")),
        "{listed}"
    );
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines.jsonl");
    let output = scorn(&[
        "-b",
        "hash",
        "analyze",
        "--fen",
        "startpos",
        "--nodes",
        "5",
        "-o",
        lines.to_str().unwrap(),
    ]);
    assert!(output.status.success() && lines.is_file());
}

#[test]
fn reads_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c");
    fs::write(&config, "# mine\n--backend=hash\nMultiPV=3\n").unwrap();
    let path = config.to_str().unwrap();
    let output = scorn(&[
        "--config", path, "analyze", "--fen", "startpos", "--nodes", "100",
    ]);
    assert_eq!(text(&output.stdout).matches(" win ").count(), 3);
    fs::write(&config, "--backend=hash\n--nosuch=3\n").unwrap();
    let output = scorn(&["--config", path, "bench"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("line 2: unknown option 'nosuch'"));
}

#[test]
fn benchmark_prints_lc0s_fields() {
    let output = scorn(&[
        "benchmark",
        "--backend",
        "hash",
        "--nodes",
        "50",
        "--num-positions",
        "3",
    ]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    for part in [
        "Position: 1/3 rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "Position: 3/3 ",
        "Benchmark time ",
        " nps, move ",
        "\nTotal time (ms) : ",
        "\nNodes searched  : 150\n",
        "\nNodes/second    : ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let json = "benchmark --backend hash --nodes 50 --num-positions 3 --json";
    let output = scorn(&json.split(' ').collect::<Vec<_>>());
    let lines: Vec<serde_json::Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    assert_eq!((lines.len(), &lines[0]["position"]), (4, &start.into()));
    assert_eq!(lines[3]["positions"], 3);
    assert_eq!(lines[3]["nodes"], 150);
    assert!(lines[3]["description"].as_str().unwrap().contains("hash"));
    let output = scorn(&[
        "benchmark",
        "--backend",
        "hash",
        "--movetime",
        "30",
        "--fen",
        "8/8/8/8/8/8/8/8 w",
    ]);
    assert!(!output.status.success());
}
