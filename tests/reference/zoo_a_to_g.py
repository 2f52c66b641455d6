#!/usr/bin/env python3
"""Zoo fixtures of architectures whose ids begin with a to g, beyond those of make.py: zoo_a_to_g.py [name ...]
Needs what make.py needs; writes to FIXTURES like it."""
from make import *
from by_llamacpp import *

LLAMA_SENS = {"theta 1e4": dict(rope_parameters=rope()), "eps x10": dict(rms_norm_eps=1e-4)}
@zoo("arcee", sens={**LLAMA_SENS, "relu": dict(hidden_act="relu"), "no factors": lambda m: m.model.rotary_emb.inv_freq.copy_(1 / 50000.0 ** (torch.arange(0, 8, 2).float() / 8))}, notes=["llama without a gate, squared relu; llama3 factors (orig 32, factor 4): tensor rope_freqs; q/k rows permuted; untied"])
def _(): return ArceeConfig(**z(hidden_act="relu2", rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, rope_parameters=dict(rope_type="llama3", rope_theta=50000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)))

GEMMA_INIT = dict(embed_std=0.06, final_norm=6.0)
def plain_vocabulary(*classes):     # their set_vocab wants a tokenizer of their own
    import importlib
    sys.path.insert(0, VENDOR); sys.path.insert(0, VENDOR + "/gguf-py")
    for where, name in classes:
        cls = getattr(importlib.import_module("conversion." + where), name)
        cls.set_vocab = importlib.import_module("conversion.base").TextModel._set_vocab_gpt2
plain_vocabulary(("gemma", "GemmaModel"), ("gemma", "Gemma2Model"), ("glm", "Glm4Model"), ("glm", "Glm4MoeModel"), ("chatglm", "ChatGLMModel"), ("ernie", "Ernie4_5Model"))
@zoo("arcee-yarn", arch_spec="arcee", sens={"theta 1e4": dict(rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5, mscale=1.0)), "no scaling": dict(rope_parameters=rope(50000.0)), "magnitude 1": lambda m: setattr(m.model.rotary_emb, "attention_scaling", 1.0), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["AFM 4.5B: arcee with yarn (factor 8, orig 64, beta 4 and 0.5)"])
def _(): return ArceeConfig(**z(num_hidden_layers=2, hidden_act="relu2", rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, rope_parameters=dict(rope_type="yarn", rope_theta=50000.0, factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5, mscale=1.0)))

@zoo("gemma", init=GEMMA_INIT, sens={"no embedding scale": setting("embed_tokens.embed_scale", lambda t: t * 0 + 1), "erf gelu": dict(hidden_act="gelu"), "norm weights = 1": zeroed("input_layernorm", "post_attention_layernorm"), "scale 1/sqrt(hidden/heads)": setting("self_attn.scaling", lambda x: 0.25), "eps x10": dict(rms_norm_eps=1e-5)},
     notes=["norm weights stored without the 1 in HF, with it in the GGUF; embedding times sqrt(32); head_dim 20 of hidden/heads 16; kv heads 1; tanh GELU gate; tied; the vocabulary is written as gpt2"])
