//! [`BranchInput`] and [`ParallelInput`]: the rows that the parts of a block read.

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
