//! The protobuf messages of lc0's network files (`.pb`, `.pb.gz`), written by hand for [`prost`] from the published
//! field table, so that building Scorn needs no protobuf compiler. Enums are kept as plain numbers here;
//! [`super::format`] gives them meaning and refuses unknown ones by name. Unknown fields are skipped. The types have
//! the schema's names, with `Proto` before those that mean other things in the other rooms.

#![allow(missing_docs)] // The fields are lc0's; their names are their documentation.

use std::fmt::{self, Display, Formatter};

use prost::{Message, bytes::Bytes};

/// The lowest lc0 version that reads the file.
#[derive(Clone, PartialEq, Message)]
pub struct EngineVersion {
    #[prost(uint32, optional, tag = "1")]
    pub major: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub minor: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub patch: Option<u32>,
}

impl Display for EngineVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major(), self.minor(), self.patch())
    }
}

/// All layers of a network.
#[derive(Clone, PartialEq, Message)]
pub struct Weights {
    #[prost(message, optional, tag = "1")]
    pub input: Option<ConvBlock>,
    #[prost(message, repeated, tag = "2")]
    pub residual: Vec<ProtoResidual>,
    #[prost(message, optional, tag = "3")]
    pub policy: Option<ConvBlock>,
    #[prost(message, optional, tag = "4")]
    pub ip_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub ip_pol_b: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub value: Option<ConvBlock>,
    #[prost(message, optional, tag = "7")]
    pub ip1_val_w: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub ip1_val_b: Option<Layer>,
    #[prost(message, optional, tag = "9")]
    pub ip2_val_w: Option<Layer>,
    #[prost(message, optional, tag = "10")]
    pub ip2_val_b: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub policy1: Option<ConvBlock>,
    #[prost(message, optional, tag = "12")]
    pub moves_left: Option<ConvBlock>,
    #[prost(message, optional, tag = "13")]
    pub ip1_mov_w: Option<Layer>,
    #[prost(message, optional, tag = "14")]
    pub ip1_mov_b: Option<Layer>,
    #[prost(message, optional, tag = "15")]
    pub ip2_mov_w: Option<Layer>,
    #[prost(message, optional, tag = "16")]
    pub ip2_mov_b: Option<Layer>,
    #[prost(message, optional, tag = "17")]
    pub ip2_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "18")]
    pub ip2_pol_b: Option<Layer>,
    #[prost(message, optional, tag = "19")]
    pub ip3_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "20")]
    pub ip3_pol_b: Option<Layer>,
    #[prost(message, repeated, tag = "21")]
    pub pol_encoder: Vec<EncoderLayer>,
    #[prost(message, optional, tag = "22")]
    pub ip4_pol_w: Option<Layer>,
    #[prost(uint32, optional, tag = "24")]
    pub pol_headcount: Option<u32>,
    #[prost(message, optional, tag = "25")]
    pub ip_emb_w: Option<Layer>,
    #[prost(message, optional, tag = "26")]
    pub ip_emb_b: Option<Layer>,
    #[prost(message, repeated, tag = "27")]
    pub encoder: Vec<EncoderLayer>,
    #[prost(uint32, optional, tag = "28")]
    pub headcount: Option<u32>,
    #[prost(message, optional, tag = "29")]
    pub ip_val_w: Option<Layer>,
    #[prost(message, optional, tag = "30")]
    pub ip_val_b: Option<Layer>,
    #[prost(message, optional, tag = "31")]
    pub ip_mov_w: Option<Layer>,
    #[prost(message, optional, tag = "32")]
    pub ip_mov_b: Option<Layer>,
    #[prost(message, optional, tag = "33")]
    pub ip_mult_gate: Option<Layer>,
    #[prost(message, optional, tag = "34")]
    pub ip_add_gate: Option<Layer>,
    #[prost(message, optional, tag = "35")]
    pub smolgen_w: Option<Layer>,
    #[prost(message, optional, tag = "36")]
    pub smolgen_b: Option<Layer>,
    #[prost(message, optional, tag = "37")]
    pub ip_emb_preproc_w: Option<Layer>,
    #[prost(message, optional, tag = "38")]
    pub ip_emb_preproc_b: Option<Layer>,
    #[prost(message, optional, tag = "39")]
    pub ip_emb_ln_gammas: Option<Layer>,
    #[prost(message, optional, tag = "40")]
    pub ip_emb_ln_betas: Option<Layer>,
    #[prost(message, optional, tag = "41")]
    pub ip_emb_ffn: Option<Ffn>,
    #[prost(message, optional, tag = "42")]
    pub ip_emb_ffn_ln_gammas: Option<Layer>,
    #[prost(message, optional, tag = "43")]
    pub ip_emb_ffn_ln_betas: Option<Layer>,
    #[prost(message, optional, tag = "44")]
    pub value_heads: Option<ValueHeads>,
    #[prost(message, optional, tag = "45")]
    pub policy_heads: Option<PolicyHeads>,
}

