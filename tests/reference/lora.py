#!/usr/bin/env python3
"""Adapters by PEFT with their logits, and adapters as llama.cpp's converter writes them:  lora.py [name ...]
Needs torch, transformers, peft, gguf, safetensors; LLAMA_CPP (for convert_lora_to_gguf.py); BASES: folder of the base fixtures with their hf/model.safetensors.
Writes FIXTURES/lora/<base>/<name>/ (the adapter, and reference.safetensors: tokens_prompt [24], logits_prompt_<case> [24, V])."""
import json, os, shutil, subprocess, sys, warnings, zlib
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from peft import LoraConfig, PeftModel, get_peft_model
warnings.filterwarnings("ignore")
torch.set_num_threads(2)

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(os.environ.get("FIXTURES", os.path.join(HERE, "..", "fixtures")), "lora")
BASES = os.environ.get("BASES", os.path.join(HERE, "..", "fixtures", "base"))
T = 24

def base_model(base):
    if base == "gpt2": return gpt2()
    if base in ZOO: return zoo(base)
    folder = os.path.join(BASES, base)
    model = AutoModelForCausalLM.from_pretrained(os.path.join(folder, "hf"), dtype=torch.float32, attn_implementation="eager").eval()
    return model, load_file(os.path.join(folder, "reference.safetensors"))["tokens_prompt"][:T]

def gpt2():
    """The zoo keeps no HF weights: they are those of its GGUF under HF's names, Conv1D's turned."""
    from gguf import GGUFReader
    from transformers import AutoConfig
    folder = os.path.join(HERE, "..", "fixtures", "zoo", "gpt2")
    config = AutoConfig.for_model(**json.load(open(os.path.join(folder, "config.hub-style.json"))))
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    names = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj", "attn_norm": "ln_1", "ffn_norm": "ln_2"}
    state = {}
    for t in GGUFReader(os.path.join(folder, "model-f16.gguf")).tensors:
        role, kind = t.name.rsplit(".", 1)
        block = f"h.{role.split('.')[1]}." if role.startswith("blk.") else ""
        value = torch.tensor(t.data.astype("float32"))
        hf = names.get(role.split(".")[-1])
        if hf is None: continue
        state["transformer." + block + hf + "." + kind] = value.T.contiguous() if hf.split(".")[-1].startswith("c_") and kind == "weight" else value
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("lm_head" in m or ".attn.bias" in m or "masked_bias" in m for m in missing), (missing, unexpected)
    ref = load_file(os.path.join(folder, "reference.safetensors"))
    assert (logits(model, ref["tokens_prompt"]) - ref["logits_prompt"]).abs().max() < 1e-4
    return model, ref["tokens_prompt"][:T]

ZOO = ("deepseek2-lite", "deepseek2-v3", "gpt-oss", "llama4", "qwen3next")
def zoo(name):
    """A model of the zoo: its HF directory made again from its GGUF, held against its reference first."""
    import tempfile, hf_tensors
    folder = os.path.join(HERE, "..", "fixtures", "zoo", name)
    with tempfile.TemporaryDirectory() as made:
        hf_tensors.directory(folder, made)
        model = AutoModelForCausalLM.from_pretrained(made, dtype=torch.float32, attn_implementation="eager").eval()
    ref = load_file(os.path.join(folder, "reference.safetensors"))
    assert (logits(model, ref["tokens_prompt"]) - ref["logits_prompt"]).abs().max() < 1e-4
    return model, ref["tokens_prompt"][:T]

def fill(model, seed, bias=False):
    """Random numbers for everything an adapter trains; magnitudes and whole weights move by a tenth."""
    gen = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        r = lambda: torch.randn(p.shape, generator=gen)
        if "lora_A" in name or "lora_embedding_B" in name: p.data = r() * (1.0 / p.shape[-1] ** 0.5 if "lora_A" in name else 0.15)
        elif "lora_B" in name or "lora_embedding_A" in name: p.data = r() * 0.15
        elif "lora_magnitude" in name: p.data = p.data * (1 + 0.3 * r())
        elif "modules_to_save" in name: p.data = p.data + 0.3 * p.data.std() * r()
        elif bias and name.endswith("bias") and "norm" not in name: p.data = p.data + 0.3 * r()

def logits(model, tokens):
    with torch.no_grad(): return model(tokens[None]).logits[0].contiguous()

