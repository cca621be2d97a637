//! Test suites: positions with known best moves.

use super::record::SolutionRecord;
use crate::stats::median;

/// Number of positions with a known solution that were solved, and when.
#[derive(Default)]
pub struct SuiteScore {
    tested: u64,
    solved: u64,
    solutions: Vec<SolutionRecord>,
}

impl SuiteScore {
    /// Counts a position. `solved` is `None` without a known solution.
    pub fn add(&mut self, solved: Option<bool>, solution: Option<SolutionRecord>) {
        self.tested += u64::from(solved.is_some());
        self.solved += u64::from(solved == Some(true));
        self.solutions.extend(solution);
    }

    /// The score as text, if there was a known solution.
    pub fn text(&self) -> Option<String> {
        if self.tested == 0 {
            return None;
        }
        let mut text = format!("solved {} of {}", self.solved, self.tested);
        if !self.solutions.is_empty() {
            let solutions = self.solutions.iter();
            let nodes = median(solutions.clone().map(|s| s.nodes as f64).collect());
            let seconds = median(solutions.map(|s| s.time_ms as f64 / 1000.0).collect());
            let ending = if nodes == 1.0 { "" } else { "s" };
            text += &format!("; median to the solution: {nodes} node{ending}, {seconds:.2} s");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_reported_with_its_medians() {
        let mut score = SuiteScore::default();
        assert_eq!(score.text(), None);
        score.add(Some(false), None);
        assert_eq!(score.text().unwrap(), "solved 0 of 1");
        for (nodes, time_ms, expected) in [
            (
                1,
                1000,
                "solved 1 of 2; median to the solution: 1 node, 1.00 s",
            ),
            (
                100,
                3000,
                "solved 2 of 3; median to the solution: 50.5 nodes, 2.00 s",
            ),
        ] {
            score.add(Some(true), Some(SolutionRecord { nodes, time_ms }));
            assert_eq!(score.text().unwrap(), expected);
        }
    }
}
