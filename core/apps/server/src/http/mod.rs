//! What every request passes: its id, the log, keys, origins and limits.

mod access;
mod body;
mod deadline;
mod gate;
mod host;
mod loading;
mod origin;
mod query;

pub(crate) use access::PeerAddress;
pub(crate) use body::{json_answer, read_fields};
pub(crate) use deadline::DeadlineTimer;
pub(crate) use gate::{ClientKey, HttpRequestId, gate};
pub(crate) use loading::{event_response, stream_after_load};
pub(crate) use query::{query_pairs, query_value};
