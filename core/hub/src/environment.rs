//! [`Environment`]: the hub's variables and folders, read once.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where models are fetched from and kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    /// Hub address (`HF_ENDPOINT`).
    pub endpoint: String,
    /// Hub cache: `HF_HUB_CACHE`, else `$HF_HOME/hub`.
    pub hub_cache: PathBuf,
    /// Our own models: `$XDG_CACHE_HOME/menagerie/models`.
    pub models: PathBuf,
    /// `HF_TOKEN`, else the file `HF_TOKEN_PATH` or `$HF_HOME/token`.
    pub token: Option<String>,
    /// `HF_HUB_OFFLINE` is set to 1, true, yes or on.
    pub offline: bool,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("endpoint", &self.endpoint)
            .field("hub_cache", &self.hub_cache)
            .field("models", &self.models)
            .field("token", &self.token.as_ref().map(|_| "(set)"))
            .field("offline", &self.offline)
            .finish()
    }
}

impl Environment {
    /// Reads the variables of this process.
    pub fn of_process() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Reads variables through `get`; empty ones count as absent.
    pub fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let path = |name: &str| get(name).map(PathBuf::from);
        let text = |name: &str| get(name).and_then(|value| value.into_string().ok());
        let home = path("HOME").unwrap_or_else(|| PathBuf::from("."));
        let cache = path("XDG_CACHE_HOME").filter(|p| p.is_absolute()).unwrap_or_else(|| home.join(".cache"));
        let hf_home = path("HF_HOME").unwrap_or_else(|| cache.join("huggingface"));
        let hub_cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .unwrap_or_else(|| hf_home.join("hub"));
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token"));
        let token = text("HF_TOKEN").or_else(|| std::fs::read_to_string(token_file).ok());
        let offline = text("HF_HUB_OFFLINE")
            .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"));
        Self {
            endpoint: text("HF_ENDPOINT")
                .map_or_else(|| "https://huggingface.co".to_owned(), |e| e.trim_end_matches('/').to_owned()),
            hub_cache,
            models: cache.join("menagerie").join("models"),
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
            offline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::from_variables(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn defaults_follow_xdg_and_home() {
        let plain = environment(&[("HOME", "/h")]);
        assert_eq!(plain.hub_cache, PathBuf::from("/h/.cache/huggingface/hub"));
        assert_eq!(plain.models, PathBuf::from("/h/.cache/menagerie/models"));
        let xdg = environment(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]);
        assert_eq!(xdg.hub_cache, PathBuf::from("/c/huggingface/hub"));
        assert!(!xdg.offline);
    }

    #[test]
    fn hub_cache_beats_home_and_token_is_trimmed() {
        let set = environment(&[
            ("HF_HOME", "/hf"),
            ("HF_HUB_CACHE", "/cache"),
            ("HF_TOKEN", " secret\n"),
            ("HF_HUB_OFFLINE", "1"),
            ("HF_ENDPOINT", "http://localhost:1/"),
        ]);
        assert_eq!(set.hub_cache, PathBuf::from("/cache"));
        assert_eq!(set.token.as_deref(), Some("secret"));
        assert!(set.offline);
        assert_eq!(set.endpoint, "http://localhost:1");
        assert!(!format!("{set:?}").contains("secret"));
    }
}
