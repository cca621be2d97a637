//! One game between two engines.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use shakmaty::{Chess, Color, EnPassantMode, KnownOutcome, Position, fen::Fen};

use super::player::Limit;
use crate::{
    chess::{History, PackedMove, setup},
    game::{
        adjudicate::{Adjudicator, Ending, Rules, Verdict, by_rules},
        openings::Opening,
    },
    uci_client::{Client, ClientError, EngineAnswer, EngineScore, GoLimits, LastInfo},
};

/// The value of a mate in pawns.
const MATE_PAWNS: f64 = 1000.0;

/// How much later than the end of an engine the match's `stop` may be set, on a busy machine. A signal may end the
/// engines, too, as when a service or a cluster's job is stopped; then they have not failed, and the game does not
/// count.
pub(super) const SIGNAL_DELAY: Duration = Duration::from_secs(1);

/// The conditions of a match, the same for all games.
#[derive(Clone, Debug)]
pub struct MatchTerms {
    /// Adjudication rules.
    pub rules: Rules,
    /// Whether castling follows Chess960's rules.
    pub chess960: bool,
    /// Tolerance on clocks, for the latency of pipes and schedulers.
    pub margin: Duration,
    /// Maximum thinking time of an engine without a clock.
    pub stall: Duration,
    /// Whether engines ponder that can.
    pub ponder: bool,
}

/// The reason of a forfeit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForfeitReason {
    /// The process has ended.
    Crash,
    /// It does not answer.
    Stall,
    /// The move is not legal.
    IllegalMove,
    /// The answer was too late.
    Time,
}

impl ForfeitReason {
    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            ForfeitReason::Crash => "crash",
            ForfeitReason::Stall => "no answer",
            ForfeitReason::IllegalMove => "illegal move",
            ForfeitReason::Time => "time",
        }
    }

    /// The value of PGN's tag `Termination`.
    fn tag(self) -> &'static str {
        match self {
            ForfeitReason::Crash | ForfeitReason::Stall => "abandoned",
            ForfeitReason::IllegalMove => "rules infraction",
            ForfeitReason::Time => "time forfeit",
        }
    }

    /// Whether the engine cannot be used any more.
    pub fn is_fatal(self) -> bool {
        matches!(self, ForfeitReason::Crash | ForfeitReason::Stall)
    }
}

/// Why a game is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Termination {
    /// By the rules or by adjudication.
    Ended(Ending),
    /// An engine forfeited the game.
    Forfeit {
        /// The side that forfeited.
        side: Color,
        /// The reason.
        reason: ForfeitReason,
        /// The engine's error, or the excess time.
        details: String,
    },
}

impl Termination {
    /// The value of PGN's tag `Termination`.
    pub fn tag(&self) -> &'static str {
        match self {
            Termination::Ended(ending) if ending.is_by_rules() => "normal",
            Termination::Ended(_) => "adjudication",
            Termination::Forfeit { reason, .. } => reason.tag(),
        }
    }

    /// The reason as text.
    pub fn details(&self) -> String {
        match self {
            Termination::Ended(ending) => ending.text().to_owned(),
            Termination::Forfeit {
                side,
                reason,
                details,
            } => format!("{side} forfeits ({}): {details}", reason.text()),
        }
    }
}

/// A finished game.
#[derive(Clone, Debug)]
pub struct MatchGame {
    /// All moves, including those of the opening, with comments on the engines' searches.
    pub moves: Vec<(PackedMove, String)>,
    /// The result.
    pub outcome: KnownOutcome,
    /// The reason for the end.
    pub termination: Termination,
}

/// Plays a game from an opening. Engines and limits are White's, then Black's. `None` if `stop` was set before its end:
/// it is looked at before each move, and before a forfeit.
pub fn play(
    mut engines: [&mut Client; 2],
    limits: [Limit; 2],
    opening: &Opening,
    terms: &MatchTerms,
    stop: &AtomicBool,
) -> Option<MatchGame> {
    let mut board = GameInProgress::new(opening, limits, terms);
    let ended = board.play(&mut engines, stop);
    if ended.is_err() && is_set_within(SIGNAL_DELAY, stop) {
        return None;
    }
    let (outcome, termination) = match ended {
        Ok(None) => return None,
        Ok(Some(Verdict { outcome, ending })) => (outcome, Termination::Ended(ending)),
        Err((side, reason, details)) => {
            let termination = Termination::Forfeit {
                side,
                reason,
                details,
            };
            (KnownOutcome::Decisive { winner: !side }, termination)
        }
    };
    Some(MatchGame {
        moves: board.moves,
        outcome,
        termination,
    })
}

