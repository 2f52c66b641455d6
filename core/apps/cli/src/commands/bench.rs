//! `bench MODEL`: speed of the prompt and of the generation, and how much of the machine that is.

use crate::commands::kernel_rates;
use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::{interrupt, output, progress};
use clap::Args;
use menagerie::gguf::{GgufFile, TensorInfo};
use menagerie::kernels::{Cpu, probe_int8_rate, probe_read_rate};
use menagerie::pipeline::{BenchOptions, BenchProgress, BenchResult, Rate, TextPipeline};
use menagerie::spec::config::{FeedForwardConfig, ModelConfig};
use serde_json::{Value, json};

/// Measure prompt (pp) and generation (tg) speed, comparable with llama-bench
///
/// Beside tokens per second: the share of the limits probed in this process with the same threads, the read rate over
/// the mapped weights for generation and the int8 rate for the prompt. Median of the repetitions, with spread.
#[derive(Args)]
pub(crate) struct BenchCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// Tokens of the prompt; 0 = not measured
    #[arg(short = 'p', long, default_value_t = 512)]
    prompt: usize,
    /// Tokens generated; 0 = not measured
    #[arg(short = 'n', long, default_value_t = 128)]
    generate: usize,
    /// Repetitions
    #[arg(short = 'r', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Tokens in the cache before each measurement
    #[arg(short = 'd', long, default_value_t = 0)]
    depth: usize,
    /// Also measure the kernels alone: GB/s and GMAC/s per type
    #[arg(long)]
    kernels: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What one token costs in this file.
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

impl BenchCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let mut model = self.model.clone();
        model.at_least(self.depth + self.prompt.max(self.generate));
        let pipeline = model.open()?;
        let options = BenchOptions {
            prompt: self.prompt,
            generate: self.generate,
            depth: self.depth,
            repetitions: self.repetitions as usize,
            warm_up: true,
            cancel: Some(cancel),
        };
        let cpu = pipeline.compute().cpu.clone();
        let bar = progress::spinner("probing");
        let limits = probe(&cpu, &pipeline)?;
        let result = pipeline.bench(&options, &mut |stage| {
            bar.set_message(match stage {
                BenchProgress::WarmUp => "warming up".to_owned(),
                BenchProgress::Prompt(count) => format!("prompt {count}"),
                BenchProgress::Generate(count) => format!("generation {count}"),
            });
        });
        bar.finish_and_clear();
        let report = self.report(&pipeline, &cpu, &result?, &limits)?;
        if self.json { output::json(&report) } else { print(&report) }
    }

    fn report(
        &self,
        pipeline: &TextPipeline,
        cpu: &Cpu,
        result: &BenchResult,
        limits: &Limits,
    ) -> Result<Value, Failure> {
        let cost = pipeline.file().zip(pipeline.config()).map(|(file, config)| cost(file, config));
        let share = |rate: &Option<Rate>, each: Option<f64>, limit: f64| {
            rate.as_ref().zip(each).map(|(rate, each)| rate.median * each / limit)
        };
        let mut report = json!({
            "model": self.model.model,
            "architecture": pipeline.architecture(),
            "threads": cpu.pool().threads(),
            "kernels": cpu.isa().name(),
            "kv_type": format!("{:?}", pipeline.kv_type()).to_lowercase(),
            "depth": self.depth,
            "pp": self.prompt,
            "tg": self.generate,
            "pp_tokens_per_second": result.prompt,
            "tg_tokens_per_second": result.generate,
            "weight_bytes_per_token": cost.as_ref().map(|cost| cost.bytes),
            "macs_per_token": cost.as_ref().map(|cost| cost.macs),
            "probes": { "read_bytes_per_second": limits.read, "int8_macs_per_second": limits.int8 },
            "pp_share_of_int8_rate": share(&result.prompt, cost.as_ref().map(|cost| cost.macs), limits.int8),
            "tg_share_of_read_rate": share(&result.generate, cost.as_ref().map(|cost| cost.bytes), limits.read),
        });
        if self.kernels {
            report["kernel_rates"] = kernel_rates::measure(cpu)?;
        }
        Ok(report)
    }
}

