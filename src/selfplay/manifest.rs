//! The manifest of a run: everything that determines its games, so that they can be reproduced.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use shakmaty::{EnPassantMode, Position, fen::Fen};

use super::{
    plan::{Colors, Contestant, Plan, Starts},
    store::COMMIT,
};
use crate::{
    chess::{History, moves::legal_moves, setup},
    game::openings::Opening,
    hashing::hex,
    network::{
        Batch, Evaluator,
        backend::needs_network,
        compose::role::{Role, why_idle},
        load::identity::identities,
        source::network::AUTODISCOVER,
    },
    options::{Effect, OptionRow, Options},
    version,
};
use sha2::{Digest, Sha256};

/// Options that do not affect the games but have always been in manifests: a run can be resumed only with the
/// manifest that it was started with.
const ALWAYS_RECORDED: [&str; 3] = ["OpponentRating", "StrictTiming", "TimeManager"];

/// Whether the manifest contains an option of a player: one that affects the games. The seed belongs to the run.
fn is_recorded(row: &OptionRow) -> bool {
    match row.effect {
        Effect::Play => row.name != "Seed",
        _ => ALWAYS_RECORDED.contains(&row.name),
    }
}

/// The manifest of a plan, without the fields that depend on more than the plan.
///
/// # Errors
/// When a network cannot be read.
pub fn of(plan: &Plan) -> Result<Map<String, Value>> {
    let mut manifest = Map::new();
    let mut set = |name: &str, value: Value| {
        manifest.insert(name.to_owned(), value);
    };
    set("program", json!(format!("scorn {}", version::VERSION)));
    if let Some(commit) = version::COMMIT {
        set(COMMIT, json!(commit));
    }
    set("seed", json!(plan.seed));
    set("a", player(&plan.players[0])?);
    set("b", player(&plan.players[1])?);
    let colors = match plan.colors {
        Colors::Fixed(color) => color.to_string(),
        Colors::Both => "both".to_owned(),
    };
    set("a_plays", json!(colors));
    set("starts", starts(&plan.starts));
    set("terms", terms(plan));
    // The backend that `auto` selected: another backend would produce other games.
    let backends = plan
        .evaluators
        .iter()
        .map(|evaluator| backend_of(&**evaluator));
    set("backends", backends.collect());
    let networks = evaluating_networks(plan).into_iter();
    let invariant = networks.map(|network| is_batch_invariant(&**network));
    let invariant = invariant.collect::<Result<Vec<bool>>>()?;
    set(
        "evaluations_depend_on_the_batch",
        json!(!invariant.into_iter().all(|is| is)),
    );
    Ok(manifest)
}

/// The networks that evaluate positions of the games, each once.
fn evaluating_networks(plan: &Plan) -> Vec<&Arc<dyn Evaluator>> {
    let mut found: Vec<&Arc<dyn Evaluator>> = Vec::new();
    for player in &plan.players {
        let networks = player.networks();
        let is_modelled = why_idle(&player.options).is_none();
        let opponent = networks.opponent.iter().filter(|_| is_modelled);
        for network in opponent.chain([&networks.main]) {
            if !found.iter().any(|known| Arc::ptr_eq(known, network)) {
                found.push(network);
            }
        }
    }
    found
}

/// The backend's name, with which its description begins.
fn backend_of(evaluator: &dyn Evaluator) -> String {
    let description = evaluator.info().description;
    let name = description.split([' ', ';']).next();
    name.unwrap_or_default().to_owned()
}

fn player(player: &Contestant) -> Result<Value> {
    let options: Map<String, Value> = player
        .options
        .rows()
        .into_iter()
        .filter(is_recorded)
        .map(|row| (row.name.to_owned(), json!(row.value)))
        .collect();
    let [main, opponent, refiner] = networks(&player.options)?;
    Ok(json!({
        "name": player.name,
        "nodes": player.nodes,
        "network": main.unwrap_or_else(|| "none: the hash evaluator".to_owned()),
        "opponent_network": opponent,
        "refine_network": refiner,
        "tables": player.tables.as_ref().map(|tables| tables.describe()),
        "options": options,
    }))
}

/// The identities of the networks (see [`identities`]).
fn networks(options: &Options) -> Result<[Option<String>; 3]> {
    let is_found = |role: Role| {
        let named = role.weights(options).filter(|_| role.is_wanted(options));
        named.is_some_and(|weights| weights.trim() == AUTODISCOVER)
    };
    ensure!(
        !needs_network(&options.backend) || !Role::ALL.into_iter().any(is_found),
        "a run must name its network: {AUTODISCOVER} may find another one next time"
    );
    Ok(identities(options)?)
}

