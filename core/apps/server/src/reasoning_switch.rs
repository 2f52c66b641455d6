//! [`ReasoningSwitch`]: how a chat template is asked for reasoning.

use menagerie::engine::{ChatCapable, ChatMessage, RenderOptions, RenderedPrompt};
use serde_json::{Map, Value};

/// Variables with which templates switch reasoning on and off.
const FLAGS: [&str; 2] = ["enable_thinking", "thinking"];
/// The variable with which templates set how much a model reasons.
const EFFORT: &str = "reasoning_effort";

/// What a client wants of a model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReasoningWish {
    On,
    Off,
    /// If the template can ask for it.
    Adaptive,
    /// As much: `low`, `medium` or `high`.
    Effort(&'static str),
}

/// What the prompts of a chat template depend on. It is found by rendering: a variable that changes no prompt is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReasoningSwitch {
    flag: Option<&'static str>,
    has_effort: bool,
    /// Whether answers begin in reasoning by default.
    is_open: bool,
}

impl ReasoningSwitch {
    /// The switch of a template with these options.
    pub(crate) fn of(format: &dyn ChatCapable, options: &RenderOptions) -> Self {
        let render = |changes: &[(&str, Value)]| -> Option<RenderedPrompt> {
            let mut options = options.clone();
            options.tools = None;
            options.arguments.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            format.render_prompt(&[ChatMessage::user("?")], &options).ok()
        };
        let differs = |name: &str, one: Value, other: Value| {
            let texts = [one, other].map(|value| render(&[(name, value)]).map(|prompt| prompt.text));
            matches!(texts, [Some(one), Some(other)] if one != other)
        };
        Self {
            flag: FLAGS.into_iter().find(|name| differs(name, true.into(), false.into())),
            has_effort: differs(EFFORT, "low".into(), "high".into()),
            is_open: render(&[]).is_some_and(|prompt| prompt.syntax.reasoning_open.is_some()),
        }
    }

    /// Sets the variable that does what the client wants.
    ///
    /// # Errors
    /// The template cannot do it.
    pub(crate) fn set(
        self,
        wish: ReasoningWish,
        arguments: &mut Map<String, Value>,
    ) -> Result<(), &'static str> {
        let (name, value) = match (wish, self.flag) {
            (ReasoningWish::Effort(effort), _) if self.has_effort => (EFFORT, effort.into()),
            (ReasoningWish::Effort(_), _) => {
                return Err("the chat template of the model has no variable for how much it reasons");
            }
            (wish, Some(name)) => (name, (wish != ReasoningWish::Off).into()),
            (ReasoningWish::Adaptive, None) => return Ok(()),
            (ReasoningWish::On, None) if self.is_known() => return Ok(()),
            (ReasoningWish::On, None) => {
                return Err("the chat template of the model has no variable that switches reasoning on");
            }
            (ReasoningWish::Off, None) if self.is_known() => {
                return Err("the chat template of the model has no variable that switches reasoning off");
            }
            (ReasoningWish::Off, None) => return Ok(()),
        };
        arguments.insert(name.to_owned(), value);
        Ok(())
    }

    /// Whether the template knows reasoning.
    pub(crate) fn is_known(self) -> bool {
        self.flag.is_some() || self.has_effort || self.is_open
    }
}
