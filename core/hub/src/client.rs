//! [`Client`]: the three requests to a hub: the files of a repository, the properties of a file, its bytes.

use crate::{Cause, HubError, HubSettings, Timeouts};
use serde::Deserialize;
use std::io::Read;
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body};

/// Longest list of files that is read, in bytes.
const LONGEST_LISTING: u64 = 64 << 20;
/// Redirects that are followed (a renamed repository has one, large files another).
const HOPS: usize = 10;

/// An HTTP client of a hub.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
    timeouts: Timeouts,
}

/// The files of a repository at a commit.
#[derive(Debug, Deserialize)]
pub(crate) struct Listing {
    #[serde(rename = "sha")]
    pub(crate) commit: String,
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
}

impl Listing {
    /// The names, except those that would lead out of the folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let names = self.siblings.iter().map(|sibling| sibling.rfilename.clone());
        names.filter(|name| crate::identifiers::is_safe_file(name)).collect()
    }
}

/// A file as the hub describes it.
#[derive(Clone, Debug)]
pub(crate) struct RemoteFile {
    /// Its name in messages: `file of org/repo`.
    pub(crate) title: String,
    pub(crate) url: String,
    /// Its name in the cache.
    pub(crate) etag: String,
    pub(crate) bytes: Option<u64>,
}

/// The response to a request for bytes.
pub(crate) enum BytesResponse {
    /// The bytes from `start` on; `total` is the length of the whole file.
    From { start: u64, total: Option<u64>, body: Box<dyn Read> },
    /// The requested range is after the end; `total` is the length of the whole file.
    PastEnd { total: Option<u64> },
}

impl Client {
    /// With the address, token and timeouts of the settings.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub(crate) fn new(settings: &HubSettings) -> Result<Self, HubError> {
        let timeouts = settings.timeouts.clone();
        let mut tls = TlsConfig::builder();
        if let Some(path) = &settings.certificates {
            let pem = std::fs::read(path).map_err(HubError::io(path))?;
            let certificates: Vec<Certificate<'static>> = ureq::tls::parse_pem(&pem)
                .filter_map(|item| match item {
                    Ok(PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                })
                .collect();
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(timeouts.connect))
            .timeout_per_read(Some(timeouts.silence))
            .timeout_per_write(Some(timeouts.silence))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("menagerie/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .tls_config(tls.build())
            .build();
        Ok(Self {
            agent: config.new_agent(),
            endpoint: settings.endpoint.clone(),
            token: settings.token.clone(),
            timeouts,
        })
    }

    /// Its timeouts and retries.
    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The files of a repository at a branch, tag or commit.
    ///
    /// # Errors
    /// [`HubError::Remote`].
    pub(crate) fn listing(&self, id: &str, revision: &str) -> Result<Listing, HubError> {
        let url = format!("{}/api/models/{id}/revision/{}", self.endpoint, encode(revision, false));
        let answer = self.again(|| {
            let (_, answer) = self.follow(&url, |url| self.agent.get(url), |_| false)?;
            let mut answer = self.good(answer)?;
            let body = answer.body_mut().with_config().limit(LONGEST_LISTING).read_to_string();
            let body = body.map_err(|error| self.cause(error))?;
            let listing: Listing = serde_json::from_str(&body).map_err(|_| {
                Cause::NotAHub("it returned a web page instead of a list of files".to_owned())
            })?;
            if listing.commit.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !listing.commit.is_empty() {
                return Ok(listing);
            }
            Err(Cause::NotAHub(format!("`{}` is not a commit", listing.commit.escape_debug())))
        });
        answer.map_err(|cause| self.error(format!("the list of files of {id}"), cause, String::new()))
    }

    /// The properties of a file at a commit.
    ///
    /// # Errors
    /// [`HubError::Remote`].
    pub(crate) fn describe(&self, id: &str, commit: &str, file: &str) -> Result<RemoteFile, HubError> {
        let title = format!("{file} of {id}");
        let url = format!("{}/{id}/resolve/{commit}/{}", self.endpoint, encode(file, true));
        let described = self.again(|| {
            // A redirect away from the hub leads to another ETag.
            let linked = |answer: &Response<Body>| answer.headers().contains_key("x-linked-etag");
            let (url, answer) = self.follow(&url, |url| self.agent.head(url), linked)?;
            let answer = if linked(&answer) { answer } else { self.good(answer)? };
            let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
            let etag = header("x-linked-etag").or_else(|| header("etag")).unwrap_or_default();
            let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | '+' | '~');
            if etag.is_empty() || etag.starts_with('.') || etag.len() > 200 || !etag.chars().all(plain) {
                let reason = format!("its ETag `{}` is not a valid file name", etag.escape_debug());
                return Err(Cause::NotAHub(reason));
            }
            // The length of a redirect's body is not that of the file.
            let length = if answer.status().is_success() { header("content-length") } else { None };
            let bytes = header("x-linked-size").or(length).and_then(|value| value.parse().ok());
            Ok(RemoteFile { title: title.clone(), url, etag, bytes })
        });
        described.map_err(|cause| self.error(title.clone(), cause, String::new()))
    }

