//! Spec folders: which file of a name is used, and what is said about the others.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_registry::{
    Architecture, Entry, FolderKind, GGUFArchitecture, Origin, Registry, RegistryError, RegistryOptions,
    SpecFolder, register,
};
use std::path::Path;

const SPEC: &str = r#"
schema = 1
[architecture]
id = "ID"
summary = "SUMMARY"
[norm]
kind = "rms"
eps = 1e-5
[block.mixer]
pre = "attn_norm"
[block.feed_forward]
pre = "ffn_norm"
[mixer]
kind = "attention"
[feed_forward]
kind = "gated"
activation = "silu"
[output]
norm = "output_norm"
head = "own"
"#;

register!(Architecture {
    name: GGUFArchitecture::from_static("inside"),
    spec: "schema = 1\n[architecture]\nid = \"inside\"\nsummary = \"built in\"\n[norm]\nkind = \"rms\"\neps = 1e-5\n\
           [block.mixer]\npre = \"attn_norm\"\n[block.feed_forward]\npre = \"ffn_norm\"\n[mixer]\nkind = \"attention\"\n\
           [feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n[output]\nnorm = \"output_norm\"\nhead = \"own\"\n",
    registered_by: "test",
});

const KINDS: [FolderKind; 4] =
    [FolderKind::Flag, FolderKind::Environment, FolderKind::Data, FolderKind::Project];

/// Writes `<id>.toml` with a summary; returns the folder.
fn folder(root: &Path, kind: FolderKind, id: &str, summary: &str) -> SpecFolder {
    let path = root.join(format!("{kind:?}"));
    std::fs::create_dir_all(&path).unwrap();
    let text = SPEC.replace("ID", id).replace("SUMMARY", summary);
    std::fs::write(path.join(format!("{id}.toml")), text).unwrap();
    SpecFolder { path, kind }
}

fn load(folders: Vec<SpecFolder>, allow_shadow: bool) -> Registry {
    Registry::load(&RegistryOptions { folders, allow_shadow }).unwrap()
}

fn summary(registry: &Registry, id: &str) -> String {
    let (_, spec) = registry.resolve(&GGUFArchitecture::new(id).unwrap()).unwrap();
    spec.summary().to_owned()
}

fn kind(origin: &Origin) -> Option<FolderKind> {
    match origin {
        Origin::File { folder, .. } => Some(*folder),
        Origin::BuiltIn(_) => None,
    }
}

#[test]
fn of_two_folders_the_earlier_kind_is_used() {
    for (at, first) in KINDS.into_iter().enumerate() {
        for second in KINDS.into_iter().skip(at + 1) {
            for allow_shadow in [false, true] {
                let root = tempfile::tempdir().unwrap();
                let folders = vec![
                    folder(root.path(), first, "outside", "first"),
                    folder(root.path(), second, "outside", "second"),
                ];
                let registry = load(folders, allow_shadow);
                assert_eq!(summary(&registry, "outside"), "first", "{first:?} before {second:?}");
                let entry = registry.entry("outside").unwrap();
                assert_eq!(kind(&entry.origin), Some(first));
                assert_eq!(entry.passed_over.iter().map(kind).collect::<Vec<_>>(), [Some(second)]);
                let notes = entry.notes();
                assert!(notes[0].contains(second.name()) && notes[0].contains("comes first"), "{notes:?}");
                assert_eq!(registry.entries().iter().filter(|entry| entry.id == "outside").count(), 1);
            }
        }
    }
}

