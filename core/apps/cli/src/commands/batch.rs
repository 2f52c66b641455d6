//! `batch MODEL IN OUT`: many requests, answered together.

use crate::batch_identity::identity;
use crate::batch_input::BatchInput;
use crate::batch_output::BatchOutput;
use crate::batch_request::{BatchRequest, BatchRequests};
use crate::batch_result::{BatchResult, fault_line, request_id};
use crate::failure::Failure;
use crate::hook_arguments::HookArguments;
use crate::model_arguments::ModelArguments;
use crate::output_file::may_write;
use crate::printer::Shown;
use crate::sampling_arguments::{SamplingArguments, sampling_line};
use crate::template_arguments::TemplateArguments;
use crate::{answer, interrupt, output, progress, report};
use clap::Args;
use indicatif::ProgressBar;
use menagerie::pipeline::{Event, Queue, Request, SchedulerOptions, StopReason, TextPipeline, Ticket};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Answer many requests together, from a file of JSON lines to another
///
/// A line of IN is a request as OpenAI's batches have it ({"custom_id", "method", "url", "body"}, of /v1/chat/completions
/// or /v1/completions), {"prompt": TEXT} or {"messages": [..]} with the same fields as a body and perhaps a custom_id, or
/// a JSON text alone. What a line does not say, the options here do; a field that is not honoured is an error of its
/// line. OUT gets a line for each, in OpenAI's form, as soon as it is answered.
///
/// Run again after a kill, it goes on where it was: lines of OUT stay and are not done again. It refuses to where model,
/// options or those lines of IN are others than they were (OUT.batch says how OUT was made).
#[derive(Args)]
pub(crate) struct BatchCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    hooks: HookArguments,
    /// The requests: a file of JSON lines, - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The answers: a file of JSON lines, - for standard output
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Requests at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    parallel: u32,
    /// Answers to each request that does not say, with seeds that follow each other; they share the prompt
    #[arg(long, visible_alias = "n", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    answers: u32,
    /// Tokens computed at once for all requests together: no request waits longer than that for its next token [default: as
    /// --chunk]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    step_tokens: Option<u32>,
    /// Tokens of all requests together that are held; who finds no room is computed again later [default: a context for
    /// each, as far as half of the free memory allows]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    cache_tokens: Option<u32>,
    /// Continue plain prompts as they are, without the chat template
    #[arg(long)]
    raw: bool,
    /// Begin OUT anew if it exists
    #[arg(long)]
    force: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    template: TemplateArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
}

/// Requests read ahead of those that run: some may share what they begin with.
const AHEAD: usize = 64;

/// Counts of a run.
#[derive(Default)]
struct Tally {
    answered: usize,
    failed: usize,
    tokens: usize,
}

/// A batch under way.
struct Work<'a> {
    input: BatchInput,
    out: BatchOutput,
    requests: BatchRequests<'a>,
    /// Lines still to be begun, the next one last.
    left: Vec<usize>,
    open: HashMap<usize, BatchResult>,
    /// Line and answer of each task.
    tasks: HashMap<Ticket, (usize, usize)>,
    tally: Tally,
    bar: ProgressBar,
    started: Instant,
}

