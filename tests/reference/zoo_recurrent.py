#!/usr/bin/env python3
"""Zoo fixtures of architectures with recurrent mixers: zoo_recurrent.py [name ...]
Needs what zoo_a_to_g.py needs; writes to FIXTURES like it."""
from zoo_a_to_g import *
LCPP.clear()     # zoo_a_to_g.py builds its own
plain_vocabulary(("jamba", "JambaModel"))

# ------------------------------------------------------------------ what the parameters of a recurrence start as
def memory():
    """Time steps and decays that reach from one token to hundreds (the published ranges would forget nothing in 48 tokens)."""
    def hook(n, p, r):
        if n.endswith(("dt_bias", "dt_proj.bias")): p.copy_(-1.5 + 1.5 * r(p)); return True
        if n.endswith("A_log"): p.copy_(0.7 * r(p)); return True
        if n.endswith(("mixer.D", "mamba.D")): p.copy_(1 + 0.5 * r(p)); return True
        if n.endswith(("q_norm.weight", "k_norm.weight")): p.add_(0.4 * r(p)); return True
        return False
    return hook
def no_taps(m):         # the convolution sees the current token only
    hit = [p for n, p in m.named_parameters() if "conv1d.weight" in n]; assert hit
    for p in hit: p[..., :-1] = 0
def fresh(m):           # a state that forgets everything at each token
    hit = [p for n, p in m.named_parameters() if n.endswith("A_log")]; assert hit
    for p in hit: p.fill_(8.0)
RECURRENT = {"one tap": no_taps, "no memory": fresh, "no D": zeroed(".D"), "no dt bias": zeroed("dt_bias", "dt_proj.bias"), "no conv bias": zeroed("conv1d.bias")}
def but(sens, *names): return {k: v for k, v in sens.items() if k not in names}
def config(**changed):  # keys of config.json that are written otherwise before anything reads it; None removes one
    def fix(j):
        for k, v in changed.items(): j.pop(k, None) if v is None else j.__setitem__(k, v)
    return fix

# ------------------------------------------------------------------ Mamba
MAMBA = dict(vocab_size=V_TINY, hidden_size=32, state_size=8, num_hidden_layers=3, expand=2, conv_kernel=4, time_step_rank=6, use_bias=False, use_conv_bias=True, layer_norm_epsilon=1e-5, pad_token_id=0, bos_token_id=1, eos_token_id=2)
@zoo("mamba", hook=memory(), hub_keep=True, fix_config=config(pad_vocab_size_multiple=8), sens={**RECURRENT, "eps x10": dict(layer_norm_epsilon=1e-4)}, notes=["Mamba 1: inner width 64, 8 states a channel, time step of rank 6, convolution of 4 taps with a bias; tied"])
def _(): return MambaConfig(**MAMBA, tie_word_embeddings=True)
@zoo("mamba-falcon", arch_spec="mamba", hook=memory(), hub_keep=True, fix_config=config(pad_vocab_size_multiple=8), sens={**RECURRENT, "no inner norms": lambda m: [setattr(x, n, torch.nn.Identity()) for x in m.modules() for n in ("dt_layernorm", "b_layernorm", "c_layernorm") if hasattr(x, n)], "eps x10": dict(layer_norm_epsilon=1e-4), "eps of the inner norms 1e-5": dict(mixer_rms_eps=1e-5)},
     notes=["FalconMambaForCausalLM: as mamba with RMS norms without weights on time step, B and C, told by ssm.dt_b_c_rms; their epsilon is 1e-6 (mixer_rms_eps as published, not in the GGUF); untied", "llama.cpp takes the epsilon of the other norms, 1e-5, for the inner ones; HF is the truth"])
def _(): return FalconMambaConfig(**MAMBA, tie_word_embeddings=False, mixer_rms_eps=1e-6)

JAMBA = dict(num_hidden_layers=4, intermediate_size=24, num_experts=4, num_experts_per_tok=2, attn_layer_period=4, attn_layer_offset=2, expert_layer_period=2, expert_layer_offset=1, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=6, use_mamba_kernels=False)
@zoo("jamba", hook=memory(), hub_keep=True, sens={**RECURRENT, "top 1": dict(num_experts_per_tok=1), "inner norm weights = 1": ones("dt_layernorm", "b_layernorm", "c_layernorm"), "eps x10": dict(rms_norm_eps=1e-5)},
     notes=["Jamba: mamba, mamba, attention without rope, mamba; dense and experts (4, top 2, softmax, not renormalized) in turn; RMS norms with weights on time step, B and C; untied"])
