//! Tiles of queries against one tile, and views of keys that begin late.

use super::*;
use candle_core::Device;
use menagerie_model::Mask;

fn noise(seed: usize, shape: &[usize]) -> Tensor {
    let len = shape.iter().product::<usize>();
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
    Tensor::from_vec((0..len).map(value).collect::<Vec<_>>(), shape, &Device::Cpu).unwrap()
}

fn furthest(a: &Tensor, b: &Tensor) -> f32 {
    (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap()
}

#[test]
fn queries_in_tiles_are_all_queries() {
    let masks = Masks::default();
    let (first, rows) = (11, 9);
    let total = first + rows;
    for mask in [Mask::Causal, Mask::Sliding { size: 6 }, Mask::Chunked { size: 8 }] {
        let shape = AttentionShape {
            heads: 4,
            kv_heads: 2,
            key_dim: 8,
            value_dim: 6,
            scale: 0.3,
            softcap: Some(2.0),
            mask,
            alibi: Some(4.0),
        };
        let (keys, values) = (noise(1, &[2, total, 8]), noise(2, &[2, total, 6]));
        let (query, sinks) = (noise(3, &[rows, 32]), noise(4, &[4]));
        let table = noise(5, &[4 * 11]);
        for (sinks, distances) in [(None, None), (Some(&sinks), None), (None, Some(&table))] {
            let shape = AttentionShape { alibi: shape.alibi.filter(|_| distances.is_none()), ..shape };
            let run = |scores: usize, from: usize| {
                let attention = ScoredAttention { shape: &shape, sinks, distances, masks: &masks, scores };
                let shown = |all: &Tensor| all.narrow(1, from, total - from).unwrap();
                attention.of_sequence(&query, first..total, [&shown(&keys), &shown(&values)], from).unwrap()
            };
            let whole = run(1 << 20, 0);
            assert_eq!(whole.dims(), [rows, 24]);
            let from = span(mask, &(first..total), total).start;
            for (scores, from) in [(1, 0), (4 * total * 2, 0), (4 * total * 5, 0), (1 << 20, from), (1, from)]
            {
                assert!(furthest(&whole, &run(scores, from)) < 1e-6, "{mask:?} {scores} {from}");
            }
        }
    }
}
