//! One text: what is answered depends on the model, the options and the prompt alone.

use super::{Changed, TEMPLATE, call_with, fixture};
use std::path::Path;
use std::process::Command;

/// One with quantized weights.
fn model(home: &Path) -> String {
    assert!(fixture("quant/Q4_K_M.gguf").is_file());
    Changed::of("quant/Q4_K_M.gguf").set("tokenizer.chat_template", TEMPLATE).write(home)
}

/// The answers of a conversation, as `/save` wrote them after each.
fn answers(home: &Path, input: &str, threads: &str, isa: Option<&str>, options: &[&str]) -> Vec<String> {
    std::fs::write(home.join("input"), input).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1").env("PATH", "");
    command.envs(isa.map(|isa| ("MENAGERIE_ISA", isa)));
    command.args(["chat", &model(home), "-n", "24", "--ignore-eos", "-t", threads]).args(options);
    call_with(command, std::fs::File::open(home.join("input")).unwrap().into()).good();
    let saves = input.lines().filter_map(|line| line.strip_prefix("/save! "));
    let last = |file: &str| {
        let text = std::fs::read_to_string(home.join(file)).unwrap();
        let messages: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let answer = messages.last().unwrap();
        assert_eq!(answer["role"], "assistant");
        answer["content"].as_str().unwrap().to_owned()
    };
    saves.map(last).collect()
}

/// Answered again, with and without what is cached, on one and on seven threads, on every instruction set.
#[test]
fn an_answer_given_again_is_the_same() {
    const TALK: &str = "Tell me of rivers.\n/save! 1.json\n/regen\n/save! 2.json\nAnd where do they end?\n/save! 3.json\n\
                        /regen\n/save! 4.json\n/regen\n/save! 5.json\n";
    for options in [&["--temp", "0"][..], &["--temp", "1.6", "--seed", "11", "--top-k", "0"]] {
        let home = tempfile::tempdir().unwrap();
        let said = answers(home.path(), TALK, "1", None, options);
        assert!(said.iter().all(|answer| !answer.is_empty()), "{said:?}");
        assert!(said[0] == said[1] && said[2] == said[3] && said[3] == said[4], "{said:#?}");
        assert_eq!(answers(home.path(), TALK, "7", None, options), said);
        for isa in menagerie::kernels::Isa::available() {
            assert_eq!(answers(home.path(), TALK, "2", Some(isa.name()), options), said, "{isa}");
        }
        // A new process, which has nothing of the conversation but its messages.
        let again = answers(home.path(), "/load 5.json\n/regen\n/save! 6.json\n", "3", None, options);
        assert_eq!(again, said[4..]);
    }
}
