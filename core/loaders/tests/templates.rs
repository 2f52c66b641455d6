//! The published chat templates, rendered as Python's Jinja2 renders them (see tests/templates/SOURCE.md).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use menagerie_loaders::{ChatTemplate, RenderOptions, TemplateError};
use serde_json::{Map, Value};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/templates"))
}

fn json(name: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    match serde_json::from_str(&text).unwrap() {
        Value::Object(map) => map,
        other => panic!("{name}: {other}"),
    }
}

fn options(conversation: &Value) -> RenderOptions {
    RenderOptions::default()
        .with_tools(conversation["tools"].as_array().cloned())
        .with_add_generation_prompt(conversation["add_generation_prompt"].as_bool().unwrap_or(true))
        .with_extra(conversation["extra"].as_object().cloned().unwrap_or_default())
        .with_now(UNIX_EPOCH + Duration::from_secs(1_709_210_096))
}

fn template(name: &str) -> Result<ChatTemplate, TemplateError> {
    let source = std::fs::read_to_string(folder().join(format!("{name}.jinja"))).unwrap();
    ChatTemplate::new(name, &source, Some("<s>"), Some("</s>"))
}

/// Jinja2 HTML-escapes what is added to a safe text (`"..."|safe + x`); that is refused, not imitated.
fn refused(name: &str, conversation: &str) -> bool {
    name == "meetkai-functionary-medium-v3.1" && ["tools", "tool_calls"].contains(&conversation)
}

/// Calls `check` with template name, conversation name, template, messages, options, expected.
fn each(mut check: impl FnMut(&str, &str, &ChatTemplate, &[Value], &RenderOptions, &Value)) {
    let conversations = json("conversations.json");
    let expected = json("expected.json");
    assert!(expected.len() >= 70 && conversations.len() >= 9);
    for (name, of) in &expected {
        let template = template(name).unwrap_or_else(|error| panic!("{error}"));
        for (conversation_name, conversation) in &conversations {
            let messages = conversation["messages"].as_array().unwrap();
            check(
                name,
                conversation_name,
                &template,
                messages,
                &options(conversation),
                &of[conversation_name],
            );
        }
    }
}

#[test]
fn templates_render_as_jinja2_renders_them() {
    let mut wrong = Vec::new();
    each(|name, conversation, template, messages, options, expected| {
        let place = format!("{name} / {conversation}");
        let rendered = template.render(messages, options);
        if refused(name, conversation) {
            let message = rendered.unwrap_err().to_string();
            assert!(message.contains("line 22") && message.contains("escapes the other text"), "{message}");
            return;
        }
        match (rendered, expected["text"].as_str(), expected["error"].as_str()) {
            (Ok(text), Some(expected), _) if text == expected => {}
            (Ok(text), Some(expected), _) => wrong.push(format!("{place}:\n{}", difference(&text, expected))),
            (Ok(text), None, error) => wrong.push(format!("{place}: Jinja2 raises {error:?}, here {text:?}")),
            (Err(error), Some(_), _) => wrong.push(format!("{place}: {error}")),
            (Err(error), None, raised) => {
                let line = expected["line"].as_u64().map(|line| line as usize);
                if let Err(other) = same_failure(&error, raised.unwrap_or_default(), line) {
                    wrong.push(format!("{place}: Jinja2 raises {raised:?} in line {line:?}, here {other}"));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{} renders differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// What Jinja2 raises is raised here: the template's own words in its own line; where Python fails, the rendering fails
/// in the same line, and by no limit of ours.
fn same_failure(error: &TemplateError, raised: &str, expected: Option<usize>) -> Result<(), String> {
    let same = match (error, raised.strip_prefix("TemplateError: ")) {
        (TemplateError::Raised { message, line, .. }, Some(words)) => message == words && *line == expected,
        (TemplateError::Render { line, problem, .. }, None) => {
            *line == expected && !problem.contains("wants too much") && !problem.contains("fuel")
        }
        _ => false,
    };
    if same { Ok(()) } else { Err(error.to_string()) }
}

/// Where two texts part.
fn difference(got: &str, expected: &str) -> String {
    let at = got.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
    format!("  expected ...{:?}\n  got      ...{:?}", part(expected), part(got))
}

#[test]
fn segments_make_the_same_text() {
    each(|name, conversation, template, messages, options, expected| {
        let guarded = ["<|im_end|>", "</s>", "<s>", "<|user|>"];
        let Some(expected) = expected["text"].as_str().filter(|_| !refused(name, conversation)) else {
            return;
        };
        let Ok(segments) = template.render_segments(messages, options, &guarded) else {
            panic!("{name} / {conversation}: refused");
        };
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        assert_eq!(text, expected, "{name} / {conversation}");
        if conversation == "two_users" {
            let foreign: Vec<&str> = segments.iter().filter(|s| s.trusted).map(|s| s.text.as_str()).collect();
            assert!(!foreign.iter().any(|text| text.contains("<|im_end|></s> {{")), "{name}: {segments:?}");
            let untrusted = segments.iter().any(|s| !s.trusted && s.text.contains("<|im_end|></s>"));
            assert!(untrusted || !expected.contains("<|im_end|></s>"), "{name}: {segments:?}");
        }
    });
}
