//! The result of a match as text, as JSON and as a page with plots.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::tally::{ForfeitNote, Standing, Tally};
use crate::{
    html::{
        page::Page,
        plot::{MarkStyle, Plot, Series},
    },
    stats::{
        elo::{Counts, Estimate, Games, Pairs},
        sprt::{Model, Sprt, SprtVerdict},
    },
    terminal::counted,
};

/// Maximum number of points of a plot over games.
const MAX_POINTS: usize = 400;

/// The result of a match, from the first player's point of view. In JSON, undefined numbers are null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatchReport {
    /// The players as given in the arguments.
    pub players: [String; 2],
    /// The limits of their moves.
    pub limits: [String; 2],
    /// Games played.
    pub games: u64,
    /// Remaining games, unless a test has stopped the match.
    pub left: u64,
    /// Games won.
    pub wins: u64,
    /// Games drawn.
    pub draws: u64,
    /// Games lost.
    pub losses: u64,
    /// Pairs of games by points: 0, 1/2, 1, 3/2, 2; `None` if colours do not change.
    pub pairs: Option<Pairs>,
    /// Of the pairs with one point, those with a win and a loss, and those with two draws; `None` as for `pairs`.
    pub even_pairs: Option<[u64; 2]>,
    /// Score, Elo, likelihood of superiority.
    pub estimate: Option<Estimate>,
    /// The sequential test, if there is one.
    pub sprt: Option<SprtReport>,
    /// Number of games by reason of their end.
    pub endings: BTreeMap<String, u64>,
    /// Forfeited games.
    pub forfeits: Vec<ForfeitNote>,
}

/// The state of a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SprtReport {
    /// The parameters of the test.
    #[serde(flatten)]
    pub test: Sprt,
    /// The log likelihood ratio.
    pub llr: f64,
    /// The ratio at which H0 is accepted.
    pub lower: f64,
    /// The ratio at which H1 is accepted.
    pub upper: f64,
    /// The accepted hypothesis, if there is one.
    pub verdict: SprtVerdict,
}

impl MatchReport {
    /// The report of a tally.
    pub fn new(players: [String; 2], limits: [String; 2], tally: &Tally, left: u64) -> MatchReport {
        let standing = tally.standing();
        let Games {
            0: [losses, draws, wins],
        } = tally.games();
        let test = tally.sprt().map(|test| {
            let llr = standing.ratio.unwrap_or(0.0);
            let (lower, upper) = test.bounds();
            SprtReport {
                test: *test,
                llr,
                lower,
                upper,
                verdict: tally.verdict(),
            }
        });
        MatchReport {
            players,
            limits,
            games: standing.games,
            left,
            wins,
            draws,
            losses,
            pairs: tally.is_paired().then(|| tally.pairs()),
            even_pairs: tally.is_paired().then(|| tally.even_pairs()),
            estimate: standing.estimate,
            sprt: test,
            endings: tally.endings.clone(),
            forfeits: tally.forfeits.clone(),
        }
    }

    /// The report as text: the lines that fastchess prints, and what else there is to say.
    pub fn text(&self) -> String {
        let [first, second] = &self.players;
        let [first_limit, second_limit] = &self.limits;
        let limits = if first_limit == second_limit {
            first_limit.clone()
        } else {
            format!("{first_limit}; {second_limit}")
        };
        let mut lines = vec![format!("Results of {first} vs {second} ({limits}):")];
        lines.extend(self.fastchess_lines());
        if let Some(estimate) = &self.estimate {
            let text = estimate_text(estimate, self.pairs.is_some());
            lines.push(format!("Score{}: {text}", self.complete_pairs()));
        }
        if let Some(sprt) = &self.sprt {
            lines.push(sprt_text(sprt));
        }
        let endings = self
            .endings
            .iter()
            .map(|(ending, n)| format!("{ending} {n}"));
        if self.games > 0 {
            lines.push(format!(
                "Games ended by {}",
                endings.collect::<Vec<_>>().join(", ")
            ));
        }
        for forfeit in &self.forfeits {
            lines.push(format!(
                "FORFEIT of the {} in game {}: {}",
                forfeit.player, forfeit.round, forfeit.details
            ));
        }
        if self.left > 0 {
            lines.push(format!("not played: {}", counted(self.left, "game")));
        }
        lines.join("\n")
    }

