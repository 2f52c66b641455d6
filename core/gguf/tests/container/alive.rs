//! A file that changes on disk while it is open: what is safe and what is told.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions};

use crate::raw::says;

fn model(folder: &tempfile::TempDir, byte: u8) -> PathBuf {
    let path = folder.path().join(format!("{byte}.gguf"));
    let mut writer = GgufWriter::new();
    writer.metadata("general.name", "x").unwrap();
    writer.tensor("w", &[4096], GgmlType::F32, vec![byte; 16_384]).unwrap();
    writer.write(&path).unwrap();
    path
}

fn open(path: &std::path::Path, mmap: bool) -> GgufFile {
    GgufFile::open(path, &OpenOptions::default().with_mmap(mmap)).unwrap()
}

#[test]
fn renaming_over_and_deleting_are_safe() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (model(&folder, 1), model(&folder, 2));
    let file = open(&old, true);
    let data = file.data(&file.tensors()[0]).unwrap();
    fs::rename(&new, &old).unwrap();
    file.check_alive().unwrap();
    assert!(data.iter().all(|byte| *byte == 1));
    assert!(open(&old, true).data(&file.tensors()[0]).unwrap().iter().all(|byte| *byte == 2));
    fs::remove_file(&old).unwrap();
    file.check_alive().unwrap();
    drop(file);
    assert!(data.iter().all(|byte| *byte == 1));
}

#[test]
fn writing_in_place_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(&folder, 1);
    let file = open(&path, true);
    let memory = open(&path, false);
    let other = fs::OpenOptions::new().write(true).open(&path).unwrap();
    other.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
    says(
        &file.check_alive().unwrap_err().to_string(),
        &["changed on disk while in use", "written to", "load the model again"],
    );
    memory.check_alive().unwrap();
}

#[test]
fn truncating_is_told_before_a_page_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = model(&folder, 1);
    let file = open(&path, true);
    let memory = open(&path, false);
    let length = file.file_bytes();
    let other = fs::OpenOptions::new().write(true).open(&path).unwrap();
    other.set_len(100).unwrap();
    let words = format!("it was truncated from {length} to 100 bytes");
    says(&file.check_alive().unwrap_err().to_string(), &["changed on disk while in use", &words]);
    assert!(!file.poisoned());
    assert_eq!(file.metadata().get("general.name").unwrap().as_str(), Some("x"));
    memory.check_alive().unwrap();
    assert!(memory.data(&memory.tensors()[0]).unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn handles_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let folder = tempfile::tempdir().unwrap();
    let file = std::sync::Arc::new(open(&model(&folder, 3), true));
    shared(&file);
    shared(&file.data(&file.tensors()[0]).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(file.data(&file.tensors()[0]).unwrap().iter().all(|byte| *byte == 3)));
        }
    });
}
