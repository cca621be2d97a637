//! The options that a network recommends: search constants that suit it better than lc0's, in the metadata entry
//! [`KEY`] of its ONNX file as `Option=value;...`. Every other source of options takes precedence.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{
    built_in,
    network::{file_of, is_onnx},
};
use crate::{
    lc0,
    options::{
        Effect, Options,
        layers::{Layer, Layers, Resolved},
        settings,
    },
};

/// The metadata entry.
pub const KEY: &str = "scorn.options";

/// Larger files are not read for their recommendations, in bytes.
const MAX_FILE_SIZE: u64 = 1 << 26;

/// The options that the network named `weights` recommends. None if it cannot be read: loading it reports why.
pub fn recommended_options(weights: &str) -> Layer {
    let metadata = match built_in::bytes(weights).flatten() {
        Some(bytes) => lc0::onnx_metadata(bytes).ok(),
        None => file_of(weights).ok().and_then(|path| metadata_of(&path)),
    };
    let entries = metadata.unwrap_or_default();
    let entry = entries.into_iter().find(|(key, _)| key == KEY);
    parse(&entry.map_or(String::new(), |(_, text)| text))
}

/// Reads `Option=value;...`; parts that are not valid are left out.
fn parse(text: &str) -> Layer {
    let mut layer = Layer::default();
    for (name, value) in settings(text).flatten() {
        if check_one(name, value).is_ok() {
            // The value was tried.
            let _ = layer.set(name, value);
        }
    }
    layer
}

/// The options in force for programs that neither look at profiles nor limit the strength: what user and
/// configuration file have set, and what the network recommends.
pub fn resolve(layers: &Layers) -> Resolved {
    let layers = Layers {
        network: recommended_options(&layers.as_set().weights_file),
        ..layers.clone()
    };
    layers.resolve()
}

/// Checks `Option=value;...`.
///
/// # Errors
/// When a part of it is not valid, or a network may not recommend the option.
pub fn check(text: &str) -> Result<()> {
    settings(text).try_for_each(|setting| {
        let (name, value) = setting?;
        check_one(name, value)
    })
}

fn check_one(name: &str, value: &str) -> Result<()> {
    let mut options = Options::default();
    let row = options.row(name).filter(|row| row.is_recommendable);
    let row = row.with_context(|| format!("a network may not recommend {name}"))?;
    options.set(row.name, value)?;
    ensure!(
        row.effect != Effect::Weights || built_in::is_name(value),
        "a network may recommend networks inside the program only, not {value}"
    );
    Ok(())
}

fn metadata_of(path: &Path) -> Option<Vec<(String, String)>> {
    let is_small = path
        .metadata()
        .is_ok_and(|found| found.is_file() && found.len() <= MAX_FILE_SIZE);
    if !(is_small && is_onnx(path)) {
        return None;
    }
    lc0::onnx_metadata(&lc0::read_file(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OptionKind;

    #[test]
    fn only_options_of_the_search_can_be_recommended() {
        let text = "CPuct=2; fpuvalue = 0.5;LogFile=x;CPuctBase=-7;nonsense;PolicyTemperature=1.5";
        let settings = [
            ("PolicyTemperature", "1.5"),
            ("CPuct", "2"),
            ("FpuValue", "0.5"),
        ];
        assert_eq!(
            parse(text).settings(),
            settings.map(|(name, value)| (name, value.to_owned()))
        );
        assert!(check(text).unwrap_err().to_string().contains("LogFile"));
        assert!(check("CPuct=2;FpuValue=0.5;").is_ok());
        assert!(check("RefineWeights=<built in dense>").is_ok());
        let error = check("RefineWeights=/home/me/other.onnx").unwrap_err();
        assert!(error.to_string().contains("inside the program only"));
        // Nothing else can name a file.
        let rows = Options::default().rows().into_iter();
        let recommendable = rows.filter(|row| row.is_recommendable);
        for row in recommendable.filter(|row| row.kind == OptionKind::Text) {
            assert_eq!(row.effect, Effect::Weights, "{}", row.name);
        }
    }

    #[test]
    fn what_is_not_a_network_recommends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.onnx");
        std::fs::write(&path, "no network").unwrap();
        for weights in [&*path.to_string_lossy(), "/no/such.onnx", "x.pb.gz"] {
            assert_eq!(recommended_options(weights), Layer::default());
        }
    }
}
