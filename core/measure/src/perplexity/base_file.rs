//! [`BaseWriter`] and [`BaseReader`]: log-probabilities of a text under a base model, in the file format of llama.cpp's
//! `--kl-divergence-base` (tools/perplexity/perplexity.cpp).
//!
//! The file begins with `_logits_`, then as 32-bit numbers the context, the size of the vocabulary, the number of
//! chunks, and the tokens of all chunks. Every scored row follows with two f32 (scale and smallest log-probability) and
//! 16 bits for each token of the vocabulary, padded to an even number. Log-probabilities more than 16 below the best
//! one are stored as the smallest.

use menagerie_engine::GenerateError;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"_logits_";
/// Bytes of the head before the tokens.
const HEAD: u64 = 20;
/// Log-probabilities further below the best one than this are equal.
const SPAN: f32 = 16.0;
/// The most tokens of a file, over all chunks: with a vocabulary of 32,000 their rows need half a terabyte.
const MOST_TOKENS: u64 = 1 << 24;
/// Log-probabilities of a base file up to this value do not count in a divergence (llama.cpp's rule).
pub(crate) const LEAST: f32 = -16.0;

/// Bytes of a stored row.
fn row_bytes(vocabulary: usize) -> usize {
    2 * (2 * vocabulary.div_ceil(2) + 4)
}

fn fault(text: String) -> GenerateError {
    GenerateError::Options(text)
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseText {
    /// Tokens of a chunk.
    pub context: usize,
    /// Columns of the logits.
    pub vocabulary: usize,
    /// The tokens of all chunks, without the beginning token of a model.
    pub tokens: Vec<u32>,
}

/// Writes a base file row by row.
pub struct BaseWriter<W> {
    sink: W,
    vocabulary: usize,
}

impl<W: Write> BaseWriter<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// Sizes that need more than 32 bits; an error of the sink.
    pub fn begin(mut sink: W, text: &BaseText) -> Result<Self, GenerateError> {
        let BaseText { context, vocabulary, tokens } = text;
        let small = |what: &str, value: usize| {
            u32::try_from(value).map_err(|_| fault(format!("{value} {what} are too many for a base file")))
        };
        let chunks = tokens.len() / (*context).max(1);
        let mut head = MAGIC.to_vec();
        let sizes = [
            small("tokens of a chunk", *context)?,
            small("tokens of the vocabulary", *vocabulary)?,
            small("chunks", chunks)?,
        ];
        for number in sizes.iter().chain(tokens.get(..chunks * context).unwrap_or_default()) {
            head.extend(number.to_le_bytes());
        }
        sink.write_all(&head).map_err(cannot_write)?;
        Ok(Self { sink, vocabulary: *vocabulary })
    }

    /// Writes rows made by [`encode_row`], one after the other.
    ///
    /// # Errors
    /// Rows of another width; an error of the sink.
    pub fn rows(&mut self, rows: &[u8]) -> Result<(), GenerateError> {
        if !rows.len().is_multiple_of(row_bytes(self.vocabulary)) {
            return Err(fault(format!("rows of a base file have {} bytes each", row_bytes(self.vocabulary))));
        }
        self.sink.write_all(rows).map_err(cannot_write)
    }

    /// Flushes the sink.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn flush(&mut self) -> Result<(), GenerateError> {
        self.sink.flush().map_err(cannot_write)
    }
}

fn cannot_write(error: std::io::Error) -> GenerateError {
    fault(format!("the base file cannot be written: {error}"))
}

/// A row of log-probabilities as it is stored in a base file.
pub fn encode_row(log_probabilities: &[f32]) -> Vec<u8> {
    let most = log_probabilities.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let least = log_probabilities.iter().copied().fold(f32::INFINITY, f32::min).max(most - SPAN);
    let scale = (most - least) / 65535.0;
    let mut bytes = Vec::with_capacity(row_bytes(log_probabilities.len()));
    bytes.extend(scale.to_le_bytes());
    bytes.extend(least.to_le_bytes());
    for value in log_probabilities {
        let steps = if *value > least { ((value - least) / scale).round_ties_even() as u16 } else { 0 };
        bytes.extend(steps.to_le_bytes());
    }
    bytes.resize(row_bytes(log_probabilities.len()), 0);
    bytes
}

