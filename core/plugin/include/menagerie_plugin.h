/* The plugin ABI of Menagerie, version 1: what a plugin in C or C++ is built against.
 *
 * Made from core/plugin/src/abi; to make it anew:
 * MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-plugin --test c_header
 *
 * Rules that hold for all of it:
 * - Everything that a pointer leads to is borrowed: from the host for the call (or, in MenagerieBuild, for the life of the
 *   instance where that is said), from the plugin for the life of the process. Nobody frees the other side's memory.
 * - Every struct of functions or descriptions begins with a MenagerieHeader (MENAGERIE_HEADER). Within a major version
 *   fields are only added, at the end; a reader uses no more than `struct_size` bytes.
 * - Texts are UTF-8, not ended by a zero (MENAGERIE_TEXT makes one of a literal). Functions that can fail give a status; before
 *   MENAGERIE_ERROR the text has been given to `set_error`.
 * - No exception leaves a function: C++ catches them itself.
 *
 * A plugin exports two symbols, MENAGERIE_PLUGIN_MANIFEST_V1 and menagerie_plugin_init_v1, and nothing else
 * (-fvisibility=hidden).
 */
#ifndef MENAGERIE_PLUGIN_H
#define MENAGERIE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MENAGERIE_ASSERT(condition) static_assert(condition, #condition)
extern "C" {
#else
#define MENAGERIE_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/* Types, in the order below. */
typedef struct MenagerieHeader MenagerieHeader;
typedef struct MenagerieText MenagerieText;
typedef struct MenagerieTensor MenagerieTensor;
typedef struct MenagerieBuild MenagerieBuild;
typedef struct MenagerieVocabulary MenagerieVocabulary;
typedef struct MenagerieToken MenagerieToken;
typedef struct MenagerieLinear MenagerieLinear;
typedef struct MenagerieStateSpec MenagerieStateSpec;
typedef struct MenagerieCall MenagerieCall;
typedef struct MenagerieSequence MenagerieSequence;
typedef struct MenagerieHookCall MenagerieHookCall;
typedef struct MenagerieFrequencyCall MenagerieFrequencyCall;
typedef struct MenagerieSampleCall MenagerieSampleCall;
typedef struct MenagerieEncodeCall MenagerieEncodeCall;
typedef struct MenagerieDecodeCall MenagerieDecodeCall;
typedef struct MenagerieComponent MenagerieComponent;
typedef struct MenagerieOptionDef MenagerieOptionDef;
typedef struct MenagerieRoleDef MenagerieRoleDef;
typedef struct MenagerieManifest MenagerieManifest;
typedef struct MenagerieHostApi MenagerieHostApi;
typedef struct MenagerieRegistrar MenagerieRegistrar;

/* Struct that a plugin exports under this name; readable from the file without running it. */
#define MENAGERIE_MANIFEST_SYMBOL "MENAGERIE_PLUGIN_MANIFEST_V1"

/* Section that holds the manifest alone: legal in ELF, PE and Mach-O (`__DATA,__mngplug`). */
#define MENAGERIE_MANIFEST_SECTION ".mngplug"

/* Function that a plugin exports under this name: an `Init`. */
#define MENAGERIE_INIT_SYMBOL "menagerie_plugin_init_v1"

/* Other majors are refused. */
#define MENAGERIE_ABI_MAJOR 1

/* A plugin of a newer minor is refused by an older host. */
#define MENAGERIE_ABI_MINOR 0

/* What a function says of how it went. */
typedef int32_t MenagerieStatus;

/* It went well. */
#define MENAGERIE_OK 0

/* It failed; `set_error` was given the text. */
#define MENAGERIE_ERROR (-1)

/* A panic was caught; the instance is not called again. */
#define MENAGERIE_PANIC (-2)

/* The head of every struct that may grow. */
struct MenagerieHeader {
    /* Bytes of the struct as its writer knows it, this head included. */
    uint32_t struct_size;
    /* Major version of the writer. */
    uint16_t abi_major;
    /* Minor version of the writer. */
    uint16_t abi_minor;
};

/* A borrowed UTF-8 text. */
struct MenagerieText {
    /* Its bytes; may be null if `len` is 0. */
    const uint8_t *data;
    /* How many. */
    size_t len;
};

/* A borrowed array. */
struct MenagerieTensor {
    /* First element. */
    void *data;
    /* Bytes that may be touched. */
    uint64_t byte_len;
    /* One of `dtype`. */
    uint32_t dtype;
    /* One of `device`. */
    uint32_t device_type;
    /* Which of them. */
    int32_t device_id;
    /* Dimensions in use. */
    uint32_t ndim;
    /* Elements, the slowest dimension first. */
    int64_t shape[6];
    /* Elements from one to the next of a dimension; of blocks, the last is 1 and the others count elements of whole rows. */
    int64_t strides[6];
    /* Bit 0: read only. */
    uint64_t flags;
};

/* In `Tensor::flags`. */
#define MENAGERIE_TENSOR_READ_ONLY 1

/* Types of elements. */

/* 32-bit float. */
#define MENAGERIE_DTYPE_F32 0

/* 16-bit float. */
#define MENAGERIE_DTYPE_F16 1

/* The upper half of a 32-bit float. */
#define MENAGERIE_DTYPE_BF16 2

/* 32-bit signed integer. */
#define MENAGERIE_DTYPE_I32 3

/* 64-bit float. */
#define MENAGERIE_DTYPE_F64 4

/* Byte. */
#define MENAGERIE_DTYPE_U8 5

/* Plus GGML's number of a block type (`0x108` is Q8_0). */
#define MENAGERIE_DTYPE_GGML 256

/* Where an array lies. */

/* Memory of the CPU; the only one in version 1. */
#define MENAGERIE_DEVICE_CPU 1

/* Handed to `Component::create`; lives for that call. A function that fails has noted the fault with its place
 * (file, layer, tensor), so that `create` may go on to find more, and then gives `ERROR`. */
struct MenagerieBuild {
    /* Size and version. */
    MenagerieHeader header;
    /* The block; -1 for the whole model, or where there is none. */
    int64_t layer;
    /* Blocks of the model; 0 where there is no model. */
    uint64_t layers;
    /* Elements of the rows it works on: D, or a norm's width. */
    uint64_t width;
    /* Given back to every function below. */
    void *context;
    /* The value of an option of kind `OptionDef::COUNT`. */
    MenagerieStatus (*count)(void *context, MenagerieText option, uint64_t *value);
    /* The value of an option of kind `OptionDef::REAL`. */
    MenagerieStatus (*real)(void *context, MenagerieText option, double *value);
    /* The value of an option of kind `OptionDef::NAME` or `OptionDef::TEXT`; lives for the life of the
     * instance. */
    MenagerieStatus (*name)(void *context, MenagerieText option, MenagerieText *value);
    /* A size that a tensor has bound (a symbol of `RoleDef::dims`). */
    MenagerieStatus (*size)(void *context, MenagerieText symbol, uint64_t *value);
    /* 1 if the file has a role's tensor, else 0. `part` is one of `part`. */
    int32_t (*has)(void *context, MenagerieText role, uint32_t part);
    /* A role's tensor as the file stores it, shape with the slowest dimension first; lives for the life of the instance. */
    MenagerieStatus (*weight)(void *context, MenagerieText role, uint32_t part, MenagerieTensor *tensor);
    /* A role's numbers as f32, in the order of the file; live for the life of the instance. */
    MenagerieStatus (*values)(void *context, MenagerieText role, uint32_t part, MenagerieTensor *tensor);
    /* A role's linear, which the host computes with `Call::linear`: quantized, with adapters, on its threads. */
    MenagerieStatus (*linear)(void *context, MenagerieText role, MenagerieLinear *linear);
    /* Declares a state, which the host keeps per sequence (so that prefixes, snapshots, stages and batches work); gives its
     * number for `Call`. */
    MenagerieStatus (*declare_state)(void *context, const MenagerieStateSpec *state, uint32_t *number);
    /* Rows `[T, width]` that layers hand on within a step, by a name that is the model's: the first layer that asks for it
     * writes it, later ones read it. `writes` is 1 for the layer that writes. Gives its number for `Call`. */
    MenagerieStatus (*slot)(void *context, MenagerieText name, uint64_t width, uint32_t *writes, uint32_t *number);
    /* The model's vocabulary; null where there is none (tokenizers and samplers may have one). */
    const MenagerieVocabulary *vocabulary;
};

/* The tokens that a file has, as it has them. */
struct MenagerieVocabulary {
    /* Size and version. */
    MenagerieHeader header;
    /* Tokens; their ids are `0..tokens`. */
    uint64_t tokens;
    /* Merges of pairs, the first to be done first; 0 where the vocabulary has none. */
    uint64_t merges;
    /* Given back to every function below. */
    void *context;
    /* A token; its text lives for the life of the instance. */
    MenagerieStatus (*token)(void *context, uint32_t id, MenagerieToken *token);
    /* A merge: its two tokens with a space between; lives for the life of the instance. */
    MenagerieStatus (*merge)(void *context, uint64_t index, MenagerieText *merge);
};

/* A token of a `Vocabulary`. */
struct MenagerieToken {
    /* As the file writes it, in the writing of its algorithm. */
    MenagerieText text;
    /* GGUF's `tokenizer.ggml.token_type`: 1 normal, 2 unknown, 3 control, 4 of the user, 5 unused, 6 a byte. */
    int32_t kind;
    /* GGUF's `tokenizer.ggml.scores`; 0 where there are none. */
    float score;
};

/* A linear that the host keeps. */
struct MenagerieLinear {
    /* Number for `Call::linear`. */
    uint32_t number;
    /* Zero. */
    uint32_t padding;
    /* Elements of a row that goes in. */
    uint64_t inputs;
    /* Elements of a row that comes out. */
    uint64_t outputs;
};

/* A state to be kept for each sequence. */
struct MenagerieStateSpec {
    /* For listings and errors: `shift`, `k`. */
    MenagerieText name;
    /* `StateSpec::PER_SEQUENCE` or `StateSpec::PER_TOKEN`. */
    uint32_t kind;
    /* Dimensions in use. */
    uint32_t ndim;
    /* Per sequence: the shape of one block of f32. Per token: heads and elements of a head. */
    uint64_t shape[4];
    /* Per token: tokens that stay visible, the newest included; 0 = all. */
    uint64_t window;
    /* Zero. */
    uint64_t reserved[2];
};

/* One block of f32 per sequence, zero at its beginning. */
#define MENAGERIE_STATE_SPEC_PER_SEQUENCE 1

/* One row per token, stored as the host's cache type says. */
#define MENAGERIE_STATE_SPEC_PER_TOKEN 2

/* Handed to `Component::forward`; lives for that call. Functions may be called from the thread of the call only, and
 * not from bodies of `parallel_for`, which may call `parallel_for` alone; anything else fails, and the call with it. */
struct MenagerieCall {
    /* Size and version. */
    MenagerieHeader header;
    /* Rows of f32 that go in, read only. */
    const MenagerieTensor *inputs;
    /* How many arrays. */
    size_t n_inputs;
    /* Rows of f32 to be written, every element; they overlap no input. */
    const MenagerieTensor *outputs;
    /* How many arrays. */
    size_t n_outputs;
    /* The sequences whose rows these are, in order, covering all rows; none for norms and activations. */
    const MenagerieSequence *sequences;
    /* How many. */
    size_t n_sequences;
    /* Blocks of the states per sequence, read and changed in place: `[n_sequences][n_states]`; a state per token has an
     * empty array here. */
    const MenagerieTensor *states;
    /* States that the instance declared. */
    size_t n_states;
    /* Rows `[T, width]` of the slots that the instance asked for, read only but for the layer that writes. */
    const MenagerieTensor *slots;
    /* How many. */
    size_t n_slots;
    /* Ids of the rows' tokens, one per row; null for norms and activations, whose rows may be heads or some rows of the
     * step only, and where rows were given in place of tokens. */
    const uint32_t *token_ids;
    /* Threads that `Call::parallel_for` works on, at least 1. */
    uint64_t threads;
    /* Given back to every function below. */
    void *context;
    /* `y = W x + b` for all rows of `x [T', inputs]` into `y [T', outputs]`, f32. If `x` has the rows of the step, adapters act
     * on them. */
    MenagerieStatus (*linear)(void *context, uint32_t number, const MenagerieTensor *x, const MenagerieTensor *y);
    /* Calls `body(argument, i)` for every `i` below `n` on the host's threads; within a body it runs on the same thread. */
    MenagerieStatus (*parallel_for)(void *context, uint64_t n, void (*body)(void *argument, uint64_t index), void *argument);
    /* Memory for this call: every byte has a value, and any value; `align` is a power of two; null if there is none. */
    void *(*scratch)(void *context, uint64_t bytes, uint64_t align);
    /* Stores a row for every row of the step in a state per token, `x [T, heads * head_dim]`. */
    MenagerieStatus (*store)(void *context, uint32_t state, const MenagerieTensor *x);
    /* Reads rows of a state per token: those of tokens `first..` of a sequence of the step, as many as `y` has rows. */
    MenagerieStatus (*stored)(void *context, uint32_t state, uint64_t sequence, uint64_t first, const MenagerieTensor *y);
};

/* A sequence's rows in a step. */
struct MenagerieSequence {
    /* Its first row. */
    uint64_t first_row;
    /* How many rows. */
    uint64_t rows;
    /* Tokens of it that came before this step. */
    uint64_t past;
    /* Positions of its rows, `[rows][axes]`. */
    const uint32_t *positions;
    /* Numbers of a position: 1 for text. */
    uint32_t axes;
    /* 1 while it is generating, 0 while its prompt is computed. */
    uint32_t decoding;
    /* With `number`, what no other sequence of the process has, before or after it; in stages it has one in each. */
    uint64_t pool;
    /* Of those of its pool. */
    uint64_t number;
};

/* Handed to `Component::hook`; lives for that call. */
struct MenagerieHookCall {
    /* Size and version. */
    MenagerieHeader header;
    /* The rows `[T, D]` between layers, whose they are, the ids of their tokens, threads and memory. It has one input; one output
     * if the component replaces, else none; no linears, no states and no slots. */
    const MenagerieCall *call;
    /* The layer, 0-based as in `blk.N`. */
    uint64_t layer;
    /* One of the constants below. */
    uint32_t point;
    /* Zero. */
    uint32_t padding;
};

/* The rows are what the layer is going to read. */
#define MENAGERIE_HOOK_CALL_BEFORE 1

/* The rows are what the layer leaves. */
#define MENAGERIE_HOOK_CALL_AFTER 2

/* Handed to `Component::frequencies`. */
struct MenagerieFrequencyCall {
    /* Size and version. */
    MenagerieHeader header;
    /* Base of the rope. */
    double base;
    /* Elements of a head that rotate. */
    uint64_t rotated;
    /* Tokens that the sequence will have, if the regime depends on that; else the model's context. */
    uint64_t context_length;
    /* Radians per position of each pair, `[rotated / 2]` f32, to be written. */
    const MenagerieTensor *frequencies;
    /* Multiplies cosines and sines; 1 before the call. */
    float *magnitude;
};

/* Handed to `Component::sample`. */
struct MenagerieSampleCall {
    /* Size and version. */
    MenagerieHeader header;
    /* Logits `[V]` f32, changed in place; minus infinity takes a token out. */
    const MenagerieTensor *logits;
    /* Tokens so far, the prompt's included. */
    const uint32_t *tokens;
    /* How many. */
    size_t n_tokens;
    /* Of them, how many are the prompt's. */
    size_t n_prompt;
    /* A number that is the same for the same seed and position, whatever else is generated. */
    uint64_t random;
};

/* Handed to `Component::encode`. */
struct MenagerieEncodeCall {
    /* Size and version. */
    MenagerieHeader header;
    /* The text, without special tokens. */
    MenagerieText text;
    /* Given back to `push`. */
    void *context;
    /* Takes the ids in order. */
    MenagerieStatus (*push)(void *context, uint32_t id);
};

/* Handed to `Component::decode`. */
struct MenagerieDecodeCall {
    /* Size and version. */
    MenagerieHeader header;
    /* The token. */
    uint32_t id;
    /* Zero. */
    uint32_t padding;
    /* Given back to `push`. */
    void *context;
    /* Takes the token's bytes, in one or several pieces. */
    MenagerieStatus (*push)(void *context, MenagerieText bytes);
};

/* A component of a plugin. Of the functions after `destroy`, those of its family are there and the others are null. */
struct MenagerieComponent {
    /* Size and version. */
    MenagerieHeader header;
    /* One of the constants below. */
    uint32_t family;
    /* Bits of the constants below. */
    uint32_t flags;
    /* `[a-z0-9-]`; in specs it is `author/name:component`. */
    MenagerieText name;
    /* One sentence on what it computes and the source of its formula. */
    MenagerieText doc;
    /* Its options. */
    const MenagerieOptionDef *options;
    /* How many. */
    size_t n_options;
    /* The tensors it wants. */
    const MenagerieRoleDef *roles;
    /* How many. */
    size_t n_roles;
    /* Makes an instance: one per place of a model; of a sampler, one per request; of a layer hook, one for all layers. */
    MenagerieStatus (*create)(const MenagerieBuild *build, void **instance);
    /* Ends it; no other call of the instance is under way or comes later. */
    void (*destroy)(void *instance);
    /* Mixers, feed-forwards, norms, activations: rows to rows. May be called from several threads at once. */
    MenagerieStatus (*forward)(void *instance, const MenagerieCall *call);
    /* Ropes: the frequencies of a head. */
    MenagerieStatus (*frequencies)(void *instance, const MenagerieFrequencyCall *call);
    /* Samplers: changes logits in place. */
    MenagerieStatus (*sample)(void *instance, const MenagerieSampleCall *call);
    /* Tokenizers: text to ids. */
    MenagerieStatus (*encode)(void *instance, const MenagerieEncodeCall *call);
    /* Tokenizers: an id to bytes. */
    MenagerieStatus (*decode)(void *instance, const MenagerieDecodeCall *call);
    /* Layer hooks: rows between layers, looked at or replaced. May be called from several threads at once. */
    MenagerieStatus (*hook)(void *instance, const MenagerieHookCall *call);
};

/* Mixes tokens: inputs `x [T, D]`, output `[T, D]`. */
#define MENAGERIE_COMPONENT_MIXER 1

/* Transforms each token: inputs `x`, the stream before the norm, the block's input, `[T, D]` each; output `[T, D]`. */
#define MENAGERIE_COMPONENT_FEED_FORWARD 2

/* Input `x [T, width]`, output `[T, width]`; no state. */
#define MENAGERIE_COMPONENT_NORM 3

/* Input `x [T, F]`, output `[T, F]`, element by element; no state. */
#define MENAGERIE_COMPONENT_ACTIVATION 4

/* The frequencies by which a rope rotates. */
#define MENAGERIE_COMPONENT_ROPE 5

/* A step of the sampler chain. */
#define MENAGERIE_COMPONENT_SAMPLER 6

/* Texts to tokens and back. */
#define MENAGERIE_COMPONENT_TOKENIZER 7

/* Looks at the rows between layers, or puts others in their place: input `[T, D]`; output `[T, D]` if it
 * `Component::REPLACES`, else none. No state. */
#define MENAGERIE_COMPONENT_LAYER_HOOK 8

/* In `flags`: a mixer whose tokens see later ones, so that a sequence is computed in one step. */
#define MENAGERIE_COMPONENT_LOOKS_AHEAD 1

/* In `flags`: a layer hook that puts rows in the place of those it is shown; without it, it only looks. */
#define MENAGERIE_COMPONENT_REPLACES 2

/* In `flags`: a layer hook that is called before layers; one of this and the next, or both. */
#define MENAGERIE_COMPONENT_BEFORE_LAYERS 4

/* In `flags`: a layer hook that is called after layers. */
#define MENAGERIE_COMPONENT_AFTER_LAYERS 8

/* In `flags`: a layer hook that is shown prompts; one of this and the next, or both. */
#define MENAGERIE_COMPONENT_IN_PREFILL 16

/* In `flags`: a layer hook that is shown what was generated. */
#define MENAGERIE_COMPONENT_IN_DECODE 32

/* In `flags`: a mixer or feed-forward whose rows have the same bits whichever other rows are computed with them, and
 * in however many calls. With a state per sequence and without this flag, the host guesses no tokens. */
#define MENAGERIE_COMPONENT_EXACT_ROWS 64

/* An option that a spec may write in the component's table. */
struct MenagerieOptionDef {
    /* Its key. */
    MenagerieText name;
    /* One sentence. */
    MenagerieText doc;
    /* One of the constants below. */
    uint32_t kind;
    /* 1: what no file says and only logits would show (`show` lists it). */
    uint32_t guarded;
    /* What holds where it is not written, as TOML (`0.5`, `"mean"`); empty: none. */
    MenagerieText default_value;
    /* The canonical key of a file it is read from where it is not written (`rwkv.head_size`); empty: none. Without key and
     * default it must be written. */
    MenagerieText key;
    /* For `OptionDef::NAME`: the names it may be. */
    const MenagerieText *names;
    /* How many. */
    size_t n_names;
    /* Zero. */
    uint64_t reserved[2];
};

/* A whole number that is not negative, or an expression that gives one. */
#define MENAGERIE_OPTION_DEF_COUNT 1

/* A number, or an expression that gives one. */
#define MENAGERIE_OPTION_DEF_REAL 2

/* One of a list of names. */
#define MENAGERIE_OPTION_DEF_NAME 3

/* A text (the path of a file), of samplers, tokenizers and layer hooks; its default has no `"` and no `\` in it. */
#define MENAGERIE_OPTION_DEF_TEXT 4

/* A tensor that a component wants, `blk.N.<name>`; of a norm, under the role of its place. */
struct MenagerieRoleDef {
    /* Its role, GGUF's name between `blk.N.` and `.weight`; empty for a norm's own. */
    MenagerieText name;
    /* What it is. */
    MenagerieText doc;
    /* One of the constants below. */
    uint32_t form;
    /* 1: a file may lack it (`Build::has` says). */
    uint32_t optional;
    /* Sizes in symbols, the contiguous one first, as GGUF has them: `D`, `width` (a norm's), an option's name, a
     * number, sums of products of these with `/n` at a product's end (`heads*head_size`, `D/2+1`), or another symbol, which
     * the first tensor that has it binds. */
    const MenagerieText *dims;
    /* How many. */
    size_t n_dims;
    /* Zero. */
    uint64_t reserved[2];
};

/* `.weight` of a linear. */
#define MENAGERIE_ROLE_DEF_LINEAR 1

/* `.weight` and `.bias` of a linear. */
#define MENAGERIE_ROLE_DEF_LINEAR_WITH_BIAS 2

/* Numbers that no row is multiplied with: `.weight`, or the tensor a role with a suffix names. */
#define MENAGERIE_ROLE_DEF_VALUES 3

/* `.bias` alone. */
#define MENAGERIE_ROLE_DEF_BIAS 4

/* `.weight` of a linear, and its `.bias` if the file has one. */
#define MENAGERIE_ROLE_DEF_LINEAR_MAY_HAVE_BIAS 5

/* Which tensor of a role; two rows of `RoleDef` may share a name (a norm's `.weight` and `.bias`). */

/* `.weight`, or the tensor a role with a suffix names. */
#define MENAGERIE_PART_MAIN 0

/* `.bias`. */
#define MENAGERIE_PART_BIAS 1

/* Read from the file before it is opened. Texts are padded with zeros. */
struct MenagerieManifest {
    /* `MNGPLUG\x01`. */
    uint8_t magic[8];
    /* Bytes of the manifest as the plugin knows it. */
    uint32_t struct_size;
    /* Must be the host's. */
    uint16_t abi_major;
    /* At most the host's. */
    uint16_t abi_minor;
    /* Bits of `capability` that the plugin cannot do without; a subset of the host's. */
    uint64_t required_capabilities;
    /* Bits of `cpu_feature` that its code uses without asking; refused where the machine lacks one. */
    uint64_t cpu_features;
    /* Target triple, reported; the object's own architecture is what is compared. */
    uint8_t target[48];
    /* `author/name`, `[a-z0-9._-]` on both sides; in front of the name of every component. */
    uint8_t plugin_id[64];
    /* Reported. */
    uint8_t plugin_version[32];
    /* Reported. */
    uint8_t sdk_version[32];
    /* Compiler and version; reported, never compared. */
    uint8_t toolchain[96];
    /* 0: panics unwind (and are caught); 1: they abort the process, which the host warns of. */
    uint8_t panic_strategy;
    /* Zero. */
    uint8_t padding[7];
    /* Zero. */
    uint64_t reserved[8];
};

/* The first eight bytes. */
#define MENAGERIE_MANIFEST_MAGIC { 0x4d, 0x4e, 0x47, 0x50, 0x4c, 0x55, 0x47, 0x01 }

/* What a host can do. */

/* Rows of f32 in memory of the CPU. */
#define MENAGERIE_CAPABILITY_CPU_F32 UINT64_C(0x1)

/* Linears that the host computes (`Call::linear`). */
#define MENAGERIE_CAPABILITY_LINEARS UINT64_C(0x2)

/* Work over the host's threads (`Call::parallel_for`). */
#define MENAGERIE_CAPABILITY_PARALLEL_FOR UINT64_C(0x4)

/* States that the host keeps (`Build::declare_state`). */
#define MENAGERIE_CAPABILITY_STATES UINT64_C(0x8)

/* Weights as blocks of the file (`Build::weight`). */
#define MENAGERIE_CAPABILITY_GGML_BLOCKS UINT64_C(0x10)

/* Rows that layers hand to later layers of the same step (`Build::slot`). */
#define MENAGERIE_CAPABILITY_SLOTS UINT64_C(0x20)

/* All that this version knows. */
#define MENAGERIE_CAPABILITY_ALL UINT64_C(0x3f)

/* Features of processors that code may need. */

/* x86: AVX2. */
#define MENAGERIE_CPU_FEATURE_AVX2 UINT64_C(0x1)

/* x86: FMA. */
#define MENAGERIE_CPU_FEATURE_FMA UINT64_C(0x2)

/* x86: F16C. */
#define MENAGERIE_CPU_FEATURE_F16C UINT64_C(0x4)

/* x86: AVX-512 F. */
#define MENAGERIE_CPU_FEATURE_AVX512F UINT64_C(0x8)

/* x86: AVX-512 BW. */
#define MENAGERIE_CPU_FEATURE_AVX512BW UINT64_C(0x10)

/* x86: AVX-512 VL. */
#define MENAGERIE_CPU_FEATURE_AVX512VL UINT64_C(0x20)

/* x86: AVX-512 VNNI. */
#define MENAGERIE_CPU_FEATURE_AVX512VNNI UINT64_C(0x40)

/* arm: dot products of bytes. */
#define MENAGERIE_CPU_FEATURE_DOTPROD UINT64_C(0x100000000)

/* arm: half floats. */
#define MENAGERIE_CPU_FEATURE_FP16 UINT64_C(0x200000000)

/* arm: matrix products of bytes. */
#define MENAGERIE_CPU_FEATURE_I8MM UINT64_C(0x400000000)

/* The function a plugin exports: registers everything it has, then gives `OK`. Called once, before any model is
 * loaded. If it fails, nothing of the plugin is registered. */
typedef MenagerieStatus (*MenagerieInit)(const MenagerieHostApi *host, const MenagerieRegistrar *registrar);

/* What the host does for a plugin anywhere, on any thread; lives as long as the process. */
struct MenagerieHostApi {
    /* Size and version. */
    MenagerieHeader header;
    /* Bits of `capability`. */
    uint64_t capabilities;
    /* Bits of `cpu_feature` that this machine has. */
    uint64_t cpu_features;
    /* Given back to every function below. */
    void *context;
    /* Writes a line to the host's log: 1 error, 2 warning, 3 information, 4 debugging, 5 tracing. */
    void (*log)(void *context, uint32_t level, MenagerieText text);
    /* Says why the function that the host is waiting for on this thread fails; before it gives `ERROR`. */
    void (*set_error)(void *context, MenagerieText text);
};

/* Takes what a plugin has; lives until `Init` returns. */
struct MenagerieRegistrar {
    /* Size and version. */
    MenagerieHeader header;
    /* Given back to every function below. */
    void *context;
    /* Adds a component; it must live as long as the process. */
    MenagerieStatus (*add_component)(void *context, const MenagerieComponent *component);
    /* Adds an architecture: a spec as a file in a spec folder has it, under a file name (`rwkv7.toml`). */
    MenagerieStatus (*add_architecture)(void *context, MenagerieText file, MenagerieText toml);
    /* Adds a table of vocabularies or chats, as a file in `tokenizers/` of a spec folder has it. */
    MenagerieStatus (*add_table)(void *context, MenagerieText file, MenagerieText toml);
};

#if UINTPTR_MAX == UINT64_MAX
/* Sizes and offsets, where pointers have 8 bytes. */
MENAGERIE_ASSERT(sizeof(MenagerieHeader) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieHeader, struct_size) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieHeader, abi_major) == 4);
MENAGERIE_ASSERT(offsetof(MenagerieHeader, abi_minor) == 6);
MENAGERIE_ASSERT(sizeof(MenagerieText) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieText, data) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieText, len) == 8);
MENAGERIE_ASSERT(sizeof(MenagerieTensor) == 136);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, data) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, byte_len) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, dtype) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, device_type) == 20);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, device_id) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, ndim) == 28);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, shape) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, strides) == 80);
MENAGERIE_ASSERT(offsetof(MenagerieTensor, flags) == 128);
MENAGERIE_ASSERT(sizeof(MenagerieBuild) == 128);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, layer) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, layers) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, width) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, context) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, count) == 40);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, real) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, name) == 56);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, size) == 64);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, has) == 72);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, weight) == 80);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, values) == 88);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, linear) == 96);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, declare_state) == 104);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, slot) == 112);
MENAGERIE_ASSERT(offsetof(MenagerieBuild, vocabulary) == 120);
MENAGERIE_ASSERT(sizeof(MenagerieVocabulary) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieVocabulary, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieVocabulary, tokens) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieVocabulary, merges) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieVocabulary, context) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieVocabulary, token) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieVocabulary, merge) == 40);
MENAGERIE_ASSERT(sizeof(MenagerieToken) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieToken, text) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieToken, kind) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieToken, score) == 20);
MENAGERIE_ASSERT(sizeof(MenagerieLinear) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieLinear, number) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieLinear, padding) == 4);
MENAGERIE_ASSERT(offsetof(MenagerieLinear, inputs) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieLinear, outputs) == 16);
MENAGERIE_ASSERT(sizeof(MenagerieStateSpec) == 80);
MENAGERIE_ASSERT(offsetof(MenagerieStateSpec, name) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieStateSpec, kind) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieStateSpec, ndim) == 20);
MENAGERIE_ASSERT(offsetof(MenagerieStateSpec, shape) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieStateSpec, window) == 56);
MENAGERIE_ASSERT(offsetof(MenagerieStateSpec, reserved) == 64);
MENAGERIE_ASSERT(sizeof(MenagerieCall) == 152);
MENAGERIE_ASSERT(offsetof(MenagerieCall, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieCall, inputs) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieCall, n_inputs) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieCall, outputs) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieCall, n_outputs) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieCall, sequences) == 40);
MENAGERIE_ASSERT(offsetof(MenagerieCall, n_sequences) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieCall, states) == 56);
MENAGERIE_ASSERT(offsetof(MenagerieCall, n_states) == 64);
MENAGERIE_ASSERT(offsetof(MenagerieCall, slots) == 72);
MENAGERIE_ASSERT(offsetof(MenagerieCall, n_slots) == 80);
MENAGERIE_ASSERT(offsetof(MenagerieCall, token_ids) == 88);
MENAGERIE_ASSERT(offsetof(MenagerieCall, threads) == 96);
MENAGERIE_ASSERT(offsetof(MenagerieCall, context) == 104);
MENAGERIE_ASSERT(offsetof(MenagerieCall, linear) == 112);
MENAGERIE_ASSERT(offsetof(MenagerieCall, parallel_for) == 120);
MENAGERIE_ASSERT(offsetof(MenagerieCall, scratch) == 128);
MENAGERIE_ASSERT(offsetof(MenagerieCall, store) == 136);
MENAGERIE_ASSERT(offsetof(MenagerieCall, stored) == 144);
MENAGERIE_ASSERT(sizeof(MenagerieSequence) == 56);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, first_row) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, rows) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, past) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, positions) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, axes) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, decoding) == 36);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, pool) == 40);
MENAGERIE_ASSERT(offsetof(MenagerieSequence, number) == 48);
MENAGERIE_ASSERT(sizeof(MenagerieHookCall) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieHookCall, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieHookCall, call) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieHookCall, layer) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieHookCall, point) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieHookCall, padding) == 28);
MENAGERIE_ASSERT(sizeof(MenagerieFrequencyCall) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieFrequencyCall, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieFrequencyCall, base) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieFrequencyCall, rotated) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieFrequencyCall, context_length) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieFrequencyCall, frequencies) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieFrequencyCall, magnitude) == 40);
MENAGERIE_ASSERT(sizeof(MenagerieSampleCall) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieSampleCall, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieSampleCall, logits) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieSampleCall, tokens) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieSampleCall, n_tokens) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieSampleCall, n_prompt) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieSampleCall, random) == 40);
MENAGERIE_ASSERT(sizeof(MenagerieEncodeCall) == 40);
MENAGERIE_ASSERT(offsetof(MenagerieEncodeCall, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieEncodeCall, text) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieEncodeCall, context) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieEncodeCall, push) == 32);
MENAGERIE_ASSERT(sizeof(MenagerieDecodeCall) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieDecodeCall, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieDecodeCall, id) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieDecodeCall, padding) == 12);
MENAGERIE_ASSERT(offsetof(MenagerieDecodeCall, context) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieDecodeCall, push) == 24);
MENAGERIE_ASSERT(sizeof(MenagerieComponent) == 144);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, family) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, flags) == 12);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, name) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, doc) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, options) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, n_options) == 56);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, roles) == 64);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, n_roles) == 72);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, create) == 80);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, destroy) == 88);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, forward) == 96);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, frequencies) == 104);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, sample) == 112);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, encode) == 120);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, decode) == 128);
MENAGERIE_ASSERT(offsetof(MenagerieComponent, hook) == 136);
MENAGERIE_ASSERT(sizeof(MenagerieOptionDef) == 104);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, name) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, doc) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, kind) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, guarded) == 36);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, default_value) == 40);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, key) == 56);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, names) == 72);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, n_names) == 80);
MENAGERIE_ASSERT(offsetof(MenagerieOptionDef, reserved) == 88);
MENAGERIE_ASSERT(sizeof(MenagerieRoleDef) == 72);
MENAGERIE_ASSERT(offsetof(MenagerieRoleDef, name) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieRoleDef, doc) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieRoleDef, form) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieRoleDef, optional) == 36);
MENAGERIE_ASSERT(offsetof(MenagerieRoleDef, dims) == 40);
MENAGERIE_ASSERT(offsetof(MenagerieRoleDef, n_dims) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieRoleDef, reserved) == 56);
MENAGERIE_ASSERT(sizeof(MenagerieManifest) == 376);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, magic) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, struct_size) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, abi_major) == 12);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, abi_minor) == 14);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, required_capabilities) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, cpu_features) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, target) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, plugin_id) == 80);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, plugin_version) == 144);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, sdk_version) == 176);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, toolchain) == 208);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, panic_strategy) == 304);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, padding) == 305);
MENAGERIE_ASSERT(offsetof(MenagerieManifest, reserved) == 312);
MENAGERIE_ASSERT(sizeof(MenagerieHostApi) == 48);
MENAGERIE_ASSERT(offsetof(MenagerieHostApi, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieHostApi, capabilities) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieHostApi, cpu_features) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieHostApi, context) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieHostApi, log) == 32);
MENAGERIE_ASSERT(offsetof(MenagerieHostApi, set_error) == 40);
MENAGERIE_ASSERT(sizeof(MenagerieRegistrar) == 40);
MENAGERIE_ASSERT(offsetof(MenagerieRegistrar, header) == 0);
MENAGERIE_ASSERT(offsetof(MenagerieRegistrar, context) == 8);
MENAGERIE_ASSERT(offsetof(MenagerieRegistrar, add_component) == 16);
MENAGERIE_ASSERT(offsetof(MenagerieRegistrar, add_architecture) == 24);
MENAGERIE_ASSERT(offsetof(MenagerieRegistrar, add_table) == 32);
#endif

