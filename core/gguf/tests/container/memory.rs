//! Many files at once, long headers.

#[cfg(unix)]
use std::{fs::File, os::unix::fs::FileExt};

use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions};

#[cfg(unix)]
use crate::raw::{Raw, says};

#[test]
fn headers_longer_than_a_piece_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.gguf");
    let mut writer = GgufWriter::new();
    let words: Vec<String> = (0..200_000).map(|number| format!("token {number}")).collect();
    writer.strings("tokens", &words).unwrap();
    writer.metadata("after", 5_u32).unwrap();
    writer.tensor("w", &[8], GgmlType::F32, vec![1; 32]).unwrap();
    writer.write(&path).unwrap();
    for mmap in [true, false] {
        let file = GgufFile::open(&path, &OpenOptions::default().with_mmap(mmap)).unwrap();
        let array = file.metadata().get("tokens").unwrap().as_array().unwrap();
        assert!(array.strings().unwrap().eq(words.iter().map(String::as_str)));
        assert_eq!(file.metadata().get("after").unwrap().as_u64(), Some(5));
        assert_eq!(file.data(&file.tensors()[0]).unwrap()[..], [1; 32]);
    }
}

/// Offsets beyond 32 bits, in a file that has holes in place of data.
#[cfg(unix)]
#[test]
fn large_files_are_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.gguf");
    let raw = Raw::header(3, 2, 0).tensor("w", &[1 << 15, 1 << 15, 5], 0, 0).tensor("end", &[8], 0, 20 << 30);
    let data_at = raw.0.len().next_multiple_of(32) as u64;
    let file = File::create(&path).unwrap();
    file.write_all_at(&raw.0, 0).unwrap();
    file.write_all_at(&[5; 32], data_at + (20 << 30)).unwrap();
    let model = GgufFile::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(model.file_bytes(), data_at + (20 << 30) + 32);
    let end = model.tensor("end").unwrap();
    assert_eq!((end.offset(), model.data(end).unwrap().to_vec()), (data_at + (20 << 30), vec![5; 32]));
    assert_eq!(model.data(model.tensor("w").unwrap()).unwrap().len(), 20 << 30);
    file.set_len(data_at + (20 << 30)).unwrap();
    let error = GgufFile::open(&path, &OpenOptions::default()).unwrap_err().to_string();
    says(&error, &["tensor 'end'", "1 of 2 tensors", "32 bytes are missing", "truncated"]);
}

/// A file may be large enough for what its header claims; the claim is still not believed.
#[cfg(unix)]
#[test]
fn headers_without_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("claims.gguf");
    let file = File::create(&path).unwrap();
    for raw in [
        Raw::header(3, 0, 1).text("k").u32(8).u64(3 << 30),
        Raw::header(3, 0, 1).text("k").u32(9).u32(10).u64(1 << 28),
    ] {
        file.write_all_at(&raw.0, 0).unwrap();
        file.set_len(4 << 30).unwrap();
        let error = GgufFile::open(&path, &OpenOptions::default()).unwrap_err().to_string();
        says(&error, &["damaged header", "headers of at most 1073741824 bytes are supported"]);
    }
}

#[test]
fn mappings_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let mut writer = GgufWriter::new();
    writer.tensor("w", &[8], GgmlType::F32, vec![1; 32]).unwrap();
    writer.write(&path).unwrap();
    // More than the table of mapped files holds, but not at once.
    for _ in 0..5000 {
        let file = GgufFile::open(&path, &OpenOptions::default()).unwrap();
        assert!(!file.poisoned());
    }
}
