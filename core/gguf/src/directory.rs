//! The tensor directory: its entries are read, and checked against the file and against each other.

use crate::GgmlType;
use crate::cursor::Cursor;
use crate::error::{GgufErrorKind, quoted};
use crate::header::{GgufHeader, MAX_DIMS};
use crate::tensor::TensorInfo;

/// Reads the tensors of one part into `out`, which has capacity for them. The header was scanned; `len` is the part's
/// length in bytes.
///
/// # Errors
/// Impossible dimensions, split blocks, misplaced, overlapping or missing bytes.
pub(crate) fn read(
    header: &[u8],
    shape: &GgufHeader,
    part: u16,
    len: u64,
    out: &mut Vec<TensorInfo>,
) -> Result<(), GgufErrorKind> {
    let first = out.len();
    let mut cursor = Cursor::at(header, shape.tensors_at);
    let data_at = shape.data_at();
    for _ in 0..shape.tensors {
        let (tensor, relative) = read_entry(&mut cursor, part).ok_or_else(|| GgufErrorKind::Malformed {
            at: cursor.position() as u64,
            problem: "the tensor directory changed while it was read".into(),
        })?;
        out.push(sized(tensor, relative, shape.alignment, data_at)?);
    }
    let ours = out.get(first..).unwrap_or_default();
    check_ends(ours, len)?;
    check_overlaps(ours)
}

/// One entry, with the offset relative to the tensor data; the size is not known yet.
fn read_entry(cursor: &mut Cursor<'_>, part: u16) -> Option<(TensorInfo, u64)> {
    let name = std::str::from_utf8(cursor.string().ok()?).ok()?;
    let rank = u8::try_from(cursor.u32().ok()?).ok()?;
    let mut dims = [1; MAX_DIMS as usize];
    for dim in dims.get_mut(..rank.into())? {
        *dim = cursor.u64().ok()?;
    }
    let kind = GgmlType::from_id(cursor.u32().ok()?);
    let relative = cursor.u64().ok()?;
    Some((TensorInfo { name: name.into(), dims, offset: 0, bytes: 0, kind, part, rank }, relative))
}

/// The tensor with its offset in the file and its size in bytes.
fn sized(
    mut tensor: TensorInfo,
    relative: u64,
    alignment: u64,
    data_at: Option<u64>,
) -> Result<TensorInfo, GgufErrorKind> {
    let wrong = |problem: String| GgufErrorKind::tensor(&tensor.name, problem);
    tensor.bytes = byte_count(tensor.dims(), tensor.kind).map_err(wrong)?;
    if !relative.is_multiple_of(alignment) {
        return Err(wrong(format!("its offset {relative} is not a multiple of the alignment {alignment}")));
    }
    let offset = data_at.and_then(|data_at| data_at.checked_add(relative));
    tensor.offset = offset.ok_or_else(|| wrong(format!("its offset {relative} does not fit 64 bits")))?;
    if tensor.offset.checked_add(tensor.bytes).is_none() {
        return Err(wrong(format!("its end ({relative} + {} bytes) does not fit 64 bits", tensor.bytes)));
    }
    Ok(tensor)
}

/// Bytes of a tensor; 0 if the size of the type is unknown. The error says what is wrong with the dimensions.
pub(crate) fn byte_count(dims: &[u64], kind: GgmlType) -> Result<u64, String> {
    if let Some(at) = dims.iter().position(|dim| *dim == 0) {
        return Err(format!("dimension {at} of {} is 0", shown(dims)));
    }
    let elements = dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
    let elements = elements.filter(|elements| *elements <= i64::MAX as u64);
    let elements = elements.ok_or_else(|| format!("its dimensions {} overflow 64 bits", shown(dims)))?;
    let Some(block) = kind.block_len() else { return Ok(0) };
    let width = dims.first().copied().unwrap_or(1);
    if !width.is_multiple_of(block as u64) {
        return Err(format!("rows of {width} elements cut the blocks of {block} of type {kind}"));
    }
    kind.row_bytes(elements)
        .ok_or_else(|| format!("its dimensions {} overflow 64 bits in bytes", shown(dims)))
}

fn shown(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    dims.join(" x ")
}

/// The end of a tensor's bytes; a tensor of unknown size has at least one byte.
fn end(tensor: &TensorInfo) -> u64 {
    tensor.offset.saturating_add(tensor.bytes.max(1))
}

fn check_ends(tensors: &[TensorInfo], len: u64) -> Result<(), GgufErrorKind> {
    let Some(beyond) = tensors.iter().find(|tensor| end(tensor) > len) else { return Ok(()) };
    let needed = tensors.iter().map(end).max().unwrap_or(len);
    let count = tensors.iter().filter(|tensor| end(tensor) > len).count();
    Err(GgufErrorKind::tensor(
        &beyond.name,
        format!(
            "its data (bytes {} to {}) ends after the end of the file, which has {len} bytes; {count} of {} tensors do, \
             {} bytes are missing: the file is truncated or damaged, download it again",
            beyond.offset,
            end(beyond),
            tensors.len(),
            needed - len,
        ),
    ))
}

fn check_overlaps(tensors: &[TensorInfo]) -> Result<(), GgufErrorKind> {
    let at = |index: &u32| tensors.get(*index as usize);
    let mut order: Vec<u32> = Vec::with_capacity(tensors.len());
    order.extend(0..tensors.len() as u32);
    order.sort_unstable_by_key(|index| (at(index).map(|tensor| tensor.offset), *index));
    for pair in order.windows(2) {
        if let [first, second] = pair
            && let (Some(first), Some(second)) = (at(first), at(second))
            && end(first) > second.offset
        {
            return Err(GgufErrorKind::tensor(
                &second.name,
                format!(
                    "its data (from byte {}) overlaps that of tensor {} (bytes {} to {}); the file is damaged",
                    second.offset,
                    quoted(first.name.as_bytes()),
                    first.offset,
                    end(first),
                ),
            ));
        }
    }
    Ok(())
}

/// Tensor indices ordered by name; an error for a duplicate name.
pub(crate) fn index(tensors: &[TensorInfo]) -> Result<Vec<u32>, GgufErrorKind> {
    let name = |index: &u32| tensors.get(*index as usize).map(TensorInfo::name);
    let mut order: Vec<u32> = Vec::with_capacity(tensors.len());
    order.extend(0..tensors.len() as u32);
    order.sort_unstable_by(|a, b| name(a).cmp(&name(b)).then(a.cmp(b)));
    for pair in order.windows(2) {
        if let [first, second] = pair
            && name(first) == name(second)
        {
            let place =
                |index: &u32| tensors.get(*index as usize).map_or((0, 0), |it| (it.part(), it.offset));
            let ((part, at), (other_part, other_at)) = (place(first), place(second));
            let problem = match part == other_part {
                true => format!("duplicate tensor (data at bytes {at} and {other_at})"),
                false => format!("duplicate tensor (in parts {} and {})", part + 1, other_part + 1),
            };
            return Err(GgufErrorKind::tensor(name(first).unwrap_or_default(), problem));
        }
    }
    Ok(order)
}
