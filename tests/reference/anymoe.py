#!/usr/bin/env python3
"""Mixtures of feed-forwards (AnyMoE, Buehler 2024), written anew in torch after mistral.rs' `amoe`:  anymoe.py
Needs torch, transformers, peft, gguf, safetensors; LLAMA_CPP (the converter).
Writes FIXTURES/mixture/<base>/: base.gguf and base/ (the base in both formats), tuned-a/ (a folder), tuned-b.gguf, adapters (one as a GGUF by llama.cpp's converter too),
<case>.safetensors (the gate), reference.safetensors: for each case and prompt logits and the expert of every layer and row, whole and token by token; and of the training
gates, losses and accuracies.

What mistral.rs computes: g = softmax(W x + b) for every row of a forward, g.mean over the rows, the expert of the largest mean, whose output is taken
unweighted for all rows. A prompt is one forward; every token after it one of its own. Expert 0 is the base's own. LoRA experts are the base's
matrices with the products added. `token` is the same rule with every row a forward of its own.
Training: cross entropy (log softmax of what is a mean of softmaxes already) with the expert's number, Adam (1e-3, betas 0.9 and 0.999, eps 1e-8), 100
epochs, batches of 4, one optimizer per layer. There the rows of later layers come from whatever expert the gates choose so far; here from the expert that the
label names. Both are run, and their accuracies compared."""
import copy, sys
from fixlib import *
from safetensors.torch import save_file as save_torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, PhiConfig, DynamicCache
quiet(); torch.set_num_threads(2)

OUT = os.path.join(ROOT, "mixture")
Z = dict(vocab_size=V_TINY, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=None, tie_word_embeddings=False)
BASES = {
    "llama": dict(config=LlamaConfig(**Z, intermediate_size=64, num_key_value_heads=2, rms_norm_eps=1e-5), pre="gpt-2", modules=["gate_proj", "up_proj", "down_proj"]),
    "phi2": dict(config=PhiConfig(**Z, intermediate_size=128, num_key_value_heads=4, hidden_act="gelu_new", layer_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)), pre="gpt-2", modules=["fc1", "fc2"]),
}
PROMPTS, T, ROWS, GREEDY = 3, 12, 6, 5

class Mixture(torch.nn.Module):
    """`by`: which rows choose together; `forced`: the expert of everything, for training."""
    def __init__(self, experts, by):
        super().__init__(); self.experts = torch.nn.ModuleList(experts); self.gate = torch.nn.Linear(Z["hidden_size"], len(experts)); self.by = by; self.forced = None; self.log = []
    def forward(self, x):                       # [1, T, D]
        self.x = x[0].detach()
        if self.forced is not None: return self.experts[self.forced](x)
        g = torch.softmax(self.gate(x), -1)
        if self.by == "prompt": g = g.mean(1, keepdim=True).expand(-1, x.shape[1], -1)
        self.g = g
        best = g.argmax(-1)                     # [1, T]
        top = g.detach().topk(2, -1).values; self.margin = float((top[..., 0] - top[..., 1]).min())
        self.log.append((best[0].tolist(), self.margin))
        outs = torch.stack([e(x) for e in self.experts], 2)
        return outs.gather(2, best[..., None, None].expand(-1, -1, 1, x.shape[-1]))[:, :, 0]

def model_of(name, seed, cls=AutoModelForCausalLM):
    m = cls.from_config(BASES[name]["config"], attn_implementation="eager").float().eval()
    init_weights(m, seed, dtype=torch.float16); return m

def saved(m, folder, gguf=None, keep=True):
    os.makedirs(folder); copy.deepcopy(m).half().save_pretrained(folder); tiny_bpe(folder)
    if gguf: convert(folder, gguf, "gpt-2", outtype="f16")
    if not keep: shutil.rmtree(folder)

def tuned(name, base, seed):
    """Another fine-tune: every weight moves, those of the feed-forwards far."""
    m = copy.deepcopy(base); g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for n, p in m.named_parameters():
            p.add_(torch.randn(p.shape, generator=g) * p.std() * (0.8 if ".mlp." in n else 0.1)); p.copy_(p.half().float())
    return m

def adapter(name, base, folder, targets, seed):
    """A PEFT adapter on disk; gives what it adds to the modules, by name."""
    m = get_peft_model(copy.deepcopy(base), LoraConfig(r=3, lora_alpha=6, lora_dropout=0.0, task_type="CAUSAL_LM", target_modules=targets)).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for n, p in m.named_parameters():
            if "lora_A" in n: p.copy_(torch.randn(p.shape, generator=g) / p.shape[1] ** 0.5)
            if "lora_B" in n: p.copy_(torch.randn(p.shape, generator=g) * 0.2)
    m.save_pretrained(folder, save_embedding_layers=False); os.remove(folder + "/README.md")
    path = folder + "/adapter_config.json"; j = json.load(open(path)); j["base_model_name_or_path"] = "base"; j["target_modules"] = sorted(j["target_modules"]); json.dump(j, open(path, "w"), indent=1, sort_keys=True)
    return {n.removeprefix("base_model.model."): x.get_delta_weight("default").detach() for n, x in m.named_modules() if hasattr(x, "get_delta_weight")}

