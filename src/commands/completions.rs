//! `scorn completions` and `scorn man`: what shells and `man` read about the command line, made from the command line
//! itself.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::terminal;

/// Print a completion script for a shell.
///
/// Bash: scorn completions bash > ~/.local/share/bash-completion/completions/scorn. Zsh: into a file _scorn in a folder
/// of $fpath. Fish: into ~/.config/fish/completions/scorn.fish.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Print the manual page, for man(1).
///
/// scorn man | man -l - shows it.
#[derive(Clone, Debug, clap::Args)]
pub struct ManArgs {
    /// Write the pages of the program and of all commands into this folder instead: scorn.1, scorn-analyze.1 and so on.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

/// Runs `scorn completions` for the command line `command`.
///
/// # Errors
/// When nothing can be written.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "scorn", &mut script);
    print(script)
}

/// Runs `scorn man` for the command line `command`.
///
/// # Errors
/// When nothing can be written.
pub fn man(args: &ManArgs, command: clap::Command) -> Result<()> {
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return print(page);
    };
    let context = || format!("cannot write the pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(context)?;
    clap_mangen::generate_to(command, folder).with_context(context)
}

fn print(text: Vec<u8>) -> Result<()> {
    let text = String::from_utf8(text)?;
    terminal::print(format_args!("{text}")).context("cannot write to standard output")
}
