//! [`CallChoice`]: which tools an answer may or must call, as a constraint of the answer.

use menagerie::engine::{AnswerSyntax, CallLimits, Constraint, ConstraintScope};
use menagerie::grammar::{GrammarCompiler, GrammarSource};
use serde_json::Value;
use std::sync::Arc;

/// Which tools an answer may or must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallChoice {
    /// Whether the answer must call a tool.
    pub required: bool,
    /// The tools that may be called, and how often.
    pub limits: CallLimits,
    /// Whether a tool asks for arguments that fit its schema (`strict: true`).
    pub strict: bool,
}

const UNREAD: &str =
    "the calls of this model are text, so that they cannot be chosen (--accept-unverified-calls)";
const END_IGNORED: &str = "the answer ends where its calls end, so the end of the answer cannot be ignored \
                           (--ignore-eos, ignore_eos): leave out one of the two";

impl CallChoice {
    /// The choice of `auto` for these tools.
    pub fn auto(tools: &[Value]) -> Self {
        let strict = |tool: &Value| tool.get("function").unwrap_or(tool)["strict"] == true;
        Self { required: false, limits: CallLimits::default(), strict: tools.iter().any(strict) }
    }

    /// Whether an answer that cannot be constrained is refused. What is only `auto` stays free.
    fn must_hold(&self) -> bool {
        self.required || self.strict || self.limits != CallLimits::default()
    }

    /// The part of an answer that is constrained.
    pub fn scope(&self) -> ConstraintScope {
        if self.required { ConstraintScope::Calls } else { ConstraintScope::CallsInText }
    }

    /// The constraint of an answer with this syntax; `None` if its calls stay free.
    ///
    /// # Errors
    /// Why the choice cannot be enforced.
    pub fn constraint(
        &self,
        compiler: &GrammarCompiler,
        syntax: &AnswerSyntax,
        ignores_end: bool,
    ) -> Result<Option<Arc<dyn Constraint>>, String> {
        let made = match &syntax.calls {
            None => Err(UNREAD.to_owned()),
            Some(_) if ignores_end => Err(END_IGNORED.to_owned()),
            Some(calls) => {
                compiler.calls(calls, &self.limits, self.scope()).map_err(|error| error.to_string())
            }
        };
        match made {
            Ok(constraint) => Ok(Some(constraint)),
            Err(fault) if self.must_hold() => Err(fault),
            Err(_) => Ok(None),
        }
    }

    /// The constraint of an answer with this syntax that calls tools or is a text that fits a schema. An answer that must
    /// call a tool has no text.
    ///
    /// # Errors
    /// Why the choice cannot be enforced.
    pub(crate) fn constraint_with_text(
        &self,
        compiler: &GrammarCompiler,
        syntax: &AnswerSyntax,
        source: &GrammarSource,
    ) -> Result<Option<Arc<dyn Constraint>>, String> {
        if self.required {
            return self.constraint(compiler, syntax, false);
        }
        if syntax.calls.is_none() {
            return Err(UNREAD.to_owned());
        }
        compiler.calls_or_text(source, syntax, &self.limits).map(Some).map_err(|error| error.to_string())
    }
}
