//! Unsuitable files, given to the real program: devices, pipes, other programs' files, endless texts. Where memory
//! matters, the program runs with a memory limit.
#![cfg(unix)]

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const GAMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/training-smoke.pgn");
const EPD: &str = "6k1/5ppp/8/8/8/8/8/R5K1 w - - bm Ra8#; id \"mate\";\n\
                   4k3/8/8/8/8/8/8/4K2R w K - id \"quiet\";\n";
const BIN: &str = env!("CARGO_BIN_EXE_scorn");

fn scorn<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    Command::new(BIN).args(arguments).output().unwrap()
}

/// Runs the program with a limit of address space, in MiB.
fn scorn_within<S: AsRef<OsStr>>(mib: u32, arguments: impl IntoIterator<Item = S>) -> Output {
    let limited = format!("ulimit -v {} && exec \"$0\" \"$@\"", mib * 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &limited, BIN]).args(arguments);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The error message of a run that must fail.
fn error(output: &Output) -> String {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    errors
}

fn success(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.at(name), content).unwrap();
        self.at(name)
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let made = Command::new("mkfifo").arg(self.at(name)).status();
        assert!(made.unwrap().success());
        self.at(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// `scorn analyze` on an EPD file with the hash evaluator and few nodes.
fn analyze(epd: &Path, output: &Path) -> Vec<PathBuf> {
    let words = ["-b", "hash", "-t", "1", "analyze", "--nodes", "20", "--epd"];
    let mut arguments: Vec<PathBuf> = words.map(PathBuf::from).into();
    arguments.extend([epd.into(), "--output".into(), output.into()]);
    arguments
}

#[test]
fn an_analysis_goes_to_pipes_and_devices_and_reads_nothing_from_them() {
    let folder = Folder::new();
    let epd = folder.file("a.epd", EPD);
    let reported = error(&scorn_within(1500, analyze(&epd, Path::new("/dev/full"))));
    assert!(reported.contains("cannot write the analysis"), "{reported}");
    success(&scorn_within(1500, analyze(&epd, Path::new("/dev/zero"))));
    for output in ["/dev/stdout", "-"] {
        let mut command = Command::new(BIN);
        command.args(analyze(&epd, Path::new(output)));
        let reported = success(&command.current_dir(folder.0.path()).output().unwrap());
        assert_eq!(reported.lines().count(), 2, "{output}: {reported}");
        assert!(reported.lines().all(|line| line.starts_with("{\"name\":")));
    }
    assert_eq!(folder.names(), ["a.epd"]);
    let fifo = folder.fifo("fifo");
    let reader = Command::new("cat")
        .arg(&fifo)
        .stdout(Stdio::piped())
        .spawn();
    success(&scorn(analyze(&epd, &fifo)));
    let read = text(&reader.unwrap().wait_with_output().unwrap().stdout);
    assert_eq!(read.lines().count(), 2);
}

#[test]
fn invalid_input_leaves_no_file() {
    let folder = Folder::new();
    let out = folder.at("out.jsonl");
    let mut command = Command::new(BIN);
    command.args(["analyze", "--fen", "startpos", "--weights", "missing.onnx"]);
    command.arg("--output").arg(&out);
    let reported = error(&command.current_dir(folder.0.path()).output().unwrap());
    assert!(reported.contains("missing.onnx"), "{reported}");
    assert_eq!(folder.names(), [""; 0]);
}

/// A library in the current folder (from an unpacked archive, for example) must not be loaded.
#[test]
fn a_runtime_in_the_current_folder_is_not_loaded() {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    let folder = Folder::new();
    fs::create_dir(folder.at("runtime")).unwrap();
    folder.file(
        &format!("runtime/{DLL_PREFIX}onnxruntime{DLL_SUFFIX}"),
        "no library",
    );
    let run = |named: &[&str]| {
        let mut command = Command::new(BIN);
        command.args(["analyze", "--fen", "startpos", "--nodes", "1"]);
        command.args(["--weights", "<built in dense>", "--backend", "onnx-cpu"]);
        command.args(named).current_dir(folder.0.path());
        command.env_remove("ORT_DYLIB_PATH");
        command.env("HOME", folder.0.path());
        command.env("XDG_DATA_HOME", folder.at("data"));
        command.output().unwrap()
    };
    let usual = run(&[]);
    // If the system has the library, that one is used.
    if !usual.status.success() {
        let reported = error(&usual);
        assert!(
            reported.contains("ONNX Runtime was not found"),
            "{reported}"
        );
    }
    let reported = error(&run(&["--onnxruntime-path", "runtime"]));
    assert!(!reported.contains("was not found"), "{reported}");
}

#[test]
fn an_analysis_resumes_after_blank_lines_and_not_after_endless_ones() {
    let folder = Folder::new();
    let epd = folder.file("a.epd", EPD);
    let out = folder.at("out.jsonl");
    success(&scorn(analyze(&epd, &out)));
    let whole = fs::read_to_string(&out).unwrap();
    let first = whole.find('\n').unwrap() + 1;
    for blank in ["\n", "\n  \n\n", " "] {
        fs::write(&out, whole[..first].to_owned() + blank).unwrap();
        success(&scorn(analyze(&epd, &out)));
        let again = fs::read_to_string(&out).unwrap();
        assert_eq!(again.lines().count(), 2, "{again}");
        assert_eq!(again[..first], whole[..first]);
    }
    // A sparse file costs nothing and has no line end.
    let endless = File::create(folder.at("endless.jsonl")).unwrap();
    (&endless).write_all(b"{\"name\":\"").unwrap();
    endless.set_len(1 << 36).unwrap();
    let reported = error(&scorn_within(
        1500,
        analyze(&epd, &folder.at("endless.jsonl")),
    ));
    assert!(
        reported.contains("is not an earlier analysis"),
        "{reported}"
    );
    assert_eq!(endless.metadata().unwrap().len(), 1 << 36);
}

#[test]
fn an_analysis_does_not_write_into_its_input() {
    let folder = Folder::new();
    let epd = folder.file("a.epd", "");
    fs::hard_link(&epd, folder.at("same")).unwrap();
    for output in [&epd, &folder.at("same")] {
        assert!(error(&scorn(analyze(&epd, output))).contains("is an input too"));
    }
}

fn dataset(words: &[&str], paths: &[&Path]) -> Output {
    let mut command = Command::new(BIN);
    command.arg("dataset").args(words).args(paths);
    command.output().unwrap()
}

#[test]
fn data_sets_overwrite_only_with_force_and_never_inputs_or_devices() {
    let folder = Folder::new();
    let pgn = folder.file("games.pgn", fs::read(GAMES).unwrap());
    let out = folder.file("games.rec", "mine");
    let reported = error(&dataset(&["pgn", "--out"], &[&out, &pgn]));
    assert!(
        reported.contains("exists; --force overwrites it"),
        "{reported}"
    );
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    success(&dataset(&["pgn", "--force", "--out"], &[&out, &pgn]));
    assert!(fs::metadata(&out).unwrap().len() > 48);

    std::os::unix::fs::symlink(&pgn, folder.at("link")).unwrap();
    fs::hard_link(&pgn, folder.at("hard")).unwrap();
    for output in ["games.pgn", "link", "hard"] {
        let reported = error(&dataset(
            &["pgn", "--force", "--out"],
            &[&folder.at(output), &pgn],
        ));
        assert!(reported.contains("is an input too"), "{reported}");
    }
    assert_eq!(fs::read(&pgn).unwrap(), fs::read(GAMES).unwrap());

    let sample = &["sample", "--count", "5", "--force", "--out"];
    assert!(error(&dataset(sample, &[&out, &out])).contains("is an input too"));
    for device in ["/dev/null", "/dev/full"] {
        let reported = error(&dataset(sample, &[Path::new(device), &out]));
        assert!(reported.contains("not a regular file"), "{reported}");
    }
    let fifo = folder.fifo("fifo");
    assert!(error(&dataset(sample, &[&fifo, &out])).contains("not a regular file"));
    assert_eq!(
        folder.names(),
        ["fifo", "games.pgn", "games.rec", "hard", "link"]
    );
}

#[test]
fn one_program_at_a_time_writes_a_file() {
    let folder = Folder::new();
    let (epd, games) = (folder.file("a.epd", EPD), folder.at("games.rec"));
    success(&dataset(&["pgn", "--out"], &[&games, Path::new(GAMES)]));
    let (out, visited) = (folder.at("out.jsonl"), folder.at("visited.rec"));
    let visit = || {
        let words = ["visit", "-b", "hash", "--count", "16", "--nodes", "40"];
        dataset(&[&words[..], &["--out"]].concat(), &[&visited, &games])
    };
    success(&visit());
    success(&scorn(analyze(&epd, &out)));
    for path in [&out, &visited] {
        let before = fs::read(path).unwrap();
        let held = File::open(path).unwrap();
        held.lock().unwrap();
        let output = if path == &out {
            scorn(analyze(&epd, path))
        } else {
            visit()
        };
        assert!(error(&output).contains("another program is writing"));
        let forced = dataset(
            &["sample", "--count", "5", "--force", "--out"],
            &[path, &games],
        );
        assert!(error(&forced).contains("another program is writing"));
        assert_eq!(fs::read(path).unwrap(), before);
    }
}

#[test]
fn configurations_may_have_a_mark_but_no_devices_without_end() {
    let folder = Folder::new();
    let config = folder.file("c", "\u{feff}--backend=hash\n--multipv=3\n");
    let fen = ["analyze", "--fen", "startpos", "--nodes", "100", "--config"];
    let with = |path: &Path| {
        let mut arguments = fen.map(PathBuf::from).to_vec();
        arguments.push(path.into());
        scorn_within(1500, arguments)
    };
    assert_eq!(success(&with(&config)).matches(" win ").count(), 3);
    assert!(error(&with(Path::new("/dev/zero"))).contains("/dev/zero"));
    let utf16 = folder.file("w", b"\xff\xfe-\0-\0");
    assert!(error(&with(&utf16)).contains("UTF-16 text"));
}

#[test]
fn networks_are_not_read_from_devices_without_end() {
    let fen = ["analyze", "--fen", "startpos", "-w"];
    let reported = error(&scorn_within(1500, fen.into_iter().chain(["/dev/zero"])));
    assert!(reported.contains("/dev/zero"), "{reported}");
    assert!(error(&scorn_within(1500, ["describe", "/dev/zero"])).contains("larger than"));
    let folder = Folder::new();
    std::os::unix::fs::symlink("/dev/zero", folder.at("x.onnx")).unwrap();
    let onnx = folder.at("x.onnx");
    assert!(
        error(&scorn_within(
            1500,
            [OsStr::new("describe"), onnx.as_os_str()]
        ))
        .contains("larger than")
    );
}

#[test]
fn control_characters_in_files_are_escaped() {
    let folder = Folder::new();
    let epd = folder.file(
        "a.epd",
        "4k3/8/8/8/8/8/8/4K2R w K - id \"\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\";\nnonsense \u{1b}[31m\n",
    );
    let output = Command::new(BIN)
        .args(["-b", "hash", "analyze", "--nodes", "20", "--epd"])
        .arg(&epd)
        .output()
        .unwrap();
    assert!(text(&output.stdout).contains("\\u001b]0;title"));
    let config = folder.file("c", "--no\u{1b}[31msuch=1\n");
    let bad_config = scorn([OsStr::new("bench"), OsStr::new("-c"), config.as_os_str()]);
    let name = folder.at("x").into_os_string().into_encoded_bytes();
    let name = [&name[..], b"\x1b[31m.pb.gz"].concat();
    let missing = scorn([OsStr::new("describe"), OsStr::from_bytes(&name)]);
    for output in [&output, &bad_config, &missing] {
        error(output);
        for said in [&output.stdout, &output.stderr] {
            let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text(said).contains(steers), "{:?}", text(said));
        }
    }
}

