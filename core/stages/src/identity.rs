//! [`Identity`]: the properties that all stages of a model must have in common.

use crate::frame::payload::{PayloadReader, PayloadWriter};

/// The properties that all stages of a model must have in common, each as text for error messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Version of the program.
    pub version: String,
    /// The spec, and its values for the file.
    pub spec: String,
    /// The weights: bytes, and a hash of the headers and of samples of every tensor.
    pub weights: String,
    /// The arithmetic, and the type of the KV cache.
    pub arithmetic: String,
    /// The adapters that the model was opened with.
    pub adapters: String,
}

impl Identity {
    /// The properties with their names.
    pub fn fields(&self) -> [(&'static str, &String); 5] {
        [
            ("version", &self.version),
            ("spec", &self.spec),
            ("weights", &self.weights),
            ("arithmetic", &self.arithmetic),
            ("adapters", &self.adapters),
        ]
    }

    /// The first difference between two stages, as text; `None` if there is none.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let mut pairs = self.fields().into_iter().zip(other.fields());
        let ((name, own), (_, other)) = pairs.find(|((_, own), (_, other))| own != other)?;
        Some(format!(
            "{name}: found {own}, expected {other} as in the stages before it; start all stages with the same model file, \
             options and program"
        ))
    }

    pub(crate) fn encode(&self, out: &mut PayloadWriter) {
        self.fields().iter().for_each(|(_, text)| out.text(text));
    }

    pub(crate) fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        Ok(Self {
            version: from.text()?,
            spec: from.text()?,
            weights: from.text()?,
            arithmetic: from.text()?,
            adapters: from.text()?,
        })
    }
}
