//! The table of pre-tokenizers and the cutting of text.

use fancy_regex::Regex;
use proptest::prelude::*;
use serde_json::Value;

use super::long_texts::{LIMIT, cpu_time};
use crate::tables::TokenizerTables;
use crate::tokenizer::TokenizerError;
use crate::tokenizer::budget::Budget;
use crate::tokenizer::splitter::Splitter;

/// The regexes as written, applied with fancy-regex alone.
fn as_written<'t>(regexes: &[String], text: &'t str) -> Vec<&'t str> {
    let mut pieces = vec![text];
    for regex in regexes {
        let regex = Regex::new(regex).unwrap();
        let mut next = Vec::new();
        for piece in pieces {
            let mut done = 0;
            for found in regex.find_iter(piece) {
                let found = found.unwrap();
                next.push(&piece[done..found.start()]);
                next.push(found.as_str());
                done = found.end();
            }
            next.push(&piece[done..]);
        }
        pieces = next;
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Every distinct list of the table.
fn lists() -> Vec<Vec<String>> {
    let table = TokenizerTables::built_in().unwrap();
    let mut lists: Vec<Vec<String>> =
        table.pre_tokenizers().map(|name| table.pre(name).unwrap().regexes.clone()).collect();
    lists.sort();
    lists.dedup();
    lists
}

#[test]
fn all_regexes_compile_and_lose_nothing() {
    let lists = lists();
    assert!(lists.len() >= 28, "{}", lists.len());
    let text = "Hello, I'm 12345 years\r\n\n  old!  naïve 日本語 ١٢٣ \u{85}x\ty   z\u{3000}é 🦙<|x|>  ";
    for list in lists {
        let pieces = Splitter::new(&list).unwrap().split(text, &Budget::of(text)).unwrap().concat();
        assert_eq!(pieces, text);
    }
}

#[test]
fn known_cuts() {
    // Worked out by hand from the regexes.
    let cases: [(&str, &str, &[&str]); 8] = [
        ("gpt-2", "I'm  here\n\n x1", &["I", "'m", " ", " here", "\n\n", " x", "1"]),
        ("llama-bpe", "I'M 12345\n\n x", &["I", "'M", " ", "123", "45", "\n\n", " x"]),
        ("qwen2", "a 12\n", &["a", " ", "1", "2", "\n"]),
        ("tekken", "HelloWorld 12", &["Hello", "World", " ", "1", "2"]),
        ("deepseek-v3", "ab12345日本", &["ab", "123", "45", "日本"]),
        ("smollm", "x = 10", &["x", " =", " ", "1", "0"]),
        ("afmoe", "12345678", &["12", "345", "678"]),
        ("superbpe", "12345678", &["12", "345", "678"]),
    ];
    let table = TokenizerTables::built_in().unwrap();
    for (pre, text, expected) in cases {
        let splitter = Splitter::new(&table.pre(pre).unwrap().regexes).unwrap();
        assert_eq!(splitter.split(text, &Budget::of(text)).unwrap(), expected, "{pre}");
    }
}

/// Only the end of a regex is cut by hand: what it finds otherwise stays as it is.
#[test]
fn white_space_that_a_regex_finds_before_its_end_stays_whole() {
    let text = "a   b\t\t\tc    \t\n\n  d \u{3000}\u{3000} e      ";
    for list in [
        r"\t{2}| {4}|\p{L}+|\s+(?!\S)|\s+",
        r"\s{4}(?!\S)|\p{L}+|\s+(?!\S)|\s+",
        r"( {3})|(?:\n){2}| ?\p{L}+|\s+(?!\S)|\s+",
        r"(?<=a)\s{3}|\s+(?!\S)|\s+",
    ] {
        let list = [list.to_owned()];
        assert_eq!(
            Splitter::new(&list).unwrap().split(text, &Budget::of(text)).unwrap(),
            as_written(&list, text),
            "{list:?}"
        );
    }
}

#[test]
fn white_space_is_cut_in_steps() {
    let table = TokenizerTables::built_in().unwrap();
    let list = &table.pre("jais-2").unwrap().regexes;
    let splitter = Splitter::new(list).unwrap();
    for count in (0..70).chain([127, 128, 129, 255, 257, 511, 512, 513, 514, 1023, 1300]) {
        for (before, part, after) in
            [("", " ", ""), ("x", " ", "y"), ("x\n", "\t", "1"), ("", "\u{3000}", "-")]
        {
            let text = [before, &part.repeat(count), after].concat();
            assert_eq!(
                splitter.split(&text, &Budget::of(&text)).unwrap(),
                as_written(list, &text),
                "{count} of {part:?}"
            );
        }
    }
}

#[test]
fn cuts_are_llama_cpps() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pre/pieces.json");
    let reference: Value = serde_json::from_str(&std::fs::read_to_string(source).unwrap()).unwrap();
    let texts: Vec<&str> =
        reference["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let table = TokenizerTables::built_in().unwrap();
    let mut compared = 0;
    for (pre, pieces) in reference["pieces"].as_object().unwrap() {
        let splitter = Splitter::new(&table.pre(pre).unwrap().regexes).unwrap();
        for (text, pieces) in texts.iter().zip(pieces.as_array().unwrap()) {
            if is_approximate(pre, text) {
                continue;
            }
            let expected: Vec<&str> =
                pieces.as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
            assert_eq!(splitter.split(text, &Budget::of(text)).unwrap(), expected, "{pre}");
            compared += 1;
        }
    }
    assert!(compared > 2900, "{compared}");
}

/// Where llama.cpp's regexes only come near those of the models' tokenizer.json, which are the ones in our table: its
/// `std::regex` knows no letter case (so it writes `[^A-Z]`, and takes `\p{Lu}` for any letter), no marks in those
/// classes, and no white space beyond ASCII in a range of characters.
fn is_approximate(pre: &str, text: &str) -> bool {
    let marks = text.contains(['\u{301}', '\u{94d}']);
    let cases = text.contains("camelCase");
    match pre {
        "tekken" | "gpt-4o" | "minimax-m2" => marks,
        "kimi-k2" => marks || cases,
        "youtu" | "tiny_aya" => cases,
        "deepseek-llm" | "deepseek-coder" => text.contains('\u{3000}'),
        _ => false,
    }
}

#[test]
fn a_regex_that_gives_up_is_an_error() {
    let splitter = Splitter::new(&[r"x|(?:a|a)*(?=b)c".to_owned()]).unwrap();
    let text = "a".repeat(64);
    let error = splitter.split(&text, &Budget::of(&text)).unwrap_err();
    assert!(matches!(error, TokenizerError::Regex { regex: 1, length: 64, .. }), "{error}");
}

/// Each match takes its time and none gives up: the text as a whole does.
#[test]
fn a_regex_that_takes_its_time_again_and_again_is_an_error() {
    let slow = "(?:a|a){1,12}(?=b)|a".to_owned();
    let splitter = Splitter::new(&[slow]).unwrap();
    let budget = Budget::with_patience(20_000, std::time::Duration::ZERO);
    let error = splitter.split(&"a".repeat(20_000), &budget).unwrap_err().to_string();
    assert!(error.contains("regex 1 failed at byte") && error.contains("takes too long"), "{error}");
}

#[test]
fn a_megabyte_of_one_thing_is_cut_in_no_time_by_every_list() {
    let mut slow = Vec::new();
    for list in lists() {
        let splitter = Splitter::new(&list).unwrap();
        for part in [" ", "\n", " \n", "1", "a"] {
            for end in ["", "x"] {
                let text = part.repeat((1 << 20) / part.len()) + end;
                let start = cpu_time();
                let pieces = splitter.split(&text, &Budget::of(&text)).map(|pieces| pieces.len());
                let took = cpu_time() - start;
                if pieces.is_err() || took > LIMIT {
                    slow.push(format!("{part:?} and {end:?}: {took:?}, {pieces:?}; {list:?}"));
                }
            }
        }
    }
    assert!(slow.is_empty(), "{} are slow or refused:\n{}", slow.len(), slow.join("\n"));
}

#[test]
fn a_megabyte_of_white_space_is_cut_at_once() {
    let text = format!("{}x{}", "\t".repeat(1 << 20), " \n".repeat(1 << 18));
    for pre in ["gpt-2", "llama-bpe", "qwen2", "tekken", "deepseek-v3", "gpt-4o", "smollm", "command-r"] {
        let tables = TokenizerTables::built_in().unwrap();
        let pieces = Splitter::new(&tables.pre(pre).unwrap().regexes)
            .unwrap()
            .split(&text, &Budget::of(&text))
            .unwrap()
            .len();
        assert!(pieces < 6, "{pre}: {pieces}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn cuts_are_those_of_the_regexes_as_written(
        text in "([ \\t\\r\\n\u{a0}\u{3000}\u{85}]{1,4}|[a-zA-Zéß]{1,3}|[0-9٣]{1,5}|['.,!<|>/_-]{1,2}|'s|日|\u{301}|🦙){0,25}"
    ) {
        thread_local! {
            static LISTS: Vec<(Vec<String>, Splitter)> =
                lists().into_iter().map(|list| (list.clone(), Splitter::new(&list).unwrap())).collect();
        }
        LISTS.with(|lists| {
            for (list, splitter) in lists {
                prop_assert_eq!(splitter.split(&text, &Budget::of(&text)).unwrap(), as_written(list, &text), "{:?}", list);
            }
            Ok(())
        })?;
    }
}
