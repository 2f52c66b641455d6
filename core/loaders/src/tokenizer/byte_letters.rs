//! GPT-2's letters for bytes (encoder.py, `bytes_to_unicode`): printable ones stand for themselves, others for U+0100 up.

/// The letter of a byte.
pub(crate) fn letter(byte: u8) -> char {
    let code = u32::from(byte);
    let code = match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x00..=0x20 => 0x100 + code,
        0x7F..=0xA0 => 0x100 + 0x21 + code - 0x7F,
        0xAD => 0x100 + 0x43,
    };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte of a letter, if it is one of the 256 letters.
pub(crate) fn byte(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    let code = match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(code).ok()
}

/// Text as letters, one per byte.
pub(crate) fn to_letters(text: &str) -> String {
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_gpt2s() {
        // From GPT-2's encoder.py: the other bytes in order, from U+0100.
        let others: Vec<u8> =
            (0..=255u8).filter(|b| !matches!(b, 33..=126 | 161..=172 | 174..=255)).collect();
        for (n, b) in others.iter().enumerate() {
            assert_eq!(letter(*b) as usize, 256 + n);
        }
        assert_eq!((letter(b' '), letter(b'\n'), letter(b'a')), ('Ġ', 'Ċ', 'a'));
        assert!((0..=255u8).all(|b| byte(letter(b)) == Some(b)));
        assert_eq!(byte('\u{144}'), None);
        assert_eq!(byte(' '), None);
    }
}
