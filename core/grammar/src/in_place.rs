//! References between schemas of a document.

use std::collections::{BTreeMap, BTreeSet};

/// The schemas of a document by their JSON pointers, and which of them apply to the same value.
#[derive(Default)]
pub(crate) struct InPlaceGraph {
    schemas: BTreeSet<String>,
    /// From a schema to schemas that apply to the same value: by reference, or in `allOf`, `anyOf`, `oneOf`.
    arrows: BTreeMap<String, Vec<String>>,
}

impl InPlaceGraph {
    pub(crate) fn add(&mut self, at: &str) {
        self.schemas.insert(at.to_owned());
    }

    pub(crate) fn connect(&mut self, from: &str, to: &str) {
        self.arrows.entry(from.to_owned()).or_default().push(to.to_owned());
    }

    /// Whether there is a schema at this pointer.
    pub(crate) fn has(&self, at: &str) -> bool {
        self.schemas.contains(at)
    }

    /// A schema that applies itself to the same value again, which describes nothing.
    pub(crate) fn cycle(&self) -> Option<&str> {
        let mut done: BTreeSet<&str> = BTreeSet::new();
        for start in self.arrows.keys() {
            // Schemas on the way from `start`, each with the number of its arrows that were followed.
            let mut way: Vec<(&str, usize)> = vec![(start, 0)];
            while let Some((at, followed)) = way.pop() {
                let next = self.arrows.get(at).and_then(|arrows| arrows.get(followed));
                let Some(next) = next.map(String::as_str) else {
                    done.insert(at);
                    continue;
                };
                way.push((at, followed + 1));
                if way.iter().any(|(on_way, _)| *on_way == next) {
                    return Some(next);
                }
                if !done.contains(next) {
                    way.push((next, 0));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found() {
        let graph = |arrows: &[(&str, &str)]| {
            let mut graph = InPlaceGraph::default();
            arrows.iter().for_each(|(from, to)| graph.connect(from, to));
            graph.cycle().is_some()
        };
        assert!(!graph(&[]));
        assert!(!graph(&[("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")]));
        assert!(graph(&[("a", "a")]));
        assert!(graph(&[("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")]));
    }
}
