//! Stages in processes that are killed or stopped, while a prompt is computed and while words come, and are not started again:
//! each is named, nothing is left, and what was answered stays.
#![cfg(target_os = "linux")]

use super::batches::{batch, chat, results, write};
use super::signals::ended;
use super::stages::{are_gone, drain, said, signal, stages_of, start};
use super::{chat_model, menagerie};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest that a test waits for what should come at once.
const LONG: Duration = Duration::from_secs(120);

/// Rows of a chunk, by which its steps are known.
const CHUNK: &str = "16";

/// A prompt that takes minutes, on its way through stages in processes.
struct Prefill {
    child: Child,
    stages: Vec<u32>,
    lines: Receiver<String>,
}

impl Prefill {
    /// Some chunks have been computed by every stage, and thousands have not.
    fn begun(home: &Path, stages: usize, deadline: &str) -> Self {
        let model = chat_model(home);
        std::fs::write(home.join("long.txt"), "word ".repeat(11_000)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(["run", &model, "--raw", "-f", "long.txt", "-n", "1", "-c", "60000", "-t", "1"]);
        command.args([
            "--chunk",
            CHUNK,
            "--no-stage-probe",
            "--no-stage-restart",
            "--stage-deadline",
            deadline,
        ]);
        command.args(["--stage-processes", &stages.to_string()]);
        command.current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
        command.env("RUST_LOG", "menagerie_stages=debug");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let error = BufReader::new(child.stderr.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || error.lines().map_while(Result::ok).all(|line| to.send(line).is_ok()));
        let mut prefill = Self { stages: stages_of(child.id(), stages), child, lines };
        for stage in 0..stages {
            prefill.wait_for(&["stage computed", &format!("stage={stage} "), &format!("rows={CHUNK} ")]);
        }
        prefill
    }

    /// Waits for a line with all of these.
    fn wait_for(&mut self, words: &[&str]) {
        let asked = Instant::now();
        while asked.elapsed() < LONG {
            let line = self.lines.recv_timeout(LONG).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            if words.iter().all(|word| line.contains(word)) {
                return;
            }
        }
        panic!("no line with {words:?}");
    }

    /// How it ended and what it said; nothing of it is left.
    fn end(mut self) -> (Option<i32>, String) {
        let code = ended(&mut self.child);
        let errors: Vec<String> = self.lines.iter().filter(|line| !line.contains("stage computed")).collect();
        let mut out = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().unwrap(), &mut out).unwrap();
        assert_eq!(out.trim(), "", "no word came");
        are_gone(&self.stages);
        (code, errors.join("\n"))
    }
}

/// The chunk that an error names: first and last position.
fn chunk(text: &str) -> (usize, usize) {
    assert!(text.contains(", request "), "{text}");
    let place = text.split(", positions ").nth(1).unwrap_or_else(|| panic!("{text}"));
    let numbers = place.split(':').next().unwrap();
    let (first, last) = numbers.split_once(" to ").unwrap_or_else(|| panic!("{text}"));
    (first.parse().unwrap(), last.parse().unwrap())
}

#[test]
fn a_stage_that_is_killed_in_a_prompt_is_named_with_the_chunk() {
    let home = tempfile::tempdir().unwrap();
    for stage in 0..2 {
        let prefill = Prefill::begun(home.path(), 2, "300");
        signal("KILL", prefill.stages[stage]);
        let (code, text) = prefill.end();
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("error: stage {stage} (layer")) && text.contains("is gone"), "{text}");
        let (first, last) = chunk(&text);
        assert_eq!((first % 16, last), (0, first + 15), "{text}");
    }
}

#[test]
fn a_stage_that_is_stopped_in_a_prompt_is_named_with_the_chunk() {
    let home = tempfile::tempdir().unwrap();
    for stage in 0..2 {
        let prefill = Prefill::begun(home.path(), 2, "4");
        let began = Instant::now();
        signal("STOP", prefill.stages[stage]);
        let (code, text) = prefill.end();
        assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
        assert_eq!(code, Some(1), "{text}");
        let words = format!("error: stage {stage} (layer");
        assert!(text.contains(&words) && text.contains("has not answered for 4 s"), "{text}");
        let (first, last) = chunk(&text);
        assert_eq!((first % 16, last), (0, first + 15), "{text}");
    }
}

