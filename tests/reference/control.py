"""fixtures/control: control vectors, llama.cpp's logits with them, and directions made from prompts.

`a.gguf`, `b.gguf`: random directions in the format of llama.cpp's cvector-generator, for base/llama (3 layers, width 64).
`reference.safetensors`: logits of tools/lcpp_eval (LCPP_CVEC) with them: `a` as it is; `ab` 0.5 a - 1.5 b; `first` a after
layer 1 alone. The first 24 tokens are one prompt, the others are fed one by one.
`positive.txt`, `negative.txt`, `made.safetensors`: the directions that cvector-generator's two methods give, by their
formulas in float64 over the hidden states of transformers (its `pca` has an arbitrary sign; here it points to `positive`).

Needs torch, transformers, gguf, safetensors, and tools/lcpp_eval (or LCPP_EVAL).
"""
import os, subprocess, tempfile
import numpy as np, torch
from gguf import GGUFWriter
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
FIX = os.environ.get("FIXTURES", HERE + "/../fixtures")
BASE, OUT = FIX + "/base/llama", FIX + "/control"
EVAL = os.environ.get("LCPP_EVAL", HERE + "/tools/lcpp_eval")
LAYERS, WIDTH, PREFILL = 3, 64, 24

PAIRS = [("You are the happiest person, and all is well.", "You are the saddest person; nothing goes right today."),
         ("I am very glad!\\nWhat a day.", "I am very sorry.\\nWhat a loss."),
         ("Hello, hello, my friend", "Go away")]


def write(name, directions):
    w = GGUFWriter(f"{OUT}/{name}.gguf", "controlvector")
    w.add_string("controlvector.model_hint", "llama")
    w.add_int32("controlvector.layer_count", len(directions))
    for layer, d in directions.items(): w.add_tensor(f"direction.{layer}", d)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


def steered(directions, first, last, tokens):
    data = np.zeros((LAYERS - 1, WIDTH), np.float32)
    for layer, d in directions.items(): data[layer - 1] = d
    with tempfile.TemporaryDirectory() as t:
        data.tofile(t + "/c")
        open(t + "/jobs", "w").write(f"x 64 {PREFILL} 0 0 {len(tokens)} " + " ".join(map(str, tokens)) + "\n")
        env = dict(os.environ, LCPP_CVEC=f"{t}/c:{first}:{last}", OMP_NUM_THREADS="1")
        subprocess.run([EVAL, BASE + "/model-f32.gguf", t + "/jobs", t + "/out"], env=env, check=True)
        raw = open(t + "/out", "rb").read()
    rows, cols = np.frombuffer(raw, np.int32, 2)
    return np.frombuffer(raw, np.float32, rows * cols, 8).reshape(rows, cols).copy()


def streams(model, tokens):
    with torch.no_grad():
        hidden = model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    # hidden[0] is the embedding; the last one is normed and not wanted.
    return [h[0].double().numpy() for h in hidden[1:LAYERS]]


def made():
    tok = PreTrainedTokenizerFast.from_pretrained(BASE + "/hf")
    model = AutoModelForCausalLM.from_pretrained(BASE + "/hf", dtype=torch.float32, attn_implementation="eager").eval()
    ids = lambda text: [tok.bos_token_id] + tok(text.replace("\\n", "\n"), add_special_tokens=False)["input_ids"]
    pad = tok(" ", add_special_tokens=False)["input_ids"][-1]
    rows = [[] for _ in range(LAYERS - 1)]
    for pair in PAIRS:
        both = [ids(text) for text in pair]
        long = max(map(len, both))
        one, other = (streams(model, t + [pad] * (long - len(t))) for t in both)
        for layer, (p, n) in enumerate(zip(one, other)):
            d = p - n
            rows[layer].append(d[np.abs(d).max(-1) > 1e-6])
    out = {}
    for layer, parts in enumerate(rows, 1):
        d = np.concatenate(parts)
        print("layer", layer, d.shape, "singular values", np.linalg.svd(d)[1][:3])
        mean = d.mean(0)
        first = np.linalg.svd(d)[2][0]
        first = first if (d @ first).sum() >= 0 else -first
        out[f"mean.{layer}"] = (mean / np.linalg.norm(mean)).astype(np.float32)
        out[f"pca.{layer}"] = first.astype(np.float32)
    return out


os.makedirs(OUT, exist_ok=True)
rng = np.random.default_rng(77)
direction = lambda: rng.normal(0, 0.5, WIDTH).astype(np.float32)
a, b = {1: direction(), 2: direction()}, {2: direction()}
write("a", a); write("b", b)
tokens = [int(t) for t in rng.integers(3, 380, 32)]
ab = {1: 0.5 * a[1], 2: 0.5 * a[2] - 1.5 * b[2]}
ref = {"a": steered(a, 1, LAYERS, tokens), "ab": steered(ab, 1, LAYERS, tokens), "first": steered(a, 1, 1, tokens)}
plain = steered({}, 1, LAYERS, tokens)
for name, logits in ref.items(): print(name, "moves the logits by", float(np.abs(logits - plain).max()))
save_file({f"logits_{k}": v for k, v in ref.items()} | {f"tokens_{k}": np.array(tokens, np.int64) for k in ref},
          OUT + "/reference.safetensors")
for name, index in (("positive", 0), ("negative", 1)):
    open(f"{OUT}/{name}.txt", "w").write("".join(pair[index] + "\n" for pair in PAIRS))
save_file(made(), OUT + "/made.safetensors")
