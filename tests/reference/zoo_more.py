#!/usr/bin/env python3
"""Zoo fixtures of architectures that say more of the language than those of the other two scripts: biases of the scores, gates, limits,
latent attention, second branches, loops: zoo_more.py [name ...]. Needs what zoo_a_to_g.py needs; writes to FIXTURES like it."""
from by_llamacpp import *

EPS = {"eps x10": ({"attention.layer_norm_rms_epsilon": 1e-4}, {})}
LEPS = {"eps x10": ({"attention.layer_norm_epsilon": 1e-4}, {})}
THETA = {"theta 1e4": ({"rope.freq_base": 10000.0}, {})}
BASE = {"rope.freq_base": 50000.0}
def layer_norms(keys): return {("attention.layer_norm_epsilon" if k == "attention.layer_norm_rms_epsilon" else k): v for k, v in keys.items()}
def biased(t, *names):
    """Biases for the named matrices of every block."""
    return {**t, **{n[:-6] + "bias": s[:1] for n, s in t.items() if n.endswith(".weight") and n.split(".")[-2] in names}}
def per_layer(layers, tied=False, D=32):
    """Names and shapes: what every model has, then each layer's under blk.i."""
    out = {"token_embd.weight": (V_TINY, D), "output_norm.weight": (D,), **({} if tied else {"output.weight": (V_TINY, D)})}
    for i, layer in enumerate(layers): out.update({f"blk.{i}.{n}": s for n, s in layer.items()})
    return out
def attention(heads=4, kv=2, d=8, D=32, norm=True, qk=False, gate=0):
    return {**({"attn_norm.weight": (D,)} if norm else {}), "attn_q.weight": (heads * d, D), "attn_k.weight": (kv * d, D), "attn_v.weight": (kv * d, D), "attn_output.weight": (D, heads * d),
            **({"attn_q_norm.weight": (d,), "attn_k_norm.weight": (d,)} if qk else {}), **({"attn_gate.weight": (gate, D)} if gate else {})}
def swiglu(F, D=32, norm=True): return {**({"ffn_norm.weight": (D,)} if norm else {}), "ffn_gate.weight": (F, D), "ffn_up.weight": (F, D), "ffn_down.weight": (D, F)}
def experts(E, F, D=32, shared=0, bias=False):
    return {"ffn_norm.weight": (D,), "ffn_gate_inp.weight": (E, D), "ffn_gate_exps.weight": (E, F, D), "ffn_up_exps.weight": (E, F, D), "ffn_down_exps.weight": (E, D, F), **({"exp_probs_b.bias": (E,)} if bias else {}),
            **({"ffn_gate_shexp.weight": (shared, D), "ffn_up_shexp.weight": (shared, D), "ffn_down_shexp.weight": (D, shared)} if shared else {})}

# ---- scores with a bias by distance (ALiBi)
@written("jais", sens={**LEPS, "max bias 8": ({"attention.max_alibi_bias": 8.0}, {}), "no bias": ({"attention.max_alibi_bias": 0.0}, {}), "biases 0": ({}, {"attn_qkv.bias": 0.0, "ffn_gate.bias": 0.0})}, notes=["6 heads (no power of two), ALiBi with a maximum of 6 (published: 8), scores times 1 / 4 = 1 / head size, LayerNorm, biases everywhere, gated by SiLU, untied"])
def _(): return "jais", layer_norms(kv(D=24, F=32, H=6, K=6, **{"attention.max_alibi_bias": 6.0})), ln(biased(llama_like(D=24, F=32, H=6, K=6, fused=True), "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_down"))
@written("refact", sens=EPS, notes=["6 query heads (no power of two) over one key head, ALiBi with a maximum of 8, no rope, tied"])
def _(): return "refact", kv(D=24, F=32, H=6, K=1), llama_like(D=24, F=32, H=6, K=1, out=False)
@written("baichuan-13b", spec="baichuan", sens=EPS, notes=["Baichuan 13B: 40 layers, which is how llama.cpp knows it; 3 heads (no power of two), ALiBi with a maximum of 8, no rope, untied"])
def _(): return "baichuan", kv(D=12, F=16, L=40, H=3, K=3, **{"rope.dimension_count": 4}), llama_like(D=12, F=16, L=40, H=3, K=3)
def mpt(w, j): j.update(architectures=["MPTForCausalLM"]); return w
@zoo("mpt", rename=mpt, sens={"no clamp": setting("attn.clip_qkv", None), "no bias by distance": lambda m: setattr(m.transformer, "build_mpt_alibi_tensor", lambda n, length, *a, **k: torch.zeros(n, 1, length)), "eps x10": lambda m: [setattr(x, "eps", 1e-4) for x in m.modules() if isinstance(x, torch.nn.LayerNorm)]},
     notes=["MPT 7B: 6 heads (no power of two), ALiBi with a maximum of 8 (HF knows no other), q, k and v clamped to 1.5, LayerNorm without biases, erf GELU, tied", "eps is 1e-5, which is what the converter writes whatever the config says; llama.cpp has tanh GELU"])
