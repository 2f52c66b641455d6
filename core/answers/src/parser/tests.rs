//! Answers in several formats, whole and cut at every place.

use super::AnswerParser;
use crate::part::{AnswerEnd, AnswerPart};
use crate::{
    AnswerSyntax, CallFormat, CallKeys, CallSyntax, ContentTags, ObjectKeys, ReasoningTags, ToolSet,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// The sum of the parts of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    text: String,
    reasoning: String,
    /// Name, id and arguments of each call, and whether it is complete.
    calls: Vec<(String, String, String, bool)>,
    notices: Vec<String>,
}

impl Answer {
    fn add(&mut self, parts: Vec<AnswerPart>) {
        for part in parts {
            match part {
                AnswerPart::Text(text) => self.text.push_str(&text),
                AnswerPart::Reasoning(text) => self.reasoning.push_str(&text),
                AnswerPart::Notice(text) => self.notices.push(text),
                AnswerPart::CallBegin { index, id, name } => {
                    assert_eq!(index, self.calls.len());
                    self.calls.push((name, id, String::new(), false));
                }
                AnswerPart::CallArguments { index, text } => {
                    assert_eq!(index + 1, self.calls.len());
                    self.calls[index].2.push_str(&text);
                }
                AnswerPart::CallEnd { index, call } => {
                    let (name, id, arguments, complete) = &mut self.calls[index];
                    assert!(!*complete);
                    *complete = true;
                    assert_eq!((&call.name, &call.id, &call.arguments), (&*name, &*id, &*arguments));
                    call.object().unwrap();
                }
            }
        }
    }

    /// Names and arguments of complete calls.
    fn complete(&self) -> Vec<(&str, Value)> {
        let complete = self.calls.iter().filter(|call| call.3);
        complete
            .map(|(name, _, arguments, _)| (name.as_str(), serde_json::from_str(arguments).unwrap()))
            .collect()
    }
}

fn read(syntax: &AnswerSyntax, pieces: &[&str], end: AnswerEnd) -> Answer {
    let mut parser = AnswerParser::new(syntax);
    let mut answer = Answer::default();
    for piece in pieces {
        answer.add(parser.push(piece));
    }
    answer.add(parser.finish(end));
    answer
}

/// The answer, which is the same for every cut of the text in two, and character by character.
fn every_cut(syntax: &AnswerSyntax, text: &str, end: AnswerEnd) -> Answer {
    let whole = read(syntax, &[text], end);
    for (at, _) in text.char_indices() {
        let (one, two) = text.split_at(at);
        assert_eq!(read(syntax, &[one, two], end), whole, "{one:?} {two:?}");
    }
    let characters: Vec<String> = text.chars().map(String::from).collect();
    let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
    assert_eq!(read(syntax, &characters, end), whole, "{text:?}");
    whole
}

fn tools() -> Arc<ToolSet> {
    let properties = json!({
        "city": { "type": "string" }, "days": { "type": "integer" }, "options": { "type": "object" },
    });
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": { "properties": properties } } });
    Arc::new(ToolSet::new(&[tool("get_weather"), tool("get")]).unwrap())
}

fn syntax(keys: CallKeys) -> AnswerSyntax {
    let format = Arc::new(CallFormat::new(keys).unwrap());
    let think = ReasoningTags { open: "<think>".to_owned(), close: "</think>".to_owned() };
    AnswerSyntax::of_reasoning(vec![think]).with_calls(CallSyntax::new(format, tools(), 7))
}

fn keys(open: &str, call: &str, close: &str) -> CallKeys {
    let (open, close, calls) = (open.to_owned(), close.to_owned(), vec![call.to_owned()]);
    let object = ObjectKeys { name: "name".to_owned(), arguments: "arguments".to_owned(), id: None };
    CallKeys { open, calls, close, object: Some(object), between: "\n".to_owned(), ..CallKeys::default() }
}

fn object() -> AnswerSyntax {
    syntax(keys("", "<tool_call>\n${object}\n</tool_call>", ""))
}

fn tagged() -> AnswerSyntax {
    let arg = Some("<parameter=${key}>\n${value}\n</parameter>\n".to_owned());
    let call = "<tool_call>\n<function=${name}>\n${args}</function>\n</tool_call>";
    syntax(CallKeys { arg, ..keys("", call, "") })
}

