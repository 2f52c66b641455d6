//! Continues a text.
//!
//! ```sh
//! cargo run --release --package menagerie --example generate -- model.gguf "Once upon a time"
//! ```

use menagerie::engine::{Event, Request};
use menagerie::open::ModelBuilder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(prompt)) = (arguments.next(), arguments.next()) else {
        return Err("usage: generate MODEL.gguf PROMPT".into());
    };
    let pipeline = ModelBuilder::new(model).open_text()?;
    for notice in pipeline.notices() {
        eprintln!("note: {notice}");
    }
    print!("{prompt}");
    let outcome = pipeline.session()?.generate(&prompt, &Request::greedy(64), |event| {
        if let Event::Text(text) = event {
            print!("{text}");
        }
    })?;
    println!("\n{}, {}", outcome.reason, outcome.statistics);
    Ok(())
}
