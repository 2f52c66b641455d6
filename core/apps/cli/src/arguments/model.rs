//! Arguments of the commands that open a model.

use crate::arguments::adapters::lora;
use crate::arguments::key_setting::key_setting;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::arguments::stages::StageArguments;
use crate::failure::Failure;
use crate::screen::report;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use menagerie::engine::{Arithmetic, DEFAULT_CONTEXT, KvType};
use menagerie::files::path_text;
use menagerie::model::Compute;
use menagerie::open::{
    AdapterOption, Device, DeviceName, LoadOptions, LoadQuantization, StageOptions, StageStart, refuse_stage,
};
use menagerie::quantize::{Importance, Policy, QuantizeError};
use menagerie::registry::Environment;
use menagerie::spec::{AdapterKind, MetadataValue};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why embeddings refuse adapters.
pub(crate) const NO_ADAPTERS: &str = "adapters are supported for text generation only, not for embeddings";

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

impl From<KvTypeArgument> for KvType {
    fn from(argument: KvTypeArgument) -> Self {
        match argument {
            KvTypeArgument::F32 => Self::F32,
            KvTypeArgument::F16 => Self::F16,
            KvTypeArgument::Q8_0 => Self::Q8_0,
        }
    }
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
            .with_kv_type(self.kv_type.map(KvType::from))
            .with_context(self.context.map(|context| context as usize))
            .with_chunk(self.chunk as usize)
            .with_device(Device::Named(self.device.clone()))
            .with_threads(self.threads.map(|threads| threads as usize))
            .with_spec_dirs(self.specs.spec_dir.clone())
            .with_allow_shadow(self.specs.allow_shadow)
            .with_accept_unread(self.accept_unread.clone())
            .with_set(self.set.iter().cloned().collect())
            .with_adapters(self.lora.iter().cloned().chain(self.xlora.as_deref().map(xlora)).collect())
            .with_stages(self.stages.clone())
    }

    /// The same arguments for another model.
    #[cfg(feature = "serve")]
    pub(crate) fn for_model(&self, model: NameOrPath) -> Self {
        Self { model, ..self.clone() }
    }

    /// The arguments of a model that guesses tokens for the one with these arguments, in this context.
    pub(crate) fn for_draft(&self, model: NameOrPath, context: usize) -> Self {
        Self {
            model,
            context: u32::try_from(context).ok(),
            set: Vec::new(),
            xlora: None,
            lora: Vec::new(),
            stages: None,
            ..self.unquantized()
        }
    }

    /// Whether the model computes on the CPU, in the memory of the machine.
    #[cfg(feature = "serve")]
    pub(crate) fn is_on_cpu(&self) -> bool {
        self.device.to_string().split(':').next() == Some("cpu")
    }

    /// The same arguments with the stages that are requested.
    pub(crate) fn staged(&self, stages: &StageArguments, installed: &Environment) -> Result<Self, Failure> {
        Ok(self.in_stages(stages.options(installed)?))
    }

    /// The same arguments with these stages.
    pub(crate) fn in_stages(&self, stages: Option<StageOptions>) -> Self {
        Self { stages, ..self.clone() }
    }

    /// Whether the model is split into stages.
    #[cfg(feature = "serve")]
    pub(crate) fn is_in_stages(&self) -> bool {
        self.stages.is_some()
    }

    /// Serves a stage of the model over standard input and output. If it cannot, it sends the reason to the process that
    /// has the chain.
    pub(crate) fn serve_stage(&self, start: &StageStart, installed: &Environment) -> Result<(), Failure> {
        match self.opening_of_stage(installed).and_then(|opening| opening.builder()) {
            Ok(builder) => Ok(builder.serve_stage(start)?),
            Err(Failure::Failed(reason) | Failure::Usage(reason)) => Ok(refuse_stage(start, &reason)?),
            Err(other) => Err(other),
        }
    }

    /// How weights are quantized while loading.
    pub(crate) fn quantization(&self) -> Result<Option<LoadQuantization>, Failure> {
        let Some(name) = &self.quant else { return Ok(None) };
        let policy = Policy::named(name)?;
        let importance = self.imatrix.as_deref().map(|path| {
            let importance = Importance::open(path)?;
            Ok::<_, QuantizeError>((path_text(path), Arc::new(importance)))
        });
        Ok(Some(LoadQuantization {
            policy,
            importance: importance.transpose()?,
            requantize: self.allow_requantize,
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

    /// Refuses LoRA adapters, for commands that compute embeddings.
    pub(crate) fn refuse_lora(&self) -> Result<(), Failure> {
        match self.lora.is_empty() {
            true => Ok(()),
            false => Err(Failure::Usage(format!("--lora: {NO_ADAPTERS}"))),
        }
    }

    /// Refuses an unknown device and unknown options of it.
    pub(crate) fn check_device(&self, installed: &Environment) -> Result<(), Failure> {
        self.device.kind(installed.entries()).map(drop).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Notes that there are more threads than cores.
    pub(crate) fn note_threads(&self) {
        if let (Some(threads), Ok(cores)) = (self.threads, std::thread::available_parallelism())
            && threads as usize > cores.get()
        {
            report::note(&format!(
                "{threads} threads on {cores} cores: more than one thread per core is slower"
            ));
        }
    }
}

/// The options of the device that change results, with their values.
pub(crate) fn device_options(compute: &Compute) -> BTreeMap<&'static str, String> {
    compute.backend.settings().into_iter().collect()
}

fn xlora(folder: &Path) -> AdapterOption {
    AdapterOption { kind: AdapterKind::XLora, path: folder.to_owned(), weight: 1.0 }
}
