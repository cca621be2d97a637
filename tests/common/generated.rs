//! Pages with generated parts.

/// The page with `text` between two markers.
pub fn renewed(page: &str, begin: &str, end: &str, text: &str) -> String {
    let start = page.find(begin).expect("the beginning of the table") + begin.len();
    let end = page.find(end).expect("the end of the table");
    format!("{}{text}{}", &page[..start], &page[end..])
}
