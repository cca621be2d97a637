//! The network as a structure: body, policy head, value head, moves-left head, made of the typed layers of
//! [`super::weights`]. Reading it validates a file: afterwards all sizes are consistent.
//!
//! Three families share this module: residual convolutions, transformers ("attention bodies"), and transformers behind
//! a convolutional stem.

use super::{
    error::NetError,
    format::{EmbeddingFormat, Format, MovesLeftFormat, PLANES, PolicyFormat, ValueFormat},
    policy_list::{CONVOLUTION_PLANES, POLICY_SIZE},
    proto,
    weights::{Conv, Dense, LayerReader, Norm, Tensor},
};

/// Squares of the board, tokens of a transformer.
pub(crate) const SQUARES: usize = 64;
/// Planes of the newest position that hold pieces, the input of a dense position embedding.
pub(crate) const PIECE_PLANES: usize = 12;

/// A complete network with one selected policy head and value head.
pub(crate) struct Architecture<'a> {
    pub(crate) body: Body<'a>,
    pub(crate) policy: Policy<'a>,
    /// The name of the selected policy head.
    pub(crate) policy_name: String,
    pub(crate) value: ScalarHead<'a>,
    /// The name of the selected value head.
    pub(crate) value_name: String,
    pub(crate) moves_left: Option<ScalarHead<'a>>,
}

/// The body: the features that all heads share.
#[allow(clippy::large_enum_variant)] // There is one per conversion.
pub(crate) enum Body<'a> {
    Conv(Tower<'a>),
    Attention(AttentionBody<'a>),
}

/// An input convolution and residual blocks.
pub(crate) struct Tower<'a> {
    pub(crate) input: Conv<'a>,
    pub(crate) blocks: Vec<Residual<'a>>,
}

impl Tower<'_> {
    /// Channels between the blocks.
    pub(crate) fn filters(&self) -> usize {
        self.input.outputs
    }
}

/// Two convolutions and a shortcut.
pub(crate) struct Residual<'a> {
    pub(crate) conv1: Conv<'a>,
    pub(crate) conv2: Conv<'a>,
    pub(crate) squeeze_excite: Option<SqueezeExcite<'a>>,
}

/// Squeeze-and-excite with a scale (gamma) and a shift (beta) per channel.
pub(crate) struct SqueezeExcite<'a> {
    /// filters to hidden
    pub(crate) squeeze: Dense<'a>,
    /// hidden to 2 x filters: gammas, then betas
    pub(crate) excite: Dense<'a>,
}

/// Transformer layers and the preparation of their input.
pub(crate) struct AttentionBody<'a> {
    /// Convolutions before the transformer.
    pub(crate) stem: Option<Tower<'a>>,
    /// The dense layer over the whole board of `INPUT_EMBEDDING_PE_DENSE`: 64 x 12 to 64 x width.
    pub(crate) preprocess: Option<Dense<'a>>,
    /// Features of a square to the embedding.
    pub(crate) embedding: Dense<'a>,
    /// Normalisation of the embedding (`INPUT_EMBEDDING_PE_DENSE`).
    pub(crate) embedding_norm: Option<Norm<'a>>,
    /// Factors per square, \[embedding\]\[square\].
    pub(crate) multiply_gate: Option<Tensor<'a>>,
    /// Offsets per square, \[embedding\]\[square\].
    pub(crate) add_gate: Option<Tensor<'a>>,
    /// Feed-forward network of the embedding (`INPUT_EMBEDDING_PE_DENSE`).
    pub(crate) embedding_ffn: Option<(FeedForward<'a>, Norm<'a>)>,
    pub(crate) encoders: Vec<Encoder<'a>>,
}

impl AttentionBody<'_> {
    /// Width of a token.
    pub(crate) fn width(&self) -> usize {
        self.embedding.outputs
    }
}

