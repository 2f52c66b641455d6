#!/usr/bin/env python3
"""Fixtures of the plugin RWKV-7: plugins_rwkv7.py [name ...]; writes FIXTURES/plugins/<name>.
Random weights under llama.cpp's names; logits by llama.cpp (needs LLAMA_CPP and tools/lcpp_eval), which must agree with the float64 form of
the paper's formulas below (Peng et al., 2025, "RWKV-7 Goose", section 4 and appendix): whoever differs is wrong.
Heads have 32 elements, the fewest that llama.cpp's vector loop computes rightly (with AVX-512 it wants 64: use an AVX2 build)."""
from by_llamacpp import *


D, N, L, F, V = 64, 32, 3, 64, 264
RANKS = dict(w=8, a=6, v=5, g=10)
RWKV = dict(kept=("norm", ".bias", "time_mix_w1", "time_mix_w2", "time_mix_lerp"))

def keys(arch):
    # The keys that the converter writes.
    k = {"context_length": 1048576, "embedding_length": D, "block_count": L, "wkv.head_size": N, "attention.decay_lora_rank": RANKS["w"], "attention.iclr_lora_rank": RANKS["a"],
         "attention.value_residual_mix_lora_rank": RANKS["v"], "attention.gate_lora_rank": RANKS["g"] if arch == "rwkv7" else 0, "feed_forward_length": F, "attention.head_count": 0}
    return {**k, "attention.layer_norm_epsilon": 1e-5} if arch == "rwkv7" else {**k, "attention.layer_norm_rms_epsilon": 1e-6, "token_shift_count": 1}

def shapes(arch):
    own = arch == "rwkv7"
    t = {"token_embd.weight": (V, D), "output_norm.weight": (D,), "output.weight": (V, D)}
    if own: t.update({"token_embd_norm.weight": (D,), "token_embd_norm.bias": (D,), "output_norm.bias": (D,)})
    for i in range(L):
        b = f"blk.{i}."
        for n in ("attn_norm", "attn_norm_2") if own else ("attn_norm", "ffn_norm"):
            t[b + n + ".weight"] = (D,)
            if own: t[b + n + ".bias"] = (D,)
        for n in "wavg" if own else "wav":
            rank = RANKS["a" if n == "v" and i == 0 else n]     # the first block's v is never used, and has the size of a
            t[b + f"time_mix_{n}1.weight"] = (rank, D); t[b + f"time_mix_{n}2.weight"] = (D, rank)
            if n != "g": t[b + f"time_mix_{n}0.weight"] = (D,)
        t[b + "time_mix_lerp_fused.weight"] = (6 if own else 5, 1, 1, D)
        for n in ("k_k", "k_a", "r_k"): t[b + f"time_mix_{n}.weight"] = (D,)
        for n in ("key", "value", "receptance", "output"): t[b + f"time_mix_{n}.weight"] = (D, D)
        if own:
            t[b + "time_mix_ln.weight"] = (D,); t[b + "time_mix_ln.bias"] = (D,); t[b + "channel_mix_lerp_k.weight"] = (1, 1, D)
            t[b + "channel_mix_key.weight"] = (F, D); t[b + "channel_mix_value.weight"] = (D, F)
        else:
            for n, s in (("gate", (F, D)), ("up", (F, D)), ("down", (D, F))): t[b + f"ffn_{n}.weight"] = s
    return t

def start(name, r):
    """Decays that reach from one token to hundreds, mixes over all of 0..1, low ranks that matter."""
    if "lerp" in name: return 0.5 + 0.3 * r
    if "time_mix_w0" in name: return -3 + 2 * r
    if "time_mix_a0" in name or "time_mix_v0" in name: return 0.8 * r
    if "time_mix_r_k" in name: return 0.3 * r
    if name.endswith(("k_k.weight", "k_a.weight")): return 0.9 + 0.3 * r
    return None

# ------------------------------------------------------------------ the formulas, token by token
def sigmoid(x): return 1 / (1 + np.exp(-x))
def layer_norm(x, w, b, eps): return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b
def rms(x, w, eps): return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w

