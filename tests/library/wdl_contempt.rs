//! WDL contempt from outside: its effect on the search, on reports, on the tree, and in a UCI session.

use crate::common::{Setup, position, session::Session};
use scorn::{chess::History, options::Options, search::PvLine};

/// The built-in network, which evaluates draws, with one thread and these options.
fn setup(settings: &[(&str, &str)]) -> Setup {
    let mut options = Options {
        threads: 1,
        ..Options::default()
    };
    for (name, value) in settings {
        options.set(name, value).unwrap();
    }
    Setup {
        evaluator: crate::common::evaluator(&options).unwrap(),
        ..Setup::new(options)
    }
}

/// An open game in which neither side is much better.
fn middlegame() -> History {
    position("r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/3P1N2/PPP2PPP/RNBQK2R w KQkq - 0 5")
}

fn line(setup: &Setup, game: &History, nodes: u64) -> PvLine {
    setup.search(game, nodes).report.lines[0].clone()
}

#[test]
fn the_stronger_side_is_optimistic_and_reports_unshifted_values() {
    let game = middlegame();
    let plain = line(&setup(&[]), &game, 1);
    let reported = line(&setup(&[("Contempt", "150")]), &game, 1);
    let subjective = [("Contempt", "150"), ("WDLEvalObjectivity", "0")];
    let felt = line(&setup(&subjective), &game, 1);
    // With one node it is the network's own evaluation.
    assert!(
        (reported.value.wl - plain.value.wl).abs() < 1e-3,
        "{reported:?} {plain:?}"
    );
    assert!(
        (reported.value.d - plain.value.d).abs() < 1e-3,
        "{reported:?} {plain:?}"
    );
    assert!(felt.value.wl > plain.value.wl + 0.1, "{felt:?} {plain:?}");
    let weaker = [("Contempt", "-150"), ("WDLEvalObjectivity", "0")];
    let felt = line(&setup(&weaker), &game, 1);
    assert!(felt.value.wl < plain.value.wl - 0.1, "{felt:?} {plain:?}");
    // The contempt side stays the same, whoever is to move.
    let black = [
        ("ContemptMode", "black_side_analysis"),
        subjective[0],
        subjective[1],
    ];
    let mut setup = setup(&black);
    setup.contempt_side = Some(shakmaty::Color::Black);
    let felt = line(&setup, &game, 1);
    assert!(felt.value.wl < plain.value.wl - 0.1, "{felt:?} {plain:?}");
}

#[test]
fn a_target_draw_rate_is_reached_and_reported() {
    let game = middlegame();
    let plain = line(&setup(&[]), &game, 1);
    let many = setup(&[("WDLDrawRateTarget", "0.9")]);
    let reported = line(&many, &game, 1);
    let tree = many.tree.lock();
    let felt = tree.node(tree.root()).d;
    assert!(felt > plain.value.d + 0.1, "{felt} {}", plain.value.d);
    assert!((reported.value.d - felt).abs() < 1e-3);
}

#[test]
fn statistics_are_reported_like_lines() {
    let arguments = [
        "--threads",
        "1",
        "--contempt",
        "200",
        "--verbose-move-stats",
    ];
    let mut session = Session::with(&[&arguments[..], &["--show-wdl"]].concat());
    session
        .send("position fen r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/3P1N2/PPP2PPP/RNBQK2R w KQkq - 0 5");
    let (best, lines) = session.go("go nodes 100");
    let of_best = |line: &&String| line.starts_with(&format!("info string {best} "));
    let stats = lines.iter().find(of_best).unwrap();
    let reported: f64 = stats.split("(WL: ").nth(1).unwrap()[..8]
        .trim()
        .parse()
        .unwrap();
    let report = lines.iter().rfind(|line| line.contains(" wdl ")).unwrap();
    let words: Vec<f64> = report
        .split(" wdl ")
        .nth(1)
        .unwrap()
        .split(' ')
        .take(3)
        .map(|word| word.parse().unwrap())
        .collect();
    let of_line = (words[0] - words[2]) / 1000.0;
    assert!((reported - of_line).abs() < 2e-3, "{stats} {report}");
}

#[test]
fn another_contempt_drops_the_tree_and_the_same_one_keeps_it() {
    let game = middlegame();
    let mut setup = setup(&[("Contempt", "100")]);
    assert_eq!(setup.search(&game, 300).report.playouts, 300);
    assert_eq!(setup.search(&game, 400).report.playouts, 100);
    for (name, value) in [
        ("Contempt", "120"),
        ("WDLMaxS", "1.2"),
        ("WDLDrawRateTarget", "0.6"),
        ("WDLContemptAttenuation", "0.5"),
    ] {
        setup.options.set(name, value).unwrap();
        assert_eq!(setup.search(&game, 400).report.playouts, 400, "{name}");
        setup.tree.lock().assert_consistent();
    }
    // How values are reported does not affect the tree; the opponent does, if its name matches.
    setup.options.set("WDLEvalObjectivity", "0.5").unwrap();
    setup
        .options
        .set("UCI_Opponent", "none 2000 computer maia")
        .unwrap();
    assert_eq!(setup.search(&game, 500).report.playouts, 100);
    setup.options.set("Contempt", "120,maia=300").unwrap();
    assert_eq!(setup.search(&game, 500).report.playouts, 500);
    setup.options.set("Contempt", "").unwrap();
    setup.options.set("UCI_RatingAdv", "300").unwrap();
    assert_eq!(setup.search(&game, 600).report.playouts, 100);
    // Two plies later it is the same side.
    let mut next = game.clone();
    let outcome = setup.search(&game, 600);
    next.push(outcome.best.unwrap());
    next.push(outcome.ponder.unwrap());
    let kept = setup.search(&next, 700).report;
    assert!(kept.playouts < 700, "{}", kept.playouts);
    // The other side's tree is another one.
    setup.contempt_side = Some(shakmaty::Color::Black);
    assert_eq!(setup.search(&next, 700).report.playouts, 700);
}

#[test]
fn an_infinite_analysis_has_no_contempt_and_reports_it() {
    let mut session = Session::with(&["--threads", "1", "--contempt", "200"]);
    session.send("position startpos moves e2e4 e7e5");
    let analyse = |session: &mut Session| {
        session.send("go infinite");
        let first = session.line();
        session.send("stop");
        let rest = session.until("bestmove");
        std::iter::once(first).chain(rest).collect::<Vec<_>>()
    };
    let is_reported = |lines: &[String]| lines.iter().any(|line| line.contains("Contempt is off"));
    assert!(is_reported(&analyse(&mut session)));
    session.send("setoption name ContemptMode value white_side_analysis");
    assert!(!is_reported(&analyse(&mut session)));
    let refused = session.send_and_sync("setoption name Contempt value much");
    assert!(
        refused
            .iter()
            .any(|line| line.contains("'much' is not of the form")),
        "{refused:?}"
    );
    session.send("setoption name ContemptMode value play");
    assert!(!is_reported(&session.go("go nodes 10").1));
    assert!(is_reported(&analyse(&mut session)));
}
