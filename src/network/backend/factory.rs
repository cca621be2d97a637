//! What a backend is to the rest of the program: a [`BackendFactory`], which describes the backend and makes an
//! [`Evaluator`] from a network.
//!
//! Everything that depends on which backends there are (the order of `auto`, the help of the option `Backend`, `scorn
//! runtime`, `tune` and `backendbench`, lc0's names, the tables in `docs/backends.md`) is derived from the list of
//! factories, [`BACKENDS`](super::BACKENDS).

use std::sync::Arc;

use super::{
    error::LoadError,
    options::{BackendOptions, BackendOptionsError, Setting},
    ort::{
        install::InstallPlace,
        runtime::{Runtime, RuntimeError},
    },
    pool::Label,
};
use crate::{
    chess::{History, moves::legal_moves},
    lc0::{ConvertOptions, DataType, OnnxModel, Operators},
    network::{
        Batch, EvaluateError, Evaluator,
        input::{Encoding, View, key::HistoryRead},
        source::{Network, NetworkSource},
    },
    options::HistoryFill,
    sparse::features::PAST_MOVES,
};

/// Reports what takes minutes, before it begins, and what does not work and is replaced by something else.
pub type ReportProgress<'a> = &'a dyn Fn(&str);

/// A value of the option `Backend`: what it is, and how it becomes an evaluator.
pub trait BackendFactory: Sync {
    /// Name, documentation and settings.
    fn info(&self) -> &BackendInfo;

    /// Makes an evaluator for the network of the request, and lets it evaluate one position, so that a network or a
    /// device that does not work is found before a game.
    ///
    /// # Errors
    /// When the settings are wrong, the machine lacks what the backend needs, or the backend cannot run the network;
    /// the message says what to do.
    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError>;

    /// Whether `auto` tries this backend for a network; it need not be read to the end for that.
    fn is_meant_for(&self, _network: &NetworkSource) -> bool {
        true
    }

    /// The devices that the backend finds on this machine, a line each, for `scorn runtime`.
    fn devices(&self, _machine: &Machine) -> Vec<String> {
        Vec::new()
    }

    /// What to install so that the backend works, if a library is missing.
    fn install_hint(&self, _machine: &Machine) -> Option<InstallHint> {
        None
    }
}

/// What holds for a backend whatever the network and the machine.
#[derive(Debug)]
pub struct BackendInfo {
    /// The value of the option `Backend`, in lower case.
    pub name: &'static str,
    /// What lc0 calls this backend, or those of its backends that are nearest to this one.
    pub lc0_names: &'static [&'static str],
    /// Its part in the choice and combination of backends.
    pub kind: BackendKind,
    /// A few words for the help of the option `Backend`.
    pub summary: &'static str,
    /// The paragraph in `docs/backends.md`, in Markdown, without line breaks.
    pub documentation: &'static str,
    /// What has to be there, in Markdown; empty if nothing has to.
    pub requirements: &'static str,
    /// The command that installs ONNX Runtime with what this backend needs of it; `None` if it needs none.
    pub install_command: Option<&'static str>,
    /// The keys in `BackendOptions`.
    pub settings: &'static [Setting],
}

/// The part of a backend in the choice and combination of backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Evaluates a network on a device. `auto` tries the automatic ones in the order of the list; the others have to be
    /// named.
    Device {
        /// Whether `auto` tries it.
        is_automatic: bool,
    },
    /// Takes the first device that works.
    Choice,
    /// Combines devices that `BackendOptions` name.
    Combination,
    /// Evaluates no network.
    WithoutNetwork,
}

/// The name of the backend for sparse networks, the only one that tells a network who is to move.
pub const SPARSE: &str = "sparse";

/// Something that could be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallHint {
    /// What for.
    pub purpose: &'static str,
    /// The command, with the folder.
    pub command: String,
}

/// What was found on this machine.
pub struct Machine {
    /// ONNX Runtime, or why it cannot be used.
    pub runtime: Result<Runtime, RuntimeError>,
}

/// A network, and how it is to be run.
#[derive(Clone)]
pub struct BackendRequest<'a> {
    /// The network.
    pub network: &'a NetworkSource,
    /// Heads and encoding of the network; each backend chooses the numeric type itself.
    pub conversion: &'a ConvertOptions,
    /// `BackendOptions`, or one of its groups.
    pub options: &'a BackendOptions,
    /// `OnnxRuntimePath`; empty if it is to be found.
    pub runtime_path: &'a str,
    /// `HistoryFill`.
    pub fill: HistoryFill,
    /// Search threads; 0 leaves their number to the backend's advice.
    pub threads: usize,
    /// Whether `auto` tries this backend, rather than a user naming it: nothing is built that takes minutes then.
    pub is_automatic: bool,
    /// Whether it is a member of a combination, which passes on batches alone.
    pub is_combined: bool,
    /// Why it is not another backend, for the evaluator's description; may be empty.
    pub note: String,
    /// All backends, from which those that choose or combine take theirs.
    pub backends: &'a [&'a dyn BackendFactory],
    /// Reports what takes minutes, or is replaced.
    pub report_progress: ReportProgress<'a>,
}

