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
    env,
    error::Error as StdError,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use ort::environment::Environment;
use parking_lot::Mutex;
use thiserror::Error;

use super::install::{InstallPlace, is_own_checkout, wheel_root};

/// The environment variable that names the library.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// The option that names it.
pub const LIBRARY_OPTION: &str = "OnnxRuntimePath";

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
    #[error(
        "{named_by}: there is no ONNX Runtime library ({LIBRARY}...) at {}{}",
        path.display(), correct_or_clear(Some(named_by))
    )]
    NotThere {
        /// The option or variable that names the place.
        named_by: &'static str,
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
    #[error(
        "ONNX Runtime at {} does not load ({}): {cause}; Scorn needs version 1.24 or newer{}",
        library.display(), found_by(*named_by), correct_or_clear(*named_by)
    )]
    Load {
        /// The library's file.
        library: PathBuf,
        /// The messages of all that took part.
        cause: String,
        /// The option or variable that names the library; `None` if it was searched for.
        named_by: Option<&'static str>,
    },
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

impl RuntimeError {
    /// The option or variable that names the library that cannot be used; `None` if none does.
    pub fn named_by(&self) -> Option<&'static str> {
        match self {
            RuntimeError::NotThere { named_by, .. } => Some(named_by),
            RuntimeError::Load { named_by, .. } => *named_by,
            RuntimeError::OtherLoaded { .. } => Some(LIBRARY_OPTION),
            RuntimeError::NotFound { .. } | RuntimeError::Start(_) => None,
        }
    }

    /// Where what is missing has to be installed.
    pub fn install_place(&self) -> InstallPlace {
        match self {
            RuntimeError::Load { library, .. } => InstallPlace::of(library, self.named_by()),
            _ => InstallPlace::usual(self.named_by()),
        }
    }
}

/// Where the path of a library came from.
fn found_by(named_by: Option<&str>) -> String {
    match named_by {
        Some(name) => format!("{name} names it"),
        None => "it is the first that was found".to_owned(),
    }
}

/// What to do about an option or variable that names the wrong place.
fn correct_or_clear(named_by: Option<&str>) -> String {
    match named_by {
        Some(name) => {
            format!("; correct or clear {name}: while it is set, no other place is searched")
        }
        None => String::new(),
    }
}

/// Why a library is not taken.
fn load_failure(error: &ort::LoadDynamicError) -> String {
    match error {
        ort::LoadDynamicError::Dlopen { error, .. } => with_causes(error),
        error => error.to_string(),
    }
}

/// An error of the loader with its causes: the first message alone does not say what is wrong.
fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// ONNX Runtime, loaded.
#[derive(Clone, Debug)]
pub struct Runtime {
    environment: Environment,
    library: PathBuf,
    /// The option or variable that names the library; `None` if it was searched for.
    named_by: Option<&'static str>,
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
        let (library, named_by) = find(explicit)?;
        let builder = ort::init_from(&library).map_err(|error| RuntimeError::Load {
            library: library.clone(),
            cause: load_failure(&error),
            named_by,
        })?;
        let start_error = |error: ort::Error| RuntimeError::Start(error.message().to_owned());
        let environment = builder.with_name("scorn").with_telemetry(false).build();
        let environment = environment.map_err(start_error)?;
        // Errors come back as errors; nothing else may write between the lines of the protocol.
        environment.set_log_level(ort::logging::LogLevel::Fatal);
        let runtime = Runtime {
            environment,
            library,
            named_by,
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
            (requested, _) if requested == self.library => Ok(self),
            (requested, _) => Err(RuntimeError::OtherLoaded {
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

    /// Where packages have to be installed that are used together with this library, or in its place.
    pub fn install_place(&self) -> InstallPlace {
        InstallPlace::of(&self.library, self.named_by)
    }

    /// The library's version, as far as its file name, the wheel that it is from or its build tells.
    pub fn version(&self) -> String {
        let from_build = || ort::info().split("rel-").nth(1)?.split([',', ' ']).next();
        version_of(&self.library)
            .or_else(|| from_build().map(str::to_owned))
            .unwrap_or_else(|| "unknown version".to_owned())
    }
}

/// A library, and the option or variable that names it, if one does.
type FoundLibrary = (PathBuf, Option<&'static str>);

/// The library's file, made absolute.
fn find(explicit: &str) -> Result<FoundLibrary, RuntimeError> {
    if !explicit.is_empty() {
        return named(LIBRARY_OPTION, Path::new(explicit));
    }
    if let Some(path) = env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
        return named(LIBRARY_VARIABLE, Path::new(&path));
    }
    let mut searched = Vec::new();
    for place in usual_places() {
        if let Some(library) = library_in(&place) {
            return Ok((library, None));
        }
        searched.push(place.display().to_string());
    }
    let library = system_library().ok_or_else(|| RuntimeError::NotFound {
        searched: format!("{}, the system's library path", searched.join(", ")),
    })?;
    Ok((library, None))
}

fn named(named_by: &'static str, path: &Path) -> Result<FoundLibrary, RuntimeError> {
    let library = library_in(path).ok_or_else(|| RuntimeError::NotThere {
        named_by,
        path: path.to_owned(),
    })?;
    Ok((library, Some(named_by)))
}

/// Folders that are searched without being named: beside the executable, `runtime` there and in the program's folder
/// among the user's data.
pub fn usual_places() -> Vec<PathBuf> {
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()));
    let mut places = Vec::new();
    if let Some(folder) = beside {
        places.push(folder.clone());
        places.push(folder.join("runtime"));
    }
    let data = dirs::data_local_dir().map(|data| data.join("scorn").join("runtime"));
    places.extend(data);
    if is_own_checkout(Path::new(".")) {
        places.push(PathBuf::from("runtime"));
    }
    places
}

/// The library at a place: the file itself, or in a folder or wheel.
fn library_in(place: &Path) -> Option<PathBuf> {
    if place.is_file() {
        return dunce::canonicalize(place).ok();
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
        .and_then(|library| dunce::canonicalize(library).ok())
}

/// The library in one folder: the last version, where a full one beats a link that names less of it.
fn newest_library(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let paths = entries.flatten().map(|entry| entry.path());
    let libraries = paths.filter_map(|path| {
        let version = version_in_name(&path.file_name()?.to_string_lossy())?;
        Some((version, path))
    });
    libraries.max().map(|(_, path)| path)
}

/// The numbers of the version in the name of a library, such as `libonnxruntime.so.1.32.0` (there may be none);
/// `None` if the name is another.
fn version_in_name(name: &str) -> Option<Vec<u32>> {
    // libonnxruntime.1.32.0.dylib
    let (start, end) = match LIBRARY.strip_suffix(".dylib") {
        Some(stem) => (stem, ".dylib"),
        None => (LIBRARY, ""),
    };
    let numbers = name.strip_prefix(start)?.strip_suffix(end)?;
    if numbers.is_empty() {
        return Some(Vec::new());
    }
    let numbers = numbers.strip_prefix('.')?.split('.');
    numbers.map(|number| number.parse().ok()).collect()
}

/// The version in the name of a library, or, where that has none (on Windows), of the wheel that the library is from.
fn version_of(library: &Path) -> Option<String> {
    let numbers = version_in_name(&library.file_name()?.to_string_lossy())?;
    if !numbers.is_empty() {
        let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
        return Some(numbers.join("."));
    }
    let entries = fs::read_dir(wheel_root(library)?).ok()?;
    let wheels = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (package, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
        // The packages of plug-ins, such as onnxruntime_ep_openvino, have versions of their own.
        let has_library = package.starts_with("onnxruntime") && !package.contains("_ep_");
        has_library.then(|| version.to_owned())
    });
    wheels.max()
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
        .and_then(|library| dunce::canonicalize(library).ok())
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
        let expected = Some(dunce::canonicalize(&file).unwrap());
        assert_eq!(library_in(&file), expected);
        assert_eq!(library_in(&capi), expected);
        assert_eq!(library_in(&folder.path().join("onnxruntime")), expected);
        assert_eq!(library_in(folder.path()), expected);
    }

