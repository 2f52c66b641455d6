#!/usr/bin/env python3
"""Builds the reference fixtures.   make.py base|dropin|zoo [name ...]     (no names: all of the group)
Layout: <group>/<name>/: hf/, model-f32.gguf, reference.safetensors, fixture.json; manifest.json per group.
hf/ is kept without its weights (hf_tensors.py). zoo: no fixture.json, what it says is the model's line of manifest.json; model-f16.gguf, of weights that f16 holds exactly."""
from fixlib import *
from by_spec import by_spec
import float64, hf_tensors
import traceback, time, zlib
from transformers import *  # noqa: config classes by name
quiet()

SPECS = {}
def spec(name, group="base", **kw):
    def deco(f):
        assert (group, name) not in SPECS, name
        SPECS[group, name] = dict(name=name, group=group, make=f, **{**dict(pre="gpt-2", tok="gpt2", seed=len(SPECS) + 11 if group == "base" else zlib.crc32(name.encode()) % 100000, dtype="f32", notes=[], cls="AutoModelForCausalLM", cmp=True, long=True, nctx_short=256, variants={}), **kw})
        return f
    return deco

C = dict(vocab_size=V, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
         max_position_embeddings=1024, bos_token_id=1, eos_token_id=2, pad_token_id=None)
def c(**k): return {**C, **k}

# ------------------------------------------------------------------ group A
@spec("llama", hub_fix=lambda j: j["rope_scaling"].pop("type"), pre="llama-bpe", tok="llama3", notes=["llama3 rope scaling (orig 64, factor 8: one unscaled, two smoothed, the rest divided by 8; GGUF carries rope_freqs.weight)", "untied head, GQA 4/2, q/k rows permuted in the GGUF (interleaved rope) but not in HF (rotate_half)"])
def _(): return LlamaConfig(**c(rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)))

@spec("mixtral", tok="spm", pre="default", dtype="bf16", notes=["GGUF arch llama with 8 experts, top 2, softmax over the chosen two; tied embeddings; SPM tokenizer; HF file stored as bf16 (values are exact in bf16)"])
def _(): return MixtralConfig(**c(intermediate_size=48, num_local_experts=8, num_experts_per_tok=2, sliding_window=None, tie_word_embeddings=True, rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=1000000.0)))

@spec("phi2", dtype="f16", notes=["parallel attention+MLP from ONE layernorm, biases everywhere including lm_head, partial rotary 0.5 (8 of 16), gelu_new (tanh)", "converter always writes n_ff = 4*hidden and kv heads = heads"])
def _(): return PhiConfig(**c(num_key_value_heads=4, intermediate_size=256, hidden_act="gelu_new", qk_layernorm=False, layer_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)))

def lf(n, a, b): return [round(a + (b - a) * i / (n - 1), 4) for i in range(n)]
@spec("phi3", cross=252, extra_jobs=dict(prompt_nctx512=(512, 48)), hub_fix=lambda j: j.update(rope_scaling=dict(type="longrope", short_factor=j["rope_scaling"]["short_factor"], long_factor=j["rope_scaling"]["long_factor"])), tok="spm", pre="default", dtype="bf16", variants=dict(nosw=dict(sliding_window=None)), notes=["longrope: short factors for sequences of <= 256 tokens, long factors beyond (the 300-token prompt); attention factor sqrt(1+ln(4)/ln(256)) on cos and sin in both cases", "sliding window 64 (HF: key visible iff q-k < 64)", "fused qkv_proj and gate_up_proj (gate first)"])
def _(): return Phi3Config(**c(sliding_window=64, original_max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, short_factor=lf(8, 1.0, 1.9), long_factor=lf(8, 1.1, 5.5), original_max_position_embeddings=256)))

@spec("qwen2", pre="qwen2", tok="qwen2", dtype="bf16", notes=["q/k/v biases, no o bias; tied embeddings; theta 1e6"])
def _(): return Qwen2Config(**c(tie_word_embeddings=True, use_sliding_window=False, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000000.0)))

@spec("qwen3", pre="qwen2", tok="qwen2", dtype="bf16", notes=["per-head q_norm/k_norm before rope; head_dim 32 != hidden/heads 16 (q_proj 128x64, o_proj 64x128); untied"])
def _(): return Qwen3Config(**c(head_dim=32, tie_word_embeddings=False, use_sliding_window=False, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000000.0)))

@spec("qwen3moe", pre="qwen2", tok="qwen2", dtype="bf16", notes=["8 experts, top 2, norm_topk_prob true; q_norm/k_norm; moe_intermediate 40 != intermediate 128"])
def _(): return Qwen3MoeConfig(**c(head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=40, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False, use_sliding_window=False, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000000.0)))

@spec("starcoder2", pre="starcoder", tok="gpt2", dtype="bf16", variants=dict(nosw=dict(sliding_window=None)), notes=["LayerNorm with bias, biases on all projections, gelu tanh, tied; sliding window 64"])
def _(): return Starcoder2Config(**c(use_bias=True, sliding_window=64, norm_epsilon=1e-5, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=100000.0)))

@spec("mistral3", hub_keep=True, pre="llama-bpe", tok="llama3", dtype="bf16", notes=["HF Ministral3ForCausalLM; yarn (factor 16, orig 32) with mscale = mscale_all_dim = 1 (attention factor 1); llama_4_scaling_beta 0.1: q *= 1 + 0.1*ln(1 + floor(pos/32)) after rope", "head_dim 32 != hidden/heads"])
def _(): return Ministral3Config(**c(head_dim=32, max_position_embeddings=512, tie_word_embeddings=False, rms_norm_eps=1e-5, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=32, max_position_embeddings=512, beta_fast=2.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)))

@spec("gemma3", tok="spm", pre="default", dtype="bf16", init=dict(embed_std=0.06, final_norm=6.0), notes=["7 layers: 5 sliding (window 32, theta 1e4), 1 full (theta 1e6, linear factor 8), 1 sliding; q/k norm; 4 norms a layer with (1+w); embedding times sqrt(64); gelu tanh; tied; kv heads 1"])
def _(): return Gemma3TextConfig(**c(num_hidden_layers=7, intermediate_size=80, num_key_value_heads=1, head_dim=16, sliding_window=32, query_pre_attn_scalar=16, rms_norm_eps=1e-6, layer_types=["sliding_attention"] * 5 + ["full_attention", "sliding_attention"], pad_token_id=0,
    rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0), sliding_attention=dict(rope_type="default", rope_theta=10000.0))))

