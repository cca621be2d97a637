//! When a game is over: by the rules of chess, or by adjudication.
//!
//! Threefold repetition and the fifty-move rule end a game when they are on the board, not when a player could claim
//! them with the next move.

use std::{str::FromStr, sync::Arc};

use shakmaty::{Color, KnownOutcome, Position};
use thiserror::Error;

use crate::{chess::History, syzygy::Tables};

/// Why a game is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By the rules.
    Checkmate,
    /// By the rules.
    Stalemate,
    /// Neither side can ever mate.
    InsufficientMaterial,
    /// The position is on the board for the third time.
    Repetition,
    /// Fifty moves of both sides without a capture or a pawn move.
    FiftyMoves,
    /// Both sides' evaluations have agreed on a win for long enough.
    AgreedWin,
    /// Both sides' evaluations have been close to 0 for long enough.
    AgreedDraw,
    /// Endgame tablebases give the result.
    Tablebase,
    /// The game reached its maximum length.
    Length,
}

impl Ending {
    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            Ending::Checkmate => "checkmate",
            Ending::Stalemate => "stalemate",
            Ending::InsufficientMaterial => "insufficient material",
            Ending::Repetition => "threefold repetition",
            Ending::FiftyMoves => "fifty-move rule",
            Ending::AgreedWin => "agreed scores (win)",
            Ending::AgreedDraw => "agreed scores (draw)",
            Ending::Tablebase => "tablebase",
            Ending::Length => "length",
        }
    }

    /// Whether the rules of chess ended the game.
    pub fn is_by_rules(self) -> bool {
        matches!(
            self,
            Ending::Checkmate
                | Ending::Stalemate
                | Ending::InsufficientMaterial
                | Ending::Repetition
                | Ending::FiftyMoves
        )
    }
}

/// The end of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The result.
    pub outcome: KnownOutcome,
    /// The reason.
    pub ending: Ending,
}

impl Verdict {
    fn draw(ending: Ending) -> Verdict {
        let outcome = KnownOutcome::Draw;
        Verdict { outcome, ending }
    }

    fn win(winner: Color, ending: Ending) -> Verdict {
        let outcome = KnownOutcome::Decisive { winner };
        Verdict { outcome, ending }
    }
}

/// Whether a game is over by the rules of chess.
pub fn by_rules(history: &History) -> Option<Verdict> {
    let position = history.position();
    if position.is_checkmate() {
        return Some(Verdict::win(!position.turn(), Ending::Checkmate));
    }
    let ending = if position.is_stalemate() {
        Ending::Stalemate
    } else if position.is_insufficient_material() {
        Ending::InsufficientMaterial
    } else if history.last().repetitions >= 2 {
        Ending::Repetition
    } else if position.halfmoves() >= 100 {
        Ending::FiftyMoves
    } else {
        return None;
    };
    Some(Verdict::draw(ending))
}

/// A game is drawn when every value of this many plies is this close to 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawRule {
    /// Moves before this number do not count.
    pub from_move: u32,
    /// Plies (moves of both sides).
    pub plies: u32,
    /// Maximum absolute value.
    pub value: f64,
}

/// A game is won when every value of this many plies is this large for one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WinRule {
    /// Plies (moves of both sides).
    pub plies: u32,
    /// Minimum value.
    pub value: f64,
}

/// Errors in the text of a rule.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RuleError {
    /// In a rule for wins.
    #[error("'{0}' is not PLIES,VALUE as in 6,0.95: at least one ply, and a value above 0")]
    Win(String),
    /// In a rule for draws.
    #[error(
        "'{0}' is not MOVE,PLIES,VALUE as in 35,16,0.05: at least one ply, and a value of at least 0"
    )]
    Draw(String),
}

/// Parses plies and a value that is not negative.
fn plies_and_value(text: &str) -> Option<(u32, f64)> {
    let (plies, value) = text.split_once(',')?;
    let plies = plies.trim().parse().ok().filter(|&plies| plies > 0)?;
    let value: f64 = value.trim().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((plies, value))
}

