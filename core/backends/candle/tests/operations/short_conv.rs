//! The short convolution over steps, against the sum over the whole sequence.

use crate::{backend, layout, noise};
use menagerie_model::{Backend, KvType, PoolOptions, SequenceId, StateId, StatePool, StateSpec, StateStep};

const D: usize = 6;
const L: usize = 4;

fn wanted(x: &[f32], kernel: &[f32]) -> Vec<f64> {
    let value = |i: usize| {
        let (t, d) = (i / D, i % D);
        let taps = (0..L).filter(|j| t + 1 + j >= L);
        taps.map(|j| f64::from(kernel[j * D + d]) * f64::from(x[(t + 1 + j - L) * D + d])).sum()
    };
    (0..x.len()).map(value).collect()
}

#[test]
fn steps_carry_the_last_inputs() {
    let backend = backend();
    let spec = StateSpec::PerSequence { name: "conv".to_owned(), shape: vec![L - 1, D] };
    let kernel = noise(1, D * L);
    let taps = backend.vector("taps", kernel.clone()).unwrap();
    let options = PoolOptions::sequences(KvType::F32, 2, 64);
    let mut pool = StatePool::new(&backend, vec![spec.clone()], options).unwrap();
    let ids: Vec<SequenceId> = (0..2).map(|_| pool.create().unwrap()).collect();
    let inputs = [noise(2, 9 * D), noise(3, 9 * D)];
    let mut outputs: [Vec<f32>; 2] = Default::default();
    let mut done = [0, 0];
    for counts in [[1, 3], [5, 1], [1, 1], [2, 4]] {
        let parts: Vec<_> = (0..2).map(|s| (ids[s], done[s], counts[s])).collect();
        let layout = layout(&parts);
        pool.prepare(&layout).unwrap();
        let rows: Vec<f32> =
            (0..2).flat_map(|s| inputs[s][done[s] * D..(done[s] + counts[s]) * D].to_vec()).collect();
        let x = backend.upload(rows, D).unwrap();
        let step = StateStep { layout: &layout, states: &mut pool };
        let y = backend.short_conv(&x, &taps, StateId(0), step).unwrap();
        let y = backend.read(&y).unwrap();
        outputs[0].extend(&y[..counts[0] * D]);
        outputs[1].extend(&y[counts[0] * D..]);
        for s in 0..2 {
            pool.advance(ids[s], counts[s]).unwrap();
            done[s] += counts[s];
        }
    }
    for (inputs, outputs) in inputs.iter().zip(&outputs) {
        assert_eq!(outputs.len(), inputs.len());
        for (found, wanted) in outputs.iter().zip(wanted(inputs, &kernel)) {
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "{found} instead of {wanted}");
        }
    }
}
