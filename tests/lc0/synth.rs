//! Writes lc0 network files with random weights, of any architecture and in any encoding: for tests, and (through
//! `examples/synth_net.rs`) for benchmarks of networks that are too large to be shipped.

#![allow(dead_code)] // The example uses less than the tests.

use half::{bf16, f16};
use prost::Message;
use scorn::lc0::proto;

/// How layers are stored; the numbers are lc0's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Linear16 = 1,
    Float16 = 2,
    BFloat16 = 3,
    Float32 = 4,
}

/// The position encoding of a transformer.
#[derive(Clone, Copy, Debug)]
pub enum Embedding {
    Map,
    Dense { channels: usize },
    Stem { blocks: usize, filters: usize },
}

#[derive(Clone, Copy, Debug)]
pub struct Smolgen {
    pub compress: usize,
    pub hidden: usize,
    pub generator: usize,
}

#[derive(Clone, Copy, Debug)]
pub enum Body {
    Conv {
        blocks: usize,
        filters: usize,
        squeeze_excite: Option<usize>,
    },
    Attention {
        layers: usize,
        width: usize,
        /// Width of queries, keys and values.
        model: usize,
        heads: usize,
        feed_forward: usize,
        embedding: Embedding,
        multiply_gate: bool,
        add_gate: bool,
        smolgen: Option<Smolgen>,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Policy {
    Classical {
        channels: usize,
    },
    Convolution,
    Attention {
        width: usize,
        model: usize,
        encoders: usize,
    },
}

/// The parameters of a network.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub body: Body,
    pub policy: Policy,
    pub value_channels: usize,
    pub value_hidden: usize,
    pub wdl: bool,
    /// Channels of the moves-left head.
    pub moves_left: Option<usize>,
    pub mish: bool,
    /// lc0's activation number; 0 is the default.
    pub ffn_activation: i32,
    pub smolgen_activation: i32,
    /// Several policy and value heads.
    pub multihead: bool,
    /// Batch normalisation, or plain biases.
    pub batch_norm: bool,
    pub encoding: Encoding,
    pub seed: u64,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            body: Body::Conv {
                blocks: 1,
                filters: 8,
                squeeze_excite: None,
            },
            policy: Policy::Convolution,
            value_channels: 8,
            value_hidden: 16,
            wdl: true,
            moves_left: None,
            mish: false,
            ffn_activation: 0,
            smolgen_activation: 0,
            multihead: false,
            batch_norm: true,
            encoding: Encoding::Float32,
            seed: 1,
        }
    }
}

/// Random numbers (splitmix64, Steele et al., 2014).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// -1..1
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

impl Spec {
    /// The smallest convolutional network with all parts, for many tests of damage.
    pub fn smallest() -> Spec {
        Spec {
            body: Body::Conv {
                blocks: 1,
                filters: 2,
                squeeze_excite: Some(1),
            },
            policy: Policy::Convolution,
            moves_left: Some(1),
            value_channels: 1,
            value_hidden: 2,
            ..Spec::default()
        }
    }
}

/// A network of this kind.
pub fn network(spec: &Spec) -> proto::ProtoNet {
    let mut maker = Maker {
        rng: Rng(spec.seed),
        spec: *spec,
    };
    let weights = maker.weights();
    proto::ProtoNet {
        magic: Some(0x1c0),
        license: Some("CC0-1.0".to_owned()),
        min_version: Some(proto::EngineVersion {
            major: Some(0),
            minor: Some(33),
            patch: Some(0),
        }),
        format: Some(proto::ProtoFormat {
            weights_encoding: Some(spec.encoding as i32),
            network_format: Some(format(spec)),
        }),
        weights: Some(weights),
        ..Default::default()
    }
}

/// The bytes of an uncompressed file.
pub fn file(spec: &Spec) -> Vec<u8> {
    network(spec).encode_to_vec()
}

fn format(spec: &Spec) -> proto::NetworkFormat {
    let (network, embedding) = match spec.body {
        Body::Conv { squeeze_excite, .. } => (if squeeze_excite.is_some() { 4 } else { 3 }, 0),
        Body::Attention { embedding, .. } => (
            if spec.multihead { 7 } else { 6 },
            match embedding {
                Embedding::Map => 1,
                Embedding::Dense { .. } => 2,
                Embedding::Stem { .. } => 0,
            },
        ),
    };
    let policy = match spec.policy {
        Policy::Classical { .. } => 1,
        Policy::Convolution => 2,
        Policy::Attention { .. } => 3,
    };
    proto::NetworkFormat {
        input: Some(1),
        output: Some(if spec.wdl { 2 } else { 1 }),
        network: Some(network),
        policy: Some(policy),
        value: Some(if spec.wdl { 2 } else { 1 }),
        moves_left: Some(i32::from(spec.moves_left.is_some())),
        default_activation: Some(i32::from(spec.mish)),
        smolgen_activation: Some(spec.smolgen_activation),
        ffn_activation: Some(spec.ffn_activation),
        input_embedding: Some(embedding),
    }
}

