//! Attention against f64 with the whole row of scores in memory: shapes, masks, formats, pages; and equality of bits
//! where it is required.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;

use crate::cache::{Cache, caches, noise, shape};

const NONE: AttentionBiases = AttentionBiases { sinks: None, distances: None };

/// One sequence, `rows` rows from `first` on, against the naive form.
fn compare(
    cpu: &Cpu,
    shape: &AttentionShape,
    kind: KvType,
    (first, rows): (usize, usize),
    sinks: Option<&[f32]>,
) {
    compare_biased(cpu, shape, kind, (first, rows), AttentionBiases { sinks, distances: None });
}

/// [`compare`] with biases by distance.
fn compare_biased(
    cpu: &Cpu,
    shape: &AttentionShape,
    kind: KvType,
    (first, rows): (usize, usize),
    biases: AttentionBiases,
) {
    let (keys, values) = caches(shape, kind, first + rows, 48, 7);
    let sequence = AttentionSequence {
        first_row: 1,
        row_count: rows,
        first_position: first,
        keys: keys.rows(),
        values: values.rows(),
    };
    let q: Vec<f32> = noise((rows + 2) * shape.heads * shape.key_dim, 99).iter().map(|v| v * 3.0).collect();
    let mut wanted = vec![9.0; (rows + 2) * shape.heads * shape.value_dim];
    let mut got = wanted.clone();
    naive::attention::attention(shape, &[sequence], &q, biases, &mut wanted);
    attention(cpu, shape, &[sequence], &q, biases, &mut got).unwrap();
    for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
        let what = format!("{} {shape:?} {kind:?} {first}+{rows} at {i}: {got} {wanted}", cpu.isa());
        assert!((got - wanted).abs() <= 5e-6, "{what}");
    }
}

#[test]
fn distance_takes_from_the_scores() {
    each_cpu(|cpu| {
        for (heads, kv_heads) in [(1, 1), (8, 2), (6, 6), (14, 1), (40, 8)] {
            for mask in [Mask::Causal, Mask::Sliding { size: 50 }, Mask::Bidirectional] {
                let plain = shape(heads, kv_heads, (16, 24), mask);
                for bias in [8.0, 3.5] {
                    let biased = AttentionShape { alibi: Some(bias), ..plain };
                    for span in [(0, 1), (0, 33), (70, 1), (600, 1), (130, 70)] {
                        compare(cpu, &biased, KvType::F32, span, None);
                    }
                    let both = AttentionShape { softcap: Some(2.0), ..biased };
                    let sinks = noise(heads, 3);
                    compare(cpu, &both, KvType::F32, (70, 9), Some(&sinks));
                }
            }
        }
    });
}

#[test]
fn learned_biases_by_distance_are_added() {
    each_cpu(|cpu| {
        for (heads, kv_heads) in [(1, 1), (8, 2), (14, 1)] {
            for mask in [Mask::Causal, Mask::Sliding { size: 50 }, Mask::Bidirectional] {
                // A table of one value, tables that end inside a block or a vector, and one that no key is beyond.
                for reach in [0, 5, 16, 70, 128, 900] {
                    let shape =
                        AttentionShape { softcap: Some(3.0), ..shape(heads, kv_heads, (16, 24), mask) };
                    let (table, sinks) = (noise(heads * (2 * reach + 1), 11), noise(heads, 3));
                    let biases = AttentionBiases { sinks: Some(&sinks), distances: Some(&table) };
                    for span in [(0, 1), (0, 33), (70, 1), (600, 1), (130, 70)] {
                        compare_biased(cpu, &shape, KvType::F32, span, biases);
                    }
                }
            }
        }
    });
}

fn each_cpu(test: impl Fn(&Cpu)) {
    for isa in Isa::available() {
        test(&Cpu::with_isa(Some(2), isa).unwrap());
    }
}

