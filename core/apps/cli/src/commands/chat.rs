//! `chat MODEL`: a conversation on the terminal.

use crate::commands::run::Printer;
use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::sampling_arguments::SamplingArguments;
use crate::{interrupt, output};
use clap::Args;
use menagerie::pipeline::{Autoregressive, ChatSession, Pipeline, Request};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::{BufRead, IsTerminal};
use std::sync::atomic::Ordering;

const HELP: &str = "\
/reset        forget the conversation, keep the system message
/regen        answer the last message again
/save FILE    write the conversation as JSON
/system TEXT  set the system message and forget the conversation
/help         this list
/exit         leave (also Ctrl-D)";

/// Talk with a model that has a chat template
///
/// Commands: /reset /regen /save FILE /system TEXT /help /exit. Ctrl-C stops an answer. When the context is full, the oldest
/// turns after the system message are dropped, and a note says so. Reasoning is shown apart, dim.
#[derive(Args)]
pub(crate) struct ChatCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// System message
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Print statistics after each answer
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    sampling: SamplingArguments,
}

/// Where lines come from: an editor on a terminal, else plain standard input.
enum Lines {
    Editor(Box<DefaultEditor>),
    Plain(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Lines {
    fn open() -> Result<Self, Failure> {
        if std::io::stdin().is_terminal() {
            return Ok(Self::Editor(Box::new(DefaultEditor::new()?)));
        }
        Ok(Self::Plain(std::io::stdin().lock().lines()))
    }

    /// The next line; `None` at the end.
    fn next(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Self::Plain(lines) => {
                lines.next().transpose().map_err(|error| Failure::about("standard input", error))
            }
            Self::Editor(editor) => match editor.readline("> ") {
                Ok(line) => {
                    if !line.trim().is_empty() {
                        editor.add_history_entry(&line)?;
                    }
                    Ok(Some(line))
                }
                Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
                Err(ReadlineError::Eof) => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }
}

impl ChatCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let pipeline = self.model.open()?;
        let mut chat = pipeline.chat()?;
        if let Some(system) = &self.system {
            chat.set_system(system);
        }
        let request = self.sampling.request(pipeline.sampling_defaults(), cancel.clone())?;
        let mut lines = Lines::open()?;
        if std::io::stdin().is_terminal() {
            eprintln!("{}; context {} tokens; /help lists commands", pipeline.name(), pipeline.context());
        }
        while let Some(line) = lines.next()? {
            cancel.store(false, Ordering::SeqCst);
            match self.line(&mut chat, &request, line.trim()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
                Err(Failure::Usage(message) | Failure::Failed(message)) => eprintln!("error: {message}"),
            }
        }
        Ok(())
    }

    /// One line of the user; `false` to leave.
    fn line(&self, chat: &mut ChatSession, request: &Request, line: &str) -> Result<bool, Failure> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => {}
            "/exit" | "/quit" => return Ok(false),
            "/help" => output::line(HELP)?,
            "/reset" => chat.reset(),
            "/system" => {
                chat.reset();
                chat.set_system(rest.trim());
            }
            "/regen" => self.answer(chat, request, None)?,
            "/save" if rest.trim().is_empty() => {
                return Err(Failure::Usage("/save needs a file name".to_owned()));
            }
            "/save" => {
                let file = rest.trim();
                std::fs::write(file, chat.to_json()?).map_err(|error| Failure::about(file, error))?;
                eprintln!("saved {} messages to {file}", chat.messages().len());
            }
            _ if word.starts_with('/') => {
                return Err(Failure::Usage(format!("there is no command {word}; /help lists them")));
            }
            _ => self.answer(chat, request, Some(line))?,
        }
        Ok(true)
    }

    fn answer(
        &self,
        chat: &mut ChatSession,
        request: &Request,
        message: Option<&str>,
    ) -> Result<(), Failure> {
        let mut printer = Printer::default();
        let outcome = match message {
            Some(message) => chat.send(message, request, &mut |event| printer.event(event)),
            None => chat.regenerate(request, &mut |event| printer.event(event)),
        }?;
        printer.finish()?;
        output::line("")?;
        if self.verbose {
            eprintln!("{}; {}", outcome.statistics, outcome.reason);
        }
        Ok(())
    }
}
