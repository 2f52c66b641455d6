//! Descriptions of recipes, for `list` and `show`.

use crate::failure::Failure;
use crate::listing::model_summary::SummaryLines;
use crate::output;
use crate::output::fitted_table::{FittedTable, shortened};
use menagerie::open::{GateOption, Ingredients, MixtureOption};
use menagerie::registry::{Environment, Origin, RecipeEntry};
use menagerie::spec::{Recipe, RecipeBase, RecipeMixture, layer_ranges};
use serde_json::{Value, json};

/// Columns of the table.
const HEADS: [&str; 4] = ["id", "base", "adapters", "summary"];

/// Maximum number of characters of the columns for the base and the adapters.
const BASE: usize = 24;
const KINDS: usize = 16;

/// Whether the base is an architecture: such a recipe applies to any model of it, and is not a model itself.
pub(crate) fn is_form(entry: &RecipeEntry) -> bool {
    entry.recipe().is_ok_and(|recipe| matches!(recipe.base, RecipeBase::Architecture(_)))
}

/// The base in words.
fn base(recipe: &Recipe) -> String {
    match &recipe.base {
        RecipeBase::Model(model) => model.clone(),
        RecipeBase::Architecture(architecture) => format!("any {architecture} model"),
    }
}

/// The adapters in words.
fn adapters(recipe: &Recipe) -> String {
    let one = |adapter: &menagerie::spec::RecipeAdapter| match &adapter.from {
        Some(from) if adapter.weight != 1.0 => format!("{} {from} ({})", adapter.kind.name(), adapter.weight),
        Some(from) => format!("{} {from}", adapter.kind.name()),
        None => adapter.kind.name().to_owned(),
    };
    let texts: Vec<String> = recipe.adapters.iter().map(one).collect();
    if texts.is_empty() { "-".to_owned() } else { texts.join(", ") }
}

/// A mixture in one line: the number of experts, the layers, the unit of routing and the gate.
fn mixture_line(mixture: &RecipeMixture) -> String {
    let RecipeMixture { layers, gate, choose, experts } = mixture;
    let layers = match layers {
        Some(layers) => layer_ranges(&layers.iter().copied().collect()),
        None => "all layers".to_owned(),
    };
    format!("mixture of {} experts in {layers}, routed by {} ({gate})", experts.len() + 1, choose.name())
}

/// A recipe as JSON.
pub(crate) fn as_json(entry: &RecipeEntry) -> Value {
    let (recipe, error) = match entry.recipe() {
        Ok(recipe) => (Some(recipe), None),
        Err(faults) => (None, Some(faults.to_string())),
    };
    json!({
        "id": entry.id,
        "kind": "recipe",
        "summary": recipe.map(|recipe| &recipe.summary),
        "base": recipe.map(|recipe| &recipe.base),
        "adapters": recipe.map(|recipe| &recipe.adapters),
        "mixture": recipe.map(|recipe| &recipe.mixture),
        "set": recipe.map(|recipe| &recipe.set),
        "chat_template": recipe.map(|recipe| &recipe.chat_template),
        "origin": entry.origin.detail(),
        "notes": entry.notes(),
        "error": error,
    })
}

/// Prints a description of a recipe and its text.
pub(crate) fn print(entry: &RecipeEntry, as_json_text: bool) -> Result<(), Failure> {
    if as_json_text {
        return output::json(&as_json(entry));
    }
    let recipe = entry.recipe().map_err(|faults| Failure::Failed(faults.to_string()))?;
    output::line(&headline(entry))?;
    output::line(&format!("from {}", entry.origin))?;
    output::line(&format!("base: {}; adapters: {}", base(recipe), adapters(recipe)))?;
    if let Some(mixture) = &recipe.mixture {
        output::line(&mixture_line(mixture))?;
    }
    output::line("")?;
    output::data_line(entry.text().trim_end())
}