/// Reads a base file row by row.
pub struct BaseReader {
    name: String,
    source: BufReader<File>,
    context: usize,
    vocabulary: usize,
    /// Tokens of all chunks.
    count: usize,
    /// `None` before the text is read.
    text: Option<BaseText>,
}

impl BaseReader {
    /// Opens a file. Its length must match its head; nothing after the head is read.
    ///
    /// # Errors
    /// The file cannot be read, is not a base file, is truncated, or has more than 16,777,216 tokens.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GenerateError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let about = |error: std::io::Error| fault(format!("{name}: {error}"));
        let file = File::open(path).map_err(about)?;
        let length = file.metadata().map_err(about)?.len();
        let mut source = BufReader::with_capacity(1 << 20, file);
        let mut head = [0u8; HEAD as usize];
        if source.read_exact(&mut head).is_err() || !head.starts_with(MAGIC) {
            return Err(fault(format!(
                "{name}: not a file of base logits; give one that `perplexity --save-logits` or llama-perplexity wrote"
            )));
        }
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let [context, vocabulary, chunks] = [8, 12, 16].map(number);
        let scored = u128::from(context.saturating_sub(1 + context / 2));
        let rows = scored * u128::from(chunks) * row_bytes(vocabulary as usize) as u128;
        let tokens = u128::from(context) * u128::from(chunks);
        let expected = u128::from(HEAD) + 4 * tokens + rows;
        if context < 4 || vocabulary == 0 || chunks == 0 || u128::from(length) != expected {
            return Err(fault(format!(
                "{name}: {length} bytes, but {chunks} chunks of {context} tokens over {vocabulary} tokens take {expected}: \
                 the file is cut off or damaged; write it again"
            )));
        }
        if tokens > u128::from(MOST_TOKENS) {
            return Err(fault(format!(
                "{name}: {chunks} chunks of {context} tokens are {tokens} tokens, and more than {MOST_TOKENS} are refused; \
                 write the base of a shorter text"
            )));
        }
        let (context, vocabulary, count) = (context as usize, vocabulary as usize, tokens as usize);
        Ok(Self { name, source, context, vocabulary, count, text: None })
    }

    /// Tokens of a chunk.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The content of the file, for a model with a vocabulary of this size. The first call reads the tokens.
    ///
    /// # Errors
    /// The file is that of a model with another vocabulary, which is checked before anything is read; or it cannot be
    /// read.
    pub fn text(&mut self, vocabulary: usize) -> Result<&BaseText, GenerateError> {
        if vocabulary != self.vocabulary {
            return Err(other_vocabulary(self.vocabulary, vocabulary));
        }
        let text = match self.text.take() {
            Some(text) => text,
            None => self.read_text()?,
        };
        Ok(self.text.insert(text))
    }

    fn read_text(&mut self) -> Result<BaseText, GenerateError> {
        let Self { context, vocabulary, count, .. } = *self;
        let mut ids = vec![0u8; 4 * count];
        let read = self.source.read_exact(&mut ids);
        read.map_err(|error| fault(format!("{}: {error}", self.name)))?;
        let tokens = ids.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        Ok(BaseText { context, vocabulary, tokens })
    }

    /// The next `rows` rows as they are stored. The text must be read before the first row.
    ///
    /// # Errors
    /// The file cannot be read, or has fewer rows.
    pub fn rows(&mut self, rows: usize) -> Result<Vec<u8>, GenerateError> {
        let mut bytes = vec![0; rows * row_bytes(self.vocabulary)];
        let read = self.source.read_exact(&mut bytes);
        read.map_err(|error| fault(format!("{}: {error}; write it again", self.name)))?;
        Ok(bytes)
    }

    /// Log-probabilities `[V]` of row `row` among stored `rows`.
    pub fn decode(rows: &[u8], row: usize, vocabulary: usize) -> Vec<f32> {
        let stored = rows.get(row * row_bytes(vocabulary)..).unwrap_or_default();
        let (Some(scale), Some(least)) = (float(stored, 0), float(stored, 4)) else { return Vec::new() };
        let steps = stored.get(8..8 + 2 * vocabulary).unwrap_or_default().as_chunks::<2>().0;
        steps.iter().map(|steps| scale * f32::from(u16::from_le_bytes(*steps)) + least).collect()
    }
}

