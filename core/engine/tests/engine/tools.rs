//! A tool and how its calls are written.

use menagerie_answers::{CallFormat, CallKeys};
use menagerie_engine::{CallSyntax, ToolSet};
use std::sync::Arc;

/// Calls of a tool `f` with a number `a`, written `<c>f {..}</c>`.
pub(crate) fn calls_of_f() -> CallSyntax {
    let mut keys = CallKeys::default();
    (keys.name, keys.calls) = ("own".to_owned(), vec!["<c>${name} ${arguments}</c>".to_owned()]);
    let parameters = serde_json::json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let tool = serde_json::json!({ "name": "f", "parameters": parameters });
    let tools = Arc::new(ToolSet::new(&[tool]).unwrap());
    CallSyntax::new(Arc::new(CallFormat::new(keys).unwrap()), tools, 3)
}
