//! Opening real files: capabilities, defaults, memory, regimes, and files that vanish.

use menagerie_all as _;
use menagerie_engine::{
    Arithmetic, ChatMessage, EmbeddingOptions, GenerateError, KvType, MissingCapability, Normalization,
    RenderOptions, Request, SchedulerOptions, TextPipeline, Truncation,
};
use menagerie_measure::{LogitsOptions, logits};
use menagerie_model::{HookInput, LayerHook, Pooling, Rows};
use menagerie_open::{Device, LoadError, LoadOptions, LoadedModel, ModelBuilder, Notice, TemplateSource};
use safetensors::SafeTensors;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/base").join(name)
}

pub(crate) fn options() -> LoadOptions {
    LoadOptions::default().with_threads(1).with_arithmetic(Arithmetic::Exact)
}

pub(crate) fn open(name: &str, options: &LoadOptions) -> Result<LoadedModel<TextPipeline>, LoadError> {
    ModelBuilder::new(fixture(name).join("model-f32.gguf")).with_options(options).open_text()
}

/// Token ids of a reference.
fn tokens(model: &str, name: &str) -> Vec<u32> {
    let bytes = std::fs::read(fixture(model).join("reference.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor(name).unwrap();
    tensor.data().chunks_exact(8).map(|id| i64::from_le_bytes(id.try_into().unwrap()) as u32).collect()
}

fn error(result: Result<LoadedModel<TextPipeline>, LoadError>) -> LoadError {
    match result {
        Ok(_) => panic!("the file was opened"),
        Err(error) => error,
    }
}

#[test]
fn a_file_gives_what_it_has_and_no_more() {
    let pipeline = open("llama", &options()).unwrap();
    assert_eq!(
        (pipeline.architecture(), pipeline.context(), pipeline.kv_type()),
        ("llama", 1024, KvType::F32)
    );
    assert!(pipeline.tokenizer().is_ok() && pipeline.notices().is_empty());
    let Err(missing) = pipeline.chat_format() else { panic!("the file has no template") };
    assert!(matches!(missing, MissingCapability::ChatTemplate { .. }));
    assert!(missing.to_string().contains("the file has no chat template"), "{missing}");
    assert!(matches!(pipeline.chat(), Err(GenerateError::Missing(_))));
    assert_eq!(pipeline.config().layers.len(), pipeline.engine().model.shape().n_layers);
}

#[test]
fn greedy_tokens_are_those_of_the_reference_also_across_the_rope_limit() {
    let pipeline = open("phi3", &options()).unwrap();
    let mut session = pipeline.session().unwrap();
    for (prompt, answer, reprefills) in [
        ("tokens_prompt", "tokens_greedy", 0),
        ("tokens_cross", "tokens_cross_greedy", 1),
        ("tokens_long", "tokens_long_greedy", 0),
    ] {
        let expected = tokens("phi3", answer);
        let request = Request::greedy(expected.len());
        let outcome = session.generate(tokens("phi3", prompt), &request, |_| {}).unwrap();
        assert_eq!(outcome.tokens, expected, "{prompt}");
        assert_eq!(outcome.statistics.reprefills, reprefills, "{prompt}");
    }
}

#[test]
fn a_template_given_by_hand_makes_conversations() {
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: <think>\n{% endif %}";
    let pipeline = open("llama", &options().with_chat_template(given(template))).unwrap();
    let format = pipeline.chat_format().unwrap();
    let prompt = format.render_prompt(&[ChatMessage::user("hi")], &RenderOptions::default()).unwrap();
    assert_eq!(prompt.text, "user: hi\nassistant: <think>\n");
    assert_eq!(prompt.syntax.reasoning_open.map(|tags| tags.close).as_deref(), Some("</think>"));
    let text = pipeline.tokenizer().unwrap();
    assert_eq!(prompt.tokens, text.encode_prompt(&prompt.text).unwrap());
    let mut chat = pipeline.chat().unwrap();
    let outcome = chat.send("hi", &Request::greedy(3), |_| {}).unwrap();
    assert_eq!((outcome.statistics.prompt_tokens, chat.messages().len()), (prompt.tokens.len(), 2));
    let broken = options().with_chat_template(given("{% for %}"));
    let missing = open("llama", &broken).unwrap().chat_format().map(drop).unwrap_err().to_string();
    assert!(missing.contains("t.jinja"), "{missing}");
}

/// The last message is left open where its text ends, whatever the template writes behind it; the name of a special token
/// in it stays text.
#[test]
fn an_answer_continues_the_last_message() {
    let template = "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content|trim }}</s>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    let open = |template: &str| open("llama", &options().with_chat_template(given(template))).unwrap();
    let pipeline = open(template);
    let format = pipeline.chat_format().unwrap();
    let options = RenderOptions::default().with_continue_final_message(true);
    let rendered = |last: ChatMessage| format.render_prompt(&[ChatMessage::user("end"), last], &options);
    for text in ["", "s", "</s>", "yes and ", "end\n"] {
        let prompt = rendered(ChatMessage::assistant(text)).unwrap();
        assert_eq!(prompt.text, format!("<user>end</s>\n<assistant>{text}"));
        assert!(prompt.syntax.reasoning_open.is_none());
    }
    // A message that has only reasoning goes on there.
    let thought = ChatMessage { reasoning: Some("hm".to_owned()), ..ChatMessage::assistant("") };
    let prompt = rendered(thought).unwrap();
    assert_eq!(prompt.text, "<user>end</s>\n<assistant><think>hm");
    assert_eq!(prompt.syntax.reasoning_open.map(|tags| tags.close).as_deref(), Some("</think>"));
    let refused = rendered(ChatMessage::user("a")).unwrap_err().to_string();
    assert!(
        refused.starts_with("continue_final_message: the last message cannot be continued: its role"),
        "{refused}"
    );
    for template in [
        "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",
        "{{ messages[0].content }}",
        "{% for m in messages %}{{ m.content|upper }}{% endfor %}",
    ] {
        let pipeline = open(template);
        let format = pipeline.chat_format().unwrap();
        let messages = [ChatMessage::user("end"), ChatMessage::assistant("b")];
        let refused = format.render_prompt(&messages, &options).unwrap_err().to_string();
        assert!(refused.contains("cannot be left open"), "{template}: {refused}");
    }
}

fn given(template: &str) -> TemplateSource {
    TemplateSource { name: "t.jinja".to_owned(), source: template.to_owned() }
}

/// The coarser way is asked for with `fast` only.
#[test]
fn coarse_prompts_and_exact_arithmetic_exclude_each_other() {
    let coarse = Device::named("cpu:half-prompts=bf16").unwrap();
    let both = options().with_arithmetic(Arithmetic::Exact).with_device(coarse);
    let refused = error(open("llama", &both));
    assert!(matches!(refused, LoadError::Options(text) if text.contains("--exact")));
}

#[test]
fn what_does_not_fit_into_memory_is_refused_with_numbers() {
    for (limit, expected) in [
        // The file has 651 kB.
        (1_000_000, "but 1.0 MB are free: the weights leave no room for a context"),
        (500_000, "but 500.0 kB are free: even the weights do not fit"),
    ] {
        let small = options().with_memory_limit(limit);
        let message = error(open("llama", &small)).to_string();
        assert!(message.contains(expected), "{message}");
    }
    let unmapped = options().with_mmap(false).with_memory_limit(1000);
    assert!(matches!(error(open("llama", &unmapped)), LoadError::Memory { .. }));
    // Room for all but half of the state: the usual context shrinks, one that was asked for does not.
    let needed = *open("llama", &options()).unwrap().memory();
    let tight = options().with_memory_limit(needed.total() - needed.state / 2 + 1000);
    let pipeline = open("llama", &tight).unwrap();
    assert_eq!(pipeline.context(), 512);
    assert_eq!(pipeline.notices(), [Notice::SmallContext { context: 512, usual: 1024 }]);
    let message = error(open("llama", &tight.with_context(1024))).to_string();
    assert!(message.contains("(-c 512 fits)"), "{message}");
}

#[test]
fn options_are_checked_and_prompts_too() {
    for faulty in [options().with_context(0), options().with_chunk(0), options().with_threads(0)] {
        assert!(matches!(error(open("llama", &faulty)), LoadError::Options(_)));
    }
    let long = open("llama", &options().with_context(4000)).unwrap();
    assert_eq!(long.notices(), [Notice::PastTrained { context: 4000, trained: 1024 }]);
    let short = open("llama", &options().with_context(8)).unwrap();
    let refused = logits(&short, &[1; 9], &LogitsOptions::default());
    assert!(matches!(refused, Err(GenerateError::PromptTooLong { tokens: 9, context: 8 })));
    let vocabulary = short.vocabulary() as u32;
    let refused = logits(&short, &[1, vocabulary], &LogitsOptions::default());
    assert!(matches!(refused, Err(GenerateError::TokenOutOfRange { index: 1, .. })));
}

#[test]
fn an_unknown_architecture_names_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut bytes = std::fs::read(fixture("qwen2").join("model-f32.gguf")).unwrap();
    let name = b"general.architecture";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 12;
    assert_eq!(&bytes[at..at + 5], b"qwen2");
    bytes[at..at + 5].copy_from_slice(b"qwem2");
    std::fs::write(&path, bytes).unwrap();
    let message = error(ModelBuilder::new(&path).with_options(&options()).open_text()).to_string();
    assert!(message.contains("`qwem2` is not known") && message.contains("`qwen2`"), "{message}");
    assert!(message.starts_with(&path.display().to_string()), "{message}");
}

#[cfg(unix)]
#[test]
fn a_file_cut_while_it_is_mapped_is_an_error() {
    gguf_file::install_fault_guard().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::copy(fixture("llama").join("model-f32.gguf"), &path).unwrap();
    let pipeline = ModelBuilder::new(&path).with_options(&options()).open_text().unwrap();
    logits(&pipeline, &[1, 2, 3], &LogitsOptions::default()).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let message = logits(&pipeline, &[1, 2, 3], &LogitsOptions::default()).unwrap_err().to_string();
    assert!(message.contains("changed on disk while in use"), "{message}");
}

/// Counts the layers it sees.
struct Counting(AtomicUsize);

impl LayerHook for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn layers(&self) -> Range<usize> {
        0..usize::MAX
    }

    fn after_layer(&self, _: &HookInput) -> menagerie_model::Result<Option<Rows>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }
}

