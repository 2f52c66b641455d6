//! Signals that end the work: Ctrl-C, and SIGHUP and SIGTERM on Unix.
//!
//! While a model is loaded or input is read, each of them ends the process at once. Otherwise Ctrl-C sets a flag that stops
//! the computation; a second Ctrl-C ends the process, except in a conversation. SIGHUP and SIGTERM end the process at once
//! unless something must be saved first ([`orderly`], [`conversation`]). In that case they set the flag too: the work
//! stops, the data is saved, and then the process ends by the signal. Actions of [`at_end`] are executed in every case.

use crate::failure::Failure;
use crate::screen::{echo, progress};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Exit code of a process that Ctrl-C ended, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGHUP or SIGTERM, with its number.
    #[cfg_attr(not(unix), allow(dead_code))]
    End(i32),
}

/// A mode of handling signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalMode {
    /// The process may end at any time: nothing is lost.
    AtOnce,
    /// A signal sets the flag, and the work stops when it sees the flag.
    Orderly,
    /// As [`Self::Orderly`], and Ctrl-C never ends the process.
    Conversation,
    /// A conversation, which is saved already, waits for input.
    Typing,
    /// A file is being written that must be complete.
    Saving,
    /// A server runs: it ends in an orderly way whatever it is doing, and SIGHUP lets it read its files again.
    #[cfg_attr(not(feature = "serve"), allow(dead_code))]
    Serving,
}

/// An action before the process ends.
type ExitAction = Box<dyn Fn() + Send>;

#[derive(Default)]
struct SignalState {
    /// Number of guards for each mode.
    counts: [usize; 6],
    last: Vec<(usize, ExitAction)>,
    next: usize,
    /// The signal that ends the work.
    ending: Option<i32>,
}

impl SignalState {
    fn has(&self, hold: SignalMode) -> bool {
        self.counts[hold as usize] > 0
    }

    /// Whether the process ends at once; `again` is set after an earlier signal.
    fn ends_for(&self, signal: Signal, again: bool) -> bool {
        if self.has(SignalMode::Saving) {
            return false;
        }
        if self.has(SignalMode::Serving) {
            return signal == Signal::Interrupt && again;
        }
        match signal {
            Signal::Interrupt => {
                self.has(SignalMode::AtOnce) || (again && !self.has(SignalMode::Conversation))
            }
            Signal::End(_) => {
                let must_be_kept = self.has(SignalMode::Orderly) || self.has(SignalMode::Conversation);
                !must_be_kept || self.has(SignalMode::AtOnce) || self.has(SignalMode::Typing)
            }
        }
    }
}

static STATE: Mutex<SignalState> =
    Mutex::new(SignalState { counts: [0; 6], last: Vec::new(), next: 0, ending: None });

fn state() -> MutexGuard<'static, SignalState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard: while it exists, signals are handled in a mode.
pub(crate) struct SignalGuard(SignalMode);

/// Until the guard is dropped, every signal ends the process at once. Partial downloads are kept.
pub(crate) fn at_once() -> Result<SignalGuard, Failure> {
    hold(SignalMode::AtOnce)
}

/// Until the guard is dropped, SIGHUP and SIGTERM set the flag and leave time for the work to stop.
pub(crate) fn orderly() -> Result<SignalGuard, Failure> {
    hold(SignalMode::Orderly)
}

/// Until the guard is dropped, Ctrl-C only sets the flag, even repeatedly; SIGHUP and SIGTERM leave time to save the
/// conversation.
pub(crate) fn conversation() -> Result<SignalGuard, Failure> {
    hold(SignalMode::Conversation)
}

/// Until the guard is dropped, SIGHUP and SIGTERM end the process in spite of a conversation, which is saved already.
pub(crate) fn typing() -> Result<SignalGuard, Failure> {
    hold(SignalMode::Typing)
}

/// Until the guard is dropped, no signal ends the process.
pub(crate) fn saving() -> Result<SignalGuard, Failure> {
    hold(SignalMode::Saving)
}

/// Until the guard is dropped, signals set the flag, also while a model is loaded, and only a second Ctrl-C ends the process;
/// SIGHUP sets [`reload_flag`].
#[cfg(feature = "serve")]
pub(crate) fn serving() -> Result<SignalGuard, Failure> {
    let guard = hold(SignalMode::Serving)?;
    #[cfg(unix)]
    take_hangup().map_err(|error| Failure::about("cannot handle signals", error))?;
    Ok(guard)
}

/// Under `nohup` SIGHUP stays ignored and has no handler. It does not end a server, so a server takes it there, too.
#[cfg(all(unix, feature = "serve"))]
fn take_hangup() -> std::io::Result<()> {
    if hangup_is_ignored() {
        signal_hook::flag::register(signal_hook::consts::SIGHUP, reload_flag())?;
    }
    Ok(())
}

/// Set by SIGHUP while a server runs.
#[cfg(feature = "serve")]
pub(crate) fn reload_flag() -> Arc<AtomicBool> {
    Arc::clone(RELOAD.get_or_init(Arc::default))
}

static RELOAD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn hold(what: SignalMode) -> Result<SignalGuard, Failure> {
    flag()?;
    let mut state = state();
    state.counts[what as usize] += 1;
    // A signal that was received just before takes effect now.
    let ends = matches!(what, SignalMode::AtOnce | SignalMode::Typing) && !state.has(SignalMode::Serving);
    if let Some(signal) = state.ending.filter(|_| ends) {
        state.last.iter().for_each(|(_, act)| act());
        leave_terminal();
        die_of(signal);
    }
    Ok(SignalGuard(what))
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        state().counts[self.0 as usize] -= 1;
    }
}

/// A guard: while it exists, an action is executed before a signal ends the process.
pub(crate) struct ExitActionGuard(usize);

