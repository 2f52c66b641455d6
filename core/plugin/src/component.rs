//! [`Component`]: what every component says of itself.

use crate::build::Build;
use crate::error::Result;
use crate::options::Options;
use crate::role::Role;

/// What every component says of itself, and how an instance is made: one per place of a model; of a sampler, one per
/// request. What it computes is in the trait of its family.
///
/// Several threads use one instance: what only one thread may use is no part of it.
///
/// ```compile_fail,E0277
/// # use menagerie_plugin::{Build, Component, Result};
/// struct Counts {
///     calls: std::cell::Cell<u32>,
/// }
///
/// impl Component for Counts {
///     const NAME: &'static str = "counts";
///     const DOC: &'static str = "Counts its calls.";
///     type Options = ();
///
///     fn create(_options: (), _build: &mut Build) -> Result<Self> {
///         Ok(Self { calls: std::cell::Cell::new(0) })
///     }
/// }
/// ```
pub trait Component: Send + Sync + Sized + 'static {
    /// `[a-z0-9-]`; in specs it is `author/name:component`.
    const NAME: &'static str;

    /// One sentence on what it computes, and the source of its formula.
    const DOC: &'static str;

    /// The tensors it wants.
    const ROLES: &'static [Role] = &[];

    /// Its options, made with [`options!`](crate::options!); `()` if it has none.
    type Options: Options;

    /// Makes an instance. Take all parts before giving up on one, so that a user sees every fault at once.
    ///
    /// # Errors
    /// What is wrong with the options or with the file's tensors.
    fn create(options: Self::Options, build: &mut Build) -> Result<Self>;
}
