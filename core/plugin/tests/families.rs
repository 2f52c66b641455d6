//! One component of every family, run by the host for tests: its numbers, and the checks that every component must stand.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod components;

use components::*;
use menagerie_plugin::Point;
use menagerie_plugin::abi::{self, OptionDef};
use menagerie_plugin::testing::{self, Feed, RandomNumbers, Setup, check};

fn stands(component: &abi::Component, given: &Setup) {
    let outcomes = check(component, given);
    let faults: Vec<String> =
        outcomes.iter().filter(|outcome| outcome.fault.is_some()).map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(outcomes.len() >= 2, "{outcomes:?}");
}

#[test]
fn components_of_every_family_stand_the_checks() {
    let width = if cfg!(miri) { 4 } else { 24 };
    let given = Setup::new(width);
    stands(&testing::norm::<DynamicTanh>(), &given.clone().option("alpha", 0.7));
    stands(&testing::mixer::<Retention>(), &given);
    stands(
        &testing::mixer::<Retention>(),
        &given.clone().option("heads", 4usize).option("decay", "same").threads(1),
    );
    stands(&testing::mixer::<WindowMean>(), &given);
    stands(&testing::mixer::<Everywhere>(), &given);
    stands(&testing::mixer::<FirstValues>(), &given);
    stands(&testing::mixer::<FirstValues>(), &given.clone().layer(1, 2).slot_to_read("v_first"));
    stands(&testing::feed_forward::<Shifted>(), &given);
    stands(&testing::activation::<Softsign>(), &given);
    stands(&testing::rope::<Stretched>(), &given);
    stands(&testing::sampler::<TopNSigma>(), &given);
    stands(&testing::layer_replacer::<Halved>(), &given);
    stands(&testing::layer_replacer::<Halved>(), &given.clone().layer(1, 2).point(Point::Before));
    stands(&testing::layer_observer::<Counting>(), &given);
    let letters = ["a", "b", "ab", "Hello", ",", " ", "world", "!", "e", "l", "o"];
    let given = letters.iter().fold(given, |given, token| given.token(token, 1, 0.0));
    stands(&testing::tokenizer::<Longest>(), &given);
}

#[test]
fn options_and_roles_are_described_as_they_were_declared() {
    let component = testing::mixer::<Retention>();
    // SAFETY: the texts and lists of a component stay.
    let text = |text: abi::Text| unsafe { text.as_str() }.unwrap();
    // SAFETY: as above.
    let options = unsafe { std::slice::from_raw_parts(component.options, component.n_options) };
    let described: Vec<_> =
        options.iter().map(|o| (text(o.name), o.kind, o.guarded, text(o.default), text(o.key))).collect();
    assert_eq!(
        described,
        [
            ("heads", OptionDef::COUNT, 0, "2", "retention.heads"),
            ("left", OptionDef::REAL, 1, "0.75", ""),
            ("decay", OptionDef::NAME, 0, "\"stepped\"", ""),
        ]
    );
    assert_eq!(text(options[0].doc), "How many heads.");
    // SAFETY: as above.
    let names = unsafe { std::slice::from_raw_parts(options[2].names, options[2].n_names) };
    assert_eq!(names.iter().map(|name| text(*name)).collect::<Vec<_>>(), ["same", "stepped"]);
    // SAFETY: as above.
    let roles = unsafe { std::slice::from_raw_parts(component.roles, component.n_roles) };
    let forms: Vec<_> = roles.iter().map(|role| (text(role.name), role.form, role.optional)).collect();
    assert_eq!(forms, [("attn_q", 1, 0), ("attn_k", 2, 0), ("attn_v", 5, 0), ("attn_output", 1, 0)]);
    assert_eq!(component.flags, 0);
    assert_eq!(testing::mixer::<Everywhere>().flags, abi::Component::LOOKS_AHEAD);
}

