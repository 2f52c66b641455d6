#!/usr/bin/env python3
"""Fixtures of models that make vectors or scores: random weights with a fixed seed, hidden states, pooled vectors and scores by HF
transformers (float32, eager). The GGUF is written here under llama.cpp's names (conversion/bert.py and its neighbors): weights of two
dimensions and more are representable in f16 and stored so, others are F32.

reference.safetensors: tokens_prompt [48], tokens_long [300]; of both hidden_ (of long the last 8 rows), mean_, first_, last_; scores_ where
there is a classifier; of pairs of texts pair_scores [N, labels] (texts in the manifest). Variables: FIXTURES as in README.md; LCPP_EVAL, the program of
tools/lcpp_eval.cpp, and LCPP_BACKENDS, a CPU backend of llama.cpp whose GELU is the erf form (as tools/build_exact.py, with `ggml_gelu_f32`
of vec.h replaced), for what transformers has no class of: its hidden states are llama.cpp's, on a GGUF in F32."""
import hashlib, json, os, shutil, subprocess, sys, tempfile
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import gguf, hf_tensors, numpy as np, torch, transformers
from transformers import *
from safetensors.numpy import save_file
torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("FIXTURES", HERE + "/../fixtures")
V, D, PROMPT, LONG, ROWS = 96, 32, 48, 300, 8
MAKERS = {}
SAVED = {}      # "model": what `weights` filled last, which is saved as the HF directory
def maker(name, spec, **more):
    return lambda f: MAKERS.setdefault(name, (f, spec, more))

def seeded(name): return int(hashlib.sha256(name.encode()).hexdigest()[:6], 16) % 100000
def weights(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for n, p in sorted(model.named_parameters()):
            r = torch.randn(p.shape, generator=g)
            if p.ndim >= 2:
                p.copy_((r * (0.5 if "embed" in n else 1.2 / p.shape[-1] ** 0.5)).half().float())
            elif n.endswith("bias") : p.copy_(r * 0.1)
            else: p.add_(r * 0.1)
    SAVED["model"] = model
    return model.eval()

class File:
    """A GGUF under construction: keys below the architecture's prefix, tensors by llama.cpp's names."""
    def __init__(self, path, arch, tokenizer, half=True):
        folder, self.path, self.arch, self.half = os.path.dirname(path), path, arch, half
        self.w = gguf.GGUFWriter(self.path, arch); self.w.add_name("tiny " + os.path.basename(folder)); self.w.add_file_type(int(half))
        tokenizer(self.w)
    def keys(self, **keys):
        for key, value in keys.items():
            key = f"{self.arch}.{key.replace('__', '.')}"
            if isinstance(value, bool): self.w.add_bool(key, value)
            elif isinstance(value, int): self.w.add_uint32(key, value)
            elif isinstance(value, float): self.w.add_float32(key, value)
            elif isinstance(value, str): self.w.add_string(key, value)
            else: self.w.add_array(key, value)
    def types(self, count): self.w.add_token_type_count(count)
    def tensor(self, name, t):
        a = t.detach().numpy()
        if a.ndim >= 2:
            half = a.astype(np.float16); assert (half.astype(np.float32) == a).all(), name
            a = half if self.half else a
        self.w.add_tensor(name, np.ascontiguousarray(a))
    def close(self):
        self.w.write_header_to_file(); self.w.write_kv_data_to_file(); self.w.write_tensors_to_file(); self.w.close()

def no_tokenizer(w): w.add_tokenizer_model("no_vocab")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(x) for x in range(33, 127) if not chr(x).isupper()] + ["##" + chr(x) for x in range(97, 123)]
def wordpiece(w):
    """tiny_wordpiece of fixlib.py, spelled as the converter spells it."""
    tokens = [t if i < 5 else t[2:] if t.startswith("##") else "\u2581" + t for i, t in enumerate(WORDS[:V])]
    w.add_tokenizer_model("bert"); w.add_tokenizer_pre("bert-bge"); w.add_token_list(tokens); w.add_token_types([3] * 5 + [1] * (V - 5))
    for key, at in dict(padding=0, unknown=1, cls=2, bos=2, seperator=3, mask=4).items(): w.add_uint32(f"tokenizer.ggml.{key}_token_id", at)
    w.add_bool("tokenizer.ggml.add_bos_token", True); w.add_bool("tokenizer.ggml.add_sep_token", False)
