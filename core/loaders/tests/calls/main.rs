//! Formats of calls: each entry of specs/tokenizers/calls.toml is verified with a chat template, and read in any cut.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod families;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use menagerie_answers::{
    AnswerEnd, AnswerParser, AnswerPart, AnswerSyntax, CallFormat, CallSyntax, ToolCall, ToolSet,
};
use menagerie_loaders::{ChatTemplate, RenderOptions, TokenizerTables};
use serde_json::{Value, json};

fn template(name: &str, source: &str) -> ChatTemplate {
    ChatTemplate::new(name, source, Some("<s>"), Some("</s>"))
        .unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// The reason why tools are refused with a template.
fn refusal(source: &str) -> String {
    let tables = TokenizerTables::built_in().unwrap();
    template("own", source).call_support(&tables).unwrap_err().to_string()
}

#[test]
fn every_format_is_verified_with_a_template_of_its_family() {
    let tables = TokenizerTables::built_in().unwrap();
    let mut verified = BTreeSet::new();
    for family in families::all() {
        let support = template(family.format, &family.source).call_support(&tables);
        let support = support.unwrap_or_else(|error| panic!("{}: {error}\n{}", family.format, family.source));
        assert_eq!((support.format.name(), support.arguments_as_text), (family.format, false));
        verified.insert(family.format);
    }
    assert_eq!(verified, tables.call_formats().collect::<BTreeSet<_>>());
}

fn tools() -> Vec<Value> {
    let text = json!({ "type": "string" });
    let parameters =
        json!({ "type": "object", "properties": { "a": text, "b": { "type": ["array", "null"] } } });
    vec![json!({ "type": "function", "function": { "name": "look_up", "parameters": parameters } })]
}

/// The answer that a template writes for these calls, and what it has.
fn written(source: &str, format: &Arc<CallFormat>) -> (String, AnswerSyntax, Vec<Value>) {
    let all = [json!({ "a": "x </a> \"q\" 'p'\n{1}, [2]", "b": [1, null] }), json!({}), json!({ "a": "é" })];
    let most = if format.keys().single { 1 } else { 3 };
    let arguments: Vec<Value> = all.into_iter().take(most).collect();
    let call = |(index, arguments): (usize, &Value)| {
        let id = format.make_id("look_up", index, 1);
        json!({ "id": id, "type": "function", "function": { "name": "look_up", "arguments": arguments } })
    };
    let calls: Vec<Value> = arguments.iter().enumerate().map(call).collect();
    let template = template(format.name(), source);
    let render = |messages: &[Value], prompt: bool| {
        let options = RenderOptions::default().with_tools(tools()).with_add_generation_prompt(prompt);
        template.render(messages, &options.with_now(UNIX_EPOCH)).unwrap()
    };
    let question = json!({ "role": "user", "content": "?" });
    let answer = json!({ "role": "assistant", "content": "", "tool_calls": calls });
    let prompt = render(std::slice::from_ref(&question), true);
    let whole = render(&[question, answer], false);
    let syntax = TokenizerTables::built_in().unwrap().answer_syntax(source).after_prompt(&prompt);
    let set = Arc::new(ToolSet::new(&tools()).unwrap());
    let answer = whole.strip_prefix(&prompt).unwrap().trim_end().strip_suffix("<|eot|>").unwrap();
    (answer.to_owned(), syntax.with_calls(CallSyntax::new(Arc::clone(format), set, 1)), arguments)
}

/// Text, complete calls, and names and arguments as they were streamed.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    text: String,
    calls: Vec<ToolCall>,
    streamed: Vec<(String, String)>,
}

fn read(syntax: &AnswerSyntax, pieces: &[&str]) -> Sum {
    let mut parser = AnswerParser::new(syntax);
    let mut parts: Vec<AnswerPart> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    parts.extend(parser.finish(AnswerEnd::Model));
    let mut sum = Sum::default();
    for part in parts {
        match part {
            AnswerPart::Text(text) => sum.text.push_str(&text),
            AnswerPart::CallBegin { name, .. } => sum.streamed.push((name, String::new())),
            AnswerPart::CallArguments { text, .. } => sum.streamed.last_mut().unwrap().1.push_str(&text),
            AnswerPart::CallEnd { call, .. } => sum.calls.push(call),
            other => panic!("{other:?}"),
        }
    }
    sum
}

#[test]
fn every_cut_of_an_answer_gives_the_same_calls() {
    let tables = TokenizerTables::built_in().unwrap();
    for family in families::all() {
        let format = template(family.format, &family.source).call_support(&tables).unwrap().format;
        let (answer, syntax, expected) = written(&family.source, &format);
        let whole = read(&syntax, &[&answer]);
        let arguments: Vec<Value> =
            whole.calls.iter().map(|call| Value::Object(call.object().unwrap())).collect();
        assert_eq!(arguments, expected, "{}: {answer}", family.format);
        assert_eq!(whole.text, "", "{}: {answer}", family.format);
        let streamed: Vec<_> =
            whole.calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
        assert_eq!(whole.streamed, streamed);
        for (at, _) in answer.char_indices() {
            let (one, two) = answer.split_at(at);
            assert_eq!(read(&syntax, &[one, two]), whole, "{}: {one:?} {two:?}", family.format);
            // An answer that is cut there has no other call than the whole one.
            let cut = read_cut(&syntax, one);
            assert_eq!(cut, whole.calls[..cut.len()], "{}: {one:?}", family.format);
        }
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(read(&syntax, &characters), whole, "{}", family.format);
    }
}

