//! Calls of tools in every format of specs/tokenizers/calls.toml: the grammar allows what the format's chat template
//! writes, and whatever it allows is read as calls of the tools, with arguments that an independent validator accepts.

use crate::call_tokens::CallTokens;
use crate::call_walk::{endings, walk};
use crate::families;
use crate::tokens::tokenizer;
use crate::walks::{allows, allows_after, has_long_number, validator};
use menagerie_answers::{AnswerEnd, AnswerParser, AnswerPart, CallFormat, CallKeys, ToolCall};
use menagerie_engine::{AnswerSyntax, CallLimits, CallSyntax, ConstraintScope, Tokenizing, ToolSet};
use menagerie_grammar::{GrammarCompiler, GrammarSource};
use menagerie_loaders::{ChatTemplate, RenderOptions, TokenizerTables};
use menagerie_random::SplitMix64;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Control tokens of published vocabularies; the first two end an answer.
const CONTROLS: [&str; 31] = [
    "<|call|>",
    "<|return|>",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "[TOOL_CALLS]",
    "[CALL_ID]",
    "[ARGS]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "｜DSML｜",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|python_tag|>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<escape>",
    "<arg_key>",
    "</arg_value>",
    "<|tools_suffix|>",
];

/// Vocabularies of text alone, and with control tokens.
fn vocabularies() -> [Arc<dyn Tokenizing>; 2] {
    [Arc::new(CallTokens::new(&["</s>"], 1)), Arc::new(CallTokens::new(&CONTROLS, 2))]
}

fn tool(name: &str, parameters: &Value) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
}

/// Tools with strings of every kind, nested schemas, optional parameters, and none.
fn tools() -> Vec<Value> {
    let text = json!({ "type": "string", "description": "a text" });
    let look_up =
        json!({ "type": "object", "properties": { "a": text, "b": { "type": ["array", "null"] } } });
    let weather = json!({
        "type": "object",
        "properties": {
            "city": text,
            "days": { "type": "integer", "minimum": 1, "maximum": 14 },
            "unit": { "enum": ["c", "f", "<kelvin>"] },
            "note": { "type": ["string", "null"], "maxLength": 12 },
            "any": {},
        },
        "required": ["days", "unit"],
    });
    let file = json!({
        "type": "object",
        "properties": {
            "path": { "$ref": "#/$defs/path" },
            "mode": {
                "type": "object",
                "properties": { "x": { "type": "boolean" }, "tags": { "type": "array", "items": { "type": "string" } } },
                "required": ["x"],
                "additionalProperties": false,
            },
            "ratio": { "type": "number", "exclusiveMinimum": 0, "maximum": 8 },
        },
        "required": ["path", "mode"],
        "$defs": { "path": { "type": "string", "minLength": 2, "maxLength": 9 } },
    });
    vec![
        tool("look_up", &look_up),
        tool("get", &json!({ "type": "object", "properties": {} })),
        tool("get_weather", &weather),
        tool("write_file", &file),
        json!({ "type": "function", "function": { "name": "now" } }),
    ]
}

/// A format with the chat template of its family.
struct TemplateFamily {
    format: Arc<CallFormat>,
    template: ChatTemplate,
    syntax: AnswerSyntax,
}

fn families() -> Vec<TemplateFamily> {
    let tables = TokenizerTables::built_in().unwrap();
    let family = |family: families::FamilyTemplate| {
        let template = ChatTemplate::new(family.format, &family.source, Some("<s>"), Some("</s>")).unwrap();
        let format = template.call_support(&tables).unwrap().format;
        TemplateFamily { format, template, syntax: tables.answer_syntax(&family.source) }
    };
    let all: Vec<TemplateFamily> = families::all().into_iter().map(family).collect();
    assert_eq!(all.len(), tables.call_formats().count());
    all
}

impl TemplateFamily {
    fn calls(&self) -> CallSyntax {
        CallSyntax::new(Arc::clone(&self.format), Arc::new(ToolSet::new(&tools()).unwrap()), 1)
    }

