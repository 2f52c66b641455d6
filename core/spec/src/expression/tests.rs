//! What an expression may and may not use.

use super::*;

fn refused(text: &str) -> String {
    match Expression::parse(text, NameScope::Keys) {
        Ok(found) => panic!("`{text}` was taken: {found:?}"),
        Err(message) => message,
    }
}

fn value(text: &str) -> Value {
    let env = environment();
    let compiled = env.compile_expression(text).unwrap();
    compiled
        .eval(minijinja::context!(a => minijinja::context!(b => 3), x => 2.5, list => vec![1, 2]))
        .unwrap()
}

#[test]
fn collects_names_roles_and_patterns() {
    let text = "pattern('attention.sliding_window_pattern', 6, full='first') and has('attn_q_norm') or layer % 2 == a.b | default(c.d) if e is not defined else sqrt(f)";
    let found = Expression::parse(text, NameScope::Keys).unwrap();
    let names: Vec<(&str, bool)> =
        found.names.iter().map(|used| (used.name.as_str(), used.optional)).collect();
    assert_eq!(names, [("a.b", true), ("c.d", false), ("e", true), ("f", false)]);
    assert_eq!(found.roles, ["attn_q_norm"]);
    assert_eq!(found.patterns, ["attention.sliding_window_pattern"]);
    assert!(found.layer);
}

#[test]
fn refuses_what_is_not_on_the_list() {
    for (text, part) in [
        ("a ~ b", "`~` may not be used"),
        ("a[0]", "`[` may not be used"),
        ("{'a': 1}", "`{` may not be used"),
        ("a in b", "`in` may not be used"),
        ("a | int", "unknown filter `int`"),
        ("a | default", "default takes a value"),
        ("a | default()", "default takes a value"),
        ("range(3)", "unknown function `range`"),
        ("squrt(3)", "nearest is `sqrt`"),
        ("a is even", "only `defined`"),
        ("none", "`none` may not be used"),
        ("True", "`True` may not be used"),
        ("-2 ** 2", "(-x) ** y"),
        ("a = 2", "did you mean `==`"),
        ("has(a)", "name in quotes"),
        ("pattern('k', 2, full='middle')", "full='last'"),
        ("'a", "not closed"),
        ("1x", "not a number"),
        ("a..b", "not a name"),
        ("", "empty"),
        ("a +", "`a +`"),
        ("a b", "`a b`"),
        ("(a", "`(a`"),
        ("a.b()", "unknown function `a.b`"),
        ("lambda: 1", "`:` may not be used"),
    ] {
        let message = refused(text);
        assert!(message.contains(part), "`{text}`: {message}");
    }
}

#[test]
fn config_expressions_may_hold_tables() {
    let text = "{'softmax': 1, 'sigmoid': 2}[scoring_func] if scoring_func is defined";
    let found = Expression::parse(text, NameScope::Config).unwrap();
    assert_eq!(found.names.len(), 2);
    assert!(Expression::parse("has('x')", NameScope::Config).is_err());
}

#[test]
fn evaluates_as_the_language_says() {
    assert_eq!(f64::try_from(value("a.c | default(4) + 1")).unwrap(), 5.0);
    assert_eq!(f64::try_from(value("10 - a.c | default(4)")).unwrap(), 6.0);
    assert_eq!(f64::try_from(value("x ** -0.5")).unwrap(), 2.5f64.powf(-0.5));
    // 50 digits of 2.5 ** -0.5 rounded to f64: the same on every machine.
    assert_eq!(f64::try_from(value("pow(x, -0.5)")).unwrap(), 0.632_455_532_033_675_9);
    assert!(
        Expression::parse("pow(0 - 1, 0.5)", NameScope::Keys)
            .unwrap()
            .evaluate(minijinja::context!())
            .is_err()
    );
    assert_eq!(f64::try_from(value("7 // 2 + min(1, 2) + floor(2.7)")).unwrap(), 6.0);
    assert!(!value("a.c is defined").is_true());
    assert!(value("a.b is defined and a.b == 3").is_true());
}

#[test]
fn strict_means_that_missing_names_do_not_compare() {
    let env = environment();
    let context = || minijinja::context!(a => minijinja::context!(b => 3));
    for text in ["missing < 3", "missing == 0", "a.c + 1", "not a.c", "sqrt(a.c)", "a.c and true"] {
        let compiled = env.compile_expression(text).unwrap();
        assert!(compiled.eval(context()).is_err(), "{text}");
    }
    // a bare undefined name and an `if` without `else` are not caught by minijinja: the evaluator does it
    assert!(env.compile_expression("a.c").unwrap().eval(context()).unwrap().is_undefined());
    assert!(env.compile_expression("1 if false").unwrap().eval(context()).unwrap().is_undefined());
}

#[test]
fn lists_and_texts_of_a_config() {
    let value = |text: &str| {
        Expression::parse(text, NameScope::Config)
            .unwrap()
            .evaluate(minijinja::context!(kinds => vec!["a", "a", "b", "a"], order => "MEM*", x => 3))
    };
    assert_eq!(value("leading(kinds, 'a')").unwrap(), Value::from(2));
    assert_eq!(value("leading(kinds, 'b')").unwrap(), Value::from(0));
    assert_eq!(value("contains(kinds, 'b')").unwrap(), Value::from(true));
    assert_eq!(value("contains(kinds, 'c')").unwrap(), Value::from(false));
    assert_eq!(value("contains(order, 'E')").unwrap(), Value::from(true));
    assert_eq!(value("contains(order, '-')").unwrap(), Value::from(false));
    assert!(value("leading(x, 3)").is_err() && value("contains(x, 3)").is_err());
    assert!(refused("leading(kinds, 2)").contains("unknown function `leading`"));
    assert!(refused("contains(kinds, 2)").contains("unknown function `contains`"));
}
