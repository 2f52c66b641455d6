//! `tokenize MODEL [TEXT]`: prints the tokens of a text.

use crate::arguments::model_source::find_source;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::report;
use crate::{output, prompt};
use clap::Args;
use menagerie::assembly::HfModel;
use menagerie::loaders::{GgufLoader, HfTexts, LoadError, Special, Tokenizer, TokenizerOptions};
use menagerie::open::tokenizer_tables;
use menagerie::registry::{Environment, GGUFArchitecture};
use serde::Serialize;
use std::path::PathBuf;

/// Show the tokens of a text
///
/// Any GGUF file with a tokenizer can be used, even without weights or of an unsupported architecture. Files and standard
/// input are tokenized unchanged, including a trailing newline.
#[derive(Args)]
pub(crate) struct TokenizeCommand {
    /// A .gguf file, a folder with config.json, smollm2, org/repo, org/repo:QUANT or hf:org/repo/file.gguf
    model: NameOrPath,
    /// The text; - for standard input [default: standard input]
    text: Option<String>,
    /// Read the text from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Parse special tokens in the text
    #[arg(long)]
    parse_special: bool,
    /// Add the special tokens that the model adds at the start and end of a prompt
    #[arg(long)]
    frame: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

/// A token in the list.
#[derive(Serialize)]
struct TokenRow {
    id: u32,
    piece: String,
    /// The bytes, if they are not valid UTF-8 by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Vec<u8>>,
    kind: &'static str,
}

/// Builds the tokenizer of an open file or folder.
type LoadTokenizer = dyn Fn(&TokenizerOptions<'_>) -> Result<Tokenizer, LoadError>;

impl TokenRow {
    fn new(tokenizer: &Tokenizer, id: u32) -> Result<Self, Failure> {
        let bytes = tokenizer.token_bytes(id)?;
        let part = std::str::from_utf8(&bytes).is_err();
        Ok(Self {
            id,
            piece: tokenizer.token_piece(id)?,
            bytes: part.then_some(bytes),
            kind: tokenizer.token_kind(id)?.name(),
        })
    }

    /// The piece as text, or its bytes if it is part of a character.
    fn shown(&self) -> String {
        match &self.bytes {
            Some(bytes) => bytes.iter().map(|byte| format!("<0x{byte:02X}>")).collect(),
            None => format!("{:?}", self.piece),
        }
    }
}

impl Runnable for TokenizeCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let text = self.read()?;
        let tokenizer = self.tokenizer(installed)?;
        let special = if self.parse_special { Special::Parse } else { Special::Plain };
        let mut ids = tokenizer.encode(&text, special)?;
        if self.frame {
            ids = tokenizer.frame(ids);
        }
        let tokens = ids.iter().map(|&id| TokenRow::new(&tokenizer, id)).collect::<Result<Vec<_>, _>>()?;
        if self.json {
            return output::json(&serde_json::json!({
                "model": tokenizer.model(), "pre": tokenizer.pre(), "count": tokens.len(), "tokens": tokens,
            }));
        }
        let row = |token: &TokenRow| vec![token.id.to_string(), token.shown(), token.kind.to_owned()];
        output::table(&["id", "piece", "kind"], &tokens.iter().map(row).collect::<Vec<_>>())?;
        output::line(&output::counted(tokens.len(), "token"))
    }
}

impl TokenizeCommand {
    /// The tokenizer. The spec may state the pre-tokenizer if the file does not.
    fn tokenizer(&self, installed: &Environment) -> Result<Tokenizer, Failure> {
        let environment = self.specs.environment(installed)?;
        let path = find_source(&self.model, &self.specs, &environment)?.path;
        // In a folder the tokenizer's own files are complete.
        let loaded: Box<LoadTokenizer>;
        let mut spec = None;
        match HfModel::folder_of(&path) {
            Some(folder) => {
                let texts = HfTexts::open(folder)?;
                loaded = Box::new(move |options| texts.tokenizer(options));
            }
            None => {
                let loader = GgufLoader::open(&path, &Default::default())?;
                let named = loader.architecture().ok().and_then(|name| GGUFArchitecture::new(name).ok());
                spec = named.and_then(|name| environment.resolve(&name).ok()).map(|(_, spec)| spec);
                loaded = Box::new(move |options| loader.tokenizer(options));
            }
        }
        let (tables, notices) = tokenizer_tables(&environment)?;
        for notice in notices {
            report::note(&notice.to_string());
        }
        let pre = spec.as_ref().and_then(|spec| spec.pre_tokenizer());
        Ok(loaded(&TokenizerOptions::default().with_pre(pre).with_tables(tables))?)
    }

    fn read(&self) -> Result<String, Failure> {
        let (bytes, from) = match (&self.text, &self.file) {
            (Some(text), _) if text != "-" => return Ok(text.clone()),
            (None, Some(file)) if file.as_os_str() != "-" => {
                (prompt::read_bytes(file)?, file.display().to_string())
            }
            _ => (prompt::standard_input(false)?, "standard input".to_owned()),
        };
        prompt::utf8(bytes, &from)
    }
}
