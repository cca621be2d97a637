//! The part of ONNX's format that the tests need, written independently of the library. Other fields are lost when a
//! file is read.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct OnnxFile {
    #[prost(message, optional, tag = "7")]
    pub graph: Option<OnnxGraph>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OnnxGraph {
    /// In the order in which they are computed.
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<OnnxNode>,
    #[prost(message, repeated, tag = "5")]
    pub initializers: Vec<OnnxTensor>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OnnxNode {
    #[prost(string, repeated, tag = "1")]
    pub inputs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    #[prost(string, tag = "4")]
    pub operator: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct OnnxTensor {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// 1 is float32.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
}