#[test]
fn a_built_in_spec_stays_unless_a_folder_other_than_the_projects_is_allowed_to_shadow() {
    for kind in KINDS {
        for allow_shadow in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let registry = load(vec![folder(root.path(), kind, "inside", "dropped")], allow_shadow);
            let entry = registry.entry("inside").unwrap();
            let replaced = allow_shadow && kind != FolderKind::Project;
            assert_eq!(
                summary(&registry, "inside"),
                if replaced { "dropped" } else { "built in" },
                "{kind:?}"
            );
            assert_eq!(entry.shadows.is_some(), replaced);
            assert_eq!(entry.passed_over.len(), usize::from(!replaced));
            let note = entry.notes().concat();
            assert_eq!(note.contains("is built in"), !replaced, "{note}");
            assert_eq!(note.contains("--allow-shadow"), !replaced && kind != FolderKind::Project, "{note}");
        }
    }
}

#[test]
fn the_most_important_shadow_is_used() {
    let root = tempfile::tempdir().unwrap();
    let folders = KINDS.map(|kind| folder(root.path(), kind, "inside", kind.name())).to_vec();
    let registry = load(folders, true);
    assert_eq!(summary(&registry, "inside"), FolderKind::Flag.name());
    let entry: &Entry = registry.entry("inside").unwrap();
    assert_eq!(entry.passed_over.len(), 3);
    assert_eq!(entry.shadows, Some(Origin::BuiltIn("test")));
}

#[test]
fn garbage_named_like_a_built_in_spec_is_passed_over() {
    for garbage in [&b"= not TOML"[..], b"\xff\xfe"] {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("inside.toml"), garbage).unwrap();
        let project = SpecFolder { path: root.path().to_owned(), kind: FolderKind::Project };
        let registry = load(vec![project], false);
        assert_eq!(summary(&registry, "inside"), "built in");
        assert_eq!(registry.entry("inside").unwrap().notes().len(), 1);
    }
}

#[test]
fn a_name_in_files_belongs_to_one_spec() {
    let root = tempfile::tempdir().unwrap();
    let folder = folder(root.path(), FolderKind::Flag, "outside", "dropped");
    let file = folder.path.join("outside.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("id = \"outside\"", "id = \"outside\"\ngguf = [\"inside\"]")).unwrap();
    let registry = load(vec![folder], true);
    assert_eq!(summary(&registry, "inside"), "built in");
    let error = registry.entry("outside").unwrap().spec.clone().unwrap_err();
    assert!(matches!(error, RegistryError::NameTaken { .. }), "{error}");
}

#[test]
fn only_a_folder_that_was_asked_for_must_be_there() {
    let root = tempfile::tempdir().unwrap();
    // A file where a folder should be cannot be read as one, whoever runs the test.
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    for kind in KINDS {
        let missing = SpecFolder { path: root.path().join("missing"), kind };
        let unreadable = SpecFolder { path: file.clone(), kind };
        let load = |folder| Registry::load(&RegistryOptions { folders: vec![folder], allow_shadow: false });
        if kind < FolderKind::Data {
            assert!(load(missing).is_err() && load(unreadable).is_err(), "{kind:?}");
        } else {
            assert!(load(missing).unwrap().notes().is_empty(), "{kind:?}");
            let notes = load(unreadable).unwrap().notes().concat();
            assert!(notes.contains(kind.name()) && notes.contains("not used"), "{notes}");
        }
    }
}

#[test]
fn tables_of_tokenizers_are_found_in_every_folder() {
    let root = tempfile::tempdir().unwrap();
    let mut folders = Vec::new();
    for kind in KINDS {
        let folder = folder(root.path(), kind, "outside", "x");
        std::fs::create_dir(folder.path.join("tokenizers")).unwrap();
        std::fs::write(folder.path.join("tokenizers/mine.toml"), kind.name()).unwrap();
        std::fs::write(folder.path.join("tokenizers/README.md"), "no table").unwrap();
        folders.push(folder);
    }
    let registry = load(folders, true);
    let found: Vec<(FolderKind, &str, bool)> = registry
        .tables()
        .iter()
        .map(|table| (table.folder, table.text.as_deref().unwrap(), table.may_shadow))
        .collect();
    let expected = KINDS.map(|kind| (kind, kind.name(), kind != FolderKind::Project));
    assert_eq!(found, expected);
}
