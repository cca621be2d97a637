//! Tells the compiler what is built: the target, and the commit if that is known. Packs the networks that not every
//! user needs: they make the program five megabytes smaller so, and are unpacked when they are first used.
//!
//! The commit is, in this order: the environment's `SCORN_COMMIT` (for packagers), the one that `cargo package` wrote
//! into the package, the one of the git checkout. Builds from an archive have none. Debug builds have none either, so
//! that a commit does not recompile the library for the next test.

use std::{env, fs, path::Path, process::Command};

/// What a release is built from.
const SOURCES: [&str; 5] = ["src", "networks", "Cargo.toml", "Cargo.lock", "build.rs"];

/// The number of hexadecimal digits that are shown.
const DIGITS: usize = 12;

fn main() {
    #[cfg(feature = "networks")]
    packed::write();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SCORN_COMMIT");
    let target = env::var("TARGET").unwrap_or_else(|_| "unknown target".to_owned());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let named = env::var("SCORN_COMMIT").ok();
    let named = named.filter(|text| !text.trim().is_empty());
    let commit = named.or_else(|| {
        let found = || packaged().or_else(checked_out);
        is_release.then(found).flatten()
    });
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let shown = commit.as_deref().unwrap_or("unknown").trim();
    println!("cargo::rustc-env=SCORN_DESCRIPTION={version} (commit {shown}, {target})");
    if let Some(commit) = &commit {
        println!("cargo::rustc-env=SCORN_COMMIT={}", commit.trim());
    }
}

#[cfg(feature = "networks")]
mod packed {
    use std::{env, fs::File, io::Write, path::Path};

    use flate2::{Compression, write::GzEncoder};

    /// The names of the files, which `src/network/source/built_in.rs` includes, and what is in them.
    const NETWORKS: [(&str, &[u8]); 3] = [
        ("dense.gz", include_bytes!("networks/scorn-dense.onnx")),
        ("human.gz", scorn_network_human::HUMAN),
        ("odds.gz", scorn_network_odds::ODDS),
    ];

    /// Writes them to `OUT_DIR`.
    pub fn write() {
        let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        for (name, network) in NETWORKS {
            let file = File::create(Path::new(&folder).join(name)).expect("OUT_DIR can be written");
            let mut packed = GzEncoder::new(file, Compression::default());
            packed.write_all(network).expect("OUT_DIR has room");
            packed.finish().expect("OUT_DIR has room");
        }
    }
}

/// The commit in the file that `cargo package` adds.
fn packaged() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let commit: String = rest
        .chars()
        .skip_while(|c| !c.is_ascii_hexdigit())
        .take_while(char::is_ascii_hexdigit)
        .take(DIGITS)
        .collect();
    (!commit.is_empty()).then_some(commit)
}

/// The commit of the git checkout whose root is the package's folder, with `-dirty` if source files differ from it.
fn checked_out() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    let commit = git(&["rev-parse", &format!("--short={DIGITS}"), "HEAD"])?;
    let status = [&["status", "--porcelain", "--"], &SOURCES[..]].concat();
    let is_dirty = !git(&status)?.is_empty();
    // The log of HEAD grows with every commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    for path in [&[&*log], &SOURCES[..]].concat() {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    Some(if is_dirty { commit + "-dirty" } else { commit })
}

/// What git prints; `None` if it fails or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
