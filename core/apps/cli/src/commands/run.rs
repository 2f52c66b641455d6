//! `run MODEL [PROMPT]`: streams the answer to one prompt.

use crate::arguments::cache::{CacheArguments, OpenCache};
use crate::arguments::constraint::{ConstraintArguments, constraint};
use crate::arguments::display::DisplayArguments;
use crate::arguments::draft::{DraftArguments, DraftOpening};
use crate::arguments::hooks::HookArguments;
use crate::arguments::metrics::MetricsArgument;
use crate::arguments::model::ModelArguments;
use crate::arguments::observe::{ObserveArguments, Observers};
use crate::arguments::sampling::{SamplingArguments, sampling_line};
use crate::arguments::stages::StageArguments;
use crate::arguments::state::{StateArgument, keep, take_up};
use crate::arguments::template::TemplateArguments;
use crate::arguments::tool_choice::{ToolChoiceArgument, call_constraint};
use crate::chat::answer;
use crate::chat::printer::{AnswerStreams, Printer};
use crate::commands::chat::ChatCommand;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::echo::EchoOff;
use crate::screen::report;
use crate::{interrupt, output, prompt};
use clap::Args;
use menagerie::engine::{
    Constraint, DraftSource, Event, Outcome, Request, Session, StateFile, StateFileError, StopReason,
    TextPipeline,
};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use menagerie_openai::AnswerToken;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Answer one prompt; without a prompt on a terminal, start a chat
///
/// The prompt is rendered with the model's chat template if it has one; --raw continues it as plain text. Special tokens in
/// the prompt are text, never control tokens. If text is piped in too, it is placed before the prompt, separated by an empty
/// line. One trailing newline and a byte order mark are stripped from files and standard input. Ctrl-C stops the generation
/// (exit code 130).
#[derive(Args)]
pub(crate) struct RunCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    stages: StageArguments,
    #[command(flatten)]
    hooks: HookArguments,
    /// The prompt; - for standard input only [default: standard input, or a chat on a terminal]
    prompt: Option<String>,
    /// Read the prompt from a file; - for standard input
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// Continue the prompt as text, without the chat template
    #[arg(long)]
    raw: bool,
    /// Print one JSON object with text, tokens, stop reason and statistics
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    observe: ObserveArguments,
    #[command(flatten)]
    state: StateArgument,
    #[command(flatten)]
    cache: CacheArguments,
    #[command(flatten)]
    metrics: MetricsArgument,
    /// System message
    #[arg(long, value_name = "TEXT", conflicts_with = "raw", help_heading = "Chat")]
    system: Option<String>,
    #[command(flatten)]
    template: TemplateArguments,
    #[command(flatten)]
    tool_choice: ToolChoiceArgument,
    /// Print statistics, sampling options and the seed on standard error
    #[arg(short = 'v', long, help_heading = "Display")]
    verbose: bool,
    #[command(flatten)]
    display: DisplayArguments,
    #[command(flatten)]
    constraint: ConstraintArguments,
    #[command(flatten)]
    draft: DraftArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
}

impl Runnable for RunCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let Some(prompt) = prompt::of_process(self.prompt.as_deref(), self.file.as_deref())? else {
            return self.talk(context);
        };
        if prompt.is_empty() {
            return Err(Failure::Usage("the prompt is empty".to_owned())
                .with_help("give it as an argument, with -f FILE or on standard input"));
        }
        let arguments = self.model.staged(&self.stages, installed)?;
        let opening = arguments.opening(installed)?.with_draft(&self.draft);
        let model = opening.path();
        self.observe.check(model)?;
        self.metrics.check()?;
        self.hooks.check(installed).and_then(|()| self.sampling.check(installed))?;
        let source = self.constraint.source()?;
        let mut pipeline = opening.clone().with_template(&self.template)?.open_text()?;
        self.hooks.install(&mut pipeline, installed)?;
        let observing = self.observe.begin(model, &mut pipeline)?;
        let metrics = self.metrics.watch(&mut pipeline)?;
        let cache = self.cache.install(&mut pipeline, installed)?;
        let constraint = constraint(source.as_ref(), &pipeline)?;
        let draft =
            self.draft.source(&pipeline, &DraftOpening { model: &self.model, queue: None, installed })?;
        let asked = RunQuestion { text: &prompt, constraint, draft };
        let answered = self.answer(&pipeline, asked, observing, installed);
        self.say_cached(&cache);
        Failure::of_all([answered, metrics.write()])
    }

    fn staged_model(&self) -> Option<&ModelArguments> {
        Some(&self.model)
    }
}

