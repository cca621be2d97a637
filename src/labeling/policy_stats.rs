//! Statistics of self-play files: results and the searches' visits.

use std::{collections::HashMap, path::Path};

use anyhow::{Context, Result};

use crate::{
    chess::History,
    dataset::searched::{Searched, SearchedFile},
    labeling::policy::{self, NetworkAnswer},
    network::Evaluator,
    stats::policy::Policies,
};

/// Positions per batch of the network.
const BATCH: u64 = 256;

/// Counts the positions of a self-play file; with a network, also measures how far the visits differ from its policy.
///
/// # Errors
/// When the file cannot be read or is damaged, or the network fails.
pub fn count(path: &Path, network: Option<&dyn Evaluator>) -> Result<Policies> {
    let mut file = SearchedFile::open(path)?;
    let mut policies = Policies::default();
    let mut next = 0;
    while next < file.count {
        let end = file.count.min(next + BATCH);
        let some = (next..end).map(|index| file.get(index));
        let some = some.collect::<Result<Vec<_>>>()?;
        let priors = network.map(|network| priors(&some, network)).transpose();
        let priors = priors.with_context(|| path.display().to_string())?;
        for (index, searched) in some.iter().enumerate() {
            let visits: Vec<u32> = searched.moves.iter().map(|&(_, n)| n).collect();
            policies.add(&visits, priors.as_ref().map(|priors| &*priors[index]));
        }
        next = end;
    }
    Ok(policies)
}

/// A network's probabilities of the moves of each position, in their order.
fn priors(positions: &[Searched], network: &dyn Evaluator) -> Result<Vec<Vec<f32>>> {
    let histories = positions
        .iter()
        .map(|searched| Ok(History::new(searched.record.position()?)));
    let answers = policy::evaluate(&histories.collect::<Result<Vec<_>>>()?, network)?;
    let of_position = |(searched, answer): (&Searched, NetworkAnswer)| {
        let chances: HashMap<u16, f32> = answer.policy.into_iter().collect();
        let prior = |&(m, _): &(u16, u32)| chances.get(&m).copied().unwrap_or(0.0);
        searched.moves.iter().map(prior).collect()
    };
    Ok(positions.iter().zip(answers).map(of_position).collect())
}
