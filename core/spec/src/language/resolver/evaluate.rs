//! Evaluates expressions of a spec over the frame of a layer.

use super::frame::{FileKeys, LayerFrame, spaces};
use crate::expression::{Expression, NameScope, explain};
use crate::kind::written::Scalar;
use crate::language::body::Let;
use crate::language::closure::Closure;
use crate::language::reads::STANDARD;
use crate::language::spec::ArchSpec;
use crate::text::source::{MetadataValue, ResolveInput};
use menagerie_entries::{nearest, nearest_clause};
use minijinja::value::{Kwargs, Object, Value};
use minijinja::{Error, ErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum length of a string or list of a named expression: expressions can double their input.
const LONGEST: usize = 1 << 16;

/// The value of a named expression, or why there is none.
type Outcome = Result<Value, String>;

/// Evaluates expressions; caches named expressions and values that are the same in all layers.
pub(crate) struct Evaluator<'a> {
    spec: &'a ArchSpec,
    input: &'a ResolveInput<'a>,
    pub(crate) facts: FileKeys,
    spaces: BTreeSet<String>,
    any_varies: bool,
    whole: Arc<LayerFrame>,
    latest: Arc<LayerFrame>,
    constants: BTreeMap<String, Outcome>,
    /// Standard keys and keys of defaults, compiled.
    keys: BTreeMap<&'static str, Arc<Expression>>,
    /// Named expressions of the whole model, and of the latest layer.
    whole_lets: BTreeMap<String, Outcome>,
    layer_lets: BTreeMap<String, Outcome>,
    /// Nearest names of unknown keys, searched once, because a file can have many keys and many layers.
    neighbors: BTreeMap<String, String>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(spec: &'a ArchSpec, input: &'a ResolveInput<'a>) -> Self {
        let facts = FileKeys::gather(input, &spec.reads);
        let spaces = spaces(facts.keys.keys().map(String::as_str).chain(spec.reads.keys()));
        let whole = Arc::new(LayerFrame::build(&facts, &spaces, None));
        let latest = Arc::clone(&whole);
        Evaluator {
            spec,
            input,
            any_varies: facts.any_varies(),
            facts,
            spaces,
            whole,
            latest,
            constants: BTreeMap::new(),
            keys: BTreeMap::new(),
            whole_lets: BTreeMap::new(),
            layer_lets: BTreeMap::new(),
            neighbors: BTreeMap::new(),
        }
    }

    /// A key as an expression, compiled once.
    ///
    /// # Errors
    /// The key is not a valid expression.
    pub(crate) fn key(&mut self, key: &'static str) -> Result<Arc<Expression>, String> {
        if let Some(known) = self.keys.get(key) {
            return Ok(Arc::clone(known));
        }
        let expression = Arc::new(Expression::parse(key, NameScope::Keys)?);
        self.keys.insert(key, Arc::clone(&expression));
        Ok(expression)
    }

    /// The frame of a layer, or of the whole model.
    pub(crate) fn frame(&mut self, layer: Option<usize>) -> Arc<LayerFrame> {
        if layer.is_none() {
            return Arc::clone(&self.whole);
        }
        if self.latest.layer != layer {
            let frame = match self.any_varies {
                true => LayerFrame::build(&self.facts, &self.spaces, layer),
                false => self.whole.in_layer(layer),
            };
            self.latest = Arc::new(frame);
            self.layer_lets.clear();
        }
        Arc::clone(&self.latest)
    }

    /// The value of an expression, computed once where it is the same in all layers.
    ///
    /// # Errors
    /// What is missing or wrong, with the sub-expression.
    pub(crate) fn shared(&mut self, expression: &Expression, layer: Option<usize>) -> Outcome {
        if self.varies(expression) {
            return self.value(expression, layer);
        }
        if let Some(known) = self.constants.get(&expression.text) {
            return known.clone();
        }
        let value = self.value(expression, None);
        self.constants.insert(expression.text.clone(), value.clone());
        value
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// What is missing or wrong, with the sub-expression.
    pub(crate) fn value(&mut self, expression: &Expression, layer: Option<usize>) -> Outcome {
        let value = self.raw(expression, layer)?;
        if !value.is_undefined() {
            return Ok(value);
        }
        Err(self.missing(expression, layer).unwrap_or_else(|| {
            format!("`{}` has no value here: an `if` without `else`, or an absent key", expression.text)
        }))
    }

    fn raw(&mut self, expression: &Expression, layer: Option<usize>) -> Outcome {
        if layer.is_none() && expression.layer {
            return Err(format!(
                "`{}` differs between layers; this is one value of the whole model",
                expression.text
            ));
        }
        let frame = self.frame(layer);
        for key in expression.mentions() {
            self.facts.consult(key);
        }
        let mut lets = BTreeMap::new();
        for used in &expression.names {
            if let Some(named) = self.named(&used.name) {
                let value = self.named_value(named, layer).map_err(|why| format!("{}: {why}", used.name))?;
                lets.insert(used.name.clone(), value);
            }
        }
        let root =
            Root { frame, lets, has: self.has(expression, layer), pattern: self.pattern(expression, layer) };
        expression.evaluate(Value::from_object(root)).map_err(|error| {
            // A function without an argument reports it in its own words.
            let undefined = error.kind() == ErrorKind::UndefinedError
                || error.detail().is_some_and(|detail| detail.contains("undefined"));
            let missing = self.missing(expression, layer).filter(|_| undefined);
            missing.or_else(|| self.list(expression)).unwrap_or_else(|| explain(&error, &expression.text))
        })
    }

    /// The value of a named expression, evaluated once per layer.
    fn named_value(&mut self, named: &'a Let, layer: Option<usize>) -> Outcome {
        let expression = match &named.value {
            Scalar::Literal(value) => return Ok(Value::from(*value)),
            Scalar::Expression(expression) => expression,
        };
        self.frame(layer);
        let known = if layer.is_some() { &self.layer_lets } else { &self.whole_lets };
        if let Some(known) = known.get(&named.name) {
            return known.clone();
        }
        let value = self.raw(expression, layer).and_then(|value| bounded(value, expression));
        let known = if layer.is_some() { &mut self.layer_lets } else { &mut self.whole_lets };
        known.insert(named.name.clone(), value.clone());
        value
    }

    pub(crate) fn named(&self, name: &str) -> Option<&'a Let> {
        self.spec.body.lets.iter().find(|named| named.name == name)
    }

    /// All dependencies of an expression.
    pub(crate) fn closure(&self, expression: &Expression) -> Closure {
        let mut closure = Closure::default();
        closure.add(expression, &self.spec.lets);
        closure
    }

    /// The function `has`, with the answers for the roles of an expression.
    fn has(&self, expression: &Expression, layer: Option<usize>) -> Value {
        let roles = self.input.roles;
        let answer = |role: &String| {
            let here = layer.is_some() && roles.has(role, layer);
            (role.clone(), here || roles.has(role, None))
        };
        let answers: BTreeMap<String, bool> = expression.roles.iter().map(answer).collect();
        Value::from_function(move |role: &str| answers.get(role).copied().unwrap_or(false))
    }

    /// The function `pattern`: true in the layers that are not the full one of their period.
    fn pattern(&self, expression: &Expression, layer: Option<usize>) -> Value {
        let found = expression.patterns.iter().map(|key| (key.clone(), self.facts.keys.get(key).cloned()));
        let keys: BTreeMap<String, Option<MetadataValue>> = found.collect();
        Value::from_function(move |key: &str, period: Option<f64>, kwargs: Kwargs| {
            let first = kwargs.get::<Option<&str>>("full")? == Some("first");
            let stated = keys.get(key).cloned().flatten();
            pattern(key, stated, period, first, layer.unwrap_or(0))
        })
    }

    /// Whether the value of an expression can differ between layers.
    pub(crate) fn varies(&self, expression: &Expression) -> bool {
        let closure = self.closure(expression);
        closure.layer
            || !closure.roles.is_empty()
            || closure.keys.iter().any(|used| self.facts.varies_by_default(&used.name))
    }

    /// A message about the first missing key of an expression.
    fn missing(&mut self, expression: &Expression, layer: Option<usize>) -> Option<String> {
        let frame = self.frame(layer);
        let closure = self.closure(expression);
        let used = closure.keys.iter().find(|used| !used.optional && frame.get(&used.name).is_none())?;
        if STANDARD.contains(&used.name.as_str()) {
            return Some(format!("`{}` is not in this file", used.name));
        }
        if let Some(help) = self.neighbors.get(&used.name) {
            return Some(absent(&used.name, help));
        }
        let others = self.spec.reads.keys().filter(|key| *key != used.name);
        let lets = self.spec.body.lets.iter().map(|named| named.name.as_str());
        let known = lets.chain(STANDARD).chain(others).chain(frame.keys());
        let help = nearest_clause(nearest(&used.name, known));
        let message = absent(&used.name, &help);
        self.neighbors.insert(used.name.clone(), help);
        Some(message)
    }

    /// A message about an array whose length is not the number of layers.
    fn list(&self, expression: &Expression) -> Option<String> {
        expression.names.iter().find_map(|used| match self.facts.keys.get(&used.name) {
            Some(MetadataValue::List(values)) if values.len() != self.facts.blocks => Some(format!(
                "`{}` is a list of {} values; a list of {} (block_count) or one value can be used here",
                used.name,
                values.len(),
                self.facts.blocks
            )),
            _ => None,
        })
    }
}

