//! Hooks of a program of one's own over stages in processes: copies, what cannot be copied, what is lost with a stage.
#![cfg(target_os = "linux")]

use super::fixture;
use ::menagerie::engine::{Capture, CaptureOptions, PipelineHooks, TextPipeline};
use ::menagerie::measure::{ControlVectorOption, LogitsOptions, SteeringOptions, logits, steering};
use ::menagerie::model::{HookRecipe, LayerHook, SerializableHook};
use ::menagerie::open::{LoadOptions, LoadedModel, ModelBuilder, StageLauncher, StageOptions, StageStart};
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

const TOKENS: [u32; 12] = [3, 14, 15, 9, 26, 5, 35, 8, 97, 93, 2, 38];

fn in_fours() -> LogitsOptions {
    LogitsOptions::default().with_chunk(4).with_decode_from(9)
}

fn model() -> PathBuf {
    fixture("base/llama/model-f32.gguf").canonicalize().unwrap()
}

/// The model in two processes whose environment has `mark`, or in one piece.
fn opened(mark: Option<&'static str>, more: &'static [&'static str]) -> LoadedModel<TextPipeline> {
    let launch = move |mark: &'static str| {
        StageLauncher(Arc::new(move |start: &StageStart| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
            let model = model();
            command.args(["logits", model.to_str().unwrap(), "--tokens", "1", "--out", "x", "-t", "1"]);
            command.args(more).env("MENAGERIE_STAGE_START", serde_json::to_string(start).unwrap());
            command.env("TEST_MARK", mark);
            Ok(command)
        }))
    };
    let load = LoadOptions::default()
        .with_threads(1)
        .with_mmap(!more.contains(&"--no-mmap"))
        .with_stages(mark.map(|mark| StageOptions::count(2).in_processes(launch(mark))));
    ModelBuilder::new(model()).with_options(&load).open_text().unwrap_or_else(|error| panic!("{error}"))
}

/// Processes whose environment has a mark.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("TEST_MARK={mark}");
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let has = |process: &u32| {
        let bytes = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(number).filter(has).collect()
}

fn bits(pipeline: &TextPipeline) -> Result<Vec<u32>, String> {
    let made = logits(pipeline, &TOKENS, &in_fours()).map_err(|error| error.to_string())?;
    Ok(made.values.iter().map(|value| value.to_bits()).collect())
}

/// A hook that cannot be copied, or that says it is of a kind that nobody knows.
struct Looking(Option<&'static str>);

impl LayerHook for Looking {
    fn name(&self) -> &str {
        "test/looking"
    }

    fn layers(&self) -> Range<usize> {
        1..2
    }

    fn serializable(&self) -> Option<&dyn SerializableHook> {
        self.0.is_some().then_some(self)
    }
}

impl SerializableHook for Looking {
    fn recipe(&self) -> HookRecipe {
        HookRecipe { kind: self.0.unwrap().to_owned(), content: vec![1] }
    }
}

#[test]
fn hooks_that_cannot_be_copied_are_refused_by_name() {
    let (one, mut split) = (opened(None, &[]), opened(Some("refused"), &[]));
    for (kind, words) in [
        (None, &["\"test/looking\" works only in this process", "--stages"][..]),
        (
            Some("test/none"),
            &["stage 0", "does not know hooks of kind `test/none`", "capture, control vector"],
        ),
        (Some("capture"), &["stage 0", "hook `capture`: ", "expected value"]),
        (Some("control vector"), &["stage 0", "expected directions of 64 numbers, found 1 bytes"]),
    ] {
        split.add_hook(Arc::new(Looking(kind)));
        let error = bits(&split).unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{kind:?}: {error}");
        *split.hooks_mut() = PipelineHooks::default();
        assert!(bits(&split) == bits(&one), "{kind:?}");
    }
}

/// Directions and captures are added and taken away while the stages run.
#[test]
fn hooks_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let steered = |pipeline: &mut LoadedModel<TextPipeline>, name: &str, scale| {
        let given = ControlVectorOption { path: fixture("control").join(name), scale };
        let steering = steering(pipeline, &[given], &SteeringOptions::default()).unwrap();
        *pipeline.hooks_mut() = PipelineHooks::default();
        pipeline.add_hook(Arc::new(steering));
        let capture = Arc::new(Capture::new(folder.path(), CaptureOptions::default(), 3).unwrap());
        pipeline.add_hook(Arc::clone(&capture) as _);
        let bits = bits(pipeline).unwrap();
        let mut out = Vec::new();
        for _ in 0..2 {
            // The second time nothing is new, and nothing is lost.
            pipeline.settle().unwrap();
            out.clear();
            capture.write(&TOKENS, &mut out).unwrap();
        }
        (bits, out)
    };
    let (mut one, mut split) = (opened(None, &[]), opened(Some("come-and-go"), &[]));
    let bare = bits(&one).unwrap();
    for (name, scale) in [("a.gguf", 1.0), ("b.gguf", -0.5), ("a.gguf", 0.25), ("a.gguf", 1.0)] {
        let wanted = steered(&mut one, name, scale);
        assert!(wanted.0 != bare && wanted == steered(&mut split, name, scale), "{name} {scale}");
    }
    *split.hooks_mut() = PipelineHooks::default();
    assert!(bits(&split).unwrap() == bare);
}

#[test]
fn what_a_stage_kept_is_lost_with_it_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut split = opened(Some("killed"), &[]);
    let capture = Arc::new(Capture::new(folder.path(), CaptureOptions::default(), 3).unwrap());
    split.add_hook(Arc::clone(&capture) as _);
    bits(&split).unwrap();
    let stages = marked("killed");
    assert_eq!(stages.len(), 2);
    let kill = format!("kill -KILL {}", stages[1]);
    assert!(Command::new("/bin/sh").args(["-c", &kill]).status().unwrap().success());
    let error = split.settle().unwrap_err().to_string();
    assert!(error.contains("stage") && error.contains("gone"), "{error}");
    let nothing = capture.write(&TOKENS, &mut Vec::new()).unwrap_err().to_string();
    assert!(nothing.contains("nothing was captured"), "{nothing}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// With `--no-mmap` a stage has what its layers need in memory, and the file is no part of it any more.
#[test]
fn a_file_that_was_read_is_not_mapped() {
    let file = model();
    let maps = |mark: &str| {
        let stages = marked(mark);
        assert_eq!(stages.len(), 2);
        let is_mapped = |stage: &u32| {
            let text = std::fs::read_to_string(format!("/proc/{stage}/maps")).unwrap();
            text.contains(file.to_str().unwrap())
        };
        stages.iter().filter(|stage| is_mapped(stage)).count()
    };
    let (mapped, read) = (opened(Some("mapped"), &[]), opened(Some("read"), &["--no-mmap"]));
    assert!(bits(&mapped) == bits(&read));
    assert_eq!((maps("mapped"), maps("read")), (2, 0));
}
