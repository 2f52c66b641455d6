//! Arguments of every command that opens a model, and the opening itself.

use crate::failure::Failure;
pub(crate) use crate::model_file::locate;
use crate::template_arguments::TemplateArguments;
use crate::{interrupt, progress, report};
use clap::{Args, ValueEnum};
use menagerie::assembly::open_model;
use menagerie::pipeline::{
    Arithmetic, DEFAULT_CONTEXT, Device, DeviceName, EmbeddingPipeline, HalfPrompts, KvType, LoadOptions,
    TextPipeline,
};
use menagerie::registry::{Entry, FolderKind, Origin, Registry, RegistryOptions, SpecFolder};
use menagerie::spec::KeyValue;
use std::path::{Path, PathBuf};

/// Where architectures come from.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SpecArguments {
    /// Folder with specs (repeatable; also MENAGERIE_SPEC_DIR, the data folder's menagerie/specs, ./menagerie.d)
    #[arg(long, value_name = "DIR", help_heading = "Architectures")]
    pub(crate) spec_dir: Vec<PathBuf>,
    /// One spec, ID.toml, wherever it lies (repeatable); it replaces a built-in one of its name
    #[arg(id = "spec_file", long = "spec", value_name = "FILE", help_heading = "Architectures")]
    pub(crate) spec_file: Vec<PathBuf>,
    /// Let a spec file replace another of the same name
    #[arg(long, help_heading = "Architectures")]
    pub(crate) allow_shadow: bool,
}

impl SpecArguments {
    /// The files and folders that specs are read from, most important first.
    pub(crate) fn folders(&self) -> Vec<SpecFolder> {
        let file = |path: &PathBuf| SpecFolder { path: path.clone(), kind: FolderKind::File };
        let files = self.spec_file.iter().map(file);
        files.chain(SpecFolder::of_process(&self.spec_dir)).collect()
    }

    /// The registry with the built-in architectures, those of the folders and those of the files, which must be good.
    pub(crate) fn registry(&self) -> Result<Registry, Failure> {
        let options = RegistryOptions { folders: self.folders(), allow_shadow: self.allow_shadow };
        let registry = Registry::load(&options)?;
        let named = |entry: &&Entry| match &entry.origin {
            Origin::File { folder, .. } => *folder == FolderKind::File,
            Origin::BuiltIn(_) => false,
        };
        match registry.entries().iter().filter(named).find_map(|entry| entry.spec().as_ref().err()) {
            Some(fault) => Err(fault.clone().into()),
            None => Ok(registry),
        }
    }
}

/// Element type of cached keys and values.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum KvTypeArgument {
    /// 32-bit float
    F32,
    /// 16-bit float
    F16,
    /// 8-bit blocks of 32 with a scale
    #[value(name = "q8_0")]
    Q8_0,
}

/// How prompts are multiplied with F16 weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HalfPromptsArgument {
    F32,
    Bf16,
}

/// How a model is opened.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelArguments {
    /// A .gguf file, smollm2, org/repo, org/repo:QUANT, org/repo@revision or hf:org/repo/file.gguf
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) specs: SpecArguments,
    /// Context in tokens; 0 = all the model was trained with [default: that, at most 8192 and what memory allows]
    #[arg(short = 'c', long = "context", value_name = "TOKENS", value_parser = clap::value_parser!(u32), help_heading = "Model")]
    context: Option<u32>,
    /// Where to compute: cpu, candle, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceName::Cpu, help_heading = "Model")]
    device: DeviceName,
    /// Threads [default: the cores this process may use]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Model")]
    threads: Option<u32>,
    /// Element type of the key-value cache [default: f16, f32 for F32 weights and with --exact]
    #[arg(long, value_enum, ignore_case = true, value_name = "TYPE", help_heading = "Model")]
    kv_type: Option<KvTypeArgument>,
    /// Dequantise weights and compute in f32 instead of 8-bit activations (slow)
    #[arg(long, help_heading = "Model")]
    exact: bool,
    /// How prompts are multiplied with F16 weights. bf16 is nearly twice as fast where the processor has AVX-512 BF16,
    /// and rounds: a KL divergence of 5e-4 instead of 4e-6 and logits off by up to 0.155, measured on one model
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        value_name = "TYPE",
        default_value = "f32",
        help_heading = "Model"
    )]
    half_prompts: HalfPromptsArgument,
    /// Read the file into memory instead of mapping it
    #[arg(long, help_heading = "Model")]
    no_mmap: bool,
    /// Tokens of a prompt computed at once
    #[arg(long, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Model")]
    chunk: u32,
    /// Load although nothing reads this metadata key (repeatable, no wildcard; printed at every load)
    #[arg(long, value_name = "KEY", help_heading = "Model")]
    accept_unread: Vec<String>,
}

