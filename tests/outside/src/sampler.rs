//! The sampler `outside/steps:only`: keeps one token.

use menagerie_engine::{Sampler, SamplerKind, SamplerStep};
use menagerie_registry::register;
use std::sync::Arc;

const NAME: &str = "outside/steps:only";

register!(SamplerKind {
    name: NAME,
    doc: "Keeps one token.",
    options: &[("token", "its id")],
    registered_by: env!("CARGO_PKG_NAME"),
    with_options: Arc::new(|options| {
        let [(_, id)] = options else { return Err("the option `token` is missing".to_owned()) };
        let id: usize = id.parse().map_err(|_| format!("token={id}: expected a number"))?;
        Ok(Sampler::new(NAME, move || Ok(Box::new(Only(id)))))
    }),
});

/// Drops every token but one.
struct Only(usize);

impl SamplerStep for Only {
    fn sample(&mut self, logits: &mut [f32], _: &[u32], _: usize, _: u64) -> Result<(), String> {
        let others = logits.iter_mut().enumerate().filter(|(id, _)| *id != self.0);
        others.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
        Ok(())
    }
}
