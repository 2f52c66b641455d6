//! One answer: the logits of a token are the same bits alone, in a prompt, in any chunk, behind a cached prefix, beside other
//! sequences, on any number of threads and on every instruction set; and the same as on other machines: their hashes are
//! written down in `fixtures/one-answer.toml`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

#[path = "one_answer/subjects.rs"]
mod subjects;

use menagerie::cpu::CpuBackend;
use menagerie::engine::{
    AdapterChoice, Arithmetic, KvType, LogitRows, Scheduler, SchedulerOptions, Sequence, StepOutput,
    TextPipeline,
};
use menagerie::kernels::{Cpu, Isa};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{Device, LoadedModel, ModelBuilder};
use menagerie_conformance::{fixtures, options};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use subjects::{Depends, Subject, ZOO, subjects};

/// How a model is computed, as the table of hashes names it.
const WAYS: [(&str, Arithmetic, KvType); 6] = [
    ("fast f16", Arithmetic::Fast, KvType::F16),
    ("fast f32", Arithmetic::Fast, KvType::F32),
    ("fast q8_0", Arithmetic::Fast, KvType::Q8_0),
    ("exact f16", Arithmetic::Exact, KvType::F16),
    ("exact f32", Arithmetic::Exact, KvType::F32),
    ("exact q8_0", Arithmetic::Exact, KvType::Q8_0),
];

/// Tokens of the text that is computed in every way.
const TOKENS: usize = 83;

fn tokens(vocabulary: usize, seed: usize, count: usize) -> Vec<u32> {
    (0..count).map(|i| ((i * i * 7 + i * (13 + seed) + 5 * seed + 5) % vocabulary) as u32).collect()
}