    /// The answer that the template writes for calls with these names and arguments.
    fn written(&self, calls: &[(&str, Value)]) -> String {
        let call = |(index, (name, arguments)): (usize, &(&str, Value))| {
            let id = self.format.make_id(name, index, 1);
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        };
        let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
        let render = |messages: &[Value], prompt: bool| {
            let options = RenderOptions::default().with_tools(tools()).with_add_generation_prompt(prompt);
            self.template.render(messages, &options.with_now(UNIX_EPOCH)).unwrap()
        };
        let question = json!({ "role": "user", "content": "?" });
        let answer = json!({ "role": "assistant", "content": "", "tool_calls": calls });
        let prompt = render(std::slice::from_ref(&question), true);
        let whole = render(&[question, answer], false);
        whole.strip_prefix(&prompt).unwrap().trim_end().strip_suffix("<|eot|>").unwrap().to_owned()
    }

    /// The text, the calls and the notes of an answer.
    fn read(&self, text: &str) -> (String, Vec<ToolCall>, Vec<String>) {
        let mut parser = AnswerParser::new(&self.syntax.clone().with_calls(self.calls()));
        let mut parts = parser.push(text);
        parts.extend(parser.finish(AnswerEnd::Model));
        let (mut rest, mut calls, mut notes) = (String::new(), Vec::new(), Vec::new());
        for part in parts {
            match part {
                AnswerPart::Text(text) | AnswerPart::Reasoning(text) => rest.push_str(&text),
                AnswerPart::CallEnd { call, .. } => calls.push(call),
                AnswerPart::Notice(note) => notes.push(note),
                _ => {}
            }
        }
        (rest, calls, notes)
    }
}

/// Calls that a conversation may have.
fn examples(format: &CallFormat) -> Vec<(&'static str, Value)> {
    let all = vec![
        ("look_up", json!({ "a": "x </a> \"q\" 'p'\n{1}, [2] é <b", "b": [1, null] })),
        ("get", json!({})),
        ("get_weather", json!({ "city": "São \"Paulo\" <b>", "days": 3, "unit": "<kelvin>" })),
        ("write_file", json!({ "path": "/tmp/a b", "mode": { "x": true }, "ratio": 0.5 })),
        ("now", json!({})),
    ];
    let most = if format.keys().single { 1 } else { all.len() };
    all.into_iter().take(most).collect()
}

/// The text of an answer without what a token writes that ends it.
fn without_end<'t>(tokenizer: &dyn Tokenizing, text: &'t str) -> &'t str {
    let ends = tokenizer.end_of_generation().iter().map(|id| tokenizer.piece(*id));
    ends.filter_map(|end| text.strip_suffix(end.as_str())).next().unwrap_or(text)
}

/// Whether a text has a number with an exponent of three digits or more.
fn has_long_exponent(text: &str) -> bool {
    let digits =
        |rest: &str| rest.trim_start_matches(['+', '-']).chars().take_while(char::is_ascii_digit).count();
    let mut exponents = text.match_indices(['e', 'E']);
    exponents.any(|(at, _)| {
        text[..at].ends_with(|before: char| before.is_ascii_digit()) && digits(&text[at + 1..]) > 2
    })
}

#[test]
fn what_a_template_writes_is_allowed() {
    let [plain, controls] = vocabularies();
    for tokenizer in [plain, controls, tokenizer("gpt2"), tokenizer("spm")] {
        let compiler = GrammarCompiler::new(Arc::clone(&tokenizer));
        for family in families() {
            let name = family.format.name();
            let constraint =
                compiler.calls(&family.calls(), &CallLimits::default(), ConstraintScope::Calls).unwrap();
            let examples = examples(&family.format);
            let all = (0..examples.len()).map(|at| vec![examples[at].clone()]).chain([examples.clone()]);
            for calls in all {
                let text = family.written(&calls);
                let text = without_end(&*tokenizer, &text);
                assert_eq!(allows(&*tokenizer, &*constraint, text), Ok(()), "{name}: {text}");
            }
            assert!(allows(&*tokenizer, &*constraint, "Hello.").is_err(), "{name}");
        }
    }
}

