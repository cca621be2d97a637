//! The odds autopilot: the options that follow from a game, in the library and in the real program.

use std::{fs, process::Command, time::Duration};

use crate::common::{session::Session, shared};
use scorn::{
    chess::{
        History,
        moves::legal_moves,
        opponent::OpponentKind,
        setup::{START_FEN, position_from_fen},
    },
    odds::{BUILT_IN, NetworkChoice, OddsFacts, Profiles, Signature},
    options::Options,
};
use serde_json::Value;
use shakmaty::{Color, uci::UciMove};

const QUEEN: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1";
/// The opponent has no queen.
const QUEEN_TAKEN: &str = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

fn built_in() -> Profiles {
    Profiles::load(BUILT_IN, |_, _| Ok(())).unwrap()
}

fn facts(fen: &str, side: Color, rating: Option<u32>) -> OddsFacts {
    OddsFacts {
        signature: Signature::of(&position_from_fen(fen).unwrap(), side),
        side,
        rating,
        opponent: rating.map(|_| OpponentKind::Human),
        advantage: 0.0,
        clock: None,
        network: NetworkChoice::Default,
    }
}

/// Cute Chess stores all options that it was told, and sends them all.
#[test]
fn a_gui_that_sends_every_default_leaves_the_choice_to_network_and_profile() {
    let mut session = Session::with(&["--threads", "1"]);
    session.send("uci");
    let options = session.until("uciok");
    let with_value = options.iter().filter_map(|line| {
        let (name, rest) = line.strip_prefix("option name ")?.split_once(" type ")?;
        let (_, default) = rest.split_once(" default ")?;
        let default = default.split(" min ").next()?.split(" var ").next()?;
        Some(format!("setoption name {name} value {default}"))
    });
    let commands: Vec<_> = with_value.collect();
    assert!(commands.len() > 40, "{}", commands.len());
    commands.iter().for_each(|command| session.send(command));
    let notes = session.send_and_sync(&format!("position fen {QUEEN}"));
    let has = |text: &str| notes.iter().any(|line| line.contains(text));
    assert!(has("the GUI sends all options"), "{notes:?}");
    assert!(has("profile odds given"), "{notes:?}");
    assert!(has("WeightsFile <built in odds>"), "{notes:?}");
    let (_, lines) = session.go("go nodes 20");
    let lines = notes.iter().chain(&lines);
    let recommended = lines.filter(|line| line.contains("the network recommends"));
    let recommended: Vec<_> = recommended.collect();
    assert!(!recommended.is_empty());
    assert!(
        recommended.iter().all(|line| !line.contains("user:")),
        "{recommended:?}"
    );
}

/// The odds positions that bots on lichess accept.
fn fenlist() -> Option<Vec<Value>> {
    let path = shared("books/odds-fenlist.json")?;
    let list: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    Some(list["accepted_positions"].as_array().unwrap().clone())
}

#[test]
fn all_published_odds_and_the_normal_start_resolve() {
    let Some(list) = fenlist() else { return };
    assert_eq!(list.len(), 46);
    let profiles = built_in();
    let fens = list
        .iter()
        .map(|entry| format!("{} - 0 1", entry["fen"].as_str().unwrap()));
    for fen in fens.chain([START_FEN.to_owned()]) {
        for side in Color::ALL {
            for rating in (800..=2800).step_by(100).map(Some).chain([None]) {
                let facts = facts(&fen, side, rating);
                let resolved = profiles.resolve(&facts);
                assert!(!resolved.names.is_empty(), "{fen} {side} {rating:?}");
                let deficit = facts.signature.unwrap().deficit();
                let limit = resolved
                    .settings
                    .iter()
                    .find(|(option, _)| *option == "ScLimit");
                assert_eq!(limit.is_some(), deficit > 0, "{fen} {side}");
                let mut options = Options::default();
                for (option, value) in &resolved.settings {
                    options.set(option, value).unwrap();
                }
            }
        }
    }
}

