//! Which backend evaluates which network: from the options to an [`Evaluator`].
//!
//! [`load_backend`] reads the network, makes the backend that `Backend` names (`auto` tries them from fast to slow), lets it
//! evaluate one position, so that a network that yields nonsense is found before a game.
//! A backend that was asked for by name is used or refused, never replaced.

use std::sync::Arc;

use super::{
    config::NetworkConfig,
    errors::LoadError,
    human,
    weights::{self, Network, WeightsError},
};
use crate::{
    chess::{History, moves::legal_moves},
    lc0::{ConvertOptions, DataType, OnnxModel, pack_input},
    network::{
        Advice, Batch, EvaluateError, Evaluator,
        backend::{
            hash::{HashEvaluator, is_hash},
            options::{BackendOptions, OptionsError},
            ort::{
                engine_cache::EngineCache,
                gpu, nvidia,
                plan::{SessionPlan, Target},
                runtime::Runtime,
                session, targets,
            },
            pool::{Label, MAX_SESSIONS, NetworkEvaluator, SessionFactory},
            rten::{self, RtenModel},
            sparse::SparseEvaluator,
        },
        compose::{
            multi::{Checked, Distribution, Multiplexer},
            role::human_rating,
        },
        cores,
        input::{Encoding, View, key::HistoryRead},
    },
    options::lc0::backend_of_lc0,
    sparse::{file, simd::Level},
};

/// The backends that evaluate a network on a device, in the order in which `auto` tries them.
pub const BACKENDS: [&str; 6] = ["sparse", "tensorrt", "cuda", "openvino", "onnx-cpu", "rten"];
/// Backends that have to be named, because nobody has tried them yet: those of other systems than Linux.
pub const UNTRIED_BACKENDS: [&str; 2] = ["directml", "coreml"];
/// The backends that need no network or combine others.
pub const OTHER_BACKENDS: [&str; 5] = ["auto", "hash", "multiplexing", "roundrobin", "check"];

/// The first that works.
const AUTO: &str = "auto";
/// The backend of sparse networks alone.
const SPARSE: &str = "sparse";

/// The largest difference that `check` lets pass, unless told otherwise.
const CHECK_TOLERANCE: f32 = 1e-3;

/// Told what takes long while a backend is loaded.
pub type Tell<'a> = &'a dyn Fn(&str);

/// The backend alone, at temperature 1: what takes long to load. `tell` hears what takes minutes, before it begins.
///
/// # Errors
/// When the network or the backend does not work; the message says what to do.
pub fn load_backend(
    config: &NetworkConfig,
    tell: Tell<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    load_for(config, false, tell)
}

/// What `Backend` names, taken only if `auto` would take it: nothing is built that takes minutes.
///
/// # Errors
/// As [`load_backend`], and where `auto` would leave the backend alone.
pub fn probe(config: &NetworkConfig) -> Result<Arc<dyn Evaluator>, LoadError> {
    load_for(config, true, &|_| {})
}

/// The backend, for the user who named it or as `auto` asks for it.
fn load_for(
    config: &NetworkConfig,
    is_automatic: bool,
    tell: Tell<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    if is_hash(&config.backend) {
        BackendOptions::parse(&config.backend_options)?;
        return Ok(Arc::new(HashEvaluator));
    }
    let Some(rating) = human_rating(&config.weights) else {
        return load_file(config, is_automatic, tell);
    };
    let mixture = human::mixture(rating).ok_or(WeightsError::NoBuiltIn)?;
    human::player(rating, mixture, |weights| {
        let config = NetworkConfig {
            weights,
            ..config.clone()
        };
        load_file(&config, is_automatic, tell)
    })
}

/// The backend for a network that is one file.
fn load_file(
    config: &NetworkConfig,
    is_automatic: bool,
    tell: Tell<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let options = BackendOptions::parse(&config.backend_options)?;
    if is(&config.backend, AUTO) || config.backend.is_empty() {
        return automatic(config, &options, tell);
    }
    if let Some(distribution) = distribution(&config.backend) {
        let children = children(config, &options, &[], tell)?;
        let multiplexer = Multiplexer::new(children, distribution);
        return Ok(Arc::new(
            multiplexer.ok_or_else(|| groups_needed(&config.backend))?,
        ));
    }
    if is(&config.backend, "check") {
        return checked(config, &options, tell);
    }
    let name = known_backend(&config.backend)?;
    let wanted = Wanted {
        is_automatic,
        ..Wanted::by_name(config, &options, tell)
    };
    backend(name, wanted)
}

