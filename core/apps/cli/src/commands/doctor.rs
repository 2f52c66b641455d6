//! `doctor`: what this machine offers and where things lie.

use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::model_arguments::SpecArguments;
use crate::output;
use clap::Args;
use menagerie::kernels::{Cpu, Isa};
use menagerie::pipeline::{DeviceLine, devices};
use serde_json::{Value, json};

/// Show CPU features, kernels chosen, threads and folders
#[derive(Args)]
pub(crate) struct DoctorCommand {
    #[command(flatten)]
    specs: SpecArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl DoctorCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let report = self.report()?;
        if self.json {
            return output::json(&report);
        }
        let Value::Object(sections) = report else { return Ok(()) };
        for (name, value) in sections {
            let text = match value {
                Value::Array(items) if items.is_empty() => "none".to_owned(),
                Value::Array(items) if items.iter().all(Value::is_string) => {
                    items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                }
                Value::Array(items) => items.iter().map(|item| format!("\n  {}", list_line(item))).collect(),
                Value::String(text) => text,
                Value::Bool(yes) => if yes { "yes" } else { "no" }.to_owned(),
                Value::Null => continue,
                Value::Number(bytes) if name == "memory_free" => output::bytes(bytes.as_u64().unwrap_or(0)),
                other => other.to_string(),
            };
            output::line(&format!("{}: {text}", name.replace('_', " ")))?;
        }
        Ok(())
    }

    fn report(&self) -> Result<Value, Failure> {
        let cpu = Cpu::with_isa(None, Isa::from_environment()?)?;
        let registry = self.specs.registry()?;
        let folders: Vec<Value> = self
            .specs
            .folders()
            .iter()
            .map(|folder| {
                let files = folder.files();
                json!({
                    "path": folder.path, "from": folder.kind.name(), "exists": folder.path.exists(),
                    "specs": files.as_ref().map(Vec::len).unwrap_or_default(),
                    "error": files.err().map(|error| error.to_string()),
                })
            })
            .collect();
        let faulty: Vec<&str> = registry
            .entries()
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
            "caches": format!("{} KiB first level, {} KiB second", cpu.caches().l1d >> 10, cpu.caches().l2 >> 10),
            "devices": devices().into_iter().map(device_line).collect::<Vec<_>>(),
            "memory_free": menagerie::pipeline::available_memory(),
            "config_file": ConfigFile::location(),
            "architectures": registry.entries().len() - faulty.len(),
            "faulty_specs": faulty,
            "spec_folders": folders,
        });
        if let (Value::Object(report), Value::Object(hub)) = (&mut report, hub_report()) {
            report.extend(hub);
        }
        Ok(report)
    }
}

/// Where models come from and lie; `models` is null where they cannot be listed.
#[cfg(feature = "hub")]
fn hub_report() -> Value {
    use menagerie::hub::{Environment, Hub};
    let hub = Hub::new(Environment::of_process());
    let environment = hub.environment();
    let models = hub.installed();
    json!({
        "hub_cache": environment.hub_cache,
        "hub_endpoint": environment.endpoint,
        "hub_token": environment.token.is_some(),
        "hub_offline": environment.offline,
        "own_cache": environment.own_cache,
        "models": models.as_ref().ok().map(Vec::len),
        "models_fault": models.err().map(|error| error.to_string()),
    })
}

#[cfg(not(feature = "hub"))]
fn hub_report() -> Value {
    json!({ "hub": "left out of this build" })
}

/// A device with what it is, or why it cannot be used.
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
