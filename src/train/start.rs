//! Initial checkpoints: random weights, or those of an existing network, with the same or larger sizes.

use anyhow::{Result, ensure};

use super::adam::Moments;
use super::checkpoint::{Checkpoint, TrainingProgress};
use super::data::NetworkPart;
use crate::sparse::{
    classes::MoveClasses,
    features::InputSet,
    file,
    moves::{ROWS, row_count},
    network::{BLOCK, OUTPUTS, Shape},
};

/// A checkpoint with random weights, before the first step.
pub fn random_start(shape: Shape, seed: u64) -> Checkpoint {
    Checkpoint {
        shape,
        progress: TrainingProgress::default(),
        state: Moments::new(shape.start(seed)),
    }
}

/// Sizes and inputs of a network, as far as they are given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Columns of the policy's first layer.
    pub policy: Option<usize>,
    /// Columns of the value's first layer.
    pub value: Option<usize>,
    /// Units of the value's hidden layers.
    pub hidden: Option<usize>,
    /// Stages: sets of hidden layers, one of which is chosen by the number of pieces.
    pub stages: Option<usize>,
    /// The inputs.
    pub inputs: Option<InputSet>,
}

impl Sizes {
    /// All of a shape.
    pub fn of(shape: Shape) -> Sizes {
        Sizes {
            policy: Some(shape.policy),
            value: Some(shape.value),
            hidden: Some(shape.hidden),
            stages: Some(shape.stages),
            inputs: Some(shape.inputs),
        }
    }

    /// The shape with those that are given in place of its own.
    pub fn over(self, shape: Shape) -> Shape {
        Shape {
            policy: self.policy.unwrap_or(shape.policy),
            value: self.value.unwrap_or(shape.value),
            hidden: self.hidden.unwrap_or(shape.hidden),
            stages: self.stages.unwrap_or(shape.stages),
            inputs: self.inputs.unwrap_or(shape.inputs),
        }
    }
}

/// Checks that a network can have these sizes.
///
/// # Errors
/// When it cannot; the message lists the possible sizes.
pub fn check_shape(shape: Shape) -> Result<()> {
    ensure!(
        shape.is_valid(),
        "invalid network sizes: first layers must have a multiple of {} columns up to 4096, hidden layers 1 to 256 \
         units, and there must be 1 to 32 stages",
        BLOCK
    );
    Ok(())
}

/// How the new network differs from the one whose weights it takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Its sizes. Further inputs have weights of 0 at first.
    pub sizes: Sizes,
    /// The network whose weights are initialised at random instead of copied.
    pub reinit: Option<NetworkPart>,
}

impl Changes {
    /// Whether this part starts at random.
    fn reinitialises(self, part: NetworkPart) -> bool {
        self.reinit == Some(part) || self.reinit == Some(NetworkPart::Both)
    }
}

/// The shape of a network with these changes.
fn changed(old: Shape, changes: Changes) -> Result<Shape> {
    let mut shape = changes.sizes.over(old);
    shape.inputs = match (shape.inputs, old.inputs) {
        (InputSet::Opponent, InputSet::Classes) => InputSet::OpponentClasses,
        // A set that the command line cannot name.
        (InputSet::Opponent | InputSet::Classes, InputSet::OpponentClasses) => old.inputs,
        (new, _) => new,
    };
    let only_adds = match old.inputs {
        InputSet::Position => true,
        InputSet::Classes => shape.inputs != InputSet::Position,
        _ => false,
    };
    ensure!(
        shape.inputs == old.inputs || only_adds,
        "the network has more inputs than those of the position, which cannot be left out: choose --inputs \
         history, opponent or classes, as the network has them, or leave --inputs out"
    );
    check_shape(shape)?;
    ensure!(
        changes.reinitialises(NetworkPart::Policy) || shape.policy >= old.policy,
        "a policy network of {} columns does not fit into {}: choose at least as many, or start it at random with \
         --reinit policy",
        old.policy,
        shape.policy
    );
    ensure!(
        changes.reinitialises(NetworkPart::Value)
            || shape.value >= old.value && shape.hidden == old.hidden,
        "a value network of {} columns and {} hidden units does not fit into {} and {}: choose at least as many \
         columns and the same number of units, or start it at random with --reinit value",
        old.value,
        old.hidden,
        shape.value,
        shape.hidden
    );
    Ok(shape)
}

