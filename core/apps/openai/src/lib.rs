//! OpenAI's formats: the bodies of requests as requests of the engine, and its answers as JSON.
//!
//! Every field of a body is either used or refused with an error that names it. `menagerie batch` reads files of such
//! bodies, and `menagerie serve` answers them over HTTP.
//!
//! In reading order: `body` has the fields of a body, `messages`, `tool_fields`, `response_format` and `prediction` read single fields, `request`
//! makes requests of a whole body; `answer` writes answers, `embeddings` reads and writes vectors.
#![forbid(unsafe_code)]

mod answer;
mod answer_token;
mod body;
mod call_choice;
mod embeddings;
mod messages;
mod prediction;
mod request;
mod response_format;
mod tool_fields;

pub use answer::{answer_usage, chat_logprobs, chat_message, completion_logprobs, fault_of, finish_reason};
pub use answer_token::AnswerToken;
pub use body::{LineFault, RequestBody, UNSUPPORTED_FIELD};
pub use call_choice::CallChoice;
pub use embeddings::{EmbeddingBody, VectorForm, cut_ids, embedding_list, truncation_of};
pub use messages::{messages_of, prompt_fault};
pub use request::{AnswerFormat, BatchRequest, BatchRequests, opened};
pub use response_format::ResponseFormats;
pub use tool_fields::template_fields;
