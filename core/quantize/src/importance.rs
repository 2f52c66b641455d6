//! [`Importance`]: the mean squares of the activations that each column of a weight is multiplied with, as in llama.cpp's
//! `imatrix`.

use crate::error::QuantizeError;
use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions, OwnedArray, OwnedValue, TensorInfo};
use std::collections::BTreeMap;
use std::path::Path;

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";
const DATASETS: &str = "imatrix.datasets";
const CHUNKS: &str = "imatrix.chunk_count";
const CHUNK: &str = "imatrix.chunk_size";

/// The squares of the inputs of one weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSquares {
    /// Sums of the squares of the activations, `[matrices, columns]`.
    pub sums: Vec<f32>,
    /// The number of input rows of each matrix, `[matrices]`.
    pub counts: Vec<u64>,
}

/// The squares of activations by tensor, in the file format of llama.cpp's `llama-imatrix`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance {
    /// The squares by name of the tensor in a GGUF file.
    pub entries: BTreeMap<String, InputSquares>,
    /// The texts that it was measured with.
    pub datasets: Vec<String>,
    /// Number of chunks of text.
    pub chunks: u32,
    /// Tokens in a chunk.
    pub chunk_tokens: u32,
}

fn fault(path: &Path, problem: impl std::fmt::Display) -> QuantizeError {
    QuantizeError::ImportanceFile { file: path.display().to_string(), problem: problem.to_string() }
}

impl Importance {
    /// Reads a file.
    ///
    /// # Errors
    /// [`QuantizeError::ImportanceFile`]: it cannot be read, or is not an importance matrix.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, QuantizeError> {
        let path = path.as_ref();
        let file = GgufFile::open(path, &OpenOptions::default());
        let file = file.map_err(|error| QuantizeError::ImportanceFile {
            file: path.display().to_string(),
            problem: format!(
                "{error} (the older format, `.dat`, is not supported; convert the file to GGUF)"
            ),
        })?;
        let keys = file.metadata();
        let number =
            |key: &str| keys.get(key).and_then(|value| value.as_u64()).and_then(|n| u32::try_from(n).ok());
        let (Some(chunks), Some(chunk_tokens)) = (number(CHUNKS), number(CHUNK)) else {
            return Err(fault(
                path,
                "not an importance matrix: it has no number of chunks; measure one with `menagerie imatrix`",
            ));
        };
        let datasets = keys.get(DATASETS).and_then(|value| value.as_array());
        let datasets =
            datasets.and_then(|list| Some(list.strings()?.map(str::to_owned).collect())).unwrap_or_default();
        let mut entries = BTreeMap::new();
        for tensor in file.tensors() {
            let Some(name) = tensor.name().strip_suffix(SUMS) else { continue };
            let counts = file.tensor(&format!("{name}{COUNTS}"));
            let counts = counts
                .ok_or_else(|| fault(path, format!("{name} has sums but no counts; measure it again")))?;
            let entry = InputSquares {
                sums: floats(&file, tensor, path)?,
                counts: floats(&file, counts, path)?.iter().map(|count| count.round() as u64).collect(),
            };
            if entry.counts.is_empty() || !entry.sums.len().is_multiple_of(entry.counts.len()) {
                let (sums, counts) = (entry.sums.len(), entry.counts.len());
                return Err(fault(
                    path,
                    format!(
                        "expected sums of equal length for the {counts} matrices of {name}, found {sums} sums; measure \
                         it again"
                    ),
                ));
            }
            entries.insert(name.to_owned(), entry);
        }
        if entries.is_empty() {
            return Err(fault(
                path,
                "not an importance matrix: no tensor ends in .in_sum2; measure one with `menagerie imatrix`",
            ));
        }
        Ok(Self { entries, datasets, chunks, chunk_tokens })
    }

    /// Writes a file. It appears when it is complete.
    ///
    /// # Errors
    /// [`QuantizeError::File`]: an error of the system.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), QuantizeError> {
        let path = path.as_ref();
        let mut writer = GgufWriter::new();
        writer.metadata("general.type", "imatrix")?;
        writer.metadata(DATASETS, OwnedValue::Array(OwnedArray::strings(&self.datasets)))?;
        writer.metadata(CHUNKS, self.chunks)?;
        writer.metadata(CHUNK, self.chunk_tokens)?;
        for (name, InputSquares { sums, counts }) in &self.entries {
            let matrices = counts.len() as u64;
            let cols = (sums.len() as u64).checked_div(matrices).unwrap_or(0);
            let sums = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            let counts = counts.iter().flat_map(|count| (*count as f32).to_le_bytes()).collect();
            writer.tensor(&format!("{name}{SUMS}"), &[cols, matrices], GgmlType::F32, sums)?;
            writer.tensor(&format!("{name}{COUNTS}"), &[1, matrices], GgmlType::F32, counts)?;
        }
        Ok(writer.write(path)?)
    }

    /// The error for importance without any tensor of the model; `file` is the file that it is from.
    pub fn of_other_model(&self, file: &str) -> QuantizeError {
        let problem =
            "the model has none of its tensors; it was measured with another model: measure it again"
                .to_owned();
        QuantizeError::ImportanceFile { file: file.to_owned(), problem }
    }

    /// The mean squares `[count * cols]` for a weight `[count, rows, cols]`, with 1 for matrices without input. `None`
    /// if the weight was not measured.
    ///
    /// # Errors
    /// [`QuantizeError::ImportanceShape`]: it was measured for a weight of another shape.
    pub fn of(&self, name: &str, count: usize, cols: usize) -> Result<Option<Vec<f32>>, QuantizeError> {
        let Some(InputSquares { sums, counts }) = self.entries.get(name) else { return Ok(None) };
        let wrong = || QuantizeError::ImportanceShape {
            tensor: name.to_owned(),
            found: sums.len(),
            expected: count.saturating_mul(cols),
        };
        if sums.len() != count * cols || !(counts.len() == count || counts.len() == 1) {
            return Err(wrong());
        }
        let width = sums.len() / counts.len();
        let mean = |(at, sum): (usize, &f32)| match counts[at / width.max(1)] {
            0 => 1.0,
            met => sum / met as f32,
        };
        Ok(Some(sums.iter().enumerate().map(mean).collect()))
    }
}

