//! Tokenizers, chat templates and their tables.

use menagerie::convert::ConvertError;
use menagerie::loaders::{LoadError, TableError, TableFault, TemplateError, TokenizerError};
use menagerie::spec::{Recipe, SpecSource};

const BAD: &str = "unclosed group";

#[test]
fn loaders() {
    let file = || "m.gguf".to_owned();
    let key = || "general.alignment".to_owned();
    let id = TokenizerError::IdOutOfRange { id: 300, size: 256 };
    let raised = TemplateError::NoMessages { template: "default".to_owned() };
    let said = messages![
        LoadError::Config { faults: "error: m/config.json: architectures\n  it names no class".to_owned() },
        LoadError::NotAModel { path: "m".to_owned(), problem: "no config.json in it".to_owned() },
        LoadError::NoArchitecture { file: file() },
        LoadError::BadKey { file: file(), key: key(), problem: "expected a string, found u32".to_owned() },
        LoadError::Folder {
            file: "model".to_owned(),
            problem: "no tokenizer.json and no tokenizer.model".to_owned(),
            advice: "give token ids".to_owned(),
        },
        LoadError::Tokenizer { file: file(), source: id },
        LoadError::Template { file: file(), source: raised },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn tokenizer() {
    let said = messages![
        TokenizerError::MissingKey { key: "tokenizer.ggml.tokens", advice: "convert the model again" },
        TokenizerError::BadKey {
            key: "tokenizer.ggml.scores".to_owned(),
            problem: "3 scores for 4 tokens".to_owned(),
        },
        TokenizerError::UnsupportedKey {
            key: "tokenizer.ggml.remove_extra_whitespaces",
            what: "the removal of spaces",
        },
        TokenizerError::BadJson {
            place: "model.merges[3]".to_owned(),
            problem: "it needs the token \"th\", which the vocabulary lacks".to_owned(),
        },
        TokenizerError::UnsupportedJson {
            place: "pre_tokenizer.pretokenizers[1]".to_owned(),
            what: "is a `Sudachi`".to_owned(),
        },
        TokenizerError::CodecMissing { model: "rwkv7".to_owned(), name: "acme/rwkv:trie".to_owned() },
        TokenizerError::Codec { name: "acme/rwkv:trie".to_owned(), message: "no token for 0xFF".to_owned() },
        TokenizerError::UnsupportedModel {
            model: "rwkv".to_owned(),
            what: Some("a trie of RWKV".to_owned()),
            supported: vec!["`llama`".to_owned(), "`gpt2`".to_owned()],
        },
        TokenizerError::UnknownPre { pre: "qwen3".to_owned(), near: Some("qwen2".to_owned()) },
        TokenizerError::MissingPre,
        TokenizerError::Regex { regex: 1, at: 7, length: 90, problem: "too many steps".to_owned() },
        TokenizerError::TooLarge { place: "normalizer.normalizers[2]".to_owned(), most: 1_048_640, given: 1 },
        TokenizerError::TooSlow { given: 90 },
        TokenizerError::PreRegex { regex: "(".to_owned(), problem: BAD.to_owned() },
        TokenizerError::NoToken { what: "'\u{e9}' at byte 3".to_owned() },
        TokenizerError::IdOutOfRange { id: 300, size: 256 },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn converting() {
    let folder = || "model".to_owned();
    let said = messages![
        ConvertError::Lost {
            folder: folder(),
            what: "a is `1` in the folder, but would be `2` in a GGUF file of b".to_owned()
        },
        ConvertError::Tensor {
            folder: folder(),
            tensor: "blk.0.attn_q.weight".to_owned(),
            problem: "expected rows for 2 heads of equal size, found 7".to_owned(),
        },
        ConvertError::Type { name: "q9".to_owned() },
        ConvertError::Stopped,
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn template() {
    let template = || "default".to_owned();
    let said = messages![
        TemplateError::Syntax { template: template(), line: Some(3), problem: "unexpected `}`".to_owned() },
        TemplateError::NoMessages { template: template() },
        TemplateError::Raised {
            template: template(),
            line: None,
            message: "roles must alternate".to_owned(),
        },
        TemplateError::Render { template: template(), line: Some(3), problem: "too long".to_owned() },
        TemplateError::Untrusted { template: template(), token: "<|im_end|>".to_owned() },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn tables() {
    let at = |fault: TableFault| TableError {
        file: "tokenizers/mine.toml".to_owned(),
        line: 3,
        column: 1,
        key: "pre.mine.split".to_owned(),
        fault,
    };
    let other = || "tokenizers/other.toml".to_owned();
    let conflict = TableFault::Conflict { name: "mine".to_owned(), other: other(), built_in: false };
    let built_in = TableFault::Conflict { name: "mine".to_owned(), other: other(), built_in: true };
    let placed = [TableFault::Missing, conflict, built_in].map(|fault| format!("{}\n", at(fault)));
    let faults = messages![
        TableFault::Unreadable("Permission denied".to_owned()),
        TableFault::Toml("expected a value".to_owned()),
        TableFault::UnknownKey { near: Some("split".to_owned()) },
        TableFault::Missing,
        TableFault::Type { wanted: "a list of strings", found: "an integer" },
        TableFault::Empty { wanted: "a string" },
        TableFault::Twice { name: "mine".to_owned() },
        TableFault::Conflict { name: "mine".to_owned(), other: other(), built_in: true },
        TableFault::UnknownSplit { name: "lama3".to_owned(), near: Some("llama3".to_owned()) },
        TableFault::UnknownAlgorithm { name: "trie".to_owned() },
        TableFault::Template { problem: "unexpected `}`".to_owned() },
        TableFault::Regex { regex: "(".to_owned(), problem: BAD.to_owned() },
    ];
    let said = format!("{}\n{faults}", placed.join("\n"));
    insta::assert_snapshot!(said);
}

/// Everything that can be wrong with a recipe, at once.
#[test]
fn recipe() {
    let faulty = |text: &str| {
        let source = SpecSource { name: "mine.recipe.toml".to_owned(), text: text.to_owned() };
        Recipe::parse(&source).unwrap_err().to_string()
    };
    let values = "schema = 2\nadapters = [{ kind = \"loar\", weight = \"much\" }, 3]\nchat = 1\n[recipe]\nid = \"a b\"\n\
                  base = \"\"\nsumary = \"x\"\n[set]\nrope = [{ a = 1 }]\n\"a.b\" = 1\na.b = 2\n";
    let mixed = "schema = 1\n[recipe]\nbase = \"a\"\narchitecture = \"b\"\n[[adapters]]\nkind = \"xlora\"\nfrom = \"x\"\n\
                 weight = 2\n[[adapters]]\nkind = \"lora\"\nfrom = \"y\"\n";
    let said = [values, mixed, "recipe = 1\n", "schema = "].map(faulty).join("\n\n");
    insta::assert_snapshot!(said);
}
