//! `train-gate RECIPE DATA`: trains the gates of a recipe's mixture on prompts that are labeled with an expert.

mod data;

use crate::arguments::model::ModelArguments;
use crate::arguments::opening::ModelOpening;
use crate::arguments::template::TemplateArguments;
use crate::commands::train_gate::data::GatePrompt;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file::{OutputFile, may_write};
use crate::screen::{progress, report};
use crate::{interrupt, output};
use clap::Args;
use indicatif::ProgressBar;
use menagerie::engine::{ChatMessage, TextPipeline};
use menagerie::measure::{
    GateExample, GateRows, GateScore, GateTrainer, GateTrainingOptions, gate_rows, gate_shares,
};
use menagerie::open::{ExpertOption, GateOption, MixtureOption, available_memory};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Train the gates of a recipe's [mixture] on prompts that are labeled with an expert
///
/// DATA is a list of prompts, each with the number of its expert: .json ({"rows": [{"prompt": .., "expert": 0}]}, the
/// format of mistral.rs, or only the list), .jsonl (one row per line) or .csv (columns prompt and expert). Expert 0 is the
/// feed-forward of the base model, expert 1 the first of [[mixture.experts]]. Only the gates are trained; a few dozen
/// prompts are enough. Prompts are rendered with the chat template as a user message, as in AnyMoE; --raw uses them as
/// plain text. The gates are written to the file that the recipe names.
#[derive(Args)]
pub(crate) struct TrainGateCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// The prompts: a .json, .jsonl or .csv file
    data: PathBuf,
    /// The file to write [default: the one that the recipe names]
    #[arg(short = 'o', long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Number of passes over all prompts
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Prompts per training step
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    /// Learning rate of Adam
    #[arg(long, hide_short_help = true, value_name = "X", default_value_t = 1e-3)]
    learning_rate: f64,
    /// Random seed for the order of the prompts; equal seeds produce equal gates
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 0)]
    gate_seed: u64,
    /// Use the prompts as plain text, without the chat template
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    template: TemplateArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of training.
struct TrainingResult {
    scores: Vec<GateScore>,
    /// By layer: share of rows that the trained mixture routes to the expert of their prompt.
    shares: BTreeMap<usize, f64>,
}

impl Runnable for TrainGateCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let opening = self.model.opening(installed)?;
        let Some(mixture) = opening.mixture() else {
            return Err(Failure::about(&self.model.model, "is not a recipe with a [mixture]")
                .with_help("`menagerie guide mixtures` shows how to write one"));
        };
        let out = match (&self.out, &mixture.gate) {
            (Some(out), _) | (None, GateOption::File(out)) => out.clone(),
            (None, GateOption::Always(_)) => {
                return Err(Failure::Usage("the output file is missing: give -o FILE".to_owned()));
            }
        };
        let mut inputs: Vec<&Path> = vec![opening.path(), &self.data];
        inputs.extend(mixture.experts.iter().map(|expert| match expert {
            ExpertOption::Model(path) | ExpertOption::Adapter { path, .. } => path.as_path(),
        }));
        may_write(&out, self.force, &inputs)?;
        let prompts = data::read(&self.data)?;
        self.check(&prompts, mixture)?;
        let silent = opening.clone().without_notices().with_template(&self.template)?;
        let cancel = interrupt::flag()?;
        let bar = progress::spinner("loading");
        let trained = self.train(&prompts, &silent, (&out, &inputs), (&bar, &cancel));
        bar.finish_and_clear();
        self.say(&prompts, mixture, &out, &trained?)
    }
}

impl TrainGateCommand {
    /// Checks that every prompt names an existing expert; notes experts without prompts.
    fn check(&self, prompts: &[GatePrompt], mixture: &MixtureOption) -> Result<(), Failure> {
        let names = mixture.names();
        if let Some(at) = prompts.iter().position(|row| row.expert >= names.len()) {
            let known: Vec<String> =
                names.iter().enumerate().map(|(at, name)| format!("{at} {name}")).collect();
            let reason = format!(
                "row {}: there is no expert {}; the recipe has {}",
                at + 1,
                prompts[at].expert,
                known.join("; ")
            );
            return Err(Failure::about(self.data.display(), reason));
        }
        for (expert, name) in names.iter().enumerate() {
            if !prompts.iter().any(|row| row.expert == expert) {
                report::note(&format!(
                    "no prompt has expert {expert} ({name}): the gates will learn to avoid it"
                ));
            }
        }
        Ok(())
    }

    fn train(
        &self,
        prompts: &[GatePrompt],
        opening: &ModelOpening,
        (out, inputs): (&Path, &[&Path]),
        (bar, cancel): (&ProgressBar, &AtomicBool),
    ) -> Result<TrainingResult, Failure> {
        let (examples, rows) = self.rows(prompts, opening, (bar, cancel))?;
        let options = GateTrainingOptions::default()
            .with_epochs(self.epochs as usize)
            .with_batch(self.batch_size as usize)
            .with_learning_rate(self.learning_rate)
            .with_seed(self.gate_seed);
        let tokens: usize = examples.iter().map(|example| example.tokens.len()).sum();
        let values = rows.iter().filter_map(|row| row.layers.values().next()).map(Vec::len).sum::<usize>();
        let width = values / tokens.max(1);
        let experts = opening.mixture().map_or(1, |mixture| mixture.experts.len() + 1);
        let mut trainer = GateTrainer::new(&rows, [experts, width], options)?;
        let threads = self.model.load_options().placement.threads;
        let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
        for epoch in 1..=self.epochs {
            bar.set_message(format!("training gates: epoch {epoch} of {}", self.epochs));
            trainer.epoch(threads.unwrap_or(1), Some(cancel));
            if cancel.load(Ordering::SeqCst) {
                return Err(Failure::Interrupted);
            }
        }
        let mut file = OutputFile::create(out, self.force, inputs)?;
        file.write_all(&trainer.gates().to_bytes()).map_err(|error| Failure::about(out.display(), error))?;
        file.commit()?;
        bar.set_message("running the mixture with the trained gates");
        let pipeline = opening.clone().with_gate(GateOption::File(out.to_owned())).open_text()?;
        let shares = gate_shares(&pipeline, &examples.iter().collect::<Vec<_>>(), Some(cancel))?;
        Ok(TrainingResult { scores: trainer.scores(&rows), shares })
    }

