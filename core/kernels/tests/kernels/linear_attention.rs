//! Attention without softmax against f64, whole and in pieces.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;
use menagerie_kernels_check::ordered::linear_attention::{self as ordered, LinearAttentionFault};
use menagerie_random::SplitMix64;

use crate::one_answer::{bits, compare};

/// Heads, key heads, elements of a key, elements of a value: odd ones, and those of published models.
const SHAPES: [[usize; 4]; 5] =
    [[1, 1, 1, 1], [4, 2, 5, 3], [6, 3, 20, 80], [2, 1, 128, 64], [2, 2, 96, 128]];
const UPDATES: [StateUpdate; 2] = [StateUpdate::Add, StateUpdate::Delta];

fn shape([heads, key_heads, key_dim, value_dim]: [usize; 4], update: StateUpdate) -> LinearAttentionShape {
    let sharing = if heads == 4 { KeySharing::Tiled } else { KeySharing::Consecutive };
    LinearAttentionShape { heads, key_heads, key_dim, value_dim, sharing, update }
}

/// Owned rows.
struct Rows {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    decay: Vec<f32>,
    strength: Vec<f32>,
    skip: Vec<f32>,
}

impl Rows {
    fn of(shape: &LinearAttentionShape, rows: usize) -> Rows {
        let LinearAttentionShape { heads, key_heads, key_dim, value_dim, .. } = *shape;
        let mut random = SplitMix64::new(7);
        let mut floats =
            |count: usize, scale: f32| -> Vec<f32> { (0..count).map(|_| random.signed() * scale).collect() };
        // Keys of about length 1: the delta rule takes back no more than was stored.
        let length = 1.0 / (key_dim as f32).sqrt();
        let queries = floats(rows * key_heads * key_dim, 1.0);
        let keys = floats(rows * key_heads * key_dim, length);
        let values = floats(rows * heads * value_dim, 1.0);
        let decay = floats(rows * heads * key_dim, 1.0).into_iter().map(|x| -x.abs()).collect();
        let strength = floats(rows * heads, 1.0).into_iter().map(f32::abs).collect();
        Rows { queries, keys, values, decay, strength, skip: floats(heads, 1.0) }
    }

    /// All rows, with a kind of decay: fixed, per head, per channel.
    fn all(&self, shape: &LinearAttentionShape, kind: usize) -> LinearAttentionRows<'_> {
        let rows = self.strength.len() / shape.heads;
        LinearAttentionRows {
            queries: &self.queries,
            keys: &self.keys,
            values: &self.values,
            log_decay: match kind {
                0 => LogDecay::Fixed(&self.decay[..shape.heads]),
                1 => LogDecay::PerHead(&self.decay[..rows * shape.heads]),
                _ => LogDecay::PerChannel(&self.decay),
            },
            strength: (kind > 0).then_some(&self.strength[..]),
            skip: (kind == 1).then_some(&self.skip[..]),
        }
    }
}

/// Rows `first..end` of a sequence.
fn part<'a>(
    all: &LinearAttentionRows<'a>,
    total: usize,
    [first, end]: [usize; 2],
) -> LinearAttentionRows<'a> {
    let cut = |x: &'a [f32]| &x[x.len() / total * first..x.len() / total * end];
    let log_decay = match all.log_decay {
        LogDecay::Fixed(decay) => LogDecay::Fixed(decay),
        LogDecay::PerHead(decay) => LogDecay::PerHead(cut(decay)),
        LogDecay::PerChannel(decay) => LogDecay::PerChannel(cut(decay)),
    };
    LinearAttentionRows {
        queries: cut(all.queries),
        keys: cut(all.keys),
        values: cut(all.values),
        log_decay,
        strength: all.strength.map(cut),
        skip: all.skip,
    }
}

