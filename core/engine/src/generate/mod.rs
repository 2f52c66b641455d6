//! From a prompt to an answer: what is asked, a generation on its way, its text, sessions and conversations.

mod chat;
mod chat_events;
mod events;
mod generation;
mod prompt;
mod reasoning;
mod request;
mod session;
mod text_out;

pub use chat::{ChatMessage, ChatOptions, ChatSession, RenderOptions, RenderedPrompt};
pub use chat_events::ChatEvents;
pub(crate) use chat_events::{Conversation, Reversal};
pub(crate) use events::listen;
pub use events::{EventResponse, Events};
pub(crate) use generation::{Drawing, Generation, Next};
pub use prompt::Prompt;
pub use reasoning::{ReasoningSplitter, ReasoningTags, Segment};
pub use request::{Event, Outcome, Request, TokenLogprob};
pub use session::Session;
pub(crate) use text_out::TextOut;