/// One array of numbers, encoded as `encoding` or the file's default says.
#[derive(Clone, PartialEq, Message)]
pub struct Layer {
    #[prost(float, optional, tag = "1")]
    pub min_val: Option<f32>,
    #[prost(float, optional, tag = "2")]
    pub max_val: Option<f32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub params: Option<Bytes>,
    #[prost(int32, optional, tag = "4")]
    pub encoding: Option<i32>,
    #[prost(uint32, repeated, packed = "false", tag = "5")]
    pub dims: Vec<u32>,
}

/// A convolution followed by batch normalisation (or with plain biases).
#[derive(Clone, PartialEq, Message)]
pub struct ConvBlock {
    #[prost(message, optional, tag = "1")]
    pub weights: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub biases: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub bn_means: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub bn_stddivs: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub bn_gammas: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub bn_betas: Option<Layer>,
}

/// A squeeze-and-excite unit: two dense layers.
#[derive(Clone, PartialEq, Message)]
pub struct SeUnit {
    #[prost(message, optional, tag = "1")]
    pub w1: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub b1: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub w2: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub b2: Option<Layer>,
}

/// A residual block: two convolutions and possibly squeeze-and-excite.
#[derive(Clone, PartialEq, Message)]
pub struct ProtoResidual {
    #[prost(message, optional, tag = "1")]
    pub conv1: Option<ConvBlock>,
    #[prost(message, optional, tag = "2")]
    pub conv2: Option<ConvBlock>,
    #[prost(message, optional, tag = "3")]
    pub se: Option<SeUnit>,
}

/// Generates attention logits from the whole board.
#[derive(Clone, PartialEq, Message)]
pub struct ProtoSmolgen {
    #[prost(message, optional, tag = "1")]
    pub compress: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub dense1_w: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub dense1_b: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ln1_gammas: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub ln1_betas: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub dense2_w: Option<Layer>,
    #[prost(message, optional, tag = "7")]
    pub dense2_b: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub ln2_gammas: Option<Layer>,
    #[prost(message, optional, tag = "9")]
    pub ln2_betas: Option<Layer>,
}

/// Multi-head attention.
#[derive(Clone, PartialEq, Message)]
pub struct Mha {
    #[prost(message, optional, tag = "1")]
    pub q_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub q_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub k_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub k_b: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub v_w: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub v_b: Option<Layer>,
    #[prost(message, optional, tag = "7")]
    pub dense_w: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub dense_b: Option<Layer>,
    #[prost(message, optional, tag = "9")]
    pub smolgen: Option<ProtoSmolgen>,
    #[prost(message, optional, tag = "10")]
    pub rpe_q: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub rpe_k: Option<Layer>,
    #[prost(message, optional, tag = "12")]
    pub rpe_v: Option<Layer>,
}

/// Two dense layers with an activation between them.
#[derive(Clone, PartialEq, Message)]
pub struct Ffn {
    #[prost(message, optional, tag = "1")]
    pub dense1_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub dense1_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub dense2_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub dense2_b: Option<Layer>,
}

/// One transformer layer.
#[derive(Clone, PartialEq, Message)]
pub struct EncoderLayer {
    #[prost(message, optional, tag = "1")]
    pub mha: Option<Mha>,
    #[prost(message, optional, tag = "2")]
    pub ln1_gammas: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub ln1_betas: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ffn: Option<Ffn>,
    #[prost(message, optional, tag = "5")]
    pub ln2_gammas: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub ln2_betas: Option<Layer>,
}

