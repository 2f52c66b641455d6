//! Opens a model or a recipe by its name, downloads what is missing, and continues a text.
//!
//! ```sh
//! cargo run --release --package menagerie --features hub --example open_by_name -- smollm2 "Once upon a time"
//! cargo run --release --package menagerie --features hub --example open_by_name -- org/repo:Q4_K_M "Once upon a time"
//! ```

use menagerie::engine::Request;
use menagerie::hub::{Hub, HubSettings, ModelReference, NoProgress};
use menagerie::open::{Locate, ModelBuilder};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Finds models on the hub; also those that a recipe names.
struct HubModels(Hub);

impl Locate for HubModels {
    fn locate(&self, reference: &Path) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
        let reference = match ModelReference::path(reference) {
            Some(path) => ModelReference::Path(path),
            None => ModelReference::parse(&reference.to_string_lossy())?,
        };
        Ok(self.0.obtain(&reference, &mut NoProgress)?)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(prompt)) = (arguments.next(), arguments.next()) else {
        return Err("usage: open_by_name NAME PROMPT".into());
    };
    let models = HubModels(Hub::new(HubSettings::of_process()));
    let pipeline = ModelBuilder::new(name).with_locate(&models).open_text()?;
    let mut session = pipeline.session()?;
    print!("{prompt}");
    for text in session.events(&prompt, &Request::greedy(64)).text() {
        print!("{}", text?);
        std::io::stdout().flush()?;
    }
    println!();
    Ok(())
}