/// Retention by its definition: `y_t = O sum_s decay^(t - s) (q_t . k_s) v_s`, in f64.
#[test]
fn retention_is_its_formula() {
    let (width, heads, rows) = (8, 2, 6);
    let mut numbers = RandomNumbers::new(5);
    let mut matrix = || numbers.reals(width * width, 0.5);
    let [q, k, v, o] = [matrix(), matrix(), matrix(), matrix()];
    let bias = numbers.reals(width, 0.5);
    let x = numbers.reals(rows * width, 1.0);
    let given = Setup::new(width).option("heads", heads).without("attn_v.bias");
    let given = given.tensor("attn_q.weight", q.clone()).tensor("attn_k.weight", k.clone());
    let given = given.tensor("attn_v.weight", v.clone()).tensor("attn_output.weight", o.clone());
    let given = given.tensor("attn_k.bias", bias.clone());
    let component = testing::mixer::<Retention>();
    let found = given.create(&component).unwrap().rows(&x).unwrap();

    let product = |matrix: &[f32], row: &[f64]| -> Vec<f64> {
        let line = |line: &[f32]| line.iter().zip(row).map(|(w, x)| f64::from(*w) * x).sum();
        matrix.chunks_exact(width).map(line).collect()
    };
    let x: Vec<Vec<f64>> =
        x.chunks_exact(width).map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect();
    let add = |mut row: Vec<f64>| {
        row.iter_mut().zip(&bias).for_each(|(x, bias)| *x += f64::from(*bias));
        row
    };
    let queries: Vec<_> = x.iter().map(|row| product(&q, row)).collect();
    let keys: Vec<_> = x.iter().map(|row| add(product(&k, row))).collect();
    let values: Vec<_> = x.iter().map(|row| product(&v, row)).collect();
    for (t, found) in found.chunks_exact(width).enumerate() {
        let mut mixed = vec![0.0; width];
        for (head, mixed) in mixed.chunks_exact_mut(width / heads).enumerate() {
            let columns = head * width / heads..(head + 1) * width / heads;
            for s in 0..=t {
                let decay = 0.75f64.powi((head + 1) as i32 * (t - s) as i32);
                let dot: f64 = columns.clone().map(|c| queries[t][c] * keys[s][c]).sum();
                mixed.iter_mut().zip(&values[s][columns.clone()]).for_each(|(y, v)| *y += decay * dot * v);
            }
        }
        for (found, wanted) in found.iter().zip(product(&o, &mixed)) {
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "{found} {wanted}");
        }
    }
}

