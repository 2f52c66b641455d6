//! OpenAI's formats: the bodies of requests as requests of the engine, and its answers as JSON.
//!
//! Every field of a body is either used or refused with an error that names it. `menagerie batch` reads files of such
//! bodies, and `menagerie serve` answers them over HTTP.
//!
//! In reading order: `body` has the fields of a body, `harmless_fields` those without effect, `messages`, `tool_fields`, `response_format` and `prediction` read single fields, `request`
//! makes requests of a whole body; `answer` writes answers, `embeddings` reads and writes vectors. `response_body` reads
//! the bodies of responses. `batch_input` and `result_file` are the files of a batch.
#![forbid(unsafe_code)]

mod answer;
mod answer_token;
mod batch_fault;
mod batch_input;
mod body;
mod call_choice;
mod checksum;
mod effort;
mod embeddings;
mod harmless_fields;
mod infill;
mod messages;
mod prediction;
mod request;
mod response_body;
mod response_format;
mod response_input;
mod response_tools;
mod result_file;
mod result_lines;
mod retried_results;
mod tool_fields;

pub use answer::{answer_usage, chat_logprobs, chat_message, completion_logprobs, fault_of, finish_reason};
pub use answer_token::AnswerToken;
pub use batch_fault::BatchFault;
pub use batch_input::{BatchInput, LineKind, LinePlace};
pub use body::{LineFault, RequestBody, UNSUPPORTED_FIELD};
pub use call_choice::CallChoice;
pub use embeddings::{EmbeddingBody, VectorForm, cut_ids, embedding_list, truncation_of};
pub use harmless_fields::take_harmless;
pub use infill::InfillTexts;
pub use messages::{messages_of, prompt_fault};
pub use request::{AnswerFormat, PromptRequest, RequestReader, opened, opened_fields};
pub use response_body::ResponseBody;
pub use response_format::ResponseFormats;
pub use result_file::{EarlierResults, ResultFile};
pub use result_lines::{LineResult, fault_line, request_id, result_line, split_results};
pub use tool_fields::template_fields;