fn distribution(name: &str) -> Option<Distribution> {
    match name.to_ascii_lowercase().as_str() {
        "multiplexing" => Some(Distribution::LeastBusy),
        "roundrobin" => Some(Distribution::RoundRobin),
        _ => None,
    }
}

fn checked(
    config: &NetworkConfig,
    options: &BackendOptions,
    tell: Tell<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let tolerance = options.fraction("tolerance")?.unwrap_or(CHECK_TOLERANCE);
    let mut children = children(config, options, &["tolerance"], tell)?.into_iter();
    match (children.next(), children.next(), children.next()) {
        (Some(first), Some(second), None) => Ok(Arc::new(Checked::new(first, second, tolerance))),
        _ => Err(groups_needed("check")),
    }
}

fn groups_needed(backend: &str) -> LoadError {
    let example = match backend {
        "check" => "cuda(gpu=0),onnx-cpu(),tolerance=0.01",
        _ => "backend=cuda,(gpu=0),(gpu=1)",
    };
    LoadError::GroupsNeeded {
        backend: backend.to_owned(),
        example,
    }
}

/// The backends that the groups of `options` name, by the group's name or its `backend` setting.
fn children(
    config: &NetworkConfig,
    options: &BackendOptions,
    own: &[&str],
    tell: Tell<'_>,
) -> Result<Vec<Arc<dyn Evaluator>>, LoadError> {
    let child = |(name, group): (&str, BackendOptions)| {
        let wanted = match child_backend(name, tell) {
            Ok(name) => name,
            Err(_) => child_backend(group.text("backend").unwrap_or(name), tell)?,
        };
        let settings = group.without(&[own, &["backend"]].concat());
        match wanted {
            AUTO => automatic(config, &settings, tell),
            wanted => backend(wanted, Wanted::by_name(config, &settings, tell)),
        }
    };
    options.groups().map(child).collect()
}

