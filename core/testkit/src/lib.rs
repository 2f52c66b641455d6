//! For tests only: tolerances, a reader of reference files, tiny models and a naive one, a fake model, a byte tokenizer.

pub mod byte_tokenizer;
pub mod fake;
pub mod naive;
pub mod random;
pub mod reference;
pub mod session;
pub mod tiny;
pub mod tolerance;

pub use byte_tokenizer::ByteTokenizer;
pub use fake::FakeModel;
pub use reference::{Reference, Rows};
pub use session::Session;
pub use tiny::{TinyModel, TinyShape};
pub use tolerance::{argmax, assert_close, assert_equal_bits, kl_divergence, max_difference};
