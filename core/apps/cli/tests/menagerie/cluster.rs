//! `stage` and `--cluster`: stages in processes that are linked over the network, and what happens when one is gone.
#![cfg(target_os = "linux")]

use super::signals::ended;
use super::stages::{drain, said, signal};
use super::{chat_model, fixture, menagerie};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that a test waits for what should come at once.
const LONG: Duration = Duration::from_secs(120);

/// A process that is killed with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running `menagerie stage`.
struct StageProcess {
    process: Process,
    endpoint: String,
}

impl StageProcess {
    /// Starts a stage of a model; the first one of a cluster has no `seed`.
    fn start(home: &Path, model: &str, more: &[&str], seed: Option<&Self>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(["stage", model, "--cluster", "test", "-t", "1"]).args(more);
        if let Some(seed) = seed {
            command.args(["--connect", &seed.endpoint]);
        }
        command.current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let endpoint = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(line.contains(" serve in cluster test as replica main at tcp/127.0.0.1:"), "{line}");
        Self { process: Process(child), endpoint }
    }

    fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Ends by this signal; returns the exit code and what was said.
    fn end(mut self, name: &str) -> (Option<i32>, String) {
        signal(name, self.id());
        let code = ended(&mut self.process.0);
        let mut text = String::new();
        self.process.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (code, text)
    }
}

/// Two stages of a model.
fn two(home: &Path, model: &str) -> [StageProcess; 2] {
    let first = StageProcess::start(home, model, &["--index", "0", "--of", "2"], None);
    let second = StageProcess::start(home, model, &["--index", "1", "--of", "2"], Some(&first));
    [first, second]
}

#[test]
fn heads_use_the_stages_of_a_cluster_one_after_the_other() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let logits = |out: &str, more: &[&str]| {
        let arguments = ["logits", model, "--tokens", "3,14,15,9,26", "-t", "1", "--force", "--out", out];
        menagerie(home.path(), &[&arguments[..], more].concat()).good();
        std::fs::read(home.path().join(out)).unwrap()
    };
    let whole = logits("whole", &[]);
    let [first, second] = two(home.path(), model);
    let cluster = ["--cluster", "test", "--connect", &*second.endpoint];
    assert!(whole == logits("split", &cluster));
    let run = |more: &[&str]| {
        let arguments = ["run", model, "--raw", "a b c", "-n", "8", "-t", "1", "--temp", "0", "--json"];
        menagerie(home.path(), &[&arguments[..], more].concat()).good()
    };
    let text = |json: String| serde_json::from_str::<serde_json::Value>(&json).unwrap()["text"].clone();
    assert_eq!(text(run(&[])), text(run(&cluster)));
    // A stage that is drained while nothing runs ends at once, with success.
    for stage in [first, second] {
        let (code, said) = stage.end("TERM");
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("for head ") && said.contains("has ended") && said.contains("is drained"),
            "{said}"
        );
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let call = |arguments: &[&str]| menagerie(home.path(), arguments);
    let run = ["run", model, "x"];
    call(&[&run[..], &["--connect", "127.0.0.1:1"]].concat()).refused_with(&["--cluster"]);
    call(&[&run[..], &["--cluster", "a", "--stages", "2"]].concat()).refused_with(&["determine the split"]);
    call(&[&run[..], &["--cluster", "a/b"]].concat()).fails_with(&["name of a cluster"]);
    call(&["stage", model, "--cluster", "a"]).refused_with(&["--layers"]);
    call(&["stage", model, "--cluster", "a", "--layers", "0-1", "--index", "0", "--of", "2"])
        .refused_with(&["cannot be used with"]);
    call(&["stage", model, "--cluster", "a", "--index", "2", "--of", "2"])
        .fails_with(&["stage 2 of 2 stages does not exist"]);
    call(&["stage", model, "--cluster", "a", "--layers", "1-7"]).fails_with(&["stage 1 has layers 1 to 7"]);
    call(&["stage", model, "--cluster", "a", "--layers", "0-1", "--replica", "*"])
        .refused_with(&["name of a replica"]);
}

