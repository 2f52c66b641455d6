//! Valid files, and many invalid ones.

use super::*;
use menagerie_random::SplitMix64;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

fn bytes(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..data).map(|at| at as u8));
    bytes
}

fn open(header: &str, data: usize) -> Result<SafetensorsFile, SafetensorsError> {
    SafetensorsFile::from_bytes("m.safetensors", bytes(header, data))
}

fn fault(header: &str, data: usize) -> String {
    open(header, data).unwrap_err().to_string()
}

fn two() -> Value {
    json!({
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "F16", "shape": [2, 3], "data_offsets": [8, 20]},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    })
}

#[test]
fn a_file_gives_its_tensors_in_the_order_of_their_bytes() {
    let header = format!("{:<200}", two().to_string());
    let file = open(&header, 20).unwrap();
    let names: Vec<&str> = file.tensors().iter().map(SafetensorsTensor::name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(file.metadata()["format"], "pt");
    let b = file.tensor("b").unwrap();
    assert_eq!((b.shape(), b.dtype(), b.elements()), (&[2, 3][..], Dtype::F16, 6));
    assert_eq!(&*file.data(b).unwrap(), (8..20).collect::<Vec<u8>>());
    assert!(file.tensor("c").is_none());
    let scalar = open(r#"{"x": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}"#, 4).unwrap();
    assert_eq!(scalar.tensors()[0].elements(), 1);
    assert!(open("{}", 0).unwrap().tensors().is_empty());
}

#[test]
fn a_tensor_of_another_file_gives_nothing() {
    let long = open(r#"{"x": {"dtype": "U8", "shape": [900], "data_offsets": [0, 900]}}"#, 900).unwrap();
    let said = open(&two().to_string(), 20).unwrap().data(&long.tensors()[0]).unwrap_err().to_string();
    assert_eq!(said, "m.safetensors: tensor 'x': the tensor belongs to another file");
}

#[test]
fn damaged_headers_say_what_is_wrong() {
    let entry = |value: Value| json!({ "x": value }).to_string();
    let cases = [
        (entry(json!({"dtype": "F32", "shape": [2], "data_offsets": [0, 9]})), 9, "takes 8 bytes"),
        (entry(json!({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})), 8, "before it begins"),
        (
            entry(json!({"dtype": "F32", "shape": [2], "data_offsets": [0]})),
            8,
            "expected two offsets, found 1",
        ),
        (entry(json!({"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]})), 8, "more than 2 numbers"),
        (entry(json!({"dtype": "F33", "shape": [2], "data_offsets": [0, 8]})), 8, "unknown type 'F33'"),
        (entry(json!({"dtype": "F4", "shape": [3], "data_offsets": [0, 1]})), 1, "takes 2 bytes"),
        (entry(json!({"dtype": "F32", "shape": [1_u64 << 60], "data_offsets": [0, 8]})), 8, "overflows"),
        (entry(json!({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]})), 8, "tensor 'x'"),
        (entry(json!({"dtype": "F32", "shape": [1.5], "data_offsets": [0, 6]})), 6, "tensor 'x'"),
        (
            entry(json!({"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 4]})),
            4,
            "more than 8",
        ),
        (entry(json!({"dtype": "F32", "shape": [2]})), 8, "missing data_offsets"),
        (entry(json!({"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "more": 1})), 8, "field 'more'"),
        (entry(json!([1])), 8, "tensor 'x'"),
        (
            entry(json!({"dtype": "U8", "shape": [1_u64 << 60], "data_offsets": [0, 1_u64 << 60]})),
            8,
            "cut off",
        ),
        (json!({"x": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).to_string(), 9, "end at byte"),
        ("{".repeat(5000), 0, "damaged header"),
        (format!("{{\"x\":{}", "[".repeat(5000)), 0, "tensor 'x'"),
        ("[]".to_owned(), 0, "does not begin with '{'"),
        ("{} x".to_owned(), 0, "trailing"),
        ("{\"x\": \u{1}".to_owned(), 0, "tensor 'x'"),
    ];
    for (header, data, wanted) in cases {
        let said = fault(&header, data);
        assert!(said.starts_with("m.safetensors: ") && said.contains(wanted), "{wanted}: {said}");
    }
    let twice = r#"{"x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "x": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}"#;
    assert!(fault(twice, 2).contains("tensor 'x': duplicate name in the header"));
    let field = r#"{"x": {"dtype": "U8", "dtype": "I8", "shape": [1], "data_offsets": [0, 1]}}"#;
    assert!(fault(field, 1).contains("duplicate dtype"));
}

#[test]
fn overlaps_and_holes_name_the_tensor() {
    let of = |first: [u64; 2], second: [u64; 2]| {
        let entry =
            |[from, to]: [u64; 2]| json!({"dtype": "U8", "shape": [to - from], "data_offsets": [from, to]});
        json!({"a": entry(first), "b": entry(second)}).to_string()
    };
    assert!(
        fault(&of([0, 8], [6, 10]), 10).contains("tensor 'b': its data begins at 6 and overlaps that of 'a'")
    );
    assert!(fault(&of([0, 8], [9, 10]), 10).contains("tensor 'b': there is a gap of 1 bytes"));
    assert!(fault(&of([1, 8], [8, 10]), 10).contains("tensor 'a': there is a gap of 1 bytes"));
    assert!(fault(&of([0, 8], [0, 8]), 8).contains("overlaps"));
    assert!(fault(&of([0, 8], [8, 10]), 7).contains("cut off: the data of its 2 tensors"));
}

#[test]
fn what_is_no_such_file_is_said() {
    let said = |bytes: &[u8]| SafetensorsFile::from_bytes("m", bytes.to_vec()).unwrap_err().to_string();
    assert!(said(b"").contains("cut off: the length of the header"));
    assert!(said(b"\x09\0\0\0\0\0\0").contains("cut off"));
    assert!(said(b"GGUF\x03\0\0\0\0\0\0\0").contains("a GGUF file"));
    assert!(said(b"version https://git-lfs.github.com/spec/v1").contains("git lfs pull"));
    assert!(said(b"<!doctype html><html>").contains("web page"));
    assert!(said(&u64::MAX.to_le_bytes()).contains("at most 100000000 are supported"));
    assert!(
        said(&[&(1_u64 << 26).to_le_bytes()[..], b"{}"].concat()).contains("the header needs 67108872 bytes")
    );
}

/// Ten thousand damaged headers: an error or the tensors in the bytes, never a panic.
#[test]
fn mutated_headers_are_errors() {
    let base = bytes(&two().to_string(), 20);
    let header = base.len() - 20;
    let (mut numbers, mut opened) = (SplitMix64::new(7), 0);
    let mut random = |below: usize| numbers.below(below);
    for _ in 0..10_000 {
        let mut bytes = base.clone();
        for _ in 0..=random(3) {
            let at = random(header);
            match random(4) {
                0 => bytes[at] ^= 1 << random(8),
                1 => bytes[at] = b"0123456789{}[],:\"-."[random(19)],
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"0123456789{}[],:\"e"[random(18)]),
            }
        }
        if random(8) == 0 {
            bytes.truncate(random(bytes.len()));
        }
        let Ok(file) = SafetensorsFile::from_bytes("m", bytes.clone()) else { continue };
        opened += 1;
        let sum: u64 = file.tensors().iter().map(SafetensorsTensor::bytes).sum();
        let length = u64::from_le_bytes(*bytes.first_chunk().unwrap());
        assert_eq!(sum + 8 + length, bytes.len() as u64);
        for tensor in file.tensors() {
            assert_eq!(file.data(tensor).unwrap().len() as u64, tensor.bytes());
        }
    }
    assert!(opened > 20, "only {opened} of the mutations are harmless: they hit nothing else");
}

/// A folder of two shards, `a` in the first and `b` in the second, under this index.
fn sharded(index: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, name) in [("s1.safetensors", "a"), ("s2.safetensors", "b")] {
        let header = json!({name: {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}).to_string();
        fs::write(folder.path().join(file), bytes(&header, 3)).unwrap();
    }
    fs::write(folder.path().join(INDEX), index).unwrap();
    folder
}

fn index(map: Value) -> String {
    json!({"metadata": {"total_size": 6}, "weight_map": map}).to_string()
}

#[test]
fn shards_are_one_set_of_tensors() {
    let folder = sharded(&index(json!({"a": "s1.safetensors", "b": "s2.safetensors"})));
    let shards = Shards::open(folder.path(), true).unwrap();
    assert_eq!(
        (shards.len(), shards.paths().len(), shards.file_bytes()),
        (2, 2, Shards::bytes_on_disk(folder.path()))
    );
    let b = shards.find("b").unwrap();
    assert_eq!(&*shards.data(b).unwrap().unwrap(), &[0, 1, 2]);
    assert!(shards.find("c").is_none() && shards.data(2).is_none());
    fs::rename(folder.path().join("s1.safetensors"), folder.path().join("model.safetensors")).unwrap();
    assert_eq!(Shards::open(folder.path(), true).unwrap().len(), 1, "one whole file comes before an index");
}

#[test]
fn a_wrong_index_says_what_is_wrong() {
    let said = |index: &str| Shards::open(sharded(index).path(), true).unwrap_err().to_string();
    let of = |map: Value| said(&index(map));
    assert!(
        of(json!({"a": "s1.safetensors", "b": "s3.safetensors"})).contains("the first is 's3.safetensors'")
    );
    assert!(
        of(json!({"a": "s2.safetensors", "b": "s2.safetensors"}))
            .contains("'a' is in 's2.safetensors', but it is in none")
    );
    let swapped = of(json!({"a": "s2.safetensors", "b": "s1.safetensors"}));
    assert!(swapped.contains("'a' is in 's2.safetensors', but it is in 's1.safetensors'"), "{swapped}");
    for path in ["../s1.safetensors", "/etc/passwd", "x/../s1.safetensors", "..", "", "C:s", "a\\b"] {
        let said = of(json!({"a": path, "b": "s2.safetensors"}));
        assert!(said.contains("is not the name of a file in this folder"), "{path}: {said}");
    }
    assert!(of(json!({"a": 3})).contains("expected a file name for tensor 'a'"));
    assert!(of(json!({})).contains("`weight_map` is empty"));
    assert!(said("{}").contains("table `weight_map` is missing"));
    assert!(said("{").contains("not valid JSON"));
}

#[test]
fn a_folder_without_weights_says_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let said = |folder: &TempDir| Shards::open(folder.path(), true).unwrap_err().to_string();
    assert!(said(&folder).contains("has no .safetensors file"));
    fs::write(folder.path().join("pytorch_model.bin"), "x").unwrap();
    assert!(said(&folder).contains("pickled"));
    let shards = sharded("{}");
    fs::remove_file(shards.path().join(INDEX)).unwrap();
    assert!(said(&shards).contains("has 2 .safetensors files and neither"));
    fs::remove_file(shards.path().join("s2.safetensors")).unwrap();
    assert_eq!(Shards::open(shards.path(), true).unwrap().len(), 1);
}

#[test]
fn a_truncated_shard_is_named() {
    let folder = sharded(&index(json!({"a": "s1.safetensors", "b": "s2.safetensors"})));
    let path = folder.path().join("s2.safetensors");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let said = Shards::open(folder.path(), true).unwrap_err().to_string();
    assert!(said.contains("s2.safetensors: cut off: the data of its 1 tensors"), "{said}");
    let doubled = folder.path().join("s1.safetensors");
    fs::write(&path, fs::read(doubled).unwrap()).unwrap();
    let said = Shards::open(folder.path(), true).unwrap_err().to_string();
    assert!(said.contains("tensor 'a': it is in two files"), "{said}");
}