    /// Elo, LOS, games, pentanomial and LLR as fastchess prints them, for programs that read its output. Numbers that
    /// the results do not bound are omitted. Errors and LOS are fastchess's, which differ from ours with few pairs.
    fn fastchess_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let estimate = match &self.pairs {
            Some(pairs) => pairs.fastchess_estimate(),
            None => Counts([self.losses, self.draws, self.wins]).fastchess_estimate(),
        };
        if let Some(estimate) = estimate {
            let Estimate { elo, elo_error, .. } = estimate;
            if elo.is_finite() && elo_error.is_finite() && estimate.nelo.is_finite() {
                let (nelo, nelo_error) = (estimate.nelo, estimate.nelo_error);
                lines.push(format!(
                    "Elo: {elo:.2} +/- {elo_error:.2}, nElo: {nelo:.2} +/- {nelo_error:.2}"
                ));
            }
            if estimate.los.is_finite() {
                let los = format!("LOS: {:.2} %", 100.0 * estimate.los);
                lines.push(los + &self.pair_ratios());
            }
        }
        let points = self.wins as f64 + self.draws as f64 / 2.0;
        let percent = 100.0 * points / self.games.max(1) as f64;
        lines.push(format!(
            "Games: {}, Wins: {}, Losses: {}, Draws: {}, Points: {points:.1} ({percent:.2} %)",
            self.games, self.wins, self.losses, self.draws
        ));
        if let (Some(pairs), Some([won_and_lost, drawn])) = (&self.pairs, self.even_pairs) {
            let ratio =
                ratio(won_and_lost, drawn).map(|ratio| format!(", WL/DD Ratio: {ratio:.2}"));
            lines.push(format!(
                "Ptnml(0-2): {:?}{}",
                pairs.0,
                ratio.unwrap_or_default()
            ));
        }
        if let Some(sprt) = &self.sprt {
            let bound = if sprt.llr < 0.0 {
                -sprt.lower
            } else {
                sprt.upper
            };
            lines.push(format!(
                "LLR: {} ({:.1}%) ({:.2}, {:.2}) [{:.2}, {:.2}]",
                ratio_text(sprt.llr),
                rounded(100.0 * sprt.llr / bound, 1),
                sprt.lower,
                sprt.upper,
                sprt.test.elo0,
                sprt.test.elo1
            ));
        }
        lines
    }

    /// ` of 7 complete pairs` if there are other games, which the estimate does not count.
    fn complete_pairs(&self) -> String {
        match self.pairs.map(|pairs| pairs.total()) {
            Some(pairs) if self.games != 2 * pairs => {
                format!(" of {}", counted(pairs, "complete pair"))
            }
            _ => String::new(),
        }
    }

    /// The shares of drawn pairs, and of won to lost pairs.
    fn pair_ratios(&self) -> String {
        let Some(Counts([ll, ld, even, wd, ww])) = self.pairs else {
            let share = 100.0 * self.draws as f64 / self.games.max(1) as f64;
            return format!(", DrawRatio: {share:.2} %");
        };
        let total = (ll + ld + even + wd + ww).max(1);
        let mut text = format!(", DrawRatio: {:.2} %", 100.0 * even as f64 / total as f64);
        if let Some(ratio) = ratio(wd + ww, ll + ld) {
            text += &format!(", PairsRatio: {ratio:.2}");
        }
        text
    }

    /// An HTML page with the course of the match.
    ///
    /// # Errors
    /// When a plot cannot be drawn.
    pub fn page(&self, course: &[Standing]) -> Result<String> {
        let mut page = Page::new("Match");
        for line in self.text().lines() {
            page.paragraph(line);
        }
        let elo = elo_plot(course);
        // There is no Elo while one side has all points.
        if elo.series.iter().any(|series| !series.values.is_empty()) {
            page.heading("Elo by games played");
            page.figure(
                &elo.svg()?,
                "Of the first player, with its interval of 95 %.",
            );
        }
        if let Some(sprt) = &self.sprt {
            page.heading("Log likelihood ratio");
            page.figure(
                &ratio_plot(course, sprt).svg()?,
                "The test ends at one of the bounds: the upper one means H1, the lower one H0.",
            );
        }
        if let Some(pairs) = &self.pairs {
            page.heading("Pairs of games by points");
            page.figure(
                &pairs_plot(pairs).svg()?,
                "Both games of an opening together.",
            );
        }
        Ok(page.finish())
    }
}