#[test]
fn hooks_are_called_in_sessions_begun_after_them() {
    let mut pipeline = open("llama", &options()).unwrap();
    let hook = Arc::new(Counting(AtomicUsize::new(0)));
    pipeline.add_hook(Arc::clone(&hook) as Arc<dyn LayerHook>);
    pipeline.session().unwrap().generate(&[1, 2, 3], &Request::greedy(3), |_| {}).unwrap();
    // The prompt and two tokens fed back.
    assert_eq!(hook.0.load(Ordering::Relaxed), 3 * pipeline.config().layers.len());
}

#[test]
fn sessions_of_one_pipeline_run_side_by_side() {
    let pipeline = open("qwen3", &options()).unwrap();
    assert!(!pipeline.name().is_empty());
    let (prompt, expected) = (tokens("qwen3", "tokens_prompt"), tokens("qwen3", "tokens_greedy"));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session = pipeline.session().unwrap();
                let outcome = session.generate(&prompt, &Request::greedy(expected.len()), |_| {}).unwrap();
                assert_eq!(outcome.tokens, expected);
            });
        }
    });
}

#[test]
fn sequences_of_a_batch_are_what_they_are_alone() {
    let pipeline = open("llama", &options()).unwrap();
    let (prompt, expected) = (tokens("llama", "tokens_prompt"), tokens("llama", "tokens_greedy"));
    let other: Vec<u32> = prompt.iter().rev().copied().collect();
    let request = Request::greedy(expected.len());
    let alone = pipeline.session().unwrap().generate(&other, &request, |_| {}).unwrap().tokens;
    let room = SchedulerOptions::default()
        .with_sequences(3)
        .with_prefixes(0)
        .with_capacity_tokens(3 * 256)
        .with_step_tokens(24);
    let mut queue = pipeline.queue(room).unwrap();
    for prompt in [&prompt, &other, &prompt] {
        queue.submit(prompt, &request);
    }
    let results = queue.run(|_, _| {}).into_iter();
    let results: Vec<Vec<u32>> = results.map(|(_, result)| result.unwrap().tokens).collect();
    assert_eq!(results, [expected.clone(), alone, expected]);
}

