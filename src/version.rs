//! Which program this is: its version, and the commit and target that `build.rs` found.

/// The version of the package, as in `0.1.0`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first digits of the commit that the program was built from, with `-dirty` behind them if source files differed
/// from it. `None` in debug builds, and in builds from an archive without git.
pub const COMMIT: Option<&str> = option_env!("SCORN_COMMIT");

/// Version, commit and target, as `scorn --version` prints them: `0.1.0 (commit 0310e1f2a9c4, TARGET)`. The commit is
/// `unknown` where [`COMMIT`] is `None`.
pub const DESCRIPTION: &str = env!("SCORN_DESCRIPTION");
