//! The tables of a spec file: what may stand in each section. Components have theirs in `kinds`.

use crate::config::{
    BiasRule, BranchInput, ClassifierActivation, ClassifierScores, HeadKind, ParallelInput, Pooling, Role,
    SuppressConfig,
};
use crate::kind::FieldDefault::{Absent, Required};
use crate::kind::{
    Cap, Family, Field, FieldType, NormHere, Optional, OptionalNorm, Options, Positive, Table, Value,
};
use crate::language::nextn::NextnOptions;
use crate::language::spec::Layout;
use crate::names;
use crate::options;

/// The version of the language that this crate reads.
pub(crate) const SCHEMA: i64 = 1;

pub(crate) static SPEC: Table = Table {
    title: "Spec",
    doc: "An architecture spec of Menagerie.",
    fields: &[
        Field::new("schema", FieldType::Literal(SCHEMA), Required, "Version of the language."),
        Field::new(
            "extends",
            FieldType::Text,
            Absent,
            "Id of the spec this one is laid over. A table that states `kind` replaces the base's table whole.",
        ),
        Field::new("unset", FieldType::Texts, Absent, "Dotted paths removed from the base first."),
        Field::new(
            "architecture",
            FieldType::Table(&ARCHITECTURE),
            Required,
            "Id and names; never inherited.",
        ),
        Field::new(
            "provenance",
            FieldType::Table(&PROVENANCE),
            Absent,
            "The reference implementation; never inherited; required in built-in specs.",
        ),
        Field::new(
            "let",
            FieldType::Expressions,
            Absent,
            "Named expressions; they may use each other. Per layer if they mention `layer`, `has`, `pattern` or a key \
             with a value per layer.",
        ),
        Field::new("layers", FieldType::Table(LayersOptions::TABLE), Absent, "Blocks."),
        Field::new("embedding", FieldType::Table(EmbeddingOptions::TABLE), Absent, "The token embedding."),
        Field::new("norm", FieldType::Component(Family::Norm), Absent, "The norm used at every site."),
        Field::new("block", FieldType::Table(BlockOptions::TABLE), Required, "The two branches of a block."),
        Field::new(
            "mixer",
            FieldType::Component(Family::Mixer),
            Required,
            "The component that mixes tokens.",
        ),
        Field::new(
            "feed_forward",
            FieldType::Component(Family::FeedForward),
            Required,
            "The component that transforms each token.",
        ),
        Field::new(
            "beside",
            FieldType::Component(Family::FeedForward),
            Absent,
            "A second feed-forward, whose output is added to the first one's.",
        ),
        Field::new(
            "last",
            FieldType::Component(Family::FeedForward),
            Absent,
            "A third branch of the block, after the feed-forward.",
        ),
        Field::new(
            "output",
            FieldType::Table(OutputOptions::TABLE),
            Required,
            "From the last block to logits.",
        ),
        Field::new(
            "nextn",
            FieldType::Table(NextnOptions::TABLE),
            Absent,
            "A head that predicts the token after the next one.",
        ),
        Field::new(
            "check",
            FieldType::Checks,
            Absent,
            "`\"<expression>\" = \"<message>\"`: must hold in every layer.",
        ),
        Field::new("gguf", FieldType::Table(&GGUF), Absent, "Names in GGUF files."),
        Field::new("hf", FieldType::Table(&HF), Absent, "Names in Hugging Face folders."),
        Field::new("adapter", FieldType::Table(&ADAPTER), Absent, "Settings for adapters."),
        Field::new("tokenizer", FieldType::Table(&TOKENIZER), Absent, "Values for files that lack them."),
        Field::new("chat", FieldType::Table(&CHAT), Absent, "Chat template."),
    ],
};

pub(crate) static ARCHITECTURE: Table = Table {
    title: "Architecture",
    doc: "Id and names; never inherited.",
    fields: &[
        Field::new("id", FieldType::Text, Required, "Id of the spec, and the name of its file."),
        Field::new("gguf", FieldType::Texts, Absent, "Names in `general.architecture`; default: the id."),
        Field::new(
            "hf",
            FieldType::Classes(&HF_CLASS),
            Absent,
            "Class names in `config.json`, or a table of them with the settings of each.",
        ),
        Field::new("summary", FieldType::Text, Absent, "One line for listings."),
    ],
};