#[test]
fn devices_are_named_or_given() {
    let cuda = options().with_device(Device::named("cuda").unwrap());
    assert!(matches!(error(open("llama", &cuda)), LoadError::Device { .. }));
    let first = open("llama", &options()).unwrap();
    let given = options().with_device(Device::Given(first.compute().backend.clone()));
    let second = open("llama", &given).unwrap();
    assert_eq!(
        logits(&first, &[1, 2], &LogitsOptions::default()).unwrap(),
        logits(&second, &[1, 2], &LogitsOptions::default()).unwrap()
    );
}

/// Against HF's hidden states: the conformance suite, fixture `qwen3-embedding`.
#[test]
fn a_language_model_makes_vectors_without_its_head() {
    let path = fixture("llama").join("model-f32.gguf");
    let pipeline = ModelBuilder::new(&path).with_options(&options()).open_embedding().unwrap();
    let width = pipeline.engine().model.body.shape.embedding_length;
    let embed = |pooling| {
        let asked = EmbeddingOptions::default().with_pooling(pooling).with_normalization(Normalization::None);
        pipeline.embed(&[&[1, 7, 9]], &asked).remove(0).unwrap()
    };
    let rows = embed(Pooling::None);
    assert_eq!(rows.len(), 3 * width);
    assert_eq!(embed(Pooling::Cls), rows[..width]);
    assert_eq!(embed(Pooling::Last), rows[2 * width..]);
    let error = pipeline.rerank("a", &["b"], Truncation::Refuse).map(drop).unwrap_err().to_string();
    assert!(error.contains("not a reranker"), "{error}");
}
