//! Compiling a grammar of llguidance over a vocabulary, within limits.

use crate::apart::{CancelFlag, apart};
use crate::error::GrammarError;
use crate::vocabulary::bytes_alone;
use crate::watched_flag::WatchedFlag;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};
use std::fmt::Display;
use std::sync::{Arc, LazyLock};

/// The most states of the automaton of a request's terminals; one takes one to two kilobytes.
const MOST_LEXER_STATES: usize = 50_000;

/// A compiler of grammars for a vocabulary.
pub(crate) fn new_factory(vocabulary: &TokEnv, slices: &[String]) -> Result<ParserFactory, String> {
    let capabilities = InferenceCapabilities::default();
    let mut factory =
        ParserFactory::new(vocabulary, capabilities, slices).map_err(|error| error.to_string())?;
    factory.quiet();
    let limits = factory.limits_mut();
    limits.max_lexer_states = MOST_LEXER_STATES;
    // Verbose errors quote the answer.
    limits.verbose_errors = false;
    Ok(factory)
}

/// A vocabulary of single bytes: what compiles with it is independent of a model.
static BYTES: LazyLock<Result<ParserFactory, String>> = LazyLock::new(|| new_factory(&bytes_alone(), &[]));

/// Compiles a source without a model.
///
/// # Errors
/// The source cannot be compiled.
pub(crate) fn compiles_over_bytes(what: &'static str, grammar: TopLevelGrammar) -> Result<(), GrammarError> {
    let compile = move || {
        let factory = BYTES.as_ref();
        let factory = factory.map_err(|reason| GrammarError::Vocabulary { reason: reason.clone() })?;
        compiled(factory, what, grammar, &None).map(drop)
    };
    apart(what, &None, compile)
}

/// Compiles a source and computes its first mask, so that a source that allows nothing is an error here; `what` names its
/// kind in errors. It needs a large stack ([`apart`]). Its size and its steps are limited; the flag of the request ends it
/// before the mask, or while that is computed.
///
/// # Errors
/// The grammar cannot be compiled with the vocabulary; the request is cancelled.
pub(crate) fn compiled(
    factory: &ParserFactory,
    what: &'static str,
    grammar: TopLevelGrammar,
    cancel: &CancelFlag,
) -> Result<Matcher, GrammarError> {
    let invalid =
        |error: &dyn Display| GrammarError::Invalid { what, reason: shortened(&format!("{error:#}")) };
    let parser = factory.create_parser(grammar).map_err(|error| invalid(&error))?;
    let Some(flag) = cancel else {
        let mut matcher = Matcher::new(Ok(parser));
        matcher.compute_mask_or_eos().map_err(|error| invalid(&error))?;
        return Ok(matcher);
    };
    let mut matcher = Matcher::new(Ok(parser)).into_cancellable();
    let handle = matcher.cancellation_handle();
    let watched = handle.map(|handle| WatchedFlag::new(Arc::clone(flag), handle));
    let watch = watched.as_ref().map(WatchedFlag::watch);
    let mask = matcher.compute_mask_or_eos();
    drop(watch);
    if matcher.is_cancelled() {
        return Err(GrammarError::Cancelled);
    }
    mask.map_err(|error| invalid(&error))?;
    Ok(matcher)
}

/// The first lines of an error of llguidance, without its marks for tools.
fn shortened(error: &str) -> String {
    const MOST: usize = 400;
    if error.starts_with("panic") {
        return "the compiler failed (a defect: please report it)".to_owned();
    }
    if error.contains("coerce_one_of") {
        return "the alternatives of a oneOf must differ in their types, or in the constants of a required member; use \
                anyOf, or make them differ"
            .to_owned();
    }
    let plain = error.split("<backtrace>").next().unwrap_or_default();
    // A regular expression is quoted with marks below it, which need its line breaks.
    let is_marks = |line: &str| line.chars().all(|mark| matches!(mark, '^' | '-' | '~' | ' '));
    let lines = plain.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('<'));
    let lines = lines.filter(|line| !is_marks(line)).map(|line| line.strip_prefix("error: ").unwrap_or(line));
    let text = lines.take(4).collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}
