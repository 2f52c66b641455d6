//! Expressions: minijinja's grammar and evaluation, restricted to a list of allowed functions and operators.
//!
//! The text is read twice: here, to refuse everything that is not allowed and to collect the names in it (so that the
//! *read* keys are determined by the text), and by minijinja, which compiles and evaluates it.

pub(crate) use shape::Shape;
pub(crate) use value::{as_answer, as_bool, as_count, as_number};

use menagerie_entries::{nearest, nearest_clause};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, OnceLock};

/// Maximum number of characters of an expression.
const MOST_CHARACTERS: usize = 4096;

/// Maximum number of parts of a dotted name; keys with more parts cannot be used in expressions.
pub(crate) const MOST_PARTS: usize = 16;

/// Maximum number of names, numbers and operators of an expression. It limits the cost of reading and evaluating one,
/// because an expression has no loops.
const MOST_TOKENS: usize = 500;

/// Functions allowed in an expression.
pub(crate) const FUNCTIONS: [&str; 8] = ["sqrt", "ln", "pow", "floor", "min", "max", "has", "pattern"];

/// Additional functions allowed in an expression over names of a config: for lists and strings.
pub(crate) const LIST_FUNCTIONS: [&str; 2] = ["leading", "contains"];

/// Operators allowed in an expression.
pub(crate) const OPERATORS: [&str; 15] =
    ["//", "**", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")"];

/// Words that are not names.
const WORDS: [&str; 8] = ["and", "or", "not", "if", "else", "is", "true", "false"];

/// The names that an expression can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameScope {
    /// Canonical keys and `[let]` names.
    Keys,
    /// Names of an HF config; lists, tables and indexing are allowed.
    Config,
}

/// A checked and compiled expression.
pub(crate) struct Expression {
    /// As written.
    pub(crate) text: String,
    /// The names in it, without functions and words.
    pub(crate) names: Vec<MentionedName>,
    /// Roles in calls of `has`.
    pub(crate) roles: Vec<String>,
    /// Keys in calls of `pattern`.
    pub(crate) patterns: Vec<String>,
    /// Whether it uses `layer`.
    pub(crate) layer: bool,
    /// The parts that can be its value, computed on first use.
    shape: OnceLock<Shape>,
    compiled: minijinja::Expression<'static, 'static>,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.text)
    }
}

/// A name in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MentionedName {
    /// Dotted name.
    pub(crate) name: String,
    /// Whether `| default(..)` or `is defined` follows, so that a missing name is not a fault.
    pub(crate) optional: bool,
}

impl Expression {
    /// Checks and compiles an expression.
    ///
    /// # Errors
    /// What is wrong, with the sub-expression.
    pub(crate) fn parse(text: &str, scope: NameScope) -> Result<Expression, String> {
        if text.len() > MOST_CHARACTERS {
            let start: String = text.chars().take(40).collect();
            return Err(format!(
                "`{start}...` has {} characters; at most {MOST_CHARACTERS} are allowed: name its parts in [let]",
                text.len()
            ));
        }
        let mut reader = ExpressionReader { tokens: tokens(text, scope)?, at: 0, scope };
        let mut found = Mentions { text: text.to_string(), ..Mentions::default() };
        reader.read(&mut found)?;
        let compiled = ENVIRONMENT.compile_expression_owned(found.text.clone());
        let compiled = compiled.map_err(|error| explain(&error, text))?;
        let Mentions { text, names, roles, patterns, layer } = found;
        Ok(Expression { text, names, roles, patterns, layer, shape: OnceLock::new(), compiled })
    }

