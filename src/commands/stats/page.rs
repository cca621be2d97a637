//! The page of `scorn stats`: a table, and the figures of the paper on search-contempt drawn from these games.

use std::path::Path;

use anyhow::Result;

use super::{
    FileStats,
    text::{number, percent, ratio_text},
};
use crate::{
    html::{
        page::Page,
        plot::{MarkStyle, Plot, Point, Series},
    },
    selfplay::controller::Step,
    stats::{
        clusters::{MeanEstimate, SpreadSummary},
        paper,
    },
};

/// The columns of the page's table.
const COLUMNS: [&str; 10] = [
    "file",
    "ScLimit",
    "games",
    "1-0",
    "drawn",
    "0-1",
    "unfinished",
    "(w+l)/d (95 %)",
    "plies",
    "openings of 4 moves",
];

/// The columns of the table of tactics.
const TACTICS: [&str; 7] = [
    "file",
    "any of them",
    "sacrifice",
    "promotion",
    "mate",
    "unequal pieces",
    "material difference in pawns",
];

/// The page: a table, then the paper's figures. Figures show each file, tables also all files together.
///
/// # Errors
/// When a figure cannot be drawn.
pub(super) fn page(totals: &FileStats) -> Result<String> {
    let files = match &*totals.files {
        [] => std::slice::from_ref(totals),
        files => files,
    };
    let mut page = Page::new("Games");
    let rows: Vec<_> = totals.with_totals().map(games).collect();
    page.table(&COLUMNS, &rows);
    page.heading("Decisive games per draw, by ScLimit (figure 2)");
    page.figure(
        &figure2(files).svg()?,
        "Published: 100 games a point at 1000 nodes a move; 1000000 is plain PUCT. Bars are intervals of 95 %.",
    );
    page.heading("Decisive games per draw, by file (figure 3)");
    page.figure(
        &figure3(files).svg()?,
        "Published: plain PUCT with the temperature schedules tau_1 (low) and tau_2.",
    );
    page.heading("Repeated games by move number (figure 4)");
    page.figure(
        &figure4(files).svg()?,
        "The share of games whose moves up to this one an earlier game of the file has played too. Thin: published, of \
         100 games.",
    );
    if files.iter().any(|stats| !stats.path.is_empty()) {
        page.heading("The path of ScLimit (figure 5)");
        let limit = |step: &Step| f64::from(step.sc_limit);
        page.figure(
            &figure5(files, "ScLimit", limit).svg()?,
            "ScLimit of each batch of games. The paper has a plan, while the network learns: from 5 to about 170 in \
             180000 games, the nodes doubling from 1000 to 32000 whenever it has settled.",
        );
        page.figure(
            &figure5(files, "(w+l)/d", |step| step.ratio).svg()?,
            "The controlled ratio: decisive games per draw, with half a game added to both.",
        );
    }
    tactics(totals, &mut page);
    interesting(files, &mut page)?;
    page.heading("Where games ended");
    page.table(&["file", "phase", "decisive", "drawn"], &phases(totals));
    Ok(page.finish())
}

/// A row of the page's table.
fn games(stats: &FileStats) -> Vec<String> {
    let summary = &stats.summary;
    vec![
        stats.name().to_owned(),
        stats
            .sc_limit
            .map_or(String::new(), |limit| limit.to_string()),
        summary.games.to_string(),
        summary.white.to_string(),
        summary.draws.to_string(),
        summary.black.to_string(),
        summary.unfinished.to_string(),
        ratio_text(summary),
        format!("{:.1}", summary.mean_plies),
        summary.openings[&4].distinct.to_string(),
    ]
}

