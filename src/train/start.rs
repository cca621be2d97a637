//! What training begins with: random weights, or those of a network that there is, of the same sizes or larger.

use anyhow::{Result, ensure};

use super::adam::Moments;
use super::check_shape;
use super::checkpoint::{Checkpoint, TrainingProgress};
use super::data::NetworkPart;
use crate::sparse::{file, moves::ROWS, network::Shape};

/// A checkpoint before the first step: random weights.
pub fn random_start(shape: Shape, seed: u64) -> Checkpoint {
    Checkpoint {
        shape,
        progress: TrainingProgress::default(),
        state: Moments::new(shape.start(seed)),
    }
}

/// What a network is to have in place of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Columns of the policy's first layer.
    pub policy: Option<usize>,
    /// Columns of the value's first layer.
    pub value: Option<usize>,
    /// Units of the value's hidden layers.
    pub hidden: Option<usize>,
    /// Stages of the game.
    pub stages: Option<usize>,
    /// Of the policy or of the value, or of both, the weights are to be random.
    pub forget: Option<NetworkPart>,
}

/// A checkpoint before the first step, with the weights of a network's file. With more stages each begins as the one that it
/// is a part of, and with more columns the answers are the same at first: nothing counts the new ones, which begin at random.
///
/// # Errors
/// When it is no sparse network, there is none of these sizes, or one that is not to be forgotten does not fit into them.
pub fn start_from(bytes: &[u8], changes: Changes, seed: u64) -> Result<Checkpoint> {
    let network = file::read(bytes)?;
    let old = network.shape();
    let shape = Shape {
        policy: changes.policy.unwrap_or(old.policy),
        value: changes.value.unwrap_or(old.value),
        hidden: changes.hidden.unwrap_or(old.hidden),
        stages: changes.stages.unwrap_or(old.stages),
    };
    check_shape(shape)?;
    let forgets = |subject: NetworkPart| matches!(changes.forget, Some(forgotten) if forgotten == subject || forgotten == NetworkPart::Both);
    ensure!(
        forgets(NetworkPart::Policy) || shape.policy >= old.policy,
        "a policy of {} columns does not fit into {}: --forget policy begins it anew",
        old.policy,
        shape.policy
    );
    ensure!(
        forgets(NetworkPart::Value) || shape.value >= old.value && shape.hidden == old.hidden,
        "a value of {} columns and {} hidden units does not fit into {} and {}: more columns do, no other number of units; \
         --forget value begins it anew",
        old.value,
        old.hidden,
        shape.value,
        shape.hidden
    );
    let mut start = random_start(shape, seed);
    let staged = Shape {
        stages: shape.stages,
        ..old
    };
    let known = in_stages(&network.weights(), old, staged)?;
    let (from, to) = (staged.sections(), shape.sections());
    let weights = &mut start.state.weights;
    for (subject, part) in [
        (NetworkPart::Policy, to.policy()),
        (NetworkPart::Value, to.value()),
    ] {
        if forgets(subject) {
            continue;
        }
        for (from, to_section) in from.all().into_iter().zip(to.all()) {
            if part.contains(&to_section.range.start) {
                let groups = match to_section {
                    section if section == &to.rows => ROWS,
                    section if section == &to.hidden => shape.stages,
                    _ => 1,
                };
                let into = &mut weights[to_section.range.clone()];
                widen(&known[from.range.clone()], into, groups);
            }
        }
    }
    start.state.average.clone_from(weights);
    Ok(start)
}

/// Copies what is known into a section that may be larger. What the sections before it make of new columns, which lie behind
/// the known ones in each of several groups, counts nothing; alone, in one group, the new ones keep what they begin with.
fn widen(known: &[f32], into: &mut [f32], groups: usize) {
    let sizes = [known.len() / groups, into.len() / groups];
    let old = known.chunks_exact(sizes[0]);
    for (old, new) in old.zip(into.chunks_exact_mut(sizes[1])) {
        let (same, more) = new.split_at_mut(old.len());
        same.copy_from_slice(old);
        if groups > 1 {
            more.fill(0.0);
        }
    }
}

