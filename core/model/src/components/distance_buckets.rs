//! [`DistanceBuckets`]: biases by distance, which far distances share (T5).

/// Distances in buckets (Raffel et al., 2020; `_relative_position_bucket` of transformers): near ones have one each,
/// farther ones share them; buckets widen with the distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistanceBuckets {
    /// Buckets in all.
    pub count: usize,
    /// The distance from which on all share the last bucket.
    pub farthest: usize,
    /// Whose distances there are.
    pub sides: BucketSides,
}

/// The sides of a query on which keys have buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketSides {
    /// Before it, and its own position: later keys share its bucket.
    Before,
    /// Half of the buckets for those before it and its own, half for those after it.
    Both,
}

impl DistanceBuckets {
    /// The bucket of a key `distance` positions after the query, below `count`; in f32, as the models were trained.
    pub fn of(self, distance: i64) -> usize {
        let (side, first) = match self.sides {
            BucketSides::Before => (self.count, 0),
            BucketSides::Both if distance > 0 => (self.count / 2, self.count / 2),
            BucketSides::Both => (self.count / 2, 0),
        };
        let far = match self.sides {
            BucketSides::Before => distance.min(0).unsigned_abs(),
            BucketSides::Both => distance.unsigned_abs(),
        };
        let near = side / 2;
        let far = usize::try_from(far).unwrap_or(usize::MAX);
        if far < near || side == 0 {
            return first + far.min(side.saturating_sub(1));
        }
        let whole = libm::log(self.farthest as f64 / near.max(1) as f64) as f32;
        let share = libm::logf(far as f32 / near.max(1) as f32) / whole * (side - near) as f32;
        first + near.saturating_add(share as usize).min(side - 1)
    }

    /// A table `[count, heads]` of learned values, converted to one by distance, `[heads, 2 * farthest + 1]`: the
    /// argument of [`Attention::with_distances`](super::Attention::with_distances). Missing rows are 0.
    pub fn by_distance(self, table: &[f32], heads: usize) -> Vec<f32> {
        let farthest = i64::try_from(self.farthest).unwrap_or(i64::MAX);
        let buckets: Vec<usize> = (-farthest..=farthest).map(|distance| self.of(distance)).collect();
        let value = |head: usize, bucket: usize| table.get(bucket * heads + head).copied().unwrap_or(0.0);
        (0..heads).flat_map(|head| buckets.iter().map(move |bucket| value(head, *bucket))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of one bucket, each with its length, from `-farthest` to `farthest`.
    fn runs(buckets: DistanceBuckets) -> Vec<(usize, usize)> {
        let farthest = buckets.farthest as i64;
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for bucket in (-farthest..=farthest).map(|distance| buckets.of(distance)) {
            match runs.last_mut() {
                Some((last, length)) if *last == bucket => *length += 1,
                _ => runs.push((bucket, 1)),
            }
        }
        runs
    }

    /// Lengths of the runs from transformers 5.23, `T5Attention._relative_position_bucket`.
    #[test]
    fn buckets_are_those_of_transformers() {
        let cases = [
            (
                32,
                128,
                BucketSides::Both,
                vec![
                    38, 27, 18, 14, 9, 7, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 7, 9, 14,
                    18, 27, 38,
                ],
            ),
            (
                32,
                128,
                BucketSides::Before,
                vec![
                    16, 14, 12, 10, 10, 8, 7, 6, 6, 5, 4, 4, 3, 3, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                    1, 1, 1, 129,
                ],
            ),
            (16, 128, BucketSides::Both, vec![75, 31, 13, 6, 1, 1, 1, 1, 1, 1, 1, 6, 13, 31, 75]),
            (
                64,
                256,
                BucketSides::Both,
                vec![
                    41, 34, 29, 25, 20, 17, 14, 13, 10, 8, 7, 7, 5, 4, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 3, 4, 5, 7, 7, 8, 10, 13,
                    14, 17, 20, 25, 29, 34, 41,
                ],
            ),
            (8, 32, BucketSides::Both, vec![25, 6, 1, 1, 1, 6, 25]),
            (12, 100, BucketSides::Both, vec![69, 22, 7, 1, 1, 1, 1, 1, 7, 22, 69]),
            (
                32,
                1000,
                BucketSides::Both,
                vec![
                    454, 247, 136, 74, 41, 22, 12, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7, 12, 22,
                    41, 74, 136, 247, 454,
                ],
            ),
        ];
        for (count, farthest, sides, lengths) in cases {
            let side = if sides == BucketSides::Both { count / 2 } else { count };
            let after = (side + 1..count).take(side - 1);
            let wanted: Vec<(usize, usize)> = (0..side).rev().chain(after).zip(lengths).collect();
            assert_eq!(
                runs(DistanceBuckets { count, farthest, sides }),
                wanted,
                "{count} {farthest} {sides:?}"
            );
        }
    }

    #[test]
    fn far_keys_share_the_last_bucket_and_few_buckets_do_not_panic() {
        let both = DistanceBuckets { count: 32, farthest: 128, sides: BucketSides::Both };
        assert_eq!([both.of(i64::MIN), both.of(-129), both.of(129), both.of(i64::MAX)], [15, 15, 31, 31]);
        for sides in [BucketSides::Before, BucketSides::Both] {
            for count in 0..5 {
                for farthest in 0..5 {
                    let buckets = DistanceBuckets { count, farthest, sides };
                    assert!((-9..9).all(|distance| buckets.of(distance) < count.max(1)));
                }
            }
        }
    }

    #[test]
    fn a_table_by_distance_has_the_values_of_the_buckets() {
        let buckets = DistanceBuckets { count: 4, farthest: 3, sides: BucketSides::Both };
        // Two heads: 0.0, 1.0, ... and 10.0, 11.0, ...
        let table = [0.0, 10.0, 1.0, 11.0, 2.0, 12.0, 3.0, 13.0];
        let wanted = [1.0, 1.0, 1.0, 0.0, 3.0, 3.0, 3.0, 11.0, 11.0, 11.0, 10.0, 13.0, 13.0, 13.0];
        assert_eq!(buckets.by_distance(&table, 2), wanted);
    }
}
