//! [`AssemblyFaults`]: all faults of the tensors of a file.

use menagerie_spec::layer_ranges;
use std::collections::BTreeSet;
use std::fmt;

/// One fault, in one or many layers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AssemblyFault {
    architecture: String,
    /// The layers in which it occurs; empty for a tensor of the whole model.
    layers: BTreeSet<usize>,
    /// The message; `{layer}` stands for the layer in tensor names.
    text: String,
}

impl fmt::Display for AssemblyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.architecture)?;
        let mut layer = String::from("*");
        if !self.layers.is_empty() {
            write!(f, ", {}", layer_ranges(&self.layers))?;
        }
        if let (1, Some(only)) = (self.layers.len(), self.layers.first()) {
            layer = only.to_string();
        }
        write!(f, ", {}", self.text.replace("{layer}", &layer))
    }
}

/// All faults of a file with a config: missing and wrong tensors in the order of the config, then unclaimed tensors. Never
/// empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssemblyFaults {
    file: String,
    architecture: String,
    faults: Vec<AssemblyFault>,
}

impl AssemblyFaults {
    pub(crate) fn new(file: String, architecture: &str) -> Self {
        Self { file, architecture: architecture.to_owned(), faults: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Adds a fault. If it is known from another layer, only the layer is added.
    pub(crate) fn push(&mut self, layer: Option<usize>, text: &str) {
        let text = match layer {
            // The first number in a tensor's name is its block, in every format.
            Some(layer) => text.replacen(&format!(".{layer}."), ".{layer}.", 1),
            None => text.to_owned(),
        };
        match self.faults.iter_mut().find(|old| old.text == text && old.layers.is_empty() == layer.is_none())
        {
            Some(old) => old.layers.extend(layer),
            None => {
                let architecture = self.architecture.clone();
                self.faults.push(AssemblyFault { architecture, layers: layer.into_iter().collect(), text });
            }
        }
    }
}

impl fmt::Display for AssemblyFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "error: {}: {fault}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for AssemblyFaults {}
