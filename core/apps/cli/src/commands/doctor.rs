//! `doctor`: what this machine offers and where things lie.

use crate::failure::Failure;
use crate::model_arguments::SpecArguments;
use crate::output;
use clap::Args;
use menagerie::hub::Environment;
use menagerie::kernels::{Cpu, Isa};
use menagerie::registry::SpecFolder;
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
                Value::Array(items) if items.iter().all(Value::is_string) => {
                    items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                }
                Value::Array(items) => {
                    items.iter().map(|item| format!("\n  {}", folder_line(item))).collect()
                }
                Value::String(text) => text,
                other => other.to_string(),
            };
            output::line(&format!("{}: {text}", name.replace('_', " ")))?;
        }
        Ok(())
    }

    fn report(&self) -> Result<Value, Failure> {
        let cpu = Cpu::new(None)?;
        let environment = Environment::of_process();
        let registry = self.specs.registry()?;
        let folders: Vec<Value> = SpecFolder::of_process(&self.specs.spec_dir)
            .iter()
            .map(|folder| {
                let files = folder.files().map(|files| files.len()).unwrap_or_default();
                json!({
                    "path": folder.path, "from": folder.kind.name(), "exists": folder.path.is_dir(), "specs": files,
                })
            })
            .collect();
        let faulty = registry.entries().iter().filter(|entry| entry.spec.is_err()).count();
        Ok(json!({
            "version": crate::version::short(),
            "cpu_features": Isa::features(),
            "kernels_available": Isa::available().into_iter().map(Isa::name).collect::<Vec<_>>(),
            "kernels_chosen": cpu.isa().name(),
            "threads": cpu.pool().threads(),
            "architectures": registry.entries().len() - faulty,
            "faulty_specs": faulty,
            "spec_folders": folders,
            "hub_cache": environment.hub_cache,
            "hub_endpoint": environment.endpoint,
            "hub_token": if environment.token.is_some() { "set" } else { "not set" },
            "hub_offline": environment.offline,
            "own_models": environment.models,
        }))
    }
}

fn folder_line(item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let state = match item["exists"].as_bool() {
        Some(true) => format!("{} specs", item["specs"]),
        _ => "absent".to_owned(),
    };
    format!("{} ({}): {state}", text("path"), text("from"))
}
