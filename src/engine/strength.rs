//! The strength limit (`UCI_LimitStrength`, `UCI_Elo`): fewer nodes, and at low ratings moves that are drawn instead of
//! chosen. With networks that predict human moves (`HumanWeights`), the policy of the one with the nearest rating plays
//! instead. `docs/strength.md` describes how the levels were measured.

use crate::{odds, options::Options};

/// How the engine plays at a rating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StrengthLevel {
    /// The rating, on the scale of Stockfish's `UCI_Elo`.
    pub elo: u32,
    /// Nodes per move.
    pub nodes: u64,
    /// Temperature of the played move.
    pub temperature: f32,
}

/// The levels, from games against Stockfish (`docs/strength.md`). Between two rows nodes are interpolated geometrically
/// and temperatures linearly, except between the last row of one node and the next, where the former holds: with two or
/// three nodes only one move has visits, so no temperature would vary the play. `UCI_Elo` has the range of this table.
pub const LEVELS: [StrengthLevel; 8] = [
    level(1200, 1, 0.37),
    level(1340, 1, 0.2),
    level(1350, 4, 0.72),
    level(1500, 7, 0.52),
    level(1700, 28, 0.37),
    level(1900, 160, 0.21),
    level(2000, 450, 0.12),
    level(2200, 7000, 0.0),
];

/// Maximum rating at which networks that predict human moves are strong enough.
const MAX_HUMAN_ELO: u32 = 1950;

const fn level(elo: u32, nodes: u64, temperature: f32) -> StrengthLevel {
    StrengthLevel {
        elo,
        nodes,
        temperature,
    }
}

/// The level at `elo`, which is clamped to the table.
pub fn at(elo: u32) -> StrengthLevel {
    let elo = elo.clamp(LEVELS[0].elo, LEVELS[LEVELS.len() - 1].elo);
    let pair = LEVELS.windows(2).find(|pair| elo <= pair[1].elo);
    let Some([low, high]) = pair else {
        return LEVELS[LEVELS.len() - 1];
    };
    if low.nodes == 1 && high.nodes > 1 && elo < high.elo {
        return StrengthLevel { elo, ..*low };
    }
    let share = f64::from(elo - low.elo) / f64::from(high.elo - low.elo);
    let nodes = (low.nodes as f64).powf(1.0 - share) * (high.nodes as f64).powf(share);
    StrengthLevel {
        elo,
        nodes: nodes.round() as u64,
        temperature: (1.0 - share as f32) * low.temperature + share as f32 * high.temperature,
    }
}

/// Whether the strength is limited. An analysis never is.
pub(super) fn is_limited(options: &Options) -> bool {
    options.limit_strength && !options.analyse_mode
}

/// The network that predicts human moves and plays in place of `WeightsFile`, if the limit uses one.
pub(super) fn human_network(options: &Options) -> Option<String> {
    (is_limited(options) && options.elo <= MAX_HUMAN_ELO)
        .then(|| odds::name_for_rating(&options.human_weights, options.elo))
        .filter(|name| !name.is_empty())
}

/// Applies the limit to the options if there is one.
pub(super) fn limit(options: &mut Options) {
    if !is_limited(options) {
        return;
    }
    let level = match human_network(options) {
        Some(name) => {
            options.weights_file = name;
            options.policy_temperature = 1.0;
            level(options.elo, 1, 0.0)
        }
        None => at(options.elo),
    };
    options.node_limit = match options.node_limit {
        0 => level.nodes,
        limit => limit.min(level.nodes),
    };
    options.nodes_as_playouts = true;
    // The levels were measured without them.
    options.refine_weights.clear();
    options.check_bonus = 0.0;
    options.butterfly_history = 0.0;
    options.certainty_prop = 0;
    options.auto_extend = false;
    if level.temperature > 0.0 {
        options.temperature = level.temperature;
        options.temp_decay_moves = 0;
        options.temp_cutoff_move = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strength_rises_with_the_rating() {
        let mut last = at(0);
        assert_eq!(last, LEVELS[0]);
        for elo in 1200..=2200 {
            let level = at(elo);
            // With one node the temperature is that of the policy, with more that of the visits.
            let is_cooler = level.temperature <= last.temperature;
            assert!(level.nodes > last.nodes || (level.nodes == last.nodes && is_cooler));
            // With two or three nodes a single move has visits.
            assert!(![2, 3].contains(&level.nodes), "{elo}");
            last = level;
        }
        assert_eq!(at(9999), LEVELS[LEVELS.len() - 1]);
        assert_eq!(at(1500), LEVELS[3]);
        assert_eq!(at(1450).nodes, 6);
        for row in Options::default().rows() {
            if row.name == "UCI_Elo" {
                let (low, high) = (LEVELS[0].elo, LEVELS[LEVELS.len() - 1].elo);
                assert_eq!(row.range(), format!("{low} to {high}"));
            }
        }
    }

    #[test]
    fn what_the_levels_were_measured_without_is_off() {
        let mut options = Options {
            limit_strength: true,
            check_bonus: 0.05,
            butterfly_history: 8.0,
            refine_weights: "<built in dense>".to_owned(),
            certainty_prop: 2,
            auto_extend: true,
            ..Options::default()
        };
        limit(&mut options);
        assert_eq!((options.check_bonus, options.butterfly_history), (0.0, 0.0));
        assert_eq!((options.certainty_prop, options.auto_extend), (0, false));
        assert_eq!(options.refine_weights, "");
    }

    #[test]
    fn a_network_of_human_moves_plays_at_ratings_that_it_covers() {
        let mut options = Options::default();
        options.set("UCI_Elo", "1440").unwrap();
        options
            .set("HumanWeights", "nets/maia-{maia}.pb.gz")
            .unwrap();
        let before = options.clone();
        limit(&mut options);
        assert_eq!(options, before, "nothing without UCI_LimitStrength");
        options.set("UCI_LimitStrength", "true").unwrap();
        let mut strong = options.clone();
        limit(&mut options);
        assert_eq!(options.weights_file, "nets/maia-1400.pb.gz");
        assert_eq!((options.node_limit, options.temperature), (1, 0.0));
        strong.set("UCI_Elo", "2100").unwrap();
        strong.set("RefineWeights", "<built in dense>").unwrap();
        strong.set("NodeLimit", "70").unwrap();
        limit(&mut strong);
        assert_eq!(strong.weights_file, Options::default().weights_file);
        assert_eq!((strong.node_limit, &*strong.refine_weights), (70, ""));
        let mut analysis = before;
        analysis.limit_strength = true;
        analysis.analyse_mode = true;
        let unlimited = analysis.clone();
        limit(&mut analysis);
        assert_eq!(analysis, unlimited);
    }
}