impl BatchCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let standard = self.out.as_os_str() == "-";
        if standard && self.json {
            let reason = "--json and OUT as - both write to standard output";
            return Err(Failure::Usage(reason.to_owned()).with_help("name a file for OUT"));
        }
        if !standard {
            let model = self.model.locate()?;
            may_write(&self.out, true, &[&model, &self.input])?;
        }
        let input = BatchInput::open(&self.input)?;
        let mut pipeline = self.model.open_with_template(&self.template)?;
        self.hooks.install(&mut pipeline)?;
        let cancel = interrupt::flag()?;
        let defaults = self.sampling.request(pipeline.sampling_defaults(), cancel.clone())?;
        let out = BatchOutput::open(&self.out, &self.made(&pipeline, &defaults)?, self.force)?;
        let left = undone(&input, &out)?;
        let already = input.lines().len() - left.len();
        if already > 0 {
            report::note(&format!(
                "{already} of {} are answered already",
                output::counted(input.lines().len(), "line")
            ));
        }
        let format = if self.raw { None } else { answer::chat_format(&pipeline, &self.template)? };
        let render = self.template.render_options()?;
        let requests =
            BatchRequests { pipeline: &pipeline, format, defaults, render, answers: self.answers as usize };
        let bar = progress::lines(input.lines().len() as u64, already as u64);
        let (open, tasks, tally, started) =
            (HashMap::new(), HashMap::new(), Tally::default(), Instant::now());
        let mut work = Work { input, out, requests, left, open, tasks, tally, bar, started };
        let mut batch = pipeline.batch(self.room(&pipeline)?)?;
        let mut queue = batch.queue();
        let done = work.run(&mut queue, self.parallel as usize + AHEAD);
        work.bar.finish_and_clear();
        if cancel.load(Ordering::Relaxed) {
            report::note("interrupted; the same command goes on where it was");
            work.out.finish()?;
            return Err(Failure::Interrupted);
        }
        done?;
        self.end(work, &queue)
    }

    /// How the sequences are laid out.
    fn room(&self, pipeline: &TextPipeline) -> Result<SchedulerOptions, Failure> {
        let engine = pipeline.engine();
        let parallel = self.parallel as usize;
        let step_tokens = self.step_tokens.map_or(engine.chunk, |tokens| tokens as usize);
        let options = |capacity_tokens| SchedulerOptions {
            sequences: parallel,
            prefixes: parallel,
            capacity_tokens,
            step_tokens,
        };
        if let Some(tokens) = self.cache_tokens {
            return Ok(options(tokens as usize));
        }
        let mut capacity = engine.context.saturating_mul(parallel);
        let half = engine.compute.backend.free_memory().map(|free| free / 2);
        let bytes = |capacity| {
            let room = engine.pool_options(2 * parallel, capacity).with_step_tokens(step_tokens);
            room.with_sets(engine.model.state_sets()).memory(engine.model.states())
        };
        while capacity > engine.context
            && half.is_some_and(|half| bytes(capacity).is_ok_and(|bytes| bytes > half))
        {
            capacity = (capacity / 2).max(engine.context);
        }
        Ok(options(capacity))
    }

    /// What answers depend on, beside their line.
    fn made(&self, pipeline: &TextPipeline, defaults: &Request) -> Result<Map<String, Value>, Failure> {
        let Value::Object(mut made) = identity(pipeline) else { return Ok(Map::new()) };
        let sampling = &defaults.sampling;
        let biases: Vec<String> =
            sampling.logit_bias.iter().map(|(id, bias)| format!("{id}={bias}")).collect();
        let Value::Object(options) = json!({
            "arithmetic": self.model.arithmetic_name(),
            "half_prompts": self.model.half_prompts_name(),
            "quant": self.model.quant_name(),
            "context": pipeline.context(),
            "sampling": sampling_line(sampling),
            "penalties": format!("{} {} {} {}", sampling.repeat_last_n, sampling.dry_base, sampling.dry_allowed_length, sampling.dry_last_n),
            "xtc_threshold": sampling.xtc_threshold,
            "logit_bias": biases,
            "seed": sampling.seed,
            "max_tokens": defaults.max_tokens,
            "stop": defaults.stop,
            "ignore_eos": defaults.ignore_eos,
            "logprobs": defaults.logprobs,
            "answers": self.answers,
            "raw": self.raw,
            "chat_template": self.template.chat_template.as_ref().map(|path| path.display().to_string()),
            "tools": self.template.tools()?,
            "template_variables": self.template.variables()?,
        }) else {
            return Ok(made);
        };
        made.extend(options);
        Ok(made)
    }

    fn end(&self, work: Work, queue: &Queue) -> Result<(), Failure> {
        let Work { out, tally, started, .. } = work;
        out.finish()?;
        let seconds = started.elapsed().as_secs_f64();
        let counts = queue.scheduler().counts();
        let rate = tally.tokens as f64 / seconds.max(1e-9);
        if self.json {
            output::json(&json!({
                "answered": tally.answered, "failed": tally.failed, "generated_tokens": tally.tokens,
                "seconds": seconds, "tokens_per_second": rate, "scheduler": counts,
            }))?;
        } else if tally.answered + tally.failed > 0 {
            report::line(&format!(
                "{} in {seconds:.1} s: {} generated ({rate:.1}/s), {} shared, {} computed again for lack of room",
                output::counted(tally.answered, "answer"),
                output::counted(tally.tokens, "token"),
                output::counted(counts.shared as usize, "token"),
                counts.preempted_tokens,
            ));
        }
        match tally.failed {
            0 => Ok(()),
            failed => Err(Failure::about(
                self.out.display(),
                format!("{} could not be answered; their lines say why", output::counted(failed, "request")),
            )),
        }
    }
}

