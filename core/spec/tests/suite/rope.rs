//! Rope scaling: what the file says is applied as said, or refused by name.

use crate::model::{Fake, attention, built_in, minimal, parse, spec};
use menagerie_spec::ArchSpec;
use menagerie_spec::config::{RopeScaling, Rounding};

fn scaling(fake: &Fake, spec: &ArchSpec) -> RopeScaling {
    attention(&fake.config(spec), 0).rope.as_ref().unwrap().scaling.clone()
}

fn llama() -> ArchSpec {
    spec(&built_in(), "llama")
}

/// A spec that accepts what is said.
fn accepting(accept: &str) -> ArchSpec {
    let rope =
        "[mixer.rope]\nkind = \"rotary\"\npairs = \"halves\"\nbase = \"rope.freq_base | default(10000)\"\n";
    let scaling =
        if accept.is_empty() { String::new() } else { format!("scaling = {{ accept = [{accept}] }}\n") };
    parse(&minimal(&format!(
        "[mixer]\nkind = \"attention\"\n{rope}{scaling}[feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n"
    )))
    .unwrap()
}

fn yarn() -> Fake {
    Fake::small(2)
        .with("rope.scaling.type", "yarn")
        .with("rope.scaling.factor", 4.0)
        .with("rope.scaling.original_context_length", 32i64)
}

#[test]
fn nothing_said_is_no_scaling() {
    assert_eq!(scaling(&Fake::small(1), &llama()), RopeScaling::None);
    assert_eq!(scaling(&Fake::small(1).with("rope.scaling.type", "none"), &llama()), RopeScaling::None);
    assert_eq!(scaling(&Fake::small(1).with("rope.scaling.factor", 1.0), &llama()), RopeScaling::None);
    assert_eq!(scaling(&Fake::small(1).with("rope.scale_linear", 0.0), &llama()), RopeScaling::None);
    // llama.cpp: never scale if the type is none
    let said = Fake::small(1).with("rope.scaling.type", "none").with("rope.scaling.factor", 4.0);
    assert_eq!(scaling(&said, &llama()), RopeScaling::None);
}

#[test]
fn linear_by_name_by_factor_or_by_its_old_key() {
    let linear = RopeScaling::Linear { factor: 4.0 };
    let fake = Fake::small(1).with("rope.scaling.type", "linear").with("rope.scaling.factor", 4.0);
    assert_eq!(scaling(&fake, &llama()), linear);
    assert_eq!(scaling(&Fake::small(1).with("rope.scaling.factor", 4.0), &llama()), linear);
    assert_eq!(scaling(&Fake::small(1).with("rope.scale_linear", 4.0), &llama()), linear);
    let fake = Fake::small(1).with("rope.scaling.type", "linear").with("rope.scaling.factor", 1.0);
    assert_eq!(scaling(&fake, &llama()), RopeScaling::None);
}

#[test]
fn yarn_has_the_whole_magnitude() {
    let RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, magnitude, rounding } =
        scaling(&yarn(), &accepting("\"yarn\""))
    else {
        panic!()
    };
    assert_eq!(
        (factor, original_context, beta_fast, beta_slow, rounding),
        (4.0, 32.0, 32.0, 1.0, Rounding::WholeDims)
    );
    // transformers: get_mscale(factor) = 0.1 * ln(factor) + 1
    let mscale = (0.1 * 4f64.ln() + 1.0) as f32;
    assert_eq!(magnitude, mscale);
    // attn_factor multiplies it
    let fake = yarn().with("rope.scaling.attn_factor", 0.5);
    let RopeScaling::Yarn { magnitude, .. } = scaling(&fake, &llama()) else { panic!() };
    assert_eq!(magnitude, (0.5 * (0.1 * 4f64.ln() + 1.0)) as f32);
    // and the log multiplier divides it: get_mscale(factor, 1) / get_mscale(factor, a)
    let fake = yarn().with("rope.scaling.yarn_log_multiplier", 1.0);
    let RopeScaling::Yarn { magnitude, .. } = scaling(&fake, &llama()) else { panic!() };
    assert_eq!(magnitude, 1.0);
    // which a spec that says nothing about it does not read
    let found = fake.refused(&accepting("\"yarn\""));
    assert!(found.contains("key my.rope.scaling.yarn_log_multiplier\n  not read by spec my"), "{found}");
}

