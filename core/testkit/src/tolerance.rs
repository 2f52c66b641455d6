//! Comparisons of numbers: three meanings of "the same".

/// Largest absolute difference; infinite if a value is not a number.
pub fn max_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len(), "lengths differ");
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most, d| if d.is_nan() { f32::INFINITY } else { most.max(d) })
}

/// Fails if the difference of a value to the expected one exceeds `tolerance`.
pub fn assert_close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}: {} values, expected {}", found.len(), expected.len());
    let worst = found.iter().zip(expected).enumerate().max_by(|(_, (a, b)), (_, (c, d))| {
        let (first, second) = ((*a - *b).abs(), (*c - *d).abs());
        first.partial_cmp(&second).unwrap_or_else(|| first.is_nan().cmp(&second.is_nan()))
    });
    if let Some((index, (a, b))) = worst {
        let close = (a - b).abs() <= tolerance;
        assert!(close, "{what}: value {index} is {a}, expected {b} (tolerance {tolerance})");
    }
}

/// Fails if two values differ in any bit.
pub fn assert_equal_bits(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths differ");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "{what}: value {index} is {a:e}, expected {b:e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_is_never_close() {
        assert_eq!(max_difference(&[1.0, f32::NAN], &[1.0, 2.0]), f32::INFINITY);
        assert!(std::panic::catch_unwind(|| assert_close("x", &[f32::NAN], &[1.0], 9.0)).is_err());
        assert_close("x", &[1.0, 2.0], &[1.0, 2.05], 0.1);
    }
}
