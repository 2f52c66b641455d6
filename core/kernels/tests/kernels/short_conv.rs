//! The convolution against f64, whole and in pieces.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;
use menagerie_kernels_check::ordered::short_conv::{self as ordered, ShortConvFault};
use menagerie_random::SplitMix64;

use crate::one_answer::{bits, compare};

fn wave(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|i| (i * step % 211) as f32 / 100.0 - 1.0).collect()
}

#[test]
fn odd_widths_and_numbers_of_taps_match_f64() {
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        for (channels, taps, rows) in [(1, 1, 3), (5, 2, 1), (16, 3, 7), (40, 3, 2), (2050, 4, 33)] {
            let (kernel, x) = (wave(channels * taps, 37), wave(rows * channels, 53));
            let mut state = wave((taps - 1) * channels, 71);
            let mut naive_state = state.clone();
            let (mut out, mut wanted) = (vec![f32::NAN; x.len()], vec![0.0; x.len()]);
            naive::short_conv::short_conv(&kernel, taps, &x, &mut naive_state, &mut wanted);
            short_conv(&cpu, &kernel, taps, &x, &mut state, &mut out).unwrap();
            assert_eq!(state, naive_state, "{isa} {channels} {taps} {rows}");
            for (i, (got, wanted)) in out.iter().zip(&wanted).enumerate() {
                assert!((got - wanted).abs() <= 1e-6, "{isa} {channels} {taps} {i}: {got} {wanted}");
            }
        }
    }
}

#[test]
fn a_sequence_in_pieces_is_the_sequence() {
    let (channels, taps, rows) = (100, 4, 29);
    let (kernel, x) = (wave(channels * taps, 37), wave(rows * channels, 53));
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(2), isa).unwrap();
        let run = |piece: usize| {
            let (mut state, mut out) = (vec![0.0; (taps - 1) * channels], vec![0.0; x.len()]);
            for (x, out) in x.chunks(piece * channels).zip(out.chunks_mut(piece * channels)) {
                short_conv(&cpu, &kernel, taps, x, &mut state, out).unwrap();
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

#[test]
fn every_form_has_one_order() {
    let mut faults = Vec::new();
    for (channels, taps, rows) in [(1, 1, 3), (5, 2, 1), (40, 3, 9), (2050, 4, 13), (33, 4, 70)] {
        let (kernel, x) = (wave(channels * taps, 37), wave(rows * channels, 53));
        let before = wave((taps - 1) * channels, 71);
        let (mut state, mut expected) = (before.clone(), vec![f32::NAN; x.len()]);
        ordered::short_conv(&kernel, taps, &x, &mut state, &mut expected);
        for isa in Isa::available() {
            for (threads, piece) in [(1, rows), (3, 1), (2, 2), (7, 17), (1, 69)] {
                let cpu = Cpu::with_isa(Some(threads), isa).unwrap();
                let (mut state, mut out) = (before.clone(), vec![f32::NAN; x.len()]);
                for (x, out) in x.chunks(piece * channels).zip(out.chunks_mut(piece * channels)) {
                    short_conv(&cpu, &kernel, taps, x, &mut state, out).unwrap();
                }
                compare(
                    &bits(&out),
                    &bits(&expected),
                    || format!("{isa} {channels} {taps} in {piece}s"),
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
    let (channels, taps, rows) = (40, 4, 9);
    let mut random = SplitMix64::new(3);
    let mut floats = |count: usize| -> Vec<f32> { (0..count).map(|_| random.signed()).collect() };
    let (kernel, x) = (floats(channels * taps), floats(rows * channels));
    let before = floats((taps - 1) * channels);
    let in_order = |fault| {
        let (mut state, mut out) = (before.clone(), vec![f32::NAN; x.len()]);
        ordered::faulty_short_conv((&kernel, taps), &x, &mut state, &mut out, fault);
        bits(&out)
    };
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(1), isa).unwrap();
        let (mut state, mut out) = (before.clone(), vec![f32::NAN; x.len()]);
        short_conv(&cpu, &kernel, taps, &x, &mut state, &mut out).unwrap();
        assert_eq!(bits(&out), in_order(None));
        for fault in ShortConvFault::ALL {
            assert_ne!(bits(&out), in_order(Some(fault)), "{isa} {fault:?}");
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let call = |kernel: usize, taps: usize, x: usize, state: usize, out: usize| {
        let [kernel, x] = [kernel, x].map(|len| vec![0.0; len]);
        short_conv(&cpu, &kernel, taps, &x, &mut vec![0.0; state], &mut vec![0.0; out])
    };
    assert!(call(12, 3, 8, 8, 8).is_ok());
    assert!(call(12, 3, 0, 8, 0).is_ok());
    assert!(call(12, 0, 8, 8, 8).is_err());
    assert!(call(0, 3, 8, 0, 8).is_err());
    assert!(call(13, 3, 8, 8, 8).is_err());
    assert!(call(12, 3, 7, 8, 7).is_err());
    assert!(call(12, 3, 8, 4, 8).is_err());
    assert!(call(12, 3, 8, 8, 4).is_err());
}
