//! Heads for further tokens (multi-token prediction): their logits against formulas of vLLM and llama.cpp in float64
//! (`reference/make_heads.py`), and answers with their guesses, which are those without.

use menagerie::engine::{
    Arithmetic, DraftPace, DraftSource, Event, KvType, ModelHead, Outcome, Queue, Request, SamplingOptions,
    Scheduler, SchedulerOptions, Session, TextPipeline,
};
use menagerie::model::{
    HiddenRows, InferenceStep, RopeRegime, Rows, SequenceId, SequenceLayout, SequenceRows, StatePool,
    StepInput, TransformContext,
};
use menagerie::open::{LoadedModel, ModelBuilder};
use menagerie_conformance::suite::hf_folder;
use menagerie_conformance::suite::zoo::model_file;
use menagerie_conformance::{Reference, distance, fixtures, options};
use std::sync::Arc;

/// As the zoo's; the largest distance measured is 3e-5.
const TOLERANCE: f32 = 1e-4;

fn open(name: &str, nextn: bool, kv_type: KvType) -> LoadedModel<TextPipeline> {
    let file = model_file(&fixtures().join("heads").join(name));
    let options = options(Arithmetic::Fast).with_kv_type(kv_type).with_context(256).with_nextn(nextn);
    ModelBuilder::new(file).with_options(&options).open_text().unwrap()
}

fn reference(name: &str) -> Reference {
    Reference::open(&fixtures().join("heads").join(name).join("reference.safetensors"))
}

/// One sequence, whose steps a test makes itself.
struct Steps<'a> {
    pipeline: &'a LoadedModel<TextPipeline>,
    pool: StatePool,
    sequence: SequenceId,
    /// What each head reads at the next token, `[heads * D]`.
    before: Option<Vec<f32>>,
    computed: usize,
}

impl<'a> Steps<'a> {
    fn new(pipeline: &'a LoadedModel<TextPipeline>) -> Self {
        let engine = pipeline.engine();
        let mut pool = engine.pool(engine.pool_options(1, 256)).unwrap();
        let sequence = pool.create().unwrap();
        Self { pipeline, pool, sequence, before: None, computed: 0 }
    }

    fn layout(&self, rows: usize) -> SequenceLayout {
        let step = InferenceStep::Decode { current_position: self.computed };
        let part = SequenceRows {
            sequence: self.sequence,
            rows: 0..rows,
            first_position: self.computed,
            step,
            regime: RopeRegime::Short,
            logits: rows - 1..rows,
            adapters: None,
        };
        SequenceLayout::new(vec![part]).unwrap()
    }

    /// A step of the model.
    fn feed(&mut self, tokens: &[u32]) {
        let (engine, layout) = (self.pipeline.engine(), self.layout(tokens.len()));
        let mut kept = HiddenRows { before: vec![self.before.take()], after: Vec::new() };
        let mut context =
            TransformContext::new(&engine.compute, &layout, StepInput::Tokens(tokens), &mut self.pool);
        context.hidden_rows = Some(&mut kept);
        engine.model.execute(&mut context).unwrap();
        drop(context);
        let last = |rows: &Rows| {
            let values = self.values(rows);
            values[values.len() - engine.model.shape().embedding_length..].to_vec()
        };
        self.before = Some(kept.after.iter().flat_map(last).collect());
        self.pool.advance(self.sequence, tokens.len()).unwrap();
        self.computed += tokens.len();
    }

    /// A head alone: its logits at the last of these tokens, and its rows.
    fn head(&mut self, number: usize, tokens: &[u32], before: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (engine, layout) = (self.pipeline.engine(), self.layout(tokens.len()));
        let hidden = engine.compute.backend.upload(before.to_vec(), engine.model.shape().embedding_length);
        let mut context =
            TransformContext::new(&engine.compute, &layout, StepInput::Tokens(tokens), &mut self.pool);
        let made = engine.model.nextn().unwrap().predict(number, &hidden.unwrap(), &mut context).unwrap();
        drop(context);
        (self.values(&made.logits), self.values(&made.hidden))
    }

    fn values(&self, rows: &Rows) -> Vec<f32> {
        self.pipeline.engine().compute.backend.read(rows).unwrap().into_owned()
    }
}

