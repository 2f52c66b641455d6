//! `check MODEL|SPEC`: every fault at once, and logits against a reference.

use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::output;
use clap::Args;
use menagerie::pipeline::{LogitsOptions, TextPipeline};
use menagerie::registry::{FolderKind, Registry, RegistryOptions, SpecFolder};
use safetensors::{Dtype, SafeTensors};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Largest difference that passes where nothing else is asked for: twice the noise between two f32 implementations.
const TOLERANCE: f32 = 1e-4;

/// Report every fault of a model or of a spec at once
///
/// A spec: its tables, options and expressions. A model: its keys and tensors under its spec, its tokenizer and chat
/// template. With --reference, also its logits against a safetensors file with `tokens_NAME` i64 [T] and `logits_NAME`
/// f32 [T, V], as `menagerie logits` writes it (`tokens`, `logits`) and as the reference scripts of the project do.
#[derive(Args)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// Logits to compare with
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Largest difference of a logit that passes
    #[arg(long, value_name = "X", default_value_t = TOLERANCE, requires = "reference")]
    tolerance: f32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One comparison with a reference.
#[derive(serde::Serialize)]
struct Compared {
    name: String,
    tokens: usize,
    difference: f32,
    passed: bool,
}

impl CheckCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.model.model.ends_with(".toml") {
            return self.spec(Path::new(&self.model.model));
        }
        let pipeline = self.model.open()?;
        let tokenizer = pipeline.tokenizer().map(drop).map_err(|missing| missing.to_string());
        let chat = pipeline.chat_format().map(drop).map_err(|missing| missing.to_string());
        let compared = match &self.reference {
            Some(file) => self.compare(&pipeline, file)?,
            None => Vec::new(),
        };
        if self.json {
            output::json(&json!({
                "model": self.model.model, "architecture": pipeline.architecture(),
                "tokenizer": tokenizer.as_ref().err(), "chat": chat.as_ref().err(), "compared": compared,
            }))?;
        } else {
            output::line(&format!("{}: keys and tensors fit {}", self.model.model, pipeline.architecture()))?;
            for missing in [tokenizer, chat].into_iter().filter_map(Result::err) {
                output::line(&format!("note: {missing}"))?;
            }
            for one in &compared {
                let verdict = if one.passed { "good" } else { "DIFFERS" };
                let Compared { name, tokens, difference, .. } = one;
                output::line(&format!(
                    "{name}: {tokens} rows, largest difference {difference:.2e}: {verdict}"
                ))?;
            }
        }
        let bad: Vec<&str> = compared.iter().filter(|one| !one.passed).map(|one| one.name.as_str()).collect();
        if bad.is_empty() {
            return Ok(());
        }
        let limit = self.tolerance;
        Err(Failure::Failed(format!(
            "logits differ by more than {limit:.1e} from the reference: {}",
            bad.join(", ")
        )))
    }

    /// A spec among those of its folder and the built-in ones, which it may extend.
    fn spec(&self, file: &Path) -> Result<(), Failure> {
        std::fs::metadata(file).map_err(|error| Failure::about(file.display(), error))?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folders = vec![SpecFolder { path: folder.to_owned(), kind: FolderKind::Flag }];
        let id = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // The file itself is what matters here, whether or not it would replace another.
        let registry = Registry::load(&RegistryOptions { folders, allow_shadow: true })?;
        let entry =
            registry.entry(&id).ok_or_else(|| Failure::about(file.display(), "the file is not a spec"))?;
        let spec = entry.spec.clone()?;
        for warning in spec.warnings() {
            output::line(&format!("warning: {warning}"))?;
        }
        output::line(&format!("{}: good", file.display()))
    }

    fn compare(&self, pipeline: &TextPipeline, file: &Path) -> Result<Vec<Compared>, Failure> {
        let about = |reason: String| Failure::about(file.display(), reason);
        let bytes = std::fs::read(file).map_err(|error| about(error.to_string()))?;
        let reference = SafeTensors::deserialize(&bytes).map_err(|error| about(error.to_string()))?;
        let mut compared = Vec::new();
        for (name, view) in reference.tensors() {
            let Some(suffix) = name.strip_prefix("logits") else { continue };
            // Only whole sequences: one row of logits per token, from the first one on.
            let Ok(tokens) = reference.tensor(&format!("tokens{suffix}")) else { continue };
            let whole = view.shape().first() == tokens.shape().first() && !suffix.ends_with("_greedy");
            if !whole || view.dtype() != Dtype::F32 || tokens.dtype() != Dtype::I64 {
                continue;
            }
            let ids = ids(tokens.data()).map_err(|reason| about(format!("tokens{suffix}: {reason}")))?;
            let options = LogitsOptions { chunk: None, decode_from: None };
            let ours = pipeline.logits(&ids, &options)?;
            let difference = difference(&ours.values, view.data());
            let passed = difference <= self.tolerance;
            compared.push(Compared { name: name.clone(), tokens: ids.len(), difference, passed });
        }
        if compared.is_empty() {
            return Err(about("no pair of tokens and logits of the same length is in it".to_owned()));
        }
        compared.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(compared)
    }
}

fn ids(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let id = |bytes: &[u8; 8]| {
        let id = i64::from_le_bytes(*bytes);
        u32::try_from(id).map_err(|_| format!("{id} is not a token id"))
    };
    bytes.as_chunks::<8>().0.iter().map(id).collect()
}

/// Largest absolute difference; infinite where the sizes differ or something is not a number.
fn difference(ours: &[f32], theirs: &[u8]) -> f32 {
    if theirs.len() != 4 * ours.len() {
        return f32::INFINITY;
    }
    let theirs = theirs.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let pairs = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    pairs.fold(0.0, |worst, d| if d.is_nan() { f32::INFINITY } else { worst.max(d) })
}
