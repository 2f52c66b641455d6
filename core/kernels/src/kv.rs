//! Keys and values of a sequence as attention reads them, and the conversion of f32 rows to that format.

use std::ops::Range;

use half::f16;
use menagerie_formulas::KvType;

use crate::error::KernelError;
use crate::isa::DetectedIsa;
use crate::simd::{Kernel, LANES, Simd, dispatch_at};

/// Elements of a `Q8_0` block.
pub(crate) const Q8_0_LEN: usize = KvType::Q8_0_LEN;
/// Bytes of a `Q8_0` block: an f16 scale, then 32 signed bytes.
pub(crate) const Q8_0_BYTES: usize = KvType::Q8_0_BYTES;

/// Keys or values of one sequence inside a store's buffer: token `p` is the row
/// `pages[p / page_len - first_page] * page_len + p % page_len` of `bytes`, rows having `heads * head_dim` elements.
/// A contiguous cache is one page. A window's cache has dropped the pages before `first_page`, none of whose tokens
/// a query may see.
#[derive(Debug, Clone, Copy)]
pub struct KvRows<'a> {
    /// The format of the elements.
    pub kind: KvType,
    /// Key-value heads per row.
    pub heads: usize,
    /// Elements per head; for `Q8_0` a multiple of 32.
    pub head_dim: usize,
    /// The store's buffer.
    pub bytes: &'a [u8],
    /// Rows per page.
    pub page_len: usize,
    /// The pages of the sequence that are still held, in order.
    pub pages: &'a [u32],
    /// How many pages came before them: `pages[i]` is page `first_page + i` of the sequence.
    pub first_page: usize,
}

impl KvRows<'_> {
    /// Bytes of one row.
    ///
    /// # Errors
    /// [`KernelError::Unsupported`]: a head is not a whole number of blocks of the format.
    pub fn row_bytes(&self) -> Result<usize, KernelError> {
        let head = self.kind.row_bytes(self.head_dim).ok_or_else(|| {
            let detail =
                format!("heads of {} elements in q8_0: a multiple of {Q8_0_LEN} is needed", self.head_dim);
            KernelError::unsupported("KvRows", detail)
        })?;
        head.checked_mul(self.heads).ok_or_else(|| KernelError::shape("KvRows", "a row larger than memory"))
    }

    /// The first position that is held.
    pub(crate) fn first_position(&self) -> usize {
        self.first_page.saturating_mul(self.page_len)
    }

    /// Checks that the rows of `positions` are held and lie inside the buffer, and so do all rows from the first one
    /// that is held to the end of `positions`.
    pub(crate) fn check(&self, what: &'static str, positions: Range<usize>) -> Result<(), KernelError> {
        let row_bytes = self.row_bytes()?;
        if positions.is_empty() {
            return Ok(());
        }
        let held = self.pages.len();
        if self.page_len == 0 || self.first_page.saturating_add(held) < positions.end.div_ceil(self.page_len)
        {
            let (before, end) = (self.first_page, positions.end);
            let detail =
                format!("{held} pages of {} rows after {before} hold no {end} positions", self.page_len);
            return Err(KernelError::shape(what, detail));
        }
        if positions.start < self.first_position() {
            let (first, seen) = (self.first_position(), positions.start);
            let detail = format!("position {seen} is seen, but those before {first} have been dropped");
            return Err(KernelError::shape(what, detail));
        }
        let rows = positions.end - self.first_position();
        for (index, &page) in self.pages[..rows.div_ceil(self.page_len)].iter().enumerate() {
            let used = self.page_len.min(rows - index * self.page_len);
            let end = (page as usize)
                .checked_mul(self.page_len)
                .and_then(|row| row.checked_add(used))
                .and_then(|row| row.checked_mul(row_bytes));
            if end.is_none_or(|end| end > self.bytes.len()) {
                let size = self.bytes.len();
                let detail =
                    format!("page {page} ({used} rows of {row_bytes} bytes) ends outside {size} bytes");
                return Err(KernelError::shape(what, detail));
            }
        }
        Ok(())
    }

    /// The row of the buffer that holds position `position`, which `check` covered.
    #[inline(always)]
    pub(crate) fn row_of(&self, position: usize) -> usize {
        let page = self.pages[position / self.page_len - self.first_page];
        page as usize * self.page_len + position % self.page_len
    }
}

