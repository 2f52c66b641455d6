//! Layouts: conversion from the stored to the canonical tensor.

use super::loaded_tensor::LoadedTensor;
use gguf_file::GgmlType;
use menagerie_model::WeightBytes;
use menagerie_spec::Layout;
use std::ops::Range;
use std::sync::Arc;

/// Positions that RoBERTa reserves for padding.
const PADDING: usize = 2;

/// Side of the squares in which a matrix is transposed, so that reads and writes stay in the cache.
const SQUARE: usize = 32;

/// Heads of a block, for rows that are stored in groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadGroups {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) dim: usize,
    /// Experts of a block, or 0.
    pub(super) experts: usize,
    pub(super) delta: DeltaSizes,
}

/// Sizes of a gated delta net.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeltaSizes {
    /// Key heads.
    pub(super) keys: usize,
    /// Elements of a key head.
    pub(super) key: usize,
    /// Elements of all value heads.
    pub(super) values: usize,
}

/// Dimensions after layouts. Dimensions that a layout cannot be applied to stay unchanged; applying it fails later.
pub(super) fn shape_after(shape: &mut Vec<usize>, layout: &[Layout], group: Option<&HeadGroups>) {
    for layout in layout {
        let rank = shape.len();
        match layout {
            Layout::Transpose if rank > 1 => shape.swap(rank - 1, rank - 2),
            Layout::Squeeze => drop(squeezed(shape)),
            Layout::EvenRows | Layout::OddRows if rank > 1 => shape[rank - 2] /= 2,
            Layout::EvenRows | Layout::OddRows | Layout::EvenColumns | Layout::OddColumns if rank > 0 => {
                shape[rank - 1] /= 2;
            }
            Layout::WithoutPadding if rank > 1 => shape[0] = shape[0].saturating_sub(PADDING),
            Layout::SplitExperts => drop(split(shape, group)),
            Layout::DeltaQkv | Layout::DeltaGate if rank > 0 => {
                let gate = *layout == Layout::DeltaGate;
                shape[0] = group
                    .and_then(|group| group.delta.rows(shape[0], gate).ok())
                    .map_or(shape[0], |rows| rows.len());
            }
            Layout::GateOfQkv | Layout::QkvBehindGate if rank > 0 => {
                let gate = *layout == Layout::GateOfQkv;
                shape[0] = group
                    .and_then(|group| group.gated(shape[0], gate).ok())
                    .map_or(shape[0], |rows| rows.len());
            }
            _ => {}
        }
    }
}

/// Splits the rows of all experts.
fn split(shape: &mut Vec<usize>, group: Option<&HeadGroups>) -> Result<(), String> {
    let experts = group.map_or(0, |group| group.experts);
    let rows = shape.first().copied().unwrap_or(0);
    if experts == 0 || !rows.is_multiple_of(experts) {
        return Err(format!("{rows} rows are not those of {experts} experts"));
    }
    shape[0] = rows / experts;
    shape.insert(0, experts);
    Ok(())
}

/// Removes the second-to-last dimension, which has one element.
fn squeezed(shape: &mut Vec<usize>) -> Result<(), String> {
    let one = shape.len().checked_sub(2).filter(|at| *at > 0 && shape[*at] == 1);
    match one.or_else(|| shape.iter().position(|dim| *dim == 1)) {
        Some(at) => drop(shape.remove(at)),
        None => return Err(format!("shape {shape:?} has no dimension of one element to leave out")),
    }
    Ok(())
}

