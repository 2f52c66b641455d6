//! The `menagerie` command line: one file per command under `commands/`.
//!
//! A program of your own with plugins linked in is three lines: every `menagerie_plugin::export!` crate that it names is
//! there like a plugin that was loaded.
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

mod adapter_argument;
mod adapter_listing;
mod against;
mod answer;
mod answer_stream;
mod arguments;
mod batch_body;
mod batch_identity;
mod batch_input;
mod batch_models;
mod batch_output;
mod batch_request;
mod batch_result;
mod batch_retry;
mod batch_tally;
mod batch_vectors;
mod batch_work;
mod block_outline;
mod block_svg;
mod candidates;
mod capture_argument;
mod checksum;
mod commands;
mod comparison;
mod config_file;
mod conversation;
mod delimited;
mod echo;
mod escape;
mod failure;
mod fitted_table;
mod folder_plan;
mod gate_data;
mod hook_arguments;
mod inspected;
mod inspected_folder;
mod inspected_gguf;
mod interrupt;
mod key_setting;
mod layer_range;
mod layer_values;
mod lines;
mod message;
mod metrics_argument;
mod metrics_file;
mod model_arguments;
mod model_file;
mod model_meant;
#[cfg(feature = "hub")]
mod model_names;
mod model_summary;
mod name_or_path;
mod observe_arguments;
mod open_line;
mod option_defaults;
mod output;
mod output_file;
mod plugin_arguments;
mod plugin_parts;
mod pooling_argument;
mod printer;
mod profile;
mod progress;
mod prompt;
mod recipe_listing;
mod reference_file;
mod report;
mod sampling_arguments;
mod scored_text;
mod spec_reference;
mod stage_arguments;
mod state_argument;
mod style;
mod template_arguments;
mod template_fault;
mod tiny_run;
mod truncation_argument;
mod variables;
mod version;
mod word_wrap;

// Without this line no architecture is linked in.
use menagerie_all as _;

use arguments::{Arguments, Command};
use failure::Failure;
use std::process::ExitCode;

/// Runs the command line of this process: its arguments, environment and streams; gives its exit code.
pub fn main() -> ExitCode {
    // A shell asks what may follow on a line.
    match candidates::answer_shell() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(failure) => return end(Err(failure)),
    }
    let arguments = match arguments::parse() {
        Ok(Some(arguments)) => arguments,
        other => return end(other.map(drop)),
    };
    log(arguments.command.tries_plugins());
    // Without it a model file that shrinks while it is mapped would end the process without a word.
    if let Err(error) = menagerie::gguf::install_fault_guard() {
        report::note(&error.to_string());
    }
    let result = run(arguments);
    let stopped = result.is_err();
    let code = end(result);
    if stopped {
        // What had to be kept is kept: whoever sent a signal sees that the process ended for it.
        interrupt::end_by_signal();
    }
    code
}

/// Says what went wrong; the exit code.
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

/// `RUST_LOG`: a level, or `target=level` separated by commas; only errors without it, and those of plugins only where the
/// command does not try them out and say itself what came of it.
fn log(tries_plugins: bool) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let targets = wanted.parse().unwrap_or_else(|error| {
        report::note(&format!("RUST_LOG: {error}; it is a level, or target=level separated by commas"));
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
        .with_writer(|| escape::EscapedLog)
        // What is asked for is said when it ends, with the time in it.
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::CLOSE)
        .with_ansi(false)
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines).with(targets).init();
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { command, plugins, color: _ } = arguments;
    if command.uses_plugins() {
        plugins.load_noting()?;
    }
    if let Some(start) = stage_arguments::stage_of_process()? {
        return command.serve_stage(&start);
    }
    match command {
        Command::Plugin(command) => command.run(&plugins),
        Command::List(command) => command.run(),
        Command::Show(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Spec(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Batch(command) => command.run(),
        Command::Tokenize(command) => command.run(),
        Command::Render(command) => command.run(),
        Command::Logits(command) => command.run(),
        Command::Merge(command) => command.run(),
        Command::Embed(command) => command.run(),
        Command::Rerank(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Perplexity(command) => command.run(),
        Command::Compare(command) => command.run(),
        Command::Quantize(command) => command.run(),
        Command::Imatrix(command) => command.run(),
        Command::TrainGate(command) => command.run(),
        Command::ControlVector(command) => command.run(),
        Command::Convert(command) => command.run(),
        Command::Synth(command) => command.run(),
        #[cfg(feature = "hub")]
        Command::Pull(command) => command.run(),
        #[cfg(feature = "hub")]
        Command::Models(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Guide(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::Version => output::line(&format!("menagerie {}", version::long())),
    }
}
