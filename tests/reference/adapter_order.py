#!/usr/bin/env python3
"""In which order transformers registers the linears of a block, by class:  adapter_order.py OUT.json
Needs torch, transformers. X-LoRA numbers its layers in the order of `named_modules()`; specs state it under [adapter] order, and
`tests/conformance/xlora_forms.rs` holds them to this. Of every fixture that has an HF config a model without weights is made.
{class: [[names of the linears of a block, after the block's own name, in order], .. one list for each kind of block]}"""
import glob, json, os, re, sys, warnings
warnings.filterwarnings("ignore")
os.environ.setdefault("HF_HUB_OFFLINE", "1"); os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch, transformers
from transformers.pytorch_utils import Conv1D

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "..", "fixtures")
BLOCK = re.compile(r"^(.*?\b(?:layers|h|blocks|layer)\.)(\d+)\.(.+)$")
TOWERS = ("visual", "vision", "audio", "vqmodel", "projector")

def blocks(config_path):
    raw = json.load(open(config_path)); name = raw["architectures"][0]
    cls = getattr(transformers, name, None)
    if cls is None or not ("CausalLM" in name or "ConditionalGeneration" in name or "LMHead" in name): return None
    config = transformers.AutoConfig.from_pretrained(os.path.dirname(config_path))
    with torch.device("meta"): model = cls(config)
    found = {}
    for path, module in model.named_modules():
        at = BLOCK.match(path)
        if not at or not isinstance(module, (torch.nn.Linear, Conv1D)) or any(t in path for t in TOWERS): continue
        found.setdefault((at[1], int(at[2])), []).append(at[3])
    kinds = []
    for names in found.values():
        # Experts one by one are no layers of an X-LoRA.
        names = [n for n in names if not re.search(r"experts\.\d+\.", n)]
        if names and names not in kinds: kinds.append(names)
    return name, kinds

out = {}
for path in sorted(glob.glob(FIXTURES + "/base/*/hf/config.json") + glob.glob(FIXTURES + "/zoo/*/hf/config.json")):
    try: found = blocks(path)
    except Exception as error: print(path, type(error).__name__, str(error)[:100], file=sys.stderr); continue
    if found is None: continue
    name, kinds = found
    for kind in kinds:
        if kind not in out.setdefault(name, []): out[name].append(kind)
with open(sys.argv[1], "w") as file: file.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(out.items())) + "\n}\n")
print(len(out), "classes", file=sys.stderr)
