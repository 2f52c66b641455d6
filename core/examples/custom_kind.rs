//! A kind of one's own: a norm that a spec can name, with an option and a tensor, in one file and without a change in the
//! core. Run it with a folder that holds a spec saying `kind = "scaled"` and a model of it; without one it lists the norms
//! that specs may name, ours among them.
//!
//! ```sh
//! cargo run --release --package menagerie --example custom_kind
//! ```

use menagerie::model::{Norm, Param, Result as ModelResult, Rows, TransformContext};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie::registry::{BuildResult, ComponentParts, NormTarget, TensorPart, component};
use menagerie::spec::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};
use menagerie::spec::options;

/// `factor * weight * x`: no norm at all, but a kind.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
struct ScaledConfig {
    factor: f32,
}

options! {
    /// Options of `scaled`.
    struct ScaledOptions {
        /// Multiplies every row.
        factor: f32 = Number(1.0) => guarded,
    }
}

impl Definition for ScaledConfig {
    type Options = ScaledOptions;
    const FAMILY: Family = Family::Norm;
    const NAME: &'static str = "scaled";
    const DOC: &'static str = "`factor * weight * x`.";
    const ROLES: &'static [RoleDef] = &[RoleDef::values("", &["width"], "Multiplies the row.")];

    fn resolve(options: ScaledOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let ScaledOptions { factor } = options;
        if factor == 0.0 {
            return at.fault("factor", "0 would silence the row");
        }
        Ok(Self { factor })
    }

    fn sizes(&self, _into: &mut Sizes) {}
}

component!(norm ScaledConfig, build);

fn build(
    config: &ScaledConfig,
    parts: &mut dyn ComponentParts,
    place: &NormTarget,
) -> BuildResult<Box<dyn Norm>> {
    let ScaledConfig { factor } = *config;
    let values = parts.values(place.role, TensorPart::Main)?;
    let weight = parts.vector(place.role, values)?;
    Ok(Box::new(Scaled { factor, weight }))
}

struct Scaled {
    factor: f32,
    weight: Param,
}

impl Norm for Scaled {
    fn forward(&self, x: &Rows, context: &TransformContext) -> ModelResult<Rows> {
        let backend = &context.compute.backend;
        let scaled = backend.scale(backend.copy(x)?, self.factor)?;
        backend.multiply_vector(scaled, &self.weight)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next();
    let options = LoadOptions::default().with_spec_dirs(folder.iter().map(Into::into).collect());
    let known = options.specs.environment()?;
    for component in known.components().iter().filter(|component| component.kind.family == Family::Norm) {
        println!("{}: {} ({})", component.kind.name, component.kind.doc, component.registered_by);
    }
    if let Some(model) = arguments.next() {
        let pipeline =
            ModelBuilder::new(model).with_environment(&known).with_options(&options).open_text()?;
        println!("{} opened", pipeline.architecture());
    }
    Ok(())
}