/// One transformer layer.
pub(crate) struct Encoder<'a> {
    pub(crate) heads: usize,
    pub(crate) query: Dense<'a>,
    pub(crate) key: Dense<'a>,
    pub(crate) value: Dense<'a>,
    pub(crate) output: Dense<'a>,
    pub(crate) smolgen: Option<Smolgen<'a>>,
    pub(crate) norm1: Norm<'a>,
    pub(crate) ffn: FeedForward<'a>,
    pub(crate) norm2: Norm<'a>,
}

/// Two dense layers.
pub(crate) struct FeedForward<'a> {
    pub(crate) dense1: Dense<'a>,
    pub(crate) dense2: Dense<'a>,
}

/// Attention logits generated from the whole board.
pub(crate) struct Smolgen<'a> {
    /// token to a few channels, without bias
    pub(crate) compress: Dense<'a>,
    pub(crate) dense1: Dense<'a>,
    pub(crate) norm1: Norm<'a>,
    /// to heads x generator width
    pub(crate) dense2: Dense<'a>,
    pub(crate) norm2: Norm<'a>,
    /// generator width to 64 x 64; one for all layers, without bias
    pub(crate) generator: Dense<'a>,
}

/// A policy head.
pub(crate) enum Policy<'a> {
    /// 1x1 convolution, dense layer to 1858.
    Classical { conv: Conv<'a>, dense: Dense<'a> },
    /// Two 3x3 convolutions, the second to 73 or more planes.
    Convolution { conv1: Conv<'a>, conv2: Conv<'a> },
    /// Scores between squares.
    Attention(AttentionPolicy<'a>),
}

/// Scores between origin (query) and target (key) squares.
pub(crate) struct AttentionPolicy<'a> {
    pub(crate) embedding: Dense<'a>,
    pub(crate) encoders: Vec<Encoder<'a>>,
    pub(crate) query: Dense<'a>,
    pub(crate) key: Dense<'a>,
    /// Key to queen, rook, bishop and a summand common to the three, without bias.
    pub(crate) promotion: Dense<'a>,
}

/// A head with few outputs: value or moves left.
pub(crate) struct ScalarHead<'a> {
    pub(crate) input: HeadInput<'a>,
    pub(crate) dense1: Dense<'a>,
    pub(crate) dense2: Dense<'a>,
}

/// How a scalar head reduces the body's features.
pub(crate) enum HeadInput<'a> {
    Conv(Conv<'a>),
    Dense(Dense<'a>),
}

/// The layers of one policy head in the file.
struct PolicySource<'a> {
    name: String,
    prefix: &'static str,
    ip_pol_w: &'a Option<proto::Layer>,
    ip_pol_b: &'a Option<proto::Layer>,
    ip2_pol_w: &'a Option<proto::Layer>,
    ip2_pol_b: &'a Option<proto::Layer>,
    ip3_pol_w: &'a Option<proto::Layer>,
    ip3_pol_b: &'a Option<proto::Layer>,
    ip4_pol_w: &'a Option<proto::Layer>,
    encoders: &'a [proto::EncoderLayer],
    headcount: usize,
    policy1: &'a Option<proto::ConvBlock>,
    policy: &'a Option<proto::ConvBlock>,
}

impl PolicySource<'_> {
    fn is_empty(&self) -> bool {
        let no_layer =
            |layer: &Option<proto::Layer>| layer.as_ref().is_none_or(|l| l.params().is_empty());
        no_layer(self.ip2_pol_w) && self.policy.is_none()
    }
}

/// The layers of one value head in the file.
struct ValueSource<'a> {
    name: String,
    prefix: &'static str,
    ip_val_w: &'a Option<proto::Layer>,
    ip_val_b: &'a Option<proto::Layer>,
    ip1_val_w: &'a Option<proto::Layer>,
    ip1_val_b: &'a Option<proto::Layer>,
    ip2_val_w: &'a Option<proto::Layer>,
    ip2_val_b: &'a Option<proto::Layer>,
    conv: &'a Option<proto::ConvBlock>,
}

impl ValueSource<'_> {
    fn is_empty(&self) -> bool {
        self.ip1_val_w
            .as_ref()
            .is_none_or(|layer| layer.params().is_empty())
    }
}

