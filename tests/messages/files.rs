//! GGUF files.

use menagerie::gguf::{GgmlType, GgufErrorKind, GgufFile};
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
        GgufErrorKind::Malformed { at: 24, problem: "an alignment of 3 is no power of two".to_owned() },
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
