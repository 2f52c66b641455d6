//! `perplexity`, `compare`, `imatrix`, `quantize` and `--quant`: against llama.cpp's figures, and against each other.

use super::{fixture, menagerie};
use gguf_file::{GgmlType, GgufFile, OpenOptions};
use serde_json::Value;
use std::path::Path;

/// What llama.cpp gave for the small models (`tests/reference/make_perplexity.py`).
fn reference() -> Value {
    serde_json::from_slice(&std::fs::read(fixture("perplexity/tiny.json")).unwrap()).unwrap()
}

fn text() -> String {
    fixture("perplexity/coriolanus.txt").display().to_string()
}

fn model(name: &str) -> String {
    fixture(&format!("base/{name}/model-f32.gguf")).display().to_string()
}

fn json(home: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&menagerie(home, arguments).good()).unwrap()
}

fn open(path: &Path) -> GgufFile {
    GgufFile::open(path, &OpenOptions::default()).unwrap()
}

/// Within 0.1 %: f32 arithmetic on both sides.
fn expect_close(made: &Value, expected: &Value, what: &str) {
    let (made, expected) = (made.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!((made - expected).abs() <= 1e-3 * expected.abs(), "{what}: {made} instead of {expected}");
}

#[test]
fn perplexity_is_llama_cpps_chunk_by_chunk() {
    let home = tempfile::tempdir().unwrap();
    let reference = reference();
    for name in ["llama", "qwen3", "mixtral", "phi3", "qwen3moe"] {
        let arguments = [
            "perplexity",
            &model(name),
            "-f",
            &text(),
            "--ctx-size",
            "64",
            "--chunks",
            "8",
            "--exact",
            "--json",
        ];
        let made = json(home.path(), &arguments);
        let expected = &reference["models"][name];
        expect_close(&made["perplexity"], &expected["perplexity"], name);
        expect_close(&made["error"], &expected["error"], name);
        let running = expected["running"].as_array().unwrap();
        assert_eq!((running.len(), made["chunks"].as_u64()), (8, Some(8)));
        for (at, expected) in running.iter().enumerate() {
            expect_close(&made["running"][at], expected, &format!("{name}, chunk {at}"));
        }
        assert!(made["bits_per_byte"].as_f64().unwrap() > 1.0, "{made}");
    }
}

/// Divergence from a base, through its file and side by side, is what log-probabilities of llama.cpp give; weights are
/// dequantized on both sides.
#[test]
fn divergence_is_llama_cpps_through_a_file_and_side_by_side() {
    let home = tempfile::tempdir().unwrap();
    let (base, other) = (fixture("quant/Q6_K.gguf"), fixture("quant/Q2_K.gguf"));
    let (base, other) = (base.to_str().unwrap(), other.to_str().unwrap());
    let expected = &reference()["models"]["Q2_K"];
    let chunks = ["--ctx-size", "64", "--chunks", "8", "--exact"];
    let file = ["perplexity", base, "-f", &text(), "--save-logits", "base.bin"];
    let saved = menagerie(home.path(), &[&file[..], &chunks].concat()).good();
    assert!(saved.contains("perplexity"), "{saved}");
    let held = json(home.path(), &["perplexity", other, "--base", "base.bin", "--exact", "--json"]);
    let same = json(home.path(), &["perplexity", base, "--base", "base.bin", "--exact", "--json"]);
    let text = text();
    let side = [&["compare", base, other, "-f", &text, "-p", "0", "-n", "0", "--json"][..], &chunks].concat();
    let side = json(home.path(), &side);
    for (key, ours) in [("kl_median", "kl_median"), ("kl_99", "kl_99"), ("kl_max", "kl_max")] {
        expect_close(&side["divergence"][ours], &expected[key], key);
    }
    expect_close(&side["divergence"]["kl"]["value"], &expected["kl_mean"], "KL");
    expect_close(&side["divergence"]["same_top"]["value"], &expected["same_top"], "same top");
    expect_close(&side["divergence"]["delta_p"]["value"], &expected["delta_p"], "change of p");
    expect_close(&side["b"]["perplexity"], &expected["perplexity"], "perplexity beside");
    expect_close(&held["perplexity"], &expected["perplexity"], "perplexity held");
    // A base file leaves out what is 16 below the best.
    let kl = |made: &Value| made["divergence"]["kl"]["value"].as_f64().unwrap();
    assert!((kl(&held) - kl(&side)).abs() < 0.02 * kl(&side), "{} and {}", kl(&held), kl(&side));
    assert!(kl(&same).abs() < 1e-4 && same["divergence"]["same_top"]["value"] == 1.0, "{same}");
    let bits = |side: &Value| side["bits_per_weight"].as_f64().unwrap();
    assert!(bits(&side["a"]) > 6.5 && bits(&side["b"]) < 4.0, "{side}");
}

#[test]
fn a_base_of_another_text_or_vocabulary_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| menagerie(home.path(), arguments);
    let chunks = ["--ctx-size", "32", "--chunks", "1"];
    let (llama, text) = (model("llama"), text());
    run(&[&["perplexity", &llama, "-f", &text, "--save-logits", "b"][..], &chunks].concat()).good();
    std::fs::write(home.path().join("other.txt"), "It was another text. ".repeat(40)).unwrap();
    let held = ["perplexity", &llama, "--base", "b", "-f", "other.txt"];
    run(&held).refused_or_failed(&["of another text"]);
    std::fs::write(home.path().join("cut"), &std::fs::read(home.path().join("b")).unwrap()[..400]).unwrap();
    run(&["perplexity", &llama, "--base", "cut"]).refused_or_failed(&["cut", "damaged", "write it again"]);
    run(&["perplexity", &llama]).refused_with(&["-f FILE"]);
    std::fs::write(home.path().join("short.txt"), "Short.").unwrap();
    run(&["perplexity", &llama, "-f", "short.txt"]).refused_or_failed(&["512", "--ctx-size"]);
}

