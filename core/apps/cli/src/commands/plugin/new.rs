//! `plugin new AUTHOR/NAME`: writes a crate that builds and passes its own check.

use crate::failure::Failure;
use crate::output;
use clap::{Args, ValueEnum};
use menagerie::files::path_text;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Create the crate of a plugin with one working component to start from
///
/// It builds with `cargo build --release` on Rust 1.85 or later, and passes `plugin check`. Its README lists the commands.
#[derive(Args)]
pub(crate) struct PluginNewCommand {
    /// Id of the plugin, AUTHOR/NAME: the prefix of its components' names
    id: String,
    /// Kind of the component
    #[arg(long, value_enum, default_value_t = ComponentKind::Mixer, value_name = "KIND")]
    kind: ComponentKind,
    /// Name of the component [default: the plugin's NAME]
    #[arg(long, value_name = "NAME")]
    component: Option<String>,
    /// Folder to write [default: NAME in the current folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Use the SDK (menagerie-plugin) in this folder (core/plugin of a checkout) instead of a published version
    #[arg(long, value_name = "DIR")]
    sdk_path: Option<PathBuf>,
    /// Print JSON: the files that were written
    #[arg(long)]
    json: bool,
}

/// The kind of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComponentKind {
    /// Mixes information between tokens, with a state
    Mixer,
    /// Transforms each token
    FeedForward,
    /// Normalizes each row
    Norm,
    /// A function of each element
    Activation,
    /// The frequencies of RoPE
    Rope,
    /// A step of the sampler chain
    Sampler,
    /// Converts text to tokens and back
    Tokenizer,
    /// Replaces hidden states between layers
    LayerHook,
}

/// A file's path in the folder, and its text.
type Template = (&'static str, &'static str);

macro_rules! template {
    ($file:literal) => {
        include_str!(concat!("templates/", $file))
    };
}

const COMMON: [Template; 3] = [
    ("Cargo.toml", template!("Cargo.toml.in")),
    (".gitignore", template!("gitignore.in")),
    ("README.md", template!("README.md.in")),
];

impl ComponentKind {
    /// The source of the crate, and the instructions for using its component.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Mixer => (template!("mixer.rs.in"), template!("mixer.use.in")),
            Self::FeedForward => (template!("feed-forward.rs.in"), template!("feed-forward.use.in")),
            Self::Norm => (template!("norm.rs.in"), template!("norm.use.in")),
            Self::Activation => (template!("activation.rs.in"), template!("activation.use.in")),
            Self::Rope => (template!("rope.rs.in"), template!("rope.use.in")),
            Self::Sampler => (template!("sampler.rs.in"), template!("sampler.use.in")),
            Self::Tokenizer => (template!("tokenizer.rs.in"), template!("tokenizer.use.in")),
            Self::LayerHook => (template!("layer-hook.rs.in"), template!("layer-hook.use.in")),
        }
    }

    /// The files of a crate of this kind.
    fn files(self) -> Vec<Template> {
        let mut files = COMMON.to_vec();
        files.push(("src/lib.rs", self.texts().0));
        if self == Self::Tokenizer {
            files.push(("src/vocabulary.toml", template!("vocabulary.toml.in")));
        }
        files
    }

    /// Its name in texts.
    fn name(self) -> &'static str {
        match self {
            Self::Mixer => "mixer",
            Self::FeedForward => "feed-forward",
            Self::Norm => "norm",
            Self::Activation => "activation",
            Self::Rope => "rope",
            Self::Sampler => "sampler",
            Self::Tokenizer => "tokenizer",
            Self::LayerHook => "layer-hook",
        }
    }
}

