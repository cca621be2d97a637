//! From a request to an evaluator: what the backends of ONNX Runtime have in common. `create` lists the steps; what
//! differs between the backends is in the `OrtBackend` that each has in a file of its own.

use std::sync::Arc;

use super::{
    plan::{BackendSetupError, GraphForm, Packing, SessionPlan},
    runtime::Runtime,
    session,
};
use crate::{
    chess::{
        History,
        moves::{MAX_MOVES, legal_moves},
    },
    lc0::{DataType, OnnxModel, Operators, gather_legal_moves, pack_input},
    network::{
        Batch, EvaluateError, Evaluator,
        backend::{
            combine::Checked,
            error::LoadError,
            factory::{BackendFactory, BackendInfo, BackendRequest, evaluate_start},
            options::{BackendOptions, OptionsError},
            pool::{NetworkEvaluator, SessionFactory, session_counts},
        },
        input::Encoding,
        source::{Network, WeightsError},
    },
};

/// What distinguishes one backend of ONNX Runtime from the others.
pub(super) trait OrtBackend: BackendFactory {
    /// Refuses systems on which the backend cannot work, whatever is installed; the text gives the reason.
    fn check_platform(&self) -> Result<(), String> {
        Ok(())
    }

    /// Checks devices and settings, and plans the sessions.
    fn plan(
        &self,
        runtime: &Runtime,
        options: &BackendOptions,
    ) -> Result<SessionPlan, BackendSetupError>;

    /// Fits the plan to the network, once that is read.
    fn fit(
        &self,
        _plan: &mut SessionPlan,
        _network: &Network,
        _runtime: &Runtime,
        _request: &BackendRequest<'_>,
    ) -> Result<(), BackendSetupError> {
        Ok(())
    }

    /// Measures the device and changes the evaluator's advice.
    fn tune(&self, _evaluator: &mut NetworkEvaluator) -> Result<(), EvaluateError> {
        Ok(())
    }

    /// What is missing on this machine and how to get it, if that is what a message of ONNX Runtime is about.
    fn explain(&self, _message: &str) -> Option<String> {
        None
    }
}

/// Makes the evaluator of a backend.
pub(super) fn create(
    backend: &dyn OrtBackend,
    request: &BackendRequest<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let info = backend.info();
    backend
        .check_platform()
        .map_err(|reason| info.unavailable(reason))?;
    let runtime = open_runtime(info, request)?;
    info.check_settings(request.options)?;
    let mut plan = backend
        .plan(&runtime, request.options)
        .map_err(|error| setup_failed(info, error))?;
    if !(plan.graph == GraphForm::Fused && plan.may_fall_back) {
        return Ok(Arc::new(load(backend, plan, &runtime, request)?));
    }
    let plain = SessionPlan {
        graph: GraphForm::Plain,
        ..plan.clone()
    };
    match load_checked(backend, plan, &plain, &runtime, request) {
        Err(error @ (LoadError::Refused { .. } | LoadError::Evaluate(_))) => {
            (request.report_progress)(&format!("{error}; taking BackendOptions graph=plain"));
            plan = plain;
        }
        result => return result,
    }
    Ok(Arc::new(load(backend, plan, &runtime, request)?))
}

/// Loads the network by a plan.
fn load(
    backend: &dyn OrtBackend,
    mut plan: SessionPlan,
    runtime: &Runtime,
    request: &BackendRequest<'_>,
) -> Result<NetworkEvaluator, LoadError> {
    let info = backend.info();
    let network = convert(&plan, request)?;
    backend
        .fit(&mut plan, &network, runtime, request)
        .map_err(|error| setup_failed(info, error))?;
    let name = network.name.clone();
    let refused = |message: &str| match backend.explain(message) {
        Some(reason) => info.unavailable(reason),
        None => info.refused(&name, message),
    };
    let evaluator = make_evaluator(info, plan, network, runtime.clone(), request)?;
    let mut evaluator = evaluator.map_err(|message| refused(&message))?;
    let evaluated = evaluate_start(&evaluator).and_then(|()| backend.tune(&mut evaluator));
    match evaluated {
        Ok(()) => Ok(evaluator),
        Err(EvaluateError::Backend { message, .. }) => Err(refused(&message)),
        Err(error) => Err(error.into()),
    }
}

/// Loads the network by a plan whose results are compared with those of its plain form, for a few positions.
fn load_checked(
    backend: &dyn OrtBackend,
    plan: SessionPlan,
    plain: &SessionPlan,
    runtime: &Runtime,
    request: &BackendRequest<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let evaluator: Arc<dyn Evaluator> = Arc::new(load(backend, plan, runtime, request)?);
    let one_size = SessionPlan {
        max_sessions: 1,
        ..plain.clone()
    };
    let network = convert(&one_size, request)?;
    let (info, name) = (backend.info(), network.name.clone());
    let reference = make_evaluator(info, one_size, network, runtime.clone(), request)?;
    let reference = reference.map_err(|message| info.refused(&name, &message))?;
    let checked = Checked::new(Arc::clone(&evaluator), Arc::new(reference), FORM_TOLERANCE);
    match evaluate_game(&checked) {
        Ok(()) => Ok(evaluator),
        Err(EvaluateError::Backend { message, .. }) => Err(info.refused(&name, &message)),
        Err(error) => Err(error.into()),
    }
}

