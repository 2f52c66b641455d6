//! `bench MODEL`: speed of prompt processing and generation, as a share of the machine's limits.

mod delimited;
mod form;
mod kernel_rates;
mod sequences;

use crate::arguments::hooks::HookArguments;
use crate::arguments::metrics::MetricsArgument;
use crate::arguments::model::{ModelArguments, device_options};
use crate::arguments::observe::ProfileArguments;
use crate::arguments::stages::StageArguments;
use crate::commands::bench::delimited::Delimited;
use crate::commands::bench::form::{OutputForm, mean_of};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::progress;
use crate::{interrupt, output};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use menagerie::assembly::TensorEntry;
use menagerie::engine::TextPipeline;
use menagerie::gguf::GgmlType;
use menagerie::kernels::Cpu;
use menagerie::measure::{BenchOptions, BenchProgress, Rate, TogetherOptions, bench};
use menagerie::open::{LoadedModel, ResolvedFile};
use menagerie::registry::TensorPart;
use menagerie::spec::config::MoeConfig;
use menagerie_kernels_check::rates::{int8_rate, read_rate};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// Measure prompt (pp) and generation (tg) speed, comparable with llama-bench
///
/// Prints tokens per second (mean and standard deviation as in llama-bench, median and spread), and the share of the
/// machine's limits, which are measured in this process with the same threads: the rate of reading the mapped weights for
/// generation, the int8 rate for the prompt.
#[derive(Args)]
pub(crate) struct BenchCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    stages: StageArguments,
    #[command(flatten)]
    hooks: HookArguments,
    /// Tokens of the prompt: one number or several separated by commas; 0 = do not measure
    #[arg(short = 'p', long, value_delimiter = ',', default_value = "512")]
    prompt: Vec<usize>,
    /// Generated tokens: one number or several separated by commas; 0 = do not measure
    #[arg(short = 'n', long, value_delimiter = ',', default_value = "128")]
    generate: Vec<usize>,
    /// Number of repetitions
    #[arg(short = 'r', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Tokens in the cache before each measurement
    #[arg(hide_short_help = true, short = 'd', long, default_value_t = 0)]
    depth: usize,
    /// Measure N sequences in one batch instead (one number or several separated by commas): prompts of -p tokens, then -n
    /// generated tokens for each, as llama-batched-bench does
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["depth", "kernels"], value_parser = clap::value_parser!(u32).range(1..=1024))]
    sequences: Vec<u32>,
    /// Also measure the kernels alone for each weight type: GB/s, GMAC/s, and the time of few rows relative to one
    #[arg(long, hide_short_help = true)]
    kernels: bool,
    /// Format of the measurements
    #[arg(long, hide_short_help = true, value_enum, default_value = "table", conflicts_with = "json")]
    format: BenchFormat,
    #[command(flatten)]
    profile: ProfileArguments,
    #[command(flatten)]
    metrics: MetricsArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BenchFormat {
    /// Aligned columns
    Table,
    /// A Markdown table, the default format of llama-bench
    Markdown,
    /// Comma-separated values
    Csv,
}

/// The cost of one token with this file.
struct Cost {
    /// Bytes of weights read per generated token.
    bytes: f64,
    /// Multiplications with weights per token.
    macs: f64,
}

/// Limits of this machine with these threads.
struct Limits {
    read: f64,
    int8: f64,
}

/// One measurement: `pp` or `tg` of so many tokens.
struct SpeedMeasurement {
    kind: &'static str,
    tokens: usize,
    rate: Rate,
}

impl Runnable for BenchCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        if !self.kernels && self.prompt.iter().chain(&self.generate).all(|&tokens| tokens == 0) {
            return Err(Failure::Usage("nothing to measure: -p and -n are 0".to_owned()));
        }
        // Nothing is lost if Ctrl-C ends the process at once.
        let _at_once = interrupt::at_once()?;
        let mut model = self.model.staged(&self.stages, installed)?;
        let longest = self.prompt.iter().chain(&self.generate).max().copied().unwrap_or(0);
        let first = |counts: &[usize]| counts.first().copied().unwrap_or(0);
        let together = first(&self.prompt) + first(&self.generate);
        model.at_least(if self.sequences.is_empty() { self.depth + longest } else { together });
        let opening = model.opening(installed)?;
        self.profile.check(opening.path())?;
        self.hooks.check(installed)?;
        self.metrics.check()?;
        let mut pipeline = opening.open_text()?;
        self.hooks.install(&mut pipeline, installed)?;
        let metrics = self.metrics.watch(&mut pipeline)?;
        let profiling = self.profile.begin(&mut pipeline);
        let measured = self.measured(&model, &pipeline);
        if let Some(profiling) = profiling {
            profiling.finish(&pipeline)?;
        }
        Failure::of_all([measured, metrics.write()])
    }

    fn staged_model(&self) -> Option<&ModelArguments> {
        Some(&self.model)
    }
}