def _(): return JambaConfig(**z(**JAMBA, rms_norm_eps=1e-6, tie_word_embeddings=False, pad_token_id=0))

# ------------------------------------------------------------------ Mamba 2
@zoo("mamba2", hook=memory(), hub_keep=True, fix_config=config(pad_vocab_size_multiple=8), sens={**RECURRENT, "eps x10": dict(layer_norm_epsilon=1e-4), "one norm over all groups": lambda m: [setattr(x, "group_size", 64) for n, x in m.named_modules() if n.endswith("mixer.norm")]},
     notes=["Mamba 2: 8 heads of 8, 16 states, 2 groups of B and C, gated norm by group, convolution over x, B and C; untied"])
def _(): return Mamba2Config(**{**but(MAMBA, "time_step_rank"), "state_size": 16}, num_heads=8, head_dim=8, n_groups=2, chunk_size=16, tie_word_embeddings=False)
NEMOTRON = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=12, ssm_state_size=16, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, conv_kernel=4, chunk_size=16, use_mamba_kernels=False, mlp_hidden_act="relu2", layer_norm_epsilon=1e-5, tie_word_embeddings=False, intermediate_size=48, pad_token_id=0)
def nemotron(pattern): return config(hybrid_override_pattern=pattern, layers_block_type=None, num_hidden_layers=len(pattern))
def without_experts(h):     # transformers 5 writes them where there are none
    for k in [k for k in h if "expert" in k or k in ("n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor", "moe_intermediate_size")]: del h[k]
    h["hybrid_override_pattern"] = "M-M*-"
NEMOTRON_SENS = {**RECURRENT, "one norm over all groups": lambda m: [setattr(x, "group_size", 64) for n, x in m.named_modules() if n.endswith("mixer.norm")], "silu": dict(mlp_hidden_act="silu"), "eps x10": dict(layer_norm_epsilon=1e-4)}
@zoo("nemotron_h", hook=memory(), hub_keep=True, fix_config=nemotron("M-M*-"), patch=without_experts, sens=NEMOTRON_SENS,
     notes=["Nemotron-H: one branch a block: mamba 2, feed-forward (squared relu, no gate), mamba 2, attention without rope, feed-forward; inner width 64 of 32, heads of 12 in attention; untied"])
def _(): return NemotronHConfig(**{**z(**NEMOTRON), "num_hidden_layers": 5}, layers_block_type=["linear_attention", "mlp", "linear_attention", "full_attention", "mlp"])
NEMOTRON_MOE = dict(n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=12, moe_shared_expert_intermediate_size=20, routed_scaling_factor=2.5, norm_topk_prob=True, n_group=1, topk_group=1)
NEMOTRON_MOE_SENS = {**NEMOTRON_SENS, "top 1": dict(num_experts_per_tok=1), "factor 1": setting(".gate.routed_scaling_factor", 1.0), "not renormalized": setting(".gate.norm_topk_prob", False), "no selection bias": lambda m: [b.zero_() for n, b in m.named_buffers() if "e_score" in n], "no shared expert": zeroed("shared_experts.down_proj")}
@zoo("nemotron_h_moe", seed=3, hook=memory(), hub_keep=True, fix_config=nemotron("MEM*E"), sens=NEMOTRON_MOE_SENS,
     notes=["Nemotron 3 Nano: as nemotron_h with experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 2.5, squared relu without gate) and a shared expert of width 20; untied"])
def _(): return NemotronHConfig(**{**z(**NEMOTRON, **NEMOTRON_MOE), "num_hidden_layers": 5}, layers_block_type=["linear_attention", "moe", "linear_attention", "full_attention", "moe"])
@zoo("nemotron_h_moe-latent", seed=5, arch_spec="nemotron_h_moe", hook=memory(), hub_keep=True, fix_config=nemotron("ME*E"), sens=NEMOTRON_MOE_SENS,
     notes=["Nemotron 3 Super: as nemotron_h_moe with experts that work on 24 dims: down before, up behind the routed ones; untied"])