pub(crate) static HF_CLASS: Table = Table {
    title: "HfClass",
    doc: "Settings of one class.",
    fields: &[
        Field::new("config", FieldType::Text, Absent, "Sub-table of the config to descend into."),
        Field::new(
            "rename",
            FieldType::TextTable,
            Absent,
            "Prefixes of tensor names, from = to; the first that matches is rewritten.",
        ),
        Field::new("values", FieldType::Values, Absent, "Canonical keys the config leaves out."),
    ],
};

names! {
    /// Kind of the reference.
    pub(crate) enum Reference {
        /// Transformers, in float32 with eager attention.
        Hf = "hf",
        /// llama.cpp.
        LlamaCpp = "llama.cpp",
        /// The formulas of a paper.
        Paper = "paper",
    }
}

pub(crate) static PROVENANCE: Table = Table {
    title: "Provenance",
    doc: "The reference implementation; never inherited.",
    fields: &[
        Field::new("reference", <Reference as Value>::TYPE, Required, "Kind of the reference."),
        Field::new("source", FieldType::Text, Required, "Version and class, file or title."),
        Field::new("covers", FieldType::Text, Absent, "The values that were compared."),
        Field::new("notes", FieldType::Texts, Absent, "Known differences."),
    ],
};

options! {
    /// Blocks.
    pub(crate) struct LayersOptions {
        /// Blocks that are run; the blocks after them are not.
        count: usize = Key("block_count"),
        /// Number of passes over the blocks; each pass has its own states.
        loops: Positive<usize> = Number(1.0),
        /// Norm on the stream between two passes, and after each run of a stack of `cycles` (a tensor of the whole model).
        loop_norm: OptionalNorm = Absent,
        /// Two stacks that run alternately.
        cycles: Optional<CycleOptions> = Absent,
    }
}

options! {
    /// Two stacks of blocks over two streams: `high` times the first stack runs `low` times on the sum of both and renews its
    /// own, then the second one does; what is embedded is the second one's stream. Each run has states of its own.
    pub(crate) struct CycleOptions {
        /// Blocks of a stack; the first stack's come first.
        blocks: Positive<usize> = Required,
        /// Runs of the first stack before each of the second.
        low: Positive<usize> = Required,
        /// Runs of the second stack.
        high: Positive<usize> = Required,
        /// Role of the row that the first stack's stream begins with.
        start: Role = Required,
    }
}

options! {
    /// The token embedding.
    pub(crate) struct EmbeddingOptions {
        /// Multiplies every embedded row.
        scale: f32 = Number(1.0) => guarded,
        /// Norm on the embedded rows.
        norm: OptionalNorm = Absent,
        /// Role of learned absolute positions, `[context, D]`.
        positions: Option<Role> = Absent,
        /// Role of token types; row 0 is added to every token.
        token_types: Option<Role> = Absent,
        /// Additional input rows of each layer; `[last] kind = "per-layer-input"` reads them.
        per_layer: Optional<PerLayerOptions> = Absent,
    }
}

options! {
    /// `scale * (token_scale * per_layer_token_embd[id] + norm(projection_scale * per_layer_model_proj(embedded)))`.
    pub(crate) struct PerLayerOptions {
        /// Elements of the row of a layer.
        width: Positive<usize> = Key("embedding_length_per_layer_input"),
        /// Multiplies the rows of tokens.
        token_scale: f32 = Number(1.0) => guarded,
        /// Multiplies the projection of the embedded rows, before the norm.
        projection_scale: f32 = Number(1.0) => guarded,
        /// Norm on the projection, over the row of a layer.
        norm: OptionalNorm = Absent,
        /// Multiplies the sum.
        scale: f32 = Number(1.0) => guarded,
    }
}

options! {
    /// The two branches of a block.
    pub(crate) struct BlockOptions {
        /// How the mixer is attached to the stream.
        mixer: BranchOptions = Required,
        /// How the feed-forward is attached to the stream.
        feed_forward: BranchOptions = Required,
        /// How `[beside]` is added to the feed-forward.
        beside: BesideOptions = Fields,
        /// How `[last]` is attached.
        last: BranchOptions = Fields,
        /// Role of a number: the embedded rows times this number are added to the output of the block, before `output_scale`.
        embedding_scale: Option<Role> = Absent,
        /// Role of a number that multiplies the output of the block; not applied in layers for which the file has none.
        output_scale: Option<Role> = Absent,
    }
}

