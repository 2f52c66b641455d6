#!/usr/bin/env python3
"""tok/cases.json: text -> ids by the HF tokenizer (with and without special tokens) and by llama.cpp on the GGUF, for each tokenizer kind."""
from fixlib import *
T = ["", "a", " ", "  ", "\n", "\n\n", " \n \t x", "Hello, world!", "The License grants you permission.", " leading space", "trailing space ", "I'm you're WE'LL they'd it's HE'S", "12345 3.14159 1,000,000", "naïve café Ünïcödé", "日本語のテキスト と 한국어", "🚀🦙 emoji ✅", "tabs\tand\r\nwindows lines\r\n", "snake_case camelCase kebab-case __init__", "<s>not special</s>", "<|im_start|>user\nhi<|im_end|>", "e\u0301 combining", "a" * 70, "      six spaces", "x  y   z", "http://example.com/?q=1&r=%20", "ﬁ ligature Ⅷ", "\u200b zero width", "mixed123abc456", "...!!!???---", "def f(x):\n    return x ** 2\n"]
KINDS = dict(llama3="base/llama", gpt2="base/phi2", qwen2="base/qwen2", spm="base/mixtral")
out = dict(texts=T, kinds={})
for k, d in KINDS.items():
    t = AutoTokenizer.from_pretrained(f"{ROOT}/{d}/hf"); res = dict(model=d, pre=gguf_info(f"{ROOT}/{d}/model-f32.gguf")[0].get("tokenizer.ggml.pre"), hf_plain=[], hf_special=[], hf_decoded=[], mismatch_llamacpp=[])
    with tempfile.NamedTemporaryFile("wb", delete=False) as f: f.write(b"\0".join(x.encode() for x in T[1:]) + b"\0")
    lines = {}
    for a in (0, 1):
        r = subprocess.run([HERE + "/tools/lcpp_tok", f"{ROOT}/{d}/model-f32.gguf", f.name, str(a)], capture_output=True, text=True, env=dict(os.environ, LD_LIBRARY_PATH=BUILD))
        lines[a] = [[]] + [[int(x) for x in l.split()] for l in r.stdout.split("\n")[:len(T) - 1]]
    for i, x in enumerate(T):
        p = t.encode(x, add_special_tokens=False); s = t.encode(x)
        res["hf_plain"].append(p); res["hf_special"].append(s); res["hf_decoded"].append(t.decode(p))
        if i and lines[0][i] != p: res["mismatch_llamacpp"].append(dict(text=x, hf=p, llamacpp=lines[0][i]))
        if i and lines[1][i] != s: res.setdefault("mismatch_llamacpp_special", []).append(dict(text=x, hf=s, llamacpp=lines[1][i]))
    if k == "spm":
        import sentencepiece; sp = sentencepiece.SentencePieceProcessor(model_file=f"{ROOT}/{d}/hf/tokenizer.model"); res["sentencepiece_plain"] = [sp.encode(x) for x in T]
        print("llama.cpp vs sentencepiece:", [(T[i], lines[0][i], q) for i, q in enumerate(res["sentencepiece_plain"]) if lines[0][i] != q])
    res["llamacpp_plain"] = lines[0]; res["llamacpp_special"] = lines[1]
    out["kinds"][k] = res
    print(k, res["pre"], "mismatches", len(res["mismatch_llamacpp"]), [m["text"][:20] for m in res["mismatch_llamacpp"]], "special", len(res.get("mismatch_llamacpp_special", [])), [(m["text"][:12], m["hf"][:4], m["llamacpp"][:4]) for m in res.get("mismatch_llamacpp_special", [])][:4])
json.dump(out, open(ROOT + "/tok/cases.json", "w"), ensure_ascii=False)