#[test]
fn the_published_options_are_accepted() {
    let Some(list) = fenlist() else { return };
    for entry in list {
        let mut options = Options::default();
        for (name, value) in entry["uci_options"].as_object().unwrap() {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            options.set(name, &text).unwrap();
        }
        let is_black = entry["color"] == "white";
        assert_eq!(options.swap_colors, is_black);
    }
}

/// Three profiles whose conditions differ.
const CONDITIONS: &str = r#"
        [[profile]]
        odds = ["Q", "Qn"]
        set = { ScLimit = 28, NodeLimit = 800, OwnDrawScore = -0.4 }
        [[profile]]
        name = "quick"
        clock = "..180"
        set = { NodeLimit = 100 }
        [[profile]]
        name = "as Black"
        colour = "black"
        advantage = "500.."
        rating = "1100..1500"
        opponent = "human"
        set = { OpponentWeights = "maia-{maia}.pb.gz", SwapColors = true }
    "#;

/// The profiles that apply, and the whole line about them.
fn resolve(facts: &OddsFacts) -> (String, String) {
    let profiles = Profiles::parse(CONDITIONS, "test").unwrap();
    let resolved = profiles.resolve(facts);
    let settings = resolved.settings.iter();
    let settings = settings.map(|(option, value)| format!("{option} {value}"));
    let line = format!(
        "{}: {}",
        resolved.names.join(" + "),
        settings.collect::<Vec<_>>().join(", ")
    );
    (resolved.names.join(" "), line)
}

#[test]
fn later_profiles_override_earlier_ones() {
    let white = facts(QUEEN, Color::White, Some(1449));
    assert_eq!(
        resolve(&white).1,
        "number 1: NodeLimit 800, DrawScore -0.4, ScLimit 28"
    );
    let quick = OddsFacts {
        clock: Some(Duration::from_secs(179)),
        ..white
    };
    assert_eq!(
        resolve(&quick).1,
        "number 1 + quick: DrawScore -0.4, ScLimit 28, NodeLimit 100"
    );
    let slow = OddsFacts {
        clock: Some(Duration::from_secs(180)),
        ..white
    };
    assert_eq!(resolve(&slow).0, "number 1");
    let given_by_black = facts(
        "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        Color::Black,
        None,
    );
    assert!(resolve(&given_by_black).1.contains("DrawScore 0.4"));
}

#[test]
fn names_of_networks_hold_the_opponent_s_rating() {
    let value = |name: &str, rating: Option<u32>| {
        let text = format!("[[profile]]\nset = {{ OpponentWeights = \"{name}\" }}");
        let profiles = Profiles::parse(&text, "test").unwrap();
        let resolved = profiles.resolve(&facts(QUEEN, Color::White, rating));
        resolved.settings.first().map(|(_, value)| value.clone())
    };
    for (name, rating, expected) in [
        ("<built in human {rating}>", 2149, "<built in human 2100>"),
        ("<built in human {rating}>", 2850, "<built in human 2600>"),
        ("maia-{maia}.pb.gz", 2149, "maia-1900.pb.gz"),
        ("{rating}/maia-{maia}.pb.gz", 1050, "1100/maia-1100.pb.gz"),
    ] {
        assert_eq!(value(name, Some(rating)).as_deref(), Some(expected));
        assert_eq!(value(name, None), None);
    }
    let profile = "[[profile]]\nset = { NodeLimit = \"{rating}\" }";
    let error = Profiles::parse(profile, "test").unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn an_option_that_depends_on_an_unknown_rating_is_named_unless_another_profile_sets_it() {
    let resolve = |text: &str, rating: Option<u32>| {
        let profiles = Profiles::parse(text, "test").unwrap();
        profiles.resolve(&facts(QUEEN, Color::White, rating))
    };
    let unknown = "[[profile]]\nset = { OpponentWeights = \"maia-{maia}.pb.gz\", ScLimit = 28 }\n";
    let resolved = resolve(unknown, None);
    assert_eq!(resolved.without_rating, ["OpponentWeights"]);
    assert_eq!(resolved.settings, [("ScLimit", "28".to_owned())]);
    assert!(resolve(unknown, Some(1500)).without_rating.is_empty());
    let other = "[[profile]]\nset = { OpponentWeights = \"other.pb.gz\" }\n";
    for text in [format!("{unknown}{other}"), format!("{other}{unknown}")] {
        assert!(resolve(&text, None).without_rating.is_empty(), "{text}");
    }
}

#[test]
fn a_network_that_a_profile_names_has_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.toml");
    let start = |value: &str| {
        let text = format!("[[profile]]\nname = \"x\"\nset = {{ OpponentWeights = '{value}' }}");
        fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(["--profiles", file.to_str().unwrap()])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), error)
    };
    let (code, error) = start("no/such.pb.gz");
    assert_eq!(code, Some(1));
    let says = "profiles.toml, line 3, column 27: OpponentWeights: there is no file no/such.pb.gz";
    assert!(error.contains(says), "{error}");
    let (code, error) = start("<built in oods>");
    assert!(
        code == Some(1) && error.contains("line 3, column 27: OpponentWeights: "),
        "{error}"
    );
    let there = folder.path().join("there.pb.gz");
    fs::write(&there, "").unwrap();
    // Neither a network inside the program, nor a file that depends on the game, nor one that is there.
    for value in [
        "<built in>",
        "",
        "maia-{maia}.pb.gz",
        there.to_str().unwrap(),
    ] {
        let (code, error) = start(value);
        assert_eq!(code, Some(0), "{value}: {error}");
    }
    let said = Session::new().send_and_sync(&format!(
        "setoption name Profiles value {}",
        folder.path().join("none.toml").display()
    ));
    assert!(said.iter().any(|line| line.contains("error: profiles: ")));
}