/// The same weights for a network of more stages: the later ones have those of the stage that they were a part of.
fn in_stages(weights: &[f32], from: Shape, to: Shape) -> Result<Vec<f32>> {
    let ratio = to.stages / from.stages;
    ensure!(
        to.stages == ratio * from.stages && ratio > 0,
        "{} stages cannot be made of the {} that the network has: a multiple of them can",
        to.stages,
        from.stages
    );
    let mut staged = Vec::with_capacity(to.sections().total);
    let sections = from.sections();
    for (section, larger) in sections.all().into_iter().zip(to.sections().all()) {
        let part = &weights[section.range.clone()];
        match larger.range.len() == part.len() {
            true => staged.extend_from_slice(part),
            false => {
                for stage in part.chunks_exact(part.len() / from.stages) {
                    (0..ratio).for_each(|_| staged.extend_from_slice(stage));
                }
            }
        }
    }
    Ok(staged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::{
        infer::{self, Scratch},
        simd::Level,
    };
    use crate::train::export;

    const TINY: Shape = Shape {
        policy: 64,
        value: 64,
        hidden: 8,
        stages: 1,
    };

    #[test]
    fn a_network_in_a_file_is_a_start() {
        let random = random_start(TINY, 5);
        let bytes = export(&random, &[]);
        let again = start_from(&bytes, Changes::default(), 1).unwrap();
        assert_eq!(again.shape, TINY);
        // What is rounded once is not rounded again.
        assert!(export(&again, &[]) == bytes);
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 0.01;
        assert!(
            again
                .state
                .weights
                .iter()
                .zip(&random.state.weights)
                .all(near)
        );
        assert!(start_from(b"no network", Changes::default(), 1).is_err());
    }

    #[test]
    fn stages_begin_as_what_they_are_parts_of() {
        let known = export(&random_start(TINY, 5), &[]);
        let start = |network: &[u8], stages: usize| {
            let sizes = Changes {
                stages: Some(stages),
                ..Changes::default()
            };
            start_from(network, sizes, 9)
        };
        let network = |checkpoint: &Checkpoint| file::read(&export(checkpoint, &[])).unwrap();
        let staged = start(&known, 8).unwrap();
        let (one, eight) = (file::read(&known).unwrap(), network(&staged));
        assert_eq!((eight.tail.stages, eight.tail.out_bias.len()), (8, 8));
        for pieces in [3, 20, 32] {
            let inputs = inputs(pieces);
            let said = |network: &infer::IntegerNetwork| {
                network.value(Level::detect(), &inputs, &mut Scratch::default())
            };
            assert_eq!(said(&one), said(&eight));
        }
        let error = start(&export(&staged, &[]), 12).unwrap_err();
        assert!(error.to_string().contains("a multiple"), "{error}");
    }

    /// Inputs as a position with so many pieces may have them.
    fn inputs(pieces: u16) -> Vec<u16> {
        (0..pieces).map(|at| at * 90).collect()
    }

    #[test]
    fn a_wider_network_says_the_same_at_first_and_can_learn_more() {
        let random = export(&random_start(Shape { stages: 2, ..TINY }, 5), &[]);
        let changes = Changes {
            policy: Some(192),
            value: Some(128),
            ..Changes::default()
        };
        let start = start_from(&random, changes, 9).unwrap();
        assert_eq!((start.shape.policy, start.shape.value), (192, 128));
        assert!(start.state.average == start.state.weights);
        let (narrow, wide) = (
            file::read(&random).unwrap(),
            file::read(&export(&start, &[])).unwrap(),
        );
        let level = Level::detect();
        for pieces in [3, 20, 32] {
            let inputs = inputs(pieces);
            let said = |network: &infer::IntegerNetwork| {
                let mut scratch = Scratch::default();
                let rows: Vec<u16> = (0..ROWS as u16).step_by(97).collect();
                let mut logits = vec![0.0; rows.len()];
                network.policy(level, &inputs, &rows, &mut logits, &mut scratch);
                (network.value(level, &inputs, &mut scratch), logits)
            };
            assert_eq!(said(&narrow), said(&wide));
        }
        // What is new gives products: their weights have slopes.
        let sections = start.shape.sections();
        let new = &start.state.weights[sections.policy_in.range.clone()]
            [64 * crate::sparse::features::INPUTS..];
        assert!(new.iter().filter(|weight| **weight != 0.0).count() > new.len() / 2);
    }

    #[test]
    fn what_does_not_fit_has_to_be_forgotten() {
        let wide = Shape {
            value: 128,
            policy: 128,
            ..TINY
        };
        let known = export(&random_start(wide, 5), &[]);
        let [mut narrow, mut shallow, mut few] = [Changes::default(); 3];
        narrow.policy = Some(64);
        shallow.value = Some(64);
        few.hidden = Some(16);
        for (mut changes, subject, told) in [
            (narrow, NetworkPart::Policy, "--forget policy"),
            (shallow, NetworkPart::Value, "--forget value"),
            (few, NetworkPart::Value, "--forget value"),
        ] {
            let error = start_from(&known, changes, 9).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            for forget in [subject, NetworkPart::Both] {
                changes.forget = Some(forget);
                let start = start_from(&known, changes, 9).unwrap();
                let fresh = random_start(start.shape, 9).state.weights;
                let sections = start.shape.sections();
                let part = match subject {
                    NetworkPart::Policy => sections.policy(),
                    _ => sections.value(),
                };
                assert!(start.state.weights[part.clone()] == fresh[part]);
                assert_eq!(start.state.weights == fresh, forget == NetworkPart::Both);
            }
        }
    }
}
