//! [`LibraryArguments`]: models that a server opens when a request names them, and their memory.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Models on demand.
#[derive(Args, Clone, Debug)]
pub(crate) struct LibraryArguments {
    /// Folder with models (.gguf files, and folders with config.json) that are opened when a request names them: by the name
    /// of the file without the ending, or of the folder
    #[arg(long, value_name = "DIR", help_heading = "Server")]
    pub(crate) models_dir: Option<PathBuf>,
    /// Open the models that `menagerie models` lists, and the recipes of spec folders, when a request names them
    #[arg(long, hide_short_help = true, help_heading = "Server")]
    pub(crate) installed: bool,
    /// Let clients download models (ollama's /api/pull) into the store of this machine, where --installed finds them. Every
    /// client that may use the server can then fill the disk
    #[cfg(feature = "hub")]
    #[arg(long, hide_short_help = true, requires = "installed", help_heading = "Server")]
    pub(crate) allow_pull: bool,
    /// Adapter for requests that name MODEL:NAME (repeatable): a PEFT folder or a GGUF adapter. MODEL may be left out if one
    /// model is named. Adapters in the folder MODEL.adapters beside a file, or in adapters of a model's folder, need no option
    #[arg(long, hide_short_help = true, value_name = "[MODEL:]NAME=PATH", value_parser = clap::builder::TypedValueParser::try_map(clap::builder::OsStringValueParser::new(), request_adapter), help_heading = "Server")]
    pub(crate) adapter: Vec<RequestAdapter>,
    /// Memory for all models together, in bytes or with K, M, G or T (1024): weights, states of --cache-tokens and work. Idle
    /// models are dropped for others, those used longest ago first [default: nine tenths of the free memory at the start; no
    /// limit on other devices than cpu]
    #[arg(long, hide_short_help = true, value_name = "BYTES", value_parser = memory_size, help_heading = "Server")]
    pub(crate) memory: Option<u64>,
    /// Never drop this model (repeatable)
    #[arg(long, hide_short_help = true, value_name = "NAME", help_heading = "Server")]
    pub(crate) pin: Vec<String>,
    /// Drop models that had no request for this number of minutes; the next request opens them again [default: only when
    /// memory is needed]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Server")]
    idle_minutes: Option<u32>,
}

impl LibraryArguments {
    /// After this time without a request a model is dropped.
    pub(crate) fn idle(&self) -> Option<Duration> {
        self.idle_minutes.map(|minutes| Duration::from_secs(60 * u64::from(minutes)))
    }
}

/// An adapter that requests choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestAdapter {
    pub(crate) model: Option<String>,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Parses `[MODEL:]NAME=PATH`.
fn request_adapter(typed: OsString) -> Result<RequestAdapter, String> {
    let text = typed.to_str().ok_or("the name and the path must be UTF-8")?;
    let (name, path) = text.split_once('=').ok_or("expected NAME=PATH or MODEL:NAME=PATH")?;
    let (model, name) = match name.rsplit_once(':') {
        Some((model, name)) => (Some(model.to_owned()), name),
        None => (None, name),
    };
    if name.is_empty() || path.is_empty() || model.as_deref() == Some("") {
        return Err("expected NAME=PATH or MODEL:NAME=PATH".to_owned());
    }
    Ok(RequestAdapter { model, name: name.to_owned(), path: path.into() })
}

/// Parses bytes, or a number with K, M, G or T.
fn memory_size(text: &str) -> Result<u64, String> {
    let wrong = || "expected bytes, or a number with K, M, G or T, for example 6G".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_memory_are_powers_of_1024() {
        assert_eq!(
            (memory_size("6G"), memory_size("512mib"), memory_size("77")),
            (Ok(6 << 30), Ok(512 << 20), Ok(77))
        );
        for wrong in ["", "G", "1.5G", "-1", "0", "6X", "99999999999T"] {
            assert!(memory_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_adapter_has_a_name_and_perhaps_a_model() {
        let adapter = |text: &str| request_adapter(text.into());
        let named = adapter("org/repo:Q4:x=a/b=c").unwrap();
        assert_eq!((named.model.as_deref(), named.name.as_str()), (Some("org/repo:Q4"), "x"));
        assert_eq!(named.path.to_str(), Some("a/b=c"));
        assert_eq!(adapter("x=p").unwrap().model, None);
        for wrong in ["x", "=p", "x=", ":x=p", "m:=p"] {
            assert!(adapter(wrong).is_err(), "{wrong}");
        }
    }
}
