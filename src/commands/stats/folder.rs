//! The games and records of a folder: those of a self-play run, or all of them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    files,
    selfplay::store::{self, BALANCE, UNFINISHED},
};

/// File name endings of games and records.
const ENDINGS: [&str; 4] = [".pgn", ".pgn.gz", ".pgn.zst", ".vis"];

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
        let files = if folder.join(UNFINISHED).is_dir() {
            found.context(
            "no part of this self-play run is complete: continue it with --resume, or use a smaller \
             --games-per-file",
        )
        } else {
            found
        }?;
        let Some(known) = store::listed_files(folder)? else {
            return Ok(FolderFiles {
                files,
                foreign: Vec::new(),
            });
        };
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

/// Whether a file is one of a part, also if it was compressed since.
fn belongs(file: &Path, known: &BTreeMap<String, String>) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let unpacked = name.strip_suffix(".gz").or(name.strip_suffix(".zst"));
    known.contains_key(&*name) || unpacked.is_some_and(|name| known.contains_key(name))
}
