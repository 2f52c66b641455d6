//! The `menagerie` command line.
//!
//! In reading order: `command_line/` parses what was typed, `commands/` has a file for each command, `arguments/` the
//! groups of arguments that commands share. Below them: `chat/` (prompts and answers), `batch/`, `inspect/`, `listing/`
//! and `reference/`; `output/` (standard output and files) and `screen/` (the terminal and standard error).
//!
//! Your own program with plugins linked in takes three lines: every crate with `menagerie_plugin::export!` that it names
//! is available like a loaded plugin.
//!
//! ```no_run
//! use menagerie_cli as _; // and `use acme_retnet as _;` for each plugin
//! fn main() -> std::process::ExitCode {
//!     menagerie_cli::main()
//! }
//! ```
// Comments of arguments are help texts first: `[T, V]` is a shape, not a link.
#![allow(rustdoc::broken_intra_doc_links)]
#![forbid(unsafe_code)]

mod arguments;
mod batch;
mod chat;
mod command_line;
mod commands;
mod config_file;
mod failure;
mod inspect;
mod interrupt;
mod listing;
mod output;
mod prompt;
mod reference;
mod screen;
mod version;

use arguments::stages::{VARIABLE, stage_of_process};
use command_line::Arguments;
use commands::{CommandContext, Runnable};
use failure::Failure;
use menagerie::registry::Environment;
use screen::report;
use std::process::ExitCode;

/// Runs the command line with the arguments, environment and streams of this process; returns the exit code.
pub fn main() -> ExitCode {
    // A completion request of a shell.
    match command_line::answer_shell() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(failure) => return end(Err(failure)),
    }
    let arguments = match command_line::parse() {
        Ok(Some(arguments)) => arguments,
        other => return end(other.map(drop)),
    };
    log(arguments.command.tries_plugins());
    // Without it a mapped model file that shrinks would kill the process without a message.
    if let Err(error) = menagerie::gguf::install_fault_guard() {
        report::note(&error.to_string());
    }
    let result = run(arguments);
    let stopped = result.is_err();
    let code = end(result);
    if stopped {
        // Everything that must be saved has been saved: the exit status now reports the signal.
        interrupt::end_by_signal();
    }
    code
}

/// Prints the error, if any, and returns the exit code.
fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Interrupted) => ExitCode::from(interrupt::INTERRUPTED),
        Err(Failure::Arguments(text)) => {
            report::write(&text);
            ExitCode::from(2)
        }
        Err(Failure::Usage(message)) => {
            report::error(&message);
            ExitCode::from(2)
        }
        Err(Failure::Failed(message) | Failure::Output(message)) => {
            report::error(&message);
            ExitCode::FAILURE
        }
    }
}

/// Sets up logging from `RUST_LOG` (a level, or `target=level` pairs separated by commas). Without it only errors are
/// logged, and errors of plugins only if the command does not report them itself.
fn log(tries_plugins: bool) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let targets = wanted.parse().unwrap_or_else(|error| {
        report::note(&format!(
            "RUST_LOG is ignored: {error}; expected a level, or target=level pairs separated by commas"
        ));
        Targets::new()
    });
    let targets = match (wanted.is_empty(), tries_plugins) {
        (true, false) => targets.with_default(LevelFilter::ERROR),
        (true, true) => {
            let quiet = ["plugin", "menagerie_plugin_host"].map(|target| (target, LevelFilter::OFF));
            targets.with_default(LevelFilter::ERROR).with_targets(quiet)
        }
        (false, _) => targets,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| report::LogWriter)
        // A span is logged when it closes, with the time spent in it.
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::CLOSE)
        .with_ansi(false)
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines).with(targets).init();
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { command, plugins, color: _ } = arguments;
    let environment = match command.uses_plugins() {
        true => plugins.install_noting()?,
        false => Environment::linked()?,
    };
    match stage_of_process()? {
        None => command.run(&CommandContext { plugins, environment, definition: command_line::definition }),
        // A process that another one started to serve a part of the model of the same command.
        Some(start) => match command.staged_model() {
            Some(model) => model.serve_stage(&start, &environment),
            None => {
                Err(Failure::Usage(format!("{VARIABLE} is set for a command that has no stages: unset it")))
            }
        },
    }
}