/// Whether `stop` is set by then.
pub(super) fn is_set_within(delay: Duration, stop: &AtomicBool) -> bool {
    let deadline = Instant::now() + delay;
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The side that forfeits, the reason and the details.
type Forfeit = (Color, ForfeitReason, String);

/// A game in progress.
struct GameInProgress<'a> {
    terms: &'a MatchTerms,
    history: History,
    adjudicator: Adjudicator<'a>,
    clocks: [PlayerClock; 2],
    /// The position as sent to engines.
    position: String,
    moves: Vec<(PackedMove, String)>,
}

impl<'a> GameInProgress<'a> {
    fn new(opening: &Opening, limits: [Limit; 2], terms: &'a MatchTerms) -> GameInProgress<'a> {
        let moves = opening.moves.iter().map(|&m| (m, String::new()));
        GameInProgress {
            terms,
            history: opening.history(),
            adjudicator: Adjudicator::after(&terms.rules, opening.moves.len()),
            clocks: limits.map(PlayerClock::new),
            position: position_text(opening, terms.chess960),
            moves: moves.collect(),
        }
    }

    fn play(
        &mut self,
        engines: &mut [&mut Client; 2],
        stop: &AtomicBool,
    ) -> Result<Option<Verdict>, Forfeit> {
        for (engine, side) in engines.iter_mut().zip([Color::White, Color::Black]) {
            engine
                .new_game()
                .map_err(|error| forfeit_of(side, &error))?;
        }
        let mut verdict = by_rules(&self.history);
        loop {
            if verdict.is_some() || stop.load(Ordering::Relaxed) {
                return Ok(verdict);
            }
            let side = self.history.position().turn();
            verdict = self.turn(side, engines[index(side)])?;
        }
    }

    /// Plays one move.
    fn turn(&mut self, side: Color, engine: &mut Client) -> Result<Option<Verdict>, Forfeit> {
        let clock = self.clocks[index(side)];
        let max_time = clock.max_time(self.terms);
        let answer = engine
            .go(&self.position, &go(&self.clocks, index(side)), max_time)
            .map_err(|error| forfeit_of(side, &error))?;
        if answer.time > max_time {
            let [time, allowed] = [answer.time, max_time].map(|time| 1000.0 * time.as_secs_f64());
            // Rounded apart, so that they differ.
            let (time, allowed) = (time.ceil() / 1000.0, allowed.floor() / 1000.0);
            let details = format!("{time:.3} s for a move, {allowed:.3} s were allowed");
            return Err((side, clock.reason(), details));
        }
        let position = self.history.position();
        let Ok(m) = setup::parse_move(position, &answer.best) else {
            let details = format!("'{}' in {}", answer.best, fen_text(position));
            return Err((
                side,
                ForfeitReason::IllegalMove,
                setup::shorten_to(&details, MAX_DETAILS),
            ));
        };
        self.position += if self.moves.is_empty() {
            " moves "
        } else {
            " "
        };
        self.position += &setup::move_text(position, m, self.terms.chess960);
        let clock = &mut self.clocks[index(side)];
        clock.press(answer.time);
        self.moves.push((m, comment(&answer, side, clock)));
        self.history.push(m);
        let value = answer.last_info.score.map(|score| pawns(score, side));
        let verdict = self.adjudicator.after_move(&self.history, value);
        if self.terms.ponder && verdict.is_none() {
            self.ponder(side, engine, answer.expected.as_deref())
                .map_err(|error| forfeit_of(side, &error))?;
        }
        Ok(verdict)
    }

    /// Lets the engine of `side` ponder, if it can and expects a legal reply.
    fn ponder(
        &self,
        side: Color,
        engine: &mut Client,
        expected: Option<&str>,
    ) -> Result<(), ClientError> {
        let position = self.history.position();
        let reply = expected.and_then(|reply| setup::parse_move(position, reply).ok());
        match reply {
            Some(reply) if engine.can_ponder() => {
                let reply = setup::move_text(position, reply, self.terms.chess960);
                let position = format!("{} {reply}", self.position);
                engine.ponder(&position, &go(&self.clocks, index(side)))
            }
            _ => Ok(()),
        }
    }
}

/// Index of a side's data: White's comes first.
fn index(side: Color) -> usize {
    side.fold_wb(0, 1)
}

fn forfeit_of(side: Color, error: &ClientError) -> Forfeit {
    let reason = match error {
        ClientError::Silent { .. } | ClientError::NotReading { .. } => ForfeitReason::Stall,
        _ => ForfeitReason::Crash,
    };
    (
        side,
        reason,
        setup::shorten_to(&error.to_string(), MAX_DETAILS),
    )
}

/// Maximum length of the text of a forfeit in a game's tags, in characters: longer ones come from an engine's dump.
const MAX_DETAILS: usize = 500;

fn fen_text(position: &Chess) -> String {
    Fen::from_position(position, EnPassantMode::Legal).to_string()
}

/// The opening as text for the command `position`.
fn position_text(opening: &Opening, chess960: bool) -> String {
    let mut text = if setup::is_start(&opening.start) {
        "startpos".to_owned()
    } else {
        format!("fen {}", fen_text(&opening.start))
    };
    let mut position = opening.start.clone();
    for (index, &m) in opening.moves.iter().enumerate() {
        text += if index == 0 { " moves " } else { " " };
        text += &setup::move_text(&position, m, chess960);
        let m = m.unpack(&position);
        position.play_unchecked(m);
    }
    text
}

/// The clock of a side.
#[derive(Clone, Copy, Debug)]
struct PlayerClock {
    limit: Limit,
    left: Duration,
    /// The time by which it was exceeded, as far as increments have not paid for it: it counts towards the margin.
    owed: Duration,
    /// Moves to the next time control.
    moves_left: Option<u32>,
}

impl PlayerClock {
    fn new(limit: Limit) -> PlayerClock {
        let (left, moves_left) = match limit {
            Limit::Clock { base, moves, .. } => (base, moves),
            Limit::Nodes(_) | Limit::Time(_) => (Duration::ZERO, None),
        };
        PlayerClock {
            limit,
            left,
            owed: Duration::ZERO,
            moves_left,
        }
    }