/// The largest difference between the two forms of a graph, in 16 bits.
const FORM_TOLERANCE: f32 = 0.03;

/// Evaluates the positions of a short game.
fn evaluate_game(evaluator: &dyn Evaluator) -> Result<(), EvaluateError> {
    let mut game = History::default();
    let mut batch = Batch::default();
    for ply in 0..GAME_PLIES {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        evaluator.view().queue(game.plies(), &moves, &mut batch);
        match moves.get(ply * 7 % moves.len().max(1)) {
            Some(&m) => game.push(m),
            None => break,
        }
    }
    evaluator.evaluate(&mut batch)
}

/// The positions of that game.
const GAME_PLIES: usize = 7;

fn open_runtime(info: &BackendInfo, request: &BackendRequest<'_>) -> Result<Runtime, LoadError> {
    Runtime::open(request.runtime_path).map_err(|error| LoadError::Runtime {
        backend: info.name,
        error,
        install_command: info.install_command.unwrap_or_default(),
    })
}

fn setup_failed(info: &BackendInfo, error: BackendSetupError) -> LoadError {
    match error {
        BackendSetupError::Options(error) => LoadError::Options(error),
        BackendSetupError::Unavailable(reason) => info.unavailable(reason),
    }
}

/// The network in the numeric type and form of the plan, and with its planes as bits if the plan has them so.
fn convert(plan: &SessionPlan, request: &BackendRequest<'_>) -> Result<Network, LoadError> {
    let operators = match plan.graph {
        GraphForm::Plain => Operators::Standard,
        GraphForm::Fused => Operators::OnnxRuntime,
    };
    let mut network = request.network_as(plan.data_type, plan.limits_squares, operators)?;
    let has_such_planes = !Encoding::of(&network.onnx)
        .layout()
        .scalar_planes
        .is_empty();
    match plan.packed {
        Packing::Always => network.onnx = packed(&network.onnx)?,
        Packing::WherePossible if has_such_planes => network.onnx = packed(&network.onnx)?,
        Packing::WherePossible | Packing::Never => {}
    }
    let policy = Encoding::of(&network.onnx).policy();
    if plan.graph == GraphForm::Fused && policy.has_entry_per_move() {
        let gathered = gather_legal_moves(&network.onnx, policy.size(), MAX_MOVES);
        network.onnx = gathered.map_err(WeightsError::from)?;
    }
    Ok(network)
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

/// The evaluator, or within the message of ONNX Runtime about the network.
fn make_evaluator(
    info: &BackendInfo,
    plan: SessionPlan,
    network: Network,
    runtime: Runtime,
    request: &BackendRequest<'_>,
) -> Result<Result<NetworkEvaluator, String>, LoadError> {
    let device = format!(
        "{}{}, ONNX Runtime {} at {}",
        plan.device,
        converted_to(plan.data_type, &network)?,
        runtime.version(),
        runtime.library().display()
    );
    let label = request.label(info, &network, device);
    let (encoding, view) = (Encoding::of(&network.onnx), request.view(&network.onnx));
    let (model, settings) = (Arc::new(network.onnx), plan.settings);
    let factory: SessionFactory =
        Box::new(move || Ok(Box::new(session::create(&runtime, &model, &settings)?)));
    let sessions = session_counts(request.threads, plan.advice, plan.max_sessions);
    Ok(NetworkEvaluator::new(
        label,
        encoding,
        view,
        plan.advice,
        sessions,
        factory,
    ))
}

/// What the description says about the type that weights were converted to.
fn converted_to(requested: DataType, network: &Network) -> Result<&'static str, LoadError> {
    match requested {
        DataType::Float32 => Ok(""),
        DataType::Float16 if network.is_converted => Ok(", fp16"),
        DataType::BFloat16 if network.is_converted => Ok(", bf16"),
        DataType::Int8 if network.is_converted => Ok(", int8"),
        // 16 bits are the default on GPUs, 8 bits were requested by the user.
        DataType::Float16 | DataType::BFloat16 => Ok(", precision of the ONNX file"),
        DataType::Int8 => Err(OptionsError::BadValue {
            key: "precision".into(),
            value: "int8".into(),
            expected: "possible for ONNX networks, which keep theirs; it is for lc0's (.pb.gz)",
        }
        .into()),
    }
}
