//! The root's moves as one search sees them: those it may play, with Dirichlet noise in their priors if so wished
//! (AlphaZero's exploration in self-play).

use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Gamma};

use super::tree::Tree;
use crate::{chess::PackedMove, options::Options};

/// The root's moves as one search sees them: those it may play, with noise in their priors if so wished.
#[derive(Clone, Debug, Default)]
pub(super) struct RootMoves(Vec<(u8, f32)>);

impl RootMoves {
    /// Takes the root's edges, keeps those in `wanted` (all, if that is empty) and mixes Dirichlet noise into the priors.
    pub fn new(
        tree: &Tree,
        wanted: &[PackedMove],
        options: &Options,
        rng: &mut Xoshiro256PlusPlus,
    ) -> RootMoves {
        let edges = tree.edges(tree.node(tree.root())).iter().enumerate();
        let mut moves: Vec<(u8, f32)> = edges
            .filter(|(_, edge)| wanted.is_empty() || wanted.contains(&edge.m()))
            .map(|(index, edge)| (index as u8, edge.p()))
            .collect();
        let epsilon = options.noise_epsilon;
        if epsilon > 0.0 && !moves.is_empty() {
            let noise = dirichlet(moves.len(), options.noise_alpha, rng);
            for ((_, p), noise) in moves.iter_mut().zip(noise) {
                *p += epsilon * (noise - *p);
            }
        }
        RootMoves(moves)
    }

    /// The allowed edges and their priors.
    pub fn allowed(&self) -> impl Iterator<Item = (u8, f32)> {
        self.0.iter().copied()
    }

    /// How many moves are allowed.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A draw from the symmetric Dirichlet distribution.
fn dirichlet(len: usize, alpha: f32, rng: &mut Xoshiro256PlusPlus) -> Vec<f32> {
    let uniform = vec![1.0 / len as f32; len];
    // Alpha 0 (or a NaN) has no distribution; all of its limits are as good as this one.
    let Ok(gamma) = Gamma::new(alpha, 1.0) else {
        return uniform;
    };
    let draws: Vec<f32> = (0..len).map(|_| gamma.sample(rng)).collect();
    let sum: f32 = draws.iter().sum();
    if sum > f32::MIN_POSITIVE {
        draws.iter().map(|draw| draw / sum).collect()
    } else {
        uniform
    }
}