#[test]
fn every_shape_and_rule_matches_f64() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for sizes in SHAPES {
            for (update, rows) in
                UPDATES.into_iter().flat_map(|update| [1, 2, 3, 35].map(|rows| (update, rows)))
            {
                let shape = shape(sizes, update);
                let (owned, state_len) = (Rows::of(&shape, rows), sizes[0] * sizes[2] * sizes[3]);
                for kind in 0..3 {
                    let input = owned.all(&shape, kind);
                    let mut random = SplitMix64::new(9);
                    let mut state: Vec<f32> = (0..state_len).map(|_| random.signed()).collect();
                    let mut wide: Vec<f64> = state.iter().map(|x| f64::from(*x)).collect();
                    let mut out = vec![f32::NAN; owned.values.len()];
                    let mut wanted = vec![0.0; owned.values.len()];
                    naive::linear_attention::linear_attention(&shape, &input, &mut wide, &mut wanted);
                    linear_attention(&cpu, &shape, &input, &mut state, &mut out).unwrap();
                    let about = format!("{isa} {sizes:?} {update:?} {rows} rows, decay {kind}");
                    let wide = wide.iter().map(|x| *x as f32);
                    for (got, wanted) in
                        out.iter().zip(&wanted).chain(state.iter().zip(&wide.collect::<Vec<_>>()))
                    {
                        assert!(
                            (got - wanted).abs() <= 1e-5 * wanted.abs().max(1.0),
                            "{about}: {got} {wanted}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_sequence_in_pieces_is_the_sequence() {
    let rows = 37;
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for (sizes, update) in SHAPES.into_iter().flat_map(|sizes| UPDATES.map(|update| (sizes, update))) {
            let shape = shape(sizes, update);
            let owned = Rows::of(&shape, rows);
            let all = owned.all(&shape, 1);
            let run = |piece: usize| {
                let mut state = vec![0.0; sizes[0] * sizes[2] * sizes[3]];
                let mut out = vec![0.0; owned.values.len()];
                for (index, out) in out.chunks_mut(piece * sizes[0] * sizes[3]).enumerate() {
                    let own = [index * piece, ((index + 1) * piece).min(rows)];
                    linear_attention(&cpu, &shape, &part(&all, rows, own), &mut state, out).unwrap();
                }
                (state, out)
            };
            let whole = run(rows);
            assert!(whole.1.iter().any(|&v| v != 0.0));
            for piece in [1, 2, 3, 16, 20] {
                assert!(run(piece) == whole, "{isa} {sizes:?} {update:?}: pieces of {piece}");
            }
        }
    }
}

/// The state and the results of all rows in the order that `ordered` defines.
fn in_order(
    shape: &LinearAttentionShape,
    input: &LinearAttentionRows,
    fault: Option<LinearAttentionFault>,
) -> Vec<f32> {
    let mut state = vec![0.25; shape.heads * shape.key_dim * shape.value_dim];
    let mut out = vec![f32::NAN; input.values.len()];
    ordered::faulty_linear_attention(shape, input, &mut state, &mut out, fault);
    [state, out].concat()
}

#[test]
fn every_form_has_one_order() {
    let (rows, mut faults) = (70, Vec::new());
    for (sizes, update) in SHAPES.into_iter().flat_map(|sizes| UPDATES.map(|update| (sizes, update))) {
        let shape = shape(sizes, update);
        let owned = Rows::of(&shape, rows);
        for kind in 0..3 {
            let all = owned.all(&shape, kind);
            let expected = in_order(&shape, &all, None);
            for isa in Isa::available() {
                for (threads, piece) in [(1, rows), (3, 1), (2, 2), (7, 17), (1, 69)] {
                    let cpu = Cpu::with_isa(Some(threads), isa).unwrap();
                    let mut state = vec![0.25; sizes[0] * sizes[2] * sizes[3]];
                    let mut out = vec![f32::NAN; owned.values.len()];
                    for (index, out) in out.chunks_mut(piece * sizes[0] * sizes[3]).enumerate() {
                        let own = [index * piece, ((index + 1) * piece).min(rows)];
                        linear_attention(&cpu, &shape, &part(&all, rows, own), &mut state, out).unwrap();
                    }
                    let about = || format!("{isa} {sizes:?} {update:?} decay {kind} in {piece}s");
                    compare(&bits(&[state, out].concat()), &bits(&expected), about, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn another_order_is_told_from_this_one() {
    let shape = shape([2, 1, 40, 24], StateUpdate::Delta);
    let owned = Rows::of(&shape, 9);
    let all = owned.all(&shape, 2);
    for isa in Isa::available() {
        let (mut state, mut out) = (vec![0.25; 2 * 40 * 24], vec![f32::NAN; owned.values.len()]);
        linear_attention(&Cpu::with_isa(Some(1), isa).unwrap(), &shape, &all, &mut state, &mut out).unwrap();
        let found = [state, out].concat();
        assert_eq!(bits(&found), bits(&in_order(&shape, &all, None)));
        for fault in [
            LinearAttentionFault::KeysBackwards,
            LinearAttentionFault::DecayFirst,
            LinearAttentionFault::Unfused,
        ] {
            assert_ne!(bits(&found), bits(&in_order(&shape, &all, Some(fault))), "{isa} {fault:?}");
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let shape = shape([4, 2, 5, 3], StateUpdate::Add);
    let owned = Rows::of(&shape, 2);
    let call = |shape: &LinearAttentionShape, input: &LinearAttentionRows, state: usize, out: usize| {
        linear_attention(&cpu, shape, input, &mut vec![0.0; state], &mut vec![0.0; out])
    };
    let good = owned.all(&shape, 1);
    assert!(call(&shape, &good, 60, 24).is_ok());
    assert!(call(&LinearAttentionShape { key_heads: 3, ..shape }, &good, 60, 24).is_err());
    assert!(call(&LinearAttentionShape { key_heads: 0, ..shape }, &good, 60, 24).is_err());
    assert!(call(&shape, &good, 59, 24).is_err());
    assert!(call(&shape, &good, 60, 12).is_err());
    assert!(call(&shape, &LinearAttentionRows { keys: &owned.keys[1..], ..good }, 60, 24).is_err());
    assert!(call(&shape, &LinearAttentionRows { queries: &owned.keys[1..], ..good }, 60, 24).is_err());
    assert!(
        call(&shape, &LinearAttentionRows { log_decay: LogDecay::PerHead(&[0.0]), ..good }, 60, 24).is_err()
    );
    assert!(call(&shape, &LinearAttentionRows { strength: Some(&[0.0]), ..good }, 60, 24).is_err());
    assert!(call(&shape, &LinearAttentionRows { skip: Some(&[0.0]), ..good }, 60, 24).is_err());
    assert!(call(&shape, &LinearAttentionRows { values: &owned.values[1..], ..good }, 60, 24).is_err());
}
