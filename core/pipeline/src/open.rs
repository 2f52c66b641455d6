//! [`TextPipeline::open`]: from a path to a pipeline.
//!
//! File, registry, spec, weights, tokenizer, in this order; the tokenizer is built on a thread beside the weights. What
//! will be needed is compared with what is free before the weights are touched.

use crate::capability::{ChatCapable, MissingCapability, Tokenizing};
use crate::engine::Engine;
use crate::error::LoadError;
use crate::memory::{MemoryEstimate, available};
use crate::notice::Notice;
use crate::options::{DEFAULT_CONTEXT, LoadOptions};
use crate::pipeline::{PipelineParts, TextPipeline};
use crate::resolve::ResolvedFile;
use crate::sampling::SamplingOptions;
use crate::text::{FileTokenizer, TemplateFormat};
use gguf_file::{GgmlType, GgufFile};
use menagerie_assembly::{AssembleOptions, GgufSource, assemble};
use menagerie_kernels::{Arithmetic, BlockType, Cpu};
use menagerie_loaders::{ChatTemplate, GgufLoader, Tokenizer};
use menagerie_model::state::KvType;
use menagerie_model::{Compute, LanguageModel};
use menagerie_registry::{Registry, RegistryOptions, SpecFolder};
use std::path::Path;
use std::sync::Arc;

/// Fewest tokens a context is made smaller to where nobody asked for one.
const SMALLEST_CONTEXT: usize = 512;

/// Context of models that do not say what they were trained with.
const UNTRAINED_CONTEXT: usize = 4096;

impl TextPipeline {
    /// Opens a GGUF file with the architectures that are linked in and those of the spec folders.
    ///
    /// A tokenizer or chat template that is absent or cannot be read is no error here: [`TextPipeline::tokenizer`] and
    /// [`TextPipeline::chat_format`] then say why.
    ///
    /// # Errors
    /// What is wrong with the file, its architecture, its keys or tensors (all at once), the options, or memory.
    pub fn open(path: &Path, options: &LoadOptions) -> Result<Self, LoadError> {
        Self::open_with(path, &registry(options)?, options)
    }

    /// [`Self::open`] with a registry at hand.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(path: &Path, registry: &Registry, options: &LoadOptions) -> Result<Self, LoadError> {
        check(options)?;
        let free = options.memory_limit.or_else(available);
        if !options.mmap {
            check_file_fits(path, free)?;
        }
        let loader = GgufLoader::open(path, &menagerie_loaders::LoadOptions { mmap: options.mmap })?;
        let resolved = ResolvedFile::new(loader, registry, &options.accept_unread)?;
        let (model, text) = std::thread::scope(|scope| {
            let text = std::thread::Builder::new()
                .name("menagerie-tokenizer".to_owned())
                .spawn_scoped(scope, || Text::read(&resolved, options));
            let model = weights(&resolved);
            let text = match text {
                Ok(thread) => thread.join().unwrap_or_else(|_| Text::failed(&resolved)),
                Err(_) => Text::read(&resolved, options),
            };
            (model, text)
        });
        finish(resolved, model?, text, free, options)
    }
}

/// The architectures that are linked in and those of the spec folders of this process.
///
/// # Errors
/// Nothing linked in, or a folder that was asked for cannot be read.
pub fn registry(options: &LoadOptions) -> Result<Registry, LoadError> {
    let folders = SpecFolder::of_process(&options.spec_dirs);
    Registry::load(&RegistryOptions { folders, allow_shadow: options.allow_shadow })
        .map_err(LoadError::Registry)
}

fn check(options: &LoadOptions) -> Result<(), LoadError> {
    let fault = match options {
        LoadOptions { context: Some(0), .. } => "a context must hold at least one token (-c 1 or more)",
        LoadOptions { chunk: 0, .. } => "a chunk must have at least one token (--chunk 1 or more)",
        LoadOptions { threads: Some(0), .. } => "at least one thread is needed (-t 1 or more)",
        _ => return Ok(()),
    };
    Err(LoadError::Options(fault.to_owned()))
}

/// Without a mapping the file is read into memory at once: better to look first.
fn check_file_fits(path: &Path, free: Option<u64>) -> Result<(), LoadError> {
    let sizes = GgufFile::part_paths(path).into_iter().filter_map(|part| std::fs::metadata(part).ok());
    let weights = sizes.map(|metadata| metadata.len()).sum();
    let estimate = MemoryEstimate { weights, available: free, ..MemoryEstimate::default() };
    check_fits(&path.display().to_string(), estimate)
}

