//! `tokenizer.model`: sentencepiece's `ModelProto`, a protobuf message (sentencepiece_model.proto).

use crate::tokenizer::TokenKind;

/// A sentencepiece vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SentencePiece {
    pub(super) pieces: Vec<SentencePieceToken>,
    pub(super) algorithm: SentencePieceAlgorithm,
    pub(super) bos: i64,
    pub(super) eos: i64,
    pub(super) unknown: i64,
    pub(super) pad: i64,
    pub(super) dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    /// The table of character replacements; empty without one.
    pub(super) characters: Vec<u8>,
}

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SentencePieceToken {
    pub(super) text: String,
    pub(super) score: f32,
    /// `SentencePiece.Type`; GGUF uses the same numbers.
    pub(super) kind: TokenKind,
}

/// `TrainerSpec.ModelType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentencePieceAlgorithm {
    Unigram,
    Pairs,
    Words,
    Characters,
}

impl SentencePiece {
    /// Reads the message; the error says what is wrong with it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        // The defaults of the message definition.
        let mut model = Self {
            pieces: Vec::new(),
            algorithm: SentencePieceAlgorithm::Unigram,
            bos: 1,
            eos: 2,
            unknown: 0,
            pad: -1,
            dummy_prefix: true,
            remove_extra_whitespaces: true,
            characters: Vec::new(),
        };
        each_field(bytes, |field, value| {
            match (field, value) {
                (1, ProtobufField::Bytes(piece)) => model.pieces.push(SentencePieceToken::read(piece)?),
                (2, ProtobufField::Bytes(trainer)) => model.trainer(trainer)?,
                (3, ProtobufField::Bytes(normalizer)) => model.normalizer(normalizer)?,
                _ => {}
            }
            Ok(())
        })?;
        match model.pieces.is_empty() {
            true => Err("it contains no tokens".to_owned()),
            false => Ok(model),
        }
    }

    fn trainer(&mut self, bytes: &[u8]) -> Result<(), String> {
        each_field(bytes, |field, value| {
            match (field, value) {
                (3, ProtobufField::Number(kind)) => {
                    self.algorithm = match kind {
                        1 => SentencePieceAlgorithm::Unigram,
                        2 => SentencePieceAlgorithm::Pairs,
                        3 => SentencePieceAlgorithm::Words,
                        4 => SentencePieceAlgorithm::Characters,
                        other => return Err(format!("unknown model type {other}; expected 1 to 4")),
                    }
                }
                (24, ProtobufField::Number(1)) => {
                    return Err("spaces after words are not supported".to_owned());
                }
                // Ids are int32: negative ones are written in ten bytes.
                (40, ProtobufField::Number(id)) => self.unknown = id as i64,
                (41, ProtobufField::Number(id)) => self.bos = id as i64,
                (42, ProtobufField::Number(id)) => self.eos = id as i64,
                (43, ProtobufField::Number(id)) => self.pad = id as i64,
                _ => {}
            }
            Ok(())
        })
    }

    fn normalizer(&mut self, bytes: &[u8]) -> Result<(), String> {
        each_field(bytes, |field, value| {
            match (field, value) {
                (2, ProtobufField::Bytes(map)) => self.characters = map.to_vec(),
                (3, ProtobufField::Number(flag)) => self.dummy_prefix = flag != 0,
                (4, ProtobufField::Number(flag)) => self.remove_extra_whitespaces = flag != 0,
                (5, ProtobufField::Number(0)) => {
                    return Err("unchanged spaces are not supported".to_owned());
                }
                _ => {}
            }
            Ok(())
        })
    }
}

impl SentencePieceToken {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut piece = Self { text: String::new(), score: 0.0, kind: TokenKind::Normal };
        each_field(bytes, |field, value| {
            match (field, value) {
                (1, ProtobufField::Bytes(text)) => {
                    let text = std::str::from_utf8(text).map_err(|_| "a token is not UTF-8".to_owned())?;
                    piece.text = text.to_owned();
                }
                (2, ProtobufField::Four(score)) => piece.score = f32::from_le_bytes(score),
                (3, ProtobufField::Number(kind)) => {
                    let known = i64::try_from(kind).ok().filter(|kind| *kind != 0);
                    piece.kind = known
                        .and_then(TokenKind::from_id)
                        .ok_or_else(|| format!("a token has the unknown type {kind}; expected 1 to 6"))?;
                }
                _ => {}
            }
            Ok(())
        })?;
        match piece.score.is_nan() {
            true => Err(format!("the score of {:?} is not a number", piece.text)),
            false => Ok(piece),
        }
    }
}

/// A value of a message, by wire type.
enum ProtobufField<'b> {
    Number(u64),
    Bytes(&'b [u8]),
    Four([u8; 4]),
    /// Eight bytes; no field used here has this type.
    Eight,
}

/// Calls `take` with each field's number and value.
fn each_field(
    bytes: &[u8],
    mut take: impl FnMut(u64, ProtobufField<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = bytes;
    let cut = || "it ends in the middle of a value".to_owned();
    while !rest.is_empty() {
        let key = varint(&mut rest).ok_or_else(cut)?;
        let value = match key & 7 {
            0 => ProtobufField::Number(varint(&mut rest).ok_or_else(cut)?),
            1 => {
                rest = rest.get(8..).ok_or_else(cut)?;
                ProtobufField::Eight
            }
            2 => {
                let length = usize::try_from(varint(&mut rest).ok_or_else(cut)?).map_err(|_| cut())?;
                let (own, after) = rest.split_at_checked(length).ok_or_else(cut)?;
                rest = after;
                ProtobufField::Bytes(own)
            }
            5 => {
                let (own, after) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
                rest = after;
                ProtobufField::Four(*own)
            }
            other => {
                return Err(format!("a value is of the wire type {other}, which this format does not use"));
            }
        };
        take(key >> 3, value)?;
    }
    Ok(())
}

/// A number of one to ten bytes, seven bits in each, the lowest first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fixture() -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tok/spm/tokenizer.model");
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_trained_vocabulary_is_read() {
        let model = SentencePiece::read(&fixture()).unwrap();
        assert_eq!(model.pieces.len(), 380);
        assert_eq!(
            (model.algorithm, model.unknown, model.bos, model.eos, model.pad),
            (SentencePieceAlgorithm::Pairs, 0, 1, 2, -1)
        );
        assert!(model.dummy_prefix && !model.remove_extra_whitespaces && model.characters.is_empty());
        let kinds: Vec<TokenKind> = model.pieces.iter().take(4).map(|piece| piece.kind).collect();
        assert_eq!(kinds, [TokenKind::Unknown, TokenKind::Control, TokenKind::Control, TokenKind::Byte]);
        assert_eq!(model.pieces[3].text, "<0x00>");
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_another_vocabulary(at in 0usize..5933, byte: u8, cut in 0usize..5933) {
            let mut bytes = fixture();
            bytes[at] = byte;
            let _ = SentencePiece::read(&bytes);
            bytes.truncate(cut);
            let _ = SentencePiece::read(&bytes);
        }
    }
}
