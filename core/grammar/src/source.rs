//! [`GrammarSource`]: a schema, a regular expression or a grammar, checked without a model.

use crate::compilation::compiles_over_bytes;
use crate::error::GrammarError;
use crate::lark_text::CheckedLark;
use crate::nesting::{MOST_BYTES, MOST_LEVELS};
use crate::{nesting, schema};
use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

/// A JSON schema, a regular expression or a Lark grammar that an answer must fit. It is checked without a model, so that
/// its errors are known before one is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct GrammarSource {
    kind: SourceKind,
}

#[derive(Clone, Debug, PartialEq)]
enum SourceKind {
    /// A schema as llguidance gets it: without annotations, with options.
    JsonSchema(Value),
    Regex(String),
    /// The text with checked schemas.
    Lark(String),
}

impl GrammarSource {
    /// Answers that are JSON and valid by this schema (JSON Schema 2020-12). Members of objects come in the order of the
    /// schema, with `", "` and `": "` as separators.
    ///
    /// # Errors
    /// A keyword is not supported, or is not what the specification says; a reference leads out of the document; the
    /// schema allows nothing, or is larger than 64 KiB or deeper than 64 levels.
    pub fn json_schema(schema: &Value) -> Result<Self, GrammarError> {
        Self::parsed_schema(schema)?.compiled()
    }

    /// As [`Self::json_schema`], but what only a compilation finds is reported when the source is compiled for a model
    /// ([`crate::GrammarCompiler::constraint`]), where a cancelled request does not wait for it.
    ///
    /// # Errors
    /// As [`Self::json_schema`], except that the schema allows nothing.
    pub fn parsed_schema(schema: &Value) -> Result<Self, GrammarError> {
        Ok(Self { kind: SourceKind::JsonSchema(schema::checked(schema)?) })
    }

    /// Answers that are a JSON object.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub fn json_object() -> Result<Self, GrammarError> {
        Self::json_schema(&json!({ "type": "object" }))
    }

    /// Answers that this regular expression matches from beginning to end, in the syntax of the Rust crate `regex`,
    /// without look-around, back-references and anchors.
    ///
    /// # Errors
    /// The expression cannot be compiled, is larger than 64 KiB or deeper than 64 levels.
    pub fn regex(pattern: &str) -> Result<Self, GrammarError> {
        within_limits("regular expression", pattern)?;
        Self { kind: SourceKind::Regex(pattern.to_owned()) }.compiled()
    }

    /// Answers that fit this grammar, in llguidance's variant of Lark. It may contain `%json` with schemas, which are
    /// checked like [`Self::json_schema`], and tokens of the model by name (`<|name|>`) or number (`<[17]>`). A grammar
    /// with tokens is compiled only with a model.
    ///
    /// # Errors
    /// The grammar cannot be compiled, is larger than 64 KiB or deeper than 64 levels, or has a construct that is not
    /// supported.
    pub fn lark(text: &str) -> Result<Self, GrammarError> {
        let (source, names_tokens) = Self::checked_lark(text)?;
        if names_tokens { Ok(source) } else { source.compiled() }
    }

    /// As [`Self::lark`], and compiled for a model only, as [`Self::parsed_schema`].
    ///
    /// # Errors
    /// As [`Self::lark`], except that the grammar cannot be compiled.
    pub fn parsed_lark(text: &str) -> Result<Self, GrammarError> {
        Self::checked_lark(text).map(|(source, _)| source)
    }

    /// A grammar, and whether it names tokens of a model.
    fn checked_lark(text: &str) -> Result<(Self, bool), GrammarError> {
        within_limits("Lark grammar", text)?;
        let CheckedLark { text, names_tokens } = CheckedLark::new(text)?;
        Ok((Self { kind: SourceKind::Lark(text) }, names_tokens))
    }

    fn compiled(self) -> Result<Self, GrammarError> {
        compiles_over_bytes(self.what(), self.grammar()).map(|()| self)
    }

    /// `JSON schema`, `regular expression` or `Lark grammar`.
    pub(crate) fn what(&self) -> &'static str {
        match &self.kind {
            SourceKind::JsonSchema(_) => "JSON schema",
            SourceKind::Regex(_) => "regular expression",
            SourceKind::Lark(_) => "Lark grammar",
        }
    }

    /// The checked schema, if it is one.
    pub(crate) fn schema(&self) -> Option<&Value> {
        match &self.kind {
            SourceKind::JsonSchema(schema) => Some(schema),
            SourceKind::Regex(_) | SourceKind::Lark(_) => None,
        }
    }

    /// As llguidance gets it.
    pub(crate) fn grammar(&self) -> TopLevelGrammar {
        match &self.kind {
            SourceKind::JsonSchema(schema) => TopLevelGrammar::from_json_schema(schema.clone()),
            SourceKind::Regex(pattern) => TopLevelGrammar::from_regex(pattern),
            SourceKind::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
        }
    }
}

fn within_limits(what: &'static str, text: &str) -> Result<(), GrammarError> {
    if text.len() > MOST_BYTES {
        return Err(GrammarError::TooLarge { what, bytes: text.len(), most: MOST_BYTES });
    }
    if nesting::depth(text) > MOST_LEVELS {
        return Err(GrammarError::TooDeep { what, most: MOST_LEVELS });
    }
    Ok(())
}