/// The backend that a group names: one of ours, or the nearest to one of lc0's, which is told.
fn child_backend(named: &str, tell: Tell<'_>) -> Result<&'static str, LoadError> {
    let Some(ours) = backend_of_lc0(named) else {
        return match is(named, AUTO) {
            true => Ok(AUTO),
            false => known_backend(named),
        };
    };
    if ours != AUTO {
        // Only devices can be combined.
        known_backend(ours)?;
    }
    tell(&format!("backend {named} is one of lc0: taking {ours}"));
    Ok(ours)
}

fn known_backend(wanted: &str) -> Result<&'static str, LoadError> {
    let mut names = BACKENDS.into_iter().chain(UNTRIED_BACKENDS);
    let name = names.find(|name| is(wanted, name));
    name.ok_or_else(|| LoadError::UnknownBackend {
        name: wanted.to_owned(),
        known: OTHER_BACKENDS
            .into_iter()
            .chain(BACKENDS)
            .chain(UNTRIED_BACKENDS)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

fn is(text: &str, name: &str) -> bool {
    text.eq_ignore_ascii_case(name)
}

/// The first backend that works. Only what is wrong with the network itself ends the attempts.
fn automatic(
    config: &NetworkConfig,
    options: &BackendOptions,
    tell: Tell<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let mut skipped: Vec<Skipped> = Vec::new();
    for name in BACKENDS {
        if name == SPARSE && !weights::is_sparse(&config.weights) {
            continue;
        }
        let note = match skipped.is_empty() {
            true => String::new(),
            // The reasons would not fit a line.
            false => format!("not used: {} (see scorn runtime)", names(&skipped)),
        };
        let wanted = Wanted {
            config,
            options,
            note,
            is_automatic: true,
            tell,
        };
        match backend(name, wanted) {
            Ok(evaluator) => return Ok(evaluator),
            Err(
                error @ (LoadError::Weights(
                    WeightsError::Network(_)
                    | WeightsError::Sparse { .. }
                    | WeightsError::NoBuiltIn
                    | WeightsError::NothingDiscovered { .. },
                )
                | LoadError::Evaluate(EvaluateError::NotFinite { .. })),
            ) => return Err(error),
            Err(error) => skipped.push(Skipped {
                name,
                reason: error.reason(),
            }),
        }
    }
    let reasons = skipped.chunk_by(|one, other| one.reason == other.reason);
    let reasons = reasons.map(|alike| format!("{} ({})", names(alike), alike[0].reason));
    let reasons: Vec<String> = reasons.collect();
    Err(LoadError::NothingWorks(reasons.join("; ")))
}

/// A backend that was not taken, and why.
struct Skipped {
    name: &'static str,
    reason: String,
}

fn names(skipped: &[Skipped]) -> String {
    let names: Vec<&str> = skipped.iter().map(|skipped| skipped.name).collect();
    names.join(", ")
}

/// What a backend is made from.
struct Wanted<'a> {
    config: &'a NetworkConfig,
    options: &'a BackendOptions,
    /// Why it is not another backend; may be empty.
    note: String,
    /// Whether `auto` asks.
    is_automatic: bool,
    tell: Tell<'a>,
}

impl<'a> Wanted<'a> {
    /// A backend that was asked for by its name.
    fn by_name(
        config: &'a NetworkConfig,
        options: &'a BackendOptions,
        tell: Tell<'a>,
    ) -> Wanted<'a> {
        Wanted {
            config,
            options,
            note: String::new(),
            is_automatic: false,
            tell,
        }
    }
}

/// One backend, checked with one position.
fn backend(name: &'static str, wanted: Wanted<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
    if name == SPARSE {
        let made = sparse(wanted.config, wanted.options, wanted.is_automatic)?;
        check(&made)?;
        return Ok(Arc::new(made));
    }
    let mut made = match name {
        "rten" => rten(wanted)?,
        _ => onnx(name, wanted)?,
    };
    let is_gpu = ["cuda", "tensorrt"].contains(&name);
    let checked = check(&made).and_then(|()| match is_gpu {
        true => advise(&mut made),
        false => Ok(()),
    });
    match checked {
        Ok(()) => Ok(Arc::new(made)),
        Err(EvaluateError::Backend { message, .. }) => {
            Err(refused(name, &made.label().network, message))
        }
        Err(error) => Err(error.into()),
    }
}

/// Sparse networks in integers.
fn sparse(
    config: &NetworkConfig,
    options: &BackendOptions,
    is_automatic: bool,
) -> Result<SparseEvaluator, LoadError> {
    let refusal = options.only(SPARSE, &[]);
    let note = match (&refusal, is_automatic) {
        (Ok(()), _) => "",
        // Settings of another backend are no reason to take that one, which is slower by far.
        (Err(OptionsError::Unknown { .. }), true) => "BackendOptions mean nothing to it",
        _ => {
            refusal?;
            ""
        }
    };
    let network = read(config, DataType::Float32)?;
    if !network.onnx.is_sparse {
        let message = "it is not a sparse network; those are made by \"scorn train\"".to_owned();
        return Err(refused(SPARSE, &network.name, message));
    }
    let integers = file::read(&network.onnx.bytes)
        .map_err(|error| refused(SPARSE, &network.name, error.to_string()))?;
    let level = Level::detect();
    let device = format!("CPU, {}", level.name());
    let label = label(SPARSE, &network, device, note.to_owned());
    let view = view(config, &network.onnx);
    Ok(SparseEvaluator::new(label, Arc::new(integers), view, level))
}

fn rten(wanted: Wanted<'_>) -> Result<NetworkEvaluator, LoadError> {
    let Wanted {
        config,
        options,
        note,
        ..
    } = wanted;
    options.only("rten", &["threads"])?;
    let threads = options.threads()?;
    let network = read(config, DataType::Float32)?;
    let refused = |message| refused("rten", &network.name, message);
    let model = RtenModel::load(&network.onnx).map_err(refused)?;
    let (encoding, view) = (Encoding::of(&network.onnx), view(config, &network.onnx));
    let device = format!("CPU, {threads} thread(s) a session");
    let factory: SessionFactory = Box::new(move || Ok(Box::new(model.session(threads))));
    let advice = Advice {
        threads: cores().div_ceil(threads),
        minibatch: 8,
        min_batch: 1,
    };
    let label = label("rten", &network, device, note);
    let sessions = session_counts(config, advice, MAX_SESSIONS);
    let evaluator = NetworkEvaluator::new(label, encoding, view, advice, sessions, factory);
    let mut evaluator = evaluator.map_err(refused)?;
    if threads == 1 {
        evaluator.set_host(rten::host);
    }
    Ok(evaluator)
}

/// What is common to the backends of ONNX Runtime.
fn onnx(name: &'static str, wanted: Wanted<'_>) -> Result<NetworkEvaluator, LoadError> {
    let config = wanted.config;
    targets::require_platform(name).map_err(|reason| LoadError::Unavailable {
        backend: name,
        reason,
    })?;
    let runtime = Runtime::open(&config.runtime_path);
    let runtime = runtime.map_err(|error| LoadError::Runtime {
        backend: name,
        error,
    })?;
    let setup = |error| LoadError::of_setup(name, error);
    let mut plan = targets::plan(name, &runtime, wanted.options).map_err(setup)?;
    let mut network = read_as(config, plan.data_type, plan.limits_squares)?;
    if plan.packed {
        network.onnx = packed(&network.onnx)?;
    }
    gpu::fit(&mut plan, wanted.options, &network.onnx).map_err(setup)?;
    if matches!(plan.settings.target, Target::TensorRt { .. }) {
        let tensorrt = nvidia::tensorrt_version(&runtime);
        let key = engine_key(&runtime.version(), &tensorrt, &plan);
        engines(&key, &mut plan, &network, &wanted)?;
    }
    let device = format!(
        "{}{}, ONNX Runtime {} at {}",
        plan.device,
        converted_to(plan.data_type, &network)?,
        runtime.version(),
        runtime.library().display()
    );
    let refused = |message| refused(name, &network.name, message);
    let (encoding, view) = (Encoding::of(&network.onnx), view(config, &network.onnx));
    let label = label(name, &network, device, wanted.note);
    let (model, settings) = (Arc::new(network.onnx), plan.settings);
    let factory: SessionFactory =
        Box::new(move || Ok(Box::new(session::create(&runtime, &model, &settings)?)));
    let sessions = session_counts(config, plan.advice, plan.max_sessions);
    let made = NetworkEvaluator::new(label, encoding, view, plan.advice, sessions, factory);
    made.map_err(refused)
}

/// The model with its planes as bits.
fn packed(model: &OnnxModel) -> Result<OnnxModel, LoadError> {
    let layout = Encoding::of(model).layout();
    if layout.scalar_planes.is_empty() {
        return Err(OptionsError::BadValue {
            key: "packed".into(),
            value: "true".into(),
            expected: "possible for this kind of network; it is for lc0's planes",
        }
        .into());
    }
    let packed = pack_input(model, layout.planes, layout.scalar_planes);
    Ok(packed.map_err(WeightsError::from)?)
}

/// Finds out by one batch which size suits the card.
fn advise(evaluator: &mut NetworkEvaluator) -> Result<(), EvaluateError> {
    let time = evaluator.time_of(gpu::TIMED_BATCH)?;
    evaluator.set_advice(Advice {
        threads: gpu::threads(time),
        minibatch: gpu::minibatch(time),
        min_batch: gpu::least_of(gpu::minibatch(time)),
    });
    Ok(())
}

/// What an engine depends on besides the network: the versions of ONNX Runtime and TensorRT, and of the plan the GPU, the
/// precision and the batch sizes.
fn engine_key(runtime: &str, tensorrt: &str, plan: &SessionPlan) -> String {
    let sizes = &plan.settings.batch_sizes;
    format!("{runtime} TensorRT {tensorrt} {} {sizes:?}", plan.device)
}

/// Finds the place of TensorRT's engines, and says so if they have to be built, which takes minutes. `auto` does not do that:
/// it leaves TensorRT alone until there is an engine.
fn engines(
    key: &str,
    plan: &mut SessionPlan,
    network: &Network,
    wanted: &Wanted<'_>,
) -> Result<(), LoadError> {
    let Target::TensorRt { cache, .. } = &mut plan.settings.target else {
        return Ok(());
    };
    let setup = |error| LoadError::of_setup("tensorrt", error);
    let engines = EngineCache::of(&network.onnx.bytes, key, cache).map_err(setup)?;
    let (name, folder) = (&network.name, engines.folder().display());
    match (engines.has_engine(), wanted.is_automatic) {
        (true, _) => {}
        (false, true) => {
            return Err(LoadError::Unavailable {
                backend: "tensorrt",
                reason: "its engine for this network is not built yet, which takes minutes; the first use of Backend tensorrt builds it"
                    .into(),
            });
        }
        (false, false) => (wanted.tell)(&format!(
            "building TensorRT's engine for {name}, which takes minutes and is done once; it is kept in {folder}"
        )),
    }
    engines.make().map_err(setup)?;
    *cache = engines.folder().to_string_lossy().into_owned();
    Ok(())
}

/// What is said about the type that weights were converted to.
fn converted_to(wanted: DataType, network: &Network) -> Result<&'static str, LoadError> {
    match wanted {
        DataType::Float32 => Ok(""),
        DataType::Float16 if network.is_converted => Ok(", fp16"),
        DataType::BFloat16 if network.is_converted => Ok(", bf16"),
        DataType::Int8 if network.is_converted => Ok(", int8"),
        // 16 bits are the usual choice on GPUs and no wish; 8 bits are one.
        DataType::Float16 | DataType::BFloat16 => Ok(", precision of the ONNX file"),
        DataType::Int8 => Err(OptionsError::BadValue {
            key: "precision".into(),
            value: "int8".into(),
            expected: "possible for ONNX networks, which keep theirs; it is for lc0's (.pb.gz)",
        }
        .into()),
    }
}

