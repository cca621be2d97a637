//! What the backends for NVIDIA's GPUs have in common: precision, number of sessions, how batches are cut, and what the
//! search is advised.
//!
//! The choices here follow from how ONNX Runtime's providers work, and are measured by `benches/gpu.sh`. A session
//! has its own weights, memory, stream and pinned buffers. Two keep a GPU busy, one batch being prepared while
//! another is computed; the search may have any number of threads.

use std::{path::Path, sync::Arc, time::Duration};

use super::{
    nvidia,
    plan::{
        BackendSetupError, ExecutionProvider, GraphForm, Packing, SessionPlan, SessionSettings,
        bad_value, batch_sizes,
    },
    times_cache::{Times, TimesCache, cached_or_measured},
};
use crate::{
    lc0::{DataType, OnnxModel},
    network::{
        Advice, BatchTimes, EvaluateError,
        backend::{
            options::{BackendOptions, Setting},
            pool::NetworkEvaluator,
        },
        evaluator::cores,
    },
    version::VERSION,
};

/// The GPU.
pub(super) const GPU: Setting = Setting {
    key: "gpu",
    meaning: "number of the GPU",
    default: "0",
};

/// The number of sessions.
pub(super) const SESSIONS: Setting = Setting {
    key: "sessions",
    meaning: "sessions, 1 to 4; each has its own copy of the network in GPU memory",
    default: "2",
};

/// The default of [`SESSIONS`], and its maximum.
const DEFAULT_SESSIONS: usize = 2;
const MAX_SESSIONS: usize = 4;

/// The sizes of the batches that are timed where a session takes any.
const TIMED_BATCHES: [usize; 5] = [1, 16, 64, TIMED_BATCH, 4 * TIMED_BATCH];

/// A search has no batch that takes longer: it would stop too late.
const MAX_TIMED: Duration = Duration::from_millis(100);

/// A card that needs longer for [`TIMED_BATCH`] positions gains little from more.
const MAX_TIMED_OF_FAST_CARDS: Duration = Duration::from_millis(5);

/// The size of the batch by which a GPU is timed.
pub(super) const TIMED_BATCH: usize = 256;

/// The numeric type of a GPU's computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GpuPrecision {
    /// 16 bits: the fastest.
    Fp16,
    /// 16 bits with the range of 32.
    Bf16,
    /// 32 bits of which products take 19.
    Tf32,
    /// All 32 bits.
    Fp32,
}

impl GpuPrecision {
    /// The setting `precision`, which has to be one of `supported`; `expected` lists those.
    pub(super) fn of(
        options: &BackendOptions,
        supported: &[GpuPrecision],
        expected: &'static str,
    ) -> Result<GpuPrecision, BackendSetupError> {
        let text = options.text("precision").unwrap_or("fp16");
        let precision = match text.to_ascii_lowercase().as_str() {
            "fp16" | "f16" => Some(GpuPrecision::Fp16),
            "bf16" => Some(GpuPrecision::Bf16),
            "tf32" => Some(GpuPrecision::Tf32),
            "fp32" | "f32" => Some(GpuPrecision::Fp32),
            _ => None,
        };
        precision
            .filter(|precision| supported.contains(precision))
            .ok_or_else(|| bad_value("precision", text, expected))
    }

    /// What lc0's weights are converted to.
    pub(super) fn data_type(self) -> DataType {
        match self {
            GpuPrecision::Fp16 => DataType::Float16,
            GpuPrecision::Bf16 => DataType::BFloat16,
            GpuPrecision::Tf32 | GpuPrecision::Fp32 => DataType::Float32,
        }
    }
}

/// What distinguishes the plans of the backends for GPUs.
pub(super) struct GpuPlan<'a> {
    /// What computes.
    pub provider: Arc<dyn ExecutionProvider>,
    /// What lc0's weights are converted to.
    pub data_type: DataType,
    /// Whether squares have to fit into 16 bits.
    pub limits_squares: bool,
    /// The device, for messages.
    pub device: String,
    /// Batch sizes unless the user gives some, ascending.
    pub batch_sizes: &'a [usize],
}

