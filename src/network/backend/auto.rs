//! The backend `auto`: the first backend of the list that works on this machine with this network.

use std::sync::Arc;

use super::{
    error::LoadError,
    factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest, check_settings_of_any},
    options::BackendOptionsError,
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
        "sycl-auto",
        "xla",
        "recordreplay",
    ],
    kind: BackendKind::Choice,
    summary: "the first of the automatic ones that works",
    documentation: "the first of the following that works; `info string` reports which one, and which others were \
        tried; `scorn runtime` says why those do not work",
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
        check_settings_of_any(INFO.name, request.options, request.backends)?;
        let mut skipped: Vec<Skipped> = Vec::new();
        let mut is_name_reported = false;
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
            match create_with_usable(*factory, &request) {
                Ok((evaluator, unusable)) => {
                    report_unused_settings(factory.info(), &request, &unusable);
                    return Ok(evaluator);
                }
                Err(error) if error.is_about_the_network() => return Err(error),
                Err(error) => {
                    if !is_name_reported && error.is_about_a_named_library() {
                        let reason = error.reason();
                        (request.report_progress)(&format!("error: {reason}"));
                        is_name_reported = true;
                    }
                    skipped.push(Skipped {
                        name: factory.info().name,
                        reason: error.reason(),
                    });
                }
            }
        }
        let alike = skipped.chunk_by(|one, other| one.reason == other.reason);
        let reasons = alike.map(|alike| format!("{} ({})", names(alike), alike[0].reason));
        let reasons: Vec<String> = reasons.collect();
        Err(LoadError::NothingWorks(reasons.join("; ")))
    }
}

/// The backend's evaluator with those settings of the request that it has and whose values it can use, and what is
/// wrong with the other values: what the user set for a GPU must not keep a processor from being used.
///
/// # Errors
/// As [`BackendFactory::create`], but not for these settings.
pub fn create_with_usable(
    factory: &dyn BackendFactory,
    request: &BackendRequest<'_>,
) -> Result<(Arc<dyn Evaluator>, Vec<BackendOptionsError>), LoadError> {
    let unused = factory
        .info()
        .unused_settings(request.options, request.backends);
    let mut options = request.options.without(&unused);
    let mut unusable = Vec::new();
    loop {
        let created = factory.create(&BackendRequest {
            options: &options,
            ..request.clone()
        });
        match created {
            Err(LoadError::Options(error)) => match error.rejected_setting() {
                Some(key) if options.text(key).is_some() => {
                    options = options.without(&[key]);
                    unusable.push(error);
                }
                _ => return Err(error.into()),
            },
            created => return created.map(|evaluator| (evaluator, unusable)),
        }
    }
}

/// Reports the settings that mean nothing to the backend that was taken, and those with values that it cannot use.
fn report_unused_settings(
    backend: &BackendInfo,
    request: &BackendRequest<'_>,
    unusable: &[BackendOptionsError],
) {
    for error in unusable {
        let name = backend.name;
        (request.report_progress)(&format!("{error}; auto takes {name} without it"));
    }
    let unused = backend.unused_settings(request.options, request.backends);
    if !unused.is_empty() {
        let (name, unused) = (backend.name, unused.join(", "));
        (request.report_progress)(&format!(
            "BackendOptions: auto takes {name}, which does not use {unused}"
        ));
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
    use crate::network::{
        EvaluateError,
        backend::{
            factory::with_request,
            hash::HashEvaluator,
            options::{BackendOptions, THREADS},
            ort::{cpu::OnnxCpu, cuda::Cuda, runtime::RuntimeError},
            rten::Rten,
        },
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
    static ANY: Fake = fake("any", true, |_| Ok(()));
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
        choose_with("", backends).0
    }

    /// The choice with these `BackendOptions`, and what was reported.
    fn choose_with(
        options: &str,
        backends: &[&dyn BackendFactory],
    ) -> (Result<(), LoadError>, Vec<String>) {
        let options = BackendOptions::parse(options).unwrap();
        with_request("<built in>", &options, |request| {
            let request = BackendRequest {
                backends,
                ..request
            };
            Auto.create(&request).map(|_| ())
        })
    }

    #[test]
    fn a_library_that_is_named_wrongly_is_reported_once() {
        const fn without_library(
            outcome: fn(&BackendRequest<'_>) -> Result<(), LoadError>,
        ) -> Fake {
            fake("needs the library", true, outcome)
        }
        fn no_library(error: RuntimeError) -> Result<(), LoadError> {
            Err(LoadError::Runtime {
                backend: "fake",
                error,
                install_command: "",
            })
        }
        static NAMED: Fake = without_library(|_| {
            no_library(RuntimeError::NotThere {
                named_by: "OnnxRuntimePath",
                path: "/nowhere".into(),
            })
        });
        static SEARCHED: Fake = without_library(|_| {
            no_library(RuntimeError::NotFound {
                searched: "/usual".to_owned(),
            })
        });
        let (chosen, reported) = choose_with("", &[&NAMED, &NAMED, &ANY]);
        chosen.unwrap();
        let [text] = &reported[..] else {
            panic!("{reported:?}")
        };
        assert!(
            text.contains("OnnxRuntimePath") && text.contains("/nowhere"),
            "{text}"
        );
        let (chosen, reported) = choose_with("", &[&SEARCHED, &ANY]);
        chosen.unwrap();
        assert!(reported.is_empty(), "{reported:?}");
    }

    #[test]
    fn settings_of_no_backend_are_refused_and_those_of_others_reported() {
        static WITH_THREADS: Fake = Fake {
            info: BackendInfo {
                settings: &[THREADS],
                ..MANUAL.info
            },
            ..MANUAL
        };
        let (chosen, reported) = choose_with("threads=2", &[&WITH_THREADS, &ANY]);
        chosen.unwrap();
        let text = "BackendOptions: auto takes any, which does not use threads";
        assert_eq!(reported, [text]);
        let (chosen, reported) = choose_with("thraeds=2,threads=2", &[&WITH_THREADS, &ANY]);
        let error = chosen.unwrap_err().to_string();
        assert!(
            error.contains("'thraeds'; the settings are: threads"),
            "{error}"
        );
        assert!(reported.is_empty(), "{reported:?}");
    }

    #[test]
    fn settings_that_a_backend_lacks_or_cannot_use_do_not_exclude_it() {
        let backends: [&dyn BackendFactory; 3] = [&Rten, &Cuda, &OnnxCpu];
        let text = "BackendOptions: auto takes rten, which does not use gpu, sessions, nhwc";
        let (chosen, reported) = choose_with("gpu=0,sessions=2,nhwc=true", &backends);
        chosen.unwrap();
        assert_eq!(reported, [text]);
        let (chosen, reported) = choose_with("threads=0,precision=fp16", &backends);
        chosen.unwrap();
        let unusable =
            "BackendOptions: threads=0 is not a number from 1 to 1024; auto takes rten without it";
        let unused = "BackendOptions: auto takes rten, which does not use precision";
        assert_eq!(reported, [unusable, unused]);
        // What it has and can use, it gets.
        static TWO_THREADS: Fake = Fake {
            info: BackendInfo {
                settings: &[THREADS],
                ..ANY.info
            },
            outcome: |request| {
                assert_eq!(request.options.threads(), Ok(2));
                Ok(INFO_OF_THREADS.check_settings(request.options)?)
            },
        };
        const INFO_OF_THREADS: BackendInfo = BackendInfo {
            settings: &[THREADS],
            ..INFO
        };
        choose_with("threads=2,gpu=0", &[&TWO_THREADS, &Cuda])
            .0
            .unwrap();
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
