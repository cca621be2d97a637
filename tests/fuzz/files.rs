//! Damaged files of every supported kind, given to the real program with limited memory: it may only refuse them with
//! one of its own exit codes.

use std::{
    fs,
    io::Write,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output},
};

use rand::{RngExt, SeedableRng};

use crate::{
    hostile::{Rng, amount, damage_bytes, program, seed},
    shared::shared,
    synth::{self, Spec},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Address space, in KiB: the need of the largest undamaged file, plus a half.
const MEMORY_KIB: u32 = 1 << 20;
/// More processor seconds than needed.
const SECONDS: u32 = 60;

/// Runs the program with limited memory.
fn scorn(arguments: &[&str], path: &Path, rest: &[&str]) -> Output {
    let limited = format!("ulimit -v {MEMORY_KIB} && ulimit -t {SECONDS} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(program());
    command
        .args(arguments)
        .arg(path)
        .args(rest)
        .output()
        .unwrap()
}

/// Files of one kind.
struct Kind {
    name: &'static str,
    undamaged: Vec<u8>,
    /// Arguments before and after the file's name, for each use of a file.
    uses: Vec<(Vec<&'static str>, Vec<&'static str>)>,
}

const HASH: [&str; 6] = ["-b", "hash", "-t", "1", "analyze", "--nodes"];

fn kind(
    name: &'static str,
    undamaged: Vec<u8>,
    uses: &[(&[&'static str], &[&'static str])],
) -> Kind {
    let uses = uses
        .iter()
        .map(|(before, after)| (before.to_vec(), after.to_vec()));
    Kind {
        name,
        undamaged,
        uses: uses.collect(),
    }
}

/// A file of the test data.
fn read(name: &str) -> Vec<u8> {
    fs::read(Path::new(ROOT).join(name)).unwrap()
}

/// Networks: described, and used in a search.
fn networks() -> Vec<Kind> {
    let run = [
        "-t", "1", "-b", "rten", "analyze", "--nodes", "2", "--fen", "startpos", "-w",
    ];
    let uses: &[(&[&str], &[&str])] = &[(&["describe"], &[]), (&run, &[])];
    vec![
        kind("x.pb", synth::file(&Spec::smallest()), uses),
        kind("x.onnx", read("tests/data/networks/tiny.onnx"), uses),
    ]
}

/// One game, plain and compressed.
fn games() -> Vec<Kind> {
    let all = read("tests/data/training-smoke.pgn");
    let end = all
        .windows(8)
        .skip(100)
        .position(|part| part == b"\n[Event ");
    let pgn = all[..end.map_or(all.len(), |end| end + 100)].to_vec();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&pgn).unwrap();
    let zst =
        ruzstd::encoding::compress_to_vec(&pgn[..], ruzstd::encoding::CompressionLevel::Fastest);
    let uses: &[(&[&str], &[&str])] = &[
        (
            &["-b", "hash", "-t", "1", "analyze", "--nodes", "1", "--pgn"],
            &[],
        ),
        (&["dataset", "pgn", "--force", "-o", "OUT"], &[]),
        (&["stats"], &[]),
    ];
    vec![
        kind("x.pgn", pgn, uses),
        kind("x.pgn.gz", gz.finish().unwrap(), uses),
        kind("x.pgn.zst", zst, uses),
    ]
}

/// Files that the program has written: records, and an analysis to resume.
fn own_files(folder: &Path) -> Vec<Kind> {
    let resumed = folder.join("resumed.jsonl");
    let position = ["1", "--fen", "8/8/8/8/8/4k3/4p3/4K3 b - - 0 1", "--output"];
    let made = scorn(&[&HASH[..], &position].concat(), &resumed, &[]);
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let records = folder.join("games.rec");
    let smoke = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/training-smoke.pgn");
    let made = scorn(
        &["dataset", "pgn", smoke, "--limit", "1", "-o"],
        &records,
        &[],
    );
    assert!(made.status.success());
    let resume: &[&str] = &[
        "-b",
        "hash",
        "-t",
        "1",
        "analyze",
        "--nodes",
        "1",
        "--fen",
        "8/8/8/8/8/4k3/4p3/4K3 b - - 0 1",
        "--output",
    ];
    vec![
        kind(
            "x.rec",
            fs::read(&records).unwrap(),
            &[
                (&["dataset", "stats"], &[]),
                (
                    &["dataset", "sample", "--force", "--count", "3", "-o", "OUT"],
                    &[],
                ),
            ],
        ),
        kind("x.jsonl", fs::read(&resumed).unwrap(), &[(resume, &[])]),
    ]
}

fn kinds(folder: &Path) -> Vec<Kind> {
    let epd = b"6k1/5ppp/8/8/8/8/8/R5K1 w - - bm Ra8#; id \"mate\";\n\
        4k3/8/8/8/8/8/8/4K2R w K - 3 40 am Kd1+!; id \"quiet\";\n";
    let analysis: &[&str] = &["-b", "hash", "-t", "1", "analyze", "--nodes", "1", "--epd"];
    let config =
        b"# mine\n--cpuct=2.5\nMultiPV=3\nno-two-fold-draws\n--sc-limit=20\n--draw-score=-0.5\n";
    let configured: &[&str] = &[
        "-b", "hash", "-t", "1", "analyze", "--fen", "startpos", "--nodes", "5", "-c",
    ];
    let mut kinds = networks();
    kinds.extend(games());
    kinds.extend(own_files(folder));
    kinds.extend([
        kind("x.epd", epd.to_vec(), &[(analysis, &[])]),
        kind("x.config", config.to_vec(), &[(configured, &[])]),
    ]);
    kinds
}

fn check(name: &str, output: &Output, damaged: &[u8]) {
    let said = String::from_utf8_lossy(&output.stderr);
    let ended_well = matches!(output.status.code(), Some(0 | 1)) && !said.contains("panicked");
    if !ended_well {
        let kept = std::env::temp_dir().join(format!("scorn-fuzz-{}-{name}", std::process::id()));
        fs::write(&kept, damaged).unwrap();
        panic!(
            "{}: code {:?}, signal {:?}: {said}",
            kept.display(),
            output.status.code(),
            output.status.signal()
        );
    }
}

#[test]
fn damaged_files_are_read_or_refused_in_little_memory() {
    let total = amount("SCORN_FUZZ_FILES", 54);
    let mut rng = Rng::seed_from_u64(seed());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let kinds = kinds(folder.path());
    let run = |kind: &Kind, which: usize, path: &Path| {
        let (before, after) = &kind.uses[which];
        let out = out.to_str().unwrap();
        let put = |word: &&'static str| {
            if *word == "OUT" {
                out.to_owned()
            } else {
                (*word).to_owned()
            }
        };
        let before: Vec<String> = before.iter().map(put).collect();
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        scorn(&before, path, after)
    };
    let mut refused = 0;
    for kind in &kinds {
        let path = folder.path().join(kind.name);
        for which in 0..kind.uses.len() {
            fs::write(&path, &kind.undamaged).unwrap();
            let output = run(kind, which, &path);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} {which}: {said}", kind.name);
        }
    }
    for round in 0..total {
        let kind = &kinds[round % kinds.len()];
        let mut bytes = kind.undamaged.clone();
        damage_bytes(&mut rng, &mut bytes);
        let path = folder.path().join(kind.name);
        fs::write(&path, &bytes).unwrap();
        let output = run(kind, rng.random_range(0..kind.uses.len()), &path);
        check(kind.name, &output, &bytes);
        refused += usize::from(!output.status.success());
    }
    assert!(refused > total / 10, "{refused} of {total} were refused");
    println!("{total} damaged files, {refused} refused");
}

#[test]
fn damaged_tablebases_are_read_or_refused() {
    let Some(table) = shared("syzygy/KQvK.rtbw") else {
        return;
    };
    let total = amount("SCORN_FUZZ_FILES", 54).div_ceil(9);
    let mut rng = Rng::seed_from_u64(seed() + 1);
    let folder = tempfile::tempdir().unwrap();
    let undamaged = fs::read(&table).unwrap();
    for _ in 0..total {
        let mut bytes = undamaged.clone();
        damage_bytes(&mut rng, &mut bytes);
        fs::write(folder.path().join("KQvK.rtbw"), &bytes).unwrap();
        let queen = "8/8/8/8/8/2k5/8/KQ6 w - - 0 1";
        let before = [&HASH[..], &["20", "--fen", queen, "--syzygy-paths"]].concat();
        check("KQvK.rtbw", &scorn(&before, folder.path(), &[]), &bytes);
    }
    println!("{total} damaged tablebases");
}
