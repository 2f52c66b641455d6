"""The HF directory of a fixture, without its weights a second time: `hf/config.json` as the class saves it, and `hf/tensors.json`, which
says of each tensor where its values lie in the fixture's GGUF. Found by comparing values with what the class saved, not by any map of names;
what the GGUF does not hold bit for bit (norms that the converter added 1 to, logarithms) stands in `hf/extra.safetensors`.

tensors.json: {"dtype": "F32", "tensors": {name: how}}, how one of
  {"shape": [..], "from": "blk.0.attn_q.weight"}                 the same values in the same order; with "times": x that multiple, rounded to f16
  {"shape": [..], "take": [["blk.0.attn_q.weight", 0, 4, 2], [1, 4, 2], ..], "columns": true}
      units one after the other: from which tensor (the last one if none is named), the first, how many (1), by what step (1). A unit is a row
      of the HF tensor, or with `columns` a column (of each matrix), or with "unit": 1 an element; it is as long a row of the GGUF's tensor,
      whose last two dimensions are swapped first where its name ends with ^T
  {"shape": [..], "extra": true}                                  stands in extra.safetensors under the same name
  {"shape": [..], "zeros": true}                                  of a part that text does not reach (towers): its values do not matter

hf_tensors.py FOLDER [NAME ...] checks: the directory is made again from fixture and tensors.json, loaded by transformers, and its
logits or hidden states are compared with reference.safetensors."""
import json, os, shutil, sys
import numpy as np

TOWERS = ("visual.", "vit.", "vision_", "vqmodel.", "mlp_AR.", "projector.", "multi_modal", "merger.", "audio_tower.", "embed_vision.")
BF16 = "BF16"

