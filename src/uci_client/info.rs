//! Parses the `info` lines of an engine.

use std::str::FromStr;

/// A score for the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineScore {
    /// In the engine's centipawns.
    Centipawns(i32),
    /// Mate in this many moves; negative if the side to move gets mated.
    Mate(i32),
}

/// The contents of an `info` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoLine {
    /// The rank of its principal variation, from 1 (`multipv`).
    pub rank: usize,
    /// The score of the principal variation.
    pub score: Option<EngineScore>,
    /// Whether the score is only a bound.
    pub is_bound: bool,
    /// The first move of the principal variation, unchecked.
    pub first: Option<String>,
    /// Depth in plies.
    pub depth: Option<u32>,
    /// Nodes searched.
    pub nodes: Option<u64>,
}

impl InfoLine {
    /// Parses a line; `None` if it is not an `info` line, or an `info string`.
    pub fn parse(line: &str) -> Option<InfoLine> {
        let mut words = line.split_whitespace().peekable();
        words.next_if_eq(&"info")?;
        if words.peek() == Some(&"string") {
            return None;
        }
        let words: Vec<&str> = words.collect();
        let rest = words_after(&words, "score");
        let score = match rest {
            ["cp", value, ..] => value.parse().ok().map(EngineScore::Centipawns),
            ["mate", value, ..] => value.parse().ok().map(EngineScore::Mate),
            _ => None,
        };
        let mut of_score = rest.iter().take_while(|&&word| word != "pv");
        Some(InfoLine {
            rank: value_after(&words, "multipv").unwrap_or(1).max(1),
            score,
            is_bound: of_score.any(|word| ["lowerbound", "upperbound"].contains(word)),
            first: value_after(&words, "pv"),
            depth: value_after(&words, "depth"),
            nodes: value_after(&words, "nodes"),
        })
    }
}

/// The last report of an engine about its best line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastInfo {
    /// The score; bounds are ignored.
    pub score: Option<EngineScore>,
    /// Depth in plies.
    pub depth: Option<u32>,
    /// Nodes searched.
    pub nodes: Option<u64>,
}

impl LastInfo {
    /// Updates the report from a line of the engine.
    pub(super) fn on_line(&mut self, line: &str) {
        let Some(info) = InfoLine::parse(line).filter(|info| info.rank == 1) else {
            return;
        };
        self.depth = info.depth.or(self.depth);
        self.nodes = info.nodes.or(self.nodes);
        self.score = info.score.filter(|_| !info.is_bound).or(self.score);
    }
}

/// The words after `name`; empty if it is not there.
fn words_after<'a, 'w>(words: &'w [&'a str], name: &str) -> &'w [&'a str] {
    let at = words.iter().position(|&word| word == name);
    at.map_or(&[], |at| &words[at + 1..])
}

/// The value that follows `name`.
pub(super) fn value_after<T: FromStr>(words: &[&str], name: &str) -> Option<T> {
    words_after(words, name).first()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_lines_are_parsed() {
        let line =
            "info depth 3 multipv 2 score cp -51 upperbound wdl 1 2 3 nodes 100 pv e2e4 e7e5";
        let expected = InfoLine {
            rank: 2,
            score: Some(EngineScore::Centipawns(-51)),
            is_bound: true,
            first: Some("e2e4".into()),
            depth: Some(3),
            nodes: Some(100),
        };
        assert_eq!(InfoLine::parse(line), Some(expected));
        let bare = InfoLine::parse("info multipv 0 score cp x pv").unwrap();
        assert_eq!((bare.rank, bare.score, bare.first), (1, None, None));
        for other in ["info string score cp 7", "information", "bestmove e2e4", ""] {
            assert_eq!(InfoLine::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_best_line_is_kept() {
        let mut last_info = LastInfo::default();
        for line in [
            "info depth 3 seldepth 9 multipv 1 score cp -31 nodes 120 pv e2e4",
            "info depth 9 multipv 2 score cp 99 nodes 200 pv d2d4",
            "info depth 4 score cp 500 lowerbound nodes 300",
            "info string score cp 7",
            "info nodes 400",
            "mate 3",
        ] {
            last_info.on_line(line);
        }
        let expected = LastInfo {
            score: Some(EngineScore::Centipawns(-31)),
            depth: Some(4),
            nodes: Some(400),
        };
        assert_eq!(last_info, expected);
        last_info.on_line("info depth 5 score mate -3");
        assert_eq!(last_info.score, Some(EngineScore::Mate(-3)));
    }
}