#[test]
fn values_of_a_slot_are_those_of_the_layer_that_wrote_them() {
    let component = testing::mixer::<FirstValues>();
    let given = Setup::new(4);
    let mut first = given.create(&component).unwrap();
    let y = first.rows(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(first.slot("v_first"), Some(&y[..]));
    let mut later = given.layer(1, 2).slot_to_read("v_first").create(&component).unwrap();
    later.set_slot("v_first", vec![10.0; 4]);
    let z = later.rows(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(z, y.iter().map(|y| y + 10.0).collect::<Vec<_>>());
}

#[test]
fn a_window_forgets_what_lies_before_it() {
    let component = testing::mixer::<WindowMean>();
    let mut model = Setup::new(1).create(&component).unwrap();
    assert_eq!(model.rows(&[3.0, 6.0]).unwrap(), [3.0, 4.5]);
    let y = model.step(&[Feed::new(1, &[1.0]), Feed::new(0, &[9.0, 12.0])]).unwrap();
    assert_eq!(y, [1.0, 6.0, 9.0]);
}

#[test]
fn layer_hooks_know_where_they_are_and_whose_rows_they_see() {
    use abi::Component as Flag;
    let component = testing::layer_replacer::<Halved>();
    let both = Flag::BEFORE_LAYERS | Flag::AFTER_LAYERS | Flag::IN_PREFILL | Flag::IN_DECODE;
    assert_eq!((component.family, component.flags), (Flag::LAYER_HOOK, both | Flag::REPLACES));
    let given = Setup::new(1).layer(3, 5);
    let mut model = given.create(&component).unwrap();
    // A quarter of 53, and the place in the sequence.
    assert_eq!(model.rows(&[1.0, 2.0]).unwrap(), [13.25, 28.5]);
    assert_eq!(model.rows(&[1.0]).unwrap(), [15.25]);
    let mut before = given.point(Point::Before).create(&component).unwrap();
    assert_eq!(before.step(&[Feed::new(0, &[1.0]), Feed::new(7, &[2.0])]).unwrap(), [26.5, 53.0]);

    let component = testing::layer_observer::<Counting>();
    let flags = Flag::AFTER_LAYERS | Flag::IN_PREFILL | Flag::IN_DECODE;
    assert_eq!((component.flags, component.forward.is_none()), (flags, true));
    let mut model = Setup::new(1).create(&component).unwrap();
    let many = vec![0.5; 999];
    assert_eq!(model.step(&[Feed::new(5, &many), Feed::new(6, &many)]).unwrap().len(), 2 * 999);
    let error = model.step(&[Feed::new(5, &[1.0])]).unwrap_err().to_string();
    assert_eq!(error, "hook: SequenceId { pool: 0, number: 5 } has 1000 rows");
}

#[test]
fn samplers_and_tokenizers_are_asked_with_what_they_are_given() {
    let component = testing::sampler::<TopNSigma>();
    let model = Setup::new(1).create(&component).unwrap();
    let mut logits = [0.0, 1.0, 2.0, 10.0, 9.0];
    model.sample(&mut logits, &[1, 2], 1, 9).unwrap();
    // Mean 4.4, deviation 4.22: what is below 5.78 goes.
    let gone = f32::NEG_INFINITY;
    assert_eq!(logits, [gone, gone, gone, 10.0, 9.0]);

    let component = testing::tokenizer::<Longest>();
    let given = Setup::new(1).token("a", 1, 0.0).token("ab", 1, -1.5).token("b", 4, 0.0);
    let model = given.create(&component).unwrap();
    assert_eq!(model.encode("abba").unwrap(), [1, 2, 0]);
    assert_eq!(model.decode(1).unwrap(), b"ab");
    let error = model.encode("abc").unwrap_err().to_string();
    assert_eq!(error, "encode: no token begins \"c\"");

    let component = testing::rope::<Stretched>();
    let found = Setup::new(4).create(&component).unwrap().frequencies(100.0, 4096).unwrap();
    assert_eq!((found.values, found.magnitude), (vec![0.5, 0.05], 1.0));
}

#[test]
fn what_is_not_given_is_said() {
    let error = |component: &abi::Component, given: Setup| given.create(component).unwrap_err().to_string();
    let (norm, mixer) = (testing::norm::<DynamicTanh>(), testing::mixer::<Retention>());
    assert_eq!(error(&norm, Setup::new(4)), "option alpha has no value: set it with `Setup::option`");
    assert!(Setup::new(4).any_options().create(&norm).is_ok());
    let given = Setup::new(4).option("alpha", 1.0);
    assert_eq!(error(&norm, given.clone().option("beta", 1.0)), "the component has no option beta");
    assert_eq!(
        error(&norm, given.clone().tensor("x.weight", vec![])),
        "the component has no tensor x.weight"
    );
    let short = given.clone().tensor(".weight", vec![1.0]);
    assert_eq!(error(&norm, short), "tensor .weight: expected 4 numbers for [4], found 1");
    // Both faults are told, not the first one alone.
    let neither = given.without(".weight").without(".bias");
    assert_eq!(error(&norm, neither), "create: there is no tensor .weight; there is no tensor .bias");
    let odd = Setup::new(9).option("heads", 2usize);
    assert_eq!(error(&mixer, odd), "create: heads: 2 do not divide 9 columns");
    let wrong = Setup::new(8).option("decay", "sideways");
    assert_eq!(
        error(&mixer, wrong),
        "create: decay: expected one of [\"same\", \"stepped\"], found \"sideways\""
    );
}