fn python() -> AnswerSyntax {
    syntax(CallKeys { between: ", ".to_owned(), bare: true, ..keys("[", "${name}(${python})", "]") })
}

#[test]
fn calls_are_told_from_text_and_reasoning() {
    let answer = every_cut(
        &object(),
        "<think>\nhm\n</think>\n\nLet me see. \n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"São \
         \\\"P\\\" </tool_call>\"}}\n</tool_call>\n<tool_call>\n{\"arguments\": {\"days\": 3}, \"name\": \
         \"get\"}\n</tool_call> \nThat is all.",
        AnswerEnd::Model,
    );
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("Let me see.That is all.", "hm"));
    let expected =
        [("get_weather", json!({ "city": "São \"P\" </tool_call>" })), ("get", json!({ "days": 3 }))];
    assert_eq!(answer.complete(), expected);
    assert_eq!(answer.notices, [] as [&str; 0]);
    let ids: Vec<&str> = answer.calls.iter().map(|call| call.1.as_str()).collect();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.starts_with("call_") && id.len() == 21), "{ids:?}");
}

#[test]
fn a_name_is_reported_before_its_arguments() {
    let mut parser = AnswerParser::new(&object());
    let parts = parser.push("<tool_call>{\"name\": \"get\", \"arguments\": {\"a\"");
    let [AnswerPart::CallBegin { index: 0, name, .. }, AnswerPart::CallArguments { text, .. }] =
        parts.as_slice()
    else {
        panic!("{parts:?}");
    };
    assert_eq!((name.as_str(), text.as_str()), ("get", "{\"a\""));
}

#[test]
fn what_is_not_a_declared_call_is_text() {
    for text in [
        "Use <tool_call> for calls.",
        "<tool_call>{\"city\": 1}</tool_call>",
        "a <tool_call",
        "<tool_call><tool_call>{}",
        "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
        "<tool_call>not json</tool_call>",
    ] {
        let answer = every_cut(&object(), text, AnswerEnd::Cut);
        assert_eq!((answer.text.as_str(), answer.complete().len()), (text, 0), "{answer:?}");
    }
    let other = "<tool_call>{\"name\": \"rm\", \"arguments\": {\"x\": \"<tool_call>{\\\"name\\\": \\\"get\\\"}\"}}</tool_call>";
    let answer = every_cut(&object(), other, AnswerEnd::Model);
    assert_eq!((answer.text.as_str(), answer.calls.len()), (other, 0));
    assert_eq!(answer.notices, ["the answer calls \"rm\", which is not one of the tools: the call is text"]);
    let after =
        every_cut(&object(), "<tool_call> <tool_call>{\"name\": \"get\"}</tool_call>", AnswerEnd::Cut);
    assert_eq!((after.text.as_str(), after.complete()), ("<tool_call> ", vec![("get", json!({}))]));
}

/// The beginning of a call that was cut before its name was known is no text, except where it may be text.
#[test]
fn the_beginning_of_a_call_that_was_cut_is_no_text() {
    let note = "the answer ends where a call begins: the call is not complete";
    for rest in ["", "\n", "\n{", "{\"name\": \"ge", "{\"arguments\": {\"days\": 3}"] {
        let begun = format!("So:\n<tool_call>{rest}");
        let cut = every_cut(&object(), &begun, AnswerEnd::Cut);
        assert_eq!((cut.text.as_str(), cut.complete().len()), ("So:", 0), "{rest}");
        assert_eq!(cut.notices, [note]);
        // The model itself does not end its answer in a call.
        assert_eq!(every_cut(&object(), &begun, AnswerEnd::Model).text, begun);
    }
    // Of a marker of several words, one was read.
    let cut = every_cut(&tagged(), "So:\n<tool_call>\n<func", AnswerEnd::Cut);
    assert_eq!((cut.text.as_str(), cut.notices.as_slice()), ("So:", &[note.to_owned()][..]));
    // Without a marker, it may be a text.
    assert_eq!(every_cut(&python(), "[get(", AnswerEnd::Cut).text, "[get(");
    for (syntax, cut) in [(python(), "[ge"), (object(), "<tool_c"), (object(), "<tool_call>{\"na")] {
        let mut answer = Answer::default();
        let mut parser = AnswerParser::new(&syntax).with_only_calls();
        answer.add(parser.push(cut));
        answer.add(parser.finish(AnswerEnd::Cut));
        assert_eq!((answer.text.as_str(), answer.notices.as_slice()), ("", &[note.to_owned()][..]), "{cut}");
    }
}

