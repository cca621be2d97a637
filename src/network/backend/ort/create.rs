//! From a request to an evaluator: what the backends of ONNX Runtime have in common. `create` lists the steps; what
//! differs between the backends is in the `OrtBackend` that each has in a file of its own.

use std::sync::Arc;

use super::{
    gpu::SESSIONS,
    install::InstallPlace,
    plan::{BATCH, BackendSetupError, GraphForm, Packing, SessionPlan},
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
            pool::{NetworkEvaluator, SessionFactory, is_out_of_memory, session_counts},
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

/// Loads the network in one form by a plan. What is captured is in memory for all sessions and sizes at once: if there
/// is too little, it is tried with fewer.
fn load(
    backend: &dyn OrtBackend,
    plan: &SessionPlan,
    form: GraphForm,
    runtime: &Runtime,
    request: &BackendRequest<'_>,
) -> Result<NetworkEvaluator, LoadError> {
    let (plan, network) = fitted(backend, plan, form, runtime, request)?;
    let smaller = match form {
        GraphForm::Captured => with_fewer_copies(&plan, request.options),
        GraphForm::Fused | GraphForm::Plain => None,
    };
    let loaded = load_fitted(backend, &plan, (form, network), runtime, request);
    match (loaded, smaller) {
        (Err(error), Some(smaller)) if is_about_memory(&error) => {
            (request.report_progress)(&format!(
                "BackendOptions graph={}: there is too little memory for {}; trying {}",
                form.name(),
                copies(&plan),
                copies(&smaller)
            ));
            let network = convert(&smaller, form, request)?;
            load_fitted(backend, &smaller, (form, network), runtime, request)
        }
        (loaded, _) => loaded,
    }
}

/// The network in one form, and the plan as it suits this.
fn fitted(
    backend: &dyn OrtBackend,
    plan: &SessionPlan,
    form: GraphForm,
    runtime: &Runtime,
    request: &BackendRequest<'_>,
) -> Result<(SessionPlan, Network), LoadError> {
    let mut plan = plan.clone();
    let network = convert(&plan, form, request)?;
    backend
        .fit(&mut plan, &network, runtime, request)
        .map_err(|error| setup_failed(backend.info(), error))?;
    Ok((plan, network))
}

/// The largest batch size of a plan with fewer copies.
const LARGEST_OF_FEW: usize = 256;

/// The plan with one session and without the largest batches, unless the user has set these; `None` if that changes
/// nothing.
fn with_fewer_copies(plan: &SessionPlan, options: &BackendOptions) -> Option<SessionPlan> {
    let mut fewer = plan.clone();
    if options.text(SESSIONS.key).is_none() {
        fewer.max_sessions = 1;
    }
    let sizes = &mut fewer.settings.batch_sizes;
    if options.text(BATCH.key).is_none() && sizes.iter().any(|&size| size <= LARGEST_OF_FEW) {
        sizes.retain(|&size| size <= LARGEST_OF_FEW);
    }
    let is_other = fewer.max_sessions < plan.max_sessions || *sizes != plan.settings.batch_sizes;
    is_other.then_some(fewer)
}

/// How many sessions a plan has, and for which batches, for messages.
fn copies(plan: &SessionPlan) -> String {
    let largest = plan.settings.batch_sizes.last().copied().unwrap_or(0);
    let sessions = match plan.max_sessions {
        1 => "one session".to_owned(),
        sessions => format!("{sessions} sessions"),
    };
    format!("{sessions} with batches of up to {largest}")
}

/// Loads the network in one form by a plan that was fitted to it.
fn load_fitted(
    backend: &dyn OrtBackend,
    plan: &SessionPlan,
    (form, network): (GraphForm, Network),
    runtime: &Runtime,
    request: &BackendRequest<'_>,
) -> Result<NetworkEvaluator, LoadError> {
    let info = backend.info();
    let times = backend.times_cache(plan, form, &network, runtime);
    let (name, is_half) = (network.name.clone(), is_half(plan, &network));
    let place = runtime.install_place();
    let refused = |message: &str| match backend.explain(message, &place) {
        Some(reason) => info.unavailable(reason),
        None => refused_with(info, &name, message),
    };
    let evaluator = make_evaluator(info, plan.clone(), form, network, runtime.clone(), request)?;
    let mut evaluator = evaluator.map_err(|message| {
        refused(&format!(
            "{}{}",
            message.trim(),
            memory_hint(info, &message)
        ))
    })?;
    let evaluated =
        evaluate_start(&evaluator).and_then(|()| backend.tune(&mut evaluator, times.as_ref()));
    match evaluated {
        Ok(()) => Ok(evaluator),
        Err(EvaluateError::Backend { message, .. }) => Err(refused(&message)),
        Err(error) => Err(evaluation_failed(info, &name, is_half, error)),
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
    let one_session = SessionPlan {
        max_sessions: 1,
        ..plan.clone()
    };
    let (plan, network) = fitted(backend, &one_session, reference_form, runtime, request)?;
    let (name, is_half) = (network.name.clone(), is_half(&plan, &network));
    let failed = |error| evaluation_failed(info, &name, is_half, error);
    let made = make_evaluator(
        info,
        plan,
        reference_form,
        network,
        runtime.clone(),
        request,
    )?;
    let reference = match made {
        Ok(reference) => evaluate_game(&reference)
            .map(|()| Arc::new(reference) as Arc<dyn Evaluator>)
            .map_err(failed),
        Err(message) => Err(refused_with(info, &name, &message)),
    };
    let Some(reference) = if_it_fits(reference, (form, reference_form), request)? else {
        return Ok(evaluator);
    };
    let checked = Checked::new(Arc::clone(&evaluator), reference, FORM_TOLERANCE);
    evaluate_game(&checked).map_err(failed)?;
    Ok(evaluator)
}

/// The reference of a form, or nothing, which is reported, if there is too little memory for both: that is no fault of
/// the form.
///
/// # Errors
/// Whatever else is wrong with the reference.
fn if_it_fits(
    reference: Result<Arc<dyn Evaluator>, LoadError>,
    (form, reference_form): (GraphForm, GraphForm),
    request: &BackendRequest<'_>,
) -> Result<Option<Arc<dyn Evaluator>>, LoadError> {
    match reference {
        Err(error) if is_about_memory(&error) => {
            let (form, reference_form) = (form.name(), reference_form.name());
            (request.report_progress)(&format!(
                "BackendOptions graph={form} is used without a comparison with {reference_form}, for which there is \
                 too little memory: {error}"
            ));
            Ok(None)
        }
        reference => reference.map(Some),
    }
}

/// Whether a backend had too little memory for the network.
fn is_about_memory(error: &LoadError) -> bool {
    matches!(error, LoadError::Refused { message, .. } if is_out_of_memory(message))
}

/// What to do if that is why sessions cannot be made; may be empty.
fn memory_hint(info: &BackendInfo, message: &str) -> &'static str {
    let mut settings = info.settings.iter();
    let has_sessions = settings.any(|setting| setting.key == SESSIONS.key);
    match has_sessions && is_out_of_memory(message) {
        true => {
            "; there is too little memory for all copies of the network: lower BackendOptions sessions or batch"
        }
        false => "",
    }
}

/// Whether a network is computed in 16 bits that could be computed in 32.
fn is_half(plan: &SessionPlan, network: &Network) -> bool {
    let has_half_weights = matches!(plan.data_type, DataType::Float16 | DataType::BFloat16);
    plan.limits_squares || (network.is_converted && has_half_weights)
}

/// The error of a backend that cannot evaluate a network. In 16 bits, numbers that are not finite are no fault of the
/// network.
fn evaluation_failed(
    info: &BackendInfo,
    network: &str,
    is_half: bool,
    error: EvaluateError,
) -> LoadError {
    match error {
        EvaluateError::Backend { message, .. } => refused_with(info, network, &message),
        EvaluateError::NotFinite { output, .. } if is_half => {
            let message = format!(
                "its output {output} is not a finite number in 16 bits; BackendOptions precision=fp32 computes in 32"
            );
            info.refused(network, &message)
        }
        error => error.into(),
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
    use std::{
        path::Path,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{
        lc0::InputFormat,
        network::{
            Advice,
            backend::{
                factory::{BackendKind, with_request},
                hash::HashEvaluator,
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
        settings: &[SESSIONS, BATCH],
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
                capture: Some(Arc::clone(&self.0)),
                ..plan_of_processor()
            })
        }
    }

    /// Two sessions on a processor, which captures nothing yet.
    fn plan_of_processor() -> SessionPlan {
        SessionPlan {
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
            capture: None,
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

    /// Runs out of memory at each session of these numbers, from 1.
    #[derive(Debug)]
    struct Scarce {
        fails: fn(usize) -> bool,
        made: AtomicUsize,
    }

    impl GraphCapture for Scarce {
        fn capture(
            &self,
            runtime: &Runtime,
            model: &Arc<OnnxModel>,
            settings: &SessionSettings,
        ) -> Result<Box<dyn DeviceSession>, String> {
            let number = 1 + self.made.fetch_add(1, Ordering::Relaxed);
            match (self.fails)(number) {
                true => {
                    Err("CUDA: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")".to_owned())
                }
                false => Working { is_wrong: false }.capture(runtime, model, settings),
            }
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

    #[test]
    fn without_the_memory_for_all_copies_there_are_fewer() {
        let scarce = |fails: fn(usize) -> bool| Scarce {
            fails,
            made: AtomicUsize::new(0),
        };
        // The second of two sessions cannot be made, and then there is one.
        let Some((description, reported)) = load_with(scarce(|number| number == 2)) else {
            return;
        };
        assert!(description.contains("graph captured"), "{description}");
        let [text] = &reported[..] else {
            panic!("{reported:?}")
        };
        for part in [
            "2 sessions with batches of up to 8",
            "one session with batches of up to 8",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let (description, reported) = load_with(scarce(|_| true)).unwrap();
        assert!(description.contains("graph fused"), "{description}");
        let [tried, unused] = &reported[..] else {
            panic!("{reported:?}")
        };
        assert!(tried.contains("one session"), "{tried}");
        for part in [
            "graph=captured is not used",
            "lower BackendOptions sessions or batch",
        ] {
            assert!(unused.contains(part), "{unused}");
        }
    }

    #[test]
    fn fewer_copies_are_one_session_without_the_largest_batches_unless_the_user_decides() {
        let fewer = |sessions: usize, sizes: &[usize], text: &str| {
            let options = BackendOptions::parse(text).unwrap();
            let plan = SessionPlan {
                settings: SessionSettings {
                    batch_sizes: sizes.to_vec(),
                    ..plan_of_processor().settings
                },
                max_sessions: sessions,
                ..plan_of_processor()
            };
            let fewer = with_fewer_copies(&plan, &options)?;
            Some((fewer.max_sessions, fewer.settings.batch_sizes))
        };
        let all = [1, 64, 256, 512, 1024];
        let few = || vec![1, 64, 256];
        assert_eq!(fewer(2, &all, ""), Some((1, few())));
        assert_eq!(fewer(3, &all, "sessions=3"), Some((3, few())));
        assert_eq!(
            fewer(2, &all, "batch=1/64/256/512/1024"),
            Some((1, all.to_vec()))
        );
        assert_eq!(fewer(1, &[32, 256], "sessions=1"), None);
        assert_eq!(fewer(2, &[1024], "sessions=2,batch=1024"), None);
        assert_eq!(fewer(2, &[1024], ""), Some((1, vec![1024])));
    }

    #[test]
    fn a_form_is_kept_if_only_its_reference_lacks_memory() {
        let forms = (GraphForm::Captured, GraphForm::Plain);
        let refused = |message: &str| Err(INFO.refused("net", message));
        let if_it_fits = |reference: Result<Arc<dyn Evaluator>, LoadError>| {
            with_request("net", &BackendOptions::default(), |request| {
                if_it_fits(reference, forms, &request).map(|reference| reference.is_some())
            })
        };
        let (found, reported) =
            if_it_fits(refused("Failed to allocate memory for requested buffer"));
        assert!(!found.unwrap());
        let [text] = &reported[..] else {
            panic!("{reported:?}")
        };
        for part in [
            "graph=captured is used without a comparison with plain",
            "too little memory",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let (found, reported) = if_it_fits(refused("invalid graph"));
        assert!(found.is_err() && reported.is_empty());
        let (found, reported) = if_it_fits(Ok(Arc::new(HashEvaluator)));
        assert!(found.unwrap() && reported.is_empty());
    }

    #[test]
    fn an_overflow_in_16_bits_is_about_the_backend_and_its_precision() {
        let overflow = || EvaluateError::NotFinite {
            network: "net".into(),
            output: "policy".into(),
        };
        let in_16_bits = evaluation_failed(&INFO, "net", true, overflow());
        assert!(!in_16_bits.is_about_the_network());
        let text = in_16_bits.to_string();
        for part in [
            "backend capturing cannot run net",
            "policy",
            "precision=fp32",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(evaluation_failed(&INFO, "net", false, overflow()).is_about_the_network());
        for (data_type, limits_squares, is_converted, expected) in [
            (DataType::Float16, false, true, true),
            (DataType::BFloat16, false, true, true),
            // An ONNX file keeps its own type.
            (DataType::Float16, false, false, false),
            // The provider itself computes in 16 bits.
            (DataType::Float32, true, false, true),
            (DataType::Float32, false, true, false),
        ] {
            let plan = SessionPlan {
                data_type,
                limits_squares,
                ..plan_of_processor()
            };
            let network = Network {
                onnx: OnnxModel::empty(InputFormat::Classical112),
                name: "net".into(),
                sha256: String::new(),
                is_converted,
            };
            assert_eq!(is_half(&plan, &network), expected, "{data_type:?}");
        }
    }
}