/// Applies layouts, left to right.
pub(super) fn apply(
    mut stored: LoadedTensor,
    layout: &[Layout],
    group: Option<&HeadGroups>,
) -> Result<LoadedTensor, String> {
    for layout in layout {
        stored = match layout {
            Layout::Transpose => transposed(&stored)?,
            Layout::Squeeze => {
                squeezed(&mut stored.shape)?;
                stored
            }
            Layout::NegativeExp => negative_exp(&stored)?,
            Layout::GroupedQkv => {
                let group = group.ok_or("the config does not state the number of heads")?;
                let rows = group.rows(stored.shape.first().copied().unwrap_or(0))?;
                picked(&stored, 0, &rows)?
            }
            Layout::EvenRows | Layout::OddRows => halved(&stored, 2, *layout == Layout::OddRows)?,
            Layout::EvenColumns | Layout::OddColumns => halved(&stored, 1, *layout == Layout::OddColumns)?,
            Layout::WithoutPadding => {
                let rows = stored.shape.first().copied().unwrap_or(0);
                picked(&stored, 0, &(PADDING..rows).collect::<Vec<_>>())?
            }
            Layout::SplitExperts => {
                split(&mut stored.shape, group)?;
                stored
            }
            Layout::DeltaQkv | Layout::DeltaGate => {
                let group = group.ok_or("the config does not state the number of heads")?;
                let rows = stored.shape.first().copied().unwrap_or(0);
                picked(&stored, 0, &group.delta.rows(rows, *layout == Layout::DeltaGate)?)?
            }
            Layout::GateOfQkv | Layout::QkvBehindGate => {
                let group = group.ok_or("the config does not state the number of heads")?;
                let rows = stored.shape.first().copied().unwrap_or(0);
                ranged(stored, group.gated(rows, *layout == Layout::GateOfQkv)?)?
            }
            Layout::Mxfp4 => {
                return Err("layout mxfp4 comes first and is of tensors _blocks and _scales".to_owned());
            }
        };
    }
    Ok(stored)
}

/// The stored index of each canonical element, or `None` if no element moves. It is found by applying the layouts to the
/// indices.
pub(super) fn numbers(
    shape: Vec<usize>,
    layout: &[Layout],
    group: Option<&HeadGroups>,
) -> Result<Option<Vec<u32>>, String> {
    if layout.iter().all(|layout| matches!(layout, Layout::Squeeze | Layout::SplitExperts)) {
        return Ok(None);
    }
    if layout.contains(&Layout::NegativeExp) {
        return Err("it is -exp of what is stored".to_owned());
    }
    let count: usize = shape.iter().product();
    let count = u32::try_from(count)
        .map_err(|_| format!("a layout supports fewer than 2^32 numbers, found {count}"))?;
    let places: Vec<u8> = (0..count).flat_map(u32::to_le_bytes).collect();
    let places = LoadedTensor { shape, block: GgmlType::I32, bytes: WeightBytes::Owned(Arc::new(places)) };
    let laid = apply(places, layout, group)?;
    let place = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok(Some(laid.all().chunks_exact(4).map(place).collect()))
}

impl DeltaSizes {
    /// The stored row of each canonical row. Stored: for each key head its query, key, values and gates. Canonical: all
    /// queries, keys and values, or all gates.
    fn rows(&self, rows: usize, gate: bool) -> Result<Vec<usize>, String> {
        let Self { keys, key, values } = *self;
        let fits = keys > 0 && values.is_multiple_of(keys) && rows == 2 * (keys * key + values);
        if !fits {
            return Err(format!(
                "{rows} rows are not those of {keys} key heads of {key} and of {values} values with their gates"
            ));
        }
        let own = values / keys;
        let part = move |head: usize, start: usize, count: usize| {
            let first = head * 2 * (key + own) + start;
            first..first + count
        };
        let all = move |start, count| (0..keys).flat_map(move |head| part(head, start, count));
        Ok(match gate {
            true => all(2 * key + own, own).collect(),
            false => all(0, key).chain(all(key, key)).chain(all(2 * key, own)).collect(),
        })
    }
}

impl HeadGroups {
    /// The rows of the gate, which come first; their number equals that of the queries, or of queries, keys and values.
    fn gated(&self, rows: usize, gate: bool) -> Result<Range<usize>, String> {
        let Self { heads, kv_heads, dim, .. } = *self;
        if heads == 0 || rows != 2 * (heads + kv_heads) * dim {
            return Err(format!(
                "{rows} rows are not those of gates and queries of {heads} heads of {dim} and of {kv_heads} key-value heads"
            ));
        }
        Ok(if gate { 0..heads * dim } else { heads * dim..rows })
    }

