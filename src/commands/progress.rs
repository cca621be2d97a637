//! Progress bars. They are shown on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar for this many bytes.
pub(super) fn bytes(total: u64, name: &str) -> ProgressBar {
    bar(total, name, "{msg} {wide_bar} {bytes}/{total_bytes} {eta}")
}

/// A bar for this many records.
pub(super) fn records(total: u64, name: &str) -> ProgressBar {
    bar(
        total,
        name,
        "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
    )
}

fn bar(total: u64, name: &str, template: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total)
        .with_style(style)
        .with_message(name.to_owned())
}