impl FromStr for WinRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<WinRule, RuleError> {
        let parsed = plies_and_value(text).filter(|&(_, value)| value > 0.0);
        let (plies, value) = parsed.ok_or_else(|| RuleError::Win(text.to_owned()))?;
        Ok(WinRule { plies, value })
    }
}

impl FromStr for DrawRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<DrawRule, RuleError> {
        let parsed = text.split_once(',').and_then(|(from_move, rest)| {
            let (plies, value) = plies_and_value(rest)?;
            Some(DrawRule {
                from_move: from_move.trim().parse().ok()?,
                plies,
                value,
            })
        });
        parsed.ok_or_else(|| RuleError::Draw(text.to_owned()))
    }
}

/// The adjudication rules. Values are in one unit for both sides, such as pawns.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// When a game is adjudicated as a draw.
    pub draw: Option<DrawRule>,
    /// When a game is adjudicated as a win.
    pub win: Option<WinRule>,
    /// Maximum number of plies, after which a game is drawn; see [`Adjudicator::after`].
    pub max_plies: Option<usize>,
    /// Tablebases that decide the game.
    pub tables: Option<Arc<Tables>>,
}

/// Applies the rules to one game.
#[derive(Debug)]
pub struct Adjudicator<'r> {
    rules: &'r Rules,
    /// Number of plies that do not count for the length of the game.
    before: usize,
    /// Number of the last plies for which White (above 0) or Black (below 0) was winning.
    win_streak: i64,
    /// Number of the last plies for which the values were drawish.
    draw_streak: u32,
}

