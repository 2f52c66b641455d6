//! What a template is made of: every kind of expression, statement, filter, test, method, slice, mark and escape.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fancy_regex::{Captures, Regex};
use minijinja::machinery::{self, ast};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;

/// Constructs, and the template that has each: the lines `"construct" = "template"` of a TOML file.
pub(crate) fn listed(path: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut listed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('"').collect();
        let ["", construct, " = ", template, ""] = parts.as_slice() else { panic!("{line}") };
        let before = listed.insert((*construct).to_owned(), (*template).to_owned());
        assert!(before.is_none(), "{construct} is listed twice");
    }
    listed
}

/// The constructs of a template, by name.
pub(crate) fn of(source: &str) -> BTreeSet<String> {
    let mut walk = Walk::default();
    walk.written(source);
    // A mark for training, which minijinja does not know.
    let known = Regex::new(r"(\{%[-+]?\s*)(end)?generation\b").unwrap();
    let known = known.replace_all(source, |found: &Captures<'_>| {
        let tag = if found.get(2).is_some() { "endif" } else { "if true" };
        format!("{}{tag}", &found[1])
    });
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap();
    let tree = machinery::parse(&known, "template", syntax).unwrap();
    walk.macros(&tree);
    walk.statement(&tree);
    walk.found
}

#[derive(Default)]
struct Walk<'s> {
    found: BTreeSet<String>,
    macros: BTreeSet<&'s str>,
}

