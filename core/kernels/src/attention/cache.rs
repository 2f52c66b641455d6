//! Reading keys and values from the cache: addresses of a block's rows, formats, f32 tiles.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

use super::BLOCK;
use crate::kv::{KvRows, Q8_0_BYTES, Q8_0_LEN};
use crate::simd::{LANES, Simd};
use menagerie_formulas::KvType;

/// The rows of a sequence; `KvRows::check` has passed for the visible positions, up to `total`.
#[derive(Clone, Copy)]
pub(super) struct CacheRows<'a> {
    rows: KvRows<'a>,
    total: usize,
    /// Elements of a head that are read.
    dim: usize,
    /// Bytes from a row to the next.
    row_bytes: usize,
    /// Bytes of a head that are read.
    head_bytes: usize,
    /// Bytes from a head to the next; 0 if all heads read the only one that is stored.
    head_step: usize,
}

/// The addresses of the 64 rows of a block. Rows past the last position repeat it, rows that were dropped repeat the
/// first one that is held: all may be read.
pub(super) type Addresses = [*const u8; BLOCK];

impl<'a> CacheRows<'a> {
    /// The first `dim` elements of `heads` heads; if only one head is stored, it serves all.
    pub(super) fn new(rows: KvRows<'a>, heads: usize, dim: usize, total: usize) -> CacheRows<'a> {
        let stored = rows.kind.row_bytes(rows.head_dim).unwrap_or(0);
        let head_bytes = rows.kind.row_bytes(dim).unwrap_or(0);
        let head_step = if rows.heads == heads { stored } else { 0 };
        CacheRows { rows, total, dim, row_bytes: stored * rows.heads, head_bytes, head_step }
    }

    /// Bytes from the beginning of a head to the end of the last one of `heads` heads.
    pub(super) fn span(&self, heads: usize) -> usize {
        heads.saturating_sub(1) * self.head_step + self.head_bytes
    }

    /// Bytes from a head to the one `heads` further on.
    pub(super) fn step(&self, heads: usize) -> usize {
        heads * self.head_step
    }

    pub(super) fn kind(&self) -> KvType {
        self.rows.kind
    }

    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    /// Where the rows of the positions `base..base + 64` begin, and `head`'s heads in them; at least one of them is
    /// held and below `total`.
    #[inline(never)]
    pub(super) fn addresses(&self, base: usize, head: usize) -> Addresses {
        let bytes = self.rows.bytes.as_ptr();
        let row_bytes = self.row_bytes;
        let mut out = [bytes; BLOCK];
        let count = BLOCK.min(self.total - base);
        let dropped = self.rows.first_position().saturating_sub(base);
        let mut done = dropped;
        while done < count {
            // One page at a time; `row_of` checks the page list.
            let in_page = (base + done) % self.rows.page_len;
            let run = (self.rows.page_len - in_page).min(count - done);
            let mut row = bytes.wrapping_add(self.rows.row_of(base + done) * row_bytes + self.step(head));
            for address in &mut out[done..done + run] {
                *address = row;
                row = row.wrapping_add(row_bytes);
            }
            done += run;
        }
        let (first, last) = (out[dropped], out[count - 1]);
        out[..dropped].fill(first);
        out[count..].fill(last);
        out
    }
}

/// The storage format of the elements of a head.
pub(super) trait KvFormat {
    /// Elements `16 * vector..` of the head at `head`.
    ///
    /// # Safety
    /// The sixteen elements must be inside the head, whose bytes must be readable.
    unsafe fn load<S: Simd>(s: S, head: *const u8, vector: usize) -> S::F;

    /// Elements `32 * pair..` of the head at `head`, as two vectors.
    ///
    /// # Safety
    /// The 32 elements must be inside the head, whose bytes must be readable.
    #[inline(always)]
    unsafe fn load_pair<S: Simd>(s: S, head: *const u8, pair: usize) -> [S::F; 2] {
        // SAFETY: the caller's contract.
        unsafe { [Self::load(s, head, 2 * pair), Self::load(s, head, 2 * pair + 1)] }
    }

