//! Statistics of games: results, lengths, and repetitions.
//!
//! Search-contempt makes self-play decisive without narrowing the openings. Its paper shows that by two numbers:
//! decisive games per draw, and the share of repeated games by move number (figures 2 to 4).

use std::collections::BTreeMap;

use serde::Serialize;
use shakmaty::{Chess, Color, EnPassantMode, KnownOutcome, Position, zobrist::Zobrist64};

use super::{
    Z95, median,
    policy::{Policies, PolicySummary},
    tactics::{Tactics, TacticsSummary},
};
use crate::chess::PackedMove;

/// Repeated games are counted up to this move number.
pub const REPEATED_MOVES: usize = 50;

/// Diversity is computed after these numbers of moves of both sides.
const DIVERSITY_MOVES: [usize; 8] = [1, 2, 4, 6, 8, 10, 15, 20];

/// Length of the start position's key before a line's moves.
const KEY_WORDS: usize = 4;

/// Statistics of games in the order in which they were played.
#[derive(Clone, Debug, Default)]
pub struct GameStats {
    white: u64,
    draws: u64,
    black: u64,
    unfinished: u64,
    plies: Vec<u32>,
    phases: [PhaseCount; Phase::ALL.len()],
    /// Key of the start position, then the first moves: about 200 bytes per game, without hash collisions.
    lines: Vec<Box<[u16]>>,
    tactics: Tactics,
    /// Statistics of the searches, if visits are known.
    pub policies: Policies,
}

/// The phase of a game, by the number of pieces besides kings and pawns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// More than ten pieces (there are 14 at the start).
    Opening,
    /// Seven to ten.
    Middlegame,
    /// Six or fewer.
    Endgame,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Phase; 3] = [Phase::Opening, Phase::Middlegame, Phase::Endgame];

    /// The phase of a position.
    pub fn of(position: &Chess) -> Phase {
        let board = position.board();
        match (board.occupied() & !(board.pawns() | board.kings())).count() {
            0..=6 => Phase::Endgame,
            7..=10 => Phase::Middlegame,
            _ => Phase::Opening,
        }
    }

    /// The name of the phase.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Opening => "opening",
            Phase::Middlegame => "middlegame",
            Phase::Endgame => "endgame",
        }
    }
}

/// Number of games that ended in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhaseCount {
    /// Decisive games.
    pub decisive: u64,
    /// Drawn games.
    pub draws: u64,
}

/// Diversity of openings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Diversity {
    /// Number of different openings, among games that are long enough.
    pub distinct: u64,
    /// The number of equally frequent openings with the same entropy: the exponential of the entropy.
    pub effective: f64,
}

/// The statistics of [`GameStats`]. In JSON, undefined numbers are null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Games, including unfinished ones.
    pub games: u64,
    /// White's wins.
    pub white: u64,
    /// Draws.
    pub draws: u64,
    /// Black's wins.
    pub black: u64,
    /// Games without a result.
    pub unfinished: u64,
    /// (w + l) / d; `None` without draws.
    pub decisive_per_draw: Option<f64>,
    /// The 95 % interval (from Wilson's for the share of draws); `None` for an end without a bound.
    pub decisive_per_draw_interval: (Option<f64>, Option<f64>),
    /// Mean length in plies.
    pub mean_plies: f64,
    /// Median length in plies.
    pub median_plies: f64,
    /// Length of the shortest game.
    pub shortest_plies: u32,
    /// Length of the longest.
    pub longest_plies: u32,
    /// By move number k, the share of games whose first 2k plies an earlier game has played too.
    pub repeated: BTreeMap<usize, f64>,
    /// By moves of both sides, the different openings.
    pub openings: BTreeMap<usize, Diversity>,
    /// Finished games by the phase in which they ended.
    pub phases: BTreeMap<Phase, PhaseCount>,
    /// Shots and uneven material, if there are moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tactics: Option<TacticsSummary>,
    /// Statistics of the searches, if visits are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySummary>,
}

