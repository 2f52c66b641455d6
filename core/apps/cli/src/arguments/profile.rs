//! `--profile[=FILE]`: a time profile as a table and as a trace file.

use crate::failure::Failure;
use crate::output::output_file;
use crate::output::output_file::OutputFile;
use crate::screen::{escape, report};
use menagerie::engine::{
    LayerProfile, PhaseProfile, PipelineHooks, PipelineLifecycle, RequestSpans, TextPipeline, write_trace,
};
use menagerie::model::{SpanSum, StageTrace, Trace};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The most single spans in a trace file; sums include all spans.
const SPANS: usize = 1_000_000;

/// A profile under way.
pub(crate) struct Profiler {
    trace: Arc<Trace>,
    target: Option<PathBuf>,
    force: bool,
}

impl Profiler {
    /// Refuses a file that must not be written.
    pub(crate) fn check(asked: Option<&Option<PathBuf>>, force: bool, model: &Path) -> Result<(), Failure> {
        asked
            .and_then(Option::as_ref)
            .map_or(Ok(()), |target| output_file::may_write(target, force, &[model]))
    }

    /// Starts to record times with these hooks.
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
    pub(crate) fn finish(self, pipeline: &TextPipeline) -> Result<(), Failure> {
        let layers = pipeline.engine().model.shape().n_layers;
        let stages = pipeline.stage_traces(&self.trace)?;
        for (decodes, what) in [(false, "prompt"), (true, "generation")] {
            let phase = PhaseProfile::of(&self.trace, &stages, layers, decodes);
            if phase.steps > 0 {
                report::write(&escape::text(&table(&phase, what, &stages)));
            }
        }
        let Some(target) = &self.target else { return Ok(()) };
        let mut file = OutputFile::create(target, self.force, &[])?;
        let left_out = write_trace(pipeline.name(), &self.trace, &stages, &mut file)
            .map_err(|error| Failure::about(target.display(), error))?;
        file.commit()?;
        if left_out > 0 {
            report::note(&format!(
                "{}: contains the first {SPANS} spans; {left_out} later spans are left out",
                target.display()
            ));
        }
        Ok(())
    }
}

/// Units of a phase's numbers: times per token for the generation.
struct Units {
    per: f64,
    name: &'static str,
    /// Seconds of all steps.
    whole: f64,
}

impl Units {
    fn of(phase: &PhaseProfile, what: &str) -> Self {
        let whole = phase.time.as_secs_f64().max(f64::MIN_POSITIVE);
        match what {
            "generation" => Self { per: phase.tokens.max(1) as f64, name: "ms/token", whole },
            _ => Self { per: 1.0, name: "ms", whole },
        }
    }

    fn millis(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e3 / self.per
    }

    fn share(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.whole * 100.0
    }

    fn rate(&self, sum: &SpanSum) -> String {
        let rate = sum.bytes as f64 / 1e9 / sum.time.as_secs_f64().max(f64::MIN_POSITIVE);
        match sum.bytes {
            0 => String::new(),
            bytes => format!("{:>10.1}{rate:>8.1}", bytes as f64 / 1e6 / self.per),
        }
    }

    /// A name, its time, share and bytes.
    fn line(&self, name: &str, sum: &SpanSum) -> String {
        let line = format!(
            "{name:<16}{:>10.3}{:>7.1}%{}",
            self.millis(sum.time),
            self.share(sum.time),
            self.rate(sum)
        );
        line.trim_end().to_owned()
    }
}

/// The parts of a phase, then its stages, if there are any, then its layers.
fn table(phase: &PhaseProfile, what: &str, stages: &[StageTrace]) -> String {
    let units = Units::of(phase, what);
    let mut text = String::new();
    let (tokens, steps) = (phase.tokens, phase.steps);
    let _ =
        writeln!(text, "{what}: {tokens} tokens in {steps} steps, {:.1} ms", phase.time.as_secs_f64() * 1e3);
    let head = |first: &str| format!("{first:<16}{:>10}{:>8}{:>10}{:>8}", units.name, "share", "MB", "GB/s");
    let _ = writeln!(text, "{}", head("part"));
    for (name, sum) in phase.parts.iter().filter(|(_, sum)| sum.count > 0) {
        let _ = writeln!(text, "{}", units.line(name, sum));
    }
    if !stages.is_empty() {
        let _ = writeln!(text, "{}", head("stage"));
        for (index, sum) in phase.stages.iter().enumerate() {
            let _ = writeln!(text, "{}", units.line(&index.to_string(), sum));
        }
    }
    let column = |stage: String| if stages.is_empty() { String::new() } else { format!("{stage:>6}") };
    let _ = writeln!(
        text,
        "{:<6}{}{:>10}{:>13}{:>8}{:>8}{:>10}{:>8}{:>10}{:>8}",
        "layer",
        column("stage".to_owned()),
        "mixer",
        "feed-forward",
        "norms",
        "rest",
        units.name,
        "share",
        "MB",
        "GB/s"
    );
    for (index, layer) in phase.layers.iter().enumerate().filter(|(_, layer)| layer.whole.count > 0) {
        let stage = column(layer.stage.map_or_else(String::new, |stage| stage.to_string()));
        let _ = writeln!(text, "{index:<6}{stage}{}", layer_line(layer, &units));
    }
    text
}

/// The parts of a layer.
fn layer_line(layer: &LayerProfile, units: &Units) -> String {
    let times = [layer.mixer, layer.feed_forward, layer.norm, layer.rest(), layer.whole.time];
    let [mixer, feed_forward, norm, rest, all] = times.map(|time| units.millis(time));
    let line = format!(
        "{mixer:>10.3}{feed_forward:>13.3}{norm:>8.3}{rest:>8.3}{all:>10.3}{:>7.1}%{}",
        units.share(layer.whole.time),
        units.rate(&layer.whole)
    );
    line.trim_end().to_owned()
}
