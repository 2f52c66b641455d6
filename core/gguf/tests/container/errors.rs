//! What is wrong is named with the place, the reason and what to do.

use gguf_file::{GgmlType, GgufErrorKind};

use crate::raw::{Raw, says};

#[test]
fn versions() {
    says(
        &Raw::header(1, 0, 0).error(),
        &["m.gguf: GGUF version 1", "August 2023", "convert the original model again"],
    );
    says(&Raw::header(0, 0, 0).error(), &["GGUF version 0", "damaged"]);
    says(&Raw::header(4, 0, 0).error(), &["GGUF version 4", "newer"]);
    says(&Raw::header(77_777, 0, 0).error(), &["GGUF version 77777", "damaged"]);
    for version in [1_u32, 2, 3] {
        let text = Raw::header(version.swap_bytes(), 0, 0).error();
        says(&text, &["big-endian GGUF file", &format!("version {version}"), "gguf_convert_endian.py"]);
    }
    for version in [2, 3] {
        assert_eq!(Raw::header(version, 0, 0).open().unwrap().version(), version);
    }
}

#[test]
fn cut_headers_are_truncated() {
    let whole = Raw::header(3, 1, 1).key_text("general.name", "x").tensor("a", &[8], 0, 0).data(32);
    assert_eq!(whole.clone().open().unwrap().tensors().len(), 1);
    for length in 4..whole.0.len() {
        let error = Raw(whole.0[..length].to_vec()).open();
        // The last tensor needs no padding after its 32 bytes of data.
        says(&error.expect_err("cut").to_string(), &["truncated or damaged", "again"]);
    }
    says(&Raw(b"GGUF".to_vec()).error(), &["the version at byte 4 needs 4 bytes, but 0 are left"]);
}

#[test]
fn counts_that_cannot_be() {
    says(&Raw::header(3, 0, 1 << 60).error(), &["a list of 1152921504606846976 metadata keys", "0 are left"]);
    says(&Raw::header(3, 1 << 60, 0).error(), &["a list of 1152921504606846976 tensors"]);
    says(&Raw::header(3, u64::MAX, u64::MAX).error(), &["truncated or damaged"]);
    let strings = Raw::header(3, 0, 1).text("tokens").u32(9).u32(8).u64(1 << 60);
    says(&strings.error(), &["the value of metadata key 'tokens'", "0 are left"]);
    let numbers = Raw::header(3, 0, 1).text("scores").u32(9).u32(6).u64(u64::MAX / 2);
    says(&numbers.error(), &["the value of metadata key 'scores'"]);
    let text = Raw::header(3, 0, 1).text("t").u32(8).u64(1 << 40).u64(0);
    says(&text.error(), &["metadata key 't'", "needs 1099511627776 bytes, but 8 are left"]);
    let key = Raw::header(3, 0, 1).u64(60_000).u64(0).u64(0);
    says(&key.error(), &["metadata key 0", "needs 60000 bytes"]);
}

#[test]
fn keys_that_cannot_be() {
    says(&Raw::header(3, 0, 1).text("").u32(0).u8(0).u64(0).error(), &["metadata key 0 has an empty name"]);
    says(&Raw::header(3, 0, 1).u64(65_536).data(70_000).error(), &["a name of 65536 bytes, more than 65535"]);
    says(&Raw::header(3, 0, 1).blob(b"a\xff").u32(0).u8(0).u64(0).error(), &["not UTF-8", "'a\u{fffd}'"]);
    says(
        &Raw::header(3, 0, 1).text("k").u32(13).u64(0).error(),
        &["key 'k' at byte 24", "unknown value type 13"],
    );
    says(&Raw::header(3, 0, 1).text("k").u32(9).u32(99).u64(0).error(), &["'k'", "value type 99"]);
    says(
        &Raw::header(3, 0, 1).text("k").u32(7).u8(2).u64(0).error(),
        &["'k'", "expected 0 or 1 as a boolean, found 2"],
    );
    let bools = Raw::header(3, 0, 1).text("k").u32(9).u32(7).u64(2).u8(1).u8(255);
    says(&bools.error(), &["'k'", "expected 0 or 1 as a boolean, found 255"]);
    let twice = Raw::header(3, 0, 3).key_u32("a.b", 1).key_u32("c", 2).key_u32("a.b", 1);
    says(&twice.error(), &["metadata key 'a.b' at byte 60", "duplicate key (first at byte 24)"]);
    let text = Raw::header(3, 0, 1).text("general.name").u32(8).blob(b"ab\xc0").error();
    says(&text, &["metadata key 'general.name'", "not UTF-8 (bad byte at 2"]);
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let mut raw = Raw::header(3, 0, 1).text("deep").u32(9);
        for _ in 1..depth {
            raw = raw.u32(9).u64(1);
        }
        raw.u32(0).u64(1).u8(7)
    };
    let file = nested(8).open().unwrap();
    let mut array = file.metadata().get("deep").unwrap().as_array().unwrap();
    for _ in 1..8 {
        array = array.arrays().unwrap().next().unwrap();
    }
    assert_eq!(array.integers().unwrap().collect::<Vec<_>>(), [7]);
    says(&nested(9).error(), &["'deep'", "nested deeper than 8"]);
    says(&nested(10_000).error(), &["'deep'", "nested deeper than 8"]);
}

