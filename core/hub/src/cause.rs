//! [`Cause`]: the reason why a request to a hub failed.

use std::io::ErrorKind;

/// The reason why a request to a hub failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The host name cannot be resolved.
    #[error("the host name cannot be resolved")]
    HostNotFound,
    /// The connection was refused.
    #[error("the connection was refused")]
    Refused,
    /// There is no route to the host, or it did not answer in time.
    #[error("the host cannot be reached ({0})")]
    Unreachable(String),
    /// The proxy did not connect.
    #[error("the proxy did not connect ({0})")]
    Proxy(String),
    /// The TLS connection failed.
    #[error("no secure connection ({0})")]
    Tls(String),
    /// The connection timed out.
    #[error("the server sent nothing for {0} s")]
    Stalled(u64),
    /// The connection ended early.
    #[error("the connection was interrupted ({0})")]
    Broken(String),
    /// The response does not come from a hub.
    #[error("the response is not from a hub ({0})")]
    NotAHub(String),
    /// The address is invalid.
    #[error("the address is invalid ({0})")]
    Address(String),
    /// The hub does not accept the token.
    #[error("the hub does not accept the token")]
    Token,
    /// The terms of the repository were not accepted.
    #[error("the repository is gated")]
    Gated,
    /// 401 without a token: the repository does not exist or is private.
    #[error("the repository does not exist or is private")]
    NoRepositoryOrPrivate,
    /// The token may not read this.
    #[error("access is forbidden{0}")]
    Forbidden(String),
    /// The repository does not exist.
    #[error("the repository does not exist")]
    NoRepository,
    /// No such branch, tag or commit.
    #[error("the repository has no such revision")]
    NoRevision,
    /// No such file.
    #[error("the repository has no such file at this revision")]
    NoFile,
    /// Too many requests; with the seconds to wait, if the hub states them.
    #[error("too many requests (429){}", after.map_or(String::new(), |s| format!(", try again in {s} s")))]
    TooMany {
        /// Seconds to wait.
        after: Option<u64>,
    },
    /// An error of the hub.
    #[error("the hub has an internal error (status {0})")]
    Server(u16),
    /// Another status.
    #[error("unexpected status {0}")]
    Status(u16),
    /// The file differs from the one that the hub announced.
    #[error("the file changed on the hub: {0}")]
    Changed(String),
}

impl Cause {
    /// Advice for the user.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::HostNotFound => "check the network, and the spelling of HF_ENDPOINT if it is set",
            Self::Refused => {
                "check HF_ENDPOINT, and HTTPS_PROXY if it is set: no server listens at that address"
            }
            Self::Unreachable(_) => "check the network, and HTTPS_PROXY if this network needs one",
            Self::Proxy(_) => "check HTTPS_PROXY",
            Self::Tls(_) => {
                "check the clock and HF_ENDPOINT; behind a proxy that intercepts TLS, \
                 set SSL_CERT_FILE to its certificates"
            }
            Self::Stalled(_) => "pull again later, or set HF_HUB_DOWNLOAD_TIMEOUT to more seconds",
            Self::Broken(_) => "pull again; if it happens again, check the network",
            Self::NotAHub(_) => {
                "check HF_ENDPOINT, and whether this network requires a login in a browser first"
            }
            Self::Address(_) => "check HF_ENDPOINT",
            Self::Token => "create a new token on the hub and set HF_TOKEN to it",
            Self::Gated => "accept its terms on its web page, and set HF_TOKEN to a token of that account",
            Self::NoRepositoryOrPrivate => "check the spelling; if it is private, set HF_TOKEN",
            Self::Forbidden(_) => "use a token (HF_TOKEN) with read access to this repository",
            Self::NoRepository => "check the spelling of org/repo",
            Self::NoRevision => "check the branch, tag or commit after the @",
            Self::NoFile => "pull org/repo:QUANT to choose by quantization",
            Self::TooMany { .. } => {
                "wait before you pull again; with a token (HF_TOKEN) the limits are higher"
            }
            Self::Server(_) => "try again later",
            Self::Status(_) => "check HF_ENDPOINT",
            Self::Changed(_) => "pull again",
        }
    }

    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Stalled(_) | Self::Broken(_) | Self::TooMany { .. } | Self::Server(_))
    }

    /// Whether the hub could not be reached.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::HostNotFound
                | Self::Refused
                | Self::Unreachable(_)
                | Self::Proxy(_)
                | Self::Tls(_)
                | Self::Stalled(_)
                | Self::Broken(_)
                | Self::NotAHub(_)
                | Self::Server(_)
        )
    }

    /// The cause of a client error; `silence` is the timeout in seconds.
    pub(crate) fn of_client(error: ureq::Error, silence: u64) -> Self {
        use ureq::Error;
        match error {
            Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                Self::Unreachable("nothing answered in time".to_owned())
            }
            Error::Timeout(_) => Self::Stalled(silence),
            Error::HostNotFound => Self::HostNotFound,
            Error::Io(error) => Self::of_io(error, silence),
            Error::Tls(reason) => Self::Tls(reason.to_owned()),
            Error::Rustls(error) => Self::Tls(error.to_string()),
            Error::Pem(error) => Self::Tls(format!("{error:?}")),
            Error::ConnectProxyFailed(reason) => Self::Proxy(reason),
            Error::InvalidProxyUrl => Self::Proxy("its address is invalid".to_owned()),
            Error::BadUri(reason) => Self::Address(reason),
            Error::Http(error) => Self::Address(error.to_string()),
            Error::Protocol(error) => Self::NotAHub(error.to_string()),
            Error::TooManyRedirects => Self::NotAHub("too many redirects".to_owned()),
            other => Self::Broken(other.to_string()),
        }
    }

    fn of_io(error: std::io::Error, silence: u64) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
                Self::Unreachable(text)
            }
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::Stalled(silence),
            // rustls wraps its errors in this kind.
            ErrorKind::InvalidData => Self::Tls(text),
            // The library has no kind for failed look-ups.
            _ if text.contains("failed to lookup address") => Self::HostNotFound,
            _ => Self::Broken(text),
        }
    }

    /// The cause of a status other than success; `code` and `message` are the hub's `x-error-code` and `x-error-message`,
    /// interpreted as in `huggingface_hub`.
    pub(crate) fn of_status(status: u16, code: &str, message: &str, with_token: bool) -> Self {
        match (status, code) {
            (_, "GatedRepo") => Self::Gated,
            (_, "RevisionNotFound") => Self::NoRevision,
            (_, "EntryNotFound") => Self::NoFile,
            (401, _) if with_token && message.to_ascii_lowercase().contains("invalid") => Self::Token,
            (401, _) => Self::NoRepositoryOrPrivate,
            (403, _) if message.is_empty() => Self::Forbidden(String::new()),
            (403, _) => Self::Forbidden(format!(": {message}")),
            (404, _) => Self::NoRepository,
            (500.., _) => Self::Server(status),
            _ => Self::Status(status),
        }
    }
}
