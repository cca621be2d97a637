//! The root moves that one search may play, with optional Dirichlet noise in their priors (AlphaZero's exploration in
//! self-play).

use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Gamma};

use super::tree::{Tree, node::Node};
use crate::{chess::PackedMove, options::SearchOptions};

/// The root moves that one search may play, with optional noise in their priors.
#[derive(Clone, Debug, Default)]
pub(super) struct RootMoves {
    moves: Vec<(u8, f32)>,
    /// The share of noise in the priors.
    noise: f32,
}

impl RootMoves {
    /// The root's edges that are in `allowed` (all, if that is empty), with Dirichlet noise mixed into the priors.
    pub fn new(
        tree: &Tree,
        allowed_moves: &[PackedMove],
        options: &SearchOptions,
        rng: &mut Xoshiro256PlusPlus,
    ) -> RootMoves {
        let edges = tree.edges(tree.node(tree.root())).iter().enumerate();
        let mut moves: Vec<(u8, f32)> = edges
            .filter(|(_, edge)| allowed_moves.is_empty() || allowed_moves.contains(&edge.m()))
            .map(|(index, edge)| (index as u8, edge.p()))
            .collect();
        let epsilon = options.noise_epsilon();
        if epsilon > 0.0 && !moves.is_empty() {
            let noise = dirichlet(moves.len(), options.noise_alpha(), rng);
            for ((_, p), noise) in moves.iter_mut().zip(noise) {
                *p += epsilon * (noise - *p);
            }
        }
        RootMoves {
            moves,
            noise: epsilon,
        }
    }

    /// Adds `change` to the prior of each edge after a refinement; the noise stays.
    pub fn add_to_priors(&mut self, change: impl Fn(u8) -> f32) {
        for (edge, p) in &mut self.moves {
            *p += (1.0 - self.noise) * change(*edge);
        }
    }

    /// The allowed edges and their priors.
    pub fn allowed(&self) -> impl Iterator<Item = (u8, f32)> {
        self.moves.iter().copied()
    }

    /// How many moves are allowed.
    pub fn len(&self) -> usize {
        self.moves.len()
    }
}

/// A draw from the symmetric Dirichlet distribution.
fn dirichlet(len: usize, alpha: f32, rng: &mut Xoshiro256PlusPlus) -> Vec<f32> {
    let uniform = vec![1.0 / len as f32; len];
    // Alpha 0 (or NaN) has no distribution; the uniform one is as good as any.
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

/// A root move with its child's statistics ([`Node::EMPTY`] if it was never visited).
#[derive(Clone, Copy, Debug)]
pub(super) struct RootMove {
    pub edge: u8,
    pub m: PackedMove,
    pub p: f32,
    pub child: Node,
}

impl RootMove {
    /// The root move of an edge, with this prior.
    pub fn of(tree: &Tree, edge: u8, p: f32) -> RootMove {
        let root = tree.node(tree.root);
        let slot = tree.slot_of_edge(root, edge);
        RootMove {
            edge,
            m: tree.edges(root).at(edge).m(),
            p,
            child: slot.map_or(Node::EMPTY, |slot| tree.children(root)[usize::from(slot)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::{options::Options, search::tree::node::Node};

    /// The priors of five root moves with priors of 0.1, after mixing.
    fn priors(epsilon: f32, alpha: f32, seed: u64) -> Vec<f32> {
        let tree = Tree::with_children(&[Node::EMPTY; 5]);
        let options = Options {
            noise_epsilon: epsilon,
            noise_alpha: alpha,
            ..Options::default()
        };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let moves = RootMoves::new(&tree, &[], &options.search(), &mut rng);
        assert!(moves.allowed().map(|(edge, _)| edge).eq(0..5));
        moves.allowed().map(|(_, p)| p).collect()
    }

    #[test]
    fn noise_is_mixed_in_by_its_share() {
        let plain = priors(0.0, 0.3, 1);
        assert!(plain.iter().all(|p| (p - 0.1).abs() < 1e-3), "{plain:?}");
        let noise = priors(1.0, 0.3, 1);
        assert!((noise.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        for (mixed, (p, noise)) in priors(0.25, 0.3, 1).iter().zip(plain.iter().zip(&noise)) {
            assert!((mixed - (0.75 * p + 0.25 * noise)).abs() < 1e-6);
        }
    }

    #[test]
    fn refined_priors_keep_their_noise() {
        let tree = Tree::with_children(&[Node::EMPTY; 5]);
        let options = Options {
            noise_epsilon: 0.25,
            ..Options::default()
        };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut moves = RootMoves::new(&tree, &[], &options.search(), &mut rng);
        let before: Vec<f32> = moves.allowed().map(|(_, p)| p).collect();
        moves.add_to_priors(|edge| if edge == 3 { 0.4 } else { -0.1 });
        for ((edge, p), before) in moves.allowed().zip(before) {
            let change = if edge == 3 { 0.3 } else { -0.075 };
            assert!((p - before - change).abs() < 1e-6);
        }
    }

    #[test]
    fn the_seed_decides_the_noise() {
        assert_eq!(priors(0.25, 0.3, 1), priors(0.25, 0.3, 1));
        assert_ne!(priors(0.25, 0.3, 1), priors(0.25, 0.3, 2));
        assert_eq!(priors(0.0, 0.3, 1), priors(0.0, 0.3, 2));
    }

    #[test]
    fn mean_and_variance_are_those_of_the_dirichlet_distribution() {
        const DRAWS: u32 = 4000;
        for alpha in [0.03, 0.3, 3.0] {
            let (mut sum, mut squares) = ([0.0; 5], 0.0);
            for seed in 0..DRAWS {
                for (sum, p) in sum.iter_mut().zip(priors(1.0, alpha, u64::from(seed))) {
                    assert!((0.0..=1.0).contains(&p));
                    *sum += f64::from(p);
                    squares += f64::from(p - 0.2).powi(2);
                }
            }
            // Of five: a fifth each, with variance 1/5 * 4/5 / (5 alpha + 1).
            let variance = 0.16 / (5.0 * f64::from(alpha) + 1.0);
            let deviation = (variance / f64::from(DRAWS)).sqrt();
            for sum in sum {
                let mean = sum / f64::from(DRAWS);
                assert!(
                    (mean - 0.2).abs() < 5.0 * deviation,
                    "alpha {alpha}: {mean}"
                );
            }
            let found = squares / f64::from(5 * DRAWS);
            assert!(
                (found / variance - 1.0).abs() < 0.1,
                "alpha {alpha}: {found}"
            );
        }
    }

    #[test]
    fn without_concentration_the_noise_is_even() {
        assert!(priors(1.0, 0.0, 1).iter().all(|p| (p - 0.2).abs() < 1e-6));
    }

    #[test]
    fn only_allowed_moves_get_noise() {
        let tree = Tree::with_children(&[Node::EMPTY; 5]);
        let root = tree.edges(tree.node(tree.root()));
        let options = Options {
            noise_epsilon: 1.0,
            ..Options::default()
        };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let allowed_moves = [root.at(3).m(), root.at(1).m()];
        let moves = RootMoves::new(&tree, &allowed_moves, &options.search(), &mut rng);
        assert_eq!(moves.len(), 2);
        assert!(moves.allowed().map(|(edge, _)| edge).eq([1, 3]));
        assert!((moves.allowed().map(|(_, p)| p).sum::<f32>() - 1.0).abs() < 1e-5);
    }
}