/// A request for thousands of words, and the stages that compute it.
fn generating(home: &Path) -> (Process, [StageProcess; 2]) {
    let model = home.join("made.gguf");
    let path = model.to_str().unwrap();
    let shape = ["block_count=4", "embedding_length=64", "feed_forward_length=128", "vocab_size=512"];
    let mut made = vec!["synth", "llama", path, "--quant", "F32", "--shape", "llama-3.2-1b"];
    made.extend(shape.iter().flat_map(|key| ["--shape", key]));
    menagerie(home, &made).good();
    let stages = two(home, path);
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(["bench", path, "-p", "0", "-n", "50000", "-r", "1", "-c", "50100", "-t", "1"]);
    command.args(["--cluster", "test", "--lease", "2", "--connect", &stages[0].endpoint]);
    command.current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut head = Process(command.spawn().unwrap());
    drain(&mut head.0);
    // The last stage has used the processor.
    let (asked, before) = (Instant::now(), cpu_ticks(stages[1].id()));
    while cpu_ticks(stages[1].id()) < before + 10 {
        assert!(asked.elapsed() < LONG, "the last stage does nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    (head, stages)
}

/// The stages of the model serve another head.
fn serves(home: &Path, seed: &StageProcess) {
    let model = home.join("made.gguf");
    let logits =
        ["logits", model.to_str().unwrap(), "--tokens", "1,2,3", "-t", "1", "--out", "l", "--cluster"];
    menagerie(home, &[&logits[..], &["test", "--connect", &seed.endpoint]].concat()).good();
}

fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_stage_that_is_killed_is_named_and_the_other_serves_the_next_head() {
    let home = tempfile::tempdir().unwrap();
    let (mut head, [first, second]) = generating(home.path());
    signal("KILL", second.id());
    let (code, text) = (ended(&mut head.0), said(&mut head.0));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("error: stage 1 (layers 2 to 3)") && text.contains("is gone"), "{text}");
    drop(second);
    let model = home.path().join("made.gguf");
    let path = model.to_str().unwrap();
    let again = StageProcess::start(home.path(), path, &["--layers", "2-3"], Some(&first));
    serves(home.path(), &again);
}

#[test]
fn a_stage_that_hangs_is_named_within_the_lease() {
    let home = tempfile::tempdir().unwrap();
    let (mut head, [first, second]) = generating(home.path());
    signal("STOP", first.id());
    let (code, text) = (ended(&mut head.0), said(&mut head.0));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("error: stage 0 (layers 0 to 1)") && text.contains("is gone"), "{text}");
    signal("CONT", first.id());
    // Both are clean: they serve the next head.
    serves(home.path(), &second);
}

/// The text continues with the same bits on a stage that takes the place of one that was killed.
#[test]
fn an_answer_continues_on_another_stage() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let usual = ["run", &model, "--raw", "hello", "--ignore-eos", "-n", "1500", "-c", "4096", "--seed", "5"];
    let usual = [&usual[..], &["-t", "1"]].concat();
    let expected = menagerie(home.path(), &usual).good();
    let [first, second] = two(home.path(), &model);
    let cluster = ["--cluster", "test", "--connect", &*first.endpoint];
    let mut head = Process(super::stages::start(home.path(), &[&usual[..], &cluster].concat()));
    let mut text = vec![0; 16];
    head.0.stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
    signal("KILL", second.id());
    let _again = StageProcess::start(home.path(), &model, &["--index", "1", "--of", "2"], Some(&first));
    head.0.stdout.as_mut().unwrap().read_to_end(&mut text).unwrap();
    let (code, errors) = (ended(&mut head.0), said(&mut head.0));
    assert_eq!(code, Some(0), "{errors}");
    assert!(text == expected.as_bytes());
}

#[test]
fn a_head_that_is_killed_leaves_stages_for_the_next_one() {
    let home = tempfile::tempdir().unwrap();
    let (head, [first, second]) = generating(home.path());
    signal("KILL", head.0.id());
    drop(head);
    serves(home.path(), &second);
    drop(first);
}
