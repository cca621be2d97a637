//! Random lines and damaged files for every parser of the library: nothing may panic or hang.

use std::{
    io::{Cursor, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use scorn::{
    chess::setup,
    network::hash::HashEvaluator,
    options::{Options, layers::Layers},
    uci::{self, command, output::Output},
};

use crate::hostile::{FENS, Rng, damage, pick, random_line, tame};

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
            0 => scorn::analysis::input::from_pgn(&[file.path()]),
            _ => scorn::analysis::input::from_epd(&[file.path()]),
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
    let mut layers = Layers::default();
    layers.user.set("Threads", "1").unwrap();
    let load = Arc::new(|_: &Options, _| -> anyhow::Result<_> {
        Ok(Arc::new(HashEvaluator) as Arc<dyn scorn::network::Evaluator>)
    });
    uci::run(Cursor::new(input), &output, layers, load).unwrap();
    let text = String::from_utf8(written.0.lock().clone()).unwrap();
    let answers = text.lines().filter(|l| l.starts_with("bestmove ")).count();
    assert!(!text.contains("crashed"));
    assert!(answers > 20);
    assert_eq!(answers, searches);
}