/// A checkpoint before the first step, with the weights of a network's file. New stages start as copies of the stage
/// that they divide. New columns are random, but the weights of their products are 0, so the outputs are the same at
/// first.
///
/// # Errors
/// When the file is not a sparse network, the sizes are invalid, or a network that is not reinitialised does not fit
/// into them.
pub fn start_from(bytes: &[u8], changes: Changes, seed: u64) -> Result<Checkpoint> {
    let network = file::read(bytes)?;
    let old = network.shape();
    let shape = changed(old, changes)?;
    let mut start = random_start(shape, seed);
    let staged = Shape {
        stages: if changes.reinitialises(NetworkPart::Value) {
            old.stages
        } else {
            shape.stages
        },
        inputs: shape.inputs,
        ..old
    };
    let with_inputs = Shape {
        inputs: shape.inputs,
        ..old
    };
    let existing = with_more_inputs(&network.weights(), old, with_inputs);
    let existing = in_stages(&existing, with_inputs, staged)?;
    let (from, to) = (staged.sections(), shape.sections());
    let weights = &mut start.state.weights;
    for (network_part, part) in [
        (NetworkPart::Policy, to.policy()),
        (NetworkPart::Value, to.value()),
    ] {
        if changes.reinitialises(network_part) {
            continue;
        }
        for (from, to_section) in from.all().into_iter().zip(to.all()) {
            if part.contains(&to_section.range.start) {
                // What multiplies the products: a group for each row, and for the hidden units of each stage.
                let groups = match to_section {
                    section if section == &to.rows => Some(row_count(shape.inputs)),
                    section if section == &to.hidden => Some(shape.stages),
                    _ => None,
                };
                let into = &mut weights[to_section.range.clone()];
                widen(&existing[from.range.clone()], into, groups);
            }
        }
    }
    start.state.average.clone_from(weights);
    Ok(start)
}

/// Replaces the value of an initial checkpoint by that of a network's file. Policy and value share no weights, so two
/// networks that learned at the same time can be joined.
///
/// # Errors
/// When the file is not a sparse network, or its value has other sizes or inputs.
pub fn take_value(start: &mut Checkpoint, bytes: &[u8]) -> Result<()> {
    let network = file::read(bytes)?;
    let shape = network.shape();
    let fitting = Shape {
        policy: shape.policy,
        ..start.shape
    };
    ensure!(
        shape == fitting,
        "its value does not fit: the network has {shape}, the checkpoint {}",
        start.shape
    );
    let weights = network.weights();
    start.state.weights[start.shape.sections().value()]
        .copy_from_slice(&weights[shape.sections().value()]);
    start.state.average.clone_from(&start.state.weights);
    Ok(())
}

/// Copies the weights of a section into one that may be larger. In a section with groups of weights of products, those
/// of new products, which follow the existing ones in each group, are set to 0. In others the new weights keep their
/// random values.
fn widen(existing: &[f32], into: &mut [f32], groups: Option<usize>) {
    let has_products = groups.is_some();
    let groups = groups.unwrap_or(1);
    let sizes = [existing.len() / groups, into.len() / groups];
    let old = existing.chunks_exact(sizes[0]);
    for (old, new) in old.zip(into.chunks_exact_mut(sizes[1])) {
        let (same, more) = new.split_at_mut(old.len());
        same.copy_from_slice(old);
        if has_products {
            more.fill(0.0);
        }
    }
}

