//! The built-in tables, and files added to them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::{BUILT_IN, TableFault, TokenizerTables};
use crate::tokenizer::Splitter;
use crate::tokenizer::tests::gguf::Keys;
use crate::{Special, TokenizerOptions};

fn built_in() -> TokenizerTables {
    TokenizerTables::clone(&TokenizerTables::built_in().unwrap())
}

#[test]
fn every_file_of_the_folder_is_embedded() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tables"));
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let there: BTreeSet<String> = entries
        .map(|name| format!("specs/tokenizers/{}", name.to_string_lossy()))
        .filter(|name| name.ends_with(".toml"))
        .collect();
    assert_eq!(there, BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect());
    let tables = built_in();
    assert!(tables.pre_tokenizers().count() > 80 && tables.added().next().is_none());
    for split in tables.splits.values() {
        Splitter::new(&split.value).unwrap();
    }
}

#[test]
fn faults_have_a_place() {
    let cases = [
        ("x", "t.toml:1:2: file: not TOML"),
        ("[ends]\ntexts = ['a']", "t.toml:1:2: ends: unknown key; the nearest is `end`"),
        ("\n[end]\ntexts = 'a'", "t.toml:3:10: end.texts: expected a list, found a string"),
        ("[end]\ntexts = ['a', 'a']", "t.toml:2:16: end.texts[1]: duplicate `a`"),
        ("[end]\ntexts = []", "t.toml:2:9: end.texts: empty; expected a list of strings"),
        ("[steering]", "steering.texts: missing"),
        ("[[pre]]\nnames = ['p']\nsplit = 'qwen'", "t.toml:1:1: pre[0]: unknown [split] `qwen`; the nearest"),
        ("[[pre]]\nnames = ['p']\nsplit = 'qwen2'\nflag = 1", "t.toml:4:1: pre[0].flag: unknown key"),
        (
            "[[pre]]\nnames = ['p']\nsplit = 'qwen2'\ntext = 1",
            "pre[0].text: expected a boolean, found a number",
        ),
        ("[[pre]]\nsplit = 'qwen2'", "pre[0].names: missing"),
        ("[split]\na = ['(']", "t.toml:2:5: split.a: regex \"(\": "),
        ("[split]\na = []", "split.a: empty"),
        (
            "[[vocabulary]]\nname = 'v'\nalgorithm = 'magic'",
            "vocabulary[0].algorithm: unknown algorithm `magic`",
        ),
        ("[[ranked]]\nsplit = 'qwen2'", "ranked[0].names: missing"),
        ("[[ranked]]\nnames = ['c']\nsplit = 'qwen'", "ranked[0]: "),
        (
            "[[ranked]]\nnames = ['c']\nnumbered = { text = '<{}>', count = -1 }",
            "ranked[0].numbered.count: expected a small number",
        ),
        ("[[ranked]]\nnames = ['QWenTokenizer']\nsplit = 'gpt2'", "QWenTokenizer"),
        ("[[reasoning]]\nopen = '<a>'", "reasoning[0].close: missing"),
        ("[[reasoning]]\nopen = '<a>'\nclose = ''", "reasoning[0].close: empty; expected a string"),
        ("[[not_end]]\ntext = 'a'\nbeside = ['b']", "not_end[0].beside[0]: expected a list, found a string"),
        ("[[fill_in_the_middle]]\nkey = 'k'", "fill_in_the_middle[0].texts: missing"),
        ("[[infill]]\npart = 'prefix'\nkeys = ['k']", "infill[0].texts: missing"),
        (
            "[[infill]]\npart = 'end'\nkeys = ['k']\ntexts = ['a']",
            "infill[0].part: expected prefix, suffix, middle or file",
        ),
        ("[[strip_after]]\ntokens = ['a']", "strip_after[0].model: missing"),
        ("[[chat_template]]\nname = 'a'", "chat_template[0].source: missing"),
        ("[[chat_template]]\nname = 'a'\nsource = '{% for %}'", "chat_template[0]: "),
    ];
    cases.into_iter().for_each(refused);
}

/// A faulty file, and a part of its error.
fn refused((text, part): (&str, &str)) {
    let mut tables = built_in();
    let error = tables.add("t.toml", text, false).unwrap_err().to_string();
    assert!(error.contains(part), "{part:?} is not in {error:?}");
    assert!(tables.added().next().is_none(), "a faulty file changes nothing");
}