    /// The prompts as tokens, and the gates' inputs for each; the model is opened once for each expert.
    fn rows(
        &self,
        prompts: &[GatePrompt],
        opening: &ModelOpening,
        (bar, cancel): (&ProgressBar, &AtomicBool),
    ) -> Result<(Vec<GateExample>, Vec<GateRows>), Failure> {
        let mut experts: Vec<usize> = prompts.iter().map(|row| row.expert).collect();
        experts.sort_unstable();
        experts.dedup();
        let mut examples: Vec<GateExample> = Vec::new();
        let mut rows: Vec<Option<GateRows>> = prompts.iter().map(|_| None).collect();
        let mut done = 0;
        for expert in experts {
            let pipeline = opening.clone().with_gate(GateOption::Always(expert)).open_text()?;
            if examples.is_empty() {
                pipeline.notices().iter().for_each(|notice| report::note(&notice.to_string()));
                examples = self.examples(&pipeline, prompts)?;
                expect_room(&pipeline, &examples)?;
            }
            let own: Vec<(usize, &GateExample)> =
                examples.iter().enumerate().filter(|(_, example)| example.expert == expert).collect();
            let only: Vec<&GateExample> = own.iter().map(|(_, example)| *example).collect();
            let made = gate_rows(&pipeline, &only, Some(cancel), &mut || {
                done += 1;
                bar.set_message(format!("running prompt {done} of {}", prompts.len()));
            })?;
            own.iter().zip(made).for_each(|((at, _), made)| rows[*at] = Some(made));
        }
        Ok((examples, rows.into_iter().flatten().collect()))
    }

    /// Prompts as tokens.
    fn examples(&self, pipeline: &TextPipeline, prompts: &[GatePrompt]) -> Result<Vec<GateExample>, Failure> {
        let render = self.template.render_options()?;
        let tokens = |prompt: &str| -> Result<Vec<u32>, Failure> {
            if self.raw {
                return Ok(pipeline.tokenizer()?.encode_prompt(prompt)?);
            }
            let format = pipeline.chat_format().map_err(|missing| {
                Failure::from(missing)
                    .with_help("--raw uses the prompts as plain text, without a chat template")
            })?;
            Ok(format.render_prompt(&[ChatMessage::user(prompt)], &render)?.tokens)
        };
        let example = |row: &GatePrompt| Ok(GateExample { tokens: tokens(&row.prompt)?, expert: row.expert });
        prompts.iter().map(example).collect()
    }

    fn say(
        &self,
        prompts: &[GatePrompt],
        mixture: &MixtureOption,
        out: &Path,
        trained: &TrainingResult,
    ) -> Result<(), Failure> {
        let share = |layer: usize| trained.shares.get(&layer).copied();
        if self.json {
            let count = |expert: usize| prompts.iter().filter(|row| row.expert == expert).count();
            let experts = mixture.names().into_iter().enumerate();
            let experts = experts.map(|(at, name)| json!({ "expert": name, "prompts": count(at) }));
            let layer = |score: &GateScore| {
                json!({
                    "layer": score.layer, "loss": score.loss, "accuracy": score.accuracy,
                    "as_run": share(score.layer),
                })
            };
            return output::json(&json!({
                "gate": out.display().to_string(), "prompts": prompts.len(), "experts": experts.collect::<Vec<_>>(),
                "epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate,
                "seed": self.gate_seed, "layers": trained.scores.iter().map(layer).collect::<Vec<_>>(),
            }));
        }
        let row = |score: &GateScore| {
            vec![
                score.layer.to_string(),
                format!("{:.4}", score.loss),
                format!("{:.1} %", 100.0 * score.accuracy),
                share(score.layer).map(|share| format!("{:.1} %", 100.0 * share)).unwrap_or_default(),
            ]
        };
        let rows: Vec<Vec<String>> = trained.scores.iter().map(row).collect();
        output::table(&["layer", "loss", "prompt accuracy", "routing accuracy"], &rows)?;
        output::line(&format!("{}: gates of {}", out.display(), output::counted(rows.len(), "layer")))
    }
}

/// Checks that the gates' inputs for all prompts fit into memory.
fn expect_room(pipeline: &TextPipeline, examples: &[GateExample]) -> Result<(), Failure> {
    let shape = pipeline.engine().model.shape();
    let tokens: usize = examples.iter().map(|example| example.tokens.len()).sum();
    let bytes = 4 * (tokens as u64) * (shape.embedding_length as u64) * (shape.n_layers as u64);
    match available_memory() {
        Some(free) if bytes > free => Err(Failure::Failed(format!(
            "the training data of {tokens} tokens requires up to {}, but only {} are free",
            output::bytes(bytes),
            output::bytes(free)
        ))
        .with_help("use fewer or shorter prompts")),
        _ => Ok(()),
    }
}
