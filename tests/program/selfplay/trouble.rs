//! Bad input, folders in use and full disks are reported, and existing files stay.

use std::{fs, path::Path};
#[cfg(target_os = "linux")]
use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use scorn::pgn::Reader;

use super::{GAMES, files, ok, run, text, with};
use crate::common::machine::SmallDisk;
#[cfg(target_os = "linux")]
use {super::command, crate::common::machine::jumping_clock};

#[test]
fn a_folder_belongs_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    ok(&run(
        &out,
        &["--games", "2", "--nodes", "10", "--max-plies", "20"],
    ));
    let before = files(&out);
    let refused = |arguments: &[&str], message: &str| {
        let output = run(&out, arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains(message), "{error}");
        assert_eq!(files(&out), before);
    };
    let same = ["--games", "2", "--nodes", "10", "--max-plies", "20"];
    refused(&same, "--resume continues it");
    let other = [
        "--games",
        "2",
        "--nodes",
        "11",
        "--max-plies",
        "20",
        "--resume",
    ];
    refused(&other, "(a.nodes was 10, is 11; b.nodes was 10, is 11)");
    // Another process that has the folder.
    let lock = fs::File::options()
        .write(true)
        .open(out.join(".lock"))
        .unwrap();
    lock.lock().unwrap();
    let resumed = [
        "--games",
        "2",
        "--nodes",
        "10",
        "--max-plies",
        "20",
        "--resume",
    ];
    refused(&resumed, "another program is writing");
    drop(lock);
    // A folder with other things in it.
    let other = folder.path().join("home");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    let output = run(&other, &same);
    assert!(text(&output.stderr).contains("letter.txt"));
    assert!(!other.join("manifest.json").exists());
    // A game damaged by a power failure is played again; a missing part is an error.
    fs::remove_file(out.join("games-00001.pgn")).unwrap();
    let output = run(&out, &resumed);
    assert!(text(&output.stderr).contains("games-00001.pgn is missing"));
}

/// Games are the same when they are played again.
#[test]
fn a_damaged_part_is_played_again_once_its_list_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let arguments = "--games 6 --nodes 10 --max-plies 20 --games-per-file 2 --chunks --resume";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    ok(&run(&out, &arguments));
    let whole = files(&out);
    for (damaged, first) in [
        ("lc0/game_000000001.gz", "part-00001.json"),
        ("games-00002.pgn", "part-00002.json"),
        ("part-00003.json", "part-00003.json"),
    ] {
        fs::write(out.join(damaged), "").unwrap();
        fs::remove_file(out.join("summary.json")).unwrap();
        let output = run(&out, &arguments);
        let error = text(&output.stderr);
        assert!(
            error.contains(damaged) && error.contains("played again"),
            "{error}"
        );
        let list = out.join(first);
        assert!(
            error.contains(&format!("delete {}", list.display())),
            "{error}"
        );
        fs::remove_file(list).unwrap();
        ok(&run(&out, &arguments));
        assert!(files(&out) == whole, "{damaged}");
    }
}

const NO_BOUNDS: &str =
    "RamLimitMb and NodesPerSecondLimit have no effect in self-play: memory grows";

#[test]
fn bad_input_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cut_game = write("cut.pgn", "[White \"x\"]\n\n1. e4 e5 2. N");
    let cut_book = write("cut.epd", "4k3/8/8/8/8/8/4P3/4K3 w - -\n4k3/8/8/8");
    let cut_fields = write(
        "fields.epd",
        "4k3/8/8/8/8/8/4P3/4K3 w - -\n4k3/8/8/8/8/8/4P3/4K3 b",
    );
    let empty = write("empty.epd", "");
    let network = write("net.onnx", "no network");
    for (arguments, message) in [
        (&["--book", &cut_game][..], "breaks off"),
        (&["--book", &cut_book], "line 2"),
        (&["--book", &cut_fields], "four fields"),
        (&["--book", &empty], "no position"),
        (&["--book", "/no/such.epd"], "/no/such.epd"),
        (&["--odds", "king"], "king"),
        (&["--odds", "8/8/8/8/8/8/8/8 w - - 0 1"], "board is empty"),
        (&["--a", "ScLimit"], "--a ScLimit"),
        (&["--b", "ScLimit=x"], "ScLimit"),
        (&["--b", "Seed=3"], "Seed"),
        (
            &["--a", "UCI_LimitStrength=true;UCI_Elo=1350"],
            "UCI_LimitStrength",
        ),
        (&["--b", "TimeManager=simple"], "TimeManager"),
        (&["--a", "UCI_AnalyseMode=true"], "UCI_AnalyseMode"),
        (
            &["--tau", "tau1", "--temp-cutoff-move", "2"],
            "TempCutoffMove",
        ),
        (&["--ramlimit-mb", "100"], NO_BOUNDS),
        (&["--b", "RamLimitMb=100"], NO_BOUNDS),
        (
            &["--a", &format!("Backend=rten;WeightsFile={network}")],
            "net.onnx",
        ),
        (&["--syzygy-paths", "/no/such"], "/no/such"),
        (&["--adjudicate-syzygy"], "SyzygyPath"),
        (&["--fast-nodes", "5"], "no faster than those with all 5"),
    ] {
        let out = folder.path().join("out");
        let output = run(
            &out,
            &[&["--games", "1", "--nodes", "5"], arguments].concat(),
        );
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
        assert!(
            !error.contains("panicked") && !out.exists(),
            "{arguments:?}"
        );
    }
}

