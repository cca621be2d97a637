//! Training positions with all visits: what self-play leaves for learning.
//!
//! The layout stands in [`dataset::searched`](crate::dataset::searched), which reads what is written here.

use shakmaty::{KnownOutcome, Position};

use super::played::{By, Played, PlayedMove, Thought};
use crate::{
    chess::{History, PackedMove, setup, wdl},
    dataset::{
        record::{Record, Source, mate_score},
        searched::{FROZEN, Samples, SearchedRoot},
    },
    options::ScoreType,
    search::Score,
};

/// Which players' moves become training positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides(pub [bool; 2]);

/// A position of a game that is a sample: its search had all nodes.
pub struct Sample<'g> {
    /// The game up to the position.
    pub history: &'g History,
    /// The move that was played.
    pub played: &'g PlayedMove,
    /// What was thought about it.
    pub thought: &'g Thought,
    /// Plies to the end of the game.
    pub plies_left: usize,
}

impl Sample<'_> {
    /// Whether a reply to one of its moves was frozen.
    pub fn is_frozen(&self) -> bool {
        self.thought.moves.iter().any(|stat| stat.frozen)
    }
}

/// Shows the samples of a game in order.
pub fn for_each_sample(game: &Played, sides: Sides, mut show: impl FnMut(&Sample<'_>)) {
    let mut history = History::new(game.start.clone());
    for (ply, played) in game.moves.iter().enumerate() {
        let turn = history.position().turn();
        let player = turn.fold_wb(game.white, 1 - game.white);
        if let By::Search(thought) = &played.by
            && thought.is_full
            && sides.0[player]
        {
            show(&Sample {
                history: &history,
                played,
                thought,
                plies_left: game.moves.len() - ply,
            });
        }
        history.push(played.m);
    }
}

/// The positions of a game, for training.
pub fn samples_of(game: &Played, sides: Sides) -> Samples {
    let mut samples = Samples::default();
    for_each_sample(game, sides, |sample| push(&mut samples, game, sample));
    samples
}

fn push(samples: &mut Samples, game: &Played, sample: &Sample<'_>) {
    let position = sample.history.position();
    let turn = position.turn();
    let thought = sample.thought;
    let source = match setup::castles_as_usual(sample.history) {
        true => Source::EngineGame,
        false => Source::Chess960EngineGame,
    };
    let mut record = Record::new(position, turn.is_black(), source);
    let pack = |m: PackedMove| Record::pack_move(m.unpack(position), turn);
    record.best = pack(sample.played.m);
    record.score = score(thought);
    record.result = match game.outcome {
        KnownOutcome::Draw => 1,
        KnownOutcome::Decisive { winner } => 2 * u8::from(winner == turn),
    };
    record.plies_left = u16::try_from(sample.plies_left).unwrap_or(u16::MAX - 1);
    record.game = game.number as u32;
    let searched = thought.moves.iter().filter_map(|stat| {
        let frozen = if stat.frozen { FROZEN } else { 0 };
        Some((pack(stat.m?) | frozen, stat.n))
    });
    let root = SearchedRoot {
        best: pack(thought.best),
        visits: thought.visits,
        value: thought.root,
    };
    samples.push(&record, &root, searched);
}

/// The search's score as records have it.
fn score(thought: &Thought) -> i16 {
    match thought.score {
        Score::Mate(moves) => mate_score(moves),
        _ => {
            let centipawns = wdl::score(thought.root, 0.0, ScoreType::Centipawn);
            centipawns.clamp(-30_000, 30_000) as i16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dataset::searched::SearchedFile,
        game::adjudicate::Ending,
        network::Value,
        selfplay::played::{Raw, Reason},
    };

    /// A game of one searched move.
    fn game(fen: &str, m: &str) -> Played {
        let start = setup::position_from_fen(fen).unwrap();
        let m = setup::parse_move(&start, m).unwrap();
        let root = Value {
            wl: 0.0,
            d: 1.0,
            m: 0.0,
        };
        let thought = Thought {
            moves: Vec::new(),
            root,
            raw: Raw {
                wl: 0.0,
                rest: None,
            },
            visits: 1,
            best: m,
            score: Score::Mate(1),
            depth: 1,
            is_full: true,
        };
        Played {
            number: 0,
            seed: 0,
            white: 0,
            start,
            moves: vec![PlayedMove {
                m,
                by: By::Search(Box::new(thought)),
            }],
            outcome: KnownOutcome::Draw,
            reason: Reason::Ended(Ending::Length),
            would_resign: None,
            nodes: 1,
        }
    }

    #[test]
    fn records_of_chess960_say_so() {
        let usual = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let other = "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1";
        for (fen, source) in [
            (usual, Source::EngineGame),
            (other, Source::Chess960EngineGame),
        ] {
            let samples = samples_of(&game(fen, "e2e4"), Sides([true; 2]));
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), samples.to_file()).unwrap();
            let searched = SearchedFile::open(file.path()).unwrap().get(0).unwrap();
            assert_eq!(searched.record.source(), Some(source));
        }
    }
}