impl<'r> Adjudicator<'r> {
    /// An adjudicator for a new game, whose length counts from the start.
    pub fn new(rules: &'r Rules) -> Adjudicator<'r> {
        Adjudicator::after(rules, 0)
    }

    /// An adjudicator for a game whose length counts from the end of an opening of this many plies.
    pub fn after(rules: &'r Rules, plies: usize) -> Adjudicator<'r> {
        Adjudicator {
            rules,
            before: plies,
            win_streak: 0,
            draw_streak: 0,
        }
    }

    /// Whether the game is over after a move. `value` is White's value from the mover's search, if there is one.
    pub fn after_move(&mut self, history: &History, value: Option<f64>) -> Option<Verdict> {
        self.count(history, value);
        let by_rules = by_rules(history);
        if by_rules.is_some() {
            return by_rules;
        }
        if let Some(rule) = self.rules.win
            && self.win_streak.unsigned_abs() >= u64::from(rule.plies)
        {
            let winner = Color::from_white(self.win_streak > 0);
            return Some(Verdict::win(winner, Ending::AgreedWin));
        }
        if let Some(rule) = self.rules.draw
            && self.draw_streak >= rule.plies
        {
            return Some(Verdict::draw(Ending::AgreedDraw));
        }
        if let Some(verdict) = self.by_tables(history) {
            return Some(verdict);
        }
        let is_too_long = |max_plies| history.len() > self.before + max_plies;
        let is_too_long = self.rules.max_plies.is_some_and(is_too_long);
        is_too_long.then(|| Verdict::draw(Ending::Length))
    }

    fn count(&mut self, history: &History, value: Option<f64>) {
        if let Some(rule) = self.rules.win {
            let decided = match value {
                Some(value) if value >= rule.value => 1,
                Some(value) if value <= -rule.value => -1,
                _ => 0,
            };
            let goes_on = decided * self.win_streak > 0;
            self.win_streak = if goes_on {
                self.win_streak + decided
            } else {
                decided
            };
        }
        if let Some(rule) = self.rules.draw {
            let position = history.position();
            // The number of the played move: a move of Black has already increased the counter.
            let number = position.fullmoves().get() - u32::from(position.turn() == Color::White);
            let is_late = number >= rule.from_move;
            let is_level = is_late && value.is_some_and(|value| value.abs() <= rule.value);
            self.draw_streak = if is_level { self.draw_streak + 1 } else { 0 };
        }
    }

    /// Tablebases give the result right after a capture or pawn move, with the fifty-move rule included.
    fn by_tables(&self, history: &History) -> Option<Verdict> {
        let position = history.position();
        let result = self.rules.tables.as_ref()?.result(position)?;
        Some(match result {
            0 => Verdict::draw(Ending::Tablebase),
            1 => Verdict::win(position.turn(), Ending::Tablebase),
            _ => Verdict::win(!position.turn(), Ending::Tablebase),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::setup;

    fn game(fen: Option<&str>, moves: &str) -> History {
        let moves: Vec<String> = moves.split_whitespace().map(str::to_owned).collect();
        setup::history_from(fen, &moves).unwrap()
    }

    fn ending(fen: &str) -> Option<Ending> {
        by_rules(&game(Some(fen), "")).map(|verdict| verdict.ending)
    }

    #[test]
    fn games_end_by_the_rules_and_not_before() {
        assert_eq!(
            ending("R5k1/5ppp/8/8/8/8/8/6K1 b - - 100 80"),
            Some(Ending::Checkmate)
        );
        assert_eq!(
            ending("k7/8/1Q6/8/8/8/8/7K b - - 0 1"),
            Some(Ending::Stalemate)
        );
        for (fen, over) in [
            ("4k3/8/8/8/8/8/8/4K3 w - - 0 1", true),
            ("4k3/8/8/8/8/8/8/3NK3 w - - 0 1", true),
            ("4k3/8/8/8/8/8/8/3BK3 w - - 0 1", true),
            // Bishops on one colour, then on both.
            ("4k1b1/8/8/8/8/8/8/3BK3 w - - 0 1", true),
            ("4kb2/8/8/8/8/8/8/3BK3 w - - 0 1", false),
            ("4k3/8/8/8/8/8/8/2NNK3 w - - 0 1", false),
            ("4k1n1/8/8/8/8/8/8/3NK3 w - - 0 1", false),
            ("4k3/8/8/8/8/8/P7/4K3 w - - 0 1", false),
        ] {
            let found = ending(fen) == Some(Ending::InsufficientMaterial);
            assert_eq!(found, over, "{fen}");
        }
        assert_eq!(ending("4k3/8/8/8/8/8/8/R3K3 w - - 99 90"), None);
        assert_eq!(
            ending("4k3/8/8/8/8/8/8/R3K3 w - - 100 90"),
            Some(Ending::FiftyMoves)
        );
    }

    #[test]
    fn a_third_repetition_ends_a_game_when_it_is_on_the_board() {
        let moves = "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8";
        let words: Vec<&str> = moves.split(' ').collect();
        for plies in 0..words.len() {
            assert_eq!(by_rules(&game(None, &words[..plies].join(" "))), None);
        }
        let over = by_rules(&game(None, moves)).unwrap();
        assert_eq!(over, Verdict::draw(Ending::Repetition));
    }

    /// The results after these values for White, given in turn by the two sides.
    fn verdicts(rules: &Rules, values: &[Option<f64>]) -> Vec<Option<KnownOutcome>> {
        let history = game(Some("4k3/8/8/8/8/8/4P3/4K3 w - - 0 60"), "");
        let mut adjudicator = Adjudicator::new(rules);
        let mut after = |&value| adjudicator.after_move(&history, value);
        values.iter().map(|v| after(v).map(|v| v.outcome)).collect()
    }

    #[test]
    fn games_end_early_only_when_both_sides_agree_for_long_enough() {
        let rules = Rules {
            draw: Some(DrawRule {
                from_move: 35,
                plies: 16,
                value: 0.2,
            }),
            win: Some(WinRule {
                plies: 6,
                value: 6.0,
            }),
            ..Rules::default()
        };
        let verdicts = |values: &[f64]| {
            let values: Vec<_> = values.iter().map(|&v| v.is_finite().then_some(v)).collect();
            verdicts(&rules, &values)
        };
        let white = Some(KnownOutcome::Decisive {
            winner: Color::White,
        });
        let mut expected = vec![None; 5];
        expected.push(white);
        assert_eq!(verdicts(&[12.0; 6]), expected);
        let black = Some(KnownOutcome::Decisive {
            winner: Color::Black,
        });
        assert_eq!(*verdicts(&[-6.0; 6]).last().unwrap(), black);
        let unknown = f64::NAN;
        for values in [
            &[5.9; 12][..],
            &[12.0, 3.0, 12.0, 3.0, 12.0, 3.0, 12.0, 3.0],
            &[12.0, -12.0, 12.0, -12.0, 12.0, -12.0, 12.0],
            &[12.0, 12.0, 12.0, 12.0, 12.0, unknown, 12.0],
            &[0.05; 15],
        ] {
            assert_eq!(*verdicts(values).last().unwrap(), None, "{values:?}");
        }
        assert_eq!(
            *verdicts(&[0.05; 16]).last().unwrap(),
            Some(KnownOutcome::Draw)
        );
    }

    #[test]
    fn rules_are_read_from_text() {
        let win = WinRule {
            plies: 6,
            value: 0.95,
        };
        assert_eq!("6, 0.95".parse(), Ok(win));
        let draw = DrawRule {
            from_move: 35,
            plies: 16,
            value: 0.0,
        };
        assert_eq!("35,16,0".parse(), Ok(draw));
        for text in [
            "", "6", "0,1", "6,0", "6,-1", "6,inf", "6,nan", "6.5,1", "6,1,1",
        ] {
            let error = RuleError::Win(text.to_owned());
            assert_eq!(text.parse::<WinRule>(), Err(error));
        }
        for text in ["", "1,2", "1,0,1", "1,2,-1", "1,2,x", "-1,2,1", "1.5,2,1"] {
            let error = RuleError::Draw(text.to_owned());
            assert_eq!(text.parse::<DrawRule>(), Err(error));
        }
    }

    #[test]
    fn early_moves_do_not_count_and_long_games_end() {
        let rules = Rules {
            draw: Some(DrawRule {
                from_move: 2,
                plies: 2,
                value: 0.1,
            }),
            max_plies: Some(4),
            ..Rules::default()
        };
        let endings = |unknown: usize| {
            let mut adjudicator = Adjudicator::new(&rules);
            let moves = ["e2e4", "e7e5", "g1f3", "b8c6"];
            let ending = |plies: usize| {
                let value = (plies != unknown).then_some(0.0);
                let history = game(None, &moves[..plies].join(" "));
                adjudicator.after_move(&history, value).map(|v| v.ending)
            };
            (1..=moves.len()).map(ending).collect::<Vec<_>>()
        };
        assert_eq!(endings(3), [None, None, None, Some(Ending::Length)]);
        // Black's first move does not count.
        assert_eq!(endings(0), [None, None, None, Some(Ending::AgreedDraw)]);
    }

    #[test]
    fn tables_end_a_game_right_after_a_capture_or_pawn_move() {
        let Some(folder) = crate::shared::shared("syzygy") else {
            return;
        };
        let tables = Tables::open(folder.to_str().unwrap()).unwrap();
        let rules = Rules {
            tables: Some(Arc::new(tables)),
            ..Rules::default()
        };
        let verdicts = |fen: &str, moves: &str| {
            let verdict = Adjudicator::new(&rules).after_move(&game(Some(fen), moves), None);
            verdict.map(|verdict| (verdict.outcome, verdict.ending))
        };
        let win = |winner| Some((KnownOutcome::Decisive { winner }, Ending::Tablebase));
        // White takes the last pawn with a queen, or Black with a rook.
        let queen = "8/8/8/5k2/8/p7/8/Q3K3 w - - 9 50";
        assert_eq!(verdicts(queen, "a1a3"), win(Color::White));
        assert_eq!(verdicts(queen, "a1b1"), None);
        assert_eq!(
            verdicts("r3k3/8/8/8/P7/8/8/4K3 b - - 9 50", "a8a4"),
            win(Color::Black)
        );
        let draw = Some((KnownOutcome::Draw, Ending::Tablebase));
        assert_eq!(verdicts("6k1/8/8/8/8/6n1/r7/R3K3 w - - 9 50", "a1a2"), draw);
    }
}
