//! The command line: subcommands, flags, and how errors are reported. Every row of the option table is also a flag,
//! before or after the subcommand, and a line of the configuration file.

use std::{
    ffi::OsString,
    io::{self, BufReader},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result};
use clap::{
    Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser},
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    commands::{
        analyze::{self, AnalyzeArgs},
        backendbench::{self, BackendbenchArgs},
        bench::{self, BenchArgs},
        benchmark::{self, BenchmarkArgs},
        chunk::{self, ChunkArgs},
        completions::{self, CompletionsArgs, ManArgs},
        convert::{self, ConvertArgs},
        dataset::{self, DatasetArgs},
        describe::{self, DescribeArgs},
        r#match::{self, MatchArgs},
        options::{self, OptionsArgs},
        page::{self, PageArgs},
        runtime::{self, RuntimeArgs},
        selfplay::{self, SelfplayArgs},
        stats::{self, StatsArgs},
        train::{self, TrainArgs},
        tune::{self, TuneArgs},
    },
    config_file, engine,
    network::{
        backend::{BACKENDS, from_lc0, help_of},
        load::{self, NetworkConfig},
        source::{calibrate::calibrate, recommended},
    },
    options::{
        OptionError, OptionKind, OptionRow, Options,
        layers::{Layer, Layers},
        lc0::{RENAMED_IN_LC0, only_in_lc0},
    },
    player::Load,
    terminal::eprint_line,
    uci::{self, output::Output},
    version,
};

/// The subcommands that accept options of the engine, or some of them.
const WITH_OPTIONS: &[&[&str]] = &[
    &["uci"],
    &["options"],
    &["analyze"],
    &["backendbench"],
    &["benchmark"],
    &["runtime"],
    &["tune"],
    &["dataset", "planes"],
    &["dataset", "policy"],
    &["dataset", "visit"],
    &["dataset", "search"],
    &["stats"],
    &["selfplay"],
];

/// Whether the subcommand with these names accepts an option.
fn is_accepted(row: &OptionRow, path: &[&str]) -> bool {
    match path {
        [] | ["uci" | "options"] => true,
        ["dataset", "planes"] => row.name == "HistoryFill",
        // It looks for them.
        ["tune"] if ["Threads", "MinibatchSize"].contains(&row.name) => false,
        path => WITH_OPTIONS.contains(&path) && !row.is_only_uci,
    }
}

/// The options that a command passes over if the configuration file sets them: the file is for all commands, and these
/// have no effect in this one, or are what it looks for. On its command line they count, or are refused.
fn passed_over_in_file(path: &[&str]) -> &'static [&'static str] {
    match path {
        ["dataset", "visit" | "search"] | ["stats"] => &["Threads"],
        ["selfplay"] => &["RamLimitMb", "NodesPerSecondLimit", "UCI_AnalyseMode"],
        ["tune"] => &["Backend", "Threads", "MinibatchSize"],
        _ => &[],
    }
}

