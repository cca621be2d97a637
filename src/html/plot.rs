//! Plots as SVG: lines, points and error bars over two axes, of which the first may be logarithmic.

use std::ops::Range;

use anyhow::{Result, anyhow, ensure};
use maud::html;
use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
        types::RangedCoordf64,
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use serde::Deserialize;

/// Width and height of a plot in pixels.
const SIZE: (u32, u32) = (860, 440);
/// The legend, in pixels: the edge above its rows, their height, where they begin, the width of the mark before a name,
/// and the width of a character, rounded up.
const LEGEND_TOP: i32 = 8;
const LEGEND_ROW: i32 = 20;
const LEGEND_LEFT: i32 = 76;
const LEGEND_MARK: i32 = 26;
const LEGEND_CHARACTER: i32 = 7;

/// The number of colours of series.
pub const COLOR_COUNT: usize = 8;

/// Colours of series, in order, which are distinguishable with common colour blindnesses (M. Okabe, K. Ito).
const COLORS: [RGBColor; COLOR_COUNT] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkStyle {
    /// A line.
    Line,
    /// A thin line, for reference values.
    Thin,
    /// Points, with error bars where given.
    Points,
    /// Bars from zero, for counts.
    Bars,
}

/// x, y, and the ends of the error bar.
pub type Point = (f64, f64, Option<(f64, f64)>);

/// A series of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Name in the legend; empty leaves it out.
    pub name: String,
    /// How it is shown.
    pub style: MarkStyle,
    /// Index of its colour; series may share one.
    pub color: usize,
    /// Its points.
    pub values: Vec<Point>,
}

impl Series {
    /// A series without error bars.
    pub fn new(
        name: impl Into<String>,
        style: MarkStyle,
        color: usize,
        values: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        Series {
            name: name.into(),
            style,
            color,
            values: values.into_iter().map(|(x, y)| (x, y, None)).collect(),
        }
    }

    fn rgb(&self) -> RGBColor {
        COLORS[self.color % COLORS.len()]
    }

    /// The values that can be drawn.
    fn finite(&self) -> impl Iterator<Item = Point> {
        let is_finite = |(x, y, _): &Point| x.is_finite() && y.is_finite();
        self.values.iter().copied().filter(is_finite)
    }
}

/// The largest value, and the inverse of the smallest on a logarithmic axis: the plotting library looks for the marks
/// of an axis step by step, which takes for ever on longer ones.
const LARGEST: f64 = 1e15;

/// A plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Name of the x axis.
    pub x_name: String,
    /// Name of the y axis.
    pub y_name: String,
    /// Whether the x axis is logarithmic; all x are above 0 then.
    #[serde(default)]
    pub is_log: bool,
    /// Labels of x = 0, 1, 2... in place of numbers.
    #[serde(default)]
    pub x_labels: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
}