#[test]
fn binary_files_are_refused_by_name() {
    let folder = Folder::new();
    let pgn = "[White \"a\"]\n\n1. e4 *\n";
    let utf16: Vec<u8> = pgn.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    for bytes in [[b"\xff\xfe".to_vec(), utf16.clone()].concat(), utf16, image] {
        let file = folder.file("x.pgn", bytes);
        let analysis = scorn([OsStr::new("analyze"), OsStr::new("--pgn"), file.as_os_str()]);
        let records = dataset(&["pgn", "--out"], &[&folder.at("x.rec"), &file]);
        for output in [analysis, records] {
            let reported = error(&output);
            assert!(
                reported.contains("x.pgn") && reported.contains("UTF-16"),
                "{reported}"
            );
        }
    }
    let empty = folder.file("empty.pgn", "");
    let words = ["-b", "hash", "analyze", "--pgn"].map(OsStr::new);
    let reported = error(&scorn(words.iter().copied().chain([empty.as_os_str()])));
    assert!(reported.contains("no positions"), "{reported}");
}

#[test]
fn an_analysis_without_results_leaves_no_file() {
    let folder = Folder::new();
    let out = folder.at("out.jsonl");
    for invalid in ["", "nonsense\n"] {
        let epd = folder.file("a.epd", invalid);
        error(&scorn(analyze(&epd, &out)));
        assert_eq!(folder.names(), ["a.epd"]);
    }
    // One that was there stays.
    fs::write(&out, "").unwrap();
    error(&scorn(analyze(&folder.at("a.epd"), &out)));
    assert_eq!(folder.names(), ["a.epd", "out.jsonl"]);
}

