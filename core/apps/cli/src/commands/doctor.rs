//! `doctor`: the capabilities of this machine and the locations of files.

use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::files::path_text;
use menagerie::kernels::{Cpu, Isa};
use menagerie::open::{DeviceLine, devices};
use menagerie::registry::{Environment, RegistryError};
use serde_json::{Value, json};
#[cfg(feature = "hub")]
use std::path::Path;

/// Show CPU features, kernels, devices, threads and folders
#[derive(Args)]
pub(crate) struct DoctorCommand {
    #[command(flatten)]
    specs: SpecArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Runnable for DoctorCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let report = self.report(&context.environment)?;
        if self.json {
            return output::json(&report);
        }
        let Value::Object(sections) = &report else { return Ok(()) };
        for (name, value) in sections {
            if let Some(text) = section_text(name, value, &report) {
                output::line(&format!("{}: {text}", name.replace('_', " ")))?;
            }
        }
        Ok(())
    }
}

impl DoctorCommand {
    fn report(&self, installed: &Environment) -> Result<Value, Failure> {
        let cpu = Cpu::with_isa(None, Isa::from_environment()?)?;
        let environment = self.specs.environment(installed)?;
        let folders: Vec<Value> = self
            .specs
            .folders()
            .iter()
            .map(|folder| {
                let files = folder.files();
                json!({
                    "path": path_text(&folder.path), "from": folder.kind.name(), "exists": folder.path.exists(),
                    "specs": files.as_ref().map(Vec::len).unwrap_or_default(),
                    "error": files.err().map(reason),
                })
            })
            .collect();
        let faulty: Vec<&str> = environment
            .architectures()
            .iter()
            .filter(|entry| entry.spec().is_err())
            .map(|entry| entry.id.as_str())
            .collect();
        let mut report = json!({
            "version": crate::version::short(),
            "cpu_features": Isa::features(),
            "kernels_available": Isa::available().into_iter().map(Isa::name).collect::<Vec<_>>(),
            "kernels_chosen": cpu.isa().name(),
            "threads": cpu.pool().threads(),
            "caches": { "level_1_data": cpu.caches().l1d, "level_2": cpu.caches().l2 },
            "devices": devices(environment.entries()).into_iter().map(device_line).collect::<Vec<_>>(),
            "memory_free": menagerie::open::available_memory(),
            "memory_total": menagerie::open::total_memory(),
            "config_file": ConfigFile::location().as_deref().map(path_text),
            "architectures": environment.architectures().len() - faulty.len(),
            "faulty_specs": faulty,
            "spec_folders": folders,
        });
        if let (Value::Object(report), Value::Object(hub)) = (&mut report, hub_report()) {
            report.extend(hub);
        }
        Ok(report)
    }
}

/// The text of a section; `None` if another section prints it, or if the value is unknown.
fn section_text(name: &str, value: &Value, report: &Value) -> Option<String> {
    let bytes = |name: &str| report[name].as_u64().map(output::bytes);
    Some(match (name, value) {
        (_, Value::Null) | ("memory_total" | "hub_cache_free" | "own_cache_free", _) => return None,
        ("memory_free", _) => match bytes("memory_total") {
            Some(total) => format!("{} of {total}", bytes(name)?),
            None => bytes(name)?,
        },
        ("hub_cache" | "own_cache", Value::String(path)) => match bytes(&format!("{name}_free")) {
            Some(free) => format!("{path} ({free} free)"),
            None => path.clone(),
        },
        ("caches", caches) => {
            let size = |name: &str| caches[name].as_u64().unwrap_or(0) >> 10;
            format!("L1 data {} KiB, L2 {} KiB", size("level_1_data"), size("level_2"))
        }
        (_, Value::Array(items)) if items.is_empty() => "none".to_owned(),
        (_, Value::Array(items)) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        (_, Value::Array(items)) => items.iter().map(|item| format!("\n  {}", list_line(item))).collect(),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Bool(yes)) => if *yes { "yes" } else { "no" }.to_owned(),
        (_, other) => other.to_string(),
    })
}

/// The reason why a spec folder cannot be read, without its path, which is printed before it.
fn reason(error: RegistryError) -> String {
    match error {
        RegistryError::Folder { reason, .. } | RegistryError::NotASpec { reason, .. } => {
            format!("cannot be read: {reason}")
        }
        other => other.to_string(),
    }
}

/// Free bytes on the disk of a folder, which need not exist yet.
#[cfg(feature = "hub")]
fn free_space(folder: &Path) -> Option<u64> {
    folder.ancestors().find(|folder| folder.is_dir()).and_then(|folder| fs4::available_space(folder).ok())
}

/// Locations of models; `models` is null if they cannot be listed.
#[cfg(feature = "hub")]
fn hub_report() -> Value {
    use menagerie::hub::{Hub, HubSettings};
    let hub = Hub::new(HubSettings::of_process());
    let settings = hub.settings();
    let models = hub.installed();
    json!({
        "hub_cache": settings.hub_cache.as_deref().map(path_text),
        "hub_cache_free": settings.hub_cache.as_deref().and_then(free_space),
        "hub_endpoint": settings.endpoint,
        "hub_token": settings.token.is_some(),
        "hub_offline": settings.offline,
        "own_cache": settings.own_cache.as_deref().map(path_text),
        "own_cache_free": settings.own_cache.as_deref().and_then(free_space),
        "models": models.as_ref().ok().map(Vec::len),
        "models_fault": models.err().map(|error| error.to_string()),
    })
}

#[cfg(not(feature = "hub"))]
fn hub_report() -> Value {
    json!({ "hub": "not included in this build" })
}

/// A device with its description, or with the reason why it cannot be used.
fn device_line(device: DeviceLine) -> Value {
    match device.state {
        Ok(what) => json!({ "name": device.name, "usable": true, "what": what }),
        Err(why) => json!({ "name": device.name, "usable": false, "what": why }),
    }
}

/// A line of a list: a folder, or a device.
fn list_line(item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    if let Some(usable) = item["usable"].as_bool() {
        return format!("{}{}: {}", text("name"), if usable { "" } else { " (not usable)" }, text("what"));
    }
    let state = match item["exists"].as_bool() {
        _ if item["error"].is_string() => text("error"),
        Some(true) => output::counted(item["specs"].as_u64().unwrap_or(0) as usize, "spec"),
        _ => "absent".to_owned(),
    };
    format!("{} ({}): {state}", text("path"), text("from"))
}
