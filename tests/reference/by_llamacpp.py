"""Zoo fixtures of architectures that have no class in transformers: random weights under llama.cpp's own names, logits by llama.cpp."""
from make import *

LCPP = {}
def by_llamacpp(name, arch, keys, tensors, notes, spec=None, sens=(), spec_sens=(), seed=None, pre="gpt-2", hook=None, whole=False):
    """keys: without prefix (a leading ! leaves it away); tensors: name -> shape (as numpy has it). hook(name, normal deviates) may give a tensor.
    sens: what -> (keys to change, tensors to set to a number); spec_sens: as by_spec.py has it.
    whole: the model attends in both directions, so that nothing is decoded."""
    LCPP[name] = dict(name=name, arch=arch, keys=keys, tensors=tensors, notes=notes, spec=spec or name, sens=dict(sens), spec_sens=dict(spec_sens), pre=pre, hook=hook, whole=whole,
                      seed=zlib.crc32(name.encode()) % 100000 if seed is None else seed)

def random_tensors(tensors, seed, hook=None):
    rng = np.random.default_rng(seed); out = {}
    tied = "output.weight" not in tensors
    for n in sorted(tensors):
        shape = tensors[n]; r = rng.standard_normal(shape)
        w = hook(n, r) if hook else None
        if w is not None: pass
        elif n == "rope_freqs.weight": w = np.linspace(1, 4, shape[0])
        elif n == "token_embd.weight": w = r * (0.15 if tied else 0.5)
        elif n == "output.weight": w = r * 0.3
        elif n.endswith(".bias"): w = r * 0.1
        elif len(shape) == 1: w = (1 + r * 0.1) * (2.5 if tied and n == "output_norm.weight" else 1)
        else: w = r * 1.2 / math.sqrt(max(shape[-1], 4))
        out[n] = (w.astype(np.float16) if w.ndim >= 2 else w).astype(np.float32)       # as init_weights rounds matrices
    return out

def write_gguf(path, s, weights, change=()):
    gguf = gguf_module(); w = gguf.GGUFWriter(path, s["arch"]); w.add_name("Random weights"); w.add_file_type(0)
    for k, v in {**s["keys"], **dict(change)}.items():
        k = k[1:] if k.startswith("!") else f"{s['arch']}.{k}"
        if isinstance(v, bool): w.add_bool(k, v)
        elif isinstance(v, int): w.add_uint32(k, v)
        elif isinstance(v, float): w.add_float32(k, v)
        elif isinstance(v, str): w.add_string(k, v)
        else: w.add_array(k, v)
    with tempfile.TemporaryDirectory() as d:
        tiny_bpe(d); j = json.load(open(d + "/tokenizer.json"))
    vocab = sorted(j["model"]["vocab"].items(), key=lambda x: x[1])
    w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre(s["pre"]); w.add_token_list([t for t, _ in vocab])
    w.add_token_types([gguf.TokenType.CONTROL if t in SPECIALS else gguf.TokenType.NORMAL for t, _ in vocab])
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]); w.add_bos_token_id(1); w.add_eos_token_id(2)
    for n, x in weights.items(): w.add_tensor(n, x)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

def build_by_llamacpp(s):
    t0 = time.time(); d = os.path.join(ROOT, "zoo", s["name"]); shutil.rmtree(d, ignore_errors=True); os.makedirs(d); g = d + "/model-f32.gguf"
    seed = s["seed"]; weights = random_tensors(s["tensors"], seed, s["hook"]); write_gguf(g, s, weights)
    def run(path, toks, last=0): return lcpp(path, [("x", 256 if len(toks) < 200 else 512, len(toks), 0, last, toks)], exact=True)["x"]
    def greedy(toks, n):        # row 0 from the prompt at once, the rest one by one
        toks = list(toks); start = len(toks); first = run(g, toks, 1)[0]; new = [int(first.argmax())]
        while len(new) < n: new.append(int(lcpp(g, [("x", 256 if len(toks) + n < 200 else 512, start, 0, 1, toks + new)], exact=True)["x"][0].argmax()))
        rows = lcpp(g, [("x", 256 if len(toks) + n < 200 else 512, start, 0, n, toks + new[:-1])], exact=True)["x"]
        return np.array(new, np.int64), rows
    best = None
    for at in range(0 if s["whole"] else 6):
        a, b = tokens_for(seed, V_TINY, None, at); gt, gl = greedy(a, N_GREEDY); sc = min(margin(gl), 0.05) / 0.05 + min(len(set(gt.tolist())), 6) / 6
        if best is None or sc > best[0]: best = (sc, a, b, gt, gl)
        if sc >= 2: break
    if s["whole"]: best = (0, *tokens_for(seed, V_TINY), None, None)
    _, a, b, gt, gl = best
    ref = dict(tokens_prompt=a, logits_prompt=run(g, a), tokens_long=b, logits_long=run(g, b, LONG_ROWS), positions_long=np.arange(N_LONG - LONG_ROWS, N_LONG, dtype=np.int64))
    if not s["whole"]:
        ref.update(tokens_greedy=gt, logits_greedy=gl); ref["tokens_long_greedy"], ref["logits_long_greedy"] = greedy(b, LONG_ROWS)
    sens = {}
    for what, (keys, fixed) in s["sens"].items():
        with tempfile.TemporaryDirectory() as td:
            changed = {n: (np.full_like(x, fixed[[f for f in fixed if f in n][0]]) if any(f in n for f in fixed) else x) for n, x in weights.items()}
            write_gguf(td + "/x.gguf", s, changed, keys.items())
            sens[what] = [float(f"{np.abs(run(td + '/x.gguf', t, l) - ref[k]).max():.1e}") for t, l, k in ((a, 0, "logits_prompt"), (b, LONG_ROWS, "logits_long"))]
    save_file({k: np.ascontiguousarray(v.astype(np.float32) if v.dtype.kind == "f" else v.astype(np.int64)) for k, v in short(ref).items()}, d + "/reference.safetensors")
    half_gguf(g, d + "/model-f16.gguf"); os.remove(g)
    if s["spec_sens"]: sens = {**sens, **by_spec(d, s["spec"], s["spec_sens"])}
    line = dict(name=s["name"], spec=s["spec"], arch=s["arch"], llama_cpp="0.5.0 (as vendored by llama-cpp-python 0.3.36), CPU, f32 cache, no flash attention", seed=seed, parameters=int(sum(x.size for x in weights.values())), pre=s["pre"], notes=s["notes"],
                logits_std=round(float(ref["logits_prompt"].std()), 3), prompt_min_margin=round(margin(ref["logits_prompt"]), 3), **({} if s["whole"] else dict(greedy_min_margin=round(margin(gl), 3), greedy_distinct=len(set(gt.tolist())))), argmax_is_input=float((ref["logits_prompt"].argmax(-1) == a).mean()), sensitivity=sens)
    line["sha256"] = {f: sha(d + "/" + f) for f in sorted(os.listdir(d))}
    zoo_manifest(line)
    for n, x in sens.items(): print(f"    {n}: {x}")
    print(f"{s['name']:22s} {s['arch']:12s} std={line['logits_std']} marg={line.get('greedy_min_margin')} dist={line.get('greedy_distinct')} {sum(os.path.getsize(d + '/' + f) for f in os.listdir(d)) / 1e6:.2f}MB {time.time() - t0:.1f}s", flush=True)