fn check_fits(file: &str, estimate: MemoryEstimate) -> Result<(), LoadError> {
    if estimate.fits() {
        return Ok(());
    }
    Err(LoadError::Memory { file: file.to_owned(), estimate: Box::new(estimate) })
}

/// Maps the weights onto the blocks of the resolved model.
fn weights(resolved: &ResolvedFile) -> Result<Arc<dyn LanguageModel>, LoadError> {
    let source = GgufSource::new(Arc::clone(resolved.loader.file()), resolved.spec.as_ref());
    let assembly =
        assemble(resolved.config(), &source, &AssembleOptions::default()).map_err(LoadError::Tensors)?;
    let model = assembly.into_language_model().ok_or_else(|| {
        LoadError::Options(format!("{}: only a part of the model was assembled", resolved.file_name()))
    })?;
    Ok(Arc::from(model))
}

/// Tokenizer and chat format, or why they are missing.
struct Text {
    tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    chat_format: Result<Arc<dyn ChatCapable>, MissingCapability>,
}

impl Text {
    fn read(resolved: &ResolvedFile, options: &LoadOptions) -> Self {
        let model = name(resolved);
        let config = &resolved.config().tokenizer;
        match resolved.loader.tokenizer(config.pre.as_deref()) {
            Ok(tokenizer) => {
                let tokenizer = tokenizer.with_end_tokens(&config.end);
                let chat_format = chat_format(resolved, options, &tokenizer)
                    .map_err(|reason| MissingCapability::ChatTemplate { model, reason });
                Self { tokenizer: Ok(Arc::new(FileTokenizer(tokenizer))), chat_format }
            }
            Err(error) => Self::without(model, &error.to_string()),
        }
    }

    fn without(model: String, reason: &str) -> Self {
        let missing = MissingCapability::Tokenizer { model, reason: reason.to_owned() };
        Self { tokenizer: Err(missing.clone()), chat_format: Err(missing) }
    }

    fn failed(resolved: &ResolvedFile) -> Self {
        Self::without(
            name(resolved),
            "building the tokenizer failed (a defect: please report it with the file's name)",
        )
    }
}

/// The template given by hand, the file's, or the spec's.
fn chat_format(
    resolved: &ResolvedFile,
    options: &LoadOptions,
    tokenizer: &Tokenizer,
) -> Result<Arc<dyn ChatCapable>, String> {
    let compile = |name: &str, source: &str| {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id).ok());
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        ChatTemplate::new(name, source, bos, eos).map(Some).map_err(|error| error.to_string())
    };
    let template = match (&options.chat_template, &resolved.config().chat_fallback) {
        (Some(source), _) => compile("given", source)?,
        (None, fallback) => {
            match resolved.loader.chat_template(tokenizer).map_err(|error| error.to_string())? {
                None => {
                    fallback.as_deref().map_or(Ok(None), |source| compile("fallback of the spec", source))?
                }
                own => own,
            }
        }
    };
    let template = template.ok_or_else(|| "the file has no chat template".to_owned())?;
    Ok(Arc::new(TemplateFormat::new(template, tokenizer.clone())))
}

fn name(resolved: &ResolvedFile) -> String {
    let path = resolved.loader.file().paths().first();
    let stem = path.and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
    let own = resolved.loader.model_name().filter(|name| !name.is_empty());
    own.map(str::to_owned).or(stem).unwrap_or_else(|| "the model".to_owned())
}

/// Chooses cache type and context, compares with memory, and puts the pipeline together.
fn finish(
    resolved: ResolvedFile,
    model: Arc<dyn LanguageModel>,
    text: Text,
    free: Option<u64>,
    options: &LoadOptions,
) -> Result<TextPipeline, LoadError> {
    let file = Arc::clone(resolved.loader.file());
    let mut notices = resolved.notices();
    let kv_type = options.kv_type.unwrap_or_else(|| default_kv_type(&file, options.arithmetic));
    let working = working_bytes(model.as_ref(), options.chunk);
    let states = model.stack().states();
    let estimate = |context| MemoryEstimate {
        available: free,
        ..MemoryEstimate::new(file.file_bytes(), states, kv_type, context, working)
    };
    let memory =
        fitting(&resolved.file_name(), model.max_seq_len(), options.context, estimate, &mut notices)?;
    let sampling = sampling(&resolved.loader, &mut notices)?;
    let compute = Compute::cpu(Cpu::new(options.threads)?, options.arithmetic);
    tracing::info!(
        file = resolved.file_name(),
        architecture = resolved.spec.id(),
        isa = compute.cpu.isa().name(),
        threads = compute.cpu.pool().threads(),
        ?kv_type,
        context = memory.context,
        "model opened"
    );
    let engine =
        Engine { model, compute, kv_type, context: memory.context, chunk: options.chunk, file: Some(file) };
    // Nothing is taken by this; a cache type that does not fit the heads is found out now instead of at the first word.
    engine.new_states(1).map_err(|source| LoadError::State { file: resolved.file_name(), source })?;
    Ok(TextPipeline::from_parts(PipelineParts {
        name: name(&resolved),
        engine,
        tokenizer: text.tokenizer,
        chat_format: text.chat_format,
        resolved: Some(resolved),
        notices,
        memory,
        sampling,
    }))
}

