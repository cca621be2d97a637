//! Typed layers: views of a network file's arrays whose sizes have been checked against each other.
//!
//! Reading a network (see [`super::architecture`]) creates these views and refuses inconsistent layers by name.
//! Numbers are decoded only when a layer is used, so a large network is never in memory twice.
//!
//! All matrices are stored row by row as \[outputs\]\[inputs\], convolutions as \[outputs\]\[inputs\]\[rank\]\[file\].

use half::{bf16, f16};

use super::{error::NetError, proto};

/// How the numbers of a layer are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrayEncoding {
    /// 16-bit unsigned integers, 0 meaning the layer's minimum and 65535 its maximum.
    Linear16 = 1,
    /// IEEE half precision.
    Float16 = 2,
    /// The upper half of single precision.
    BFloat16 = 3,
    /// Single precision.
    Float32 = 4,
}

impl ArrayEncoding {
    fn from_number(number: i32) -> Option<ArrayEncoding> {
        use ArrayEncoding::*;
        [Linear16, Float16, BFloat16, Float32]
            .into_iter()
            .find(|&encoding| encoding as i32 == number)
    }

    /// lc0's name.
    pub(crate) fn lc0_name(self) -> &'static str {
        match self {
            ArrayEncoding::Linear16 => "LINEAR16",
            ArrayEncoding::Float16 => "FLOAT16",
            ArrayEncoding::BFloat16 => "BFLOAT16",
            ArrayEncoding::Float32 => "FLOAT32",
        }
    }

    /// Bytes of a number.
    pub(crate) fn bytes(self) -> usize {
        match self {
            ArrayEncoding::Float32 => 4,
            _ => 2,
        }
    }

    /// The encoding of a layer, given the file's default.
    pub(crate) fn of(
        layer: &proto::Layer,
        default: i32,
        name: &str,
    ) -> Result<ArrayEncoding, NetError> {
        let number = match layer.encoding.unwrap_or(0) {
            0 => default,
            own => own,
        };
        ArrayEncoding::from_number(number).ok_or_else(|| NetError::Unsupported {
            field: format!("the encoding of layer {name}"),
            found: number.to_string(),
            expected: "LINEAR16 (1), FLOAT16 (2), BFLOAT16 (3), FLOAT32 (4)".to_owned(),
        })
    }
}

/// A view of one array of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Tensor<'a> {
    name: String,
    layer: &'a proto::Layer,
    encoding: ArrayEncoding,
}

impl Tensor<'_> {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.layer.params().len() / self.encoding.bytes()
    }

    /// Checks the number of values; `expected` explains it for the error.
    pub(crate) fn expect_len(
        self,
        len: usize,
        expected: impl FnOnce() -> String,
    ) -> Result<Self, NetError> {
        if self.len() == len {
            Ok(self)
        } else {
            Err(self.size_error(format!("{len} ({})", expected())))
        }
    }

    /// Number of rows of `inputs` values.
    pub(crate) fn rows_of(&self, inputs: usize) -> Result<usize, NetError> {
        match self.len().checked_div(inputs) {
            Some(rows) if rows > 0 && rows * inputs == self.len() => Ok(rows),
            _ => Err(self.size_error(format!("a positive multiple of {inputs}"))),
        }
    }

    /// The error for a layer of the wrong size.
    pub(crate) fn size_error(&self, expected: String) -> NetError {
        NetError::LayerSize {
            layer: self.name.clone(),
            found: self.len(),
            expected,
        }
    }

    /// The decoded values.
    pub(crate) fn decode(&self) -> Result<Vec<f32>, NetError> {
        let bytes = self.layer.params();
        let words = || {
            bytes
                .chunks_exact(2)
                .map(|b| u16::from_le_bytes([b[0], b[1]]))
        };
        let values: Vec<f32> = match self.encoding {
            ArrayEncoding::Linear16 => {
                let (min, max) = (self.layer.min_val(), self.layer.max_val());
                let step = (max - min) / 65535.0;
                words().map(|word| f32::from(word) * step + min).collect()
            }
            ArrayEncoding::Float16 => words().map(|word| f16::from_bits(word).to_f32()).collect(),
            ArrayEncoding::BFloat16 => words().map(|word| bf16::from_bits(word).to_f32()).collect(),
            ArrayEncoding::Float32 => bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        };
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(index) => Err(NetError::LayerData {
                layer: self.name.clone(),
                problem: format!(
                    "value {index} is {}, expected a finite number",
                    values[index]
                ),
            }),
        }
    }
}

/// Creates views of layers with the file's default encoding.
#[derive(Clone, Copy)]
pub(crate) struct LayerReader {
    default_encoding: i32,
}

