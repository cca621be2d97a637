//! Configuration files: one option per line, as a flag of the command line (`--flag=value`; `--flag` and `--no-flag`
//! for one that is true or false) or by its UCI name, with or without the dashes; `#` starts a comment line.
//! Configuration files of lc0 are valid: they have the same form, and options that only lc0 has are ignored.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    files,
    options::{
        CONFIG_FILE, OptionKind, OptionRow, Options,
        lc0::{RENAMED_IN_LC0, is_only_in_lc0},
    },
};

/// Files beside the program that are read by default: the first one that exists.
const DEFAULT_FILES: [&str; 2] = ["scorn.config", "lc0.config"];

/// An option that a file sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its line number, from 1.
    pub line: usize,
    /// The option's UCI name, or the name of an option that only lc0 has.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The file that is read if none is named, if it exists.
pub fn default_file() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let beside = |name| program.parent().map(|folder| folder.join(name));
    DEFAULT_FILES
        .into_iter()
        .filter_map(beside)
        .find(|path| path.exists())
}

/// The options that a file sets, in order.
///
/// # Errors
/// When it cannot be read, or a line does not name an option; the message has the line number.
pub fn read(path: &Path) -> Result<Vec<ConfigEntry>> {
    let text = files::read_text(path)?;
    entries(&text, path).collect()
}

/// As [`read`], for a session, which uses the lines that are right: each line that does not name an option is an error
/// of its own. The calling thread must not wait: a pipe is refused.
///
/// # Errors
/// When it cannot be read.
pub fn read_for_session(path: &Path) -> Result<Vec<Result<ConfigEntry>>> {
    let text = files::read_text_at_once(path)?;
    Ok(entries(&text, path).collect())
}

/// What each line sets that is neither empty nor a comment.
fn entries(text: &str, path: &Path) -> impl Iterator<Item = Result<ConfigEntry>> {
    let rows = Options::default().rows();
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line_number = index + 1;
        let entry = parse(line, &rows)
            .with_context(|| format!("{}, line {line_number}", path.display()))
            .transpose()?;
        Some(entry.map(|(name, value)| ConfigEntry {
            line: line_number,
            name,
            value,
        }))
    })
}

/// The option that a line sets, with its value; `None` for an empty line or a comment.
fn parse(line: &str, rows: &[OptionRow]) -> Result<Option<(String, String)>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.trim_start_matches('-');
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (line, None),
    };
    // Without a value, `no-` stands before the flag of an option that is switched off.
    let (name, of_check) = match name.strip_prefix("no-") {
        Some(name) if value.is_none() => (name, "false"),
        _ => (name, "true"),
    };
    let is_config = name.eq_ignore_ascii_case(CONFIG_FILE) || name == "config";
    ensure!(!is_config, "a configuration file cannot name another");
    let renamed = RENAMED_IN_LC0.iter().find(|(old, _)| *old == name);
    let name = renamed.map_or(name, |(_, new)| new);
    let by_flag = rows.iter().find(|row| row.flag == name);
    let by_name = || {
        let name = Options::name_of(name)?;
        rows.iter().find(|row| row.name == name)
    };
    let row = by_flag.or_else(by_name);
    let value = match row {
        None if !is_only_in_lc0(name) => bail!("unknown option '{name}'"),
        Some(row) if row.kind != OptionKind::Check => {
            value.with_context(|| format!("{name} needs a value, as in {name}=VALUE"))?
        }
        _ => value.unwrap_or(of_check),
    };
    let name = row.map_or(name, |row| row.name);
    Ok(Some((name.to_owned(), value.to_owned())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn entries(text: &str) -> Result<Vec<(String, String)>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("lc0.config");
        fs::write(&path, text)?;
        let entries = read(&path)?;
        Ok(entries.into_iter().map(|e| (e.name, e.value)).collect())
    }

    #[test]
    fn flags_and_names_are_read_and_comments_ignored() {
        let text = "# comment\n\n--cpuct=3\nCPuctBase = 5\nno-two-fold-draws\nchess960\nHash=64\nmove overhead=50\n";
        let pairs = [
            ("CPuct", "3"),
            ("CPuctBase", "5"),
            ("TwoFoldDraws", "false"),
            ("UCI_Chess960", "true"),
            ("RamLimitMb", "64"),
            ("MoveOverheadMs", "50"),
        ];
        let expected = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(entries(text).unwrap(), expected);
    }

    /// Options as in the configuration files of lc0's users.
    #[test]
    fn configuration_files_of_lc0_are_read() {
        let text = "weights=/nets/t1.pb.gz\nbackend=multiplexing\nbackend-opts=(backend=cudnn,gpu=0)\nthreads=2\n\
                    nncache=2000000\nminibatch-size=256\nmax-prefetch=32\nfpu-strategy=absolute\nramlimit-mb=512\n\
                    verbose-move-stats=true\nmove-overhead=2000\nsyzygy-paths=/tb:/tb6\nlogfile=lc0.log\n\
                    time-manager=legacy(steepness=6)\nstrict-uci-timing=true\ntask-workers=4\nsmart-pruning-factor=1.5\n\
                    history-fill=always\ntemperature=0.5\ntempdecay-moves=10\nscore-type=centipawn\npreload=true\n\
                    show-hidden=true\n";
        let mut options = Options::default();
        let mut notes = 0;
        for (name, value) in entries(text).unwrap() {
            let note = options.set_as_in_lc0(&name, &value).unwrap();
            notes += usize::from(note.is_some());
        }
        assert_eq!((options.threads, options.move_overhead_ms), (2, 2000));
        assert!(options.strict_timing && options.preload);
        assert_eq!(options.time_manager.to_string(), "legacy(steepness=6)");
        assert_eq!(notes, 2, "max-prefetch and task-workers exist in lc0 only");
    }

    #[test]
    fn in_a_session_the_other_lines_of_a_file_with_errors_are_used() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "cpuct=3\n\nwhat=1\nmultipv\nthreads=2\n").unwrap();
        let entries = read_for_session(file.path()).unwrap();
        let (right, wrong): (Vec<_>, Vec<_>) = entries.into_iter().partition(Result::is_ok);
        let right = right.into_iter().map(|entry| entry.unwrap().line);
        assert_eq!(right.collect::<Vec<_>>(), [1, 5]);
        let wrong = wrong.into_iter().map(|entry| entry.unwrap_err());
        let wrong: Vec<_> = wrong.map(|error| format!("{error:#}")).collect();
        assert!(wrong[0].ends_with("line 3: unknown option 'what'"));
        assert!(wrong[1].contains("line 4: multipv needs a value"));
        assert_eq!(wrong.len(), 2);
    }

    #[test]
    fn errors_have_line_numbers() {
        for (text, part) in [
            ("cpuct=1\nwhat=1\n", "line 2"),
            ("what=1\n", "unknown option 'what'"),
            ("config=other\n", "cannot name another"),
            ("cpuct=1\nweights\n", "line 2: weights needs a value"),
            ("no-logfile\n", "line 1: logfile needs a value"),
            ("--no-syzygy-paths\n", "line 1: syzygy-paths needs a value"),
            ("Threads\n", "line 1: Threads needs a value"),
        ] {
            let error = format!("{:#}", entries(text).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
