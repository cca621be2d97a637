//! From a request to an evaluator: what the backends of ONNX Runtime have in common. `create` lists the steps; what
//! differs between the backends is in the `OrtBackend` that each has in a file of its own.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    cuda_failure,
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
            options::{BackendOptions, BackendOptionsError},
            pool::{NetworkEvaluator, SessionCounts, SessionFactory, is_out_of_memory},
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
    let creation = Creation {
        backend,
        runtime: &runtime,
        request,
    };
    for &form in others {
        match creation.load_checked(&plan, form, last) {
            Err(error @ (LoadError::Refused { .. } | LoadError::Evaluate(_))) => {
                let name = form.name();
                (request.report_progress)(&format!(
                    "BackendOptions graph={name} is not used: {error}"
                ));
            }
            result => return result,
        }
    }
    Ok(Arc::new(creation.load(&plan, last)?))
}

/// A network in one form, and the plan as it suits this.
struct FittedNetwork {
    plan: SessionPlan,
    form: GraphForm,
    network: Network,
}

/// What all steps after the plan depend on.
struct Creation<'a> {
    backend: &'a dyn OrtBackend,
    runtime: &'a Runtime,
    request: &'a BackendRequest<'a>,
}

impl Creation<'_> {
    /// Loads the network in one form by a plan. What is captured is in memory for all sessions and sizes at once: if
    /// there is too little, it is tried with fewer.
    fn load(&self, plan: &SessionPlan, form: GraphForm) -> Result<NetworkEvaluator, LoadError> {
        let fitted = self.fitted(plan, form)?;
        let fewer = match form {
            GraphForm::Captured => with_fewer_copies(&fitted.plan, self.request.options),
            GraphForm::Fused | GraphForm::Plain => None,
        };
        let all = copies(&fitted.plan);
        match (self.load_fitted(fitted), fewer) {
            (Err(error), Some(plan)) if is_about_memory(&error) => {
                (self.request.report_progress)(&format!(
                    "BackendOptions graph={}: there is too little memory for {all}; trying {}",
                    form.name(),
                    copies(&plan)
                ));
                let network = self.convert(&plan, form)?;
                self.load_fitted(FittedNetwork {
                    plan,
                    form,
                    network,
                })
            }
            (loaded, _) => loaded,
        }
    }

    /// The network in one form, and the plan as it suits this.
    fn fitted(&self, plan: &SessionPlan, form: GraphForm) -> Result<FittedNetwork, LoadError> {
        let mut plan = plan.clone();
        let network = self.convert(&plan, form)?;
        self.backend
            .fit(&mut plan, &network, self.runtime, self.request)
            .map_err(|error| setup_failed(self.backend.info(), error))?;
        Ok(FittedNetwork {
            plan,
            form,
            network,
        })
    }

    /// Loads the network in one form by a plan that was fitted to it.
    fn load_fitted(&self, fitted: FittedNetwork) -> Result<NetworkEvaluator, LoadError> {
        let backend = self.backend;
        let FittedNetwork {
            plan,
            form,
            network,
        } = &fitted;
        let times = backend.times_cache(plan, *form, network, self.runtime);
        let (name, is_half) = (network.name.clone(), is_half(plan, network));
        let mut evaluator = self.make_evaluator(fitted)?;
        evaluate_start(&evaluator)
            .and_then(|()| backend.tune(&mut evaluator, times.as_ref()))
            .map_err(|error| self.evaluation_failed(&name, is_half, error))?;
        Ok(evaluator)
    }

    /// Loads the network in one form and compares its results with those of another form, for a few positions.
    fn load_checked(
        &self,
        plan: &SessionPlan,
        form: GraphForm,
        reference_form: GraphForm,
    ) -> Result<Arc<dyn Evaluator>, LoadError> {
        let evaluator: Arc<dyn Evaluator> = Arc::new(self.load(plan, form)?);
        let one_session = SessionPlan {
            max_sessions: 1,
            ..plan.clone()
        };
        let fitted = self.fitted(&one_session, reference_form)?;
        let name = fitted.network.name.clone();
        let is_half = is_half(&fitted.plan, &fitted.network);
        let failed = |error| self.evaluation_failed(&name, is_half, error);
        let reference = self.make_evaluator(fitted).and_then(|reference| {
            evaluate_game(&reference).map_err(failed)?;
            Ok(Arc::new(reference) as Arc<dyn Evaluator>)
        });
        let Some(reference) = if_it_fits(reference, form, reference_form, self.request)? else {
            return Ok(evaluator);
        };
        let checked = Checked::new(Arc::clone(&evaluator), reference, FORM_TOLERANCE);
        evaluate_game(&checked).map_err(failed)?;
        Ok(evaluator)
    }

    /// The network in this form and the numeric type of the plan, and with its planes as bits if the plan has them so.
    fn convert(&self, plan: &SessionPlan, form: GraphForm) -> Result<Network, LoadError> {
        let operators = match form {
            GraphForm::Plain => Operators::Standard,
            // The kernels are for 16 bits.
            GraphForm::Captured if plan.data_type == DataType::Float16 => Operators::Scorn,
            GraphForm::Fused | GraphForm::Captured => Operators::OnnxRuntime,
        };
        let request = self.request;
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

    /// The evaluator of a network, which has evaluated nothing yet.
    fn make_evaluator(&self, fitted: FittedNetwork) -> Result<NetworkEvaluator, LoadError> {
        let FittedNetwork {
            plan,
            form,
            network,
        } = fitted;
        let (request, runtime) = (self.request, self.runtime);
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
        let label = request.label(self.backend.info(), &network, device);
        let name = network.name;
        let (encoding, view) = (Encoding::of(&network.onnx), request.view(&network.onnx));
        let advice = plan.advice;
        let mut sessions = SessionCounts::for_threads(request.threads, advice, plan.max_sessions);
        if form == GraphForm::Captured {
            // What is captured is captured before the first search.
            sessions.ready = sessions.limit;
        }
        let factory = session_factory(plan, form, network.onnx, runtime.clone());
        let made = NetworkEvaluator::new(label, encoding, view, advice, sessions, factory);
        let mut evaluator = made.map_err(|message| self.refused(&name, &message))?;
        evaluator.set_failure_hint(cuda_failure::hint);
        Ok(evaluator)
    }

    /// The error about a message of ONNX Runtime: what this machine lacks, if that is the reason, and otherwise that
    /// the backend cannot run the network, with what is for people in the message.
    fn refused(&self, network: &str, message: &str) -> LoadError {
        let info = self.backend.info();
        let place = self.runtime.install_place();
        if let Some(reason) = self.backend.explain(message, &place) {
            return info.unavailable(reason);
        }
        let shown = session::without_places(message.trim());
        info.refused(network, &(shown + memory_hint(info, message)))
    }

    /// The error of a form that cannot evaluate the network.
    fn evaluation_failed(&self, network: &str, is_half: bool, error: EvaluateError) -> LoadError {
        match error {
            EvaluateError::Backend { message, .. } => self.refused(network, &message),
            error => not_usable(self.backend.info(), network, is_half, error),
        }
    }
}

