//! Search-contempt data of a tree: the rule by which nodes freeze, and the frozen counts.
//!
//! Few nodes have a record, so records are in an arena of their own and cost other nodes nothing.
//! [`crate::search::search_contempt`] creates them and draws replies from them.

use shakmaty::Color;

use crate::options::{RatioSchedule, ScSampling, SearchOptions};

/// Which nodes freeze, when, and how replies are drawn afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Nodes at which this side moves freeze (the root excepted).
    pub side: Color,
    /// The number of completed child visits at which they freeze, at least 1.
    pub limit: u32,
    /// Draws are in proportion to count^(1/temperature); 0 draws the most visited child only.
    pub temperature: f32,
    /// How draws are made.
    pub sampling: ScSampling,
    /// Which of the visits draw.
    pub draws: DrawRatio,
}

/// The share of a frozen node's visits that draw a reply; the others search.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawRatio {
    /// Without a schedule.
    pub constant: f32,
    /// By the visits of the node.
    pub schedule: RatioSchedule,
}

impl DrawRatio {
    /// All visits draw.
    pub const ALL: DrawRatio = DrawRatio {
        constant: 1.0,
        schedule: RatioSchedule::EMPTY,
    };

    /// The share at a node with this number of visits.
    pub fn at(&self, visits: u32) -> f32 {
        self.schedule.at(visits).unwrap_or(self.constant)
    }
}

impl Rule {
    /// The rule that `ScLimit`, `ScTemperature` and `ScSampling` make for a contempt side; `None` for plain PUCT.
    pub fn new(options: &SearchOptions, contempt_side: Option<Color>) -> Option<Rule> {
        let contempt_side = contempt_side?;
        if options.is_plain_puct() {
            return None;
        }
        let side = if options.sc_limit() < 0 {
            contempt_side
        } else {
            contempt_side.other()
        };
        Some(Rule {
            side,
            limit: options.sc_limit().unsigned_abs(),
            temperature: options.sc_temperature(),
            sampling: options.sc_sampling(),
            draws: DrawRatio {
                constant: options.hybrid_sampling_ratio(),
                schedule: options.hybrid_ratio_schedule().clone(),
            },
        })
    }
}

/// One child's share in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplyShare {
    /// Visits of the child when the node froze.
    pub count: u32,
    /// Visits that searched after the freeze (see [`DrawRatio`]).
    pub searched: u32,
    /// Draws that were deferred because of collisions.
    pub deferred_draws: u32,
    /// The gathering in which a visit to this child last collided.
    pub(in crate::search) blocked_in: u32,
    /// count^(1/temperature), scaled so that the largest is 1.
    pub(in crate::search) weight: f64,
}

/// The frozen visit counts of one node.
#[derive(Clone, Debug)]
pub struct ReplyRecord {
    /// Where the node's edges are (the node itself points here).
    pub(in crate::search) edges: u32,
    /// The limit that the counts sum to, once final.
    pub limit: u32,
    /// The side to move at the node.
    pub side: Color,
    /// Per child slot.
    pub shares: Vec<ReplyShare>,
    /// Sum of the counts.
    pub(in crate::search) total: u32,
    /// Counted visits that are not backed up yet.
    pub(in crate::search) pending: u32,
    /// Sum of the shares' deferred draws.
    pub(in crate::search) deferred_draws: u32,
}

impl ReplyRecord {
    /// Whether the counts are final.
    pub fn is_final(&self) -> bool {
        self.pending == 0 && self.total == self.limit
    }

    /// Whether replies are drawn rather than searched.
    pub(in crate::search) fn is_full(&self) -> bool {
        self.total == self.limit
    }

    pub(in crate::search) fn update_weights(&mut self, temperature: f32) {
        let largest = self
            .shares
            .iter()
            .map(|share| share.count)
            .max()
            .unwrap_or(0);
        let mut largest_seen = false;
        for share in &mut self.shares {
            let relative = f64::from(share.count) / f64::from(largest.max(1));
            share.weight = if temperature > 0.0 {
                relative.powf(1.0 / f64::from(temperature))
            } else if share.count == largest && !largest_seen {
                largest_seen = true;
                1.0
            } else {
                0.0
            };
        }
    }

    /// Probability with which the child in each slot is drawn.
    pub fn probabilities(&self) -> impl Iterator<Item = f64> {
        let sum: f64 = self.shares.iter().map(|share| share.weight).sum();
        self.shares.iter().map(move |share| share.weight / sum)
    }
}

/// All records of a tree.
#[derive(Clone, Debug, Default)]
pub struct ReplyRecords {
    list: Vec<ReplyRecord>,
    /// Total number of shares.
    shares: usize,
    /// Number of the current gathering, counted over all searches on this tree, so that a deferred draw is carried
    /// out in a later one.
    gathering: u32,
}

impl ReplyRecords {
    pub(in crate::search) fn get(&self, index: u32) -> &ReplyRecord {
        &self.list[index as usize]
    }

    pub(in crate::search) fn push(&mut self, record: ReplyRecord) -> u32 {
        self.shares += record.shares.len();
        self.list.push(record);
        (self.list.len() - 1) as u32
    }

    /// Begins the next gathering.
    pub(in crate::search) fn begin_gathering(&mut self) {
        self.gathering = self.gathering.wrapping_add(1);
    }

    /// The number of the current gathering.
    pub(in crate::search) fn gathering(&self) -> u32 {
        self.gathering
    }

    /// An empty list for a tree that replaces another one, with the count of gatherings.
    pub(in crate::search) fn following(other: &ReplyRecords) -> ReplyRecords {
        ReplyRecords {
            gathering: other.gathering,
            ..ReplyRecords::default()
        }
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.list.len() * size_of::<ReplyRecord>() + self.shares * size_of::<ReplyShare>()
    }

    pub(in crate::search) fn get_mut(&mut self, index: u32) -> &mut ReplyRecord {
        &mut self.list[index as usize]
    }

    /// Extends a record to all of its node's children.
    pub(in crate::search) fn make_room(&mut self, index: u32, children: u8) {
        let shares = &mut self.list[index as usize].shares;
        let missing = usize::from(children).saturating_sub(shares.len());
        shares.resize(shares.len() + missing, ReplyShare::default());
        self.shares += missing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn no_limit_and_a_limit_of_zero_are_plain_puct() {
        let side_of = |sc_limit: i32| {
            let options = Options {
                sc_limit,
                ..Options::default()
            };
            Rule::new(&options.search(), Some(Color::White)).map(|rule| (rule.side, rule.limit))
        };
        assert_eq!([0, 1_000_000_000, -1_000_000_000].map(side_of), [None; 3]);
        assert_eq!(side_of(20), Some((Color::Black, 20)));
        assert_eq!(side_of(-1), Some((Color::White, 1)));
    }
}
