//! What a GGUF file holds: `cargo run -p gguf-file --example inspect -- MODEL.gguf`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;

use gguf_file::{GgufFile, OpenOptions, Value};

/// Characters of a text that are shown.
const SHOWN: usize = 60;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args().nth(1) else {
        return Err("give a .gguf file".into());
    };
    let file = GgufFile::open(Path::new(&path), &OpenOptions::default())?;
    println!("GGUF version {}, {} bytes", file.version(), file.file_bytes());
    for (key, value) in file.metadata().iter() {
        println!("{key} = {}", shown(value));
    }
    for tensor in file.tensors() {
        println!("{} {:?} {} at byte {}", tensor.name(), tensor.dims(), tensor.kind(), tensor.offset());
    }
    Ok(())
}

/// A value on one line.
fn shown(value: Value<'_>) -> String {
    match value {
        Value::String(text) => {
            let start: String = text.chars().take(SHOWN).collect();
            let more = if start.len() < text.len() { "..." } else { "" };
            format!("{start:?}{more}")
        }
        Value::Array(array) => format!("{} of {}", array.len(), array.element_type()),
        other => format!("{other:?}"),
    }
}