    /// The parts that can be its value; for an expression over canonical keys.
    pub(crate) fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| Shape::of(&self.text))
    }

    /// Its value; `root` provides the names, and the functions `has` and `pattern`.
    ///
    /// # Errors
    /// The error of minijinja.
    pub(crate) fn evaluate(&self, root: Value) -> Result<Value, Error> {
        self.compiled.eval(root)
    }

    /// Its value if it uses no key, name, role or layer, so that it is the same for every file.
    pub(crate) fn constant(&self) -> Option<Result<Value, String>> {
        if self.layer || !self.roles.is_empty() || self.mentions().next().is_some() {
            return None;
        }
        let value = self.evaluate(Value::from(BTreeMap::<String, Value>::new()));
        Some(match value {
            Ok(value) if value.is_undefined() => Err(format!("`{}` has no value", self.text)),
            Ok(value) => Ok(value),
            Err(error) => Err(explain(&error, &self.text)),
        })
    }

    /// Every canonical key (or `[let]` name) in it.
    pub(crate) fn mentions(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|used| used.name.as_str()).chain(self.patterns.iter().map(String::as_str))
    }
}

/// The names in an expression.
#[derive(Default)]
struct Mentions {
    text: String,
    names: Vec<MentionedName>,
    roles: Vec<String>,
    patterns: Vec<String>,
    layer: bool,
}

/// Everything that an expression can use; `has` and `pattern` are part of an evaluation's context.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(environment);

fn environment() -> Environment<'static> {
    let mut env = Environment::empty();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.add_filter("default", |value: Value, other: Value| if value.is_undefined() { other } else { value });
    env.add_test("defined", |value: &Value| !value.is_undefined());
    env.add_function("sqrt", |x: f64| real(x.sqrt(), "sqrt"));
    env.add_function("ln", |x: f64| real(libm::log(x), "ln"));
    env.add_function("pow", |x: f64, y: f64| real(libm::pow(x, y), "pow"));
    env.add_function("floor", |x: f64| x.floor());
    env.add_function("min", |a: f64, b: f64| a.min(b));
    env.add_function("max", |a: f64, b: f64| a.max(b));
    env.add_function("leading", leading);
    env.add_function("contains", contains);
    env
}

/// The number of leading elements of a list that equal the value.
fn leading(list: &Value, value: &Value) -> Result<usize, Error> {
    Ok(list.try_iter()?.take_while(|element| element == value).count())
}

/// Whether the value is an element of a list, or a substring of a string.
fn contains(list: &Value, value: &Value) -> Result<bool, Error> {
    match (list.as_str(), value.as_str()) {
        (Some(text), Some(part)) => Ok(text.contains(part)),
        _ => Ok(list.try_iter()?.any(|element| element == *value)),
    }
}

fn real(value: f64, name: &str) -> Result<f64, Error> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(Error::new(ErrorKind::InvalidOperation, format!("{name} has no value here")))
}

/// The error of minijinja, with the part of the expression that it concerns.
pub(crate) fn explain(error: &Error, text: &str) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    match error.range().and_then(|range| text.get(range)) {
        Some(part) if !part.trim().is_empty() && part.trim() != text.trim() => {
            format!("`{part}` in `{text}`: {what}")
        }
        _ => format!("`{text}`: {what}"),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Lexeme {
    Name(String),
    Text(String),
    Number,
    Sign(&'static str),
}

fn tokens(text: &str, scope: NameScope) -> Result<Vec<Lexeme>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_alphabetic() || first == '_' {
            let length = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
                .unwrap_or(rest.len());
            found.push(Lexeme::Name(name(&rest[..length], text)?));
            length
        } else if first.is_ascii_digit() {
            found.push(Lexeme::Number);
            number(rest, text)?
        } else if first == '\'' || first == '"' {
            let end = rest[1..].find(first).ok_or_else(|| format!("`{text}`: a string is not closed"))?;
            let inner = &rest[1..=end];
            if inner.contains('\\') {
                return Err(format!("`{text}`: escapes are not allowed in strings"));
            }
            found.push(Lexeme::Text(inner.to_string()));
            end + 2
        } else {
            let sign = sign(rest, scope).ok_or_else(|| refuse_sign(first, text, scope))?;
            found.push(Lexeme::Sign(sign));
            sign.len()
        };
        if found.len() > MOST_TOKENS {
            return Err(format!(
                "`{}...` has more than {MOST_TOKENS} names, numbers and signs: name its parts in [let]",
                text.chars().take(40).collect::<String>()
            ));
        }
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

fn name(word: &str, text: &str) -> Result<String, String> {
    let bad = word.split('.').any(|part| part.is_empty() || part.starts_with(|c: char| c.is_ascii_digit()));
    if bad || word.matches('.').count() >= MOST_PARTS {
        return Err(format!("`{text}`: `{word}` is not a name"));
    }
    Ok(word.to_string())
}

fn number(rest: &str, text: &str) -> Result<usize, String> {
    let bytes = rest.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let byte = bytes[end];
        let exponent_sign = matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || exponent_sign) {
            break;
        }
        end += 1;
    }
    match rest[..end].parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(end),
        _ => Err(format!("`{text}`: `{}` is not a number", &rest[..end])),
    }
}

