//! Random lines and damaged files against everything that reads text: nothing may panic or hang. The seeds are fixed, so
//! a failure repeats.

use std::{
    io::{Cursor, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use scorn::{
    chess::setup,
    network::hash::HashEvaluator,
    options::Options,
    uci::{self, command, output::Output},
};

type Rng = Xoshiro256PlusPlus;

const WORDS: &[&str] = &[
    "uci",
    "isready",
    "ucinewgame",
    "setoption",
    "name",
    "value",
    "position",
    "startpos",
    "fen",
    "moves",
    "go",
    "wtime",
    "btime",
    "winc",
    "binc",
    "movestogo",
    "depth",
    "nodes",
    "mate",
    "movetime",
    "infinite",
    "searchmoves",
    "ponder",
    "ponderhit",
    "stop",
    "wait",
    "d",
    "debug",
    "on",
    "register",
    "later",
    "perft",
    "e2e4",
    "e7e5",
    "g1f3",
    "e1g1",
    "e1h1",
    "a7a8q",
    "a7a8k",
    "0000",
    "0",
    "1",
    "2",
    "7",
    "-1",
    "100",
    "99999999999999999999",
    "1e9",
    "nan",
    "inf",
    "true",
    "false",
    "Hash",
    "Threads",
    "MultiPV",
    "CPuct",
    "ScLimit",
    "ScSampling",
    "thompson",
    "Move",
    "Overhead",
    "UCI_Chess960",
    "VerboseMoveStats",
    "<empty>",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR",
    "w",
    "b",
    "KQkq",
    "HAha",
    "-",
    "e3",
    "4k3/8/8/8/8/8/8/4K2R",
    "R5k1/5ppp/8/8/8/8/8/6K1",
    "quit!",
    "ß",
    "\u{0}",
    "\u{202e}",
];

const FENS: &[&str] = &[
    setup::START_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 99 150",
    "8/8/4k3/8/8/4K3/8/7N w - - 120 90",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.random_range(0..from.len())]
}

fn random_line(rng: &mut Rng) -> String {
    let start = pick(
        rng,
        &[
            "position startpos moves",
            "position fen",
            "go",
            "setoption name",
            "",
            "",
        ],
    );
    let mut line = start.to_owned();
    for _ in 0..rng.random_range(0..8) {
        line.push(' ');
        line += pick(rng, WORDS);
    }
    line
}

/// Changes, inserts, removes or doubles a few bytes.
fn damage(rng: &mut Rng, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=bytes.len());
        let letters = b"pnbrqkPNBRQK12345678/wb-KQkqHA eh36x.{}()[]\"0\xff\n";
        let byte = letters[rng.random_range(0..letters.len())];
        match rng.random_range(0..4) {
            0 => bytes.insert(at, byte),
            1 if at < bytes.len() => bytes[at] = byte,
            2 if at < bytes.len() => {
                bytes.remove(at);
            }
            _ => {
                let end = (at + rng.random_range(0..12)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.extend(piece);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Searches that cannot end soon are made short; `quit` would end the test early.
fn tame(line: &str) -> String {
    let words: Vec<&str> = line
        .split_whitespace()
        .filter(|w| !["quit", "exit"].contains(w))
        .collect();
    let line = words.join(" ");
    if line.starts_with("setoption") && (line.contains("Threads") || line.contains("MultiPV")) {
        return "setoption name Threads value 1".into();
    }
    match line.starts_with("go") {
        true if line.contains("perft") => "go perft 2".into(),
        true => format!("{line} nodes 3 movetime 1"),
        false => line,
    }
}

#[test]
fn a_hundred_thousand_lines_are_parsed() {
    let mut rng = Rng::seed_from_u64(1);
    for round in 0..100_000 {
        let mut line = random_line(&mut rng);
        if round % 2 == 0 {
            line = damage(&mut rng, &line);
        }
        if let Ok(command::Command::Position { fen, moves }) = command::parse(&line) {
            let _ = setup::history_from(fen.as_deref(), &moves);
        }
    }
}

#[test]
fn ten_thousand_damaged_positions_are_read_or_refused() {
    let mut rng = Rng::seed_from_u64(2);
    let mut read = 0;
    for _ in 0..10_000 {
        let fen = pick(&mut rng, FENS);
        let text = damage(&mut rng, fen);
        if let Ok(history) = setup::history_from(Some(&text), &[]) {
            read += 1;
            let moves: Vec<_> = scorn::chess::moves::legal_moves(history.position()).collect();
            for m in moves {
                let mut next = history.clone();
                next.push(m);
                let text = setup::move_text(history.position(), m, rng.random());
                assert_eq!(setup::parse_move(history.position(), &text).unwrap(), m);
            }
        }
    }
    assert!(read > 100, "{read}");
}

#[test]
fn ten_thousand_damaged_games_are_read_or_refused() {
    let mut rng = Rng::seed_from_u64(3);
    let pgn = "[Event \"x\"]\n[FEN \"4k3/8/8/8/8/8/8/4K2R w K - 0 30\"]\n\n30. O-O {c} Kd7 (30... Ke7 $1) 31. Rd1+ 1-0\n\n\
               [White \"a\"]\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O *\n\n";
    let epd = "4k3/8/8/8/8/8/8/4K2R w K - bm O-O Kd2; id \"castle; or not\";\n";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for round in 0..10_000 {
        let text = damage(&mut rng, if round % 2 == 0 { pgn } else { epd });
        file.as_file_mut().set_len(0).unwrap();
        std::io::Seek::rewind(file.as_file_mut()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        // What is not understood is an error of the stream, which goes on or ends.
        let items = match round % 2 {
            0 => scorn::commands::analyze::from_pgn(file.path()),
            _ => scorn::commands::analyze::from_epd(file.path()),
        };
        assert!(items.map_or(0, Iterator::count) < 1000);
    }
}

/// A place to write to that can be read afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_engine_survives_random_commands() {
    let mut rng = Rng::seed_from_u64(4);
    let mut input = String::new();
    let mut searches = 0;
    for round in 0..20_000 {
        let mut line = random_line(&mut rng);
        if round % 3 == 0 {
            line = damage(&mut rng, &line).replace('\n', " ");
        }
        // Searches take longer than everything else; a part of them is enough.
        if line.starts_with("go") && round % 10 != 0 {
            continue;
        }
        let line = tame(&line);
        if line.contains("LogFile") {
            continue;
        }
        searches += usize::from(matches!(
            command::parse(&line),
            Ok(command::Command::Go(go)) if go.perft.is_none()
        ));
        input += &line;
        input.push('\n');
    }
    // Pondering searches have no end of their own.
    let input = input.replace("ponder ", "").replace("infinite ", "");
    let written = Shared::default();
    let output = Output::new(Box::new(written.clone()));
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let load = Arc::new(|_: &Options, _| -> anyhow::Result<_> {
        Ok(Arc::new(HashEvaluator) as Arc<dyn scorn::network::Evaluator>)
    });
    uci::run(Cursor::new(input), &output, options, load);
    let text = String::from_utf8(written.0.lock().clone()).unwrap();
    let answers = text.lines().filter(|l| l.starts_with("bestmove ")).count();
    assert!(!text.contains("crashed"));
    assert!(answers > 20);
    assert_eq!(answers, searches);
}