#[test]
fn faults_of_calls_have_a_place() {
    let cases = [
        ("[[content]]\nclose = '<a>'", "content[0].open: missing"),
        ("[[call]]\nname = 'c'\nwhere = ['a']", "call[0].call: missing"),
        ("[[call]]\nname = 'c'\ncall = '<c>${object}'", "call[0]: `${object}` requires the key `object`"),
        (
            "[[call]]\nname = 'c'\ncall = '<c>${nam}${arguments}'",
            "call[0]: unknown hole `${nam}`; expected name,",
        ),
        ("[[call]]\nname = 'c'\ncall = '<c>${arguments}'", "call[0]: a call must have `${object}`"),
        ("[[call]]\nname = 'c'\ncall = '${name}:${arguments}'", "call[0]: a call must begin with text"),
        ("[[call]]\nname = 'c'\ncall = '<c>${name}x${arguments}'", "call[0]: the text after `${name}`"),
        (
            "[[call]]\nname = 'c'\ncall = '<c>${name}:${args}</c>'",
            "call[0]: `${args}` requires the key `arg`",
        ),
        (
            "[[call]]\nname = 'c'\ncall = '<c>${name}:${args}</c>'\narg = '${key}=${value}'",
            "call[0]: the form of an argument must be text",
        ),
        (
            "[[call]]\nname = 'c'\ncall = '<c>${name}:${arguments}'\nid_length = 0",
            "call[0].id_length: expected a number from 1 to 64",
        ),
    ];
    cases.into_iter().for_each(refused);
}

/// Every table with a definition that differs from the built-in one.
const OTHERS: [(&str, &str); 8] = [
    ("qwen2", "[split]\nqwen2 = ['x']"),
    ("llama-bpe", "[[pre]]\nnames = ['llama-bpe']\nsplit = 'qwen2'"),
    ("llama", "[[vocabulary]]\nname = 'llama'\nalgorithm = 'bpe'"),
    ("<think>", "[[reasoning]]\nopen = '<think>'\nclose = '<done>'"),
    ("<response>", "[[content]]\nopen = '<response>'\nclose = '<done>'"),
    ("hermes", "[[call]]\nname = 'hermes'\nwhere = ['<tool_call>']\ncall = '<x>${name} ${arguments}<done>'"),
    ("chatml", "[[chat_template]]\nname = 'chatml'\nsource = '{{ messages }}x'"),
    ("<|im_end|>", "[[not_end]]\ntext = '<|im_end|>'\nbeside = [['<x>']]"),
];

#[test]
fn a_built_in_entry_is_replaced_only_with_leave() {
    for (name, text) in OTHERS {
        let mut tables = built_in();
        let error = tables.add("mine.toml", text, false).unwrap_err();
        let TableFault::Conflict { name: named, built_in: true, .. } = &error.fault else {
            panic!("{error}");
        };
        assert_eq!(named, name);
        assert!(error.to_string().contains("--allow-shadow"), "{error}");
        tables.add("mine.toml", text, true).unwrap();
        assert_eq!(tables.added().collect::<Vec<_>>(), ["mine.toml"]);
        // An entry of another folder is never replaced.
        let second = text.replace("'x'", "'y'").replace("'qwen2'", "'gpt2'").replace("<done>", "</end>");
        let second = second.replace("algorithm = 'bpe'", "refused = 'no'").replace("}}x", "}}y");
        if name != "<|im_end|>" {
            let error = tables.add("other.toml", &second, true).unwrap_err();
            assert!(matches!(error.fault, TableFault::Conflict { built_in: false, .. }), "{error}");
            assert!(error.to_string().contains("mine.toml"), "{error}");
        }
    }
}

#[test]
fn the_same_again_is_no_change() {
    let mut tables = built_in();
    for (name, text) in BUILT_IN {
        tables.add(name, text, false).unwrap_or_else(|error| panic!("{error}"));
    }
    let before = built_in();
    assert_eq!(tables.pre, before.pre);
    assert_eq!((&tables.reasoning, &tables.fill_in), (&before.reasoning, &before.fill_in));
    assert_eq!(tables.infill, before.infill);
    assert_eq!((tables.not_end.len(), tables.end.len()), (before.not_end.len(), before.end.len()));
}

/// A vocabulary of letters with a pre-tokenizer, an end token, a control token and a rule that no built-in table has.
#[test]
fn what_a_folder_adds_is_used() {
    let keys = Keys::default()
        .text("tokenizer.ggml.model", "brandnew")
        .text("tokenizer.ggml.pre", "halves")
        .strings("tokenizer.ggml.tokens", &["a", "b", "ab", "<|fin|>", "<|steer|>", "<|fin2|>", "<|beside|>"])
        .strings("tokenizer.ggml.merges", &["a b"])
        .types(&[1, 1, 1, 4, 4, 3, 3]);
    let mut tables = built_in();
    tables
        .add(
            "mine/tokenizers/new.toml",
            "[split]\nhalves = ['a|b']\n[[pre]]\nnames = ['halves']\nsplit = 'halves'\n\
             [[vocabulary]]\nname = 'brandnew'\nalgorithm = 'bpe'\n\
             [end]\ntexts = ['<|fin|>', '<|fin2|>', '<|beside|>']\n[steering]\ntexts = ['<|steer|>']\n\
             [[not_end]]\ntext = '<|fin2|>'\nbeside = [['<|beside|>']]\n\
             [[reasoning]]\nopen = '<hm>'\nclose = '</hm>'",
            false,
        )
        .unwrap();
    assert!(tables.reasoning().any(|pair| pair.open == "<hm>" && !pair.always));
    let options = TokenizerOptions { pre: None, tables: Some(Arc::new(tables)) };
    let tokenizer = keys.with_options(&options).unwrap();
    assert_eq!(tokenizer.encode("abab", Special::Plain).unwrap(), [0, 1, 0, 1]);
    assert_eq!(tokenizer.end_of_generation(), [3, 6]);
    assert_eq!(tokenizer.guarded_texts(), ["<|fin|>", "<|steer|>", "<|fin2|>", "<|beside|>"]);
    let error = keys.build(None).unwrap_err().to_string();
    assert!(error.contains("`brandnew`") && error.contains("`bert`, `gemma4`, `gpt2`, `llama`"), "{error}");
    let unknown = keys.text("tokenizer.ggml.model", "gpt2").build(None).unwrap_err().to_string();
    assert!(unknown.contains("tokenizers/halves.toml of a spec folder"), "{unknown}");
}

