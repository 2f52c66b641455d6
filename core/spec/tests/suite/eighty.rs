//! A good spec with one thing wrong, ninety times: what is said of it is read in `snapshots/eighty.snap`.

use crate::model::{Fake, parse};

/// A spec that has a bit of everything.
pub(crate) const GOOD: &str = r#"schema = 1

[architecture]
id      = "my"
summary = "for faults"

[provenance]
reference = "hf"
source    = "transformers 5.23: MyForCausalLM"

[let]
local = "pattern('attention.sliding_window_pattern', 2)"

[embedding]
scale = "sqrt(embedding_length)"

[norm]
kind = "rms"
eps  = "attention.layer_norm_rms_epsilon"

[block]
mixer        = { pre = "attn_norm", post = "post_attention_norm" }
feed_forward = { pre = "ffn_norm", scale = 1 }

[mixer]
kind    = "attention"
scale   = "key_scale | default(0.125)"
qk_norm = { over = "head", at = "before-rope" }
window  = { kind = "sliding", size = "attention.sliding_window", when = "local" }

[mixer.rope]
kind    = "rotary"
pairs   = "halves"
base    = "rope.freq_base | default(10000)"
scaling = { accept = ["linear", "yarn"] }

[feed_forward.dense]
kind       = "gated"
activation = "silu"
when       = "not has('ffn_gate_inp')"

[feed_forward.experts]
kind    = "moe"
when    = "has('ffn_gate_inp')"
router  = { score = "softmax", weights = "sum-to-one" }
experts = { kind = "gated", activation = "silu" }

[output]
norm = "output_norm"
head = "own-or-tied"

[check]
"attention.causal | default(true)" = "it attends in both directions"

[gguf.ignore_keys]
"vision.*" = "text only"
"#;

