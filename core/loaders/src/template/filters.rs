//! Filters and tests in which minijinja differs from Jinja2.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use std::borrow::Cow;
use std::sync::Arc;

use super::budget::RenderBudget;
use super::source::UNFOLDED;

/// The iterable of each `for` loop passes through this filter.
pub(super) const ITERATED: &str = "operator:for";

/// Registers the filters and tests.
pub(super) fn install(environment: &mut Environment<'_>, budget: &Arc<RenderBudget>) {
    let own = Arc::clone(budget);
    environment.add_filter(ITERATED, move |value: Value| {
        own.charge(0)?;
        iterated(value)
    });
    environment.add_filter(UNFOLDED, |value: Value| value);
    let own = Arc::clone(budget);
    environment.add_filter("indent", move |text: &Value, positional: Rest<Value>, named: Kwargs| {
        indent(&own, text, positional, named)
    });
    let own = Arc::clone(budget);
    environment.add_filter("map", move |state: &mut State, value: Value, args: Rest<ValueOrKwargs>| {
        own.size(&value)?;
        filters::map(state, value, args).map(generator)
    });
    type Test<'a> = Option<Cow<'a, str>>;
    let own = Arc::clone(budget);
    let select = move |s: &mut State, v: Value, test: Test, args: Rest<ValueOrKwargs>| {
        own.size(&v)?;
        filters::select(s, v, test, args).map(generator)
    };
    environment.add_filter("select", select);
    let own = Arc::clone(budget);
    let reject = move |s: &mut State, v: Value, test: Test, args: Rest<ValueOrKwargs>| {
        own.size(&v)?;
        filters::reject(s, v, test, args).map(generator)
    };
    environment.add_filter("reject", reject);
    let own = Arc::clone(budget);
    type Name<'a> = Cow<'a, str>;
    let select = move |s: &mut State, v: Value, name: Name, test: Test, args: Rest<ValueOrKwargs>| {
        own.size(&v)?;
        filters::selectattr(s, v, name, test, args).map(generator)
    };
    environment.add_filter("selectattr", select);
    let own = Arc::clone(budget);
    let reject = move |s: &mut State, v: Value, name: Name, test: Test, args: Rest<ValueOrKwargs>| {
        own.size(&v)?;
        filters::rejectattr(s, v, name, test, args).map(generator)
    };
    environment.add_filter("rejectattr", reject);
    values(environment, budget);
}

/// Jinja2's answers for single values.
fn values(environment: &mut Environment<'_>, budget: &Arc<RenderBudget>) {
    environment.add_test("iterable", |value: &Value| {
        value.is_undefined() || (!value.is_none() && value.try_iter().is_ok())
    });
    // Generators have no length; ranges have one.
    environment.add_test("sequence", |value: &Value| match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map => true,
        kind => kind == ValueKind::Iterable && value.len().is_some(),
    });
    for name in ["escape", "e"] {
        let own = Arc::clone(budget);
        environment.add_filter(name, move |value: Value| escape(&own, value));
    }
    for name in ["length", "count"] {
        let own = Arc::clone(budget);
        environment.add_filter(name, move |value: Value| {
            own.size(&value)?;
            length(&value)
        });
    }
    environment
        .add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
}

/// The iterable of a `for` loop; Jinja2 raises an error for none.
fn iterated(value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, "none is not iterable"));
    }
    Ok(value)
}

/// Text with the characters of HTML as Jinja2's `escape` writes them; a safe text stays as it is.
fn escape(budget: &RenderBudget, value: Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value);
    }
    let text = budget.text(&value)?;
    budget.charge(text.len() as u64 * 5)?;
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            other => out.push(other),
        }
    }
    Ok(Value::from_safe_string(out))
}

/// Jinja2's `length`, which is 0 for undefined values.
fn length(value: &Value) -> Result<usize, Error> {
    match value.len() {
        Some(length) => Ok(length),
        None if value.is_undefined() => Ok(0),
        None => {
            let problem = format!("a value of type {} has no length", value.kind());
            Err(Error::new(ErrorKind::InvalidOperation, problem))
        }
    }
}

/// Jinja2's generators: true even when empty, without length, and not JSON.
fn generator(values: Vec<Value>) -> Value {
    Value::make_iterable(move || {
        let mut values = values.clone().into_iter();
        std::iter::from_fn(move || values.next())
    })
}

/// Jinja2's `indent(width=4, first=False, blank=False)`, which keeps a line feed at the end.
fn indent(
    budget: &RenderBudget,
    text: &Value,
    positional: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let argument = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        match positional.get(at) {
            Some(value) => Ok(Some(value.clone())),
            None => named.get::<Option<Value>>(name),
        }
    };
    let width = argument(0, "width")?;
    let first = argument(1, "first")?.is_some_and(|value| value.is_true());
    let blank = argument(2, "blank")?.is_some_and(|value| value.is_true());
    named.assert_all_used()?;
    let indentation = match width {
        None => " ".repeat(4),
        Some(width) => match (width.as_str(), width.as_usize()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(count)) => " ".repeat(count.min(1 << 10)),
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "the width of indent is a number or a text",
                ));
            }
        },
    };
    let Some(text) = text.as_str() else {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("indent takes a text, not a value of type {}", text.kind()),
        ));
    };
    budget.charge(text.len() as u64)?;
    budget.charge((text.matches('\n').count() as u64 + 1).saturating_mul(indentation.len() as u64))?;
    let mut out = String::with_capacity(text.len() * 2);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let indented = if at == 0 { first } else { blank || !line.is_empty() };
        if indented {
            out.push_str(&indentation);
        }
        out.push_str(line);
    }
    Ok(out)
}
