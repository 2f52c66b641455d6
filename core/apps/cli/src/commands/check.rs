//! `check MODEL|ARCHITECTURE|SPEC`: every fault at once, and logits against a reference.

use crate::answer;
use crate::comparison::{self, Compared};
use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::report::{self, Finding};
use crate::template_arguments::TemplateArguments;
use crate::{interrupt, output, style};
use clap::Args;
use menagerie::pipeline::{ResolvedFile, TextPipeline};
use menagerie::registry::{Entry, FolderKind, Origin, Registry, RegistryOptions, SpecFolder};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Largest difference that passes where nothing else is asked for: twice the noise between two f32 implementations.
const TOLERANCE: f32 = 1e-4;

/// Report every fault of a model, of an architecture or of a spec at once
///
/// A spec (a file, or the id of an architecture): its tables, options and expressions. A model: its keys and tensors
/// under its spec, its tokenizer and chat template. With --reference, also its logits against a safetensors file with
/// `tokens_NAME` i64 [T] and `logits_NAME` f32 [T, V], as `menagerie logits` writes it (`tokens`, `logits`) and as the
/// reference scripts of the project do. From a model of Hugging Face such a file comes by its transformers in float32:
/// see tests/reference in the source of this program; from a build that is trusted, by `menagerie logits --exact`.
#[derive(Args)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// Logits to compare with
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Largest difference of a logit that passes
    #[arg(long, value_name = "X", default_value_t = TOLERANCE, requires = "reference", value_parser = tolerance)]
    tolerance: f32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Default)]
struct Found {
    /// Where the spec or the model is from.
    what: String,
    architecture: Option<String>,
    faults: Vec<Finding>,
    notes: Vec<String>,
    tokenizer: Option<String>,
    chat: Option<String>,
    compared: Vec<Compared>,
}

fn tolerance(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("expected a number from 0".to_owned()) }
}

