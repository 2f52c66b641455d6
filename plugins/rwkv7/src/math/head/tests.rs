//! The head against plain loops in f64, and against itself in other vectors and cuts.

use super::*;

/// Numbers between -1 and 1.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

struct Case {
    heads: Heads,
    rows: Vec<Vec<f32>>,
    count: usize,
}

fn case(size: usize, heads: usize, count: usize) -> Case {
    let width = size * heads;
    let scaled = |seed, factor: f32| numbers(seed, width).iter().map(|x| x * factor).collect::<Vec<_>>();
    let norm = HeadNorm { weight: scaled(1, 2.0), bias: scaled(2, 0.5), eps: 64e-5 };
    let heads = Heads {
        size,
        decay: scaled(3, 4.0),
        rate: scaled(4, 1.0),
        first_share: Some(scaled(5, 1.0)),
        removal: scaled(6, 1.5),
        key_rate: scaled(7, 1.0),
        bonus: scaled(8, 0.5),
        norm: Some(norm),
    };
    Case { heads, rows: (0..8).map(|i| numbers(20 + i, count * width)).collect(), count }
}

impl Case {
    fn projected(&self) -> Projected<'_> {
        let [receptance, decay, key, value, rate, values, share, gate] = &self.rows[..] else {
            unreachable!()
        };
        let first = Some(FirstValues { values, share });
        Projected { receptance, decay, key, value, rate, first, gate: Some(gate) }
    }

    /// The formulas, one number at a time.
    fn naive(&self, head: usize) -> (Vec<f64>, Vec<f64>) {
        let Heads { size, decay, rate, first_share, removal, key_rate, bonus, norm } = &self.heads;
        let (width, sigmoid) = (decay.len(), |x: f64| 1.0 / (1.0 + (-x).exp()));
        let share_base = first_share.as_ref().unwrap();
        let (mut state, mut out) = (vec![0.0; size * size], Vec::new());
        for t in 0..self.count {
            let get = |i: usize| -> Vec<f64> {
                self.rows[i][t * width + head * size..][..*size].iter().map(|x| f64::from(*x)).collect()
            };
            let own = |x: &[f32], i: usize| f64::from(x[head * size + i]);
            let (r, w, k, v, a, first, share, gate) =
                (get(0), get(1), get(2), get(3), get(4), get(5), get(6), get(7));
            let kk: Vec<f64> = (0..*size).map(|i| k[i] * own(removal, i)).collect();
            let length = kk.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
            let rates: Vec<f64> = (0..*size).map(|i| sigmoid(own(rate, i) + a[i])).collect();
            let keys: Vec<f64> =
                (0..*size).map(|i| k[i] * (1.0 + (rates[i] - 1.0) * own(key_rate, i))).collect();
            let values: Vec<f64> = (0..*size)
                .map(|i| v[i] + (first[i] - v[i]) * sigmoid(own(share_base, i) + share[i]))
                .collect();
            let mut read = vec![0.0; *size];
            for i in 0..*size {
                let row = &mut state[i * size..(i + 1) * size];
                let removed: f64 = row.iter().zip(&kk).map(|(s, kk)| -s * kk / length).sum();
                for j in 0..*size {
                    let decayed = (-(-0.5f64).exp() * sigmoid(own(decay, j) + w[j])).exp();
                    row[j] = row[j] * decayed + values[i] * keys[j] + removed * kk[j] / length * rates[j];
                    read[i] += row[j] * r[j];
                }
            }
            let norm = norm.as_ref().unwrap();
            let mean = read.iter().sum::<f64>() / *size as f64;
            let variance = read.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / *size as f64;
            let extra: f64 = (0..*size).map(|i| r[i] * keys[i] * own(bonus, i)).sum();
            out.extend((0..*size).map(|i| {
                let normed = (read[i] - mean) / (variance + f64::from(norm.eps)).sqrt();
                (normed * own(&norm.weight, i) + own(&norm.bias, i) + extra * values[i]) * gate[i]
            }));
        }
        (out, state)
    }
}

#[test]
fn heads_compute_the_formulas_for_sizes_of_all_kinds() {
    for (size, heads, count) in [(64, 2, 20), (32, 3, 5), (16, 1, 7), (24, 2, 9), (7, 3, 4), (1, 2, 3)] {
        let case = case(size, heads, count);
        for head in 0..heads {
            let (mut state, mut out) = (vec![0.0; size * size], vec![0.0; count * size]);
            let write = |t: usize, row: &[f32]| out[t * size..(t + 1) * size].copy_from_slice(row);
            case.heads.run(head, &case.projected(), 0..count, &mut state, write);
            let (wanted, wanted_state) = case.naive(head);
            for (found, wanted) in out.iter().zip(&wanted).chain(state.iter().zip(&wanted_state)) {
                assert!(
                    (f64::from(*found) - wanted).abs() < 2e-5 * wanted.abs().max(1.0),
                    "{size}: {found} {wanted}"
                );
            }
        }
    }
}

#[test]
fn cuts_and_vectors_change_no_bit() {
    let case = case(48, 2, 11);
    let run = |cuts: &[usize]| {
        let (mut state, mut out) = (vec![0.0; 48 * 48], vec![0.0; 11 * 48]);
        for cut in cuts.windows(2) {
            let rows = cut[0]..cut[1];
            let mut out = out[rows.start * 48..rows.end * 48].chunks_exact_mut(48);
            let write = |_: usize, row: &[f32]| out.next().unwrap().copy_from_slice(row);
            case.heads.run(1, &case.projected(), rows, &mut state, write);
        }
        (out, state)
    };
    let whole = run(&[0, 11]);
    assert_eq!(run(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), whole);
    assert_eq!(run(&[0, 4, 11]), whole);
    let (mut state, mut out) = (vec![0.0; 48 * 48], vec![0.0; 11 * 48]);
    let write = |t: usize, row: &[f32]| out[t * 48..(t + 1) * 48].copy_from_slice(row);
    case.heads.run_plain(1, &case.projected(), 0..11, &mut state, write);
    assert_eq!((out, state), whole);
}
