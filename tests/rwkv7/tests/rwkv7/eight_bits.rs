//! A fixture's matrices in blocks of 8 bits, as ggml's reference rounds them (`quantize_row_q8_0_ref`).

use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions, TensorInfo};
use half::f16;
use std::path::Path;

/// Ends of the names of what the converter rounds; low ranks stay as they are.
const ROUNDED: [&str; 6] = [
    "token_embd.weight",
    "output.weight",
    "mix_key.weight",
    "mix_value.weight",
    "time_mix_receptance.weight",
    "time_mix_output.weight",
];

/// Writes a model again, its matrices in blocks of 8 bits.
pub(crate) fn write(from: &Path, to: &Path) {
    let file = GgufFile::open(from, &OpenOptions::default()).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in file.metadata().iter() {
        writer.metadata(key, value.to_owned()).unwrap();
    }
    for tensor in file.tensors() {
        let bytes = file.data(tensor).unwrap();
        let (kind, bytes) = rounded(tensor, &bytes);
        writer.tensor(tensor.name(), tensor.dims(), kind, bytes).unwrap();
    }
    writer.write(to).unwrap();
}

fn rounded(tensor: &TensorInfo, bytes: &[u8]) -> (GgmlType, Vec<u8>) {
    if !ROUNDED.iter().any(|end| tensor.name().ends_with(end)) {
        return (tensor.kind(), bytes.to_vec());
    }
    assert_eq!(tensor.kind(), GgmlType::F16, "{}", tensor.name());
    let values: Vec<f32> =
        bytes.chunks_exact(2).map(|pair| f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect();
    (GgmlType::Q8_0, values.chunks_exact(32).flat_map(block).collect())
}

fn block(values: &[f32]) -> Vec<u8> {
    let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let step = largest / 127.0;
    let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
    let steps = values.iter().map(|value| (value * inverse).round() as i8 as u8);
    f16::from_f32(step).to_le_bytes().into_iter().chain(steps).collect()
}
