//! Arguments of every command that generates.

use crate::failure::Failure;
use clap::Args;
use menagerie::pipeline::{Request, SamplingOptions};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How tokens are chosen and when generation stops. Defaults: the file's where it has them, else llama.cpp's.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sampling (0 or 1 switches a part off, as in llama.cpp)")]
pub(crate) struct SamplingArguments {
    /// Tokens to generate at most [default: until the model ends or the context is full]
    #[arg(short = 'n', long = "max-tokens", value_name = "TOKENS", help_heading = "Generation")]
    max_tokens: Option<usize>,
    /// Stop at this text (repeatable)
    #[arg(long, value_name = "TEXT", help_heading = "Generation")]
    stop: Vec<String>,
    /// Go on after end-of-generation tokens
    #[arg(long, help_heading = "Generation")]
    ignore_eos: bool,
    /// Print the log probability of each token and of K alternatives, as JSON lines on standard error
    #[arg(long, value_name = "K", num_args = 0..=1, default_missing_value = "0", help_heading = "Generation")]
    logprobs: Option<usize>,
    /// Seed; the same seed gives the same text [default: a new one, printed with --verbose]
    #[arg(long)]
    seed: Option<u64>,
    /// Temperature; 0 takes the most likely token
    #[arg(long, visible_alias = "temperature", value_name = "T")]
    temp: Option<f32>,
    /// Keep the K most likely tokens; 0 = all
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Keep the most likely tokens that together reach P
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Keep tokens at least P times as likely as the most likely one
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Keep the locally typical tokens that together reach P
    #[arg(long, visible_alias = "typical", value_name = "P")]
    typical_p: Option<f32>,
    /// Penalty on tokens of the last --repeat-last-n; 1 = none
    #[arg(long, value_name = "X")]
    repeat_penalty: Option<f32>,
    /// Tokens the penalties look back; -1 = the whole context
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    repeat_last_n: Option<i64>,
    /// Subtracted from the logit of tokens that occurred
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    presence_penalty: Option<f32>,
    /// Subtracted from the logit of tokens, times how often they occurred
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    frequency_penalty: Option<f32>,
    /// Strength of the DRY penalty on repeated sequences; 0 = none
    #[arg(long, value_name = "X")]
    dry_multiplier: Option<f32>,
    /// Base of the DRY penalty
    #[arg(long, value_name = "X")]
    dry_base: Option<f32>,
    /// Repeats up to this length are free
    #[arg(long, value_name = "N")]
    dry_allowed_length: Option<usize>,
    /// Tokens DRY looks back; -1 = the whole context
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    dry_last_n: Option<i64>,
    /// Text at which DRY sequences end (repeatable) [default: newline : " *]
    #[arg(long, value_name = "TEXT")]
    dry_breaker: Vec<String>,
    /// Chance of XTC to remove the most likely tokens
    #[arg(long, value_name = "P")]
    xtc_probability: Option<f32>,
    /// Tokens at least this likely may be removed by XTC
    #[arg(long, value_name = "P")]
    xtc_threshold: Option<f32>,
    /// Add BIAS to the logit of token ID (repeatable)
    #[arg(long, value_name = "ID=BIAS", value_parser = parse_bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
}

fn parse_bias(text: &str) -> Result<(u32, f32), String> {
    let (id, bias) = text.split_once('=').ok_or("expected ID=BIAS, e.g. 15=-1.5")?;
    let id = id.parse().map_err(|_| format!("`{id}` is not a token id"))?;
    let bias: f32 = bias.parse().map_err(|_| format!("`{bias}` is not a number"))?;
    if bias.is_nan() { Err("the bias is not a number".to_owned()) } else { Ok((id, bias)) }
}

fn set<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

impl SamplingArguments {
    /// The request these arguments stand for, over the model's own defaults.
    pub(crate) fn request(
        &self,
        defaults: SamplingOptions,
        cancel: Arc<AtomicBool>,
    ) -> Result<Request, Failure> {
        let mut sampling = defaults;
        set(&mut sampling.temperature, self.temp);
        set(&mut sampling.top_k, self.top_k);
        set(&mut sampling.top_p, self.top_p);
        set(&mut sampling.min_p, self.min_p);
        set(&mut sampling.typical_p, self.typical_p);
        set(&mut sampling.repeat_penalty, self.repeat_penalty);
        set(&mut sampling.repeat_last_n, self.repeat_last_n);
        set(&mut sampling.presence_penalty, self.presence_penalty);
        set(&mut sampling.frequency_penalty, self.frequency_penalty);
        set(&mut sampling.dry_multiplier, self.dry_multiplier);
        set(&mut sampling.dry_base, self.dry_base);
        set(&mut sampling.dry_allowed_length, self.dry_allowed_length);
        set(&mut sampling.dry_last_n, self.dry_last_n);
        set(&mut sampling.xtc_probability, self.xtc_probability);
        set(&mut sampling.xtc_threshold, self.xtc_threshold);
        sampling.logit_bias.extend(&self.logit_bias);
        if !self.dry_breaker.is_empty() {
            sampling.dry_breakers.clone_from(&self.dry_breaker);
        }
        if self.seed.is_some() {
            sampling.seed = self.seed;
        }
        sampling.check().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Request {
            sampling,
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
            logprobs: self.logprobs,
            cancel: Some(cancel),
        })
    }
}