/// Where a spec says nothing about it, the magnitude is llama.cpp's: rope multiplies sine and cosine by
/// `attn_factor * (1 + 0.1 * ln(1 / freq_scale))`, and freq_scale is 1 / factor. ln 4 = 1.386294, ln 8 = 2.079442.
#[test]
fn attn_factor_multiplies_the_default_magnitude_of_yarn() {
    let spec = accepting("\"yarn\"");
    for (factor, attention, expected) in [
        (4.0, None, 1.138_629_4),
        (4.0, Some(1.3), 1.480_218_3),
        (8.0, Some(0.5), 0.603_972_1),
        (1.0, Some(1.3), 1.3),
    ] {
        let mut fake = yarn().with("rope.scaling.factor", factor);
        if let Some(attention) = attention {
            fake = fake.with("rope.scaling.attn_factor", attention);
        }
        let RopeScaling::Yarn { magnitude, .. } = scaling(&fake, &spec) else { panic!() };
        assert!((magnitude - expected).abs() < 1e-6, "{factor} {attention:?}: {magnitude}");
    }
}

#[test]
fn yarn_without_an_original_context_takes_the_trained_one() {
    let mut fake = yarn().with("context_length", 128i64);
    fake.keys.remove("rope.scaling.original_context_length");
    let RopeScaling::Yarn { original_context, .. } = scaling(&fake, &llama()) else { panic!() };
    assert_eq!(original_context, 128.0);
    fake.keys.remove("context_length");
    assert!(fake.refused(&llama()).contains("rope scaling `yarn` needs it"));
}

#[test]
fn yarn_keys_that_implementations_read_differently_must_agree_or_be_accepted() {
    let mscale = 0.1 * 4f64.ln() + 1.0;
    let spec = accepting("\"yarn\"");
    scaling(
        &yarn().with("rope.scaling.yarn_attn_factor", mscale).with("rope.scaling.yarn_ext_factor", 1.0),
        &spec,
    );
    let mut fake = yarn().with("rope.scaling.yarn_attn_factor", 1.0);
    let found = fake.refused(&spec);
    assert!(found.contains("llama.cpp ignores this key, transformers reads it"), "{found}");
    fake.accept = vec!["rope.scaling.yarn_attn_factor".into()];
    let report = fake.report(&spec).unwrap();
    assert_eq!(report.coverage.accepted_unread, ["rope.scaling.yarn_attn_factor"]);
}

#[test]
fn what_is_not_accepted_is_refused_with_key_and_value() {
    let found = yarn().refused(&accepting(""));
    let expected = "error: model.gguf: key my.rope.scaling.type (layers 0-1)\n  rope scaling `yarn` (my.rope.scaling.type = \"yarn\") is not accepted by spec my; accepted: none";
    assert!(found.starts_with(expected), "{found}");
    let found = Fake::small(1).with("rope.scaling.factor", 8.0).refused(&accepting("\"yarn\""));
    assert!(found.contains("rope scaling `linear` (my.rope.scaling.factor = 8) is not accepted by spec my; accepted: none, yarn"), "{found}");
    let found = Fake::small(1).with_role("rope_freqs").refused(&accepting("\"linear\""));
    assert!(found.contains("rope scaling `factors` (tensor rope_freqs) is not accepted"), "{found}");
    let found = Fake::small(1).with("rope.scaling.type", "yran").refused(&llama());
    assert!(found.contains("\"yran\" is not a supported rope scaling; the nearest is `yarn`"), "{found}");
    let found = Fake::small(1).with("rope.scaling.type", "dynamic").refused(&llama());
    assert!(found.contains("\"dynamic\" is not a supported rope scaling"), "{found}");
    // nor does it pass a spec that has no rope at all
    let found = yarn().refused(&parse(&minimal(crate::model::PLAIN)).unwrap());
    assert!(found.contains("the file has rope scaling `yarn`, and spec my has no rope"), "{found}");
}

