//! The fields of a network file's format message: input planes, structure, head kinds, activations.
//!
//! Each enum has lc0's numbers and names of its values; unknown or unsupported numbers are refused with an error that
//! contains field, number and name. Reading a [`Format`] also applies lc0's fix-ups for files older than the format
//! fields.

use super::{error::NetError, proto};

/// Input planes of all formats.
pub const PLANES: usize = 112;

/// Declares an enum whose values have lc0's numbers and names.
macro_rules! lc0_enum {
    ($(#[$doc:meta])* $name:ident, $field:literal { $($(#[$vdoc:meta])* $variant:ident = $number:literal $lc0:literal,)* }
     also known: $($other:literal $other_name:literal),*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant = $number,)* }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// lc0's name.
            pub fn lc0_name(self) -> &'static str {
                match self { $($name::$variant => $lc0,)* }
            }

            /// The value with this name.
            pub fn from_lc0_name(name: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|value| value.lc0_name() == name)
            }

            /// The names of all values, for errors.
            pub fn lc0_names() -> String {
                Self::ALL.iter().map(|value| value.lc0_name()).collect::<Vec<_>>().join(", ")
            }

            /// lc0's number.
            pub fn number(self) -> i32 {
                self as i32
            }

            /// The value with this number, or an error that lists the supported ones.
            pub fn from_number(number: i32) -> Result<$name, NetError> {
                if let Some(value) = Self::ALL.iter().find(|value| value.number() == number) {
                    return Ok(*value);
                }
                let name = match number {
                    $($other => $other_name,)*
                    _ => "unknown to this version",
                };
                Err(NetError::Unsupported {
                    field: concat!("format.network_format.", $field).to_owned(),
                    found: format!("{number} ({name})"),
                    expected: Self::lc0_names(),
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.lc0_name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.lc0_name())
            }
        }
    };
}

lc0_enum! {
    /// What the 112 input planes hold.
    InputFormat, "input" {
        /// Eight positions of 13 planes, castling rights, colour, rule 50, zeros, ones.
        Classical112 = 1 "INPUT_CLASSICAL_112_PLANE",
        /// The castling planes mark the rooks' squares (for Chess960).
        WithCastlingPlane = 2 "INPUT_112_WITH_CASTLING_PLANE",
        /// Version 1 with board transforms, and an en passant plane instead of the colour.
        Canonical = 3 "INPUT_112_WITH_CANONICALIZATION",
        /// Version 2 with rule 50 divided by 100.
        CanonicalHectoplies = 4 "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES",
        /// Version 3 with history that stops where it cannot matter.
        CanonicalV2 = 5 "INPUT_112_WITH_CANONICALIZATION_V2",
        /// Hectoplies with the Armageddon plane.
        HectopliesArmageddon = 132 "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES_ARMAGEDDON",
        /// Version 2 with the Armageddon plane.
        CanonicalV2Armageddon = 133 "INPUT_112_WITH_CANONICALIZATION_V2_ARMAGEDDON",
    }
    also known: 0 "INPUT_UNKNOWN"
}

lc0_enum! {
    /// The family of architectures, after the fix-ups for old files.
    Structure, "network" {
        /// Residual convolutions.
        Classical = 3 "NETWORK_CLASSICAL_WITH_HEADFORMAT",
        /// Residual convolutions with squeeze-and-excite.
        SqueezeExcite = 4 "NETWORK_SE_WITH_HEADFORMAT",
        /// An ONNX model inside the file.
        Onnx = 5 "NETWORK_ONNX",
        /// Transformer layers.
        AttentionBody = 6 "NETWORK_ATTENTIONBODY_WITH_HEADFORMAT",
        /// Transformer layers with several heads to choose from.
        AttentionMultihead = 7 "NETWORK_ATTENTIONBODY_WITH_MULTIHEADFORMAT",
    }
    also known: 0 "NETWORK_UNKNOWN"
}

impl Structure {
    /// Whether the body is made of transformer layers.
    pub fn is_attention(self) -> bool {
        matches!(
            self,
            Structure::AttentionBody | Structure::AttentionMultihead
        )
    }
}

lc0_enum! {
    /// The kind of policy head.
    PolicyFormat, "policy" {
        /// A convolution, then a dense layer to 1858 outputs.
        Classical = 1 "POLICY_CLASSICAL",
        /// Two convolutions to 80 planes.
        Convolution = 2 "POLICY_CONVOLUTION",
        /// Scores between origin and target squares.
        Attention = 3 "POLICY_ATTENTION",
    }
    also known: 0 "POLICY_UNKNOWN"
}

lc0_enum! {
    /// The kind of value head.
    ValueFormat, "value" {
        /// One number, -1..=1.
        Classical = 1 "VALUE_CLASSICAL",
        /// Probabilities of win, draw and loss.
        Wdl = 2 "VALUE_WDL",
    }
    also known: 0 "VALUE_UNKNOWN", 3 "VALUE_PARAM"
}

