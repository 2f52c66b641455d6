//! Stages in processes that are killed or stopped while words come: they are started again, and the text continues as if nothing
//! had happened.
#![cfg(target_os = "linux")]

use super::batches::{batch, chat, results, write};
use super::metrics::value;
use super::signals::ended;
use super::stages::{are_gone, said, signal, stages_of, start};
use super::{chat_model, fixture, menagerie};
use serde_json::json;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Longest that a test waits.
const LONG: Duration = Duration::from_secs(120);

/// Tokens of an answer that takes a while.
const TOKENS: &str = "700";

fn answering<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = ["run", model, "--raw", "hello", "--ignore-eos", "-n", TOKENS, "-c", "4096"];
    [&usual[..], &["--seed", "5", "-t", "1", "--no-stage-probe"], more].concat()
}

/// Reads some bytes of an answer.
fn first_words(child: &mut Child, text: &mut Vec<u8>, bytes: usize) {
    let from = text.len();
    text.resize(from + bytes, 0);
    child.stdout.as_mut().unwrap().read_exact(&mut text[from..]).unwrap();
}

/// The stages that took the place of others.
fn restarted(process: u32, before: &[u32], count: usize) -> Vec<u32> {
    let asked = Instant::now();
    loop {
        let now = stages_of(process, count);
        if now.iter().all(|stage| !before.contains(stage)) {
            return now;
        }
        assert!(asked.elapsed() < LONG, "the stages are not started again");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn rest_of(mut child: Child, text: &mut Vec<u8>) {
    child.stdout.as_mut().unwrap().read_to_end(text).unwrap();
    let (code, errors) = (ended(&mut child), said(&mut child));
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn the_text_continues_after_a_stage_is_killed_or_stopped() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let expected = menagerie(home.path(), &answering(&model, &[])).good();
    for (name, stage, count) in [("KILL", 0, "2"), ("KILL", 1, "3"), ("STOP", 1, "2")] {
        let metrics = ["--metrics", "m.txt", "--stage-processes", count, "--stage-deadline", "2"];
        let mut child = start(home.path(), &answering(&model, &metrics));
        let stages = stages_of(child.id(), count.parse().unwrap());
        let mut text = Vec::new();
        first_words(&mut child, &mut text, 16);
        signal(name, stages[stage]);
        let restarted = restarted(child.id(), &stages, stages.len());
        rest_of(child, &mut text);
        assert!(text == expected.as_bytes(), "{name} of stage {stage} of {count}");
        for counter in ["restores_total", "replays_total"] {
            assert!(value(home.path(), counter) >= 1.0, "{counter}");
        }
        are_gone(&stages);
        are_gone(&restarted);
    }
}

/// An adapter and a control vector act in the processes that are started again.
#[test]
fn adapters_and_control_vectors_act_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let adapter = format!("{}=0.5", fixture("lora/llama/adapters/a0").display());
    let vector = fixture("control/a.gguf").display().to_string();
    let adapted = ["--lora", adapter.as_str(), "--control-vector", vector.as_str()];
    let expected = menagerie(home.path(), &answering(&model, &adapted)).good();
    assert_ne!(expected, menagerie(home.path(), &answering(&model, &[])).good(), "they act");
    let mut child =
        start(home.path(), &answering(&model, &[&adapted[..], &["--stage-processes", "2"]].concat()));
    let stages = stages_of(child.id(), 2);
    let mut text = Vec::new();
    first_words(&mut child, &mut text, 16);
    signal("KILL", stages[1]);
    rest_of(child, &mut text);
    assert!(text == expected.as_bytes());
}

/// The number of open files of a process, and of its threads.
fn handles(process: u32) -> [usize; 2] {
    ["fd", "task"].map(|what| std::fs::read_dir(format!("/proc/{process}/{what}")).unwrap().count())
}

/// Restarts leave no process, file or thread behind.
#[test]
fn restarts_leave_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let expected = menagerie(home.path(), &answering(&model, &[])).good();
    let mut child = start(home.path(), &answering(&model, &["--stage-processes", "2"]));
    let (mut stages, mut text) = (stages_of(child.id(), 2), Vec::new());
    first_words(&mut child, &mut text, 16);
    let before = handles(child.id());
    for turn in 0..4 {
        signal("KILL", stages[turn % 2]);
        let next = restarted(child.id(), &stages, 2);
        are_gone(&stages);
        stages = next;
        // It computes again.
        first_words(&mut child, &mut text, 16);
        let now = handles(child.id());
        assert!(now[0] <= before[0] + 2 && now[1] <= before[1] + 2, "{before:?}, then {now:?}");
    }
    rest_of(child, &mut text);
    assert!(text == expected.as_bytes());
}

/// All lines of a batch are answered, as by the whole model.
#[test]
fn a_batch_continues_after_a_stage_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let line = |number: usize| {
        let body = json!({ "max_tokens": 100 + 20 * number, "ignore_eos": true, "seed": number });
        chat(&format!("line{number}"), &format!("hello {number}"), &body)
    };
    write(home.path(), "in.jsonl", &(0..6).map(line).collect::<Vec<_>>());
    let call = batch(home.path(), &model, &["-c", "2048"]);
    assert_eq!(call.code, Some(0), "{call:?}");
    let expected = results(home.path(), "out.jsonl");
    let usual = ["batch", &model, "in.jsonl", "out.jsonl", "--temp", "0", "-c", "2048", "-t", "1", "--force"];
    let staged = ["--stage-processes", "2", "--metrics", "m.txt"];
    let mut child = start(home.path(), &[&usual[..], &staged[..]].concat());
    super::stages::drain(&mut child);
    let stages = stages_of(child.id(), 2);
    wait_until_computing(&stages);
    signal("KILL", stages[0]);
    let (code, errors) = (ended_late(&mut child), said(&mut child));
    assert_eq!(code, Some(0), "{errors}");
    for (id, line) in results(home.path(), "out.jsonl") {
        let answer = |line: &serde_json::Value| line["response"]["body"]["choices"].clone();
        assert_eq!(answer(&line), answer(&expected[&id]), "{id}");
    }
    assert!(value(home.path(), "restores_total") >= 1.0);
    are_gone(&stages);
}

/// Waits until the last stage has used the processor.
fn wait_until_computing(stages: &[u32]) {
    let asked = Instant::now();
    while super::stage_faults::cpu_ticks(stages[stages.len() - 1]) < 10 {
        assert!(asked.elapsed() < LONG, "the last stage does nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended_late(child: &mut Child) -> Option<i32> {
    let asked = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(asked.elapsed() < LONG, "still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stages that always die end the request, after a few attempts.
#[test]
fn stages_that_cannot_be_started_again_are_an_error() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut child = start(home.path(), &answering(&model, &["--stage-processes", "2"]));
    let stages = stages_of(child.id(), 2);
    first_words(&mut child, &mut Vec::new(), 16);
    // The file that the new processes open is not a model any more; the old ones have mapped it.
    let path = Path::new(&model);
    std::fs::rename(path, home.path().join("moved.gguf")).unwrap();
    std::fs::write(path, "no model").unwrap();
    super::stages::drain(&mut child);
    signal("KILL", stages[0]);
    let (code, errors) = (ended_late(&mut child), said(&mut child));
    assert_eq!(code, Some(1), "{errors}");
    for words in ["error: stage 0 (layer", "is gone", "its pipeline was not restored (attempts: 1,"] {
        assert!(errors.contains(words), "`{words}` is not in:\n{errors}");
    }
    are_gone(&stages);
}