#[test]
fn an_unknown_rating_and_a_clock_are_reported_once_with_the_first_search() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.toml");
    let text = "[[profile]]\nname = \"all\"\nset = { OpponentWeights = \"maia-{maia}.pb.gz\" }\n\
                [[profile]]\nname = \"bullet\"\nclock = \"..180\"\nset = { NodeLimit = 50 }\n";
    fs::write(&file, text).unwrap();
    let mut session = Session::with(&["-b", "hash", "--profiles", file.to_str().unwrap()]);
    let lines = session.send_and_sync("position startpos");
    assert!(profile_lines(&lines).is_empty(), "{lines:?}");
    let (_, lines) = session.go("go wtime 60000 btime 60000");
    assert_eq!(
        profile_lines(&lines),
        ["all + bullet: NodeLimit 50; unchanged: OpponentWeights (no rating known)"]
    );
    // A search without a clock is one, too.
    session.send("ucinewgame");
    let lines = session.send_and_sync("position startpos");
    assert!(profile_lines(&lines).is_empty(), "{lines:?}");
    let (_, lines) = session.go("go nodes 1");
    assert_eq!(
        profile_lines(&lines),
        ["all: unchanged: OpponentWeights (no rating known)"]
    );
    session.end();
}

#[test]
fn with_a_strength_limit_profiles_change_neither_network_nor_search() {
    let mut session = Session::with(&["-b", "hash", "--limit-strength", "--elo", "1500"]);
    let lines = session.send_and_sync(&format!("position fen {QUEEN}"));
    assert_eq!(
        profile_lines(&lines),
        [
            "odds given + large odds given: unchanged: OpeningVariety (UCI_LimitStrength), ScLimit \
             (UCI_LimitStrength), WeightsFile (UCI_LimitStrength)"
        ]
    );
    let lines = session.send_and_sync("setoption name UCI_LimitStrength value false");
    assert_eq!(profile_lines(&lines), [LARGE_ODDS]);
    session.end();
    // What changes the number of nodes is for the profile to say.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.toml");
    let text = "[[profile]]\nname = \"weak\"\nset = { UCI_Elo = 1300, NodeLimit = 3, CPuct = 2 }";
    fs::write(&file, text).unwrap();
    let profiles = ["--profiles", file.to_str().unwrap()];
    let mut session = Session::with(&[&["-b", "hash", "--limit-strength"], &profiles[..]].concat());
    let lines = session.send_and_sync("position startpos");
    let [line] = profile_lines(&lines)[..] else {
        panic!("{lines:?}");
    };
    assert!(
        line.contains("UCI_Elo 1300") && line.contains("NodeLimit 3"),
        "{line}"
    );
    assert!(
        line.ends_with("; unchanged: CPuct (UCI_LimitStrength)"),
        "{line}"
    );
    session.end();
}