/// An answer that is a text or consists of calls: calls count at its beginning.
#[test]
fn a_text_without_calls_may_quote_one() {
    let call = "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>";
    for (text, calls) in
        [(format!("{{\"a\": \"{call}\"}}"), 0), (call.to_owned(), 1), (format!("{call}\n{call}"), 2)]
    {
        let mut answer = Answer::default();
        let mut parser = AnswerParser::new(&object()).with_calls_or_text();
        for character in text.chars() {
            answer.add(parser.push(&character.to_string()));
        }
        assert_eq!(parser.is_in_text(), calls == 0);
        answer.add(parser.finish(AnswerEnd::Model));
        assert_eq!((answer.text.is_empty(), answer.complete().len()), (calls > 0, calls), "{text}");
    }
}

#[test]
fn calls_that_are_not_complete_are_not_reported_as_complete() {
    let begun = "<tool_call>{\"name\": \"get\", \"arguments\": {\"days\": 3";
    for (text, end, note) in [
        (begun.to_owned(), AnswerEnd::Model, "the answer ends within the call of `get`"),
        (format!("{begun}}}}}"), AnswerEnd::Cut, "the answer ends within the call of `get`"),
        (
            format!("{begun}, x"),
            AnswerEnd::Model,
            "the call of `get` is not valid and not reported as complete: \"x\"",
        ),
        (format!("{begun}}}}} no end"), AnswerEnd::Model, "\" \" does not follow the format"),
        (
            format!("{begun}e99999}}}}</tool_call>"),
            AnswerEnd::Model,
            "not a JSON object: number out of range",
        ),
        (format!("{begun}, \"arguments\": 1"), AnswerEnd::Model, "the answer ends within"),
    ] {
        let answer = every_cut(&object(), &text, end);
        assert_eq!(answer.complete(), [], "{text}");
        assert!(answer.notices.len() == 1 && answer.notices[0].contains(note), "{text} {:?}", answer.notices);
    }
    // The model's end of the answer stands for the closing tag.
    let ended = every_cut(&object(), &format!("{begun}}}}}</tool"), AnswerEnd::Model);
    assert_eq!(ended.complete(), [("get", json!({ "days": 3 }))]);
}

#[test]
fn a_call_ends_reasoning() {
    let answer = every_cut(
        &object(),
        "<think>Not <tool_call> x, but \n<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>",
        AnswerEnd::Model,
    );
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("Not <tool_call> x, but", ""));
    assert_eq!(answer.complete(), [("get", json!({}))]);
    let quoted = "<think>as <tool_call>{\"name\": \"rm\"}</tool_call></think>no";
    let answer = every_cut(&object(), quoted, AnswerEnd::Model);
    assert_eq!(
        (answer.reasoning.as_str(), answer.text.as_str()),
        ("as <tool_call>{\"name\": \"rm\"}</tool_call>", "no")
    );
}

#[test]
fn values_without_quotes_are_typed_by_the_schema() {
    let answer = every_cut(
        &tagged(),
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n a\n\"b\" </p\n\n</parameter>\n<parameter=days>\n3\n\
         </parameter>\n<parameter=options>{'x': [True, None]}</parameter><parameter=more>4</parameter>\n\
         </function>\n</tool_call>",
        AnswerEnd::Model,
    );
    let expected =
        json!({ "city": " a\n\"b\" </p\n", "days": 3, "options": { "x": [true, null] }, "more": "4" });
    assert_eq!(answer.complete(), [("get_weather", expected)]);
    let none = every_cut(&tagged(), "<tool_call><function=get></function></tool_call>", AnswerEnd::Cut);
    assert_eq!(none.complete(), [("get", json!({}))]);
    for cut in ["", "<parameter=a>\n1\n</parameter>\n"] {
        let text = format!("<tool_call><function=get>{cut}");
        assert_eq!(every_cut(&tagged(), &text, AnswerEnd::Model).complete(), [], "arguments may be missing");
    }
    let twice = "<tool_call><function=get><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>";
    let twice = every_cut(&tagged(), twice, AnswerEnd::Model);
    assert!(twice.complete().is_empty() && twice.notices[0].contains("\"a\" occurs twice"), "{twice:?}");
}