# ------------------------------------------------------------------ held out: no spec was built in when the fixture was made
@spec("smollm3", group="dropin", pre="llama-bpe", tok="llama3", dtype="bf16", notes=["llama without rope on every fourth layer: layer 3 of these four has none (HF no_rope_layers 1,1,1,0; the GGUF says nothing, llama.cpp takes a step of 4)", "q/k rows of every layer are permuted in the GGUF, also where there is no rope", "tied, GQA 4/2, theta 2e6"])
def _(): return SmolLM3Config(**c(num_hidden_layers=4, tie_word_embeddings=True, use_sliding_window=False, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=2000000.0)))

# ------------------------------------------------------------------ zoo: small ones, of specs that are not built in (specs/*.toml, zoo/*.toml) and of what no base fixture has
Z = dict(vocab_size=V_TINY, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
         max_position_embeddings=1024, bos_token_id=1, eos_token_id=2, pad_token_id=None)
def z(**k): return {**Z, **k}
def zoo(name, **kw): return spec(name, group="zoo", **{**dict(tok="tiny_bpe", vocab=V_TINY, arch_spec=name), **kw})
def rope(theta=10000.0, **k): return dict(rope_type="default", rope_theta=theta, **k)
def near(value, *parts):    # norm weights that init_weights would take for matrices, or that 1 would not suit
    def hook(n, p, r):
        if not any(x in n for x in parts): return False
        p.copy_(value * (1 + 0.3 * r(p))); return True
    return hook
def setting(path, value):   # a sensitivity: an attribute of every module whose name ends so
    mod, attr = path.rsplit(".", 1)
    def change(m):
        hit = [x for n, x in m.named_modules() if n.endswith(mod) and hasattr(x, attr)]
        assert hit, path
        for x in hit: setattr(x, attr, value(getattr(x, attr)) if callable(value) else value)
    return change
def zeroed(*parts):         # a sensitivity: parameters set to nothing
    def change(m):
        hit = [p for n, p in m.named_parameters() if any(x in n for x in parts)]
        assert hit, parts
        with torch.no_grad():
            for p in hit: p.zero_()
    return change
def ones(*parts):
    def change(m):
        hit = [p for n, p in m.named_parameters() if any(x in n for x in parts)]
        assert hit, parts
        with torch.no_grad():
            for p in hit: p.fill_(1)
    return change

