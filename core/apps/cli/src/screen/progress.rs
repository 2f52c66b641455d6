//! Progress on standard error, only where a person watches.

use crate::screen::escape;
#[cfg(feature = "hub")]
use crate::screen::report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
#[cfg(feature = "hub")]
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The bars on the terminal, for an end of the process that takes none of them away.
static SHOWN: Mutex<Vec<WeakProgressBar>> = Mutex::new(Vec::new());

/// Takes every bar off the terminal.
pub(crate) fn clear_all() {
    let shown = std::mem::take(&mut *SHOWN.lock().unwrap_or_else(PoisonError::into_inner));
    shown.iter().filter_map(WeakProgressBar::upgrade).for_each(|bar| bar.finish_and_clear());
}

/// A bar on standard error in this form; `done` steps of an earlier call do not count for its rate and time left.
fn bar(form: &str, total: Option<u64>, done: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    // The rate is measured from the position of the last step that the bar was told of, so it is told of this one.
    bar.set_position(done);
    bar.tick();
    bar.reset_eta();
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    shown.retain(|bar| bar.upgrade().is_some());
    shown.push(bar.downgrade());
    bar
}

/// Shows a text, which may hold names of a file, on a bar.
pub(crate) fn say(bar: &ProgressBar, text: &str) {
    bar.set_message(escape::line(text).into_owned());
}

/// A bar of bytes, after a text.
pub(crate) fn bytes(total: Option<u64>, done: u64) -> ProgressBar {
    bar(
        "{msg}  {wide_bar} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta}",
        total,
        done,
    )
}

/// A bar of steps.
pub(crate) fn steps(total: u64) -> ProgressBar {
    bar("{wide_bar} {pos}/{len}", Some(total), 0)
}

/// A bar for downloads and checksums; on a plain stream one line per step.
#[cfg(feature = "hub")]
#[derive(Default)]
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    /// The step that a plain stream was told of last.
    told: String,
}

/// A spinner with a text; silent where nobody watches.
pub(crate) fn spinner(text: &str) -> ProgressBar {
    let bar = bar("{spinner} {wide_msg}", None, 0);
    say(&bar, text);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar of lines that are done, with a text behind it; silent where nobody watches.
pub(crate) fn lines(all: u64, done: u64) -> ProgressBar {
    let bar = bar("[{bar:30}] {pos}/{len} {msg} ({eta} left)", Some(all), done);
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
            // A step that begins again after a break is the same step.
            if self.told != what {
                report::line(what);
                what.clone_into(&mut self.told);
            }
            return;
        }
        let bar = match total {
            Some(total) => bytes(Some(total), done),
            None => spinner(what),
        };
        say(&bar, what);
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

    /// P10: 40 MB were there, and 1 MB came in half a second or more: at most 2 MB in a second.
    #[test]
    fn what_an_earlier_call_fetched_does_not_count_for_the_rate() {
        for bar in [bytes(Some(50_000_000), 40_000_000), lines(50_000_000, 40_000_000)] {
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(60));
                bar.inc(100_000);
            }
            std::thread::sleep(Duration::from_millis(60));
            assert!(bar.per_sec() > 1000.0 && bar.per_sec() < 2_500_000.0, "{}", bar.per_sec());
            assert!(bar.eta() > Duration::from_millis(3500), "{:?}", bar.eta());
        }
    }

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
