//! What the searches of recorded positions came to: self-play's files of visits, counted like games.

use std::{collections::HashMap, path::Path};

use anyhow::{Context, Result};
use shakmaty::Position;

use super::policy::Policies;
use crate::{
    chess::{History, PackedMove, moves::legal_moves},
    dataset::{
        record::Record,
        searched::{Searched, SearchedFile},
    },
    network::{Batch, Evaluator},
};

/// Positions that are put to a network together.
const BATCH: u64 = 256;

/// Counts the positions of a file of visits; with a network, also how far the visits moved away from its policy.
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

/// What a network gives the moves of each position, in their order.
fn priors(positions: &[Searched], network: &dyn Evaluator) -> Result<Vec<Vec<f32>>> {
    let mut batch = Batch::default();
    let mut codes = Vec::new();
    for searched in positions {
        let history = History::new(searched.record.position()?);
        let moves: Vec<PackedMove> = legal_moves(history.position()).collect();
        let (position, turn) = (history.position(), history.position().turn());
        let code = |m: &PackedMove| Record::pack_move(m.unpack(position), turn);
        codes.push(moves.iter().map(code).collect::<Vec<u16>>());
        network.queue(history.plies(), &moves, &mut batch);
    }
    network.evaluate(&mut batch)?;
    let of_position = |(index, searched): (usize, &Searched)| {
        let chances = codes[index].iter().zip(batch.policy(index));
        let chances: HashMap<u16, f32> = chances.map(|(&code, &p)| (code, p)).collect();
        let prior = |&(m, _): &(u16, u32)| chances.get(&m).copied().unwrap_or(0.0);
        searched.moves.iter().map(prior).collect()
    };
    Ok(positions.iter().enumerate().map(of_position).collect())
}