#[test]
fn alignments_that_cannot_be() {
    for bad in [0, 1, 4, 33, 48, 1 << 25, u32::MAX] {
        let text = Raw::header(3, 0, 1).key_u32("general.alignment", bad).error();
        says(&text, &["'general.alignment'", &format!("alignment {bad} is not a power of two")]);
    }
    says(&Raw::header(3, 0, 1).key_text("general.alignment", "32").error(), &["must be a u32, not a string"]);
    let raw = Raw::header(3, 2, 1).key_u32("general.alignment", 8);
    let file = raw.tensor("a", &[1], 0, 0).tensor("b", &[1], 0, 8).data_at(8, 12).open().unwrap();
    let offsets: Vec<u64> = file.tensors().iter().map(|tensor| tensor.offset()).collect();
    assert_eq!(offsets[1] - offsets[0], 8);
    assert_eq!(offsets[1] + 4, file.file_bytes());
}

fn one(dims: &[u64], kind: u32, offset: u64, data: usize) -> Raw {
    Raw::header(3, 1, 0).tensor("blk.0.w", dims, kind, offset).data(data)
}

#[test]
fn tensors_that_cannot_be() {
    says(
        &one(&[8], 0, 4, 64).error(),
        &["tensor 'blk.0.w'", "offset 4 is not a multiple of the alignment 32"],
    );
    says(&one(&[8], 0, 1 << 40, 64).error(), &["ends after the end of the file", "download it again"]);
    says(&one(&[8], 0, u64::MAX - 31, 64).error(), &["does not fit 64 bits"]);
    says(&one(&[16], 0, 0, 32).error(), &["1 of 1 tensors", "32 bytes are missing"]);
    says(&one(&[8, 0], 0, 0, 32).error(), &["dimension 1 of 8 x 0 is 0"]);
    says(
        &one(&[1 << 32, 1 << 32], 0, 0, 32).error(),
        &["dimensions 4294967296 x 4294967296 overflow 64 bits"],
    );
    says(&one(&[1 << 31, 1 << 31, 2], 0, 0, 32).error(), &["overflow 64 bits"]);
    says(&one(&[1 << 61], 28, 0, 32).error(), &["overflow 64 bits in bytes"]);
    says(&one(&[1; 5], 0, 0, 32).error(), &["tensor 'blk.0.w' has 5 dimensions, more than 4"]);
    says(&one(&[100], 12, 0, 144).error(), &["rows of 100 elements cut the blocks of 256 of type Q4_K"]);
    says(&one(&[128, 2], 12, 0, 144).error(), &["rows of 128 elements cut"]);
    says(&Raw::header(3, 1, 0).tensor("", &[8], 0, 0).data(32).error(), &["tensor 0 has an empty name"]);
    assert_eq!(one(&[8], 0, 0, 32).open().unwrap().tensors()[0].bytes(), 32);
    let single = one(&[], 0, 0, 4).open().unwrap();
    assert_eq!((single.tensors()[0].elements(), single.tensors()[0].bytes()), (1, 4));
}