struct Maker {
    rng: Rng,
    spec: Spec,
}

type Layer = Option<proto::Layer>;

impl Maker {
    /// Uniform numbers of mean `mean` within +-`spread`.
    fn layer(&mut self, len: usize, mean: f32, spread: f32) -> Layer {
        let values: Vec<f32> = (0..len).map(|_| mean + spread * self.rng.unit()).collect();
        Some(encode(&values, self.spec.encoding))
    }

    /// Weights that keep the variance of their input, and biases.
    fn dense(&mut self, inputs: usize, outputs: usize) -> (Layer, Layer) {
        let spread = (3.0 / inputs as f32).sqrt();
        (
            self.layer(inputs * outputs, 0.0, spread),
            self.layer(outputs, 0.0, 0.3),
        )
    }

    fn norm(&mut self, size: usize) -> (Layer, Layer) {
        (self.layer(size, 1.0, 0.4), self.layer(size, 0.0, 0.3))
    }

    fn conv(&mut self, inputs: usize, outputs: usize, kernel: usize) -> Option<proto::ConvBlock> {
        let fan_in = inputs * kernel * kernel;
        let weights = self.layer(fan_in * outputs, 0.0, (3.0 / fan_in as f32).sqrt());
        Some(if self.spec.batch_norm {
            proto::ConvBlock {
                weights,
                bn_means: self.layer(outputs, 0.0, 0.2),
                bn_stddivs: self.layer(outputs, 1.0, 0.5),
                bn_gammas: self.layer(outputs, 1.0, 0.4),
                bn_betas: self.layer(outputs, 0.0, 0.2),
                ..Default::default()
            }
        } else {
            proto::ConvBlock {
                weights,
                biases: self.layer(outputs, 0.0, 0.3),
                ..Default::default()
            }
        })
    }

    fn residual(&mut self, filters: usize, squeeze_excite: Option<usize>) -> proto::ProtoResidual {
        proto::ProtoResidual {
            conv1: self.conv(filters, filters, 3),
            conv2: self.conv(filters, filters, 3),
            se: squeeze_excite.map(|hidden| {
                let (w1, b1) = self.dense(filters, hidden);
                let (w2, b2) = self.dense(hidden, 2 * filters);
                proto::SeUnit { w1, b1, w2, b2 }
            }),
        }
    }

    fn feed_forward(&mut self, width: usize, hidden: usize) -> Option<proto::Ffn> {
        let (dense1_w, dense1_b) = self.dense(width, hidden);
        let (dense2_w, dense2_b) = self.dense(hidden, width);
        Some(proto::Ffn {
            dense1_w,
            dense1_b,
            dense2_w,
            dense2_b,
        })
    }

    fn smolgen(&mut self, width: usize, heads: usize, smolgen: Smolgen) -> proto::ProtoSmolgen {
        let (dense1_w, dense1_b) = self.dense(64 * smolgen.compress, smolgen.hidden);
        let (dense2_w, dense2_b) = self.dense(smolgen.hidden, heads * smolgen.generator);
        let (ln1_gammas, ln1_betas) = self.norm(smolgen.hidden);
        let (ln2_gammas, ln2_betas) = self.norm(heads * smolgen.generator);
        proto::ProtoSmolgen {
            compress: self.dense(width, smolgen.compress).0,
            dense1_w,
            dense1_b,
            ln1_gammas,
            ln1_betas,
            dense2_w,
            dense2_b,
            ln2_gammas,
            ln2_betas,
        }
    }

