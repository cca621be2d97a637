//! Finding and loading the ONNX Runtime library.
//!
//! The library is not part of the program: it is searched for when a backend needs it, in the `OnnxRuntimePath`
//! option, the `ORT_DYLIB_PATH` variable, beside the executable, in the user's data folder and on the system's own
//! path, in this order; in the current folder only if that is the checkout which the program was built from: a
//! library in any other folder may be foreign code. Each place may be the library's file, a folder with it, or the
//! folder into which `pip install --target` put the Python wheel. What the user names explicitly is used or refused,
//! never skipped.
//!
//! The runtime allows one environment per process, so this module holds a global: the library that was loaded.
//! Nothing of `ort` may be called before it is there, or `ort` panics.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use ort::environment::Environment;
use parking_lot::Mutex;
use thiserror::Error;

/// The environment variable that names the library.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The command that installs a Python package where the library is found. What a shell would take apart is quoted.
macro_rules! install_command {
    ($package:literal) => {
        install_command!($package, $package)
    };
    ($on_windows:literal, $elsewhere:literal) => {
        if cfg!(windows) {
            concat!("py -m pip install --target runtime ", $on_windows)
        } else {
            concat!("python3 -m pip install --target runtime ", $elsewhere)
        }
    };
}

/// The command that installs the library where it is found.
pub const INSTALL_COMMAND: &str = install_command!("onnxruntime");

/// The command that installs the OpenVINO plugin beside it.
pub const OPENVINO_INSTALL_COMMAND: &str = install_command!("onnxruntime-ep-openvino");

/// The command that installs both.
pub const OPENVINO_AND_RUNTIME_INSTALL_COMMAND: &str =
    install_command!("onnxruntime onnxruntime-ep-openvino");

/// The command that installs the library for NVIDIA GPUs. It takes the place of the first, which pip would otherwise
/// leave where it is.
pub const GPU_INSTALL_COMMAND: &str = install_command!(
    "--upgrade \"onnxruntime-gpu[cuda,cudnn]\"",
    "--upgrade 'onnxruntime-gpu[cuda,cudnn]'"
);

/// The command that installs TensorRT with all that it needs. The provider needs TensorRT 10, and pip does not add
/// packages to folders that others share (`nvidia`), so everything comes in one go.
pub const TENSORRT_INSTALL_COMMAND: &str = install_command!(
    "--upgrade \"onnxruntime-gpu[cuda,cudnn]\" \"tensorrt-cu13<11\"",
    "--upgrade 'onnxruntime-gpu[cuda,cudnn]' 'tensorrt-cu13<11'"
);

/// The library's name on this platform, up to its version.
const LIBRARY: &str = if cfg!(windows) {
    "onnxruntime.dll"
} else if cfg!(target_os = "macos") {
    "libonnxruntime.dylib"
} else {
    "libonnxruntime.so"
};

/// Where a wheel keeps the library, below its target folder, a virtual environment or the package itself.
const SUBFOLDERS: [&str; 6] = [
    "",
    "lib",
    "capi",
    "onnxruntime/capi",
    "runtimes/native",
    "Lib/site-packages/onnxruntime/capi",
];

/// Why ONNX Runtime cannot be used.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// A place that was named holds no library.
    #[error("{origin}: there is no ONNX Runtime library ({LIBRARY}...) at {}", path.display())]
    NotThere {
        /// The option or variable that names the place.
        origin: &'static str,
        /// The place.
        path: PathBuf,
    },
    /// The library is nowhere.
    #[error("ONNX Runtime was not found (looked for {LIBRARY} in {searched})")]
    NotFound {
        /// The places.
        searched: String,
    },
    /// The library is there but does not load, or is too old.
    #[error("ONNX Runtime does not load: {0}; Scorn needs version 1.24 or newer")]
    Load(String),
    /// The library loads but does not start.
    #[error("ONNX Runtime does not start: {0}")]
    Start(String),
    /// Another library is in use already.
    #[error(
        "ONNX Runtime was already loaded from {}; restart the program to use {}",
        loaded.display(), requested.display()
    )]
    OtherLoaded {
        /// The one in use.
        loaded: PathBuf,
        /// The requested one.
        requested: PathBuf,
    },
}

