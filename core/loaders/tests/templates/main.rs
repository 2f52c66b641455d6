//! Chat templates, rendered as Python's Jinja2 renders them (see README.md beside this file).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod constructs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use menagerie_loaders::{ChatTemplate, RenderOptions, TemplateError};
use serde_json::{Map, Value};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/templates");

fn json(path: &Path) -> Map<String, Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match serde_json::from_str(&text).unwrap() {
        Value::Object(map) => map,
        other => panic!("{}: {other}", path.display()),
    }
}

/// Templates, the conversations to render with each, and what Jinja2 makes of them.
struct Suite {
    templates: PathBuf,
    conversations: Map<String, Value>,
    expected: Map<String, Value>,
}

/// One rendering, and what Jinja2 makes of it.
struct Case<'a> {
    name: &'a str,
    source: &'a str,
    conversation: &'a str,
    template: &'a ChatTemplate,
    messages: &'a [Value],
    options: &'a RenderOptions,
    expected: &'a Value,
}

impl Suite {
    /// The templates of this project.
    fn own() -> Self {
        Self::of(&Path::new(HERE).join("jinja"), Path::new(HERE))
    }

    /// The templates of the folder in CHAT_TEMPLATES.
    fn published() -> Self {
        let folder = PathBuf::from(std::env::var_os("CHAT_TEMPLATES").unwrap());
        Self::of(&folder, &folder)
    }

    fn of(templates: &Path, expected: &Path) -> Self {
        let suite = Self {
            templates: templates.to_owned(),
            conversations: json(&Path::new(HERE).join("conversations.json")),
            expected: json(&expected.join("expected.json")),
        };
        let expected: BTreeSet<String> = suite.expected.keys().cloned().collect();
        assert_eq!(suite.names(), expected, "run make_expected.py again");
        suite
    }

    /// The names of the templates in the folder.
    fn names(&self) -> BTreeSet<String> {
        let files = std::fs::read_dir(&self.templates).unwrap().map(|entry| entry.unwrap().path());
        let templates = files.filter(|path| path.extension().is_some_and(|extension| extension == "jinja"));
        templates.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    }

    fn source(&self, name: &str) -> String {
        std::fs::read_to_string(self.templates.join(format!("{name}.jinja"))).unwrap()
    }

    fn each(&self, mut check: impl FnMut(&Case<'_>)) {
        for (name, of) in &self.expected {
            let source = self.source(name);
            let template = ChatTemplate::new(name, &source, Some("<s>"), Some("</s>"))
                .unwrap_or_else(|error| panic!("{error}"));
            for (conversation, value) in &self.conversations {
                let options = RenderOptions::default()
                    .with_tools(value["tools"].as_array().cloned())
                    .with_add_generation_prompt(value["add_generation_prompt"].as_bool().unwrap_or(true))
                    .with_extra(value["extra"].as_object().cloned().unwrap_or_default())
                    .with_now(UNIX_EPOCH + Duration::from_secs(1_709_210_096));
                let expected = &of[conversation];
                assert!(expected.is_object(), "{name} / {conversation}: run make_expected.py again");
                let messages = value["messages"].as_array().unwrap();
                let (template, options, source) = (&template, &options, &*source);
                check(&Case { name, source, conversation, template, messages, options, expected });
            }
        }
    }

    /// The renderings that differ from Jinja2's, and those that are refused although Jinja2 makes a text.
    fn compare(&self) -> (Vec<String>, Vec<String>) {
        let (mut wrong, mut refused) = (Vec::new(), Vec::new());
        self.each(|case| match case.compare() {
            Ok(()) => {}
            Err(Difference::Refused) => refused.push(format!("{} / {}", case.name, case.conversation)),
            Err(Difference::Wrong(how)) => {
                wrong.push(format!("{} / {}: {how}", case.name, case.conversation));
            }
        });
        (wrong, refused)
    }
}

enum Difference {
    Refused,
    Wrong(String),
}

impl Case<'_> {
    fn compare(&self) -> Result<(), Difference> {
        let line = self.expected["line"].as_u64().map(|line| line as usize);
        let how = match (self.template.render(self.messages, self.options), self.expected_text()) {
            (Ok(text), Some(expected)) if text == expected => return Ok(()),
            (Ok(text), Some(expected)) => difference(&text, expected),
            (Ok(text), None) => format!("Jinja2 raises {}, here {text:?}", self.expected["error"]),
            (Err(error), Some(expected)) if escaped(&error, expected) => return Err(Difference::Refused),
            (Err(error), Some(_)) => error.to_string(),
            (Err(error), None) => {
                let raised = self.expected["error"].as_str().unwrap();
                if self.same_failure(&error, raised, line) {
                    return Ok(());
                }
                format!("Jinja2 raises {raised:?} in line {line:?}, here {error}")
            }
        };
        Err(Difference::Wrong(how))
    }

    /// Whether what Jinja2 raises is raised here: the template's own words in its own line; where Python fails, the
    /// rendering fails in the same line, and by no limit of ours.
    fn same_failure(&self, error: &TemplateError, raised: &str, expected: Option<usize>) -> bool {
        match (error, raised.strip_prefix("TemplateError: ")) {
            (TemplateError::Raised { message, line, .. }, Some(words)) => {
                message == words && *line == expected
            }
            (TemplateError::Render { line, problem, .. }, None) => {
                self.same_line(*line, expected)
                    && !problem.contains("exceeds its limits")
                    && !problem.contains("fuel")
            }
            _ => false,
        }
    }

