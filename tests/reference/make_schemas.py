"""Writes tests/fixtures/structured/schemas.jsonl: 200 JSON schemas of our own for structured output, one a line.

They cover every keyword that is supported and the shapes that people use. Each line has a name, a schema and, where the
schema is not recursive, a valid answer that the package jsonschema accepts. Needs: pip install jsonschema
"""

import itertools
import json
import pathlib

import jsonschema

OUT = pathlib.Path(__file__).parent.parent / "fixtures/structured/schemas.jsonl"
FOUND = []


def add(name, schema, answer):
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(answer)
    FOUND.append({"name": name, "schema": schema, "answer": answer})


def record(properties, required=None, closed=True, **more):
    schema = {"type": "object", "properties": properties, "required": list(properties) if required is None else required}
    if closed:
        schema["additionalProperties"] = False
    return {**schema, **more}


TEXT, WHOLE, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}


def types():
    for name, answer in [("null", None), ("boolean", True), ("integer", -12), ("number", 2.5), ("string", "a \"b\"\n"),
                         ("array", [1, "x", None]), ("object", {"a": {"b": []}})]:
        add(f"type {name}", {"type": name}, answer)
    add("type list", {"type": ["string", "null"]}, None)
    add("type list of four", {"type": ["integer", "boolean", "array", "null"]}, [1])
    add("anything", {}, {"a": 1})
    add("nothing but notes", {"title": "T", "description": "D", "$comment": "C", "default": 1, "examples": [1, "a"]}, "x")
    add("true", record({"a": True}), {"a": [None]})


