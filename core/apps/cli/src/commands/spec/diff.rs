//! `spec diff A B`: prints the differences between two specs.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::spec_reference::require_spec;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::registry::Environment;
use menagerie::spec::{ArchSpec, SpecDifference, SpecValue};
use serde_json::json;
use std::sync::Arc;

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

impl DiffCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        let (first, second) = (self.spec(&self.first, installed)?, self.spec(&self.second, installed)?);
        let differences = first.differences(&second, self.hf);
        if self.json {
            return output::json(&json!({ "differences": differences }));
        }
        if differences.is_empty() {
            return output::line(&format!("{} and {} do not differ", self.first, self.second));
        }
        for SpecDifference { first, second, .. } in &differences {
            for (sign, stated) in [('-', first), ('+', second)] {
                if let Some(SpecValue { path, value, file, line }) = stated {
                    output::line(&format!("{sign} {path} = {value}  # {file}:{line}"))?;
                }
            }
        }
        Ok(())
    }

    fn spec(&self, name: &NameOrPath, installed: &Environment) -> Result<Arc<ArchSpec>, Failure> {
        require_spec(name, &self.specs, installed)?.spec()
    }
}
