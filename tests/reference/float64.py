"""Logits of HF in float64: references of fixtures on which HF's own float32 run is nearly as far from the true values as a
tolerance allows. Modeling code asks for float32 in places (norms, softmax, decays); here it gets float64 when it does.

`python float64.py ../fixtures/zoo NAME ...` computes the logits of reference.safetensors again, from the HF directory that
hf_tensors.py makes of the fixture, and writes them, rounded to float32; tokens stay. It prints how far HF's float32 run is."""
import contextlib, hashlib, json, os, sys, tempfile
import numpy as np, torch
import hf_tensors

@contextlib.contextmanager
def float64():
    """What asks for float32 gets float64."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64; torch.Tensor.float = torch.Tensor.double; torch.set_default_dtype(torch.float64)
    try: yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]; torch.set_default_dtype(kept[3])

@torch.inference_mode()
def logits(m, toks): return m(input_ids=torch.tensor(np.asarray(toks)[None], dtype=torch.long), use_cache=False).logits[0].numpy()

def reference(load, ref):
    """The reference with its logits in float64, rounded to float32: `load()` gives the model in float32; every row by computing all anew."""
    m = load(); m.config._experts_implementation = "eager"; m = m.double(); out = dict(ref)      # the other forms of experts have no float64
    with float64():
        for what in ("prompt", "long"):
            toks = ref["tokens_" + what]; greedy = {"prompt": "greedy", "long": "long_greedy"}[what]
            full = np.concatenate([toks, ref["tokens_" + greedy][:-1]]); o = logits(m, full)
            out["logits_" + what] = o[:len(toks)][-len(ref["logits_" + what]):]
            out["logits_" + greedy] = o[len(toks) - 1:]
    for k, v in out.items():
        if k.startswith("logits_"): assert v.shape == ref[k].shape and v.dtype == np.float64, (k, v.shape, v.dtype)
    return {k: np.ascontiguousarray(v.astype(np.float32) if v.dtype.kind == "f" else v) for k, v in out.items()}

def model(folder):
    """HF's model of a fixture, in float32."""
    import transformers
    with tempfile.TemporaryDirectory() as t:
        hf_tensors.directory(folder, t); j = json.load(open(t + "/config.json"))
        cls = getattr(transformers, j["architectures"][0]); j.pop("model_type")
        m, info = cls.from_pretrained(t, config=cls.config_class(**j), dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not any(info.values()), info
        return m.eval()

if __name__ == "__main__":
    from safetensors.numpy import load_file, save_file
    root = sys.argv[1]; manifest = json.load(open(root + "/manifest.json"))["fixtures"]
    for name in sys.argv[2:]:
        path = f"{root}/{name}/reference.safetensors"; ref = load_file(path); made = reference(lambda: model(f"{root}/{name}"), ref)
        line = next(x for x in manifest if x["name"] == name)
        far = {k: float(np.abs(made[k] - ref[k]).max()) for k in ref if k.startswith("logits_")}
        print(name, {k: f"{v:.1e}" for k, v in far.items()}, flush=True)
        assert max(far.values()) < 3e-4, "that is no rounding"
        save_file(made, path)
        if line.get("precision") != "float64": line["hf_f32_vs_f64_max_abs"] = float(f"{max(far.values()):.1e}")
        line["precision"] = "float64"; line["sha256"]["reference.safetensors"] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    body = ",\n".join(json.dumps(x) for x in manifest)
    open(root + "/manifest.json", "w").write('{"group": "zoo", "fixtures": [\n' + body + "\n]}\n")