    /// The stored row of each canonical row. Stored: for each key-value head its queries, key and value. Canonical: all
    /// queries, all keys, all values.
    fn rows(&self, rows: usize) -> Result<Vec<usize>, String> {
        let Self { heads, kv_heads, dim, .. } = *self;
        let fits = kv_heads > 0 && heads.is_multiple_of(kv_heads) && rows == (heads + 2 * kv_heads) * dim;
        if !fits {
            return Err(format!(
                "{rows} rows are not those of {heads} heads and {kv_heads} key-value heads of {dim}, with their values"
            ));
        }
        let queries = heads / kv_heads;
        let head = |group: usize, member: usize| {
            let start = (group * (queries + 2) + member) * dim;
            start..start + dim
        };
        let all_queries =
            (0..kv_heads).flat_map(|group| (0..queries).flat_map(move |member| head(group, member)));
        let all = |member: usize| (0..kv_heads).flat_map(move |group| head(group, member));
        Ok(all_queries.chain(all(queries)).chain(all(queries + 1)).collect())
    }
}

/// The given rows of a tensor, without a copy if it is mapped.
fn ranged(stored: LoadedTensor, range: Range<usize>) -> Result<LoadedTensor, String> {
    let LoadedTensor { mut shape, block, bytes } = stored;
    let all = shape.first().copied().unwrap_or(0);
    let row = bytes.as_slice().len().checked_div(all).unwrap_or(0);
    let within = range.start * row..range.end * row;
    let bytes = match bytes {
        WeightBytes::Mapped(bytes) => bytes.slice(within).map(WeightBytes::Mapped),
        WeightBytes::Owned(bytes) => {
            bytes.get(within).map(|bytes| WeightBytes::Owned(Arc::new(bytes.to_vec())))
        }
    };
    let bytes = bytes.ok_or_else(|| format!("rows {range:?} are outside its {all} rows"))?;
    if let Some(first) = shape.first_mut() {
        *first = range.len();
    }
    Ok(LoadedTensor { shape, block, bytes })
}

fn transposed(stored: &LoadedTensor) -> Result<LoadedTensor, String> {
    let mut shape = stored.shape.clone();
    let rank = shape.len();
    let (Some(width), true) = (width(stored.block), rank > 1) else {
        return Err(format!("{} {shape:?} cannot be transposed", stored.block));
    };
    let (rows, cols) = (shape[rank - 2], shape[rank - 1]);
    shape.swap(rank - 1, rank - 2);
    let from = stored.all();
    let mut to = vec![0; from.len()];
    let matrix = (rows * cols * width).max(1);
    for (to, from) in to.chunks_exact_mut(matrix).zip(from.chunks_exact(matrix)) {
        for (first_row, first_col) in squares(rows, cols) {
            for row in first_row..(first_row + SQUARE).min(rows) {
                for col in first_col..(first_col + SQUARE).min(cols) {
                    let (at, into) = ((row * cols + col) * width, (col * rows + row) * width);
                    to[into..into + width].copy_from_slice(&from[at..at + width]);
                }
            }
        }
    }
    Ok(LoadedTensor { shape, block: stored.block, bytes: WeightBytes::Owned(Arc::new(to)) })
}

fn squares(rows: usize, cols: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).step_by(SQUARE).flat_map(move |row| (0..cols).step_by(SQUARE).map(move |col| (row, col)))
}

/// Bytes of an element, for types without blocks.
fn width(block: GgmlType) -> Option<usize> {
    block.block_bytes().filter(|_| block.block_len() == Some(1))
}

/// `-exp(x)`, in f32.
fn negative_exp(stored: &LoadedTensor) -> Result<LoadedTensor, String> {
    let bytes = stored.all();
    let half = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
    let values: Vec<f32> = match stored.block {
        GgmlType::F32 => {
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        }
        GgmlType::BF16 => bytes.chunks_exact(2).map(|b| f32::from_bits(u32::from(half(b)) << 16)).collect(),
        GgmlType::F16 => bytes.chunks_exact(2).map(|b| super::floats::from_f16(half(b))).collect(),
        other => return Err(format!("{other}: -exp(x) is of plain floats")),
    };
    let values: Vec<f32> = values.into_iter().map(|value| -libm::expf(value)).collect();
    Ok(LoadedTensor::of_values(stored.shape.clone(), &values))
}

