//! The structure of `src`: top-level modules are in layers, which the documentation lists, nothing imports upwards, and
//! no files or top-level modules import each other in a circle.
//!
//! Imports are read as text, outside of test modules. A module and its submodules do not count: a `mod.rs` may import
//! its files, and they may import it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The top-level modules from top to bottom. Modules of one layer may import each other in one direction.
const LAYERS: [&[&str]; 14] = [
    &["main"],
    &["cli"],
    &["commands"],
    &["analysis", "arena", "labeling", "selfplay", "train"],
    &["uci", "uci_client"],
    &["engine"],
    &["player"],
    &["search"],
    &["network"],
    &["game", "odds"],
    &["dataset", "lc0", "sparse"],
    &["chess", "html", "pgn", "stats", "syzygy"],
    &["config_file", "memory", "options"],
    &[
        "files",
        "hashing",
        "interrupt",
        "random",
        "terminal",
        "threads",
        "version",
    ],
];

/// A module by the names on its path: `["search", "tree"]`. The crate's root is empty.
type Module = Vec<String>;
/// Each module's imports of other modules.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn nothing_imports_upwards_and_there_are_no_circles() {
    let findings = findings(&sources());
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// The column of CONTRIBUTING.md's table of layers where the names end.
const NAMES_END: usize = 43;

#[test]
fn the_tables_of_the_documentation_have_every_module() {
    let read = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        fs::read_to_string(path).unwrap()
    };
    let mut expected: BTreeSet<&str> = LAYERS.into_iter().flatten().copied().collect();
    let page = read("CONTRIBUTING.md");
    let (_, rest) = page.split_once("```text\n").unwrap();
    let (table, _) = rest.split_once("```").unwrap();
    let names = table.lines().flat_map(|line| {
        let names = line.get(..NAMES_END).unwrap_or(line);
        names.split(|c: char| !c.is_alphanumeric() && c != '_')
    });
    let named: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    assert_eq!(named, expected, "CONTRIBUTING.md");
    let root = read("src/lib.rs");
    let rows = root.lines().filter(|line| line.starts_with("//! |"));
    let links = rows.flat_map(|row| row.split("[`").skip(1));
    let linked: BTreeSet<&str> = links.filter_map(|link| link.split("`]").next()).collect();
    // It is no part of the library.
    expected.remove("main");
    assert_eq!(linked, expected, "src/lib.rs");
}

#[test]
fn the_check_finds_deliberate_violations() {
    let names = |lines: &[&str]| -> Vec<String> {
        let mut sources = sources();
        for line in lines {
            let (file, text) = line.split_once(": ").unwrap();
            let module = file.split('/').map(str::to_owned).collect();
            sources.entry(module).or_default().push_str(text);
        }
        findings(&sources)
    };
    let upwards = names(&["files/new: use crate::{hashing, search::tree::Tree};"]);
    assert!(upwards[0].contains("files imports search"), "{upwards:?}");
    let inline = names(&["chess/new: fn f() { crate::engine::Engine::new(); }"]);
    assert!(inline[0].contains("chess imports engine"), "{inline:?}");
    let circle = names(&[
        "search/a: use super::b;",
        "search/b: use crate::search::c::C;",
        "search/c: fn f() { super::a::f() }",
    ]);
    assert_eq!(circle, ["files in a circle: search/a, search/b, search/c"]);
    let rooms = names(&[
        "train/new: use crate::labeling::sample::Sampler;",
        "labeling/new: use crate::train::step::Losses;",
    ]);
    assert_eq!(rooms, ["rooms in a circle: labeling, train"]);
    let unknown = names(&["newroom: use crate::files;"]);
    assert_eq!(unknown, ["newroom is in no layer"]);
    let in_a_test = "files/new: #[cfg(test)] mod tests { use crate::search::Tree; }";
    assert!(names(&[in_a_test]).is_empty());
}

#[test]
fn comments_have_at_most_120_columns() {
    let too_long = |(module, text): (&Module, &String)| -> Vec<String> {
        let is_long = |line: &&str| {
            let comment = line.trim_start().strip_prefix("//");
            // Rows of tables cannot be wrapped.
            let is_row = comment.is_some_and(|text| text.contains(" | "));
            comment.is_some() && !is_row && line.chars().count() > 120
        };
        let lines = text.lines().filter(is_long);
        lines
            .map(|line| format!("{}: {line}", module.join("/")))
            .collect()
    };
    let long: Vec<String> = sources().iter().flat_map(too_long).collect();
    assert!(long.is_empty(), "\n{}", long.join("\n"));
}

