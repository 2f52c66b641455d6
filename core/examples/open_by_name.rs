//! Opens a model by its name, downloading it where it is missing, and continues a text.
//!
//! ```sh
//! cargo run --release --package menagerie --features hub --example open_by_name -- smollm2 "Once upon a time"
//! cargo run --release --package menagerie --features hub --example open_by_name -- org/repo:Q4_K_M "Once upon a time"
//! ```

use menagerie::engine::Request;
use menagerie::hub::{Hub, HubSettings, ModelReference, Silent};
use menagerie::open::{LoadOptions, open_text};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(prompt)) = (arguments.next(), arguments.next()) else {
        return Err("usage: open_by_name NAME PROMPT".into());
    };
    let hub = Hub::new(HubSettings::of_process());
    let path = hub.obtain(&ModelReference::parse(&name)?, &mut Silent)?;
    let pipeline = open_text(path, &LoadOptions::default())?;
    let mut session = pipeline.session()?;
    print!("{prompt}");
    for text in session.events(&prompt, &Request::greedy(64)).text() {
        print!("{}", text?);
        std::io::stdout().flush()?;
    }
    println!();
    Ok(())
}
