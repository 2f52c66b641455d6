//! Reports of a [`Trace`]: a table of parts, and a file for trace viewers.

use crate::hooks::{PipelineLifecycle, RequestEnd, RequestId, RequestKind};
use menagerie_model::{OpenSpan, Part, SpanKey, SpanSum, StageTrace, Trace};
use serde_json::json;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Records requests in a trace, from start to end.
pub struct RequestSpans {
    trace: Arc<Trace>,
    begun: Mutex<Vec<(RequestId, OpenSpan)>>,
}

impl RequestSpans {
    /// Records them in this trace.
    pub fn new(trace: Arc<Trace>) -> Self {
        Self { trace, begun: Mutex::default() }
    }
}

impl PipelineLifecycle for RequestSpans {
    fn begins(&self, request: RequestId, _: RequestKind) {
        let begun = (request, self.trace.begin());
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(begun);
    }

    fn ends(&self, request: RequestId, end: &RequestEnd) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = begun.iter().position(|(known, _)| *known == request) else { return };
        let (_, begun) = begun.swap_remove(at);
        let rows = match end {
            RequestEnd::Finished(outcome) => {
                outcome.statistics.prompt_tokens + outcome.statistics.generated_tokens
            }
            RequestEnd::Computed { tokens } => *tokens,
            RequestEnd::Failed(_) | RequestEnd::Abandoned => 0,
        };
        let of = SpanKey { part: Part::Request, layer: None, decodes: false, rows: rows as u32 };
        self.trace.end(begun, of);
    }
}

/// Times of prompts, or of generated tokens, by part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseProfile {
    /// Steps.
    pub steps: u64,
    /// Rows of all steps: tokens.
    pub tokens: u64,
    /// Time of all steps, without sampling.
    pub time: Duration,
    /// The parts of all layers together and those outside of layers, in the order of a step.
    pub parts: Vec<(&'static str, SpanSum)>,
    /// Layer by layer.
    pub layers: Vec<LayerProfile>,
    /// The steps of each stage of a split model, which overlap.
    pub stages: Vec<SpanSum>,
}

/// Times of the parts of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerProfile {
    /// The mixer.
    pub mixer: Duration,
    /// The feed-forward.
    pub feed_forward: Duration,
    /// Every norm of the block outside of mixer and feed-forward.
    pub norm: Duration,
    /// The whole layer.
    pub whole: SpanSum,
    /// Its stage, in a split model.
    pub stage: Option<usize>,
}

impl LayerProfile {
    /// The time of everything else: sums, scales, hooks.
    pub fn rest(&self) -> Duration {
        self.whole.time.saturating_sub(self.mixer + self.feed_forward + self.norm)
    }
}

impl PhaseProfile {
    /// The profile of a model of `layers` layers: of its prompts, or of its generated tokens if `decodes`. `stages`
    /// are the traces of a split model.
    pub fn of(trace: &Trace, stages: &[StageTrace], layers: usize, decodes: bool) -> Self {
        let all = || std::iter::once(trace).chain(stages.iter().map(|stage| &stage.trace));
        let sum =
            |part, layer| all().map(|one| one.sum(part, layer, decodes)).fold(SpanSum::default(), added);
        let outside = |part| sum(part, None);
        let within = |part| {
            let of = |layer: usize| sum(part, Some(layer as u32));
            (0..layers).map(of).fold(SpanSum::default(), added)
        };
        // In a split model the steps of the stages are parts of this one.
        let step = trace.sum(Part::Step, None, decodes);
        let [norm, mixer, feed_forward, whole] =
            [Part::Norm, Part::Mixer, Part::FeedForward, Part::Layer].map(within);
        let rest = less(whole, &[norm, mixer, feed_forward]);
        let [embedding, head] = [Part::Embedding, Part::Head].map(outside);
        let layer = |layer: usize| {
            let time = |part| sum(part, Some(layer as u32));
            let has =
                |stage: &StageTrace| stage.trace.sum(Part::Layer, Some(layer as u32), decodes).count > 0;
            LayerProfile {
                stage: stages.iter().position(has),
                mixer: time(Part::Mixer).time,
                feed_forward: time(Part::FeedForward).time,
                norm: time(Part::Norm).time,
                whole: time(Part::Layer),
            }
        };
        Self {
            steps: step.count,
            tokens: step.rows,
            time: step.time,
            parts: vec![
                ("embedding", embedding),
                ("norms", norm),
                ("mixers", mixer),
                ("feed-forwards", feed_forward),
                ("rest of layers", rest),
                ("head", head),
                ("rest of steps", less(step, &[embedding, whole, head])),
                ("sampling", outside(Part::Sampling)),
            ],
            layers: (0..layers).map(layer).collect(),
            stages: stages.iter().map(|stage| stage.trace.sum(Part::Step, None, decodes)).collect(),
        }
    }
}

