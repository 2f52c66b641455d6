//! Specs with faults: all of them at once, each with its line; a faulty file does not stop the others.

use super::{fixture, menagerie};

const FAULTY: &str = r#"schema = 1
extends = "llama"

[architecture]
id = "broken"

[mixer]
bais = "none"

[mixer.rope]
pairs = "sideways"

[feed_forward]
kind = "gated"
activation = "sulu"
"#;

#[test]
fn three_faults_are_reported_with_their_lines() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("broken.toml");
    std::fs::write(&file, FAULTY).unwrap();
    let call = menagerie(home.path(), &["check", file.to_str().unwrap()]);
    call.fails_with(&["broken.toml:8:", "bias", "broken.toml:11:", "halves", "broken.toml:15:", "silu"]);
}

#[test]
fn a_faulty_spec_is_listed_and_does_not_stop_the_others() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    std::fs::write(home.path().join("menagerie.d/broken.toml"), FAULTY).unwrap();
    let out = menagerie(home.path(), &["list"]).good();
    assert!(out.contains("qwen3moe") && out.contains("broken.toml"), "{out}");
}

#[test]
fn a_dropped_spec_is_listed_with_its_origin() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".local/share/menagerie/specs");
    std::fs::create_dir_all(&folder).unwrap();
    let spec = std::fs::read_to_string(fixture("../../specs/smollm3.toml")).unwrap();
    std::fs::write(folder.join("unheard.toml"), spec.replace("\"smollm3\"", "\"unheard\"")).unwrap();
    let out = menagerie(home.path(), &["list"]).good();
    assert!(out.lines().any(|line| line.starts_with("unheard* ")), "{out}");
    assert!(
        out.lines().any(|line| line.starts_with("* unheard: ") && line.ends_with("(data folder)")),
        "{out}"
    );
}

#[test]
fn a_project_folder_may_not_shadow() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("menagerie.d")).unwrap();
    let text = std::fs::read_to_string(fixture("../../specs/qwen2.toml")).unwrap();
    std::fs::write(home.path().join("menagerie.d/qwen2.toml"), text).unwrap();
    std::fs::write(home.path().join("menagerie.d/llama.toml"), "garbage").unwrap();
    let model = fixture("base/qwen2/model-f32.gguf");
    let arguments = ["logits", model.to_str().unwrap(), "--tokens", "1", "--out", "o", "--allow-shadow"];
    let call = menagerie(home.path(), &arguments);
    let said = call.err.clone();
    call.good();
    for part in ["qwen2.toml (project folder) is not used", "may only add"] {
        assert!(said.contains(part), "{said}");
    }
    let out = menagerie(home.path(), &["list"]).good();
    for id in ["llama", "qwen2"] {
        assert!(out.lines().any(|line| line.starts_with(&format!("{id} "))), "{out}");
        assert!(out.contains(&format!("note: menagerie.d/{id}.toml (project folder) is not used")), "{out}");
    }
}
