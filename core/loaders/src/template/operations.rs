//! The operators, filters and methods of templates, each within the budget of the rendering.
//!
//! A result that can be many times larger than its input (`replace`, `join`, `*`) is charged before it is computed,
//! any other one afterwards.

use std::sync::{Arc, LazyLock};

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, Expression, State, UndefinedBehavior, Value};
use minijinja_contrib::pycompat;

use super::budget::{RenderBudget, refused};
use super::literal::holds_float;
use super::slicing::slice;

/// Filters that implement operators; templates cannot name them.
pub(super) const ADD: &str = "operator:+";
pub(super) const MULTIPLY: &str = "operator:*";
pub(super) const CONCATENATE: &str = "operator:~";
pub(super) const SLICE: &str = "operator:[]";
pub(super) const CONTAINS: &str = "operator:in";
pub(super) const CHECKED: &str = "operator:checked";
/// Comparisons and their symbols.
pub(super) const COMPARISONS: [(&str, &str); 6] = [
    ("operator:==", "=="),
    ("operator:!=", "!="),
    ("operator:<", "<"),
    ("operator:<=", "<="),
    ("operator:>", ">"),
    ("operator:>=", ">="),
];

/// minijinja's own filters; those that apply a filter or test by name are in `filters`, as is `indent`.
const FILTERS: [&str; 37] = [
    "safe",
    "lower",
    "upper",
    "title",
    "capitalize",
    "replace",
    "dictsort",
    "items",
    "reverse",
    "trim",
    "join",
    "split",
    "lines",
    "default",
    "d",
    "round",
    "abs",
    "int",
    "float",
    "attr",
    "first",
    "last",
    "min",
    "max",
    "sort",
    "list",
    "string",
    "bool",
    "batch",
    "slice",
    "sum",
    "groupby",
    "unique",
    "chain",
    "zip",
    "pprint",
    "format",
];

/// Tests that compare values.
const TESTS: [&str; 18] = [
    "eq",
    "equalto",
    "==",
    "ne",
    "!=",
    "lt",
    "lessthan",
    "<",
    "le",
    "<=",
    "gt",
    "greaterthan",
    ">",
    "ge",
    ">=",
    "in",
    "sameas",
    "containing",
];

/// Functions that create or hold values.
const FUNCTIONS: [&str; 5] = ["range", "dict", "namespace", "cycler", "joiner"];

/// minijinja's own environment, in which operations run after they were charged.
static PLAIN: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment
});

/// Registers operators, filters and functions.
pub(super) fn install(environment: &mut Environment<'_>, budget: &Arc<RenderBudget>) {
    operators(environment, budget);
    for name in FILTERS {
        let own = Arc::clone(budget);
        environment.add_filter(name, move |args: Rest<ValueOrKwargs>| {
            let args = spelled(&own, name, args.into_values())?;
            prepay(&own, name, &args)?;
            afterwards(&own, PLAIN.empty_state().apply_filter(name, &args)?)
        });
    }
    for name in TESTS {
        let own = Arc::clone(budget);
        environment.add_test(name, move |args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            prepay(&own, name, &args)?;
            PLAIN.empty_state().perform_test(name, &args)
        });
    }
    for name in FUNCTIONS {
        let own = Arc::clone(budget);
        let Some(function) = PLAIN.empty_state().lookup(name) else { continue };
        environment.add_function(name, move |args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            prepay(&own, name, &args)?;
            afterwards(&own, function.call(&mut PLAIN.empty_state(), &args)?)
        });
    }
    let own = Arc::clone(budget);
    environment.set_unknown_method_callback(
        move |state: &mut State, value: &Value, method: &str, args: &[Value]| {
            let all = spelled(&own, method, std::iter::once(value).chain(args).cloned().collect())?;
            prepay(&own, method, &all)?;
            let args = all.get(1..).unwrap_or_default();
            afterwards(&own, pycompat::unknown_method_callback(state, value, method, args)?)
        },
    );
    let own = Arc::clone(budget);
    environment.set_formatter(move |out, _, value| match value.as_str() {
        Some(text) => {
            own.charge(text.len() as u64)?;
            out.write_str(text).map_err(Error::from)
        }
        None if value.is_undefined() => Ok(()),
        None => out.write_str(&own.text(value)?).map_err(Error::from),
    });
}

