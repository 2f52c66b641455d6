//! Descriptions of adapters, for `show` and `check`.

use crate::failure::Failure;
use crate::output;
use menagerie::adapters::{AdapterFile, AdapterModule, ModuleChange, XLora};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Prints the adapter or X-LoRA at a path, which must be complete; returns `false` if there is none.
pub(crate) fn printed(path: &Path, as_json: bool) -> Result<bool, Failure> {
    if XLora::is_at(path) {
        print_xlora(&XLora::open(path)?, as_json)?;
    } else if AdapterFile::is_at(path) {
        print(&AdapterFile::open(path)?, as_json)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Prints an X-LoRA: its properties and its adapters.
fn print_xlora(xlora: &XLora, as_json: bool) -> Result<(), Failure> {
    let facts = xlora.facts();
    if as_json {
        let facts: serde_json::Map<String, Value> =
            facts.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let adapters: Vec<Value> = xlora.adapters.iter().map(described).collect();
        return output::json(&json!({
            "file": xlora.name(), "format": "X-LoRA", "trained_on": xlora.base(), "facts": facts,
            "adapters": adapters,
        }));
    }
    output::line(&xlora.name())?;
    let head = [("format".to_owned(), "X-LoRA".to_owned())];
    let base = xlora.base().map(|base| ("trained on".to_owned(), base.to_owned()));
    for (name, value) in head.into_iter().chain(base).chain(facts) {
        output::value(&name, &value)?;
    }
    for file in &xlora.adapters {
        output::line("")?;
        print(file, false)?;
    }
    Ok(())
}

/// Prints an adapter: its properties, and the number of modules of each kind that it changes.
fn print(file: &AdapterFile, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::json(&described(file));
    }
    output::line(&file.name())?;
    for (name, value) in lines(file) {
        output::value(&name, &value)?;
    }
    output::line("\nmodules (grouped by the last part of their names)")?;
    let rows: Vec<Vec<String>> =
        by_end(file).into_iter().map(|((end, what), count)| vec![end, what, count.to_string()]).collect();
    output::table(&["module", "change", "count"], &rows)
}

/// The properties of an adapter.
fn lines(file: &AdapterFile) -> Vec<(String, String)> {
    let mut lines = vec![("format".to_owned(), format!("{} adapter", file.format.name()))];
    lines.extend(file.architecture.clone().map(|name| ("architecture".to_owned(), name)));
    lines.extend(file.base.clone().map(|base| ("trained on".to_owned(), base)));
    lines.extend(file.facts.iter().cloned());
    let million = file.parameters() as f64 / 1e6;
    lines.push((
        "parameters".to_owned(),
        format!("{million:.3} million, {}", output::counted(file.modules.len(), "module")),
    ));
    lines
}

/// The change of a module, in a few words.
fn change(module: &AdapterModule) -> String {
    match &module.change {
        ModuleChange::Linear { pair: Some(pair), magnitude, bias } => {
            let kind = if magnitude.is_some() { "DoRA" } else { "LoRA" };
            let bias = if bias.is_some() { " and bias" } else { "" };
            format!("{kind}, rank {}, factor {}{bias}", pair.a.shape.rows, pair.scaling)
        }
        ModuleChange::Linear { .. } => "bias".to_owned(),
        ModuleChange::Table(pair) => {
            format!("LoRA of an embedding, rank {}, factor {}", pair.a.shape.cols, pair.scaling)
        }
        ModuleChange::Parameter { parameter, pair } => {
            format!(
                "LoRA of {} experts{}{parameter}, rank {}, factor {}",
                pair.a.shape.count,
                if parameter.is_empty() { "" } else { ", " },
                pair.a.shape.rows,
                pair.scaling
            )
        }
        ModuleChange::Whole { weight, .. } => format!("full weight, {}", weight.written_shape()),
    }
}

/// Modules grouped by the last part of their names and by their change, with counts.
fn by_end(file: &AdapterFile) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for module in &file.modules {
        let end = module.name.rsplit('.').next().unwrap_or(&module.name).to_owned();
        *found.entry((end, change(module))).or_default() += 1;
    }
    found
}

/// An adapter with all its modules as JSON.
fn described(file: &AdapterFile) -> Value {
    let module = |module: &AdapterModule| json!({ "module": module.name, "change": change(module) });
    let facts: serde_json::Map<String, Value> =
        file.facts.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
    json!({
        "file": file.name(), "format": file.format.name(), "architecture": file.architecture, "trained_on": file.base,
        "facts": facts, "parameters": file.parameters(),
        "modules": file.modules.iter().map(module).collect::<Vec<_>>(),
    })
}
