//! Opening, generating and sampling.

use menagerie::adapters::AdapterError;
use menagerie::assembly::PlanError;
use menagerie::engine::{
    ConstraintError, DiskCacheError, GenerateError, IdentityError, MissingCapability, SamplingError,
    StateFileError,
};
use menagerie::gguf::{FileType, GgmlType};
use menagerie::grammar::GrammarError;
use menagerie::measure::ControlVectorError;
use menagerie::model::{KvType, ModelError};
use menagerie::open::{LoadError, MemoryEstimate};
use menagerie::quantize::QuantizeError;
use menagerie::registry::RegistryError;
use menagerie::stages::{FaultKind, StageFault, StageName, TransportFault};

const GIB: u64 = 1 << 30;

#[test]
fn open() {
    let file = || "m.gguf".to_owned();
    let needs = |state: u64, working: u64| {
        let mut estimate = MemoryEstimate::new(3 * GIB, state, 8192, working);
        estimate.available = Some(4 * GIB);
        Box::new(estimate)
    };
    let too_large = || {
        let mut estimate = needs(0, 0);
        estimate.weights = 5 * GIB;
        estimate
    };
    let source = || ModelError::State("blk.0.k: heads of 20 elements cannot be stored as q8_0".to_owned());
    let fault = |kind, detail: &str| StageFault {
        kind,
        stage: StageName { index: 1, first: 4, end: 8 },
        request: 0,
        position: 0,
        rows: 0,
        detail: detail.to_owned(),
    };
    let said = messages![
        LoadError::Locate { model: "org/repo".to_owned(), source: "this machine is offline".into() },
        LoadError::Architecture {
            file: file(),
            source: RegistryError::Unknown { name: "lama".to_owned(), nearest: Some("llama".to_owned()) },
        },
        LoadError::Device {
            device: "cuda:9".to_owned(),
            reason: "this machine has 1; use cuda:0".to_owned()
        },
        LoadError::Mixture {
            file: file(),
            reason: "there is no gate; train one: menagerie train-gate RECIPE DATA".to_owned(),
        },
        LoadError::Recipe {
            file: "mine.recipe.toml".to_owned(),
            reason: "base: there is no ./m.gguf; paths are relative to the recipe".to_owned(),
        },
        LoadError::Merge { file: file(), reason: "output has no bias that could be changed".to_owned() },
        LoadError::Purpose { file: file(), reason: "an encoder: it makes embeddings".to_owned() },
        LoadError::Memory { file: file(), estimate: needs(2 * GIB, 0), fitting: 2048 },
        LoadError::Memory { file: file(), estimate: needs(0, 2 * GIB), fitting: 0 },
        LoadError::Memory { file: file(), estimate: needs(2 * GIB, 0), fitting: 0 },
        LoadError::Memory { file: file(), estimate: too_large(), fitting: 0 },
        LoadError::State { file: file(), source: source() },
        LoadError::Quantization {
            file: file(),
            source: QuantizeError::Requantized {
                tensor: "output.weight".to_owned(),
                from: GgmlType::Q6_K,
                file: FileType::Q4_0,
            },
        },
        LoadError::Stages { file: file(), reason: PlanError::Stages { stages: 9, layers: 4 }.to_string() },
        LoadError::Stages { file: file(), reason: fault(FaultKind::Refused, "another version").to_string() },
        LoadError::Fingerprint { file: file(), source: std::io::Error::other("gone") },
        LoadError::Options("a chunk must have at least one token (--chunk 1 or more)".to_owned()),
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn generate() {
    let wrong = |kv_type: KvType| (7, 42, f32::NAN, kv_type);
    let (position, column, value, kv_type) = wrong(KvType::F16);
    let said = messages![
        GenerateError::EmptyPrompt,
        GenerateError::PromptTooLong { tokens: 3000, context: 2048 },
        GenerateError::PastPositions { tokens: 3000, positions: 512 },
        GenerateError::EmptyText,
        GenerateError::TokenOutOfRange { id: 300, index: 2, vocabulary: 256 },
        GenerateError::Options("--top-k and --greedy exclude each other".to_owned()),
        GenerateError::Cancelled,
        GenerateError::NotFinite { position, column, value, kv_type },
        GenerateError::NotFinite { position, column, value, kv_type: KvType::F32 },
        GenerateError::Chunked { tokens: 700, chunk: 512 },
        GenerateError::LooksAhead,
        GenerateError::LostRepeatedly { times: 3, fault: "stage 1 (layers 2 to 3): is gone".to_owned() },
        GenerateError::Output { expected: "vectors", found: "logits of the last row" },
        GenerateError::Together("no free page for a copy".to_owned()),
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn state_files() {
    let file = || "book.state".to_owned();
    let full = || std::io::Error::new(std::io::ErrorKind::StorageFull, "no space left on device");
    let said = messages![
        StateFileError::System { file: file(), action: "write", source: full() },
        StateFileError::NoFile("folder".to_owned()),
        StateFileError::InUse(file()),
        StateFileError::Unreadable {
            file: file(),
            reason: "its list of tokens is damaged: the checksum is wrong".to_owned(),
        },
        StateFileError::Differs {
            file: file(),
            differences: vec!["the cache type was f16 and is q8_0".to_owned()],
        },
        StateFileError::TooLong { file: file(), tokens: 6000, context: 4096 },
        StateFileError::Conversation { file: file(), messages: 4 },
        StateFileError::OtherSession(file()),
        StateFileError::Identity(IdentityError::Unnamed("adapter \"mine\"".to_owned())),
        StateFileError::State { file: file(), source: GenerateError::Cancelled },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn disk_caches() {
    let full = || std::io::Error::new(std::io::ErrorKind::StorageFull, "no space left on device");
    let said = messages![
        DiskCacheError::Folder { folder: "states".to_owned(), action: "make", source: full() },
        DiskCacheError::Unsupported("they depend on the whole prompt".to_owned()),
        DiskCacheError::Options("blocks of 0 tokens hold nothing; use 1 or more"),
        DiskCacheError::State(GenerateError::Cancelled),
        DiskCacheError::Identity(IdentityError::Unnamed("adapter \"mine\"".to_owned())),
        IdentityError::Unreadable { file: "m.gguf".to_owned(), source: full() },
        IdentityError::Unnamed("adapter \"mine\"".to_owned()),
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn stages() {
    let said = messages![
        PlanError::Stages { stages: 9, layers: 4 },
        PlanError::Ranges { stage: 1, first: 2, last: 3, expected: 1, layers: 4 },
        PlanError::Short { last: 2, layers: 4 },
        PlanError::SharedKeys { boundary: 20, reader: 21, of: 18, latest: 18 },
        PlanError::SharedKeys { boundary: 2, reader: 3, of: 0, latest: 0 },
        PlanError::Joined { stages: 4, most: 2 },
        TransportFault::Closed,
        TransportFault::Full,
        TransportFault::Broken("the received bytes are not a frame (wrong magic)".to_owned()),
        TransportFault::System("no buffer space available".to_owned()),
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn adapters() {
    let file = || "adapter/adapter_model.safetensors".to_owned();
    let said = messages![
        AdapterError::File { file: file(), reason: "no tensors: the adapter does nothing".to_owned() },
        AdapterError::Key {
            file: "adapter/adapter_config.json".to_owned(),
            key: "lora_bias".to_owned(),
            reason: "biases inside the low-rank product are not supported; train without lora_bias"
                .to_owned(),
        },
        AdapterError::Module {
            file: file(),
            module: "model.layers.0.self_attn.q_proj".to_owned(),
            reason: "rank mismatch: A is [4, 64] and B is [64, 3]; A has as many rows as B has columns"
                .to_owned(),
        },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn missing() {
    let (model, reason) = (|| "m".to_owned(), || "the file has no `tokenizer.ggml.model`".to_owned());
    let said = messages![
        MissingCapability::Tokenizer { model: model(), reason: reason() },
        MissingCapability::Classifier { model: model() },
        MissingCapability::ChatTemplate {
            model: model(),
            reason: "the file has no chat template".to_owned()
        },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn sampling() {
    let said = messages![
        SamplingError::Range { option: "--top-p", value: "1.5".to_owned(), range: "from 0 to 1" },
        SamplingError::BiasToken { id: 9999, vocabulary: 262 },
        SamplingError::NotANumber { id: 3, logit: f32::NAN },
        SamplingError::Overflow {
            option: "--repeat-penalty",
            value: "1e-38".to_owned(),
            id: 3,
            logit: f32::INFINITY
        },
        SamplingError::BrokenStep { step: "mine", id: 3, logit: f32::NAN },
        SamplingError::Sampler {
            name: "acme/steps:cut".to_owned(),
            message: "dropped every token".to_owned()
        },
        SamplingError::NothingLeft,
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn constraints() {
    let (what, place) = ("JSON schema", "/properties/tags".to_owned());
    let schema = GrammarError::Schema {
        at: String::new(),
        keyword: "`not`".to_owned(),
        reason: "is not supported: describe what is allowed, with enum, const or a pattern".to_owned(),
    };
    let said = messages![
        ConstraintError::TooComplex {
            limit: "its rules exceed the limit on the steps of a token".to_owned()
        },
        ConstraintError::DeadEnd,
        ConstraintError::Marker { marker: ">>>all\n".to_owned() },
        ConstraintError::ReasoningEnd { token: 17 },
        ConstraintError::Cancelled,
        ConstraintError::Failed { reason: "the parser stopped".to_owned() },
        GrammarError::Schema {
            at: place,
            keyword: "`not`".to_owned(),
            reason: "is not supported: describe what is allowed, with enum, const or a pattern".to_owned(),
        },
        GrammarError::TooLarge { what, bytes: 70_000, most: 65_536 },
        GrammarError::TooDeep { what, most: 64 },
        GrammarError::Lark { line: 3, reason: "`%llguidance` is not supported: remove it".to_owned() },
        GrammarError::Invalid { what, reason: "regex parse error: unclosed group".to_owned() },
        GrammarError::Tool { tool: "look_up".to_owned(), error: Box::new(schema) },
        GrammarError::Calls {
            format: "llama-3-json".to_owned(),
            reason: "its calls begin without a marker, so that they cannot be told from text in time"
                .to_owned()
        },
        GrammarError::Cancelled,
        GrammarError::Vocabulary {
            reason: "it has 0 tokens; the number must be from 1 to 2097152".to_owned()
        },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn control_vectors() {
    let said = messages![
        ControlVectorError::Content {
            file: "happy.gguf".to_owned(),
            reason: "its architecture is `llama`".to_owned()
        },
        ControlVectorError::Unfit {
            file: "happy.gguf".to_owned(),
            reason: "its directions have 64 numbers, and the stream of this model has 2048".to_owned()
        },
    ];
    insta::assert_snapshot!(said);
}
