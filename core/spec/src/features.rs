//! What a spec uses, in words of the language, for listings.

use crate::names::{ActivationName, RouterWeights};
use crate::spec::ArchSpec;
use crate::written::{Attention, BySource, Choice, FeedForward, Mixer, Name};

/// See [`ArchSpec::features`].
pub(crate) fn features(spec: &ArchSpec) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |text: String| {
        if !found.contains(&text) {
            found.push(text);
        }
    };
    for case in &spec.body.mixer.cases {
        match &case.component {
            Mixer::Attention(attention) => attention_features(attention, &mut add),
            Mixer::NotBuiltIn { kind, .. } => add(kind.to_string()),
            Mixer::None => {}
        }
    }
    for case in &spec.body.feed_forward.cases {
        match &case.component {
            FeedForward::Gated(dense) => add(format!("gated {}", name(&dense.activation))),
            FeedForward::Plain(dense) => add(format!("plain {}", name(&dense.activation))),
            FeedForward::Moe(moe) => {
                add(format!(
                    "experts {}",
                    moe.router.weights.as_ref().map_or("softmax-of-selected", name::<RouterWeights>)
                ));
                if moe.shared.is_some() {
                    add("shared expert".into());
                }
            }
            FeedForward::None => {}
        }
    }
    found
}

fn attention_features(attention: &Attention, add: &mut dyn FnMut(String)) {
    add("attention".into());
    let options = [
        (attention.qk_norm.is_some(), "qk-norm"),
        (attention.window.is_some(), "window"),
        (attention.temperature.is_some(), "temperature"),
        (attention.sinks.is_some(), "sinks"),
        (attention.softcap.is_some(), "softcap"),
    ];
    options.into_iter().filter(|(used, _)| *used).for_each(|(_, text)| add(text.into()));
    for rope in attention.rope.iter().flat_map(|ropes| &ropes.cases) {
        add("rope".into());
        for kind in rope.component.scaling.iter().flat_map(|scaling| &scaling.accept) {
            add(kind.name().to_string());
        }
    }
}

fn name<T>(place: &Name<T>) -> &'static str {
    match &place.value {
        Choice::Given(BySource::Same((name, _)) | BySource::Each { gguf: (name, _), .. }) => name,
        Choice::By { .. } => "by key",
    }
}

/// See [`ArchSpec::not_built_in`].
pub(crate) fn not_built_in(spec: &ArchSpec) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for case in &spec.body.mixer.cases {
        match &case.component {
            Mixer::NotBuiltIn { kind, .. } => found.push(format!("mixer kind `{kind}`")),
            Mixer::Attention(attention) => {
                found.extend(attention.not_built_in.iter().map(|fault| fault.subject.clone()))
            }
            Mixer::None => {}
        }
    }
    for case in &spec.body.feed_forward.cases {
        let activation = match &case.component {
            FeedForward::Gated(dense) | FeedForward::Plain(dense) => {
                found.extend(dense.not_built_in.iter().map(|fault| fault.subject.clone()));
                &dense.activation
            }
            FeedForward::Moe(moe) => &moe.experts.activation,
            FeedForward::None => continue,
        };
        if let Choice::Given(BySource::Same((_, ActivationName::NotBuiltIn(kind)))) = &activation.value {
            found.push(format!("activation `{kind}`"));
        }
    }
    found
}