#[test]
fn missing_material_in_a_middlegame_is_said_to_be_no_odds() {
    let mut session = Session::with(&["-b", "hash"]);
    session.send_and_sync(&format!("position fen {QUEEN}"));
    let middlegame = "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNB1KB1R w KQkq - 2 3";
    let lines = session.send_and_sync(&format!("position fen {middlegame}"));
    assert_eq!(
        profile_lines(&lines),
        [
            "none: the position is from the middle of a game, so the missing material is no odds; the options are \
             as they were set"
        ]
    );
    session.end();
    // Here the option ends a profile.
    let everywhere = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    fs::write(
        everywhere.path(),
        "[[profile]]\nname = \"everywhere\"\nset = { ScLimit = 30 }\n",
    )
    .unwrap();
    let mut session = Session::with(&[
        "-b",
        "hash",
        "--profiles",
        everywhere.path().to_str().unwrap(),
    ]);
    session.send_and_sync(&format!("position fen {middlegame}"));
    let lines = session.send_and_sync("setoption name UCI_AnalyseMode value true");
    assert_eq!(
        profile_lines(&lines),
        ["none: the options are as they were set"]
    );
    session.end();
}

#[test]
fn all_conditions_of_a_profile_have_to_hold() {
    let qn = "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1";
    let black = OddsFacts {
        advantage: 500.0,
        ..facts(qn, Color::Black, Some(1449))
    };
    let (names, text) = resolve(&black);
    // Given by Black, so a draw is good for White.
    assert!(text.contains("DrawScore 0.4"), "{text}");
    assert_eq!(names, "number 1 as Black");
    assert!(
        text.contains("OpponentWeights maia-1400.pb.gz, SwapColors true"),
        "{text}"
    );
    for other in [
        OddsFacts {
            rating: None,
            ..black
        },
        OddsFacts {
            rating: Some(1500),
            ..black
        },
        OddsFacts {
            opponent: None,
            ..black
        },
        OddsFacts {
            opponent: Some(OpponentKind::Computer),
            ..black
        },
        OddsFacts {
            advantage: 499.0,
            ..black
        },
    ] {
        assert_eq!(resolve(&other).0, "number 1");
    }
    let unknown = OddsFacts {
        side: Color::White,
        signature: None,
        ..black
    };
    assert_eq!(resolve(&unknown).0, "");
}

