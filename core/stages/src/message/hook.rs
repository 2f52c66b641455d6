//! [`HookMessage`]: a new hook, how to copy it, and the hooks that have been removed.

use crate::frame::payload::{PayloadReader, PayloadWriter};
use menagerie_model::HookRecipe;

/// A new hook, whose number is in the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookMessage {
    /// Numbers of hooks that have been removed.
    pub(crate) removed: Vec<u32>,
    /// How to make a copy, if the stage is in another process than the hook.
    pub(crate) recipe: Option<HookRecipe>,
}

impl HookMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = PayloadWriter::default();
        out.u32s(&self.removed);
        out.u8(u8::from(self.recipe.is_some()));
        if let Some(HookRecipe { kind, content }) = &self.recipe {
            out.text(kind);
            out.count(content.len());
            out.0.extend_from_slice(content);
        }
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = PayloadReader::new(payload);
        let removed = from.u32s()?;
        let recipe = match from.u8()? {
            0 => None,
            1 => {
                let kind = from.text()?;
                let bytes = from.count(1)?;
                Some(HookRecipe { kind, content: from.take(bytes)?.to_vec() })
            }
            kind => return Err(format!("unknown kind {kind} of hook message")),
        };
        from.end()?;
        Ok(Self { removed, recipe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_messages_round_trip() {
        let recipe = HookRecipe { kind: "some".to_owned(), content: vec![1, 2, 3] };
        for message in [HookMessage { removed: vec![4, 9], recipe: Some(recipe) }, HookMessage::default()] {
            let payload = message.encode();
            assert_eq!(HookMessage::decode(&payload).unwrap(), message);
            for cut in 0..payload.len() {
                assert!(HookMessage::decode(&payload[..cut]).is_err(), "{cut} bytes");
            }
        }
    }
}