#[test]
fn tablebases_are_opened_once_for_both_sides_and_the_adjudication() {
    let folder = tempfile::tempdir().unwrap();
    // No position of the game probes it.
    fs::write(folder.path().join("KQvK.rtbw"), [0; 16]).unwrap();
    let path = std::env::join_paths([Path::new("/no/such"), folder.path()]).unwrap();
    let path = path.to_str().unwrap();
    let usual = ["--games", "1", "--nodes", "5", "--max-plies", "4"];
    let tables = ["--adjudicate-syzygy", "--syzygy-paths", path];
    let out = folder.path().join("out");
    let output = run(&out, &[&usual[..], &tables].concat());
    ok(&output);
    let stderr = text(&output.stderr);
    assert_eq!(stderr.matches("/no/such").count(), 1, "{stderr}");
}

#[test]
fn resignation_in_odds_games_gives_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for (name, resign, is_reported) in [
        ("with", &["--resign", "5"][..], true),
        ("without", &[][..], false),
    ] {
        let usual = [
            "--games",
            "1",
            "--nodes",
            "5",
            "--max-plies",
            "4",
            "--odds",
            "queen",
        ];
        let output = run(&folder.path().join(name), &[&usual[..], resign].concat());
        ok(&output);
        let stderr = text(&output.stderr);
        assert_eq!(stderr.contains("--resign may end"), is_reported, "{stderr}");
    }
}

#[test]
fn repeated_games_give_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (arguments, expected)) in [
        (&[][..], Some(1)),
        (&["--sc-limit", "2", "--sc-sampling", "stratified"], Some(1)),
        (&["--odds", "queen"], Some(1)),
        (
            &["--odds", "queen", "--a-plays", "both", "--b", "CPuct=3"],
            Some(2),
        ),
        (&["--sc-limit", "2"], None),
        (&["--fast-nodes", "30"], None),
        (&["--temperature", "1", "--temp-cutoff-move", "2"], None),
        (&["--noise-epsilon", "0.5"], None),
        (&["--opening-variety", "50"], None),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path().join(index.to_string());
        let usual = [
            "--games",
            "4",
            "--nodes",
            "60",
            "--max-plies",
            "20",
            "--seed",
            "5",
        ];
        let output = run(&out, &[&usual[..], arguments].concat());
        ok(&output);
        let stderr = text(&output.stderr);
        let games: Vec<_> = Reader::new(&files(&out)["games-00001.pgn"][..])
            .map(|game| game.unwrap().moves)
            .collect();
        let is_first = |index: &usize| !games[..*index].contains(&games[*index]);
        let different = (0..games.len()).filter(is_first).count();
        match expected {
            Some(count) => {
                assert_eq!(different, count, "{arguments:?}");
                let message = match count {
                    1 => "all games will be the same".to_owned(),
                    count => format!("there are only {count} different games"),
                };
                assert!(stderr.contains(&message), "{arguments:?}: {stderr}");
            }
            None => {
                assert!(different > 1, "{arguments:?}");
                assert!(!stderr.contains("no noise"), "{arguments:?}: {stderr}");
            }
        }
    }
}

#[test]
fn a_full_disk_is_reported_and_existing_files_stay() {
    let Some(disk) = SmallDisk::new() else {
        return;
    };
    let out = disk.path().join("run");
    let output = run(&out, GAMES);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("No space left") && !error.contains("panicked"),
        "{error}"
    );
    disk.grow();
    ok(&run(&out, &with(&["--resume"])));
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    ok(&run(&whole, GAMES));
    assert_eq!(files(&out), files(&whole));
}

/// A machine whose clock is set during the run, and which sleeps in between.
#[cfg(target_os = "linux")]
#[test]
fn a_clock_that_jumps_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = jumping_clock(folder.path()) else {
        return;
    };
    let [whole, jumped] = ["whole", "jumped"].map(|name| folder.path().join(name));
    ok(&run(&whole, GAMES));
    let child = command(&jumped, GAMES)
        .env("LD_PRELOAD", clock)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let signal = |name: &str| {
        let pid = child.id().to_string();
        Command::new("kill").args([name, &pid]).status().unwrap()
    };
    while !jumped.join("manifest.json").exists() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(signal("-STOP").success());
    thread::sleep(Duration::from_millis(1200));
    assert!(signal("-CONT").success());
    ok(&child.wait_with_output().unwrap());
    assert_eq!(files(&jumped), files(&whole));
}
