//! The use of every key of the file: read, ignored with a reason, accepted by the user, or refused.

use crate::kind::OptionResolver;
use crate::language::harmless;
use crate::language::reads::STANDARD;
use crate::language::report::KeyCoverage;
use crate::language::resolver::Resolver;
use crate::text::glob::matches;
use crate::text::source::{NameUse, NamedKey};
use menagerie_entries::{nearest, nearest_clause};

/// Maximum number of unread keys that are named; a broken file can have millions.
const NAMED: usize = 40;

impl Resolver<'_> {
    /// Classifies every key; unread ones are faults, overrides and accepted ones are warnings.
    pub(super) fn coverage(&mut self) -> KeyCoverage {
        let mut coverage = KeyCoverage::default();
        let keys: Vec<String> = self.input.keys.keys();
        if let Some(names) = self.input.keys.names() {
            self.named_coverage(names, &mut coverage);
            self.overrides(&keys);
            self.accepted_coverage(&mut coverage);
            return coverage;
        }
        let mut unread = 0;
        for key in &keys {
            if !self.key_coverage(key, &mut coverage) {
                unread += 1;
                if unread <= NAMED {
                    self.unread(key);
                }
            }
        }
        self.unnamed(unread);
        self.foreign_coverage(&mut coverage);
        self.overrides(&keys);
        self.accepted_coverage(&mut coverage);
        coverage.read.sort();
        let facts = &self.values.facts;
        let idle = |key: &&String| !STANDARD.contains(&key.as_str()) && !facts.is_consulted(key);
        coverage.without_effect = coverage.read.iter().filter(idle).cloned().collect();
        let ignored = self.spec.own_ignored_keys().into_iter();
        let unmatched = ignored.filter(|glob| !keys.iter().any(|key| matches(glob, key)));
        coverage.unmatched = unmatched.map(str::to_owned).collect();
        coverage
    }

    /// Classifies the names of a file with translated keys: a name is read if any of its keys is.
    fn named_coverage(&mut self, names: &[NamedKey], coverage: &mut KeyCoverage) {
        let input = self.input;
        for (subject, message) in input.keys.faults() {
            self.file_fault(None, subject.clone(), message.clone());
        }
        let mut unread = 0;
        for NamedKey { name, is } in names {
            let help = match is {
                NameUse::Ignored(reason) => {
                    coverage.ignored.insert(name.clone(), reason.clone());
                    continue;
                }
                NameUse::Read(keys) if keys.is_empty() || keys.iter().any(|key| self.spec.reads.has(key)) => {
                    let idle = |key: &String| {
                        !STANDARD.contains(&key.as_str()) && !self.values.facts.is_consulted(key)
                    };
                    if !keys.is_empty() && keys.iter().all(idle) {
                        coverage.without_effect.push(name.clone());
                    }
                    coverage.read.push(name.clone());
                    continue;
                }
                NameUse::Read(_) => "",
                NameUse::Unknown(help) => help,
            };
            if input.accept_unread.contains(name) {
                self.accepted.insert(name.clone());
                continue;
            }
            unread += 1;
            if unread <= NAMED {
                let message = format!(
                    "not read by spec {} ({}){help}\nread it under [hf.config], or list it under [hf.ignore_keys] with a \
                     reason; to run without understanding it: --accept-unread {name}",
                    self.spec.id(),
                    self.spec.source_name,
                );
                self.file_fault(None, format!("key {name}"), message);
            }
        }
        self.unnamed(unread);
    }

    /// Classifies a key; false if nothing reads it.
    fn key_coverage(&mut self, key: &str, coverage: &mut KeyCoverage) -> bool {
        let spec = self.spec;
        if spec.reads.has(key) {
            coverage.read.push(key.to_string());
            return true;
        }
        if let Some(reason) = spec.ignored_key(key) {
            coverage.ignored.insert(key.to_string(), reason.to_string());
        } else {
            return self.accept(key);
        }
        true
    }

    fn unread(&mut self, key: &str) {
        let spec = self.spec;
        let help = nearest_clause(nearest(key, spec.reads.keys()));
        let message = format!(
            "not read by spec {} ({}){help}\nread it there, or list it under [gguf.ignore_keys] with a reason; \
             to run without understanding it: --accept-unread {}",
            spec.id(),
            spec.source_name,
            self.spelled(key)
        );
        self.key_fault(None, key, message);
    }

    fn unnamed(&mut self, unread: usize) {
        if unread > NAMED {
            let message = format!("and {} more keys that nothing reads", unread - NAMED);
            self.file_fault(None, String::new(), message);
        }
    }

    /// Keys outside of the architecture prefix.
    fn foreign_coverage(&mut self, coverage: &mut KeyCoverage) {
        let mut unread = 0;
        for key in self.input.keys.foreign_keys() {
            if self.values.facts.foreign.contains(&key) {
                coverage.read.push(key);
            } else if let Some(reason) = harmless::outside_prefix(&key) {
                coverage.ignored.insert(key, reason.to_string());
            } else if self.input.accept_unread.contains(&key) {
                self.accepted.insert(key);
            } else if unread < NAMED {
                unread += 1;
                let message = format!(
                    "nothing reads it, and it is not in the list of harmless keys\n\
                     to run without understanding it: --accept-unread {key}"
                );
                self.file_fault(None, format!("key {key}"), message);
            } else {
                unread += 1;
            }
        }
        self.unnamed(unread);
    }

    /// Keys set by the user must be read by something, and cause a warning.
    fn overrides(&mut self, keys: &[String]) {
        let input = self.input;
        for (key, value) in &input.overrides {
            if !self.spec.reads.has(key) {
                let help = nearest_clause(nearest(key, self.spec.reads.keys()));
                let message =
                    format!("set by the user, and nothing in spec {} reads it{help}", self.spec.id());
                self.file_fault(None, format!("key {key}"), message);
            }
            let instead = if keys.contains(key) {
                "it replaces the value in the file"
            } else {
                "the file has no such key"
            };
            self.warnings.push(format!("{key} = {value} was set by the user; {instead}"));
        }
    }

    fn accepted_coverage(&mut self, coverage: &mut KeyCoverage) {
        let input = self.input;
        for key in &self.accepted {
            self.warnings.push(format!("key {key} is accepted unread: its effect is unknown"));
            coverage.accepted_unread.push(key.clone());
        }
        for wanted in &input.accept_unread {
            let met = self.accepted.iter().any(|key| wanted == key || *wanted == self.spelled(key));
            if !met {
                let short = wanted.strip_prefix(&format!("{}.", input.architecture)).unwrap_or(wanted);
                let known = self.spec.reads.has(short) || STANDARD.contains(&short);
                let why = if known { "the spec reads it" } else { "the file has no such unread key" };
                self.warnings.push(format!("--accept-unread {wanted} had nothing to accept: {why}"));
            }
        }
    }
}
