//! `models`: what is on this machine.

use crate::failure::Failure;
use crate::{output, progress};
use clap::{Args, Subcommand};
use menagerie::hub::progress::readable_bytes;
use menagerie::hub::{Environment, Hub, Verdict, store};

/// List, find, remove and verify models on this machine
#[derive(Args)]
pub(crate) struct ModelsCommand {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// List models with name, size and source
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the path of a model
    Path {
        /// Its name as listed
        name: String,
    },
    /// Remove a model's file
    Remove {
        /// Its name as listed
        name: String,
    },
    /// Compare a model's bytes with the checksum it was published with (all models without a name)
    Verify {
        /// Its name as listed
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl ModelsCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let hub = Hub::new(Environment::of_process());
        match self.action {
            None => list(&hub, self.json),
            Some(Action::List { json }) => list(&hub, json || self.json),
            Some(Action::Path { name }) => output::line(&hub.find(&name)?.path.display().to_string()),
            Some(Action::Remove { name }) => {
                let model = hub.find(&name)?;
                store::remove(&model)?;
                output::line(&format!("removed {} ({})", model.name, readable_bytes(model.bytes)))
            }
            Some(Action::Verify { name, json }) => verify(&hub, name.as_deref(), json || self.json),
        }
    }
}

fn list(hub: &Hub, json: bool) -> Result<(), Failure> {
    let models = hub.installed();
    if json {
        return output::json(&models);
    }
    if models.is_empty() {
        return output::line("no models are installed; `menagerie pull smollm2` fetches a small one");
    }
    let row = |model: &menagerie::hub::Installed| {
        vec![model.name.clone(), readable_bytes(model.bytes), model.source.to_owned()]
    };
    output::table(&["name", "size", "source"], &models.iter().map(row).collect::<Vec<_>>())
}

fn verify(hub: &Hub, name: Option<&str>, json: bool) -> Result<(), Failure> {
    let models = match name {
        Some(name) => vec![hub.find(name)?],
        None => hub.installed(),
    };
    let mut verdicts = Vec::new();
    for model in models {
        let verdict = store::verify(&model, &mut progress::Bar::default())?;
        verdicts.push((model, verdict));
    }
    if json {
        let form = |(model, verdict): &(_, _)| serde_json::json!({ "model": model, "verdict": verdict });
        output::json(&verdicts.iter().map(form).collect::<Vec<_>>())?;
    } else {
        for (model, verdict) in &verdicts {
            let word = match verdict {
                Verdict::Good => "good".to_owned(),
                Verdict::Bad(reason) => format!("BAD: {reason}"),
                Verdict::Unknown => "no published checksum".to_owned(),
            };
            output::line(&format!("{}: {word}", model.name))?;
        }
    }
    let bad = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Bad(_))).count();
    if bad == 0 {
        Ok(())
    } else {
        Err(Failure::Failed(format!("{bad} of {} models are damaged", verdicts.len())))
    }
}
