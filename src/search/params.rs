//! Everything that a search reads from the options, and what follows from it for the network in use. The rest of the
//! search does not depend on the table of options: it reads [`SearchOptions`], which are part of a
//! [`Job`](super::job::Job), and [`SearchParams`].

use std::ops::RangeInclusive;

use shakmaty::Color;

use super::{batch_plan::BatchPlan, tree::node::Node};
use crate::{
    network::{Advice, Evaluator, Info},
    options::{FpuStrategy, FpuStrategyAtRoot, SearchOptions},
};

/// lc0's growing exploration constant: c(N) = init + factor * ln((N + base) / base).
#[derive(Clone, Debug)]
pub(super) struct Cpuct {
    init: f32,
    base: f32,
    factor: f32,
    /// The factors of U in small nodes, which are the most frequent: a logarithm and a root would dominate the
    /// computation.
    small: Vec<f32>,
}

impl Cpuct {
    /// Nodes with fewer visits than this use the table.
    const SMALL: u32 = 1024;

    fn new(init: f32, base: f32, factor: f32) -> Cpuct {
        let mut cpuct = Cpuct {
            init,
            base,
            factor,
            small: Vec::new(),
        };
        cpuct.small = (0..Cpuct::SMALL).map(|n| cpuct.compute(n)).collect();
        cpuct
    }

    /// c(N) for a node with `n` visits.
    fn at(&self, n: u32) -> f32 {
        self.init + self.factor * ((n as f32 + self.base) / self.base).ln()
    }

    fn compute(&self, n: u32) -> f32 {
        let visits_of_children = n.saturating_sub(1).max(1);
        self.at(n) * (visits_of_children as f32).sqrt()
    }

    /// The factor of U in a node of `n` visits: c(N) times the root of its children's visits (at least 1).
    #[inline]
    pub fn exploration(&self, n: u32) -> f32 {
        match self.small.get(n as usize) {
            Some(&known) => known,
            None => self.compute(n),
        }
    }
}

/// First-play urgency: the value of an unvisited move.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fpu {
    /// The parent's Q, reduced by this times the root of the visited moves' prior mass.
    Reduction(f32),
    /// A fixed value.
    Absolute(f32),
}

impl Fpu {
    /// The value, given the parent's Q for the side to move and the prior mass of its visited moves.
    #[inline]
    pub fn value(self, parent_q: f32, visited_mass: f32) -> f32 {
        match self {
            Fpu::Reduction(reduction) => parent_q - reduction * visited_mass.sqrt(),
            Fpu::Absolute(value) => value,
        }
    }
}

/// The bonus for short wins and long losses, in terms of the moves-left head (lc0's MLH utility).
#[derive(Clone, Copy, Debug)]
pub(super) struct MovesLeft {
    max_effect: f32,
    threshold: f32,
    slope: f32,
    factors: [f32; 3],
}

impl MovesLeft {
    fn new(options: &SearchOptions) -> MovesLeft {
        MovesLeft {
            max_effect: options.moves_left_max_effect(),
            threshold: options.moves_left_threshold(),
            slope: options.moves_left_slope(),
            factors: [
                options.moves_left_constant_factor(),
                options.moves_left_scaled_factor(),
                options.moves_left_quadratic_factor(),
            ],
        }
    }

    /// Whether it applies at a node with this W-L, whichever side sees it. As in lc0, draws count as nothing here,
    /// whatever `DrawScore` is.
    #[inline]
    pub fn is_active(&self, wl: f64) -> bool {
        wl.abs() as f32 > self.threshold
    }

    /// The bonus of a child with value `q` whose game lasts `delta` plies longer than the parent's.
    #[inline]
    pub fn utility(&self, q: f32, delta: f32) -> f32 {
        let effect = (self.slope * delta).clamp(-self.max_effect, self.max_effect);
        let x = ((q.abs() - self.threshold) / (1.0 - self.threshold)).max(0.0);
        let [constant, scaled, quadratic] = self.factors;
        let sign = if q > 0.0 { -1.0 } else { 1.0 };
        effect * sign * (constant + x * (scaled + x * quadratic))
    }
}

/// Moving-average Q (Videodr0me, after Gudmundsson and Bjornsson 2011).
#[derive(Clone, Copy, Debug)]
pub(super) struct MovingAverage {
    beta: f64,
    gamma: f64,
}

