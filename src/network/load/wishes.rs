//! What a network asks for: search constants that suit it better than lc0's, in the metadata entry [`KEY`] of its ONNX file as
//! `Option=value;...`. What somebody has set by hand counts more, and a profile's settings do too.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result, ensure};

use super::weights;
use crate::{
    lc0,
    options::{Options, settings},
};

/// The metadata entry.
pub const KEY: &str = "scorn.options";

/// The options that a network may ask for: none of them reaches beyond the search, and no file is named but those inside the program.
pub const ALLOWED: [&str; 15] = [
    "AutoExtend",
    "CPuct",
    "CPuctBase",
    "CPuctFactor",
    "CertaintyProp",
    "CheckBonus",
    "FpuStrategy",
    "FpuValue",
    "LcbMinVisitShare",
    "LcbStdevs",
    "PolicyTemperature",
    "RefinePolicyTemperature",
    "RefineVisits",
    "RefineWeights",
    "RootChoice",
];

/// Larger files are not read for this.
const LARGEST: u64 = 1 << 26;

/// Options and their values, as far as they are allowed and there are such.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes(Vec<(&'static str, String)>);

impl Wishes {
    /// Those of the network that `weights` names. None, if there is something wrong with it: who loads it says what.
    pub fn of(weights: &str) -> Wishes {
        let inside = weights::inside(weights).flatten();
        let metadata = match inside {
            Some(bytes) => lc0::onnx_metadata(bytes).ok(),
            None => weights::file_of(weights)
                .ok()
                .and_then(|path| of_file(&path)),
        };
        let entries = metadata.unwrap_or_default();
        let entry = entries.into_iter().find(|(key, _)| key == KEY);
        Wishes::parse(&entry.map_or(String::new(), |(_, text)| text))
    }

    /// Reads `Option=value;...`; what is not understood is left out.
    fn parse(text: &str) -> Wishes {
        Wishes(
            settings(text)
                .filter_map(|setting| wish(setting.ok()?).ok())
                .collect(),
        )
    }

    /// For people: what is asked for; empty if nothing is.
    pub fn text(&self) -> String {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!(
                "; the network asks for {} where nothing was set by hand",
                parts.join(", ")
            ),
        }
    }

    /// Sets what nobody has set by hand.
    pub fn apply(&self, options: &mut Options, by_hand: &BTreeSet<&'static str>) {
        for (name, value) in &self.0 {
            if !by_hand.contains(name) {
                // They were tried when they were read.
                let _ = options.set(name, value);
            }
        }
    }
}

/// Checks `Option=value;...`.
///
/// # Errors
/// When a part of it is not understood, or may not be asked for.
pub fn check(text: &str) -> Result<()> {
    settings(text).try_for_each(|setting| wish(setting?).map(|_| ()))
}

fn wish((name, value): (&str, &str)) -> Result<(&'static str, String)> {
    let known = Options::name_of(name).filter(|name| ALLOWED.contains(name));
    let known = known.with_context(|| format!("a network may not ask for {name}"))?;
    Options::default().set(known, value)?;
    ensure!(
        known != "RefineWeights" || weights::inside(value).is_some(),
        "a network may ask for networks inside the program only, not for {value}"
    );
    Ok((known, value.to_owned()))
}

fn of_file(path: &Path) -> Option<Vec<(String, String)>> {
    let is_small = path
        .metadata()
        .is_ok_and(|found| found.is_file() && found.len() <= LARGEST);
    if !(is_small && weights::is_onnx(path)) {
        return None;
    }
    lc0::onnx_metadata(&lc0::read_file(path).ok()?).ok()
}

/// The options with what their network asks for, where nothing was set by hand.
#[must_use]
pub fn adapted(mut options: Options, by_hand: &BTreeSet<&'static str>) -> Options {
    Wishes::of(&options.weights_file).apply(&mut options, by_hand);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_constants_of_the_search_can_be_asked_for() {
        let text = "CPuct=2; fpuvalue = 0.5;LogFile=x;CPuctBase=-7;nonsense;PolicyTemperature=1.5";
        let wishes = Wishes::parse(text);
        assert_eq!(
            wishes.0,
            [
                ("CPuct", "2".to_owned()),
                ("FpuValue", "0.5".to_owned()),
                ("PolicyTemperature", "1.5".to_owned())
            ]
        );
        assert!(check(text).unwrap_err().to_string().contains("LogFile"));
        assert!(check("CPuct=2;FpuValue=0.5;").is_ok());
        assert!(check("RefineWeights=<built in dense>").is_ok());
        let error = check("RefineWeights=/home/me/other.onnx").unwrap_err();
        assert!(error.to_string().contains("inside the program only"));
        let mut options = Options::default();
        wishes.apply(&mut options, &BTreeSet::from(["CPuct"]));
        let usual = Options::default();
        assert_eq!((options.cpuct, options.fpu_value), (usual.cpuct, 0.5));
        assert_eq!(options.policy_temperature, 1.5);
        for name in ALLOWED {
            assert_eq!(Options::name_of(name), Some(name));
        }
    }

    #[test]
    fn what_is_no_network_asks_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.onnx");
        std::fs::write(&path, "no network").unwrap();
        for weights in [&*path.to_string_lossy(), "/no/such.onnx", "x.pb.gz", ""] {
            assert_eq!(
                Wishes::of(weights)
                    .0
                    .iter()
                    .filter(|_| !weights.is_empty())
                    .count(),
                0
            );
        }
    }
}
