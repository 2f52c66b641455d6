//! [`HfTexts`]: the tokenizer, chat templates and settings of a Hugging Face folder, everything beside its weights.

mod document;
mod generation;
mod gguf_keys;
mod names;
mod ranked_files;
mod sentence_piece;
mod templates;
mod vocabulary_keys;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use gguf_file::{GgufFile, GgufWriter, OwnedArray, OwnedValue};

use document::Document;
pub use gguf_keys::VocabularyKeys;
use sentence_piece::SentencePiece;
use vocabulary_keys::TokenColumns;

use crate::loader::{LoadError, SamplingDefaults};
use crate::tables::TokenizerTables;
use crate::template::ChatTemplate;
use crate::tokenizer::json::file::File;
use crate::tokenizer::json::{self, Settings, TokenReference};
use crate::tokenizer::keys;
use crate::tokenizer::{Tokenizer, TokenizerOptions};

/// Tokenizer, chat templates and sampling defaults of a folder: `tokenizer.json` or `tokenizer.model`,
/// `tokenizer_config.json`, `special_tokens_map.json`, `chat_template.jinja`, `chat_template.json`,
/// `additional_chat_templates/`, `generation_config.json`, and the token ids of `config.json`.
#[derive(Debug)]
pub struct HfTexts {
    folder: PathBuf,
    paths: Vec<PathBuf>,
    settings: Settings,
    /// `tokenizer_class` of tokenizer_config.json.
    class: Option<String>,
    templates: Vec<(String, String)>,
    sampling: SamplingDefaults,
}