def _(): return MptConfig(d_model=24, n_heads=6, n_layers=2, expansion_ratio=4, max_seq_len=1024, vocab_size=V_TINY, layer_norm_epsilon=1e-5, bos_token_id=1, eos_token_id=2, attn_config=dict(alibi=True, alibi_bias_max=8, clip_qkv=1.5))

# ---- gates on what attention gives
@written("spark2_5", sens={**EPS, **THETA, "window 15": ({"attention.sliding_window": 15}, {}), "window 17": ({"attention.sliding_window": 17}, {}), "one base": ({"rope.freq_base_swa": 50000.0}, {}), "gates 1/2": ({}, {"attn_gate": 0.0}), "all dims rotate": ({"rope.dimension_count": 8}, {})},
         notes=["4 layers: three windowed (16, base 2e4, 8 dims rotate), one full (base 5e4, 4 dims rotate), by the array; 4 query heads over 2; sigmoid gate per head; gated by tanh GELU; tied"])
def _(): return "spark2_5", kv(L=4, F=32, **{**BASE, "rope.freq_base_swa": 20000.0, "attention.key_length": 8, "attention.value_length": 8, "rope.dimension_count": 4, "rope.dimension_count_swa": 8, "attention.sliding_window": 16, "attention.sliding_window_pattern": [True, True, True, False], "vocab_size": V_TINY}), per_layer([{**attention(gate=4), **swiglu(32)}] * 4, tied=True)
STEP = {"leading_dense_block_count": 1, "moe_every_n_layers": 1, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 8, "expert_shared_feed_forward_length": 12, "expert_weights_scale": 1.5, "expert_weights_norm": True}
STEP_SENS = {**EPS, **THETA, "window 15": ({"attention.sliding_window": 15}, {}), "one base": ({"rope.freq_base_swa": 50000.0}, {}), "gates 1/2": ({}, {"attn_gate": 0.0}), "no limits": ({"swiglu_clamp_exp": [0.0] * 4, "swiglu_clamp_shexp": [0.0] * 4}, {}), "no limit of the shared expert": ({"swiglu_clamp_shexp": [0.0] * 4}, {}), "softmax": ({"expert_gating_func": 1}, {}), "not renormalized": ({"expert_weights_norm": False}, {}), "no selection bias": ({}, {"exp_probs_b": 0.0}), "top 1": ({"expert_used_count": 1}, {})}
STEP_NOTE = ("4 layers: full (base 5e4, half of 8 dims rotate), windowed (16, base 2e4, all 8 dims rotate) twice, full; 4 query heads over 2, on windowed layers 6 over 3; q/k norm before rope; sigmoid gate per head; dense first, then experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 1.5) and a shared one; limits on the SiLU and on up in layers 2 (experts) and 3 (both); untied")
def step35():
    def layer(i): return {**attention(*((6, 3) if i in (1, 2) else (4, 2)), qk=True, gate=6 if i in (1, 2) else 4), **(swiglu(32) if i == 0 else experts(4, 8, shared=12, bias=True))}
    k = {**kv(L=4, F=32), **BASE, **STEP, "rope.freq_base_swa": 20000.0, "attention.head_count": [4, 6, 6, 4], "attention.head_count_kv": [2, 3, 3, 2], "attention.key_length": 8, "attention.value_length": 8, "rope.dimension_count": 8, "attention.sliding_window": 16, "attention.sliding_window_pattern": [False, True, True, False], "swiglu_clamp_exp": [0.0, 0.0, 0.3, 0.5], "swiglu_clamp_shexp": [0.0, 0.0, 0.0, 0.4]}
    return "step35", k, per_layer([layer(i) for i in range(4)])
