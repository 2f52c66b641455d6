//! Arrays of metadata, read in place: no allocation per element.

use std::fmt;
use std::iter::FusedIterator;

use crate::cursor::Cursor;
use crate::value::{self, Value, ValueType};

/// A metadata array, borrowed from the header; all elements have one type.
#[derive(Clone, Copy)]
pub struct ArrayView<'a> {
    kind: ValueType,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> ArrayView<'a> {
    /// Reads the array at the cursor and moves past it.
    pub(crate) fn decode(cursor: &mut Cursor<'a>) -> Option<Self> {
        let mut past = *cursor;
        value::skip_array(&mut past)?;
        let bytes = cursor.take(u64::try_from(past.position() - cursor.position()).ok()?).ok()?;
        let mut inside = Cursor::at(bytes, 0);
        let kind = ValueType::from_id(inside.u32().ok()?)?;
        let len = usize::try_from(inside.u64().ok()?).ok()?;
        Some(Self { kind, len, bytes: bytes.get(inside.position()..)? })
    }

    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        self.kind
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements as stored: packed little-endian numbers, or length-prefixed strings or arrays.
    pub fn raw(&self) -> &'a [u8] {
        self.bytes
    }

    /// The strings as text; `None` if the elements are not strings or one of them is not UTF-8
    /// ([`Self::byte_strings`] returns their bytes, [`Self::first_invalid_string`] the index of the first).
    pub fn strings(&self) -> Option<impl Iterator<Item = &'a str> + Clone + use<'a>> {
        if self.first_invalid_string().is_some() {
            return None;
        }
        Some(self.byte_strings()?.map(|bytes| std::str::from_utf8(bytes).unwrap_or_default()))
    }

    /// The strings as bytes, UTF-8 or not; `None` if the elements are not strings.
    pub fn byte_strings(&self) -> Option<impl Iterator<Item = &'a [u8]> + Clone + use<'a>> {
        let items = Items { cursor: Cursor::at(self.bytes, 0), left: self.len };
        (self.kind == ValueType::String).then_some(ByteStrings(items))
    }

    /// The index of the first string that is not UTF-8.
    pub fn first_invalid_string(&self) -> Option<usize> {
        self.byte_strings()?.position(|bytes| std::str::from_utf8(bytes).is_err())
    }

    /// The elements as f64 (64-bit integers rounded); `None` if they are not numbers.
    pub fn numbers(&self) -> Option<impl Iterator<Item = f64> + Clone + use<'a>> {
        let number = self.is_integer() || matches!(self.kind, ValueType::F32 | ValueType::F64);
        number.then(|| self.values().map(|value| value.as_f64().unwrap_or(f64::NAN)))
    }

    /// The elements as i64; `None` if they are not integers or one is above `i64::MAX`.
    pub fn integers(&self) -> Option<impl Iterator<Item = i64> + Clone + use<'a>> {
        let fits = self.is_integer()
            && (self.kind != ValueType::U64 || self.values().all(|value| value.as_i64().is_some()));
        fits.then(|| self.values().map(|value| value.as_i64().unwrap_or_default()))
    }

    /// The inner arrays; `None` if the elements are not arrays.
    pub fn arrays(&self) -> Option<impl Iterator<Item = ArrayView<'a>> + Clone + use<'a>> {
        (self.kind == ValueType::Array).then(|| self.values().filter_map(|value| value.as_array()))
    }

    /// The elements one by one; ends early at a string that is not UTF-8 (see [`Self::strings`]).
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + Clone + use<'a> {
        Values { kind: self.kind, items: Items { cursor: Cursor::at(self.bytes, 0), left: self.len } }
    }

    fn is_integer(&self) -> bool {
        !matches!(
            self.kind,
            ValueType::F32 | ValueType::F64 | ValueType::Bool | ValueType::String | ValueType::Array
        )
    }
}

impl PartialEq for ArrayView<'_> {
    /// Equal type, length and bytes; NaNs with equal bits are equal.
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.len == other.len && self.bytes == other.bytes
    }
}

impl fmt::Debug for ArrayView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}; {}]", self.kind, self.len)
    }
}

/// The position of an iterator in the elements.
#[derive(Clone)]
struct Items<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl Items<'_> {
    fn advance(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}

#[derive(Clone)]
struct ByteStrings<'a>(Items<'a>);

impl<'a> Iterator for ByteStrings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.advance()?;
        self.0.cursor.string().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.left, Some(self.0.left))
    }
}

impl FusedIterator for ByteStrings<'_> {}

#[derive(Clone)]
struct Values<'a> {
    kind: ValueType,
    items: Items<'a>,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.items.advance()?;
        let value = Value::decode(self.kind, &mut self.items.cursor);
        if value.is_none() {
            self.items.left = 0;
        }
        value
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.items.left))
    }
}

impl FusedIterator for Values<'_> {}
