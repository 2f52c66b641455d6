//! `POST /specs/check`: the faults of a spec, with their places.

use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::{json_answer, read_fields};
use axum::extract::{Request, State};
use axum::response::Response;
use menagerie::registry::Environment;
use menagerie::spec::{ArchSpec, Outline, SpecLookup, SpecSource};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The most bytes of a spec.
const MOST_BYTES: usize = 256 << 10;
/// The most time for a spec.
const MOST_TIME: Duration = Duration::from_secs(1);
/// The name of the spec in faults.
const NAME: &str = "spec.toml";

pub(super) async fn check(State(app): State<Arc<ServerApp>>, request: Request) -> Result<Response, ApiFault> {
    let mut fields = read_fields(&app, request).await?;
    let text = take_text(&mut fields, MOST_BYTES)?;
    let checked = timeout(MOST_TIME, blocking(move || checked(&installed(&app)?, text))).await;
    let late = |_| ApiFault::new(400, "text: the spec cannot be checked within a second").with_param("text");
    Ok(json_answer(&checked.map_err(late)???))
}

/// The field `text`, which is the only one.
pub(super) fn take_text(fields: &mut Map<String, Value>, most: usize) -> Result<String, ApiFault> {
    let text = match fields.remove("text") {
        Some(Value::String(text)) => text,
        _ => return Err(ApiFault::new(400, "text: expected a string").with_param("text")),
    };
    if let Some(name) = fields.keys().next() {
        let reason = format!("{name}: this field is not supported; remove it from the request");
        return Err(ApiFault::new(400, reason).with_param(name));
    }
    if text.len() > most {
        let reason = format!("text: it has {} bytes, and at most {most} are read", text.len());
        return Err(ApiFault::new(413, reason).with_param("text"));
    }
    Ok(text)
}

/// Everything that is installed.
pub(super) fn installed(app: &ServerApp) -> Result<Environment, ApiFault> {
    match app.models.environment().or_else(|| app.options.environment.clone()) {
        Some(environment) => Ok(environment),
        None => Environment::linked().map_err(|error| ApiFault::new(500, error)),
    }
}

/// The installed specs, which a spec may extend.
struct InstalledSpecs<'e>(&'e Environment);

impl SpecLookup for InstalledSpecs<'_> {
    fn find(&self, id: &str) -> Option<SpecSource> {
        let entry = self.0.architecture(id)?;
        Some(SpecSource { name: format!("{id}.toml"), text: entry.text().to_owned() })
    }

    fn find_replaced(&self, id: &str, _replacing: &SpecSource) -> Option<SpecSource> {
        self.find(id)
    }

    fn ids(&self) -> Vec<String> {
        self.0.architectures().iter().map(|entry| entry.id.clone()).collect()
    }
}

fn checked(environment: &Environment, text: String) -> Result<Value, ApiFault> {
    let kinds = environment.components().kinds().map_err(|error| ApiFault::new(500, error))?;
    let source = SpecSource { name: NAME.to_owned(), text };
    Ok(match ArchSpec::parse(&source, &InstalledSpecs(environment), &kinds) {
        Ok(spec) => {
            let mut notes: Vec<String> = spec.warnings.iter().map(ToString::to_string).collect();
            notes.extend(spec.misspelt_keys().into_iter().map(|(key, known)| {
                format!("this spec reads `{key}`, which is not a standard key; did you mean `{known}`?")
            }));
            json!({
                "good": true, "faults": [], "notes": notes, "id": spec.id(), "summary": spec.summary,
                "outline": Outline::of(&spec),
            })
        }
        Err(faults) => {
            let fault = |fault: &menagerie::spec::Fault| {
                json!({
                    "file": fault.file, "line": fault.position.map(|at| at.0),
                    "column": fault.position.map(|at| at.1), "subject": fault.subject, "message": fault.message,
                })
            };
            let faults: Vec<Value> = faults.faults().iter().map(fault).collect();
            json!({ "good": false, "faults": faults, "notes": [] })
        }
    })
}