fn floats(file: &GgufFile, tensor: &TensorInfo, path: &Path) -> Result<Vec<f32>, QuantizeError> {
    if tensor.kind() != GgmlType::F32 {
        return Err(fault(path, format!("tensor {}: expected F32, found {}", tensor.name(), tensor.kind())));
    }
    let bytes = file.data(tensor)?;
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
    match values.iter().position(|value| !(value.is_finite() && *value >= 0.0)) {
        Some(at) => Err(fault(
            path,
            format!(
                "value {at} of {} is {}, expected a finite number of at least 0; measure it again",
                tensor.name(),
                values[at]
            ),
        )),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Importance {
        let dense = InputSquares { sums: vec![4.0, 8.0, 2.0], counts: vec![4] };
        let experts = InputSquares { sums: vec![6.0, 3.0, 5.0, 5.0], counts: vec![3, 0] };
        let entries =
            [("blk.0.attn_q.weight".to_owned(), dense), ("blk.0.ffn_up_exps.weight".to_owned(), experts)];
        Importance {
            entries: entries.into(),
            datasets: vec!["a.txt".to_owned()],
            chunks: 2,
            chunk_tokens: 512,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("i.gguf");
        measured().write(&path).unwrap();
        assert_eq!(Importance::open(&path).unwrap(), measured());
        GgufWriter::new().write(&path).unwrap();
        let error = Importance::open(&path).unwrap_err().to_string();
        assert!(error.contains("i.gguf") && error.contains("not an importance matrix"), "{error}");
        std::fs::write(&path, [1, 0, 0, 0, 4]).unwrap();
        let error = Importance::open(&path).unwrap_err().to_string();
        assert!(error.contains(".dat"), "{error}");
    }

    #[test]
    fn means_are_those_of_each_matrix_and_one_where_nothing_was_met() {
        let of = |name: &str, count, cols| measured().of(name, count, cols);
        assert_eq!(of("blk.0.attn_q.weight", 1, 3).unwrap(), Some(vec![1.0, 2.0, 0.5]));
        assert_eq!(of("blk.0.ffn_up_exps.weight", 2, 2).unwrap(), Some(vec![2.0, 1.0, 1.0, 1.0]));
        assert_eq!(of("token_embd.weight", 1, 3).unwrap(), None);
        let error = of("blk.0.attn_q.weight", 1, 4).unwrap_err().to_string();
        assert!(
            error.contains("blk.0.attn_q.weight") && error.contains('3') && error.contains('4'),
            "{error}"
        );
    }
}
