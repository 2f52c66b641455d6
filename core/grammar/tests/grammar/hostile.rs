//! Hostile schemas, patterns and grammars end bounded, with errors that name what is wrong, or constrain an answer.

use crate::tokens::tokenizer;
use crate::walk::walk;
use menagerie_engine::ConstraintError;
use menagerie_grammar::{GrammarCompiler, GrammarError, GrammarSource};
use menagerie_random::SplitMix64;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most time that one source may take, to compile and for a walk, on a slow and busy machine.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Compiles, and walks through what compiles. Returns whether it compiled.
fn survives(compiler: &GrammarCompiler, source: Result<GrammarSource, GrammarError>, what: &str) -> bool {
    let start = Instant::now();
    let tokenizer = tokenizer("gpt2");
    let compiled = source.and_then(|source| compiler.constraint(&source));
    let is_compiled = compiled.is_ok();
    match compiled {
        Ok(constraint) => {
            // A walk may exceed a limit; it never panics and never takes a token that is not allowed.
            if let Err(error) = walk(&*tokenizer, &*constraint, &mut SplitMix64::new(5), 60) {
                let told = error.to_string();
                assert!(
                    told.contains("too complex") || told.contains("no token of the model"),
                    "{what}: {told}"
                );
            }
        }
        Err(error) => {
            let told = error.to_string();
            assert!(!told.contains("panic") && told.len() < 1000, "{what}: {told}");
        }
    }
    assert!(start.elapsed() < MOST_TIME, "{what} took {:?}", start.elapsed());
    is_compiled
}

const NAMES: [&str; 30] = [
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "enum",
    "const",
    "anyOf",
    "allOf",
    "oneOf",
    "$ref",
    "$defs",
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "additionalProperties",
    "patternProperties",
    "not",
    "exclusiveMinimum",
    "$schema",
    "definitions",
    "exclusiveMaximum",
];

/// A random value that looks like a part of a schema, and often is none.
fn part(random: &mut SplitMix64, depth: usize) -> Value {
    match random.below(if depth > 5 { 8 } else { 12 }) {
        0 => json!(null),
        1 => json!(random.below(2) == 0),
        2 => json!(random.below(50)),
        3 => json!([1e308, -1.0, 0.1, 1e-9, 4294967296.0, -0.0][random.below(6)]),
        4 => json!(["string", "object", "array", "integer", "number", "null", "boolean"][random.below(7)]),
        5 => json!(
            ["#", "#/$defs/a", "#/properties/a", "", "^a*$", "date", "[a-z]{2,9}", "(a|b)*c", "\u{0}"]
                [random.below(9)]
        ),
        6 => json!(["a", "b"]),
        7 => json!({ "type": ["string", "integer"] }),
        8 => Value::Array((0..random.below(4)).map(|_| part(random, depth + 1)).collect()),
        _ => {
            let mut fields = Map::new();
            for _ in 0..random.below(5) {
                let name = if random.below(4) == 0 {
                    ["a", "b", "^x"][random.below(3)]
                } else {
                    NAMES[random.below(30)]
                };
                fields.insert(name.to_owned(), part(random, depth + 1));
            }
            Value::Object(fields)
        }
    }
}

/// The flag of a request ends its constraint, and no other one of the same source.
#[test]
fn a_cancelled_request_computes_nothing_more() {
    let tokenizer = tokenizer("gpt2");
    let compiler = GrammarCompiler::new(tokenizer.clone());
    let constraint = compiler.constraint(&GrammarSource::json_object().unwrap()).unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let [mut ended, mut other] = [constraint.start().unwrap(), constraint.start().unwrap()];
    ended.cancel_with(&flag);
    other.cancel_with(&Arc::default());
    let expected = other.allowed().unwrap().map(<[u32]>::to_vec);
    assert_eq!(ended.allowed().unwrap().map(<[u32]>::to_vec), expected);
    let brace = tokenizer.encode("{").unwrap()[0];
    ended.accept(brace).unwrap();
    flag.store(true, Ordering::Relaxed);
    assert_eq!(ended.allowed().unwrap_err(), ConstraintError::Cancelled);
    assert_eq!(ended.accept(brace).unwrap_err(), ConstraintError::Cancelled);
    assert!(ended.forced(8).is_empty());
    other.accept(brace).unwrap();
    assert!(other.allowed().is_ok());
}

