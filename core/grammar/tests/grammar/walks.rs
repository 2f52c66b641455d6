//! Whatever the masks allow, the whole answer is valid; and a valid answer is allowed.

use crate::tokens::{NAMES, fixture, tokenizer};
use crate::walk::{Walk, ids, walk};
use menagerie_engine::{Constraint, ConstraintState, Tokenizing};
use menagerie_grammar::{GrammarCompiler, GrammarSource};
use menagerie_random::SplitMix64;
use serde_json::Value;

struct Case {
    name: String,
    schema: Value,
    answer: Value,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(fixture("structured/schemas.jsonl")).unwrap();
    let case = |line: &str| {
        let mut case: Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap().to_owned();
        Case { name, schema: case["schema"].take(), answer: case["answer"].take() }
    };
    let cases: Vec<Case> = text.lines().map(case).collect();
    assert_eq!(cases.len(), 200);
    cases
}

pub(crate) fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .build(schema)
        .unwrap()
}

/// JSON with `", "` and `": "`, in the order of the schema.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), spaced(value))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The text as a value. Numbers past the range of 64-bit floats are JSON, but no numbers of this reader: their exponents
/// are shortened.
fn parsed(text: &str) -> Value {
    let read = |text: &str| serde_json::from_str::<Value>(text);
    match read(text) {
        Err(error) if error.to_string().contains("number out of range") => {
            let mut short = String::new();
            let mut digits = 0;
            for (at, character) in text.char_indices() {
                let before = text[..at].trim_end_matches(|c: char| c.is_ascii_digit());
                let is_exponent = character.is_ascii_digit() && before.ends_with(['e', 'E', '+', '-']);
                digits = if is_exponent { digits + 1 } else { 0 };
                if digits < 2 {
                    short.push(character);
                }
            }
            read(&short).unwrap_or_else(|error| panic!("{error}: {text}"))
        }
        read => read.unwrap_or_else(|error| panic!("{error}: {text}")),
    }
}

/// Whether a text has a number that is no 64-bit float.
pub(crate) fn has_long_number(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_digit() && character != '.').any(|part| part.len() > 15)
}

/// Whether the tokens of a text are allowed one after the other, and the end after them.
pub(crate) fn allows(
    tokenizer: &dyn Tokenizing,
    constraint: &dyn Constraint,
    text: &str,
) -> Result<(), String> {
    allows_after(tokenizer, &mut *constraint.start().unwrap(), text)
}

/// The same from a state on.
pub(crate) fn allows_after(
    tokenizer: &dyn Tokenizing,
    state: &mut dyn ConstraintState,
    text: &str,
) -> Result<(), String> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let allowed =
            ids(state.allowed().map_err(|error| error.to_string())?.unwrap(), tokenizer.vocabulary());
        let fits = |id: &&u32| {
            let bytes = tokenizer.bytes(**id);
            !bytes.is_empty() && rest.starts_with(&bytes) && !tokenizer.end_of_generation().contains(id)
        };
        // The longest token that is a part of the text.
        let longest = allowed.iter().filter(fits).max_by_key(|id| tokenizer.bytes(**id).len());
        let id = longest.ok_or_else(|| format!("refused before {}", String::from_utf8_lossy(rest)))?;
        state.accept(*id).map_err(|error| error.to_string())?;
        rest = &rest[tokenizer.bytes(*id).len()..];
    }
    if state.is_complete() {
        return Ok(());
    }
    let allowed = ids(state.allowed().map_err(|error| error.to_string())?.unwrap(), tokenizer.vocabulary());
    match tokenizer.end_of_generation().iter().all(|end| allowed.contains(end)) {
        true => Ok(()),
        false => Err("an end is not allowed after it".to_owned()),
    }
}

#[test]
fn answers_of_random_walks_are_valid() {
    for (place, name) in NAMES.into_iter().enumerate() {
        let tokenizer = tokenizer(name);
        let compiler = GrammarCompiler::new(tokenizer.clone());
        let mut whole = 0;
        for (at, case) in cases().iter().enumerate() {
            let source = GrammarSource::json_schema(&case.schema)
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let constraint =
                compiler.constraint(&source).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let validator = validator(&case.schema);
            for seed in 0..4 {
                let mut random = SplitMix64::new((place * 1_000_000 + at * 1000 + seed) as u64);
                match walk(&*tokenizer, &*constraint, &mut random, 1500) {
                    // The validator reads numbers as 64-bit floats.
                    Ok(Walk::Whole(text)) if has_long_number(&text) => {}
                    Ok(Walk::Whole(text)) => {
                        let value = parsed(&text);
                        let fault = validator.iter_errors(&value).next().map(|error| error.to_string());
                        assert_eq!(fault, None, "{name}, {}: {text}", case.name);
                        whole += 1;
                    }
                    Ok(Walk::Long(_)) => {}
                    Err(error) => panic!("{name}, {}: {error}", case.name),
                }
            }
        }
        assert!(whole > 600, "{name}: only {whole} of 800 walks came to an end");
    }
}

#[test]
fn valid_answers_are_allowed() {
    for name in NAMES {
        let tokenizer = tokenizer(name);
        let compiler = GrammarCompiler::new(tokenizer.clone());
        for case in cases() {
            let constraint = compiler.constraint(&GrammarSource::json_schema(&case.schema).unwrap()).unwrap();
            let text = spaced(&case.answer);
            assert_eq!(allows(&*tokenizer, &*constraint, &text), Ok(()), "{name}, {}: {text}", case.name);
        }
    }
}

/// Regular expressions and grammars, with texts that fit and texts that do not.
#[test]
fn regular_expressions_and_grammars_allow_what_they_say() {
    let tokenizer = tokenizer("gpt2");
    let compiler = GrammarCompiler::new(tokenizer.clone());
    let lark = "start: greeting \" \" NAME\ngreeting: \"hello\" | \"bye\"\nNAME: /[a-z]+/\n";
    let with_schema = "start: \"call \" args \"!\"\nargs: %json { \"type\": \"object\", \"properties\": { \"a\": { \"type\": \"integer\" } }, \
                       \"required\": [\"a\"], \"additionalProperties\": false }\n";
    for (source, fits, does_not) in [
        (GrammarSource::regex("(yes|no)( please)?"), "no please", "maybe"),
        (GrammarSource::regex("[0-9]{3}-[0-9]{2}"), "123-45", "12-345"),
        (GrammarSource::lark(lark), "bye ada", "hello Ada"),
        (GrammarSource::lark(with_schema), "call {\"a\": 1}!", "call {\"a\":1}!"),
        (GrammarSource::json_object(), "{\"a\": [1, {}]}", "[1]"),
    ] {
        let constraint = compiler.constraint(&source.unwrap()).unwrap();
        assert_eq!(allows(&*tokenizer, &*constraint, fits), Ok(()), "{fits}");
        assert!(allows(&*tokenizer, &*constraint, does_not).is_err(), "{does_not}");
    }
}
