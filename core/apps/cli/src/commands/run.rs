//! `run MODEL [PROMPT]`: one prompt, one answer, streamed.

use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::sampling_arguments::SamplingArguments;
use crate::{interrupt, output};
use clap::Args;
use menagerie::pipeline::{
    Autoregressive, ChatMessage, Event, Outcome, RenderOptions, Request, TextPipeline,
};
use std::io::{IsTerminal, Read};
use std::path::PathBuf;

/// Answer one prompt, streamed
///
/// The prompt is put into the model's chat template if it has one; --raw continues it as plain text. Special tokens
/// in the prompt are text, never control tokens. Ctrl-C stops the generation.
#[derive(Args)]
pub(crate) struct RunCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// The prompt [default: standard input]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// System message
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as it is, without the chat template
    #[arg(long)]
    raw: bool,
    /// Print statistics and the seed on standard error
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    sampling: SamplingArguments,
}

impl RunCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let prompt = self.read_prompt()?;
        let pipeline = self.model.open()?;
        let request = self.sampling.request(pipeline.sampling_defaults(), cancel)?;
        let outcome = self.answer(&pipeline, &prompt, &request)?;
        output::line("")?;
        if self.verbose {
            eprintln!("{}; seed {}; {}", outcome.statistics, outcome.seed, outcome.reason);
        }
        Ok(())
    }

    fn answer(&self, pipeline: &TextPipeline, prompt: &str, request: &Request) -> Result<Outcome, Failure> {
        let mut sink = Printer::default();
        let mut session = pipeline.session()?;
        let outcome = if self.raw || pipeline.chat_format().is_err() {
            if self.system.is_some() {
                let missing = "--system needs a chat template, and this model has none";
                return Err(Failure::Usage(missing.to_owned()));
            }
            let tokens = pipeline.tokenizer()?.encode_prompt(prompt)?;
            session.generate(&tokens, request, &mut |event| sink.event(event))?
        } else {
            let mut messages: Vec<ChatMessage> = self.system.iter().map(ChatMessage::system).collect();
            messages.push(ChatMessage::user(prompt));
            let prompt = pipeline.chat_format()?.render_prompt(&messages, &RenderOptions::default())?;
            session.generate_chat(&prompt, request, &mut |event| sink.event(event))?
        };
        sink.finish()?;
        Ok(outcome)
    }

    fn read_prompt(&self) -> Result<String, Failure> {
        if let Some(prompt) = &self.prompt {
            return Ok(prompt.clone());
        }
        if let Some(file) = &self.file {
            return std::fs::read_to_string(file).map_err(|error| Failure::about(file.display(), error));
        }
        let mut stdin = std::io::stdin();
        if stdin.is_terminal() {
            let missing = "a prompt is missing: give it as an argument, with -f FILE or on standard input";
            return Err(Failure::Usage(missing.to_owned()));
        }
        let mut text = String::new();
        stdin.read_to_string(&mut text).map_err(|error| Failure::about("standard input", error))?;
        Ok(text)
    }
}

/// Prints events as they come; reasoning is dim, notices and log probabilities go to standard error.
#[derive(Default)]
pub(crate) struct Printer {
    reasoning: bool,
    failed: Option<Failure>,
}

impl Printer {
    /// One event of a generation.
    pub(crate) fn event(&mut self, event: Event<'_>) {
        let written = match event {
            Event::Text(text) => self.separate(false).and_then(|()| output::write(text)),
            Event::Reasoning(text) => self.separate(true).and_then(|()| output::write(&output::dim(text))),
            Event::Notice(text) => {
                eprintln!("note: {text}");
                Ok(())
            }
            Event::Token { id, piece, logprob: Some(logprob), top } => {
                let alternative = |t: &menagerie::pipeline::TokenLogprob| serde_json::json!({ "id": t.id, "token": t.piece, "logprob": t.logprob });
                let top: Vec<_> = top.iter().map(alternative).collect();
                eprintln!(
                    "{}",
                    serde_json::json!({ "id": id, "token": piece, "logprob": logprob, "top": top })
                );
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(failure) = written {
            self.failed.get_or_insert(failure);
        }
    }

    /// An empty line between reasoning and answer.
    fn separate(&mut self, reasoning: bool) -> Result<(), Failure> {
        let changed = std::mem::replace(&mut self.reasoning, reasoning) != reasoning;
        match (changed, reasoning) {
            (true, true) => output::write(&output::dim("[reasoning]\n")),
            (true, false) => output::write(&output::dim("\n[answer]\n")),
            _ => Ok(()),
        }
    }

    /// The first failure to write, if any.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.failed.map_or(Ok(()), Err)
    }
}