/// The same weights for a network with more inputs and rows, whose weights are 0; classes of recaptures start as those
/// of other captures.
fn with_more_inputs(weights: &[f32], from: Shape, to: Shape) -> Vec<f32> {
    let mut more = Vec::with_capacity(to.sections().total);
    let (old, new) = (from.sections(), to.sections());
    for (section, larger) in old.all().into_iter().zip(new.all()) {
        let part = &weights[section.range.clone()];
        // Of each block of a first layer, or of the only one of the direct weights.
        let columns = if section == &old.direct {
            OUTPUTS
        } else {
            BLOCK
        };
        match larger.range.len() == part.len() {
            true => more.extend_from_slice(part),
            false if section == &old.rows || section == &old.rows_bias => {
                let of_a_row = part.len() / row_count(from.inputs);
                more.extend_from_slice(part);
                for class in from.inputs.classes().count()..to.inputs.classes().count() {
                    let row = ROWS + MoveClasses::without_recaptures(class);
                    match part.get(row * of_a_row..(row + 1) * of_a_row) {
                        Some(row) => more.extend_from_slice(row),
                        None => more.resize(more.len() + of_a_row, 0.0),
                    }
                }
            }
            false => {
                for table in part.chunks_exact(from.inputs.len() * columns) {
                    more.extend_from_slice(table);
                    let end = more.len() + (to.inputs.len() - from.inputs.len()) * columns;
                    more.resize(end, 0.0);
                }
            }
        }
    }
    more
}

