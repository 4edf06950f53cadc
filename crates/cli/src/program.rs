//! The program from its arguments to its exit status.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use tracing_subscriber::EnvFilter;
use waycairn_train::Experiments;

use crate::args::Cli;
use crate::command::{Command, version};
use crate::context::Context;
use crate::environment::Environment;
use crate::error::{CliError, Exit, STANDARD_OUTPUT, one_line};
use crate::output::{Destination, ShapeFormat};
use crate::terminal::Terminal;
use crate::{panic, progress};

/// Runs the program: reads the arguments and the environment, does one command, and says how it went.
///
/// `experiments` are what `train`, `sample` and `analyze` know; the first is the default. A program of your own with
/// your own model is one line:
///
/// ```no_run
/// use std::process::ExitCode;
/// use waycairn_cli::{Gpt, experiments};
///
/// fn main() -> ExitCode {
///     waycairn_cli::main(experiments![Gpt])
/// }
/// ```
#[must_use]
pub fn main(experiments: Experiments) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let environment = Environment::read();
    let terminal = Terminal::look(environment.colour);
    let as_json = wants_json(&arguments);
    let chain = wants_chain(&arguments);
    let result = survive_limits()
        .and_then(|()| panic::guard(|| run(&arguments, environment, terminal.clone(), experiments)));
    let error = match result {
        Ok(exit) => return exit.into(),
        Err(error) if error.is_quiet() => return Exit::Done.into(),
        Err(error) => error.or_system_next(),
    };
    let text = if as_json {
        serde_json::to_string(&error.json()).unwrap_or_default() + "\n"
    } else {
        error.text(&terminal, chain)
    };
    // Where standard error is gone there is nobody left to tell.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
    error.exit.into()
}

fn run(
    arguments: &[OsString],
    environment: Environment,
    terminal: Terminal,
    experiments: Experiments,
) -> Result<Exit, CliError> {
    if let Some(argument) = arguments.iter().skip(1).find(|argument| argument.to_str().is_none()) {
        return Err(CliError::usage(format!("the argument {argument:?} is not UTF-8"))
            .why("paths and words are recorded as text, and would be changed by it")
            .next("give the file or folder another name, or name it from inside its folder"));
    }
    // Before anything else, so that a training is stopped in good order in its first moments too.
    let trains = arguments.get(1).is_some_and(|word| word == "train");
    let stop =
        if trains { Some(progress::listen(environment.launched).map_err(CliError::system)?) } else { None };
    let mut known = command(&experiments);
    let parsed = known.try_get_matches_from_mut(arguments);
    let cli = match parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            error.print().map_err(|error| CliError::writing(STANDARD_OUTPUT, error))?;
            return Ok(Exit::Done);
        }
        Err(error) => return Err(usage(&error, arguments)),
    };
    log(&cli, &environment);
    if cli.version {
        version::run(cli.format.unwrap_or(ShapeFormat::Table))?;
        return Ok(Exit::Done);
    }
    let Some(command) = cli.command else {
        let help = known.render_help();
        let mut out = Destination::standard_output();
        let text = if terminal.styled() { help.ansi().to_string() } else { help.to_string() };
        out.text(&text)?;
        out.finish()?;
        return Ok(Exit::Done);
    };
    if cli.format.is_some() {
        return Err(CliError::usage("`--format` stands before the command")
            .why("each command has formats of its own")
            .next("write it after the command, as in `waycairn nodes --format json`"));
    }
    let here = std::env::current_dir().map_err(|error| {
        CliError::of("io", error).next("change to a folder that exists and that you may read")
    })?;
    let command_line = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let context =
        Context { terminal, environment, global: cli.global, here, experiments, command_line, stop };
    command.run(&context)
}

/// Makes a write beyond a limit on the size of files fail like one on a full disk: by default its signal ends the
/// process without a word.
fn survive_limits() -> Result<(), CliError> {
    #[cfg(unix)]
    {
        let exceeded = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, exceeded).map_err(CliError::system)?;
    }
    Ok(())
}

/// The command line with the presets of these experiments in its help.
fn command(experiments: &Experiments) -> clap::Command {
    let known = experiments.describe();
    let names: Vec<&str> = known.iter().flat_map(|known| &known.presets).map(|preset| preset.name).collect();
    let Some(default) = names.first() else { return Cli::command() };
    let help = format!("Named settings to start from: {} [default: {default}]", names.join(", "));
    Cli::command().mut_subcommand("train", |train| train.mut_arg("preset", |preset| preset.help(help)))
}

