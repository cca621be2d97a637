//! The page of `scorn stats`: a table, and the figures of the paper on search-contempt drawn from these games.

use std::path::Path;

use anyhow::Result;

use super::{FileStats, ratio_text};
use crate::{
    selfplay::controller::Step,
    stats::{
        page::Page,
        paper,
        plot::{MarkStyle, Plot, Point, Series},
    },
};

/// The columns of the page's table.
const COLUMNS: [&str; 9] = [
    "file",
    "ScLimit",
    "games",
    "1-0",
    "drawn",
    "0-1",
    "(w+l)/d (95 %)",
    "plies",
    "openings of 4 moves",
];

/// The page: a table, then the paper's figures.
///
/// # Errors
/// When a figure cannot be drawn.
pub(super) fn page(files: &[FileStats]) -> Result<String> {
    let mut page = Page::new("Games");
    let row = |stats: &FileStats| {
        let summary = &stats.summary;
        vec![
            stats.file.clone().unwrap_or_default(),
            stats
                .sc_limit
                .map_or(String::new(), |limit| limit.to_string()),
            summary.games.to_string(),
            summary.white.to_string(),
            summary.draws.to_string(),
            summary.black.to_string(),
            ratio_text(summary),
            format!("{:.1}", summary.mean_plies),
            summary.openings[&4].distinct.to_string(),
        ]
    };
    page.table(&COLUMNS, &files.iter().map(row).collect::<Vec<_>>());
    page.heading("Decisive games for each draw, by ScLimit (figure 2)");
    page.figure(
        &figure2(files).svg()?,
        "Published: 100 games a point at 1000 nodes a move; 1000000 is plain PUCT. Bars are intervals of 95 %.",
    );
    page.heading("Decisive games for each draw, by file (figure 3)");
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
            "ScLimit of each batch of games. Published, while the network learns: from 5 to about 170 in 180000 games, the nodes \
             doubling from 1000 to 32000 whenever it has settled.",
        );
        page.figure(
            &figure5(files, "(w+l)/d", |step| step.ratio).svg()?,
            "The controlled ratio: decisive games for each draw, with half a game added to both.",
        );
    }
    page.heading("Where games ended");
    page.table(&["file", "phase", "decisive", "drawn"], &phases(files));
    Ok(page.finish())
}

/// The rows of the table of phases.
fn phases(files: &[FileStats]) -> Vec<Vec<String>> {
    let rows = files.iter().flat_map(|stats| {
        stats.summary.phases.iter().map(|(phase, count)| {
            vec![
                stats.file.clone().unwrap_or_default(),
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
    let name = stats.file.clone().unwrap_or_default();
    let path = Path::new(&name);
    let short = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    short.unwrap_or(name)
}
