//! The CPU as a backend: operations of a forward over `menagerie-kernels`, weights as views over the mapped file.
//!
//! Start at [`CpuBackend`]. Rows are host vectors that return to the backend when they are dropped, so a step allocates
//! nothing that an earlier one already had.
#![forbid(unsafe_code)]

mod attention;
mod backend;
mod buffers;
mod device;
mod matrix;
mod names;
mod products;
mod recurrence;
mod state;
mod stored;

pub use backend::CpuBackend;