impl BenchCommand {
    /// Measures and prints the results.
    fn measured(&self, model: &ModelArguments, pipeline: &LoadedModel<TextPipeline>) -> Result<(), Failure> {
        if !self.sequences.is_empty() {
            return sequences::measure(&self.model, pipeline, &self.together(), self.form());
        }
        // The probes have their own threads, which are idle while the model runs.
        let cpu = Cpu::new(model.load_options().placement.threads)?;
        let bar = progress::spinner("probing");
        let limits = probe(&cpu, pipeline)?;
        let measured = self.measure(pipeline, &bar);
        bar.finish_and_clear();
        let report = self.report(pipeline, &cpu, &measured?, &limits)?;
        match self.form() {
            OutputForm::Json => output::json(&report),
            OutputForm::Columns => print(&report),
            OutputForm::Delimited(how) => output::write(&delimited(&report, how)),
        }
    }

    fn form(&self) -> OutputForm {
        match (self.json, self.format) {
            (true, _) => OutputForm::Json,
            (false, BenchFormat::Table) => OutputForm::Columns,
            (false, BenchFormat::Markdown) => OutputForm::Delimited(Delimited::Markdown),
            (false, BenchFormat::Csv) => OutputForm::Delimited(Delimited::Csv),
        }
    }

    /// The measurements of `--sequences`.
    fn together(&self) -> Vec<TogetherOptions> {
        let first = |counts: &[usize]| counts.first().copied().unwrap_or(0);
        let options = |sequences: &u32| {
            TogetherOptions::default()
                .with_sequences(*sequences as usize)
                .with_prompt(first(&self.prompt))
                .with_generate(first(&self.generate))
                .with_repetitions(self.repetitions as usize)
        };
        self.sequences.iter().map(options).collect()
    }

    fn measure(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        bar: &ProgressBar,
    ) -> Result<Vec<SpeedMeasurement>, Failure> {
        let of =
            |kind, counts: &[usize]| counts.iter().map(move |&tokens| (kind, tokens)).collect::<Vec<_>>();
        let wanted = [of("pp", &self.prompt), of("tg", &self.generate)].concat();
        let mut measured = Vec::new();
        for (kind, tokens) in wanted.into_iter().filter(|(_, tokens)| *tokens > 0) {
            let options = BenchOptions::default()
                .with_prompt(if kind == "pp" { tokens } else { 0 })
                .with_generate(if kind == "tg" { tokens } else { 0 })
                .with_depth(self.depth)
                .with_repetitions(self.repetitions as usize)
                .with_warm_up(true);
            let result = bench(pipeline, &options, &mut |stage| {
                bar.set_message(match stage {
                    BenchProgress::WarmUp => "warming up".to_owned(),
                    BenchProgress::Prompt(count) => format!("prompt of {tokens}: {count}"),
                    BenchProgress::Generate(count) => format!("generation of {tokens}: {count}"),
                    _ => "measuring".to_owned(),
                });
            })?;
            let rate = if kind == "pp" { result.prompt } else { result.generate };
            measured.extend(rate.map(|rate| SpeedMeasurement { kind, tokens, rate }));
        }
        Ok(measured)
    }