options! {
    /// `f = first_post(f); g = post(beside(pre(reads))); f = factor * (f + g)`, where `f` is the output of the feed-forward.
    pub(crate) struct BesideOptions {
        /// Its input.
        reads: ParallelInput = Name("branch") => guarded,
        /// Norm before it.
        pre: OptionalNorm = Absent,
        /// Norm on its output.
        post: OptionalNorm = Absent,
        /// Norm on the output of the first feed-forward, before the two are added.
        first_post: OptionalNorm = Absent,
        /// Multiplies the sum.
        factor: f32 = Number(1.0) => guarded,
    }
}

options! {
    /// `h = reads; h = pre(h); h = branch(h); h = post(h); x = x + scale * h; x = after(x)`, and with `again`, where `i` is the
    /// stream before the branch was added: `x = again(x + i)`.
    pub(crate) struct BranchOptions {
        /// Norm before the branch.
        pre: OptionalNorm = Absent,
        /// Norm on the branch output.
        post: OptionalNorm = Absent,
        /// Norm on the stream after the branch was added.
        after: OptionalNorm = Absent,
        /// Second norm after the branch: on the output of `after` plus the stream before the branch (Jina BERT for code).
        again: OptionalNorm = Absent,
        /// Input of the branch.
        reads: BranchInput = Name("stream") => guarded,
        /// Multiplies the branch output before it is added.
        scale: f32 = Number(1.0) => guarded,
    }
}

pub(crate) static SITE: Table = Table {
    title: "Site",
    doc: "A place where a norm is applied: a role, a list of roles of which the first that exists counts, or this table.",
    fields: &[
        Field::new("role", FieldType::Roles, Required, "Role of the weight, or a list of roles."),
        Field::new("when", FieldType::Bool, Absent, "Condition; where it is false, there is no norm."),
        Field::new("norm", <NormHere as Value>::TYPE, Absent, "Options that differ from `[norm]`."),
    ],
};

options! {
    /// From the last block to logits.
    pub(crate) struct OutputOptions {
        /// Norm before the head.
        norm: OptionalNorm = Absent,
        /// The matrix that computes logits.
        head: HeadKind = Required,
        /// Bias of the head (role `output`).
        bias: BiasRule = Name("none"),
        /// Multiplies logits.
        scale: f32 = Number(1.0) => guarded,
        /// `cap * tanh(x / cap)` on logits; 0 = none.
        softcap: Cap = Absent => guarded,
        /// Ids that are never generated: their logits are the lowest finite number.
        suppress: Option<SuppressConfig> = Absent,
        /// How the rows of a text become one vector; a model with a head can return vectors too.
        pooling: Option<Pooling> = Computed {
            how: "pooling_type: 1 = mean, 2 = first, 3 = last, 4 = that of classifier.pooling_type, else last; else none",
            reads: &["pooling_type", "classifier.pooling_type"],
        },
        /// The scores that a reranker computes from the vector (roles `cls`, `cls.norm`, `cls.output`, if present).
        classifier: Optional<ClassifierOptions> = Absent,
        /// Linears without activation applied to the vector, unless another pooling is requested.
        dense: Optional<DenseOptions> = Absent,
    }
}

options! {
    /// `second(first(vector))`, each where the file has it.
    pub(crate) struct DenseOptions {
        /// Role of the first linear.
        first: Role = Required,
        /// Role of the second linear.
        second: Role = Required,
    }
}

options! {
    /// Scores of a pooled vector: `cls.output(norm(activation(cls(x))))`.
    pub(crate) struct ClassifierOptions {
        /// Between the two linears.
        activation: ClassifierActivation = Name("tanh") => guarded,
        /// Norm after the activation.
        norm: OptionalNorm = Absent,
        /// Function applied to the outputs.
        scores: ClassifierScores = Name("as-they-are") => guarded,
    }
}

