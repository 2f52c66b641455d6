//! [`FolderPlan`]: the plan of a GGUF file that is written from a folder.

use crate::failure::Failure;
use crate::screen::{progress, report};
use crate::{interrupt, output};
use menagerie::assembly::{AssembleOptions, IgnoredTensor, ModelFile, WeightSource, open_model};
use menagerie::convert::{Conversion, ConversionPlan, ConvertError, OutputTypes};
use menagerie::engine::Arithmetic;
use menagerie::files::path_text;
use menagerie::kernels::Cpu;
use menagerie::loaders::HfTexts;
use menagerie::model::Compute;
use menagerie::open::{Device, KeyOptions, ModelSource, ResolvedFile, tokenizer_tables};
use menagerie::quantize::Importance;
use menagerie::registry::{Environment, TensorPart};
use menagerie::spec::SourceFormat;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether the tokenizer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenizerOutput {
    Written,
    /// The file can be used with token ids only.
    LeftOut,
}

/// A folder to be written as a GGUF file.
pub(crate) struct FolderPlan<'a> {
    pub(crate) source: &'a ModelSource,
    pub(crate) environment: &'a Environment,
    pub(crate) accept_unread: &'a [String],
    pub(crate) threads: Option<usize>,
    pub(crate) texts: TokenizerOutput,
    /// With the name of its file.
    pub(crate) importance: Option<(&'a str, &'a Importance)>,
}

impl FolderPlan<'_> {
    /// Plans the file and passes the plan to `take`.
    pub(crate) fn with<T>(
        &self,
        types: &OutputTypes<'_>,
        take: impl FnOnce(&ConversionPlan<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let environment = self.environment;
        let accept_unread = self.accept_unread.to_vec();
        let keys = self.source.keys(KeyOptions::default().with_accept_unread(accept_unread));
        let file = open_model(&self.source.path, environment.entries(), true)?;
        if file.format() != SourceFormat::Hf {
            let reason =
                "is already a GGUF file; `convert` requires a folder with config.json and .safetensors files";
            return Err(Failure::about(file.file(), reason));
        }
        let (resolved, missing_head) = with_head(file, environment, &keys)?;
        for notice in resolved.notices() {
            report::note(&notice.to_string());
        }
        let backend = Device::default().backend(environment.entries(), self.threads, Arithmetic::Exact)?;
        let compute = Compute::new(backend, Arithmetic::Exact);
        let (texts, importance) = (self.texts, self.importance);
        let tensors = &*resolved.tensors;
        let resolved = &resolved;
        let opened = OpenFolder { resolved, tensors, compute: &compute, texts, importance, missing_head };
        opened.plan(types, take)
    }
}

/// The resolved folder with its head for further tokens, where the spec and the folder have one; otherwise without, and why
/// a head that the folder has is left out.
fn with_head(
    file: Arc<dyn ModelFile>,
    environment: &Environment,
    keys: &KeyOptions,
) -> Result<(ResolvedFile, Option<String>), Failure> {
    let error = match ResolvedFile::new(Arc::clone(&file), environment, keys.clone().with_nextn(true)) {
        Ok(resolved) => return Ok((resolved, None)),
        Err(error) => error,
    };
    let resolved = ResolvedFile::new(file, environment, keys.clone())?;
    let place = Some(resolved.config().layers.len());
    let has_head = resolved.spec.describes_nextn()
        && resolved.tensors.find("nextn.eh_proj", place, TensorPart::Main).is_some();
    let reason = has_head.then(|| format!("the head that predicts further tokens is not written: {error}"));
    Ok((resolved, reason))
}

/// For each reason, the tensors of the folder that are not written.
fn left_out(ignored: &[IgnoredTensor]) -> Vec<String> {
    let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
    for IgnoredTensor { tensor, reason } in ignored {
        match reasons.iter_mut().find(|(known, _, _)| known == reason) {
            Some((_, _, count)) => *count += 1,
            None => reasons.push((reason, &tensor.name, 1)),
        }
    }
    let note = |(reason, first, count): (&str, &str, usize)| match count {
        1 => format!("the tensor {first} is not written: {reason}"),
        _ => format!("{count} tensors are not written, {first} is the first: {reason}"),
    };
    reasons.into_iter().map(note).collect()
}

/// An open folder with its tensors, or with tensors into which adapters are merged.
pub(crate) struct OpenFolder<'a> {
    pub(crate) resolved: &'a ResolvedFile,
    pub(crate) tensors: &'a dyn WeightSource,
    pub(crate) compute: &'a Compute,
    pub(crate) texts: TokenizerOutput,
    /// With the name of its file.
    pub(crate) importance: Option<(&'a str, &'a Importance)>,
    /// Why a head for further tokens is left out that the folder has.
    pub(crate) missing_head: Option<String>,
}

impl OpenFolder<'_> {
    /// Plans the file of the folder, prints notes about losses, and passes the plan to `take`.
    pub(crate) fn plan<T>(
        &self,
        types: &OutputTypes<'_>,
        take: impl FnOnce(&ConversionPlan<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let resolved = self.resolved;
        // The model is assembled only to know which tensors it uses.
        let options = AssembleOptions::whole(self.compute, resolved.environment.components());
        let assembly = resolved.assemble(&options)?;
        let (claims, left_out) = (assembly.claims, left_out(&assembly.ignored));
        let (tables, _) = tokenizer_tables(&resolved.environment)?;
        let folder = resolved.file_name();
        let texts = match self.texts {
            TokenizerOutput::Written => Some(HfTexts::open(&folder)?),
            TokenizerOutput::LeftOut => None,
        };
        let keys = resolved.file.keys(&resolved.spec)?;
        let conversion = Conversion {
            folder: &folder,
            name: resolved.file.name(),
            spec: &resolved.spec,
            keys: &*keys,
            resolution: &resolved.resolution,
            tensors: self.tensors,
            claims: &claims,
            texts: texts.as_ref(),
            tables: &tables,
            compute: self.compute,
            importance: self.importance,
        };
        let mut plan = conversion.plan(types)?;
        plan.notes.extend(self.missing_head.iter().cloned().chain(left_out));
        for note in &plan.notes {
            report::note(note);
        }
        take(&plan)
    }
}

/// Writes a planned file, with a progress bar.
pub(crate) fn write(plan: &ConversionPlan<'_>, out: &Path, threads: Option<usize>) -> Result<(), Failure> {
    let cancel = interrupt::flag()?;
    let bar = progress::bytes(Some(plan.bytes()), 0);
    let written = plan.write(out, &Cpu::new(threads)?, &mut |at| {
        bar.set_position(at.done);
        progress::say(&bar, at.tensor);
        if cancel.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    match written {
        Err(ConvertError::Stopped) => Err(Failure::Interrupted),
        other => Ok(other?),
    }
}

/// Prints the size of a file that was written.
pub(crate) fn say_written(out: &Path) -> Result<(), Failure> {
    let bytes = std::fs::metadata(out).map_err(|error| Failure::about(path_text(out), error))?.len();
    output::line(&format!("{}: {}", path_text(out), output::bytes(bytes)))
}
