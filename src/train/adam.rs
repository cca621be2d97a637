//! The optimizer: AdamW (Loshchilov and Hutter 2019), skipping weights that a batch did not touch, and the averaged
//! weights.
//!
//! Most rows of a sparse network have no gradient in a batch, so their moments would only decay. Skipping them, sixteen
//! weights at a time, saves most of the work and memory traffic. Weights are clamped to the range of their integers.

use parking_lot::Mutex;

use crate::sparse::network::Sections;
use crate::sparse::simd::{Isa, Kernel, Level};

/// Decay of the first moment. This and the next two are as Kingma and Ba 2015 recommend for Adam.
const BETA1: f32 = 0.9;
/// Decay of the second moment.
const BETA2: f32 = 0.999;
/// Added to the root of the second moment, so that nothing is divided by 0.
const EPSILON: f32 = 1e-8;
/// Default weight decay, multiplied by the learning rate.
pub const WEIGHT_DECAY: f64 = 0.01;
/// Number of weights that are skipped or updated together.
const GROUP: usize = 16;

/// What one optimizer step needs besides the gradients.
#[derive(Clone, Copy, Debug)]
pub struct AdamWStep {
    /// The learning rate.
    pub rate: f32,
    /// Decoupled weight decay of the weights that the batch touched, multiplied by the learning rate.
    pub weight_decay: f32,
    /// The number of the step, counted from 1.
    pub number: u64,
}

/// The weights with their optimizer moments and averages.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// The weights.
    pub weights: Vec<f32>,
    /// First moment: exponential mean of the gradient.
    pub first: Vec<f32>,
    /// Second moment: exponential mean of its square.
    pub second: Vec<f32>,
    /// Exponential average of the weights.
    pub average: Vec<f32>,
}

impl Moments {
    /// The state at the start of a run: moments of 0, averages equal to the weights.
    pub fn new(weights: Vec<f32>) -> Moments {
        Moments {
            first: vec![0.0; weights.len()],
            second: vec![0.0; weights.len()],
            average: weights.clone(),
            weights,
        }
    }

    /// One optimizer step with the sum of the threads' gradients; sets the gradients to 0.
    pub fn update(
        &mut self,
        level: Level,
        sections: &Sections,
        gradients: &mut [Vec<f32>],
        step: AdamWStep,
    ) {
        let corrections = Corrections::at(step.number);
        // Each thread updates a part of every section. Parts consist of whole groups.
        let threads = gradients.len();
        let mut state = Parts {
            weights: &mut self.weights,
            first: &mut self.first,
            second: &mut self.second,
            gradients: gradients.iter_mut().map(|all| &mut all[..]).collect(),
        };
        let mut tasks: Vec<Vec<Update<'_>>> = (0..threads).map(|_| Vec::new()).collect();
        for section in sections.all() {
            let part = section
                .range
                .len()
                .div_ceil(threads)
                .next_multiple_of(GROUP);
            let mut left = section.range.len();
            for task in &mut tasks {
                let parts = state.split_off(part.min(left));
                left -= parts.weights.len();
                task.push(Update {
                    parts,
                    step,
                    limit: section.limit,
                    corrections,
                });
            }
        }
        // Where the system refuses a thread, the others do its work.
        let tasks = Mutex::new(tasks);
        let work = || {
            while let Some(task) = { tasks.lock().pop() } {
                task.into_iter().for_each(|update| level.run(update));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                let _ = crate::threads::spawn_scoped(scope, "update", work);
            }
            work();
        });
    }

    /// Moves the averages towards the weights by this share of the difference.
    pub fn average_in(&mut self, level: Level, share: f32) {
        level.run(Average {
            average: &mut self.average,
            weights: &self.weights,
            share,
        });
    }
}

/// Bias corrections: moments start at 0.
#[derive(Clone, Copy)]
struct Corrections {
    first: f32,
    second: f32,
}

impl Corrections {
    fn at(step: u64) -> Corrections {
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        Corrections {
            first: 1.0 / (1.0 - BETA1.powi(step)),
            second: 1.0 / (1.0 - BETA2.powi(step)),
        }
    }
}

struct Parts<'a> {
    weights: &'a mut [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    gradients: Vec<&'a mut [f32]>,
}

impl<'a> Parts<'a> {
    /// Splits off the first `len` elements of each slice.
    fn split_off(&mut self, len: usize) -> Parts<'a> {
        let take = |slice: &mut &'a mut [f32]| {
            let (head, rest) = std::mem::take(slice).split_at_mut(len);
            *slice = rest;
            head
        };
        Parts {
            weights: take(&mut self.weights),
            first: take(&mut self.first),
            second: take(&mut self.second),
            gradients: self.gradients.iter_mut().map(take).collect(),
        }
    }
}

struct Update<'a> {
    parts: Parts<'a>,
    step: AdamWStep,
    limit: f32,
    corrections: Corrections,
}

impl Kernel for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self, _: I) {
        let whole = self.parts.weights.len() / GROUP * GROUP;
        for start in (0..whole).step_by(GROUP) {
            self.group::<GROUP>(start);
        }
        for at in whole..self.parts.weights.len() {
            self.group::<1>(at);
        }
    }
}

impl Update<'_> {
    #[inline(always)]
    fn group<const N: usize>(&mut self, start: usize) {
        let mut gradient = [0.0; N];
        for part in &mut self.parts.gradients {
            for (sum, value) in gradient.iter_mut().zip(&part[start..start + N]) {
                *sum += value;
            }
        }
        if gradient == [0.0; N] {
            return;
        }
        for part in &mut self.parts.gradients {
            part[start..start + N].fill(0.0);
        }
        let weights = &mut self.parts.weights[start..start + N];
        let first = &mut self.parts.first[start..start + N];
        let second = &mut self.parts.second[start..start + N];
        let AdamWStep {
            rate, weight_decay, ..
        } = self.step;
        for at in 0..N {
            let g = gradient[at];
            first[at] += (1.0 - BETA1) * (g - first[at]);
            second[at] += (1.0 - BETA2) * (g * g - second[at]);
            let spread = (second[at] * self.corrections.second).sqrt() + EPSILON;
            let step = first[at] * self.corrections.first / spread + weight_decay * weights[at];
            weights[at] = (weights[at] - rate * step).clamp(-self.limit, self.limit);
        }
    }
}

struct Average<'a> {
    average: &'a mut [f32],
    weights: &'a [f32],
    share: f32,
}

impl Kernel for Average<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, _: I) {
        for (average, weight) in self.average.iter_mut().zip(self.weights) {
            *average += self.share * (weight - *average);
        }
    }
}