/// One count divided by another; `None` if that is 0.
fn ratio(count: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| count as f64 / other as f64)
}

/// The points of the plots over games.
pub fn course(tally: &Tally) -> Vec<Standing> {
    tally.course(MAX_POINTS)
}

/// `55.0 % (50.1 to 59.9), Elo +34.9 +/- 29.1 (+6.0 to +64.3), normalised +34.8 +/- 28.9, LOS 99.1 %`, without the
/// numbers that the results do not bound. `of_pairs`: the samples are complete pairs rather than single games.
pub fn estimate_text(estimate: &Estimate, of_pairs: bool) -> String {
    let percent = |score: f64| 100.0 * score.clamp(0.0, 1.0);
    let score = percent(estimate.score);
    let los = format!("LOS {:.1} %", 100.0 * estimate.los);
    let elo = elo_text(estimate, of_pairs);
    if estimate.los.is_nan() {
        // Without a spread there is no interval.
        return format!("{score:.1} %, {elo}");
    }
    let [low, high] = [-1.0, 1.0].map(|side| percent(estimate.score + side * estimate.score_error));
    let (elo_low, elo_high) = (estimate.elo_low, estimate.elo_high);
    let mut text = format!("{score:.1} % ({low:.1} to {high:.1}), {elo}");
    if elo_low.is_finite() && elo_high.is_finite() {
        text += &format!(" ({elo_low:+.1} to {elo_high:+.1})");
    }
    if estimate.nelo.is_finite() {
        let (value, error) = (estimate.nelo, estimate.nelo_error);
        text += &format!(", normalised {value:+.1} +/- {error:.1}");
    }
    format!("{text}, {los}")
}

/// `Elo +34.9 +/- 29.1`, with only one bound if there is only one, and words if all games, or all complete pairs of
/// games (`of_pairs`), were won or lost: games of incomplete pairs may have other results.
pub fn elo_text(estimate: &Estimate, of_pairs: bool) -> String {
    let Estimate {
        elo,
        elo_error,
        elo_low,
        elo_high,
        ..
    } = *estimate;
    if elo.is_infinite() {
        let result = if elo > 0.0 { "won" } else { "lost" };
        let what = if of_pairs { "complete pairs" } else { "games" };
        return format!("all {what} {result}: no Elo yet");
    }
    let text = format!("Elo {elo:+.1}");
    if elo_error.is_finite() {
        format!("{text} +/- {elo_error:.1}")
    } else if elo_low.is_finite() {
        format!("{text}, at least {elo_low:+.1}")
    } else if elo_high.is_finite() {
        format!("{text}, at most {elo_high:+.1}")
    } else {
        format!("{text}, error not known yet")
    }
}

fn sprt_text(sprt: &SprtReport) -> String {
    let verdict = match sprt.verdict {
        SprtVerdict::H0 => "H0 is accepted",
        SprtVerdict::H1 => "H1 is accepted",
        SprtVerdict::Continue => "not decided",
    };
    format!(
        "SPRT of {} against {} ({}): LLR {} ({:.2} to {:.2}), {verdict}",
        sprt.test.elo1,
        sprt.test.elo0,
        match sprt.test.model {
            Model::Logistic => "logistic Elo",
            Model::Normalized => "normalized Elo",
        },
        ratio_text(sprt.llr),
        sprt.lower,
        sprt.upper
    )
}

/// A log likelihood ratio with two decimals, and without the sign of a negative zero.
pub fn ratio_text(llr: f64) -> String {
    format!("{:.2}", rounded(llr, 2))
}

/// The value with this number of decimals; a zero has no sign.
fn rounded(value: f64, decimals: i32) -> f64 {
    let unit = 10_f64.powi(decimals);
    (value * unit).round() / unit + 0.0
}

