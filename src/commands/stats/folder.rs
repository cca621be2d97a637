//! The games and records of a folder: those of a self-play run, or all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    files,
    selfplay::store::{BALANCE, UNFINISHED},
};

/// File name endings of games and records.
const ENDINGS: [&str; 4] = [".pgn", ".pgn.gz", ".pgn.zst", ".vis"];
/// Maximum size of the list of a part, in bytes.
const MAX_PART_BYTES: u64 = 1 << 31;

/// What is read of the list of a part, `part-N.json`.
#[derive(Deserialize)]
struct PartList {
    /// Its files with their checksums.
    files: BTreeMap<String, IgnoredAny>,
}

/// The files of a folder.
pub(super) struct FolderFiles {
    /// Those that are read.
    pub(super) files: Vec<PathBuf>,
    /// The others: games and records that belong to no part of the run in the folder.
    pub(super) foreign: Vec<PathBuf>,
}

impl FolderFiles {
    /// Finds them.
    ///
    /// # Errors
    /// When the folder cannot be read or has none, or the list of a part is damaged.
    pub(super) fn of(folder: &Path) -> Result<FolderFiles> {
        let found = files::of_folder(folder, &ENDINGS);
        let files = match folder.join(UNFINISHED).is_dir() {
            true => found.context(
                "no part of this self-play run is complete: continue it with --resume, or use a smaller \
                 --games-per-file",
            ),
            false => found,
        }?;
        let parts = parts_of(folder);
        if parts.is_empty() {
            return Ok(FolderFiles {
                files,
                foreign: Vec::new(),
            });
        }
        let mut known = BTreeSet::new();
        for part in &parts {
            let read = files::read(part, MAX_PART_BYTES).map_err(anyhow::Error::from);
            let list = read.and_then(|text| Ok(serde_json::from_slice::<PartList>(&text)?));
            let list = list.with_context(|| format!("{} is damaged", part.display()))?;
            known.extend(list.files.into_keys());
        }
        let (files, foreign): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| belongs(file, &known));
        ensure!(
            !files.is_empty(),
            "{}: none of its games and records belongs to a part of the self-play run there; name the files themselves",
            folder.display()
        );
        Ok(FolderFiles { files, foreign })
    }

    /// All files whose contents the statistics show.
    pub(super) fn inputs(self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        self.files.into_iter().chain([folder.join(BALANCE)])
    }
}

/// The lists of the parts of a run; none where the folder has no run.
fn parts_of(folder: &Path) -> Vec<PathBuf> {
    let mut lists = files::of_folder(folder, &[".json"]).unwrap_or_default();
    lists.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name
            .strip_prefix("part-")
            .and_then(|rest| rest.strip_suffix(".json"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    lists
}

/// Whether a file is one of a part, also if it was compressed since.
fn belongs(file: &Path, known: &BTreeSet<String>) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let unpacked = name.strip_suffix(".gz").or(name.strip_suffix(".zst"));
    known.contains(&*name) || unpacked.is_some_and(|name| known.contains(name))
}