def llama_like(D=32, F=48, L=2, H=4, K=2, d=None, bias=(), out=True, qk=None, fnorm="ffn_norm", fused=False, obias=False):
    d = d or D // H; t = {"token_embd.weight": (V_TINY, D), "output_norm.weight": (D,)}
    if out: t["output.weight"] = (V_TINY, D)
    for i in range(L):
        b = f"blk.{i}."; t[b + "attn_norm.weight"] = (D,); t[b + fnorm + ".weight"] = (D,)
        if fused: t[b + "attn_qkv.weight"] = ((H + 2 * K) * d, D)
        else: t[b + "attn_q.weight"] = (H * d, D); t[b + "attn_k.weight"] = (K * d, D); t[b + "attn_v.weight"] = (K * d, D)
        for n in bias: t[b + n + ".bias"] = (t[b + n + ".weight"][0],)
        t[b + "attn_output.weight"] = (D, H * d)
        if obias: t[b + "attn_output.bias"] = (D,)
        if qk: t[b + "attn_q_norm.weight"] = (d,); t[b + "attn_k_norm.weight"] = (d,)
        t[b + "ffn_gate.weight"] = (F, D); t[b + "ffn_up.weight"] = (F, D); t[b + "ffn_down.weight"] = (D, F)
    return t
def kv(D=32, F=48, L=2, H=4, K=2, **k): return {"block_count": L, "context_length": 1024, "embedding_length": D, "feed_forward_length": F, "attention.head_count": H, "attention.head_count_kv": K, "attention.layer_norm_rms_epsilon": 1e-5, **k}

def ln(t):
    return {**t, **{k[:-6] + "bias": s for k, s in t.items() if "norm.weight" in k}}
def moe(t, L, E=4, F=24, D=32, dense=(), shared=0, bias=None):
    for i in range(L):
        if i in dense: continue
        b = f"blk.{i}."
        for n in ("gate", "up", "down"): t.pop(f"{b}ffn_{n}.weight", None)
        t[b + "ffn_gate_inp.weight"] = (E, D); t[b + "ffn_gate_exps.weight"] = (E, F, D); t[b + "ffn_up_exps.weight"] = (E, F, D); t[b + "ffn_down_exps.weight"] = (E, D, F)
        if bias: t[b + bias] = (E,)
    return t
def c(**k): return z(**{"intermediate_size": 48, "num_hidden_layers": 2, **k})
def written(name, **options):
    """As @zoo, of a function that gives architecture, keys and tensors."""
    def register(f):
        arch, keys, tensors = f(); by_llamacpp(name, arch, keys, tensors, **options); return f
    return register

def run(names):
    """Builds what is registered by the script itself and by `by_llamacpp`: the named ones, or all."""
    own = [s for s in SPECS.values() if s["make"].__module__ == "__main__"]
    for s, make in [(s, build) for s in own] + [(s, build_by_llamacpp) for s in LCPP.values()]:
        if names and s["name"] not in names: continue
        try: make(s)
        except Exception as e:
            print(f"{s['name']:22s} ERROR {type(e).__name__}: {str(e)[:600]}", flush=True)
            if os.environ.get("FIX_TB"): traceback.print_exc()
