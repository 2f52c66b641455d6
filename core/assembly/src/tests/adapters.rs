//! A wrapper that acts on one of two sequences of a step: in attention, in experts and in the head.

use super::config::{softmax_of_two, tiny_config};
use super::whole_model;
use crate::formats::gguf_source::{GgufSource, PlainNames};
use crate::{AssembleOptions, assemble};
use gguf_file::GgufFile;
use menagerie_model::{
    Arithmetic, Compute, Executor, ExpertLinear, ExpertPlan, Linear, LinearInput, LinearSite, LinearWrapper,
    Packing, Product, Result, Rows, Scalings, TransformContext, WeightShape,
};
use menagerie_registry::{Components, Entries};
use menagerie_testkit::session::Feed;
use menagerie_testkit::{
    Session, SplitMix64, TinyModel, TinyShape, assert_equal_bits, cpu_backend, max_difference,
};
use std::sync::Arc;
use std::sync::Mutex;

/// Doubles what a linear gives to rows of sequences with an adapter set; with scalings, times the first adapter's.
struct Doubling<L> {
    inner: L,
    layer: Option<usize>,
}

impl<L> Doubling<L> {
    /// Factor of each row of `x`.
    fn factors(&self, origins: impl Iterator<Item = usize>, context: &TransformContext) -> Vec<f32> {
        let factor = |row: usize| {
            let adapted =
                context.layout.sequence_of(row).is_some_and(|sequence| sequence.adapters == Some(1));
            let scaling = context
                .scalings
                .zip(self.layer)
                .and_then(|(all, layer)| all.at(row, layer)?.first().copied());
            if adapted { 2.0 * scaling.unwrap_or(1.0) } else { 1.0 }
        };
        origins.map(factor).collect()
    }
}

impl Linear for Doubling<Box<dyn Linear>> {
    fn in_features(&self) -> usize {
        self.inner.in_features()
    }

    fn out_features(&self) -> usize {
        self.inner.out_features()
    }

    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows> {
        let factors = self.factors((0..x.rows().rows()).map(|row| x.origin(row)), context);
        context.compute.backend.scale_rows(self.inner.forward(x, context)?, &factors)
    }
}

impl ExpertLinear for Doubling<Box<dyn ExpertLinear>> {
    fn shape(&self) -> WeightShape {
        self.inner.shape()
    }

    fn forward(
        &self,
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        context: &TransformContext,
    ) -> Result<Rows> {
        let factors = self.factors(plan.tokens().iter().map(|token| *token as usize), context);
        context.compute.backend.scale_rows(self.inner.forward(x, plan, packing, context)?, &factors)
    }

    fn plain(&self) -> Option<Product<'_>> {
        None
    }
}

/// Wraps the linears of one role, and notes every site it was asked about.
struct Wrap {
    role: &'static str,
    sites: Mutex<Vec<LinearSite>>,
}

impl LinearWrapper for Wrap {
    fn linear(&self, site: &LinearSite, inner: Box<dyn Linear>) -> Box<dyn Linear> {
        self.sites.lock().unwrap().push(site.clone());
        let layer = site.layer;
        if site.role == self.role { Box::new(Doubling { inner, layer }) } else { inner }
    }

    fn experts(&self, site: &LinearSite, inner: Box<dyn ExpertLinear>) -> Box<dyn ExpertLinear> {
        self.sites.lock().unwrap().push(site.clone());
        let layer = site.layer;
        if site.role == self.role { Box::new(Doubling { inner, layer }) } else { inner }
    }
}

/// A mixture of five experts in every layer, and a tied head.
fn mixture() -> (TinyModel, menagerie_spec::ModelConfig) {
    let mut model = TinyModel::new(TinyShape::default(), 7);
    let mut config = tiny_config(&model);
    let (width, inner, experts) = (model.shape.width, 8, 5);
    let mut random = SplitMix64::new(21);
    model.tensors.remove("output.weight");
    for layer in &mut config.layers {
        let name = |role: &str| format!("blk.{}.{role}.weight", layer.index);
        for role in ["ffn_gate", "ffn_up", "ffn_down"] {
            model.tensors.remove(&name(role));
        }
        let mut insert = |role: &str, dims: Vec<usize>| {
            let values = random.values(dims.iter().product(), 0.0, 0.4);
            model.tensors.insert(name(role), (dims, values));
        };
        insert("ffn_gate_inp", vec![width, experts]);
        insert("ffn_gate_exps", vec![width, inner, experts]);
        insert("ffn_up_exps", vec![width, inner, experts]);
        insert("ffn_down_exps", vec![inner, width, experts]);
        layer.feed_forward = Some(softmax_of_two().into());
    }
    (model, config)
}