impl super::Call {
    /// Not a success, and says all of these.
    fn refused_or_failed(self, words: &[&str]) {
        assert!(matches!(self.code, Some(1 | 2)), "{self:?}");
        assert!(words.iter().all(|word| self.err.contains(word)), "{words:?} in {}", self.err);
    }
}

/// The sums of squares are llama.cpp's, of experts one by one and of linears that a file holds as one.
#[test]
fn an_importance_matrix_is_llama_cpps() {
    let home = tempfile::tempdir().unwrap();
    for (name, tensors) in [("mixtral", 24), ("phi3", 12)] {
        let arguments =
            ["imatrix", &model(name), "-f", &text(), "-o", "i.gguf", "--ctx-size", "64", "--chunks", "8"];
        let arguments = [&arguments[..], &["--exact", "--force"]].concat();
        let said = menagerie(home.path(), &arguments).good();
        assert!(said.contains("8 chunks of 64 tokens"), "{said}");
        let (made, expected) =
            (open(&home.path().join("i.gguf")), open(&fixture(&format!("perplexity/{name}.imatrix.gguf"))));
        let values = |file: &GgufFile, name: &str| -> Vec<f32> {
            let tensor = file.tensor(name).unwrap_or_else(|| panic!("{name} is not measured"));
            let bytes = file.data(tensor).unwrap();
            bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
        };
        let mut compared = 0;
        for tensor in expected.tensors() {
            let (made, expected) = (values(&made, tensor.name()), values(&expected, tensor.name()));
            assert_eq!(made.len(), expected.len(), "{}", tensor.name());
            for (at, (made, expected)) in made.iter().zip(&expected).enumerate() {
                let close = (made - expected).abs() <= 2e-3 * expected.abs().max(1e-3);
                assert!(close, "{name} {} [{at}]: {made} instead of {expected}", tensor.name());
            }
            compared += 1;
        }
        assert_eq!(compared, 2 * tensors, "{name}");
    }
}

