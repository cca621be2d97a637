//! The results of a match, game by game, from the first player's point of view.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::Serialize;
use shakmaty::{Color, KnownOutcome};

use crate::stats::{
    elo::{Estimate, Games, Pairs},
    sprt::{Sprt, SprtVerdict},
};

/// The number of a game in the match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round {
    /// Index of the opening.
    pub pair: usize,
    /// 0: the first player has White; 1: Black.
    pub half: usize,
}

impl Round {
    /// The first player's colour.
    pub fn first_side(self) -> Color {
        Color::from_white(self.half == 0)
    }

    /// The number as text: `7.2` is the seventh opening with colours changed.
    pub fn text(self) -> String {
        format!("{}.{}", self.pair + 1, self.half + 1)
    }

    /// Parses such a text.
    pub fn parse(text: &str) -> Option<Round> {
        let (pair, half) = text.split_once('.')?;
        let index = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
        let round = Round {
            pair: index(pair)?,
            half: index(half)?,
        };
        (round.half < 2).then_some(round)
    }
}

/// A forfeited game.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForfeitNote {
    /// The number of the game.
    pub round: String,
    /// The player that forfeited: `first` or `second`.
    pub player: &'static str,
    /// The reason.
    pub details: String,
}

/// The score of a match after some games.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Games played.
    pub games: u64,
    /// The estimate of strength.
    pub estimate: Option<Estimate>,
    /// The test's log likelihood ratio, if there is a test.
    pub ratio: Option<f64>,
}

/// All results.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Whether openings are played with both colours, so that pairs count.
    is_paired: bool,
    /// Half points of the first player.
    results: BTreeMap<Round, usize>,
    /// Rounds in the order in which their games ended.
    order: Vec<Round>,
    /// Games lost, drawn and won.
    games: Games,
    /// Complete pairs of games by points.
    pairs: Pairs,
    /// Of those with one point, the ones with a win and a loss, and the ones with two draws.
    even_pairs: [u64; 2],
    /// Forfeited games.
    pub forfeits: Vec<ForfeitNote>,
    /// Number of games by reason of their end, without details.
    pub endings: BTreeMap<String, u64>,
    /// The test and its first decision: later games do not change it.
    sprt: Option<Sprt>,
    verdict: SprtVerdict,
}

impl Tally {
    /// An empty tally.
    pub fn new(is_paired: bool, sprt: Option<Sprt>) -> Tally {
        Tally {
            is_paired,
            sprt,
            verdict: SprtVerdict::Continue,
            results: BTreeMap::new(),
            order: Vec::new(),
            games: Games::default(),
            pairs: Pairs::default(),
            even_pairs: [0; 2],
            forfeits: Vec::new(),
            endings: BTreeMap::new(),
        }
    }

    /// Adds a game; a second result of the same game is ignored.
    pub fn add(&mut self, round: Round, outcome: KnownOutcome, ending: &str, is_forfeit: bool) {
        let points = match outcome.winner() {
            None => 1,
            Some(winner) if winner == round.first_side() => 2,
            Some(_) => 0,
        };
        if !self.count(round, points) {
            return;
        }
        self.order.push(round);
        if !self.is_decided()
            && let Some(sprt) = self.sprt
            && let Some(ratio) = self.standing().ratio
        {
            self.verdict = sprt.verdict(ratio);
        }
        if is_forfeit {
            self.forfeits.push(ForfeitNote {
                round: round.text(),
                player: if points == 0 { "first" } else { "second" },
                details: ending.to_owned(),
            });
        }
        let ending = if is_forfeit { "forfeit" } else { ending };
        *self.endings.entry(ending.to_owned()).or_default() += 1;
    }

    /// Adds a result to the sums; `false` if this game has one.
    fn count(&mut self, round: Round, points: usize) -> bool {
        let Entry::Vacant(place) = self.results.entry(round) else {
            return false;
        };
        place.insert(points);
        self.games.0[points] += 1;
        let other = Round {
            half: 1 - round.half,
            ..round
        };
        if let Some(&more) = self.results.get(&other) {
            self.pairs.0[points + more] += 1;
            if points + more == 2 {
                self.even_pairs[usize::from(points == 1)] += 1;
            }
        }
        true
    }

    /// The test that may stop the match.
    pub fn sprt(&self) -> Option<&Sprt> {
        self.sprt.as_ref()
    }

    /// The first decision of the test, if there is one.
    pub fn verdict(&self) -> SprtVerdict {
        self.verdict
    }

    /// Whether the test, if there is one, has decided.
    pub fn is_decided(&self) -> bool {
        self.verdict != SprtVerdict::Continue
    }

    /// Whether a game was played.
    pub fn has(&self, round: Round) -> bool {
        self.results.contains_key(&round)
    }

