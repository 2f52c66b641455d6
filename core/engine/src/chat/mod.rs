//! [`ChatSession`]: a conversation with a model.

mod events;

pub use events::ChatEvents;

use crate::capability::ChatCapable;
use crate::error::GenerateError;
use crate::message::{ChatMessage, RenderOptions, RenderedPrompt};
use crate::request::{Event, EventResponse, Outcome, Request};
use crate::session::{Session, listen};
use crate::setters::setters;
use crate::state_file::{SavedConversation, StateFile, StateFileError};
use events::{Conversation, Reversal};
use std::sync::Arc;

/// How a chat session makes its prompts.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ChatOptions {
    /// Tools and template variables.
    pub render: RenderOptions,
    /// Tokens of the context reserved for an answer; `None` = a quarter of the context, or the most tokens of the
    /// request if they are fewer.
    pub reserve: Option<usize>,
}

setters! { ChatOptions:
    with_render(render: RenderOptions),
    with_reserve(reserve: impl Into<Option<usize>>),
}

/// A conversation with a model.
///
/// **Full context**: if the prompt and the reserve for the answer do not fit, the oldest turns (a user's message and
/// what follows it) are dropped from the prompt, one by one. System messages at the beginning and the last user
/// message always stay. Dropped turns stay in [`Self::messages`] and in saved conversations, and a notice reports
/// their number. If the last message does not fit beside the reserve, the answer gets the space that is left.
pub struct ChatSession {
    session: Session,
    format: Arc<dyn ChatCapable>,
    messages: Vec<ChatMessage>,
    /// The number of messages after the system messages that are dropped from the prompt.
    dropped: usize,
    options: ChatOptions,
}

impl ChatSession {
    /// An empty conversation in `session`.
    pub fn new(session: Session, format: Arc<dyn ChatCapable>) -> Self {
        Self { session, format, messages: Vec::new(), dropped: 0, options: ChatOptions::default() }
    }

