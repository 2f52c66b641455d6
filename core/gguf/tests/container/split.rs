//! Split models: any part opens all of them, and what does not fit is named.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_file::{GgmlType, GgufErrorKind, GgufFile, GgufWriter, OpenOptions};

use crate::raw::says;

fn values(number: usize) -> Vec<u8> {
    (0..8).flat_map(|item| ((number * 8 + item) as f32).to_le_bytes()).collect()
}

/// The first part of a split model, or one of the others, whose metadata only says which part it is.
fn numbered(number: usize, count: usize, tensors: usize, alignment: Option<u64>) -> GgufWriter {
    let mut writer = GgufWriter::new();
    if number == 0 {
        writer.metadata("general.architecture", "llama").unwrap();
    }
    if let Some(alignment) = alignment {
        writer.alignment(alignment).unwrap();
    }
    writer.metadata("split.no", number as u16).unwrap();
    writer.metadata("split.count", count as u16).unwrap();
    writer.metadata("split.tensors.count", tensors as i32).unwrap();
    for number in (0..tensors).skip(number * 2).take(2) {
        writer.tensor(&format!("t{number}"), &[8], GgmlType::F32, values(number)).unwrap();
    }
    writer
}

/// A split model as llama.cpp's gguf-split writes it, with two tensors in each part.
fn split(folder: &Path, tensors: usize, alignment: Option<u64>) -> Vec<PathBuf> {
    let count = tensors.div_ceil(2);
    let write = |number: usize| {
        let path = folder.join(format!("big-{:05}-of-{count:05}.gguf", number + 1));
        numbered(number, count, tensors, alignment).write(&path).unwrap();
        path
    };
    (0..count).map(write).collect()
}

fn parts(folder: &Path, tensors: usize) -> Vec<PathBuf> {
    split(folder, tensors, None)
}

fn open(path: &Path) -> Result<GgufFile, gguf_file::GgufError> {
    let read = GgufFile::open(path, &OpenOptions::default().with_mmap(false));
    let mapped = GgufFile::open(path, &OpenOptions::default().with_mmap(true));
    if let (Err(mapped), Err(read)) = (&mapped, &read) {
        assert_eq!(mapped.to_string(), read.to_string());
    }
    assert_eq!(mapped.is_ok(), read.is_ok());
    mapped
}

#[test]
fn any_part_opens_the_model() {
    let folder = tempfile::tempdir().unwrap();
    for alignment in [None, Some(64)] {
        let paths = split(folder.path(), 5, alignment);
        assert_eq!(paths.len(), 3);
        assert!(paths[1].ends_with("big-00002-of-00003.gguf"));
        for path in &paths {
            assert_eq!(GgufFile::part_paths(path), paths);
            let file = open(path).unwrap();
            assert_eq!(file.paths(), paths);
            assert_eq!(file.metadata().get("general.architecture").unwrap().as_str(), Some("llama"));
            let places: Vec<usize> = file.tensors().iter().map(|tensor| tensor.part()).collect();
            assert_eq!(places, [0, 0, 1, 1, 2]);
            for number in 0..5 {
                let tensor = file.tensor(&format!("t{number}")).unwrap();
                assert_eq!(file.data(tensor).unwrap()[..], values(number));
            }
            let sizes: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
            assert_eq!(file.file_bytes(), sizes);
            file.check_alive().unwrap();
        }
    }
}

#[test]
fn one_part_is_a_whole_model() {
    let folder = tempfile::tempdir().unwrap();
    let paths = parts(folder.path(), 2);
    assert_eq!(paths.len(), 1);
    let elsewhere = folder.path().join("plain.gguf");
    fs::rename(&paths[0], &elsewhere).unwrap();
    assert_eq!(open(&elsewhere).unwrap().paths(), [elsewhere]);
}

#[test]
fn missing_parts_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let paths = parts(folder.path(), 7);
    fs::remove_file(&paths[0]).unwrap();
    fs::remove_file(&paths[2]).unwrap();
    let error = open(&paths[1]).unwrap_err();
    says(
        &error.to_string(),
        &[
            "big-00002-of-00004.gguf: split model of 4 parts: missing ",
            "big-00001-of-00004.gguf, ",
            "big-00003-of-00004.gguf; put all parts in one folder",
        ],
    );
    let GgufErrorKind::MissingParts { missing, count: 4 } = error.kind() else { panic!("{error:?}") };
    assert_eq!(missing, &[paths[0].clone(), paths[2].clone()]);
}