#[test]
fn more_texts_for_a_key_come_after_those_it_has() {
    let keys = Keys::default()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", &["a", "<mypad>", "<|fim_pad|>"])
        .strings::<&str>("tokenizer.ggml.merges", &[]);
    let mut tables = built_in();
    let text = "[[fill_in_the_middle]]\nkey = 'tokenizer.ggml.fim_pad_token_id'\ntexts = ['<mypad>']";
    tables.add("mine.toml", text, false).unwrap();
    let options = TokenizerOptions { pre: None, tables: Some(Arc::new(tables)) };
    assert_eq!(keys.with_options(&options).unwrap().end_of_generation(), [2]);
    let only = keys.strings("tokenizer.ggml.tokens", &["a", "<mypad>", "b"]);
    assert_eq!(only.with_options(&options).unwrap().end_of_generation(), [1]);
}

/// Regexes that try to exhaust the stack, memory or time of the reader.
#[test]
fn hostile_regexes_are_refused() {
    let long = 100_000;
    for regex in [
        format!("{}a{}", "(".repeat(long), ")".repeat(long)),
        format!("{}a{}", "(?=".repeat(long), ")".repeat(long)),
        format!("{}a{}", "[".repeat(long), "]".repeat(long)),
        format!("a{}", "*".repeat(long)),
        "(?:a{1000}){1000}{1000}(?=b)".to_owned(),
        r"(?:\p{L}{1000}){1000}".to_owned(),
    ] {
        let error = built_in().add("t.toml", &format!("[split]\nx = ['{regex}']\n"), false).unwrap_err();
        assert!(matches!(error.fault, TableFault::Regex { .. }) && error.to_string().len() < 2000, "{error}");
    }
    // Each is acceptable and takes some milliseconds.
    let many: String =
        (0..30_000).map(|at| format!("x{at} = ['\\p{{L}}{{{}}}']\n", 100 + at % 100)).collect();
    let error = built_in().add("t.toml", &format!("[split]\n{many}"), false).unwrap_err().to_string();
    assert!(error.contains("took longer than 3 s to compile"), "{error}");
}

/// The prompts of llama.cpp for the formats of the same names (tests/fixtures/tok/chats.json).
#[test]
fn built_in_chat_templates_give_llama_cpps_prompts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tok/chats.json");
    let cases: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let tables = built_in();
    let names: Vec<&str> = tables.chat_templates().collect();
    assert_eq!(names.len(), cases["prompts"].as_object().unwrap().len());
    for name in names {
        let source = tables.chat_template(name).unwrap();
        let template = crate::ChatTemplate::new(name, source, None, None).unwrap();
        for (talk, prompt) in
            cases["talks"].as_array().unwrap().iter().zip(cases["prompts"][name].as_array().unwrap())
        {
            let options = crate::RenderOptions { add_generation_prompt: true, ..Default::default() };
            let found = template.render(talk.as_array().unwrap(), &options).unwrap();
            assert_eq!(found, prompt.as_str().unwrap(), "{name}");
        }
    }
}

#[test]
fn templates_declare_their_tags() {
    let mut tables = built_in();
    let mine = "[[reasoning]]\nopen = '<hm>'\nclose = '</hm>'\n[[content]]\nopen = '<say>'\nclose = '</say>'\n\
                [[content]]\nopen = '<to>'\nwhere = ['<a>', '<b>']";
    tables.add("mine.toml", mine, false).unwrap();
    let opens = |template| {
        let syntax = tables.answer_syntax(template);
        let reasoning = syntax.reasoning.into_iter().map(|tags| tags.open);
        reasoning.chain(syntax.content.into_iter().map(|tags| tags.open)).collect::<Vec<_>>()
    };
    assert_eq!(opens("plain"), ["<think>"]);
    assert_eq!(opens("{{ '[THINK]' }}"), ["<think>", "[THINK]"]);
    assert_eq!(opens("ends with </hm>"), ["<think>", "<hm>"]);
    assert_eq!(opens("<say> <a>"), ["<think>", "<say>"]);
    assert_eq!(opens("<a> <b>"), ["<think>", "<to>"]);
}