def with_delta(base, layer, delta, modules):
    mlp = copy.deepcopy(base.model.layers[layer].mlp)
    with torch.no_grad():
        for n in modules:
            d = delta.get(f"model.layers.{layer}.mlp.{n}")
            if d is not None: getattr(mlp, n).weight.add_(d)
    return mlp

def mixed(base, layers, experts, by, seed, scale):
    """The model with mixtures; `experts(layer)` are those after the base's own. The gate's numbers are drawn so that experts vary."""
    m = copy.deepcopy(base); g = torch.Generator().manual_seed(seed)
    for l in layers:
        x = Mixture([m.model.layers[l].mlp, *experts(l)], by)
        with torch.no_grad():
            x.gate.weight.copy_(torch.randn(x.gate.weight.shape, generator=g) * scale); x.gate.bias.copy_(torch.randn(x.gate.bias.shape, generator=g) * 0.3)
        m.model.layers[l].mlp = x
    return m.eval()

def mixtures(m): return {l: x.mlp for l, x in enumerate(m.model.layers) if isinstance(x.mlp, Mixture)}
def gates(m): return {f"moe_gate.{l}.{k}": v.detach().float().contiguous() for l, x in mixtures(m).items() for k, v in x.gate.state_dict().items()}

@torch.no_grad()
def run(m, toks):
    """Logits of the prompt, and of what follows greedily token by token; choices of every row, and the least margin of all."""
    for x in mixtures(m).values(): x.log.clear()
    cache = DynamicCache(); out = m(torch.tensor(toks)[None], past_key_values=cache, use_cache=True).logits[0]
    new, rows = [], []
    for _ in range(GREEDY):
        new.append(int((rows[-1] if rows else out[-1]).argmax())); rows.append(m(torch.tensor([[new[-1]]]), past_key_values=cache, use_cache=True).logits[0, -1])
    chosen = [[e for best, _ in x.log for e in best] for x in mixtures(m).values()]
    margin = min(mm for x in mixtures(m).values() for _, mm in x.log)
    return out[-ROWS:].contiguous(), torch.tensor(new), torch.stack(rows), torch.tensor(chosen), margin

def build(name):
    d = os.path.join(OUT, name); shutil.rmtree(d, ignore_errors=True); os.makedirs(d)
    base = model_of(name, 5); a, b = tuned(name, base, 6), tuned(name, base, 7)
    full = name == "llama"
    saved(base, d + "/base", d + "/base.gguf", keep=full)
    if full: saved(a, d + "/tuned-a")
    saved(b, d + "/tmp", d + "/tuned-b.gguf", keep=False)
    mods = BASES[name]["modules"]
    x = adapter(name, base, d + "/adapter-x", mods, 8); y = adapter(name, base, d + "/adapter-y", ["q_proj", mods[0]], 9) if full else {}
    if full: subprocess.run([sys.executable, VENDOR + "/convert_lora_to_gguf.py", "--base", d + "/base", "--outtype", "f32", "--outfile", d + "/adapter-x.gguf", d + "/adapter-x"], check=True, stdout=subprocess.DEVNULL)
    A, B = (lambda l: a.model.layers[l].mlp), (lambda l: b.model.layers[l].mlp)
    X, Y = (lambda l: with_delta(base, l, x, mods)), (lambda l: with_delta(base, l, y, mods[:1]))
    cases = dict(dense=([0, 2], lambda l: [A(l), B(l)]), adapters=([0, 1, 2], lambda l: [X(l), Y(l)]), both=([1, 2], lambda l: [B(l), X(l)])) if full else dict(both=([0, 1, 2], lambda l: [B(l), X(l)]))
    ref = {}
    rng = np.random.default_rng(77)
    prompts = [rng.integers(5, V_TINY - 4, T).astype(np.int64) for _ in range(PROMPTS)]
    for i, p in enumerate(prompts): ref[f"tokens_{i}"] = torch.tensor(p)
    with torch.no_grad(): ref["base.logits_0"] = base(torch.tensor(prompts[0])[None]).logits[0, -ROWS:].contiguous()
    for case, (layers, experts) in cases.items():
        for attempt in range(200):      # gates whose choices vary and are clear
            found, ok = {}, True
            for by in ("prompt", "token"):
                m = mixed(base, layers, experts, by, 1000 * attempt + len(case), 1.5)
                runs = [run(m, p) for p in prompts]
                least = min(r[4] for r in runs); variety = min(len({c[k] for r in runs for k in range(T + GREEDY) for c in [r[3][l].tolist()]}) for l in range(len(layers)))
                whole = len({tuple(r[3][:, 0].tolist()) for r in runs})
                ok = ok and least > 4e-3 and variety >= 2 and (by == "token" or whole >= 2)
                found[by] = (m, runs, least)
            if ok: break
        assert ok, case
        save_torch(gates(found["prompt"][0]), f"{d}/{case}.safetensors")
        for by, (m, runs, least) in found.items():
            for i, (p, new, rows, chosen, _) in enumerate(runs):
                k = f"{case}.{by}"
                ref.update({f"{k}.logits_{i}": p, f"{k}.tokens_greedy_{i}": new, f"{k}.logits_greedy_{i}": rows, f"{k}.chosen_{i}": chosen})
            apart = (runs[0][0] - ref["base.logits_0"]).abs().max()
            print(f"{name} {case} {by}: attempt {attempt}, margin {least:.4f}, from the base {apart:.2f}, experts of the first prompt {runs[0][3][:, 0].tolist()}")
    if full: train(base, cases["dense"], d, ref)
    save_torch({k: v.contiguous() for k, v in ref.items()}, d + "/reference.safetensors")

