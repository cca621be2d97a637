//! Where TensorRT keeps the engines that it has built: building one takes minutes, reading one a second.
//!
//! Each network has a folder for each combination of what an engine depends on, the models of the cards among it, so
//! that none is ever used for something else. An engine that cannot be read all the same (another patch of TensorRT, a
//! damaged file) is removed and built again, once.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::plan::BackendSetupError;
use crate::hashing::hex;

/// The folder of a network's engines.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineCache {
    folder: PathBuf,
}

impl EngineCache {
    /// For a model and these settings (whatever else an engine depends on), in the folder `base`, or in the user's
    /// cache folder if that is empty.
    ///
    /// # Errors
    /// When the user has no such folder.
    pub fn of(model: &[u8], settings: &str, base: &str) -> Result<EngineCache, BackendSetupError> {
        let base = match base {
            "" => user_cache().map(|cache| cache.join("tensorrt")),
            path => Some(PathBuf::from(path)),
        };
        let base = base.ok_or_else(|| {
            BackendSetupError::Unavailable(
                "there is no home folder for its engines; set BackendOptions cache=FOLDER"
                    .to_owned(),
            )
        })?;
        Ok(EngineCache {
            folder: base.join(folder_name(model, settings)),
        })
    }

    /// In this folder.
    pub fn at(folder: impl Into<PathBuf>) -> EngineCache {
        EngineCache {
            folder: folder.into(),
        }
    }

    /// Makes the folder, if need be.
    ///
    /// # Errors
    /// When it cannot be made; the message names it.
    pub fn make(&self) -> Result<(), BackendSetupError> {
        fs::create_dir_all(&self.folder).map_err(|error| {
            let folder = self.folder.display();
            BackendSetupError::Unavailable(format!("cannot make {folder}: {error}"))
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether an engine has been built.
    pub fn has_engine(&self) -> bool {
        let engine = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "engine");
        self.files().any(|path| engine(&path))
    }

    /// Removes all engines if `error` says that one cannot be read; whether that is so.
    pub fn remove_unreadable(&self, error: &str) -> bool {
        let is_cause = is_unreadable_engine(error);
        if is_cause {
            // What cannot be removed makes the next attempt fail as this one did.
            self.files().for_each(|path| drop(fs::remove_file(path)));
        }
        is_cause
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
    }
}

/// Whether TensorRT's provider reports that it cannot read an engine.
fn is_unreadable_engine(message: &str) -> bool {
    const PHRASES: [&str; 2] = [
        "could not deserialize engine",
        "failed to deserialize engine",
    ];
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// The version of the TensorRT that was loaded: that of the wheel in `root`, else the name of the loaded library's
/// file. `maps` lists the files in the process's memory, as in `/proc/self/maps`.
pub fn tensorrt_version(root: Option<&Path>, maps: &str) -> String {
    let entries = root.and_then(|root| fs::read_dir(root).ok());
    let names = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut versions: Vec<String> = names
        .filter_map(|name| {
            let (package, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
            let is_library = package.starts_with("tensorrt") && package.ends_with("_libs");
            is_library.then(|| version.to_owned())
        })
        .collect();
    versions.sort();
    let file = || {
        let loaded = maps
            .lines()
            .filter_map(|line| line.split_whitespace().last());
        let mut names = loaded.filter_map(|path| path.rsplit('/').next());
        names
            .find(|name| name.starts_with("libnvinfer.so"))
            .map(str::to_owned)
    };
    versions
        .pop()
        .or_else(file)
        .unwrap_or_else(|| "unknown".to_owned())
}

/// A name that depends on the model and on all settings.
pub(super) fn folder_name(model: &[u8], settings: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(model);
    hash.update(settings);
    hex(&hash.finalize()[..8])
}

/// The user's cache folder for this program.
pub(super) fn user_cache() -> Option<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Caches"))
    } else {
        variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("scorn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_networks_and_settings_have_other_folders() {
        let name = folder_name(b"model", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp16 [1, 8]");
        assert_eq!(name.len(), 16);
        for (model, settings) in [
            ("other", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp16 [1, 8]"),
            ("model", "1.32.0 TensorRT 10.16.1.11 GPU 0, fp16 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.15.1.29 GPU 0, fp16 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.16.1.11 GPU 1, fp16 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp32 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp16 [1, 16]"),
        ] {
            assert_ne!(folder_name(model.as_bytes(), settings), name);
        }
    }

    #[test]
    fn an_engine_that_cannot_be_read_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().to_string_lossy();
        let cache = EngineCache::of(b"model", "settings", &folder).unwrap();
        assert!(cache.folder().starts_with(base.path()) && !cache.has_engine());
        cache.make().unwrap();
        let engine = cache
            .folder()
            .join("TensorrtExecutionProvider_x_sm90.engine");
        fs::write(&engine, "old").unwrap();
        assert!(!cache.remove_unreadable("out of memory") && cache.has_engine());
        let stale = "TensorRT EP could not deserialize engine from cache: /x_sm90.engine";
        assert!(cache.remove_unreadable(stale));
        assert!(!cache.has_engine() && !engine.exists());
    }

    #[test]
    fn the_version_is_that_of_the_wheel_or_of_the_library() {
        let root = tempfile::tempdir().unwrap();
        let maps = "7f00-7f01 r-xp 00000000 08:01 1  /usr/lib/x86_64-linux-gnu/libnvinfer_plugin.so.10.13.3\n\
                    7f02-7f03 r-xp 00000000 08:01 2  /usr/lib/x86_64-linux-gnu/libnvinfer.so.10.13.3\n";
        assert_eq!(tensorrt_version(Some(root.path()), ""), "unknown");
        assert_eq!(tensorrt_version(None, maps), "libnvinfer.so.10.13.3");
        for name in [
            "tensorrt_cu13-10.1.dist-info",
            "tensorrt_cu13_libs-10.16.1.11.dist-info",
        ] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        assert_eq!(tensorrt_version(Some(root.path()), maps), "10.16.1.11");
    }
}
