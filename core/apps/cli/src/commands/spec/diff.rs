//! `spec diff A B`: prints the differences between two specs.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::spec_reference::require_spec;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::registry::Environment;
use menagerie::spec::SpecValue;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

/// Show the differences between two specs, including the specs that they extend
///
/// Lines with `-` are from the first spec, lines with `+` from the second; the summary and the provenance of each are left out.
#[derive(Args)]
pub(crate) struct DiffCommand {
    /// Id of an architecture, or a spec file
    first: NameOrPath,
    /// Id of another architecture, or a spec file
    second: NameOrPath,
    /// Include the sections about Hugging Face folders
    #[arg(long)]
    hf: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

/// A path with different values in the two specs.
#[derive(Serialize)]
struct Difference {
    path: String,
    first: Option<SpecValue>,
    second: Option<SpecValue>,
}

impl DiffCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        let (first, second) = (self.stated(&self.first, installed)?, self.stated(&self.second, installed)?);
        let differences = differences(first, second);
        if self.json {
            return output::json(&json!({ "differences": differences }));
        }
        if differences.is_empty() {
            return output::line(&format!("{} and {} do not differ", self.first, self.second));
        }
        for Difference { first, second, .. } in &differences {
            for (sign, stated) in [('-', first), ('+', second)] {
                if let Some(SpecValue { path, value, file, line }) = stated {
                    output::line(&format!("{sign} {path} = {value}  # {file}:{line}"))?;
                }
            }
        }
        Ok(())
    }

    /// The values that a spec states, in order.
    fn stated(&self, name: &NameOrPath, installed: &Environment) -> Result<Vec<SpecValue>, Failure> {
        let spec = require_spec(name, &self.specs, installed)?.spec()?;
        let mut left_out = vec!["architecture.", "provenance."];
        if !self.hf {
            left_out.extend(["hf.", "adapter."]);
        }
        let told = |stated: &SpecValue| !left_out.iter().any(|section| stated.path.starts_with(section));
        Ok(spec.stated().into_iter().filter(told).collect())
    }
}

/// The differences in the order of the first spec; values that only the second has come last.
fn differences(first: Vec<SpecValue>, second: Vec<SpecValue>) -> Vec<Difference> {
    let mut others: BTreeMap<String, SpecValue> =
        second.iter().map(|stated| (stated.path.clone(), stated.clone())).collect();
    let mut differences = Vec::new();
    for stated in first {
        let other = others.remove(&stated.path);
        if other.as_ref().is_none_or(|other| other.value != stated.value) {
            differences.push(Difference { path: stated.path.clone(), first: Some(stated), second: other });
        }
    }
    let more = second.into_iter().filter(|stated| others.contains_key(&stated.path));
    differences.extend(more.map(|stated| Difference {
        path: stated.path.clone(),
        first: None,
        second: Some(stated),
    }));
    differences
}