/// The plan of sessions on a GPU.
///
/// # Errors
/// When a setting is wrong.
pub(super) fn plan(
    options: &BackendOptions,
    gpu: GpuPlan<'_>,
) -> Result<SessionPlan, BackendSetupError> {
    let max_sessions = match options.number(SESSIONS.key)? {
        None => DEFAULT_SESSIONS,
        Some(sessions @ 1..=MAX_SESSIONS) => sessions,
        Some(sessions) => {
            return Err(bad_value(SESSIONS.key, &sessions.to_string(), "1 to 4"));
        }
    };
    Ok(SessionPlan {
        settings: SessionSettings {
            provider: gpu.provider,
            threads: 1,
            batch_sizes: batch_sizes(options, gpu.batch_sizes)?,
            session_per_size: false,
            is_lazy: true,
        },
        device: gpu.device,
        advice: Advice {
            threads: 2,
            minibatch: TIMED_BATCH,
            min_batch: least_of(TIMED_BATCH),
        },
        data_type: gpu.data_type,
        limits_squares: gpu.limits_squares,
        max_sessions,
        packed: Packing::Never,
        forms: vec![GraphForm::Plain],
        capture: None,
    })
}

/// Advises the search according to the times of batches of several sizes, which are measured unless the cache has them.
///
/// # Errors
/// When the GPU fails.
pub(super) fn tune(
    evaluator: &mut NetworkEvaluator,
    cache: Option<&TimesCache>,
) -> Result<(), EvaluateError> {
    let time_of = |size| evaluator.time_of(size);
    let sizes = cache.map_or(&[][..], TimesCache::sizes);
    let times = cached_or_measured(cache, time_of, || measure(sizes, time_of))?;
    let times = BatchTimes::new(times).map(|times| times.with_sizes(sizes));
    let time = times
        .as_ref()
        .map_or(Duration::ZERO, |times| times.of(TIMED_BATCH));
    evaluator.set_batch_times(times);
    evaluator.set_advice(Advice {
        threads: threads(time, cores()),
        minibatch: minibatch(time),
        min_batch: least_of(minibatch(time)),
    });
    Ok(())
}

/// Times batches of a session's sizes (ascending), or of several if it takes any.
fn measure(
    sizes: &[usize],
    time_of: impl Fn(usize) -> Result<Duration, EvaluateError>,
) -> Result<Times, EvaluateError> {
    let mut times = Times::new();
    let timed: &[usize] = match sizes {
        [] => &TIMED_BATCHES,
        sizes => sizes,
    };
    for &size in timed {
        let time = match time_of(size) {
            Ok(time) => time,
            // A card may lack the memory for a batch that it was not asked for.
            Err(_) if size > TIMED_BATCH && !times.is_empty() => break,
            Err(error) => return Err(error),
        };
        if time > MAX_TIMED && !times.is_empty() {
            break;
        }
        times.push((size, time));
        let share = TIMED_BATCH as f64 / size as f64;
        if size >= TIMED_BATCH && time.mul_f64(share) > MAX_TIMED_OF_FAST_CARDS {
            break;
        }
    }
    Ok(times)
}

/// The batches of a network that are timed and where their times are kept, on a backend whose libraries have these
/// versions.
pub(super) fn times_cache(
    model: &OnnxModel,
    plan: &SessionPlan,
    form: GraphForm,
    versions: &str,
) -> TimesCache {
    let cards = nvidia::cards(Path::new(nvidia::CARDS));
    let sizes = match model.batch {
        Some(fixed) => vec![fixed],
        None => plan.settings.batch_sizes.clone(),
    };
    let settings = times_key(plan, form, &sizes, versions);
    let settings = format!("{settings} on {cards}");
    TimesCache::of(&model.bytes, &settings, sizes)
}

