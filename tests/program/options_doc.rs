//! docs/options.md lists every option of the program, and compares it with every option of lc0. The tables between
//! its markers are generated: `SCORN_WRITE_DOCS=1 cargo test --test program options_doc` rewrites them.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
};

use crate::common::generated::renewed;
use scorn::{
    network::backend::help_of,
    options::{BUTTONS, CONFIG_FILE, OptionKind, Options, lc0::only_in_lc0},
};

const BEGIN: &str = "<!-- options: written by tests/program/options_doc.rs -->\n";
const END: &str = "<!-- end of options -->\n";
const BEGIN_OWN: &str = "<!-- own options: written by tests/program/options_doc.rs -->\n";
const END_OWN: &str = "<!-- end of own options -->\n";

/// The number of lc0's options, so that a missing row is noticed.
const LC0_OPTIONS: usize = 104;

fn page_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/options.md")
}

fn page() -> String {
    fs::read_to_string(page_path())
        .unwrap()
        .replace("\r\n", "\n")
}

/// The text of a table cell: Markdown shows text between backticks unchanged.
fn cell(text: &str) -> String {
    let escape = |(index, part): (usize, &str)| match index % 2 {
        0 => part.replace('<', "&lt;"),
        _ => part.to_owned(),
    };
    let parts: Vec<String> = text.split('`').enumerate().map(escape).collect();
    parts.join("`").replace('|', "\\|")
}

/// The table of all options, one row each.
fn table() -> String {
    let mut text =
        String::from("| Option | Flag | Values | Default | Meaning |\n|---|---|---|---|---|\n");
    for row in Options::default().rows() {
        let mut name = row.name.to_owned();
        for alias in row.aliases {
            name += &format!(" (`{alias}`)");
        }
        if row.is_hidden {
            name += " †";
        }
        let flag = match row.kind {
            OptionKind::Check => format!("`--{0}`, `--no-{0}`", row.flag),
            _ => format!("`--{}`", row.flag),
        };
        let (values, default, help) = (cell(&row.range()), cell(&row.value), cell(&help_of(&row)));
        text += &format!("| {name} | {flag} | {values} | {default} | {help} |\n");
    }
    text += &format!(
        "| {CONFIG_FILE} | `--config` | | | Configuration file, one `--flag=value` a line. Default: `scorn.config`, or \
         without it `lc0.config`, in the program's folder; an empty name reads none. |\n"
    );
    for (_, name, help) in BUTTONS {
        text += &format!("| {name} | | button | | {help} |\n");
    }
    text
}

/// All names that can be set, with their defaults.
fn settable() -> BTreeMap<&'static str, String> {
    let mut names = BTreeMap::from([(CONFIG_FILE, String::new())]);
    for row in Options::default().rows() {
        for name in std::iter::once(row.name).chain(row.aliases.iter().copied()) {
            names.insert(name, row.value.clone());
        }
    }
    names.extend(BUTTONS.iter().map(|(_, name, _)| (*name, String::new())));
    names
}

/// The rows of the comparison with lc0: name, default in lc0, verdict, difference.
fn compared(page: &str) -> Vec<[&str; 4]> {
    let (_, section) = page.split_once("## Compared with lc0").unwrap();
    let (section, _) = section.split_once("## Only in Scorn").unwrap();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Option"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        cells
            .try_into()
            .unwrap_or_else(|cells| panic!("{cells:?}: four columns"))
    })
    .collect()
}

/// The list of options that lc0 does not have.
fn own_options(page: &str) -> String {
    let of_lc0: BTreeSet<&str> = compared(page).iter().map(|row| row[0]).collect();
    let settable = settable();
    let own: Vec<String> = settable
        .keys()
        .filter(|name| !of_lc0.contains(*name))
        .map(|name| format!("`{name}`"))
        .collect();
    let lines: Vec<String> = own.chunks(5).map(|names| names.join(", ")).collect();
    lines.join(",\n") + ".\n"
}

#[test]
fn the_generated_tables_are_current() {
    let page = page();
    let expected = renewed(&page, BEGIN, END, &table());
    let expected = renewed(&expected, BEGIN_OWN, END_OWN, &own_options(&page));
    if env::var_os("SCORN_WRITE_DOCS").is_some() {
        // In one step, because the other test may read the page at the same time.
        let part = page_path().with_extension("part");
        fs::write(&part, expected).unwrap();
        fs::rename(part, page_path()).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/options.md is out of date; renew it with\n  \
         SCORN_WRITE_DOCS=1 cargo test --test program options_doc"
    );
}

#[test]
fn the_page_on_profiles_names_the_options_that_they_cannot_set() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/profiles.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, list) = page
        .split_once("`set` takes every UCI option by name, except ")
        .unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let listed: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
    let options = Options::default();
    let rows = options.rows().into_iter();
    let rejected: BTreeSet<&str> = rows
        .filter(|row| !row.is_for_profiles)
        .map(|row| row.name)
        .collect();
    assert_eq!(listed, rejected);
}

#[test]
fn the_comparison_with_lc0_is_complete_and_true() {
    let page = page();
    let settable = settable();
    let mut listed = BTreeSet::new();
    for [name, default, verdict, difference] in compared(&page) {
        assert!(listed.insert(name), "{name} is listed twice");
        let own = settable.get(name);
        let is_accepted = only_in_lc0().any(|(known, _)| known == name);
        match verdict {
            "as lc0" => {
                let own = own.unwrap_or_else(|| panic!("Scorn has no option {name}"));
                assert_eq!(
                    default.trim_matches('`'),
                    own,
                    "the default of {name} differs: say so"
                );
            }
            "differs" => assert!(
                own.is_some() && !difference.is_empty(),
                "{name}: Scorn does not have it, or the page does not say how it differs"
            ),
            "accepted" => assert!(
                is_accepted && own.is_none() && !difference.is_empty(),
                "{name} has an effect, or the page does not say why it has none"
            ),
            _ => panic!("{name}: unknown verdict {verdict}"),
        }
    }
    for (name, _) in only_in_lc0() {
        assert!(listed.contains(name), "add a row for {name}");
    }
    assert_eq!(listed.len(), LC0_OPTIONS);
}
