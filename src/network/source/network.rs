//! Finding and reading network files: lc0's weights, ONNX models, the networks inside the program.
//!
//! A [`NetworkSource`] names a network. It is read and parsed once, when a backend first needs it, and converted to the
//! numeric type that each backend runs.

use std::{
    borrow::Cow,
    cell::OnceCell,
    env, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use thiserror::Error;

use super::{
    built_in::{self, BUILT_IN, BuiltIn},
    calibrate::{calibration_of, is_calibrated},
};
use crate::{
    hashing::sha256,
    lc0::{self, ConvertOptions, DataType, Net, OnnxModel, format::Structure},
    sparse::file::{self, FileError},
};

/// The value of `WeightsFile` that means the newest network file here or beside the executable.
pub const AUTODISCOVER: &str = "<autodiscover>";

/// Why a network cannot be read or converted.
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
    /// A name in angle brackets that no network inside the program has.
    #[error(
        "there is no built-in network {0}; the names are {names}",
        names = built_in::names()
    )]
    WrongBuiltIn(String),
    /// A name in which bytes that are not UTF-8 were replaced.
    #[error(
        "network {0}: there is no such file; its name has characters that are not UTF-8, which options must be: \
         rename the file"
    )]
    NotUtf8(String),
    /// The file is a sparse network that cannot be used.
    #[error("network {network}: {error}")]
    Sparse {
        /// The network's name.
        network: String,
        /// What is wrong.
        error: FileError,
    },
    /// The activation ranges that 8 bits need could not be found.
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
        /// The folders that were searched.
        folders: Vec<String>,
    },
}

/// A network as a backend runs it.
pub struct Network {
    /// The model.
    pub onnx: OnnxModel,
    /// The file's name.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Whether it was converted from lc0's weights, to the requested type. An ONNX model keeps its own.
    pub is_converted: bool,
}

/// The network that a value of `WeightsFile` names. The file is read when it is first needed, and kept for the next
/// backend.
pub struct NetworkSource {
    weights: String,
    parsed: OnceCell<ParsedNetwork>,
}

/// A network file, read and parsed.
struct ParsedNetwork {
    contents: Contents,
    name: String,
    /// For messages.
    path: PathBuf,
}

enum Contents {
    /// lc0's weights.
    Lc0(Box<Net>),
    /// The bytes of an ONNX model: a dense network, or a sparse one in that shape.
    Onnx(Cow<'static, [u8]>),
}

impl NetworkSource {
    /// The network that `weights` names: a file, one inside the program, or [`AUTODISCOVER`]. Nothing is read yet.
    pub fn new(weights: &str) -> NetworkSource {
        NetworkSource {
            weights: weights.trim().to_owned(),
            parsed: OnceCell::new(),
        }
    }

    /// Whether this is a sparse network. A file that cannot be read is none: [`convert`](NetworkSource::convert) says
    /// why.
    pub fn is_sparse(&self) -> bool {
        let parsed = self.parsed().ok();
        parsed.is_some_and(|parsed| match &parsed.contents {
            Contents::Lc0(_) => false,
            Contents::Onnx(bytes) => file::is_sparse(bytes),
        })
    }

    /// The network with the heads, encoding and numeric type of `options`.
    ///
    /// # Errors
    /// When there is no such file, it is not a network, or it lacks what `options` name; the message names the file.
    pub fn convert(&self, options: &ConvertOptions) -> Result<Network, WeightsError> {
        self.parsed()?.convert(options)
    }

    /// The network's name, if [`convert`](NetworkSource::convert) with these options lets it play games to find the
    /// ranges that 8 bits need: half a minute and more for large networks, once in a process.
    pub fn to_be_calibrated(&self, options: &ConvertOptions) -> Option<&str> {
        let parsed = self.parsed().ok()?;
        match &parsed.contents {
            Contents::Lc0(net) if options.data_type == DataType::Int8 && has_weights(net) => {
                (!is_calibrated(net, options)).then_some(&*parsed.name)
            }
            _ => None,
        }
    }

    fn parsed(&self) -> Result<&ParsedNetwork, WeightsError> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(parsed);
        }
        let parsed = match built_in::find(&self.weights) {
            Some(network) => ParsedNetwork::built_in(network)?,
            None => ParsedNetwork::read(file_of(&self.weights)?)?,
        };
        Ok(self.parsed.get_or_init(|| parsed))
    }
}

impl ParsedNetwork {
    fn built_in(network: BuiltIn) -> Result<ParsedNetwork, WeightsError> {
        let bytes = network.onnx().ok_or(WeightsError::NoBuiltIn)?;
        let made = match (network.rating, network.policy()) {
            (Some(rating), _) => Some(file::for_rating(bytes, rating)),
            (None, Some(policy)) => Some(file::with_policy(bytes, policy)),
            (None, None) => None,
        };
        let in_file = |error| WeightsError::Sparse {
            network: network.name.clone(),
            error,
        };
        let bytes = match made {
            Some(made) => made.map_err(in_file)?.into(),
            None => bytes.into(),
        };
        Ok(ParsedNetwork {
            contents: Contents::Onnx(bytes),
            name: network.name,
            path: BUILT_IN.into(),
        })
    }