def _(): return NemotronHConfig(**{**z(**NEMOTRON, **NEMOTRON_MOE), "num_hidden_layers": 4}, moe_latent_size=24, layers_block_type=["linear_attention", "moe", "full_attention", "moe"])

SSM = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=16, mamba_n_groups=2, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16)
@zoo("granitehybrid", hook=memory(), fix_config=config(layer_types=["mamba", "mamba", "attention"]), init=GRANITE_INIT, hub_keep=True, sens={**RECURRENT, **{k: v for k, v in GRANITE_SENS.items() if "theta" not in k}, "top 1": dict(num_experts_per_tok=1), "no shared expert": zeroed("shared_mlp.output_linear")},
     notes=["Granite 4 H: mamba 2, mamba 2, attention without rope; experts (4, top 2, softmax over the chosen) and a shared one; four multipliers; tied"])
def _(): return GraniteMoeHybridConfig(**z(**GRANITE, **SSM, intermediate_size=12, shared_intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, layer_types=["mamba", "mamba", "attention"], position_embedding_type=None, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False))
@zoo("falcon-h1", hook=memory(), hub_keep=True, sens={**RECURRENT, "theta 1e5": dict(rope_parameters=rope(100000.0)), "no mamba": zeroed("mamba.out_proj"), "no attention": zeroed("self_attn.o_proj"), "eps x10": dict(rms_norm_eps=1e-4)},
     notes=["Falcon H1: attention with rope and mamba 2 (no gated norm, as published) side by side on one norm, then swiglu; all multipliers (powers of two here) folded into the weights by the converter; untied"])
def _(): return FalconH1Config(**z(num_hidden_layers=2, head_dim=8, intermediate_size=40, mamba_d_ssm=64, **SSM, mamba_rms_norm=False, mamba_norm_before_gate=False, rms_norm_eps=1e-5, tie_word_embeddings=False, embedding_multiplier=2.0, lm_head_multiplier=0.5, key_multiplier=0.5, attention_out_multiplier=2.0, attention_in_multiplier=0.5, ssm_out_multiplier=0.5, ssm_in_multiplier=2.0, mlp_multipliers=[0.5, 2.0], ssm_multipliers=[0.5, 2.0, 4.0, 0.25, 0.5], rope_parameters=rope()))

# ------------------------------------------------------------------ Gated DeltaNet
DELTA = dict(num_hidden_layers=4, head_dim=16, linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, rms_norm_eps=1e-6, layer_types=["linear_attention"] * 3 + ["full_attention"])
DELTA_SENS = {"one tap": no_taps, "no memory": fresh, "no dt bias": zeroed("dt_bias"), "q/k norm weights = 0": zeroed("q_norm", "k_norm"), "eps x10": dict(rms_norm_eps=1e-5)}
NEXT_MOE = dict(moe_intermediate_size=12, shared_expert_intermediate_size=12, num_experts=4, num_experts_per_tok=2)
NEXT_SENS = {"top 1": dict(num_experts_per_tok=1), "no shared expert": zeroed("shared_expert.down_proj"), "no gate on the shared expert": zeroed("shared_expert_gate")}
@zoo("qwen3next", f64=True, hook=memory(), pre="qwen2", conv_extra=("--no-mtp",), hub_keep=True, sens={**DELTA_SENS, **NEXT_SENS, "theta 1e4": dict(rope_parameters=rope(partial_rotary_factor=0.25))},
     notes=["Qwen3-Next: gated delta net in three of four layers (2 key heads and 4 value heads of 8, 4 taps), attention with a gate per element interleaved with the queries, q/k norm, rope over 4 of 16 dims; experts (4, top 2, softmax, weights to sum 1) and a gated shared one; untied"])
def _(): return Qwen3NextConfig(**z(**DELTA, **NEXT_MOE, intermediate_size=24, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False, rope_parameters=rope(1000000.0, partial_rotary_factor=0.25)))
def plain_type(w, j): j["model_type"] = "qwen3_5_text"; return w     # AutoTokenizer adds a token to the vocabulary for the type of the class
MROPE = dict(mrope_interleaved=True, mrope_section=[1, 1, 0], partial_rotary_factor=0.25)
@zoo("qwen35", hook=memory(), pre="qwen2", conv_extra=("--no-mtp",), hub_keep=True, cls="Qwen3_5ForCausalLM", sens={**DELTA_SENS, "theta 1e4": dict(rope_parameters=rope(**MROPE))},
     notes=["Qwen3.5 dense: as qwen3next with the value heads of the GGUF in tiled order, sections of rope (the same for text), swiglu; untied"])
