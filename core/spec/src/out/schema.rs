//! JSON Schema of a spec file, for editors: generated from the tables of the language and of the kinds.

use crate::kind::{Family, Field, FieldDefault, FieldType, Kind, Kinds, NameList, Table};
use crate::language::sections::{HF_CONFIG_TENSOR, HF_TENSOR, SITE, SPEC};
use crate::out::reference::only_role;
use serde_json::{Map, Value, json};

/// JSON Schema (draft 2020-12) of a spec file, with every kind's options.
pub fn json_schema(kinds: &Kinds) -> Value {
    let mut schema = Schema { kinds, definitions: Map::new() };
    let mut root = schema.object(&SPEC, &[]);
    // In a single file only these are required: a base can contain everything else.
    root.insert("required".into(), json!(["schema", "architecture"]));
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("title".into(), "An architecture spec of Menagerie".into());
    schema.shared();
    root.insert("$defs".into(), Value::Object(schema.definitions));
    Value::Object(root)
}

/// A schema under construction.
struct Schema<'k> {
    kinds: &'k Kinds,
    /// Named definitions.
    definitions: Map<String, Value>,
}

/// A reference to a definition: a JSON pointer in a URI fragment.
fn named(name: &str) -> Value {
    let escaped = name.replace('~', "~0").replace('/', "~1").replace(' ', "%20");
    json!({ "$ref": format!("#/$defs/{escaped}") })
}

/// One of several forms.
fn any_of(forms: impl IntoIterator<Item = Value>) -> Value {
    json!({ "anyOf": forms.into_iter().collect::<Vec<_>>() })
}

/// Sections that are never inherited: their required fields are required in each file.
const OWN: [&str; 4] = ["Architecture", "Provenance", "HfTensor", "HfConfigTensor"];

