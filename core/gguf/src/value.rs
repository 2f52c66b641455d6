//! Metadata values as stored: types, checks, decoding.

use std::fmt;

use crate::array::ArrayView;
use crate::cursor::{Cursor, CursorFault, Short};

/// Maximum nesting of arrays.
pub(crate) const MAX_NESTING: usize = 8;

/// The type of a metadata value; the discriminants are those of the file (gguf.md, `gguf_metadata_value_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

/// The [`ValueType`] of `self`, an enum with a variant for each.
macro_rules! type_of {
    ($value:expr) => {
        $crate::value::type_of!($value; U8 I8 U16 I16 U32 I32 F32 Bool String Array U64 I64 F64)
    };
    ($value:expr; $($kind:ident)*) => {
        match $value {
            $(Self::$kind(_) => $crate::ValueType::$kind,)*
        }
    };
}
pub(crate) use type_of;

impl ValueType {
    /// All types, by id.
    pub const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The type with this id.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// Its id in files.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Bytes of a value of this type, or `None` for strings and arrays.
    pub const fn size(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    /// The minimum number of bytes of a value of this type: a string its length, an array its type and length.
    pub(crate) fn least(self) -> u64 {
        match (self, self.size()) {
            (_, Some(size)) => size as u64,
            (Self::Array, None) => 12,
            (_, None) => 8,
        }
    }

    /// Its name in messages: `u32`, `string`, `array`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A metadata value, borrowed from the header.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(&'a str),
    Array(ArrayView<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        type_of!(self)
    }

    /// Any integer that fits; not floats, not booleans.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::U8(value) => Some(value.into()),
            Self::I8(value) => Some(value.into()),
            Self::U16(value) => Some(value.into()),
            Self::I16(value) => Some(value.into()),
            Self::U32(value) => Some(value.into()),
            Self::I32(value) => Some(value.into()),
            Self::U64(value) => i64::try_from(value).ok(),
            Self::I64(value) => Some(value),
            _ => None,
        }
    }

    /// Any integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U64(value) => Some(value),
            _ => u64::try_from(self.as_i64()?).ok(),
        }
    }

    /// Any number as f64 (f32 exactly, 64-bit integers rounded); not booleans.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(value) => Some(value.into()),
            Self::F64(value) => Some(value),
            Self::U64(value) => Some(value as f64),
            _ => Some(self.as_i64()? as f64),
        }
    }

    /// A boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A string.
    pub fn as_str(&self) -> Option<&'a str> {
        match *self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }

    /// An array.
    pub fn as_array(&self) -> Option<ArrayView<'a>> {
        match *self {
            Self::Array(value) => Some(value),
            _ => None,
        }
    }

    /// The value of this type at the cursor; `None` if the bytes do not contain one (never after [`check`]).
    pub(crate) fn decode(kind: ValueType, cursor: &mut Cursor<'a>) -> Option<Self> {
        Some(match kind {
            ValueType::U8 => Self::U8(u8::from_le_bytes(cursor.array().ok()?)),
            ValueType::I8 => Self::I8(i8::from_le_bytes(cursor.array().ok()?)),
            ValueType::U16 => Self::U16(u16::from_le_bytes(cursor.array().ok()?)),
            ValueType::I16 => Self::I16(i16::from_le_bytes(cursor.array().ok()?)),
            ValueType::U32 => Self::U32(u32::from_le_bytes(cursor.array().ok()?)),
            ValueType::I32 => Self::I32(i32::from_le_bytes(cursor.array().ok()?)),
            ValueType::F32 => Self::F32(f32::from_le_bytes(cursor.array().ok()?)),
            ValueType::Bool => Self::Bool(cursor.array::<1>().ok()? != [0]),
            ValueType::String => Self::String(std::str::from_utf8(cursor.string().ok()?).ok()?),
            ValueType::Array => Self::Array(ArrayView::decode(cursor)?),
            ValueType::U64 => Self::U64(u64::from_le_bytes(cursor.array().ok()?)),
            ValueType::I64 => Self::I64(i64::from_le_bytes(cursor.array().ok()?)),
            ValueType::F64 => Self::F64(f64::from_le_bytes(cursor.array().ok()?)),
        })
    }
}

/// What is wrong with a value.
pub(crate) enum ValueFault {
    Short(Short),
    Wrong(String),
}

impl From<Short> for ValueFault {
    fn from(short: Short) -> Self {
        Self::Short(short)
    }
}

impl ValueFault {
    /// The fault with the key named by `key` (quoted) that begins at `at`.
    pub(crate) fn of_key(self, at: u64, key: impl Fn() -> String) -> CursorFault {
        match self {
            Self::Short(short) => short.during(|| format!("the value of metadata key {}", key())),
            Self::Wrong(problem) => CursorFault::Bad(crate::GgufErrorKind::Key { key: key(), at, problem }),
        }
    }
}

/// Reads a type id.
pub(crate) fn read_type(cursor: &mut Cursor<'_>) -> Result<ValueType, ValueFault> {
    let id = cursor.u32()?;
    ValueType::from_id(id)
        .ok_or_else(|| ValueFault::Wrong(format!("unknown value type {id} (expected 0 to 12)")))
}

/// Moves past a value of this type and checks everything inside it; scalar strings must be UTF-8.
pub(crate) fn check(kind: ValueType, cursor: &mut Cursor<'_>) -> Result<(), ValueFault> {
    match (kind, kind.size()) {
        (ValueType::Bool, _) => check_bools(cursor.take(1)?),
        (_, Some(size)) => Ok(cursor.take(size as u64).map(drop)?),
        (ValueType::String, None) => match std::str::from_utf8(cursor.string()?) {
            Ok(_) => Ok(()),
            Err(bad) => Err(ValueFault::Wrong(format!(
                "the string is not UTF-8 (bad byte at {} of it)",
                bad.valid_up_to()
            ))),
        },
        (_, None) => check_array(cursor, 1),
    }
}

fn check_bools(bytes: &[u8]) -> Result<(), ValueFault> {
    match bytes.iter().find(|byte| **byte > 1) {
        Some(byte) => Err(ValueFault::Wrong(format!("expected 0 or 1 as a boolean, found {byte}"))),
        None => Ok(()),
    }
}

fn check_array(cursor: &mut Cursor<'_>, depth: usize) -> Result<(), ValueFault> {
    if depth > MAX_NESTING {
        return Err(ValueFault::Wrong(format!("arrays are nested deeper than {MAX_NESTING}")));
    }
    let kind = read_type(cursor)?;
    let count = cursor.u64()?;
    cursor.room(count, kind.least())?;
    match (kind, kind.size()) {
        (_, Some(size)) => {
            let bytes = cursor.take(count.saturating_mul(size as u64))?;
            if kind == ValueType::Bool { check_bools(bytes) } else { Ok(()) }
        }
        (ValueType::String, None) => {
            for _ in 0..count {
                cursor.string()?;
            }
            Ok(())
        }
        (_, None) => {
            for _ in 0..count {
                check_array(cursor, depth + 1)?;
            }
            Ok(())
        }
    }
}

/// Moves past an array that was checked before; `None` if it was not.
pub(crate) fn skip_array(cursor: &mut Cursor<'_>) -> Option<()> {
    check_array(cursor, 1).ok()
}