/// Absent where the heads of a model are too small for the cache's type.
fn open(
    subject: &Subject,
    isa: Isa,
    threads: usize,
    way: (Arithmetic, KvType),
) -> Option<LoadedModel<TextPipeline>> {
    let backend = CpuBackend::new(Cpu::with_isa(Some(threads), isa).unwrap());
    let options = options(way.0)
        .with_device(Device::Given(Arc::new(backend)))
        .with_threads(None)
        .with_kv_type(way.1)
        .with_context(256)
        .with_adapters(subject.adapters.clone());
    match ModelBuilder::new(&subject.path).with_options(&options).open_text() {
        Ok(pipeline) => Some(pipeline),
        Err(error) if error.to_string().contains("cannot be stored as q8_0") => None,
        Err(error) => panic!("{}: {error}", subject.name),
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The logits of every token, fed in chunks and from `decode_from` on one by one.
fn fed(pipeline: &TextPipeline, tokens: &[u32], chunk: usize, decode_from: Option<usize>) -> Vec<u32> {
    let logits =
        logits(pipeline, tokens, &LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from));
    bits(&logits.unwrap_or_else(|e| panic!("{e}")).values)
}

/// Steps sequences together until none has anything left, and gives the logits of the first.
fn first_of(scheduler: &mut Scheduler, sequences: &mut [Sequence]) -> Vec<u32> {
    let mut found = Vec::new();
    while sequences.iter().any(|sequence| sequence.pending() > 0) {
        let mut all: Vec<&mut Sequence> = sequences.iter_mut().collect();
        scheduler.step(&mut all, None).each(&mut |index, output| {
            let rows = output.and_then(StepOutput::logits).unwrap_or_else(|e| panic!("{e}"));
            if index == 0 {
                found.extend(bits(rows));
            }
        });
    }
    found
}

/// The logits of every token, beside seven sequences of other lengths, prompts and tokens one by one mixed.
fn beside_others(pipeline: &TextPipeline, text: &[u32], step_tokens: usize) -> Vec<u32> {
    let room = SchedulerOptions::default()
        .with_sequences(8)
        .with_prefixes(0)
        .with_capacity_tokens(8 * 256)
        .with_step_tokens(step_tokens);
    let mut scheduler = Scheduler::new(Arc::clone(pipeline.engine()), Vec::new(), room).unwrap();
    let mut sequences: Vec<Sequence> = (0..8).map(|_| scheduler.create().unwrap()).collect();
    // Of an adapted model every third neighbor is bare.
    for sequence in sequences.iter_mut().skip(1).step_by(3) {
        scheduler.adapt(sequence, &AdapterChoice::Bare).unwrap();
    }
    let prompt = text.len() / 2;
    for (index, sequence) in sequences.iter_mut().enumerate() {
        let other = tokens(pipeline.vocabulary(), index, 5 + 9 * index);
        let own = if index == 0 { &text[..prompt] } else { &other[..] };
        let wanted = if index == 0 { LogitRows::All } else { LogitRows::Last };
        scheduler.begin(sequence, own, wanted).unwrap();
    }
    let mut found = first_of(&mut scheduler, &mut sequences);
    for (at, &token) in text.iter().enumerate().skip(prompt) {
        for (index, sequence) in sequences.iter_mut().enumerate() {
            // Some decode with it, some rest, some begin anew.
            let next = if index == 0 { token } else { ((at * 31 + index) % pipeline.vocabulary()) as u32 };
            match (at + index) % 5 {
                _ if index == 0 => drop(scheduler.push(sequence, next).unwrap()),
                0 => {}
                1 if index > 5 => {
                    scheduler
                        .begin(sequence, &tokens(pipeline.vocabulary(), at, 11), LogitRows::Last)
                        .unwrap();
                }
                _ => drop(scheduler.push(sequence, next).unwrap()),
            }
        }
        found.extend(first_of(&mut scheduler, &mut sequences));
    }
    found
}

/// The logits of the last tokens, where the first `held` of the text are there from before.
fn behind_a_prefix(pipeline: &TextPipeline, text: &[u32], held: usize, step_tokens: usize) -> Vec<u32> {
    let room = SchedulerOptions::default()
        .with_sequences(1)
        .with_prefixes(0)
        .with_capacity_tokens(256)
        .with_step_tokens(step_tokens);
    let mut scheduler = Scheduler::new(Arc::clone(pipeline.engine()), Vec::new(), room).unwrap();
    let mut sequences = [scheduler.create().unwrap()];
    let prompt = text.len() - 4;
    let mut first = text[..held].to_vec();
    // What follows the prefix is another text, which is forgotten.
    first.extend(tokens(pipeline.vocabulary(), 3, 7));
    scheduler.begin(&mut sequences[0], &first, LogitRows::Last).unwrap();
    first_of(&mut scheduler, &mut sequences);
    scheduler.begin(&mut sequences[0], &text[..prompt], LogitRows::Last).unwrap();
    let mut found = first_of(&mut scheduler, &mut sequences);
    for &token in &text[prompt..] {
        scheduler.push(&mut sequences[0], token).unwrap();
        found.extend(first_of(&mut scheduler, &mut sequences));
    }
    found
}

/// FNV-1a over the bytes of the logits, little end first.
fn hash(bits: &[u32]) -> String {
    let bytes = bits.iter().flat_map(|word| word.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Where `found` first differs from `expected`, by token and column.
fn difference(expected: &[u32], found: &[u32], width: usize) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!("{} rows, expected {}", found.len() / width, expected.len() / width));
    }
    let differs = |(a, b): (&u32, &u32)| a != b;
    let at = expected.iter().zip(found).position(differs)?;
    let many = expected.iter().zip(found).filter(|&(a, b)| a != b).count();
    let largest = expected.iter().zip(found).map(|(a, b)| (f32::from_bits(*a) - f32::from_bits(*b)).abs());
    let largest = largest.fold(0.0, f32::max);
    Some(format!("{many} of {} values, first in row {}, by up to {largest:.1e}", found.len(), at / width))
}

