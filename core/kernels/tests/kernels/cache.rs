//! Caches of one sequence for the tests of attention.

use menagerie_kernels::*;
use menagerie_random::SplitMix64;

pub(crate) fn noise(count: usize, seed: u64) -> Vec<f32> {
    SplitMix64::new(seed).values(count, 0.0, 1.0)
}

/// A cache of one sequence: `total` rows spread over pages in a scrambled order.
#[derive(Clone)]
pub(crate) struct Cache {
    kind: KvType,
    heads: usize,
    dim: usize,
    bytes: Vec<u8>,
    page_len: usize,
    pages: Vec<u32>,
}

impl Cache {
    pub(crate) fn new(
        kind: KvType,
        (heads, dim): (usize, usize),
        total: usize,
        page_len: usize,
        seed: u64,
    ) -> Cache {
        let pages = total.div_ceil(page_len).max(1);
        let order: Vec<u32> = (0..pages as u32).rev().map(|page| page + 1).collect();
        let row_bytes = kind.row_bytes(dim).unwrap() * heads;
        // Rows that are not written must never be used: as f32 and as f16 they are NaN.
        let mut bytes = vec![0xff; (pages + 2) * page_len * row_bytes];
        for position in 0..total {
            let row = order[position / page_len] as usize * page_len + position % page_len;
            let values: Vec<f32> =
                noise(heads * dim, seed + position as u64).iter().map(|v| v * 2.0).collect();
            store_rows(kind, &values, &mut bytes[row * row_bytes..(row + 1) * row_bytes]).unwrap();
        }
        Cache { kind, heads, dim, bytes, page_len, pages: order }
    }

    /// A cache with other elements.
    pub(crate) fn map(mut self, total: usize, seed: u64, change: impl Fn(f32) -> f32) -> Cache {
        for position in 0..total {
            let own = noise(self.heads * self.dim, seed + position as u64);
            self.store(position, &own.into_iter().map(&change).collect::<Vec<f32>>());
        }
        self
    }

    fn store(&mut self, position: usize, values: &[f32]) {
        let row_bytes = self.kind.row_bytes(self.dim).unwrap() * self.heads;
        let row = self.pages[position / self.page_len] as usize * self.page_len + position % self.page_len;
        store_rows(self.kind, values, &mut self.bytes[row * row_bytes..(row + 1) * row_bytes]).unwrap();
    }

    /// Makes rows no numbers.
    pub(crate) fn spoil(&mut self, positions: std::ops::Range<usize>) {
        positions.for_each(|position| self.store(position, &vec![f32::NAN; self.heads * self.dim]));
    }

    /// Overwrites the pages before `page` and drops them.
    pub(crate) fn drop_before(&mut self, page: usize) -> KvRows<'_> {
        let page_bytes = self.kind.row_bytes(self.dim).unwrap() * self.heads * self.page_len;
        for &gone in &self.pages[..page] {
            self.bytes[gone as usize * page_bytes..][..page_bytes].fill(0xff);
        }
        KvRows { pages: &self.pages[page..], first_page: page, ..self.rows() }
    }

    pub(crate) fn rows(&self) -> KvRows<'_> {
        let Cache { kind, heads, dim, bytes, page_len, pages } = self;
        KvRows {
            kind: *kind,
            heads: *heads,
            head_dim: *dim,
            bytes,
            page_len: *page_len,
            pages,
            first_page: 0,
        }
    }
}

pub(crate) fn shape(heads: usize, kv_heads: usize, dims: (usize, usize), mask: Mask) -> AttentionShape {
    let scale = 1.0 / (dims.0 as f32).sqrt();
    AttentionShape {
        heads,
        kv_heads,
        key_dim: dims.0,
        value_dim: dims.1,
        scale,
        softcap: None,
        mask,
        alibi: None,
    }
}

pub(crate) fn caches(
    shape: &AttentionShape,
    kind: KvType,
    total: usize,
    page_len: usize,
    seed: u64,
) -> (Cache, Cache) {
    let keys = Cache::new(kind, (shape.kv_heads, shape.key_dim), total, page_len, seed);
    (keys, Cache::new(kind, (shape.kv_heads, shape.value_dim), total, page_len, seed + 10_000))
}