#[test]
fn odd_shapes_match_f64() {
    each_cpu(|cpu| {
        for (heads, kv_heads, dims) in [
            (1, 1, (1, 1)),
            (2, 1, (5, 3)),
            (3, 3, (16, 16)),
            (6, 2, (24, 40)),
            (8, 2, (64, 64)),
            (7, 1, (80, 48)),
            (13, 1, (32, 16)),
            (4, 4, (112, 128)),
        ] {
            for span in [(0, 1), (0, 2), (0, 33), (70, 1), (63, 7), (600, 1), (130, 70)] {
                compare(cpu, &shape(heads, kv_heads, dims, Mask::Causal), KvType::F32, span, None);
            }
        }
    });
}

#[test]
fn every_format_and_mask_matches_f64() {
    let masks = [
        Mask::Causal,
        Mask::Sliding { size: 1 },
        Mask::Sliding { size: 50 },
        Mask::Sliding { size: 1000 },
        Mask::Chunked { size: 100 },
        Mask::Bidirectional,
        Mask::Symmetric { size: 1 },
        Mask::Symmetric { size: 70 },
    ];
    each_cpu(|cpu| {
        for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
            for mask in masks {
                for span in [(0, 40), (150, 90), (0, 1), (699, 1), (1024, 1)] {
                    compare(cpu, &shape(4, 2, (64, 32), mask), kind, span, None);
                }
            }
        }
        compare(cpu, &shape(2, 1, (40, 24), Mask::Causal), KvType::F16, (100, 1), None);
        compare(cpu, &shape(2, 1, (40, 24), Mask::Causal), KvType::F16, (90, 11), None);
    });
}

#[test]
fn soft_caps_and_sinks_match_f64() {
    each_cpu(|cpu| {
        for span in [(0, 1), (5, 80), (77, 1), (1300, 1)] {
            let sinks = [0.5, -3.0, 8.0, -100.0, 0.0, 2.0];
            let capped = AttentionShape { softcap: Some(1.5), ..shape(6, 2, (32, 32), Mask::Causal) };
            compare(cpu, &capped, KvType::F16, span, None);
            compare(cpu, &capped, KvType::F16, span, Some(&sinks));
            compare(cpu, &AttentionShape { softcap: None, ..capped }, KvType::F32, span, Some(&sinks));
        }
    });
}

#[test]
fn large_scores_do_not_overflow() {
    each_cpu(|cpu| {
        let mut big = shape(2, 1, (16, 16), Mask::Causal);
        big.scale = 300.0;
        compare(cpu, &big, KvType::F32, (0, 9), None);
    });
}

/// Three sequences in one call: a prompt, a decode at a late position, a chunk in the middle.
fn mixed(cpu: &Cpu, only: Option<usize>) -> Vec<f32> {
    let shape = shape(6, 3, (64, 64), Mask::Causal);
    let spans = [(0, 150), (1700, 1), (200, 41)];
    let stores: Vec<(Cache, Cache)> = spans
        .iter()
        .enumerate()
        .map(|(i, (first, rows))| caches(&shape, KvType::F16, first + rows, 32, 1000 * i as u64))
        .collect();
    let mut sequences = Vec::new();
    let mut first_row = 0;
    for ((first, rows), (keys, values)) in spans.iter().zip(&stores) {
        let (keys, values) = (keys.rows(), values.rows());
        sequences.push(AttentionSequence {
            first_row,
            row_count: *rows,
            first_position: *first,
            keys,
            values,
        });
        first_row += rows;
    }
    let q = noise(first_row * 6 * 64, 5);
    let mut out = vec![0.0; q.len()];
    let sequences = only.map_or(sequences.clone(), |index| vec![sequences[index]]);
    attention(cpu, &shape, &sequences, &q, NONE, &mut out).unwrap();
    out
}

#[test]
fn the_bits_do_not_depend_on_threads_or_other_sequences() {
    for isa in Isa::available() {
        let one = mixed(&Cpu::with_isa(Some(1), isa).unwrap(), None);
        assert!(one.iter().all(|value| value.is_finite()));
        for threads in [2, 5] {
            assert!(one == mixed(&Cpu::with_isa(Some(threads), isa).unwrap(), None), "{isa} {threads}");
        }
        for index in 0..3 {
            let alone = mixed(&Cpu::with_isa(Some(2), isa).unwrap(), Some(index));
            let rows = [0..150, 150..151, 151..192][index].clone();
            let range = rows.start * 384..rows.end * 384;
            assert!(one[range.clone()] == alone[range], "{isa} {index}");
        }
    }
}

