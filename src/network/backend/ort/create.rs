//! From a request to an evaluator: what the backends of ONNX Runtime have in common. `create` lists the steps; what
//! differs between the backends is in the `OrtBackend` that each has in a file of its own.

use std::sync::Arc;

use super::{
    plan::{BackendSetupError, Packing, SessionPlan},
    runtime::Runtime,
    session,
};
use crate::{
    lc0::{DataType, OnnxModel, pack_input},
    network::{
        EvaluateError, Evaluator,
        backend::{
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
    let network = convert(&plan, request)?;
    backend
        .fit(&mut plan, &network, &runtime, request)
        .map_err(|error| setup_failed(info, error))?;
    let name = network.name.clone();
    let refused = |message: &str| match backend.explain(message) {
        Some(reason) => info.unavailable(reason),
        None => info.refused(&name, message),
    };
    let evaluator = make_evaluator(info, plan, network, runtime, request)?;
    let mut evaluator = evaluator.map_err(|message| refused(&message))?;
    let evaluated = evaluate_start(&evaluator).and_then(|()| backend.tune(&mut evaluator));
    match evaluated {
        Ok(()) => Ok(Arc::new(evaluator)),
        Err(EvaluateError::Backend { message, .. }) => Err(refused(&message)),
        Err(error) => Err(error.into()),
    }
}

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

/// The network in the numeric type of the plan, and with its planes as bits if the plan has them so.
fn convert(plan: &SessionPlan, request: &BackendRequest<'_>) -> Result<Network, LoadError> {
    let mut network = request.network_as(plan.data_type, plan.limits_squares)?;
    let has_such_planes = !Encoding::of(&network.onnx)
        .layout()
        .scalar_planes
        .is_empty();
    match plan.packed {
        Packing::Always => network.onnx = packed(&network.onnx)?,
        Packing::WherePossible if has_such_planes => network.onnx = packed(&network.onnx)?,
        Packing::WherePossible | Packing::Never => {}
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
