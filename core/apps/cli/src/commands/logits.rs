//! `logits MODEL`: raw logits into a safetensors file.

use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::output;
use clap::Args;
use menagerie::pipeline::{LogitsOptions, TextPipeline};
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Write the logits of every position to a safetensors file: `tokens` i64 [T], `logits` f32 [T, V]
#[derive(Args)]
pub(crate) struct LogitsCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// Token ids, separated by commas; nothing is added
    #[arg(long, value_name = "IDS", value_delimiter = ',', required_unless_present = "prompt")]
    tokens: Vec<u32>,
    /// Text instead of ids; BOS and EOS as the file says
    #[arg(long, value_name = "TEXT", conflicts_with = "tokens")]
    prompt: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Feed tokens from this index on one at a time through the cache
    #[arg(long, value_name = "INDEX")]
    decode_from: Option<usize>,
}

impl LogitsCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let pipeline = self.model.open()?;
        let tokens = self.token_ids(&pipeline)?;
        let options =
            LogitsOptions { chunk: Some(self.model.load_options().chunk), decode_from: self.decode_from };
        let logits = pipeline.logits(&tokens, &options)?;
        let ids: Vec<u8> = tokens.iter().flat_map(|&id| i64::from(id).to_le_bytes()).collect();
        let values: Vec<u8> = logits.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut tensors = BTreeMap::new();
        tensors.insert("tokens", TensorView::new(Dtype::I64, vec![tokens.len()], &ids)?);
        tensors
            .insert("logits", TensorView::new(Dtype::F32, vec![tokens.len(), logits.vocabulary], &values)?);
        let bytes = safetensors::serialize(tensors, None)?;
        std::fs::write(&self.out, bytes).map_err(|error| Failure::about(self.out.display(), error))?;
        output::line(&format!("{}: logits [{}, {}]", self.out.display(), tokens.len(), logits.vocabulary))
    }

    fn token_ids(&self, pipeline: &TextPipeline) -> Result<Vec<u32>, Failure> {
        match &self.prompt {
            Some(prompt) => Ok(pipeline.tokenizer()?.encode_prompt(prompt)?),
            None => Ok(self.tokens.clone()),
        }
    }
}