fn starts(starts: &Starts) -> Value {
    let mut hash = Sha256::new();
    for opening in starts.all() {
        hash.update(opening_text(opening));
        hash.update("\n");
    }
    let openings = starts.all();
    let kind = match starts {
        Starts::Book(_) => "book",
        Starts::Odds(_) => "odds",
    };
    json!({
        "kind": kind,
        "count": openings.len(),
        "first": openings.first().map(opening_text),
        "sha256": hex(&hash.finalize()),
    })
}

/// FEN and moves.
fn opening_text(opening: &Opening) -> String {
    let mut text = Fen::from_position(&opening.start, EnPassantMode::Legal).to_string();
    let mut position = opening.start.clone();
    for &m in &opening.moves {
        text += " ";
        text += &setup::move_text(&position, m, true);
        let m = m.unpack(&position);
        position.play_unchecked(m);
    }
    text
}

fn terms(plan: &Plan) -> Value {
    let terms = &plan.terms;
    let rules = &terms.rules;
    json!({
        "win": rules.win.map(|rule| json!({ "plies": rule.plies, "value": rule.value })),
        "draw": rules.draw.map(|rule| {
            json!({ "from_move": rule.from_move, "plies": rule.plies, "value": rule.value })
        }),
        "longest": rules.max_plies,
        "tables": rules.tables.as_ref().map(|tables| tables.describe()),
        "resign": terms.resign.map(|resign| {
            json!({ "below": resign.below, "playthrough": resign.playthrough })
        }),
        "random": terms.random.map(|random| {
            json!({ "plies": random.plies, "share": random.share })
        }),
        "cap": terms.cap.map(|cap| json!({ "nodes": cap.nodes, "full": cap.full })),
        "reuse_tree": terms.reuse_tree,
    })
}

/// Tests whether a position gets bit-identical values alone and in a larger batch.
fn is_batch_invariant(evaluator: &dyn Evaluator) -> Result<bool> {
    let mut game = History::default();
    let mut games = vec![game.clone()];
    for index in 0..20 {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let Some(&m) = moves.get((7 * index + 3) % moves.len().max(1)) else {
            break;
        };
        game.push(m);
        games.push(game.clone());
    }
    let evaluated = |games: &[History]| -> Result<Vec<(Vec<f32>, [f32; 3])>> {
        let mut batch = Batch::default();
        for game in games {
            let moves: Vec<_> = legal_moves(game.position()).collect();
            evaluator.view().queue(game.plies(), &moves, &mut batch);
        }
        evaluator.evaluate(&mut batch)?;
        let answer = |index| {
            let value = batch.value(index);
            (batch.policy(index).to_vec(), [value.wl, value.d, value.m])
        };
        Ok((0..games.len()).map(answer).collect())
    };
    let together = evaluated(&games)?;
    for size in [1, 2, 5, 8] {
        let mut apart = Vec::new();
        for some in games.chunks(size) {
            apart.extend(evaluated(some)?);
        }
        if apart != together {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::network::{
        EvaluateError,
        hash::HashEvaluator,
        load::{NetworkConfig, load_backend},
        source::built_in::human_name,
    };

    /// Rounds differently in batches of at least this many positions.
    struct Rounding {
        from: usize,
        largest: AtomicUsize,
    }

    impl Evaluator for Rounding {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            HashEvaluator.evaluate(batch)?;
            self.largest.fetch_max(batch.len(), Ordering::Relaxed);
            if batch.len() >= self.from {
                let value = batch.value(0);
                let wl = f32::from_bits(value.wl.to_bits() + 1);
                batch.set_value(0, crate::network::Value { wl, ..value });
            }
            Ok(())
        }
    }

    #[test]
    fn batch_dependent_rounding_is_detected() {
        let check = |from| {
            let evaluator = Rounding {
                from,
                largest: AtomicUsize::new(0),
            };
            let is_invariant = is_batch_invariant(&evaluator).unwrap();
            (is_invariant, evaluator.largest.into_inner())
        };
        for from in [2, 3, 6, 9, 20] {
            assert!(!check(from).0, "from {from} on");
        }
        assert_eq!(check(usize::MAX), (true, 21));
        let config = NetworkConfig {
            backend: "sparse".into(),
            ..NetworkConfig::from(&Options::default())
        };
        let sparse = load_backend(&config, &|_| {}).unwrap();
        assert!(is_batch_invariant(&*sparse).unwrap());
    }

    #[test]
    fn human_models_of_other_ratings_have_other_identities() {
        let of_people = |rating| {
            let options = Options {
                weights_file: human_name(rating),
                ..Options::default()
            };
            networks(&options).unwrap()
        };
        let [weaker, stronger] = [1200, 1400].map(of_people);
        assert_ne!(weaker, stronger);
        let beyond = [2600, 2900].map(of_people);
        assert_eq!(beyond[0], beyond[1]);
    }
}
