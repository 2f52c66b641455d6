//! The shape of all calls of an answer: [`CallFormat::shape`].

use super::CallShape;
use super::argument::arguments;
use super::fault::{CallShapeFault, SchemaPlace};
use super::members::{closed, object_schema};
use super::pairs::pairs;
use super::python::keywords;
use crate::format::CallFormat;
use crate::pattern::Step;
use crate::tool::ToolSet;
use serde_json::Value;

/// What the calls of an answer may be, beside their format and their tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLimits {
    /// The only tools that may be called; `None`: all.
    pub only: Option<Vec<String>>,
    /// Whether the answer has one call.
    pub single: bool,
}

impl CallLimits {
    /// Calls of these tools, or of all; one call, or any number.
    pub fn new(only: Option<Vec<String>>, single: bool) -> Self {
        Self { only, single }
    }
}

/// The characters of an id that the model chooses.
const ID: &str = "[a-zA-Z0-9_.:-]";

/// The parts of a format that describe a call of one tool.
struct ToolShape<'t> {
    format: &'t CallFormat,
    tools: &'t ToolSet,
    name: &'t str,
    /// The schema of its parameters: an object.
    schema: Value,
}

impl CallFormat {
    /// The texts that an answer may have that consists of one call or several.
    ///
    /// # Errors
    /// There is no tool to call, or the schema of a tool has a keyword or a name that the format cannot write.
    pub fn shape(&self, tools: &ToolSet, limits: &CallLimits) -> Result<CallShape, CallShapeFault> {
        let known = || tools.schemas().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        if let Some(name) = limits.only.iter().flatten().find(|name| !tools.has(name)) {
            return Err(CallShapeFault::UnknownTool { name: name.clone(), known: known() });
        }
        let may = |name: &str| limits.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name));
        let mut shapes = Vec::new();
        for (name, schema) in tools.schemas().filter(|(name, _)| may(name)) {
            let schema = object_schema(schema, SchemaPlace { tool: name, at: "" })?;
            shapes.push(ToolShape { format: self, tools, name, schema });
        }
        if shapes.is_empty() {
            return Err(CallShapeFault::NoTool);
        }
        let first = self.call(&shapes, true)?;
        let keys = self.keys();
        let mut all = CallShape::literal(&keys.open);
        all.push(first);
        if !keys.single && !limits.single {
            let mut further = vec![CallShape::Space];
            further.extend(CallShape::literal(&keys.between));
            further.push(self.call(&shapes, false)?);
            all.push(CallShape::Repeated(Box::new(CallShape::sequence(further))));
        }
        if !keys.close.trim().is_empty() {
            all.push(CallShape::Space);
            all.extend(CallShape::literal(&keys.close));
        }
        Ok(CallShape::sequence(all))
    }

    /// One call, in every form and of every tool.
    fn call(&self, tools: &[ToolShape<'_>], is_first: bool) -> Result<CallShape, CallShapeFault> {
        let mut shapes = Vec::new();
        for form in self.forms_of_calls() {
            for tool in tools {
                shapes.push(tool.call(form, is_first)?);
            }
        }
        Ok(CallShape::one_of(shapes))
    }
}

impl ToolShape<'_> {
    fn call(&self, steps: &[Step], is_first: bool) -> Result<CallShape, CallShapeFault> {
        let mut shapes = Vec::new();
        for step in steps {
            match step {
                Step::Fixed(literal) => shapes.extend(CallShape::literal(literal.text())),
                Step::Name => shapes.push(CallShape::Text(self.name.to_owned())),
                Step::Id => shapes.push(CallShape::Regex(self.id())),
                Step::IdBegin | Step::IdEnd => {}
                Step::Index if is_first => shapes.push(CallShape::Text("0".to_owned())),
                Step::Index => shapes.push(CallShape::Regex("[1-9][0-9]{0,2}".to_owned())),
                Step::Arguments => shapes.extend([CallShape::Space, self.json()]),
                Step::Object => shapes.extend([CallShape::Space, self.object()]),
                Step::Args => {
                    shapes.push(CallShape::Space);
                    shapes.push(arguments(self.format, self.tools, self.name, &self.schema)?);
                }
                Step::Python => shapes.push(keywords(self.name, &self.schema)?),
                Step::Pairs => {
                    let mark = self.format.keys().quote.as_deref().unwrap_or("\"");
                    shapes.push(pairs(mark, self.name, &self.schema)?);
                }
            }
        }
        Ok(CallShape::sequence(shapes))
    }

    /// An id that the model chooses.
    fn id(&self) -> String {
        match self.format.keys().id_length {
            Some(length) => format!("[a-zA-Z0-9]{{{length}}}"),
            None => format!("{ID}{{1,64}}"),
        }
    }

    fn json(&self) -> CallShape {
        CallShape::Json { tool: self.name.to_owned(), at: String::new(), schema: closed(&self.schema) }
    }

    /// A JSON object with the name, the arguments, and an id before or after them, if the format has one.
    fn object(&self) -> CallShape {
        let Some(keys) = &self.format.keys().object else { return self.json() };
        let key = |key: &str| Value::from(key).to_string();
        let text = |text: String| CallShape::Marker(text);
        let middle = |shapes: &mut Vec<CallShape>| {
            shapes.push(text(format!("{}: \"", key(&keys.name))));
            shapes.push(CallShape::Text(self.name.to_owned()));
            shapes.push(text(format!("\", {}: ", key(&keys.arguments))));
            shapes.push(self.json());
        };
        let mut shapes = vec![text("{".to_owned())];
        let Some(id) = &keys.id else {
            middle(&mut shapes);
            shapes.push(text("}".to_owned()));
            return CallShape::sequence(shapes);
        };
        let id = |before: &str, after: &str| {
            let begin = text(format!("{before}{}: \"", key(id)));
            CallShape::sequence(vec![begin, CallShape::Regex(self.id()), text(format!("\"{after}"))])
        };
        let (mut with, mut without) = (vec![id("", ", ")], Vec::new());
        middle(&mut with);
        middle(&mut without);
        without.push(CallShape::Optional(Box::new(id(", ", ""))));
        shapes.push(CallShape::one_of(vec![CallShape::sequence(with), CallShape::sequence(without)]));
        shapes.push(text("}".to_owned()));
        CallShape::sequence(shapes)
    }
}
