//! [`Draft`]: a first spec of a model that no spec knows: the nearest known architecture, changed to what the file's keys
//! and tensors say, and the questions that no file answers.

mod collapse;
mod compose;
mod evidence;
mod fit;
mod question;
mod settle;
mod text;

pub use collapse::collapsed;
pub use evidence::Evidence;
pub use fit::Fit;
pub use question::{About, Question};

use compose::Composed;
use menagerie_spec::ArchSpec;
use menagerie_spec::kind::Kinds;
use serde_json::Value;
use std::cmp::Reverse;
use std::sync::Arc;

/// A first spec of a model.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Id of the known architecture it is made from.
    pub nearest: String,
    /// Known architectures that fit the file as they are, nearest first.
    pub fitting: Vec<String>,
    /// The whole spec, nothing extended.
    pub document: Value,
    /// The spec as a file: what it extends, what is otherwise, and the questions as comments.
    pub text: String,
    /// What no key and no tensor says.
    pub questions: Vec<Question>,
    /// How it fits the file.
    pub fit: Fit,
}

/// A known architecture and how it fits.
pub(crate) struct Candidate {
    pub(crate) spec: Arc<ArchSpec>,
    pub(crate) fit: Fit,
    /// How like the name is, from 0 to 1.
    pub(crate) named: f64,
    /// How near it is in name and in what it says, and how many extend it, from 0 to 4.
    pub(crate) likeness: f64,
}

/// Drafts a spec `id` for a model from the known ones; `None` where there is none to begin with.
pub fn draft(id: &str, evidence: &Evidence, known: &[Arc<ArchSpec>], kinds: &Kinds) -> Option<Draft> {
    let vectors = evidence.keys().contains_key("pooling_type");
    let mut candidates: Vec<Candidate> = known
        .iter()
        .filter(|spec| vectors || !makes_vectors(spec))
        .map(|spec| Candidate {
            fit: compose::fit_beside_checks(spec, evidence, kinds),
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
    let Composed { document, base, fit } = compose::compose(evidence, &candidates, kinds);
    let questions = question::questions(&document, &fit, &votes, kinds);
    let text = text::text(id, evidence, &base, &document, &questions, &fit);
    Some(Draft { nearest: nearest.spec.id().to_owned(), fitting, document, text, questions, fit })
}

/// Whether an architecture pools: files of such models say how.
fn makes_vectors(spec: &ArchSpec) -> bool {
    spec.document().pointer("/output/pooling").is_some()
}

/// How many extend it: what many are variations of is the best guess for one more.
fn extended_by(spec: &ArchSpec, known: &[Arc<ArchSpec>]) -> usize {
    known.iter().filter(|other| other.extends().iter().any(|base| base == spec.id())).count()
}

/// How like an architecture's names are: a new member of a family has the family's name.
fn named(id: &str, spec: &ArchSpec) -> f64 {
    let names = spec.gguf_names().iter().map(String::as_str).chain([spec.id()]);
    names.map(|name| alike(id, name)).fold(0.0, f64::max)
}

/// How much of two names is the same beginning, from 0 to 1; nothing below three letters, or where it ends within a word
/// of both.
fn alike(a: &str, b: &str) -> f64 {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let longer = a.chars().count().max(b.chars().count()).max(1);
    let [rest_a, rest_b] = [a, b].map(|name| name.chars().nth(same));
    let whole = rest_a.is_none() || rest_b.is_none();
    let digit = a.chars().take(same).last().is_some_and(|last| last.is_ascii_digit());
    let words = whole || digit || [rest_a, rest_b].iter().flatten().all(|next| !next.is_alphabetic());
    if same < 3 || !words { 0.0 } else { same as f64 / longer as f64 }
}

/// The first of a kind is taken where several are as good.
pub(crate) fn best<T>(items: impl IntoIterator<Item = T>, cost: impl Fn(&T) -> usize) -> Option<T> {
    items
        .into_iter()
        .enumerate()
        .min_by_key(|(at, item)| (cost(item), Reverse(usize::MAX - at)))
        .map(|(_, item)| item)
}