/// The policy heads that have weights, the default first.
fn policy_sources(weights: &proto::Weights) -> Vec<PolicySource<'_>> {
    let Some(heads) = &weights.policy_heads else {
        return vec![PolicySource {
            name: "vanilla".to_owned(),
            prefix: "",
            ip_pol_w: &weights.ip_pol_w,
            ip_pol_b: &weights.ip_pol_b,
            ip2_pol_w: &weights.ip2_pol_w,
            ip2_pol_b: &weights.ip2_pol_b,
            ip3_pol_w: &weights.ip3_pol_w,
            ip3_pol_b: &weights.ip3_pol_b,
            ip4_pol_w: &weights.ip4_pol_w,
            encoders: &weights.pol_encoder,
            headcount: weights.pol_headcount() as usize,
            policy1: &weights.policy1,
            policy: &weights.policy,
        }];
    };
    let named = [
        ("vanilla", &heads.vanilla),
        ("optimistic", &heads.optimistic_st),
        ("soft", &heads.soft),
        ("opponent", &heads.opponent),
    ]
    .into_iter()
    .filter_map(|(name, head)| Some((name.to_owned(), head.as_ref()?)));
    let mapped = heads
        .policy_head_map
        .iter()
        .filter_map(|entry| Some((entry.key().to_owned(), entry.value.as_ref()?)));
    named
        .chain(mapped)
        .map(|(name, head)| PolicySource {
            name,
            prefix: "policy_heads.",
            // The embedding may be shared by all heads, and is stored in one of two places.
            ip_pol_w: first_of([&head.ip_pol_w, &heads.ip_pol_w, &weights.ip_pol_w]),
            ip_pol_b: first_of([&head.ip_pol_b, &heads.ip_pol_b, &weights.ip_pol_b]),
            ip2_pol_w: &head.ip2_pol_w,
            ip2_pol_b: &head.ip2_pol_b,
            ip3_pol_w: &head.ip3_pol_w,
            ip3_pol_b: &head.ip3_pol_b,
            ip4_pol_w: &head.ip4_pol_w,
            encoders: &head.pol_encoder,
            headcount: head.pol_headcount() as usize,
            policy1: &head.policy1,
            policy: &head.policy,
        })
        .filter(|source| !source.is_empty())
        .collect()
}

/// The first of three layers that is not empty.
fn first_of([a, b, c]: [&Option<proto::Layer>; 3]) -> &Option<proto::Layer> {
    let filled =
        |layer: &Option<proto::Layer>| layer.as_ref().is_some_and(|l| !l.params().is_empty());
    match (filled(a), filled(b)) {
        (true, _) => a,
        (_, true) => b,
        _ => c,
    }
}

/// The value heads that have weights, the default first.
fn value_sources(weights: &proto::Weights) -> Vec<ValueSource<'_>> {
    let Some(heads) = &weights.value_heads else {
        return vec![ValueSource {
            name: "winner".to_owned(),
            prefix: "",
            ip_val_w: &weights.ip_val_w,
            ip_val_b: &weights.ip_val_b,
            ip1_val_w: &weights.ip1_val_w,
            ip1_val_b: &weights.ip1_val_b,
            ip2_val_w: &weights.ip2_val_w,
            ip2_val_b: &weights.ip2_val_b,
            conv: &weights.value,
        }];
    };
    let named = [
        ("winner", &heads.winner),
        ("q", &heads.q),
        ("st", &heads.st),
    ]
    .into_iter()
    .filter_map(|(name, head)| Some((name.to_owned(), head.as_ref()?)));
    let mapped = heads
        .value_head_map
        .iter()
        .filter_map(|entry| Some((entry.key().to_owned(), entry.value.as_ref()?)));
    named
        .chain(mapped)
        .map(|(name, head)| ValueSource {
            name,
            prefix: "value_heads.",
            ip_val_w: &head.ip_val_w,
            ip_val_b: &head.ip_val_b,
            ip1_val_w: &head.ip1_val_w,
            ip1_val_b: &head.ip1_val_b,
            ip2_val_w: &head.ip2_val_w,
            ip2_val_b: &head.ip2_val_b,
            conv: &head.value,
        })
        .filter(|source| !source.is_empty())
        .collect()
}