    /// All messages, including those that are dropped from the prompt.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// The number of messages that are dropped from the prompt.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// How prompts are made.
    pub fn options_mut(&mut self) -> &mut ChatOptions {
        &mut self.options
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Sets or replaces the system message; an empty text removes it.
    pub fn set_system(&mut self, content: &str) {
        if self.messages.first().is_some_and(|message| message.role == "system") {
            self.messages.remove(0);
        }
        if !content.is_empty() {
            self.messages.insert(0, ChatMessage::system(content));
        }
    }

    /// Removes all messages except the system messages at the beginning.
    pub fn reset(&mut self) {
        self.messages.truncate(self.systems());
        self.dropped = 0;
    }

    /// Sends a message of the user and generates the answer. `sink` receives the events, and stops the answer by
    /// returning [`ControlFlow::Break`](std::ops::ControlFlow).
    ///
    /// A cancelled answer stays in the conversation as far as it came. If it is empty, the message is removed too.
    ///
    /// # Errors
    /// As [`Session::generate`]; the conversation is then unchanged.
    pub fn send<R: EventResponse>(
        &mut self,
        content: &str,
        request: &Request,
        sink: impl FnMut(Event) -> R,
    ) -> Result<Outcome, GenerateError> {
        let mut events = self.send_events(content, request)?;
        listen(&mut events, sink)?;
        events.into_outcome()
    }

    /// [`Self::send`] as an iterator.
    ///
    /// # Errors
    /// The messages cannot be rendered; the conversation is then unchanged.
    pub fn send_events<'s>(
        &'s mut self,
        content: &str,
        request: &Request,
    ) -> Result<ChatEvents<'s>, GenerateError> {
        self.messages.push(ChatMessage::user(content));
        self.answer(Reversal::Unsaid(1), request)
    }

    /// Sends messages, for example the results of calls ([`ChatMessage::tool_result`]), and generates the answer.
    /// `sink` is as in [`Self::send`].
    ///
    /// # Errors
    /// As [`Self::send`]; the conversation is then unchanged.
    pub fn send_messages<R: EventResponse>(
        &mut self,
        messages: Vec<ChatMessage>,
        request: &Request,
        sink: impl FnMut(Event) -> R,
    ) -> Result<Outcome, GenerateError> {
        let count = messages.len();
        self.messages.extend(messages);
        let mut events = self.answer(Reversal::Unsaid(count), request)?;
        listen(&mut events, sink)?;
        events.into_outcome()
    }

    /// Answers the last user message again; `sink` as in [`Self::send`].
    ///
    /// # Errors
    /// There is no answer to replace, or as [`Self::send`]; the old answer then stays.
    pub fn regenerate<R: EventResponse>(
        &mut self,
        request: &Request,
        sink: impl FnMut(Event) -> R,
    ) -> Result<Outcome, GenerateError> {
        let mut events = self.regenerate_events(request)?;
        listen(&mut events, sink)?;
        events.into_outcome()
    }

    /// [`Self::regenerate`] as an iterator.
    ///
    /// # Errors
    /// There is no answer to replace, or as [`Self::send_events`]; the old answer then stays.
    pub fn regenerate_events<'s>(&'s mut self, request: &Request) -> Result<ChatEvents<'s>, GenerateError> {
        let Some(old) = self.messages.pop_if(|message| message.role == "assistant") else {
            return Err(GenerateError::Options("there is no answer to regenerate".to_owned()));
        };
        self.answer(Reversal::Answer(old), request)
    }

    /// The conversation as JSON: a list of messages, as chat interfaces take it.
    ///
    /// # Errors
    /// JSON cannot be written.
    pub fn to_json(&self) -> Result<String, GenerateError> {
        serde_json::to_string_pretty(&self.messages)
            .map_err(|error| GenerateError::Options(error.to_string()))
    }

    /// Replaces the conversation by one of [`Self::to_json`].
    ///
    /// # Errors
    /// The text is not a list of messages; the conversation is then unchanged.
    pub fn load_json(&mut self, json: &str) -> Result<(), GenerateError> {
        let messages: Vec<ChatMessage> = serde_json::from_str(json).map_err(|error| {
            GenerateError::Options(format!("not a saved conversation (a list of {{role, content}}): {error}"))
        })?;
        self.messages = messages;
        self.dropped = 0;
        Ok(())
    }

    /// Restores the conversation and the state from a file. Returns the number of tokens whose state was restored, or
    /// `None` if the file does not exist yet. A file without a conversation leaves the messages unchanged.
    ///
    /// # Errors
    /// As [`StateFile::load`]; the conversation is then unchanged.
    pub fn resume(&mut self, file: &StateFile) -> Result<Option<usize>, StateFileError> {
        let Some(resumed) = file.load(&mut self.session)? else { return Ok(None) };
        if let Some(SavedConversation { messages, dropped }) = resumed.conversation {
            (self.messages, self.dropped) = (messages, dropped);
        }
        Ok(Some(resumed.tokens))
    }

    /// Saves the conversation and its state in a file. Returns the bytes of the file.
    ///
    /// # Errors
    /// As [`StateFile::save`].
    pub fn keep(&mut self, file: &StateFile) -> Result<u64, StateFileError> {
        let conversation = SavedConversation { messages: self.messages.clone(), dropped: self.dropped };
        file.save(&mut self.session, Some(conversation))
    }

    fn answer<'s>(
        &'s mut self,
        reversal: Reversal,
        request: &Request,
    ) -> Result<ChatEvents<'s>, GenerateError> {
        let dropped_before = self.dropped;
        let (prompt, notice) = match self.fitting_prompt(request) {
            Ok(fitting) => fitting,
            Err(error) => {
                reversal.apply(&mut self.messages);
                self.dropped = dropped_before;
                return Err(error);
            }
        };
        let Self { session, messages, dropped, .. } = self;
        let conversation = Conversation { messages, dropped, dropped_before, reversal };
        Ok(ChatEvents::new(notice, session.events(prompt, request), conversation))
    }

    /// The prompt, from which the oldest turns are dropped until it fits; and a notice if more are dropped than
    /// before.
    fn fitting_prompt(
        &mut self,
        request: &Request,
    ) -> Result<(RenderedPrompt, Option<Event>), GenerateError> {
        let context = self.session.engine().context;
        let quarter = context / 4;
        let reserve =
            self.options.reserve.unwrap_or_else(|| request.max_tokens.unwrap_or(quarter).min(quarter));
        let before = self.dropped;
        loop {
            let prompt = self.format.render_prompt(&self.shown(), &self.options.render)?;
            if prompt.tokens.len() + reserve > context && self.drop_turn() {
                continue;
            }
            let dropped = self.dropped;
            let notice = (dropped > before).then(|| {
                Event::Notice(format!(
                    "the context of {context} tokens is full: the {dropped} oldest messages are dropped from now on"
                ))
            });
            return Ok((prompt, notice));
        }
    }

    /// The messages of the prompt.
    fn shown(&self) -> Vec<ChatMessage> {
        let systems = self.systems();
        let (head, rest) = self.messages.split_at(systems);
        head.iter().chain(rest.iter().skip(self.dropped)).cloned().collect()
    }

    /// The number of system messages at the beginning.
    fn systems(&self) -> usize {
        self.messages.iter().take_while(|message| message.role == "system").count()
    }

    /// Drops the oldest turn; `false` if only the last user message is left.
    fn drop_turn(&mut self) -> bool {
        let rest = &self.messages[self.systems()..];
        let next = rest.iter().skip(self.dropped + 1).position(|message| message.role == "user");
        if let Some(offset) = next {
            self.dropped += 1 + offset;
        }
        next.is_some()
    }
}
