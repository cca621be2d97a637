//! `scorn convert`: converts an lc0 network to ONNX, and puts an ONNX model into a network file of lc0.

use std::{
    borrow::Cow,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};

use crate::{
    files::{self, output::NewFile},
    lc0::{
        Calibration, ConvertOptions, DataType, InputFormat, Net, NetError, OnnxModel, Operators,
        calibration_model, format::Structure, from_onnx, to_onnx,
    },
    network::source::{built_in_model, discovered},
    terminal::eprint_line,
};

/// Maximum size of an ONNX model, which is protobuf's.
const MAX_MODEL_BYTES: u64 = i32::MAX as u64;

/// Convert an lc0 network to ONNX, or put an ONNX model into a network file of lc0.
///
/// A network file made from an ONNX model contains it as it is (lc0's NETWORK_ONNX); converting it again gives the
/// same model.
#[derive(Clone, Debug, clap::Args)]
pub struct ConvertArgs {
    /// The network: .pb.gz, .pb or .onnx, `<built in dense>`, or `<autodiscover>` for the newest file here or
    /// beside the program.
    ///
    /// The other networks inside the program are sparse; lc0 has no such inputs, so they cannot be converted.
    pub network: PathBuf,
    /// The file to write: .onnx, or .pb.gz or .pb for an ONNX model.
    ///
    /// By default the network's name with .onnx, or .pb.gz for an ONNX model, in the current folder.
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
    /// Input planes of an ONNX model whose metadata does not name them, such as those of lc0's leela2onnx; the
    /// classical ones by default.
    #[arg(long, value_name = "NAME", value_parser = input_format)]
    pub input_format: Option<InputFormat>,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Runs a float model on positions of games and collects the value ranges of the named outputs, see
/// [`calibration_model`].
pub type Calibrator<'a> = &'a dyn Fn(&OnnxModel, &[String]) -> Result<Calibration>;

/// Runs `scorn convert`; the calibrator is called for int8 only.
pub fn run(args: &ConvertArgs, calibrator: Calibrator<'_>) -> Result<()> {
    convert_file(
        &ConvertArgs {
            network: discovered(&args.network)?,
            ..args.clone()
        },
        calibrator,
    )
}

/// The same for a network whose name is its path, or that of a network inside the program.
fn convert_file(args: &ConvertArgs, calibrator: Calibrator<'_>) -> Result<()> {
    let built_in = built_in_model(&args.network)?;
    let is_onnx = built_in.is_some() || has_ending(&args.network, ".onnx");
    let output = match &args.output {
        Some(path) => path.clone(),
        None => default_output(&args.network, if is_onnx { ".pb.gz" } else { ".onnx" })?,
    };
    let endings = [".onnx", ".pb", ".pb.gz"];
    if !endings.iter().any(|ending| has_ending(&output, ending)) {
        bail!(
            "{}: the name of a network ends in {}",
            output.display(),
            endings.join(", ")
        );
    }
    let network = args.network.display();
    match has_ending(&output, ".pb") || has_ending(&output, ".pb.gz") {
        true if is_onnx => return wrap(args, built_in, &output),
        true => {
            bail!(
                "{network} is not an ONNX model (.onnx); only those can be converted to a network file of lc0"
            )
        }
        false if is_onnx => {
            let bytes = read_model(args, built_in)?;
            // What cannot be put into one is reported as such at once.
            from_onnx(&bytes, args.input_format).map_err(|error| error.in_file(&args.network))?;
            bail!("{network} is an ONNX model already: name a .pb.gz or .pb file to write")
        }
        false => {}
    }
    if args.input_format.is_some() {
        bail!("--input-format has no effect on a network of lc0, which states it");
    }
    let inputs = std::slice::from_ref(&args.network);
    // Created before the work, so that a file that cannot be written is reported at once.
    let file = NewFile::create(&output, args.force, inputs)?;
    let net = Net::load(&args.network)?;
    if net.format().structure == Structure::Onnx {
        refuse_conversion(args)?;
    }
    let model = converted(&net, args, calibrator)?;
    file.finish_with(&model.bytes)?;
    print_line!("{} ({} bytes)", output.display(), model.bytes.len());
    if let Some(warning) = bfloat16_warning(&model) {
        eprint_line(format_args!("warning: {warning}"));
    }
    Ok(())
}

/// The model that a network of lc0 is converted to.
fn converted(net: &Net, args: &ConvertArgs, calibrator: Calibrator<'_>) -> Result<OnnxModel> {
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
        let (model, tensors) = calibration_model(net, &open).map_err(in_file)?;
        let calibration = calibrator(&model, &tensors).context("calibration for int8")?;
        options.calibration = Some(calibration);
    }
    Ok(to_onnx(net, &options).map_err(in_file)?)
}