#[test]
fn factor_tensors_say_it_without_a_key() {
    let factors = RopeScaling::Factors { role: "rope_freqs".into() };
    assert_eq!(scaling(&Fake::small(1).with_role("rope_freqs"), &llama()), factors);
    let fake = Fake::small(1)
        .with_role("rope_factors_long")
        .with_role("rope_factors_short")
        .with("rope.scaling.original_context_length", 4096i64)
        .with("rope.scaling.attn_factor", 1.19);
    let RopeScaling::LongRope { original_context, magnitude, .. } = scaling(&fake, &llama()) else {
        panic!()
    };
    assert_eq!((original_context, magnitude), (4096, 1.19));
    let named = fake.clone().with("rope.scaling.type", "longrope");
    assert!(matches!(scaling(&named, &llama()), RopeScaling::LongRope { .. }));
}

#[test]
fn two_scalings_at_once_or_half_of_one_are_refused() {
    let both = yarn().with_role("rope_freqs");
    assert!(both.refused(&llama()).contains("and the tensors of `factors`: two scalings at once"));
    let half = Fake::small(1).with_role("rope_factors_long");
    assert!(half.refused(&llama()).contains("tensor rope_factors_short"));
    let bare = Fake::small(1).with("rope.scaling.type", "longrope");
    assert!(bare.refused(&llama()).contains("lacks the tensors rope_factors_short and rope_factors_long"));
    let no_magnitude = Fake::small(1)
        .with_role("rope_factors_long")
        .with_role("rope_factors_short")
        .with("rope.scaling.original_context_length", 4096i64);
    assert!(no_magnitude.refused(&llama()).contains("key my.rope.scaling.attn_factor (layer 0)\n  missing"));
    let lost = Fake::small(1).with("rope.scaling.factor", 2.0).with("rope.scaling.attn_factor", 1.2);
    assert!(lost.refused(&llama()).contains("it has no effect with linear scaling and would be ignored"));
}

#[test]
fn llama3_from_numbers() {
    let fake = Fake::small(1)
        .with("rope.scaling.type", "llama3")
        .with("rope.scaling.factor", 8.0)
        .with("rope.scaling.low_freq_factor", 1.0)
        .with("rope.scaling.high_freq_factor", 4.0)
        .with("rope.scaling.original_context_length", 8192i64);
    let expected = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_context: 8192.0 };
    assert_eq!(scaling(&fake, &llama()), expected);
}

#[test]
fn windowed_layers_may_go_without() {
    let text = "[mixer]\nkind = \"attention\"\n[mixer.rope]\nkind = \"rotary\"\npairs = \"halves\"\nbase = 10000\n\
        scaling = { accept = [\"linear\"], when = \"layer == 1\" }\n[feed_forward]\nkind = \"none\"\n";
    let config = Fake::small(2).with("rope.scaling.factor", 8.0).config(&parse(&minimal(text)).unwrap());
    let scaled = |layer| attention(&config, layer).rope.as_ref().unwrap().scaling != RopeScaling::None;
    assert_eq!([0, 1].map(scaled), [false, true]);
    assert!(config.layers.iter().all(|layer| layer.feed_forward.is_none()));
}

#[test]
fn dims_must_be_even_and_fit_the_head() {
    for dims in [0i64, 7, 18] {
        let found = Fake::small(1).with("rope.dimension_count", dims).refused(&llama());
        assert!(found.contains("an even number up to 16"), "{dims}: {found}");
    }
}
