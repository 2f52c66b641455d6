//! Metadata values that own their data, for writing.

use crate::array::ArrayView;
use crate::value::{Value, ValueType, type_of};

/// A metadata value to be written.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum OwnedValue {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(OwnedArray),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array to be written: one type for all elements, which an empty array has too. Strings are bytes, since the tokens
/// of some vocabularies are not UTF-8.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum OwnedArray {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<Vec<u8>>),
    Array(Vec<OwnedArray>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl OwnedArray {
    /// An array of strings.
    pub fn strings<S: AsRef<[u8]>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::String(items.into_iter().map(|item| item.as_ref().to_vec()).collect())
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        type_of!(self)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(items) => items.len(),
            Self::I8(items) => items.len(),
            Self::U16(items) => items.len(),
            Self::I16(items) => items.len(),
            Self::U32(items) => items.len(),
            Self::I32(items) => items.len(),
            Self::F32(items) => items.len(),
            Self::Bool(items) => items.len(),
            Self::String(items) => items.len(),
            Self::Array(items) => items.len(),
            Self::U64(items) => items.len(),
            Self::I64(items) => items.len(),
            Self::F64(items) => items.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The depth of nested arrays: 1 for a flat one.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Array(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            _ => 1,
        }
    }

    /// Type, count and elements as in the file.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.element_type().id().to_le_bytes());
        out.extend((self.len() as u64).to_le_bytes());
        match self {
            Self::U8(items) => out.extend_from_slice(items),
            Self::I8(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::U16(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::I16(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::U32(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::I32(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::F32(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::Bool(items) => items.iter().for_each(|item| out.push(u8::from(*item))),
            Self::String(items) => items.iter().for_each(|item| encode_string(item, out)),
            Self::Array(items) => items.iter().for_each(|item| item.encode(out)),
            Self::U64(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::I64(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
            Self::F64(items) => items.iter().for_each(|item| out.extend(item.to_le_bytes())),
        }
    }
}

/// Length and bytes.
pub(crate) fn encode_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl OwnedValue {
    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        type_of!(self)
    }

    /// Type and value as in the file.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.value_type().id().to_le_bytes());
        match self {
            Self::U8(value) => out.push(*value),
            Self::I8(value) => out.extend(value.to_le_bytes()),
            Self::U16(value) => out.extend(value.to_le_bytes()),
            Self::I16(value) => out.extend(value.to_le_bytes()),
            Self::U32(value) => out.extend(value.to_le_bytes()),
            Self::I32(value) => out.extend(value.to_le_bytes()),
            Self::F32(value) => out.extend(value.to_le_bytes()),
            Self::Bool(value) => out.push(u8::from(*value)),
            Self::String(value) => encode_string(value.as_bytes(), out),
            Self::Array(value) => value.encode(out),
            Self::U64(value) => out.extend(value.to_le_bytes()),
            Self::I64(value) => out.extend(value.to_le_bytes()),
            Self::F64(value) => out.extend(value.to_le_bytes()),
        }
    }
}

impl From<ArrayView<'_>> for OwnedArray {
    fn from(array: ArrayView<'_>) -> Self {
        let raw = array.raw();
        match array.element_type() {
            ValueType::U8 => Self::U8(raw.to_vec()),
            ValueType::I8 => Self::I8(raw.iter().map(|byte| byte.cast_signed()).collect()),
            ValueType::U16 => Self::U16(numbers(raw, u16::from_le_bytes)),
            ValueType::I16 => Self::I16(numbers(raw, i16::from_le_bytes)),
            ValueType::U32 => Self::U32(numbers(raw, u32::from_le_bytes)),
            ValueType::I32 => Self::I32(numbers(raw, i32::from_le_bytes)),
            ValueType::F32 => Self::F32(numbers(raw, f32::from_le_bytes)),
            ValueType::Bool => Self::Bool(raw.iter().map(|byte| *byte != 0).collect()),
            ValueType::String => Self::strings(array.byte_strings().into_iter().flatten()),
            ValueType::Array => Self::Array(array.arrays().into_iter().flatten().map(Self::from).collect()),
            ValueType::U64 => Self::U64(numbers(raw, u64::from_le_bytes)),
            ValueType::I64 => Self::I64(numbers(raw, i64::from_le_bytes)),
            ValueType::F64 => Self::F64(numbers(raw, f64::from_le_bytes)),
        }
    }
}

fn numbers<T, const N: usize>(raw: &[u8], from: fn([u8; N]) -> T) -> Vec<T> {
    raw.as_chunks::<N>().0.iter().map(|bytes| from(*bytes)).collect()
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::U8(value) => Self::U8(value),
            Value::I8(value) => Self::I8(value),
            Value::U16(value) => Self::U16(value),
            Value::I16(value) => Self::I16(value),
            Value::U32(value) => Self::U32(value),
            Value::I32(value) => Self::I32(value),
            Value::F32(value) => Self::F32(value),
            Value::Bool(value) => Self::Bool(value),
            Value::String(value) => Self::String(value.into()),
            Value::Array(value) => Self::Array(value.into()),
            Value::U64(value) => Self::U64(value),
            Value::I64(value) => Self::I64(value),
            Value::F64(value) => Self::F64(value),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for OwnedValue {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64,
    bool => Bool, &str => String, String => String, OwnedArray => Array,
}

macro_rules! from_lists {
    ($($item:ty => $variant:ident),* $(,)?) => {$(
        impl From<Vec<$item>> for OwnedValue {
            fn from(items: Vec<$item>) -> Self {
                Self::Array(OwnedArray::$variant(items))
            }
        }
    )*};
}

from_lists! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64,
    bool => Bool, OwnedArray => Array,
}

impl From<Vec<String>> for OwnedValue {
    fn from(items: Vec<String>) -> Self {
        Self::Array(OwnedArray::String(items.into_iter().map(String::into_bytes).collect()))
    }
}

impl From<Vec<&str>> for OwnedValue {
    fn from(items: Vec<&str>) -> Self {
        Self::Array(OwnedArray::strings(items))
    }
}
