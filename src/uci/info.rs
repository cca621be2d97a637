//! Formats `info` and `bestmove` lines. Field order and the format of the move statistics are lc0's, which GUIs such
//! as Nibbler parse. Pure functions from reports to text.

use std::fmt::Write as _;

use shakmaty::{Chess, Color, Position};

use crate::{
    chess::{PackedMove, setup, wdl},
    network::{Value, input::policy_map},
    options::Options,
    search::{MoveStat, PvLine, Report, Score},
};

/// Tablebase wins are shown as mates in more moves than this, as lc0 does.
const TABLEBASE_MATE: i32 = 100;

/// Context of the text besides the report: the searched position and the options.
#[derive(Clone, Copy, Debug)]
pub struct Style<'a> {
    /// The root of the search.
    pub position: &'a Chess,
    /// Score type, castling notation, extra fields.
    pub options: &'a Options,
}

impl Style<'_> {
    /// One `info` line per principal variation.
    pub fn report(&self, report: &Report) -> Vec<String> {
        let several = report.lines.len() > 1 || self.options.multi_pv > 1;
        report
            .lines
            .iter()
            .enumerate()
            .map(|(index, line)| {
                let mut text = self.counters(report, line);
                self.push_score(&mut text, line);
                push(
                    &mut text,
                    format_args!(
                        " hashfull {} nps {}",
                        report.hashfull,
                        per_second(report.playouts, report),
                    ),
                );
                if self.options.show_eps {
                    let eps = per_second(report.evaluations, report);
                    push(&mut text, format_args!(" eps {eps}"));
                }
                push(&mut text, format_args!(" tbhits {}", report.tb_hits));
                if several {
                    push(&mut text, format_args!(" multipv {}", index + 1));
                }
                if !line.pv.is_empty() {
                    push(&mut text, format_args!(" pv {}", self.moves(&line.pv)));
                }
                text
            })
            .collect()
    }

    /// The practical and objective values of each line, where the report has them.
    pub fn objectives(&self, report: &Report) -> Vec<String> {
        let lines = report.lines.iter();
        lines.filter_map(|line| self.objective(line)).collect()
    }

    fn objective(&self, line: &PvLine) -> Option<String> {
        let objective = line.objective?;
        let is_own = self.options.sc_limit < 0;
        // With a negative ScLimit the own replies are frozen: the value shows the own mistakes, not the opponent's.
        let [practical, difference] = if is_own {
            ["careless", "slip"]
        } else {
            ["practical", "gain"]
        };
        // The side that moves may also play for best replies, so the practical value is at least that against them.
        let value = if !is_own && objective.value.wl > line.value.wl {
            objective.value
        } else {
            line.value
        };
        let format_value = |value: Value| {
            let [win, draw, loss] = wdl::per_mille(value);
            format!(
                "{} wdl {win} {draw} {loss}",
                self.score_text(line.score, value)
            )
        };
        // A line that begins with a move would be taken for statistics in lc0's format.
        Some(format!(
            "info string objective {} {} {practical} {} {difference} {:.3} next {:.3}",
            self.moves(line.pv.get(..1)?),
            format_value(objective.value),
            format_value(value),
            positive_zero(value.wl - objective.value.wl),
            objective.next_loss,
        ))
    }

    /// The `bestmove` line: the move and, if there is one, the expected reply.
    pub fn best_move(&self, best: Option<PackedMove>, ponder: Option<PackedMove>) -> String {
        let Some(best) = best else {
            return "bestmove (none)".into();
        };
        let mut text = format!("bestmove {}", self.moves(&[best]));
        if let Some(reply) = ponder {
            let mut after = self.position.clone();
            after.play_unchecked(best.unpack(self.position));
            let reply = setup::move_text(&after, reply, self.options.chess960);
            push(&mut text, format_args!(" ponder {reply}"));
        }
        text
    }

    /// The statistics of all root moves, one `info string` each.
    pub fn move_stats(&self, stats: &[MoveStat]) -> Vec<String> {
        stats
            .iter()
            .map(|stat| self.move_stat(stat, stats.len().saturating_sub(1)))
            .collect()
    }

    fn counters(&self, report: &Report, line: &PvLine) -> String {
        let nodes = if self.options.per_pv_counters {
            line.nodes
        } else {
            report.nodes
        };
        format!(
            "info depth {} seldepth {} time {} nodes {nodes}",
            report.depth,
            report.seldepth,
            report.elapsed.as_millis(),
        )
    }

    /// `mate 3` for a proven result, otherwise `cp 31`.
    fn score_text(&self, score: Score, value: Value) -> String {
        match score {
            Score::Mate(moves) => format!("mate {moves}"),
            Score::Tablebase(plies) => {
                let moves = plies.signum() * (TABLEBASE_MATE + ((plies.abs() + 1) / 2).max(1));
                format!("mate {moves}")
            }
            Score::Open => format!("cp {}", self.score(value)),
        }
    }

    fn push_score(&self, text: &mut String, line: &PvLine) {
        let score = self.score_text(line.score, line.value);
        push(text, format_args!(" score {score}"));
        if self.options.show_wdl {
            let [win, draw, loss] = wdl::per_mille(line.value);
            push(text, format_args!(" wdl {win} {draw} {loss}"));
        }
        if self.options.show_moves_left {
            push(
                text,
                format_args!(" movesleft {}", wdl::moves_left(line.value)),
            );
        }
    }

    /// A value in the units of `cp`.
    pub fn score(&self, value: Value) -> i32 {
        let draw_score = self.options.draw_score_for(self.position.turn());
        wdl::score(value, draw_score, self.options.score_type)
    }

    /// The moves of a line as text.
    pub fn move_list(&self, moves: &[PackedMove]) -> Vec<String> {
        let mut position = self.position.clone();
        moves
            .iter()
            .map(|&m| {
                let text = setup::move_text(&position, m, self.options.chess960);
                position.play_unchecked(m.unpack(&position));
                text
            })
            .collect()
    }

    fn moves(&self, moves: &[PackedMove]) -> String {
        self.move_list(moves).join(" ")
    }

    fn move_stat(&self, stat: &MoveStat, moves: usize) -> String {
        let (name, index) = match stat.m {
            Some(m) => {
                let black = self.position.turn() == Color::Black;
                (self.moves(&[m]), policy_map::index(m, black, 0))
            }
            None => ("node".into(), moves),
        };
        // As wide with a prior of 1, like lc0's.
        let decimals = if stat.p >= 0.99995 { 1 } else { 2 };
        let mut text = format!(
            "info string {name:<5} ({index:<4}) N: {:>7} (+{:>2}) (P: {:>5.decimals$}%) ",
            stat.n,
            stat.in_flight,
            f64::from(positive_zero(stat.p)) * 100.0
        );
        match stat.value {
            Some(value) => push(
                &mut text,
                format_args!(
                    "(WL: {:>8.5}) (D: {:.3}) (M: {:>4.1}) ",
                    positive_zero(value.wl),
                    value.d,
                    // As lc0: from the position after a move, without the move.
                    value.m - if stat.m.is_some() { 1.0 } else { 0.0 }
                ),
            ),
            None => text.push_str("(WL:  -.-----) (D: -.---) (M:  -.-) "),
        }
        let q = positive_zero(stat.q);
        push(&mut text, format_args!("(Q: {q:>8.5}) "));
        if stat.m.is_some() {
            let s = positive_zero(stat.s);
            push(
                &mut text,
                format_args!("(U: {:>6.5}) (S: {s:>8.5}) ", stat.u),
            );
        }
        match stat.v {
            Some(v) => push(&mut text, format_args!("(V: {:>7.4}) ", positive_zero(v))),
            None => text.push_str("(V:  -.----) "),
        }
        // lc0's marks: proven, at least a draw, at most a draw.
        text.push_str(match (stat.bounds.lower, stat.bounds.upper) {
            (lower, upper) if lower == upper => "(T) ",
            (0, 1) => "(W) ",
            (-1, 0) => "(L) ",
            _ => "",
        });
        if stat.frozen {
            text.push_str("(F) ");
        }
        text
    }
}

