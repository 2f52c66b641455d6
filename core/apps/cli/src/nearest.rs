//! [`nearest`]: the known name that is most like another one.

/// The name that is most like another one, if one is.
pub(crate) fn nearest<T: AsRef<str>>(name: &str, known: impl Iterator<Item = T>) -> Option<T> {
    let scored = known.map(|other| (strsim::jaro_winkler(name, other.as_ref()), other));
    let near = scored.filter(|(score, _)| *score >= LIKENESS);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
}

/// Least likeness of a name that is offered instead of what was typed.
pub(crate) const LIKENESS: f64 = 0.8;
