//! [`ByteTokenizer`]: one token per byte.

/// Ids 0 to 255 are bytes, 256 begins and 257 ends a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteTokenizer;

impl ByteTokenizer {
    /// Id that begins a text.
    pub const BEGIN: u32 = 256;
    /// Id that ends a text.
    pub const END: u32 = 257;
    /// Number of ids.
    pub const VOCABULARY: usize = 258;

    /// The bytes as ids.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    /// The bytes of the ids; the others are left out.
    pub fn decode_bytes(&self, ids: &[u32]) -> Vec<u8> {
        ids.iter().filter_map(|id| u8::try_from(*id).ok()).collect()
    }

    /// As text; broken UTF-8 is replaced.
    pub fn decode(&self, ids: &[u32]) -> String {
        String::from_utf8_lossy(&self.decode_bytes(ids)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        let ids = ByteTokenizer.encode("grün");
        assert_eq!(ids.len(), 5);
        assert_eq!(ByteTokenizer.decode(&ids), "grün");
    }
}
