//! `docs/architectures.md`: for every architecture of llama.cpp its fixture and reference, or what is missing; and the lines of
//! the specs beside those of the code they stand for. Generated from the specs, the fixtures' manifests and
//! `fixtures/llama-cpp.toml`; `MENAGERIE_WRITE_GENERATED=1` writes the page and the paragraph of the README.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::registry::{Environment, GGUFArchitecture};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml_span::Value;

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn fixtures() -> PathBuf {
    root().join("tests/fixtures")
}

/// A row of `llama-cpp.toml`.
struct Row {
    id: String,
    makes: String,
    lines: i64,
    python: i64,
    lacks: String,
    /// The folder of the plugin that brings it.
    plugin: Option<String>,
}

impl Row {
    /// What is said of an architecture that a plugin brings: its fixture, and what the plugin's spec is held to.
    fn by_plugin(&self, plugin: &str) -> String {
        let fixture = format!("plugins/{}", self.id);
        assert!(fixtures().join(&fixture).join("reference.safetensors").exists(), "{fixture}");
        let spec =
            std::fs::read_to_string(root().join(format!("plugins/{plugin}/{}.toml", self.id))).unwrap();
        let source = toml_span::parse(&spec).unwrap();
        let source = source.pointer("/provenance/source").unwrap().as_str().unwrap().to_owned();
        format!("in the plugin `plugins/{plugin}`: proved by {fixture}, against {}", reference(&source))
    }
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(fixtures().join("llama-cpp.toml")).unwrap();
    let table = toml_span::parse(&text).unwrap();
    let mut rows = Vec::new();
    for (section, default) in [("text", "text"), ("other", "")] {
        let entries = table.pointer(&format!("/{section}")).unwrap().as_table().unwrap();
        let mut entries: Vec<(String, &Value)> =
            entries.iter().map(|(key, value)| (key.name.to_string(), value)).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (id, value) in entries {
            let text =
                |key: &str| value.pointer(&format!("/{key}")).and_then(|v| v.as_str()).map(str::to_owned);
            let number =
                |key: &str| value.pointer(&format!("/{key}")).and_then(|v| v.as_integer()).unwrap_or(0);
            rows.push(Row {
                makes: text("makes").unwrap_or_else(|| default.to_owned()),
                lines: number("lines"),
                python: number("python"),
                lacks: text("lacks").unwrap_or_default(),
                plugin: text("plugin"),
                id,
            });
        }
    }
    rows
}

