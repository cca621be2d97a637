//! The backend `auto`: the first backend of the list that works on this machine with this network.

use std::sync::Arc;

use super::{
    error::LoadError,
    factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest},
};
use crate::network::Evaluator;

/// Description of `auto`.
pub static INFO: BackendInfo = BackendInfo {
    name: "auto",
    // Backends of lc0 that have no counterpart.
    lc0_names: &[
        "blas",
        "eigen",
        "dnnl",
        "onednn",
        "mkl",
        "opencl",
        "dx12",
        "tensorflow",
        "tensorflow-cc",
        "tensorflow-cc-cpu",
        "onnx-rocm",
        "onnx-migraphx",
        "metal",
        "sycl",
        "sycl-fp16",
        "xla",
        "recordreplay",
    ],
    kind: BackendKind::Choice,
    summary: "the first of the automatic ones that works",
    documentation: "the first of the following that works; `info string` reports which one, and why the others were rejected",
    requirements: "",
    install_command: None,
    settings: &[],
};

/// The backend `auto`.
pub struct Auto;

impl BackendFactory for Auto {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    /// Only an error in the network itself ends the attempts.
    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        let mut skipped: Vec<Skipped> = Vec::new();
        let automatic = |factory: &&&dyn BackendFactory| factory.info().is_automatic();
        for factory in request.backends.iter().filter(automatic) {
            if !factory.is_meant_for(request.network) {
                continue;
            }
            let request = BackendRequest {
                note: note(&skipped),
                is_automatic: true,
                ..request.clone()
            };
            match factory.create(&request) {
                Ok(evaluator) => return Ok(evaluator),
                Err(error) if error.is_about_the_network() => return Err(error),
                Err(error) => skipped.push(Skipped {
                    name: factory.info().name,
                    reason: error.reason(),
                }),
            }
        }
        let alike = skipped.chunk_by(|one, other| one.reason == other.reason);
        let reasons = alike.map(|alike| format!("{} ({})", names(alike), alike[0].reason));
        let reasons: Vec<String> = reasons.collect();
        Err(LoadError::NothingWorks(reasons.join("; ")))
    }
}

/// A backend that does not work, and why.
struct Skipped {
    name: &'static str,
    reason: String,
}

fn names(skipped: &[Skipped]) -> String {
    let names: Vec<&str> = skipped.iter().map(|skipped| skipped.name).collect();
    names.join(", ")
}

/// What the description says about backends that were not used. Their reasons would not fit on the line.
fn note(skipped: &[Skipped]) -> String {
    match skipped {
        [] => String::new(),
        skipped => format!("not used: {} (see scorn runtime)", names(skipped)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lc0::ConvertOptions,
        network::{
            EvaluateError,
            backend::{hash::HashEvaluator, options::BackendOptions},
            source::NetworkSource,
        },
        options::HistoryFill,
    };

    /// A backend that works, lacks something, or finds the network unusable.
    struct Fake {
        info: BackendInfo,
        outcome: fn(&BackendRequest<'_>) -> Result<(), LoadError>,
    }

    impl BackendFactory for Fake {
        fn info(&self) -> &BackendInfo {
            &self.info
        }
        fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
            assert!(request.is_automatic);
            (self.outcome)(request).map(|()| Arc::new(HashEvaluator) as Arc<dyn Evaluator>)
        }
    }

    const fn fake(
        name: &'static str,
        is_automatic: bool,
        outcome: fn(&BackendRequest<'_>) -> Result<(), LoadError>,
    ) -> Fake {
        Fake {
            info: BackendInfo {
                name,
                kind: BackendKind::Device { is_automatic },
                ..INFO
            },
            outcome,
        }
    }

    fn missing(reason: &str) -> LoadError {
        LoadError::Unavailable {
            backend: "fake",
            reason: reason.to_owned(),
        }
    }

    static BROKEN: Fake = fake("broken", true, |_| Err(missing("no driver")));
    static BROKEN_TOO: Fake = fake("broken-too", true, |_| Err(missing("no driver")));
    static MANUAL: Fake = fake("manual", false, |_| panic!("only by name"));
    static WORKING: Fake = fake("working", true, |request| {
        assert_eq!(request.note, "not used: broken (see scorn runtime)");
        Ok(())
    });
    static REFUSING: Fake = fake("refusing", true, |_| {
        Err(LoadError::Evaluate(EvaluateError::NotFinite {
            network: "network".into(),
            output: "policy".into(),
        }))
    });

    fn choose(backends: &[&dyn BackendFactory]) -> Result<(), LoadError> {
        let request = BackendRequest {
            network: &NetworkSource::new("<built in>"),
            conversion: &ConvertOptions::default(),
            options: &BackendOptions::default(),
            runtime_path: "",
            fill: HistoryFill::No,
            threads: 1,
            is_automatic: false,
            note: String::new(),
            backends,
            report_progress: &|_| {},
        };
        Auto.create(&request).map(|_| ())
    }

    #[test]
    fn the_first_automatic_backend_that_works_is_taken() {
        choose(&[&MANUAL, &BROKEN, &WORKING, &REFUSING]).unwrap();
    }

    #[test]
    fn an_unusable_network_ends_the_attempts() {
        let error = choose(&[&REFUSING, &WORKING]).unwrap_err().to_string();
        assert!(error.contains("not a finite number"), "{error}");
    }

    #[test]
    fn where_nothing_works_equal_reasons_are_given_once() {
        let error = choose(&[&BROKEN, &MANUAL, &BROKEN_TOO]).unwrap_err();
        let expected = "no backend works: broken, broken-too (no driver)";
        assert_eq!(error.to_string(), expected);
    }
}
