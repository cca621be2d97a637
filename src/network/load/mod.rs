//! From the options to an evaluator, in a straight line: the value of `WeightsFile` is a [`NetworkSource`], the value
//! of `Backend` names a factory in the list of [`BACKENDS`](crate::network::backend::BACKENDS), and the factory makes
//! the evaluator. A backend that the user names is used or refused, never replaced.
//!
//! What the options say is in [`config`], which files the networks are in [`identity`].

pub mod config;
pub mod identity;

use std::sync::Arc;

pub use self::config::NetworkConfig;
pub use crate::network::backend::{error::LoadError, factory::ReportProgress};
use crate::{
    lc0::ConvertOptions,
    network::{
        Evaluator,
        backend::{
            self, auto,
            factory::{BackendFactory, BackendRequest, check_settings_of_any},
            merged::merged_on_device,
            options::BackendOptions,
        },
        source::NetworkSource,
    },
};

/// The backend alone, at temperature 1 and without cache: the part that takes long to load. `report_progress` gets
/// what takes minutes, before it begins.
///
/// # Errors
/// When the network or the backend does not work; the message says what to do.
pub fn load_backend(
    config: &NetworkConfig,
    report_progress: ReportProgress<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    load(config, false, report_progress)
}

/// The backend that `Backend` names, as `auto` would take it: nothing is built that takes minutes.
///
/// # Errors
/// As [`load_backend`], and where `auto` would pass the backend over.
pub fn probe(config: &NetworkConfig) -> Result<Arc<dyn Evaluator>, LoadError> {
    load(config, true, &|_| {})
}

fn load(
    config: &NetworkConfig,
    is_automatic: bool,
    report_progress: ReportProgress<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let factory = backend::find(&config.backend)?;
    if let Some(replaced) = &config.replaced {
        replaced.check(is_automatic)?;
    }
    let network = NetworkSource::new(&config.weights);
    let evaluator = create(factory, &network, config, is_automatic, report_progress)?;
    Ok(merged_on_device(evaluator))
}

