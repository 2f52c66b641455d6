//! The selective scan against f64, whole and in pieces.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;
use menagerie_kernels_check::ordered::selective_scan::{self as ordered, SelectiveScanFault};
use menagerie_random::SplitMix64;

use crate::one_answer::{bits, compare};

/// Owned rows.
struct Rows {
    x: Vec<f32>,
    dt: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    a: Vec<f32>,
    skip: Vec<f32>,
}

impl Rows {
    fn of([rows, channels, size]: [usize; 3]) -> Rows {
        let mut random = SplitMix64::new(5);
        let mut floats = |count: usize| -> Vec<f32> { (0..count).map(|_| random.signed()).collect() };
        let positive = |x: Vec<f32>| x.into_iter().map(f32::abs).collect::<Vec<f32>>();
        let (x, dt) = (floats(rows * channels), positive(floats(rows * channels)));
        let (b, c) = (floats(rows * size), floats(rows * size));
        let a = positive(floats(size * channels)).into_iter().map(|a| -16.0 * a).collect();
        Rows { x, dt, b, c, a, skip: floats(channels) }
    }

    fn part(&self, first: usize, end: usize) -> SelectiveScan<'_> {
        let channels = self.skip.len();
        let size = self.a.len() / channels;
        SelectiveScan {
            x: &self.x[first * channels..end * channels],
            dt: &self.dt[first * channels..end * channels],
            b: &self.b[first * size..end * size],
            c: &self.c[first * size..end * size],
            a: &self.a,
            skip: &self.skip,
        }
    }
}

#[test]
fn odd_numbers_of_channels_and_states_match_f64() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for sizes in [[1, 1, 1], [3, 7, 2], [2, 16, 16], [20, 100, 5], [33, 200, 16]] {
            let [rows, channels, size] = sizes;
            let owned = Rows::of(sizes);
            let mut random = SplitMix64::new(9);
            let mut state: Vec<f32> = (0..size * channels).map(|_| random.signed()).collect();
            let mut wide: Vec<f64> = state.iter().map(|x| f64::from(*x)).collect();
            let (mut out, mut wanted) = (vec![f32::NAN; rows * channels], vec![0.0; rows * channels]);
            naive::selective_scan::selective_scan(&owned.part(0, rows), &mut wide, &mut wanted);
            selective_scan(&cpu, &owned.part(0, rows), &mut state, &mut out).unwrap();
            let wide: Vec<f32> = wide.into_iter().map(|x| x as f32).collect();
            for (got, wanted) in out.iter().zip(&wanted).chain(state.iter().zip(&wide)) {
                assert!(
                    (got - wanted).abs() <= 4e-6 * wanted.abs().max(1.0),
                    "{isa} {sizes:?}: {got} {wanted}"
                );
            }
        }
    }
}

#[test]
fn a_sequence_in_pieces_is_the_sequence() {
    let (rows, channels, size) = (29, 150, 16);
    let owned = Rows::of([rows, channels, size]);
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        let run = |piece: usize| {
            let (mut state, mut out) = (vec![0.0; size * channels], vec![0.0; rows * channels]);
            for (index, out) in out.chunks_mut(piece * channels).enumerate() {
                let input = owned.part(index * piece, ((index + 1) * piece).min(rows));
                selective_scan(&cpu, &input, &mut state, out).unwrap();
            }
            (state, out)
        };
        let whole = run(rows);
        assert!(whole.1.iter().any(|&v| v != 0.0));
        for piece in [1, 2, 3, 10] {
            assert!(run(piece) == whole, "{isa}: pieces of {piece}");
        }
    }
}

/// The state and the results of all rows in the order that `ordered` defines.
fn in_order(owned: &Rows, [rows, channels, size]: [usize; 3], fault: Option<SelectiveScanFault>) -> Vec<f32> {
    let (mut state, mut out) = (vec![0.25; size * channels], vec![f32::NAN; rows * channels]);
    ordered::faulty_selective_scan(&owned.part(0, rows), &mut state, &mut out, fault);
    [state, out].concat()
}

#[test]
fn every_form_has_one_order() {
    let mut faults = Vec::new();
    for sizes in [[1, 1, 1], [3, 7, 2], [20, 100, 5], [13, 200, 16], [70, 33, 16]] {
        let [rows, channels, size] = sizes;
        let owned = Rows::of(sizes);
        let expected = in_order(&owned, sizes, None);
        for isa in Isa::available() {
            for (threads, piece) in [(1, rows), (3, 1), (2, 2), (7, 7), (1, 69)] {
                let cpu = Cpu::with_isa(Some(threads), isa).unwrap();
                let (mut state, mut out) = (vec![0.25; size * channels], vec![f32::NAN; rows * channels]);
                for (index, out) in out.chunks_mut(piece * channels).enumerate() {
                    let input = owned.part(index * piece, ((index + 1) * piece).min(rows));
                    selective_scan(&cpu, &input, &mut state, out).unwrap();
                }
                let found = [state, out].concat();
                compare(
                    &bits(&found),
                    &bits(&expected),
                    || format!("{isa} {sizes:?} in {piece}s"),
                    &mut faults,
                );
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The comparison above can fail: another order differs from that of the kernel, on every instruction set.
#[test]
fn another_order_is_told_from_this_one() {
    let sizes = [9, 40, 16];
    let owned = Rows::of(sizes);
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(1), isa).unwrap();
        let (mut state, mut out) = (vec![0.25; 40 * 16], vec![f32::NAN; 9 * 40]);
        selective_scan(&cpu, &owned.part(0, 9), &mut state, &mut out).unwrap();
        let found = [state, out].concat();
        assert_eq!(bits(&found), bits(&in_order(&owned, sizes, None)));
        for fault in SelectiveScanFault::ALL {
            assert_ne!(bits(&found), bits(&in_order(&owned, sizes, Some(fault))), "{isa} {fault:?}");
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let owned = Rows::of([2, 6, 3]);
    let call = |input: &SelectiveScan, state: usize, out: usize| {
        selective_scan(&cpu, input, &mut vec![0.0; state], &mut vec![0.0; out])
    };
    let good = owned.part(0, 2);
    assert!(call(&good, 18, 12).is_ok());
    assert!(call(&good, 17, 12).is_err());
    assert!(call(&good, 18, 6).is_err());
    assert!(call(&SelectiveScan { x: &owned.x[1..], ..good }, 18, 12).is_err());
    assert!(call(&SelectiveScan { dt: &owned.dt[1..], ..good }, 18, 12).is_err());
    assert!(call(&SelectiveScan { b: &owned.b[1..], ..good }, 18, 12).is_err());
    assert!(call(&SelectiveScan { c: &owned.c[1..], ..good }, 18, 12).is_err());
    assert!(call(&SelectiveScan { a: &owned.a[1..], ..good }, 18, 12).is_err());
    assert!(call(&SelectiveScan { skip: &[], ..good }, 18, 12).is_err());
}