/// Prints the recipes of an environment as a table, then the invalid ones. Without recipes it prints nothing.
pub(crate) fn table(entries: &[&RecipeEntry], environment: &Environment) -> Result<(), Failure> {
    if entries.is_empty() {
        return Ok(());
    }
    output::line("\nrecipes")?;
    let row = |entry: &&RecipeEntry| {
        let recipe = entry.recipe().ok()?;
        let id = match entry.origin {
            Origin::BuiltIn(_) | Origin::Plugin(_) => entry.id.clone(),
            Origin::File { .. } => format!("{}*", entry.id),
        };
        let mixture = recipe.mixture.iter().map(|_| "mixture");
        let kinds: Vec<&str> =
            recipe.adapters.iter().map(|adapter| adapter.kind.name()).chain(mixture).collect();
        let kinds = if kinds.is_empty() { "-".to_owned() } else { kinds.join(", ") };
        Some(vec![id, shortened(&base(recipe), BASE), shortened(&kinds, KINDS), recipe.summary.clone()])
    };
    let rows = entries.iter().filter_map(row).collect();
    FittedTable { heads: &HEADS, rows, spared: &[2, 1] }.write()?;
    for entry in entries.iter().filter(|entry| matches!(entry.origin, Origin::File { .. })) {
        output::line(&format!("* {}: {}", entry.id, entry.origin))?;
    }
    let hidden = |entry: &&&RecipeEntry| environment.architecture(&entry.id).is_some();
    for entry in entries.iter().filter(hidden) {
        let note = format!("{0} is also the name of an architecture: `show {0}` shows that", entry.id);
        output::note(&note)?;
    }
    for note in entries.iter().flat_map(|entry| entry.notes()) {
        output::note(&note)?;
    }
    for entry in entries {
        if let Err(faults) = entry.recipe() {
            output::line(&format!("\nrecipe {} cannot be used: {}", entry.id, entry.origin))?;
            output::error(&faults.to_string())?;
        }
    }
    Ok(())
}

/// A recipe in one line: its name and its summary.
pub(crate) fn headline(entry: &RecipeEntry) -> String {
    match entry.recipe() {
        Ok(recipe) if !recipe.summary.is_empty() => format!("{}: {}", entry.id, recipe.summary),
        _ => entry.id.clone(),
    }
}

/// Adds the values of a recipe to the summary of its base model.
///
/// # Errors
/// The chat template cannot be found.
pub(crate) fn over(
    summary: &mut SummaryLines,
    ingredients: &Ingredients,
    environment: &Environment,
) -> Result<(), Failure> {
    let mut first = vec![
        ("recipe", ingredients.recipes.join(" based on ")),
        ("base", ingredients.base.display().to_string()),
    ];
    for adapter in &ingredients.adapters {
        let weight = if adapter.weight == 1.0 { String::new() } else { format!(" ({})", adapter.weight) };
        first.push(("adapter", format!("{} {}{weight}", adapter.kind.name(), adapter.path.display())));
    }
    first.extend(ingredients.mixture.iter().flat_map(given_mixture));
    first.extend(ingredients.set.iter().map(|(key, value)| ("set", format!("{key} = {value}"))));
    if let Some(template) = ingredients.template(environment)? {
        let characters = template.source.chars().count();
        let own = format!("{} (from the recipe, {characters} characters)", template.name);
        match summary.iter_mut().find(|(name, _)| *name == "chat template") {
            Some((_, line)) => *line = own,
            None => first.push(("chat template", own)),
        }
    }
    summary.splice(0..0, first);
    Ok(())
}

/// The lines of a mixture that is loaded.
fn given_mixture(mixture: &MixtureOption) -> Vec<(&'static str, String)> {
    let layers = match &mixture.layers {
        Some(layers) => layer_ranges(&layers.iter().copied().collect()),
        None => "all layers".to_owned(),
    };
    let gate = match &mixture.gate {
        GateOption::File(path) if path.exists() => path.display().to_string(),
        GateOption::File(path) => format!("{}, not trained yet (see menagerie train-gate)", path.display()),
        GateOption::Always(expert) => format!("always expert {expert}"),
    };
    let names = mixture.names();
    let count = names.len();
    let names: Vec<String> = names.iter().enumerate().map(|(at, name)| format!("{at} {name}")).collect();
    vec![
        ("mixture", format!("{count} experts in {layers}, routed by {}", mixture.choose.name())),
        ("experts", names.join("; ")),
        ("gate", gate),
    ]
}
