//! A minijinja environment that renders as transformers renders chat templates with Jinja2.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use minijinja_contrib::pycompat;

use super::{filters, json, source};

/// Steps after which a rendering is stopped: no conversation needs as many.
const FUEL: u64 = 50_000_000;

/// What `raise_exception` was called with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Raised(pub(crate) String);

/// The environment with one template, named `name`. Settings and functions: transformers,
/// utils/chat_template_utils.py, `_compile_jinja_template`.
pub(crate) fn build(name: &str, text: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_unknown_method_callback(pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    filters::install(&mut environment);
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_template_owned(name.to_owned(), source::rewrite(text))?;
    Ok(environment)
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}