/// Names of the fixtures of each architecture, by its name in files.
fn proofs() -> BTreeMap<String, BTreeSet<String>> {
    let mut proofs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for group in ["base", "zoo"] {
        let text = std::fs::read_to_string(fixtures().join(group).join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        for entry in manifest["fixtures"].as_array().unwrap() {
            let field = |key: &str| entry[key].as_str().unwrap().to_owned();
            proofs.entry(field("arch")).or_default().insert(format!("{group}/{}", field("name")));
        }
    }
    proofs.entry("smollm3".to_owned()).or_default().insert("dropin/smollm3".to_owned());
    proofs
}

#[test]
fn every_architecture_of_llama_cpp_is_proved_or_lacks_something() {
    let environment = Environment::linked().unwrap();
    let (rows, proofs) = (rows(), proofs());
    let text = rows.iter().filter(|row| row.makes == "text").count();
    assert_eq!((text, rows.len()), (134, 151), "as the survey of llama.cpp has them");
    let mut table = String::new();
    let (mut proved, mut faults) = ([0, 0], Vec::new());
    let (mut cpp, mut python, mut hf, mut plugins, mut specs) = (0, 0, 0, 0, BTreeSet::new());
    let mut by_llama_cpp = 0;
    for row in &rows {
        let spec = environment.resolve(&GGUFArchitecture::new(&row.id).unwrap()).ok().map(|(_, spec)| spec);
        let fixtures = proofs.get(&row.id).map(|names| names.iter().cloned().collect::<Vec<_>>().join(", "));
        let state = match (&spec, fixtures) {
            (Some(spec), Some(fixtures)) => {
                proved[usize::from(row.makes != "text")] += 1;
                cpp += row.lines;
                python += row.python;
                specs.insert(spec.id().to_owned());
                let by = spec.provenance.as_ref().expect("a built-in spec has [provenance]");
                by_llama_cpp += usize::from(by.source.starts_with("llama.cpp"));
                let runs = fixtures.split(", ").any(runs_from_hf);
                hf += usize::from(runs);
                let hf = if runs { "; also from its Hugging Face folder" } else { "" };
                format!("proved by {fixtures}, against {}{hf}", reference(&by.source))
            }
            (Some(spec), None) => format!("spec `{}`; no fixture has this name", spec.id()),
            (None, _) if row.plugin.is_some() => {
                plugins += 1;
                row.by_plugin(row.plugin.as_deref().unwrap_or_default())
            }
            (None, _) => {
                if row.lacks.is_empty() {
                    faults.push(format!(
                        "{}: no built-in spec has this name, and llama-cpp.toml has no `lacks` for it",
                        row.id
                    ));
                }
                format!("missing: {}", row.lacks)
            }
        };
        let _ = writeln!(table, "| `{}` | {} | {state} |", row.id, row.makes);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let lines: usize = specs.iter().map(|id| lines_of(&format!("specs/{id}.toml"))).sum();
    let page = format!(
        "# Architectures\n\n\
         Every architecture of llama.cpp (as vendored by llama-cpp-python 0.3.36): what its spec was compared with, or what is\n\
         missing. Generated from the specs, the fixtures and `tests/fixtures/llama-cpp.toml` by\n\
         `cargo test -p menagerie-cli --test architectures`.\n\n\
         **{} of 134 text architectures have a spec that gives the logits of a reference, and {} of 17 others.**\n\n\
         | | |\n|---|---|\n\
         | their specs | {}, with {lines} lines |\n\
         | the files of llama.cpp that they stand for | {cpp} lines of C++ |\n\
         | the files of transformers that they stand for, if it has the class | {python} lines of Python |\n\
         | architectures that also run from a Hugging Face folder, compared with the same numbers | {hf} |\n\
         | architectures of plugins | {plugins} |\n\n\
         No folder was compared for architectures of which transformers has no class.\n\n\
         | architecture | output | state |\n|---|---|---|\n{table}",
        proved[0],
        proved[1],
        specs.len(),
    );
    let claim = format!(
        "{} specs are built in. llama.cpp has 134 text architectures; {} of them give the logits of a reference here, and so do\n\
         {} of its 17 others, which are encoders. The reference is transformers for {} (for some, another class that computes the\n\
         same) and llama.cpp for {by_llama_cpp}. {hf} also run from Hugging Face folders and were compared with the same numbers.\n\
         [docs/architectures.md](docs/architectures.md) lists for each architecture its reference, or what is missing. The specs\n\
         have {lines} lines in total; the files of llama.cpp that they stand for have {cpp} lines of C++, and the modeling files of\n\
         transformers, if it has the class, {python} lines of Python.",
        specs.len(),
        proved[0],
        proved[1],
        proved[0] + proved[1] - by_llama_cpp,
    );
    readme_says(&claim);
    let file = root().join("docs/architectures.md");
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(written, page, "docs/architectures.md differs; write it with MENAGERIE_WRITE_GENERATED=1");
}

/// The paragraph of `README.md` between these marks is this text.
fn readme_says(claim: &str) {
    let file = root().join("README.md");
    let readme = std::fs::read_to_string(&file).unwrap();
    let (open, close) = ("<!-- generated: architectures -->\n", "\n<!-- end -->");
    let (before, rest) = readme.split_once(open).expect("README.md has the opening mark");
    let (said, after) = rest.split_once(close).expect("README.md has the closing mark");
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        std::fs::write(&file, format!("{before}{open}{claim}{close}{after}")).unwrap();
        return;
    }
    assert_eq!(said, claim, "README.md: the paragraph differs; write it with MENAGERIE_WRITE_GENERATED=1");
}

/// Whether a fixture's HF directory is made and run by a test, and not refused.
fn runs_from_hf(name: &str) -> bool {
    let folder = fixtures().join(name).join("hf");
    let made = folder.join("tensors.json").exists() || folder.join("model.safetensors").exists();
    made && !folder.join("refused.txt").exists()
}

/// `transformers 5.23: Gemma3ForCausalLM` in a table: no bar may stand in a cell.
fn reference(source: &str) -> String {
    source.replace('|', "/")
}

/// Lines that say something.
fn lines_of(file: &str) -> usize {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    text.lines().filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#')).count()
}