    /// Maximum time of the next move.
    fn max_time(&self, terms: &MatchTerms) -> Duration {
        match self.limit {
            Limit::Nodes(_) => terms.stall,
            Limit::Time(time) => time + terms.margin,
            Limit::Clock { .. } => self.left + terms.margin.saturating_sub(self.owed),
        }
    }

    /// The forfeit if that time is exceeded.
    fn reason(&self) -> ForfeitReason {
        match self.limit {
            Limit::Nodes(_) => ForfeitReason::Stall,
            Limit::Time(_) | Limit::Clock { .. } => ForfeitReason::Time,
        }
    }

    fn increment(&self) -> Duration {
        match self.limit {
            Limit::Clock { increment, .. } => increment,
            Limit::Nodes(_) | Limit::Time(_) => Duration::ZERO,
        }
    }

    /// Updates the clock after a move that took `time`.
    fn press(&mut self, time: Duration) {
        let Limit::Clock {
            base,
            increment,
            moves,
        } = self.limit
        else {
            return;
        };
        self.owed += time.saturating_sub(self.left);
        self.left = self.left.saturating_sub(time);
        let mut added = increment;
        if let Some(left) = &mut self.moves_left {
            *left -= 1;
            if *left == 0 {
                added += base;
                self.moves_left = moves;
            }
        }
        let paid = added.min(self.owed);
        self.owed -= paid;
        self.left += added - paid;
    }
}

/// The limits of the side at `index`. A side without a clock gets the opponent's clock as its own.
fn go(clocks: &[PlayerClock; 2], index: usize) -> GoLimits {
    let own = clocks[index];
    match own.limit {
        Limit::Nodes(nodes) => GoLimits::Nodes(nodes),
        Limit::Time(time) => GoLimits::MoveTime(time),
        Limit::Clock { .. } => {
            let shown = clocks.map(|clock| match clock.limit {
                Limit::Clock { .. } => clock,
                Limit::Nodes(_) | Limit::Time(_) => own,
            });
            GoLimits::Clock {
                left: shown.map(|clock| clock.left),
                increment: shown.map(|clock| clock.increment()),
                moves: own.moves_left,
            }
        }
    }
}

/// A score of `side` as White's value in pawns.
fn pawns(score: EngineScore, side: Color) -> f64 {
    let pawns = match score {
        EngineScore::Centipawns(centipawns) => f64::from(centipawns) / 100.0,
        EngineScore::Mate(moves) if moves > 0 => MATE_PAWNS,
        EngineScore::Mate(_) => -MATE_PAWNS,
    };
    // No -0.
    side.fold_wb(pawns, -pawns) + 0.0
}

/// `[%eval 0.31,12] [%nodes 800] [%clk 0:00:59.5]`: White's evaluation and depth, nodes, and the remaining time (or,
/// without a clock, the time of the move). Times are left out in games with fixed nodes, so that these are
/// reproducible.
fn comment(answer: &EngineAnswer, side: Color, clock: &PlayerClock) -> String {
    let LastInfo {
        score,
        depth,
        nodes,
    } = answer.last_info;
    let mut parts = Vec::new();
    if let Some(score) = score {
        let value = match score {
            EngineScore::Centipawns(_) => format!("{:.2}", pawns(score, side)),
            EngineScore::Mate(moves) => format!("#{}", side.fold_wb(moves, moves.saturating_neg())),
        };
        let depth = depth.map_or(String::new(), |depth| format!(",{depth}"));
        parts.push(format!("[%eval {value}{depth}]"));
    }
    parts.extend(nodes.map(|nodes| format!("[%nodes {nodes}]")));
    match clock.limit {
        Limit::Nodes(_) => {}
        Limit::Time(_) => parts.push(format!("[%emt {}]", time_text(answer.time))),
        Limit::Clock { .. } => parts.push(format!("[%clk {}]", time_text(clock.left))),
    }
    parts.join(" ")
}

/// Time as hours, minutes and seconds.
fn time_text(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    let (seconds, tenth) = (tenths / 10, tenths % 10);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours}:{minutes:02}:{seconds:02}.{tenth}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> MatchTerms {
        MatchTerms {
            rules: Rules::default(),
            chess960: false,
            margin: Duration::ZERO,
            stall: Duration::from_secs(1),
            ponder: false,
        }
    }