lc0_enum! {
    /// The kind of moves-left head.
    MovesLeftFormat, "moves_left" {
        /// There is none.
        None = 0 "MOVES_LEFT_NONE",
        /// One number, the plies left.
        V1 = 1 "MOVES_LEFT_V1",
    }
    also known:
}

lc0_enum! {
    /// The activation where the file does not name one.
    DefaultActivation, "default_activation" {
        /// max(0, x)
        Relu = 0 "DEFAULT_ACTIVATION_RELU",
        /// x tanh(ln(1 + e^x)), see Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.
        Mish = 1 "DEFAULT_ACTIVATION_MISH",
    }
    also known:
}

lc0_enum! {
    /// An activation named in the file.
    NamedActivation, "ffn_activation" {
        /// The network's default.
        Default = 0 "ACTIVATION_DEFAULT",
        /// See [`DefaultActivation::Mish`].
        Mish = 1 "ACTIVATION_MISH",
        /// max(0, x)
        Relu = 2 "ACTIVATION_RELU",
        /// x
        None = 3 "ACTIVATION_NONE",
        /// tanh(x)
        Tanh = 4 "ACTIVATION_TANH",
        /// 1 / (1 + e^-x)
        Sigmoid = 5 "ACTIVATION_SIGMOID",
        /// See Klambauer et al., "Self-Normalizing Neural Networks", 2017.
        Selu = 6 "ACTIVATION_SELU",
        /// x / (1 + e^-x)
        Swish = 7 "ACTIVATION_SWISH",
        /// max(0, x)^2
        Relu2 = 8 "ACTIVATION_RELU_2",
    }
    also known: 9 "ACTIVATION_SOFTMAX"
}

lc0_enum! {
    /// How an attention body encodes the positions of squares.
    EmbeddingFormat, "input_embedding" {
        /// Not at all (only behind a convolutional stem).
        None = 0 "INPUT_EMBEDDING_NONE",
        /// 64 constant inputs per square, see [`super::policy_list::position_encoding`].
        PositionMap = 1 "INPUT_EMBEDDING_PE_MAP",
        /// A dense layer over the pieces of the whole board.
        PositionDense = 2 "INPUT_EMBEDDING_PE_DENSE",
    }
    also known:
}

/// An activation function with defaults resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // The formulas are at `NamedActivation`.
pub enum Activation {
    None,
    Relu,
    Relu2,
    Mish,
    Tanh,
    Sigmoid,
    Selu,
    Swish,
}

impl From<DefaultActivation> for Activation {
    fn from(activation: DefaultActivation) -> Activation {
        match activation {
            DefaultActivation::Relu => Activation::Relu,
            DefaultActivation::Mish => Activation::Mish,
        }
    }
}

impl NamedActivation {
    /// The activation, resolved with the network's default.
    pub fn or(self, default: Activation) -> Activation {
        match self {
            NamedActivation::Default => default,
            NamedActivation::None => Activation::None,
            NamedActivation::Relu => Activation::Relu,
            NamedActivation::Relu2 => Activation::Relu2,
            NamedActivation::Mish => Activation::Mish,
            NamedActivation::Tanh => Activation::Tanh,
            NamedActivation::Sigmoid => Activation::Sigmoid,
            NamedActivation::Selu => Activation::Selu,
            NamedActivation::Swish => Activation::Swish,
        }
    }
}

/// The parsed format message of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Format {
    /// The input planes.
    pub input: InputFormat,
    /// The body.
    pub structure: Structure,
    /// The policy head.
    pub policy: PolicyFormat,
    /// The value head.
    pub value: ValueFormat,
    /// The moves-left head.
    pub moves_left: MovesLeftFormat,
    /// The default activation.
    pub default_activation: Activation,
    /// The activation inside smolgen.
    pub smolgen_activation: Activation,
    /// The activation of feed-forward networks, if the file names one.
    pub ffn_activation: NamedActivation,
    /// How an attention body encodes the positions of squares.
    pub embedding: EmbeddingFormat,
}

// Structure numbers that only occur before the fix-ups.
const NETWORK_CLASSICAL: i32 = 1;
const NETWORK_SE: i32 = 2;
const NETWORK_AB_LEGACY_WITH_MULTIHEADFORMAT: i32 = 134;

impl Format {
    /// Reads a network's format, as lc0 would after updating old files.
    pub(crate) fn of(net: &proto::ProtoNet) -> Result<Format, NetError> {
        let mut raw = net
            .format
            .as_ref()
            .and_then(|format| format.network_format.clone())
            .unwrap_or(proto::NetworkFormat {
                input: Some(InputFormat::Classical112.number()),
                network: Some(NETWORK_CLASSICAL),
                ..Default::default()
            });
        update_old_format(&mut raw, net.weights.as_ref());
        let structure = Structure::from_number(raw.network.unwrap_or(0))?;
        let default = Activation::from(DefaultActivation::from_number(
            raw.default_activation.unwrap_or(0),
        )?);
        let smolgen = NamedActivation::from_number(raw.smolgen_activation.unwrap_or(0))?;
        // An embedded ONNX model outputs its policy and value directly, whatever the file says about their heads.
        let embedded = structure == Structure::Onnx;
        let or_classical = |number: Option<i32>| match number.unwrap_or(0) {
            0 if embedded => 1,
            number => number,
        };
        Ok(Format {
            input: InputFormat::from_number(raw.input.unwrap_or(0))?,
            structure,
            policy: PolicyFormat::from_number(or_classical(raw.policy))?,
            value: ValueFormat::from_number(or_classical(raw.value))?,
            moves_left: MovesLeftFormat::from_number(raw.moves_left.unwrap_or(0))?,
            default_activation: default,
            smolgen_activation: smolgen.or(default),
            ffn_activation: NamedActivation::from_number(raw.ffn_activation.unwrap_or(0))?,
            embedding: EmbeddingFormat::from_number(raw.input_embedding.unwrap_or(0))?,
        })
    }
}