impl Walk<'_> {
    fn add(&mut self, construct: impl Into<String>) {
        self.found.insert(construct.into());
    }

    /// What the tree does not show: marks, quotes, escapes and words.
    fn written(&mut self, source: &str) {
        let comment = Regex::new(r"(?s)\{#.*?#\}").unwrap();
        for found in comment.find_iter(source).map(|found| found.unwrap().as_str()) {
            let (start, end) = (found.as_bytes()[2] == b'-', found.as_bytes()[found.len() - 3] == b'-');
            self.add(format!(
                "comment {} {}",
                if start { "{#-" } else { "{#" },
                if end { "-#}" } else { "#}" }
            ));
        }
        let source = comment.replace_all(source, "");
        let text = r#""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"#;
        let tag = Regex::new(&format!(r#"(?s)\{{[%{{](?:{text}|[^"'])*?[%}}]\}}"#)).unwrap();
        let text = Regex::new(&format!("(?s){text}")).unwrap();
        for tag in tag.find_iter(&source).map(|found| found.unwrap().as_str()) {
            self.tag(tag, &text);
        }
    }

    fn tag(&mut self, tag: &str, text: &Regex) {
        let at = |place: usize| matches!(tag.as_bytes()[place], b'-' | b'+');
        self.add(format!("mark {}", &tag[..if at(2) { 3 } else { 2 }]));
        self.add(format!("mark {}", &tag[tag.len() - if at(tag.len() - 3) { 3 } else { 2 }..]));
        for found in text.find_iter(tag).map(|found| found.unwrap().as_str()) {
            self.add(if found.starts_with('"') { "quotes double" } else { "quotes single" });
            if found.contains('\n') {
                self.add("text over lines");
            }
            for escape in Regex::new(r"(?s)\\(.)").unwrap().captures_iter(found) {
                self.add(match &escape.unwrap()[1] {
                    "\"" => "escape double quote".to_owned(),
                    "'" => "escape single quote".to_owned(),
                    "\\" => "escape backslash".to_owned(),
                    other => format!("escape {other}"),
                });
            }
        }
        let bare = text.replace_all(tag, "");
        for word in Regex::new(r"\b(True|False|None|true|false|none)\b").unwrap().find_iter(&bare) {
            self.add(format!("word {}", word.unwrap().as_str()));
        }
        if let Some(name) =
            Regex::new(r"^\{%[-+]?\s*(elif|else|generation|raw)\b").unwrap().captures(tag).unwrap()
        {
            self.add(format!("tag {}", &name[1]));
        }
        if bare.contains('\n') {
            self.add("tag over lines");
        }
    }
}

/// Where a value comes from, in one word.
fn kind(expression: &ast::Expr<'_>) -> &'static str {
    match expression {
        ast::Expr::Const(constant) => match constant.value.kind() {
            ValueKind::String => "text",
            ValueKind::Bool => "bool",
            ValueKind::None => "none",
            _ => "number",
        },
        ast::Expr::Var(_) => "name",
        ast::Expr::Slice(_) => "slice",
        ast::Expr::GetItem(_) => "item",
        ast::Expr::GetAttr(_) => "attribute",
        ast::Expr::Filter(_) => "filter",
        ast::Expr::Test(_) => "test",
        ast::Expr::Call(_) => "call",
        ast::Expr::List(_) => "list",
        ast::Expr::Tuple(_) => "tuple",
        ast::Expr::Map(_) => "dict",
        ast::Expr::IfExpr(_) => "condition",
        ast::Expr::UnaryOp(unary) if matches!(unary.op, ast::UnaryOpKind::Neg) => "negative",
        ast::Expr::UnaryOp(_) | ast::Expr::BinOp(_) | ast::Expr::Compare(_) => "operation",
    }
}

fn operator(kind: ast::BinOpKind) -> &'static str {
    use ast::BinOpKind as Op;
    match kind {
        Op::Eq => "==",
        Op::Ne => "!=",
        Op::Lt => "<",
        Op::Lte => "<=",
        Op::Gt => ">",
        Op::Gte => ">=",
        Op::ScAnd => "and",
        Op::ScOr => "or",
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::Div => "/",
        Op::FloorDiv => "//",
        Op::Rem => "%",
        Op::Pow => "**",
        Op::Concat => "~",
        Op::In => "in",
    }
}

/// How many arguments by place, and the names of the others.
fn arguments(given: &[ast::CallArg<'_>]) -> String {
    let by_place = given.iter().filter(|argument| matches!(argument, ast::CallArg::Pos(_))).count();
    let mut names: Vec<&str> = given
        .iter()
        .filter_map(|argument| match argument {
            ast::CallArg::Kwarg(name, _) => Some(*name),
            _ => None,
        })
        .collect();
    names.sort_unstable();
    let names = names.into_iter().map(|name| format!(",{name}="));
    std::iter::once(by_place.to_string()).chain(names).collect()
}

/// The tree.
impl<'s> Walk<'s> {
    /// Notes the names of all macros.
    fn macros(&mut self, statement: &ast::Stmt<'s>) {
        if let ast::Stmt::Macro(made) = statement {
            self.macros.insert(made.name);
        }
        for inner in bodies(statement).into_iter().flatten() {
            self.macros(inner);
        }
    }

    fn statement(&mut self, statement: &ast::Stmt<'s>) {
        match statement {
            ast::Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            ast::Stmt::EmitRaw(raw) if !raw.raw.is_empty() => self.add("text outside tags"),
            ast::Stmt::ForLoop(each) => self.each(each),
            ast::Stmt::IfCond(condition) => self.expression(&condition.expr),
            ast::Stmt::WithBlock(with) => {
                self.add("with");
                with.assignments.iter().for_each(|(_, value)| self.expression(value));
            }
            ast::Stmt::Set(set) => {
                self.add(match &set.target {
                    ast::Expr::Var(_) => "set name",
                    ast::Expr::GetAttr(_) => "set namespace",
                    _ => "set pairs",
                });
                self.expression(&set.expr);
            }
            ast::Stmt::SetBlock(set) => {
                self.add(if set.filter.is_some() { "set block filtered" } else { "set block" });
                set.filter.iter().for_each(|filter| self.expression(filter));
            }
            ast::Stmt::FilterBlock(block) => {
                self.add("filter block");
                self.expression(&block.filter);
            }
            ast::Stmt::Macro(made) => self.made(made),
            ast::Stmt::CallBlock(block) => {
                self.add("call block");
                self.call(&block.call);
            }
            ast::Stmt::Continue(_) => self.add("continue"),
            ast::Stmt::Break(_) => self.add("break"),
            _ => {}
        }
        for inner in bodies(statement).into_iter().flatten() {
            self.statement(inner);
        }
    }

    fn each(&mut self, each: &ast::ForLoop<'s>) {
        let mut name =
            (if matches!(each.target, ast::Expr::Var(_)) { "for one" } else { "for pairs" }).to_owned();
        for (present, word) in [
            (each.filter_expr.is_some(), " if"),
            (!each.else_body.is_empty(), " else"),
            (each.recursive, " recursive"),
        ] {
            name.push_str(if present { word } else { "" });
        }
        self.add(name);
        self.add(format!("for over {}", kind(&each.iter)));
        self.expression(&each.iter);
        each.filter_expr.iter().for_each(|filter| self.expression(filter));
    }

    fn made(&mut self, made: &ast::Macro<'s>) {
        self.add(format!("macro({}, defaults {})", made.args.len(), made.defaults.len()));
        made.defaults.iter().for_each(|value| self.expression(value));
    }

    fn call(&mut self, call: &ast::Call<'s>) {
        let given = arguments(&call.args);
        match &call.expr {
            ast::Expr::GetAttr(method) => {
                self.add(format!("method {}({given})", method.name));
                self.expression(&method.expr);
            }
            ast::Expr::Var(name) if self.macros.contains(name.id) => {
                let by_place = given.split(',').next().unwrap_or_default();
                let named = if given.contains(',') { ",named" } else { "" };
                self.add(format!("macro call({by_place}{named})"));
            }
            ast::Expr::Var(name) if name.id == "namespace" => {
                self.add(if call.args.is_empty() { "namespace()" } else { "namespace(values)" });
            }
            ast::Expr::Var(name) => self.add(format!("call {}({given})", name.id)),
            other => {
                self.add(format!("call on {}", kind(other)));
                self.expression(other);
            }
        }
        self.values(&call.args);
    }

    fn values(&mut self, given: &[ast::CallArg<'s>]) {
        for argument in given {
            match argument {
                ast::CallArg::Pos(value)
                | ast::CallArg::Kwarg(_, value)
                | ast::CallArg::PosSplat(value)
                | ast::CallArg::KwargSplat(value) => self.expression(value),
            }
        }
    }

    fn expression(&mut self, expression: &ast::Expr<'s>) {
        match expression {
            ast::Expr::Var(_) => {}
            ast::Expr::Const(constant) => {
                let float = constant.value.kind() == ValueKind::Number && !constant.value.is_integer();
                self.add(format!("literal {}{}", kind(expression), if float { " float" } else { "" }));
            }
            ast::Expr::List(list) => self.literal("list", list.items.iter()),
            ast::Expr::Tuple(tuple) => self.literal("tuple", tuple.items.iter()),
            ast::Expr::Map(map) => self.literal("dict", map.keys.iter().chain(&map.values)),
            ast::Expr::Slice(slice) => self.slice(slice),
            ast::Expr::UnaryOp(unary) => {
                let negative = matches!(unary.op, ast::UnaryOpKind::Neg);
                self.add(if negative { "operator negative" } else { "operator not" });
                self.expression(&unary.expr);
            }
            ast::Expr::BinOp(binary) => {
                self.add(format!("operator {}", operator(binary.op)));
                self.expression(&binary.left);
                self.expression(&binary.right);
            }
            ast::Expr::Compare(compare) => {
                self.add("comparison chain");
                self.expression(&compare.expr);
            }
            ast::Expr::IfExpr(condition) => {
                self.add(if condition.false_expr.is_some() { "x if y else z" } else { "x if y" });
                let parts =
                    [&condition.test_expr, &condition.true_expr].into_iter().chain(&condition.false_expr);
                parts.for_each(|part| self.expression(part));
            }
            ast::Expr::Filter(filter) => {
                self.add(format!("filter {}({})", filter.name, arguments(&filter.args)));
                filter.expr.iter().for_each(|value| self.expression(value));
                self.values(&filter.args);
            }
            ast::Expr::Test(test) => {
                self.add(format!("test {}({})", test.name, test.args.len()));
                self.expression(&test.expr);
                self.values(&test.args);
            }
            ast::Expr::GetAttr(attribute) => self.attribute(attribute),
            ast::Expr::GetItem(item) => {
                self.add(format!("item [{}]", kind(&item.subscript_expr)));
                self.expression(&item.expr);
                self.expression(&item.subscript_expr);
            }
            ast::Expr::Call(call) => self.call(call),
        }
    }

    fn literal<'e>(&mut self, name: &str, items: impl Iterator<Item = &'e ast::Expr<'s>>)
    where
        's: 'e,
    {
        let mut empty = " empty";
        for item in items {
            empty = "";
            self.expression(item);
        }
        self.add(format!("literal {name}{empty}"));
    }

    fn slice(&mut self, slice: &ast::Slice<'s>) {
        let word = |part: &Option<ast::Expr<'s>>| part.as_ref().map_or("", kind);
        let (start, stop, step) = (word(&slice.start), word(&slice.stop), word(&slice.step));
        self.add(format!("slice [{start}:{stop}:{step}]"));
        let parts = slice.start.iter().chain(&slice.stop).chain(&slice.step);
        parts.chain([&slice.expr]).for_each(|part| self.expression(part));
    }

    fn attribute(&mut self, attribute: &ast::GetAttr<'s>) {
        self.add("attribute");
        match &attribute.expr {
            ast::Expr::Var(name) if name.id == "loop" => self.add(format!("loop.{}", attribute.name)),
            other => self.expression(other),
        }
    }
}

/// The statements inside a statement.
fn bodies<'t, 's>(statement: &'t ast::Stmt<'s>) -> [&'t [ast::Stmt<'s>]; 2] {
    match statement {
        ast::Stmt::Template(template) => [&template.children, &[]],
        ast::Stmt::ForLoop(each) => [&each.body, &each.else_body],
        ast::Stmt::IfCond(condition) => [&condition.true_body, &condition.false_body],
        ast::Stmt::WithBlock(with) => [&with.body, &[]],
        ast::Stmt::SetBlock(set) => [&set.body, &[]],
        ast::Stmt::FilterBlock(block) => [&block.body, &[]],
        ast::Stmt::Macro(made) => [&made.body, &[]],
        ast::Stmt::CallBlock(block) => [&block.macro_decl.body, &[]],
        _ => [&[], &[]],
    }
}