#[test]
fn whatever_is_allowed_is_read_as_calls_that_fit() {
    let declared = tools();
    let schema = |name: &str| {
        let tool = declared.iter().find(|tool| tool["function"]["name"] == name).unwrap();
        tool["function"].get("parameters").cloned().unwrap_or(json!({ "maxProperties": 0 }))
    };
    for (place, tokenizer) in vocabularies().into_iter().enumerate() {
        let compiler = GrammarCompiler::new(Arc::clone(&tokenizer));
        for (at, family) in families().into_iter().enumerate() {
            let name = family.format.name().to_owned();
            let endings = endings(&family.format);
            let mut whole = 0;
            for seed in 0..24 {
                let single = seed % 3 == 0;
                let only = (seed % 4 == 0).then(|| vec!["write_file".to_owned()]);
                let limits = CallLimits::new(only.clone(), single);
                let constraint = compiler.calls(&family.calls(), &limits, ConstraintScope::Calls).unwrap();
                let mut random = SplitMix64::new((place * 1_000_000 + at * 1000 + seed) as u64);
                let Some(text) = walk(&*tokenizer, &*constraint, &endings, &mut random, 600) else {
                    continue;
                };
                // The parser and the validator read numbers as 64-bit floats.
                let (rest, calls, notes) = family.read(&text);
                if has_long_number(&text)
                    || has_long_exponent(&text)
                    || notes.iter().any(|note| note.contains("number out of range"))
                {
                    continue;
                }
                assert_eq!((rest.as_str(), notes), ("", vec![]), "{name}: {text}");
                assert!(!calls.is_empty() && (!single || calls.len() == 1), "{name}: {text}");
                for call in calls {
                    assert!(only.as_ref().is_none_or(|only| only.contains(&call.name)), "{name}: {text}");
                    let arguments = Value::Object(call.object().unwrap());
                    let schema = schema(&call.name);
                    let fault =
                        validator(&schema).iter_errors(&arguments).next().map(|error| error.to_string());
                    assert_eq!(fault, None, "{name}: {text}\n{call:?}");
                }
                whole += 1;
            }
            assert!(whole > 10, "{name}: only {whole} of 24 walks came to an end");
        }
    }
}

/// A text that fits a schema, or calls, and nothing else.
#[test]
fn an_answer_is_a_text_that_fits_or_calls() {
    let schema = json!({
        "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"], "additionalProperties": false,
    });
    let source = GrammarSource::json_schema(&schema).unwrap();
    for tokenizer in vocabularies() {
        let compiler = GrammarCompiler::new(Arc::clone(&tokenizer));
        for family in families() {
            let (name, limits) = (family.format.name(), CallLimits::default());
            let syntax = family.syntax.clone().with_calls(family.calls());
            let constraint = compiler.calls_or_text(&source, &syntax, &limits);
            if family.format.keys().bare {
                let told = constraint.unwrap_err().to_string();
                assert!(told.contains(name) && told.contains("without a marker"), "{told}");
                continue;
            }
            let constraint = constraint.unwrap();
            assert_eq!(constraint.scope(), ConstraintScope::CallsOrText);
            let opening = syntax.answer_opening();
            let calls = family.written(&examples(&family.format)[..1]);
            let calls = without_end(&*tokenizer, &calls);
            for text in [format!("{opening}{{\"a\": 1}}"), calls.to_owned()] {
                assert_eq!(allows(&*tokenizer, &*constraint, &text), Ok(()), "{name}: {text}");
            }
            for text in ["Hello.", "{\"b\": 1}", &format!("{opening}{{\"a\": 1}}{calls}")] {
                assert!(allows(&*tokenizer, &*constraint, text).is_err(), "{name}: {text}");
            }
            let regex = GrammarSource::regex("a").unwrap();
            assert!(compiler.calls_or_text(&regex, &syntax, &limits).is_err());
            assert!(compiler.calls_or_text(&source, &family.syntax, &limits).is_err());
        }
    }
}

