#!/usr/bin/env python3
"""Zoo fixtures of architectures with options of attention, router or activation that few others have: zoo_attention.py [name ...]
Needs what make.py needs; writes to FIXTURES like it."""
from zoo_a_to_g import *
import zoo_a_to_g

plain_vocabulary(("phi", "Phi3MiniModel"))

def sinks(name, parameter, random):
    if not name.endswith("sinks"): return False
    parameter.copy_(random(parameter)); return True
OSS_YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5, truncate=False)
OSS_SENS = {"window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "no sinks": lambda m: [p.data.fill_(-1e4) for n, p in m.named_parameters() if "sinks" in n], "limit 5": setting(".experts.limit", 1.0), "alpha 1.6": setting(".experts.alpha", 1.6), "top 1": setting(".router.top_k", 1), "eps x10": dict(rms_norm_eps=1e-4)}
@zoo("gpt-oss", hook=sinks, hub_keep=True, sens=OSS_SENS, notes=["2 windowed (16) and 2 full layers in turn, sinks, biases, experts 4 top 2 (softmax of selected), clamped swiglu, yarn with an exact range (truncate false), as the published models"])
def _(): return GptOssConfig(**z(num_hidden_layers=4, head_dim=8, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=OSS_YARN))

def alphas(name, parameter, random):
    if not any(x in name for x in ("alpha_p", "alpha_n")): return False
    parameter.copy_(random(parameter) * 0.5 + 0.5); return True
@zoo("apertus", hook=alphas, sens={"q/k norm weights = 1": ones("q_norm", "k_norm"), "alphas 0": zeroed("alpha_p", "alpha_n"), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["xIELU feed-forward without gate (alpha_p, alpha_n of each layer), q/k norm per head before rope, llama3 factors"])
def _(): return ApertusConfig(**z(rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, hidden_act="xielu", rope_parameters=dict(LLAMA3)))

AFMOE_SENS = {"window 15": dict(sliding_window=15), "no gate": lambda m: [p.data.zero_() for n, p in m.named_parameters() if "gate_proj" in n and "self_attn" in n], "top 1": setting(".router.top_k", 1), "no shared expert": zeroed("shared_experts.down_proj"), "eps x10": dict(rms_norm_eps=1e-4)}
@zoo("afmoe", patch=lambda h: h.setdefault("route_norm", True), sens=AFMOE_SENS, notes=["4 layers, every fourth full without rope, the others windowed (16); sigmoid gate on the attention output per element; norms around both branches; embedding times sqrt(32); dense, then sigmoid experts"])
def _(): return AfmoeConfig(**z(num_hidden_layers=4, head_dim=8, intermediate_size=24, moe_intermediate_size=12, num_dense_layers=1, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, route_scale=1.5, sliding_window=16, global_attn_every_n_layers=4, layer_types=["sliding_attention"] * 3 + ["full_attention"], mup_enabled=True, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope()))

BLOOM_SENS = {"no qkv bias": zeroed("query_key_value.bias"), "embedding norm weight 1": ones("word_embeddings_layernorm.weight"), "eps x10": dict(layer_norm_epsilon=1e-4)}
def bloom(width, heads): return BloomConfig(vocab_size=V_TINY, hidden_size=width, n_layer=3, n_head=heads, bos_token_id=1, eos_token_id=2, layer_norm_epsilon=1e-5, tie_word_embeddings=True, seq_length=1024)
@zoo("bloom", patch=lambda h: h.setdefault("seq_length", 1024), sens=BLOOM_SENS, notes=["ALiBi (4 heads), norm on the embedding, fused qkv, tanh GELU, tied"])
def _(): return bloom(32, 4)
@zoo("bloom-6heads", arch_spec="bloom", patch=lambda h: h.setdefault("seq_length", 1024), sens=BLOOM_SENS, notes=["as bloom with 6 heads: slopes of a number that is no power of two"])
def _(): return bloom(24, 6)

@zoo("phimoe", patch=lambda h: h.update(architectures=["PhiMoEForCausalLM"], original_max_position_embeddings=1024), sens={"jitter 0": setting(".router.router_jitter_noise", 0.0), "jitter 0.1": setting(".router.router_jitter_noise", 0.1), "no output bias": zeroed("lm_head.bias"), "norm bias 0": zeroed("layernorm.bias"), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["Phi-3.5-MoE: layer norms with biases, biases of all projections of attention and of the head; 8 experts of 12, 2 chosen one after the other, weighted by SparseMixer (jitter 0.01), whose weights do not sum to one; untied"])
def _(): return PhimoeConfig(**z(intermediate_size=12, num_local_experts=8, num_experts_per_tok=2, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=True, lm_head_bias=True, rope_parameters=rope()))

if __name__ == "__main__":
    for one in list(SPECS.values()):
        if one["make"].__module__ != "__main__" or (sys.argv[1:] and one["name"] not in sys.argv[1:]): continue
        zoo_a_to_g.CURRENT = one
        build(one)
