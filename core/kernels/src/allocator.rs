//! Settings of the system allocator: large buffers that are freed after every step cost page faults.

/// Keeps freed buffers of up to 32 MiB in the process instead of giving them back to the system (glibc; elsewhere nothing
/// happens). Returns whether the allocator took it.
///
/// A step allocates and frees buffers of megabytes; by default glibc maps each anew, and faulting their pages in takes a
/// quarter of the time of a prompt. An application calls this once, before it loads a model. The cost is that the
/// process keeps its peak of temporary memory.
pub fn keep_large_buffers() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const LARGEST_THRESHOLD: libc::c_int = 32 << 20;
        // SAFETY: mallopt only sets parameters of the allocator and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST_THRESHOLD) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) == 1
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}
