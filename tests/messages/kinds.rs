//! Kinds, architectures and made-up models.

use menagerie::registry::{DuplicateName, RegistryError};
use menagerie::spec::kind::KindsError;
use menagerie::synth::SynthError;

#[test]
fn spec() {
    let said = messages![
        KindsError::Duplicate { family: "norm", name: "tanh" },
        KindsError::Table { family: "norm", name: "tanh", why: "option `eps` is there twice".to_owned() },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn registry() {
    let said = messages![
        RegistryError::Empty,
        RegistryError::InvalidName("../etc".to_owned()),
        RegistryError::Unknown { name: "lama".to_owned(), nearest: Some("llama".to_owned()) },
        RegistryError::UnknownClass {
            name: "LamaForCausalLM".to_owned(),
            nearest: Some("LlamaForCausalLM".to_owned()),
        },
        RegistryError::ClassOfSeveral {
            name: "NomicBertModel".to_owned(),
            ids: vec!["nomic-bert".to_owned(), "nomic-bert-moe".to_owned()],
        },
        RegistryError::Faulty {
            id: "mine".to_owned(),
            faults: "error: mine.toml:5:9: norm.kind\n  unknown kind `rsm`".to_owned(),
        },
        RegistryError::NameTaken {
            path: "specs/mine.toml".into(),
            name: "llama".to_owned(),
            by: "the built-in `llama`".to_owned(),
        },
        RegistryError::Duplicate(DuplicateName {
            family: "norm kind".to_owned(),
            name: "tanh".to_owned(),
            first: "mine".to_owned(),
            second: "plugin acme/norms 1.0.0 (/plugins/norms.so)".to_owned(),
        }),
        RegistryError::KindFamily { family: "norm", name: "tanh", crate_name: "mine" },
        RegistryError::NotASpec {
            path: "mine.txt".into(),
            reason: "its name does not end in .toml".to_owned()
        },
        RegistryError::Recipe { path: "mine.recipe.toml".into(), reason: "not a regular file".to_owned() },
        RegistryError::Folder {
            path: "specs".into(),
            reason: "Permission denied (os error 13)".to_owned(),
            from: "data folder",
        },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn synth() {
    let said = messages![
        SynthError::MissingKey { key: "embedding_length".to_owned(), why: "D of every tensor".to_owned() },
        SynthError::Quantization { label: "Q9".to_owned(), known: "F32, F16, Q8_0".to_owned() },
        SynthError::Cancelled,
        SynthError::Unsupported("tensor `attn_q`: the size of `heads` is unknown".to_owned()),
    ];
    insta::assert_snapshot!(said);
}
