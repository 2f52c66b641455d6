//! The mixer `short-conv`.

use crate::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};
use crate::options;

/// A short convolution of one layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ShortConvConfig {
    /// L: taps of the convolution; `L - 1` earlier rows are carried from step to step.
    pub length: usize,
}

options! {
    /// Options of `short-conv`.
    pub struct ShortConvOptions {
        /// Taps of the convolution, in tokens.
        length: usize = Key("shortconv.l_cache"),
    }
}

impl Definition for ShortConvConfig {
    type Options = ShortConvOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "short-conv";
    const DOC: &'static str = "A causal depthwise convolution between two gates (LFM2, 2025).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear(
            "shortconv.in_proj",
            &["D", "3*D"],
            "Gate before, gate after, and input of the convolution.",
        ),
        RoleDef::values(
            "shortconv.conv",
            &["L", "D"],
            "Taps of each channel, the last for the current token.",
        ),
        RoleDef::linear("shortconv.out_proj", &["D", "D"], "The output projection."),
    ];

    fn resolve(options: ShortConvOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let ShortConvOptions { length } = options;
        if length == 0 {
            return at.key_fault("shortconv.l_cache", "a convolution requires at least one tap".to_owned());
        }
        Ok(Self { length })
    }

    fn sizes(&self, into: &mut Sizes) {
        into.set("L", self.length);
    }
}