/// Maximum batch size of a plan with fewer copies.
const MAX_BATCH_WITH_FEWER_COPIES: usize = 256;

/// The plan with one session and without the largest batches, unless the user has set these; `None` if that changes
/// nothing.
fn with_fewer_copies(plan: &SessionPlan, options: &BackendOptions) -> Option<SessionPlan> {
    let mut fewer = plan.clone();
    if options.text(SESSIONS.key).is_none() {
        fewer.max_sessions = 1;
    }
    let sizes = &mut fewer.settings.batch_sizes;
    if options.text(BATCH.key).is_none()
        && sizes
            .iter()
            .any(|&size| size <= MAX_BATCH_WITH_FEWER_COPIES)
    {
        sizes.retain(|&size| size <= MAX_BATCH_WITH_FEWER_COPIES);
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

/// The reference of a form, or nothing, which is reported, if there is too little memory for both: that is no fault of
/// the form.
///
/// # Errors
/// Whatever else is wrong with the reference.
fn if_it_fits(
    reference: Result<Arc<dyn Evaluator>, LoadError>,
    form: GraphForm,
    reference_form: GraphForm,
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
    if has_sessions && is_out_of_memory(message) {
        "; there is too little memory for all copies of the network: lower BackendOptions sessions or batch"
    } else {
        ""
    }
}

/// Whether a network is computed in 16 bits that could be computed in 32.
fn is_half(plan: &SessionPlan, network: &Network) -> bool {
    let has_half_weights = matches!(plan.data_type, DataType::Float16 | DataType::BFloat16);
    plan.limits_squares || (network.is_converted && has_half_weights)
}

/// The error about the results of a network. In 16 bits, numbers that are not finite are no fault of the network.
fn not_usable(info: &BackendInfo, network: &str, is_half: bool, error: EvaluateError) -> LoadError {
    match error {
        EvaluateError::NotFinite { output, .. } if is_half => {
            let message = format!(
                "its output {output} is not a finite number in 16 bits; BackendOptions precision=fp32 computes in 32"
            );
            info.refused(network, &message)
        }
        error => error.into(),
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

/// The model with its planes as bits.
fn packed(model: &OnnxModel) -> Result<OnnxModel, LoadError> {
    let layout = Encoding::of(model).layout();
    if layout.scalar_planes.is_empty() {
        return Err(BackendOptionsError::BadValue {
            key: "packed".into(),
            value: "true".into(),
            expected: "possible for this kind of network; it is for lc0's planes",
        }
        .into());
    }
    let packed = pack_input(model, layout.planes, layout.scalar_planes);
    Ok(packed.map_err(WeightsError::from)?)
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
        DataType::Int8 => Err(BackendOptionsError::BadValue {
            key: "precision".into(),
            value: "int8".into(),
            expected: "possible for ONNX models, also within a .pb.gz, which keep their own; it is for networks with \
                lc0's own weights",
        }
        .into()),
    }
}
