//! Arguments of the commands that open a model, and the functions that open it.

use crate::arguments::adapters::lora;
use crate::arguments::key_setting::key_setting;
use crate::arguments::model_source::ModelSource;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::arguments::stages::StageArguments;
use crate::arguments::template::TemplateArguments;
use crate::failure::Failure;
use crate::interrupt;
use crate::screen::{progress, report};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use menagerie::assembly::open_model;
use menagerie::engine::{Arithmetic, DEFAULT_CONTEXT, EmbeddingPipeline, KvType, TextPipeline};
use menagerie::files::path_text;
use menagerie::model::Compute;
use menagerie::open::{
    AdapterOption, Device, DeviceName, GivenGate, GivenMixture, LoadOptions, LoadProgress, LoadQuantization,
    LoadWrapper, LoadedModel, ResolvedFile, StageOptions, StageStart, open_embedding_with, open_text_with,
    refuse_stage, serve_stage,
};
use menagerie::quantize::{Importance, Policy, QuantizeError};
use menagerie::registry::Environment;
use menagerie::spec::{AdapterKind, MetadataValue};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// How a model is opened.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelArguments {
    /// A .gguf file, a folder with config.json, a recipe (.recipe.toml), smollm2, org/repo, org/repo:QUANT, org/repo@revision or
    /// hf:org/repo/file.gguf
    pub(crate) model: NameOrPath,
    #[command(flatten)]
    pub(crate) specs: SpecArguments,
    /// Context length in tokens; 0 = the training context [default: the training context, at most 8192 and what fits
    /// into memory]
    #[arg(short = 'c', long = "context", value_name = "TOKENS", value_parser = clap::value_parser!(u32), help_heading = "Model")]
    context: Option<u32>,
    /// Device to compute on, as `doctor` lists it (cpu; cuda, cuda:N, metal and candle in builds that include them). Its
    /// options follow a colon, e.g. cpu:half-prompts=bf16. half-prompts (of cpu): type in which F16 weights are multiplied in
    /// prompts. bf16 is nearly twice as fast on processors with AVX-512 BF16, but rounds: a KL divergence of 5e-4 instead of
    /// 4e-6 and logits that differ by up to 0.155, measured on one model
    #[arg(
        long,
        hide_short_help = true,
        value_name = "DEVICE",
        default_value_t = DeviceName::default(),
        help_heading = "Model"
    )]
    device: DeviceName,
    /// Number of threads [default: the cores that this process may use]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Model")]
    threads: Option<u32>,
    /// Element type of the KV cache [default: f16; f32 for F32 weights and with --exact]
    #[arg(
        long,
        hide_short_help = true,
        value_enum,
        ignore_case = true,
        value_name = "TYPE",
        help_heading = "Model"
    )]
    kv_type: Option<KvTypeArgument>,
    /// Compute with f32 activations and dequantized weights instead of 8-bit activations (slow)
    #[arg(long, hide_short_help = true, help_heading = "Model")]
    exact: bool,
    /// Read the file into memory instead of mapping it
    #[arg(long, hide_short_help = true, help_heading = "Model")]
    no_mmap: bool,
    /// Prompt tokens that are computed in one step
    #[arg(long, hide_short_help = true, value_name = "TOKENS", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Model")]
    chunk: u32,
    /// Quantize the weights while loading, to a file type of llama-quantize (q4_k_m, q8_0, ...)
    #[arg(long, hide_short_help = true, value_name = "TYPE", help_heading = "Model")]
    quant: Option<String>,
    /// Importance matrix for --quant, written by `imatrix`
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "quant", help_heading = "Model")]
    imatrix: Option<PathBuf>,
    /// Allow --quant to requantize weights that are already quantized
    #[arg(long, hide_short_help = true, requires = "quant", help_heading = "Model")]
    allow_requantize: bool,
    /// Load the model although this metadata key is not used (repeatable, no wildcards; printed at every load)
    #[arg(long, hide_short_help = true, value_name = "KEY", help_heading = "Model")]
    accept_unread: Vec<String>,
    /// Override a metadata key of the file (repeatable), e.g. attention.sliding_window=4096. The value is a number, true,
    /// false, a string or a JSON list; printed at every load
    #[arg(long, hide_short_help = true, value_name = "KEY=VALUE", value_parser = key_setting, help_heading = "Model")]
    set: Vec<(String, MetadataValue)>,
    /// X-LoRA: mix several adapters for every token and layer (a folder with xlora_config.json or PEFT's
    /// adapter_config.json); every step is computed twice
    #[arg(long, hide_short_help = true, value_name = "FOLDER", help_heading = "Model")]
    xlora: Option<PathBuf>,
    /// LoRA adapter: a PEFT folder or a GGUF adapter (repeatable: all are applied); WEIGHT scales it, 1 = as trained
    #[arg(long, value_name = "PATH[=WEIGHT]", value_parser = OsStringValueParser::new().try_map(lora), help_heading = "Model")]
    lora: Vec<AdapterOption>,
    /// How the model is split into stages; set by the commands that support stages.
    #[arg(skip)]
    stages: Option<StageOptions>,
}