impl PluginNewCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (author, name) = id_parts(&self.id)?;
        let component = self.component.clone().unwrap_or_else(|| name.replace(['.', '_'], "-"));
        if component.is_empty()
            || !component.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        {
            return Err(Failure::Usage(format!(
                "`{component}` is not a valid name of a component: use a-z, 0-9 and `-`"
            )));
        }
        let folder = self.out.clone().unwrap_or_else(|| PathBuf::from(name));
        if folder.symlink_metadata().is_ok() {
            return Err(Failure::about(folder.display(), "exists; name another folder with --out"));
        }
        let crate_name = format!("{author}-{name}").replace(['.', '_'], "-");
        let filled = |text: &str| self.filled(text, &component, &crate_name);
        let files: Vec<(&str, String)> = self
            .kind
            .files()
            .into_iter()
            .map(|(file, text)| Ok((file, filled(text)?)))
            .collect::<Result<_, Failure>>()?;
        write(&folder, &files)?;
        self.said(&folder, &files)
    }

    /// Fills the names of this plugin into a template.
    fn filled(&self, text: &str, component: &str, crate_name: &str) -> Result<String, Failure> {
        let library = format!(
            "{}{}{}",
            std::env::consts::DLL_PREFIX,
            crate_name.replace('-', "_"),
            std::env::consts::DLL_SUFFIX
        );
        let text = text.replace("@USE@", self.kind.texts().1.trim_end());
        Ok(text
            .replace("@SDK@", &sdk(self.sdk_path.as_deref())?)
            .replace("@CRATE@", crate_name)
            .replace("@LIBRARY@", &library)
            .replace("@FAMILY@", self.kind.name())
            .replace("@TYPE@", &type_name(component))
            .replace("@COMPONENT@", component)
            .replace("@ID@", &self.id))
    }

    fn said(&self, folder: &Path, files: &[(&str, String)]) -> Result<(), Failure> {
        if self.json {
            let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            return output::json(&json!({ "id": self.id, "folder": path_text(folder), "files": names }));
        }
        output::line(&format!("wrote {} ({})", folder.display(), output::counted(files.len(), "file")))?;
        output::line(&format!(
            "next: cd {} && cargo build --release; README.md has the next steps",
            folder.display()
        ))
    }
}

/// Author and name of a plugin's id.
fn id_parts(id: &str) -> Result<(&str, &str), Failure> {
    let part = |text: &str| {
        text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
            && text.starts_with(|first: char| first.is_ascii_lowercase())
    };
    let parts = id.split_once('/').filter(|(author, name)| part(author) && part(name) && id.len() < 64);
    parts.ok_or_else(|| {
        let message = format!(
            "`{id}` is not a valid plugin id: use author/name, each starting with a-z, of a-z, 0-9, `.`, `_` and `-`, at most \
             63 characters in total"
        );
        Failure::Usage(message)
    })
}

/// The SDK as a value of Cargo.toml.
fn sdk(path: Option<&Path>) -> Result<String, Failure> {
    let Some(path) = path else { return Ok(format!("\"{}\"", env!("CARGO_PKG_VERSION"))) };
    let whole = path.canonicalize().map_err(|error| Failure::about(path.display(), error))?;
    if !whole.join("Cargo.toml").is_file() {
        return Err(Failure::about(path.display(), "has no Cargo.toml; give core/plugin of a checkout"));
    }
    // A literal string in TOML may contain everything except a quote.
    Ok(format!("{{ path = '{}' }}", whole.display()))
}

/// `decaying-mean` as `DecayingMean`.
fn type_name(component: &str) -> String {
    let words = component.split('-').filter(|word| !word.is_empty());
    let name: String = words.map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("The{name}") }
}

/// Writes all files or none.
fn write(folder: &Path, files: &[(&str, String)]) -> Result<(), Failure> {
    let about = |path: &Path, error: std::io::Error| Failure::about(path.display(), error);
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = tempfile::tempdir_in(parent).map_err(|error| about(parent, error))?;
    // Only its owner can read a temporary folder; a crate must not have these permissions.
    let made = unfinished.path().join("crate");
    for (name, text) in files {
        let path = made.join(name);
        let folder = path.parent().unwrap_or(&made);
        std::fs::create_dir_all(folder).map_err(|error| about(folder, error))?;
        std::fs::write(&path, text).map_err(|error| about(&path, error))?;
    }
    std::fs::rename(&made, folder).map_err(|error| about(folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_those_of_rust() {
        for (component, name) in
            [("decaying-mean", "DecayingMean"), ("x", "X"), ("2d-norm", "The2dNorm"), ("-", "The")]
        {
            assert_eq!(type_name(component), name);
        }
    }

    #[test]
    fn no_template_has_a_hole_left() {
        for kind in ComponentKind::value_variants() {
            let id = "acme/good-one".to_owned();
            let command =
                PluginNewCommand { id, kind: *kind, component: None, out: None, sdk_path: None, json: false };
            for (file, text) in kind.files() {
                let filled = command.filled(text, "good-one", "acme-good-one").unwrap();
                assert!(!filled.contains('@'), "{file}: {filled}");
            }
        }
    }

    #[test]
    fn an_id_has_an_author_and_a_name() {
        for good in ["acme/retnet", "a.b/c_d-1"] {
            assert!(id_parts(good).is_ok(), "{good}");
        }
        for bad in ["retnet", "Acme/x", "acme/", "/x", "a/b/c", "acme/1x"] {
            assert!(id_parts(bad).is_err(), "{bad}");
        }
    }
}