/// The estimate for the context asked for, or for the largest usual one that fits.
fn fitting(
    file: &str,
    trained: Option<usize>,
    asked: Option<usize>,
    estimate: impl Fn(usize) -> MemoryEstimate,
    notices: &mut Vec<Notice>,
) -> Result<MemoryEstimate, LoadError> {
    if let Some(context) = asked {
        if let Some(trained) = trained.filter(|&trained| context > trained) {
            notices.push(Notice::PastTrained { context, trained });
        }
        let memory = estimate(context);
        return check_fits(file, memory).map(|()| memory);
    }
    let usual = trained.unwrap_or(UNTRAINED_CONTEXT).clamp(1, DEFAULT_CONTEXT);
    let memory = estimate(usual);
    let smaller = memory.fitting_context().unwrap_or(0) / 256 * 256;
    if memory.fits() || smaller < SMALLEST_CONTEXT {
        return check_fits(file, memory).map(|()| memory);
    }
    notices.push(Notice::SmallContext { context: smaller, usual });
    Ok(estimate(smaller))
}

/// f32 for `exact` and for files whose matrices are all F32, else f16.
fn default_kv_type(file: &GgufFile, arithmetic: Arithmetic) -> KvType {
    let is_f32 = |kind: GgmlType| kind.id() == BlockType::F32.ggml_id();
    let f32_weights =
        file.tensors().iter().filter(|tensor| tensor.dims().len() > 1).all(|tensor| is_f32(tensor.kind()));
    if f32_weights || matches!(arithmetic, Arithmetic::Exact) { KvType::F32 } else { KvType::F16 }
}

/// Rough heap of a forward over a chunk: a dozen rows of the stream's width and a few of a feed-forward four times as
/// wide, in f32 and as quantised activations; and two rows of logits.
fn working_bytes(model: &dyn LanguageModel, chunk: usize) -> u64 {
    const ROWS: u64 = 32;
    let width = model.embedding_length() as u64;
    let rows = (chunk as u64).saturating_mul(width).saturating_mul(4 * ROWS);
    rows.saturating_add(model.head().vocabulary() as u64 * 8)
}

/// llama.cpp's defaults, overridden by what the file recommends.
fn sampling(loader: &GgufLoader, notices: &mut Vec<Notice>) -> Result<SamplingOptions, LoadError> {
    let stated = loader.sampling_defaults()?;
    let mut options = SamplingOptions::default();
    let set = |target: &mut f32, value: Option<f32>| {
        if let Some(value) = value {
            *target = value;
        }
    };
    set(&mut options.temperature, stated.temperature);
    set(&mut options.top_p, stated.top_p);
    set(&mut options.min_p, stated.min_p);
    set(&mut options.xtc_probability, stated.xtc_probability);
    set(&mut options.xtc_threshold, stated.xtc_threshold);
    set(&mut options.repeat_penalty, stated.penalty_repeat);
    options.repeat_last_n = stated.penalty_last_n.unwrap_or(options.repeat_last_n);
    // llama.cpp reads 0 and negative numbers as "all".
    options.top_k = stated.top_k.map_or(options.top_k, |k| usize::try_from(k).unwrap_or(0));
    let unused = [
        ("general.sampling.mirostat", stated.mirostat.is_some_and(|mode| mode != 0)),
        ("general.sampling.sequence", stated.sequence.is_some()),
    ];
    for (key, _) in unused.into_iter().filter(|(_, stated)| *stated) {
        notices.push(Notice::Note(format!(
            "{key} of the file is not followed: the usual sampling chain is used"
        )));
    }
    if let Err(error) = options.check() {
        notices.push(Notice::Note(format!("the file's sampling defaults are not used: {error}")));
        return Ok(SamplingOptions::default());
    }
    Ok(options)
}