impl HfTexts {
    /// Reads the small files of a folder; the vocabulary is read on request.
    ///
    /// # Errors
    /// A file exists and cannot be read, or is damaged.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        let document = |name: &str| Document::read(&folder.join(name));
        let config = document("config.json")?;
        let generation = document("generation_config.json")?;
        let tokenizer = document("tokenizer_config.json")?;
        let map = document("special_tokens_map.json")?;
        let legacy = document("chat_template.json")?;
        let templates = templates::read(folder, &tokenizer, &legacy)?;
        let settings = names::settings(&tokenizer, &map, &[&generation, &config])?;
        let sampling = generation::sampling(&generation)?;
        let mut paths: Vec<PathBuf> = [&config, &generation, &tokenizer, &map, &legacy]
            .into_iter()
            .filter(|document| document.exists())
            .map(|document| document.path().to_owned())
            .collect();
        paths.extend(templates.paths);
        let vocabulary = ["tokenizer.json", ranked_files::TEKKEN, "tiktoken.model", "tokenizer.model"];
        paths.extend(vocabulary.map(|name| folder.join(name)).into_iter().find(|path| path.is_file()));
        let class = tokenizer.get("tokenizer_class").and_then(serde_json::Value::as_str).map(str::to_owned);
        Ok(Self { folder: folder.to_owned(), paths, settings, class, templates: templates.sources, sampling })
    }

    /// The files that were found.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The tokenizer; only the tables of the options are used, because the files define how text is split.
    ///
    /// # Errors
    /// The folder has no tokenizer, or it cannot be built exactly.
    pub fn tokenizer(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, LoadError> {
        let tables = match &options.tables {
            Some(tables) => tables.clone(),
            None => TokenizerTables::built_in().map_err(|error| {
                let file = self.folder.display().to_string();
                LoadError::Tokenizer { file, source: error.into() }
            })?,
        };
        match self.stages(&tables)? {
            None => self.sentence_piece(options),
            Some((path, file)) => json::build(file, &self.settings, tables)
                .map_err(|source| LoadError::Tokenizer { file: path.display().to_string(), source }),
        }
    }

    /// The contents of `tokenizer.json`, or the equivalent for a byte-level vocabulary (tiktoken, Tekken); `None`
    /// without such a file.
    fn stages(&self, tables: &TokenizerTables) -> Result<Option<(PathBuf, File)>, LoadError> {
        let path = self.folder.join("tokenizer.json");
        if path.exists() {
            let failed = |source| LoadError::Tokenizer { file: path.display().to_string(), source };
            let file = json::read(&document::text(&path)?).map_err(failed)?;
            return Ok(Some((path, file)));
        }
        let path = self.folder.join(ranked_files::TEKKEN);
        if path.exists() {
            let file = ranked_files::read_tekken(&path, tables)?;
            return Ok(Some((path, file)));
        }
        let class = self.class.as_deref();
        let Some(path) = ranked_files::tiktoken(&self.folder, class, tables) else { return Ok(None) };
        let file = ranked_files::read_tiktoken(&path, (class, &self.settings.added), tables)?;
        Ok(Some((path, file)))
    }

    /// The tokenizer of a `tokenizer.model`, equal to that of a GGUF file converted from it.
    fn sentence_piece(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, LoadError> {
        let path = self.folder.join("tokenizer.model");
        if !path.exists() {
            return Err(self.no_tokenizer());
        }
        let model = self.pieces(&path)?;
        let failed = |source| LoadError::Tokenizer { file: path.display().to_string(), source };
        let tables = match &options.tables {
            Some(tables) => tables.clone(),
            None => TokenizerTables::built_in().map_err(|error| failed(error.into()))?,
        };
        let mut writer = GgufWriter::new();
        for (key, value) in self.sentence_piece_keys(&path, (&model, 0), &tables)? {
            writer.metadata(&key, value)?;
        }
        let file = GgufFile::from_bytes(&path.display().to_string(), writer.to_bytes()?)?;
        Tokenizer::from_gguf(file.metadata(), options).map_err(failed)
    }

    fn pieces(&self, path: &Path) -> Result<SentencePiece, LoadError> {
        let bytes = document::bytes(path)?;
        SentencePiece::read(&bytes).map_err(|problem| refused(path, problem))
    }

    /// The keys of a `tokenizer.model`, completed by the other files.
    fn sentence_piece_keys(
        &self,
        path: &Path,
        (model, size): (&SentencePiece, usize),
        tables: &TokenizerTables,
    ) -> Result<Vec<(String, OwnedValue)>, LoadError> {
        let lists =
            TokenColumns::new(model, &self.settings.added, size).map_err(|problem| refused(path, problem))?;
        let id = |named: &Option<TokenReference>| match named {
            Some(TokenReference::Text(text)) => lists.texts.iter().position(|known| known == text),
            Some(TokenReference::Id(id)) => Some(*id as usize),
            None => None,
        };
        let ids = [(keys::BOS, id(&self.settings.bos)), (keys::EOS, id(&self.settings.eos))];
        let mut found =
            vocabulary_keys::of(model, lists, tables).map_err(|problem| refused(path, problem))?;
        let mut set = |key: &str, value: OwnedValue| {
            found.retain(|(known, _)| known != key);
            found.push((key.to_owned(), value));
        };
        for (key, id) in ids {
            if let Some(id) = id.and_then(|id| u32::try_from(id).ok()) {
                set(key, OwnedValue::U32(id));
            }
        }
        if let Some(adds) = self.settings.adds {
            set(keys::ADD_BOS, OwnedValue::Bool(adds.bos));
            set(keys::ADD_EOS, OwnedValue::Bool(adds.eos));
        }
        let ends = &self.settings.ends;
        if ends.len() > 1 {
            let ends: Vec<i32> = ends.iter().filter_map(|id| i32::try_from(*id).ok()).collect();
            set(keys::EOS_LIST, OwnedValue::Array(OwnedArray::I32(ends)));
        }
        Ok(found)
    }

    fn no_tokenizer(&self) -> LoadError {
        let others = [("vocab.json", "a vocabulary without the stages"), ("vocab.txt", "a list of words")];
        let found = others.iter().find(|(name, _)| self.folder.join(name).exists());
        let problem = match found {
            Some((name, what)) => format!("no tokenizer.json, only {name} ({what}), which is not supported"),
            None => "no tokenizer.json and no tokenizer.model".to_owned(),
        };
        let advice =
            "add the model's tokenizer.json (transformers' save_pretrained writes it), or use token ids";
        LoadError::Folder { file: self.folder.display().to_string(), problem, advice: advice.to_owned() }
    }

    /// The names of the folder's chat templates; the template without a name is called `default` and comes first.
    pub(crate) fn chat_template_names(&self) -> Vec<&str> {
        self.templates.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The source of a chat template (`default`, or another name that the folder uses), if the folder has it.
    pub fn chat_template_source(&self, name: &str) -> Option<&str> {
        self.templates.iter().find(|(known, _)| known == name).map(|(_, source)| source.as_str())
    }

    /// The folder's own chat template; `None` where it has none. `bos_token` and `eos_token` come from `tokenizer`.
    ///
    /// # Errors
    /// The folder has one that cannot be used.
    pub fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, LoadError> {
        let Some(source) = self.chat_template_source("default") else {
            return Ok(None);
        };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id).ok());
        let template = ChatTemplate::new("default", source, text(tokenizer.bos()), text(tokenizer.eos()))
            .map_err(|source| LoadError::Template { file: self.folder.display().to_string(), source })?;
        Ok(Some(template))
    }

    /// The sampling settings of `generation_config.json`.
    pub fn sampling_defaults(&self) -> &SamplingDefaults {
        &self.sampling
    }
}

/// A vocabulary that is damaged or uses an unsupported feature.
fn refused(path: &Path, problem: String) -> LoadError {
    LoadError::Folder {
        file: path.display().to_string(),
        problem,
        advice: "download it again, or add the model's tokenizer.json".to_owned(),
    }
}
