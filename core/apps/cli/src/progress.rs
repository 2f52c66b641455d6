//! Progress on standard error, only where a person watches.

#[cfg(feature = "hub")]
use crate::report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
#[cfg(feature = "hub")]
use std::io::IsTerminal;
use std::time::Duration;

/// A bar for downloads and checksums; on a plain stream one line per step.
#[cfg(feature = "hub")]
#[derive(Default)]
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
}

/// A spinner with a text; silent where nobody watches.
pub(crate) fn spinner(text: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // Without a form of its own it would be a bar of nothing, and its text would not be seen.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar.set_message(text.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar of lines that are done, with a text behind it; silent where nobody watches.
pub(crate) fn lines(all: u64, done: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg} ({eta} left)") {
        bar.set_style(style);
    }
    bar.set_position(done);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// How much of a long prompt is read; nothing for one that is read in one step.
pub(crate) struct PromptBar {
    watched: bool,
    bar: Option<ProgressBar>,
}

impl PromptBar {
    /// A bar for a person, if one watches.
    pub(crate) fn new(watched: bool) -> Self {
        Self { watched, bar: None }
    }

    /// So many tokens of all are read.
    pub(crate) fn set(&mut self, done: usize, total: usize) {
        if !self.watched || done >= total {
            return self.clear();
        }
        let bar = self.bar.get_or_insert_with(|| spinner(""));
        bar.set_message(prompt_message(done, total));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn prompt_message(done: usize, total: usize) -> String {
    format!("reading the prompt: {done} of {total} tokens ({} %)", done * 100 / total.max(1))
}

#[cfg(feature = "hub")]
impl menagerie::hub::Progress for Bar {
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64) {
        self.end();
        if !std::io::stderr().is_terminal() {
            report::line(what);
            return;
        }
        let bar = match total {
            Some(total) => {
                // What an earlier call fetched must not count for the speed.
                let bar = ProgressBar::new(total).with_position(done);
                bar.reset_eta();
                let form =
                    "{msg}  {wide_bar} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta}";
                if let Ok(style) = ProgressStyle::with_template(form) {
                    bar.set_style(style);
                }
                bar.set_message(what.to_owned());
                bar
            }
            None => spinner(what),
        };
        self.bar = Some(bar);
    }

    fn advance(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn note(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| report::note(text)),
            None => report::note(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_prompt_is_counted_and_a_short_one_is_not() {
        let mut bar = PromptBar::new(true);
        bar.set(512, 6530);
        assert_eq!(bar.bar.as_ref().unwrap().message(), "reading the prompt: 512 of 6530 tokens (7 %)");
        bar.set(6530, 6530);
        assert!(bar.bar.is_none());
        let mut unwatched = PromptBar::new(false);
        unwatched.set(512, 6530);
        assert!(unwatched.bar.is_none());
    }
}