/// Where a model with 16-bit weights of this type does not run.
fn bfloat16_warning(model: &OnnxModel) -> Option<&'static str> {
    match (model.is_bfloat16, model.has_convolutions) {
        (false, _) => None,
        (true, false) => Some("bf16 weights are for NVIDIA GPUs only"),
        (true, true) => Some(
            "bf16 weights are for NVIDIA GPUs only, and the backend cuda refuses them in a network with convolutions: \
             take fp16 or fp32",
        ),
    }
}

/// Refuses the flags of a conversion for an ONNX model.
fn refuse_conversion(args: &ConvertArgs) -> Result<()> {
    let set = [
        ("--policy-head", args.policy_head.is_some()),
        ("--value-head", args.value_head.is_some()),
        ("--data-type", args.data_type != DataType::Float32),
        ("--batch", args.batch.is_some()),
    ];
    if let Some((flag, _)) = set.iter().find(|(_, is_set)| *is_set) {
        bail!("{flag} has no effect on an ONNX model, which is kept as it is");
    }
    Ok(())
}

/// Puts an ONNX model into a network file of lc0: one inside the program, or that of the file.
fn wrap(args: &ConvertArgs, built_in: Option<&[u8]>, output: &Path) -> Result<()> {
    refuse_conversion(args)?;
    let file = NewFile::create(output, args.force, std::slice::from_ref(&args.network))?;
    let model = read_model(args, built_in)?;
    let mut bytes =
        from_onnx(&model, args.input_format).map_err(|error| error.in_file(&args.network))?;
    if has_ending(output, ".gz") {
        // No time and no name in the header, so that the same model gives the same file.
        let mut packer = GzBuilder::new().write(Vec::new(), Compression::default());
        packer.write_all(&bytes)?;
        bytes = packer.finish()?;
    }
    file.finish_with(&bytes)?;
    print_line!("{} ({} bytes)", output.display(), bytes.len());
    Ok(())
}

/// The ONNX model to convert: one inside the program, or that of the file.
fn read_model<'a>(args: &ConvertArgs, built_in: Option<&'a [u8]>) -> Result<Cow<'a, [u8]>> {
    Ok(match built_in {
        Some(model) => Cow::Borrowed(model),
        None => files::read(&args.network, MAX_MODEL_BYTES)
            .with_context(|| format!("cannot read {}", args.network.display()))?
            .into(),
    })
}

/// A format of input planes by lc0's name, in any case.
fn input_format(name: &str) -> Result<InputFormat> {
    let found = InputFormat::from_lc0_name(&name.to_ascii_uppercase());
    found.with_context(|| format!("expected one of {}", InputFormat::lc0_names()))
}

/// Whether a file's name ends like this, in any case.
fn has_ending(path: &Path, ending: &str) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    name.ends_with(ending)
}

/// The network's file name with another ending; of one inside the program, its name without brackets and spaces.
fn default_output(network: &Path, ending: &str) -> Result<PathBuf> {
    let name = network
        .file_name()
        .with_context(|| format!("{} is not a file", network.display()))?
        .to_string_lossy();
    let name = match name
        .strip_prefix('<')
        .and_then(|name| name.strip_suffix('>'))
    {
        Some(built_in) => built_in.replace(' ', "-").into(),
        None => name,
    };
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.strip_suffix(".pb").unwrap_or(stem);
    let stem = stem.strip_suffix(".onnx").unwrap_or(stem);
    Ok(PathBuf::from(format!("{stem}{ending}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_few_backends_run_are_warned_of() {
        let warning = |is_bfloat16, has_convolutions| {
            bfloat16_warning(&OnnxModel {
                is_bfloat16,
                has_convolutions,
                ..OnnxModel::empty(InputFormat::Classical112)
            })
        };
        assert_eq!(warning(false, true), None);
        assert!(warning(true, false).unwrap().ends_with("NVIDIA GPUs only"));
        assert!(warning(true, true).unwrap().ends_with("take fp16 or fp32"));
    }

    #[test]
    fn endings_are_replaced() {
        for (network, ending, output) in [
            ("nets/maia-1900.pb.gz", ".onnx", "maia-1900.onnx"),
            ("a.pb", ".onnx", "a.onnx"),
            ("791556", ".onnx", "791556.onnx"),
            ("nets/a.onnx", ".pb.gz", "a.pb.gz"),
            ("<built in dense>", ".pb.gz", "built-in-dense.pb.gz"),
        ] {
            let found = default_output(Path::new(network), ending).unwrap();
            assert_eq!(found, Path::new(output));
        }
    }
}