def put(base, name, model, tokens, cases):
    folder = os.path.join(OUT, base, name)
    os.makedirs(folder, exist_ok=True)
    save_file({"tokens_prompt": tokens.contiguous(), **{f"logits_prompt_{k}": v for k, v in cases.items()}}, os.path.join(folder, "reference.safetensors"))

def save(model, base, name, adapter="default"):
    folder = os.path.join(OUT, base, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, selected_adapters=[adapter], save_embedding_layers=False)
    if adapter != "default":
        for f in os.listdir(os.path.join(folder, adapter)): shutil.move(os.path.join(folder, adapter, f), folder)
        os.rmdir(os.path.join(folder, adapter))
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")
    config = json.load(open(path)); config["base_model_name_or_path"] = f"base/{base}"
    for key in ("target_modules", "target_parameters", "modules_to_save"):
        if isinstance(config.get(key), list): config[key] = sorted(config[key])
    json.dump(config, open(path, "w"), indent=1, sort_keys=True)

def one(base, name, fan=False, bias=False, **config):
    base_, tokens = base_model(base)
    bare = logits(base_, tokens)
    model = get_peft_model(base_, LoraConfig(r=3, lora_alpha=6, lora_dropout=0.0, task_type="CAUSAL_LM", fan_in_fan_out=fan, **config)).eval()
    fill(model, zlib.crc32(f"{base}/{name}".encode()) % 100000, bias)
    save(model, base, name)
    got = logits(model, tokens)
    print(f"{base}/{name}: moves the logits by {(got - bare).abs().max():.3f}")
    put(base, name, model, tokens, {"one": got})
    return model, tokens, got

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {}
def case(f): CASES[f.__name__] = f; return f

@case
def llama_dora():
    """Two DoRA adapters: each alone, both, and weighted (scaling enters the norm)."""
    base, tokens = base_model("llama")
    model = get_peft_model(base, LoraConfig(r=3, lora_alpha=6, use_dora=True, target_modules=ALL, task_type="CAUSAL_LM"), adapter_name="d0")
    model.add_adapter("d1", LoraConfig(r=2, lora_alpha=5, use_dora=True, use_rslora=True, target_modules=["q_proj", "down_proj", "lm_head"], task_type="CAUSAL_LM"))
    model.eval(); fill(model, 77)
    cases = {}
    def run(case, weights):
        model.base_model.set_adapter(list(weights))
        for m in model.modules():
            for a, w in weights.items():
                if hasattr(m, "set_scale") and a in getattr(m, "scaling", {}): m.set_scale(a, w)
        cases[case] = logits(model, tokens)
    run("d0", {"d0": 1.0}); run("d1", {"d1": 1.0}); run("both", {"d0": 1.0, "d1": 1.0}); run("weighted", {"d0": 0.6, "d1": 1.3})
    for a in ("d0", "d1"): save(model, "llama", a, a)
    print("llama dora:", {k: float((v - cases["d0"]).abs().max()) for k, v in cases.items()})
    put("llama", "d0", model, tokens, cases)

