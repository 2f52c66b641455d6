//! `list`: what can be run.

use crate::failure::Failure;
use crate::model_arguments::SpecArguments;
use crate::style::Stream;
use crate::{output, report};
use clap::Args;
use menagerie::registry::{Entry, Origin};
use serde::Serialize;

/// List the architectures that can be run, and where each comes from
///
/// An architecture is a TOML file: name one with --spec, or put it into --spec-dir, a folder of MENAGERIE_SPEC_DIR, menagerie/specs in the data
/// folder, or ./menagerie.d, and it is listed at the next call.
#[derive(Args)]
pub(crate) struct ListCommand {
    /// Also show family, what each supports and all of its origin
    #[arg(long, conflicts_with_all = ["json", "names"])]
    wide: bool,
    /// Print the names alone, a line each
    #[arg(long, conflicts_with = "json")]
    names: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

/// One architecture, as listed.
#[derive(Serialize)]
struct Listed {
    id: String,
    names: Vec<String>,
    family: String,
    kind: &'static str,
    formats: Vec<&'static str>,
    supports: Vec<String>,
    summary: String,
    reference: Option<String>,
    origin: String,
    shadows: Option<String>,
    notes: Vec<String>,
    error: Option<String>,
    #[serde(skip)]
    from: &'static str,
}

impl Listed {
    fn new(entry: &Entry) -> Self {
        let spec = entry.spec().as_ref().ok();
        Self {
            id: entry.id.clone(),
            names: spec.map(|spec| spec.gguf_names().to_vec()).unwrap_or_default(),
            family: spec.and_then(|spec| spec.extends().last().cloned()).unwrap_or_else(|| entry.id.clone()),
            kind: "language model",
            formats: vec!["gguf"],
            supports: spec.map(|spec| spec.features()).unwrap_or_default(),
            summary: spec.map(|spec| spec.summary().to_owned()).unwrap_or_default(),
            reference: spec.and_then(|spec| spec.truth()).map(|truth| truth.source.clone()),
            origin: entry.origin.to_string(),
            shadows: entry.shadows.as_ref().map(ToString::to_string),
            notes: entry.notes(),
            error: entry.spec().as_ref().err().map(ToString::to_string),
            from: match &entry.origin {
                Origin::BuiltIn(_) => "built-in",
                Origin::File { folder, .. } => folder.name(),
            },
        }
    }
}

/// Columns of a terminal that nobody has changed.
const WIDTH: usize = 80;

impl ListCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let registry = self.specs.registry()?;
        let listed: Vec<Listed> = registry.entries().iter().map(Listed::new).collect();
        if self.json {
            return output::json(&listed);
        }
        let (good, faulty): (Vec<&Listed>, Vec<&Listed>) = listed.iter().partition(|one| one.error.is_none());
        if self.names {
            return output::write(&good.iter().map(|one| format!("{}\n", one.id)).collect::<String>());
        }
        if self.wide {
            wide(&good)?
        } else {
            narrow(&good)?
        }
        let coloured = Stream::Out.is_coloured();
        for one in good.iter().filter(|one| one.shadows.is_some()) {
            let replaced = one.shadows.as_deref().unwrap_or_default();
            let note = format!("{} replaces {replaced}", one.origin);
            output::line(&report::note_text(&note, coloured))?;
        }
        for note in listed.iter().flat_map(|one| &one.notes).chain(registry.notes()) {
            output::line(&report::note_text(note, coloured))?;
        }
        for one in faulty {
            let error = one.error.as_deref().unwrap_or_default();
            output::line(&format!("\n{} cannot be used: {}", one.id, one.origin))?;
            output::write(&report::error_text(error, coloured))?;
        }
        Ok(())
    }
}

/// Names, where they come from, whether a reference stands behind them, and what they are, in 80 columns.
fn narrow(listed: &[&Listed]) -> Result<(), Failure> {
    let width =
        |text: fn(&Listed) -> &str| listed.iter().map(|one| text(one).chars().count()).max().unwrap_or(0);
    let room = WIDTH.saturating_sub(width(|one| &one.id) + width(|one| one.from).max(4) + 9 + 6);
    let row = |one: &&Listed| {
        let reference = if one.reference.is_some() { "reference" } else { "-" };
        vec![one.id.clone(), one.from.to_owned(), reference.to_owned(), shortened(&one.summary, room)]
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    output::table(&["id", "from", "proved by", "what it is"], &rows)
}

fn wide(listed: &[&Listed]) -> Result<(), Failure> {
    let row = |one: &&Listed| {
        vec![
            one.id.clone(),
            one.family.clone(),
            one.supports.join(", "),
            one.reference.clone().unwrap_or_default(),
            one.origin.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    output::table(&["id", "family", "supports", "reference", "origin"], &rows)
}

/// At most `room` characters, cut between words.
fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for word in text.split(' ') {
        if short.chars().count() + word.chars().count() + 4 > room {
            break;
        }
        short.push_str(word);
        short.push(' ');
    }
    short.trim_end().trim_end_matches([',', ':']).to_owned() + " ..."
}
