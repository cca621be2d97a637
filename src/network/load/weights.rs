//! Finding and reading network files: lc0's weights, ONNX models, the network inside the program.

use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
    time::SystemTime,
};

use thiserror::Error;

use super::{calibrate::calibrate, human};
use crate::{
    files,
    hashing::sha256,
    lc0::{self, ConvertOptions, DataType, Net, OnnxModel, format::Structure},
    network::{
        backend::hash::is_hash,
        compose::role::{Role, human_rating},
    },
    options::Options,
    sparse::file::{self, FileError},
};

/// The value of `WeightsFile` that means the network inside the program.
pub const BUILT_IN: &str = "<built in>";
/// The value of `WeightsFile` that means the dense network inside the program, which knows more and is slower.
pub const BUILT_IN_DENSE: &str = "<built in dense>";
/// The value of `WeightsFile` that means the sparse network inside the program, made for processors and the default.
pub const BUILT_IN_SPARSE: &str = "<built in sparse>";
/// The value of `WeightsFile` that means the newest network file here or beside the executable.
pub const AUTODISCOVER: &str = "<autodiscover>";

/// Why a network cannot be read.
#[derive(Debug, Error)]
pub enum WeightsError {
    /// The file is unusable.
    #[error(transparent)]
    Network(#[from] lc0::NetError),
    /// The program has no network of its own.
    #[error(
        "this build has no built-in network; set WeightsFile to an lc0 (.pb.gz) or ONNX network"
    )]
    NoBuiltIn,
    /// The file is a sparse network that cannot be used.
    #[error("network {network}: {error}")]
    Sparse {
        /// The network's name.
        network: String,
        /// What is wrong.
        error: FileError,
    },
    /// The ranges that 8 bits need could not be found.
    #[error("{network} cannot be calibrated for int8: {error:#}")]
    Calibration {
        /// The network's name.
        network: String,
        /// What is wrong.
        error: anyhow::Error,
    },
    /// There is no network file.
    #[error("no network (.pb.gz, .pb or .onnx) in {}; set WeightsFile", folders.join(" or "))]
    NothingDiscovered {
        /// Where it was looked for.
        folders: Vec<String>,
    },
}

/// A network, ready for a backend.
pub struct Network {
    /// The model.
    pub onnx: OnnxModel,
    /// The file's name.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Whether it was converted from lc0's weights, to the type that was asked for. An ONNX model is what it is.
    pub is_converted: bool,
}

/// The dense network inside the program.
#[cfg(scorn_embedded_network)]
static EMBEDDED: Option<&[u8]> = Some(include_bytes!("../../../networks/scorn-default.onnx"));
#[cfg(not(scorn_embedded_network))]
static EMBEDDED: Option<&[u8]> = None;

/// The sparse network inside the program.
#[cfg(scorn_embedded_sparse)]
static EMBEDDED_SPARSE: Option<&[u8]> = Some(include_bytes!("../../../networks/scorn-sparse.onnx"));
#[cfg(not(scorn_embedded_sparse))]
static EMBEDDED_SPARSE: Option<&[u8]> = None;

/// The bytes of the default network inside the program, an ONNX model: the sparse one, unless the program was built without it.
/// `None` if there is none at all.
fn embedded() -> Option<&'static [u8]> {
    EMBEDDED_SPARSE.or(EMBEDDED)
}

/// A network inside the program, if `weights` names one: its name and bytes, which are `None` if the program was built without
/// it.
fn built_in(weights: &str) -> Option<(&'static str, Option<&'static [u8]>)> {
    match weights {
        "" | BUILT_IN => Some(("built in", embedded())),
        BUILT_IN_DENSE => Some(("built in, dense", EMBEDDED)),
        BUILT_IN_SPARSE => Some(("built in, sparse", EMBEDDED_SPARSE)),
        _ => human::embedded(weights).map(|bytes| ("built in, human", bytes)),
    }
}

/// The bytes of the network inside the program that `weights` names: an ONNX model, or nothing if the program was built without
/// it. `None` if `weights` names something else.
pub fn inside(weights: &str) -> Option<Option<&'static [u8]>> {
    built_in(weights.trim()).map(|(_, bytes)| bytes)
}

