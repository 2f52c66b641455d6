//! [`Draft`]: a first spec for a model of an unknown architecture. It is the nearest known architecture, adapted to
//! the keys and tensors of the file, with the questions that the file cannot answer.

mod composition;
mod evidence;
mod fit;
mod question;
mod single_cases;
mod spec_text;
mod votes;

pub use evidence::Evidence;
pub use fit::Fit;
pub use question::{Question, QuestionSubject};
pub use single_cases::collapsed;

use composition::Composition;
use menagerie_spec::ArchSpec;
use menagerie_spec::kind::Kinds;
use serde_json::Value;
use std::cmp::Reverse;
use std::sync::Arc;

/// A first spec of a model.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The id of the nearest known architecture.
    pub nearest: String,
    /// Known architectures that fit the file unchanged, nearest first.
    pub fitting: Vec<String>,
    /// The whole spec, without inheritance.
    pub document: Value,
    /// The spec as a file: what it extends, what differs, and the questions as comments.
    pub text: String,
    /// Questions that no key and no tensor answers.
    pub questions: Vec<Question>,
    /// The differences to the file.
    pub fit: Fit,
}

/// A known architecture and its fit.
pub(crate) struct ArchCandidate {
    pub(crate) spec: Arc<ArchSpec>,
    pub(crate) fit: Fit,
    /// The similarity of names, from 0 to 1.
    pub(crate) named: f64,
    /// The likelihood that the model is a variant of it, from 0 to 4: by name, options, and the number of specs that
    /// extend it.
    pub(crate) likeness: f64,
}

/// Drafts a spec `id` for a model from known specs; `None` if there are none.
pub fn draft(id: &str, evidence: &Evidence, known: &[Arc<ArchSpec>], kinds: &Kinds) -> Option<Draft> {
    let vectors = evidence.keys().contains_key("pooling_type");
    let mut candidates: Vec<ArchCandidate> = known
        .iter()
        .filter(|spec| vectors || !makes_vectors(spec))
        .map(|spec| ArchCandidate {
            fit: composition::fit_beside_checks(spec, evidence, kinds),
            named: named(id, spec),
            spec: Arc::clone(spec),
            likeness: 0.0,
        })
        .collect();
    let votes = question::votes(&candidates);
    for candidate in &mut candidates {
        let share = extended_by(&candidate.spec, known) as f64 / known.len() as f64;
        candidate.likeness = 2.0 * candidate.named + votes.agreement(&candidate.fit) + share;
    }
    candidates.sort_by(|a, b| a.fit.cost().cmp(&b.fit.cost()).then(b.likeness.total_cmp(&a.likeness)));
    let nearest = candidates.first()?;
    let fits = candidates.iter().filter(|candidate| candidate.fit.cost() == 0);
    let fitting: Vec<String> = fits.map(|candidate| candidate.spec.id().to_owned()).collect();
    let Composition { document, base, fit } = composition::compose(evidence, &candidates, kinds);
    let questions = question::questions(&document, &fit, &votes, kinds);
    let text = spec_text::text(id, evidence, &base, &document, &questions, &fit);
    Some(Draft { nearest: nearest.spec.id().to_owned(), fitting, document, text, questions, fit })
}

/// Whether an architecture pools, which files state.
fn makes_vectors(spec: &ArchSpec) -> bool {
    spec.document().pointer("/output/pooling").is_some()
}

/// The number of specs that extend it, as a base of many variants is the best guess for one more.
fn extended_by(spec: &ArchSpec, known: &[Arc<ArchSpec>]) -> usize {
    known.iter().filter(|other| other.extends.iter().any(|base| base == spec.id())).count()
}

/// The similarity of the names of an architecture, as new members of a family have its name.
fn named(id: &str, spec: &ArchSpec) -> f64 {
    let names = spec.gguf_names.iter().map(String::as_str).chain([spec.id()]);
    names.map(|name| alike(id, name)).fold(0.0, f64::max)
}

/// The length of the common prefix of two names as a share of the longer one; 0 below three letters, and if it ends
/// within a word of both.
fn alike(a: &str, b: &str) -> f64 {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let longer = a.chars().count().max(b.chars().count()).max(1);
    let [rest_a, rest_b] = [a, b].map(|name| name.chars().nth(same));
    let whole = rest_a.is_none() || rest_b.is_none();
    let digit = a.chars().take(same).last().is_some_and(|last| last.is_ascii_digit());
    let words = whole || digit || [rest_a, rest_b].iter().flatten().all(|next| !next.is_alphabetic());
    if same < 3 || !words { 0.0 } else { same as f64 / longer as f64 }
}

/// The item with the least cost; the first of several.
pub(crate) fn best<T>(items: impl IntoIterator<Item = T>, cost: impl Fn(&T) -> usize) -> Option<T> {
    items
        .into_iter()
        .enumerate()
        .min_by_key(|(at, item)| (cost(item), Reverse(usize::MAX - at)))
        .map(|(_, item)| item)
}
