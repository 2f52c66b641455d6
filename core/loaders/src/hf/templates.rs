//! The chat templates of a folder, which can be in several places (transformers, `chat_template_utils.py`).

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::{self, Document};
use crate::loader::LoadError;

/// Templates by name, `default` first, and their files, where a file contains nothing else.
#[derive(Debug, Default)]
pub(super) struct Templates {
    pub(super) sources: Vec<(String, String)>,
    pub(super) paths: Vec<PathBuf>,
}

/// Separate files take precedence over `tokenizer_config.json`, which takes precedence over `chat_template.json`.
///
/// # Errors
/// A file that cannot be read, or a template that is not a string.
pub(super) fn read(folder: &Path, config: &Document, legacy: &Document) -> Result<Templates, LoadError> {
    let mut templates = Templates::default();
    let own = folder.join("chat_template.jinja");
    if own.exists() {
        templates.sources.push(("default".to_owned(), document::text(&own)?));
        templates.paths.push(own);
    }
    let more = folder.join("additional_chat_templates");
    if more.is_dir() {
        let failed = |error: std::io::Error| LoadError::Folder {
            file: more.display().to_string(),
            problem: error.to_string(),
            advice: "check that the file is readable".to_owned(),
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&more).map_err(failed)? {
            files.push(entry.map_err(failed)?.path());
        }
        files.sort();
        for path in files.into_iter().filter(|path| path.extension().is_some_and(|it| it == "jinja")) {
            if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
                templates.sources.push((name.to_owned(), document::text(&path)?));
                templates.paths.push(path);
            }
        }
    }
    for document in [config, legacy] {
        if templates.sources.is_empty()
            && let Some(value) = document.get("chat_template")
        {
            templates.sources = named(document, value)?;
        }
    }
    templates.sources.sort_by_key(|(name, _)| name != "default");
    Ok(templates)
}

/// A template, or a list of named templates.
fn named(document: &Document, value: &Value) -> Result<Vec<(String, String)>, LoadError> {
    let wrong =
        || document.wrong("chat_template", "a string, or a list of objects with `name` and `template`");
    match value {
        Value::String(source) => Ok(vec![("default".to_owned(), source.clone())]),
        Value::Array(list) => {
            let text = |entry: &Value, field: &str| {
                entry.get(field).and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong)
            };
            list.iter().map(|entry| Ok((text(entry, "name")?, text(entry, "template")?))).collect()
        }
        _ => Err(wrong()),
    }
}
