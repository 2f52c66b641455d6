//! The mixer `linear`.

use super::none::NoOptions;
use crate::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};

/// One product in the place of a mixer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LinearMixerConfig {}

impl Definition for LinearMixerConfig {
    type Options = NoOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "linear";
    const DOC: &'static str = "One linear in place of attention (Puzzle, 2024): tokens do not interact.";
    const ROLES: &'static [RoleDef] = &[RoleDef::linear("attn_output", &["D", "D"], "The product.")];

    fn resolve(NoOptions {}: NoOptions, _: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        Ok(Self {})
    }

    fn sizes(&self, _: &mut Sizes) {}
}