#[test]
fn random_schemas_end() {
    let compiler = GrammarCompiler::new(tokenizer("gpt2"));
    let mut random = SplitMix64::new(11);
    let mut compiled = 0;
    for at in 0..1500 {
        let mut schema = part(&mut random, 0);
        if let Value::Object(fields) = &mut schema {
            fields.entry("$defs").or_insert_with(|| json!({ "a": part(&mut random, 2) }));
        }
        compiled +=
            usize::from(survives(&compiler, GrammarSource::json_schema(&schema), &format!("{at}: {schema}")));
    }
    assert!(compiled > 20, "only {compiled} of the random schemas compile");
}

#[test]
fn large_and_ambiguous_schemas_end() {
    let compiler = GrammarCompiler::new(tokenizer("gpt2"));
    let text = |range: std::ops::Range<usize>, of: &dyn Fn(usize) -> (String, Value)| {
        Value::Object(range.map(of).collect())
    };
    let chain = text(0..900, &|at| {
        (
            format!("d{at}"),
            json!({ "properties": { "x": { "$ref": format!("#/$defs/d{}", (at + 1) % 900) } } }),
        )
    });
    let direct = text(0..900, &|at| (format!("d{at}"), json!({ "$ref": format!("#/$defs/d{}", at + 1) })));
    let mut last = direct.as_object().unwrap().clone();
    last.insert("d900".to_owned(), json!({ "type": "null" }));
    let doubled = text(0..24, &|at| {
        let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
        (format!("d{at}"), json!({ "anyOf": [next, next, { "type": "array", "items": next }] }))
    });
    let mut powers = doubled.as_object().unwrap().clone();
    powers.insert("d24".to_owned(), json!({ "type": "string" }));
    let all: Vec<Value> =
        (0..300).map(|at| json!({ "anyOf": [{ "minimum": at }, { "maximum": at }] })).collect();
    let optional = text(0..700, &|at| (format!("m{at}"), json!({ "type": "string" })));
    let lists: Vec<Value> =
        (0..90).map(|_| json!({ "type": "array", "items": {}, "maxItems": 100 })).collect();
    for (what, schema) in [
        ("a chain of references", json!({ "$defs": chain, "$ref": "#/$defs/d0" })),
        ("a chain of direct references", json!({ "$defs": last, "$ref": "#/$defs/d0" })),
        ("powers of two", json!({ "$defs": powers, "$ref": "#/$defs/d0" })),
        ("300 alternatives of each other", json!({ "type": "integer", "allOf": all })),
        ("700 optional members", json!({ "type": "object", "properties": optional })),
        ("90 lists of 100", json!({ "type": "array", "prefixItems": lists })),
        ("a long text", json!({ "type": "string", "minLength": 900_000, "maxLength": 1_000_000 })),
        ("a large factor", json!({ "type": "integer", "multipleOf": 999_999_937 })),
        ("a fine factor", json!({ "type": "number", "multipleOf": 1.000_000_007 })),
        (
            "a slow pattern",
            json!({ "type": "string", "pattern": "^(a|aa|aaa)*(b|bb)*(a|b)*[^ab]{0,500}x{1,400}$", "minLength": 300 }),
        ),
        (
            "many patterns",
            json!({ "type": "object", "patternProperties": text(0..60, &|at| (format!("^p{at}[a-z]*$"), json!({}))) }),
        ),
        (
            "itself in a list in itself",
            json!({ "type": "array", "items": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } }),
        ),
    ] {
        survives(&compiler, GrammarSource::json_schema(&schema), what);
    }
}

