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

/// Create a control vector from two lists of prompts, in the same way as llama.cpp's cvector-generator
///
/// Each line of the two files is a prompt; the lines with the same number form a pair that differs in the trait that the
/// vector represents ("Act as if you were happy." and "Act as if you were sad."). \n, \t and \\ in a line stand for a line
/// break, a tab and a backslash; empty lines are skipped. The model runs all prompts, and the differences between its
/// residual streams define one direction of length 1 per layer.
#[derive(Args)]
pub(crate) struct MakeCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// File of prompts for the positive direction, one per line
    #[arg(long, value_name = "FILE")]
    positive: PathBuf,
    /// File of prompts for the negative direction, one per line
    #[arg(long, value_name = "FILE")]
    negative: PathBuf,
    /// The file to write
    #[arg(short = 'o', long, value_name = "FILE")]
    out: PathBuf,
    /// How a direction is computed: pca = the first principal component of the differences; mean = their mean
    #[arg(long, value_enum, value_name = "METHOD", default_value = "pca")]
    method: MethodArgument,
    /// Render each prompt with the model's chat template, as a user message
    #[arg(long)]
    chat: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// How a direction is computed.
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
                "{one} has {} prompts, but {other} has {}: the prompts must form pairs, line by line",
                positive.len(),
                negative.len()
            )));
        }
        let opening = self.model.opening(installed)?;
        let inputs = [opening.path(), &self.positive, &self.negative];
        output_file::may_write(&self.out, self.force, &inputs)?;
        if output_file::is_device(&self.out) {
            return Err(Failure::about(self.out.display(), "is not a regular file; name another one"));
        }
        let pipeline = opening.open_text()?;
        let pairs = positive.iter().zip(&negative).map(|(positive, negative)| {
            Ok(PromptPair {
                positive: self.tokens(&pipeline, positive)?,
                negative: self.tokens(&pipeline, negative)?,
            })
        });
        let pairs = pairs.collect::<Result<Vec<PromptPair>, Failure>>()?;
        // llama.cpp pads the shorter prompt of a pair with this token.
        let padding = pipeline.tokenizer()?.encode(" ")?.last().copied();
        let padding = padding
            .ok_or_else(|| Failure::about(&self.model.model, "the vocabulary has no token for a space"))?;
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
            "{}: {directions} of width {} from {pairs} of prompts",
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
        return Err(Failure::about(file.display(), "the file has no prompts; expected one per line"));
    }
    Ok(lines)
}

/// Replaces `\n`, `\t` and `\\`; any other backslash stays.
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
