//! The odds autopilot: which options suit a game, by the odds that its start gives, the engine's colour, the opponent's
//! rating and the clock.
//!
//! A [`Signature`] is what the start's material says about the odds; a file of [`Profiles`] says which options follow
//! from it. Nothing here sets them: the engine does, as far as the user has not.

mod profiles;
mod signature;

pub use self::{
    profiles::{BUILT_IN, OFF, OddsFacts, ProfileError, Profiles, ResolvedProfiles, name_of_maia},
    signature::{Signature, SignatureError},
};
