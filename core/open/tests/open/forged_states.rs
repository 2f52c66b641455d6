//! Files whose checksums are right and whose content is not: somebody made them so.

use menagerie_all as _;
use menagerie_engine::{Request, Session, StateFile, StateFileError, TextPipeline};
use menagerie_open::{LoadOptions, LoadedModel, ModelBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Bytes before the header: what the file begins with, the version, the length of the header.
const START: usize = 8 + 4 + 8;

/// Bytes of a checksum: the SHA-256 of the checksum before it and of everything since.
const CHECKSUM: usize = 32;

/// Appends the checksum of what was added since `from`, after the checksum that ends there.
fn seal(bytes: &mut Vec<u8>, from: usize) {
    let before = if from == 0 { 0 } else { from - CHECKSUM };
    let sum = Sha256::digest(&bytes[before..]);
    bytes.extend(sum);
}

fn open(model: &str) -> LoadedModel<TextPipeline> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(model);
    let options = LoadOptions::default().with_context(1024).with_threads(1);
    ModelBuilder::new(&path).with_options(&options).open_text().unwrap()
}

fn kept(pipeline: &LoadedModel<TextPipeline>, path: &Path) -> Vec<u8> {
    let mut session = pipeline.session().unwrap();
    let prompt: Vec<u32> = (5..25).collect();
    let request = Request::greedy(3).with_ignore_eos(true);
    session.generate(&prompt, &request, |_| ()).unwrap();
    StateFile::open(path, pipeline, Vec::new()).unwrap().save(&mut session, None).unwrap();
    std::fs::read(path).unwrap()
}

/// A good file with another header, and the bytes of each section changed by its number.
fn forged(good: &[u8], change: impl Fn(&mut Value), section: impl Fn(usize, &mut Vec<u8>)) -> Vec<u8> {
    let length = u64::from_le_bytes(*good[START - 8..].first_chunk().unwrap()) as usize;
    let mut value: Value = serde_json::from_slice(&good[START..START + length]).unwrap();
    let mut rest = &good[START + length + CHECKSUM..];
    change(&mut value);
    let header = serde_json::to_vec(&value).unwrap();
    let mut made = good[..START - 8].to_vec();
    made.extend((header.len() as u64).to_le_bytes());
    made.extend(header);
    seal(&mut made, 0);
    let mut number = 0;
    while !rest.is_empty() {
        let length = u64::from_le_bytes(*rest.first_chunk().unwrap()) as usize;
        let mut bytes = rest[8..8 + length].to_vec();
        section(number, &mut bytes);
        let from = made.len();
        made.extend((bytes.len() as u64).to_le_bytes());
        made.extend(bytes);
        seal(&mut made, from);
        rest = &rest[8 + length + CHECKSUM..];
        number += 1;
    }
    made
}

/// What a session says to a file; it holds nothing then, and works.
fn said(pipeline: &LoadedModel<TextPipeline>, session: &mut Session, path: &Path, bytes: &[u8]) -> String {
    std::fs::write(path, bytes).unwrap();
    let error = StateFile::open(path, pipeline, Vec::new()).unwrap().load(session).unwrap_err();
    assert!(!matches!(error, StateFileError::Differs { .. }), "{error}");
    assert!(session.sequence().tokens().is_empty() && session.sequence().pending() == 0);
    session.generate(&[7, 8, 9], &Request::greedy(1), |_| ()).unwrap();
    error.to_string()
}

/// A change of a header, and what is said of it.
type Case = (fn(&mut Value), &'static str);

#[test]
fn headers_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.state");
    for model in ["base/llama/model-f32.gguf", "zoo/lfm2/model-f16.gguf"] {
        let pipeline = open(model);
        let good = kept(&pipeline, &path);
        let mut session = pipeline.session().unwrap();
        let changes: [Case; 13] = [
            (|header| header["held"]["tokens"] = json!(u64::MAX), "room for 1024"),
            (|header| header["held"]["tokens"] = json!(900), "list of tokens has 88 bytes, expected 3600"),
            (|header| header["held"]["tokens"] = json!(3), "a.state"),
            (|header| header["held"]["tokens"] = json!(-1), "its header"),
            (|header| header["held"]["prompt"] = json!(5000), "longer than the sequence"),
            (|header| header["held"]["sets"] = json!(2), "states differ from those of the model"),
            (|header| header["held"]["sets"] = json!(u64::MAX), "states differ from those of the model"),
            (|header| header["held"]["states"] = json!([]), "states differ from those of the model"),
            (
                |header| {
                    header["held"]["states"][1] = json!({"block": {"name": "x", "elements": 1u64 << 60}})
                },
                "its state 1 differs from that of the model",
            ),
            (
                |header| header["held"]["snapshots"] = json!([1, 2, 3, 4, 5, 6]),
                "its snapshots do not belong to this sequence",
            ),
            (
                |header| header["held"]["snapshots"] = json!([2, 1]),
                "its snapshots do not belong to this sequence",
            ),
            (|header| header["extra"] = json!(1), "unknown field"),
            (
                |header| header["conversation"] = json!({"messages": [], "dropped": u64::MAX}),
                "drops more messages than it has",
            ),
        ];
        for (change, words) in changes {
            let bytes = forged(&good, change, |_, _| ());
            let said = said(&pipeline, &mut session, &path, &bytes);
            assert!(said.contains(words), "{model}: {said} instead of {words}");
        }
        assert_eq!(forged(&good, |_| (), |_, _| ()), good, "what is not changed is the same file");
    }
}

#[test]
fn tokens_and_rows_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.state");
    let pipeline = open("base/llama/model-f32.gguf");
    let good = kept(&pipeline, &path);
    let mut session = pipeline.session().unwrap();
    let unknown = forged(
        &good,
        |_| (),
        |number, bytes| {
            if number == 0 {
                bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
            }
        },
    );
    assert!(said(&pipeline, &mut session, &path, &unknown).contains("past the vocabulary"));
    let short = forged(
        &good,
        |_| (),
        |number, bytes| {
            if number == 2 {
                bytes.pop();
            }
        },
    );
    assert!(said(&pipeline, &mut session, &path, &short).contains("rows of a cache has"));
    let first = forged(&good, |header| header["held"]["states"][0]["rows"]["first"] = json!(8), |_, _| ());
    assert!(said(&pipeline, &mut session, &path, &first).contains("a.state"));
}
