//! `[let]`: named expressions, and the checks that need all of them.

use super::fields::{At, Decoder, join};
use crate::expression::FUNCTIONS;
use crate::reads::STANDARD;
use crate::written::{Body, Let, Scalar};
use std::collections::BTreeSet;

/// Reads `[let]`.
pub(super) fn lets(decoder: &mut Decoder, at: At<'_>) -> Vec<Let> {
    let Some(table) = at.node.table() else {
        decoder.faults.push(at.fault("a table is wanted: name = \"<expression>\""));
        return Vec::new();
    };
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
            let message =
                if plain { "this name is taken by the language" } else { "a name is of a-z, 0-9 and _" };
            decoder.faults.push(entry.key_place.fault(path, message));
            continue;
        }
        if let Some(value) = decoder.scalar(&At { node: &entry.node, path }) {
            lets.push(Let { name: entry.key.clone(), place: entry.key_place.clone(), value });
        }
    }
    lets
}

/// Reports names that hide a key, and circles.
pub(super) fn check(decoder: &mut Decoder, body: &Body) {
    let mut spaces: BTreeSet<&str> =
        STANDARD.iter().filter_map(|key| key.split_once('.')).map(|(first, _)| first).collect();
    let mentioned: Vec<String> = decoder
        .expressions
        .iter()
        .flat_map(|(_, _, expression)| expression.mentions())
        .filter_map(|name| name.split_once('.'))
        .map(|(first, _)| first.to_string())
        .collect();
    spaces.extend(mentioned.iter().map(String::as_str));
    for named in &body.lets {
        let path = join("let", &named.name);
        if spaces.contains(named.name.as_str()) || STANDARD.contains(&named.name.as_str()) {
            let message = format!("`{}` is the name of a key or the first part of one", named.name);
            decoder.faults.push(named.place.fault(path, message));
            continue;
        }
        let mut seen = vec![named.name.as_str()];
        if circle(body, &named.name, &mut seen) {
            seen.push(&named.name);
            decoder.faults.push(named.place.fault(path, format!("a circle: {}", seen.join(" -> "))));
        }
    }
}

/// Whether following the names of `at` leads back to the first of `seen`; `seen` then holds the way.
fn circle<'a>(body: &'a Body, at: &str, seen: &mut Vec<&'a str>) -> bool {
    let Some(named) = body.lets.iter().find(|named| named.name == at) else { return false };
    let Scalar::Expression(expression) = &named.value else { return false };
    for used in &expression.names {
        let Some(next) = body.lets.iter().find(|named| named.name == used.name) else { continue };
        if seen.first() == Some(&next.name.as_str()) {
            return true;
        }
        if seen.contains(&next.name.as_str()) {
            continue;
        }
        seen.push(&next.name);
        if circle(body, &next.name, seen) {
            return true;
        }
        seen.pop();
    }
    false
}
