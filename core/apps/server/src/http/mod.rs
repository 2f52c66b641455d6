//! What every request passes: its id, the log, keys, origins and limits.

mod access;
mod body;
mod gate;
mod host;
mod loading;
mod origin;
mod query;
mod stream_faults;

pub(crate) use access::PeerAddress;
pub(crate) use body::{json_answer, read_fields};
pub(crate) use gate::{ClientKey, gate};
pub(crate) use loading::{event_response, stream_after_load};
pub(crate) use query::{query_pairs, query_value};
pub(crate) use stream_faults::StreamFaults;
