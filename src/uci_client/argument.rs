//! Engines and their options as users name them, the same for all commands.

use std::path::{Path, PathBuf};

/// The program of this name or path. A file in the current folder goes before a program of its name in `PATH`.
pub fn program_path(program: &Path) -> PathBuf {
    let is_name = program.components().count() == 1;
    if is_name && program.is_file() {
        Path::new(".").join(program)
    } else {
        program.to_owned()
    }
}

/// The name and the value in `NAME=VALUE`, where spaces may be around both. A button has no value.
pub fn name_and_value(option: &str) -> (&str, Option<&str>) {
    match option.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (option.trim(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_current_folder_goes_before_path() {
        // Tests run in the package's folder: only a name that PATH could have, too, becomes a path.
        for (program, path) in [
            ("build.rs", "./build.rs"),
            ("./build.rs", "./build.rs"),
            ("src/lib.rs", "src/lib.rs"),
            ("src", "src"),
            ("stockfish", "stockfish"),
        ] {
            assert_eq!(program_path(Path::new(program)).to_str(), Some(path));
        }
    }

    #[test]
    fn spaces_belong_to_no_option() {
        for (option, expected) in [
            ("Hash=32", ("Hash", Some("32"))),
            (" Skill Level = 3 ", ("Skill Level", Some("3"))),
            ("Name=a = b", ("Name", Some("a = b"))),
            (" Clear Hash ", ("Clear Hash", None)),
        ] {
            assert_eq!(name_and_value(option), expected);
        }
    }
}
