//! For tests only: tolerances, a reader of reference files, tiny models and a naive one, a fake model.

pub mod counting;
pub mod fake;
pub mod fake_backend;
mod fake_step;
pub mod naive;
mod operations;
pub mod reference;
pub mod session;
pub mod tiny;
pub mod tolerance;

pub use counting::{CountingBackend, Counts};
pub use fake::{FakeModel, Script, Seen};
pub use fake_backend::{FakeBackend, FakeStates};
pub use menagerie_random::SplitMix64;
pub use reference::{Reference, Rows};
pub use session::Session;
pub use tiny::{Declared, TinyModel, TinyShape, cpu_backend};
pub use tolerance::{assert_close, assert_equal_bits, max_difference};