/// Sends what the libraries log to standard error, past a progress line that may stand there.
fn log(cli: &Cli, environment: &Environment) {
    // What `plugins` lists as refused needs no warning besides.
    let listed = matches!(cli.command, Some(Command::Plugins(_)));
    let default = match cli.global.verbose {
        0 if listed => "warn,waycairn_analysis_host=error",
        0 => "warn",
        1 => "warn,waycairn=info",
        _ => "warn,waycairn=debug",
    };
    let filter = environment.log.as_deref().unwrap_or(default);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(progress::LogWriter::new)
        .with_ansi(false)
        .with_target(cli.global.verbose > 1)
        .without_time()
        .finish();
    // A second call in one process, as in a test, keeps the first subscriber.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// Whether an error is to be one JSON object. Looked up by hand, since an error in the arguments themselves must
/// have the right form too.
fn wants_json(arguments: &[OsString]) -> bool {
    let json = |value: &str| value == "json" || value == "jsonl";
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let words = words.split(|word| *word == "--").next().unwrap_or_default();
    let joined = words.iter().any(|word| word.strip_prefix("--format=").is_some_and(json));
    joined || words.windows(2).any(|pair| pair[0] == "--format" && json(pair[1]))
}

/// Whether the causes of an error are to be listed, looked up by hand for the same reason.
fn wants_chain(arguments: &[OsString]) -> bool {
    let words = arguments.iter().filter_map(|argument| argument.to_str());
    words.take_while(|word| *word != "--").any(|word| {
        word == "--verbose"
            || word.strip_prefix('-').is_some_and(|v| !v.is_empty() && v.chars().all(|c| c == 'v'))
    })
}

/// An error in the arguments in our form: clap says what, and a hint of its own, the values that are possible or the
/// usage say why.
fn usage(error: &clap::Error, arguments: &[OsString]) -> CliError {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut blocks = text.split("\n\n");
    let first = blocks.next().unwrap_or_default();
    let (mut what, mut why) = (one_line(first), None);
    let split = match error.kind() {
        ErrorKind::ValueValidation => first.split_once("': ").map(|(what, why)| (format!("{what}'"), why)),
        ErrorKind::InvalidValue => first.split_once('\n').map(|(what, why)| (what.to_owned(), why)),
        _ => None,
    };
    if let Some((first, second)) = split {
        what = one_line(&first);
        why = Some(one_line(second.trim().trim_start_matches('[').trim_end_matches(']')));
    }
    for block in blocks.map(str::trim) {
        if let Some(tip) = block.strip_prefix("tip: ") {
            why = Some(one_line(tip));
        } else if let Some(usage) = block.strip_prefix("Usage: ") {
            why.get_or_insert_with(|| format!("the usage is `{}`", one_line(usage)));
        }
    }
    let known = Cli::command();
    let command = arguments.iter().skip(1).find_map(|argument| known.find_subcommand(argument));
    let command = command.map_or(String::new(), |command| format!(" {}", command.get_name()));
    let mut usage = CliError::usage(what).next(format!("see `waycairn{command} --help`"));
    usage.why = why.map(Into::into);
    usage
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_help_names_the_presets() {
        let mut command = command(&waycairn_train::experiments![waycairn_train::Gpt]);
        let help = command.find_subcommand_mut("train").unwrap().render_help().to_string();
        assert!(help.contains("tiny, nanogpt-cpu, baby-gpt [default: tiny]"), "{help}");
    }

    fn arguments(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_form_of_errors_is_known_before_the_arguments_are() {
        assert!(wants_json(&arguments("waycairn nodes --format json --wrong")));
        assert!(wants_json(&arguments("waycairn nodes --format=json")));
        assert!(!wants_json(&arguments("waycairn nodes --format csv")));
        assert!(!wants_json(&arguments("waycairn query -- --format json")));
        assert!(wants_chain(&arguments("waycairn nodes -vv")));
        assert!(!wants_chain(&arguments("waycairn nodes -V")));
    }

    #[cfg(unix)]
    #[test]
    fn an_argument_that_is_no_text_is_refused_whole() {
        use std::os::unix::ffi::OsStringExt as _;
        let mut words = arguments("waycairn train --text");
        words.push(OsString::from_vec(b"caf\xe9.txt".to_vec()));
        let environment = Environment::default();
        let known = waycairn_train::experiments![waycairn_train::Gpt];
        let error = run(&words, environment, Terminal::plain(), known).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.what.contains("caf\\xE9.txt"), "{}", error.what);
    }

    #[test]
    fn wrong_arguments_have_three_lines() {
        let of = |line: &str| {
            let arguments = arguments(line);
            let error = usage(&Cli::try_parse_from(&arguments).unwrap_err(), &arguments);
            assert_eq!(error.exit, Exit::Usage);
            let text = |part: Option<Box<str>>| part.map(String::from).unwrap_or_default();
            (error.what, text(error.why), text(error.next))
        };
        for (line, what, why, next) in [
            (
                "waycairn nodes --formt json",
                "unexpected argument '--formt' found",
                "a similar argument exists: '--format'",
                "see `waycairn nodes --help`",
            ),
            (
                "waycairn show",
                "the following required arguments were not provided: <NODE>",
                "the usage is `waycairn show <NODE>`",
                "see `waycairn show --help`",
            ),
            (
                "waycairn query --limit x",
                "invalid value 'x' for '--limit <N>'",
                "give a whole number of at least 0, such as 200",
                "see `waycairn query --help`",
            ),
            (
                "waycairn query --offset -1",
                "invalid value '-1' for '--offset <N>'",
                "give a whole number of at least 0, such as 200",
                "see `waycairn query --help`",
            ),
            (
                "waycairn analyze --every 0",
                "invalid value '0' for '--every <K>'",
                "it must be at least 1",
                "see `waycairn analyze --help`",
            ),
            (
                "waycairn completions tcl",
                "invalid value 'tcl' for '<SHELL>'",
                "possible values: bash, elvish, fish, powershell, zsh",
                "see `waycairn completions --help`",
            ),
        ] {
            assert_eq!(of(line), (what.to_owned(), why.to_owned(), next.to_owned()), "{line}");
        }
    }
}
