//! Ten thousand mutated specs: each ends in faults or in a model, in bounded time.

use crate::eighty::{GOOD, small};
use crate::model::{built_in, parse};
use menagerie_random::SplitMix64;
use menagerie_spec::SpecLookup;
use std::time::{Duration, Instant};

/// How many; the seed of each is its number.
const COUNT: u64 = 10_000;

/// The longest that one may take, on a machine that is busy with others.
const LONGEST: Duration = Duration::from_secs(5);

/// What is put into a spec's place.
const PIECES: [&str; 40] = [
    "0",
    "1",
    "-1",
    "4294967296",
    "1e308",
    "-0.0",
    "nan",
    "inf",
    "true",
    "false",
    "[]",
    "{}",
    "\"\"",
    "''",
    "\"layer\"",
    "\"layer % 2 == 0\"",
    "\"has('attn_q')\"",
    "\"1 / 0\"",
    "\"x\"",
    "\"sqrt(-1)\"",
    "\"block_count ** block_count\"",
    "\"attention.head_count | default(0)\"",
    "\"pattern('a', 0)\"",
    "\"none\"",
    "\"attention\"",
    "\"moe\"",
    "\"rms\"",
    "\"layer\"",
    "{ kind = \"none\" }",
    "{ by = \"layer\", 0 = \"silu\" }",
    "{ gguf = 1, hf = 2 }",
    "[\"attn_norm\", \"ffn_norm\"]",
    "\"output_norm\"",
    "\"own\"",
    "\"sliding\"",
    "1979-05-27",
    "\"\\u0000\"",
    "\"a.b.c.d\"",
    "9223372036854775807",
    "{ role = \"attn_norm\", when = \"layer\" }",
];

/// A text with one to four things changed: values, lines, words, bytes.
fn mutated(text: &str, random: &mut SplitMix64) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(lines.len());
        let other = random.below(lines.len());
        match random.below(8) {
            0..=2 => {
                if let Some((key, _)) = lines[at].clone().split_once('=') {
                    lines[at] = format!("{key}= {}", random.choose(&PIECES).unwrap());
                }
            }
            3 => drop(lines.remove(at)),
            4 => lines.insert(at, lines[other].clone()),
            5 => lines.swap(at, other),
            6 => {
                let words: Vec<&str> =
                    lines[other].split([' ', '.', '"', '=']).filter(|word| !word.is_empty()).collect();
                let word = if words.is_empty() { "x" } else { random.choose(&words).unwrap() }.to_owned();
                let mut parts: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
                let place = random.below(parts.len());
                parts[place] = word;
                lines[at] = parts.join(" ");
            }
            _ => {
                let mut letters: Vec<char> = lines[at].chars().collect();
                let place = random.below(letters.len());
                let letter = char::from(32 + random.below(96) as u8);
                if place < letters.len() {
                    letters[place] = letter
                } else {
                    letters.push(letter)
                }
                lines[at] = letters.into_iter().collect();
            }
        }
        if lines.is_empty() {
            lines.push(String::new());
        }
    }
    lines.join("\n")
}

/// Of the specs that are mutated: the one with everything, and short ones of the project.
fn texts() -> Vec<String> {
    let folder = built_in();
    let short = folder.ids().into_iter().filter_map(|id| folder.find(&id)).map(|source| source.text);
    let mut texts: Vec<String> = short.filter(|text| text.len() < 1500).take(20).collect();
    let whole = texts.len().max(1) * 3;
    texts.extend(vec![GOOD.to_owned(); whole]);
    texts
}

/// Runs some of them; how many were models.
fn run(texts: &[String], seeds: impl Iterator<Item = u64>) -> usize {
    let file = small().with("rope.freq_base", 1e6);
    let mut models = 0;
    for seed in seeds {
        let mut random = SplitMix64::new(seed);
        let text = mutated(&texts[random.below(texts.len())], &mut random);
        let start = Instant::now();
        let found = parse(&text).and_then(|spec| file.report(&spec).map(drop));
        assert!(start.elapsed() < LONGEST, "seed {seed} took {:?}:\n{text}", start.elapsed());
        match found {
            Ok(()) => models += 1,
            Err(faults) => {
                let said = faults.to_string();
                assert!(!said.is_empty() && said.len() < 200_000, "seed {seed}: {} bytes", said.len());
            }
        }
    }
    models
}

#[test]
fn ten_thousand_mutated_specs_end_in_faults_or_a_model() {
    let texts = texts();
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(8) as u64;
    let models: usize = std::thread::scope(|scope| {
        let texts = &texts;
        let parts: Vec<_> = (0..workers)
            .map(|worker| scope.spawn(move || run(texts, (worker..COUNT).step_by(workers as usize))))
            .collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    // Mutations that only broke the TOML, or that changed nothing, would prove little.
    assert!((500..9_500).contains(&models), "{models} of {COUNT} are models");
}
