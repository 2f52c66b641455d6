//! [`Component`]: the declaration of a component.

use crate::build::Build;
use crate::error::Result;
use crate::options::Options;
use crate::role::Role;

/// Declares a component and creates its instances: one for each place in a model, or one for each request for samplers. The
/// trait of its family computes.
///
/// Several threads use one instance, so it must be `Sync`.
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

    /// One sentence about what it computes, with the source of its formula.
    const DOC: &'static str;

    /// Its tensors.
    const ROLES: &'static [Role] = &[];

    /// Its options, made with [`options!`](crate::options!); `()` if it has none.
    type Options: Options;

    /// Creates an instance. Take all parts before using `?`, so that a user sees all faults at once.
    ///
    /// # Errors
    /// Faults of the options or of the tensors of the file.
    fn create(options: Self::Options, build: &mut Build) -> Result<Self>;
}
