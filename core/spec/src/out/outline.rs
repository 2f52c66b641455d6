//! [`Outline`]: the computation of a spec from embedding to logits, step by step.

use crate::language::spec::ArchSpec;
use crate::out::stated::StatedOption;

/// The steps of a model, in order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Outline {
    /// From token ids to the stream.
    pub embedding: Vec<OutlineStep>,
    /// The branches of a block: the mixer, then the feed-forward.
    pub branches: Vec<OutlineBranch>,
    /// From the stream to logits or embeddings.
    pub output: Vec<OutlineStep>,
}

/// A branch of a block.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct OutlineBranch {
    /// `mixer` or `feed_forward`.
    pub name: &'static str,
    /// Whether it reads the input of the block, in parallel to the other branch.
    pub parallel: bool,
    /// Steps before the branch is added to the stream.
    pub steps: Vec<OutlineStep>,
    /// The factor with which it is added, if that is not 1.
    pub scale: Option<String>,
    /// Steps of the stream after the addition.
    pub after: Vec<OutlineStep>,
}

/// A step with its details.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct OutlineStep {
    /// What it computes.
    pub title: String,
    /// The options that the spec states for it, one line each.
    pub details: Vec<String>,
}

/// The options of a spec.
struct StatedOptions(Vec<StatedOption>);

impl StatedOptions {
    /// The value at a path without quotes, if it is stated.
    fn value(&self, path: &str) -> Option<String> {
        let found = self.0.iter().find(|option| option.path == path)?;
        found.plain()
    }

    /// The norm at a site, whose role is a string or in a table.
    fn site(&self, path: &str) -> Option<OutlineStep> {
        let role = self
            .value(&format!("{path}.role"))
            .or_else(|| self.value(path))
            .filter(|role| !role.is_empty())?;
        let kind = self.value("norm").unwrap_or_default();
        let when = self.value(&format!("{path}.when")).map(|when| format!("if {when}"));
        Some(OutlineStep { title: format!("{kind} norm {role}"), details: when.into_iter().collect() })
    }
}

impl Outline {
    /// The steps of a spec.
    pub fn of(spec: &ArchSpec) -> Self {
        let options = StatedOptions(spec.options());
        let mut embedding = vec![OutlineStep { title: "token embedding".to_owned(), details: Vec::new() }];
        let plain = [("positions", "+ positions"), ("token_types", "+ token types"), ("scale", "times")];
        for (name, words) in plain {
            if let Some(value) = options.value(&format!("embedding.{name}")) {
                embedding[0].details.push(format!("{words} {value}"));
            }
        }
        embedding.extend(options.site("embedding.norm"));
        let branches = ["mixer", "feed_forward"].map(|name| branch(&options, name));
        let mut output: Vec<OutlineStep> = options.site("output.norm").into_iter().collect();
        let head = options.value("output.head").unwrap_or_default();
        let mut details = Vec::new();
        for (name, words) in [("scale", "times"), ("softcap", "soft-cap"), ("pooling", "pooling")] {
            details.extend(options.value(&format!("output.{name}")).map(|value| format!("{words} {value}")));
        }
        let title = if head == "none" { "no head".to_owned() } else { format!("head: {head}") };
        output.push(OutlineStep { title, details });
        Self { embedding, branches: branches.into(), output }
    }
}

fn branch(options: &StatedOptions, name: &'static str) -> OutlineBranch {
    let site = |place: &str| options.site(&format!("block.{name}.{place}"));
    let mut steps: Vec<OutlineStep> = site("pre").into_iter().collect();
    steps.extend(components(options, name));
    steps.extend(site("post"));
    OutlineBranch {
        name,
        parallel: options.value(&format!("block.{name}.reads")).is_some_and(|reads| reads == "block-input"),
        steps,
        scale: options.value(&format!("block.{name}.scale")),
        after: site("after").into_iter().chain(site("again")).collect(),
    }
}

/// The component of a branch, or its cases.
fn components(options: &StatedOptions, name: &str) -> Vec<OutlineStep> {
    let kind = options.value(name).filter(|kind| !kind.is_empty());
    if let Some(kind) = kind {
        return vec![OutlineStep { title: kind, details: details(options, name) }];
    }
    // Named cases: the tables that have a condition.
    let whens = options.0.iter().filter_map(|option| {
        let case = option.path.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".when")?;
        (!case.contains('.')).then(|| (case.to_owned(), option.plain().unwrap_or_default()))
    });
    let step = |(case, when): (String, String)| OutlineStep {
        title: format!("{case}: if {when}"),
        details: details(options, &format!("{name}.{case}")),
    };
    whens.map(step).collect()
}

/// The stated options of a component, one line each.
fn details(options: &StatedOptions, path: &str) -> Vec<String> {
    let below = format!("{path}.");
    let mut lines = Vec::new();
    for option in options.0.iter().filter(|option| option.value.is_some()) {
        let Some(name) =
            option.path.strip_prefix(&below).filter(|name| *name != "when" && !name.ends_with("kind"))
        else {
            continue;
        };
        let value = option.plain().unwrap_or_default();
        let has_own = options.0.iter().any(|other| {
            other.path.strip_prefix(&option.path).is_some_and(|rest| rest.starts_with('.'))
                && other.value.is_some()
        });
        if value.is_empty() && !has_own {
            lines.push(name.to_owned());
        } else if !value.is_empty() {
            lines.push(format!("{name} {value}"));
        }
    }
    lines
}
