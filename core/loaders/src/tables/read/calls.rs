//! Formats of calls, and markers around text.

use std::sync::Arc;

use menagerie_answers::{CallFormat, CallKeys, ContentTags, ObjectKeys};

use super::{KeyedValue, PlacedEntry};
use crate::tables::entries::{CallEntry, ContentPair};
use crate::tables::error::{TableError, TableFault};

/// Most letters of an id.
const LONGEST_ID: usize = 64;

impl KeyedValue<'_, '_> {
    pub(super) fn content(&self) -> Result<PlacedEntry<ContentPair>, TableError> {
        self.table(&["open", "close", "where", "answer", "after_reasoning"])?;
        let open = self.need("open")?.text()?;
        let close = self.get("close").map(|node| node.text()).transpose()?;
        let template = self.get("where").map_or_else(|| Ok(vec![open.clone()]), |node| node.plain_texts())?;
        let (answer, after_reasoning) = (self.flag("answer")?, self.flag("after_reasoning")?);
        let tags = ContentTags { open, close, answer, after_reasoning };
        Ok(self.placed(ContentPair { tags, template }))
    }

    pub(super) fn call(&self) -> Result<PlacedEntry<CallEntry>, TableError> {
        self.table(&[
            "name",
            "where",
            "not",
            "open",
            "call",
            "also",
            "between",
            "close",
            "object",
            "arg",
            "arg_json",
            "quote",
            "id",
            "id_length",
            "bare",
            "single",
            "cdata",
        ])?;
        let text = |key: &str| self.get(key).map(|node| node.text()).transpose();
        let list = |key: &str| self.get(key).map_or(Ok(Vec::new()), |node| node.plain_texts());
        let mut keys = CallKeys::default();
        keys.name = self.need("name")?.text()?;
        keys.open = text("open")?.unwrap_or_default();
        keys.calls = vec![self.need("call")?.text()?];
        keys.calls.extend(list("also")?);
        keys.between = text("between")?.unwrap_or_default();
        keys.close = text("close")?.unwrap_or_default();
        keys.object = self.get("object").map(|node| node.object_keys()).transpose()?;
        (keys.arg, keys.arg_json) = (text("arg")?, text("arg_json")?);
        (keys.quote, keys.id) = (text("quote")?, text("id")?);
        keys.id_length = self.get("id_length").map(|node| node.id_length()).transpose()?;
        keys.bare = self.flag("bare")?;
        keys.single = self.flag("single")?;
        keys.cdata = self.flag("cdata")?;
        let format = match CallFormat::new(keys) {
            Ok(format) => Arc::new(format),
            Err(fault) => return self.fault(TableFault::Call(fault)),
        };
        let (template, not) = (self.need("where")?.plain_texts()?, list("not")?);
        Ok(self.placed(CallEntry { format, template, not }))
    }

    fn object_keys(&self) -> Result<ObjectKeys, TableError> {
        self.table(&["name", "arguments", "id"])?;
        let id = self.get("id").map(|node| node.text()).transpose()?;
        Ok(ObjectKeys { name: self.need("name")?.text()?, arguments: self.need("arguments")?.text()?, id })
    }

    fn id_length(&self) -> Result<usize, TableError> {
        let number = self.value.as_integer().and_then(|count| usize::try_from(count).ok());
        number
            .filter(|count| (1..=LONGEST_ID).contains(count))
            .map_or_else(|| self.wanted("a number from 1 to 64"), Ok)
    }
}