fn operators(environment: &mut Environment<'_>, budget: &Arc<RenderBudget>) {
    let own = Arc::clone(budget);
    environment.add_filter(ADD, move |a: Value, b: Value| {
        let safe = escaped(&a, &b)?;
        own.charge(shallow(&a).saturating_add(shallow(&b)))?;
        let sum = evaluate("a + b", &[("a", a), ("b", b)])?;
        Ok(match sum.as_str() {
            Some(text) if safe => Value::from_safe_string(text.to_owned()),
            _ => sum,
        })
    });
    let own = Arc::clone(budget);
    environment.add_filter(MULTIPLY, move |a: Value, b: Value| {
        let times = |of: &Value, by: &Value| shallow(of).saturating_mul(by.as_usize().unwrap_or(0) as u64);
        own.charge(times(&a, &b).max(times(&b, &a)))?;
        evaluate("a * b", &[("a", a), ("b", b)])
    });
    let own = Arc::clone(budget);
    environment
        .add_filter(CONCATENATE, move |a: Value, b: Value| Ok::<_, Error>(own.text(&a)? + &own.text(&b)?));
    let own = Arc::clone(budget);
    environment.add_filter(SLICE, move |a: Value, start: Value, stop: Value, step: Value| {
        own.charge(shallow(&a))?;
        slice(&a, &start, &stop, &step)
    });
    let own = Arc::clone(budget);
    environment.add_filter(CONTAINS, move |a: Value, b: Value| {
        own.size(&a)?;
        own.size(&b)?;
        evaluate("a in b", &[("a", a), ("b", b)])
    });
    let own = Arc::clone(budget);
    environment.add_filter(CHECKED, move |value: Value| own.size(&value).map(|_| value));
    for (name, written) in COMPARISONS {
        let own = Arc::clone(budget);
        let compare = move |a: Value, b: Value| {
            for value in [&a, &b] {
                own.size(value)?;
            }
            if !["==", "!="].contains(&written) && (order(&a) != order(&b) || order(&a).is_none()) {
                let problem = format!("`{written}` cannot compare {} with {}", a.kind(), b.kind());
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
            let [a, b] = [a, b].map(|value| match value.kind() {
                ValueKind::Bool => Value::from(i64::from(value.is_true())),
                _ => value,
            });
            Ok(match written {
                "==" => a == b,
                "!=" => a != b,
                "<" => a < b,
                "<=" => a <= b,
                ">" => a > b,
                _ => a >= b,
            })
        };
        environment.add_filter(name, compare);
    }
}

/// Whether a sum is a safe string, because a part of it is. Jinja2 then escapes the other part for HTML; if that
/// would change the text, it is refused.
fn escaped(a: &Value, b: &Value) -> Result<bool, Error> {
    let changes = |value: &Value| {
        !value.is_safe() && value.as_str().is_some_and(|text| text.contains(['&', '<', '>', '"', '\'']))
    };
    let safe = a.is_safe() || b.is_safe();
    if safe && (changes(a) || changes(b)) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "adding to a safe text (`|safe +`) escapes the other text for HTML in Jinja2, which is not supported",
        ));
    }
    Ok(safe)
}

/// The group of values that Python can order with this one: those of the same number; `None` without any.
fn order(value: &Value) -> Option<u8> {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool => Some(0),
        ValueKind::String => Some(1),
        ValueKind::Seq => Some(2),
        _ => None,
    }
}

/// Bytes of a string, or 1 for each item of a list.
fn shallow(value: &Value) -> u64 {
    value.as_str().map(str::len).or_else(|| value.len()).unwrap_or_default() as u64
}