impl GameStats {
    /// Adds a game: start position, moves, final position and, if known, the result.
    pub fn add(
        &mut self,
        start: &Chess,
        moves: &[PackedMove],
        end: &Chess,
        outcome: Option<KnownOutcome>,
    ) {
        match outcome.map(KnownOutcome::winner) {
            None => self.unfinished += 1,
            Some(None) => self.draws += 1,
            Some(Some(Color::White)) => self.white += 1,
            Some(Some(Color::Black)) => self.black += 1,
        }
        if let Some(outcome) = outcome {
            let phase = &mut self.phases[Phase::of(end) as usize];
            if outcome == KnownOutcome::Draw {
                phase.draws += 1;
            } else {
                phase.decisive += 1;
            }
        }
        self.plies
            .push(u32::try_from(moves.len()).unwrap_or(u32::MAX));
        let key = start.zobrist_hash::<Zobrist64>(EnPassantMode::Legal).0;
        let words = (0..KEY_WORDS).map(|word| (key >> (16 * word)) as u16);
        let first = moves.iter().take(2 * REPEATED_MOVES).map(|m| m.bits());
        self.lines.push(words.chain(first).collect());
        self.tactics.add_game(start, moves, end, outcome);
    }

    /// Appends the games of another file.
    pub fn append(&mut self, other: &GameStats) {
        self.white += other.white;
        self.draws += other.draws;
        self.black += other.black;
        self.unfinished += other.unfinished;
        self.plies.extend_from_slice(&other.plies);
        self.lines.extend_from_slice(&other.lines);
        for (phase, more) in self.phases.iter_mut().zip(other.phases) {
            phase.decisive += more.decisive;
            phase.draws += more.draws;
        }
        self.tactics.append(&other.tactics);
        self.policies.append(&other.policies);
    }

    /// Games counted so far.
    pub fn games(&self) -> u64 {
        self.plies.len() as u64
    }

    /// (w + l) / d so far; `None` without draws.
    pub fn decisive_per_draw(&self) -> Option<f64> {
        (self.draws > 0).then(|| (self.white + self.black) as f64 / self.draws as f64)
    }

    /// All statistics.
    pub fn summary(&self) -> Summary {
        let games = self.games();
        let share = |count: u64| count as f64 / games.max(1) as f64;
        let plies = || self.plies.iter().copied();
        let mut lines: Vec<&[u16]> = self.lines.iter().map(|line| &**line).collect();
        lines.sort_unstable();
        // Of the games with a common beginning, all but the first are repeated.
        let repeated = |moves| {
            let sizes = group_sizes(&lines, moves);
            (moves, share(sizes.iter().map(|size| size - 1).sum()))
        };
        Summary {
            games,
            white: self.white,
            draws: self.draws,
            black: self.black,
            unfinished: self.unfinished,
            decisive_per_draw: self.decisive_per_draw(),
            decisive_per_draw_interval: self.ratio_interval(),
            mean_plies: share(plies().map(u64::from).sum()),
            median_plies: median(plies().map(f64::from).collect()),
            shortest_plies: plies().min().unwrap_or(0),
            longest_plies: plies().max().unwrap_or(0),
            repeated: (1..=REPEATED_MOVES).map(repeated).collect(),
            openings: DIVERSITY_MOVES
                .into_iter()
                .map(|moves| (moves, diversity(&group_sizes(&lines, moves))))
                .collect(),
            phases: Phase::ALL.into_iter().zip(self.phases).collect(),
            tactics: self.tactics.summary(),
            policy: self.policies.summary(),
        }
    }