pub(crate) static GGUF: Table = Table {
    title: "Gguf",
    doc: "Names in GGUF files.",
    fields: &[
        Field::new(
            "layer",
            FieldType::Text,
            Absent,
            "Prefix of a block's tensors, with `{layer}`; default: `blk.{layer}`.",
        ),
        Field::new("tensors", FieldType::TextTable, Absent, "Role = the name it is stored under."),
        Field::new(
            "apart",
            FieldType::Texts,
            Absent,
            "Roles of matrices that are fused in a folder and written in parts to a GGUF file.",
        ),
        Field::new(
            "ignore_tensors",
            FieldType::Reasons,
            Absent,
            "Glob = reason; `{tail}` is a layer index after the blocks that are run.",
        ),
        Field::new("ignore_keys", FieldType::Reasons, Absent, "Glob over canonical keys = reason."),
    ],
};

pub(crate) static HF: Table = Table {
    title: "Hf",
    doc: "Names in Hugging Face folders.",
    fields: &[
        Field::new("layer", FieldType::Text, Absent, "Prefix of a block's tensors, with `{layer}`."),
        Field::new(
            "layer_after",
            FieldType::Texts,
            Absent,
            "Prefixes of further stacks, with `{layer}`: their blocks are numbered after those of the stacks before.",
        ),
        Field::new(
            "config",
            FieldType::ConfigValues,
            Absent,
            "Canonical key = literal, or expression over config names; undefined means that the key is absent.",
        ),
        Field::new(
            "write",
            FieldType::ConfigValues,
            Absent,
            "As `config`, for keys that other programs require in a GGUF file; only `convert` reads them. Also \
             `general.architecture`, where the files of one spec have several.",
        ),
        Field::new("expect", FieldType::Values, Absent, "Config name = the accepted value or values."),
        Field::new(
            "tensors",
            FieldType::HfTensors,
            Absent,
            "Role = the name it is stored under, or alternatives.",
        ),
        Field::new(
            "numbers",
            FieldType::TextTable,
            Absent,
            "Canonical key = the tensor of one element that holds it; with a leading `.` one for each block.",
        ),
        Field::new(
            "times",
            FieldType::HfTimes,
            Absent,
            "Role = the factor of its products: a number or an expression over config names, or a list of \
             `[rows, number]`, rows after each other. A GGUF has it multiplied into the weights.",
        ),
        Field::new("ignore_tensors", FieldType::Reasons, Absent, "Glob = reason."),
        Field::new("ignore_keys", FieldType::Reasons, Absent, "Glob over config names = reason."),
    ],
};

pub(crate) static HF_TENSOR: Table = Table {
    title: "HfTensor",
    doc: "Where a role's tensor comes from.",
    fields: &[
        Field::new(
            "from",
            FieldType::Text,
            Required,
            "Name; a leading `.` is under `layer`; `{expert}` and `{head}` stack.",
        ),
        Field::new(
            "layout",
            FieldType::OneOrMore(<Layout as crate::kind::NameEnum>::LIST),
            Absent,
            "From stored to canonical.",
        ),
    ],
};

pub(crate) static HF_CONFIG_TENSOR: Table = Table {
    title: "HfConfigTensor",
    doc: "A list in the config that stands for a tensor.",
    fields: &[Field::new("config", FieldType::Text, Required, "Its name in the config.")],
};

pub(crate) static ADAPTER: Table = Table {
    title: "Adapter",
    doc: "Settings for adapters.",
    fields: &[Field::new(
        "order",
        FieldType::Texts,
        Absent,
        "Roles of a block in the order HF registers them (X-LoRA numbers layers so).",
    )],
};

pub(crate) static TOKENIZER: Table = Table {
    title: "Tokenizer",
    doc: "Values for files that lack them.",
    fields: &[
        Field::new("pre", FieldType::Text, Absent, "Pre-tokenizer used when the file names none."),
        Field::new(
            "end",
            FieldType::Texts,
            Absent,
            "Tokens that end a turn, added if the vocabulary has them.",
        ),
    ],
};

pub(crate) static CHAT: Table = Table {
    title: "Chat",
    doc: "Chat template.",
    fields: &[Field::new(
        "fallback",
        FieldType::Text,
        Absent,
        "The Jinja template itself (any text with a `{`), or the name of a template of the tables; used when the file has none.",
    )],
};