/// Texts with a mistake, and what is said about each. The last one is an error of the TOML parser.
const MISTAKES: &[(&str, &str)] = &[
    (
        "[[profile]]\nset = { ScLimitt = 3 }",
        "line 2, column 9: unknown option 'ScLimitt'",
    ),
    (
        "[[profile]]\nset = { ScLimit = 3.5 }",
        "line 2, column 19: option ScLimit: '3.5' is not an integer",
    ),
    (
        "[[profile]]\n\n  odds = \"QX\"",
        "line 3, column 10: 'QX' is not a material difference",
    ),
    (
        "[[profile]]\nodds = [\"Q\", \"\"]",
        "line 2, column 14: '' is not a material difference",
    ),
    (
        "[[profile]]\nrating = \"2000..1000\"",
        "line 2, column 10: '2000..1000' is not a range",
    ),
    (
        "[[profile]]\nrating = 1000",
        "line 2, column 10: expected a text",
    ),
    (
        "[[profile]]\ncolour = \"red\"",
        "line 2, column 10: 'red' is neither",
    ),
    (
        "[[profile]]\ncolour = \"White\"",
        "line 2, column 10: 'White' is written in lower case: white",
    ),
    (
        "[[profile]]\nset = { WeightsFile = \"maia-{raiting}.pb.gz\" }",
        "line 2, column 23: unknown placeholder {raiting}; {rating} and {maia}",
    ),
    (
        "[[profile]]\nset = { OpponentWeights = \"{maia}/{elo}\" }",
        "line 2, column 27: unknown placeholder {elo}",
    ),
    (
        "[[profile]]\nopponent = \"bot\"",
        "line 2, column 12: 'bot' is neither human nor computer",
    ),
    (
        "[[profile]]\nelo = \"1..\"",
        "line 2, column 1: unknown key 'elo'",
    ),
    (
        "[[profile]]\nnetwork = \"lc0\"",
        "line 2, column 11: 'lc0' is neither default nor own",
    ),
    (
        "[[profiles]]\n",
        "line 1, column 3: unknown entry 'profiles'",
    ),
    ("profile = 3", "line 1, column 1: a list of profiles"),
    (
        "[[profile]]\nset = { Profiles = \"off\" }",
        "line 2, column 9: Profiles cannot be set",
    ),
    (
        "[[profile]]\nset = { ScLimit = 28, sclimit = 60 }",
        "line 2, column 23: ScLimit is set twice",
    ),
    (
        "[[profile]]\nset = { OwnDrawScore = 0.1, DrawScore = 0 }",
        "line 2, column 29: DrawScore is set twice",
    ),
    (
        "[[profile]]\nset = { OwnDrawScore = 2 }",
        "line 2, column 24: option DrawScore",
    ),
    ("[[profile]]\nname = \"x", "line 2, column 10"),
];

#[test]
fn errors_are_reported_with_line_and_column() {
    for (text, expected) in MISTAKES {
        let error = Profiles::parse(text, "x.toml").unwrap_err().to_string();
        assert!(
            error.contains("x.toml") && error.contains(expected),
            "{error}\n{expected}"
        );
    }
    assert!(Profiles::parse("", "x.toml").is_ok());
}

/// What is set against an unknown opponent who gets a queen.
const LARGE_ODDS: &str =
    "odds given + large odds given: OpeningVariety 8, ScLimit 28, WeightsFile <built in odds>";

fn profile_lines(lines: &[String]) -> Vec<&str> {
    let reported = lines
        .iter()
        .filter_map(|line| line.strip_prefix("info string profile "));
    reported.collect()
}

#[test]
fn an_odds_game_is_recognised_and_the_next_game_is_not() {
    let mut session = Session::new();
    assert!(profile_lines(&session.send_and_sync("position startpos moves e2e4")).is_empty());
    let lines = session.send_and_sync(&format!("position fen {QUEEN}"));
    assert_eq!(profile_lines(&lines), [LARGE_ODDS]);
    // Reported once.
    let lines = session.send_and_sync(&format!("position fen {QUEEN} moves e2e4 e7e5"));
    assert!(profile_lines(&lines).is_empty());
    // The limit is in force.
    session.send("setoption name ShowObjective value true");
    let (_, lines) = session.go("go nodes 2000");
    assert!(
        lines.iter().any(|line| line.contains(" gain ")),
        "{lines:?}"
    );
    // Infinite searches are analyses.
    session.send("go infinite");
    session.send("stop");
    let lines = session.until("bestmove");
    assert_eq!(
        profile_lines(&lines),
        ["none: an infinite analysis uses the options as they were set"]
    );
    assert!(
        !lines.iter().any(|line| line.contains("models")),
        "{lines:?}"
    );
    session.send("setoption name UCI_Opponent value none 1000 human Somebody");
    let lines = session.send_and_sync(&format!("position fen {QUEEN}"));
    assert_eq!(
        profile_lines(&lines),
        [
            "odds given + known opponent + large odds given: OpponentWeights <built in human 1100>, OpeningVariety 8, \
             ScLimit 28, WeightsFile <built in odds>"
        ]
    );
    // A program of that rating does not play like a person.
    session.send("setoption name UCI_Opponent value none 1000 computer Something");
    let lines = session.send_and_sync(&format!("position fen {QUEEN}"));
    assert_eq!(profile_lines(&lines), [LARGE_ODDS]);
    let lines = session.send_and_sync("position startpos");
    assert_eq!(profile_lines(&lines), ["even game: sets nothing"]);
    session.send_and_sync(&format!("position fen {QUEEN}"));
    let lines = session.send_and_sync(&format!("position fen {QUEEN_TAKEN}"));
    assert_eq!(profile_lines(&lines), ["odds taken: sets nothing"]);
    session.send("setoption name UCI_AnalyseMode value true");
    assert!(profile_lines(&session.send_and_sync(&format!("position fen {QUEEN}"))).is_empty());
    session.end();
}

