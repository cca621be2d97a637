//! The targets of `fuzz/` with a stable compiler: random damage in place of guidance by coverage.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rand::{RngExt, SeedableRng};

use crate::{
    hostile::{Rng, amount, damage_bytes, seed},
    seeds::seeds,
    target_functions::TARGETS,
};

/// Runs a target; keeps the bytes with which it fails.
fn run((name, target): (&str, fn(&[u8])), bytes: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(bytes))) {
        let kept = std::env::temp_dir().join(format!("scorn-fuzz-{}-{name}", std::process::id()));
        std::fs::write(&kept, bytes).unwrap();
        eprintln!("{name} fails with {}", kept.display());
        resume_unwind(panic);
    }
}

#[test]
fn targets_hold_for_damaged_seeds() {
    let total = amount("SCORN_FUZZ_TARGETS", 500);
    let mut rng = Rng::seed_from_u64(seed());
    for target in TARGETS {
        let seeds = seeds(target.0);
        for bytes in &seeds {
            run(target, bytes);
        }
        for _ in 0..total {
            let mut bytes = seeds[rng.random_range(0..seeds.len())].clone();
            for _ in 0..rng.random_range(1..4) {
                damage_bytes(&mut rng, &mut bytes);
            }
            run(target, &bytes);
        }
    }
    println!(
        "{total} damaged inputs for each of {} targets",
        TARGETS.len()
    );
}

/// `SCORN_FUZZ_CORPUS=fuzz/corpus cargo test --test fuzz seeds` writes the seeds for `cargo fuzz`.
#[test]
fn every_target_has_seeds() {
    let folder = std::env::var_os("SCORN_FUZZ_CORPUS").map(std::path::PathBuf::from);
    for (name, _) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name}");
        if let Some(folder) = &folder {
            let folder = folder.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            for (number, bytes) in seeds.iter().enumerate() {
                std::fs::write(folder.join(format!("seed-{number}")), bytes).unwrap();
            }
        }
    }
}

/// `fuzz/` is a workspace of its own. Where its lock lacks a crate, the first `cargo fuzz` takes the newest version and
/// changes the file.
#[test]
fn the_lock_of_the_nightly_targets_has_all_crates_of_the_program() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join("fuzz").exists() {
        eprintln!("SKIPPED: no fuzz/, which the package for crates.io lacks");
        return;
    }
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (manifest, lock) = (read("Cargo.toml"), read("fuzz/Cargo.lock"));
    let program = lock.split("[[package]]\n");
    let program = program.filter(|package| package.starts_with("name = \"scorn\"\n"));
    let program = program.collect::<String>();
    let mut crates = 0;
    for section in manifest.split("\n[").skip(1) {
        let (head, lines) = section.split_once('\n').unwrap();
        let is_built = head.ends_with("dependencies]") && head != "dev-dependencies]";
        for line in lines
            .lines()
            .filter(|line| is_built && !line.starts_with('#'))
        {
            if let Some((name, _)) = line.split_once(" = ") {
                assert!(
                    program.contains(&format!(" \"{name}\",\n")),
                    "fuzz/Cargo.lock lacks {name}: run cargo metadata in fuzz/"
                );
                crates += 1;
            }
        }
    }
    assert!(crates > 30, "{crates}");
}