def _(): return GemmaConfig(**z(intermediate_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=20, rms_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True, pad_token_id=0, rope_parameters=rope()))
@zoo("gemma2", init=GEMMA_INIT, sens={"window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "full layers first": dict(layer_types=["full_attention", "sliding_attention"] * 2), "no score softcap": dict(attn_logit_softcapping=None), "no logit softcap": dict(final_logit_softcapping=None), "scale 1/sqrt(hidden/heads)": dict(query_pre_attn_scalar=16), "no embedding scale": setting("embed_tokens.embed_scale", lambda t: t * 0 + 1), "erf gelu": dict(hidden_activation="gelu"), "eps x10": dict(rms_norm_eps=1e-5)},
     notes=["4 layers: windowed (16), full, windowed, full; 4 norms a layer with (1+w); score softcap 3, logit softcap 4 (published: 50 and 30); embedding times sqrt(32); head_dim 20 of hidden/heads 16; kv heads 1; tied; the GGUF has no pattern key"])
def _(): return Gemma2Config(**z(num_hidden_layers=4, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=20, sliding_window=16, query_pre_attn_scalar=20, attn_logit_softcapping=3.0, final_logit_softcapping=4.0, rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh", layer_types=["sliding_attention", "full_attention"] * 2, tie_word_embeddings=True, pad_token_id=0, rope_parameters=rope()))

GLM_SENS = {"no qkv bias": zeroed("q_proj.bias", "k_proj.bias", "v_proj.bias"), "theta 1e3": dict(rope_parameters=rope(1000.0, partial_rotary_factor=0.5)), "eps x10": dict(rms_norm_eps=1e-4)}
@zoo("chatglm", patch=lambda h: h.setdefault("seq_length", h["max_position_embeddings"]), sens=GLM_SENS, notes=["GLM 4 9B chat (GlmForCausalLM): q/k/v biases; rope over adjacent pairs of the first 4 of 8 dims, not permuted; gate and up fused in ffn_up; untied; the vocabulary is written as gpt2", "eps is 1e-5, which is what the converter writes whatever rms_norm_eps says"])
def _(): return GlmConfig(**z(head_dim=8, intermediate_size=48, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=True, rope_parameters=rope(partial_rotary_factor=0.5)))
@zoo("glm4", sens={**GLM_SENS, "branch norm weights = 1": ones("post_self_attn_layernorm", "post_mlp_layernorm")}, notes=["norms before and behind both branches; q/k/v biases; rope over adjacent pairs of the first 4 of 8 dims, not permuted; gate and up fused in ffn_up; untied; the vocabulary is written as gpt2"])
def _(): return Glm4Config(**z(head_dim=8, intermediate_size=48, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=True, rope_parameters=rope(partial_rotary_factor=0.5)))

NEOX_SENS = {"tanh gelu": dict(hidden_act="gelu_pytorch_tanh"), "no qkv bias": zeroed("query_key_value.bias"), "norm bias 0": zeroed("layernorm.bias"), "theta 2e4": dict(rope_parameters=rope(20000.0, partial_rotary_factor=0.5)), "eps x10": dict(layer_norm_eps=1e-4)}
def neox(**k): return GPTNeoXConfig(**{x: y for x, y in z(hidden_act="gelu", layer_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=True, rope_parameters=rope(partial_rotary_factor=0.5), **k).items() if x != "num_key_value_heads"})
@zoo("gptneox", patch=lambda h: h.setdefault("rotary_pct", 0.5), sens={**NEOX_SENS, "sequential": dict(use_parallel_residual=False)}, notes=["Pythia, GPT-NeoX 20B: parallel on two norms, biases everywhere but the head, erf GELU, rope over the first 4 of 8 dims, fused qkv interleaved by head in HF; untied"])
def _(): return neox(use_parallel_residual=True)
@zoo("gptneox-serial", arch_spec="gptneox", patch=lambda h: h.setdefault("rotary_pct", 0.5), sens={**NEOX_SENS, "parallel": dict(use_parallel_residual=True)}, notes=["as gptneox, one branch after the other (use_parallel_residual false: RedPajama, StableLM alpha's kin)"])
def _(): return neox(use_parallel_residual=False)

@zoo("ernie4_5", sens=LLAMA_SENS, notes=["llama with rope over adjacent pairs in HF too, not permuted; head_dim 12 of hidden/heads 8; tied; the vocabulary is written as gpt2"])
def _(): return Ernie4_5Config(**z(head_dim=12, use_bias=False, rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=rope(50000.0)))
@zoo("ernie4_5-moe", init=dict(final_norm=4.0), sens={**LLAMA_SENS, "no selection bias": lambda m: [b.zero_() for n, b in m.named_buffers() if "moe_statics" in n] or [p.data.zero_() for n, p in m.named_parameters() if "moe_statics" in n], "top 1": dict(moe_k=1), "no shared expert": zeroed("shared_experts.down_proj")},
     notes=["4 layers: dense, then experts (4, top 2, softmax, selection bias, weights to sum 1, two shared experts as one of width 24); rope over adjacent pairs, not permuted; tied; the vocabulary is written as gpt2"])
def _(): return Ernie4_5_MoeConfig(**z(num_hidden_layers=3, intermediate_size=40, moe_intermediate_size=12, moe_num_experts=4, moe_k=2, moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2, moe_layer_interval=1, use_bias=False, rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=rope(50000.0)))

EXAONE_SENS = {"q/k norm weights = 1": ones("q_norm", "k_norm"), "branch norm weights = 1": ones("post_attention_layernorm", "post_feedforward_layernorm"), "eps x10": dict(rms_norm_eps=1e-4)}
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
@zoo("exaone4", sens={**EXAONE_SENS, "theta 2e4": dict(rope_parameters=rope(20000.0))}, notes=["EXAONE 4 1.2B: norms behind the branches only, q/k norm per head before rope, rope everywhere with llama3 factors (orig 32, factor 4); no window; tied"])
def _(): return Exaone4Config(**z(sliding_window=None, sliding_window_pattern=None, layer_types=["full_attention"] * 3, rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=LLAMA3))
@zoo("exaone4-32b", arch_spec="exaone4", sens={**EXAONE_SENS, "window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "rope everywhere": setting("self_attn.is_sliding", True)}, notes=["EXAONE 4 32B: three windowed layers (16) with rope, every fourth full without; llama3 factors; untied", "llama.cpp applies the window and the layers without rope only at 64 layers; HF is the truth"])
def _(): return Exaone4Config(**z(num_hidden_layers=4, intermediate_size=48, sliding_window=16, sliding_window_pattern=4, layer_types=["sliding_attention"] * 3 + ["full_attention"], rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=LLAMA3))

MOE_SENS = {"no selection bias": lambda m: [b.zero_() for n, b in m.named_buffers() if "e_score_correction_bias" in n], "top 1": dict(num_experts_per_tok=1), "no shared expert": zeroed("shared_experts.down_proj"), "not renormalized": setting(".gate.norm_topk_prob", False), "factor 1": setting(".gate.routed_scaling_factor", 1.0), "q/k norm weights = 1": ones("q_norm", "k_norm"), "eps x10": dict(rms_norm_eps=1e-4)}
def sigmoid(h): h.setdefault("scoring_func", "sigmoid")
@zoo("dots1", patch=sigmoid, sens=MOE_SENS, notes=["3 layers: dense, then experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 2.5, a shared expert of width 24); q/k norm per head before rope; halves, not permuted; untied", "scoring_func is added to config.json: the class is sigmoid and transformers 5 does not write it"])
def _(): return Dots1Config(**z(head_dim=8, intermediate_size=40, moe_intermediate_size=12, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, n_group=1, topk_group=1, sliding_window=None, layer_types=["full_attention"] * 3, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, rope_parameters=rope()))
GLM_MOE = dict(head_dim=8, intermediate_size=40, moe_intermediate_size=12, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, n_group=1, topk_group=1, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=True, rope_parameters=rope(partial_rotary_factor=0.5), num_mtp_layers=0, num_nextn_predict_layers=0)
@zoo("glm4moe", sens={**{k: v for k, v in MOE_SENS.items() if "norm weights" not in k}, "no qkv bias": zeroed("q_proj.bias", "k_proj.bias", "v_proj.bias")}, notes=["GLM 4.5 Air: 3 layers: dense, then experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 2.5, a shared expert); q/k/v biases; rope over halves of the first 4 of 8 dims; no q/k norm; the norm before the feed-forward is post_attention_norm; untied; the vocabulary is written as gpt2"])
def _(): return Glm4MoeConfig(**z(**GLM_MOE, use_qk_norm=False))
@zoo("glm4moe-qknorm", arch_spec="glm4moe", sens=MOE_SENS, notes=["GLM 4.5 and 4.6: as glm4moe with q/k norm per head before rope"])
def _(): return Glm4MoeConfig(**z(**GLM_MOE, use_qk_norm=True))
@zoo("exaone-moe", patch=sigmoid, sens={**MOE_SENS, "window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "rope everywhere": setting("self_attn.is_sliding", True)}, notes=["K-EXAONE: 4 layers, three windowed (16) with rope, the fourth full without; dense, then experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 2.5, a shared expert); q/k norm per head before rope; norms before the branches; untied", "scoring_func is added to config.json: the class is sigmoid and transformers 5 does not write it"])
def _(): return ExaoneMoeConfig(**z(num_hidden_layers=4, head_dim=8, intermediate_size=32, moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, n_group=1, topk_group=1, sliding_window=16, sliding_window_pattern=4, layer_types=["sliding_attention"] * 3 + ["full_attention"], rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope()))

@zoo("dbrx", sens={"no clamp": setting("norm_attn_norm.attn.clip_qkv", 1e4), "top 1": lambda m: [setattr(x, "top_k", 1) for x in m.modules() if hasattr(x, "top_k")] + [setattr(x, "moe_top_k", 1) for x in m.modules() if hasattr(x, "moe_top_k")]}, notes=["LayerNorm without bias, fused qkv clamped to 1.5 (published: 8), experts (4, top 2, softmax, weights to sum 1); the norm before the experts is attn_output_norm; halves, not permuted; untied"])
def _(): return DbrxConfig(d_model=32, n_heads=4, n_layers=3, max_seq_len=1024, vocab_size=V_TINY, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, rope_parameters=rope(50000.0),
    attn_config=dict(clip_qkv=1.5, kv_n_heads=2, rope_theta=50000.0), ffn_config=dict(hidden_size=32, ffn_hidden_size=16, moe_num_experts=4, moe_top_k=2, moe_normalize_expert_weights=1.0, ffn_act_fn=dict(name="silu")))

@zoo("cohere2moe", init=dict(final_norm=12.0), hub_keep=True, sens={"window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "no rope on the dense layer": setting("self_attn.force_rope", False), "shared experts added, not averaged": dict(shared_expert_combination_strategy="sum"), "not renormalized": dict(norm_topk_prob=False), "top 1": dict(num_experts_per_tok=1), "logit scale 1/16": dict(logit_scale=0.0625), "eps x10": dict(layer_norm_eps=1e-4)},
     notes=["5 layers: dense and full with rope, full without rope, two windowed (16) with rope, full without; experts (4, top 2 by logits, sigmoid, weights to sum 1) averaged with a shared expert; parallel on one norm without bias; adjacent pairs, not permuted; logits times 0.25; tied"])
def _(): return Cohere2MoeConfig(**z(num_hidden_layers=5, head_dim=8, intermediate_size=12, prefix_dense_intermediate_size=24, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, expert_selection_fn="sigmoid", norm_topk_prob=True, shared_expert_combination_strategy="average", sliding_window=16, logit_scale=0.25, layer_norm_eps=1e-5, tie_word_embeddings=True, pad_token_id=0,
    layer_types=["full_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"], mlp_layer_types=["dense"] + ["sparse"] * 4, rope_theta=10000.0))

SWA_SENS = {**GRANITE_SENS, "theta 1e4": dict(layer_rope_theta=[10000.0] * 4)}
GRANITE_SWA = dict(num_hidden_layers=4, sliding_window=16, layer_types=["full_attention"] + ["sliding_attention"] * 3)
SINKS = {"no sinks": lambda m: [p.data.fill_(-1e4) for n, p in m.named_parameters() if "sinks" in n], "window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17)}
def some_sinks(n, p, r):
    if "sinks" not in n: return False
    p.copy_(r(p)); return True
@zoo("granite_swa", init=GRANITE_INIT, hook=some_sinks, sens={**SWA_SENS, **SINKS}, notes=["granite with three windowed layers (16) in four, full ones first, a sink per head in every layer; q/k rows permuted; tied"])
def _(): return GraniteSWAConfig(**z(**GRANITE, **GRANITE_SWA, intermediate_size=40, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, mlp_bias=False, rope_parameters=rope(50000.0)))
@zoo("granite_swa-moe", arch_spec="granite_swa", init=GRANITE_INIT, hook=some_sinks, sens={**SWA_SENS, **SINKS, "top 1": dict(num_experts_per_tok=1), "no shared expert": zeroed("shared_mlp.output_linear")}, notes=["as granite_swa with experts (4, top 2, softmax over the chosen) and a shared expert, gate and up fused in both"])
def _(): return GraniteMoeSWAConfig(**z(**GRANITE, **GRANITE_SWA, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=16, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, rope_parameters=rope(50000.0)))

# ------------------------------------------------------------------ no class in transformers, but one with the same mathematics: its weights under the other's names
plain_vocabulary(("baichuan", "BaichuanModel"))
from conversion.baichuan import BaichuanModel
from conversion.base import TextModel
_baichuan = BaichuanModel.modify_tensors     # calls itself for ever for every tensor but W_pack
BaichuanModel.modify_tensors = lambda self, data, name, bid: _baichuan(self, data, name, bid) if "W_pack" in name else TextModel.modify_tensors(self, data, name, bid)
def baichuan(w, j):
    j.update(architectures=["BaichuanForCausalLM"], model_type="baichuan"); L = "model.layers.%d.self_attn."
    for i in range(j["num_hidden_layers"]): w[L % i + "W_pack.weight"] = torch.cat([w.pop(L % i + x + "_proj.weight") for x in "qkv"])
    return w
@zoo("baichuan", rename=baichuan, no_class=True, sens=LLAMA_SENS, notes=["Baichuan 7B: llama, q, k and v in one matrix in HF; q/k rows permuted in the GGUF; untied; the vocabulary is written as gpt2", "logits of LlamaForCausalLM; its weights were given Baichuan's names and shapes before they were converted; the converter calls itself for ever, repaired in the maker"])
def _(): return LlamaConfig(**z(num_key_value_heads=4, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, rope_parameters=rope(50000.0)))

def codeshell(w, j):
    out = {}
    for n, x in w.items():
        for a, b in (("model.layers.", "transformer.h."), ("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"), ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"), ("self_attn.o_proj", "attn.c_proj")): n = n.replace(a, b)
        out[n] = x
    for i in range(j["num_hidden_layers"]):
        for s in ("weight", "bias"): out[f"transformer.h.{i}.attn.c_attn.{s}"] = torch.cat([out.pop(f"transformer.h.{i}.self_attn.{x}_proj.{s}") for x in "qkv"])
    j.update(architectures=["CodeShellForCausalLM"], model_type="codeshell", n_positions=1024, n_embd=32, n_head=4, num_query_groups=2, layer_norm_epsilon=j["norm_epsilon"], n_layer=j["num_hidden_layers"])
    return out
@zoo("codeshell", rename=codeshell, no_class=True, sens={"erf gelu": dict(hidden_act="gelu"), "no qkv bias": zeroed("q_proj.bias", "k_proj.bias", "v_proj.bias"), "no output bias": zeroed("o_proj.bias"), "no feed-forward bias": zeroed("c_fc.bias", "c_proj.bias"), "theta 2e4": dict(rope_parameters=rope(20000.0)), "eps x10": dict(norm_epsilon=1e-4)},
     notes=["CodeShell 7B: LayerNorm, biases everywhere but the head, fused qkv with grouped queries, rope over halves, tanh GELU; untied", "logits of Starcoder2ForCausalLM; its weights were given CodeShell's names and shapes before they were converted"])
def _(): return Starcoder2Config(**z(intermediate_size=128, num_hidden_layers=2, use_bias=True, sliding_window=None, norm_epsilon=1e-5, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=False, rope_parameters=rope()))

# ------------------------------------------------------------------ no class in transformers: logits by llama.cpp
def model(layers, tied=False):
    """Names and shapes: what every model has, then layers(i) under blk.i."""
    out = {"token_embd.weight": (V_TINY, 32), "output_norm.weight": (32,)}
    if not tied: out["output.weight"] = (V_TINY, 32)
    for i, layer in enumerate(layers):
        for n, shape in layer.items(): out[f"blk.{i}.{n}"] = shape
    return out
def attention(heads=4, kv=2, dim=8, fused=False, norm="attn_norm.weight"):
    qkv = {"attn_qkv.weight": ((heads + 2 * kv) * dim, 32)} if fused else {"attn_q.weight": (heads * dim, 32), "attn_k.weight": (kv * dim, 32), "attn_v.weight": (kv * dim, 32)}
    return {norm: (32,), **qkv, "attn_output.weight": (32, heads * dim)}
def swiglu(ff): return {"ffn_norm.weight": (32,), "ffn_gate.weight": (ff, 32), "ffn_up.weight": (ff, 32), "ffn_down.weight": (32, ff)}
def experts(n, ff, shared=0, bias=False):
    return {"ffn_norm.weight": (32,), "ffn_gate_inp.weight": (n, 32), "ffn_gate_exps.weight": (n, ff, 32), "ffn_up_exps.weight": (n, ff, 32), "ffn_down_exps.weight": (n, 32, ff), **({"exp_probs_b.bias": (n,)} if bias else {}),
            **({"ffn_gate_shexp.weight": (shared, 32), "ffn_up_shexp.weight": (shared, 32), "ffn_down_shexp.weight": (32, shared)} if shared else {})}
K = {"block_count": 3, "context_length": 1024, "embedding_length": 32, "feed_forward_length": 48, "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 50000.0}
EPS = {"eps x10": ({"attention.layer_norm_rms_epsilon": 1e-4}, {})}
THETA = {"theta 1e4": ({"rope.freq_base": 10000.0}, {})}

by_llamacpp("exaone", "exaone", {**K, "rope.dimension_count": 8}, {**model([{**attention(), **swiglu(48)}] * 3), "rope_freqs.weight": (4,)}, ["llama with rope over halves, not permuted, and factors; untied"],
    sens={**THETA, **EPS, "no factors": ({}, {"rope_freqs": 1.0})})
MOE_K = {"leading_dense_block_count": 1, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 12, "expert_shared_count": 2}
SHARED = {"no shared expert": ({}, {"down_shexp": 0.0}), "top 1": ({"expert_used_count": 1}, {})}
by_llamacpp("deepseek", "deepseek", {**K, **MOE_K, "rope.dimension_count": 8, "rope.scaling.type": "none", "expert_weights_scale": 1.0, "vocab_size": 264}, model([{**attention(), **swiglu(48)}, {**attention(), **experts(4, 12, 24)}, {**attention(), **experts(4, 12, 24)}]),
    ["DeepSeek MoE 16B: llama with permuted q/k rows; a dense layer, then experts (4, top 2, softmax, not renormalized) and shared ones; untied"], sens={**THETA, **EPS, **SHARED, "weights times 1.5": ({"expert_weights_scale": 1.5}, {})})
by_llamacpp("deepseek2-ocr", "deepseek2-ocr", {**{k: v for k, v in K.items() if k != "rope.freq_base"}, **MOE_K, "attention.head_count_kv": 4, "rope.freq_base": 10000.0, "rope.dimension_count": 0, "expert_weights_scale": 1.0, "vocab_size": 264}, model([{**attention(kv=4), **swiglu(48)}, {**attention(kv=4), **experts(4, 12, 24)}, {**attention(kv=4), **experts(4, 12, 24)}]),
    ["DeepSeek-OCR (text): multi-head attention, rope over halves of the whole head although rope.dimension_count is 0, base 10000; a dense layer, then experts (4, top 2, softmax, not renormalized) and shared ones; untied"], sens={**EPS, **SHARED, "renormalized": ({"expert_weights_norm": True}, {}), "sigmoid": ({"expert_gating_func": 2}, {})})
by_llamacpp("bailingmoe", "bailingmoe", {**K, **MOE_K, "leading_dense_block_count": 0, "attention.key_length": 12, "attention.value_length": 12, "rope.dimension_count": 12, "expert_weights_scale": 1.5, "expert_weights_norm": True, "vocab_size": 264}, model([{**attention(dim=12), **experts(4, 12, 24)}] * 2 + [{**attention(dim=12), **experts(4, 12, 24)}]),
    ["Ling lite, Ling plus: llama with permuted q/k rows, a head size of its own; experts in every layer (4, top 2, softmax, weights to sum 1 by key, times 1.5 by key) and shared ones; untied"], sens={**THETA, **EPS, **SHARED, "not renormalized": ({"expert_weights_norm": False}, {}), "weights times 1.6": ({"expert_weights_scale": 1.6}, {})})
QKN = {"attn_q_norm.weight": (8,), "attn_k_norm.weight": (8,)}
by_llamacpp("bailingmoe2", "bailingmoe2", {**K, **MOE_K, "rope.dimension_count": 4, "expert_shared_feed_forward_length": 12, "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2, "expert_group_count": 1, "expert_group_used_count": 1, "vocab_size": 264, "nextn_predict_layers": 0}, model([{**attention(fused=True), **QKN, **swiglu(48)}, {**attention(fused=True), **QKN, **experts(4, 12, 24, True)}, {**attention(fused=True), **QKN, **experts(4, 12, 24, True)}]),
    ["Ling 2.0, Ring 2.0: fused qkv, q/k norm per head before rope over halves of the first 4 of 8 dims; a dense layer, then experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 2.5) and a shared one; untied"],
    sens={**THETA, **EPS, **SHARED, "not renormalized": ({"expert_weights_norm": False}, {}), "no selection bias": ({}, {"exp_probs_b": 0.0}), "q/k norm weights = 1": ({}, {"_q_norm": 1.0, "_k_norm": 1.0}), "softmax": ({"expert_gating_func": 1}, {})})
by_llamacpp("bailingmoe2-groups", "bailingmoe2", {**K, **MOE_K, "expert_count": 8, "rope.dimension_count": 8, "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2, "expert_group_count": 4, "expert_group_used_count": 2, "expert_feed_forward_length": 8, "expert_shared_feed_forward_length": 12, "vocab_size": 264}, model([{**attention(fused=True), **QKN, **swiglu(48)}, {**attention(fused=True), **QKN, **experts(8, 8, 24, True)}, {**attention(fused=True), **QKN, **experts(8, 8, 24, True)}]), spec="bailingmoe2",
    notes=["as bailingmoe2 with 8 experts in 4 groups, of which the 2 with the largest sum of best two are kept"], sens={"no groups": ({"expert_group_count": 1, "expert_group_used_count": 1}, {}), "one group": ({"expert_group_used_count": 1}, {})})
VIS = {"vis_attn_qkv.weight": (96, 32), "vis_attn_output.weight": (32, 32), "vis_gate.weight": (8, 32), "vis_up.weight": (8, 32), "vis_down.weight": (32, 8)}
by_llamacpp("glm4-vision", "glm4", {**K, "attention.key_length": 8, "attention.value_length": 8, "rope.dimension_count": 4, "rope.dimension_sections": [1, 1, 0, 0]}, model([{**attention(), "attn_q.bias": (32,), "attn_k.bias": (16,), "attn_v.bias": (16,), "ffn_norm.weight": (32,), "ffn_up.weight": (96, 32), "ffn_down.weight": (32, 48), "post_attention_norm.weight": (32,), "post_ffw_norm.weight": (32,)}] * 3), spec="glm4",
    notes=["text of GLM-4.1V: as glm4 with rope over halves of the first 4 of 8 dims, told by rope.dimension_sections"], sens={**THETA, **EPS, "no sections": ({"rope.dimension_sections": [0, 0, 0, 0]}, {})})
by_llamacpp("cogvlm", "cogvlm", {**{k: v for k, v in K.items() if k not in ("rope.freq_base", "attention.head_count_kv")}, "block_count": 2, "feed_forward_length": 8}, model([{**attention(kv=4, fused=True), **swiglu(8), **VIS}] * 2),
    ["CogVLM (text): llama with fused qkv, rope over halves, base 10000; the weights for image tokens stand beside the others and are not used; untied"], sens=EPS)
by_llamacpp("deci", "deci", {**K, "block_count": 4, "attention.head_count": [4, 2, 0, 4], "attention.head_count_kv": [2, 1, 0, 4], "feed_forward_length": [48, 32, 24, 40], "attention.key_length": 8, "attention.value_length": 8, "rope.dimension_count": 8, "vocab_size": 264}, {**model([{**attention(kv=2), **swiglu(48)}, {**attention(heads=2, kv=1), **swiglu(32)}, swiglu(24), {**attention(kv=4), **swiglu(40)}]), "rope_freqs.weight": (4,)},
    ["Nemotron 49B: llama whose layers differ in heads and widths, one without attention; permuted q/k rows, factors; untied"], sens={**THETA, **EPS, "no factors": ({}, {"rope_freqs": 1.0})})

by_llamacpp("grok", "grok", {**K, "block_count": 2, "rope.dimension_count": 8, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24, "attention.output_scale": 0.3, "attn_logit_softcapping": 2.0, "router_logit_softcapping": 30.0, "embedding_scale": 1.5, "logit_scale": 0.8},
    model([{**attention(), **experts(4, 24), "attn_output_norm.weight": (32,), "layer_output_norm.weight": (32,)}] * 2),
    ["Grok 1: norms before and behind both branches, scores times 0.3 capped at 2 (published: 0.088 and 30), experts (4, top 2, softmax, weights to sum 1) with tanh GELU, embedding and logits scaled; rope over halves; untied", "llama.cpp with its f16 table of GELU switched off (tools/build_exact.py)"],
    sens={**THETA, **EPS, "no score cap": ({"attn_logit_softcapping": 1e6}, {}), "score scale 1/sqrt(d)": ({"attention.output_scale": 8 ** -0.5}, {}), "embedding scale 1.6": ({"embedding_scale": 1.6}, {}), "logit scale 0.9": ({"logit_scale": 0.9}, {}), "logits capped at 4": ({"final_logit_softcapping": 4.0}, {}), "router cap 1": ({"router_logit_softcapping": 1.0}, {})})

if __name__ == "__main__": run(sys.argv[1:])
