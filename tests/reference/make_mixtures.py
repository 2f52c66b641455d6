#!/usr/bin/env python3
"""make_mixtures.py: fixtures/quantize/mixtures.json, the types that llama-quantize gives the tensors of models of real shapes, by file type.

The shapes are files without data (holes), the types llama_model_quantize's own report of a dry run. Written for each model: facts, tensors with dims,
and for each file type, with and without an importance matrix, the types in the order of the tensors as runs (`Q6_K*3 Q4_K*2`).

Variables: LLAMA_CPP_LIB_PATH, FIXTURES and `llama_cpp` as for greedy.py.
"""
import ctypes, itertools, json, os, re, sys, tempfile
import gguf, llama_cpp as L, numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("FIXTURES", os.path.normpath(HERE + "/../fixtures"))
FTYPES = {n: getattr(L, a) for n, a in [(a.split("MOSTLY_")[-1].replace("LLAMA_FTYPE_ALL_", ""), a) for a in dir(L) if a.startswith("LLAMA_FTYPE_MOSTLY_") or a == "LLAMA_FTYPE_ALL_F32"]}
FTYPES = {n: i for n, i in FTYPES.items() if n in "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4_MOE".split()}
LOG = []


@L.llama_log_callback
def log(level, text, data): LOG.append(text.decode(errors="replace"))


def dense(blocks, D, F, heads, kv, head, vocab, tied, gate=True):
    t = [("token_embd", (D, vocab)), ("output_norm", (D,))] + ([] if tied else [("output", (D, vocab))])
    for i in range(blocks):
        p = f"blk.{i}."
        t += [(p + "attn_norm", (D,)), (p + "attn_q", (D, heads * head)), (p + "attn_k", (D, kv * head)), (p + "attn_v", (D, kv * head)), (p + "attn_output", (heads * head, D))]
        t += ([(p + "ffn_gate", (D, F))] if gate else []) + [(p + "ffn_up", (D, F)), (p + "ffn_down", (F, D)), (p + "ffn_norm", (D,))]
    return t


def moe(t, F, experts):
    out = []
    for n, d in t:
        if ".ffn_" in n and "norm" not in n:
            if n.endswith("ffn_gate"): out.append((n + "_inp", (d[0], experts)))
            out.append((n + "_exps", ((F if n.endswith("down") else d[0]), (d[1] if n.endswith("down") else F), experts)))
        else: out.append((n, d))
    return out


