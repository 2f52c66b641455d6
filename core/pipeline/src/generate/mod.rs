//! From a prompt to an answer: what is asked, a generation on its way, its text, sessions and conversations.

mod chat;
mod generation;
mod reasoning;
mod request;
mod session;
mod text_out;

pub use chat::{ChatMessage, ChatOptions, ChatSession, RenderOptions, RenderedPrompt};
pub(crate) use generation::{Drawing, Generation, Next};
pub use reasoning::{ReasoningSplitter, ReasoningTags, Segment};
pub use request::{Event, Outcome, Request, TokenLogprob};
pub use session::Session;
pub(crate) use text_out::TextOut;
