//! `scorn convert` and `scorn describe` through the library.

use std::fs;

use anyhow::bail;
use scorn::{
    commands::{
        convert::{self, ConvertArgs},
        describe::{self, DescribeArgs},
    },
    lc0::{Calibration, ConvertOptions, DataType, Net, OnnxModel, read_onnx, to_onnx},
    network::backend::rten::RtenModel,
};

use crate::synth::{self, Spec};

/// Never called: only int8 needs calibration.
fn unused(_: &OnnxModel, _: &[String]) -> anyhow::Result<Calibration> {
    bail!("nothing to calibrate with")
}

#[test]
fn convert_overwrites_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let network = folder.path().join("net.pb");
    let output = folder.path().join("net.onnx");
    fs::write(&network, synth::file(&Spec::default())).unwrap();
    let mut args = ConvertArgs {
        network: network.clone(),
        output: Some(output.clone()),
        policy_head: None,
        value_head: None,
        data_type: DataType::Float32,
        batch: Some(4),
        input_format: None,
        force: false,
    };
    convert::run(&args, &unused).unwrap();
    assert_eq!(
        read_onnx(&fs::read(&output).unwrap()).unwrap().batch,
        Some(4)
    );
    let error = convert::run(&args, &unused).unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    args.force = true;
    args.batch = None;
    convert::run(&args, &unused).unwrap();
    assert_eq!(read_onnx(&fs::read(&output).unwrap()).unwrap().batch, None);
    describe::run(&DescribeArgs {
        networks: vec![network, output],
        json: true,
    })
    .unwrap();
    args.data_type = DataType::Int8;
    let error = format!("{:#}", convert::run(&args, &unused).unwrap_err());
    assert!(error.contains("nothing to calibrate with"), "{error}");
    convert::run(&args, &|_, tensors| {
        let mut calibration = Calibration::default();
        let observe = |name: &String| calibration.observe(name, &[-1.0, 4.0]);
        tensors.iter().for_each(observe);
        Ok(calibration)
    })
    .unwrap();
    args.data_type = DataType::Float32;
    // A bad option leaves the old file and nothing else.
    args.value_head = Some("third".to_owned());
    let error = convert::run(&args, &unused).unwrap_err().to_string();
    assert!(
        error.contains("net.pb") && error.contains("no value head 'third'"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_processor_refuses_bfloat16_and_says_what_to_do() {
    let net = Net::parse(&synth::file(&Spec::smallest())).unwrap();
    let options = ConvertOptions {
        data_type: DataType::BFloat16,
        ..ConvertOptions::default()
    };
    let model = to_onnx(&net, &options).unwrap();
    let refused = RtenModel::load(&read_onnx(&model.bytes).unwrap());
    assert_eq!(
        refused.err().unwrap(),
        "its weights are bfloat16, for NVIDIA GPUs; convert with --data-type fp32"
    );
}
