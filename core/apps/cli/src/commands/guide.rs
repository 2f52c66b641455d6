//! `guide [TOPIC]`: the pages of documentation, as they were when the program was built.

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;

/// A page of documentation: its name, its Markdown text, and its group in `docs/README.md`.
struct GuidePage {
    group: &'static str,
    topic: &'static str,
    text: &'static str,
}

/// A row of [`PAGES`] for each file of `guide/`.
macro_rules! pages {
    ($($group:literal: { $($topic:literal => $file:literal),* $(,)? })*) => {
        const PAGES: &[GuidePage] = &[$($(
            GuidePage { group: $group, topic: $topic, text: include_str!(concat!("../../guide/", $file)) },
        )*)*];
        /// The names of the pages.
        const TOPICS: &[&str] = &[$($($topic,)*)*];
    };
}

pages! {
    "Use it": {
        "command-line" => "docs/command-line.md",
        "folders" => "docs/folders.md",
        "recipes" => "docs/recipes.md",
        "adapters" => "docs/adapters.md",
        "x-lora" => "docs/x-lora.md",
        "mixtures" => "docs/mixtures.md",
        "control-vectors" => "docs/control-vectors.md",
        "lens" => "docs/lens.md",
        "structured-output" => "docs/structured-output.md",
        "speculation" => "docs/speculation.md",
        "batch" => "docs/batch.md",
        "server" => "docs/server.md",
        "clients" => "docs/clients.md",
        "deploying" => "docs/deploying.md",
        "tool-calls" => "docs/tool-calls.md",
        "stages" => "docs/stages.md",
        "cluster" => "docs/cluster.md",
        "prefix-cache" => "docs/prefix-cache.md",
        "state" => "docs/state.md",
        "quantization" => "docs/quantization.md",
        "convert" => "docs/convert.md",
        "profile" => "docs/profile.md",
        "json" => "docs/json.md",
    }
    "Add models and code": {
        "add-an-architecture" => "docs/add-an-architecture.md",
        "spec-recipes" => "docs/spec-recipes.md",
        "spec-language" => "spec-language.md",
        "spec-reference" => "spec-reference.md",
        "tokenizer-tables" => "tokenizer-tables.md",
        "plugins" => "docs/plugins.md",
        "write-a-plugin" => "docs/write-a-plugin.md",
        "hooks" => "docs/hooks.md",
    }
    "How it works": {
        "glossary" => "docs/glossary.md",
        "one-answer" => "docs/one-answer.md",
    }
    "Measurements": {
        "architectures" => "docs/architectures.md",
        "leave-one-out" => "docs/leave-one-out.md",
        "speed" => "docs/speed.md",
        "quantized-types" => "docs/quantized-types.md",
        "caught" => "docs/caught.md",
    }
}

impl GuidePage {
    /// The first heading, without its mark.
    fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// Print a page of the documentation, or list the pages
///
/// The pages belong to this version of the program and are in Markdown: menagerie guide batch | less
#[derive(Args)]
pub(crate) struct GuideCommand {
    /// The page [default: list all pages]
    #[arg(value_parser = PossibleValuesParser::new(TOPICS), hide_possible_values = true)]
    topic: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Runnable for GuideCommand {
    fn run(self, _: &CommandContext) -> Result<(), Failure> {
        match self.topic.and_then(|topic| PAGES.iter().find(|page| page.topic == topic)) {
            Some(page) if self.json => {
                output::json(&json!({ "topic": page.topic, "title": page.title(), "text": page.text }))
            }
            Some(page) => output::data(page.text),
            None if self.json => {
                let page = |page: &GuidePage| json!({ "topic": page.topic, "title": page.title(), "group": page.group });
                output::json(&json!({ "pages": PAGES.iter().map(page).collect::<Vec<_>>() }))
            }
            None => {
                let row = |page: &GuidePage| {
                    vec![page.topic.to_owned(), page.title().to_owned(), page.group.to_owned()]
                };
                let rows: Vec<_> = PAGES.iter().map(row).collect();
                output::table(&["topic", "page", "group"], &rows)
            }
        }
    }

    fn uses_plugins(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("guide/docs")
    }

    /// Every page of `docs/` is a topic with its file's name. The table of contents is not: the list of topics is the same.
    #[test]
    fn every_document_is_a_page() {
        for file in std::fs::read_dir(docs()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(TOPICS.contains(&name.as_str()) || name == "README", "docs/{name}.md is not a topic");
        }
        assert!(PAGES.iter().all(|page| page.text.starts_with("# ")), "a page begins with its title");
    }

    /// `docs/README.md` lists the same pages in the same groups and the same order.
    #[test]
    fn the_table_of_contents_lists_the_pages() {
        let text = std::fs::read_to_string(docs().join("README.md")).unwrap();
        let mut listed = Vec::new();
        let mut group = "";
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                group = heading;
            } else if let Some((topic, rest)) = line.strip_prefix("| [").and_then(|row| row.split_once("]("))
            {
                let (link, _) = rest.split_once(')').unwrap();
                let page = std::fs::canonicalize(docs()).unwrap().join(link);
                listed.push((group, topic, std::fs::read_to_string(page).unwrap()));
            }
        }
        let names: Vec<_> = listed.iter().map(|(group, topic, _)| (*group, *topic)).collect();
        let pages: Vec<_> = PAGES.iter().map(|page| (page.group, page.topic)).collect();
        assert_eq!(names, pages, "left is docs/README.md, right is `menagerie guide`");
        for ((_, topic, text), page) in listed.iter().zip(PAGES) {
            assert_eq!(text, page.text, "{topic}: the link of docs/README.md and the page differ");
        }
    }
}
