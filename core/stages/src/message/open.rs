//! [`OpenMessage`]: the sizes of the states of a request.

use crate::frame::payload::{PayloadReader, PayloadWriter};
use menagerie_model::{KvType, PoolOptions};

/// The sizes of the states of a request, the same in all stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenMessage {
    pub(crate) options: PoolOptions,
    /// The attention windows, in the order of the page tables.
    pub(crate) windows: Vec<Option<usize>>,
}

impl OpenMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let PoolOptions {
            kv_type,
            capacity_tokens,
            page_len,
            max_sequence_tokens,
            sequences,
            step_tokens,
            sets,
        } = self.options;
        let mut out = PayloadWriter::default();
        out.text(kv_type.name());
        for number in [capacity_tokens, page_len, max_sequence_tokens, sequences, step_tokens, sets] {
            out.count(number);
        }
        out.count(self.windows.len());
        for window in &self.windows {
            out.u64(window.map_or(u64::MAX, |window| window as u64));
        }
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = PayloadReader::new(payload);
        let name = from.text()?;
        let options = PoolOptions {
            kv_type: KvType::from_name(&name).ok_or_else(|| format!("unknown KV cache type {name}"))?,
            capacity_tokens: from.number()?,
            page_len: from.number()?,
            max_sequence_tokens: from.number()?,
            sequences: from.number()?,
            step_tokens: from.number()?,
            sets: from.number()?,
        };
        let count = from.count(8)?;
        let window = |value: u64| match value {
            u64::MAX => Ok(None),
            value => usize::try_from(value)
                .map(Some)
                .map_err(|_| format!("the window {value} is too large for this machine")),
        };
        let windows = (0..count).map(|_| window(from.u64()?)).collect::<Result<_, String>>()?;
        from.end()?;
        Ok(Self { options, windows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip() {
        let options = PoolOptions { page_len: 7, ..PoolOptions::sequences(KvType::Q8_0, 3, 100) };
        let message = OpenMessage { options, windows: vec![None, Some(12)] };
        let payload = message.encode();
        assert_eq!(OpenMessage::decode(&payload).unwrap(), message);
        for cut in 0..payload.len() {
            assert!(OpenMessage::decode(&payload[..cut]).is_err(), "{cut} bytes");
        }
    }
}
