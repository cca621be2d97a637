//! What the options say about a network and its backend; what they say about cache and priors is in
//! [`NetworkSettings`](crate::network::compose::cached::NetworkSettings).

use crate::{
    lc0::OnnxEncoding,
    network::{
        backend::{
            self, auto,
            error::LoadError,
            factory::{BackendKind, check_settings_of_any},
            options::BackendOptions,
            rten, sparse,
        },
        compose::role::Role,
        source::built_in::{BUILT_IN_ODDS, human_rating},
    },
    options::{HistoryFill, NetworkEncoding, Options},
};

/// What the options say about the backend of a network.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// `WeightsFile`.
    pub weights: String,
    /// `Backend`.
    pub backend: String,
    /// `BackendOptions`.
    pub backend_options: String,
    /// `OnnxRuntimePath`.
    pub runtime_path: String,
    /// `PolicyHead`; `None` takes the network's default.
    pub policy_head: Option<String>,
    /// `ValueHead`; `None` takes the network's default.
    pub value_head: Option<String>,
    /// `NetworkEncoding`; `None` takes the one in the network's metadata.
    pub encoding: Option<OnnxEncoding>,
    /// `HistoryFill`.
    pub fill: HistoryFill,
    /// `Threads`, 0 for the backend's advice.
    pub threads: usize,
    /// Why the backend is not the one that `Backend` names, for the evaluator's description; empty if it is.
    pub note: String,
    /// What the options say about the backend of the main network if another one takes its place: it is checked, but
    /// not used. The other networks have the same options, so that nothing is reported twice.
    pub replaced: Option<ReplacedBackend>,
}

/// A backend that does not evaluate the network, although `Backend` names it.
#[derive(Clone, Debug)]
pub struct ReplacedBackend {
    /// `Backend`.
    pub name: String,
    /// `BackendOptions`.
    pub options: String,
}

impl ReplacedBackend {
    /// Refuses options that the backend would refuse: they may be mistyped. As `auto` would take it, it may lack
    /// settings that others have.
    pub(super) fn check(&self, is_automatic: bool) -> Result<(), LoadError> {
        let factory = backend::find(&self.name)?;
        let options = BackendOptions::parse(&self.options)?;
        match factory.info().kind {
            BackendKind::Device { .. } if !is_automatic => {
                factory.info().check_settings(&options)?;
            }
            BackendKind::Device { .. } | BackendKind::Choice => {
                check_settings_of_any(auto::INFO.name, &options, backend::BACKENDS)?;
            }
            // What the settings mean depends on the groups.
            BackendKind::Combination | BackendKind::WithoutNetwork => {}
        }
        Ok(())
    }
}

impl From<&Options> for NetworkConfig {
    fn from(options: &Options) -> NetworkConfig {
        let named = |head: &str| Some(head.to_owned()).filter(|head| !head.is_empty());
        NetworkConfig {
            weights: options.weights_file.clone(),
            backend: options.backend.clone(),
            backend_options: options.backend_options.clone(),
            runtime_path: options.onnx_runtime_path.clone(),
            policy_head: named(&options.policy_head),
            value_head: named(&options.value_head),
            encoding: match options.network_encoding {
                NetworkEncoding::Auto => None,
                NetworkEncoding::Lc0 => Some(OnnxEncoding::Lc0),
                NetworkEncoding::AlphaZero => Some(OnnxEncoding::AlphaZero),
            },
            fill: options.history_fill,
            threads: options.threads,
            note: String::new(),
            replaced: None,
        }
    }
}

impl NetworkConfig {
    /// What the options say about one of the networks. The opponent's network and the refiner have their default
    /// heads and encoding; the rest is as for the main network, with two exceptions. Where `Backend` is `auto` or
    /// `sparse`, the refiner is evaluated by `rten`, which needs no library, takes no memory of a GPU and gives the
    /// same result on every call. And a human model inside the program, if it is the opponent, and the network for
    /// games at odds, both sparse, are evaluated by `sparse`, unless `Backend` evaluates no network or does not exist.
    pub fn of(options: &Options, role: Role) -> NetworkConfig {
        let main = NetworkConfig::from(options);
        let is_moved = main.weights.trim() == BUILT_IN_ODDS
            && backend::find(&main.backend).is_ok_and(|factory| factory.info().needs_network());
        if role == Role::Main && !is_moved {
            return main;
        }
        let weights = role.weights(options).unwrap_or_default();
        let is_default = ["", auto::INFO.name, sparse::INFO.name]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&main.backend));
        let another = match role {
            Role::Refiner if is_default => Some(rten::INFO.name),
            Role::Opponent if human_rating(&weights).is_some() => Some(sparse::INFO.name),
            // The other backends do not pass the side to move to a network.
            Role::Main => Some(sparse::INFO.name),
            _ => None,
        };
        let note = match another {
            Some(_) if !is_default => {
                format!("Backend {} does not apply to this network", main.backend)
            }
            _ => String::new(),
        };
        let (backend, backend_options, replaced) = match another {
            Some(name) => {
                let replaced = ReplacedBackend {
                    name: main.backend,
                    options: main.backend_options,
                };
                let replaced = (role == Role::Main).then_some(replaced);
                (name.to_owned(), String::new(), replaced)
            }
            None => (main.backend, main.backend_options, None),
        };
        NetworkConfig {
            weights,
            backend,
            backend_options,
            policy_head: None,
            value_head: None,
            encoding: None,
            note,
            replaced,
            ..main
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_for_odds_is_evaluated_by_sparse_if_by_any_backend() {
        for (backend, expected, note) in [
            ("auto", "sparse", ""),
            ("", "sparse", ""),
            (
                "rten",
                "sparse",
                "Backend rten does not apply to this network",
            ),
            ("hash", "hash", ""),
            ("nosuch", "nosuch", ""),
        ] {
            let options = Options {
                weights_file: BUILT_IN_ODDS.into(),
                backend: backend.into(),
                ..Options::default()
            };
            let found = NetworkConfig::of(&options, Role::Main);
            assert_eq!(
                (&*found.backend, &*found.weights, &*found.note),
                (expected, BUILT_IN_ODDS, note)
            );
        }
    }
}
