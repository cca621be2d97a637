//! How sessions on NVIDIA's GPUs are set up: precision, batch sizes, how many there are.
//!
//! What is decided here follows from how ONNX Runtime's providers work, and is measured by `benches/gpu.sh`:
//! * CUDA's provider remembers one plan for each convolution, so every change of the batch size makes a new one. A model
//!   with convolutions therefore gets a session for each of a few sizes; other models take all sizes in one session.
//! * A convolution in fp16 gets no tensor cores when TF32 is forbidden, so that is forbidden for `precision=fp32` only.
//! * A session has its own weights, memory, stream and pinned buffers. Two keep a GPU busy, one batch being prepared while
//!   another is computed; the search may have any number of threads.

use std::{env, time::Duration};

use super::{
    errors::BackendSetupError,
    plan::{CudaSettings, SessionPlan, SessionSettings, Target, bad_value, batch_sizes},
};
use crate::{
    lc0::{DataType, OnnxModel},
    network::{Advice, backend::options::BackendOptions},
};

/// Batch sizes of models that take all of them in one session.
const SIZES: [usize; 8] = [1, 8, 32, 64, 128, 256, 512, 1024];
/// Batch sizes of models with convolutions, of which each takes a session.
const CONVOLUTION_SIZES: [usize; 4] = [8, 64, 256, 1024];
/// The same for models so large that each session more is felt in the GPU's memory.
const LARGE_CONVOLUTION_SIZES: [usize; 2] = [32, 256];
/// From this size on a model is large, in bytes.
const LARGE_MODEL: usize = 128 << 20;
/// TensorRT builds one engine for all sizes; larger ones than the search uses would only cost memory.
const TENSORRT_SIZES: [usize; 6] = [1, 8, 32, 64, 128, 256];

/// The batch that is timed to find out what the card wants.
pub const TIMED_BATCH: usize = 256;

/// What a run costs however small it is, in positions that could be computed in the same time.
const COST_OF_A_RUN: usize = 64;

/// Sessions unless `sessions` says otherwise, and at most.
const SESSIONS: usize = 2;
const MOST_SESSIONS: usize = 4;

/// The variable by which NVIDIA's libraries are told to compute in full 32 bits; nothing else tells TensorRT.
const TF32_OVERRIDE: &str = "NVIDIA_TF32_OVERRIDE";

/// What a GPU computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuPrecision {
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
    fn of(
        options: &BackendOptions,
        known: &[GpuPrecision],
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
            .filter(|precision| known.contains(precision))
            .ok_or_else(|| bad_value("precision", text, expected))
    }

    /// What lc0's weights are converted to.
    fn data_type(self) -> DataType {
        match self {
            GpuPrecision::Fp16 => DataType::Float16,
            GpuPrecision::Bf16 => DataType::BFloat16,
            GpuPrecision::Tf32 | GpuPrecision::Fp32 => DataType::Float32,
        }
    }
}

/// The plan for CUDA.
///
/// # Errors
/// When a setting is wrong.
pub fn cuda(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    use GpuPrecision::{Bf16, Fp16, Fp32, Tf32};
    options.only(
        "cuda",
        &["gpu", "batch", "precision", "sessions", "nhwc", "packed"],
    )?;
    let known = [Fp16, Bf16, Tf32, Fp32];
    let precision = GpuPrecision::of(options, &known, "fp16, bf16, tf32 or fp32")?;
    let shown = match precision {
        Fp16 | Bf16 => "",
        Tf32 => ", tf32",
        Fp32 => ", fp32",
    };
    let device = gpu(options)?;
    let target = Target::Cuda(CudaSettings {
        device,
        tf32: precision != Fp32,
        nhwc: flag(options, "nhwc")?,
    });
    plan(
        options,
        target,
        precision.data_type(),
        format!("CUDA GPU {device}{shown}"),
        &SIZES,
    )
}

/// The plan for TensorRT.
///
/// # Errors
/// When a setting is wrong.
pub fn tensorrt(options: &BackendOptions) -> Result<SessionPlan, BackendSetupError> {
    let is_exact = env::var(TF32_OVERRIDE).is_ok_and(|value| value == "0");
    tensorrt_with(options, is_exact)
}

