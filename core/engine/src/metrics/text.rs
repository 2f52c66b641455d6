//! [`Metrics`] in the text format that Prometheus reads (version 0.0.4).

use super::{Histogram, Metrics, Outcomes};
use std::fmt::{self, Display, Formatter};

/// The prefix of every name.
const PREFIX: &str = "menagerie_";

impl Display for Metrics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            requests,
            requests_open,
            requests_waiting,
            requests_running,
            running: _,
            prompt_tokens,
            cached_tokens,
            generated_tokens,
            reprefills,
            preemptions,
            set_aside,
            evictions,
            steps,
            rows,
            state_bytes,
            pages_used,
            pages_free,
            queue_time,
            time_to_first_token,
            time_between_tokens,
            step_time,
        } = self;
        ended(f, requests)?;
        let counters = [
            ("prompt_tokens_total", "tokens of prompts", prompt_tokens),
            ("cached_tokens_total", "tokens of prompts whose state existed already", cached_tokens),
            ("generated_tokens_total", "tokens generated", generated_tokens),
            ("reprefills_total", "sequences computed again because the rope regime changed", reprefills),
            ("preemptions_total", "preemptions of sequences by more urgent ones", preemptions),
            ("set_aside_total", "preemptions in which the state was swapped out and in again", set_aside),
            ("evictions_total", "cached sequences that were dropped for their memory", evictions),
            ("steps_total", "steps", steps),
            ("step_rows_total", "rows of all steps", rows),
        ];
        numbers(f, "counter", counters.map(|(name, what, counter)| (name, what, counter.get())))?;
        let gauges = [
            ("requests_open", "requests that have not ended, including waiting ones", requests_open),
            ("requests_waiting", "requests that have not started", requests_waiting),
            ("requests_running", "requests that compute their prompt or their answer", requests_running),
            ("state_bytes", "bytes of state that hold tokens", state_bytes),
            ("pages_used", "pages of state that hold tokens", pages_used),
            ("pages_free", "pages of state that are free", pages_free),
        ];
        numbers(f, "gauge", gauges.map(|(name, what, gauge)| (name, what, gauge.get())))?;
        histogram(f, "queue_seconds", "from the call to the start", queue_time)?;
        histogram(f, "time_to_first_token_seconds", "from the call to the first token", time_to_first_token)?;
        histogram(f, "time_between_tokens_seconds", "from a token to the next one", time_between_tokens)?;
        histogram(f, "step_seconds", "duration of a step", step_time)
    }
}

fn ended(f: &mut Formatter<'_>, requests: &Outcomes) -> fmt::Result {
    let Outcomes { end, stop, length, computed, cancelled, failed, abandoned } = requests;
    head(f, "requests_total", "counter", "requests that have ended, by outcome")?;
    let outcomes = [
        ("end", end),
        ("stop", stop),
        ("length", length),
        ("computed", computed),
        ("cancelled", cancelled),
        ("failed", failed),
        ("abandoned", abandoned),
    ];
    for (outcome, count) in outcomes {
        writeln!(f, "{PREFIX}requests_total{{outcome=\"{outcome}\"}} {}", count.get())?;
    }
    Ok(())
}

fn numbers<const N: usize>(f: &mut Formatter<'_>, kind: &str, all: [(&str, &str, u64); N]) -> fmt::Result {
    for (name, what, value) in all {
        head(f, name, kind, what)?;
        writeln!(f, "{PREFIX}{name} {value}")?;
    }
    Ok(())
}

fn head(f: &mut Formatter<'_>, name: &str, kind: &str, what: &str) -> fmt::Result {
    writeln!(f, "# HELP {PREFIX}{name} {what}\n# TYPE {PREFIX}{name} {kind}")
}

fn histogram(f: &mut Formatter<'_>, name: &str, what: &str, of: &Histogram) -> fmt::Result {
    head(f, name, "histogram", what)?;
    let counts = of.counts();
    for (end, count) in &counts.buckets {
        writeln!(f, "{PREFIX}{name}_bucket{{le=\"{}\"}} {count}", end.as_secs_f64())?;
    }
    writeln!(f, "{PREFIX}{name}_bucket{{le=\"+Inf\"}} {}", counts.count)?;
    writeln!(f, "{PREFIX}{name}_sum {}", counts.sum.as_secs_f64())?;
    writeln!(f, "{PREFIX}{name}_count {}", counts.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::Duration;

    /// Every sample has a name whose type was announced, buckets increase, and no name occurs twice.
    #[test]
    fn the_text_is_what_prometheus_reads() {
        let metrics = Metrics::default();
        metrics.prompt_tokens.add(7);
        metrics.requests.stop.add(2);
        metrics.step_time.observe(Duration::from_millis(3));
        let text = metrics.to_string();
        let (mut announced, mut samples, mut kinds) = (BTreeSet::new(), BTreeSet::new(), 0);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(announced.insert(rest.split(' ').next().unwrap()), "{line}");
                kinds += 1;
                continue;
            }
            if line.starts_with('#') {
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            assert!(samples.insert(name), "{line} comes twice");
            let bare = name.split('{').next().unwrap();
            let of = |end: &str| bare.strip_suffix(end).is_some_and(|base| announced.contains(base));
            assert!(announced.contains(bare) || of("_bucket") || of("_sum") || of("_count"), "{line}");
        }
        assert_eq!(kinds, 20);
        for line in [
            "menagerie_prompt_tokens_total 7",
            "menagerie_requests_total{outcome=\"stop\"} 2",
            "menagerie_step_seconds_bucket{le=\"0.0025\"} 0",
            "menagerie_step_seconds_bucket{le=\"0.005\"} 1",
            "menagerie_step_seconds_bucket{le=\"+Inf\"} 1",
            "menagerie_step_seconds_sum 0.003",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