impl BackendRequest<'_> {
    /// The network with weights of this type and these operators. `limits_squares` is whether squares have to fit into
    /// 16 bits.
    ///
    /// # Errors
    /// When there is no such network, or it lacks what the options name.
    pub fn network_as(
        &self,
        data_type: DataType,
        limits_squares: bool,
        operators: Operators,
    ) -> Result<Network, LoadError> {
        let options = ConvertOptions {
            data_type,
            operators,
            limits_squares,
            ..self.conversion.clone()
        };
        if let Some(name) = self.network.to_be_calibrated(&options) {
            (self.report_progress)(&format!(
                "calibrating {name} for int8 by games against itself, which takes half a minute or more for large \
                 networks; scorn convert --data-type int8 does it once"
            ));
        }
        Ok(self.network.convert(&options)?)
    }

    /// What the model sees of a position.
    pub fn view(&self, model: &OnnxModel) -> View {
        let encoding = Encoding::of(model);
        View {
            encoding: Some(encoding),
            fill: self.fill,
            reads: match encoding {
                Encoding::Sparse(set) if set.has_history() => HistoryRead::boards(1 + PAST_MOVES),
                Encoding::Sparse(_) => HistoryRead::BOARD,
                Encoding::AlphaZero(_) => HistoryRead::ALPHAZERO,
                Encoding::Lc0(format) => HistoryRead::of(format, model.planes_read),
            },
            swap_colors: false,
            moves_left: model.mlh.is_some(),
        }
    }

    /// The description of an evaluator that was made for this request.
    pub fn label(&self, backend: &BackendInfo, network: &Network, device: String) -> Label {
        let reads_mover = network.onnx.sparse.is_some_and(|model| model.reads_mover);
        let mover_note = if !reads_mover {
            None
        } else if self.is_combined {
            Some(
                "in a combination of backends it is not told whether the engine or its opponent is to move",
            )
        } else if !backend.is_named(SPARSE) {
            Some(
                "it is not told whether the engine or its opponent is to move, which only the backend sparse passes on",
            )
        } else {
            None
        };
        let notes = [(!self.note.is_empty()).then_some(&*self.note), mover_note];
        Label {
            backend: backend.name,
            network: network.name.clone(),
            device,
            note: notes.into_iter().flatten().collect::<Vec<_>>().join("; "),
        }
    }
}

impl BackendInfo {
    /// Whether this is the backend that the option `Backend` calls `name`, in any case.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.trim())
    }

    /// Whether lc0 calls this backend `name`, and we do not.
    pub fn is_named_by_lc0(&self, name: &str) -> bool {
        let mut names = self.lc0_names.iter();
        names.any(|known| known.eq_ignore_ascii_case(name.trim()))
    }

    /// The message that this backend is taken where lc0's backend `name` was given.
    pub fn replaces_lc0(&self, name: &str) -> String {
        format!(
            "'{}' is a backend of lc0; Scorn uses {} instead",
            name.trim(),
            self.name
        )
    }

    /// Whether `auto` tries this backend.
    pub fn is_automatic(&self) -> bool {
        self.kind == BackendKind::Device { is_automatic: true }
    }

    /// Whether this backend evaluates a network.
    pub fn needs_network(&self) -> bool {
        self.kind != BackendKind::WithoutNetwork
    }

    /// Whether several of this backend can be combined.
    pub fn is_combinable(&self) -> bool {
        matches!(self.kind, BackendKind::Device { .. } | BackendKind::Choice)
    }

    /// Refuses settings that this backend does not have, and groups.
    ///
    /// # Errors
    /// Names the first of them, and the settings that there are.
    pub fn check_settings(&self, options: &BackendOptions) -> Result<(), BackendOptionsError> {
        let keys: Vec<&str> = self.settings.iter().map(|setting| setting.key).collect();
        options.only(self.name, &keys)
    }

    /// The settings among `options` that this backend does not have; `backends` are all that there are.
    pub fn unused_settings(
        &self,
        options: &BackendOptions,
        backends: &[&dyn BackendFactory],
    ) -> Vec<&'static str> {
        let mut keys = all_settings(backends);
        keys.retain(|&key| {
            let is_own = self.settings.iter().any(|setting| setting.key == key);
            options.text(key).is_some() && !is_own
        });
        keys
    }

    /// The error that the backend lacks a device or a library: `reason` is what, and how to get it.
    pub fn unavailable(&self, reason: String) -> LoadError {
        LoadError::Unavailable {
            backend: self.name,
            reason,
        }
    }

    /// The error that the backend cannot run the network, with the message of its library.
    pub fn refused(&self, network: &str, message: &str) -> LoadError {
        LoadError::Refused {
            backend: self.name,
            network: network.to_owned(),
            message: message.trim().to_owned(),
        }
    }
}

