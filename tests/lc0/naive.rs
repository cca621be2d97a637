//! A plain evaluation of a network, step by step by lc0's formulas, with nothing folded or rearranged: the reference
//! for converted models where there are no recorded outputs of lc0.

use scorn::lc0::{
    policy_list::{Promotion, is_reachable, policy_list},
    proto,
};

use crate::synth::decode;

/// The output of a network for one position.
pub struct Outputs {
    pub policy: Vec<f32>,
    /// Three probabilities or one value.
    pub value: Vec<f32>,
    pub moves_left: Option<f32>,
}

type Layer = Option<proto::Layer>;
/// One row per token.
type Tokens = Vec<Vec<f32>>;
/// One row of 64 squares per channel.
type Board = Vec<Vec<f32>>;

fn dense(x: &[f32], weights: &Layer, bias: &Layer) -> Vec<f32> {
    let (weights, bias) = (decode(weights), decode(bias));
    weights
        .chunks_exact(x.len())
        .enumerate()
        .map(|(row, weights)| {
            let products = weights
                .iter()
                .zip(x)
                .map(|(w, x)| f64::from(*w) * f64::from(*x));
            (products.sum::<f64>() + f64::from(*bias.get(row).unwrap_or(&0.0))) as f32
        })
        .collect()
}

fn each(x: &Tokens, f: impl Fn(&[f32]) -> Vec<f32>) -> Tokens {
    x.iter().map(|token| f(token)).collect()
}

fn activate(x: Vec<f32>, activation: i32) -> Vec<f32> {
    let f = |x: f32| match activation {
        1 => x * x.exp().ln_1p().tanh(),
        2 => x.max(0.0),
        3 => x,
        4 => x.tanh(),
        5 => 1.0 / (1.0 + (-x).exp()),
        6 if x > 0.0 => 1.050_701 * x,
        6 => 1.050_701 * 1.673_263_2 * x.exp_m1(),
        7 => x / (1.0 + (-x).exp()),
        8 => x.max(0.0).powi(2),
        other => panic!("activation {other}"),
    };
    x.into_iter().map(f).collect()
}

fn layer_norm(x: &[f32], gammas: &Layer, betas: &Layer, epsilon: f32) -> Vec<f32> {
    let mean = x.iter().sum::<f32>() / x.len() as f32;
    let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / x.len() as f32;
    let affine = decode(gammas).into_iter().zip(decode(betas));
    x.iter()
        .zip(affine)
        .map(|(v, (gamma, beta))| (v - mean) / (variance + epsilon).sqrt() * gamma + beta)
        .collect()
}

fn softmax(x: &[f32]) -> Vec<f32> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f32> = x.iter().map(|v| (v - max).exp()).collect();
    let sum: f32 = exps.iter().sum();
    exps.into_iter().map(|v| v / sum).collect()
}

fn conv(x: &Board, block: &Option<proto::ConvBlock>, kernel: usize) -> Board {
    let block = block.as_ref().unwrap();
    let weights = decode(&block.weights);
    let or = |layer: &Layer, default: f32, len: usize| match layer {
        Some(_) => decode(layer),
        None => vec![default; len],
    };
    let per_output = x.len() * kernel * kernel;
    let outputs = weights.len() / per_output;
    let biases = or(&block.biases, 0.0, outputs);
    let normalised = block.bn_means.is_some();
    let (means, variances) = (
        or(&block.bn_means, 0.0, outputs),
        or(&block.bn_stddivs, 1.0, outputs),
    );
    let (gammas, betas) = (
        or(&block.bn_gammas, 1.0, outputs),
        or(&block.bn_betas, 0.0, outputs),
    );
    let half = kernel as i32 / 2;
    let at = |channel: &Vec<f32>, rank: i32, file: i32| {
        if (0..8).contains(&rank) && (0..8).contains(&file) {
            channel[(rank * 8 + file) as usize]
        } else {
            0.0
        }
    };
    let pixel = |output: usize, square: i32| {
        let mut sum = 0f64;
        for (input, channel) in x.iter().enumerate() {
            for tap in 0..kernel * kernel {
                let (dr, df) = ((tap / kernel) as i32 - half, (tap % kernel) as i32 - half);
                let weight = weights[output * per_output + input * kernel * kernel + tap];
                sum += f64::from(weight) * f64::from(at(channel, square / 8 + dr, square % 8 + df));
            }
        }
        let y = sum as f32 + biases[output];
        if normalised {
            (y - means[output]) / (variances[output] + 1e-5).sqrt() * gammas[output] + betas[output]
        } else {
            y
        }
    };
    (0..outputs)
        .map(|output| (0..64).map(|square| pixel(output, square)).collect())
        .collect()
}

