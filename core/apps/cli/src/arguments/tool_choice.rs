//! The argument that chooses which tools are called.

use crate::failure::Failure;
use clap::Args;
use menagerie::engine::{AnswerSyntax, CallLimits, Constraint, RenderOptions, TextPipeline, ToolSet};
use menagerie::grammar::GrammarCompiler;
use menagerie_openai::CallChoice;
use std::sync::Arc;

/// Which tools are called.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ToolChoiceArgument {
    /// Whether the answer calls tools: auto, none, required, or the name of the tool that it calls [default: auto]
    ///
    /// With required or a name, the answer after the reasoning consists of calls whose arguments fit the schema of the
    /// tool. A schema that cannot be enforced is an error.
    #[arg(long, hide_short_help = true, value_name = "CHOICE", requires = "tools", help_heading = "Chat")]
    #[arg(conflicts_with_all = ["raw", "ignore_eos"])]
    tool_choice: Option<String>,
}

impl ToolChoiceArgument {
    /// Whether it was given.
    pub(crate) fn is_given(&self) -> bool {
        self.tool_choice.is_some()
    }

    /// The choice for a prompt with these options, whose tools it removes if none may be called; `None` without tools.
    ///
    /// # Errors
    /// The name of no tool.
    pub(crate) fn apply(&self, options: &mut RenderOptions) -> Result<Option<CallChoice>, Failure> {
        let Some(tools) = options.tools.as_ref().filter(|tools| !tools.is_empty()) else { return Ok(None) };
        let auto = CallChoice::auto(tools);
        match self.tool_choice.as_deref() {
            None | Some("auto") => Ok(Some(auto)),
            Some("none") => {
                options.tools = None;
                Ok(None)
            }
            Some("required") => Ok(Some(CallChoice { required: true, ..auto })),
            Some(name) => {
                let set = ToolSet::new(tools).map_err(|fault| Failure::Usage(fault.to_string()))?;
                if !set.has(name) {
                    let known = set.schemas().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
                    return Err(Failure::Usage(format!("--tool-choice: no tool has the name `{name}`"))
                        .with_help(&format!("expected auto, none, required, or one of the tools: {known}")));
                }
                let limits = CallLimits::new(Some(vec![name.to_owned()]), false);
                Ok(Some(CallChoice { required: true, limits, ..auto }))
            }
        }
    }
}

/// The constraint of the answers to prompts with tools; `None` if calls stay free.
///
/// # Errors
/// The choice cannot be enforced.
pub(crate) fn call_constraint(
    choice: Option<&CallChoice>,
    pipeline: &TextPipeline,
    syntax: &AnswerSyntax,
    ignores_end: bool,
) -> Result<Option<Arc<dyn Constraint>>, Failure> {
    let Some(choice) = choice else { return Ok(None) };
    let compiler = GrammarCompiler::new(Arc::clone(pipeline.tokenizer()?));
    let constraint = choice.constraint(&compiler, syntax, ignores_end);
    constraint.map_err(|fault| {
        Failure::about("--tools", fault).with_help("`menagerie guide tool-calls` says what is supported")
    })
}
