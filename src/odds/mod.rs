//! The odds autopilot: options that depend on the odds given in a game's starting position, the engine's colour, the
//! opponent's rating and the clock.
//!
//! A [`Signature`] describes the odds by the material of the starting position; a file of [`Profiles`] names the
//! options to set for it. The engine sets them, unless the user or the configuration file has done so.

mod profiles;
mod signature;

pub use self::{
    profiles::{
        BUILT_IN, NetworkChoice, OFF, OddsFacts, ProfileError, Profiles, ResolvedProfiles,
        name_for_rating,
    },
    signature::{Signature, SignatureError},
};