fn per_second(count: u64, report: &Report) -> u64 {
    let seconds = report.elapsed.as_secs_f64();
    if seconds <= 0.0 {
        return 0;
    }
    // A cast from float saturates.
    (count as f64 / seconds) as u64
}

/// Replaces -0.0 by 0.0, so that `-0.00000` is never printed.
fn positive_zero(x: f32) -> f32 {
    if x.abs() < 0.000_005 { 0.0 } else { x }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::setup::position_from_fen,
        search::{MoveStat, Objective, tree::node::Bounds},
    };
    use std::time::Duration;

    fn line(position: &Chess, score: Score, value: Value, moves: &str) -> PvLine {
        let mut position = position.clone();
        let pv = moves
            .split_whitespace()
            .map(|text| {
                let m = setup::parse_move(&position, text).unwrap();
                position.play_unchecked(m.unpack(&position));
                m
            })
            .collect();
        PvLine {
            score,
            value,
            pv,
            nodes: 7,
            objective: None,
        }
    }

    fn report(lines: Vec<PvLine>) -> Report {
        Report {
            depth: 3,
            seldepth: 9,
            elapsed: Duration::from_millis(500),
            nodes: 1200,
            playouts: 1000,
            hashfull: 12,
            tb_hits: 1,
            evaluations: 600,
            lines,
        }
    }

    const VALUE: Value = Value {
        wl: 0.4,
        d: 0.4,
        m: 61.0,
    };

    #[test]
    fn fields_come_in_the_usual_order() {
        let position = Chess::default();
        let mut options = Options::default();
        let report = report(vec![line(&position, Score::Open, VALUE, "e2e4 e7e5")]);
        fn style<'a>(position: &'a Chess, options: &'a Options) -> Style<'a> {
            Style { position, options }
        }
        assert_eq!(
            style(&position, &options).report(&report),
            [
                "info depth 3 seldepth 9 time 500 nodes 1200 score cp 100 hashfull 12 nps 2000 tbhits 1 pv e2e4 e7e5"
            ]
        );
        options.show_wdl = true;
        options.show_moves_left = true;
        options.multi_pv = 2;
        options.per_pv_counters = true;
        assert_eq!(
            style(&position, &options).report(&report),
            [
                "info depth 3 seldepth 9 time 500 nodes 7 score cp 100 wdl 500 400 100 movesleft 31 \
                 hashfull 12 nps 2000 tbhits 1 multipv 1 pv e2e4 e7e5"
            ]
        );
        options.show_eps = true;
        let lines = style(&position, &options).report(&report);
        assert!(
            lines[0].contains(" nps 2000 eps 1200 tbhits 1 "),
            "{lines:?}"
        );
    }

    #[test]
    fn practical_and_objective_values_are_on_one_line() {
        let position = Chess::default();
        let options = Options::default();
        let style = Style {
            position: &position,
            options: &options,
        };
        let mut line = line(&position, Score::Open, VALUE, "e2e4 e7e5");
        assert!(style.objectives(&report(vec![line.clone()])).is_empty());
        line.objective = Some(Objective {
            value: Value { wl: 0.1, ..VALUE },
            next_loss: 0.2,
        });
        assert_eq!(
            style.objectives(&report(vec![line.clone()])),
            [
                "info string objective e2e4 cp 28 wdl 350 400 250 practical cp 100 wdl 500 400 100 \
                 gain 0.300 next 0.200"
            ]
        );
        // Both values are estimates; the practical one is at least the other. The own mistakes may lose.
        line.objective = Some(Objective {
            value: Value { wl: 0.5, ..VALUE },
            next_loss: 0.0,
        });
        let found = style.objectives(&report(vec![line.clone()])).remove(0);
        let both = "cp 115 wdl 550 400 50 practical cp 115 wdl 550 400 50 gain 0.000 next 0.000";
        assert!(found.ends_with(both), "{found}");
        let of_own = Options {
            sc_limit: -20,
            ..Options::default()
        };
        let style_of_own = Style {
            position: &position,
            options: &of_own,
        };
        let found = style_of_own
            .objectives(&report(vec![line.clone()]))
            .remove(0);
        assert!(found.contains(" careless cp 100 "), "{found}");
        assert!(found.ends_with(" slip -0.100 next 0.000"), "{found}");
        line.score = Score::Mate(2);
        line.value = Value {
            wl: 1.0,
            d: 0.0,
            m: 3.0,
        };
        line.objective = Some(Objective {
            value: line.value,
            next_loss: 0.0,
        });
        assert_eq!(
            style.objectives(&report(vec![line])),
            [
                "info string objective e2e4 mate 2 wdl 1000 0 0 practical mate 2 wdl 1000 0 0 gain 0.000 next 0.000"
            ],
            "no number of centipawns is a mate"
        );
    }

    #[test]
    fn proven_results_are_mates() {
        let position = Chess::default();
        let options = Options::default();
        for (score, text) in [
            (Score::Mate(3), " score mate 3 "),
            (Score::Mate(-2), " score mate -2 "),
            (Score::Mate(0), " score mate 0 "),
            (Score::Tablebase(1), " score mate 101 "),
            (Score::Tablebase(-8), " score mate -104 "),
        ] {
            let style = Style {
                position: &position,
                options: &options,
            };
            let lines = style.report(&report(vec![line(&position, score, VALUE, "e2e4")]));
            assert!(lines[0].contains(text), "{}", lines[0]);
        }
    }

    #[test]
    fn castling_notation_follows_the_mode() {
        let position = position_from_fen("4k3/8/8/8/8/8/8/4K2R w K - 0 1").unwrap();
        let report = report(vec![line(&position, Score::Open, VALUE, "e1g1 e8d8")]);
        for (chess960, pv) in [(false, "pv e1g1 e8d8"), (true, "pv e1h1 e8d8")] {
            let options = Options {
                chess960,
                ..Options::default()
            };
            let style = Style {
                position: &position,
                options: &options,
            };
            assert!(style.report(&report)[0].ends_with(pv));
            let moves = &report.lines[0].pv;
            let text = style.best_move(Some(moves[0]), Some(moves[1]));
            let castling = pv.split(' ').nth(1).unwrap();
            assert_eq!(text, format!("bestmove {castling} ponder e8d8"));
        }
    }

    /// Statistics of a move in the start position.
    fn stat(position: &Chess) -> MoveStat {
        MoveStat {
            m: Some(setup::parse_move(position, "e2e4").unwrap()),
            n: 387,
            in_flight: 1,
            p: 0.2036,
            p_without_noise: 0.2036,
            value: Some(VALUE),
            q: -0.000_001,
            u: 0.012_34,
            s: 0.012_34,
            v: Some(0.05),
            bounds: Bounds::OPEN,
            frozen: false,
        }
    }

    #[test]
    fn statistics_have_lc0s_format() {
        let position = Chess::default();
        let options = Options::default();
        let style = Style {
            position: &position,
            options: &options,
        };
        let mut stat = stat(&position);
        let mut unvisited = stat.clone();
        unvisited.value = None;
        unvisited.v = None;
        unvisited.frozen = true;
        unvisited.bounds = Bounds::exact(-1);
        stat.bounds = Bounds::OPEN;
        let mut only = stat.clone();
        only.p = 1.0;
        assert!(style.move_stats(&[only])[0].contains(" (P: 100.0%) (WL: "));
        let mut root = stat.clone();
        root.m = None;
        assert_eq!(
            style.move_stats(&[unvisited, stat, root]),
            [
                "info string e2e4  (322 ) N:     387 (+ 1) (P: 20.36%) (WL:  -.-----) (D: -.---) (M:  -.-) \
                 (Q:  0.00000) (U: 0.01234) (S:  0.01234) (V:  -.----) (T) (F) ",
                "info string e2e4  (322 ) N:     387 (+ 1) (P: 20.36%) (WL:  0.40000) (D: 0.400) (M: 60.0) \
                 (Q:  0.00000) (U: 0.01234) (S:  0.01234) (V:  0.0500) ",
                "info string node  (2   ) N:     387 (+ 1) (P: 20.36%) (WL:  0.40000) (D: 0.400) (M: 61.0) \
                 (Q:  0.00000) (V:  0.0500) ",
            ]
        );
    }

    #[test]
    fn proven_results_have_lc0s_marks() {
        let position = Chess::default();
        let options = Options::default();
        let style = Style {
            position: &position,
            options: &options,
        };
        let mark = |lower, upper| {
            let stat = MoveStat {
                bounds: Bounds { lower, upper },
                ..stat(&position)
            };
            let [line] = &style.move_stats(&[stat])[..] else {
                panic!("one move, one line");
            };
            line.rsplit_once("(V:  0.0500) ").unwrap().1.to_owned()
        };
        assert_eq!(mark(-1, 1), "");
        for result in -1..=1 {
            assert_eq!(mark(result, result), "(T) ");
        }
        assert_eq!(mark(0, 1), "(W) ");
        assert_eq!(mark(-1, 0), "(L) ");
    }

    #[test]
    fn ponder_reports_start_after_the_reply() {
        let position = Chess::default();
        let reply = setup::parse_move(&position, "e2e4").unwrap();
        let lines_after_reply = |score| {
            let lines = vec![
                line(&position, Score::Open, VALUE, "d2d4 d7d5"),
                line(&position, score, VALUE, "e2e4 e7e5 g1f3"),
            ];
            report(lines).after_reply(reply).unwrap().lines
        };
        let lines = lines_after_reply(Score::Open);
        assert_eq!((lines.len(), lines[0].pv.len()), (1, 2));
        assert_eq!(lines[0].value.wl, -0.4);
        // The opponent mates in 3, one of which is the reply; or is mated in 3 after it.
        assert_eq!(lines_after_reply(Score::Mate(3))[0].score, Score::Mate(-2));
        assert_eq!(lines_after_reply(Score::Mate(-3))[0].score, Score::Mate(3));
        let other = setup::parse_move(&position, "a2a3").unwrap();
        assert!(report(lines).after_reply(other).is_none());
    }
}