/// As by `head`. The last line, which is invalid, is not reached.
#[test]
fn an_analysis_ends_when_nobody_reads_it() {
    let folder = Folder::new();
    let lines = EPD.repeat(100) + "nonsense\n";
    let epd = folder.file("a.epd", lines);
    for output in [vec![], vec!["--json"], vec!["--output", "-"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(BIN)
            .args(["-b", "hash", "analyze", "--nodes", "20", "--epd"])
            .arg(&epd)
            .args(output)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn();
        let output = output.unwrap().wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert!(!errors.contains("scorn: "), "{errors}");
    }
}

#[test]
fn a_long_game_needs_no_more_memory_than_a_short_one() {
    let folder = Folder::new();
    let round = "Nf3 Nf6 Ng1 Ng8 ";
    let pgn = folder.file(
        "long.pgn",
        format!("[White \"a\"]\n\n{}*\n", round.repeat(1000)),
    );
    let out = folder.at("out.jsonl");
    let words = ["-b", "hash", "-t", "1", "analyze", "--nodes", "1", "--pgn"];
    let mut arguments: Vec<PathBuf> = words.map(PathBuf::from).into();
    arguments.extend([pgn, "--output".into(), out.clone()]);
    success(&scorn_within(700, arguments));
    // The last position is a draw by repetition, which is not searched.
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 4000);
}

