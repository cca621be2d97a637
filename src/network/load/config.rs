//! What the options say about networks, but for what stands in front of them (see
//! [`NetworkSettings`](crate::network::compose::cached::NetworkSettings)).

use crate::{
    lc0::OnnxEncoding,
    network::compose::role::{Role, human_rating},
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
    /// `PolicyHead`; `None` takes the network's own default.
    pub policy_head: Option<String>,
    /// `ValueHead`; `None` takes the network's own default.
    pub value_head: Option<String>,
    /// `NetworkEncoding`; `None` is what the network says.
    pub encoding: Option<OnnxEncoding>,
    /// `HistoryFill`.
    pub fill: HistoryFill,
    /// `Threads`, 0 for the backend's advice.
    pub threads: usize,
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
        }
    }
}

impl NetworkConfig {
    /// What they say about one of the networks. The opponent's and the one that refines have their usual heads and encoding; the
    /// rest is as for the main one. But a backend for sparse networks alone, or none that was named, means for the
    /// one that refines the one that needs no library, takes no memory of a GPU and gives the same on every call; and an opponent
    /// from inside the program, who is sparse, is computed as such.
    pub fn of(options: &Options, role: Role) -> NetworkConfig {
        let main = NetworkConfig::from(options);
        if role == Role::Main {
            return main;
        }
        let weights = role.weights(options).unwrap_or_default();
        let is_for_sparse = ["", "auto", "sparse"].contains(&&*main.backend.to_ascii_lowercase());
        let another = match role {
            Role::Refiner if is_for_sparse => Some("rten"),
            Role::Opponent if human_rating(&weights).is_some() => Some("sparse"),
            _ => None,
        };
        let (backend, backend_options) = match another {
            Some(name) => (name.to_owned(), String::new()),
            None => (main.backend, main.backend_options),
        };
        NetworkConfig {
            weights,
            backend,
            backend_options,
            policy_head: None,
            value_head: None,
            encoding: None,
            ..main
        }
    }
}
