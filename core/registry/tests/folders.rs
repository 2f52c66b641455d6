//! Spec folders: which file of a name is used, and what is said about the others.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_registry::{
    Architecture, ArchitectureEntry, Environment, FolderKind, GGUFArchitecture, Origin, RegistryError,
    SpecFolder, SpecFolders, register,
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

fn load(folders: Vec<SpecFolder>, allow_shadow: bool) -> Environment {
    Environment::linked()
        .unwrap()
        .with_spec_folders(SpecFolders::default().with_folders(folders).with_allow_shadow(allow_shadow))
        .unwrap()
}

fn summary(environment: &Environment, id: &str) -> String {
    let (_, spec) = environment.resolve(&GGUFArchitecture::new(id).unwrap()).unwrap();
    spec.summary.clone()
}

fn kind(origin: &Origin) -> Option<FolderKind> {
    match origin {
        Origin::File { folder, .. } => Some(*folder),
        Origin::BuiltIn(_) | Origin::Plugin(_) => None,
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
                let environment = load(folders, allow_shadow);
                assert_eq!(summary(&environment, "outside"), "first", "{first:?} before {second:?}");
                let entry = environment.architecture("outside").unwrap();
                assert_eq!(kind(&entry.origin), Some(first));
                assert_eq!(entry.ignored.iter().map(kind).collect::<Vec<_>>(), [Some(second)]);
                let notes = entry.notes();
                assert!(notes[0].contains(second.name()) && notes[0].contains("comes first"), "{notes:?}");
                assert_eq!(
                    environment.architectures().iter().filter(|entry| entry.id == "outside").count(),
                    1
                );
            }
        }
    }
}