    #[test]
    fn versions_are_in_names_or_those_of_wheels() {
        let folder = tempfile::tempdir().unwrap();
        let capi = folder.path().join("onnxruntime").join("capi");
        fs::create_dir_all(&capi).unwrap();
        let library = capi.join(LIBRARY);
        assert_eq!(version_of(&library), None);
        for wheel in [
            "onnxruntime_ep_openvino-2.0.0",
            "onnxruntime_gpu-1.32.0",
            "numpy-3.0.0",
        ] {
            fs::create_dir(folder.path().join(format!("{wheel}.dist-info"))).unwrap();
        }
        assert_eq!(version_of(&library).as_deref(), Some("1.32.0"));
        let numbered = match LIBRARY.strip_suffix(".dylib") {
            Some(stem) => format!("{stem}.1.30.0.dylib"),
            None => format!("{LIBRARY}.1.30.0"),
        };
        assert_eq!(version_of(&capi.join(numbered)).as_deref(), Some("1.30.0"));
        assert_eq!(version_of(&folder.path().join(LIBRARY)), None);
    }

    #[test]
    fn the_last_version_is_taken_and_nothing_that_is_no_library() {
        let folder = tempfile::tempdir().unwrap();
        let name = |version: &str| match LIBRARY.strip_suffix(".dylib") {
            Some(stem) => format!("{stem}{version}.dylib"),
            None => format!("{LIBRARY}{version}"),
        };
        let versions = ["", ".1", ".1.9.1", ".1.32.0", ".1.4.12345"].map(name);
        let others = [".1.32.0.bak", ".1.33.0-dev", ".old", "_providers_shared.so"].map(name);
        for name in versions.iter().chain(&others) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let newest = newest_library(folder.path()).unwrap();
        assert!(newest.ends_with(name(".1.32.0")), "{}", newest.display());
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
    fn an_explicit_place_without_library_is_an_error_that_names_it() {
        let error = find("/nowhere/at/all").unwrap_err().to_string();
        assert!(
            error.contains("OnnxRuntimePath") && error.contains("/nowhere/at/all"),
            "{error}"
        );
        assert!(error.contains("clear OnnxRuntimePath"), "{error}");
    }

    #[test]
    fn a_library_that_does_not_load_is_reported_with_the_cause_and_where_its_path_came_from() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("lib.so");
        fs::write(&library, "").unwrap();
        let cause = with_causes(&ort::util::preload_dylib(&library).unwrap_err());
        let loader = cause.rsplit("dlopen failed: ").next().unwrap();
        if cfg!(target_os = "linux") {
            assert!(loader.contains("file too short"), "{cause}");
        }
        for (named_by, part) in [
            (Some(LIBRARY_VARIABLE), "ORT_DYLIB_PATH names it"),
            (Some(LIBRARY_OPTION), "clear OnnxRuntimePath"),
            (None, "the first that was found"),
        ] {
            let error = RuntimeError::Load {
                library: library.clone(),
                cause: cause.clone(),
                named_by,
            };
            assert_eq!(error.named_by(), named_by);
            let error = error.to_string();
            for part in [part, loader, &*library.to_string_lossy()] {
                assert!(error.contains(part), "{error}");
            }
            assert_eq!(error.contains("clear"), named_by.is_some(), "{error}");
        }
    }
}
