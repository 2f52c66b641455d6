//! `guide [TOPIC]`: the pages of documentation, as they were when the program was built.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;

/// A page of documentation: its name and its Markdown text.
struct Page {
    topic: &'static str,
    text: &'static str,
}

/// A row of [`PAGES`] for each file of `guide/`.
macro_rules! pages {
    ($($topic:literal => $file:literal),* $(,)?) => {
        const PAGES: &[Page] =
            &[$(Page { topic: $topic, text: include_str!(concat!("../../guide/", $file)) }),*];
        /// The names of the pages.
        const TOPICS: &[&str] = &[$($topic),*];
    };
}

pages! {
    "command-line" => "docs/command-line.md",
    "batch" => "docs/batch.md",
    "json" => "docs/json.md",
    "state" => "docs/state.md",
    "stages" => "docs/stages.md",
    "folders" => "docs/folders.md",
    "recipes" => "docs/recipes.md",
    "adapters" => "docs/adapters.md",
    "x-lora" => "docs/x-lora.md",
    "mixtures" => "docs/mixtures.md",
    "control-vectors" => "docs/control-vectors.md",
    "hooks" => "docs/hooks.md",
    "profile" => "docs/profile.md",
    "quantization" => "docs/quantization.md",
    "quantized-types" => "docs/quantized-types.md",
    "convert" => "docs/convert.md",
    "one-answer" => "docs/one-answer.md",
    "caught" => "docs/caught.md",
    "speed" => "docs/speed.md",
    "add-an-architecture" => "docs/add-an-architecture.md",
    "spec-recipes" => "docs/spec-recipes.md",
    "spec-language" => "spec-language.md",
    "spec-reference" => "spec-reference.md",
    "tokenizer-tables" => "tokenizer-tables.md",
    "architectures" => "docs/architectures.md",
    "plugins" => "docs/plugins.md",
    "write-a-plugin" => "docs/write-a-plugin.md",
}

impl Page {
    /// The first heading, without its mark.
    fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// Print a page of the documentation, or list the pages
///
/// The pages are those of this version, as Markdown: menagerie guide batch | less
#[derive(Args)]
pub(crate) struct GuideCommand {
    /// The page [default: list all pages]
    #[arg(value_parser = PossibleValuesParser::new(TOPICS), hide_possible_values = true)]
    topic: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl GuideCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.topic.and_then(|topic| PAGES.iter().find(|page| page.topic == topic)) {
            Some(page) if self.json => {
                output::json(&json!({ "topic": page.topic, "title": page.title(), "text": page.text }))
            }
            Some(page) => output::data(page.text),
            None if self.json => {
                let pages: Vec<_> =
                    PAGES.iter().map(|page| json!({ "topic": page.topic, "title": page.title() })).collect();
                output::json(&json!({ "pages": pages }))
            }
            None => {
                let rows: Vec<_> =
                    PAGES.iter().map(|page| vec![page.topic.to_owned(), page.title().to_owned()]).collect();
                output::table(&["topic", "page"], &rows)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Every page of `docs/` can be printed by its file's name, but those for developers of this project.
    #[test]
    fn every_document_is_a_page() {
        let developers = ["leave-one-out"];
        let docs = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("guide/docs")).unwrap();
        for file in docs {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(TOPICS.contains(&name.as_str()) || developers.contains(&name.as_str()), "docs/{name}.md");
        }
        assert!(PAGES.iter().all(|page| page.text.starts_with("# ")), "a page begins with its title");
    }
}