#[test]
fn a_damaged_part_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let paths = parts(folder.path(), 5);
    let bytes = fs::read(&paths[1]).unwrap();
    fs::write(&paths[1], &bytes[..bytes.len() - 32]).unwrap();
    says(
        &open(&paths[0]).unwrap_err().to_string(),
        &["big-00002-of-00003.gguf: tensor 't3'", "32 bytes are missing"],
    );
    fs::write(&paths[1], b"").unwrap();
    says(
        &open(&paths[0]).unwrap_err().to_string(),
        &["big-00002-of-00003.gguf: not a GGUF file: the file is empty"],
    );
}

#[test]
fn renamed_parts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let paths = parts(folder.path(), 5);
    let plain = folder.path().join("plain.gguf");
    fs::copy(&paths[1], &plain).unwrap();
    says(
        &open(&plain).unwrap_err().to_string(),
        &["this is part 2 of 3", "name the parts <name>-00002-of-00003.gguf"],
    );
    fs::copy(&paths[2], &paths[1]).unwrap();
    says(
        &open(&paths[1]).unwrap_err().to_string(),
        &["the name says part 2 of 3, the file says part 3 of 3"],
    );
    says(
        &open(&paths[0]).unwrap_err().to_string(),
        &["big-00002-of-00003.gguf: split model: part 2 of 3", "the file says part 3 of 3"],
    );
}

#[test]
fn parts_of_other_models_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let paths = parts(folder.path(), 5);
    fs::copy(&parts(other.path(), 6)[1], &paths[1]).unwrap();
    let error = open(&paths[0]).unwrap_err().to_string();
    says(&error, &["part 2 of 3 with 5 tensors in all is expected", "part 2 of 3 with 6 tensors in all"]);
    let mut whole = GgufWriter::new();
    whole.metadata("general.architecture", "llama").unwrap();
    whole.write(&paths[1]).unwrap();
    says(&open(&paths[0]).unwrap_err().to_string(), &["says that it is a whole model"]);
}

fn part(number: u16, count: u16, tensors: i32, names: &[&str]) -> GgufWriter {
    let mut writer = GgufWriter::new();
    writer.metadata("split.no", number).unwrap();
    writer.metadata("split.count", count).unwrap();
    writer.metadata("split.tensors.count", tensors).unwrap();
    for name in names {
        writer.tensor(name, &[8], GgmlType::F32, values(0)).unwrap();
    }
    writer
}

#[test]
fn totals_and_names_across_parts() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [1, 2].map(|number| folder.path().join(format!("x-0000{number}-of-00002.gguf")));
    part(0, 2, 4, &["a"]).write(&paths[0]).unwrap();
    part(1, 2, 4, &["b", "c"]).write(&paths[1]).unwrap();
    says(
        &open(&paths[1]).unwrap_err().to_string(),
        &["have 3 tensors together, but split.tensors.count says 4"],
    );
    part(0, 2, 3, &["c"]).write(&paths[0]).unwrap();
    part(1, 2, 3, &["b", "c"]).write(&paths[1]).unwrap();
    says(&open(&paths[1]).unwrap_err().to_string(), &["tensor 'c': duplicate tensor (in parts 1 and 2)"]);
    // The first part of some models has metadata only.
    part(0, 2, 2, &[]).write(&paths[0]).unwrap();
    part(1, 2, 2, &["b", "c"]).write(&paths[1]).unwrap();
    assert_eq!(open(&paths[0]).unwrap().tensors().len(), 2);
}

#[test]
fn keys_that_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x-00001-of-00002.gguf");
    part(5, 2, 1, &["a"]).write(&path).unwrap();
    says(&open(&path).unwrap_err().to_string(), &["split.no is 5, but split.count is 2"]);
    let mut writer = GgufWriter::new();
    writer.metadata("split.count", 70_000_u32).unwrap();
    says(
        &GgufFile::from_bytes("m", writer.to_bytes().unwrap()).unwrap_err().to_string(),
        &["split.count is 70000"],
    );
    let mut writer = GgufWriter::new();
    writer.metadata("split.count", "two").unwrap();
    let error = GgufFile::from_bytes("m", writer.to_bytes().unwrap()).unwrap_err();
    says(&error.to_string(), &["split.count is not a count (its type is string)"]);
    let bytes = part(0, 2, 1, &["a"]).to_bytes().unwrap();
    says(
        &GgufFile::from_bytes("m", bytes).unwrap_err().to_string(),
        &["this is part 1 of 2; open it from its folder"],
    );
}
