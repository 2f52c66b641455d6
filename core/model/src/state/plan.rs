//! From declared states and [`PoolOptions`] to rooms: which states share pages, and how many pages each group needs.

use super::{PoolOptions, StateId, StatePlan, StateRoom, StateSpec};
use crate::{ModelError, Result};
use menagerie_formulas::KvType;

/// States with equal windows: they keep the rows of the same tokens, so that they share page tables and page numbers.
#[derive(Debug)]
pub(super) struct GroupPlan {
    pub(super) window: Option<usize>,
    pub(super) states: Vec<StateId>,
    pub(super) pages: usize,
    /// Bytes of a page in all states of the group.
    pub(super) page_bytes: usize,
}

/// Rooms and groups of a pool.
#[derive(Debug)]
pub(super) struct PoolLayout {
    pub(super) plan: StatePlan,
    pub(super) groups: Vec<GroupPlan>,
    /// Group by state id; absent for per-sequence states.
    pub(super) group_of: Vec<Option<usize>>,
    /// Bytes of the blocks of a sequence.
    pub(super) block_bytes: usize,
}

impl PoolLayout {
    /// Lays the states out.
    ///
    /// # Errors
    /// [`ModelError::State`] names a state that cannot be stored as requested, or a size that cannot be addressed.
    pub(super) fn new(specs: Vec<StateSpec>, options: &PoolOptions) -> Result<Self> {
        check(options)?;
        let page_len = options.page_len();
        let mut layout = Self {
            plan: StatePlan { specs: Vec::new(), rooms: Vec::with_capacity(specs.len()), page_len },
            groups: Vec::new(),
            group_of: Vec::with_capacity(specs.len()),
            block_bytes: 0,
        };
        for (index, spec) in specs.iter().enumerate() {
            let (room, bytes) = room(spec, options)?;
            let group = match spec {
                StateSpec::PerToken { window, .. } => {
                    Some(layout.join(*window, StateId(index), bytes, &room))
                }
                StateSpec::PerSequence { .. } => {
                    layout.block_bytes = layout.block_bytes.saturating_add(bytes);
                    None
                }
            };
            layout.plan.rooms.push(room);
            layout.group_of.push(group);
        }
        layout.plan.specs = specs;
        Ok(layout)
    }

    /// Adds a per-token state to the group of its window.
    fn join(&mut self, window: Option<usize>, state: StateId, page_bytes: usize, room: &StateRoom) -> usize {
        let StateRoom::Pages { pages, .. } = *room else { return 0 };
        let index = self.groups.iter().position(|group| group.window == window).unwrap_or_else(|| {
            self.groups.push(GroupPlan { window, states: Vec::new(), pages, page_bytes: 0 });
            self.groups.len() - 1
        });
        let group = &mut self.groups[index];
        group.states.push(state);
        group.page_bytes = group.page_bytes.saturating_add(page_bytes);
        index
    }

    /// Bytes in all.
    fn bytes(&self) -> u64 {
        let pages = |group: &GroupPlan| (group.page_bytes as u64).saturating_mul(group.pages as u64);
        let blocks = self.plan.rooms.iter().find_map(|room| match room {
            StateRoom::Blocks { blocks, .. } => Some(*blocks as u64),
            StateRoom::Pages { .. } => None,
        });
        let blocks = (self.block_bytes as u64).saturating_mul(blocks.unwrap_or(0));
        self.groups.iter().map(pages).fold(blocks, u64::saturating_add)
    }
}

impl PoolOptions {
    /// Bytes of memory that a pool for these states takes: the request of [`super::StatePool::new`] to the backend,
    /// computed in the same way.
    ///
    /// # Errors
    /// As [`super::StatePool::new`], for states and options.
    pub fn memory(&self, specs: &[StateSpec]) -> Result<u64> {
        let one = PoolLayout::new(specs.to_vec(), self)?.bytes();
        one.checked_mul(self.sets as u64).ok_or_else(|| {
            ModelError::State(format!("{} sets of {one} bytes each cannot be addressed", self.sets))
        })
    }

    /// Rows of a page: no more than a sequence can have.
    pub(super) fn page_len(&self) -> usize {
        self.page_len.min(self.max_sequence_tokens).min(self.capacity_tokens)
    }

