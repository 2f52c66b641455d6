//! `batch MODEL IN OUT`: answers many requests together.

use crate::arguments::cache::{CacheArguments, OpenCache};
use crate::arguments::draft::{DraftArguments, DraftOpening};
use crate::arguments::hooks::HookArguments;
use crate::arguments::metrics::MetricsArgument;
use crate::arguments::model::{ModelArguments, device_options};
use crate::arguments::pooling::PoolingArgument;
use crate::arguments::queue_size::QueueArguments;
use crate::arguments::sampling::{SamplingArguments, sampling_line};
use crate::arguments::stages::StageArguments;
use crate::arguments::template::TemplateArguments;
use crate::arguments::truncation::TruncationArgument;
use crate::batch::identity::{identity, vectors_identity};
use crate::batch::input::open_input;
use crate::batch::models::{BatchModelOptions, BatchModels};
use crate::batch::output::BatchOutput;
use crate::batch::tally::BatchCounts;
use crate::batch::vectors::BatchVectors;
use crate::batch::work::BatchWork;
use crate::chat::answer;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file::{is_device, may_write};
use crate::screen::report;
use crate::{interrupt, output};
use clap::Args;
use menagerie::engine::{EmbeddingOptions, Hookable, Normalization, Request, TextPipeline};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use menagerie_openai::{BatchInput, EarlierResults, RequestReader, ResponseFormats, request_id};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answer many requests together: read JSON lines from one file, write results to another
///
/// A line of IN is a request in the format of OpenAI's batches ({"custom_id", "method", "url", "body"}, for
/// /v1/chat/completions, /v1/completions or /v1/embeddings), or {"prompt": TEXT} or {"messages": [..]} with the fields of
/// such a body and an optional custom_id, or just a JSON string. The options of this command are the defaults for fields
/// that a line leaves out; a line with an unsupported field gets an error. Each result is written to OUT as soon as it is
/// complete, in OpenAI's format.
///
/// After a crash or kill the same command resumes: lines that have results in OUT are not computed again. It refuses to
/// resume if the model, the options or those lines of IN have changed (OUT.batch records how OUT was made). The exit code
/// is 1 while OUT has failed lines; --retry-failed computes them again.
#[derive(Args)]
pub(crate) struct BatchCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    stages: StageArguments,
    #[command(flatten)]
    hooks: HookArguments,
    /// File of requests (JSON lines); - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File for the results (JSON lines); - for standard output
    #[arg(value_name = "OUT")]
    out: PathBuf,
    #[command(flatten)]
    queue: QueueArguments,
    /// Number of answers to a request without the field n; they share the prompt and have consecutive seeds
    #[arg(long, hide_short_help = true, visible_alias = "n", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    answers: u32,
    /// Pooling of token vectors into one vector per text, for /v1/embeddings [default: from the model file]
    #[arg(long, hide_short_help = true, value_enum, value_name = "HOW")]
    pooling: Option<PoolingArgument>,
    #[command(flatten)]
    truncation: TruncationArgument,
    /// Continue plain prompts as text, without the chat template
    #[arg(long)]
    raw: bool,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Compute failed lines again, including those that have changed in IN, and replace their results
    #[arg(long, conflicts_with = "force")]
    retry_failed: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArguments,
    #[command(flatten)]
    metrics: MetricsArgument,
    #[command(flatten)]
    template: TemplateArguments,
    #[command(flatten)]
    draft: DraftArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
}

/// Number of requests that are read ahead, because some may share a prefix.
const AHEAD: usize = 64;

impl Runnable for BatchCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let standard = self.out.as_os_str() == "-";
        if standard && self.json {
            let reason = "--json and OUT as - both write to standard output";
            return Err(Failure::Usage(reason.to_owned()).with_help("name a file for OUT"));
        }
        if self.retry_failed && (standard || is_device(&self.out)) {
            let reason = "--retry-failed replaces results in OUT, but this OUT does not keep results";
            return Err(Failure::Usage(reason.to_owned()).with_help("name a file for OUT"));
        }
        let arguments = self.model.staged(&self.stages, installed)?;
        let opening = (!standard).then(|| {
            let opening = arguments.opening(installed)?;
            may_write(&self.out, true, &[opening.path(), &self.input])?;
            Ok::<_, Failure>(opening)
        });
        let opening = opening.transpose()?;
        self.hooks.check(installed).and_then(|()| self.sampling.check(installed))?;
        self.metrics.check()?;
        let input = open_input(&self.input)?;
        let (template, hooks, stages) = (&self.template, &self.hooks, &self.stages);
        let given = BatchModelOptions { hooks, stages, pooling: self.pooling, installed };
        let opening = opening.map_or_else(|| arguments.opening(installed), Ok)?;
        let opening = opening.with_template(template)?.with_draft(&self.draft);
        let mut models = BatchModels::open(&opening, &input, &given)?;
        let text = models.text.as_mut().ok().map(|pipeline| pipeline as &mut dyn Hookable);
        let vectors = models.vectors.as_mut().ok().map(|pipeline| pipeline as &mut dyn Hookable);
        let metrics = self.metrics.watch_all(text.into_iter().chain(vectors))?;
        self.cache.check_text(&models.text)?;
        let cache = match &mut models.text {
            Ok(pipeline) => self.cache.install(pipeline, installed)?,
            Err(_) => OpenCache::default(),
        };
        // After a signal there is time to complete the current line and OUT.
        let orderly = interrupt::orderly()?;
        let ended = self.answer(&models, input, installed, &cache);
        drop(orderly);
        Failure::of_all([ended, metrics.write()])
    }

    fn staged_model(&self) -> Option<&ModelArguments> {
        Some(&self.model)
    }
}

