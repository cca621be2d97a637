//! Programs for tests, as shell scripts.

use std::{path::Path, process::Command};

/// Writes an executable script. Another process writes it: if this process had it open, a child started by another
/// test would inherit the handle, and the script could not be run.
pub fn write_script(path: &Path, text: &str) {
    let write = "printf %s \"$1\" > \"$0\" && chmod +x \"$0\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", write]).arg(path).arg(text);
    assert!(shell.status().unwrap().success());
}
