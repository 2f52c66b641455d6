//! The header: read without trust, then compared with the file.

use super::SafetensorsTensor;
use super::dtype::Dtype;
use super::error::{Kind, shortened};
use gguf_file::MappedFile;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum size of a header in bytes (the limit of the format's own reader).
const MOST_HEADER: u64 = 100_000_000;

/// Maximum number of dimensions of a tensor.
const MOST_DIMS: usize = 8;

/// The bytes before the header, which contain its length.
const LENGTH: u64 = 8;

const METADATA: &str = "__metadata__";

/// The contents of a header.
#[derive(Debug, Default)]
pub(super) struct SafetensorsHeader {
    /// Ordered by offset.
    pub(super) tensors: Vec<SafetensorsTensor>,
    /// Strings about the file.
    pub(super) metadata: BTreeMap<String, String>,
}

/// Reads the header of a file and compares it with the file's length.
pub(super) fn read(file: &MappedFile) -> Result<SafetensorsHeader, Kind> {
    let total = file.bytes();
    let head = file.copied(0..total.min(64) as usize).unwrap_or_default();
    let Some(length) = head.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)) else {
        return Err(Kind::Truncated {
            what: "the length of the header".into(),
            needed: LENGTH,
            found: total,
        });
    };
    recognize(&head, length)?;
    let data_at = LENGTH + length;
    if data_at > total {
        return Err(Kind::Truncated { what: "the header".into(), needed: data_at, found: total });
    }
    let json = file.copied(LENGTH as usize..data_at as usize).unwrap_or_default();
    let mut found = parse(&json)?;
    found.tensors.sort_by(|a, b| (a.offset, a.bytes, &a.name).cmp(&(b.offset, b.bytes, &b.name)));
    let end = check_order(&found.tensors)?;
    let needed = data_at.saturating_add(end);
    if needed > total {
        let what = format!("the data of its {} tensors", found.tensors.len());
        return Err(Kind::Truncated { what, needed, found: total });
    }
    if needed < total {
        return Err(Kind::header(format!(
            "its tensors end at byte {needed} and the file has {total} bytes; download the file again"
        )));
    }
    found.tensors.iter_mut().for_each(|tensor| tensor.offset += data_at);
    Ok(found)
}

/// Recognizes other formats by their first bytes.
fn recognize(head: &[u8], length: u64) -> Result<(), Kind> {
    const KNOWN: [(&[u8], &str, &str); 5] = [
        (b"GGUF", "a GGUF file", "rename it to end in .gguf"),
        (
            b"PK\x03\x04",
            "a zip archive (a PyTorch checkpoint, perhaps)",
            "get the model's .safetensors files",
        ),
        (
            b"version https://git-lfs",
            "a git-lfs pointer",
            "run 'git lfs pull' in that repository, or download the file itself",
        ),
        (b"<", "a web page or an error message", "download the file again"),
        (
            b"\x80\x02",
            "a Python pickle (a PyTorch checkpoint, perhaps)",
            "get the model's .safetensors files",
        ),
    ];
    if let Some((_, found, advice)) = KNOWN.iter().find(|(start, _, _)| head.starts_with(start))
        && head.get(8) != Some(&b'{')
    {
        return Err(Kind::Foreign { found: (*found).to_owned(), advice });
    }
    if length > MOST_HEADER {
        return Err(Kind::header(format!(
            "the header has {length} bytes; at most {MOST_HEADER} are supported: the file is not in safetensors format, or is damaged"
        )));
    }
    if head.get(8).is_some_and(|byte| *byte != b'{') || length < 2 {
        return Err(Kind::header(
            "the header does not begin with '{': the file is not in safetensors format, or is damaged",
        ));
    }
    Ok(())
}

/// Checks that tensors follow each other without overlaps and gaps; returns the end of the last one.
fn check_order(tensors: &[SafetensorsTensor]) -> Result<u64, Kind> {
    let mut end = 0;
    let mut before = "";
    for tensor in tensors {
        if tensor.offset < end {
            return Err(Kind::tensor(
                &tensor.name,
                format!(
                    "its data begins at {} and overlaps that of '{}', which ends at {end}; the file is damaged",
                    tensor.offset,
                    shortened(before)
                ),
            ));
        }
        if tensor.offset > end {
            let hole = tensor.offset - end;
            return Err(Kind::tensor(
                &tensor.name,
                format!("there is a gap of {hole} bytes before its data; the file is damaged"),
            ));
        }
        end = tensor.offset.saturating_add(tensor.bytes);
        before = &tensor.name;
    }
    Ok(end)
}

/// Indices of tensors, ordered by name; an error for a duplicate name.
pub(super) fn by_name(tensors: &[SafetensorsTensor]) -> Result<Vec<u32>, Kind> {
    let name = |index: &u32| tensors.get(*index as usize).map(SafetensorsTensor::name);
    let mut order: Vec<u32> = (0..tensors.len() as u32).collect();
    order.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
    let twice = order.windows(2).find(|pair| name(&pair[0]) == name(&pair[1]));
    match twice {
        Some(pair) => {
            let name = name(&pair[0]).unwrap_or_default();
            Err(Kind::tensor(name, "duplicate name in the header; the file is damaged"))
        }
        None => Ok(order),
    }
}

