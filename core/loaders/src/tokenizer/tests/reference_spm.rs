//! SPM against a reference that looks at all pairs again after every join.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::gguf::{Keys, fixture_tokenizer};
use crate::tokenizer::TokenKind;
use crate::{Special, Tokenizer};

/// Joins the adjacent pair with the best score, the leftmost of equals, until no two make a token; characters
/// without a token become bytes (sentencepiece, bpe_model.cc, without its queue).
fn reference(tokenizer: &Tokenizer, scores: &[f32], text: &str) -> Vec<u32> {
    let token = |text: &str| {
        tokenizer.id_of(text).filter(|id| {
            matches!(tokenizer.token_kind(*id).unwrap(), TokenKind::Normal | TokenKind::UserDefined)
        })
    };
    let mut parts: Vec<String> =
        format!(" {text}").replace(' ', "\u{2581}").chars().map(String::from).collect();
    if text.is_empty() {
        return Vec::new();
    }
    loop {
        let mut best: Option<(usize, f32)> = None;
        for (at, pair) in parts.windows(2).enumerate() {
            if let Some(id) = token(&pair.concat())
                && best.is_none_or(|(_, score)| scores[id as usize] > score)
            {
                best = Some((at, scores[id as usize]));
            }
        }
        let Some((at, _)) = best else {
            break;
        };
        let right = parts.remove(at + 1);
        parts[at].push_str(&right);
    }
    let bytes = |part: &str| -> Vec<u32> {
        part.bytes().map(|byte| tokenizer.id_of(&format!("<0x{byte:02X}>")).unwrap()).collect()
    };
    parts.iter().flat_map(|part| token(part).map_or_else(|| bytes(part), |id| vec![id])).collect()
}

/// A vocabulary in which many texts have several ways to be joined, with equal and with unequal scores.
fn knotty() -> (Tokenizer, Vec<f32>) {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
    let mut types = vec![2, 3, 3];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    types.extend([6; 256]);
    let space = "\u{2581}";
    let pieces = [1, 2, 3, 4, 5, 6, 8, 12].map(|n| space.repeat(n)).into_iter().chain(
        ["a", "b", "c", "aa", "ab", "ba", "aaa", "aba", "abab", "bc", "abc", "aaaa"].into_iter().flat_map(
            |piece| [piece.to_owned(), format!("{space}{piece}"), format!("{space}{space}{piece}")],
        ),
    );
    for piece in pieces {
        tokens.push(piece);
        types.push(1);
    }
    let scores: Vec<f32> = (0..tokens.len()).map(|at| -((at * 7919 % 13) as f32)).collect();
    let tokenizer = Keys::default()
        .text("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &tokens)
        .scores(&scores)
        .types(&types)
        .build(None)
        .unwrap();
    (tokenizer, scores)
}

fn fixture_scores() -> Vec<f32> {
    use super::gguf::fixture;
    let file =
        gguf_file::GgufFile::open(fixture("base/mixtral/model-f32.gguf"), &Default::default()).unwrap();
    let scores = file.metadata().get("tokenizer.ggml.scores").unwrap().as_array().unwrap();
    scores.numbers().unwrap().map(|score| score as f32).collect()
}

#[test]
fn runs_of_spaces_and_of_letters() {
    let (tokenizer, scores) = knotty();
    for count in 0..40 {
        for unit in [" ", "a", "ab", "a ", "  a", "aba"] {
            let text = unit.repeat(count);
            assert_eq!(
                tokenizer.encode(&text, Special::Plain).unwrap(),
                reference(&tokenizer, &scores, &text),
                "{text:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn knotty_texts(text in "[abc ]{0,30}|(  |aa|ab|ba| a|é|\u{2581}){0,20}") {
        static KNOTTY: LazyLock<(Tokenizer, Vec<f32>)> = LazyLock::new(knotty);
        let (tokenizer, scores) = &*KNOTTY;
        prop_assert_eq!(tokenizer.encode(&text, Special::Plain).unwrap(), reference(tokenizer, scores, &text));
    }

    #[test]
    fn words_of_a_trained_vocabulary(text in "(the|License|  | |\\n|you|perm|\\t|ing|ion|é|日|s|,|\\.|e){0,40}") {
        static TRAINED: LazyLock<(Tokenizer, Vec<f32>)> =
            LazyLock::new(|| (fixture_tokenizer("base/mixtral"), fixture_scores()));
        let (tokenizer, scores) = &*TRAINED;
        let expected = reference(tokenizer, scores, &text);
        prop_assert_eq!(tokenizer.encode(&text, Special::Plain).unwrap(), expected);
    }
}
