//! Processes that are other stages than they should be: each is refused by name, and neither process nor socket is left.
#![cfg(target_os = "linux")]

use super::fixture;
use menagerie::engine::TextPipeline;
use menagerie::open::{
    LoadOptions, LoadedModel, ModelBuilder, StageLauncher, StageOptions, StageProbe, StageStart,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sockets that this process has open; other tests that have stages give theirs back too.
fn sockets() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|one| one.path().read_link().is_ok_and(|to| to.to_string_lossy().starts_with("socket:")))
        .count()
}

/// Processes whose environment has these words.
fn processes(words: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|one| one.path().join("environ"));
    let is_own = |path: &PathBuf| {
        let text = std::fs::read(path).unwrap_or_default();
        text.windows(words.len()).any(|part| part == words.as_bytes())
    };
    all.filter(is_own).collect()
}

/// Opens a model with stages that `command` starts.
pub(super) fn opened(
    home: &Path,
    model: &Path,
    command: impl Fn() -> Command + Send + Sync + 'static,
) -> Result<LoadedModel<TextPipeline>, String> {
    let home = home.to_owned();
    let launcher = move |start: &StageStart| {
        let mut command = command();
        command.env_clear().env("HOME", &home).env("HF_HUB_OFFLINE", "1");
        command.env("MENAGERIE_STAGE_START", serde_json::to_string(start).unwrap());
        Ok(command)
    };
    let stages = StageOptions::count(2).with_probe(StageProbe::Never);
    let stages = stages.in_processes(StageLauncher(Arc::new(launcher)));
    let options = LoadOptions::default().with_stages(stages).with_threads(1);
    let opened = ModelBuilder::new(model).with_options(&options).open_text();
    opened.map_err(|error| error.to_string())
}

/// The command line of a stage of another model.
pub(super) fn stage_of(model: &str, more: &[&str]) -> impl Fn() -> Command + Send + Sync + use<> {
    let usual = ["logits", model, "--tokens", "1", "--out", "x", "-t", "1", "--stage-processes", "2"];
    let arguments: Vec<String> = usual.iter().chain(more).map(|part| (*part).to_owned()).collect();
    move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(&arguments);
        command
    }
}

fn program(name: &'static str, arguments: &'static [&'static str]) -> impl Fn() -> Command + Send + Sync {
    move || {
        let mut command = Command::new(name);
        command.args(arguments);
        command
    }
}

/// A copy of the base model with one bit of one weight changed.
fn other_weights(home: &Path) -> String {
    let mut bytes = std::fs::read(fixture("base/llama/model-f32.gguf")).unwrap();
    let at = bytes.len() - 401;
    bytes[at] ^= 1;
    let path = home.join("other.gguf");
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn stages_of_another_model_are_refused_by_name_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let marker = format!("HOME={}", home.path().display());
    let before = sockets();
    let long = Duration::from_secs(120);
    let model = fixture("base/llama/model-f32.gguf").to_str().unwrap().to_owned();
    let phi2 = fixture("base/phi2/model-f32.gguf").to_str().unwrap().to_owned();
    let adapter = fixture("lora/llama/adapters/a0").to_str().unwrap().to_owned();
    let refused = |words: &[&str], what: Result<LoadedModel<TextPipeline>, String>| {
        let error = what.err().unwrap_or_else(|| panic!("opened, instead of {words:?}"));
        assert!(words.iter().all(|word| error.contains(word)), "{error}\ninstead of {words:?}");
    };
    let good = opened(home.path(), model.as_ref(), stage_of(&model, &[])).unwrap();
    assert_eq!(processes(&marker).len(), 2);
    drop(good);
    let others: [(&str, &[&str], &[&str]); 6] = [
        (
            &other_weights(home.path()),
            &[],
            &["stage 0 (layer", "weights: found ", "as in the stages before it; start all stages"],
        ),
        (&model, &["--set", "rope.freq_base=777"], &["stage 0 (layer", "spec: found "]),
        (&model, &["--exact"], &["stage 0 (layer", "arithmetic: found exact, expected fast"]),
        (&model, &["--lora", &adapter], &["stage 0 (layer", "adapters: found ", "a0 x 1"]),
        ("absent.gguf", &[], &["stage ", "(layer", "absent.gguf: No such file"]),
        (&phi2, &[], &["stage ", "(layer"]),
    ];
    for (other, more, words) in others {
        refused(words, opened(home.path(), model.as_ref(), stage_of(other, more)));
    }
    // What is no stage at all: gone at once, or of other words.
    let gone = ["stage ", "(layer", "is gone"];
    refused(&gone, opened(home.path(), model.as_ref(), program("/bin/sh", &["-c", "exit 3"])));
    let babble =
        "i=0; while [ $i -lt 99 ]; do echo words and words and words; i=$((i+1)); done; exec sleep 600";
    let arguments: &'static [&'static str] = Box::leak(Box::new(["-c", babble]));
    let words = ["stage 1 (layer", "are not a frame (wrong magic)"];
    refused(&words, opened(home.path(), model.as_ref(), program("/bin/sh", arguments)));
    let asked = Instant::now();
    while !processes(&marker).is_empty() || sockets() > before {
        assert!(asked.elapsed() < long, "left: {:?}, {} sockets", processes(&marker), sockets() - before);
        std::thread::sleep(Duration::from_millis(20));
    }
}
