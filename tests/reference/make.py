#!/usr/bin/env python3
"""Builds the reference fixtures.   make.py base|dropin [name ...]     (no names: all of the group)
Layout: <group>/<name>/: hf/, model-f32.gguf, reference.safetensors, fixture.json; manifest.json per group."""
from fixlib import *
import traceback, time, zlib
from transformers import *  # noqa: config classes by name
quiet()

SPECS = {}
def spec(name, group="base", **kw):
    def deco(f):
        assert name not in SPECS, name
        SPECS[name] = dict(name=name, group=group, make=f, **{**dict(pre="gpt-2", tok="gpt2", seed=len(SPECS) + 11 if group == "base" else zlib.crc32(name.encode()) % 100000, dtype="f32", notes=[], cls="AutoModelForCausalLM", cmp=True, long=True, nctx_short=256, variants={}), **kw})
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

# ------------------------------------------------------------------ dropped in: an id that is not built in (its spec is fixtures/dropin/<name>.toml)
@spec("smollm3", group="dropin", pre="llama-bpe", tok="llama3", dtype="bf16", notes=["llama without rope on every fourth layer: layer 3 of these four has none (HF no_rope_layers 1,1,1,0; the GGUF says nothing, llama.cpp takes a step of 4)", "q/k rows of every layer are permuted in the GGUF, also where there is no rope", "tied, GQA 4/2, theta 2e6"])
def _(): return SmolLM3Config(**c(num_hidden_layers=4, tie_word_embeddings=True, use_sliding_window=False, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=2000000.0)))


WHY = dict(
    phi3="llama.cpp ignores phi3.attention.sliding_window (src/models/phi3.cpp sets n_swa = 0): for the GGUF beyond 64 tokens llamacpp_logits_long* (= logits_long*_nosw) is what llama.cpp gives, logits_long* what the key asks for",
    starcoder2="the converter does not write the sliding window of starcoder2: for the GGUF beyond 64 tokens the truth is llamacpp_logits_long* (= logits_long*_nosw); for the HF directory logits_long*",
    mistral_sw="GGUF arch llama carries no sliding window: for the GGUF beyond 64 tokens the truth is llamacpp_logits_long* (= logits_long*_nosw); for the HF directory logits_long*",
    falcon="exact gelu (erf) in HF, tanh gelu in llama.cpp; 3e-3", falcon_new="exact gelu (erf) in HF, tanh gelu in llama.cpp; 3e-3", gptneox="exact gelu (erf) in HF, tanh gelu in llama.cpp; 2e-3", gptneox_serial="exact gelu (erf) in HF, tanh gelu in llama.cpp; 2e-3", mpt="exact gelu (erf) in HF, tanh gelu in llama.cpp; 3e-3",
    phimoe="llama.cpp uses RMS norm for LayerNorm and renormalised softmax top-2 for sparsemixer (the HF model patched the same way agrees at 2e-5); HF is the truth for the model, llamacpp_logits_* what llama.cpp makes of the GGUF",
    exaone4_swa="llama.cpp applies the window and the rope-less layers only when n_layer == 64; HF is the truth",
    gpt_oss_notruncate="llama.cpp always floors/ceils the yarn correction range; HF with truncate=false (the published gpt-oss setting) does not",
    bert="exact gelu (erf) in HF, tanh gelu in llama.cpp; 7e-4", modernbert="exact gelu (erf) in HF, tanh gelu in llama.cpp; 1.7e-3",
    glm4moelite="HF's q_a/kv_a layernorm eps is 1e-6 whatever rms_norm_eps (1e-5) says, llama.cpp uses rms_norm_eps; 2.5e-4", minicpm3="HF's q_a/kv_a layernorm eps is 1e-6 whatever rms_norm_eps (1e-5) says, llama.cpp uses rms_norm_eps; 1e-4",
    falcon_mamba="B, C, dt norm eps: mixer_rms_eps 1e-6 in HF, layer norm eps 1e-5 in llama.cpp; 5e-4",
    qwen3moe_nonorm="llama.cpp always renormalises the top-k weights in qwen3moe and the GGUF has no key for it; HF with norm_topk_prob=false does not")
# ------------------------------------------------------------------ building
NOISE = 2e-3      # max abs logit difference called float noise (logits have a std of 2 to 5)