def time_mix(p, i, x, before, first, S, wrong):
    """x, before: [D]; S: [heads, N (value), N (key)], changed. Gives the branch and the values that later blocks mix in."""
    mix = lambda n: x + (before - x) * p("lerp_fused").reshape(-1, D)["rwkvag".index(n)]
    r, k, v = p("receptance") @ mix("r"), p("key") @ mix("k"), p("value") @ mix("v")
    w = np.exp(-(1 if wrong == "decay without the factor" else math.exp(-0.5)) * sigmoid(p("w0") + p("w2") @ np.tanh(p("w1") @ mix("w"))))
    a = sigmoid(p("a0") + p("a2") @ (p("a1") @ mix("a")))
    if i == 0 or wrong == "no first values": first = v if i == 0 else first
    else: v = v + (first - v) * sigmoid(p("v0") + p("v2") @ (p("v1") @ mix("v")))
    kk = (k * p("k_k")).reshape(-1, N); kk = kk / np.maximum(np.sqrt((kk * kk).sum(-1, keepdims=True)), 1e-12)
    if wrong != "no k_a": k = k * (1 + (a - 1) * p("k_a"))
    heads = lambda y: y.reshape(-1, N)
    removed = np.einsum("hij,hj->hi", S, -kk)
    S[:] = S * heads(w)[:, None, :] + (0 if wrong == "nothing removed" else removed[:, :, None] * (kk * heads(a))[:, None, :]) + heads(v)[:, :, None] * heads(k)[:, None, :]
    y = np.einsum("hij,hj->hi", S, heads(r))
    if p("ln", None) is not None and wrong != "no norm of heads":
        y = layer_norm(y, p("ln").reshape(-1, N), p("ln", bias=True).reshape(-1, N), 1e-5 if wrong == "eps of heads 1e-5" else 64e-5)
    if wrong != "no bonus": y = y + (heads(r) * heads(k) * p("r_k").reshape(-1, N)).sum(-1, keepdims=True) * heads(v)
    y = y.reshape(D)
    if p("g1", None) is not None and wrong != "no gate": y = y * (p("g2") @ sigmoid(p("g1") @ mix("g")))
    return p("output") @ y, first