/// From the marker on, in whatever tokens it came, only calls are allowed; a format without a marker is refused.
#[test]
fn a_call_in_text_is_constrained_from_its_marker_on() {
    for tokenizer in vocabularies() {
        let compiler = GrammarCompiler::new(Arc::clone(&tokenizer));
        for family in families() {
            let (name, limits) = (family.format.name(), CallLimits::default());
            let constraint = compiler.calls(&family.calls(), &limits, ConstraintScope::CallsInText);
            if family.format.keys().bare {
                let told = constraint.unwrap_err().to_string();
                assert!(told.contains(name) && told.contains("without a marker"), "{told}");
                continue;
            }
            let constraint = constraint.unwrap();
            assert_eq!(constraint.scope(), ConstraintScope::CallsInText);
            let text = family.written(&examples(&family.format)[..1]);
            let text = without_end(&*tokenizer, &text);
            // Where the parser finds the call.
            let mut parser = AnswerParser::new(&family.syntax.clone().with_calls(family.calls()));
            let mut begun = None;
            for (at, character) in text.char_indices() {
                parser.push(character.encode_utf8(&mut [0; 4]));
                if let Some(call) = parser.begun_call() {
                    begun = Some((call.to_owned(), at + character.len_utf8()));
                    break;
                }
            }
            let (written, at) = begun.unwrap_or_else(|| panic!("{name}: {text}"));
            let mut state = constraint.start_after(&written).unwrap().unwrap();
            assert_eq!(allows_after(&*tokenizer, &mut *state, &text[at..]), Ok(()), "{name}: {text}");
            let mut state = constraint.start_after(&written).unwrap().unwrap();
            assert!(allows_after(&*tokenizer, &mut *state, "%").is_err(), "{name}");
            assert!(constraint.start_after(&format!("{written}%")).unwrap().is_none(), "{name}");
        }
    }
}

fn told(keys: CallKeys, parameters: &Value, controls: &[&str], ends: usize) -> String {
    let tokenizer: Arc<dyn Tokenizing> = Arc::new(CallTokens::new(controls, ends));
    let tools = Arc::new(ToolSet::new(&[tool("f", parameters)]).unwrap());
    let calls = CallSyntax::new(Arc::new(CallFormat::new(keys).unwrap()), tools, 1);
    let compiler = GrammarCompiler::new(tokenizer);
    compiler.calls(&calls, &CallLimits::default(), ConstraintScope::Calls).unwrap_err().to_string()
}

fn keys(call: &str) -> CallKeys {
    let mut keys = CallKeys::default();
    (keys.name, keys.calls) = ("own".to_owned(), vec![call.to_owned()]);
    keys.arg = Some("<${key}>${value}</arg>".to_owned());
    keys.quote = Some("'".to_owned());
    keys
}

#[test]
fn what_cannot_be_enforced_is_refused_by_name() {
    let properties = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
    for (call, parameters, words) in [
        ("<c>${name} ${arguments}", properties(json!({ "not": {} })), ["tool `f`", "`not` at /properties/a"]),
        ("<c>${name} ${arguments}", json!({ "type": "array" }), ["tool `f`", "`type` at the root"]),
        (
            "<c>${name} ${arguments}",
            properties(json!({ "oneOf": [{ "type": "string" }, { "type": "string" }] })),
            ["tool `f`", "oneOf"],
        ),
        (
            "<c>${name} ${args}</c>",
            properties(json!({ "type": "string", "pattern": "a" })),
            ["tool `f`", "`pattern` at /properties/a"],
        ),
        ("<c>${name} ${args}</c>", json!({ "minProperties": 1 }), ["tool `f`", "`minProperties`"]),
        ("<c>${name} ${args}</c>", json!({ "properties": { "a>": {} } }), ["tool `f`", "`a>`"]),
        (
            "<c>${name} ${args}</c>",
            properties(json!({ "enum": ["</arg>"] })),
            ["tool `f`", "allows no value"],
        ),
        ("<c>${name}(${python})", json!({ "properties": { "a b": {} } }), ["tool `f`", "`a b`"]),
        ("<c>${name}{${pairs}}", properties(json!({ "$ref": "#/$defs/x" })), ["tool `f`", "`$ref`"]),
    ] {
        let told = told(keys(call), &parameters, &["</s>"], 1);
        assert!(words.iter().all(|words| told.contains(words)), "{call} {parameters}: {told}");
    }
    // A token that ends the answer within a call.
    let told = told(keys("<c>${name}<end>${arguments}"), &json!({}), &["<end>"], 1);
    assert!(told.contains("`own`") && told.contains("ends the answer"), "{told}");
}

#[test]
fn only_tools_that_exist_may_be_chosen() {
    let family = families().swap_remove(0);
    let compiler = GrammarCompiler::new(vocabularies()[0].clone());
    let limits = CallLimits::new(Some(vec!["rm".to_owned()]), false);
    let told = compiler.calls(&family.calls(), &limits, ConstraintScope::Calls).unwrap_err().to_string();
    assert!(told.contains("no tool `rm`") && told.contains("get_weather"), "{told}");
}