impl MovingAverage {
    /// From the options; `None` if Q is the plain mean.
    fn new(options: &SearchOptions) -> Option<MovingAverage> {
        let (beta, gamma) = (options.backpropagate_beta(), options.backpropagate_gamma());
        (beta != 1.0 || gamma != 1.0).then(|| MovingAverage {
            beta: beta.into(),
            gamma: gamma.into(),
        })
    }

    /// The weight of the `n`-th visit (from 1). The first one always sets Q.
    pub fn share(self, n: u32) -> f64 {
        let before = f64::from(n - 1);
        if before == 0.0 {
            return 1.0;
        }
        1.0 / (self.beta * before.powf(self.gamma) + 1.0)
    }
}

/// The parameters of a search with one network. Created once for a set of options, and shared by many searches.
#[derive(Clone, Debug)]
pub struct SearchParams {
    /// Options that are used directly.
    pub(super) options: SearchOptions,
    cpuct: Cpuct,
    cpuct_at_root: Cpuct,
    fpu: Fpu,
    fpu_at_root: Fpu,
    /// `None` for networks without a moves-left head.
    pub(super) moves_left: Option<MovesLeft>,
    /// Minimum visits before a node's priors are refined; the maximum if no network refines them.
    refine_at: u32,
    /// How Q follows the visits, unless it is their mean.
    pub(super) moving_average: Option<MovingAverage>,
    /// Added to the priors at the root; one ply below [`SearchParams::prior_bonus_below`] it, and so on (optimal
    /// selection).
    pub(super) root_prior_bonus: f32,
    /// Positions per batch.
    batches: BatchPlan,
    /// Whether the network evaluates positions one by one, so that a batch need not be full.
    computes_at_once: bool,
    /// Search threads, each with a batch of its own.
    threads: usize,
}

/// `OptimalSelect` adds this to the priors at the root, and on each further ply this part of what it adds on the ply
/// above.
const PRIOR_BONUS: f32 = 0.125;

/// A node may have one visit in flight per this many visits: they are selected without each other's results.
const VISITS_PER_FLIGHT: u32 = 8;

/// The same limit for networks of which it is not known how long their batches take.
const VISITS_PER_UNTIMED_FLIGHT: u32 = 32;

/// The largest batch of many threads with a network that needs no batches: passes of so many visits take the owner of
/// the tree half of the time of passes of 16.
const MAX_BATCH_OF_MANY_THREADS: usize = 64;

/// From so many threads on the owner of the tree is busy enough for larger batches to be of use.
const MANY_THREADS: usize = 4;

/// Their batches grow so many times as slowly with the tree as others: with one position in flight for 32 visits, eight
/// threads chose moves at 6400 nodes as badly as one thread does at 4800 (`docs/lab/driver.md`).
const SLOWNESS_OF_MANY_THREADS: usize = 4;

/// The most visits of a batch that need no evaluation. They take some microseconds each, and no limit is checked
/// meanwhile.
const MOST_OUT_OF_ORDER: usize = 8192;

/// Number of visits of the root per position that waits to be refined together with others.
const VISITS_PER_REFINED: u32 = 1024;

/// Maximum number of positions that are refined together; more gain little. Measured in `docs/lab/cpu-kernels.md`.
const MAX_REFINED: u32 = 8;

impl SearchParams {
    /// Whether a node's priors are to be refined. Those of frozen replies have no effect any more.
    #[inline]
    pub(super) fn needs_refinement(&self, node: &Node) -> bool {
        node.n >= self.refine_at && !node.is_refined() && !node.has_record()
    }

    /// How many positions are refined together in a tree of `n` visits: the next one is due after about
    /// `RefineVisits` visits of the tree, so with the default a position waits for at most a seventh of them.
    pub(super) fn refined_together(&self, n: u32) -> usize {
        (n / VISITS_PER_REFINED).clamp(1, MAX_REFINED) as usize
    }

    /// Whether a tree of this many visits can have nodes whose priors are to be refined.
    pub(super) fn may_refine(&self, visits: u64) -> bool {
        visits >= u64::from(self.refine_at)
    }

