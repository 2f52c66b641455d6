//! [`BlockChain`]: the blocks of one sequence, and which of them are on disk.

use super::address::BlockAddress;
use menagerie_model::RopeRegime;
use std::collections::BTreeSet;

/// Blocks between two snapshots in a prompt, and between two in an answer. A snapshot may be as large as the rows of
/// many blocks.
const PROMPT_SPACING: usize = 16;
const ANSWER_SPACING: usize = 4;

/// The blocks of one sequence.
#[derive(Clone, Debug)]
pub(crate) struct BlockChain {
    root: BlockAddress,
    /// Of the whole blocks, as far as they were needed.
    addresses: Vec<BlockAddress>,
    block_tokens: usize,
    /// Blocks at the beginning that are on disk, or on their way there.
    pub(crate) stored: usize,
    /// The rope regime of its keys.
    pub(crate) regime: RopeRegime,
    /// The folder of the files.
    pub(crate) group: String,
    /// Positions in the prompt where a chunk ends, so that a snapshot of the states there can be stored; ascending.
    pub(crate) snapshots: BTreeSet<usize>,
}

impl BlockChain {
    /// The chain of the whole blocks of `tokens`, from the address of the empty sequence in this rope regime.
    pub(crate) fn new(
        (root, regime): (BlockAddress, RopeRegime),
        block_tokens: usize,
        tokens: &[u32],
    ) -> Self {
        let group = root.group();
        let (addresses, snapshots) = (Vec::new(), BTreeSet::new());
        let mut chain = Self { root, addresses, block_tokens, stored: 0, regime, group, snapshots };
        chain.extend(tokens);
        chain
    }

    /// The number of whole blocks whose addresses are known.
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// The address of the block at this index.
    pub(crate) fn address(&self, index: usize) -> BlockAddress {
        self.addresses.get(index).copied().unwrap_or(self.root)
    }

    /// Adds the whole blocks of `tokens`, which continue the tokens so far.
    pub(crate) fn extend(&mut self, tokens: &[u32]) {
        for block in tokens.chunks_exact(self.block_tokens).skip(self.addresses.len()) {
            let parent = self.addresses.last().copied().unwrap_or(self.root);
            self.addresses.push(parent.next(block));
        }
    }

    /// Chooses where snapshots of the states are stored in a prompt of `tokens` tokens: at its last whole block, before
    /// its last token, every [`PROMPT_SPACING`] blocks, and where the blocks on disk end, because there another prompt
    /// differs from this one.
    pub(crate) fn place_snapshots(&mut self, tokens: usize) {
        let last = tokens.saturating_sub(1) / self.block_tokens;
        let spaced = (1..=last / PROMPT_SPACING).map(|number| number * PROMPT_SPACING);
        let places = spaced.chain([last, self.stored.min(last)]).filter(|blocks| *blocks > 0);
        self.snapshots = places.map(|blocks| blocks * self.block_tokens).collect();
    }

    /// Whether a snapshot of the states after `tokens` tokens is stored, if the prompt has `prompt` tokens.
    pub(crate) fn wants_snapshot(&self, tokens: usize, prompt: usize) -> bool {
        let spaced = tokens > prompt && tokens.is_multiple_of(ANSWER_SPACING * self.block_tokens);
        tokens > 0 && (spaced || self.snapshots.contains(&tokens))
    }

    /// The next position of an answer, from `tokens` tokens on, at which a snapshot of the states is stored.
    pub(crate) fn next_in_answer(&self, tokens: usize) -> usize {
        tokens.next_multiple_of(ANSWER_SPACING * self.block_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_depend_on_everything_before() {
        let root = (BlockAddress([1; 32]), RopeRegime::Short);
        let tokens: Vec<u32> = (0..19).collect();
        let mut chain = BlockChain::new(root, 4, &tokens[..10]);
        assert_eq!(chain.len(), 2);
        let two = chain.address(1);
        chain.extend(&tokens);
        assert_eq!((chain.len(), chain.address(1)), (4, two));
        assert_eq!(chain.address(3), BlockChain::new(root, 4, &tokens).address(3));
        for at in 0..16 {
            let mut other = tokens.clone();
            other[at] += 1;
            let other = BlockChain::new(root, 4, &other);
            let same: Vec<bool> = (0..4).map(|block| other.address(block) == chain.address(block)).collect();
            let expected: Vec<bool> = (0..4).map(|block| block < at / 4).collect();
            assert_eq!(same, expected, "token {at}");
        }
        assert_ne!(
            BlockChain::new((BlockAddress([2; 32]), RopeRegime::Short), 4, &tokens).address(0),
            chain.address(0)
        );
    }

    #[test]
    fn snapshots_are_at_the_end_every_few_blocks_and_where_others_differ() {
        let tokens = vec![0; 4 * 40];
        let mut chain = BlockChain::new((BlockAddress([1; 32]), RopeRegime::Short), 4, &tokens);
        chain.stored = 21;
        chain.place_snapshots(tokens.len());
        assert_eq!(chain.snapshots.iter().copied().collect::<Vec<_>>(), [64, 84, 128, 156]);
        assert!(chain.wants_snapshot(84, 160) && !chain.wants_snapshot(88, 160));
        assert!(chain.wants_snapshot(176, 160) && !chain.wants_snapshot(164, 160));
    }
}
