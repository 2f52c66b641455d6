//! `list`: the architectures and recipes that can be run.

use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::listing::recipe_listing;
use crate::output;
use crate::output::fitted_table::FittedTable;
use clap::{Args, ValueEnum};
use menagerie::registry::{ArchitectureEntry, Environment, Origin, RecipeEntry};
use menagerie::spec::Heading;
use menagerie_entries::nearest;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::collections::BTreeMap;

/// List the architectures and recipes that can be run, and their origin
///
/// An architecture is defined by a TOML file (a spec). To add one, name the file with --spec, or put it into a folder of
/// --spec-dir or MENAGERIE_SPEC_DIR, into menagerie/specs in the data folder, or into ./menagerie.d. A family is an
/// architecture together with its variations. A recipe (NAME.recipe.toml in the same folders) combines a base model with
/// adapters and keys.
#[derive(Args)]
pub(crate) struct ListCommand {
    /// Only this family
    #[arg(long, value_name = "ID")]
    family: Option<String>,
    /// Only architectures of this origin
    #[arg(long, value_enum, value_name = "WHERE")]
    origin: Option<OriginArgument>,
    /// Only entries whose id, names or summary contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Also show supported features, the reference and the full origin
    #[arg(long, conflicts_with_all = ["json", "names"])]
    wide: bool,
    /// Print only the names, one per line
    #[arg(long, conflicts_with = "json")]
    names: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

/// The origin of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OriginArgument {
    BuiltIn,
    File,
    Plugin,
}

impl OriginArgument {
    fn of(origin: &Origin) -> Self {
        match origin {
            Origin::BuiltIn(_) => Self::BuiltIn,
            Origin::Plugin(_) => Self::Plugin,
            Origin::File { .. } => Self::File,
        }
    }
}

/// An architecture in the list.
#[derive(Serialize)]
struct ArchitectureRow {
    id: String,
    names: Vec<String>,
    family: String,
    summary: String,
    /// The source of the reference: `hf`, `llama.cpp` or `paper`.
    proved_by: Option<String>,
    reference: Option<String>,
    #[serde(serialize_with = "detail")]
    origin: Origin,
    #[serde(serialize_with = "detail_if_any")]
    shadows: Option<Origin>,
    notes: Vec<String>,
    error: Option<String>,
    #[serde(skip)]
    from: OriginArgument,
}

fn detail<S: Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&origin.detail())
}

fn detail_if_any<S: Serializer>(origin: &Option<Origin>, serializer: S) -> Result<S::Ok, S::Error> {
    origin.as_ref().map(Origin::detail).serialize(serializer)
}

/// An architecture with details that require its whole spec.
#[derive(Serialize)]
struct ArchitectureDetails<'a> {
    #[serde(flatten)]
    listed: &'a ArchitectureRow,
    kind: &'static str,
    formats: Vec<&'static str>,
    supports: Vec<String>,
}

impl ArchitectureRow {
    fn new(entry: &ArchitectureEntry, headings: &BTreeMap<&str, Heading>) -> Self {
        let from = OriginArgument::of(&entry.origin);
        let heading = headings.get(entry.id.as_str()).cloned().unwrap_or_default();
        // The specs in files are checked here; built-in specs are valid.
        let built_in = from == OriginArgument::BuiltIn;
        let error = if built_in { None } else { entry.spec().as_ref().err().map(ToString::to_string) };
        let (proved_by, reference) = heading.provenance.unzip();
        Self {
            id: entry.id.clone(),
            names: heading.gguf,
            family: family(&entry.id, headings),
            summary: heading.summary,
            proved_by,
            reference,
            origin: entry.origin.clone(),
            shadows: entry.shadows.clone(),
            notes: entry.notes(),
            error,
            from,
        }
    }
}

/// The heading of a spec, read from its text without parsing all of it if possible.
fn heading(entry: &ArchitectureEntry) -> Heading {
    let parsed = || {
        let spec = entry.spec().as_ref().ok()?;
        Some(Heading {
            id: spec.id().to_owned(),
            gguf: spec.gguf_names.to_vec(),
            hf: Some(spec.hf_classes.iter().map(|class| class.name.clone()).collect()),
            summary: spec.summary.clone(),
            extends: spec.extends.first().cloned(),
            provenance: spec.provenance.as_ref().map(|by| (by.reference.clone(), by.source.clone())),
        })
    };
    entry.heading().or_else(parsed).unwrap_or_default()
}

/// The last spec in the chain of `extends`; its own id if it extends nothing.
fn family(id: &str, headings: &BTreeMap<&str, Heading>) -> String {
    let mut family = id;
    // A cycle is an error of the spec; it must not cause an infinite loop here.
    for _ in 0..8 {
        match headings.get(family).and_then(|heading| heading.extends.as_deref()) {
            Some(base) if base != family => family = base,
            _ => break,
        }
    }
    family.to_owned()
}