fn likeliest(logits: &[f32]) -> u32 {
    let (id, _) = logits.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap();
    id as u32
}

/// The head at every token of the prompt, behind a prompt in chunks of several sizes, and once more with its own row, or the
/// heads after it.
fn head_agrees(name: &str) {
    agrees(name, &open(name, true, KvType::F32), &[1, 7, 40]);
}

fn agrees(name: &str, pipeline: &LoadedModel<TextPipeline>, chunks: &[usize]) {
    let reference = reference(name);
    let tokens = reference.ids("tokens");
    let model = &pipeline.engine().model;
    let (heads, width) = (model.nextn().unwrap().heads(), model.shape().embedding_length);
    let wanted = ["logits", "chained", "third"]
        .map(|name| if name == "third" && heads < 3 { Vec::new() } else { reference.values(name) });
    let wanted: Vec<Vec<f32>> = wanted.into_iter().filter(|values| !values.is_empty()).collect();
    let columns = wanted[0].len() / tokens.len();
    for &chunk in chunks {
        let mut steps = Steps::new(pipeline);
        while steps.computed < tokens.len() {
            let at = steps.computed;
            if let Some(before) = steps.before.clone() {
                let (mut text, mut read) = (vec![tokens[at]], before[..width].to_vec());
                for (number, logits) in wanted.iter().enumerate() {
                    let (found, own) = steps.head(number.min(heads - 1), &text, &read);
                    let expected = &logits[at * columns..(at + 1) * columns];
                    let far = distance(std::slice::from_ref(&found), expected);
                    assert!(far < TOLERANCE, "{name}: guess {number} after token {at}, chunk {chunk}: {far}");
                    text.push(likeliest(&found));
                    read = match before.get((number + 1) * width..(number + 2) * width) {
                        Some(first) => [first, &own].concat(),
                        None => [&read[..], &own[own.len() - width..]].concat(),
                    };
                }
            }
            let end = (at + chunk).min(tokens.len());
            steps.feed(&tokens[at..end]);
        }
    }
}

#[test]
fn the_head_of_a_model_with_latent_attention_agrees() {
    head_agrees("deepseek2-v3");
}

/// A Hugging Face folder with the same weights has the same states, and logits that are close.
#[test]
fn the_heads_of_folders_agree() {
    for name in ["glm4moe", "deepseek2-v3", "hy_v3", "qwen3next", "qwen35"] {
        let folder = fixtures().join("heads").join(name);
        let made = hf_folder::make(&folder, &model_file(&folder), &folder.join("hf/config.json"));
        let options = options(Arithmetic::Fast).with_kv_type(KvType::F32).with_context(256).with_nextn(true);
        let pipeline = ModelBuilder::new(made.path()).with_options(&options).open_text().unwrap();
        agrees(name, &pipeline, &[7]);
    }
}

#[test]
fn a_head_with_an_embedding_and_a_matrix_of_its_own_agrees() {
    head_agrees("glm4moe");
}

#[test]
fn the_heads_of_models_with_recurrent_layers_agree() {
    head_agrees("qwen3next");
    head_agrees("qwen35");
}

/// Behind a norm of its own block, and beside a model whose blocks have windows and no rope where its own has none and rope.
#[test]
fn the_heads_of_other_families_agree() {
    head_agrees("hy_v3");
    head_agrees("cohere2moe");
}

/// Three heads, each of which reads the rows of the one before it.
#[test]
fn several_heads_agree() {
    head_agrees("step35");
}

type Shown = (Vec<Event>, Outcome);

/// What a session shows and returns, without times and counts of guesses; and these counts.
fn answer(pipeline: &LoadedModel<TextPipeline>, prompt: &[u32], request: &Request) -> (Shown, [usize; 2]) {
    let scheduler = Scheduler::for_one(Arc::clone(pipeline.engine()), Vec::new()).unwrap();
    let mut session = Session::new(scheduler.with_draft_pace(DraftPace::Always), None).unwrap();
    let mut events = Vec::new();
    let mut outcome = session.generate(prompt, request, |event| events.push(event)).unwrap();
    let counts = [outcome.statistics.drafted_tokens, outcome.statistics.accepted_tokens];
    (outcome.statistics, outcome.seed) = Default::default();
    ((events, outcome), counts)
}

