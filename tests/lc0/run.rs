//! Runs converted models with rten.

#[path = "../common/shared.rs"]
mod shared;

use rten::{Model, ValueView};
use rten_tensor::{AsView, Layout, NdTensor, Tensor};
use scorn::lc0::{Calibration, ConvertOptions, Net, OnnxModel, calibration_model};
pub use shared::{shared, skipped};

/// The outputs of a model for a batch; one row per position.
pub struct Outputs {
    pub policy: Vec<Vec<f32>>,
    pub wdl: Option<Vec<Vec<f32>>>,
    pub value: Option<Vec<Vec<f32>>>,
    pub mlh: Option<Vec<Vec<f32>>>,
}

impl Outputs {
    /// Win/draw/loss or the value, whichever exists.
    pub fn any_value(&self) -> &Vec<Vec<f32>> {
        self.wdl.as_ref().or(self.value.as_ref()).unwrap()
    }
}

/// Runs a model on positions of 112 x 64 inputs.
pub fn run(model: &OnnxModel, positions: &[Vec<f32>]) -> Outputs {
    let net = Model::load(model.bytes.clone()).unwrap();
    let input: NdTensor<f32, 4> =
        NdTensor::from_data([positions.len(), 112, 8, 8], positions.concat());
    let output = |name: &String| {
        let id = net.node_id(name).unwrap();
        let inputs = vec![(
            net.node_id(&model.input).unwrap(),
            ValueView::from(input.view()).into(),
        )];
        let [value] = net.run_n(inputs, [id], None).unwrap();
        let tensor: NdTensor<f32, 2> = value.try_into().unwrap();
        assert_eq!(tensor.size(0), positions.len());
        let rows = tensor.to_vec();
        rows.chunks_exact(tensor.size(1))
            .map(<[f32]>::to_vec)
            .collect::<Vec<_>>()
    };
    Outputs {
        policy: output(&model.policy),
        wdl: model.wdl.as_ref().map(output),
        value: model.value.as_ref().map(output),
        mlh: model.mlh.as_ref().map(output),
    }
}

/// The ranges of a network's activations on these positions.
pub fn calibrate(net: &Net, options: &ConvertOptions, positions: &[Vec<f32>]) -> Calibration {
    let (model, tensors) = calibration_model(net, options).unwrap();
    assert!(!tensors.is_empty());
    let runner = Model::load(model.bytes).unwrap();
    let input: NdTensor<f32, 4> =
        NdTensor::from_data([positions.len(), 112, 8, 8], positions.concat());
    let inputs = vec![(
        runner.node_id(&model.input).unwrap(),
        ValueView::from(input.view()).into(),
    )];
    let ids: Vec<_> = tensors
        .iter()
        .map(|name| runner.node_id(name).unwrap())
        .collect();
    let values = runner.run(inputs, &ids, None).unwrap();
    let mut calibration = Calibration::default();
    for (name, value) in tensors.iter().zip(values) {
        let tensor: Tensor<f32> = value.try_into().unwrap();
        calibration.observe(name, &tensor.to_vec());
    }
    calibration
}

/// The largest difference between two lists of numbers.
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |max, d| if d.is_nan() { f32::NAN } else { max.max(d) })
}