/// Sequences that decode together, with one part to ten: their tasks and the merging of their parts are spread over
/// the threads, and each has the bits that it has alone on one thread.
#[test]
fn sequences_that_decode_together_have_the_bits_of_each_alone() {
    let (shape, totals) = (shape(32, 2, (16, 64), Mask::Causal), [1, 40, 512, 513, 1700, 5000, 4999]);
    let stores = totals.map(|total| caches(&shape, KvType::F16, total, 32, 1000 * total as u64));
    let q = noise(totals.len() * 32 * 16, 5);
    let sequence = |index: usize, first_row: usize| {
        let (keys, values) = (stores[index].0.rows(), stores[index].1.rows());
        AttentionSequence { first_row, row_count: 1, first_position: totals[index] - 1, keys, values }
    };
    for isa in Isa::available() {
        let one = Cpu::with_isa(Some(1), isa).unwrap();
        let mut alone = vec![0.0; totals.len() * 32 * 64];
        for (index, out) in alone.chunks_exact_mut(32 * 64).enumerate() {
            attention(&one, &shape, &[sequence(index, 0)], &q[index * 512..][..512], NONE, out).unwrap();
        }
        let sequences: Vec<AttentionSequence> =
            (0..totals.len()).map(|index| sequence(index, index)).collect();
        for threads in [1, 3, 16] {
            let cpu = Cpu::with_isa(Some(threads), isa).unwrap();
            for count in [1, 2, totals.len()] {
                let mut out = vec![0.0; count * 32 * 64];
                attention(&cpu, &shape, &sequences[..count], &q[..count * 512], NONE, &mut out).unwrap();
                assert!(out == alone[..out.len()], "{isa} {threads} {count}");
            }
        }
    }
}

#[test]
fn a_prompt_in_chunks_and_row_by_row_is_the_prompt() {
    let shape = shape(4, 2, (32, 32), Mask::Sliding { size: 90 });
    let total = 230;
    let (keys, values) = caches(&shape, KvType::F32, total, 16, 3);
    let q = noise(total * 4 * 32, 8);
    let run = |cpu: &Cpu, chunk: usize| {
        let mut out = vec![0.0; q.len()];
        for first in (0..total).step_by(chunk) {
            let rows = chunk.min(total - first);
            let (keys, values) = (keys.rows(), values.rows());
            let sequence =
                AttentionSequence { first_row: first, row_count: rows, first_position: first, keys, values };
            attention(cpu, &shape, &[sequence], &q, NONE, &mut out).unwrap();
        }
        out
    };
    each_cpu(|cpu| {
        let whole = run(cpu, total);
        for chunk in [23, 2, 1] {
            assert!(whole == run(cpu, chunk), "{}: chunks of {chunk}", cpu.isa());
        }
    });
}

#[test]
fn pages_that_no_row_sees_may_be_dropped() {
    // Pages of 16 and 48 rows: the pages that are held begin inside a block of 64 keys.
    for (page_len, kind) in [(16, KvType::F32), (48, KvType::Q8_0), (80, KvType::F16)] {
        for mask in [Mask::Sliding { size: 90 }, Mask::Chunked { size: 128 }] {
            let shape = shape(4, 2, (32, 64), mask);
            for (first, rows) in [(200, 60), (700, 1), (256, 3)] {
                let (mut keys, mut values) = caches(&shape, kind, first + rows, page_len, 3);
                let q = noise(rows * 4 * 32, 8);
                let run = |cpu: &Cpu, (keys, values): (KvRows, KvRows)| {
                    let (first_row, row_count, first_position) = (0, rows, first);
                    let sequence = AttentionSequence { first_row, row_count, first_position, keys, values };
                    let (mut out, mut wanted) = (vec![0.0; rows * 4 * 64], vec![0.0; rows * 4 * 64]);
                    attention(cpu, &shape, &[sequence], &q, NONE, &mut out).unwrap();
                    naive::attention::attention(&shape, &[sequence], &q, NONE, &mut wanted);
                    for (got, wanted) in out.iter().zip(&wanted) {
                        assert!((got - wanted).abs() <= 5e-6, "{mask:?} {first}+{rows}: {got} {wanted}");
                    }
                    out
                };
                let whole = Isa::available().into_iter().map(|isa| {
                    let cpu = Cpu::with_isa(Some(2), isa).unwrap();
                    let out = run(&cpu, (keys.rows(), values.rows()));
                    (cpu, out)
                });
                let whole: Vec<(Cpu, Vec<f32>)> = whole.collect();
                let gone = mask.visible(first, first + rows).start / page_len;
                assert!(gone > 0, "nothing was dropped");
                let (keys, values) = (keys.drop_before(gone), values.drop_before(gone));
                for (cpu, whole) in &whole {
                    assert!(*whole == run(cpu, (keys, values)), "{} {mask:?} {first}+{rows}", cpu.isa());
                }
            }
        }
    }
}