/// The same weights for a network of more stages: each new stage copies the one that it divides.
fn in_stages(weights: &[f32], from: Shape, to: Shape) -> Result<Vec<f32>> {
    let ratio = to.stages / from.stages;
    ensure!(
        to.stages == ratio * from.stages && ratio > 0,
        "cannot make {} stages of the network's {}: choose a multiple of {}",
        to.stages,
        from.stages,
        from.stages
    );
    let mut staged = Vec::with_capacity(to.sections().total);
    let sections = from.sections();
    for (section, larger) in sections.all().into_iter().zip(to.sections().all()) {
        let part = &weights[section.range.clone()];
        if larger.range.len() == part.len() {
            staged.extend_from_slice(part);
        } else {
            for stage in part.chunks_exact(part.len() / from.stages) {
                (0..ratio).for_each(|_| staged.extend_from_slice(stage));
            }
        }
    }
    Ok(staged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::{
        classes::MoveClasses,
        infer::{self, IntegerNetwork, Scratch},
        moves::MoveRows,
        simd::Level,
    };
    use crate::train::export;

    const TINY: Shape = Shape {
        policy: 64,
        value: 64,
        hidden: 8,
        stages: 1,
        inputs: InputSet::Position,
    };

    #[test]
    fn training_starts_from_a_network_file() {
        let random = random_start(TINY, 5);
        let bytes = export(&random, &[]);
        let again = start_from(&bytes, Changes::default(), 1).unwrap();
        assert_eq!(again.shape, TINY);
        // Quantising the quantised weights again changes nothing.
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
    fn new_stages_are_copies_of_the_stage_they_divide() {
        let existing = export(&random_start(TINY, 5), &[]);
        let start = |network: &[u8], stages: usize| {
            let sizes = Changes {
                sizes: Sizes {
                    stages: Some(stages),
                    ..Sizes::default()
                },
                ..Changes::default()
            };
            start_from(network, sizes, 9)
        };
        let network = |checkpoint: &Checkpoint| file::read(&export(checkpoint, &[])).unwrap();
        let staged = start(&existing, 8).unwrap();
        let (one, eight) = (file::read(&existing).unwrap(), network(&staged));
        assert_eq!(
            (eight.value_head.stages, eight.value_head.out_bias.len()),
            (8, 8)
        );
        for pieces in [3, 20, 32] {
            let inputs = inputs(pieces);
            let value = |network: &infer::IntegerNetwork| {
                network.value(Level::detect(), &inputs, &mut Scratch::default())
            };
            assert_eq!(value(&one), value(&eight));
        }
        let error = start(&export(&staged, &[]), 12).unwrap_err();
        assert!(error.to_string().contains("a multiple"), "{error}");
    }

    /// The inputs of a position with this number of pieces.
    fn inputs(pieces: u16) -> Vec<u16> {
        (0..pieces).map(|at| at * 90).collect()
    }

    #[test]
    fn classes_of_moves_start_without_effect() {
        let start = |network: &[u8], inputs: InputSet| {
            let changes = Changes {
                sizes: Sizes {
                    inputs: Some(inputs),
                    ..Sizes::default()
                },
                ..Changes::default()
            };
            start_from(network, changes, 3)
        };
        let plain = export(&random_start(TINY, 5), &[]);
        let classed = start(&plain, InputSet::Classes).unwrap();
        let outputs = |network: &[u8], set: InputSet| {
            let network = file::read(network).unwrap();
            let rows = [0, 500, 7767];
            let classes = match set.classes() {
                MoveClasses::None => vec![],
                _ => vec![7768, 7770, 7768],
            };
            let rows = MoveRows {
                rows: &rows,
                classes: &classes,
            };
            let mut logits = [0.0; 3];
            let scratch = &mut Scratch::default();
            network.policy(Level::detect(), &inputs(9), rows, &mut logits, scratch);
            logits
        };
        let expected = outputs(&plain, InputSet::Position);
        let file = export(&classed, &[]);
        assert_eq!(outputs(&file, InputSet::Classes), expected);
        // With who is to move they stay, as they do for human moves.
        let mut learned = classed;
        let rows = learned.shape.sections().rows.range;
        let of_classes = (rows.end - rows.len() / row_count(InputSet::Classes))..rows.end;
        learned.state.weights[of_classes.clone()].fill(0.5);
        learned.state.average[of_classes].fill(0.5);
        let file = export(&learned, &[]);
        let opponent = start(&file, InputSet::Opponent).unwrap();
        assert_eq!(opponent.shape.inputs, InputSet::OpponentClasses);
        let end = opponent.shape.sections().rows.range.end;
        assert_eq!(opponent.state.weights[end - 1], 0.5);
        // The command line has no name for both.
        for named in [InputSet::Opponent, InputSet::Classes] {
            let same = start(&export(&opponent, &[]), named).unwrap();
            assert_eq!(same.shape.inputs, InputSet::OpponentClasses);
        }
        let human = export(&start(&file, InputSet::History).unwrap(), &[]);
        assert_eq!(outputs(&human, InputSet::History), expected);
        let error = start(&file, InputSet::Position).unwrap_err();
        assert!(error.to_string().contains("cannot be left out"), "{error}");
    }

    #[test]
    fn a_value_that_starts_at_random_may_have_any_number_of_stages() {
        let old = export(&random_start(Shape { stages: 2, ..TINY }, 5), &[]);
        let start = |stages: usize, reinit: Option<NetworkPart>| {
            let sizes = Sizes {
                stages: Some(stages),
                ..Sizes::default()
            };
            start_from(&old, Changes { sizes, reinit }, 9)
        };
        let error = start(1, None).unwrap_err().to_string();
        assert!(error.contains("choose a multiple of 2"), "{error}");
        let policy = |network: &[u8]| {
            let network = file::read(network).unwrap();
            let sections = network.shape().sections();
            network.weights()[sections.policy()].to_vec()
        };
        for stages in [1, 4] {
            let new = start(stages, Some(NetworkPart::Value)).unwrap();
            assert_eq!(new.shape.stages, stages);
            assert!(policy(&export(&new, &[])) == policy(&old));
        }
    }

    #[test]
    fn a_widened_network_starts_with_the_same_outputs_and_trainable_columns() {
        for stages in [1, 2] {
            check_a_widened_network(stages);
        }
    }

    fn check_a_widened_network(stages: usize) {
        let random = export(&random_start(Shape { stages, ..TINY }, 5), &[]);
        let changes = Changes {
            sizes: Sizes {
                policy: Some(192),
                value: Some(128),
                inputs: Some(InputSet::History),
                ..Sizes::default()
            },
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
            let outputs = |network: &infer::IntegerNetwork| {
                let mut scratch = Scratch::default();
                let rows: Vec<u16> = (0..crate::sparse::moves::ROWS as u16).step_by(97).collect();
                let mut logits = vec![0.0; rows.len()];
                network.policy(
                    level,
                    &inputs,
                    MoveRows::of(&rows, rows.len()),
                    &mut logits,
                    &mut scratch,
                );
                (network.value(level, &inputs, &mut scratch), logits)
            };
            assert_eq!(outputs(&narrow), outputs(&wide));
            // The new inputs mean nothing yet.
            let past = InputSet::History.len() as u16 - 1;
            let more = [&inputs[..], &[past]].concat();
            assert_eq!(
                wide.value(level, &more, &mut Scratch::default()),
                wide.value(level, &inputs, &mut Scratch::default())
            );
        }
        let fewer = Changes {
            sizes: Sizes {
                inputs: Some(InputSet::Position),
                ..Sizes::default()
            },
            ..Changes::default()
        };
        let error = start_from(&export(&start, &[]), fewer, 9).unwrap_err();
        assert!(error.to_string().contains("--inputs history"), "{error}");
        // The new columns give products, so the weights of these products have gradients.
        let sections = start.shape.sections();
        let new = &start.state.weights[sections.policy_in.range.clone()][64 * TINY.inputs.len()..];
        assert!(new.iter().filter(|weight| **weight != 0.0).count() > new.len() / 2);
    }

    #[test]
    fn a_value_of_the_same_sizes_can_be_taken_from_another_network() {
        let wide = Shape {
            policy: 128,
            ..TINY
        };
        let policy = export(&random_start(wide, 5), &[]);
        let value = export(&random_start(TINY, 6), &[]);
        let mut joined = start_from(&policy, Changes::default(), 1).unwrap();
        take_value(&mut joined, &value).unwrap();
        let [from_policy, from_value] = [policy, value].map(|bytes| file::read(&bytes).unwrap());
        let expected = IntegerNetwork {
            value: from_value.value,
            value_head: from_value.value_head,
            ..from_policy
        };
        assert_eq!(file::read(&export(&joined, &[])).unwrap(), expected);

        let other = Shape { value: 128, ..TINY };
        let before = joined.clone();
        let error = take_value(&mut joined, &export(&random_start(other, 7), &[])).unwrap_err();
        assert!(error.to_string().contains("128 (value)"), "{error}");
        assert!(joined == before);
    }

    #[test]
    fn a_network_that_does_not_fit_must_be_reinitialised() {
        let wide = Shape {
            value: 128,
            policy: 128,
            ..TINY
        };
        let existing = export(&random_start(wide, 5), &[]);
        let [mut narrow, mut shallow, mut few] = [Changes::default(); 3];
        narrow.sizes.policy = Some(64);
        shallow.sizes.value = Some(64);
        few.sizes.hidden = Some(16);
        for (mut changes, network_part, expected) in [
            (narrow, NetworkPart::Policy, "--reinit policy"),
            (shallow, NetworkPart::Value, "--reinit value"),
            (few, NetworkPart::Value, "--reinit value"),
        ] {
            let error = start_from(&existing, changes, 9).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            for reinit in [network_part, NetworkPart::Both] {
                changes.reinit = Some(reinit);
                let start = start_from(&existing, changes, 9).unwrap();
                let fresh = random_start(start.shape, 9).state.weights;
                let sections = start.shape.sections();
                let part = match network_part {
                    NetworkPart::Policy => sections.policy(),
                    _ => sections.value(),
                };
                assert!(start.state.weights[part.clone()] == fresh[part]);
                assert_eq!(start.state.weights == fresh, reinit == NetworkPart::Both);
            }
        }
    }
}
