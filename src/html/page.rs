//! The template of all HTML pages, and pages of tables and plots made with it. Pages are self-contained, work offline,
//! follow the reader's choice of a light or a dark screen and fit a phone.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// What all pages look like.
const STYLE: &str = include_str!("page/base.css");
/// What pages of tables and plots look like.
const TABLES: &str = include_str!("page/tables.css");
/// Nothing is loaded from anywhere.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// A script of a page.
#[derive(Clone, Copy, Debug)]
pub enum Script<'a> {
    /// Code.
    Code(&'a str),
    /// JSON data that code finds by this id.
    Data(&'a str, &'a str),
}

/// A whole page. `body` is HTML, `styles` are style sheets after the common one; both are inserted as they are.
pub fn document(title: &str, styles: &[&str], body: &str, scripts: &[Script<'_>]) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(PreEscaped(POLICY));
                title { (title) }
                style { (PreEscaped(STYLE)) }
                @for style in styles { style { (PreEscaped(style)) } }
            }
            body {
                (PreEscaped(body))
                @for script in scripts {
                    @match script {
                        Script::Code(code) => script { (PreEscaped(code)) },
                        // The data must not contain the end tag of its element.
                        Script::Data(id, json) => script id=(id) type="application/json" {
                            (PreEscaped(json.replace('<', "\\u003c")))
                        },
                    }
                }
            }
        }
    };
    markup.into_string()
}

/// A page of tables and plots under construction.
#[derive(Clone, Debug)]
pub struct Page {
    parts: Vec<Markup>,
    title: String,
    /// Tables and plots so far, which have numbers for readers of screens.
    regions: usize,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Page {
        Page {
            parts: vec![html! { h1 { (title) } }],
            title: title.to_owned(),
            regions: 0,
        }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        self.parts.push(html! { h2 { (text) } });
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.parts.push(html! { p { (text) } });
    }

    /// A table: column names, and rows of the same length. A wide one scrolls by itself.
    pub fn table(&mut self, columns: &[&str], rows: &[Vec<String>]) {
        self.regions += 1;
        let label = format!("Table {}", self.regions);
        self.parts.push(html! {
            div.table tabindex="0" role="region" aria-label=(label) {
                table {
                    thead { tr { @for column in columns { th scope="col" { (column) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        });
    }

    /// A figure as SVG, with a caption.
    pub fn figure(&mut self, svg: &str, caption: &str) {
        self.regions += 1;
        let label = format!("Plot {}", self.regions);
        self.parts.push(html! {
            figure {
                div.plot tabindex="0" role="region" aria-label=(label) { (PreEscaped(svg)) }
                figcaption { (caption) span.pointer { " Values are shown under the pointer." } }
            }
        });
    }

    /// The HTML text.
    pub fn finish(self) -> String {
        let body = html! { main { @for part in &self.parts { (part) } } };
        document(&self.title, &[TABLES], &body.into_string(), &[])
    }
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

    #[test]
    fn every_page_fits_phones_and_dark_screens_and_loads_nothing() {
        let data = r#"{"name":"</script>"}"#;
        let page = document("t", &[], "<p>text</p>", &[Script::Data("data", data)]);
        for part in [
            "width=device-width",
            "prefers-color-scheme: dark",
            "default-src 'none'",
            "<p>text</p>",
            r#"{"name":"\u003c/script>"}"#,
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("</script>").count(), 1);
    }
}