/// The material advantage of the side not to move in `fen`, in pawns, counted from the text.
fn ahead(fen: &str) -> i32 {
    let worth = |piece: char| match piece.to_ascii_lowercase() {
        'q' => 9,
        'r' => 5,
        'b' | 'n' => 3,
        'p' => 1,
        _ => 0,
    };
    let board = fen.split(' ').next().unwrap();
    let pieces = board.chars().filter(|piece| piece.is_alphabetic());
    let black: i32 = pieces
        .map(|piece| {
            if piece.is_lowercase() {
                worth(piece)
            } else {
                -worth(piece)
            }
        })
        .sum();
    match fen.split(' ').nth(1) {
        Some("w") => black,
        _ => -black,
    }
}

/// The settings of the built-in profiles for a side with this deficit in pawns against a person of a rating, in a game
/// from this position.
fn expected(fen: &str, deficit: i32, rating: u32) -> Option<String> {
    if fen == START_FEN {
        return Some("even game + person: OpeningVariety 2".to_owned());
    }
    if deficit < 2 {
        return None;
    }
    let are_large = deficit >= 8;
    let person = match rating {
        800 => 1100,
        1500 => 1500,
        _ if are_large => return Some(LARGE_ODDS.to_owned()),
        _ => return Some("odds given: OpeningVariety 2, ScLimit 200".to_owned()),
    };
    let model = format!("OpponentWeights <built in human {person}>");
    let (large, varied) = if are_large {
        (" + large odds given", format!("{model}, OpeningVariety 8"))
    } else {
        ("", format!("OpeningVariety 3.5, {model}"))
    };
    Some(format!(
        "odds given + known opponent{large}: {varied}, ScLimit 28, WeightsFile <built in odds>"
    ))
}

#[test]
fn one_session_plays_all_published_odds_with_both_colours() {
    let Some(list) = fenlist() else { return };
    let mut session = Session::with(&["--threads", "1"]);
    let fens = list
        .iter()
        .map(|entry| format!("{} - 0 1", entry["fen"].as_str().unwrap()));
    let (mut given, mut was_set) = (0, false);
    for fen in fens.chain([START_FEN.to_owned()]) {
        let start = History::new(position_from_fen(&fen).unwrap());
        for side in Color::ALL {
            let mut game = start.clone();
            let moves = match side {
                Color::White => String::new(),
                Color::Black => {
                    let first = legal_moves(game.position()).next().unwrap();
                    game.push(first);
                    format!(" moves {}", crate::common::uci(&start, first))
                }
            };
            for rating in [800, 1500, 2800] {
                let place = format!("{fen}{moves} against {rating}");
                session.send("ucinewgame");
                session.send(&format!(
                    "setoption name UCI_Opponent value none {rating} human Somebody"
                ));
                let advantage = 2200 - rating as i32;
                let before = session
                    .send_and_sync(&format!("setoption name UCI_RatingAdv value {advantage}"));
                assert!(before.is_empty(), "{place}: {before:?}");
                let lines = session.send_and_sync(&format!("position fen {fen}{moves}"));
                let deficit = ahead(&fen) * side.fold_wb(1, -1);
                let expected = expected(&fen, deficit, rating);
                // That the settings of the last game are removed is reported.
                let removed = was_set.then(|| "odds taken: sets nothing".to_owned());
                was_set = expected.is_some();
                assert_eq!(
                    profile_lines(&lines),
                    expected.clone().or(removed).iter().collect::<Vec<_>>(),
                    "{place}"
                );
                let (best, lines) = session.go("go nodes 1");
                let best: UciMove = best.parse().unwrap();
                assert!(best.to_move(game.position()).is_ok(), "{place}: {lines:?}");
                let is_wrong = |line: &String| line.contains("error");
                assert!(!lines.iter().any(is_wrong), "{place}: {lines:?}");
                given += usize::from(expected.is_some());
            }
        }
    }
    // Each odds position is given by one of the two sides; in the normal one a person meets varied openings.
    assert_eq!(given, 3 * 46 + 2 * 3);
    session.end();
}

