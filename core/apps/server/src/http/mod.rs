//! What every request passes: its id, the log, keys, origins and limits.

mod access;
mod body;
mod gate;
mod origin;

pub(crate) use access::PeerAddress;
pub(crate) use body::{json_answer, read_fields};
pub(crate) use gate::{ClientKey, gate};