/// Quantized while loading is as loading what `quantize` wrote, bit for bit, with and without an importance matrix.
#[test]
fn quantized_while_loading_is_bit_equal_to_the_file() {
    let home = tempfile::tempdir().unwrap();
    let importance = fixture("perplexity/mixtral.imatrix.gguf");
    let importance = importance.to_str().unwrap();
    let llama = model("llama");
    let mixtral = model("mixtral");
    for (source, quant, with) in [
        (&llama, "q8_0", None),
        (&llama, "Q4_0", None),
        (&mixtral, "Q4_0", Some(importance)),
        (&mixtral, "Q8_0", None),
    ] {
        let with: Vec<&str> = with.map(|file| vec!["--imatrix", file]).unwrap_or_default();
        let write = [&["quantize", source, "q.gguf", quant, "--force"][..], &with].concat();
        let said = menagerie(home.path(), &write).good();
        assert!(said.contains("bits per weight"), "{said}");
        let tokens = ["--tokens", "1,2,3,50,60,70", "--force", "--out"];
        menagerie(home.path(), &[&["logits", "q.gguf"][..], &tokens, &["file.st"]].concat()).good();
        let loading = [&["logits", source, "--quant", quant][..], &with, &tokens, &["load.st"]].concat();
        let call = menagerie(home.path(), &loading);
        assert!(call.err.contains("quantized while loading"), "{call:?}");
        call.good();
        let read = |name: &str| std::fs::read(home.path().join(name)).unwrap();
        assert_eq!(read("file.st"), read("load.st"), "{source} as {quant}");
    }
}

/// A folder's weights are quantized as those of the file that was made of it: the types by role, the rows as they lie.
#[test]
fn a_folder_is_quantized_as_its_gguf() {
    let home = tempfile::tempdir().unwrap();
    for (name, quant) in [("llama", "Q4_0"), ("phi3", "q8_0"), ("mixtral", "Q4_0")] {
        let folder = fixture(&format!("base/{name}/hf")).display().to_string();
        let logits = [folder, model(name)].map(|source| {
            let arguments = ["logits", &source, "--quant", quant, "--exact", "--tokens", "1,2,3,50,60,70"];
            let out = ["--force", "--out", "l.st"];
            menagerie(home.path(), &[&arguments[..], &out].concat()).good();
            let bytes = std::fs::read(home.path().join("l.st")).unwrap();
            // Six rows of 384 at the end of the file.
            let values = bytes[bytes.len() - 4 * 6 * 384..].as_chunks::<4>().0;
            values.iter().map(|value| f32::from_le_bytes(*value)).collect::<Vec<f32>>()
        });
        let off =
            logits[0].iter().zip(&logits[1]).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
        assert!(off < 1e-4, "{name} as {quant}: {off}");
    }
}

#[test]
fn a_quantized_file_says_so_and_keeps_the_rest() {
    let home = tempfile::tempdir().unwrap();
    let source = model("mixtral");
    menagerie(home.path(), &["quantize", &source, "q.gguf", "q8_0"]).good();
    let (made, before) = (open(&home.path().join("q.gguf")), open(Path::new(&source)));
    let number = |key: &str| made.metadata().get(key).and_then(|value| value.as_u64());
    assert_eq!((number("general.file_type"), number("general.quantization_version")), (Some(7), Some(2)));
    for (key, value) in before.metadata().iter().filter(|(key, _)| !key.ends_with("file_type")) {
        assert_eq!(made.metadata().get(key), Some(value), "{key}");
    }
    for tensor in before.tensors() {
        let now = made.tensor(tensor.name()).unwrap();
        let float = tensor.dims().len() == 1 || tensor.name().contains("ffn_gate_inp");
        // Rows of 48 (the experts' way down) are no whole blocks, as llama-quantize finds too.
        let whole = tensor.dims()[0].is_multiple_of(32);
        let expected =
            [[GgmlType::F16, GgmlType::Q8_0][usize::from(whole)], GgmlType::F32][usize::from(float)];
        assert_eq!(now.kind(), expected, "{}", tensor.name());
        assert_eq!(now.dims(), tensor.dims());
        if float {
            assert_eq!(made.data(now).unwrap()[..], before.data(tensor).unwrap()[..]);
        }
    }
}