/// Refuses distributions over other tokens.
pub(super) fn other_vocabulary(base: usize, model: usize) -> GenerateError {
    fault(format!(
        "the base has a vocabulary of {base} tokens and the model one of {model}: distributions over other tokens cannot be \
         held against each other; compare bits per byte instead"
    ))
}

fn float(bytes: &[u8], at: usize) -> Option<f32> {
    Some(f32::from_le_bytes(*bytes.get(at..at + 4)?.first_chunk::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek;

    #[test]
    fn rows_come_back_within_the_step_of_their_scale() {
        let mut row: Vec<f32> = (0..101).map(|at| -(at as f32) * 0.37 - 0.1).collect();
        row[7] = f32::NEG_INFINITY;
        let stored = [encode_row(&row), encode_row(&[-1.0; 101])].concat();
        let made = BaseReader::decode(&stored, 0, 101);
        for (at, (made, value)) in made.iter().zip(&row).enumerate() {
            if *value > -16.1 {
                assert!((made - value).abs() <= 16.0 / 65535.0, "{at}: {made} for {value}");
            } else {
                assert_eq!(*made, -16.1, "{at}: for {value}");
            }
        }
        assert_eq!(BaseReader::decode(&stored, 1, 101), vec![-1.0; 101]);
    }

    #[test]
    fn what_is_written_is_read_and_what_is_cut_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        let text = BaseText { context: 8, vocabulary: 5, tokens: (0..16).collect() };
        let mut bytes = Vec::new();
        let mut writer = BaseWriter::begin(&mut bytes, &text).unwrap();
        for row in 0..6 {
            writer.rows(&encode_row(&[-0.5, -1.0, -2.0, -3.0, -(row as f32)])).unwrap();
        }
        assert!(writer.rows(&[0; 7]).is_err());
        writer.flush().unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let mut reader = BaseReader::open(&path).unwrap();
        assert_eq!(reader.context(), 8);
        assert_eq!(reader.text(5).unwrap(), &text);
        assert_eq!(reader.text(5).unwrap(), &text);
        assert!(reader.rows(6).is_ok() && reader.rows(1).is_err());
        for cut in [0, 7, 19, 40, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let error = BaseReader::open(&path).err().unwrap().to_string();
            assert!(error.contains("base"), "{error}");
        }
    }

    /// A head in a sparse file with the length that the head states.
    fn with_head(path: &Path, [context, vocabulary, chunks]: [u32; 3]) {
        let head = [context, vocabulary, chunks].map(u32::to_le_bytes).concat();
        std::fs::write(path, [&MAGIC[..], &head].concat()).unwrap();
        let rows = u64::from(context - 1 - context / 2) * u64::from(chunks);
        let length =
            HEAD + 4 * u64::from(context) * u64::from(chunks) + rows * row_bytes(vocabulary as usize) as u64;
        File::options().write(true).open(path).unwrap().set_len(length).unwrap();
    }

    /// The head is compared with the model before anything else is read.
    #[test]
    fn a_head_is_checked_before_memory_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        with_head(&path, [1 << 31, 2, 1]);
        let error = BaseReader::open(&path).err().unwrap().to_string();
        assert!(error.contains("2147483648 tokens") && error.contains("16777216"), "{error}");
        with_head(&path, [512, 2, 1 << 15]);
        let mut reader = BaseReader::open(&path).unwrap();
        let error = reader.text(300).unwrap_err().to_string();
        assert!(error.contains("a vocabulary of 2 tokens and the model one of 300"), "{error}");
        assert_eq!(reader.source.stream_position().unwrap(), HEAD, "nothing but the head was read");
        with_head(&path, [512, 2, (1 << 15) + 1]);
        assert!(BaseReader::open(&path).is_err());
    }
}
