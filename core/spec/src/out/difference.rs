//! [`SpecDifference`]: a value in which two specs differ.

use crate::language::spec::ArchSpec;
use crate::out::stated::SpecValue;
use std::collections::BTreeMap;

/// A path with different values in two specs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SpecDifference {
    /// Dotted path.
    pub path: String,
    /// The value in the first spec, if it states one.
    pub first: Option<SpecValue>,
    /// The value in the second spec, if it states one.
    pub second: Option<SpecValue>,
}

impl ArchSpec {
    /// The values in which it differs from another spec, both merged with their bases: in its own order, then those that
    /// only the other one has. Names and provenance are left out; the sections about Hugging Face folders are compared if
    /// `hf`.
    pub fn differences(&self, other: &ArchSpec, hf: bool) -> Vec<SpecDifference> {
        let (first, second) = (compared(self, hf), compared(other, hf));
        let mut others: BTreeMap<String, SpecValue> =
            second.iter().map(|stated| (stated.path.clone(), stated.clone())).collect();
        let mut differences = Vec::new();
        for stated in first {
            let other = others.remove(&stated.path);
            if other.as_ref().is_none_or(|other| other.value != stated.value) {
                let path = stated.path.clone();
                differences.push(SpecDifference { path, first: Some(stated), second: other });
            }
        }
        let more = second.into_iter().filter(|stated| others.contains_key(&stated.path));
        let only_second = |stated: SpecValue| SpecDifference {
            path: stated.path.clone(),
            first: None,
            second: Some(stated),
        };
        differences.extend(more.map(only_second));
        differences
    }
}

/// The values that a spec states and that are compared.
fn compared(spec: &ArchSpec, hf: bool) -> Vec<SpecValue> {
    let mut left_out = vec!["architecture.", "provenance."];
    if !hf {
        left_out.extend(["hf.", "adapter."]);
    }
    let told = |stated: &SpecValue| !left_out.iter().any(|section| stated.path.starts_with(section));
    spec.stated().into_iter().filter(told).collect()
}
