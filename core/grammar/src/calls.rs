//! Calls of tools as constraints: [`GrammarCompiler::calls`].

use crate::call_lark::CallLark;
use crate::compiler::GrammarCompiler;
use crate::error::GrammarError;
use crate::source::GrammarSource;
use llguidance::api::TopLevelGrammar;
use menagerie_engine::{AnswerSyntax, CallLimits, CallShape, CallSyntax, Constraint, ConstraintScope};
use std::sync::Arc;

impl GrammarCompiler {
    /// A constraint for answers that call tools as `limits` say, with arguments that fit their schemas: the whole answer
    /// ([`ConstraintScope::Calls`]), or from the beginning of its first call on ([`ConstraintScope::CallsInText`]).
    ///
    /// # Errors
    /// A schema cannot be enforced, the format cannot be constrained, or calls that begin without a marker are to be
    /// found in text.
    pub fn calls(
        &self,
        calls: &CallSyntax,
        limits: &CallLimits,
        scope: ConstraintScope,
    ) -> Result<Arc<dyn Constraint>, GrammarError> {
        let format = &calls.format;
        if scope == ConstraintScope::CallsInText {
            check_markers(calls)?;
        }
        let shape = format.shape(&calls.tools, limits)?;
        let model = self.model()?;
        let text = CallLark::text(&shape, format.name(), &model.controls)?;
        let compiled = self.constraint_of(WHAT, scope, TopLevelGrammar::from_lark(text));
        compiled.map_err(|error| self.schema_at_fault(&shape).unwrap_or(error))
    }

    /// A constraint for answers that are a text that fits the JSON schema `source`, or that call tools as `limits` say
    /// ([`ConstraintScope::CallsOrText`]).
    ///
    /// # Errors
    /// As [`Self::calls`]; the answer cannot call tools, the source is no schema, or calls begin without a marker.
    pub fn calls_or_text(
        &self,
        source: &GrammarSource,
        syntax: &AnswerSyntax,
        limits: &CallLimits,
    ) -> Result<Arc<dyn Constraint>, GrammarError> {
        let fault = |format: &str, reason: &str| GrammarError::Calls {
            format: format.to_owned(),
            reason: reason.to_owned(),
        };
        let Some(calls) = &syntax.calls else { return Err(fault("text", "it has no calls")) };
        let name = calls.format.name();
        let Some(schema) = source.schema() else {
            return Err(fault(name, "beside calls, a text can only have a JSON schema"));
        };
        check_markers(calls)?;
        let shape = calls.format.shape(&calls.tools, limits)?;
        let model = self.model()?;
        let text = (syntax.answer_opening(), schema);
        let text = CallLark::with_text(&shape, name, &model.controls, text)?;
        let (scope, grammar) = (ConstraintScope::CallsOrText, TopLevelGrammar::from_lark(text));
        let compiled = self.constraint_of(WHAT, scope, grammar);
        compiled.map_err(|error| self.schema_at_fault(&shape).unwrap_or(error))
    }

    /// The error of the first schema that cannot be compiled by itself.
    fn schema_at_fault(&self, shape: &CallShape) -> Option<GrammarError> {
        match shape {
            CallShape::Json { tool, schema, .. } => {
                let compiled =
                    GrammarSource::parsed_schema(schema).and_then(|source| self.constraint(&source));
                let named = |error| match error {
                    GrammarError::Cancelled => GrammarError::Cancelled,
                    error => GrammarError::Tool { tool: tool.clone(), error: Box::new(error) },
                };
                compiled.err().map(named)
            }
            CallShape::Sequence(shapes) | CallShape::OneOf(shapes) => {
                shapes.iter().find_map(|shape| self.schema_at_fault(shape))
            }
            CallShape::Optional(inner) | CallShape::Repeated(inner) => self.schema_at_fault(inner),
            _ => None,
        }
    }
}

const WHAT: &str = "grammar of calls";

/// Refuses calls that cannot be told from text.
fn check_markers(calls: &CallSyntax) -> Result<(), GrammarError> {
    if !calls.format.keys().bare {
        return Ok(());
    }
    let reason = "its calls begin without a marker, so that they cannot be told from text in time";
    Err(GrammarError::Calls { format: calls.format.name().to_owned(), reason: reason.to_owned() })
}
