//! The steps from a request to an evaluator, with a backend whose captured batches are made by a test.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use ort::session::builder::SessionBuilder;

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
                plan::{Built, ExecutionProvider, GraphCapture, SessionContext, SessionSettings},
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

/// A processor whose captured batches are made by `capture`, and the others by `provider`.
struct Capturing {
    capture: Arc<dyn GraphCapture>,
    provider: Arc<dyn ExecutionProvider>,
}

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
        let plan = plan_of_processor();
        Ok(SessionPlan {
            settings: SessionSettings {
                provider: Arc::clone(&self.provider),
                ..plan.settings
            },
            capture: Some(Arc::clone(&self.capture)),
            ..plan
        })
    }

    fn explain(&self, message: &str, _: &InstallPlace) -> Option<String> {
        let is_missing = message.contains("libmissing.so");
        is_missing.then(|| "libmissing is not installed".to_owned())
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
        if (self.fails)(number) {
            Err("CUDA: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")".to_owned())
        } else {
            Working { is_wrong: false }.capture(runtime, model, settings)
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

/// Has sessions that can be made but fail with this message.
#[derive(Debug)]
struct Breaking(&'static str);

struct BrokenSession(&'static str);

impl DeviceSession for BrokenSession {
    fn max_batch(&self) -> usize {
        8
    }

    fn run(&mut self, _: InputRows<'_>, _: &mut Outputs) -> Result<(), String> {
        Err(self.0.to_owned())
    }
}

impl GraphCapture for Breaking {
    fn capture(
        &self,
        _: &Runtime,
        _: &Arc<OnnxModel>,
        _: &SessionSettings,
    ) -> Result<Box<dyn DeviceSession>, String> {
        Ok(Box::new(BrokenSession(self.0)))
    }
}

/// A provider whose library is missing.
#[derive(Debug)]
struct WithoutLibrary;

impl ExecutionProvider for WithoutLibrary {
    fn configure(&self, builder: SessionBuilder, _: &SessionContext<'_>) -> Built {
        builder.with_operator_library("libmissing.so")
    }
}

/// Has sessions of the processor in place of captured ones, whatever the provider.
#[derive(Debug)]
struct OnProcessor;

impl GraphCapture for OnProcessor {
    fn capture(
        &self,
        runtime: &Runtime,
        model: &Arc<OnnxModel>,
        settings: &SessionSettings,
    ) -> Result<Box<dyn DeviceSession>, String> {
        let settings = SessionSettings {
            provider: Arc::new(CpuProvider),
            ..settings.clone()
        };
        Working { is_wrong: false }.capture(runtime, model, &settings)
    }
}

/// An evaluator, or why there is none.
type Created = Result<Arc<dyn Evaluator>, LoadError>;

/// What a backend makes of a small network, and what was reported; nothing without ONNX Runtime.
fn create_with(backend: &dyn BackendFactory) -> Option<(Created, Vec<String>)> {
    if let Err(error) = Runtime::open("") {
        skipped(&error.to_string());
        return None;
    }
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/networks/tiny.onnx");
    Some(with_request(
        &network.to_string_lossy(),
        &BackendOptions::default(),
        |request| backend.create(&request),
    ))
}

/// The description of what was loaded, and what was reported; nothing without ONNX Runtime.
fn load_with(capture: impl GraphCapture + 'static) -> Option<(String, Vec<String>)> {
    let (evaluator, reported) = create_with(&Capturing {
        capture: Arc::new(capture),
        provider: Arc::new(CpuProvider),
    })?;
    Some((evaluator.unwrap().info().description, reported))
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

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{text}");
    }
}

/// There is one report, with all of these parts.
fn assert_one_report(reported: &[String], parts: &[&str]) {
    let [text] = reported else {
        panic!("{reported:?}")
    };
    assert_contains(text, parts);
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
        assert_one_report(&reported, &["graph=captured is not used", part]);
    }
}

#[test]
fn a_library_that_only_the_reference_lacks_is_what_the_backend_lacks() {
    let lacking = Capturing {
        capture: Arc::new(OnProcessor),
        provider: Arc::new(WithoutLibrary),
    };
    let Some((created, reported)) = create_with(&lacking) else {
        return;
    };
    let error = created.err().unwrap();
    assert!(matches!(error, LoadError::Unavailable { .. }), "{error}");
    assert_contains(&error.to_string(), &["libmissing is not installed"]);
    assert!(reported.is_empty(), "{reported:?}");
}

#[test]
fn a_gpu_that_fails_in_an_evaluation_is_reported_with_the_next_step() {
    let failing = "CUDA failure 700: an illegal memory access was encountered";
    let Some((description, reported)) = load_with(Breaking(failing)) else {
        return;
    };
    assert!(description.contains("graph fused"), "{description}");
    assert_one_report(&reported, &[failing, "only a restart of the program"]);
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
    assert_one_report(
        &reported,
        &[
            "2 sessions with batches of up to 8",
            "one session with batches of up to 8",
        ],
    );
    let (description, reported) = load_with(scarce(|_| true)).unwrap();
    assert!(description.contains("graph fused"), "{description}");
    let [tried, unused] = &reported[..] else {
        panic!("{reported:?}")
    };
    assert!(tried.contains("one session"), "{tried}");
    assert_contains(
        unused,
        &[
            "graph=captured is not used",
            "lower BackendOptions sessions or batch",
        ],
    );
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
    let (form, reference_form) = (GraphForm::Captured, GraphForm::Plain);
    let refused = |message: &str| Err(INFO.refused("net", message));
    let if_it_fits = |reference: Result<Arc<dyn Evaluator>, LoadError>| {
        with_request("net", &BackendOptions::default(), |request| {
            if_it_fits(reference, form, reference_form, &request)
                .map(|reference| reference.is_some())
        })
    };
    let (found, reported) = if_it_fits(refused("Failed to allocate memory for requested buffer"));
    assert!(!found.unwrap());
    assert_one_report(
        &reported,
        &[
            "graph=captured is used without a comparison with plain",
            "too little memory",
        ],
    );
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
    let in_16_bits = not_usable(&INFO, "net", true, overflow());
    assert!(!in_16_bits.is_about_the_network());
    let text = in_16_bits.to_string();
    for part in [
        "backend capturing cannot run net",
        "policy",
        "precision=fp32",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(not_usable(&INFO, "net", false, overflow()).is_about_the_network());
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
        let network = network(is_converted);
        assert_eq!(is_half(&plan, &network), expected, "{data_type:?}");
    }
}

/// A network that was converted from lc0's weights, or has its own type.
fn network(is_converted: bool) -> Network {
    Network {
        onnx: OnnxModel::empty(InputFormat::Classical112),
        name: "net".into(),
        sha256: String::new(),
        is_converted,
    }
}

#[test]
fn eight_bits_are_for_networks_with_weights_of_lc0() {
    let converted = converted_to(DataType::Int8, &network(true));
    assert_eq!(converted.unwrap(), ", int8");
    let error = converted_to(DataType::Int8, &network(false)).unwrap_err();
    let parts = [
        "precision=int8 is not possible for ONNX models, also within a .pb.gz",
        "networks with lc0's own weights",
    ];
    assert_contains(&error.to_string(), &parts);
}