/// Sets the fields that older files lack (as lc0 does when loading them).
fn update_old_format(format: &mut proto::NetworkFormat, weights: Option<&proto::Weights>) {
    match format.network.unwrap_or(0) {
        old @ (NETWORK_CLASSICAL | NETWORK_SE) => {
            let new = match old {
                NETWORK_CLASSICAL => Structure::Classical,
                _ => Structure::SqueezeExcite,
            };
            format.network = Some(new.number());
            format.policy = Some(PolicyFormat::Classical.number());
            format.value = Some(ValueFormat::Classical.number());
        }
        NETWORK_AB_LEGACY_WITH_MULTIHEADFORMAT => {
            format.network = Some(Structure::AttentionMultihead.number());
        }
        // The first networks with encoders were marked as convolutional.
        network if network == Structure::SqueezeExcite.number() => {
            if let Some(weights) = weights.filter(|weights| !weights.encoder.is_empty()) {
                format.network = Some(Structure::AttentionBody.number());
                if weights.smolgen_w.is_some() {
                    format.ffn_activation = Some(NamedActivation::Relu2.number());
                    format.smolgen_activation = Some(NamedActivation::Swish.number());
                }
            }
        }
        _ => {}
    }
    if format.network == Some(Structure::AttentionBody.number()) {
        if weights.is_some_and(|w| w.policy_heads.is_some() && w.value_heads.is_some()) {
            format.network = Some(Structure::AttentionMultihead.number());
            format.input_embedding = Some(EmbeddingFormat::PositionDense.number());
        }
        let embedding = EmbeddingFormat::PositionMap.number();
        format.input_embedding.get_or_insert(embedding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(format: Option<proto::NetworkFormat>, weights: proto::Weights) -> proto::ProtoNet {
        proto::ProtoNet {
            format: format.map(|network_format| proto::ProtoFormat {
                weights_encoding: Some(1),
                network_format: Some(network_format),
            }),
            weights: Some(weights),
            ..Default::default()
        }
    }

    #[test]
    fn a_file_without_format_is_classical() {
        let format = Format::of(&net(None, proto::Weights::default())).unwrap();
        assert_eq!(format.input, InputFormat::Classical112);
        assert_eq!(format.structure, Structure::Classical);
        assert_eq!(format.policy, PolicyFormat::Classical);
        assert_eq!(format.value, ValueFormat::Classical);
    }

    #[test]
    fn an_early_encoder_network_gets_its_activations() {
        let raw = proto::NetworkFormat {
            input: Some(1),
            network: Some(4),
            policy: Some(3),
            value: Some(2),
            default_activation: Some(1),
            ..Default::default()
        };
        let weights = proto::Weights {
            encoder: vec![proto::EncoderLayer::default()],
            smolgen_w: Some(proto::Layer::default()),
            ..Default::default()
        };
        let format = Format::of(&net(Some(raw), weights)).unwrap();
        assert_eq!(format.structure, Structure::AttentionBody);
        assert_eq!(format.smolgen_activation, Activation::Swish);
        assert_eq!(format.ffn_activation, NamedActivation::Relu2);
        assert_eq!(format.embedding, EmbeddingFormat::PositionMap);
    }

    #[test]
    fn both_head_maps_make_a_multihead_network() {
        let raw = proto::NetworkFormat {
            input: Some(1),
            network: Some(6),
            policy: Some(3),
            value: Some(2),
            ..Default::default()
        };
        let weights = proto::Weights {
            policy_heads: Some(proto::PolicyHeads::default()),
            value_heads: Some(proto::ValueHeads::default()),
            ..Default::default()
        };
        let format = Format::of(&net(Some(raw), weights)).unwrap();
        assert_eq!(format.structure, Structure::AttentionMultihead);
        assert_eq!(format.embedding, EmbeddingFormat::PositionDense);
    }

    #[test]
    fn unknown_numbers_are_refused_by_name() {
        let raw = proto::NetworkFormat {
            input: Some(1),
            network: Some(4),
            policy: Some(1),
            value: Some(3),
            ..Default::default()
        };
        let error = Format::of(&net(Some(raw), proto::Weights::default()))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("network_format.value") && error.contains("VALUE_PARAM"),
            "{error}"
        );
    }
}
