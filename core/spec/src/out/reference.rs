//! The reference page of the language, generated from its tables: every section, kind, option, tensor and key.

use crate::kind::{
    Family, Field, FieldDefault, FieldType, FreeSize, Kind, Kinds, NameDef, NameList, RoleDef, Table,
    TensorKind,
};
use crate::kinds::ends::{EMBEDDING, MODEL_SIZES, NEXTN, OUTPUT};
use crate::language::reads::{HINTS, STANDARD};
use crate::language::sections::{HF_CONFIG_TENSOR, HF_TENSOR, SITE, SPEC};
use crate::out::schema::plain;
use std::fmt::Write;

const HEAD: &str = "\
# Reference of the spec language

Generated from the tables of the kinds (`menagerie_spec::reference_page`) and kept equal by a test; the concepts are in
[README.md](README.md). A *number*, *count* or *boolean* may be written as an expression. **Bold** options must be written;
a wrong value of those marked *logits* shows only in the logits.
";

/// The page, as Markdown.
pub fn reference_page(kinds: &Kinds) -> String {
    let mut page = Page { text: HEAD.to_string(), tables: Vec::new(), lists: Vec::new() };
    page.section("The file", &SPEC);
    page.tables_met();
    for family in Family::ALL.into_iter().filter(|family| kinds.of(*family).next().is_some()) {
        page.line(&format!("\n## Kinds of {}", plural(family)));
        for kind in kinds.of(family) {
            page.kind(kind);
            page.tables_met();
        }
    }
    page.names_met();
    page.standard();
    page.text
}

fn plural(family: Family) -> &'static str {
    match family {
        Family::Mixer => "mixers",
        Family::FeedForward => "feed-forwards",
        Family::Norm => "norms",
        Family::Activation => "activations",
        Family::Rope => "ropes",
    }
}

/// A page under construction.
struct Page {
    text: String,
    /// Tables that were mentioned, described or not.
    tables: Vec<(&'static Table, bool)>,
    /// Lists of names that were mentioned.
    lists: Vec<&'static NameList>,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn section(&mut self, heading: &str, table: &'static Table) {
        self.line(&format!("\n## {heading}\n\n{}", plain(table.doc)));
        self.fields(table);
    }

    /// Tables that were mentioned and are not described yet.
    fn tables_met(&mut self) {
        while let Some(index) = self.tables.iter().position(|(_, said)| !said) {
            self.tables[index].1 = true;
            let table = self.tables[index].0;
            self.line(&format!("\n### `{}`\n\n{}", table.shown(), plain(table.doc)));
            self.fields(table);
            match table.title {
                "EmbeddingOptions" => self.roles(&EMBEDDING, &MODEL_SIZES),
                "OutputOptions" => self.roles(&OUTPUT, &[]),
                "NextnOptions" => self.roles(&NEXTN, &[]),
                _ => {}
            }
        }
    }

    fn fields(&mut self, table: &'static Table) {
        if table.fields.is_empty() {
            return;
        }
        self.line("\n| option | value | default | meaning |\n|---|---|---|---|");
        for field in table.fields {
            if matches!(field.ty, FieldType::NormHere) {
                self.line("| `kind`, and the options of its kind | | those of `[norm]` | Options that differ from `[norm]`. |");
                continue;
            }
            let name = match field.default {
                FieldDefault::Required | FieldDefault::RequiredUnless { .. } => {
                    format!("**`{}`**", field.name)
                }
                _ => format!("`{}`", field.name),
            };
            let value = self.value(&field.ty);
            let logits = if field.guarded { " *logits*" } else { "" };
            let row = format!("| {name} | {value} | {} | {}{logits} |", default(field), cell(field.doc));
            self.line(&row);
        }
    }

    /// The type of a field's value.
    fn value(&mut self, ty: &'static FieldType) -> String {
        match ty {
            FieldType::Count => "count".into(),
            FieldType::Real => "number".into(),
            FieldType::Bool => "boolean".into(),
            FieldType::Name(list) => self.names(list),
            FieldType::NameOrKind(list, family) => {
                format!("{}, or {} of a component", self.names(list), family.name())
            }
            FieldType::Names(list) => format!("list of {}", self.names(list)),
            FieldType::OneOrMore(list) => format!("one or a list of {}", self.names(list)),
            FieldType::Role => "role".into(),
            FieldType::Roles => "role, or list of roles".into(),
            FieldType::Table(table) if table.fields.is_empty() => "empty table".into(),
            FieldType::Table(table) => format!("table {}", self.mention(table)),
            FieldType::Optional(table) if only_role(table) => {
                format!("role, table {} with `when`, or cases", self.mention(table))
            }
            FieldType::Optional(table) => format!("table {} with `when`, or cases", self.mention(table)),
            FieldType::OneOrEach(table) => format!("one name for all, or table {}", self.mention(table)),
            FieldType::Component(Family::Norm) => "norm".into(),
            FieldType::Component(Family::Rope) => "rope of a component, or cases".into(),
            FieldType::Component(family) => format!("{}, or cases", family.name()),
            FieldType::NormSite => format!("role, roles, or table {}", self.mention(&SITE)),
            FieldType::NormHere => String::new(),
            FieldType::NotBuiltIn => "not built in".into(),
            FieldType::Text => "string".into(),
            FieldType::Texts => "list of strings".into(),
            FieldType::Literal(value) => format!("`{value}`"),
            FieldType::TextTable => "table of strings".into(),
            FieldType::Reasons => "table of globs and reasons".into(),
            FieldType::Expressions => "table of names and expressions".into(),
            FieldType::Checks => "table of expressions and messages".into(),
            FieldType::Values => "table of values".into(),
            FieldType::Classes(table) => format!("list of names, or table of {}", self.mention(table)),
            FieldType::ConfigValues => "table of keys and values or expressions".into(),
            FieldType::HfTimes => {
                "table of roles and a number or expression, or a list of `[rows, number]`".into()
            }
            FieldType::HfTensors => {
                let (tensor, config) = (self.mention(&HF_TENSOR), self.mention(&HF_CONFIG_TENSOR));
                format!("table of roles and names, lists of names, {tensor} or {config}")
            }
        }
    }

