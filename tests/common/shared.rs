//! Finds what checkouts share; the unit tests use this file too.

use std::{io::Write, path::PathBuf};

/// A file of the folder with networks, lc0's outputs and tables, which is not part of the project; says so and gives
/// nothing where it is missing.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SCORN_SHARED").map(PathBuf::from);
    let root = root.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let path = root.join(path);
    if !path.exists() {
        skipped(&format!("no {} (set SCORN_SHARED)", path.display()));
        return None;
    }
    Some(path)
}

/// Says that a test does not test what it should, even where the output of tests that pass is not shown.
pub fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