#[test]
fn what_would_lose_more_than_it_says_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (source, rounded) = (model("llama"), fixture("quant/Q6_K.gguf"));
    let rounded = rounded.to_str().unwrap();
    let run = |arguments: &[&str]| menagerie(home.path(), arguments);
    run(&["quantize", rounded, "q.gguf", "Q4_0"]).fails_with(&["already Q6_K", "--allow-requantize"]);
    run(&["quantize", rounded, "q.gguf", "Q4_0", "--allow-requantize"]).good();
    run(&["bench", rounded, "--quant", "q4_0"]).fails_with(&["already Q6_K", "--allow-requantize"]);
    run(&["quantize", &source, "r.gguf", "q4"]).refused_with(&["unknown file type `q4`", "Q4_K_M"]);
    run(&["quantize", rounded, "r.gguf", "IQ2_XXS", "--allow-requantize"])
        .fails_with(&["importance", "--imatrix"]);
    let other = fixture("perplexity/phi3.imatrix.gguf");
    let other = ["--allow-requantize", "--imatrix", other.to_str().unwrap()];
    for command in [["quantize", rounded, "r.gguf", "Q8_0"], ["bench", rounded, "--quant", "Q8_0"]] {
        run(&[&command[..], &other].concat()).fails_with(&["blk.", "another model"]);
    }
    run(&["quantize", &source, "q.gguf", "Q8_0"]).fails_with(&["q.gguf", "exists", "--force"]);
    assert!(!home.path().join("r.gguf").exists());
    let dry = run(&["quantize", &source, "r.gguf", "q4_k_m", "--dry-run"]).good();
    assert!(dry.contains("not a multiple of Q4_K's block") && dry.contains("Q5_0"), "{dry}");
    assert!(!home.path().join("r.gguf").exists());
}

/// A head that claims much is held against the model before anything else of the file is read.
#[test]
fn a_base_with_a_false_head_takes_no_memory() {
    let home = tempfile::tempdir().unwrap();
    let llama = fixture("base/llama/model-f32.gguf").to_str().unwrap().to_owned();
    // Context, vocabulary and chunks; the rest of the file is a hole.
    let cases: [([u32; 3], &[&str]); 2] = [
        ([1 << 31, 2, 1], &["1 chunks of 2147483648 tokens", "more than 16777216 are refused"]),
        ([256, 2, 1 << 16], &["the base has a vocabulary of 2 tokens and the model one of"]),
    ];
    for ([context, vocabulary, chunks], words) in cases {
        let path = home.path().join("base.bin");
        let head = [context, vocabulary, chunks].map(u32::to_le_bytes).concat();
        std::fs::write(&path, [&b"_logits_"[..], &head].concat()).unwrap();
        let rows = u64::from(context - 1 - context / 2) * u64::from(chunks);
        let length = 20 + 4 * u64::from(context) * u64::from(chunks) + rows * 12;
        std::fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        menagerie(home.path(), &["perplexity", &llama, "--base", "base.bin"]).fails_with(words);
    }
}

/// `--sequences` in each format: the same measurements.
#[test]
fn sequences_are_measured_in_every_format() {
    let home = tempfile::tempdir().unwrap();
    let llama = fixture("base/llama/model-f32.gguf").to_str().unwrap().to_owned();
    let small = ["bench", &llama, "-p", "4", "-n", "2", "-r", "2", "-t", "1", "--sequences", "1,3"];
    let bench = |format: &[&str]| menagerie(home.path(), &[&small[..], format].concat()).good();
    let csv = bench(&["--format", "csv"]);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0].join(","), "model,arithmetic,kv,sequences,pp,tg,pp t/s,tg t/s,t/s,stddev");
    assert_eq!(lines.len(), 3);
    for (line, sequences) in lines[1..].iter().zip(["1", "3"]) {
        assert_eq!(line[..6], [&llama, "fast", "f32", sequences, "4", "2"]);
        assert!(line[6..9].iter().all(|rate| rate.parse::<f64>().unwrap() > 0.0), "{line:?}");
    }
    let markdown = bench(&["--format", "markdown"]);
    let rows: Vec<&str> = markdown.lines().collect();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.starts_with("| ") && row.matches('|').count() == 11), "{markdown}");
    assert!(bench(&["--format", "table"]).starts_with("sequences"));
    let both = [&small[..], &["--format", "csv", "--json"]].concat();
    menagerie(home.path(), &both).refused_with(&["--json"]);
}