/* The text of a string literal, also in the initializer of a static. */
#define MENAGERIE_TEXT(literal) { (const uint8_t *)(literal), sizeof(literal) - 1 }

/* The head of a struct of this version. */
#define MENAGERIE_HEADER(type) { (uint32_t)sizeof(type), MENAGERIE_ABI_MAJOR, MENAGERIE_ABI_MINOR }

/* In front of the two symbols that a plugin exports. */
#if defined(_WIN32)
#define MENAGERIE_EXPORT __declspec(dllexport)
#else
#define MENAGERIE_EXPORT __attribute__((visibility("default")))
#endif

/* In front of the definition of the manifest: the section from which hosts read it. */
#if defined(_MSC_VER)
#pragma section(".mngplug", read)
#define MENAGERIE_MANIFEST __declspec(allocate(".mngplug"))
#elif defined(__APPLE__)
#define MENAGERIE_MANIFEST __attribute__((used, section("__DATA,__mngplug")))
#else
#define MENAGERIE_MANIFEST __attribute__((used, section(".mngplug")))
#endif

/* What a plugin defines:
 *
 * MENAGERIE_MANIFEST const MenagerieManifest MENAGERIE_PLUGIN_MANIFEST_V1 = {
 *     MENAGERIE_MANIFEST_MAGIC, sizeof(MenagerieManifest), MENAGERIE_ABI_MAJOR, MENAGERIE_ABI_MINOR,
 *     MENAGERIE_CAPABILITY_CPU_F32, 0, "", "author/name", "1.0.0", "", "gcc", 0, { 0 }, { 0 } };
 */
extern MENAGERIE_EXPORT const MenagerieManifest MENAGERIE_PLUGIN_MANIFEST_V1;
MENAGERIE_EXPORT MenagerieStatus menagerie_plugin_init_v1(const MenagerieHostApi *host, const MenagerieRegistrar *registrar);

#ifdef __cplusplus
}
#endif

#endif