fn elo_plot(course: &[Standing]) -> Plot {
    let line = |value: fn(&Estimate) -> f64| {
        let points = course.iter().filter_map(move |standing| {
            let estimate = standing.estimate.as_ref()?;
            Some((standing.games as f64, value(estimate)))
        });
        points.filter(|(_, y)| y.abs() < 2000.0).collect::<Vec<_>>()
    };
    Plot {
        x_name: "games".into(),
        y_name: "Elo".into(),
        is_log: false,
        x_labels: Vec::new(),
        series: vec![
            Series::new("Elo", MarkStyle::Line, 0, line(|estimate| estimate.elo)),
            Series::new(
                "95 %, low",
                MarkStyle::Thin,
                1,
                line(|estimate| estimate.elo_low),
            ),
            Series::new(
                "95 %, high",
                MarkStyle::Thin,
                1,
                line(|estimate| estimate.elo_high),
            ),
        ],
    }
}

fn ratio_plot(course: &[Standing], sprt: &SprtReport) -> Plot {
    let points = course.iter();
    let points = points.filter_map(|standing| Some((standing.games as f64, standing.ratio?)));
    let last = course.last().map_or(1.0, |standing| standing.games as f64);
    let bound = |y: f64| [(0.0, y), (last, y)];
    Plot {
        x_name: "games".into(),
        y_name: "log likelihood ratio".into(),
        is_log: false,
        x_labels: Vec::new(),
        series: vec![
            Series::new("LLR", MarkStyle::Line, 0, points),
            Series::new("bounds", MarkStyle::Thin, 1, bound(sprt.lower)),
            Series::new("", MarkStyle::Thin, 1, bound(sprt.upper)),
        ],
    }
}

