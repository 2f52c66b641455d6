"""tests/fixtures/lens/reference.safetensors: a logit lens by transformers. For each layer of a model the logits of the same
model without the layers after it, so that the class itself applies its norm, its head and what else follows (scales,
softcaps): `NAME.logits` [layers, positions, vocabulary] f32, `NAME.tokens` [T] and `NAME.positions` [positions] i64.

lens.py [FIXTURES]"""
import os, shutil, sys, tempfile
import numpy as np
import torch, transformers
from safetensors.numpy import load_file, save_file
import hf_tensors

MODELS = ["base/llama", "zoo/gemma2", "zoo/cohere2", "zoo/granite", "zoo/olmo2", "zoo/mamba"]
POSITIONS = [0, 7, 15, 23]
TOKENS = 24

def model_of(folder, into):
    """The model of a fixture, by its class; the weights of the zoo are made again."""
    if os.path.exists(folder + "/hf/model.safetensors"): shutil.copytree(folder + "/hf", into, dirs_exist_ok=True)
    else: hf_tensors.directory(folder, into)
    return transformers.AutoModelForCausalLM.from_pretrained(into, dtype=torch.float32, attn_implementation="eager").eval()

def layers_of(model):
    """The object that has the layers, and the name of their list."""
    return next((part, name) for part in (model.base_model,) for name in ("layers", "h") if hasattr(part, name))

def lens(model, tokens, positions):
    part, name = layers_of(model); layers = list(getattr(part, name)); rows = []
    for count in range(1, len(layers) + 1):
        setattr(part, name, torch.nn.ModuleList(layers[:count])); model.config.num_hidden_layers = count
        with torch.inference_mode(): rows.append(model(input_ids=torch.tensor(tokens[None]), use_cache=False).logits[0][positions].numpy())
    return np.stack(rows)

def main():
    fixtures = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixtures"); made = {}
    for name in MODELS:
        folder = os.path.join(fixtures, name); known = load_file(folder + "/reference.safetensors")
        tokens = known["tokens_prompt"][:TOKENS]; key = name.split("/")[1]
        with tempfile.TemporaryDirectory() as into: rows = lens(model_of(folder, into), tokens, POSITIONS)
        # The last layer is the whole model.
        worst = float(np.abs(rows[-1] - known["logits_prompt"][POSITIONS]).max()); assert worst < 1e-4, (name, worst)
        print(f"{name}: {rows.shape}, last layer within {worst:.1e}; first layer differs by {np.abs(rows[0] - rows[-1]).max():.1f}")
        made |= {f"{key}.logits": rows.astype(np.float32), f"{key}.tokens": tokens, f"{key}.positions": np.array(POSITIONS, np.int64)}
    os.makedirs(fixtures + "/lens", exist_ok=True); save_file(made, fixtures + "/lens/reference.safetensors")

main()