    fn report(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        cpu: &Cpu,
        measured: &[SpeedMeasurement],
        limits: &Limits,
    ) -> Result<Value, Failure> {
        let resolved = pipeline.resolved();
        let cost = cost(resolved);
        let device = pipeline.compute().backend.name();
        let share = |one: &SpeedMeasurement| {
            // The limits are the processor's.
            let cost = (device == "cpu").then_some(&cost)?;
            Some(match one.kind {
                "pp" => one.rate.median * cost.macs / limits.int8,
                _ => one.rate.median * cost.bytes / limits.read,
            })
        };
        let test = |one: &SpeedMeasurement| {
            json!({
                "test": format!("{}{}", one.kind, one.tokens), "kind": one.kind, "tokens": one.tokens,
                "tokens_per_second": one.rate, "share": share(one),
            })
        };
        let first = |kind: &str| measured.iter().find(|one| one.kind == kind);
        let tokens = |kind: &str| first(kind).map_or(0, |one| one.tokens);
        let mut report = json!({
            "model": self.model.model,
            "architecture": pipeline.architecture(),
            "version": crate::version::short(),
            "time": SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|time| time.as_secs()),
            "device": device,
            "threads": (device == "cpu").then(|| cpu.pool().threads()),
            "kernels": (device == "cpu").then(|| cpu.isa().name()),
            "arithmetic": self.model.arithmetic_name(),
            "device_options": device_options(pipeline.compute()),
            "kv_type": pipeline.kv_type().name(),
            "depth": self.depth,
            "adapters": adapters(pipeline),
            "tests": measured.iter().map(test).collect::<Vec<_>>(),
            "pp": tokens("pp"),
            "tg": tokens("tg"),
            "pp_tokens_per_second": first("pp").map(|one| &one.rate),
            "tg_tokens_per_second": first("tg").map(|one| &one.rate),
            "weight_bytes_per_token": cost.bytes,
            "macs_per_token": cost.macs,
            "probes": { "read_bytes_per_second": limits.read, "int8_macs_per_second": limits.int8 },
            "pp_share_of_int8_rate": first("pp").and_then(share),
            "tg_share_of_read_rate": first("tg").and_then(share),
        });
        let entries = stored(resolved);
        report["file_bytes"] = resolved.file.bytes().into();
        report["parameters"] = entries.iter().map(|t| t.dims.iter().product::<u64>()).sum::<u64>().into();
        report["type"] = largest_type(entries).into();
        if self.kernels {
            report["kernel_rates"] = kernel_rates::measure(cpu)?;
        }
        Ok(report)
    }
}

/// Names and weights of the adapters in use.
fn adapters(pipeline: &LoadedModel<TextPipeline>) -> Vec<Value> {
    let set = pipeline.engine().adapters.iter();
    let adapters = set.flat_map(|set| set.adapters());
    adapters.map(|(adapter, weight)| json!({ "name": adapter.name(), "weight": weight })).collect()
}

/// The tensors of the file, as they are stored.
fn stored(resolved: &ResolvedFile) -> &[TensorEntry] {
    resolved.tensors.entries().get(..resolved.tensors.file_tensors()).unwrap_or_default()
}

/// The type with the most bytes in the file.
fn largest_type(entries: &[TensorEntry]) -> String {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in entries {
        *bytes.entry(&tensor.kind).or_default() += tensor.bytes;
    }
    bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(kind, _)| kind.to_owned()).unwrap_or_default()
}

/// Passes of a probe; the best one counts, because other processes can only slow it down.
const PASSES: usize = 5;

/// The read rate over the largest mapped tensors, and the int8 rate.
fn probe(cpu: &Cpu, pipeline: &LoadedModel<TextPipeline>) -> Result<Limits, Failure> {
    let mut int8: f64 = 0.0;
    for _ in 0..PASSES {
        int8 = int8.max(int8_rate(cpu)?);
    }
    let resolved = pipeline.resolved();
    // Only tensors that a backend reads in place: decoding a float type would not measure the memory.
    let readable = |(_, tensor): &(usize, &TensorEntry)| GgmlType::from_name(&tensor.kind).is_some();
    let mut tensors: Vec<(usize, &TensorEntry)> =
        stored(resolved).iter().enumerate().filter(readable).collect();
    tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.bytes));
    let (mut read, mut enough) = (0.0, 0.0);
    let mut data = Vec::new();
    for (index, tensor) in tensors {
        if enough > 1e9 {
            break;
        }
        enough += tensor.bytes as f64;
        data.extend(resolved.tensors.weight(index));
    }
    // Each pass reads everything, so that the caches do not help; the first pass loads the pages.
    for pass in 0..=PASSES {
        let mut seconds = 0.0;
        for weight in &data {
            for index in 0..weight.shape().count {
                let bytes = weight.matrix(index)?;
                seconds += bytes.len() as f64 / read_rate(cpu, bytes)?;
            }
        }
        if pass > 0 {
            read = f64::max(read, enough / seconds);
        }
    }
    Ok(Limits { read, int8 })
}

