//! [`Histogram`]: the distribution of a duration.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in microseconds: from a token of a tiny model to a prompt of a large one.
const ENDS: [u64; 17] = [
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// The distribution of a duration.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// By bucket; the last one counts durations above all bounds.
    counts: [AtomicU64; ENDS.len() + 1],
    microseconds: AtomicU64,
}

/// The values of a [`Histogram`] at some time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HistogramCounts {
    /// The upper bound of each bucket, and the number of durations up to it.
    pub(crate) buckets: Vec<(Duration, u64)>,
    /// The number of durations.
    pub(crate) count: u64,
    /// Their sum.
    pub(crate) sum: Duration,
}

impl Histogram {
    /// Counts a duration.
    pub(crate) fn observe(&self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = ENDS.partition_point(|end| *end < microseconds);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// Its values.
    pub(crate) fn counts(&self) -> HistogramCounts {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(ENDS.len());
        for (index, own) in self.counts.iter().enumerate() {
            count += own.load(Ordering::Relaxed);
            if let Some(end) = ENDS.get(index) {
                buckets.push((Duration::from_micros(*end), count));
            }
        }
        let sum = Duration::from_micros(self.microseconds.load(Ordering::Relaxed));
        HistogramCounts { buckets, count, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_where_they_belong_and_buckets_add_up() {
        let histogram = Histogram::default();
        for microseconds in [0, 500, 501, 1_000_000, 299_999_999, 300_000_001] {
            histogram.observe(Duration::from_micros(microseconds));
        }
        let counts = histogram.counts();
        let at =
            |end: u64| counts.buckets.iter().find(|(of, _)| *of == Duration::from_micros(end)).unwrap().1;
        assert_eq!([at(500), at(1_000), at(500_000), at(1_000_000), at(300_000_000)], [2, 3, 3, 4, 5]);
        assert_eq!((counts.count, counts.sum), (6, Duration::from_micros(601_001_001)));
        assert!(ENDS.is_sorted());
    }
}