/// Every other row (second-to-last dimension), column (last dimension), or element of a vector.
fn halved(stored: &LoadedTensor, from_end: usize, odd: bool) -> Result<LoadedTensor, String> {
    let rank = stored.shape.len();
    let axis = rank.saturating_sub(from_end.min(rank.max(1)));
    let count = stored.shape.get(axis).copied().unwrap_or(0);
    if !count.is_multiple_of(2) {
        return Err(format!("{:?}: {count} rows or columns are not pairs", stored.shape));
    }
    let picks: Vec<usize> = (0..count / 2).map(|at| 2 * at + usize::from(odd)).collect();
    picked(stored, axis, &picks)
}

/// Selected members of a dimension, in the given order.
fn picked(stored: &LoadedTensor, axis: usize, picks: &[usize]) -> Result<LoadedTensor, String> {
    let mut shape = stored.shape.clone();
    let rank = shape.len();
    let inside: usize = shape.iter().skip(axis + 1).product();
    // Whole rows, which may consist of blocks; else the bytes of elements.
    let unit = if axis + 1 < rank {
        let row = stored.row_bytes()?;
        row * (inside / shape.last().copied().unwrap_or(1).max(1))
    } else {
        width(stored.block).ok_or_else(|| format!("columns of {} cannot be picked", stored.block))?
    };
    let from = stored.all();
    let whole = (unit * shape[axis]).max(1);
    let mut to = Vec::with_capacity(from.len() / shape[axis].max(1) * picks.len());
    for from in from.chunks_exact(whole) {
        for pick in picks {
            let part = from.get(pick * unit..(pick + 1) * unit);
            to.extend_from_slice(part.ok_or_else(|| format!("{shape:?} has no member {pick}"))?);
        }
    }
    shape[axis] = picks.len();
    Ok(LoadedTensor { shape, block: stored.block, bytes: WeightBytes::Owned(Arc::new(to)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: HeadGroups = HeadGroups {
        heads: 2,
        kv_heads: 1,
        dim: 1,
        experts: 2,
        delta: DeltaSizes { keys: 2, key: 1, values: 4 },
    };

    fn of(shape: &[usize]) -> LoadedTensor {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
        LoadedTensor::of_values(shape.to_vec(), &values)
    }

    fn read(stored: &LoadedTensor) -> Vec<f32> {
        stored.all().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn after(shape: &[usize], layout: &[Layout]) -> (Vec<usize>, Vec<f32>) {
        let stored = apply(of(shape), layout, Some(&GROUPS)).unwrap();
        let mut foretold = shape.to_vec();
        shape_after(&mut foretold, layout, Some(&GROUPS));
        assert_eq!(foretold, stored.shape, "what is said before is what it becomes");
        (stored.shape.clone(), read(&stored))
    }

    #[test]
    fn layouts_move_what_they_say() {
        assert_eq!(after(&[2, 3], &[Layout::Transpose]), (vec![3, 2], vec![0., 3., 1., 4., 2., 5.]));
        assert_eq!(after(&[2, 1, 2], &[Layout::Transpose]).1, [0., 1., 2., 3.]);
        assert_eq!(after(&[2, 1, 3], &[Layout::Squeeze]).0, [2, 3]);
        assert_eq!(after(&[1, 3], &[Layout::Squeeze]).0, [3]);
        assert_eq!(after(&[4, 2], &[Layout::EvenRows]).1, [0., 1., 4., 5.]);
        assert_eq!(after(&[4, 2], &[Layout::OddRows]).1, [2., 3., 6., 7.]);
        assert_eq!(after(&[4], &[Layout::OddRows]), (vec![2], vec![1., 3.]));
        assert_eq!(after(&[2, 4], &[Layout::EvenColumns]).1, [0., 2., 4., 6.]);
        assert_eq!(after(&[2, 2, 2], &[Layout::OddRows]).1, [2., 3., 6., 7.]);
        let both = after(&[1, 2, 4], &[Layout::Transpose, Layout::OddRows]);
        assert_eq!(both, (vec![1, 2, 2], vec![1., 5., 3., 7.]));
        let exp = after(&[2], &[Layout::NegativeExp]).1;
        assert_eq!(exp, [-1.0, -std::f32::consts::E]);
        let large: Vec<f32> = after(&[70, 45], &[Layout::Transpose]).1;
        assert_eq!((large[1], large[70], large[69 + 70 * 44]), (45.0, 1.0, 3149.0));
    }

    #[test]
    fn grouped_rows_are_put_apart() {
        let group = HeadGroups { heads: 4, kv_heads: 2, dim: 1, ..GROUPS };
        let stored = apply(of(&[8, 1]), &[Layout::GroupedQkv], Some(&group)).unwrap();
        assert_eq!(read(&stored), [0., 1., 4., 5., 2., 6., 3., 7.]);
        let wrong = apply(of(&[7, 1]), &[Layout::GroupedQkv], Some(&group)).err().unwrap();
        assert!(wrong.contains("7 rows are not those of 4 heads"), "{wrong}");
    }

    #[test]
    fn rows_that_two_roles_or_several_experts_share_are_put_apart() {
        // Per key head: q, k, two values, two gates.
        assert_eq!(after(&[12, 1], &[Layout::DeltaQkv]).1, [0., 6., 1., 7., 2., 3., 8., 9.]);
        assert_eq!(after(&[12, 1], &[Layout::DeltaGate]).1, [4., 5., 10., 11.]);
        assert_eq!(after(&[4, 3], &[Layout::SplitExperts]).0, [2, 2, 3]);
        let turned = after(&[4, 1], &[Layout::SplitExperts, Layout::Transpose]);
        assert_eq!(turned, (vec![2, 1, 2], vec![0., 1., 2., 3.]));
        assert_eq!(after(&[4, 1], &[Layout::WithoutPadding]).1, [2., 3.]);
    }

    #[test]
    fn a_gate_before_queries_keys_and_values_is_taken_apart() {
        let stored = |layout| apply(of(&[6, 1]), &[layout], Some(&GROUPS)).unwrap();
        assert_eq!(read(&stored(Layout::GateOfQkv)), [0., 1.]);
        assert_eq!(after(&[6, 1], &[Layout::QkvBehindGate]).1, [2., 3., 4., 5.]);
        let wrong = apply(of(&[7, 1]), &[Layout::GateOfQkv], Some(&GROUPS)).err().unwrap();
        assert!(wrong.contains("7 rows are not those of gates and queries"), "{wrong}");
    }

    #[test]
    fn numbers_say_where_each_lies() {
        assert_eq!(numbers(vec![2, 1, 3], &[Layout::Squeeze], None), Ok(None));
        let turned = numbers(vec![2, 3], &[Layout::Transpose], None);
        assert_eq!(turned, Ok(Some(vec![0, 3, 1, 4, 2, 5])));
        let odd = numbers(vec![1, 2, 4], &[Layout::Transpose, Layout::OddRows], None);
        assert_eq!(odd, Ok(Some(vec![1, 5, 3, 7])));
        assert!(numbers(vec![2], &[Layout::NegativeExp], None).is_err());
    }

    #[test]
    fn what_a_layout_does_not_fit_is_refused() {
        for (shape, layout) in [
            (&[3, 2][..], Layout::EvenRows),
            (&[2, 3], Layout::OddColumns),
            (&[2, 3], Layout::Squeeze),
            (&[4], Layout::Transpose),
            (&[4, 4], Layout::Mxfp4),
            (&[4, 4], Layout::SplitExperts),
            (&[4, 4], Layout::DeltaGate),
            (&[4, 4], Layout::GroupedQkv),
        ] {
            assert!(apply(of(shape), &[layout], None).is_err(), "{layout:?}");
        }
    }
}
