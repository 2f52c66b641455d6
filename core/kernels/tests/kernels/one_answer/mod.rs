//! One answer: a row's result is the same bits alone and next to any other rows, at any place, on any number of threads
//! and on every instruction set: those of `menagerie_kernels_check::ordered`.

mod attention;
mod elementwise;
mod floats;
mod quantized;
mod special;

use menagerie_kernels::*;

/// The bits of numbers; one pattern for every NaN, because processors have several.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| if v.is_nan() { f32::NAN.to_bits() } else { v.to_bits() }).collect()
}

/// The bits of a product.
fn product(cpu: &Cpu, arithmetic: Arithmetic, w: &Matrix, x: &[f32]) -> Vec<u32> {
    let (tokens, cache) = (x.len() / w.cols(), ActivationCache::default());
    let a = Activations::new(x, tokens, w.cols(), &cache).unwrap();
    let mut y = vec![f32::from_bits(0x7fc0_dead); tokens * w.rows()];
    matmul(cpu, arithmetic, w, &a, &mut y).unwrap();
    assert!(y.iter().all(|v| v.to_bits() != 0x7fc0_dead), "results that nobody wrote");
    bits(&y)
}

/// Every instruction set of this machine on some numbers of threads.
fn cpus(threads: &[usize]) -> Vec<Cpu> {
    let with = |isa: Isa| threads.iter().map(move |&threads| Cpu::with_isa(Some(threads), isa).unwrap());
    Isa::available().into_iter().flat_map(with).collect()
}

/// Reports how many differ if any does.
pub(crate) fn compare(found: &[u32], expected: &[u32], what: impl Fn() -> String, faults: &mut Vec<String>) {
    assert_eq!(found.len(), expected.len(), "{}", what());
    let mut wrong = (0..found.len()).filter(|&i| found[i] != expected[i]);
    if let Some(first) = wrong.next() {
        let [a, b] = [found, expected].map(|bits| f32::from_bits(bits[first]));
        let count = 1 + wrong.count();
        faults.push(format!("{}: {count} of {} differ, {first}: {a:e} for {b:e}", what(), found.len()));
    }
}
