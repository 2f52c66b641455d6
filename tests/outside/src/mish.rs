//! The activation `mish`: `x * tanh(ln(1 + exp(beta * x)))` (Misra, 2019, with a slope).

use menagerie_model::{ElementWise, Result};
use menagerie_registry::{BuildResult, ComponentParts, component};
use menagerie_spec::kind::{Definition, Family, RecordedFault, ResolveContext, Sizes};
use menagerie_spec::options;
use std::sync::Arc;

/// Mish.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MishConfig {
    /// Multiplies inside.
    pub beta: f32,
}

options! {
    /// Options of `mish`.
    pub struct MishOptions {
        /// Multiplies inside.
        beta: f32 = Number(1.0) => guarded,
    }
}

impl Definition for MishConfig {
    type Options = MishOptions;
    const FAMILY: Family = Family::Activation;
    const NAME: &'static str = "mish";
    const DOC: &'static str = "`x * tanh(ln(1 + exp(beta * x)))` (Misra, 2019).";

    fn resolve(options: MishOptions, _at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let MishOptions { beta } = options;
        Ok(Self { beta })
    }

    fn sizes(&self, _into: &mut Sizes) {}
}

component!(activation MishConfig, build);

fn build(config: &MishConfig, _parts: &mut dyn ComponentParts) -> BuildResult<Arc<dyn ElementWise>> {
    let MishConfig { beta } = *config;
    Ok(Arc::new(Mish { beta }))
}

struct Mish {
    beta: f32,
}

impl ElementWise for Mish {
    fn apply(&self, x: &[f32], _width: usize, out: &mut [f32]) -> Result<()> {
        for (out, x) in out.iter_mut().zip(x) {
            let inside = self.beta * x;
            *out = x * (inside.max(0.0) + (-inside.abs()).exp().ln_1p()).tanh();
        }
        Ok(())
    }
}
