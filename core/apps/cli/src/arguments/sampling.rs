//! Arguments of the commands that generate text.

use crate::failure::Failure;
use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser};
use menagerie::engine::{Request, Sampler, SamplingOptions};
use menagerie::registry::Environment;
use menagerie_entries::{nearest, nearest_clause};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A seed; `-1` requests a random one, as in llama.cpp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(Option<u64>);

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-1" {
            return Ok(Self(None));
        }
        text.parse().map(|seed| Self(Some(seed))).map_err(|_| "expected -1 or a number from 0".to_owned())
    }
}

/// How tokens are sampled and when generation stops. Defaults: from the model file if it has them, else llama.cpp's.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sampling (0 or 1 disables a sampler, as in llama.cpp)")]
pub(crate) struct SamplingArguments {
    /// Maximum number of tokens to generate [default: -1, until the model stops or the context is full]
    #[arg(short = 'n', long = "max-tokens", value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(-1..), help_heading = "Generation")]
    max_tokens: Option<i64>,
    /// Stop at this text (repeatable)
    #[arg(long, hide_short_help = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), help_heading = "Generation")]
    stop: Vec<String>,
    /// Stop at this token (repeatable)
    #[arg(long, hide_short_help = true, value_name = "ID", help_heading = "Generation")]
    stop_token: Vec<u32>,
    /// Generate at least this many tokens: before, the answer does not end, and does not stop at texts
    #[arg(long, hide_short_help = true, value_name = "TOKENS", help_heading = "Generation")]
    min_tokens: Option<usize>,
    /// Continue after end-of-generation tokens
    #[arg(long, hide_short_help = true, help_heading = "Generation")]
    ignore_eos: bool,
    /// Report the log probability of each token and of K alternatives: with --json in the result, on a terminal as a table
    /// after the answer, otherwise as JSON lines on standard error
    #[arg(long, hide_short_help = true, value_name = "K", num_args = 0..=1, default_missing_value = "0", help_heading = "Generation")]
    logprobs: Option<usize>,
    /// Random seed [default: -1, a new seed each time; --verbose prints it]
    ///
    /// The same seed with the same model, options and prompt produces the same text on every machine, whatever is
    /// cached
    #[arg(long)]
    seed: Option<Seed>,
    /// Temperature; 0 takes the most likely token
    #[arg(long, visible_alias = "temperature", value_name = "T")]
    temp: Option<f32>,
    /// Keep the K most likely tokens; 0 = all
    #[arg(long, hide_short_help = true, value_name = "K")]
    top_k: Option<usize>,
    /// Keep the most likely tokens whose probabilities add up to P
    #[arg(long, hide_short_help = true, value_name = "P")]
    top_p: Option<f32>,
    /// Keep tokens at least P times as likely as the most likely one
    #[arg(long, hide_short_help = true, value_name = "P")]
    min_p: Option<f32>,
    /// Keep the locally typical tokens whose probabilities add up to P
    #[arg(long, hide_short_help = true, visible_alias = "typical", value_name = "P")]
    typical_p: Option<f32>,
    /// Penalty on tokens that occur in the last --repeat-last-n tokens; 1 = none
    #[arg(long, hide_short_help = true, value_name = "X")]
    repeat_penalty: Option<f32>,
    /// Number of last tokens that the penalties consider; -1 = the whole context
    #[arg(long, hide_short_help = true, value_name = "N", allow_hyphen_values = true)]
    repeat_last_n: Option<i64>,
    /// Subtracted from the logits of tokens that occurred
    #[arg(long, hide_short_help = true, value_name = "X", allow_hyphen_values = true)]
    presence_penalty: Option<f32>,
    /// Subtracted from the logits of tokens once per occurrence
    #[arg(long, hide_short_help = true, value_name = "X", allow_hyphen_values = true)]
    frequency_penalty: Option<f32>,
    /// Strength of the DRY penalty on repeated sequences; 0 = none
    #[arg(long, hide_short_help = true, value_name = "X")]
    dry_multiplier: Option<f32>,
    /// Base of the DRY penalty
    #[arg(long, hide_short_help = true, value_name = "X")]
    dry_base: Option<f32>,
    /// Repetitions up to this length are not penalized
    #[arg(long, hide_short_help = true, value_name = "N")]
    dry_allowed_length: Option<usize>,
    /// Number of last tokens that DRY considers; -1 = the whole context
    #[arg(long, hide_short_help = true, value_name = "N", allow_hyphen_values = true)]
    dry_last_n: Option<i64>,
    /// Text that ends a repeated sequence for DRY (repeatable) [default: newline : " *]
    #[arg(long, hide_short_help = true, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    dry_breaker: Vec<String>,
    /// Probability that XTC removes the most likely tokens
    #[arg(long, hide_short_help = true, value_name = "P")]
    xtc_probability: Option<f32>,
    /// XTC may remove tokens that are at least this likely
    #[arg(long, hide_short_help = true, value_name = "P")]
    xtc_threshold: Option<f32>,
    /// Add BIAS to the logit of token ID (repeatable)
    #[arg(long, hide_short_help = true, value_name = "ID=BIAS", value_parser = parse_bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    /// Run a plugin's sampler before the samplers that remove tokens (repeatable): author/name:sampler, with options
    /// =KEY=VALUE,KEY=VALUE
    #[arg(long, hide_short_help = true, value_name = "NAME[=KEY=VALUE,..]")]
    sampler: Vec<String>,
}

