//! `scorn describe`: what is inside a network.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::lc0::{Net, OnnxDescription};

/// Describe a network: architecture, size, formats, licence.
#[derive(Clone, Debug, clap::Args)]
pub struct DescribeArgs {
    /// The networks: .pb.gz, .pb or .onnx.
    #[arg(required = true)]
    pub networks: Vec<PathBuf>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// Runs `scorn describe`.
pub fn describe(args: &DescribeArgs) -> Result<()> {
    let mut out = io::stdout().lock();
    for (index, path) in args.networks.iter().enumerate() {
        let text = describe_file(path, args.json)?;
        let separator = if index > 0 && !args.json { "\n" } else { "" };
        let end = if args.json { "\n" } else { "" };
        write!(out, "{separator}{text}{end}")?;
    }
    Ok(())
}

/// The description of one file, as text or as a line of JSON.
fn describe_file(path: &Path, json: bool) -> Result<String> {
    let is_onnx = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"));
    if is_onnx {
        let bytes = fs::read(path).with_context(|| format!("network {}", path.display()))?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let description = OnnxDescription::of(name, &bytes).map_err(|error| error.in_file(path))?;
        return match json {
            true => Ok(serde_json::to_string(&description)?),
            false => Ok(description.to_string()),
        };
    }
    let description = Net::load(path)?.describe();
    match json {
        true => Ok(serde_json::to_string(&description)?),
        false => Ok(description.to_string()),
    }
}
