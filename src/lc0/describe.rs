//! Description of a network, as text (`Display`) and as JSON (`Serialize`).

use std::fmt;

use serde::Serialize;

use super::{
    architecture::{self, Architecture, Body, Encoder, HeadInput, Policy, ScalarHead, Tower},
    format::{Format, MovesLeftFormat, Structure},
    model::OnnxModel,
    net::Net,
    onnx::read::read_onnx,
    proto::{self, HasLayers},
    weights::ArrayEncoding,
};
use crate::hashing::sha256;

/// The description of a network.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// The file's name.
    pub name: Option<String>,
    /// The SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// One line: the kind and size of the body.
    pub architecture: String,
    /// lc0's names of formats and activations.
    pub format: Format,
    /// Residual blocks.
    pub blocks: usize,
    /// Channels of the residual blocks.
    pub filters: Option<usize>,
    /// Hidden units of squeeze-and-excite.
    pub squeeze_excite: Option<usize>,
    /// Transformer layers.
    pub encoders: usize,
    /// Width of the transformer's tokens.
    pub embedding: Option<usize>,
    /// Attention heads of a layer.
    pub attention_heads: Option<usize>,
    /// Hidden units of the transformer's feed-forward networks.
    pub feed_forward: Option<usize>,
    /// Whether attention uses smolgen.
    pub smolgen: bool,
    /// The policy head as text.
    pub policy: String,
    /// The available policy heads, the default first.
    pub policy_heads: Vec<String>,
    /// The value head as text.
    pub value: String,
    /// The available value heads, the default first.
    pub value_heads: Vec<String>,
    /// The moves-left head as text.
    pub moves_left: Option<String>,
    /// Number of parameters; `None` of an embedded ONNX model, whose layers are not lc0's.
    pub parameters: Option<u64>,
    /// The encodings of the layers, separated by commas; `None` likewise.
    pub encoding: Option<String>,
    /// The lowest lc0 version that reads the file.
    pub min_version: Option<String>,
    /// Bytes after the complete network, if there are any; they are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored_bytes: Option<usize>,
    /// The licence stated in the file.
    pub license: Option<String>,
    /// Training metadata of the file.
    pub training: Option<Training>,
}

/// Training metadata of a file.
#[derive(Clone, Debug, Serialize)]
pub struct Training {
    /// Steps.
    pub steps: Option<u32>,
    /// The last learning rate.
    pub learning_rate: Option<f32>,
    /// Loss of the value head.
    pub value_loss: Option<f32>,
    /// Loss of the policy head.
    pub policy_loss: Option<f32>,
    /// Accuracy of the policy's first move, in per cent.
    pub accuracy: Option<f32>,
    /// Parameters of the training games.
    pub lc0_params: Option<String>,
}

impl Description {
    /// The parts of the description that need no layers.
    fn of_file(net: &Net) -> Description {
        let proto = net.proto();
        let mut parameters = 0;
        let mut encodings = Vec::new();
        let default = proto
            .format
            .as_ref()
            .and_then(|f| f.weights_encoding)
            .unwrap_or(1);
        let layers = proto.weights.as_ref().filter(|_| !net.is_onnx());
        if let Some(weights) = layers {
            weights.visit_layers(&mut |layer| {
                // One that does not exist is refused where the numbers are read.
                let Ok(encoding) = ArrayEncoding::of(layer, default, "") else {
                    return;
                };
                let name = encoding.lc0_name();
                if !layer.params().is_empty() && !encodings.contains(&name) {
                    encodings.push(name);
                }
                parameters += (layer.params().len() / encoding.bytes()) as u64;
            });
        }
        Description {
            name: net.name().map(str::to_owned),
            sha256: net.sha256().to_owned(),
            architecture: String::new(),
            format: *net.format(),
            blocks: 0,
            filters: None,
            squeeze_excite: None,
            encoders: 0,
            embedding: None,
            attention_heads: None,
            feed_forward: None,
            smolgen: false,
            policy: net.format().policy.to_string(),
            policy_heads: Vec::new(),
            value: net.format().value.to_string(),
            value_heads: Vec::new(),
            moves_left: None,
            parameters: layers.map(|_| parameters),
            encoding: layers.map(|_| encodings.join(", ")),
            min_version: proto.min_version.as_ref().map(ToString::to_string),
            ignored_bytes: Some(net.ignored_bytes()).filter(|&bytes| bytes > 0),
            license: proto.license.clone().filter(|text| !text.is_empty()),
            training: proto.training_params.as_ref().map(training),
        }
    }

