//! The writer: exact bytes, atomic files, streams, refusals.

use std::fs;
use std::path::Path;

use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions};

use crate::raw::{Raw, says};

fn small() -> GgufWriter {
    let mut writer = GgufWriter::new();
    writer.metadata("general.architecture", "llama").unwrap();
    writer.metadata("n", 7_u32).unwrap();
    writer.tensor("a", &[2, 3], GgmlType::F32, vec![1; 24]).unwrap();
    writer.tensor("b", &[32], GgmlType::Q8_0, vec![2; 34]).unwrap();
    writer
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let mut expected = Raw::header(3, 2, 2)
        .key_text("general.architecture", "llama")
        .key_u32("n", 7)
        .tensor("a", &[2, 3], 0, 0)
        .tensor("b", &[32], 8, 32)
        .data(32 + 64)
        .0;
    let data = expected.len() - 96;
    expected[data..data + 24].fill(1);
    expected[data + 32..data + 32 + 34].fill(2);
    assert_eq!(small().to_bytes().unwrap(), expected);
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_appear_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    fs::write(&path, b"before").unwrap();
    let mut stream = small().begin(&path).unwrap();
    stream.tensor("a", &[1; 24]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(names(folder.path()).len(), 2);
    drop(stream);
    assert_eq!((fs::read(&path).unwrap(), names(folder.path()).len()), (b"before".to_vec(), 1));
    small().write(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), small().to_bytes().unwrap());
    assert_eq!(names(folder.path()), ["m.gguf"]);
    says(
        &small().write(folder.path().join("no/m.gguf")).unwrap_err().to_string(),
        &["cannot create the file"],
    );
    says(&small().write(folder.path()).unwrap_err().to_string(), &["cannot rename the finished file"]);
    says(&small().write(Path::new("/")).unwrap_err().to_string(), &["does not end in a file name"]);
}

#[test]
fn data_may_come_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let mut writer = GgufWriter::new();
    writer.metadata("general.architecture", "llama").unwrap();
    writer.declare("big", &[1 << 18, 4], GgmlType::F32).unwrap();
    writer.declare("end", &[1], GgmlType::F32).unwrap();
    let mut stream = writer.begin(&path).unwrap();
    let row: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    stream.tensor_chunks("big", std::iter::repeat_n(&row, 4)).unwrap();
    stream.tensor_with("end", |out| (0..4).try_for_each(|byte| out.write_all(&[byte]))).unwrap();
    stream.commit().unwrap();
    let file = GgufFile::open(&path, &OpenOptions::default()).unwrap();
    let big = file.data(file.tensor("big").unwrap()).unwrap();
    assert!(big.chunks(row.len()).all(|chunk| chunk == row));
    assert_eq!(big.slice(10..20).unwrap()[..], row[10..20]);
    assert!(big.slice(0..big.len() + 1).is_none());
    assert_eq!(file.data(file.tensor("end").unwrap()).unwrap()[..], [0, 1, 2, 3]);
}

#[test]
fn streams_refuse_what_was_not_declared() {
    let begin = || small().begin_into(Vec::new()).unwrap();
    says(
        &begin().tensor("b", &[2; 34]).unwrap_err().to_string(),
        &["tensor 'b' is not the next one: the next is 'a'"],
    );
    says(&begin().finish().unwrap_err().to_string(), &["2 tensors have no data yet, the first is 'a'"]);
    let mut stream = begin();
    says(
        &stream.tensor("a", &[1; 23]).unwrap_err().to_string(),
        &["tensor 'a' was given 23 of its 24 bytes"],
    );
    says(
        &stream.tensor("a", &[1; 24]).unwrap_err().to_string(),
        &["not written whole; begin the file again"],
    );
    says(&stream.finish().unwrap_err().to_string(), &["not written whole"]);
    says(&begin().tensor("a", &[1; 25]).unwrap_err().to_string(), &["given more than its 24 bytes"]);
    let mut stream = begin();
    stream.tensor("a", &[1; 24]).unwrap();
    stream.tensor("b", &[2; 34]).unwrap();
    says(&stream.tensor("c", &[]).unwrap_err().to_string(), &["'c' is not the next one: all are written"]);
    assert_eq!(stream.finish().unwrap(), small().to_bytes().unwrap());
    let failing = begin().tensor_with("a", |_| Err(std::io::Error::other("no source")));
    says(&failing.unwrap_err().to_string(), &["cannot write tensor data: no source"]);
}

#[test]
fn refusals() {
    let mut writer = small();
    says(&writer.metadata("n", 1_u8).unwrap_err().to_string(), &["metadata key 'n' already exists"]);
    says(&writer.metadata("", 1_u8).unwrap_err().to_string(), &["0 bytes"]);
    says(&writer.metadata("general.alignment", "x").unwrap_err().to_string(), &["must be a u32, not string"]);
    says(&writer.metadata("general.alignment", 48_u32).unwrap_err().to_string(), &["alignment 48"]);
    says(&writer.alignment(1 << 33).unwrap_err().to_string(), &["alignment 8589934592"]);
    let mut tensor = |name, dims: &[u64], kind, bytes| {
        writer.tensor(name, dims, kind, vec![0; bytes]).map(drop).unwrap_err().to_string()
    };
    says(&tensor("a", &[1], GgmlType::F32, 4), &["tensor 'a': the tensor already exists"]);
    says(&tensor("c", &[2], GgmlType::F32, 4), &["has 4 bytes of data, but F32 [2] takes 8"]);
    says(&tensor("c", &[2, 0], GgmlType::F32, 4), &["dimension 1"]);
    says(&tensor("c", &[1; 5], GgmlType::F32, 4), &["5 dimensions"]);
    says(&tensor("c", &[33], GgmlType::Q8_0, 34), &["cut the blocks of 32"]);
    says(&tensor("c", &[33], GgmlType::from_id(99), 0), &["unknown id 99"]);
    says(
        &writer.declare("c", &[8], GgmlType::from_id(31)).unwrap_err().to_string(),
        &["Q4_0_4_4", "is not known"],
    );
    writer.declare("late", &[8], GgmlType::F32).unwrap();
    says(&writer.to_bytes().unwrap_err().to_string(), &["tensor 'late' was declared without data"]);
}

#[test]
fn unknown_types_are_carried() {
    let mut writer = GgufWriter::new();
    writer.tensor("odd", &[7], GgmlType::from_id(1000), vec![9; 5]).unwrap();
    writer.tensor("w", &[1], GgmlType::F32, vec![3; 4]).unwrap();
    let file = GgufFile::from_bytes("m", writer.to_bytes().unwrap()).unwrap();
    assert_eq!(file.tensors()[0].kind().id(), 1000);
    assert_eq!(file.data(&file.tensors()[1]).unwrap()[..], [3; 4]);
}
