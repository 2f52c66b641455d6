//! [`HookMessage`]: the number of a hook, what a copy of it is made from, and hooks that are no more.

use crate::bytes::{Reader, Writer};
use menagerie_model::HookRecipe;

/// What stages are told of a hook, whose number is in the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookMessage {
    /// Numbers of hooks that are no more.
    pub(crate) gone: Vec<u32>,
    /// What a copy is made from, where the stage has not the hook itself.
    pub(crate) recipe: Option<HookRecipe>,
}

impl HookMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u32s(&self.gone);
        out.u8(u8::from(self.recipe.is_some()));
        if let Some(HookRecipe { kind, content }) = &self.recipe {
            out.text(kind);
            out.count(content.len());
            out.0.extend_from_slice(content);
        }
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = Reader::new(payload);
        let gone = from.u32s()?;
        let recipe = match from.u8()? {
            0 => None,
            1 => {
                let kind = from.text()?;
                let bytes = from.count(1)?;
                Some(HookRecipe { kind, content: from.take(bytes)?.to_vec() })
            }
            kind => return Err(format!("a hook of form {kind}")),
        };
        from.end()?;
        Ok(Self { gone, recipe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_told_as_they_are() {
        let recipe = HookRecipe { kind: "some".to_owned(), content: vec![1, 2, 3] };
        for message in [HookMessage { gone: vec![4, 9], recipe: Some(recipe) }, HookMessage::default()] {
            let payload = message.encode();
            assert_eq!(HookMessage::decode(&payload).unwrap(), message);
            for cut in 0..payload.len() {
                assert!(HookMessage::decode(&payload[..cut]).is_err(), "{cut} bytes");
            }
        }
    }
}
