//! What the tables hold, entry by entry.

/// How a vocabulary cuts text before merging, and what goes with it (`[[pre]]`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PreTokenizerEntry {
    /// Applied one after the other to every piece the one before it left.
    pub(crate) regexes: Vec<String>,
    /// A piece that is a token is that token, whatever the merges say.
    pub(crate) ignore_merges: bool,
    /// Whether the beginning-of-sequence token is put first where the file does not say.
    pub(crate) add_bos: bool,
    /// Tokens hold text with U+2581 for spaces, not GPT-2's byte letters.
    pub(crate) text: bool,
}

/// How text becomes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// SentencePiece's byte pair encoding, by scores.
    Spm,
    /// Byte pair encoding by merges.
    Bpe,
    /// BERT's words, covered by the longest tokens.
    WordPiece,
    /// SentencePiece's unigram model, by the sum of scores.
    Unigram,
    /// The longest token first.
    Longest,
    /// The smallest sum of costs, bytes for what has no token.
    Cheapest,
}

impl Algorithm {
    /// All of them, by the names that tables have for them.
    pub(crate) const NAMES: [(&str, Self); 6] = [
        ("spm", Self::Spm),
        ("bpe", Self::Bpe),
        ("wordpiece", Self::WordPiece),
        ("unigram", Self::Unigram),
        ("longest", Self::Longest),
        ("cheapest", Self::Cheapest),
    ];
}

/// What a value of `tokenizer.ggml.model` stands for (`[[vocabulary]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VocabularyKind {
    /// An algorithm that is there; `pre` is the pre-tokenizer that goes with the name, whatever the file says.
    Known { algorithm: Algorithm, pre: Option<String> },
    /// A registered tokenizer, `author/name:tokenizer`, with its options.
    Codec { name: String, options: Vec<(String, String)> },
    /// One that is not, in words.
    Refused { what: String },
}

/// A special token that ends a generation, by key or by text (`[[fill_in_the_middle]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FillIn {
    pub(crate) key: String,
    /// Looked for in this order where the file lacks the key.
    pub(crate) texts: Vec<String>,
}

/// A text that does not end a generation beside certain others (`[[not_end]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotEnd {
    pub(crate) text: String,
    /// One text of every list ends a generation.
    pub(crate) beside: Vec<Vec<String>>,
    /// Whether it is ordinary text then.
    pub(crate) plain: bool,
}

/// Special tokens that take the white space after them along (`[[strip_after]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripAfter {
    /// `tokenizer.ggml.model`.
    pub(crate) model: String,
    /// The vocabulary has all of these.
    pub(crate) tokens: Vec<String>,
    /// Tokens that do so beside the special ones.
    pub(crate) also: Vec<String>,
    /// Special tokens that do not.
    pub(crate) except: Vec<String>,
}

/// A vocabulary of bytes in the order of their merging, whose file says nothing else (`[[ranked]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RankedKind {
    /// Applied one after the other; none where the file has its own.
    pub(crate) regexes: Vec<String>,
    /// Special tokens, in the order of their ids, behind (or before) all others.
    pub(crate) specials: Vec<String>,
    /// What further ones are called, `{}` being their number, and how many there are.
    pub(crate) numbered: Option<(String, usize)>,
    /// Put before each text.
    pub(crate) opening: Vec<String>,
    /// Whether text is composed (NFC) first.
    pub(crate) composed: bool,
}

/// The tags around a model's reasoning (`[[reasoning]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasoningPair {
    /// Opening tag.
    pub open: String,
    /// Closing tag.
    pub close: String,
    /// Whether it is looked for in every model, not only where the chat template contains one of the two.
    pub always: bool,
}
