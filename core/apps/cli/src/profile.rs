//! `--profile[=FILE]`: where the time goes, as a table and as a trace file.

use crate::failure::Failure;
use crate::output_file::{self, OutputFile};
use crate::report;
use menagerie::model::{SpanSum, Trace};
use menagerie::pipeline::{
    PhaseProfile, PipelineHooks, PipelineLifecycle, RequestSpans, TraceLane, write_trace,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Single spans that a trace file holds at most; sums are of all.
const SPANS: usize = 1_000_000;

/// A profile under way.
pub(crate) struct Profiling {
    trace: Arc<Trace>,
    target: Option<PathBuf>,
    force: bool,
}

impl Profiling {
    /// Refuses a file that may not be written.
    pub(crate) fn check(asked: Option<&Option<PathBuf>>, force: bool, model: &Path) -> Result<(), Failure> {
        asked
            .and_then(Option::as_ref)
            .map_or(Ok(()), |target| output_file::may_write(target, force, &[model]))
    }

    /// Begins to note times with these hooks.
    pub(crate) fn begin(
        asked: Option<&Option<PathBuf>>,
        force: bool,
        hooks: &mut PipelineHooks,
    ) -> Option<Self> {
        let target = asked?;
        let trace = Arc::new(Trace::new(if target.is_some() { SPANS } else { 0 }));
        hooks.trace = Some(Arc::clone(&trace));
        hooks.lifecycles.push(Arc::new(RequestSpans::new(Arc::clone(&trace))) as Arc<dyn PipelineLifecycle>);
        Some(Self { trace, target: target.clone(), force })
    }

    /// Prints the table on standard error, and writes the file.
    pub(crate) fn finish(self, name: &str, layers: usize) -> Result<(), Failure> {
        for (decodes, what) in [(false, "prompt"), (true, "generation")] {
            let phase = PhaseProfile::of(&self.trace, layers, decodes);
            if phase.steps > 0 {
                report::write(&table(&phase, what));
            }
        }
        let Some(target) = &self.target else { return Ok(()) };
        let mut file = OutputFile::create(target, self.force, &[])?;
        let lane = TraceLane { name, process: 1, trace: &self.trace, offset: Duration::ZERO };
        let left_out =
            write_trace(&[lane], &mut file).map_err(|error| Failure::about(target.display(), error))?;
        file.commit()?;
        if left_out > 0 {
            report::note(&format!(
                "{}: the first {SPANS} spans are in it, {left_out} later ones are not",
                target.display()
            ));
        }
        Ok(())
    }
}

/// The parts of a phase, then its layers; times of a token where it generated.
fn table(phase: &PhaseProfile, what: &str) -> String {
    let per = if what == "generation" { phase.tokens.max(1) as f64 } else { 1.0 };
    let unit = if what == "generation" { "ms/token" } else { "ms" };
    let millis = |time: Duration| time.as_secs_f64() * 1e3 / per;
    let whole = phase.time.as_secs_f64().max(f64::MIN_POSITIVE);
    let share = |time: Duration| time.as_secs_f64() / whole * 100.0;
    let rate = |sum: &SpanSum| {
        let rate = sum.bytes as f64 / 1e9 / sum.time.as_secs_f64().max(f64::MIN_POSITIVE);
        if sum.bytes == 0 {
            String::new()
        } else {
            format!("{:>10.1}{rate:>8.1}", sum.bytes as f64 / 1e6 / per)
        }
    };
    let mut text = String::new();
    let (tokens, steps) = (phase.tokens, phase.steps);
    let _ =
        writeln!(text, "{what}: {tokens} tokens in {steps} steps, {:.1} ms", phase.time.as_secs_f64() * 1e3);
    let _ = writeln!(text, "{:<16}{unit:>10}{:>8}{:>10}{:>8}", "part", "share", "MB", "GB/s");
    for (name, sum) in phase.parts.iter().filter(|(_, sum)| sum.count > 0) {
        let line = format!("{name:<16}{:>10.3}{:>7.1}%{}", millis(sum.time), share(sum.time), rate(sum));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(
        text,
        "{:<6}{:>10}{:>13}{:>8}{:>8}{:>10}{:>8}{:>10}{:>8}",
        "layer", "mixer", "feed-forward", "norms", "rest", unit, "share", "MB", "GB/s"
    );
    for (index, layer) in phase.layers.iter().enumerate().filter(|(_, layer)| layer.whole.count > 0) {
        let times = [layer.mixer, layer.feed_forward, layer.norm, layer.rest(), layer.whole.time].map(millis);
        let [mixer, feed_forward, norm, rest, all] = times;
        let line = format!(
            "{index:<6}{mixer:>10.3}{feed_forward:>13.3}{norm:>8.3}{rest:>8.3}{all:>10.3}{:>7.1}%{}",
            share(layer.whole.time),
            rate(&layer.whole)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