def topics(seed, n):
    """Prompts of two topics: letters of the first half of the alphabet, and of the second; numbers of tokens differ."""
    rng = np.random.default_rng(seed); rows = []
    for i in range(n):
        half = "abcdefghijkl" if i % 2 == 0 else "mnopqrstuvwx"
        words = [" ".join("".join(rng.choice(list(half), rng.integers(2, 6))) for _ in range(rng.integers(2, 5)))]
        rows.append((words[0], 0 if i % 2 == 0 else 2))
    return rows

def loss_of(mean, label): return torch.nn.functional.cross_entropy(mean, torch.tensor([label]))

def train(base, case, d, ref):
    layers, experts = case
    tok = AutoTokenizer.from_pretrained(d + "/base")
    data = topics(1, 16); test = topics(2, 12)
    ids = lambda t: torch.tensor(tok(t, add_special_tokens=False).input_ids)[None]
    json.dump({"rows": [dict(prompt=p, expert=e) for p, e in data]}, open(d + "/topics.json", "w"), indent=0)
    open(d + "/topics-test.jsonl", "w").write("".join(json.dumps(dict(prompt=p, expert=e)) + "\n" for p, e in test))
    m = mixed(base, layers, experts, "prompt", 3, 0.0); mix = mixtures(m)
    def inputs(rows):
        out = []
        for p, e in rows:
            for x in mix.values(): x.forced = e
            with torch.no_grad(): m(ids(p), use_cache=False)
            out.append((e, {l: x.x.double() for l, x in mix.items()}))
            for x in mix.values(): x.forced = None
        return out
    seen, unseen = inputs(data), inputs(test)
    for l, x in mix.items():      # all rows a batch: the order does not matter
        g = torch.nn.Linear(Z["hidden_size"], len(x.experts)).double()
        with torch.no_grad(): g.weight.zero_(); g.bias.zero_()
        opt = torch.optim.Adam(g.parameters(), lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
        mean = lambda r: torch.softmax(g(r[l]), -1).mean(0, keepdim=True)
        for _ in range(100):
            opt.zero_grad(); torch.stack([loss_of(mean(r), e) for e, r in seen]).mean().backward(); opt.step()
        with torch.no_grad():
            final = float(torch.stack([loss_of(mean(r), e) for e, r in seen]).mean())
            right = lambda rows: sum(int(mean(r).argmax()) == e for e, r in rows) / len(rows)
            ref[f"trained.{l}.weight"] = g.weight.detach().float(); ref[f"trained.{l}.bias"] = g.bias.detach().float()
            ref[f"trained.{l}.report"] = torch.tensor([final, right(seen), right(unseen)])
            print(f"trained layer {l}: loss {final:.5f}, accuracy {right(seen):.3f} of what was seen, {right(unseen):.3f} of what was not")
    # As mistral.rs trains: rows of whatever is chosen so far, batches of 4, kaiming's first numbers.
    torch.manual_seed(0); p = mixed(base, layers, experts, "prompt", 3, 0.0); pm = mixtures(p); opts = {}
    for l, x in pm.items(): x.gate.reset_parameters(); opts[l] = torch.optim.Adam(x.gate.parameters(), lr=1e-2, eps=1e-8)
    order = np.random.default_rng(0)
    for _ in range(100):
        for batch in np.split(order.permutation(len(data)), len(data) // 4):
            total = {l: 0 for l in pm}
            for i in batch:
                p(ids(data[i][0]), use_cache=False)
                for l, x in pm.items(): total[l] = total[l] + loss_of(x.g[:, 0], data[i][1]) / len(batch)
            for l in pm: opts[l].zero_grad()
            sum(total.values()).backward()
            for l in pm: opts[l].step()
    right = {l: 0 for l in pm}
    with torch.no_grad():
        for text, e in test:
            p(ids(text), use_cache=False)
            for l, x in pm.items(): right[l] += int(x.g[0, 0].argmax()) == e
    for l in pm: ref[f"published.{l}.accuracy"] = torch.tensor([right[l] / len(test)]); print(f"as published, layer {l}: accuracy {right[l] / len(test):.3f} of what was not seen")

for name in sys.argv[1:] or BASES: build(name)