    /// Parameters from the options. If these set no batch size, batches grow with the tree as the evaluator
    /// recommends.
    pub fn for_evaluator(options: &SearchOptions, evaluator: &dyn Evaluator) -> SearchParams {
        let Info {
            advice,
            max_threads,
            batch_times,
            computes_at_once,
            ..
        } = evaluator.info();
        let Advice {
            threads,
            minibatch,
            min_batch,
        } = advice;
        let largest = minibatch.max(1);
        let threads = match options.threads() {
            0 => threads.max(1),
            given => given.min(max_threads.unwrap_or(given)).max(1),
        };
        let (largest, slowness) = if computes_at_once && threads >= MANY_THREADS {
            let largest = largest.max(MAX_BATCH_OF_MANY_THREADS);
            (largest, SLOWNESS_OF_MANY_THREADS)
        } else {
            (largest, 1)
        };
        let batches = match (options.minibatch_size(), batch_times) {
            (0, Some(times)) => BatchPlan::for_times(&times, threads),
            (0, None) => {
                let sizes = min_batch.clamp(1, largest)..=largest;
                BatchPlan::even(sizes, threads * slowness)
            }
            (size, _) => BatchPlan::fixed(size),
        };
        SearchParams {
            threads,
            ..SearchParams::with_plan(batches, options, evaluator)
        }
    }

    /// Parameters for one of many trees, whose positions fill batches together: if the options set no batch size, a
    /// tree adds one position at a time.
    pub fn for_shared_batches(options: &SearchOptions, evaluator: &dyn Evaluator) -> SearchParams {
        SearchParams::with_batches(1..=1, options, evaluator)
    }

    /// Parameters for one thread. If the options set no batch size, these sizes are used.
    fn with_batches(
        sizes: RangeInclusive<usize>,
        options: &SearchOptions,
        evaluator: &dyn Evaluator,
    ) -> SearchParams {
        let batches = match options.minibatch_size() {
            0 => BatchPlan::even(sizes, 1),
            size => BatchPlan::fixed(size),
        };
        SearchParams::with_plan(batches, options, evaluator)
    }

    /// Parameters for one thread with these batches.
    fn with_plan(
        batches: BatchPlan,
        options: &SearchOptions,
        evaluator: &dyn Evaluator,
    ) -> SearchParams {
        SearchParams {
            batches,
            computes_at_once: evaluator.info().computes_at_once,
            refine_at: match evaluator.refiner() {
                Some(_) => options.refine_visits(),
                None => u32::MAX,
            },
            ..SearchParams::new(options, 1, evaluator.view().moves_left)
        }
    }

    /// Parameters for batches of a fixed size; `predicts_moves_left` describes the network.
    pub fn new(
        options: &SearchOptions,
        minibatch: usize,
        predicts_moves_left: bool,
    ) -> SearchParams {
        let cpuct = Cpuct::new(
            options.cpuct(),
            options.cpuct_base(),
            options.cpuct_factor(),
        );
        let cpuct_at_root = if options.root_has_own_cpuct_params() {
            Cpuct::new(
                options.cpuct_at_root(),
                options.cpuct_base_at_root(),
                options.cpuct_factor_at_root(),
            )
        } else {
            cpuct.clone()
        };
        let fpu = match options.fpu_strategy() {
            FpuStrategy::Reduction => Fpu::Reduction(options.fpu_value()),
            FpuStrategy::Absolute => Fpu::Absolute(options.fpu_value()),
        };
        let fpu_at_root = match options.fpu_strategy_at_root() {
            FpuStrategyAtRoot::Same => fpu,
            FpuStrategyAtRoot::Reduction => Fpu::Reduction(options.fpu_value_at_root()),
            FpuStrategyAtRoot::Absolute => Fpu::Absolute(options.fpu_value_at_root()),
        };
        SearchParams {
            cpuct,
            cpuct_at_root,
            fpu,
            fpu_at_root,
            moves_left: predicts_moves_left.then(|| MovesLeft::new(options)),
            refine_at: u32::MAX,
            moving_average: MovingAverage::new(options),
            root_prior_bonus: match options.optimal_select() {
                0 => 0.0,
                _ => PRIOR_BONUS,
            },
            batches: BatchPlan::fixed(minibatch),
            computes_at_once: false,
            threads: 1,
            options: options.clone(),
        }
    }

