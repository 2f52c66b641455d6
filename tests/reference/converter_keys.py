#!/usr/bin/env python3
"""Compares core/spec/tests/converter_keys.toml with what a llama.cpp's converter can write: python converter_keys.py
Needs LLAMA_CPP (its source tree; nothing of it is run) and Python 3.11. Exit code 1 where they differ, with the lines to write.

Read from the source by its syntax: a class writes what it and the classes it is made of call `gguf_writer.add_...` for (in a
method that another class overrides, only where the one that overrides calls `super()`); add_... writes the keys that its body names."""
import ast, hashlib, os, pathlib, sys, tomllib

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "../../core/spec/tests/converter_keys.toml"
SOURCES = ("conversion/*.py", "gguf-py/gguf/constants.py", "gguf-py/gguf/gguf_writer.py")

def digest(tree):
    """SHA-256 over the files that the keys are read from, without comments and layout."""
    sha = hashlib.sha256()
    for pattern in SOURCES:
        for file in sorted(pathlib.Path(tree).glob(pattern)):
            sha.update(file.name.encode() + ast.dump(ast.parse(file.read_text())).encode())
    return sha.hexdigest()

def key_names(tree):
    """`Keys.Attention.SCALE` -> `attention.scale`, of the keys under an architecture."""
    keys = next(n for n in ast.parse((tree / "gguf-py/gguf/constants.py").read_text()).body if isinstance(n, ast.ClassDef) and n.name == "Keys")
    names = {}
    for group in (n for n in keys.body if isinstance(n, ast.ClassDef)):
        for line in group.body:
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant) and str(line.value.value).startswith("{arch}."):
                names[group.name, line.targets[0].id] = line.value.value.removeprefix("{arch}.")
    return names

def written_by(tree):
    """add_... -> the keys it writes."""
    names, written = key_names(tree), {}
    writer = next(n for n in ast.parse((tree / "gguf-py/gguf/gguf_writer.py").read_text()).body if isinstance(n, ast.ClassDef) and n.name == "GGUFWriter")
    for method in (n for n in writer.body if isinstance(n, ast.FunctionDef)):
        found = set()
        for n in ast.walk(method):
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Attribute) and getattr(n.value.value, "id", None) == "Keys":
                found |= {names[n.value.attr, n.attr]} if (n.value.attr, n.attr) in names else set()
        if found: written[method.name] = found
    return written

def classes(tree):
    """name -> (names of bases, name of MODEL_ARCH, {method: node})."""
    found = {}
    for file in sorted((tree / "conversion").glob("*.py")):
        for n in ast.walk(ast.parse(file.read_text())):
            if not isinstance(n, ast.ClassDef): continue
            bases = [b.attr if isinstance(b, ast.Attribute) else getattr(b, "id", "") for b in n.bases]
            arch = next((a.value.attr for a in n.body if isinstance(a, ast.Assign) and getattr(a.targets[0], "id", "") == "model_arch" and isinstance(a.value, ast.Attribute)), None)
            found[n.name] = (bases, arch, {m.name: m for m in n.body if isinstance(m, ast.FunctionDef)})
    return found

def arch_of(name, known):
    bases, arch, _ = known[name]
    return arch or next((a for b in bases if b in known and (a := arch_of(b, known))), None)

def line(name, known):
    """The class and what it is made of, nearest first."""
    out = [name]
    for b in known[name][0]:
        if b in known: out += [x for x in line(b, known) if x not in out]
    return out

def writes(name, known, written):
    """Every key a class can write; vocabulary and file type are no keys under an architecture."""
    keys, hidden = set(), set()
    for owner in line(name, known):
        for method, node in known[owner][2].items():
            if method in hidden: continue
            calls_super = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == method and isinstance(n.func.value, ast.Call) and getattr(n.func.value.func, "id", "") == "super" for n in ast.walk(node))
            if not calls_super: hidden.add(method)
            # a helper of the base counts only where something calls it
            if owner in ("TextModel", "ModelBase") and method != "set_gguf_parameters" and not called(method, name, known): continue
            for n in ast.walk(node):
                if isinstance(n, ast.Attribute) and n.attr in written: keys |= written[n.attr]
    return keys

def called(method, name, known):
    bodies = [n for owner in line(name, known) if owner not in ("TextModel", "ModelBase") for n in known[owner][2].values()]
    return any(isinstance(n, ast.Attribute) and n.attr == method for body in bodies for n in ast.walk(body))

def main():
    tree = pathlib.Path(os.environ["LLAMA_CPP"]); table = tomllib.loads(TABLE.read_text())
    known, written = classes(tree), written_by(tree)
    wrong = []
    for id, entry in table.items():
        if not isinstance(entry, dict): continue
        of = entry.get("classes") or sorted(n for n in known if (arch_of(n, known) or "").lower() == entry.get("arch", id) and "Mmproj" not in " ".join(line(n, known)))
        has = set(entry["keys"]) | (set(table["base"]) if entry["base"] else set()) | set(entry.get("older", [])) | set(entry.get("refused", []))
        can = set().union(*(writes(n, known, written) for n in of)) if of else set()
        if entry.get("listed"): can -= set(table["base"])
        for key in sorted(can - has): wrong.append(f"[{id}] {', '.join(of)} can write {key}")
        if not of: wrong.append(f"[{id}] no class of this converter writes it")
    if digest(tree) != table["digest"]:
        wrong.append(f'the converter is another one than the table was read from; once the lines above are dealt with: digest = "{digest(tree)}"')
    print("\n".join(wrong) or f"{TABLE.name} has every key")
    sys.exit(bool(wrong))

if __name__ == "__main__": main()
