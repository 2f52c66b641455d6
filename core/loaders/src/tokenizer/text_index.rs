//! From text to id, for a vocabulary whose texts are in one buffer.

use std::hash::{BuildHasher, RandomState};

/// A hash table of ids; the texts stay in the vocabulary. Four to eight bytes per token.
#[derive(Debug)]
pub(crate) struct TextIndex {
    slots: Vec<u32>,
    hasher: RandomState,
}

const FREE: u32 = u32::MAX;

impl TextIndex {
    /// An empty index with room for `count` texts.
    pub(crate) fn with_capacity(count: usize) -> Self {
        let slots = count.saturating_mul(3).div_euclid(2).max(8).next_power_of_two();
        Self { slots: vec![FREE; slots], hasher: RandomState::new() }
    }

    /// Adds a text; returns the id that already has it, if any (then nothing is added). `text_of` gives the text of
    /// an added id.
    pub(crate) fn insert<'a>(
        &mut self,
        text: &str,
        id: u32,
        text_of: impl Fn(u32) -> &'a str,
    ) -> Option<u32> {
        let at = self.slot_of(text, text_of)?;
        match self.slots.get_mut(at) {
            Some(slot) if *slot == FREE => {
                *slot = id;
                None
            }
            Some(slot) => Some(*slot),
            None => None,
        }
    }

    /// The id of a text.
    pub(crate) fn get<'a>(&self, text: &str, text_of: impl Fn(u32) -> &'a str) -> Option<u32> {
        let id = *self.slots.get(self.slot_of(text, text_of)?)?;
        (id != FREE).then_some(id)
    }

    /// The slot of the text, or the free one for it.
    fn slot_of<'a>(&self, text: &str, text_of: impl Fn(u32) -> &'a str) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let hash = self.hasher.hash_one(text);
        let mut at = usize::try_from(hash & u64::from(u32::MAX)).ok()? & mask;
        for _ in 0..self.slots.len() {
            let id = *self.slots.get(at)?;
            if id == FREE || text_of(id) == text {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_put_in_and_nothing_else() {
        let texts: Vec<String> = (0..5000).map(|i| format!("t{i}")).collect();
        let mut index = TextIndex::with_capacity(texts.len());
        for (id, text) in texts.iter().enumerate() {
            assert_eq!(index.insert(text, id as u32, |i| &texts[i as usize]), None);
        }
        for (id, text) in texts.iter().enumerate() {
            assert_eq!(index.get(text, |i| &texts[i as usize]), Some(id as u32));
        }
        assert_eq!(index.get("t5000", |i| &texts[i as usize]), None);
        assert_eq!(index.insert("t17", 9, |i| &texts[i as usize]), Some(17));
    }
}