/// The network, and the activation numbers that apply.
pub struct Naive<'a> {
    weights: &'a proto::Weights,
    format: &'a proto::NetworkFormat,
    default: i32,
}

impl<'a> Naive<'a> {
    pub fn new(net: &'a proto::ProtoNet) -> Naive<'a> {
        let format = net
            .format
            .as_ref()
            .unwrap()
            .network_format
            .as_ref()
            .unwrap();
        Naive {
            weights: net.weights.as_ref().unwrap(),
            format,
            default: if format.default_activation() == 1 {
                1
            } else {
                2
            },
        }
    }

    /// Evaluates one position, 112 x 64 inputs, with the named heads.
    pub fn evaluate(&self, planes: &[f32], policy: &str, value: &str) -> Outputs {
        let board: Board = planes.chunks_exact(64).map(<[f32]>::to_vec).collect();
        let attention = !self.weights.encoder.is_empty();
        let board = if !attention || !self.weights.residual.is_empty() {
            self.tower(board)
        } else {
            board
        };
        let tokens = if attention {
            self.attention_body(&board)
        } else {
            squares(&board)
        };
        let board = if attention { Vec::new() } else { board };
        Outputs {
            policy: self.policy(&board, &tokens, policy),
            value: self.value(&board, &tokens, value),
            moves_left: (self.format.moves_left() == 1).then(|| self.moves_left(&board, &tokens)),
        }
    }

    fn act(&self, x: Vec<f32>) -> Vec<f32> {
        activate(x, self.default)
    }

    fn act_board(&self, x: Board) -> Board {
        x.into_iter().map(|channel| self.act(channel)).collect()
    }

    fn tower(&self, board: Board) -> Board {
        let mut x = self.act_board(conv(&board, &self.weights.input, 3));
        for block in &self.weights.residual {
            let y = self.act_board(conv(&x, &block.conv1, 3));
            let mut y = conv(&y, &block.conv2, 3);
            if let Some(se) = &block.se {
                let pooled: Vec<f32> = y.iter().map(|c| c.iter().sum::<f32>() / 64.0).collect();
                let hidden = self.act(dense(&pooled, &se.w1, &se.b1));
                let excited = dense(&hidden, &se.w2, &se.b2);
                let (gammas, betas) = excited.split_at(y.len());
                for (channel, (gamma, beta)) in y.iter_mut().zip(gammas.iter().zip(betas)) {
                    let scale = 1.0 / (1.0 + (-gamma).exp());
                    channel.iter_mut().for_each(|v| *v = scale * *v + beta);
                }
            }
            let add = |(a, b): (&Vec<f32>, Vec<f32>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
            x = self.act_board(x.iter().zip(y).map(add).collect());
        }
        x
    }

    fn attention_body(&self, board: &Board) -> Tokens {
        let w = self.weights;
        let mut x = squares(board);
        let epsilon = if self.format.input_embedding() == 2 {
            1e-3
        } else {
            1e-6
        };
        if w.residual.is_empty() && self.format.input_embedding() == 1 {
            add_reachable_squares(&mut x);
        }
        if w.residual.is_empty() && self.format.input_embedding() == 2 {
            let pieces: Vec<f32> = x.iter().flat_map(|token| token[..12].to_vec()).collect();
            let extra = dense(&pieces, &w.ip_emb_preproc_w, &w.ip_emb_preproc_b);
            for (token, extra) in x.iter_mut().zip(extra.chunks_exact(extra.len() / 64)) {
                token.extend(extra);
            }
        }
        x = each(&x, |token| self.act(dense(token, &w.ip_emb_w, &w.ip_emb_b)));
        if self.format.input_embedding() == 2 {
            x = each(&x, |token| {
                layer_norm(token, &w.ip_emb_ln_gammas, &w.ip_emb_ln_betas, 1e-3)
            });
        }
        for (gate, multiply) in [(&w.ip_mult_gate, true), (&w.ip_add_gate, false)] {
            let Some(gate) = gate.is_some().then(|| decode(gate)) else {
                continue;
            };
            for (square, token) in x.iter_mut().enumerate() {
                for (i, v) in token.iter_mut().enumerate() {
                    let g = gate[i * 64 + square];
                    *v = if multiply { *v * g } else { *v + g };
                }
            }
        }
        let alpha = (2.0 * w.encoder.len() as f32).powf(-0.25);
        if self.format.input_embedding() == 2 {
            let ffn = w.ip_emb_ffn.as_ref().unwrap();
            x = each(&x, |token| {
                let y = self.feed_forward(token, ffn, self.ffn_activation(self.default), alpha);
                layer_norm(&y, &w.ip_emb_ffn_ln_gammas, &w.ip_emb_ffn_ln_betas, 1e-3)
            });
        }
        for encoder in &w.encoder {
            x = self.encoder(
                &x,
                encoder,
                w.headcount() as usize,
                self.default,
                alpha,
                epsilon,
            );
        }
        x
    }

    fn ffn_activation(&self, default: i32) -> i32 {
        match self.format.ffn_activation() {
            0 => default,
            other => other,
        }
    }

    fn feed_forward(&self, x: &[f32], ffn: &proto::Ffn, activation: i32, alpha: f32) -> Vec<f32> {
        let hidden = activate(dense(x, &ffn.dense1_w, &ffn.dense1_b), activation);
        let y = dense(&hidden, &ffn.dense2_w, &ffn.dense2_b);
        x.iter().zip(y).map(|(x, y)| x + alpha * y).collect()
    }

    fn encoder(
        &self,
        x: &Tokens,
        encoder: &proto::EncoderLayer,
        heads: usize,
        activation: i32,
        alpha: f32,
        epsilon: f32,
    ) -> Tokens {
        let mha = encoder.mha.as_ref().unwrap();
        let q = each(x, |t| dense(t, &mha.q_w, &mha.q_b));
        let k = each(x, |t| dense(t, &mha.k_w, &mha.k_b));
        let v = each(x, |t| dense(t, &mha.v_w, &mha.v_b));
        let depth = q[0].len() / heads;
        let generated = mha
            .smolgen
            .as_ref()
            .map(|smolgen| self.smolgen(x, smolgen, heads));
        let mut mixed = vec![Vec::new(); 64];
        for head in 0..heads {
            let part = |t: &Vec<f32>| t[head * depth..][..depth].to_vec();
            for (i, query) in q.iter().enumerate() {
                let scores: Vec<f32> = k
                    .iter()
                    .enumerate()
                    .map(|(j, key)| {
                        let dot: f32 = part(query).iter().zip(part(key)).map(|(a, b)| a * b).sum();
                        let extra = generated.as_ref().map_or(0.0, |g| g[head][i * 64 + j]);
                        dot / (depth as f32).sqrt() + extra
                    })
                    .collect();
                let mut sum = vec![0.0; depth];
                for (share, value) in softmax(&scores).into_iter().zip(&v) {
                    sum.iter_mut()
                        .zip(part(value))
                        .for_each(|(s, v)| *s += share * v);
                }
                mixed[i].extend(sum);
            }
        }
        x.iter()
            .zip(&mixed)
            .map(|(x, mixed)| {
                let output = dense(mixed, &mha.dense_w, &mha.dense_b);
                let sum: Vec<f32> = x.iter().zip(output).map(|(x, y)| x + alpha * y).collect();
                let x = layer_norm(&sum, &encoder.ln1_gammas, &encoder.ln1_betas, epsilon);
                let ffn = encoder.ffn.as_ref().unwrap();
                let y = self.feed_forward(&x, ffn, self.ffn_activation(activation), alpha);
                layer_norm(&y, &encoder.ln2_gammas, &encoder.ln2_betas, epsilon)
            })
            .collect()
    }

    fn smolgen(&self, x: &Tokens, smolgen: &proto::ProtoSmolgen, heads: usize) -> Vec<Vec<f32>> {
        let activation = match self.format.smolgen_activation() {
            0 => self.default,
            other => other,
        };
        let compressed: Vec<f32> = x
            .iter()
            .flat_map(|t| dense(t, &smolgen.compress, &None))
            .collect();
        let y = activate(
            dense(&compressed, &smolgen.dense1_w, &smolgen.dense1_b),
            activation,
        );
        let y = layer_norm(&y, &smolgen.ln1_gammas, &smolgen.ln1_betas, 1e-3);
        let y = activate(dense(&y, &smolgen.dense2_w, &smolgen.dense2_b), activation);
        let y = layer_norm(&y, &smolgen.ln2_gammas, &smolgen.ln2_betas, 1e-3);
        y.chunks_exact(y.len() / heads)
            .map(|head| dense(head, &self.weights.smolgen_w, &None))
            .collect()
    }

    fn policy(&self, board: &Board, tokens: &Tokens, name: &str) -> Vec<f32> {
        let legacy = legacy_policy(self.weights);
        let head = match &self.weights.policy_heads {
            None => &legacy,
            Some(heads) => match name {
                "optimistic" => heads.optimistic_st.as_ref().unwrap(),
                "soft" => heads.soft.as_ref().unwrap(),
                "opponent" => heads.opponent.as_ref().unwrap(),
                _ => heads.vanilla.as_ref().unwrap(),
            },
        };
        match self.format.policy() {
            1 => {
                let y = self.act_board(conv(board, &head.policy, 1));
                dense(&y.concat(), &head.ip_pol_w, &head.ip_pol_b)
            }
            2 => {
                let y = self.act_board(conv(board, &head.policy1, 3));
                let y = conv(&y, &head.policy, 3);
                policy_list()
                    .iter()
                    .map(|mv| y[plane(mv)][usize::from(mv.from)])
                    .collect()
            }
            _ => self.attention_policy(tokens, head),
        }
    }

    fn attention_policy(&self, tokens: &Tokens, head: &proto::PolicyHead) -> Vec<f32> {
        let activation = if self.format.network() >= 6 {
            self.default
        } else {
            6
        };
        let epsilon = if self.format.input_embedding() == 2 {
            1e-3
        } else {
            1e-6
        };
        let mut x = each(tokens, |t| {
            activate(dense(t, &head.ip_pol_w, &head.ip_pol_b), activation)
        });
        for encoder in &head.pol_encoder {
            x = self.encoder(
                &x,
                encoder,
                head.pol_headcount() as usize,
                activation,
                1.0,
                epsilon,
            );
        }
        let q = each(&x, |t| dense(t, &head.ip2_pol_w, &head.ip2_pol_b));
        let k = each(&x, |t| dense(t, &head.ip3_pol_w, &head.ip3_pol_b));
        let score = |from: usize, to: usize| {
            let dot: f32 = q[from].iter().zip(&k[to]).map(|(a, b)| a * b).sum();
            dot / (q[0].len() as f32).sqrt()
        };
        policy_list()
            .iter()
            .map(|mv| {
                let (from, to) = (usize::from(mv.from), usize::from(mv.to));
                let Some(piece) = mv.promotion else {
                    return score(from, to);
                };
                let offsets = dense(&k[to], &head.ip4_pol_w, &None);
                let piece = match piece {
                    Promotion::Queen => 0,
                    Promotion::Rook => 1,
                    Promotion::Bishop => 2,
                };
                score(from, to) + offsets[piece] + offsets[3]
            })
            .collect()
    }

    fn value(&self, board: &Board, tokens: &Tokens, name: &str) -> Vec<f32> {
        let w = self.weights;
        let legacy = proto::ValueHead {
            value: w.value.clone(),
            ip_val_w: w.ip_val_w.clone(),
            ip_val_b: w.ip_val_b.clone(),
            ip1_val_w: w.ip1_val_w.clone(),
            ip1_val_b: w.ip1_val_b.clone(),
            ip2_val_w: w.ip2_val_w.clone(),
            ip2_val_b: w.ip2_val_b.clone(),
            ..Default::default()
        };
        let head = match &w.value_heads {
            None => &legacy,
            Some(heads) => match name {
                "q" => heads.q.as_ref().unwrap(),
                "st" => heads.st.as_ref().unwrap(),
                _ => heads.winner.as_ref().unwrap(),
            },
        };
        let narrow = self.narrow(board, tokens, &head.value, (&head.ip_val_w, &head.ip_val_b));
        let hidden = self.act(dense(&narrow, &head.ip1_val_w, &head.ip1_val_b));
        let y = dense(&hidden, &head.ip2_val_w, &head.ip2_val_b);
        if y.len() == 3 {
            softmax(&y)
        } else {
            vec![y[0].tanh()]
        }
    }

    fn moves_left(&self, board: &Board, tokens: &Tokens) -> f32 {
        let w = self.weights;
        let narrow = self.narrow(board, tokens, &w.moves_left, (&w.ip_mov_w, &w.ip_mov_b));
        let hidden = self.act(dense(&narrow, &w.ip1_mov_w, &w.ip1_mov_b));
        dense(&hidden, &w.ip2_mov_w, &w.ip2_mov_b)[0].max(0.0)
    }

    fn narrow(
        &self,
        board: &Board,
        tokens: &Tokens,
        block: &Option<proto::ConvBlock>,
        (weights, bias): (&Layer, &Layer),
    ) -> Vec<f32> {
        if board.is_empty() {
            each(tokens, |t| self.act(dense(t, weights, bias))).concat()
        } else {
            self.act_board(conv(board, block, 1)).concat()
        }
    }
}

/// Appends to each square's token which squares a piece may reach from it in one move (1), and itself (-1).
fn add_reachable_squares(x: &mut Tokens) {
    for (from, token) in x.iter_mut().enumerate() {
        token.extend((0..64).map(|to| {
            if is_reachable(from as u8, to) {
                1.0
            } else {
                -f32::from(u8::from(from == to as usize))
            }
        }));
    }
}

fn squares(board: &Board) -> Tokens {
    (0..64)
        .map(|square| board.iter().map(|channel| channel[square]).collect())
        .collect()
}

fn legacy_policy(w: &proto::Weights) -> proto::PolicyHead {
    proto::PolicyHead {
        ip_pol_w: w.ip_pol_w.clone(),
        ip_pol_b: w.ip_pol_b.clone(),
        ip2_pol_w: w.ip2_pol_w.clone(),
        ip2_pol_b: w.ip2_pol_b.clone(),
        ip3_pol_w: w.ip3_pol_w.clone(),
        ip3_pol_b: w.ip3_pol_b.clone(),
        ip4_pol_w: w.ip4_pol_w.clone(),
        pol_encoder: w.pol_encoder.clone(),
        pol_headcount: w.pol_headcount,
        policy1: w.policy1.clone(),
        policy: w.policy.clone(),
    }
}

/// The plane of a move in a convolutional policy: directions clockwise from ahead with distances 1 to 7, knight moves
/// clockwise, then promotions.
fn plane(mv: &scorn::lc0::policy_list::PolicyMove) -> usize {
    let (files, ranks) = (
        i32::from(mv.to % 8) - i32::from(mv.from % 8),
        i32::from(mv.to / 8) - i32::from(mv.from / 8),
    );
    if let Some(piece) = mv.promotion {
        let piece = match piece {
            Promotion::Rook => 0,
            Promotion::Bishop => 1,
            Promotion::Queen => 2,
        };
        return 64 + 3 * (files + 1) as usize + piece;
    }
    // The angle in eighths of a turn, clockwise from straight ahead.
    let angle = f64::from(files)
        .atan2(f64::from(ranks))
        .rem_euclid(std::f64::consts::TAU);
    let eighths = angle / std::f64::consts::TAU * 8.0;
    if (files * ranks).abs() == 2 {
        56 + eighths.floor() as usize
    } else {
        7 * (eighths.round() as usize % 8) + files.abs().max(ranks.abs()) as usize - 1
    }
}