/// The names of the policy heads that have weights, the default first.
pub(crate) fn policy_heads(weights: &proto::Weights) -> Vec<String> {
    policy_sources(weights)
        .into_iter()
        .map(|source| source.name)
        .collect()
}

/// The names of the value heads that have weights, the default first.
pub(crate) fn value_heads(weights: &proto::Weights) -> Vec<String> {
    value_sources(weights)
        .into_iter()
        .map(|source| source.name)
        .collect()
}

/// The name of the head that is requested by this one: lc0's message and option have different names for one of them.
pub(crate) fn head_name(requested: &str) -> &str {
    if requested.eq_ignore_ascii_case("optimistic_st") {
        "optimistic"
    } else {
        requested
    }
}

/// The head with this name, in any case, or the first.
fn choose<S>(
    sources: Vec<S>,
    name_of: impl Fn(&S) -> &str,
    kind: &'static str,
    requested: Option<&str>,
) -> Result<S, NetError> {
    let available = sources.iter().map(&name_of).collect::<Vec<_>>().join(", ");
    let requested = requested.map(head_name);
    let found = sources
        .into_iter()
        .find(|source| requested.is_none_or(|name| name_of(source).eq_ignore_ascii_case(name)));
    found.ok_or_else(|| match requested {
        Some(name) if !available.is_empty() => NetError::NoSuchHead {
            kind,
            name: name.to_owned(),
            available,
        },
        _ => NetError::missing(format!("every {kind} head")),
    })
}

/// Reads networks of one format.
struct Builder<'a> {
    reader: LayerReader,
    format: Format,
    weights: &'a proto::Weights,
    /// Width of the smolgen generator's input and its weights.
    generator: Option<Tensor<'a>>,
}

impl<'a> Architecture<'a> {
    /// Reads and checks a network with the heads of these names (or the default ones).
    pub(crate) fn read(
        net: &'a proto::ProtoNet,
        format: Format,
        policy_head: Option<&str>,
        value_head: Option<&str>,
    ) -> Result<Architecture<'a>, NetError> {
        let weights = net
            .weights
            .as_ref()
            .ok_or_else(|| NetError::missing("weights"))?;
        let reader = LayerReader::new(net);
        let builder = Builder {
            generator: reader.optional(&weights.smolgen_w, "smolgen_w")?,
            reader,
            format,
            weights,
        };
        let policy = choose(
            policy_sources(weights),
            |s| s.name.as_str(),
            "policy",
            policy_head,
        )?;
        let value = choose(
            value_sources(weights),
            |s| s.name.as_str(),
            "value",
            value_head,
        )?;
        let body = builder.body()?;
        Ok(Architecture {
            policy: builder.policy(&body, &policy)?,
            policy_name: policy.name,
            value: builder.value(&body, &value)?,
            value_name: value.name,
            moves_left: builder.moves_left(&body)?,
            body,
        })
    }
}

