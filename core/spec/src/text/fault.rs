//! [`SpecFaults`]: all faults of a spec, or of a file under a spec, at once.

use std::collections::BTreeSet;
use std::fmt;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file with the fault: the spec, or the model.
    pub file: String,
    /// Line and column, both from 1, where the file is a spec.
    pub position: Option<(usize, usize)>,
    /// Dotted key in the spec, or the part of the model; may be empty.
    pub subject: String,
    /// What was found, what is expected, and the nearest name.
    pub message: String,
    /// The layers with the fault; empty if it concerns the whole spec or model.
    pub layers: BTreeSet<usize>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.subject.is_empty() {
            write!(f, ": {}", self.subject)?;
        }
        if !self.layers.is_empty() {
            write!(f, " ({})", layer_ranges(&self.layers))?;
        }
        write!(f, "\n  {}", self.message.replace('\n', "\n  "))
    }
}

/// Proof that a fault was recorded: only [`SpecFaults::push`] makes one. A function that returns it as an error cannot
/// fail without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedFault(());

/// All faults of a spec, or of a file under a spec. Never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecFaults {
    faults: Vec<Fault>,
}

impl SpecFaults {
    /// The faults: as returned by the readers of specs, those of specs by file and line, then those of the model.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Whether there are no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Adds a fault; the same fault in another layer only adds the layer.
    pub fn push(&mut self, fault: Fault) -> RecordedFault {
        let same = self.faults.iter_mut().find(|old| {
            old.file == fault.file
                && old.position == fault.position
                && old.subject == fault.subject
                && old.message == fault.message
        });
        match same {
            Some(old) => old.layers.extend(fault.layers),
            None => self.faults.push(fault),
        }
        RecordedFault(())
    }

    /// `Ok(value)` without faults, else the faults.
    ///
    /// # Errors
    /// The faults, if there are any.
    pub fn check<T>(mut self, value: Option<T>) -> Result<T, SpecFaults> {
        match value {
            Some(value) if self.faults.is_empty() => Ok(value),
            _ => {
                self.sort();
                Err(self)
            }
        }
    }

    /// Sorts faults with a position to the front, by file and line; the others stay in order.
    fn sort(&mut self) {
        let key =
            |fault: &Fault| (fault.position.is_none(), fault.position.map(|at| (fault.file.clone(), at)));
        self.faults.sort_by_cached_key(key);
    }
}

impl fmt::Display for SpecFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "error: {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecFaults {}

/// `layer 3`, `layers 0-31`, `layers 0-3, 7`.
pub fn layer_ranges(layers: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &layer in layers {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == layer => *end = layer,
            _ => ranges.push((layer, layer)),
        }
    }
    let parts: Vec<String> =
        ranges.iter().map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    let word = if layers.len() == 1 { "layer" } else { "layers" };
    format!("{word} {}", parts.join(", "))
}