/// Of three the one that is gone is named, not one that ended because of it.
#[test]
fn the_stage_that_went_first_is_named() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("made.gguf");
    let path = model.to_str().unwrap();
    let shape = ["block_count=6", "embedding_length=64", "feed_forward_length=128", "vocab_size=512"];
    let mut made = vec!["synth", "llama", path, "--quant", "F32", "--shape", "llama-3.2-1b"];
    made.extend(shape.iter().flat_map(|key| ["--shape", key]));
    menagerie(home.path(), &made).good();
    for stage in 0..3 {
        let mut arguments =
            vec!["bench", path, "-p", "0", "-n", "50000", "-r", "1", "-c", "50100", "-t", "1"];
        arguments.extend(["--stage-processes", "3", "--no-stage-probe"]);
        let mut child = start(home.path(), &arguments);
        drain(&mut child);
        let stages = stages_of(child.id(), 3);
        // They compute: the last one has used the processor.
        let asked = Instant::now();
        while cpu_ticks(stages[2]) < 10 {
            assert!(asked.elapsed() < LONG, "the last stage does nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
        signal("KILL", stages[stage]);
        let (code, text) = (ended(&mut child), said(&mut child));
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.contains(&format!("stage {stage} (layers ")) && text.contains("is gone"),
            "{stage}: {text}"
        );
        are_gone(&stages);
    }
}

/// Time that a process has computed, in ticks of its clock.
pub(super) fn cpu_ticks(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Neither a prompt nor a stage that is stopped keeps Ctrl-C waiting.
#[test]
fn ctrl_c_ends_a_prompt_in_stages() {
    let home = tempfile::tempdir().unwrap();
    for stopped in [None, Some(0), Some(1)] {
        let prefill = Prefill::begun(home.path(), 2, "300");
        if let Some(stage) = stopped {
            signal("STOP", prefill.stages[stage]);
        }
        signal("INT", prefill.child.id());
        let (code, text) = prefill.end();
        assert_eq!(code, Some(130), "{stopped:?}: {text}");
    }
}

/// Stages end with a process that is killed while they compute a prompt. The system continues and hangs up those that are stopped
/// when nobody is left who could continue them.
#[test]
fn stages_end_with_a_process_that_is_killed_in_a_prompt() {
    let home = tempfile::tempdir().unwrap();
    for (stages, stopped) in [(2, None), (3, None), (2, Some(0)), (2, Some(1))] {
        let prefill = Prefill::begun(home.path(), stages, "300");
        stopped.into_iter().for_each(|stage: usize| signal("STOP", prefill.stages[stage]));
        signal("KILL", prefill.child.id());
        let (code, text) = prefill.end();
        assert_eq!(code, None, "{stages} stages, {stopped:?} is stopped: {text}");
    }
}

/// A stage that dies ends the lines that are under way, with a named error; the same command, in stages or not, answers the
/// rest.
#[test]
fn a_batch_whose_stage_dies_goes_on_later() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let quick = chat("quick", "hello", &json!({ "max_tokens": 1 }));
    let lines = |count: usize| {
        let slow =
            |n| chat(&format!("slow{n}"), "hello", &json!({ "max_tokens": count, "ignore_eos": true }));
        let mut lines = vec![quick.clone()];
        lines.extend((0..3).map(slow));
        lines
    };
    write(home.path(), "in.jsonl", &lines(50_000));
    let usual = ["batch", &model, "in.jsonl", "out.jsonl", "-c", "60000", "-t", "1", "--temp", "0"];
    let staged = ["-n", "6", "--stage-processes", "2", "--no-stage-restart"];
    let mut child = start(home.path(), &[&usual[..], &staged[..]].concat());
    drain(&mut child);
    let stages = stages_of(child.id(), 2);
    let asked = Instant::now();
    let answered =
        || std::fs::read_to_string(home.path().join("out.jsonl")).is_ok_and(|text| text.ends_with('\n'));
    while !answered() {
        assert!(asked.elapsed() < LONG && child.try_wait().unwrap().is_none(), "nothing is answered");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal("KILL", stages[1]);
    let (code, text) = (ended(&mut child), said(&mut child));
    assert_eq!(code, Some(1), "{text}");
    for words in
        ["error: stage 1 (layer", "is gone", "3 lines in progress", "help: run the same command again"]
    {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    are_gone(&stages);
    assert_eq!(results(home.path(), "out.jsonl").keys().collect::<Vec<_>>(), ["quick"]);
    write(home.path(), "in.jsonl", &lines(5));
    let call = batch(home.path(), &model, &["-c", "60000", "--stages", "2"]);
    assert!(call.code == Some(0) && call.err.contains("1 of 4 lines already answered"), "{call:?}");
    let resumed = results(home.path(), "out.jsonl");
    let call = batch(home.path(), &model, &["-c", "60000", "--force"]);
    assert_eq!(call.code, Some(0), "{call:?}");
    for (id, line) in results(home.path(), "out.jsonl") {
        assert_eq!(line["response"]["body"]["choices"], resumed[&id]["response"]["body"]["choices"], "{id}");
    }
}
