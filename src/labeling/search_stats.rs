//! Statistics of the searches in a self-play file, compared with a network without a search.

use std::{collections::HashMap, path::Path};

use anyhow::{Context, Result};

use crate::{
    chess::History,
    dataset::searched::{Searched, SearchedFile},
    labeling::policy::{self, NetworkAnswer},
    network::Evaluator,
    stats::policy::{Measured, NetworkOutput, Policies},
};

/// Positions per batch of the network.
const BATCH: u64 = 256;

/// Counts the positions of a self-play file; with a network, also measures how far visits and values differ from its
/// output.
///
/// # Errors
/// When the file cannot be read or is damaged, or the network fails.
pub fn count(path: &Path, network: Option<&dyn Evaluator>) -> Result<Policies> {
    let mut file = SearchedFile::open(path)?;
    let mut policies = Policies::default();
    // The positions of a game follow each other.
    let (mut game, mut searches) = (0, Vec::new());
    let mut next = 0;
    while next < file.count {
        let end = file.count.min(next + BATCH);
        let some = (next..end).map(|index| file.get(index));
        let some = some.collect::<Result<Vec<_>>>()?;
        let outputs = network.map(|network| outputs(&some, network)).transpose();
        let outputs = outputs.with_context(|| path.display().to_string())?;
        for (index, searched) in some.iter().enumerate() {
            if searched.record.game != game {
                policies.add_game(&searches);
                searches.clear();
                game = searched.record.game;
            }
            let visits: Vec<u32> = searched.moves.iter().map(|&(_, n)| n).collect();
            let output = outputs.as_ref().map(|outputs| &outputs[index]);
            let output = output.map(|(priors, wl)| NetworkOutput { priors, wl: *wl });
            let wl = f64::from(searched.wdl[0] - searched.wdl[2]);
            searches.extend(Measured::new(&visits, wl, output));
        }
        next = end;
    }
    policies.add_game(&searches);
    Ok(policies)
}

/// A network's probabilities of the moves of each position, in their order, and its W-L.
fn outputs(positions: &[Searched], network: &dyn Evaluator) -> Result<Vec<(Vec<f32>, f64)>> {
    let histories = positions
        .iter()
        .map(|searched| Ok(History::new(searched.record.game_position()?)));
    let answers = policy::evaluate(&histories.collect::<Result<Vec<_>>>()?, network)?;
    let of_position = |(searched, answer): (&Searched, NetworkAnswer)| {
        let chances: HashMap<u16, f32> = answer.policy.into_iter().collect();
        let prior = |&(m, _): &(u16, u32)| {
            let prior = chances.get(&m).copied();
            prior
                .context("the file is damaged: a move that was searched is illegal in its position")
        };
        let priors = searched.moves.iter().map(prior);
        Ok((priors.collect::<Result<_>>()?, f64::from(answer.value.wl)))
    };
    positions.iter().zip(answers).map(of_position).collect()
}