impl ModelArguments {
    /// The load options that these arguments describe.
    pub(crate) fn load_options(&self) -> LoadOptions {
        LoadOptions::default()
            .with_mmap(!self.no_mmap)
            .with_arithmetic(if self.exact { Arithmetic::Exact } else { Arithmetic::Fast })
            .with_kv_type(self.kv_type.map(|kind| match kind {
                KvTypeArgument::F32 => KvType::F32,
                KvTypeArgument::F16 => KvType::F16,
                KvTypeArgument::Q8_0 => KvType::Q8_0,
            }))
            .with_context(self.context.map(|context| context as usize))
            .with_chunk(self.chunk as usize)
            .with_device(Device::Named(self.device.clone()))
            .with_threads(self.threads.map(|threads| threads as usize))
            .with_spec_dirs(self.specs.spec_dir.clone())
            .with_allow_shadow(self.specs.allow_shadow)
            .with_accept_unread(self.accept_unread.clone())
            .with_set(self.set.iter().cloned().collect())
            .with_adapters(self.lora.iter().cloned().chain(self.xlora.as_deref().map(given_xlora)).collect())
            .with_stages(self.stages.clone())
    }

    /// The same arguments with the stages that are requested.
    pub(crate) fn staged(&self, stages: &StageArguments) -> Result<Self, Failure> {
        Ok(Self { stages: stages.options()?, ..self.clone() })
    }

    /// Serves a stage of the model over standard input and output. If it cannot, it sends the reason to the process that
    /// has the chain.
    pub(crate) fn serve_stage(&self, start: &StageStart, installed: &Environment) -> Result<(), Failure> {
        match self.stage_options(installed) {
            Ok((path, environment, options)) => Ok(serve_stage(&path, &environment, &options, start)?),
            Err(Failure::Failed(reason) | Failure::Usage(reason)) => Ok(refuse_stage(start, &reason)?),
            Err(other) => Err(other),
        }
    }

    /// The file, environment and options from which a stage is opened.
    fn stage_options(&self, installed: &Environment) -> Result<(PathBuf, Environment, LoadOptions), Failure> {
        let meant = self.meant(installed)?;
        let environment = self.specs.environment(installed)?;
        let quantization = self.quantization(None)?;
        let options = meant.options(self.load_options().with_quantization(quantization), &environment)?;
        Ok((meant.path, environment, options))
    }

    /// How weights are quantized while loading; `bar` shows the progress of this process.
    fn quantization(&self, bar: Option<&ProgressBar>) -> Result<Option<LoadQuantization>, Failure> {
        let Some(name) = &self.quant else { return Ok(None) };
        let policy = Policy::named(name)?;
        let importance = self.imatrix.as_deref().map(|path| {
            let importance = Importance::open(path)?;
            Ok::<_, QuantizeError>((path_text(path), Arc::new(importance)))
        });
        let progress = bar.cloned().map(|bar| {
            LoadProgress(Arc::new(move |done, all| {
                bar.set_message(format!("quantizing tensor {done} of {all}"));
            }))
        });
        Ok(Some(LoadQuantization {
            policy,
            importance: importance.transpose()?,
            requantize: self.allow_requantize,
            progress,
        }))
    }

    /// The file type to which weights are quantized while loading.
    pub(crate) fn quant_name(&self) -> Option<String> {
        self.quant.as_ref().map(|name| name.to_uppercase())
    }

