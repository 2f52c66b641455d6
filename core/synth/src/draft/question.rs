//! [`Question`]: what the file does not state about its architecture, and the answers of known architectures.

use super::{ArchCandidate, Fit};
use menagerie_spec::kind::{Family, Kinds};
use menagerie_spec::{ArchSpec, NoLookup, SpecSource, toml_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A question to the model's author.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Question {
    /// The dotted path in the spec, or the name of an unused key or tensor.
    pub path: String,
    /// The subject.
    pub about: QuestionSubject,
    /// The value in the draft as TOML, if it has one.
    pub value: Option<String>,
    /// The meaning of the option.
    pub meaning: String,
    /// The values in known architectures that fit, with their number, most frequent first.
    pub votes: Vec<(String, usize)>,
}

/// The subject of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionSubject {
    /// A failed check of the nearest architecture, which the draft omits.
    Check,
    /// A key of the file that the draft does not read.
    Key,
    /// A tensor that the draft does not use, or that the file lacks.
    Tensor,
    /// A component in a form that no known architecture has.
    Component,
    /// A value that only affects logits.
    Value,
    /// An option that the draft omits.
    Absent,
}

/// The values in known architectures that fit, by path, with their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct VoteCounts(BTreeMap<String, BTreeMap<String, usize>>);

/// Counts the values in the architectures that fit best.
pub(crate) fn votes(candidates: &[ArchCandidate]) -> VoteCounts {
    let least = candidates.iter().map(|candidate| candidate.fit.cost()).min().unwrap_or(0);
    let mut votes = VoteCounts::default();
    for candidate in candidates.iter().filter(|candidate| candidate.fit.cost() == least) {
        for (path, value) in said(&candidate.fit) {
            *votes.0.entry(path).or_default().entry(value).or_default() += 1;
        }
    }
    votes
}

/// The values that a spec itself states, once per path and value.
fn said(fit: &Fit) -> BTreeSet<(String, String)> {
    let entries = fit.resolution.iter().flat_map(|resolution| resolution.from_spec_only());
    entries.map(|entry| (entry.path.clone(), entry.value.clone())).collect()
}

impl VoteCounts {
    /// The agreement of a spec with the others, from 0 to 1.
    pub(crate) fn agreement(&self, fit: &Fit) -> f64 {
        let said = said(fit);
        let share = |(path, value): &(String, String)| {
            let votes = self.0.get(path)?;
            let all: usize = votes.values().sum();
            Some(votes.get(value).copied().unwrap_or(0) as f64 / all.max(1) as f64)
        };
        let shares: Vec<f64> = said.iter().filter_map(share).collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }

    fn of(&self, path: &str) -> Vec<(String, usize)> {
        let mut votes: Vec<(String, usize)> =
            self.0.get(path).into_iter().flatten().map(|(value, count)| (value.clone(), *count)).collect();
        votes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        votes
    }
}

/// The questions of a draft: about unused keys and tensors, values that only affect logits, and omitted options.
pub(crate) fn questions(document: &Value, fit: &Fit, votes: &VoteCounts, kinds: &Kinds) -> Vec<Question> {
    let mut questions = left_over(fit);
    questions.extend(components(document, fit, kinds));
    let text = format!("schema = 1\n{}", toml_text(document));
    let source = SpecSource { name: "draft.toml".to_owned(), text };
    if let Ok(spec) = ArchSpec::parse(&source, &NoLookup, kinds) {
        questions.extend(sections(document));
        questions.extend(options(&spec, fit, votes));
    }
    questions
}

/// Questions about failed checks, and about unused keys and tensors.
fn left_over(fit: &Fit) -> Vec<Question> {
    let left = |about: QuestionSubject, meaning: &'static str| {
        move |name: &String| Question {
            path: name.clone(),
            about,
            value: None,
            meaning: meaning.to_owned(),
            votes: Vec::new(),
        }
    };
    let mut questions: Vec<Question> = Vec::new();
    let failed_checks = left(
        QuestionSubject::Check,
        "this check of the nearest architecture fails; what does the model do instead?",
    );
    questions.extend(fit.failed_checks.iter().map(failed_checks));
    questions.extend(fit.unread.iter().map(left(QuestionSubject::Key, "the draft does not read this key")));
    questions.extend(
        fit.unclaimed.iter().map(left(QuestionSubject::Tensor, "the draft does not use this tensor")),
    );
    questions.extend(fit.missing.iter().map(left(
        QuestionSubject::Tensor,
        "the draft needs this tensor, but the file has none of this shape",
    )));
    questions
}