    /// The bytes of a file from an offset on.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) fn bytes(&self, file: &RemoteFile, from: u64) -> Result<BytesResponse, Cause> {
        let ranged = from > 0;
        let request = |url: &str| match ranged {
            true => self.agent.get(url).header("range", format!("bytes={from}-")),
            false => self.agent.get(url),
        };
        let (_, answer) = self.follow(&file.url, request, |_| false)?;
        let range = answer.headers().get("content-range").and_then(|value| value.to_str().ok());
        let range = range.and_then(ContentRange::parse);
        let total = range.as_ref().and_then(|range| range.total);
        if answer.status() == 416 && ranged {
            return Ok(BytesResponse::PastEnd { total });
        }
        let answer = self.good(answer)?;
        if answer.status() == 206 {
            let start = range.and_then(|range| range.start).unwrap_or(0);
            return Ok(BytesResponse::From {
                start,
                total,
                body: Box::new(answer.into_body().into_reader()),
            });
        }
        let total = answer.body().content_length();
        Ok(BytesResponse::From { start: 0, total, body: Box::new(answer.into_body().into_reader()) })
    }

    /// The cause of a client error.
    pub(crate) fn cause(&self, error: ureq::Error) -> Cause {
        Cause::of_client(error, self.timeouts.silence.as_secs())
    }

    /// The error of a request to this hub.
    pub(crate) fn error(&self, what: String, cause: Cause, kept: String) -> HubError {
        HubError::Remote { what, endpoint: self.endpoint.clone(), cause, kept }
    }

    /// Sends a request and follows redirects until `enough`; returns the last address too. The token goes to the hub
    /// only, never to where it redirects.
    fn follow(
        &self,
        url: &str,
        request: impl Fn(&str) -> ureq::RequestBuilder<WithoutBody>,
        enough: impl Fn(&Response<Body>) -> bool,
    ) -> Result<(String, Response<Body>), Cause> {
        let mut url = url.to_owned();
        for _ in 0..HOPS {
            let ours = url.strip_prefix(&self.endpoint).is_some_and(|rest| rest.starts_with('/'));
            let request = match &self.token {
                Some(token) if ours => request(&url).header("authorization", format!("Bearer {token}")),
                _ => request(&url),
            };
            let answer = request.call().map_err(|error| self.cause(error))?;
            let location = answer.headers().get("location").and_then(|value| value.to_str().ok());
            url = match location {
                Some(location) if answer.status().is_redirection() && !enough(&answer) => {
                    absolute(&url, location)?
                }
                _ => return Ok((url, answer)),
            };
        }
        Err(Cause::NotAHub("too many redirects".to_owned()))
    }

    /// The response, if its status is success.
    fn good(&self, answer: Response<Body>) -> Result<Response<Body>, Cause> {
        let header = |name: &str| {
            let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect::<String>()
        };
        match answer.status().as_u16() {
            200..300 => Ok(answer),
            429 => Err(Cause::TooMany { after: header("retry-after").parse().ok() }),
            status => {
                let (code, message) = (header("x-error-code"), header("x-error-message"));
                Err(Cause::of_status(status, &code, &message, self.token.is_some()))
            }
        }
    }

    /// Repeats a request while a retry may succeed.
    fn again<T>(&self, mut ask: impl FnMut() -> Result<T, Cause>) -> Result<T, Cause> {
        let mut asked = 0;
        loop {
            match ask() {
                Err(cause) if cause.is_transient() && asked < self.timeouts.retries => {
                    std::thread::sleep(self.pause(asked, &cause));
                    asked += 1;
                }
                other => return other,
            }
        }
    }

    /// The delay before the next try; a delay that the hub requests is limited to a minute.
    pub(crate) fn pause(&self, fruitless: u32, cause: &Cause) -> Duration {
        let doubled = self.timeouts.pause * 2u32.saturating_pow(fruitless.min(6));
        match cause {
            Cause::TooMany { after: Some(seconds) } => doubled.max(Duration::from_secs((*seconds).min(60))),
            _ => doubled,
        }
    }
}

/// The target of a redirect.
fn absolute(from: &str, location: &str) -> Result<String, Cause> {
    if location.starts_with("http://") || location.starts_with("https://") {
        return Ok(location.to_owned());
    }
    let host = from.find("://").map_or(0, |at| at + 3);
    let root = from[host..].find('/').map_or(from, |at| &from[..host + at]);
    match location {
        path if path.starts_with('/') && !path.starts_with("//") => Ok(format!("{root}{path}")),
        other => Err(Cause::NotAHub(format!("it redirects to `{}`", other.escape_debug()))),
    }
}

/// `bytes 5-9/10` or `bytes */10`.
struct ContentRange {
    start: Option<u64>,
    total: Option<u64>,
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let start = range.split_once('-').and_then(|(start, _)| start.trim().parse().ok());
        Some(Self { start, total: total.trim().parse().ok() })
    }
}

/// Percent-encodes characters that are not allowed in a path segment; slashes are kept if `slashes` is set.
fn encode(text: &str, slashes: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            b'/' if slashes => encoded.push('/'),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_urls_want_them() {
        assert_eq!(encode("a b/ü.gguf", true), "a%20b/%C3%BC.gguf");
        assert_eq!(encode("refs/pr/1", false), "refs%2Fpr%2F1");
    }

    #[test]
    fn redirects_lead_on() {
        let lead = |location| absolute("https://h:1/a/b?c", location).ok();
        assert_eq!(lead("/d").as_deref(), Some("https://h:1/d"));
        assert_eq!(lead("http://i/d").as_deref(), Some("http://i/d"));
        assert_eq!(lead("//i/d"), None);
    }

    #[test]
    fn ranges_are_read() {
        let range = ContentRange::parse("bytes 5-9/10").unwrap();
        assert_eq!((range.start, range.total), (Some(5), Some(10)));
        let range = ContentRange::parse("bytes */10").unwrap();
        assert_eq!((range.start, range.total), (None, Some(10)));
        assert!(ContentRange::parse("rows 1-2/3").is_none());
    }
}
