//! The failures of CUDA that messages report: those of ONNX Runtime by the number of the error, those of CUDA's driver
//! (captured graphs) by its name.

use cudarc::driver::sys::CUresult;

/// A failure of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaFailure<'a> {
    /// Its cause.
    pub cause: Cause,
    /// What CUDA says about it.
    pub text: &'a str,
}

/// Why CUDA fails, as far as users can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no GPU.
    NoGpu,
    /// There is no GPU of that number.
    NoSuchGpu,
    /// The driver is older than the libraries need.
    OldDriver,
    /// The parts of the driver have different versions, as after its update in a running system.
    MixedDriver,
    /// The libraries have no code for a GPU of this kind.
    UnsupportedGpu,
    /// The GPU has failed, and with it all that this process has on it: every further call reports that again.
    Broken,
}

/// The errors of CUDA that have such a cause.
const CAUSES: [(CUresult, Cause); 18] = [
    (CUresult::CUDA_ERROR_NO_DEVICE, Cause::NoGpu),
    (CUresult::CUDA_ERROR_INVALID_DEVICE, Cause::NoSuchGpu),
    (
        CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER,
        Cause::OldDriver,
    ),
    (
        CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
        Cause::OldDriver,
    ),
    (
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        Cause::MixedDriver,
    ),
    (
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
        Cause::UnsupportedGpu,
    ),
    (CUresult::CUDA_ERROR_ECC_UNCORRECTABLE, Cause::Broken),
    (CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE, Cause::Broken),
    (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, Cause::Broken),
    (CUresult::CUDA_ERROR_LAUNCH_TIMEOUT, Cause::Broken),
    (CUresult::CUDA_ERROR_ASSERT, Cause::Broken),
    (CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR, Cause::Broken),
    (CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION, Cause::Broken),
    (CUresult::CUDA_ERROR_MISALIGNED_ADDRESS, Cause::Broken),
    (CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE, Cause::Broken),
    (CUresult::CUDA_ERROR_INVALID_PC, Cause::Broken),
    (CUresult::CUDA_ERROR_LAUNCH_FAILED, Cause::Broken),
    (CUresult::CUDA_ERROR_UNKNOWN, Cause::Broken),
];

/// The only such error that the driver itself does not have: `cudaErrorInsufficientDriver`.
const INSUFFICIENT_DRIVER: u32 = 35;

impl<'a> CudaFailure<'a> {
    /// The failure that a message reports, if there is something to do about it.
    pub fn reported_by(message: &'a str) -> Option<CudaFailure<'a>> {
        by_number(message).or_else(|| by_name(message))
    }
}

/// What to do about a failed evaluation with this message, if the GPU is why.
pub fn hint(message: &str) -> Option<&'static str> {
    let failure = CudaFailure::reported_by(message)?;
    (failure.cause == Cause::Broken)
        .then_some("; the GPU has failed: only a restart of the program, or of the machine, helps")
}

/// As ONNX Runtime reports it: `CUDA failure NUMBER: TEXT ; GPU=0 ; ...`.
fn by_number(message: &str) -> Option<CudaFailure<'_>> {
    let (_, failure) = message.split_once("CUDA failure ")?;
    let (number, text) = failure.split_once(": ")?;
    let text = text.split(" ;").next()?.trim();
    let number = number.parse::<u32>().ok()?;
    let listed = CAUSES.iter().find(|(code, _)| *code as u32 == number);
    let cause = match listed {
        Some(&(_, cause)) => cause,
        None if number == INSUFFICIENT_DRIVER => Cause::OldDriver,
        None => return None,
    };
    Some(CudaFailure { cause, text })
}

/// As `cudarc` reports it: `DriverError(CUDA_ERROR_NAME, "TEXT")`.
fn by_name(message: &str) -> Option<CudaFailure<'_>> {
    let (_, failure) = message.split_once("DriverError(")?;
    let (name, text) = failure.split_once(", \"")?;
    let text = text.split('"').next()?;
    let mut listed = CAUSES.iter();
    let &(_, cause) = listed.find(|(code, _)| format!("{code:?}") == name)?;
    // Only Scorn's kernels are loaded by the driver; what ONNX Runtime has for the GPU is yet to be seen.
    (cause != Cause::UnsupportedGpu).then_some(CudaFailure { cause, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_by_number_and_by_name() {
        for (message, cause, text) in [
            (
                "/ort/cuda_call.cc:129 CUDA failure 719: unspecified launch failure ; GPU=0 ; hostname=vm ; line=70",
                Cause::Broken,
                "unspecified launch failure",
            ),
            (
                "CUDA: kernel LegalMoves: DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \
                 \"an illegal memory access was encountered\")",
                Cause::Broken,
                "an illegal memory access was encountered",
            ),
            (
                "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1",
                Cause::OldDriver,
                "CUDA driver version is insufficient for CUDA runtime version",
            ),
            (
                "CUDA failure 209: no kernel image is available for execution on the device ; GPU=0",
                Cause::UnsupportedGpu,
                "no kernel image is available for execution on the device",
            ),
            (
                "CUDA: DriverError(CUDA_ERROR_INVALID_DEVICE, \"invalid device ordinal\")",
                Cause::NoSuchGpu,
                "invalid device ordinal",
            ),
        ] {
            let found = CudaFailure::reported_by(message);
            assert_eq!(found, Some(CudaFailure { cause, text }), "{message}");
        }
        for message in [
            "CUDA failure 2: out of memory ; GPU=0",
            "CUDA: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
            "CUDA failure 900: operation not permitted when stream is capturing",
            // Other forms of the graph than with Scorn's kernels may work.
            "CUDA: Scorn's kernels cannot be loaded: DriverError(CUDA_ERROR_NO_BINARY_FOR_GPU, \"no kernel image\")",
            "CUDA: nothing was captured",
            "a game was lost in 700 moves",
        ] {
            assert_eq!(CudaFailure::reported_by(message), None, "{message}");
        }
    }

    #[test]
    fn a_gpu_that_has_failed_needs_a_restart() {
        for message in [
            "CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=vm",
            "CUDA: DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")",
            "CUDA: DriverError(CUDA_ERROR_UNKNOWN, \"unknown error\")",
        ] {
            let hint = hint(message).unwrap_or_default();
            assert!(hint.contains("only a restart of the program"), "{message}");
        }
        for message in [
            "CUDA failure 900: operation not permitted when stream is capturing",
            "CUDA: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"\")",
            "CUDA failure 100: no CUDA-capable device is detected ; GPU=0",
        ] {
            assert_eq!(hint(message), None, "{message}");
        }
    }
}