/// What the network that `weights` names is: the SHA-256 of its bytes, wherever they lie; of a player between two networks those of
/// both.
///
/// # Errors
/// When there is no such file.
fn identity(weights: &str) -> Result<String, WeightsError> {
    if let Some(([low, high], share)) = human_rating(weights).and_then(human::mixture) {
        let [low, high] = [identity_of_file(&low)?, identity_of_file(&high)?];
        return Ok(format!("{low} and, for {share} of the policy, {high}"));
    }
    identity_of_file(weights)
}

/// What the networks that the options name are, one for each of [`Role::ALL`]; none where no network is asked.
///
/// # Errors
/// When there is no such file.
pub fn identities(options: &Options) -> Result<[Option<String>; 3], WeightsError> {
    let [main, opponent, refiner] = Role::ALL.map(|role| {
        let is_asked = role.is_wanted(options) && !is_hash(&options.backend);
        let named = role.weights(options).filter(|_| is_asked);
        named.map(|weights| identity(&weights)).transpose()
    });
    Ok([main?, opponent?, refiner?])
}

fn identity_of_file(weights: &str) -> Result<String, WeightsError> {
    match inside(weights) {
        Some(bytes) => Ok(sha256(bytes.ok_or(WeightsError::NoBuiltIn)?)),
        None => Ok(sha256(&lc0::read_file(&file_of(weights)?)?)),
    }
}

/// Whether `weights` names a sparse network. What cannot be read is none: [`read`] says why.
pub fn is_sparse(weights: &str) -> bool {
    let weights = weights.trim();
    if let Some((_, bytes)) = built_in(weights) {
        return bytes.is_some_and(file::is_sparse);
    }
    file_of(weights).is_ok_and(|path| {
        is_onnx(&path) && lc0::read_file(&path).is_ok_and(|bytes| file::is_sparse(&bytes))
    })
}

/// The file that `weights` names, if it is no network inside the program.
///
/// # Errors
/// When it is to be found, and there is none.
pub(super) fn file_of(weights: &str) -> Result<PathBuf, WeightsError> {
    match weights.trim() {
        AUTODISCOVER => discover(),
        path => Ok(PathBuf::from(path)),
    }
}

/// The files of the networks that the options name: what reads them must not write them.
pub fn files_of(options: &Options) -> Vec<PathBuf> {
    let named = Role::ALL
        .into_iter()
        .filter_map(|role| role.weights(options));
    let is_inside = |weights: &str| inside(weights).is_some() || human_rating(weights).is_some();
    named
        .filter(|weights| !is_inside(weights))
        .filter_map(|weights| file_of(&weights).ok())
        .collect()
}

