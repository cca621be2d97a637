//! The buffers of one batch size: which tensors of the model there are, how many numbers they hold, and what is copied
//! in each direction. Every buffer exists twice, in pinned memory of the processor and in memory of the GPU, at
//! addresses that never change, because a captured graph contains them.

use crate::{
    lc0::{LegalMoves, OnnxModel, PackedInput},
    network::input::Encoding,
};

/// The tensors of a model for one batch size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Positions of a batch.
    pub size: usize,
    /// Planes as bits, a byte a rank: uint8.
    pub masks: BoundTensor,
    /// The numbers of scalar planes: float32.
    pub scalars: BoundTensor,
    /// The entries of the legal moves in the policy vector: int16.
    pub entries: BoundTensor,
    /// The inverse of the softmax temperature: float32.
    pub sharpness: BoundTensor,
    /// Probabilities of the legal moves; W/D/L or value; plies left, if the network has them: float32.
    pub outputs: Vec<BoundTensor>,
}

/// A tensor that has a buffer on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTensor {
    /// Its name in the model.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl BoundTensor {
    fn new(name: &str, shape: &[usize]) -> BoundTensor {
        BoundTensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
        }
    }

    /// Numbers in it.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Binding {
    /// The tensors for batches of `size` positions.
    ///
    /// # Errors
    /// When the model does not take packed planes and legal moves, or needs the processor at run time.
    pub fn new(model: &OnnxModel, size: usize) -> Result<Binding, String> {
        let (packed, legal) = required(model)?;
        let layout = Encoding::of(model).layout();
        let value = [(&model.wdl, 3), (&model.value, 1)]
            .into_iter()
            .find_map(|(name, width)| Some((name.as_ref()?, width)));
        let heads = [
            Some((&model.policy, legal.slots)),
            value,
            model.mlh.as_ref().map(|name| (name, 1)),
        ];
        let output = |(name, width): (&String, usize)| BoundTensor::new(name, &[size, width]);
        Ok(Binding {
            size,
            masks: BoundTensor::new(&packed.masks, &[size, layout.planes, 8]),
            scalars: BoundTensor::new(&packed.scalars, &[size, layout.scalar_planes.len()]),
            entries: BoundTensor::new(&legal.entries, &[size, legal.slots]),
            sharpness: BoundTensor::new(&legal.sharpness, &[1]),
            outputs: heads.into_iter().flatten().map(output).collect(),
        })
    }

    /// Bytes that go to the GPU for a batch.
    pub fn upload_bytes(&self) -> usize {
        let floats = self.scalars.len() + self.sharpness.len();
        self.masks.len() + 2 * self.entries.len() + 4 * floats
    }

    /// Bytes that come back.
    pub fn download_bytes(&self) -> usize {
        4 * self.outputs.iter().map(BoundTensor::len).sum::<usize>()
    }
}

fn required(model: &OnnxModel) -> Result<(&PackedInput, &LegalMoves), String> {
    if model.computes_shapes {
        return Err("the model computes shapes, which the processor would do".to_owned());
    }
    if model.concatenates {
        return Err(
            "the model concatenates tensors, for which lists are uploaded at run time".to_owned(),
        );
    }
    match (&model.packed, &model.legal_moves) {
        (Some(packed), Some(legal)) => Ok((packed, legal)),
        (None, _) => Err("the model does not take its planes as bits".to_owned()),
        (_, None) => Err("the model's policy is not that of the legal moves".to_owned()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lc0::InputFormat;

    /// A model with these inputs and outputs, without bytes.
    pub fn model() -> OnnxModel {
        OnnxModel {
            packed: Some(PackedInput {
                masks: "masks".to_owned(),
                scalars: "scalars".to_owned(),
            }),
            legal_moves: Some(LegalMoves {
                entries: "entries".to_owned(),
                sharpness: "sharpness".to_owned(),
                slots: 256,
            }),
            wdl: Some("wdl".to_owned()),
            mlh: Some("mlh".to_owned()),
            ..OnnxModel::empty(InputFormat::Classical112)
        }
    }

    #[test]
    fn a_batch_of_256_carries_little() {
        let binding = Binding::new(&model(), 256).unwrap();
        assert_eq!(binding.masks.shape, [256, 112, 8]);
        let shapes: Vec<_> = binding.outputs.iter().map(|t| t.shape.clone()).collect();
        assert_eq!(shapes, [[256, 256], [256, 3], [256, 1]]);
        // Bits, the rule-50 counter, the entries of the moves; 28 KB with planes as floats.
        assert_eq!(binding.upload_bytes(), 256 * (112 * 8 + 4 + 2 * 256) + 4);
        // Probabilities, W/D/L, plies left; 7.4 KB with the logits of all moves.
        assert_eq!(binding.download_bytes(), 256 * 4 * (256 + 3 + 1));
    }

    #[test]
    fn a_network_with_one_value_has_two_outputs() {
        let model = OnnxModel {
            wdl: None,
            value: Some("value".to_owned()),
            mlh: None,
            ..model()
        };
        let binding = Binding::new(&model, 8).unwrap();
        let names: Vec<&str> = binding.outputs.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["/output/policy", "value"]);
    }

    #[test]
    fn models_that_cannot_be_captured_are_refused_with_the_reason() {
        let refused = |model: OnnxModel| Binding::new(&model, 8).unwrap_err();
        let plain = OnnxModel {
            packed: None,
            ..model()
        };
        assert!(refused(plain).contains("bits"));
        let logits = OnnxModel {
            legal_moves: None,
            ..model()
        };
        assert!(refused(logits).contains("legal moves"));
        let shapes = OnnxModel {
            computes_shapes: true,
            ..model()
        };
        assert!(refused(shapes).contains("shapes"));
        let concatenating = OnnxModel {
            concatenates: true,
            ..model()
        };
        assert!(refused(concatenating).contains("concatenates"));
    }
}
