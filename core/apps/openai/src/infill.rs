//! [`InfillTexts`]: the prompt for a text with a gap (fill in the middle).

use crate::body::LineFault;
use menagerie::engine::Tokenizing;

/// The texts around a gap, and other files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfillTexts {
    /// The text in front of the gap.
    pub before: String,
    /// The text behind the gap.
    pub after: String,
    /// Name and text of other files.
    pub files: Vec<(String, String)>,
}

/// The name that the prompt gives to the file with the gap, because requests do not name it: that of llama.cpp's server.
const OWN_NAME: &str = "filename\n";

impl InfillTexts {
    /// The tokens of the prompt: other files, then the text in front of the gap, the text behind it, and the token after
    /// which the model writes what is between them. `field` is the field that a fault names.
    ///
    /// # Errors
    /// The model has no tokens for it, or a text cannot be tokenized.
    pub fn prompt(&self, tokenizer: &dyn Tokenizing, field: &str) -> Result<Vec<u32>, LineFault> {
        let fault = |reason: &dyn std::fmt::Display| LineFault::of(field, reason);
        let Some(marks) = tokenizer.infill() else {
            return Err(fault(&"the model has no tokens for a text with a gap (fill in the middle)"));
        };
        let encode = |text: &str| tokenizer.encode(text).map_err(|error| fault(&error));
        let mut tokens: Vec<u32> = tokenizer.beginning().into_iter().collect();
        if !self.files.is_empty() {
            let Some(mark) = marks.file else {
                let reason = "the model has no token before other files; leave it out";
                return Err(LineFault::of("input_extra", reason));
            };
            for (name, text) in &self.files {
                tokens.push(mark);
                tokens.extend(encode(&format!("{name}\n"))?);
                tokens.extend(encode(text)?);
            }
            tokens.push(mark);
            tokens.extend(encode(OWN_NAME)?);
        }
        for (mark, text) in [(marks.prefix, &self.before), (marks.suffix, &self.after)] {
            tokens.push(mark);
            tokens.extend(encode(text)?);
        }
        tokens.push(marks.middle);
        Ok(tokens)
    }
}
