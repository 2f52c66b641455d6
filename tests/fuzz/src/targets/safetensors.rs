//! Safetensors files.

use crate::Target;
use menagerie_loaders::SafetensorsFile;

pub(super) const TARGET: Target = Target {
    name: "safetensors",
    run,
    seeds,
    words: &[
        "dtype",
        "shape",
        "data_offsets",
        "__metadata__",
        "F32",
        "BF16",
        "F8_E4M3",
        "F4",
        "\\u0000",
        "[[",
        "{}",
    ],
};

fn run(input: &[u8]) -> bool {
    // The length of the header as it should be, so that changed headers are read.
    let sealed = input.get(8..).map(|rest| {
        let end = rest.iter().rposition(|byte| *byte == b'}').map_or(0, |at| at + 1);
        [&(end as u64).to_le_bytes(), rest].concat()
    });
    let sealed = sealed.is_some_and(read);
    read(input.to_vec()) || sealed
}

fn read(input: Vec<u8>) -> bool {
    let length = input.len() as u64;
    let Ok(file) = SafetensorsFile::from_bytes("input", input) else { return false };
    let mut bytes = 0;
    for tensor in file.tensors() {
        assert_eq!(
            file.data(tensor).map(|data| data.len() as u64).ok(),
            Some(tensor.bytes()),
            "{}",
            tensor.name()
        );
        assert!(file.tensor(tensor.name()).is_some(), "a tensor is not found by its name");
        bytes += tensor.bytes();
    }
    assert!(bytes <= length, "tensors of {bytes} bytes in a file of {length}");
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let headers = [
        ("{}", 0),
        (r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 8),
        (
            r#"{"b":{"dtype":"F16","shape":[2,3],"data_offsets":[8,20]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#,
            20,
        ),
        (r#"{"s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}   "#, 2),
    ];
    let seed = |(header, data): (&str, usize)| {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![7; data]].concat()
    };
    headers.into_iter().map(seed).collect()
}