/// One of several policy heads.
#[derive(Clone, PartialEq, Message)]
pub struct PolicyHead {
    #[prost(message, optional, tag = "1")]
    pub ip_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub ip_pol_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub ip2_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ip2_pol_b: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub ip3_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub ip3_pol_b: Option<Layer>,
    #[prost(message, optional, tag = "7")]
    pub ip4_pol_w: Option<Layer>,
    #[prost(message, repeated, tag = "8")]
    pub pol_encoder: Vec<EncoderLayer>,
    #[prost(uint32, optional, tag = "9")]
    pub pol_headcount: Option<u32>,
    #[prost(message, optional, tag = "10")]
    pub policy1: Option<ConvBlock>,
    #[prost(message, optional, tag = "11")]
    pub policy: Option<ConvBlock>,
}

/// One of several value heads.
#[derive(Clone, PartialEq, Message)]
pub struct ValueHead {
    #[prost(message, optional, tag = "1")]
    pub ip_val_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub ip_val_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub ip1_val_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ip1_val_b: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub ip2_val_w: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub ip2_val_b: Option<Layer>,
    #[prost(message, optional, tag = "7")]
    pub ip_val_err_w: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub ip_val_err_b: Option<Layer>,
    #[prost(message, optional, tag = "9")]
    pub ip_val_cat_w: Option<Layer>,
    #[prost(message, optional, tag = "10")]
    pub ip_val_cat_b: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub value: Option<ConvBlock>,
}

/// A policy head with a name of its own.
#[derive(Clone, PartialEq, Message)]
pub struct PolicyHeadMap {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<PolicyHead>,
}

/// The policy heads of a multi-head network.
#[derive(Clone, PartialEq, Message)]
pub struct PolicyHeads {
    #[prost(message, optional, tag = "1")]
    pub ip_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub ip_pol_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub vanilla: Option<PolicyHead>,
    #[prost(message, optional, tag = "4")]
    pub optimistic_st: Option<PolicyHead>,
    #[prost(message, optional, tag = "5")]
    pub soft: Option<PolicyHead>,
    #[prost(message, optional, tag = "6")]
    pub opponent: Option<PolicyHead>,
    #[prost(message, repeated, tag = "7")]
    pub policy_head_map: Vec<PolicyHeadMap>,
}

/// A value head with a name of its own.
#[derive(Clone, PartialEq, Message)]
pub struct ValueHeadMap {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<ValueHead>,
}

/// The value heads of a multi-head network.
#[derive(Clone, PartialEq, Message)]
pub struct ValueHeads {
    #[prost(message, optional, tag = "1")]
    pub winner: Option<ValueHead>,
    #[prost(message, optional, tag = "2")]
    pub q: Option<ValueHead>,
    #[prost(message, optional, tag = "3")]
    pub st: Option<ValueHead>,
    #[prost(message, repeated, tag = "4")]
    pub value_head_map: Vec<ValueHeadMap>,
}

/// How the network was trained.
#[derive(Clone, PartialEq, Message)]
pub struct TrainingParams {
    #[prost(uint32, optional, tag = "1")]
    pub training_steps: Option<u32>,
    #[prost(float, optional, tag = "2")]
    pub learning_rate: Option<f32>,
    #[prost(float, optional, tag = "3")]
    pub mse_loss: Option<f32>,
    #[prost(float, optional, tag = "4")]
    pub policy_loss: Option<f32>,
    #[prost(float, optional, tag = "5")]
    pub accuracy: Option<f32>,
    #[prost(string, optional, tag = "6")]
    pub lc0_params: Option<String>,
}

/// What the layers mean; the numbers are explained in [`crate::lc0::format`].
#[derive(Clone, PartialEq, Message)]
pub struct NetworkFormat {
    #[prost(int32, optional, tag = "1")]
    pub input: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub output: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub network: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub policy: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub value: Option<i32>,
    #[prost(int32, optional, tag = "6")]
    pub moves_left: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub default_activation: Option<i32>,
    #[prost(int32, optional, tag = "8")]
    pub smolgen_activation: Option<i32>,
    #[prost(int32, optional, tag = "9")]
    pub ffn_activation: Option<i32>,
    #[prost(int32, optional, tag = "10")]
    pub input_embedding: Option<i32>,
}

