//! A self-contained HTML page of tables and plots, which works offline.

use std::fmt::Write as _;

/// The style of a page, readable in daylight and on paper.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
    h1,h2{line-height:1.2}table{border-collapse:collapse;margin:1rem 0}\
    th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}\
    th:first-child,td:first-child{text-align:left}figure{margin:1rem 0}figure svg{max-width:100%;height:auto}\
    figcaption{color:#555;font-size:.9em}";

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page {
    body: String,
    title: String,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Page {
        Page {
            body: format!("<h1>{}</h1>\n", escape(title)),
            title: escape(title),
        }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(text));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// A table: column names, and rows of the same length.
    pub fn table(&mut self, columns: &[&str], rows: &[Vec<String>]) {
        let line = |cell: &str, texts: &mut dyn Iterator<Item = &str>| {
            let cells: String = texts
                .map(|text| format!("<{cell}>{}</{cell}>", escape(text)))
                .collect();
            format!("<tr>{cells}</tr>\n")
        };
        self.body += "<table>\n";
        self.body += &line("th", &mut columns.iter().copied());
        for row in rows {
            self.body += &line("td", &mut row.iter().map(|text| &**text));
        }
        self.body += "</table>\n";
    }

    /// A figure as SVG, with a caption.
    pub fn figure(&mut self, svg: &str, caption: &str) {
        let caption = escape(caption);
        let _ = writeln!(
            self.body,
            "<figure>{svg}<figcaption>{caption}</figcaption></figure>"
        );
    }

    /// The HTML text.
    pub fn finish(self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             </head><body>\n{}</body></html>\n",
            self.title, self.body
        )
    }
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_a_page() {
        let mut page = Page::new("a < b");
        page.table(&["file"], &[vec!["<script>.pgn".into()]]);
        let text = page.finish();
        assert!(text.contains("<title>a &lt; b</title>") && text.contains("&lt;script&gt;.pgn"));
        assert!(!text.contains("<script>"));
    }
}