/// The complete calls of an answer that was cut.
fn read_cut(syntax: &AnswerSyntax, text: &str) -> Vec<ToolCall> {
    let mut parser = AnswerParser::new(syntax);
    let mut parts = parser.push(text);
    parts.extend(parser.finish(AnswerEnd::Cut));
    let call = |part| match part {
        AnswerPart::CallEnd { call, .. } => Some(call),
        _ => None,
    };
    parts.into_iter().filter_map(call).collect()
}

#[test]
fn templates_that_lose_something_are_refused() {
    let hermes = families::all().into_iter().find(|family| family.format == "hermes").unwrap().source;
    let no_tools = hermes.replace("tools|tojson", "'arguments'");
    assert!(refusal(&no_tools).contains("does not show the tools ([[call]] entry `hermes`); it gives"));
    let no_results = hermes.replace("{{ m.content }}", "{{ m.content if m.role != 'tool' }}");
    assert!(refusal(&no_results).contains("does not show results of calls"));
    let no_calls = hermes.replace("{% if m.tool_calls %}", "{% if false %}");
    assert!(refusal(&no_calls).contains("which is read as no call"), "{}", refusal(&no_calls));
    let raising =
        hermes.replace("{% if m.tool_calls %}", "{% if m.tool_calls %}{{ raise_exception('no calls') }}");
    assert!(refusal(&raising).contains("no calls"), "{}", refusal(&raising));
    let other_key = hermes
        .replace("\"arguments\": ", "\"args\": ")
        .replace("{% if tools %}", "{# arguments #}{% if tools %}");
    let differs = refusal(&other_key);
    let read = "as get_weather({})";
    assert!(differs.contains(read) && differs.contains("it writes get_weather({\"city\":\"São"), "{differs}");
    let upper = hermes.replace("c.function.name +", "c.function.name|upper +");
    assert!(refusal(&upper).contains("read as no call"), "{}", refusal(&upper));
}

#[test]
fn exactly_one_entry_must_fit() {
    let frame = "{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_eq!(
        refusal(frame),
        "own: no [[call]] entry fits this chat template, so calls of tools could not be read; add one as \
         tokenizers/<name>.toml of a spec folder (`menagerie guide tool-calls`)"
    );
    let two = format!("{frame}{{# <TOOLCALL> functools #}}");
    assert!(
        refusal(&two).contains("entries `firefunction`, `nemotron-nano-2` fit this chat template"),
        "{}",
        refusal(&two)
    );
    let mut tables = TokenizerTables::clone(&TokenizerTables::built_in().unwrap());
    let own = "[[call]]\nname = 'mine'\nwhere = ['<mine>']\ncall = '<mine>${name} ${arguments}</mine>'";
    tables.add("mine.toml", own, false).unwrap();
    let source =
        families::all().into_iter().find(|family| family.format == "functionary-3.1").unwrap().source;
    let source =
        source.replace("<function=", "<mine>").replace("'>' +", "' ' +").replace("</function>", "</mine>");
    let support =
        template("own", &source).call_support(&tables).unwrap_or_else(|error| panic!("{error}\n{source}"));
    assert_eq!(support.format.name(), "mine");
}

#[test]
fn templates_may_want_arguments_as_text() {
    let hermes = families::all().into_iter().find(|family| family.format == "hermes").unwrap().source;
    let text = hermes.replace("c.function.arguments|tojson", "(c.function.arguments + '')");
    let tables = TokenizerTables::built_in().unwrap();
    let support =
        template("own", &text).call_support(&tables).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(support.arguments_as_text);
}

/// Run with `CHAT_TEMPLATES=<folder> cargo test -p menagerie-loaders --test calls -- --ignored --nocapture`: reports for
/// each template the verified entry, or why tools are refused. A template without an entry is no failure.
#[test]
#[ignore = "needs a folder of published chat templates in CHAT_TEMPLATES"]
fn published_templates_are_verified() {
    let folder = PathBuf::from(std::env::var_os("CHAT_TEMPLATES").unwrap());
    let tables = TokenizerTables::built_in().unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jinja"));
    files.sort();
    let (mut verified, mut refused) = (0, Vec::new());
    for path in &files {
        let name = path.file_stem().unwrap().to_string_lossy();
        let source = std::fs::read_to_string(path).unwrap();
        match template(&name, &source).call_support(&tables) {
            Ok(support) => {
                let form = if support.arguments_as_text { "text" } else { "objects" };
                println!("{name}: {} verified, arguments as {form}", support.format.name());
                verified += 1;
            }
            Err(error) => {
                println!("{error}");
                refused.push(error.to_string());
            }
        }
    }
    println!("{verified} of {} verified", files.len());
    let wrong: Vec<&String> = refused.iter().filter(|error| error.contains("are not read as")).collect();
    assert!(verified > 0 && wrong.len() < files.len() / 8, "{wrong:#?}");
}