impl Machine {
    /// Looks for ONNX Runtime, at `runtime_path` if that is not empty.
    pub fn inspect(runtime_path: &str) -> Machine {
        Machine {
            runtime: Runtime::open(runtime_path),
        }
    }

    /// Where what is missing has to be installed.
    pub fn install_place(&self) -> InstallPlace {
        match &self.runtime {
            Ok(runtime) => runtime.install_place(),
            Err(error) => error.install_place(),
        }
    }
}

/// Refuses settings that none of these backends has, and groups: a mistyped setting would change nothing. `backend`
/// is the one that leaves the choice among the others.
///
/// # Errors
/// Names the first of them, and all settings that there are.
pub fn check_settings_of_any(
    backend: &str,
    options: &BackendOptions,
    backends: &[&dyn BackendFactory],
) -> Result<(), BackendOptionsError> {
    let checked = options.only(backend, &all_settings(backends));
    checked.map_err(|error| match error {
        BackendOptionsError::Unknown { key, known, .. } => {
            BackendOptionsError::UnknownToAll { key, known }
        }
        error => error,
    })
}

/// The settings of these backends, each once.
fn all_settings(backends: &[&dyn BackendFactory]) -> Vec<&'static str> {
    let mut keys = Vec::new();
    for setting in backends.iter().flat_map(|factory| factory.info().settings) {
        if !keys.contains(&setting.key) {
            keys.push(setting.key);
        }
    }
    keys
}

/// The error that there is no backend of this name; `known` are those that exist.
pub fn unknown_backend<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a dyn BackendFactory>,
) -> LoadError {
    LoadError::UnknownBackend {
        name: name.to_owned(),
        known: names_of(known),
    }
}

/// The names of backends, for errors.
pub fn names_of<'a>(backends: impl IntoIterator<Item = &'a dyn BackendFactory>) -> String {
    let names = backends.into_iter().map(|factory| factory.info().name);
    names.collect::<Vec<_>>().join(", ")
}

/// Evaluates the starting position: finds networks whose output is not finite, and warms the evaluator up.
///
/// # Errors
/// What the evaluator reports.
pub fn evaluate_start(evaluator: &dyn Evaluator) -> Result<(), EvaluateError> {
    let game = History::default();
    let moves: Vec<_> = legal_moves(game.position()).collect();
    let mut batch = Batch::default();
    evaluator.view().queue(game.plies(), &moves, &mut batch);
    evaluator.evaluate(&mut batch)
}

/// For tests: what `create` makes of a request for a network, with these `BackendOptions` and the defaults for the
/// rest, and what was reported meanwhile.
#[cfg(test)]
pub(super) fn with_request<T>(
    weights: &str,
    options: &BackendOptions,
    create: impl FnOnce(BackendRequest<'_>) -> T,
) -> (T, Vec<String>) {
    let reported = std::cell::RefCell::new(Vec::new());
    let made = create(BackendRequest {
        network: &NetworkSource::new(weights),
        conversion: &ConvertOptions::default(),
        options,
        runtime_path: "",
        fill: HistoryFill::No,
        threads: 1,
        is_automatic: false,
        is_combined: false,
        note: String::new(),
        backends: &[],
        report_progress: &|text| reported.borrow_mut().push(text.to_owned()),
    });
    (made, reported.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::shared;

    #[test]
    fn a_calibration_is_announced_before_it_begins_and_made_once() {
        let Some(path) = shared("nets/synth-conv-wdl-mlh.pb.gz") else {
            return;
        };
        let convert = |data_type| {
            let (network, reported) = with_request(
                &path.to_string_lossy(),
                &BackendOptions::default(),
                |request| request.network_as(data_type, false, Operators::Standard),
            );
            network.unwrap();
            reported
        };
        assert!(convert(DataType::Float32).is_empty());
        let reported = convert(DataType::Int8);
        let [text] = &reported[..] else {
            panic!("{reported:?}")
        };
        for part in ["calibrating synth-conv-wdl-mlh.pb.gz", "scorn convert"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(convert(DataType::Int8).is_empty());
    }
}
