//! [`Requester`]: whose request it is.

use crate::http::ClientKey;
use crate::worker::RequestClass;

/// The client of a request, and whether it waits for the answer or a batch of it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    pub(crate) key: ClientKey,
    pub(crate) class: RequestClass,
}

impl From<ClientKey> for Requester {
    fn from(key: ClientKey) -> Self {
        Self { key, class: RequestClass::Client }
    }
}
