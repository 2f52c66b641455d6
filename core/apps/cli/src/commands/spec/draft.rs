//! `spec new MODEL`: drafts a spec from the keys and tensors of a model and the nearest supported architecture.

use crate::arguments::model_file::locate;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use crate::output::output_file::OutputFile;
use crate::screen::report;
use crate::{interrupt, output};
use clap::Args;
use menagerie::assembly::{GgufModel, HfModel, ModelFile};
use menagerie::gguf::{GgufFile, OpenOptions};
use menagerie::registry::Environment;
use menagerie::spec::ArchSpec;
use menagerie::synth::draft::{Draft, Evidence, draft};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Draft a spec for a model whose architecture is not supported
///
/// The draft is a variation of the supported architecture whose keys and tensors are nearest. Properties that the file does
/// not state are marked as questions with `# ?`: answer them with the help of the model's source code, then compare logits
/// (`check MODEL --spec FILE --reference F`).
#[derive(Args)]
pub(crate) struct SpecNewCommand {
    /// A GGUF file, or any MODEL that `run` accepts
    model: NameOrPath,
    /// Write the draft to this file instead of standard output; its name must be ID.toml
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "out")]
    force: bool,
    /// Id of the new spec [default: the architecture name in the file]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Ignore a supported architecture (repeatable)
    #[arg(long, value_name = "ID")]
    hide: Vec<String>,
    /// Print JSON: the text, the questions, and the architectures that match
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

impl SpecNewCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        let path = locate(&self.model, &self.specs)?;
        let _at_once = interrupt::at_once()?;
        if HfModel::folder_of(&path).is_some() {
            return Err(Failure::about(path.display(), "drafts can be made from GGUF files only").with_help(
                "convert the model to GGUF, or write [hf] yourself (menagerie guide add-an-architecture)",
            ));
        }
        let file = GgufModel::open(&path, true)?;
        let environment = self.specs.environment(installed)?;
        let id = self.id.clone().unwrap_or(file.architecture()?.to_owned());
        let evidence = evidence(&path, &file)?;
        let known = known(&environment, &self.hide)?;
        let kinds = environment.components().kinds()?;
        let draft = draft(&id, &evidence, &known, &kinds)
            .ok_or_else(|| Failure::Usage("--hide excludes all supported architectures".to_owned()))?;
        if self.json {
            return output::json(&json!({
                "id": id, "nearest": draft.nearest, "fitting": draft.fitting, "text": draft.text,
                "questions": draft.questions, "unread": draft.fit.unread, "unclaimed": draft.fit.unclaimed,
                "missing": draft.fit.missing, "faults": draft.fit.faults,
            }));
        }
        match &self.out {
            Some(out) => self.write(out, &id, &draft, &path)?,
            None => output::data(&draft.text)?,
        }
        summary(&draft);
        Ok(())
    }

    fn write(&self, out: &Path, id: &str, draft: &Draft, model: &Path) -> Result<(), Failure> {
        if out.file_stem().is_none_or(|stem| stem != id) {
            let message = format!(
                "{}: the name of the file must be {id}.toml, after the id; or give --id",
                out.display()
            );
            return Err(Failure::Usage(message));
        }
        if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| Failure::about(folder.display(), error))?;
        }
        let mut file = OutputFile::create(out, self.force, &[model])?;
        file.write_all(draft.text.as_bytes())?;
        file.commit()?;
        report::note(&format!("wrote {}; next: menagerie check {} --spec {0}", out.display(), self.model));
        Ok(())
    }
}

/// The keys of the file, and its tensors with their shapes.
fn evidence(path: &Path, file: &GgufModel) -> Result<Evidence, Failure> {
    let container = GgufFile::open(path, &OpenOptions::default().with_mmap(true))?;
    let tensors = container.tensors().iter().map(|info| (info.name().to_owned(), info.dims().to_vec()));
    Ok(Evidence::new(file.file(), file.architecture()?.to_owned(), &*file.canonical_keys()?, tensors))
}

/// All supported architectures except the hidden ones.
fn known(environment: &Environment, hidden: &[String]) -> Result<Vec<Arc<ArchSpec>>, Failure> {
    if let Some(unknown) = hidden.iter().find(|id| environment.architecture(id).is_none()) {
        return Err(Failure::Usage(format!("--hide {unknown}: there is no architecture with this id")));
    }
    let shown = environment.architectures().iter().filter(|entry| !hidden.contains(&entry.id));
    Ok(shown.filter_map(|entry| entry.spec().clone().ok()).collect())
}

/// Prints notes about the draft.
fn summary(draft: &Draft) {
    let fitting = match draft.fitting.len() {
        0 => "no supported architecture matches the file exactly".to_owned(),
        1..=6 => format!("the file matches {}", draft.fitting.join(", ")),
        count => {
            format!(
                "the file matches {count} supported architectures, among them {}",
                draft.fitting[..4].join(", ")
            )
        }
    };
    report::note(&format!("the nearest architecture is {}; {fitting}", draft.nearest));
    if draft.fit.cost() > 0 {
        let left = draft.fit.unread.len()
            + draft.fit.unclaimed.len()
            + draft.fit.missing.len()
            + draft.fit.faults.len();
        report::note(&format!("{} of the file not covered by the draft yet", output::counted(left, "item")));
    }
    report::note(&format!("{} to answer (# ?)", output::counted(draft.questions.len(), "question")));
}
