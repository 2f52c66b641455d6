"""Writes tok/tekken/tekken.json, tok/tiktoken/vocab.tiktoken and tok/ranked.json: vocabularies of bytes in the order of their
merging, and the ids of texts by mistral-common and tiktoken (both by pip). The bytes are the first ones of the tekken.json that
mistral-common comes with. TEKKEN names that file where it is elsewhere."""
import base64, json, os, pathlib, unicodedata
import mistral_common, tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

OUT = pathlib.Path(os.environ.get("FIXTURES", pathlib.Path(__file__).parent.parent / "fixtures")) / "tok"
SOURCE = os.environ.get("TEKKEN", pathlib.Path(mistral_common.__file__).parent / "data/tekken_240911.json")
TOKENS, SPECIALS = 700, 24
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

whole = json.load(open(SOURCE))
small = {"config": {**whole["config"], "num_vocab_tokens": TOKENS + 50, "default_vocab_size": TOKENS + SPECIALS,
                    "default_num_special_tokens": SPECIALS}, "vocab": whole["vocab"][: TOKENS + 50]}
for name in ("tekken", "tiktoken"):
    (OUT / name).mkdir(exist_ok=True)
path = OUT / "tekken/tekken.json"
path.write_text(json.dumps(small, ensure_ascii=False, separators=(",", ":")) + "\n")
(OUT / "tekken/config.json").write_text('{"bos_token_id": 1, "eos_token_id": 2}\n')
tekken = Tekkenizer.from_file(path)

tokens = [base64.b64decode(token["token_bytes"]) for token in whole["vocab"][:TOKENS]]
# A token that no merges lead to: a piece that is it is it all the same.
tokens.append("🦙🦙".encode())
(OUT / "tiktoken/vocab.tiktoken").write_text("".join(f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(tokens)))
(OUT / "tiktoken/tokenizer_config.json").write_text('{"tokenizer_class": "QWenTokenizer"}\n')
special = {text: len(tokens) + i for i, text in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))])}
qwen = tiktoken.Encoding("qwen", pat_str=QWEN, mergeable_ranks={t: i for i, t in enumerate(tokens)}, special_tokens=special)

texts = json.loads((OUT / "cases.json").read_text())["texts"] + [
    "", "aaaaaaaaaaaa", "thethethe the\tthe", "e\u0301 é ﬁ ½", "🦙🦙", " 🦙🦙 🦙", "<s>[INST] hi [/INST]", "<|im_start|>user\nhi<|im_end|>\n",
    "\r\n\r\n  \n x", "Iİıſ ẞ", "12345 ١٢٣", "don't WON'T I'll", "日本語のテキスト", "\u0000\u0001\x7f", "a\u200db\ufeff", "//path/to\n/x",
    "def f(x):\n    return x  # ok\n", "ΑΒΓ αβγ ПРИВЕТ привет", "\u2028\u2029\u00a0\u3000"]
cases = {"texts": texts, "tekken": [tekken.encode(t, bos=False, eos=False) for t in texts],
         "tekken_framed": [tekken.encode(t, bos=True, eos=False) for t in texts],
         "tiktoken": [qwen.encode_ordinary(unicodedata.normalize("NFC", t)) for t in texts],
         "tiktoken_special": [qwen.encode(unicodedata.normalize("NFC", t), allowed_special="all") for t in texts]}
(OUT / "ranked.json").write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")) + "\n")