/// The evaluator of one network.
fn create(
    factory: &dyn BackendFactory,
    network: &NetworkSource,
    config: &NetworkConfig,
    is_automatic: bool,
    report_progress: ReportProgress<'_>,
) -> Result<Arc<dyn Evaluator>, LoadError> {
    let options = BackendOptions::parse(&config.backend_options)?;
    let request = BackendRequest {
        network,
        conversion: &ConvertOptions {
            policy_head: config.policy_head.clone(),
            value_head: config.value_head.clone(),
            encoding: config.encoding,
            ..ConvertOptions::default()
        },
        options: &options,
        runtime_path: &config.runtime_path,
        fill: config.fill,
        threads: config.threads,
        is_automatic,
        is_combined: false,
        note: config.note.clone(),
        backends: backend::BACKENDS,
        report_progress,
    };
    if is_automatic {
        check_settings_of_any(auto::INFO.name, &options, backend::BACKENDS)?;
        return Ok(auto::create_with_usable(factory, &request)?.0);
    }
    factory.create(&request)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{
        network::{
            compose::role::Role,
            source::built_in::{BUILT_IN_ODDS, human_name},
        },
        options::Options,
    };

    /// What these options are evaluated with, and what was reported meanwhile.
    fn load_with(
        weights: &str,
        backend: &str,
        backend_options: &str,
    ) -> (Result<String, LoadError>, Vec<String>) {
        let config = NetworkConfig {
            weights: weights.into(),
            backend: backend.into(),
            backend_options: backend_options.into(),
            ..NetworkConfig::from(&Options::default())
        };
        let reported = RefCell::new(Vec::new());
        let loaded = load_backend(&config, &|text| reported.borrow_mut().push(text.to_owned()));
        let described = loaded.map(|evaluator| evaluator.info().description);
        (described, reported.into_inner())
    }

    #[test]
    fn a_probe_takes_what_auto_would_take() {
        // What a backend lacks or cannot use keeps a user from it, but not `auto`.
        for (backend, options) in [("sparse", "threads=2"), ("rten", "gpu=0,threads=0")] {
            let config = NetworkConfig {
                backend: backend.into(),
                backend_options: options.into(),
                ..NetworkConfig::from(&Options::default())
            };
            if let Err(error) = probe(&config) {
                panic!("{error}");
            }
            assert!(load_backend(&config, &|_| {}).is_err());
        }
    }

    #[test]
    fn the_side_to_move_is_passed_on_by_the_backend_sparse_only() {
        let described = |backend| load_with(BUILT_IN_ODDS, backend, "").0.unwrap();
        assert!(described("rten").ends_with("which only the backend sparse passes on"));
        assert!(!described("sparse").contains("passes on"));
        let (combined, _) = load_with(BUILT_IN_ODDS, "multiplexing", "sparse()");
        let combined = combined.unwrap();
        assert!(combined.ends_with("in a combination of backends it is not told whether the engine or its opponent is to move"));
        let config = NetworkConfig {
            backend: "sparse".into(),
            note: "Backend rten does not apply to this network".into(),
            ..NetworkConfig::from(&Options::default())
        };
        let evaluator = load_backend(&config, &|_| {}).unwrap();
        assert!(
            evaluator
                .info()
                .description
                .ends_with(&format!("; {}", config.note))
        );
    }

    #[test]
    fn settings_under_auto_are_used_reported_or_refused() {
        let (described, reported) = load_with("", "auto", "threads=2,precision=int8");
        assert!(described.unwrap().starts_with("sparse ("));
        let [text] = &reported[..] else {
            panic!("{reported:?}")
        };
        for part in ["sparse", "threads", "precision"] {
            assert!(text.contains(part), "{text}");
        }
        let config = |backend: &str| NetworkConfig {
            backend: backend.into(),
            backend_options: "foo=1".into(),
            ..NetworkConfig::from(&Options::default())
        };
        let of_auto = load_backend(&config("auto"), &|_| {}).err().unwrap();
        let of_probe = probe(&config("sparse")).err().unwrap();
        for error in [of_auto, of_probe] {
            let error = error.to_string();
            assert!(
                error.contains("'foo'") && error.contains("precision"),
                "{error}"
            );
        }
    }

    #[test]
    fn settings_of_a_backend_that_is_replaced_are_checked() {
        let load = |backend: &str, settings: &str| {
            let options = Options {
                weights_file: BUILT_IN_ODDS.into(),
                backend: backend.into(),
                backend_options: settings.into(),
                ..Options::default()
            };
            let config = NetworkConfig::of(&options, Role::Main);
            let probed = probe(&config).err().map(|error| error.to_string());
            let loaded = load_backend(&config, &|_| {});
            (loaded.err().map(|error| error.to_string()), probed)
        };
        for (backend, settings) in [
            ("auto", "threads=2"),
            ("rten", "threads=2"),
            ("multiplexing", "rten(threads=2),sparse()"),
        ] {
            assert_eq!(load(backend, settings), (None, None), "{backend}");
        }
        for (backend, settings, part) in [
            ("auto", "thraeds=2", "no backend has a setting 'thraeds'"),
            ("", "thraeds=2", "no backend has a setting 'thraeds'"),
            ("rten", "thraeds=2", "rten has no setting 'thraeds'"),
            ("rten", "((", "unmatched parentheses"),
            ("multiplexing", "((", "unmatched parentheses"),
        ] {
            let (loaded, probed) = load(backend, settings);
            assert!(loaded.as_ref().unwrap().contains(part), "{loaded:?}");
            assert!(probed.is_some());
        }
        // As for other networks, `auto` may take a backend that does not have a setting.
        let (loaded, probed) = load("sparse", "threads=2");
        assert!(loaded.unwrap().contains("sparse has no setting 'threads'"));
        assert_eq!(probed, None);
    }

    #[test]
    fn groups_may_name_backends_as_lc0_does() {
        let load = |backend: &str, groups: &str| load_with("", backend, groups);
        let (described, reported) = load("roundrobin", "blas(),(backend=Eigen),one(backend=auto)");
        assert_eq!(described.unwrap().matches("sparse (CPU").count(), 3);
        assert_eq!(
            reported,
            ["blas", "Eigen"]
                .map(|name| format!("'{name}' is a backend of lc0; Scorn uses auto instead"))
        );
        // The name is valid, whether or not this machine has one.
        for name in ["cudnn", "onnx-trt"] {
            let (loaded, reported) = load("multiplexing", &format!("(backend={name},gpu=77)"));
            assert!(!matches!(loaded, Err(LoadError::UnknownBackend { .. })));
            assert!(reported[0].contains(name), "{reported:?}");
        }
        for (name, exists) in [
            ("random", true),
            ("hash", true),
            ("check", true),
            ("no-such", false),
        ] {
            let (loaded, reported) = load("multiplexing", &format!("{name}()"));
            assert!(match loaded {
                Err(LoadError::NotCombinable { .. }) => exists,
                Err(LoadError::UnknownBackend { .. }) => !exists,
                _ => false,
            });
            assert!(reported.is_empty(), "{reported:?}");
        }
    }

    #[test]
    fn human_models_inside_the_program_run_on_the_backend_that_is_named() {
        for (backend, taken) in [("auto", "sparse ("), ("rten", "rten (")] {
            let text = load_with(&human_name(1300), backend, "").0.unwrap();
            assert!(text.starts_with(taken), "{text}");
            assert!(text.contains("a player rated 1300"), "{text}");
        }
        let text = load_with(&human_name(1300), "hash", "").0.unwrap();
        assert!(text.starts_with("hash ("), "{text}");
        let error = load_with(&human_name(1300), "nosuch", "").0.unwrap_err();
        assert!(matches!(error, LoadError::UnknownBackend { .. }), "{error}");
    }
}
