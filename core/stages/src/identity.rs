//! [`Identity`]: what all stages of a model must agree on.

use crate::bytes::{Reader, Writer};

/// What all stages of a model must agree on, each as a text that messages show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Version of the program.
    pub version: String,
    /// The spec, and the numbers that it comes to for the file.
    pub spec: String,
    /// The weights: bytes, and a hash of the headers and of samples of every tensor.
    pub weights: String,
    /// Arithmetic and the type of caches.
    pub arithmetic: String,
    /// Adapters that the model was opened with.
    pub adapters: String,
}

impl Identity {
    fn fields(&self) -> [(&'static str, &String); 5] {
        [
            ("version", &self.version),
            ("spec", &self.spec),
            ("weights", &self.weights),
            ("arithmetic", &self.arithmetic),
            ("adapters", &self.adapters),
        ]
    }

    /// What another has differently, in words; none where they agree.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let mut pairs = self.fields().into_iter().zip(other.fields());
        let ((name, own), (_, other)) = pairs.find(|((_, own), (_, other))| own != other)?;
        Some(format!(
            "another {name} than the stages before it: {own} here, {other} there; give all stages the same model file, options \
             and program"
        ))
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        self.fields().iter().for_each(|(_, text)| out.text(text));
    }

    pub(crate) fn decode(from: &mut Reader) -> Result<Self, String> {
        Ok(Self {
            version: from.text()?,
            spec: from.text()?,
            weights: from.text()?,
            arithmetic: from.text()?,
            adapters: from.text()?,
        })
    }
}