    /// With tablebases for a fallible opponent: draws with fewer pieces than this raise a leaf's value.
    pub(super) fn contempt_pieces(&self) -> Option<usize> {
        Some(self.options.contempt_mode_tb()).filter(|&pieces| pieces > 0)
    }

    /// Whether a proof may prove the positions before it.
    #[inline]
    pub(super) fn propagates_proofs(&self) -> bool {
        self.options.sticky_endgames() || self.looks_ahead()
    }

    /// Whether a new position's moves are checked for mates and draws.
    #[inline]
    pub(super) fn looks_ahead(&self) -> bool {
        self.options.certainty_prop() > 0
    }

    /// Whether visits avoid moves that are proven lost.
    #[inline]
    pub(super) fn avoids_losses(&self) -> bool {
        self.options.certainty_prop() >= 2
    }

    /// Maximum number of visits in flight through a node of `n` visits; unlimited if the batch size is fixed.
    #[inline]
    pub(super) fn max_in_flight(&self, n: u32) -> u32 {
        if !self.batches.grows() {
            return u32::MAX;
        }
        let visits = if self.computes_at_once || self.batches.is_timed() {
            VISITS_PER_FLIGHT
        } else {
            VISITS_PER_UNTIMED_FLIGHT
        };
        (n / visits).max((self.batches.smallest() * self.threads) as u32)
    }

    /// Search threads, from the options or as the evaluator recommends.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// What is added to the priors of moves this many plies below the root.
    pub(super) fn prior_bonus(&self, depth: usize) -> f32 {
        self.root_prior_bonus * PRIOR_BONUS.powi(depth.min(100) as i32)
    }

    /// What is added one ply below moves to whose priors this is added.
    #[inline]
    pub(super) fn prior_bonus_below(bonus: f32) -> f32 {
        PRIOR_BONUS * bonus
    }

    /// Whether positions are evaluated at once, in microseconds.
    pub(super) fn computes_at_once(&self) -> bool {
        self.computes_at_once
    }

    /// Positions per batch in a tree of `n` visits.
    #[inline]
    pub(super) fn minibatch(&self, n: u32) -> usize {
        self.batches.size(n)
    }

    /// Out-of-order visits in a batch of this size: not so many that the limits would be seen late.
    #[inline]
    pub(super) fn max_out_of_order(&self, minibatch: usize) -> usize {
        let wanted = (self.options.max_out_of_order_evals_factor() * minibatch as f32) as usize;
        wanted.clamp(1, MOST_OUT_OF_ORDER)
    }

    /// The exploration constant's parameters.
    #[inline]
    pub(super) fn cpuct(&self) -> &Cpuct {
        &self.cpuct
    }

    /// The same at the root.
    #[inline]
    pub(super) fn cpuct_at_root(&self) -> &Cpuct {
        &self.cpuct_at_root
    }

    /// First-play urgency.
    #[inline]
    pub(super) fn fpu(&self) -> Fpu {
        self.fpu
    }

    /// The same at the root.
    #[inline]
    pub(super) fn fpu_at_root(&self) -> Fpu {
        self.fpu_at_root
    }

    /// Collisions after which gathering a batch of this size ends, in a tree of `n` visits: few while the tree is
    /// small and a full batch would search bad moves. If a batch need not be full, at most as many as it has
    /// positions.
    pub(super) fn collisions(&self, n: u32, minibatch: usize) -> usize {
        let most = if self.computes_at_once {
            minibatch
        } else {
            usize::MAX
        };
        let events = self.options.max_collision_events();
        if most == 1 {
            // An early exit, because this is called for every visit.
            return events.min(1);
        }
        let start = f64::from(self.options.max_collision_visits_scaling_start());
        let end = f64::from(self.options.max_collision_visits_scaling_end());
        let power = f64::from(self.options.max_collision_visits_scaling_power());
        let visits = f64::from(self.options.max_collision_visits());
        let grown = ((f64::from(n) - start) / (end - start).max(1.0)).clamp(0.0, 1.0);
        let scaled = 1.0 + grown.powf(power) * (visits - 1.0).max(0.0);
        (scaled as usize).min(events).min(most)
    }

    /// The value of a draw for `side`.
    #[inline]
    pub(super) fn draw_score(&self, side: Color) -> f32 {
        self.options.draw_score_for(side)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        network::{
            Batch, EvaluateError, Info, backend::simulated::SimulatedProcessors,
            hash::HashEvaluator,
        },
        options::Options,
    };

