//! Training positions with all visits: what self-play leaves for learning.
//!
//! The layout stands in [`dataset::searched`](crate::dataset::searched), which reads what is written here.

use anyhow::{Result, ensure};
use shakmaty::{KnownOutcome, Position};

use super::played::{By, Played, PlayedMove, Thought};
use crate::{
    chess::{History, wdl},
    dataset::{
        record::{MATE, Record, Source},
        searched::{ENTRY, FROZEN, POSITION, SHARED, header},
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

/// The positions of a game, or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// [`POSITION`] bytes each.
    pub positions: Vec<u8>,
    /// [`ENTRY`] bytes each.
    pub entries: Vec<u8>,
}

impl Samples {
    /// Those of a game.
    pub fn of(game: &Played, sides: Sides) -> Samples {
        let mut samples = Samples::default();
        for_each_sample(game, sides, |sample| samples.push(game, sample));
        samples
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.positions.len() / POSITION
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    fn entry_count(&self) -> u32 {
        (self.entries.len() / ENTRY) as u32
    }

    fn push(&mut self, game: &Played, sample: &Sample<'_>) {
        let position = sample.history.position();
        let turn = position.turn();
        let thought = sample.thought;
        let mut record = Record::new(position, turn.is_black(), Source::EngineGame);
        let pack = |m: crate::chess::PackedMove| Record::pack_move(m.unpack(position), turn);
        record.best = pack(sample.played.m);
        record.score = score(thought);
        record.result = match game.outcome {
            KnownOutcome::Draw => 1,
            KnownOutcome::Decisive { winner } => 2 * u8::from(winner == turn),
        };
        record.plies_left = u16::try_from(sample.plies_left).unwrap_or(u16::MAX - 1);
        record.game = game.number as u32;
        let first = self.entry_count();
        let mut count = 0_u16;
        for stat in &thought.moves {
            let Some(m) = stat.m else { continue };
            let frozen = if stat.frozen { FROZEN } else { 0 };
            self.entries.extend((pack(m) | frozen).to_le_bytes());
            self.entries.extend(stat.n.to_le_bytes());
            count += 1;
        }
        let q = (thought.root.wl.clamp(-1.0, 1.0) * 32767.0).round() as i16;
        let d = (thought.root.d.clamp(0.0, 1.0) * 65535.0).round() as u16;
        self.positions.extend(&record.to_bytes()[..SHARED]);
        self.positions.extend(first.to_le_bytes());
        self.positions.extend(count.to_le_bytes());
        self.positions.extend(pack(thought.best).to_le_bytes());
        self.positions.extend(thought.visits.to_le_bytes());
        self.positions.extend(q.to_le_bytes());
        self.positions.extend(d.to_le_bytes());
    }

    /// Appends those of another game.
    ///
    /// # Errors
    /// When there are too many for one file.
    pub fn append(&mut self, other: &Samples) -> Result<()> {
        let entries = (self.entries.len() + other.entries.len()) / ENTRY;
        ensure!(
            u32::try_from(entries).is_ok(),
            "too many positions for one file: lower --games-per-file"
        );
        let shift = self.entry_count();
        for position in other.positions.chunks_exact(POSITION) {
            let first = [position[48], position[49], position[50], position[51]];
            let first = u32::from_le_bytes(first) + shift;
            self.positions.extend(&position[..48]);
            self.positions.extend(first.to_le_bytes());
            self.positions.extend(&position[52..]);
        }
        self.entries.extend(&other.entries);
        Ok(())
    }

    /// The bytes of a file.
    pub fn to_file(&self) -> Vec<u8> {
        let mut bytes = header(self.len() as u64, u64::from(self.entry_count()));
        bytes.extend(&self.positions);
        bytes.extend(&self.entries);
        bytes
    }
}

/// The search's score as records have it.
fn score(thought: &Thought) -> i16 {
    match thought.score {
        Score::Mate(moves) => {
            let plies = (2 * moves.abs() - i32::from(moves > 0)).clamp(0, 1000) as i16;
            if moves > 0 {
                MATE - plies
            } else {
                plies - MATE
            }
        }
        _ => {
            let centipawns = wdl::score(thought.root, 0.0, ScoreType::Centipawn);
            centipawns.clamp(-30_000, 30_000) as i16
        }
    }
}