/// Until the guard is dropped, `act` is executed before a signal ends the process.
pub(crate) fn at_end(act: impl Fn() + Send + 'static) -> Result<ExitActionGuard, Failure> {
    flag()?;
    let mut state = state();
    state.next += 1;
    let number = state.next;
    state.last.push((number, Box::new(act)));
    Ok(ExitActionGuard(number))
}

impl Drop for ExitActionGuard {
    fn drop(&mut self) {
        state().last.retain(|(number, _)| *number != self.0);
    }
}

/// Whether SIGHUP or SIGTERM was received and the work must stop.
pub(crate) fn is_ending() -> bool {
    state().ending.is_some()
}

/// Ends the process by SIGHUP or SIGTERM if one of them ended the work, so that the exit status shows it.
pub(crate) fn end_by_signal() {
    if let Some(signal) = state().ending {
        leave_terminal();
        die_of(signal);
    }
}

/// Installs the handlers and returns the flag they set; clear the flag before the next generation.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    static FLAG: OnceLock<Result<Arc<AtomicBool>, String>> = OnceLock::new();
    let installed = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        install(&flag).map_err(|error| error.to_string())?;
        Ok(flag)
    });
    let installed = installed.as_ref().map_err(|error| Failure::about("cannot handle signals", error));
    installed.map(Arc::clone)
}

/// Restores the terminal, because no destructors run when a signal ends the process.
fn leave_terminal() {
    progress::clear_all();
    echo::restore();
}

fn heard(signal: Signal, flag: &AtomicBool) {
    // The lock is held until the process ends, so that no other thread starts to save.
    let mut state = state();
    if is_hangup(signal) && state.has(SignalMode::Serving) {
        RELOAD.get_or_init(Arc::default).store(true, Ordering::SeqCst);
        return;
    }
    let again = flag.swap(true, Ordering::SeqCst);
    if let Signal::End(number) = signal {
        state.ending.get_or_insert(number);
    }
    if !state.ends_for(signal, again) {
        return;
    }
    state.last.iter().for_each(|(_, act)| act());
    leave_terminal();
    match signal {
        Signal::Interrupt => std::process::exit(i32::from(INTERRUPTED)),
        Signal::End(number) => die_of(number),
    }
}

#[cfg(unix)]
fn is_hangup(signal: Signal) -> bool {
    signal == Signal::End(signal_hook::consts::SIGHUP)
}

#[cfg(not(unix))]
fn is_hangup(_: Signal) -> bool {
    false
}

#[cfg(unix)]
fn install(flag: &Arc<AtomicBool>) -> Result<(), Box<dyn std::error::Error>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut wanted = vec![SIGINT, SIGTERM];
    // SIGHUP stays ignored under `nohup`.
    wanted.extend(Some(SIGHUP).filter(|_| !hangup_is_ignored()));
    let mut signals = signal_hook::iterator::Signals::new(wanted)?;
    let flag = Arc::clone(flag);
    let listen = move || {
        for number in signals.forever() {
            heard(if number == SIGINT { Signal::Interrupt } else { Signal::End(number) }, &flag);
        }
    };
    std::thread::Builder::new().name("menagerie-signals".to_owned()).spawn(listen)?;
    Ok(())
}

#[cfg(not(unix))]
fn install(flag: &Arc<AtomicBool>) -> Result<(), Box<dyn std::error::Error>> {
    let flag = Arc::clone(flag);
    Ok(ctrlc::set_handler(move || heard(Signal::Interrupt, &flag))?)
}

/// Whether the process was started with SIGHUP ignored, so that it outlives its terminal. If the system does not report
/// this, a process without a terminal ignores SIGHUP.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    use std::io::IsTerminal;
    let status = std::fs::read_to_string("/proc/self/status").ok();
    let mask = status.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("SigIgn:")));
    match mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()) {
        // Signals are counted from 1.
        Some(mask) => mask >> (signal_hook::consts::SIGHUP - 1) & 1 == 1,
        None => {
            let (input, out, err) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
            !input.is_terminal() && !out.is_terminal() && !err.is_terminal()
        }
    }
}

#[cfg(unix)]
fn die_of(signal: i32) {
    // The default action of the signal; if that is impossible, the exit code shows the signal.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    std::process::exit(128 + signal);
}

#[cfg(not(unix))]
fn die_of(signal: i32) {
    std::process::exit(128 + signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which signals end a process at once in these modes.
    fn ends(held: &[SignalMode]) -> [bool; 3] {
        let mut state = SignalState::default();
        held.iter().for_each(|hold| state.counts[*hold as usize] += 1);
        let ends = |signal, again| state.ends_for(signal, again);
        [ends(Signal::Interrupt, false), ends(Signal::Interrupt, true), ends(Signal::End(15), true)]
    }

    #[test]
    fn what_must_be_kept_is_kept_and_nothing_else_waits() {
        use SignalMode::{AtOnce, Conversation, Orderly, Saving, Serving, Typing};
        assert_eq!(ends(&[]), [false, true, true]);
        assert_eq!(ends(&[AtOnce]), [true, true, true]);
        assert_eq!(ends(&[Orderly]), [false, true, false]);
        assert_eq!(ends(&[Conversation]), [false, false, false]);
        assert_eq!(ends(&[Conversation, Typing]), [false, false, true]);
        assert_eq!(ends(&[Conversation, AtOnce]), [true, true, true]);
        assert_eq!(ends(&[Serving]), [false, true, false]);
        assert_eq!(ends(&[Serving, AtOnce]), [false, true, false]);
        for with in [&[Saving][..], &[Saving, AtOnce], &[Saving, Orderly], &[Saving, Conversation, Typing]] {
            assert_eq!(ends(with), [false; 3], "{with:?}");
        }
    }
}
