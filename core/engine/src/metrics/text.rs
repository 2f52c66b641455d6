//! [`Metrics`] in the text format that Prometheus reads (version 0.0.4).

use super::labels::LabelSet;
use super::{Counter, Gauge, Histogram, Metrics, Outcomes};
use std::fmt::{self, Display, Formatter, Write};

/// The prefix of every name.
const PREFIX: &str = "menagerie_";

impl Metrics {
    /// Writes the metrics of several pipelines with the labels of each, such as `("model", name)`. Values of labels may
    /// be any text.
    ///
    /// # Errors
    /// An error of `out`; the name of a label is not one of Prometheus (`[a-zA-Z_][a-zA-Z0-9_]*`, without two leading
    /// underscores), or a metric has a label of this name.
    pub fn write(out: &mut dyn Write, all: &[(&[(&str, &str)], &Self)]) -> fmt::Result {
        let all = all.iter().map(|(labels, metrics)| Ok((LabelSet::new(labels)?, *metrics)));
        let all: Vec<(LabelSet, &Self)> = all.collect::<Result<_, fmt::Error>>()?;
        Samples { out, all: &all }.write()
    }
}

impl Display for Metrics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Self::write(f, &[(&[], self)])
    }
}

/// A part of the metrics.
type Read<T> = fn(&Metrics) -> &T;

/// The samples of several pipelines, each metric of all of them under one head.
struct Samples<'a> {
    out: &'a mut dyn Write,
    all: &'a [(LabelSet, &'a Metrics)],
}

