//! `plugin check FILE`: every component of a plugin, tried.

use super::cases::Cases;
use super::hook_trial::hooked;
use super::trial::{Trial, trial};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::engine::sampling::Chain;
use menagerie::engine::{Sampler, SamplingOptions};
use menagerie::loaders::{CodecEntry, CodecToken, CodecVocabulary, TokenKind};
use menagerie::plugin_host::{LoadOptions, Plugin, PluginComponent, Watch, load, watch};
use menagerie::registry::Environment;
use menagerie_random::SplitMix64;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Load a plugin and try every component of it
///
/// What stands in specs is put into tiny random models of several shapes, with usual values, zeros and large ones, and run at
/// once, in chunks, token by token and beside other sequences, which must give the same; what a component leaves unwritten
/// is found. Layer hooks are run between the layers of such models; what only looks must leave the logits as they are. Samplers
/// and tokenizers are run on random logits and texts. The plugin's code runs.
#[derive(Args)]
pub(crate) struct CheckCommand {
    /// The plugin's file
    file: PathBuf,
    /// Give an option of a component, as a spec would write it (repeatable): author/name:component.OPTION=VALUE
    #[arg(long, value_name = "COMPONENT.OPTION=VALUE", value_parser = setting)]
    set: Vec<Setting>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A component, an option of it, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    component: String,
    option: String,
    value: String,
}

fn setting(text: &str) -> Result<Setting, String> {
    let parts = || {
        let (path, value) = text.split_once('=')?;
        // The plugin's id may have dots too.
        let (component, option) = path.rsplit_once('.')?;
        Some(Setting { component: component.to_owned(), option: option.to_owned(), value: value.to_owned() })
    };
    parts().ok_or_else(|| "expected COMPONENT.OPTION=VALUE, e.g. acme/retnet:retention.heads=4".to_owned())
}

/// What came of a component.
struct Outcome<'a> {
    component: &'a PluginComponent,
    trial: Trial,
    /// How it was tried, in words.
    how: String,
}

impl CheckCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        watch(Watch::EveryRow);
        let (environment, plugin) = load(installed, &self.file, LoadOptions::default())?;
        let mut outcomes = Vec::new();
        for component in &plugin.components {
            outcomes.push(self.tried(plugin, component, &environment)?);
        }
        let failed = outcomes.iter().filter(|outcome| !outcome.trial.faults.is_empty()).count();
        self.said(plugin, &outcomes)?;
        match failed {
            0 => Ok(()),
            _ if self.json => Err(Failure::Reported),
            failed => {
                Err(Failure::Failed(format!("{failed} of {}", output::counted(outcomes.len(), "component")))
                    .with_help("what is said of each above is where to look"))
            }
        }
    }

    fn tried<'a>(
        &self,
        plugin: &Plugin,
        component: &'a PluginComponent,
        environment: &Environment,
    ) -> Result<Outcome<'a>, Failure> {
        let of = self.set.iter().filter(|set| set.component == component.name);
        let given: BTreeMap<String, String> = of.map(|set| (set.option.clone(), set.value.clone())).collect();
        let (trial, how) = match component.family {
            "sampler" => {
                let cases = Cases::of(plugin, ROWS as usize);
                (
                    sampled(component, &given, cases, environment),
                    format!("{ROWS} rows of random logits, twice each"),
                )
            }
            "tokenizer" => {
                let cases = Cases::of(plugin, TEXTS as usize);
                (tokenized(component, &given, cases, environment), "random texts, there and back".to_owned())
            }
            "layer-hook" => {
                let trial = hooked((plugin, component), &given, environment)?;
                let how = in_models(&trial);
                (trial, how)
            }
            _ => {
                let kinds = environment.components().kinds()?;
                let families = menagerie::spec::kind::Family::ALL.into_iter();
                let found = families.filter_map(|family| kinds.find(family, component.name)).next();
                let Some(kind) = found else {
                    return Err(Failure::about(
                        component.name,
                        "is registered, but no kind has its name (a defect: please report it)",
                    ));
                };
                let trial = trial(plugin, kind, &given, environment)?;
                let how = in_models(&trial);
                (trial, how)
            }
        };
        Ok(Outcome { component, trial, how })
    }

    fn said(&self, plugin: &Plugin, outcomes: &[Outcome]) -> Result<(), Failure> {
        if self.json {
            let one = |outcome: &Outcome| {
                let Outcome { component, trial, how } = outcome;
                json!({
                    "name": component.name, "family": component.family, "passed": trial.faults.is_empty(),
                    "tried": how, "result": trial,
                })
            };
            let components: Vec<_> = outcomes.iter().map(one).collect();
            return output::json(&json!({ "plugin": plugin.inspected, "components": components }));
        }
        output::line(&format!("{} {}", plugin.inspected.id, plugin.inspected.version))?;
        for Outcome { component, trial, how } in outcomes {
            let word = if trial.faults.is_empty() { "good" } else { "FAILED" };
            output::line(&format!("{word:<7} {} {}: {how}", component.family, component.name))?;
            if !trial.options.is_empty() {
                let options: Vec<String> =
                    trial.options.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                output::line(&format!("        with {} (--set gives others)", options.join(", ")))?;
            }
            trial.faults.iter().try_for_each(|fault| output::line(&format!("        {fault}")))?;
        }
        Ok(())
    }
}