/// The weights that one token reads: all matrices, but only the selected experts, and one row of an untied embedding.
fn cost(resolved: &ResolvedFile) -> Cost {
    let tensors = &resolved.tensors;
    let table = tensors.find("token_embd", None, TensorPart::Main);
    let own_head = tensors.find("output", None, TensorPart::Main).is_some();
    let used = resolved.config().layers.iter().find_map(|layer| {
        let moe = layer.feed_forward.as_ref()?.downcast_ref::<MoeConfig>()?;
        Some(moe.router.top_k as f64)
    });
    let mut cost = Cost { bytes: 0.0, macs: 0.0 };
    let mut parts: BTreeSet<usize> = BTreeSet::new();
    for index in tensors.file_tensors()..tensors.entries().len() {
        parts.extend(tensors.pieces(index).iter().map(|piece| piece.tensor));
    }
    let wanted = tensors.entries().iter().enumerate().filter(|(index, _)| !parts.contains(index));
    for (index, tensor) in wanted.filter(|(_, tensor)| tensor.dims.len() > 1) {
        if own_head && table == Some(index) {
            continue;
        }
        let experts = tensor.dims.get(2).map_or(1.0, |&experts| experts as f64);
        let share = if experts > 1.0 { used.unwrap_or(experts) / experts } else { 1.0 };
        cost.bytes += tensor.bytes as f64 * share;
        cost.macs += tensor.dims.iter().product::<u64>() as f64 * share;
    }
    cost
}

fn print(report: &Value) -> Result<(), Failure> {
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    let place = match report["threads"].as_u64() {
        Some(threads) => {
            format!("{}, {} kernels", output::counted(threads as usize, "thread"), text("kernels"))
        }
        None => format!("device {}", text("device")),
    };
    output::line(&format!(
        "{} ({}), {place}, {}, {} cache, depth {}",
        text("model"),
        text("architecture"),
        arithmetic(report),
        text("kv_type"),
        report["depth"]
    ))?;
    let row = |test: &Value| {
        let number = |key: &str| test["tokens_per_second"][key].as_f64().unwrap_or_default();
        let mean = mean(test);
        let what = if test["kind"] == "pp" { "of the int8 rate" } else { "of the read rate" };
        let share =
            test["share"].as_f64().map_or("-".to_owned(), |share| format!("{:.0} % {what}", 100.0 * share));
        vec![
            test["test"].as_str().unwrap_or_default().to_owned(),
            format!("{mean:.2} \u{b1} {:.2}", number("deviation")),
            format!("{:.2}", number("median")),
            format!("{:.2} .. {:.2}", number("min"), number("max")),
            share,
        ]
    };
    let rows: Vec<Vec<String>> = tests(report).iter().map(row).collect();
    output::table(&["test", "tokens/s", "median", "spread", "share"], &rows)?;
    let probe = |key: &str| report["probes"][key].as_f64().unwrap_or_default() / 1e9;
    output::line(&format!(
        "measured limits: read {:.1} GB/s, int8 {:.0} GMAC/s",
        probe("read_bytes_per_second"),
        probe("int8_macs_per_second")
    ))?;
    kernel_rates::print(&report["kernel_rates"])
}

/// The arithmetic in words: `exact arithmetic`, `fast arithmetic, half-prompts=bf16`.
fn arithmetic(report: &Value) -> String {
    let mut line = format!("{} arithmetic", report["arithmetic"].as_str().unwrap_or_default());
    for (name, value) in report["device_options"].as_object().into_iter().flatten() {
        line += &format!(", {name}={}", value.as_str().unwrap_or_default());
    }
    line
}

fn tests(report: &Value) -> &[Value] {
    report["tests"].as_array().map_or(&[], Vec::as_slice)
}

/// The mean of a measurement's samples.
fn mean(test: &Value) -> f64 {
    let samples: Vec<f64> = test["tokens_per_second"]["samples"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    mean_of(&samples)
}

/// A row per measurement.
fn delimited(report: &Value, how: Delimited) -> String {
    let heads = ["model", "size", "params", "type", "threads", "arithmetic", "kv", "test", "t/s", "stddev"];
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |test: &Value| {
        let deviation = test["tokens_per_second"]["deviation"].as_f64().unwrap_or_default();
        let mut cells: Vec<String> =
            ["model", "file_bytes", "parameters", "type", "threads"].map(|key| cell(&report[key])).to_vec();
        cells.extend([arithmetic(report), cell(&report["kv_type"])]);
        cells.extend([cell(&test["test"]), format!("{:.2}", mean(test)), format!("{deviation:.2}")]);
        cells
    };
    how.table(&heads, &tests(report).iter().map(row).collect::<Vec<_>>())
}