def numbers():
    cases = [
        ("from 0", {"minimum": 0}, 7), ("to 0", {"maximum": 0}, -7), ("from 1 to 5", {"minimum": 1, "maximum": 5}, 5),
        ("above 0", {"exclusiveMinimum": 0}, 1), ("below 100", {"exclusiveMaximum": 100}, 99),
        ("between", {"exclusiveMinimum": -3, "exclusiveMaximum": 3}, -2), ("negative", {"minimum": -250, "maximum": -13}, -13),
        ("year", {"minimum": 1900, "maximum": 2100}, 1999), ("multiple of 5", {"multipleOf": 5}, -15),
        ("even byte", {"minimum": 0, "maximum": 255, "multipleOf": 2}, 254),
        ("safe", {"minimum": -9007199254740991, "maximum": 9007199254740991}, 42),
    ]
    for name, bounds, answer in cases:
        add(f"integer {name}", {"type": "integer", **bounds}, answer)
    cases = [
        ("share", {"minimum": 0, "maximum": 1}, 0.25), ("open share", {"exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
        ("temperature", {"minimum": -273.15}, -40.5), ("price", {"minimum": 0, "multipleOf": 0.25}, 19.75),
        ("half", {"multipleOf": 0.5}, 2.5), ("range", {"minimum": -1.5, "maximum": 2.25}, -1.25),
        ("to 10.5", {"maximum": 10.5}, 3), ("latitude", {"minimum": -90, "maximum": 90}, 51.5),
    ]
    for name, bounds, answer in cases:
        add(f"number {name}", {"type": "number", **bounds}, answer)
    add("bounds without a type", {"minimum": 3, "maximum": 4}, "any text")


def strings():
    for low, high, answer in [(1, None, "x"), (None, 5, ""), (3, 3, "abc"), (0, 0, ""), (20, 400, "a sentence, and a bit more")]:
        bounds = {key: value for key, value in (("minLength", low), ("maxLength", high)) if value is not None}
        add(f"length {low} to {high}", {"type": "string", **bounds}, answer)
    patterns = [
        ("^[A-Z]{3}-[0-9]{4}$", "ABC-1234"), (r"^\d{5}(-\d{4})?$", "12345-6789"), ("^(red|green|blue)$", "green"),
        ("[0-9]", "room 5"), ("^#[0-9a-fA-F]{6}$", "#00ffAA"), (r"^\+?[0-9 ]{6,14}$", "+44 20 7946"), ("^a*b+c?$", "aabb"),
        (r"^[a-z][a-z0-9_]*$", "snake_case"), (r"^\S+$", "word"), ("^[^,]+, [^,]+$", "Paris, France"), ("end$", "the end"),
        (r"^v[0-9]+\.[0-9]+\.[0-9]+$", "v1.20.3"), ("^[äöü]+$", "äö"), (r"^\w+@\w+$", "a@b"), ("^\"quoted\"$", "\"quoted\""),
        (r"^C:\\\w+$", "C:\\Windows"), ("^(?:one|two(?:three|four)?)$", "twofour"), ("^.{2,4}$", "abc"), ("^$|^x", "x1"),
    ]
    for pattern, answer in patterns:
        add(f"pattern {pattern}", {"type": "string", "pattern": pattern}, answer)
    formats = [
        ("date", "2024-02-29"), ("time", "23:59:01Z"), ("date-time", "2026-11-23T21:00:00+01:00"), ("duration", "P1DT2H"),
        ("email", "ada@example.org"), ("hostname", "a.example.org"), ("ipv4", "192.168.1.20"), ("ipv6", "2001:db8::1"),
        ("uri", "https://example.org/a?b=c#d"), ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
    ]
    for name, answer in formats:
        add(f"format {name}", {"type": "string", "format": name}, answer)
    add("format with length", {"type": "string", "format": "email", "maxLength": 20}, "a@example.org")
    add("format with pattern", {"type": "string", "format": "date", "pattern": "^20"}, "2024-01-31")
    add("time with pattern", {"type": "string", "format": "time", "pattern": "Z$"}, "10:00:00Z")
    add("pattern with length", {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 6}, "abc")
    add("format without a type", {"format": "date"}, 5)


def constants():
    for name, values in [("words", ["low", "medium", "high"]), ("numbers", [1, 2.5, -3]), ("mixed", ["a", 1, None, True]),
                         ("one", ["only"]), ("spaces", ["", " ", "a b", "\"", "\\", "\n", "é", "\U0001f600"]),
                         ("many", [f"option-{i:03}" for i in range(120)]), ("prefixes", ["a", "aa", "aaa", "ab"]),
                         ("objects", [{"a": 1}, {"b": [1, 2]}]), ("lists", [[1, 2], [], ["x"]])]:
        add(f"enum of {name}", {"enum": values}, values[-1])
        add(f"member enum of {name}", record({"choice": {"enum": values}}), {"choice": values[0]})
    for value in ["fixed", 12, 1.5, None, False, {"a": [1, {"b": None}]}, [], "quote \" and \\ and /"]:
        add(f"const {json.dumps(value)}", {"const": value}, value)
    add("enum with a type", {"type": "string", "enum": ["a", "b", 3]}, "b")


def arrays():
    add("list of texts", {"type": "array", "items": TEXT}, ["a", "b"])
    for low, high in [(0, 0), (1, 1), (2, None), (None, 3), (2, 5), (0, 40)]:
        bounds = {key: value for key, value in (("minItems", low), ("maxItems", high)) if value is not None}
        add(f"{low} to {high} items", {"type": "array", "items": WHOLE, **bounds}, [1] * max(low or 0, 0))
    add("matrix", {"type": "array", "minItems": 2, "maxItems": 2,
                   "items": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}}, [[1, 2], [3.5, 4]])
    pair = {"type": "array", "prefixItems": [TEXT, WHOLE]}
    add("pair and more", pair, ["a", 1, None])
    add("pair", {**pair, "items": False, "minItems": 2}, ["a", 1])
    add("at most a pair", {**pair, "items": False}, ["a"])
    add("pair and numbers", {**pair, "items": NUMBER, "minItems": 2, "maxItems": 4}, ["a", 1, 2.5])
    add("items of two kinds", {"type": "array", "items": {"anyOf": [TEXT, {"type": "null"}]}}, ["a", None])
    add("items may repeat", {"type": "array", "items": WHOLE, "uniqueItems": False}, [1, 1])
    add("items without a type", {"items": {"const": 1}}, [1, 1])
    add("list of records", {"type": "array", "minItems": 1, "maxItems": 6, "items": record({"id": WHOLE, "name": TEXT})},
        [{"id": 1, "name": "x"}])


def objects():
    person = {"name": TEXT, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "email": {"type": "string", "format": "email"}}
    good = {"name": "Ada", "age": 36, "email": "ada@example.org"}
    add("person", record(person), good)
    add("person, open", record(person, closed=False), {**good, "more": [1]})
    add("person, optional members", record(person, ["name"]), {"name": "Ada", "email": "a@b.org"})
    add("person, nothing required", record(person, []), {})
    add("person, last required", record(person, ["email"]), {"email": "a@b.org"})
    add("map of numbers", {"type": "object", "additionalProperties": NUMBER}, {"a": 1, "b": 2.5})
    add("map, not empty", {"type": "object", "additionalProperties": TEXT, "minProperties": 1}, {"a": "x"})
    add("map of at most 3", {"type": "object", "additionalProperties": FLAG, "maxProperties": 3}, {"a": True})
    add("a member and a map", record({"id": WHOLE}, closed=False, additionalProperties=TEXT), {"id": 1, "x": "y"})
    add("one of two members", record({"a": TEXT, "b": TEXT}, [], minProperties=1, maxProperties=1), {"b": "x"})
    add("some of two members", record({"a": TEXT, "b": TEXT}, [], minProperties=1), {"a": "x", "b": "y"})
    add("required and not listed", {"type": "object", "required": ["x", "y"]}, {"x": 1, "y": None})
    add("names to escape", record({"a \"b\"": TEXT, "c\\d": WHOLE, "é": FLAG, "new\nline": NUMBER, "": TEXT}),
        {"a \"b\"": "", "c\\d": 1, "é": True, "new\nline": 0.5, "": ""})
    add("closed and empty", {"type": "object", "additionalProperties": False}, {})
    add("patterns of names", {"type": "object", "patternProperties": {"^n_": NUMBER, "^t_": TEXT}}, {"n_a": 1, "t_b": "x"})
    add("patterns of names and others", {"type": "object", "patternProperties": {"^n_": NUMBER}, "additionalProperties": TEXT},
        {"n_a": 1, "b": "x"})
    add("listed names and patterns", {"type": "object", "properties": {"n_total": WHOLE}, "required": ["n_total"],
                                      "patternProperties": {"^n_": NUMBER}, "additionalProperties": FLAG},
        {"n_total": 3, "n_a": 1.5, "b": True})
    wide = {f"field_{i}": [TEXT, NUMBER, FLAG][i % 3] for i in range(40)}
    add("40 members", record(wide), {name: ["x", 1.5, True][i % 3] for i, name in enumerate(wide)})
    add("40 optional members", record(wide, []), {"field_7": 2})
    add("objects without a type", {"properties": {"a": WHOLE}, "required": ["a"]}, {"a": 1})
    deep = TEXT
    answer = "x"
    for level in range(8):
        deep, answer = record({f"level_{level}": deep}), {f"level_{level}": answer}
    add("eight levels", deep, answer)


def combined():
    circle = record({"kind": {"const": "circle"}, "r": NUMBER})
    box = record({"kind": {"const": "box"}, "w": NUMBER, "h": NUMBER})
    add("anyOf records", {"anyOf": [circle, box]}, {"kind": "box", "w": 1, "h": 2.5})
    add("oneOf records", {"oneOf": [circle, box]}, {"kind": "circle", "r": 1})
    add("oneOf types", {"oneOf": [TEXT, WHOLE, {"type": "null"}]}, None)
    add("anyOf with bounds", {"anyOf": [{"type": "integer", "minimum": 100}, {"type": "string", "maxLength": 3}]}, 100)
    add("allOf bounds", {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 9}]}, 5)
    add("allOf records", {"allOf": [record({"a": TEXT}, closed=False), record({"b": WHOLE}, closed=False)]}, {"a": "x", "b": 1})
    add("allOf patterns", {"type": "string", "allOf": [{"pattern": "^[a-c]+$"}, {"pattern": "^.{3}$"}]}, "abc")
    add("siblings of anyOf", {"type": "object", "properties": {"id": WHOLE}, "required": ["id"],
                              "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"id": 1, "b": 2})
    add("optional by null", record({"note": {"anyOf": [TEXT, {"type": "null"}]}}), {"note": None})
    add("nested anyOf", {"anyOf": [{"anyOf": [TEXT, FLAG]}, {"type": "array", "items": {"anyOf": [TEXT, WHOLE]}}]}, ["a", 1])
    add("anyOf with false", {"anyOf": [False, WHOLE]}, 1)
    shapes = [record({"type": {"const": name}, "at": {"type": "array", "items": NUMBER, "minItems": size, "maxItems": size}})
              for name, size in [("point", 2), ("line", 4), ("triangle", 6)]]
    add("list of three shapes", {"type": "array", "items": {"oneOf": shapes}, "minItems": 1, "maxItems": 4},
        [{"type": "line", "at": [0, 1, 2, 3]}])


def references():
    address = record({"street": TEXT, "city": TEXT, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}})
    good = {"street": "Main St 1", "city": "Springfield", "zip": "12345"}
    for word in ["$defs", "definitions"]:
        add(f"two addresses in {word}", {word: {"address": address}, "type": "object", "required": ["bill", "ship"],
            "properties": {"bill": {"$ref": f"#/{word}/address"}, "ship": {"$ref": f"#/{word}/address"}},
            "additionalProperties": False}, {"bill": good, "ship": good})
    tree = {"$defs": {"node": record({"value": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}})},
            "$ref": "#/$defs/node"}
    add("tree", tree, {"value": "a", "children": [{"value": "b", "children": []}]})
    add("list by reference to the root", {"type": "object", "properties": {"head": WHOLE, "tail": {"$ref": "#"}},
        "required": ["head"], "additionalProperties": False}, {"head": 1, "tail": {"head": 2}})
    expression = {"$defs": {"e": {"anyOf": [NUMBER, record({"op": {"enum": ["+", "*"]}, "left": {"$ref": "#/$defs/e"},
                  "right": {"$ref": "#/$defs/e"}})]}}, "$ref": "#/$defs/e"}
    add("expression", expression, {"op": "+", "left": 1, "right": {"op": "*", "left": 2, "right": 3}})
    add("reference with a sibling", {"$defs": {"n": WHOLE}, "type": "object", "required": ["n"], "additionalProperties": False,
        "properties": {"n": {"$ref": "#/$defs/n", "minimum": 3, "description": "at least 3"}}}, {"n": 3})
    add("reference to a member", {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"$ref": "#/properties/a"}},
        "required": ["a", "b"], "additionalProperties": False}, {"a": "x", "b": "y"})
    add("references in a chain", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": FLAG},
        "type": "array", "items": {"$ref": "#/$defs/a"}, "maxItems": 3}, [True])
    add("dialect and name", {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/s", **record({"a": WHOLE})},
        {"a": 1})
    add("an older dialect", {"$schema": "http://json-schema.org/draft-07/schema#", **record({"a": WHOLE})}, {"a": 1})


def used():
    """Shapes that people use: extraction, classification, calls, plans, reports."""
    score = {"type": "number", "minimum": 0, "maximum": 1}
    add("sentiment", record({"sentiment": {"enum": ["positive", "negative", "neutral"]}, "confidence": score}),
        {"sentiment": "neutral", "confidence": 0.5})
    add("labels", record({"labels": {"type": "array", "items": {"enum": ["bug", "feature", "question"]}, "maxItems": 3}}), {"labels": ["bug"]})
    entity = record({"text": TEXT, "type": {"enum": ["person", "place", "date"]}, "start": {"type": "integer", "minimum": 0}})
    add("entities", record({"entities": {"type": "array", "items": entity, "maxItems": 5}}),
        {"entities": [{"text": "Ada", "type": "person", "start": 0}]})
    item = record({"sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}, "qty": {"type": "integer", "minimum": 1, "maximum": 99},
                   "price": {"type": "number", "minimum": 0}, "tags": {"type": "array", "items": TEXT, "maxItems": 2}}, ["sku", "qty", "price"])
    add("order", record({"items": {"type": "array", "minItems": 1, "maxItems": 4, "items": item}, "total": NUMBER, "express": FLAG}, ["items", "total"]),
        {"items": [{"sku": "ABC-1234", "qty": 2, "price": 19.99}], "total": 39.98})
    weather = record({"location": TEXT, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
                     ["location", "unit"])
    add("weather call", weather, {"location": "Oslo", "unit": "celsius"})
    add("one of three calls", {"anyOf": [record({"name": {"const": name}, "arguments": arguments}) for name, arguments in
        [("weather", weather), ("search", record({"query": TEXT, "limit": WHOLE}, ["query"])), ("stop", record({}))]]},
        {"name": "search", "arguments": {"query": "x"}})
    add("steps", record({"steps": {"type": "array", "items": record({"explanation": TEXT, "output": TEXT}), "maxItems": 4}, "final_answer": TEXT}),
        {"steps": [{"explanation": "a", "output": "b"}], "final_answer": "c"})
    add("event", record({"title": TEXT, "when": {"type": "string", "format": "date-time"}, "place": {"type": ["string", "null"]},
                         "guests": {"type": "array", "items": {"type": "string", "format": "email"}, "maxItems": 3}}, ["title", "when"]),
        {"title": "t", "when": "2026-11-23T21:00:00Z"})
    add("yes or no with a reason", record({"reason": {"type": "string", "maxLength": 60}, "answer": FLAG}), {"reason": "x", "answer": True})
    add("rating", record({"summary": {"type": "string", "minLength": 20, "maxLength": 120}, "rating": {"type": "integer", "minimum": 1, "maximum": 5}}),
        {"summary": "twenty characters or more", "rating": 4})
    add("settings", {"type": "object", "properties": {"theme": {"enum": ["light", "dark"]}, "size": {"type": "integer", "multipleOf": 2, "minimum": 8, "maximum": 32}},
        "additionalProperties": {"type": ["string", "number", "boolean"]}}, {"theme": "dark", "x": 1})
    add("geojson point", record({"type": {"const": "Point"}, "coordinates": {"type": "array", "prefixItems": [
        {"type": "number", "minimum": -180, "maximum": 180}, {"type": "number", "minimum": -90, "maximum": 90}], "items": False, "minItems": 2}}),
        {"type": "Point", "coordinates": [10.5, 59.9]})
    add("translation", {"type": "object", "required": ["de", "fr"], "properties": {code: TEXT for code in ["de", "fr", "es"]},
        "additionalProperties": False}, {"de": "Hallo", "fr": "Salut"})
    add("table", record({"columns": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3}, "rows": {"type": "array", "maxItems": 3,
        "items": {"type": "array", "items": {"type": ["string", "number", "null"]}, "maxItems": 3}}}), {"columns": ["a"], "rows": [[1], [None]]})
    add("judge", record({"winner": {"enum": ["A", "B", "tie"]}, "scores": record({"A": {"type": "integer", "minimum": 1, "maximum": 10},
        "B": {"type": "integer", "minimum": 1, "maximum": 10}})}), {"winner": "A", "scores": {"A": 9, "B": 7}})


def products():
    """Every pair of a leaf and a place for it, until there are 200."""
    leaves = [("text", {"type": "string", "maxLength": 12}, "x"), ("whole", {"type": "integer", "minimum": -5, "maximum": 500}, 3),
              ("date", {"type": "string", "format": "date"}, "2000-02-29"), ("choice", {"enum": ["p", "q", 7]}, 7),
              ("nullable", {"type": ["number", "null"]}, None), ("code", {"type": "string", "pattern": "^[A-F][0-9]{1,3}$"}, "B12")]
    places = [
        ("required", lambda leaf: record({"before": FLAG, "it": leaf}), lambda it: {"before": True, "it": it}),
        ("optional", lambda leaf: record({"it": leaf, "after": FLAG}, ["after"]), lambda it: {"it": it, "after": False}),
        ("item", lambda leaf: {"type": "array", "items": leaf, "minItems": 1, "maxItems": 3}, lambda it: [it, it]),
        ("second item", lambda leaf: {"type": "array", "prefixItems": [FLAG, leaf], "items": False, "minItems": 2}, lambda it: [True, it]),
        ("value of a map", lambda leaf: {"type": "object", "additionalProperties": leaf, "maxProperties": 2}, lambda it: {"k": it}),
        ("alternative", lambda leaf: {"anyOf": [record({"no": {"type": "null"}}), record({"yes": leaf})]}, lambda it: {"yes": it}),
        ("definition", lambda leaf: {"$defs": {"it": leaf}, "type": "array", "items": {"$ref": "#/$defs/it"}, "maxItems": 2}, lambda it: [it]),
        ("in two levels", lambda leaf: record({"outer": record({"inner": leaf})}), lambda it: {"outer": {"inner": it}}),
    ]
    for (leaf, schema, value), (place, of, answer) in itertools.product(leaves, places):
        if len(FOUND) == 200:
            return
        add(f"{leaf} as {place}", of(schema), answer(value))


for part in (types, numbers, strings, constants, arrays, objects, combined, references, used, products):
    part()
assert len(FOUND) == 200, len(FOUND)
assert len({one["name"] for one in FOUND}) == 200
OUT.parent.mkdir(parents=True, exist_ok=True)
OUT.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in FOUND))
