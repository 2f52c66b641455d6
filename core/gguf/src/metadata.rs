//! The metadata of a file: keys in file order, values decoded in place.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::{GgufErrorKind, quoted};
use crate::header::GgufHeader;
use crate::storage::HeaderBytes;
use crate::value::{self, Value, ValueType};

/// Keys and values of a file, in file order. Needs 20 bytes per key in addition to the header.
#[derive(Debug, Clone)]
pub struct Metadata {
    header: Arc<HeaderBytes>,
    entries: Arc<[MetadataEntry]>,
    by_key: Arc<[u32]>,
}

#[derive(Debug, Clone, Copy)]
struct MetadataEntry {
    key_at: u64,
    key_len: u16,
    kind: ValueType,
}

impl Metadata {
    /// The entries of a header that [`GgufHeader::scan`] found complete; an error for a duplicate key.
    pub(crate) fn build(header: Arc<HeaderBytes>, shape: &GgufHeader) -> Result<Self, GgufErrorKind> {
        let entries = read_entries(header.bytes(), shape)?;
        let mut by_key: Arc<[u32]> = (0..entries.len() as u32).collect();
        let bytes = header.bytes();
        let key = |index: &u32| entries.get(*index as usize).map(|entry| entry.key(bytes));
        if let Some(order) = Arc::get_mut(&mut by_key) {
            order.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then(a.cmp(b)));
        }
        for pair in by_key.windows(2) {
            if let [first, second] = pair
                && key(first) == key(second)
                && let (Some(first), Some(second)) =
                    (entries.get(*first as usize), entries.get(*second as usize))
            {
                return Err(GgufErrorKind::Key {
                    key: quoted(second.key(bytes).as_bytes()),
                    at: second.key_at,
                    problem: format!(
                        "duplicate key (first at byte {}): it is unknown which value applies",
                        first.key_at
                    ),
                });
            }
        }
        Ok(Self { header, entries, by_key })
    }

    fn decode(&self, entry: &MetadataEntry) -> Option<Value<'_>> {
        let at = usize::try_from(entry.key_at).ok()?;
        let mut cursor = Cursor::at(self.header.bytes(), at);
        cursor.string().ok()?;
        cursor.u32().ok()?;
        Value::decode(entry.kind, &mut cursor)
    }

    fn find(&self, key: &str) -> Option<&MetadataEntry> {
        let bytes = self.header.bytes();
        let of = |index: &u32| self.entries.get(*index as usize).map(|entry| entry.key(bytes));
        let at = self.by_key.binary_search_by(|index| of(index).cmp(&Some(key))).ok()?;
        self.entries.get(*self.by_key.get(at)? as usize)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.decode(self.find(key)?)
    }

    /// Whether the key exists.
    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        let bytes = self.header.bytes();
        self.entries.iter().filter_map(move |entry| Some((entry.key(bytes), self.decode(entry)?)))
    }

    /// Keys in file order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let bytes = self.header.bytes();
        self.entries.iter().map(move |entry| entry.key(bytes))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl MetadataEntry {
    /// The key; checked to be UTF-8 by the scan.
    fn key<'a>(&self, header: &'a [u8]) -> &'a str {
        let start = usize::try_from(self.key_at).unwrap_or(usize::MAX).saturating_add(8);
        let bytes = header.get(start..start.saturating_add(self.key_len.into())).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

fn read_entries(bytes: &[u8], shape: &GgufHeader) -> Result<Arc<[MetadataEntry]>, GgufErrorKind> {
    let unread = || GgufErrorKind::Malformed {
        at: shape.keys_at as u64,
        problem: "the metadata changed while it was read".into(),
    };
    let mut cursor = Cursor::at(bytes, shape.keys_at);
    // An exact size hint lets the list be built in one allocation.
    let entries: Arc<[MetadataEntry]> = (0..shape.keys)
        .map(|_| {
            read_entry(&mut cursor).unwrap_or(MetadataEntry { key_at: 0, key_len: 0, kind: ValueType::U8 })
        })
        .collect();
    if cursor.position() != shape.tensors_at { Err(unread()) } else { Ok(entries) }
}

fn read_entry(cursor: &mut Cursor<'_>) -> Option<MetadataEntry> {
    let key_at = cursor.position() as u64;
    let key_len = u16::try_from(cursor.string().ok()?.len()).ok()?;
    let kind = value::read_type(cursor).ok()?;
    value::check(kind, cursor).ok()?;
    Some(MetadataEntry { key_at, key_len, kind })
}
