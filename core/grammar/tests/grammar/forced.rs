//! Forced tokens are what the masks force, and asking for them changes no mask.

use crate::tokens::{fixture, tokenizer};
use crate::walk::ids;
use menagerie_grammar::{GrammarCompiler, GrammarSource};
use menagerie_random::SplitMix64;
use serde_json::Value;

const MOST: usize = 8;

/// Two answers side by side; only one is asked for forced tokens.
#[test]
fn forced_tokens_are_those_of_the_masks() {
    let text = std::fs::read_to_string(fixture("structured/schemas.jsonl")).unwrap();
    let (mut forced, mut right) = (0, 0);
    for (place, name) in ["gpt2", "llama3"].into_iter().enumerate() {
        let tokenizer = tokenizer(name);
        let compiler = GrammarCompiler::new(tokenizer.clone());
        for (at, line) in text.lines().enumerate() {
            let case: Value = serde_json::from_str(line).unwrap();
            let source = GrammarSource::json_schema(&case["schema"]).unwrap();
            let constraint = compiler.constraint(&source).unwrap();
            let (mut asked, mut plain) = (constraint.start().unwrap(), constraint.start().unwrap());
            let mut random = SplitMix64::new((place * 1000 + at) as u64);
            let mut guesses: Vec<u32> = Vec::new();
            for _ in 0..60 {
                let now = asked.forced(MOST);
                assert!(now.len() <= MOST);
                let mask = ids(asked.allowed().unwrap().unwrap(), tokenizer.vocabulary());
                let other = ids(plain.allowed().unwrap().unwrap(), tokenizer.vocabulary());
                assert_eq!(mask, other, "{name}, {}", case["name"]);
                if let Some(first) = now.first() {
                    assert_eq!(mask, [*first], "{name}, {}: not the only one", case["name"]);
                }
                let open: Vec<u32> =
                    mask.into_iter().filter(|id| !tokenizer.end_of_generation().contains(id)).collect();
                if open.is_empty() {
                    break;
                }
                let id = open[random.below(open.len())];
                if !guesses.is_empty() {
                    forced += 1;
                    right += usize::from(guesses.remove(0) == id);
                }
                if guesses.is_empty() {
                    guesses = now.into_iter().skip(1).collect();
                }
                asked.accept(id).unwrap();
                plain.accept(id).unwrap();
                if asked.is_complete() {
                    break;
                }
            }
        }
    }
    assert!(forced > 200 && right * 10 >= forced * 9, "{right} of {forced} guesses");
}