/// Questions about whole sections.
fn sections(document: &Value) -> Vec<Question> {
    let renamed = document.pointer("/gguf/tensors").map(menagerie_spec::toml_value);
    let names = Question {
        path: "gguf.tensors".to_owned(),
        about: if renamed.is_some() { QuestionSubject::Value } else { QuestionSubject::Absent },
        value: renamed,
        meaning: "tensors that are stored under another role's name than what they are used for".to_owned(),
        votes: Vec::new(),
    };
    // Norms of two kinds can have tensors of the same names and shapes.
    let norm = document.get("norm").map(|norm| Question {
        path: "norm".to_owned(),
        about: QuestionSubject::Value,
        value: Some(menagerie_spec::toml_value(norm)),
        meaning: "the norm of every site: mean removed (layer) or not (rms)".to_owned(),
        votes: Vec::new(),
    });
    std::iter::once(names).chain(norm).collect()
}

/// Questions about options that only affect logits, and about omitted options.
fn options(spec: &ArchSpec, fit: &Fit, votes: &VoteCounts) -> Vec<Question> {
    let mut questions = Vec::new();
    let left_over = fit.unclaimed.iter().chain(&fit.missing).any(|name| name.ends_with(".bias"));
    let stated: BTreeSet<String> = said(fit).into_iter().map(|(path, _)| path).collect();
    // A head for further tokens changes no logits, and a file that has one has tensors that the draft does not use.
    for option in spec.options().into_iter().filter(|option| !option.path.starts_with("nextn")) {
        let numbers =
            ["number", "count", "boolean"].contains(&option.accepts.as_str()) && option.value.is_some();
        let biases = option.path.ends_with(".bias") && left_over;
        let asked =
            numbers || biases || option.guarded && (option.value.is_none() || stated.contains(&option.path));
        // A table of a component is optional; the two branches of a block are not.
        let branch = ["block.mixer", "block.feed_forward"].contains(&option.path.as_str());
        let optional = option.path.contains('.') && !branch;
        let left_out = option.is_table && (option.value.is_none() || optional);
        if asked || left_out {
            let about = if option.value.is_some() { QuestionSubject::Value } else { QuestionSubject::Absent };
            let votes = votes.of(&option.path);
            questions.push(Question {
                path: option.path,
                about,
                value: option.value,
                meaning: option.meaning,
                votes,
            });
        }
    }
    questions
}

/// Questions about components in a form that no known architecture has: tensors of their family are unused or missing,
/// or the keys have faults.
fn components(document: &Value, fit: &Fit, kinds: &Kinds) -> Vec<Question> {
    let left: Vec<&str> = fit.unclaimed.iter().chain(&fit.missing).map(|name| role_of(name)).collect();
    let sections = [("norm", Family::Norm), ("mixer", Family::Mixer), ("feed_forward", Family::FeedForward)];
    let open = sections.into_iter().filter(|(_, family)| {
        let mut roles = kinds.of(*family).flat_map(|kind| kind.roles);
        let norms = *family == Family::Norm && left.iter().any(|role| role.ends_with("norm.bias"));
        fit.resolution.is_none() || norms || roles.any(|role| left.contains(&role.name))
    });
    let names = |family: Family| kinds.of(family).map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    let question = |(section, family): (&str, Family)| Question {
        path: section.to_owned(),
        about: QuestionSubject::Component,
        value: document.pointer(&format!("/{section}/kind")).map(menagerie_spec::toml_value),
        meaning: format!("write this section anew; kinds are {}", names(family)),
        votes: Vec::new(),
    };
    open.map(question).collect()
}

/// `blk.N.attn_q.weight` as `attn_q`; a bias keeps its suffix.
fn role_of(name: &str) -> &str {
    let name = name.strip_prefix("blk.N.").unwrap_or(name);
    name.strip_suffix(".weight").unwrap_or(name)
}