    fn add_tower(&mut self, tower: &Tower<'_>) {
        self.blocks = tower.blocks.len();
        self.filters = Some(tower.filters());
        let units = tower
            .blocks
            .iter()
            .filter_map(|b| b.squeeze_excite.as_ref());
        self.squeeze_excite = units.map(|unit| unit.squeeze.outputs).max();
    }

    fn add_encoders(&mut self, width: usize, encoders: &[Encoder<'_>]) {
        self.encoders = encoders.len();
        self.embedding = Some(width);
        self.attention_heads = encoders.first().map(|e| e.heads);
        self.feed_forward = encoders.first().map(|e| e.ffn.dense1.outputs);
        self.smolgen = encoders.iter().any(|e| e.smolgen.is_some());
    }

    fn add_architecture(&mut self, architecture: &Architecture<'_>) {
        match &architecture.body {
            Body::Conv(tower) => self.add_tower(tower),
            Body::Attention(body) => {
                if let Some(stem) = &body.stem {
                    self.add_tower(stem);
                }
                self.add_encoders(body.width(), &body.encoders);
            }
        }
        self.policy = match &architecture.policy {
            Policy::Classical { conv, dense } => {
                format!(
                    "{} channels, dense {} to {}",
                    conv.outputs, dense.inputs, dense.outputs
                )
            }
            Policy::Convolution { conv1, conv2 } => {
                format!(
                    "convolutions to {} and {} channels",
                    conv1.outputs, conv2.outputs
                )
            }
            Policy::Attention(head) => format!(
                "attention of width {}, {} encoders, embedding {}",
                head.query.outputs,
                head.encoders.len(),
                head.embedding.outputs
            ),
        };
        self.value = scalar(&architecture.value);
        self.moves_left = architecture.moves_left.as_ref().map(scalar);
    }

    /// The body in a line.
    fn summary(&self) -> String {
        let mut parts = Vec::new();
        if let Some(filters) = self.filters {
            let unit = match self.squeeze_excite {
                Some(hidden) => format!(", squeeze-and-excite {hidden}"),
                None => String::new(),
            };
            parts.push(format!("{}x{filters} residual blocks{unit}", self.blocks));
        }
        if let (Some(width), Some(heads)) = (self.embedding, self.attention_heads) {
            let smolgen = if self.smolgen { ", smolgen" } else { "" };
            let hidden = self.feed_forward.unwrap_or(0);
            parts.push(format!(
                "{} encoders of width {width}, {heads} heads, feed-forward {hidden}{smolgen}",
                self.encoders
            ));
        }
        if parts.is_empty() {
            "an embedded ONNX model".to_owned()
        } else {
            parts.join(", then ")
        }
    }
}

fn scalar(head: &ScalarHead<'_>) -> String {
    let channels = match &head.input {
        HeadInput::Conv(conv) => conv.outputs,
        HeadInput::Dense(dense) => dense.outputs,
    };
    format!(
        "{channels} channels, dense {} to {} to {}",
        head.dense1.inputs, head.dense1.outputs, head.dense2.outputs
    )
}

fn training(params: &proto::TrainingParams) -> Training {
    Training {
        steps: params.training_steps,
        learning_rate: params.learning_rate,
        value_loss: params.mse_loss,
        policy_loss: params.policy_loss,
        accuracy: params.accuracy,
        lc0_params: params.lc0_params.clone().filter(|text| !text.is_empty()),
    }
}

impl Net {
    /// Architecture, sizes, formats, licence and training.
    pub fn describe(&self) -> Description {
        let mut description = Description::of_file(self);
        // Parsing succeeded when the file was read.
        if let Ok(architecture) = Architecture::read(self.proto(), *self.format(), None, None) {
            description.add_architecture(&architecture);
        }
        if let Some(weights) = self.proto().weights.as_ref().filter(|_| !self.is_onnx()) {
            description.policy_heads = architecture::policy_heads(weights);
            description.value_heads = architecture::value_heads(weights);
        }
        description.architecture = description.summary();
        description
    }

