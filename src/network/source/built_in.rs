//! The networks inside the program, and the values of `WeightsFile` and `OpponentWeights` that name them.
//!
//! Models of human players are named by a rating. One sparse network predicts the moves of all ratings: the rating is
//! an input. It was distilled from the networks of the Maia project (McIlroy-Young et al., KDD
//! 2020), see `networks/README.md`.

use std::{io::Read, ops::RangeInclusive, sync::OnceLock};

use flate2::read::GzDecoder;

use crate::sparse::features::RATINGS;

/// How data that gzip has packed begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The value of `WeightsFile` that means the default network inside the program.
pub const BUILT_IN: &str = "<built in>";
/// The value of `WeightsFile` that means the dense network inside the program, which is stronger per node and slower.
pub const BUILT_IN_DENSE: &str = "<built in dense>";
/// The value of `WeightsFile` that means the sparse network inside the program, made for processors and the default.
pub const BUILT_IN_SPARSE: &str = "<built in sparse>";

/// The value of `WeightsFile` that means the network inside the program that was trained on games in which it gives
/// odds.
pub const BUILT_IN_ODDS: &str = "<built in odds>";

/// The dense network inside the program.
static DENSE: Option<Stored> = Stored::new(stored::DENSE);
/// The sparse network inside the program.
static SPARSE: Option<Stored> = Stored::new(stored::SPARSE);
/// The network inside the program that predicts the moves of human players, for all ratings.
static HUMAN: Option<Stored> = Stored::new(stored::HUMAN);
/// The value of the network for games at odds; its policy is that of [`SPARSE`].
static ODDS: Option<Stored> = Stored::new(stored::ODDS);

/// What the program was built with. All but the default network, which every start reads, are packed by `build.rs`.
#[cfg(feature = "networks")]
mod stored {
    pub const DENSE: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/dense.gz")));
    pub const SPARSE: Option<&[u8]> = Some(scorn_network_sparse::SPARSE);
    pub const HUMAN: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/human.gz")));
    pub const ODDS: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/odds.gz")));
}

/// The program was built without networks.
#[cfg(not(feature = "networks"))]
mod stored {
    pub const DENSE: Option<&[u8]> = None;
    pub const SPARSE: Option<&[u8]> = None;
    pub const HUMAN: Option<&[u8]> = None;
    pub const ODDS: Option<&[u8]> = None;
}

/// The bytes of a network inside the program.
struct Stored {
    /// An ONNX model, or one packed by gzip.
    bytes: &'static [u8],
    /// What was packed, from its first use on.
    unpacked: OnceLock<Vec<u8>>,
}

impl Stored {
    const fn new(bytes: Option<&'static [u8]>) -> Option<Stored> {
        match bytes {
            None => None,
            Some(bytes) => Some(Stored {
                bytes,
                unpacked: OnceLock::new(),
            }),
        }
    }

    /// The ONNX model.
    fn onnx(&'static self) -> &'static [u8] {
        if !self.bytes.starts_with(&GZIP) {
            return self.bytes;
        }
        self.unpacked.get_or_init(|| {
            let mut onnx = Vec::new();
            // If the program's file is damaged, the network has too few bytes or wrong ones and is refused by name.
            let _ = GzDecoder::new(self.bytes).read_to_end(&mut onnx);
            onnx
        })
    }
}

/// A network inside the program.
pub(super) struct BuiltIn {
    /// Its name in messages.
    pub name: String,
    /// `None` if the program was built without it.
    stored: Option<&'static Stored>,
    /// The rating of the human players, if it predicts their moves.
    pub rating: Option<u32>,
    /// The network whose policy it has, if it holds a value only.
    policy: Option<&'static Stored>,
}

impl BuiltIn {
    /// Its ONNX model; `None` if the program was built without it.
    pub fn onnx(&self) -> Option<&'static [u8]> {
        self.stored.map(Stored::onnx)
    }

    /// The ONNX model of the network whose policy it has, if it holds a value only.
    pub fn policy(&self) -> Option<&'static [u8]> {
        self.policy.map(Stored::onnx)
    }
}

