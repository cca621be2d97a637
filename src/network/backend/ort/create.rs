//! From a request to an evaluator: what the backends of ONNX Runtime have in common. `create` lists the steps; what
//! differs between the backends is in the `OrtBackend` that each has in a file of its own.

use std::sync::Arc;

use super::{
    install::InstallPlace,
    plan::{BackendSetupError, GraphForm, Packing, SessionPlan},
    runtime::Runtime,
    session,
    times_cache::TimesCache,
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

    /// Where the times of the network's batches in this form are kept; `None` if they are not measured.
    fn times_cache(
        &self,
        _plan: &SessionPlan,
        _form: GraphForm,
        _network: &Network,
        _runtime: &Runtime,
    ) -> Option<TimesCache> {
        None
    }

    /// Measures the device, unless the cache has its times, and changes the evaluator's advice.
    fn tune(
        &self,
        _evaluator: &mut NetworkEvaluator,
        _cache: Option<&TimesCache>,
    ) -> Result<(), EvaluateError> {
        Ok(())
    }

    /// What is missing on this machine and how to get it, if that is what a message of ONNX Runtime is about.
    fn explain(&self, _message: &str, _place: &InstallPlace) -> Option<String> {
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
    let plan = backend
        .plan(&runtime, request.options)
        .map_err(|error| setup_failed(info, error))?;
    let Some((&last, others)) = plan.forms.split_last() else {
        return Err(info.unavailable("its plan has no form of the graph".to_owned()));
    };
    for &form in others {
        match load_checked(backend, &plan, (form, last), &runtime, request) {
            Err(error @ (LoadError::Refused { .. } | LoadError::Evaluate(_))) => {
                let name = form.name();
                (request.report_progress)(&format!(
                    "BackendOptions graph={name} is not used: {error}"
                ));
            }
            result => return result,
        }
    }
    Ok(Arc::new(load(backend, &plan, last, &runtime, request)?))
}

/// Loads the network in one form by a plan.
fn load(
    backend: &dyn OrtBackend,
    plan: &SessionPlan,
    form: GraphForm,
    runtime: &Runtime,
    request: &BackendRequest<'_>,
) -> Result<NetworkEvaluator, LoadError> {
    let (info, mut plan) = (backend.info(), plan.clone());
    let network = convert(&plan, form, request)?;
    backend
        .fit(&mut plan, &network, runtime, request)
        .map_err(|error| setup_failed(info, error))?;
    let times = backend.times_cache(&plan, form, &network, runtime);
    let name = network.name.clone();
    let place = runtime.install_place();
    let refused = |message: &str| match backend.explain(message, &place) {
        Some(reason) => info.unavailable(reason),
        None => refused_with(info, &name, message),
    };
    let evaluator = make_evaluator(info, plan, form, network, runtime.clone(), request)?;
    let mut evaluator = evaluator.map_err(|message| refused(&message))?;
    let evaluated =
        evaluate_start(&evaluator).and_then(|()| backend.tune(&mut evaluator, times.as_ref()));
    match evaluated {
        Ok(()) => Ok(evaluator),
        Err(EvaluateError::Backend { message, .. }) => Err(refused(&message)),
        Err(error) => Err(error.into()),
    }
}

/// Loads the network in one form and compares its results with those of another form, for a few positions.
fn load_checked(
    backend: &dyn OrtBackend,
    plan: &SessionPlan,
    (form, reference_form): (GraphForm, GraphForm),
    runtime: &Runtime,
    request: &BackendRequest<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let info = backend.info();
    let evaluator: Arc<dyn Evaluator> = Arc::new(load(backend, plan, form, runtime, request)?);
    let mut one_session = SessionPlan {
        max_sessions: 1,
        ..plan.clone()
    };
    let network = convert(&one_session, reference_form, request)?;
    backend
        .fit(&mut one_session, &network, runtime, request)
        .map_err(|error| setup_failed(info, error))?;
    let (name, runtime) = (network.name.clone(), runtime.clone());
    let reference = make_evaluator(info, one_session, reference_form, network, runtime, request)?;
    let reference = reference.map_err(|message| refused_with(info, &name, &message))?;
    let checked = Checked::new(Arc::clone(&evaluator), Arc::new(reference), FORM_TOLERANCE);
    match evaluate_game(&checked) {
        Ok(()) => Ok(evaluator),
        Err(EvaluateError::Backend { message, .. }) => Err(refused_with(info, &name, &message)),
        Err(error) => Err(error.into()),
    }
}

/// The error that the backend cannot run the network, with what is for people in ONNX Runtime's message.
fn refused_with(info: &BackendInfo, network: &str, message: &str) -> LoadError {
    info.refused(network, &session::without_places(message))
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

/// The network in this form and the numeric type of the plan, and with its planes as bits if the plan has them so.
fn convert(
    plan: &SessionPlan,
    form: GraphForm,
    request: &BackendRequest<'_>,
) -> Result<Network, LoadError> {
    let operators = match form {
        GraphForm::Plain => Operators::Standard,
        // The kernels are for 16 bits.
        GraphForm::Captured if plan.data_type == DataType::Float16 => Operators::Scorn,
        GraphForm::Fused | GraphForm::Captured => Operators::OnnxRuntime,
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
    if form != GraphForm::Plain && policy.has_entry_per_move() {
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
    form: GraphForm,
    network: Network,
    runtime: Runtime,
    request: &BackendRequest<'_>,
) -> Result<Result<NetworkEvaluator, String>, LoadError> {
    let device = format!(
        "{}{}{}, ONNX Runtime {} at {}",
        plan.device,
        converted_to(plan.data_type, &network)?,
        match form {
            GraphForm::Plain => String::new(),
            form => format!(", graph {}", form.name()),
        },
        runtime.version(),
        runtime.library().display()
    );
    let label = request.label(info, &network, device);
    let (encoding, view) = (Encoding::of(&network.onnx), request.view(&network.onnx));
    let (ready, limit) = session_counts(request.threads, plan.advice, plan.max_sessions);
    // What is captured is captured before the first search.
    let ready = if form == GraphForm::Captured {
        limit
    } else {
        ready
    };
    Ok(NetworkEvaluator::new(
        label,
        encoding,
        view,
        plan.advice,
        (ready, limit),
        session_factory(plan, form, network.onnx, runtime),
    ))
}

/// Makes the sessions of a model in one form.
fn session_factory(
    plan: SessionPlan,
    form: GraphForm,
    model: OnnxModel,
    runtime: Runtime,
) -> SessionFactory {
    let (model, settings) = (Arc::new(model), plan.settings);
    if form != GraphForm::Captured {
        return Box::new(move || Ok(Box::new(session::create(&runtime, &model, &settings)?)));
    }
    Box::new(move || match &plan.capture {
        Some(capture) => capture.capture(&runtime, &model, &settings),
        None => Err("this backend cannot capture batches".to_owned()),
    })
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        network::{
            Advice,
            backend::{
                factory::{BackendKind, with_request},
                ort::{
                    cpu::CpuProvider,
                    plan::{GraphCapture, SessionSettings},
                },
                pool::{DeviceSession, Outputs},
            },
            input::InputRows,
        },
        shared::skipped,
    };

    static INFO: BackendInfo = BackendInfo {
        name: "capturing",
        lc0_names: &[],
        kind: BackendKind::Device {
            is_automatic: false,
        },
        summary: "a processor that captures",
        documentation: "",
        requirements: "",
        install_command: None,
        settings: &[],
    };

    /// A processor whose captured batches are made by this.
    struct Capturing(Arc<dyn GraphCapture>);

    impl BackendFactory for Capturing {
        fn info(&self) -> &BackendInfo {
            &INFO
        }

        fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
            create(self, request)
        }
    }

    impl OrtBackend for Capturing {
        fn plan(&self, _: &Runtime, _: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
            Ok(SessionPlan {
                settings: SessionSettings {
                    provider: Arc::new(CpuProvider),
                    threads: 1,
                    batch_sizes: vec![8],
                    session_per_size: false,
                    is_lazy: true,
                },
                device: "CPU".to_owned(),
                advice: Advice::default(),
                data_type: DataType::Float32,
                limits_squares: false,
                max_sessions: 2,
                packed: Packing::WherePossible,
                forms: vec![GraphForm::Captured, GraphForm::Fused, GraphForm::Plain],
                capture: Some(Arc::clone(&self.0)),
            })
        }
    }

    /// Fails with this message.
    #[derive(Debug)]
    struct Failing(&'static str);

    impl GraphCapture for Failing {
        fn capture(
            &self,
            _: &Runtime,
            _: &Arc<OnnxModel>,
            _: &SessionSettings,
        ) -> Result<Box<dyn DeviceSession>, String> {
            Err(self.0.to_owned())
        }
    }

    /// Has sessions of the runtime in place of captured ones; the policy of each position is that of the next one if
    /// `is_wrong`.
    #[derive(Debug)]
    struct Working {
        is_wrong: bool,
    }

    struct Session(session::OnnxSession, bool);

    impl DeviceSession for Session {
        fn max_batch(&self) -> usize {
            self.0.max_batch()
        }

        fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
            self.0.run(inputs, outputs)?;
            if self.1 {
                outputs.policy.rotate_left(MAX_MOVES);
            }
            Ok(())
        }
    }

    impl GraphCapture for Working {
        fn capture(
            &self,
            runtime: &Runtime,
            model: &Arc<OnnxModel>,
            settings: &SessionSettings,
        ) -> Result<Box<dyn DeviceSession>, String> {
            let session = session::create(runtime, model, settings)?;
            Ok(Box::new(Session(session, self.is_wrong)))
        }
    }

    /// The description of what was loaded, and what was reported; nothing without ONNX Runtime.
    fn load_with(capture: impl GraphCapture + 'static) -> Option<(String, Vec<String>)> {
        if let Err(error) = Runtime::open("") {
            skipped(&error.to_string());
            return None;
        }
        let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/networks/tiny.onnx");
        Some(with_request(
            &network.to_string_lossy(),
            &BackendOptions::default(),
            |request| {
                let evaluator = Capturing(Arc::new(capture)).create(&request).unwrap();
                evaluator.info().description
            },
        ))
    }

    #[test]
    fn captured_batches_are_taken_if_they_agree_with_the_plain_graph() {
        let working = Working { is_wrong: false };
        let Some((description, reported)) = load_with(working) else {
            return;
        };
        assert!(description.contains("graph captured"), "{description}");
        assert!(reported.is_empty(), "{reported:?}");
    }

    #[test]
    fn what_cannot_be_captured_or_differs_is_replaced_and_that_is_reported_once() {
        let failing = "CUDA failure 900: operation not permitted when stream is capturing";
        let Some(of_failing) = load_with(Failing(failing)) else {
            return;
        };
        let of_wrong = load_with(Working { is_wrong: true }).unwrap();
        for ((description, reported), part) in [(of_failing, failing), (of_wrong, "differ by")] {
            assert!(description.contains("graph fused"), "{description}");
            let [text] = &reported[..] else {
                panic!("{reported:?}")
            };
            for part in ["graph=captured is not used", part] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
