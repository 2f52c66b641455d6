//! GGUF files.

use menagerie::gguf::{GgmlType, GgufErrorKind, GgufFile};
use menagerie::loaders::{SafetensorsError, SafetensorsErrorKind, SafetensorsFile};
use std::io;

fn opened(bytes: Vec<u8>) -> String {
    format!("{}\n", GgufFile::from_bytes("m.gguf", bytes).unwrap_err())
}

/// What real bytes say.
#[test]
fn bytes() {
    let version = |version: u32| {
        let parts: [&[u8]; 3] = [b"GGUF", &version.to_le_bytes(), &[0; 16]];
        parts.concat()
    };
    let other = b"PK\x03\x04 a zip file, and long enough to be looked at".to_vec();
    let cut = b"GGUF\x03\0\0\0\x01".to_vec();
    let texts = [other, version(1), version(9), version(3_u32.swap_bytes()), cut].map(opened);
    let said = texts.join("\n");
    insta::assert_snapshot!(said);
}

#[test]
fn gguf() {
    let refused = || io::Error::new(io::ErrorKind::PermissionDenied, "Permission denied");
    let said = messages![
        GgufErrorKind::Io {
            action: "open the file",
            source: refused(),
            advice: "; check its mode".to_owned()
        },
        GgufErrorKind::NotRegular { what: "a directory", advice: "name a file in it".to_owned() },
        GgufErrorKind::NotGguf { found: "it is a zip file".to_owned(), advice: "unpack it".to_owned() },
        GgufErrorKind::Version { version: 9, advice: "a newer version of this program may" },
        GgufErrorKind::BigEndian { version: 3 },
        GgufErrorKind::Truncated { at: 40, what: "the version".to_owned(), needed: 4, left: 1 },
        GgufErrorKind::Malformed { at: 24, problem: "an alignment of 3 is not a power of two".to_owned() },
        GgufErrorKind::Key {
            key: "'general.name'".to_owned(),
            at: 24,
            problem: "value type 13 does not exist".to_owned(),
        },
        GgufErrorKind::Tensor { tensor: "'output.weight'".to_owned(), problem: "there twice".to_owned() },
        GgufErrorKind::TensorType { tensor: "'output.weight'".to_owned(), kind: GgmlType::from_id(4) },
        GgufErrorKind::Split { problem: "part 2 is of another model".to_owned() },
        GgufErrorKind::MissingParts { missing: vec!["m-00002-of-00002.gguf".into()], count: 2 },
        GgufErrorKind::Changed { problem: "it has 3 bytes instead of 7".to_owned() },
        GgufErrorKind::Write { problem: "2 tensors have no data yet, the first is 'a'".to_owned() },
        GgufErrorKind::Guard { source: refused() },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn safetensors() {
    let refused = || io::Error::new(io::ErrorKind::PermissionDenied, "Permission denied");
    let said = messages![
        SafetensorsError::Content {
            file: "model.safetensors".to_owned(),
            kind: Box::new(SafetensorsErrorKind::Header { problem: "EOF at line 1".to_owned() }),
        },
        SafetensorsErrorKind::Io { action: "read the index of shards", source: refused() },
        SafetensorsErrorKind::Foreign {
            found: "a GGUF file".to_owned(),
            advice: "rename it to end in .gguf"
        },
        SafetensorsErrorKind::Truncated { what: "the header".to_owned(), needed: 900, found: 64 },
        SafetensorsErrorKind::Header { problem: "duplicate __metadata__".to_owned() },
        SafetensorsErrorKind::Tensor {
            tensor: "lm_head.weight".to_owned(),
            problem: "duplicate name in the header; the file is damaged".to_owned(),
        },
        SafetensorsErrorKind::Index {
            problem: "the table `weight_map` is missing; download it again".to_owned()
        },
        SafetensorsErrorKind::NoWeights { problem: "the folder has no .safetensors file".to_owned() },
    ];
    insta::assert_snapshot!(said);
}

/// What real bytes say.
#[test]
fn safetensors_bytes() {
    let file = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; data]);
        format!("{}\n", SafetensorsFile::from_bytes("m.safetensors", bytes).unwrap_err())
    };
    let entry = |shape: &str, from: u64, to: u64| {
        format!(r#"{{"a": {{"dtype": "F32", "shape": {shape}, "data_offsets": [{from}, {to}]}}}}"#)
    };
    let texts = [
        file(&entry("[1152921504606846976]", 0, 8), 8),
        file(&entry("[2]", 0, 9), 9),
        file(&entry("[2]", 8, 16), 16),
        file(&entry("[2]", 0, 8), 4),
        file(&entry("[2]", 0, 8), 12),
        file(&entry("2", 0, 8), 8),
        file("{\"a\":", 0),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}
