//! A fast check that a row is finite.

/// Index of the first value that is not finite.
pub(crate) fn first_fault(row: &[f32]) -> Option<usize> {
    // If the sum is finite, all values are. If not, large values may be the reason, so each value is checked.
    if total(row).is_finite() {
        return None;
    }
    row.iter().position(|value| !value.is_finite())
}

/// The sum of a row, in any order.
fn total(row: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { total_avx2(row) };
    }
    lanes(row)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn total_avx2(row: &[f32]) -> f32 {
    lanes(row)
}

/// Sixty-four sums in parallel.
#[inline(always)]
fn lanes(row: &[f32]) -> f32 {
    let mut sums = [0.0f32; 64];
    let (whole, rest) = row.as_chunks::<64>();
    for chunk in whole {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
    }
    sums.iter().chain(rest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_found_wherever_it_lies() {
        for len in [1, 63, 64, 65, 300] {
            assert_eq!(first_fault(&vec![f32::MAX; len]), None, "large numbers are numbers");
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in [0, len / 2, len - 1] {
                    let mut row = vec![-1.5; len];
                    row[at] = bad;
                    assert_eq!(first_fault(&row), Some(at));
                }
            }
        }
        assert_eq!(first_fault(&[f32::INFINITY, f32::NEG_INFINITY]), Some(0));
    }
}
