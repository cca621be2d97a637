//! `scorn options`: the options in force, and who decides each.

use std::{collections::BTreeMap, fs, process::Command};

use serde_json::Value;

use crate::common::session::Session;

const QUEEN: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1";

fn run(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scorn"));
    let output = command.arg("options").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// Value and source of each option.
fn options(arguments: &[&str]) -> BTreeMap<String, (String, String)> {
    let (printed, _) = run(&[&["--json"], arguments].concat());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let options = printed.lines().map(|line| {
        let option: Value = serde_json::from_str(line).unwrap();
        let value = (text(&option["value"]), text(&option["source"]));
        (text(&option["name"]), value)
    });
    options.collect()
}

#[test]
fn every_source_decides_what_no_stronger_one_sets() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("x.config");
    fs::write(&config, "cpuct=3\nfpu-value=0.2\nnode-limit=3\n").unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let game = ["--fen", QUEEN, "--cpuct", "2"];
    let found = options(&[&config[..], &game].concat());
    for (name, value, source) in [
        ("CPuct", "2", "user"),
        ("FpuValue", "0.2", "configuration file"),
        ("ScLimit", "28", "profile"),
        ("WeightsFile", "<built in odds>", "profile"),
        ("RootChoice", "lcb", "network"),
        ("NodeLimit", "3", "configuration file"),
        ("Temperature", "0", "default"),
    ] {
        assert_eq!(found[name], (value.to_owned(), source.to_owned()), "{name}");
    }
    // The strength limit comes last, and leaves alone what is weaker already.
    let limit = "--limit-strength --elo 1500 --refine-weights x.onnx";
    let limit: Vec<_> = limit.split(' ').collect();
    let limited = options(&[&config[..], &game, &limit].concat());
    for (name, value, source) in [
        ("NodeLimit", "3", "configuration file"),
        ("Temperature", "0.52", "strength limit"),
        ("RefineWeights", "", "strength limit"),
        ("CPuct", "2", "user"),
        // It was measured without profiles.
        ("ScLimit", "1000000000", "default"),
        ("WeightsFile", "<built in>", "default"),
    ] {
        let expected = (value.to_owned(), source.to_owned());
        assert_eq!(limited[name], expected, "{name}");
    }
    // Neither profiles nor the limit apply to an analysis, which has no randomness.
    let analysis = ["--analyse-mode", "--limit-strength", "--temperature", "1"];
    let analysis = options(&[&["--config", "", "--fen", QUEEN], &analysis[..]].concat());
    assert_eq!(analysis["ScLimit"].1, "default");
    assert_eq!(analysis["NodeLimit"].1, "default");
    let off = ("0".to_owned(), "analysis mode".to_owned());
    assert_eq!(analysis["Temperature"], off);
}

#[test]
fn profiles_that_are_not_valid_end_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    fs::write(&file, "[[profile]]\nset = { What = 1 }").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["options", "--config", "", "--profiles"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let errors = String::from_utf8_lossy(&output.stderr);
    let says = "bad.toml, line 2, column 9: unknown option 'What'";
    assert_eq!(errors.matches(says).count(), 1, "{errors}");
}

#[test]
fn the_table_has_all_options_or_those_that_are_changed() {
    let (all, _) = run(&["--config", "", "-b", "hash"]);
    let names = scorn::options::Options::default().rows().len();
    assert_eq!(all.lines().count(), 1 + names);
    let (changed, messages) = run(&[
        "--config",
        "",
        "--changed",
        "--weights",
        "/no/such.onnx",
        "--fen",
        QUEEN,
    ]);
    let rows: Vec<Vec<&str>> = changed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [
            vec!["OPTION", "VALUE", "SOURCE", "DEFAULT"],
            vec!["WeightsFile", "/no/such.onnx", "user", "<built", "in>"],
            vec!["ScLimit", "200", "profile", "1000000000"],
            vec!["OpeningVariety", "2", "profile", "0"],
        ]
    );
    assert!(messages.contains("profile odds given: OpeningVariety 2, ScLimit 200"));
    // A clock that a profile depends on.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.toml");
    let text = "[[profile]]\nname = \"bullet\"\nclock = \"..180\"\nset = { NodeLimit = 50 }";
    fs::write(&file, text).unwrap();
    let profiles = ["--profiles", file.to_str().unwrap(), "--fen", "startpos"];
    let with_clock = |seconds| options(&[&profiles[..], &["--clock", seconds]].concat());
    assert_eq!(with_clock("60")["NodeLimit"].1, "profile");
    assert_eq!(with_clock("300")["NodeLimit"].1, "default");
}

#[test]
fn the_strength_limit_overrides_the_networks_recommendations_and_says_so() {
    let limit = ["--config", "", "--limit-strength", "--elo", "2000"];
    let refiner = ["--refine-weights", "<built in dense>"];
    let mut session = Session::with(&[&limit[..], &refiner].concat());
    session.send_and_sync("position startpos");
    let (_, lines) = session.go("go nodes 2");
    let report = lines.iter().find(|line| line.contains("recommends"));
    let report = report.unwrap_or_else(|| panic!("{lines:?}"));
    let overridden = "CertaintyProp 2 (strength limit: 0)";
    assert!(report.contains(overridden), "{report}");
    assert!(!report.contains("refined priors"), "{report}");
}