def keys(blocks, D, F, heads, kv, **more):
    return dict({"block_count": blocks, "context_length": 4096, "embedding_length": D, "feed_forward_length": F, "attention.head_count": heads, "attention.head_count_kv": kv,
                 "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e4, "vocab_size": 32000}, **{k.replace("__", "."): v for k, v in more.items()})


def fused(t, D, F, heads, kv, head):
    out = []
    for n, d in t:
        if n.endswith("attn_q"): out.append((n[:-1] + "qkv", (D, (heads + 2 * kv) * head)))
        elif n.endswith(("attn_k", "attn_v", "ffn_gate")): continue
        elif n.endswith("ffn_up"): out.append((n, (D, 2 * F)))
        else: out.append((n, d))
    return out


def latent(t, heads):
    out = []
    for n, d in t:
        if n.endswith("attn_q"): out.append((n, (d[0], heads * 192)))
        elif n.endswith("attn_k"): out.append((n[:-1] + "kv_a_mqa", (d[0], 576)))
        elif n.endswith("attn_v"): out += [(n[:-1] + "k_b", (128, 512, heads)), (n[:-1] + "v_b", (512, 128, heads))]
        elif "_exps" in n:
            out += [(n, d), (n.replace("_exps", "_shexp"), (d[0] * (2 if "down" in n else 1), d[1] * (1 if "down" in n else 2)))]
        else: out.append((n, d))
    return out


DS = [(n, d) for n, d in moe(dense(27, 2048, 10944, 16, 16, 128, 102400, False), 1408, 64) if not n.startswith("blk.0.ffn")] + [(f"blk.0.ffn_{n}", d) for n, d in [("gate", (2048, 10944)), ("up", (2048, 10944)), ("down", (10944, 2048)), ("norm", (2048,))]]
MODELS = {  # architecture, keys, tensors
    "smollm2-135m": ("llama", keys(30, 576, 1536, 9, 3), dense(30, 576, 1536, 9, 3, 64, 49152, True)),
    "llama-8b": ("llama", keys(32, 4096, 14336, 32, 8), dense(32, 4096, 14336, 32, 8, 128, 128256, False)),
    "llama-70b": ("llama", keys(80, 8192, 28672, 64, 8), dense(80, 8192, 28672, 64, 8, 128, 128256, False)),
    "qwen2-7b": ("qwen2", keys(28, 3584, 18944, 28, 4), dense(28, 3584, 18944, 28, 4, 128, 152064, False)),
    "gemma2-2b": ("gemma2", keys(26, 2304, 9216, 8, 4, attention__sliding_window=4096, attention__key_length=256, attention__value_length=256), dense(26, 2304, 9216, 8, 4, 256, 256000, True)),
    "mixtral-8x7b": ("llama", keys(32, 4096, 14336, 32, 8, expert_count=8, expert_used_count=2), moe(dense(32, 4096, 14336, 32, 8, 128, 32000, False), 14336, 8)),
    "qwen3-30b-a3b": ("qwen3moe", keys(48, 2048, 6144, 32, 4, expert_count=128, expert_used_count=8, expert_feed_forward_length=768, attention__key_length=128, attention__value_length=128),
                      moe(dense(48, 2048, 6144, 32, 4, 128, 151936, False), 768, 128)),
    "phi3-mini": ("phi3", keys(32, 3072, 8192, 32, 32, rope__dimension_count=96), fused(dense(32, 3072, 8192, 32, 32, 96, 32064, False), 3072, 8192, 32, 32, 96)),
    "deepseek2-lite": ("deepseek2", keys(27, 2048, 10944, 16, 1, leading_dense_block_count=1, vocab_size=102400, expert_count=64, expert_used_count=6, expert_shared_count=2,
                       expert_feed_forward_length=1408, expert_weights_scale=1.0, attention__kv_lora_rank=512, attention__key_length=576, attention__value_length=512,
                       attention__key_length_mla=192, attention__value_length_mla=128, rope__dimension_count=64), latent(DS, 16)),
    "narrow": ("llama", keys(9, 80, 144, 5, 5), dense(9, 80, 144, 5, 5, 16, 320, False)),
}


def write(path, arch, keys, tensors):
    w = gguf.GGUFWriter(path, arch)
    for k, v in keys.items():
        {int: w.add_uint32, float: w.add_float32}[type(v)](f"{arch}.{k}", v)
    at = 0
    for n, d in tensors:
        kind = np.float32 if len(d) == 1 or "inp" in n else np.float16
        size = int(np.prod([int(x) for x in d], dtype=object)) * np.dtype(kind).itemsize
        w.add_tensor_info(n + ".weight", tuple(reversed(d)), np.dtype(kind), size)
        at += -(-size // 32) * 32
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_ti_data_to_file(); w.close()
    head = -(-os.path.getsize(path) // 32) * 32
    os.truncate(path, head + at)


def types(path, ftype, importance):
    p = L.llama_model_quantize_default_params(); p.ftype = ftype; p.dry_run = True; p.nthread = 1
    if importance: p.imatrix = ctypes.cast(IMPORTANCE, type(p.imatrix))
    LOG.clear(); done = L.llama_model_quantize(path.encode(), b"/dev/null", p)
    assert done == 0, "".join(LOG)[-800:]
    found = {}
    for name, kind, new in re.findall(r"\] +(\S+) +- \[[^\]]*\], type = +(\w+), (?:warning[^\n]*?)?size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((\w+)\))?", "".join(LOG)):
        found[name] = (new or kind).upper()
    return found


class Data(ctypes.Structure): _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]
ONE = (ctypes.c_float * 1)(1.0)
IMPORTANCE = (Data * 2)(Data(b"none", ONE, 1), Data(None, None, 0))


def main():
    L.llama_log_set(log, None); made = {}
    for name, (arch, k, tensors) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/m.gguf"; write(path, arch, k, tensors)
            if name not in ("smollm2-135m", "narrow"): tensors = [t for t in tensors if len(t[1]) > 1]
            order = [n + ".weight" for n, _ in tensors]; rows = {}
            for (kind, ftype), importance in itertools.product(FTYPES.items(), (False, True)):
                found = types(path, ftype, importance); assert set(order) <= set(found), (name, kind, len(found), len(order), "".join(LOG)[:3000])
                rows[kind + (" importance" if importance else "")] = " ".join(f"{t}*{len(list(g))}" for t, g in itertools.groupby(found[n] for n in order))
            for kind in FTYPES:
                if rows[kind] == rows[kind + " importance"]: del rows[kind + " importance"]
        made[name] = dict(facts=[k["block_count"], k["attention.head_count"], k["attention.head_count_kv"], k.get("expert_count", 0)],
                          tensors=[[n + ".weight", list(d)] for n, d in tensors], types=rows)
        print(name, len(tensors), len(rows), flush=True)
    os.makedirs(ROOT + "/quantize", exist_ok=True)
    text = json.dumps(dict(llama_cpp="0.5.0 (as vendored by llama-cpp-python 0.3.36), llama_model_quantize, dry run", models=made), indent=None, separators=(",", ":"))
    open(ROOT + "/quantize/mixtures.json", "w").write(text.replace('"types":', '\n"types":').replace('},"', '},\n"') + "\n")


main()
