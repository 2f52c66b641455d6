//! From a path to what computes: the file, its spec, weights, tokenizer and chat format, and whether memory has room.

mod file_digest;
mod file_text;
pub(crate) mod fingerprint;
mod load;
mod load_error;
mod memory;
mod notice;
mod notices;
mod open;
mod open_embedding;
mod opened;
mod requantize;
mod resolve;
mod tables;
mod taken;

pub(crate) use file_text::{FileTokenizer, TemplateFormat};
pub use load::environment;
pub(crate) use load::{ContextLimits, Loaded, Text, check_fits, fitting, load, quantized};
pub use load_error::LoadError;
pub use memory::{MemoryEstimate, available, size, total};
pub use notice::Notice;
pub(crate) use notices::notices;
pub use open::{open_text, open_text_with};
pub use open_embedding::{open_embedding, open_embedding_with};
pub use opened::OpenedFile;
pub(crate) use requantize::QuantizedTensors;
pub use requantize::{LoadProgress, LoadQuantization};
pub(crate) use resolve::Around;
pub use resolve::ResolvedFile;
pub use tables::tokenizer_tables;
pub(crate) use taken::InMemory;