/// Whether a file is named as an ONNX model.
pub(super) fn is_onnx(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// Reads the network that `weights` names: a file, [`BUILT_IN`] or [`AUTODISCOVER`].
///
/// # Errors
/// When there is no such file or it is not a network; the message names the file.
pub fn read(weights: &str, options: &ConvertOptions) -> Result<Network, WeightsError> {
    match built_in(weights.trim()) {
        Some((name, bytes)) => {
            let bytes = bytes.ok_or(WeightsError::NoBuiltIn)?;
            onnx_network(bytes, name.to_owned(), Path::new(BUILT_IN), options)
        }
        None => read_file(&file_of(weights)?, options),
    }
}

fn read_file(path: &Path, options: &ConvertOptions) -> Result<Network, WeightsError> {
    let in_file = |error: lc0::NetError| WeightsError::from(error.in_file(path));
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    if is_onnx(path) {
        let bytes = lc0::read_file(path)?;
        return onnx_network(&bytes, name, path, options);
    }
    let net = Net::load(path)?;
    let is_converted = net.format().structure != Structure::Onnx;
    let options = match options.data_type {
        _ if !is_converted => ConvertOptions {
            data_type: DataType::Float32,
            ..options.clone()
        },
        DataType::Int8 => calibrated(&net, options).map_err(|error| match error.downcast() {
            Ok(error) => in_file(error),
            Err(error) => WeightsError::Calibration {
                network: name.clone(),
                error,
            },
        })?,
        _ => options.clone(),
    };
    Ok(Network {
        onnx: lc0::to_onnx(&net, &options).map_err(in_file)?,
        name,
        sha256: net.sha256().to_owned(),
        is_converted,
    })
}

/// The options with the ranges that 8 bits need.
fn calibrated(net: &Net, options: &ConvertOptions) -> anyhow::Result<ConvertOptions> {
    let (model, tensors) = lc0::calibration_model(net, options)?;
    Ok(ConvertOptions {
        calibration: Some(calibrate(&model, &tensors)?),
        ..options.clone()
    })
}

/// An ONNX model as it is: it has the heads and the precision that it has.
fn onnx_network(
    bytes: &[u8],
    name: String,
    path: &Path,
    options: &ConvertOptions,
) -> Result<Network, WeightsError> {
    let in_file = |error: lc0::NetError| error.in_file(path);
    usual_heads(options).map_err(in_file)?;
    let onnx = if file::is_sparse(bytes) {
        file::model(bytes).map_err(|error| WeightsError::Sparse {
            network: path.display().to_string(),
            error,
        })?
    } else {
        lc0::read_onnx_as(bytes, options.encoding).map_err(in_file)?
    };
    Ok(Network {
        onnx,
        name,
        sha256: sha256(bytes),
        is_converted: false,
    })
}

/// An ONNX model has no choice of heads.
fn usual_heads(options: &ConvertOptions) -> Result<(), lc0::NetError> {
    for (option, head) in [
        ("PolicyHead", &options.policy_head),
        ("ValueHead", &options.value_head),
    ] {
        if let Some(head) = head {
            return Err(lc0::NetError::Unsupported {
                field: format!("{option} for an ONNX network"),
                found: head.clone(),
                expected: "empty, for such a network has one head of each kind".to_owned(),
            });
        }
    }
    Ok(())
}

/// The newest file that is named like a network and begins like one.
fn discover() -> Result<PathBuf, WeightsError> {
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()));
    let folders: Vec<PathBuf> = std::iter::once(PathBuf::from(".")).chain(beside).collect();
    let newest = folders.iter().flat_map(|folder| candidates(folder)).max();
    newest
        .map(|(_, path)| path)
        .ok_or_else(|| WeightsError::NothingDiscovered {
            folders: folders
                .iter()
                .map(|folder| folder.display().to_string())
                .collect(),
        })
}

fn candidates(folder: &Path) -> Vec<(SystemTime, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let networks = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().to_lowercase();
        [".pb.gz", ".pb", ".onnx"]
            .iter()
            .any(|ending| name.ends_with(ending))
    });
    let networks = networks.filter(|entry| is_onnx(&entry.path()) || is_begun(&entry.path()));
    let dated = networks.filter_map(|entry| {
        let changed = entry.metadata().ok()?.modified().ok()?;
        Some((changed, entry.path()))
    });
    dated.collect()
}

/// Whether a file, unpacked, begins like one of lc0's networks.
fn is_begun(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = files::open(path).map(|file| file.take(16).read_to_end(&mut start));
    matches!(read, Ok(Ok(_))) && Net::is_begun_by(&start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_network_is_discovered() {
        let folder = tempfile::tempdir().unwrap();
        assert!(candidates(folder.path()).is_empty());
        for (name, age) in [
            ("old.pb.gz", 90),
            ("notes.txt", 0),
            ("new.ONNX", 60),
            ("no network.pb", 30),
        ] {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            let changed = SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(changed).unwrap();
        }
        let newest = candidates(folder.path()).into_iter().max().unwrap().1;
        assert!(newest.ends_with("new.ONNX"));
    }

    #[test]
    fn what_is_not_a_network_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["broken.pb.gz", "broken.onnx"] {
            let path = folder.path().join(name);
            fs::write(&path, "no network at all").unwrap();
            let error = read(&path.to_string_lossy(), &ConvertOptions::default());
            let error = error.err().unwrap().to_string();
            assert!(error.contains(name), "{error}");
            let missing = read("/nowhere/x.pb.gz", &ConvertOptions::default());
            assert!(
                missing
                    .err()
                    .unwrap()
                    .to_string()
                    .contains("/nowhere/x.pb.gz")
            );
        }
    }
}
