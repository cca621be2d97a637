//! Training positions with all visits.
//!
//! The format is documented in [`dataset::searched`](crate::dataset::searched), which reads these records.

use shakmaty::{KnownOutcome, Position};

use super::played::{MoveSource, PlayedGame, PlayedMove, SearchResult, player_of};
use crate::{
    chess::{History, PackedMove, setup, wdl},
    dataset::{
        record::{Record, Source, mate_score},
        searched::{FROZEN, Samples, SearchedRoot, WHOLE},
    },
    options::ScoreType,
    search::{MoveStat, Score},
};

/// The players whose moves become training positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides(pub [bool; 2]);

/// The move targets of a training position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveTarget {
    /// The visits of the search.
    Visits,
    /// The priors of the root in millionths, without noise: the network's policy with the player's
    /// `PolicyTemperature`.
    Policy,
}

/// A position of a game that is a training sample: its search had all nodes.
pub struct Sample<'g> {
    /// The game up to the position.
    pub history: &'g History,
    /// The move that was played.
    pub played: &'g PlayedMove,
    /// The search result.
    pub search_result: &'g SearchResult,
    /// The moves of the game after it.
    pub next: &'g [PlayedMove],
    /// Plies to the end of the game.
    pub plies_left: usize,
}

impl Sample<'_> {
    /// Whether the reply to one of its moves was frozen.
    pub fn is_frozen(&self) -> bool {
        self.search_result.moves.iter().any(|stat| stat.frozen)
    }
}