    /// The factors that `quarters` applies to the elements `32 * pair..` of the heads at `heads`, one head per quarter.
    ///
    /// # Safety
    /// As for `load_pair`.
    #[inline(always)]
    unsafe fn factors<S: Simd>(s: S, _heads: [*const u8; 4], _pair: usize) -> S::F {
        s.splat(1.0)
    }

    /// Elements `16 * vector..` of four heads: vector `m` holds in its quarter `k` the elements `4 m..4 m + 4` of head
    /// `k`. `factors` are those of the pair that the vector belongs to.
    ///
    /// # Safety
    /// As for `load`.
    unsafe fn quarters<S: Simd>(s: S, heads: [*const u8; 4], vector: usize, factors: S::F) -> [S::F; 4];

    /// Element `index` of the head at `head`.
    ///
    /// # Safety
    /// As for `load`.
    unsafe fn element<S: Simd>(s: S, head: *const u8, index: usize) -> f32;
}

pub(super) struct KvF32;
pub(super) struct KvF16;
pub(super) struct KvQ8;

impl KvFormat for KvF32 {
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, head: *const u8, vector: usize) -> S::F {
        // SAFETY: the caller's contract.
        unsafe { s.load_ptr(head.cast::<f32>().add(vector * LANES)) }
    }

    #[inline(always)]
    unsafe fn quarters<S: Simd>(s: S, heads: [*const u8; 4], vector: usize, _: S::F) -> [S::F; 4] {
        // SAFETY: the caller's contract.
        unsafe {
            let (a, b) = (Self::load(s, heads[0], vector), Self::load(s, heads[1], vector));
            s.transpose_quarters([a, b, Self::load(s, heads[2], vector), Self::load(s, heads[3], vector)])
        }
    }

    #[inline(always)]
    unsafe fn element<S: Simd>(_: S, head: *const u8, index: usize) -> f32 {
        // SAFETY: the caller's contract.
        unsafe { head.cast::<f32>().add(index).read_unaligned() }
    }
}

impl KvFormat for KvF16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, head: *const u8, vector: usize) -> S::F {
        // SAFETY: the caller's contract.
        unsafe { s.load_f16_ptr(head.add(vector * LANES * 2)) }
    }

    #[inline(always)]
    unsafe fn quarters<S: Simd>(s: S, heads: [*const u8; 4], vector: usize, _: S::F) -> [S::F; 4] {
        // SAFETY: the caller's contract.
        unsafe { s.load_f16_quarters(places(heads, vector * LANES * 2)) }
    }

    #[inline(always)]
    unsafe fn element<S: Simd>(s: S, head: *const u8, index: usize) -> f32 {
        // SAFETY: the caller's contract.
        s.widen_f16(unsafe { head.cast::<u16>().add(index).read_unaligned() })
    }
}