#[test]
fn a_dropped_page_that_a_row_sees_is_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let (mut keys, mut values) = caches(&shape(1, 1, (8, 8), Mask::Causal), KvType::F32, 40, 8, 1);
    let (keys, values) = (keys.drop_before(2), values.drop_before(2));
    let call = |mask, first_position| {
        let shape = shape(1, 1, (8, 8), mask);
        let row_count = 40 - first_position;
        let sequence = AttentionSequence { first_row: 0, row_count, first_position, keys, values };
        let (q, mut out) = (vec![0.0; row_count * 8], vec![0.0; row_count * 8]);
        attention(&cpu, &shape, &[sequence], &q, NONE, &mut out)
    };
    assert!(call(Mask::Sliding { size: 24 }, 39).is_ok());
    assert!(call(Mask::Sliding { size: 25 }, 39).is_err());
    assert!(call(Mask::Sliding { size: 24 }, 38).is_err());
    assert!(call(Mask::Causal, 39).is_err());
    assert!(call(Mask::Bidirectional, 39).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let shape = shape(4, 2, (8, 8), Mask::Causal);
    let (keys, values) = caches(&shape, KvType::F32, 5, 8, 1);
    let good = AttentionSequence {
        first_row: 0,
        row_count: 2,
        first_position: 3,
        keys: keys.rows(),
        values: values.rows(),
    };
    let q = [0.0; 2 * 32];
    let call = |shape: AttentionShape, sequences: &[AttentionSequence], q: &[f32], sinks: Option<&[f32]>| {
        attention(&cpu, &shape, sequences, q, AttentionBiases { sinks, distances: None }, &mut [0.0; 2 * 32])
    };
    assert!(call(shape, &[good], &q, None).is_ok());
    assert!(call(shape, &[], &q, None).is_ok());
    assert!(call(AttentionShape { kv_heads: 3, ..shape }, &[good], &q, None).is_err());
    assert!(call(AttentionShape { heads: 0, ..shape }, &[good], &q, None).is_err());
    assert!(call(AttentionShape { mask: Mask::Sliding { size: 0 }, ..shape }, &[good], &q, None).is_err());
    assert!(call(AttentionShape { softcap: Some(-1.0), ..shape }, &[good], &q, None).is_err());
    let with_table = |shape: &AttentionShape, len: usize| {
        let table = vec![0.0; len];
        let biases = AttentionBiases { sinks: None, distances: Some(&table) };
        attention(&cpu, shape, &[good], &q, biases, &mut [0.0; 2 * 32])
    };
    assert!(with_table(&shape, 4 * 7).is_ok());
    for len in [0, 4 * 6, 4 * 7 + 1] {
        assert!(with_table(&shape, len).is_err(), "{len}");
    }
    assert!(with_table(&AttentionShape { alibi: Some(8.0), ..shape }, 4 * 7).is_err());
    assert!(call(AttentionShape { alibi: Some(0.0), ..shape }, &[good], &q, None).is_err());
    assert!(call(shape, &[good], &q[1..], None).is_err());
    assert!(call(shape, &[good], &q, Some(&[0.0; 3])).is_err());
    assert!(
        call(shape, &[good, AttentionSequence { first_row: 1, row_count: 1, ..good }], &q, None).is_err()
    );
    assert!(call(shape, &[AttentionSequence { first_row: 1, ..good }], &q, None).is_err());
    assert!(call(shape, &[AttentionSequence { first_position: 30, ..good }], &q, None).is_err());
    assert!(call(shape, &[AttentionSequence { first_position: usize::MAX, ..good }], &q, None).is_err());
    let few = KvRows { heads: 1, ..good.keys };
    assert!(call(shape, &[AttentionSequence { keys: few, ..good }], &q, None).is_err());
}

