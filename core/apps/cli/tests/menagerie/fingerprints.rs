//! A model whose norms alone were changed is another model: for `--state`, for `batch` and for stages.

#[cfg(target_os = "linux")]
use super::stage_agreement;
use super::{Changed, batches, menagerie};
use gguf_file::{GgufFile, OpenOptions};
use serde_json::json;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file of some 20 MB: the tensors of a small model, each at the beginning of a MiB.
fn large_model(folder: &Path) -> PathBuf {
    let path = Changed::of("base/llama/model-f32.gguf").set("general.alignment", 1u32 << 20).write(folder);
    let large = folder.join("large.gguf");
    std::fs::rename(path, &large).unwrap();
    assert!(large.metadata().unwrap().len() > 15 << 20);
    large
}

/// The ranges that an even sampling of the file sees: 512 of 4096 bytes, as fingerprints were made before.
fn evenly_sampled(size: u64) -> Vec<Range<u64>> {
    let start = |sample: u64| (size - 4096) * sample / 511;
    (0..512).map(|sample| start(sample)..start(sample) + 4096).collect()
}

/// A copy of a model with every norm that an even sampling misses multiplied by 1.6.
fn with_other_norms(model: &Path) -> PathBuf {
    let file = GgufFile::open(model, &OpenOptions::default().with_mmap(false)).unwrap();
    let mut bytes = std::fs::read(model).unwrap();
    let sampled = evenly_sampled(bytes.len() as u64);
    let norms: Vec<Range<u64>> = file
        .tensors()
        .iter()
        .filter(|tensor| tensor.name().ends_with("norm.weight"))
        .map(|tensor| tensor.offset()..tensor.offset() + tensor.bytes())
        .collect();
    let is_missed =
        |norm: &&Range<u64>| sampled.iter().all(|seen| seen.end <= norm.start || norm.end <= seen.start);
    let missed: Vec<&Range<u64>> = norms.iter().filter(is_missed).collect();
    assert!(2 * missed.len() > norms.len(), "{} of {}", missed.len(), norms.len());
    for norm in missed {
        for value in bytes[norm.start as usize..norm.end as usize].as_chunks_mut::<4>().0 {
            *value = (1.6 * f32::from_le_bytes(*value)).to_le_bytes();
        }
    }
    let other = model.with_file_name("other.gguf");
    std::fs::write(&other, bytes).unwrap();
    other
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_state_is_not_continued_with_other_norms() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = large_model(home);
    let other = with_other_norms(&model);
    let run = |model: &Path| {
        let prompt = "The keeper counted every animal twice before the gates were opened.";
        menagerie(
            home,
            &["run", text(model), prompt, "--raw", "--temp", "0", "-n", "4", "--state", "a.state"],
        )
    };
    run(&model).good();
    let before = std::fs::read(home.join("a.state")).unwrap();
    run(&other).fails_with(&["a.state", "the model's weights have changed"]);
    assert_eq!(std::fs::read(home.join("a.state")).unwrap(), before);
    run(&model).good();
}

#[test]
fn a_batch_is_not_continued_with_other_norms() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = large_model(home);
    let other = with_other_norms(&model);
    let lines = ["one", "two"].map(|id| json!({ "custom_id": id, "prompt": "The keeper counted" }));
    batches::write(home, "in.jsonl", &lines[..1]);
    batches::batch(home, text(&model), &["--raw"]).good();
    batches::write(home, "in.jsonl", &lines);
    batches::batch(home, text(&other), &["--raw"])
        .fails_with(&["made with another model or options: weights was \"v3:"]);
    batches::batch(home, text(&model), &["--raw"]).good();
    assert_eq!(batches::results(home, "out.jsonl").len(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_stage_with_other_norms_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = large_model(home);
    let other = with_other_norms(&model);
    let with = |stage: &Path| {
        stage_agreement::opened(home, &model, stage_agreement::stage_of(text(stage), &[])).map(drop)
    };
    with(&model).unwrap();
    let said = with(&other).unwrap_err();
    assert!(said.contains("weights: found") && said.contains("as in the stages before it"), "{said}");
}