impl RunCommand {
    fn answer(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        asked: RunQuestion,
        observing: Observers,
        installed: &Environment,
    ) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let _orderly = interrupt::orderly()?;
        let request = self.sampling.request(pipeline.sampling_defaults(), installed, Arc::clone(&cancel))?;
        // `--raw` with a system message from the configuration file: there is no template for the message.
        let system = self.system.as_deref().filter(|_| !self.raw);
        let mut options = self.template.render_options()?;
        let choice = self.tool_choice.apply(&mut options)?;
        let prompt = answer::RunPrompt { text: asked.text, raw: self.raw, system, options };
        let prompt = answer::prompt(pipeline, prompt, &self.template)?;
        let constraint = match (asked.constraint, &prompt) {
            (None, answer::EncodedPrompt::Chat(prompt)) => {
                call_constraint(choice.as_ref(), pipeline, &prompt.syntax, request.ignore_eos)?
            }
            (constraint, _) => constraint,
        };
        let request = request.with_constraint(constraint).with_draft(asked.draft);
        let mut session = pipeline.session()?;
        let state = self.state.open(pipeline, installed)?;
        let resumed = state.as_ref().map_or(Ok(0), |file| resume(file, &mut session))?;
        let asked = SessionRequest { session: &mut session, prompt: &prompt, request: &request };
        let (outcome, shown) = match self.json {
            true => self.as_json(pipeline, asked)?,
            false => self.streamed(pipeline, asked, cancel)?,
        };
        let kept = state.as_ref().map_or(Ok(()), |file| {
            let bytes = keep(file, |file| file.save(&mut session, None))?;
            self.say_kept(file, bytes, resumed, &outcome);
            Ok(())
        });
        let observed = observing.finish(pipeline, [prompt.tokens(), &outcome.tokens]);
        Failure::of_all([kept, observed, shown])?;
        if self.verbose {
            let (statistics, seed) = (&outcome.statistics, outcome.seed);
            let (sampling, reason) = (sampling_line(&request.sampling), &outcome.reason);
            report::line(&format!("{statistics}; {sampling}; seed {seed}; {reason}"));
        }
        match outcome.reason {
            StopReason::Cancelled => Err(Failure::Interrupted),
            _ => Ok(()),
        }
    }

    fn streamed(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        asked: SessionRequest,
        cancel: Arc<AtomicBool>,
    ) -> Result<(Outcome, Result<(), Failure>), Failure> {
        let _quiet = EchoOff::begin();
        let (mut out, mut remarks) = (std::io::stdout(), std::io::stderr());
        let streams = AnswerStreams::of_process(&mut out, &mut remarks);
        let limit_noted = streams.watched;
        let mut printer = Printer::new(streams, self.display, cancel);
        let outcome = asked.generate(|event| printer.event(event))?;
        let shown = printer.finish(&outcome, pipeline.context(), limit_noted);
        Ok((outcome, shown))
    }

    fn as_json(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        asked: SessionRequest,
    ) -> Result<(Outcome, Result<(), Failure>), Failure> {
        let mut tokens = Vec::new();
        let outcome = asked.generate(|event| match event {
            Event::Token { id, piece, bytes, logprob, top } => {
                tokens.push(AnswerToken { id, piece, bytes, logprob, top }.json());
            }
            Event::Notice(text) => report::note(&text),
            _ => {}
        })?;
        let shown = output::json(&self.report(pipeline, &outcome, tokens));
        Ok((outcome, shown))
    }

    /// Notes that most of the saved state could not be used, and with --verbose how much was used.
    fn say_kept(&self, file: &StateFile, bytes: u64, resumed: usize, outcome: &Outcome) {
        let path = file.path().display();
        let cached = outcome.statistics.cached_tokens;
        if (cached + 2) * 2 < resumed.min(outcome.statistics.prompt_tokens) {
            report::note(&format!(
                "only the first {cached} of the {resumed} tokens in {path} match the prompt; the rest was computed and replaces them"
            ));
        }
        if self.verbose {
            report::line(&format!(
                "state: {cached} of {resumed} tokens used; {} saved in {path}",
                output::bytes(bytes)
            ));
        }
    }

    /// Waits until the cache on disk is written, and says with --verbose what it did.
    fn say_cached(&self, cache: &OpenCache) {
        if let Some(counts) = cache.finish()
            && self.verbose
        {
            report::line(&OpenCache::line(&counts));
        }
    }

    fn report(&self, pipeline: &LoadedModel<TextPipeline>, outcome: &Outcome, tokens: Vec<Value>) -> Value {
        let statistics = &outcome.statistics;
        let stop = match &outcome.reason {
            StopReason::EndOfGeneration(id) => json!({ "reason": "end", "token": id }),
            StopReason::StopString(text) => json!({ "reason": "stop", "text": text }),
            StopReason::StopToken(id) => json!({ "reason": "stop-token", "token": id }),
            StopReason::Cancelled => json!({ "reason": "interrupted" }),
            other => json!({ "reason": other.name() }),
        };
        json!({
            "model": self.model.model,
            "architecture": pipeline.architecture(),
            "text": outcome.text,
            "reasoning": Some(&outcome.reasoning).filter(|reasoning| !reasoning.is_empty()),
            "tool_calls": outcome.tool_calls,
            "stop": stop,
            "seed": outcome.seed,
            "tokens": tokens,
            "context": pipeline.context(),
            "prompt_tokens": statistics.prompt_tokens,
            "cached_tokens": statistics.cached_tokens,
            "disk_tokens": statistics.disk_tokens,
            "generated_tokens": statistics.generated_tokens,
            "drafted_tokens": statistics.drafted_tokens,
            "accepted_tokens": statistics.accepted_tokens,
            "seconds": {
                "prompt": statistics.prefill.as_secs_f64(),
                "generation": statistics.decode.as_secs_f64(),
                "first_token": statistics.time_to_first_token.map(|time| time.as_secs_f64()),
                "constraint": statistics.constraint.map(|time| time.as_secs_f64()),
            },
        })
    }

    /// Starts a chat: there is no prompt, and standard input is a terminal.
    fn talk(self, context: &CommandContext) -> Result<(), Failure> {
        let others =
            [("--raw", self.raw), ("--json", self.json), ("--tool-choice", self.tool_choice.is_given())];
        if let Some((option, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::Usage(format!("the prompt is missing ({option} does not start a chat)"))
                .with_help("give it as an argument, with -f FILE or on standard input"));
        }
        ChatCommand {
            model: self.model,
            stages: self.stages,
            state: self.state,
            cache: self.cache,
            metrics: self.metrics,
            hooks: self.hooks,
            observe: self.observe,
            system: self.system,
            template: self.template,
            verbose: self.verbose,
            display: self.display,
            constraint: self.constraint,
            draft: self.draft,
            sampling: self.sampling,
        }
        .run(context)
    }
}

/// What is asked on the command line.
struct RunQuestion<'a> {
    text: &'a str,
    constraint: Option<Arc<dyn Constraint>>,
    draft: Option<Arc<dyn DraftSource>>,
}

/// A prompt and its options for a session.
struct SessionRequest<'a> {
    session: &'a mut Session,
    prompt: &'a answer::EncodedPrompt,
    request: &'a Request,
}

impl SessionRequest<'_> {
    fn generate(self, sink: impl FnMut(Event)) -> Result<Outcome, Failure> {
        Ok(self.session.generate(self.prompt, self.request, sink)?)
    }
}

/// Loads a state and returns its number of tokens.
///
/// # Errors
/// The state is a conversation, which `run` would overwrite.
fn resume(file: &StateFile, session: &mut Session) -> Result<usize, Failure> {
    let Some(resumed) = take_up(file, |file| file.load(session))? else { return Ok(0) };
    match resumed.conversation {
        Some(conversation) => {
            let (file, messages) = (file.path().display().to_string(), conversation.messages.len());
            Err(StateFileError::Conversation { file, messages }.into())
        }
        None => Ok(resumed.tokens),
    }
}
