//! The mixer `sum`.

use crate::kind::{Component, Definition, Family, InnerMixer, RecordedFault, ResolveContext, Sizes};
use crate::options;

/// Two mixers on the same rows, whose outputs are added.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SumConfig {
    /// One.
    pub first: Component,
    /// The other.
    pub second: Component,
}

options! {
    /// Options of `sum`.
    pub struct SumOptions {
        /// The first mixer, with its `kind`.
        first: InnerMixer = Required,
        /// The other.
        second: InnerMixer = Required,
    }
}

impl Definition for SumConfig {
    type Options = SumOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "sum";
    const DOC: &'static str = "Two mixers on the same rows, whose outputs are added (Falcon-H1).";

    fn resolve(options: SumOptions, _at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let SumOptions { first: InnerMixer(first), second: InnerMixer(second) } = options;
        Ok(Self { first, second })
    }

    fn sizes(&self, _into: &mut Sizes) {}

    fn parts(&self) -> Vec<&Component> {
        vec![&self.first, &self.second]
    }
}