impl LayerReader {
    /// A reader for this file. Files older than the field use LINEAR16.
    pub(crate) fn new(net: &proto::ProtoNet) -> LayerReader {
        let encoding = net
            .format
            .as_ref()
            .and_then(|format| format.weights_encoding);
        LayerReader {
            default_encoding: encoding.unwrap_or(ArrayEncoding::Linear16 as i32),
        }
    }

    /// A view of a layer that may be absent or empty.
    pub(crate) fn optional<'a>(
        &self,
        layer: &'a Option<proto::Layer>,
        name: impl Into<String>,
    ) -> Result<Option<Tensor<'a>>, NetError> {
        let name = name.into();
        let Some(layer) = layer.as_ref().filter(|layer| !layer.params().is_empty()) else {
            return Ok(None);
        };
        let tensor = Tensor {
            encoding: ArrayEncoding::of(layer, self.default_encoding, &name)?,
            name,
            layer,
        };
        let problem = |problem| NetError::LayerData {
            layer: tensor.name.clone(),
            problem,
        };
        let (bytes, width) = (layer.params().len(), tensor.encoding.bytes());
        if bytes % width != 0 {
            let encoding = tensor.encoding.lc0_name();
            let text = format!("{bytes} bytes of {encoding}, expected a multiple of {width}");
            return Err(problem(text));
        }
        let declared = (layer.dims.iter()).try_fold(1usize, |n, &dim| n.checked_mul(dim as usize));
        if !layer.dims.is_empty() && declared != Some(tensor.len()) {
            let text = format!(
                "dimensions {:?} declared for {} values",
                layer.dims,
                tensor.len()
            );
            return Err(problem(text));
        }
        Ok(Some(tensor))
    }

    /// A view of a layer that must exist.
    pub(crate) fn tensor<'a>(
        &self,
        layer: &'a Option<proto::Layer>,
        name: impl Into<String>,
    ) -> Result<Tensor<'a>, NetError> {
        let name = name.into();
        self.optional(layer, name.clone())?
            .ok_or_else(|| NetError::missing(format!("layer {name}")))
    }

    /// A dense layer with this many inputs; the number of outputs follows from the weights. The layers of its weights
    /// and biases are `name` with the suffixes `_w` and `_b`.
    pub(crate) fn dense<'a>(
        &self,
        weights: &'a Option<proto::Layer>,
        bias: &'a Option<proto::Layer>,
        name: &str,
        inputs: usize,
    ) -> Result<Dense<'a>, NetError> {
        let names = [format!("{name}_w"), format!("{name}_b")];
        self.dense_named(weights, bias, names, inputs)
    }

    /// A dense layer with other names of weights and biases.
    pub(crate) fn dense_named<'a>(
        &self,
        weights: &'a Option<proto::Layer>,
        bias: &'a Option<proto::Layer>,
        [weights_name, bias_name]: [String; 2],
        inputs: usize,
    ) -> Result<Dense<'a>, NetError> {
        let weights = self.tensor(weights, weights_name)?;
        let outputs = weights.rows_of(inputs)?;
        let bias = self
            .tensor(bias, bias_name)?
            .expect_len(outputs, || format!("one per row of {}", weights.name))?;
        Ok(Dense {
            weights,
            bias: Some(bias),
            inputs,
            outputs,
        })
    }

    /// A convolution with this many input channels and a square kernel; the number of outputs follows.
    pub(crate) fn conv<'a>(
        &self,
        block: &'a Option<proto::ConvBlock>,
        name: &str,
        inputs: usize,
        kernel: usize,
    ) -> Result<Conv<'a>, NetError> {
        let block = block
            .as_ref()
            .ok_or_else(|| NetError::missing(format!("layer {name}")))?;
        let weights = self.tensor(&block.weights, format!("{name}.weights"))?;
        let outputs = weights.rows_of(inputs.saturating_mul(kernel * kernel))?;
        let channels = |layer: &'a Option<proto::Layer>, field: &str| {
            self.optional(layer, format!("{name}.{field}"))?
                .map(|t| t.expect_len(outputs, || format!("one per channel of {name}.weights")))
                .transpose()
        };
        let means = channels(&block.bn_means, "bn_means")?;
        let stddivs = channels(&block.bn_stddivs, "bn_stddivs")?;
        if means.is_some() != stddivs.is_some() {
            return Err(NetError::missing(format!(
                "one of the layers {name}.bn_means and {name}.bn_stddivs"
            )));
        }
        Ok(Conv {
            biases: channels(&block.biases, "biases")?,
            normalization: means.zip(stddivs),
            gammas: channels(&block.bn_gammas, "bn_gammas")?,
            betas: channels(&block.bn_betas, "bn_betas")?,
            weights,
            inputs,
            outputs,
            kernel,
        })
    }

    /// A layer normalisation over this many values.
    pub(crate) fn norm<'a>(
        &self,
        gammas: &'a Option<proto::Layer>,
        betas: &'a Option<proto::Layer>,
        name: &str,
        size: usize,
    ) -> Result<Norm<'a>, NetError> {
        let part = |layer: &'a Option<proto::Layer>, field: &str| {
            self.tensor(layer, format!("{name}_{field}"))?
                .expect_len(size, || "the width of what it normalises".to_owned())
        };
        Ok(Norm {
            gammas: part(gammas, "gammas")?,
            betas: part(betas, "betas")?,
        })
    }
}

