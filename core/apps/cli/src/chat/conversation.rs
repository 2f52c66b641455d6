//! [`ChatConversation`]: the messages and commands of `chat`.

use crate::arguments::display::{DisplayArguments, Reasoning};
use crate::arguments::sampling::{SamplingArguments, sampling_line};
use crate::arguments::state::{StateArgument, keep, take_up};
use crate::arguments::template::{TemplateArguments, note_without_effect};
use crate::arguments::tool_choice::call_constraint;
use crate::chat::printer::{AnswerStreams, Printer};
use crate::chat::slash_commands::COMMANDS;
use crate::failure::Failure;
use crate::output::output_file::OutputFile;
use crate::screen::echo::EchoOff;
use crate::screen::report;
use crate::{interrupt, output, prompt};
use clap::ValueEnum;
use menagerie::engine::{
    ChatMessage, ChatSession, Constraint, DraftSource, Request, StateFile, StopReason, TextPipeline, ToolCall,
};
use menagerie::loaders::CallSupportError;
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use menagerie_entries::{nearest, nearest_clause};
use menagerie_openai::CallChoice;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The arguments of a conversation.
#[derive(Clone, Copy)]
pub(crate) struct ConversationArguments<'a> {
    pub(crate) state: &'a StateArgument,
    pub(crate) system: Option<&'a str>,
    pub(crate) template: &'a TemplateArguments,
    pub(crate) sampling: &'a SamplingArguments,
    /// What every answer must fit.
    pub(crate) constraint: Option<&'a Arc<dyn Constraint>>,
    pub(crate) draft: Option<&'a Arc<dyn DraftSource>>,
    pub(crate) display: DisplayArguments,
    /// Whether statistics are printed after each answer.
    pub(crate) verbose: bool,
    /// What samplers are looked up in.
    pub(crate) installed: &'a Environment,
}

/// A conversation with its options.
pub(crate) struct ChatConversation<'a> {
    pipeline: &'a LoadedModel<TextPipeline>,
    installed: &'a Environment,
    chat: ChatSession,
    sampling: SamplingArguments,
    display: DisplayArguments,
    request: Request,
    cancel: Arc<AtomicBool>,
    verbose: bool,
    /// The file in which it is saved.
    state: Option<StateFile>,
    /// Size of the saved state in bytes; `None` if the conversation has changed since.
    kept: Option<u64>,
    /// Results of the calls in the last answer, as far as they are typed.
    results: Vec<ChatMessage>,
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConversationTurn<'m> {
    /// A message of the user.
    Message(&'m str),
    /// The results of all calls in the last answer.
    Results,
    /// The last message again.
    Again,
}

impl<'a> ChatConversation<'a> {
    /// Starts an empty conversation, or continues that of the state file.
    pub(crate) fn begin(
        pipeline: &'a LoadedModel<TextPipeline>,
        arguments: ConversationArguments<'a>,
    ) -> Result<Self, Failure> {
        let cancel = interrupt::flag()?;
        let installed = arguments.installed;
        let mut chat = pipeline.chat()?;
        let options = arguments.template.render_options()?;
        let mut calls = None;
        if let Ok(format) = pipeline.chat_format() {
            let probe = [ChatMessage::user("?")];
            note_without_effect(&options, &|options| Some(format.render_prompt(&probe, options).ok()?.text));
            match format.render_prompt(&probe, &options) {
                Err(error) if error.0.is::<CallSupportError>() => return Err(error.into()),
                rendered => calls = rendered.ok().map(|prompt| prompt.syntax),
            }
        }
        let tools = options.tools.as_deref().filter(|tools| !tools.is_empty());
        let choice = tools.map(CallChoice::auto);
        chat.options_mut().render = options;
        let state = arguments.state.open(pipeline, installed)?;
        if let Some(file) = &state {
            resume(&mut chat, file)?;
        }
        if let Some(system) = arguments.system {
            chat.set_system(system);
        }
        let request =
            arguments.sampling.request(pipeline.sampling_defaults(), installed, Arc::clone(&cancel))?;
        let constraint = match (arguments.constraint, calls) {
            (None, Some(syntax)) => call_constraint(choice.as_ref(), pipeline, &syntax, request.ignore_eos)?,
            (constraint, _) => constraint.cloned(),
        };
        let request = request.with_constraint(constraint).with_draft(arguments.draft.cloned());
        let conversation = Self {
            pipeline,
            installed,
            chat,
            sampling: arguments.sampling.clone(),
            display: arguments.display,
            request,
            cancel,
            verbose: arguments.verbose,
            state,
            kept: None,
            results: Vec::new(),
        };
        conversation.ask_for_result();
        Ok(conversation)
    }

