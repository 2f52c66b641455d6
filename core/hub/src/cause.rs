//! [`Cause`]: why a hub did not give what it was asked for.

use std::io::ErrorKind;

/// Why a hub did not give what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The name of the host has no address.
    #[error("the name of the host cannot be resolved")]
    HostNotFound,
    /// Nothing listens there.
    #[error("the connection was refused")]
    Refused,
    /// No way leads there, or nothing answered in time.
    #[error("the host cannot be reached ({0})")]
    Unreachable(String),
    /// The proxy did not connect.
    #[error("the proxy did not connect ({0})")]
    Proxy(String),
    /// No secure connection came about.
    #[error("no secure connection ({0})")]
    Tls(String),
    /// Silence within a connection.
    #[error("the server sent nothing for {0} s")]
    Stalled(u64),
    /// The connection ended early.
    #[error("the connection broke ({0})")]
    Broken(String),
    /// The answer is not one of a hub.
    #[error("the answer is not that of a hub ({0})")]
    NotAHub(String),
    /// The address makes no sense.
    #[error("the address cannot be used ({0})")]
    Address(String),
    /// The hub does not know the token.
    #[error("the hub does not accept the token")]
    Token,
    /// The terms of the repository were not accepted.
    #[error("the repository is gated")]
    Gated,
    /// 401 without a token: a private repository and none at all look the same.
    #[error("there is no such repository, or it is private")]
    NoRepositoryOrPrivate,
    /// The token may not read this.
    #[error("access is forbidden{0}")]
    Forbidden(String),
    /// No such repository.
    #[error("there is no such repository")]
    NoRepository,
    /// No such branch, tag or commit.
    #[error("the repository has no such revision")]
    NoRevision,
    /// No such file.
    #[error("the repository has no such file at this revision")]
    NoFile,
    /// Asked too often; seconds to wait if the hub says.
    #[error("too many requests (429){}", after.map_or(String::new(), |s| format!(", try again in {s} s")))]
    TooMany {
        /// Seconds to wait.
        after: Option<u64>,
    },
    /// The hub has a problem.
    #[error("the hub has a problem (status {0})")]
    Server(u16),
    /// Another status.
    #[error("status {0}")]
    Status(u16),
    /// The file is not the one that was promised.
    #[error("the file changed on the hub: {0}")]
    Changed(String),
}

impl Cause {
    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::HostNotFound => "check the network, and the spelling of HF_ENDPOINT if it is set",
            Self::Refused => {
                "check HF_ENDPOINT, and HTTPS_PROXY if it is set: nothing listens at that address"
            }
            Self::Unreachable(_) => "check the network, and HTTPS_PROXY if this network needs one",
            Self::Proxy(_) => "check HTTPS_PROXY",
            Self::Tls(_) => {
                "check the clock and HF_ENDPOINT; behind a proxy that opens connections, \
                 point SSL_CERT_FILE at its certificates"
            }
            Self::Stalled(_) => "pull again later, or set HF_HUB_DOWNLOAD_TIMEOUT to more seconds",
            Self::Broken(_) => "pull again; check the network if it stays so",
            Self::NotAHub(_) => {
                "check HF_ENDPOINT, and whether this network wants a login in a browser first"
            }
            Self::Address(_) => "check HF_ENDPOINT",
            Self::Token => "make a new token on the hub and put it into HF_TOKEN",
            Self::Gated => "accept its terms on its page, and set HF_TOKEN to a token of that account",
            Self::NoRepositoryOrPrivate => "check the spelling; if it is private, set HF_TOKEN",
            Self::Forbidden(_) => "use a token (HF_TOKEN) that may read this repository",
            Self::NoRepository => "check the spelling of org/repo",
            Self::NoRevision => "check what follows the @: a branch, tag or commit",
            Self::NoFile => "pull org/repo:QUANT to choose by quantization",
            Self::TooMany { .. } => "wait a while; with a token (HF_TOKEN) more is allowed",
            Self::Server(_) => "try again later: nothing is wrong on this side",
            Self::Status(_) => "check HF_ENDPOINT",
            Self::Changed(_) => "pull again",
        }
    }

    /// Whether asking again soon may help.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Stalled(_) | Self::Broken(_) | Self::TooMany { .. } | Self::Server(_))
    }

    /// Whether no hub was there to answer, rightly or wrongly.
    pub(crate) fn no_answer(&self) -> bool {
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

    /// What an error of the client means; `silence` is the seconds it waited.
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
            Error::InvalidProxyUrl => Self::Proxy("its address cannot be read".to_owned()),
            Error::BadUri(reason) => Self::Address(reason),
            Error::Http(error) => Self::Address(error.to_string()),
            Error::Protocol(error) => Self::NotAHub(error.to_string()),
            Error::TooManyRedirects => Self::NotAHub("it redirects without end".to_owned()),
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
            // rustls wraps its errors so.
            ErrorKind::InvalidData => Self::Tls(text),
            // The library gives look-ups no kind of their own.
            _ if text.contains("failed to lookup address") => Self::HostNotFound,
            _ => Self::Broken(text),
        }
    }

    /// What a status other than success means; `code` and `message` are the hub's `x-error-code` and
    /// `x-error-message`, read as `huggingface_hub` reads them.
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
