//! [`BranchInput`], [`ParallelInput`] and [`HeldStream`]: the rows that the parts of a block read.

names! {
    /// What a branch reads.
    #[derive(Eq, Hash)]
    pub enum BranchInput {
        /// The residual stream as it stands.
        Stream = "stream",
        /// The input of the whole block (parallel blocks).
        BlockInput = "block-input",
    }
}

names! {
    /// What a second feed-forward reads.
    #[derive(Eq, Hash)]
    pub enum ParallelInput {
        /// What the first one gets, through its norm.
        Branch = "branch",
        /// The residual stream as it stands.
        Stream = "stream",
        /// The input of the whole block.
        BlockInput = "block-input",
    }
}

names! {
    /// Which of two streams a block holds while a stack renews the other (HRM, Wang et al., 2025).
    #[derive(Eq, Hash)]
    pub enum HeldStream {
        /// The one that was renewed last: the other stack runs now.
        Current = "current",
        /// The one that was held: the same stack runs again.
        Held = "held",
    }
}
