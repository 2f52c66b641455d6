//! `chat MODEL`: a conversation on the terminal.

use crate::arguments::cache::{CacheArguments, OpenCache};
use crate::arguments::constraint::{ConstraintArguments, constraint};
use crate::arguments::display::DisplayArguments;
use crate::arguments::draft::{DraftArguments, DraftOpening};
use crate::arguments::hooks::HookArguments;
use crate::arguments::metrics::MetricsArgument;
use crate::arguments::model::ModelArguments;
use crate::arguments::observe::ObserveArguments;
use crate::arguments::sampling::SamplingArguments;
use crate::arguments::stages::StageArguments;
use crate::arguments::state::StateArgument;
use crate::arguments::template::{TemplateArguments, advice};
use crate::chat::answer;
use crate::chat::conversation::{ChatConversation, ConversationArguments};
use crate::chat::lines::{ChatInput, ChatLines};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::interrupt;
use crate::screen::report;
use clap::Args;
use menagerie::engine::{Constraint, DraftSource};
use menagerie::registry::Environment;
use std::io::IsTerminal;
use std::sync::Arc;

/// Chat with a model that has a chat template
///
/// /help lists the commands: /regen, /reset, /system, /set, /show, /save, /load, /exit. Put a message of several lines
/// between """ and """, or end each line except the last with \. A message that begins with a space is never a command.
/// With --tools, a call of a tool is printed, and the next message is its result. Ctrl-C stops an answer and keeps the
/// conversation. When the context is full, the oldest turns after the system message are dropped, with a note. The input
/// history is saved in menagerie/history in the state folder ($XDG_STATE_HOME or ~/.local/state). With --state the conversation is saved after each answer and continued the next time, even if the
/// terminal was closed.
#[derive(Args)]
pub(crate) struct ChatCommand {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    #[command(flatten)]
    pub(crate) stages: StageArguments,
    #[command(flatten)]
    pub(crate) state: StateArgument,
    #[command(flatten)]
    pub(crate) cache: CacheArguments,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgument,
    #[command(flatten)]
    pub(crate) hooks: HookArguments,
    #[command(flatten)]
    pub(crate) observe: ObserveArguments,
    /// System message
    #[arg(long, value_name = "TEXT", help_heading = "Chat")]
    pub(crate) system: Option<String>,
    #[command(flatten)]
    pub(crate) template: TemplateArguments,
    /// Print statistics after each answer
    #[arg(short = 'v', long, help_heading = "Display")]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) display: DisplayArguments,
    #[command(flatten)]
    pub(crate) constraint: ConstraintArguments,
    #[command(flatten)]
    pub(crate) draft: DraftArguments,
    #[command(flatten)]
    pub(crate) sampling: SamplingArguments,
}

impl Runnable for ChatCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
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
        if answer::chat_format(&pipeline, &self.template)?.is_none() {
            return Err(Failure::about(
                &self.model.model,
                "the model has no chat template, which `chat` requires",
            )
            .with_help(&format!("{}; or continue plain text with `menagerie run --raw`", advice())));
        }
        let constraint = constraint(source.as_ref(), &pipeline)?;
        let draft =
            self.draft.source(&pipeline, &DraftOpening { model: &self.model, queue: None, installed })?;
        let arguments = self.conversation(installed, constraint.as_ref(), draft.as_ref());
        let mut conversation = ChatConversation::begin(&pipeline, arguments)?;
        let mut lines = ChatLines::of_process(!self.display.no_history)?;
        if std::io::stdin().is_terminal() {
            let (name, context) = (pipeline.name(), pipeline.context());
            report::line(&format!("{name}; context {context} tokens; /help lists commands"));
        }
        let _kept = interrupt::conversation()?;
        let ended = talk(&mut conversation, &mut lines, &cache);
        cache.finish();
        let seen = observing.finish(&pipeline, [conversation.tokens(), &[]]);
        Failure::of_all([ended, conversation.keep(), metrics.write(), seen])
    }

    fn staged_model(&self) -> Option<&ModelArguments> {
        Some(&self.model)
    }
}

impl ChatCommand {
    fn conversation<'a>(
        &'a self,
        installed: &'a Environment,
        constraint: Option<&'a Arc<dyn Constraint>>,
        draft: Option<&'a Arc<dyn DraftSource>>,
    ) -> ConversationArguments<'a> {
        ConversationArguments {
            state: &self.state,
            system: self.system.as_deref(),
            template: &self.template,
            sampling: &self.sampling,
            constraint,
            draft,
            display: self.display,
            verbose: self.verbose,
            installed,
        }
    }
}

/// Handles messages and commands until the user leaves.
fn talk(
    conversation: &mut ChatConversation,
    lines: &mut ChatLines,
    cache: &OpenCache,
) -> Result<(), Failure> {
    let mut interrupted = false;
    loop {
        let line = match lines.next()? {
            ChatInput::End => return Ok(()),
            ChatInput::Interrupted if interrupted => {
                report::note("/exit or Ctrl-D leaves");
                continue;
            }
            ChatInput::Interrupted => {
                interrupted = true;
                continue;
            }
            ChatInput::Text(line) => line,
        };
        interrupted = false;
        match conversation.line(&line) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(Failure::Usage(message) | Failure::Failed(message)) => report::error(&message),
            Err(failure) => return Err(failure),
        }
        cache.note_fault();
        if interrupt::is_ending() {
            return Err(Failure::Interrupted);
        }
    }
}