/// Writes f32 elements in the cache's format; finite elements give the same bits on every instruction set. `src` may be
/// any number of rows (for `Q8_0` whole blocks). Elements that are not finite are not finite when they are read back.
///
/// # Errors
/// [`KernelError::Shape`]: the length of `dst` differs from that of the result.
pub fn store_rows(kind: KvType, src: &[f32], dst: &mut [u8]) -> Result<(), KernelError> {
    let expected = kind.row_bytes(src.len()).ok_or_else(|| {
        KernelError::shape(
            "store_rows",
            format!("{} elements are no whole q8_0 blocks of {Q8_0_LEN}", src.len()),
        )
    })?;
    if dst.len() != expected {
        let detail =
            format!("{} bytes for {} elements of {}, expected {expected}", dst.len(), src.len(), kind.name());
        return Err(KernelError::shape("store_rows", detail));
    }
    match kind {
        KvType::F32 => {
            let (words, _) = dst.as_chunks_mut::<4>();
            for (word, value) in words.iter_mut().zip(src) {
                *word = value.to_ne_bytes();
            }
        }
        KvType::F16 => dispatch_at(DetectedIsa::best(), StoreF16 { src, dst }),
        KvType::Q8_0 => dispatch_at(DetectedIsa::best(), StoreQ8 { src, dst }),
    }
    Ok(())
}

/// Reads the rows of `positions`, `[positions, heads * head_dim]`, as f32.
///
/// # Errors
/// [`KernelError::Shape`]: some positions are not held, or the length of `out` differs from that of the rows.
pub fn load_rows(rows: &KvRows, positions: Range<usize>, out: &mut [f32]) -> Result<(), KernelError> {
    rows.check("load_rows", positions.clone())?;
    let (row_bytes, width) = (rows.row_bytes()?, rows.heads * rows.head_dim);
    if out.len() != positions.len() * width {
        let detail = format!("{} elements for {} rows of {width}", out.len(), positions.len());
        return Err(KernelError::shape("load_rows", detail));
    }
    for (position, out) in positions.zip(out.chunks_exact_mut(width.max(1))) {
        let row = rows.row_of(position) * row_bytes;
        let bytes = &rows.bytes[row..row + row_bytes];
        match rows.kind {
            KvType::F32 => {
                for (value, word) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *value = f32::from_ne_bytes(*word);
                }
            }
            KvType::F16 => dispatch_at(DetectedIsa::best(), LoadF16 { bytes, out }),
            KvType::Q8_0 => load_q8(bytes, out),
        }
    }
    Ok(())
}

struct LoadF16<'a> {
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl Kernel for LoadF16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (vectors, rest) = self.out.as_chunks_mut::<LANES>();
        let (places, rest_places) = self.bytes.as_chunks::<{ 2 * LANES }>();
        for (vector, place) in vectors.iter_mut().zip(places) {
            // SAFETY: `place` is 32 bytes, sixteen f16.
            s.store(vector, unsafe { s.load_f16_ptr(place.as_ptr()) });
        }
        for (value, place) in rest.iter_mut().zip(rest_places.as_chunks::<2>().0) {
            *value = f16::from_ne_bytes(*place).to_f32();
        }
    }
}

fn load_q8(bytes: &[u8], out: &mut [f32]) {
    for (block, values) in bytes.as_chunks::<Q8_0_BYTES>().0.iter().zip(out.chunks_exact_mut(Q8_0_LEN)) {
        let scale = f16::from_ne_bytes([block[0], block[1]]).to_f32();
        for (value, quant) in values.iter_mut().zip(&block[2..]) {
            *value = scale * f32::from(*quant as i8);
        }
    }
}

struct StoreF16<'a> {
    src: &'a [f32],
    dst: &'a mut [u8],
}

impl Kernel for StoreF16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (vectors, rest) = self.src.as_chunks::<LANES>();
        let (places, rest_places) = self.dst.as_chunks_mut::<{ 2 * LANES }>();
        for (vector, place) in vectors.iter().zip(places) {
            // SAFETY: `place` is 32 bytes, sixteen f16.
            unsafe { s.store_f16_ptr(place.as_mut_ptr(), s.load(vector)) };
        }
        for (value, place) in rest.iter().zip(rest_places.as_chunks_mut::<2>().0) {
            *place = f16::from_f32(*value).to_ne_bytes();
        }
    }
}

struct StoreQ8<'a> {
    src: &'a [f32],
    dst: &'a mut [u8],
}

