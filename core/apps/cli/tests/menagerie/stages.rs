//! `--stages` and `--stage-processes`: the same result, bit for bit; and processes that end, whatever happens.
#![cfg(unix)]

use super::signals::{ended, endless};
use super::{chat_model, fixture, menagerie};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TOKENS: &str = "3,14,15,9,26,5,35,8,97,93,2,38,46,26,43";

/// What `logits` writes with these options.
fn logits(home: &Path, model: &str, more: &[&str]) -> Vec<u8> {
    let out = home.join("logits.safetensors");
    let mut arguments =
        vec!["logits", model, "--tokens", TOKENS, "--decode-from", "11", "--chunk", "4", "-t", "1"];
    arguments.extend(["--force", "--out", out.to_str().unwrap()]);
    arguments.extend(more);
    menagerie(home, &arguments).good();
    std::fs::read(out).unwrap()
}

#[test]
fn stages_write_the_logits_of_one_model() {
    let home = tempfile::tempdir().unwrap();
    for name in [
        "base/llama/model-f32.gguf",
        "quant/Q4_K_M.gguf",
        "zoo/jamba/model-f16.gguf",
        "zoo/gemma3/model-f16.gguf",
    ] {
        let model = fixture(name);
        let model = model.to_str().unwrap();
        let one = logits(home.path(), model, &[]);
        for more in [
            &["--stages", "2"][..],
            &["--stage-processes", "2"],
            &["--stage-processes", "2", "--no-stage-probe"],
        ] {
            assert!(one == logits(home.path(), model, more), "{name} with {more:?}");
        }
    }
    let model = fixture("base/qwen2/model-f32.gguf");
    let model = model.to_str().unwrap();
    let one = logits(home.path(), model, &[]);
    for count in ["3", "4"] {
        let arguments = ["--stage-processes", count];
        let layers = menagerie(
            home.path(),
            &["logits", model, "--tokens", "1", "--out", "x", "--force", "--stages", count],
        );
        if layers.code == Some(0) {
            assert!(one == logits(home.path(), model, &arguments), "{count} stages");
        }
    }
}

#[test]
fn adapters_act_in_processes() {
    let home = tempfile::tempdir().unwrap();
    let (model, adapter) = (fixture("base/llama/model-f32.gguf"), fixture("lora/llama/adapters/a0"));
    let weighted = format!("{}=0.5", adapter.display());
    let adapted = ["--lora", weighted.as_str()];
    let model = model.to_str().unwrap();
    let one = logits(home.path(), model, &adapted);
    assert!(one != logits(home.path(), model, &[]), "the adapter changes something");
    let split = [&adapted[..], &["--stage-processes", "2"]].concat();
    assert!(one == logits(home.path(), model, &split));
}

#[test]
fn what_does_not_go_with_stages_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let call = |more: &[&str]| {
        let arguments = [&["logits", model, "--tokens", "1", "--out", "x"][..], more].concat();
        menagerie(home.path(), &arguments)
    };
    call(&["--stages", "2", "--stage-processes", "2"]).refused_with(&["cannot be used with"]);
    call(&["--stages", "3", "--stage-layers", "0-1,2-2"])
        .refused_with(&["has 2 ranges, but 3 stages were requested"]);
    call(&["--stages", "90"])
        .fails_with(&["cannot run in stages", "90 stages for a model of 3 layers: expected 1 to 3"]);
    call(&["--stage-layers", "0-0,5-9"]).fails_with(&["expected them to begin at 1"]);
}

