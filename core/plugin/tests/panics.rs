//! No panic leaves a plugin: in `create`, `forward`, a body of `parallel_for` or a `Drop`, with any payload. One test: it
//! replaces the process's hook.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_plugin::testing::{self, Setup, TestModel};
use menagerie_plugin::{Build, Component, Error, Host, Norm, Result, Rows, RowsMut, names, options};
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};

names! {
    /// What it does instead of its work.
    pub(crate) enum Does {
        /// Its work.
        Nothing = "nothing",
        /// Panics while it is made.
        Create = "create",
        /// Panics with a text.
        Forward = "forward",
        /// Indexes what is not there.
        Index = "index",
        /// Panics with what is no text.
        Payload = "payload",
        /// Panics with what panics when it is dropped, again and again.
        Bomb = "bomb",
        /// Panics in a body of `parallel_for`.
        Parallel = "parallel",
        /// Panics when it ends.
        Drop = "drop",
        /// Fails without a text of its own.
        Fail = "fail",
    }
}

options! {
    /// Options.
    pub(crate) struct PanicsOptions {
        /// What it does.
        does: Does = Name("nothing"),
    }
}

struct Panics {
    does: Does,
}

impl Drop for Panics {
    fn drop(&mut self) {
        if self.does == Does::Drop {
            panic!("at the end");
        }
    }
}

/// Panics when it is dropped, with another one.
struct Bomb(usize);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 && !std::thread::panicking() {
            panic_any(Bomb(self.0 - 1));
        }
    }
}

impl Component for Panics {
    const NAME: &'static str = "panics";
    const DOC: &'static str = "Panics where it is told to.";
    type Options = PanicsOptions;

    fn create(options: PanicsOptions, _build: &mut Build) -> Result<Self> {
        assert!(options.does != Does::Create, "while it was made");
        Ok(Self { does: options.does })
    }
}

impl Norm for Panics {
    fn forward(&self, x: Rows, mut output: RowsMut, host: &Host) -> Result<()> {
        match self.does {
            Does::Forward => panic!("no {}", "more"),
            Does::Payload => panic_any(17),
            Does::Bomb => panic_any(Bomb(3)),
            Does::Index => output.row_mut(0)[x.cols()] = 1.0,
            Does::Parallel => host.parallel_for(100, |index| assert!(index != 57, "body {index}"))?,
            Does::Fail => return Err(Error::new("because")),
            Does::Nothing | Does::Create | Does::Drop => {}
        }
        output.copy_from(x)
    }
}

static OUTSIDE: AtomicUsize = AtomicUsize::new(0);

#[test]
fn panics_are_statuses_with_a_text_and_nothing_else_is_lost() {
    std::panic::set_hook(Box::new(|_| {
        OUTSIDE.fetch_add(1, Ordering::SeqCst);
    }));
    let component = testing::norm::<Panics>();
    let made = |does: &str| -> Result<TestModel> { Setup::new(2).option("does", does).create(&component) };
    let forward = |does: &str| made(does)?.rows(&[1.0, 2.0]);
    let error = |does: &str| forward(does).unwrap_err().to_string();

    assert!(error("create").starts_with("create panicked: panic in plugin at "), "{}", error("create"));
    assert!(error("create").ends_with(": while it was made"));
    assert!(error("forward").contains("panics.rs:") && error("forward").ends_with(": no more"));
    assert!(error("index").contains("panics.rs:"));
    assert!(error("index").ends_with(": index out of bounds: the len is 2 but the index is 2"));
    assert!(error("payload").ends_with(": (a payload that is not text)"));
    assert!(error("bomb").ends_with(": (a payload that is not text)"), "{}", error("bomb"));
    assert!(error("parallel").ends_with(": body 57"), "{}", error("parallel"));
    assert_eq!(error("fail"), "forward: because");
    // An instance that panics when it ends does not take the process with it.
    assert_eq!(forward("drop").unwrap(), [1.0, 2.0]);
    assert_eq!(forward("nothing").unwrap(), [1.0, 2.0]);

    // Panics inside went to the host's log, not to the hook; those outside still go to the hook.
    assert_eq!(OUTSIDE.load(Ordering::SeqCst), 0);
    assert!(std::panic::catch_unwind(|| panic!("outside")).is_err());
    assert_eq!(OUTSIDE.load(Ordering::SeqCst), 1);
    drop(std::panic::take_hook());
}
