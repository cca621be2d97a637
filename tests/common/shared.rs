//! Finds shared test files; the unit tests use this file too.

use std::{io::Write, path::PathBuf};

/// A file of the shared folder with networks, lc0's outputs and tables, which is not part of the project. If the file
/// is missing this prints a message and returns nothing; in a folder that `SCORN_SHARED` names it must exist.
pub fn shared(path: &str) -> Option<PathBuf> {
    if let Some(root) = std::env::var_os("SCORN_SHARED") {
        let path = PathBuf::from(root).join(path);
        assert!(path.exists(), "SCORN_SHARED: no {}", path.display());
        return Some(path);
    }
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let path = PathBuf::from(beside).join(path);
    if !path.exists() {
        skipped(&format!("no {} (set SCORN_SHARED)", path.display()));
        return None;
    }
    Some(path)
}

/// Prints that a test was skipped, even where the output of passing tests is not shown.
pub fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}