def build(s):
    t0 = time.time(); name = s["name"]; d = os.path.join(ROOT, s["group"], name); hf = d + "/hf"
    shutil.rmtree(d, ignore_errors=True); os.makedirs(hf)
    dtype = dict(f32=torch.float32, bf16=torch.bfloat16, f16=torch.float16)[s["dtype"]]
    cfg = s["make"](); cls = eval(s["cls"])
    torch.manual_seed(s["seed"])
    m = cls.from_config(cfg, attn_implementation="eager", dtype=torch.float32) if "Auto" in s["cls"] else cls._from_config(cfg, attn_implementation="eager", dtype=torch.float32)
    m.eval(); init_weights(m, s["seed"], hook=s.get("hook"), dtype=dtype, **s.get("init", {}))
    m.to(dtype).save_pretrained(hf); del m
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
    toks, long = tokens_for(s["seed"], cfg.vocab_size if s.get("own_vocab") else V, s.get("first"))
    ref = dict(tokens_prompt=toks)
    info = dict(name=name, group=s["group"], hf_class=type(m).__name__, model_type=cfg.model_type, transformers=transformers.__version__, torch=torch.__version__, seed=s["seed"], parameters=nparam,
                hf_dtype=s["dtype"], tokenizer=s["tok"], pre=s["pre"], notes=list(s["notes"]), init="fixlib.init_weights")
    cd = cfg.to_dict(); info["dims"] = {k: cd[k] for k in cd if isinstance(cd[k], (int, float)) and not isinstance(cd[k], bool) and any(x in k for x in ("size", "layers", "heads", "n_", "dim", "expert", "rank", "window", "position")) and "id2label" not in k}
    info["hub_style_config_reloads_equal"] = True if not hub_diff else str(hub_diff)
    emb = s.get("embedding")
    if not emb:
        best = None
        for at in range(12):       # a prompt whose greedy path has no near tie, so that token-exact comparison is fair
            ta, tb = tokens_for(s["seed"], cfg.vocab_size if s.get("own_vocab") else V, s.get("first"), at)
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
        info["logits_std"] = float(ref["logits_prompt"].std()); info["greedy_min_margin"] = margin(ref["logits_greedy"]); info["prompt_min_margin"] = margin(ref["logits_prompt"])
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
            info["hf_f32_vs_f64_max_abs"] = float(np.abs(d64 - ref["logits_prompt"]).max()); del m64
        except Exception as e: info["hf_f32_vs_f64_max_abs"] = None
    else: emb(m, ref, toks, long, info)
    gg = d + "/model-f32.gguf"
    try: convert(hf, gg, s["pre"], extra=s.get("conv_extra", ()), patch=s.get("patch"))
    except BaseException as e:
        info["llamacpp"] = dict(error="convert: " + repr(e)[:500]); gg = None
        info["notes"].append("no GGUF: the converter of this llama.cpp refuses it")
        if os.path.exists(d + "/model-f32.gguf"): os.remove(d + "/model-f32.gguf")
    if gg:
        kv, tens = gguf_info(gg); info["arch"] = kv["general.architecture"]
        info["gguf_kv"] = {k: v for k, v in kv.items() if not k.startswith("general.") and "chat_template" not in k}
        try:
            if emb: jobs = [("prompt", 256, len(toks), 1, 0, toks), ("long", 512, len(long), 1, 0, long)]
            else:
                jobs = [("prompt", s["nctx_short"], len(toks), 0, 0, toks), ("greedy", s["nctx_short"], len(toks), 0, N_GREEDY, full)]
                if s["long"]:
                    jobs.append(("long", 512, len(long), 0, LONG_ROWS, long))
                    jobs.append(("long_greedy", 512, len(long), 0, LONG_ROWS, np.concatenate([long, ref["tokens_long_greedy"][:-1]])))
            for k, (nc, n) in s.get("extra_jobs", {}).items(): jobs.append((k, nc, n, 0, 0, toks[:n]))
            res = {}; info["llamacpp"] = {}
            for kind, ex in (("exact", True), ("stock", False)):
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
                if info["llamacpp"]["exact"][j]["max_abs"] > NOISE * max(1.0, float(np.abs(ref["logits_" + j]).max()) / 10): ref["llamacpp_logits_" + j] = res["exact"][j]; ok = False
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
    save_file({k: np.ascontiguousarray(v) for k, v in ref.items()}, d + "/reference.safetensors")
    info["sha256"] = {os.path.relpath(os.path.join(r, f), d): sha(os.path.join(r, f)) for r, _, fs in os.walk(d) for f in sorted(fs) if f != "fixture.json"}
    info["bytes"] = sum(os.path.getsize(os.path.join(r, f)) for r, _, fs in os.walk(d) for f in fs)
    json.dump(info, open(d + "/fixture.json", "w"), indent=1, default=str)
    def sh(x): return " ".join(f"{j}:{v['max_abs']:.1e}/{v['argmax']:.2f}" for j, v in x.items()) if isinstance(x, dict) else x
    l = info.get("llamacpp", {})
    print(f"{name:22s} {info.get('arch','-'):12s} std={info.get('logits_std',0):.2f} {'AGREE' if info.get('agrees') else 'DIFFER' if info.get('agrees') is False else 'FAIL'} exact[{sh(l.get('exact',{}))}] stock[{sh(l.get('stock',{}))}] {l.get('error','')} dec={info.get('hf_decode_vs_full_max_abs',0):.1e} f64={info.get('hf_f32_vs_f64_max_abs') or -1:.0e} marg={info.get('greedy_min_margin',0):.3f} dist={info.get('greedy_distinct')} self={info.get('argmax_is_input',0):.2f} hub={info['hub_style_config_reloads_equal']} {info['bytes']/1e6:.2f}MB {time.time()-t0:.1f}s", flush=True)

def manifest(group):
    g = os.path.join(ROOT, group); out = []
    for n in sorted(os.listdir(g)):
        p = os.path.join(g, n, "fixture.json")
        if os.path.exists(p): out.append(json.load(open(p)))
    json.dump(dict(group=group, fixtures=out), open(g + "/manifest.json", "w"), indent=1)

if __name__ == "__main__":
    train_tokenizers()
    grp = sys.argv[1] if len(sys.argv) > 1 else "base"; want = sys.argv[2:]
    for s in list(SPECS.values()):
        if s["group"] != grp or (want and s["name"] not in want): continue
        try: build(s)
        except Exception as e:
            print(f"{s['name']:22s} ERROR {type(e).__name__}: {str(e)[:600]}", flush=True)
            if os.environ.get("FIX_TB"): traceback.print_exc()
    manifest(grp)