fn requests() -> Vec<(Vec<u32>, Request)> {
    let seeds = 0..9u32;
    let asked = seeds.map(|seed| {
        let sampling = match seed % 3 {
            0 => SamplingOptions::greedy(),
            1 => SamplingOptions::default().with_temperature(0.4).with_seed(u64::from(seed)),
            _ => SamplingOptions::default().with_repeat_penalty(1.2).with_seed(u64::from(seed)),
        };
        let prompt = (0..5 + seed * 3).map(|at| 5 + (at * at * 3 + at * seed + seed) % 250).collect();
        (prompt, Request::greedy(60).with_sampling(sampling).with_logprobs(2))
    });
    asked.collect()
}

fn with_head(request: &Request) -> Request {
    let source: Arc<dyn DraftSource> = Arc::new(ModelHead::default());
    request.clone().with_draft(source)
}

/// Tokens and log probabilities, bit for bit, with both types of cached keys.
#[test]
fn answers_are_the_same_with_the_guesses_of_a_head() {
    let mut sums = [0; 2];
    let half = ["glm4moe", "deepseek2-v3", "qwen3next", "qwen35", "hy_v3", "cohere2moe", "step35"];
    let kinds = [("glm4moe", KvType::F32), ("qwen3next", KvType::F32)];
    for (name, kv_type) in kinds.into_iter().chain(half.map(|name| (name, KvType::F16))) {
        let (plain, drafted) = (open(name, false, kv_type), open(name, true, kv_type));
        let count = if matches!(name, "glm4moe" | "qwen3next") { 9 } else { 4 };
        for (prompt, request) in requests().into_iter().take(count) {
            let (expected, none) = answer(&plain, &prompt, &request);
            assert_eq!(none, [0; 2]);
            let (found, [guesses, right]) = answer(&drafted, &prompt, &with_head(&request));
            assert_eq!(expected, found, "{name} {kv_type:?} {prompt:?}");
            assert_eq!(
                answer(&drafted, &prompt, &request).0,
                expected,
                "{name}: the head is loaded and not used"
            );
            sums = [sums[0] + guesses, sums[1] + right];
        }
    }
    assert!(sums[0] > 5000 && sums[1] > 20, "{sums:?}");
}

/// A hundred seeds and five samplers, with a recurrent state that goes back after wrong guesses.
#[test]
fn a_hundred_seeds_of_a_recurrent_model_answer_as_without_guesses() {
    let (plain, drafted) = (open("qwen3next", false, KvType::F16), open("qwen3next", true, KvType::F16));
    let usual = SamplingOptions::default;
    let samplers = [
        SamplingOptions::greedy(),
        usual(),
        usual().with_temperature(0.3),
        usual().with_repeat_penalty(1.3).with_presence_penalty(0.4),
        usual().with_top_k(0).with_top_p(1.0).with_min_p(0.0).with_dry_multiplier(0.8),
    ];
    let mut sums = [0; 2];
    for seed in 0..100u32 {
        let prompt: Vec<u32> = (0..4 + seed % 5).map(|at| 5 + (at * 37 + seed * 11) % 250).collect();
        let sampling = samplers[seed as usize % 5].clone().with_seed(u64::from(seed));
        let request = Request::greedy(14).with_sampling(sampling).with_logprobs(1);
        let (expected, _) = answer(&plain, &prompt, &request);
        let (found, counts) = answer(&drafted, &prompt, &with_head(&request));
        assert_eq!(expected, found, "{seed}");
        sums = [sums[0] + counts[0], sums[1] + counts[1]];
    }
    assert!(sums[0] > 1000 && sums[1] > 5, "{sums:?}");
}

/// Several requests in the same steps, some of which draft; with prefixes that requests share, and a small pool.
#[test]
fn answers_that_share_steps_are_the_same_with_the_guesses_of_a_head() {
    ["glm4moe", "qwen3next", "step35"].into_iter().for_each(answers_that_share_steps_are_the_same);
}

