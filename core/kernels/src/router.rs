//! Selecting the experts of a token.

/// The indices of the `k` largest scores, largest first; of equal scores the lower index comes first; what is not
/// a number comes last. `out` is overwritten and has `min(k, scores.len())` entries.
pub fn top_k(scores: &[f32], k: usize, out: &mut Vec<u32>) {
    out.clear();
    let key = |index: u32| {
        let score = scores[index as usize];
        if score.is_nan() { f32::NEG_INFINITY } else { score }
    };
    for index in 0..scores.len() as u32 {
        let place = out.partition_point(|&better| key(better) >= key(index));
        if place < k {
            out.truncate(k - 1);
            out.insert(place, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive::pointwise;

    #[test]
    fn ties_go_to_the_lower_index() {
        let mut out = vec![9, 9];
        top_k(&[1.0, 3.0, 2.0, 3.0, 3.0], 2, &mut out);
        assert_eq!(out, [1, 3]);
        top_k(&[0.0; 5], 3, &mut out);
        assert_eq!(out, [0, 1, 2]);
        top_k(&[1.0, 2.0], 5, &mut out);
        assert_eq!(out, [1, 0]);
        top_k(&[1.0, 2.0], 0, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn it_is_the_beginning_of_the_sorted_order() {
        let scores: Vec<f32> = (0..257).map(|i| (i * 7919 % 64) as f32).collect();
        let mut out = Vec::new();
        for k in [1, 2, 8, 100, 257] {
            top_k(&scores, k, &mut out);
            assert_eq!(out, pointwise::top_k(&scores, k));
        }
    }

    #[test]
    fn what_is_not_a_number_comes_last() {
        let mut out = Vec::new();
        top_k(&[f32::NAN, 1.0, f32::INFINITY, -1.0], 3, &mut out);
        assert_eq!(out, [2, 1, 3]);
    }
}