impl BatchCommand {
    /// Answers the lines that have no result yet.
    fn answer(
        &self,
        models: &BatchModels,
        input: BatchInput,
        installed: &Environment,
        cache: &OpenCache,
    ) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let text = models.text.as_ref().ok();
        let defaults = text.map(|pipeline| {
            let request = self.sampling.request(pipeline.sampling_defaults(), installed, cancel.clone())?;
            let opening = DraftOpening { model: &self.model, queue: Some(&self.queue), installed };
            Ok::<_, Failure>(request.with_draft(self.draft.source(pipeline, &opening)?))
        });
        let defaults = defaults.transpose()?;
        let made = self.made(models, defaults.as_ref(), installed)?;
        let earlier = match (self.force, self.retry_failed) {
            (true, _) => EarlierResults::Drop,
            (false, true) => EarlierResults::RetryFailed,
            (false, false) => EarlierResults::Keep,
        };
        let out = BatchOutput::open(&self.out, &made, earlier)?;
        let left = undone(&input, &out)?;
        say_done(&input, &out, left.len());
        let requests = match (text, defaults) {
            (Some(pipeline), Some(defaults)) => Ok(self.requests(pipeline, defaults)?),
            _ => Err(models.text.as_ref().err().cloned().unwrap_or_default()),
        };
        let options = EmbeddingOptions::default()
            .with_pooling(self.pooling.map(PoolingArgument::pooling))
            .with_normalization(Normalization::Euclidean);
        let vectors = models.vectors.as_ref();
        let vectors = vectors
            .map(|pipeline| BatchVectors::new(pipeline, options, self.truncation.truncation()))
            .map_err(String::clone);
        let mut work = BatchWork::new(input, out, left, requests, vectors);
        let mut queue = text
            .map(|pipeline| Ok::<_, Failure>(pipeline.queue(self.queue.scheduler(pipeline))?))
            .transpose()?;
        let done = work.run(queue.as_mut(), self.queue.parallel as usize + AHEAD, &cancel);
        let counts = queue.map(|queue| *queue.scheduler().counts());
        let counts = BatchCounts { scheduler: counts, disk_cache: cache.finish() };
        self.end(work, done, &counts, &cancel)
    }

    fn requests<'a>(
        &self,
        pipeline: &'a LoadedModel<TextPipeline>,
        defaults: Request,
    ) -> Result<RequestReader<'a>, Failure> {
        let format = if self.raw { None } else { answer::chat_format(pipeline, &self.template)? };
        let render = self.template.render_options()?;
        let formats = Arc::new(ResponseFormats::new(pipeline.tokenizer().ok()));
        Ok(RequestReader { pipeline, format, defaults, render, answers: self.answers as usize, formats })
    }

    /// The error of a stage that failed while lines were being computed; the next run computes them.
    fn ended_by(&self, fault: &str, open: usize) -> Failure {
        let reason =
            format!("{fault} ({} in progress, without a result in OUT)", output::counted(open, "line"));
        Failure::Failed(reason).with_help(match self.out.as_os_str() == "-" {
            true => "name a file for OUT: the same command can then continue where it stopped",
            false => "run the same command again: it continues where it stopped",
        })
    }

    /// Everything besides the line that an answer depends on.
    fn made(
        &self,
        models: &BatchModels,
        defaults: Option<&Request>,
        installed: &Environment,
    ) -> Result<Map<String, Value>, Failure> {
        let mut made = match (&models.text, defaults, &models.vectors) {
            (Ok(pipeline), Some(defaults), _) => self.made_text(pipeline, defaults, installed)?,
            (_, _, Ok(pipeline)) => vectors_identity(pipeline, installed)?,
            _ => Map::new(),
        };
        made.insert("arithmetic".to_owned(), self.model.arithmetic_name().into());
        let text = models.text.as_ref().ok().map(|pipeline| pipeline.compute());
        let compute = text.or_else(|| models.vectors.as_ref().ok().map(|one| &one.engine().compute));
        made.insert("device_options".to_owned(), json!(compute.map(device_options).unwrap_or_default()));
        made.insert("quant".to_owned(), self.model.quant_name().into());
        if let Ok(pipeline) = &models.vectors {
            let pooling = self.pooling.map_or(pipeline.engine().model.pooling, PoolingArgument::pooling);
            made.insert("pooling".to_owned(), format!("{pooling:?}").to_lowercase().into());
            made.insert("truncate".to_owned(), self.truncation.is_given().into());
        }
        Ok(made)
    }

    fn made_text(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        defaults: &Request,
        installed: &Environment,
    ) -> Result<Map<String, Value>, Failure> {
        let mut made = identity(pipeline, installed)?;
        // The text of the template: a path says nothing about changes, and a template of the model has no path.
        let format = if self.raw { None } else { answer::chat_format(pipeline, &self.template)? };
        let sampling = &defaults.sampling;
        let biases: Vec<String> =
            sampling.logit_bias.iter().map(|(id, bias)| format!("{id}={bias}")).collect();
        let options = json!({
            "context": pipeline.context(),
            "sampling": sampling_line(sampling),
            "penalties": format!("{} {} {} {}", sampling.repeat_last_n, sampling.dry_base, sampling.dry_allowed_length, sampling.dry_last_n),
            "xtc_threshold": sampling.xtc_threshold,
            "logit_bias": biases,
            "seed": sampling.seed,
            "max_tokens": defaults.max_tokens,
            "stop": defaults.stop,
            "stop_tokens": defaults.stop_tokens,
            "min_tokens": defaults.min_tokens,
            "ignore_eos": defaults.ignore_eos,
            "logprobs": defaults.logprobs,
            "answers": self.answers,
            "raw": self.raw,
            "chat_template": format.map(|format| format.identity()),
            "tools": self.template.tools()?,
            "template_variables": self.template.variables()?,
        });
        made.extend(options.as_object().cloned().unwrap_or_default());
        Ok(made)
    }

    fn end(
        &self,
        work: BatchWork,
        done: Result<Option<String>, Failure>,
        counts: &BatchCounts,
        cancel: &Arc<AtomicBool>,
    ) -> Result<(), Failure> {
        let open = work.open();
        let (tally, out) = work.finish();
        let [answered, failed] = out.counts();
        if cancel.load(Ordering::Relaxed) {
            report::note("interrupted; the same command continues where it stopped");
            out.finish()?;
            return Err(Failure::Interrupted);
        }
        let fault = done?;
        out.finish()?;
        if let Some(fault) = fault {
            return Err(self.ended_by(&fault, open));
        }
        if self.json {
            output::json(&tally.json([answered, failed], counts))?;
        } else if tally.lines() > 0 {
            report::line(&tally.line(counts));
        }
        if failed == 0 {
            return Ok(());
        }
        let reason = format!(
            "{answered} answered, {failed} failed: {} got an error, which their result describes",
            output::counted(failed, "request")
        );
        Err(Failure::about(self.out.display(), reason).with_help(match self.out.as_os_str() == "-" {
            true => "name a file for OUT: --retry-failed can then compute failed lines again",
            false => "--retry-failed computes them again, including those that you correct in IN",
        }))
    }
}