/// Latent attention: one head of keys for all query heads; its first part are the values.
#[test]
fn one_stored_head_serves_all() {
    each_cpu(|cpu| {
        for (kind, stored, value_dim) in
            [(KvType::F32, 44, 20), (KvType::F16, 576, 512), (KvType::F16, 72, 64), (KvType::Q8_0, 96, 64)]
        {
            for (first, rows) in [(0, 1), (0, 40), (130, 70), (600, 1), (1100, 3)] {
                let cache = Cache::new(kind, (1, stored), first + rows, 48, 7);
                let sequence = AttentionSequence {
                    first_row: 0,
                    row_count: rows,
                    first_position: first,
                    keys: cache.rows(),
                    values: cache.rows(),
                };
                let q = noise(rows * 12 * stored, 99);
                let run = |kv_heads: usize| {
                    let shape = shape(12, kv_heads, (stored, value_dim), Mask::Causal);
                    let mut out = vec![9.0; rows * 12 * value_dim];
                    attention_to_one_head(cpu, &shape, &[sequence], &q, NONE, &mut out).unwrap();
                    out
                };
                let mut wanted = vec![9.0; rows * 12 * value_dim];
                let naive_shape = shape(12, 3, (stored, value_dim), Mask::Causal);
                naive::attention::attention(&naive_shape, &[sequence], &q, NONE, &mut wanted);
                let got = run(3);
                for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                    assert!((got - wanted).abs() <= 5e-6, "{kind:?} {first}+{rows} at {i}: {got} {wanted}");
                }
                assert!(got == run(12) && got == run(1), "{} {kind:?} {first}+{rows}: grouping", cpu.isa());
            }
        }
    });
}

#[test]
fn a_head_too_short_or_too_many_heads_are_no_shared_head() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let call = |kind, (heads, stored), dims: (usize, usize)| {
        let cache = Cache::new(kind, (heads, stored), 4, 8, 1);
        let sequence = AttentionSequence {
            first_row: 0,
            row_count: 1,
            first_position: 3,
            keys: cache.rows(),
            values: cache.rows(),
        };
        let shape = shape(2, 2, dims, Mask::Causal);
        let (q, mut out) = (vec![0.0; 2 * dims.0], vec![0.0; 2 * dims.1]);
        attention_to_one_head(&cpu, &shape, &[sequence], &q, NONE, &mut out)
    };
    assert!(call(KvType::Q8_0, (1, 96), (96, 64)).is_ok());
    assert!(call(KvType::Q8_0, (1, 96), (96, 40)).is_err());
    assert!(call(KvType::F32, (1, 8), (9, 8)).is_err());
    assert!(call(KvType::F32, (2, 8), (8, 8)).is_err());
}

#[test]
fn stored_rows_are_read_back() {
    for (kind, dim) in [(KvType::F32, 5), (KvType::F16, 37), (KvType::Q8_0, 64)] {
        let cache = Cache::new(kind, (2, dim), 50, 16, 3);
        let mut out = vec![9.0; 21 * 2 * dim];
        load_rows(&cache.rows(), 27..48, &mut out).unwrap();
        for (position, row) in (27..48).zip(out.chunks_exact(2 * dim)) {
            for head in 0..2 {
                let wanted = naive::attention::cache_row(&cache.rows(), position, head);
                assert_eq!(row[head * dim..(head + 1) * dim], wanted, "{kind:?} {position} {head}");
            }
        }
        assert!(load_rows(&cache.rows(), 27..47, &mut out).is_err());
        assert!(load_rows(&cache.rows(), 180..201, &mut out).is_err());
    }
}
