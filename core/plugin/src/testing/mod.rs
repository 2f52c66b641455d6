//! A host for unit tests of plugins: runs a component with weights and rows of a test, or with random ones.
//!
//! [`Setup`] describes the place and the weights of an instance, [`TestModel`] is an instance with its sequences, and
//! [`check`] runs the tests that every component must pass: results do not depend on chunks and batches, nothing is
//! kept outside the declared states, and nothing panics.
//!
//! It is separate from the host of the program (`menagerie plugin check`), so that a plugin's `cargo test` builds only this
//! crate, which has no dependencies and supports older compilers. `plugin check` runs a finished library in tiny models;
//! both read the same tables of options and roles, through the same ABI.
//!
//! ```
//! use menagerie_plugin::testing::{self, Feed, Setup};
//! # use menagerie_plugin::{Build, Call, Component, Mixer, Result, State};
//! # struct Sum { state: State }
//! # impl Component for Sum {
//! #     const NAME: &'static str = "sum";
//! #     const DOC: &'static str = "Sums all rows so far.";
//! #     type Options = ();
//! #     fn create(_options: (), build: &mut Build) -> Result<Self> {
//! #         Ok(Self { state: build.state("sum", &[build.width()])? })
//! #     }
//! # }
//! # impl Mixer for Sum {
//! #     fn forward(&self, call: Call) -> Result<()> {
//! #         let Call { x, mut output, sequences, mut states, .. } = call;
//! #         for (index, sequence) in sequences.iter().enumerate() {
//! #             let sum = states.get_mut(index, &self.state)?;
//! #             for row in sequence.rows() {
//! #                 for ((sum, x), y) in sum.iter_mut().zip(x.row(row)).zip(output.row_mut(row)) {
//! #                     *sum += *x;
//! #                     *y = *sum;
//! #                 }
//! #             }
//! #         }
//! #         Ok(())
//! #     }
//! # }
//! # fn main() -> Result<()> {
//! let component = testing::mixer::<Sum>();
//! let given = Setup::new(2);
//! let mut model = given.create(&component)?;
//! assert_eq!(model.step(&[Feed::new(0, &[1.0, 2.0, 3.0, 4.0])])?, [1.0, 2.0, 4.0, 6.0]);
//! assert_eq!(model.step(&[Feed::new(0, &[1.0, 1.0])])?, [5.0, 7.0]);
//!
//! for outcome in testing::check(&component, &given) {
//!     assert!(outcome.fault.is_none(), "{outcome}");
//! }
//! # Ok(())
//! # }
//! ```

mod building;
mod calling;
mod check;
mod check_others;
mod feed;
mod host_table;
mod model;
mod numbers;
mod setup;
mod sizes;
mod step;

pub use crate::entry::{
    activation, feed_forward, layer_observer, layer_replacer, mixer, norm, rope, sampler, tokenizer,
};
pub use check::{CheckOutcome, check};
pub use feed::Feed;
pub use host_table::take_errors;
pub use model::{Frequencies, TestModel};
pub use numbers::RandomNumbers;
pub use setup::{Setting, Setup};
