//! Input that no GUI sends and no file should contain. The seeds are fixed, so failures are reproducible.

use rand::{RngExt, rngs::Xoshiro256PlusPlus};
use scorn::chess::setup;

pub type Rng = Xoshiro256PlusPlus;

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

pub const FENS: &[&str] = &[
    setup::START_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 99 150",
    "8/8/4k3/8/8/4K3/8/7N w - - 120 90",
];

pub fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.random_range(0..from.len())]
}

pub fn random_line(rng: &mut Rng) -> String {
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
pub fn damage(rng: &mut Rng, text: &str) -> String {
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

/// Shortens searches that cannot end soon; `quit` would end the test early.
pub fn tame(line: &str) -> String {
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

/// Changes, inserts, removes or doubles a few bytes of a file, or cuts it off; numbers become extreme ones.
pub fn damage_bytes(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..8) {
            0 => bytes.insert(at, rng.random()),
            1 | 2 if at < bytes.len() => bytes[at] = rng.random(),
            3 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            4 if at < bytes.len() => {
                let end = (at + rng.random_range(1..9)).min(bytes.len());
                bytes.drain(at..end);
            }
            5 if at < bytes.len() => {
                let end = (at + rng.random_range(1..9)).min(bytes.len());
                let extreme = [0, 0x7f, 0x80, 0xff][rng.random_range(0..4)];
                bytes[at..end].fill(extreme);
            }
            6 if rng.random_range(0..4) == 0 => bytes.truncate(at),
            _ => {
                let end = (at + rng.random_range(0..200)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = rng.random_range(0..=bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
}

/// The number of repetitions: from the environment variable, or `few`.
pub fn amount(variable: &str, few: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => few,
    }
}

/// The tested program: `SCORN_FUZZ_PROGRAM` names another build.
pub fn program() -> std::path::PathBuf {
    let named = std::env::var_os("SCORN_FUZZ_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_scorn").into(), Into::into)
}

/// The seed; each long run should use another one.
pub fn seed() -> u64 {
    amount("SCORN_FUZZ_SEED", 1) as u64
}
