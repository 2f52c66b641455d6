//! The base models on the CPU.
#![allow(missing_docs)]

use menagerie::pipeline::Arithmetic;
use menagerie_conformance::{base_models, distance, options};

base_models!(options(Arithmetic::Fast));

/// A value that is no number must not vanish behind the numbers after it.
#[test]
fn the_distance_sees_what_is_no_number() {
    let reference = [1.0, 2.0, 3.0, 4.0];
    for at in 0..4 {
        let mut found = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        found[at / 2][at % 2] = f32::NAN;
        assert!(distance(&found, &reference).is_nan());
    }
    assert_eq!(distance(&[vec![1.0, 2.5], vec![3.0, 4.0]], &reference), 0.5);
}
