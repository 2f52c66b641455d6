//! The published kind of file: every fixture is read, and what it holds is compared with what its maker wrote down.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gguf_file::{GgmlType, GgufFile, OpenOptions, Value, ValueType};
use serde_json::Value as Json;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

fn json(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn folders() -> Vec<PathBuf> {
    let all = fs::read_dir(Path::new(FIXTURES).join("base")).unwrap().map(|entry| entry.unwrap().path());
    let with_model: Vec<PathBuf> = all.filter(|path| path.join("model-f32.gguf").exists()).collect();
    assert!(with_model.len() >= 9, "only {} base fixtures", with_model.len());
    with_model
}

fn open(path: &Path) -> GgufFile {
    let mapped = GgufFile::open(path, &OpenOptions::default()).unwrap();
    let read = GgufFile::open(path, &OpenOptions::default().with_mmap(false)).unwrap();
    let given = GgufFile::from_bytes("given", fs::read(path).unwrap()).unwrap();
    for other in [&read, &given] {
        assert_eq!(mapped.tensors(), other.tensors());
        assert!(mapped.metadata().iter().eq(other.metadata().iter()));
        for tensor in mapped.tensors() {
            assert_eq!(&mapped.data(tensor).unwrap()[..], &other.data(tensor).unwrap()[..], "{tensor:?}");
        }
        other.check_alive().unwrap();
    }
    mapped.check_alive().unwrap();
    mapped
}

#[track_caller]
fn same(key: &str, found: Value<'_>, expected: &Json) {
    let equal = match expected {
        Json::Bool(expected) => found.as_bool() == Some(*expected),
        Json::String(expected) => found.as_str() == Some(expected),
        Json::Number(expected) => found.as_f64() == expected.as_f64(),
        Json::Array(expected) => {
            let numbers = found.as_array().and_then(|array| array.numbers()).map(Iterator::collect::<Vec<_>>);
            numbers == expected.iter().map(Json::as_f64).collect()
        }
        _ => false,
    };
    assert!(equal, "{key}: {found:?}, not {expected}");
}

#[test]
fn base() {
    for folder in folders() {
        let about = json(&folder.join("fixture.json"));
        let file = open(&folder.join("model-f32.gguf"));
        assert_eq!((file.version(), file.paths().len(), file.poisoned()), (3, 1, false));
        let metadata = file.metadata();
        assert_eq!(metadata.get("general.architecture").unwrap().as_str(), about["arch"].as_str());
        for (key, expected) in about["gguf_kv"].as_object().unwrap() {
            same(key, metadata.get(key).unwrap(), expected);
        }
        assert_eq!(metadata.iter().count(), metadata.len());
        assert!(metadata.get("general.no").is_none() && !metadata.contains(""));
        check_tokens(&folder, &file);
        let model = |name: &str| !name.starts_with("rope_");
        let weights = file.tensors().iter().filter(|tensor| model(tensor.name()));
        let parameters: u64 = weights.map(|tensor| tensor.elements()).sum();
        assert_eq!(Some(parameters), about["parameters"].as_u64(), "{}", folder.display());
        assert!(file.tensors().iter().all(|tensor| tensor.kind() == GgmlType::F32));
        check_norms(&file);
    }
}

/// Tokens and scores against the tokenizer they were made from.
fn check_tokens(folder: &Path, file: &GgufFile) {
    let tokenizer = json(&folder.join("hf/tokenizer.json"));
    let mut expected: BTreeMap<u64, &str> = BTreeMap::new();
    for (token, id) in tokenizer["model"]["vocab"].as_object().unwrap() {
        expected.insert(id.as_u64().unwrap(), token);
    }
    for token in tokenizer["added_tokens"].as_array().unwrap() {
        expected.insert(token["id"].as_u64().unwrap(), token["content"].as_str().unwrap());
    }
    let array = file.metadata().get("tokenizer.ggml.tokens").unwrap().as_array().unwrap();
    assert_eq!(array.element_type(), ValueType::String);
    let tokens: Vec<&str> = array.strings().unwrap().collect();
    assert_eq!(tokens.len(), array.len());
    for (id, token) in expected {
        assert_eq!(tokens.get(id as usize), Some(&token), "token {id} of {}", folder.display());
    }
    let types = file.metadata().get("tokenizer.ggml.token_type").unwrap().as_array().unwrap();
    assert_eq!(types.integers().unwrap().filter(|kind| (1..=6).contains(kind)).count(), tokens.len());
}

/// The layers' norm weights were made as 1 +- 0.1 (the output norm is scaled): bytes at another place are not.
fn check_norms(file: &GgufFile) {
    let norms = file
        .tensors()
        .iter()
        .filter(|tensor| tensor.name().starts_with("blk.") && tensor.name().ends_with("norm.weight"));
    let mut count = 0;
    for tensor in norms {
        let data = file.data(tensor).unwrap();
        let values = data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        assert!(values.clone().all(|value| (value - 1.0).abs() < 0.8), "{tensor:?}");
        let mean = values.clone().sum::<f32>() / tensor.elements() as f32;
        assert!((mean - 1.0).abs() < 0.15, "{tensor:?} has mean {mean}");
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn quantized() {
    let folder = Path::new(FIXTURES).join("quant");
    let manifest = json(&folder.join("manifest.json"));
    let fixtures = manifest["fixtures"].as_array().unwrap();
    assert!(fixtures.len() >= 14);
    for about in fixtures {
        let name = about["name"].as_str().unwrap();
        let file = open(&folder.join(format!("{name}.gguf")));
        assert_eq!(Some(file.file_bytes()), about["bytes"].as_u64());
        let types = about["tensor_types"].as_object().unwrap();
        assert_eq!(file.tensors().len(), types.len(), "{name}");
        for (tensor, kind) in types {
            let found = file.tensor(tensor).unwrap();
            assert_eq!(Some(found.kind().name()), kind.as_str(), "{name} {tensor}");
            let blocks = found.elements() / found.kind().block_len().unwrap() as u64;
            assert_eq!(found.bytes(), blocks * found.kind().block_bytes().unwrap() as u64);
        }
        // The maker pads every tensor, so the last one ends within an alignment of the end of the file.
        let end = file.tensors().iter().map(|tensor| tensor.offset() + tensor.bytes()).max().unwrap();
        assert!((0..32).contains(&(file.file_bytes() - end)), "{name}");
        check_norms(&file);
    }
}

/// The files of one model hold the same F32 norms, at different places.
#[test]
fn quantized_files_agree_on_what_is_not_quantized() {
    for names in [["Q4_0", "Q5_1", "BF16"], ["Q2_K", "Q6_K", "IQ4_XS"]] {
        let files = names.map(|name| open(&Path::new(FIXTURES).join(format!("quant/{name}.gguf"))));
        let norm =
            files.each_ref().map(|file| file.data(file.tensor("blk.1.ffn_norm.weight").unwrap()).unwrap());
        assert!(norm[0].len() > 100 && norm[0][..] == norm[1][..] && norm[0][..] == norm[2][..]);
        assert_ne!(files[0].tensor("blk.1.ffn_norm.weight"), files[1].tensor("blk.1.ffn_norm.weight"));
    }
}