    fn is_onnx(&self) -> bool {
        self.format().structure == Structure::Onnx
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |label: &str, text: &str| writeln!(f, "{label:<12} {text}");
        // Of an embedded model no layers are known.
        let head = |format: &str, layers: &str| match self.format.structure {
            Structure::Onnx => format.to_owned(),
            _ => format!("{format} ({layers})"),
        };
        if let Some(name) = &self.name {
            line("network", name)?;
        }
        line("sha256", &self.sha256)?;
        line("body", &self.architecture)?;
        line("structure", self.format.structure.lc0_name())?;
        line("input", self.format.input.lc0_name())?;
        line("policy", &head(self.format.policy.lc0_name(), &self.policy))?;
        if self.policy_heads.len() > 1 {
            line("", &format!("heads: {}", self.policy_heads.join(", ")))?;
        }
        line("value", &head(self.format.value.lc0_name(), &self.value))?;
        if self.value_heads.len() > 1 {
            line("", &format!("heads: {}", self.value_heads.join(", ")))?;
        }
        match (&self.moves_left, self.format.moves_left) {
            (Some(text), format) => line("moves left", &format!("{format} ({text})"))?,
            (None, MovesLeftFormat::V1) => line("moves left", "MOVES_LEFT_V1")?,
            (None, MovesLeftFormat::None) => line("moves left", "none")?,
        }
        // An embedded model has its own.
        if let (Some(parameters), Some(encoding)) = (self.parameters, &self.encoding) {
            let activation = format!("{:?}", self.format.default_activation).to_lowercase();
            line("activation", &activation)?;
            line("parameters", &format!("{parameters} ({encoding})"))?;
        }
        if let Some(version) = &self.min_version {
            line("min version", &format!("lc0 {version}"))?;
        }
        if let Some(bytes) = self.ignored_bytes {
            let text = format!("{bytes} bytes after the complete network");
            line("ignored", &text)?;
        }
        if let Some(training) = &self.training {
            line("training", &training.to_string())?;
        }
        line("license", self.license.as_deref().unwrap_or("not stated"))
    }
}

impl fmt::Display for Training {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.steps.map(|v| format!("{v} steps")),
            self.learning_rate.map(|v| format!("learning rate {v}")),
            self.policy_loss.map(|v| format!("policy loss {v}")),
            self.value_loss.map(|v| format!("value loss {v}")),
            self.accuracy.map(|v| format!("accuracy {v}")),
            self.lc0_params.clone(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            f.write_str("not stated")
        } else {
            f.write_str(&parts.join(", "))
        }
    }
}

/// The description of an ONNX model with lc0's tensors.
#[derive(Clone, Debug, Serialize)]
pub struct OnnxDescription {
    /// The file's name.
    pub name: Option<String>,
    /// The SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Bytes of the file.
    pub bytes: usize,
    /// The input: lc0's name of the planes, or the kind and sizes of a sparse network.
    pub input_format: String,
    /// The batch size, if it is fixed.
    pub batch: Option<usize>,
    /// Input and output tensors.
    pub tensors: Vec<String>,
    /// Metadata of the file.
    pub metadata: Vec<(String, String)>,
}

impl OnnxDescription {
    /// Describes the bytes of an `.onnx` file.
    pub fn of(name: Option<String>, bytes: &[u8]) -> Result<OnnxDescription, super::NetError> {
        let model: OnnxModel = read_onnx(bytes)?;
        let input = match model.alphazero {
            Some(_) => "AlphaZero's 119 planes".to_owned(),
            None => model.input_format.to_string(),
        };
        OnnxDescription::of_model(name, bytes, model, input)
    }

    /// Describes a model that was read from these bytes; `input` describes its input.
    pub fn of_model(
        name: Option<String>,
        bytes: &[u8],
        model: OnnxModel,
        input: String,
    ) -> Result<OnnxDescription, super::NetError> {
        let outputs = [model.wdl, model.value, model.mlh];
        Ok(OnnxDescription {
            name,
            sha256: sha256(bytes),
            bytes: bytes.len(),
            input_format: input,
            batch: model.batch,
            tensors: [model.input, model.policy]
                .into_iter()
                .chain(outputs.into_iter().flatten())
                .collect(),
            metadata: super::onnx::read::metadata(bytes)?,
        })
    }
}

impl fmt::Display for OnnxDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |label: &str, text: &str| writeln!(f, "{label:<12} {text}");
        if let Some(name) = &self.name {
            line("model", name)?;
        }
        line("sha256", &self.sha256)?;
        line("bytes", &self.bytes.to_string())?;
        line("input", &self.input_format)?;
        line("tensors", &self.tensors.join(", "))?;
        match self.batch {
            Some(size) => line("batch", &size.to_string())?,
            None => line("batch", "any")?,
        }
        for (key, value) in &self.metadata {
            line("", &format!("{key} = {value}"))?;
        }
        Ok(())
    }
}