impl ModelArguments {
    /// The options these arguments stand for.
    pub(crate) fn load_options(&self) -> LoadOptions {
        LoadOptions {
            mmap: !self.no_mmap,
            arithmetic: if self.exact { Arithmetic::Exact } else { Arithmetic::Fast },
            half_prompts: match self.half_prompts {
                HalfPromptsArgument::F32 => HalfPrompts::Float32,
                HalfPromptsArgument::Bf16 => HalfPrompts::BFloat16,
            },
            kv_type: self.kv_type.map(|kind| match kind {
                KvTypeArgument::F32 => KvType::F32,
                KvTypeArgument::F16 => KvType::F16,
                KvTypeArgument::Q8_0 => KvType::Q8_0,
            }),
            context: self.context.map(|context| context as usize),
            chunk: self.chunk as usize,
            device: Device::Named(self.device),
            threads: self.threads.map(|threads| threads as usize),
            spec_dirs: self.specs.spec_dir.clone(),
            allow_shadow: self.specs.allow_shadow,
            accept_unread: self.accept_unread.clone(),
            ..LoadOptions::default()
        }
    }

    /// `exact` or `fast`, as a measurement says it.
    pub(crate) fn arithmetic_name(&self) -> &'static str {
        if self.exact { "exact" } else { "fast" }
    }

    /// The arithmetic of F16 prompts, as the option says it.
    pub(crate) fn half_prompts_name(&self) -> &'static str {
        match self.half_prompts {
            HalfPromptsArgument::F32 => "f32",
            HalfPromptsArgument::Bf16 => "bf16",
        }
    }

    /// Makes the context large enough for so many tokens, unless one was asked for.
    pub(crate) fn at_least(&mut self, tokens: usize) {
        if self.context.is_none() && tokens > DEFAULT_CONTEXT {
            self.context = u32::try_from(tokens).ok();
        }
    }

    /// The model's file; fetched if it is not on this machine.
    pub(crate) fn locate(&self) -> Result<PathBuf, Failure> {
        locate(&self.model)
    }

    /// Opens the model and prints what every load must say.
    pub(crate) fn open(&self) -> Result<TextPipeline, Failure> {
        self.open_with_template(&TemplateArguments::default())
    }

    /// [`Self::open`], perhaps with a chat template given by hand.
    pub(crate) fn open_with_template(&self, template: &TemplateArguments) -> Result<TextPipeline, Failure> {
        let pipeline = self.open_silently(template)?;
        for notice in pipeline.notices() {
            report::note(&notice.to_string());
        }
        Ok(pipeline)
    }

    /// Opens the model for vectors of texts and prints what every load must say.
    pub(crate) fn open_for_vectors(&self) -> Result<EmbeddingPipeline, Failure> {
        let path = self.locate()?;
        let _at_once = interrupt::at_once()?;
        let registry = self.specs.registry()?;
        let mut options = self.load_options();
        if self.context == Some(0) {
            options.context = Some(trained_context(&path)?);
        }
        let pipeline = EmbeddingPipeline::open_with(&path, &registry, &options)?;
        for notice in pipeline.notices() {
            report::note(&notice.to_string());
        }
        Ok(pipeline)
    }

    /// Opens the model; what every load must say is left to the caller. Ctrl-C ends the process meanwhile.
    pub(crate) fn open_silently(&self, template: &TemplateArguments) -> Result<TextPipeline, Failure> {
        let path = self.locate()?;
        let _at_once = interrupt::at_once()?;
        let registry = self.specs.registry()?;
        let mut options = LoadOptions { chat_template: template.given(&registry)?, ..self.load_options() };
        if self.context == Some(0) {
            options.context = Some(trained_context(&path)?);
        }
        if let (Some(threads), Ok(cores)) = (self.threads, std::thread::available_parallelism())
            && threads as usize > cores.get()
        {
            report::note(&format!(
                "{threads} threads for {cores} cores: more than one for each makes it slower"
            ));
        }
        let spinner = progress::spinner(&format!("loading {}", path.display()));
        let opened = TextPipeline::open_with(&path, &registry, &options);
        spinner.finish_and_clear();
        Ok(opened?)
    }
}

/// Tokens the model says it was trained with.
fn trained_context(path: &Path) -> Result<usize, Failure> {
    let stated = match open_model(path, true)?.keys()?.get("context_length") {
        Some(KeyValue::Integer(tokens)) => usize::try_from(tokens).ok(),
        _ => None,
    };
    stated.filter(|&tokens| tokens > 0).ok_or_else(|| {
        Failure::about(path.display(), "the file does not say what it was trained with")
            .with_help("give -c TOKENS")
    })
}