    /// The interval of (w + l) / d, from Wilson's for the share of draws (E. B. Wilson, 1927).
    fn ratio_interval(&self) -> (Option<f64>, Option<f64>) {
        let n = (self.white + self.draws + self.black) as f64;
        if n == 0.0 {
            return (None, None);
        }
        let p = self.draws as f64 / n;
        let middle = p + Z95 * Z95 / (2.0 * n);
        let spread = Z95 * (p * (1.0 - p) / n + Z95 * Z95 / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z95 * Z95 / n;
        let (low, high) = ((middle - spread) / scale, (middle + spread) / scale);
        let ratio = |draws: f64| (draws > 1e-12).then(|| ((1.0 - draws) / draws).max(0.0));
        (ratio(high), ratio(low))
    }
}

/// In sorted lines, the sizes of the groups with the same first moves of both sides; shorter lines are left out.
fn group_sizes(lines: &[&[u16]], moves: usize) -> Vec<u64> {
    let length = KEY_WORDS + 2 * moves;
    let mut sizes = Vec::new();
    let mut last: Option<&[u16]> = None;
    for line in lines {
        let Some(beginning) = line.get(..length) else {
            continue;
        };
        match sizes.last_mut() {
            Some(size) if last == Some(beginning) => *size += 1,
            _ => sizes.push(1),
        }
        last = Some(beginning);
    }
    sizes
}

fn diversity(sizes: &[u64]) -> Diversity {
    let total = sizes.iter().sum::<u64>() as f64;
    let entropy = sizes.iter().map(|&size| {
        let share = size as f64 / total;
        -share * share.ln()
    });
    let entropy: f64 = entropy.sum();
    Diversity {
        distinct: sizes.len() as u64,
        effective: if sizes.is_empty() { 0.0 } else { entropy.exp() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgn::Reader;

    fn stats(pgn: &str) -> GameStats {
        let mut stats = GameStats::default();
        for game in Reader::new(pgn.as_bytes()) {
            let game = game.unwrap();
            stats.add(&game.start, &game.moves, &game.end, game.outcome);
        }
        stats
    }

    const GAMES: &str = "1. e4 e5 2. Nf3 Nc6 1-0\n\n1. e4 e5 2. Nf3 Nf6 0-1\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 1/2-1/2\n\n\
                         1. d4 d5 1/2-1/2\n\n1. e4 e5 *\n\n\
                         [FEN \"4k3/8/8/8/8/8/8/R3K3 w Q - 0 1\"]\n\n1. Ra8+ Kd7 1-0\n";

    #[test]
    fn games_are_counted_by_hand() {
        let summary = stats(GAMES).summary();
        assert_eq!((summary.games, summary.unfinished), (6, 1));
        assert_eq!((summary.white, summary.draws, summary.black), (2, 2, 1));
        assert_eq!(summary.decisive_per_draw, Some(1.5));
        let (low, high) = summary.decisive_per_draw_interval;
        assert!(low.unwrap() < 0.5 && high.unwrap() > 5.0);
        assert!((summary.mean_plies - 20.0 / 6.0).abs() < 1e-12);
        assert_eq!((summary.shortest_plies, summary.longest_plies), (2, 6));
        // Move 1: three of four games with e4 e5. Move 2: the third began like the first. Move 3: one game only.
        let repeated: Vec<f64> = (1..=4).map(|k| 6.0 * summary.repeated[&k]).collect();
        assert_eq!(repeated, [3.0, 1.0, 0.0, 0.0]);
        assert_eq!(summary.repeated.len(), REPEATED_MOVES);
        let first = summary.openings[&1];
        assert_eq!(first.distinct, 3);
        // Shares 4/6, 1/6, 1/6: entropy 0.8676 nats.
        assert!((first.effective.ln() - 0.8676).abs() < 1e-4);
        let endgames = summary.phases[&Phase::Endgame];
        assert_eq!((endgames.decisive, endgames.draws), (1, 0));
        assert_eq!(summary.phases[&Phase::Opening].draws, 2);
    }

    #[test]
    fn a_start_position_belongs_to_the_beginning() {
        let fen = "[FEN \"4k3/8/8/8/8/8/P7/R3K3 w Q - 0 1\"]\n\n1. Ra1b1 *\n\n";
        let other = "[FEN \"4k3/8/8/8/8/8/P6P/R3K3 w Q - 0 1\"]\n\n1. Rb1 Kd7 *\n\n";
        let two = format!("{other}{}{other}", fen.replace("Ra1b1", "Rb1 Kd7"));
        assert!((stats(&two).summary().repeated[&1] - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn two_files_together_equal_one_long_one() {
        let mut twice = stats(GAMES);
        twice.append(&stats(GAMES));
        assert_eq!(
            twice.summary(),
            stats(&format!("{GAMES}\n{GAMES}")).summary()
        );
        assert_eq!(GameStats::default().summary().games, 0);
    }
}
