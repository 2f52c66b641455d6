//! The trace of a stage in pieces: [`pieces`] makes them and [`TraceParts`] joins them.

use crate::frame::payload::{PayloadReader, PayloadWriter};
use menagerie_model::{Part, PartSum, Span, SpanKey, SpanSum, Trace};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Spans in a piece.
const SPANS: usize = 16_384;

/// Passes a trace to `piece` in pieces: first its start time and sums, then its spans.
pub(crate) fn pieces<E>(trace: &Trace, piece: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let (spans, left_out) = trace.spans();
    let begun = trace.begun_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut out = PayloadWriter::default();
    out.u8(0);
    out.u64(begun.as_micros() as u64);
    out.u64(left_out);
    let sums = trace.sums();
    out.count(sums.len());
    sums.iter().for_each(|sum| put_sum(sum, &mut out));
    piece(&out.0)?;
    for some in spans.chunks(SPANS) {
        let mut out = PayloadWriter::default();
        out.u8(1);
        out.count(some.len());
        some.iter().for_each(|span| put_span(span, &mut out));
        piece(&out.0)?;
    }
    Ok(())
}

fn put_of(part: Part, layer: Option<u32>, decodes: bool, out: &mut PayloadWriter) {
    out.u8(Part::ALL.iter().position(|one| *one == part).unwrap_or(0) as u8);
    out.u8(u8::from(decodes));
    out.u32(layer.unwrap_or(u32::MAX));
}

fn put_sum(PartSum { decodes, layer, part, sum }: &PartSum, out: &mut PayloadWriter) {
    put_of(*part, *layer, *decodes, out);
    let SpanSum { count, rows, time, bytes } = *sum;
    [count, rows, time.as_nanos() as u64, bytes].into_iter().for_each(|number| out.u64(number));
}

fn put_span(Span { of, start, time, bytes }: &Span, out: &mut PayloadWriter) {
    let SpanKey { part, layer, decodes, rows } = *of;
    put_of(part, layer, decodes, out);
    out.u32(rows);
    [start.as_nanos() as u64, time.as_nanos() as u64, *bytes].into_iter().for_each(|number| out.u64(number));
}

fn of(from: &mut PayloadReader) -> Result<(Part, Option<u32>, bool), String> {
    let part = from.u8()?;
    let part = Part::ALL.get(usize::from(part)).copied();
    let part = part.ok_or("unknown part of a step")?;
    let decodes = from.u8()? == 1;
    let layer = Some(from.u32()?).filter(|layer| *layer != u32::MAX);
    Ok((part, layer, decodes))
}

fn sum(from: &mut PayloadReader) -> Result<PartSum, String> {
    let (part, layer, decodes) = of(from)?;
    let (count, rows) = (from.u64()?, from.u64()?);
    let (time, bytes) = (Duration::from_nanos(from.u64()?), from.u64()?);
    Ok(PartSum { decodes, layer, part, sum: SpanSum { count, rows, time, bytes } })
}

fn span(from: &mut PayloadReader) -> Result<Span, String> {
    let (part, layer, decodes) = of(from)?;
    let rows = from.u32()?;
    let (start, time) = (Duration::from_nanos(from.u64()?), Duration::from_nanos(from.u64()?));
    Ok(Span { of: SpanKey { part, layer, decodes, rows }, start, time, bytes: from.u64()? })
}

/// The received pieces of a trace.
#[derive(Default)]
pub(crate) struct TraceParts {
    begun: Option<SystemTime>,
    left_out: u64,
    sums: Vec<PartSum>,
    spans: Vec<Span>,
}

impl TraceParts {
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<(), String> {
        let mut from = PayloadReader::new(piece);
        match from.u8()? {
            0 => {
                self.begun = Some(UNIX_EPOCH + Duration::from_micros(from.u64()?));
                self.left_out = from.u64()?;
                let count = from.count(38)?;
                self.sums = (0..count).map(|_| sum(&mut from)).collect::<Result<_, _>>()?;
            }
            1 => {
                let count = from.count(34)?;
                self.spans.reserve(count);
                for _ in 0..count {
                    self.spans.push(span(&mut from)?);
                }
            }
            kind => return Err(format!("unknown kind {kind} of trace piece")),
        }
        from.end()
    }

    /// The trace; `None` if the stage recorded none.
    pub(crate) fn finish(self) -> Option<Trace> {
        let Self { begun, left_out, sums, spans } = self;
        Some(Trace::restored(begun?, spans, sums, left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_round_trips_and_is_never_read_past_its_end() {
        let trace = Trace::new(20_000);
        for rows in 0..20_007 {
            let part = Part::ALL[rows as usize % Part::ALL.len()];
            let layer = (rows % 2 == 0).then_some(rows % 5);
            trace.reads(u64::from(rows));
            trace.end(trace.begin(), SpanKey { part, layer, decodes: rows % 3 == 0, rows });
        }
        let (mut parts, mut count) = (TraceParts::default(), 0);
        pieces(&trace, &mut |piece| {
            for cut in [1, piece.len() / 2, piece.len() - 1] {
                assert!(TraceParts::default().take(&piece[..cut]).is_err(), "{cut} bytes");
            }
            count += 1;
            parts.take(piece)
        })
        .unwrap();
        let other = parts.finish().unwrap();
        assert_eq!(count, 3);
        assert_eq!((other.spans(), other.sums()), (trace.spans(), trace.sums()));
        let apart = other.begun_at.duration_since(trace.begun_at).unwrap_or_else(|error| error.duration());
        assert!(apart < Duration::from_micros(2), "{apart:?}");
        assert!(TraceParts::default().finish().is_none());
    }
}
