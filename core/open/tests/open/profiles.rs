//! A profile counts every norm of a model's blocks.

use crate::opening::options;
use menagerie_measure::{LogitsOptions, logits};
use menagerie_model::{Part, Trace};
use menagerie_open::ModelBuilder;
use menagerie_spec::config::{BranchConfig, BranchInput, LayerConfig};
use std::path::Path;
use std::sync::Arc;

/// Norms of a branch that a block has.
fn of_branch(branch: &BranchConfig) -> usize {
    let BranchConfig { pre, post, after, again, reads: _, scale: _ } = branch;
    [pre, post, after, again].into_iter().flatten().count()
}

/// Norms that a step passes in a block.
fn norms(layer: &LayerConfig) -> usize {
    let LayerConfig {
        mixer, mixer_branch, feed_forward, feed_forward_branch, beside, last, last_branch, ..
    } = layer;
    let branches = [(mixer, mixer_branch), (feed_forward, feed_forward_branch), (last, last_branch)];
    let there = branches.into_iter().filter(|(part, _)| part.is_some());
    let of_beside = beside.iter().flat_map(|one| [&one.pre, &one.post, &one.first_post]).flatten().count();
    let shared = feed_forward_branch.reads == BranchInput::BlockInput
        && mixer.is_some()
        && mixer_branch.pre.is_some()
        && mixer_branch.pre == feed_forward_branch.pre;
    let all = there.map(|(_, branch)| of_branch(branch)).sum::<usize>() + of_beside;
    all + usize::from(layer.loop_norm.is_some()) - usize::from(shared)
}

#[test]
fn every_norm_of_the_blocks_is_counted() {
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/zoo");
    // With norms beside the feed-forward, after a branch, between two runs of the blocks, shared by two branches.
    let (mut beside, mut after, mut between) = (0, 0, 0);
    for name in ["arctic", "command-r", "gemma4-moe", "grok", "grok-2", "hrm_text", "nanbeige", "talkie"] {
        let mut pipeline = ModelBuilder::new(zoo.join(name).join("model-f16.gguf"))
            .with_options(&options())
            .open_text()
            .unwrap();
        let trace = Arc::new(Trace::new(10_000));
        pipeline.hooks_mut().trace = Some(Arc::clone(&trace));
        logits(&pipeline, &[1, 2, 3], &LogitsOptions::default()).unwrap();
        let layers = &pipeline.config().layers;
        for (index, layer) in layers.iter().enumerate() {
            let sum = trace.sum(Part::Norm, Some(index as u32), false);
            assert_eq!(sum.count as usize, norms(layer), "{name}, layer {index}");
            let pair = layer.beside.as_ref();
            beside += usize::from(pair.is_some_and(|one| one.pre.is_some() || one.first_post.is_some()));
            after +=
                usize::from(layer.mixer_branch.after.is_some() || layer.feed_forward_branch.after.is_some());
            between += usize::from(layer.loop_norm.is_some());
        }
    }
    assert!(beside > 0 && between > 0, "{beside} {after} {between}");
}
