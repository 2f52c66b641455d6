//! Bad input gets a clear error with file, place and advice, exit code 1.

use super::{Changed, fixture, menagerie};
use gguf_file::GgmlType;
use std::path::Path;

const LLAMA: &str = "base/llama/model-f32.gguf";

fn raw(folder: &Path, bytes: &[u8]) -> String {
    let path = folder.join("raw.gguf");
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn logits(file: &str, words: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    menagerie(home.path(), &["logits", file, "--tokens", "1,2,3", "--out", "out.safetensors"])
        .fails_with(words);
    assert!(!home.path().join("out.safetensors").exists());
}

#[test]
fn files_that_are_no_models() {
    let home = tempfile::tempdir().unwrap();
    logits(&raw(home.path(), b""), &["raw.gguf", "empty"]);
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    logits(&raw(home.path(), &noise), &["raw.gguf", "GGUF"]);
    logits(home.path().join("absent.gguf").to_str().unwrap(), &["absent.gguf"]);
    logits(home.path().to_str().unwrap(), &[home.path().to_str().unwrap()]);
}

#[test]
fn truncated_and_lying_headers() {
    let home = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixture(LLAMA)).unwrap();
    logits(&raw(home.path(), &whole[..whole.len() / 2]), &["raw.gguf"]);
    logits(&raw(home.path(), &whole[..100]), &["raw.gguf"]);

    let mut strings = whole.clone();
    strings[16..24].copy_from_slice(&(1u64 << 60).to_le_bytes());
    logits(&raw(home.path(), &strings), &["raw.gguf"]);

    let mut big_endian = whole.clone();
    big_endian[4..8].copy_from_slice(&3u32.to_be_bytes());
    logits(&raw(home.path(), &big_endian), &["big-endian"]);

    let last = whole.len() - 64;
    logits(&raw(home.path(), &whole[..last]), &["raw.gguf", "tensor"]);
}

#[test]
fn unknown_architecture_names_the_nearest() {
    let home = tempfile::tempdir().unwrap();
    let file = Changed::of(LLAMA).set("general.architecture", "lama").write(home.path());
    logits(&file, &["changed.gguf", "lama", "`llama`", "--spec-dir"]);
    // U5: how a spec comes into being is said where somebody needs one.
    for command in [&["run", &file, "hello"][..], &["show", &file], &["check", &file]] {
        menagerie(home.path(), command).fails_with(&["`menagerie spec new FILE` drafts a spec", "`llama`"]);
    }
    let folder = home.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(fixture("base/llama/hf/model.safetensors"), folder.join("model.safetensors")).unwrap();
    let config = std::fs::read_to_string(fixture("base/llama/hf/config.json")).unwrap();
    std::fs::write(folder.join("config.json"), config.replace("LlamaForCausalLM", "LamaForCausalLM"))
        .unwrap();
    for command in ["show", "check"] {
        menagerie(home.path(), &[command, folder.to_str().unwrap()]).fails_with(&[
            "`LlamaForCausalLM`",
            "[architecture] hf",
            "extends the nearest",
            "`menagerie spec new`",
        ]);
    }
}

#[test]
fn missing_extra_and_misshapen_tensors() {
    let home = tempfile::tempdir().unwrap();
    let mut changed = Changed::of(LLAMA);
    changed.tensors.retain(|tensor| tensor.name != "blk.1.ffn_up.weight");
    logits(&changed.write(home.path()), &["blk.1.ffn_up.weight", "changed.gguf"]);

    let mut changed = Changed::of(LLAMA);
    let copy = &changed.tensors[0];
    let extra = super::Tensor {
        name: "blk.0.attn_mystery.weight".to_owned(),
        dims: copy.dims.clone(),
        kind: copy.kind,
        data: copy.data.clone(),
    };
    changed.tensors.push(extra);
    logits(&changed.write(home.path()), &["blk.0.attn_mystery.weight"]);

    let mut changed = Changed::of(LLAMA);
    let tensor = changed.tensors.iter_mut().find(|tensor| tensor.name == "blk.2.attn_k.weight").unwrap();
    tensor.dims[1] /= 2;
    tensor.data.truncate(tensor.data.len() / 2);
    logits(&changed.write(home.path()), &["blk.2.attn_k.weight", "expected", "found"]);
}

#[test]
fn types_that_cannot_be_computed_with() {
    let home = tempfile::tempdir().unwrap();
    let mut changed = Changed::of(LLAMA);
    let tensor = changed.tensors.iter_mut().find(|tensor| tensor.name == "blk.0.attn_q.weight").unwrap();
    tensor.kind = GgmlType::from_name("I32").unwrap();
    logits(&changed.write(home.path()), &["blk.0.attn_q.weight", "I32"]);
}

#[test]
fn keys_that_nothing_reads() {
    let home = tempfile::tempdir().unwrap();
    let file = Changed::of(LLAMA).set("llama.rope.scaling.type", "spiral").write(home.path());
    logits(&file, &["rope.scaling.type", "spiral"]);

    let file = Changed::of(LLAMA).set("llama.attention.head_cuont", 4u32).write(home.path());
    logits(&file, &["head_cuont", "head_count", "--accept-unread"]);
    let accepted = menagerie(
        home.path(),
        &[
            "logits",
            &file,
            "--tokens",
            "1,2",
            "--out",
            "out.safetensors",
            "--accept-unread",
            "llama.attention.head_cuont",
        ],
    );
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(accepted.err.contains("head_cuont"), "the acceptance is printed: {}", accepted.err);
}

#[test]
fn tokens_and_prompts_that_do_not_fit() {
    let home = tempfile::tempdir().unwrap();
    let file = fixture(LLAMA);
    let file = file.to_str().unwrap();
    menagerie(home.path(), &["logits", file, "--tokens", "1,9999", "--out", "o"])
        .fails_with(&["9999", "384"]);
    let long = "word ".repeat(200);
    let call = menagerie(home.path(), &["run", file, &long, "--raw", "-c", "64", "-n", "4"]);
    call.fails_with(&["64", "context"]);
}

#[test]
fn unknown_pre_tokenizer() {
    let home = tempfile::tempdir().unwrap();
    let file = Changed::of(LLAMA).set("tokenizer.ggml.pre", "llama-bpf").write(home.path());
    menagerie(home.path(), &["tokenize", &file, "hello"]).fails_with(&["llama-bpf", "llama-bpe"]);
    menagerie(home.path(), &["run", &file, "hello", "--raw", "-n", "2"]).fails_with(&["llama-bpf"]);
}

#[test]
fn usage_errors_exit_with_2() {
    let home = tempfile::tempdir().unwrap();
    let file = fixture(LLAMA);
    let file = file.to_str().unwrap();
    for arguments in [
        vec!["frobnicate"],
        vec!["run"],
        vec!["run", file, "x", "--temp", "-1"],
        vec!["run", file, "x", "--top-p", "nan"],
        vec!["logits", file, "--out", "o"],
        vec!["logits", file, "--tokens", "a,b", "--out", "o"],
    ] {
        let call = menagerie(home.path(), &arguments);
        assert_eq!(call.code, Some(2), "{arguments:?}: {call:?}");
    }
}
