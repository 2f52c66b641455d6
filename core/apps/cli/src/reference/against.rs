//! [`SpecComparison`]: the differences between two specs on one file: their values, and the resulting logits.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::opening::ModelOpening;
use crate::arguments::spec_reference::require_spec;
use crate::failure::Failure;
use crate::output;
use crate::reference::comparison;
use crate::reference::comparison::TensorComparison;
use menagerie::engine::TextPipeline;
use menagerie::open::{LoadedModel, ResolvedFile};
use menagerie::registry::{Environment, FolderKind, SpecFolder, SpecFolders};
use menagerie::spec::{layer_ranges, toml_text};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Number of tokens to compute without a reference: more than the windows of most tiny models.
const TOKENS: u32 = 64;

/// The comparison of two specs on one file.
#[derive(Debug, serde::Serialize)]
pub(crate) struct SpecComparison {
    /// The other spec.
    spec: String,
    /// Values that differ.
    values: Vec<ValueDifference>,
    /// The comparison of the logits.
    logits: TensorComparison,
}

/// A value that differs between two specs.
#[derive(Debug, serde::Serialize)]
struct ValueDifference {
    /// Dotted path, and the layers.
    path: String,
    /// The value of the model's spec.
    ours: Option<String>,
    /// The value of the other spec.
    theirs: Option<String>,
}

impl SpecComparison {
    /// Opens the file of `pipeline` a second time with another spec. Without tokens, arbitrary ones are used.
    pub(crate) fn of(
        pipeline: &LoadedModel<TextPipeline>,
        opening: &ModelOpening,
        other: &NameOrPath,
        tokens: Vec<u32>,
        installed: &Environment,
    ) -> Result<Self, Failure> {
        let resolved = pipeline.resolved();
        let name = resolved.file.architecture().map_err(Failure::from)?.to_owned();
        let spec = require_spec(other, opening.specs(), installed)?.spec()?;
        // The other spec with the architecture name of the file.
        let mut document = spec.document();
        document["architecture"] = json!({ "id": name });
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(format!("{name}.toml"));
        std::fs::write(&path, format!("schema = 1\n{}", toml_text(&document)))?;
        let folders = vec![SpecFolder { path, kind: FolderKind::File }];
        let folders = SpecFolders::default().with_folders(folders).with_allow_shadow(true);
        let environment = installed.with_spec_folders(folders)?;
        let second = opening.clone().with_environment(environment).open_text()?;
        let vocabulary = u32::try_from(pipeline.vocabulary()).unwrap_or(u32::MAX).max(1);
        let made_up = || (0..TOKENS).map(|at| (at * 37 + 11) % vocabulary).collect();
        let tokens = if tokens.is_empty() { made_up() } else { tokens };
        let logits = comparison::between(pipeline, &second, &tokens)?;
        let values = differences(resolved, second.resolved());
        Ok(Self { spec: other.to_string(), values, logits })
    }

    /// Whether values and logits are the same.
    pub(crate) fn is_same(&self) -> bool {
        self.values.is_empty() && self.logits.passed
    }

    pub(crate) fn print(&self) -> Result<(), Failure> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        let row = |one: &ValueDifference| vec![one.path.clone(), text(&one.ours), text(&one.theirs)];
        let rows: Vec<Vec<String>> = self.values.iter().map(row).collect();
        if !rows.is_empty() {
            output::table(&["value", "the model's spec", &self.spec], &rows)?;
        }
        let TensorComparison { rows, difference, .. } = &self.logits;
        let rows = output::counted(*rows, "token");
        output::line(&match self.is_same() {
            true => format!("{}: the same values, and the same logits for {rows}", self.spec),
            false => format!("{}: the logits of {rows} differ by up to {difference:.2e}", self.spec),
        })
    }
}

fn differences(ours: &ResolvedFile, theirs: &ResolvedFile) -> Vec<ValueDifference> {
    let values = |file: &ResolvedFile| {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for entry in &file.resolution.values {
            let layers = if entry.layers.is_empty() {
                String::new()
            } else {
                format!(" ({})", layer_ranges(&entry.layers))
            };
            values.insert(format!("{}{layers}", entry.path), entry.value.clone());
        }
        values
    };
    let (ours, theirs) = (values(ours), values(theirs));
    let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let differing = paths.into_iter().filter(|path| ours.get(*path) != theirs.get(*path));
    differing
        .map(|path| ValueDifference {
            path: path.clone(),
            ours: ours.get(path).cloned(),
            theirs: theirs.get(path).cloned(),
        })
        .collect()
}
