//! [`ResponseFormats`]: the fields `response_format` and `tool_choice` of a line, as a constraint of its answers.

use crate::body::{LineFault, RequestBody, only_fields};
use crate::call_choice::CallChoice;
use menagerie::engine::{AnswerSyntax, CallSyntax, Constraint, Request, Tokenizing};
use menagerie::grammar::{GrammarCompiler, GrammarError, GrammarSource};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

const FIELD: &str = "response_format";
const SCHEMA: &str = "response_format.json_schema";
/// The number of newest schemas whose constraints are kept: lines often have the same one.
const KEPT: usize = 16;

/// Compiles formats; the newest ones are kept.
pub struct ResponseFormats {
    /// `None` without a tokenizer.
    compiler: Option<GrammarCompiler>,
    kept: Mutex<VecDeque<(AskedForm, Arc<dyn Constraint>)>>,
    kept_calls: Mutex<VecDeque<KeptCalls>>,
}

/// The constraint of a choice between the tools of a line, and of its text.
struct KeptCalls {
    choice: CallChoice,
    /// What the text must fit.
    form: Option<AskedForm>,
    syntax: CallSyntax,
    constraint: Option<Arc<dyn Constraint>>,
}

impl ResponseFormats {
    /// Formats of a model with this tokenizer.
    pub fn new(tokenizer: Option<&Arc<dyn Tokenizing>>) -> Self {
        let compiler = tokenizer.map(|tokenizer| GrammarCompiler::new(Arc::clone(tokenizer)));
        Self { compiler, kept: Mutex::default(), kept_calls: Mutex::default() }
    }

    /// Removes `response_format`, or `json_schema` or `grammar` in its place, and returns its constraint; `None` for text.
    /// If the request is cancelled, the call returns at once with an error.
    ///
    /// # Errors
    /// The format is invalid, not supported, or the model has no tokenizer; there are several; the request is cancelled.
    pub fn constraint(
        &self,
        body: &mut RequestBody,
        cancel: Option<&Arc<AtomicBool>>,
    ) -> Result<Option<Arc<dyn Constraint>>, LineFault> {
        let Some(asked) = AskedForm::take(body)? else { return Ok(None) };
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, constraint)) = kept().iter().find(|(known, _)| *known == asked) {
            return Ok(Some(Arc::clone(constraint)));
        }
        let Some(compiler) = &self.compiler else {
            return Err(LineFault::of(asked.field(), "the model has no tokenizer"));
        };
        let compiler = compiler.for_request(cancel);
        let constraint = asked.source().and_then(|source| compiler.constraint(&source));
        let constraint = constraint.map_err(|error| LineFault::of(asked.field(), error))?;
        // Another thread may have compiled the same schema meanwhile, which costs time and changes nothing.
        let mut kept = kept();
        kept.push_front((asked, Arc::clone(&constraint)));
        kept.truncate(KEPT);
        Ok(Some(constraint))
    }

    /// Removes the same fields, and returns the constraint of calls in an answer with this syntax, or of its text if it calls
    /// no tool; `None` if both stay free.
    ///
    /// # Errors
    /// As [`Self::constraint`]; the choice cannot be enforced.
    pub(crate) fn calls(
        &self,
        body: &mut RequestBody,
        choice: &CallChoice,
        syntax: &AnswerSyntax,
        request: &Request,
    ) -> Result<Option<Arc<dyn Constraint>>, LineFault> {
        let ignores_end = request.ignore_eos;
        let form = AskedForm::take(body)?;
        if form.is_some() && ignores_end {
            return Err(end_ignored());
        }
        let fault = |reason: &dyn std::fmt::Display| {
            let field = match (&form, choice.required) {
                (_, true) => "tool_choice",
                (Some(form), false) => form.field(),
                (None, false) => "tools",
            };
            LineFault::of(field, reason)
        };
        let Some(compiler) = &self.compiler else { return Err(fault(&"the model has no tokenizer")) };
        let compiler = &compiler.for_request(request.cancel.as_ref());
        let kept = || self.kept_calls.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |kept: &&KeptCalls| {
            let known =
                |calls: &CallSyntax| calls.format == kept.syntax.format && calls.tools == kept.syntax.tools;
            kept.choice == *choice && kept.form == form && syntax.calls.as_ref().is_some_and(known)
        };
        if let Some(kept) = kept().iter().find(same).filter(|_| !ignores_end) {
            return Ok(kept.constraint.clone());
        }
        let source = form.as_ref().map(AskedForm::source).transpose();
        let constraint = match source.map_err(|error| fault(&error))? {
            Some(source) => choice.constraint_with_text(compiler, syntax, &source),
            None => choice.constraint(compiler, syntax, ignores_end),
        };
        let constraint = constraint.map_err(|error| fault(&error))?;
        if let Some(calls) = syntax.calls.clone().filter(|_| !ignores_end) {
            let mut kept = kept();
            kept.push_front(KeptCalls {
                choice: choice.clone(),
                form,
                syntax: calls,
                constraint: constraint.clone(),
            });
            kept.truncate(KEPT);
        }
        Ok(constraint)
    }
}

/// A format excludes `ignore_eos`.
pub(crate) fn end_ignored() -> LineFault {
    LineFault::of("ignore_eos", "a constrained answer ends where its format ends")
}