impl Samples<'_> {
    fn write(&mut self) -> fmt::Result {
        self.ended()?;
        let counters: [(&str, &str, Read<Counter>); 20] = [
            ("prompt_tokens_total", "tokens of prompts", |of| &of.prompt_tokens),
            ("cached_tokens_total", "tokens of prompts whose state existed already", |of| &of.cached_tokens),
            ("generated_tokens_total", "tokens generated", |of| &of.generated_tokens),
            ("reprefills_total", "sequences computed again because the rope regime changed", |of| {
                &of.reprefills
            }),
            ("preemptions_total", "preemptions of sequences by more urgent ones", |of| &of.preemptions),
            ("set_aside_total", "preemptions in which the state was swapped out and in again", |of| {
                &of.set_aside
            }),
            ("restores_total", "faults of stages after which states were computed again", |of| &of.restores),
            ("replays_total", "sequences whose lost state was computed again", |of| &of.replays),
            ("replayed_tokens_total", "tokens whose state was lost and computed again", |of| {
                &of.replayed_tokens
            }),
            ("evictions_total", "cached sequences that were dropped for their memory", |of| &of.evictions),
            ("disk_hits_total", "prompts that started with state from the disk", |of| &of.disk_hits),
            ("disk_misses_total", "prompts for which the disk had no longer prefix than memory", |of| {
                &of.disk_misses
            }),
            ("disk_tokens_total", "tokens whose state was read from the disk", |of| &of.disk_tokens),
            ("disk_read_bytes_total", "bytes that the disk cache read", |of| &of.disk_read_bytes),
            ("disk_written_bytes_total", "bytes that the disk cache wrote", |of| &of.disk_written_bytes),
            ("disk_faults_total", "damaged files, skipped blocks and errors of the disk cache", |of| {
                &of.disk_faults
            }),
            ("steps_total", "steps", |of| &of.steps),
            ("step_rows_total", "rows of all steps", |of| &of.rows),
            ("drafted_tokens_total", "guesses of next tokens that steps computed", |of| &of.drafted),
            ("accepted_tokens_total", "guesses that became tokens of answers", |of| &of.accepted),
        ];
        for (name, what, read) in counters {
            self.numbers("counter", name, what, |of| read(of).get())?;
        }
        let gauges: [(&str, &str, Read<Gauge>); 6] = [
            ("requests_open", "requests that have not ended, including waiting ones", |of| &of.requests_open),
            ("requests_waiting", "requests that have not started", |of| &of.requests_waiting),
            ("requests_running", "requests that compute their prompt or their answer", |of| {
                &of.requests_running
            }),
            ("state_bytes", "bytes of state that hold tokens", |of| &of.state_bytes),
            ("pages_used", "pages of state that hold tokens", |of| &of.pages_used),
            ("pages_free", "pages of state that are free", |of| &of.pages_free),
        ];
        for (name, what, read) in gauges {
            self.numbers("gauge", name, what, |of| read(of).get())?;
        }
        let histograms: [(&str, &str, Read<Histogram>); 5] = [
            ("queue_seconds", "from the call to the start", |of| &of.queue_time),
            ("time_to_first_token_seconds", "from the call to the first token", |of| &of.time_to_first_token),
            ("time_between_tokens_seconds", "from a token to the next one", |of| &of.time_between_tokens),
            ("step_seconds", "duration of a step", |of| &of.step_time),
            ("constraint_seconds", "time of the constraint of an answer", |of| &of.constraint_time),
        ];
        histograms.into_iter().try_for_each(|(name, what, read)| self.histogram(name, what, read))
    }

    fn ended(&mut self) -> fmt::Result {
        self.head("requests_total", "counter", "requests that have ended, by outcome")?;
        for (labels, metrics) in self.all {
            let Outcomes { end, stop, length, computed, cancelled, failed, refused, abandoned } =
                &metrics.requests;
            let outcomes = [
                ("end", end),
                ("stop", stop),
                ("length", length),
                ("computed", computed),
                ("cancelled", cancelled),
                ("failed", failed),
                ("refused", refused),
                ("abandoned", abandoned),
            ];
            for (outcome, count) in outcomes {
                let labels = labels.with("outcome", outcome);
                writeln!(self.out, "{PREFIX}requests_total{labels} {}", count.get())?;
            }
        }
        Ok(())
    }

    fn numbers(&mut self, kind: &str, name: &str, what: &str, read: impl Fn(&Metrics) -> u64) -> fmt::Result {
        self.head(name, kind, what)?;
        for (labels, metrics) in self.all {
            writeln!(self.out, "{PREFIX}{name}{labels} {}", read(metrics))?;
        }
        Ok(())
    }

    fn head(&mut self, name: &str, kind: &str, what: &str) -> fmt::Result {
        writeln!(self.out, "# HELP {PREFIX}{name} {what}\n# TYPE {PREFIX}{name} {kind}")
    }

    fn histogram(&mut self, name: &str, what: &str, read: Read<Histogram>) -> fmt::Result {
        self.head(name, "histogram", what)?;
        for (labels, metrics) in self.all {
            let counts = read(metrics).counts();
            for (end, count) in &counts.buckets {
                let labels = labels.with("le", &end.as_secs_f64().to_string());
                writeln!(self.out, "{PREFIX}{name}_bucket{labels} {count}")?;
            }
            let last = labels.with("le", "+Inf");
            writeln!(self.out, "{PREFIX}{name}_bucket{last} {}", counts.count)?;
            writeln!(self.out, "{PREFIX}{name}_sum{labels} {}", counts.sum.as_secs_f64())?;
            writeln!(self.out, "{PREFIX}{name}_count{labels} {}", counts.count)?;
        }
        Ok(())
    }
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
        assert_eq!(kinds, 32);
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

    /// Two models: each metric has one head, and all samples below it, with the labels of each.
    #[test]
    fn metrics_of_several_pipelines_have_labels() {
        let (first, second) = (Metrics::default(), Metrics::default());
        first.prompt_tokens.add(7);
        second.requests.refused.add(2);
        let mut text = String::new();
        let (one, other) = ([("model", "a\"b")], [("model", "c"), ("device", "cpu")]);
        Metrics::write(&mut text, &[(&one, &first), (&other, &second)]).unwrap();
        for line in [
            "menagerie_prompt_tokens_total{model=\"a\\\"b\"} 7\nmenagerie_prompt_tokens_total{model=\"c\",device=\"cpu\"} 0\n",
            "\nmenagerie_requests_total{model=\"c\",device=\"cpu\",outcome=\"refused\"} 2\n",
            "\nmenagerie_step_seconds_bucket{model=\"c\",device=\"cpu\",le=\"+Inf\"} 0\n",
            "\nmenagerie_step_seconds_sum{model=\"a\\\"b\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!((heads.len(), heads.iter().collect::<BTreeSet<_>>().len()), (32, 32));
        assert!(Metrics::write(&mut text, &[(&[("le", "1")], &first)]).is_err());
    }
}
