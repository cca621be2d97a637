//! Where TensorRT keeps the engines that it has built: building one takes minutes, reading one a second.
//!
//! Each network has a folder for each thing that an engine depends on, so that none is ever served to something else.
//! TensorRT itself tells GPUs of different kinds apart. An engine that cannot be read all the same (another patch of
//! TensorRT, a damaged file) is thrown away and built again, once.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::errors::BackendSetupError;
use crate::hashing::hex;

/// The folder of a network's engines.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineCache {
    folder: PathBuf,
}

impl EngineCache {
    /// For a model and these settings (whatever else an engine depends on); in the user's cache folder, unless another
    /// place is wanted.
    ///
    /// # Errors
    /// When the user has no such folder.
    pub fn of(
        model: &[u8],
        settings: &str,
        wanted: &str,
    ) -> Result<EngineCache, BackendSetupError> {
        let base = match wanted {
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
            folder: base.join(engine_folder(model, settings)),
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

    /// Runs `build`, and, if that could not read an engine, throws all engines away and runs it again.
    ///
    /// # Errors
    /// What `build` says, the second time if there is one.
    pub fn build<T>(&self, mut build: impl FnMut() -> Result<T, String>) -> Result<T, String> {
        match build() {
            Err(message) if is_unreadable_engine(&message) => {
                // What cannot be removed makes the second try fail as the first did.
                self.files().for_each(|path| drop(fs::remove_file(path)));
                build()
            }
            result => result,
        }
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
    }
}

/// Whether TensorRT's provider says that an engine is of no use to it.
fn is_unreadable_engine(message: &str) -> bool {
    const PHRASES: [&str; 2] = [
        "could not deserialize engine",
        "failed to deserialize engine",
    ];
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

/// The version of the TensorRT that was loaded: that of the wheel in `root`, else what the loaded library's file is called.
/// `maps` lists the files in the process's memory, as in `/proc/self/maps`.
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
fn engine_folder(model: &[u8], settings: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(model);
    hash.update(settings);
    hex(&hash.finalize()[..8])
}

/// The user's cache folder for this program.
fn user_cache() -> Option<PathBuf> {
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
    fn engines_of_other_networks_and_settings_lie_elsewhere() {
        let name = engine_folder(b"model", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp16 [1, 8]");
        assert_eq!(name.len(), 16);
        for (model, settings) in [
            ("other", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp16 [1, 8]"),
            ("model", "1.32.0 TensorRT 10.16.1.11 GPU 0, fp16 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.15.1.29 GPU 0, fp16 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.16.1.11 GPU 1, fp16 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp32 [1, 8]"),
            ("model", "1.31.1 TensorRT 10.16.1.11 GPU 0, fp16 [1, 16]"),
        ] {
            assert_ne!(engine_folder(model.as_bytes(), settings), name);
        }
    }

    #[test]
    fn an_engine_that_cannot_be_read_is_built_again_once() {
        let base = tempfile::tempdir().unwrap();
        let wanted = base.path().to_string_lossy();
        let cache = EngineCache::of(b"model", "settings", &wanted).unwrap();
        assert!(cache.folder().starts_with(base.path()) && !cache.has_engine());
        cache.make().unwrap();
        let engine = cache
            .folder()
            .join("TensorrtExecutionProvider_x_sm90.engine");
        let stale = "TensorRT EP could not deserialize engine from cache: /x_sm90.engine";

        fs::write(&engine, "old").unwrap();
        assert!(cache.has_engine());
        let mut tries = 0;
        let built = cache.build(|| {
            tries += 1;
            match engine.exists() {
                true => Err(stale.to_owned()),
                false => Ok(tries),
            }
        });
        assert_eq!(built, Ok(2));

        // Not a third time, and not for other errors.
        for (error, expected) in [(stale, 2), ("out of memory", 1)] {
            let mut tries = 0;
            let built: Result<(), String> = cache.build(|| {
                tries += 1;
                Err(error.to_owned())
            });
            assert_eq!((built, tries), (Err(error.to_owned()), expected));
        }
    }

    #[test]
    fn the_version_is_the_wheels_or_the_librarys() {
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