pub(super) fn start(home: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(super) fn signal(name: &str, process: u32) {
    let command = format!("kill -{name} {process}");
    assert!(Command::new("/bin/sh").args(["-c", &command]).status().unwrap().success(), "{command}");
}

/// The stages of a process, once there are so many.
#[cfg(target_os = "linux")]
pub(super) fn stages_of(process: u32, count: usize) -> Vec<u32> {
    let asked = Instant::now();
    loop {
        let mut found = Vec::new();
        for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().map(|number| number.parse::<u32>().unwrap()));
        }
        found.sort_unstable();
        if found.len() == count {
            return found;
        }
        assert!(asked.elapsed() < Duration::from_secs(30), "{count} stages did not start: {found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nothing of the processes is left but what nobody has waited for.
#[cfg(target_os = "linux")]
pub(super) fn are_gone(processes: &[u32]) {
    let asked = Instant::now();
    let lives = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        status
            .rsplit(')')
            .next()
            .is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
    };
    while processes.iter().any(lives) {
        assert!(asked.elapsed() < Duration::from_secs(20), "stages are left: {processes:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A generation that goes on, in two processes, and its first words.
#[cfg(target_os = "linux")]
fn generating(home: &Path, model: &str) -> (Child, Vec<u32>) {
    let mut arguments = endless("run", model);
    arguments.extend(["hello", "--stage-processes", "2", "--stage-deadline", "2", "--no-stage-restart"]);
    let mut child = start(home, &arguments);
    let stages = stages_of(child.id(), 2);
    let mut first = [0; 16];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    (child, stages)
}

#[cfg(target_os = "linux")]
pub(super) fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Reads what is printed, so that nothing waits for room.
#[cfg(target_os = "linux")]
pub(super) fn drain(child: &mut Child) {
    let mut out = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        drop(out.read_to_end(&mut all));
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_stage_that_is_killed_or_stopped_is_named_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    for (name, stage, words) in [
        ("KILL", 0, "gone"),
        ("KILL", 1, "gone"),
        ("STOP", 0, "stage 0 (layer 0): has not answered for 2 s"),
        ("STOP", 1, "has not answered for 2 s"),
    ] {
        let (mut child, stages) = generating(home.path(), &model);
        drain(&mut child);
        signal(name, stages[stage]);
        let code = ended(&mut child);
        let text = said(&mut child);
        let words = words.replace("stage 0 (layer 0): ", "stage 0");
        assert_eq!(code, Some(1), "{name} of stage {stage}: {text}");
        assert!(
            text.contains(&words) || text.contains("has not answered for 2 s"),
            "{name} of stage {stage}: {text}"
        );
        assert!(text.contains(&format!("stage {stage}")), "{name} of stage {stage}: {text}");
        are_gone(&stages);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn stages_end_with_the_process_that_started_them() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    for (name, code) in [("INT", Some(130)), ("KILL", None)] {
        let (mut child, stages) = generating(home.path(), &model);
        drain(&mut child);
        signal(name, child.id());
        assert_eq!(ended(&mut child), code, "{name}");
        are_gone(&stages);
    }
}

/// Bytes of a file that are in a process's memory.
#[cfg(target_os = "linux")]
fn resident(process: u32, file: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default();
    let (mut inside, mut bytes) = (false, 0);
    for line in text.lines() {
        let head = line.split_whitespace().next().unwrap_or_default();
        if !head.ends_with(':') {
            inside = line.ends_with(file);
        } else if inside && head == "Rss:" {
            bytes += 1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
        }
    }
    bytes
}

/// Each stage has the pages of its own layers in memory, and no more.
#[cfg(target_os = "linux")]
#[test]
fn a_stage_reads_the_weights_of_its_layers_only() {
    let home = tempfile::tempdir().unwrap();
    let model = home.path().join("made.gguf");
    let path = model.to_str().unwrap();
    let shape = ["block_count=8", "embedding_length=256", "feed_forward_length=1024", "vocab_size=512"];
    let mut arguments = vec!["synth", "llama", path, "--quant", "Q8_0", "--shape", "llama-3.2-1b"];
    arguments.extend(shape.iter().flat_map(|key| ["--shape", key]));
    menagerie(home.path(), &arguments).good();
    let bytes = std::fs::metadata(&model).unwrap().len();
    assert!(bytes > 4_000_000, "{bytes}");
    let mut child = start(
        home.path(),
        &[
            "bench",
            path,
            "-p",
            "0",
            "-n",
            "20000",
            "-r",
            "1",
            "-c",
            "20100",
            "-t",
            "1",
            "--stage-processes",
            "3",
            "--no-stage-probe",
        ],
    );
    let stages = stages_of(child.id(), 3);
    let asked = Instant::now();
    let found = loop {
        let found: Vec<u64> = stages.iter().map(|stage| resident(*stage, path)).collect();
        if found.iter().sum::<u64>() > bytes * 9 / 10 && found.iter().all(|own| *own > bytes / 5) {
            break found;
        }
        assert!(asked.elapsed() < Duration::from_secs(60), "{found:?} of {bytes}");
        std::thread::sleep(Duration::from_millis(50));
    };
    std::thread::sleep(Duration::from_millis(500));
    let later: Vec<u64> = stages.iter().map(|stage| resident(*stage, path)).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    are_gone(&stages);
    // A third and what the system reads around pages that are wanted.
    assert!(later.iter().all(|own| *own < bytes / 2), "{found:?}, later {later:?} of {bytes}");
}

/// The times that stages in processes report: the first one computes a chunk while the second has the one before it. Where others
/// leave these processes one core for a while nothing overlaps: it is tried several times.
#[test]
fn chunks_of_a_prompt_overlap_in_processes() {
    let mut tried = (0..10).map(|_| overlapping_chunks());
    assert!(tried.any(|overlapping| overlapping >= 5), "5 of 60 chunks never overlap");
}

/// How many of sixty chunks overlap: a first run and two that are measured.
fn overlapping_chunks() -> usize {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args([
        "bench",
        &model,
        "-p",
        "400",
        "-n",
        "1",
        "-r",
        "2",
        "--chunk",
        "20",
        "-t",
        "1",
        "--stage-processes",
        "2",
    ]);
    command.current_dir(home.path()).env_clear().env("HOME", home.path()).env("HF_HUB_OFFLINE", "1");
    let output = command.env("RUST_LOG", "menagerie_stages=debug").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let number = |line: &str, name: &str| -> u64 {
        let value = line.split(&format!(" {name}=")).nth(1).unwrap_or_else(|| panic!("{name} in {line}"));
        value.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut times = std::collections::BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("stage computed")) {
        times.insert(
            (number(line, "stage"), number(line, "step")),
            (number(line, "began"), number(line, "ended")),
        );
    }
    let overlaps = |(stage, step): &(u64, u64)| {
        let next = (*stage == 0).then(|| times.get(&(0, step + 1))).flatten();
        let last = times.get(&(1, *step));
        next.zip(last).is_some_and(|(next, last)| next.0 < last.1 && last.0 < next.1)
    };
    times.keys().filter(|key| overlaps(key)).count()
}
