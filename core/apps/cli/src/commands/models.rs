//! `models`: what is on this machine.

use crate::failure::Failure;
use crate::model_arguments::SpecArguments;
use crate::model_names::ModelNames;
use crate::{interrupt, output, progress, report};
use clap::{Args, Subcommand};
use menagerie::hub::{CatalogFile, CatalogModel, Hub, Installed, Verdict};
use serde_json::{Value, json};

/// List, locate, remove and verify the models on this machine
#[derive(Args)]
pub(crate) struct ModelsCommand {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// List models with name, size and source
    List,
    /// List the models that `run` and `pull` know by a short name, with size, license and quantizations
    ///
    /// Those of the program, and those of `models.toml` in a spec folder.
    Available {
        #[command(flatten)]
        specs: SpecArguments,
    },
    /// Print the path of a model
    Path {
        /// Its name as listed
        name: String,
    },
    /// Remove a model: every part of it, and what nothing else in the cache uses
    Remove {
        /// Its name as listed
        name: String,
    },
    /// Compare a model's bytes with the checksum it was published with (all models without a name)
    Verify {
        /// Its name as listed
        name: Option<String>,
    },
}

const NONE: &str = "no models are installed; `menagerie pull smollm2` fetches a small one";

impl ModelsCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let json = self.json;
        if let Some(Action::Available { specs }) = &self.action {
            return available(&ModelNames::read(specs)?, json);
        }
        let names = ModelNames::read(&SpecArguments::default())?;
        let hub = names.hub();
        match self.action {
            None | Some(Action::List | Action::Available { .. }) => list(&hub, json),
            Some(Action::Path { name }) => {
                let model = hub.find(&name)?;
                if json { output::json(&model) } else { output::line(&model.path.display().to_string()) }
            }
            Some(Action::Remove { name }) => remove(&hub, &name, json),
            Some(Action::Verify { name }) => verify(&hub, name.as_deref(), json),
        }
    }
}

fn list(hub: &Hub, json: bool) -> Result<(), Failure> {
    let models = hub.installed()?;
    if json {
        return output::json(&json!({ "models": models }));
    }
    if models.is_empty() {
        return output::line(NONE);
    }
    let row = |model: &Installed| {
        let source = match model.missing.len() {
            0 => model.source.to_owned(),
            missing => format!("{}, incomplete: {missing} parts are missing", model.source),
        };
        vec![model.name.clone(), output::bytes(model.bytes), source]
    };
    output::table(&["name", "size", "source"], &models.iter().map(row).collect::<Vec<_>>())
}

/// The tables of names.
fn available(names: &ModelNames, json: bool) -> Result<(), Failure> {
    let models = &names.catalog.models;
    names.notes.iter().for_each(|note| report::note(note));
    if json {
        let files = |model: &CatalogModel| -> Vec<Value> {
            let file = |file: &CatalogFile| json!({ "quantization": file.quantisation, "file": file.file, "bytes": file.bytes, "sha256": file.sha256 });
            model.files.iter().map(file).collect()
        };
        let one = |model: &CatalogModel| {
            json!({
                "name": model.name, "summary": model.summary, "license": model.license,
                "repository": model.repository, "default": model.default, "files": files(model),
                "table": model.table,
            })
        };
        return output::json(&json!({ "models": models.iter().map(one).collect::<Vec<_>>() }));
    }
    let row = |model: &CatalogModel| {
        let default = model.files.iter().find(|file| file.quantisation == model.default);
        let labels: Vec<&str> = model.files.iter().map(|file| file.quantisation.as_str()).collect();
        vec![
            model.name.clone(),
            output::bytes(default.map_or(0, |file| file.bytes)),
            labels.join(" "),
            model.license.clone(),
        ]
    };
    output::table(&["name", "size", "quantizations", "license"], &models.iter().map(row).collect::<Vec<_>>())
}

fn remove(hub: &Hub, name: &str, json: bool) -> Result<(), Failure> {
    let model = hub.find(name)?;
    let removed = hub.remove(&model)?;
    if json {
        return output::json(&json!({ "model": model, "removed": removed }));
    }
    let files = if removed.files == 1 { "1 file".to_owned() } else { format!("{} files", removed.files) };
    let shared = if removed.bytes < model.bytes { "; the rest is used elsewhere" } else { "" };
    output::line(&format!("removed {} ({files}, {} freed{shared})", model.name, output::bytes(removed.bytes)))
}

fn verify(hub: &Hub, name: Option<&str>, json: bool) -> Result<(), Failure> {
    let models = match name {
        Some(name) => vec![hub.find(name)?],
        None => hub.installed()?,
    };
    if models.is_empty() && !json {
        return output::line(NONE);
    }
    let _at_once = interrupt::at_once()?;
    let mut verdicts = Vec::new();
    for model in models {
        let verdict = hub.verify(&model, &mut progress::Bar::default())?;
        verdicts.push((model, verdict));
    }
    if json {
        let all: Vec<Value> = verdicts.iter().map(|(model, verdict)| verdict_json(model, verdict)).collect();
        output::json(&json!({ "models": all }))?;
    } else {
        for (model, verdict) in &verdicts {
            let word = match verdict {
                Verdict::Good => "good".to_owned(),
                Verdict::Bad(reason) => format!("BAD: {reason}; `menagerie pull` fetches it again"),
                Verdict::Unknown(reason) => format!("not checked: {reason}"),
            };
            output::line(&format!("{}: {word}", model.name))?;
        }
    }
    match verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Bad(_))).count() {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 model is damaged".to_owned())),
        bad => Err(Failure::Failed(format!("{bad} of {} models are damaged", verdicts.len()))),
    }
}

/// The model beside `verdict` (good, bad, unknown) and `reason`.
fn verdict_json(model: &Installed, verdict: &Verdict) -> Value {
    let (word, reason) = match verdict {
        Verdict::Good => ("good", None),
        Verdict::Bad(reason) => ("bad", Some(reason)),
        Verdict::Unknown(reason) => ("unknown", Some(reason)),
    };
    json!({ "model": model, "verdict": word, "reason": reason })
}
