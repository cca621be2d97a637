//! The tables in docs/backends.md are generated from the list of backends: `SCORN_WRITE_DOCS=1 cargo test --test
//! program backends_doc` renews them.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use crate::common::generated::renewed;
use scorn::network::backend::{BACKENDS, factory::BackendInfo, options::Setting};

fn infos() -> impl Iterator<Item = &'static BackendInfo> {
    BACKENDS.iter().map(|factory| factory.info())
}

/// The table of the backends.
fn backends() -> String {
    let mut text = String::from("| `Backend` | Description | Requires |\n|---|---|---|\n");
    for info in infos() {
        let requirements = match info.requirements {
            "" => "nothing",
            requirements => requirements,
        };
        text += &format!(
            "| `{}` | {} | {requirements} |\n",
            info.name, info.documentation
        );
    }
    text
}

/// The table of lc0's backends.
fn lc0_names() -> String {
    let mut text = String::from("| Name in lc0 | `Backend` |\n|---|---|\n");
    for info in infos().filter(|info| !info.lc0_names.is_empty()) {
        let names = info.lc0_names.iter().map(|name| format!("`{name}`"));
        let names: Vec<String> = names.collect();
        text += &format!("| {} | `{}` |\n", names.join(", "), info.name);
    }
    text
}

/// The backends that have a setting with this key and meaning, and their defaults.
fn users_of(setting: &Setting) -> Vec<(&'static str, &'static str)> {
    let user = |info: &'static BackendInfo| {
        let mut settings = info.settings.iter();
        let own = settings.find(|own| own.key == setting.key && own.meaning == setting.meaning)?;
        Some((info.name, own.default))
    };
    infos().filter_map(user).collect()
}

/// The table of the keys of `BackendOptions`: one row for backends to which a key means the same.
fn settings() -> String {
    let mut text = String::from("| Setting | Backends | Meaning | Default |\n|---|---|---|---|\n");
    let all: Vec<&Setting> = infos().flat_map(|info| info.settings).collect();
    let mut seen = BTreeSet::new();
    let keys = all.iter().map(|setting| setting.key);
    for key in keys.filter(|key| seen.insert(*key)) {
        let mut meanings = BTreeSet::new();
        let same_key = all.iter().filter(|setting| setting.key == key);
        for setting in same_key.filter(|setting| meanings.insert(setting.meaning)) {
            text += &row(setting);
        }
    }
    text
}

fn row(setting: &Setting) -> String {
    let users = users_of(setting);
    let (names, defaults): (Vec<&str>, Vec<&str>) = users.iter().copied().unzip();
    let default = if defaults.iter().all(|default| *default == defaults[0]) {
        defaults[0].to_owned()
    } else {
        let of_one = |(name, default): &(&str, &str)| format!("{name} {default}");
        users.iter().map(of_one).collect::<Vec<_>>().join("; ")
    };
    let (key, names) = (setting.key, names.join(", "));
    format!("| `{key}` | {names} | {} | {default} |\n", setting.meaning)
}

/// The page with the generated tables between their markers.
fn current(page: &str) -> String {
    let mut page = page.to_owned();
    for (name, table) in [
        ("backends", backends()),
        ("lc0's backends", lc0_names()),
        ("settings", settings()),
    ] {
        let begin = format!("<!-- {name}: written by tests/program/backends_doc.rs -->\n");
        let end = format!("<!-- end of {name} -->\n");
        page = renewed(&page, &begin, &end, &table);
    }
    page
}

#[test]
fn the_tables_of_backends_are_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/backends.md");
    let page = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
    let expected = current(&page);
    if env::var_os("SCORN_WRITE_DOCS").is_some() {
        fs::write(&path, expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/backends.md is out of date; renew it with\n  \
         SCORN_WRITE_DOCS=1 cargo test --test program backends_doc"
    );
}