impl Plot {
    /// The plot as SVG. Non-finite values are left out.
    ///
    /// # Errors
    /// When a value has no place on a logarithmic axis or is too large, or the plotting library fails.
    pub fn svg(&self) -> Result<String> {
        ensure!(
            self.finite().all(|(x, y)| x.abs().max(y.abs()) <= LARGEST),
            "the plot of \"{}\" has values beyond {LARGEST:e}",
            self.y_name
        );
        ensure!(
            !self.is_log || self.finite().all(|(x, _)| x >= LARGEST.recip()),
            "the x axis of \"{}\" is logarithmic and has values that are not positive, or too small",
            self.x_name
        );
        let mut text = String::new();
        let tooltips;
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = if self.is_log {
                self.draw_log(&area)
            } else {
                self.draw_linear(&area)
            };
            tooltips = drawn.map_err(|error| anyhow!("cannot draw a plot: {error}"))?;
        }
        Ok(self
            .finished(&text)
            .replace("</svg>", &(tooltips + "</svg>")))
    }

    /// The drawing, such that it scales with its page and has a name.
    fn finished(&self, svg: &str) -> String {
        let (width, height) = SIZE;
        let name = html! { (self.y_name) " by " (self.x_name) }.into_string();
        let head =
            format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{name}\"");
        svg.replacen("<svg", &head, 1)
    }

    /// The values as text that a browser shows under the pointer. `place` is a value's place in pixels.
    fn tooltips(&self, place: impl Fn(f64, f64) -> (i32, i32)) -> String {
        let text = |series: &Series, (x, y, bar): Point| {
            let x_text = if self.x_labels.is_empty() {
                number(x)
            } else {
                self.x_label(x)
            };
            let bar = bar.map_or(String::new(), |(low, high)| {
                format!(" ({} to {})", number(low), number(high))
            });
            format!(
                "{} {x_text}: {} {}{bar}",
                self.x_name,
                series.name,
                number(y)
            )
        };
        let markup = html! {
            g fill="transparent" {
                @for series in self.named() {
                    @for point in series.finite() {
                        @let (x, y) = place(point.0, point.1);
                        circle cx=(x) cy=(y) r="8" { title { (text(series, point)) } }
                    }
                }
            }
        };
        markup.into_string()
    }

    fn draw_log(&self, area: &Area<'_>) -> Result<String, Box<dyn std::error::Error>> {
        let x = self.x_range();
        self.draw(area, (x.start / 1.5..x.end * 1.5).log_scale())
    }

    fn draw_linear(&self, area: &Area<'_>) -> Result<String, Box<dyn std::error::Error>> {
        let x = self.x_range();
        let margin = if self.x_labels.is_empty() {
            0.02 * (x.end - x.start).max(1e-9)
        } else {
            0.6
        };
        self.draw(area, x.start - margin..x.end + margin)
    }

    /// Draws the plot and returns its tooltips.
    fn draw<X>(&self, area: &Area<'_>, x_axis: X) -> Result<String, Box<dyn std::error::Error>>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        area.fill(&WHITE)?;
        let (rows, mut below) = (self.legend(), area.clone());
        if !rows.is_empty() {
            let height = LEGEND_TOP + LEGEND_ROW * rows.len() as i32;
            let (strip, rest) = area.split_vertically(height);
            draw_legend(&strip, rows)?;
            below = rest;
        }
        let y_range = self.y_range();
        let mut chart = ChartBuilder::on(&below)
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(x_axis, y_range.clone())?;
        let label = |x: &f64| self.x_label(*x);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE)
            .bold_line_style(RGBColor(225, 225, 225))
            .x_desc(&self.x_name)
            .y_desc(&self.y_name)
            .label_style(("sans-serif", 14))
            .x_label_formatter(&label);
        if !self.x_labels.is_empty() {
            mesh.x_labels(self.x_labels.len() + 2);
        }
        mesh.draw()?;
        for series in &self.series {
            draw_series(&mut chart, series, &y_range)?;
        }
        area.present()?;
        Ok(self.tooltips(|x, y| chart.backend_coord(&(x, y))))
    }

    /// The series that the legend names: those with a name and at least one value.
    fn named(&self) -> impl Iterator<Item = &Series> {
        let has_values = |series: &&Series| series.finite().next().is_some();
        self.series
            .iter()
            .filter(|series| !series.name.is_empty())
            .filter(has_values)
    }

    /// The legend's entries in rows that fit the width: the left end of each in pixels, and its series.
    fn legend(&self) -> Vec<Vec<(i32, &Series)>> {
        let mut rows: Vec<Vec<(i32, &Series)>> = Vec::new();
        let mut x = i32::MAX;
        for series in self.named() {
            let characters = i32::try_from(series.name.chars().count()).unwrap_or(i32::MAX);
            let width = characters
                .saturating_mul(LEGEND_CHARACTER)
                .saturating_add(LEGEND_MARK + 24);
            if x.saturating_add(width) > SIZE.0 as i32 {
                rows.push(Vec::new());
                x = LEGEND_LEFT;
            }
            if let Some(row) = rows.last_mut() {
                row.push((x, series));
            }
            x = x.saturating_add(width);
        }
        rows
    }

    fn x_label(&self, x: f64) -> String {
        if self.x_labels.is_empty() {
            return number(x);
        }
        let index = x.round();
        let is_tick = (x - index).abs() < 1e-6 && index >= 0.0;
        let name = is_tick.then(|| self.x_labels.get(index as usize)).flatten();
        name.cloned().unwrap_or_default()
    }

    fn finite(&self) -> impl Iterator<Item = (f64, f64)> {
        let values = self.series.iter().flat_map(|series| &series.values);
        values
            .flat_map(|&(x, y, bar)| {
                let (low, high) = bar.unwrap_or((y, y));
                [(x, y), (x, low), (x, high)]
            })
            .filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    fn x_range(&self) -> Range<f64> {
        let labelled = (0..self.x_labels.len()).map(|index| index as f64);
        range(self.finite().map(|(x, _)| x).chain(labelled))
    }

    /// The range of the values. It includes 0 if there are bars, or if that takes no more than half of the axis: where
    /// values lie close together and far from 0, their differences would be invisible. An error bar may extend the
    /// range of the values by as much again, not more: one value with few games must not flatten all others.
    fn y_range(&self) -> Range<f64> {
        let values = self.series.iter().flat_map(|series| &series.values);
        let points = values.map(|&(_, y, _)| y).filter(|y| y.is_finite());
        let inner = range(points);
        let outer = range(self.finite().map(|(_, y)| y));
        let size = inner.end - inner.start;
        let mut start = outer.start.max(inner.start - size);
        let mut end = outer.end.min(inner.end + size);
        let has_bars = self
            .series
            .iter()
            .any(|series| series.style == MarkStyle::Bars);
        let has_zero = |start: f64, end: f64| {
            has_bars || (start > 0.0 && start <= end / 2.0) || (end < 0.0 && end >= start / 2.0)
        };
        if has_zero(start, end) {
            (start, end) = (start.min(0.0), end.max(0.0));
        }
        let margin = 0.08 * (end - start).max(1e-9);
        let start = if start == 0.0 { 0.0 } else { start - margin };
        start..end + margin
    }
}

