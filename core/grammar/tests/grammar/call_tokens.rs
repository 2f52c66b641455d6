//! [`CallTokens`]: a small vocabulary of bytes, pieces and control tokens.

use menagerie_engine::{TextError, TextStream, Tokenizing};

/// Pieces of text beside single bytes.
const PIECES: [&str; 14] = [
    "</",
    "{\"",
    "\": ",
    "\", \"",
    "name",
    "arguments",
    "parameter",
    "\n\n",
    ">\n",
    ", ",
    "é",
    "get",
    "_weather",
    " <",
];

pub(crate) struct CallTokens {
    /// Texts after the 256 bytes: pieces, then control tokens.
    names: Vec<String>,
    ends: Vec<u32>,
}

impl CallTokens {
    /// A vocabulary with these control tokens, of which the first `ends` end an answer.
    pub(crate) fn new(controls: &[&str], ends: usize) -> Self {
        let names: Vec<String> = PIECES.iter().chain(controls).map(|name| (*name).to_owned()).collect();
        let first = 256 + PIECES.len() as u32;
        Self { names, ends: (first..first + ends as u32).collect() }
    }

    fn name(&self, id: u32) -> Option<&str> {
        self.names.get((id as usize).checked_sub(256)?).map(String::as_str)
    }
}

struct NoStream;

impl TextStream for NoStream {
    fn push(&mut self, _: u32) -> Result<String, TextError> {
        Err(TextError::new("not in these tests"))
    }

    fn finish(&mut self) -> String {
        String::new()
    }
}

impl Tokenizing for CallTokens {
    fn vocabulary(&self) -> usize {
        256 + self.names.len()
    }

    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError> {
        self.encode(text)
    }

    fn encode_prompt_within(&self, _: &str, _: usize) -> Result<(Vec<u32>, usize), TextError> {
        Err(TextError::new("not in these tests"))
    }

    fn beginning(&self) -> Option<u32> {
        None
    }

    fn encode_pair(&self, _: &str, _: &str) -> Result<(Vec<u32>, usize), TextError> {
        Err(TextError::new("not in these tests"))
    }

    fn encode_pair_within(
        &self,
        _: &str,
        _: &str,
        _: usize,
    ) -> Result<((Vec<u32>, usize), usize), TextError> {
        Err(TextError::new("not in these tests"))
    }

    /// The longest piece at each place.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        let mut rest = text.as_bytes();
        while let Some(&byte) = rest.first() {
            let pieces = PIECES.iter().zip(256..).filter(|(piece, _)| rest.starts_with(piece.as_bytes()));
            let longest = pieces.max_by_key(|(piece, _)| piece.len());
            let (length, id) = longest.map_or((1, u32::from(byte)), |(piece, id)| (piece.len(), id));
            ids.push(id);
            rest = &rest[length..];
        }
        Ok(ids)
    }

    fn piece(&self, id: u32) -> String {
        String::from_utf8_lossy(&self.bytes(id)).into_owned()
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        match u8::try_from(id) {
            Ok(byte) => vec![byte],
            Err(_) => self.name(id).unwrap_or_default().as_bytes().to_vec(),
        }
    }

    fn is_control(&self, id: u32) -> bool {
        id as usize >= 256 + PIECES.len() && self.name(id).is_some()
    }

    fn control_text(&self, id: u32) -> Option<String> {
        self.name(id).filter(|_| self.is_control(id)).map(str::to_owned)
    }

    fn end_of_generation(&self) -> &[u32] {
        &self.ends
    }

    fn stream(&self) -> Box<dyn TextStream + Send> {
        Box::new(NoStream)
    }
}