/// How layers are encoded and what they mean.
#[derive(Clone, PartialEq, Message)]
pub struct ProtoFormat {
    #[prost(int32, optional, tag = "1")]
    pub weights_encoding: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub network_format: Option<NetworkFormat>,
}

/// An embedded ONNX model and the names of its tensors.
#[derive(Clone, PartialEq, Message)]
pub struct ProtoOnnxModel {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub model: Option<Bytes>,
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub input_planes: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub output_value: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub output_wdl: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub output_policy: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub output_mlh: Option<String>,
}

/// The whole file.
#[derive(Clone, PartialEq, Message)]
pub struct ProtoNet {
    #[prost(fixed32, optional, tag = "1")]
    pub magic: Option<u32>,
    #[prost(string, optional, tag = "2")]
    pub license: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub min_version: Option<EngineVersion>,
    #[prost(message, optional, tag = "4")]
    pub format: Option<ProtoFormat>,
    #[prost(message, optional, tag = "5")]
    pub training_params: Option<TrainingParams>,
    #[prost(message, optional, tag = "10")]
    pub weights: Option<Weights>,
    #[prost(message, optional, tag = "11")]
    pub onnx_model: Option<ProtoOnnxModel>,
}

/// Something that contains layers.
pub(crate) trait HasLayers {
    /// Calls `visit` with every layer, in field order.
    fn visit_layers(&self, visit: &mut dyn FnMut(&Layer));
}

impl HasLayers for Layer {
    fn visit_layers(&self, visit: &mut dyn FnMut(&Layer)) {
        visit(self);
    }
}

impl<T: HasLayers> HasLayers for Option<T> {
    fn visit_layers(&self, visit: &mut dyn FnMut(&Layer)) {
        self.iter().for_each(|part| part.visit_layers(visit));
    }
}

impl<T: HasLayers> HasLayers for Vec<T> {
    fn visit_layers(&self, visit: &mut dyn FnMut(&Layer)) {
        self.iter().for_each(|part| part.visit_layers(visit));
    }
}

macro_rules! layers_in {
    ($($message:ident: $($field:ident)*;)*) => {$(
        impl HasLayers for $message {
            fn visit_layers(&self, visit: &mut dyn FnMut(&Layer)) {
                $(self.$field.visit_layers(visit);)*
            }
        }
    )*};
}

layers_in! {
    Weights: input residual policy ip_pol_w ip_pol_b value ip1_val_w ip1_val_b ip2_val_w ip2_val_b policy1
        moves_left ip1_mov_w ip1_mov_b ip2_mov_w ip2_mov_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b pol_encoder
        ip4_pol_w ip_emb_w ip_emb_b encoder ip_val_w ip_val_b ip_mov_w ip_mov_b ip_mult_gate ip_add_gate
        smolgen_w smolgen_b ip_emb_preproc_w ip_emb_preproc_b ip_emb_ln_gammas ip_emb_ln_betas ip_emb_ffn
        ip_emb_ffn_ln_gammas ip_emb_ffn_ln_betas value_heads policy_heads;
    ConvBlock: weights biases bn_means bn_stddivs bn_gammas bn_betas;
    SeUnit: w1 b1 w2 b2;
    ProtoResidual: conv1 conv2 se;
    ProtoSmolgen: compress dense1_w dense1_b ln1_gammas ln1_betas dense2_w dense2_b ln2_gammas ln2_betas;
    Mha: q_w q_b k_w k_b v_w v_b dense_w dense_b smolgen rpe_q rpe_k rpe_v;
    Ffn: dense1_w dense1_b dense2_w dense2_b;
    EncoderLayer: mha ln1_gammas ln1_betas ffn ln2_gammas ln2_betas;
    PolicyHead: ip_pol_w ip_pol_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b ip4_pol_w pol_encoder policy1
        policy;
    ValueHead: ip_val_w ip_val_b ip1_val_w ip1_val_b ip2_val_w ip2_val_b ip_val_err_w ip_val_err_b
        ip_val_cat_w ip_val_cat_b value;
    PolicyHeadMap: value;
    PolicyHeads: ip_pol_w ip_pol_b vanilla optimistic_st soft opponent policy_head_map;
    ValueHeadMap: value;
    ValueHeads: winner q st value_head_map;
}
