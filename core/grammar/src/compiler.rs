//! [`GrammarCompiler`]: from sources to constraints over the tokens of a model.

use crate::after_marker::AfterMarker;
use crate::error::GrammarError;
use crate::matcher::CompiledGrammar;
use crate::source::GrammarSource;
use crate::vocabulary::{ModelVocabulary, bytes_alone};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};
use menagerie_engine::{Constraint, Tokenizing};
use std::fmt::Display;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The most states of the automaton of a request's terminals; one takes one to two kilobytes.
const MOST_LEXER_STATES: usize = 50_000;

/// Compiles sources to constraints over the tokens of one model.
///
/// The trie of the vocabulary is built when the first source is compiled, which takes up to a second or two for a large
/// vocabulary, and is shared by all constraints. Keep the compiler beside the pipeline; it is cheap until then.
pub struct GrammarCompiler {
    tokenizer: Arc<dyn Tokenizing>,
    factory: Mutex<Option<Arc<ParserFactory>>>,
}

impl GrammarCompiler {
    /// A compiler for the model with this tokenizer.
    pub fn new(tokenizer: Arc<dyn Tokenizing>) -> Self {
        Self { tokenizer, factory: Mutex::default() }
    }

    /// A constraint for answers that fit `source`, for one request or for many.
    ///
    /// # Errors
    /// The source cannot be compiled with the tokens of the model, or its vocabulary cannot be used.
    pub fn constraint(&self, source: &GrammarSource) -> Result<Arc<dyn Constraint>, GrammarError> {
        let matcher = compiled(&*self.factory()?, source)?;
        Ok(Arc::new(CompiledGrammar::new(source.what(), matcher)))
    }

    /// A constraint that allows every token until one of the tokens `markers` was taken; what follows fits `source`.
    /// An answer without a marker is free. After the end of what fits, the answer ends.
    ///
    /// # Errors
    /// As [`Self::constraint`].
    pub fn constraint_after(
        &self,
        markers: &[u32],
        source: &GrammarSource,
    ) -> Result<Arc<dyn Constraint>, GrammarError> {
        Ok(Arc::new(AfterMarker::new(markers, self.constraint(source)?)))
    }

    fn factory(&self) -> Result<Arc<ParserFactory>, GrammarError> {
        let mut factory = self.factory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(factory) = &*factory {
            return Ok(Arc::clone(factory));
        }
        let vocabulary: TokEnv = Arc::new(ModelVocabulary::new(Arc::clone(&self.tokenizer))?);
        let slices = SlicedBiasComputer::json_slices();
        let made = Arc::new(
            new_factory(&vocabulary, &slices).map_err(|reason| GrammarError::Vocabulary { reason })?,
        );
        *factory = Some(Arc::clone(&made));
        Ok(made)
    }
}

fn new_factory(vocabulary: &TokEnv, slices: &[String]) -> Result<ParserFactory, String> {
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
pub(crate) fn compiles_over_bytes(source: &GrammarSource) -> Result<(), GrammarError> {
    let factory = BYTES.as_ref();
    let factory = factory.map_err(|reason| GrammarError::Vocabulary { reason: reason.clone() })?;
    compiled(factory, source).map(drop)
}

/// The stack of a compilation. llguidance follows references and rules by recursion, up to one level for every few
/// bytes of a source. Memory that is not used is not allocated.
const STACK_BYTES: usize = 256 << 20;

/// [`compile`] on a thread with a large stack.
fn compiled(factory: &ParserFactory, source: &GrammarSource) -> Result<Matcher, GrammarError> {
    let failed = |reason: String| GrammarError::Invalid { what: source.what(), reason };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || compile(factory, source));
        let thread = thread.map_err(|error| failed(format!("no thread can be started: {error}")))?;
        let defect = || failed("the compiler failed (a defect: please report it)".to_owned());
        thread.join().unwrap_or_else(|_| Err(defect()))
    })
}

/// Compiles a source and computes its first mask, so that a source that allows nothing is an error here.
fn compile(factory: &ParserFactory, source: &GrammarSource) -> Result<Matcher, GrammarError> {
    let invalid = |error: &dyn Display| GrammarError::Invalid {
        what: source.what(),
        reason: shortened(&format!("{error:#}")),
    };
    let parser = factory.create_parser(source.grammar()).map_err(|error| invalid(&error))?;
    let mut matcher = Matcher::new(Ok(parser));
    matcher.compute_mask_or_eos().map_err(|error| invalid(&error))?;
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
    let lines = plain.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('<'));
    let text = lines.take(4).collect::<Vec<_>>().join("; ");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}