#[test]
fn user_settings_stay() {
    let mut session = Session::with(&["-b", "hash", "--sc-limit", "60"]);
    session.send("setoption name UCI_Opponent value none 1500 human Somebody");
    let lines = session.send_and_sync(&format!("position fen {QUEEN}"));
    assert_eq!(
        profile_lines(&lines),
        [
            "odds given + known opponent + large odds given: OpponentWeights <built in human 1500>, OpeningVariety 8, \
             WeightsFile <built in odds>; unchanged: ScLimit (set by user)"
        ]
    );
    session.send_and_sync("setoption name ScLimit value 1000000000");
    session.send_and_sync("ucinewgame");
    session.send("setoption name ShowObjective value true");
    session.send_and_sync(&format!("position fen {QUEEN}"));
    let (_, lines) = session.go("go nodes 2000");
    // Plain PUCT has one value.
    assert!(
        !lines.iter().any(|line| line.contains(" gain ")),
        "{lines:?}"
    );
    session.end();
    // The opponent set by the user takes precedence over the rating.
    let mut session = Session::with(&["-b", "hash", "--opponent-rating", "1900"]);
    session.send("setoption name UCI_Opponent value none 1500 human Somebody");
    let lines = session.send_and_sync(&format!("position fen {QUEEN}"));
    assert_eq!(
        profile_lines(&lines),
        [
            "odds given + known opponent + large odds given: OpeningVariety 8, ScLimit 28, WeightsFile <built in \
             odds>; unchanged: OpponentWeights (OpponentRating set by user)"
        ]
    );
    session.end();
    let mut session = Session::with(&["-b", "hash", "--profiles", "off"]);
    assert!(profile_lines(&session.send_and_sync(&format!("position fen {QUEEN}"))).is_empty());
    session.end();
}

/// A person who gets a pawn comes back as one who gets nothing does.
#[test]
fn openings_vary_against_a_person_at_less_than_two_pawns_too() {
    let settings = |fen: &str, side: Color, opponent: Option<OpponentKind>| {
        let facts = OddsFacts {
            opponent,
            ..facts(fen, side, Some(1500))
        };
        let resolved = built_in().resolve(&facts);
        resolved.settings
    };
    let varied = [("OpeningVariety", "2".to_owned())];
    let pawn = "rnbqkbnr/pppppppp/8/8/8/8/PPPPP1PP/RNBQKBNR w KQkq - 0 1";
    let exchanged = "rnbqkb1r/pppppppp/8/8/8/8/PPPPPPPP/RNBQK1NR w KQkq - 0 1";
    let (human, computer) = (Some(OpponentKind::Human), Some(OpponentKind::Computer));
    for fen in [START_FEN, pawn, exchanged] {
        assert_eq!(settings(fen, Color::White, human), varied, "{fen}");
        for opponent in [computer, None] {
            assert!(settings(fen, Color::White, opponent).is_empty(), "{fen}");
        }
    }
    // Who gets the pawn wins without that.
    assert!(settings(pawn, Color::Black, human).is_empty());
}

#[test]
fn a_network_of_the_user_gets_its_own_limit() {
    let mut session = Session::with(&["-b", "hash", "--weights", "<built in>"]);
    let queen = format!("position fen {QUEEN}");
    // Nothing is known of the opponent: the limit for the odds network would cost much with another one.
    assert_eq!(
        profile_lines(&session.send_and_sync(&queen)),
        ["odds given: OpeningVariety 2, ScLimit 200"]
    );
    session.send("ucinewgame");
    session.send_and_sync("setoption name UCI_Opponent value none 1500 human Somebody");
    assert_eq!(
        profile_lines(&session.send_and_sync(&queen)),
        [
            "odds given + known opponent: OpeningVariety 3.5, OpponentWeights <built in human 1500>, ScLimit 28; \
             unchanged: WeightsFile (set by user)"
        ]
    );
    session.end();
}

