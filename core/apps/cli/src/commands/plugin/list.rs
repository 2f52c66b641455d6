//! `plugin list`: the plugins that are loaded, and those that are refused.

use crate::arguments::plugins::{PluginArguments, lock, plugins};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::files::path_text;
use menagerie::plugin_host::{LoadedPlugin, Lock, PluginComponent, PluginError, PluginLocation};
use serde_json::{Value, json};

/// List the plugins that are loaded, with their components, and those that are refused
#[derive(Args)]
pub(crate) struct PluginListCommand {
    /// Print JSON: plugins with components, files and checksums, and refused files with the reason
    #[arg(long)]
    json: bool,
}

impl PluginListCommand {
    pub(crate) fn run(self, arguments: &PluginArguments) -> Result<(), Failure> {
        let (environment, refused) = arguments.install()?;
        let plugins = plugins(&environment);
        let lock = lock().map(|(lock, _)| lock).unwrap_or_default();
        if self.json {
            let loaded: Vec<Value> = plugins.iter().map(|plugin| as_json(plugin, &lock)).collect();
            let refused: Vec<Value> = refused.iter().map(refused_json).collect();
            return output::json(&json!({ "plugins": loaded, "refused": refused }));
        }
        if plugins.is_empty() && refused.is_empty() {
            return output::line("no plugins; --plugin-dir DIR loads the plugins in a folder");
        }
        for plugin in plugins {
            page(plugin, &lock)?;
        }
        refused.iter().try_for_each(|error| output::note(&format!("{error}; it is not loaded")))
    }
}

/// Whether the lock has a plugin's file, in words.
pub(super) fn locked(lock: &Lock, id: &str, sha256: &str) -> &'static str {
    match lock.get(id) {
        Some(sum) if sum == sha256 => "trusted",
        Some(_) => "another file is trusted",
        None => "not trusted",
    }
}

fn page(plugin: &LoadedPlugin, lock: &Lock) -> Result<(), Failure> {
    let LoadedPlugin { inspected, location, .. } = plugin;
    let trust = match location {
        PluginLocation::Static => String::new(),
        PluginLocation::File(_) => format!(", {}", locked(lock, &inspected.id, &plugin.sha256)),
    };
    output::line(&format!("{} {} ({location}{trust})", inspected.id, inspected.version))?;
    for component in &plugin.components {
        let doc = component.doc.lines().next().unwrap_or_default();
        output::line(&format!("  {:<12} {}  {doc}", component.family, component.name))?;
    }
    for architecture in &plugin.architectures {
        output::line(&format!("  {:<12} {architecture}", "architecture"))?;
    }
    for table in &plugin.tables {
        output::line(&format!("  {:<12} {table}", "table"))?;
    }
    Ok(())
}

fn as_json(plugin: &LoadedPlugin, lock: &Lock) -> Value {
    let LoadedPlugin { inspected, location, sha256, components, architectures, tables, .. } = plugin;
    let component = |component: &PluginComponent| json!({ "family": component.family, "name": component.name, "meaning": component.doc });
    let file = match location {
        PluginLocation::File(path) => Some(path),
        PluginLocation::Static => None,
    };
    let components: Vec<Value> = components.iter().map(component).collect();
    let mut value = json!(inspected);
    value["file"] = json!(file.map(|file| path_text(file)));
    value["sha256"] = json!(file.map(|_| sha256));
    value["lock"] = json!(file.map(|_| locked(lock, &inspected.id, sha256)));
    value["components"] = json!(components);
    value["architectures"] = json!(architectures);
    value["tables"] = json!(tables);
    value
}

fn refused_json(error: &PluginError) -> Value {
    json!({ "file": path_text(&error.source), "reason": error.fault.to_string() })
}
