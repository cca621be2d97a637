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
