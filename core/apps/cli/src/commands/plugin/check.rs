//! `plugin check FILE`: tests every component of a plugin.

use super::cases::TestCases;
use super::hook_trial::hooked;
use super::trial::{Trial, trial};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::engine::Chain;
use menagerie::engine::{Sampler, SamplingOptions};
use menagerie::loaders::{CodecEntry, CodecToken, CodecVocabulary, TokenKind};
use menagerie::plugin_host::{LoadedPlugin, OutputCheck, PluginComponent, PluginLoadOptions, load, watch};
use menagerie::registry::Environment;
use menagerie_random::SplitMix64;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Load a plugin and test each of its components
///
/// Components of models are tested in tiny random models of several shapes, with usual, zero and large values. Each model
/// is run in one step, in chunks, token by token and in a batch with other sequences, which must all produce the same
/// logits; output that a component does not write is detected. Layer hooks run between the layers of such models; hooks
/// that only read must not change the logits. Samplers and tokenizers are tested with random logits and texts. This command
/// runs the plugin's code.
#[derive(Args)]
pub(crate) struct PluginCheckCommand {
    /// The plugin's file
    file: PathBuf,
    /// Set an option of a component, written as in a spec (repeatable): author/name:component.OPTION=VALUE
    #[arg(long, value_name = "COMPONENT.OPTION=VALUE", value_parser = setting)]
    set: Vec<ComponentOption>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A component, one of its options, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ComponentOption {
    component: String,
    option: String,
    value: String,
}

fn setting(text: &str) -> Result<ComponentOption, String> {
    let parts = || {
        let (path, value) = text.split_once('=')?;
        // The plugin's id may have dots too.
        let (component, option) = path.rsplit_once('.')?;
        Some(ComponentOption {
            component: component.to_owned(),
            option: option.to_owned(),
            value: value.to_owned(),
        })
    };
    parts().ok_or_else(|| "expected COMPONENT.OPTION=VALUE, e.g. acme/retnet:retention.heads=4".to_owned())
}

/// The result of testing a component.
struct ComponentResult<'a> {
    component: &'a PluginComponent,
    trial: Trial,
    /// A description of the test.
    how: String,
}

impl PluginCheckCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        watch(OutputCheck::EveryRow);
        let (environment, plugin) = load(installed, &self.file, PluginLoadOptions::default())?;
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
                let all = output::counted(outcomes.len(), "component");
                Err(Failure::Failed(format!("{failed} of {all} failed"))
                    .with_help("the errors are listed with each component above"))
            }
        }
    }

    fn tried<'a>(
        &self,
        plugin: &LoadedPlugin,
        component: &'a PluginComponent,
        environment: &Environment,
    ) -> Result<ComponentResult<'a>, Failure> {
        let of = self.set.iter().filter(|set| set.component == component.name);
        let given: BTreeMap<String, String> = of.map(|set| (set.option.clone(), set.value.clone())).collect();
        let (trial, how) = match component.family {
            "sampler" => {
                let cases = TestCases::of(plugin, ROWS as usize);
                (
                    sampled(component, &given, cases, environment),
                    format!("{ROWS} rows of random logits, twice each"),
                )
            }
            "tokenizer" => {
                let cases = TestCases::of(plugin, TEXTS as usize);
                (
                    tokenized(component, &given, cases, environment),
                    "random texts, encoded and decoded".to_owned(),
                )
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
                        "is registered, but there is no kind with its name (this is a bug, please report it)",
                    ));
                };
                let trial = trial(plugin, kind, &given, environment)?;
                let how = in_models(&trial);
                (trial, how)
            }
        };
        Ok(ComponentResult { component, trial, how })
    }

    fn said(&self, plugin: &LoadedPlugin, outcomes: &[ComponentResult]) -> Result<(), Failure> {
        if self.json {
            let one = |outcome: &ComponentResult| {
                let ComponentResult { component, trial, how } = outcome;
                json!({
                    "name": component.name, "family": component.family, "passed": trial.faults.is_empty(),
                    "tried": how, "result": trial,
                })
            };
            let components: Vec<_> = outcomes.iter().map(one).collect();
            return output::json(&json!({ "plugin": plugin.inspected, "components": components }));
        }
        output::line(&format!("{} {}", plugin.inspected.id, plugin.inspected.version))?;
        for ComponentResult { component, trial, how } in outcomes {
            let word = if trial.faults.is_empty() { "ok" } else { "FAILED" };
            output::line(&format!("{word:<7} {} {}: {how}", component.family, component.name))?;
            if !trial.options.is_empty() {
                let options: Vec<String> =
                    trial.options.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                output::line(&format!("        with {} (--set changes them)", options.join(", ")))?;
            }
            trial.faults.iter().try_for_each(|fault| output::line(&format!("        {fault}")))?;
        }
        Ok(())
    }
}

/// The description of a test in models.
fn in_models(trial: &Trial) -> String {
    let Trial { models, ways, difference, .. } = trial;
    if *models == 0 {
        return "no model with it could be run".to_owned();
    }
    format!("{models} random models, {ways} runs each, equal within {difference:.1e} of the largest logit")
}

/// Number of rows for testing a sampler, and of texts for testing a tokenizer.
const ROWS: u32 = 500;
const TEXTS: u32 = 200;

/// A test ends after this number of failed cases.
const MOST_FAULTS: usize = 4;

/// Tests a sampler on random rows: it must return a token, the same one for the same seed and position.
fn sampled(
    component: &PluginComponent,
    given: &BTreeMap<String, String>,
    mut cases: TestCases<'_>,
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
            Chain::from_options(&options).and_then(|mut chain| chain.sample(&logits, &history))
        };
        let result = match (draw(), draw()) {
            (Ok(one), Ok(other)) if one == other => Ok(()),
            (Ok(one), Ok(other)) => Err(format!(
                "token {one}, but token {other} the second time, with the same seed and position"
            )),
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

/// Tests a tokenizer with a vocabulary of letters and words: decoding must return the encoded text.
fn tokenized(
    component: &PluginComponent,
    given: &BTreeMap<String, String>,
    mut cases: TestCases<'_>,
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
            trial.faults.push("it is registered, but there is no tokenizer with its name".to_owned());
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
            Ok(bytes) => Err(format!("decoded as {:?}", String::from_utf8_lossy(&bytes))),
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
