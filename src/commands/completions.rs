//! `scorn completions` and `scorn man`: what shells and `man` read about the command line, made from the command line
//! itself.

use std::{
    fmt::Display,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{files::output::NewFile, terminal, version::VERSION};

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
pub fn run(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "scorn", &mut script);
    print(String::from_utf8(script)?)
}

/// Runs `scorn man` for the command line `command`.
///
/// # Errors
/// When a page cannot be written, or exists and --force is not given; then none is changed.
pub fn run_man(args: &ManArgs, command: clap::Command) -> Result<()> {
    let Some(folder) = &args.folder else {
        return print(page(Man::new(command))?);
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    prepare_pages(command, folder, args.force, &mut pages)?;
    pages.into_iter().try_for_each(NewFile::finish)
}

/// Writes the pages of a command and its subcommands: all of them before the first is put in its place, so that on a
/// full disk none stands in the way of another try.
fn prepare_pages(
    command: clap::Command,
    folder: &Path,
    force: bool,
    pages: &mut Vec<NewFile>,
) -> Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        prepare_pages(subcommand.clone(), folder, force, pages)?;
    }
    let man = Man::new(command);
    let path = folder.join(man.get_filename());
    let mut file = NewFile::create(&path, force, &[])?;
    let written = file.write_all(page(man)?.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display()))?;
    pages.push(file);
    Ok(())
}

/// A page, with the program's name and version in its footer.
fn page(man: Man) -> Result<String> {
    // An empty date is left out, and the footer has what follows it in its place.
    let man = man.date(" ").source(format!("scorn {VERSION}"));
    let mut page = Vec::new();
    man.manual("Scorn").render(&mut page)?;
    // The text below the options: examples, or something else.
    let page = String::from_utf8(page)?.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    Ok(page.replace(".SH EXTRA\n", ".SH NOTES\n"))
}

fn print(text: impl Display) -> Result<()> {
    terminal::print_text(text).context("cannot write to standard output")
}
