//! [`World`]: the tokenizer of RWKV's "world" vocabulary.

use menagerie_plugin::{Build, Component, Error, Result, Tokenizer};

/// The longest token first, over bytes (the trie tokenizer of ChatRWKV).
///
/// Tokens need not be UTF-8, so files have them as Python writes bytes: `\n`, `\x80`.
pub struct World {
    nodes: Vec<Node>,
    /// The bytes of each token.
    tokens: Vec<Vec<u8>>,
}

/// A beginning of tokens.
#[derive(Default)]
struct Node {
    /// The token that ends here.
    token: Option<u32>,
    /// The next byte and its node, in order.
    next: Vec<(u8, u32)>,
}

/// GGUF's types of tokens that text becomes: normal ones, and those of the user.
const TEXT: [i32; 2] = [1, 4];

impl Component for World {
    const NAME: &'static str = "world";
    const DOC: &'static str = "RWKV's \"world\" vocabulary: the longest token first, over bytes.";
    type Options = ();

    fn create((): (), build: &mut Build) -> Result<Self> {
        let vocabulary = build.vocabulary()?.ok_or_else(|| {
            Error::new("the model has no vocabulary; expected a file with tokenizer.ggml.tokens")
        })?;
        let mut world = World { nodes: vec![Node::default()], tokens: Vec::new() };
        for id in 0..vocabulary.tokens() {
            let token = vocabulary.token(id)?;
            let bytes = unescaped(token.text);
            if TEXT.contains(&token.kind) && !bytes.is_empty() {
                world.insert(&bytes, id);
            }
            world.tokens.push(bytes);
        }
        Ok(world)
    }
}

impl World {
    /// Of two tokens with the same bytes the first is taken.
    fn insert(&mut self, bytes: &[u8], id: u32) {
        let mut at = 0;
        for byte in bytes {
            let place = self.nodes[at].next.binary_search_by_key(byte, |(byte, _)| *byte);
            at = match place {
                Ok(found) => self.nodes[at].next[found].1 as usize,
                Err(free) => {
                    let new = self.nodes.len();
                    self.nodes[at].next.insert(free, (*byte, new as u32));
                    self.nodes.push(Node::default());
                    new
                }
            };
        }
        self.nodes[at].token.get_or_insert(id);
    }

    /// The longest token that the bytes begin with, and its length.
    fn longest(&self, bytes: &[u8]) -> Option<(u32, usize)> {
        let (mut at, mut found) = (0, None);
        for (index, byte) in bytes.iter().enumerate() {
            let next = &self.nodes[at].next;
            let Ok(place) = next.binary_search_by_key(byte, |(byte, _)| *byte) else { break };
            at = next[place].1 as usize;
            found = self.nodes[at].token.map(|token| (token, index + 1)).or(found);
        }
        found
    }
}

impl Tokenizer for World {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut rest = text.as_bytes();
        while let Some(byte) = rest.first() {
            let (id, length) = self
                .longest(rest)
                .ok_or_else(|| Error::new(format!("no token begins with the byte 0x{byte:02X}")))?;
            ids.push(id);
            rest = &rest[length..];
        }
        Ok(())
    }

    fn decode(&self, id: u32, bytes: &mut Vec<u8>) -> Result<()> {
        let count = self.tokens.len();
        let token = self.tokens.get(id as usize);
        let token =
            token.ok_or_else(|| Error::new(format!("token {id} is past the vocabulary of {count}")))?;
        bytes.extend_from_slice(token);
        Ok(())
    }
}

/// The bytes of a token as Python writes them: `\t`, `\n`, `\r`, `\xNN`; any other character after `\` is itself.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let byte = match character {
            '\\' => match rest.next() {
                Some('t') => Some(b'\t'),
                Some('n') => Some(b'\n'),
                Some('r') => Some(b'\r'),
                Some('x') => {
                    let mut digit = || rest.next().and_then(|digit| digit.to_digit(16));
                    let (high, low) = (digit(), digit());
                    // Two digits are a byte; what is written otherwise is no byte at all.
                    high.zip(low).map(|(high, low)| (high * 16 + low) as u8)
                }
                Some(other) => {
                    bytes.extend(other.to_string().bytes());
                    None
                }
                None => None,
            },
            plain => {
                bytes.extend(plain.to_string().bytes());
                None
            }
        };
        bytes.extend(byte);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(tokens: &[&str]) -> World {
        let mut world = World { nodes: vec![Node::default()], tokens: Vec::new() };
        for (id, token) in tokens.iter().enumerate() {
            world.insert(&unescaped(token), id as u32);
            world.tokens.push(unescaped(token));
        }
        world
    }

    #[test]
    fn the_longest_token_wins_and_bytes_come_back() {
        let world =
            world(&["a", "ab", "abcd", "b", "c", "\\n\\n", "\\n", "\\xe6\\x97", "\\xa5", "\\\\", "\\'"]);
        let mut ids = Vec::new();
        world.encode("abcab\n\n\n日\\'", &mut ids).unwrap();
        assert_eq!(ids, [1, 4, 1, 5, 6, 7, 8, 9, 10]);
        let mut bytes = Vec::new();
        ids.iter().for_each(|id| world.decode(*id, &mut bytes).unwrap());
        assert_eq!(bytes, "abcab\n\n\n日\\'".as_bytes());
    }

    #[test]
    fn what_has_no_token_is_refused() {
        let world = world(&["a"]);
        let error = world.encode("az", &mut Vec::new()).unwrap_err();
        assert!(error.text().unwrap().contains("0x7A"), "{error}");
        assert!(world.decode(1, &mut Vec::new()).unwrap_err().text().unwrap().contains("vocabulary of 1"));
    }
}
