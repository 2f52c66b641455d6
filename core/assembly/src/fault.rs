//! [`AssemblyFaults`]: everything that is wrong with the tensors of a file, at once.

use menagerie_spec::layer_ranges;
use std::collections::BTreeSet;
use std::fmt;

/// One thing that is wrong, in one layer or in many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyFault {
    /// Id of the architecture.
    pub architecture: String,
    /// Layers it occurs in; empty for a tensor of the whole model.
    pub layers: BTreeSet<usize>,
    /// What is wrong; `{layer}` stands for the layer in tensor names.
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

/// All faults of a file under a config; never empty when returned as an error.
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

    /// The faults: missing and wrong tensors in the order of the config, then tensors nobody wants.
    pub fn faults(&self) -> &[AssemblyFault] {
        &self.faults
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Adds a fault; the same one in another layer only adds the layer.
    pub(crate) fn push(&mut self, layer: Option<usize>, text: &str) {
        let text = match layer {
            // The first number in a tensor's name is that of its block, whatever the format.
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