fn sign(rest: &str, scope: NameScope) -> Option<&'static str> {
    const MORE: [&str; 3] = ["|", ",", "="];
    const CONFIG: [&str; 5] = ["[", "]", "{", "}", ":"];
    let allowed =
        OPERATORS.iter().chain(&MORE).chain(if scope == NameScope::Config { &CONFIG[..] } else { &[] });
    allowed.copied().find(|sign| rest.starts_with(sign))
}

fn refuse_sign(found: char, text: &str, scope: NameScope) -> String {
    let lists = if scope == NameScope::Keys { "" } else { " [ ] { }" };
    format!(
        "`{text}`: `{found}` may not be used; operators are + - * / // % ** == != < <= > >= and or not, `a if c else b`, \
         `is defined`, `| default(x)`, ( ){lists}"
    )
}

struct ExpressionReader {
    tokens: Vec<Lexeme>,
    at: usize,
    scope: NameScope,
}

impl ExpressionReader {
    fn peek(&self, ahead: usize) -> Option<&Lexeme> {
        self.tokens.get(self.at + ahead)
    }

    fn is_sign(&self, ahead: usize, sign: &str) -> bool {
        matches!(self.peek(ahead), Some(Lexeme::Sign(found)) if *found == sign)
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek(ahead), Some(Lexeme::Name(found)) if found == word)
    }

    fn read(&mut self, into: &mut Mentions) -> Result<(), String> {
        if self.tokens.is_empty() {
            return Err("an empty expression".into());
        }
        while let Some(token) = self.peek(0).cloned() {
            match token {
                Lexeme::Name(name) => self.name(&name, into)?,
                Lexeme::Sign("|") => self.filter(&into.text)?,
                Lexeme::Sign("-") => self.minus(&into.text)?,
                Lexeme::Sign("=") => {
                    return Err(format!("`{}`: `=` may not be used; did you mean `==`?", into.text));
                }
                _ => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    fn name(&mut self, name: &str, into: &mut Mentions) -> Result<(), String> {
        if name == "is" {
            let negated = usize::from(self.is_word(1, "not"));
            if !self.is_word(1 + negated, "defined") {
                return Err(format!("`{}`: after `is` only `defined` or `not defined` may stand", into.text));
            }
            self.at += 1 + negated;
            return Ok(());
        }
        if self.is_sign(1, "(") && !WORDS.contains(&name) {
            return self.call(name, into);
        }
        if name == "in" || matches!(name, "True" | "False" | "none" | "None") {
            return Err(format!(
                "`{}`: `{name}` may not be used; the booleans are `true` and `false`",
                into.text
            ));
        }
        if WORDS.contains(&name) {
            return Ok(());
        }
        if name == "layer" {
            into.layer = true;
        } else {
            let optional = self.is_sign(1, "|") || self.is_word(1, "is");
            into.names.push(MentionedName { name: name.to_string(), optional });
        }
        Ok(())
    }

    fn call(&mut self, name: &str, into: &mut Mentions) -> Result<(), String> {
        let of_keys = |name: &&str| self.scope == NameScope::Keys || !matches!(*name, "has" | "pattern");
        let more: &[&str] = if self.scope == NameScope::Config { &LIST_FUNCTIONS } else { &[] };
        let known: Vec<&str> = FUNCTIONS.into_iter().filter(of_keys).chain(more.iter().copied()).collect();
        if !known.contains(&name) {
            let help = nearest_clause(nearest(name, known.iter().copied()));
            let text = &into.text;
            return Err(format!(
                "`{text}`: unknown function `{name}`{help}; functions are {}",
                known.join(", ")
            ));
        }
        if LIST_FUNCTIONS.contains(&name) {
            return Ok(());
        }
        if !matches!(name, "has" | "pattern") {
            return match self.peek(2) {
                Some(Lexeme::Text(given)) => {
                    Err(format!("`{}`: {name} takes numbers; '{given}' in quotes is a string", into.text))
                }
                _ => Ok(()),
            };
        }
        let Some(Lexeme::Text(argument)) = self.peek(2).cloned() else {
            return Err(format!(
                "`{}`: {name} takes a name in quotes, e.g. {name}('attn_q_norm')",
                into.text
            ));
        };
        self.at += 2;
        if name == "has" {
            if !self.is_sign(1, ")") {
                return Err(format!("`{}`: has takes one role", into.text));
            }
            into.roles.push(argument);
        } else {
            into.patterns.push(argument);
            into.layer = true;
            self.pattern_option(&into.text)?;
        }
        Ok(())
    }

    /// `full='last'` inside a `pattern` call: checked and removed.
    fn pattern_option(&mut self, text: &str) -> Result<(), String> {
        let mut ahead = 1;
        while self.peek(ahead).is_some() && !self.is_sign(ahead, ")") {
            if self.is_sign(ahead, "=") {
                let named = self.is_word(ahead - 1, "full");
                let value = self.peek(ahead + 1);
                let value = matches!(value, Some(Lexeme::Text(text)) if text == "last" || text == "first");
                if !(named && value) {
                    return Err(format!("`{text}`: pattern takes full='last' or full='first'"));
                }
                self.tokens.drain(self.at + ahead - 1..self.at + ahead + 2);
                return Ok(());
            }
            ahead += 1;
        }
        Ok(())
    }

    fn filter(&mut self, text: &str) -> Result<(), String> {
        match self.peek(1) {
            Some(Lexeme::Name(name))
                if name == "default" && self.is_sign(2, "(") && !self.is_sign(3, ")") =>
            {
                self.at += 2;
                Ok(())
            }
            Some(Lexeme::Name(name)) if name == "default" => {
                Err(format!("`{text}`: default takes a value: `| default(0)`"))
            }
            Some(Lexeme::Name(name)) => {
                Err(format!("`{text}`: unknown filter `{name}`; the only one is default(x)"))
            }
            _ => Err(format!("`{text}`: expected a filter after `|`; the only one is default(x)")),
        }
    }

    /// Unary minus binds tighter than `**`: `-2 ** 2` is 4. It is refused, because this is easily misread.
    fn minus(&self, text: &str) -> Result<(), String> {
        let unary = match self.at.checked_sub(1).and_then(|before| self.tokens.get(before)) {
            None => true,
            Some(Lexeme::Sign(sign)) => *sign != ")" && *sign != "]",
            Some(Lexeme::Name(name)) => WORDS.contains(&name.as_str()) && name != "true" && name != "false",
            Some(_) => false,
        };
        if unary && self.is_sign(2, "**") {
            return Err(format!("`{text}`: `-x ** y` is (-x) ** y here; write `-(x ** y)` or `(-x) ** y`"));
        }
        Ok(())
    }
}

mod shape;
#[cfg(test)]
mod tests;
mod value;