/// What a backend's complaint is about: the machine or the network.
fn refused(backend: &'static str, network: &str, message: String) -> LoadError {
    let missing = nvidia::what_is_missing(&message);
    match missing.or_else(|| targets::install_hint(backend, &message)) {
        Some(reason) => LoadError::Unavailable { backend, reason },
        None => LoadError::Refused {
            backend,
            network: network.to_owned(),
            message: message.trim().to_owned(),
        },
    }
}

fn read(config: &NetworkConfig, data_type: DataType) -> Result<Network, LoadError> {
    read_as(config, data_type, false)
}

/// The network, converted to a type, and whether squares have to fit into 16 bits.
fn read_as(
    config: &NetworkConfig,
    data_type: DataType,
    limits_squares: bool,
) -> Result<Network, LoadError> {
    let options = ConvertOptions {
        policy_head: config.policy_head.clone(),
        value_head: config.value_head.clone(),
        data_type,
        encoding: config.encoding,
        limits_squares,
        ..ConvertOptions::default()
    };
    Ok(weights::read(&config.weights, &options)?)
}

/// What the network sees of a position.
fn view(config: &NetworkConfig, model: &OnnxModel) -> View {
    View {
        encoding: Some(Encoding::of(model)),
        fill: config.fill,
        reads: match Encoding::of(model) {
            Encoding::Sparse => HistoryRead::BOARD,
            Encoding::AlphaZero(_) => HistoryRead::ALPHAZERO,
            Encoding::Lc0(format) => HistoryRead::of(format, model.planes_read),
        },
        swap_colors: false,
        moves_left: model.mlh.is_some(),
    }
}