    /// Whether two lines are the same one. Where a text in a tag goes over lines, Python names the line on which the
    /// expression begins; here it is the line of the operator.
    fn same_line(&self, here: Option<usize>, expected: Option<usize>) -> bool {
        let (Some(here), Some(expected)) = (here, expected) else { return here == expected };
        let mut between = self.source.lines().skip(expected - 1).take(here.saturating_sub(expected));
        here >= expected && between.all(|line| !line.contains("%}") && !line.contains("}}"))
    }

    fn expected_text(&self) -> Option<&str> {
        self.expected["text"].as_str()
    }
}

/// Jinja2 HTML-escapes what is added to a safe text (`"..."|safe + x`). That is refused here, not imitated.
fn escaped(error: &TemplateError, expected: &str) -> bool {
    let escapes = ["&lt;", "&gt;", "&amp;", "&#34;", "&#39;"];
    matches!(error, TemplateError::Render { line: Some(_), problem, .. } if problem.contains("escapes the other text"))
        && escapes.iter().any(|escape| expected.contains(escape))
}

/// Where two texts part.
fn difference(got: &str, expected: &str) -> String {
    let at = got.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
    format!("\n  expected ...{:?}\n  got      ...{:?}", part(expected), part(got))
}

#[test]
fn templates_render_as_jinja2_renders_them() {
    let suite = Suite::own();
    let (wrong, refused) = suite.compare();
    assert!(suite.expected.len() >= 35 && suite.conversations.len() >= 14);
    assert!(wrong.is_empty(), "{} renders differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(refused, ["safe_sums / tools", "safe_sums / schemas"]);
}

/// Run with `CHAT_TEMPLATES=<folder> cargo test -p menagerie-loaders --test templates -- --ignored`.
#[test]
#[ignore = "needs a folder of published chat templates in CHAT_TEMPLATES"]
fn published_templates_render_as_jinja2_renders_them() {
    let suite = Suite::published();
    let (wrong, refused) = suite.compare();
    println!("{} templates; refused: {refused:?}", suite.expected.len());
    assert!(!suite.expected.is_empty(), "no templates");
    assert!(wrong.is_empty(), "{} renders differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Segments make the same text, and no special token that came from a content is trusted. Returns the renderings that are
/// refused because text and special tokens could not be told apart.
fn check_segments(suite: &Suite) -> Vec<String> {
    let mut untrusted = Vec::new();
    suite.each(|case| {
        let place = format!("{} / {}", case.name, case.conversation);
        let guarded = ["<|im_end|>", "</s>", "<s>", "<|user|>"];
        let Some(expected) = case.expected_text() else { return };
        let segments = match case.template.render_segments(case.messages, case.options, &guarded) {
            Ok(segments) => segments,
            Err(error) if escaped(&error, expected) => return,
            Err(TemplateError::Untrusted { .. }) => return untrusted.push(place),
            Err(error) => panic!("{place}: {error}"),
        };
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        assert_eq!(text, expected, "{place}");
        if case.conversation == "two_users" {
            let trusted: Vec<&str> = segments.iter().filter(|s| s.trusted).map(|s| s.text.as_str()).collect();
            assert!(!trusted.iter().any(|text| text.contains("<|im_end|></s> {{")), "{place}: {segments:?}");
            let untrusted = segments.iter().any(|s| !s.trusted && s.text.contains("<|im_end|></s>"));
            assert!(untrusted || !expected.contains("<|im_end|></s>"), "{place}: {segments:?}");
        }
    });
    untrusted
}

#[test]
fn segments_make_the_same_text() {
    // It turns texts around.
    assert_eq!(check_segments(&Suite::own()), ["text_methods / two_users"]);
}

#[test]
#[ignore = "needs a folder of published chat templates in CHAT_TEMPLATES"]
fn segments_of_published_templates_make_the_same_text() {
    assert_eq!(check_segments(&Suite::published()), Vec::<String>::new());
}

/// What published templates are made of is tried by templates of this project: constructs.toml says by which.
#[test]
fn every_listed_construct_is_in_the_template_that_is_named() {
    let suite = Suite::own();
    let listed = constructs::listed(&Path::new(HERE).join("constructs.toml"));
    assert!(listed.len() >= 170);
    for (construct, template) in &listed {
        assert!(suite.names().contains(template), "{construct}: there is no template {template}");
        let found = constructs::of(&suite.source(template));
        assert!(found.contains(construct), "{template}.jinja has no `{construct}`, only {found:#?}");
    }
    let covering: BTreeSet<&String> = listed.values().collect();
    let readme = std::fs::read_to_string(Path::new(HERE).join("README.md")).unwrap();
    for name in suite.names() {
        assert!(readme.contains(&format!("| `{name}` |")), "README.md does not say what {name} stands for");
    }
    assert!(covering.len() >= 10, "{covering:?}");
}

#[test]
#[ignore = "needs a folder of published chat templates in CHAT_TEMPLATES"]
fn constructs_of_published_templates_are_listed() {
    let suite = Suite::published();
    let listed = constructs::listed(&Path::new(HERE).join("constructs.toml"));
    let mut missing = Vec::new();
    for name in suite.names() {
        let found = constructs::of(&suite.source(&name));
        println!("{name}\t{}", found.iter().cloned().collect::<Vec<_>>().join("\t"));
        let new = found.into_iter().filter(|construct| !listed.contains_key(construct));
        missing.extend(new.map(|construct| format!("{name}: {construct}")));
    }
    assert!(
        missing.is_empty(),
        "no template of this project has these; write one, and list it in constructs.toml:\n{}",
        missing.join("\n")
    );
}