    fn encoder(
        &mut self,
        width: usize,
        model: usize,
        heads: usize,
        hidden: usize,
        smolgen: Option<Smolgen>,
    ) -> proto::EncoderLayer {
        let (q_w, q_b) = self.dense(width, model);
        let (k_w, k_b) = self.dense(width, model);
        let (v_w, v_b) = self.dense(width, model);
        let (dense_w, dense_b) = self.dense(model, width);
        let (ln1_gammas, ln1_betas) = self.norm(width);
        let (ln2_gammas, ln2_betas) = self.norm(width);
        proto::EncoderLayer {
            mha: Some(proto::Mha {
                q_w,
                q_b,
                k_w,
                k_b,
                v_w,
                v_b,
                dense_w,
                dense_b,
                smolgen: smolgen.map(|smolgen| self.smolgen(width, heads, smolgen)),
                ..Default::default()
            }),
            ln1_gammas,
            ln1_betas,
            ffn: self.feed_forward(width, hidden),
            ln2_gammas,
            ln2_betas,
        }
    }

    fn weights(&mut self) -> proto::Weights {
        let mut weights = proto::Weights::default();
        let width = match self.spec.body {
            Body::Conv {
                blocks,
                filters,
                squeeze_excite,
            } => {
                self.tower(&mut weights, blocks, filters, squeeze_excite);
                filters
            }
            Body::Attention { width, .. } => {
                self.attention_body(&mut weights);
                width
            }
        };
        self.heads(&mut weights, width);
        weights
    }

    fn tower(
        &mut self,
        weights: &mut proto::Weights,
        blocks: usize,
        filters: usize,
        squeeze_excite: Option<usize>,
    ) {
        weights.input = self.conv(112, filters, 3);
        weights.residual = (0..blocks)
            .map(|_| self.residual(filters, squeeze_excite))
            .collect();
    }

    fn attention_body(&mut self, weights: &mut proto::Weights) {
        let Body::Attention {
            layers,
            width,
            model,
            heads,
            feed_forward,
            embedding,
            multiply_gate,
            add_gate,
            smolgen,
        } = self.spec.body
        else {
            return;
        };
        let features = match embedding {
            Embedding::Map => 112 + 64,
            Embedding::Stem { blocks, filters } => {
                self.tower(weights, blocks, filters, None);
                filters
            }
            Embedding::Dense { channels } => {
                (weights.ip_emb_preproc_w, weights.ip_emb_preproc_b) =
                    self.dense(64 * 12, 64 * channels);
                (weights.ip_emb_ln_gammas, weights.ip_emb_ln_betas) = self.norm(width);
                weights.ip_emb_ffn = self.feed_forward(width, feed_forward);
                (weights.ip_emb_ffn_ln_gammas, weights.ip_emb_ffn_ln_betas) = self.norm(width);
                112 + channels
            }
        };
        (weights.ip_emb_w, weights.ip_emb_b) = self.dense(features, width);
        weights.ip_mult_gate = multiply_gate
            .then(|| self.layer(64 * width, 1.0, 0.5))
            .flatten();
        weights.ip_add_gate = add_gate.then(|| self.layer(64 * width, 0.0, 0.5)).flatten();
        weights.headcount = Some(heads as u32);
        weights.smolgen_w = smolgen.and_then(|smolgen| self.dense(smolgen.generator, 64 * 64).0);
        weights.encoder = (0..layers)
            .map(|_| self.encoder(width, model, heads, feed_forward, smolgen))
            .collect();
    }

    fn policy_head(&mut self, width: usize) -> proto::PolicyHead {
        let mut head = proto::PolicyHead::default();
        match self.spec.policy {
            Policy::Classical { channels } => {
                head.policy = self.conv(width, channels, 1);
                (head.ip_pol_w, head.ip_pol_b) = self.dense(64 * channels, 1858);
            }
            Policy::Convolution => {
                head.policy1 = self.conv(width, width, 3);
                head.policy = self.conv(width, 80, 3);
            }
            Policy::Attention {
                width: embedding,
                model,
                encoders,
            } => {
                (head.ip_pol_w, head.ip_pol_b) = self.dense(width, embedding);
                (head.ip2_pol_w, head.ip2_pol_b) = self.dense(embedding, model);
                (head.ip3_pol_w, head.ip3_pol_b) = self.dense(embedding, model);
                head.ip4_pol_w = self.dense(model, 4).0;
                head.pol_headcount = Some(2);
                head.pol_encoder = (0..encoders)
                    .map(|_| self.encoder(embedding, 2 * embedding, 2, 2 * embedding, None))
                    .collect();
            }
        }
        head
    }

    fn value_head(&mut self, width: usize) -> proto::ValueHead {
        let (channels, hidden) = (self.spec.value_channels, self.spec.value_hidden);
        let mut head = proto::ValueHead::default();
        match self.spec.body {
            Body::Conv { .. } => head.value = self.conv(width, channels, 1),
            Body::Attention { .. } => (head.ip_val_w, head.ip_val_b) = self.dense(width, channels),
        }
        (head.ip1_val_w, head.ip1_val_b) = self.dense(64 * channels, hidden);
        (head.ip2_val_w, head.ip2_val_b) = self.dense(hidden, if self.spec.wdl { 3 } else { 1 });
        head
    }

