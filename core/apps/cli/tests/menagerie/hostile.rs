//! Files whose texts would act on a terminal.

use super::{Call, Changed, TEMPLATE, menagerie};
use gguf_file::GgmlType;
use std::path::Path;

/// Sets a title, clears the screen, colors, turns letters around and begins a sequence with one character.
pub(super) const HOSTILE: &str = "x\u{1b}]0;pwn\u{7}\u{1b}[2J\u{1b}[31m\u{202e}gnp\u{9b}1m";

/// As long as [`HOSTILE`] in bytes, in letters that a writer of files takes anywhere.
const LETTERS: &str = "xhostilehostilehostilehostil";

/// A changed llama whose texts are hostile where [`LETTERS`] stands in what `change` puts there.
fn file(home: &Path, change: impl FnOnce(Changed) -> Changed) -> String {
    assert_eq!(HOSTILE.len(), LETTERS.len());
    let path = change(Changed::of("base/llama/model-f32.gguf")).write(home);
    let mut bytes = std::fs::read(&path).unwrap();
    let places: Vec<usize> = bytes
        .windows(LETTERS.len())
        .enumerate()
        .filter(|(_, at)| *at == LETTERS.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "nothing of the file is hostile");
    for place in places {
        bytes[place..place + LETTERS.len()].copy_from_slice(HOSTILE.as_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Characters that a terminal acts on, or that turn others around (control characters, and UAX #9, table 4).
pub(super) fn acts(c: char) -> bool {
    let code = u32::from(c);
    let control = code < 0x20 || (0x7f..=0x9f).contains(&code);
    let direction = [0x61c, 0x200e, 0x200f].contains(&code)
        || (0x202a..=0x202e).contains(&code)
        || (0x2066..=0x2069).contains(&code);
    (control && c != '\n' && c != '\t') || direction
}

impl Call {
    /// What the file says is shown, and acts on nothing.
    fn is_escaped(&self, what: &str) {
        for (stream, text) in [("standard output", &self.out), ("standard error", &self.err)] {
            assert!(!text.contains(acts), "{what}, {stream}: {text:?}");
        }
        let both = format!("{}{}", self.out, self.err);
        assert!(both.contains("\\u{1b}") && both.contains("\\u{202e}"), "{what}: {both}");
    }
}

/// F3, U3: every place where a text of a file is shown.
#[test]
fn what_a_file_says_does_not_act_on_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let call = |what: &str, model: &str, arguments: &[&str]| {
        let words: Vec<&str> =
            arguments.iter().map(|word| if *word == "MODEL" { model } else { word }).collect();
        menagerie(home.path(), &words).is_escaped(&format!("{what}: {arguments:?}"));
    };
    let model = file(home.path(), |file| file.set("general.name", LETTERS));
    for arguments in [&["inspect", "MODEL"][..], &["show", "MODEL"]] {
        call("name", &model, arguments);
    }
    let model = file(home.path(), |file| file.set("general.license", LETTERS));
    for arguments in [&["inspect", "MODEL"][..], &["show", "MODEL"]] {
        call("license", &model, arguments);
    }
    let model = file(home.path(), |file| file.set(&format!("llama.{LETTERS}"), 1u32));
    for arguments in [
        &["inspect", "MODEL"][..],
        &["inspect", "MODEL", "--keys", "llama.*"],
        &["check", "MODEL"],
        &["run", "MODEL", "hi", "-n", "1"],
        &["show", "MODEL"],
    ] {
        call("name of a key", &model, arguments);
    }
    let mut tensors = Changed::of("base/llama/model-f32.gguf");
    tensors.tensors.push(super::Tensor {
        name: format!("blk.0.{LETTERS}"),
        dims: vec![2],
        kind: GgmlType::F32,
        data: vec![0; 8],
    });
    let model = file(home.path(), |_| tensors);
    for arguments in [&["inspect", "MODEL"][..], &["check", "MODEL"], &["show", "MODEL"]] {
        call("name of a tensor", &model, arguments);
    }
    let model = file(home.path(), |file| file.set("llama.rope.scaling.type", LETTERS));
    call("rope scaling", &model, &["check", "MODEL"]);
    let model = file(home.path(), |file| file.set("tokenizer.ggml.pre", LETTERS));
    call("pre-tokenizer", &model, &["tokenize", "MODEL", "hi"]);
    call("pre-tokenizer", &model, &["show", "MODEL"]);
    let model = file(home.path(), |file| file.set("general.architecture", LETTERS));
    call("architecture", &model, &["inspect", "MODEL"]);
    let refuses = format!("{{{{ raise_exception(messages[0].role ~ '{LETTERS}') }}}}");
    let model = file(home.path(), |file| file.set("tokenizer.chat_template", refuses));
    call("template", &model, &["run", "MODEL", "hi", "-n", "1"]);
}

/// JSON has its own escapes, and keeps the value; what programs read is as it is in the file.
#[test]
fn programs_read_the_text_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let model = file(home.path(), |file| file.set("general.name", LETTERS));
    let json = menagerie(home.path(), &["inspect", &model, "--json"]).good();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["name"], HOSTILE);
    let template = format!("{TEMPLATE}{LETTERS}");
    let model = file(home.path(), |file| file.set("tokenizer.chat_template", template));
    let out = menagerie(home.path(), &["inspect", &model, "--template"]).good();
    assert_eq!(out, format!("{TEMPLATE}{HOSTILE}\n"));
}

/// A model that answers with the escape character, and the option that makes it.
pub(super) fn escaping(home: &Path) -> (String, String) {
    let model = super::chat_model(home);
    let tokens = super::fed(home, &["tokenize", &model, "-", "--json"], b"\x1b").good();
    let tokens: serde_json::Value = serde_json::from_str(&tokens).unwrap();
    let id = &tokens["tokens"].as_array().unwrap().last().unwrap()["id"];
    (model, format!("{id}=1000"))
}

#[test]
fn a_pipe_gets_generated_text_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let (model, bias) = escaping(home.path());
    let out = menagerie(home.path(), &["run", &model, "hi", "-n", "3", "--temp", "0", "--logit-bias", &bias])
        .good();
    assert_eq!(out, "\u{1b}\u{1b}\u{1b}\n");
}
