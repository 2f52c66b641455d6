//! [`PageGroup`]: which pages of a group of states belong to which sequence, as numbers.

use crate::state::StateId;
use crate::state::plan::GroupPlan;

/// Pages of states with equal windows: a page has the same number in all of them.
#[derive(Debug)]
pub(super) struct PageGroup {
    /// Tokens that stay visible, the newest included; absent = all.
    pub(super) window: Option<usize>,
    /// The states.
    pub(super) states: Vec<StateId>,
    /// Bytes of a page in all of them.
    pub(super) page_bytes: usize,
    /// Sequences that use each page.
    users: Vec<u32>,
    /// Free pages; the next one last, so that pages are reused before new memory is touched.
    free: Vec<u32>,
}

impl PageGroup {
    pub(super) fn new(plan: GroupPlan) -> Self {
        let GroupPlan { window, states, pages, page_bytes } = plan;
        Self { window, states, page_bytes, users: vec![0; pages], free: (0..pages as u32).rev().collect() }
    }

    /// Takes a free page.
    pub(super) fn take(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.users[page as usize] = 1;
        Some(page)
    }

    /// One more sequence uses the page.
    pub(super) fn share(&mut self, page: u32) {
        self.users[page as usize] += 1;
    }

    /// Whether another sequence uses the page too.
    pub(super) fn is_shared(&self, page: u32) -> bool {
        self.users[page as usize] > 1
    }

    /// One sequence fewer uses the page.
    pub(super) fn release(&mut self, page: u32) {
        let users = &mut self.users[page as usize];
        *users -= 1;
        if *users == 0 {
            self.free.push(page);
        }
    }

    /// Pages.
    pub(super) fn pages(&self) -> usize {
        self.users.len()
    }

    /// Free pages.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// The first token that a query after `len` tokens still sees.
    pub(super) fn first_visible(&self, len: usize) -> usize {
        self.window.map_or(0, |window| (len + 1).saturating_sub(window))
    }
}