/// A dense layer: y = W x + b.
#[derive(Clone, Debug)]
pub(crate) struct Dense<'a> {
    /// W, \[outputs\]\[inputs\].
    pub(crate) weights: Tensor<'a>,
    /// b, \[outputs\].
    pub(crate) bias: Option<Tensor<'a>>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl Dense<'_> {
    /// Requires this number of outputs.
    pub(crate) fn with_outputs(self, outputs: usize) -> Result<Self, NetError> {
        if self.outputs == outputs {
            Ok(self)
        } else {
            Err(self.weights.size_error(format!(
                "{outputs} x {} = {}",
                self.inputs,
                outputs * self.inputs
            )))
        }
    }

    /// The weights times `scale`, transposed to \[inputs\]\[outputs\], and the biases times `scale`.
    pub(crate) fn decode(&self, scale: f32) -> Result<(Vec<f32>, Option<Vec<f32>>), NetError> {
        let mut weights = transpose(&self.weights.decode()?, self.outputs, self.inputs);
        let mut bias = self.bias.as_ref().map(Tensor::decode).transpose()?;
        if scale != 1.0 {
            weights.iter_mut().for_each(|value| *value *= scale);
            bias.iter_mut().flatten().for_each(|value| *value *= scale);
        }
        Ok((weights, bias))
    }
}

/// Transposes a \[rows\]\[columns\] matrix.
pub(crate) fn transpose(matrix: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    // Blocks keep both sides in the cache: the matrices of large transformers are much larger than it.
    const BLOCK: usize = 32;
    let mut out = vec![0.0; matrix.len()];
    for row0 in (0..rows).step_by(BLOCK) {
        for column0 in (0..columns).step_by(BLOCK) {
            for row in row0..(row0 + BLOCK).min(rows) {
                for column in column0..(column0 + BLOCK).min(columns) {
                    out[column * rows + row] = matrix[row * columns + column];
                }
            }
        }
    }
    out
}

/// A convolution with the batch normalisation behind it.
#[derive(Clone, Debug)]
pub(crate) struct Conv<'a> {
    pub(crate) weights: Tensor<'a>,
    biases: Option<Tensor<'a>>,
    normalization: Option<(Tensor<'a>, Tensor<'a>)>,
    gammas: Option<Tensor<'a>>,
    betas: Option<Tensor<'a>>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) kernel: usize,
}

/// lc0's epsilon of batch normalisation.
const BATCH_NORM_EPSILON: f32 = 1e-5;

impl Conv<'_> {
    /// Requires this number of output channels.
    pub(crate) fn with_outputs(self, outputs: usize) -> Result<Self, NetError> {
        let per_output = self.inputs * self.kernel * self.kernel;
        if self.outputs == outputs {
            Ok(self)
        } else {
            Err(self.weights.size_error(format!(
                "{} ({outputs} output channels)",
                outputs * per_output
            )))
        }
    }

    /// Weights and biases of an equivalent convolution without normalisation: with s = gamma / sqrt(variance +
    /// epsilon), W' = s W and b' = s (b - mean) + beta. (`bn_stddivs` holds variances.)
    pub(crate) fn folded(&self) -> Result<(Vec<f32>, Vec<f32>), NetError> {
        let or = |tensor: &Option<Tensor<'_>>, default: f32| match tensor {
            Some(tensor) => tensor.decode(),
            None => Ok(vec![default; self.outputs]),
        };
        let mut weights = self.weights.decode()?;
        let mut biases = or(&self.biases, 0.0)?;
        let Some((means, variances)) = &self.normalization else {
            return Ok((weights, biases));
        };
        let (means, variances) = (means.decode()?, variances.decode()?);
        let (gammas, betas) = (or(&self.gammas, 1.0)?, or(&self.betas, 0.0)?);
        let per_output = weights.len() / self.outputs;
        for (channel, filter) in weights.chunks_exact_mut(per_output).enumerate() {
            let scale = gammas[channel] / (variances[channel] + BATCH_NORM_EPSILON).sqrt();
            if !scale.is_finite() {
                return Err(NetError::LayerData {
                    layer: self.weights.name.clone(),
                    problem: format!("channel {channel} has the variance {}", variances[channel]),
                });
            }
            filter.iter_mut().for_each(|weight| *weight *= scale);
            biases[channel] = scale * (biases[channel] - means[channel]) + betas[channel];
        }
        Ok((weights, biases))
    }
}