/// The sections on positions that the network misjudges, as far as they are known.
fn interesting(files: &[FileStats], page: &mut Page) -> Result<()> {
    shares(
        page,
        &known(files, |stats| Some(&stats.misjudged.as_ref()?.value_error)),
        "W-L difference",
        "Misjudged positions: the network against long searches (figure 6)",
        "Shares of positions in which the network's W-L differs from that of a long search by a threshold or more. In \
         the position that the paper shows it differs by 0.82.",
    )?;
    shares(
        page,
        &known(files, |stats| {
            stats.summary.policy.as_ref()?.value_error.as_ref()
        }),
        "W-L difference",
        "The network against the search of the game",
        "With search-contempt the search's value is the practical one.",
    )?;
    shares(
        page,
        &known(files, |stats| {
            stats.summary.policy.as_ref()?.divergence.as_ref()
        }),
        "divergence",
        "Policy surprise: divergence of the visits from the priors, in nats",
        "Shares of positions with at least this divergence.",
    )
}

/// The table of tactics, if there are games.
fn tactics(totals: &FileStats, page: &mut Page) {
    let with_tactics = totals.with_totals().filter_map(|stats| {
        let tactics = stats.summary.tactics?;
        let shares = [
            tactics.shots,
            tactics.sacrifices,
            tactics.promotions,
            tactics.mates,
            tactics.imbalanced,
        ];
        let mut row = vec![stats.name().to_owned()];
        row.extend(shares.iter().map(percent));
        row.push(number(&tactics.material));
        Some(row)
    });
    let rows: Vec<_> = with_tactics.collect();
    if !rows.is_empty() {
        page.heading("Tactics: positions shortly before a sacrifice, promotion or mate, and with unequal pieces");
        page.table(&TACTICS, &rows);
    }
}

/// A distribution of each file for which it is known, with the file's name.
fn known<'f>(
    files: &'f [FileStats],
    of: impl Fn(&'f FileStats) -> Option<&'f SpreadSummary>,
) -> Vec<(String, &'f SpreadSummary)> {
    let known = files.iter();
    known
        .filter_map(|stats| Some((short_name(stats), of(stats)?)))
        .collect()
}