/// JSON ends where it ends: a tag in one of its strings belongs to it.
#[test]
fn a_tag_in_a_string_of_a_json_argument_is_a_part_of_it() {
    let options = |value: &str| {
        format!(
            "<tool_call><function=get><parameter=options>\n{value}\n</parameter>\n</function></tool_call>"
        )
    };
    let text = options(r#"{"x": "a </parameter> \"</parameter>", "y": ["</parameter>"]}"#);
    let expected = json!({ "options": { "x": "a </parameter> \"</parameter>", "y": ["</parameter>"] } });
    assert_eq!(every_cut(&tagged(), &text, AnswerEnd::Model).complete(), [("get", expected)]);
    // What is no JSON ends at the first tag.
    let broken = every_cut(&tagged(), &options("{x"), AnswerEnd::Model);
    assert_eq!(broken.complete(), [("get", json!({ "options": "{x" }))]);
}

/// Forms of a call that begin with a marker, and with nothing.
#[test]
fn a_form_with_a_marker_is_read_beside_one_without() {
    let calls = vec!["${object}".to_owned(), "<tag>${object}".to_owned()];
    let syntax = syntax(CallKeys { calls, bare: true, single: true, ..keys("", "", "") });
    for text in ["{\"name\": \"get\"}", "<tag>{\"name\": \"get\"}", "<tag>\n{\"name\": \"get\"}"] {
        let answer = every_cut(&syntax, text, AnswerEnd::Model);
        assert_eq!((answer.complete(), answer.text.as_str()), (vec![("get", json!({}))], ""), "{text}");
    }
}

#[test]
fn a_call_that_begins_in_text_is_told_with_its_text() {
    let mut parser = AnswerParser::new(&object());
    parser.push("Well, <tool");
    assert_eq!(parser.begun_call(), None);
    parser.push("_call>\n{");
    assert_eq!(parser.begun_call(), Some("<tool_call>\n{"));
    parser.push("\"name\"");
    assert_eq!(parser.begun_call(), None);
    // Calls in reasoning do not count so, and need not count at all.
    let mut parser = AnswerParser::new(&object());
    parser.push("<think>a <tool_call>{\"name\": ");
    assert_eq!(parser.begun_call(), None);
    let mut parser = AnswerParser::new(&object()).with_calls_after_reasoning();
    let call = "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>";
    let mut answer = Answer::default();
    answer.add(parser.push(&format!("<think>{call}</think>{call}")));
    answer.add(parser.finish(AnswerEnd::Model));
    assert_eq!((answer.reasoning.as_str(), answer.complete().len()), (call, 1));
}

#[test]
fn python_calls_count_at_the_beginning_only() {
    let answer = every_cut(
        &python(),
        "[get_weather(city='a, \"b\" (c)', days=3), get(options={'x': True})]",
        AnswerEnd::Model,
    );
    let expected = [
        ("get_weather", json!({ "city": "a, \"b\" (c)", "days": 3 })),
        ("get", json!({ "options": { "x": true } })),
    ];
    assert_eq!(answer.complete(), expected);
    for text in ["[1, 2]", "[get]", "see [get(days=3)]", "[", "[rm(a=1)]", "[get(3)]"] {
        let answer = every_cut(&python(), text, AnswerEnd::Model);
        assert_eq!(answer.complete(), [], "{text}");
        assert!(answer.text == text || text == "[get(3)]", "{text} {answer:?}");
    }
}

#[test]
fn channels_are_tags() {
    let reasoning = ReasoningTags { open: "<|channel|>analysis<|message|>".into(), close: "<|end|>".into() };
    let content = |open: &str, close: Option<&str>| ContentTags {
        open: open.into(),
        close: close.map(Into::into),
        ..ContentTags::default()
    };
    let call = " to=functions.${name}<|channel|>commentary json<|message|>${arguments}<|call|>";
    let also = "<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${arguments}<|call|>";
    let calls = vec![call.to_owned(), also.to_owned(), also.replace(" <|constrain|>json", "")];
    let CallSyntax { format, tools, .. } =
        syntax(CallKeys { calls, single: true, ..keys("", call, "") }).calls.unwrap();
    let syntax = AnswerSyntax::of_reasoning(vec![reasoning])
        .with_content(vec![
            content("<|channel|>final<|message|>", Some("<|end|>")),
            content("<|channel|>commentary<|message|>", Some("<|end|>")),
            content("<|start|>assistant", None),
        ])
        .with_calls(CallSyntax::new(format, tools, 0));
    let think = "<|channel|>analysis<|message|>hm<|end|>";
    for (rest, text, called) in [
        ("<|start|>assistant<|channel|>final<|message|>Yes.", "Yes.", false),
        ("<|start|>assistant to=functions.get<|channel|>commentary json<|message|>{}", "", true),
        (
            "<|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>{}<|call|>",
            "",
            true,
        ),
        ("<|start|>assistant<|channel|>commentary to=functions.get<|message|>{}", "", true),
        (
            "<|start|>assistant<|channel|>commentary<|message|>So:<|end|><|start|>assistant<|channel|>commentary \
             to=functions.get <|constrain|>json<|message|>{}<|call|>",
            "So:",
            true,
        ),
    ] {
        let answer = every_cut(&syntax, &format!("{think}{rest}"), AnswerEnd::Model);
        assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("hm", text), "{rest}");
        assert_eq!(answer.complete().len(), usize::from(called), "{rest} {answer:?}");
    }
}

