//! [`ReferenceFile`]: tokens, and the values that another implementation computed for them.

use crate::failure::Failure;
use crate::reference::layer_values::PLACES;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file of named tensors.
pub(crate) struct ReferenceFile {
    path: PathBuf,
    tensors: BTreeMap<String, ReferenceTensor>,
}

struct ReferenceTensor {
    kind: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// Tokens, and the rows of them that the reference has.
pub(crate) struct ReferencePair {
    /// Name of the logits; `None` if the reference has layer values only.
    pub(crate) logits: Option<String>,
    /// The part after `tokens` in the name of the tokens.
    suffix: String,
    /// All tokens of the model's input.
    pub(crate) tokens: Vec<u32>,
    /// The index of the first token that is decoded one at a time; 0 = none.
    pub(crate) decode_from: usize,
    /// The indices of the tokens whose rows the reference has.
    pub(crate) rows: Vec<usize>,
}

impl ReferenceFile {
    /// Reads a file.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let about = |reason: String| Failure::about(path.display(), reason);
        let bytes = std::fs::read(path).map_err(|error| about(error.to_string()))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| {
            let found = match bytes.get(..4) {
                Some(b"GGUF") => "it is a GGUF file".to_owned(),
                _ => error.to_string(),
            };
            about(format!("not a safetensors file ({found})")).with_help(
                "a reference is a .safetensors file with `tokens_NAME` and `logits_NAME` from another implementation; \
                 `scripts/make-reference` writes one",
            )
        })?;
        let tensor = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
            let kept = ReferenceTensor {
                kind: view.dtype(),
                shape: view.shape().to_vec(),
                bytes: view.data().to_vec(),
            };
            (name, kept)
        };
        Ok(Self { path: path.to_owned(), tensors: file.tensors().into_iter().map(tensor).collect() })
    }

    /// The pairs that can be compared, and the names of other tensors with the reason why they cannot.
    pub(crate) fn pairs(&self) -> (Vec<ReferencePair>, Vec<(String, String)>) {
        let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
        for name in self.tensors.keys() {
            let input = ["tokens", "positions"].iter().any(|input| name.starts_with(input));
            if input || self.place(name).is_some() {
                continue;
            }
            match self.pair(name) {
                Ok(pair) => pairs.push(pair),
                Err(why) => left_out.push((name.clone(), why)),
            }
        }
        for suffix in self.tensors.keys().filter_map(|name| name.strip_prefix("tokens")) {
            let known = self.tensors.contains_key(&format!("logits{suffix}"));
            if known || !self.tensors.keys().any(|name| self.is_of(name, suffix)) {
                continue;
            }
            match self.layers_alone(suffix) {
                Ok(pair) => pairs.push(pair),
                Err(why) => left_out.push((format!("tokens{suffix}"), why)),
            }
        }
        (pairs, left_out)
    }

    /// Whether a name belongs to layer values of these tokens.
    fn is_of(&self, name: &str, suffix: &str) -> bool {
        self.place(name).is_some_and(|(.., own)| own == suffix)
    }

    /// Tokens with layer values but no logits, as `--capture` writes them.
    fn layers_alone(&self, suffix: &str) -> Result<ReferencePair, String> {
        let tokens = self.ids(&format!("tokens{suffix}"))?;
        let rows = self.positions(suffix, tokens.len())?.unwrap_or_else(|| (0..tokens.len()).collect());
        Ok(ReferencePair { logits: None, suffix: suffix.to_owned(), tokens, decode_from: 0, rows })
    }

    /// The indices of the tokens to which the rows belong, if the file states them.
    fn positions(&self, suffix: &str, tokens: usize) -> Result<Option<Vec<usize>>, String> {
        let name = format!("positions{suffix}");
        if !self.tensors.contains_key(&name) {
            return Ok(None);
        }
        let positions: Vec<usize> = self.ids(&name)?.into_iter().map(|position| position as usize).collect();
        match positions.iter().find(|position| **position >= tokens) {
            Some(far) => Err(format!("{name} has token {far}, but there are only {tokens} tokens")),
            None => Ok(Some(positions)),
        }
    }

    /// The pair of a tensor of logits.
    ///
    /// # Errors
    /// It has the wrong shape, or its tokens are missing.
    fn pair(&self, name: &str) -> Result<ReferencePair, String> {
        let suffix = name.strip_prefix("logits").ok_or("its name does not begin with `logits`")?;
        let logits = &self.tensors[name];
        if logits.kind != Dtype::F32 || logits.shape.len() != 2 {
            return Err(format!("it is {:?} {:?}; expected f32 [T, V]", logits.kind, logits.shape));
        }
        let rows = logits.shape[0];
        let tokens = self.ids(&format!("tokens{suffix}"))?;
        let pair = |tokens, decode_from, rows| {
            Ok(ReferencePair {
                logits: Some(name.to_owned()),
                suffix: suffix.to_owned(),
                tokens,
                decode_from,
                rows,
            })
        };
        if let Some(before) = suffix.strip_suffix("_greedy") {
            return self.continued(before, tokens, rows).and_then(|(all, start)| {
                let last = (start - 1)..(start - 1 + rows);
                pair(all, start, last.collect())
            });
        }
        if let Some(positions) = self.positions(suffix, tokens.len())? {
            if positions.len() != rows {
                return Err(format!(
                    "it has {rows} rows, but positions{suffix} has {} positions",
                    positions.len()
                ));
            }
            return pair(tokens, 0, positions);
        }
        if rows != tokens.len() {
            let count = tokens.len();
            return Err(format!(
                "it has {rows} rows for {count} tokens, but there is no positions{suffix} with their positions"
            ));
        }
        pair(tokens, 0, (0..rows).collect())
    }

    /// A prompt and the tokens that were sampled after it; token `i` was sampled from row `i`.
    fn continued(&self, before: &str, picked: Vec<u32>, rows: usize) -> Result<(Vec<u32>, usize), String> {
        let prompts = [format!("tokens{before}"), "tokens_prompt".to_owned(), "tokens".to_owned()];
        let prompts = if before.is_empty() { &prompts[1..] } else { &prompts[..1] };
        let prompt = prompts.iter().find(|name| self.tensors.contains_key(*name));
        let prompt =
            prompt.ok_or_else(|| format!("{}, which it continues, is missing", prompts.join(" or ")))?;
        let mut tokens = self.ids(prompt)?;
        if picked.len() != rows || tokens.is_empty() {
            return Err(format!("it has {rows} rows for {} tokens", picked.len()));
        }
        let start = tokens.len();
        // The last token was sampled, but was not an input.
        tokens.extend(&picked[..rows.saturating_sub(1)]);
        Ok((tokens, start))
    }

    /// The layer values of a pair: their names, the index of the checkpoint, the layer.
    pub(crate) fn layers(&self, pair: &ReferencePair) -> Vec<(String, usize, usize)> {
        let named = |name: &String| {
            let (place, layer, suffix) = self.place(name)?;
            (pair.decode_from == 0 && suffix == pair.suffix).then(|| (name.clone(), place, layer))
        };
        self.tensors.keys().filter_map(named).collect()
    }

    /// `l_out-3_prompt` is checkpoint 2 of layer 3 of the pair `_prompt`.
    fn place<'n>(&self, name: &'n str) -> Option<(usize, usize, &'n str)> {
        let (place, rest) = name.split_once('-')?;
        let place = PLACES.iter().position(|known| known.name() == place)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((place, rest[..digits].parse().ok()?, &rest[digits..]))
    }

    /// Token ids or positions.
    fn ids(&self, name: &str) -> Result<Vec<u32>, String> {
        let tensor = self.tensors.get(name).ok_or_else(|| format!("{name} is missing"))?;
        if tensor.kind != Dtype::I64 {
            return Err(format!("{name} is {:?}; expected i64", tensor.kind));
        }
        let id = |bytes: &[u8; 8]| {
            let id = i64::from_le_bytes(*bytes);
            u32::try_from(id).map_err(|_| format!("{name}: {id} is neither a token id nor a position"))
        };
        tensor.bytes.as_chunks::<8>().0.iter().map(id).collect()
    }

    /// The values of an f32 tensor.
    pub(crate) fn values(&self, name: &str) -> Result<Vec<f32>, Failure> {
        let tensor = self.tensors.get(name).filter(|tensor| tensor.kind == Dtype::F32);
        let tensor =
            tensor.ok_or_else(|| Failure::about(self.path.display(), format!("{name} is not f32")))?;
        Ok(tensor.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}