/// The same, where the environment does or does not forbid TF32.
fn tensorrt_with(
    options: &BackendOptions,
    is_exact: bool,
) -> Result<SessionPlan, BackendSetupError> {
    use GpuPrecision::{Fp16, Fp32, Tf32};
    let known = ["gpu", "batch", "precision", "sessions", "cache"];
    options.only("tensorrt", &known)?;
    let precision = GpuPrecision::of(options, &[Fp16, Tf32, Fp32], "fp16, tf32 or fp32")?;
    if precision == Fp32 && !is_exact {
        return Err(bad_value(
            "precision",
            "fp32",
            "what TensorRT computes unless the program is started with NVIDIA_TF32_OVERRIDE=0; take tf32, or cuda",
        ));
    }
    let device = gpu(options)?;
    let shown = match precision {
        Fp16 => "fp16",
        Tf32 => "tf32",
        _ => "fp32",
    };
    let target = Target::TensorRt {
        cuda: CudaSettings {
            device,
            tf32: precision != Fp32,
            nhwc: false,
        },
        fp16: precision == Fp16,
        cache: options.text("cache").unwrap_or("").to_owned(),
    };
    // TensorRT lowers the precision itself, of squares too, unless they are limited.
    plan(
        options,
        target,
        DataType::Float32,
        format!("TensorRT GPU {device}, {shown}"),
        &TENSORRT_SIZES,
    )
}

fn plan(
    options: &BackendOptions,
    target: Target,
    data_type: DataType,
    device: String,
    sizes: &[usize],
) -> Result<SessionPlan, BackendSetupError> {
    let max_sessions = match options.number("sessions")? {
        None => SESSIONS,
        Some(sessions @ 1..=MOST_SESSIONS) => sessions,
        Some(sessions) => {
            return Err(bad_value("sessions", &sessions.to_string(), "1 to 4"));
        }
    };
    Ok(SessionPlan {
        limits_squares: matches!(target, Target::TensorRt { fp16: true, .. }),
        settings: SessionSettings {
            target,
            threads: 1,
            batch_sizes: batch_sizes(options, sizes)?,
            session_per_size: false,
            is_lazy: true,
        },
        device,
        advice: Advice {
            threads: 2,
            minibatch: TIMED_BATCH,
            min_batch: least_of(TIMED_BATCH),
        },
        data_type,
        max_sessions,
        packed: flag(options, "packed")?,
    })
}

/// Fits a plan to the model: with convolutions, CUDA gets fewer sizes (unless they were asked for), each with a session of
/// its own.
///
/// # Errors
/// When the GPU could not compute the model.
pub fn fit(
    plan: &mut SessionPlan,
    options: &BackendOptions,
    model: &OnnxModel,
) -> Result<(), BackendSetupError> {
    if !matches!(plan.settings.target, Target::Cuda(_)) || !model.has_convolutions {
        return Ok(());
    }
    if model.is_bfloat16 {
        return Err(BackendSetupError::Unavailable(
            "CUDA has no convolutions in bf16 and would leave them to the CPU; take precision=fp16, or convert the model to fp16".to_owned(),
        ));
    }
    let usual: &[usize] = match model.bytes.len() >= LARGE_MODEL {
        true => &LARGE_CONVOLUTION_SIZES,
        false => &CONVOLUTION_SIZES,
    };
    plan.settings.batch_sizes = batch_sizes(options, usual)?;
    plan.settings.session_per_size = true;
    Ok(())
}

/// How many of `rows` positions to compute in the next run, of a session with these sizes (ascending): one run that is
/// padded, or several that are not, whichever costs less.
pub fn next_run(sizes: &[usize], rows: usize) -> usize {
    best_run(sizes, rows).0
}

/// That, and what all runs cost together.
fn best_run(sizes: &[usize], rows: usize) -> (usize, usize) {
    let padded = sizes.iter().find(|&&size| size >= rows);
    let padded = padded.map(|&size| (rows, size + COST_OF_A_RUN));
    let full = sizes.iter().rfind(|&&size| size < rows).map(|&size| {
        let (runs, rest) = (rows / size, rows % size);
        let rest = if rest == 0 {
            0
        } else {
            best_run(sizes, rest).1
        };
        (size, runs * (size + COST_OF_A_RUN) + rest)
    });
    let runs = [padded, full].into_iter().flatten();
    runs.min_by_key(|&(_, cost)| cost).unwrap_or((rows, 0))
}