#[test]
fn a_prompt_may_end_with_the_beginning_of_a_marker() {
    let all = ContentTags { open: ">>>all\n".to_owned(), ..ContentTags::default() };
    let syntax =
        syntax(keys("", ">>>${name}\n${arguments}", "")).with_content(vec![all]).after_prompt("x\n\n>>>");
    assert_eq!(syntax.begun, ">>>");
    assert_eq!(every_cut(&syntax, "all\nHi.", AnswerEnd::Model).text, "Hi.");
    let answer = every_cut(&syntax, "get\n{\"days\": 1}", AnswerEnd::Cut);
    assert_eq!((answer.complete(), answer.text.as_str()), (vec![("get", json!({ "days": 1 }))], ""));
    let both = every_cut(&syntax, "all\nHi.>>>get\n{}", AnswerEnd::Cut);
    assert_eq!((both.complete(), both.text.as_str()), (vec![("get", json!({}))], "Hi."));
}

#[test]
fn what_is_held_back_is_limited() {
    let call = "<tool_call>{\"arguments\": {\"a\": \"";
    let mut parser = AnswerParser::new(&object());
    let mut answer = Answer::default();
    answer.add(parser.push(call));
    for _ in 0..400 {
        answer.add(parser.push(&"x".repeat(1024)));
    }
    answer.add(parser.finish(AnswerEnd::Cut));
    assert_eq!(answer.text.len(), call.len() + 400 * 1024);
    let space = " ".repeat(100_000);
    for text in [format!("a{space}b"), format!("{space}b"), format!("a<tool_call>{space}{{")] {
        assert_eq!(read(&object(), &[&text], AnswerEnd::Model).text, text);
    }
}

proptest! {
    /// Pieces of calls in any order give the same answer in any cut, and never panic.
    #[test]
    fn any_answer_is_the_sum_of_its_parts(
        parts in prop::collection::vec(prop::sample::select(vec![
            "<tool_call>", "</tool_call>", "\n", " ", "{", "}", "\"name\": ", "\"get\"", "\"rm\"", ", ", "\"arguments\": ",
            "{\"name\": \"get\", \"arguments\": {", "}}", "<function=get>", "</function>", "<parameter=a>", "</parameter>",
            "<think>", "</think>", "[get(", ")]", "a=", "'x'", "1", "text", "é", "\\",
        ]), 0..14),
        cuts in prop::collection::vec(0usize..200, 0..5),
        ended in any::<bool>(),
    ) {
        let text = parts.concat();
        let end = if ended { AnswerEnd::Model } else { AnswerEnd::Cut };
        for syntax in [object(), tagged(), python()] {
            let mut cuts: Vec<usize> = cuts.iter().copied().filter(|cut| text.is_char_boundary(*cut)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut rest = text.as_str();
            for cut in cuts.into_iter().rev() {
                let (before, after) = rest.split_at(cut.min(rest.len()));
                pieces.insert(0, after);
                rest = before;
            }
            pieces.insert(0, rest);
            prop_assert_eq!(read(&syntax, &pieces, end), read(&syntax, &[text.as_str()], end), "{:?}", pieces);
        }
    }
}