def _(): return Qwen3_5TextConfig(**z(**DELTA, intermediate_size=40, tie_word_embeddings=False, rope_parameters=rope(1000000.0, **MROPE)))
@zoo("qwen35moe", f64=True, hook=memory(), pre="qwen2", conv_extra=("--no-mtp",), hub_keep=True, cls="Qwen3_5MoeForCausalLM", rename=plain_type, sens={**DELTA_SENS, **NEXT_SENS, "theta 1e4": dict(rope_parameters=rope(**MROPE))},
     notes=["Qwen3.5 MoE: as qwen35 with experts (4, top 2, softmax, weights to sum 1) and a gated shared one; untied"])
def _(): return Qwen3_5MoeTextConfig(**z(**DELTA, **NEXT_MOE, tie_word_embeddings=False, rope_parameters=rope(1000000.0, **MROPE)))

# ------------------------------------------------------------------ Kimi delta attention
def kimi_dense(w, j): return {n.replace("block_sparse_moe.", "mlp.") if ".layers.0." in n else n: x for n, x in w.items()}     # the reverse mapping of transformers renames the dense layer too
def kimi(h):            # as the published file has it
    h.update(moe_router_activation_func="sigmoid", num_shared_experts=1, first_k_dense_replace=1, num_experts=4,
             linear_attn_config=dict(full_attn_layers=[i + 1 for i, t in enumerate(h["layer_types"]) if t == "full_attention"], short_conv_kernel_size=h["linear_conv_kernel_dim"], head_dim=h["linear_head_dim"], num_heads=h["linear_num_heads"]))
@zoo("kimi-linear", hook=memory(), hub_keep=True, patch=kimi, rename=kimi_dense, sens={**but(DELTA_SENS, "q/k norm weights = 0"), "eps x10": dict(rms_norm_eps=1e-4), "top 1": dict(num_experts_per_tok=1), "no selection bias": lambda m: [b.zero_() for n, b in m.named_buffers() if "e_score" in n] or [p.data.zero_() for n, p in m.named_parameters() if "e_score" in n], "factor 1": setting(".gate.routed_scaling_factor", 1.0), "no shared expert": zeroed("shared_experts.down_proj")},
     notes=["Kimi Linear: Kimi delta attention in three of four layers (4 heads of 8, 4 taps, a decay per channel), latent attention without rope in the fourth; dense, then experts (4, top 2, sigmoid, selection bias, weights to sum 1 times 2.5) and a shared one; untied"])
def _(): return KimiLinearConfig(**z(num_hidden_layers=4, num_key_value_heads=4, intermediate_size=40, moe_intermediate_size=12, n_shared_experts=1, routed_scaling_factor=2.5, kv_lora_rank=12, q_lora_rank=None, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6, n_group=1, topk_group=1, num_experts_per_tok=2, norm_topk_prob=True, rms_norm_eps=1e-5, num_local_experts=4, mlp_layer_types=["dense"] + ["sparse"] * 3, layer_types=["linear_attention"] * 3 + ["full_attention"], linear_head_dim=8, linear_num_heads=4, linear_conv_kernel_dim=4, tie_word_embeddings=False))

# ------------------------------------------------------------------ lightning attention
def minimax(w, j):      # as the published file has it
    j.update(architectures=["MiniMaxText01ForCausalLM"], model_type="llama", rotary_dim=8, **{f"layernorm_{x}_{y}": v for x in ("full_attention", "linear_attention", "mlp") for y, v in (("alpha", 3.5), ("beta", 1.0))})
    return {n: x for n, x in w.items() if not n.endswith(("_decay", "slope_rate"))}
def interval(model): model.gguf_writer.add_full_attention_interval(3)
def no_suppressed():
    from conversion.minimax import MiniMaxText01Model
    MiniMaxText01Model._get_suppress_tokens = lambda self: []      # reads the index of a model in several files