/// Everything a model is computed by that must give the same: the hash, and the faults found.
fn every_way(subject: &Subject, way: (Arithmetic, KvType)) -> Option<(String, Vec<String>)> {
    let pipeline = open(subject, Isa::detect(), 1, way)?;
    let width = pipeline.vocabulary();
    let text = tokens(width, 1, TOKENS);
    let mut faults = Vec::new();
    let mut compare = |what: String, expected: &[u32], found: Vec<u32>| {
        faults.extend(difference(expected, &found, width).map(|fault| format!("{what}: {fault}")));
    };
    // Where the prompt ends, and how it may be cut.
    let (end, cuts): (Option<usize>, &[usize]) = match subject.depends {
        Depends::Nothing => (None, &[1, 2, 9, 64]),
        Depends::Prompt => (Some(TOKENS / 2), &[]),
    };
    let whole = fed(&pipeline, &text, 512, end);
    if subject.depends == Depends::Nothing {
        compare("token by token".to_owned(), &whole, fed(&pipeline, &text, 1, Some(1)));
    }
    for &chunk in cuts {
        compare(format!("chunks of {chunk}"), &whole, fed(&pipeline, &text, chunk, Some(70)));
    }
    for step_tokens in if cuts.is_empty() { [128, 512] } else { [13, 512] } {
        let found = beside_others(&pipeline, &text, step_tokens);
        compare(format!("beside others, {step_tokens} rows a step"), &whole, found);
    }
    let ended = end.map(|_| fed(&pipeline, &text, 512, Some(TOKENS - 4)));
    for held in [1, 30, TOKENS - 5] {
        let found = behind_a_prefix(&pipeline, &text, held, if cuts.is_empty() { 128 } else { 64 });
        compare(
            format!("{held} tokens held"),
            &ended.as_ref().unwrap_or(&whole)[(TOKENS - 5) * width..],
            found,
        );
    }
    for isa in Isa::available() {
        let other = open(subject, isa, 3, way)?;
        compare(format!("{isa}, 3 threads"), &whole, fed(&other, &text, 512, end));
        if isa != Isa::detect() {
            let found = fed(&other, &text, if end.is_some() { 512 } else { 11 }, end.or(Some(74)));
            compare(format!("{isa}, chunks"), &whole, found);
        }
    }
    Some((hash(&whole), faults))
}

/// The table of hashes, as it is written down.
fn table() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(fixtures().join("one-answer.toml")).unwrap_or_default();
    let line = |line: &str| {
        let (name, hash) = line.split_once(" = ")?;
        Some((name.trim_matches('"').to_owned(), hash.trim_matches('"').to_owned()))
    };
    text.lines().filter(|text| !text.starts_with('#')).filter_map(line).collect()
}

/// Every model of a folder in every way; `q8_0` have heads that can be cached as that.
fn one_answer(folder: &str, count: usize, q8_0: usize) {
    let subjects = subjects(folder);
    assert_eq!(subjects.len(), count);
    let (expected, mut found, mut faults) = (table(), BTreeMap::new(), String::new());
    for subject in &subjects {
        let name = &subject.name;
        for (way, arithmetic, kv_type) in WAYS {
            let Some((hash, wrong)) = every_way(subject, (arithmetic, kv_type)) else { continue };
            wrong.iter().for_each(|fault| writeln!(faults, "{name} {way}: {fault}").unwrap());
            found.insert(format!("{name} {way}"), hash);
        }
    }
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        write(folder, &found);
    } else {
        for (name, hash) in &found {
            let known = expected.get(name).map_or("not written down", String::as_str);
            if known != hash {
                writeln!(faults, "{name}: the hash of the logits is {hash}, expected: {known}").unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert_eq!(found.keys().filter(|name| name.ends_with("fast q8_0")).count(), q8_0);
}

/// Puts a folder's hashes into the table, one folder at a time.
fn write(folder: &str, found: &BTreeMap<String, String>) {
    static TABLE: Mutex<()> = Mutex::new(());
    let _alone = TABLE.lock().unwrap();
    let mut table = table();
    table.retain(|name, _| !name.starts_with(&format!("{folder}/")));
    table.extend(found.iter().map(|(name, hash)| (name.clone(), hash.clone())));
    let mut text = String::from(
        "# Hashes (FNV-1a, 64 bits) of the logits that tests/conformance/one_answer.rs computes: every machine gives these.\n\
         # Written by that test where MENAGERIE_WRITE_GENERATED is set; a change of one is a change of what models answer.\n",
    );
    table.iter().for_each(|(name, hash)| writeln!(text, "\"{name}\" = \"{hash}\"").unwrap());
    std::fs::write(fixtures().join("one-answer.toml"), text).unwrap();
}

#[test]
fn base_models() {
    one_answer("base", 9, 2);
}

#[test]
fn quantized_files() {
    one_answer("quant", 14, 14);
}

#[test]
fn models_of_the_zoo() {
    one_answer("zoo", ZOO.len(), 1);
}

/// Sets of LoRA and DoRA, experts with adapters, X-LoRA.
#[test]
fn models_with_adapters() {
    one_answer("adapted", 11, 0);
}

/// Mixtures that choose for each token, and for a prompt as one: there a token's logits depend on where the prompt ends.
#[test]
fn mixtures() {
    one_answer("mixture", 6, 0);
}