fn added(sum: SpanSum, one: SpanSum) -> SpanSum {
    SpanSum {
        count: sum.count + one.count,
        rows: sum.rows + one.rows,
        time: sum.time + one.time,
        bytes: sum.bytes + one.bytes,
    }
}

/// A sum without some of its parts.
fn less(whole: SpanSum, parts: &[SpanSum]) -> SpanSum {
    let parts = parts.iter().copied().fold(SpanSum::default(), added);
    SpanSum {
        time: whole.time.saturating_sub(parts.time),
        bytes: whole.bytes.saturating_sub(parts.bytes),
        ..whole
    }
}

/// A trace as one process of a trace file.
#[derive(Clone, Copy, Debug)]
struct TraceLane<'a> {
    /// Its name.
    name: &'a str,
    /// Its number, from 1.
    process: u32,
    /// The trace.
    trace: &'a Trace,
    /// When it starts, relative to the first one.
    offset: Duration,
}

/// The lanes of a trace file: one for the pipeline and one for each stage of its model, aligned by the clocks of their
/// machines.
fn trace_lanes<'a>(name: &'a str, trace: &'a Trace, stages: &'a [StageTrace]) -> Vec<TraceLane<'a>> {
    let own = TraceLane { name, process: 1, trace, offset: Duration::ZERO };
    let lane = |(process, stage): (u32, &'a StageTrace)| TraceLane {
        name: &stage.name,
        process,
        trace: &stage.trace,
        offset: stage.trace.begun_at.duration_since(trace.begun_at).unwrap_or_default(),
    };
    std::iter::once(own).chain((2..).zip(stages).map(lane)).collect()
}

/// Writes the trace of a pipeline and those of its model's stages in Chrome's trace-event format, which
/// `chrome://tracing`, Perfetto and Speedscope open. Returns the number of spans that are missing because a trace did
/// not keep them.
///
/// # Errors
/// `out` cannot be written.
pub fn write_trace(name: &str, trace: &Trace, stages: &[StageTrace], out: &mut dyn Write) -> io::Result<u64> {
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    let mut left_out = 0;
    let mut before = "";
    for lane in trace_lanes(name, trace, stages) {
        let (spans, missing) = lane.trace.spans();
        left_out += missing;
        let name = json!({ "ph": "M", "name": "process_name", "pid": lane.process, "tid": 1,
            "args": { "name": lane.name } });
        write!(out, "{before}{name}")?;
        before = ",\n";
        for (index, span) in spans.iter().enumerate() {
            let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
            let (start, time) = (micros(span.start + lane.offset), micros(span.time));
            let SpanKey { part, layer, decodes, rows } = span.of;
            if part == Part::Request {
                // Requests overlap, so they are not nested calls of one thread.
                for (ph, ts) in [("b", start), ("e", start + time)] {
                    let event = json!({ "name": "request", "cat": "request", "ph": ph, "id": index, "ts": ts,
                        "pid": lane.process, "tid": 1, "args": { "tokens": rows } });
                    write!(out, ",\n{event}")?;
                }
                continue;
            }
            let event = json!({
                "name": part.name(), "cat": if decodes { "generation" } else { "prompt" }, "ph": "X",
                "ts": start, "dur": time, "pid": lane.process, "tid": 1,
                "args": { "layer": layer, "rows": rows, "weight_bytes": span.bytes },
            });
            write!(out, ",\n{event}")?;
        }
    }
    out.write_all(b"\n]}\n")?;
    Ok(left_out)
}