type Backend<'a> = SVGBackend<'a>;
type Area<'a> = DrawingArea<Backend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws the rows of a legend over the whole width of a strip above the plot, where it covers no value.
fn draw_legend(area: &Area<'_>, rows: Vec<Vec<(i32, &Series)>>) -> Drawn {
    for (row, entries) in rows.into_iter().enumerate() {
        let y = LEGEND_ROW * (row as i32) + LEGEND_ROW / 2 + LEGEND_TOP;
        for (x, series) in entries {
            let (color, end) = (series.rgb(), x + LEGEND_MARK - 8);
            let (start, width) = match series.style {
                MarkStyle::Points | MarkStyle::Bars => (end - 8, 8),
                MarkStyle::Line => (x, 3),
                MarkStyle::Thin => (x, 1),
            };
            area.draw(&PathElement::new(
                [(start, y), (end, y)],
                color.stroke_width(width),
            ))?;
            let style = TextStyle::from(("sans-serif", 13)).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(
                series.name.as_str(),
                (x + LEGEND_MARK, y),
                style,
            ))?;
        }
    }
    Ok(())
}

/// Draws a series. Error bars end where the axis ends.
fn draw_series<'a, X>(
    chart: &mut ChartContext<'_, Backend<'a>, Cartesian2d<X, RangedCoordf64>>,
    series: &Series,
    y_range: &Range<f64>,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
{
    let color = series.rgb();
    match series.style {
        MarkStyle::Bars => {
            let bar = |(x, y, _)| Rectangle::new([(x - 0.4, 0.0), (x + 0.4, y)], color.filled());
            chart.draw_series(series.finite().map(bar))?;
        }
        MarkStyle::Points => {
            let point = |(x, y, _)| Circle::new((x, y), 5, color.filled());
            chart.draw_series(series.finite().map(point))?;
        }
        MarkStyle::Line | MarkStyle::Thin => {
            let width = if series.style == MarkStyle::Line {
                3
            } else {
                1
            };
            let line = series.finite().map(|(x, y, _)| (x, y));
            chart.draw_series(LineSeries::new(line, color.stroke_width(width)))?;
        }
    }
    let bars = series.finite().filter_map(|(x, _, bar)| {
        let (low, high) = bar.filter(|(low, high)| low.is_finite() && high.is_finite())?;
        let [low, high] = [low, high].map(|end| end.clamp(y_range.start, y_range.end));
        Some(PathElement::new(
            [(x, low), (x, high)],
            color.stroke_width(2),
        ))
    });
    chart.draw_series(bars)?;
    Ok(())
}

/// The range of values; never empty.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    if low > high {
        return 0.0..1.0;
    }
    if low == high {
        return low..low + 1.0;
    }
    low..high
}

