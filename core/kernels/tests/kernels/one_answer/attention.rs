//! One answer: a row's attention is the same bits alone and next to any other rows, from a cache in any pages, on every
//! instruction set and any number of threads, and equals that of `ordered`.

use menagerie_kernels::*;
use menagerie_kernels_check::ordered::attention::{self as ordered, AttentionFault};
use menagerie_random::SplitMix64;

use super::{bits, compare};
use crate::cache::{Cache, caches, shape};

/// A call: shape, cache, biases, and the rows of one sequence.
struct Case {
    shape: AttentionShape,
    kind: KvType,
    sinks: Option<Vec<f32>>,
    distances: Option<Vec<f32>>,
    /// The positions of all rows.
    total: usize,
    /// The first of the computed rows.
    from: usize,
    queries: Vec<f32>,
}

impl Case {
    fn new(shape: AttentionShape, kind: KvType, total: usize, from: usize) -> Case {
        let mut random = SplitMix64::new(77);
        let count = (total - from) * shape.heads * shape.key_dim;
        let queries = (0..count).map(|_| random.signed() * 3.0).collect();
        Case { shape, kind, sinks: None, distances: None, total, from, queries }
    }

    fn biases(&self) -> AttentionBiases<'_> {
        AttentionBiases { sinks: self.sinks.as_deref(), distances: self.distances.as_deref() }
    }

    fn is_bidirectional(&self) -> bool {
        self.shape.mask.visible(0, 9).end > 1
    }

    /// The rows from `first` on, `count` of them. With masks that look ahead, later rows do not exist yet.
    fn call(&self, cpu: &Cpu, (keys, values): (KvRows, KvRows), [first, count]: [usize; 2]) -> Vec<f32> {
        let AttentionShape { heads, key_dim, value_dim, .. } = self.shape;
        let sequence =
            AttentionSequence { first_row: 0, row_count: count, first_position: first, keys, values };
        let at = (first - self.from) * heads * key_dim;
        let q = &self.queries[at..at + count * heads * key_dim];
        let mut out = vec![f32::NAN; count * heads * value_dim];
        let attend = if keys.heads == self.shape.kv_heads { attention } else { attention_to_one_head };
        attend(cpu, &self.shape, &[sequence], q, self.biases(), &mut out).unwrap();
        out
    }

    /// The rows in calls of `piece`.
    fn run(&self, cpu: &Cpu, cache: &(Cache, Cache), piece: usize) -> Vec<f32> {
        let starts = (self.from..self.total).step_by(piece);
        let rows = (cache.0.rows(), cache.1.rows());
        starts.flat_map(|first| self.call(cpu, rows, [first, piece.min(self.total - first)])).collect()
    }

    fn ordered(&self, cache: &(Cache, Cache), fault: Option<AttentionFault>) -> Vec<f32> {
        let sequence = AttentionSequence {
            first_row: 0,
            row_count: self.total - self.from,
            first_position: self.from,
            keys: cache.0.rows(),
            values: cache.1.rows(),
        };
        let mut out = vec![f32::NAN; (self.total - self.from) * self.shape.heads * self.shape.value_dim];
        ordered::faulty_attention(&self.shape, &[sequence], (&self.queries, self.biases()), &mut out, fault);
        out
    }

    /// Every way to compute it.
    fn check(&self, faults: &mut Vec<String>) {
        let cache = caches(&self.shape, self.kind, self.total, 48, 7);
        let paged = caches(&self.shape, self.kind, self.total, 17, 7);
        let expected = self.ordered(&cache, None);
        let count = self.total - self.from;
        for isa in Isa::available() {
            for threads in [1, 3] {
                let cpu = Cpu::with_isa(Some(threads), isa).unwrap();
                let pieces: &[usize] = if self.is_bidirectional() { &[count] } else { &[count, 1, 2, 7, 13] };
                for &piece in pieces.iter().filter(|piece| **piece <= count) {
                    let pages = if threads == 1 { &cache } else { &paged };
                    let about =
                        || format!("{isa} {:?} {:?} {}.. in {piece}s", self.shape, self.kind, self.from);
                    compare(&bits(&self.run(&cpu, pages, piece)), &bits(&expected), about, faults);
                }
            }
        }
    }
}

