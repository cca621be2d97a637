//! The opponents of a review: models of human players, by the rating of each side.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result};
use shakmaty::Color;

use super::input::Item;
use crate::{
    chess::{History, PackedMove},
    network::{
        backend::needs_network,
        cached::NetworkSettings,
        evaluator::evaluate_all,
        opponent::Role,
        source::built_in::{HUMAN_RATINGS, has_humans, human_name, human_rating},
    },
    options::Options,
    player::{Load, Player},
};

/// Models are made for ratings in steps of this.
const RATING_STEP: u32 = 100;
/// The rating of players whose rating is not known.
const UNKNOWN_RATING: u32 = 1900;

/// Models of players, loaded when they are first needed. Each is a player for the other side: the same networks, with
/// the model as its opponent.
pub struct Opponents {
    base: Player,
    load: Load,
    players: HashMap<String, Player>,
}

impl Opponents {
    /// Models beside this player's networks; `None` if its backend evaluates no networks, or if no model is named and
    /// the program was built without models.
    pub fn new(base: Player, load: Load) -> Option<Opponents> {
        let is_named = Role::Opponent.weights(&base.options).is_some();
        let has_models = is_named || has_humans();
        (needs_network(&base.options.backend) && has_models).then(|| Opponents {
            base,
            load,
            players: HashMap::new(),
        })
    }

    /// The player whose opponent is the model of one side of a position.
    ///
    /// # Errors
    /// When the model cannot be loaded.
    pub fn against(&mut self, item: &Item, side: Color) -> Result<&Player> {
        let weights = weights(&self.base.options, item, side);
        match self.players.entry(weights) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let player = with_opponent(&self.base, &self.load, new.key())?;
                Ok(new.insert(player))
            }
        }
    }

    /// Who models one side of a position, in words, and the rating of that player, as far as it is known.
    pub fn describe(&self, item: &Item, side: Color) -> (String, u32) {
        let options = &self.base.options;
        let model = described(&weights(options, item, side));
        (model, rating(options, item, side))
    }

    /// The moves that the model of the side to move plays after `history`, a game with the players of `item`, and
    /// their probabilities. Empty if there is no legal move.
    ///
    /// # Errors
    /// When the model cannot be loaded or fails.
    pub fn policy(&mut self, item: &Item, history: &History) -> Result<Vec<(PackedMove, f32)>> {
        let side = shakmaty::Position::turn(history.position());
        let player = self.against(item, side)?;
        let Some(model) = &player.networks.opponent else {
            return Ok(Vec::new());
        };
        let evaluated = evaluate_all(&**model, [history.plies()])?;
        let pairs = evaluated
            .into_iter()
            .flat_map(|found| found.moves.into_iter().zip(found.priors));
        Ok(pairs.collect())
    }
}

/// The value of `OpponentWeights` for one side of a game: what the options name, or the model of its rating.
pub fn weights(options: &Options, item: &Item, side: Color) -> String {
    if let Some(named) = Role::Opponent.weights(options) {
        return named;
    }
    let rating = rating_in(item, side).unwrap_or(UNKNOWN_RATING);
    let rating = rating.clamp(*HUMAN_RATINGS.start(), *HUMAN_RATINGS.end());
    human_name((rating + RATING_STEP / 2) / RATING_STEP * RATING_STEP)
}

/// A model in words: `a player rated 1500`, or the name of a network's file, without its folder: comments and pages are
/// published.
pub fn described(weights: &str) -> String {
    match (human_rating(weights), Path::new(weights).file_name()) {
        (Some(rating), _) => format!("a player rated {rating}"),
        (None, Some(name)) => name.to_string_lossy().into_owned(),
        (None, None) => weights.to_owned(),
    }
}

/// The rating of the modelled player of one side, as far as it is known.
pub fn rating(options: &Options, item: &Item, side: Color) -> u32 {
    let modelled = human_rating(&weights(options, item, side));
    modelled.or(rating_in(item, side)).unwrap_or(UNKNOWN_RATING)
}

/// The rating of one side by the game's tags.
fn rating_in(item: &Item, side: Color) -> Option<u32> {
    let name = side.fold_wb("WhiteElo", "BlackElo");
    let rating = item.game.as_ref()?.tag(name)?.trim().parse::<u32>().ok();
    // Databases write 0 for an unknown rating.
    rating.filter(|&rating| rating > 0)
}

/// A player with the same networks whose opponent is this one.
fn with_opponent(base: &Player, load: &Load, weights: &str) -> Result<Player> {
    let mut options = (*base.options).clone();
    weights.clone_into(&mut options.opponent_weights);
    let mut player = base.clone();
    let is_loaded = Role::Opponent.weights(&base.options).as_deref() == Some(weights);
    if !is_loaded || player.networks.opponent.is_none() {
        let backend = load(&options, Role::Opponent)
            .with_context(|| format!("the model of the opponent, {weights}"))?;
        let model = NetworkSettings::of(&options, Role::Opponent).over(backend);
        player.networks.opponent = Some(model);
    }
    player.options = Arc::new(options);
    Ok(player)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::input::{from_pgn, tests::file};

    #[test]
    fn the_rating_of_a_side_selects_its_model() {
        let game = file("[WhiteElo \"1449\"]\n[BlackElo \"2701\"]\n\n1. e4 *\n");
        let item = from_pgn(&[game.path()]).unwrap().next().unwrap().unwrap();
        let mut options = Options::default();
        let of = |options: &Options, side| weights(options, &item, side);
        assert_eq!(of(&options, Color::White), human_name(1400));
        assert_eq!(of(&options, Color::Black), human_name(2600));
        options.set("OpponentRating", "1250").unwrap();
        assert_eq!(of(&options, Color::White), human_name(1250));
        options.set("OpponentWeights", "maia.pb.gz").unwrap();
        assert_eq!(of(&options, Color::Black), "maia.pb.gz");
        // A model that is named has the rating of the tag, unless it is the model of a rating.
        assert_eq!(rating(&options, &item, Color::White), 1449);
        options.set("OpponentWeights", "").unwrap();
        assert_eq!(rating(&options, &item, Color::White), 1250);
        let unrated = crate::analysis::input::from_fen("startpos").unwrap();
        let of_unrated = weights(&Options::default(), &unrated, Color::White);
        assert_eq!(of_unrated, human_name(1900));
    }

    #[test]
    fn a_model_is_described_without_its_folder() {
        assert_eq!(described(&human_name(1500)), "a player rated 1500");
        assert_eq!(described("nets/maia-1100.pb.gz"), "maia-1100.pb.gz");
        assert_eq!(described("<built in dense>"), "<built in dense>");
    }
}
