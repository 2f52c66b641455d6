//! Progress bars on standard error, only if it is a terminal.

use crate::screen::escape;
#[cfg(feature = "hub")]
use crate::screen::report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
#[cfg(feature = "hub")]
use std::io::IsTerminal;
#[cfg(feature = "hub")]
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The bars on the terminal, for process exits that do not run destructors.
static SHOWN: Mutex<Vec<WeakProgressBar>> = Mutex::new(Vec::new());

/// Removes all bars from the terminal.
pub(crate) fn clear_all() {
    let shown = std::mem::take(&mut *SHOWN.lock().unwrap_or_else(PoisonError::into_inner));
    shown.iter().filter_map(WeakProgressBar::upgrade).for_each(|bar| bar.finish_and_clear());
}

/// A bar on standard error with this template; `done` steps of an earlier run do not count for its rate and remaining time.
fn bar(form: &str, total: Option<u64>, done: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    // The rate is measured from the last position that the bar has, so it must have this one.
    bar.set_position(done);
    bar.tick();
    bar.reset_eta();
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    shown.retain(|bar| bar.upgrade().is_some());
    shown.push(bar.downgrade());
    bar
}

/// Shows a text on a bar; text from files is escaped.
pub(crate) fn say(bar: &ProgressBar, text: &str) {
    bar.set_message(escape::line(text).into_owned());
}

/// A bar of bytes, with a text before it.
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

/// A bar for downloads and checksums; without a terminal, one line per step.
#[cfg(feature = "hub")]
#[derive(Default)]
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    /// The last step that was printed without a terminal.
    told: String,
}

/// A spinner with a text; invisible without a terminal.
pub(crate) fn spinner(text: &str) -> ProgressBar {
    let bar = bar("{spinner} {wide_msg}", None, 0);
    say(&bar, text);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar of completed lines, with a text after it; invisible without a terminal.
pub(crate) fn lines(all: u64, done: u64) -> ProgressBar {
    let bar = bar("[{bar:30}] {pos}/{len} {msg} ({eta} left)", Some(all), done);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// The progress of a long prompt; nothing for a prompt that is computed in one step.
pub(crate) struct PromptBar {
    watched: bool,
    bar: Option<ProgressBar>,
}

impl PromptBar {
    /// A bar, visible only if `watched`.
    pub(crate) fn new(watched: bool) -> Self {
        Self { watched, bar: None }
    }

    /// Sets the number of computed tokens.
    pub(crate) fn set(&mut self, done: usize, total: usize) {
        if !self.watched || done >= total {
            return self.clear();
        }
        let bar = self.bar.get_or_insert_with(|| spinner(""));
        bar.set_message(prompt_message(done, total));
    }

    /// Removes the bar.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn prompt_message(done: usize, total: usize) -> String {
    format!("processing the prompt: {done} of {total} tokens ({} %)", done * 100 / total.max(1))
}

#[cfg(feature = "hub")]
impl menagerie::hub::Progress for Bar {
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64) {
        self.end();
        if !std::io::stderr().is_terminal() {
            // A resumed step is not printed again.
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

    fn advance(&mut self, bytes: u64) -> ControlFlow<()> {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
        ControlFlow::Continue(())
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

    /// 40 MB existed before, and 1 MB arrives in at least half a second: at most 2 MB per second.
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
        assert_eq!(bar.bar.as_ref().unwrap().message(), "processing the prompt: 512 of 6530 tokens (7 %)");
        bar.set(6530, 6530);
        assert!(bar.bar.is_none());
        let mut unwatched = PromptBar::new(false);
        unwatched.set(512, 6530);
        assert!(unwatched.bar.is_none());
    }
}