/// The batch size that suits a card which needs so long for [`TIMED_BATCH`] positions: a batch should take some
/// milliseconds, because each costs a fixed time on its way, and not so many that the search waits for old values.
pub fn minibatch(time: Duration) -> usize {
    match time.as_secs_f64() * 1000.0 {
        ..2.5 => 4 * TIMED_BATCH,
        ..5.0 => 2 * TIMED_BATCH,
        ..60.0 => TIMED_BATCH,
        ..150.0 => TIMED_BATCH / 2,
        _ => TIMED_BATCH / 4,
    }
}

/// Seconds that a search's own work takes for a position (selection, moves, priors, backup: benches/RESULTS.md).
const SEARCH_TIME: f64 = 2e-6;

/// The search threads that suit such a card: while one's positions are on it, the others must find as many new ones.
pub fn threads(time: Duration) -> usize {
    let on_card = time.as_secs_f64() / TIMED_BATCH as f64;
    // A cast from float saturates.
    let searching = (SEARCH_TIME / on_card).ceil() as usize;
    1 + searching.clamp(1, 3)
}

/// The part of a batch of this size that costs hardly more than one position: most of a small batch's time goes into starting
/// its kernels.
pub fn least_of(minibatch: usize) -> usize {
    minibatch / 4
}

fn gpu(options: &BackendOptions) -> Result<i32, BackendSetupError> {
    let number = options.number("gpu")?.unwrap_or(0);
    i32::try_from(number).map_err(|_| bad_value("gpu", &number.to_string(), "the number of a GPU"))
}

