//! [`EchoOff`]: hides what is typed while an answer is printed; the input is kept for the next line that is read.

/// A guard: while it exists, the terminal does not show what is typed.
pub(crate) struct EchoOff(());

impl EchoOff {
    /// Turns the echo off, if standard input is a terminal and this process may change it.
    pub(crate) fn begin() -> Option<Self> {
        terminal::hide().then_some(Self(()))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal; for process exits that do not run destructors.
pub(crate) fn restore() {
    terminal::restore();
}

#[cfg(unix)]
mod terminal {
    use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
    use std::io::{IsTerminal, stdin};
    use std::sync::{Mutex, PoisonError};

    /// The settings to restore.
    static FOUND: Mutex<Option<Termios>> = Mutex::new(None);

    pub(super) fn hide() -> bool {
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_some() || !stdin().is_terminal() || !in_foreground() {
            return false;
        }
        let Ok(settings) = tcgetattr(stdin()) else { return false };
        if !settings.local_flags.contains(LocalFlags::ECHO) {
            return false;
        }
        let mut quiet = settings.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        let hidden = tcsetattr(stdin(), SetArg::TCSANOW, &quiet).is_ok();
        *found = hidden.then_some(settings);
        hidden
    }

    pub(super) fn restore() {
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(settings) = found.take() {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &settings);
        }
    }

    /// A process in the background would be stopped if it changed the terminal.
    fn in_foreground() -> bool {
        nix::unistd::tcgetpgrp(stdin()).is_ok_and(|group| group == nix::unistd::getpgrp())
    }
}

#[cfg(not(unix))]
mod terminal {
    pub(super) fn hide() -> bool {
        false
    }

    pub(super) fn restore() {}
}
