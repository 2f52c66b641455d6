//! [`Trace`]: how long the parts of steps take, and how many bytes of weights they read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The parts of a step that are timed. Those of a block are within [`Part::Layer`], all but the last two within
/// [`Part::Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Rows of tokens.
    Embedding,
    /// The norms of a block: before, after and between its branches. Norms within a mixer or a feed-forward count as
    /// part of those.
    Norm,
    /// Attention, recurrences.
    Mixer,
    /// Feed-forwards, experts and their routers.
    FeedForward,
    /// A whole block with its hooks.
    Layer,
    /// Final norm and logits.
    Head,
    /// A whole forward.
    Step,
    /// Choosing a token and its text.
    Sampling,
    /// A request, from its beginning to its end.
    Request,
}

impl Part {
    /// All of them, in the order above.
    pub const ALL: [Self; 9] = [
        Self::Embedding,
        Self::Norm,
        Self::Mixer,
        Self::FeedForward,
        Self::Layer,
        Self::Head,
        Self::Step,
        Self::Sampling,
        Self::Request,
    ];

    /// Its name in tables and trace files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Norm => "norm",
            Self::Mixer => "mixer",
            Self::FeedForward => "feed-forward",
            Self::Layer => "layer",
            Self::Head => "head",
            Self::Step => "step",
            Self::Sampling => "sampling",
            Self::Request => "request",
        }
    }
}

/// Which part of which step a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanKey {
    /// The part.
    pub part: Part,
    /// The layer, of parts of a block.
    pub layer: Option<u32>,
    /// Whether every sequence of the step was generating; otherwise a prompt was computed.
    pub decodes: bool,
    /// Rows of the step.
    pub rows: u32,
}

/// A part of a step, when and how long it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it is.
    pub of: SpanKey,
    /// When it began, from the beginning of the trace.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
    /// Bytes of stored weights that it read, each once.
    pub bytes: u64,
}

/// All spans of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanSum {
    /// How many.
    pub count: u64,
    /// Their rows.
    pub rows: u64,
    /// Their time.
    pub time: Duration,
    /// Their bytes.
    pub bytes: u64,
}

/// All spans of one part of one phase, of a layer or outside of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSum {
    /// Whether every sequence of their steps was generating; otherwise prompts were computed.
    pub decodes: bool,
    /// The layer, of parts of a block.
    pub layer: Option<u32>,
    /// The part.
    pub part: Part,
    /// Their sum.
    pub sum: SpanSum,
}

/// A span that has begun.
#[derive(Clone, Copy, Debug)]
pub struct OpenSpan {
    at: Instant,
    bytes: u64,
}

/// The key of a sum: whether it decodes, the layer, the part.
type Key = (bool, Option<u32>, Part);

/// Collects spans of one process or stage; sums include all spans, single spans are kept up to a limit.
#[derive(Debug)]
pub struct Trace {
    /// Its number, from 1 in every process; no two traces of a process share one.
    pub number: u64,
    begun: Instant,
    /// When it began by the clock of its machine, by which traces of several processes are aligned.
    pub begun_at: SystemTime,
    /// The most single spans that it keeps.
    pub most: usize,
    read: AtomicU64,
    kept: Mutex<TraceRecords>,
}

#[derive(Debug, Default)]
struct TraceRecords {
    spans: Vec<Span>,
    sums: BTreeMap<Key, SpanSum>,
    left_out: u64,
}

impl Trace {
    /// A trace that begins now and keeps at most `most` single spans.
    pub fn new(most: usize) -> Self {
        Self::with(most, None, TraceRecords::default())
    }

    /// A trace that was recorded elsewhere and began at this time.
    pub fn restored(
        begun_at: SystemTime,
        spans: Vec<Span>,
        sums: impl IntoIterator<Item = PartSum>,
        left_out: u64,
    ) -> Self {
        let sums =
            sums.into_iter().map(|PartSum { decodes, layer, part, sum }| ((decodes, layer, part), sum));
        let most = spans.len();
        Self::with(most, Some(begun_at), TraceRecords { spans, sums: sums.collect(), left_out })
    }