    fn heads(&mut self, weights: &mut proto::Weights, width: usize) {
        if let Some(channels) = self.spec.moves_left {
            match self.spec.body {
                Body::Conv { .. } => weights.moves_left = self.conv(width, channels, 1),
                Body::Attention { .. } => {
                    (weights.ip_mov_w, weights.ip_mov_b) = self.dense(width, channels);
                }
            }
            (weights.ip1_mov_w, weights.ip1_mov_b) = self.dense(64 * channels, 8);
            weights.ip2_mov_w = self.dense(8, 1).0;
            weights.ip2_mov_b = self.layer(1, 20.0, 1.0);
        }
        if self.spec.multihead {
            weights.policy_heads = Some(proto::PolicyHeads {
                vanilla: Some(self.policy_head(width)),
                optimistic_st: Some(self.policy_head(width)),
                soft: Some(self.policy_head(width)),
                opponent: Some(self.policy_head(width)),
                ..Default::default()
            });
            weights.value_heads = Some(proto::ValueHeads {
                winner: Some(self.value_head(width)),
                q: Some(self.value_head(width)),
                st: Some(self.value_head(width)),
                ..Default::default()
            });
            return;
        }
        let policy = self.policy_head(width);
        weights.policy1 = policy.policy1;
        weights.policy = policy.policy;
        (weights.ip_pol_w, weights.ip_pol_b) = (policy.ip_pol_w, policy.ip_pol_b);
        (weights.ip2_pol_w, weights.ip2_pol_b) = (policy.ip2_pol_w, policy.ip2_pol_b);
        (weights.ip3_pol_w, weights.ip3_pol_b) = (policy.ip3_pol_w, policy.ip3_pol_b);
        weights.ip4_pol_w = policy.ip4_pol_w;
        weights.pol_encoder = policy.pol_encoder;
        weights.pol_headcount = policy.pol_headcount;
        let value = self.value_head(width);
        weights.value = value.value;
        (weights.ip_val_w, weights.ip_val_b) = (value.ip_val_w, value.ip_val_b);
        (weights.ip1_val_w, weights.ip1_val_b) = (value.ip1_val_w, value.ip1_val_b);
        (weights.ip2_val_w, weights.ip2_val_b) = (value.ip2_val_w, value.ip2_val_b);
    }
}

/// A layer with these numbers.
pub fn encode(values: &[f32], encoding: Encoding) -> proto::Layer {
    let min = values.iter().copied().fold(f32::INFINITY, f32::min);
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let range = (max - min).max(f32::MIN_POSITIVE);
    let linear = |v: f32| ((v - min) / range * 65535.0).round() as u16;
    let bytes: Vec<u8> = match encoding {
        Encoding::Linear16 => values
            .iter()
            .flat_map(|&v| linear(v).to_le_bytes())
            .collect(),
        Encoding::Float16 => values
            .iter()
            .flat_map(|&v| f16::from_f32(v).to_le_bytes())
            .collect(),
        Encoding::BFloat16 => values
            .iter()
            .flat_map(|&v| bf16::from_f32(v).to_le_bytes())
            .collect(),
        Encoding::Float32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    proto::Layer {
        min_val: Some(min),
        max_val: Some(max),
        params: Some(bytes.into()),
        // LINEAR16 is the file's default encoding and needs no mention.
        encoding: (encoding != Encoding::Linear16).then_some(encoding as i32),
        dims: Vec::new(),
    }
}

/// The numbers of a layer, read independently of the library.
pub fn decode(layer: &Layer) -> Vec<f32> {
    let Some(layer) = layer else {
        return Vec::new();
    };
    let bytes = layer.params();
    let words = || {
        bytes
            .chunks_exact(2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]))
    };
    match layer.encoding.unwrap_or(1) {
        1 => {
            let (min, max) = (f64::from(layer.min_val()), f64::from(layer.max_val()));
            words()
                .map(|w| (min + f64::from(w) / 65535.0 * (max - min)) as f32)
                .collect()
        }
        2 => words().map(|w| f16::from_bits(w).to_f32()).collect(),
        3 => words().map(|w| bf16::from_bits(w).to_f32()).collect(),
        _ => bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
    }
}
