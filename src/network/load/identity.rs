//! Which files and bytes the networks of the options are: what results depend on, and what must not be overwritten.

use std::path::PathBuf;

use crate::{
    network::{
        backend::needs_network,
        compose::role::Role,
        source::{
            WeightsError, built_in,
            network::{file_of, sha256_of},
        },
    },
    options::Options,
};

/// The SHA-256 of the network that `weights` names; for a model of human players, also their rating. Of a network
/// inside the program that holds a value only, the policy belongs to the program's version.
///
/// # Errors
/// When there is no such file.
fn identity(weights: &str) -> Result<String, WeightsError> {
    let file = sha256_of(weights)?;
    Ok(match built_in::human_rating(weights) {
        None => file,
        Some(rating) => format!("{file} for rating {rating}"),
    })
}

/// The identities of the networks that the options name, one for each of [`Role::ALL`]; `None` for networks that are
/// not used.
///
/// # Errors
/// When there is no such file.
pub fn identities(options: &Options) -> Result<[Option<String>; 3], WeightsError> {
    let [main, opponent, refiner] = Role::ALL.map(|role| {
        let is_used = role.is_wanted(options) && needs_network(&options.backend);
        let named = role.weights(options).filter(|_| is_used);
        named.map(|weights| identity(&weights)).transpose()
    });
    Ok([main?, opponent?, refiner?])
}

/// The files of the networks that the options name: commands that read them must not write them.
pub fn files_of(options: &Options) -> Vec<PathBuf> {
    let named = Role::ALL
        .into_iter()
        .filter_map(|role| role.weights(options));
    named
        .filter(|weights| !built_in::is_name(weights))
        .filter_map(|weights| file_of(&weights).ok())
        .collect()
}
