//! [`RowBuffers`]: the scratch of steps; it keeps dropped rows for reuse.

use menagerie_model::{ModelError, Rows};
use std::sync::{Arc, Mutex, PoisonError};

/// The most buffers that are kept; a step of a deep model has about a dozen alive at once.
const KEPT: usize = 24;

/// Dropped rows, for reuse.
#[derive(Debug, Default)]
pub(crate) struct RowBuffers {
    free: Mutex<Vec<Vec<f32>>>,
}

/// Values of rows on the host; they return to their [`RowBuffers`] when dropped.
#[derive(Debug)]
pub(crate) struct HostRows {
    values: Vec<f32>,
    home: Arc<RowBuffers>,
}

impl RowBuffers {
    /// A buffer of `len` elements with any contents: the caller writes all of it.
    fn take(&self, len: usize) -> Vec<f32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = free.iter().enumerate().filter(|(_, buffer)| buffer.capacity() >= len);
        let best = fitting.min_by_key(|(_, buffer)| buffer.capacity()).map(|(index, _)| index);
        // A much larger buffer is left for rows that need it.
        let best = best.filter(|index| free[*index].capacity() / 8 <= len);
        let taken = best.map(|index| free.swap_remove(index));
        drop(free);
        let mut buffer = taken.unwrap_or_default();
        buffer.resize(len, 0.0);
        buffer
    }

    fn give(&self, buffer: Vec<f32>) {
        if buffer.capacity() == 0 {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(buffer);
        if free.len() > KEPT {
            let smallest = free.iter().enumerate().min_by_key(|(_, buffer)| buffer.capacity());
            if let Some((index, _)) = smallest {
                free.swap_remove(index);
            }
        }
    }
}

impl HostRows {
    /// `len` elements with any contents, to be written by a kernel.
    pub(crate) fn unwritten(home: &Arc<RowBuffers>, len: usize) -> Self {
        Self { values: home.take(len), home: Arc::clone(home) }
    }

    /// These values.
    pub(crate) fn of(home: &Arc<RowBuffers>, values: Vec<f32>) -> Self {
        Self { values, home: Arc::clone(home) }
    }

    /// The values.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    /// The values, to change.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Takes the values out.
    pub(crate) fn taken(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.values)
    }

    /// As `[rows, cols]`.
    pub(crate) fn into_rows(self, rows: usize, cols: usize) -> Rows {
        Rows::new(Box::new(self), rows, cols)
    }
}

impl Drop for HostRows {
    fn drop(&mut self) {
        self.home.give(std::mem::take(&mut self.values));
    }
}

/// The values of rows that this backend made.
pub(crate) fn values(rows: &Rows) -> Result<&[f32], ModelError> {
    rows.data::<HostRows>().map(HostRows::values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_rows_are_used_again() {
        let home = Arc::new(RowBuffers::default());
        let first = HostRows::of(&home, vec![1.0; 100]);
        let address = first.values().as_ptr();
        drop(first);
        let second = HostRows::unwritten(&home, 90);
        assert_eq!((second.values().as_ptr(), second.values().len()), (address, 90));
        let other = HostRows::unwritten(&home, 90);
        assert_ne!(other.values().as_ptr(), address);
    }

    #[test]
    fn values_that_are_taken_are_moved_and_nothing_is_left() {
        let home = Arc::new(RowBuffers::default());
        let mut rows = HostRows::of(&home, vec![1.0; 100]);
        let address = rows.values().as_ptr();
        let taken = rows.taken();
        drop(rows);
        assert_eq!((taken.as_ptr(), taken.len(), home.free.lock().unwrap().len()), (address, 100, 0));
    }

    #[test]
    fn a_small_row_does_not_take_a_large_buffer() {
        let home = Arc::new(RowBuffers::default());
        let address = {
            let large = HostRows::of(&home, vec![0.0; 10_000]);
            large.values().as_ptr()
        };
        assert_ne!(HostRows::unwritten(&home, 10).values().as_ptr(), address);
    }

    #[test]
    fn only_so_many_are_kept() {
        let home = Arc::new(RowBuffers::default());
        let all: Vec<HostRows> = (1..100).map(|len| HostRows::of(&home, vec![0.0; len])).collect();
        drop(all);
        assert_eq!(home.free.lock().unwrap().len(), KEPT);
    }
}