impl KvFormat for KvQ8 {
    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, head: *const u8, vector: usize) -> S::F {
        let (block, half) = (vector / 2, vector % 2);
        // SAFETY: the caller's contract: the block of this vector is inside the head.
        unsafe {
            let block = head.add(block * Q8_0_BYTES);
            let scale = s.widen_f16(block.cast::<u16>().read_unaligned());
            s.mul(s.load_i8_ptr(block.add(2 + half * LANES)), s.splat(scale))
        }
    }

    #[inline(always)]
    unsafe fn load_pair<S: Simd>(s: S, head: *const u8, pair: usize) -> [S::F; 2] {
        // SAFETY: the caller's contract: the block is inside the head. One scale serves both vectors.
        unsafe {
            let block = head.add(pair * Q8_0_BYTES);
            let scale = s.splat(s.widen_f16(block.cast::<u16>().read_unaligned()));
            [s.mul(s.load_i8_ptr(block.add(2)), scale), s.mul(s.load_i8_ptr(block.add(2 + LANES)), scale)]
        }
    }

    #[inline(always)]
    unsafe fn factors<S: Simd>(s: S, heads: [*const u8; 4], pair: usize) -> S::F {
        let blocks = places(heads, pair * Q8_0_BYTES);
        // SAFETY: the caller's contract: the blocks are inside the heads.
        let scale = |block: *const u8| unsafe { block.cast::<u16>().read_unaligned() };
        s.spread_f16([scale(blocks[0]), scale(blocks[1]), scale(blocks[2]), scale(blocks[3])])
    }

    #[inline(always)]
    unsafe fn quarters<S: Simd>(s: S, heads: [*const u8; 4], vector: usize, factors: S::F) -> [S::F; 4] {
        let at = vector / 2 * Q8_0_BYTES + 2 + vector % 2 * LANES;
        // SAFETY: the caller's contract: the halves of blocks are inside the heads.
        let [a, b, c, d] = unsafe { s.load_i8_quarters(places(heads, at)) };
        [s.mul(a, factors), s.mul(b, factors), s.mul(c, factors), s.mul(d, factors)]
    }

    #[inline(always)]
    unsafe fn element<S: Simd>(s: S, head: *const u8, index: usize) -> f32 {
        // SAFETY: the caller's contract.
        unsafe {
            let block = head.add(index / Q8_0_LEN * Q8_0_BYTES);
            let quant = *block.add(2 + index % Q8_0_LEN) as i8;
            s.widen_f16(block.cast::<u16>().read_unaligned()) * f32::from(quant)
        }
    }
}

/// The addresses `bytes` further on.
#[inline(always)]
fn places(heads: [*const u8; 4], bytes: usize) -> [*const u8; 4] {
    let [a, b, c, d] = heads;
    [a.wrapping_add(bytes), b.wrapping_add(bytes), c.wrapping_add(bytes), d.wrapping_add(bytes)]
}

/// Widens a block of rows into `tile`, `[64, stride]`; elements from `dim` to `stride` become zero. `stride` is
/// `dim` rounded up to sixteen.
#[inline(always)]
pub(super) fn widen_rows<S: Simd, F: KvFormat>(s: S, rows: &Addresses, dim: usize, tile: &mut [f32]) {
    let stride = dim.next_multiple_of(LANES);
    for (row, line) in rows.iter().zip(tile.chunks_exact_mut(stride)) {
        for (vector, place) in line[..dim].as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            // SAFETY: the address is one of `addresses`, the vector lies inside the head.
            s.store(place, unsafe { F::load(s, *row, vector) });
        }
        for index in dim / LANES * LANES..dim {
            // SAFETY: as above.
            line[index] = unsafe { F::element(s, *row, index) };
        }
        line[dim..].fill(0.0);
    }
}

/// Widens a block of rows into `tile`, `[dim, 64]`: element by element, the 64 rows side by side.
#[inline(always)]
pub(super) fn widen_columns<S: Simd, F: KvFormat>(s: S, rows: &Addresses, dim: usize, tile: &mut [f32]) {
    for (group, addresses) in rows.as_chunks::<LANES>().0.iter().enumerate() {
        for vector in 0..dim / LANES {
            let mut square = [s.splat(0.0); LANES];
            for i in 0..LANES {
                // SAFETY: the address is one of `addresses`, the vector lies inside the head.
                square[i] = unsafe { F::load(s, addresses[i], vector) };
            }
            let lines = tile[vector * LANES * BLOCK..].chunks_exact_mut(BLOCK);
            for (column, line) in s.transpose(&square).into_iter().zip(lines) {
                s.store(&mut line.as_chunks_mut::<LANES>().0[group], column);
            }
        }
        for index in dim / LANES * LANES..dim {
            for (i, address) in addresses.iter().enumerate() {
                // SAFETY: as above.
                tile[index * BLOCK + group * LANES + i] = unsafe { F::element(s, *address, index) };
            }
        }
    }
}