#[test]
fn tensors_against_each_other() {
    let two = |name: &str, at: u64, data| {
        Raw::header(3, 2, 0).tensor("first", &[16], 0, 0).tensor(name, &[8], 0, at).data(data).open()
    };
    assert!(two("second", 64, 96).is_ok());
    let error = two("second", 32, 96).unwrap_err().to_string();
    says(&error, &["tensor 'second'", "overlaps that of tensor 'first'"]);
    says(&two("second", 0, 96).unwrap_err().to_string(), &["overlaps"]);
    says(&two("first", 64, 96).unwrap_err().to_string(), &["tensor 'first'", "duplicate tensor"]);
    let backwards =
        Raw::header(3, 2, 0).tensor("b", &[8], 0, 64).tensor("a", &[16], 0, 0).data(96).open().unwrap();
    assert_eq!(backwards.tensors()[0].name(), "b");
    assert_eq!(backwards.tensor("a").unwrap().bytes(), 64);
    assert!(backwards.tensor("c").is_none());
}

#[test]
fn types_fail_where_they_are_used() {
    let raw = |kind| Raw::header(3, 2, 0).tensor("odd", &[32], kind, 0).tensor("w", &[8], 0, 32).data(64);
    for (kind, words) in [
        (4, ["Q4_2 (id 4, removed", "quantize the model again as Q4_0"]),
        (31, ["Q4_0_4_4 (id 31, removed", "as Q4_0"]),
        (33, ["Q4_0_8_8 (id 33, removed", "as Q4_0"]),
        (38, ["IQ4_NL_8_8 (id 38, removed", "as IQ4_NL"]),
        (43, ["unknown id 43", "newer build"]),
        (u32::MAX, ["unknown id 4294967295", "newer build"]),
    ] {
        let file = raw(kind).open().unwrap();
        let odd = file.tensor("odd").unwrap();
        assert_eq!((odd.bytes(), odd.kind().id(), odd.kind().is_known()), (0, kind, false));
        let error = file.data(odd).unwrap_err();
        says(&error.to_string(), &["m.gguf: tensor 'odd': type", words[0], words[1]]);
        assert!(matches!(error.kind(), GgufErrorKind::TensorType { kind: found, .. } if found.id() == kind));
        assert_eq!(file.data(file.tensor("w").unwrap()).unwrap().len(), 32);
    }
    let beyond = Raw::header(3, 1, 0).tensor("odd", &[32], 99, 32).data(32).error();
    says(&beyond, &["ends after the end of the file"]);
    // Known, though nothing computes with them.
    for kind in GgmlType::known() {
        let block = kind.block_len().unwrap() as u64;
        let file = Raw::header(3, 1, 0).tensor("w", &[block, 3], kind.id(), 0).data(1024).open().unwrap();
        let data = file.data(&file.tensors()[0]).unwrap();
        assert_eq!(data.len(), 3 * kind.block_bytes().unwrap(), "{kind}");
    }
}

#[test]
fn a_tensor_of_another_file_is_refused() {
    let small = one(&[8], 0, 0, 32).open().unwrap();
    let large = one(&[8], 0, 96, 128).open().unwrap();
    let error = small.data(&large.tensors()[0]).unwrap_err();
    says(&error.to_string(), &["tensor 'blk.0.w': the tensor belongs to another file"]);
}

#[test]
fn arrays_may_hold_any_bytes() {
    let raw = Raw::header(3, 0, 1).text("tokens").u32(9).u32(8).u64(3).text("a").blob(b"\xff\xfe").text("");
    let file = raw.open().unwrap();
    let array = file.metadata().get("tokens").unwrap().as_array().unwrap();
    assert!(array.strings().is_none());
    assert_eq!(array.first_invalid_string(), Some(1));
    assert_eq!(array.byte_strings().unwrap().collect::<Vec<_>>(), [&b"a"[..], b"\xff\xfe", b""]);
    assert!(array.numbers().is_none() && array.integers().is_none());
}

#[test]
fn errors_show_no_control_characters() {
    let text = Raw::header(3, 0, 1).text("a\u{1b}[2J\n\0").u32(13).u64(0).error();
    says(&text, &["'a\\u{1b}[2J\\n\\0'"]);
    let long = "k".repeat(60_000);
    says(&Raw::header(3, 0, 1).text(&long).u32(13).u64(0).error(), &["kkkk...'"]);
}
