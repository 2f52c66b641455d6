//! `convert` and `quantize` of folders.

use super::{Call, fixture, menagerie};
use gguf_file::{GgufFile, OpenOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> String {
    fixture(&format!("base/{name}/hf")).display().to_string()
}

/// A copy of a folder that may be damaged.
fn copy(name: &str, home: &Path) -> PathBuf {
    let to = home.join(name);
    std::fs::create_dir(&to).unwrap();
    for file in std::fs::read_dir(folder(name)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

/// Bytes and types of all tensors, by name.
fn tensors(path: &Path) -> BTreeMap<String, (String, Vec<u8>)> {
    let file = GgufFile::open(path, &OpenOptions::default()).unwrap();
    let of = |info: &gguf_file::TensorInfo| {
        (info.name().to_owned(), (info.kind().to_string(), file.data(info).unwrap().to_vec()))
    };
    file.tensors().iter().map(of).collect()
}

/// The names in a folder, without those that were put there before.
fn left(home: &Path) -> Vec<String> {
    let names = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_folder_becomes_a_file_that_answers_as_the_folder_does() {
    let home = tempfile::tempdir().unwrap();
    let (source, out) = (folder("qwen2"), home.path().join("out.gguf"));
    let said = menagerie(home.path(), &["convert", &source, "out.gguf", "--outtype", "f32"]).good();
    assert!(said.starts_with("out.gguf: "), "{said}");
    let ask = |model: &str| {
        let arguments = ["run", model, "hello there", "-n", "12", "--temp", "0", "--exact", "-t", "1"];
        menagerie(home.path(), &arguments).good()
    };
    assert_eq!(ask("out.gguf"), ask(&source));
    let again = || menagerie(home.path(), &["convert", &source, "out.gguf"]);
    again().fails_with(&["out.gguf", "exists", "--force"]);
    let before = std::fs::read(&out).unwrap();
    menagerie(home.path(), &["convert", &source, "out.gguf", "--force", "--outtype", "q8_0"]).good();
    assert!(std::fs::read(&out).unwrap().len() < before.len());
    menagerie(home.path(), &["convert", "out.gguf", "two.gguf"]).fails_with(&["is already a GGUF file"]);
    assert_eq!(left(home.path()), ["out.gguf"]);
}

#[test]
fn what_would_be_written_is_listed_in_json() {
    let home = tempfile::tempdir().unwrap();
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&menagerie(home.path(), arguments).good()).unwrap()
    };
    let plan = json(&["convert", &folder("qwen2"), "out.gguf", "--quant", "q4_0", "--json"]);
    let of = |name: &str| {
        let tensors = plan["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == name).map(|tensor| tensor["type"].clone())
    };
    assert_eq!(of("blk.0.ffn_up.weight"), Some("Q4_0".into()));
    assert_eq!(of("blk.0.attn_norm.weight"), Some("F32".into()));
    assert!(plan["keys"].as_array().unwrap().iter().any(|key| key == "tokenizer.ggml.tokens"));
    let without = json(&["convert", &folder("qwen2"), "out.gguf", "--no-tokenizer", "--json"]);
    let keys = without["keys"].as_array().unwrap();
    assert!(!keys.is_empty() && !keys.iter().any(|key| key.as_str().unwrap().starts_with("tokenizer.")));
    let planned = json(&["quantize", &folder("qwen2"), "out.gguf", "Q4_0", "--dry-run", "--json"]);
    assert_eq!(planned["file_type"], "Q4_0");
    assert!(planned["bytes"].as_u64().unwrap() < planned["bytes_before"].as_u64().unwrap());
    assert!(left(home.path()).is_empty(), "nothing is written");
}

/// The folders hold the numbers of the files in f32: each block is the same, whichever of the two is quantized.
#[test]
fn a_quantized_folder_is_its_quantized_file() {
    let home = tempfile::tempdir().unwrap();
    let importance = fixture("perplexity/mixtral.imatrix.gguf");
    let importance = ["--imatrix", importance.to_str().unwrap()];
    for (name, quant, with) in [
        ("llama", "Q4_0", &[][..]),
        ("qwen2", "Q8_0", &["--output-tensor-type", "F16"]),
        ("mixtral", "Q4_0", &importance),
    ] {
        let file = fixture(&format!("base/{name}/model-f32.gguf")).display().to_string();
        for (source, out) in [(&folder(name), "folder.gguf"), (&file, "file.gguf")] {
            let said =
                menagerie(home.path(), &[&["quantize", source, out, quant, "--force"], with].concat()).good();
            assert!(said.contains("bits per weight"), "{said}");
        }
        let (ours, theirs) =
            (tensors(&home.path().join("folder.gguf")), tensors(&home.path().join("file.gguf")));
        assert!(ours == theirs, "{name}: {:?}", ours.keys().collect::<Vec<_>>());
    }
    let out = GgufFile::open(home.path().join("folder.gguf"), &OpenOptions::default()).unwrap();
    assert!(out.metadata().get("quantize.imatrix.file").is_some());
}

#[test]
fn faults_are_named_and_leave_nothing() {
    let home = tempfile::tempdir().unwrap();
    let source = folder("qwen2");
    let both = |source: &str, out: &str| -> [Call; 2] {
        [["convert", source, out, "--outtype=q8_0"], ["quantize", source, out, "Q8_0"]]
            .map(|arguments| menagerie(home.path(), &arguments))
    };
    both(&source, "no/such/out.gguf")
        .into_iter()
        .for_each(|call| call.fails_with(&["the folder no/such does not exist"]));
    #[cfg(target_os = "linux")]
    both(&source, "/proc/out.gguf").into_iter().for_each(|call| call.fails_with(&["/proc/out.gguf"]));
    let cut = copy("qwen2", home.path());
    let weights = cut.join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    both("qwen2", "out.gguf").into_iter().for_each(|call| call.fails_with(&["model.safetensors"]));
    std::fs::write(&weights, &bytes).unwrap();
    std::fs::remove_file(cut.join("tokenizer.json")).unwrap();
    both("qwen2", "out.gguf").into_iter().for_each(|call| call.fails_with(&["no tokenizer.json"]));
    menagerie(home.path(), &["convert", "qwen2", "out.gguf", "--outtype", "q9"])
        .fails_with(&["\"q9\"", "q8_0"]);
    assert_eq!(left(home.path()), ["qwen2"]);
}

/// A folder of zeros that takes seconds to write, whose file is begun and given up.
#[test]
#[cfg(unix)]
fn ctrl_c_leaves_no_file() {
    use std::process::{Command, Stdio};
    let home = tempfile::tempdir().unwrap();
    let model = copy("llama", home.path());
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(model.join("config.json")).unwrap()).unwrap();
    let wide = 1_500_000u64;
    config["intermediate_size"] = wide.into();
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();
    widen(&model.join("model.safetensors"), wide);
    for arguments in
        [["convert", "llama", "out.gguf", "--quant=q4_0"], ["quantize", "llama", "out.gguf", "Q4_0"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(arguments).arg("-t1").current_dir(home.path()).env_clear().env("HOME", home.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = || left(home.path()).iter().any(|name| name.ends_with(".part"));
        while !begun() {
            assert!(child.try_wait().unwrap().is_none(), "ended before it was interrupted");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let interrupt = format!("kill -INT {}", child.id());
        assert!(Command::new("/bin/sh").args(["-c", &interrupt]).status().unwrap().success());
        assert_eq!(super::signals::ended(&mut child), Some(130), "{arguments:?}");
        assert_eq!(left(home.path()), ["llama"], "{arguments:?}");
    }
}

/// Gives the feed-forward of every layer this width, all zeros, in a sparse file.
#[cfg(unix)]
fn widen(path: &Path, wide: u64) {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut at = 0;
    for (name, tensor) in
        header.as_object_mut().unwrap().iter_mut().filter(|(name, _)| *name != "__metadata__")
    {
        let mut shape: Vec<u64> = serde_json::from_value(tensor["shape"].clone()).unwrap();
        if name.contains(".mlp.") {
            shape[usize::from(name.contains("down_proj"))] = wide;
        }
        let size = 4 * shape.iter().product::<u64>();
        *tensor = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]});
        at += size;
    }
    let text = header.to_string();
    let file = std::fs::File::create(path).unwrap();
    let head = [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    std::os::unix::fs::FileExt::write_all_at(&file, &head, 0).unwrap();
    file.set_len(head.len() as u64 + at).unwrap();
}

/// Adds a tensor of four numbers to a file of a folder.
fn add_tensor(path: &Path, name: &str) {
    let file = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let data = &file[8 + length..];
    let offsets = [data.len(), data.len() + 16];
    header[name] = serde_json::json!({ "dtype": "F32", "shape": [4], "data_offsets": offsets });
    let header = serde_json::to_vec(&header).unwrap();
    let parts = [&(header.len() as u64).to_le_bytes()[..], &header, data, &[0; 16]];
    std::fs::write(path, parts.concat()).unwrap();
}

#[test]
fn tensors_that_are_left_out_are_named_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let model = copy("qwen2", home.path()).join("model.safetensors");
    let lost = |plan: String| serde_json::from_str::<Value>(&plan).unwrap()["lost"].clone();
    let json = || menagerie(home.path(), &["convert", "qwen2", "out.gguf", "--json"]).good();
    let before = lost(json());
    add_tensor(&model, "model.layers.0.self_attn.rotary_emb.inv_freq");
    let note = "the tensor model.layers.0.self_attn.rotary_emb.inv_freq is not written: recomputed from rope.freq_base";
    let mut expected = before.as_array().unwrap().clone();
    expected.push(note.into());
    assert_eq!(lost(json()), Value::from(expected));
    let call = menagerie(home.path(), &["convert", "qwen2", "out.gguf"]);
    assert!(call.err.contains(note), "{}", call.err);
    add_tensor(&model, "model.layers.1.self_attn.rotary_emb.inv_freq");
    let lost = lost(json()).to_string();
    assert!(lost.contains("2 tensors are not written, model.layers.0"), "{lost}");
}