impl SamplingArguments {
    /// The names of plugins' samplers.
    #[cfg(feature = "serve")]
    pub(crate) fn sampler_names(&self) -> impl Iterator<Item = String> + '_ {
        self.sampler.iter().map(|sampler| sampler.split('=').next().unwrap_or_default().to_owned())
    }
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

/// A parser for one option at a time, for `/set`.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct SetParser {
    #[command(flatten)]
    sampling: SamplingArguments,
}

impl SamplingArguments {
    /// The names that [`Self::set`] accepts.
    pub(crate) fn names() -> Vec<String> {
        let command = SetParser::command();
        let names = command.get_arguments().filter_map(|argument| argument.get_long());
        names.map(str::to_owned).collect()
    }

    /// Changes one option; name and value are as on the command line.
    ///
    /// # Errors
    /// The name or the value is invalid; the error is one line.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name == "ignore-eos" {
            self.ignore_eos = value.parse().map_err(|_| "expected true or false".to_owned())?;
            return Ok(());
        }
        // clap sets flags that are not named back to false.
        let ignore_eos = self.ignore_eos;
        let name = if name == "n" { "max-tokens" } else { name };
        let mut settings = SetParser { sampling: self.clone() };
        settings.try_update_from([format!("--{name}={value}")]).map_err(|error| match error.kind() {
            ErrorKind::UnknownArgument => unknown(name),
            _ => {
                let text = error.render().to_string();
                let first = text.lines().next().unwrap_or_default();
                let reason = first.rsplit_once(": ").map_or("", |(_, reason)| reason);
                let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                format!("`{value}` is not a valid value of {name}{reason}")
            }
        })?;
        *self = settings.sampling;
        self.ignore_eos = ignore_eos;
        Ok(())
    }

    /// Refuses unknown samplers and unknown options of samplers, before anything is opened.
    pub(crate) fn check(&self, installed: &Environment) -> Result<(), Failure> {
        let parse = |sampler: &String| Sampler::parse(sampler, installed.entries()).map(drop);
        self.sampler.iter().try_for_each(parse).map_err(Failure::Usage)
    }

    /// The request that these arguments describe, with the model's defaults for the rest.
    pub(crate) fn request(
        &self,
        defaults: SamplingOptions,
        installed: &Environment,
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
        for sampler in &self.sampler {
            sampling.samplers.push(Sampler::parse(sampler, installed.entries()).map_err(Failure::Usage)?);
        }
        if !self.dry_breaker.is_empty() {
            sampling.dry_breakers.clone_from(&self.dry_breaker);
        }
        if let Some(Seed(seed)) = self.seed {
            sampling.seed = seed;
        }
        sampling.check().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Request::default()
            .with_adapters(menagerie::engine::AdapterChoice::AsOpened)
            .with_sampling(sampling)
            .with_max_tokens(self.max_tokens.and_then(|count| usize::try_from(count).ok()))
            .with_stop(self.stop.clone())
            .with_stop_tokens(self.stop_token.clone())
            .with_min_tokens(self.min_tokens.unwrap_or(0))
            .with_ignore_eos(self.ignore_eos)
            .with_logprobs(self.logprobs)
            .with_cancel(cancel))
    }
}

/// The error for an unknown option, with the nearest name.
fn unknown(name: &str) -> String {
    let names = SamplingArguments::names();
    let near = nearest_clause(nearest(name, names.iter().map(String::as_str)));
    format!("no option {name} can be set{near}")
}

/// The sampling options in one line, for `--verbose` and `/show`.
pub(crate) fn sampling_line(options: &SamplingOptions) -> String {
    let mut parts = vec![
        format!("temp {}", options.temperature),
        format!("top-k {}", options.top_k),
        format!("top-p {}", options.top_p),
        format!("min-p {}", options.min_p),
    ];
    let mut add = |name: &str, value: f32, off: f32| {
        if value != off {
            parts.push(format!("{name} {value}"));
        }
    };
    add("typical-p", options.typical_p, 1.0);
    add("repeat-penalty", options.repeat_penalty, 1.0);
    add("presence-penalty", options.presence_penalty, 0.0);
    add("frequency-penalty", options.frequency_penalty, 0.0);
    add("dry-multiplier", options.dry_multiplier, 0.0);
    add("xtc-probability", options.xtc_probability, 0.0);
    if !options.logit_bias.is_empty() {
        parts.push(format!("{} logit biases", options.logit_bias.len()));
    }
    parts.extend(options.samplers.iter().map(|sampler| format!("sampler {}", sampler.name())));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_option_is_changed_and_the_others_stay() {
        let start = ["--temp", "0.5", "--ignore-eos", "--stop", "x"];
        let mut sampling = SetParser::try_parse_from(start).unwrap().sampling;
        sampling.set("top-k", "7").unwrap();
        sampling.set("seed", "-1").unwrap();
        let request = sampling
            .request(SamplingOptions::default(), &Environment::linked().unwrap(), Arc::default())
            .unwrap();
        assert_eq!((request.sampling.temperature, request.sampling.top_k), (0.5, 7));
        assert_eq!(
            (request.ignore_eos, request.stop, request.sampling.seed),
            (true, vec!["x".to_owned()], None)
        );
        assert!(sampling.set("top-k", "many").unwrap_err().contains("many"));
        assert!(sampling.set("tpo-k", "1").unwrap_err().contains("the nearest is `top-k`"));
        assert_eq!(sampling.set("tmp", "1").unwrap_err(), "no option tmp can be set; the nearest is `temp`");
        assert_eq!(sampling.set("raw", "true").unwrap_err(), "no option raw can be set");
    }
}