/// A layer normalisation.
#[derive(Clone, Debug)]
pub(crate) struct Norm<'a> {
    pub(crate) gammas: Tensor<'a>,
    pub(crate) betas: Tensor<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(encoding: ArrayEncoding, bytes: Vec<u8>) -> Option<proto::Layer> {
        Some(proto::Layer {
            min_val: Some(-1.0),
            max_val: Some(3.0),
            params: Some(bytes.into()),
            encoding: Some(encoding as i32),
            dims: Vec::new(),
        })
    }

    fn reader() -> LayerReader {
        LayerReader::new(&proto::ProtoNet::default())
    }

    #[test]
    fn every_encoding_decodes() {
        let half = |v: f32| f16::from_f32(v).to_bits().to_le_bytes();
        let brain = |v: f32| bf16::from_f32(v).to_bits().to_le_bytes();
        let cases = [
            (
                ArrayEncoding::Linear16,
                [[0, 0], [255, 255]].concat(),
                [-1.0, 3.0],
            ),
            (
                ArrayEncoding::Float16,
                [half(0.5), half(-2.0)].concat(),
                [0.5, -2.0],
            ),
            (
                ArrayEncoding::BFloat16,
                [brain(0.5), brain(-2.0)].concat(),
                [0.5, -2.0],
            ),
            (
                ArrayEncoding::Float32,
                [0.1f32.to_le_bytes(), 7.0f32.to_le_bytes()].concat(),
                [0.1, 7.0],
            ),
        ];
        for (encoding, bytes, expected) in cases {
            let layer = layer(encoding, bytes);
            let decoded = reader().tensor(&layer, "x").unwrap().decode().unwrap();
            assert_eq!(decoded, expected, "{encoding:?}");
        }
    }

    #[test]
    fn bad_layers_are_refused_by_name() {
        let odd = layer(ArrayEncoding::Float32, vec![0; 6]);
        let error = reader().tensor(&odd, "ip_pol_w").unwrap_err().to_string();
        assert!(
            error.contains("ip_pol_w") && error.contains("FLOAT32"),
            "{error}"
        );

        let nan = layer(ArrayEncoding::Float32, f32::NAN.to_le_bytes().to_vec());
        let error = reader().tensor(&nan, "x").unwrap().decode().unwrap_err();
        assert!(error.to_string().contains("value 0 is NaN"), "{error}");

        let weights = layer(ArrayEncoding::Linear16, vec![0; 2 * 6]);
        let bias = layer(ArrayEncoding::Linear16, vec![0; 2 * 2]);
        let error = reader().dense(&weights, &bias, "ip1_val", 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "layer ip1_val_b has 2 values, expected 3 (one per row of ip1_val_w)"
        );
        assert!(reader().dense(&weights, &bias, "ip1_val", 0).is_err());
        assert!(reader().tensor(&None, "gone").is_err());
    }

    #[test]
    fn batch_normalisation_folds() {
        let one = |value: f32| {
            Some(proto::Layer {
                params: Some(value.to_le_bytes().to_vec().into()),
                encoding: Some(ArrayEncoding::Float32 as i32),
                ..Default::default()
            })
        };
        let block = Some(proto::ConvBlock {
            weights: one(3.0),
            biases: one(0.25),
            bn_means: one(0.5),
            bn_stddivs: one(4.0 - BATCH_NORM_EPSILON),
            bn_gammas: one(2.0),
            bn_betas: one(0.125),
        });
        let (weights, biases) = reader()
            .conv(&block, "input", 1, 1)
            .unwrap()
            .folded()
            .unwrap();
        assert!((weights[0] - 3.0).abs() < 1e-5);
        assert!((biases[0] - (0.25 - 0.5 + 0.125)).abs() < 1e-5);
    }

    #[test]
    fn transposing_twice_is_the_identity() {
        let matrix: Vec<f32> = (0..35 * 67).map(|v| v as f32).collect();
        let transposed = transpose(&matrix, 35, 67);
        assert_eq!(transposed[1], 67.0);
        assert_eq!(transpose(&transposed, 67, 35), matrix);
    }
}