/// ONNX Runtime, loaded.
#[derive(Clone, Debug)]
pub struct Runtime {
    environment: Environment,
    library: PathBuf,
    capture: Arc<Mutex<()>>,
}

static LOADED: Mutex<Option<Runtime>> = Mutex::new(None);

impl Runtime {
    /// Loads the library, from `explicit` if that is not empty, else from wherever it is found first. Later calls
    /// return the library that is loaded already.
    ///
    /// # Errors
    /// When there is no library or it does not work, with the command that installs one.
    pub fn open(explicit: &str) -> Result<Runtime, RuntimeError> {
        let mut loaded = LOADED.lock();
        if let Some(runtime) = &*loaded {
            return runtime.clone().agreeing_with(explicit);
        }
        let library = find(explicit)?;
        let load_error = |error: ort::LoadDynamicError| RuntimeError::Load(error.to_string());
        let builder = ort::init_from(&library).map_err(load_error)?;
        let start_error = |error: ort::Error| RuntimeError::Start(error.message().to_owned());
        let environment = builder.with_name("scorn").with_telemetry(false).build();
        let environment = environment.map_err(start_error)?;
        // Errors come back as errors; nothing else may write between the lines of the protocol.
        environment.set_log_level(ort::logging::LogLevel::Fatal);
        let runtime = Runtime {
            environment,
            library,
            capture: Arc::default(),
        };
        *loaded = Some(runtime.clone());
        Ok(runtime)
    }

    fn agreeing_with(self, explicit: &str) -> Result<Runtime, RuntimeError> {
        if explicit.is_empty() {
            return Ok(self);
        }
        match find(explicit)? {
            requested if requested == self.library => Ok(self),
            requested => Err(RuntimeError::OtherLoaded {
                loaded: self.library,
                requested,
            }),
        }
    }

    /// What sessions are created in.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Held while batches are captured, which must not overlap in a process.
    pub fn capture_lock(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.capture)
    }

    /// The library's file.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The library's version, as far as its file name or build tells.
    pub fn version(&self) -> String {
        let file = self
            .library
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let from_name = file.strip_prefix("libonnxruntime.so.");
        let from_build = || ort::info().split("rel-").nth(1)?.split([',', ' ']).next();
        from_name
            .or_else(from_build)
            .unwrap_or("unknown version")
            .to_owned()
    }
}

/// The library's file, made absolute; a bare name if it is left to the system's loader.
fn find(explicit: &str) -> Result<PathBuf, RuntimeError> {
    if !explicit.is_empty() {
        return named("OnnxRuntimePath", Path::new(explicit));
    }
    if let Some(path) = env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
        return named(LIBRARY_VARIABLE, Path::new(&path));
    }
    let mut searched = Vec::new();
    for place in usual_places() {
        if let Some(library) = library_in(&place) {
            return Ok(library);
        }
        searched.push(place.display().to_string());
    }
    system_library().ok_or_else(|| RuntimeError::NotFound {
        searched: format!("{}, the system's library path", searched.join(", ")),
    })
}

fn named(origin: &'static str, path: &Path) -> Result<PathBuf, RuntimeError> {
    library_in(path).ok_or_else(|| RuntimeError::NotThere {
        origin,
        path: path.to_owned(),
    })
}

/// Whether a folder is the checkout that this program was built from.
fn is_own_checkout(folder: &Path) -> bool {
    let built_in = fs::canonicalize(env!("CARGO_MANIFEST_DIR")).ok();
    built_in.is_some() && built_in == fs::canonicalize(folder).ok()
}

/// The folder in which the install commands put `runtime` to a place where it is found: the program's among the
/// user's data. `None` in a checkout, where the current one will do, and where there is no such thing.
pub fn install_folder() -> Option<PathBuf> {
    match is_own_checkout(Path::new(".")) {
        true => None,
        false => Some(dirs::data_local_dir()?.join("scorn")),
    }
}

/// Folders that are searched without being named: beside the executable, `runtime` there and in the [`install_folder`].
pub fn usual_places() -> Vec<PathBuf> {
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()));
    let mut places = Vec::new();
    if let Some(folder) = beside {
        places.push(folder.clone());
        places.push(folder.join("runtime"));
    }
    let data = dirs::data_local_dir().map(|data| data.join("scorn/runtime"));
    places.extend(data);
    if is_own_checkout(Path::new(".")) {
        places.push(PathBuf::from("runtime"));
    }
    places
}

