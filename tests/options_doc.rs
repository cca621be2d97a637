//! The README's table of options is the program's own. `SCORN_WRITE_DOCS=1 cargo test --test options_doc` renews it.

use std::{env, fs, path::Path};

use scorn::options::{BUTTONS, CONFIG_FILE, OptionKind, Options};

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
         SCORN_WRITE_DOCS=1 cargo test --test options_doc"
    );
}