/// The text that is wrong, and what stands there in its place.
const WRONG: [(&str, &str); 92] = [
    ("schema = 1", ""),
    ("schema = 1", "schema = 2"),
    ("schema = 1", "schema = \"1\""),
    ("schema = 1", "schema = 1\nextends = \"lama\""),
    ("schema = 1", "schema = 1\nextends = 3"),
    ("schema = 1", "schema = 1\nunset = [\"mixer\"]"),
    ("schema = 1", "schema = 1\nextends = \"llama\"\nunset = \"mixer\""),
    ("schema = 1", "schema = 1\nextends = \"llama\"\nunset = [\"mixer.windw\"]"),
    ("schema = 1", "schema = 1\nextends = \"gemma3\"\nunset = ['check.\"attention.causl | default(true)\"']"),
    ("schema = 1", "schema = 1\nextends = \"llama\"\nunset = [3]"),
    ("schema = 1", "schema = 1\nshema = 1"),
    ("schema = 1", "schema = 1\nschema = 1"),
    ("schema = 1", "schema = [1"),
    ("[architecture]", "[architektur]"),
    ("id      = \"my\"", ""),
    ("id      = \"my\"", "id = 7"),
    ("summary = \"for faults\"", "sumary = \"for faults\""),
    ("summary = \"for faults\"", "summary = [\"for faults\"]"),
    ("summary = \"for faults\"", "gguf = \"my\""),
    ("summary = \"for faults\"", "hf = \"MyForCausalLM\""),
    ("reference = \"hf\"", "reference = \"huggingface\""),
    ("reference = \"hf\"", ""),
    ("source    = \"transformers 5.23: MyForCausalLM\"", ""),
    ("local = \"pattern", "layer = \"pattern"),
    ("local = \"pattern", "attention = \"pattern"),
    ("local = \"pattern('attention.sliding_window_pattern', 2)\"", "local = \"other\"\nother = \"local\""),
    ("local = \"pattern('attention.sliding_window_pattern', 2)\"", "local = true"),
    ("'attention.sliding_window_pattern', 2)", "attention.sliding_window_pattern, 2)"),
    ("'attention.sliding_window_pattern', 2)", "'attention.sliding_window_pattern', 2, full='middle')"),
    ("'attention.sliding_window_pattern', 2)", "'attention.sliding_window_pattern', 2"),
    ("\"sqrt(embedding_length)\"", "\"sqrt(embeding_length)\""),
    ("\"sqrt(embedding_length)\"", "\"square_root(embedding_length)\""),
    ("\"sqrt(embedding_length)\"", "\"sqrt('embedding_length')\""),
    ("\"sqrt(embedding_length)\"", "\"sqrt(0 - embedding_length)\""),
    ("\"sqrt(embedding_length)\"", "\"embedding_length if false\""),
    ("\"sqrt(embedding_length)\"", "\"'eight'\""),
    ("\"sqrt(embedding_length)\"", "\"1 / 0\""),
    ("\"sqrt(embedding_length)\"", "\"\""),
    ("\"sqrt(embedding_length)\"", "\"embedding_length = 2\""),
    ("\"sqrt(embedding_length)\"", "\"embedding_length ^ 2\""),
    ("\"sqrt(embedding_length)\"", "\"layer + 1\""),
    ("\"sqrt(embedding_length)\"", "\"True\""),
    ("\"sqrt(embedding_length)\"", "\"-embedding_length ** 2\""),
    ("\"sqrt(embedding_length)\"", "\"embedding_length | round\""),
    ("\"sqrt(embedding_length)\"", "\"embedding_length | default\""),
    ("\"sqrt(embedding_length)\"", "\"embedding_length is odd\""),
    ("\"sqrt(embedding_length)\"", "true"),
    ("\"sqrt(embedding_length)\"", "nan"),
    ("\"sqrt(embedding_length)\"", "{ gguf = 1 }"),
    ("\"sqrt(embedding_length)\"", "{ gguf = 1, onnx = 2 }"),
    ("[embedding]", "[embeding]"),
    ("kind = \"rms\"", "kind = \"layernorm\""),
    ("kind = \"rms\"", ""),
    ("eps  = \"attention.layer_norm_rms_epsilon\"", ""),
    (
        "eps  = \"attention.layer_norm_rms_epsilon\"",
        "eps = \"attention.layer_norm_rms_epsilon\"\nbias = \"none\"",
    ),
    ("eps  = \"attention.layer_norm_rms_epsilon\"", "epsilon = 1e-5"),
    ("pre = \"attn_norm\"", "before = \"attn_norm\""),
    ("pre = \"attn_norm\"", "pre = \"attn_norm_1\""),
    ("pre = \"attn_norm\"", "pre = []"),
    ("pre = \"attn_norm\"", "pre = { weight = \"none\" }"),
    ("feed_forward = { pre = \"ffn_norm\", scale = 1 }", ""),
    ("scale = 1 }", "scale = \"residual_scale\" }"),
    ("kind    = \"attention\"", "kind = \"attenton\""),
    ("kind    = \"attention\"", ""),
    ("kind    = \"attention\"", "kind = \"attention\"\nwhen = \"layer > 0\""),
    ("kind    = \"attention\"", "kind = \"attention\"\nheads = 0"),
    ("kind    = \"attention\"", "kind = \"attention\"\nheads = 2.5"),
    ("kind    = \"attention\"", "kind = \"attention\"\nkv_heads = 3"),
    ("kind    = \"attention\"", "kind = \"attention\"\nmask = \"none\""),
    ("kind    = \"attention\"", "kind = \"attention\"\nmask = { by = \"masked\" }"),
    ("kind    = \"attention\"", "kind = \"attention\"\nmask = { by = \"embedding_length\", 1 = \"causal\" }"),
    ("kind    = \"attention\"", "kind = \"attention\"\nbias = { qkvs = \"none\" }"),
    ("over = \"head\"", "over = \"heads\""),
    ("over = \"head\", ", ""),
    ("at = \"before-rope\"", "at = \"before\""),
    ("size = \"attention.sliding_window\", ", ""),
    ("size = \"attention.sliding_window\"", "size = \"attention.slidng_window\""),
    ("when = \"local\"", "when = \"lokal\""),
    ("when = \"local\"", "when = \"attention.head_count\""),
    ("kind    = \"rotary\"", "kind = \"rotatory\""),
    ("pairs   = \"halves\"", ""),
    ("pairs   = \"halves\"", "pairs = { by = \"x\" }"),
    ("accept = [\"linear\", \"yarn\"]", "accept = [\"linear\", \"yaarn\"]"),
    ("accept = [\"linear\", \"yarn\"]", "accept = \"linear\""),
    ("activation = \"silu\"\nwhen", "activation = \"swish\"\nwhen"),
    ("not has('ffn_gate_inp')", "not has('ffn_gate_imp')"),
    ("not has('ffn_gate_inp')", "has('ffn_gate_inp')"),
    ("not has('ffn_gate_inp')", "false"),
    ("weights = \"sum-to-one\"", "weight = \"sum-to-one\""),
    ("head = \"own-or-tied\"", "head = \"shared\""),
    ("\"it attends in both directions\"", "true"),
    ("\"vision.*\" = \"text only\"", "\"attention.head_count\" = \"\""),
];

/// The file that the good spec fits.
pub(crate) fn small() -> Fake {
    let mut file = Fake::small(3).with("attention.sliding_window", 4i64);
    file.all_layers(&["post_attention_norm", "attn_q_norm", "attn_k_norm"]);
    file
}

#[test]
fn each_of_ninety_faults_is_said() {
    let file = small();
    let whole = parse(GOOD).unwrap_or_else(|faults| panic!("{faults}"));
    file.report(&whole).unwrap_or_else(|faults| panic!("{faults}"));
    let mut said = String::new();
    let mut taken = Vec::new();
    for (from, to) in WRONG {
        assert!(GOOD.contains(from), "the spec has no {from}");
        let text = GOOD.replacen(from, to, 1);
        let found = parse(&text).and_then(|spec| file.report(&spec).map(drop));
        match found {
            Ok(()) => taken.push(format!("{to:?} for {from:?}")),
            Err(faults) => {
                said.push_str(&format!(
                    "## `{}` for `{}`\n{faults}\n\n",
                    to.escape_debug(),
                    from.escape_debug()
                ));
            }
        }
    }
    assert!(taken.is_empty(), "nothing is said of:\n{}", taken.join("\n"));
    insta::assert_snapshot!("eighty", said);
}
