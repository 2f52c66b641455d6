//! `tokenize MODEL [TEXT]`.

use crate::failure::Failure;
use crate::model_arguments::{SpecArguments, locate};
use crate::output;
use clap::Args;
use menagerie::loaders::{GgufLoader, Special, Tokenizer};
use menagerie::registry::GGUFArchitecture;
use serde::Serialize;
use std::io::Read;
use std::path::PathBuf;

/// Show the tokens of a text
///
/// Any GGUF that has a tokenizer will do, also one without weights or of an unknown architecture.
#[derive(Args)]
pub(crate) struct TokenizeCommand {
    /// A .gguf file, smollm2, org/repo, org/repo:QUANT or hf:org/repo/file.gguf
    model: String,
    /// The text [default: standard input]
    text: Option<String>,
    /// Read the text from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Read special tokens in the text as such
    #[arg(long)]
    parse_special: bool,
    /// Add the tokens that the model wants at the beginning and end of a prompt
    #[arg(long)]
    frame: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

/// One token, as listed.
#[derive(Serialize)]
struct Listed {
    id: u32,
    piece: String,
    kind: &'static str,
}

impl TokenizeCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let text = self.read()?;
        let tokenizer = self.tokenizer()?;
        let special = if self.parse_special { Special::Parse } else { Special::Plain };
        let mut ids = tokenizer.encode(&text, special)?;
        if self.frame {
            ids = tokenizer.frame(ids);
        }
        let mut tokens = Vec::new();
        for id in ids {
            let kind = tokenizer.token_kind(id)?.name();
            tokens.push(Listed { id, piece: tokenizer.token_piece(id)?, kind });
        }
        if self.json {
            return output::json(&serde_json::json!({
                "model": tokenizer.model(), "pre": tokenizer.pre(), "count": tokens.len(), "tokens": tokens,
            }));
        }
        let row =
            |token: &Listed| vec![token.id.to_string(), format!("{:?}", token.piece), token.kind.to_owned()];
        output::table(&["id", "piece", "kind"], &tokens.iter().map(row).collect::<Vec<_>>())?;
        output::line(&format!("{} tokens", tokens.len()))
    }

    /// A spec may say how to split where the file does not; an unknown architecture has none.
    fn tokenizer(&self) -> Result<Tokenizer, Failure> {
        let loader = GgufLoader::open(&locate(&self.model)?, &Default::default())?;
        let registry = self.specs.registry()?;
        let named = loader.architecture().ok().and_then(|name| GGUFArchitecture::new(name).ok());
        let spec = named.and_then(|name| registry.resolve(&name).ok()).map(|(_, spec)| spec);
        Ok(loader.tokenizer(spec.as_ref().and_then(|spec| spec.pre_tokenizer()))?)
    }

    fn read(&self) -> Result<String, Failure> {
        if let Some(text) = &self.text {
            return Ok(text.clone());
        }
        if let Some(file) = &self.file {
            return std::fs::read_to_string(file).map_err(|error| Failure::about(file.display(), error));
        }
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::about("standard input", error))?;
        Ok(text)
    }
}