/// What the times of a network's batches depend on besides the network and the cards.
fn times_key(plan: &SessionPlan, form: GraphForm, sizes: &[usize], versions: &str) -> String {
    let capture = plan.capture.as_ref();
    // It also says how a thread waits for a batch.
    let capture = capture.filter(|_| form == GraphForm::Captured);
    format!(
        "{VERSION} {versions} {} {:?} {} {sizes:?} {:?} {capture:?}",
        plan.device,
        plan.data_type,
        form.name(),
        plan.settings.provider,
    )
}

/// The batch size that suits a card that needs `time` for [`TIMED_BATCH`] positions: a batch should take some
/// milliseconds, because each costs a fixed time on its way, and not so many that the search waits for old values.
fn minibatch(time: Duration) -> usize {
    match time.as_secs_f64() * 1000.0 {
        ..2.5 => 4 * TIMED_BATCH,
        ..5.0 => 2 * TIMED_BATCH,
        ..60.0 => TIMED_BATCH,
        ..150.0 => TIMED_BATCH / 2,
        _ => TIMED_BATCH / 4,
    }
}

/// Seconds that a thread is occupied with a position that a card computes: selection, moves, planes, cache, waiting for
/// the card (docs/gpu.md).
const SEARCH_TIME: f64 = 4e-6;

/// The search threads that suit such a card: two that have batches on it, and one or two that find new positions
/// meanwhile (more of them gain few nodes on an H100, and their visits know less of each other); no more than the
/// machine has processors.
fn threads(time: Duration, processors: usize) -> usize {
    let on_card = time.as_secs_f64() / TIMED_BATCH as f64;
    // A cast from float saturates.
    let searching = (SEARCH_TIME / on_card).ceil() as usize;
    (2 + searching.clamp(1, 2)).min(processors.max(2))
}

/// The part of a batch of this size that costs hardly more than one position: most of a small batch's time goes into
/// starting its kernels.
pub(super) fn least_of(minibatch: usize) -> usize {
    minibatch / 4
}

/// The setting [`GPU`].
pub(super) fn gpu(options: &BackendOptions) -> Result<i32, BackendSetupError> {
    let number = options.number(GPU.key)?.unwrap_or(0);
    i32::try_from(number)
        .map_err(|_| bad_value(GPU.key, &number.to_string(), "the number of a GPU"))
}