    fn read(path: PathBuf) -> Result<ParsedNetwork, WeightsError> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(ParsedNetwork {
            name: name.to_string_lossy().into_owned(),
            contents: if is_onnx(&path) {
                Contents::Onnx(lc0::read_file(&path)?.into())
            } else {
                Contents::Lc0(Box::new(Net::load(&path)?))
            },
            path,
        })
    }

    fn convert(&self, options: &ConvertOptions) -> Result<Network, WeightsError> {
        match &self.contents {
            Contents::Lc0(net) => self.convert_lc0(net, options),
            Contents::Onnx(bytes) => self.take_onnx(bytes, options),
        }
    }

    fn convert_lc0(&self, net: &Net, options: &ConvertOptions) -> Result<Network, WeightsError> {
        let in_file = |error: lc0::NetError| WeightsError::from(error.in_file(&self.path));
        let is_converted = has_weights(net);
        let options = match options.data_type {
            _ if !is_converted => ConvertOptions {
                data_type: DataType::Float32,
                ..options.clone()
            },
            DataType::Int8 => calibrated(net, options).map_err(|error| match error.downcast() {
                Ok(error) => in_file(error),
                Err(error) => WeightsError::Calibration {
                    network: self.name.clone(),
                    error,
                },
            })?,
            _ => options.clone(),
        };
        Ok(Network {
            onnx: lc0::to_onnx(net, &options).map_err(in_file)?,
            name: self.name.clone(),
            sha256: net.sha256().to_owned(),
            is_converted,
        })
    }

    /// An ONNX model as it is: it keeps its heads and its precision.
    fn take_onnx(&self, bytes: &[u8], options: &ConvertOptions) -> Result<Network, WeightsError> {
        let in_file = |error: lc0::NetError| error.in_file(&self.path);
        lc0::check_heads(bytes, options).map_err(in_file)?;
        let onnx = if file::is_sparse(bytes) {
            file::model(bytes).map_err(|error| WeightsError::Sparse {
                network: self.path.display().to_string(),
                error,
            })?
        } else {
            lc0::read_onnx_as(bytes, options.encoding).map_err(in_file)?
        };
        Ok(Network {
            onnx,
            name: self.name.clone(),
            sha256: sha256(bytes),
            is_converted: false,
        })
    }
}

/// The file that `weights` names, if it is no network inside the program.
///
/// # Errors
/// When the newest file is wanted, and there is none, and when `weights` is in angle brackets and no network inside the
/// program.
pub fn file_of(weights: &str) -> Result<PathBuf, WeightsError> {
    match weights.trim() {
        AUTODISCOVER => discover(),
        path => {
            refuse_unknown_built_in(path)?;
            let file = PathBuf::from(path);
            if path.contains(char::REPLACEMENT_CHARACTER) && !file.exists() {
                Err(WeightsError::NotUtf8(path.to_owned()))
            } else {
                Ok(file)
            }
        }
    }
}

/// The path of a network that a command is given, with the newest file in place of [`AUTODISCOVER`].
///
/// # Errors
/// When the newest file is wanted, and there is none.
pub fn discovered(path: &Path) -> Result<PathBuf, WeightsError> {
    match path.to_str().map(str::trim) {
        Some(AUTODISCOVER) => discover(),
        _ => Ok(path.to_owned()),
    }
}

/// Checks that a name that is none of a network inside the program is not meant for one.
fn refuse_unknown_built_in(name: &str) -> Result<(), WeightsError> {
    if built_in::is_wrong_name(name) {
        Err(WeightsError::WrongBuiltIn(name.to_owned()))
    } else {
        Ok(())
    }
}

/// The ONNX model inside the program that `weights` names; `None` if it names none.
fn built_in_bytes(weights: &str) -> Result<Option<&'static [u8]>, WeightsError> {
    let bytes = built_in::bytes(weights);
    bytes
        .map(|bytes| bytes.ok_or(WeightsError::NoBuiltIn))
        .transpose()
}

/// The ONNX model inside the program that a path names; `None` if it names a file.
///
/// # Errors
/// When the path is in angle brackets and no such name, or the program was built without that network.
pub fn built_in_model(path: &Path) -> Result<Option<&'static [u8]>, WeightsError> {
    let Some(name) = path.to_str() else {
        return Ok(None);
    };
    let found = built_in_bytes(name)?;
    if found.is_none() {
        refuse_unknown_built_in(name)?;
    }
    Ok(found)
}