fn flag(options: &BackendOptions, key: &str) -> Result<bool, BackendSetupError> {
    match options.text(key) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(bad_value(key, other, "true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lc0::InputFormat;

    fn options(text: &str) -> BackendOptions {
        BackendOptions::parse(text).unwrap()
    }

    fn model(has_convolutions: bool, is_bfloat16: bool, bytes: usize) -> OnnxModel {
        OnnxModel {
            bytes: vec![0; bytes],
            has_convolutions,
            is_bfloat16,
            ..OnnxModel::empty(InputFormat::Classical112)
        }
    }

    /// The settings for CUDA, as far as precision is concerned.
    fn cuda_settings(text: &str) -> (DataType, CudaSettings) {
        let plan = cuda(&options(text)).unwrap();
        let Target::Cuda(settings) = plan.settings.target else {
            panic!("{plan:?}");
        };
        (plan.data_type, settings)
    }

    #[test]
    fn tf32_is_forbidden_for_full_precision_only() {
        for (text, data_type, tf32) in [
            ("", DataType::Float16, true),
            ("precision=fp16", DataType::Float16, true),
            ("precision=bf16", DataType::BFloat16, true),
            ("precision=tf32", DataType::Float32, true),
            ("precision=fp32", DataType::Float32, false),
        ] {
            let (found, settings) = cuda_settings(text);
            assert_eq!((found, settings.tf32), (data_type, tf32), "{text}");
            assert!(!settings.nhwc);
        }
        assert!(cuda_settings("nhwc,gpu=1").1.nhwc);
        assert!(cuda(&options("packed")).unwrap().packed && !cuda(&options("")).unwrap().packed);
        let error = cuda(&options("precision=int4")).unwrap_err().to_string();
        assert!(error.contains("fp16, bf16, tf32 or fp32"), "{error}");
    }

    #[test]
    fn tensorrt_says_that_its_32_bits_are_fewer() {
        let error = tensorrt_with(&options("precision=fp32"), false).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("NVIDIA_TF32_OVERRIDE=0") && error.contains("tf32"),
            "{error}"
        );
        for (text, shown, is_half) in [("", "fp16", true), ("precision=tf32", "tf32", false)] {
            let plan = tensorrt_with(&options(text), false).unwrap();
            assert!(plan.device.ends_with(shown), "{}", plan.device);
            let Target::TensorRt { fp16, .. } = plan.settings.target else {
                panic!("{plan:?}");
            };
            assert_eq!((fp16, plan.data_type), (is_half, DataType::Float32));
            assert_eq!(plan.limits_squares, is_half);
        }
        assert!(tensorrt_with(&options("precision=fp32"), true).is_ok());
        assert!(tensorrt_with(&options("precision=bf16"), true).is_err());
    }

    #[test]
    fn a_gpu_has_few_sessions_whatever_the_search_wants() {
        assert_eq!(cuda(&options("")).unwrap().max_sessions, 2);
        assert_eq!(cuda(&options("sessions=4")).unwrap().max_sessions, 4);
        assert_eq!(
            tensorrt_with(&options("sessions=1"), false)
                .unwrap()
                .max_sessions,
            1
        );
        for text in ["sessions=0", "sessions=5"] {
            let error = cuda(&options(text)).unwrap_err().to_string();
            assert!(error.contains("1 to 4"), "{error}");
        }
    }

    #[test]
    fn convolutions_get_a_session_for_each_of_few_sizes() {
        let fitted = |text: &str, model: &OnnxModel| {
            let options = options(text);
            let mut plan = cuda(&options).unwrap();
            fit(&mut plan, &options, model).map(|()| plan.settings)
        };
        let dense = fitted("", &model(false, true, 9)).unwrap();
        assert_eq!(
            (&dense.batch_sizes[..], dense.session_per_size),
            (&SIZES[..], false)
        );
        let small = fitted("", &model(true, false, 9)).unwrap();
        assert_eq!(small.batch_sizes, CONVOLUTION_SIZES);
        assert!(small.session_per_size);
        let large = fitted("", &model(true, false, LARGE_MODEL)).unwrap();
        assert_eq!(large.batch_sizes, LARGE_CONVOLUTION_SIZES);
        let asked = fitted("batch=128/16", &model(true, false, 9)).unwrap();
        assert_eq!(
            (asked.batch_sizes, asked.session_per_size),
            (vec![16, 128], true)
        );
        let error = fitted("precision=bf16", &model(true, true, 9)).unwrap_err();
        assert!(error.to_string().contains("bf16"), "{error}");
        // TensorRT has one engine for all sizes.
        let mut plan = tensorrt_with(&options(""), false).unwrap();
        fit(&mut plan, &options(""), &model(true, false, 9)).unwrap();
        assert!(!plan.settings.session_per_size);
        assert_eq!(plan.settings.batch_sizes, TENSORRT_SIZES);
    }

    #[test]
    fn copies_of_a_network_in_the_gpus_memory_are_few() {
        for (bytes, most) in [(9, 8), (LARGE_MODEL, 4)] {
            let mut plan = cuda(&options("")).unwrap();
            fit(&mut plan, &options(""), &model(true, false, bytes)).unwrap();
            let copies = plan.max_sessions * plan.settings.batch_sizes.len();
            assert!(copies <= most, "{copies}");
        }
        // Those of sizes that no search uses are not made.
        assert!(cuda(&options("")).unwrap().settings.is_lazy);
        assert!(tensorrt_with(&options(""), false).unwrap().settings.is_lazy);
    }

    #[test]
    fn batches_are_padded_or_cut_whichever_costs_less() {
        for (rows, first) in [
            (1, 1),
            (8, 8),
            // 64 padded, rather than 8, 8 and 4.
            (20, 20),
            // 64 and 1, rather than 256 of which 191 are for nothing.
            (65, 64),
            (200, 200),
            // 256 and 44, rather than 1024.
            (300, 256),
            (900, 900),
            (1024, 1024),
            (1500, 1024),
        ] {
            assert_eq!(next_run(&CONVOLUTION_SIZES, rows), first, "{rows}");
        }
        assert_eq!((next_run(&[32], 100), next_run(&[], 7)), (32, 7));
    }

    #[test]
    fn fast_cards_get_larger_batches() {
        let sizes = [1.0, 4.0, 10.0, 59.0, 100.0, 900.0]
            .map(|milliseconds| minibatch(Duration::from_secs_f64(milliseconds / 1000.0)));
        assert_eq!(sizes, [1024, 512, 256, 256, 128, 64]);
    }

    #[test]
    fn cards_that_are_faster_than_a_search_get_more_threads() {
        let threads = [0.0, 0.1, 0.3, 0.6, 2.0, 59.0].map(|milliseconds| {
            let time = Duration::from_secs_f64(milliseconds / 1000.0);
            (threads(time), milliseconds)
        });
        let expected = [(4, 0.0), (4, 0.1), (3, 0.3), (2, 0.6), (2, 2.0), (2, 59.0)];
        assert_eq!(threads, expected);
    }
}