impl Runnable for ListCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let environment = self.specs.environment(installed)?;
        let headings: BTreeMap<&str, Heading> =
            environment.architectures().iter().map(|entry| (entry.id.as_str(), heading(entry))).collect();
        let mut listed: Vec<ArchitectureRow> =
            environment.architectures().iter().map(|entry| ArchitectureRow::new(entry, &headings)).collect();
        self.known_family(&listed)?;
        listed.retain(|one| self.wants(one));
        let recipes: Vec<&RecipeEntry> =
            environment.recipes().iter().filter(|entry| self.wants_recipe(entry)).collect();
        if self.json {
            let all = listed.iter().map(|one| serde_json::to_value(wide(one, &environment)));
            let all = all.collect::<Result<Vec<_>, _>>()?;
            let recipes: Vec<_> = recipes.iter().map(|entry| recipe_listing::as_json(entry)).collect();
            return output::json(&json!({ "architectures": all, "recipes": recipes }));
        }
        let (good, faulty): (Vec<&ArchitectureRow>, Vec<&ArchitectureRow>) =
            listed.iter().partition(|one| one.error.is_none());
        if self.names {
            let good_recipes = recipes.iter().filter(|entry| entry.recipe().is_ok());
            let ids = good.iter().map(|one| &one.id).chain(good_recipes.map(|entry| &entry.id));
            return output::data(&ids.map(|id| format!("{id}\n")).collect::<String>());
        }
        match (self.wide, good.is_empty() && !recipes.is_empty()) {
            (_, true) => {}
            (true, false) => print_wide(&good, &environment)?,
            (false, false) => narrow(&good)?,
        }
        for one in good.iter().filter(|one| one.shadows.is_some()) {
            let replaced = one.shadows.as_ref().map(Origin::noun).unwrap_or_default();
            let note = format!("{} replaces {replaced}", one.origin);
            output::note(&note)?;
        }
        for note in listed.iter().flat_map(|one| &one.notes).chain(environment.notes()) {
            output::note(note)?;
        }
        for one in faulty {
            let error = one.error.as_deref().unwrap_or_default();
            output::line(&format!("\n{} cannot be used: {}", one.id, one.origin))?;
            output::error(error)?;
        }
        recipe_listing::table(&recipes, &environment)
    }
}

impl ListCommand {
    /// Refuses an unknown family.
    fn known_family(&self, listed: &[ArchitectureRow]) -> Result<(), Failure> {
        let Some(family) = &self.family else { return Ok(()) };
        if listed.iter().any(|one| one.family.eq_ignore_ascii_case(family)) {
            return Ok(());
        }
        let member = listed.iter().find(|one| one.id.eq_ignore_ascii_case(family));
        let near = nearest(family, listed.iter().map(|one| one.family.as_str()));
        let help = match (member, near) {
            (Some(member), _) => format!("`{}` belongs to the family `{}`", member.id, member.family),
            (None, Some(near)) => format!("the nearest is `{near}`"),
            (None, None) => "`menagerie list` shows the families".to_owned(),
        };
        Err(Failure::Failed(format!("there is no family `{family}`")).with_help(&help))
    }

    /// Whether the filters select a recipe; recipes do not belong to a family.
    fn wants_recipe(&self, entry: &RecipeEntry) -> bool {
        let summary = entry.recipe().map_or("", |recipe| &recipe.summary);
        let found = |part: &String| {
            let part = part.to_lowercase();
            entry.id.to_lowercase().contains(&part) || summary.to_lowercase().contains(&part)
        };
        self.family.is_none()
            && self.origin.is_none_or(|origin| origin == OriginArgument::of(&entry.origin))
            && self.search.as_ref().is_none_or(found)
    }

    fn wants(&self, one: &ArchitectureRow) -> bool {
        let holds = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        let found = |part: &String| {
            holds(&one.id, part)
                || holds(&one.summary, part)
                || one.names.iter().any(|name| holds(name, part))
        };
        self.family.as_ref().is_none_or(|family| one.family.eq_ignore_ascii_case(family))
            && self.origin.is_none_or(|origin| origin == one.from)
            && self.search.as_ref().is_none_or(found)
    }
}

/// Prints the architectures sorted by family; those from files are marked.
fn narrow(listed: &[&ArchitectureRow]) -> Result<(), Failure> {
    let mut sorted = listed.to_vec();
    sorted.sort_by_key(|one| (&one.family, one.id != one.family, &one.id));
    let proof = |one: &ArchitectureRow| one.proved_by.clone().unwrap_or_else(|| "-".to_owned());
    let row = |one: &&ArchitectureRow| {
        let id = if one.from == OriginArgument::BuiltIn { one.id.clone() } else { format!("{}*", one.id) };
        vec![id, one.family.clone(), proof(one), one.summary.clone()]
    };
    let rows = sorted.iter().map(row).collect();
    FittedTable { heads: &["id", "family", "verified with", "summary"], rows, spared: &[1, 2] }.write()?;
    for one in sorted.iter().filter(|one| one.from != OriginArgument::BuiltIn) {
        output::line(&format!("* {}: {}", one.id, one.origin))?;
    }
    Ok(())
}

fn wide<'a>(listed: &'a ArchitectureRow, environment: &Environment) -> ArchitectureDetails<'a> {
    let spec = environment.architecture(&listed.id).and_then(|entry| entry.spec().as_ref().ok());
    let encoder =
        spec.is_some_and(|spec| spec.document().pointer("/output/head").is_some_and(|head| head == "none"));
    ArchitectureDetails {
        listed,
        kind: if encoder { "encoder" } else { "language model" },
        formats: if spec.is_some_and(|spec| !spec.hf_classes.is_empty()) {
            vec!["gguf", "safetensors"]
        } else {
            vec!["gguf"]
        },
        supports: spec.map(|spec| spec.features()).unwrap_or_default(),
    }
}

fn print_wide(listed: &[&ArchitectureRow], environment: &Environment) -> Result<(), Failure> {
    let row = |one: &&ArchitectureRow| {
        vec![
            one.id.clone(),
            one.family.clone(),
            wide(one, environment).supports.join(", "),
            one.reference.clone().unwrap_or_default(),
            one.origin.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    output::table(&["id", "family", "supports", "reference", "origin"], &rows)
}