/// SHA-256 of the bytes of the network that `weights` names, in hexadecimal, wherever they are.
///
/// # Errors
/// When there is no such file.
pub fn sha256_of(weights: &str) -> Result<String, WeightsError> {
    match built_in_bytes(weights)? {
        Some(bytes) => Ok(sha256(bytes)),
        None => Ok(sha256(&lc0::read_file(&file_of(weights)?)?)),
    }
}

/// Whether a file is named as an ONNX model.
pub(super) fn is_onnx(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// Whether one of lc0's files has weights, rather than an ONNX model.
fn has_weights(net: &Net) -> bool {
    net.format().structure != Structure::Onnx
}

/// The options with the activation ranges that 8 bits need.
fn calibrated(net: &Net, options: &ConvertOptions) -> anyhow::Result<ConvertOptions> {
    Ok(ConvertOptions {
        calibration: Some(calibration_of(net, options)?),
        ..options.clone()
    })
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
    let networks = networks.filter(|entry| {
        if is_onnx(&entry.path()) {
            lc0::begins_like_onnx(&entry.path())
        } else {
            Net::begins_like_one(&entry.path())
        }
    });
    let dated = networks.filter_map(|entry| {
        // Of a link, the date of the file that it names.
        let changed = fs::metadata(entry.path()).ok()?.modified().ok()?;
        Some((changed, entry.path()))
    });
    dated.collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn the_newest_network_is_discovered() {
        let folder = tempfile::tempdir().unwrap();
        assert!(candidates(folder.path()).is_empty());
        let network = b"\x0d\xc0\x01\x00\x00\x12\x03GPL";
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(network).unwrap();
        let packed = packed.finish().unwrap();
        // Older ones come later: each is found once those before it are gone.
        let real: [(&str, &[u8]); 4] = [
            ("new.pb.gz", &packed),
            ("raw.pb", network),
            ("model.ONNX", b"\x08\x08\x12\x07pytorch"),
            ("unpacked.pb.gz", network),
        ];
        let others: [(&str, &[u8]); 5] = [
            ("notes.txt", b"text"),
            ("readme.onnx", b"readme"),
            ("empty.pb", b""),
            ("empty.onnx", b""),
            ("no network.pb.gz", &packed[..4]),
        ];
        for (age, (name, bytes)) in others.into_iter().chain(real).enumerate() {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let changed = SystemTime::now() - std::time::Duration::from_secs(60 * age as u64);
            let file = fs::File::options().append(true).open(path).unwrap();
            file.set_modified(changed).unwrap();
        }
        fs::create_dir(folder.path().join("models.onnx")).unwrap();
        #[cfg(unix)]
        assert!(
            std::process::Command::new("mkfifo")
                .arg(folder.path().join("pipe.pb"))
                .status()
                .is_ok_and(|made| made.success())
        );
        for (name, _) in real {
            let newest = candidates(folder.path()).into_iter().max().unwrap().1;
            assert!(newest.ends_with(name), "{newest:?}");
            fs::remove_file(newest).unwrap();
        }
        assert!(candidates(folder.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_as_old_as_its_file() {
        let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let network = |path: PathBuf, age: u64| {
            fs::write(&path, b"\x0d\xc0\x01\x00\x00\x12\x03GPL").unwrap();
            let changed = SystemTime::now() - std::time::Duration::from_secs(age);
            let file = fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(changed).unwrap();
            path
        };
        let old = network(elsewhere.path().join("old.pb"), 2000);
        network(folder.path().join("newer.pb"), 1000);
        std::os::unix::fs::symlink(old, folder.path().join("link.pb")).unwrap();
        let found = candidates(folder.path());
        assert_eq!(found.len(), 2);
        assert!(found.into_iter().max().unwrap().1.ends_with("newer.pb"));
    }

    #[test]
    fn what_is_not_a_network_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let error_of = |weights: &str| {
            let network = NetworkSource::new(weights);
            assert!(!network.is_sparse());
            let converted = network.convert(&ConvertOptions::default());
            converted.err().unwrap().to_string()
        };
        for name in ["broken.pb.gz", "broken.onnx"] {
            let path = folder.path().join(name);
            fs::write(&path, "no network at all").unwrap();
            let error = error_of(&path.to_string_lossy());
            assert!(error.contains(name), "{error}");
        }
        let error = error_of("/nowhere/x.pb.gz");
        assert!(error.contains("/nowhere/x.pb.gz"), "{error}");
        let error = error_of("/nowhere/\u{fffd}.pb.gz");
        assert!(error.contains("not UTF-8"), "{error}");
        for name in ["<built in human>", "<built-in odds>"] {
            let error = error_of(name);
            assert!(
                error.contains(name) && error.contains("<built in odds> and <built in human 1100>"),
                "{error}"
            );
        }
    }
}
