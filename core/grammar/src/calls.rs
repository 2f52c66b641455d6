//! Calls of tools as constraints: [`GrammarCompiler::calls`].

use crate::call_lark::CallLark;
use crate::compiler::{GrammarCompiler, constraint_of};
use crate::error::GrammarError;
use crate::model_parts::ModelParts;
use crate::source::GrammarSource;
use llguidance::api::TopLevelGrammar;
use menagerie_engine::{CallLimits, CallShape, CallSyntax, Constraint, ConstraintScope};
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
        let fault = |reason: &str| GrammarError::Calls {
            format: format.name().to_owned(),
            reason: reason.to_owned(),
        };
        if scope == ConstraintScope::CallsInText && format.keys().bare {
            return Err(fault(
                "its calls begin without a marker, so that they cannot be told from text in time",
            ));
        }
        let shape = format.shape(&calls.tools, limits)?;
        let model = self.model()?;
        let text = CallLark::text(&shape, format.name(), &model.controls)?;
        let compiled = constraint_of(&model, "grammar of calls", scope, TopLevelGrammar::from_lark(text));
        compiled.map_err(|error| schema_at_fault(&shape, &model).unwrap_or(error))
    }
}

/// The error of the first schema that cannot be compiled by itself.
fn schema_at_fault(shape: &CallShape, model: &Arc<ModelParts>) -> Option<GrammarError> {
    match shape {
        CallShape::Json { tool, schema, .. } => {
            let source = GrammarSource::json_schema(schema);
            let compiled = source.and_then(|source| {
                constraint_of(model, source.what(), ConstraintScope::Text, source.grammar()).map(drop)
            });
            compiled.err().map(|error| GrammarError::Tool { tool: tool.clone(), error: Box::new(error) })
        }
        CallShape::Sequence(shapes) | CallShape::OneOf(shapes) => {
            shapes.iter().find_map(|shape| schema_at_fault(shape, model))
        }
        CallShape::Optional(inner) | CallShape::Repeated(inner) => schema_at_fault(inner, model),
        _ => None,
    }
}