impl CheckCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let name = self.model.model.clone();
        let spec = self.spec_meant(&name)?;
        let found = match spec {
            Some(entry) => spec_found(&name, &entry),
            None => self.model_found()?,
        };
        let good = found.faults.is_empty() && found.compared.iter().all(|one| one.passed);
        if self.json {
            output::json(&self.as_json(&found, good))?;
            return if good { Ok(()) } else { Err(Failure::Reported) };
        }
        self.print(&found)?;
        if good { Ok(()) } else { Err(Failure::Reported) }
    }

    /// The entry of a spec file or of an architecture's id; `None` where a model is meant.
    fn spec_meant(&self, name: &str) -> Result<Option<Entry>, Failure> {
        let path = Path::new(name);
        if name.ends_with(".toml") {
            return self.spec_file(path).map(Some);
        }
        if path.exists() || name.contains('/') {
            return Ok(None);
        }
        Ok(self.model.specs.registry()?.entry(name).cloned())
    }

    /// A spec among those of its folder and those of any other command, which it may extend.
    fn spec_file(&self, file: &Path) -> Result<Entry, Failure> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut folders = vec![
            SpecFolder { path: file.to_owned(), kind: FolderKind::File },
            SpecFolder { path: folder.to_owned(), kind: FolderKind::Flag },
        ];
        folders.extend(self.model.specs.folders());
        let registry =
            Registry::load(&RegistryOptions { folders, allow_shadow: self.model.specs.allow_shadow })?;
        let is_it = |entry: &&Entry| matches!(&entry.origin, Origin::File { path, .. } if path == file);
        registry.entries().iter().find(is_it).cloned().ok_or_else(|| {
            Failure::about(file.display(), "another spec of its name comes first (see `menagerie list`)")
        })
    }

    /// A model that cannot be opened has faults like any other.
    fn model_found(&self) -> Result<Found, Failure> {
        let mut found = Found { what: self.model.model.clone(), ..Found::default() };
        let template = TemplateArguments::default();
        let pipeline = match self.model.open_silently(&template) {
            Ok(pipeline) => pipeline,
            Err(Failure::Failed(message)) => {
                found.faults = report::findings(&message);
                return Ok(found);
            }
            Err(failure) => return Err(failure),
        };
        found.architecture = Some(pipeline.architecture().to_owned());
        found.notes = pipeline.notices().iter().map(ToString::to_string).collect();
        found.notes.extend(pipeline.resolved().map(unused).unwrap_or_default());
        self.text_found(&pipeline, &mut found);
        if let Some(file) = &self.reference {
            // Nothing is lost by ending at once.
            let _at_once = interrupt::at_once()?;
            found.compared = comparison::with_reference(&pipeline, file, self.tolerance)?;
        }
        Ok(found)
    }

    /// What it cannot read or write is a fault; a base model without a chat template is a note.
    fn text_found(&self, pipeline: &TextPipeline, found: &mut Found) {
        let fault = |message: String| Finding { message, ..Finding::default() };
        if let Err(missing) = pipeline.tokenizer().map(drop) {
            found.tokenizer = Some(missing.to_string());
            found.faults.push(fault(missing.to_string()));
            return;
        }
        if let Err(missing) = pipeline.chat_format().map(drop) {
            found.chat = Some(missing.to_string());
            match answer::has_template(pipeline) {
                true => found.faults.push(fault(missing.to_string())),
                false => found.notes.push(missing.to_string()),
            }
        }
    }

    fn print(&self, found: &Found) -> Result<(), Failure> {
        let coloured = style::Stream::Out.is_coloured();
        for note in &found.notes {
            output::line(&report::note_text(note, coloured))?;
        }
        if !found.faults.is_empty() {
            // Faults go where errors go.
            report::findings_as_errors(&found.faults);
            report::line(&format!("{}: {}", found.what, output::counted(found.faults.len(), "fault")));
            return Ok(());
        }
        match &found.architecture {
            Some(architecture) => {
                output::line(&format!("{}: keys and tensors fit {architecture}", found.what))?
            }
            None => output::line(&format!(
                "{}: good; whether the keys it reads exist is seen with a model: menagerie check MODEL",
                found.what
            ))?,
        }
        for one in &found.compared {
            let verdict = if one.passed { "good" } else { "DIFFERS" };
            let Compared { name, tokens, difference, .. } = one;
            let limit = self.tolerance;
            output::line(&format!(
                "{name}: {tokens} rows, largest difference {difference:.2e} (at most {limit:.1e}): {verdict}"
            ))?;
        }
        let bad: Vec<&str> =
            found.compared.iter().filter(|one| !one.passed).map(|one| one.name.as_str()).collect();
        if !bad.is_empty() {
            report::error(&format!("logits differ from the reference: {}", bad.join(", ")));
        }
        Ok(())
    }

    fn as_json(&self, found: &Found, good: bool) -> Value {
        json!({
            "what": found.what,
            "good": good,
            "architecture": found.architecture,
            "faults": found.faults,
            "notes": found.notes,
            "tokenizer": found.tokenizer,
            "chat": found.chat,
            "compared": found.compared,
            "tolerance": self.reference.is_some().then_some(self.tolerance),
        })
    }
}

/// Keys that change nothing; and, of a spec that is not built in, reasons that it gives for keys this file does not have.
fn unused(resolved: &ResolvedFile) -> Vec<String> {
    let coverage = &resolved.resolution.coverage;
    let id = resolved.spec.id();
    let idle = coverage.without_effect.iter();
    let idle =
        idle.map(|key| format!("key {key} is read by spec {id}, and nothing in this model depends on it"));
    let own = matches!(resolved.origin, Origin::File { .. });
    let unmatched = coverage.unmatched.iter().filter(|_| own);
    let unmatched =
        unmatched.map(|glob| format!("[gguf.ignore_keys] {glob:?} of spec {id} matches no key of this file"));
    idle.chain(unmatched).collect()
}

fn spec_found(name: &str, entry: &Entry) -> Found {
    let mut found = Found { what: name.to_owned(), ..Found::default() };
    match entry.spec() {
        Ok(spec) => found.notes = spec.warnings().iter().map(ToString::to_string).collect(),
        Err(error) => found.faults = report::findings(&error.to_string()),
    }
    found
}