@case
def llama_whole(): one("llama", "whole", target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"])
@case
def llama_embed(): one("llama", "embed", target_modules=["embed_tokens", "lm_head", "k_proj"])
@case
def llama_patterns(): one("llama", "patterns", target_modules=ALL, rank_pattern={r"layers\.1\.self_attn\.q_proj": 5, "up_proj": 2}, alpha_pattern={r"^model\.layers\.0\.mlp\.(up|down)_proj": 11}, layers_to_transform=[0, 1])
@case
def qwen2_bias(): _bias("qwen2", "bias", "all", ["q_proj", "v_proj", "up_proj"])
@case
def starcoder2_bias(): _bias("starcoder2", "bias", "lora_only", ["q_proj", "c_fc"])
def _bias(base, name, kind, targets):
    base_, tokens = base_model(base)
    model = get_peft_model(base_, LoraConfig(r=3, lora_alpha=6, bias=kind, target_modules=targets, task_type="CAUSAL_LM")).eval()
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    gen = torch.Generator().manual_seed(5)
    fill(model, 21)
    for n, p in model.named_parameters():
        if n in trained and n.endswith("bias") and "norm" not in n: p.data = p.data + 0.3 * torch.randn(p.shape, generator=gen)
    save(model, base, name)
    put(base, name, model, tokens, {"one": logits(model, tokens)})
    print(f"{base}/{name}: {sum(n.endswith('bias') for n in trained)} biases")
@case
def qwen2_tied(): one("qwen2", "tied", target_modules=["embed_tokens", "q_proj"])
@case
def qwen2_dora(): one("qwen2", "dora", target_modules=ALL, use_dora=True)
@case
def phi3_dora(): one("phi3", "dora", target_modules=["qkv_proj", "gate_up_proj", "o_proj"], use_dora=True)
@case
def phi2_all(): one("phi2", "all", target_modules=["q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2", "lm_head"])
@case
def gpt2_conv1d(): one("gpt2", "conv1d", fan=True, target_modules=["c_attn", "c_proj", "c_fc"])
@case
def gpt2_dora(): one("gpt2", "dora", fan=True, use_dora=True, target_modules=["c_attn", "c_fc"])

@case
def mixtral_experts():
    """The experts' parameters, and the same adapter as modules of their own, as transformers 4 has them."""
    model, tokens, got = one("mixtral", "parameters", target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
    folder = os.path.join(OUT, "mixtral", "parameters")
    stored, out = load_file(os.path.join(folder, "adapter_model.safetensors")), {}
    for name, a in stored.items():
        if "experts" not in name: out[name] = a
        if "experts" not in name or not name.endswith("lora_A.weight"): continue
        b = stored[name.replace("lora_A", "lora_B")]
        E = 8; r = a.shape[0] // E
        A, B = a.reshape(E, r, -1), b.reshape(b.shape[0], r, E)
        module = name.split(".mlp.experts")[0] + ".block_sparse_moe.experts"
        inner = ".base_layer." in name  # gate_up_proj is registered first, hence innermost
        for e in range(E):
            if e == 3: continue   # an expert without an adapter: see below
            if inner:
                half = B.shape[0] // 2
                parts = [("w1", A[e], B[:half, :, e]), ("w3", A[e], B[half:, :, e])]
            else: parts = [("w2", A[e], B[:, :, e])]
            for w, x, y in parts:
                out[f"{module}.{e}.{w}.lora_A.weight"] = x.contiguous().clone(); out[f"{module}.{e}.{w}.lora_B.weight"] = y.contiguous().clone()
    for n, p in model.named_parameters():     # expert 3 of the stack does nothing either
        if "experts" in n and "lora_B" in n: p.data.reshape(p.shape[0], -1, 8)[:, :, 3] = 0
    other = os.path.join(OUT, "mixtral", "modules"); shutil.rmtree(other, ignore_errors=True); os.makedirs(other)
    save_file(out, os.path.join(other, "adapter_model.safetensors"))
    config = json.load(open(os.path.join(folder, "adapter_config.json")))
    config.update(target_parameters=None, target_modules=["q_proj", "w1", "w2", "w3"])
    json.dump(config, open(os.path.join(other, "adapter_config.json"), "w"), indent=1, sort_keys=True)
    put("mixtral", "modules", model, tokens, {"one": logits(model, tokens)})

MLA = ["kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
@case
def deepseek_mla():
    """Latent attention, whose `kv_b_proj` a GGUF holds as two stacks of heads; the experts' parameters beside it."""
    one("deepseek2-lite", "mla", target_modules=["q_proj", *MLA], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
    one("deepseek2-v3", "mla", target_modules=["q_a_proj", "q_b_proj", *MLA])
@case
def gpt_oss_experts(): one("gpt-oss", "experts", target_modules=["q_proj", "v_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
@case
def llama4_experts():
    """PEFT takes the stored `[E, in, out]` for `[E, out, in]`: its A meets the outputs."""
    one("llama4", "experts", target_modules=["k_proj", "shared_expert.up_proj"], target_parameters=["feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"])
@case
def qwen3next_delta(): one("qwen3next", "delta", target_modules=["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "o_proj"])
@case
def gguf():
    """llama.cpp's converter; without rsLoRA and patterns, which it drops."""
    script = os.path.join(os.environ["LLAMA_CPP"], "convert_lora_to_gguf.py")
    for base, name in (("llama", "a0"), ("llama", "a1"), ("phi3", "a1"), ("qwen2", "tied")):
        source = os.path.join(OUT, base, "adapters", name) if name[0] == "a" else os.path.join(OUT, base, name)
        out = os.path.join(OUT, base, "gguf"); os.makedirs(out, exist_ok=True)
        subprocess.run([sys.executable, script, "--base", os.path.join(BASES, base, "hf"), "--outtype", "f32", "--outfile", os.path.join(out, f"{name}.gguf"), source], check=True, stdout=subprocess.DEVNULL)

for name in sys.argv[1:] or list(CASES): CASES[name]()
