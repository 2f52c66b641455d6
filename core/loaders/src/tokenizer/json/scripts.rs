//! Unicode scripts as sentencepiece splits by them: the Japanese ones are one, and characters without a script belong
//! to their neighbors.

use std::ops::Range;
use std::sync::OnceLock;

/// The start of each run of characters of one script, and its name; `-` means no script. From the Unicode version of
/// the tokenizers crate (`pre_tokenizers/unicode_scripts`), with its changes; a test compares all characters.
const RUNS: &str = include_str!("scripts.txt");

/// Starts of runs with the numbers of their scripts; 0 is no script.
fn runs() -> &'static [(u32, u8)] {
    static TABLE: OnceLock<Vec<(u32, u8)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut names = vec!["-"];
        let run = |text: &'static str| {
            let (start, name) = text.split_once('=')?;
            let number = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            Some((u32::from_str_radix(start, 16).ok()?, u8::try_from(number).ok()?))
        };
        RUNS.split_whitespace().filter_map(run).collect()
    })
}

fn script(character: char) -> u8 {
    let runs = runs();
    let after = runs.partition_point(|(start, _)| *start <= u32::from(character));
    after.checked_sub(1).and_then(|at| runs.get(at)).map_or(0, |(_, script)| *script)
}

/// The parts of a piece, each of one script. Characters without a script before the first one with a script are
/// removed, as in the crate.
pub(super) fn ranges(piece: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut last = 0;
    for (at, character) in piece.char_indices() {
        let own = script(character);
        let end = at + character.len_utf8();
        match ranges.last_mut() {
            _ if own != 0 && own != last => ranges.push(at..end),
            Some(range) => range.end = end,
            None => {}
        }
        if own != 0 {
            last = own;
        }
    }
    ranges
}