/// The library at a place: the file itself, or in a folder or wheel.
pub fn library_in(place: &Path) -> Option<PathBuf> {
    if place.is_file() {
        return fs::canonicalize(place).ok();
    }
    let site_packages = fs::read_dir(place.join("lib")).ok().into_iter().flatten();
    let site_packages = site_packages
        .flatten()
        .map(|entry| entry.path().join("site-packages/onnxruntime/capi"));
    SUBFOLDERS
        .iter()
        .map(|sub| place.join(sub))
        .chain(site_packages)
        .find_map(|folder| newest_library(&folder))
        .and_then(|library| fs::canonicalize(library).ok())
}

/// The library in one folder; the longest and last name, so that a full version beats a link.
fn newest_library(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let libraries = entries.flatten().map(|entry| entry.path());
    let named = libraries.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = LIBRARY.trim_end_matches(".dylib");
        match cfg!(target_os = "macos") {
            // libonnxruntime.1.24.0.dylib, but not libonnxruntime_providers_shared.dylib.
            true => name.starts_with(&format!("{stem}.")) && name.ends_with(".dylib"),
            false => name.starts_with(LIBRARY),
        }
    });
    named.max_by_key(|path| (path.as_os_str().len(), path.clone()))
}

/// The system's own library. The folders of the loader are searched, because a failed load does not show whether a
/// library is missing or broken.
fn system_library() -> Option<PathBuf> {
    let variable = if cfg!(windows) {
        "PATH"
    } else if cfg!(target_os = "macos") {
        "DYLD_LIBRARY_PATH"
    } else {
        "LD_LIBRARY_PATH"
    };
    let listed = env::var_os(variable).unwrap_or_default();
    let usual = [
        "/usr/local/lib",
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/opt/homebrew/lib",
    ];
    env::split_paths(&listed)
        .chain(usual.into_iter().map(PathBuf::from))
        .find_map(|folder| newest_library(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_as_file_folder_and_wheel() {
        let folder = tempfile::tempdir().unwrap();
        let versioned = if cfg!(target_os = "linux") {
            "libonnxruntime.so.1.30.0"
        } else {
            LIBRARY
        };
        let capi = folder.path().join("onnxruntime/capi");
        fs::create_dir_all(&capi).unwrap();
        assert_eq!(library_in(folder.path()), None);
        let file = capi.join(versioned);
        fs::write(&file, "").unwrap();
        fs::write(capi.join("libonnxruntime_providers_shared.so"), "").unwrap();
        let expected = Some(fs::canonicalize(&file).unwrap());
        assert_eq!(library_in(&file), expected);
        assert_eq!(library_in(&capi), expected);
        assert_eq!(library_in(&folder.path().join("onnxruntime")), expected);
        assert_eq!(library_in(folder.path()), expected);
    }

    #[test]
    fn libraries_of_other_folders_are_not_looked_for() {
        // Tests run in the checkout.
        assert!(is_own_checkout(Path::new(".")));
        assert!(usual_places().contains(&PathBuf::from("runtime")));
        let other = tempfile::tempdir().unwrap();
        fs::write(
            other.path().join("Cargo.toml"),
            "[package]\nname = \"scorn\"\n",
        )
        .unwrap();
        assert!(!is_own_checkout(other.path()));
        assert!(!is_own_checkout(Path::new("/no/such/folder")));
    }

    #[test]
    fn the_page_of_backends_has_these_commands() {
        let backends = include_str!("../../../../docs/backends.md");
        for command in [
            INSTALL_COMMAND,
            OPENVINO_INSTALL_COMMAND,
            GPU_INSTALL_COMMAND,
            TENSORRT_INSTALL_COMMAND,
        ] {
            assert!(backends.contains(&format!("`{command}`")), "{command}");
        }
        // The provider was built for TensorRT 10.
        assert!(TENSORRT_INSTALL_COMMAND.contains("tensorrt-cu13<11"));
    }

    #[test]
    fn an_explicit_place_without_library_is_an_error_that_names_it() {
        let error = find("/nowhere/at/all").unwrap_err().to_string();
        assert!(
            error.contains("OnnxRuntimePath") && error.contains("/nowhere/at/all"),
            "{error}"
        );
    }
}