/// Evaluates an operator that was charged. An error has no position, so that it gets that of the template.
fn evaluate(expression: &'static str, values: &[(&'static str, Value)]) -> Result<Value, Error> {
    static COMPILED: LazyLock<Vec<(&'static str, Expression<'static, 'static>)>> = LazyLock::new(|| {
        let sources = ["a + b", "a * b", "a in b"];
        sources.into_iter().filter_map(|text| Some((text, PLAIN.compile_expression(text).ok()?))).collect()
    });
    let compiled = COMPILED.iter().find(|(text, _)| *text == expression);
    let Some((_, compiled)) = compiled else {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("`{expression}` is not understood")));
    };
    let context = Value::from_pairs(values.iter().map(|(name, value)| (*name, value.clone())));
    compiled.eval(context).map_err(|error| match error.detail() {
        Some(detail) => Error::new(error.kind(), detail.to_owned()),
        None => Error::from(error.kind()),
    })
}

/// The arguments of a filter or method; floating-point numbers as text where the filter writes them.
fn spelled(budget: &RenderBudget, name: &str, args: Vec<Value>) -> Result<Vec<Value>, Error> {
    if !["string", "join", "format"].contains(&name) {
        return Ok(args);
    }
    let written = |value: Value| {
        budget.size(&value)?;
        Ok(if holds_float(&value) { Value::from(budget.text(&value)?) } else { value })
    };
    let spell = |value: Value| match (value.kind(), name, value.try_iter()) {
        (ValueKind::Seq, "join", Ok(items)) => items.map(written).collect::<Result<Value, Error>>(),
        _ => written(value),
    };
    args.into_iter().map(spell).collect()
}

/// Charges the possible size of the result of a filter or method, and checks all arguments.
fn prepay(budget: &RenderBudget, name: &str, args: &[Value]) -> Result<(), Error> {
    let mut sizes = Vec::with_capacity(args.len());
    for arg in args {
        sizes.push(budget.size(arg)?);
    }
    let size = |at: usize| sizes.get(at).copied().unwrap_or_default();
    let items = args.first().and_then(Value::len).unwrap_or_default() as u64;
    let makes = match name {
        // A replacement happens at most once per character.
        "replace" => {
            let found = matches(args.first(), args.get(1));
            size(0).saturating_add(found.saturating_mul(size(2)))
        }
        "join" if args.first().is_some_and(|list| list.kind() == ValueKind::String) => {
            // A method: the separator comes first.
            let joined = args.get(1).and_then(Value::len).unwrap_or_default() as u64;
            size(1).saturating_add(joined.saturating_mul(size(0)))
        }
        "join" => size(0).saturating_add(items.saturating_mul(size(1))),
        "sum" => size(0).saturating_mul(items),
        "format" | "batch" | "slice" | "center" | "ljust" | "rjust" | "zfill" | "round" => {
            if numbers(args) > 1 << 16 {
                return Err(refused(format!("a number given to `{name}` is larger than 65536")));
            }
            sizes.iter().sum()
        }
        "string" | "pprint" | "urlencode" | "map" => size(0).saturating_mul(3),
        _ => 0,
    };
    budget.charge(makes)
}

/// The number of occurrences of a text in another one.
fn matches(text: Option<&Value>, part: Option<&Value>) -> u64 {
    match (text.and_then(Value::as_str), part.and_then(Value::as_str)) {
        (Some(text), Some("")) => text.chars().count() as u64 + 1,
        (Some(text), Some(part)) => text.matches(part).count() as u64,
        _ => 1,
    }
}

/// The largest number among the arguments, also inside a format string (`%1000d`, `{:1000}`).
fn numbers(args: &[Value]) -> u64 {
    let written = |text: &str| {
        let digits = text.split(|character: char| !character.is_ascii_digit());
        digits.filter(|digits| !digits.is_empty()).map(|digits| digits.parse().unwrap_or(u64::MAX)).max()
    };
    let format = args.first().and_then(Value::as_str).and_then(written).unwrap_or_default();
    let given =
        args.iter().skip(1).filter_map(|arg| arg.as_i64()).map(i64::unsigned_abs).max().unwrap_or_default();
    format.max(given)
}

/// Charges the result.
fn afterwards(budget: &RenderBudget, made: Value) -> Result<Value, Error> {
    let size = match made.kind() {
        ValueKind::Seq | ValueKind::Map => shallow(&made).saturating_mul(32),
        _ => shallow(&made),
    };
    budget.charge(size)?;
    Ok(made)
}