/// Prints a note about existing results.
fn say_done(input: &BatchInput, out: &BatchOutput, left: usize) {
    let [answered, failed] = out.counts();
    let already = input.lines().len() - left;
    let all = output::counted(input.lines().len(), "line");
    if out.retries() && failed > 0 {
        report::note(&format!("{answered} answered, {failed} failed; computing the failed lines again"));
    } else if already > 0 && failed == 0 {
        report::note(&format!("{already} of {all} already answered"));
    } else if already > 0 {
        report::note(&format!(
            "{already} of {all} already have results: {answered} answered, {failed} failed"
        ));
    }
}

/// The lines to compute, in reverse order: those without a result, and failed ones that are retried.
fn undone(input: &BatchInput, out: &BatchOutput) -> Result<Vec<usize>, Failure> {
    let mut left = Vec::new();
    for (index, place) in input.lines().iter().enumerate().rev() {
        match out.done().get(&place.id) {
            None => left.push(index),
            Some(line) if !line.answered && out.retries() => left.push(index),
            Some(line) if line.request == request_id(place) => {}
            Some(line) => {
                let reason =
                    format!("line {} ({:?}) of IN has changed since it was answered", place.number, place.id);
                let help = match line.answered {
                    true => "name another OUT; --force replaces this one",
                    false => "--retry-failed computes failed lines again; or name another OUT",
                };
                return Err(Failure::Failed(reason).with_help(help));
            }
        }
    }
    Ok(left)
}
