//! A conversation, a line at a time.
//!
//! ```sh
//! cargo run --release --package menagerie --example chat -- model.gguf
//! ```

use menagerie::engine::{Event, Request};
use menagerie::open::ModelBuilder;
use std::io::{BufRead, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(model) = std::env::args().nth(1) else { return Err("usage: chat MODEL.gguf".into()) };
    let pipeline = ModelBuilder::new(model).open_text()?;
    let mut chat = pipeline.chat()?;
    chat.set_system("Answer briefly.");
    for line in std::io::stdin().lock().lines() {
        chat.send(&line?, &Request::greedy(256), |event| {
            if let Event::Text(text) = event {
                print!("{text}");
                let _ = std::io::stdout().flush();
            }
        })?;
        println!();
    }
    println!("{}", chat.to_json()?);
    Ok(())
}
