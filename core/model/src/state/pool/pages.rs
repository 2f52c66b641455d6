//! [`Pages`]: where the token rows of a sequence are in a state's memory.

use crate::{ModelError, Result};
use std::ops::Range;

/// Where the token rows of a sequence are: position `p` is row `p % page_len` of page
/// `pages[p / page_len - first_page]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages<'a> {
    /// Which page of the sequence `pages[0]` is: earlier ones have left the window.
    pub first_page: usize,
    /// Numbers of the pages.
    pub pages: &'a [u32],
    /// Token rows of a page.
    pub page_len: usize,
}

/// Consecutive positions whose rows are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRun {
    /// The first row, counted over all pages of the state's memory.
    pub row: usize,
    /// Rows.
    pub len: usize,
}

impl<'a> Pages<'a> {
    /// The rows of `positions`, in order, in as few runs as the pages allow.
    ///
    /// # Errors
    /// [`ModelError::State`] if some were dropped from the window, or were not prepared.
    pub fn runs(self, positions: Range<usize>) -> Result<impl Iterator<Item = RowRun> + 'a> {
        let (page_len, first) = (self.page_len, self.first_page * self.page_len);
        let held = first..first + self.pages.len() * page_len;
        if !positions.is_empty() && (positions.start < held.start || positions.end > held.end) {
            return Err(ModelError::State(format!(
                "rows of positions {positions:?} were requested, but pages exist for {held:?} only"
            )));
        }
        let mut at = positions.start;
        Ok(std::iter::from_fn(move || {
            let (page, offset) = (at / page_len, at % page_len);
            let len = (page_len - offset).min(positions.end.saturating_sub(at));
            let row = *self.pages.get(page.checked_sub(self.first_page)?)? as usize * page_len + offset;
            at += len;
            (len > 0).then_some(RowRun { row, len })
        }))
    }
}
