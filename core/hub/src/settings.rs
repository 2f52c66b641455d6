//! [`HubSettings`]: the hub's variables and folders, read once.

use crate::HubError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeouts and retries of requests to the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout for connecting.
    pub connect: Duration,
    /// Timeout without data in a connection (`HF_HUB_DOWNLOAD_TIMEOUT`, seconds).
    pub silence: Duration,
    /// Number of retries of a transfer without progress.
    pub retries: u32,
    /// Delay before the first retry; it doubles each time.
    pub pause: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), silence: seconds(30), retries: 3, pause: seconds(1) }
    }
}

/// The hub's address, credentials and folders.
#[derive(Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// Hub address (`HF_ENDPOINT`).
    pub endpoint: String,
    /// Hub cache: `HF_HUB_CACHE`, or `$HF_HOME/hub`; `None` without a home folder.
    pub hub_cache: Option<PathBuf>,
    /// The program's own cache: `$XDG_CACHE_HOME/menagerie`; `None` without a home folder.
    pub own_cache: Option<PathBuf>,
    /// `HF_TOKEN`, or the contents of the file `HF_TOKEN_PATH` or `$HF_HOME/token`.
    pub token: Option<String>,
    /// `HF_HUB_OFFLINE` is set to 1, true, yes or on.
    pub offline: bool,
    /// Certificates to trust instead of the built-in ones, a PEM file (`SSL_CERT_FILE`).
    pub certificates: Option<PathBuf>,
    /// Timeouts and retries.
    pub timeouts: Timeouts,
}

impl std::fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubSettings")
            .field("endpoint", &self.endpoint)
            .field("hub_cache", &self.hub_cache)
            .field("own_cache", &self.own_cache)
            .field("token", &self.token.as_ref().map(|_| "(set)"))
            .field("offline", &self.offline)
            .field("certificates", &self.certificates)
            .field("timeouts", &self.timeouts)
            .finish()
    }
}

impl HubSettings {
    /// Reads the variables of this process; without `HOME`, the home folder of its user is used.
    pub fn of_process() -> Self {
        Self::from_variables(|name| {
            let set = std::env::var_os(name);
            if name == "HOME" {
                set.or_else(|| std::env::home_dir().map(PathBuf::into_os_string))
            } else {
                set
            }
        })
    }

    /// Reads variables through `get`; empty ones count as absent.
    pub(crate) fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let path = |name: &str| get(name).map(PathBuf::from);
        let text = |name: &str| get(name).and_then(|value| value.into_string().ok());
        let cache = path("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| path("HOME").map(|home| home.join(".cache")));
        let hf_home = path("HF_HOME").or_else(|| cache.as_ref().map(|cache| cache.join("huggingface")));
        let hub_cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| hf_home.as_ref().map(|home| home.join("hub")));
        let token_file = path("HF_TOKEN_PATH").or_else(|| hf_home.as_ref().map(|home| home.join("token")));
        let stored = || token_file.and_then(|file| std::fs::read_to_string(file).ok());
        let offline = text("HF_HUB_OFFLINE")
            .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"));
        let seconds = text("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|value| value.parse().ok());
        let timeouts = Timeouts::default();
        Self {
            endpoint: text("HF_ENDPOINT")
                .map_or_else(|| "https://huggingface.co".to_owned(), |e| e.trim_end_matches('/').to_owned()),
            hub_cache,
            own_cache: cache.map(|cache| cache.join("menagerie")),
            token: text("HF_TOKEN")
                .or_else(stored)
                .map(|token| token.trim().to_owned())
                .filter(|token| !token.is_empty()),
            offline,
            certificates: path("SSL_CERT_FILE"),
            timeouts: Timeouts {
                silence: seconds.filter(|&s| s > 0).map_or(timeouts.silence, Duration::from_secs),
                ..timeouts
            },
        }
    }

    /// The hub cache.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub(crate) fn hub_folder(&self) -> Result<&Path, HubError> {
        self.hub_cache.as_deref().ok_or(HubError::NoHome { variable: "HF_HOME" })
    }

    /// The program's own cache.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub(crate) fn own_folder(&self) -> Result<&Path, HubError> {
        self.own_cache.as_deref().ok_or(HubError::NoHome { variable: "XDG_CACHE_HOME" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> HubSettings {
        HubSettings::from_variables(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn defaults_follow_xdg_and_home() {
        let plain = settings(&[("HOME", "/h")]);
        assert_eq!(plain.hub_cache, Some("/h/.cache/huggingface/hub".into()));
        assert_eq!(plain.own_cache, Some("/h/.cache/menagerie".into()));
        let xdg = settings(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]);
        assert_eq!(xdg.hub_cache, Some("/c/huggingface/hub".into()));
        assert!(!xdg.offline);
    }

    #[test]
    fn hub_cache_beats_home_and_token_is_trimmed() {
        let set = settings(&[
            ("HF_HOME", "/hf"),
            ("HF_HUB_CACHE", "/cache"),
            ("HF_TOKEN", " secret\n"),
            ("HF_HUB_OFFLINE", "1"),
            ("HF_ENDPOINT", "http://localhost:1/"),
            ("HF_HUB_DOWNLOAD_TIMEOUT", "7"),
        ]);
        assert_eq!(set.hub_cache, Some("/cache".into()));
        assert_eq!(set.token.as_deref(), Some("secret"));
        assert!(set.offline);
        assert_eq!(set.endpoint, "http://localhost:1");
        assert_eq!(set.timeouts.silence, Duration::from_secs(7));
        assert!(!format!("{set:?}").contains("secret"));
    }

    /// The current folder is not used as a home folder.
    #[test]
    fn without_a_home_there_is_no_folder() {
        let none = settings(&[]);
        assert_eq!((none.hub_cache.clone(), none.own_cache.clone()), (None, None));
        assert!(none.own_folder().unwrap_err().to_string().contains("HOME"));
    }
}
