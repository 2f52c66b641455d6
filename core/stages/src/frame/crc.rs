//! [`crc32c`]: the checksum of frames (Castagnoli's polynomial, as in iSCSI, RFC 3720 B.4).

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// `TABLES[k][b]`: the sum of byte `b` followed by `k` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of the concatenated `parts`.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |sum, part| continued(sum, part))
}

/// Processes eight bytes at a time, whose tables are looked up independently.
fn continued(mut sum: u32, bytes: &[u8]) -> u32 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(*chunk) ^ u64::from(sum)).to_le_bytes();
        let of = |table: usize, byte: u8| TABLES[table][usize::from(byte)];
        sum = of(7, a) ^ of(6, b) ^ of(5, c) ^ of(4, d) ^ of(3, e) ^ of(2, f) ^ of(1, g) ^ of(0, h);
    }
    for byte in rest {
        sum = (sum >> 8) ^ TABLES[0][((sum ^ u32::from(*byte)) & 0xFF) as usize];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 B.4, and the check value of the catalog of parametrized CRC algorithms.
    #[test]
    fn published_values() {
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[&[0; 32]]), 0x8A91_36AA);
        assert_eq!(crc32c(&[&[0xFF; 32]]), 0x62A8_AB43);
        assert_eq!(crc32c(&[&rising]), 0x46DD_794E);
        assert_eq!(crc32c(&[b"123456789"]), 0xE306_9283);
        assert_eq!(crc32c(&[b"1234", b"", b"56789"]), 0xE306_9283);
    }
}
