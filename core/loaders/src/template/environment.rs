//! A minijinja environment that renders as transformers renders chat templates with Jinja2.

use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use super::budget::RenderBudget;
use super::{filters, json, operations};

/// Steps after which a rendering is stopped; no conversation needs this many.
const FUEL: u64 = 50_000_000;

/// The argument of `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TemplateException(pub(crate) String);

/// The trimming of blocks: transformers, utils/chat_template_utils.py, `_compile_jinja_template`.
///
/// # Errors
/// minijinja does not support the syntax.
pub(crate) fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()
}

/// The environment of one rendering. Settings and functions are those of `_compile_jinja_template`.
pub(crate) fn build(budget: &Arc<RenderBudget>) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(FUEL));
    operations::install(&mut environment, budget);
    filters::install(&mut environment, budget);
    json::install(&mut environment, budget);
    environment.add_function("raise_exception", raise_exception);
    environment
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(TemplateException(message)))
}