fn parse(json: &[u8]) -> Result<SafetensorsHeader, Kind> {
    let mut fault = None;
    let mut reader = serde_json::Deserializer::from_slice(json);
    let read =
        reader.deserialize_map(HeaderEntries(&mut fault)).and_then(|header| reader.end().map(|()| header));
    match (read, fault) {
        (Ok(header), None) => Ok(header),
        (_, Some(fault)) => Err(fault),
        (Err(error), None) => Err(Kind::header(format!("{error}; the file is damaged, download it again"))),
    }
}

/// The header's table; an error of a tensor is stored in the slot with its name.
struct HeaderEntries<'f>(&'f mut Option<Kind>);

impl<'de> Visitor<'de> for HeaderEntries<'_> {
    type Value = SafetensorsHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SafetensorsHeader, A::Error> {
        let mut header = SafetensorsHeader::default();
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                if !header.metadata.is_empty() {
                    return Err(A::Error::custom("duplicate __metadata__"));
                }
                header.metadata = map.next_value_seed(MetadataSeed)?;
                continue;
            }
            let entry = match map.next_value_seed(TensorSeed) {
                Ok(entry) => entry,
                Err(error) => {
                    *self.0 = Some(Kind::tensor(&name, format!("{error}; the file is damaged")));
                    return Err(error);
                }
            };
            match entry.tensor(&name) {
                Ok(tensor) => header.tensors.push(tensor),
                Err(problem) => {
                    *self.0 = Some(Kind::tensor(&name, problem));
                    return Err(A::Error::custom("a tensor is wrong"));
                }
            }
        }
        Ok(header)
    }
}

/// `__metadata__`: a table of strings.
struct MetadataSeed;

impl<'de> DeserializeSeed<'de> for MetadataSeed {
    type Value = BTreeMap<String, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MetadataSeed {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((name, text)) = map.next_entry::<String, String>()? {
            texts.insert(name, text);
        }
        Ok(texts)
    }
}

/// Deserializes the entry of one tensor.
struct TensorSeed;

/// The three fields as written.
struct TensorFields {
    dtype: String,
    shape: Vec<u64>,
    offsets: Vec<u64>,
}

impl TensorFields {
    /// The tensor; its offset is still relative to the end of the header.
    fn tensor(self, name: &str) -> Result<SafetensorsTensor, String> {
        let Self { dtype, shape, offsets } = self;
        let Some(dtype) = Dtype::from_name(&dtype) else {
            return Err(format!("unknown type '{}'; expected one of {}", shortened(&dtype), Dtype::names()));
        };
        let [from, to] = offsets[..] else {
            return Err(format!("expected two offsets, found {}; the file is damaged", offsets.len()));
        };
        let Some(bytes) = to.checked_sub(from) else {
            return Err(format!("it ends at {to}, before it begins at {from}; the file is damaged"));
        };
        let bits = shape.iter().try_fold(dtype.bits(), |product, dim| product.checked_mul(*dim));
        let Some(bits) = bits else { return Err(format!("its shape {shape:?} overflows 64 bits")) };
        if !bits.is_multiple_of(8) || bits / 8 != bytes {
            return Err(format!(
                "{dtype} {shape:?} takes {} bytes, but the header says {bytes}; the file is damaged",
                bits.div_ceil(8)
            ));
        }
        Ok(SafetensorsTensor { name: name.into(), shape: shape.into(), dtype, offset: from, bytes })
    }
}

impl<'de> DeserializeSeed<'de> for TensorSeed {
    type Value = TensorFields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TensorFields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TensorSeed {
    type Value = TensorFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TensorFields, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(field) = map.next_key::<String>()? {
            let twice = match &*field {
                "dtype" => dtype.replace(map.next_value::<String>()?).is_some(),
                "shape" => shape.replace(map.next_value_seed(NumberList(MOST_DIMS))?).is_some(),
                "data_offsets" => offsets.replace(map.next_value_seed(NumberList(2))?).is_some(),
                other => {
                    let other = shortened(other);
                    return Err(A::Error::custom(format!("unknown field '{other}'")));
                }
            };
            if twice {
                return Err(A::Error::custom(format!("duplicate {field}")));
            }
        }
        let missing = |field| A::Error::custom(format!("missing {field}"));
        Ok(TensorFields {
            dtype: dtype.ok_or_else(|| missing("dtype"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
            offsets: offsets.ok_or_else(|| missing("data_offsets"))?,
        })
    }
}

/// A list of at most this many integers.
struct NumberList(usize);

impl<'de> DeserializeSeed<'de> for NumberList {
    type Value = Vec<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u64>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NumberList {
    type Value = Vec<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} whole numbers", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u64>, A::Error> {
        let mut numbers = Vec::with_capacity(self.0);
        while let Some(number) = seq.next_element::<u64>()? {
            if numbers.len() == self.0 {
                return Err(A::Error::custom(format!("a list has more than {} numbers", self.0)));
            }
            numbers.push(number);
        }
        Ok(numbers)
    }
}