@written("step35", sens=STEP_SENS, notes=[STEP_NOTE])
def _(): return step35()
@written("step35-factors", spec="step35", sens={"no factors": ({}, {"rope_freqs": 1.0})}, notes=["as step35 with factors of rope on full layers: a tensor of half a head, of which they use as much as they rotate"])
def _(): arch, k, t = step35(); return arch, k, {**t, "rope_freqs.weight": (4,)}
@written("maple", sens={**EPS, **THETA, "window 15": ({"attention.sliding_window": 15}, {}), "limit 7": ({"swiglu_clamp_exp": [7.0] * 3}, {}), "all dims rotate": ({"rope.dimension_count": 8}, {}), "top 1": ({"expert_used_count": 1}, {})},
         notes=["3 layers: windowed (16) with rope over 4 of 8 dims twice, full without; q/k norm before rope; experts (4, top 2, softmax, weights to sum 1) whose gate is limited to 0.4 before SiLU and whose up to +-0.4 (published: 7); untied"])
def _(): return "maple", kv(L=3, F=12, **{**BASE, "attention.key_length": 8, "attention.value_length": 8, "rope.dimension_count": 4, "attention.sliding_window": 16, "attention.sliding_window_pattern": [True, True, False], "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 12, "swiglu_clamp_exp": [0.4] * 3, "vocab_size": V_TINY}), per_layer([{**attention(qk=True), **experts(4, 12)}] * 3)

LAGUNA = dict(num_hidden_layers=4, head_dim=8, intermediate_size=32, moe_intermediate_size=8, shared_expert_intermediate_size=12, num_experts=4, num_experts_per_tok=2, moe_routed_scaling_factor=1.5, mlp_layer_types=["dense"] + ["sparse"] * 3, rms_norm_eps=1e-5, tie_word_embeddings=False)
LAGUNA_SENS = {"gates as for 0": zeroed("g_proj"), "top 1": lambda m: [setattr(x, "top_k", 1) for x in m.modules() if hasattr(x, "top_k")], "no selection bias": lambda m: [b.zero_() for n, b in m.named_buffers() if "e_score_correction_bias" in n] + [p.data.zero_() for n, p in m.named_parameters() if "e_score_correction_bias" in n], "no shared expert": zeroed("shared_experts.down_proj"), "q/k norm weights = 1": ones("q_norm", "k_norm"), "eps x10": dict(rms_norm_eps=1e-4)}
@zoo("laguna", hub_keep=True, patch=lambda h: None, sens={**LAGUNA_SENS, "window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17)}, notes=["Laguna XS.2: 4 layers, full (4 heads, yarn of factor 8 over 64, base 5e4, 4 of 8 dims rotate) and three windowed (16; 6 heads, base 2e4, all dims); softplus gate per head; q/k norm before rope; dense, then experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 1.5) and a shared one; untied"])
def _(): return LagunaConfig(**z(**LAGUNA, gating="per-head", num_attention_heads_per_layer=[4, 6, 6, 6], sliding_window=16, layer_types=["full_attention"] + ["sliding_attention"] * 3, rope_parameters=dict(full_attention=dict(rope_type="yarn", rope_theta=50000.0, factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5, partial_rotary_factor=0.5), sliding_attention=rope(20000.0, partial_rotary_factor=1.0))))
@zoo("laguna-elements", arch_spec="laguna", hub_keep=True, sens=LAGUNA_SENS, notes=["Laguna M.1: as laguna without windows, a softplus gate per element"])
def _(): return LagunaConfig(**z(**LAGUNA, gating="per-element", sliding_window=0, layer_types=["full_attention"] * 4, rope_parameters=dict(full_attention=rope(50000.0, partial_rotary_factor=0.5), sliding_attention=rope(50000.0, partial_rotary_factor=0.5))))
@zoo("muse-glimmer", cls="MuseGlimmerForConditionalGeneration", hub_keep=True, sens={"gates 1/2": zeroed("language_model.layers.0.self_attn.gate_proj", "language_model.layers.1.self_attn.gate_proj", "language_model.layers.2.self_attn.gate_proj", "language_model.layers.3.self_attn.gate_proj")},
     notes=["text of Muse Glimmer: 4 layers, three windowed (16) with rope, one full without; weightless norm on the embedding, weightless q/k norms times 1.7 on q; sigmoid gate per element; norms before and behind both branches, those behind with an eps of 1e-8; logits times 0.6, capped at 4; untied"])
def _(): return MuseGlimmerConfig(text_config=z(num_hidden_layers=4, head_dim=8, intermediate_size=32, sliding_window=16, qk_scale_factor=1.7, output_multiplier=0.6, final_logit_softcapping=4.0, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(50000.0)), vision_config=dict(num_hidden_layers=1, hidden_size=16, intermediate_size=16, num_attention_heads=2, patch_size=2, pos_emb_height=2, pos_emb_width=2), out_hidden_size=32, projector_hidden_size=16)

# ---- norms and scales
def bitnet(scaled=()):
    t = llama_like(out=False)
    for i in range(2):
        b = f"blk.{i}."; t.update({b + "attn_sub_norm.weight": (32,), b + "ffn_sub_norm.weight": (48,), **{f"{b}{n}.scale": (1,) for n in scaled}})
    return "bitnet", kv(**{**BASE, "rope.scaling.type": "linear", "rope.scaling.factor": 1.0, "vocab_size": V_TINY}), t
BITNET_SENS = {**EPS, **THETA, "inner norm weights 1": ({}, {"sub_norm": 1.0})}
@written("bitnet", sens=BITNET_SENS, notes=["a norm before the output projection and one before ffn_down, tied"])
def _(): return bitnet()
@written("bitnet-scaled", spec="bitnet", sens={"scales 1": ({}, {".scale": 1.0})}, hook=lambda n, r: 1 + 0.3 * r if n.endswith(".scale") else None, notes=["as bitnet, each matrix with a scale, as files with ternary matrices have it"])
def _(): return bitnet(("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"))
@written("talkie", sens={**EPS, **THETA, "logit scale 0.8": ({"logit_scale": 0.8}, {}), "no skip": ({}, {"layer_output_scale": 0.0}), "scales 1": ({}, {".scale": 1.0}), "q norm weights 1": ({}, {"attn_q_norm": 1.0})}, hook=lambda n, r: 1 + 0.3 * r if n.endswith(".scale") else 0.5 * r if "layer_output_scale" in n else None,
         notes=["3 layers: weightless norms everywhere, one on the embedding, which is added after each block times a number of the block; q norm with one number per head, k norm without, both after rope; a scale on attn_output and ffn_down; logits times 0.7; untied", "attn_q_norm is one number per head, [1, heads] in the file"])
def _():
    layer = {**attention(kv=4, norm=False), **swiglu(32, norm=False), "attn_q_norm.weight": (4, 1), "attn_output.scale": (1,), "ffn_down.scale": (1,), "layer_output_scale.weight": (1,)}
    t = per_layer([layer] * 3); del t["output_norm.weight"]
    return "talkie", kv(L=3, F=32, K=4, **{**BASE, "logit_scale": 0.7, "rope.dimension_count": 8, "attention.key_length": 8, "attention.value_length": 8, "vocab_size": V_TINY, "attention.layer_norm_rms_epsilon": 1.1920928955078125e-07}), t
@written("minicpm4", spec="minicpm", sens={**EPS, **THETA, "no factors": ({}, {"rope_factors_short": 1.0}), "embedding 3.1": ({"embedding_scale": 3.1}, {})}, hook=lambda n, r: np.linspace(1, 2.5, 4) if "factors_short" in n else np.linspace(2, 7, 4) if "factors_long" in n else None,
         notes=["MiniCPM 4: as minicpm with LongRoPE, whose original context the converter does not write: that of the file counts, so that the short factors are used; untied"])
def _(): return "minicpm", kv(**{**BASE, "embedding_scale": 3.0, "residual_scale": 0.6, "logit_scale": 0.5, "rope.scaling.type": "longrope", "vocab_size": V_TINY}), {**llama_like(), "rope_factors_short.weight": (4,), "rope_factors_long.weight": (4,)}
def chameleon_ids(model): model.gguf_writer.add_uint32("chameleon.image_token_count", 8)     # llama.cpp has 8192 as a constant
def equal_heads(n, p, r):
    if not any(x in n for x in ("q_norm", "k_norm")): return False
    p.copy_((p[:1] + 0.3 * r(p[:1])).expand_as(p)); return True
def chameleon(**k):
    ids = {"<image>": 12, **{f"IMGIMG{chr(65 + i)}Z": 4 + i for i in range(8)}}
    return ChameleonConfig(**z(num_key_value_heads=4, intermediate_size=48, num_hidden_layers=2, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(), vocabulary_map=ids, vq_config=dict(embed_dim=8, num_embeddings=8, latent_channels=32, resolution=4, base_channels=32, channel_multiplier=[1], num_res_blocks=1), **k))
CHAMELEON_SENS = {"q/k norm bias 0": zeroed("q_norm.bias", "k_norm.bias"), "q/k norm weights = 1": ones("q_norm.weight", "k_norm.weight"), "theta 2e4": dict(rope_parameters=rope(20000.0)), "eps x10": dict(rms_norm_eps=1e-4)}
CHAMELEON_KEY = "chameleon.image_token_count is added to what the converter writes: the ids of images are 4 to 8195 in the published models, here 4 to 11"
@zoo("chameleon", cls="ChameleonForConditionalGeneration", hub_keep=True, after=chameleon_ids, hook=equal_heads, sens=CHAMELEON_SENS, notes=["Chameleon 7B (text): LayerNorm with biases on q and k (the same weights for all heads, as the converter wants it), q/k rows permuted, the ids of images never said; untied", CHAMELEON_KEY])
def _(): return chameleon(swin_norm=False)
@zoo("chameleon-swin", arch_spec="chameleon", cls="ChameleonForConditionalGeneration", hub_keep=True, after=chameleon_ids, hook=equal_heads, sens=CHAMELEON_SENS, notes=["Chameleon 30B (text): as chameleon, norms on what the branches give instead of what they read", CHAMELEON_KEY])
def _(): return chameleon(swin_norm=True)

# ---- a second branch, other blocks
@written("arctic", sens={**EPS, **THETA, "experts 0": ({}, {"ffn_down_exps": 0.0}), "expert norm weights 1": ({}, {"ffn_norm_exps": 1.0}), "top 1": ({"expert_used_count": 1}, {})}, notes=["a dense branch of the width of the model and beside it experts (4, top 2, softmax, weights to sum 1) that read the block's input through their own norm; q/k rows permuted; untied"])
def _(): return "arctic", kv(F=16, **{**BASE, "rope.dimension_count": 8, "expert_count": 4, "expert_used_count": 2, "vocab_size": V_TINY}), per_layer([{**attention(), **experts(4, 16), **swiglu(32), "ffn_norm_exps.weight": (32,)}] * 2)
GROK = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 16, "attention.output_scale": 0.3, "attn_logit_softcapping": 2.0, "router_logit_softcapping": 30.0, "embedding_scale": 1.5, "logit_scale": 0.8, "final_logit_softcapping": 3.0}
@written("grok-2", spec="grok", sens={**EPS, **THETA, "no dense branch": ({}, {"ffn_down.weight": 0.0}), "no logit cap": ({"final_logit_softcapping": 1e6}, {}), "top 1": ({"expert_used_count": 1}, {})}, notes=["Grok 2: as grok with a dense branch beside the experts on one norm, their sum times sqrt(1/2); post_ffw_norm behind; logits capped at 3 (published: 50)"])
def _(): return "grok", kv(F=24, **{**BASE, **GROK, "rope.dimension_count": 8}), per_layer([{**attention(), **experts(4, 16), **swiglu(24), "attn_output_norm.weight": (32,), "post_ffw_norm.weight": (32,)}] * 2)
@written("nanbeige", sens={**EPS, **THETA, "one loop": ({"num_loops": 1}, {}), "no norm between loops": ({"skip_loop_final_norm": True}, {})}, notes=["2 layers run 3 times over, each loop with keys and values of its own, the output norm between loops; q/k rows permuted; untied"])
def _(): return "nanbeige", kv(**{**BASE, "rope.dimension_count": 8, "num_loops": 3, "skip_loop_final_norm": False, "vocab_size": V_TINY}), llama_like()
@written("nanbeige-skip", spec="nanbeige", sens={**EPS, "one loop": ({"num_loops": 1}, {}), "norm between loops": ({"skip_loop_final_norm": False}, {})}, notes=["as nanbeige with 2 loops and no norm between them"])
def _(): return "nanbeige", kv(**{**BASE, "rope.dimension_count": 8, "num_loops": 2, "skip_loop_final_norm": True, "vocab_size": V_TINY}), llama_like()
@written("deci-linear", spec="deci", sens={**EPS, **THETA, "no factors": ({}, {"rope_freqs": 1.0})}, notes=["Nemotron 51B and Ultra 253B: 5 layers: attention over 2 key heads, a linear in attention's place, no attention, neither attention nor feed-forward, attention; permuted q/k rows, factors; untied"])
def _(): return "deci", {**kv(L=5), **BASE, "attention.head_count": [4, 4, 0, 0, 4], "attention.head_count_kv": [2, 0, 0, 0, 4], "feed_forward_length": [48, 32, 24, 0, 40], "attention.key_length": 8, "attention.value_length": 8, "rope.dimension_count": 8, "vocab_size": V_TINY}, {**per_layer([{**attention(), **swiglu(48)}, {"attn_norm.weight": (32,), "attn_output.weight": (32, 32), **swiglu(32)}, swiglu(24), {}, {**attention(kv=4), **swiglu(40)}]), "rope_freqs.weight": (4,)}
@zoo("hrm_text", hub_keep=True, hook=lambda n, p, r: (p.copy_(r(p)), True)[1] if n.endswith("z_L_init") else False, sens={"state 0": lambda m: [p.data.zero_() for n, p in m.named_parameters() if "z_L_init" in n] + [b.zero_() for n, b in m.named_buffers() if "z_L_init" in n], "gates 1/2": zeroed("self_attn.gate_proj"), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["two stacks of 1 layer: the low one run twice, then the high one, all of that twice; a learned low state added at first; weightless norms, one behind each stack; sigmoid gate per element; embedding times 3; causal (prefix_lm only marks prompts of other tokens' types); untied"])
def _(): return HrmTextConfig(**{x: y for x, y in z(num_hidden_layers=1, head_dim=8, intermediate_size=48, H_cycles=2, L_cycles=2, embedding_scale=3.0, prefix_lm=True, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(50000.0)).items() if x != "num_key_value_heads"})

# ---- latent attention
@written("plm", sens={**EPS, **THETA, "latent norm weights 1": ({}, {"kv_a_norm": 1.0})}, notes=["latent attention (rank 12; 8 elements of a head without rope, 4 with, values of 6), rope over neighbors, no gate, squared ReLU, tied"])
def _():
    layer = {"attn_norm.weight": (32,), "attn_q.weight": (48, 32), "attn_kv_a_mqa.weight": (16, 32), "attn_kv_a_norm.weight": (12,), "attn_kv_b.weight": (56, 12), "attn_output.weight": (32, 24), "ffn_norm.weight": (32,), "ffn_up.weight": (48, 32), "ffn_down.weight": (32, 48)}
    return "plm", kv(K=4, **{**BASE, "attention.kv_lora_rank": 12, "attention.key_length": 12, "attention.value_length": 6, "rope.dimension_count": 4, "vocab_size": V_TINY}), per_layer([layer] * 2, tied=True)
@zoo("minicpm3", init=dict(embed_std=0.03), tok="tiny_spm", pre="default", hub_keep=True, sens={"eps x10": dict(rms_norm_eps=1e-4), "latent norm weights 1": ones("q_a_layernorm", "kv_a_layernorm")}, notes=["latent attention (ranks 16 and 12; 8 elements of a head without rope, 4 with), embedding times 12, branches times 1.4 / sqrt(2), logits times 256 / 32; tied", "the norms of the latents have an eps of 1e-6 in HF whatever rms_norm_eps (1e-5) says; llama.cpp has rms_norm_eps there"])
def _(): return MiniCPM3Config(**z(num_hidden_layers=2, num_key_value_heads=4, intermediate_size=48, q_lora_rank=16, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=rope()))
def mistral4_keys(model):   # the converter writes them for Ministral 3 only
    w = model.impl.gguf_writer if hasattr(model, "impl") else model.gguf_writer
    w.add_float32("mistral4.attention.temperature_scale", 0.1); w.add_uint32("mistral4.attention.temperature_length", 32)
@zoo("mistral4", after=mistral4_keys, cls="Mistral4ForCausalLM", hub_keep=True, fix_config=lambda j: j.update(architectures=["Mistral3ForConditionalGeneration"]), sens={"top 1": lambda m: [setattr(x, "top_k", 1) for x in m.modules() if hasattr(x, "top_k")], "latent norm weights 1": ones("q_a_layernorm", "kv_a_layernorm"), "eps x10": dict(rms_norm_eps=1e-5)}, notes=["Mistral 4: latent attention (ranks 16 and 12; 8 elements of a head without rope, 4 with, values of 8), yarn of factor 16 over 32 (mscale 1), temperature 0.1 over 32; experts (4, top 2, softmax, weights to sum 1) and a shared one; untied", "attention.temperature_scale and .temperature_length are added to what the converter writes: without them a file is the model without its temperature"])
def _(): return Mistral4Config(**z(num_hidden_layers=2, num_key_value_heads=4, intermediate_size=40, moe_intermediate_size=12, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=0, kv_lora_rank=12, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, norm_topk_prob=True, rms_norm_eps=1e-6, max_position_embeddings=512, tie_word_embeddings=False,
    rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=32, max_position_embeddings=512, beta_fast=4.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)))

LATENT_YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5)
MLA = dict(intermediate_size=40, moe_intermediate_size=12, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, num_key_value_heads=4, rms_norm_eps=1e-6, tie_word_embeddings=False, attention_bias=False)
@zoo("deepseek2-v3", arch_spec="deepseek2", patch=lambda h: h.setdefault("scoring_func", "sigmoid"), sens={"top 1": dict(num_experts_per_tok=1), "no groups": dict(n_group=1, topk_group=1), "no selection bias": lambda m: [b.zero_() for n, b in m.named_buffers() if "e_score" in n], "magnitude": setting("self_attn.scaling", lambda x: x * 1.01)}, notes=["V3: q LoRA 16, groups 4 keep 2, sigmoid, yarn with mscale_all_dim 1"])
def _(): return DeepseekV3Config(**z(**{**MLA, "q_lora_rank": 16, "n_group": 4, "topk_group": 2, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "rope_parameters": dict(LATENT_YARN, mscale=1.0, mscale_all_dim=1.0)}))
@zoo("deepseek2-lite", arch_spec="deepseek2", sens={"top 1": dict(num_experts_per_tok=1)}, notes=["V2 lite: no q LoRA, softmax greedy, not renormalized"])
def _(): return DeepseekV2Config(**z(**{**MLA, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "topk_method": "greedy", "norm_topk_prob": False, "routed_scaling_factor": 1.0, "rope_parameters": rope()}))

# ---- Gemma 4 with all it has
GEMMA4_INIT = dict(embed_std=0.06, final_norm=6.0)
def scalars(n, p, r):
    if "layer_scalar" in n: p.copy_(1 + 0.2 * r(p)); return True
    return near(0.5, "q_norm", "k_norm")(n, p, r)
G4 = dict(num_hidden_layers=4, intermediate_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=8, global_head_dim=16, sliding_window=16, enable_moe_block=False, final_logit_softcapping=5.0, rms_norm_eps=1e-6, pad_token_id=0, tie_word_embeddings=True, layer_types=["sliding_attention", "full_attention"] * 2, rope_parameters=dict(full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=1000000.0), sliding_attention=rope()))
def vary_scalars(hf):
    w = load_file(hf + "/model.safetensors"); hit = sorted(n for n in w if "layer_scalar" in n); assert hit, list(w)[:20]
    for i, n in enumerate(hit): w[n] = np.full_like(w[n], 0.8 + 0.2 * i)
    save_file(w, hf + "/model.safetensors", metadata={"format": "pt"})
