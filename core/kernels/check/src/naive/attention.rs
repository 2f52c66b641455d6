//! Attention with the whole row of scores in memory, in f64.

use menagerie_kernels::{AttentionBiases, AttentionSequence, AttentionShape, KvRows, KvType};

/// One head's row of the cache at a position, as f32. The caller must have checked that the row exists.
pub fn cache_row(rows: &KvRows, position: usize, head: usize) -> Vec<f32> {
    let page = rows.pages[position / rows.page_len - rows.first_page];
    let row = page as usize * rows.page_len + position % rows.page_len;
    let first = (row * rows.heads + head) * rows.head_dim;
    (first..first + rows.head_dim).map(|element| cache_element(rows.kind, rows.bytes, element)).collect()
}

fn cache_element(kind: KvType, bytes: &[u8], element: usize) -> f32 {
    let half = |at: usize| half::f16::from_ne_bytes([bytes[at], bytes[at + 1]]).to_f32();
    match kind {
        KvType::F32 => {
            let at = element * 4;
            f32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        }
        KvType::F16 => half(element * 2),
        KvType::Q8_0 => {
            let block = element / 32 * 34;
            half(block) * f32::from(bytes[block + 2 + element % 32] as i8)
        }
    }
}

/// Scaled dot product attention (Vaswani et al. 2017) with grouped key-value heads, masks, soft cap, biases and sinks.
/// See `menagerie_kernels::attention`, which has the same arguments.
pub fn attention(
    shape: &AttentionShape,
    sequences: &[AttentionSequence],
    q: &[f32],
    biases: AttentionBiases,
    out: &mut [f32],
) {
    for sequence in sequences {
        for row in 0..sequence.row_count {
            for head in 0..shape.heads {
                let at = (sequence.first_row + row) * shape.heads + head;
                let query = &q[at * shape.key_dim..(at + 1) * shape.key_dim];
                let result = one_head(shape, sequence, (row, head), query, biases);
                out[at * shape.value_dim..(at + 1) * shape.value_dim].copy_from_slice(&result);
            }
        }
    }
}

fn one_head(
    shape: &AttentionShape,
    sequence: &AttentionSequence,
    (row, head): (usize, usize),
    query: &[f32],
    biases: AttentionBiases,
) -> Vec<f32> {
    // One stored head serves all.
    let kv_head = (head / (shape.heads / shape.kv_heads)).min(sequence.keys.heads - 1);
    let position = sequence.first_position + row;
    let total = sequence.first_position + sequence.row_count;
    let visible: Vec<usize> = (0..total).filter(|&key| shape.mask.sees(position, key)).collect();
    let slope = shape.alibi.map_or(0.0, |bias| slope(f64::from(bias), shape.heads, head));
    let scores: Vec<f64> = visible
        .iter()
        .map(|&key| {
            let keys = cache_row(&sequence.keys, key, kv_head);
            let dot: f64 = keys.iter().zip(query).map(|(&k, &q)| f64::from(k) * f64::from(q)).sum();
            let score = dot * f64::from(shape.scale);
            let score = shape.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
            let table =
                biases.distances.map_or(0.0, |table| learned(table, shape.heads, head, (position, key)));
            score + table - slope * position.abs_diff(key) as f64
        })
        .collect();
    let sink = biases.sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[head]));
    let most = scores.iter().copied().fold(sink, f64::max);
    let sum = scores.iter().map(|score| (score - most).exp()).sum::<f64>() + (sink - most).exp();
    let mut result = vec![0.0; shape.value_dim];
    for (key, score) in visible.iter().zip(&scores) {
        let weight = (score - most).exp() / sum;
        for (value, v) in result.iter_mut().zip(cache_row(&sequence.values, *key, kv_head)) {
            *value += weight * f64::from(v);
        }
    }
    result.into_iter().map(|value| value as f32).collect()
}

/// A head's bias for a key at its distance from the query, or at the largest distance of the table on that side.
fn learned(table: &[f32], heads: usize, head: usize, (query, key): (usize, usize)) -> f64 {
    let own: Vec<f64> =
        table.chunks(table.len() / heads).nth(head).unwrap_or(&[]).iter().copied().map(f64::from).collect();
    let reach = own.len() / 2;
    let at = if key >= query { reach + (key - query).min(reach) } else { reach - (query - key).min(reach) };
    own[at]
}

/// The slope of a head as in the paper's code: a geometric series if the number of heads is a power of two; otherwise
/// that of the power below, then every other one of the series of the power above (Press et al. 2021).
fn slope(max_bias: f64, heads: usize, head: usize) -> f64 {
    let series = |count: usize, index: usize| (-max_bias / count as f64).exp2().powi(index as i32 + 1);
    let below = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    if head < below { series(below, head) } else { series(2 * below, 2 * (head - below)) }
}
