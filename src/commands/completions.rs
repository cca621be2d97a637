//! `scorn completions` and `scorn man`: what shells and `man` read about the command line, made from the command line
//! itself.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{files::output::NewFile, terminal};

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
    /// Overwrite pages that exist.
    #[arg(long, requires = "folder")]
    pub force: bool,
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
/// When nothing can be written, or a page exists and --force is not given; then nothing is changed.
pub fn man(args: &ManArgs, command: clap::Command) -> Result<()> {
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return print(page);
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    prepare_pages(command, folder, args.force, &mut pages)?;
    pages
        .into_iter()
        .try_for_each(|(file, page)| file.finish_with(&page))
}

/// Prepares the pages of a command and its subcommands: all of them before the first is put in its place.
fn prepare_pages(
    command: clap::Command,
    folder: &Path,
    force: bool,
    pages: &mut Vec<(NewFile, Vec<u8>)>,
) -> Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        prepare_pages(subcommand.clone(), folder, force, pages)?;
    }
    let (man, mut page) = (Man::new(command), Vec::new());
    man.render(&mut page)?;
    let file = NewFile::create(&folder.join(man.get_filename()), force, &[])?;
    pages.push((file, page));
    Ok(())
}

fn print(text: Vec<u8>) -> Result<()> {
    let text = String::from_utf8(text)?;
    terminal::print(format_args!("{text}")).context("cannot write to standard output")
}
