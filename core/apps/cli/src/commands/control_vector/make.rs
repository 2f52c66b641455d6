//! `control-vector make MODEL --positive FILE --negative FILE -o FILE`.

use crate::arguments::model::ModelArguments;
use crate::failure::Failure;
use crate::output::output_file;
use crate::screen::progress;
use crate::{interrupt, output, prompt};
use clap::{Args, ValueEnum};
use menagerie::engine::{ChatMessage, RenderOptions, TextPipeline};
use menagerie::measure::{DirectionMethod, PromptPair, make_control_vector};
use menagerie::registry::Environment;
use std::path::{Path, PathBuf};

/// Make a control vector from two lists of prompts, as llama.cpp's cvector-generator makes it
///
/// Each line of the two files is a prompt, and line by line they are pairs that differ in what the vector is to be about
/// ("Act as if you were happy." and "Act as if you were sad."). \n, \t and \\ in a line stand for a line break, a tab and a
/// backslash; empty lines are left out. The model computes all of them, and the differences of its streams give one
/// direction per layer, of length 1.
#[derive(Args)]
pub(crate) struct MakeCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// Prompts that the vector leads to, one a line
    #[arg(long, value_name = "FILE")]
    positive: PathBuf,
    /// Prompts that it leads away from, one a line
    #[arg(long, value_name = "FILE")]
    negative: PathBuf,
    /// The file to write
    #[arg(short = 'o', long, value_name = "FILE")]
    out: PathBuf,
    /// How a direction is found: pca, in which the differences are largest; mean, their mean
    #[arg(long, value_enum, value_name = "METHOD", default_value = "pca")]
    method: MethodArgument,
    /// Put each prompt into the model's chat template, as a message of the user
    #[arg(long)]
    chat: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// How a direction is found.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MethodArgument {
    Pca,
    Mean,
}

impl MakeCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        let (positive, negative) = (lines(&self.positive)?, lines(&self.negative)?);
        if positive.len() != negative.len() {
            let (one, other) = (self.positive.display(), self.negative.display());
            return Err(Failure::Usage(format!(
                "{one} has {} prompts and {other} {}: they are pairs, line by line",
                positive.len(),
                negative.len()
            )));
        }
        let model = self.model.locate(installed)?;
        let inputs = [model.as_path(), &self.positive, &self.negative];
        output_file::may_write(&self.out, self.force, &inputs)?;
        if output_file::is_device(&self.out) {
            return Err(Failure::about(self.out.display(), "is not a file; name one to write"));
        }
        let pipeline = self.model.open(installed)?;
        let pairs = positive.iter().zip(&negative).map(|(positive, negative)| {
            Ok(PromptPair {
                positive: self.tokens(&pipeline, positive)?,
                negative: self.tokens(&pipeline, negative)?,
            })
        });
        let pairs = pairs.collect::<Result<Vec<PromptPair>, Failure>>()?;
        // As llama.cpp fills the shorter prompt of a pair up.
        let padding = pipeline.tokenizer()?.encode(" ")?.last().copied();
        let padding =
            padding.ok_or_else(|| Failure::about(&self.model.model, "a blank has no token in it"))?;
        let method = match self.method {
            MethodArgument::Pca => DirectionMethod::Pca,
            MethodArgument::Mean => DirectionMethod::Mean,
        };
        let cancel = interrupt::flag()?;
        let layers = pipeline.engine().model.shape().n_layers.saturating_sub(1);
        let bar = progress::steps((pairs.len() + layers) as u64);
        let made =
            make_control_vector(&pipeline, &pairs, (padding, method), Some(&cancel), &mut || bar.inc(1));
        bar.finish_and_clear();
        let vector = made?;
        output_file::may_write(&self.out, self.force, &inputs)?;
        vector.write(&self.out)?;
        let directions = output::counted(vector.directions.len(), "direction");
        let pairs = output::counted(pairs.len(), "pair");
        output::line(&format!(
            "{}: {directions} of {} from {pairs} of prompts",
            self.out.display(),
            vector.width()
        ))
    }

    fn tokens(&self, pipeline: &TextPipeline, text: &str) -> Result<Vec<u32>, Failure> {
        if self.chat {
            let messages = [ChatMessage::user(text)];
            return Ok(pipeline.chat_format()?.render_prompt(&messages, &RenderOptions::default())?.tokens);
        }
        Ok(pipeline.tokenizer()?.encode_prompt(text)?)
    }
}

/// The prompts of a file.
fn lines(file: &Path) -> Result<Vec<String>, Failure> {
    let text = prompt::read_file(file)?;
    let lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(unescaped).collect();
    if lines.is_empty() {
        return Err(Failure::about(file.display(), "there is no prompt in it; one a line is wanted"));
    }
    Ok(lines)
}

/// `\n`, `\t` and `\\` as what they stand for; any other backslash as it is.
fn unescaped(line: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(line.len()), line.chars().peekable());
    while let Some(one) = rest.next() {
        let meant = match (one, rest.peek()) {
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('\\')) => Some('\\'),
            _ => None,
        };
        if meant.is_some() {
            rest.next();
        }
        out.push(meant.unwrap_or(one));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_a_line_are_what_they_stand_for() {
        assert_eq!(unescaped(r"a\nb\tc\\nd\e\"), "a\nb\tc\\nd\\e\\");
    }
}