    #[test]
    fn a_signal_may_arrive_a_moment_later() {
        let stop = AtomicBool::new(false);
        assert!(!is_set_within(Duration::ZERO, &stop));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| is_set_within(Duration::from_secs(600), &stop));
            thread::sleep(Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
            assert!(waiting.join().unwrap());
        });
        assert!(is_set_within(Duration::ZERO, &stop));
    }

    #[test]
    fn clocks_run_and_reset_at_time_controls() {
        let second = Duration::from_secs(1);
        let mut clock = PlayerClock::new("clock=2/10+1".parse().unwrap());
        clock.press(3 * second);
        assert_eq!((clock.left, clock.moves_left), (8 * second, Some(1)));
        clock.press(3 * second);
        assert_eq!((clock.left, clock.moves_left), (16 * second, Some(2)));
        // Within the margin a move may take more time than is left. That is made up for by increments, ...
        clock.press(17 * second);
        assert_eq!((clock.left, clock.owed), (Duration::ZERO, Duration::ZERO));
        // ... and by the time of the next control; what is still missing then leaves less of the margin.
        clock.press(4 * second);
        assert_eq!((clock.left, clock.owed), (7 * second, Duration::ZERO));
        clock.press(11 * second);
        assert_eq!((clock.left, clock.owed), (Duration::ZERO, 3 * second));
        let terms = MatchTerms {
            margin: 4 * second,
            ..terms()
        };
        assert_eq!(clock.max_time(&terms), second);
        let (left, increment) = (clock.left, clock.increment());
        let other = PlayerClock::new(Limit::Nodes(5));
        let command = go(&[clock, other], 0);
        let expected = GoLimits::Clock {
            left: [left; 2],
            increment: [increment; 2],
            moves: Some(1),
        };
        assert_eq!(command, expected);
        assert_eq!(go(&[clock, other], 1), GoLimits::Nodes(5));
    }

    #[test]
    fn evaluations_in_comments_are_whites() {
        let answer = |score| EngineAnswer {
            best: String::new(),
            expected: None,
            time: Duration::from_millis(61_250),
            last_info: LastInfo {
                score: Some(score),
                depth: Some(7),
                nodes: None,
            },
        };
        let nodes = PlayerClock::new(Limit::Nodes(1));
        let time = PlayerClock::new(Limit::Time(Duration::from_secs(1)));
        let text = comment(&answer(EngineScore::Centipawns(31)), Color::Black, &nodes);
        assert_eq!(text, "[%eval -0.31,7]");
        let text = comment(&answer(EngineScore::Centipawns(0)), Color::Black, &nodes);
        assert_eq!(text, "[%eval 0.00,7]");
        let text = comment(&answer(EngineScore::Mate(-2)), Color::Black, &time);
        assert_eq!(text, "[%eval #2,7] [%emt 0:01:01.2]");
        // An engine may say anything.
        let text = comment(&answer(EngineScore::Mate(i32::MIN)), Color::White, &nodes);
        assert_eq!(text, format!("[%eval #{},7]", i32::MIN));
        assert_eq!(pawns(EngineScore::Mate(3), Color::Black), -MATE_PAWNS);
    }

    #[test]
    fn an_opening_is_sent_with_its_moves() {
        let mut opening = Opening::standard();
        opening.moves = vec![setup::parse_move(&opening.start, "e2e4").unwrap()];
        assert_eq!(position_text(&opening, false), "startpos moves e2e4");
        // Positions are equal whatever their counters are, yet not for the rule of fifty moves.
        let counted = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 40 30";
        opening.start = setup::position_from_fen(counted).unwrap();
        let expected = format!("fen {counted} moves e2e4");
        assert_eq!(position_text(&opening, false), expected);
        let fen = "4k3/8/8/8/8/8/8/4K2R w K - 0 1";
        opening.start = setup::position_from_fen(fen).unwrap();
        opening.moves = vec![setup::parse_move(&opening.start, "e1g1").unwrap()];
        assert_eq!(
            position_text(&opening, true),
            format!("fen {fen} moves e1h1")
        );
    }
}