fn label(backend: &'static str, network: &Network, device: String, note: String) -> Label {
    Label {
        backend,
        network: network.name.clone(),
        device,
        note,
    }
}

/// Sessions to make at once, and at most.
fn session_counts(config: &NetworkConfig, advice: Advice, limit: usize) -> (usize, usize) {
    let threads = match config.threads {
        0 => advice.threads,
        threads => threads,
    };
    (threads.min(cores()).min(limit), limit)
}

/// Evaluates the starting position: a first look at what the network says, which also warms the session up.
fn check(evaluator: &dyn Evaluator) -> Result<(), EvaluateError> {
    let game = History::default();
    let moves: Vec<_> = legal_moves(game.position()).collect();
    let mut batch = Batch::default();
    evaluator.view().queue(game.plies(), &moves, &mut batch);
    evaluator.evaluate(&mut batch)
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fs, path::Path};

    use super::*;
    use crate::{
        lc0::InputFormat,
        network::{
            backend::ort::runtime::{GPU_INSTALL_COMMAND, TENSORRT_INSTALL_COMMAND},
            compose::role::human_name,
        },
        options::Options,
    };

    fn network(bytes: &[u8]) -> Network {
        Network {
            onnx: OnnxModel {
                bytes: bytes.to_vec(),
                ..OnnxModel::empty(InputFormat::Classical112)
            },
            name: "some network".into(),
            sha256: String::new(),
            is_converted: true,
        }
    }

    fn tensorrt_plan(options: &str) -> SessionPlan {
        gpu::tensorrt(&BackendOptions::parse(options).unwrap()).unwrap()
    }

    /// Where the engines are kept of a network, of these versions of ONNX Runtime and TensorRT, with these settings.
    fn engine_folder(model: &[u8], runtime: &str, tensorrt: &str, options: &str) -> String {
        let plan = tensorrt_plan(options);
        let key = engine_key(runtime, tensorrt, &plan);
        let cache = EngineCache::of(model, &key, "engines").unwrap();
        cache.folder().to_string_lossy().into_owned()
    }

    #[test]
    fn an_engine_serves_nothing_but_what_it_was_built_for() {
        let usual = engine_folder(b"one", "1.31.1", "10.16.1.11", "");
        assert_eq!(
            engine_folder(b"one", "1.31.1", "10.16.1.11", "sessions=1"),
            usual
        );
        for (what, folder) in [
            ("network", engine_folder(b"two", "1.31.1", "10.16.1.11", "")),
            (
                "ONNX Runtime",
                engine_folder(b"one", "1.32.0", "10.16.1.11", ""),
            ),
            (
                "TensorRT",
                engine_folder(b"one", "1.31.1", "10.15.1.29", ""),
            ),
            (
                "GPU",
                engine_folder(b"one", "1.31.1", "10.16.1.11", "gpu=1"),
            ),
            (
                "precision",
                engine_folder(b"one", "1.31.1", "10.16.1.11", "precision=tf32"),
            ),
            (
                "sizes",
                engine_folder(b"one", "1.31.1", "10.16.1.11", "batch=1/16"),
            ),
        ] {
            assert_ne!(folder, usual, "{what}");
        }
    }

    /// Looks for TensorRT's engine in a folder: where it is kept, and what was told.
    fn look_for_engine(
        base: &Path,
        is_automatic: bool,
    ) -> (Result<String, LoadError>, Vec<String>) {
        let (config, options) = (
            NetworkConfig::from(&Options::default()),
            BackendOptions::default(),
        );
        let told = RefCell::new(Vec::new());
        let tell = |text: &str| told.borrow_mut().push(text.to_owned());
        let wanted = Wanted {
            is_automatic,
            ..Wanted::by_name(&config, &options, &tell)
        };
        let mut plan = tensorrt_plan(&format!("cache={}", base.display()));
        let found = engines("key", &mut plan, &network(b"model"), &wanted);
        let Target::TensorRt { cache, .. } = plan.settings.target else {
            panic!("another target");
        };
        let found = found.map(|()| cache);
        (found, told.into_inner())
    }

    #[test]
    fn engines_are_built_for_those_who_name_tensorrt_and_that_is_said() {
        let base = tempfile::tempdir().unwrap();
        let (found, told) = look_for_engine(base.path(), true);
        assert!(told.is_empty(), "{told:?}");
        let Err(LoadError::Unavailable { backend, reason }) = found else {
            panic!("{found:?}");
        };
        assert_eq!(backend, "tensorrt");
        assert!(
            reason.contains("not built yet") && reason.contains("Backend tensorrt builds it"),
            "{reason}"
        );
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);

        let (found, told) = look_for_engine(base.path(), false);
        let folder = found.unwrap();
        assert!(Path::new(&folder).starts_with(base.path()) && Path::new(&folder).is_dir());
        let [text] = &told[..] else {
            panic!("{told:?}")
        };
        for part in ["building", "some network", &folder] {
            assert!(text.contains(part), "{text}");
        }

        fs::write(Path::new(&folder).join("x_sm90.engine"), "built").unwrap();
        for is_automatic in [true, false] {
            let (found, told) = look_for_engine(base.path(), is_automatic);
            assert_eq!((found.unwrap(), told.len()), (folder.clone(), 0));
        }
    }

    #[test]
    fn a_probe_takes_what_auto_would_take() {
        // Settings of another backend keep a user from `sparse`, but not `auto`.
        let config = NetworkConfig {
            backend: SPARSE.into(),
            backend_options: "threads=2".into(),
            ..NetworkConfig::from(&Options::default())
        };
        if let Err(error) = probe(&config) {
            panic!("{error}");
        }
        assert!(load_backend(&config, &|_| {}).is_err());
    }

    #[test]
    fn groups_may_name_backends_as_lc0_does() {
        let load = |backend: &str, groups: &str| {
            let config = NetworkConfig {
                backend: backend.into(),
                backend_options: groups.into(),
                ..NetworkConfig::from(&Options::default())
            };
            let told = RefCell::new(Vec::new());
            let loaded = load_backend(&config, &|text| told.borrow_mut().push(text.to_owned()));
            (
                loaded.map(|loaded| loaded.info().description),
                told.into_inner(),
            )
        };
        let (described, told) = load("roundrobin", "blas(),(backend=Eigen),one(backend=auto)");
        assert_eq!(described.unwrap().matches("sparse (CPU").count(), 3);
        assert_eq!(
            told,
            ["blas", "Eigen"].map(|name| format!("backend {name} is one of lc0: taking auto"))
        );
        // Whether this machine has one or not, it is known.
        for name in ["cudnn", "onnx-trt"] {
            let (loaded, told) = load("multiplexing", &format!("(backend={name},gpu=77)"));
            assert!(!matches!(loaded, Err(LoadError::UnknownBackend { .. })));
            assert!(told[0].contains(name), "{told:?}");
        }
        for (backend, name) in [("multiplexing", "random"), ("multiplexing", "no-such")] {
            let (loaded, told) = load(backend, &format!("{name}()"));
            assert!(matches!(loaded, Err(LoadError::UnknownBackend { .. })));
            assert!(told.is_empty(), "{told:?}");
        }
    }

    #[test]
    fn a_library_that_is_missed_at_the_first_position_is_named_with_its_install_command() {
        for (backend, message, command) in [
            (
                "cuda",
                "Non-zero status code returned while running Conv node. Name:'/input/conv' Status Message: cuDNN is \
                 not available. Install cuDNN, update the system library search path, or set enable_cudnn=0 to \
                 force native CUDA paths where available.",
                GPU_INSTALL_COMMAND,
            ),
            (
                "tensorrt",
                "Failed to load library /runtime/libonnxruntime_providers_tensorrt.so with error: \
                 libnvonnxparser.so.10: cannot open shared object file: No such file or directory",
                TENSORRT_INSTALL_COMMAND,
            ),
        ] {
            let error = refused(backend, "some network", message.into());
            assert!(
                matches!(&error, LoadError::Unavailable { reason, .. } if reason.contains(command)),
                "{error}"
            );
        }
        let error = refused("cuda", "some network", "invalid graph".into());
        assert!(matches!(error, LoadError::Refused { .. }), "{error}");
    }

    #[test]
    fn a_gpu_has_few_sessions_however_many_threads_search() {
        let config = NetworkConfig {
            threads: 64,
            ..NetworkConfig::from(&Options::default())
        };
        for options in ["", "sessions=1", "sessions=4"] {
            let plan = gpu::cuda(&BackendOptions::parse(options).unwrap()).unwrap();
            let (at_once, most) = session_counts(&config, plan.advice, plan.max_sessions);
            assert_eq!(most, plan.max_sessions, "{options}");
            assert!(most <= 4 && (1..=most).contains(&at_once), "{options}");
        }
    }

    #[test]
    fn people_inside_the_program_play_on_the_backend_that_is_named() {
        let load_on = |backend: &str| {
            let config = NetworkConfig {
                weights: human_name(1300),
                backend: backend.into(),
                ..NetworkConfig::from(&Options::default())
            };
            load_backend(&config, &|_| {}).map(|evaluator| evaluator.info().description)
        };
        for (backend, taken) in [("auto", "sparse ("), ("rten", "rten (")] {
            let text = load_on(backend).unwrap();
            assert!(text.starts_with(taken), "{text}");
            assert!(text.contains("a player rated 1300"), "{text}");
        }
        let error = load_on("nosuch").unwrap_err();
        assert!(matches!(error, LoadError::UnknownBackend { .. }), "{error}");
    }
}
