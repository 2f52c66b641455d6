//! Arguments of the commands that read specs.

use crate::failure::Failure;
use clap::Args;
use menagerie::registry::{ArchitectureEntry, Environment, FolderKind, Origin, SpecFolder, SpecFolders};
use std::path::PathBuf;

/// The origin of architectures.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SpecArguments {
    /// Folder with specs (repeatable; also MENAGERIE_SPEC_DIR, menagerie/specs in the data folder, and ./menagerie.d)
    #[arg(long, hide_short_help = true, value_name = "DIR", help_heading = "Architectures")]
    pub(crate) spec_dir: Vec<PathBuf>,
    /// A spec file named ID.toml (repeatable); it replaces a built-in spec with the same id
    #[arg(id = "spec_file", long = "spec", value_name = "FILE", help_heading = "Architectures")]
    pub(crate) spec_file: Vec<PathBuf>,
    /// Allow specs in folders to replace other specs with the same id
    #[arg(long, hide_short_help = true, help_heading = "Architectures")]
    pub(crate) allow_shadow: bool,
}

impl SpecArguments {
    /// The files and folders that specs are read from, highest priority first.
    pub(crate) fn folders(&self) -> Vec<SpecFolder> {
        let file = |path: &PathBuf| SpecFolder { path: path.clone(), kind: FolderKind::File };
        let files = self.spec_file.iter().map(file);
        files.chain(SpecFolder::of_process(&self.spec_dir)).collect()
    }

    /// The installed environment with the specs of the folders and of the files, which must be valid.
    pub(crate) fn environment(&self, installed: &Environment) -> Result<Environment, Failure> {
        let folders =
            SpecFolders::default().with_folders(self.folders()).with_allow_shadow(self.allow_shadow);
        let environment = installed.with_spec_folders(folders)?;
        let named = |entry: &&ArchitectureEntry| match &entry.origin {
            Origin::File { folder, .. } => *folder == FolderKind::File,
            Origin::BuiltIn(_) | Origin::Plugin(_) => false,
        };
        match environment.architectures().iter().filter(named).find_map(|entry| entry.spec().as_ref().err()) {
            Some(fault) => Err(fault.clone().into()),
            None => Ok(environment),
        }
    }
}

/// The ids of all architectures, for shell completion.
pub(crate) fn architecture_names() -> Vec<String> {
    let specs = SpecArguments { allow_shadow: true, ..SpecArguments::default() };
    let environment =
        Environment::linked().map_err(Failure::from).and_then(|linked| specs.environment(&linked));
    environment
        .map(|environment| environment.architectures().iter().map(|entry| entry.id.clone()).collect())
        .unwrap_or_default()
}