def logits(weights, tokens, arch, wrong=None):
    W = {n: x.astype(np.float64) for n, x in weights.items()}; own = arch == "rwkv7"
    norm = (lambda x, n: layer_norm(x, W[n + ".weight"], W[n + ".bias"], 1e-5)) if own else (lambda x, n: rms(x, W[n + ".weight"], 1e-6))
    S = np.zeros((L, D // N, N, N)); shift = np.zeros((L, 2, D)); out = []
    for t in tokens:
        x = W["token_embd.weight"][t]; first = None
        if own and wrong != "no norm of the embedding": x = norm(x, "token_embd_norm")
        for i in range(L):
            def p(n, *default, bias=False): return W.get(f"blk.{i}.time_mix_{n}.{'bias' if bias else 'weight'}", *default)
            h = norm(x, f"blk.{i}.attn_norm"); before, shift[i, 0] = shift[i, 0].copy(), h
            y, first = time_mix(p, i, h, before, first, S[i], wrong); x = x + y
            if own:
                h = norm(x, f"blk.{i}.attn_norm_2"); before, shift[i, 1] = shift[i, 1].copy(), h
                if wrong == "no shift of channels": before = h
                k = h + (before - h) * W[f"blk.{i}.channel_mix_lerp_k.weight"].reshape(D)
                x = x + W[f"blk.{i}.channel_mix_value.weight"] @ np.maximum(W[f"blk.{i}.channel_mix_key.weight"] @ k, 0) ** 2
            else:
                h = norm(x, f"blk.{i}.ffn_norm"); g = W[f"blk.{i}.ffn_gate.weight"] @ h
                x = x + W[f"blk.{i}.ffn_down.weight"] @ (g * sigmoid(g) * (W[f"blk.{i}.ffn_up.weight"] @ h))
        out.append(W["output.weight"] @ norm(x, "output_norm"))
    return np.array(out)

ROUNDED = ("token_embd.weight", "output.weight", "mix_key.weight", "mix_value.weight", "time_mix_receptance.weight", "time_mix_output.weight")
def q8_0(weights):
    """What a file of Q8_0 has: low ranks stay as they are (llama-quant.cpp)."""
    from gguf import quants, GGMLQuantizationType as T
    rounded = lambda n, x: quants.dequantize(quants.quantize(x, T.Q8_0), T.Q8_0) if n.endswith(ROUNDED) else x
    return {n: rounded(n, x) for n, x in weights.items()}

WRONG = ["no first values", "decay without the factor", "nothing removed", "no k_a", "no norm of heads", "eps of heads 1e-5", "no bonus", "no gate", "no shift of channels", "no norm of the embedding"]

# ------------------------------------------------------------------ files
def escape(piece): return repr(piece)[2:-1]     # as the converter writes a token
def write_model(path, arch, weights):
    gguf = gguf_module(); w = gguf.GGUFWriter(path, arch); w.add_name("Random weights"); w.add_file_type(0)
    for k, v in keys(arch).items(): (w.add_float32 if isinstance(v, float) else w.add_uint32)(f"{arch}.{k}", v)
    pieces = [bytes([i]) for i in range(256)] + [" the".encode(), "ing".encode(), b" state", "日本".encode(), b"\n\n", b"    "]
    w.add_tokenizer_model("rwkv"); w.add_token_list([b"<s>"] + [escape(p).encode() for p in pieces] + [b"[PAD263]"])
    w.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * len(pieces) + [gguf.TokenType.UNUSED])
    w.add_bos_token_id(0); w.add_eos_token_id(0); w.add_eot_token_id(261)
    for n, x in weights.items(): w.add_tensor(n, x)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def build(arch):
    d = os.path.join(ROOT, "plugins", arch); shutil.rmtree(d, ignore_errors=True); os.makedirs(d); g = d + "/model-f32.gguf"
    seed = zlib.crc32(arch.encode()) % 100000; weights = random_tensors(shapes(arch), seed, start); write_model(g, arch, weights)
    def run(tokens, prefill, last=0): return lcpp(g, [("x", 512, prefill, 0, last, tokens)], exact=True)["x"]
    a, b = tokens_for(seed, V, 0); ref = {}
    for name, tokens, count in (("prompt", a, 6), ("long", b, LONG_ROWS)):
        rows = run(tokens, len(tokens)); own = logits(weights, tokens, arch)
        print(f"{arch} {name}: llama.cpp and float64 differ by {np.abs(rows - own).max():.1e}, logits reach {np.abs(own).max():.2f}")
        assert np.abs(rows - own).max() < 5e-5 * max(1, np.abs(own).max())
        new, all_ = [], list(tokens)
        while len(new) < count:
            new.append(int(run(all_ + new, len(all_), 1)[0].argmax()))
        greedy = run(all_ + new[:-1], len(all_), count)
        ref[f"tokens_{name}"], ref[f"logits_{name}"] = tokens, rows
        key = "greedy" if name == "prompt" else "long_greedy"; ref[f"tokens_{key}"], ref[f"logits_{key}"] = np.array(new), greedy
    ref["positions_long"] = np.arange(N_LONG); ref = short(ref)
    ref["logits_q8_0_prompt"] = logits(q8_0(weights), a, arch)[-8:]
    save_file({k: np.ascontiguousarray(v.astype(np.float32) if v.dtype.kind == "f" else v.astype(np.int64)) for k, v in ref.items()}, d + "/reference.safetensors")
    right = logits(weights, a, arch); sens = {}
    for wrong in WRONG:
        moved = float(np.abs(logits(weights, a, arch, wrong) - right).max())
        if moved: sens[wrong] = float(f"{moved:.1e}")
    half_gguf(g, d + "/model-f16.gguf", **RWKV); os.remove(g)
    line = dict(name=arch, reference="llama.cpp 0.5.0 (as vendored by llama-cpp-python 0.3.36), CPU, f32; agrees with the formulas in float64", seed=seed, parameters=int(sum(x.size for x in weights.values())),
                logits_std=round(float(right.std()), 3), prompt_min_margin=round(margin(right), 3), sensitivity=sens, sha256={f: sha(d + "/" + f) for f in sorted(os.listdir(d))})
    json.dump(line, open(d + "/fixture.json", "w"), indent=1); print(json.dumps(sens), sum(os.path.getsize(d + "/" + f) for f in os.listdir(d)))

if __name__ == "__main__":
    for arch in sys.argv[1:] or ["rwkv7", "arwkv7"]: build(arch)