    /// Saves the conversation, if there is a state file, and prints a note.
    pub(crate) fn keep(&mut self) -> Result<(), Failure> {
        self.keep_changes()?;
        let (Some(file), Some(bytes)) = (&self.state, self.kept) else { return Ok(()) };
        let messages = output::counted(self.chat.messages().len(), "message");
        report::note(&format!("saved {messages} in {} ({})", file.path().display(), output::bytes(bytes)));
        Ok(())
    }

    /// Saves the changes. The file is complete at all times: if the process is killed, at most one answer is lost.
    fn keep_changes(&mut self) -> Result<(), Failure> {
        if let (Some(file), None) = (&self.state, self.kept) {
            self.kept = Some(keep(file, |file| self.chat.keep(file))?);
        }
        Ok(())
    }

    /// Saves the conversation after a change.
    fn changed(&mut self) -> Result<(), Failure> {
        self.kept = None;
        self.keep_changes()
    }

    /// The tokens of the conversation that are in the cache.
    pub(crate) fn tokens(&self) -> &[u32] {
        self.chat.session().sequence().tokens()
    }

    /// Handles one message or command; returns `false` to leave.
    pub(crate) fn line(&mut self, line: &str) -> Result<bool, Failure> {
        self.cancel.store(false, Ordering::SeqCst);
        // Ctrl-C applies to the last answer only; SIGHUP and SIGTERM still apply.
        if interrupt::is_ending() {
            return Err(Failure::Interrupted);
        }
        if !line.starts_with('/') {
            let message = line.trim();
            return if message.is_empty() { Ok(true) } else { self.message(message).map(|()| true) };
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "/exit" | "/quit" | "/bye" => return Ok(false),
            "/help" | "/?" => output::write(&help())?,
            "/reset" | "/clear" => self.reset()?,
            "/system" => self.system(rest)?,
            "/regen" => self.answer(ConversationTurn::Again)?,
            "/set" => self.set(rest)?,
            "/show" => output::write(&self.show())?,
            "/save" => self.save(rest, false)?,
            "/save!" => self.save(rest, true)?,
            "/load" => self.load(rest)?,
            _ => return Err(unknown(word)),
        }
        Ok(true)
    }

    /// A message of the user, or the result of a call that waits for it.
    fn message(&mut self, message: &str) -> Result<(), Failure> {
        let Some(call) = self.waiting_call().cloned() else {
            return self.answer(ConversationTurn::Message(message));
        };
        self.results.push(ChatMessage::tool_result(&call, message));
        match self.waiting_call() {
            Some(_) => {
                self.ask_for_result();
                Ok(())
            }
            None => self.answer(ConversationTurn::Results),
        }
    }

    /// The first call of the last answer that has no result.
    fn waiting_call(&self) -> Option<&ToolCall> {
        self.chat.messages().last()?.tool_calls.get(self.results.len())
    }

    /// Asks for the result of the next call, if there is one.
    fn ask_for_result(&self) {
        let Some(call) = self.waiting_call() else { return };
        let calls = self.chat.messages().last().map_or(0, |message| message.tool_calls.len());
        let place =
            if calls > 1 { format!(" (call {} of {calls})", self.results.len() + 1) } else { String::new() };
        report::note(&format!("the next message is the result of {}{place}", call.name));
    }

