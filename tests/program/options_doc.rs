//! The README's table of options is the program's own, and docs/options.md knows all of them and lc0's. `SCORN_WRITE_DOCS=1 cargo test --test program options_doc` renews it.

use std::{collections::BTreeMap, env, fs, path::Path};

use scorn::options::{BUTTONS, CONFIG_FILE, OptionKind, Options, lc0::only_in_lc0};

const BEGIN: &str = "<!-- options: written by tests/options_doc.rs -->\n";
const END: &str = "<!-- end of options -->\n";

fn table() -> String {
    let mut text =
        String::from("| Option | Flag | Values | Default | Meaning |\n|---|---|---|---|---|\n");
    let cell = |text: &str| {
        // Within backticks Markdown shows everything as it is.
        let escape = |(index, part): (usize, &str)| match index % 2 {
            0 => part.replace('<', "&lt;"),
            _ => part.to_owned(),
        };
        let parts: Vec<String> = text.split('`').enumerate().map(escape).collect();
        parts.join("`").replace('|', "\\|")
    };
    for row in Options::default().rows() {
        let mut name = row.name.to_owned();
        for alias in row.aliases {
            name += &format!(" (`{alias}`)");
        }
        let flag = match row.kind {
            OptionKind::Check => format!("`--{0}`, `--no-{0}`", row.flag),
            _ => format!("`--{}`", row.flag),
        };
        let (values, default, help) = (cell(&row.range()), cell(&row.default), cell(row.help));
        text += &format!("| {name} | {flag} | {values} | {default} | {help} |\n");
    }
    text += &format!(
        "| {CONFIG_FILE} | `--config` | | | A file of options, one `--flag=value` a line. |\n"
    );
    for (name, help) in BUTTONS {
        text += &format!("| {name} | | button | | {help} |\n");
    }
    text
}

#[test]
fn the_readme_lists_the_options() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let start = readme.find(BEGIN).expect("the beginning of the table") + BEGIN.len();
    let end = readme.find(END).expect("the end of the table");
    if env::var_os("SCORN_WRITE_DOCS").is_some() {
        let renewed = format!("{}{}{}", &readme[..start], table(), &readme[end..]);
        fs::write(&path, renewed).unwrap();
        return;
    }
    assert!(
        readme[start..end] == table(),
        "the table in README.md is out of date; renew it with\n  \
         SCORN_WRITE_DOCS=1 cargo test --test program options_doc"
    );
}

/// The rows of a table in docs/options.md, without their ends.
fn rows_of(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Option"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
}

/// All names that can be set here, with their defaults.
fn settable() -> BTreeMap<&'static str, String> {
    let mut names = BTreeMap::from([(CONFIG_FILE, String::new())]);
    for row in Options::default().rows() {
        for name in std::iter::once(row.name).chain(row.aliases.iter().copied()) {
            names.insert(name, row.default.clone());
        }
    }
    names.extend(BUTTONS.iter().map(|(name, _)| (*name, String::new())));
    names
}

#[test]
fn the_page_of_options_is_whole_and_true() {
    let page = include_str!("../../docs/options.md").replace("\r\n", "\n");
    let (of_lc0, ours) = page.split_once("## Not in lc0").unwrap();
    let ours: Vec<&str> = rows_of(ours).map(|row| row[0]).collect();
    let settable = settable();
    let mut listed = Vec::new();
    for row in rows_of(of_lc0) {
        let [name, default, kind, text] = row[..] else {
            panic!("{row:?}: four columns");
        };
        listed.push(name);
        let own = settable.get(name);
        let is_accepted = only_in_lc0().any(|(known, _)| known == name);
        match kind {
            "as lc0" => {
                let own = own.unwrap_or_else(|| panic!("{name} is not ours"));
                assert_eq!(
                    default.trim_matches('`'),
                    own,
                    "the default of {name} differs: say so"
                );
            }
            "differs" => assert!(
                own.is_some() && !text.is_empty(),
                "{name} is not ours, or does not say how"
            ),
            "accepted" => assert!(
                is_accepted && own.is_none() && !text.is_empty(),
                "{name} is more than accepted, or does not say why"
            ),
            _ => panic!("{name}: {kind}?"),
        }
    }
    for name in &ours {
        assert!(
            settable.contains_key(name),
            "{name} is listed, and is no option"
        );
        assert!(!listed.contains(name), "{name} is listed twice");
    }
    for name in settable
        .keys()
        .copied()
        .chain(only_in_lc0().map(|(name, _)| name))
    {
        assert!(
            listed.contains(&name) || ours.contains(&name),
            "add a row for {name} to docs/options.md"
        );
    }
    // What lc0 has is not to disappear from here unnoticed.
    assert_eq!(listed.len(), 96);
}