/// As a user without a GUI's UCI_Opponent does it, and one who calls a game new after setting its position.
#[test]
fn a_rating_that_the_user_sets_is_that_of_a_person() {
    let mut session = Session::new();
    session.send("setoption name OpponentRating value 1500");
    let lines = session.send_and_sync(&format!("position fen {QUEEN}"));
    let expected = "odds given + known opponent + large odds given: OpeningVariety 8, ScLimit 28, WeightsFile <built \
                    in odds>; unchanged: OpponentWeights (OpponentRating set by user)";
    assert_eq!(profile_lines(&lines), [expected]);
    // A GUI knows better.
    let lines =
        session.send_and_sync("setoption name UCI_Opponent value none 2500 computer Something");
    assert_eq!(profile_lines(&lines), [LARGE_ODDS]);
    let lines = session.send_and_sync("setoption name UCI_Opponent value Mary");
    let says = "UCI_Opponent 'Mary' is not of the form 'TITLE RATING TYPE NAME'";
    assert!(lines.iter().any(|line| line.contains(says)), "{lines:?}");
    assert_eq!(profile_lines(&lines), [expected]);
    session.end();
}

#[test]
fn a_game_called_new_after_its_position_was_set_keeps_its_profile() {
    let mut session = Session::new();
    session.send_and_sync(&format!("position fen {QUEEN}"));
    // Nothing is known about the new game yet.
    let lines = session.send_and_sync("ucinewgame");
    assert!(profile_lines(&lines).is_empty(), "{lines:?}");
    let (_, lines) = session.go("go nodes 1");
    assert_eq!(profile_lines(&lines), [LARGE_ODDS]);
    session.send_and_sync("ucinewgame");
    let lines = session.send_and_sync("position startpos");
    assert_eq!(profile_lines(&lines), ["even game: sets nothing"]);
    session.send_and_sync(&format!("position fen {QUEEN}"));
    let lines = session.send_and_sync("setoption name Profiles value off");
    assert_eq!(
        profile_lines(&lines),
        ["none: the options are as they were set"]
    );
    session.end();
}

#[test]
fn the_first_clock_applies_to_the_game() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles.toml");
    let text = "[[profile]]\nname = \"bullet\"\nclock = \"..180\"\nset = { NodeLimit = 50 }";
    fs::write(&file, text).unwrap();
    let mut session = Session::with(&["-b", "hash", "--profiles", file.to_str().unwrap()]);
    session.send("position startpos");
    let (_, lines) = session.go("go wtime 300000 btime 300000");
    assert!(profile_lines(&lines).is_empty());
    // Still the same game, whatever the clock is.
    session.send("position startpos moves e2e4 e7e5");
    let (_, lines) = session.go("go wtime 60000 btime 60000");
    assert!(profile_lines(&lines).is_empty());
    session.send("setoption name Clear Hash");
    let (_, lines) = session.go("go wtime 60000 btime 60000");
    assert!(profile_lines(&lines).is_empty());
    session.send("ucinewgame");
    session.send("position startpos");
    let (_, lines) = session.go("go wtime 60000 btime 60000 winc 1000 binc 1000");
    assert_eq!(profile_lines(&lines), ["bullet: NodeLimit 50"]);
    // An invalid file changes nothing.
    fs::write(&file, "[[profile]]\nset = { What = 1 }").unwrap();
    let other = folder.path().join("other.toml");
    fs::write(&other, "[[profile]]\nset = { What = 1 }").unwrap();
    let lines = session.send_and_sync(&format!(
        "setoption name Profiles value {}",
        other.display()
    ));
    assert!(
        lines
            .iter()
            .any(|l| l.contains("line 2, column 9: unknown option 'What'"))
    );
    session.end();
    let refused = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["--profiles", other.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("other.toml, line 2, column 9"), "{error}");
}
