#!/usr/bin/env python3
"""Writes pieces.json: where llama.cpp cuts the texts below, for every list of regexes in its llama-vocab.cpp.

Usage: python3 make_pieces.py LLAMA_CPP_SOURCE_FOLDER        needs g++
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parents[3] / "tests" / "fixtures"
TEXTS = [
    "1234567 and 12 345678901", "  leading\n\n\n  and   trailing   ", "tabs\t\t\tmixed \t \n x",
    "HelloWorld camelCaseXMLHttp", "it's IT'S don't DON'T they'll We'Ve", "日本語とEnglish混在、テスト。", "Привет, мир! ÀÉÎ",
    "price: $12.50 (20% off) #tag @user", "a_b-c/d\\e|f~g`h^i=j<k>l", '{"key": [1, 2.5, true]}\r\n\r\n', "end.\n\n",
    "x\u00a0y\u3000z", "한국어 텍스트입니다", "हिन्दी पाठ", "٣٤٥ ½ Ⅷ", "!!!\n???\r\n...", "if x:\n\treturn  y\n",
    "  \n  \n  a", "....\u2026\u2014\u201cquoted\u201d", "foo's  's ' s", "a\n", "\n a", "\r\n\r\n", "   ", "12",
    "no-break\u2011hyphen e\u0301e\u0301",
]
# Cuts whole words, not in the table.
LEFT_OUT = {"whitespace"}


def lists_and_names(source):
    """The regexes by LLAMA_VOCAB_PRE_TYPE_*, and the first name of each type."""
    body = source[source.index("switch (vocab.get_pre_type())"):]
    body = body[: body.index("std::vector<std::string> regex_exprs;")]
    body = re.sub(r"^\s*//.*$", "", body, flags=re.M)
    body = re.sub(r'//[^"\n]*$', "", body, flags=re.M)
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    lists, names = {}, {}
    for cases, block in re.findall(
        r"((?:case LLAMA_VOCAB_PRE_TYPE_\w+:\s*)+|default:\s*)regex_exprs = \{(.*?)\};", body, flags=re.S
    ):
        texts = re.findall(r'"((?:[^"\\]|\\.)*)"', block, flags=re.S)
        regexes = [re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), text) for text in texts]
        for kind in re.findall(r"PRE_TYPE_(\w+):", cases) or ["DEFAULT"]:
            lists[kind] = regexes
    body = source[source.index('tokenizer_pre == "default"'): source.index("unknown pre-tokenizer type")]
    for condition, kind in re.findall(
        r'((?:tokenizer_pre == "[^"]+"\s*\|?\|?\s*)+)\)\s*\{\s*pre_type = LLAMA_VOCAB_PRE_TYPE_(\w+);', body
    ):
        names.setdefault(kind, re.findall(r'"([^"]+)"', condition)[0])
    return lists, names


def pack(text):
    data = text.encode("utf8")
    return len(data).to_bytes(4, "little") + data


def pack_list(texts):
    return len(texts).to_bytes(4, "little") + b"".join(map(pack, texts))


def main():
    source = pathlib.Path(sys.argv[1]).resolve() / "src"
    lists, names = lists_and_names((source / "llama-vocab.cpp").read_text(encoding="utf8"))
    kinds = [kind for kind in lists if kind in names and names[kind] not in LEFT_OUT]
    texts = json.loads((FIXTURES / "tok" / "cases.json").read_text(encoding="utf8"))["texts"]
    texts = [text for text in texts if text] + TEXTS
    with tempfile.TemporaryDirectory() as folder:
        files = [HERE / "split.cpp", source / "unicode.cpp", source / "unicode-data.cpp"]
        subprocess.run(["g++", "-O1", "-std=c++17", f"-I{source}", *files, "-o", f"{folder}/split"], check=True)
        feed = pack_list(texts) + len(kinds).to_bytes(4, "little") + b"".join(pack_list(lists[kind]) for kind in kinds)
        pathlib.Path(folder, "feed.bin").write_bytes(feed)
        subprocess.run([f"{folder}/split"], cwd=folder, check=True)
        data = pathlib.Path(folder, "out.bin").read_bytes()
    at = 0

    def number():
        nonlocal at
        at += 4
        return int.from_bytes(data[at - 4: at], "little")

    def text():
        nonlocal at
        length = number()
        at += length
        return data[at - length: at].decode("utf8")

    pieces = {}
    for kind in kinds:
        # Empty pieces (matches of nothing) are left out.
        pieces[names[kind]] = [[p for p in [text() for _ in range(number())] if p] for _ in texts]
    result = json.dumps({"texts": texts, "pieces": pieces}, ensure_ascii=False)
    (HERE / "pieces.json").write_text(result + "\n", encoding="utf8")
    print(len(pieces), "lists,", len(texts), "texts")


if __name__ == "__main__":
    main()