    /// Whether games are counted in pairs.
    pub fn is_paired(&self) -> bool {
        self.is_paired
    }

    /// Games lost, drawn and won.
    pub fn games(&self) -> Games {
        self.games
    }

    /// Complete pairs of games by points.
    pub fn pairs(&self) -> Pairs {
        self.pairs
    }

    /// Of the complete pairs with one point, those with a win and a loss, and those with two draws.
    pub fn even_pairs(&self) -> [u64; 2] {
        self.even_pairs
    }

    /// The score of the match.
    pub fn standing(&self) -> Standing {
        let sprt = self.sprt.as_ref();
        let (estimate, ratio) = if self.is_paired {
            let pairs = self.pairs();
            (pairs.estimate(), sprt.map(|sprt| sprt.ratio(&pairs)))
        } else {
            let games = self.games();
            (games.estimate(), sprt.map(|sprt| sprt.ratio(&games)))
        };
        Standing {
            games: self.results.len() as u64,
            estimate,
            ratio,
        }
    }

    /// The score after each game, for at most `max_points` of them.
    pub fn course(&self, max_points: usize) -> Vec<Standing> {
        let mut past = Tally::new(self.is_paired, self.sprt);
        let step = self.order.len().div_ceil(max_points.max(1)).max(1);
        let mut course = Vec::new();
        for (index, &round) in self.order.iter().enumerate() {
            past.count(round, self.results[&round]);
            let is_last = index + 1 == self.order.len();
            if is_last || (index + 1).is_multiple_of(step) {
                course.push(past.standing());
            }
        }
        course
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: KnownOutcome = KnownOutcome::Decisive {
        winner: Color::White,
    };
    const BLACK: KnownOutcome = KnownOutcome::Decisive {
        winner: Color::Black,
    };

    #[test]
    fn colours_change_within_a_pair_and_incomplete_pairs_wait() {
        let mut tally = Tally::new(true, Some("0,10,0.05,0.05".parse().unwrap()));
        let mut add = |pair, half, outcome| {
            tally.add(Round { pair, half }, outcome, "checkmate", false);
        };
        add(0, 0, WHITE);
        add(0, 1, BLACK);
        add(1, 1, WHITE);
        add(2, 0, KnownOutcome::Draw);
        add(2, 1, BLACK);
        // A second result is ignored.
        add(2, 1, WHITE);
        assert_eq!(tally.games().0, [1, 1, 3]);
        assert_eq!(tally.pairs().0, [0, 0, 0, 1, 1]);
        assert_eq!(tally.even_pairs(), [0, 0]);
        assert_eq!(tally.endings["checkmate"], 5);
        let course = tally.course(100);
        assert_eq!(course.len(), 5);
        assert_eq!(course[0].estimate, None);
        assert_eq!(course[4], tally.standing());
        assert_eq!(tally.course(2).len(), 2);
    }

    #[test]
    fn even_pairs_are_told_apart() {
        let mut tally = Tally::new(true, None);
        for (pair, results) in [
            [WHITE, WHITE],
            [KnownOutcome::Draw; 2],
            [BLACK, BLACK],
            [BLACK, WHITE],
            [WHITE, KnownOutcome::Draw],
        ]
        .into_iter()
        .enumerate()
        {
            for (half, outcome) in results.into_iter().enumerate() {
                tally.add(Round { pair, half }, outcome, "checkmate", false);
            }
        }
        assert_eq!(tally.even_pairs(), [2, 1]);
    }

    #[test]
    fn a_decided_test_stays_decided() {
        let sprt: Sprt = "0,100,0.2,0.2".parse().unwrap();
        let mut tally = Tally::new(false, Some(sprt));
        let add = |tally: &mut Tally, outcome| {
            let pair = tally.order.len();
            tally.add(Round { pair, half: 0 }, outcome, "checkmate", false);
        };
        while tally.verdict() == SprtVerdict::Continue {
            let is_fourth = tally.order.len().is_multiple_of(4);
            add(
                &mut tally,
                if is_fourth { KnownOutcome::Draw } else { WHITE },
            );
        }
        assert_eq!(tally.verdict(), SprtVerdict::H1);
        for _ in 0..50 {
            add(&mut tally, BLACK);
        }
        let ratio = tally.standing().ratio.unwrap();
        assert_eq!(
            (tally.verdict(), sprt.verdict(ratio)),
            (SprtVerdict::H1, SprtVerdict::H0)
        );
    }

    #[test]
    fn rounds_read_back() {
        let round = Round { pair: 6, half: 1 };
        assert_eq!(round.text(), "7.2");
        assert_eq!(Round::parse("7.2"), Some(round));
        assert_eq!(round.first_side(), Color::Black);
        for text in ["", "7", "0.1", "1.0", "1.3", "x.1"] {
            assert_eq!(Round::parse(text), None, "{text}");
        }
    }
}