fn pairs_plot(pairs: &Pairs) -> Plot {
    let points = pairs.0.iter().enumerate();
    let points = points.map(|(points, &count)| (points as f64, count as f64));
    Plot {
        x_name: "points".into(),
        y_name: "pairs".into(),
        is_log: false,
        x_labels: ["0", "1/2", "1", "3/2", "2"].map(str::to_owned).to_vec(),
        series: vec![Series::new("pairs", MarkStyle::Bars, 0, points)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::tally::Round;
    use shakmaty::{Color, KnownOutcome};

    fn tally(is_paired: bool, sprt: &str) -> Tally {
        let mut tally = Tally::new(is_paired, sprt.parse().ok());
        for pair in 0..10 {
            let winner = Color::White;
            let won = KnownOutcome::Decisive { winner };
            let reason = "White forfeits (time): 0.300 s";
            tally.add(Round { pair, half: 0 }, won, "checkmate", false);
            if is_paired {
                let is_forfeit = pair == 3;
                let ending = if is_forfeit { reason } else { "stalemate" };
                tally.add(
                    Round { pair, half: 1 },
                    KnownOutcome::Draw,
                    ending,
                    is_forfeit,
                );
            }
        }
        tally
    }

    #[test]
    fn a_report_is_complete() {
        let tally = tally(true, "0,200,0.05,0.05");
        let names = || ["a".to_owned(), "b".to_owned()];
        let report = MatchReport::new(names(), names(), &tally, 2);
        let text = report.text();
        for part in [
            "Results of a vs b (a; b):",
            "Games: 20, Wins: 10, Losses: 0, Draws: 10, Points: 15.0 (75.00 %)",
            "Ptnml(0-2): [0, 0, 0, 10, 0]",
            "LLR: ",
            "(-2.94, 2.94) [0.00, 200.00]",
            "\nScore: 75.0 %",
            "Elo +190.8",
            "SPRT of 200 against 0",
            "checkmate 10, forfeit 1, stalemate 9",
            "in game 4.2",
            "not played: 2 games",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["pairs"], serde_json::json!([0, 0, 0, 10, 0]));
        assert_eq!(json["sprt"]["elo1"], 200.0);
        assert_eq!(json["forfeits"][0]["round"], "4.2");
        let page = report.page(&course(&tally)).unwrap();
        assert_eq!(page.matches("<svg").count(), 3);
    }

    #[test]
    fn undefined_numbers_are_not_shown() {
        for (pairs, expected) in [
            // 2-0: no spread, so there are no bounds.
            (
                [0, 0, 0, 0, 1],
                "100.0 %, all complete pairs won: no Elo yet",
            ),
            (
                [3, 0, 0, 0, 0],
                "0.0 %, all complete pairs lost: no Elo yet",
            ),
            (
                [0, 0, 0, 1, 4],
                "95.0 % (81.1 to 100.0), Elo +511.5, at least +253.2, normalised +1105.5 +/- 341.1, LOS 100.0 %",
            ),
            (
                [4, 1, 0, 0, 0],
                "5.0 % (0.0 to 18.9), Elo -511.5, at most -253.2, normalised -1105.5 +/- 341.1, LOS 0.0 %",
            ),
            (
                [1, 0, 0, 0, 1],
                "50.0 % (0.0 to 100.0), Elo +0.0, error not known yet, normalised +0.0 +/- 3121.6, LOS 50.0 %",
            ),
            // Two pairs say little.
            (
                [0, 0, 0, 1, 1],
                "87.5 % (0.0 to 100.0), Elo +338.0, error not known yet, normalised +737.0 +/- 3121.6, LOS 89.8 %",
            ),
            // All pairs have the same result: no spread.
            ([0, 0, 0, 5, 0], "75.0 %, Elo +190.8, error not known yet"),
        ] {
            let estimate = Counts(pairs).estimate().unwrap();
            assert_eq!(estimate_text(&estimate, true), expected, "{pairs:?}");
        }
        let estimate = Counts([0, 0, 3]).estimate().unwrap();
        let text = estimate_text(&estimate, false);
        assert_eq!(text, "100.0 %, all games won: no Elo yet");
    }

    /// 22 pairs of all kinds; the expected lines are computed by hand from the formulas that fastchess documents.
    #[test]
    fn results_are_printed_as_fastchess_prints_them() {
        let mut tally = Tally::new(true, "0,5,0.05,0.05".parse().ok());
        let (won, lost) = (Color::White, Color::Black);
        let result = |winner: Option<Color>| match winner {
            None => KnownOutcome::Draw,
            Some(winner) => KnownOutcome::Decisive { winner },
        };
        let kinds = [
            (2, [Some(lost), Some(won)]),
            (3, [Some(lost), None]),
            (4, [None, None]),
            (5, [Some(won), Some(won)]),
            (6, [Some(won), None]),
            (2, [Some(won), Some(lost)]),
        ];
        let games = kinds.iter().flat_map(|(count, pair)| vec![*pair; *count]);
        for (pair, winners) in games.enumerate() {
            for (half, winner) in winners.into_iter().enumerate() {
                tally.add(Round { pair, half }, result(winner), "checkmate", false);
            }
        }
        let names = || ["a".to_owned(), "b".to_owned()];
        let limits = || ["clock=10+0.1".to_owned(), "clock=10+0.1".to_owned()];
        let text = MatchReport::new(names(), limits(), &tally, 0).text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Results of a vs b (clock=10+0.1):");
        // Mean score 23.5 / 44.
        let elo = -400.0 * (44.0_f64 / 23.5 - 1.0).log10();
        assert!(
            lines[1].starts_with(&format!("Elo: {elo:.2} +/- ")),
            "{text}"
        );
        assert!(lines[1].contains(", nElo: "), "{text}");
        assert!(
            lines[2].starts_with("LOS: ")
                && lines[2].ends_with(" %, DrawRatio: 40.91 %, PairsRatio: 1.60"),
            "{text}"
        );
        assert_eq!(
            lines[3..5],
            [
                "Games: 44, Wins: 15, Losses: 12, Draws: 17, Points: 23.5 (53.41 %)",
                "Ptnml(0-2): [2, 3, 9, 6, 2], WL/DD Ratio: 1.25"
            ]
        );
        assert!(
            lines[5].starts_with("LLR: 0.") && lines[5].ends_with("%) (-2.94, 2.94) [0.00, 5.00]"),
            "{text}"
        );
    }

    /// Three wins and a draw: the line of fastchess has its numbers, the one below ours.
    #[test]
    fn errors_of_few_pairs_differ_from_those_of_fastchess() {
        let mut tally = Tally::new(true, None);
        let win = |winner| KnownOutcome::Decisive { winner };
        for (pair, half, result) in [
            (0, 0, win(Color::White)),
            (0, 1, win(Color::Black)),
            (1, 0, win(Color::White)),
            (1, 1, KnownOutcome::Draw),
        ] {
            tally.add(Round { pair, half }, result, "checkmate", false);
        }
        let names = || ["a".to_owned(), "b".to_owned()];
        let text = MatchReport::new(names(), names(), &tally, 0).text();
        assert!(text.contains("\nLOS: 100.00 %, "), "{text}");
        assert!(text.contains("\nScore: 87.5 % (0.0 to 100.0), "), "{text}");
        assert!(text.contains(", LOS 89.8 %\n"), "{text}");
    }

    #[test]
    fn incomplete_pairs_do_not_count_as_all_won() {
        let mut tally = Tally::new(true, None);
        for (pair, half, winner) in [
            (0, 0, Color::White),
            (0, 1, Color::Black),
            (1, 0, Color::Black),
        ] {
            let result = KnownOutcome::Decisive { winner };
            tally.add(Round { pair, half }, result, "checkmate", false);
        }
        let names = || ["a".to_owned(), "b".to_owned()];
        let text = MatchReport::new(names(), names(), &tally, 1).text();
        assert!(text.contains("Wins: 2, Losses: 1, Draws: 0"), "{text}");
        let score = "\nScore of 1 complete pair: 100.0 %, all complete pairs won";
        assert!(text.contains(score), "{text}");
    }

    #[test]
    fn a_likelihood_ratio_of_zero_has_no_sign() {
        assert_eq!(ratio_text(-1e-9), "0.00");
        assert_eq!(ratio_text(-0.006), "-0.01");
        let names = || ["a".to_owned(), "b".to_owned()];
        let tally = tally(true, "0,200,0.05,0.05");
        let mut report = MatchReport::new(names(), names(), &tally, 0);
        report.sprt.as_mut().unwrap().llr = -1e-9;
        let text = report.text();
        assert!(text.contains("LLR: 0.00 (0.0%) ("), "{text}");
    }

    #[test]
    fn two_won_games_make_a_report_without_infinities() {
        let mut tally = Tally::new(true, Some("0,5,0.05,0.05".parse().unwrap()));
        for (half, winner) in [(0, Color::White), (1, Color::Black)] {
            let won = KnownOutcome::Decisive { winner };
            tally.add(Round { pair: 0, half }, won, "checkmate", false);
        }
        let names = || ["first".to_owned(), "second".to_owned()];
        let report = MatchReport::new(names(), names(), &tally, 0);
        let page = report.page(&course(&tally)).unwrap();
        assert!(!page.contains("Elo by games played") && page.contains("<svg"));
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""elo":null,"elo_error":null"#), "{json}");
        let is_infinite = |word: &str| {
            let number = word.trim_matches(|c: char| !c.is_alphanumeric());
            ["inf", "NaN", "nan"].contains(&number)
        };
        for text in [report.text(), json, page] {
            let mut words = text.split(|c: char| c.is_whitespace() || ":,<>\"".contains(c));
            assert_eq!(words.find(|word| is_infinite(word)), None, "{text}");
        }
    }

    #[test]
    fn reports_without_pairs_or_games_are_shorter() {
        let names = || ["a".to_owned(), "b".to_owned()];
        let report = MatchReport::new(names(), names(), &tally(false, "none"), 0);
        assert!(
            report
                .text()
                .contains("Games: 10, Wins: 10, Losses: 0, Draws: 0")
        );
        assert_eq!(report.pairs, None);
        let json = serde_json::to_value(&report).unwrap();
        assert!(json["estimate"]["elo"].is_null());
        let nothing = Tally::new(true, None);
        let report = MatchReport::new(names(), names(), &nothing, 4);
        assert!(report.page(&[]).is_ok());
        assert_eq!(report.estimate, None);
    }
}