/// A Zstandard frame (RFC 8878) that unpacks to this many blocks of 128 KiB, all of one byte.
fn bomb(blocks: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for block in 1..=blocks {
        // The size, a block of one repeated byte, and whether it is the last.
        let header: u32 = (1 << 17) << 3 | 1 << 1 | u32::from(block == blocks);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(b'x');
    }
    frame
}

#[test]
fn decompression_bombs_take_little_memory() {
    let folder = Folder::new();
    let packed = folder.file("x.pgn", bomb(4096));
    assert!(packed.metadata().unwrap().len() < 20_000);
    let out = folder.at("x.rec");
    let words = ["dataset", "pgn"].map(PathBuf::from);
    let arguments = words.into_iter().chain([packed.clone(), "-o".into(), out]);
    let reported = error(&scorn_within(300, arguments));
    assert!(
        reported.contains("no game") && reported.contains("1 corrupt"),
        "{reported}"
    );
    for kind in ["--epd", "--pgn"] {
        let words = ["-b", "hash", "-t", "1", "analyze", "--nodes", "20", kind];
        let arguments = words.map(PathBuf::from).into_iter().chain([packed.clone()]);
        let reported = error(&scorn_within(700, arguments));
        assert!(reported.contains("longer than"), "{reported}");
    }
}

