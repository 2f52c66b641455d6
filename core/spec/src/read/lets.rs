//! `[let]`: named expressions, and the checks that involve all of them.

use super::decoder::{Decoder, TreePoint, join};
use crate::expression::FUNCTIONS;
use crate::kind::written::Scalar;
use crate::language::body::{Body, Let};
use crate::language::closure::Closure;
use crate::language::reads::STANDARD;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of named expressions of a spec.
const MOST_LETS: usize = 200;

/// Reads `[let]`.
pub(super) fn lets(decoder: &mut Decoder<'_>, at: TreePoint<'_>) -> Vec<Let> {
    let Some(table) = at.node.table() else {
        return decoder.reject(&at, "expected a table: name = \"<expression>\"").unwrap_or_default();
    };
    if table.entries.len() > MOST_LETS {
        let message = format!("{} named expressions; at most {MOST_LETS} are allowed", table.entries.len());
        return decoder.reject(&at, message).unwrap_or_default();
    }
    let mut lets = Vec::new();
    for entry in &table.entries {
        let path = join(&at.path, &entry.key);
        let plain = entry.key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && entry.key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let taken = FUNCTIONS.contains(&entry.key.as_str())
            || matches!(
                entry.key.as_str(),
                "layer" | "default" | "defined" | "and" | "or" | "not" | "if" | "else" | "is"
            );
        if !plain || taken {
            let message = if plain {
                "the language reserves this name"
            } else {
                "a name consists of letters, digits and _"
            };
            decoder.fault(&entry.key_place, &path, || message.into());
            continue;
        }
        if let Some(value) = decoder.named_value(&TreePoint { node: &entry.node, path }) {
            lets.push(Let { name: entry.key.clone(), place: entry.key_place.clone(), value });
        }
    }
    lets
}

/// Reports names that hide a key, and cycles; returns the dependencies of each name.
pub(super) fn check(decoder: &mut Decoder<'_>, body: &Body) -> BTreeMap<String, Closure> {
    let mut spaces: BTreeSet<&str> =
        STANDARD.iter().filter_map(|key| key.split_once('.')).map(|(first, _)| first).collect();
    let expressions = decoder.expressions.clone();
    let mentioned = expressions.iter().flat_map(|expression| expression.mentions());
    spaces.extend(mentioned.filter_map(|name| name.split_once('.')).map(|(first, _)| first));
    for named in &body.lets {
        if spaces.contains(named.name.as_str()) || STANDARD.contains(&named.name.as_str()) {
            decoder.fault(&named.place, &join("let", &named.name), || {
                format!("`{}` is the name of a key or the first part of one", named.name)
            });
        }
    }
    let mut walk = LetWalk { body, done: BTreeMap::new(), open: Vec::new(), circles: Vec::new() };
    for named in &body.lets {
        walk.visit(named);
    }
    for (named, way) in walk.circles {
        decoder.fault(&named.place, &join("let", &named.name), || format!("a cycle: {way}"));
    }
    walk.done
}

/// Visits each named expression once.
struct LetWalk<'a> {
    body: &'a Body,
    done: BTreeMap<String, Closure>,
    open: Vec<&'a str>,
    circles: Vec<(&'a Let, String)>,
}

impl<'a> LetWalk<'a> {
    fn visit(&mut self, named: &'a Let) {
        if self.done.contains_key(&named.name) {
            return;
        }
        if let Some(start) = self.open.iter().position(|name| *name == named.name) {
            let mut way = self.open[start..].to_vec();
            way.push(&named.name);
            self.circles.push((named, way.join(" -> ")));
            return;
        }
        let mut closure = Closure::default();
        if let Scalar::Expression(expression) = &named.value {
            self.open.push(&named.name);
            for used in &expression.names {
                if let Some(next) = self.body.lets.iter().find(|named| named.name == used.name) {
                    self.visit(next);
                }
            }
            self.open.pop();
            closure.add(expression, &self.done);
        }
        self.done.insert(named.name.clone(), closure);
    }
}
