//! Valid inputs of every target, from which fuzzing begins. They are small, so that each change matters.

use std::{fs, path::Path};

use scorn::{
    dataset::{
        record::{Record, Source},
        record_file::{Layout, RecordWriter},
    },
    sparse::{features::InputSet, network::Shape},
    train::{
        adam::Moments,
        checkpoint::{Checkpoint, TrainingProgress},
    },
};
use shakmaty::Chess;

use crate::synth::{self, Spec};

/// Valid inputs of a target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "onnx" => vec![
            read("tests/data/networks/tiny.onnx"),
            read("tests/data/networks/narrow.onnx"),
        ],
        "lc0" => vec![synth::file(&Spec::smallest())],
        "pgn" => games(),
        "profiles" => vec![read("src/odds/profiles.toml")],
        "config" => vec![
            b"# mine\n--cpuct=2.5\nMultiPV=3\nno-two-fold-draws\n--sc-limit=20\nDrawScore = -0.5\n".to_vec(),
        ],
        "uci" => vec![
            b"position startpos moves e2e4 e7e5 g1f3\ngo wtime 1000 btime 1000 winc 5 binc 5 movestogo 3\n".to_vec(),
            b"position fen r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 0 2 moves e5d6 e8c8\nsetoption name CPuct value 2\n"
                .to_vec(),
            b"go searchmoves e2e4 nodes 10 mate 3\nponderhit\nstop\nisready\nucinewgame\n".to_vec(),
        ],
        "records" => vec![records(Layout::Plain), records(Layout::Ranked)],
        "checkpoint" => vec![start_of_checkpoint()],
        _ => Vec::new(),
    }
}

fn read(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn games() -> Vec<Vec<u8>> {
    let all = read("tests/data/training-smoke.pgn");
    let length = all.len().min(3000);
    let odd = "[Event \"x\"]\n[FEN \"4k3/8/8/8/8/8/8/4K2R w K - 0 30\"]\n\n30. O-O {c} Kd7 (30... Ke7 $1) 31. Rd1+ 1-0\n\n\
               [White \"a\"]\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 {[Not \"a tag\"]} 4. Ba4 Nf6 5. O-O *\n\n";
    vec![all[..length].to_vec(), odd.as_bytes().to_vec()]
}

fn records(layout: Layout) -> Vec<u8> {
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("x.rec");
    let mut writer = RecordWriter::create(&path, layout).unwrap();
    for _ in 0..3 {
        let record = Record::new(&Chess::new(), false, Source::Real);
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
    fs::read(path).unwrap()
}

/// A whole one has ten megabytes.
fn start_of_checkpoint() -> Vec<u8> {
    let shape = Shape {
        policy: 64,
        value: 64,
        hidden: 4,
        stages: 1,
        inputs: InputSet::default(),
    };
    let checkpoint = Checkpoint {
        shape,
        progress: TrainingProgress::default(),
        state: Moments::new(shape.start(1)),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    checkpoint.save(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(1000);
    bytes
}
