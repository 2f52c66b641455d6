//! [`RequestClass`]: for whom an answer is computed.

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// A client.
    Client,
    /// A batch, which takes what clients leave.
    BatchLine,
}

impl RequestClass {
    /// The priority of a request that asks for this one.
    pub(crate) fn priority(self, asked: i32) -> i32 {
        match self {
            Self::Client => asked,
            Self::BatchLine => asked.min(-1),
        }
    }
}