no_suppressed()
@zoo("minimax-01", hub_keep=True, rename=minimax, after=interval, sens={"top 1": dict(num_experts_per_tok=1), "no decay": lambda m: [setattr(x, n, f(getattr(x, n))) for x in m.modules() if hasattr(x, "slope_rate") for n, f in (("slope_rate", lambda t: t * 0), ("query_decay", lambda t: t * 0 + 1), ("key_decay", lambda t: t * 0 + 1), ("diagonal_decay", lambda t: (t > 0).float()))], "no output gate": zeroed("output_gate"), "factor 3.4": dict(full_attn_alpha_factor=3.4, linear_attn_alpha_factor=3.4, mlp_alpha_factor=3.4), "theta 1e4": dict(rope_parameters=rope()), "eps x10": dict(rms_norm_eps=1e-4)},
     notes=["MiniMax Text 01: lightning attention in layers 0 and 1 (decay by head and layer, SiLU on q, k and v, norm over all heads with epsilon 1e-6 whatever the file says, sigmoid gate), attention in layer 2; what goes past a branch is its normed input times 3.5; experts (4, top 2, softmax, weights to sum 1); untied", "full_attention_interval 3 is added to what the converter writes (published: 8 by default); the rope of the class turns the whole head, rotary_dim is written as that"])
def _(): return MiniMaxConfig(**z(head_dim=8, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, block_size=16, layer_types=["linear_attention", "linear_attention", "full_attention"], full_attn_alpha_factor=3.5, linear_attn_alpha_factor=3.5, mlp_alpha_factor=3.5, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(50000.0)))

# ------------------------------------------------------------------ PLaMo 2, by llama.cpp
def plamo2(n, r):
    if n.endswith("ssm_a"): return -np.exp(0.7 * r)
    if n.endswith("ssm_dt.bias"): return -1.5 + 1.5 * r
    if n.endswith(("q_norm.weight", "k_norm.weight")): return 1 + 0.3 * r
PLAMO2_MAMBA = {"attn_norm.weight": (32,), "ssm_in.weight": (128, 32), "ssm_conv1d.weight": (64, 4), "ssm_x.weight": (96, 64), "ssm_dt.weight": (4, 64), "ssm_dt.bias": (4,), "ssm_a": (4,), "ssm_d": (4,), "ssm_out.weight": (32, 64), "ssm_dt_norm": (64,), "ssm_b_norm": (16,), "ssm_c_norm": (16,)}
PLAMO2_ATTENTION = {"attn_norm.weight": (32,), "attn_qkv.weight": (128, 32), "attn_q_norm.weight": (4, 16), "attn_k_norm.weight": (2, 16), "attn_output.weight": (32, 64)}
PLAMO2_FF = {"post_attention_norm": (32,), "ffn_norm.weight": (32,), "ffn_up.weight": (64, 32), "ffn_down.weight": (32, 32), "post_ffw_norm": (32,)}
by_llamacpp("plamo2", "plamo2", {"block_count": 3, "vocab_size": 264, "context_length": 1024, "embedding_length": 32, "feed_forward_length": 32, "attention.head_count": [4, 0, 0], "attention.head_count_kv": [2, 0, 0], "attention.key_length": 16, "attention.value_length": 16, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 50000.0,
    "ssm.state_size": 16, "ssm.conv_kernel": 4, "ssm.time_step_rank": 4, "ssm.inner_size": 64, "ssm.group_count": 0}, model([{**PLAMO2_ATTENTION, **PLAMO2_FF}, {**PLAMO2_MAMBA, **PLAMO2_FF}, {**PLAMO2_MAMBA, **PLAMO2_FF}], tied=True),
    ["PLaMo 2: Mamba with a decay per head (4 heads of 16, 16 states), time step of rank 64, RMS norms on time step, B and C, gate and x interleaved by head, convolution without a bias; attention with q/k norm (a weight per head) before rope in layer 0; norms before and behind both branches; gate and up in one; tied", "published files have Mamba in layer 0: with 0 heads there llama.cpp takes a rope of 0 dims and does not come back"], hook=plamo2,
    sens={**EPS, **THETA, "no dt bias": ({}, {"ssm_dt.bias": 0.0}), "no D": ({}, {"ssm_d": 0.0}), "inner norm weights = 1": ({}, {"ssm_dt_norm": 1.0, "ssm_b_norm": 1.0, "ssm_c_norm": 1.0}), "q/k norm weights = 1": ({}, {"_q_norm": 1.0, "_k_norm": 1.0})})

if __name__ == "__main__": run(sys.argv[1:])