def read_st(path):
    """name -> (dtype as safetensors writes it, values in f32 or integers)."""
    raw = open(path, "rb").read(); n = int.from_bytes(raw[:8], "little"); head = json.loads(raw[8:8 + n]); out = {}
    for name, t in head.items():
        if name == "__metadata__": continue
        a, b = t["data_offsets"]; bytes_ = raw[8 + n + a:8 + n + b]
        if t["dtype"] == BF16: x = (np.frombuffer(bytes_, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else: x = np.frombuffer(bytes_, {"F32": np.float32, "F16": np.float16, "I64": np.int64, "BOOL": np.bool_, "F64": np.float64}[t["dtype"]])
        out[name] = (t["dtype"], (x.astype(np.float32) if x.dtype == np.float16 else x).reshape(t["shape"]))
    return out

def read_gguf(path):
    import gguf
    return {t.name: np.array(t.data).astype(np.float32).reshape([int(x) for x in reversed(t.shape)]) for t in gguf.GGUFReader(path).tensors}

def whole(a): return np.array(a, order="C")
def swapped(a): return np.ascontiguousarray(np.swapaxes(a, -1, -2))
def half(a): return a.astype(np.float16) if a.dtype == np.float32 and np.array_equal(a.astype(np.float16).astype(np.float32), a) else a
def units_of(a, width): return np.ascontiguousarray(a).reshape(-1, width)

class Places:
    """Where values lie in a GGUF."""
    def __init__(self, tensors):
        self.tensors = tensors; self.whole = {}; self.by_width = {}
        for n, a in sorted(tensors.items()): self.whole.setdefault((a.size, a.tobytes()), []).append(n)
    def units(self, width):
        """bytes of a unit -> [(tensor, which)]; of single elements those of vectors only: elsewhere one value stands many times."""
        if width not in self.by_width:
            found = self.by_width[width] = {}
            for n, a in sorted(self.tensors.items()):
                for name, x in [(n, a)] + ([(n + "^T", swapped(a))] if a.ndim >= 2 and width > 1 else []):
                    if (width > 1 and x.shape[-1] == width) or (width == 1 and sum(d > 1 for d in x.shape) <= 1):
                        for i, row in enumerate(units_of(x, width)): found.setdefault(row.tobytes(), []).append((name, i))
        return self.by_width[width]
    def take(self, a, width):
        """The places of the units of `a`, each continuing where the last one was if it can; None if one is nowhere."""
        known = self.units(width); out = []
        for row in units_of(a, width):
            at = known.get(row.tobytes())
            if not at: return None
            if out:
                n, i = out[-1]; step = i - out[-2][1] if len(out) > 1 and out[-2][0] == n else 1
                at = sorted(at, key=lambda p: (p[0] != n, p[1] != i + step, p[1] != i + 1, p))
            out.append(at[0])
        return out

def runs(places):
    """[[tensor, first, how many, step], ..]: a name where it changes, and no number that is 1 at the end."""
    out = []; i = 0; last = None
    while i < len(places):
        n, first = places[i]; j = i + 1; step = None
        while j < len(places) and places[j][0] == n and (step is None or places[j][1] - places[j - 1][1] == step): step = places[j][1] - places[j - 1][1]; j += 1
        if j - i == 2 and step != 1 and j < len(places): j = i + 1      # two are no run
        count = j - i; run = [first, count, step if count > 1 else 1]
        while len(run) > 1 and run[-1] == 1: run.pop()
        out.append(([n] if n != last else []) + run); last = n; i = j
    return out

def describe(name, a, places):
    """How `a` lies in the GGUF, or None; of equal tensors that of the same layer is said."""
    shape = list(a.shape); same = places.whole.get((a.size, a.tobytes()))
    if same:
        layer = [x for x in name.split(".") if x.isdigit()]
        return {"shape": shape, "from": sorted(same, key=lambda n: (bool(layer) and layer[0] not in n.split("."), n))[0]}
    if a.ndim >= 1:
        found = places.take(a, a.shape[-1])
        if found: return {"shape": shape, "take": runs(found)}
    if a.ndim >= 2:
        found = places.take(swapped(a), a.shape[-2])
        if found: return {"shape": shape, "columns": True, "take": runs(found)}
    if sum(d > 1 for d in shape) <= 1 and a.size > 0:
        found = places.take(a, 1)
        if found: return {"shape": shape, "unit": 1, "take": runs(found)}
    return None

def multiple(a, tensors):
    """A tensor of which `a`, whose values f16 holds, is a multiple rounded to f16."""
    if a.ndim < 2 or not np.array_equal(a.astype(np.float16).astype(np.float32), a): return None
    at = int(np.abs(a).argmax())
    for n, g in sorted(tensors.items()):
        if g.size != a.size or g.shape[-1] != a.shape[-1] or g.reshape(-1)[at] == 0: continue
        how = {"shape": list(a.shape), "from": n, "times": round(float(a.reshape(-1)[at] / g.reshape(-1)[at]), 6)}
        if np.array_equal(taken(how, tensors), a): return how
    return None

def taken(how, tensors):
    """What `how` says, from the GGUF's tensors."""
    shape = how["shape"]
    if "times" in how: return (tensors[how["from"]].reshape(shape) * np.float32(how["times"])).astype(np.float16).astype(np.float32)
    if "from" in how: return tensors[how["from"]].reshape(shape)
    last_two = shape[:-2] + [shape[-1], shape[-2]] if how.get("columns") else shape
    width = how.get("unit") or last_two[-1]; rows = []; name = None
    for run in how["take"]:
        if isinstance(run[0], str): name, *run = run
        first, count, step = (run + [1, 1])[:3]
        source = tensors[name[:-2]] if name.endswith("^T") else tensors[name]
        source = units_of(swapped(source) if name.endswith("^T") else source, width)
        rows += [source[first + k * step] for k in range(count)]
    out = np.stack(rows).reshape(last_two)
    return swapped(out) if how.get("columns") else out

def store(hf, gguf_path, into, config=None):
    """Writes tensors.json and extra.safetensors of the directory `hf`, whose weights are those of the GGUF, into `into`; and the config, if one is given."""
    from safetensors.numpy import save_file
    os.makedirs(into, exist_ok=True)
    tensors = read_gguf(gguf_path); places = Places(tensors); said = {}; extra = {}; state = read_st(hf + "/model.safetensors")
    dtypes = [d for d, _ in state.values()]; usual = max(set(dtypes), key=dtypes.count)
    for name, (dtype, a) in sorted(state.items()):
        how = None
        if any(x in name for x in TOWERS): how = {"shape": list(a.shape), "zeros": True}
        if how is None and a.dtype == np.float32:
            how = describe(name, a, places) or multiple(a, tensors)
            if how: assert np.array_equal(taken(how, tensors), a), name
        if how is None: how = {"shape": list(a.shape), "extra": True}; extra[name] = half(a)
        if dtype != usual: how["dtype"] = dtype
        said[name] = how
    json.dump(dict(dtype=usual, tensors=said), open(into + "/tensors.json", "w"), separators=(",", ":"))
    if extra: save_file({n: whole(a) for n, a in extra.items()}, into + "/extra.safetensors")
    if config: json.dump(config, open(into + "/config.json", "w"), separators=(",", ":"))
    return said, extra

def files(folder):
    """Every file below a folder, as the manifest names them."""
    return sorted(os.path.relpath(os.path.join(r, f), folder) for r, _, fs in os.walk(folder) for f in fs)

def made_again(into, gguf_path):
    """The state dict that `into` and the fixture's GGUF say: name -> values."""
    said = json.load(open(into + "/tensors.json")); tensors = read_gguf(gguf_path); extra = read_st(into + "/extra.safetensors") if os.path.exists(into + "/extra.safetensors") else {}
    out = {}
    for name, how in said["tensors"].items():
        if how.get("extra"): out[name] = extra[name][1]
        elif how.get("zeros"): out[name] = np.zeros(how["shape"], np.float32)
        else: out[name] = taken(how, tensors)
    return out

def directory(folder, into):
    """Makes the HF directory of the fixture `folder` again, in f32; tokenizers are not kept."""
    from safetensors.numpy import save_file
    os.makedirs(into, exist_ok=True); hf = folder + "/hf"
    g = [folder + "/" + f for f in ("model-f16.gguf", "model-f32.gguf") if os.path.exists(folder + "/" + f)][0]
    save_file({n: whole(a) for n, a in made_again(hf, g).items()}, into + "/model.safetensors", metadata=dict(format="pt"))
    shutil.copy(hf + "/config.json", into + "/config.json")

def precision(folder):
    """What the fixture's line in the manifest says its logits were computed in; nothing is float32."""
    path = os.path.dirname(folder) + "/manifest.json"; lines = json.load(open(path))["fixtures"] if os.path.exists(path) else []
    return next((x.get("precision") for x in lines if x["name"] == os.path.basename(folder)), None)

def check(folder):
    """The largest difference between reference.safetensors and what transformers computes from the directory."""
    import tempfile, torch, transformers
    from safetensors.numpy import load_file
    ref = load_file(folder + "/reference.safetensors")
    with tempfile.TemporaryDirectory() as t:
        directory(folder, t); config = transformers.AutoConfig.from_pretrained(t)
        cls = getattr(transformers, json.load(open(t + "/config.json"))["architectures"][0])
        m, info = cls.from_pretrained(t, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        m.eval(); left = {k: sorted(v)[:4] for k, v in info.items() if v}; worst = 0
        if precision(folder) == "float64":
            import float64
            made = float64.reference(lambda: m, ref); return max(float(np.abs(made[k] - ref[k]).max()) for k in ref), left
        with torch.inference_mode():
            for what in ("prompt", "long"):
                x = torch.tensor(ref["tokens_" + what][None]); 
                if "logits_" + what in ref: o, want = m(input_ids=x, use_cache=False).logits[0].numpy(), ref["logits_" + what]
                else:
                    b = m.base_model if hasattr(m, "base_model") else m
                    o, want = b(input_ids=x).last_hidden_state[0].numpy(), ref["hidden_" + what]
                worst = max(worst, float(np.abs(o[-len(want):] - want)[want > -1e30].max()))
    return worst, left

if __name__ == "__main__":
    import glob
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error"); os.environ.setdefault("TQDM_DISABLE", "1"); os.environ.setdefault("HF_HUB_OFFLINE", "1")
    root = sys.argv[1]; bad = 0
    for folder in sorted(os.path.dirname(p[:-1]) for p in glob.glob(root + "/*/hf/")):
        name = os.path.basename(folder)
        if (sys.argv[2:] and name not in sys.argv[2:]) or not os.path.exists(folder + "/hf/tensors.json"): continue
        try: worst, left = check(folder); fine = worst < 1e-4 and not left
        except Exception as e: worst, left, fine = None, f"{type(e).__name__}: {str(e)[:300]}", False
        bad += not fine; print(f"{name:24s}", worst, left or "", "" if fine else "!", flush=True)
    sys.exit(bad > 0)