@zoo("gemma4-full", arch_spec="gemma4", after_save=vary_scalars, patch=lambda h: h.update(global_head_dim=16), hub_keep=True, hook=scalars, init=GEMMA4_INIT, sens={"window 15": dict(sliding_window=15), "no softcap": dict(final_logit_softcapping=None)}, notes=["Gemma 4: layer scalars, per-layer inputs, the last two layers share keys and values, head sizes 8 and 16, no K = V"])
def _(): return Gemma4TextConfig(**z(**G4, hidden_size_per_layer_input=8, vocab_size_per_layer_input=V_TINY, num_kv_shared_layers=2, attention_k_eq_v=False))
@zoo("gemma4-kv", arch_spec="gemma4", after_save=vary_scalars, patch=lambda h: h.update(global_head_dim=16), hub_keep=True, hook=scalars, init=GEMMA4_INIT, sens={"window 15": dict(sliding_window=15)}, notes=["Gemma 4 31B kind: K = V on full layers with one kv head, head sizes 8 and 16, layer scalars, nothing per layer"])
def _(): return Gemma4TextConfig(**z(**G4, hidden_size_per_layer_input=0, vocab_size_per_layer_input=V_TINY, num_kv_shared_layers=0, attention_k_eq_v=True, num_global_key_value_heads=1))
def moe_hook(n, p, r):
    if "router.scale" in n or "per_expert_scale" in n: p.copy_(1 + 0.4 * r(p)); return True
    if "router.proj" in n: p.copy_(6 * r(p)); return True
    return scalars(n, p, r)
@zoo("gemma4-moe", arch_spec="gemma4", after_save=vary_scalars, patch=lambda h: h.update(global_head_dim=16), hub_keep=True, hook=moe_hook, init=GEMMA4_INIT, sens={"top 1": dict(top_k_experts=1), "no expert scale": ones("per_expert_scale"), "router scale 1": ones("router.scale")}, notes=["Gemma 4 26B-A4B kind: 4 experts, 2 per token, beside the dense feed-forward, each with norms of its own; the router reads the stream through a norm of its own"])
def _(): return Gemma4TextConfig(**z(**{**G4, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 12}, hidden_size_per_layer_input=0, vocab_size_per_layer_input=V_TINY, num_kv_shared_layers=0, attention_k_eq_v=False))

if __name__ == "__main__": run(sys.argv[1:])
