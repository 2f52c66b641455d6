//! The messages of stages, each with its encoding: what a chain sends to all stages, and what stages return.
//!
//! Every length is checked before it is used, so that a message of another program is an error and never a panic.

pub(crate) mod gather;
pub(crate) mod hook;
pub(crate) mod open;
pub(crate) mod row_fault;
pub(crate) mod section;
pub(crate) mod state_access;
pub(crate) mod state_change;
pub(crate) mod step;
pub(crate) mod times;
pub(crate) mod trace;