/// A setting that is true or false; false if it is not given.
pub(super) fn flag(options: &BackendOptions, key: &str) -> Result<bool, BackendSetupError> {
    match options.text(key) {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(other) => Err(bad_value(key, other, "true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{cuda_provider::CudaProvider, plan::GraphCapture, runtime::Runtime},
        *,
    };
    use crate::network::backend::pool::DeviceSession;

    #[test]
    fn a_flag_is_true_or_false_in_any_case() {
        let flag = |value: &str| {
            let options = BackendOptions::parse(&format!("packed={value}")).unwrap();
            flag(&options, "packed")
        };
        assert!(flag("TRUE").unwrap() && !flag("False").unwrap());
        let error = flag("Yes").unwrap_err().to_string();
        assert!(error.contains("packed=Yes is not true or false"), "{error}");
    }

    /// What is measured of a card with these milliseconds by batch size; larger batches fail.
    fn measured(sizes: &[usize], milliseconds: &[(usize, f64)]) -> Vec<usize> {
        let time_of = |size| {
            let known = milliseconds.iter().find(|(of, _)| *of >= size);
            let time = known.map(|(_, time)| Duration::from_secs_f64(time / 1000.0));
            time.ok_or_else(|| EvaluateError::Panicked {
                message: "out of memory".into(),
            })
        };
        let times = measure(sizes, time_of).unwrap();
        times.into_iter().map(|(size, _)| size).collect()
    }

    #[test]
    fn the_sizes_of_a_session_are_timed_as_far_as_a_search_can_use_them() {
        let sizes = [1, 8, 32, 64, 128, 256, 512, 1024];
        let fast = [(64, 0.26), (256, 0.44), (1024, 1.39)];
        assert_eq!(measured(&sizes, &fast), sizes);
        assert_eq!(measured(&[32, 256], &fast), [32, 256]);
        assert_eq!(measured(&[], &fast), TIMED_BATCHES);
        // Too little memory for 1024 positions, and for 512.
        assert_eq!(measured(&sizes, &[(512, 0.9)]), sizes[..7]);
        assert_eq!(measured(&sizes, &[(256, 0.9)]), sizes[..6]);
        // 256 positions in more than 5 milliseconds gain little from larger batches.
        let slow = [(128, 5.6), (256, 9.9), (1024, 34.0)];
        assert_eq!(measured(&sizes, &slow), sizes[..6]);
        assert_eq!(measured(&[1, 500, 1000], &slow), [1, 500]);
        // No batch of a search takes more than 100.
        let slower = [(32, 60.0), (1024, 110.0)];
        assert_eq!(measured(&sizes, &slower), sizes[..3]);
        assert_eq!(measured(&[256], &slower), [256]);
    }

    /// Captures nothing, and is named by a number.
    #[derive(Debug)]
    struct NoCapture(#[expect(dead_code, reason = "it is shown")] usize);

    impl GraphCapture for NoCapture {
        fn capture(
            &self,
            _: &Runtime,
            _: &Arc<OnnxModel>,
            _: &SessionSettings,
        ) -> Result<Box<dyn DeviceSession>, String> {
            Err("nothing is captured".to_owned())
        }
    }

    #[test]
    fn times_are_kept_for_each_setting_on_which_they_depend() {
        let key = |nhwc: bool, spin: usize, form: GraphForm, sizes: &[usize]| {
            let provider = CudaProvider {
                device: 0,
                tf32: true,
                nhwc,
            };
            let gpu = GpuPlan {
                provider: Arc::new(provider),
                data_type: DataType::Float16,
                limits_squares: false,
                device: "CUDA GPU 0".to_owned(),
                batch_sizes: sizes,
            };
            let plan = SessionPlan {
                capture: Some(Arc::new(NoCapture(spin))),
                ..plan(&BackendOptions::default(), gpu).unwrap()
            };
            times_key(&plan, form, sizes, "1.31.1")
        };
        let first = key(false, 0, GraphForm::Captured, &[1, 8]);
        assert_eq!(key(false, 0, GraphForm::Captured, &[1, 8]), first);
        for other in [
            key(true, 0, GraphForm::Captured, &[1, 8]),
            key(false, 50, GraphForm::Captured, &[1, 8]),
            key(false, 0, GraphForm::Fused, &[1, 8]),
            key(false, 0, GraphForm::Captured, &[1, 64]),
        ] {
            assert_ne!(other, first);
        }
        // Only captured batches are waited for in such a way.
        let fused = |spin| key(false, spin, GraphForm::Fused, &[1, 8]);
        assert_eq!(fused(0), fused(50));
    }

    #[test]
    fn fast_cards_get_larger_batches() {
        let sizes = [1.0, 4.0, 10.0, 59.0, 100.0, 900.0]
            .map(|milliseconds| minibatch(Duration::from_secs_f64(milliseconds / 1000.0)));
        assert_eq!(sizes, [1024, 512, 256, 256, 128, 64]);
    }

    #[test]
    fn cards_that_are_faster_than_a_search_get_more_threads() {
        let threads = [0.0, 0.27, 0.6, 1.8, 59.0].map(|milliseconds| {
            let time = Duration::from_secs_f64(milliseconds / 1000.0);
            (threads(time, 16), threads(time, 2), milliseconds)
        });
        let expected = [
            (4, 2, 0.0),
            (4, 2, 0.27),
            (4, 2, 0.6),
            (3, 2, 1.8),
            (3, 2, 59.0),
        ];
        assert_eq!(threads, expected);
        assert_eq!(super::threads(Duration::ZERO, 1), 2);
    }
}
