//! [`Closure`]: everything that a named expression depends on.

use crate::expression::{Expression, MentionedName};
use std::collections::{BTreeMap, BTreeSet};

/// The dependencies of a named expression, including those through other names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closure {
    /// Keys, in order of first use.
    pub(crate) keys: Vec<MentionedName>,
    /// Keys in calls of `pattern`.
    pub(crate) patterns: BTreeSet<String>,
    /// Roles in calls of `has`.
    pub(crate) roles: BTreeSet<String>,
    /// Whether it uses `layer`.
    pub(crate) layer: bool,
}

impl Closure {
    fn add_key(&mut self, key: &MentionedName) {
        if !self.keys.contains(key) {
            self.keys.push(key.clone());
        }
    }

    /// Adds the dependencies of an expression; those of named ones through their closures.
    pub(crate) fn add(&mut self, expression: &Expression, lets: &BTreeMap<String, Closure>) {
        self.layer |= expression.layer;
        self.roles.extend(expression.roles.iter().cloned());
        self.patterns.extend(expression.patterns.iter().cloned());
        for used in &expression.names {
            let Some(inner) = lets.get(&used.name) else {
                self.add_key(used);
                continue;
            };
            self.layer |= inner.layer;
            self.roles.extend(inner.roles.iter().cloned());
            self.patterns.extend(inner.patterns.iter().cloned());
            inner.keys.iter().for_each(|key| self.add_key(key));
        }
    }
}