fn assembled(wrapper: Option<&dyn LinearWrapper>) -> Box<dyn Executor> {
    let (model, config) = mixture();
    let file = GgufFile::from_bytes("tiny.gguf", model.to_gguf().unwrap()).unwrap();
    let compute = Compute::new(cpu_backend(1).unwrap(), Arithmetic::Exact);
    let components = Components::of(&Entries::linked().unwrap()).unwrap();
    let mut options = AssembleOptions::whole(&compute, &components);
    options.wrapper = wrapper;
    let assembly = assemble(&config, &GgufSource::new(Arc::new(file), PlainNames), &options);
    Box::new(whole_model(assembly.unwrap_or_else(|error| panic!("{error}"))))
}

/// Logits of the last token of each of two sequences of five, in one step; the head sees selected rows only.
fn two(model: &dyn Executor, adapters: [Option<usize>; 2], scalings: Option<Scalings>) -> [Vec<f32>; 2] {
    let mut session = Session::exact(model, 1, 32, 8).unwrap();
    session.scalings = scalings;
    let ids = [session.states.create().unwrap(), session.states.create().unwrap()];
    let tokens = [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]];
    let feed = |at: usize| Feed { sequence: ids[at], tokens: &tokens[at], total: 5, adapters: adapters[at] };
    let mut rows = session.step(&[feed(0), feed(1)]).unwrap().into_iter();
    [rows.next().unwrap().concat(), rows.next().unwrap().concat()]
}

#[test]
fn an_adapter_set_acts_on_its_sequence_alone() {
    let plain = two(&*assembled(None), [None, None], None);
    for role in ["attn_q", "attn_output", "ffn_gate_inp", "ffn_up_exps", "ffn_down_exps", "token_embd"] {
        let wrapper = Wrap { role, sites: Mutex::default() };
        let model = assembled(Some(&wrapper));
        let unused = two(&*model, [None, None], None);
        let second = two(&*model, [None, Some(1)], None);
        let other_set = two(&*model, [None, Some(2)], None);
        assert_equal_bits(&format!("{role}: nobody"), &unused[1], &other_set[1]);
        assert_equal_bits(&format!("{role}: the other sequence"), &second[0], &unused[0]);
        assert!(max_difference(&second[1], &unused[1]) > 1e-3, "{role} was not adapted");
        assert!(
            max_difference(&unused[0], &plain[0]) < 1e-5,
            "{role}: a wrapper without a set changes nothing"
        );
        if role == "token_embd" {
            let doubled: Vec<f32> = unused[1].iter().map(|logit| logit * 2.0).collect();
            assert_equal_bits("head", &second[1], &doubled);
        }
    }
}

#[test]
fn scalings_reach_every_row_and_layer() {
    let wrapper = Wrap { role: "ffn_down_exps", sites: Mutex::default() };
    let model = assembled(Some(&wrapper));
    let half = Scalings { layers: 3, adapters: 1, values: vec![0.5; 10 * 3] };
    let plain = two(&*model, [None, None], None);
    let halved = two(&*model, [Some(1), Some(1)], Some(half));
    assert_equal_bits("twice a half", &halved[0], &plain[0]);
    let mut one = Scalings { layers: 3, adapters: 1, values: vec![0.5; 10 * 3] };
    // Row 7 is the third of the second sequence.
    one.values[7 * 3 + 1] = 1.0;
    let bumped = two(&*model, [Some(1), Some(1)], Some(one));
    assert_equal_bits("the first sequence", &bumped[0], &plain[0]);
    let width = bumped[1].len() / 5;
    assert_equal_bits("rows before it", &bumped[1][..2 * width], &plain[1][..2 * width]);
    assert!(max_difference(&bumped[1][2 * width..], &plain[1][2 * width..]) > 1e-4);
}

#[test]
fn every_linear_passes_the_wrapper_with_its_role_layer_and_rows() {
    let wrapper = Wrap { role: "none", sites: Mutex::default() };
    assembled(Some(&wrapper));
    let sites = wrapper.sites.lock().unwrap();
    let of_layer = |layer| sites.iter().filter(move |site| site.layer == layer).map(|site| &*site.role);
    let mut roles: Vec<&str> = of_layer(Some(1)).collect();
    roles.sort_unstable();
    let expected = [
        "attn_k",
        "attn_output",
        "attn_q",
        "attn_v",
        "ffn_down_exps",
        "ffn_gate_exps",
        "ffn_gate_inp",
        "ffn_up_exps",
    ];
    assert_eq!(roles, expected);
    assert_eq!(of_layer(None).collect::<Vec<_>>(), ["token_embd"]);
    assert!(sites.iter().all(|site| site.rows.start == 0 && !site.rows.is_empty()));
}
