//! The SIGBUS handler.

use std::cell::UnsafeCell;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

use super::table;

/// The handler that was there before ours: written once, before ours is installed.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: `install` writes it once under a lock and before `KNOWN` is set (SeqCst); all later accesses are reads.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));
static KNOWN: AtomicBool = AtomicBool::new(false);
static PAGE: AtomicUsize = AtomicUsize::new(4096);
static INSTALLING: Mutex<()> = Mutex::new(());

pub(super) fn install() -> io::Result<()> {
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if KNOWN.load(Ordering::SeqCst) {
        return Ok(());
    }
    // SAFETY: sysconf reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if let Ok(page) = usize::try_from(page)
        && page.is_power_of_two()
    {
        PAGE.store(page, Ordering::SeqCst);
    }
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null new action makes this a query; `before` has room for the answer.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: we hold the lock and `KNOWN` is false, so nobody reads or writes the cell; the query filled `before`.
    unsafe { *PREVIOUS.0.get() = before };
    KNOWN.store(true, Ordering::SeqCst);
    // SAFETY: all-zero bytes are a valid sigaction (no flags, empty mask, default handler).
    let mut ours: libc::sigaction = unsafe { mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_bus;
    ours.sa_sigaction = handler as libc::sighandler_t;
    // The alternate stack, as std's handler: on some systems stack overflow is a SIGBUS too.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `ours` is initialized and its handler calls only what may be called in a signal handler.
    if unsafe { libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()) } != 0 {
        let refused = io::Error::last_os_error();
        KNOWN.store(false, Ordering::SeqCst);
        return Err(refused);
    }
    Ok(())
}

extern "C" fn on_bus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = Errno::save();
    if !replaced(info) {
        chain(signal, info, context);
    }
    errno.restore();
}

/// Whether the fault was in a mapped file and its pages, from the faulting one on, are zeros now.
fn replaced(info: *mut siginfo_t) -> bool {
    if info.is_null() {
        return false;
    }
    // SAFETY: not null, and the system gives a handler installed with SA_SIGINFO a valid siginfo_t.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // A signal sent by a process (code <= 0) has no fault address.
    if code <= 0 {
        return false;
    }
    let Some((start, len)) = table::poison(address) else { return false };
    let page = PAGE.load(Ordering::SeqCst);
    let from = address & !(page - 1);
    let to = (start + len).next_multiple_of(page);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: from..to are whole pages of a mapping that we own (the table holds it until just before it is unmapped,
    // and the thread that faulted in it keeps it alive), so that nothing else is replaced; readers hold shared bytes
    // of any value. The call is a plain system call.
    let made = unsafe { libc::mmap(from as *mut c_void, to - from, libc::PROT_READ, flags, -1, 0) };
    made != libc::MAP_FAILED
}

/// Does what would have been done without us.
fn chain(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if !KNOWN.load(Ordering::SeqCst) {
        return;
    }
    // SAFETY: `KNOWN` is set after the only write, which stored what the system answered.
    let previous = unsafe { (*PREVIOUS.0.get()).assume_init_ref() };
    let handler = previous.sa_sigaction;
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // A fault cannot be ignored: back to the default, and the instruction faults again. A signal that was sent
        // comes once, so it is sent again.
        // SAFETY: an all-zero sigaction is the default action; both calls are signal-safe.
        unsafe {
            let default: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, &default, ptr::null_mut());
            if handler == libc::SIG_DFL && !info.is_null() && (*info).si_code <= 0 {
                libc::raise(signal);
            }
        }
    } else if previous.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler installed with SA_SIGINFO has this signature.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler installed without SA_SIGINFO has this signature.
        let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
        handler(signal);
    }
}

/// The thread's errno, which a handler must leave as it was.
struct Errno(c_int);

impl Errno {
    fn location() -> *mut c_int {
        // SAFETY: each returns the address of the calling thread's errno.
        #[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "redox"))]
        return unsafe { libc::__errno_location() };
        // SAFETY: as above.
        #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
        return unsafe { libc::__error() };
        // SAFETY: as above.
        #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
        return unsafe { libc::__errno() };
        #[allow(unreachable_code)]
        ptr::null_mut()
    }

    fn save() -> Self {
        let location = Self::location();
        // SAFETY: not null means the address of this thread's errno.
        Self(if location.is_null() { 0 } else { unsafe { *location } })
    }

    fn restore(&self) {
        let location = Self::location();
        if !location.is_null() {
            // SAFETY: not null means the address of this thread's errno.
            unsafe { *location = self.0 };
        }
    }
}
