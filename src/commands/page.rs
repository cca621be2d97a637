//! `scorn page`: an HTML page of tables and plots from a description in JSON. The training loop, which is written in
//! Python, makes its report with it, so that all pages look alike.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    files::{self, output},
    html::{
        page::Page,
        plot::{COLOR_COUNT, Plot},
    },
};

/// Printed below the options.
const FORMAT: &str = r#"The description, in JSON; "parts" come in any order and number:
  {"title": "Speed", "parts": [
    {"paragraph": "Two machines."},
    {"heading": "Nodes per second"},
    {"figure": {"caption": "One thread.", "plot": {
      "x_name": "threads", "y_name": "nodes/s", "is_log": false,
      "series": [{"name": "first", "style": "points", "color": 0,
        "values": [[1, 120, [110, 130]], [2, 230, null]]}]}}},
    {"table": {"columns": ["machine", "nodes/s"], "rows": [["first", "120"]]}}]}
A value is x, y, and the ends of its error bar or null. Styles are line, thin, points and bars;
colours are 0 to 7. "is_log" makes the x axis logarithmic."#;

/// Make an HTML page of tables and plots from a description in JSON, in the style of Scorn's other pages.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = FORMAT)]
pub struct PageArgs {
    /// The description.
    #[arg(value_name = "FILE")]
    pub description: PathBuf,
    /// The page to write.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Overwrite the page if it exists.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageDescription {
    title: String,
    parts: Vec<Part>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Part {
    Heading(String),
    Paragraph(String),
    Figure {
        caption: String,
        plot: Plot,
    },
    Table {
        columns: Vec<String>,
        rows: Vec<Vec<String>>,
    },
}

/// Runs `scorn page`.
pub fn run(args: &PageArgs) -> Result<()> {
    let text = files::read_text(&args.description)?;
    let page = html(&text).with_context(|| args.description.display().to_string())?;
    let inputs = std::slice::from_ref(&args.description);
    output::write(&args.out, page.as_bytes(), args.force, inputs)
}

/// The page that a description asks for.
fn html(description: &str) -> Result<String> {
    let PageDescription { title, parts } =
        serde_json::from_str(description).context("not the description of a page")?;
    let mut page = Page::new(&title);
    for part in &parts {
        match part {
            Part::Heading(text) => page.heading(text),
            Part::Paragraph(text) => page.paragraph(text),
            Part::Figure { caption, plot } => {
                let colors = plot.series.iter().map(|series| series.color);
                if let Some(color) = colors.max().filter(|&color| color >= COLOR_COUNT) {
                    bail!(
                        "there is no color {color}: colors are 0 to {}",
                        COLOR_COUNT - 1
                    );
                }
                page.figure(&plot.svg()?, caption);
            }
            Part::Table { columns, rows } => {
                let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                for row in rows {
                    ensure!(
                        row.len() == columns.len(),
                        "a table of {} columns has a row of {}",
                        columns.len(),
                        row.len()
                    );
                }
                page.table(&columns, rows);
            }
        }
    }
    Ok(page.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_help_is_a_description() {
        let (start, end) = (FORMAT.find('{').unwrap(), FORMAT.rfind('}').unwrap());
        let page = html(&FORMAT[start..=end]).unwrap();
        assert!(page.contains("threads 1: first 120 (110 to 130)"));
    }

    #[test]
    fn a_page_has_what_its_description_says() {
        let description = r#"{"title": "a < b", "parts": [
            {"heading": "Speed"}, {"paragraph": "Two machines."},
            {"figure": {"caption": "One thread.", "plot": {"x_name": "threads", "y_name": "nodes/s", "series": [
                {"name": "first", "style": "points", "color": 1,
                    "values": [[1, 120, [110, 130]], [2, 230.5, null]]}]}}},
            {"table": {"columns": ["machine", "nodes/s"], "rows": [["first", "120"]]}}]}"#;
        let page = html(description).unwrap();
        for part in [
            "<title>a &lt; b</title>",
            "<h2>Speed</h2>",
            "<p>Two machines.</p>",
            "threads 1: first 120 (110 to 130)",
            "threads 2: first 230.5",
            "One thread.",
            "<td>first</td>",
            "prefers-color-scheme",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_description_with_a_defect_is_refused() {
        let error = |description: &str| format!("{:#}", html(description).unwrap_err());
        let parts = |parts: &str| error(&format!(r#"{{"title": "t", "parts": [{parts}]}}"#));
        assert!(error("{").contains("not the description of a page"));
        assert!(error(r#"{"title": "t"}"#).contains("parts"));
        assert!(parts(r#"{"picture": "x"}"#).contains("picture"));
        let uneven = parts(r#"{"table": {"columns": ["a", "b"], "rows": [["1"]]}}"#);
        assert!(uneven.contains("2 columns has a row of 1"), "{uneven}");
        let style = r#"{"figure": {"caption": "", "plot": {"x_name": "", "y_name": "", "series":
            [{"name": "", "style": "dots", "color": 0, "values": []}]}}}"#;
        assert!(parts(style).contains("dots"));
        let color = style
            .replace("dots", "line")
            .replace("\"color\": 0", "\"color\": 8");
        assert!(parts(&color).contains("no color 8: colors are 0 to 7"));
        // Zero has no place on a logarithmic axis.
        let log = r#"{"figure": {"caption": "", "plot": {"x_name": "n", "y_name": "", "is_log": true, "series":
            [{"name": "", "style": "line", "color": 0, "values": [[0, 1, null], [1, 1, null]]}]}}}"#;
        assert!(parts(log).contains("logarithmic"));
        assert!(parts(&log.replace("[0, 1", "[1e-300, 1")).contains("too small"));
        // The plotting library would look for the marks of such an axis for ever.
        let large = log.replace("\"is_log\": true, ", "");
        assert!(parts(&large.replace("[0, 1", "[-1e308, 1")).contains("values beyond 1e15"));
        html(&format!(
            r#"{{"title": "t", "parts": [{}]}}"#,
            large.replace("[0, 1", "[-1e15, 1")
        ))
        .unwrap();
        html(&format!(
            r#"{{"title": "t", "parts": [{}]}}"#,
            log.replace("[0, 1", "[1e-15, 1")
        ))
        .unwrap();
    }
}