    fn answer(&mut self, turn: ConversationTurn<'_>) -> Result<(), Failure> {
        let results = std::mem::take(&mut self.results);
        let _quiet = EchoOff::begin();
        let (mut out, mut remarks) = (std::io::stdout(), std::io::stderr());
        let streams = AnswerStreams::of_process(&mut out, &mut remarks);
        let mut printer = Printer::new(streams, self.display, Arc::clone(&self.cancel));
        let mut sink = |event: menagerie::engine::Event| printer.event(event);
        let outcome = match turn {
            ConversationTurn::Message(message) => self.chat.send(message, &self.request, &mut sink),
            ConversationTurn::Results => self.chat.send_messages(results, &self.request, &mut sink),
            ConversationTurn::Again => self.chat.regenerate(&self.request, &mut sink),
        }?;
        // Save first: the terminal may be gone.
        let kept = self.changed();
        let shown = printer.finish(&outcome, self.pipeline.context(), true);
        Failure::of_all([shown, kept])?;
        if outcome.reason == StopReason::Cancelled {
            let texts = outcome.text.is_empty() && outcome.reasoning.is_empty();
            report::note(match (texts && outcome.tool_calls.is_empty(), turn) {
                (true, ConversationTurn::Again) => {
                    "stopped before the answer started; the old answer is kept"
                }
                (true, ConversationTurn::Message(_)) => {
                    "stopped before the answer started; the message is not part of the conversation"
                }
                (true, ConversationTurn::Results) => {
                    "stopped before the answer started; the results are not part of the conversation"
                }
                (false, _) => "stopped; the partial answer stays in the conversation",
            });
        }
        if self.verbose {
            report::line(&format!("{}; seed {}; {}", outcome.statistics, outcome.seed, outcome.reason));
        }
        self.ask_for_result();
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Failure> {
        let messages = self.chat.messages().iter().filter(|message| message.role != "system").count();
        self.chat.reset();
        self.results.clear();
        report::note(&format!("{} forgotten", output::counted(messages, "message")));
        self.changed()
    }

    fn system(&mut self, text: &str) -> Result<(), Failure> {
        let set = |chat: &mut ChatSession, text: &str, done: &str| {
            chat.set_system(text);
            let others = chat.messages().iter().filter(|message| message.role != "system").count();
            let continues = if others > 0 { "; the conversation continues (/reset clears it)" } else { "" };
            report::note(&format!("system message {done}{continues}"));
        };
        match text {
            "" => {
                match self.system_message() {
                    Some(system) => report::line(system),
                    None => report::note("no system message is set; /system TEXT sets one"),
                }
                return Ok(());
            }
            "-" => set(&mut self.chat, "", "removed"),
            text => set(&mut self.chat, text, "set"),
        }
        self.changed()
    }

    fn system_message(&self) -> Option<&str> {
        let first = self.chat.messages().first().filter(|message| message.role == "system");
        first.map(|message| message.content.as_str())
    }

    /// Changes one option, or prints all.
    fn set(&mut self, rest: &str) -> Result<(), Failure> {
        if rest.is_empty() {
            return output::write(&self.options());
        }
        let (name, value) = rest.split_once([' ', '=']).unwrap_or((rest, ""));
        let (name, value) = (name.trim_start_matches('-'), value.trim());
        if value.is_empty() {
            return Err(Failure::Usage(format!("/set {name} requires a value"))
                .with_help("/set without arguments lists the options"));
        }
        if name == "reasoning" {
            self.display.reasoning = Reasoning::from_str(value, true)
                .map_err(|_| Failure::Usage(format!("`{value}` is not stderr, stdout or hide")))?;
        } else {
            let mut changed = self.sampling.clone();
            changed.set(name, value).map_err(|reason| {
                let names = [SamplingArguments::names(), vec!["reasoning".to_owned()]].concat();
                Failure::Usage(reason).with_help(&format!("the options of /set are {}", names.join(", ")))
            })?;
            let defaults = self.pipeline.sampling_defaults();
            let (constraint, draft) = (self.request.constraint.clone(), self.request.draft.clone());
            self.request = changed
                .request(defaults, self.installed, Arc::clone(&self.cancel))?
                .with_constraint(constraint)
                .with_draft(draft);
            self.sampling = changed;
        }
        report::note(&format!("{name} is {value}"));
        Ok(())
    }

    fn options(&self) -> String {
        let limit = self.request.max_tokens.map_or("-1 (no limit)".to_owned(), |count| count.to_string());
        let seed = self
            .request
            .sampling
            .seed
            .map_or("-1 (a new seed each time)".to_owned(), |seed| seed.to_string());
        let reasoning = format!("{:?}", self.display.reasoning).to_lowercase();
        format!(
            "sampling    {}\nmax-tokens  {limit}\nseed        {seed}\nstop        {:?}\nreasoning   {reasoning}\n",
            sampling_line(&self.request.sampling),
            self.request.stop,
        )
    }

    fn show(&self) -> String {
        let held = self.chat.session().sequence().tokens().len();
        let messages = output::counted(self.chat.messages().len(), "message");
        let dropped = match self.chat.dropped() {
            0 => String::new(),
            dropped => format!(", the oldest {dropped} no longer in the prompt"),
        };
        let system =
            self.system_message().map_or(String::new(), |system| format!("system      {system:?}\n"));
        format!(
            "model       {} ({})\ncontext     {held} of {} tokens used; {messages}{dropped}\n{system}{}",
            self.pipeline.name(),
            self.pipeline.architecture(),
            self.pipeline.context(),
            self.options(),
        )
    }

    fn save(&self, file: &str, force: bool) -> Result<(), Failure> {
        if file.is_empty() {
            return Err(Failure::Usage("/save requires a file name".to_owned()));
        }
        let mut target = match OutputFile::create(Path::new(file), force, &[]) {
            Err(Failure::Failed(_)) if !force && Path::new(file).is_file() => {
                return Err(Failure::about(file, "the file exists").with_help("/save! FILE replaces it"));
            }
            other => other?,
        };
        let text = self.chat.to_json()? + "\n";
        target.write_all(text.as_bytes()).map_err(|error| Failure::about(file, error))?;
        target.commit()?;
        report::note(&format!("saved {} to {file}", output::counted(self.chat.messages().len(), "message")));
        Ok(())
    }

    fn load(&mut self, file: &str) -> Result<(), Failure> {
        if file.is_empty() {
            return Err(Failure::Usage("/load requires a file name".to_owned()));
        }
        let text = prompt::read_file(Path::new(file))?;
        self.chat.load_json(&text).map_err(|error| Failure::about(file, error))?;
        self.results.clear();
        report::note(&format!(
            "loaded {} from {file}",
            output::counted(self.chat.messages().len(), "message")
        ));
        self.ask_for_result();
        self.changed()
    }
}

/// Continues the conversation of a state file.
fn resume(chat: &mut ChatSession, file: &StateFile) -> Result<(), Failure> {
    let Some(tokens) = take_up(file, |file| chat.resume(file))? else { return Ok(()) };
    let messages = output::counted(chat.messages().len(), "message");
    report::note(&format!("continuing with {messages} ({tokens} tokens) from {}", file.path().display()));
    Ok(())
}

fn help() -> String {
    let line =
        |&(name, rest, what): &(&str, &str, &str)| format!("{:<19} {what}\n", format!("{name} {rest}"));
    COMMANDS.iter().map(line).collect::<String>()
        + "\"\"\" or \\ at the end of a line: the message continues on the next line\n"
}

fn unknown(word: &str) -> Failure {
    let near = nearest_clause(nearest(word, COMMANDS.iter().map(|(name, _, _)| *name)));
    Failure::Usage(format!("unknown command {word}{near}"))
        .with_help("/help lists the commands; to send this as a message, begin it with a space")
}
