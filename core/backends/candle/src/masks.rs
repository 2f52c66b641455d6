//! [`Masks`]: attention masks as tensors that layers share.

use crate::tensors::TensorResult;
use candle_core::{Device, Tensor};
use menagerie_model::Mask;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Elements of all masks kept together, 64 MiB.
const KEPT: usize = 1 << 24;

/// Queries and keys by position, and the mask between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaskShape {
    pub(crate) mask: Mask,
    pub(crate) queries: Range<usize>,
    pub(crate) keys: Range<usize>,
    /// Positions the sequence has.
    pub(crate) total: usize,
}

/// Masks of recent steps: all layers of a kind use the same ones. The oldest are dropped first.
#[derive(Default)]
pub(crate) struct Masks {
    kept: Mutex<Vec<(MaskShape, Tensor)>>,
}

/// The keys that the query at position `query` sees, of `total` keys: always one interval.
pub(crate) fn visible(mask: Mask, query: usize, total: usize) -> Range<usize> {
    match mask {
        Mask::Causal => 0..query + 1,
        Mask::Sliding { size } => (query + 1).saturating_sub(size)..query + 1,
        Mask::Chunked { size } => query - query % size..query + 1,
        Mask::Bidirectional => 0..total,
        Mask::Symmetric { size } => query.saturating_sub(size / 2)..total.min(query + size / 2 + 1),
    }
}

/// The keys that some query of a range sees.
pub(crate) fn span(mask: Mask, queries: &Range<usize>, total: usize) -> Range<usize> {
    let last = queries.end.saturating_sub(1);
    visible(mask, queries.start, total).start..visible(mask, last, total).end
}

impl Masks {
    /// `[queries, keys]` of 0 and -infinity to add to scores; `None` if every query sees every key.
    pub(crate) fn get(&self, seen: &MaskShape, device: &Device) -> TensorResult<Option<Tensor>> {
        let MaskShape { mask, queries, keys, total } = seen;
        if queries.clone().all(|query| visible(*mask, query, *total) == *keys) {
            return Ok(None);
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = kept.iter().find(|(known, _)| known == seen) {
            return Ok(Some(found.clone()));
        }
        let made = Tensor::from_vec(values(seen), (queries.len(), keys.len()), device)?;
        kept.push((seen.clone(), made.clone()));
        while kept.len() > 1 && kept.iter().map(|(_, mask)| mask.elem_count()).sum::<usize>() > KEPT {
            kept.remove(0);
        }
        Ok(Some(made))
    }
}

fn values(seen: &MaskShape) -> Vec<f32> {
    let MaskShape { mask, queries, keys, total } = seen;
    let mut values = vec![f32::NEG_INFINITY; queries.len() * keys.len()];
    for (query, row) in queries.clone().zip(values.chunks_exact_mut(keys.len())) {
        let shown = visible(*mask, query, *total);
        let (from, to) = (shown.start.max(keys.start), shown.end.min(keys.end));
        if let Some(row) = row.get_mut(from.saturating_sub(keys.start)..to.saturating_sub(keys.start)) {
            row.fill(0.0);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(mask: Mask, query: usize, key: usize) -> bool {
        match mask {
            Mask::Causal => key <= query,
            Mask::Sliding { size } => key <= query && query - key < size,
            Mask::Chunked { size } => key <= query && key / size == query / size,
            Mask::Bidirectional => true,
            Mask::Symmetric { size } => query.abs_diff(key) <= size / 2,
        }
    }

    const ALL: [Mask; 8] = [
        Mask::Causal,
        Mask::Sliding { size: 1 },
        Mask::Sliding { size: 7 },
        Mask::Chunked { size: 5 },
        Mask::Bidirectional,
        Mask::Symmetric { size: 1 },
        Mask::Symmetric { size: 4 },
        Mask::Symmetric { size: 5 },
    ];

    #[test]
    fn the_interval_is_what_the_mask_sees() {
        for mask in ALL {
            for query in 0..30 {
                let seen: Vec<usize> = (0..30).filter(|&key| sees(mask, query, key)).collect();
                assert_eq!(seen, visible(mask, query, 30).collect::<Vec<_>>(), "{mask:?} {query}");
            }
        }
    }

    #[test]
    fn a_tensor_shows_what_the_mask_sees_and_is_made_once() {
        for mask in ALL {
            let masks = Masks::default();
            let queries = 9..17;
            let keys = span(mask, &queries, 30);
            let seen = MaskShape { mask, queries: queries.clone(), keys: keys.clone(), total: 30 };
            let Some(tensor) = masks.get(&seen, &Device::Cpu).unwrap() else {
                assert_eq!(mask, Mask::Bidirectional);
                continue;
            };
            let rows = tensor.to_vec2::<f32>().unwrap();
            for (query, row) in queries.zip(rows) {
                for (key, shown) in keys.clone().zip(row) {
                    assert_eq!(shown == 0.0, sees(mask, query, key), "{mask:?} {query} {key}");
                }
            }
            let again = masks.get(&seen, &Device::Cpu).unwrap().unwrap();
            assert_eq!(again.id(), tensor.id());
        }
    }

    #[test]
    fn old_masks_make_room() {
        let masks = Masks::default();
        for first in 0..5 {
            let queries = first..first + 2048;
            let seen = MaskShape { mask: Mask::Causal, keys: 0..queries.end, queries, total: 4096 };
            masks.get(&seen, &Device::Cpu).unwrap();
        }
        let kept = masks.kept.lock().unwrap();
        assert!(kept.iter().map(|(_, mask)| mask.elem_count()).sum::<usize>() <= KEPT && kept.len() >= 3);
    }
}