/// The lines that OUT has no answer to, the first one last.
fn undone(input: &BatchInput, out: &BatchOutput) -> Result<Vec<usize>, Failure> {
    let mut left = Vec::new();
    for (index, place) in input.lines().iter().enumerate().rev() {
        match out.done().get(&place.id) {
            None => left.push(index),
            Some(request) if *request == request_id(place) => {}
            Some(_) => {
                let reason =
                    format!("line {} ({:?}) is another one than was answered", place.number, place.id);
                return Err(Failure::Failed(reason).with_help("name another OUT; --force begins it anew"));
            }
        }
    }
    Ok(left)
}

impl Work<'_> {
    fn run(&mut self, queue: &mut Queue, ahead: usize) -> Result<(), Failure> {
        loop {
            while queue.waiting() < ahead
                && let Some(index) = self.left.pop()
            {
                self.begin(queue, index)?;
            }
            if queue.is_idle() {
                return Ok(());
            }
            let ended = queue.step(&mut |ticket, event| self.hear(ticket, event));
            for (ticket, result) in ended {
                // What was interrupted is no answer.
                let interrupted = match &result {
                    Ok(outcome) => outcome.reason == StopReason::Cancelled,
                    Err(error) => matches!(error, menagerie::pipeline::GenerateError::Cancelled),
                };
                if interrupted {
                    return Ok(());
                }
                let Some((index, answer)) = self.tasks.remove(&ticket) else { continue };
                let Some(open) = self.open.get_mut(&index) else { continue };
                if open.end(answer, result)
                    && let Some(all) = self.open.remove(&index)
                {
                    let (line, good) = all.line(self.requests.pipeline.name());
                    self.write(&line, good)?;
                }
            }
        }
    }

    fn begin(&mut self, queue: &mut Queue, index: usize) -> Result<(), Failure> {
        let place = self.input.lines()[index].clone();
        let line = self.input.value(index)?;
        match self.requests.of(line) {
            Ok(BatchRequest { shape, tasks }) => {
                self.open.insert(index, BatchResult::new(place, shape, tasks.len()));
                for (answer, task) in tasks.into_iter().enumerate() {
                    self.tasks.insert(queue.submit(task), (index, answer));
                }
                Ok(())
            }
            Err(fault) => self.write(&fault_line(&place, &fault), false),
        }
    }

    fn write(&mut self, line: &Value, good: bool) -> Result<(), Failure> {
        self.out.write(line)?;
        self.tally.answered += usize::from(good);
        self.tally.failed += usize::from(!good);
        self.bar.inc(1);
        Ok(())
    }

    fn hear(&mut self, ticket: Ticket, event: Event) {
        let Event::Token { id, piece, logprob, top } = event else { return };
        self.tally.tokens += 1;
        let rate = self.tally.tokens as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        self.bar.set_message(format!("{} tokens, {rate:.0}/s", self.tally.tokens));
        if logprob.is_none() {
            return;
        }
        let Some((index, answer)) = self.tasks.get(&ticket) else { return };
        if let Some(open) = self.open.get_mut(index) {
            open.show(*answer, Shown { id, piece: piece.to_owned(), logprob, top: top.to_vec() });
        }
    }
}
