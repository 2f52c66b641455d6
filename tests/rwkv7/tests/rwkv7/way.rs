//! [`Way`]: how the arithmetic is reached.

use menagerie::engine::TextPipeline;
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use menagerie::registry::{Environment, FolderKind, SpecFolder, SpecFolders};
use menagerie_conformance::{Reference, fixtures, root};
use menagerie_plugin_host::{PluginLoadOptions, load, with_linked_plugins};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

// The kinds that are compared with the plugin's.
use menagerie_rwkv7 as _;
use menagerie_rwkv7_built_in as _;

/// The fixtures, by their architecture.
pub(crate) const MODELS: [&str; 2] = ["rwkv7", "arwkv7"];

/// How the arithmetic is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By kinds that are linked in.
    BuiltIn,
    /// By the plugin, linked in.
    Linked,
    /// By the plugin, a library that is loaded.
    Library,
}

impl Way {
    /// All of them.
    pub(crate) const ALL: [Way; 3] = [Way::BuiltIn, Way::Linked, Way::Library];

    /// A fixture, opened.
    pub(crate) fn open(self, name: &str, options: &LoadOptions) -> LoadedModel<TextPipeline> {
        self.open_at(&model(name), name, options)
    }

    /// A file of a fixture's architecture, opened.
    pub(crate) fn open_at(self, file: &Path, name: &str, options: &LoadOptions) -> LoadedModel<TextPipeline> {
        let specs = tempfile::tempdir().unwrap();
        let options = options.clone().with_threads(options.placement.threads.or(Some(2)));
        let mut folders = SpecFolders::default();
        let spec = match self {
            Way::BuiltIn => Some(built_in(name)),
            // The plugin's own spec, which it carries.
            Way::Linked => None,
            Way::Library => Some(spec(name).replace("menagerie/rwkv7:", "menagerie/rwkv7-library:")),
        };
        if let Some(spec) = spec {
            std::fs::write(specs.path().join(format!("{name}.toml")), spec).unwrap();
            let folder = SpecFolder { path: specs.path().to_owned(), kind: FolderKind::Flag };
            folders = folders.with_folders(vec![folder]).with_allow_shadow(true);
        }
        let environment = environment().with_spec_folders(folders).unwrap();
        ModelBuilder::new(file)
            .with_environment(&environment)
            .with_options(&options)
            .open_text()
            .unwrap_or_else(|error| panic!("{self:?}, {name}: {error}"))
    }
}

/// The file of a fixture.
pub(crate) fn model(name: &str) -> PathBuf {
    fixtures().join("plugins").join(name).join("model-f16.gguf")
}

/// What llama.cpp says of it.
pub(crate) fn reference(name: &str) -> Reference {
    Reference::open(&fixtures().join("plugins").join(name).join("reference.safetensors"))
}

/// The environment with both plugins.
pub(crate) fn environment() -> &'static Environment {
    static INSTALLED: OnceLock<Environment> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let (linked, refused) = with_linked_plugins(&Environment::linked().unwrap());
        refused.first().inspect(|error| panic!("{error}"));
        let with_both = load(&linked, library(), PluginLoadOptions::default());
        with_both.unwrap_or_else(|error| panic!("{error}")).0
    })
}

/// The library, which lies beside the tests, or beside those of an example.
fn library() -> PathBuf {
    let file = format!("{DLL_PREFIX}menagerie_rwkv7_library{DLL_SUFFIX}");
    let beside = std::env::current_exe().unwrap().with_file_name(&file);
    if beside.exists() { beside } else { beside.with_file_name("..").join("deps").join(file) }
}

fn spec(name: &str) -> String {
    std::fs::read_to_string(root().join(format!("plugins/rwkv7/{name}.toml"))).unwrap()
}

/// The plugin's spec with kinds that are linked in.
fn built_in(name: &str) -> String {
    let text = spec(name);
    let parts = if name == "rwkv7" { "" } else { "gate = \"none\"\nhead_norm = \"none\"\n" };
    let time = format!("kind = \"rwkv7-time-mixing\"\n{parts}");
    let mixers = format!(
        "[mixer.first]\nwhen = \"layer == 0\"\nfirst_values = \"none\"\n{time}[mixer.later]\nwhen = \"layer > 0\"\n{time}"
    );
    let text = text.replace("[mixer]\nkind = \"menagerie/rwkv7:time-mixing\"\n", &mixers);
    text.replace("menagerie/rwkv7:channel-mixing", "rwkv7-channel-mixing")
}