#[test]
fn every_shape_has_one_order() {
    let mut faults = Vec::new();
    for (heads, kv_heads, dims) in [
        (1, 1, (1, 1)),
        (2, 1, (5, 3)),
        (6, 2, (24, 40)),
        (7, 1, (80, 48)),
        (14, 1, (32, 16)),
        (3, 3, (112, 128)),
    ] {
        for (total, from) in [(70, 0), (1, 0), (1101, 1088)] {
            let shape = shape(heads, kv_heads, dims, Mask::Causal);
            Case::new(shape, KvType::F32, total, from).check(&mut faults);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_cache_and_mask_has_one_order() {
    let mut faults = Vec::new();
    for kind in [KvType::F32, KvType::F16, KvType::Q8_0] {
        for mask in [
            Mask::Causal,
            Mask::Sliding { size: 1 },
            Mask::Sliding { size: 50 },
            Mask::Sliding { size: 700 },
            Mask::Chunked { size: 100 },
            Mask::Bidirectional,
            Mask::Symmetric { size: 70 },
        ] {
            for (total, from) in [(70, 0), (1040, 1024)] {
                Case::new(shape(4, 2, (64, 32), mask), kind, total, from).check(&mut faults);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn caps_and_biases_have_one_order() {
    let mut faults = Vec::new();
    for mask in [Mask::Causal, Mask::Sliding { size: 50 }, Mask::Bidirectional] {
        for (total, from) in [(33, 0), (700, 690)] {
            let plain = Case::new(shape(6, 2, (32, 48), mask), KvType::F16, total, from);
            let sinks = Some(vec![0.5, -3.0, 8.0, -100.0, 0.0, 2.0]);
            let capped = AttentionShape { softcap: Some(1.5), ..plain.shape };
            let sloped = AttentionShape { alibi: Some(8.0), ..plain.shape };
            Case { shape: capped, sinks: sinks.clone(), ..plain }.check(&mut faults);
            Case { shape: sloped, sinks, ..Case::new(plain.shape, plain.kind, total, from) }
                .check(&mut faults);
            for reach in [5, 128] {
                let mut random = SplitMix64::new(3);
                let table = (0..6 * (2 * reach + 1)).map(|_| random.signed()).collect();
                Case { distances: Some(table), ..Case::new(capped, plain.kind, total, from) }
                    .check(&mut faults);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Latent attention: one stored head for all, in any grouping of the heads.
#[test]
fn one_stored_head_has_one_order() {
    let mut faults = Vec::new();
    for (kind, stored, value_dim) in [(KvType::F32, 44, 20), (KvType::F16, 576, 512), (KvType::Q8_0, 96, 64)]
    {
        for (total, from) in [(40, 0), (600, 594)] {
            let wide = shape(12, 3, (stored, value_dim), Mask::Causal);
            let case = Case::new(wide, kind, total, from);
            let cache = Cache::new(kind, (1, stored), total, 48, 7);
            let both = (cache.clone(), cache);
            let expected = case.ordered(&both, None);
            for isa in Isa::available() {
                let cpu = Cpu::with_isa(Some(2), isa).unwrap();
                for (kv_heads, piece) in [(3, 1), (12, 40), (2, 7), (6, 1)] {
                    let grouped = AttentionShape { kv_heads, ..wide };
                    let case = Case::new(grouped, kind, total, from);
                    let about = || format!("{isa} {kind:?} {stored} by {kv_heads} in {piece}s");
                    compare(&bits(&case.run(&cpu, &both, piece)), &bits(&expected), about, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Pages that a window has dropped, and rows past the last one, affect nothing.
#[test]
fn what_is_not_seen_has_no_share() {
    let mut faults = Vec::new();
    for kind in [KvType::F32, KvType::F16] {
        let case = Case::new(shape(4, 2, (32, 32), Mask::Sliding { size: 90 }), kind, 777, 700);
        let cache = caches(&case.shape, kind, 777, 16, 3);
        // Values that turn results into NaN, even with a weight of 0, and zeros whose sign would change.
        let mut broken = caches(&case.shape, kind, 777, 16, 3);
        broken.0.spoil(0..611);
        broken.1.spoil(0..611);
        let expected = case.ordered(&cache, None);
        for isa in Isa::available() {
            let cpu = Cpu::with_isa(Some(2), isa).unwrap();
            for piece in [1, 5, 77] {
                compare(
                    &bits(&case.run(&cpu, &broken, piece)),
                    &bits(&expected),
                    || format!("{isa} in {piece}s"),
                    &mut faults,
                );
            }
            // Rows that come later are stored already, and are NaN.
            let mut later = caches(&case.shape, kind, 777, 16, 3);
            later.0.spoil(740..777);
            later.1.spoil(740..777);
            let width = case.shape.heads * case.shape.value_dim;
            let rows = (later.0.rows(), later.1.rows());
            let all = case.call(&cpu, rows, [700, 77]);
            compare(
                &bits(&all[..40 * width]),
                &bits(&expected[..40 * width]),
                || format!("{isa} before broken rows"),
                &mut faults,
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Weights and values so small that products round to zeros of either sign.
#[test]
fn zeros_keep_their_sign() {
    let mut faults = Vec::new();
    let mut wide = shape(2, 1, (16, 16), Mask::Causal);
    wide.scale = 14.0;
    let case = Case::new(wide, KvType::F32, 80, 0);
    let (keys, values) = caches(&case.shape, case.kind, 80, 80, 7);
    let small = |v: f32| if v.abs() < 0.5 { 0f32.copysign(v) } else { v * 1e-20 };
    let cache = (keys, values.map(80, 9, small));
    let expected = case.ordered(&cache, None);
    assert!(expected.iter().any(|v| v.to_bits() == 1 << 31), "no negative zero came up");
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(1), isa).unwrap();
        for piece in [1, 9, 80] {
            compare(
                &bits(&case.run(&cpu, &cache, piece)),
                &bits(&expected),
                || format!("{isa} in {piece}s"),
                &mut faults,
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn another_order_is_told_from_this_one() {
    let case = Case::new(shape(4, 2, (64, 32), Mask::Sliding { size: 800 }), KvType::F16, 1200, 1195);
    let cache = caches(&case.shape, case.kind, 1200, 48, 7);
    let got = case.run(&Cpu::new(Some(1)).unwrap(), &cache, 5);
    assert_eq!(bits(&got), bits(&case.ordered(&cache, None)));
    for fault in AttentionFault::ALL {
        assert_ne!(bits(&got), bits(&case.ordered(&cache, Some(fault))), "{fault:?}");
    }
}