#[test]
fn random_patterns_end() {
    let compiler = GrammarCompiler::new(tokenizer("gpt2"));
    let mut random = SplitMix64::new(3);
    let parts = [
        "a",
        "b",
        ".",
        "\\w",
        "\\d",
        "[^a]",
        "(",
        ")",
        "(?:",
        "|",
        "*",
        "+",
        "?",
        "{2,40}",
        "{0,999}",
        "{1000}",
        "^",
        "$",
        "[",
        "]",
        "\\",
        "(?i)",
        "\\p{L}",
        "(?P<n>",
        "é",
        "[a-z&&[^b]]",
        "\\b",
        "(?!",
        "\\x{110000}",
        "\n",
    ];
    let mut compiled = 0;
    for at in 0..700 {
        let pattern: String = (0..1 + random.below(14)).map(|_| parts[random.below(parts.len())]).collect();
        let what = format!("{at}: {pattern}");
        compiled += usize::from(survives(&compiler, GrammarSource::regex(&pattern), &what));
        survives(
            &compiler,
            GrammarSource::json_schema(&json!({ "type": "string", "pattern": pattern })),
            &what,
        );
    }
    assert!(compiled > 50, "only {compiled} of the random patterns compile");
    for pattern in [
        "(a*)*".repeat(200),
        "(a{1,50}){1,50}".repeat(30),
        format!("{}{}", "a?".repeat(3000), "a".repeat(3000)),
        "(?:a|b|ab)*c".repeat(300),
        "((((a{9}){9}){9}){9}){9}".to_owned(),
        "[^\u{0}-\u{7f}]{500}".to_owned(),
    ] {
        survives(&compiler, GrammarSource::regex(&pattern), &pattern[..30.min(pattern.len() - 1)]);
    }
}

#[test]
fn random_grammars_end() {
    let compiler = GrammarCompiler::new(tokenizer("gpt2"));
    let mut random = SplitMix64::new(8);
    let parts = [
        "start: ",
        "a: ",
        "A: ",
        "a ",
        "A ",
        "\"x\" ",
        "/[a-z]+/ ",
        "| ",
        "* ",
        "+ ",
        "? ",
        "( ",
        ") ",
        "[ ",
        "] ",
        "\n",
        "~2..3 ",
        "{2,300} ",
        "%ignore / /\n",
        "%json {\"type\": \"object\"} ",
        "%json {\"not\": {}} ",
        "<|x|> ",
        "<[1-5]> ",
        "%import common.INT\n",
        "# c\n",
        "a[lazy]: ",
        "a[max_tokens=3]: ",
        "\"\" ",
        "& ",
        "%regex {\"substring_words\": \"a b\"} ",
        "@other ",
        "%lark { start: a } ",
    ];
    let mut compiled = 0;
    for at in 0..700 {
        let body: String = (0..random.below(24)).map(|_| parts[random.below(parts.len())]).collect();
        let text = format!("start: {body}\na: \"y\"\nA: /z/\n");
        compiled += usize::from(survives(&compiler, GrammarSource::lark(&text), &format!("{at}: {text}")));
    }
    assert!(compiled > 20, "only {compiled} of the random grammars compile");
    let rules = |of: &dyn Fn(usize) -> String| (0..1500).map(of).collect::<String>();
    for (what, text) in [
        ("nothing but itself", "start: start".to_owned()),
        ("itself twice", "start: start start | \"a\" |".to_owned()),
        ("ambiguous", "start: a\na: a a | \"x\" | \"xx\" | \"xxx\" |".to_owned()),
        (
            "a chain of rules",
            format!("start: r0\n{}r1500: \"x\"\n", rules(&|at| format!("r{at}: r{} | \"y\"\n", at + 1))),
        ),
        (
            "a chain of terminals",
            format!("start: R0\n{}R1500: \"x\"\n", rules(&|at| format!("R{at}: R{} \"y\"\n", at + 1))),
        ),
        (
            "doubling terminals",
            format!(
                "start: R0\n{}R30: \"x\"\n",
                (0..30).map(|at| format!("R{at}: R{0} R{0}\n", at + 1)).collect::<String>()
            ),
        ),
        (
            "doubling rules",
            format!(
                "start: r0\n{}r30: \"x\"\n",
                (0..30).map(|at| format!("r{at}: r{0} r{0}\n", at + 1)).collect::<String>()
            ),
        ),
        ("a large repetition", "start: a{1000000}\na: \"x\" | \"y\"".to_owned()),
        ("repetitions of repetitions", "start: ((a{1000}){1000}){1000}\na: \"x\"".to_owned()),
    ] {
        survives(&compiler, GrammarSource::lark(&text), what);
    }
}
