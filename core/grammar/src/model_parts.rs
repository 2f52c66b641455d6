//! [`ModelParts`]: what all constraints of a model share.

use crate::control_tokens::ControlTokens;
use llguidance::ParserFactory;
use llguidance::toktrie::TokEnv;

/// What all constraints of a model share.
pub(crate) struct ModelParts {
    pub(crate) factory: ParserFactory,
    pub(crate) vocabulary: TokEnv,
    pub(crate) controls: ControlTokens,
}