/// How a component was tried that stands in models.
fn in_models(trial: &Trial) -> String {
    let Trial { models, ways, difference, .. } = trial;
    if *models == 0 {
        return "no model with it ran".to_owned();
    }
    format!("{models} random models in {ways} ways each, equal to {difference:.1e} of the largest logit")
}

/// Rows that a sampler is tried on, and texts that a tokenizer is.
const ROWS: u32 = 500;
const TEXTS: u32 = 200;

/// A trial ends after so many cases that went wrong.
const MOST_FAULTS: usize = 4;

/// A sampler on random rows: a token comes out, and the same one for the same seed and position.
fn sampled(
    component: &PluginComponent,
    given: &BTreeMap<String, String>,
    mut cases: Cases<'_>,
    environment: &Environment,
) -> Trial {
    let mut trial = Trial { options: given.clone(), ..Trial::default() };
    let options: Vec<String> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let named = if options.is_empty() {
        component.name.to_owned()
    } else {
        format!("{}={}", component.name, options.join(","))
    };
    let sampler = match Sampler::parse(&named, environment.entries()) {
        Ok(sampler) => sampler,
        Err(fault) => {
            trial.faults.push(fault);
            return trial;
        }
    };
    let mut random = SplitMix64::new(1);
    let mut failed = 0;
    for turn in 0..ROWS {
        let size = [2, 10, 1000][turn as usize % 3];
        let mut logits: Vec<f32> = (0..size).map(|_| 10.0 * random.signed()).collect();
        if turn % 5 == 0 {
            logits[0] = f32::NEG_INFINITY;
        }
        let history: Vec<u32> = random.tokens(turn as usize % 40, size as usize);
        let draw = || {
            let options =
                SamplingOptions::default().with_samplers(vec![sampler.clone()]).with_seed(u64::from(turn));
            Chain::from_options(&options, Arc::default())
                .and_then(|mut chain| chain.sample(&logits, &history))
        };
        let result = match (draw(), draw()) {
            (Ok(one), Ok(other)) if one == other => Ok(()),
            (Ok(one), Ok(other)) => {
                Err(format!("token {one}, and {other} the second time, of the same seed and position"))
            }
            (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
        };
        trial.models += usize::from(result.is_ok());
        failed += usize::from(result.is_err());
        if cases.note(format!("row {turn}"), result).is_break() || failed > MOST_FAULTS {
            break;
        }
    }
    trial.faults = cases.faults();
    trial
}

/// A tokenizer over a vocabulary of letters and words: what is cut is put together again.
fn tokenized(
    component: &PluginComponent,
    given: &BTreeMap<String, String>,
    mut cases: Cases<'_>,
    environment: &Environment,
) -> Trial {
    let mut trial = Trial { options: given.clone(), ..Trial::default() };
    let words = ["the", "and", "ing", "tion", "er", "an", "he", "ou"];
    let letters = (' '..='~').filter(|letter| *letter != '\\').map(String::from);
    let texts: Vec<String> = letters.chain(words.map(str::to_owned)).collect();
    let token = |text: &String| CodecToken {
        text: text.clone(),
        kind: TokenKind::Normal,
        score: -(text.len() as f32),
    };
    let vocabulary = CodecVocabulary { tokens: texts.iter().map(token).collect(), merges: Vec::new() };
    let options: Vec<(String, String)> = given.clone().into_iter().collect();
    let found = environment.entries().get::<CodecEntry>(component.name);
    let codec = match found.map(|codec| codec.0.build(Arc::new(vocabulary), &options)) {
        Some(Ok(codec)) => codec,
        Some(Err(fault)) => {
            trial.faults.push(format!("it cannot use a vocabulary of ASCII letters and some words: {fault}"));
            return trial;
        }
        None => {
            trial.faults.push("it is registered, but no tokenizer has its name".to_owned());
            return trial;
        }
    };
    let mut random = SplitMix64::new(2);
    let mut failed = 0;
    for _ in 0..TEXTS {
        let text: String = (0..random.below(30)).map(|_| texts[random.below(texts.len())].as_str()).collect();
        let mut ids = Vec::new();
        let back = codec.encode(&text, &mut ids).and_then(|()| {
            let mut bytes = Vec::new();
            ids.iter().try_for_each(|id| codec.decode(*id, &mut bytes))?;
            Ok(bytes)
        });
        let result = match back {
            Ok(bytes) if bytes == text.as_bytes() => Ok(()),
            Ok(bytes) => Err(format!("came back as {:?}", String::from_utf8_lossy(&bytes))),
            Err(error) => Err(error),
        };
        trial.models += usize::from(result.is_ok());
        failed += usize::from(result.is_err());
        if cases.note(format!("{text:?}"), result).is_break() || failed > MOST_FAULTS {
            break;
        }
    }
    trial.faults = cases.faults();
    trial
}
