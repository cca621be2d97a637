//! Programs for tests, as shell scripts.

use std::{path::Path, process::Command};

/// Writes a script that can be run. Another process writes it: while this one has it open, a test beside may start a child that
/// has it open, too, and then it cannot be run.
pub fn write_script(path: &Path, text: &str) {
    let write = "printf %s \"$1\" > \"$0\" && chmod +x \"$0\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", write]).arg(path).arg(text);
    assert!(shell.status().unwrap().success());
}