#[test]
fn positions_of_games_name_their_players() {
    let folder = Folder::new();
    let tags = "[White \"Anand\x1b[2J\"]\n[Black \"?\"]\n";
    let pgn = folder.file("x.pgn", format!("{tags}\n1. e4 *\n\n1. d4 *\n"));
    let words = ["-b", "hash", "analyze", "--nodes", "20", "--pgn"].map(OsStr::new);
    let output = success(&scorn(words.into_iter().chain([pgn.as_os_str()])));
    let named: Vec<_> = output
        .lines()
        .filter(|line| line.starts_with("game"))
        .collect();
    let players = "game 1, move 1.  Anand [2J - ?";
    assert_eq!(named[0], players, "{output}");
    assert_eq!(named[2], "game 2, move 1.", "{output}");
}

#[test]
fn an_unreadable_move_is_reported_by_game_and_ply() {
    let folder = Folder::new();
    let pgn = folder.file("x.pgn", "1. e4 *\n\n1. e4 e5 2. Sf3 Nc6 *\n\n1. d4 *\n");
    let words = ["-b", "hash", "analyze", "--nodes", "20", "--pgn"].map(OsStr::new);
    let output = scorn(words.into_iter().chain([pgn.as_os_str()]));
    assert!(error(&output).contains("game 2: the game at byte 9: 'Sf3' at ply 3 is not a move"));
    assert_eq!(text(&output.stdout).matches("played: ").count(), 2);
    let output = dataset(
        &["pgn", "--min-plies", "1", "-o"],
        &[&folder.at("x.rec"), &pgn],
    );
    assert!(success(&output).starts_with("2 games, 2 positions; skipped 1 corrupt"));
    assert!(text(&output.stderr).contains("'Sf3' at ply 3"));
}

#[test]
fn a_log_without_a_reader_does_not_block_the_engine() {
    let folder = Folder::new();
    let fifo = folder.fifo("log");
    let mut child = Command::new(BIN)
        .args(["-b", "hash"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = format!(
        "setoption name LogFile value {}\nisready\ngo nodes 1\n",
        fifo.display()
    );
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let said = success(&child.wait_with_output().unwrap());
    assert!(said.contains("LogFile: cannot write to"), "{said}");
    assert!(
        said.contains("readyok") && said.contains("bestmove "),
        "{said}"
    );
}

#[test]
fn a_closed_reader_ends_an_analysis_quietly() {
    let folder = Folder::new();
    let epd = folder.file("a.epd", EPD);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(BIN)
        .args(["-b", "hash", "analyze", "--nodes", "20", "--epd"])
        .arg(&epd)
        .stdin(Stdio::null())
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn()
        .unwrap();
    // As `head -c 1` does.
    let mut first = [0];
    let _ = reader.read(&mut first).unwrap();
    drop(reader);
    let code = child.wait().unwrap().code();
    assert!(code == Some(1) || code == Some(0), "{code:?}");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let nobody = Command::new(BIN)
        .args(["-b", "nosuch", "analyze", "--fen", "startpos"])
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .status();
    assert_eq!(nobody.unwrap().code(), Some(1));
}