impl<'a> Builder<'a> {
    fn body(&self) -> Result<Body<'a>, NetError> {
        let (structure, encoders) = (self.format.structure, self.weights.encoder.len());
        match (structure.is_attention(), encoders > 0) {
            (true, true) => Ok(Body::Attention(self.attention_body()?)),
            (false, false) => Ok(Body::Conv(self.tower()?)),
            (attention, _) => Err(NetError::Unsupported {
                field: format!("a network of structure {structure}"),
                found: format!("made with {encoders} encoder layers"),
                expected: if attention {
                    "one encoder layer or more".to_owned()
                } else {
                    "no encoder layers".to_owned()
                },
            }),
        }
    }

    fn tower(&self) -> Result<Tower<'a>, NetError> {
        let input = self.reader.conv(&self.weights.input, "input", PLANES, 3)?;
        let filters = input.outputs;
        let blocks = self
            .weights
            .residual
            .iter()
            .enumerate()
            .map(|(index, block)| self.residual(block, index, filters))
            .collect::<Result<_, _>>()?;
        Ok(Tower { input, blocks })
    }

    fn residual(
        &self,
        block: &'a proto::ProtoResidual,
        index: usize,
        filters: usize,
    ) -> Result<Residual<'a>, NetError> {
        let name = format!("residual[{index}]");
        let conv = |conv: &'a Option<proto::ConvBlock>, part: &str| {
            self.reader
                .conv(conv, &format!("{name}.{part}"), filters, 3)?
                .with_outputs(filters)
        };
        let squeeze_excite = match &block.se {
            None => None,
            Some(unit) => {
                let part = |w, b, number: usize, inputs| {
                    let names = ["w", "b"].map(|kind| format!("{name}.se.{kind}{number}"));
                    self.reader.dense_named(w, b, names, inputs)
                };
                let squeeze = part(&unit.w1, &unit.b1, 1, filters)?;
                let excite =
                    part(&unit.w2, &unit.b2, 2, squeeze.outputs)?.with_outputs(2 * filters)?;
                Some(SqueezeExcite { squeeze, excite })
            }
        };
        Ok(Residual {
            conv1: conv(&block.conv1, "conv1")?,
            conv2: conv(&block.conv2, "conv2")?,
            squeeze_excite,
        })
    }

    fn attention_body(&self) -> Result<AttentionBody<'a>, NetError> {
        let (reader, weights) = (&self.reader, self.weights);
        let stem = if weights.residual.is_empty() {
            None
        } else {
            Some(self.tower()?)
        };
        let dense = self.format.embedding == EmbeddingFormat::PositionDense;
        let preprocess = match &stem {
            None if dense => Some(self.preprocess()?),
            _ => None,
        };
        let features = match (&stem, &preprocess, self.format.embedding) {
            (Some(tower), _, _) => tower.filters(),
            (_, Some(preprocess), _) => PLANES + preprocess.outputs / SQUARES,
            (_, _, EmbeddingFormat::PositionMap) => PLANES + SQUARES,
            (_, _, embedding) => {
                return Err(NetError::Unsupported {
                    field: "format.network_format.input_embedding".to_owned(),
                    found: embedding.to_string(),
                    expected:
                        "INPUT_EMBEDDING_PE_MAP, INPUT_EMBEDDING_PE_DENSE or a convolutional stem"
                            .to_owned(),
                });
            }
        };
        let embedding = reader.dense(&weights.ip_emb_w, &weights.ip_emb_b, "ip_emb", features)?;
        let width = embedding.outputs;
        let gate = |layer, name| {
            reader
                .optional(layer, name)?
                .map(|t| t.expect_len(width * SQUARES, || format!("{width} per square")))
                .transpose()
        };
        let embedding_norm = dense.then(|| {
            reader.norm(
                &weights.ip_emb_ln_gammas,
                &weights.ip_emb_ln_betas,
                "ip_emb_ln",
                width,
            )
        });
        Ok(AttentionBody {
            multiply_gate: gate(&weights.ip_mult_gate, "ip_mult_gate")?,
            add_gate: gate(&weights.ip_add_gate, "ip_add_gate")?,
            embedding_norm: embedding_norm.transpose()?,
            embedding_ffn: dense.then(|| self.embedding_ffn(width)).transpose()?,
            encoders: self.encoders(
                &weights.encoder,
                "encoder",
                width,
                weights.headcount() as usize,
            )?,
            stem,
            preprocess,
            embedding,
        })
    }

    fn preprocess(&self) -> Result<Dense<'a>, NetError> {
        let weights = self.weights;
        let dense = self.reader.dense(
            &weights.ip_emb_preproc_w,
            &weights.ip_emb_preproc_b,
            "ip_emb_preproc",
            SQUARES * PIECE_PLANES,
        )?;
        match dense.outputs % SQUARES {
            0 => Ok(dense),
            _ => Err(dense
                .weights
                .size_error(format!("a multiple of {SQUARES} rows"))),
        }
    }

    fn embedding_ffn(&self, width: usize) -> Result<(FeedForward<'a>, Norm<'a>), NetError> {
        let weights = self.weights;
        let ffn = self.feed_forward(&weights.ip_emb_ffn, "ip_emb_ffn", width)?;
        let norm = self.reader.norm(
            &weights.ip_emb_ffn_ln_gammas,
            &weights.ip_emb_ffn_ln_betas,
            "ip_emb_ffn_ln",
            width,
        )?;
        Ok((ffn, norm))
    }

    fn feed_forward(
        &self,
        ffn: &'a Option<proto::Ffn>,
        name: &str,
        width: usize,
    ) -> Result<FeedForward<'a>, NetError> {
        let ffn = ffn
            .as_ref()
            .ok_or_else(|| NetError::missing(format!("layer {name}")))?;
        let part =
            |w, b, part: &str, inputs| self.reader.dense(w, b, &format!("{name}.{part}"), inputs);
        let dense1 = part(&ffn.dense1_w, &ffn.dense1_b, "dense1", width)?;
        let dense2 =
            part(&ffn.dense2_w, &ffn.dense2_b, "dense2", dense1.outputs)?.with_outputs(width)?;
        Ok(FeedForward { dense1, dense2 })
    }

    fn encoders(
        &self,
        layers: &'a [proto::EncoderLayer],
        name: &str,
        width: usize,
        heads: usize,
    ) -> Result<Vec<Encoder<'a>>, NetError> {
        layers
            .iter()
            .enumerate()
            .map(|(index, layer)| self.encoder(layer, &format!("{name}[{index}]"), width, heads))
            .collect()
    }

    fn encoder(
        &self,
        layer: &'a proto::EncoderLayer,
        name: &str,
        width: usize,
        heads: usize,
    ) -> Result<Encoder<'a>, NetError> {
        let reader = &self.reader;
        let mha = layer
            .mha
            .as_ref()
            .ok_or_else(|| NetError::missing(format!("layer {name}.mha")))?;
        refuse_relative_positions(mha, name)?;
        let part =
            |w, b, part: &str, inputs| reader.dense(w, b, &format!("{name}.mha.{part}"), inputs);
        let query = part(&mha.q_w, &mha.q_b, "q", width)?;
        let model = query.outputs;
        if heads == 0 || model % heads != 0 {
            let text = format!("rows that {heads} attention heads can share");
            return Err(query.weights.size_error(text));
        }
        Ok(Encoder {
            heads,
            key: part(&mha.k_w, &mha.k_b, "k", width)?.with_outputs(model)?,
            value: part(&mha.v_w, &mha.v_b, "v", width)?.with_outputs(model)?,
            output: part(&mha.dense_w, &mha.dense_b, "dense", model)?.with_outputs(width)?,
            query,
            smolgen: self.smolgen(&mha.smolgen, name, width, heads)?,
            norm1: reader.norm(
                &layer.ln1_gammas,
                &layer.ln1_betas,
                &format!("{name}.ln1"),
                width,
            )?,
            ffn: self.feed_forward(&layer.ffn, &format!("{name}.ffn"), width)?,
            norm2: reader.norm(
                &layer.ln2_gammas,
                &layer.ln2_betas,
                &format!("{name}.ln2"),
                width,
            )?,
        })
    }

    fn smolgen(
        &self,
        smolgen: &'a Option<proto::ProtoSmolgen>,
        encoder: &str,
        width: usize,
        heads: usize,
    ) -> Result<Option<Smolgen<'a>>, NetError> {
        let name = format!("{encoder}.mha.smolgen");
        let Some(smolgen) = smolgen else {
            return Ok(None);
        };
        let Some(compress) = self
            .reader
            .optional(&smolgen.compress, format!("{name}.compress"))?
        else {
            return Ok(None);
        };
        let compress = without_bias(compress, width)?;
        let part =
            |w, b, part: &str, inputs| self.reader.dense(w, b, &format!("{name}.{part}"), inputs);
        let norm = |g, b, part: &str, size| self.reader.norm(g, b, &format!("{name}.{part}"), size);
        let board = SQUARES * compress.outputs;
        let dense1 = part(&smolgen.dense1_w, &smolgen.dense1_b, "dense1", board)?;
        let dense2 = part(
            &smolgen.dense2_w,
            &smolgen.dense2_b,
            "dense2",
            dense1.outputs,
        )?;
        let generator = self
            .generator
            .clone()
            .ok_or_else(|| NetError::missing("layer smolgen_w"))?;
        let generated = generator.rows_of(SQUARES * SQUARES)?;
        if dense2.outputs != heads * generated {
            let text = format!("{heads} heads x {generated} x {} inputs", dense2.inputs);
            return Err(dense2.weights.size_error(text));
        }
        Ok(Some(Smolgen {
            norm1: norm(
                &smolgen.ln1_gammas,
                &smolgen.ln1_betas,
                "ln1",
                dense1.outputs,
            )?,
            norm2: norm(
                &smolgen.ln2_gammas,
                &smolgen.ln2_betas,
                "ln2",
                dense2.outputs,
            )?,
            generator: without_bias(generator, generated)?,
            compress,
            dense1,
            dense2,
        }))
    }

    fn policy(&self, body: &Body<'a>, source: &PolicySource<'a>) -> Result<Policy<'a>, NetError> {
        let reader = &self.reader;
        let name = |part: &str| match source.prefix {
            "" => part.to_owned(),
            prefix => format!("{prefix}{}.{part}", source.name),
        };
        match (self.format.policy, body) {
            (PolicyFormat::Attention, _) => self.attention_policy(body, source, name),
            (PolicyFormat::Classical, Body::Conv(tower)) => {
                let conv = reader.conv(source.policy, &name("policy"), tower.filters(), 1)?;
                let inputs = conv.outputs * SQUARES;
                let dense = reader
                    .dense(source.ip_pol_w, source.ip_pol_b, &name("ip_pol"), inputs)?
                    .with_outputs(POLICY_SIZE)?;
                Ok(Policy::Classical { conv, dense })
            }
            (PolicyFormat::Convolution, Body::Conv(tower)) => {
                let conv1 = reader.conv(source.policy1, &name("policy1"), tower.filters(), 3)?;
                let conv2 = reader.conv(source.policy, &name("policy"), conv1.outputs, 3)?;
                if conv2.outputs < CONVOLUTION_PLANES {
                    let text = format!("{CONVOLUTION_PLANES} or more output channels");
                    return Err(conv2.weights.size_error(text));
                }
                Ok(Policy::Convolution { conv1, conv2 })
            }
            (policy, Body::Attention(_)) => Err(NetError::Unsupported {
                field: "the policy head of an attention body".to_owned(),
                found: policy.to_string(),
                expected: PolicyFormat::Attention.to_string(),
            }),
        }
    }

    fn attention_policy(
        &self,
        body: &Body<'a>,
        source: &PolicySource<'a>,
        name: impl Fn(&str) -> String,
    ) -> Result<Policy<'a>, NetError> {
        let reader = &self.reader;
        let embedding = reader.dense(
            source.ip_pol_w,
            source.ip_pol_b,
            &name("ip_pol"),
            body.width(),
        )?;
        let width = embedding.outputs;
        let query = reader.dense(source.ip2_pol_w, source.ip2_pol_b, &name("ip2_pol"), width)?;
        let key = reader
            .dense(source.ip3_pol_w, source.ip3_pol_b, &name("ip3_pol"), width)?
            .with_outputs(query.outputs)?;
        let promotion = reader.tensor(source.ip4_pol_w, name("ip4_pol_w"))?;
        let encoders = self.encoders(
            source.encoders,
            &name("pol_encoder"),
            width,
            source.headcount,
        )?;
        Ok(Policy::Attention(AttentionPolicy {
            embedding,
            encoders,
            promotion: without_bias(promotion, query.outputs)?.with_outputs(4)?,
            query,
            key,
        }))
    }

    fn value(&self, body: &Body<'a>, source: &ValueSource<'a>) -> Result<ScalarHead<'a>, NetError> {
        let name = |part: &str| match source.prefix {
            "" => part.to_owned(),
            prefix => format!("{prefix}{}.{part}", source.name),
        };
        let input = match body {
            Body::Conv(tower) => HeadInput::Conv(self.reader.conv(
                source.conv,
                &name("value"),
                tower.filters(),
                1,
            )?),
            Body::Attention(body) => HeadInput::Dense(self.reader.dense(
                source.ip_val_w,
                source.ip_val_b,
                &name("ip_val"),
                body.width(),
            )?),
        };
        let outputs = match self.format.value {
            ValueFormat::Classical => 1,
            ValueFormat::Wdl => 3,
        };
        let dense1 = (source.ip1_val_w, source.ip1_val_b, name("ip1_val"));
        let dense2 = (source.ip2_val_w, source.ip2_val_b, name("ip2_val"));
        self.scalar_head(input, dense1, dense2, outputs)
    }

    fn moves_left(&self, body: &Body<'a>) -> Result<Option<ScalarHead<'a>>, NetError> {
        if self.format.moves_left == MovesLeftFormat::None {
            return Ok(None);
        }
        let (reader, weights) = (&self.reader, self.weights);
        let input = match body {
            Body::Conv(tower) => HeadInput::Conv(reader.conv(
                &weights.moves_left,
                "moves_left",
                tower.filters(),
                1,
            )?),
            Body::Attention(body) => HeadInput::Dense(reader.dense(
                &weights.ip_mov_w,
                &weights.ip_mov_b,
                "ip_mov",
                body.width(),
            )?),
        };
        let dense1 = (&weights.ip1_mov_w, &weights.ip1_mov_b, "ip1_mov".to_owned());
        let dense2 = (&weights.ip2_mov_w, &weights.ip2_mov_b, "ip2_mov".to_owned());
        Ok(Some(self.scalar_head(input, dense1, dense2, 1)?))
    }

    fn scalar_head(
        &self,
        input: HeadInput<'a>,
        dense1: (&'a Option<proto::Layer>, &'a Option<proto::Layer>, String),
        dense2: (&'a Option<proto::Layer>, &'a Option<proto::Layer>, String),
        outputs: usize,
    ) -> Result<ScalarHead<'a>, NetError> {
        let channels = match &input {
            HeadInput::Conv(conv) => conv.outputs,
            HeadInput::Dense(dense) => dense.outputs,
        };
        let dense1 = self
            .reader
            .dense(dense1.0, dense1.1, &dense1.2, channels * SQUARES)?;
        let dense2 = self
            .reader
            .dense(dense2.0, dense2.1, &dense2.2, dense1.outputs)?
            .with_outputs(outputs)?;
        Ok(ScalarHead {
            input,
            dense1,
            dense2,
        })
    }
}

impl Body<'_> {
    /// Features per square.
    pub(crate) fn width(&self) -> usize {
        match self {
            Body::Conv(tower) => tower.filters(),
            Body::Attention(body) => body.width(),
        }
    }
}

/// A dense layer without bias and with this many inputs.
fn without_bias(weights: Tensor<'_>, inputs: usize) -> Result<Dense<'_>, NetError> {
    Ok(Dense {
        outputs: weights.rows_of(inputs)?,
        weights,
        bias: None,
        inputs,
    })
}

/// lc0 does not read relative position encodings either.
fn refuse_relative_positions(mha: &proto::Mha, encoder: &str) -> Result<(), NetError> {
    let rpe = [
        ("rpe_q", &mha.rpe_q),
        ("rpe_k", &mha.rpe_k),
        ("rpe_v", &mha.rpe_v),
    ];
    match rpe.into_iter().find(|(_, layer)| layer.is_some()) {
        None => Ok(()),
        Some((name, _)) => Err(NetError::Unsupported {
            field: format!("the position encoding of {encoder}.mha"),
            found: format!("relative (RPE, layer {name})"),
            expected: "absolute, smolgen".to_owned(),
        }),
    }
}