/// A chess engine for UCI programs (Arena, Cute Chess, lichess-bot...), with search-contempt.
///
/// Without a command it runs the UCI protocol: start it from a chess GUI, or type "go nodes 1000".
#[derive(Debug, Parser)]
#[command(
    name = "scorn",
    version = version::DESCRIPTION,
    max_term_width = 100,
    propagate_version = true
)]
#[command(
    after_help = "Every UCI option is a flag too: see \"scorn --help\" for all of them.",
    after_long_help = "The UCI options above are also flags of \"scorn uci\" and of the commands that search."
)]
struct Cli {
    /// Configuration file, one "--flag=value" per line. Default: scorn.config, or without it lc0.config, in the
    /// program's folder; an empty name reads none.
    #[arg(long, short, value_name = "FILE", global = true, value_parser = OsStringValueParser::new().map(PathBuf::from))]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the UCI protocol (the default without a command).
    Uci,
    Options(OptionsArgs),
    #[command(visible_alias = "analyse")]
    Analyze(AnalyzeArgs),
    Bench(BenchArgs),
    Benchmark(BenchmarkArgs),
    Backendbench(BackendbenchArgs),
    Runtime(RuntimeArgs),
    Tune(TuneArgs),
    Convert(ConvertArgs),
    Describe(DescribeArgs),
    Dataset(DatasetArgs),
    Selfplay(Box<SelfplayArgs>),
    Chunk(ChunkArgs),
    Stats(StatsArgs),
    Page(PageArgs),
    Match(Box<MatchArgs>),
    Train(TrainArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the program. Exit codes: 0, 1 for an error, 2 for a command line that is not valid.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (cli, options) = match parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return print_parse_error(&error),
    };
    let done = options.and_then(|layers| dispatch(cli.command, cli.config.as_deref(), layers));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint_line(format_args!("scorn: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints what is wrong with a command line, or the help or version that it asks for.
fn print_parse_error(error: &clap::Error) -> ExitCode {
    match error.print() {
        // The reader of a help may stop before its end, as `head` does.
        Err(failed) if !error.use_stderr() && failed.kind() != io::ErrorKind::BrokenPipe => {
            eprint_line(format_args!(
                "scorn: cannot write to standard output: {failed}"
            ));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

fn dispatch(command: Option<CliCommand>, config: Option<&Path>, layers: Layers) -> Result<()> {
    // What most commands use: the network's recommendations, but neither profiles nor a strength limit.
    let in_force = || recommended::resolve(&layers);
    match command {
        None | Some(CliCommand::Uci) => {
            engine::load_profiles(&layers.as_set().profiles)?;
            let output = Output::new(Box::new(io::stdout()));
            let notes = output.clone();
            let load = load(move |text| notes.note(text));
            uci::run(BufReader::new(io::stdin()), &output, layers, load)
        }
        Some(CliCommand::Options(args)) => options::run(&args, layers),
        Some(CliCommand::Analyze(args)) => analyze::run(&args, in_force(), &load(print_message)),
        Some(CliCommand::Bench(args)) => bench::run(&args),
        Some(CliCommand::Benchmark(args)) => {
            benchmark::run(&args, &in_force().into_options(), &load(print_message))
        }
        Some(CliCommand::Backendbench(args)) => {
            backendbench::run(&args, &in_force().into_options())
        }
        Some(CliCommand::Runtime(args)) => runtime::run(&args, &layers.as_set()),
        Some(CliCommand::Tune(args)) => tune::run(&args, &in_force().into_options()),
        Some(CliCommand::Convert(args)) => convert::run(&args, &calibrate),
        Some(CliCommand::Describe(args)) => describe::run(&args),
        Some(CliCommand::Dataset(args)) => {
            dataset::run(&args, &in_force().into_options(), &load(print_message))
        }
        Some(CliCommand::Chunk(args)) => chunk::run(&args),
        Some(CliCommand::Selfplay(args)) => selfplay::run(&args, &layers, &load(print_message)),
        Some(CliCommand::Stats(args)) => stats::run(&args, &layers, &load(print_message)),
        Some(CliCommand::Page(args)) => page::run(&args),
        Some(CliCommand::Match(args)) => r#match::run(&args, config),
        Some(CliCommand::Train(args)) => train::run(&args),
        Some(CliCommand::Completions(args)) => {
            let command = offer_words(whole_command(), &Options::default().rows());
            completions::run(&args, command)
        }
        Some(CliCommand::Man(args)) => completions::run_man(&args, whole_command()),
    }
}

/// Creates backends; `note` receives messages about slow steps.
fn load(note: impl Fn(&str) + Send + Sync + 'static) -> Load {
    Arc::new(move |options, role| {
        let config = NetworkConfig::of(options, role);
        Ok(load::load_backend(&config, &note)?)
    })
}

/// Messages of commands whose standard output is read by programs.
fn print_message(text: &str) {
    eprint_line(format_args!("scorn: {text}"));
}

/// Sets an option, and prints the message about it if there is one.
fn set(layer: &mut Layer, name: &str, value: &str) -> Result<(), OptionError> {
    let (value, note) = from_lc0(name, value);
    let ignored = layer.set_as_in_lc0(name, value)?;
    if let Some(note) = note.or(ignored) {
        eprint_line(format_args!("scorn: {note}"));
    }
    Ok(())
}

type Parsed = (Cli, Result<Layers>);

/// Reads the command line. A mistake in the configuration file is an error of its own: the command line may be valid.
fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, clap::Error> {
    let rows = Options::default().rows();
    let mut command = command(&rows);
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .map_err(|error| match error.kind() {
            ErrorKind::InvalidUtf8 => command.error(error.kind(), not_utf8(&arguments)),
            ErrorKind::InvalidSubcommand => match in_place_of(&error) {
                Some(text) => command.error(ErrorKind::InvalidSubcommand, text),
                None => error,
            },
            _ => error,
        })?;
    let cli = Cli::from_arg_matches(&matches)?;
    let path = subcommand_path(&matches);
    let mut refused = rows.iter().filter(|row| !is_accepted(row, &path));
    if let Some(row) = refused.find(|row| value_of(row, &matches).is_some()) {
        let text = format!("--{} does not apply to {}", row.flag, path.join(" "));
        return Err(command.error(ErrorKind::ArgumentConflict, text));
    }
    let mut layers = Layers::default();
    let config = read_config(cli.config.as_deref(), &mut layers.file);
    for name in passed_over_in_file(&path) {
        layers.file.unset(name);
    }
    for row in &rows {
        let Some(value) = value_of(row, &matches) else {
            continue;
        };
        set(&mut layers.user, row.name, &value).map_err(|error| {
            let text = format!("--{}: {error}", row.flag);
            command.error(ErrorKind::ValueValidation, text)
        })?;
    }
    for (_, flag) in only_in_lc0() {
        if matches.contains_id(flag) {
            eprint_line(format_args!(
                "scorn: --{flag} exists in lc0 only and is ignored"
            ));
        }
    }
    Ok((cli, config.map(|()| layers)))
}

/// Commands of lc0, and what does the same here.
const COMMANDS_OF_LC0: &[(&str, &str)] = &[
    ("leela2onnx", "is 'scorn convert NETWORK OUTPUT'"),
    ("onnx2leela", "is 'scorn convert MODEL.onnx OUTPUT.pb.gz'"),
    ("describenet", "is 'scorn describe NETWORK'"),
    ("classic", "is what 'scorn' does without a command"),
    ("dag-preview", "is like 'scorn --transpositions'"),
    (
        "policyhead",
        "is like 'scorn' with 'go nodes 1', which plays the move of the highest prior",
    ),
    ("valuehead", "has no counterpart in Scorn"),
    ("rescorer", "has no counterpart in Scorn"),
];

/// The message about an unknown command, if it is one of lc0's.
fn in_place_of(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (name, text) = COMMANDS_OF_LC0.iter().find(|(known, _)| known == name)?;
    Some(format!("lc0's command '{name}' {text}"))
}

/// The message about arguments that are not UTF-8.
fn not_utf8(arguments: &[OsString]) -> String {
    let wrong = arguments.iter().filter(|text| text.to_str().is_none());
    let wrong: Vec<_> = wrong.map(|text| text.to_string_lossy()).collect();
    format!(
        "not UTF-8: {}; options, and names of files in them as in --weights FILE, must be UTF-8: rename the file",
        wrong.join(", ")
    )
}

/// The command line with all flags that have an effect, for completions and manual pages.
fn whole_command() -> clap::Command {
    own_command(&Options::default().rows())
}

/// The command line with the words that completions offer as values; the options take others, too, such as lc0's.
fn offer_words(command: clap::Command, rows: &[OptionRow]) -> clap::Command {
    let offer = |arg: Arg| {
        let row = rows.iter().find(|row| arg.get_id().as_str() == row.name);
        match row.map(words_of) {
            Some(words) if !words.is_empty() => arg.value_parser(PossibleValuesParser::new(words)),
            _ => arg,
        }
    };
    let command = command.mut_args(offer);
    command.mut_subcommands(|inner| offer_words(inner, rows))
}

/// The words that are values of an option.
fn words_of(row: &OptionRow) -> Vec<&'static str> {
    match row.kind {
        OptionKind::Combo(words) => words.to_vec(),
        _ if row.name == "Backend" => BACKENDS.iter().map(|factory| factory.info().name).collect(),
        _ => Vec::new(),
    }
}

/// The command line with the flags of lc0 that are ignored, too.
fn command(rows: &[OptionRow]) -> clap::Command {
    own_command(rows).args(only_in_lc0().map(|(_, flag)| argument_of_lc0(flag)))
}

/// The command line with a flag for every option, before and after the subcommand.
fn own_command(rows: &[OptionRow]) -> clap::Command {
    let all: Vec<&OptionRow> = rows.iter().collect();
    let command = with_options(Cli::command(), &[], &all);
    WITH_OPTIONS.iter().fold(command, |command, path| {
        let accepted: Vec<&OptionRow> = rows.iter().filter(|row| is_accepted(row, path)).collect();
        with_options(command, path, &accepted)
    })
}

/// The command with the flags added to the subcommand that the names lead to.
fn with_options(command: clap::Command, path: &[&str], rows: &[&OptionRow]) -> clap::Command {
    match path {
        [] => {
            // A subcommand's own short flag takes precedence: -o of "scorn analyze" is --output.
            let taken: Vec<char> = command.get_arguments().filter_map(Arg::get_short).collect();
            let arguments = rows.iter().flat_map(|row| arguments_of(row, &taken));
            command.args(arguments.collect::<Vec<Arg>>())
        }
        [name, rest @ ..] => command.mut_subcommand(name, |inner| with_options(inner, rest, rows)),
    }
}

/// A flag of an option that only lc0 has, which is accepted and ignored.
fn argument_of_lc0(flag: &'static str) -> Arg {
    let arg = Arg::new(flag).long(flag).hide(true).num_args(0..=1);
    let arg = arg.require_equals(true).default_missing_value("");
    // lc0's users name the mode first.
    arg.global(true)
}

/// The flags of one row: `--flag VALUE`, or `--flag` and `--no-flag`; its short flag, unless that is taken.
fn arguments_of(row: &OptionRow, taken: &[char]) -> Vec<Arg> {
    let help = help_of(row) + &limits_of(row);
    let arg = Arg::new(row.name)
        .long(row.flag)
        // Completions have the help, manual pages the long one.
        .help(help.clone())
        .long_help(help)
        .help_heading("Engine options")
        .hide_short_help(true);
    let arg = match row.short_flag {
        Some(short) if !taken.contains(&short) => arg.short(short),
        _ => arg,
    };
    let renamed = RENAMED_IN_LC0.iter().filter(|(_, new)| *new == row.flag);
    let arg = arg.aliases(renamed.map(|(old, _)| *old));
    if row.kind != OptionKind::Check {
        let value = match row.kind {
            OptionKind::Spin { .. } => "N",
            OptionKind::Float { .. } => "X",
            OptionKind::Combo(_) => "WORD",
            OptionKind::Check | OptionKind::Text => "TEXT",
        };
        return vec![arg.value_name(value).allow_hyphen_values(true)];
    }
    let negative = Arg::new(row.negative_flag)
        .long(row.negative_flag)
        .action(ArgAction::SetTrue)
        .overrides_with(row.name)
        .hide(true);
    let positive = arg
        .value_name("BOOL")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true");
    vec![positive, negative]
}

/// Range and default of an option, to append to its help.
fn limits_of(row: &OptionRow) -> String {
    let range = match row.kind {
        OptionKind::Check | OptionKind::Text => String::new(),
        OptionKind::Spin { .. } | OptionKind::Float { .. } | OptionKind::Combo(_) => row.range(),
    };
    let default = match &*row.value {
        "" => String::new(),
        default => format!("default: {default}"),
    };
    let limits = [range, default];
    let limits: Vec<String> = limits.into_iter().filter(|text| !text.is_empty()).collect();
    if limits.is_empty() {
        String::new()
    } else {
        format!(" [{}]", limits.join("; "))
    }
}

/// The names of the subcommand that was chosen, if there is one.
fn subcommand_path(matches: &ArgMatches) -> Vec<&str> {
    let inner = matches.subcommand();
    let path = inner.map(|(name, inner)| [vec![name], subcommand_path(inner)].concat());
    path.unwrap_or_default()
}

/// The value of a flag; one after the subcommand takes precedence over one before it.
fn value_of(row: &OptionRow, matches: &ArgMatches) -> Option<String> {
    let inner = matches
        .subcommand()
        .and_then(|(_, inner)| value_of(row, inner));
    if inner.is_some() {
        return inner;
    }
    // An error means that this subcommand has no such flag.
    let is_negative = matches.try_get_one(row.negative_flag).ok().flatten();
    if row.kind == OptionKind::Check && is_negative == Some(&true) {
        return Some("false".into());
    }
    matches.try_get_one::<String>(row.name).ok()?.cloned()
}

/// Reads the named configuration file (none if the name is empty), or by default the one beside the program.
fn read_config(named: Option<&Path>, layer: &mut Layer) -> Result<()> {
    let path = match named {
        Some(path) if path.as_os_str().is_empty() => return Ok(()),
        Some(path) => path.to_owned(),
        None => match config_file::default_file() {
            Some(path) => path,
            None => return Ok(()),
        },
    };
    for entry in config_file::read(&path).context("configuration file")? {
        set(layer, &entry.name, &entry.value)
            .with_context(|| format!("{}, line {}", path.display(), entry.line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::HistoryFill;

    fn options(line: &str) -> Options {
        parse(line.split_whitespace().map(OsString::from))
            .unwrap()
            .1
            .unwrap()
            .as_set()
    }

    #[test]
    fn the_command_is_well_formed() {
        let rows = Options::default().rows();
        command(&rows).debug_assert();
    }

    #[cfg(unix)]
    #[test]
    fn options_that_are_not_utf8_are_named() {
        use std::os::unix::ffi::OsStringExt;
        let network = OsString::from_vec(b"/nets/\xff.pb.gz".to_vec());
        let arguments = ["scorn".into(), "--weights".into(), network];
        let error = parse(arguments).err().unwrap().to_string();
        assert!(
            error.contains("not UTF-8: /nets/\u{fffd}.pb.gz;") && error.contains("rename the file"),
            "{error}"
        );
    }

    #[test]
    fn commands_and_flags_of_lc0_are_known() {
        let error = |command: &str| {
            let parsed = parse(["scorn", command].map(OsString::from));
            parsed.err().unwrap().to_string()
        };
        for (name, text) in COMMANDS_OF_LC0 {
            let expected = format!("lc0's command '{name}' {text}");
            assert!(error(name).contains(&expected), "{}", error(name));
        }
        assert!(!error("nonsense").contains("lc0"));
        for flag in ["--search-spin-backoff", "--no-search-spin-backoff"] {
            assert_eq!(options(&format!("scorn {flag}")), Options::default());
        }
    }

    /// Help in one paragraph has no full stop at its end, in any command. (The rows of the option table, which GUIs
    /// show as well, are whole sentences.)
    #[test]
    fn one_paragraph_of_help_ends_without_a_full_stop() {
        let mut commands = vec![Cli::command()];
        let mut count = 0;
        while let Some(command) = commands.pop() {
            // The first paragraph of a longer text, too: it is all that `-h` and the list of commands show.
            let mut texts: Vec<_> = command.get_about().into_iter().cloned().collect();
            for argument in command.get_arguments() {
                texts.extend(argument.get_help().cloned());
                let values = argument.get_possible_values();
                texts.extend(values.iter().filter_map(|value| value.get_help()).cloned());
            }
            for text in texts.iter().map(ToString::to_string) {
                assert!(!text.ends_with('.'), "{}: {text}", command.get_name());
                count += 1;
            }
            commands.extend(command.get_subcommands().cloned());
        }
        assert!(count > 200, "{count}");
    }

    /// The examples below the options are printed as they are written: no line is too long.
    #[test]
    fn examples_fit_their_lines() {
        let rows = Options::default().rows();
        let examples: Vec<String> = command(&rows)
            .get_subcommands()
            .filter_map(|command| command.get_after_long_help())
            .map(ToString::to_string)
            .collect();
        assert!(examples.len() >= 5, "{examples:?}");
        for line in examples.iter().flat_map(|text| text.lines()) {
            assert!(line.len() <= 100, "{line}");
        }
    }

    #[test]
    fn help_has_range_and_default() {
        let limits = |name| limits_of(&Options::default().row(name).unwrap());
        assert_eq!(limits("Threads"), " [0 to 128; default: 0]");
        assert_eq!(
            limits("ScSampling"),
            " [thompson, stratified; default: thompson]"
        );
        assert_eq!(limits("Ponder"), " [default: false]");
        assert_eq!(limits("PolicyHead"), "");
    }

    #[test]
    fn options_are_flags_everywhere() {
        let set =
            options("scorn --cpuct 2 uci --draw-score -0.5 --no-two-fold-draws --chess960 -b hash");
        assert_eq!((set.cpuct, set.draw_score), (2.0, -0.5));
        assert!(!set.two_fold_draws && set.chess960);
        assert_eq!(set.backend, "hash");
        assert!(!options("scorn --sticky-endgames=false").sticky_endgames);
        assert_eq!(options("scorn uci"), Options::default());
        let visit = options("scorn --cpuct 2 dataset visit in --out out --count 1 --backend hash");
        assert_eq!((visit.cpuct, &*visit.backend), (2.0, "hash"));
        let of_lc0 = options("scorn --max-prefetch=3 --history-fill-new=always -s tables");
        assert_eq!(of_lc0.history_fill, HistoryFill::Always);
        assert_eq!(of_lc0.syzygy_path, "tables");
        assert!(
            parse(["scorn", "--config", ""].map(OsString::from))
                .unwrap()
                .1
                .is_ok()
        );
        for bad in [
            "scorn --cpuct x",
            "scorn --nosuch",
            "scorn analyze",
            "scorn bench --nodes 0",
            "scorn --backend rten bench",
            "scorn --policy-head optimistic convert in.pb.gz out.onnx",
            "scorn --no-two-fold-draws dataset stats x.rec",
        ] {
            let parsed = parse(bad.split_whitespace().map(OsString::from));
            assert_eq!(parsed.unwrap_err().exit_code(), 2, "{bad}");
        }
    }

    #[test]
    fn configuration_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.config");
        std::fs::write(&path, "--cpuct=3\nno-two-fold-draws\nmax-prefetch=3\n").unwrap();
        let mut layers = Layers::default();
        read_config(Some(&path), &mut layers.file).unwrap();
        assert!(layers.file.sets("CPuct") && !layers.file.sets("ScLimit"));
        let options = layers.as_set();
        assert!(options.cpuct == 3.0 && !options.two_fold_draws);
        std::fs::write(&path, "cpuct=3\n\ncpuct=x\n").unwrap();
        let error = read_config(Some(&path), &mut layers.file).unwrap_err();
        assert!(format!("{error:#}").contains("line 3"), "{error:#}");
        // An empty name disables the file beside the program, too.
        read_config(Some(Path::new("")), &mut layers.file).unwrap();
    }

    #[test]
    fn a_configuration_file_is_for_all_commands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.config");
        let text = "threads=3\nramlimit-mb=9\nnps-limit=5\nUCI_AnalyseMode=true\nbackend=rten\nminibatch-size=7\n\
                    cpuct=2\n";
        std::fs::write(&path, text).unwrap();
        let options = |command: &str| {
            let words = [
                "scorn".into(),
                "--config".into(),
                path.clone().into_os_string(),
            ];
            let command = command.split(' ').map(OsString::from);
            let (_, layers) = parse(words.into_iter().chain(command)).unwrap();
            let options = layers.unwrap().as_set();
            assert_eq!(options.cpuct, 2.0);
            options
        };
        let uci = options("uci");
        assert_eq!(
            (uci.threads, uci.ram_limit_mb, uci.minibatch_size),
            (3, 9, 7)
        );
        assert!(uci.analyse_mode && uci.nps_limit == 5.0 && uci.backend == "rten");
        let usual = Options::default();
        for command in [
            "dataset visit a --out b --count 1",
            "dataset search a --out b --count 1",
            "stats a",
        ] {
            assert_eq!(options(command).threads, usual.threads, "{command}");
        }
        assert_eq!(options("stats a --threads 2").threads, 2);
        let selfplay = options("selfplay --games 1 --out a");
        assert_eq!((selfplay.threads, selfplay.ram_limit_mb), (3, 0));
        assert!(!selfplay.analyse_mode && selfplay.nps_limit == 0.0);
        let tune = options("tune");
        assert_eq!(
            (tune.backend, tune.threads, tune.minibatch_size),
            (usual.backend, usual.threads, 0)
        );
        assert_eq!(options("tune --backend hash").backend, "hash");
    }
}