fn answers_that_share_steps_are_the_same(name: &str) {
    let (plain, drafted) = (open(name, false, KvType::F16), open(name, true, KvType::F16));
    let asked = requests();
    let expected: Vec<Shown> =
        asked.iter().map(|(prompt, request)| answer(&plain, prompt, request).0).collect();
    for (sequences, capacity) in [(4, 1024), (3, 200)] {
        let sizes = SchedulerOptions::default().with_sequences(sequences).with_capacity_tokens(capacity);
        let scheduler = Scheduler::new(Arc::clone(drafted.engine()), Vec::new(), sizes).unwrap();
        let mut queue = Queue::new(scheduler.with_draft_pace(DraftPace::Always), None);
        let mut ids = Vec::new();
        for (at, (prompt, request)) in asked.iter().enumerate() {
            let request = if at % 4 == 3 { request.clone() } else { with_head(request) };
            ids.push(queue.submit(prompt, &request));
        }
        let mut ended = Vec::new();
        while ended.len() < ids.len() {
            ended.extend(queue.step(|_, _| {}));
        }
        for (id, result) in ended {
            let at = ids.iter().position(|own| *own == id).unwrap();
            assert_eq!(result.unwrap().tokens, expected[at].1.tokens, "{name}: request {at}");
        }
        assert!(queue.scheduler().counts().drafted > 300, "{:?}", queue.scheduler().counts());
    }
}

/// A session that goes on, and one that goes back, has the head's states at the right tokens.
#[test]
fn a_conversation_is_the_same_with_the_guesses_of_a_head() {
    let answers = |name: &str, nextn: bool| -> Vec<Vec<u32>> {
        let pipeline = open(name, nextn, KvType::F16);
        let scheduler = Scheduler::for_one(Arc::clone(pipeline.engine()), Vec::new()).unwrap();
        let mut session = Session::new(scheduler.with_draft_pace(DraftPace::Always), None).unwrap();
        let mut text: Vec<u32> = vec![9, 30, 200, 17];
        let mut answers = Vec::new();
        for (turn, cut) in [0, 0, 9, 0, 20].into_iter().enumerate() {
            text.truncate(text.len() - cut.min(text.len() - 1));
            text.extend([40 + turn as u32, 7]);
            let request = Request::greedy(25);
            let request = if nextn { with_head(&request) } else { request };
            let outcome = session.generate(&text, &request, |_| {}).unwrap();
            text.extend(&outcome.tokens);
            answers.push(outcome.tokens);
        }
        answers
    };
    for name in ["glm4moe", "qwen3next", "step35"] {
        assert_eq!(answers(name, false), answers(name, true), "{name}");
    }
}

/// As many guesses as the measured times make worthwhile, which differ from run to run.
#[test]
fn answers_are_the_same_at_any_pace() {
    for name in ["deepseek2-v3", "qwen35"] {
        let (plain, drafted) = (open(name, false, KvType::F16), open(name, true, KvType::F16));
        for (prompt, request) in requests().into_iter().take(3) {
            let tokens = |pipeline: &LoadedModel<TextPipeline>, request: &Request| {
                pipeline.session().unwrap().generate(&prompt, request, |_| {}).unwrap().tokens
            };
            assert_eq!(tokens(&drafted, &with_head(&request)), tokens(&plain, &request), "{name}");
        }
    }
}

#[test]
fn a_head_that_is_not_there_is_refused() {
    let refused = |path: std::path::PathBuf| {
        let options = options(Arithmetic::Fast).with_nextn(true);
        let error = ModelBuilder::new(path).with_options(&options).open_text().err().unwrap();
        error.to_string()
    };
    let llama = refused(fixtures().join("base/llama/model-f32.gguf"));
    assert!(llama.contains("[nextn]") && llama.contains("--draft heads"), "{llama}");
    let glm = refused(fixtures().join("zoo/glm4moe/model-f16.gguf"));
    assert!(glm.contains("no head that predicts further tokens"), "{glm}");
    let plain = open("glm4moe", false, KvType::F16);
    let scheduler = Scheduler::for_one(Arc::clone(plain.engine()), Vec::new()).unwrap();
    let mut session = Session::new(scheduler, None).unwrap();
    let error = session.generate(&[7, 8], &with_head(&Request::greedy(2)), |_| {}).unwrap_err();
    assert!(error.to_string().contains("not loaded"), "{error}");
}

/// Without the option the tensors of the head are neither claimed nor counted.
#[test]
fn the_tensors_of_a_head_are_used_only_on_request() {
    let states = |nextn| open("glm4moe", nextn, KvType::F16).engine().model.states().len();
    assert_eq!(states(true), states(false) + 2);
}
