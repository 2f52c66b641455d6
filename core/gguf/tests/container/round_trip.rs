//! What is written is read again: all value types, nested arrays, any tensor type and alignment.

use gguf_file::{GgmlType, GgufFile, GgufWriter, OwnedArray, OwnedValue, Value};
use proptest::collection::vec;
use proptest::prelude::*;

fn array() -> impl Strategy<Value = OwnedArray> {
    let flat = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(OwnedArray::U8),
        vec(any::<i8>(), 0..9).prop_map(OwnedArray::I8),
        vec(any::<u16>(), 0..9).prop_map(OwnedArray::U16),
        vec(any::<i16>(), 0..9).prop_map(OwnedArray::I16),
        vec(any::<u32>(), 0..9).prop_map(OwnedArray::U32),
        vec(any::<i32>(), 0..9).prop_map(OwnedArray::I32),
        vec(any::<f32>(), 0..9).prop_map(OwnedArray::F32),
        vec(any::<bool>(), 0..9).prop_map(OwnedArray::Bool),
        vec(vec(any::<u8>(), 0..12), 0..9).prop_map(OwnedArray::String),
        vec(any::<u64>(), 0..9).prop_map(OwnedArray::U64),
        vec(any::<i64>(), 0..9).prop_map(OwnedArray::I64),
        vec(any::<f64>(), 0..9).prop_map(OwnedArray::F64),
    ];
    flat.prop_recursive(4, 24, 4, |inner| vec(inner, 0..4).prop_map(OwnedArray::Array))
}

fn value() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        any::<u8>().prop_map(OwnedValue::U8),
        any::<i8>().prop_map(OwnedValue::I8),
        any::<u16>().prop_map(OwnedValue::U16),
        any::<i16>().prop_map(OwnedValue::I16),
        any::<u32>().prop_map(OwnedValue::U32),
        any::<i32>().prop_map(OwnedValue::I32),
        any::<f32>().prop_map(OwnedValue::F32),
        any::<bool>().prop_map(OwnedValue::Bool),
        ".{0,40}".prop_map(OwnedValue::String),
        array().prop_map(OwnedValue::Array),
        any::<u64>().prop_map(OwnedValue::U64),
        any::<i64>().prop_map(OwnedValue::I64),
        any::<f64>().prop_map(OwnedValue::F64),
    ]
}

#[derive(Debug, Clone)]
struct Tensor {
    dims: Vec<u64>,
    kind: GgmlType,
    seed: u8,
}

impl Tensor {
    fn data(&self) -> Vec<u8> {
        let blocks = self.dims.iter().product::<u64>() as usize / self.kind.block_len().unwrap();
        (0..blocks * self.kind.block_bytes().unwrap()).map(|at| self.seed.wrapping_add(at as u8)).collect()
    }
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let kinds: Vec<GgmlType> = GgmlType::known().collect();
    (proptest::sample::select(kinds), 1..4_u64, vec(1..4_u64, 0..4), any::<u8>()).prop_map(
        |(kind, blocks, rest, seed)| {
            let width = kind.block_len().unwrap() as u64 * blocks;
            Tensor { dims: std::iter::once(width).chain(rest).collect(), kind, seed }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_files_are_read_again(
        keys in proptest::collection::btree_map("[a-zé.]{1,20}", value(), 0..8),
        tensors in proptest::collection::btree_map("[a-z0-9.]{1,20}", tensor(), 0..6),
        alignment in proptest::option::of(3..12_u32),
    ) {
        let mut writer = GgufWriter::new();
        for (key, value) in &keys {
            writer.metadata(key, value.clone()).unwrap();
        }
        if let Some(power) = alignment {
            writer.alignment(1 << power).unwrap();
        }
        for (name, tensor) in &tensors {
            writer.tensor(name, &tensor.dims, tensor.kind, tensor.data()).unwrap();
        }
        let bytes = writer.to_bytes().unwrap();
        let file = GgufFile::from_bytes("written", bytes.clone()).unwrap();
        prop_assert_eq!(file.metadata().len(), keys.len() + usize::from(alignment.is_some()));
        for ((key, found), (expected_key, expected)) in file.metadata().iter().zip(&keys) {
            prop_assert_eq!(key, expected_key);
            prop_assert_eq!(bits(&OwnedValue::from(found)), bits(expected));
        }
        prop_assert_eq!(file.tensors().len(), tensors.len());
        for (name, tensor) in &tensors {
            let found = file.tensor(name).unwrap();
            prop_assert_eq!((found.dims(), found.kind()), (&tensor.dims[..], tensor.kind));
            prop_assert_eq!(found.offset() % alignment.map_or(32, |power| 1 << power), 0);
            prop_assert_eq!(&file.data(found).unwrap()[..], &tensor.data()[..]);
        }
        // Read and written once more, it is the same file.
        let mut again = GgufWriter::new();
        for (key, value) in file.metadata().iter() {
            again.metadata(key, OwnedValue::from(value)).unwrap();
        }
        for tensor in file.tensors() {
            again.tensor(tensor.name(), tensor.dims(), tensor.kind(), file.data(tensor).unwrap().to_vec()).unwrap();
        }
        prop_assert_eq!(again.to_bytes().unwrap(), bytes);
    }
}

/// `Debug` of a value with NaNs told apart by nothing: equality of what was written and read is of text here, and of
/// bytes in the last assertion above.
fn bits(value: &OwnedValue) -> String {
    format!("{value:?}")
}

#[test]
fn values_convert_only_where_nothing_is_lost() {
    assert_eq!(Value::U64(u64::MAX).as_u64(), Some(u64::MAX));
    assert_eq!(Value::U64(u64::MAX).as_i64(), None);
    assert_eq!(Value::I8(-1).as_u64(), None);
    assert_eq!(Value::I8(-1).as_i64(), Some(-1));
    assert_eq!(Value::F32(1.0).as_i64(), None);
    assert_eq!(Value::Bool(true).as_i64(), None);
    assert_eq!(Value::Bool(true).as_f64(), None);
    assert_eq!(Value::F32(0.1).as_f64(), Some(f64::from(0.1_f32)));
    assert_eq!(Value::String("1").as_f64(), None);
}

#[test]
fn arrays_are_read_as_numbers() {
    let mut writer = GgufWriter::new();
    writer.metadata("ints", vec![1_i32, -2, 3]).unwrap();
    writer.metadata("large", vec![1_u64, u64::MAX]).unwrap();
    writer.metadata("floats", vec![0.5_f32, -1.5]).unwrap();
    writer.metadata("bools", vec![true, false]).unwrap();
    writer.metadata("words", vec!["a", "b c"]).unwrap();
    let file = GgufFile::from_bytes("m", writer.to_bytes().unwrap()).unwrap();
    let array = |key: &str| file.metadata().get(key).unwrap().as_array().unwrap();
    assert_eq!(array("ints").integers().unwrap().collect::<Vec<_>>(), [1, -2, 3]);
    assert_eq!(array("ints").numbers().unwrap().sum::<f64>(), 2.0);
    assert!(array("large").integers().is_none());
    assert!(array("floats").integers().is_none());
    assert_eq!(array("floats").numbers().unwrap().collect::<Vec<_>>(), [0.5, -1.5]);
    assert_eq!(array("bools").values().collect::<Vec<_>>(), [true, false].map(Value::Bool));
    assert_eq!(array("words").strings().unwrap().collect::<Vec<_>>(), ["a", "b c"]);
    assert_eq!(array("words").values().count(), 2);
}