/// What an answer must fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AskedForm {
    /// `response_format`, as a schema.
    Format(Value),
    /// `json_schema`: a schema (llama.cpp).
    Schema(Value),
    /// `grammar`: in llguidance's variant of Lark.
    Lark(String),
}

impl AskedForm {
    /// Whether a body has one of the fields.
    pub(crate) fn is_in(body: &RequestBody) -> bool {
        [FIELD, "json_schema", "grammar"].into_iter().any(|field| body.has(field))
    }

    /// Removes the fields; `None` for text.
    fn take(body: &mut RequestBody) -> Result<Option<Self>, LineFault> {
        let format =
            body.take(FIELD).map(|format| schema_of(&format)).transpose()?.flatten().map(Self::Format);
        let schema = body.take("json_schema").map(Self::Schema);
        let lark = match body.take("grammar") {
            None => None,
            Some(Value::String(text)) => Some(Self::Lark(text)),
            Some(_) => return Err(LineFault::of("grammar", "expected the text of a Lark grammar")),
        };
        let mut forms = [format, schema, lark].into_iter().flatten();
        match (forms.next(), forms.next()) {
            (_, Some(other)) => {
                let reason = "give only one of response_format, json_schema and grammar";
                Err(LineFault::of(other.field(), reason))
            }
            (form, None) => Ok(form),
        }
    }

    fn field(&self) -> &'static str {
        match self {
            Self::Format(_) => FIELD,
            Self::Schema(_) => "json_schema",
            Self::Lark(_) => "grammar",
        }
    }

    fn source(&self) -> Result<GrammarSource, GrammarError> {
        match self {
            Self::Format(schema) | Self::Schema(schema) => GrammarSource::parsed_schema(schema),
            Self::Lark(text) => GrammarSource::parsed_lark(text),
        }
    }
}

/// The schema of a format; `None` for text.
fn schema_of(format: &Value) -> Result<Option<Value>, LineFault> {
    let fields = format.as_object().ok_or_else(|| LineFault::of(FIELD, "expected an object"))?;
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let (known, schema): (&[&str], _) = match kind {
        "text" => (&["type"], None),
        "json_object" => (&["type"], Some(json!({ "type": "object" }))),
        "json_schema" => (&["type", "json_schema"], Some(inner_schema(fields)?)),
        _ => {
            let reason = format!(
                "type is {}; only text, json_object and json_schema are supported",
                fields.get("type").unwrap_or(&Value::Null)
            );
            return Err(LineFault::of(FIELD, reason));
        }
    };
    only_fields(FIELD, fields, known)?;
    Ok(schema)
}

/// `schema` of `json_schema`. `name` and `description` are notes, and the schema is enforced with or without `strict`.
fn inner_schema(fields: &Map<String, Value>) -> Result<Value, LineFault> {
    let Some(inner) = fields.get("json_schema").and_then(Value::as_object) else {
        return Err(LineFault::of(SCHEMA, "expected an object with the field schema"));
    };
    only_fields(SCHEMA, inner, &["name", "description", "schema", "strict"])?;
    inner.get("schema").cloned().ok_or_else(|| LineFault::of(SCHEMA, "the field schema is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_fits_one_form() {
        let take =
            |fields: Value| AskedForm::take(&mut RequestBody::new(fields.as_object().unwrap().clone()));
        assert_eq!(take(json!({ "json_schema": {} })), Ok(Some(AskedForm::Schema(json!({})))));
        assert_eq!(
            take(json!({ "grammar": "start: /a/" })),
            Ok(Some(AskedForm::Lark("start: /a/".to_owned())))
        );
        assert_eq!(take(json!({ "response_format": { "type": "text" } })), Ok(None));
        let both = json!({ "response_format": { "type": "json_object" }, "grammar": "start: /a/" });
        assert_eq!(take(both).unwrap_err().field.as_deref(), Some("grammar"));
        assert_eq!(take(json!({ "grammar": 1 })).unwrap_err().field.as_deref(), Some("grammar"));
    }

    #[test]
    fn formats_are_schemas_or_are_refused_by_name() {
        let schema = json!({ "type": "array" });
        let whole = json!({ "name": "n", "strict": false, "schema": schema });
        assert_eq!(schema_of(&json!({ "type": "text" })), Ok(None));
        assert_eq!(schema_of(&json!({ "type": "json_object" })), Ok(Some(json!({ "type": "object" }))));
        assert_eq!(schema_of(&json!({ "type": "json_schema", "json_schema": whole })), Ok(Some(schema)));
        for (format, field) in [
            (json!("json"), "response_format"),
            (json!({ "type": "grammar" }), "response_format"),
            (json!({ "type": "json_object", "schema": {} }), "response_format.schema"),
            (json!({ "type": "json_schema" }), "response_format.json_schema"),
            (json!({ "type": "json_schema", "json_schema": { "name": "n" } }), "response_format.json_schema"),
            (
                json!({ "type": "json_schema", "json_schema": { "schema": {}, "lenient": true } }),
                "response_format.json_schema.lenient",
            ),
        ] {
            assert_eq!(schema_of(&format).unwrap_err().field.as_deref(), Some(field), "{format}");
        }
    }
}