/// Files whose types have the names that a format gives them.
const NAMED_BY_A_FORMAT: [&[&str]; 2] = [&["lc0", "proto"], &["lc0", "onnx", "proto"]];

#[test]
fn a_type_name_exists_once() {
    let sources = sources();
    let mut only_in_tests = BTreeSet::new();
    let mut names: BTreeMap<String, BTreeSet<&Module>> = BTreeMap::new();
    for (module, text) in &sources {
        let (types, test_modules) = declared(text);
        only_in_tests.extend(test_modules.into_iter().map(|name| {
            let mut path = module.clone();
            path.push(name);
            path
        }));
        for name in types {
            names.entry(name).or_default().insert(module);
        }
    }
    assert!(names.len() > 500 && only_in_tests.len() > 2);
    let is_known = |module: &&&Module| {
        !NAMED_BY_A_FORMAT.contains(&&*module.iter().map(String::as_str).collect::<Vec<_>>())
            && !only_in_tests.iter().any(|known| module.starts_with(known))
    };
    let several: Vec<String> = names
        .iter()
        .map(|(name, modules)| (name, modules.iter().filter(is_known).collect::<Vec<_>>()))
        .filter(|(_, modules)| modules.len() > 1)
        .map(|(name, modules)| format!("{name}: {modules:?}"))
        .collect();
    assert!(several.is_empty(), "\n{}", several.join("\n"));
}

/// The types and traits of a file outside of its functions and tests, and its submodules that are only compiled for
/// tests.
fn declared(text: &str) -> (Vec<String>, Vec<String>) {
    let tokens = tokens(text);
    let (mut types, mut test_modules) = (Vec::new(), Vec::new());
    let (mut at, mut depth) = (0, 0);
    while at < tokens.len() {
        let next = tokens.get(at + 1);
        match tokens[at].as_str() {
            "#[cfg(test)]" => {
                let end = after_item(&tokens, at + 1);
                let item = &tokens[at..end];
                if let Some(place) = item.iter().position(|token| token == "mod")
                    && item.last().is_some_and(|last| last == ";")
                {
                    test_modules.push(item[place + 1].clone());
                }
                at = end;
                continue;
            }
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            "struct" | "enum" | "trait" | "type" if depth == 0 => types.extend(next.cloned()),
            _ => {}
        }
        at += 1;
    }
    (types, test_modules)
}

/// The text of every file of `src`.
fn sources() -> BTreeMap<Module, String> {
    let mut sources = BTreeMap::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let root = folders[0].clone();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().with_extension("");
                let mut module: Module = name
                    .iter()
                    .map(|part| part.to_str().unwrap().to_owned())
                    .collect();
                if module.last().is_some_and(|last| last == "mod") {
                    module.pop();
                }
                if module != ["lib"] {
                    sources.insert(module, fs::read_to_string(path).unwrap());
                }
            }
        }
    }
    assert!(sources.len() > 100, "src is not there");
    sources
}

/// The violations, one line each.
fn findings(sources: &BTreeMap<Module, String>) -> Vec<String> {
    let imports: Imports = sources
        .iter()
        .map(|(module, text)| (module.clone(), imports(module, text, sources)))
        .collect();
    let mut rooms = Imports::new();
    let mut findings = Vec::new();
    for (module, targets) in &imports {
        let room = &module[..1];
        rooms.entry(room.to_vec()).or_default();
        if layer(&room[0]).is_none() {
            findings.push(format!("{} is in no layer", room[0]));
        }
        for target in targets.iter().filter(|target| target[0] != room[0]) {
            rooms
                .entry(room.to_vec())
                .or_default()
                .insert(target[..1].to_vec());
            if layer(&target[0]) < layer(&room[0]) {
                let (from, to) = (module.join("/"), target.join("/"));
                findings.push(format!(
                    "{} imports {}, which is above it: {from} -> {to}",
                    room[0], target[0]
                ));
            }
        }
    }
    findings.dedup();
    if findings.is_empty() {
        findings.extend(circles("files", &imports));
        findings.extend(circles("rooms", &rooms));
    }
    findings
}

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().position(|rooms| rooms.contains(&room))
}

