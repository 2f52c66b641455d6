//! Progress on standard error, only where a person watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use menagerie::hub::Progress;
use std::io::IsTerminal;
use std::time::Duration;

/// A bar for downloads and checksums; on a plain stream one line per step.
#[derive(Default)]
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
}

/// A spinner with a text; silent where nobody watches.
pub(crate) fn spinner(text: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_message(text.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

impl Progress for Bar {
    fn begin(&mut self, what: &str, total: Option<u64>) {
        self.end();
        if !std::io::stderr().is_terminal() {
            eprintln!("{what}");
            return;
        }
        let bar = match total {
            Some(total) => {
                let bar = ProgressBar::new(total);
                let form = "{msg}  {wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}";
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
}