impl Kernel for StoreQ8<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (blocks, _) = self.src.as_chunks::<Q8_0_LEN>();
        let (places, _) = self.dst.as_chunks_mut::<Q8_0_BYTES>();
        for (block, place) in blocks.iter().zip(places) {
            let (halves, _) = block.as_chunks::<LANES>();
            let (low, high) = (s.load(&halves[0]), s.load(&halves[1]));
            let size = s.largest(s.max(s.abs(low), s.abs(high)));
            // A maximum ignores a NaN; zero times a NaN does not.
            let finite = s.sum(s.mul(s.add(low, high), s.splat(0.0))) == 0.0;
            let scale = if finite { f16::from_f32(size / 127.0) } else { f16::NAN };
            let inverse = if scale.to_f32() > 0.0 { 1.0 / scale.to_f32() } else { 0.0 };
            place[..2].copy_from_slice(&scale.to_ne_bytes());
            for (vector, quants) in [low, high].into_iter().zip(place[2..].as_chunks_mut::<LANES>().0) {
                // The scale may have been rounded down: stay off -128.
                let value = s.mul(vector, s.splat(inverse));
                let value = s.min(s.splat(127.0), s.max(s.splat(-127.0), value));
                // SAFETY: `quants` is sixteen bytes.
                unsafe { s.store_i8_ptr(quants.as_mut_ptr(), value) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.37).collect()
    }

    #[test]
    fn f16_is_what_the_half_crate_says() {
        let mut values = ramp(77);
        values.extend([0.0, -0.0, 1e-7, 6e-8, 65504.0, 65519.9, 65520.0, -1e9, f32::INFINITY, 0.333_333]);
        let mut bytes = vec![0; values.len() * 2];
        store_rows(KvType::F16, &values, &mut bytes).unwrap();
        for (value, pair) in values.iter().zip(bytes.chunks(2)) {
            assert_eq!(f16::from_ne_bytes([pair[0], pair[1]]), f16::from_f32(*value), "{value}");
        }
    }

    #[test]
    fn q8_0_is_within_half_a_step() {
        let mut values = ramp(96);
        values[64..].fill(0.0);
        let mut bytes = vec![0; 3 * Q8_0_BYTES];
        store_rows(KvType::Q8_0, &values, &mut bytes).unwrap();
        for (block, stored) in values.chunks(32).zip(bytes.chunks(Q8_0_BYTES)) {
            let scale = f16::from_ne_bytes([stored[0], stored[1]]).to_f32();
            for (value, quant) in block.iter().zip(&stored[2..]) {
                let back = scale * f32::from(*quant as i8);
                assert!((back - value).abs() <= 0.51 * scale, "{value} {back} {scale}");
            }
        }
    }

    #[test]
    fn q8_0_is_the_same_bytes_on_every_instruction_set() {
        let values: Vec<f32> = ramp(32 * 40).iter().enumerate().map(|(i, v)| v * (i / 32) as f32).collect();
        let run = |isa| {
            let mut bytes = vec![0; 40 * Q8_0_BYTES];
            let cpu = crate::cpu::Cpu::with_isa(Some(1), isa).unwrap();
            crate::simd::dispatch(&cpu, StoreQ8 { src: &values, dst: &mut bytes });
            bytes
        };
        let portable = run(crate::isa::Isa::Portable);
        assert!(portable[2 * Q8_0_BYTES + 2..].iter().any(|&byte| byte as i8 == -127));
        for isa in crate::isa::Isa::available() {
            assert!(run(isa) == portable, "{isa}");
        }
    }

    #[test]
    fn f32_is_a_copy_and_wrong_lengths_are_refused() {
        let values = ramp(5);
        let mut bytes = vec![0; 20];
        store_rows(KvType::F32, &values, &mut bytes).unwrap();
        assert_eq!(bytes[8..12], values[2].to_ne_bytes());
        assert!(store_rows(KvType::F32, &values, &mut bytes[1..]).is_err());
        assert!(store_rows(KvType::Q8_0, &values, &mut bytes).is_err());
    }

    #[test]
    fn pages_outside_the_buffer_are_refused() {
        let bytes = vec![0u8; 4 * 2 * 6];
        let rows = |pages, first_page| KvRows {
            kind: KvType::F32,
            heads: 1,
            head_dim: 2,
            bytes: &bytes,
            page_len: 2,
            pages,
            first_page,
        };
        assert!(rows(&[2, 0], 0).check("keys", 0..4).is_ok());
        assert!(rows(&[0, 2], 0).check("keys", 0..3).is_ok());
        assert!(rows(&[3], 0).check("keys", 0..1).is_err());
        assert!(rows(&[0], 0).check("keys", 0..3).is_err());
        assert_eq!(rows(&[2, 0], 0).row_of(1), 5);
        assert!(KvRows { kind: KvType::Q8_0, ..rows(&[0], 0) }.check("keys", 0..1).is_err());
        // The first pages of a window's cache have been dropped.
        assert!(rows(&[2, 0], 3).check("keys", 6..10).is_ok());
        assert_eq!(rows(&[2, 0], 3).row_of(8), 0);
        assert!(rows(&[2, 0], 3).check("keys", 5..10).is_err());
        assert!(rows(&[2, 0], 3).check("keys", 6..11).is_err());
        assert!(rows(&[2, 0], usize::MAX).check("keys", 6..10).is_err());
    }
}