/// A number in its shortest form.
fn number(x: f64) -> String {
    if x.abs() >= 1.0 || x == 0.0 {
        let text = format!("{x:.2}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{x:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(is_log: bool, x_labels: &[&str], values: Vec<(f64, f64)>) -> String {
        let mut series = Series::new("ours", MarkStyle::Points, 0, values.clone());
        if let Some(first) = series.values.first_mut() {
            first.2 = Some((first.1 - 0.5, first.1 + 0.5));
        }
        let plot = Plot {
            x_name: "ScLimit".into(),
            y_name: "(w+l)/d".into(),
            is_log,
            x_labels: x_labels.iter().map(|&label| label.into()).collect(),
            series: vec![series, Series::new("published", MarkStyle::Thin, 1, values)],
        };
        plot.svg().unwrap()
    }

    #[test]
    fn plots_show_their_points_and_names() {
        let text = plot(true, &[], vec![(1.0, 2.57), (5.0, 1.38), (1e6, 0.09)]);
        assert!(text.starts_with("<svg viewBox=") && text.trim_end().ends_with("</svg>"));
        // Three points, and a tooltip for each value of both series.
        assert_eq!(text.matches("<circle").count(), 3 + 6);
        assert!(
            text.contains("<title>ScLimit 5: ours 1.38</title>"),
            "{text}"
        );
        assert!(text.contains("<title>ScLimit 1: ours 2.57 (2.07 to 3.07)</title>"));
        for word in ["ScLimit", "(w+l)/d", "ours", "published"] {
            assert!(text.contains(word), "{word}");
        }
        let text = plot(false, &["first.pgn", "a<b"], vec![(0.0, 1.0), (1.0, 2.0)]);
        assert!(text.contains("first.pgn") && !text.contains("a<b"));
    }

    #[test]
    fn the_legend_stands_above_the_plot_and_names_what_is_drawn() {
        let long = "a name that takes a good part of the width of the plot";
        let names = [long, "empty", long, "short", "other"];
        let series = names.map(|name| {
            let values = (name != "empty").then_some((1.0, 2.0));
            Series::new(name, MarkStyle::Line, 0, values)
        });
        let plot = Plot {
            x_name: "x".into(),
            y_name: "y".into(),
            is_log: false,
            x_labels: Vec::new(),
            series: series.to_vec(),
        };
        let rows = plot.legend();
        let names =
            |row: &[(i32, &Series)]| row.iter().map(|(_, s)| s.name.clone()).collect::<Vec<_>>();
        let rows: Vec<_> = rows.iter().map(|row| names(row)).collect();
        assert_eq!(rows, [vec![long], vec![long, "short", "other"]]);
        let svg = plot.svg().unwrap();
        assert!(!svg.contains("empty"), "{svg}");
        // The heights of the legend's texts and of the values.
        let height = |from: &str, name: &str| -> f64 {
            let (_, rest) = from.split_once(name).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let heights = |element: &str, name: &str| -> Vec<f64> {
            let parts = svg.split(element).skip(1);
            parts.map(|part| height(part, name)).collect()
        };
        let values = heights("<circle ", "cy=\"");
        let lowest = f64::from(LEGEND_TOP + 2 * LEGEND_ROW);
        assert!(
            !values.is_empty() && values.iter().all(|&y| y > lowest),
            "{values:?}"
        );
        let texts = heights("<text ", "y=\"");
        assert_eq!(
            texts.iter().filter(|&&y| y < lowest).count(),
            4,
            "{texts:?}"
        );
    }

    #[test]
    fn an_error_bar_ends_where_the_axis_ends() {
        let mut series = Series::new("few games", MarkStyle::Points, 0, [(0.0, 1.0), (1.0, 2.0)]);
        series.values[1].2 = Some((-1e6, 1e6));
        let plot = Plot {
            x_name: "x".into(),
            y_name: "y".into(),
            is_log: false,
            x_labels: Vec::new(),
            series: vec![series],
        };
        let svg = plot.svg().unwrap();
        let lines = svg.split("<polyline ").skip(1);
        let bars: Vec<&str> = lines
            .filter(|line| line.contains("stroke-width=\"2\""))
            .collect();
        assert_eq!(bars.len(), 1, "{svg}");
        let (_, rest) = bars[0].split_once("points=\"").unwrap();
        let points = rest.split('"').next().unwrap().split_whitespace();
        let axis = f64::from(LEGEND_TOP + LEGEND_ROW)..=f64::from(SIZE.1) - 48.0;
        for point in points {
            let y: f64 = point.split_once(',').unwrap().1.parse().unwrap();
            assert!(axis.contains(&y), "{point}");
        }
    }

    #[test]
    fn axes_show_differences_and_bars_begin_at_zero() {
        let range = |style: MarkStyle, values: &[Point]| {
            let mut series = Series::new("", style, 0, []);
            series.values = values.to_vec();
            let plot = Plot {
                x_name: String::new(),
                y_name: String::new(),
                is_log: false,
                x_labels: Vec::new(),
                series: vec![series],
            };
            plot.y_range()
        };
        let flat = [(0.0, 100.0, None), (1.0, 101.0, None)];
        let close = range(MarkStyle::Line, &flat);
        assert!(close.start > 99.0 && close.end < 102.0, "{close:?}");
        assert_eq!(range(MarkStyle::Bars, &flat).start, 0.0);
        assert_eq!(
            range(MarkStyle::Line, &[(0.0, 1.0, None), (1.0, 3.0, None)]).start,
            0.0
        );
        // An error bar does not flatten the values.
        let uncertain = range(
            MarkStyle::Points,
            &[(0.0, 1.0, None), (1.0, 2.0, Some((1.0, 90.0)))],
        );
        assert!(uncertain.end < 4.0, "{uncertain:?}");
    }

    #[test]
    fn non_finite_values_are_left_out() {
        for values in [
            vec![],
            vec![(0.0, 0.0)],
            vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)],
        ] {
            assert!(plot(false, &[], values).contains("</svg>"));
        }
        assert_eq!(number(1_000_000.0), "1000000");
        assert_eq!(
            (number(0.25), number(2.5), number(10.0)),
            ("0.25".into(), "2.5".into(), "10".into())
        );
    }
}