/// A plot and a table of distributions, if there are any.
fn shares(
    page: &mut Page,
    spreads: &[(String, &SpreadSummary)],
    quantity: &str,
    heading: &str,
    caption: &str,
) -> Result<()> {
    let Some((_, first)) = spreads.first() else {
        return Ok(());
    };
    page.heading(heading);
    page.figure(&shares_plot(spreads, first, quantity).svg()?, caption);
    let mut columns = vec!["file".to_owned(), "positions".to_owned(), "mean".to_owned()];
    columns.extend(
        first
            .at_least
            .iter()
            .map(|at| format!("{} or more", at.threshold)),
    );
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let row = |(name, spread): &(String, &SpreadSummary)| {
        let shares = spread.at_least.iter().map(|at| percent(&at.share));
        let head = [
            name.clone(),
            spread.positions.to_string(),
            number(&spread.mean),
        ];
        head.into_iter().chain(shares).collect()
    };
    page.table(&columns, &spreads.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// The shares of positions from each threshold on, by file.
fn shares_plot(
    spreads: &[(String, &SpreadSummary)],
    first: &SpreadSummary,
    quantity: &str,
) -> Plot {
    let point = |x: usize, share: &MeanEstimate| {
        let interval = share
            .interval()
            .map(|(low, high)| (low.max(0.0), high.min(1.0)));
        (x as f64, share.mean, interval)
    };
    let thresholds = first.at_least.iter().enumerate();
    let series = thresholds.map(|(index, at)| {
        let shares = spreads.iter().enumerate();
        let name = format!("{quantity} {} or more", at.threshold);
        let mut series = Series::new(name, MarkStyle::Points, index, []);
        series.values = shares
            .map(|(x, (_, spread))| point(x, &spread.at_least[index].share))
            .collect();
        series
    });
    Plot {
        x_name: "file".into(),
        y_name: "share of positions".into(),
        is_log: false,
        x_labels: spreads.iter().map(|(name, _)| name.clone()).collect(),
        series: series.collect(),
    }
}

/// The rows of the table of phases.
fn phases(totals: &FileStats) -> Vec<Vec<String>> {
    let rows = totals.with_totals().flat_map(|stats| {
        stats.summary.phases.iter().map(|(phase, count)| {
            vec![
                stats.name().to_owned(),
                phase.name().to_owned(),
                count.decisive.to_string(),
                count.draws.to_string(),
            ]
        })
    });
    rows.collect()
}

/// A file's ratio with its error bar; where the interval has no bound, the bar ends at the ratio.
fn ratio_point(stats: &FileStats, x: f64) -> Option<Point> {
    let ratio = stats.summary.decisive_per_draw?;
    let (low, high) = stats.summary.decisive_per_draw_interval;
    let bar = (low.unwrap_or(ratio), high.unwrap_or(ratio));
    Some((x, ratio, Some(bar)))
}

/// The place of plain PUCT in figure 2, as in the paper, whatever its limit is.
const UNLIMITED: u64 = 1_000_000;

fn figure2(files: &[FileStats]) -> Plot {
    let points = files.iter().filter_map(|stats| {
        ratio_point(
            stats,
            stats.sc_limit.filter(|&n| n > 0)?.min(UNLIMITED) as f64,
        )
    });
    let mut ours = Series::new("these games", MarkStyle::Points, 1, []);
    ours.values = points.collect();
    Plot {
        x_name: "ScLimit".into(),
        y_name: "(w+l)/d".into(),
        is_log: true,
        x_labels: Vec::new(),
        series: vec![
            Series::new("published", MarkStyle::Line, 0, paper::DECISIVE_BY_LIMIT),
            ours,
        ],
    }
}

fn figure3(files: &[FileStats]) -> Plot {
    let published = paper::DECISIVE_BY_SCHEDULE;
    let mut x_labels: Vec<String> = published.iter().map(|(name, _)| name.to_string()).collect();
    let mut ours = Series::new("these games", MarkStyle::Points, 1, []);
    for stats in files {
        ours.values
            .extend(ratio_point(stats, x_labels.len() as f64));
        x_labels.push(short_name(stats));
    }
    let values = published
        .iter()
        .enumerate()
        .map(|(x, (_, y))| (x as f64, *y));
    Plot {
        x_name: "file".into(),
        y_name: "(w+l)/d".into(),
        is_log: false,
        x_labels,
        series: vec![Series::new("published", MarkStyle::Points, 0, values), ours],
    }
}

fn figure4(files: &[FileStats]) -> Plot {
    let mut series = Vec::new();
    for (index, (name, shares)) in paper::REPEATED.iter().enumerate() {
        let values = paper::REPEATED_AT.iter().zip(shares);
        let values = values.map(|(&k, &share)| (k as f64, share));
        let name = format!("published, {name}");
        series.push(Series::new(name, MarkStyle::Thin, index, values));
    }
    let with_games = files.iter().filter(|stats| stats.summary.games > 0);
    for (index, stats) in with_games.enumerate() {
        let values = stats
            .summary
            .repeated
            .iter()
            .map(|(&k, &share)| (k as f64, share));
        let color = paper::REPEATED.len() + index;
        series.push(Series::new(
            short_name(stats),
            MarkStyle::Line,
            color,
            values,
        ));
    }
    Plot {
        x_name: "move number".into(),
        y_name: "repeated games".into(),
        is_log: false,
        x_labels: Vec::new(),
        series,
    }
}

/// A number of each batch of games, by the total number of games at its end; one line per number of nodes.
fn figure5(files: &[FileStats], y_name: &str, number: impl Fn(&Step) -> f64) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for stats in files {
        let mut games = 0;
        let mut points: Vec<(u64, f64, f64)> = Vec::new();
        for step in &stats.path {
            games += step.decisive + step.draws;
            points.push((step.nodes, games as f64, number(step)));
        }
        for part in points.chunk_by(|a, b| a.0 == b.0) {
            let name = format!("{}, {} nodes", short_name(stats), part[0].0);
            let values = part.iter().map(|&(_, games, value)| (games, value));
            series.push(Series::new(name, MarkStyle::Line, series.len(), values));
        }
    }
    Plot {
        x_name: "games".into(),
        y_name: y_name.into(),
        is_log: false,
        x_labels: Vec::new(),
        series,
    }
}

/// The file's name without its folder.
fn short_name(stats: &FileStats) -> String {
    let name = stats.name();
    let short = Path::new(name)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    short.unwrap_or_else(|| name.to_owned())
}
