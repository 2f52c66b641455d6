//! [`text`]: a draft as a spec file, with the differences to the spec that it extends, and questions as comments.

use super::question::{Question, QuestionSubject};
use super::{Evidence, Fit};
use menagerie_spec::{ArchSpec, toml_text, toml_value};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Sections that a spec inherits and a draft may change.
const INHERITED: [&str; 11] = [
    "let",
    "layers",
    "embedding",
    "norm",
    "block",
    "mixer",
    "feed_forward",
    "output",
    "check",
    "gguf",
    "nextn",
];

/// Most specs in a chain of inheritance.
const DEPTH: usize = 3;

/// Most characters in a line of a comment.
const WIDTH: usize = 118;

/// The text of the file.
pub(crate) fn text(
    id: &str,
    evidence: &Evidence,
    base: &ArchSpec,
    document: &Value,
    questions: &[Question],
    fit: &Fit,
) -> String {
    let mut text = format!(
        "# Drafted from the keys and tensors of {}, and checked only against them:\n",
        evidence.file.rsplit(['/', '\\']).next().unwrap_or_default()
    );
    text.push_str(match fit.cost() {
        0 => "# every key is read and every tensor is used. `# ?` marks what the file does not state.\n",
        _ => "# some keys or tensors of the file are not used yet (see the questions). `# ?` marks what the file does \
              not state.\n",
    });
    // If the chain of inheritance is too long, the draft states everything.
    let extends = base.extends.len() < DEPTH;
    let (changed, unset) = if extends { changed(base, document) } else { (inherited(document), Vec::new()) };
    let unset: Vec<String> = unset.iter().map(|path| toml_value(&json!(path))).collect();
    text.push_str("schema  = 1\n");
    if extends {
        let _ = writeln!(text, "extends = {}", toml_value(&json!(base.id())));
    }
    if !unset.is_empty() {
        let _ = writeln!(text, "unset   = [{}]", unset.join(", "));
    }
    let _ = writeln!(text, "\n[architecture]\nid = {}", toml_value(&json!(id)));
    text.push_str(&toml_text(&Value::Object(changed)));
    asked(questions, &mut text);
    text
}

/// The sections that a spec inherits.
fn inherited(document: &Value) -> Map<String, Value> {
    let there = INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), document.get(name)?.clone())));
    there.collect()
}

/// The differences to the base, and the paths of the base that are removed.
fn changed(base: &ArchSpec, document: &Value) -> (Map<String, Value>, Vec<String>) {
    let theirs = base.document();
    let mut unset = Vec::new();
    let changed = difference(&inherited(&theirs), &inherited(document), "", &mut unset);
    (changed, unset)
}

/// The table that changes `base` into `target`. A table of another kind is written whole, as it replaces that of the
/// base.
fn difference(
    base: &Map<String, Value>,
    target: &Map<String, Value>,
    path: &str,
    unset: &mut Vec<String>,
) -> Map<String, Value> {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    unset.extend(base.keys().filter(|name| !target.contains_key(*name)).map(|name| below(name)));
    let mut changed = Map::new();
    for (name, value) in target {
        let (old, table) = (base.get(name), value.as_object());
        let merges = |old: &Map<String, Value>, new: &Map<String, Value>| {
            ["kind", "by"].iter().all(|name| old.get(*name) == new.get(*name))
        };
        match (old.and_then(Value::as_object), table) {
            (Some(old), Some(new)) if merges(old, new) => {
                let inner = difference(old, new, &below(name), unset);
                if !inner.is_empty() {
                    changed.insert(name.clone(), Value::Object(inner));
                }
            }
            // A table without a kind would be merged with that of the base.
            (Some(_), Some(new)) if !new.contains_key("kind") && !new.contains_key("by") => {
                unset.push(below(name));
                changed.insert(name.clone(), value.clone());
            }
            _ if old == Some(value) => {}
            _ => drop(changed.insert(name.clone(), value.clone())),
        }
    }
    changed
}

fn asked(questions: &[Question], text: &mut String) {
    let parts = [
        (
            QuestionSubject::Check,
            "Checks of the nearest architecture that fail for this model, and are omitted.",
        ),
        (
            QuestionSubject::Key,
            "Keys of the file that the draft does not read: read them in an expression, or list them under\n\
             # [gguf.ignore_keys] with a reason.",
        ),
        (
            QuestionSubject::Tensor,
            "Unused tensors: add the option that claims them (`menagerie spec kinds KIND`), or list them in\n\
             # [gguf.ignore_tensors].",
        ),
        (
            QuestionSubject::Component,
            "Components in a form that no known architecture has: the draft has a guess that does not fit.",
        ),
        (
            QuestionSubject::Value,
            "Values of the draft that only logits can verify. To change one, write it into its table.",
        ),
        (
            QuestionSubject::Absent,
            "Options that the draft omits: does the model have them? (`menagerie spec kinds KIND` shows how to write them.)",
        ),
    ];
    for (about, heading) in parts {
        let these: Vec<&Question> = questions.iter().filter(|question| question.about == about).collect();
        if these.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n# {heading}");
        for question in these {
            let _ = writeln!(text, "{}", line(question));
        }
    }
}

fn line(question: &Question) -> String {
    let value = question.value.as_ref().filter(|value| !value.is_empty());
    let mut line = format!("# ? {}", question.path);
    if let Some(value) = value {
        let _ = write!(line, " = {value}");
    }
    let _ = write!(line, ": {}", question.meaning.trim_end_matches('.'));
    if question.votes.len() > 1 {
        let votes = question.votes.iter().take(4).map(|(value, count)| format!("{value} ({count})"));
        let _ = write!(line, "; known ones that fit: {}", votes.collect::<Vec<_>>().join(", "));
    }
    if line.chars().count() <= WIDTH {
        return line;
    }
    line.chars().take(WIDTH - 3).collect::<String>() + "..."
}