/// Passes of a probe: the best one counts, as other processes only ever slow it down.
const PASSES: usize = 5;

/// The read rate over the largest mapped tensors, and the int8 rate.
fn probe(cpu: &Cpu, pipeline: &TextPipeline) -> Result<Limits, Failure> {
    let mut int8: f64 = 0.0;
    for _ in 0..PASSES {
        int8 = int8.max(probe_int8_rate(cpu)?);
    }
    let Some(file) = pipeline.file() else { return Ok(Limits { read: f64::NAN, int8 }) };
    let mut tensors: Vec<&TensorInfo> = file.tensors().iter().collect();
    tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.bytes()));
    let (mut read, mut enough) = (0.0, 0.0);
    let mut data = Vec::new();
    for tensor in tensors {
        if enough > 1e9 {
            break;
        }
        enough += tensor.bytes() as f64;
        data.push(file.data(tensor)?);
    }
    // Each pass reads everything, so that nothing is left in the caches; the first one brings pages in.
    for pass in 0..=PASSES {
        let mut seconds = 0.0;
        for bytes in &data {
            seconds += bytes.len() as f64 / probe_read_rate(cpu, bytes)?;
        }
        if pass > 0 {
            read = f64::max(read, enough / seconds);
        }
    }
    Ok(Limits { read, int8 })
}

/// Weights that one token touches: all matrices, of experts the chosen ones, of an untied embedding only a row.
fn cost(file: &GgufFile, config: &ModelConfig) -> Cost {
    let own_head = file.tensor("output.weight").is_some();
    let used = config.layers.iter().find_map(|layer| match &layer.feed_forward {
        FeedForwardConfig::Moe(moe) => Some(moe.router.top_k as f64),
        _ => None,
    });
    let mut cost = Cost { bytes: 0.0, macs: 0.0 };
    for tensor in file.tensors().iter().filter(|tensor| tensor.dims().len() > 1) {
        if own_head && tensor.name() == "token_embd.weight" {
            continue;
        }
        let experts = tensor.dims().get(2).map_or(1.0, |&experts| experts as f64);
        let share = if experts > 1.0 { used.unwrap_or(experts) / experts } else { 1.0 };
        cost.bytes += tensor.bytes() as f64 * share;
        cost.macs += tensor.elements() as f64 * share;
    }
    cost
}

fn print(report: &Value) -> Result<(), Failure> {
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    output::line(&format!(
        "{} ({}), {} threads, {} kernels, {} cache, depth {}",
        text("model"),
        text("architecture"),
        report["threads"],
        text("kernels"),
        text("kv_type"),
        report["depth"]
    ))?;
    let mut rows = Vec::new();
    for (name, share, what) in [
        ("pp", "pp_share_of_int8_rate", "of the int8 rate"),
        ("tg", "tg_share_of_read_rate", "of the read rate"),
    ] {
        let rate = &report[format!("{name}_tokens_per_second")];
        if rate.is_null() {
            continue;
        }
        let number = |key: &str| rate[key].as_f64().unwrap_or_default();
        let share =
            report[share].as_f64().map_or("-".to_owned(), |share| format!("{:.0} % {what}", 100.0 * share));
        rows.push(vec![
            format!("{name}{}", report[name]),
            format!("{:.2}", number("median")),
            format!("{:.2} .. {:.2}", number("min"), number("max")),
            share,
        ]);
    }
    output::table(&["test", "tokens/s", "spread", "share"], &rows)?;
    let probe = |key: &str| report["probes"][key].as_f64().unwrap_or_default() / 1e9;
    output::line(&format!(
        "limits probed here: read {:.1} GB/s, int8 {:.0} GMAC/s",
        probe("read_bytes_per_second"),
        probe("int8_macs_per_second")
    ))?;
    kernel_rates::print(&report["kernel_rates"])
}
