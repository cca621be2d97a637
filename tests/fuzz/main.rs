//! Fuzz tests: of the library, of the program as a GUI drives it, and of every reader of files.
//!
//! `cargo test` runs a short form. Long ones, as in `docs/reliability.md`:
//! `SCORN_FUZZ_LINES=1000000 SCORN_FUZZ_FILES=100000 SCORN_FUZZ_TARGETS=100000 cargo test --release --test fuzz`.

#[cfg(target_os = "linux")]
mod files;
mod hostile;
mod library;
mod program;
mod seeds;
#[cfg(target_os = "linux")]
#[path = "../common/shared.rs"]
mod shared;
#[path = "../lc0/synth.rs"]
mod synth;
mod target_functions;
mod targets;