/// Sets of modules that all reach each other.
fn circles(kind: &str, imports: &Imports) -> BTreeSet<String> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|module| (module, reachable(module, imports)))
        .collect();
    let in_circle = |module: &Module| reach[module].contains(module);
    reach
        .keys()
        .filter(|module| in_circle(module))
        .map(|&module| {
            let others = reach[module]
                .iter()
                .filter(|other| reach.get(*other).is_some_and(|back| back.contains(module)));
            let names: Vec<String> = others.map(|other| other.join("/")).collect();
            format!("{kind} in a circle: {}", names.join(", "))
        })
        .collect()
}

fn reachable<'a>(start: &Module, imports: &'a Imports) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Module> = imports[start].iter().collect();
    while let Some(module) = open.pop() {
        if let Some((module, _)) = imports.get_key_value(module)
            && found.insert(module)
        {
            open.extend(&imports[module]);
        }
    }
    found
}

/// The modules that a file imports, except its ancestors and descendants.
fn imports(module: &Module, text: &str, sources: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let tokens = tokens(text);
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].starts_with(&["#[cfg(test)]".to_owned()]) {
            at = after_item(&tokens, at + 1);
        } else if tokens[at] == "use" {
            at = use_tree(&tokens, at + 1, &[], &mut paths);
        } else if ["crate", "super", "self"].contains(&tokens[at].as_str()) {
            at = use_tree(&tokens, at, &[], &mut paths);
        } else {
            at += 1;
        }
    }
    let absolute = paths.iter().filter_map(|path| absolute(module, path));
    let modules = absolute.filter_map(|path| {
        (1..=path.len())
            .rev()
            .map(|length| path[..length].to_vec())
            .find(|prefix| sources.contains_key(prefix))
    });
    modules
        .filter(|target| !target.starts_with(module) && !module.starts_with(target))
        .collect()
}

/// A path from the crate's root; `None` for paths of other crates.
fn absolute(module: &Module, path: &[String]) -> Option<Module> {
    let mut base: Module = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
            base.extend_from_slice(rest);
            return Some(base);
        }
        _ => return None,
    }
    base.extend_from_slice(&rest[1..]);
    Some(base)
}

/// Parses a path or a tree of paths from `at`, and returns its end.
fn use_tree(
    tokens: &[String],
    mut at: usize,
    head: &[String],
    paths: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = head.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = use_tree(tokens, at, &path, paths);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                return at + 1;
            }
            Some(name) if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                if name != "self" || path.is_empty() {
                    path.push(name.to_owned());
                }
                at += 1;
            }
            _ => at += 1,
        }
        if tokens.get(at).is_none_or(|token| token != "::") {
            break;
        }
        at += 1;
    }
    // `as name`
    if tokens.get(at).is_some_and(|token| token == "as") {
        at += 2;
    }
    paths.push(path);
    at
}

/// The index after an item that begins at `at`: after its block, or its semicolon.
fn after_item(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return at,
            _ => {}
        }
        if depth == 0 && token == "}" {
            return at;
        }
    }
    at
}

/// Names, `::` and punctuation, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("#[cfg(test)]") {
            tokens.push("#[cfg(test)]".to_owned());
            "#[cfg(test)]".len()
        } else if let Some(length) = literal(rest) {
            length
        } else if first.is_alphanumeric() || first == '_' {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of the string or character literal at the beginning of the text.
fn literal(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if let Some(hashes) = text
        .strip_prefix('r')
        .map(|rest| rest.bytes().take_while(|&b| b == b'#').count())
        && bytes.get(1 + hashes) == Some(&b'"')
    {
        let end = format!("\"{}", "#".repeat(hashes));
        let begin = 2 + hashes;
        return Some(begin + text[begin..].find(&end)? + end.len());
    }
    let quote = bytes[0];
    let is_char =
        quote == b'\'' && (bytes.get(1) == Some(&b'\\') || text.chars().nth(2) == Some('\''));
    if quote != b'"' && !is_char {
        return None;
    }
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    Some(at + 1)
}
