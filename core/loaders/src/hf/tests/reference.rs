//! The tokenizers crate on the same `tokenizer.json`.

use std::str::FromStr;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::{built, fixture};
use crate::tokenizer::tests::long_texts::own_pages;
use crate::{Special, Tokenizer};

pub(super) struct Pair {
    name: String,
    ours: Tokenizer,
    theirs: tokenizers::Tokenizer,
}

impl Pair {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let ours = built(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), ours, theirs: tokenizers::Tokenizer::from_str(text).unwrap() }
    }

    fn fixture(folder: &str) -> Self {
        Self::new(folder, &std::fs::read_to_string(fixture(folder).join("tokenizer.json")).unwrap())
    }

    pub(super) fn check(&self, text: &str) {
        let theirs = self.theirs.encode_fast(text, false).unwrap();
        let ours = self.ours.encode(text, Special::Parse).unwrap();
        assert_eq!(ours, theirs.get_ids(), "{}: {text:?}", self.name);
        let framed = self.theirs.encode_fast(text, true).unwrap();
        if theirs.get_ids().first() != framed.get_ids().first() {
            assert_eq!(self.ours.frame(ours.clone()), framed.get_ids(), "{}: {text:?}, framed", self.name);
        }
    }
}

static FIXTURES: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    ["glm", "gpt2", "llama3", "qwen2", "spm", "wordpiece"]
        .map(|kind| Pair::fixture(&format!("tok/{kind}")))
        .into()
});

#[test]
fn a_long_text_has_the_same_ids() {
    let pages = own_pages();
    for pair in FIXTURES.iter() {
        pair.check(&pages);
    }
}

/// Whether a character is in a block that was complete in Unicode 9, the version of the crate's tables of marks and
/// decompositions.
fn is_old(character: &char) -> bool {
    matches!(
        u32::from(*character),
        0..=0x52F | 0xE01..=0xE3A | 0x1E00..=0x1EFF | 0x2000..=0x2064 | 0x2070..=0x209C | 0x20D0..=0x20E0 | 0x2150..=0x2182
            | 0x2190..=0x23FA | 0x2460..=0x2B4F | 0x3000..=0x30FF | 0x4E00..=0x9FA5 | 0xAC00..=0xD7A3 | 0xE000..=0xFAD9
            | 0xFB00..=0xFB06 | 0xFF01..=0xFFDC | 0xFEFF | 0xFFFD | 0x1_F300..=0x1_F64F | 0x2_0000..=0x2_A6D6
    )
}

/// Texts with unusual characters.
pub(super) fn odd() -> impl Strategy<Value = String> {
    let old = |text: String| text.chars().filter(is_old).collect();
    prop_oneof![
        "\\PC{0,24}",
        "[ab\u{2581} \n\t<>|/sé\u{301}#▁]{0,24}",
        "(<s>|</s>|<\\|im_start\\|>|<unk>|\\[MASK\\]|\\[CLS\\]|##|<0x41>| |  |\n|the |The|ing|日本|🦙|e\u{301}|ﬁ|½|１２|'s|'LL|123456|\u{a0}|\u{200d}){0,12}",
        any::<String>(),
        "[\\x00-\\x{52f}\\x{2000}-\\x{2064}\\x{ff01}-\\x{ff9f}\\x{f900}-\\x{fad9}]{0,24}",
    ]
    .prop_map(old)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn odd_texts_have_the_same_ids(text in odd()) {
        for pair in FIXTURES.iter() {
            pair.check(&text);
        }
    }
}