    fn mention(&mut self, table: &'static Table) -> String {
        if !self.tables.iter().any(|(known, _)| known.title == table.title) {
            self.tables.push((table, false));
        }
        format!("[`{}`](#{})", table.shown(), table.shown().to_lowercase())
    }

    fn names(&mut self, list: &'static NameList) -> String {
        if !self.lists.iter().any(|known| known.title == list.title) {
            self.lists.push(list);
        }
        let names: Vec<String> = list.all().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    }

    fn kind(&mut self, kind: &'static Kind) {
        let state = if kind.is_built_in() { "" } else { " (not built in)" };
        self.line(&format!("\n### {} `{}`{state}\n\n{}", kind.family.name(), kind.name, plain(kind.doc)));
        self.fields(kind.options);
        self.roles(kind.roles, kind.free);
        if !kind.reads.is_empty() {
            let keys: Vec<String> = kind.reads.iter().map(|key| format!("`{key}`")).collect();
            self.line(&format!("\nReads {}.", keys.join(", ")));
        }
    }

    fn roles(&mut self, roles: &[RoleDef], free: &[FreeSize]) {
        if roles.is_empty() {
            return;
        }
        self.line("\n| tensor | dims | bias | when | meaning |\n|---|---|---|---|---|");
        for role in roles {
            self.line(&role_row(role));
        }
        let free: Vec<String> = free
            .iter()
            .map(|size| format!("`{}`: {}", size.symbol, plain(size.doc).to_lowercase()))
            .collect();
        let free: Vec<&str> = free.iter().map(|text| text.trim_end_matches('.')).collect();
        if !free.is_empty() {
            self.line(&format!(
                "\nSeen from the shapes: {}. `D` is the width of the model.",
                free.join("; ")
            ));
        }
    }

    /// The meanings of the names of a list.
    fn names_met(&mut self) {
        self.line("\n## Names");
        for list in std::mem::take(&mut self.lists) {
            self.line(&format!("\n### {}\n", plain(list.doc).trim_end_matches('.')));
            for name in list.names {
                self.line(&format!("- `{}`: {}{}", name.name, plain(name.doc), numbers_of(name)));
            }
        }
    }

    fn standard(&mut self) {
        self.line("\n## Keys that every spec reads\n");
        let keys = STANDARD.iter().filter(|key| !HINTS.contains(key)).map(|key| format!("`{key}`"));
        let _ = writeln!(self.text, "{}.", keys.collect::<Vec<_>>().join(", "));
        let hints: Vec<String> = HINTS.iter().map(|key| format!("`{key}`")).collect();
        let _ = writeln!(
            self.text,
            "\nSizes that only hint, because the shapes of the tensors win: {}.",
            hints.join(", ")
        );
    }
}

/// Whether a table can be written as the role in its only field.
pub(crate) fn only_role(table: &Table) -> bool {
    matches!(table.fields, [Field { ty: FieldType::Role, .. }])
}

/// The form of a name with numbers.
fn numbers_of(name: &NameDef) -> String {
    let Some(numbers) = name.numbers else { return String::new() };
    let form: Vec<String> = numbers.fields.iter().map(|field| format!("{} = ..", field.name)).collect();
    let mut text = format!(" Written `{{ kind = \"{}\", {} }}`:", name.name, form.join(", "));
    for field in numbers.fields {
        let _ = write!(text, " `{}`: {}", field.name, plain(field.doc));
    }
    text
}

fn role_row(role: &RoleDef) -> String {
    let name = match (role.name, role.tensor) {
        ("", TensorKind::Bias) => "`.bias` of the site".to_string(),
        ("", _) => "the site's role".to_string(),
        (name, TensorKind::Bias) => format!("`{name}.bias`"),
        (name, _) => format!("`{name}`"),
    };
    let dims: Vec<String> = role.dims.iter().map(|dim| cell(dim)).collect();
    let mut when = Vec::new();
    when.extend(role.when.map(str::to_string));
    when.extend(role.given_by.map(|option| format!("{option} given")));
    when.extend(role.form.map(|(group, form)| format!("{group}: {form}")));
    format!(
        "| {name} | `[{}]` | {} | {} | {} |",
        dims.join(", "),
        role.bias.unwrap_or(""),
        when.join("; "),
        cell(role.doc)
    )
}

fn default(field: &Field) -> String {
    match field.default {
        FieldDefault::Required | FieldDefault::Absent | FieldDefault::Listed => String::new(),
        FieldDefault::RequiredUnless { field, is, .. } => format!("only with `{field} = \"{is}\"`"),
        FieldDefault::Number(number) => number.to_string(),
        FieldDefault::Name(name) => format!("`{name}`"),
        FieldDefault::Key(key) => format!("`{key}`"),
        FieldDefault::KeyOr(key, number) => format!("`{key}`, or {number}"),
        FieldDefault::Computed { how, .. } => format!("`{how}`"),
        FieldDefault::Fields => "its own".into(),
    }
}

/// Text in a cell of a table: a bar would end the cell.
fn cell(text: &str) -> String {
    plain(text).replace('|', "\\|")
}