/// The network inside the program that `weights` names; `None` if `weights` names something else.
pub(super) fn find(weights: &str) -> Option<BuiltIn> {
    let (name, stored) = match weights.trim() {
        "" | BUILT_IN => ("built in", SPARSE.as_ref().or(DENSE.as_ref())),
        BUILT_IN_DENSE => ("built in, dense", DENSE.as_ref()),
        BUILT_IN_SPARSE => ("built in, sparse", SPARSE.as_ref()),
        BUILT_IN_ODDS => ("built in, for games at odds", ODDS.as_ref()),
        weights => {
            let rating = human_rating(weights)?;
            return Some(BuiltIn {
                name: format!("built in, human: a player rated {rating}"),
                stored: HUMAN.as_ref(),
                rating: Some(rating),
                policy: None,
            });
        }
    };
    Some(BuiltIn {
        name: name.to_owned(),
        stored,
        rating: None,
        policy: SPARSE.as_ref().filter(|_| weights.trim() == BUILT_IN_ODDS),
    })
}

/// Whether `weights` names a network inside the program; this build may be without it.
pub fn is_name(weights: &str) -> bool {
    find(weights).is_some()
}

/// Whether `weights` is in angle brackets, as the names of networks inside the program are, but names none.
pub(super) fn is_wrong_name(weights: &str) -> bool {
    let name = weights.trim();
    name.starts_with('<') && name.ends_with('>') && !is_name(name)
}

/// The names of the networks inside the program, for messages.
pub(super) fn names() -> String {
    let [least, most] =
        [HUMAN_RATINGS.start(), HUMAN_RATINGS.end()].map(|rating| human_name(*rating));
    format!(
        "{BUILT_IN}, {BUILT_IN_SPARSE}, {BUILT_IN_DENSE}, {BUILT_IN_ODDS} and {least} to {most}"
    )
}

/// Whether this build has models of human players.
pub fn has_humans() -> bool {
    HUMAN.is_some()
}

/// The bytes of the network inside the program that `weights` names: an ONNX model, or `None` within if the program was
/// built without it. `None` if `weights` names something else.
pub fn bytes(weights: &str) -> Option<Option<&'static [u8]>> {
    find(weights).map(|network| network.onnx())
}

/// Names of human models begin with this, have a rating and end with `>`.
const HUMAN_PREFIX: &str = "<built in human ";
/// The ratings that the model was trained on; others count as the nearest of these.
pub const HUMAN_RATINGS: RangeInclusive<u32> = RATINGS[0]..=RATINGS[RATINGS.len() - 1];

/// The value of `OpponentWeights` that means the model of human players of this rating.
pub fn human_name(rating: u32) -> String {
    format!("{HUMAN_PREFIX}{rating}>")
}

/// The rating in such a value, clamped to the range of the model; `None` if it is something else.
pub fn human_rating(weights: &str) -> Option<u32> {
    let rest = weights.trim().strip_prefix(HUMAN_PREFIX)?;
    let rating: u32 = rest.strip_suffix('>')?.trim().parse().ok()?;
    Some(rating.clamp(*HUMAN_RATINGS.start(), *HUMAN_RATINGS.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "networks")]
    #[test]
    fn networks_inside_the_program_are_those_of_the_files() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("networks");
        for (weights, file) in [
            (BUILT_IN, "sparse/scorn-sparse.onnx"),
            (BUILT_IN_DENSE, "scorn-dense.onnx"),
            (BUILT_IN_ODDS, "odds/scorn-odds.onnx"),
            (&human_name(1500), "human/scorn-human.onnx"),
        ] {
            let expected = std::fs::read(folder.join(file)).unwrap();
            let found = bytes(weights).unwrap().unwrap();
            assert!(found == expected, "{weights} is not {file}");
        }
        assert!(!is_name("networks/scorn-dense.onnx") && has_humans());
    }

    #[test]
    fn names_of_human_models_hold_their_rating() {
        assert_eq!(human_rating(&human_name(1400)), Some(1400));
        assert_eq!(human_rating(&human_name(700)), Some(1100));
        assert_eq!(human_rating(&human_name(2900)), Some(2600));
        for other in [
            "",
            "<built in>",
            "<built in human>",
            "<built in human x>",
            "1400",
        ] {
            assert_eq!(human_rating(other), None, "{other}");
            assert_eq!(is_wrong_name(other), other.starts_with("<built in human"));
        }
    }
}