fn absent(key: &str, neighbors: &str) -> String {
    format!("`{key}`: neither a standard key nor in this file{neighbors}")
}

/// Refuses strings and lists that grow from name to name.
fn bounded(value: Value, expression: &Expression) -> Outcome {
    let length = value.as_str().map(str::len).or_else(|| value.len());
    match length {
        Some(length) if length > LONGEST => Err(format!(
            "`{}` has {length} characters or values; a named expression may have at most {LONGEST}",
            expression.text
        )),
        _ => Ok(value),
    }
}

fn pattern(
    key: &str,
    stated: Option<MetadataValue>,
    period: Option<f64>,
    first: bool,
    layer: usize,
) -> Result<bool, Error> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidOperation, message));
    let period = match stated {
        Some(MetadataValue::List(values)) => {
            return match values.get(layer) {
                Some(MetadataValue::Bool(value)) => Ok(*value),
                Some(MetadataValue::Integer(value)) => Ok(*value != 0),
                Some(_) => refuse(format!("`{key}` holds values that are neither booleans nor integers")),
                None => refuse(format!("`{key}` has {} values; this is layer {layer}", values.len())),
            };
        }
        Some(MetadataValue::Integer(period)) => period as f64,
        Some(MetadataValue::Number(period)) => period,
        Some(_) => return refuse(format!("`{key}` is neither a list nor a period")),
        None => match period {
            Some(period) => period,
            None => return refuse(format!("`{key}` is not in this file, and pattern has no default period")),
        },
    };
    if period < 0.0 || period.fract() != 0.0 {
        return refuse(format!("`{key}`: {period} is not a period"));
    }
    let (layer, period) = (layer as u64, period as u64);
    Ok(period == 0 || if first { layer % period != 0 } else { layer % period < period - 1 })
}

/// The names that an expression can use.
#[derive(Debug)]
struct Root {
    frame: Arc<LayerFrame>,
    lets: BTreeMap<String, Value>,
    has: Value,
    pattern: Value,
}

impl std::fmt::Debug for LayerFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({:?})", self.layer)
    }
}

impl Object for Root {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match key {
            "layer" => self.frame.layer.map(Value::from),
            "has" => Some(self.has.clone()),
            "pattern" => Some(self.pattern.clone()),
            _ => self.lets.get(key).or_else(|| self.frame.top(key)).cloned(),
        }
    }
}