/// Calls `show` with the samples of a game in order.
pub fn for_each_sample(game: &PlayedGame, sides: Sides, mut show: impl FnMut(&Sample<'_>)) {
    let mut history = History::new(game.start.clone());
    for (ply, played) in game.moves.iter().enumerate() {
        let turn = history.position().turn();
        let player = player_of(game.white, turn);
        if let MoveSource::Search(search_result) = &played.source
            && search_result.is_full
            && sides.0[player]
        {
            show(&Sample {
                history: &history,
                played,
                search_result,
                next: &game.moves[ply + 1..],
                plies_left: game.moves.len() - ply,
            });
        }
        history.push(played.m);
    }
}

/// The training positions of a game.
pub fn samples_of(game: &PlayedGame, sides: Sides, target: MoveTarget) -> Samples {
    let mut samples = Samples::default();
    for_each_sample(game, sides, |sample| {
        push(&mut samples, game, sample, target);
    });
    samples
}

fn push(samples: &mut Samples, game: &PlayedGame, sample: &Sample<'_>, target: MoveTarget) {
    let position = sample.history.position();
    let turn = position.turn();
    let search_result = sample.search_result;
    let source = if setup::has_standard_castling(sample.history) {
        Source::EngineGame
    } else {
        Source::Chess960EngineGame
    };
    let mut record = Record::new(position, turn.is_black(), source);
    let pack = |m: PackedMove| Record::pack_move(m.unpack(position), turn);
    record.best = pack(sample.played.m);
    record.score = score(search_result);
    record.result = match game.outcome {
        KnownOutcome::Draw => 1,
        KnownOutcome::Decisive { winner } => 2 * u8::from(winner == turn),
    };
    record.plies_left = u16::try_from(sample.plies_left).unwrap_or(u16::MAX - 1);
    record.game = game.number as u32;
    let moves: Vec<(u16, u32)> = match target {
        MoveTarget::Visits => visits_of(search_result, pack),
        MoveTarget::Policy => policy_of(search_result, pack),
    };
    let (best, visits) = match target {
        MoveTarget::Visits => (pack(search_result.best), search_result.visits),
        MoveTarget::Policy => {
            let first = moves.iter().max_by_key(|&&(_, share)| share);
            let sum = moves.iter().map(|&(_, share)| share).sum();
            (first.map_or(0, |&(m, _)| m), sum)
        }
    };
    let root = SearchedRoot {
        best,
        visits,
        value: search_result.root,
    };
    samples.push(&record, &root, moves.into_iter());
}

/// The root's moves and their visits.
fn visits_of(search_result: &SearchResult, pack: impl Fn(PackedMove) -> u16) -> Vec<(u16, u32)> {
    let entry = |(stat, m, n): (&MoveStat, PackedMove, u32)| {
        let frozen = if stat.frozen { FROZEN } else { 0 };
        (pack(m) | frozen, n)
    };
    search_result.learned_visits().map(entry).collect()
}

/// The root's moves and their priors without noise, in millionths.
fn policy_of(search_result: &SearchResult, pack: impl Fn(PackedMove) -> u16) -> Vec<(u16, u32)> {
    let entry = |stat: &MoveStat| {
        let millionths = (stat.p_without_noise * WHOLE).round() as u32;
        Some((pack(stat.m?), millionths))
    };
    search_result.moves.iter().filter_map(entry).collect()
}

/// The search's score in the format of records.
fn score(search_result: &SearchResult) -> i16 {
    match search_result.score {
        Score::Mate(moves) => mate_score(moves),
        _ => {
            let centipawns = wdl::score(search_result.root, 0.0, ScoreType::Centipawn);
            centipawns.clamp(-30_000, 30_000) as i16
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use shakmaty::Color;

    use super::*;
    use crate::{
        dataset::searched::{Searched, SearchedFile},
        game::adjudicate::Ending,
        network::Value,
        search::tree::node::Bounds,
        selfplay::played::{RawOutput, Reason},
    };

    /// A root move with these visits and this prior, which the noise has changed to one half.
    pub fn stat(m: PackedMove, n: u32, p_without_noise: f32) -> MoveStat {
        MoveStat {
            m: Some(m),
            n,
            in_flight: 0,
            p: 0.5,
            p_without_noise,
            value: None,
            q: 0.0,
            u: 0.0,
            s: 0.0,
            v: None,
            bounds: Bounds::OPEN,
            frozen: false,
        }
    }

    /// A game of one searched move.
    pub fn game(fen: &str, m: &str) -> PlayedGame {
        let start = setup::position_from_fen(fen).unwrap();
        let m = setup::parse_move(&start, m).unwrap();
        let root = Value {
            wl: 0.0,
            d: 1.0,
            m: 0.0,
        };
        let search_result = SearchResult {
            moves: Vec::new(),
            root,
            raw: RawOutput {
                wl: 0.0,
                rest: None,
            },
            visits: 1,
            best: m,
            score: Score::Mate(1),
            depth: 1,
            is_full: true,
        };
        PlayedGame {
            number: 0,
            seed: 0,
            white: 0,
            start,
            moves: vec![PlayedMove {
                m,
                source: MoveSource::Search(Box::new(search_result)),
            }],
            outcome: KnownOutcome::Draw,
            reason: Reason::Ended(Ending::Length),
            would_resign: None,
            nodes: 1,
        }
    }

    /// Reads the first training position of a game.
    fn first_sample(game: &PlayedGame, target: MoveTarget) -> Searched {
        let samples = samples_of(game, Sides([true; 2]), target);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), samples.to_file()).unwrap();
        SearchedFile::open(file.path()).unwrap().get(0).unwrap()
    }

    #[test]
    fn records_of_chess960_are_marked() {
        let usual = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let other = "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1";
        for (fen, source) in [
            (usual, Source::EngineGame),
            (other, Source::Chess960EngineGame),
        ] {
            let searched = first_sample(&game(fen, "e2e4"), MoveTarget::Visits);
            assert_eq!(searched.record.source(), Some(source));
        }
    }

    #[test]
    fn the_policy_can_replace_visits() {
        let fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1";
        let mut game = game(fen, "e2e4");
        let pack = |m: &str| {
            let m = setup::parse_move(&game.start, m).unwrap();
            (m, Record::pack_move(m.unpack(&game.start), Color::White))
        };
        let [(pushed, two_squares), (king, aside)] = ["e2e4", "e1d1"].map(pack);
        let MoveSource::Search(search_result) = &mut game.moves[0].source else {
            panic!("the move is a search's");
        };
        search_result.moves = vec![stat(pushed, 5, 0.25), stat(king, 2, 0.75)];
        let visits = first_sample(&game, MoveTarget::Visits);
        assert_eq!(visits.moves, [(two_squares, 5), (aside, 2)]);
        assert_eq!((visits.best, visits.visits), (two_squares, 1));
        let policy = first_sample(&game, MoveTarget::Policy);
        assert_eq!(policy.moves, [(two_squares, 250_000), (aside, 750_000)]);
        assert_eq!((policy.best, policy.visits), (aside, 1_000_000));
        // The move that was played is the same.
        assert_eq!(policy.record, visits.record);
        // A mate that is seen before the first visit.
        let MoveSource::Search(search_result) = &mut game.moves[0].source else {
            panic!("the move is a search's");
        };
        search_result.moves = vec![stat(king, 0, 0.75), stat(pushed, 0, 0.25)];
        search_result.best = pushed;
        let certain = first_sample(&game, MoveTarget::Visits);
        assert_eq!(certain.moves, [(aside, 0), (two_squares, 1)]);
    }
}
