//! Arguments of the commands that can run hooks between the layers of a model.

use crate::arguments::layer_range::layer_range;
use crate::arguments::name_or_path::path_and_number;
use crate::failure::Failure;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use menagerie::engine::{NamedHook, TextPipeline};
use menagerie::measure::{ControlVectorOption, SteeringOptions, steering};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Control vectors and hooks.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct HookArguments {
    /// Add a control vector times SCALE (default 1) to the residual stream; repeatable, all are added. `control-vector make`
    /// creates one
    #[arg(long, hide_short_help = true, value_name = "FILE[=SCALE]", value_parser = OsStringValueParser::new().try_map(control_vector), help_heading = "Model")]
    control_vector: Vec<ControlVectorOption>,
    /// Layers after which control vectors are added, first to last (inclusive), counted from 0 [default: all that the
    /// vectors have]
    #[arg(long, hide_short_help = true, value_name = "A-B", value_parser = layer_range, requires = "control_vector", help_heading = "Model")]
    control_vector_layers: Option<RangeInclusive<usize>>,
    /// Accept control vectors whose file says that they were made for a model of this name
    #[arg(
        long,
        hide_short_help = true,
        value_name = "NAME",
        requires = "control_vector",
        help_heading = "Model"
    )]
    control_vector_hint: Option<String>,
    /// Run a plugin's hook between the layers: it reads or replaces hidden states (repeatable, called in this order).
    /// Options: the hook's own, layers=A-B, and phase=prefill or phase=decode
    #[arg(long, hide_short_help = true, value_name = "NAME[=KEY=VALUE,..]", help_heading = "Model")]
    hook: Vec<String>,
}

impl HookArguments {
    /// Whether any option is given.
    pub(crate) fn are_given(&self) -> bool {
        !self.control_vector.is_empty() || !self.hook.is_empty()
    }

    /// Refuses unknown hooks and unknown options of hooks, before anything is opened.
    pub(crate) fn check(&self, installed: &Environment) -> Result<(), Failure> {
        let parse = |hook: &String| NamedHook::parse(hook, installed.entries()).map(drop);
        self.hook.iter().try_for_each(parse).map_err(Failure::Usage)
    }

    /// Installs the control vectors and hooks for all requests that the pipeline starts from now on.
    pub(crate) fn install(
        &self,
        pipeline: &mut LoadedModel<TextPipeline>,
        installed: &Environment,
    ) -> Result<(), Failure> {
        if !self.control_vector.is_empty() {
            let options = SteeringOptions::default()
                .with_layers(self.control_vector_layers.clone())
                .with_hint(self.control_vector_hint.clone());
            let steering = steering(pipeline, &self.control_vector, &options)?;
            pipeline.add_hook(Arc::new(steering));
        }
        for hook in &self.hook {
            let hook = NamedHook::parse(hook, installed.entries());
            hook.and_then(|hook| pipeline.add_named_hook(&hook)).map_err(Failure::Usage)?;
        }
        Ok(())
    }
}

/// Parses a file and its scale. A text with `=` that is the name of an existing file is a path without a scale.
fn control_vector(typed: OsString) -> Result<ControlVectorOption, String> {
    let Some((path, scale)) = path_and_number(&typed) else {
        return Ok(ControlVectorOption { path: typed.into(), scale: 1.0 });
    };
    let value: f32 = scale.parse().map_err(|_| format!("scale `{scale}` is not a number"))?;
    if !value.is_finite() {
        return Err(format!("scale `{scale}` is not finite"));
    }
    Ok(ControlVectorOption { path, scale: value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_follows_the_last_equals_sign() {
        let control_vector = |text: &str| control_vector(text.into());
        let found = control_vector("some/happy.gguf=-0.5").unwrap();
        assert_eq!((found.path.to_str().unwrap(), found.scale), ("some/happy.gguf", -0.5));
        assert_eq!(control_vector("happy.gguf").unwrap().scale, 1.0);
        assert!(control_vector("happy.gguf=much").unwrap_err().contains("`much`"));
        assert!(control_vector("happy.gguf=nan").is_err());
    }
}
