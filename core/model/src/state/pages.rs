//! [`Arena`]: pages of token rows shared by all sequences of a store.

use crate::{ModelError, Result};

/// One buffer per state, cut into pages of `page_len` rows; a page has the same number in every buffer.
pub(super) struct Arena {
    /// Buffer per state; empty for states that are not per token.
    pub(super) buffers: Vec<Vec<u8>>,
    /// Sequences that use each page.
    users: Vec<u32>,
    /// Pages nobody uses, the next one last.
    free: Vec<u32>,
    page_len: usize,
}

impl Arena {
    /// `pages` pages; buffers come zeroed from the system and cost no memory until they are written.
    pub(super) fn new(row_bytes: &[Option<usize>], page_len: usize, pages: usize) -> Self {
        let buffers = row_bytes.iter().map(|bytes| vec![0; bytes.unwrap_or(0) * page_len * pages]).collect();
        Self { buffers, users: vec![0; pages], free: (0..pages as u32).rev().collect(), page_len }
    }

    /// Takes a free page.
    pub(super) fn take(&mut self) -> Result<u32> {
        let page = self.free.pop().ok_or_else(|| {
            ModelError::State(format!(
                "all {} pages of {} tokens are in use; free a sequence or make the store larger",
                self.users.len(),
                self.page_len
            ))
        })?;
        self.users[page as usize] = 1;
        Ok(page)
    }

    /// One more sequence uses the page.
    pub(super) fn share(&mut self, page: u32) {
        self.users[page as usize] += 1;
    }

    /// One sequence fewer uses the page.
    pub(super) fn release(&mut self, page: u32) {
        let users = &mut self.users[page as usize];
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.free.push(page);
        }
    }

    /// The page itself if only one sequence uses it, else a copy that only this sequence uses.
    pub(super) fn exclusive(&mut self, page: u32) -> Result<u32> {
        if self.users[page as usize] <= 1 {
            return Ok(page);
        }
        let copy = self.take()?;
        for buffer in &mut self.buffers {
            let bytes = buffer.len() / self.users.len();
            let from = page as usize * bytes;
            buffer.copy_within(from..from + bytes, copy as usize * bytes);
        }
        self.release(page);
        Ok(copy)
    }

    /// Pages in use.
    pub(super) fn used(&self) -> usize {
        self.users.len() - self.free.len()
    }
}