def words_of(text):
    """The ids of a text of small letters, digits and marks."""
    at = {t: i for i, t in enumerate(WORDS[:V])}; ids = []
    for word in text.split():
        pieces = [at.get(("##" if i and c.isalpha() else "") + c) for i, c in enumerate(word)]
        ids += [1] if None in pieces else pieces
    return ids

def base(f, c, **more):
    f.keys(block_count=c.num_hidden_layers, context_length=more.pop("context", 320), embedding_length=c.hidden_size, attention__head_count=c.num_attention_heads, **more)
def permuted(t, heads):
    """Rows of each head in the order that neighboring pairs want (conversion/llama.py, `permute`)."""
    return t.reshape(heads, 2, t.shape[0] // heads // 2, *t.shape[1:]).swapaxes(1, 2).reshape(t.shape)
def layers(f, state, prefix, names, block="blk"):
    """Copies tensors: `names` of HF below `prefix` with the layer, to names of GGUF."""
    for n, t in state.items():
        for hf, to in names.items():
            for part in ("weight", "bias"):
                if "{}" in prefix + hf:
                    for i in range(8):
                        if n == (prefix + hf).format(i) + "." + part: f.tensor(f"{block}.{i}.{to}.{part}", t)

def plain(f, state, names):
    for hf, to in names.items():
        for part in ("weight", "bias"):
            if f"{hf}.{part}" in state: f.tensor(f"{to}.{part}", state[f"{hf}.{part}"])

BERT = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v", "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
BERT_ENDS = {"embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}
LLAMA = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
BERT_SIZE = dict(vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, layer_norm_eps=1e-5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
PAIRS = [("what is a zoo?", "a place with many animals"), ("what is a zoo?", "the price of tea"), ("tea", "a cup of tea, 2 euro!")]

@maker("bert-rank", "bert", pairs=PAIRS, notes=["BertForSequenceClassification with one label: pooler.dense is `cls`, classifier `cls.output`; tokens of the second text are of type 1"])
def _(f_of):
    c = BertConfig(**BERT_SIZE, max_position_embeddings=320, type_vocab_size=2, num_labels=1, pad_token_id=0)
    m = BertForSequenceClassification(c); s = weights(m, seeded("bert-rank")).state_dict()
    f = f_of("bert", wordpiece)
    base(f, c, feed_forward_length=48, attention__layer_norm_epsilon=1e-5, attention__causal=False, pooling_type=4, classifier__output_labels=["LABEL_0"]); f.types(2)
    plain(f, s, {"bert." + k: v for k, v in BERT_ENDS.items()}); plain(f, s, {"bert.embeddings.position_embeddings": "position_embd", "bert.pooler.dense": "cls", "classifier": "cls.output"})
    layers(f, s, "bert.encoder.layer.{}.", BERT)
    return f, m.bert, lambda ids, types=None: m(input_ids=ids, token_type_ids=types).logits[0]

@maker("xlm-roberta-rank", "bert", notes=["XLMRobertaForSequenceClassification with one label; the first two rows of positions are cut off by the converter"])
def _(f_of):
    c = XLMRobertaConfig(**BERT_SIZE, max_position_embeddings=322, type_vocab_size=1, num_labels=1, pad_token_id=1, bos_token_id=0, eos_token_id=2, classifier_dropout=0.0)
    m = XLMRobertaForSequenceClassification(c); s = weights(m, seeded("xlm")).state_dict()
    s["roberta.embeddings.position_embeddings.weight"] = s["roberta.embeddings.position_embeddings.weight"][2:]
    f = f_of("bert", no_tokenizer)
    base(f, c, feed_forward_length=48, attention__layer_norm_epsilon=1e-5, attention__causal=False, classifier__output_labels=["LABEL_0"]); f.types(1)
    plain(f, s, {"roberta." + k: v for k, v in BERT_ENDS.items()}); plain(f, s, {"roberta.embeddings.position_embeddings": "position_embd", "classifier.dense": "cls", "classifier.out_proj": "cls.output"})
    layers(f, s, "roberta.encoder.layer.{}.", BERT)
    return f, m.roberta, lambda ids, types=None: m(input_ids=ids).logits[0]

@maker("nomic-bert", "nomic-bert", notes=["rope of base 1000 over halves, gate and up apart, types (row 0), no biases but of the norms"])
def _(f_of):
    c = NomicBertConfig(**BERT_SIZE, type_vocab_size=2, pad_token_id=0, rope_parameters=dict(rope_type="default", rope_theta=1000.0))
    m = weights(NomicBertModel(c, add_pooling_layer=False), seeded("nomic")); s = m.state_dict()
    f = f_of("nomic-bert", wordpiece)
    base(f, c, feed_forward_length=48, attention__layer_norm_epsilon=1e-5, attention__causal=False, pooling_type=1, rope__freq_base=1000.0); f.types(2)
    plain(f, s, BERT_ENDS)
    layers(f, s, "layers.{}.", {**LLAMA, "post_attention_layernorm": "attn_output_norm", "post_mlp_layernorm": "layer_output_norm"})
    return f, m, None

@maker("jina-bert-v3", "jina-bert-v3", notes=["rope of base 20000 over halves, one type, biases everywhere"])
def _(f_of):
    c = JinaEmbeddingsV3Config(**BERT_SIZE, type_vocab_size=1, pad_token_id=1, rope_parameters=dict(rope_type="default", rope_theta=20000.0))
    m = weights(JinaEmbeddingsV3Model(c, add_pooling_layer=False), seeded("jina3")); s = m.state_dict()
    f = f_of("jina-bert-v3", no_tokenizer)
    base(f, c, feed_forward_length=48, attention__layer_norm_epsilon=1e-5, attention__causal=False, pooling_type=1, rope__freq_base=20000.0); f.types(1)
    plain(f, s, BERT_ENDS)
    layers(f, s, "layers.{}.", {**LLAMA, "post_attention_layernorm": "attn_output_norm", "post_mlp_layernorm": "layer_output_norm", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"})
    return f, m, None

def modern(f_of, rank):
    c = ModernBertConfig(vocab_size=V, hidden_size=D, num_hidden_layers=4, num_attention_heads=4, intermediate_size=24, max_position_embeddings=320, norm_eps=1e-5, local_attention=16, pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
        layer_types=["full_attention" if i % 3 == 0 else "sliding_attention" for i in range(4)], num_labels=2, classifier_pooling="mean", attn_implementation="eager",
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=160000.0), sliding_attention=dict(rope_type="default", rope_theta=1000.0)))
    m = (ModernBertForSequenceClassification if rank else ModernBertModel)(c); s = weights(m, seeded("modern" + str(rank))).state_dict()
    f, p = f_of("modern-bert", no_tokenizer), "model." if rank else ""
    base(f, c, feed_forward_length=24, attention__layer_norm_epsilon=1e-5, attention__causal=False, **({} if rank else dict(pooling_type=2)), rope__freq_base=160000.0, rope__freq_base_swa=1000.0, attention__sliding_window=16, attention__sliding_window_pattern=3, hidden_activation="gelu", attention__layer_norm_rms_epsilon=1e-5, vocab_size=V, rope__scaling__type="none"); f.types(1)
    if rank: f.keys(classifier__output_labels=["no", "yes"], classifier__pooling_type=1)
    plain(f, s, {p + "embeddings.tok_embeddings": "token_embd", p + "embeddings.norm": "token_embd_norm", p + "final_norm": "output_norm", "head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output"})
    layers(f, s, p + "layers.{}.", {"attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm", "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"})
    return f, (m.model if rank else m), (lambda ids, types=None: m(input_ids=ids).logits[0]) if rank else None
maker("modern-bert", "modern-bert", notes=["4 layers: full, two with a symmetric window of 16 and base 1000, full; the first without a norm; pooling is the first row"])(lambda f: modern(f, False))
maker("modern-bert-rank", "modern-bert", notes=["ModernBertForSequenceClassification with two labels: mean, linear, GELU, norm, linear"])(lambda f: modern(f, True))

def euro(f_of, arch, seed):
    c = EuroBertConfig(vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4 if arch == "neo-bert" else 2, intermediate_size=48, max_position_embeddings=320, rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=10000.0 if arch == "neo-bert" else 250000.0), pad_token_id=0, bos_token_id=2, eos_token_id=3, attn_implementation="eager")
    m = weights(EuroBertModel(c), seeded(seed)); s = dict(m.state_dict())
    f = f_of(arch, no_tokenizer)
    base(f, c, feed_forward_length=48, attention__layer_norm_rms_epsilon=1e-5, attention__head_count_kv=c.num_key_value_heads, pooling_type=dict(eurobert=3).get(arch, 1), rope__freq_base=c.rope_parameters["rope_theta"], rope__scaling__type="none")
    if arch != "llama-embed": f.keys(attention__causal=False)
    if arch != "eurobert":
        for i in range(2):
            for n, h in (("q", 4), ("k", c.num_key_value_heads)): s[f"layers.{i}.self_attn.{n}_proj.weight"] = permuted(s[f"layers.{i}.self_attn.{n}_proj.weight"], h)
    names = dict(LLAMA)
    if arch == "neo-bert":
        for i in range(2):
            s[f"layers.{i}.qkv.weight"] = torch.cat([s[f"layers.{i}.self_attn.{n}_proj.weight"] for n in "qkv"])
            s[f"layers.{i}.up.weight"] = torch.cat([s[f"layers.{i}.mlp.{n}_proj.weight"] for n in ("gate", "up")])
        names = {k: v for k, v in names.items() if v not in ("attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up")} | {"qkv": "attn_qkv", "up": "ffn_up"}
        f.types(1)
    plain(f, s, {"embed_tokens": "token_embd", "norm": "enc.output_norm" if arch == "neo-bert" else "output_norm"})
    layers(f, s, "layers.{}.", names)
    return f, m, None
maker("eurobert", "eurobert", notes=["2 layers, grouped queries, rope over halves; pooling is the last row"])(lambda f: euro(f, "eurobert", "euro"))
maker("llama-embed", "llama-embed", hf_class="LlamaBidirectionalModel", notes=["hidden states of EuroBertModel; q and k rows permuted as conversion/llama.py does"])(lambda f: euro(f, "llama-embed", "llamae"))
maker("neo-bert", "neo-bert", hf=False, notes=["hidden states of EuroBertModel; fused q, k, v and fused gate and up; q and k rows permuted for neighboring pairs"])(lambda f: euro(f, "neo-bert", "neo"))

def gemma(f_of, dense):
    c = Gemma3TextConfig(vocab_size=V, hidden_size=24, num_hidden_layers=6, num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=24, max_position_embeddings=320, rms_norm_eps=1e-5, sliding_window=16, use_bidirectional_attention=True, query_pre_attn_scalar=16, pad_token_id=0, attn_implementation="eager",
        layer_types=["sliding_attention"] * 5 + ["full_attention"], rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=1000000.0), sliding_attention=dict(rope_type="default", rope_theta=10000.0)))
    m = weights(Gemma3TextModel(c), seeded("gemmae" + dense * "dense")); s = {k: v + 1 if k.endswith("norm.weight") else v for k, v in m.state_dict().items()}
    f = f_of("gemma-embedding", no_tokenizer)
    base(f, c, feed_forward_length=24, attention__layer_norm_rms_epsilon=1e-5, attention__head_count_kv=1, attention__key_length=16, attention__value_length=16, attention__sliding_window=16, rope__freq_base=1000000.0, rope__freq_base_swa=10000.0, pooling_type=1)
    plain(f, s, {"embed_tokens": "token_embd", "norm": "output_norm"})
    layers(f, s, "layers.{}.", {**LLAMA, "post_attention_layernorm": "post_attention_norm", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"})
    if not dense: return f, m, None
    g = torch.Generator().manual_seed(seeded("gemmadense")); two, three = [(torch.randn(shape, generator=g) / shape[1] ** 0.5).half().float() for shape in ((40, 24), (28, 40))]
    f.tensor("dense_2.weight", two); f.tensor("dense_3.weight", three)
    f.keys(dense_2_feat_in=24, dense_2_feat_out=40, dense_3_feat_in=40, dense_3_feat_out=28)
    return f, m, lambda ids, types=None: torch.nn.functional.linear(torch.nn.functional.linear(m(input_ids=ids).last_hidden_state[0].mean(0), two), three)
GEMMA = "6 layers: five with a symmetric window of 16 and base 1e4, one without and base 1e6; pooling is the mean"
maker("gemma-embedding", "gemma-embedding", notes=[GEMMA])(lambda f: gemma(f, False))
maker("gemma-embedding-dense", "gemma-embedding", head="dense", notes=[GEMMA, "two linears without bias behind the mean, as modules.json of the published model has them (sentence-transformers' Dense with the identity): `dense_`"])(lambda f: gemma(f, True))

def qwen(f_of, rank):
    c = Qwen3Config(vocab_size=V, hidden_size=D, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=48, max_position_embeddings=320, rms_norm_eps=1e-6, tie_word_embeddings=False, attn_implementation="eager", rope_parameters=dict(rope_type="default", rope_theta=1000000.0))
    m = weights(Qwen3ForCausalLM(c), seeded("qwen" + str(rank))); s = m.state_dict()
    f = f_of("qwen3", no_tokenizer)
    base(f, c, feed_forward_length=48, attention__layer_norm_rms_epsilon=1e-6, attention__head_count_kv=2, attention__key_length=8, attention__value_length=8, rope__freq_base=1000000.0, pooling_type=4 if rank else 3)
    plain(f, s, {"model.embed_tokens": "token_embd", "model.norm": "output_norm"})
    if rank:
        f.keys(classifier__output_labels=["yes", "no"]); f.tensor("cls.output.weight", s["lm_head.weight"][[40, 41]])
    else: f.tensor("output.weight", s["lm_head.weight"])
    layers(f, s, "model.layers.{}.", {**LLAMA, "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"})
    return f, m.model, (lambda ids, types=None: torch.softmax(m(input_ids=ids).logits[0, -1, [40, 41]], -1)) if rank else None
maker("qwen3-embedding", "qwen3", notes=["a language model used for vectors: the last row behind the last norm; the head is in the file and not used"])(lambda f: qwen(f, False))
maker("qwen3-rank", "qwen3", hf=False, notes=["Qwen3 Reranker: `cls.output` is the rows of the head for two tokens, scores are their softmax"])(lambda f: qwen(f, True))

def t5(f_of, gated):
    c = T5Config(vocab_size=V, d_model=D, d_kv=12, num_heads=4, num_layers=3, d_ff=40, relative_attention_num_buckets=16, relative_attention_max_distance=128, feed_forward_proj="gated-gelu" if gated else "relu", layer_norm_epsilon=1e-5, dropout_rate=0.0, pad_token_id=0)
    m = weights(T5EncoderModel(c), seeded("t5" + str(gated))); s = m.state_dict()
    b = s["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]; b.mul_(2)
    f = f_of("t5encoder", no_tokenizer)
    base(f, type("C", (), dict(num_hidden_layers=3, hidden_size=D, num_attention_heads=4)), context=512, feed_forward_length=40, attention__layer_norm_rms_epsilon=1e-5, attention__layer_norm_epsilon=1e-5, attention__key_length=12, attention__value_length=12, attention__relative_buckets_count=16)
    plain(f, s, {"shared": "token_embd", "encoder.final_layer_norm": "enc.output_norm"})
    layers(f, s, "encoder.block.{}.layer.0.", {"SelfAttention.q": "attn_q", "SelfAttention.k": "attn_k", "SelfAttention.v": "attn_v", "SelfAttention.o": "attn_o", "layer_norm": "attn_norm", "SelfAttention.relative_attention_bias": "attn_rel_b"}, "enc.blk")
    layers(f, s, "encoder.block.{}.layer.1.", {"DenseReluDense.wi_0": "ffn_gate", "DenseReluDense.wi_1": "ffn_up", "DenseReluDense.wi": "ffn_up", "DenseReluDense.wo": "ffn_down", "layer_norm": "ffn_norm"}, "enc.blk")
    return f, m, None
T5 = "relative positions in buckets (16, up to 128 apart), values of the first layer for all; heads wider than the rows; "
maker("t5encoder", "t5encoder", notes=[T5 + "gated tanh-GELU (T5 1.1)"])(lambda f: t5(f, True))
maker("t5encoder-relu", "t5encoder", notes=[T5 + "relu without a gate (the first T5)"])(lambda f: t5(f, False))

class LlamaCpp:
    """What a GGUF in F32 gives in llama.cpp."""
    def __init__(self, path): self.path = path
    def hidden(self, ids):
        with tempfile.TemporaryDirectory() as d:
            open(d + "/jobs", "w").write(f"h 512 {len(ids)} 1 0 {len(ids)} " + " ".join(map(str, ids)) + "\n")
            subprocess.run([os.environ["LCPP_EVAL"], self.path, d + "/jobs", d + "/out"], check=True)
            raw = open(d + "/out", "rb").read(); rows, cols = np.frombuffer(raw[:8], np.int32)
            return np.frombuffer(raw[8:], np.float32).reshape(rows, cols).copy()

def by_llamacpp(f_of, arch, keys, tensors, seed):
    """Writes the same model twice: in F16 for the project, in F32 for llama.cpp. `tensors`: name and shape as in torch."""
    g = torch.Generator().manual_seed(seed); made = {}
    for name, shape in tensors.items():
        r = torch.randn(shape, generator=g)
        if len(shape) >= 2: made[name] = (r * (0.5 if "embd" in name or "types" in name else 1.2 / shape[-1] ** 0.5)).half().float()
        else: made[name] = r * 0.1 + (0 if name.endswith("bias") else 1)
    f = f_of(arch, placeholder_words)
    full = File(tempfile.mkdtemp() + "/" + "model-f32.gguf", arch, placeholder_words, half=False)
    for one in (f, full):
        one.keys(**keys); one.types(tensors["token_types.weight"][0])
        for name, t in made.items(): one.tensor(name, t)
    full.close()
    return f, LlamaCpp(full.path), None

def placeholder_words(w):
    """A vocabulary that llama.cpp loads."""
    wordpiece(w)

@maker("nomic-bert-moe", "nomic-bert-moe", notes=["3 layers, the second with 4 experts (top 2 of a softmax, as scored), rope over halves, one type", "llama.cpp 0.5.0, its GELU replaced by the erf form, which the model was trained with"])
def _(f_of):
    t = {"token_embd.weight": (V, D), "token_types.weight": (1, D), "token_embd_norm.weight": (D,), "token_embd_norm.bias": (D,)}
    for i in range(3):
        b = f"blk.{i}."
        t |= {b + "attn_qkv.weight": (3 * D, D), b + "attn_qkv.bias": (3 * D,), b + "attn_output.weight": (D, D), b + "attn_output.bias": (D,)}
        for n in ("attn_output_norm", "layer_output_norm"): t |= {b + n + ".weight": (D,), b + n + ".bias": (D,)}
        if i % 2 == 1: t |= {b + "ffn_gate_inp.weight": (4, D), b + "ffn_up_exps.weight": (4, 24, D), b + "ffn_down_exps.weight": (4, D, 24)}
        else: t |= {b + "ffn_up.weight": (24, D), b + "ffn_up.bias": (24,), b + "ffn_down.weight": (D, 24), b + "ffn_down.bias": (D,)}
    keys = dict(block_count=3, context_length=512, embedding_length=D, feed_forward_length=24, attention__head_count=4, attention__layer_norm_epsilon=1e-5, attention__causal=False, pooling_type=1, rope__freq_base=10000.0, moe_every_n_layers=2, expert_count=4, expert_used_count=2)
    return by_llamacpp(f_of, "nomic-bert-moe", keys, t, seeded("nomicmoe"))

def jina2(f_of, code):
    t = {"token_embd.weight": (V, D), "token_types.weight": (2, D), "token_embd_norm.weight": (D,), "token_embd_norm.bias": (D,)}
    for i in range(2):
        b = f"blk.{i}."
        for n in "qkv": t |= {b + f"attn_{n}.weight": (D, D), b + f"attn_{n}.bias": (D,)}
        t |= {b + "attn_output.weight": (D, D), b + "attn_output.bias": (D,)}
        t |= {b + "ffn_up.weight": (96, D)} if code else {b + "ffn_up.weight": (48, D), b + "ffn_gate.weight": (48, D)}
        t |= {b + "ffn_down.weight": (D, 48), b + "ffn_down.bias": (D,)}
        for n in ("attn_output_norm", "layer_output_norm") + code * ("attn_q_norm", "attn_k_norm", "attn_norm_2"): t |= {b + n + ".weight": (D,), b + n + ".bias": (D,)}
    keys = dict(block_count=2, context_length=512, embedding_length=D, feed_forward_length=48, attention__head_count=4, attention__layer_norm_epsilon=1e-5, attention__causal=False, pooling_type=1)
    return by_llamacpp(f_of, "jina-bert-v2", keys, t, seeded("jina2" + code * "code"))
JINA2 = ["ALiBi (8) on both sides, 4 heads, types (row 0)", "llama.cpp 0.5.0, its GELU replaced by the erf form, which the model was trained with"]
maker("jina-bert-v2", "jina-bert-v2", notes=JINA2)(lambda f: jina2(f, False))
maker("jina-bert-v2-code", "jina-bert-v2", notes=JINA2 + ["gate and up in one, norms over all heads on q and k, a second norm behind the attention that gets the layer's input once more"])(lambda f: jina2(f, True))

def hf_directory(folder, more):
    """The HF directory of what `weights` filled last; `more`: under which name of class, where transformers has none of it."""
    with tempfile.TemporaryDirectory() as d:
        SAVED["model"].save_pretrained(d); config = json.load(open(d + "/config.json"))
        if "hf_class" in more: config["architectures"] = [more["hf_class"]]
        hf_tensors.store(d, folder + "/model-f16.gguf", folder + "/hf", config)

@torch.inference_mode()
def make(name):
    build, spec, more = MAKERS[name]
    folder = f"{ROOT}/zoo/{name}"; shutil.rmtree(folder, ignore_errors=True); os.makedirs(folder)
    files = []
    def f_of(arch, tokenizer): files.append(File(folder + "/model-f16.gguf", arch, tokenizer)); return files[-1]
    f, model, scores = build(f_of); f.close()
    if not isinstance(model, LlamaCpp) and more.get("hf", True): hf_directory(folder, more)
    r = np.random.default_rng(seeded(name + "tokens")); ref, info = {}, {}
    for key, count in (("prompt", PROMPT), ("long", LONG)):
        ids = r.integers(5, V, count).astype(np.int64); t = torch.tensor(ids[None])
        h = model.hidden(ids) if isinstance(model, LlamaCpp) else model(input_ids=t).last_hidden_state[0].numpy()
        ref["tokens_" + key] = ids; ref["hidden_" + key] = h if key == "prompt" else h[-ROWS:]
        ref["mean_" + key], ref["first_" + key], ref["last_" + key] = h.mean(0), h[0], h[-1]
        if scores: ref[more.get("head", "scores") + "_" + key] = scores(t).numpy()
    info["hidden_std"] = round(float(ref["hidden_prompt"].std()), 3)
    if "pairs" in more:
        rows = []
        for q, d in more["pairs"]:
            a, b = [2] + words_of(q) + [3], words_of(d) + [3]
            rows.append(scores(torch.tensor([a + b]), torch.tensor([[0] * len(a) + [1] * len(b)])).numpy())
        ref["pair_scores"] = np.stack(rows); info["pairs"] = more["pairs"]
    save_file({k: np.ascontiguousarray(v) for k, v in ref.items()}, folder + "/reference.safetensors")
    sizes = {n: os.path.getsize(folder + "/" + n) for n in hf_tensors.files(folder)}; assert sum(sizes.values()) < 150_000, sizes
    made = dict(llama_cpp="0.5.0") if isinstance(model, LlamaCpp) else dict(hf_class=type(model).__name__, transformers=transformers.__version__, torch=torch.__version__)
    entry = dict(name=name, spec=spec, arch=f.arch, encoder=True, **made, notes=more["notes"], **info, sha256={n: hashlib.sha256(open(folder + "/" + n, "rb").read()).hexdigest() for n in sizes})
    print(name, sizes, info["hidden_std"], {k: [round(float(x), 3) for x in ref[k].ravel()[:3]] for k in ref if k.startswith(("scores", "pair"))})
    return entry

if __name__ == "__main__":
    path = ROOT + "/zoo/manifest.json"; head, *lines = open(path).read().splitlines()
    kept = {json.loads(line.rstrip(","))["name"]: line.rstrip(",") for line in lines if line.startswith("{")}
    for name in sys.argv[1:] or MAKERS: kept[name] = json.dumps(make(name), ensure_ascii=False)
    open(path, "w").write(head + "\n" + ",\n".join(kept[n] for n in sorted(kept)) + "\n" + "\n".join(line for line in lines if not line.startswith("{")) + "\n")
