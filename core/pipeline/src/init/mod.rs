//! From a path to what computes: the file, its spec, weights, tokenizer and chat format, and whether memory has room.

mod file_digest;
mod file_text;
pub(crate) mod fingerprint;
mod load;
mod load_error;
pub(crate) mod memory;
mod notice;
mod notices;
mod open;
mod opened;
mod requantize;
mod resolve;
mod tables;
mod taken;

pub(crate) use file_text::{FileTokenizer, TemplateFormat};
pub use fingerprint::ModelFingerprint;
pub use load::environment;
pub(crate) use load::{ContextLimits, Loaded, Text, check_fits, fitting, load, quantized};
pub use load_error::LoadError;
pub(crate) use memory::size;
pub use memory::{MemoryEstimate, available, total};
pub use notice::Notice;
pub(crate) use notices::notices;
pub use opened::OpenedFile;
pub(crate) use requantize::QuantizedTensors;
pub use requantize::{LoadProgress, LoadQuantization};
pub(crate) use resolve::Around;
pub use resolve::ResolvedFile;
pub use tables::tokenizer_tables;
pub(crate) use taken::InMemory;
