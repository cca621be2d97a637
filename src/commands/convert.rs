//! `scorn convert`: converts an lc0 network to ONNX.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{
    files::output::NewFile,
    lc0::{
        Calibration, ConvertOptions, DataType, Net, NetError, OnnxModel, Operators,
        calibration_model, to_onnx,
    },
};

/// Convert an lc0 network to ONNX.
#[derive(Clone, Debug, clap::Args)]
pub struct ConvertArgs {
    /// The network: .pb.gz or .pb.
    pub network: PathBuf,
    /// The ONNX file to write.
    ///
    /// By default the network's name with .onnx, in the current folder.
    pub output: Option<PathBuf>,
    /// Policy head to convert, if the network has several: vanilla, optimistic, soft or opponent.
    #[arg(long, value_name = "NAME")]
    pub policy_head: Option<String>,
    /// Value head to convert, if the network has several: winner, q or st.
    #[arg(long, value_name = "NAME")]
    pub value_head: Option<String>,
    /// Type of weights and computation; inputs and outputs stay 32-bit floats.
    #[arg(long, value_enum, default_value_t)]
    pub data_type: DataType,
    /// Fixed batch size, which OpenVINO and TensorRT run faster; by default any size is possible.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub batch: Option<u32>,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Runs a float model on real positions and collects the value ranges of the named outputs, see
/// [`calibration_model`].
pub type Calibrator<'a> = &'a dyn Fn(&OnnxModel, &[String]) -> Result<Calibration>;

/// Runs `scorn convert`; the calibrator is called for int8 only.
pub fn convert(args: &ConvertArgs, calibrator: Calibrator<'_>) -> Result<()> {
    let output = match &args.output {
        Some(path) => path.clone(),
        None => default_output(&args.network)?,
    };
    let inputs = std::slice::from_ref(&args.network);
    // Created before the work, so that a file that cannot be written is reported at once.
    let file = NewFile::create(&output, args.force, inputs)?;
    let net = Net::load(&args.network)?;
    let mut options = ConvertOptions {
        policy_head: args.policy_head.clone(),
        value_head: args.value_head.clone(),
        data_type: args.data_type,
        batch: args.batch.map(|batch| batch as usize),
        calibration: None,
        encoding: None,
        limits_squares: false,
        operators: Operators::Standard,
    };
    let in_file = |error: NetError| error.in_file(&args.network);
    if options.data_type == DataType::Int8 {
        // The calibrator chooses its own batch size.
        let open = ConvertOptions {
            batch: None,
            ..options.clone()
        };
        let (model, tensors) = calibration_model(&net, &open).map_err(in_file)?;
        let calibration = calibrator(&model, &tensors).context("calibration for int8")?;
        options.calibration = Some(calibration);
    }
    let model = to_onnx(&net, &options).map_err(in_file)?;
    file.finish_with(&model.bytes)?;
    print_line!("{} ({} bytes)", output.display(), model.bytes.len());
    Ok(())
}

/// The network's file name with its extension replaced by `.onnx`.
fn default_output(network: &Path) -> Result<PathBuf> {
    let name = network
        .file_name()
        .with_context(|| format!("{} is not a file", network.display()))?
        .to_string_lossy();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.strip_suffix(".pb").unwrap_or(stem);
    Ok(PathBuf::from(format!("{stem}.onnx")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_replaced() {
        for (network, output) in [
            ("nets/maia-1900.pb.gz", "maia-1900.onnx"),
            ("a.pb", "a.onnx"),
            ("791556", "791556.onnx"),
        ] {
            assert_eq!(
                default_output(Path::new(network)).unwrap(),
                Path::new(output)
            );
        }
    }
}