def scaled(**k): return dict(rope_parameters=dict(rope_theta=10000.0, **k))
LLAMA = dict(rms_norm_eps=1e-5, tie_word_embeddings=True)
@zoo("llama-linear", arch_spec="llama", sens={"no scaling": dict(rope_parameters=rope()), "factor 4.1": scaled(rope_type="linear", factor=4.1), "theta 10100": dict(rope_parameters=dict(rope_type="linear", rope_theta=10100.0, factor=4.0)), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["linear rope scaling, factor 4; tied"])
def _(): return LlamaConfig(**z(**LLAMA, **scaled(rope_type="linear", factor=4.0)))
YARN = dict(rope_type="yarn", original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5)
@zoo("llama-yarn", arch_spec="llama", sens={"no scaling": dict(rope_parameters=rope()), "factor 4.1": scaled(factor=4.1, **YARN), "magnitude 1": setting("rotary_emb.attention_scaling", 1.0), "magnitude 1 + 0.11 ln 4": setting("rotary_emb.attention_scaling", 1 + 0.11 * math.log(4)), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["yarn, factor 4, original context 64; no attention factor is given, so that the magnitude is 1 + 0.1 ln 4; tied"])
def _(): return LlamaConfig(**z(**LLAMA, **scaled(factor=4.0, **YARN)))
def llama_window(model): model.gguf_writer.add_uint32("llama.attention.sliding_window", 16)
@zoo("llama-window", arch_spec="llama", after=llama_window, sens={"window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "no window": dict(sliding_window=None), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["MistralForCausalLM, window 16 in every layer; tied", "attention.sliding_window is added to what the converter writes; llama.cpp ignores it"])
def _(): return MistralConfig(**z(**LLAMA, sliding_window=16, rope_parameters=rope()))

@zoo("command-r", hook=near(1, "q_norm", "k_norm"), init=dict(final_norm=12.0), sens={"no logit scale": dict(logit_scale=1.0), "logit scale 1/16": dict(logit_scale=0.0625), "qk norm weights = 1": ones("q_norm", "k_norm"), "theta 1e4": dict(rope_parameters=rope()), "eps x10": dict(layer_norm_eps=1e-4)},
     notes=["parallel on one norm without bias; qk norm (LayerNorm, a weight per head); logits times 0.25; rope over adjacent pairs, not permuted; tied"])
def _(): return CohereConfig(**z(logit_scale=0.25, use_qk_norm=True, layer_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=rope(50000.0)))

@zoo("cohere2", patch=lambda h: h.setdefault("rotary_pct", 1.0), init=dict(final_norm=12.0), sens={"window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "all full": dict(layer_types=["full_attention"] * 5), "rope everywhere": lambda m: [setattr(l.self_attn, "sliding_window", l.self_attn.sliding_window or 10000) for l in m.model.layers], "logit scale 1/16": dict(logit_scale=0.0625), "eps x10": dict(layer_norm_eps=1e-4)},
     notes=["5 layers: 3 windowed (16) with rope, 1 full without, 1 windowed; logits times 0.25", "the GGUF has no pattern key (llama.cpp takes a step of 4)"])
def _(): return Cohere2Config(**z(num_hidden_layers=5, intermediate_size=32, logit_scale=0.25, sliding_window=16, layer_norm_eps=1e-5, tie_word_embeddings=True, layer_types=["sliding_attention"] * 3 + ["full_attention", "sliding_attention"], rope_parameters=rope()))

def falcon(**k): return FalconConfig(vocab_size=V_TINY, hidden_size=32, num_attention_heads=4, bos_token_id=1, eos_token_id=2, alibi=False, bias=False, parallel_attn=True, max_position_embeddings=2048, layer_norm_epsilon=1e-5, rope_parameters=rope(), **k)
GELU = {"tanh gelu": dict(activation="gelu_pytorch_tanh"), "eps x10": dict(layer_norm_epsilon=1e-4), "theta 2e4": dict(rope_parameters=rope(20000.0))}
@zoo("falcon", sens=GELU, notes=["Falcon 7B: multi-query, one norm for both branches, erf GELU, no biases but the norms', untied", "num_kv_heads is 1 in config.json because transformers 5 writes the number of heads and the converter believes it"])
def _(): return falcon(num_hidden_layers=3, multi_query=True, num_kv_heads=1, new_decoder_architecture=False, tie_word_embeddings=False)
@zoo("falcon-40b", arch_spec="falcon", sens={**GELU, "norms exchanged": lambda m: [setattr(l, "ln_attn", b) or setattr(l, "ln_mlp", a) for l in m.transformer.h for a, b in [(l.ln_attn, l.ln_mlp)]]}, notes=["Falcon 40B: two norms (ln_attn, ln_mlp), grouped queries 4/2 interleaved in HF, erf GELU, tied"])
def _(): return falcon(num_hidden_layers=3, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=2, tie_word_embeddings=True)

@zoo("gemma3", init=dict(embed_std=0.06, final_norm=6.0), sens={"window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "no softcap": dict(final_logit_softcapping=None), "scale 1/sqrt(hidden/heads)": dict(query_pre_attn_scalar=16), "no embedding scale": setting("embed_tokens.embed_scale", lambda t: t * 0 + 1), "erf gelu": dict(hidden_activation="gelu"), "qk norm weights = 0": zeroed("q_norm", "k_norm"), "eps x10": dict(rms_norm_eps=1e-5)},
     notes=["7 layers: 5 windowed (16, theta 1e4), 1 full (theta 1e6, linear factor 8), 1 windowed; q/k norm; 4 norms a layer with (1+w); embedding times sqrt(32); head_dim 20 of hidden/heads 16; kv heads 1; final softcap 4 (the published ones have none); tied"])
def _(): return Gemma3TextConfig(**z(num_hidden_layers=7, intermediate_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=20, sliding_window=16, query_pre_attn_scalar=20, rms_norm_eps=1e-6, final_logit_softcapping=4.0, hidden_activation="gelu_pytorch_tanh", layer_types=["sliding_attention"] * 5 + ["full_attention", "sliding_attention"], pad_token_id=0,
    rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0), sliding_attention=rope())))

@zoo("gpt2", patch=lambda h: h.setdefault("n_ctx", h["n_positions"]), init=dict(std=0.2), sens={"no positions": zeroed("wpe"), "erf gelu": dict(activation_function="gelu"), "no qkv bias": zeroed("c_attn.bias"), "no output bias": zeroed("attn.c_proj.bias"), "no feed-forward bias": zeroed("mlp.c_proj.bias"), "eps x10": dict(layer_norm_epsilon=1e-4)},
     notes=["learned positions (320), no rope; biases everywhere; fused qkv stored transposed in HF; tanh GELU; tied"])
def _(): return GPT2Config(vocab_size=V_TINY, n_positions=320, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, activation_function="gelu_new", layer_norm_epsilon=1e-5, tie_word_embeddings=True)

GRANITE = dict(embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.35, logits_scaling=0.5)
GRANITE_INIT = dict(embed_std=0.03, final_norm=6.0)      # a larger embedding would drown the residuals and make every step repeat its token
GRANITE_SENS = {"embedding multiplier 5.9": dict(embedding_multiplier=5.9), "attention scale 1/sqrt(d)": dict(attention_multiplier=8 ** -0.5), "residual multiplier 0.36": dict(residual_multiplier=0.36), "logits times 0.5": dict(logits_scaling=2.0), "eps x10": dict(rms_norm_eps=1e-4), "theta 1e4": dict(rope_parameters=rope())}
@zoo("granite", init=GRANITE_INIT, sens=GRANITE_SENS, notes=["llama with four multipliers: embedding 6, attention scale 0.2, residual 0.35, logits divided by 0.5; tied; q/k rows permuted in the GGUF"])
def _(): return GraniteConfig(**z(**GRANITE, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, mlp_bias=False, rope_parameters=rope(50000.0)))
@zoo("granitemoe", arch_spec="granite", init=GRANITE_INIT, sens={**GRANITE_SENS, "top 1": dict(num_experts_per_tok=1), "no shared expert": zeroed("shared_mlp.output_linear")}, notes=["GraniteMoeShared: 4 experts, top 2, softmax over the chosen, a shared expert of width 24 beside them, the four multipliers", "converter: router and input_linear split into gate and up"])
def _(): return GraniteMoeSharedConfig(**z(**GRANITE, num_hidden_layers=2, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=24, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, rope_parameters=rope(50000.0)))

@zoo("olmo2", sens={"q/k norm weights = 1": ones("q_norm", "k_norm"), "theta 1e4": dict(rope_parameters=rope()), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["norms on the branches' outputs, none before; q/k RMS norm over all heads together; halves, not permuted; untied"])
def _(): return Olmo2Config(**z(rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, rope_parameters=rope(500000.0)))
@zoo("olmo3", arch_spec="olmo2", hub_keep=True, sens={"yarn everywhere": lambda m: (m.model.rotary_emb.sliding_attention_inv_freq.copy_(m.model.rotary_emb.full_attention_inv_freq), setattr(m.model.rotary_emb, "sliding_attention_attention_scaling", m.model.rotary_emb.full_attention_attention_scaling)), "yarn nowhere": lambda m: (m.model.rotary_emb.full_attention_inv_freq.copy_(m.model.rotary_emb.sliding_attention_inv_freq), setattr(m.model.rotary_emb, "full_attention_attention_scaling", 1.0)), "yarn magnitude 1": lambda m: setattr(m.model.rotary_emb, "full_attention_attention_scaling", 1.0), "window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "all full": dict(layer_types=["full_attention"] * 4), "eps x10": dict(rms_norm_eps=1e-4)}, notes=["Olmo3ForCausalLM, GGUF arch olmo2: 4 layers, 3 windowed (16) and 1 full by the pattern array of the GGUF; yarn (factor 8, orig 64, the attention factor written out as published) on the full layer only", "llama.cpp rotates all layers with the scaled rope; HF is the truth"])
def _(): return Olmo3Config(**z(num_hidden_layers=4, intermediate_size=48, sliding_window=16, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, layer_types=["sliding_attention"] * 3 + ["full_attention"],
    rope_parameters=dict(sliding_attention=rope(10000.0), full_attention=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5, attention_factor=1.2079441541679836))))

@zoo("stablelm", sens={"no qkv bias": zeroed("q_proj.bias", "k_proj.bias", "v_proj.bias"), "norm bias 0": zeroed("layernorm.bias", "norm.bias"), "eps x10": dict(layer_norm_eps=1e-4)}, notes=["StableLM 2 1.6B: sequential, LayerNorm with bias, q/k/v biases, rope over the first 4 of 8 dims, untied"])
def _(): return StableLmConfig(**z(use_qkv_bias=True, qk_layernorm=False, use_parallel_residual=False, layer_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(partial_rotary_factor=0.5)))
@zoo("stablelm-12b", arch_spec="stablelm", sens={"q/k norm weights = 1": ones("q_layernorm", "k_layernorm"), "eps x10": dict(layer_norm_eps=1e-4)}, hook=near(1, "q_layernorm", "k_layernorm"), notes=["StableLM 2 12B: parallel on one norm, LayerNorm per head on q and k with a weight per head, no q/k/v bias, rope over the first 2 of 8 dims", "the converter loses the per-head norms, repaired in fixlib.convert"])
def _(): return StableLmConfig(**z(use_qkv_bias=False, qk_layernorm=True, use_parallel_residual=True, layer_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(partial_rotary_factor=0.25)))

def llama4_keys(model):     # llama.cpp holds these as constants (8192, 0.1, 8192): far beyond any small fixture
    w, a = model.gguf_writer, "llama4.attention."
    w.add_uint32(a + "chunk_size", 16); w.add_float32(a + "temperature_scale", 0.3); w.add_uint32(a + "temperature_length", 8)
@zoo("llama4", after=llama4_keys, sens={"chunk 15": dict(attention_chunk_size=15), "no temperature": dict(attn_temperature_tuning=False), "temperature length 9": dict(floor_scale=9), "no qk norm": dict(use_qk_norm=False), "rope everywhere": dict(no_rope_layers=[1, 1, 1, 1], layer_types=["chunked_attention"] * 3 + ["full_attention"]), "no shared expert": zeroed("shared_expert.down_proj"), "eps x10": dict(rms_norm_eps=1e-4)},
     notes=["text only; 4 layers: 3 chunked (16) with rope, 1 full without; experts in layers 1 and 3 (4, top 1, sigmoid applied to the input, a shared expert), dense in 0 and 2; weightless q/k norm after rope; temperature 0.3 over 8 on the layer without rope",
            "attention.chunk_size, .temperature_scale and .temperature_length are added to what the converter writes: llama.cpp has 8192, 0.1, 8192 as constants"])
def _(): return Llama4TextConfig(**z(num_hidden_layers=4, head_dim=8, intermediate_size=12, intermediate_size_mlp=32, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=16, floor_scale=8, attn_scale=0.3, attn_temperature_tuning=True, rms_norm_eps=1e-5, tie_word_embeddings=False, rope_parameters=rope(50000.0)))

@zoo("lfm2", sens={"kernel reversed": lambda m: [l.conv.conv.weight.data.copy_(l.conv.conv.weight.data.flip(-1)) for l in m.model.layers if hasattr(l, "conv")], "oldest tap 0": lambda m: [l.conv.conv.weight.data[..., 0].zero_() for l in m.model.layers if hasattr(l, "conv")], "qk norm weights = 1": ones("q_layernorm", "k_layernorm"), "theta 1e4": dict(rope_parameters=rope()), "eps x10": dict(norm_eps=1e-4)},
     notes=["5 layers: short convolution (4 taps) in 0, 1 and 3, attention in 2 and 4; the convolution's input is B*x, its output is gated by C, order B, C, x; q/k norm per head before rope; the output norm is the tensor token_embd_norm; tied", "feed-forward of 57 adjusted to 40 = 8 * ceil(int(2 * 57 / 3) / 8)"])
def _(): return Lfm2Config(**z(num_hidden_layers=5, intermediate_size=57, block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.0, block_multiple_of=8, conv_L_cache=4, conv_bias=False, norm_eps=1e-5, layer_types=["conv", "conv", "full_attention", "conv", "full_attention"], tie_word_embeddings=True, rope_parameters=rope(100000.0)))

def gemma4_scalars(model):  # llama.cpp: a layer without the scalar has 1
    for tensors in model.gguf_writer.tensors:
        for n in [n for n in tensors if "layer_output_scale" in n]:
            del tensors[n]
@zoo("gemma4", patch=lambda h: h.update(global_head_dim=16), hub_keep=True, after=gemma4_scalars, hook=near(0.5, "q_norm", "k_norm"), init=dict(embed_std=0.06, final_norm=6.0), sens={"no v norm": lambda m: [setattr(l.self_attn, "v_norm", torch.nn.Identity()) for l in m.model.layers], "window 15": dict(sliding_window=15), "window 17": dict(sliding_window=17), "no softcap": dict(final_logit_softcapping=None), "no embedding scale": setting("embed_tokens.embed_scale", lambda t: t * 0 + 1), "qk norm weights = 1": ones("q_norm", "k_norm"), "scale 1/sqrt(d)": setting("self_attn.scaling", lambda x: 0.25), "whole rope": lambda m: m.model.rotary_emb.full_attention_inv_freq.copy_(1 / 1e6 ** (torch.arange(0, 16, 2).float() / 16)), "erf gelu": dict(hidden_activation="gelu"), "eps x10": dict(rms_norm_eps=1e-5)},
     notes=["Gemma 4 dense without its novelties: no per-layer inputs, no shared KV, no K = V, no experts, equal head sizes. What is left: weightless RMS norm on the values, attention scale 1, proportional rope on full layers (half of the pairs turn: tensor rope_freqs, 1 and 1e30), window 16, softcap 5, norm weights without offset",
            "layer_output_scale is 1 in every layer (HF's default) and removed from the GGUF, where absent means 1; the vocabulary is written as gpt2 instead of gemma4"])
def _(): return Gemma4TextConfig(**z(num_hidden_layers=4, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=16, global_head_dim=16, sliding_window=16, hidden_size_per_layer_input=0, vocab_size_per_layer_input=V_TINY, num_kv_shared_layers=0, attention_k_eq_v=False, enable_moe_block=False, final_logit_softcapping=5.0, rms_norm_eps=1e-6, pad_token_id=0, tie_word_embeddings=True, layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    rope_parameters=dict(full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=1000000.0), sliding_attention=rope())))

def pooled_mean(hf):        # the way sentence-transformers says it; the converter writes pooling_type 1
    os.makedirs(hf + "/1_Pooling"); json.dump(dict(pooling_mode_mean_tokens=True, pooling_mode_cls_token=False), open(hf + "/1_Pooling/config.json", "w"))
    json.dump([dict(idx=1, name="1", path="1_Pooling", type="sentence_transformers.models.Pooling")], open(hf + "/modules.json", "w"))
@torch.inference_mode()
def encoded(m, ref, toks, long, info):
    ref["tokens_long"] = long
    for k, t in (("prompt", toks), ("long", long)):
        h = m(input_ids=torch.tensor(t[None])).last_hidden_state[0].numpy()
        ref["hidden_" + k] = h if k == "prompt" else h[-LONG_ROWS:]; ref["mean_" + k] = h.mean(0); ref["first_" + k] = h[0]
    ref["positions_long"] = np.arange(N_LONG - LONG_ROWS, N_LONG, dtype=np.int64); info["hidden_std"] = float(ref["hidden_prompt"].std())
@zoo("bert", cls="AutoModel", pre="bert-bge", tok="tiny_wordpiece", vocab=96, embedding=encoded, after_save=pooled_mean, sens={"no token types": zeroed("token_type"), "no positions": zeroed("position_embeddings"), "tanh gelu": dict(hidden_act="gelu_pytorch_tanh"), "eps x10": dict(layer_norm_eps=1e-4)},
     notes=["encoder: bidirectional, learned positions (320), token types (row 0), norms after the residual, erf GELU, biases everywhere; no head, no logits", "hidden_* is the last hidden state, mean_* its mean over the tokens (pooling_type 1 in the GGUF), first_* its first row; none is scaled to length 1"])
def _(): return BertConfig(vocab_size=96, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, max_position_embeddings=320, type_vocab_size=2, hidden_act="gelu", layer_norm_eps=1e-5, pad_token_id=0)


WHY = dict(
    phi3="llama.cpp ignores phi3.attention.sliding_window (src/models/phi3.cpp sets n_swa = 0): for the GGUF beyond 64 tokens llamacpp_logits_long* (= logits_long*_nosw) is what llama.cpp gives, logits_long* what the key asks for",
    starcoder2="the converter does not write the sliding window of starcoder2: for the GGUF beyond 64 tokens the truth is llamacpp_logits_long* (= logits_long*_nosw); for the HF directory logits_long*",
    mistral_sw="GGUF arch llama carries no sliding window: for the GGUF beyond 64 tokens the truth is llamacpp_logits_long* (= logits_long*_nosw); for the HF directory logits_long*",
    falcon="exact gelu (erf) in HF, tanh gelu in llama.cpp; 3e-3", falcon_new="exact gelu (erf) in HF, tanh gelu in llama.cpp; 3e-3", gptneox="exact gelu (erf) in HF, tanh gelu in llama.cpp; 2e-3", gptneox_serial="exact gelu (erf) in HF, tanh gelu in llama.cpp; 2e-3", mpt="exact gelu (erf) in HF, tanh gelu in llama.cpp; 3e-3",
    phimoe="llama.cpp uses RMS norm for LayerNorm and renormalized softmax top-2 for sparsemixer (the HF model patched the same way agrees at 2e-5); HF is the truth for the model, llamacpp_logits_* what llama.cpp makes of the GGUF",
    exaone4_swa="llama.cpp applies the window and the rope-less layers only when n_layer == 64; HF is the truth",
    gpt_oss_notruncate="llama.cpp always floors/ceils the yarn correction range; HF with truncate=false (the published gpt-oss setting) does not",
    bert="exact gelu (erf) in HF, tanh gelu in llama.cpp; 7e-4", modernbert="exact gelu (erf) in HF, tanh gelu in llama.cpp; 1.7e-3",
    glm4moelite="HF's q_a/kv_a layernorm eps is 1e-6 whatever rms_norm_eps (1e-5) says, llama.cpp uses rms_norm_eps; 2.5e-4", minicpm3="HF's q_a/kv_a layernorm eps is 1e-6 whatever rms_norm_eps (1e-5) says, llama.cpp uses rms_norm_eps; 1e-4",
    falcon_mamba="B, C, dt norm eps: mixer_rms_eps 1e-6 in HF, layer norm eps 1e-5 in llama.cpp; 5e-4",
    qwen3moe_nonorm="llama.cpp always renormalizes the top-k weights in qwen3moe and the GGUF has no key for it; HF with norm_topk_prob=false does not")
# ------------------------------------------------------------------ building
NOISE = 2e-3      # max abs logit difference called float noise (logits have a std of 2 to 5)

def sensitivity(s, hf, cls, ref):
    """How far the logits (or hidden states) of prompt and long input move when one thing is done wrong in HF."""
    def out(over):
        m = hf_load(hf, cls, **(over if isinstance(over, dict) else {}))
        with torch.no_grad(): callable(over) and over(m)
        if not s.get("embedding"): return hf_logits(m, ref["tokens_prompt"]), hf_logits(m, ref["tokens_long"], LONG_ROWS)
        with torch.inference_mode(): a, b = (m(input_ids=torch.tensor(t[None])).last_hidden_state[0].numpy() for t in (ref["tokens_prompt"], ref["tokens_long"]))
        return a, b[-LONG_ROWS:]
    what = "hidden" if s.get("embedding") else "logits"
    return {n: [float(f"{np.abs(a - ref[f'{what}_{k}']).max():.1e}") for a, k in zip(out(o), ("prompt", "long"))] for n, o in s["sens"].items()}

def against_llamacpp(info):
    """How far llama.cpp is from HF at the prompt and at the end of the long text."""
    found = info.get("llamacpp") or {}
    if "error" in found: return dict(llama_cpp_vs_hf_max_abs=None)
    return dict(llama_cpp_vs_hf_max_abs=[float(f"{found['exact'][k]['max_abs']:.1e}") for k in ("prompt", "long")]) if found else {}

def slim(d, info, s, config):
    """A zoo fixture: of the hf folder what hf_tensors.py keeps, matrices as f16, its line for the manifest."""
    if os.path.exists(d + "/model-f32.gguf"): half_gguf(d + "/model-f32.gguf", d + "/model-f16.gguf"); os.remove(d + "/model-f32.gguf")
    os.rename(d + "/hf", d + "/saved"); hf_tensors.store(d + "/saved", d + "/model-f16.gguf", d + "/hf", config); shutil.rmtree(d + "/saved")
    if s.get("spec_sens"): info["sensitivity"] = by_spec(d, s["arch_spec"], s["spec_sens"])
    noise = {k: float(f"{info[k]:.1e}") for k in ("hf_decode_vs_full_max_abs", "hf_f32_vs_f64_max_abs") if info.get(k) is not None}
    size = {k: round(info[k], 3) for k in ("logits_std", "hidden_std", "greedy_min_margin", "prompt_min_margin") if k in info}
    keep = dict(name=info["name"], spec=s["arch_spec"], arch=info.get("arch"), hf_class=info["hf_class"], transformers=info["transformers"], torch=info["torch"], seed=info["seed"], parameters=info["parameters"], pre=s["pre"],
                notes=info["notes"], **size, **noise, greedy_distinct=info.get("greedy_distinct"), argmax_is_input=info.get("argmax_is_input"), precision=info.get("precision"), sensitivity=info.get("sensitivity"), **against_llamacpp(info))
    keep["sha256"] = {f: sha(d + "/" + f) for f in hf_tensors.files(d)}
    return {k: v for k, v in keep.items() if v is not None}

def zoo_manifest(line):
    """manifest.json with this fixture's line in its place."""
    p = os.path.join(ROOT, "zoo", "manifest.json")
    lines = {x["name"]: x for x in (json.load(open(p))["fixtures"] if os.path.exists(p) else [])}
    lines[line["name"]] = line
    body = ",\n".join(json.dumps(lines[n], default=str) for n in sorted(lines) if os.path.isdir(os.path.join(ROOT, "zoo", n)))
    open(p, "w").write('{"group": "zoo", "fixtures": [\n' + body + "\n]}\n")

def renamed(hf, rename):
    """The weights and the config under another architecture's names: `rename(weights, config)` gives the weights and changes the config."""
    from safetensors.torch import load_file as load_torch, save_file as save_torch
    w = load_torch(hf + "/model.safetensors"); j = json.load(open(hf + "/config.json")); w = rename(w, j)
    save_torch({n: x.contiguous() for n, x in w.items()}, hf + "/model.safetensors", metadata=dict(format="pt")); json.dump(j, open(hf + "/config.json", "w"))

def build(s):
    t0 = time.time(); name = s["name"]; d = os.path.join(ROOT, s["group"], name); hf = d + "/hf"
    shutil.rmtree(d, ignore_errors=True); os.makedirs(hf)
    dtype = dict(f32=torch.float32, bf16=torch.bfloat16, f16=torch.float16)[s["dtype"]]
    cfg = s["make"](); cls = eval(s["cls"])
    torch.manual_seed(s["seed"])
    m = cls.from_config(cfg, attn_implementation="eager", dtype=torch.float32) if "Auto" in s["cls"] else cls._from_config(cfg, attn_implementation="eager", dtype=torch.float32)
    m.eval(); init_weights(m, s["seed"], hook=s.get("hook"), dtype=dtype, half_matrices=s["group"] == "zoo", **s.get("init", {}))
    m.to(dtype).save_pretrained(hf); del m
    saved = {**json.load(open(hf + "/config.json")), "architectures": [cls.__name__]} if "Auto" not in s["cls"] else json.load(open(hf + "/config.json"))
    if s.get("fix_config"):
        j = json.load(open(hf + "/config.json")); s["fix_config"](j); json.dump(j, open(hf + "/config.json", "w"), indent=2)
    j = json.load(open(hf + "/config.json")); hc = dict(j) if s.get("hub_keep") else hub_config(j)
    if s.get("hub_fix"): s["hub_fix"](hc)
    json.dump(hc, open(d + "/config.hub-style.json", "w"), indent=1)
    try:
        with tempfile.TemporaryDirectory() as td:
            shutil.copy(d + "/config.hub-style.json", td + "/config.json"); a = AutoConfig.from_pretrained(td).to_dict(); b = AutoConfig.from_pretrained(hf).to_dict()
            if isinstance(a.get("rope_parameters"), dict): a["rope_parameters"].pop("type", None)
        hub_diff = {k: (a.get(k), b.get(k)) for k in set(a) | set(b) if a.get(k) != b.get(k) and k not in ("transformers_version", "_name_or_path", "dtype", "torch_dtype", "rope_scaling", "rope_theta", "rope_local_base_freq", "partial_rotary_factor")}
    except Exception as e: hub_diff = repr(e)[:200]
    put_tokenizer(s["tok"], hf)
    if s.get("after_save"): s["after_save"](hf)
    m = hf_load(hf, cls)
    nparam = sum(p.numel() for p in m.parameters())
    toks, long = tokens_for(s["seed"], s.get("vocab", V), s.get("first"))
    ref = dict(tokens_prompt=toks)
    info = dict(name=name, group=s["group"], hf_class=type(m).__name__, model_type=cfg.model_type, transformers=transformers.__version__, torch=torch.__version__, seed=s["seed"], parameters=nparam,
                hf_dtype=s["dtype"], tokenizer=s["tok"], pre=s["pre"], notes=list(s["notes"]), init="fixlib.init_weights")
    cd = cfg.to_dict(); info["dims"] = {k: cd[k] for k in cd if isinstance(cd[k], (int, float)) and not isinstance(cd[k], bool) and any(x in k for x in ("size", "layers", "heads", "n_", "dim", "expert", "rank", "window", "position")) and "id2label" not in k}
    info["hub_style_config_reloads_equal"] = True if not hub_diff else str(hub_diff)
    emb = s.get("embedding")
    if not emb:
        best = None
        for at in range(12):       # a prompt whose greedy path has no near tie, so that token-exact comparison is fair
            ta, tb = tokens_for(s["seed"], s.get("vocab", V), s.get("first"), at)
            gt, gl = hf_greedy(m, ta)
            sc = min(margin(gl), 0.05) / 0.05 + min(len(set(gt.tolist())), 6) / 6
            if best is None or sc > best[0]: best = (sc, ta, tb, gt, gl)
            if sc >= 2: break
        _, toks, long, ref["tokens_greedy"], ref["logits_greedy"] = best
        ref["tokens_prompt"] = toks
        ref["logits_prompt"] = hf_logits(m, toks)
        info["greedy_distinct"] = int(len(set(ref["tokens_greedy"].tolist()))); info["argmax_is_input"] = float((ref["logits_prompt"].argmax(-1) == toks).mean())
        full = np.concatenate([toks, ref["tokens_greedy"][:-1]])
        chk = hf_logits(m, full)[len(toks) - 1:]
        info["hf_decode_vs_full_max_abs"] = float(np.abs(chk - ref["logits_greedy"]).max())
        said = ref["logits_prompt"] > -1e30        # not the ids that a model never says
        info["logits_std"] = float(ref["logits_prompt"][said].std()); info["greedy_min_margin"] = margin(ref["logits_greedy"]); info["prompt_min_margin"] = margin(ref["logits_prompt"])
        if s["long"]:
            ref["tokens_long"] = long; ref["logits_long"] = hf_logits(m, long, LONG_ROWS)
            ref["positions_long"] = np.arange(N_LONG - LONG_ROWS, N_LONG, dtype=np.int64)
            ref["tokens_long_greedy"], ref["logits_long_greedy"] = hf_greedy(m, long, LONG_ROWS)
            if s.get("cross"):      # a prompt just below original_max_position_embeddings, decoded across it
                cr = long[:s["cross"]]; ref["tokens_cross"] = cr; ref["tokens_cross_greedy"], ref["logits_cross_greedy"] = hf_greedy(m, cr, 10)
                full2 = np.concatenate([cr, ref["tokens_cross_greedy"][:-1]])
                info["cross_generate_vs_full_recompute_per_step"] = [float(np.abs(hf_logits(m, full2[:len(cr) + i], 1)[0] - ref["logits_cross_greedy"][i]).max()) for i in range(10)]
                print(info["cross_generate_vs_full_recompute_per_step"])
            for vn, over in s["variants"].items():
                m2 = hf_load(hf, cls, **(over if isinstance(over, dict) else {})); (over(m2) if callable(over) else None); ref["logits_long_" + vn] = hf_logits(m2, long, LONG_ROWS)
                vprompt = info.setdefault("_vprompt", {}); vprompt[vn] = hf_logits(m2, toks)
                ref["logits_long_greedy_" + vn] = hf_logits(m2, np.concatenate([long, ref["tokens_long_greedy"][:-1]]), LONG_ROWS); del m2
        try:
            m64 = hf_load(hf, cls).double()
            with torch.inference_mode(): d64 = m64(input_ids=torch.tensor(toks[None]), use_cache=False).logits[0].numpy()
            info["hf_f32_vs_f64_max_abs"] = float(np.abs(d64 - ref["logits_prompt"])[said].max()); del m64
        except Exception as e: info["hf_f32_vs_f64_max_abs"] = None
    else: emb(m, ref, toks, long, info)
    if s.get("f64"):
        wide = float64.reference(lambda: hf_load(hf, cls), ref); info["hf_f32_vs_f64_max_abs"] = max(float(np.abs(wide[k] - ref[k]).max()) for k in ref)
        ref = wide; info["precision"] = "float64"
    if s.get("sens"): info["sensitivity"] = sensitivity(s, hf, cls, ref)
    gg = d + "/model-f32.gguf"
    if s.get("rename"): renamed(hf, s["rename"])
    if s.get("no_class"): saved = json.load(open(hf + "/config.json"))      # of names that only the hub's own code has
    try: convert(hf, gg, s["pre"], extra=s.get("conv_extra", ()), patch=s.get("patch"), after=s.get("after"))
    except BaseException as e:
        info["llamacpp"] = dict(error="convert: " + repr(e)[:500]); gg = None
        info["notes"].append("no GGUF: the converter of this llama.cpp refuses it")
        if os.path.exists(d + "/model-f32.gguf"): os.remove(d + "/model-f32.gguf")
    if gg:
        kv, tens = gguf_info(gg); info["arch"] = kv["general.architecture"]
        info["gguf_kv"] = {k: v for k, v in kv.items() if not k.startswith("general.") and "chat_template" not in k}
    if gg and BUILD:
        try:
            if emb: jobs = [("prompt", 256, len(toks), 1, 0, toks), ("long", 512, len(long), 1, LONG_ROWS, long)]
            else:
                jobs = [("prompt", s["nctx_short"], len(toks), 0, 0, toks), ("greedy", s["nctx_short"], len(toks), 0, N_GREEDY, full)]
                if s["long"]:
                    jobs.append(("long", 512, len(long), 0, LONG_ROWS, long))
                    jobs.append(("long_greedy", 512, len(long), 0, LONG_ROWS, np.concatenate([long, ref["tokens_long_greedy"][:-1]])))
            for k, (nc, n) in s.get("extra_jobs", {}).items(): jobs.append((k, nc, n, 0, 0, toks[:n]))
            res = {}; info["llamacpp"] = {}
            for kind, ex in (("exact", True), ("stock", False))[:1 if s["group"] == "zoo" else 2]:
                o = lcpp(gg, jobs, ex); res[kind] = o
                a = {}
                for j in ("prompt", "greedy", "long", "long_greedy"):
                    if emb and j in o:
                        h = ref["hidden_" + j]; cs = (h * o[j]).sum(-1) / np.linalg.norm(h, axis=-1) / np.linalg.norm(o[j], axis=-1)
                        a[j] = dict(max_abs=float(np.abs(h - o[j]).max()), min_cosine=float(cs.min()), argmax=float(cs.min())); continue
                    if j not in o or "logits_" + j not in ref: continue
                    a[j] = agree(ref["logits_" + j], o[j])
                    for vn in s["variants"]:
                        if j == "prompt" and vn in info.get("_vprompt", {}): a["prompt_" + vn] = agree(info["_vprompt"][vn], o[j])
                        if j.startswith("long"): a[j + "_" + vn] = agree(ref[f"logits_{j}_{vn}"], o[j])
                info["llamacpp"][kind] = a
            w = [x for x in res["exact"]["_stderr"].splitlines() if x.strip()]
            if w: info["llamacpp"]["warnings"] = w[:6]
            for k in s.get("extra_jobs", {}): ref["llamacpp_logits_" + k] = res["exact"][k]; info["llamacpp"]["exact"][k + "_vs_hf_prompt"] = agree(ref["logits_prompt"], res["exact"][k])
            ok = all(v["max_abs"] < NOISE for v in info["llamacpp"]["exact"].values()) if emb else True
            for j in ("prompt", "greedy", "long", "long_greedy"):
                if j not in res["exact"] or "logits_" + j not in ref: continue
                if info["llamacpp"]["exact"][j]["max_abs"] > NOISE * max(1.0, float(np.abs(ref["logits_" + j]).max()) / 10): ok = False; ref.update({"llamacpp_logits_" + j: res["exact"][j]} if s["group"] != "zoo" else {})
            info["agrees"] = ok
            if name in WHY: info["why"] = WHY[name]
            if not ok:
                info["agrees_with_variant"] = [vn for vn in s["variants"] if all(info["llamacpp"]["exact"][f"{j}_{vn}"]["max_abs"] < NOISE for j in ("prompt", "long", "long_greedy"))]
                info["prompt_agrees_with_variant"] = [vn for vn in s["variants"] if info["llamacpp"]["exact"]["prompt_" + vn]["max_abs"] < NOISE]
        except Exception as e:
            info["llamacpp"] = dict(error=repr(e)[-800:]); info["agrees"] = None
    info.pop("_vprompt", None)
    for k in [k for k in ref if any(k in ("logits_long_" + vn, "logits_long_greedy_" + vn) for vn in s["variants"] if vn in s.get("drop_variants", ()))]: del ref[k]
    ref = {k: (v.astype(np.float32) if v.dtype.kind == "f" else v.astype(np.int64)) for k, v in ref.items()}
    if s["group"] == "zoo": ref = short(ref)
    save_file({k: np.ascontiguousarray(v) for k, v in ref.items()}, d + "/reference.safetensors")
    info["sha256"] = {os.path.relpath(os.path.join(r, f), d): sha(os.path.join(r, f)) for r, _, fs in os.walk(d) for f in sorted(fs) if f != "fixture.json"}
    info["bytes"] = sum(os.path.getsize(os.path.join(r, f)) for r, _, fs in os.walk(d) for f in fs)
    if s["group"] == "zoo": zoo_manifest(slim(d, info, s, saved))
    else: json.dump(info, open(d + "/fixture.json", "w"), indent=1, default=str)
    def sh(x): return " ".join(f"{j}:{v['max_abs']:.1e}/{v['argmax']:.2f}" for j, v in x.items()) if isinstance(x, dict) else x
    l = info.get("llamacpp", {})
    for n, x in info.get("sensitivity", {}).items(): print(f"    {n}: {x}")
    print(f"{name:22s} {info.get('arch','-'):12s} std={info.get('logits_std',0):.2f} {'AGREE' if info.get('agrees') else 'DIFFER' if info.get('agrees') is False else 'FAIL' if BUILD or not gg else 'not compared'} exact[{sh(l.get('exact',{}))}] stock[{sh(l.get('stock',{}))}] {l.get('error','')} dec={info.get('hf_decode_vs_full_max_abs',0):.1e} f64={info.get('hf_f32_vs_f64_max_abs') or -1:.0e} marg={info.get('greedy_min_margin',0):.3f} dist={info.get('greedy_distinct')} self={info.get('argmax_is_input',0):.2f} hub={info['hub_style_config_reloads_equal']} {info['bytes']/1e6:.2f}MB {time.time()-t0:.1f}s", flush=True)

def manifest(group):
    g = os.path.join(ROOT, group); out = []
    for n in sorted(os.listdir(g)):
        p = os.path.join(g, n, "fixture.json")
        if os.path.exists(p): out.append(json.load(open(p)))
    json.dump(dict(group=group, fixtures=out), open(g + "/manifest.json", "w"), indent=1)

if __name__ == "__main__":
    grp = sys.argv[1] if len(sys.argv) > 1 else "base"; want = sys.argv[2:]
    if grp != "zoo": train_tokenizers()
    for s in list(SPECS.values()):
        if s["group"] != grp or (want and s["name"] not in want): continue
        try: build(s)
        except Exception as e:
            print(f"{s['name']:22s} ERROR {type(e).__name__}: {str(e)[:600]}", flush=True)
            if os.environ.get("FIX_TB"): traceback.print_exc()
    if grp != "zoo": manifest(grp)
