//! One mechanism for everything that is registered under a name: kinds, architectures, recipes, samplers, hooks, tokenizers,
//! devices, file formats.
//!
//! A crate that owns a family declares its type and implements [`Entry`] for it. Any crate registers values of that type
//! with [`register!`]; [`Entries::linked`] collects those of all crates that are linked into the program. Other entries,
//! those of plugins for example, are added to a set with [`Entries::add`]. A set is a value: there is no list of the
//! process. Two entries of one family with one name are refused, and the error names the origin of both.
//!
//! [`nearest`] finds the known name that a misspelled name probably means, for the errors of every crate.
//!
//! ```
//! use menagerie_entries::{Entries, Entry, register};
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct Greeting {
//!     name: &'static str,
//!     text: &'static str,
//!     registered_by: &'static str,
//! }
//!
//! impl Entry for Greeting {
//!     const FAMILY: &'static str = "greeting";
//!
//!     fn name(&self) -> &str {
//!         self.name
//!     }
//!
//!     fn registered_by(&self) -> &str {
//!         self.registered_by
//!     }
//! }
//!
//! register!(Greeting { name: "plain", text: "hello", registered_by: "docs" });
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut entries = Entries::linked()?;
//! assert_eq!(entries.get::<Greeting>("plain").map(|found| found.text), Some("hello"));
//! let second = Greeting { name: "plain", text: "hi", registered_by: "a plugin" };
//! assert_eq!(
//!     entries.add(second).map_err(|error| error.to_string()),
//!     Err("greeting `plain` is registered twice, by docs and by a plugin; link or load only one of them".to_owned())
//! );
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod contribution;
mod entries;
mod entry;
mod nearest;

#[doc(hidden)]
pub use contribution::Contribution;
pub use entries::{DuplicateName, Entries};
pub use entry::Entry;
#[doc(hidden)]
pub use inventory;
pub use nearest::{is_one_edit_apart, nearest, nearest_clause};