    /// The same model without quantization while loading.
    pub(crate) fn unquantized(&self) -> Self {
        Self { quant: None, imatrix: None, allow_requantize: false, ..self.clone() }
    }

    /// `exact` or `fast`, for reports of measurements.
    pub(crate) fn arithmetic_name(&self) -> &'static str {
        if self.exact { "exact" } else { "fast" }
    }

    /// Makes the context large enough for this number of tokens, unless a context was given.
    pub(crate) fn at_least(&mut self, tokens: usize) {
        if self.context.is_none() && tokens > DEFAULT_CONTEXT {
            self.context = u32::try_from(tokens).ok();
        }
    }

    /// Sets the context to this number of tokens, unless a context was given.
    pub(crate) fn exactly(&mut self, tokens: usize) {
        if self.context.is_none() {
            self.context = u32::try_from(tokens).ok();
        }
    }

    /// Refuses an unknown device and unknown options of it before anything is opened.
    fn check_device(&self, installed: &Environment) -> Result<(), Failure> {
        self.device.kind(installed.entries()).map(drop).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// The model's file (for a recipe, that of its base), downloaded if it is not on this machine.
    pub(crate) fn locate(&self, installed: &Environment) -> Result<PathBuf, Failure> {
        Ok(self.meant(installed)?.path)
    }

    fn meant(&self, installed: &Environment) -> Result<ModelSource, Failure> {
        self.check_device(installed)?;
        ModelSource::of(&self.model, &self.specs, installed)
    }

    /// Opens the model and prints its notices.
    pub(crate) fn open(&self, installed: &Environment) -> Result<LoadedModel<TextPipeline>, Failure> {
        self.open_with_template(installed, &TemplateArguments::default())
    }

    /// [`Self::open`] with the user's chat template, if there is one.
    pub(crate) fn open_with_template(
        &self,
        installed: &Environment,
        template: &TemplateArguments,
    ) -> Result<LoadedModel<TextPipeline>, Failure> {
        let pipeline = self.open_silently(installed, template)?;
        Ok(said(pipeline))
    }

    /// [`Self::open_with_template`] that shares the weights of a model that is open for embeddings.
    pub(crate) fn open_beside(
        &self,
        installed: &Environment,
        vectors: &LoadedModel<EmbeddingPipeline>,
        template: &TemplateArguments,
    ) -> Result<LoadedModel<TextPipeline>, Failure> {
        let share = |options: &mut LoadOptions| options.opened = Some(vectors.opened());
        let pipeline = self.open_changed(installed, template, None, &share)?;
        // The notices about the file were printed when it was opened for embeddings.
        let new = pipeline.notices().iter().filter(|notice| !vectors.notices().contains(notice));
        new.for_each(|notice| report::note(&notice.to_string()));
        Ok(pipeline)
    }

    /// Opens the model with a wrapper around its linears and prints its notices.
    pub(crate) fn open_wrapped(
        &self,
        installed: &Environment,
        wrapper: LoadWrapper,
    ) -> Result<LoadedModel<TextPipeline>, Failure> {
        let template = TemplateArguments::default();
        Ok(said(self.open_with_wrapper(installed, &template, Some(wrapper))?))
    }

    /// Opens the model for embeddings and prints its notices.
    pub(crate) fn open_for_vectors(
        &self,
        installed: &Environment,
    ) -> Result<LoadedModel<EmbeddingPipeline>, Failure> {
        if !self.lora.is_empty() {
            return Err(Failure::Usage(
                "--lora: adapters are supported for text generation only, not for embeddings".to_owned(),
            ));
        }
        let meant = self.meant(installed)?;
        let path = &meant.path;
        let _at_once = interrupt::at_once()?;
        let environment = self.specs.environment(installed)?;
        let spinner = progress::spinner(&format!("loading {}", path_text(path)));
        let options = self.load_options().with_quantization(self.quantization(Some(&spinner))?);
        let mut options = meant.options(options, &environment)?;
        if !options.adapters.is_empty() {
            let reason = "adapters are supported for text generation only, not for embeddings";
            return Err(Failure::about(&self.model, reason).with_help(
                "use the base model of the recipe, or merge the adapters into a model with `menagerie merge`",
            ));
        }
        if self.context == Some(0) {
            options.context = Some(trained_context(path, &environment, &options)?);
        }
        self.note_threads();
        let pipeline = open_embedding_with(path, &environment, &options);
        spinner.finish_and_clear();
        let pipeline = pipeline?;
        for notice in pipeline.notices() {
            report::note(&notice.to_string());
        }
        Ok(pipeline)
    }

    /// Notes that there are more threads than cores.
    fn note_threads(&self) {
        if let (Some(threads), Ok(cores)) = (self.threads, std::thread::available_parallelism())
            && threads as usize > cores.get()
        {
            report::note(&format!(
                "{threads} threads on {cores} cores: more than one thread per core is slower"
            ));
        }
    }

    /// Opens the model; the caller prints the notices. Ctrl-C ends the process while the model loads.
    pub(crate) fn open_silently(
        &self,
        installed: &Environment,
        template: &TemplateArguments,
    ) -> Result<LoadedModel<TextPipeline>, Failure> {
        self.open_with_wrapper(installed, template, None)
    }

    fn open_with_wrapper(
        &self,
        installed: &Environment,
        template: &TemplateArguments,
        wrapper: Option<LoadWrapper>,
    ) -> Result<LoadedModel<TextPipeline>, Failure> {
        self.open_changed(installed, template, wrapper, &|_| ())
    }

    /// The mixture of the recipe, if it has one.
    pub(crate) fn mixture(&self, installed: &Environment) -> Result<Option<GivenMixture>, Failure> {
        Ok(self.meant(installed)?.ingredients.and_then(|ingredients| ingredients.mixture))
    }

    /// Opens the mixture of a recipe with another gate, without printing notices.
    pub(crate) fn open_with_gate(
        &self,
        installed: &Environment,
        template: &TemplateArguments,
        gate: &GivenGate,
    ) -> Result<LoadedModel<TextPipeline>, Failure> {
        self.open_changed(installed, template, None, &|options| {
            if let Some(mixture) = &mut options.mixture {
                mixture.gate = gate.clone();
            }
        })
    }

    fn open_changed(
        &self,
        installed: &Environment,
        template: &TemplateArguments,
        wrapper: Option<LoadWrapper>,
        change: &dyn Fn(&mut LoadOptions),
    ) -> Result<LoadedModel<TextPipeline>, Failure> {
        let meant = self.meant(installed)?;
        let path = &meant.path;
        let _at_once = interrupt::at_once()?;
        let environment = self.specs.environment(installed)?;
        let spinner = progress::spinner(&format!("loading {}", path_text(path)));
        let options = self
            .load_options()
            .with_chat_template(template.given(&environment)?)
            .with_quantization(self.quantization(Some(&spinner))?)
            .with_wrapper(wrapper);
        let mut options = meant.options(options, &environment)?;
        change(&mut options);
        if self.context == Some(0) {
            options.context = Some(trained_context(path, &environment, &options)?);
        }
        if options.opened.is_none() {
            self.note_threads();
        }
        let opened = open_text_with(path, &environment, &options);
        spinner.finish_and_clear();
        Ok(opened?)
    }
}

/// The options of the device that change results, with their values.
pub(crate) fn device_options(compute: &Compute) -> BTreeMap<&'static str, String> {
    compute.backend.settings().into_iter().collect()
}

fn given_xlora(folder: &Path) -> AdapterOption {
    AdapterOption { kind: AdapterKind::XLora, path: folder.to_owned(), weight: 1.0 }
}

/// Prints the notices of a loaded model.
fn said(pipeline: LoadedModel<TextPipeline>) -> LoadedModel<TextPipeline> {
    for notice in pipeline.notices() {
        report::note(&notice.to_string());
    }
    pipeline
}

/// The training context length that the model states.
fn trained_context(path: &Path, environment: &Environment, options: &LoadOptions) -> Result<usize, Failure> {
    let resolved =
        ResolvedFile::new(open_model(path, environment.entries(), true)?, environment, options.keys())?;
    let stated = resolved.config().context_length;
    stated.filter(|&tokens| tokens > 0).ok_or_else(|| {
        Failure::about(path_text(path), "the file does not state its training context length")
            .with_help("give -c TOKENS")
    })
}
