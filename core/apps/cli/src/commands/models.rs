//! `models`: the models on this machine.

use crate::arguments::model_names::ModelNames;
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::{progress, report};
use crate::{interrupt, output};
use clap::{Args, Subcommand};
use menagerie::files::path_text;
use menagerie::hub::{
    CatalogFile, CatalogModel, DownloadState, Hub, HubError, InstalledModel, Leftover, Removal, Verification,
};
use serde_json::{Value, json};

/// List, locate, remove and verify the models on this machine
#[derive(Args)]
pub(crate) struct ModelsCommand {
    #[command(subcommand)]
    action: Option<ModelsAction>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum ModelsAction {
    /// List models with name, size and source, and leftovers of interrupted or damaged downloads
    List,
    /// List the models that have a short name for `run` and `pull`, with size, license and quantizations
    ///
    /// Short names are built in or come from `models.toml` in a spec folder.
    Available {
        #[command(flatten)]
        specs: SpecArguments,
    },
    /// Print the path of a model
    Path {
        /// Its name as listed
        name: String,
    },
    /// Remove a model with all its parts, unless another model in the cache uses them; or remove leftovers of its download
    ///
    /// Nothing outside the cache is removed: if a folder of the cache is a link, the command fails.
    Remove {
        /// Its name as listed
        name: String,
    },
    /// Remove leftovers of interrupted and damaged downloads, and repository folders without files
    ///
    /// An interrupted download that is kept can be resumed. Files that another process is downloading are kept.
    Prune {
        /// Only list what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Compare a model's bytes with the published checksum (without a name: all models)
    Verify {
        /// Its name as listed
        name: Option<String>,
    },
}

const NONE: &str = "no models are installed; `menagerie pull smollm2` downloads a small one";

impl Runnable for ModelsCommand {
    fn run(self, _: &CommandContext) -> Result<(), Failure> {
        let json = self.json;
        if let Some(ModelsAction::Available { specs }) = &self.action {
            return available(&ModelNames::read(specs)?, json);
        }
        let names = ModelNames::read(&SpecArguments::default())?;
        let hub = names.hub();
        match self.action {
            None | Some(ModelsAction::List | ModelsAction::Available { .. }) => list(&hub, json),
            Some(ModelsAction::Path { name }) => {
                let model = hub.find(&name)?;
                if json { output::json(&model) } else { output::data_line(&path_text(&model.path)) }
            }
            Some(ModelsAction::Remove { name }) => remove(&hub, &name, json),
            Some(ModelsAction::Prune { dry_run }) => prune(&hub, dry_run, json),
            Some(ModelsAction::Verify { name }) => verify(&hub, name.as_deref(), json),
        }
    }
}

fn list(hub: &Hub, json: bool) -> Result<(), Failure> {
    let (models, leftovers) = (hub.installed()?, hub.leftovers()?);
    if json {
        return output::json(&json!({ "models": models, "leftovers": leftovers }));
    }
    if models.is_empty() {
        output::line(NONE)?;
    }
    let row = |model: &InstalledModel| {
        let source = match model.missing.len() {
            0 => model.source.to_owned(),
            missing => format!("{}, incomplete: {} missing", model.source, output::counted(missing, "part")),
        };
        vec![model.name.clone(), output::bytes(model.bytes), source]
    };
    let left = |leftover: &Leftover| {
        let source = format!("{}, {}", leftover.source, leftover.state.name());
        vec![leftover.name.clone(), output::bytes(leftover.bytes), source]
    };
    let rows: Vec<_> = models.iter().map(row).chain(leftovers.iter().map(left)).collect();
    if !rows.is_empty() {
        output::table(&["name", "size", "source"], &rows)?;
    }
    if !leftovers.is_empty() {
        let note = "`menagerie pull` resumes incomplete downloads; `menagerie models prune` removes leftovers of downloads";
        report::note(note);
    }
    Ok(())
}

/// Prints the short names.
fn available(names: &ModelNames, json: bool) -> Result<(), Failure> {
    let models = &names.catalog.models;
    names.notes.iter().for_each(|note| report::note(note));
    if json {
        let files = |model: &CatalogModel| -> Vec<Value> {
            let file = |file: &CatalogFile| json!({ "quantization": file.quantization, "file": file.file, "bytes": file.bytes, "sha256": file.sha256 });
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
        let default = model.files.iter().find(|file| file.quantization == model.default);
        let labels: Vec<&str> = model.files.iter().map(|file| file.quantization.as_str()).collect();
        vec![
            model.name.clone(),
            output::bytes(default.map_or(0, |file| file.bytes)),
            labels.join(" "),
            model.license.strip_prefix("LicenseRef-").unwrap_or(&model.license).to_owned(),
        ]
    };
    output::table(&["name", "size", "quantizations", "license"], &models.iter().map(row).collect::<Vec<_>>())
}

fn remove(hub: &Hub, name: &str, json: bool) -> Result<(), Failure> {
    let model = match hub.find(name) {
        Ok(model) => Some(model),
        Err(HubError::NotInstalled { .. }) if !hub.leftovers_of(name)?.is_empty() => None,
        Err(error) => return Err(error.into()),
    };
    let mut removed = Removal { files: 0, bytes: 0 };
    if let Some(model) = &model {
        removed = hub.remove(model)?;
    }
    let own = removed.bytes;
    for leftover in hub.leftovers_of(name)? {
        if hub.remove_leftover(&leftover)? {
            removed.files += usize::from(leftover.state != DownloadState::Empty);
            removed.bytes += leftover.bytes;
        } else if model.is_none() {
            return Err(HubError::InUse { name: name.to_owned() }.into());
        }
    }
    if json {
        return output::json(&json!({ "model": model, "removed": removed }));
    }
    let files = output::counted(removed.files, "file");
    let shared = match &model {
        Some(model) if own < model.bytes => "; other models use the rest",
        _ => "",
    };
    let name = model.map_or(name.to_owned(), |model| model.name);
    output::line(&format!("removed {name} ({files}, {} freed{shared})", output::bytes(removed.bytes)))
}

fn prune(hub: &Hub, dry_run: bool, json: bool) -> Result<(), Failure> {
    let (mut rows, mut lines, mut bytes) = (Vec::new(), Vec::new(), 0);
    for leftover in hub.leftovers()? {
        let taken = if dry_run { !hub.is_downloading(&leftover)? } else { hub.remove_leftover(&leftover)? };
        let what = match (taken, dry_run) {
            (true, false) => "removed",
            (true, true) => "would remove",
            (false, _) => "kept",
        };
        let (name, state, size) = (&leftover.name, leftover.state.name(), output::bytes(leftover.bytes));
        let why = if taken { "" } else { ": another process is downloading it" };
        lines.push(format!("{what} {name} ({state}, {size}){why}"));
        bytes += if taken { leftover.bytes } else { 0 };
        let mut row = json!(leftover);
        row["removed"] = (taken && !dry_run).into();
        row["in_use"] = (!taken).into();
        rows.push(row);
    }
    if json {
        return output::json(&json!({ "dry_run": dry_run, "bytes": bytes, "leftovers": rows }));
    }
    if lines.is_empty() {
        return output::line("there are no leftovers of interrupted or damaged downloads");
    }
    lines.iter().try_for_each(|line| output::line(line))?;
    let freed = if dry_run { "would be freed" } else { "freed" };
    output::line(&format!("{} {freed}", output::bytes(bytes)))
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
                Verification::Good => "ok".to_owned(),
                Verification::Bad(reason) => {
                    format!("DAMAGED: {reason}; `menagerie pull` downloads it again")
                }
                Verification::Unknown(reason) => format!("not checked: {reason}"),
            };
            output::line(&format!("{}: {word}", model.name))?;
        }
    }
    match verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verification::Bad(_))).count() {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 model is damaged".to_owned())),
        bad => Err(Failure::Failed(format!("{bad} of {} models are damaged", verdicts.len()))),
    }
}

/// The model with `verdict` (good, bad, unknown) and `reason`.
fn verdict_json(model: &InstalledModel, verdict: &Verification) -> Value {
    let (word, reason) = match verdict {
        Verification::Good => ("good", None),
        Verification::Bad(reason) => ("bad", Some(reason)),
        Verification::Unknown(reason) => ("unknown", Some(reason)),
    };
    json!({ "model": model, "verdict": word, "reason": reason })
}