    #[test]
    fn cpuct_grows_with_visits_and_a_zero_factor_keeps_it() {
        let options = Options::default();
        let params = SearchParams::new(&options.search(), 1, false);
        assert!((params.cpuct().at(0) - 1.745).abs() < 1e-6);
        // 1.745 + 3.894 * ln(2)
        assert!((params.cpuct_at_root().at(38739) - 4.444_115).abs() < 1e-4);
        let constant = Options {
            cpuct_factor: 0.0,
            ..options
        };
        assert_eq!(
            SearchParams::new(&constant.search(), 1, false)
                .cpuct()
                .at(1_000_000),
            1.745
        );
    }

    /// An evaluator that needs no batches.
    struct AtOnce;

    impl Evaluator for AtOnce {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            HashEvaluator.evaluate(batch)
        }

        fn info(&self) -> Info {
            Info {
                computes_at_once: true,
                ..Info::default()
            }
        }
    }

    #[test]
    fn batches_grow_with_the_tree_unless_their_size_is_given() {
        let given = |minibatch_size| {
            let options = Options {
                minibatch_size,
                ..Options::default()
            };
            options.search()
        };
        let grown = SearchParams::with_batches(1..=8, &given(0), &HashEvaluator);
        assert_eq!(
            [0, 1, 63, 64, 200, 256, 1_000_000].map(|n| grown.minibatch(n)),
            [1, 1, 1, 2, 6, 8, 8]
        );
        assert_eq!([0, 64, 3200].map(|n| grown.max_in_flight(n)), [1, 2, 100]);
        assert!(grown.collisions(1_000_000, 8) > 100);
        // If a batch need not be full, few collisions are allowed, and more visits may be in flight.
        let immediate = SearchParams::with_batches(1..=8, &given(0), &AtOnce);
        assert_eq!([64, 1_000_000].map(|n| immediate.minibatch(n)), [2, 8]);
        assert_eq!(
            [7, 64, 3200].map(|n| immediate.max_in_flight(n)),
            [1, 8, 400]
        );
        assert_eq!(
            [1, 8].map(|size| immediate.collisions(1_000_000, size)),
            [1, 8]
        );
        let alone = SearchParams::with_batches(1..=8, &given(1), &AtOnce);
        assert_eq!(alone.collisions(1_000_000, 1), 1);
        let fixed = SearchParams::with_batches(1..=8, &given(32), &HashEvaluator);
        assert_eq!([0, 1000].map(|n| fixed.minibatch(n)), [32, 32]);
        assert_eq!(fixed.max_in_flight(0), u32::MAX);
        // The hash evaluator does not need to begin with small batches.
        let usual = SearchParams::for_evaluator(&given(0), &HashEvaluator);
        assert_eq!([0, 1000].map(|n| usual.minibatch(n)), [256, 256]);
        assert_eq!([1, 8].map(|size| fixed.max_out_of_order(size)), [2, 19]);
        // Many threads that need no batches have more and smaller ones in a small tree, and large ones in a large tree.
        let sizes = [2, 8].map(|threads| {
            let options = Options {
                threads,
                ..Options::default()
            };
            let processors = SimulatedProcessors(Duration::ZERO);
            let params = SearchParams::for_evaluator(&options.search(), &processors);
            [100, 6400, 1_000_000].map(|n| params.minibatch(n))
        });
        assert_eq!(sizes, [[1, 16, 16], [1, 6, 64]]);
    }

    #[test]
    fn moves_left_prefers_short_wins_and_long_losses() {
        let params = SearchParams::new(&Options::default().search(), 1, true);
        let moves_left = params.moves_left.unwrap();
        assert!(moves_left.is_active(0.9) && !moves_left.is_active(0.5));
        assert!(moves_left.utility(0.95, -10.0) > 0.0 && moves_left.utility(0.95, 10.0) < 0.0);
        assert!(moves_left.utility(-0.95, 10.0) > 0.0 && moves_left.utility(-0.95, -10.0) < 0.0);
        // slope * 1000 is clamped to 0.0345, and at |q| = 1 the factors sum to 1.
        assert!((moves_left.utility(1.0, -1000.0) - 0.0345).abs() < 1e-6);
    }
}
