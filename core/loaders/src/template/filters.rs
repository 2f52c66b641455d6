//! Filters and tests where minijinja's differ from Jinja2's.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use std::borrow::Cow;
use std::sync::Arc;

use super::budget::Budget;
use super::source::UNFOLDED;

/// What `for` loops go over goes through this filter.
pub(super) const ITERATED: &str = "operator:for";

/// Puts the filters and tests in place.
pub(super) fn install(environment: &mut Environment<'_>, budget: &Arc<Budget>) {
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
    environment.add_test("iterable", |value: &Value| {
        value.is_undefined() || (!value.is_none() && value.try_iter().is_ok())
    });
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
    });
    environment
        .add_test("number", |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
}

/// What a `for` loop goes over; Jinja2 raises for none.
fn iterated(value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, "none is not iterable"));
    }
    Ok(value)
}

/// Jinja2's generators: true even when empty, without length, and not JSON.
fn generator(values: Vec<Value>) -> Value {
    Value::make_iterable(move || {
        let mut values = values.clone().into_iter();
        std::iter::from_fn(move || values.next())
    })
}

/// Jinja2's `indent(width=4, first=False, blank=False)`, which keeps a line feed at the end.
fn indent(budget: &Budget, text: &Value, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
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
    let text = budget.text(text)?;
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