    fn with(most: usize, begun_at: Option<SystemTime>, kept: TraceRecords) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed) + 1;
        let (begun, now) = both_clocks();
        let (read, kept) = (AtomicU64::new(0), Mutex::new(kept));
        let begun_at = begun_at.unwrap_or(now);
        Self { number, begun, begun_at, most, read, kept }
    }

    /// Begins a span.
    pub fn begin(&self) -> OpenSpan {
        OpenSpan { at: Instant::now(), bytes: self.read.load(Ordering::Relaxed) }
    }

    /// Ends a span.
    pub fn end(&self, begun: OpenSpan, of: SpanKey) {
        let time = begun.at.elapsed();
        let bytes = self.read.load(Ordering::Relaxed).wrapping_sub(begun.bytes);
        let start = begun.at.saturating_duration_since(self.begun);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = kept.sums.entry((of.decodes, of.layer, of.part)).or_default();
        sum.count += 1;
        sum.rows += u64::from(of.rows);
        sum.time += time;
        sum.bytes += bytes;
        match kept.spans.len() < self.most {
            true => kept.spans.push(Span { of, start, time, bytes }),
            false => kept.left_out += 1,
        }
    }

    /// Records that so many bytes of stored weights were read.
    pub fn reads(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The single spans that were kept, in the order in which they ended; and how many were not kept.
    pub fn spans(&self) -> (Vec<Span>, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.spans.clone(), kept.left_out)
    }

    /// All sums.
    pub fn sums(&self) -> Vec<PartSum> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(&(decodes, layer, part), &sum): (&Key, &SpanSum)| PartSum { decodes, layer, part, sum };
        kept.sums.iter().map(of).collect()
    }

    /// The sum of a part, of a layer or outside of layers, while generating or not.
    pub fn sum(&self, part: Part, layer: Option<u32>, decodes: bool) -> SpanSum {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sums.get(&(decodes, layer, part)).copied().unwrap_or_default()
    }
}

/// Two clocks at the same time: a delay between reading one and the other would shift traces against each other.
fn both_clocks() -> (Instant, SystemTime) {
    let read = || {
        let (begun, at) = (Instant::now(), SystemTime::now());
        (begun.elapsed(), begun, at)
    };
    let closest = (1..8).fold(read(), |closest, _| {
        let next = read();
        if next.0 < closest.0 { next } else { closest }
    });
    (closest.1, closest.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_all_spans_and_single_ones_are_bounded() {
        let trace = Trace::new(2);
        for rows in 1..4 {
            let begun = trace.begin();
            trace.reads(10);
            trace.end(begun, SpanKey { part: Part::Mixer, layer: Some(3), decodes: true, rows });
        }
        let sum = trace.sum(Part::Mixer, Some(3), true);
        assert_eq!((sum.count, sum.rows, sum.bytes), (3, 6, 30));
        assert_eq!(trace.sum(Part::Mixer, Some(3), false), SpanSum::default());
        let (spans, left_out) = trace.spans();
        assert_eq!((spans.len(), left_out), (2, 1));
        assert!(spans[0].start <= spans[1].start && spans[0].bytes == 10);
    }

    #[test]
    fn what_was_noted_elsewhere_is_the_same() {
        let trace = Trace::new(1);
        for part in Part::ALL {
            trace.end(trace.begin(), SpanKey { part, layer: Some(1), decodes: false, rows: 2 });
        }
        let (spans, left_out) = trace.spans();
        let other = Trace::restored(trace.begun_at, spans.clone(), trace.sums(), left_out);
        assert_eq!(other.spans(), (spans, 8));
        assert_eq!((other.sums(), other.begun_at), (trace.sums(), trace.begun_at));
        assert_ne!(other.number, trace.number);
    }
}
