//! Runs the schemas of a folder, as JSONSchemaBench's MaskBench has them, through constraints over the tokens of a
//! model: which schemas are supported, whether valid instances may be written and invalid ones may not, and how long the
//! masks take.
//!
//! ```sh
//! cargo run --release --package menagerie-measure --example mask_bench -- model.gguf FOLDER [SHOWN]
//! ```
//!
//! Each file is `{"schema": .., "tests": [{"valid": bool, "data": ..}, ..]}`. Instances are written with `", "` and
//! `": "`, as constrained answers are. `SHOWN` is the number of faults to print (20 by default).
#![allow(missing_docs)]

use menagerie_all as _;
use menagerie_engine::{Constraint, ConstraintError, Tokenizing};
use menagerie_grammar::{GrammarCompiler, GrammarError, GrammarSource};
use menagerie_open::ModelBuilder;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Result as IoResult, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the schemas of a folder gave.
#[derive(Default)]
struct Report {
    /// Files without a schema, or that are not JSON.
    unreadable: usize,
    supported: usize,
    /// Schemas that are refused, by the reason without the place.
    refused: BTreeMap<String, usize>,
    valid: usize,
    invalid: usize,
    /// Valid instances that may not be written, invalid ones that may, and constraints that failed.
    faults: [Vec<String>; 3],
    compilations: Vec<Duration>,
    masks: Vec<Duration>,
}

const FAULTS: [&str; 3] =
    ["valid instances that are refused", "invalid instances that are accepted", "constraints that failed"];

/// Separators as in constrained answers.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> IoResult<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> IoResult<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        writer.write_all(b": ")
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, folder, shown) = match &arguments[..] {
        [model, folder] => (model, folder, 20),
        [model, folder, shown] => (model, folder, shown.parse()?),
        _ => return Err("usage: mask_bench MODEL.gguf FOLDER [SHOWN]".into()),
    };
    let pipeline = ModelBuilder::new(model).open_text()?;
    let tokenizer = Arc::clone(pipeline.tokenizer()?);
    let compiler = GrammarCompiler::new(Arc::clone(&tokenizer));
    // The trie of the vocabulary is built once.
    compiler.constraint(&GrammarSource::json_object()?)?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<IoResult<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut report = Report::default();
    for (index, file) in files.iter().enumerate() {
        if index % 500 == 0 {
            eprintln!("{index} of {} schemas", files.len());
        }
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match std::fs::read(file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
            Some(case) if case.get("schema").is_some() => report.run(&name, &case, &compiler, &*tokenizer)?,
            _ => report.unreadable += 1,
        }
    }
    report.print(files.len(), shown);
    Ok(())
}

impl Report {
    fn run(
        &mut self,
        name: &str,
        case: &Value,
        compiler: &GrammarCompiler,
        tokenizer: &dyn Tokenizing,
    ) -> Outcome<()> {
        let start = Instant::now();
        let compiled =
            GrammarSource::json_schema(&case["schema"]).and_then(|source| compiler.constraint(&source));
        let constraint = match compiled {
            Ok(constraint) => constraint,
            Err(error) => {
                let reason = match error {
                    GrammarError::Schema { keyword, reason, .. } => format!("{keyword} {reason}"),
                    other => other.to_string(),
                };
                *self.refused.entry(reason).or_default() += 1;
                return Ok(());
            }
        };
        self.compilations.push(start.elapsed());
        self.supported += 1;
        for test in case["tests"].as_array().into_iter().flatten() {
            let (is_valid, place) = (test["valid"] == Value::Bool(true), format!("{name}: {}", test["data"]));
            *(if is_valid { &mut self.valid } else { &mut self.invalid }) += 1;
            match self.accepts(&*constraint, tokenizer, &test["data"]) {
                Ok(accepts) if accepts == is_valid => {}
                Ok(accepts) => self.faults[usize::from(accepts)].push(place),
                Err(error) => self.faults[2].push(format!("{error}: {place}")),
            }
        }
        Ok(())
    }

    /// Whether the tokens of an instance may be written from beginning to end.
    fn accepts(
        &mut self,
        constraint: &dyn Constraint,
        tokenizer: &dyn Tokenizing,
        instance: &Value,
    ) -> Outcome<bool> {
        let mut text = Vec::new();
        instance.serialize(&mut Serializer::with_formatter(&mut text, Spaced))?;
        let mut state = constraint.start()?;
        for token in tokenizer.encode(&String::from_utf8(text)?)? {
            if state.is_complete() {
                return Ok(false);
            }
            let start = Instant::now();
            let allowed = match state.allowed() {
                Err(ConstraintError::DeadEnd) => return Ok(false),
                allowed => allowed?,
            };
            self.masks.push(start.elapsed());
            if !may_come(allowed, token) {
                return Ok(false);
            }
            state.accept(token)?;
        }
        let ends = |allowed| tokenizer.end_of_generation().iter().any(|end| may_come(allowed, *end));
        Ok(state.is_complete() || ends(state.allowed()?))
    }

    fn print(&mut self, files: usize, shown: usize) {
        println!("{files} files, {} of them unreadable or without a schema", self.unreadable);
        println!("{} schemas supported, {} refused", self.supported, self.refused.values().sum::<usize>());
        let mut reasons: Vec<(&String, &usize)> = self.refused.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons.into_iter().take(shown) {
            println!("  {count} × {}", reason.replace('\n', " "));
        }
        println!("instances of supported schemas: {} valid, {} invalid", self.valid, self.invalid);
        for (what, faults) in FAULTS.iter().zip(&self.faults) {
            println!("{what}: {}", faults.len());
            for fault in faults.iter().take(shown) {
                println!("  {}", fault.chars().take(300).collect::<String>());
            }
        }
        spread("compilation", &mut self.compilations);
        spread("mask", &mut self.masks);
    }
}

fn may_come(allowed: Option<&[u32]>, token: u32) -> bool {
    let bit =
        |words: &[u32]| words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
    allowed.is_none_or(bit)
}

fn spread(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let Some(last) = times.len().checked_sub(1) else { return };
    let at = |share: usize| times[last * share / 100].as_secs_f64() * 1e6;
    let mean = times.iter().sum::<Duration>().as_secs_f64() * 1e6 / times.len() as f64;
    println!(
        "{what}, µs: mean {mean:.0}, median {:.0}, 90 % {:.0}, 99 % {:.0}, longest {:.0} ({} of them)",
        at(50),
        at(90),
        at(99),
        at(100),
        times.len()
    );
}