/// A table with any keys, whose values have the same form.
fn map_of(value: Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

/// A doc comment as one text.
pub(crate) fn plain(doc: &str) -> String {
    let lines: Vec<&str> = doc.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

impl Schema<'_> {
    /// Definitions that several fields share.
    fn shared(&mut self) {
        let expression =
            json!({ "type": "string", "description": "An expression over canonical keys and [let] names." });
        let number = any_of([json!({ "type": "number" }), named("expression")]);
        let by_source = |value: Value| {
            json!({
                "type": "object",
                "properties": { "gguf": value.clone(), "hf": value },
                "required": ["gguf", "hf"],
                "additionalProperties": false,
            })
        };
        let per_source = by_source(number.clone());
        let literal = json!({ "type": ["string", "number", "boolean", "array"] });
        let shared = [
            ("expression", expression),
            ("number", any_of([number, per_source])),
            ("boolean", any_of([json!({ "type": "boolean" }), named("expression")])),
            (
                "role",
                json!({ "type": "string", "description": "A GGUF tensor name without `blk.N.` and suffix." }),
            ),
            ("literal", literal),
        ];
        for (name, definition) in shared {
            self.definitions.insert(name.into(), definition);
        }
    }

    /// A table, with additional properties.
    fn object(&mut self, table: &'static Table, more: &[(&str, Value)]) -> Map<String, Value> {
        let mut properties = Map::new();
        for (name, value) in more {
            properties.insert((*name).into(), value.clone());
        }
        for field in table.fields {
            match field.ty {
                FieldType::NormHere => self.norm_properties(&mut properties),
                _ => drop(properties.insert(field.name.into(), self.field(field))),
            }
        }
        let mut object = Map::new();
        object.insert("type".into(), "object".into());
        object.insert("description".into(), plain(table.doc).into());
        object.insert("properties".into(), Value::Object(properties));
        object.insert("additionalProperties".into(), false.into());
        object
    }

    /// A field: its form, with description and default.
    fn field(&mut self, field: &'static Field) -> Value {
        let mut value = self.form(&field.ty);
        let Value::Object(object) = &mut value else { return value };
        let (default, said) = match field.default {
            FieldDefault::Number(number) => (Some(json!(number)), String::new()),
            FieldDefault::Name(name) => (Some(json!(name)), String::new()),
            FieldDefault::Key(key) => (None, format!(" Default: the key `{key}`.")),
            FieldDefault::KeyOr(key, number) => (None, format!(" Default: the key `{key}`, or {number}.")),
            FieldDefault::Computed { how, .. } => (None, format!(" Default: `{how}`.")),
            FieldDefault::Required => (None, " Required.".to_string()),
            FieldDefault::RequiredUnless { field, is, why } => {
                (None, format!(" Required unless `{field} = \"{is}\"`: {why}."))
            }
            FieldDefault::Absent | FieldDefault::Fields | FieldDefault::Listed => (None, String::new()),
        };
        // A child spec omits fields of its base, so no fields are required.
        object.insert("description".into(), format!("{}{said}", plain(field.doc)).into());
        if let Some(default) = default {
            object.insert("default".into(), default);
        }
        value
    }

    /// The form of a field's value.
    fn form(&mut self, ty: &'static FieldType) -> Value {
        match ty {
            FieldType::Count | FieldType::Real => named("number"),
            FieldType::Bool => named("boolean"),
            FieldType::Name(list) => self.name(list),
            FieldType::NameOrKind(list, family) => {
                let forms = [self.name(list), component_name(), self.component(*family)];
                any_of(forms)
            }
            FieldType::Names(list) => {
                let name = self.plain_name(list);
                json!({ "type": "array", "items": name })
            }
            FieldType::OneOrMore(list) => {
                let name = self.plain_name(list);
                any_of([name.clone(), json!({ "type": "array", "items": name })])
            }
            FieldType::Role => named("role"),
            FieldType::Roles => any_of([named("role"), json!({ "type": "array", "items": named("role") })]),
            FieldType::Table(table) => self.table(table, false),
            FieldType::Optional(table) => {
                let one = self.table(table, true);
                let role = only_role(table).then(|| named("role"));
                any_of([one.clone(), map_of(one)].into_iter().chain(role))
            }
            FieldType::OneOrEach(table) => self.one_or_each(table),
            FieldType::Component(family) => self.component(*family),
            FieldType::NormSite => self.site(),
            FieldType::NormHere | FieldType::NotBuiltIn => json!({}),
            FieldType::Text => text(),
            FieldType::Texts => texts(),
            FieldType::Literal(value) => json!({ "const": value }),
            FieldType::TextTable | FieldType::Reasons | FieldType::Checks => map_of(text()),
            FieldType::Expressions => map_of(any_of([json!({ "type": "number" }), named("expression")])),
            FieldType::Values | FieldType::ConfigValues => map_of(named("literal")),
            FieldType::Classes(table) => {
                let class = self.table(table, false);
                any_of([texts(), map_of(class)])
            }
            FieldType::HfTensors => self.hf_tensors(),
            FieldType::HfTimes => {
                let pair =
                    json!({ "type": "array", "items": named("literal"), "minItems": 2, "maxItems": 2 });
                map_of(any_of([named("literal"), json!({ "type": "array", "items": pair })]))
            }
        }
    }

    /// A table by reference.
    fn table(&mut self, table: &'static Table, with_when: bool) -> Value {
        let title = table.shown();
        if !self.definitions.contains_key(title) {
            // Reserved first, so that definitions are in the order of first use.
            self.definitions.insert(title.into(), Value::Null);
            let when = json!({ "$ref": "#/$defs/boolean", "description": "The layers that have it." });
            let more: &[(&str, Value)] = if with_when { &[("when", when)] } else { &[] };
            let mut object = self.object(table, more);
            if OWN.contains(&title) {
                let required = table.fields.iter().filter(|field| field.default == FieldDefault::Required);
                object.insert("required".into(), required.map(|field| field.name).collect());
            }
            self.definitions.insert(title.into(), Value::Object(object));
        }
        named(title)
    }

    /// A closed list, one name.
    fn plain_name(&mut self, list: &'static NameList) -> Value {
        if !self.definitions.contains_key(list.title) {
            let alone = list.names.iter().filter(|name| name.numbers.is_none());
            let forms: Vec<Value> =
                alone.map(|name| json!({ "const": name.name, "description": plain(name.doc) })).collect();
            self.definitions
                .insert(list.title.into(), json!({ "oneOf": forms, "description": plain(list.doc) }));
        }
        named(list.title)
    }

    /// The value of a field with names: a name, a name per source, a choice, or a name with numbers.
    fn name(&mut self, list: &'static NameList) -> Value {
        let name = self.plain_name(list);
        let place = format!("{}-place", list.title);
        if self.definitions.contains_key(&place) {
            return named(&place);
        }
        let mut forms = vec![
            name.clone(),
            json!({
                "type": "object",
                "properties": { "gguf": name.clone(), "hf": name.clone() },
                "required": ["gguf", "hf"],
                "additionalProperties": false,
            }),
            json!({
                "type": "object",
                "properties": { "by": { "$ref": "#/$defs/expression", "description": "What decides." } },
                "required": ["by"],
                "additionalProperties": name,
            }),
        ];
        for name in list.names {
            let Some(numbers) = name.numbers else { continue };
            let kind = json!({ "const": name.name, "description": plain(name.doc) });
            let mut object = self.object(numbers, &[("kind", kind)]);
            let fields = numbers.fields.iter().filter(|field| field.default == FieldDefault::Required);
            let required: Vec<&str> = ["kind"].into_iter().chain(fields.map(|field| field.name)).collect();
            object.insert("required".into(), json!(required));
            forms.push(Value::Object(object));
        }
        self.definitions.insert(place.clone(), any_of(forms));
        named(&place)
    }

    fn one_or_each(&mut self, table: &'static Table) -> Value {
        let each = self.table(table, false);
        let list = table.fields.iter().find_map(|field| match field.ty {
            FieldType::Name(list) => Some(list),
            _ => None,
        });
        match list {
            Some(list) => {
                let one = self.name(list);
                any_of([one, each])
            }
            None => each,
        }
    }

    /// A component: the table of one of the family's kinds, or cases. A child spec may omit `kind`.
    fn component(&mut self, family: Family) -> Value {
        let whole = any_of([named(family.name()), map_of(named(family.name()))]);
        if family != Family::Norm {
            // A component may contain another one of its family, whose definition is then incomplete.
            if self.definitions.contains_key(family.name()) {
                return whole;
            }
            self.definitions.insert(family.name().into(), Value::Null);
        }
        let kinds: Vec<&'static Kind> = self.kinds.of(family).collect();
        let mut forms = Vec::new();
        if kinds.is_empty() {
            let kind = component_name();
            forms.push(json!({ "type": "object", "properties": { "kind": kind }, "required": ["kind"] }));
        }
        for kind in kinds {
            let title = format!("{}-{}", family.name(), kind.name);
            let named_kind = json!({ "const": kind.name, "description": plain(kind.doc) });
            let when = json!({ "$ref": "#/$defs/boolean", "description": "The layers that have this case." });
            let more: &[(&str, Value)] = if family == Family::Norm {
                &[("kind", named_kind)]
            } else {
                &[("kind", named_kind), ("when", when)]
            };
            let mut object = self.object(kind.options, more);
            object.insert("description".into(), plain(kind.doc).into());
            self.definitions.insert(title.clone(), Value::Object(object));
            forms.push(named(&title));
        }
        if family == Family::Norm {
            return any_of(forms);
        }
        self.definitions.insert(family.name().into(), any_of(forms));
        whole
    }

    /// The options of all norms, for fields of norms of any kind.
    fn norm_properties(&mut self, properties: &mut Map<String, Value>) {
        let kinds: Vec<&'static Kind> = self.kinds.of(Family::Norm).collect();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        properties.insert(
            "kind".into(),
            json!({ "enum": names, "description": "Kind of the norm; default: that of [norm]." }),
        );
        for field in kinds.iter().flat_map(|kind| kind.options.fields) {
            let mut value = self.form(&field.ty);
            value["description"] = format!("{} Default: as in [norm].", plain(field.doc)).into();
            properties.entry(field.name).or_insert(value);
        }
    }

    fn site(&mut self) -> Value {
        let table = self.table(&SITE, false);
        any_of([named("role"), json!({ "type": "array", "items": named("role") }), table])
    }

    fn hf_tensors(&mut self) -> Value {
        let tensor = self.table(&HF_TENSOR, false);
        let config = self.table(&HF_CONFIG_TENSOR, false);
        let one = any_of([text(), tensor, config]);
        map_of(any_of([one.clone(), json!({ "type": "array", "items": one })]))
    }
}

/// The name of a component from another crate or a plugin.
fn component_name() -> Value {
    json!({ "type": "string", "pattern": ":", "description": "A component, `author/name:component`." })
}

#[cfg(test)]
mod tests;