    /// Pages of a group. A state without a window gets the pages that the sequences' tokens fill, wherever their last
    /// pages end. A state with a window gets no more than the windows of all sequences and a step need, wherever they
    /// begin on the pages.
    fn pages(&self, window: Option<usize>) -> usize {
        let page = self.page_len();
        let others = self.sequences - 1;
        let tokens = self.capacity_tokens.min(self.max_sequence_tokens.saturating_mul(self.sequences));
        let all = tokens.div_ceil(page).saturating_add(others);
        let Some(window) = window else { return all };
        let each = spanned(window.saturating_sub(1).saturating_add(self.step_tokens), page);
        let together = spanned(window, page)
            .saturating_mul(self.sequences)
            .saturating_add(self.step_tokens.div_ceil(page))
            .saturating_add(others);
        all.min(each.saturating_mul(self.sequences)).min(together)
    }
}

/// The most pages that `tokens` consecutive tokens use.
fn spanned(tokens: usize, page: usize) -> usize {
    tokens.saturating_sub(1).div_ceil(page).saturating_add(tokens.min(1))
}

fn check(options: &PoolOptions) -> Result<()> {
    let PoolOptions {
        kv_type: _,
        capacity_tokens,
        page_len,
        max_sequence_tokens,
        sequences,
        step_tokens,
        sets,
    } = *options;
    let numbers = [
        ("tokens of capacity", capacity_tokens),
        ("tokens per page", page_len),
        ("tokens per sequence", max_sequence_tokens),
        ("sequences", sequences),
        ("rows per step", step_tokens),
        ("state sets", sets),
    ];
    match numbers.iter().find(|(_, number)| *number == 0) {
        Some((what, _)) => Err(ModelError::State(format!("a pool of 0 {what} is empty; use 1 or more"))),
        None => Ok(()),
    }
}

/// Room of a state, and its bytes per page or block.
fn room(spec: &StateSpec, options: &PoolOptions) -> Result<(StateRoom, usize)> {
    match spec {
        StateSpec::PerToken { name, dtype, heads, head_dim, window } => {
            if *window == Some(0) {
                return Err(ModelError::State(format!(
                    "{name}: a window of 0 tokens has no visible token; use 1 or more, or no window"
                )));
            }
            let (dtype, page_len) = (dtype.unwrap_or(options.kv_type), options.page_len());
            let head = head_bytes(name, dtype, *head_dim)?;
            let pages = options.pages(*window);
            let page = head.checked_mul(*heads).and_then(|row| row.checked_mul(page_len));
            let total = page.and_then(|page| page.checked_mul(pages));
            let page = page.filter(|_| is_addressable(total, pages));
            let page = page.ok_or_else(|| too_large(spec, &format!("{} tokens", options.capacity_tokens)))?;
            Ok((StateRoom::Pages { dtype, heads: *heads, head_dim: *head_dim, pages }, page))
        }
        StateSpec::PerSequence { .. } => {
            let (elements, blocks) = (spec.elements(), options.sequences);
            let block = elements.checked_mul(4);
            let total = block.and_then(|block| block.checked_mul(blocks));
            let block = block.filter(|_| is_addressable(total, blocks));
            let block =
                block.ok_or_else(|| too_large(spec, &format!("{blocks} blocks of {elements} elements")))?;
            Ok((StateRoom::Blocks { elements, blocks }, block))
        }
    }
}

fn head_bytes(name: &str, dtype: KvType, head_dim: usize) -> Result<usize> {
    dtype.row_bytes(head_dim).ok_or_else(|| {
        ModelError::State(format!(
            "{name}: heads of {head_dim} elements cannot be stored as {}; choose f16 or f32",
            dtype.name()
        ))
    })
}

/// Whether a buffer of so many bytes and places can be allocated and numbered at all.
fn is_addressable(bytes: Option<usize>, places: usize) -> bool {
    bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) && u32::try_from(places).is_ok()
}

fn too_large(spec: &StateSpec, what: &str) -> ModelError {
    ModelError::State(format!(
        "{}: {what} do not fit into the address space; use a smaller context",
        spec.name()
    ))
}
