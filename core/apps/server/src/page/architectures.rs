//! `/page/architectures`: the installed architectures, one of them, and the differences of two.

use super::spec_check::installed;
use crate::app::ServerApp;
use crate::blocking::blocking;
use crate::fault::ApiFault;
use crate::http::json_answer;
use axum::extract::{Path, State};
use axum::response::Response;
use menagerie::registry::{ArchitectureEntry, Environment};
use menagerie::spec::{ArchSpec, Outline, StatedOption};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) async fn list(State(app): State<Arc<ServerApp>>) -> Result<Response, ApiFault> {
    let listed = blocking(move || -> Result<Value, ApiFault> {
        let environment = installed(&app)?;
        let bases: BTreeMap<&str, &str> =
            environment.architectures().iter().filter_map(|entry| Some((&*entry.id, base(entry)?))).collect();
        Ok(environment.architectures().iter().map(|entry| card(entry, &bases)).collect())
    });
    Ok(json_answer(&json!({ "architectures": listed.await?? })))
}

pub(super) async fn one(
    State(app): State<Arc<ServerApp>>,
    Path(id): Path<String>,
) -> Result<Response, ApiFault> {
    let described = blocking(move || {
        let environment = installed(&app)?;
        let (entry, spec) = found(&environment, &id)?;
        Ok::<Value, ApiFault>(description(entry, &spec))
    });
    Ok(json_answer(&described.await??))
}

pub(super) async fn differences(
    State(app): State<Arc<ServerApp>>,
    Path((first, second)): Path<(String, String)>,
) -> Result<Response, ApiFault> {
    let compared = blocking(move || {
        let environment = installed(&app)?;
        let (first, second) = (found(&environment, &first)?.1, found(&environment, &second)?.1);
        let differences = first.differences(&second, false);
        Ok::<Value, ApiFault>(
            json!({ "first": first.id(), "second": second.id(), "differences": differences }),
        )
    });
    Ok(json_answer(&compared.await??))
}

/// The architecture with this id, and its spec.
fn found<'e>(
    environment: &'e Environment,
    id: &str,
) -> Result<(&'e ArchitectureEntry, Arc<ArchSpec>), ApiFault> {
    let Some(entry) = environment.architecture(id) else {
        return Err(
            ApiFault::new(404, format!("there is no architecture {id:?}")).with_code("unknown_architecture")
        );
    };
    let spec = entry.spec().clone().map_err(|error| ApiFault::new(400, error).with_code("faulty_spec"))?;
    Ok((entry, spec))
}

/// The id of the spec that a spec extends.
fn base(entry: &ArchitectureEntry) -> Option<&str> {
    let spec = entry.spec().as_ref().ok()?;
    spec.extends.first().map(String::as_str)
}

/// The last spec in the chain of `extends`.
fn family<'b>(id: &'b str, bases: &BTreeMap<&str, &'b str>) -> &'b str {
    let mut family = id;
    // A cycle is a fault of the spec.
    for _ in 0..8 {
        match bases.get(family) {
            Some(base) => family = base,
            None => break,
        }
    }
    family
}

fn card(entry: &ArchitectureEntry, bases: &BTreeMap<&str, &str>) -> Value {
    match entry.spec() {
        Err(error) => {
            json!({ "id": entry.id, "origin": entry.origin.to_string(), "error": error.to_string() })
        }
        Ok(spec) => json!({
            "id": entry.id,
            "names": spec.gguf_names,
            "classes": entry.classes(),
            "family": family(&entry.id, bases),
            "summary": spec.summary,
            "parts": spec.features(),
            "origin": entry.origin.to_string(),
            "reference": spec.provenance.as_ref().map(|by| by.reference.clone()),
            "error": null,
        }),
    }
}

fn description(entry: &ArchitectureEntry, spec: &ArchSpec) -> Value {
    let stated: Vec<StatedOption> =
        spec.options().into_iter().filter(|option| option.value.is_some()).collect();
    json!({
        "id": entry.id,
        "names": spec.gguf_names,
        "classes": entry.classes(),
        "summary": spec.summary,
        "extends": spec.extends,
        "origin": entry.origin.detail(),
        "provenance": spec.provenance,
        "parts": spec.features(),
        "outline": Outline::of(spec),
        "options": stated,
        "text": entry.text(),
        "merged": spec.merged(),
    })
}
