//! What a file is made of, and where each value comes from that only logits could guard.
//!
//! ```sh
//! cargo run --release --package menagerie --example inspect -- model.gguf
//! ```

use menagerie::open::ModelBuilder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(model) = std::env::args().nth(1) else { return Err("usage: inspect MODEL.gguf".into()) };
    let pipeline = ModelBuilder::new(model).open_text()?;
    println!("{}: {} tokens of context, {}", pipeline.architecture(), pipeline.context(), pipeline.memory());
    let resolved = pipeline.resolved();
    println!("spec {} from {}", resolved.spec.id(), resolved.origin);
    for layer in &resolved.config().layers {
        let kind = |component: &Option<menagerie::spec::kind::Component>| {
            component.as_ref().map_or("none", |component| component.kind().name)
        };
        println!("block {}: {}, {}", layer.index, kind(&layer.mixer), kind(&layer.feed_forward));
    }
    for fact in resolved.resolution.from_spec_only() {
        println!("{} = {} ({})", fact.path, fact.value, fact.origin);
    }
    Ok(())
}
