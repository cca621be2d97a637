//! `scorn describe`: prints the architecture of a network.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::{
    lc0::{ConvertOptions, Net, OnnxDescription, format::Structure, read_file, to_onnx},
    network::source::{built_in_model, discovered},
    sparse::file,
    terminal::eprint_line,
};

/// Describe a network: architecture, size, formats, licence.
#[derive(Clone, Debug, clap::Args)]
pub struct DescribeArgs {
    /// The networks: .pb.gz, .pb or .onnx, `<built in>`, `<built in odds>`, `<built in human 1500>` and the other names
    /// that WeightsFile takes, or `<autodiscover>` for the newest file here or beside the program.
    #[arg(required = true)]
    pub networks: Vec<PathBuf>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// Runs `scorn describe`. A network that cannot be described does not keep the others from it.
///
/// # Errors
/// When a network cannot be described.
pub fn run(args: &DescribeArgs) -> Result<()> {
    let (mut described, mut failed) = (0, 0);
    for path in &args.networks {
        let text = match describe_file(path, args.json) {
            Ok(text) => text,
            Err(error) if args.networks.len() == 1 => return Err(error),
            Err(error) => {
                eprint_line(format_args!("scorn: {error:#}"));
                failed += 1;
                continue;
            }
        };
        if described > 0 && !args.json {
            print_line!();
        }
        print_line!("{}", text.trim_end_matches('\n'));
        described += 1;
    }
    if failed > 0 {
        bail!(
            "{failed} of {} networks cannot be described",
            failed + described
        );
    }
    Ok(())
}

/// The description of one file, as text or as a line of JSON.
fn describe_file(path: &Path, json: bool) -> Result<String> {
    let path = &discovered(path)?;
    if let Some(bytes) = built_in_model(path)? {
        return describe_onnx(path, bytes, json);
    }
    let is_onnx = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"));
    if is_onnx {
        return describe_onnx(path, &read_file(path)?, json);
    }
    let net = Net::load(path)?;
    if net.format().structure == Structure::Onnx {
        // It is known to be usable only when it has been read.
        to_onnx(&net, &ConvertOptions::default()).map_err(|error| error.in_file(path))?;
    }
    description_text(&net.describe(), json)
}

/// The description as people read it, or as JSON.
fn description_text(description: &(impl Serialize + Display), json: bool) -> Result<String> {
    if json {
        Ok(serde_json::to_string(description)?)
    } else {
        Ok(description.to_string())
    }
}

fn describe_onnx(path: &Path, bytes: &[u8], json: bool) -> Result<String> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let description = if file::is_sparse(bytes) {
        describe_sparse(name, bytes).with_context(|| format!("network {}", path.display()))?
    } else {
        OnnxDescription::of(name, bytes).map_err(|error| error.in_file(path))?
    };
    description_text(&description, json)
}

fn describe_sparse(name: Option<String>, bytes: &[u8]) -> Result<OnnxDescription> {
    let shape = file::read(bytes)?.shape();
    let (version, inputs, _) = file::version(bytes)?;
    let input = format!("{version}: {inputs} inputs; {shape}");
    let model = file::model(bytes)?;
    Ok(OnnxDescription::of_model(name, bytes, model, input)?)
}