#[test]
fn a_built_in_spec_stays_unless_a_folder_other_than_the_projects_is_allowed_to_shadow() {
    for kind in KINDS {
        for allow_shadow in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let environment = load(vec![folder(root.path(), kind, "inside", "dropped")], allow_shadow);
            let entry = environment.architecture("inside").unwrap();
            let replaced = allow_shadow && kind != FolderKind::Project;
            assert_eq!(
                summary(&environment, "inside"),
                if replaced { "dropped" } else { "built in" },
                "{kind:?}"
            );
            assert_eq!(entry.shadows.is_some(), replaced);
            assert_eq!(entry.ignored.len(), usize::from(!replaced));
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
    let environment = load(folders, true);
    assert_eq!(summary(&environment, "inside"), FolderKind::Flag.name());
    let entry: &ArchitectureEntry = environment.architecture("inside").unwrap();
    assert_eq!(entry.ignored.len(), 3);
    assert_eq!(entry.shadows, Some(Origin::BuiltIn("test")));
}

/// A file that is named itself comes before every folder and replaces a built-in spec.
#[test]
fn a_file_named_itself_comes_first() {
    let root = tempfile::tempdir().unwrap();
    for id in ["inside", "outside"] {
        let mut folders = KINDS.map(|kind| folder(root.path(), kind, id, "folder")).to_vec();
        let other = root.path().join("named");
        std::fs::create_dir_all(&other).unwrap();
        let path = other.join(format!("{id}.toml"));
        std::fs::write(&path, SPEC.replace("ID", id).replace("SUMMARY", "named")).unwrap();
        folders.insert(0, SpecFolder { path, kind: FolderKind::File });
        let environment = load(folders, false);
        assert_eq!(summary(&environment, id), "named");
        assert_eq!(kind(&environment.architecture(id).unwrap().origin), Some(FolderKind::File));
    }
    for name in ["absent.toml", "named"] {
        let folders = vec![SpecFolder { path: root.path().join(name), kind: FolderKind::File }];
        let error = Environment::linked()
            .unwrap()
            .with_spec_folders(SpecFolders::default().with_folders(folders).with_allow_shadow(false))
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// A small override needs no copy: it extends the built-in spec that it replaces.
#[test]
fn a_file_may_extend_what_it_replaces() {
    for kind in KINDS {
        let root = tempfile::tempdir().unwrap();
        let text =
            "schema = 1\nextends = \"inside\"\n[architecture]\nid = \"inside\"\nsummary = \"laid over\"\n";
        std::fs::write(root.path().join("inside.toml"), text).unwrap();
        let third = text.replace("id = \"inside\"", "id = \"third\"");
        std::fs::write(root.path().join("third.toml"), third).unwrap();
        let load = |allow_shadow| load(vec![SpecFolder { path: root.path().to_owned(), kind }], allow_shadow);
        let replaced = kind != FolderKind::Project;
        assert_eq!(summary(&load(true), "inside"), if replaced { "laid over" } else { "built in" });
        assert_eq!(summary(&load(false), "inside"), "built in");
        assert_eq!(summary(&load(true), "third"), "laid over");
        let environment = load(true);
        let (_, spec) = environment.resolve(&GGUFArchitecture::new("third").unwrap()).unwrap();
        assert_eq!(spec.extends.len(), if replaced { 2 } else { 1 });
    }
}

/// A file that is made to take time costs itself: the others of its folder are used.
#[test]
fn a_hostile_file_costs_that_file_only() {
    let root = tempfile::tempdir().unwrap();
    let folder = folder(root.path(), FolderKind::Project, "outside", "good");
    let doubling: String = (1..40).map(|at| format!("x{at} = \"x{} + x{}\"\n", at - 1, at - 1)).collect();
    let hostile = [
        ("lets", format!("{}[let]\nx0 = \"layer\"\n{doubling}", SPEC.replace("ID", "lets"))),
        (
            "sum",
            SPEC.replace("ID", "sum").replace("eps = 1e-5", &format!("eps = \"1{}\"", "+1".repeat(100_000))),
        ),
        (
            "nots",
            SPEC.replace("ID", "nots")
                .replace("eps = 1e-5", &format!("eps = \"{}1\"", "not ".repeat(50_000))),
        ),
        ("deep", format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("dots", format!("schema = 1\n{}x = 1\n", "a.".repeat(50_000))),
        ("large", "#".repeat(1 << 24)),
        ("circle", "schema = 1\nextends = \"circle\"\n[architecture]\nid = \"circle\"\n".to_owned()),
        ("bytes", "\0\u{1}\r\n = [".to_owned()),
    ];
    for (name, text) in &hostile {
        std::fs::write(folder.path.join(format!("{name}.toml")), text).unwrap();
    }
    std::fs::create_dir(folder.path.join("directory.toml")).unwrap();
    std::fs::create_dir(folder.path.join("tokenizers")).unwrap();
    // Where there are pipes: reading one would wait without end.
    for name in ["pipe.toml", "tokenizers/pipe.toml"] {
        let made = std::process::Command::new("mkfifo").arg(folder.path.join(name)).status();
        assert!(!cfg!(target_os = "linux") || made.is_ok_and(|status| status.success()));
    }
    let start = std::time::Instant::now();
    let environment = load(vec![folder], false);
    assert_eq!(
        (summary(&environment, "outside"), summary(&environment, "inside")),
        ("good".into(), "built in".into())
    );
    // Half of it would be hours where names are not evaluated once each.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    for name in hostile.iter().map(|(name, _)| *name).chain(["directory"]).filter(|name| *name != "lets") {
        let error = environment.architecture(name).unwrap().spec().clone().unwrap_err().to_string();
        assert!(error.contains("error: ") && error.len() < 4000, "{name}: {error}");
    }
}

#[test]
fn garbage_named_like_a_built_in_spec_is_passed_over() {
    for garbage in [&b"= not TOML"[..], b"\xff\xfe"] {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("inside.toml"), garbage).unwrap();
        let project = SpecFolder { path: root.path().to_owned(), kind: FolderKind::Project };
        let environment = load(vec![project], false);
        assert_eq!(summary(&environment, "inside"), "built in");
        assert_eq!(environment.architecture("inside").unwrap().notes().len(), 1);
    }
}

#[test]
fn a_name_in_files_belongs_to_one_spec() {
    let root = tempfile::tempdir().unwrap();
    let folder = folder(root.path(), FolderKind::Flag, "outside", "dropped");
    let file = folder.path.join("outside.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("id = \"outside\"", "id = \"outside\"\ngguf = [\"inside\"]")).unwrap();
    let environment = load(vec![folder], true);
    assert_eq!(summary(&environment, "inside"), "built in");
    let error = environment.architecture("outside").unwrap().spec().clone().unwrap_err();
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
        let load = |folder| {
            Environment::linked()
                .unwrap()
                .with_spec_folders(SpecFolders::default().with_folders(vec![folder]).with_allow_shadow(false))
        };
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
    let environment = load(folders, true);
    let found: Vec<(FolderKind, &str, bool)> = environment
        .tables()
        .iter()
        .map(|table| (table.folder, table.text.as_deref().unwrap(), table.may_shadow))
        .collect();
    let expected = KINDS.map(|kind| (kind, kind.name(), kind != FolderKind::Project));
    assert_eq!(found, expected);
}
